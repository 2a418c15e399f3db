"""Where things stand in a plot, from 0 to 100 across it, and round numbers for its axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RATIOS = (
    1.0,
    2.0,
    0.5,
    1.5,
    1.25,
    0.8,
    1.1,
    0.9,
    4.0,
    0.25,
    3.0,
    10.0,
    0.1,
    1.05,
    0.95,
    1.02,
    0.98,
)
APART = 11.0  # two labels have to be so far from each other, in hundredths of the plot


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across the plot with its label."""

    at: float
    label: str

    @property
    def anchor(self) -> str:
        """Where the label stands by its line, so that it stays inside the plot."""
        return "start" if self.at < 4 else "end" if self.at > 96 else "middle"


@dataclass(frozen=True, slots=True)
class Scale:
    """What is from ``low`` to ``high`` is drawn from 0 to 100; ``log`` gives ratios their due."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return where a value is drawn, at most at the edges of the plot."""
        low, high, own = self.low, self.high, value
        if self.log:
            low, high, own = math.log(low), math.log(high), math.log(max(value, 1e-12))
        share = (own - low) / (high - low) if high > low else 0.5
        return round(100 * min(1.0, max(0.0, share)), 2)


def around(values: Iterable[float], room: float = 0.06) -> Scale:
    """Return a linear scale that holds all values, with some room at both ends."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    more = (high - low) * room or abs(high) * room or 1.0
    return Scale(low - more, high + more)


def round_ticks(scale: Scale, most: int = 5) -> list[float]:
    """Return round numbers inside a linear scale, at most so many."""
    rough = (scale.high - scale.low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough)
    first = math.ceil(scale.low / step)
    return [
        at * step for at in range(first, first + most + 1) if at * step <= scale.high + step * 1e-9
    ]


def labels(values: Sequence[float]) -> list[str]:
    """Return the numbers of an axis with as many places as their distance calls for."""
    if len(values) < 2:
        return [f"{value:g}" for value in values]
    step = min(abs(after - before) for before, after in pairwise(values))
    places = next((n for n in range(10) if abs(round(step, n) - step) <= step * 1e-6), 10)
    return [f"{value + 0.0:.{places}f}" for value in values]


def linear_ticks(scale: Scale, most: int = 5, size: float = 1.0) -> list[Tick]:
    """Return the ticks of a linear scale; labels are in units of ``size``."""
    values = round_ticks(Scale(scale.low / size, scale.high / size), most)
    names = labels(values)
    return [Tick(scale.at(v * size), name) for v, name in zip(values, names, strict=True)]


def ratio_ticks(scale: Scale) -> list[Tick]:
    """Return the ticks of a scale of ratios: 1 first, then what has room beside it."""
    taken: list[Tick] = []
    for value in RATIOS:
        tick = Tick(scale.at(value), f"{value:g}\N{MULTIPLICATION SIGN}")
        inside = scale.low <= value <= scale.high
        if inside and all(abs(tick.at - other.at) >= APART for other in taken):
            taken.append(tick)
    return sorted(taken, key=lambda tick: tick.at)
