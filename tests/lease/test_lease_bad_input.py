"""Whatever a part does, it costs only itself, is told in one line, and leaves no process."""

from __future__ import annotations

import os
import re
import signal
import sys
import uuid

import pytest
from lease_parts.process import Process
from lease_tools import begin, lease, named, wait_for, words_of

GOOD = "print('it ran')"
ESCAPES = """
import os, subprocess, sys
subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)", {name}],
    start_new_session=True, env={env}, stdout={stdout},
)
"""


@pytest.fixture
def name():
    """A word in the command line of processes that a part starts; none may be left."""
    word = f"stray-{uuid.uuid4().hex}"
    yield word
    for process in named(word):
        os.kill(process, signal.SIGKILL)


def escapes(name: str, env: str = "None", stdout: str = "None") -> str:
    halves = f"{name[:9]!r} + {name[9:]!r}"  # the run's own command line does not hold the word
    return ESCAPES.format(name=halves, env=env, stdout=stdout)


@pytest.mark.parametrize(
    "deed", ["1/0", "import os; os.abort()", "import os; os._exit(9)", "import sys; sys.exit(3)"]
)
def test_a_part_that_fails_costs_only_itself(tmp_path, deed):
    run = lease(tmp_path / "out", {"rules": deed, "scripts": GOOD})
    assert run.code == 3
    assert "scripts: done" in run.text("summary.txt")
    assert "it ran" in run.text("log.txt")
    told = [line for line in run.text("summary.txt").splitlines() if line.startswith("rules: ")]
    assert "done" not in told[0]


def test_all_done_is_0_and_some_left_is_3(tmp_path):
    assert lease(tmp_path / "done", {"rules": GOOD, "scripts": GOOD}).code == 0
    run = lease(tmp_path / "left", {"rules": "import sys; sys.exit(3)", "scripts": GOOD})
    assert run.code == 3
    assert "rules: some left" in run.text("summary.txt")


def test_no_device_ends_the_run_with_2(tmp_path):
    run = lease(
        tmp_path, {"probe": "print('error: no device'); raise SystemExit(2)", "rules": GOOD}
    )
    assert run.code == 2
    assert "it ran" not in run.text("log.txt")
    assert "error: no device" in run.text("summary.txt")


def test_a_part_that_hangs_leaves_its_stack(tmp_path):
    hangs = (
        "import faulthandler, signal, time\n"
        "faulthandler.register(signal.SIGUSR2)\n"
        "def waits_for_nothing():\n    time.sleep(600)\n"
        "waits_for_nothing()"
    )
    run = lease(tmp_path, {"rules": hangs, "scripts": GOOD}, 6)
    assert "waits_for_nothing" in run.text("failures.txt")
    assert "rules: its time was over" in run.text("summary.txt")
    assert "it ran" in run.text("log.txt")


WAITS = "import time\ndef waits_for_nothing():\n    time.sleep(600)\nwaits_for_nothing()"
UNPREPARED = {
    "alone": WAITS,
    "a grandchild": f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {WAITS!r}])",
    "deaf": f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{WAITS}",
    "caught": f"import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)\n{WAITS}",
}


@pytest.mark.parametrize("script", UNPREPARED.values(), ids=UNPREPARED)
def test_a_part_that_is_not_prepared_to_hang_leaves_its_stack_too(tmp_path, script):
    seconds = 9 if "subprocess" in script else 6  # two processes have to start before it is over
    run = lease(tmp_path, {"rules": script, "scripts": GOOD}, seconds)
    assert "in waits_for_nothing" in run.text("failures.txt")
    assert "its time was over" not in run.text("failures.txt")
    assert "rules: its time was over" in run.text("summary.txt")
    assert "it ran" in run.text("log.txt")


@pytest.mark.parametrize(
    "prepares",
    ["", "import faulthandler, signal; faulthandler.register(signal.SIGUSR2)\n"],
    ids=["aborted", "asked, then aborted"],
)
def test_stacks_of_one_command_do_not_mix(tmp_path, prepares):
    deep = (
        f"{prepares}import pathlib, sys, time\n"
        "def sleeps():\n    pathlib.Path(sys.argv[1]).touch()\n    time.sleep(600)\n"
        "def waits(calls):\n    waits(calls - 1) if calls else sleeps()\n"
        "waits(29)"
    )
    starts = (
        "import subprocess, sys\n"
        f"some = [subprocess.Popen([sys.executable, '-c', {deep!r}, name]) for name in '1234']\n"
        "for one in some: one.wait()"
    )
    lines = []
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    command = Process([sys.executable, "-c", starts], environment, tmp_path, lines.append)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 4)
    command.stop()
    whole = [line for line in lines if re.fullmatch(r'  File "<string>", line \d in waits', line)]
    assert len(whole) == 4 * 30 * (2 if prepares else 1)


def test_a_part_that_ignores_sigterm_is_ended(tmp_path, name):
    ignores = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    script = ignores + escapes(name) + "import time; time.sleep(600)"
    run = lease(tmp_path, {"rules": script, "scripts": GOOD}, 6)
    assert "it ran" in run.text("log.txt")
    assert not named(name)


def test_a_part_may_end_in_order_on_sigterm(tmp_path):
    ends = (
        "import signal, sys, time\n"
        "def end(*_):\n    print('all is written'); sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "time.sleep(600)"
    )
    assert "all is written" in lease(tmp_path, {"rules": ends}, 4).text("log.txt")


def test_a_part_that_ends_in_order_finds_its_children_alive(tmp_path):
    ends = (
        "import signal, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "def end(*_):\n    time.sleep(0.2); print('child:', child.poll()); sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "time.sleep(600)"
    )
    assert "child: None" in lease(tmp_path, {"rules": ends}, 4).text("log.txt")


@pytest.mark.parametrize("env", ["None", "{}"], ids=["marked", "emptied"])
def test_grandchildren_in_sessions_of_their_own_are_ended(tmp_path, name, env):
    stays = escapes(name, env) + "import time; time.sleep(600)"
    run = lease(tmp_path, {"rules": stays, "scripts": GOOD}, 6)
    assert not named(name)
    assert "it ran" in run.text("log.txt")


def test_what_outlives_its_part_is_ended_and_told(tmp_path, name):
    run = lease(tmp_path, {"rules": escapes(name), "scripts": GOOD})
    assert not named(name)
    assert "1 processes outlived it" in run.text("summary.txt")
    assert "it ran" in run.text("log.txt")


def test_a_full_disk_costs_the_lines(tmp_path):
    script = "import resource\nprint('x' * 9000)\nprint('it ' + 'ran')"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)); "
    words = words_of(tmp_path, {"rules": script, "scripts": GOOD}, 20)
    words[2] = f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); {limit}" + words[2]
    with begin(words) as process:
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 0, said
    assert said.count("log.txt is not written: File too large") == 1
    assert "scripts: done" in said


def test_a_full_disk_and_a_closed_terminal_do_not_end_the_run(tmp_path):
    script = "import pathlib, time\ntime.sleep(1)\nprint('x' * 9000)\npathlib.Path({!r}).touch()"
    words = words_of(tmp_path, {"rules": script.format(str(tmp_path / "ran"))}, 20)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)); "
    words[2] = f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); {limit}" + words[2]
    with begin(words) as process:
        process.stdout.close()
        assert process.wait(timeout=30) == 0
    assert (tmp_path / "ran").exists()


def test_what_is_ended_leaves_no_dump_of_its_memory(tmp_path):
    script = "import resource; print('limit', resource.getrlimit(resource.RLIMIT_CORE))"
    assert "limit (0, 0)" in lease(tmp_path, {"rules": script}).text("log.txt")


def test_a_part_that_prints_much_does_not_block(tmp_path):
    much = "import sys\nfor _ in range(300): sys.stdout.write('y' * 2**18)\nprint('\\nthe end')"
    run = lease(tmp_path, {"rules": much})
    assert run.code == 0
    assert "the end" in run.text("log.txt")
    assert len(run.text("log.txt")) < 2**20


def test_a_second_run_into_the_same_folder_is_refused(tmp_path):
    words = words_of(tmp_path, {"rules": "import time; time.sleep(600)"}, 60)
    with begin(words) as first:
        wait_for(
            lambda: "rules" in log.read_text() if (log := tmp_path / "log.txt").is_file() else ""
        )
        second = lease(tmp_path, {"rules": GOOD})
        first.terminate()
        first.communicate(timeout=30)
    assert second.code == 2
    assert "another lease.py writes there" in second.said
    assert lease(tmp_path, {"rules": GOOD}).code == 0  # the lock went with its owner


def stray_that_lives(name, words):
    process = begin(words)
    wait_for(lambda: named(name))
    return process


@pytest.mark.parametrize("env", ["None", "{}"], ids=["marked", "emptied"])
def test_sigkill_of_the_command_leaves_no_process(tmp_path, name, env):
    stays = escapes(name, env, "subprocess.DEVNULL") + "import time; time.sleep(600)"
    with stray_that_lives(name, words_of(tmp_path, {"rules": stays}, 60)) as process:
        process.kill()
        process.communicate(timeout=30)
    wait_for(lambda: not named(name))


def test_sigkill_of_the_command_removes_its_caches(tmp_path, name):
    stays = escapes(name, stdout="subprocess.DEVNULL") + "import time; time.sleep(600)"
    words = words_of(tmp_path / "out", {"rules": stays}, 60)
    caches = tmp_path / "caches"
    caches.mkdir()
    with begin(words, env={**os.environ, "TMPDIR": str(caches)}) as process:
        wait_for(lambda: named(name))
        assert list(caches.iterdir())
        process.kill()
        process.communicate(timeout=30)
    wait_for(lambda: not list(caches.iterdir()))


def test_sigterm_of_the_command_still_writes_the_summary(tmp_path, name):
    stays = escapes(name, stdout="subprocess.DEVNULL") + "import time; time.sleep(600)"
    with stray_that_lives(name, words_of(tmp_path, {"rules": stays, "scripts": GOOD}, 60)) as run:
        run.terminate()
        run.communicate(timeout=30)
    assert run.returncode == 3
    assert "rules: the run was ended by SIGTERM" in (tmp_path / "summary.txt").read_text()
    assert not named(name)


def test_a_closed_terminal_does_not_end_the_run(tmp_path):
    script = "import time; time.sleep(1.5); print('it ' + 'ran')"
    with begin(words_of(tmp_path, {"rules": script}, 20)) as process:
        process.stdout.close()
        assert process.wait(timeout=30) == 0
    assert "it ran" in (tmp_path / "log.txt").read_text()


SMI = """#!/bin/sh
case "$1" in *{unknown}*) echo "Field is not valid"; exit 2;; esac
echo "timestamp, name"
while [ "$4" = 1 ]; do echo '2026/11/28, Fake GPU'; sleep 0.1; done
"""


def sampled(tmp_path, text):
    """Return what is in gpu.csv after a run of a second, with a program as nvidia-smi."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(text)
    tool.chmod(0o755)
    words = words_of(tmp_path / "out", {"rules": "import time; time.sleep(1.5)"}, 20)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with begin(words, env={**os.environ, "PATH": path}) as process:
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert not named(str(tool))
    return (tmp_path / "out" / "gpu.csv").read_text().splitlines()


@pytest.mark.parametrize("unknown", ["nothing", "event_reasons", "_reasons"])
def test_the_gpu_is_watched_while_the_run_lasts_whatever_its_driver_knows(tmp_path, unknown):
    names, *lines = sampled(tmp_path, SMI.format(unknown=unknown))
    assert names == "timestamp, name, stolen time [%], load"
    assert len(lines) > 1
    assert all(re.fullmatch(r"2026/11/28, Fake GPU, [\d.]*, [\d.]+", line) for line in lines)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 9\n", "no program"])
def test_without_an_answer_of_nvidia_smi_the_processors_are_watched(tmp_path, text):
    names, *lines = sampled(tmp_path, text)
    assert names == "timestamp, stolen time [%], load"
    assert lines


def test_a_command_that_cannot_be_started_costs_only_itself(tmp_path):
    words = words_of(tmp_path, {"rules": "never", "scripts": GOOD}, 20)
    python = "('/no/such/python' if name == 'rules' else sys.executable, "
    words[2] = words[2].replace("(sys.executable, ", python)
    with begin(words) as process:
        said = process.communicate(timeout=30)[0]
    assert process.returncode == 3
    assert "rules: cannot be started: " in said
    assert "scripts: done" in said
