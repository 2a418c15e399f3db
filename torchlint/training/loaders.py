"""Loaders: the calls that make them, what they are told, and what goes through them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.library import PASSES_ON
from torchlint.semantics.loaders import all_arguments
from torchlint.semantics.names import is_of_library
from torchlint.semantics.sets import flat
from torchlint.semantics.tables.torch_classes import LOADERS
from torchlint.semantics.values import (
    Class,
    Function,
    Iterator,
    Library,
    Method,
    Nothing,
    Number,
    Object,
)

if TYPE_CHECKING:
    from collections.abc import Iterator as Several
    from collections.abc import Mapping

    from torchlint.semantics.arguments import Argument
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.syntax.index import Index

# How many processors there are, and which.
COUNTS = frozenset(
    """os.cpu_count os.process_cpu_count os.sched_getaffinity multiprocessing.cpu_count
    torch.multiprocessing.cpu_count psutil.cpu_count""".split()
)
# Samplers of a single process that need not be told anything.
SAMPLERS = frozenset(
    f"torch.utils.data.{kind}Sampler"
    for kind in ("Random", "Sequential", "SubsetRandom", "WeightedRandom")
)
# Builtins that begin to go through what they are given.
STARTS = frozenset("enumerate filter iter list map set sorted sum tuple zip".split())
# What a framework goes through by itself, epoch after epoch.
FRAMEWORKS = ("lightning.", "pytorch_lightning.", "ignite.")
FITS = frozenset({"fit", "run"})
HOOKS = ("train_dataloader", "val_dataloader")


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """What starts to go through a loader, or takes a batch; ``fits``: the framework's that does."""

    node: cst.CSTNode
    file: int
    fits: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Loader:
    """A call that makes a loader; ``arguments`` are those it passes, by parameter.

    ``is_whole`` is False where there may be others, in what is unpacked.
    """

    node: cst.Call
    at: At
    kind: str  # the class
    arguments: Mapping[str, Argument]
    is_whole: bool
    passes: tuple[Pass, ...]  # in all connected files
    turns: tuple[Pass, ...]  # what is done with each batch, or takes one
    is_handed_on: bool  # to other code
    is_seen: bool  # whether all such code is

    def value(self, parameter: str) -> Value:
        """Return what a parameter is told, nothing where it is left out."""
        found = self.arguments.get(parameter)
        return found.value if found else ()

    def lacks(self, *parameters: str) -> bool:
        """Whether it is certainly not given any of some parameters, or None for them."""
        given = (one for name in parameters for one in self.value(name))
        return self.is_whole and all(isinstance(one, Nothing) for one in given)

    def told(self, parameter: str, default: float | None = None) -> float | None:
        """Return the one bool or number that a parameter is told; None where it is not known.

        Where it is certainly left out, that is its default.
        """
        argument = self.arguments.get(parameter)
        if argument is None:
            return default if self.is_whole else None
        values = {getattr(one, "value", None) for one in argument.value}
        known = values.pop() if argument.always and len(values) == 1 else None
        return known if isinstance(known, (int, float)) else None

    def is_optional(self, parameter: str) -> bool:
        """Whether an option of the command line says what a parameter is told."""
        return any(getattr(one, "option", None) for one in self.value(parameter))

    @property
    def has_workers(self) -> bool | None:
        """Whether it has worker processes, as far as is seen; None where it may have some."""
        argument = self.arguments.get("num_workers")
        numbers = [_counted(one) for one in argument.value] if argument else []
        if argument is None or all(number == 0 for number in numbers):
            return False if self.is_whole or (argument and argument.node) else None
        return True if argument.always and any(numbers) and 0 not in numbers else None

    @property
    def is_pinned(self) -> bool | None:
        """Whether its batches lie in pinned memory; None where that is not known."""
        told = self.told("pin_memory", default=False)
        return None if told is None else bool(told)

    @property
    def gives_graphs(self) -> bool:
        """Whether it is one of PyTorch Geometric."""
        return self.kind.startswith("torch_geo")

    @property
    def batches_alone(self) -> bool:
        """Whether it draws and batches samples in the main process, in torch's own way."""
        sizes = self.value("batch_size") or (Number(1),)
        is_drawn = all(
            isinstance(one, Nothing) or (isinstance(one, Object) and one.kind in SAMPLERS)
            for one in self.value("sampler")
        )
        is_plain = self.lacks("collate_fn", "batch_sampler") and self.has_workers is False
        is_batch = not any(isinstance(one, Nothing) or one == Number(1) for one in sizes)
        return is_plain and is_drawn and is_batch and not self.is_optional("num_workers")


def loaders(evaluation: Evaluation) -> tuple[Loader, ...]:
    """Return the loaders that connected files make, in the order of files and text."""
    making = sorted(evaluation.makings.items(), key=lambda item: item[0])
    made = [(at, node, name) for at, (_, node, name) in making if name in LOADERS]
    if not made:
        return ()
    passes, hands = _passes(evaluation), _hands(evaluation)
    turns = _turns(evaluation, passes)
    return tuple(
        Loader(
            node,
            at,
            kind,
            *all_arguments(evaluation, at),
            tuple(passes.get(at, ())),
            tuple(turns.get(at, ())),
            at in hands,
            hands.get(at, True),
        )
        for at, node, kind in made
    )


def loaders_in(value: Value, *, inside: bool = False) -> dict[At, None]:
    """Return the calls that made the loaders that a value may be, or may hold as well."""
    found = (one for one in (flat(value) if inside else value) if isinstance(one, Object))
    return {one.call: None for one in found if one.call and one.kind in LOADERS}


def asked_for(evaluation: Evaluation, *names: str) -> frozenset[At]:
    """Return the loaders that something asks for an attribute."""
    found: dict[At, None] = {}
    for asked, _ in evaluation.files.attributes(*names):
        found |= loaders_in(evaluation.value(asked.value))
    return frozenset(found)


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


def _passes(evaluation: Evaluation) -> dict[At, list[Pass]]:
    """Return what starts to go through each loader."""
    found: dict[At, list[Pass]] = defaultdict(list)
    for file, module in enumerate(evaluation.files.modules):
        for node, fits in _started(evaluation, file):
            above = module.parent(node)
            is_unpacked = isinstance(above, cst.Arg) and above.star == "*"
            for at in loaders_in(evaluation.value(node), inside=is_unpacked):
                if not evaluation.is_dead(node, file):
                    found[at].append(Pass(node, file, fits))
    for cls in evaluation.classes:
        bases = evaluation.classes.library_bases(cls.at)
        hooks = [cls.methods[name] for name in HOOKS if name in cls.methods]
        for hook in hooks if any(base.startswith(FRAMEWORKS) for base in bases) else ():
            unit = evaluation.units.get(evaluation.at(hook, cls.at.file))
            for at in loaders_in(unit.returned.value, inside=True) if unit else ():
                found[at].append(Pass(evaluation.node(at), at.file, "hook"))
    return found


def _started(evaluation: Evaluation, file: int) -> Several[tuple[cst.BaseExpression, str]]:
    """Yield what a file goes through, with the class of a framework's that does."""
    index = evaluation.index(file)
    for loop in _loops(index):
        yield loop.iter, ""
    for source in index.of(cst.From):
        yield source.item, ""
    for call in index.of(cst.Call):
        for one in evaluation.value(call.func):
            fits, starts = "", False
            match one:
                case Library(name=name):
                    package, _, last = name.rpartition(".")
                    starts = name in PASSES_ON or package == "itertools"
                    starts = starts or (package == "builtins" and last in STARTS)
                case Method(owner=Object(kind=fits), name=name):
                    starts = name in FITS and fits.startswith(FRAMEWORKS)
            for arg in call.args if starts else ():
                yield arg.value, fits


def _loops(index: Index) -> list[cst.For | cst.CompFor]:
    return [*index.of(cst.For), *index.of(cst.CompFor)]


def _turns(evaluation: Evaluation, passes: Mapping[At, list[Pass]]) -> dict[At, list[Pass]]:
    """Return what takes the batches of each loader, one by one."""
    found: dict[At, list[Pass]] = defaultdict(list)
    started = {id(one.node): at for at, several in passes.items() for one in several}
    for file, module in enumerate(evaluation.files.modules):
        index = module.index
        calls = (call for call in index.of(cst.Call) if call.args)
        taken: list[tuple[cst.BaseExpression, cst.CSTNode]] = [
            (call.args[0].value, call)
            for call in calls
            if evaluation.library(call.func) == "builtins.next"
        ]
        for loop in _loops(index):
            whole = index.parent(loop) if isinstance(loop, cst.CompFor) else None
            taken.append((loop.iter, getattr(whole, "elt", getattr(loop, "body", loop))))
        for source, node in taken:
            inside = index.nodes[index.order(source) : index.end(source)]
            begun = [started.get(id(one)) for one in inside]
            own = [one.loader for one in evaluation.value(source) if isinstance(one, Iterator)]
            for at in dict.fromkeys([*own, *begun]):
                if at is not None:
                    found[at].append(Pass(node, file))
    return found


def _hands(evaluation: Evaluation) -> dict[At, bool]:
    """Return the loaders that other code gets, a function or any caller; True where it is seen."""
    found: dict[At, bool] = {}
    for unit in evaluation.units.values():
        if not unit.callers:
            found |= dict.fromkeys(loaders_in(unit.returned.value, inside=True), False)
    for call, _ in evaluation.files.of(cst.Call):
        called = evaluation.value(call.func)
        if any(isinstance(one, Library) and is_of_library(one.name) for one in called):
            continue
        is_seen = bool(called) and all(isinstance(one, (Function, Class)) for one in called)
        for arg in call.args:
            for at in loaders_in(evaluation.value(arg.value), inside=True):
                found[at] = found.get(at, True) and is_seen
    return found
