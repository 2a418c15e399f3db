"""Loaders: the calls that make them, what they are told, what goes through them and where to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.library import PASSES_ON
from torchlint.semantics.loaders import all_arguments
from torchlint.semantics.tables.torch_classes import LOADERS
from torchlint.semantics.values import (
    Dictionary,
    Instance,
    Iterator,
    Library,
    Method,
    Nothing,
    Number,
    Object,
    Sequence,
    Tensor,
    Truth,
)

if TYPE_CHECKING:
    from collections.abc import Iterator as Several
    from collections.abc import Mapping

    from torchlint.semantics.arguments import Argument
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.training.copies import DeviceCopy

# Builtins that begin to go through what they are given.
STARTS = frozenset(
    f"builtins.{name}"
    for name in ("enumerate", "filter", "iter", "list", "map", "set", "sorted", "sum", "tuple",
                 "zip")
)  # fmt: skip
# How many processors there are, and which.
COUNTS = frozenset({
    "os.cpu_count", "os.process_cpu_count", "os.sched_getaffinity", "multiprocessing.cpu_count",
    "torch.multiprocessing.cpu_count", "psutil.cpu_count",
})  # fmt: skip
# What a framework goes through by itself, epoch after epoch.
FRAMEWORKS = ("lightning.", "pytorch_lightning.", "ignite.")
FITS = frozenset({"fit", "run"})
HOOKS = frozenset({"train_dataloader", "val_dataloader"})


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """An expression that starts to go through a loader; ``fits`` where a framework does that."""

    node: cst.BaseExpression
    file: int
    fits: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Loader:
    """A call that makes a loader; ``arguments`` are those it passes, by parameter.

    ``is_whole`` is False where there may be others, in what is unpacked.
    """

    node: cst.Call
    at: At
    arguments: Mapping[str, Argument]
    is_whole: bool
    passes: tuple[Pass, ...]  # in all connected files

    def value(self, parameter: str) -> Value:
        """Return what a parameter is told, nothing where it is left out."""
        found = self.arguments.get(parameter)
        return found.value if found else ()

    def lacks(self, *parameters: str) -> bool:
        """Whether it is certainly not given any of some parameters, or None for them."""
        given = [self.value(name) for name in parameters]
        return self.is_whole and all(isinstance(one, Nothing) for value in given for one in value)

    def is_told(self, parameter: str, truth: object) -> bool:
        """Whether a parameter is certainly told a bool or a number."""
        argument = self.arguments.get(parameter)
        values = [one.value if isinstance(one, (Truth, Number)) else None for one in
                  self.value(parameter)]  # fmt: skip
        return argument is not None and argument.always and set(values) == {truth}

    @property
    def workers(self) -> int | None:
        """The number of worker processes; None where it is not known."""
        argument = self.arguments.get("num_workers")
        if argument is None:
            return 0 if self.is_whole else None
        return _number(argument.value) if argument.always else None

    @property
    def has_workers(self) -> bool | None:
        """Whether it has worker processes, as far as is seen; None where it may have some."""
        argument = self.arguments.get("num_workers")
        numbers = [_counted(one) for one in argument.value] if argument else []
        if not any(number is None or number > 0 for number in numbers):
            return False if self.is_whole or numbers else None
        is_seen = argument is not None and argument.always and any(numbers)
        return True if is_seen and 0 not in numbers else None

    @property
    def is_pinned(self) -> bool | None:
        """Whether its batches lie in pinned memory; None where that is not known."""
        argument = self.arguments.get("pin_memory")
        if argument is None:
            return False if self.is_whole else None
        return _truth(argument.value) if argument.always else None


def loaders(evaluation: Evaluation) -> tuple[Loader, ...]:
    """Return the loaders that connected files make, in the order of files and text."""
    made = [
        (at, node)
        for at, (_, node, name) in sorted(evaluation.makings.items(), key=lambda item: item[0])
        if name in LOADERS
    ]
    passes = _passes(evaluation) if made else {}
    return tuple(
        Loader(node, at, *all_arguments(evaluation, at), tuple(passes.get(at, ())))
        for at, node in made
    )


def loaders_in(value: Value, *, inside: bool = False) -> dict[At, None]:
    """Return the calls that made the loaders that a value may be, or may hold as well."""
    found: dict[At, None] = {}
    for one in value:
        match one:
            case Object(kind=kind, call=call) if kind in LOADERS and call is not None:
                found[call] = None
            case Instance(call=call) if call is not None:
                found[call] = None
            case Sequence(elements=elements, element=element) if inside:
                for part in (*(elements or ()), element):
                    found |= loaders_in(part, inside=True)
            case Dictionary(entries=entries, element=element) if inside:
                for part in (*(entry for _, entry in entries), element):
                    found |= loaders_in(part, inside=True)
            case Iterator(element=element) if inside:
                found |= loaders_in(element, inside=True)
    return found


def _passes(evaluation: Evaluation) -> dict[At, list[Pass]]:
    """Return what starts to go through each loader."""
    found: dict[At, list[Pass]] = {}
    for file, module in enumerate(evaluation.files.modules):
        for node, fits in _started(evaluation, file):
            value = evaluation.values.get(id(node), ())
            is_unpacked = isinstance(module.parent(node), cst.Arg) and (
                module.parent(node).star == "*"  # type: ignore[union-attr]
            )
            for at in loaders_in(value, inside=is_unpacked):
                found.setdefault(at, []).append(Pass(node, file, fits))
    for at in _hooked(evaluation):
        made = evaluation.node(at)
        assert isinstance(made, cst.Call)
        found.setdefault(at, []).append(Pass(made, at.file, fits=True))
    return found


def _hooked(evaluation: Evaluation) -> Several[At]:
    """Yield the loaders that a framework asks a class for."""
    for cls in evaluation.classes:
        bases = evaluation.classes.library_bases(cls.at)
        for name in sorted(HOOKS & cls.methods.keys()):
            unit = evaluation.units.get(evaluation.at(cls.methods[name], cls.at.file))
            if unit is not None and any(base.startswith(FRAMEWORKS) for base in bases):
                yield from loaders_in(unit.returned.value, inside=True)


def _started(evaluation: Evaluation, file: int) -> Several[tuple[cst.BaseExpression, bool]]:
    """Yield what a file goes through, and whether a framework does."""
    index = evaluation.files.modules[file].index
    loops: list[cst.For | cst.CompFor] = [*index.of(cst.For), *index.of(cst.CompFor)]
    for loop in loops:
        yield loop.iter, False
    for source in index.of(cst.From):
        yield source.item, False
    for call in index.of(cst.Call):
        for one in evaluation.values.get(id(call.func), ()):
            fits = False
            match one:
                case Library(name=name):
                    starts = name in STARTS or name in PASSES_ON or name.startswith("itertools.")
                case Method(owner=Object(kind=kind), name=name):
                    fits = starts = name in FITS and kind.startswith(FRAMEWORKS)
                case _:
                    starts = False
            for arg in call.args if starts else ():
                yield arg.value, fits


def moves_of(loader: Loader, copies: tuple[DeviceCopy, ...]) -> list[DeviceCopy]:
    """Return the copies to a device that batches of a loader take part in."""
    return [
        copy
        for copy in copies
        if any(isinstance(one, Tensor) and one.batch == loader.at for one in copy.value)
    ]


def _counted(one: Alternative) -> float | None:
    """Return a number of workers, None where it may be any."""
    match one:
        case Number(value=number):
            return number
        case Nothing():
            return 0
        case Object(kind=kind) if kind in COUNTS:
            return 1
    return None


def is_positive(evaluation: Evaluation, node: cst.CSTNode | None, file: int) -> bool:
    """Whether a number is certainly above 0, whoever calls and whatever options say."""
    if node is None:
        return False
    match node:
        case cst.Integer():
            return int(node.value, 0) > 0
        case cst.BooleanOperation(operator=cst.Or(), left=left, right=right):
            return any(is_positive(evaluation, side, file) for side in (left, right))
        case cst.Name():
            owner = evaluation.files.modules[file].index.scope(node).owner(node.value)
            bound = evaluation.reaching.get(id(node)) or (
                owner.bindings[node.value] if owner else ()
            )
            return bool(bound) and all(
                one.is_plain and is_positive(evaluation, one.value, file) for one in bound
            )
        case cst.Call(func=func, args=args):
            parts = [is_positive(evaluation, arg.value, file) for arg in args]
            match evaluation.values.get(id(func), ()):
                case (Library(name=name),) if name in COUNTS:
                    return True
                case (Library(name="builtins.min"),):
                    return len(parts) > 1 and all(parts)
                case (Library(name="builtins.max"),):
                    return len(parts) > 1 and any(parts)
                case (Library(name="builtins.len" | "builtins.int"),):
                    return len(parts) == 1 and parts[0]
    return False


def _number(value: Value) -> int | None:
    match value:
        case (Number(value=number),) if number is not None:
            return int(number)
    return None


def _truth(value: Value) -> bool | None:
    match value:
        case (Truth(value=bool(known)),):
            return known
    return None
