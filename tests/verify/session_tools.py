"""Sessions with runs that are made up: what they take, compute and do wrong is said by a test."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.edits.fix import Safety
from torchlint.rule import Level
from torchlint.verify.lockstep import turns_in
from torchlint.verify.model import (
    Bounds,
    Command,
    Configuration,
    Ending,
    Phase,
    Record,
    Run,
    Trace,
    Verdict,
)
from torchlint.verify.session import Limits, Session
from torchlint.verify.verification import verification

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from torchlint.verify.model import Report

STEP = 0.01  # seconds of a step as it is
FILE = "train.py"
HERE = Path("/project")
COMMAND = Command(HERE / "python", HERE / FILE, None, (), (), HERE, HERE)


def never(_: frozenset[str]) -> bool:
    return False


@dataclass
class FakeExecutor:
    """Runs whose steps take as long as the fixes in them say, with a little noise, on a clock.

    ``factors`` multiply the step time, ``together`` those of sets of fixes.  Sets that ``breaks``
    fail after ``breaks_at`` steps, sets that ``hangs`` never end, others that ``changes`` compute
    something else, ``workers`` prepare the batches of some.  The script ends by itself after
    ``ends_at`` steps, and fails after ``fails_at``.  A launch takes ``start`` seconds.
    """

    factors: dict[str, float] = field(default_factory=dict)
    together: dict[frozenset[str], float] = field(default_factory=dict)
    breaks: Callable[[frozenset[str]], bool] = never
    breaks_at: int = 0
    hangs: Callable[[frozenset[str]], bool] = never
    changes: Callable[[frozenset[str]], bool] = never
    workers: Callable[[frozenset[str]], bool] = never
    reached: bool = True
    noise: float = 0.001
    step: float = STEP
    ends_at: int | None = None
    fails_at: int | None = None
    stop_after: int | None = None
    start: float = 1.0
    gpus: int = 0
    seconds: float = 0.0  # the clock
    longest: float = 0.0  # seconds of the longest pair of runs, or of two times a run
    log: list[tuple[str, str]] = field(default_factory=list)
    bounds: list[Bounds] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    def run(self, configuration: Configuration, phase: Phase, bounds: Bounds) -> Run:
        self.log.append((phase.value, configuration.name))
        self.bounds.append(bounds)
        began = self.seconds
        made = self._made(configuration, phase, bounds, 0)
        self.longest = max(self.longest, 2 * (self.seconds - began))
        return made

    def lockstep(
        self, first: Configuration, second: Configuration, bounds: Bounds
    ) -> tuple[Run | None, Run | None]:
        self.log.append(("lockstep", second.name))
        self.bounds.append(bounds)
        began = self.seconds
        turns = turns_in(bounds)
        runs = [self._made(each, Phase.TIMING, bounds, turns) for each in (first, second)]
        self.longest = max(self.longest, self.seconds - began)
        return runs[0], runs[1]

    def _made(self, configuration: Configuration, phase: Phase, bounds: Bounds, turns: int) -> Run:
        if self.stop_after is not None and len(self.log) > self.stop_after:
            raise KeyboardInterrupt
        codes = frozenset(configuration.codes)
        step = self.step * self.rng.gauss(1, self.noise)
        for code in codes:
            step *= self.factors.get(code, 1.0)
        for some, factor in self.together.items():
            step *= factor if some <= codes else 1.0
        made, ending, code, said = self._end(codes, bounds)
        took = bounds.seconds if ending is Ending.TIMEOUT else self.start + made * step
        self.seconds += took
        times = ends(made) if turns else tuple(1.0 + step * k for k in range(made))
        record = self._record(codes, times)
        if phase is Phase.TRACE:
            record = self._traced(record, codes, bounds)
        if turns:
            whole = min(turns, (made - bounds.warmup) // (bounds.warm + bounds.turn))
            record = changed(record, turns=(step * bounds.turn,) * whole)
        records = (record,) if made and ending is not Ending.TIMEOUT else ()
        return Run(
            configuration.name, phase, ending, code, said, took, 1, records,
            turn=bounds.turn, expected=bounds.expected,
        )  # fmt: skip

    def _end(self, codes: frozenset[str], bounds: Bounds) -> tuple[int, Ending, int | None, str]:
        """Return the steps of a run, how it ends, its exit code and its last words."""
        if self.hangs(codes):
            return 0, Ending.TIMEOUT, None, ""
        if self.breaks(codes) and self.breaks_at < bounds.steps:
            return self.breaks_at, Ending.FAILED, 1, "ValueError: no"
        if self.fails_at is not None and self.fails_at < bounds.steps:
            return self.fails_at, Ending.FAILED, 1, "ValueError: by itself"
        if self.ends_at is not None and self.ends_at < bounds.steps:
            return self.ends_at, Ending.FINISHED, 0, ""
        return bounds.steps, Ending.BOUND, 0, ""

    def _record(self, codes: frozenset[str], times: tuple[float, ...]) -> Record:
        return Record(
            rank=0, world=1, ended="bound", device="GPU" if self.gpus else "cpu", torch="2.13.0",
            steps=(times,), optimizers=("SGD",), backwards=times, waits=(), start=0.0,
            workers=2 * self.workers(codes), gpus=self.gpus,
            reached={FILE: {1: 5 * self.reached}}, modules=(f"/copy/{FILE}",),
        )  # fmt: skip

    def _traced(self, record: Record, codes: frozenset[str], bounds: Bounds) -> Record:
        loss = 2.0 if self.changes(codes) else 1.0 + bounds.reseed * 1e-9
        trace = Trace((loss,) * 20, ("b",) * 20, "i", str(loss), (loss,), "r", ())
        return changed(record, trace=trace)


def changed(record: Record, **known: object) -> Record:
    """Return a record with other fields, quicker than `dataclasses.replace`."""
    values = {name: getattr(record, name) for name in Record.__dataclass_fields__}
    return Record(**(values | known))


@lru_cache(maxsize=64)
def ends(steps: int) -> tuple[float, ...]:
    """Return ends of steps that nobody looks at: in lockstep the lengths of the turns count."""
    return tuple(1.0 + STEP * k for k in range(steps))


@dataclass
class FakeFixer:
    """Fixes by their codes alone; those of ``unsafe`` are unsafe and declare their level."""

    command: Command
    unsafe: dict[str, Level] = field(default_factory=dict)

    def keep_to(self, names: Collection[str]) -> None:  # noqa: ARG002
        raise AssertionError("the only file is imported")

    def before(self) -> Configuration:
        return Configuration("before", (), {}, {}, None, Level.E0)

    def with_codes(self, codes: Sequence[str], name: str = "") -> Configuration:
        key = tuple(sorted(codes))
        level = max((self.unsafe.get(code, Level.E0) for code in key), default=Level.E0)
        safety = Safety.UNSAFE if any(code in self.unsafe for code in key) else Safety.SAFE
        lines = {FILE: frozenset({1})}
        return Configuration(name or "+".join(key), key, {FILE: b""}, lines, safety, level)


def session(
    executor: FakeExecutor, *, seconds: float = 1e6, fewest: int = 3, most: int = 40, seed: int = 1,
    **unsafe: Level,
) -> Session:  # fmt: skip
    return Session(
        executor,
        FakeFixer(COMMAND, unsafe),  # type: ignore[arg-type]
        Limits(seconds, fewest, most, None),
        lambda *_: None,
        clock=lambda: executor.seconds,
        rng=random.Random(seed),  # noqa: S311
    )


def verify(made: Session, *codes: str) -> Report:
    return verification(made, [made.fixer.with_codes((code,)) for code in codes])


def verdicts(report: Report) -> dict[str, Verdict]:
    return {result.configuration.name: result.verdict for result in report.singles}
