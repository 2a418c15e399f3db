"""The report for a terminal: the machine, a row a program and size, and what went wrong."""

from __future__ import annotations

import textwrap
from statistics import geometric_mean
from typing import TYPE_CHECKING

from torchlint.bench.model import WORTH_TELLING
from torchlint.report.paint import visible
from torchlint.rule import Level, Needs
from torchlint.verify.model import Verdict
from torchlint.verify.report.grid import Column, draw, fit
from torchlint.verify.report.table import COLORS
from torchlint.verify.report.words import (
    BRIEF,
    CPU_LABEL,
    INTERRUPTED,
    duration,
    load_words,
    machine_facts,
    memory,
    number,
    seconds,
    speedup,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchlint.bench.model import Arm, BenchReport, Measured
    from torchlint.report.paint import Line

NARROWEST = 40
ADVICE = "advice"


def lines(report: BenchReport, width: int) -> Iterator[Line]:
    """Yield the report in lines of at most ``width`` columns, where its words allow it."""
    width = max(NARROWEST, width)
    run = [one for one in report.rows if not one.row.unfit]
    yield [
        ("      on  ", "dim"),
        ("; ".join((report.machine.device, *machine_facts(report.machine))), ""),
    ]
    yield [("          ", ""), (load_words(report.machine), "")]
    if report.machine.is_cpu:
        yield [("          ", ""), (CPU_LABEL, "bold yellow")]
    yield [("measured  ", "dim"), (method_words(report), "")]
    if report.interrupted:
        yield [("          ", ""), (INTERRUPTED, "bold yellow")]
    if run:
        yield []
        yield from draw(fit(columns(run), width))
    for one in run:
        if one.is_wrong:
            yield []
            yield [(one.row.key, "bold"), (": ", ""), (one.verdict.value, "bold red")]
            yield from (
                [("  | ", "bright_blue"), (visible(part), "")] for part in one.why.split("\n")
            )
    if left := left_out(report):
        yield []
        for text in left:
            yield from ([(part, "")] for part in textwrap.wrap(text, width))


def left_out(report: BenchReport) -> list[str]:
    """Say which rules cannot act on this device."""
    lacking: dict[str, dict[str, None]] = {}
    for one in report.rows:
        if one.row.unfit:
            what = "several GPUs" if one.row.needs is Needs.GPUS else "a GPU"
            lacking.setdefault(what, {})[one.row.code] = None
    return [
        f"left out, since they need {what}: {', '.join(codes)}" for what, codes in lacking.items()
    ]


def method_words(report: BenchReport) -> str:
    """Return how it was measured, in one line."""
    return (
        f"both arms in turns, {report.launches} launches; {report.confidence:.0%} intervals; "
        f"took {duration(report.seconds)}"
    )


def columns(run: Sequence[Measured]) -> list[Column]:
    """Return all columns, from the one that says what to the one that says how it is."""
    return [
        Column(
            "rule",
            tuple((f"{one.row.code} {one.row.name}", "") for one in run),
            align="<",
            brief=tuple(one.row.code for one in run),
        ),
        Column("size", tuple((one.row.size, "") for one in run), 3, align="<"),
        Column("step", tuple((one.row.step, "") for one in run), 1, align="<"),
        Column("before", tuple((_time(one, "before"), "") for one in run), 5),
        Column("after", tuple((_time(one, "after"), "") for one in run), 5),
        Column("speed-up", tuple((ratio(one), "") for one in run), align="<",
               brief=tuple(ratio(one).partition(" ")[0] for one in run)),
        Column("CPU\ntime", tuple((_cpu(one), "") for one in run), 4),
        Column("memory", tuple((_memory(one), "") for one in run), 4),
        Column("waits", tuple((_waits(one), "") for one in run), 4),
        Column("set-up", tuple((_setup(one), "") for one in run), 4),
        Column("pays\nafter", tuple((_break_even(one), "") for one in run), 4),
        Column("bound by", tuple((one.regime or "", "") for one in run), 6, align="<"),
        Column("results", tuple((results(one), "") for one in run), 2, align="<"),
        Column("verdict", tuple((verdict(one), COLORS[one.verdict]) for one in run), align="<",
               brief=tuple(BRIEF.get(one.verdict, verdict(one)) for one in run)),
    ]  # fmt: skip


def verdict(one: Measured) -> str:
    """Return the verdict in words."""
    return verdict_words(one.verdict)


def verdict_words(found: Verdict) -> str:
    """Return a verdict in words: what is slower is so on this machine."""
    return "slower here" if found is Verdict.SLOWER else found.value


def ratio(one: Measured) -> str:
    """Return the speed-up with its interval; nothing where it is not known."""
    if one.interval is None or one.is_wrong:
        return ""
    middle, between = speedup(one.interval)
    return f"{middle:<6} {between}"


def results(one: Measured) -> str:
    """Return how near the results of both arms were; and of `before` to itself, if not equal."""
    check = one.check
    if check is None:
        return ""
    if check.equal:
        return "bitwise"
    if one.row.level is Level.E3 or check.difference is None:
        return one.row.level.name
    own = f", before itself {check.itself:.0e}" if check.itself else ""
    return f"{one.row.level.name}, {check.difference:.0e} apart{own}"


def _setup(one: Measured) -> str:
    if one.setup is None or abs(one.setup[1] - one.setup[0]) < WORTH_TELLING:
        return ""
    return " > ".join(seconds(each) for each in one.setup)


def _break_even(one: Measured) -> str:
    return "" if one.break_even is None else f"{max(1, round(one.break_even)):,} steps"


def _time(one: Measured, side: str) -> str:
    if not one.pairs:
        return ""
    return seconds(geometric_mean(getattr(sample, side) for sample in one.samples))


def _cpu(one: Measured) -> str:
    values = [pair.before.cpu / pair.after.cpu for pair in one.pairs if pair.after.cpu]
    return f"{number(geometric_mean(values))}x" if values else ""


def _memory(one: Measured) -> str:
    return _both(one, lambda arm: arm.memory, memory)


def _waits(one: Measured) -> str:
    return _both(one, lambda arm: arm.syncs, lambda value: f"{value:.3g}")


def _both(
    one: Measured, figure: Callable[[Arm], float | None], words: Callable[[float], str]
) -> str:
    if one.first is None:
        return ""
    first, second = figure(one.first.before), figure(one.first.after)
    if first is None or second is None:
        return ""
    return f"{words(first)} > {words(second)}"
