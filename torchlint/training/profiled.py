"""Which training loops run while something is on: in a block, or after a call that starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import At, Method, Object
from torchlint.training.effects import leading_to, unit_around
from torchlint.training.frequency import Rate
from torchlint.training.turns import most_turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.training.script import Connected

STARTS, STOPS = ("start", "__enter__"), ("stop", "__exit__")
FEW = 200  # a loop of so many steps is a trial


def trains_while_on(connected: Connected, made: At) -> bool:
    """Whether more than a few training steps run while an object, by its making, is on.

    It is on in a ``with`` block, and between its methods ``start`` and ``stop``.
    """
    asked, stops = connected.frequencies.on_request, [*_called(connected, made, STOPS)]
    return any(
        _trains_inside(connected, block, file)
        for block, file in _entered(connected, made)
        if not asked(block, file)
    ) or any(
        trains_after(connected, start, file, stops)
        for start, file in _called(connected, made, STARTS)
        if not asked(start, file)
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
            for other, begin in starts:
                if (
                    unit is other
                    and order(begin) < order(here)
                    and not any(
                        order(begin) < order(end) < order(here)
                        for where, end in ends
                        if where is unit
                    )
                ):
                    return True
    return False


def _trains_inside(connected: Connected, block: cst.With, file: int) -> bool:
    frequency = connected.frequencies.of(block, file)
    if frequency.in_every_step:
        return frequency.loop is None or not _is_short(connected, frequency.loop)
    return any(
        unit.at.file == file and unit.module.index.inside(node, block.body)
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


def _entered(connected: Connected, made: At) -> Iterator[tuple[cst.With, int]]:
    """Yield the ``with`` statements that an object is given."""
    for file, module in enumerate(connected.files.modules):
        for statement in module.index.of(cst.With):
            value = [
                one for item in statement.items for one in connected.evaluation.value(item.item)
            ]
            if any(isinstance(one, Object) and one.call == made for one in value):
                yield statement, file


def _called(
    connected: Connected, made: At, names: Sequence[str]
) -> Iterator[tuple[cst.CSTNode, int]]:
    """Yield the calls of methods of an object."""
    for file, module in enumerate(connected.files.modules):
        for name in (each for word in names for each in module.index.named.get(word, ())):
            for one in connected.evaluation.value(module.parent(name)):
                owner = one.owner if isinstance(one, Method) else None
                if isinstance(owner, Object) and owner.call == made:
                    yield name, file
