"""How far two curves of losses are from each other, and how far they may be.

Rounding is told from another computation by how a difference begins: rounding begins in the last
digits and grows with the steps, as a training is chaotic; another computation begins large.
"""

from __future__ import annotations

import math
import struct
from itertools import accumulate, pairwise
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Losses: TypeAlias = "Sequence[float | None]"

ONSET = 5e-6  # relative difference by rounding in float32 at the first backward
GROWTH = 1.6  # and how many times larger it may be at each next one
REPEATS = 10  # how many times the difference of two runs of the same script is still noise
SHARE = 0.5  # of the spread of seeds: rounding that has grown beyond it is not told from change
UNKNOWN = 1e-4  # bound where that spread is not known
UNSEEDED = 1e-2  # and where the seed changes nothing
SMALL = 0.01  # losses below this share of the typical one are compared as if they were that


def differences(first: Losses, second: Losses) -> list[float]:
    """Return the relative differences, backward by backward, as far as both go.

    Losses that are missing in both, or the same infinity or NaN, are equal; where only one is
    missing or not finite, the difference is infinite.
    """
    known = [abs(loss) for loss in first if loss is not None and math.isfinite(loss)]
    least = SMALL * median(known) if known else 0.0
    return [_difference(a, b, least) for a, b in zip(first, second, strict=False)]


def _difference(a: float | None, b: float | None, least: float) -> float:
    if a is None or b is None:
        return 0.0 if a is b else math.inf
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b), least)


def limits(before: Losses, repeated: Losses, other: Losses | None) -> list[float]:
    """Return for each backward the difference that is still rounding.

    It is the larger of what rounding grows to and of what two runs of the same script differ by,
    but never more than a share of what another seed makes of it.
    """
    onset = max(ONSET, 2 * _precision(before))
    repeats = accumulate(differences(before, repeated), max)
    caps = _caps(before, other)
    grown = (onset * GROWTH ** min(k, 40) for k in range(len(before)))
    return [
        max(min(max(rounding, REPEATS * repeat), cap), onset)
        for rounding, repeat, cap in zip(grown, repeats, caps, strict=False)
    ]


def _caps(before: Losses, other: Losses | None) -> list[float]:
    if other is None:
        return [UNKNOWN] * len(before)
    if not any(differences(before, other)):
        return [UNSEEDED] * len(before)
    return [
        SHARE * scale
        for part, scale in zip(_parts(len(before)), _scales(before, other), strict=True)
        for _ in range(part.start, part.stop)
    ]


def times_seed(before: Losses, other: Losses, after: Losses) -> float:
    """Return how many times as far ``after`` is from ``before`` as the run with another seed.

    It is the most over four parts of the run, the first one short: another computation shows
    early, where the curves have not yet spread.
    """
    found = differences(before, after)
    distances = [_root_mean_square(found[part]) for part in _parts(len(before))]
    scales = _scales(before, other)
    return max(
        (
            distance / scale if scale else math.inf
            for distance, scale in zip(distances, scales, strict=True)
            if distance
        ),
        default=0.0,
    )


def _scales(before: Losses, other: Losses) -> list[float]:
    """Return how far apart seeds are in each part: never below the noise from batch to batch."""
    spread = differences(before, other)
    finite = [loss for loss in before if loss is not None and math.isfinite(loss)]
    whole = _root_mean_square(spread)
    if not whole:
        return [0.0] * len(_parts(len(before)))
    scales = []
    for part in _parts(len(before)):
        steps = [_difference(a, b, 0.0) for a, b in pairwise(finite[part])]
        scales.append(max(_root_mean_square(spread[part]), _root_mean_square(steps), whole / 2))
    return scales


def _parts(count: int) -> list[slice]:
    """Return the parts of a run: its first tenth (at least five), and the rest in three."""
    first = min(max(count // 10, 5), count)
    ends = [0, first, *(first + (count - first) * k // 3 for k in (1, 2, 3))]
    return [slice(begin, end) for begin, end in pairwise(ends) if end > begin]


def _root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(sum(value * value for value in values) / len(values)) if values else 0.0


def _precision(losses: Losses) -> float:
    """Return the spacing of half-precision numbers near 1 if the losses have no more digits."""
    known = {loss for loss in losses if loss is not None and math.isfinite(loss) and loss}
    if len(known) < 3:
        return 0.0
    if all(loss == _bfloat16(loss) for loss in known):
        return 2.0**-7
    return 2.0**-10 if all(_is_float16(loss) for loss in known) else 0.0


def _bfloat16(value: float) -> float:
    """Return the number with the digits beyond those of bfloat16 cut off."""
    if abs(value) > 3e38:
        return math.nan
    bits: bytes = struct.pack(">f", value)
    cut: float = struct.unpack(">f", bits[:2] + b"\0\0")[0]
    return cut


def _is_float16(value: float) -> bool:
    try:
        same: bool = struct.unpack(">e", struct.pack(">e", value))[0] == value
    except OverflowError:
        return False
    return same
