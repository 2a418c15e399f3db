"""What bench measures and says: the values that its parts share.

Times are seconds a step, memory is bytes.  A *row* is a rule's program in one size, as it is and
fixed; a *launch* is one process in which both arms of every open row take turns.  A launch gives
each row one pair of step times, and `torchlint.verify.statistics` judges the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchlint.verify.model import Sample, Verdict

if TYPE_CHECKING:
    from torchlint.edits import Safety
    from torchlint.rule import Level
    from torchlint.verify.model import Interval, Machine


@dataclass(frozen=True, slots=True)
class Row:
    """A program before and after, in one size.

    ``safety`` is that of the fix, None where the advice is followed by hand.  ``level`` is the most
    that the results may differ.  ``unfit`` says why it cannot be run on the device at hand.
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

    @property
    def key(self) -> str:
        """What it is called in jobs, evidence and errors."""
        return f"{self.code} {self.size}".strip()


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of a row in one launch: by the clock, of the processor, and on a GPU of its events.

    ``memory`` is the peak that was allocated on the GPU, ``syncs`` are the waits for it in a step.
    """

    wall: float
    cpu: float
    gpu: float | None = None
    memory: int | None = None
    syncs: float | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms of a row in one launch; ``difference`` is how far their results lie apart."""

    before: Arm
    after: Arm
    difference: float
    equal: bool  # bit for bit
    allowed: bool  # as far as the level allows

    @property
    def sample(self) -> Sample:
        """The pair of step times that is judged: by the clock, on a GPU by its events."""
        first = self.before.gpu or self.before.wall
        second = self.after.gpu or self.after.wall
        return Sample(first, second, "lockstep")


@dataclass(slots=True)
class Measured:
    """All that is known of a row."""

    row: Row
    pairs: list[Pair] = field(default_factory=list)
    verdict: Verdict = Verdict.NOT_MEASURED
    interval: Interval | None = None
    why: str = ""

    @property
    def is_open(self) -> bool:
        """Whether another launch could tell more."""
        return self.verdict is Verdict.NOT_MEASURED and not self.row.unfit

    @property
    def is_wrong(self) -> bool:
        """Whether it could not be run, or does not compute what it should."""
        return self.verdict in (Verdict.FAILED, Verdict.CHANGES_RESULTS)


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
