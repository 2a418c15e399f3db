"""What the worker sees of a GPU: its own clock, its memory, what waits for it, how busy it is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from worker_tools import Project, Ran

from torchlint.verify.model import Anchor, Bounds, Phase

if TYPE_CHECKING:
    from gpu_tools import Cuda

pytestmark = pytest.mark.xdist_group("worker")  # with --dist loadgroup one process has them all
STEPS = Bounds(steps=8, warmup=2, seconds=120, anchor=Anchor("optimizer"))
TRACE = replace(STEPS, steps=16, warmup=0)
BIG = 2**28  # bytes
# A step costs the host next to nothing and the GPU 10 ms or more: 2e7 cycles at 2 GHz or less.
SCRIPT = """
import os, time, warnings
print(os.environ.get('KINETO_LOG_LEVEL'))
import torch
model = torch.nn.Linear(4, 2).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.ones(3, 4, device="cuda")
for step in range(100):
    torch.cuda._sleep(20_000_000)
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    {more}
"""
SLEEP = 0.01  # seconds
WAITING = {
    "loss.item()": "item",
    "f'{loss:.3f}'": "item",
    "loss.cpu()": "cpu",
    "float(loss.detach())": "float",
    "bool(loss > 0)": "bool",
    "torch.ones(1).to('cuda')": "sync",  # from memory that is not pinned
    "loss.to('cpu')": "sync",
    "torch.cuda.synchronize()": "synchronize",
}
PROFILER = """
import torch
from torchlint.verify.inject._torchlint_worker.busy import profiler
inputs = torch.ones(64, 64, device="cuda")
with profiler(torch) as profile:
    for _ in range(20):
        inputs = inputs @ inputs * 0.01
    torch.cuda.synchronize()
kinds = [str(event.device_type()) for event in profile.kineto_results.events()]
print(sum("CUDA" in kind for kind in kinds))
"""
RUNNING_AHEAD = ("total = loss.detach() * 2", "torch.ones(1).to('cuda', non_blocking=True)")


@pytest.fixture(scope="module")
def project(tmp_path_factory, cuda: Cuda) -> Project:
    return Project(tmp_path_factory.mktemp("worker"), cuda.environment)


@pytest.fixture(scope="module")
def strict(tmp_path_factory, cuda: Cuda) -> Project:
    """Where each warning is an error: torch's about the worker's own doing too."""
    return Project(tmp_path_factory.mktemp("strict"), cuda.strict.environment)


def script(*more: str) -> str:
    return SCRIPT.format(more="\n    ".join(more or ["pass"]))


def line_of(text: str, piece: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if piece in line)


@pytest.fixture(scope="module")
def timed(project) -> Ran:
    """Steps are timed while the host runs ahead and, at first, a tensor is large."""
    begin = "began = time.perf_counter() if step == 5 else began"
    tell = "print(time.perf_counter() - began) if step == 55 else None"
    text = script(begin, tell, "del big", "torch.cuda.empty_cache()")
    text = text.replace("for step", "began = 0.0\nfor step", 1).replace(
        "torch.cuda._sleep",
        f"big = torch.ones({BIG // 4} if step < 1 else 1, device='cuda'); torch.cuda._sleep",
    )
    return cleared(project).run(text, Phase.TIMING, replace(STEPS, steps=60))


def cleared(project: Project) -> Project:
    """Return a project without the records of earlier runs: tests come in any order."""
    for file in project.records.glob("*"):
        file.unlink()
    return project


def test_steps_are_timed_on_the_clock_of_the_device(timed) -> None:
    times = timed.only.steps[0]
    lengths = [after - before for before, after in pairwise(times[STEPS.warmup - 1 :])]
    assert len(times) == 60
    assert min(lengths[:-1]) >= 0.9 * SLEEP  # the host alone is through in a fraction of that
    assert times[-1] - times[STEPS.warmup - 1] >= 0.9 * len(lengths) * SLEEP


def test_the_host_runs_ahead_within_a_window(timed) -> None:
    """Nothing waits between its ends: what waited would be as long for the host as for the GPU."""
    assert timed.only.ended == "bound"
    assert float(timed.out.split()[-1]) < 0.9 * 50 * SLEEP  # only the window's beginning waited


def test_the_name_and_the_versions_are_those_of_the_gpu(timed, cuda) -> None:
    assert timed.only.device == cuda.name
    assert timed.only.cuda


def test_peaks_of_memory_are_those_of_the_window(timed) -> None:
    memory = timed.only.memory
    assert 0 < memory["allocated"] < BIG
    assert memory["allocated"] <= memory["reserved"]


def test_a_model_on_the_cpu_is_on_the_cpu_though_there_is_a_gpu(project) -> None:
    text = script().replace(', device="cuda"', "").replace('.to("cuda")', "")
    assert cleared(project).run(text, Phase.TIMING, STEPS).only.device == "CPU"


@pytest.fixture(scope="module")
def text() -> str:
    return script(*WAITING, *RUNNING_AHEAD)


@pytest.fixture(scope="module")
def traced(strict, text) -> Ran:
    return strict.run(text, Phase.TRACE, TRACE)


def reads(ran: Ran) -> dict[int, tuple[str, int]]:
    assert ran.code == 0, ran.err
    assert ran.only.trace is not None
    assert {read.file for read in ran.only.trace.reads} == {"train.py"}  # not the worker's own
    return {read.line: (read.call, read.count) for read in ran.only.trace.reads}


@pytest.mark.parametrize(("statement", "call"), WAITING.items())
def test_what_waits_is_counted_once_by_its_line(traced, text, statement, call) -> None:
    # the run ends in the last step, before this line
    assert reads(traced)[line_of(text, statement)] == (call, TRACE.steps - 1)


def test_steps_that_do_not_wait_are_not_counted(traced, text) -> None:
    """Neither what runs ahead, nor the profiler that waits for the device where it ends."""
    loop = range(line_of(text, "for step"), len(text.splitlines()) + 1)
    found = {line for line in reads(traced) if line in loop}
    assert found == {line_of(text, statement) for statement in WAITING}


def test_the_worker_is_not_heard_where_warnings_are_errors(traced) -> None:
    """Torch warns of the profiler and of the sync debug mode: a script would fail by that."""
    assert (traced.code, traced.err) == (0, "")
    assert traced.out == "6\n"  # of kineto, which logs on stderr


def test_the_share_of_time_with_work_is_read_off_the_profiler(traced) -> None:
    assert traced.only.busy is not None
    assert 0 < traced.only.busy <= 1


def test_the_profiler_of_the_worker_sees_kernels(cuda) -> None:
    """The very function: with a GPU, it is called for real here."""
    done = cuda.strict.python("-c", PROFILER)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 0


def test_timed_runs_have_no_profiler_as_it_stays_attached(timed) -> None:
    assert timed.only.busy is None


def test_the_script_may_make_errors_of_warnings_late(tmp_path, cuda) -> None:
    """Its own warnings come as ever, once, by its own filters."""
    text = script(
        "warnings.simplefilter('default')", "warnings.warn('mine')",
        "warnings.simplefilter('error')", "loss.item()",
    )  # fmt: skip
    ran = Project(tmp_path, cuda.environment).run(text, Phase.TRACE, STEPS)
    assert reads(ran)[line_of(text, "loss.item()")] == ("item", STEPS.steps - 1)
    assert ran.err.count("UserWarning: mine") >= 1
    assert "synchroniz" not in ran.err.lower()


def test_losses_and_parameters_are_compared_across_runs(tmp_path, traced, cuda, text) -> None:
    first = traced.only.trace
    chosen = {**cuda.environment, "KINETO_LOG_LEVEL": "5"}
    again = Project(tmp_path, chosen).run(text, Phase.TRACE, TRACE)
    assert first is not None
    assert len(first.losses) == TRACE.steps
    assert None not in first.losses
    assert first == again.only.trace
    assert (again.out, again.err) == ("5\n", "")  # what the user has set stays
