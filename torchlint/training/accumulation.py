"""Gradient accumulation by hand: steps that let an optimizer step after several backward passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Number
from torchlint.syntax.scopes import Bind
from torchlint.training.optimizers import clears, trains
from torchlint.training.steps import Role, same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.between import Condition
    from torchlint.training.steps import Member, Region, Steps

_DEPTH = 6


@dataclass(frozen=True, slots=True, eq=False)
class Accumulation:
    """An optimizer's step that waits for several backward passes.

    ``test`` is the condition on a number of turns under which the step is taken, or the passes are
    in a ``loop`` of their own; ``every`` is how many they are, None where nothing tells.
    ``known`` is False where it is not seen that the condition counts turns.
    """

    region: Region
    step: Member
    steps: tuple[Member, ...]  # all that wait with it
    backward: Member
    test: cst.BaseExpression | None
    loop: tuple[int, cst.CSTNode] | None
    every: cst.BaseExpression | None
    file: int  # of the test, or of the loop
    known: bool

    def code(self, node: cst.CSTNode) -> str:
        """Return the code of the test, or of how many passes there are."""
        return self.region.evaluation.module(self.file).brief(node)

    @property
    def step_code(self) -> str:
        """The code of the optimizer's step."""
        return self.region.evaluation.module(self.step.file).brief(self.step.node)

    @property
    def is_by_hand(self) -> bool:
        """Whether no framework does all of it: ``with accelerator.accumulate(model):``."""
        evaluation = self.region.evaluation
        for file, scope in self.region.scopes:
            index = evaluation.index(file)
            for name in index.named.get("accumulate", ()):
                call = index.parent(index.parent(name) or name)
                is_entered = call is not None and isinstance(index.parent(call), cst.WithItem)
                if is_entered and index.inside(name, scope):
                    return False
        return True

    def in_each_turn(self, member: Member) -> bool:
        """Whether a member runs once for each backward pass, as far as conditions tell."""
        if self.loop is not None:
            return _has(self.region.loops(member), self.loop)
        if self.region.loops(member):
            return False
        evaluation = self.region.evaluation
        return not any(_counted(evaluation, one) for one in self.region.conditions(member))

    @property
    def passes(self) -> int | None:
        """How many backward passes there are, None where nothing tells, or one by default."""
        value = self.region.evaluation.value(self.every) if self.every else ()
        numbers = [one for one in value if isinstance(one, Number)]
        if len(numbers) != 1 or len(value) != 1 or numbers[0].value is None:
            return None
        return None if numbers[0].value == 1 and numbers[0].option else int(numbers[0].value)

    def comes_after(self, member: Member) -> bool:
        """Whether a member comes behind the backward pass."""
        members = self.region.members
        return members.index(member) > members.index(self.backward)


def accumulations(steps: Steps) -> Iterator[Accumulation]:
    """Yield what accumulates gradients."""
    for region in steps:
        seen: list[Member] = []
        members = region.of(Role.STEP)
        for step in members:
            if any(same(step, one) for one in seen):
                continue
            seen.append(step)
            mine = tuple(one for one in members if same(step, one))
            found = _under_a_condition(region, mine) or _behind_a_loop(region, mine)
            if found is not None:
                yield found


def _under_a_condition(region: Region, steps: tuple[Member, ...]) -> Accumulation | None:
    """``if (i + 1) % k == 0: optimizer.step()``."""
    evaluation = region.evaluation
    windows = [_window(region, one) for one in steps]
    if not windows or None in windows or any(region.loops(one) for one in steps):
        return None
    window = windows[0]
    assert window is not None
    condition, every = window
    known = _turns(region, condition, every)
    passes = _passes(region, steps)
    is_apart = all(
        not _holds(region, one, condition) or _holds(region, other, condition, negated=True)
        for one in passes
        for other in passes[:1]
    )
    free = [one for one in passes if not _holds(region, one, condition) and not region.loops(one)]
    if not free or known is False or not is_apart or _is_one(evaluation, every):
        return None
    taken = [(id(c.test), c.truth) for one in passes for c in region.conditions(one)]
    if any(
        _counted(evaluation, c) and (id(c.test), not c.truth) not in taken
        for c in region.conditions(free[0])
        if c.test is not condition.test
    ):
        return None
    return Accumulation(
        region,
        steps[0],
        steps,
        free[0],
        condition.test,
        None,
        every.right,
        condition.file,
        known=known is True,
    )


def _behind_a_loop(region: Region, steps: tuple[Member, ...]) -> Accumulation | None:
    """``for part in parts: loss(part).backward()``, and then ``optimizer.step()``."""
    around = [region.loops(one) for one in steps]
    places = {id(one): place for place, one in enumerate(region.members)}
    for one in _passes(region, steps):
        inner = region.loops(one)
        if not inner or any(_has(each, inner[-1]) for each in around):
            continue
        after = [s for s in steps if places[id(s)] > places[id(one)] and not region.exclude(s, one)]
        between = region.members[places[id(one)] : places[id(after[0])]] if after else ()
        if any(
            each.role is Role.ZERO_GRAD
            and clears(region, each, steps[0])
            and not _has(region.loops(each), inner[-1])
            for each in between
        ):
            continue  # what the loop has added up is not what the step is by
        if after and len(region.loops(after[0])) < len(inner):
            file, loop = inner[-1]
            return Accumulation(
                region, after[0], steps, one, None, (file, loop), _turns_of(loop), file, known=True
            )
    return None


def _passes(region: Region, steps: tuple[Member, ...]) -> list[Member]:
    """Return the backward passes that give an optimizer its gradients."""
    mine = [one.test for one in region.conditions(steps[0])]
    several = any(
        not same(one, steps[0]) and [each.test for each in region.conditions(one)] != mine
        for one in region.of(Role.STEP)
    )
    found: list[Member] = []
    for one in region.of(Role.BACKWARD):
        known = trains(region, one, steps[0])
        if known or (known is None and not several):
            found.append(one)
    return found


def _window(region: Region, step: Member) -> tuple[Condition, cst.BinaryOperation] | None:
    """Return the condition on a number of turns that a step is under, and its remainder."""
    for condition in region.conditions(step):
        found = remainder(region.evaluation, condition.test, truth=condition.truth)
        if found is not None:
            return condition, found
    return None


def remainder(
    evaluation: Evaluation, test: cst.CSTNode | None, *, truth: bool, depth: int = 0
) -> cst.BinaryOperation | None:
    """Return ``(i + 1) % k`` of a test that holds where it is a number, else None."""
    match test:
        case cst.Name() if depth < _DEPTH:
            found = evaluation.bindings(test)
            if len(found) == 1 and found[0].is_plain:
                return remainder(evaluation, found[0].value, truth=truth, depth=depth + 1)
        case cst.BooleanOperation(left=left, right=right):
            return remainder(evaluation, left, truth=truth, depth=depth + 1) or remainder(
                evaluation, right, truth=truth, depth=depth + 1
            )
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return remainder(evaluation, inner, truth=not truth, depth=depth + 1)
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
            if isinstance(operator, cst.Equal if truth else cst.NotEqual):
                return _modulo(left) or _modulo(right)
        case cst.BinaryOperation() if not truth:
            return _modulo(test)
    return None


def _modulo(node: cst.BaseExpression) -> cst.BinaryOperation | None:
    is_modulo = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)
    return node if is_modulo else None  # type: ignore[return-value]


def _counted(evaluation: Evaluation, condition: Condition) -> bool:
    """Whether a condition holds in some turns only, by their number."""
    return any(
        remainder(evaluation, condition.test, truth=truth) is not None for truth in (True, False)
    )


def _turns(region: Region, condition: Condition, every: cst.BinaryOperation) -> bool | None:
    """Whether a remainder counts the turns of the region, None where that is not seen."""
    evaluation = region.evaluation
    module = evaluation.module(condition.file)
    index, loop = module.index, region.node
    here = condition.file == region.file and index.inside(condition.test, loop)
    if not here or not isinstance(loop, (cst.For, cst.While)):
        return None
    for name in index.below(every.left, cst.Name):
        above = index.parent(name)
        if isinstance(above, cst.Attribute):
            changed = (one.target for one in index.of(cst.AugAssign))
            code = module.code(above)
            return (
                any(isinstance(one, cst.Attribute) and module.code(one) == code for one in changed)
                or None
            )
        bindings = evaluation.bindings(name)
        if any(one.kind is not Bind.PARAMETER and index.inside(one.node, loop) for one in bindings):
            return True
    return False


def _is_one(evaluation: Evaluation, every: cst.BinaryOperation) -> bool:
    value = evaluation.value(every.right)
    return bool(value) and all(
        isinstance(one, Number) and one.value == 1 and one.option is None for one in value
    )


def _holds(region: Region, member: Member, condition: Condition, *, negated: bool = False) -> bool:
    """Whether a member is under a condition, or under what rules it out."""
    wanted = condition.truth is not negated
    return any(
        one.test is condition.test and one.truth is wanted for one in region.conditions(member)
    )


def _has(loops: list[tuple[int, cst.CSTNode]], loop: tuple[int, cst.CSTNode]) -> bool:
    return any(one is loop[1] for _, one in loops)


def _turns_of(loop: cst.CSTNode) -> cst.BaseExpression | None:
    """``k`` of ``for i in range(k)``, or of ``for part in batch.chunk(k)``."""
    over = getattr(loop, "iter", None)
    while isinstance(over, cst.Call) and over.args:
        match over:
            case cst.Call(func=cst.Name("enumerate" | "zip")):
                over = over.args[0].value
            case cst.Call(func=cst.Name("range"), args=[cst.Arg(value=turns)]):
                return turns
            case cst.Call(
                func=cst.Name("range"), args=[cst.Arg(cst.Integer("0")), cst.Arg(value=turns)]
            ):
                return turns
            case cst.Call(func=cst.Attribute(attr=cst.Name("chunk")), args=[first, *_]):
                return first.value
            case _:
                return None
    return None
