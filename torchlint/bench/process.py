"""The server that forks a process for each row, as seen from here."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.errors import TorchlintError
from torchlint.verify import machine
from torchlint.verify.model import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torchlint.bench.model import Row

SOURCES = tuple(Path(__file__).with_name(name) for name in ("server.py", "worker.py"))
VERSIONS = Path(__file__).parents[1] / "verify" / "inject"
START = 120.0  # seconds that importing torch may take
PROBE = 60.0  # seconds that a first context on a GPU may take
GRACE = 5.0  # seconds that the server has for what it does itself
FACTS = frozenset(each.name for each in fields(Machine))
CACHES = {
    "TMPDIR": "caches/tmp",
    "TORCHINDUCTOR_CACHE_DIR": "caches/inductor",
    "TRITON_CACHE_DIR": "caches/triton",  # not beside the programs: it would be a module
}


class Server:
    """One server, its folder, and the jobs that it is given, until it is closed.

    Compilers begin with empty caches, so that the time they take is that of a first run.
    """

    def __init__(
        self, python: Path, environment: Mapping[str, str], *, plain: bool = False
    ) -> None:
        self.python = python
        self._owned = tempfile.TemporaryDirectory(  # goes at the latest with this process
            prefix="torchlint-bench-", ignore_cleanup_errors=True
        )
        self.folder = Path(self._owned.name)
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the server
        self.process: subprocess.Popen[bytes] | None = None
        self.reader = threading.Thread(target=self._pump, daemon=True)
        try:
            self._start(environment, plain=plain)
        except BaseException:  # SIGTERM may come at any moment
            self.close()
            raise

    def _start(self, environment: Mapping[str, str], *, plain: bool) -> None:
        for file in SOURCES:
            shutil.copy(file, self.folder)  # beside its programs, away from the package
        for name in CACHES.values():
            (self.folder / name).mkdir(parents=True)
        caches = {key: str(self.folder / name) for key, name in CACHES.items()}
        self.process = subprocess.Popen(  # noqa: S603  the user's Python and torchlint's own server
            (str(self.python), "server.py", *(("plain",) if plain else ())),
            cwd=self.folder,
            env={**environment, **caches},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )
        self.reader.start()

    def _pump(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def write(self, number: int, row: Row) -> dict[str, Any]:
        """Write both modules of a row; return its part of a job."""
        names = {side: f"row_{number}_{side}" for side in ("before", "after")}
        for side, text in (("before", row.before), ("after", row.after)):
            (self.folder / f"{names[side]}.py").write_text(text, encoding="utf-8")
        return {"key": row.key, "level": int(row.level), "patience": row.patience, **names}

    def ask(self, job: Mapping[str, Any], until: float) -> Iterator[dict[str, Any]]:
        """Yield what the child says of its job; it is stopped at ``until``, by the monotonic clock.

        Raises:
            TorchlintError: the server itself is gone.

        """
        self._send(json.dumps(dict(job)))
        stopped = False
        while True:
            wait = GRACE if stopped else max(0.0, until - time.monotonic())
            try:
                line = self.lines.get(timeout=wait)
            except queue.Empty:
                if stopped:
                    raise TorchlintError(f"{self.python} does not answer") from None
                self._send("stop")
                stopped = True
                continue
            if line is None:
                raise TorchlintError(self._obituary())
            words = json.loads(line)
            yield words
            if "ended" in words:
                return

    def _send(self, line: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def _obituary(self) -> str:
        assert self.process is not None
        status = self.process.wait(GRACE)
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines()
        return f"{self.python} ended with {status}: {said[-1] if said else 'it said nothing'}"

    def close(self) -> None:
        """End the server, its children and its folder."""
        if self.process is not None:
            self._end(self.process)
        self.errors.close()
        self._owned.cleanup()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()  # it then ends all that it started
        try:
            process.wait(1.5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self.reader.ident is not None:
            self.reader.join(1.0)
        assert process.stdout is not None
        process.stdout.close()


def connect(
    start: Callable[..., Server], device: str
) -> tuple[Server, Machine, Callable[..., Server]]:
    """Return a server, the machine it runs on, and how to start another.

    Raises:
        TorchlintError: this Python has no torch, or the device is not there.

    """
    for begin in (start, partial(start, plain=True)):
        server = begin()
        try:
            if (found := _probed(server, device)) is not None:
                return server, found, begin
        except BaseException:
            server.close()
            raise
        server.close()
    raise TorchlintError(f"{server.python}: importing torch uses the GPU, so it cannot be forked")


def _probed(server: Server, device: str) -> Machine | None:
    """Return the machine as a child tells of it; None where the server spoiled it by asking CUDA.

    Raises:
        TorchlintError: torch is not there, or the device.

    """
    said: dict[str, Any] = {}
    job = {"device": device, "patience": PROBE, "versions": str(VERSIONS)}
    for words in server.ask(job, time.monotonic() + START):
        said.update(words)
    if "poisoned" in said:
        return None
    if "error" in said:
        raise TorchlintError(said["error"].strip().splitlines()[-1].partition(": ")[2])
    if "machine" not in said:
        raise TorchlintError(f"{server.python} said nothing of its torch; say --python PATH")
    return Machine(
        cpu=machine.cpu(),
        cores=os.cpu_count() or 1,
        system=machine.system(),
        load=machine.load(),
        pressure=machine.pressure(),
        **{name: value for name, value in said["machine"].items() if name in FACTS},
    )
