"""Scripts of all kinds are run in copies, in turns and ended; nothing is left, nothing changes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from executor_tools import Place, place, unchanged

from torchlint.errors import TorchlintError
from torchlint.verify import copying, processes
from torchlint.verify.copying import Limits
from torchlint.verify.executor import ProjectExecutor
from torchlint.verify.model import (
    BEFORE,
    Anchor,
    Bounds,
    Command,
    Configuration,
    Ending,
    Level,
    Phase,
    Run,
)
from torchlint.verify.process import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "scripts"
PYTHON = Path(sys.executable)
SHORT = Bounds(steps=10, warmup=2, seconds=60)
both = pytest.mark.parametrize("way", ["overlay", "copy"])

# What the worker says and writes, for scripts that need not wait for torch.
SPEAKER = """
import json, os, time

plan = json.load(open(os.environ["TORCHLINT_VERIFY"]))
lengths = []

def record(ended="bound", rank=0, world=1):
    told = dict(
        version=1, rank=rank, world=world, ended=ended, device="cpu", torch="2", steps=[[0.0]],
        optimizers=[], backwards=[], waits=[], start=0.0, workers=0, turns=lengths, reached={},
        modules=[], writes=[], trace=None, python="3", cuda=None, gpus=0, driver=None, threads=1,
        libraries={}, memory={}, busy=None,
    )
    path = os.path.join(plan["records"], f"{rank}-{os.getpid()}.json")
    open(path + ".part", "w").write(json.dumps(told))
    os.rename(path + ".part", path)

class Turns:
    def __init__(self):
        turns = plan["turns"]
        self.size = turns["size"]
        self.done, self.go = open(turns["done"], "w"), open(turns["go"])
        self.say(None)

    def say(self, seconds):
        print(json.dumps(dict(turn=len(lengths), seconds=seconds)), file=self.done, flush=True)
        if self.go.readline() == "end\\n":
            record()
            os._exit(0)

    def turn(self, work):
        start = time.perf_counter()
        for _ in range(self.size):
            work()
        lengths.append(time.perf_counter() - start)
        self.say(lengths[-1])
"""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(processes, "GRACE", 0.3)  # seconds: some of these scripts use all of it
    with place(monkeypatch) as made:
        made.write({"speaker.py": SPEAKER})
        yield made


def configured(files: dict[str, bytes] | None = None, name: str = BEFORE) -> Configuration:
    return Configuration(name, (), files or {}, {}, None, Level.E0)


def executor(
    here: Place, way: str, code: str, *arguments: str, module: str | None = None,
    launcher: tuple[str, ...] = (), python: Path = PYTHON, seed: int = 0,
    limits: Limits | None = None,
) -> ProjectExecutor:  # fmt: skip
    """Open an executor for a script; the test is skipped where the system forbids the way."""
    here.write({"train.py": textwrap.dedent(code)})
    script = None if module else here.root / "train.py"
    command = Command(python, script, module, arguments, launcher, here.root, here.root)
    opened = ProjectExecutor(
        command,
        rng=random.Random(seed),  # noqa: S311  which goes first
        environment=here.environment,
        try_overlay=way == "overlay",
        limits=limits,
    )
    if opened.way != way:
        opened.close()
        pytest.skip("this system allows no overlay file system in a user namespace")
    return opened


def run(here: Place, way: str, code: str, *arguments: str, bounds: Bounds = SHORT) -> Run:
    with executor(here, way, code, *arguments) as opened, unchanged(here.root):
        done = opened.run(configured(), Phase.TIMING, bounds)
        assert here.processes() == []
        assert [path.name for path in opened._sandbox.session.folder.iterdir()] == ["owner"]
        assert done.way == way
        return done


@both
@pytest.mark.parametrize(
    ("code", "ending", "words", "said"),
    [
        pytest.param(
            "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(99)",
            Ending.TIMEOUT, "did not end", "", id="ignores-sigterm",
        ),
        pytest.param(
            """
            import os, time
            for _ in range(2):
                if os.fork():
                    open(f"made{os.getpid()}", "w").close()
                    os._exit(0)
                os.setsid()
            time.sleep(99)
            """,
            Ending.FINISHED, "ended with exit code 0", "", id="daemon",
        ),
        pytest.param(
            """
            import sys
            for i in range(30_000):
                print("out" * 30, i)
                print("err" * 30, i, file=sys.stderr)
            """,
            Ending.FINISHED, "ended with exit code 0", "err 29999", id="prints-megabytes",
        ),
        pytest.param(
            "input('name? ')",
            Ending.FAILED, "ended with exit code 1", "EOFError: EOF when reading a line",
            id="waits-on-stdin",
        ),
        pytest.param(
            """
            import os, tempfile
            os.chdir(tempfile.mkdtemp())
            open("new", "w").write("x")
            """,
            Ending.FINISHED, "ended with exit code 0", "", id="changes-folder",
        ),
        pytest.param(
            """
            import os, shutil
            here = os.path.dirname(os.path.abspath(__file__))
            os.makedirs(os.path.join(here, "runs/1"))
            open("runs/1/last.pt", "w").write("x")
            shutil.copy("speaker.py", "new.py")
            os.remove("speaker.py")
            open(__file__, "a").write("# more")
            """,
            Ending.FINISHED, "ended with exit code 0", "", id="writes-into-its-folder",
        ),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)",
            Ending.FAILED, "killed by signal 9 (SIGKILL): perhaps out of memory", "", id="killed",
        ),
        pytest.param(
            "import os, time; os.fork() or time.sleep(99); os._exit(3)",
            Ending.FAILED, "ended with exit code 3", "", id="exits-at-once",
        ),
        pytest.param(
            "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
            Ending.TIMEOUT, "did not end", "", id="stops-itself",
        ),
        pytest.param(
            "import train_with_typo",
            Ending.FAILED, "ended with exit code 1", "No module named 'train_with_typo'",
            id="fails-at-once",
        ),
        pytest.param(
            "x = bytearray(1 << 62)",
            Ending.FAILED, "ended with exit code 1", "MemoryError", id="too-much-memory",
        ),
    ],
)  # fmt: skip
def test_bad_scripts(  # noqa: PLR0917  the parameters above
    here: Place, way: str, code: str, ending: Ending, words: str, said: str
) -> None:
    seconds = 1 if ending is Ending.TIMEOUT else 60
    done = run(here, way, code, bounds=Bounds(steps=10, warmup=2, seconds=seconds))
    shown = None if done.ending is Ending.TIMEOUT else done.code
    assert (done.ending, in_words(shown)) == (ending, words), done.stderr
    assert done.stderr.splitlines()[-1:] == [line for line in [said] if line] or said in done.stderr
    assert done.records == ()
    assert done.rss > 0 or done.seconds < 0.5  # it may be gone before anybody looks


@both
def test_each_run_has_its_own_files_and_folders(here: Place, way: str) -> None:
    code = """
        import os, sys, helper
        assert not os.path.exists("checkpoint")
        open("checkpoint", "w").close()
        print(helper.NAME, os.path.relpath(os.getcwd(), os.path.dirname(__file__)), file=sys.stderr)
        print(*[os.path.relpath(a) for a in sys.argv[1:]], file=sys.stderr)
    """
    here.write({"helper.py": "NAME = 'before'"})
    inside = str(here.root / "data")
    with executor(here, way, code, inside, str(here.root / "helper.py")) as opened:
        for files, name in (({}, "before"), ({"helper.py": b"NAME = 'after'"}, "after")):
            with unchanged(here.root):
                done = opened.run(configured(files), Phase.PILOT, SHORT)
            assert done.stderr == f"{name} .\ndata helper.py"
            assert done.ending is Ending.FINISHED


def test_data_that_a_run_wrote_to_through_a_link_is_named(here: Place) -> None:
    here.write({"data.bin": b"x" * 99, "other.bin": b"x" * 99})
    code = "import os; os.system('echo >> data.bin; cat other.bin; echo > new.bin')"
    with executor(here, "copy", code, limits=Limits(linked=10)) as opened:
        done = opened.run(configured(), Phase.TIMING, SHORT)
    assert done.touched == ("data.bin",)
    assert not (here.root / "new.bin").exists()


def test_an_interrupt_while_copying_leaves_nothing(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with executor(here, "copy", "") as opened:
        monkeypatch.setattr(copying, "_copy_git", interrupt)
        here.write({".git/HEAD": ""})
        with pytest.raises(KeyboardInterrupt):
            opened.run(configured(), Phase.TIMING, SHORT)
        assert [path.name for path in opened._sandbox.session.folder.iterdir()] == ["owner"]


@both
@pytest.mark.parametrize("launcher", [(), ("nice", "-n", "1"), ("env", "A=1", "python")])
def test_modules_and_launchers(here: Place, way: str, launcher: tuple[str, ...]) -> None:
    here.write({"pkg/__init__.py": "", "pkg/train.py": "from .other import X; print(1/X)"})
    here.write({"pkg/other.py": "X = 0"})
    with executor(here, way, "", module="pkg.train", launcher=launcher) as opened:
        done = opened.run(configured(), Phase.TIMING, SHORT)
    assert done.stderr.endswith("ZeroDivisionError: division by zero")


def test_steps_that_are_made_end_the_run_whatever_the_leader_does(here: Place) -> None:
    code = """
        import os, time
        from speaker import record
        if os.fork():
            time.sleep(99)
        record()
    """
    done = run(here, "copy", code)
    assert (done.ending, len(done.records), done.code) == (Ending.BOUND, 1, None)
    assert done.seconds < 50


def test_a_rank_that_dies_fails_the_run(here: Place) -> None:
    code = "from speaker import record; record(world=2); raise SystemExit(1)"
    assert run(here, "copy", code).ending is Ending.FAILED


def test_all_ranks_have_time_for_their_records(here: Place) -> None:
    code = """
        import os, time
        from speaker import record
        if os.fork():
            record(rank=1, world=2)
            os.wait()
        else:
            time.sleep(4)
            record(rank=0, world=2)
    """
    done = run(here, "copy", code)
    assert [one.rank for one in done.records] == [0, 1]
    assert done.ending is Ending.BOUND


TURNS = """
    import os, sys, time
    from speaker import Turns
    import which
    log = open(os.environ["TORCHLINT_TEST_LOG"], "a", buffering=1)
    def work():
        print(which.NAME, "works", time.monotonic(), file=log)
    turns = Turns()
    print(which.NAME, "begins", file=log)
    while True:
        turns.turn(work)
"""


@both
@pytest.mark.parametrize("seed", [0, 1])
def test_two_runs_take_turns(here: Place, way: str, seed: int) -> None:
    with executor(here, way, TURNS, seed=seed) as opened, unchanged(here.root):
        runs = opened.lockstep(
            configured({"which.py": b"NAME = 'A'"}, "one"),
            configured({"which.py": b"NAME = 'B'"}, "two"),
            Bounds(steps=2 + 8 * 5, warmup=2, seconds=60),
        )
    lines = [line.split() for line in here.log.read_text().splitlines()]
    assert [one.configuration for one in runs] == ["one", "two"]
    assert all(one.ending is Ending.BOUND and one.code == 0 for one in runs)
    assert [len(one.records[0].turns) for one in runs] == [4, 4]
    order = [name for name, what, *_ in lines if what == "works"]
    first, second = (("A", "B"), ("B", "A"))[order[0] == "B"]
    pattern = [first, second, second, first] * 2
    assert order == [name for name in pattern for _ in range(8)]


def test_turns_are_as_long_as_they_are_asked_to_be(here: Place) -> None:
    bounds = Bounds(steps=2 + 8 * 3, warmup=2, seconds=60, turn=3, warm=0, expected=7.0)
    pair = configured({"which.py": b"NAME = 'A'"}), configured({"which.py": b"NAME = 'B'"})
    with executor(here, "copy", TURNS) as opened:
        runs = opened.lockstep(*pair, bounds)
    lines = here.log.read_text().splitlines()
    order = [line.split()[0] for line in lines if " works " in line]
    told = [(len(one.records[0].turns), one.turn, one.expected) for one in runs]
    assert told == [(8, 3, 7.0)] * 2
    assert all(len(set(order[k : k + 3])) == 1 for k in range(0, len(order), 3))


def test_chance_says_which_is_first(here: Place) -> None:
    pair = configured({"which.py": b"NAME = 'A'"}), configured({"which.py": b"NAME = 'B'"})
    with executor(here, "copy", TURNS) as opened:
        for _ in range(8):
            opened.lockstep(*pair, Bounds(steps=2, warmup=2, seconds=60))
    names = [
        line.split()[0] for line in here.log.read_text().splitlines() if line.endswith("begins")
    ]
    assert len(names) == 16
    assert set(names[::2]) == {"A", "B"}


def test_the_idle_run_stands_still_with_its_children(here: Place) -> None:
    code = """
        import os, time
        from speaker import Turns, record
        log = os.environ["TORCHLINT_TEST_LOG"]
        me = str(os.getpid())
        if os.fork() == 0:
            while os.getppid() != 1:
                open(log, "a").write(f"{me} child {time.monotonic()}\\n")
                time.sleep(0.002)
        else:
            turns = Turns()
            while True:
                open(log, "a").write(f"{me} begin {time.monotonic()}\\n")
                turns.turn(lambda: time.sleep(0.05))
                open(log, "a").write(f"{me} other {time.monotonic()}\\n")
    """
    with executor(here, "copy", code) as opened:
        opened.lockstep(configured(), configured(), Bounds(steps=38, warmup=2, seconds=60))
    lines = [
        (pid, what, float(at))
        for pid, what, at in map(str.split, here.log.read_text().splitlines())
    ]
    begins = [(pid, at) for pid, what, at in lines if what == "begin"]
    assert len(begins) >= 8
    for pid, at in begins:  # in the middle of a turn, only its own child writes
        during = {other for other, what, then in lines if at + 0.1 < then < at + 0.3}
        assert during == {pid}


@both
@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        ("os._exit(0)", Ending.FINISHED),
        ("raise ValueError('broken')", Ending.FAILED),
        ("os.kill(os.getpid(), 9)", Ending.FAILED),
        ("time.sleep(99)", Ending.TIMEOUT),
    ],
)
@pytest.mark.parametrize("turn", [0, 2])
def test_an_arm_that_does_not_come_back(
    here: Place, way: str, turn: int, fault: str, ending: Ending
) -> None:
    code = """
        import os, time, fault
        from speaker import Turns
        fault.happen(0)
        turns = Turns()
        for i in range(1, 99):
            turns.turn(lambda: None)
            fault.happen(i)
    """
    here.write({"fault.py": "def happen(i): pass"})
    bad = f"import os, time\ndef happen(i):\n    if i == {turn}: {fault}\n"
    seconds = 1 if ending is Ending.TIMEOUT else 60
    with executor(here, way, code) as opened, unchanged(here.root):
        good, broken = opened.lockstep(
            configured(),
            configured({"fault.py": bad.encode()}),
            Bounds(steps=2 + 8 * 8, warmup=2, seconds=seconds),
        )
        assert here.processes() == []
    assert broken.ending is ending
    assert broken.records == ()
    if good is None:  # it was not started any more: the other did not come to its first turn
        assert turn == 0
    else:
        assert good.ending is Ending.BOUND
        assert len(good.records[0].turns) <= 3


def fake_python(here: Place, script: str) -> Path:
    python = here.root / "bin" / "python"
    here.write({"bin/python": f"#!/bin/sh\n{script}\n"})
    python.chmod(0o755)
    return python


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f'exec {PYTHON} -I -S "$@"', r"bin/python: torch is not installed.*--python"),
        ("echo 3 7 True", r"bin/python: verify needs Python 3.8 or newer, this is 3.7.*--python"),
        ("exit 1", r"bin/python: this Python cannot be run.*--python"),
    ],
)
def test_a_python_that_cannot_run_it(here: Place, script: str, message: str) -> None:
    with pytest.raises(TorchlintError, match=message):
        executor(here, "copy", "", python=fake_python(here, script))


def test_a_launcher_that_is_not_there(here: Place) -> None:
    with pytest.raises(TorchlintError, match=r"--launcher nosuch: there is no such program"):
        executor(here, "copy", "", launcher=("nosuch", "-n2"))


HARNESS = """
    import os, pathlib, sys, tempfile
    tempfile.tempdir, root, way, what = sys.argv[1:]
    from torchlint.verify.executor import ProjectExecutor
    from torchlint.verify.model import *
    root = pathlib.Path(root)
    command = Command(pathlib.Path(sys.executable), root / "train.py", None, (), (), root, root)
    bounds, same = Bounds(100, 2, 60), Configuration(BEFORE, (), {}, {}, None, Level.E0)
    with ProjectExecutor(command, try_overlay=way == "overlay") as opened:
        print(opened.way, flush=True)
        if what == "run":
            opened.run(same, Phase.TIMING, bounds)
        else:
            opened.lockstep(same, same, bounds)
"""


@pytest.mark.parametrize(("way", "number"), [("overlay", signal.SIGINT), ("copy", signal.SIGTERM)])
@pytest.mark.parametrize("what", ["run", "lockstep"])
def test_an_interrupt_leaves_nothing(
    here: Place, way: str, what: str, number: signal.Signals
) -> None:
    here.write({"train.py": textwrap.dedent("""
        import os, signal, time
        from speaker import Turns, plan
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            time.sleep(99)
        turns = Turns() if plan["turns"] else None
        name = os.environ["TORCHLINT_TEST_LOG"]
        open(name, "a").close()
        time.sleep(99)
    """)})  # fmt: skip
    with unchanged(here.root):
        words = (str(here.temporary), str(here.root), way, what)
        harness = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(HARNESS), *words],
            env=here.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert harness.stdout is not None
        made = harness.stdout.readline().strip()
        deadline = time.monotonic() + 60
        while not here.log.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        harness.send_signal(number)
        _, said = harness.communicate(timeout=60)
    assert said.rstrip().endswith("KeyboardInterrupt")
    if made != way:
        pytest.skip("this system allows no overlay file system in a user namespace")


@both
def test_the_worker_counts_the_steps_of_a_real_script(here: Place, way: str) -> None:
    code = (SCRIPTS / "gan.py").read_text("utf-8")
    with executor(here, way, code, "--epochs", "9") as opened, unchanged(here.root):
        done = opened.run(configured(), Phase.PILOT, Bounds(6, 2, 120))
        assert (done.ending, done.code) == (Ending.BOUND, 0), done.stderr
        assert [len(times) for times in done.records[0].steps] == [6, 6]
        assert Path(done.records[0].modules[0]).name == "train.py"
        assert done.rss > 100 << 20


@both
def test_a_real_script_and_its_workers_in_turns(here: Place, way: str) -> None:
    code = (SCRIPTS / "lstm_forecast.py").read_text("utf-8")
    bounds = Bounds(2 + 9 * 2, 2, 120, Anchor("optimizer", 0))
    with executor(here, way, code, "--epochs", "9") as opened, unchanged(here.root):
        for done in opened.lockstep(configured(), configured(), bounds):
            assert (done.ending, done.code) == (Ending.BOUND, 0), done.stderr
            (record,) = done.records
            assert (len(record.turns), record.workers) == (2, 2)
            length = record.steps[0][-1] - record.steps[0][-9]  # from the end of the first step on
            assert record.turns[-1] == pytest.approx(length, abs=1e-6)


def test_ranks_of_a_launcher(here: Place) -> None:
    code = """
        import os, torch
        parameter = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        for _ in itertools.count() if (itertools := __import__("itertools")) else ():
            parameter.sum().backward()
            optimizer.step()
    """
    launcher = ("torchrun", "--standalone", "--nproc-per-node", "2")
    with executor(here, "copy", code, launcher=launcher) as opened, unchanged(here.root):
        done = opened.run(configured(), Phase.TIMING, Bounds(5, 1, 120, Anchor("optimizer", 0)))
    assert (done.ending, [one.rank for one in done.records]) == (Ending.BOUND, [0, 1]), done.stderr
