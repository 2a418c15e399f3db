"""Loaders: the calls that make them, what they are told, what goes through them and where to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.loaders import all_arguments
from torchlint.semantics.tables.torch_classes import LOADERS
from torchlint.semantics.values import (
    Class,
    Library,
    Nothing,
    Number,
    Object,
    Truth,
)
from torchlint.training.loader_uses import Pass, handed_on, passes_of, turns_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchlint.semantics.arguments import Argument
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value

# How many processors there are, and which.
COUNTS = frozenset({
    "os.cpu_count", "os.process_cpu_count", "os.sched_getaffinity", "multiprocessing.cpu_count",
    "torch.multiprocessing.cpu_count", "psutil.cpu_count",
})  # fmt: skip
# Samplers of a single process that need not be told anything.
SAMPLERS = frozenset(
    f"torch.utils.data.{name}"
    for name in ("RandomSampler", "SequentialSampler", "SubsetRandomSampler",
                 "WeightedRandomSampler")
)  # fmt: skip


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
    turns: tuple[Pass, ...]  # what is done with each batch, or takes one
    is_handed_on: bool  # to other code
    is_seen: bool = True  # whether all such code is
    kind: str = ""  # the class

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
            is_written = argument is not None and argument.node is not None
            return False if self.is_whole or is_written else None
        is_seen = argument is not None and argument.always and any(numbers)
        return True if is_seen and 0 not in numbers else None

    @property
    def batches_alone(self) -> bool:
        """Whether it draws and batches samples in the main process, in torch's own way."""
        size, numbers = self.arguments.get("batch_size"), self.value("num_workers")
        is_one = size is None or any(
            isinstance(one, Nothing) or one == Number(1) for one in size.value
        )
        is_asked = any(isinstance(one, Number) and one.option for one in numbers)
        draws = all(
            isinstance(one, Nothing) or (isinstance(one, Object) and one.kind in SAMPLERS)
            for one in self.value("sampler")
        )
        plain = self.lacks("collate_fn", "batch_sampler") and self.has_workers is False
        return plain and draws and not is_asked and not is_one

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
        (at, node, name)
        for at, (_, node, name) in sorted(evaluation.makings.items(), key=lambda item: item[0])
        if name in LOADERS or (not name and _is_derived(evaluation, node))
    ]
    if not made:
        return ()
    passes, hands = passes_of(evaluation), handed_on(evaluation)
    turns = turns_of(evaluation, passes)
    return tuple(
        Loader(
            node,
            at,
            *all_arguments(evaluation, at),
            tuple(passes.get(at, ())),
            tuple(turns.get(at, ())),
            at in hands,
            hands.get(at, True),
            kind,
        )
        for at, node, kind in made
    )


def _is_derived(evaluation: Evaluation, call: cst.Call) -> bool:
    """Whether a call makes a loader of a class of the project, which takes what torch's takes."""
    classes = evaluation.classes
    return any(
        isinstance(one, Class)
        and classes.kind(one.at) == "loader"
        and classes.method(one.at, "__init__") is None
        for one in evaluation.value(call.func)
    )


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
            owner = evaluation.index(file).scope(node).owner(node.value)
            bound = evaluation.reaching.get(id(node)) or (
                owner.bindings[node.value] if owner else ()
            )
            return bool(bound) and all(
                one.is_plain and is_positive(evaluation, one.value, file) for one in bound
            )
        case cst.Call(func=func, args=args):
            parts = [is_positive(evaluation, arg.value, file) for arg in args]
            match evaluation.value(func):
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
