"""Measure what the fixes are worth in whole scripts, on a GPU, and write it down as evidence.

    python benchmarks/gpu.py --resume                          # the scripts of fixtures/
    python benchmarks/gpu.py --resume --public CHECKOUTS       # and some that nobody here wrote

For each script every fix is traced alone (does it run, compute the same, wait less?), then the
script as it is, with all fixes that are safe, and with all that proved to compute what they may are
timed against each other, as `torchlint verify` does it; with ``--each`` also every fix alone.
``evidence/<device>.json`` is written anew after each script.  With ``--resume`` a script that is in
it is left out, unless it, torchlint or its arguments have changed.  ``--slice`` ends before a time
is over: no script is begun that may not be done by then.

Exits with 0 when all are measured, 3 when some are left, 1 if one could not be run, 2 for wrong
use.  torchlint need not be installed: this checkout is used.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "rules"), str(Path(__file__).parent)]

from evidence import of_device, write  # noqa: E402  found from here on
from whole_scripts import Script, scripts  # noqa: E402

from torchlint import __version__  # noqa: E402
from torchlint.edits import Safety  # noqa: E402
from torchlint.errors import TorchlintError  # noqa: E402
from torchlint.verify.command import pairs, seconds  # noqa: E402
from torchlint.verify.executor import ProjectExecutor  # noqa: E402
from torchlint.verify.machine import describe  # noqa: E402
from torchlint.verify.model import Speed  # noqa: E402
from torchlint.verify.plan import Fixer, Request, command_of, shown_command  # noqa: E402
from torchlint.verify.report.figures import Figures, figures  # noqa: E402
from torchlint.verify.report.progress import watching  # noqa: E402
from torchlint.verify.session import Limits, Session  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchlint.verify.model import Result
    from torchlint.verify.session import Known

ALL_DONE, FAILED, WRONG_USE, LEFT = 0, 1, 2, 3
MARGIN = 45.0  # seconds that a script may take beyond its budget: the last run, and its start
PROBE = """
import json, torch
there = torch.cuda.is_available()
print(json.dumps([torch.__version__, torch.cuda.get_device_name() if there else None]))
"""
ASKED = "name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.mem,clocks.sm"
SHOWN_READS = 10


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line asks for."""

    environment: dict[str, str]
    limits: Limits
    torch: str
    mode: str
    each: bool


def main() -> int:
    """Measure what is left, and return the exit code."""
    environment = dict(os.environ)
    try:
        options = _options()
        if options.device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        wanted = _wanted(options)
        torch, device = _probe(environment)
    except (TorchlintError, OSError, ValueError, subprocess.SubprocessError) as error:
        return _wrong(str(error))
    if options.device == "cpu":
        device = "CPU"
    if device is None:
        return _wrong("torch finds no CUDA device; run it where one is, or try --device cpu")
    limits = Limits(options.budget, *options.pairs, options.steps)
    given = Given(environment, limits, torch, options.mode, options.each)
    path, known = of_device(options.evidence, device)
    evidence = _evidence(known, device)
    if not options.resume:
        for script in wanted:
            evidence["scripts"].pop(script.name, None)
    return _measure(wanted, given, evidence, path, options.slice)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--resume", action="store_true", help="leave out what the evidence has already")
    add("--slice", type=seconds, metavar="TIME", help="begin nothing that ends later, such as 9m")
    add("--budget", type=seconds, default="150s", metavar="TIME", help="for each script [150s]")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="where to measure [cuda]")
    add("--scripts", metavar="NAMES", help="only these, separated by commas")
    add("--public", type=Path, metavar="FOLDER", help="checkouts of the public scripts")
    add("--each", action="store_true", help="time every fix alone, too")
    add("--mode", choices=("auto", "lockstep", "sequential"), default="auto")
    add("--pairs", type=pairs, default="3..40", metavar="N|N..M", help="pairs of runs [3..40]")
    add("--steps", type=int, help="optimizer steps of a run [as many as its pilot says]")
    add("--evidence", type=Path, default=Path(__file__).parent / "evidence", metavar="FOLDER")
    return parser.parse_args()


def _wanted(options: argparse.Namespace) -> list[Script]:
    found = {script.name: script for script in scripts(options.public, options.device)}
    names = options.scripts.split(",") if options.scripts else list(found)
    if unknown := [name for name in names if name not in found]:
        raise ValueError(f"no script is named {', '.join(unknown)}; there are {', '.join(found)}")
    return [found[name] for name in names]


def _probe(environment: dict[str, str]) -> tuple[str, str | None]:
    """Return the version of torch, and the name of its GPU."""
    told = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True
    )
    torch, device = json.loads(told.stdout.splitlines()[-1])
    return torch, device


def _wrong(problem: str) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return WRONG_USE


def _evidence(known: Mapping[str, Any], device: str) -> dict[str, Any]:
    label = "measured on a CPU: nothing here is evidence for a GPU" if device == "CPU" else None
    return {
        **known,
        "schema": 1,
        "torchlint": __version__,
        "label": label,
        "gpu": _gpu(),
    }


def _gpu() -> dict[str, str] | None:
    """Return what NVIDIA's own tool says of the first GPU, where it is there."""
    if (tool := shutil.which("nvidia-smi")) is None:
        return None
    line = [tool, f"--query-gpu={ASKED}", "--format=csv,noheader"]
    told = subprocess.run(line, capture_output=True, text=True, check=False).stdout.splitlines()
    fields = [text.strip() for text in told[0].split(",")] if told else []
    return dict(zip(ASKED.split(","), fields, strict=False))


def _measure(
    wanted: Sequence[Script],
    given: Given,
    evidence: dict[str, Any],
    path: Path,
    length: float | None,
) -> int:
    """Measure script after script; the evidence is whole whenever this ends."""
    done, failed, latest = evidence["scripts"], False, time.monotonic() + (length or float("inf"))
    for place, script in enumerate(wanted):
        key = _key(script, given)
        if done.get(script.name, {}).get("key") == key:
            continue
        if time.monotonic() + given.limits.seconds + MARGIN > latest:
            print(f"{len(wanted) - place} scripts are looked at in the next slice: --resume")
            return LEFT
        print(f"{script.name}: {' '.join(script.words)}", flush=True)
        entry = measured(script, given)
        failed |= "error" in entry
        done[script.name] = {"key": key, **entry}
        write(path, evidence)
        _tell(entry)
    print(f"all {len(wanted)} scripts are in {path}")
    return FAILED if failed else ALL_DONE


def _key(script: Script, given: Given) -> str:
    """Return a hash of all that a result depends on, but the machine."""
    files = [*(ROOT / "torchlint").rglob("*.py"), *(ROOT / "rules").rglob("*.py"), *script.files]
    text = hashlib.sha256(
        repr(
            (script.words, script.origin, given.limits, given.mode, given.each, given.torch)
        ).encode()
    )
    for file in sorted(files):
        text.update(file.read_bytes())
    return text.hexdigest()[:16]


def measured(script: Script, given: Given) -> dict[str, Any]:
    """Return what is to be said of a script, be it that it does not run."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve() / script.name
        root.mkdir()
        request = Request(script.words, script.module, root=root)
        command = command_of(request, script.copy_to(root))
        values = {"torch-version": ".".join(given.torch.split(".")[:2])}
        fixer = Fixer(command, values, None, isolated=True, complain=print)
        try:
            with (
                watching(sys.stderr) as tell,
                ProjectExecutor(command, environment=given.environment) as executor,
            ):
                tree = command.root if executor.way == "copy" else None
                session = Session(executor, fixer, given.limits, tell, mode=given.mode, tree=tree)
                content = _content(session, each=given.each)
        except TorchlintError as error:
            content = {"error": str(error)}
    return {
        "origin": script.origin or None,
        "command": shown_command(command),
        "when": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began, 1),
        **content,
    }


def _content(session: Session, *, each: bool) -> dict[str, Any]:
    singles = session.begin(session.fixer.singles())
    known = [session.with_codes(one.codes) for one in singles]
    for one in known:
        session.trace(one)
    proven = [one for one in known if session.may_be_timed(one)]
    safe = [one for one in proven if one.configuration.safety is Safety.SAFE]
    groups = {
        "safe fixes": _together(session, safe, "safe fixes"),
        "all proven fixes": _together(session, proven, "all proven fixes"),
    }
    compared = {id(one): one for one in groups.values() if one and session.may_be_timed(one)}
    session.time([session.compare(session.before, one) for one in compared.values()])
    if each:
        session.time([session.compare(session.before, one) for one in proven])
    rows = {"before": session.before, **groups}
    return {
        "machine": asdict(describe(session.how.pilot)),
        "mode": session.how.turns.mode,
        "why this mode": session.how.turns.why,
        "steps": session.how.bounds.steps,
        "warmup": session.how.bounds.warmup,
        "rows": {name: _row(session, one) for name, one in rows.items() if one},
        "fixes": {one.configuration.name: _row(session, one) for one in known},
    }


def _together(session: Session, chosen: Sequence[Known], name: str) -> Known | None:
    """Return the configuration with all of these fixes, traced."""
    codes = tuple(code for one in chosen for code in one.configuration.codes)
    if not codes:
        return None
    together = session.with_codes(codes, name)
    session.trace(together)
    return together


def _row(session: Session, known: Known) -> dict[str, Any]:
    result = session.result(known)
    numbers = figures(result, session.how.bounds)
    judged, agreement = result.judgement, result.agreement
    settled = None if judged is None or judged.speed is Speed.OPEN else judged
    return {
        "codes": list(known.configuration.codes),
        "verdict": result.verdict.value if known.configuration.codes else None,
        "why": result.why if known.configuration.codes else None,
        "step seconds": numbers.seconds,
        "step interval": asdict(numbers.step) if numbers.step else None,
        "speed-up": asdict(settled.interval) if settled and settled.interval else None,
        "detectable change": judged.seen if judged else None,
        "samples": [asdict(sample) for sample in judged.samples] if judged else [],
        **_device(result, numbers),
        "reads a step": numbers.reads,
        "reads": _reads(result),
        "results": agreement.same.words if agreement else None,
        "results allowed": agreement.allowed if agreement else None,
        "largest difference": _finite(agreement.difference) if agreement else None,
    }


def _device(result: Result, numbers: Figures) -> dict[str, Any]:
    """Return what is known of the device's memory and work, None on a CPU."""
    peaks = [record.memory for run in result.runs for record in run.records]
    reserved = [memory["reserved"] for memory in peaks if "reserved" in memory]
    return {
        "busy": numbers.busy,
        "allocated": numbers.memory if numbers.on_device else None,
        "reserved": max(reserved, default=None),
    }


def _reads(result: Result) -> list[dict[str, Any]]:
    """Return the reads of the last trace that come most often, with their lines."""
    traces = [record.trace for run in result.runs for record in run.records if record.trace]
    found: Iterable[Any] = traces[-1].reads if traces else ()
    often = sorted(found, key=lambda read: -read.count)[:SHOWN_READS]
    return [asdict(read) for read in often]


def _finite(number: float) -> float | str:
    return number if abs(number) < float("inf") else str(number)


def _tell(entry: dict[str, Any]) -> None:
    """Print a line for each row of a script."""
    if "error" in entry:
        print(f"  {entry['error']}")
    for name, row in entry.get("rows", {}).items():
        step = f"{1e3 * row['step seconds']:.3f} ms" if row["step seconds"] else "not timed"
        ratio = f", x{row['speed-up']['middle']:.3f}" if row["speed-up"] else ""
        reads = f", {row['reads a step']:.1f} reads" if row["reads a step"] is not None else ""
        verdict = f", {row['results']}: {row['verdict']}" if row["verdict"] else ""
        print(f"  {name}: {step}{ratio}{reads}{verdict}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    print("stopped; what was measured before stays: go on with --resume", file=sys.stderr)
    sys.exit(130)
