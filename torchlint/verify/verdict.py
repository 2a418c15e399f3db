"""One verdict for a configuration: failed, not run, other results, or how fast it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.edits.fix import Safety
from torchlint.rule import Level
from torchlint.verify.errors import how
from torchlint.verify.model import Ending, Result, Same, Speed, Verdict
from torchlint.verify.statistics import log_interval

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchlint.verify.model import Agreement, Configuration, Judgement, Run

MAY = {
    Level.E0: "nothing",
    Level.E1: "rounding only",
    Level.E2: "the random stream or the precision",
    Level.E3: "what is computed",
}
UNTIMED = "not timed: the budget went to what was nearer to a verdict"
SPEEDS = {
    Speed.FASTER: Verdict.FASTER,
    Speed.SLOWER: Verdict.SLOWER,
    Speed.NO_CHANGE: Verdict.NO_CHANGE,
    Speed.NOISY: Verdict.NOISY,
    Speed.OPEN: Verdict.NOT_MEASURED,
}

ADVICE = "Set TORCHDYNAMO_VERBOSE"  # of torch, for its developers, below an error of its compiler


def result_of(
    configuration: Configuration,
    runs: Sequence[Run],
    agreement: Agreement | None,
    judgement: Judgement | None,
    unexercised: str = "",
    *,
    is_lost: bool = False,
) -> Result:
    """Return all that is known of a configuration; whether to keep it is said later.

    ``unexercised`` is what `unexercised` gave; ``is_lost``: pairs were run and gave no step times.
    """
    verdict, why = _verdict(configuration, runs, agreement, judgement, unexercised)
    if is_lost and verdict is Verdict.NOT_MEASURED:
        why = "not timed: its runs ended before steps were made that can be compared"
    step = log_interval([sample.after for sample in judgement.samples]) if judgement else None
    return Result(configuration, verdict, why, judgement, agreement, tuple(runs), False, step)


def _verdict(
    configuration: Configuration,
    runs: Sequence[Run],
    agreement: Agreement | None,
    judgement: Judgement | None,
    unexercised: str,
) -> tuple[Verdict, str]:
    for run in runs:
        if run.ending in {Ending.FAILED, Ending.TIMEOUT}:
            return Verdict.FAILED, _failure(run)
    if unexercised:
        return Verdict.NOT_EXERCISED, unexercised
    if agreement and not (agreement.allowed and agreement.same is not Same.DIVERGED):
        return Verdict.CHANGES_RESULTS, _change(configuration, agreement)
    if agreement is None or judgement is None:
        return Verdict.NOT_MEASURED, UNTIMED
    return SPEEDS[judgement.speed], speed_words(judgement)


def _failure(run: Run) -> str:
    if run.ending is Ending.TIMEOUT:
        expected = f" (expected {run.expected:.0f} s)" if run.expected else ""
        return f"the script with it did not come to an end in {run.seconds:.0f} s{expected}"
    lines = (line.strip() for line in run.stderr.splitlines())
    said = [line for line in lines if line and not line.startswith(ADVICE)]
    return f"the script with it fails ({how(run)})" + (f": {said[-1]}" if said else "")


def _change(configuration: Configuration, agreement: Agreement) -> str:
    words = agreement.same.words
    if configuration.safety is Safety.SAFE:
        return (
            f"results differ ({words}): {agreement.why}; the fix is called safe, so this "
            "is a bug of torchlint, please report it"
        )
    if agreement.allowed:
        return f"results differ, as the fix means them to: {agreement.why}"
    if agreement.same is Same.DIVERGED:
        return f"results diverged: {agreement.why}"
    may = MAY[configuration.level]
    return f"results differ ({words}), where the fix may change {may}: {agreement.why}"


def speed_words(judgement: Judgement) -> str:
    """Return what the samples say of the speed, with the interval or what would have shown."""
    interval, seen = judgement.interval, judgement.seen
    if judgement.speed is Speed.OPEN or interval is None or seen is None:
        if not (count := len(judgement.samples)):
            return UNTIMED
        pairs = "one pair" if count == 1 else f"{count} pairs"
        return f"not settled: the budget was enough for {pairs} of runs only"
    share = f"{100 * seen:.{0 if seen > 0.0995 else 1}f} %"
    match judgement.speed:
        case Speed.FASTER:
            between = f"{interval.low:.2f} to {interval.high:.2f}"
            return f"{interval.middle:.2f}x faster ({between})"
        case Speed.SLOWER:
            between = f"{1 / interval.high:.2f} to {1 / interval.low:.2f}"
            return f"{1 / interval.middle:.2f}x slower ({between})"
        case Speed.NO_CHANGE:
            return f"no measurable change; a change of {share} would have shown"
    if seen > 1:
        return "too noisy to say: pairs of runs differ too much for any change to show"
    between = f"{interval.low:.2f}x to {interval.high:.2f}x"
    return f"too noisy to say: {between}; only a change of {share} would have shown"


def unexercised(
    configuration: Configuration, pilot: Run, runs: Sequence[Run] = (), root: Path | None = None
) -> str:
    """Return why a fix was not run at all, or nothing.

    ``runs`` are those of the configuration, ``root`` is the user's own tree, or None where the copy
    stands in its place: a file that was imported from there does not have the fix in it.
    """
    for run in runs:
        modules = [name for record in run.records for name in record.modules]
        if modules and not any(_is_copy(name, configuration, root) for name in modules):
            files = ", ".join(sorted(configuration.files))
            if any(_ends(name, configuration) for name in modules):
                return f"{files} was imported from somewhere else than the copy with the fix"
            return f"the script does not import {files}"
    counted = [
        count
        for record in pilot.records
        for file, lines in configuration.lines.items()
        for line, count in record.reached.get(file, {}).items()
        if line in lines
    ]
    if any(counted) or not counted:
        return ""
    places = ", ".join(f"{file}:{min(lines)}" for file, lines in configuration.lines.items())
    return f"the fixed lines were not reached ({places})"


def _is_copy(name: str, configuration: Configuration, root: Path | None) -> bool:
    own = {str(root / file) for file in configuration.files} if root else set[str]()
    return _ends(name, configuration) and name not in own


def _ends(name: str, configuration: Configuration) -> bool:
    return any(name == file or name.endswith(f"/{file}") for file in configuration.files)
