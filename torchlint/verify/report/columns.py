"""The measured columns that every table for people has; each leaves out those that are empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.verify.report.words import memory, number, percent, spread, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchlint.verify.model import Report
    from torchlint.verify.report.figures import Figures
    from torchlint.verify.report.rows import Row


@dataclass(frozen=True, slots=True)
class Measured:
    """One column: a word for it, its header, and a cell for each row, empty where unknown."""

    key: str
    header: str
    cells: tuple[str, ...]


def measured(rows: Sequence[Row], report: Report) -> list[Measured]:
    """Return step time, wait for data, use of the device, memory, and reads that wait for it."""
    unit, size = unit_of([row.figures.seconds for row in rows if row.figures.seconds])
    memory_of = "GPU" if any(row.figures.on_device for row in rows) else "peak"
    reads = "reads" if report.machine.is_cpu else "syncs"

    def column(key: str, header: str, cell: Callable[[Figures], str]) -> Measured:
        return Measured(key, header, tuple(cell(row.figures) for row in rows))

    return [
        column("step", f"{unit} a step", lambda own: _step(own, size)),
        column("wait", "data wait", lambda own: "" if own.wait is None else percent(own.wait)),
        column("busy", "GPU busy", lambda own: "" if own.busy is None else percent(own.busy)),
        column(
            "memory",
            f"{memory_of} memory",
            lambda own: "" if own.memory is None else memory(own.memory),
        ),
        column(
            "reads",
            f"{reads} a step",
            lambda own: "" if own.reads is None else number(own.reads, 2),
        ),
    ]


def _step(own: Figures, size: float) -> str:
    if own.step is not None:
        return " ".join(spread(own.step, size)).strip()
    return "" if own.seconds is None else number(own.seconds / size)
