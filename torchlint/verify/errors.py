"""What a script does that keeps verify from measuring it, in plain words with the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.errors import TorchlintError
from torchlint.verify.model import Anchor, Ending
from torchlint.verify.process import in_words
from torchlint.verify.steptimes import NEEDED, steps_made

if TYPE_CHECKING:
    from torchlint.verify.model import Record, Run

LAST = 8  # lines of its standard error that are shown
WRONG_USE = 2  # exit code of argparse, and of click
LACKING = "the following arguments are required"


class ScriptError(TorchlintError):
    """The script cannot be measured as it is; its own last words are part of the message."""


def check_pilot(pilot: Run) -> Anchor:
    """Return what counts as a step of the script.

    Raises:
        ScriptError: it failed, found no end, or made too few steps to time any.

    """
    if pilot.ending is Ending.FAILED:
        problem = f"the script fails as it is ({how(pilot)})"
        raise ScriptError(_with_words(problem, pilot, _mending(pilot)))
    anchor = anchor_of(pilot)
    made = steps_made(pilot, anchor) if anchor else max(map(_most, pilot.records), default=0)
    if anchor is not None and made >= NEEDED:
        return anchor
    steps = f"{made or 'no'} optimizer {'step' if made == 1 else 'steps'}"
    if not pilot.records and pilot.ending is not Ending.TIMEOUT:
        problem = "the script ended without a single optimizer step or backward pass"
        remedy = "name the script that trains, with the arguments with which it does"
    elif pilot.ending is not Ending.FINISHED:
        problem = f"the script made {steps} in {pilot.seconds:.0f} s; at least {NEEDED} are needed"
        remedy = "give it arguments that make it smaller, or more --time-budget"
    else:
        problem = f"the script made {steps}; at least {NEEDED} are needed"
        remedy = "give it arguments with which it trains longer, such as --epochs"
    raise ScriptError(_with_words(problem, pilot, remedy))


def fails_by_itself(run: Run, made: int) -> ScriptError:
    """Return the error of a script that fails, with and without fixes, after so many steps."""
    problem = f"the script fails by itself at step {made + 1} ({how(run)})"
    return ScriptError(_with_words(problem, run, "mend it"))


def _mending(pilot: Run) -> str:
    """Return what to do about a script that fails: perhaps it only lacks its arguments."""
    words = pilot.stderr
    if (pilot.code == WRONG_USE and "usage:" in words) or LACKING in words:
        return (
            "give the script its own arguments after `--`, as in "
            "`torchlint verify train.py -- --data ./data`"
        )
    return "mend it"


def _most(record: Record) -> int:
    """Return the steps of the optimizer that made the most, or the backwards where none did."""
    return max(map(len, record.steps), default=0) or len(record.backwards)


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


def last_words(run: Run, lines: int = LAST) -> list[str]:
    """Return the last lines of a script's standard error."""
    return [line for line in run.stderr.splitlines() if line.strip()][-lines:]


def _with_words(problem: str, run: Run, remedy: str) -> str:
    said = "".join(f"\n  {line}" for line in last_words(run))
    return f"{problem}; {remedy}" + (f"; it last said:{said}" if said else "")
