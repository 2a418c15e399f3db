"""How many turns a loop makes at most, as far as the code gives a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Number, Sequence
from torchlint.syntax.calls import positional
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value


def most_turns(evaluation: Evaluation, loop: cst.CSTNode, file: int) -> int | None:
    """Return how many turns a loop makes at most, None where the code does not say.

    The default of an option is no bound: another may be asked for.
    """
    found: list[int | None] = []
    if isinstance(loop, (cst.For, cst.While)):
        if _ends(evaluation, loop, file):
            return 1
        found = [_left_at(evaluation, loop, one, file) for one in loop.body.body]
    over = getattr(loop, "iter", None)
    found.append(None if over is None else _length(evaluation, over))
    return min((one for one in found if one is not None), default=None)


def _left_at(
    evaluation: Evaluation, loop: cst.For | cst.While, statement: cst.CSTNode, file: int
) -> int | None:
    """``if step >= 100: break``, of a name that counts the turns."""
    match statement:
        case cst.If(
            test=cst.Comparison(
                left=cst.Name() as name,
                comparisons=[cst.ComparisonTarget(operator=operator, comparator=bound)],
            ),
            body=cst.BaseSuite(body=[*_, last]),
        ) if isinstance(operator, (cst.Equal, cst.GreaterThan, cst.GreaterThanEqual)):
            small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
            number = _number(evaluation.value(bound))
            index = evaluation.index(file)
            owner = index.scope(name).owner(name.value)
            counts = owner is not None and any(
                one.kind in (Bind.FOR, Bind.AUGMENT) and index.inside(one.node, loop)
                for one in owner.bindings[name.value]
            )
            is_left = isinstance(small, (cst.Break, cst.Return)) and counts
            return number + 2 if is_left and number is not None else None
    return None


def _ends(evaluation: Evaluation, loop: cst.For | cst.While, file: int) -> bool:
    """Whether the first turn ends the loop: a last ``break`` or ``return``."""
    index = evaluation.index(file)
    last = loop.body.body[-1] if loop.body.body else None
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) and last.body else last
    return isinstance(small, (cst.Break, cst.Return)) and not any(
        next(one for one in index.ancestors(node) if isinstance(one, (cst.For, cst.While))) is loop
        for node in index.below(loop.body, cst.Continue)
    )


def _length(evaluation: Evaluation, over: cst.BaseExpression) -> int | None:
    value = evaluation.value(over)
    if isinstance(over, cst.Call):
        args = positional(over)
        match evaluation.value(over.func):
            case (Library(name="builtins.range"),) if args:
                return _range(evaluation, args)
            case (Library(name="itertools.islice"),) if len(args) > 1:
                return _number(evaluation.value(args[1]))
            case (Library(name=name),) if args and name.startswith(("tqdm.", "builtins.enum")):
                return _length(evaluation, args[0])
    match value:
        case (Sequence(elements=tuple(elements), made=made),):
            grows = made is not None and any(cell.value for cell in evaluation.later(made))
            return None if grows else len(elements)
    return None


def _range(evaluation: Evaluation, args: list[cst.BaseExpression]) -> int | None:
    numbers = [_number(evaluation.value(arg)) for arg in args]
    match numbers:
        case [int(stop)]:
            return max(0, stop)
        case [int(start), int(stop)]:
            return max(0, stop - start)
        case [int(start), int(stop), int(step)] if step:
            return len(range(start, stop, step))
    return None


def _number(value: Value) -> int | None:
    """Return the largest number that a value may be."""
    found = [
        int(one.value) if isinstance(one, Number) and one.value is not None and not one.option
        else None
        for one in value
    ]  # fmt: skip
    known = [one for one in found if one is not None]
    return max(known) if known and len(known) == len(found) else None
