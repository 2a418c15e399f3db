"""Makes launches until every row is judged, or the time is over."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.bench.model import Arm, Measured, Pair
from torchlint.errors import TorchlintError
from torchlint.verify import machine, statistics
from torchlint.verify.model import Machine, Speed, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchlint.bench.model import Row
    from torchlint.verify.model import Progress

WORKER = Path(__file__).with_name("worker.py")
VERSIONS = Path(__file__).parents[1] / "verify" / "inject"
SECONDS = 0.4  # in which the arms of a row take turns, in one launch
PATIENCE = 120.0  # seconds without a word from a launch, after which it is ended
VERDICTS = {
    Speed.FASTER: Verdict.FASTER,
    Speed.SLOWER: Verdict.SLOWER,
    Speed.NO_CHANGE: Verdict.NO_CHANGE,
    Speed.NOISY: Verdict.NOISY,
    Speed.OPEN: Verdict.NOT_MEASURED,
}


@dataclass(slots=True)
class Bench:
    """Measures rows with one Python and on one kind of device."""

    python: Path
    device: str
    environment: Mapping[str, str]
    limit: float
    tell: Progress
    fewest: int = statistics.FEWEST
    most: int = statistics.USUAL
    seconds: float = SECONDS
    rng: random.Random = field(default_factory=random.Random)
    machine: Machine | None = None
    launches: int = 0
    interrupted: bool = False

    def probe(self) -> Machine:
        """Return what the figures will come from: the machine, and its torch.

        Raises:
            TorchlintError: this Python has no torch, or the device is not there.

        """
        with tempfile.TemporaryDirectory() as folder:
            for line in self._launched(Path(folder), []):
                self._hear(line)
        if self.machine is None:
            raise TorchlintError(f"{self.python} said nothing of its torch; say --python PATH")
        return self.machine

    def measure(self, rows: Sequence[Row]) -> list[Measured]:
        """Return what was found of each row; Ctrl-C ends it with what is known by then."""
        known = [Measured(row, why=row.unfit) for row in rows]
        started = time.monotonic()
        longest = 0.0
        with (
            contextlib.suppress(KeyboardInterrupt),
            tempfile.TemporaryDirectory(prefix="torchlint-bench-") as folder,
        ):
            self.interrupted = True
            while todo := [one for one in known if one.is_open]:
                begun = time.monotonic()
                if begun - started + longest > self.limit:
                    break
                self._launch(Path(folder), todo, started)
                longest = max(longest, time.monotonic() - begun)
            self.interrupted = False
        for one in known:
            self._judge(one, last=True)
        return known

    def _launch(self, folder: Path, todo: list[Measured], started: float) -> None:
        """Let all open rows take their turns once, each in random order."""
        self.launches += 1
        self.rng.shuffle(todo)
        by_key = {one.row.key: one for one in todo}
        begun = ""
        told: set[str] = set()
        try:
            for line in self._launched(folder, [one.row for one in todo]):
                self._hear(line)
                if key := line.get("begun"):
                    begun = key
                    left = self.limit - (time.monotonic() - started)
                    self.tell(key, self.launches, self.most, max(0.0, left))
                elif key := line.get("row"):
                    told.add(key)
                    self._note(by_key[key], line)
        except TorchlintError as error:
            if not begun or begun in told:
                raise
            by_key[begun].verdict, by_key[begun].why = Verdict.FAILED, str(error)

    def _note(self, one: Measured, line: Mapping[str, Any]) -> None:
        """Keep what a launch says of a row, and judge it."""
        if "error" in line:
            one.verdict, one.why = Verdict.FAILED, line["error"].strip()
            return
        before, after = (Arm(**line[side]) for side in ("before", "after"))
        pair = Pair(before, after, line["difference"], line["equal"], line["allowed"])
        one.pairs.append(pair)
        if not pair.allowed:
            one.verdict = Verdict.CHANGES_RESULTS
            one.why = (
                f"before and after compute what is {pair.difference:.1g} apart, "
                f"more than {one.row.level.name} allows"
            )
            return
        self._judge(one)

    def _judge(self, one: Measured, *, last: bool = False) -> None:
        if not one.pairs or one.is_wrong:
            return
        samples = [pair.sample for pair in one.pairs]
        found = statistics.judge(samples, fewest=self.fewest, most=self.most, last=last)
        one.interval = found.interval
        if one.is_open:
            one.verdict = VERDICTS[found.speed]

    def _hear(self, line: Mapping[str, Any]) -> None:
        if facts := line.get("machine"):
            self.machine = Machine(
                python=facts["python"],
                torch=facts["torch"],
                device=facts["device"],
                cuda=facts["cuda"],
                gpus=facts["gpus"],
                driver=facts["driver"],
                cpu=machine.cpu(),
                cores=os.cpu_count() or 1,
                threads=facts["threads"],
                system=machine.system(),
                load=machine.load(),
                pressure=machine.pressure(),
                libraries=facts["libraries"],
            )

    def _launched(self, folder: Path, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
        """Start a process with the rows, and yield the lines that it says.

        Raises:
            TorchlintError: it failed, or said nothing for too long.

        """
        job = {
            "device": self.device,
            "seed": self.rng.randrange(2**31),
            "seconds": self.seconds,
            "versions": str(VERSIONS),
            "rows": [_written(folder, number, row) for number, row in enumerate(rows)],
        }
        shutil.copy(WORKER, folder / "worker.py")  # beside its programs, away from the package
        process = subprocess.Popen(  # noqa: S603  the user's Python and torchlint's own worker
            (str(self.python), "worker.py"),
            cwd=folder,
            env=dict(self.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        yield from _said(process, json.dumps(job) + "\n", str(self.python))


def _written(folder: Path, number: int, row: Row) -> dict[str, Any]:
    """Write both modules of a row; return its part of the job."""
    names = {side: f"row_{number}_{side}" for side in ("before", "after")}
    for side, text in (("before", row.before), ("after", row.after)):
        (folder / f"{names[side]}.py").write_text(text, encoding="utf-8")
    return {"key": row.key, "level": int(row.level), **names}


def _said(process: subprocess.Popen[str], job: str, python: str) -> Iterator[dict[str, Any]]:
    """Give a process its job, and yield the lines that it says; nothing of it is left.

    Raises:
        TorchlintError: it failed, or said nothing for too long.

    """
    lines: queue.Queue[str | None] = queue.Queue()
    errors: list[str] = []
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    readers = (
        threading.Thread(target=_pump, args=(process.stdout, lines.put), daemon=True),
        threading.Thread(target=_pump, args=(process.stderr, errors.append), daemon=True),
    )
    for reader in readers:
        reader.start()
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(job)
            process.stdin.close()
        while (line := lines.get(timeout=PATIENCE)) is not None:
            yield json.loads(line)
        process.wait(PATIENCE)
    except (queue.Empty, subprocess.TimeoutExpired):
        raise TorchlintError(f"nothing was heard for {PATIENCE:.0f} s") from None
    finally:
        _end(process)
        for reader, stream in zip(readers, (process.stdout, process.stderr), strict=True):
            reader.join(1.0)
            stream.close()
    if process.returncode:
        tail = "".join(filter(None, errors)).strip().splitlines()[-1:] or ["it said nothing"]
        raise TorchlintError(f"{python} ended with {process.returncode}: {tail[0]}")


def _pump(stream: Any, put: Any) -> None:
    for line in stream:
        put(line)
    put(None)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and those that it started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
