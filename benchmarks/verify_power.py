"""How often verify is wrong, and what it sees: a script against itself, and against a slower one.

    python benchmarks/verify_power.py --state FILE [--time-budget 9m] [--only KIND,...] [--summary]

Each comparison is made by the functions of `torchlint verify`: `Session.begin` and `Session.time`
with an executor and the limits that it has by default, on a copy of a script of fixtures/.  Kinds:

* ``lockstep-aa``, ``sequential-aa``: nothing is changed; to be called faster or slower is wrong;
* ``lockstep-20``, ``lockstep-10``, ``sequential-20``: busy work in every step makes the second arm
  slower by that many per cent; to be called slower is right;
* ``stopwatch-20``, ``stopwatch-10``: the same busy work in a script that runs without torchlint,
  in every other TURN steps, timed by a line that prints the clock: what it costs while the study
  goes on.  Two runs one after the other do not tell: the speed of a core moves by more than 20 %.

The busy work is a bare loop.  How many turns it needs is measured once for each script, with the
clock of the process's CPU time, and kept: a loop is drawn out by a busy machine as the rest of the
step is, where a wait of fixed length would become a smaller share of it.  Steps are made for
WINDOW seconds of CPU time in each run, and torch has one thread: its threads spin while they wait
for each other, and a step took thirty times as long wherever something else wanted a core.

All comparisons stand in one list in a fixed order, the kinds evenly mixed.  What is finished is a
line of JSON in the state file, and so is what was begun; the next call goes on from there.  Exits
with 0 when everything is done, 1 when some is left or a figure is not what it should be, 2 on
wrong use.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "rules")]

import psutil  # noqa: E402

from torchlint.errors import TorchlintError  # noqa: E402
from torchlint.rule import Level  # noqa: E402
from torchlint.verify import command as cli  # noqa: E402
from torchlint.verify import machine  # noqa: E402
from torchlint.verify.executor import ProjectExecutor  # noqa: E402
from torchlint.verify.model import (  # noqa: E402
    BEFORE,
    Command,
    Configuration,
    Phase,
    Speed,
)
from torchlint.verify.pilot import turns_of  # noqa: E402
from torchlint.verify.plan import default_python  # noqa: E402
from torchlint.verify.session import Limits, Session  # noqa: E402
from torchlint.verify.statistics import FEWEST, MOST, student_quantile  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torchlint.verify.model import Bounds, Executor, Run

SEED = 4
WINDOW = 1.0  # seconds of CPU time that are timed in a run
TURN, WARM = 16, 8  # timed steps come in whole turns of both arms; steps that no stopwatch counts
BUDGET = 600.0  # seconds for one comparison: verify's own default
PROBE = 20_000  # turns of the loop with which the loop itself is timed
LAUNCHES, CALIBRATED = 3, 120  # of which the middle one counts, and their steps
ABSTAINED = Speed.NOISY.value
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Script:
    """A script below fixtures/: the line that ends a step, and how to let it train for long."""

    file: str
    last: str
    arguments: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What is in the file."""
        return (ROOT / "fixtures" / self.file).read_text(encoding="utf-8")

    def with_lines(self, *new: str) -> str:
        """Return the text with lines behind the one that ends a step."""
        return with_line(self.text, self.last, *new) if new else self.text


LONG = ("--device", "cpu", "--epochs", "100000")
SCRIPTS = {  # verify lets all of these take turns: they hardly wait for data
    "gan": Script("scripts/gan.py", "optimizer_D.step()", LONG),
    "curve_fit": Script("proofs/curve_fit.py", "optimizer.step()"),
    "transformer_lm": Script("scripts/transformer_lm.py", "optimizer.step()", LONG),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """Comparisons of one kind: how runs are paired, how much slower the second arm is, how many."""

    name: str
    mode: str
    effect: float
    count: int
    required: tuple[str, int] | None = None  # "at most" so many calls, or "at least"


KINDS = (
    Kind("lockstep-aa", "lockstep", 0.0, 60, ("at most", 3)),
    Kind("lockstep-20", "lockstep", 0.2, 10, ("at least", 9)),
    Kind("lockstep-10", "lockstep", 0.1, 10, ("at least", 7)),
    Kind("sequential-aa", "sequential", 0.0, 20, ("at most", 1)),
    Kind("sequential-20", "sequential", 0.2, 10),
    Kind("stopwatch-20", "stopwatch", 0.2, 6),
    Kind("stopwatch-10", "stopwatch", 0.1, 6),
)
ALLOWED_ABSTENTIONS = 0.2


@dataclass(frozen=True, slots=True)
class Task:
    """One comparison of the study."""

    kind: Kind
    script: str
    number: int

    @property
    def name(self) -> str:
        """Its name in the state file."""
        return f"{self.kind.name}/{self.script}/{self.number}"


def tasks(kinds: Sequence[Kind] = KINDS, seed: int = SEED) -> list[Task]:
    """Return the list: each kind spread evenly over it, its scripts in random order."""
    rng = random.Random(seed)  # noqa: S311 - the same list each time
    placed = []
    for kind in kinds:
        scripts = [list(SCRIPTS)[k % len(SCRIPTS)] for k in range(kind.count)]
        rng.shuffle(scripts)
        for k, script in enumerate(scripts):
            placed.append(((k + rng.random()) / kind.count, Task(kind, script, k)))
    return [task for _, task in sorted(placed, key=lambda each: each[0])]


# -- the state file ------------------------------------------------------------------------------


@dataclass(slots=True)
class State:
    """What is finished, in the order of the file, and the file to add to."""

    file: TextIO
    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line; it is on the disk when this returns."""
        self.lines.append(dict(line))
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def finished(self) -> dict[str, dict[str, Any]]:
        """Return the finished comparisons by name."""
        return {line["done"]: line for line in self.lines if "done" in line}

    def abandoned(self) -> int:
        """Return how many comparisons were begun and cut off; they are begun anew."""
        return sum("begun" in line for line in self.lines) - len(self.finished())

    def calibration(self, script: str) -> dict[str, Any] | None:
        """Return what was measured of a script, and when."""
        found = (line for line in self.lines if line.get("calibrated") == script)
        return next(found, None)


def read_lines(text: str) -> tuple[list[dict[str, Any]], str]:
    """Return the whole lines and their text; a last one that was cut off while written is dropped.

    Raises:
        TorchlintError: another line is no JSON.

    """
    whole = text[: text.rfind("\n") + 1]
    lines: list[dict[str, Any]] = []
    try:
        lines.extend(map(json.loads, whole.splitlines()))
    except ValueError:
        raise TorchlintError(
            f"line {len(lines) + 1} of the state file is no JSON; take it out"
        ) from None
    return lines, whole


@contextlib.contextmanager
def opened(path: Path) -> Any:
    """Give the state that a file holds, to add to; one process at a time.

    Raises:
        TorchlintError: another process has it, or it is no state file.

    """
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TorchlintError(f"{path}: a study is writing to it; wait for its end") from None
        file.seek(0)
        text = file.read()
        lines, whole = read_lines(text)
        if whole != text:
            file.truncate(len(whole.encode()))
        yield State(file, lines)


# -- the scripts ---------------------------------------------------------------------------------


def with_line(text: str, behind: str, *new: str) -> str:
    """Return a script with lines behind the one that ends a step, as deep as that one."""
    lines = text.splitlines(keepends=True)
    places = [k for k, line in enumerate(lines) if line.strip() == behind]
    if len(places) != 1:
        raise TorchlintError(f"the script has `{behind}` {len(places)} times; it must be once")
    line = lines[places[0]]
    depth = line[: len(line) - len(line.lstrip())]
    lines[places[0] + 1 : places[0] + 1] = [f"{depth}{each}\n" for each in new]
    return "".join(lines)


def busy(turns: int | str) -> str:
    """Return busy work as a line of Python; its turns are a number or an expression."""
    return f"for _ in range({turns}): pass"


# The line that counts steps, and what it makes of a number: the number in every other TURN steps.
COUNT = "globals()['_step'] = globals().get('_step', -1) + 1"
ALTERNATING = f"(globals()['_step'] // {TURN} % 2)"


# The line that prints both clocks, where nobody's output is in the way.
STAMP = (
    "(lambda t, s: s.stderr.write(f'@{t.perf_counter()} {t.process_time()}\\n'))"
    "(__import__('time'), __import__('sys'))"
)


def stamps(
    text: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> list[tuple[float, float]]:
    """Run a script that prints stamps, outside of the harness; return them: wall and CPU time.

    Raises:
        TorchlintError: it failed.

    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(text, encoding="utf-8")
        done = subprocess.run(
            (str(default_python()), str(script), *arguments),
            cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise TorchlintError(f"the stopwatch's script failed: {done.stderr[-300:]}")
    found = [line[1:].split() for line in done.stderr.splitlines() if line.startswith("@")]
    return [(float(wall), float(cpu)) for wall, cpu in found]


# -- comparing -----------------------------------------------------------------------------------


@dataclass(slots=True)
class HandMade:
    """Stands for `plan.Fixer`: configurations made by hand, not by rules."""

    command: Command
    after: Configuration

    def before(self) -> Configuration:
        """Return the project as it is."""
        return Configuration(BEFORE, (), {}, {}, None, Level.E0)

    def with_codes(self, codes: Sequence[str], name: str = "") -> Configuration:
        """Return the other configuration: there is but one."""
        assert (*codes, name) == (*self.after.codes, "")
        return self.after


@dataclass(slots=True)
class Remembering:
    """An executor that runs the pilot of a script but once in a call of the study."""

    executor: Executor
    pilots: dict[str, Run]
    script: str

    def run(self, configuration: Configuration, phase: Phase, bounds: Bounds) -> Run:
        """Run once, or give the pilot run again."""
        if phase is not Phase.PILOT:
            return self.executor.run(configuration, phase, bounds)
        if self.script not in self.pilots:
            self.pilots[self.script] = self.executor.run(configuration, phase, bounds)
        return self.pilots[self.script]

    def lockstep(
        self, first: Configuration, second: Configuration, bounds: Bounds
    ) -> tuple[Run, Run]:
        """Run two that take turns."""
        return self.executor.lockstep(first, second, bounds)


def real_executor(command: Command, environment: Mapping[str, str]) -> Any:
    """Return the executor that verify has."""
    return ProjectExecutor(command, environment=environment)


@dataclass(slots=True)
class Study:
    """The means to make comparisons; ``folder`` is where copies of the scripts lie."""

    state: State
    folder: Path
    environment: Mapping[str, str]
    executor: Callable[[Command, Mapping[str, str]], AbstractContextManager[Executor]] = (
        real_executor
    )
    stopwatch: Callable[[str, Sequence[str], Mapping[str, str]], list[tuple[float, float]]] = stamps
    pilots: dict[str, Run] = field(default_factory=dict)

    def stamped(self, script: str, text: str, steps: int) -> list[tuple[float, float]]:
        """Run a script by itself for so many steps, and return the stamps that it prints."""
        arguments = (*SCRIPTS[script].arguments, "--steps", str(steps))
        return self.stopwatch(text, arguments, self.environment)

    def calibrated(self, script: str) -> dict[str, Any]:
        """Return the CPU seconds of a step, and how many turns of the loop take as long."""
        if known := self.state.calibration(script):
            return known
        text = SCRIPTS[script].with_lines(STAMP, busy(PROBE), STAMP)
        found = []
        for _ in range(LAUNCHES):
            cpu = [second for _, second in self.stamped(script, text, CALIBRATED)]
            lengths = [after - before for before, after in pairwise(cpu)][2 * WARM :]
            loop, step = (statistics.fmean(lengths[first::2]) for first in (0, 1))
            found.append((step / loop, step))
        ratio, step = sorted(found)[LAUNCHES // 2]
        timed = max(2 * TURN, math.ceil(WINDOW / step / TURN) * TURN)
        line = {
            "calibrated": script,
            "step": step,
            "turns": ratio * PROBE,
            "steps": WARM + timed,
            "code": code(),
            "processor": machine.cpu(),
            "load": machine.load()[0],
        }
        self.state.add(line)
        return line

    def slower(self, script: str, effect: float, *more: str) -> str:
        """Return a script whose steps take longer by this share."""
        known = self.calibrated(script)
        work = [busy(round(effect * known["turns"]))] if effect else []
        return SCRIPTS[script].with_lines(*work, *more)

    def make(self, task: Task) -> dict[str, Any]:
        """Make one comparison; return what it gave."""
        known = self.calibrated(task.script)
        if task.kind.mode == "stopwatch":
            return self._by_stopwatch(task, known["steps"])
        return self._by_verify(task, known["steps"])

    def _by_stopwatch(self, task: Task, steps: int) -> dict[str, Any]:
        """Run a script with the busy work in every other TURN steps; return what it costs.

        The first turn of both kinds is left out, and of the rest the middle ratio of two turns
        that follow one another counts, in both orders.
        """
        turns = round(task.kind.effect * self.calibrated(task.script)["turns"])
        work = busy(f"{turns} * {ALTERNATING}")
        text = SCRIPTS[task.script].with_lines(COUNT, work, STAMP)
        made = self.stamped(task.script, text, 2 * steps)
        times = {}
        for clock, name in enumerate(("wall", "cpu")):
            ends = [stamp[clock] for stamp in made][TURN - 1 :: TURN]
            lengths = [after - before for before, after in pairwise(ends)][1:]  # fast, slow, fast
            ratios = [
                second / first if k % 2 == 0 else first / second
                for k, (first, second) in enumerate(pairwise(lengths))
            ]
            times[name] = statistics.median(ratios)
        return times

    def _by_verify(self, task: Task, steps: int) -> dict[str, Any]:
        file = f"{task.script}.py"
        root = self.folder / task.script
        root.mkdir(exist_ok=True)
        (root / file).write_text(SCRIPTS[task.script].text, encoding="utf-8")
        arguments = (*SCRIPTS[task.script].arguments, "--steps", "1000000")
        command = Command(default_python(), root / file, None, arguments, (), root, root)
        changed = {file: self.slower(task.script, task.kind.effect).encode()}
        after = Configuration(task.kind.name, ("A",), changed, {}, None, Level.E0)
        with self.executor(command, self.environment) as executor:
            session = Session(
                Remembering(executor, self.pilots, task.script),
                HandMade(command, after),
                Limits(BUDGET, FEWEST, MOST, steps),
                lambda *_: None,
                mode=task.kind.mode,
            )
            (after,) = session.begin([after])
            comparison = session.compare(session.before, session.with_codes(after.codes))
            session.time([comparison])
        return _told(session, comparison)


def _told(session: Session, comparison: Any) -> dict[str, Any]:
    """Return what there is to say of a comparison."""
    how, judgement = session.how, comparison.judgement
    known = (comparison.first, comparison.second)
    interval = judgement.interval if judgement else None
    runs = [run for each in known for run in each.runs]
    last = "; ".join(run.stderr.strip()[-200:] for run in runs) if known[1].failed else ""
    return {
        "verdict": FAILED if any(each.failed for each in known) else judgement.speed.value,
        "interval": [interval.low, interval.middle, interval.high] if interval else None,
        "seen": judgement.seen if judgement else None,
        "pairs": [[sample.before, sample.after] for sample in comparison.samples],
        "lost": comparison.lost,
        "steps": how.bounds.steps,
        "warmup": how.bounds.warmup,
        "auto": turns_of(how.pilot, how.anchor).mode,
        "way": runs[-1].way,
        "torch": how.pilot.records[0].torch,
        "threads": how.pilot.records[0].threads,
        **({"why": last} if last else {}),
    }


# -- how busy the machine is ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Clocks:
    """What the clocks of the machine show, in seconds.

    ``busy`` is CPU time of everything, ``own`` of this process and of those that it has waited for;
    ``waited`` is how long some process waited for a CPU, where the system says so (Linux).
    """

    now: float
    busy: float
    own: float
    waited: float | None


def clocks() -> Clocks:
    """Read the clocks."""
    times = psutil.cpu_times()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    waited = None
    with contextlib.suppress(OSError, IndexError, ValueError):
        text = Path("/proc/pressure/cpu").read_text(encoding="ascii")
        waited = int(text.splitlines()[0].rpartition("total=")[2]) / 1e6
    own = sum(each.ru_utime + each.ru_stime for each in used)
    return Clocks(time.monotonic(), times.user + times.system, own, waited)


def circumstances(before: Clocks) -> dict[str, Any]:
    """Return how long something took, on what: load, and shares of pressure and of others.

    ``own`` is the CPU time that it took itself: on a machine that does nothing else, the runs of
    one thread that take turns last about as long.
    """
    after = clocks()
    seconds = max(after.now - before.now, 1e-9)
    own = after.own - before.own
    others = max(after.busy - before.busy - own, 0.0) / seconds / (os.cpu_count() or 1)
    known = after.waited is not None and before.waited is not None
    pressure = (after.waited - before.waited) / seconds if known else None
    return {"seconds": seconds, "own": own, "load": machine.load()[0], "others": others,
            "pressure": pressure}  # fmt: skip


# -- working through the list --------------------------------------------------------------------


def code() -> str:
    """Return a short name of the program that measures: figures of two of them do not mix."""
    files = sorted((ROOT / "torchlint" / "verify").rglob("*.py"))
    left_out = ROOT / "torchlint" / "verify" / "report"
    used = [file for file in files if not file.is_relative_to(left_out)]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in used)).hexdigest()[:12]


def work(
    study: Study,
    wanted: Iterable[Task],
    seconds: float = math.inf,
    *,
    tell: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Make what is not made yet, until the time is over; say whether everything is done.

    Nothing is begun for which the longest one so far of its kind leaves no time: what is cut off
    and begun anew would favour short comparisons.
    """
    started = clock()
    for task in wanted:
        done = study.state.finished()
        if task.name in done:
            continue
        like = [each["seconds"] for each in done.values() if each["mode"] == task.kind.mode]
        other = [each["seconds"] for each in done.values()]
        if clock() - started + max(like or other, default=0.0) > seconds:
            return False
        study.state.add({"begun": task.name})
        study.calibrated(task.script)
        line = {
            "done": task.name,
            "kind": task.kind.name,
            "mode": task.kind.mode,
            "script": task.script,
            "code": code(),
            "at": time.strftime("%FT%TZ", time.gmtime()),
        }
        before = clocks()
        try:
            line |= study.make(task)
        except TorchlintError as error:
            line |= {"verdict": FAILED, "why": str(error)}
            study.pilots.pop(task.script, None)
        line |= circumstances(before)
        study.state.add(line)
        tell(shown(line))
    return True


def shown(line: Mapping[str, Any]) -> str:
    """Return one finished comparison as a line of text."""
    if "wall" in line:
        said = f"{line['wall']:.3f} times as long by the clock, {line['cpu']:.3f} in CPU time"
    else:
        said = line["verdict"]
        if line.get("interval"):
            low, middle, high = line["interval"]
            said += f" {middle:.3f} ({low:.3f}..{high:.3f}), {len(line['pairs'])} pairs"
    more = f", {line['why']}" if "why" in line else ""
    took = f"{line['seconds']:.0f} s ({line['own']:.0f} s of CPU)"
    around = f"load {line['load']:.1f}, others {line['others']:.0%}"
    return f"{line['done']}: {said}; {took}, {around}{more}"


# -- what came out -------------------------------------------------------------------------------


def summary(state: State, kinds: Sequence[Kind] = KINDS) -> tuple[list[str], bool]:
    """Return the tables as text, and whether everything is done and as it should be."""
    done = list(state.finished().values())
    of_kind = {kind: [each for each in done if each["kind"] == kind.name] for kind in kinds}
    compared = {kind: made for kind, made in of_kind.items() if kind.mode != "stopwatch"}
    lines = _counts(compared)
    lines += ["", *_judged(compared)]
    lines += ["", *_centres(compared)]
    lines += ["", *_stopwatches(of_kind)]
    lines += ["", *_circumstances(state, done)]
    complete = all(len(made) >= kind.count for kind, made in of_kind.items())
    return lines, complete and not any("MISSED" in line for line in lines)


def _counts(compared: Mapping[Kind, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return how often each verdict was given, and what it cost."""
    speeds = [Speed.FASTER, Speed.SLOWER, Speed.NO_CHANGE, Speed.NOISY]
    heads = ("kind", "done", "faster", "slower", "no change", "too noisy", "none", "pairs",
             "seen", "seconds", "of CPU")  # fmt: skip
    rows = [heads]
    for kind, made in compared.items():
        verdicts = Counter(each["verdict"] for each in made)
        told = [str(verdicts[speed.value]) for speed in speeds]
        failed = len(made) - sum(map(int, told))
        pairs = _mean(len(each.get("pairs", ())) for each in made)
        seen = _middle(100 * each["seen"] for each in made if each.get("seen"))
        seconds, own = (_mean(each[what] for each in made) for what in ("seconds", "own"))
        rows.append((kind.name, f"{len(made)}/{kind.count}", *told, str(failed), pairs,
                     f"{seen} %", seconds, own))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)) for row in rows]


def _judged(compared: Mapping[Kind, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return what was called, beside what is asked for; abstentions are counted apart."""
    lines = []
    for kind, made in compared.items():
        verdicts = Counter(each["verdict"] for each in made)
        faster, slower = verdicts[Speed.FASTER.value], verdicts[Speed.SLOWER.value]
        noisy = verdicts[ABSTAINED] + verdicts[FAILED] + verdicts[Speed.OPEN.value]
        called = slower if kind.effect else faster + slower
        what = "seen as slower" if kind.effect else "called faster or slower"
        line = f"{kind.name}: {called} of {len(made)} {what}"
        if kind.effect and faster:
            line += f", {faster} called faster"
        if kind.required:
            word, number = kind.required
            line += f" ({word} {number} of {kind.count}"
            left = kind.count - len(made)
            missed = called > number if word == "at most" else called + left < number
            line += ": MISSED)" if missed else ")"
        line += f"; {noisy} without a verdict"
        if made and noisy > ALLOWED_ABSTENTIONS * kind.count:
            line += f" (at most {ALLOWED_ABSTENTIONS:.0%}: MISSED)"
        lines.append(line)
    return lines


def _centres(compared: Mapping[Kind, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return where the estimates lie, by script: 1 without a change, 1 / 1.2 with 20 %."""
    lines = [
        "before / after: mean of the estimates (95 %), spread of one, intervals with the truth"
    ]
    for kind, made in compared.items():
        for script in ("all", *SCRIPTS):
            some = [each["interval"] for each in made
                    if each.get("interval") and script in ("all", each["script"])]  # fmt: skip
            if len(some) < 2:
                continue
            logs = [math.log(middle) for _, middle, _ in some]
            mean, spread = statistics.fmean(logs), statistics.stdev(logs)
            half = student_quantile(0.975, len(logs) - 1) * spread / math.sqrt(len(logs))
            truth = 1 / (1 + kind.effect)
            held = sum(low <= truth <= high for low, _, high in some)
            low, middle, high = (math.exp(mean + k * half) for k in (-1, 0, 1))
            lines.append(
                f"  {kind.name}, {script}: {middle:.3f} ({low:.3f}..{high:.3f}), "
                f"{math.expm1(spread):.1%}, {held} of {len(some)} hold {truth:.3f}"
            )
    return lines


def _stopwatches(of_kind: Mapping[Kind, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return what the busy work cost by the stopwatch, by script."""
    lines = ["stopwatch, after / before: by the clock, in CPU time (medians)"]
    for kind, made in of_kind.items():
        for script in ("all", *SCRIPTS):
            some = [each for each in made if "wall" in each and script in ("all", each["script"])]
            if some:
                wall, cpu = (statistics.median(each[clock] for each in some)
                             for clock in ("wall", "cpu"))  # fmt: skip
                lines.append(
                    f"  {kind.name}, {script}: {wall:.3f}, {cpu:.3f} of {len(some)} "
                    f"(meant: {1 + kind.effect:.2f})"
                )
    return lines


def _circumstances(state: State, done: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the figures were measured with and on."""
    lines = [
        f"{line['calibrated']}: {1e3 * line['step']:.2f} ms of CPU time a step, "
        f"{line['steps']} steps a run"
        for line in state.lines
        if "calibrated" in line
    ]
    if done:
        for name in ("load", "pressure", "others"):
            found = sorted(each[name] for each in done if each.get(name) is not None)
            if found:
                lines.append(f"{name}: median {statistics.median(found):.2f}, most {found[-1]:.2f}")
        torch = {each["torch"] for each in done if "torch" in each}
        threads = {str(each["threads"]) for each in done if "threads" in each}
        auto = Counter(
            f"{each['script']} {each['auto']}" for each in done if each.get("mode") == "lockstep"
            and "auto" in each
        )  # fmt: skip
        lines.append(f"verify by itself would choose: {_listed(auto)}")
        cpu = {line["processor"] for line in state.lines if "processor" in line}
        lines.append(
            f"{', '.join(sorted(cpu))}, {os.cpu_count()} cores, torch {', '.join(sorted(torch))}, "
            f"threads {', '.join(sorted(threads))}; {done[0]['at']} to {done[-1]['at']}"
        )
    lines.append(f"begun and cut off: {state.abandoned()}")
    codes = Counter(each["code"] for each in done)
    if len(codes) > 1:
        lines.append(f"MISSED: {len(codes)} versions of verify are mixed: {_listed(codes)}")
    return lines


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))


def _mean(values: Iterable[float]) -> str:
    found = list(values)
    return f"{statistics.fmean(found):.1f}" if found else "-"


def _middle(values: Iterable[float]) -> str:
    found = list(values)
    return f"{statistics.median(found):.1f}" if found else "-"


def chosen(text: str | None) -> tuple[Kind, ...]:
    """Return the kinds that are asked for by name.

    Raises:
        TorchlintError: there is no such kind.

    """
    names = text.split(",") if text else [kind.name for kind in KINDS]
    known = {kind.name: kind for kind in KINDS}
    if unknown := [name for name in names if name not in known]:
        raise TorchlintError(f"--only {unknown[0]}: no such kind; there are {', '.join(known)}")
    return tuple(kind for kind in KINDS if kind.name in names)


def main() -> int:
    """Go on with the study, and print what came out so far."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--state", type=Path, required=True, help="where results are kept")
    parser.add_argument("--time-budget", default="9m", help="begin nothing that may last longer")
    parser.add_argument("--only", help="kinds of comparisons, with commas between")
    parser.add_argument("--summary", action="store_true", help="print what there is, run nothing")
    given = parser.parse_args()
    try:
        kinds, seconds = chosen(given.only), cli.seconds(given.time_budget)
        if given.summary:
            lines, _ = read_lines(given.state.read_text(encoding="utf-8"))
            state = State(sys.stdout, lines)
        else:
            with opened(given.state) as state, tempfile.TemporaryDirectory() as folder:
                run(state, Path(folder).resolve(), kinds, seconds)
    except (TorchlintError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    told, is_well = summary(state, kinds)
    print("\n".join(["", *told]))
    return 0 if is_well else 1


def run(state: State, folder: Path, kinds: Sequence[Kind], seconds: float) -> None:
    """Work through the list with real runs; Ctrl-C ends it."""
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    study = Study(state, folder, {**os.environ, **one})
    # the whole list, so that the order is the same whatever is asked for
    wanted = [task for task in tasks() if task.kind in kinds]
    with contextlib.suppress(KeyboardInterrupt):
        work(study, wanted, seconds, tell=lambda text: print(text, flush=True))


if __name__ == "__main__":
    sys.exit(main())
