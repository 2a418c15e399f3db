"""A command is launched, watched and ended, whatever it does; nothing of it is left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING

import pytest
from executor_tools import SHARED, Place, place

from torchlint.errors import TorchlintError
from torchlint.verify import processes, shared_memory
from torchlint.verify.process import (
    TAIL,
    Live,
    in_words,
    launch,
    signals_interrupt,
    uninterrupted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = 60.0  # seconds, never reached


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with place(monkeypatch) as made:
        yield made


def start(here: Place, code: str) -> Live:
    words = (sys.executable, "-c", textwrap.dedent(code))
    return launch(words, here.root, here.environment, here.root / "plan.json")


def wait(live: Live, seconds: float = LONG) -> bool:
    return live.wait(time.monotonic() + seconds)


def until(live: Live, file: Path) -> None:
    assert live.wait(time.monotonic() + LONG, file.exists)
    assert file.exists()


def test_the_end_of_what_it_says_is_kept(here: Place) -> None:
    live = start(here, "import sys; print('out'); print('a\\rb\\x1b[31mc', file=sys.stderr)")
    assert wait(live)
    assert (live.code, live.end()) == (0, "bc")
    assert live.stdout.close() == "out"


def test_megabytes_of_output_neither_block_it_nor_are_kept(here: Place) -> None:
    live = start(here, """
        import sys
        for i in range(100_000):
            print("x" * 80, i)
            print("y" * 80, i, file=sys.stderr)
    """)  # fmt: skip
    assert wait(live)
    lines = live.end().splitlines()
    assert len(live.stderr._kept) <= 4 * TAIL
    assert lines[-1] == "y" * 80 + " 99999"
    assert lines[0].startswith("yyy")
    assert TAIL - 200 < sum(len(line) + 1 for line in lines) <= TAIL


def test_standard_input_is_empty(here: Place) -> None:
    code = """
        import os, pathlib, sys, time
        from torchlint.verify.process import launch
        root = pathlib.Path(sys.argv[1])
        live = launch((sys.executable, "-c", "input()"), root, os.environ, root / "plan.json")
        live.wait(time.monotonic() + 20)
        print(live.end())
    """
    words = [sys.executable, "-c", textwrap.dedent(code), str(here.root)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None  # its own input is open, and stays so
        assert harness.stdout.read().strip().endswith(b"EOFError: EOF when reading a line")


def test_a_missing_program_is_an_error_that_names_it(here: Place) -> None:
    with pytest.raises(TorchlintError, match=r"nosuch: cannot be started.*no such file"):
        launch(("nosuch",), here.root, here.environment, here.root / "plan.json")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("signal.signal(15, signal.SIG_IGN); ready(); time.sleep(99)", id="no-term"),
        pytest.param("os.fork() or time.sleep(99); ready(); os._exit(0)", id="child-lives"),
        pytest.param(
            "os.fork() or (os.setsid(), os.fork() or time.sleep(99), os._exit(0)); ready()",
            id="daemon",
        ),
        pytest.param(
            "os.fork() or (os.setsid(), time.sleep(0.5), os.execve(sys.executable, "
            "[sys.executable, '-c', 'import time; time.sleep(99)'], {'TORCHLINT_TEST_MARK': "
            "os.environ['TORCHLINT_TEST_MARK']})); time.sleep(1); ready()",
            id="other-environment",
        ),
        pytest.param("os.kill(os.getpid(), signal.SIGSTOP) if ready() else 0", id="stopped"),
        pytest.param("ready(); os._exit(3)", id="ends"),
        pytest.param(
            "os.fork() or os.execv(sys.executable, [sys.executable, '-c', 'import time; "
            "time.sleep(99)  # multiprocessing.resource_tracker']); time.sleep(1); ready()",
            id="like-a-tracker",
        ),
        pytest.param(
            "signal.signal(15, lambda *_: os.fork() or time.sleep(99)); ready(); time.sleep(99)",
            id="forks-when-ended",
        ),
    ],
)
def test_no_process_is_left(here: Place, code: str) -> None:
    live = start(here, f"""
        import os, signal, sys, time
        def ready():
            open("ready", "w").close()
            return True
        {code}
    """)  # fmt: skip
    assert live.wait(time.monotonic() + LONG, (here.root / "ready").exists)
    time.sleep(0.1)
    live.end()
    assert here.processes() == []
    live.end()  # again: nothing happens


def test_one_that_cannot_be_ended_is_an_error_that_names_it(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = start(here, "import time; time.sleep(99)")
    with monkeypatch.context() as stuck:
        stuck.setattr(processes, "send", lambda *_: None)
        stuck.setattr(processes, "GRACE", 0.1)
        stuck.setattr(processes, "DEATH", 0.1)
        with pytest.raises(TorchlintError, match=rf"cannot end process {live.popen.pid}: .*hand"):
            live.end()
    live.end()


def test_those_that_end_by_themselves_have_time_for_it(here: Place) -> None:
    live = start(here, """
        import os, time
        if os.fork() == 0:
            time.sleep(0.5)
            open("written", "w").close()
    """)  # fmt: skip
    assert wait(live)
    live.end(LONG)
    assert (here.root / "written").exists()


def test_waiting_ends_at_the_deadline(here: Place) -> None:
    live = start(here, "import time; time.sleep(99)")
    assert not wait(live, 0.1)
    live.end()
    assert live.code == -signal.SIGTERM


def test_the_peak_of_all_processes_that_live_at_once(here: Place) -> None:
    mebi = 1 << 20
    code = f"""
        import os, time
        held = b"x" * {200 * mebi}
        del held
        if os.fork() == 0:
            more = b"x" * {100 * mebi}
            time.sleep(1)
            os._exit(0)
        os.wait()
    """
    live = start(here, code)
    assert wait(live)
    live.end()
    assert 300 * mebi < live.rss < 400 * mebi


def test_stopped_processes_do_nothing_until_they_go_on(here: Place) -> None:
    live = start(here, """
        import os, time
        for _ in range(2):
            if os.fork() == 0:
                os.setsid()
        open(f"ready{os.getpid()}", "w").close()
        while True:
            open(f"{os.getpid()}", "a").write("x")
            time.sleep(0.001)
    """)  # fmt: skip
    assert live.wait(time.monotonic() + LONG, lambda: len(list(here.root.glob("ready*"))) == 4)

    def sizes() -> list[int]:
        return [f.stat().st_size for f in here.root.glob("[0-9]*")]

    live.stop()
    time.sleep(0.1)
    before = sizes()
    time.sleep(0.2)
    assert sizes() == before
    live.go_on()
    deadline = time.monotonic() + LONG
    while any(new <= old for new, old in zip(sizes(), before, strict=True)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    live.stop()
    live.end()


def test_shared_memory_of_its_processes_is_removed(here: Place) -> None:
    mark = here.mark[:8]
    (SHARED / f"psm_before{mark}").touch()
    live = start(here, f"""
        import os, signal
        names = f"torch_{{os.getpid()}}_{mark}_1", "sem.mp-{mark}", "psm_{mark}", "my_{mark}"
        held = [open(f"/dev/shm/{{name}}", "w") for name in names]
        open(f"/dev/shm/torch_{os.getpid()}_{mark}_2", "w").close()
        open("ready", "w").close()
        signal.pause()
    """)  # fmt: skip
    until(live, here.root / "ready")
    (SHARED / f"psm_other{mark}").touch()
    with (SHARED / f"psm_held{mark}").open("w"):
        live.end()
        left = sorted(path.name for path in SHARED.iterdir() if mark in path.name)
    for name in left:
        (SHARED / name).unlink()
    expected = {f"psm_{what}{mark}" for what in ("before", "held", "other")} | {f"my_{mark}"}
    assert set(left) == expected | {f"torch_{os.getpid()}_{mark}_2"}


def test_python_removes_the_shared_memory_it_tracks(here: Place) -> None:
    live = start(here, f"""
        import signal, time
        from multiprocessing.shared_memory import SharedMemory
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        memory = SharedMemory("no_known_name_{here.mark[:8]}", create=True, size=1000)
        open("ready", "w").write(memory.name)
        time.sleep(99)
    """)  # fmt: skip
    ready = here.root / "ready"
    assert live.wait(time.monotonic() + LONG, lambda: ready.exists() and bool(ready.read_text()))
    name = ready.read_text()
    assert (SHARED / name).exists()
    live.end()
    assert not (SHARED / name).exists()


def test_shared_memory_of_others_is_none_of_ours() -> None:
    before = shared_memory.Before(frozenset(), time.time() + 3600)
    file = SHARED / f"psm_tlt{os.getpid()}"
    file.touch()
    shared_memory.sweep(before, set(), {file.stat().st_ino})  # older than the run
    assert file.exists()
    file.unlink()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (1, "ended with exit code 1"),
        (-9, "killed by signal 9 (SIGKILL): perhaps out of memory"),
        (137, "killed by signal 9 (SIGKILL): perhaps out of memory"),
        (-15, "killed by signal 15 (SIGTERM)"),
        (-60, "killed by signal 60"),
        (255, "ended with exit code 255"),
        (None, "did not end"),
    ],
)
def test_an_end_in_words(code: int | None, words: str) -> None:
    assert in_words(code) == words


def test_a_number_that_was_given_again_is_another_process() -> None:
    me = processes.identify(os.getpid())
    assert me is not None
    assert processes.is_alive(me)
    assert not processes.is_alive(processes.Process(me.pid, "another time"))
    assert processes.identify(2**22 + 1) is None


def test_a_process_that_only_has_to_be_waited_for_is_gone() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.identify(child.pid) is None
    child.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_interrupt_as_well(number: signal.Signals) -> None:
    def work() -> None:
        with signals_interrupt():
            os.kill(os.getpid(), number)
            time.sleep(LONG)

    before = signal.signal(number, signal.SIG_DFL)  # `nohup` has SIGHUP ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_what_nohup_has_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_interrupt():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_put_away_is_put_away_before_an_interrupt() -> None:
    done = []

    def work() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(1)
        done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]


def test_in_another_thread_signals_stay_as_they_are(here: Place) -> None:
    codes = []

    def work() -> None:
        with signals_interrupt():
            live = start(here, "")
            wait(live)
            live.end()
            codes.append(live.code)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert codes == [0]


def test_a_semaphore_that_another_process_still_has_is_left_alone() -> None:
    before = shared_memory.Before(shared_memory.look(), time.time())
    semaphore = multiprocessing.get_context("spawn").Semaphore(1)
    file = SHARED / f"sem.{semaphore._semlock.name[1:]}"
    shared_memory.sweep(before, set(), {file.stat().st_ino})
    assert file.exists()  # a process that is spawned now opens it by its name
