"""What verify plans, measures and says: the values that all its parts share.

Times are seconds, memory is bytes.  A *configuration* is the user's project with some fixes in it
(``before`` has none); a *run* is one launch of the script in one configuration; a *step* is one
event of the anchor, the optimizer that steps least often.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from torchlint.rule import Level  # noqa: TC001  the parts of verify take it from here

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchlint.edits.fix import Safety

BEFORE = "before"  # the name of the configuration without fixes
ALL = "all"  # and of the one with every fix that is still in the running


@dataclass(frozen=True, slots=True)
class Command:
    """How the user starts the script; all paths are absolute.

    Exactly one of ``script`` and ``module`` is given.  ``launcher`` is what stands before it
    (``torchrun --nproc-per-node 2``), empty for a plain ``python``.  ``folder`` is the working
    folder, ``root`` the project that is copied for every run.
    """

    python: Path
    script: Path | None
    module: str | None
    arguments: tuple[str, ...]
    launcher: tuple[str, ...]
    folder: Path
    root: Path


@dataclass(frozen=True, slots=True)
class Configuration:
    """The user's project with some fixes in it.

    ``files`` are the changed files, by their path below the project's root.  ``lines`` are the
    lines that the fixes touch, as they are numbered before any fix.  ``level`` is the most that
    the fixes in it may change.
    """

    name: str
    codes: tuple[str, ...]
    files: Mapping[str, bytes]
    lines: Mapping[str, frozenset[int]]
    safety: Safety | None
    level: Level


class Phase(enum.Enum):
    """What a run is for; the value is what the worker is told."""

    PILOT = "pilot"  # learns the anchor, the noise, the wait for data, which lines run
    TRACE = "trace"  # losses, hashes of batches and parameters, reads that wait for the device
    TIMING = "timing"  # the fewest hooks


@dataclass(frozen=True, slots=True)
class Anchor:
    """What counts as a step: an optimizer, by the order of first steps, or a backward."""

    kind: Literal["optimizer", "backward"]
    index: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a run ends, and which of its steps are looked at.

    A run ends after ``steps`` steps; those up to ``warmup`` are not timed.  After ``seconds`` it
    is killed; after ``enough`` it ends with the steps that it made.  ``anchor`` is None in the
    pilot, which learns it.  ``reseed`` is added to every seed that the script sets, and set where
    it sets none (trace runs only).  A turn of lockstep is ``warm`` steps and ``turn`` timed ones.
    ``expected`` is how many seconds the run should take, by the pilot; 0 where nobody knows.
    """

    steps: int
    warmup: int
    seconds: float
    anchor: Anchor | None = None
    reseed: int = 0
    turn: int = 8
    warm: int = 1
    enough: float = math.inf
    expected: float = 0.0


@dataclass(frozen=True, slots=True)
class Read:
    """A read that makes the host wait for the device: where, through what, how often in a run."""

    file: str
    line: int
    call: str
    count: int


@dataclass(frozen=True, slots=True)
class Trace:
    """What one process computed in a trace run.

    ``losses`` are in the order of the backwards (None for one that is no single number);
    ``batches`` are hashes of what the loaders gave, in order; ``initial`` is one hash of all
    parameters before the first step and ``parameters`` after the last one; ``norms`` are the norms
    of each parameter then, ``random`` is a hash of the state of the random streams.
    """

    losses: tuple[float | None, ...]
    batches: tuple[str, ...]
    initial: str
    parameters: str
    norms: tuple[float, ...]
    random: str
    reads: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """What the worker wrote down of one process that stepped.

    ``steps`` are the times at which each optimizer had stepped, in the order of first steps;
    ``backwards`` the ends of the outermost backwards; ``waits`` are (end, length) of each wait for
    a batch: seconds of one monotonic clock.  ``turns`` are the lengths of the turns of lockstep.
    ``reached`` counts how often fixed lines ran (pilot), ``modules`` are the project's files that
    were imported, ``writes`` the paths outside the copy that it wanted to write to.
    """

    rank: int
    world: int
    ended: Literal["bound", "exit"]
    device: str
    torch: str
    steps: tuple[tuple[float, ...], ...]
    optimizers: tuple[str, ...]
    backwards: tuple[float, ...]
    waits: tuple[tuple[float, float], ...]
    start: float
    workers: int  # processes of DataLoaders that were alive at the end
    turns: tuple[float, ...] = ()
    reached: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    trace: Trace | None = None
    python: str = ""
    cuda: str | None = None  # version that torch was built for, where there is a device
    gpus: int = 0  # that it sees, where it uses one
    driver: str | None = None
    threads: int = 1  # of torch's operators
    libraries: Mapping[str, str] = field(default_factory=dict)  # versions beside torch's
    memory: Mapping[str, int] = field(
        default_factory=dict
    )  # on the device: allocated, reserved (peaks), free at the end
    busy: float | None = None  # share of the window in which the device had work, where measured


class Ending(enum.Enum):
    """How a run came to its end."""

    BOUND = "bound"  # it made its steps and was ended
    FINISHED = "finished"  # it ended by itself before that
    FAILED = "failed"  # it ended with an error, or was killed by a signal
    TIMEOUT = "timeout"  # its time was over


@dataclass(frozen=True, slots=True)
class Run:
    """One launch of the script: all its processes.

    ``records`` are ordered by rank.  ``code`` is the exit code (negative: a signal).  ``stderr`` is
    the script's own last lines there.  ``rss`` is the peak of the resident memory of all its
    processes together.  ``way`` is how it got a copy of the project; ``touched`` is data of the
    user's, linked into the copy, that changed while it ran.  ``turn`` is how many steps of a turn
    of lockstep were timed; ``expected`` the seconds that it should have taken, 0 where unknown.
    """

    configuration: str
    phase: Phase
    ending: Ending
    code: int | None
    stderr: str
    seconds: float
    rss: int
    records: tuple[Record, ...]
    way: Literal["overlay", "copy"] = "copy"
    touched: tuple[str, ...] = ()
    turn: int = 8
    expected: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The step times of one pair of runs, in seconds a step; ``mode`` says how they took turns."""

    before: float
    after: float
    mode: Literal["lockstep", "sequential"]

    @property
    def ratio(self) -> float:
        """How many times faster the second is."""
        return self.before / self.after


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval: ratios of times (above 1 is faster) or seconds."""

    low: float
    middle: float
    high: float


class Speed(enum.Enum):
    """What the samples say of the speed."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_CHANGE = "no measurable change"
    NOISY = "too noisy to say"
    OPEN = "not measured"  # more samples are needed, or none were taken


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the samples of one comparison say.

    ``seen`` is the smallest change that would have shown (0.03 is 3 %), None before there is any.
    """

    speed: Speed
    interval: Interval | None
    seen: float | None
    samples: tuple[Sample, ...]


class Same(enum.IntEnum):
    """How near the results of two runs are, from the nearest."""

    BITWISE = 0
    TOLERANCE = 1
    RANDOM_STREAM = 2
    SEED_SPREAD = 3
    DIVERGED = 4

    @property
    def words(self) -> str:
        """The name used in reports."""
        return (
            "bitwise equal", "within tolerance", "random stream changed", "within seed spread",
            "diverged",
        )[self]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the results of a configuration compare with those before.

    ``allowed`` says whether that is within what the rules declare; ``first`` is the first backward
    whose loss differs, ``difference`` the largest relative difference of losses; ``why`` is one
    sentence with the evidence.
    """

    same: Same
    allowed: bool
    first: int | None
    difference: float
    why: str


class Verdict(enum.Enum):
    """What verify says of a configuration."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_CHANGE = "no measurable change"
    CHANGES_RESULTS = "changes results"
    NOT_EXERCISED = "fix not exercised"
    FAILED = "failed"
    NOISY = "too noisy to say"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Caution:
    """Something that a reader of the figures has to know: what is so, and what to do about it."""

    kind: str  # kebab-case, stable: the JSON report has it
    text: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Result:
    """All that is known of one configuration; ``step`` is its mean step time, in seconds."""

    configuration: Configuration
    verdict: Verdict
    why: str  # one sentence in plain words
    judgement: Judgement | None
    agreement: Agreement | None
    runs: tuple[Run, ...]
    keep: bool
    step: Interval | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the figures come from."""

    python: str
    torch: str
    device: str  # "CPU" or the name of the GPU
    cuda: str | None
    driver: str | None
    cpu: str
    cores: int
    threads: int
    system: str
    load: tuple[float, float, float]
    pressure: float | None  # share of time in which some process waited for a CPU, in the last 10 s
    libraries: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0

    @property
    def is_cpu(self) -> bool:
        """Whether the figures are those of a CPU, and no evidence for anything else."""
        return self.device.upper() == "CPU"


@dataclass(frozen=True, slots=True)
class Report:
    """What a verification gives; every output format is made of this.

    ``groups`` are sets of fixes that were timed together while the ones that gain were looked for.
    ``unfit`` are the rules whose fixes cannot act on this machine, and so were not run, each with
    the reason.  ``confidence`` is that of all intervals together; a change inside ``margin`` is
    called none (0.02: 2 %).
    """

    command: Command
    shown_command: str
    machine: Machine
    mode: Literal["lockstep", "sequential"]
    bounds: Bounds
    before: Result
    singles: tuple[Result, ...]
    together: Result | None
    kept: tuple[str, ...]  # codes
    kept_result: Result | None  # the kept ones together, where that is not one of the above
    apply_command: str
    cautions: tuple[Caution, ...]
    interrupted: bool
    seconds: float
    confidence: float = 0.99
    margin: float = 0.02
    groups: tuple[Result, ...] = ()
    unfit: tuple[tuple[str, str], ...] = ()


class Executor(Protocol):
    """Runs the script in configurations: the one part of verify that touches processes."""

    def run(self, configuration: Configuration, phase: Phase, bounds: Bounds) -> Run:
        """Run once, from a fresh copy of the project."""

    def lockstep(
        self, first: Configuration, second: Configuration, bounds: Bounds
    ) -> tuple[Run | None, Run | None]:
        """Run two at once that take turns; the records hold the lengths of the turns.

        One is None where it was not started, as the other did not come to its first turn.
        """


class Progress(Protocol):
    """Tells a person at a terminal what goes on."""

    def __call__(self, what: str, done: int, total: int, left: float | None) -> None:
        """Say what runs, which of how many, and the seconds left, where known."""
