"""What models are made of: the layers that they hold, and the functions that they call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import parts_of
from torchlint.semantics.tables.torch_classes import CONTAINERS, WRAPPERS
from torchlint.semantics.values import (
    Function,
    Instance,
    Library,
    Method,
    Object,
    Sequence,
    Tensor,
)
from torchlint.training.models import made_by

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
            found = dict.fromkeys(part for one in self._all(value) for part in self._own(one))
            self._known[value] = tuple(found)
        return self._known[value]

    def classes(self, value: Value) -> list[ClassOf]:
        """Return the classes of the project that a model and its parts are of."""
        found = [one.cls for one in self._all(value) if isinstance(one, Instance)]
        classes = (self.evaluation.classes.of(cls) for cls in dict.fromkeys(found))
        return [one for one in classes if one is not None]

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
        evaluation = self.evaluation
        match one:
            case Function(owner=Instance() as owner) | Method(owner=owner):
                yield owner
            case Object(kind=kind) if kind in WRAPPERS:
                yield from evaluation.inside(one)
            case Instance(cls=cls):
                for home in evaluation.classes.lineage(cls):
                    for cell in self._cells.get(home.at, ()):
                        yield from cell.value
        for part in parts_of(one):
            yield from part
        if isinstance(one, Sequence) or (isinstance(one, Object) and one.kind in CONTAINERS):
            made = made_by(one)
            yield from evaluation.elements(made).value if made is not None else ()

    def _own(self, one: Alternative) -> Iterator[Part]:
        """Yield a layer, or the functions that a class calls, and the classes that it extends.

        Methods of tensors and the operator for matrix products are functions too.
        """
        classes, at = self.evaluation.classes, self.evaluation.at
        if isinstance(one, Object):
            yield Part(one.kind, one.call)
        for base in classes.library_bases(one.cls) if isinstance(one, Instance) else ():
            yield Part(base, None)
        for home in classes.lineage(one.cls) if isinstance(one, Instance) else ():
            index, file = home.module.index, home.at.file
            for call in index.below(home.node, cst.Call):
                for func in self.evaluation.value(call.func):
                    match func:
                        case Method(owner=Tensor(), name=name):
                            yield Part(f"torch.Tensor.{name}", at(call, file))
                        case Library(name=name) if name.startswith("torch."):
                            if name.rpartition(".")[2][0].islower():
                                yield Part(name, at(call, file))
            for node in index.below(home.node, cst.BinaryOperation):
                if isinstance(node.operator, cst.MatrixMultiply):
                    yield Part("torch.matmul", at(node, file))
