"""Numbers as people read them: times, shares, memory, speed-ups; names of rules and results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torchlint.errors import UsageError
from torchlint.registry import find
from torchlint.report.model import count
from torchlint.verify.model import Same, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchlint.verify.model import Interval, Machine, Report

CPU_LABEL = "measured on a CPU: says nothing of a GPU"
INTERRUPTED = "interrupted: this is what was known by then"
UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
NEAR = 0.05  # an end of an interval that is so near to 1 would be rounded to it
RESULTS = {
    Same.BITWISE: "results bitwise equal",
    Same.TOLERANCE: "results equal within rounding",
    Same.RANDOM_STREAM: "random stream changed",
    Same.SEED_SPREAD: "results within the spread of seeds",
    Same.DIVERGED: "results diverged",
}
SHORT = {
    Same.BITWISE: "bitwise",
    Same.TOLERANCE: "tolerance",
    Same.RANDOM_STREAM: "random stream",
    Same.SEED_SPREAD: "seed spread",
    Same.DIVERGED: "diverged",
}
BRIEF = {
    Verdict.NO_CHANGE: "no change",
    Verdict.CHANGES_RESULTS: "changes results",
    Verdict.NOT_EXERCISED: "not exercised",
    Verdict.NOISY: "too noisy",
}


def rule_name(code: str) -> str:
    """Return the name of a rule or of the rule of a sub-case; nothing where it is unknown."""
    try:
        return find(code).name
    except UsageError:
        return ""


def kebab(name: str) -> str:
    """Return a member's name as machines and style sheets have it: ``no-change``."""
    return name.lower().replace("_", "-")


def unit_of(seconds: Iterable[float]) -> tuple[str, float]:
    """Return the unit in which all of these times are readable, with its seconds."""
    least = min((value for value in seconds if value > 0), default=1.0)
    return next((unit for unit in UNITS if least >= unit[1]), UNITS[-1])


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many digits that count, and all those before the point."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"


def seconds(value: float) -> str:
    """Return a short time: ``28.4 ms``."""
    unit, size = unit_of([value])
    return f"{number(value / size)} {unit}"


def spread(interval: Interval, size: float) -> tuple[str, str]:
    """Return a time and the half of its interval, both in units of ``size`` seconds.

    Both have the digits that the half calls for: one of its own, two where the first is a 1.
    """
    half = max(interval.high - interval.middle, interval.middle - interval.low) / size
    if half >= interval.middle / size:
        return f"~{number(interval.middle / size, 1)}", ""  # hardly known
    if half <= 0 or not math.isfinite(half):
        return number(interval.middle / size), ""
    power = math.floor(math.log10(half))
    places = min(3, max(0, (half < 2 * 10**power) - power))
    return f"{interval.middle / size:.{places}f}", f"±{half:.{places}f}"


def speedup(interval: Interval) -> tuple[str, str]:
    """Return a ratio of times and its interval: ``1.45x`` and ``1.41-1.49``.

    They have the places that the width of the interval calls for, and enough to tell its ends
    from 1.
    """
    width = (interval.high - interval.low) / 3
    least = 0 if interval.low >= 10 else 1
    if any(abs(end - 1) < NEAR for end in (interval.low, interval.high)):
        least = 2
    places = 3 if width <= 0 else min(3, max(least, math.ceil(-math.log10(width))))
    low, middle, high = (
        f"{value:.{places}f}" for value in (interval.low, interval.middle, interval.high)
    )
    return f"{middle}x", f"{low}-{high}"


def change(share: float) -> str:
    """Return a change of the speed in words: ``4 %``, ``5.5 %``."""
    return f"{float(f'{100 * share:.2g}'):g} %"


def listing(names: Sequence[str]) -> str:
    """Return names as a sentence has them: ``TL1, TL2 and TL3``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def percent(share: float) -> str:
    """Return a share: ``12%``, ``0.4%``."""
    value = share * 100
    return f"{value:.1f}%" if 0 < value < 0.95 else f"{value:.0f}%"


def memory(size: float) -> str:
    """Return an amount of memory in powers of ten: ``1.24 GB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{number(size / scale)} {unit}"
    return f"{size:.0f} B"


def duration(value: float) -> str:
    """Return a long time: ``42 s``, ``4 min 12 s``, ``1 h 5 min``."""
    whole = max(0, round(value))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def machine_facts(machine: Machine) -> list[str]:
    """Return the machine and its software, most telling first."""
    cuda = f"CUDA {machine.cuda}" if machine.cuda else ""
    driver = f"driver {machine.driver}" if machine.driver else ""
    facts = [
        f"{machine.cpu}, {count(machine.cores, 'core')}, {count(machine.threads, 'thread')}",
        f"torch {machine.torch}",
        cuda,
        driver,
        f"Python {machine.python}",
        machine.system,
    ]
    return [fact for fact in facts if fact]


def load_words(machine: Machine) -> str:
    """Return how busy the machine was."""
    loads = " ".join(f"{value:.2f}" for value in machine.load)
    if machine.pressure is None:
        return f"load {loads}"
    return f"load {loads}, {percent(machine.pressure)} of the time some process waited for a CPU"


def method_words(report: Report) -> str:
    """Return how it was measured, in one line."""
    order = "in lockstep" if report.mode == "lockstep" else "in random order"
    return (
        f"step times of pairs of runs, {order}; {report.bounds.steps} steps a run, the first "
        f"{report.bounds.warmup} not timed; {100 * report.confidence:g} % intervals, all "
        f"comparisons of this report together; took {duration(report.seconds)}"
    )
