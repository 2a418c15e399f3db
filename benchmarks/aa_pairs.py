"""Collect pairs of launches of a script with itself, made as `torchlint verify` makes its pairs.

    python benchmarks/aa_pairs.py [--pairs 30] [--time-budget 30m] [--out FILE]

Any two launches differ by chance alone here: `benchmarks/verify_statistics.py --pairs FILE` draws
reports from these pairs, and counts how many of them call something.  The scripts are those of
fixtures/, on the CPU, with one thread unless OMP_NUM_THREADS says otherwise.  Pairs are added to
those that the file holds, and each is written as it comes; the script with the fewest is next.
Exits with 0 when each has its pairs, 3 when the time was over, 1 where a script could not be timed,
2 on wrong use.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import shlex
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "rules"), str(Path(__file__).parent)]

import evidence  # noqa: E402  found from here on

from torchlint.errors import TorchlintError, UsageError  # noqa: E402
from torchlint.rule import Level  # noqa: E402
from torchlint.verify.command import seconds  # noqa: E402
from torchlint.verify.errors import check_pilot  # noqa: E402
from torchlint.verify.executor import ProjectExecutor  # noqa: E402
from torchlint.verify.machine import describe  # noqa: E402
from torchlint.verify.model import (  # noqa: E402
    BEFORE,
    Bounds,
    Command,
    Configuration,
    Phase,
)
from torchlint.verify.pilot import bounds_of  # noqa: E402
from torchlint.verify.plan import default_python  # noqa: E402
from torchlint.verify.session import PATIENCE, PILOT_STEPS  # noqa: E402
from torchlint.verify.steptimes import lockstep_sample, sequential_sample  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from torchlint.verify.model import Executor, Run, Sample

FOLDER = evidence.FOLDER / "aa-pairs"
ITSELF = Configuration(BEFORE, (), {}, {}, None, Level.E0)
VERIFIED, RUNS = 240.0, 60  # seconds and runs of the verification whose pairs these could be
LONG = ("--device", "cpu", "--epochs", "100000")


@dataclass(frozen=True, slots=True)
class Kind:
    """Pairs of a script below fixtures/: ``mode`` is how they are timed."""

    script: str
    mode: str = "lockstep"
    arguments: tuple[str, ...] = LONG

    @property
    def name(self) -> str:
        """Its name in the file."""
        return f"{Path(self.script).stem}, {self.mode}"

    @property
    def command(self) -> Command:
        """How the script is started."""
        script = ROOT / "fixtures" / self.script
        folder = script.parent
        return Command(default_python(), script, None, self.arguments, (), folder, folder)


KINDS = (
    Kind("proofs/curve_fit.py", arguments=("--steps", "100000000")),
    Kind("scripts/gan.py"),
    Kind("scripts/transformer_lm.py"),
    Kind("scripts/cnn_classifier.py", "sequential"),
)


@dataclass(slots=True)
class Timing:
    """How the pairs of a script are made; the pilot run has told the rest."""

    kind: Kind
    executor: Executor
    pilot: Run
    bounds: Bounds
    rng: random.Random = field(default_factory=random.Random)

    @classmethod
    def begun(cls, kind: Kind, executor: Executor, left: float) -> Timing:
        """Return how a script is timed, after its pilot run.

        Raises:
            TorchlintError: it fails, or never steps.

        """
        pilot = executor.run(ITSELF, Phase.PILOT, Bounds(PILOT_STEPS, 0, left))
        bounds = bounds_of(pilot, check_pilot(pilot), seconds=VERIFIED, runs=RUNS)
        return cls(kind, executor, pilot, bounds)

    def pair(self, left: float) -> Sample | None:
        """Return one more pair, None where the time that is left was too short."""
        bounds = replace(self.bounds, seconds=min(self.bounds.seconds, left / 2))
        if self.kind.mode == "lockstep":
            return lockstep_sample(*self.executor.lockstep(ITSELF, ITSELF, bounds))
        runs = [self.executor.run(ITSELF, Phase.TIMING, bounds) for _ in range(2)]
        self.rng.shuffle(runs)
        assert bounds.anchor is not None
        return sequential_sample(runs[0], runs[1], bounds.anchor, bounds.warmup)


@dataclass(slots=True)
class Collection:
    """The pairs in a file; ``end`` is when the time is over, by the clock."""

    path: Path
    end: float
    executor: Callable[[Kind], AbstractContextManager[Executor]]
    clock: Callable[[], float] = time.monotonic
    found: dict[str, Any] = field(default_factory=dict)
    given_up: list[Kind] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path.is_file():
            self.found = read(self.path)

    def count(self, kind: Kind) -> int:
        """Return how many pairs there are of a script."""
        return len(self.found.get("kinds", {}).get(kind.name, ()))

    def fill(self, kind: Kind, most: int) -> bool:
        """Collect pairs of a script until there are so many; False where the time was over.

        Raises:
            TorchlintError: it fails, never steps, or cannot be timed.

        """
        with self.executor(kind) as executor:
            timing = Timing.begun(kind, executor, self.end - self.clock())
            machine = describe(timing.pilot)
            self._claim({"device": "CPU", "cpu": machine.cpu, "torch": machine.torch})
            lost, longest = 0, 0.0
            while self.count(kind) < most and self.clock() + longest < self.end:
                began = self.clock()
                sample = timing.pair(self.end - began)
                longest = max(longest, self.clock() - began)
                if sample is None and self.clock() < self.end and (lost := lost + 1) > PATIENCE:
                    raise TorchlintError(f"{kind.name}: {lost} pairs of runs without a time")
                if sample is not None:
                    self._add(kind, sample)
        return self.count(kind) >= most

    def _claim(self, machine: Mapping[str, str]) -> None:
        """See that all pairs are of one machine.

        Raises:
            UsageError: those of the file are not of this one.

        """
        for what, here in machine.items():
            if self.found.setdefault(what, here) != here:
                raise UsageError(
                    f"{self.path}: its pairs are of {self.found[what]}, this is {here}; "
                    "name another file with --out"
                )

    def _add(self, kind: Kind, sample: Sample) -> None:
        pair = [sample.before, sample.after]
        self.found.setdefault("kinds", {}).setdefault(kind.name, []).append(pair)
        when = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
        words = shlex.join(["python", "benchmarks/aa_pairs.py", *sys.argv[1:]])
        evidence.write(self.path, self.found | {"command": words, "when": when})
        ratio = sample.before / sample.after
        print(f"{kind.name}: pair {self.count(kind)}, {ratio:.3f} x", file=sys.stderr, flush=True)


def read(path: Path) -> dict[str, Any]:
    """Return what a file of pairs holds.

    Raises:
        UsageError: it is no such file.

    """
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        dict(found["kinds"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: holds no pairs; move it away, or name another file") from None
    return found


def collect(made: Collection, kinds: tuple[Kind, ...], most: int, share: int) -> int:
    """Collect pairs of all scripts, at most ``share`` of one at a time; return the exit code."""
    while made.clock() < made.end:
        open_ = [one for one in kinds if made.count(one) < most and one not in made.given_up]
        if not open_:
            break
        kind = min(open_, key=made.count)
        try:
            if not made.fill(kind, min(most, made.count(kind) + share)):
                break
        except UsageError:
            raise
        except TorchlintError as error:
            made.given_up.append(kind)
            print(f"{kind.name}: given up: {error}", file=sys.stderr, flush=True)
    if made.given_up:
        return 1
    return 0 if all(made.count(kind) >= most for kind in kinds) else 3


def executor(kind: Kind) -> ProjectExecutor:
    """Return the executor that verify has."""
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    here = {"CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": threads}
    return ProjectExecutor(kind.command, environment={**os.environ, **here})


def main() -> int:
    """Collect what is asked for; return the exit code."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=30, metavar="N", help="of each script")
    parser.add_argument("--time-budget", default="30m", metavar="TIME", help="until it ends")
    parser.add_argument("--out", type=Path, default=FOLDER / "cpu.json", metavar="FILE")
    given = parser.parse_args()
    try:
        made = Collection(given.out, began + seconds(given.time_budget), executor)
        return collect(made, KINDS, given.pairs, share=10)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 3


if __name__ == "__main__":
    sys.exit(main())
