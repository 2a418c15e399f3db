"""Which class the dataset of a loader is, and what it costs to take one sample out of it.

Follows an expression through names, ``self.x``, branches, containers, functions of the file,
parameters and the wrappers of torch (`Subset`, `random_split`, `ConcatDataset`) to the calls that
make the dataset.  Where one of the ways cannot be followed, nothing is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.entries import key_of, written_out
from torchlint.analysis.loaded import class_of
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.origins import origins
from torchlint.analysis.values import Kind
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

DATA = "torch.utils.data"
TENSOR_DATASET = f"{DATA}.TensorDataset"
ITERABLE_DATASET = f"{DATA}.IterableDataset"
HUGGING_FACE = "datasets.Dataset"
IN_MEMORY = "memory"  # the type of lists, ranges, arrays and tensors that are datasets themselves

Step: TypeAlias = int | str | None  # an index, a key, or "any member"
Path: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """One dataset that an expression may be.

    ``type`` is the qualified name of its class (`IN_MEMORY` for plain data), ``node`` the call or
    expression that makes it, in the file ``program``.  ``owner`` is its class where that is one of
    the project, defined in the file ``home``.  ``wrappers`` are the classes of torch around it,
    outermost first.  ``iterable``: it gives its samples in an order of its own; None where that is
    not known.
    """

    type: str
    node: cst.CSTNode
    program: Program
    owner: Class | None = None
    home: Program | None = None
    wrappers: tuple[str, ...] = ()
    iterable: bool | None = False

    @property
    def call(self) -> cst.Call | None:
        """The call that makes it, if one was seen."""
        return self.node if isinstance(self.node, cst.Call) else None

    @property
    def name(self) -> str:
        """The name of its class without its module."""
        return self.type.rpartition(".")[2]

    def lineage(self) -> list[tuple[Program, Class]]:
        """Return its class and the bases in the project, nearest first, each with its file."""
        if self.owner is None or self.home is None:
            return []
        return lineage(self.home, self.owner)

    def method(self, name: str) -> tuple[Program, cst.FunctionDef] | None:
        """Return a method of its class, with the file it stands in."""
        for home, one in self.lineage():
            if name in one.methods:
                return home, one.methods[name]
        return None


def lineage(program: Program, owner: Class) -> list[tuple[Program, Class]]:
    """Return a class and its bases in the project, nearest first, each with its file."""
    found = [(program, owner)]
    for home, one in found:
        for base in one.bases:
            above = home.class_named(base)
            if above is not None and all(above[1] is not known for _, known in found):
                found.append(above)
    return found


Found: TypeAlias = tuple[Dataset, ...]

_NOTHING: Found = ()  # not known
_DEPTH = 24  # steps from a loader to its dataset
_STEPS = 400  # steps on all the ways together
_PARTS = f"{DATA}.random_split"
_ONE_INSIDE = (f"{DATA}.Subset",)
_SEVERAL_INSIDE = (f"{DATA}.ConcatDataset", f"{DATA}.ChainDataset")
_ORDERS = ("sampler", "batch_sampler", "shuffle")
_COPIES = ("copy.copy", "copy.deepcopy")
_PLAIN = (Kind.TENSOR, Kind.NDARRAY, Kind.LIST, Kind.TUPLE)
_PLAIN_CALLS = ("range", "list", "tuple", "sorted")
_HF_MAKERS = re.compile(
    r"datasets\.(load_dataset|load_from_disk|concatenate_datasets|Dataset\.from_\w+)$"
)
_HF_SAME = frozenset(
    {"map", "filter", "shuffle", "select", "sort", "shard", "with_format", "with_transform",
     "remove_columns", "select_columns", "rename_column", "rename_columns", "cast", "cast_column",
     "train_test_split", "flatten", "flatten_indices", "add_column", "skip", "take"}
)  # fmt: skip


def _is_outside(program: Program, node: cst.CSTNode) -> bool:
    """Whether an expression calls something of a module that the project does not have."""
    name = program.qualified(node.func) if isinstance(node, cst.Call) else ""
    if "." not in name or name.startswith((".", "torch.", "torchvision.", "numpy.")):
        return False
    return program.project is not None and not program.project.imports.may_have(name)


class Datasets:
    """The datasets of the loaders of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._known: dict[int, Found] = {}
        self._left = _STEPS

    def of_loader(self, loader: cst.Call) -> tuple[Dataset, ...]:
        """Every dataset that a ``DataLoader(...)`` may be given; empty where one is not known."""
        found = self._known.get(id(loader))
        if found is None:
            given = self._program.argument(loader, "dataset", LOADER).values
            found = self.of(given[0]) if len(given) == 1 else _NOTHING
            self._known[id(loader)] = found
        return found

    def of(self, node: cst.CSTNode) -> tuple[Dataset, ...]:
        """Every dataset that an expression may be; empty where one of them is not known."""
        self._left = _STEPS
        return self.follow(node, (), frozenset())

    # -- expressions -------------------------------------------------------------------------

    def follow(self, node: cst.CSTNode | None, path: Path, way: frozenset[int]) -> Found:
        """Return every dataset that a part of an expression may be, after a way of some steps."""
        self._left -= 1
        if node is None or id(node) in way or len(way) > _DEPTH or self._left < 0:
            return _NOTHING
        way = way | {id(node)}
        match node:
            case cst.Name(value="None"):
                return _NOTHING
            case cst.Name():
                return self._name(node, path, way)
            case cst.Attribute():
                return self._attribute(node, path, way)
            case cst.Subscript():
                step = _step(node)
                return _NOTHING if step == "" else self.follow(node.value, (step, *path), way)
            case cst.Call():
                return self._call(node, path, way)
            case cst.NamedExpr():
                return self.follow(node.value, path, way)
            case cst.IfExp():
                return self._all([node.body, node.orelse], path, way)
            case cst.BinaryOperation(operator=cst.Add()) if not path:
                return _inside(self._all([node.left, node.right], path, way), _SEVERAL_INSIDE[0])
            case _ if path:
                return self._member(node, path, way)
            case _:
                return self._plain(node)

    def _all(self, nodes: list[cst.BaseExpression], path: Path, way: frozenset[int]) -> Found:
        """Return what several expressions are, if each of them is known."""
        found = [self.follow(node, path, way) for node in nodes]
        return tuple(one for each in found for one in each) if all(found) else _NOTHING

    def _member(self, node: cst.CSTNode, path: Path, way: frozenset[int]) -> Found:
        """Return a member of a container that is written out."""
        first, rest = path[0], path[1:]
        match node:
            case cst.Tuple() | cst.List():
                members = [element.value for element in node.elements]
                if any(isinstance(element, cst.StarredElement) for element in node.elements):
                    return _NOTHING
                if isinstance(first, int):
                    return self.follow(members[first], rest, way) if first < len(members) else ()
                return self._all(members, rest, way)
            case cst.Dict():
                items = [e for e in node.elements if isinstance(e, cst.DictElement)]
                chosen = [e.value for e in items if first is None or literal(e.key) == first]
                return self._all(chosen, rest, way) if len(items) == len(node.elements) else ()
            case cst.DictComp():
                return self.follow(node.value, rest, way)
            case cst.ListComp() | cst.GeneratorExp():
                return self.follow(node.elt, rest, way)
            case _:
                return _NOTHING

    def _plain(self, node: cst.CSTNode) -> Found:
        """Return data that stands in memory and is a dataset by itself."""
        value = self._program.value(node)
        if value.kind is Kind.DATASET or value.kind is Kind.INSTANCE:
            home, owner = class_of(self._program, value)
            return (self._own(node, home, owner),) if owner is not None else _NOTHING
        return (self._made(IN_MEMORY, node),) if value.kind in _PLAIN else _NOTHING

    def _made(self, name: str, node: cst.CSTNode, *, iterable: bool | None = False) -> Dataset:
        return Dataset(name, node, self._program, iterable=iterable)

    # -- names -------------------------------------------------------------------------------

    def _name(self, node: cst.Name, path: Path, way: frozenset[int]) -> Found:
        bindings = self._program.flow.reaching(node)
        some = [binding for binding in bindings if literal(binding.value) != "None"]
        found = [self._bound(binding, path, way) for binding in some]
        return tuple(one for each in found for one in each) if all(found) else _NOTHING

    def _bound(self, binding: Binding, path: Path, way: frozenset[int]) -> Found:
        match binding.kind:
            case Bind.ASSIGN:
                return self.follow(binding.value, (*binding.path, *path), way)
            case Bind.FOR if not isinstance(binding.value, cst.Call):
                return self.follow(binding.value, (None, *binding.path, *path), way)
            case Bind.PARAMETER if isinstance(binding.value, cst.Param):
                return self._parameter(binding.value, path, way)
            case Bind.FROM:
                return self._imported(binding, path, way)
            case _:
                return _NOTHING

    def _imported(self, binding: Binding, path: Path, way: frozenset[int]) -> Found:
        """Return what another file of the project gives a name."""
        program = self._program
        name = program.names.root(binding.name, binding.scope)
        found = None if program.project is None else program.project.define(program, name)
        if found is None or found.binding.kind is not Bind.ASSIGN:
            return _NOTHING
        return found.program.datasets.follow(found.binding.value, (*found.binding.path, *path), way)

    def _parameter(self, param: cst.Param, path: Path, way: frozenset[int]) -> Found:
        program = self._program
        function = program.parent(program.parent(param) or param)
        if not isinstance(function, cst.FunctionDef) or param.star:
            return _NOTHING
        given = self._all(program.calls.arguments(function, param), path, way)
        if program.project is None:
            return given
        sites = program.calls.sites(function)
        passed = list(program.project.passed(program, function, param))
        found = [given] if sites else []
        found += [other.datasets.follow(node, path, way) for other, node in passed]
        return tuple(one for each in found for one in each) if all(found) else _NOTHING

    def _attribute(self, node: cst.Attribute, path: Path, way: frozenset[int]) -> Found:
        classes, name = self._program.classes, node.attr.value
        value = self._program.value(node.value)
        if value.kind is Kind.LOADER and name == "dataset" and isinstance(value.made, cst.Call):
            return self._all(list(self._program.argument(value.made, name).values), path, way)
        inside = isinstance(node.value, cst.Name) and node.value.value == "self"
        owner = classes.around(node) if inside else classes.named(value.type)
        stores = [] if owner is None else classes.stores(owner, name)
        some = [store for store in stores if literal(store.value) != "None"]
        found = [self.follow(store.value, (*store.path, *path), way) for store in some]
        return tuple(one for each in found for one in each) if all(found) else _NOTHING

    # -- calls -------------------------------------------------------------------------------

    def _call(self, node: cst.Call, path: Path, way: frozenset[int]) -> Found:
        program = self._program
        name = program.qualified(node.func)
        first = next((a.value for a in node.args if not a.star and a.keyword is None), None)
        if name == _PARTS:
            whole = _given(node, "dataset", 0) if len(path) == 1 else None
            return _inside(self.follow(whole, (), way), _ONE_INSIDE[0])
        if name in _COPIES:
            return self.follow(first, path, way)
        if _HF_MAKERS.match(name):
            return (self._hugging_face(node),)
        if name.startswith(("torch.", "torchvision.")):
            return self._known_class(node, name, way) if not path else _NOTHING
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _HF_SAME:
            found = self.follow(node.func.value, (), way)
            if found and all(one.type == HUGGING_FACE for one in found):
                return found
        found = () if path or name else self._by_class(node, way)
        return found or self._own_call(node, path, way)

    def _by_class(self, node: cst.Call, way: frozenset[int]) -> Found:
        """``kind = datasets.CIFAR10`` or ``CIFAR100`` by an option, and ``kind(root)``."""
        meant = sorted(origins(self._program, node.func), key=self._program.index.order)
        names = [self._program.qualified(one) for one in meant]
        found = [
            self._known_class(node, name, way) if name.startswith("torchvision.") else _NOTHING
            for name in names
        ]
        return tuple(one for several in found for one in several) if all(found) else _NOTHING

    def _known_class(self, node: cst.Call, name: str, way: frozenset[int]) -> Found:
        """Return what a class of torch or torchvision makes."""
        if name in _ONE_INSIDE:
            return _inside(self.follow(_given(node, "dataset", 0), (), way), name)
        if name in _SEVERAL_INSIDE:
            return _inside(self.follow(_given(node, "datasets", 0), (None,), way), name)
        space, _, last = name.rpartition(".")
        if name == TENSOR_DATASET or (space == "torchvision.datasets" and last[:1].isupper()):
            return (self._made(name, node),)
        return self._plain(node)

    def _own_call(self, node: cst.Call, path: Path, way: frozenset[int]) -> Found:
        """Return what a class or function of the project makes."""
        program = self._program
        owner = self._own_class(node.func)
        if owner is not None:
            return (self._own(node, program, owner),) if not path else _NOTHING
        if isinstance(node.func, cst.Subscript) and not path:
            found = self._of_table(node.func, node)
            if found:
                return found
        target = program.calls.target(node)
        other = None if target is not None else program.calls.elsewhere(node)
        if target is not None and target.name.value != "__init__":
            return self.returned(target, path, way)
        if other is not None and other.function.name.value != "__init__":
            return other.program.datasets.returned(other.function, path, way)
        if isinstance(node.func, cst.Name) and node.func.value in _PLAIN_CALLS:
            return (self._made(IN_MEMORY, node),) if program.is_builtin(node.func) else _NOTHING
        return self._plain(node) if not path else _NOTHING

    def _of_table(self, entry: cst.Subscript, node: cst.Call) -> Found:
        """``DATA[args.data](...)``: what each class of a table makes."""
        table, program = entry.value, self._program
        if not isinstance(table, cst.Name):
            return _NOTHING
        owners = [self._class(one) for one in written_out(program, table, key_of(entry))]
        known = [self._own(node, *owner) for owner in owners if owner is not None]
        return tuple(known) if len(known) == len(owners) else _NOTHING

    def _class(self, node: cst.BaseExpression) -> tuple[Program, Class] | None:
        """Return the class of the project that a name stands for, with its file."""
        program, owner = self._program, self._own_class(node)
        return program.class_named(program.qualified(node)) if owner is None else (program, owner)

    def _own_class(self, node: cst.BaseExpression) -> Class | None:
        """Return the class of this file that an expression is."""
        made = self._program.value(node)
        return self._program.classes.get(made.made) if made.kind is Kind.CLASS else None

    def returned(self, function: cst.FunctionDef, path: Path, way: frozenset[int]) -> Found:
        """Return every dataset that a function of this file may return."""
        program = self._program
        if program.yields(function) or len(way) > _DEPTH:
            return _NOTHING
        results = [item.value for item in program.returns(function) if item.value is not None]
        return self._all(results, path, way)

    def _own(self, node: cst.CSTNode, home: Program, owner: Class) -> Dataset:
        name = f".{owner.name}"
        return Dataset(name, node, self._program, owner, home, (), _iterates(home, owner))

    def _hugging_face(self, node: cst.Call) -> Dataset:
        """Return data of the Hub or of a file, mapped into memory; ``streaming`` it is iterated."""
        streaming = _given(node, "streaming", None)
        iterable = None if streaming is not None else False
        if literal(streaming) in ("True", "False"):
            iterable = literal(streaming) == "True"
        return self._made(HUGGING_FACE, node, iterable=iterable)


def _iterates(home: Program, owner: Class) -> bool | None:
    """Whether a class of the project is an ``IterableDataset``."""
    classes = lineage(home, owner)
    bases = {base for _, one in classes for base in one.bases}
    if ITERABLE_DATASET in bases:
        return True
    if any(name in one.methods for _, one in classes for name in TAKES):
        return False
    seen = {one.name for _, one in classes}
    known = all(
        base.startswith(("torch", "typing.", "abc.")) or base.rpartition(".")[2] in seen
        for base in bases
    )
    return False if known else None


TAKES = ("__getitem__", "__getitems__")


def _inside(found: Found, wrapper: str) -> Found:
    return tuple(replace(one, wrappers=(wrapper, *one.wrappers)) for one in found)


def _given(node: cst.Call, keyword: str, place: int | None) -> cst.BaseExpression | None:
    """Return an argument by its keyword or place."""
    for at, arg in enumerate(node.args):
        if arg.keyword is not None and arg.keyword.value == keyword:
            return arg.value
        if arg.keyword is None and at == place and not arg.star:
            return arg.value
    return None


def _step(node: cst.Subscript) -> Step:
    """Return the constant that a subscript asks for, None for any other; "" for a slice."""
    part = node.slice[0].slice if len(node.slice) == 1 else None
    if not isinstance(part, cst.Index):
        return ""
    if isinstance(part.value, cst.Integer):
        return int(part.value.value, 0)
    return literal(part.value)
