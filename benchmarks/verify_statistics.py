"""How often a report of verify calls something faster or slower that is neither, and what it sees.

    python benchmarks/verify_statistics.py [--reports N] [--pairs FILE] [--only false|power]

Whole reports of 1, 10 and 40 comparisons are simulated and judged by the functions with which
`torchlint verify` judges: a look after every pair, up to 40; the spread is pooled from two pairs of
the script with itself and from the other comparisons.  A report is false where any comparison that
changes nothing is called faster or slower.  The standard error stands beside each share.

* *as verify does*: a comparison ends with its verdict, which may be "no change";
* *never given up*: only faster and slower end it, so that every comparison has 38 looks.

``--pairs`` draws the pairs from real ones of scripts with themselves, which
`benchmarks/aa_pairs.py` collects, in place of made-up noise: a report takes all of its pairs from
one script.  Each table is the same wherever it is made: it begins with its own seed.  Exits with 1
where more than 1 % of the reports are false that have pairs of one spread, or real ones.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "rules")]

from torchlint.verify import statistics  # noqa: E402  found from here on
from torchlint.verify.model import Sample, Speed  # noqa: E402
from torchlint.verify.statistics import MOST, Moments  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    # the log ratios of the script with itself, then of each comparison, for a report of so many
    Noise: TypeAlias = Callable[[random.Random, int], list[Iterator[float]]]

SIZES = (1, 10, 40)  # comparisons of a report
SPREADS = (0.02, 0.04, 0.06)  # of a pair's log ratio
ITSELF = 2  # pairs of the script with itself
SIMULATED, DRAWN = 2_000, 10_000  # reports: of ten comparisons, and of each size from real pairs
ALLOWED = 0.01  # false reports
EFFECTS = (1.05, 1 / 1.05, 1.3, 1 / 1.3)
LOOKS = (3, 5, 10, 15)  # pairs after which power is asked for
CALLED = (Speed.FASTER, Speed.SLOWER)


# -- noise ---------------------------------------------------------------------------------------


def normal(spread: float) -> Noise:
    """Return noise as it is in books."""
    return mixed(spread, spread)


def mixed(*spreads: float) -> Noise:
    """Return noise of several sizes in turn: the script with itself has the first."""

    def one(rng: random.Random, spread: float) -> Iterator[float]:
        return drawn(lambda: rng.gauss(0, spread))

    return lambda rng, size: [one(rng, spreads[k % len(spreads)]) for k in range(size + 1)]


def heavy(spread: float) -> Noise:
    """Return noise of Student's t with three degrees of freedom, of this standard deviation."""

    def one(rng: random.Random) -> float:
        return spread * rng.gauss(0, 1) / math.sqrt(sum(rng.gauss(0, 1) ** 2 for _ in range(3)))

    return lambda rng, size: [drawn(lambda: one(rng)) for _ in range(size + 1)]


def disturbed(spread: float, share: float) -> Noise:
    """Return noise in which some launches, before or after, take 1.2 to 2 times as long."""

    def launch(rng: random.Random) -> float:
        late = rng.uniform(0.2, 0.7) if rng.random() < share else 0.0
        return rng.gauss(0, spread / math.sqrt(2)) + late

    return lambda rng, size: [drawn(lambda: launch(rng) - launch(rng)) for _ in range(size + 1)]


def shared(spread: float) -> Noise:
    """Return noise of comparisons that share the launches of the script as it is."""

    def streams(rng: random.Random, size: int) -> list[Iterator[float]]:
        before: list[float] = []

        def one() -> Iterator[float]:
            for launch in count():
                if launch == len(before):
                    before.append(rng.gauss(0, spread))
                yield (before[launch] - rng.gauss(0, spread)) / math.sqrt(2)

        return [drawn(lambda: rng.gauss(0, spread)), *(one() for _ in range(size))]

    return streams


def real(pairs: Sequence[tuple[float, float]]) -> Noise:
    """Return pairs of a script with itself, drawn with replacement, as they are."""
    logs = [math.log(before / after) for before, after in pairs]
    return lambda rng, size: [drawn(lambda: rng.choice(logs)) for _ in range(size + 1)]


def drawn(draw: Callable[[], float]) -> Iterator[float]:
    """Return an iterator that has no end."""
    return (draw() for _ in count())


NOISES: Mapping[str, Noise] = {
    **{f"{spread:.0%}": normal(spread) for spread in SPREADS},
    "10%": normal(0.10),
    "2 %, 8 % by turns": mixed(0.02, 0.08),
    "before is shared": shared(0.04),
    "heavy tails, 4 %": heavy(0.04),
    "2 %, outliers 10 %": disturbed(0.02, 0.1),
}
HELD = tuple(NOISES)[: len(SPREADS)]  # to what is allowed; the others show where the rule ends


# -- reports -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Comparison:
    """One comparison of a report, of a change by so much (a log ratio)."""

    noise: Iterator[float]
    change: float = 0.0
    seen: Moments = field(default_factory=Moments)
    speed: Speed = Speed.OPEN

    def look(self, comparisons: int, pool: statistics.Pool) -> None:
        """Take one more pair and judge, as `statistics.judge` does of samples."""
        self.seen = self.seen.plus(next(self.noise) + self.change)
        half = statistics.half_width(self.seen, comparisons, pool.without(id(self)))
        if half is not None:
            self.speed = statistics.settled(self.seen, half)
        pool.put(id(self), self.seen.spread)


def report(
    noise: Noise,
    changes: Sequence[float],
    rng: random.Random,
    *,
    gives_up: bool = True,
    most: int = MOST,
) -> Iterator[Comparison]:
    """Take pairs of all comparisons in turn; yield each when it is called faster or slower."""
    itself, *noises = noise(rng, len(changes))
    pool = statistics.Pool([Sample(math.exp(next(itself)), 1.0, "lockstep") for _ in range(ITSELF)])
    left = [Comparison(*each) for each in zip(noises, changes, strict=True)]
    for _ in range(most):
        for each in left:
            each.look(len(changes), pool)
            if each.speed in CALLED:
                yield each
        ended = (*CALLED, *([Speed.NO_CHANGE] if gives_up else []))
        left = [each for each in left if each.speed not in ended]


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    found: int
    of: int

    def __add__(self, other: Share) -> Share:
        return Share(self.found + other.found, self.of + other.of)

    def __str__(self) -> str:
        part = (self.found + 1) / (self.of + 2)  # whose error is not zero where nothing was found
        error = math.sqrt(part * (1 - part) / self.of)
        return f"{100 * self.found / self.of:.2f} +- {100 * error:.2f}"

    @property
    def is_allowed(self) -> bool:
        """Whether so many reports may be false."""
        return self.found <= ALLOWED * self.of


def false_reports(noise: Noise, size: int, reports: int, *, gives_up: bool, seed: str) -> Share:
    """Return how many reports call something that is not there."""
    rng = random.Random(f"{seed} {size} {gives_up}")  # noqa: S311 - noise, no secret
    changes = [0.0] * size
    made = (report(noise, changes, rng, gives_up=gives_up) for _ in range(reports))
    return Share(sum(any(True for _ in each) for each in made), reports)


def power(noise: Noise, effect: float, size: int, reports: int, seed: str) -> list[float]:
    """Return the share of changes that have their verdict after each number of `LOOKS`.

    One comparison in ten changes the speed, the others change nothing.
    """
    rng = random.Random(f"{seed} {effect} {size}")  # noqa: S311 - noise, no secret
    changed = max(size // 10, 1)
    changes = [math.log(effect)] * changed + [0.0] * (size - changed)
    right = Speed.FASTER if effect > 1 else Speed.SLOWER
    settled = [
        each.seen.count
        for _ in range(reports)
        for each in report(noise, changes, rng, most=LOOKS[-1])
        if each.change and each.speed is right
    ]
    return [sum(pairs <= look for pairs in settled) / (reports * changed) for look in LOOKS]


# -- tables --------------------------------------------------------------------------------------


def sizes(reports: int) -> dict[int, int]:
    """Return how many reports are made of each size: those of many comparisons take long."""
    return {1: 5 * reports, 10: reports, 40: max(reports // 4, 1)}


def print_false(noises: Mapping[str, Noise], reports: Mapping[int, int]) -> dict[str, list[Share]]:
    """Print the share of false reports; return it."""
    heads = "".join(f"{f'm = {size}':>16}" for size in SIZES)
    print(f"{'false reports, %':20}{'as verify does':^48}   {'never given up':^48}")
    print(f"{'':20}{heads}   {heads}")
    made = {}
    for name, noise in noises.items():
        made[name] = [
            false_reports(noise, size, reports[size], gives_up=gives_up, seed=name)
            for gives_up in (True, False)
            for size in SIZES
        ]
        print_row(name, made[name])
    return made


def print_row(name: str, shares: Sequence[Share]) -> None:
    """Print a line of that table."""
    told = [f"{share!s:>16}" for share in shares]
    parts = ("".join(half) for half in (told[: len(SIZES)], told[len(SIZES) :]))
    print(f"{name:20}" + "   ".join(parts), flush=True)


def print_power(reports: Mapping[int, int]) -> None:
    """Print which share of real changes has its verdict after how many pairs."""
    looks = "".join(f"{look:>5}" for look in LOOKS)
    print(f"{'% with their verdict':20}" + "".join(f"   {f'm = {size}':^20}" for size in SIZES))
    print(f"{'after so many pairs':20}" + f"   {looks}" * len(SIZES))
    for name in HELD:
        for effect in EFFECTS:
            cells = [power(NOISES[name], effect, size, reports[size], name) for size in SIZES]
            told = ["".join(f"{100 * share:5.0f}" for share in cell) for cell in cells]
            what = f"{effect:.2f} x" if effect > 1 else f"1/{1 / effect:.2f} x"
            print(f"{f'{what} at {name}':20}" + "".join(f"   {cell}" for cell in told), flush=True)


def read(path: Path) -> dict[str, Noise]:
    """Return the pairs of each script in a file.

    Raises:
        SystemExit: there is no such file, or it holds something else.

    """
    try:
        kinds = json.loads(path.read_text(encoding="utf-8"))["kinds"]
        return {name: real(pairs) for name, pairs in kinds.items() if pairs}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        print(
            f"error: {path}: {problem!r}; collect pairs with benchmarks/aa_pairs.py",
            file=sys.stderr,
        )
        raise SystemExit(2) from None


def main() -> int:
    """Print the tables; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reports", type=int, metavar="N", help="how many, of m = 10")
    parser.add_argument("--pairs", type=Path, metavar="FILE")
    parser.add_argument("--only", choices=("false", "power"))
    given = parser.parse_args()
    if given.pairs:
        noises = read(given.pairs)
        each = (given.reports or DRAWN) // len(noises)
        made = print_false(noises, dict.fromkeys(SIZES, each))
        held = [sum(column, start=Share(0, 0)) for column in zip(*made.values(), strict=True)]
        print_row("all", held)
        return 0 if all(share.is_allowed for share in held) else 1
    reports, held = sizes(given.reports or SIMULATED), []
    if given.only != "power":
        made = print_false(NOISES, reports)
        held = [share for name in HELD for share in made[name]]
    if given.only != "false":
        print_power(reports)
    return 0 if all(share.is_allowed for share in held) else 1


if __name__ == "__main__":
    sys.exit(main())
