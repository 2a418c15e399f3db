"""The runs of one verification: which were made, what they say, and which is next."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import psutil

from torchlint.verify import agree, statistics
from torchlint.verify.errors import check_pilot
from torchlint.verify.model import Bounds, Ending, Phase, Same, Speed
from torchlint.verify.pilot import Turns, bounds_of, turns_of
from torchlint.verify.steptimes import lockstep_sample, sequential_sample
from torchlint.verify.verdict import result_of, unexercised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torchlint.verify.model import (
        Agreement,
        Anchor,
        Configuration,
        Executor,
        Judgement,
        Progress,
        Result,
        Run,
        Sample,
    )
    from torchlint.verify.plan import Fixer

PILOT_STEPS = 40  # optimizer steps of the first run, where none are asked for
SEED = 1_000_003  # what is added to every seed, to see how far another one leads
TRACE_STEPS = 50  # of a trace run, at most
LATE = 0.1  # of the time: what the traces that choose the fixes to keep may begin late
PATIENCE = 2  # pairs of runs without a sample, after which a comparison is given up


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is measured: seconds for everything, pairs of runs, and steps of a run."""

    seconds: float
    fewest: int
    most: int
    steps: int | None


@dataclass(frozen=True, slots=True)
class Measuring:
    """How runs are made, as the pilot run says: when they end, and whether they take turns."""

    pilot: Run
    anchor: Anchor
    bounds: Bounds
    turns: Turns


@dataclass(slots=True)
class Known:
    """What is known of one configuration so far; ``unexercised`` says why its fixes do not run."""

    configuration: Configuration
    runs: list[Run] = field(default_factory=list)
    agreement: Agreement | None = None
    unexercised: str = ""

    @property
    def failed(self) -> bool:
        """Whether a run of it ended with an error, or found no end."""
        return any(run.ending in (Ending.FAILED, Ending.TIMEOUT) for run in self.runs)

    def traces(self) -> list[Run]:
        """Return its trace runs."""
        return [run for run in self.runs if run.phase is Phase.TRACE]


@dataclass(slots=True)
class Comparison:
    """Two configurations whose step times are compared."""

    first: Known
    second: Known
    samples: list[Sample] = field(default_factory=list)
    lost: int = 0  # pairs of runs that gave no sample
    judgement: Judgement | None = None

    @property
    def is_open(self) -> bool:
        """Whether more samples could tell more."""
        if self.first.failed or self.second.failed or self.lost > PATIENCE:
            return False
        return self.judgement is None or self.judgement.speed is Speed.OPEN


@dataclass(slots=True)
class Session:
    """What was run so far, and the means to run more.

    ``mode`` is "auto", or how runs are to be timed; with ``keep_going`` configurations whose
    results changed are timed as well.  ``tree`` is the user's project, where runs see a copy of it
    at another place.  ``note`` is told of each finished run and pair.
    """

    executor: Executor
    fixer: Fixer
    limits: Limits
    tell: Progress
    mode: str = "auto"
    keep_going: bool = False
    tree: Path | None = None
    note: Callable[[str, Mapping[str, Any]], None] = lambda _what, _facts: None
    clock: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    known: dict[tuple[str, ...], Known] = field(default_factory=dict)
    comparisons: dict[tuple[tuple[str, ...], tuple[str, ...]], Comparison] = field(
        default_factory=dict
    )
    started: float = 0.0
    runs: int = 0
    planned: int = 0
    other_seed: Run | None = None
    how: Measuring = field(init=False)

    @property
    def is_over(self) -> bool:
        """Whether the time is over after which nothing new is begun."""
        return self._is_over(0.0)

    def _is_over(self, late: float) -> bool:
        return self.clock() - self.started >= self.limits.seconds * (1 + late)

    @property
    def before(self) -> Known:
        """What is known of the project as it is."""
        return self.known[()]

    def begin(self, singles: Sequence[Configuration]) -> tuple[Configuration, ...]:
        """Run the script once as it is, and learn how it steps and what it imports.

        Returns the configurations again, without the files that the script does not import.

        Raises:
            TorchlintError: it fails, or never steps.

        """
        self.started = self.clock()
        before = replace(self.fixer.before(), lines=_all_lines(singles))
        self.known = {(): Known(before)}
        # the pilot, two traces as it is, one of each fix and of all, and the rounds of timing
        self.planned = 4 + len(singles) + self.limits.fewest * (len(singles) + 2)
        asked = Bounds(self.limits.steps or PILOT_STEPS, 0, self.limits.seconds)
        pilot = self._run(self.before, Phase.PILOT, asked)
        anchor = check_pilot(pilot)
        seconds, steps = self.limits.seconds, self.limits.steps
        bounds = bounds_of(pilot, anchor, asked=steps, seconds=seconds, runs=self.planned)
        self.how = Measuring(pilot, anchor, bounds, self._turns(pilot, anchor))
        return tuple(self._imported(singles))

    def _imported(self, singles: Sequence[Configuration]) -> Iterator[Configuration]:
        """Yield what the fixes do to the files that the script imports."""
        files = {file for one in singles for file in one.files}
        modules = [name for record in self.how.pilot.records for name in record.modules]
        found = {file for file in files if any(name.endswith(f"/{file}") for name in modules)}
        if found and found != files:
            self.fixer.keep_to(found)
        for one in singles:
            if not found:
                yield one
            elif not found.isdisjoint(one.files):
                yield self.fixer.with_codes(one.codes)

    def _turns(self, pilot: Run, anchor: Anchor) -> Turns:
        """Return how runs are timed: as asked for, else as the pilot allows."""
        if self.mode == "auto":
            launcher = self.fixer.command.launcher
            return turns_of(pilot, anchor, launcher=launcher, memory=free_memory())
        return Turns("lockstep" if self.mode == "lockstep" else "sequential", "asked for by --mode")

    def with_codes(self, codes: Sequence[str], name: str = "") -> Known:
        """Return what is known of the configuration with the fixes of some rules."""
        made = self.fixer.with_codes(codes, name) if codes else self.before.configuration
        if made.codes not in self.known:
            pilot = self.how.pilot
            why = unexercised(made, pilot, [pilot], self.tree)
            self.known[made.codes] = Known(made, unexercised=why)
        return self.known[made.codes]

    def trace(self, known: Known, late: float = 0.0) -> None:
        """Compare what a configuration computes with what the script computes as it is.

        It may begin by a share of the time ``late``.
        """
        if known.unexercised or known.traces() or self._is_over(late):
            return
        while len(self.before.traces()) < 2:
            self._run(self.before, Phase.TRACE, self._traced())
        after = self._run(known, Phase.TRACE, self._traced())
        known.unexercised = unexercised(known.configuration, self.how.pilot, [after], self.tree)
        if not known.failed:
            known.agreement = self._agreement(known.configuration, after)

    def _agreement(self, configuration: Configuration, after: Run) -> Agreement:
        before, again = self.before.traces()[:2]
        if self.other_seed is None and agree.needs_other_seed(before, again, after):
            reseeded = replace(self._traced(), reseed=SEED)
            self.other_seed = self._run(self.before, Phase.TRACE, reseeded)
        return agree.agreement(
            before,
            again,
            self.other_seed,
            after,
            level=configuration.level,
            safety=configuration.safety,
        )

    def works(self, known: Known) -> bool | None:
        """Whether a configuration runs, and computes what it may compute, as its trace says.

        None where the time is over, and a little more: without the trace of what was measured fix
        by fix, none of them could be recommended beside another.
        """
        self.trace(known, LATE)
        agreement = known.agreement
        if not (known.traces() or known.failed or known.unexercised):
            return None
        return not known.failed and agreement is not None and is_as_declared(agreement)

    def may_be_timed(self, known: Known) -> bool:
        """Whether the speed of a configuration is worth knowing."""
        if known.failed or known.unexercised or known.agreement is None:
            return False
        return self.keep_going or is_as_declared(known.agreement)

    def compare(self, first: Known, second: Known) -> Comparison:
        """Return the comparison of two configurations, which is new or not."""
        key = first.configuration.codes, second.configuration.codes
        return self.comparisons.setdefault(key, Comparison(first, second))

    def time(self, wanted: Sequence[Comparison]) -> None:
        """Take pairs of runs until every comparison is settled or the time is over.

        What stands first is settled first where runs go in lockstep, so that a short time gives
        some verdicts rather than a few pairs of everything; one after the other, all
        comparisons share the runs of the script as it is.
        """
        while (left := [each for each in wanted if each.is_open]) and not self.is_over:
            self._round(left)
            self._judge(left)
        self._judge([each for each in wanted if each.is_open], last=True)

    def _judge(self, comparisons: Iterable[Comparison], *, last: bool = False) -> None:
        fewest, most = self.limits.fewest, self.limits.most
        for each in comparisons:
            each.judgement = statistics.judge(each.samples, fewest=fewest, most=most, last=last)

    def _round(self, left: Sequence[Comparison]) -> None:
        """Take a pair of the first comparison in lockstep, else of each, in random order.

        A configuration is run but once for all of them.
        """
        if self.how.turns.mode == "lockstep":
            self._in_lockstep(left[0])
            return
        block = {id(known): known for each in left for known in (each.first, each.second)}
        order = self.rng.sample(list(block.values()), len(block))
        runs: dict[int, Run] = {}
        for known in order:
            if not self.is_over:
                runs[id(known)] = self._run(known, Phase.TIMING, self.how.bounds)
        for each in left:
            before, after = runs.get(id(each.first)), runs.get(id(each.second))
            if before and after:
                warmup = self.how.bounds.warmup
                sample = sequential_sample(before, after, self.how.anchor, warmup)
                self._take(each, sample, (before, after))

    def _in_lockstep(self, comparison: Comparison) -> None:
        first, second = comparison.first, comparison.second
        self._say(second, Phase.TIMING, 2)
        pair = self.executor.lockstep(first.configuration, second.configuration, self.how.bounds)
        first.runs.append(pair[0])
        second.runs.append(pair[1])
        self._take(comparison, lockstep_sample(*pair), pair)

    def _take(self, comparison: Comparison, sample: Sample | None, runs: tuple[Run, Run]) -> None:
        if sample is None:
            comparison.lost += 1
        else:
            comparison.samples.append(sample)
        facts = {
            "configuration": comparison.second.configuration.name,
            "before": sample.before if sample else None,
            "after": sample.after if sample else None,
            "endings": [run.ending.value for run in runs],
            "seconds": sum(run.seconds for run in runs),
        }
        self.note("pair", facts)

    def _run(self, known: Known, phase: Phase, bounds: Bounds) -> Run:
        self._say(known, phase, 1)
        run = self.executor.run(known.configuration, phase, bounds)
        known.runs.append(run)
        facts = {"phase": phase.value, "ending": run.ending.value, "seconds": run.seconds}
        self.note("run", {"configuration": known.configuration.name, **facts})
        return run

    def _traced(self) -> Bounds:
        """Return the bounds of a trace run, all of whose steps are looked at."""
        bounds = self.how.bounds
        return replace(bounds, steps=min(bounds.steps, TRACE_STEPS), warmup=0)

    def _say(self, known: Known, phase: Phase, runs: int) -> None:
        left = self.limits.seconds - (self.clock() - self.started)
        self.tell(
            f"{phase.value}, {known.configuration.name}",
            self.runs,
            max(self.planned, self.runs + runs),
            max(left, 0.0),
        )
        self.runs += runs

    def result(self, known: Known) -> Result:
        """Return all that is known of a configuration, compared with the script as it is."""
        comparison = self.comparisons.get(((), known.configuration.codes))
        return result_of(
            known.configuration,
            known.runs,
            known.agreement,
            comparison.judgement if comparison else None,
            known.unexercised,
        )


def is_as_declared(agreement: Agreement) -> bool:
    """Whether results are what the fixes may make of them, and can be compared in speed.

    A fix that is meant to compute something else may let them diverge; its speed says little.
    """
    return agreement.allowed and agreement.same is not Same.DIVERGED


def free_memory() -> int:
    """Return the bytes of memory that are free for new processes."""
    return int(psutil.virtual_memory().available)


def _all_lines(configurations: Iterable[Configuration]) -> Mapping[str, frozenset[int]]:
    """Return the lines that any of some configurations changes, by file."""
    found: dict[str, frozenset[int]] = {}
    for one in configurations:
        for file, lines in one.lines.items():
            found[file] = found.get(file, frozenset()) | lines
    return found
