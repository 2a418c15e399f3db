"""What a report comes to, in one or two sentences: from what is proved, against no row of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.report.model import count
from torchlint.verify.model import Verdict
from torchlint.verify.report.rows import rows
from torchlint.verify.report.words import RESULTS, change, listing, speedup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.verify.model import Interval, Report
    from torchlint.verify.report.rows import Row

NAMED = 4  # codes that a sentence names; of more it says how many they are
DIFFERS = {
    Verdict.SLOWER: "are slower",
    Verdict.NO_CHANGE: "make no measurable difference",
    Verdict.CHANGES_RESULTS: "change the results",
    Verdict.FAILED: "fail",
}
OPEN = (Verdict.NOISY, Verdict.NOT_MEASURED)  # more runs could still prove them
TOLD = (  # in the order in which they matter to somebody whose fixes gained nothing
    Verdict.SLOWER, Verdict.CHANGES_RESULTS, Verdict.FAILED, Verdict.NO_CHANGE, Verdict.NOISY,
    Verdict.NOT_EXERCISED, Verdict.NOT_MEASURED,
)  # fmt: skip


def headline(report: Report) -> str:
    """Return what the report comes to."""
    told = [row for row in rows(report) if row.role != "before"]
    if report.before.verdict is Verdict.FAILED:
        return "The script fails as it is: no fix was tried."
    if not told:
        why = "none of the fixes can act on this machine" if report.unfit else "there was none"
        return f"No fix was tried: {why}."
    best = _proved(told, report)
    return " ".join(_said(best, told, report)) if best else _unproved(told, report)


def _proved(told: Sequence[Row], report: Report) -> Row | None:
    """Return what is proved faster: the fixes to keep, else all together, the best group or fix."""
    faster = [row for row in told if row.ratio and row.result.verdict is Verdict.FASTER]
    kept = [row for row in faster if row.codes == frozenset(report.kept)]
    together = [row for row in faster if row.role == "together"]
    several = [row for row in faster if row.role == "group"]
    return next(iter(kept or together or sorted(several or faster, key=_gain)), None)


def _gain(row: Row) -> float:
    """Return what sorts rows by how much faster they are, the fastest first."""
    return -row.ratio.middle if row.ratio else 0.0


def _said(best: Row, told: Sequence[Row], report: Report) -> Iterator[str]:
    """Yield the sentences on what is proved; the last one is on what seems to say otherwise."""
    singles = [row for row in told if row.role == "single"]
    alone = sorted((row for row in singles if row.result.verdict is Verdict.FASTER), key=_gain)
    parts = [row for row in alone if row.codes <= best.codes and row.ratio]
    subject = _subject(best, singles)
    claim = f"{_faster(best.ratio)}, {_results(best)}"
    if best.role == "single":
        yield f"{best.title} makes a step {claim}."
    elif alone:
        yield f"{_upper(subject)}: {claim}."
    else:
        yet = " yet" if any(row.result.verdict in OPEN for row in singles) else ""
        keep = ": keep them together" if best.codes == frozenset(report.kept) else ""
        yield f"No single fix is proved{yet}; {subject} are {claim}{keep}."
    if len(best.codes) > 1 and parts and parts[0].ratio:
        yield f"Largest part: {parts[0].title} ({speedup(parts[0].ratio)[0]})."
    together = next((row for row in told if row.role == "together"), best)
    if together is best or together.codes == best.codes:
        return
    if differs := DIFFERS.get(together.result.verdict):
        yield f"{_upper(_subject(together, singles))} {differs}."
    elif together.ratio and best.ratio and together.ratio.low > best.ratio.high:
        yield f"{_upper(_subject(together, singles))} are {_faster(together.ratio)}."


def _unproved(told: Sequence[Row], report: Report) -> str:
    """Return that nothing is faster, and what is known instead."""
    singles = [row for row in told if row.role == "single"]
    together = next((row for row in told if row.role == "together"), None)
    verdicts = {row.result.verdict for row in told}
    if together and together.ratio and together.result.verdict is Verdict.SLOWER:
        return f"{_upper(_subject(together, singles))} are slower: {_longer(together.ratio)}."
    if verdicts == {Verdict.NO_CHANGE}:
        return f"No fix makes a measurable difference here{_would_have_shown(told)}."
    if verdicts == {Verdict.NOT_MEASURED}:
        return f"Nothing is proved: {_made(told, report)}."
    words = [
        f"{verdict.value}: {_names([row for row in told if row.result.verdict is verdict])}"
        for verdict in TOLD
        if verdict in verdicts
    ]
    more = Verdict.NOT_MEASURED in verdicts and not report.interrupted
    remedy = "; give more --time-budget" if more else ""
    return f"No fix is proved faster. {_upper('; '.join(words))}{remedy}."


def _would_have_shown(told: Sequence[Row]) -> str:
    """Return the change that would have shown: the largest one, where there are several."""
    seen = [row.result.judgement.seen or 0.0 for row in told if row.result.judgement]
    if not seen or not max(seen):
        return ""
    where = told[0].title if len(told) == 1 else "each of them"
    return f"; a change of {change(max(seen))} would have shown in {where}"


def _made(told: Sequence[Row], report: Report) -> str:
    """Return how few pairs of runs there are."""
    pairs = sum(len(row.result.judgement.samples) for row in told if row.result.judgement)
    if report.interrupted:
        return f"it was interrupted after {count(pairs, 'pair')} of runs"
    made = f"only {count(pairs, 'pair')} of runs {'was' if pairs == 1 else 'were'} made"
    return f"{made if pairs else 'no pair of runs was made'} in the time; give more --time-budget"


def _subject(row: Row, singles: Sequence[Row]) -> str:
    """Return what is faster or slower, as the beginning of a sentence has it."""
    codes = row.result.configuration.codes
    if len(codes) == 1:
        return codes[0]
    if len(singles) > 1 and row.codes == frozenset().union(*(single.codes for single in singles)):
        return "all fixes together"
    return f"{listing(codes) if len(codes) <= NAMED else f'{len(codes)} fixes'} together"


def _names(told: Sequence[Row]) -> str:
    names = ["all together" if row.role == "together" else row.title for row in told]
    return ", ".join(names) if len(names) <= NAMED else f"{len(names)} of them"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


def _results(row: Row) -> str:
    agreement = row.result.agreement
    return RESULTS[agreement.same] if agreement else "results not compared"


def _faster(ratio: Interval | None) -> str:
    return _claim(ratio, "faster") if ratio else "faster"


def _longer(ratio: Interval) -> str:
    turned = type(ratio)(1 / ratio.high, 1 / ratio.middle, 1 / ratio.low)
    return f"a step takes {_claim(turned, 'as long')}"


def _claim(ratio: Interval, word: str) -> str:
    times, between = speedup(ratio)
    return f"{times} {word} ({between.replace('-', ' to ')})"
