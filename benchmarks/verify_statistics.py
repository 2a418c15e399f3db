"""How often verify's rule is wrong, how often it sees a change, and how often it abstains.

    python benchmarks/verify_statistics.py [--repeats N] [--plain]

Simulated pairs of runs with many kinds of noise are judged as `torchlint verify` judges them, from
five pairs to forty.  ``--plain`` does without cutting the outermost pairs, for comparison.  The
noise is that of the logarithm of a run's step time; both runs of a pair are made in random order.
Each row begins with its own seed: the table is the same wherever it is run.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.verify import statistics
from torchlint.verify.model import Sample, Speed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHANGES = (1.05, 1.10, 1.20, 1 / 1.10)


def normal(rng: random.Random, spread: float) -> Iterator[float]:
    """Yield noise as it is in books."""
    while True:
        yield rng.gauss(0, spread)


def heavy(rng: random.Random) -> Iterator[float]:
    """Yield Student's t with two degrees of freedom: no finite variance."""
    while True:
        yield 0.04 * rng.gauss(0, 1) / math.sqrt(rng.expovariate(1))


def outliers(rng: random.Random, share: float) -> Iterator[float]:
    """Yield runs of which some are disturbed: 1.2 to 3 times slower."""
    while True:
        yield rng.gauss(0, 0.02) + (rng.uniform(0.2, 1.1) if rng.random() < share else 0)


def drift(rng: random.Random) -> Iterator[float]:
    """Yield runs of a machine that gets warmer: each one 3 % slower than the one before."""
    k = 0
    while True:
        k += 1
        yield rng.gauss(0, 0.03) + 0.03 * k


def waves(rng: random.Random) -> Iterator[float]:
    """Yield runs beside a load that comes and goes over ten runs."""
    load = 0.0
    while True:
        load = 0.9 * load + rng.gauss(0, 0.15 * math.sqrt(1 - 0.9**2))
        yield load + rng.gauss(0, 0.01)


def states(rng: random.Random) -> Iterator[float]:
    """Yield runs of a machine with three clocks, which changes every ten runs."""
    state = 0.0
    while True:
        if rng.random() < 0.1:
            state = rng.choice((0.0, 0.3, 0.7))
        yield state + rng.gauss(0, 0.02)


def skewed(rng: random.Random) -> Iterator[float]:
    """Yield runs that are only ever delayed."""
    while True:
        yield math.log1p(0.3 * rng.expovariate(1))


KINDS: dict[str, Callable[[random.Random], Iterator[float]]] = {
    "normal, 1 %": lambda rng: normal(rng, 0.01),
    "normal, 2 %": lambda rng: normal(rng, 0.02),
    "normal, 4 %": lambda rng: normal(rng, 0.04),
    "normal, 8 %": lambda rng: normal(rng, 0.08),
    "normal, 15 %": lambda rng: normal(rng, 0.15),
    "normal, 30 %": lambda rng: normal(rng, 0.30),
    "heavy tails": heavy,
    "outliers, 10 %": lambda rng: outliers(rng, 0.10),
    "outliers, 30 %": lambda rng: outliers(rng, 0.30),
    "drift": drift,
    "waves": waves,
    "states": states,
    "skewed": skewed,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What many comparisons were settled as, in shares, and the mean number of pairs."""

    speeds: Counter[Speed]
    repeats: int
    pairs: float

    def share(self, *speeds: Speed) -> float:
        """Return the share of comparisons with one of these outcomes, in percent."""
        return 100 * sum(self.speeds[speed] for speed in speeds) / self.repeats


def compare(noise: Iterator[float], change: float, rng: random.Random) -> tuple[Speed, int]:
    """Take pairs until the comparison is settled."""
    samples: list[Sample] = []
    speed = Speed.OPEN
    while speed is Speed.OPEN:
        first, second = math.exp(next(noise)), math.exp(next(noise))
        if rng.random() < 0.5:
            first, second = second, first
        samples.append(Sample(first, second / change, "sequential"))
        speed = statistics.judge(samples).speed
    return speed, len(samples)


def simulate(kind: str, change: float, repeats: int) -> Outcome:
    """Make the same comparison many times."""
    rng = random.Random(f"{kind} {change}")  # noqa: S311 - noise, no secret
    settled = [compare(KINDS[kind](rng), change, rng) for _ in range(repeats)]
    pairs = sum(count for _, count in settled) / repeats
    return Outcome(Counter(speed for speed, _ in settled), repeats, pairs)


def row(kind: str, repeats: int) -> str:
    """Return a line of the table."""
    same = simulate(kind, 1.0, repeats)
    called = same.share(Speed.FASTER, Speed.SLOWER)
    cells = [f"{kind:15}{called:7.1f}{same.share(Speed.NOISY):9.1f}{same.pairs:7.1f}"]
    for change in CHANGES:
        right, wrong = (Speed.FASTER, Speed.SLOWER)[:: 1 if change > 1 else -1]
        changed = simulate(kind, change, max(repeats // 4, 1))
        cells.append(f"{changed.share(right):7.0f} ({changed.share(wrong):.1f})")
    return " ".join(cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=2000, metavar="N")
    parser.add_argument("--plain", action="store_true")
    asked = parser.parse_args()
    if asked.plain:
        statistics.TRIM = 0.0
    print("percent of comparisons; in brackets: called the wrong way round")
    print(f"{'':15}{'no change at all':>23}" + " ".join(["   ", *(f"{c:11.2f}" for c in CHANGES)]))
    print(f"{'noise of a run':15}{'called':>7}{'abstains':>9}{'pairs':>7}")
    for kind in KINDS:
        print(row(kind, asked.repeats), flush=True)


if __name__ == "__main__":
    main()
