"""The losses of before and after laid over each other, long ones by the extremes of their parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.verify.report.scales import Scale, Tick, around, linear_ticks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TALL = 1000  # the plot's own units of height and width
STEEP = 200.0  # losses that fall by more than this factor are drawn on a logarithmic scale


@dataclass(frozen=True, slots=True)
class Curves:
    """Two curves of losses as paths on a square of ``TALL`` units.

    ``each`` is the number of losses of which a column shows the smallest and the largest; 1: every
    loss is drawn.  ``missing`` counts those that are no finite number.  ``first`` is where, from 0
    to 100, the two begin to differ.
    """

    before: str
    after: str
    rows: list[Tick]
    columns: list[Tick]
    log: bool
    each: int
    missing: int
    first: float | None


def curves(
    before: Sequence[float | None], after: Sequence[float | None], first: int | None, most: int
) -> Curves | None:
    """Return the plot of two runs' losses in at most ``most`` columns; None without any."""
    finite = [loss for loss in (*before, *after) if loss is not None and math.isfinite(loss)]
    if not finite:
        return None
    length = max(len(before), len(after))
    each = math.ceil(length / most)
    is_log = min(finite) > 0 and max(finite) / min(finite) > STEEP
    scale = around([math.log10(loss) for loss in finite] if is_log else finite)
    across = Scale(0, max(1, length - 1))
    return Curves(
        before=_path(before, scale, across, each, log=is_log),
        after=_path(after, scale, across, each, log=is_log),
        rows=_powers(scale) if is_log else linear_ticks(scale, 4),
        columns=[Tick(tick.at, f"{float(tick.label):g}") for tick in linear_ticks(across, 5)],
        log=is_log,
        each=each,
        missing=len(before) + len(after) - len(finite),
        first=None if first is None else across.at(first),
    )


def _powers(scale: Scale) -> list[Tick]:
    """Return the powers of ten on a scale of logarithms."""
    powers = range(math.ceil(scale.low), math.floor(scale.high) + 1)
    return [Tick(scale.at(power), f"{10.0**power:g}") for power in powers]


def _path(
    losses: Sequence[float | None], scale: Scale, across: Scale, each: int, *, log: bool
) -> str:
    """Return the path of a curve; where a loss is no number the curve has a gap."""
    words: list[str] = []
    is_open = False
    for at, loss in _extremes(losses, each):
        if loss is None:
            is_open = False
            continue
        own = math.log10(loss) if log else loss
        x, y = round(across.at(at) * TALL / 100), round(TALL - scale.at(own) * TALL / 100)
        words.append(f"{'L' if is_open else 'M'}{x} {y}")
        if not is_open:
            words.append("h0")  # a lone loss is a dot
        is_open = True
    return "".join(words)


def _extremes(losses: Sequence[float | None], each: int) -> Iterator[tuple[float, float | None]]:
    """Yield every loss with its place, or the extremes of every ``each`` in the order they came."""
    for begin in range(0, len(losses), each):
        part = list(enumerate(losses[begin : begin + each], begin))
        known = [(loss, at) for at, loss in part if loss is not None and math.isfinite(loss)]
        if not known:
            yield begin, None
            continue
        ends = {min(known)[::-1], max(known)[::-1]}
        yield from sorted(ends)
