"""Which training loops run while something is on: in a block, or after a call that starts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import At, Method, Object
from torchlint.training.conditions import on_request
from torchlint.training.effects import unit_around
from torchlint.training.frequency import Rate
from torchlint.training.turns import most_turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.semantics.cells import Unit
    from torchlint.training.script import Connected

STARTS, STOPS = ("start", "__enter__"), ("stop", "__exit__")
FEW = 200  # a loop of so many steps is a trial


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A node, and the scope that it is evaluated in."""

    node: cst.CSTNode
    unit: Unit

    @property
    def order(self) -> int:
        """Its place in the walk over its file."""
        return self.unit.module.index.order(self.node)


def trains_while_on(connected: Connected, made: At) -> bool:
    """Whether more than a few training steps run while an object, by its making, is on.

    It is on in a ``with`` block, and between its methods ``start`` and ``stop``.
    """
    starts = [one for one in _called(connected, made, STARTS) if not _is_asked(connected, one)]
    stops = _called(connected, made, STOPS)
    blocks = [one for one in _entered(connected, made) if not _is_asked(connected, one)]
    return any(_trains_inside(connected, one) for one in blocks) or any(
        trains_after(connected, one, stops) for one in starts
    )


def trains_after(connected: Connected, start: Place, stops: Sequence[Place] = ()) -> bool:
    """Whether more than a few training steps follow a call, and come before any of the stops."""
    if any(_is_in_every_step(connected, one) for one in (start, *stops)):
        return _is_long(connected, start)
    starts = list(_ways_to(start))
    return any(
        _follows(place, one, stops)
        for loop in _loops(connected)
        if not any(loop.unit.module.index.inside(stop.node, loop.node) for stop in stops)
        for place in _ways_to(loop)
        for one in starts
    )


def place(connected: Connected, node: cst.CSTNode, file: int) -> Place:
    """Return a node of a file as a place."""
    return Place(node, unit_around(connected.evaluation, node, file))


def _trains_inside(connected: Connected, block: Place) -> bool:
    if _is_in_every_step(connected, block):
        return _is_long(connected, block)
    assert isinstance(block.node, cst.With)
    return any(
        one.unit.at.file == block.unit.at.file
        and one.unit.module.index.inside(one.node, block.node.body)
        for loop in _loops(connected)
        for one in _ways_to(loop)
    )


def _is_in_every_step(connected: Connected, one: Place) -> bool:
    return connected.frequencies.of(one.node, one.unit.at.file).in_every_step


def _is_long(connected: Connected, one: Place) -> bool:
    """Whether the loop whose steps something is part of makes more than a few."""
    loop = connected.frequencies.of(one.node, one.unit.at.file).loop
    return loop is None or not _is_short(connected, loop)


def _is_short(connected: Connected, loop: At) -> bool:
    node = connected.evaluation.node(loop)
    turns = most_turns(connected.evaluation, node, loop.file)
    return turns is not None and turns <= FEW


def _loops(connected: Connected) -> Iterator[Place]:
    """Yield the loops that take more than a few training steps."""
    frequencies = connected.frequencies
    for loop in frequencies.loops:
        if frequencies.rate_of(loop) is Rate.STEP and not _is_short(connected, loop):
            yield place(connected, connected.evaluation.node(loop), loop.file)


def _ways_to(one: Place) -> Iterator[Place]:
    """Yield a place and the calls that lead to it."""
    found, seen = [one], set[At]()
    for each in found:
        yield each
        if each.unit.at not in seen:
            seen.add(each.unit.at)
            found += [Place(call, unit) for unit, call in each.unit.callers.values()]


def _follows(one: Place, start: Place, stops: Sequence[Place]) -> bool:
    """Whether a place comes after a start, with no stop between."""
    if one.unit is not start.unit:
        # what a module does when it is imported comes before what its functions do
        is_module = isinstance(start.unit.node, cst.Module)
        return is_module and not stops and not one.unit.callers
    ends = [stop.order for stop in stops if stop.unit is start.unit]
    return start.order < one.order and not any(start.order < end < one.order for end in ends)


def _is_asked(connected: Connected, one: Place) -> bool:
    return on_request(connected, one.node, one.unit.at.file)


def _entered(connected: Connected, made: At) -> Iterator[Place]:
    """Yield the ``with`` statements that an object is given."""
    for file, module in enumerate(connected.files.modules):
        for statement in module.index.of(cst.With):
            for item in statement.items:
                value = connected.evaluation.value(item.item)
                if any(isinstance(one, Object) and one.call == made for one in value):
                    yield place(connected, statement, file)


def _called(connected: Connected, made: At, names: Sequence[str]) -> list[Place]:
    """Return the calls of methods of an object."""
    found: list[Place] = []
    for file, module in enumerate(connected.files.modules):
        for name in (each for word in names for each in module.index.named.get(word, ())):
            func = module.parent(name)
            call = func and module.parent(func)
            if isinstance(func, cst.Attribute) and isinstance(call, cst.Call):
                for one in connected.evaluation.value(func):
                    owner = one.owner if isinstance(one, Method) else None
                    if isinstance(owner, Object) and owner.call == made:
                        found.append(place(connected, call, file))
    return found
