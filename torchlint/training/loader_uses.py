"""What is done with loaders: what goes through them, takes a batch, or hands them on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.library import PASSES_ON
from torchlint.semantics.tables.torch_classes import LOADERS
from torchlint.semantics.values import (
    Class,
    Dictionary,
    Function,
    Instance,
    Iterator,
    Library,
    Method,
    Object,
    Sequence,
)

if TYPE_CHECKING:
    from collections.abc import Iterator as Several
    from collections.abc import Mapping

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value

# Builtins that begin to go through what they are given.
STARTS = frozenset(
    f"builtins.{name}"
    for name in ("enumerate", "filter", "iter", "list", "map", "set", "sorted", "sum", "tuple",
                 "zip")
)  # fmt: skip
# What a framework goes through by itself, epoch after epoch.
FRAMEWORKS = ("lightning.", "pytorch_lightning.", "ignite.")
FITS = frozenset({"fit", "run"})
HOOKS = frozenset({"train_dataloader", "val_dataloader"})


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """What starts to go through a loader, or takes a batch; ``fits``: the framework's that does."""

    node: cst.CSTNode
    file: int
    fits: str = ""


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


def passes_of(evaluation: Evaluation) -> dict[At, list[Pass]]:
    """Return what starts to go through each loader."""
    found: dict[At, list[Pass]] = {}
    for file, module in enumerate(evaluation.files.modules):
        for node, fits in _started(evaluation, file):
            value = evaluation.value(node)
            is_unpacked = isinstance(module.parent(node), cst.Arg) and (
                module.parent(node).star == "*"  # type: ignore[union-attr]
            )
            made = loaders_in(value, inside=is_unpacked)
            if made and evaluation.is_dead(node, file):
                continue
            for at in made:
                found.setdefault(at, []).append(Pass(node, file, fits))
    for at in _hooked(evaluation):
        call = evaluation.node(at)
        assert isinstance(call, cst.Call)
        found.setdefault(at, []).append(Pass(call, at.file, "hook"))
    return found


def turns_of(evaluation: Evaluation, passes: Mapping[At, list[Pass]]) -> dict[At, list[Pass]]:
    """Return what takes the batches of each loader, one by one."""
    found: dict[At, list[Pass]] = {}
    started = {id(one.node): at for at, several in passes.items() for one in several}
    for file, module in enumerate(evaluation.files.modules):
        index = module.index
        taken: list[tuple[cst.BaseExpression, cst.CSTNode]] = []
        taken += [(loop.iter, loop.body) for loop in index.of(cst.For)]
        taken += [(loop.iter, getattr(index.parent(loop), "elt", loop)) for loop in
                  index.of(cst.CompFor)]  # fmt: skip
        for call in index.of(cst.Call):
            match evaluation.value(call.func):
                case (Library(name="builtins.next"),) if call.args:
                    taken.append((call.args[0].value, call))
        for source, node in taken:
            value = evaluation.value(source)
            own = [one.loader for one in value if isinstance(one, Iterator) and one.loader]
            begun = [
                started.get(id(one)) for one in index.nodes[index.order(source) : index.end(source)]
            ]
            for at in dict.fromkeys([*loaders_in(value), *own, *begun]):
                if at is not None:
                    found.setdefault(at, []).append(Pass(node, file))
    return found


def handed_on(evaluation: Evaluation) -> dict[At, bool]:
    """Return the loaders that other code gets, a function or any caller; True where it is seen."""
    found: dict[At, bool] = {}
    for unit in evaluation.units.values():
        if not unit.callers:
            found |= dict.fromkeys(loaders_in(unit.returned.value, inside=True), False)
    for module in evaluation.files.modules:
        for call in module.index.of(cst.Call):
            called = evaluation.value(call.func)
            if any(isinstance(one, Library) for one in called):
                continue
            is_seen = bool(called) and all(isinstance(one, (Function, Class)) for one in called)
            for arg in call.args:
                value = evaluation.value(arg.value)
                for at in loaders_in(value, inside=True):
                    found[at] = found.get(at, True) and is_seen
    return found


def asked_for(evaluation: Evaluation, *names: str) -> frozenset[At]:
    """Return the loaders that something asks for an attribute."""
    found: dict[At, None] = {}
    for module in evaluation.files.modules:
        for name in (one for word in names for one in module.index.named.get(word, ())):
            above = module.parent(name)
            if isinstance(above, cst.Attribute) and above.attr is name:
                found |= loaders_in(evaluation.value(above.value))
    return frozenset(found)


def _hooked(evaluation: Evaluation) -> Several[At]:
    """Yield the loaders that a framework asks a class for."""
    for cls in evaluation.classes:
        bases = evaluation.classes.library_bases(cls.at)
        for name in sorted(HOOKS & cls.methods.keys()):
            unit = evaluation.units.get(evaluation.at(cls.methods[name], cls.at.file))
            if unit is not None and any(base.startswith(FRAMEWORKS) for base in bases):
                yield from loaders_in(unit.returned.value, inside=True)


def _started(evaluation: Evaluation, file: int) -> Several[tuple[cst.BaseExpression, str]]:
    """Yield what a file goes through, and whether a framework does."""
    index = evaluation.index(file)
    loops: list[cst.For | cst.CompFor] = [*index.of(cst.For), *index.of(cst.CompFor)]
    for loop in loops:
        yield loop.iter, ""
    for source in index.of(cst.From):
        yield source.item, ""
    for call in index.of(cst.Call):
        for one in evaluation.value(call.func):
            fits, starts = "", False
            match one:
                case Library(name=name):
                    starts = name in STARTS or name in PASSES_ON or name.startswith("itertools.")
                case Method(owner=Object(kind=kind), name=name):
                    starts = name in FITS and kind.startswith(FRAMEWORKS)
                    fits = kind if starts else ""
            for arg in call.args if starts else ():
                yield arg.value, fits
