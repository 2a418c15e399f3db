"""Statements that do nothing but log, and what can be left out together with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.sinks import is_sink
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torchlint.analysis.program import Program

_WRITES = ("sys.stdout.write", "sys.stderr.write", "tqdm.write", "tqdm.tqdm.write")
_PURE_BUILTINS = frozenset(
    {"float", "int", "str", "bool", "repr", "round", "len", "min", "max", "sum", "abs", "dict",
     "list", "tuple", "range", "zip", "sorted", "format", "enumerate", "type", "isinstance"}
)  # fmt: skip
# Methods that change nothing, on whatever they are called.
_PURE_METHODS = frozenset(
    {"item", "detach", "cpu", "mean", "sum", "max", "min", "norm", "std", "var", "abs", "sqrt",
     "numpy", "tolist", "size", "dim", "numel", "float", "double", "long", "int", "argmax", "eq",
     "format", "join", "strip", "get_last_lr", "get_lr", "total_seconds", "strftime", "isoformat",
     "keys", "values", "items", "get", "exp", "log", "pow", "view", "reshape", "squeeze", "data",
     "memory_allocated", "max_memory_allocated", "get_scale", "rjust", "ljust", "mul", "div"}
)  # fmt: skip
_PURE = ("torch.", "math.", "numpy.", "time.", "datetime.")
_IMPURE = ("torch.distributed.", "torch.rand", "torch.normal", "torch.manual_seed", "torch.save",
           "torch.set_", "numpy.random.", "numpy.save", "time.sleep", "torch.multinomial",
           "torch.bernoulli", "torch.seed", "torch.use_", "torch.load")  # fmt: skip


def only_logs(program: Program, line: cst.CSTNode) -> bool:
    """Whether a statement shows something and does nothing else."""
    small = _alone(line)
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        return False
    call = small.value
    shows = is_sink(program, call) or dotted(call.func) in _WRITES
    return shows and _changes_nothing(program, small, call)


def only_names(program: Program, line: cst.CSTNode) -> list[cst.Name]:
    """Return the names that a statement gives to values, if it does nothing else."""
    small = _alone(line)
    if not isinstance(small, cst.Assign) or not _changes_nothing(program, small, None):
        return []
    found: list[cst.Name] = []
    for target in small.targets:
        parts = target.target.elements if isinstance(target.target, cst.Tuple) else [target]
        for part in parts:
            name = part.target if isinstance(part, cst.AssignTarget) else part.value
            if not isinstance(name, cst.Name):
                return []
            found.append(name)
    return found


def _alone(line: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """Return the one statement of a line."""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        return line.body[0]
    return None


def _changes_nothing(program: Program, small: cst.CSTNode, sink: cst.Call | None) -> bool:
    index = program.index
    for kind in (cst.NamedExpr, cst.Await, cst.Yield):
        if any(True for _ in index.below(small, kind)):
            return False
    return all(call is sink or _is_pure(program, call) for call in index.below(small, cst.Call))


def _is_pure(program: Program, call: cst.Call) -> bool:
    name = program.qualified(call.func)
    if name.startswith(_PURE):
        return not name.startswith(_IMPURE) and not name.endswith("_")
    match call.func:
        case cst.Name(value=function) as func:
            return function in _PURE_BUILTINS and program.is_builtin(func)
        case cst.Attribute(attr=cst.Name(value=method)):
            return method in _PURE_METHODS
        case _:
            return False


# -- what goes together ---------------------------------------------------------------------------


def run_of(
    program: Program, line: cst.CSTNode, reading: Collection[int]
) -> list[cst.SimpleStatementLine]:
    """Return the lines around one that log what they read, with the names they read it into.

    Args:
        program: the file.
        line: one of them.
        reading: ids of the lines that read something; only those are taken.

    Empty where nothing of it logs, or where something else needs a name.

    """
    block = program.parent(line)
    if not isinstance(block, cst.IndentedBlock):
        return []
    lines = list(block.body)
    refused: set[int] = set()
    while True:
        run = list(_around(program, lines, line, reading, refused))
        outside = {
            id(one)
            for one in run
            for name in only_names(program, one)
            if _escapes(program, name, run)
        }
        if not outside:
            return run if any(only_logs(program, one) for one in run) else []
        refused |= outside


def _around(
    program: Program,
    lines: list[cst.BaseStatement],
    line: cst.CSTNode,
    reading: Collection[int],
    refused: Collection[int],
) -> Iterator[cst.SimpleStatementLine]:
    """Yield the lines next to one another, that one among them, which can be left out."""
    run: list[cst.SimpleStatementLine] = []
    for one in lines:
        fits = isinstance(one, cst.SimpleStatementLine) and id(one) not in refused
        shows = (
            fits and only_logs(program, one) and (id(one) in reading or _uses(program, one, run))
        )
        names = fits and id(one) in reading and bool(only_names(program, one))
        if isinstance(one, cst.SimpleStatementLine) and (shows or names):
            run.append(one)
        elif any(each is line for each in run):
            break
        else:
            run = []
    if any(each is line for each in run):
        yield from run


def _uses(program: Program, line: cst.CSTNode, run: list[cst.SimpleStatementLine]) -> bool:
    """Whether a line shows a name that an earlier one of the run has made."""
    made = {name.value for one in run for name in only_names(program, one)}
    return any(name.value in made for name in program.index.below(line, cst.Name))


def _escapes(program: Program, name: cst.Name, run: list[cst.SimpleStatementLine]) -> bool:
    """Whether anything but the lines of the run reads what a name is given there."""
    index, flow = program.index, program.flow
    owner = index.scope(name).owner(name.value)
    for use in index.named.get(name.value, ()):
        if use is name or index.scope(use).owner(use.value) is not owner:
            continue
        if any(index.inside(use, one) for one in run):
            continue
        parent = program.parent(use)
        increased = isinstance(parent, cst.AugAssign) and parent.target is use
        seen = flow.before(parent, use.value) if increased and parent else flow.reaching(use)
        if index.bound(use) is not None and not increased:
            continue
        if any(binding.node is name for binding in seen):
            return True
    return False
