"""Get everything out of a lease of minutes on a bare machine with a GPU; standard library only.

    python benchmarks/lease.py --out OUT [--seconds 540] [--parts probe,tests,rules,scripts,more]
                               [--public DIR]
    python benchmarks/lease.py --out OUT --rehearse [--python PY]    # a twin of that machine, here
    python benchmarks/lease.py --carry                               # what the machine lacks

Each part runs as a process under a watchdog, and writes to OUT as things happen: whatever ends the
run, what was measured stays, and no process is left.  OUT holds log.txt, gpu.csv, tests.jsonl,
failures.txt, rules.jsonl, runs.jsonl, <device>.json and summary.txt.

Exit codes: 0 all is done, 3 something is left or failed, 2 there is no CUDA device, a package is
missing, or the use is at fault.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lease_parts import marked
from lease_parts.carry import carry
from lease_parts.guard import guarded
from lease_parts.out import InUseError, Out
from lease_parts.plan import table
from lease_parts.rehearsal import RehearsalError, in_twin, rehearse, twin_of
from lease_parts.run import PRETENCE, USE, Lease, children_environment, unpretended, watch_gpu
from lease_parts.summary import lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lease_parts.plan import Part

SHORTEST = 20.0  # seconds of a run
PARTS = ("probe", "tests", "rules", "scripts", "more")


def main(words: Sequence[str] | None = None, parts: Sequence[Part] | None = None) -> int:
    """Run a lease, and return the exit code; tests give parts of their own."""
    began = time.monotonic()
    options = _options(words)
    if options.carry:
        return carry()
    os.environ[marked.VARIABLE] = marked.new_mark()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # what is ended by SIGABRT leaves no dump
    place = Path(tempfile.mkdtemp(prefix="lease-"))
    with guarded(os.environ[marked.VARIABLE], place):
        try:
            if options.rehearse:
                return _rehearse(options, place, began)
            return _run(options, Out(options.out), parts, place, began)
        except (InUseError, RehearsalError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return USE


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--out", type=_path, metavar="FOLDER", help="where all is written")
    add("--seconds", type=_seconds, default=540.0, help="the end of the run [540]")
    add("--parts", type=_parts, default=PARTS, help=f"some of {','.join(PARTS)} [all]")
    add("--public", type=_folder, metavar="FOLDER", help="checkouts of the public scripts")
    add("--rehearse", action="store_true", help="run on a twin of the machine, without a GPU")
    add("--python", metavar="PYTHON", help="the twin's Python [python3.12]")
    add("--carry", action="store_true", help="fetch the packages that the machine lacks")
    options = parser.parse_args(words)
    if options.out is None and not options.carry:
        parser.error("the folder for what is found is missing: --out FOLDER")
    return options


def _seconds(text: str) -> float:
    if (number := float(text)) < SHORTEST:
        raise argparse.ArgumentTypeError(f"a run takes at least {SHORTEST:.0f} seconds")
    return number


def _parts(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"no part is named {unknown[0]}; use {','.join(PARTS)}")
    return names


def _path(text: str) -> Path:
    return Path(text).resolve()


def _folder(text: str) -> Path:
    if not (path := Path(text)).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return path.resolve()


def _rehearse(options: argparse.Namespace, place: Path, began: float) -> int:
    """Run the command of a lease on a twin, with the time that copying leaves."""
    twin = twin_of(place, options.python)
    words = ["--out", str(options.out), "--parts", ",".join(options.parts)]
    words += ["--public", str(in_twin(twin, options.public))] if options.public else []
    left = options.seconds - (time.monotonic() - began)
    return rehearse(twin, [*words, "--seconds", f"{max(left, SHORTEST):.0f}"])


def _run(
    options: argparse.Namespace,
    out: Out,
    known: Sequence[Part] | None,
    caches: Path,
    began: float,
) -> int:
    known = known or table(out.folder, options.public, rehearsal=PRETENCE in os.environ)
    parts = [one for one in known if one.name in options.parts]
    environment = children_environment(caches)
    lease = Lease(out, caches, began + options.seconds, environment, unpretended(environment))
    out.say(f"{options.seconds:.0f} s for {', '.join(one.name for one in parts)} into {out.folder}")
    watcher = watch_gpu(out, environment)
    lease.run(parts, options.seconds)
    if watcher:
        watcher.clear()
    out.part = "summary"
    code = lease.result()
    told = lines(lease, code)
    out.write("summary.txt", "\n".join(told) + "\n")
    for line in told:
        out.say(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
