"""A process a row: whatever a program does costs only its own row, and no process is left of it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest
from eager_tools import eager_path

from torchlint.bench import process
from torchlint.bench.model import Row
from torchlint.errors import TorchlintError
from torchlint.rule import Level

JOB = {"device": "cpu", "seed": 1, "seconds": 0.0, "turn": 0.0, "check": True}
HANGS = """
import time

def run(steps):
    if "again" in globals():
        time.sleep(600)
    globals()["again"] = True
    return 1
"""
SAME = "def run(steps):\n    return 1\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Its own folder for temporary files, and no more than one import of torch."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("scratch")))
    patch.setenv("PYTHONPATH", eager_path(os.environ.get("PYTHONPATH", "")))
    found = process.Server(Path(sys.executable), dict(os.environ))
    yield found
    found.close()
    patch.undo()


def asked(server, before, *, limit=60.0, **more):
    """Return what is said of a row, all its words together."""
    row = Row("TL1", "a-rule", "", "step", before, SAME, None, Level.E0)
    job = {**JOB, **server.write(0, row), **more}
    said = {}
    for words in server.ask(job, time.monotonic() + limit):
        said.update(words)
    return said


def hanging():
    return Row("TL1", "a-rule", "", "step", HANGS, SAME, None, Level.E0)


def left(server):
    """Return what still runs below a server."""
    return psutil.Process(server.process.pid).children(recursive=True)


DIES_AT_EXIT = """
import os, sys

class Last:
    def __del__(self, os=os):
        os.kill(os.getpid(), 11)

if hasattr(sys, "dropped"):  # what is dropped after the check has no such end
    last = Last()
sys.dropped = True

def run(steps):
    return 1
"""
GARBAGE = """
import os
print("garbage")
os.write(1, b"more { garbage\\n")

def run(steps):
    print("garbage")
    return 1
"""
STARTS = (
    """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
"""
    + SAME
)
LOADER = """
import torch
from torch.utils.data import DataLoader
loader = DataLoader(torch.arange(8.0), batch_size=4, num_workers=2, persistent_workers=True)

def run(steps):
    for _ in range(steps):
        found = [batch for batch in loader]
    return 1
"""


@pytest.mark.parametrize(
    ("before", "ended", "why"),
    [
        pytest.param("raise ValueError('on purpose')", 1, "ValueError: on purpose", id="raises"),
        pytest.param("raise SystemExit(5)", 1, "SystemExit: 5", id="exits"),
        pytest.param("import os, sys\nsys.stderr.write('why')\nos._exit(3)", 3, "why", id="ends"),
        pytest.param("import os\nos.kill(os.getpid(), 9)", -9, "", id="is killed"),
    ],
)
def test_a_program_that_ends_gives_no_answer_but_says_how_it_ended(server, before, ended, why):
    said = asked(server, before)
    assert said["ended"] == ended
    assert "before" not in said
    assert why in said["said"] + said.get("error", "")
    assert not left(server)
    assert asked(server, SAME)["ended"] == 0  # the next one does not notice


@pytest.mark.parametrize(
    ("before", "ended"),
    [
        pytest.param(DIES_AT_EXIT, -11, id="dies at its end"),
        pytest.param(GARBAGE, 0, id="prints garbage"),
        pytest.param(STARTS, 0, id="leaves a process"),
        pytest.param(LOADER, 0, id="leaves workers"),
    ],
)
def test_what_was_answered_stays_and_no_process_does(server, before, ended):
    said = asked(server, before)
    assert said["before"]["wall"] > 0
    assert said["check"]["equal"]
    assert said["ended"] == ended
    assert not left(server)


def test_a_program_does_not_see_what_another_did(server):
    asked(server, "import sys\nsys.spoiled = True\nimport wave\n" + SAME)
    clean = "import sys\nassert not hasattr(sys, 'spoiled') and 'wave' not in sys.modules\n"
    assert "before" in asked(server, clean + SAME)


def test_a_program_that_hangs_is_ended_and_its_stack_is_told(server):
    said = asked(server, HANGS, patience=1.5)
    assert said["ended"] == "hung"
    assert "row_0_before.py" in said["stack"]
    assert "line 6 in run" in said["stack"]
    assert not left(server)


def test_the_end_of_the_time_stops_a_program(server):
    said = asked(server, "import time\ntime.sleep(600)", limit=1.0)
    assert said["ended"] == "stopped"
    assert not left(server)
    assert asked(server, SAME)["ended"] == 0


def test_nothing_is_left_when_the_command_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(process.tempfile, "tempdir", str(tmp_path))
    server = process.Server(Path(sys.executable), dict(os.environ))
    words = server.ask({**JOB, **server.write(0, hanging())}, time.monotonic() + 60)
    said = next(words)  # from the child: it has begun
    children = left(server)
    assert children, said
    server.process.stdin.close()  # as the system does for a command that is killed
    server.process.wait(10)
    psutil.wait_procs(children, timeout=5)
    assert not any(child.is_running() for child in children)
    assert not server.folder.exists()
    server.close()


def test_a_server_that_asked_for_cuda_is_replaced_by_one_that_imports_less():
    said = [{"poisoned": True}, {"poisoned": True}]
    servers = []

    class Fake:
        python = "python"

        def __init__(self, plain=False):
            self.plain, self.closed = plain, False
            servers.append(self)

        def ask(self, *_):
            yield said.pop(0)

        def close(self):
            self.closed = True

    with pytest.raises(TorchlintError, match="importing torch uses the GPU"):
        process.connect(Fake, "cuda")
    assert [each.plain for each in servers] == [False, True]
    assert all(each.closed for each in servers)
