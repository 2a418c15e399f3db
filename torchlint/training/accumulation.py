"""Gradient accumulation by hand: steps that let an optimizer step after several backward passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Number
from torchlint.training.guards import Guard, guard_of
from torchlint.training.optimizers import clears, trains
from torchlint.training.steps import Role, same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At
    from torchlint.training.between import Condition
    from torchlint.training.steps import Member, Region, Steps

_DEPTH = 6
_LOSSES = ("_loss", "cross_entropy", "kl_div")
_SCALES = (cst.Divide, cst.Multiply, cst.DivideAssign, cst.MultiplyAssign)


@dataclass(frozen=True, slots=True, eq=False)
class Accumulation:
    """An optimizer's step that waits for several backward passes.

    ``test`` is the condition on a number of turns under which the step is taken, or the passes are
    in a ``loop`` of their own; ``every`` is how many they are, None where nothing tells.
    ``known`` is False where it is not seen that the condition counts turns.
    """

    region: Region
    steps: tuple[Member, ...]  # all of the optimizer
    backward: Member
    test: Condition | None
    loop: At | None
    every: cst.BaseExpression | None
    known: bool

    @property
    def step(self) -> Member:
        """The first step of the optimizer."""
        return self.steps[0]

    def code(self, node: cst.CSTNode) -> str:
        """Return the code of the test, or of how many passes there are."""
        where = self.loop or self.test
        assert where is not None
        return self.region.evaluation.module(where.file).brief(node)

    @property
    def step_code(self) -> str:
        """The code of the optimizer's step."""
        return self.region.evaluation.module(self.step.file).brief(self.step.node)

    def in_each_turn(self, member: Member) -> bool:
        """Whether a member runs once for each backward pass, as far as conditions tell."""
        is_plain = not member.loops and not _counted(self.region.evaluation, member)
        return self.loop in member.loops if self.loop is not None else is_plain

    @property
    def passes(self) -> int | None:
        """How many backward passes there are, None where nothing tells, or one by default."""
        match self.region.evaluation.value(self.every):
            case (Number(value=int() | float() as number, option=option),):
                return None if number == 1 and option else int(number)
        return None


def accumulations(steps: Steps) -> Iterator[Accumulation]:
    """Yield what accumulates gradients."""
    for region in steps:
        members = region.of(Role.STEP)
        while members:
            mine = tuple(one for one in members if same(members[0], one))
            members = [one for one in members if one not in mine]
            found = _under_a_condition(region, mine) or _behind_a_loop(region, mine)
            if found is not None:
                yield found


def _under_a_condition(region: Region, steps: tuple[Member, ...]) -> Accumulation | None:
    """``if (i + 1) % k == 0: optimizer.step()``."""
    evaluation = region.evaluation
    counted = [_counted(evaluation, one) for one in steps]
    if not all(counted) or any(one.loops for one in steps):
        return None
    condition, every = counted[0][0]
    passes = [one for one in region.of(Role.BACKWARD) if trains(region, one, steps[0])]
    free = [one for one in passes if not one.loops and not _counted(evaluation, one)]
    known = _counts_turns(region, condition, every)
    is_taken = any(one.test is condition.test for each in passes for one in each.conditions)
    in_most = guard_of(evaluation, condition.test, truth=not condition.truth) is Guard.PERIODIC
    if not free or is_taken or in_most or known is False:
        return None
    found = Accumulation(region, steps, free[0], condition, None, every.right, known=known is True)
    return None if found.passes == 1 else found


def _behind_a_loop(region: Region, steps: tuple[Member, ...]) -> Accumulation | None:
    """``for part in parts: loss(part).backward()``, and then ``optimizer.step()``."""
    places = {one: place for place, one in enumerate(region.members)}
    for one in region.of(Role.BACKWARD):
        loop = one.loops[-1] if one.loops and trains(region, one, steps[0]) else None
        if loop is None or any(loop in step.loops for step in steps):
            continue
        after = [s for s in steps if places[s] > places[one] and not region.exclude(s, one)]
        between = region.members[places[one] : places[after[0]]] if after else ()
        drops = [each for each in between if each.role is Role.ZERO_GRAD and loop not in each.loops]
        # Then it is not the step of what the loop has added up.
        is_dropped = any(clears(region, each, steps[0]) for each in drops)
        if after and not is_dropped and len(after[0].loops) < len(one.loops):
            every = _turns_of(getattr(region.evaluation.node(loop), "iter", None))
            return Accumulation(region, (after[0], *steps), one, None, loop, every, known=True)
    return None


def _counted(evaluation: Evaluation, member: Member) -> list[tuple[Condition, cst.BinaryOperation]]:
    """Return conditions like ``(i + 1) % k == 0`` that a member is under, with the remainders."""
    bound = evaluation.bindings
    return [
        (one, each)
        for one in member.conditions
        for test in (one.test, *(b.value for b in bound(one.test) if b.is_plain and b.value))
        for each in evaluation.index(one.file).below(test, cst.BinaryOperation)
        if isinstance(each.operator, cst.Modulo)
    ]


def _counts_turns(region: Region, condition: Condition, every: cst.BinaryOperation) -> bool | None:
    """Whether a remainder counts the turns of the region, None where that is not seen."""
    index, loop = region.evaluation.index(condition.file), region.node
    is_here = condition.file == region.file and index.inside(condition.test, loop)
    if not is_here or not isinstance(loop, (cst.For, cst.While)):
        return None
    names = list(index.below(every.left, cst.Name))
    bindings = [one for name in names for one in region.evaluation.bindings(name)]
    if any(index.inside(one.node, loop) for one in bindings):
        return True
    return None if any(isinstance(index.parent(name), cst.Attribute) for name in names) else False


def _turns_of(over: cst.CSTNode | None) -> cst.BaseExpression | None:
    """``k`` of ``for i in range(k)``, or of ``for part in batch.chunk(k)``."""
    match over:
        case cst.Call(func=cst.Name("range"), args=[cst.Arg(value=turns)]):
            return turns
        case cst.Call(func=cst.Attribute(attr=cst.Name("chunk")), args=[first, *_]):
            return first.value
        case cst.Call(func=cst.Name("enumerate" | "zip"), args=[first, *_]):
            return _turns_of(first.value)
    return None


def is_whole(found: Accumulation) -> bool:
    """Whether each batch gives all of its loss, as far as is seen: nothing divides a mean."""
    func = found.backward.node.func
    loss = func.value if isinstance(func, cst.Attribute) else func
    match loss:
        case cst.Call(func=cst.Attribute(attr=cst.Name("scale")), args=[cst.Arg(value=inner)]):
            loss = inner
    return not is_divided(found) and _is_mean(found.region, loss, 0)


def is_divided(found: Accumulation) -> bool:
    """Whether a file that the step runs code of multiplies or divides by the number of batches."""
    code = found.code(found.every).rpartition(".")[2] if found.every is not None else ""
    for index in {found.region.evaluation.index(file) for file, _ in found.region.scopes}:
        numbers = [one for one in index.of(cst.Integer) if one.value == code]
        named = [*index.named.get(code, ()), *numbers]
        above = (each for one in named for each in index.ancestors(one))
        if any(isinstance(getattr(one, "operator", None), _SCALES) for one in above):
            return True
    return False


def _is_mean(region: Region, node: cst.CSTNode | None, depth: int) -> bool:
    """Whether a loss is what loss functions give: the mean of its own batch, by default."""
    parts: list[cst.CSTNode | None] = []
    match node:
        case cst.Name() if depth < _DEPTH:
            parts = [one.value for one in region.evaluation.bindings(node)]
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            parts = [] if isinstance(operator, cst.Divide) else [left, right]
        case cst.Call(func=func):
            name = region.evaluation.library(func)
            kinds = map(region.effects.kind, region.evaluation.value(func))
            is_loss = name.startswith("torch.nn.functional.") and name.endswith(_LOSSES)
            return is_loss or "criterion" in kinds
    return bool(parts) and all(_is_mean(region, one, depth + 1) for one in parts)
