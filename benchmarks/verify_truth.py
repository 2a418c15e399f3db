"""Hold short verifications of the scripts of fixtures/ against the truth from long ones.

    python benchmarks/verify_truth.py collect [--pairs 12] [--time-budget 60m] [--scripts NAMES]
    python benchmarks/verify_truth.py check [--time-budget 4m] [--scripts NAMES]

`collect` takes pairs of runs of each script with itself, with each fix that can act on this device
and with all of them, in turn, and keeps every pair in ``data/verify-truth.json`` as it comes; the
next call goes on.  `check` runs `torchlint verify` as a user does, with little time, and compares:
what has an effect above 30 % has its verdict, no verdict contradicts the truth, and what is kept
was proved as it is, single or together: faster, or safe and no slower.  Exits with 1 where one of
these does not hold.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "rules"), str(Path(__file__).parent)]

from evidence import write  # noqa: E402  found from here on
from whole_scripts import own_scripts  # noqa: E402

from torchlint.errors import TorchlintError  # noqa: E402
from torchlint.verify.command import seconds  # noqa: E402
from torchlint.verify.executor import ProjectExecutor  # noqa: E402
from torchlint.verify.machine import cpu  # noqa: E402
from torchlint.verify.model import Phase  # noqa: E402
from torchlint.verify.plan import Fixer, Request, command_of, shown_command  # noqa: E402
from torchlint.verify.session import Limits, Session  # noqa: E402
from torchlint.verify.statistics import log_interval  # noqa: E402
from torchlint.verify.steptimes import lockstep_sample, sequential_sample  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whole_scripts import Script

    from torchlint.verify.model import Configuration, Interval, Sample

FILE = Path(__file__).parent / "data" / "verify-truth.json"
ITSELF, ALL = "itself", "all"
LARGE = math.log(1.3)  # an effect that little time has to see
SAME = math.log(1.02)  # the margin of a verdict
HOURS = 1e5  # seconds: the runs of `collect` are as long as those of a patient user
TORCH = "2.13"


def main() -> int:
    """Collect or check, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("what", choices=("collect", "check"))
    add("--pairs", type=int, default=12, metavar="N", help="of each comparison [12]")
    add(
        "--time-budget", type=seconds, metavar="TIME", help="[60m to collect, 4m a script to check]"
    )
    add("--scripts", metavar="NAMES", help="only these, separated by commas")
    add("--file", type=Path, default=FILE, help="where the pairs are kept")
    given = parser.parse_args()
    wanted = [
        script
        for script in own_scripts("cpu")
        if not given.scripts or script.name in given.scripts.split(",")
    ]
    try:
        if given.what == "collect":
            collect(wanted, given.file, given.pairs, given.time_budget or 3600.0)
            return 0
        known = json.loads(given.file.read_text(encoding="utf-8"))
        problems = [
            problem
            for script in wanted
            for problem in check(script, known["scripts"][script.name], given.time_budget or 240.0)
        ]
    except (TorchlintError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(problems) or "every verdict is right, and every large effect has one")
    return 1 if problems else 0


def collect(wanted: list[Script], file: Path, pairs: int, limit: float) -> None:
    """Take pairs until each comparison has so many, or the time is over."""
    known: dict[str, Any] = {"scripts": {}}
    if file.is_file():
        known = json.loads(file.read_text(encoding="utf-8"))
    end = time.monotonic() + limit
    for script in wanted:
        entry = known["scripts"].setdefault(script.name, {"comparisons": {}})
        taken = entry["comparisons"]
        if taken and all(len(found) >= pairs for found in taken.values()):
            continue
        for facts in _pairs(script, pairs, taken):
            entry.update(facts)
            write(file, {**known, "cpu": cpu()})
            if time.monotonic() > end:
                return
        shown = {name: _shown(found) for name, found in taken.items()}
        print(f"{script.name} ({entry['mode']}): {shown}", flush=True)


def _pairs(
    script: Script, pairs: int, taken: dict[str, list[list[float]]]
) -> Iterator[dict[str, Any]]:
    """Take one pair of each comparison after the other; yield what is known of the script."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve() / script.name
        root.mkdir()
        command = command_of(Request(script.words, script.module, root=root), script.copy_to(root))
        fixer = Fixer(command, {"torch-version": TORCH}, None, isolated=True, complain=print)
        environment = {"PYTHONHASHSEED": "0", **os.environ, "CUDA_VISIBLE_DEVICES": ""}
        with ProjectExecutor(command, environment=environment) as executor:
            session = Session(executor, fixer, Limits(HOURS, 3, 40, None), lambda *_: None)
            singles = session.begin(fixer.singles())
            compared = {ITSELF: fixer.before(), **{one.codes[0]: one for one in singles}}
            if len(singles) > 1:
                compared[ALL] = fixer.with_codes([one.codes[0] for one in singles], ALL)
            facts = {
                "command": shown_command(command),
                "torch": session.how.pilot.records[0].torch,
                "when": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
                "mode": session.how.turns.mode,
                "steps": session.how.bounds.steps,
            }
            while any(len(taken.get(name, ())) < pairs for name in compared):
                for name, configuration in compared.items():
                    sample = _pair(session, fixer.before(), configuration)
                    if sample is None:
                        raise TorchlintError(f"{script.name}: {name} gave no pair of step times")
                    taken.setdefault(name, []).append([sample.before, sample.after])
                    yield facts


def _pair(session: Session, before: Configuration, after: Configuration) -> Sample | None:
    bounds, executor = session.how.bounds, session.executor
    if session.how.turns.mode == "lockstep":
        first, second = executor.lockstep(before, after, bounds)
        return lockstep_sample(first, second) if first and second else None
    order = session.rng.sample((before, after), 2)
    runs = {id(one): executor.run(one, Phase.TIMING, bounds) for one in order}
    return sequential_sample(runs[id(before)], runs[id(after)], session.how.anchor, bounds.warmup)


def _truth(pairs: list[list[float]]) -> Interval:
    found = log_interval([before / after for before, after in pairs])
    assert found is not None
    return found


def _shown(pairs: list[list[float]]) -> str:
    if len(pairs) < 2:
        return "?"
    found = _truth(pairs)
    return f"{found.middle:.3f} ({found.low:.3f} to {found.high:.3f})"


def check(script: Script, entry: dict[str, Any], limit: float) -> list[str]:
    """Verify a script with little time; return in words what does not hold."""
    told, wall = _verified(script, limit)
    print(f"\n{script.name}: {wall:.0f} s: {told['headline']}", flush=True)
    truth = {name: _truth(pairs) for name, pairs in entry["comparisons"].items()}
    rows = {_name(row): row for row in told["configurations"] if row["role"] != "before"}
    problems = [f"took {wall:.0f} s of {limit:.0f}"] if wall > limit + 30 else []
    for name, real in truth.items():
        if name == ITSELF:
            continue
        verdict = rows[name]["verdict"] if name in rows else "not there"
        print(f"  {name}: {_shown(entry['comparisons'][name])}: {verdict}", flush=True)
        problems += _wrong(name, verdict, real)
    kept = set(told["keep"]["codes"])
    if kept and not any(set(row["codes"]) == kept and _is_proved(row) for row in rows.values()):
        problems.append(f"{', '.join(sorted(kept))} is kept, and was not proved as it is")
    return [f"{script.name}: {problem}" for problem in problems]


def _verified(script: Script, limit: float) -> tuple[dict[str, Any], float]:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve() / script.name
        root.mkdir()
        folder = script.copy_to(root)
        file = Path(place) / "report.json"
        name, *words = script.words
        began = time.monotonic()
        done = subprocess.run(
            [
                sys.executable, "-m", "torchlint", "verify", name, "--root", str(root),
                "--isolated", "--torch-version", TORCH, "--device", "cpu",
                "--time-budget", f"{limit:.0f}s", "--json", str(file), "--", *words,
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "rules")))},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise TorchlintError(
                f"{script.name}: verify ended with {done.returncode}: {done.stderr}"
            )
        return json.loads(file.read_text(encoding="utf-8")), time.monotonic() - began


def _is_proved(row: dict[str, Any]) -> bool:
    """Faster as it is; or safe, with the same results, and nothing slower: that costs nothing."""
    return row["verdict"] == "faster" or (row["verdict"] == "no-change" and row["safety"] == "safe")


def _name(row: dict[str, Any]) -> str:
    return ALL if row["role"] == "together" else "+".join(row["codes"])


def _wrong(name: str, verdict: str, real: Interval) -> Iterator[str]:
    """Yield what is wrong with a verdict, by the interval of the truth."""
    low, middle, high = (math.log(value) for value in (real.low, real.middle, real.high))
    if verdict == "faster" and high < SAME:
        yield f"{name} is called faster, and is not ({_ratio(real)})"
    if verdict == "slower" and low > -SAME:
        yield f"{name} is called slower, and is not ({_ratio(real)})"
    right = "faster" if middle > 0 else "slower"
    if abs(middle) > LARGE and verdict != right:
        yield f"{name} is {_ratio(real)}, and was called {verdict}"


def _ratio(real: Interval) -> str:
    return f"{real.middle:.2f}x ({real.low:.2f} to {real.high:.2f})"


if __name__ == "__main__":
    sys.exit(main())
