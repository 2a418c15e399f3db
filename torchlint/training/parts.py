"""What models are made of: the layers that they hold, and the functions that they call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.torch_classes import CONTAINERS, WRAPPERS
from torchlint.semantics.values import (
    Dictionary,
    Function,
    Instance,
    Library,
    Method,
    Object,
    Sequence,
    Tensor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Cell
    from torchlint.semantics.classes import ClassOf
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value


@dataclass(frozen=True, slots=True)
class Part:
    """A layer or function of a library that a model has, and the call that makes or runs it."""

    name: str
    call: At | None


@dataclass(slots=True, eq=False)
class Parts:
    """The parts of the models of connected files."""

    evaluation: Evaluation
    _cells: dict[At, list[Cell]] = field(default_factory=dict)
    _known: dict[Value, tuple[Part, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for (owner, _), cell in self.evaluation.attributes.items():
            self._cells.setdefault(owner, []).append(cell)

    def of(self, value: Value) -> tuple[Part, ...]:
        """Return what a model, or a method of one, is made of, each once."""
        if value not in self._known:
            self._known[value] = tuple(dict.fromkeys(self._of(value)))
        return self._known[value]

    def classes(self, value: Value) -> list[ClassOf]:
        """Return the classes of the project that a model and its parts are of."""
        found = [one.cls for one in self._all(value) if isinstance(one, Instance)]
        classes = (self.evaluation.classes.of(cls) for cls in dict.fromkeys(found))
        return [one for one in classes if one is not None]

    def _of(self, value: Value) -> Iterator[Part]:
        for one in self._all(value):
            if isinstance(one, Object):
                yield Part(one.kind, one.call)
            if isinstance(one, Instance):
                yield from self._of_class(one.cls)

    def _all(self, value: Value) -> Iterator[Alternative]:
        """Yield a model and all that it holds, each once."""
        waiting = list(value)
        seen: set[Alternative] = set()
        while waiting:
            one = waiting.pop(0)
            if one not in seen:
                seen.add(one)
                yield one
                waiting += self._held(one)

    def _held(self, one: Alternative) -> Iterator[Alternative]:
        match one:
            case Function(owner=Instance() as owner) | Method(owner=owner):
                yield owner
            case Object(kind=kind, call=call) if kind in CONTAINERS and call is not None:
                yield from self.evaluation.elements(call).value
            case Object(kind=kind) if kind in WRAPPERS:
                yield from self.evaluation.inside(one)
            case Sequence(elements=elements, element=element, made=made):
                for part in (*(elements or ()), element):
                    yield from part
                if made is not None:
                    yield from self.evaluation.elements(made).value
            case Dictionary(entries=entries, element=element):
                for part in (*(entry for _, entry in entries), element):
                    yield from part
            case Instance(cls=cls):
                for home in self.evaluation.classes.lineage(cls):
                    for cell in self._cells.get(home.at, ()):
                        yield from cell.value

    def _of_class(self, cls: At) -> Iterator[Part]:
        """Yield the functions that a class calls, and the classes of libraries that it extends.

        Methods of tensors and the operator for matrix products are functions too.
        """
        classes = self.evaluation.classes
        for base in classes.library_bases(cls):
            yield Part(base, None)
        for home in classes.lineage(cls):
            index, file = home.module.index, home.at.file
            for call in index.below(home.node, cst.Call):
                for one in self.evaluation.value(call.func):
                    if isinstance(one, Method) and isinstance(one.owner, Tensor):
                        yield Part(f"torch.Tensor.{one.name}", self.evaluation.at(call, file))
                    if isinstance(one, Library) and _is_function(one.name):
                        yield Part(one.name, self.evaluation.at(call, file))
            for node in index.below(home.node, cst.BinaryOperation):
                if isinstance(node.operator, cst.MatrixMultiply):
                    yield Part("torch.matmul", self.evaluation.at(node, file))


def _is_function(name: str) -> bool:
    return name.startswith("torch.") and name.rpartition(".")[2][:1].islower()
