"""Whether an attribute is only read where it is known not to be ``None``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.analysis.program import Program

_DEPTH = 4
_LEAVES = (cst.Return, cst.Raise, cst.Continue, cst.Break)
_TESTED = frozenset(
    {cst.If, cst.While, cst.IfExp, cst.BooleanOperation, cst.ListComp, cst.SetComp,
     cst.GeneratorExp, cst.DictComp, cst.IndentedBlock, cst.Module, cst.Try}
)  # fmt: skip


def checked(program: Program, node: cst.Attribute) -> bool:
    """Whether ``node`` is itself a test for ``None``, or stands behind one of the same text."""
    text = program.code(node)
    return _is_test(program, node) or behind_test(program, node, text)


def implies(program: Program, test: cst.CSTNode, text: str, *, truth: bool) -> bool:
    """Whether ``text`` is not ``None`` where a condition is true (or where it is false)."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return implies(program, inner, text, truth=not truth)
        case cst.BooleanOperation():
            wanted = cst.And if truth else cst.Or
            return isinstance(test.operator, wanted) and any(
                implies(program, side, text, truth=truth) for side in (test.left, test.right)
            )
        case cst.Comparison(comparisons=[cst.ComparisonTarget(comparator=cst.Name("None")) as one]):
            operators = (cst.IsNot, cst.NotEqual) if truth else (cst.Is, cst.Equal)
            return isinstance(one.operator, operators) and program.code(test.left) == text
        case cst.Call(func=cst.Name("hasattr"), args=[cst.Arg(value=asked), *_]):
            return truth and program.code(asked) == text
        case cst.Name() | cst.Attribute():
            return truth and program.code(test) == text
        case _:
            return False


def _is_test(program: Program, node: cst.Attribute) -> bool:
    match program.parent(node):
        case cst.Comparison(comparisons=[cst.ComparisonTarget(comparator=cst.Name("None"))]):
            return True
        case cst.Arg() as arg:
            call = program.parent(arg)
            return isinstance(call, cst.Call) and dotted(call.func) in ("hasattr", "isinstance")
        case cst.If() | cst.BooleanOperation() | cst.IfExp() | cst.While():
            return True
        case cst.UnaryOperation(operator=cst.Not()):
            return True
        case _:
            return False


def _is_none(program: Program, function: cst.FunctionDef, param: cst.Param, depth: int = 0) -> bool:
    """Whether the calls in the file pass ``None`` for a parameter, be it by one of their own."""
    given = program.calls.arguments(function, param)
    return bool(given) and depth < _DEPTH and all(_gives_none(program, x, depth) for x in given)


def _gives_none(program: Program, node: cst.BaseExpression, depth: int) -> bool:
    if not isinstance(node, cst.Name) or node.value == "None":
        return isinstance(node, cst.Name)
    bindings = program.flow.reaching(node)
    around = program.function(node)
    return (
        around is not None
        and bool(bindings)
        and all(
            isinstance(one.value, cst.Param) and _is_none(program, around, one.value, depth + 1)
            for one in bindings
        )
    )


def behind_test(program: Program, node: cst.CSTNode, text: str) -> bool:
    """Whether ``text`` is known not to be ``None`` where a node stands."""
    child = node
    for above in program.index.ancestors(node):
        if type(above) not in _TESTED:  # most nodes: that many cases cost a while
            child = above
            continue
        match above:
            case cst.If() | cst.While() | cst.IfExp() if child is above.body:
                found = implies(program, above.test, text, truth=True)
            case cst.If() | cst.IfExp() if child is above.orelse:
                found = implies(program, above.test, text, truth=False)
            case cst.BooleanOperation() if child is above.right:
                found = implies(
                    program, above.left, text, truth=isinstance(above.operator, cst.And)
                )
            case cst.ListComp() | cst.SetComp() | cst.GeneratorExp() | cst.DictComp():
                found = _filtered(program, above.for_in, text)
            case cst.IndentedBlock() | cst.Module():
                found = _left_before(program, above.body, child, text)
            case cst.Try() if child is above.body:
                found = bool(above.handlers)
            case _:
                found = False
        if found:
            return True
        child = above
    return False


def _filtered(program: Program, part: cst.CompFor, text: str) -> bool:
    """``for p in ps if p.grad is not None``."""
    tests = [condition.test for condition in part.ifs]
    if part.inner_for_in is not None and _filtered(program, part.inner_for_in, text):
        return True
    return any(implies(program, test, text, truth=True) for test in tests)


def _left_before(
    program: Program, body: Sequence[cst.CSTNode], child: cst.CSTNode, text: str
) -> bool:
    """``if p.grad is None: continue``, or an assertion, earlier in the block."""
    for statement in body:
        if statement is child:
            return False
        match statement:
            case cst.If(test=test, body=cst.BaseSuite() as block, orelse=None):
                if _leaves(block) and implies(program, test, text, truth=False):
                    return True
            case cst.SimpleStatementLine(body=[cst.Assert(test=test), *_]):
                if implies(program, test, text, truth=True):
                    return True
            case _:
                pass
    return False


def _leaves(block: cst.BaseSuite) -> bool:
    last: cst.CSTNode | None = block.body[-1] if block.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, _LEAVES)
