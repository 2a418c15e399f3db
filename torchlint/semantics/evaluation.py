"""Connected files evaluated together, scope by scope, until nothing that crosses scopes changes.

Modules run in the order of their sizes, or where they are imported; functions where they are first
called, then those that nobody calls; and in between the scopes that read what has changed since.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import bound
from torchlint.semantics.calls import apply
from torchlint.semantics.cells import Cell, Cells, Unit, new_cells
from torchlint.semantics.classes import Classes
from torchlint.semantics.definitions import parameters
from torchlint.semantics.entering import enter
from torchlint.semantics.expressions import EXPRESSIONS
from torchlint.semantics.loaders import batches_of
from torchlint.semantics.run import ASSUMED, GRAD, MODES, Key, Run
from torchlint.semantics.sets import Sets
from torchlint.semantics.statements import STATEMENTS
from torchlint.semantics.tables.torch_classes import CONTAINERS, LOADERS, WRAPPERS
from torchlint.semantics.tensors import device_of
from torchlint.semantics.values import (
    NEVER,
    NOTHING,
    At,
    Class,
    Device,
    Dictionary,
    Function,
    Instance,
    Iterator,
    Library,
    Nothing,
    Object,
    Place,
    Sequence,
    Text,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Iterator as Several
    from collections.abc import Sequence as List

    from torchlint.semantics.arguments import Argument, Passed
    from torchlint.semantics.classes import ClassOf
    from torchlint.semantics.files import Files
    from torchlint.semantics.values import Alternative
    from torchlint.syntax.index import Index
    from torchlint.syntax.module import Module
    from torchlint.syntax.scopes import Binding, Scope

_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
DEEPEST = 24  # calls of functions that run for the first time inside of one another


class Evaluation:
    """The values of connected files.

    ``values`` has those of expressions and ``reaching`` the bindings that a name may have its value
    from, by the identity of nodes; ``modes`` has what held around a call, and ``dead`` the
    statements that nothing leads to.  ``convention`` says what a name suggests, where nothing else
    is known of a parameter.
    """

    apply = staticmethod(apply)  # for modules that calls need themselves

    def __init__(self, files: Files, convention: Callable[[str], str]) -> None:
        self.files, self.convention = files, convention
        self.sets, self.classes = Sets(), Classes()
        self.values: dict[int, Value] = {}
        self.where: dict[int, Key | Cell] = {}
        self.reaching: dict[int, tuple[Binding, ...]] = {}
        self.modes: dict[int, dict[str, Value]] = {}
        self.dead: set[int] = set()
        self.units: dict[At, Unit] = {}
        self.attributes: Cells[tuple[At, str]] = defaultdict(Cell)
        self.enabled: dict[At, Value] = {}
        self.makings: dict[At, tuple[Unit, cst.Call, str]] = {}  # of objects of libraries
        self._names: Cells[tuple[int, int, str]] = defaultdict(Cell)
        self._elements: defaultdict[At, Cells[str]] = defaultdict(new_cells)
        self.partials: dict[At, tuple[Passed, ...]] = {}
        self._places: Cells[At] = defaultdict(Cell)
        self._wrapped: dict[At, Value] = {}
        self._captured: dict[int, bool] = {}
        self._queue: list[tuple[int, At]] = []
        self._numbered: list[Unit] = []
        self._depth = self._ended = 0
        for rank, module in enumerate(files.modules):
            self._open(At(rank, 0), module.tree, module, module.index.root)

    def release(self) -> None:
        """Forget all; scopes that call one another refer to one another."""
        for unit in self.units.values():
            unit.callers.clear()
        self.__dict__.clear()

    def evaluate(self) -> None:
        """Run everything until nothing changes."""
        for rank in range(len(self.files.modules)):
            self.run_file(rank)
        while True:
            self._settle()
            waiting = [unit for unit in self.units.values() if not unit.runs]
            if not waiting:
                return
            functions = [unit for unit in waiting if self.class_around(unit) is None]
            for unit in sorted(functions or waiting, key=self._rank):
                if not unit.runs:
                    self.run_unit(unit)

    def _rank(self, unit: Unit) -> tuple[int, int, int]:
        """What comes last comes first, it calls what comes before; methods keep their order."""
        importer = -self.units[At(unit.at.file, 0)].order
        cls = self.class_around(unit)
        above = unit.at if cls is None else cls.at
        return importer, -above.number, unit.at.number

    # -- running -----------------------------------------------------------------------------

    def run_file(self, rank: int) -> None:
        """Run a module, if it has not run yet."""
        unit = self.units[At(rank, 0)]
        if not unit.runs:
            self.run_unit(unit)

    def run_unit(self, unit: Unit) -> None:
        """Read a scope once."""
        unit.runs += 1
        unit.is_queued = False
        self._depth += 1
        run = Run(self, unit, EXPRESSIONS, STATEMENTS)
        if isinstance(unit.node, cst.Module):
            for statement in unit.node.body:
                run.execute(statement)
        else:
            enter(run)
            if isinstance(unit.node, cst.Lambda):
                run.give(unit.returned, unit.at, run.value(unit.node.body))
            else:
                run.block(unit.node.body)
                if run.is_alive:
                    run.give(unit.returned, unit.at, run.one(NOTHING))
        self._depth -= 1
        if not unit.order:
            self._ended += 1
            unit.order = self._ended

    def instances(self, run: Run, cls: ClassOf) -> Value:
        """Return the instances that are made of a class and of those that extend it."""
        return self.sets.all(run.read(one.instances) for one in (cls, *self.heirs(cls.at)))

    def changed(self, cell: Cell) -> None:
        """Have those who read a cell run again."""
        for number in cell.readers:
            unit = self._numbered[number]
            if not unit.is_queued and not unit.rests and unit.runs:
                unit.is_queued = True
                heapq.heappush(self._queue, (unit.order or 1_000_000_000, unit.at))

    def _settle(self) -> None:
        while self._queue:
            _, at = heapq.heappop(self._queue)
            unit = self.units[at]
            if unit.is_queued and not unit.rests:
                self.run_unit(unit)

    # -- scopes and names --------------------------------------------------------------------

    def value(self, node: cst.CSTNode | None) -> Value:
        """Return what an expression may be, NEVER where nothing leads to it."""
        return self.values.get(id(node), NEVER)

    def bindings(self, node: cst.CSTNode | None) -> tuple[Binding, ...]:
        """Return the bindings that a name may have its value from."""
        return self.reaching.get(id(node), ())

    def module(self, file: int) -> Module:
        """Return a file by its rank."""
        return self.files.modules[file]

    def index(self, file: int) -> Index:
        """Return what a walk over a file found out."""
        return self.files.modules[file].index

    def at(self, node: cst.CSTNode, file: int) -> At:
        """Return which node it is, of a file."""
        return At(file, self.index(file).order(node))

    def node(self, at: At) -> cst.CSTNode:
        """Return a node by its place."""
        return self.index(at.file).nodes[at.number]

    def library(self, node: cst.CSTNode) -> str:
        """Return the name of what a library has there, "" where it may be anything else."""
        match [one for one in self.value(node) if not isinstance(one, Nothing)]:
            case [Library(name=name)]:
                return name
        return ""

    @cached_property
    def different(self) -> tuple[Value, ...]:
        """What expressions may be, each value once: equal ones are identical."""
        return tuple({id(value): value for value in self.values.values()}.values())

    @cached_property
    def met(self) -> tuple[Alternative, ...]:
        """All that expressions may be, each once."""
        return tuple({id(one): one for value in self.different for one in value}.values())

    @cached_property
    def named(self) -> frozenset[str]:
        """What libraries have that is named anywhere."""
        return frozenset(one.name for one in self.met if isinstance(one, Library))

    @cached_property
    def texts(self) -> frozenset[str]:
        """All strings that are met."""
        return frozenset(one.value for one in self.met if isinstance(one, Text) and one.value)

    @cached_property
    def _called(self) -> dict[str, list[cst.Call]]:
        found: dict[str, list[cst.Call]] = {}
        for call, _ in self.files.of(cst.Call):
            found.setdefault(self.library(call.func), []).append(call)
        return found

    def calls(self, *names: str) -> list[cst.Call]:
        """Return the calls of functions of libraries, by their names, in order for each name."""
        return [call for name in names for call in self._called.get(name, ())]

    def is_dead(self, node: cst.CSTNode, file: int) -> bool:
        """Whether nothing leads to a node in its function: it stands behind a ``return``."""
        above = self.index(file).ancestors(node)
        return bool(self.dead) and any(id(one) in self.dead for one in above)

    def unit(self, node: cst.FunctionDef | cst.Lambda, around: Unit) -> Unit:
        """Return the scope that a function opens, which is made where it is defined."""
        at = self.at(node, around.at.file)
        found = self.units.get(at)
        if found is None:
            scope = around.module.index.opened(node)
            found = self._open(at, node, around.module, scope)
            cls = self.class_around(found)
            kind = self.classes.kind(cls.at) if cls else ""
            found.is_module_method = kind in ("module", "criterion") or around.is_module_method
        return found

    def _open(
        self, at: At, node: cst.Module | cst.FunctionDef | cst.Lambda, module: Module, scope: Scope
    ) -> Unit:
        unit = self.units[at] = Unit(len(self._numbered), at, node, module, scope)
        self._numbered.append(unit)
        return unit

    def class_around(self, unit: Unit) -> ClassOf | None:
        """Return the class whose method a function is."""
        parent = unit.scope.parent
        if parent is None or not isinstance(parent.node, cst.ClassDef):
            return None
        return self.classes.of(self.at(parent.node, unit.at.file))

    def name(self, file: int, owner: Scope, word: str) -> Cell:
        """Return the cell of a name of a scope."""
        key = file, self.index(file).order(owner.node), word
        return self._names[key]

    def global_name(self, file: int, word: str) -> Cell | None:
        """Return the cell of a name of a module, None where it has no such name."""
        module = self.module(file)
        if word in module.index.root.bindings:
            return self.name(file, module.index.root, word)
        return self.starred(file, module.index.root, word)

    def starred(self, file: int, scope: Scope, word: str) -> Cell | None:
        """Return the cell of what ``from x import *`` brings under a name."""
        found = self.files.star_home(file, scope, word)
        return None if found is None else self.name(found, self.index(found).root, word)

    def is_captured(self, file: int, scope: Scope) -> bool:
        """Whether functions inside of a scope may read its names."""
        found = self._captured.get(id(scope))
        if found is None:
            index = self.index(file)
            inside = (n for kind in _FUNCTIONS for n in index.below(scope.node, kind))
            found = self._captured[id(scope)] = any(node is not scope.node for node in inside)
        return found

    # -- what nodes made ---------------------------------------------------------------------

    def attribute(self, owner: At, name: str) -> Cell:
        """Return the cell of an attribute of a class, or of an object by its making."""
        return self.attributes[owner, name]

    def elements(self, made: At, key: str = "") -> Cell:
        """Return the cell of what is put into a container later, by its key where that is known."""
        return self._elements[made][key]

    def put_into(self, run: Run, made: At | None, key: str = "") -> Value:
        """Return what is put into a container later."""
        return NEVER if made is None else run.read(self.elements(made, key))

    def later(self, made: At) -> Cells[str]:
        """Return the cells of all that a container is given later, by key."""
        self.elements(made)
        return self._elements[made]

    def heirs(self, at: At) -> list[ClassOf]:
        """Return the classes that extend a class, by way of others too."""
        first = self.classes.of(at)
        found = list(first.heirs) if first else []
        for one in found:
            found += [heir for heir in one.heirs if heir not in found]
        return found

    def parent_of(self, run: Run) -> Value:
        """``super()``: the instance, whose own methods are passed over."""
        cls = self.class_around(run.unit)
        if cls is None:
            return self.sets.unknown
        own = [base for value in cls.bases for base in value if isinstance(base, Class)]
        found = [Instance(base.at, None) for base in own]
        return self.sets.of(found) if found else run.one(Object("super", None))

    def made(self, run: Run, node: cst.Call, name: str, held: Value = NEVER) -> None:
        """Take note of what makes an object of a library, and of what it holds if it wraps that."""
        self.makings[run.at(node)] = run.unit, node, name
        self._wrapped[run.at(node)] = held

    def place(self, run: Run, node: cst.Call, one: Instance | Object, device: Device) -> None:
        """Take note of where a model is moved to, with what it wraps."""
        value = run.one(Place(device))
        for each in (one, *(self.inside(one) if isinstance(one, Object) else ())):
            if isinstance(each, (Instance, Object)) and each.call is not None:
                run.give(self._places[each.call], run.at(node), value)

    def placed(self, run: Run, one: Instance | Object) -> Device:
        """Return where a model lives, UNKNOWN where it is not seen to be moved."""
        if one.call is None:
            return Device.UNKNOWN
        return device_of(run.read(self._places[one.call]))

    def inside(self, one: Object) -> Value:
        """Return what a wrapper holds, through wrappers of wrappers."""
        found: list[Alternative] = []
        seen: set[At] = set()
        waiting: list[Alternative] = [one]
        while waiting:
            each = waiting.pop()
            if not isinstance(each, Object) or each.kind not in WRAPPERS or each.call is None:
                found.append(each)
            elif each.call not in seen:  # an attribute may hold a model and its wrapper
                seen.add(each.call)
                waiting += self._wrapped.get(each.call, ())
        return self.sets.of(found)

    # -- calls -------------------------------------------------------------------------------

    def call_function(
        self, run: Run, node: cst.BaseExpression | None, one: Function, passed: List[Passed]
    ) -> Value:
        """Push arguments to a function, run it if it never ran, and return what it gives.

        ``node`` is what calls it, None where Python does by itself.
        """
        unit = self.units.get(one.at)
        if unit is None:
            return NEVER
        if run.is_alive:
            at = one.at if node is None else run.at(node)
            self._push(run, at, unit, one, passed)
            if isinstance(node, cst.Call):
                unit.callers[at] = run.unit, node
        if not unit.runs and self._depth < DEEPEST:
            self.run_unit(unit)
        value = run.read(unit.returned)
        given = run.read(unit.yielded)
        if given:
            return self.sets.nested(Iterator(given))
        return value

    def _push(self, run: Run, at: At, unit: Unit, one: Function, passed: List[Passed]) -> None:
        assert not isinstance(unit.node, cst.Module)
        params = list(parameters(unit.node))
        is_bound = one.owner is not None and self.class_around(unit) is not None
        stars = unit.node.params.star_arg, unit.node.params.star_kwarg
        named = {param.name.value for param in unit.node.params.kwonly_params}
        words = [param.name.value for param in params][is_bound:]
        names = [word for word in words if word not in named]
        arguments, is_sure, more = bound([*names, "*", *named], passed)
        for param in params[is_bound:]:
            word = param.name.value
            value = self._argument(param, arguments.get(word), is_sure=is_sure)
            run.give(unit.parameters[word], at, value)
        if isinstance(stars[0], cst.Param):
            value = self.sets.nested(Sequence("tuple", tuple(more), NEVER, None))
            run.give(unit.parameters[stars[0].name.value], at, value)
        if isinstance(stars[1], cst.Param):
            rest = [(word, one.value) for word, one in arguments.items() if word not in words]
            held = [each for one in passed if one.star == "**" for each in one.value]
            others = self.sets.all(one.element for one in held if isinstance(one, Dictionary))
            value = self.sets.nested(Dictionary(tuple(sorted(rest)), others, at))
            run.give(unit.parameters[stars[1].name.value], at, value)
        for mode in MODES:
            is_assumed = mode == GRAD and not isinstance(run.unit.node, cst.Module)
            value = run.mode(mode) or run.one(ASSUMED if is_assumed else MODES[mode])
            run.give(unit.modes[mode], at, value)

    def _argument(self, param: cst.Param, given: Argument | None, *, is_sure: bool) -> Value:
        if given is not None and given.always:
            return given.value
        default = self.value(param.default)
        rest = given.value if given else NEVER if is_sure and default else self.sets.unknown
        return self.sets.union(default, rest)

    def push(self, run: Run, function: At | None, values: List[Value], giver: At) -> Value:
        """Pass values to a function that a library calls, by place; return what it gives."""
        unit = self.units.get(function) if function else None
        if unit is None or isinstance(unit.node, cst.Module):
            return NEVER
        is_method = self.class_around(unit) is not None
        params = list(parameters(unit.node))[is_method:]
        for param, value in zip(params, values, strict=False):
            run.give(unit.parameters[param.name.value], giver, value)
        return run.read(unit.returned)

    def method_of(self, cls: At, *names: str) -> At | None:
        """Return the first of some methods that a class has, itself or by what it extends."""
        for name in names:
            found = self.classes.method(cls, name)
            if found is not None:
                return self.at(found[1], found[0].at.file)
        return None

    def call_method(self, run: Run, one: Alternative, name: str, without: Value) -> Value:
        """Call a method of an instance without arguments, as Python does; else ``without``."""
        if isinstance(one, Instance) and (at := self.method_of(one.cls, name)):
            return self.call_function(run, None, Function(at, one), ())
        return without

    # -- going through -----------------------------------------------------------------------

    def gone_through(self, run: Run, one: Alternative) -> Value:
        """Return what going through an instance or an object of a library gives."""
        found = batches_of(run, one)
        if found:
            return found
        if isinstance(one, Object) and one.kind in CONTAINERS:
            return self.put_into(run, one.call) or self.sets.unknown
        value = self.call_method(run, one, "__iter__", NEVER)
        inner = [each.element for each in value if isinstance(each, Iterator)]
        return self.sets.all(inner) or self.sets.unknown

    def item(self, run: Run, one: Alternative) -> Value:
        """Return an item of an instance: what its ``__getitem__`` gives."""
        if isinstance(one, Object) and one.kind in CONTAINERS:
            return self.put_into(run, one.call) or self.sets.unknown
        return self.call_method(run, one, "__getitem__", self.sets.unknown)

    def loader_of(self, value: Value) -> At | None:
        """Return the call of the loader whose batches a value goes through."""
        for one in value:
            if isinstance(one, Iterator) and one.loader is not None:
                return one.loader
            if isinstance(one, Object) and one.call is not None and one.kind in LOADERS:
                return one.call
            if isinstance(one, Instance) and one.call and self.classes.kind(one.cls) == "loader":
                return one.call
        return None

    # -- questions ---------------------------------------------------------------------------

    def callers(self, function: At) -> Several[tuple[Unit, cst.Call]]:
        """Yield the calls of a function, each with the scope that it stands in."""
        unit = self.units.get(function)
        if unit is not None:
            yield from unit.callers.values()
