"""Runs the parts one after the other, each within its time."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lease_parts.follow import Follower, Told
from lease_parts.plan import AGAIN, LATEST, ROOT, shares
from lease_parts.process import Process, pause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lease_parts.out import Out
    from lease_parts.plan import Job, Part

DONE, FAILED, USE, LEFT = 0, 1, 2, 3
PRETENCE = "LEASE_PRETENCE"  # folders of the pretended GPU, in a rehearsal
STOPPED = -1000  # the watchdog or a signal ended it
TICK = 10.0  # seconds between two lines on the terminal
SHOWN = 120  # characters of what runs
NOTED = ("error: ", "another process uses", "the evidence is not", "the log is not")
NOTES = {
    DONE: "done",
    FAILED: "something failed",
    USE: "wrong use, or no device",
    LEFT: "some left",
}


@dataclass(slots=True)
class Lease:
    """A run: its files, its end, and what came of each command so far."""

    out: Out
    caches: Path
    ends: float  # by time.monotonic
    environment: Mapping[str, str]
    unpretended: Mapping[str, str]
    codes: dict[str, int] = field(default_factory=dict)
    told: dict[str, Told] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    running: dict[str, Told] = field(default_factory=dict)
    ended: str = ""  # the signal that asked for the end
    ticked: float = 0.0

    def run(self, parts: Sequence[Part], seconds: float) -> None:
        """Run all parts; one that has no time left is left out."""
        shared = shares([part.name for part in parts], seconds)
        limit = self.ends - sum(shared.values())
        self._note_signals()
        for part in parts:
            limit += shared[part.name]
            self.out.part = part.name
            self._part(part, limit)
            if part.name == "probe" and self.codes["probe"] == USE:
                return

    def _part(self, part: Part, limit: float) -> None:
        """Run the commands of a part, so many at once; those that wait share the time."""
        waiting = [job for job in part.jobs if self.codes.get(job.name) != DONE]

        def work() -> None:
            while waiting:
                turns = math.ceil(len(waiting) / part.at_once)
                job, left = waiting.pop(0), limit - time.monotonic()
                self.codes.setdefault(job.name, LEFT)
                if self.ended or left < part.least:
                    self._note(f"{self._title(job)}: not begun, {self.ended or 'no time was left'}")
                    continue
                self._job(job, time.monotonic() + left / turns, part.least)

        workers = [threading.Thread(target=work, daemon=True) for _ in range(part.at_once)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            self._tick(limit)
            pause()

    def result(self) -> int:
        """Return the exit code of the run."""
        if self.codes.get("probe") == USE:
            return USE
        return LEFT if any(self.codes.values()) or self.ended else DONE

    def _job(self, job: Job, limit: float, least: float) -> None:
        """Run a command; one that goes on behind a crash, again until it is done."""
        told = self.told.setdefault(job.name, Told())
        since, worst, goes_on = time.time(), DONE, True
        while goes_on:
            code, has_died = self._once(job, limit, told, since)
            worst = worst if code == DONE else code
            time_is_left = time.monotonic() + least < limit and not self.ended
            goes_on = job.again and has_died and time_is_left
        self.codes[job.name] = worst

    def _once(self, job: Job, limit: float, told: Told, since: float) -> tuple[int, bool]:
        """Return the exit code, and whether a test ended its process."""
        began = time.monotonic()
        follower = Follower(self.out.folder / (job.log or "none"), job.name, told, self.out)
        told.now = "starts"
        self.running[job.name] = told
        try:
            process = Process(
                self._words(job, limit), self._environment(job, since), ROOT, self._hear(job, told)
            )
        except OSError as error:
            self._note(f"{job.name}: cannot be started: {error}")
            return LEFT, False
        while (code := process.code()) is None and not self.ended and time.monotonic() < limit:
            follower.read()
            pause()
        if code is None:
            process.stop()
            code = STOPPED
            how = self.ended or "its time was over"
        else:
            how = NOTES.get(code) or _how(code)
            if outlived := process.clear():
                how += f"; {outlived} processes outlived it and were ended"
        follower.read()
        del self.running[job.name]
        has_died = follower.died(how if code not in NOTES else "it hung, or ended its process")
        self._note(f"{self._title(job)}: {how}, after {time.monotonic() - began:.0f} s")
        return code, has_died

    def _words(self, job: Job, limit: float) -> list[str]:
        seconds = limit - time.monotonic()
        values = {
            "{budget}": f"{max(seconds - LATEST, seconds / 2):.0f}",
            "{patience}": f"{max(30, min(90, 0.6 * seconds)):.0f}",
        }
        words = list(job.words)
        for name, text in values.items():
            words = [word.replace(name, text) for word in words]
        return words

    def _environment(self, job: Job, since: float) -> dict[str, str]:
        threads = str(job.threads)
        return {
            **(self.environment if job.pretends else self.unpretended),
            **({"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads} if job.threads else {}),
            "LEASE_JOB": job.name,
            "LEASE_TESTS": str(self.out.folder / "tests.jsonl"),
            "LEASE_SINCE": f"{since:.3f}",
        }

    def _hear(self, job: Job, told: Told) -> Callable[[str], None]:
        def heard(text: str) -> None:
            if not text.strip():
                return
            if text.startswith(NOTED) and text not in self.notes:
                self._note(text)
            else:
                self.out.log(text, job.name)
            if not job.log:
                told.now = text.strip()

        return heard

    def _tick(self, limit: float) -> None:
        """Say every ten seconds what runs and how long it may."""
        now = time.monotonic()
        if now - self.ticked >= TICK and (running := list(self.running.items())):
            self.ticked = now
            most = SHOWN // len(running)
            what = "; ".join(f"{name}: {told.now[:most]}" for name, told in running)
            self.out.say(f"{what} ({limit - now:.0f} s left, {self.ends - now:.0f} s in all)")

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.out.say(text)

    def _title(self, job: Job) -> str:
        return f"{job.name} again" if self.out.part == AGAIN else job.name

    def _note_signals(self) -> None:
        def asked(number: int, _frame: object) -> None:
            self.ended = f"the run was ended by {signal.Signals(number).name}"

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, asked)


def _how(code: int) -> str:
    if code < 0:
        return f"it died of {signal.Signals(-code).name}"
    return f"it ended with exit code {code}"


def children_environment(caches: Path) -> dict[str, str]:
    """Return the environment of the commands."""
    here = Path(__file__).parent
    folders = [ROOT, ROOT / "rules", ROOT / "carry" / "packages", here / "plugin"]
    path = [*(str(one) for one in folders if one.is_dir()), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # so that the watchdog gets the stacks of any process
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TMPDIR": str(caches),
    }


def unpretended(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the pretended GPU of a rehearsal."""
    pretence = environment.get(PRETENCE, "").split(os.pathsep)
    path = environment["PYTHONPATH"].split(os.pathsep)
    kept = os.pathsep.join(one for one in path if one not in pretence)
    return {**environment, "PYTHONPATH": kept}


def watch_gpu(out: Out, environment: Mapping[str, str]) -> Process | None:
    """Let the sampler write to gpu.csv once a second."""
    words = [sys.executable, str(Path(__file__).with_name("sampler.py"))]
    try:
        return Process(
            [*words, str(out.folder / "gpu.csv")],
            environment,
            ROOT,
            partial(out.log, command="sampler"),
        )
    except OSError as error:
        out.say(f"gpu.csv is not written: {error}")
        return None
