"""Measure what the fixes are worth in whole scripts, and write it down as evidence.

    python benchmarks/gpu.py                          # the scripts of fixtures/
    python benchmarks/gpu.py --public CHECKOUTS       # and some that nobody here wrote

Each script is verified for a minute (``--budget``): the script as it is against all its fixes
together, then each fix, then the safe ones.  ``evidence/<device>.json`` is written after each run
and each pair of runs, and a later call goes on from there: scripts that were never measured come
first, then those that are partly known; what is done is left out, until the script, what
torchlint makes of it, torch or the GPU changes.

``--time-budget`` is the end of the command, its start included.  On SIGTERM it ends at once; what
is measured is in the file.  Exits with 0 when all is done, 3 when something is left, 1 when a
script could not be run or a fix changes results, 2 for wrong use or without the device.  torchlint
need not be installed: this checkout is used.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

BEGAN = time.monotonic()
ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "rules"), str(Path(__file__).parent)]

import evidence  # noqa: E402  found from here on
from one_script import Work, key_of, now  # noqa: E402
from whole_scripts import Script, scripts  # noqa: E402

from torchlint import __version__  # noqa: E402
from torchlint.errors import TorchlintError  # noqa: E402
from torchlint.verify.command import pairs, seconds  # noqa: E402
from torchlint.verify.executor import ProjectExecutor  # noqa: E402
from torchlint.verify.model import Verdict  # noqa: E402
from torchlint.verify.plan import Fixer, Request, command_of, shown_command  # noqa: E402
from torchlint.verify.process import signals_interrupt  # noqa: E402
from torchlint.verify.report.progress import watching  # noqa: E402
from torchlint.verify.session import Limits, Session  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from torchlint.verify.model import Command, Progress

ALL_DONE, FAILED, WRONG_USE, LEFT = 0, 1, 2, 3
GRACE = 0.25  # of a script's time: what its last run may take beyond it
LAST = 3.0  # seconds before the end of the command in which nothing runs any more
LEAST = 15.0  # seconds with which it is of use to begin a script
PROBE = """
import json, torch
there = torch.cuda.is_available()
name, gpus = (torch.cuda.get_device_name(), torch.cuda.device_count()) if there else (None, 0)
print(json.dumps([torch.__version__, name, gpus]))
"""
ASKED = "name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.mem,clocks.sm"


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line asks for, and the machine it runs on."""

    environment: Mapping[str, str]
    limits: Limits
    mode: str
    torch: str
    device: str
    gpus: int
    gpu: Mapping[str, str] | None
    folder: Path
    end: float  # of the command, by the monotonic clock


def main() -> int:
    """Measure what is left, and return the exit code."""
    with signals_interrupt():
        try:
            options = _options()
            log = Log(options.log)
            wanted, missing = _wanted(options)
            given = _given(options)
            known = _known(options, given.device)
        except (TorchlintError, OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"error: {error}", file=sys.stderr)
            return WRONG_USE
        except KeyboardInterrupt:
            return LEFT
        for problem in missing:
            log.say("left out", why=problem)
        return Measuring(given, log, known).all_of(wanted)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to measure")
    add("--time-budget", type=seconds, metavar="TIME", help="end of the command, such as 9m [none]")
    add("--budget", type=seconds, default="60s", metavar="TIME", help="for each script [60s]")
    add("--scripts", metavar="NAMES", help="only these, separated by commas")
    add("--public", type=Path, metavar="FOLDER", help="checkouts of the public scripts")
    add("--mode", choices=("auto", "lockstep", "sequential"), default="auto")
    add("--pairs", type=pairs, default="3..40", metavar="N|N..M", help="pairs of runs [3..40]")
    add("--steps", type=int, help="optimizer steps of a run [as many as its pilot says]")
    add("--known", type=Path, default=evidence.FOLDER, metavar="FOLDER", help="what to go on from")
    add("--evidence", type=Path, default=evidence.FOLDER, metavar="FOLDER", help="what to write")
    add(
        "--log", type=Path, metavar="FILE", help="append a line of JSON for each thing that happens"
    )
    return parser.parse_args()


def _wanted(options: argparse.Namespace) -> tuple[list[Script], list[str]]:
    """Return the scripts to measure, and what is said of those that are not there."""
    found, missing = scripts(options.public, "cpu" if options.device == "cpu" else "cuda")
    if not options.scripts:
        return list(found.values()), list(missing.values())
    names = options.scripts.split(",")
    if unknown := [name for name in names if name not in found and name not in missing]:
        there = ", ".join((*found, *missing))
        raise ValueError(f"no script is named {', '.join(unknown)}; there are {there}")
    return [found[n] for n in names if n in found], [missing[n] for n in names if n in missing]


def _given(options: argparse.Namespace) -> Given:
    """Look at the machine, and return what is asked of it.

    Raises:
        ValueError: it lacks the device.

    """
    environment = {"PYTHONHASHSEED": "0", **os.environ}
    if options.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    probe = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True
    )
    torch, device, gpus = json.loads(probe.stdout.splitlines()[-1])
    if options.device == "cpu" or (device is None and options.device == "auto"):
        device, gpus = "CPU", 0
    if device is None:
        raise ValueError("torch finds no CUDA device; run it where one is, or try --device cpu")
    return Given(
        environment=environment,
        limits=Limits(options.budget, *options.pairs, options.steps),
        mode=options.mode,
        torch=torch,
        device=device,
        gpus=gpus,
        gpu=_gpu(),
        folder=options.evidence,
        end=BEGAN + (options.time_budget or float("inf")),
    )


def _gpu() -> dict[str, str] | None:
    """Return what NVIDIA's own tool says of the first GPU, where it is there."""
    if (tool := shutil.which("nvidia-smi")) is None:
        return None
    line = [tool, f"--query-gpu={ASKED}", "--format=csv,noheader"]
    told = subprocess.run(line, capture_output=True, text=True, check=False).stdout.splitlines()
    fields = [text.strip() for text in told[0].split(",")] if told else []
    return dict(zip(ASKED.split(","), fields, strict=False))


def _known(options: argparse.Namespace, device: str) -> dict[str, Any]:
    """Return what earlier runs measured; a file that cannot be read costs only itself."""
    known: dict[str, Any] = {"device": device, "scripts": {}}
    for folder in dict.fromkeys((options.known, options.evidence)):
        known = evidence.merged(known, _of_device(folder, device))
    return known


def _of_device(folder: Path, device: str) -> dict[str, Any]:
    try:
        return evidence.of_device(folder, device)[1]
    except evidence.EvidenceError as error:
        print(f"left out: {error}", file=sys.stderr, flush=True)
        return {"device": device, "scripts": {}}


@dataclass(slots=True)
class Log:
    """Tells of what happens: a line of JSON in a file, and a plain one on standard error."""

    file: Path | None
    broken: bool = False

    def say(self, what: str, **facts: Any) -> None:
        """Tell a person and the log."""
        words = [str(facts[name]) for name in ("script", "configuration") if facts.get(name)]
        told = [str(facts[name]) for name in ("why", "text") if facts.get(name)]
        print(": ".join([what, *words, *told]), file=sys.stderr, flush=True)
        self.write(what, **facts)

    def write(self, what: str, **facts: Any) -> None:
        """Append to the log; a full disk costs the line."""
        if self.file is None:
            return
        line = json.dumps({"time": round(time.time(), 3), "what": what, **facts})
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
        except OSError as error:
            if not self.broken:
                print(f"{self.file}: not written ({error.strerror})", file=sys.stderr, flush=True)
            self.broken = True


@dataclass(slots=True)
class Measuring:
    """Measures script after script; what is known is in the file whenever this ends."""

    given: Given
    log: Log
    known: dict[str, Any]
    failed: list[str] = field(default_factory=list)  # what the exit code has to tell
    unwritten: bool = False

    def all_of(self, wanted: Sequence[Script]) -> int:
        """Measure what is not done, and return the exit code."""
        left = []
        for script in sorted(wanted, key=lambda one: _turn(self.known, one.name)):
            if self.given.end - time.monotonic() < LEAST:
                left.append(script.name)
                continue
            try:
                entry = self._measured(script)
            except KeyboardInterrupt:
                self.log.say("stopped", why="what was measured before is in the evidence")
                return LEFT
            if entry["status"] != "done":
                left.append(script.name)
        if left:
            self.log.say("left", why=", ".join(left))
        if self.failed or self.unwritten:
            return FAILED
        return LEFT if left else ALL_DONE

    def _measured(self, script: Script) -> Mapping[str, Any]:
        """Measure a script for its time, and return what is known of it then."""
        began = time.monotonic()
        told = {"key": None, "origin": script.origin or None, "when": now()}
        try:
            with tempfile.TemporaryDirectory(prefix="torchlint-") as place:
                root = Path(place).resolve() / script.name
                root.mkdir()
                request = Request(script.words, script.module, root=root)
                return self._verified(script, command_of(request, script.copy_to(root)), began)
        except (TorchlintError, OSError) as error:
            return self._store_failure(script, told, str(error))
        except Exception as error:  # noqa: BLE001 - a bug costs this script, and not the others
            traceback.print_exc()
            return self._store_failure(script, told, f"a bug of torchlint: {error!r}")

    def _verified(self, script: Script, command: Command, began: float) -> Mapping[str, Any]:
        fixer = _fixer(command, self.given.torch)
        singles = fixer.singles()
        key = key_of(script, singles, self.given.torch, self.given.device)
        earlier = _earlier(self.known, script.name, key)
        if earlier.get("status") == "done":
            return earlier
        told = {
            "key": key,
            "origin": script.origin or None,
            "command": shown_command(command),
            "stand-ins": sorted(script.stand_ins),
        }
        limits, latest = self._time(began)
        try:
            with (
                _alarm(latest) as rang,
                self._telling(script) as tell,
                ProjectExecutor(command, environment=self._environment(command)) as executor,
            ):
                tree = command.root if executor.way == "copy" else None
                session = Session(executor, fixer, limits, tell, mode=self.given.mode, tree=tree)
                work = self._work(script, session, told, earlier)
                try:
                    work.run(singles)
                except KeyboardInterrupt:
                    if work.ready:
                        work.note("script", {})
                    raise
        except TorchlintError as error:
            return self._store_failure(script, {**told, "when": now()}, str(error))
        except KeyboardInterrupt:
            if not rang:
                raise
            if not work.ready:
                return self._hung(script, {**told, "when": now()}, time.monotonic() - began)
            self.log.say("cut off", script=script.name, why="its time was over within a run")
        self._tell_wrong(script, work)
        return work.entry()

    def _hung(self, script: Script, told: Mapping[str, Any], took: float) -> Mapping[str, Any]:
        """Tell of a script whose pilot found no end; it is at fault if it had all its time."""
        why = f"it made no two optimizer steps in {took:.0f} s"
        if took >= self.given.limits.seconds:
            return self._store_failure(script, told, why)
        self.log.say("hung", script=script.name, why=f"{why}: the command had no more time")
        return {"status": "partial"}

    def _time(self, began: float) -> tuple[Limits, float]:
        """Return how much is measured of a script, and when its last run is ended."""
        asked, now_ = self.given.limits, time.monotonic()
        end = min(began + asked.seconds, self.given.end - LAST)
        latest = min(began + (1 + GRACE) * asked.seconds, self.given.end - LAST)
        return Limits(max(end - now_, 1.0), asked.fewest, asked.most, asked.steps), latest - now_

    def _work(
        self, script: Script, session: Session, told: Mapping[str, Any], earlier: Mapping[str, Any]
    ) -> Work:
        driver = (self.given.gpu or {}).get("driver_version") if self.given.gpus else None
        work = Work(session, told, driver, earlier, lambda entry: self._store(script, entry))

        def note(what: str, facts: Mapping[str, Any]) -> None:
            self.log.write(what, script=script.name, **facts)
            if what == "pair" and facts["before"]:
                ratio = f"{facts['before'] / facts['after']:.3f} x"
                self.log.say("pair", script=script.name, text=f"{facts['configuration']}: {ratio}")
            work.note(what, facts)

        session.note = note
        return work

    def _environment(self, command: Command) -> dict[str, str]:
        """Return the script's environment; the programs that stand in for others come first."""
        path = os.pathsep.join((str(command.root / "bin"), self.given.environment.get("PATH", "")))
        return {**self.given.environment, "PATH": path}

    @contextlib.contextmanager
    def _telling(self, script: Script) -> Iterator[Progress]:
        """Tell what runs: on a terminal in a line that is wiped, else in a line each."""
        self.log.say("script", script=script.name, text=" ".join(script.words))
        if sys.stderr.isatty():
            with watching(sys.stderr) as tell:
                yield tell
            return

        def line(what: str, done: int, total: int, left: float | None) -> None:
            ahead = "" if left is None else f", {left:.0f} s left"
            print(f"run {done + 1} of {total}{ahead}: {what}", file=sys.stderr, flush=True)

        yield line

    def _store(self, script: Script, entry: Mapping[str, Any]) -> None:
        """Put an entry into the evidence.

        Where it cannot be written, that is told once, and tried again with the next entry.
        """
        news = {
            "device": self.given.device,
            "schema": evidence.SCHEMA,
            "torchlint": __version__,
            "label": "measured on a CPU: nothing here is evidence for a GPU"
            if self.given.device == "CPU"
            else None,
            "gpu": self.given.gpu if self.given.gpus else None,
            "scripts": {script.name: entry},
        }
        self.known = evidence.merged(self.known, news)
        try:
            evidence.add(self.given.folder, self.given.device, self.known)
            self.unwritten = False
        except OSError as error:
            if not self.unwritten:
                why = f"{error.strerror}; tried again after the next run"
                self.log.say("not written", script=str(self.given.folder), why=why)
            self.unwritten = True

    def _store_failure(self, script: Script, told: Mapping[str, Any], why: str) -> dict[str, Any]:
        entry = {**told, "status": "failed", "error": why}
        self.failed.append(script.name)
        self.log.say("failed", script=script.name, why=why)
        self._store(script, entry)
        return entry

    def _tell_wrong(self, script: Script, work: Work) -> None:
        """Tell of fixes that fail, or change what they may not."""
        for name, row in work.entry()["fixes"].items():
            wrong = row["verdict"] == Verdict.CHANGES_RESULTS.value and not row["results allowed"]
            if wrong or row["verdict"] == Verdict.FAILED.value:
                self.failed.append(f"{script.name}: {name}")
                self.log.say("failed", script=script.name, configuration=name, why=row["why"])


def _fixer(command: Command, torch: str) -> Fixer:
    values = {"torch-version": ".".join(torch.split(".")[:2])}
    return Fixer(
        command, values, None, isolated=True, complain=lambda text: print(text, flush=True)
    )


def _turn(known: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Return when a script's turn is: the unknown first, then what is begun, failed and done."""
    entry = known.get("unfinished", {}).get(name) or known["scripts"].get(name)
    if entry is None:
        return 0, 0
    return ("partial", "failed", "done").index(entry["status"]) + 1, evidence.pairs_of(entry)


def _earlier(known: Mapping[str, Any], name: str, key: str) -> Mapping[str, Any]:
    """Return what earlier runs measured of a script with this key."""
    entries = (known.get(part, {}).get(name, {}) for part in ("scripts", "unfinished"))
    return next((entry for entry in entries if entry.get("key") == key), {})


@contextlib.contextmanager
def _alarm(length: float) -> Iterator[list[bool]]:
    """End after so many seconds what runs in here, as SIGTERM would; tell whether that happened."""
    rang: list[bool] = []

    def ring(_number: int, _frame: FrameType | None) -> None:
        rang.append(True)
        os.kill(os.getpid(), signal.SIGTERM)

    if length == float("inf"):
        yield rang
        return
    old = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(length, 0.1))
    try:
        yield rang
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


if __name__ == "__main__":
    sys.exit(main())
