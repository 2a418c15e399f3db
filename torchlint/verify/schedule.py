"""What is measured next: a pure function of what is known, of what it costs and of the time left.

All fixes together come first, until their verdict: whether there is anything to gain is what most
want to know.  Then each fix is looked at once, and then what needs the least time to its verdict
comes first, larger effects before smaller ones.  A look at another fix waits for the verdict on a
large effect, and where it would take the time for a verdict that is near.  What the time left
cannot settle comes last, but it comes: time that nobody needs is not given back.

Where all together are faster and the fixes alone do not explain it, halves of the set are measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from torchlint.verify.statistics import FEWEST, MOST, USUAL

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Codes: TypeAlias = tuple[str, ...]

SHARE = 0.5  # of the time left: what one that leads may still take, once it has its first pairs
MISSING = math.log(1.03)  # a gain of a set that its fixes alone do not explain is looked for
HINT = 0.5  # of the gain of all together that a fix seems to have: it is looked for no more
LARGE = math.log(1.5)  # a gain that even the step times of single runs show
GROUPS = 6  # sets that are measured beside the fixes alone and all together, at most
ALIKE = math.log(1.25)  # costs that differ by less count as equal


@dataclass(frozen=True, slots=True)
class Option:
    """A comparison that is open: what is known of it, and what the next pairs cost.

    ``place`` says which it is; one that ``leads`` goes before the others.  ``seconds`` are those of
    a pair, ``trace`` those of the trace that has to come before the first one.  ``needed`` pairs
    would settle it, None where nobody knows; ``gain`` is the log ratio so far.  ``hint`` is the
    share that it seems to have in the gain of all together, by the step times of traces.
    """

    place: int
    pairs: int
    seconds: float
    trace: float = 0.0
    needed: int | None = None
    gain: float = 0.0
    leads: bool = False
    hint: float = 0.0

    @property
    def next(self) -> float:
        """Seconds until one more pair is there."""
        return self.trace + self.seconds

    @property
    def cost(self) -> float:
        """Seconds to its verdict, as far as anybody can tell."""
        unknown = (USUAL if self.pairs < USUAL else MOST) - self.pairs
        needed = unknown if self.needed is None else self.needed
        return self.trace + max(needed, 1) * self.seconds


def ranked(
    options: Sequence[Option], left: float, fewest: int = FEWEST, *, searches: bool = False
) -> list[Option]:
    """Return the options in the order in which they are gone on with; what cannot end is missing.

    ``left`` are the seconds until the time is over, ``fewest`` the pairs before any verdict.  With
    ``searches`` there is a large gain whose fix is not known: traces, which are cheaper than pairs,
    are made until one hints at it.
    """
    fit = [each for each in options if each.next <= left]
    leading = [each for each in fit if each.leads and _may_lead(each, left, fewest)]
    fresh = [each for each in fit if not each.pairs and each not in leading]
    fresh.sort(key=_promise if searches else lambda each: (each.trace > 0, -each.hint))
    begun = [each for each in fit if each.pairs and each not in leading]
    near = sorted((each for each in begun if each.cost <= left), key=_nearness)
    far = sorted((each for each in begun if each.cost > left), key=_nearness)
    urgent = [each for each in near if fresh and _is_urgent(each, left - fresh[0].next)]
    return [*leading, *urgent, *fresh, *(each for each in near if each not in urgent), *far]


def _may_lead(option: Option, left: float, fewest: int) -> bool:
    return option.pairs < fewest or option.cost <= SHARE * left


def _nearness(option: Option) -> tuple[int, float]:
    return round(math.log(max(option.cost, 1e-9)) / ALIKE), -abs(option.gain)


def _promise(option: Option) -> tuple[int, float]:
    if option.hint >= HINT:
        return 0, -option.hint
    return (1, 0.0) if option.trace else (2, -option.hint)


def _is_urgent(option: Option, left: float) -> bool:
    """Whether a verdict comes before a look at another fix, which leaves so many seconds."""
    if option.needed is None:
        return False
    return abs(option.gain) > (MISSING if option.cost > left else LARGE)


def allowance(fixes: int) -> int:
    """Return how many sets of fixes may be asked for while they are measured."""
    return min(fixes, GROUPS) if fixes > 1 else 0


def comparisons(fixes: int) -> int:
    """Return how many comparisons a report may judge: known before the first pair is taken."""
    return fixes + (fixes > 1) + allowance(fixes)


def halves(
    proved: Mapping[Codes, float], singles: Mapping[str, float | None], asked: Collection[Codes]
) -> list[Codes]:
    """Return the halves of the smallest proved set whose gain its fixes alone do not explain.

    ``proved`` has the log gains of sets that are faster, ``singles`` those of fixes alone that are
    settled, None for the others; ``asked`` are the sets that are measured, or were.
    """
    for codes in sorted(proved, key=lambda each: (len(each), each)):
        alone = [singles.get(code) for code in codes]
        known = sum(gain for gain in alone if gain is not None)
        open_ones = [code for code, gain in zip(codes, alone, strict=True) if gain is None]
        if proved[codes] - known <= MISSING or len(open_ones) < 3:
            continue
        middle = (len(open_ones) + 1) // 2
        split = [tuple(sorted(half)) for half in (open_ones[:middle], open_ones[middle:])]
        if any(half in asked for half in split):
            return []
        return [half for half in split if len(half) > 1]
    return []
