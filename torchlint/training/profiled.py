"""Which training loops run while something is on: in a block, or after a call that starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.training.effects import leading_to, unit_around
from torchlint.training.frequency import Rate
from torchlint.training.turns import most_turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.semantics.values import At
    from torchlint.training.script import Connected

STARTS, STOPS = ("start", "__enter__"), ("stop", "__exit__")
FEW = 200  # a loop of so many steps is a trial


def trains_while_on(connected: Connected, made: At) -> bool:
    """Whether more than a few training steps run while an object, by its making, is on.

    It is on in a ``with`` block, and between its methods ``start`` and ``stop``.
    """
    uses, asked = connected.uses, connected.frequencies.on_request
    methods = list(uses.methods(made))
    stops = [(one.node, one.file) for one in methods if one.name in STOPS]
    return any(
        _trains_inside(connected, use.parent, use.file)
        for use in uses.of(made)
        if isinstance(use.parent, cst.WithItem) and not asked(use.parent, use.file)
    ) or any(
        trains_after(connected, one.node, one.file, stops)
        for one in methods
        if one.name in STARTS and not asked(one.node, one.file)
    )


def trains_after(
    connected: Connected,
    start: cst.CSTNode,
    file: int,
    stops: Sequence[tuple[cst.CSTNode, int]] = (),
) -> bool:
    """Whether more than a few training steps follow a call, and come before any of the stops."""
    evaluation = connected.evaluation
    starts = [*leading_to(evaluation, start, file)]
    ends = [(unit_around(evaluation, *stop), stop[0]) for stop in stops]
    for loop, home in _loops(connected):
        if any(evaluation.index(home).inside(stop, loop) for stop, at in stops if at == home):
            continue
        for unit, here in leading_to(evaluation, loop, home):
            order = unit.module.index.order
            own = (order(end) for where, end in ends if where is unit)
            last = max((one for one in own if one < order(here)), default=-1)
            if any(last < order(one) < order(here) for where, one in starts if where is unit):
                return True
    return False


def _trains_inside(connected: Connected, item: cst.WithItem, file: int) -> bool:
    frequency, index = connected.frequencies.of(item, file), connected.evaluation.index(file)
    if frequency.in_every_step:
        return frequency.loop is None or not _is_short(connected, frequency.loop)
    block = getattr(index.parent(item), "body", item)
    return any(
        unit.at.file == file and index.inside(node, block)
        for loop in _loops(connected)
        for unit, node in leading_to(connected.evaluation, *loop)
    )


def _is_short(connected: Connected, loop: At) -> bool:
    node = connected.evaluation.node(loop)
    turns = most_turns(connected.evaluation, node, loop.file)
    return turns is not None and turns <= FEW


def _loops(connected: Connected) -> Iterator[tuple[cst.CSTNode, int]]:
    """Yield the loops that take more than a few training steps."""
    frequencies = connected.frequencies
    for loop in frequencies.loops:
        if frequencies.rate_of(loop) is Rate.STEP and not _is_short(connected, loop):
            yield connected.evaluation.node(loop), loop.file
