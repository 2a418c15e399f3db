"""Classes of the file: their bases, methods, and what they keep in ``self``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

import libcst as cst

from torchlint.analysis import torch_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from torchlint.analysis.names import Names
    from torchlint.syntax.index import Index

    Elsewhere: TypeAlias = Callable[[str], tuple[bool, bool]]


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """One ``self.name = value``; ``path`` as in `Binding`."""

    name: str
    node: cst.Attribute
    value: cst.CSTNode | None
    path: tuple[int, ...]
    method: cst.FunctionDef


@dataclass(slots=True, eq=False)
class Class:
    """A class of the file."""

    node: cst.ClassDef
    bases: tuple[str, ...]  # qualified; a class of this file as ``.Name``
    home: ReferenceType[Classes]  # weak: the tree goes without the collector
    methods: dict[str, cst.FunctionDef] = field(default_factory=dict)
    stores: dict[str, list[Store]] = field(default_factory=dict)
    _kinds: tuple[bool, bool] | None = None  # whether it is a module, and a dataset

    @property
    def is_module(self) -> bool:
        """Whether it is a `torch.nn.Module`."""
        return self._kind()[0]

    @property
    def is_dataset(self) -> bool:
        """Whether it is a dataset."""
        return self._kind()[1]

    def _kind(self) -> tuple[bool, bool]:
        """What it is, found out when asked for: files may import one another in circles."""
        home = self.home()
        if self._kinds is None and home is not None:
            self._kinds = (False, False)  # classes that extend one another
            self._kinds = home.kinds(self)
        return self._kinds or (False, False)

    @property
    def name(self) -> str:
        """The name it is defined under."""
        return self.node.name.value


class Classes:
    """All classes of one module."""

    def __init__(self, index: Index, names: Names, elsewhere: Elsewhere | None = None) -> None:
        """Collect classes, methods and attribute stores in one pass.

        ``elsewhere`` tells of a class of another file whether it is a module, or a dataset.
        """
        self._index = index
        self._elsewhere = elsewhere
        self._by_node: dict[int, Class] = {}
        self._by_name: dict[str, Class] = {}
        for node in index.of(cst.ClassDef):
            bases = tuple(names.base(node, arg.value) for arg in node.bases)
            found = Class(node, bases, ref(self))
            self._by_node[id(node)] = found
            if index.scope(node).parent is None:
                self._by_name[found.name] = found
            for method in _methods(node):
                found.methods.setdefault(method.name.value, method)
        self._collect_stores()

    def __iter__(self) -> Iterator[Class]:
        return iter(self._by_node.values())

    def get(self, node: cst.CSTNode | None) -> Class | None:
        """Return the class that a ClassDef defines."""
        return self._by_node.get(id(node))

    def named(self, name: str) -> Class | None:
        """Return the class of a qualified name such as ``.Net``."""
        return self._by_name.get(name[1:]) if name.startswith(".") else None

    def around(self, node: cst.CSTNode) -> Class | None:
        """Return the class whose method a node stands in."""
        above = self._index.nearest(node, cst.ClassDef)
        return None if above is None else self._by_node[id(above)]

    def method(self, owner: Class, name: str) -> cst.FunctionDef | None:
        """Return a method by name, looked up through the bases of this file."""
        for current in self.lineage(owner):
            if name in current.methods:
                return current.methods[name]
        return None

    def lineage(self, owner: Class) -> list[Class]:
        """Return the class and its bases that this file defines, nearest first."""
        found = [owner]
        for current in found:
            for base in current.bases:
                above = self.named(base)
                if above is not None and above not in found:
                    found.append(above)
        return found

    def heirs(self, owner: Class) -> list[Class]:
        """Return the classes of this file that extend a class, also by way of others."""
        return [one for one in self if one is not owner and owner in self.lineage(one)]

    def stores(self, owner: Class, name: str) -> list[Store]:
        """Every assignment to ``self.name`` in the class and its bases of this file."""
        return [store for current in self.lineage(owner) for store in current.stores.get(name, ())]

    def _descends(self, owner: Class, is_root: Callable[[str], bool]) -> bool:
        """Whether a class extends such a one, be it by way of others of this file."""
        return any(
            self.named(base) is None and is_root(base)
            for current in self.lineage(owner)
            for base in current.bases
        )

    def kinds(self, owner: Class) -> tuple[bool, bool]:
        """Whether a class is a module, and whether it is a dataset."""
        module = self._descends(owner, _is_module)
        dataset = self._descends(owner, _is_dataset)
        if self._elsewhere is None or module or dataset:
            return module, dataset
        kinds = [self._elsewhere(base) for base in self.outside(owner)]
        return any(module for module, _ in kinds), any(dataset for _, dataset in kinds)

    def outside(self, owner: Class) -> Iterator[str]:
        """Yield the bases that other files define, by their qualified names."""
        for current in self.lineage(owner):
            for base in current.bases:
                if base and base[0] != "." and not base.startswith(("torch.", "typing.")):
                    yield base

    def _collect_stores(self) -> None:
        for node in self._index.of(cst.Attribute):
            if type(node.value) is not cst.Name or node.value.value != "self":
                continue
            target = self._assigned(node)
            if target is None:
                continue
            value, path = target
            owner = self.around(node)
            method = self._method_of(node)
            if owner is not None and method is not None:
                name = node.attr.value
                owner.stores.setdefault(name, []).append(Store(name, node, value, path, method))

    def _method_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        last = None
        for above in self._index.ancestors(node):
            if type(above) is cst.FunctionDef:
                last = above
            if type(above) is cst.ClassDef:
                return last
        return None

    def _assigned(self, node: cst.Attribute) -> tuple[cst.CSTNode | None, tuple[int, ...]] | None:
        """Return the value stored where the attribute is an assignment target."""
        path: list[int] = []
        child: cst.CSTNode = node
        for above in self._index.ancestors(node):
            if type(above) not in _TARGETS:  # of most attributes the very first
                return None
            match above:
                case cst.AssignTarget():
                    statement = self._index.parent(above)
                    assert isinstance(statement, cst.Assign)
                    return statement.value, tuple(reversed(path))
                case cst.AnnAssign() if above.target is child:
                    return above.value, ()
                case cst.AugAssign() if above.target is child:
                    return above, ()
                case cst.For() if above.target is child:
                    return None, ()
                case cst.AsName():
                    pass
                case cst.WithItem() if above.asname is child:
                    return None, ()
                case cst.StarredElement():
                    return None, ()
                case cst.Element():
                    holder = self._index.parent(above)
                    if not isinstance(holder, (cst.Tuple, cst.List)):
                        return None
                    path.append(_place(above, holder.elements))
                case cst.Tuple() | cst.List():
                    pass
                case _:
                    return None
            child = above
        return None


def is_placeholder(function: cst.FunctionDef) -> bool:
    """Whether a method does nothing but say that its heirs have one, or that they may.

    It has a docstring at most, ``pass``, ``...`` or ``raise NotImplementedError``.
    """
    lines: list[cst.CSTNode] = []
    for item in function.body.body:
        lines.extend(item.body if isinstance(item, cst.SimpleStatementLine) else (item,))
    return all(_does_nothing(line) for line in lines)


def _does_nothing(line: cst.CSTNode) -> bool:
    match line:
        case cst.Pass() | cst.Expr(value=cst.Ellipsis() | cst.BaseString()):
            return True
        case cst.Raise(exc=raised):
            made = raised.func if isinstance(raised, cst.Call) else raised
            return isinstance(made, cst.Name) and made.value == "NotImplementedError"
        case _:
            return False


# Models of libraries that are not called one by their last word.
_MODELS = re.compile(
    r"(transformers|pytorch_transformers|pytorch_pretrained_bert)\.([a-z_]\w*\.)*(?!TF|Flax)\w+For[A-Z]"
    r"|torchvision\.models\.([a-z_]\w*\.)*[A-Z](?!\w*_Weights)"
)
_TARGETS = frozenset({
    cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.AsName, cst.WithItem,
    cst.StarredElement, cst.Element, cst.Tuple, cst.List,
})  # fmt: skip


def _is_module(base: str) -> bool:
    return (
        base in torch_api.MODULE_BASES
        or base.endswith(("Module", "Model"))
        or _MODELS.match(base) is not None
    )


def _is_dataset(base: str) -> bool:
    return base in torch_api.DATASET_BASES or base.endswith("Dataset")


def _place(element: cst.Element, elements: Sequence[cst.BaseElement]) -> int:
    """Where in an unpacked value a target stands: after a star, counted from the end."""
    place = next(i for i, one in enumerate(elements) if one is element)
    starred = any(isinstance(one, cst.StarredElement) for one in elements[:place])
    return place - len(elements) if starred else place


def _methods(node: cst.ClassDef) -> list[cst.FunctionDef]:
    found: list[cst.FunctionDef] = []
    blocks: list[cst.CSTNode] = [node.body]
    while blocks:
        block = blocks.pop()
        for item in getattr(block, "body", ()):
            if isinstance(item, cst.FunctionDef):
                found.append(item)
            elif isinstance(item, cst.If):
                blocks.append(item.body)
    return found
