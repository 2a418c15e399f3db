"""One verification step by step: what is known, which comparison is next, and its pair of runs."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil

from torchlint.errors import UsageError
from torchlint.registry import find
from torchlint.rule import Needs, rule_code
from torchlint.verify import agree, schedule, statistics
from torchlint.verify.errors import check_pilot
from torchlint.verify.known import PATIENCE, Comparison, Known, Limits, Measuring
from torchlint.verify.launches import Launches
from torchlint.verify.model import Bounds, Ending, Phase, Same, Speed
from torchlint.verify.pilot import Turns, bounds_of, turns_of
from torchlint.verify.schedule import Option
from torchlint.verify.steptimes import lockstep_sample, sequential_sample, usual_step
from torchlint.verify.verdict import result_of, unexercised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torchlint.verify.model import (
        Agreement,
        Anchor,
        Configuration,
        Executor,
        Progress,
        Result,
        Run,
        Sample,
    )
    from torchlint.verify.plan import Fixer

__all__ = ["Comparison", "Known", "Limits", "Session"]

PILOT_STEPS = 40  # optimizer steps of the first run, where none are asked for
PILOT_SHARE = 0.3  # of the time, after which the first run ends with the steps that it made
SEED = 1_000_003  # what is added to every seed, to see how far another one leads
TRACE_STEPS = 50  # of a trace run, at most
ITSELF = 2  # pairs of the script with itself: how much they vary tells what a change has to exceed
ROOM = 10  # pairs that there has to be time for; in fewer, too few looks are taken to need it
TRIES = 2  # to trace the script again, should it fail by chance
BLOCK = 3  # configurations that share a run of the script as it is, one after the other
SINGLES = 6  # fixes that are timed alone, of which the length of the runs has to take account


def _quiet(_what: str, _told: Mapping[str, Any]) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Session:
    """What was run so far, and the means to run more.

    ``mode`` is "auto", or how runs are to be timed; with ``keep_going`` configurations whose
    results changed are timed as well.  ``tree`` is the user's project, where runs see a copy of it
    at another place.  ``note`` is told of every run and pair when it is over: "run" or "pair", and
    what is known of it, in values that JSON has.  ``started`` is when the time began to count, by
    the clock; `begin` sets it where it is not given.
    """

    executor: Executor
    fixer: Fixer
    limits: Limits
    tell: Progress
    mode: str = "auto"
    keep_going: bool = False
    tree: Path | None = None
    clock: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    note: Callable[[str, Mapping[str, Any]], None] = _quiet
    started: float | None = None
    known: dict[tuple[str, ...], Known] = field(default_factory=dict)
    comparisons: dict[tuple[tuple[str, ...], tuple[str, ...]], Comparison] = field(
        default_factory=dict
    )
    itself: dict[str, list[Sample]] = field(default_factory=dict)  # by the mode
    tries: int = 0  # to take a pair of the script with itself in lockstep
    unfit: list[tuple[str, str]] = field(default_factory=list)
    expected: int = 1  # comparisons that may be judged
    other_seed: Run | None = None
    launches: Launches = field(init=False)

    @property
    def how(self) -> Measuring:
        """How runs are made, as the pilot said and later ones corrected."""
        return self.launches.how

    @property
    def left(self) -> float:
        """Seconds until the time is over."""
        return self.launches.left

    @property
    def is_over(self) -> bool:
        """Whether the time is over after which nothing new is begun."""
        return self.left <= 0

    @property
    def before(self) -> Known:
        """What is known of the project as it is."""
        return self.known[()]

    def begin(self, singles: Sequence[Configuration]) -> tuple[Configuration, ...]:
        """Run the script once as it is, and learn how it steps, what it imports and runs on.

        Returns the configurations again, without the files that the script does not import, and
        without those that cannot act on this machine: ``unfit`` names them.

        Raises:
            TorchlintError: it fails, or makes too few steps.

        """
        started = self.clock() if self.started is None else self.started
        before = Known(replace(self.fixer.before(), lines=_all_lines(singles)))
        self.known = {(): before}
        self.launches = Launches(
            self.executor, self.limits, self.tell, self.note, self.clock, started, before,
            adapts=self.mode == "auto",
        )  # fmt: skip
        seconds, steps = self.limits.seconds, self.limits.steps
        enough = PILOT_SHARE * seconds
        asked = Bounds(steps or PILOT_STEPS, 0, max(self.left, 1.0), enough=enough)
        pilot = self.launches.pilot(asked)
        anchor = check_pilot(pilot)
        # two traces as it is, one of each fix and of all, pairs with itself, and rounds of timing
        timed = min(len(singles), SINGLES)
        runs = 4 + timed + 2 * ITSELF + self.limits.fewest * (timed + 2)
        bounds = bounds_of(pilot, anchor, asked=steps, seconds=seconds, runs=runs)
        self.launches.how = Measuring(pilot, anchor, bounds, self._turns(pilot, anchor, bounds))
        fit = tuple(self._fit(self._imported(singles)))
        self.expected = schedule.comparisons(len(fit))
        return fit

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

    def _fit(self, singles: Iterable[Configuration]) -> Iterator[Configuration]:
        """Yield what can act on this machine, and take note of what cannot."""
        gpus = max((record.gpus for record in self.how.pilot.records), default=0)
        for one in singles:
            if lacking := {needs_of(code).lacking(gpus) for code in one.codes} - {""}:
                self.unfit += [(code, min(lacking)) for code in one.codes]
            else:
                yield one

    def _turns(self, pilot: Run, anchor: Anchor, bounds: Bounds) -> Turns:
        """Return how runs are timed: as asked for, else as the pilot allows."""
        if self.mode != "auto":
            is_lockstep = self.mode == "lockstep"
            return Turns("lockstep" if is_lockstep else "sequential", "asked for by --mode")
        return turns_of(
            pilot,
            anchor,
            launcher=self.fixer.command.launcher,
            memory=free_memory(),
            steps=bounds.steps - bounds.warmup if pilot.ending is Ending.FINISHED else None,
        )

    def with_codes(self, codes: Sequence[str], name: str = "") -> Known:
        """Return what is known of the configuration with the fixes of some rules."""
        made = self.fixer.with_codes(codes, name) if codes else self.before.configuration
        if made.codes not in self.known:
            pilot = self.how.pilot
            why = unexercised(made, pilot, [pilot], self.tree)
            self.known[made.codes] = Known(made, unexercised=why)
        return self.known[made.codes]

    def trace(self, known: Known) -> None:
        """Compare what a configuration computes with what the script computes as it is.

        A run in which the script fails by itself is made again, with fewer steps.
        """
        while not (self.is_over or known.unexercised or known.failed or known.traces()):
            if not self.before.traces():
                self.launches.run(self.before, Phase.TRACE, self._traced())
                continue
            after = self.launches.run(known, Phase.TRACE, self._traced())
            if known.traces():
                why = unexercised(known.configuration, self.how.pilot, [after], self.tree)
                known.unexercised = why
                if not known.failed:
                    known.agreement = self._agreement(known.configuration, after)

    def _traced(self) -> Bounds:
        """Return the bounds of a trace run, all of whose steps are looked at."""
        bounds = self.how.bounds
        return replace(bounds, steps=min(bounds.steps, TRACE_STEPS), warmup=0)

    def _agreement(self, configuration: Configuration, after: Run) -> Agreement | None:
        """Compare two traces; where they differ, with how much the script differs from itself.

        None where the time is over before that is known.
        """
        before = self.before.traces()[0]
        agreement = partial(agree.agreement, level=configuration.level, safety=configuration.safety)
        if (same := agreement(before, before, None, after)).same is Same.BITWISE:
            return same
        for _ in range(TRIES):
            if len(self.before.traces()) < 2 and not self.is_over:
                self.launches.run(self.before, Phase.TRACE, self._traced())
        if len(self.before.traces()) < 2:
            return None
        again = self.before.traces()[1]
        if self.other_seed is None and agree.needs_other_seed(before, again, after):
            if self.is_over:
                return None
            reseeded = replace(self._traced(), reseed=SEED)
            self.other_seed = self.launches.run(self.before, Phase.TRACE, reseeded)
        return agreement(before, again, self.other_seed, after)

    def works(self, known: Known) -> bool | None:
        """Whether a configuration runs, and computes what it may compute, as its trace says.

        None where the time was over before.
        """
        self.trace(known)
        if known.failed or known.unexercised:
            return False
        return None if known.agreement is None else is_as_declared(known.agreement)

    def may_be_timed(self, known: Known) -> bool:
        """Whether the speed of a configuration is worth knowing; its trace says so."""
        if known.failed or known.unexercised or known.agreement is None:
            return False
        return self.keep_going or is_as_declared(known.agreement)

    def compare(self, first: Known, second: Known, *, leads: bool = False) -> Comparison:
        """Return the comparison of two configurations, which is new or not."""
        key = first.configuration.codes, second.configuration.codes
        found = self.comparisons.setdefault(key, Comparison(first, second))
        found.leads = found.leads or leads
        return found

    def time(self, wanted: Sequence[Comparison]) -> None:
        """Take pairs of runs until every comparison is settled or the time is over.

        Nothing is traced: whoever asks for it says what may be timed.
        """
        while block := self._next([each for each in wanted if each.is_open]):
            self._pair(block)
        self.settle(wanted)

    def step(self, wanted: Sequence[Comparison]) -> bool:
        """Do what `schedule` says is next; False where nothing is left that can end in time.

        That is a pair of runs, or some that share one.  What was not traced yet is, when it is its
        turn; what then may not be timed is left.
        """
        block = self._next([each for each in wanted if self._is_wanted(each)])
        if block and self._searches() and not block[0].second.traces():
            self.trace(block[0].second)
            return not self.is_over
        for each in block:
            self.trace(each.second)
        ready = [each for each in block if each.second.traces() and self._is_wanted(each)]
        if ready and not self.is_over:
            self._pair(ready)
        return bool(block) and not self.is_over

    def _pair(self, block: Sequence[Comparison]) -> None:
        """Take a pair of the first, or of all that share a run, or of the script with itself."""
        if self._wants_itself(block[0]):
            self._with_itself()
            return
        if self._mode(block[0]) == "lockstep":
            block = block[:1]
            self._in_lockstep(block[0])
        else:
            block = [each for each in block if self._mode(each) == "sequential"]
            self._in_sequence(block)
        self.judge(block)

    def settle(self, wanted: Iterable[Comparison]) -> None:
        """Judge what is open by the pairs that there are: no more will come."""
        self.judge([each for each in wanted if each.is_open], last=True)

    def _is_wanted(self, each: Comparison) -> bool:
        known = each.second
        is_known = bool(known.traces()) or known.failed or bool(known.unexercised)
        return each.is_open and (not is_known or self.may_be_timed(known))

    def _next(self, wanted: Sequence[Comparison]) -> list[Comparison]:
        """Return what is gone on with: one in lockstep, else some that share a run."""
        options = [self._option(place, each) for place, each in enumerate(wanted)]
        searches = self._searches()
        ranked = schedule.ranked(options, self.left, self.limits.fewest, searches=searches)
        if not ranked:
            first = not any(each.samples for each in self.comparisons.values())
            return list(wanted[:1]) if first and not self.is_over else []
        chosen, seconds = ranked[:1], ranked[0].next
        for option in ranked[1:] if not chosen[0].leads else ():
            alike = bool(option.pairs) == bool(chosen[0].pairs)
            more = option.trace + option.seconds / 2
            if alike and len(chosen) < BLOCK and seconds + more <= self.left:
                chosen.append(option)
                seconds += more
        block = [wanted[option.place] for option in chosen]
        return block[:1] if self._mode(block[0]) == "lockstep" else block

    def _option(self, place: int, each: Comparison) -> Option:
        count, most = len(each.samples), self.limits.most
        needed = statistics.pairs_needed(each.samples, self.expected, self._spread(each), most=most)
        cost = self.launches.cost
        return Option(
            place=place,
            pairs=count,
            seconds=median(each.seconds) if each.seconds else cost(self._mode(each), 2),
            trace=0.0 if each.second.traces() else cost("trace", 1),
            needed=None if needed is None else max(needed, self.limits.fewest - count),
            gain=each.gain,
            leads=each.leads,
            hint=self._hint(each.second),
        )

    def _searches(self) -> bool:
        """Whether all together have a large gain, and the fixes alone do not explain it yet."""
        together = self._together
        if together is None or together.judgement is None:
            return False
        alone = (each for each in self.comparisons.values() if len(each.codes) == 1)
        explained = sum(max(each.gain, 0.0) for each in alone)
        is_faster = together.judgement.speed is Speed.FASTER
        return is_faster and together.gain - explained > schedule.LARGE

    @property
    def _together(self) -> Comparison | None:
        """The comparison of most fixes with the script as it is."""
        found = [each for (first, _), each in self.comparisons.items() if not first]
        largest = max(found, key=lambda each: len(each.codes), default=None)
        return largest if largest and len(largest.codes) > 1 else None

    def _hint(self, known: Known) -> float:
        """Return the share of a fix in the gain of all together, by the step times of traces."""
        together = self._together
        if together is None or not known.traces() or not self.before.traces():
            return 0.0
        anchor = self.how.anchor
        all_known = (self.before, together.second, known)
        traces = [each.traces()[:1] for each in all_known]
        times = [usual_step(run, anchor) for found in traces for run in found]
        if len(times) < len(all_known) or times[0] <= times[1]:
            return 0.0
        return (times[0] - times[2]) / (times[0] - times[1])

    def _mode(self, each: Comparison) -> str:
        """Return how a comparison is timed: never in turns where a fix brings workers."""
        if self.mode == "auto" and each.second.has_workers:
            return "sequential"
        return self.how.turns.mode

    def _spread(self, each: Comparison) -> statistics.Spread:
        """Return how much pairs of this kind vary, as the others say."""
        kind = self._mode(each), each.second.has_workers
        others = [
            other.samples
            for other in self.comparisons.values()
            if other is not each and (self._mode(other), other.second.has_workers) == kind
        ]
        return statistics.pooled(others, self.itself.get(kind[0], ()))

    def judge(self, comparisons: Iterable[Comparison], *, last: bool = False) -> None:
        """Judge comparisons by their pairs; with ``last`` no more will come."""
        for each in comparisons:
            each.judgement = statistics.judge(
                each.samples,
                comparisons=self.expected,
                spread=self._spread(each),
                fewest=self.limits.fewest,
                most=self.limits.most,
                last=last,
            )

    def _wants_itself(self, each: Comparison) -> bool:
        """Whether a pair of the script with itself is next, once something else has its first."""
        if self._mode(each) != "lockstep" or self.tries >= 2 * ITSELF:
            return False
        return bool(self.launches.spent.get("lockstep")) and self._has_room("lockstep")

    def _has_room(self, mode: str) -> bool:
        """Whether pairs of the script with itself are missing, and there is time for them."""
        if len(self.itself.get(mode, ())) >= ITSELF:
            return False
        room = ROOM if self.expected > 1 else ITSELF + self.limits.fewest
        return self.left >= room * self.launches.cost(mode, 2)

    def _with_itself(self) -> None:
        self.tries += 1
        first, second = self.launches.turns(self.before, self.before)
        if first and second:
            self._keep_itself(lockstep_sample(first, second))

    def _keep_itself(self, sample: Sample | None) -> None:
        if sample:
            found = self.itself.setdefault(sample.mode, [])
            found.append(sample)
            self._note((), (), sample, len(found))

    def _in_lockstep(self, comparison: Comparison) -> None:
        began, steps = self.clock(), self.how.bounds.steps
        first, second = self.launches.turns(comparison.first, comparison.second)
        comparison.seconds.append(self.clock() - began)
        sample = lockstep_sample(first, second) if first and second else None
        self._keep(comparison, sample, was_shortened=self.how.bounds.steps < steps)

    def _in_sequence(self, block: Sequence[Comparison]) -> None:
        """Run each configuration once, in random order; the script as it is twice at first."""
        involved = {id(known): known for each in block for known in (each.first, each.second)}
        order, bounds, began = list(involved.values()), self.how.bounds, self.clock()
        if self._has_room("sequential"):
            order.append(self.before)
        runs: dict[int, list[Run]] = {}
        for known in self.rng.sample(order, len(order)):
            run = self.launches.run(known, Phase.TIMING, self.how.bounds)
            runs.setdefault(id(known), []).append(run)
        seconds = 2 * (self.clock() - began) / len(order)
        self.launches.spent.setdefault("sequential", []).append(seconds)
        anchor, warmup = self.how.anchor, self.how.bounds.warmup
        for each in block:
            each.seconds.append(seconds)
            pair = runs[id(each.first)][0], runs[id(each.second)][0]
            sample = sequential_sample(*pair, anchor, warmup)
            self._keep(each, sample, was_shortened=self.how.bounds.steps < bounds.steps)
        if len(twice := runs.get(id(self.before), [])) > 1:
            self._keep_itself(sequential_sample(twice[0], twice[1], anchor, warmup))

    def _keep(self, each: Comparison, sample: Sample | None, *, was_shortened: bool) -> None:
        if sample is None:  # once more, where the runs turned out to be too long for the script
            each.lost += not was_shortened
            return
        each.samples.append(sample)
        self._note(each.first.configuration.codes, each.codes, sample, len(each.samples))

    def _note(
        self, first: Sequence[str], second: Sequence[str], sample: Sample, count: int
    ) -> None:
        name = self.known[tuple(second)].configuration.name
        times = {"before": sample.before, "after": sample.after, "mode": sample.mode}
        told = {"configuration": name, "first": [*first], "second": [*second], "pairs": count}
        self.note("pair", {**told, **times})

    def result(self, known: Known) -> Result:
        """Return all that is known of a configuration, compared with the script as it is."""
        comparison = self.comparisons.get(((), known.configuration.codes))
        return result_of(
            known.configuration,
            known.runs,
            known.agreement,
            comparison.judgement if comparison else None,
            known.unexercised,
            is_lost=comparison is not None and comparison.lost > PATIENCE,
        )


def needs_of(code: str) -> Needs:
    """Return what a rule's fix needs to act at all: nothing, for one that nobody knows."""
    try:
        return find(rule_code(code)).needs
    except UsageError:
        return Needs.NOTHING


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
