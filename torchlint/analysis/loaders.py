"""Where the batches of each DataLoader go: which of them are moved to a GPU, and where.

Works backwards.  From every expression that is moved to a GPU, through names, calls, containers,
``self.x``, parameters and returns of this file, to the loop or ``next()`` that takes it out of
something, and on to the ``DataLoader(...)`` calls that this something holds.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.loops import Role
from torchlint.analysis.reach import callee
from torchlint.analysis.reached_returns import may_reach
from torchlint.analysis.torch_api import GRAPH_LOADERS
from torchlint.analysis.values import Device, Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchlint.analysis.classes import Class
    from torchlint.analysis.engines import Run
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

LOADER = "torch.utils.data.DataLoader"
LOADERS = (LOADER, *GRAPH_LOADERS)

Step: TypeAlias = int | str | None  # an index, a key, or "any member"
Path: TypeAlias = tuple[Step, ...]


class _Level(enum.Enum):
    """How far back from the moved tensor a search has come."""

    __hash__ = object.__hash__  # of searches, each place asks for it: by the name, it is slow

    BATCH = enum.auto()  # still at (part of) what some loop may have given
    SOURCE = enum.auto()  # at what is iterated: a loader here is the one


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """One place where the batches of a loader are moved to a GPU.

    ``device`` is CUDA where it always is one, MAYBE where it depends.  ``target`` is the
    expression that names the device, if any.  ``prepared``: a framework moves them.  ``parts``
    are the ways from a batch to what is moved, as far as they are known: () is the whole batch.
    """

    node: cst.Call
    device: Device
    target: cst.BaseExpression | None = None
    prepared: bool = False
    parts: frozenset[Path] = frozenset()
    program: Program | None = None  # of another file, where the move stands there
    maker: bool = False  # it makes what moves each batch, and can be told to do so without waiting

    def code(self, here: Program) -> str:
        """Return the source of the move, on one line, cut where it is long."""
        return (self.program or here).brief(self.node, 60)


_State: TypeAlias = tuple[cst.CSTNode, _Level, Path]


@dataclass(frozen=True, slots=True, eq=False)
class _Elsewhere:
    """Where a search goes on in another file."""

    loaders: Loaders
    node: cst.CSTNode
    level: _Level
    path: Path


_Found: TypeAlias = "_State | _Elsewhere"

_MOVES = (".cuda(", ".to(", "device", ".prepare", ".type(")  # one of these stands in every move
_LOOPS = ("for ",)
_RUNS = ("ignite",)
_STATES = 800  # how much of a file one search looks at
_LONGEST = 6  # steps of a path that are kept
_NO_BATCH = frozenset(
    {Kind.NUMBER, Kind.BOOL, Kind.STRING, Kind.NONE, Kind.DTYPE, Kind.DEVICE, Kind.MODULE,
     Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER, Kind.CLASS}
)  # fmt: skip
_NO_SOURCE = _NO_BATCH | {Kind.DATASET}
_MAKES_NEW = re.compile(
    r"torch\.(zeros|ones|full|empty|eye|arange|linspace|rand|randn|randint|randperm)(_like)?$"
)
_NEW_MEMORY = frozenset(
    {"tensor", "from_numpy", "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack",
     "clone", "where", "one_hot", "interpolate", "pad"}
)  # fmt: skip
# What a tensor tells of itself.
_TELLS = frozenset({"shape", "ndim", "dtype", "device", "is_cuda", "requires_grad", "layout"})
_GIVES_OTHERS = frozenset(
    {"keys", "parameters", "named_parameters", "buffers", "named_buffers", "modules", "children",
     "named_modules", "named_children", "state_dict", "split", "strip", "join", "format", "size"}
)  # fmt: skip
_SAME_ELEMENTS = frozenset({"list", "tuple", "iter", "reversed", "sorted", "set"})
_HANDED_ON = 3  # functions that an object is passed to one after the other
_CALLS = 2  # functions around a `next()` that are called again and again
_NEXT = ("next", "__next__")
_ABOUT = frozenset({"len", "range", "int", "float", "str", "isinstance", "type", "print", "id"})
_OF_LOADER = frozenset({"dataset", "sampler", "batch_sampler", "collate_fn", "batch_size"})
_PREPARES = frozenset({"prepare", "prepare_data_loader", "setup_dataloaders"})
_PREPARERS = ("accelerate.", "lightning.", "lightning_fabric.", "ignite.distributed.")


class Loaders:
    """The DataLoaders of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._known: dict[tuple[int, _Level, Path], list[_Found]] = {}  # what is before a state
        self._homes: dict[int, Program] = {}  # of loaders that other files make

    @cached_property
    def calls(self) -> list[cst.Call]:
        """Every ``DataLoader(...)``, in the order of the file."""
        return list(self._program.calls_of(*LOADERS))

    def moves(self, loader: cst.Call) -> list[Move]:
        """Where the batches of a loader are moved to a GPU."""
        own = self._moves.get(id(loader), [])
        found = list(own)
        for other in self._related(_MOVES):
            there = other.loaders.moves_elsewhere.get(id(loader), ())
            found += (replace(move, target=None, program=other) for move in there)
        return found

    def _related(self, words: tuple[str, ...]) -> Iterator[Program]:
        project = self._program.project
        return iter(()) if project is None else project.related(self._program, words)

    @property
    def moves_elsewhere(self) -> dict[int, list[Move]]:
        """The moves of this file, by the loaders of any file whose batches they move."""
        return self._moves

    @cached_property
    def _moves(self) -> dict[int, list[Move]]:
        found: dict[int, list[Move]] = {}
        if not self.calls and self._program.project is None:
            return found
        for call in self._program.index.of(cst.Call):
            for move, source, level in self._sites(call):
                for loader, paths in self._reach(source, level):
                    parts = frozenset(path[1:] for path in paths)
                    found.setdefault(id(loader), []).append(replace(move, parts=parts))
        return found

    def giving(self, node: cst.BaseExpression) -> list[cst.Call]:
        """Return the loaders whose batches an expression is, or is made of."""
        some = self.calls or self._program.project is not None
        return [loader for loader, _ in self._reach(node, _Level.BATCH)] if some else []

    def sources(self, node: cst.BaseExpression) -> list[cst.Call]:
        """Return the loaders that an expression is, or takes its elements from."""
        return [loader for loader, _ in self._reach(node, _Level.SOURCE)]

    def home(self, loader: cst.Call) -> Program:
        """Return the program of the file that makes a loader whose batches this file handles."""
        return self._homes.get(id(loader), self._program)

    def loops(self, loader: cst.Call) -> list[cst.For]:
        """Return the loops of this file over the batches of a loader."""
        return self._loops.get(id(loader), [])

    def loops_everywhere(self, loader: cst.Call) -> list[tuple[Program, cst.For]]:
        """Return the loops over the batches of a loader, each with the file it stands in.

        But for those behind a ``return``.
        """
        programs = (self._program, *self._related(_LOOPS))
        found = ((one, loop) for one in programs for loop in one.loaders.loops(loader))
        return [(one, loop) for one, loop in found if not one.unreached.is_passed_by(loop)]

    def roles(self, loader: cst.Call) -> frozenset[Role]:
        """Return what the loops over a loader are for, in whichever file they stand."""
        roles = {one.loops.role(loop) for one, loop in self.loops_everywhere(loader)}
        roles |= {one.engines.role(run) for one, run in self.runs_everywhere(loader)}
        return frozenset(roles)

    def runs(self, loader: cst.Call) -> list[Run]:
        """Return the runs of engines of this file over the batches of a loader."""
        return self._runs.get(id(loader), [])

    def runs_everywhere(self, loader: cst.Call) -> list[tuple[Program, Run]]:
        """Return the runs of engines over the batches of a loader, each with its file."""
        programs = (self._program, *self._related(_RUNS))
        return [(one, run) for one in programs for run in one.loaders.runs(loader)]

    @cached_property
    def _runs(self) -> dict[int, list[Run]]:
        found: dict[int, list[Run]] = {}
        for run in self._program.engines.runs:
            for loader in self.sources(run.data):
                found.setdefault(id(loader), []).append(run)
        return found

    @cached_property
    def _loops(self) -> dict[int, list[cst.For]]:
        found: dict[int, list[cst.For]] = {}
        if not self.calls and self._program.project is None:
            return found
        for loop in self._program.index.of(cst.For):
            for loader, _ in self._reach(loop.iter, _Level.SOURCE):
                found.setdefault(id(loader), []).append(loop)
        return found

    # -- places that move something ----------------------------------------------------------

    def _sites(self, call: cst.Call) -> Iterator[tuple[Move, cst.BaseExpression, _Level]]:
        """Yield the moves that one call makes, each with what is moved."""
        for run in self._program.engines.moving.get(id(call), ()):
            device = None if run.device is None else self._program.values.device(run.device)
            if device is not None and device.gpu:
                move = replace(self._move(call, device, run.device), maker=True)
                yield move, run.data, _Level.SOURCE
        func = call.func
        first = call.args[0].value if call.args and not call.args[0].star else None
        if isinstance(func, cst.Attribute):
            match func.attr.value:
                case "cuda":
                    yield self._move(call, Device.CUDA, None), func.value, _Level.BATCH
                    return
                case "to" | "copy_" | "type" if first is not None or call.args:
                    device, target = self._destination(call, func)
                    if device.gpu:
                        moved = first if func.attr.value == "copy_" else func.value
                        assert moved is not None
                        yield self._move(call, device, target), moved, _Level.BATCH
                    return
                case name if name in _PREPARES and self._prepares(func):
                    for arg in call.args:
                        move = Move(call, Device.MAYBE, prepared=True)
                        yield move, arg.value, _Level.SOURCE
                    return
                case _:
                    pass
        yield from self._through_function(call)

    def _destination(
        self, call: cst.Call, func: cst.Attribute
    ) -> tuple[Device, cst.BaseExpression | None]:
        """Where ``x.to(...)``, ``x.type(...)`` or ``buffer.copy_(x)`` puts what it moves."""
        values = self._program.values
        match func.attr.value:
            case "copy_":
                return values.of(func.value).device, None
            case "type":
                return self._program.devices.of_tensor_type(call.args[0].value), None
        for arg in call.args:
            if arg.keyword is None or arg.keyword.value == "device":
                device = values.device(arg.value)
                if device is not None:
                    return device, arg.value
        return Device.UNKNOWN, None

    def _through_function(
        self, call: cst.Call
    ) -> Iterator[tuple[Move, cst.BaseExpression, _Level]]:
        """``torch.as_tensor(x, device=d)``, ``to_device(batch, device)`` of another file."""
        program, func = self._program, call.func
        if len(call.args) < 2 or (isinstance(func, cst.Name) and program.is_builtin(func)):
            return  # it takes a device and something to move
        if not any(self._may_be_device(arg) for arg in call.args):
            return  # most calls: this is cheaper to see than where they lead
        if program.calls.target(call) or program.calls.elsewhere(call):
            return  # what moves the batch is inside it
        name = program.qualified(func)
        if name in LOADERS or _MAKES_NEW.match(name):
            return
        if program.value(call.func).kind is Kind.CLASS:
            return
        device, target = self._device_argument(call)
        if target is None or not device.gpu:
            return
        if not name.startswith("torch.") and device is Device.CUDA:
            device = Device.MAYBE
        for arg in call.args:
            if arg.value is not target and not arg.star:
                yield self._move(call, device, target), arg.value, _Level.BATCH

    def _device_argument(self, call: cst.Call) -> tuple[Device, cst.BaseExpression | None]:
        """Return the argument of a function that certainly names a device."""
        for arg in filter(self._may_be_device, call.args):
            sure = _is_called_device(arg) or isinstance(arg.value, cst.Call)
            if sure or self._program.value(arg.value).kind is Kind.DEVICE:
                return self._program.values.device(arg.value) or Device.UNKNOWN, arg.value
        return Device.UNKNOWN, None

    def _may_be_device(self, arg: cst.Arg) -> bool:
        """Whether an argument may be a device, by what it is called; most are seen not to be."""
        if type(arg.value) is cst.Call:
            call = self._program.qualified(arg.value.func)
            return call == "torch.device" or _is_called_device(arg)
        last = dotted(arg.value).rpartition(".")[2].lower()
        named = len(last) == 1 or any(word in last for word in ("dev", "gpu", "cuda"))
        return named or _is_called_device(arg)

    def _prepares(self, func: cst.Attribute) -> bool:
        """Whether a method belongs to a framework's object, which moves what a loader gives."""
        made = self._program.flow.reaching(func.value) if isinstance(func.value, cst.Name) else ()
        return any(
            isinstance(binding.value, cst.Call)
            and self._program.qualified(binding.value.func).startswith(_PREPARERS)
            for binding in made
        )

    def _move(self, call: cst.Call, device: Device, target: cst.BaseExpression | None) -> Move:
        sure = device is Device.CUDA and not self._depends(call)
        return Move(call, Device.CUDA if sure else Device.MAYBE, target)

    def _depends(self, call: cst.Call) -> bool:
        """Whether a condition decides on the move, which may ask for a GPU."""
        child: cst.CSTNode = call
        for above in self._program.index.ancestors(call):
            match above:
                case cst.If() if child is not above.test:
                    return True
                case cst.IfExp() if child is not above.test:
                    return True
                case cst.FunctionDef() | cst.Lambda():
                    return False
                case _:
                    child = above
        return False

    # -- the search --------------------------------------------------------------------------

    def _reach(self, source: cst.CSTNode, level: _Level) -> list[tuple[cst.Call, set[Path]]]:
        """Find the loaders that an expression comes from, with the ways from each to it."""
        found: dict[int, tuple[cst.Call, set[Path]]] = {}
        seen: set[tuple[int, _Level, Path]] = set()
        todo: list[tuple[Loaders, cst.CSTNode, _Level, Path]] = [(self, source, level, ())]
        while todo and len(seen) < _STATES:
            home, node, level, path = todo.pop()
            path = path[:_LONGEST]
            key = (id(node), level, path)
            if key in seen:
                continue
            seen.add(key)
            if type(node) is cst.Call and home.makes(node):
                if level is _Level.SOURCE:
                    found.setdefault(id(node), (node, set()))[1].add(path)
                    if home is not self:
                        self._homes[id(node)] = home.program
                continue
            for state in home.before(node, level, path):
                if isinstance(state, _Elsewhere):
                    todo.append((state.loaders, state.node, state.level, state.path))
                else:
                    todo.append((home, *state))
        return list(found.values())

    @property
    def program(self) -> Program:
        """The file whose loaders these are."""
        return self._program

    def makes(self, call: cst.Call) -> bool:
        """Whether a call of this file makes a loader."""
        return self._program.qualified(call.func) in LOADERS

    def elsewhere(self, states: Iterable[_Found]) -> Iterator[_Found]:
        """Yield states of a search in this file, as a search in another file goes on with them."""
        for state in states:
            yield state if isinstance(state, _Elsewhere) else _Elsewhere(self, *state)

    def _imported(self, name: str, level: _Level, path: Path) -> Iterator[_Found]:
        """Yield what another file of the project gives a name."""
        project = self._program.project
        found = None if project is None else project.define(self._program, name)
        if found is not None and found.binding.kind is Bind.ASSIGN:
            loaders = found.program.loaders
            yield from loaders.elsewhere(loaders.bound(found.binding, level, path))

    def bound(self, binding: Binding, level: _Level, path: Path) -> Iterator[_Found]:
        """Yield what a binding of this file gives a name, and what is put into it."""
        yield from self._bound(binding, level, path)
        yield from self._put_in((id(binding.scope), binding.name), level, path)

    def before(self, node: cst.CSTNode, level: _Level, path: Path) -> list[_Found]:
        """Return what the value of an expression of this file was made of."""
        key = (id(node), level, path)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = list(self._before(node, level, path))
        return found

    def _before(self, node: cst.CSTNode, level: _Level, path: Path) -> Iterator[_Found]:
        """Yield what the value of an expression was made of."""
        match node:
            case cst.Name():
                yield from self._name(node, level, path)
            case cst.Attribute():
                yield from self._attribute(node, level, path)
            case cst.Subscript():
                yield from self._subscript(node, level, path)
            case cst.Call():
                yield from self._call(node, level, path)
            case cst.Tuple() | cst.List() | cst.Set():
                chosen = path[0] if path else None
                for place, element in enumerate(node.elements):
                    if not isinstance(chosen, int) or chosen == place:
                        yield element.value, level, path[1:]
            case cst.Dict():
                for item in node.elements:
                    wanted = path[0] if path else None
                    key = literal(item.key) if isinstance(item, cst.DictElement) else None
                    if wanted is None or key is None or wanted == key:
                        yield item.value, level, path[1:]
            case cst.ListComp() | cst.SetComp() | cst.GeneratorExp():
                yield node.elt, level, path[1:]
            case cst.DictComp():
                yield node.value, level, path[1:]
            case cst.IfExp():
                yield node.body, level, path
                yield node.orelse, level, path
            case cst.BinaryOperation() if level is _Level.BATCH:
                pass  # a new tensor, which nothing pins
            case cst.BooleanOperation() | cst.BinaryOperation():
                yield node.left, level, path
                yield node.right, level, path
            case cst.UnaryOperation() if level is _Level.SOURCE:
                yield node.expression, level, path
            case cst.NamedExpr():
                yield node.value, level, path
            case _:
                pass

    def _name(self, node: cst.Name, level: _Level, path: Path) -> Iterator[_Found]:
        for binding in self._program.flow.reaching(node):
            yield from self._bound(binding, level, path)
        owner = self._program.index.scope(node).owner(node.value)
        if owner is not None:
            yield from self._put_in((id(owner), node.value), level, path)

    def _bound(self, binding: Binding, level: _Level, path: Path) -> Iterator[_Found]:
        value = binding.value
        if value is None:
            return
        match binding.kind:
            case Bind.ASSIGN:
                yield value, level, (*binding.path, *path)
            case Bind.WITH:
                yield value, level, path
            case Bind.AUGMENT if isinstance(value, cst.AugAssign):
                yield value.value, level, path
                yield value.target, level, path
            case Bind.FOR:
                if not self._looks_once(binding.node):
                    yield value, _Level.SOURCE, (None, *binding.path, *path)
            case Bind.PARAMETER if isinstance(value, cst.Param):
                yield from self._passed(value, level, path)
            case Bind.FROM:
                name = self._program.names.root(binding.name, binding.scope)
                yield from self._imported(name, level, path)
            case _:
                pass

    def _looks_once(self, target: cst.CSTNode) -> bool:
        """Whether a loop ends in its first turn: it only looks at what there is."""
        for above in self._program.index.ancestors(target):
            if isinstance(above, cst.For):
                last = above.body.body[-1] if above.body.body else None
                if isinstance(last, cst.SimpleStatementLine):
                    last = last.body[-1]
                return isinstance(last, cst.Break)
            if isinstance(above, cst.CompFor):
                return False
        return False

    def _passed(self, param: cst.Param, level: _Level, path: Path) -> Iterator[_Found]:
        program = self._program
        function = program.parent(program.parent(param) or param)
        if isinstance(function, cst.Lambda):
            yield from self._passed_to_lambda(function, param, level, path)
        if not isinstance(function, cst.FunctionDef):
            return
        if param is function.params.star_arg:
            yield from self._passed_starred(function, level, path)
            return
        for site in program.calls.sites(function):
            given = program.calls.passed(function, param, site)
            if given is not None:
                yield given, level, path
        for given in program.engines.given(function, param):
            yield given, _Level.SOURCE, (None, *path)
        if path and isinstance(path[0], str) and not program.sites_everywhere(function):
            for given in self._passed_to_base(function, path[0]):
                yield given, level, path[1:]
        if program.project is not None:
            project = program.project
            for other, passed in project.passed(program, function, param):
                yield _Elsewhere(other.loaders, passed, level, path)
            for other, passed in project.passed_to_object(program, function, param):
                yield _Elsewhere(other.loaders, passed, level, path)

    def _passed_starred(
        self, function: cst.FunctionDef, level: _Level, path: Path
    ) -> Iterator[_Found]:
        """Yield what is passed for ``*args``, as one of its items: ``f(x, y)``, ``f(*batch)``."""
        program = self._program
        named = len(function.params.posonly_params) + len(function.params.params)
        before = named - program.is_method(function)
        wanted = path[0] if path else None
        for other, site in program.sites_everywhere(function):
            for place, arg in enumerate(site.args, -before):
                if arg.star == "*":
                    state = (arg.value, level, (None, *path[1:]))
                elif (
                    arg.keyword is None and not arg.star and wanted in (None, place) and place >= 0
                ):
                    state = (arg.value, level, path[1:])
                else:
                    continue
                yield state if other is program else _Elsewhere(other.loaders, *state)

    def _passed_to_base(self, method: cst.FunctionDef, key: str) -> Iterator[cst.BaseExpression]:
        """Yield what methods of a base that is not seen are passed by a keyword.

        ``trainer.fit(data=loader)`` may hand all of its keywords on to a method of the class, as
        one dictionary: ``def train(self, options)``.
        """
        program = self._program
        owner = program.classes.around(method)
        if owner is None or owner.methods.get(method.name.value) is not method:
            return
        for call in program.index.of(cst.Call):
            given = [a.value for a in call.args if a.keyword is not None and a.keyword.value == key]
            if not given or not isinstance(call.func, cst.Attribute):
                continue
            name = call.func.attr.value
            made = program.classes.named(program.value(call.func.value).type)
            if made is owner and program.classes.method(owner, name) is None:
                yield from given

    def _passed_to_lambda(
        self, function: cst.Lambda, param: cst.Param, level: _Level, path: Path
    ) -> Iterator[_Found]:
        """Yield what ``map(lambda x: ..., xs)`` and calls by name pass."""
        places = (i for i, item in enumerate(function.params.params) if item is param)
        place = next(places, -1)
        program = self._program
        above = program.parent(function)
        call = None if above is None else program.parent(above)
        if isinstance(above, cst.Arg) and isinstance(call, cst.Call):
            if dotted(call.func) == "map" and 0 <= place < len(call.args) - 1:
                yield call.args[place + 1].value, level, (None, *path)
            return
        for site in program.calls.by_name(_target_of(above)):
            assert isinstance(site.func, cst.Name)
            meant = (binding.value for binding in program.flow.reaching(site.func))
            if function in meant and 0 <= place < len(site.args):
                yield site.args[place].value, level, path

    def _attribute(self, node: cst.Attribute, level: _Level, path: Path) -> Iterator[_Found]:
        program = self._program
        name = node.attr.value
        receiver = node.value
        owner = None
        if isinstance(receiver, cst.Name) and receiver.value == "self":
            owner = program.classes.around(node)
        elif name not in _OF_LOADER:
            value = program.value(receiver)
            owner = program.classes.named(value.type)
            if owner is None and ":" in value.type:
                yield from self._kept_elsewhere(node, value.type, level, path)
                return
        if owner is not None:
            yield from self.kept(owner, name, level, path, self._makers(receiver, owner))
        elif name_of_other := self._other_module(node):
            yield from self._imported(name_of_other, level, path)
        elif level is _Level.BATCH and name not in _TELLS:
            yield receiver, level, ()

    def _other_module(self, node: cst.Attribute) -> str:
        """Return the qualified name of ``module.name``, or "" of other attributes."""
        name = self._program.qualified(node)
        outside = name and name[0] != "." and not name.startswith(("torch.", "numpy."))
        return name if outside and self._program.project is not None else ""

    def _kept_elsewhere(
        self, node: cst.Attribute, type_name: str, level: _Level, path: Path
    ) -> Iterator[_Found]:
        project = self._program.project
        found = None if project is None else project.class_of(type_name)
        if found is not None:
            loaders, owner = found[0].loaders, found[1]
            makers = self._makers(node.value, owner)
            yield from loaders.elsewhere(loaders.kept(owner, node.attr.value, level, path, makers))

    def _makers(self, instance: cst.CSTNode, owner: Class, depth: int = 0) -> list[cst.Call]:
        """Return the calls that made the instance of a class; none where that is not known."""
        if isinstance(instance, cst.Call):
            runs = callee(self._program, instance)
            made = runs is not None and runs[1] is owner.methods.get("__init__")
            return [instance] if made else []
        if isinstance(instance, cst.IfExp):
            chosen = [self._makers(e, owner, depth) for e in (instance.body, instance.orelse)]
            return [*chosen[0], *chosen[1]] if all(chosen) else []
        if not isinstance(instance, cst.Name) or depth > _HANDED_ON:
            return []
        makers: list[cst.Call] = []
        for binding in self._program.flow.reaching(instance):
            known: list[cst.Call] = []
            for given in self._bound(binding, _Level.SOURCE, ()):
                state = given if isinstance(given, _Elsewhere) else _Elsewhere(self, *given)
                found = state.loaders._makers(state.node, owner, depth + 1)  # noqa: SLF001  its own
                if state.path or not found:
                    return []
                known += found
            if not known:
                return []
            makers += known
        return makers

    def kept(
        self,
        owner: Class,
        name: str,
        level: _Level,
        path: Path,
        makers: Sequence[cst.Call] = (),
    ) -> Iterator[_Found]:
        """Yield what the instances of a class of this file keep under a name.

        ``makers`` are the calls of the constructor that made the instance, where they are known:
        what none of them comes to is not kept.
        """
        program = self._program
        for store in program.classes.stores(owner, name):
            if store.value is None or isinstance(store.value, cst.AugAssign):
                continue
            if (
                not makers
                or store.method is not owner.methods["__init__"]
                or any(may_reach(program, store.method, maker, store.node) for maker in makers)
            ):
                yield store.value, level, (*store.path, *path)
        yield from self._put_in((id(owner.node), name), level, path)
        method = program.classes.method(owner, name)
        if method is not None and program.is_property(method):
            yield from self._results(method, level, path)

    def _subscript(self, node: cst.Subscript, level: _Level, path: Path) -> Iterator[_Found]:
        step = _step(node)
        if isinstance(step, slice):
            yield node.value, level, path
        else:
            yield node.value, level, (step, *path)

    def _call(self, node: cst.Call, level: _Level, path: Path) -> Iterator[_Found]:
        program = self._program
        func = node.func
        args = [arg.value for arg in node.args]
        if isinstance(func, cst.Name) and program.index.scope(func).owner(func.value) is None:
            yield from self._builtin(func.value, args, level, path)
            return
        target = program.calls.target(node)
        if target is None and isinstance(func, cst.Attribute) and func.attr.value in _NEXT:
            if self._repeats(node):
                yield func.value, _Level.SOURCE, (None, *path)
            return
        if level is _Level.BATCH and _copies(program.qualified(func), func):
            return  # what the loader pinned stays behind
        if target is not None and target.name.value != "__init__":
            yield from self._results(target, level, path, node)
            return
        chosen = () if target is not None else program.calls.chosen(node)
        if chosen:
            for one in chosen:
                yield from self._results(one, level, path, node)
            return
        other = None if target is not None else program.calls.elsewhere(node)
        if other is not None and other.function.name.value != "__init__":
            loaders = other.program.loaders
            yield from loaders.elsewhere(loaders.results(other.function, level, path, node))
            return
        if _MAKES_NEW.match(program.qualified(func)):
            return
        unwanted = _NO_BATCH if level is _Level.BATCH else _NO_SOURCE
        value = program.value(node)
        if target is None and value.kind in unwanted:
            return
        if level is _Level.SOURCE and value.kind is Kind.TENSOR and value.device.gpu:
            return  # a loop over what was kept of the batches does not load them
        yield from self._unknown(node, level, path)

    def _unknown(self, node: cst.Call, level: _Level, path: Path) -> Iterator[_Found]:
        """Yield what a call of something outside of the file is given and called on."""
        func = node.func
        if isinstance(func, cst.Attribute):
            match func.attr.value, path:
                case "items", (_, 0, *_):
                    return
                case "items", (step, 1, *rest):
                    yield func.value, level, (step, *rest)
                    return
                case "values", _:
                    yield func.value, level, path
                    return
                case name, _ if name in _GIVES_OTHERS:
                    return
                case "get" | "pop", _ if node.args:
                    key = literal(node.args[0].value)
                    yield func.value, level, (key, *path)
                    return
                case _:
                    yield func.value, level, ()
        for arg in node.args:
            yield arg.value, level, path if level is _Level.SOURCE else ()

    def _builtin(
        self, name: str, args: list[cst.BaseExpression], level: _Level, path: Path
    ) -> Iterator[_Found]:
        match name, path:
            case "enumerate", (_, 0, *_):
                return
            case "enumerate", (step, 1, *rest) if args:
                yield args[0], level, (step, *rest)
            case "zip", (step, int(place), *rest) if place < len(args):
                yield args[place], level, (step, *rest)
            case "enumerate" | "zip", _:
                for arg in args:
                    yield arg, level, path[:1]
            case "next", _ if args:
                if self._repeats(args[0]):
                    yield args[0], _Level.SOURCE, (None, *path)
            case (("map" | "filter"), _):
                for arg in args[1:]:
                    yield arg, level, path[:1]
            case "dict", _:
                for arg in args:
                    yield arg, level, path[1:]
                    yield arg, level, path
            case _ if name in _SAME_ELEMENTS:
                for arg in args:
                    yield arg, level, path
            case _ if name not in _ABOUT:
                for arg in args:
                    yield arg, level, path if level is _Level.SOURCE else ()
            case _:
                pass

    def _repeats(self, node: cst.CSTNode) -> bool:
        """Whether ``next()`` runs again and again, not once or now and then to look at a batch."""
        context = self._program.context(node)
        if context.guarded:
            return self._goes_through(node)
        return context.role is not Role.OTHER or self._runs_again(node)

    def _goes_through(self, node: cst.CSTNode) -> bool:
        """Whether each turn of an evaluation draws, for as many as there are batches.

        That may be done now and then, but goes through the loader as a loop over it does.
        """
        loops = self._program.loops
        for above in self._program.index.ancestors(node):
            match above:
                case cst.For(iter=turns) | cst.While(test=turns):
                    return loops.role(above) is Role.EVAL and self._counts_batches(turns)
                case cst.If() | cst.FunctionDef():
                    return False
                case _:
                    pass
        return False

    def _counts_batches(self, turns: cst.BaseExpression) -> bool:
        """``range(len(loader))``, also by a name: ``turns = min(turns, len(loader))``."""
        program = self._program
        named = (program.flow.reaching(name) for name in program.index.below(turns, cst.Name))
        given = (one.value for found in named for one in found if one.kind is Bind.ASSIGN)
        return any(
            isinstance(call.func, cst.Name)
            and call.func.value == "len"
            and any(program.value(arg.value).kind is Kind.LOADER for arg in call.args)
            for place in (turns, *given)
            if place is not None
            for call in program.index.below(place, cst.Call)
        )

    def _runs_again(self, node: cst.CSTNode, depth: int = 0) -> bool:
        """Whether a place stands in a loop, or in a function that is called in one."""
        if self._in_loop(node):
            return True
        function = self._program.function(node)
        sites = [] if function is None else self._program.calls.sites(function)
        return depth < _CALLS and any(self._runs_again(site, depth + 1) for site in sites)

    def _in_loop(self, node: cst.CSTNode) -> bool:
        for above in self._program.index.ancestors(node):
            if isinstance(above, cst.For | cst.While):
                return True
            if isinstance(above, cst.FunctionDef):
                return False
        return False

    def results(
        self, function: cst.FunctionDef, level: _Level, path: Path, site: cst.Call
    ) -> Iterator[_Found]:
        """Yield what a function of this file returns to a call in another file."""
        yield from self._results(function, level, path, site)

    def _results(
        self, function: cst.FunctionDef, level: _Level, path: Path, site: cst.Call | None = None
    ) -> Iterator[_Found]:
        """Yield what a function of this file returns (to a call), or yields one by one."""
        for item in self._program.returns(function):
            reached = site is None or may_reach(self._program, function, site, item)
            if item.value is not None and reached:
                yield item.value, level, path
        for one in self._program.index.below(function.body, cst.Yield):
            if self._program.function(one) is not function or one.value is None:
                continue
            if isinstance(one.value, cst.From):
                yield one.value.item, level, path
            else:
                yield one.value, level, path[1:]

    # -- what is put into containers ---------------------------------------------------------

    def _put_in(self, holder: tuple[int, str], level: _Level, path: Path) -> Iterator[_Found]:
        wanted = path[0] if path else None
        for key, value in self._stored.get(holder, ()):
            if wanted is None or key is None or key == wanted:
                yield value, level, path[1:]

    @cached_property
    def _stored(self) -> dict[tuple[int, str], list[tuple[Step, cst.BaseExpression]]]:
        """``loaders["train"] = x``, ``loaders.append(x)``: by scope or class, and name."""
        found: dict[tuple[int, str], list[tuple[Step, cst.BaseExpression]]] = {}
        index = self._program.index
        for node in index.of(cst.Subscript):
            target = index.parent(node)
            statement = None if target is None else index.parent(target)
            if not (isinstance(target, cst.AssignTarget) and isinstance(statement, cst.Assign)):
                continue
            holder = self._holder(node.value)
            step = _step(node)
            if holder is not None and not isinstance(step, slice):
                found.setdefault(holder, []).append((step, statement.value))
        for call, func in self._program.method_calls("append", "add"):
            holder = self._holder(func.value)
            if holder is not None and call.args:
                found.setdefault(holder, []).append((None, call.args[0].value))
        return found

    def _holder(self, node: cst.BaseExpression) -> tuple[int, str] | None:
        program = self._program
        match node:
            case cst.Name():
                owner = program.index.scope(node).owner(node.value)
                return None if owner is None else (id(owner), node.value)
            case cst.Attribute(value=cst.Name(value="self")):
                around = program.classes.around(node)
                return None if around is None else (id(around.node), node.attr.value)
            case _:
                return None


def _is_called_device(arg: cst.Arg) -> bool:
    """Whether an argument is passed as ``device``, or by a name that ends in it."""
    keyword = None if arg.keyword is None else arg.keyword.value
    return "device" in (keyword, dotted(arg.value).rpartition(".")[2])


def _target_of(statement: cst.CSTNode | None) -> str:
    """Return the name that a plain assignment gives."""
    match statement:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return name
        case _:
            return ""


def _step(node: cst.Subscript) -> Step | slice:
    """Return the constant that a subscript asks for; a ``slice`` where it takes a part."""
    if len(node.slice) != 1:
        return slice(None)
    part = node.slice[0].slice
    if not isinstance(part, cst.Index):
        return slice(None)
    match part.value:
        case cst.Integer(value=text) if text.isdigit():
            return int(text)
        case cst.SimpleString():
            return literal(part.value)
        case _:
            return None


def _copies(name: str, func: cst.BaseExpression) -> bool:
    """Whether a call makes a tensor or an array in new memory of what it is given.

    What `torch.from_numpy` is given is an array, which no loader pins.
    """
    if name.startswith(("numpy.", "torch.")):
        last = name.rpartition(".")[2]
        return name.startswith("numpy.") or last in _NEW_MEMORY or last.endswith("Tensor")
    return isinstance(func, cst.Attribute) and func.attr.value in ("numpy", "clone")
