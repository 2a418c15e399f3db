"""Whether training loops run in a block that something is on in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.training.effects import leading_to
from torchlint.training.frequency import Rate
from torchlint.training.turns import most_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.values import At
    from torchlint.training.script import Connected

FEW = 200  # a loop of so many steps is a trial


def trains_while_on(connected: Connected, made: At) -> bool:
    """Whether more than a few training steps run while an object, by its making, is on.

    It is on in a ``with`` block; what ``start`` and ``stop`` are called around is not looked for.
    """
    return any(
        _trains_inside(connected, use.parent, use.file)
        for use in connected.uses.of(made)
        if isinstance(use.parent, cst.WithItem)
        and not connected.frequencies.on_request(use.parent, use.file)
    )


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
