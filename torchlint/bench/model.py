"""What bench measures and says: the values that its parts share.

Times are seconds a step, memory is bytes.  A *row* is a rule's program in one size, as it is and
fixed.  A *launch* is one process for one row, in which both arms take turns; it gives one pair of
step times, and `torchlint.verify.statistics` judges the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchlint.rule import Needs
from torchlint.verify.model import Sample, Verdict

if TYPE_CHECKING:
    from torchlint.edits.fix import Safety
    from torchlint.rule import Level
    from torchlint.verify.model import Interval, Machine

HOST_BOUND = 0.9  # share of a turn after which a GPU that still works is not what is waited for
WORTH_TELLING = 0.1  # seconds of setting up


@dataclass(frozen=True, slots=True)
class Row:
    """A program before and after, in one size.

    ``safety`` is that of the fix, None where the advice is followed by hand.  ``level`` is the most
    that the results may differ.  ``unfit`` says why it cannot be run on the device at hand,
    ``broken`` what is wrong with the program itself.  Rows of a lower ``rank`` are measured first.
    """

    code: str
    name: str
    size: str
    step: str
    before: str
    after: str
    safety: Safety | None
    level: Level
    unfit: str = ""
    needs: Needs = Needs.NOTHING
    rank: int = 0
    workers: bool = False
    compiles: bool = False
    quick: bool = False  # its turns are short: to try it, not to measure
    broken: str = ""

    @property
    def key(self) -> str:
        """What it is called in jobs, evidence and errors."""
        return f"{self.code} {self.size}".strip()

    @property
    def patience(self) -> float:
        """Seconds without a word, after which it hangs."""
        return 60.0 if self.compiles else 20.0


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of a row in one launch: by the clock, of the processor, and on a GPU of its events.

    ``host`` is the share of a turn in which the host still gives the GPU work.  The first launch of
    a row also tells ``memory``, the peak that the arm allocated on the GPU, ``syncs``, its waits
    for the GPU in a step, and ``setup``, the seconds before its first steps were as fast as others.
    """

    wall: float
    cpu: float
    gpu: float | None = None
    memory: int | None = None
    syncs: float | None = None
    host: float | None = None
    setup: float | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms of a row in one launch."""

    before: Arm
    after: Arm

    @property
    def sample(self) -> Sample:
        """The pair of step times that is judged: by the clock, on a GPU by its events."""
        first = self.before.gpu or self.before.wall
        second = self.after.gpu or self.after.wall
        return Sample(first, second, "lockstep")


@dataclass(frozen=True, slots=True)
class Check:
    """How far the results of both arms lie apart, and those of `before` from its own.

    None is infinitely far.  ``allowed``: as far as the level allows, or as `before` itself strays.
    """

    difference: float | None
    equal: bool  # bit for bit
    allowed: bool
    itself: float | None = 0.0


@dataclass(slots=True)
class Measured:
    """All that is known of a row; ``seconds`` is what its last launch took."""

    row: Row
    pairs: list[Pair] = field(default_factory=list)
    check: Check | None = None
    verdict: Verdict = Verdict.NOT_MEASURED
    interval: Interval | None = None
    why: str = ""
    when: str = ""
    seconds: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether another launch could tell more."""
        return self.verdict is Verdict.NOT_MEASURED and not self.row.unfit

    @property
    def is_wrong(self) -> bool:
        """Whether it could not be run, or does not compute what it should."""
        return self.verdict in (Verdict.FAILED, Verdict.CHANGES_RESULTS)

    @property
    def samples(self) -> list[Sample]:
        """What is judged."""
        return [pair.sample for pair in self.pairs]

    @property
    def first(self) -> Pair | None:
        """The launch that told of memory, waits and setting up."""
        return next((pair for pair in self.pairs if pair.before.setup is not None), None)

    @property
    def setup(self) -> tuple[float, float] | None:
        """Seconds of setting up before and after; None where it was not seen."""
        if self.first is None or self.first.before.setup is None or self.first.after.setup is None:
            return None
        return self.first.before.setup, self.first.after.setup

    @property
    def break_even(self) -> float | None:
        """Steps after which the fix has gained what it takes once; None where it takes nothing."""
        if self.setup is None or self.interval is None or self.interval.middle <= 1:
            return None
        more = self.setup[1] - self.setup[0]
        if more < WORTH_TELLING:
            return None
        gains = [sample.before - sample.after for sample in self.samples]
        gain = sum(gains) / len(gains)
        return more / gain if gain > 0 else None

    @property
    def regime(self) -> str | None:
        """What the fixed program's turns are bound by, on a GPU."""
        shares = [pair.after.host for pair in self.pairs if pair.after.host is not None]
        if not shares:
            return None
        return "launch-bound" if sum(shares) / len(shares) > HOST_BOUND else "GPU-bound"


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What a call of bench gives; every output format is made of this."""

    machine: Machine
    rows: tuple[Measured, ...]
    launches: int
    seconds: float
    interrupted: bool
    confidence: float
    margin: float
