"""The columns of the table that every format for people has, without those that are empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.verify.report.words import memory, number, percent, speedup, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchlint.verify.model import Report
    from torchlint.verify.report.figures import Figures
    from torchlint.verify.report.rows import Row

WORDS = frozenset({"name", "ratio", "results", "verdict"})  # what is read, rather than compared


@dataclass(frozen=True, slots=True)
class Column:
    """One column: a word for it, its header, and a cell for each row, empty where unknown."""

    key: str
    header: str
    cells: tuple[str, ...]

    @property
    def is_number(self) -> bool:
        """Whether it is set to the right."""
        return self.key not in WORDS


def columns(rows: Sequence[Row], report: Report) -> list[Column]:
    """Return what a row is, its step times and speed-up, what its runs took, and its verdict."""
    unit, size = unit_of(time for row in rows for time in row.times or ())
    memory_of = "GPU" if any(row.figures.on_device for row in rows) else "peak"
    reads = "reads" if report.machine.is_cpu else "syncs"

    def column(key: str, header: str, cell: Callable[[Row], str]) -> Column:
        return Column(key, header, tuple(map(cell, rows)))

    def measured(key: str, header: str, cell: Callable[[Figures], str]) -> Column:
        return column(key, header, lambda row: cell(row.figures))

    found = [
        column("name", "configuration", lambda row: row.name),
        column("before", f"before ({unit})", lambda row: _time(row, 0, size)),
        column("after", f"after ({unit})", lambda row: _time(row, 1, size)),
        column("ratio", f"speed-up ({report.confidence:.0%})", _ratio),
        measured("wait", "data wait", lambda own: _known(own.wait, percent)),
        measured("busy", "GPU busy", lambda own: _known(own.busy, percent)),
        measured("memory", f"{memory_of} memory", lambda own: _known(own.memory, memory)),
        measured("reads", f"{reads} a step", lambda own: _known(own.reads, _two_digits)),
        column("results", "results", _results),
        column("verdict", "verdict", lambda row: row.verdict),
    ]
    return [each for each in found if any(each.cells)]


def _known(value: float | None, words: Callable[[float], str]) -> str:
    return "" if value is None else words(value)


def _two_digits(value: float) -> str:
    return number(value, 2)


def _time(row: Row, arm: int, size: float) -> str:
    return number(row.times[arm] / size) if row.times else ""


def _ratio(row: Row) -> str:
    return "{} ({})".format(*speedup(row.ratio)) if row.ratio else ""


def _results(row: Row) -> str:
    """Return how near the results are; those of the script before are compared with nothing."""
    agreement = row.result.agreement
    return agreement.same.words if agreement and row.role != "before" else ""
