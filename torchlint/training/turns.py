"""How many turns a loop makes at most, as far as the code gives a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Number, Sequence
from torchlint.syntax.calls import positional
from torchlint.syntax.scopes import Bind
from torchlint.training.between import last_of

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation


def most_turns(evaluation: Evaluation, loop: cst.CSTNode, file: int) -> int | None:
    """Return how many turns a loop makes at most, None where the code does not say.

    The default of an option is no bound: another may be asked for.
    """
    found = [_length(evaluation, getattr(loop, "iter", None))]
    if isinstance(loop, (cst.For, cst.While)):
        found += [_left_at(evaluation, one) for one in loop.body.body]
        index = evaluation.index(file)
        starts_again = (
            next(one for one in index.ancestors(node) if isinstance(one, (cst.For, cst.While)))
            for node in index.below(loop.body, cst.Continue)
        )
        if isinstance(last_of(loop.body), (cst.Break, cst.Return)) and loop not in starts_again:
            return 1
    return min((one for one in found if one is not None), default=None)


def _left_at(evaluation: Evaluation, statement: cst.CSTNode) -> int | None:
    """``if step >= 100: break``, of a name that counts the turns."""
    match statement:
        case cst.If(
            test=cst.Comparison(
                left=cst.Name() as name,
                comparisons=[cst.ComparisonTarget(operator=operator, comparator=bound)],
            ),
            body=body,
        ) if isinstance(operator, (cst.Equal, cst.GreaterThan, cst.GreaterThanEqual)):
            kinds = {one.kind for one in evaluation.bindings(name)}
            is_left = isinstance(last_of(body), (cst.Break, cst.Return))
            number = _number(evaluation, bound)
            if is_left and number is not None and kinds & {Bind.FOR, Bind.AUGMENT}:
                return number + 2
    return None


def _length(evaluation: Evaluation, over: cst.CSTNode | None) -> int | None:
    if isinstance(over, cst.Call) and (args := positional(over)):
        name, numbers = evaluation.library(over.func), [_number(evaluation, arg) for arg in args]
        match name, numbers:
            case "builtins.range", [int(stop)]:
                return stop
            case "builtins.range", [int(start), int(stop), *_]:
                return stop - start
            case "itertools.islice", [_, stop]:
                return stop
        if name.startswith(("tqdm.", "builtins.enumerate")):
            return _length(evaluation, args[0])
    match evaluation.value(over):
        case (Sequence(elements=tuple(elements), made=made),):
            grows = made is not None and any(cell.value for cell in evaluation.later(made).values())
            return None if grows else len(elements)
    return None


def _number(evaluation: Evaluation, node: cst.BaseExpression) -> int | None:
    match evaluation.value(node):
        case (Number(value=int() | float() as number, option=None),):
            return int(number)
    return None
