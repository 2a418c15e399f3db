"""Where the host waits for the GPU to know whether a tensor is true: ``if loss > 1:``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.host_results import loop_around, picks_step
from torchlint.analysis.loops import Role, ends_script
from torchlint.analysis.queued import decided_by
from torchlint.analysis.reach import forward_of
from torchlint.analysis.sinks import is_sink
from torchlint.analysis.syncs import Read, sync_of
from torchlint.analysis.uses import uses_of
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync
    from torchlint.syntax.scopes import Binding

_NONE = (cst.Is, cst.IsNot)
# Functions and methods whose tensors are asked for their truth.
_ANSWERS = frozenset(
    """all any isnan isinf isfinite isclose eq ne lt le gt ge equal less greater less_equal
    greater_equal logical_and logical_or logical_not logical_xor sum max min mean norm nonzero
    count_nonzero bool""".split()
)
_OF_ALL = frozenset({"all", "any", "sum", "max", "min", "mean", "norm"})
_DATA = re.compile(r"\.data\b")
_ZERO_DIMENSIONS = Version("0.4")  # has tensors without dimensions
_ONCE = ("__init__", "main")
_STEPS = (Role.TRAIN, Role.FORWARD)


def truths(program: Program) -> list[Sync]:
    """Every question for the truth of a GPU tensor that training steps and forward passes ask."""
    asked = [one for one in _asked(program) if _may_be_tensor(one) and _may_repeat(program, one)]
    asked = [one for one in asked if program.context(one).role in _STEPS]
    if asked and ".data" in program.text and not program.reaches(_ZERO_DIMENSIONS):
        asked = [one for one in asked if not _is_old_number(program, one)]
    asked = [one for one in asked if not _may_count(program, one)]
    if not asked or not program.devices.gpu:
        return []
    found: dict[int, Sync] = {}
    for node in asked:
        if id(node) not in found:
            proved = not _is_reduced(node)
            for sync in sync_of(program, node, node, Read.TRUTH, proved=proved):
                found[id(node)] = sync
    return list(found.values())


def _asked(program: Program) -> Iterator[cst.BaseExpression]:
    """Yield what is asked for its truth wherever it stands, as far as it is always asked."""
    of = program.index.of
    asking: list[cst.If | cst.While | cst.Assert | cst.IfExp | cst.CompIf] = [*of(cst.If)]
    asking += [*of(cst.While), *of(cst.Assert), *of(cst.IfExp), *of(cst.CompIf)]
    for node in asking:
        yield from _parts(node.test)
    for negated in of(cst.UnaryOperation):
        if isinstance(negated.operator, cst.Not) and not _is_second(program, negated):
            yield from _parts(negated.expression)
    for either in of(cst.BooleanOperation):
        if not _is_second(program, either):
            yield from _parts(either.left)
    for call in of(cst.Call):
        match call:
            case cst.Call(func=cst.Name("bool") as func, args=[arg]):
                if program.is_builtin(func) and not _is_second(program, call):
                    yield arg.value
            case _:
                pass


def _may_be_tensor(node: cst.BaseExpression) -> bool:
    """Whether the form of an expression leaves open that it is a tensor: its value costs more."""
    match node:
        case cst.Comparison(left=cst.BinaryOperation(operator=cst.Modulo())):
            return False  # every n steps
        case cst.Comparison(comparisons=comparisons):
            return not any(
                isinstance(one.operator, (*_NONE, cst.In, cst.NotIn))
                or isinstance(one.comparator, cst.BaseString)
                for one in comparisons
            )
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in _ANSWERS
        case _:
            return not isinstance(node, cst.Call)


def _may_count(program: Program, node: cst.BaseExpression) -> bool:
    """Whether what is compared is one of several results of a module whose code is not seen.

    ``loss, count = criterion(out, y)``: a loss may count as well, by a number.  Not of a result
    that the function uses as a tensor.
    """
    match node:
        case cst.Comparison(left=left, comparisons=[only]):
            sides = (left, only.comparator)
            return any(_is_counted(program, one) for one in sides) and all(
                _is_counted(program, one) or program.value(one).kind is not Kind.TENSOR
                for one in sides
            )
        case cst.Name():
            return _is_counted(program, node)
        case _:
            return False


def _is_counted(program: Program, node: cst.BaseExpression) -> bool:
    made = program.flow.reaching(node) if isinstance(node, cst.Name) else ()
    return (
        bool(made)
        and all(_is_one_of_results(program, one) for one in made)
        and program.usage.shown_by(made) is None
        and not any(
            isinstance(above := program.parent(use), cst.Attribute) and above.value is use
            for one in made
            for use in uses_of(program, one)
        )
    )


def _is_one_of_results(program: Program, made: Binding) -> bool:
    """Whether a name is one of the results that a module of unknown code gives."""
    if not made.path or not isinstance(made.value, cst.Call):
        return False
    model = program.value(made.value.func)
    return (
        model.kind is Kind.MODULE
        and not model.type.startswith("torch.nn.")
        and forward_of(program, model) is None
    )


def _is_old_number(program: Program, node: cst.BaseExpression) -> bool:
    """``x.data.sum() > 0``, also of a name: up to torch 0.3 what has no dimensions is a number.

    That holds for the sum of a tensor, for which the host has waited where it is made; that of a
    Variable is a Variable.
    """
    match node:
        case cst.Comparison(left=left):
            return _is_old_number(program, left)
        case cst.Name():
            made = program.flow.reaching(node)
            return bool(made) and all(
                one.is_plain
                and isinstance(one.value, cst.Call)
                and _is_old_number(program, one.value)
                for one in made
            )
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(name)), args=[]):
            return name in _OF_ALL and _DATA.search(program.code(value)) is not None
        case _:
            return False


def _may_repeat(program: Program, node: cst.CSTNode) -> bool:
    """Whether a place is in a loop, or in a function other than those that run once."""
    for above in program.index.ancestors(node):
        kind = type(above)  # not isinstance: see `dotted`
        if kind is cst.For or kind is cst.While:
            return True
        if kind is cst.FunctionDef:
            assert isinstance(above, cst.FunctionDef)
            return above.name.value not in _ONCE
    return False


def _is_reduced(node: cst.CSTNode) -> bool:
    """``(x > 0).all()``: of what was moved to a GPU that is a tensor, whatever else is known."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("all" | "any"))):
            return True
        case _:
            return False


def _is_second(program: Program, node: cst.CSTNode) -> bool:
    """Whether something else is asked first, and may settle it: ``wanted and not mask.any()``."""
    child = node
    for above in program.index.ancestors(node):
        if isinstance(above, cst.BaseStatement):
            return False
        if isinstance(above, cst.BooleanOperation) and child is above.right:
            return True
        child = above
    return False


def _parts(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the parts of a condition that decide it; ``x.any()`` in ``x is None or x.any()``."""
    match test:
        case cst.BooleanOperation(
            left=cst.Comparison(comparisons=[cst.ComparisonTarget(operator=operator)]), right=right
        ) if isinstance(operator, _NONE):
            yield from _parts(right)
        case _:
            yield from decided_by(test)


def branch_on(program: Program, sync: Sync) -> cst.If | None:
    """Return the ``if`` that asks."""
    for above in program.index.ancestors(sync.node):
        if isinstance(above, cst.BaseStatement):
            return above if isinstance(above, cst.If) else None
    return None


def _turns(program: Program, sync: Sync) -> bool:
    """Whether a loop has one more turn by the answer, which it has to know: ``while error > 1:``.

    The end of the training itself can wait for a few steps; those of loops inside a step cannot.
    """
    for above in program.index.ancestors(sync.node):
        if isinstance(above, cst.While) and program.index.inside(sync.node, above.test):
            return True
        if isinstance(above, cst.BaseStatement):
            break
    branch, loop = branch_on(program, sync), loop_around(program, sync.node)
    inner = loop is not None and loop is not sync.context.loop
    return inner and branch is not None and _ends_by(branch, (cst.Break, cst.Return, cst.Continue))


def _arms(program: Program, sync: Sync) -> list[cst.CSTNode]:
    """Return what an answer decides on, but for reports of failures."""
    for above in program.index.ancestors(sync.node):
        match above:
            case cst.IfExp() | cst.If():
                if isinstance(above, cst.If) and reports(program, above):
                    return []
                return [arm for arm in (above.body, above.orelse) if arm is not None]
            case cst.BaseStatement():
                break
            case _:
                pass
    return []


# -- what an answer is for ------------------------------------------------------------------------


def reports(program: Program, branch: cst.If) -> bool:
    """Whether a branch only speaks of a failure, or ends the program by it."""
    if _ends_by(branch, (cst.Raise,)) or ends_script(branch.body):
        return True
    if branch.orelse is not None:
        return False
    lines = [
        line.body if isinstance(line, cst.SimpleStatementLine) else [line]
        for line in branch.body.body
    ]
    return all(_speaks(program, small) for line in lines for small in line)


def _speaks(program: Program, line: cst.CSTNode) -> bool:
    """``print("NaN")``, ``warnings.warn("high")``."""
    match line:
        case cst.Expr(value=cst.Call() as call):
            return is_sink(program, call) or "warn" in program.code(call.func)
        case _:
            return False


def picks(program: Program, sync: Sync) -> bool:
    """Whether the answer decides over the step, the end of the loop, or what a model is run on."""
    branch = branch_on(program, sync)
    if branch is None or reports(program, branch):
        return False
    if picks_step(program, sync.node) or _ends_by(branch, (cst.Break, cst.Return, cst.Continue)):
        return True
    return any(
        program.value(call.func).kind is Kind.MODULE
        or (isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward")
        for call in program.index.below(branch, cst.Call)
    )


def _ends_by(branch: cst.If, kinds: tuple[type[cst.CSTNode], ...]) -> bool:
    last = branch.body.body[-1] if branch.body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, kinds)
