"""Single runs and turns of two: what they cost, whose fault it is that one fails, what comes of it.

A script may end by itself, or fail, after fewer steps than were asked for.  That is learnt from the
first run that does, and later ones make no more steps than that.  A failure is a fix's only where
the script as it is went further.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from torchlint.verify.errors import fails_by_itself
from torchlint.verify.known import BAD, Measuring
from torchlint.verify.model import Ending, Phase
from torchlint.verify.pilot import fitted, step_of, turns_of
from torchlint.verify.steptimes import NEEDED, steps_made

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchlint.verify.known import Known, Limits
    from torchlint.verify.model import Bounds, Executor, Progress, Run

COMPILING = 120.0  # seconds that a run may last whatever the pilot says, as a fix may compile
COMPILING_SHARE = 0.25  # if they are no more than that of the time left
FAILURES = 2  # trace runs of the script as it is, after which it is given up


@dataclass(slots=True)
class Launches:
    """The runs made so far, and the means to make more; ``how`` is known after the pilot."""

    executor: Executor
    limits: Limits
    tell: Progress
    note: Callable[[str, Mapping[str, Any]], None]
    clock: Callable[[], float]
    started: float
    before: Known
    adapts: bool  # whether runs may be paired otherwise than they began to be
    runs: int = 0
    spent: dict[str, list[float]] = field(default_factory=dict)  # seconds, by what was run
    failures: list[Run] = field(default_factory=list)  # of the script, whatever fixes are in it
    how: Measuring = field(init=False)

    @property
    def left(self) -> float:
        """Seconds until the time is over."""
        return self.limits.seconds - (self.clock() - self.started)

    def cost(self, what: str, runs: int) -> float:
        """Return how long a trace or a pair takes, by those that were taken and by the pilot."""
        costs: list[float] = [*self.spent.get(what, ()), runs * self.how.bounds.expected]
        return median(costs)

    def took(self, what: str, began: float) -> float:
        """Remember how long something took, and return it."""
        seconds = self.clock() - began
        self.spent.setdefault(what, []).append(seconds)
        return seconds

    def pilot(self, bounds: Bounds) -> Run:
        """Run the script once as it is; all other runs follow from it."""
        self._say(self.before, Phase.PILOT, 1)
        run = self.executor.run(self.before.configuration, Phase.PILOT, bounds)
        self.before.runs.append(run)
        self._note(self.before, run, 0)
        return run

    def run(self, known: Known, phase: Phase, bounds: Bounds) -> Run:
        """Run a configuration once."""
        self._say(known, phase, 1)
        began = self.clock()
        run = self.executor.run(known.configuration, phase, self._bounded(bounds))
        if phase is Phase.TRACE:
            self.took(phase.value, began)
        self._learn(known, run)
        return run

    def turns(self, first: Known, second: Known) -> tuple[Run | None, Run | None]:
        """Run two configurations that take turns."""
        self._say(second, Phase.TIMING, 2)
        began, bounds = self.clock(), self._bounded(self.how.bounds)
        pair = self.executor.lockstep(first.configuration, second.configuration, bounds)
        self.took("lockstep", began)
        for known, run in zip((first, second), pair, strict=True):
            if run:
                self._learn(known, run)
        return pair

    def _bounded(self, bounds: Bounds) -> Bounds:
        """Return bounds after whose seconds a run is killed: it may compile, but not for ever."""
        compiling = min(COMPILING, COMPILING_SHARE * self.left)
        return replace(bounds, seconds=max(bounds.seconds, compiling))

    def _learn(self, known: Known, run: Run) -> None:
        """Keep a run, unless it fails as the script does by itself; learn how far that goes."""
        made = steps_made(run, self.how.anchor)
        self._note(known, run, made)
        if run.ending in BAD and (is_own := self._is_own(known, run, made)) is not False:
            if is_own:
                self._fail(run, made)
            return
        known.runs.append(run)
        if run.ending is Ending.FINISHED:
            self._shorten(made)

    def _is_own(self, known: Known, run: Run, made: int) -> bool | None:
        """Whether a failure is the script's own: run as far, it fails without fixes as well.

        None where there is no time to find out.
        """
        if known is self.before:
            return True
        if run.ending is Ending.TIMEOUT or self._went_beyond(made):
            return False
        if self.left <= 0:
            return None
        bounds = self.how.bounds
        further = replace(bounds, steps=made + 1, warmup=min(bounds.warmup, max(made, 1)))
        self._say(self.before, Phase.TIMING, 1)
        again = self.executor.run(self.before.configuration, Phase.TIMING, self._bounded(further))
        self._note(self.before, again, steps_made(again, self.how.anchor))
        return again.ending in BAD

    def _went_beyond(self, made: int) -> bool:
        return any(steps_made(run, self.how.anchor) > made for run in self.before.runs)

    def _fail(self, run: Run, made: int) -> None:
        """Take note of a failure of the script itself: runs end before it from now on.

        Where it went further before, that was chance, and costs a pair.

        Raises:
            ScriptError: it comes so early, or so often, that nothing can be measured.

        """
        self.failures.append(run)
        traces = [each for each in self.failures if each.phase is Phase.TRACE]
        if self._went_beyond(made):
            if len(traces) >= FAILURES and not self.before.traces():
                raise fails_by_itself(run, made)
        elif made < NEEDED:
            raise fails_by_itself(run, made)
        else:
            self._shorten(made)

    def _shorten(self, steps: int) -> None:
        """Let runs make no more steps than the script does."""
        how = self.how
        if not 0 < steps < how.bounds.steps:
            return
        step = step_of(how.pilot, how.anchor)
        bounds, turns = fitted(how.bounds, max(steps, NEEDED), step=step), how.turns
        if self.adapts and turns.mode == "lockstep":
            turns = turns_of(how.pilot, how.anchor, steps=bounds.steps - bounds.warmup)
        self.how = replace(how, bounds=bounds, turns=turns)

    def _note(self, known: Known, run: Run, made: int) -> None:
        told = {
            "codes": list(known.configuration.codes),
            "name": known.configuration.name,
            "phase": run.phase.value,
            "ending": run.ending.value,
            "seconds": run.seconds,
            "steps": made,
        }
        self.note("run", told)

    def _say(self, known: Known, phase: Phase, runs: int) -> None:
        """Tell what runs, and how many runs there may be, as long as they took so far."""
        left = max(self.left, 0.0)
        used = self.limits.seconds - left
        more = left * self.runs / used if used > 0 else 0.0
        total = max(round(min(self.runs + more, 1e6)), self.runs + runs)
        self.tell(f"{phase.value}, {known.configuration.name}", self.runs, total, left)
        self.runs += runs
