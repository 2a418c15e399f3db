"""How many turns a loop makes at most, as far as the code gives a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Number, Sequence

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value


def most_turns(evaluation: Evaluation, loop: cst.CSTNode, file: int) -> int | None:
    """Return how many turns a loop makes at most, None where the code does not say.

    The default of an option is no bound: another may be asked for.
    """
    if isinstance(loop, (cst.For, cst.While)) and _ends(evaluation, loop, file):
        return 1
    over = getattr(loop, "iter", None)
    return None if over is None else _length(evaluation, over)


def _ends(evaluation: Evaluation, loop: cst.For | cst.While, file: int) -> bool:
    """Whether the first turn ends the loop: a last ``break`` or ``return``."""
    index = evaluation.files.modules[file].index
    last = loop.body.body[-1] if loop.body.body else None
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) and last.body else last
    return isinstance(small, (cst.Break, cst.Return)) and not any(
        next(one for one in index.ancestors(node) if isinstance(one, (cst.For, cst.While))) is loop
        for node in index.below(loop.body, cst.Continue)
    )


def _length(evaluation: Evaluation, over: cst.BaseExpression) -> int | None:
    value = evaluation.values.get(id(over), ())
    if isinstance(over, cst.Call):
        args = [arg.value for arg in over.args if arg.keyword is None and not arg.star]
        match evaluation.values.get(id(over.func), ()):
            case (Library(name="builtins.range"),) if args:
                return _range(evaluation, args)
            case (Library(name="itertools.islice"),) if len(args) > 1:
                return _number(evaluation.values.get(id(args[1]), ()))
            case (Library(name=name),) if args and name.startswith(("tqdm.", "builtins.enum")):
                return _length(evaluation, args[0])
    match value:
        case (Sequence(elements=tuple(elements), made=made),):
            grows = made is not None and any(cell.value for cell in evaluation.later(made))
            return None if grows else len(elements)
    return None


def _range(evaluation: Evaluation, args: list[cst.BaseExpression]) -> int | None:
    numbers = [_number(evaluation.values.get(id(arg), ())) for arg in args]
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
