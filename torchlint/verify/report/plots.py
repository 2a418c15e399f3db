"""Where the speed-ups stand in their plot, and the step times of two arms in theirs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from torchlint.verify.model import Interval
from torchlint.verify.report.figures import ENOUGH
from torchlint.verify.report.scales import Scale, Tick, around, linear_ticks, ratio_ticks
from torchlint.verify.report.words import unit_of
from torchlint.verify.statistics import log_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchlint.verify.model import Sample


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval as drawn; ``cut`` says at which ends it goes on beyond the plot."""

    low: float
    middle: float
    high: float
    cut_low: bool = False
    cut_high: bool = False


@dataclass(frozen=True, slots=True)
class Forest:
    """The speed-ups of all configurations on one scale, and the band in which a change is none."""

    bars: dict[str, Bar]
    band: tuple[float, float]
    one: float
    ticks: list[Tick]


def forest(ratios: Mapping[str, tuple[Interval, bool]], margin: float) -> Forest | None:
    """Return the plot of speed-ups by name; None where there is none to draw.

    Each comes with whether it is too noisy to say; then it may reach beyond the plot, so that the
    others stay readable.
    """
    if not ratios:
        return None
    shown = [1 / (1 + 2.5 * margin), 1 + 2.5 * margin]
    for own, is_noisy in ratios.values():
        shown += [own.middle] if is_noisy else [own.low, own.high]
    logs = around([math.log(value) for value in shown if value > 0])
    scale = Scale(math.exp(logs.low), math.exp(logs.high), log=True)
    return Forest(
        bars={name: _bar(own, scale) for name, (own, _) in ratios.items()},
        band=(scale.at(1 / (1 + margin)), scale.at(1 + margin)),
        one=scale.at(1),
        ticks=ratio_ticks(scale),
    )


def _bar(own: Interval, scale: Scale) -> Bar:
    return Bar(
        scale.at(own.low),
        scale.at(own.middle),
        scale.at(own.high),
        cut_low=own.low < scale.low,
        cut_high=own.high > scale.high,
    )


@dataclass(frozen=True, slots=True)
class Strip:
    """The step times of both arms, pair by pair, with the mean of each arm and its interval.

    ``size`` are the seconds of the unit.
    """

    first: Interval
    second: Interval
    pairs: list[tuple[float, float]]
    before: Bar
    after: Bar
    ticks: list[Tick]
    unit: str
    size: float


def strip(samples: Sequence[Sample]) -> Strip:
    """Return the plot of the step times of some pairs of runs."""
    first = _typical([sample.before for sample in samples])
    second = _typical([sample.after for sample in samples])
    times = [time for sample in samples for time in (sample.before, sample.after)]
    scale = around([*times, first.low, first.high, second.low, second.high])
    unit, size = unit_of([max(times)])
    return Strip(
        first=first,
        second=second,
        pairs=[(scale.at(sample.before), scale.at(sample.after)) for sample in samples],
        before=_bar(first, scale),
        after=_bar(second, scale),
        ticks=linear_ticks(scale, 5, size),
        unit=unit,
        size=size,
    )


def _typical(times: Sequence[float]) -> Interval:
    """Return the interval of an arm; that of two runs says nothing, and is left out."""
    middle = geometric_mean(times)
    known = log_interval(times) if len(times) >= ENOUGH else None
    return known or Interval(middle, middle, middle)
