"""Models that run in several processes: which runs average gradients, and what stops that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Nothing, Object, Truth
from torchlint.training.between import enclosing
from torchlint.training.effects import unit_around
from torchlint.training.optimizers import made
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from torchlint.training.accumulation import Accumulation
    from torchlint.training.steps import Member, Region

REPLICATED = "torch.nn.parallel.DistributedDataParallel"
SWITCH = "require_backward_grad_sync"  # what `no_sync()` sets


def replicated(found: Accumulation) -> Member | None:
    """Return the run of a replicated model whose gradients each backward pass averages."""
    region = found.region
    for one in region.of(Role.FORWARD):
        if found.in_each_turn(one) and any(_averages(region, each) for each in one.owner):
            return one
    return None


def _averages(region: Region, one: object) -> bool:
    """Whether it is a replicated model that `no_sync()` is for."""
    if not isinstance(one, Object):
        return False
    if one.kind != REPLICATED:
        held = region.evaluation.inside(one)
        return held != (one,) and any(_averages(region, each) for each in held)
    given = made(region.evaluation, one).get("static_graph")
    off = (Truth(False), Nothing())
    return given is None or all(each in off for each in given.value)


def speaks_of_sync(region: Region) -> bool:
    """Whether code of a region decides by itself when gradients are averaged."""
    for file, scope in region.scopes:
        index = region.evaluation.index(file)
        names = [*index.named.get("no_sync", ()), *index.named.get(SWITCH, ())]
        if any(index.inside(name, scope) for name in names):
            return True
    return False


def is_under_no_sync(region: Region, member: Member) -> bool:
    """Whether a member runs under ``with model.no_sync():``, as its function shows."""
    file, call = member.path[-1]
    evaluation = region.evaluation
    unit = unit_around(evaluation, call, file)
    for block in enclosing(evaluation, call, unit.node, file):
        for item in block.items:
            node: cst.BaseExpression = item.item
            if isinstance(node, cst.Name):
                bindings = evaluation.bindings(node)
                for one in bindings:
                    node = one.value if isinstance(one.value, cst.BaseExpression) else node
            names = evaluation.index(file).below(node, cst.Name)
            if any(name.value == "no_sync" for name in names):
                return True
    return False
