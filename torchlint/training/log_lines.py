"""Lines that do nothing but log, and what can be left out together with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.calls import last_name
from torchlint.training.read_uses import Use, argument_use

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchlint.training.script import Script

_PURE_BUILTINS = frozenset(
    """float int str bool repr round len min max sum abs dict list tuple range zip sorted format
    enumerate type isinstance""".split()
)
# Methods of tensors, texts, dictionaries, times, schedulers and scalers that change nothing.
_PURE_METHODS = frozenset(
    """item detach cpu mean sum max min norm std var abs sqrt numpy tolist size dim numel float
    double long int argmax eq format join strip get_last_lr get_lr total_seconds strftime isoformat
    keys values items get exp log pow view reshape squeeze get_scale rjust ljust mul div""".split()
)
_PURE = ("torch.", "math.", "numpy.", "time.", "datetime.")
_IMPURE = (
    "torch.distributed.", "torch.rand", "torch.normal", "torch.manual_seed", "torch.save",
    "torch.set_", "numpy.random.", "numpy.save", "time.sleep", "torch.multinomial",
    "torch.bernoulli", "torch.seed", "torch.use_", "torch.load",
)  # fmt: skip


def only_logs(script: Script, line: cst.CSTNode) -> bool:
    """Whether a statement shows something and does nothing else."""
    match _alone(line):
        case cst.Expr(value=cst.Call() as call):
            shows = argument_use(script.connected.evaluation, call) is Use.SHOWN
            return shows and _changes_nothing(script, line, call)
    return False


def only_names(script: Script, line: cst.CSTNode) -> list[cst.Name]:
    """Return the names that a statement gives to values, if it does nothing else."""
    small = _alone(line)
    if not isinstance(small, cst.Assign) or not _changes_nothing(script, line, None):
        return []
    found: list[cst.Name] = []
    for target in small.targets:
        match target.target:
            case cst.Tuple(elements=elements):
                parts = [element.value for element in elements]
            case one:
                parts = [one]
        if not all(isinstance(part, cst.Name) for part in parts):
            return []
        found += [part for part in parts if isinstance(part, cst.Name)]
    return found


def run_of(
    script: Script, line: cst.CSTNode, reading: Collection[int]
) -> list[cst.SimpleStatementLine]:
    """Return the lines around one that log what they read, with the names they read it into.

    ``reading`` holds the ids of the lines that read something; only those are taken.  Empty where
    nothing of it logs, or where something else needs a name.
    """
    block = script.module.parent(line)
    if not isinstance(block, cst.IndentedBlock):
        return []
    refused: set[int] = set()
    while True:
        run = _around(script, block, line, reading, refused)
        outside = {
            id(one)
            for one in run
            for name in only_names(script, one)
            if _escapes(script, name, run)
        }
        if not outside:
            return run if any(only_logs(script, one) for one in run) else []
        refused |= outside


def _alone(line: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """Return the one statement of a line."""
    is_one = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    return line.body[0] if is_one and isinstance(line, cst.SimpleStatementLine) else None


def _changes_nothing(script: Script, line: cst.CSTNode, sink: cst.Call | None) -> bool:
    index = script.module.index
    for kind in (cst.NamedExpr, cst.Await, cst.Yield):
        if any(True for _ in index.below(line, kind)):
            return False
    return all(call is sink or _is_pure(script, call) for call in index.below(line, cst.Call))


def _is_pure(script: Script, call: cst.Call) -> bool:
    name = script.name(call.func)
    package, _, rest = name.partition(".")
    if package == "builtins":
        return rest in _PURE_BUILTINS
    if name.startswith(_PURE):
        return not name.startswith(_IMPURE) and not name.endswith("_")
    return last_name(call.func) in _PURE_METHODS


def _around(
    script: Script,
    block: cst.IndentedBlock,
    line: cst.CSTNode,
    reading: Collection[int],
    refused: Collection[int],
) -> list[cst.SimpleStatementLine]:
    """Return the lines next to one another, that one among them, which can be left out."""
    run: list[cst.SimpleStatementLine] = []
    for one in block.body:
        is_open = isinstance(one, cst.SimpleStatementLine) and id(one) not in refused
        reads = id(one) in reading
        fits = is_open and (
            (only_logs(script, one) and (reads or _uses(script, one, run)))
            or (reads and bool(only_names(script, one)))
        )
        if fits and isinstance(one, cst.SimpleStatementLine):
            run.append(one)
        elif any(each is line for each in run):
            break
        else:
            run = []
    return run if any(each is line for each in run) else []


def _uses(script: Script, line: cst.CSTNode, run: list[cst.SimpleStatementLine]) -> bool:
    """Whether a line shows a name that an earlier one of the run has made."""
    made = {name.value for one in run for name in only_names(script, one)}
    return any(name.value in made for name in script.module.index.below(line, cst.Name))


def _escapes(script: Script, name: cst.Name, run: list[cst.SimpleStatementLine]) -> bool:
    """Whether anything but the lines of the run reads what a name is given there."""
    index = script.module.index
    owner = index.scope(name).owner(name.value)
    for use in index.named.get(name.value, ()):
        if use is name or index.scope(use).owner(use.value) is not owner:
            continue
        if any(index.inside(use, one) for one in run):
            continue
        above = script.module.parent(use)
        increased = isinstance(above, cst.AugAssign) and above.target is use
        if index.bound(use) is not None and not increased:
            continue
        seen = script.connected.evaluation.reaching.get(id(use))
        if seen is None or any(binding.node is name for binding in seen):
            return True
    return False
