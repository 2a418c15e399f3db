"""What one verification knows so far: of each configuration, and of each pair that is compared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from torchlint.verify.model import Ending, Phase, Speed

if TYPE_CHECKING:
    from torchlint.verify.model import (
        Agreement,
        Anchor,
        Bounds,
        Configuration,
        Judgement,
        Run,
        Sample,
    )
    from torchlint.verify.pilot import Turns

PATIENCE = 2  # pairs of runs without a sample, after which a comparison is given up
BAD = frozenset({Ending.FAILED, Ending.TIMEOUT})


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
        return any(run.ending in BAD for run in self.runs)

    @property
    def has_workers(self) -> bool:
        """Whether processes prepared its batches."""
        return any(record.workers for run in self.runs for record in run.records)

    def traces(self) -> list[Run]:
        """Return its trace runs."""
        return [run for run in self.runs if run.phase is Phase.TRACE]


@dataclass(slots=True)
class Comparison:
    """Two configurations whose step times are compared; one that ``leads`` is settled first."""

    first: Known
    second: Known
    leads: bool = False
    samples: list[Sample] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # that its pairs took
    lost: int = 0  # pairs of runs that gave no sample
    judgement: Judgement | None = None

    @property
    def codes(self) -> tuple[str, ...]:
        """The fixes in the second one."""
        return self.second.configuration.codes

    @property
    def gain(self) -> float:
        """The mean log ratio so far."""
        return fmean(math.log(sample.ratio) for sample in self.samples) if self.samples else 0.0

    @property
    def is_open(self) -> bool:
        """Whether more samples could tell more."""
        if self.first.failed or self.second.failed or self.lost > PATIENCE:
            return False
        return self.judgement is None or self.judgement.speed is Speed.OPEN
