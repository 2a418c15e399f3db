"""Which fixes to keep: those that proved themselves alone, unless they do harm together.

Kept is what is proven.  A fix that makes the script faster is; so is one that is safe, leaves the
results as they were and makes nothing slower: it costs nothing here, and may gain on another
machine.  A fix that may change results has to be faster to be worth that; one that is too noisy to
judge, or was not measured, is proven nothing of.

Fixes that are good alone can spoil each other.  What fails together is found with delta debugging
over cheap trace runs (A. Zeller and R. Hildebrandt, Simplifying and isolating failure-inducing
input, IEEE Trans. Softw. Eng. 28, 2002); what slows the others down, by leaving fixes out once.
Leaving out is tried only where all together are slower than the fixes alone let expect, and as
long as that is not explained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from torchlint.edits import Safety
from torchlint.verify.model import Same, Speed, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchlint.verify.model import Judgement, Result

Codes: TypeAlias = tuple[str, ...]

MISSING = 1.03  # times slower together than expected: worth looking for the one that does it


@dataclass(frozen=True, slots=True)
class Kept:
    """The fixes to keep, in order, and for each other one that was good alone why it is not."""

    codes: Codes
    left_out: Mapping[str, str]


def is_proven(result: Result) -> bool:
    """Tell whether a fix is worth keeping, judged alone."""
    match result.verdict:
        case Verdict.FASTER:
            return True
        case Verdict.NO_CHANGE:
            agreement = result.agreement
            harmless = agreement is not None and agreement.same <= Same.TOLERANCE
            return harmless and result.configuration.safety is Safety.SAFE
    return False


def choose(
    singles: Mapping[str, Result],
    works: Callable[[Codes], bool | None],
    compare: Callable[[Codes, Codes], Judgement],
) -> Kept:
    """Choose among fixes by what is known of each alone, running what else is needed.

    ``works`` traces a set of fixes and says whether it runs and may compute what it does, or None
    where the time is over; ``compare`` times two sets and judges the second against the first.
    Both may be asked the same again, and answer from what they know then.
    """
    codes = tuple(code for code, result in singles.items() if is_proven(result))
    left_out: dict[str, str] = {}
    while len(codes) > 1 and not (fine := works(codes)):
        if fine is None:
            best = max(codes, key=lambda code: (_gain(singles[code]), -codes.index(code)))
            untried = f"not tried together with {best}, as the time was over"
            left_out |= dict.fromkeys(_without(codes, best), untried)
            codes = (best,)
            break
        culprits = smallest_failing(codes, works)
        worst = min(culprits, key=lambda code: (_gain(singles[code]), -codes.index(code)))
        others = ", ".join(code for code in culprits if code != worst)
        left_out[worst] = f"fails or changes results together with {others}"
        codes = _without(codes, worst)
    if len(codes) > 1:
        codes = _leave_out(codes, singles, compare, left_out)
    return Kept(codes, left_out)


def smallest_failing(codes: Codes, works: Callable[[Codes], bool | None]) -> Codes:
    """Return fixes that fail together, of which none can be left out: `ddmin`.

    ``codes`` fail together; each alone works.  When the time is over, what is left is returned.
    """
    parts = 2
    while len(codes) > 2:
        size = math.ceil(len(codes) / parts)
        chunks = [codes[k : k + size] for k in range(0, len(codes), size)]
        if failing := _first_failing([chunk for chunk in chunks if len(chunk) > 1], works):
            codes, parts = failing, 2
            continue
        rests = [tuple(c for c in codes if c not in chunk) for chunk in chunks]
        if parts > 2 and (failing := _first_failing(rests, works)):
            codes, parts = failing, max(parts - 1, 2)
        elif parts < len(codes):
            parts = min(2 * parts, len(codes))
        else:
            return codes
    return codes


def _first_failing(sets: Sequence[Codes], works: Callable[[Codes], bool | None]) -> Codes | None:
    return next((codes for codes in sets if works(codes) is False), None)


def _leave_out(
    codes: Codes,
    singles: Mapping[str, Result],
    compare: Callable[[Codes, Codes], Judgement],
    left_out: dict[str, str],
) -> Codes:
    """Drop fixes without which the others are faster, where all together gain too little.

    What is missing is what interactions can cost, so a fix that alone gains more need not be tried.
    Those that gain nothing are left out together first, then by halves.
    """
    gains = {code: _gain(singles[code]) for code in codes}
    together = compare((), codes)
    if together.interval is None or together.speed in {Speed.NOISY, Speed.OPEN}:
        return codes
    missing = sum(gains.values()) - math.log(together.interval.middle)
    idle = tuple(code for code in codes if not gains[code])
    rest = sorted((code for code in codes if gains[code]), key=lambda code: gains[code])
    groups: list[Codes] = [idle] if idle else []
    groups += [(code,) for code in rest]
    while groups and missing > math.log(MISSING):
        group = groups.pop(0)
        others = tuple(code for code in codes if code not in group)
        gain = sum(gains[code] for code in group)
        if not others or gain >= missing:
            continue
        judgement = compare(codes, others)
        if judgement.speed is not Speed.FASTER or judgement.interval is None:
            continue
        if len(group) > 1:
            half = (len(group) + 1) // 2
            groups[:0] = [group[:half], group[half:]]
            continue
        codes = others
        missing -= gain + math.log(judgement.interval.middle)
        left_out[group[0]] = "the others are faster without it"
    return codes


def _gain(result: Result) -> float:
    """Return the logarithm of how many times faster a fix alone is; 0 where it was not seen."""
    if result.verdict is not Verdict.FASTER or result.judgement is None:
        return 0.0
    interval = result.judgement.interval
    return math.log(interval.middle) if interval else 0.0


def _without(codes: Codes, code: str) -> Codes:
    return tuple(each for each in codes if each != code)
