"""Which fixes to keep: what was proved, alone or together.

A fix that makes the script faster alone is proved; so is one that is safe, leaves the results as
they were and makes nothing slower: it costs nothing here, and may gain on another machine.  A fix
that may change results has to be faster to be worth that; one that is too noisy to judge, or was
not measured, is proved nothing of.  Several are kept together only if they were timed together.

Where fixes are faster together and it is not known which of them gains, the set is kept as it was
timed: the smallest one that gains as much.

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

from torchlint.edits.fix import Safety
from torchlint.verify.model import Same, Speed, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchlint.verify.model import Judgement, Result

Codes: TypeAlias = tuple[str, ...]

MISSING = 1.03  # times slower together than expected: worth looking for the one that does it
HARMFUL = frozenset({Verdict.FAILED, Verdict.CHANGES_RESULTS})
SETTLED = frozenset({Verdict.FASTER, Verdict.NO_CHANGE})
FASTER_WITHOUT = "the others are faster without it"


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
            best = max(codes, key=lambda code: (gain(singles[code]), -codes.index(code)))
            untried = f"not tried together with {best}, as the time was over"
            left_out |= dict.fromkeys(_without(codes, best), untried)
            codes = (best,)
            break
        culprits = smallest_failing(codes, works)
        worst = min(culprits, key=lambda code: (gain(singles[code]), -codes.index(code)))
        others = ", ".join(code for code in culprits if code != worst)
        left_out[worst] = f"fails or changes results together with {others}"
        codes = _without(codes, worst)
    if len(codes) > 1:
        codes = _leave_out(codes, singles, compare, left_out)
    return Kept(codes, left_out)


def proved(kept: Kept, singles: Mapping[str, Result], sets: Mapping[Codes, Result]) -> Kept:
    """Return what is recommended: ``kept``, if that was timed and gains as much as anything does.

    ``kept`` is what `choose` gave, ``sets`` are the results of the sets that were timed.  Else it
    is the set or the fix that was proved to gain the most; of those that gain as much, the one with
    the fewest fixes that are not proved alone.
    """
    own = _result(kept.codes, singles, sets)
    is_timed = own is not None and own.verdict in SETTLED
    faster = dict(_faster(singles, sets))
    best = max(faster.values(), key=gain, default=None)
    if own is not None and is_timed and _is_near(own, best):
        return kept
    near = [codes for codes, result in faster.items() if _is_near(result, best)]
    near = near or ([kept.codes] if is_timed else [(code,) for code in kept.codes[:1]])
    if not near:
        return kept
    alone = {code for code, result in singles.items() if is_proven(result)}
    found = min(near, key=lambda each: (len(set(each) - alone), -_gain_of(faster.get(each))))
    is_worse = own is not None and own.verdict in {*SETTLED, Verdict.SLOWER}
    untried = f"not tried together with {', '.join(found)}, as the time was over"
    reason = FASTER_WITHOUT if is_worse else untried
    reasons = {**dict.fromkeys(kept.codes, reason), **kept.left_out}
    return Kept(found, {code: why for code, why in reasons.items() if code not in found})


def _is_near(result: Result, best: Result | None) -> bool:
    """Whether a result is as good as the best one, as far as anybody can tell.

    An interval reaches some five standard errors: the mean of both is a few of a difference.
    """
    if best is None:
        return True
    margin = (_width(result) + _width(best)) / 2
    return gain(best) - gain(result) <= max(math.log(MISSING), margin)


def _width(result: Result) -> float:
    interval = result.judgement.interval if result.judgement else None
    return math.log(interval.high / interval.middle) if interval else 0.0


def _gain_of(result: Result | None) -> float:
    return gain(result) if result else 0.0


def _result(
    codes: Codes, singles: Mapping[str, Result], sets: Mapping[Codes, Result]
) -> Result | None:
    return singles.get(codes[0]) if len(codes) == 1 else sets.get(codes)


def _faster(
    singles: Mapping[str, Result], sets: Mapping[Codes, Result]
) -> Iterator[tuple[Codes, Result]]:
    """Yield what is faster, alone or as a set in which nothing does harm alone."""
    harmful = {code for code, result in singles.items() if result.verdict in HARMFUL}
    alone = [((code,), result) for code, result in singles.items()]
    for codes, result in (*sets.items(), *alone):
        if result.verdict is Verdict.FASTER and harmful.isdisjoint(codes):
            yield codes, result


def smallest_failing(codes: Codes, works: Callable[[Codes], bool | None]) -> Codes:
    """Return fixes that fail together, of which none can be left out: `ddmin`.

    ``codes`` fail together; one of them may fail alone.  When the time is over, what is left is
    returned.
    """
    parts = 2
    while len(codes) > 1:
        size = math.ceil(len(codes) / parts)
        chunks = [codes[k : k + size] for k in range(0, len(codes), size)]
        if failing := _first_failing(chunks, works):
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
    gains = {code: gain(singles[code]) for code in codes}
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
        share = sum(gains[code] for code in group)
        if not others or share >= missing:
            continue
        judgement = compare(codes, others)
        if judgement.speed is not Speed.FASTER or judgement.interval is None:
            continue
        if len(group) > 1:
            half = (len(group) + 1) // 2
            groups[:0] = [group[:half], group[half:]]
            continue
        codes = others
        missing -= share + math.log(judgement.interval.middle)
        left_out[group[0]] = FASTER_WITHOUT
    return codes


def gain(result: Result) -> float:
    """Return the logarithm of how many times faster a fix alone is; 0 where it was not seen."""
    if result.verdict is not Verdict.FASTER or result.judgement is None:
        return 0.0
    interval = result.judgement.interval
    return math.log(interval.middle) if interval else 0.0


def _without(codes: Codes, code: str) -> Codes:
    return tuple(each for each in codes if each != code)
