"""Arguments: which value a call passes for which parameter, through dictionaries too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.semantics.operations import element_of
from torchlint.semantics.values import NEVER, UNKNOWN, Dictionary, Sequence
from torchlint.syntax.calls import keyword_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Sequence as Several

    import libcst as cst

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Value


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """One argument of a call: ``star`` is "", "*" or "**".

    Of dictionaries that are passed, ``perhaps`` has the keys that may be missing.
    """

    keyword: str
    star: str
    value: Value
    node: cst.Arg
    perhaps: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """What a parameter gets; ``node`` is the expression, None where it lies in a container.

    ``always`` is False where a dictionary that is passed may be without it.
    """

    value: Value
    node: cst.BaseExpression | None
    always: bool = True


def passed_by(run: Run, call: cst.Call) -> tuple[Passed, ...]:
    """Evaluate the arguments of a call, in their order."""
    found = []
    for arg in call.args:
        value = run.value(arg.value)
        if arg.star == "*" and _unpacked(value) is None:
            value = run.sets.nested(Sequence("tuple", None, element_of(run, value), None))
        if arg.star == "**":
            for one in value:
                if isinstance(one, Dictionary) and one.made is not None:
                    for cell in run.evaluation.later(one.made).values():
                        run.read(cell)
        found.append(passed_with(run.evaluation, arg, value))
    return tuple(found)


def passed_with(evaluation: Evaluation, arg: cst.Arg, value: Value) -> Passed:
    """Return an argument of a call; of dictionaries, with what they are given later."""
    keyword = keyword_of(arg)
    if arg.star != "**":
        return Passed(keyword, arg.star, value, arg)
    union, found = evaluation.sets.union, [one for one in value if isinstance(one, Dictionary)]
    entries: dict[str, Value] = {}
    element = NEVER if found and len(found) == len(value) else evaluation.sets.unknown
    certain: list[set[str]] = []
    for one in found:
        own = dict(one.entries)
        certain.append(set(own))
        element = union(element, one.element)
        if one.made is not None:
            for key, cell in evaluation.later(one.made).items():
                own[key] = union(own.get(key, NEVER), cell.value)
            element = union(element, own.pop("", NEVER))
        for key, each in own.items():
            entries[key] = union(entries.get(key, NEVER), each)
    always = set.intersection(*certain) if len(found) == len(value) and certain else set()
    held = Dictionary(tuple(sorted((k, v) for k, v in entries.items() if v)), element, None)
    whole = evaluation.sets.nested(held)
    return Passed(keyword, arg.star, whole, arg, frozenset(set(entries) - always))


def bound(
    names: Several[str], passed: Several[Passed]
) -> tuple[dict[str, Argument], bool, list[Value]]:
    """Return arguments by parameter, whether any may be missing in this, and those left by place.

    ``names`` are the parameters in their order; those behind "*" take no place.
    """
    left = list(names[: names.index("*")] if "*" in names else names)
    found: dict[str, Argument] = {}
    more: list[Value] = []
    is_sure = True
    for one in passed:
        if one.keyword or one.star == "**":
            continue
        values = _unpacked(one.value) if one.star else (one.value,)
        if values is None:
            is_sure = False
            for value in _several(one.value):
                found |= dict.fromkeys(left, Argument(value, None, always=False))
            break
        for value in values:
            if left:
                found[left.pop(0)] = Argument(value, None if one.star else one.node.value)
            else:
                more.append(value)
    for one in passed:
        if one.keyword:
            found[one.keyword] = Argument(one.value, one.node.value)
        elif one.star == "**":
            for each in one.value:
                if isinstance(each, Dictionary):
                    is_sure = is_sure and not each.element
                    for key, value in each.entries:
                        found.setdefault(key, Argument(value, None, key not in one.perhaps))
    return found, is_sure, more


def given_to(
    evaluation: Evaluation, call: cst.Call, names: Several[str]
) -> tuple[dict[str, Argument], bool]:
    """Return the arguments of a call that was evaluated, as `bound` does."""
    given = [passed_with(evaluation, arg, evaluation.value(arg.value)) for arg in call.args]
    return bound(names, given)[:2]


def _unpacked(value: Value) -> tuple[Value, ...] | None:
    match value:
        case (Sequence(elements=tuple(elements)),):
            return elements
    return None


def _several(value: Value) -> Iterator[Value]:
    """Yield what each of an unknown number of arguments is, where that is known."""
    for one in value:
        if isinstance(one, Sequence) and one.element and UNKNOWN not in one.element:
            yield one.element


def first_of(passed: Several[Passed], place: int, keyword: str = "") -> Value:
    """Return the argument at a place or of a keyword, NEVER where there is none."""
    plain = [one for one in passed if not one.keyword and not one.star]
    if place < len(plain) and len([one for one in passed[: place + 1] if one.star]) == 0:
        return plain[place].value
    return next((one.value for one in passed if one.keyword and one.keyword == keyword), NEVER)
