"""Loaders: the calls that make them, what they are told, and where their batches go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.loaders import arguments
from torchlint.semantics.tables.torch_classes import LOADERS
from torchlint.semantics.values import Number, Tensor, Truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchlint.semantics.arguments import Argument
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.training.copies import DeviceCopy


@dataclass(frozen=True, slots=True, eq=False)
class Loader:
    """A call that makes a loader; ``arguments`` are those it passes, by parameter."""

    node: cst.Call
    at: At
    arguments: Mapping[str, Argument]
    passes: tuple[cst.BaseExpression, ...]  # what goes through it, in all connected files

    def value(self, parameter: str) -> Value:
        """Return what a parameter is told, nothing where it is left out."""
        found = self.arguments.get(parameter)
        return found.value if found else ()

    @property
    def workers(self) -> int | None:
        """The number of worker processes; None where it is not known."""
        return _number(self.value("num_workers"), default=0)

    @property
    def is_pinned(self) -> bool | None:
        """Whether its batches lie in pinned memory; None where that is not known."""
        return _truth(self.value("pin_memory"), default=False)


def loaders(evaluation: Evaluation, file: int) -> Iterator[Loader]:
    """Yield the loaders that a file makes, in the order of the text."""
    passes = _passes(evaluation)
    for at, (_, node, name) in sorted(evaluation.makings.items()):
        if at.file == file and name in LOADERS:
            given = arguments(evaluation, at)
            yield Loader(node, at, given, tuple(passes.get(at, ())))


def _passes(evaluation: Evaluation) -> dict[At, list[cst.BaseExpression]]:
    """Return what loops go through, by the loader."""
    found: dict[At, list[cst.BaseExpression]] = {}
    for module in evaluation.files.modules:
        for kind in (cst.For, cst.CompFor):
            for loop in module.index.of(kind):
                over: cst.BaseExpression = loop.iter  # type: ignore[attr-defined]
                at = evaluation.loader_of(evaluation.values.get(id(over), ()))
                if at is not None:
                    found.setdefault(at, []).append(over)
    return found


def moves_of(loader: Loader, copies: tuple[DeviceCopy, ...]) -> list[DeviceCopy]:
    """Return the copies to a device that batches of a loader take part in."""
    return [
        copy
        for copy in copies
        if any(isinstance(one, Tensor) and one.batch == loader.at for one in copy.value)
    ]


def _number(value: Value, default: int) -> int | None:
    match value:
        case ():
            return default
        case (Number(value=number),) if number is not None:
            return int(number)
    return None


def _truth(value: Value, *, default: bool) -> bool | None:
    match value:
        case ():
            return default
        case (Truth(value=bool(known)),):
            return known
    return None
