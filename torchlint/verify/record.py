"""What goes between the harness and the worker: the plan as a file, the records that come back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.errors import InternalError, UnreadableFileError
from torchlint.verify.model import Read, Record, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchlint.verify.model import Bounds, Phase

VERSION = 1
SHARE = 0.9  # of the time that it is told, the worker goes on
VARIABLE = "TORCHLINT_VERIFY"  # the variable that holds the path of the plan
INJECT = Path(__file__).parent / "inject"  # the folder that goes first in PYTHONPATH


@dataclass(frozen=True, slots=True)
class Turns:
    """Lockstep: ``size`` steps of a turn are timed, after ``warm`` others.

    The worker reads from the FIFO ``go`` and writes to ``done``.  Before it trains it makes the
    file ``held`` and waits for a byte in the FIFO ``hold``: so both arms can start at once.
    """

    size: int
    go: Path
    done: Path
    warm: int = 0
    hold: Path | None = None
    held: Path | None = None


def write_plan(
    path: Path,
    phase: Phase,
    bounds: Bounds,
    *,
    records: Path,
    root: Path,
    original: Path,
    lines: Mapping[str, frozenset[int]] | None = None,
    turns: Turns | None = None,
) -> None:
    """Write what a run's processes are to do; `model.Bounds` and `Turns` say what the parts mean.

    ``records`` is an existing folder, ``root`` the copy that runs, ``original`` the user's project,
    ``lines`` the lines to count, by file below ``root``.
    """
    anchor = bounds.anchor
    plan = {
        "version": VERSION,
        "phase": phase.value,
        "steps": bounds.steps,
        "warmup": bounds.warmup,
        "anchor": {"kind": anchor.kind, "index": anchor.index} if anchor else None,
        "reseed": bounds.reseed,
        "seconds": min(bounds.seconds, bounds.enough / SHARE),
        "records": str(records),
        "root": str(root),
        "original": str(original),
        "lines": {name: sorted(numbers) for name, numbers in (lines or {}).items()},
        "turns": turns
        and {
            "size": turns.size,
            "go": str(turns.go),
            "done": str(turns.done),
            "warm": turns.warm,
            "hold": str(turns.hold or ""),
            "held": str(turns.held or ""),
        },
    }
    path.write_text(json.dumps(plan), encoding="utf-8")


def read_records(folder: Path) -> tuple[Record, ...]:
    """Return the records of a run's processes, ordered by rank.

    Raises UnreadableFileError for a file that is no record, InternalError where a worker says that
    it failed itself.
    """
    for file in sorted(folder.glob("*.error")):
        last = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise InternalError(f"the worker failed: {' '.join(last)}", filename=str(file))
    records = [_record(file) for file in sorted(folder.glob("*.json"))]
    return tuple(sorted(records, key=lambda record: record.rank))


def _record(file: Path) -> Record:
    try:
        return _of_json(json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnreadableFileError(
            file,
            f"is no record of torchlint's worker ({type(error).__name__}: {error})",
            "run verify again; if it happens again, please report it with the file",
        ) from error


def _of_json(told: Mapping[str, Any]) -> Record:
    if told["version"] != VERSION:
        raise ValueError(f"version {told['version']}")
    return Record(
        rank=int(told["rank"]),
        world=int(told["world"]),
        ended=told["ended"],
        device=str(told["device"]),
        torch=str(told["torch"]),
        steps=tuple(_numbers(times) for times in told["steps"]),
        optimizers=tuple(map(str, told["optimizers"])),
        backwards=_numbers(told["backwards"]),
        waits=tuple((float(end), float(length)) for end, length in told["waits"]),
        start=float(told["start"]),
        workers=int(told["workers"]),
        turns=_numbers(told["turns"]),
        reached={
            name: {int(line): int(count) for line, count in counts.items()}
            for name, counts in told["reached"].items()
        },
        modules=tuple(told["modules"]),
        writes=tuple(told["writes"]),
        trace=_trace(told["trace"]),
        python=told["python"],
        cuda=told["cuda"],
        gpus=int(told["gpus"]),
        driver=told["driver"],
        threads=int(told["threads"]),
        libraries=told["libraries"],
        memory={str(kind): int(size) for kind, size in told["memory"].items()},
        busy=told["busy"],
    )


def _trace(told: Mapping[str, Any] | None) -> Trace | None:
    if told is None:
        return None
    return Trace(
        losses=tuple(None if loss is None else float(loss) for loss in told["losses"]),
        batches=tuple(told["batches"]),
        initial=told["initial"],
        parameters=told["parameters"],
        norms=_numbers(told["norms"]),
        random=told["random"],
        reads=tuple(
            Read(read["file"], int(read["line"]), read["call"], int(read["count"]))
            for read in told["reads"]
        ),
    )


def _numbers(values: list[Any]) -> tuple[float, ...]:
    return tuple(map(float, values))
