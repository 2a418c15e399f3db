"""One whole script: what is run of it, in which order, and what is known of it after each run.

The pilot comes first, then what `torchlint verify` would do, timed against the script as it is: all
fixes together, each fix, and beside them the safe ones together.  Which of the fixes fail is looked
for only where all together do.  Work that an earlier run has done under the same key counts.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from torchlint.edits.fix import Safety
from torchlint.rule import Level
from torchlint.verify import statistics
from torchlint.verify.machine import describe
from torchlint.verify.model import Ending, Phase, Sample, Speed, Verdict
from torchlint.verify.report.figures import Figures, figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from whole_scripts import Script

    from torchlint.verify.model import Configuration, Result, Run
    from torchlint.verify.session import Comparison, Known, Session

ALL, SAFE = "all proven fixes", "safe fixes"  # the rows of an entry beside "before"
RUNS = 2  # raise it when runs measure something else: what was known before is measured anew
SHOWN_READS = 10
USEFUL = (Ending.BOUND, Ending.FINISHED)


def key_of(script: Script, singles: Iterable[Configuration], torch: str, device: str) -> str:
    """Return a hash of all that a result depends on, but the machine beside its GPU."""
    text = hashlib.sha256(repr((RUNS, torch, device, script.words, script.origin)).encode())
    for name, data in sorted(script.contents()):
        text.update(f"{name}\0{len(data)}\0".encode() + data)
    for one in singles:  # what torchlint makes of it
        for name, data in sorted(one.files.items()):
            text.update(f"{one.codes}\0{name}\0{len(data)}\0".encode() + data)
    return text.hexdigest()[:16]


@dataclass(slots=True)
class Work:
    """What is done with one script; ``store`` gets the entry after each run and pair.

    ``known`` is the entry of earlier runs, if it has the same key.  ``told`` is what the entry
    begins with, whatever becomes of the script.
    """

    session: Session
    told: Mapping[str, Any]
    driver: str | None
    known: Mapping[str, Any]
    store: Callable[[dict[str, Any]], None]
    began: float = field(default_factory=time.monotonic)
    singles: tuple[Configuration, ...] = ()
    groups: dict[str, Known] = field(default_factory=dict)
    stamps: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    ready: bool = False
    over: bool = False  # all that was planned is done

    def run(self, singles: Sequence[Configuration]) -> None:
        """Do what is left to do in the session's time.

        Raises:
            TorchlintError: the script cannot be run as it is, or never steps.
            KeyboardInterrupt: it was told to end; what is known was stored.

        """
        session = self.session
        self.singles = session.begin(singles)
        self.ready = True
        fit = [session.with_codes(one.codes) for one in self.singles]
        timed = [one for one in fit if one.configuration.level is not Level.E3]
        wanted = [self._comparison(one) for one in timed if not one.unexercised]
        if codes := working(tuple(each.codes[0] for each in wanted), self._works):
            self._group(ALL, codes, wanted).leads = True
        for each in wanted:
            if not each.is_open:  # by the pairs of earlier runs
                session.trace(each.second)
        safe = [one for one in timed if one.configuration.safety is Safety.SAFE]
        more = True
        while more:
            if SAFE not in self.groups and all(_is_looked_at(one) for one in safe):
                fine = [one for one in safe if session.may_be_timed(one)]
                if codes := tuple(one.configuration.codes[0] for one in fine):
                    self._group(SAFE, codes, wanted)
            more = session.step(wanted)
        session.settle(wanted)
        for one in fit:
            session.trace(one)  # those meant to change results as well
        self.over = not self.left()
        self.note("script", {})

    def _group(self, name: str, codes: tuple[str, ...], wanted: list[Comparison]) -> Comparison:
        """Measure fixes together as well; the entry has them from their first pair on."""
        self.groups[name] = self.session.with_codes(codes)
        comparison = self._comparison(self.groups[name])
        if all(each is not comparison for each in wanted):  # of one fix it is that of the fix
            wanted.append(comparison)
        return comparison

    def _works(self, codes: tuple[str, ...]) -> bool | None:
        return self.session.works(self.session.with_codes(codes))

    def _comparison(self, known: Known) -> Comparison:
        """Return the comparison with the script as it is; pairs of earlier runs are in it."""
        session, codes = self.session, known.configuration.codes
        comparison = session.compare(session.before, known)
        if codes not in self.stamps:
            pairs = self._pairs(codes)
            self.stamps[codes] = [pair["when"] for pair in pairs]
            comparison.samples += [Sample(p["before"], p["after"], p["mode"]) for p in pairs]
            session.judge([comparison])
        return comparison

    def _pairs(self, codes: tuple[str, ...]) -> list[Mapping[str, Any]]:
        """Return the pairs of earlier runs: those that were taken as pairs are taken now."""
        rows = (*self.known.get("rows", {}).values(), *self.known.get("fixes", {}).values())
        found = next((row["samples"] for row in rows if tuple(row["codes"]) == codes), [])
        mode = self.session.how.turns.mode
        return [pair for pair in found if pair["mode"] == mode and "when" in pair]

    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        """Store what is known after a run or a pair."""
        if self.ready and (what == "script" or facts.get("phase") != Phase.TIMING.value):
            self.store(self.entry())

    def left(self) -> list[str]:
        """Return the names of the configurations that are not settled."""
        if not self.ready:
            return ["everything"]
        wanted = {ALL: self.groups.get(ALL), SAFE: self.groups.get(SAFE)}
        wanted |= {one.name: self.session.with_codes(one.codes) for one in self.singles}
        return [name for name, known in wanted.items() if known and not self._is_settled(known)]

    def _is_settled(self, known: Known) -> bool:
        """Whether more pairs would tell little more of a configuration."""
        if known.configuration.level is Level.E3 and known.agreement is not None:
            return True
        result = self.session.result(known)
        judged = result.judgement
        if result.verdict is Verdict.NOT_MEASURED:
            return False
        if result.verdict not in (Verdict.NO_CHANGE, Verdict.NOISY) or judged is None:
            return True
        count = min(statistics.USUAL, self.session.limits.most)
        return len(judged.samples) >= count or (judged.seen or 1) <= statistics.ENOUGH - 1

    def entry(self) -> dict[str, Any]:
        """Return all that is to be said of the script so far."""
        session = self.session
        rows = {"before": session.before, **self.groups}
        machine = asdict(describe(session.how.pilot))
        singles = [session.with_codes(one.codes) for one in self.singles]
        return {
            **self.told,
            "status": "done" if self.over else "partial",
            "left": [] if self.over else self.left(),
            "when": now(),
            "seconds": round(time.monotonic() - self.began, 1),
            "machine": {**machine, "driver": machine["driver"] or self.driver},
            "mode": session.how.turns.mode,
            "why this mode": session.how.turns.why,
            "steps": session.how.bounds.steps,
            "warmup": session.how.bounds.warmup,
            "unfit": dict(session.unfit),
            "rows": {name: self._row(one) for name, one in rows.items()},
            "fixes": {one.configuration.name: self._row(one) for one in singles},
        }

    def _row(self, known: Known) -> dict[str, Any]:
        result = self.session.result(known)
        numbers = figures(result, self.session.how.bounds)
        judged, agreement = result.judgement, result.agreement
        settled = None if judged is None or judged.speed is Speed.OPEN else judged
        return {
            "codes": list(known.configuration.codes),
            "verdict": result.verdict.value if known.configuration.codes else None,
            "why": result.why if known.configuration.codes else None,
            "step seconds": numbers.seconds,
            "step interval": asdict(numbers.step) if numbers.step else None,
            "speed-up": asdict(settled.interval) if settled and settled.interval else None,
            "detectable change": judged.seen if judged else None,
            "samples": self._samples(known),
            **_device(result, numbers),
            "reads a step": numbers.reads,
            "reads": _reads(result),
            "results": agreement.same.words if agreement else None,
            "results allowed": agreement.allowed if agreement else None,
            "largest difference": _finite(agreement.difference) if agreement else None,
        }

    def _samples(self, known: Known) -> list[dict[str, Any]]:
        """Return the pairs of a configuration, each with the time at which it was known."""
        codes = known.configuration.codes
        comparison = self.session.comparisons.get(((), codes))
        samples = comparison.samples if comparison else []
        stamps = self.stamps.get(codes, [])
        stamps += [now()] * (len(samples) - len(stamps))
        pairs = zip(samples, stamps, strict=True)
        return [{**asdict(sample), "when": when} for sample, when in pairs]


def working(
    codes: tuple[str, ...], works: Callable[[tuple[str, ...]], bool | None]
) -> tuple[str, ...]:
    """Return all of these fixes if they work together, else as many as halving them finds."""
    if not codes or works(codes):
        return codes
    if len(codes) == 1:
        return ()
    half = len(codes) // 2
    first, second = working(codes[:half], works), working(codes[half:], works)
    both = (*first, *second)
    if both in (first, second, codes):
        return max(first, second, key=len)
    return both if works(both) else max(first, second, key=len)


def _is_looked_at(known: Known) -> bool:
    """Whether it is known if a fix may be timed."""
    return bool(known.failed or known.unexercised or known.traces())


def now() -> str:
    """Return the time as it stands in the evidence."""
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds")


def _device(result: Result, numbers: Figures) -> dict[str, Any]:
    """Return what is known of the device's memory and work, None on a CPU.

    Runs that took turns with another do not count: they shared the GPU.
    """
    alone = [run for run in result.runs if is_alone(run)]
    memory = [record.memory for run in alone for record in run.records]
    peaks = {
        name: max((each[name] for each in memory if name in each), default=None)
        for name in ("allocated", "reserved")
    }
    busy = [record.busy for run in alone for record in run.records if record.busy is not None]
    mean = sum(busy) / len(busy) if busy else None
    return {"busy": mean, **(peaks if numbers.on_device or busy else dict.fromkeys(peaks))}


def is_alone(run: Run) -> bool:
    """Whether a run came to its end, had the machine for itself, and left out its warm-up."""
    takes_turns = any(record.turns for record in run.records)
    return run.ending in USEFUL and run.phase is not Phase.PILOT and not takes_turns


def _reads(result: Result) -> list[dict[str, Any]]:
    """Return the reads of the last trace that come most often, with their lines."""
    traces = [record.trace for run in result.runs for record in run.records if record.trace]
    found: Iterable[Any] = traces[-1].reads if traces else ()
    often = sorted(found, key=lambda read: -read.count)[:SHOWN_READS]
    return [asdict(read) for read in often]


def _finite(number: float) -> float | str:
    return number if abs(number) < float("inf") else str(number)
