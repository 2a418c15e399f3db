"""What a script does that keeps verify from measuring it, in plain words with the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.errors import TorchlintError
from torchlint.verify.model import Anchor, Ending
from torchlint.verify.process import in_words

if TYPE_CHECKING:
    from torchlint.verify.model import Record, Run

LAST = 8  # lines of its standard error that are shown


class ScriptError(TorchlintError):
    """The script cannot be measured as it is; its own last words are part of the message."""


def check_pilot(pilot: Run) -> Anchor:
    """Return what counts as a step of the script.

    Raises:
        ScriptError: it failed, found no end, or made fewer than two steps.

    """
    if pilot.ending is Ending.FAILED:
        raise ScriptError(
            _with_words(f"the script fails as it is ({how(pilot)})", pilot, "mend it")
        )
    anchor = anchor_of(pilot)
    if anchor is not None:
        return anchor
    if pilot.ending is Ending.TIMEOUT:
        problem = f"the script made no two optimizer steps in {pilot.seconds:.0f} s"
        remedy = "give it arguments that make it smaller, or more --time-budget"
    elif pilot.records:
        problem = "the script ended after fewer than two optimizer steps"
        remedy = "give it arguments with which it trains for longer"
    else:
        problem = "the script ended without a single optimizer step or backward pass"
        remedy = "name the script that trains, with the arguments with which it does"
    raise ScriptError(_with_words(problem, pilot, remedy))


def anchor_of(pilot: Run) -> Anchor | None:
    """Return what counts as a step: the optimizer that steps least often but more than once."""
    record = max(pilot.records, key=lambda each: len(_events(each)), default=None)
    if record is None or not _events(record):
        return None
    events = _events(record)
    half = (min(events) + max(events)) / 2  # what steps no more is not what the training is made of
    counts = {
        place: len(times)
        for place, times in enumerate(record.steps)
        if len(times) > 1 and times[-1] > half
    }
    if counts:
        return Anchor("optimizer", min(counts, key=lambda place: (counts[place], place)))
    return Anchor("backward") if len(record.backwards) > 1 else None


def _events(record: Record) -> list[float]:
    """Return the times of all backwards and steps of a process."""
    return [*record.backwards, *(time for times in record.steps for time in times)]


def how(run: Run) -> str:
    """Return how a run that failed ended, in words."""
    return in_words(run.code).removeprefix("ended with ")


def _with_words(problem: str, run: Run, remedy: str) -> str:
    last = [line for line in run.stderr.splitlines() if line.strip()][-LAST:]
    said = "".join(f"\n  {line}" for line in last)
    return f"{problem}; {remedy}" + (f"; it last said:{said}" if said else "")
