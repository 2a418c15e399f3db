"""What the worker sees of a GPU: its own clock, its memory, what waits for it, how busy it is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from worker_tools import Project

from torchlint.verify.model import Anchor, Bounds, Phase, Read

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tools import Cuda

STEPS = Bounds(steps=8, warmup=2, seconds=120, anchor=Anchor("optimizer"))
BIG = 2**28  # bytes
# A step costs the host next to nothing and the GPU 10 ms or more: 2e7 cycles at 2 GHz or less.
SCRIPT = """
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
PROFILED = """
import torch
own = torch.autograd.profiler.profile
torch.autograd.profiler.profile = lambda *words, **named: print("profiled") or own(*words, **named)
"""
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
SLEEP = 0.01  # seconds


@pytest.fixture
def project(tmp_path: Path, cuda: Cuda) -> Project:
    return Project(tmp_path, cuda.environment)


def script(more: str = "pass") -> str:
    return SCRIPT.format(more=more)


def line_of(text: str, piece: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if piece in line)


def test_steps_are_timed_on_the_clock_of_the_device(project) -> None:
    record = project.run(script(), Phase.TIMING, STEPS).only
    times = record.steps[0]
    lengths = [after - before for before, after in pairwise(times[STEPS.warmup - 1 :])]
    assert len(times) == STEPS.steps
    assert min(lengths[:-1]) >= 0.9 * SLEEP  # the host alone is through in a fraction of that
    assert times[-1] - times[STEPS.warmup - 1] >= 0.9 * len(lengths) * SLEEP


def test_the_host_runs_ahead_within_a_window(project) -> None:
    """Nothing waits between its ends: what waited would be as long for the host as for the GPU."""
    text = script("import time; host.append(time.perf_counter())").replace(
        "import torch", "import atexit, torch; host = []", 1
    )
    done = project.run(
        text + "\nprint(host[-1] - host[0])", Phase.TIMING, replace(STEPS, steps=200)
    )
    assert done.only.ended == "exit"
    times = done.only.steps[0]
    assert float(done.out) < 0.9 * 100 * SLEEP  # only the window's beginning waited
    assert len(times) == 100


def test_the_name_and_the_versions_are_those_of_the_gpu(project, cuda) -> None:
    record = project.run(script(), Phase.TIMING, STEPS).only
    assert record.device == cuda.name
    assert record.cuda


def test_a_model_on_the_cpu_is_on_the_cpu_though_there_is_a_gpu(project) -> None:
    record = project.run(
        script().replace(', device="cuda"', "").replace('.to("cuda")', ""), Phase.TIMING, STEPS
    ).only
    assert record.device == "CPU"


def test_peaks_of_memory_are_those_of_the_window(project) -> None:
    text = script().replace(
        "torch.cuda._sleep",
        f"big = torch.ones({BIG // 4} if step < 1 else 1, device='cuda'); torch.cuda._sleep",
        1,
    )
    text = text.replace("optimizer.step()", "optimizer.step(); del big; torch.cuda.empty_cache()")
    memory = project.run(text, Phase.TIMING, STEPS).only.memory
    assert 0 < memory["allocated"] < BIG
    assert memory["allocated"] <= memory["reserved"]


def reads(project, text: str) -> set[Read]:
    done = project.run(text, Phase.TRACE, replace(STEPS, warmup=0))
    assert done.code == 0, done.err
    assert done.err == ""  # torch warns the worker, not the script's reader
    assert done.only.trace is not None
    return set(done.only.trace.reads)


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("loss.item()", "item"),
        ("f'{loss:.3f}'", "item"),
        ("loss.cpu()", "cpu"),
        ("float(loss.detach())", "float"),
        ("bool(loss > 0)", "bool"),
        ("torch.ones(1).to('cuda')", "sync"),  # from memory that is not pinned
        ("loss.to('cpu')", "sync"),
        ("torch.cuda.synchronize()", "synchronize"),
    ],
)
def test_what_waits_is_counted_once_by_its_line(project, statement, call) -> None:
    text = script(statement)
    line = line_of(text, statement)
    found = {read for read in reads(project, text) if read.line >= line_of(text, "for step")}
    # the run ends in the last step, before this line
    assert found == {Read("train.py", line, call, STEPS.steps - 1)}


def test_steps_that_do_not_wait_are_not_counted(project) -> None:
    text = script("total = loss.detach() * 2; torch.ones(1).to('cuda', non_blocking=True)")
    assert not [read for read in reads(project, text) if read.line >= line_of(text, "for step")]


def test_warnings_of_the_script_are_its_own(project) -> None:
    """Also where it makes errors of them, and sets its filters late."""
    text = script("warnings.simplefilter('error'); loss.item()").replace(
        "import torch", "import warnings; warnings.simplefilter('error'); import torch", 1
    )
    read = {Read("train.py", line_of(text, "loss.item()"), "item", STEPS.steps - 1)}
    assert read <= reads(project, text)
    told = project.run(script("import warnings; warnings.warn('mine')"), Phase.TRACE, STEPS)
    assert told.err.count("mine") == 2  # the text of the warning, and the line that has it


def test_warnings_as_errors_do_not_end_a_script_whose_gpu_is_profiled(tmp_path, cuda) -> None:
    """Nor is anything told on its stderr, nor what the profiler waits for counted as its read."""
    project = Project(tmp_path, cuda.strict.environment)
    done = project.run(script(), Phase.TRACE, replace(STEPS, steps=30))
    assert (done.code, done.err) == (0, "")
    assert done.only.ended == "bound"
    assert done.only.busy is not None
    assert 0 < done.only.busy <= 1
    assert done.only.trace is not None
    loop = line_of(script(), "for step")
    assert not [read for read in done.only.trace.reads if read.line >= loop]


def test_timed_runs_have_no_profiler_as_it_stays_attached(project) -> None:
    text = script().replace("import torch", PROFILED, 1)
    done = project.run(text, Phase.TIMING, STEPS)
    assert (done.code, done.out) == (0, ""), done.err
    done = project.run(text, Phase.TRACE, STEPS)
    assert "profiled" in done.out


def test_the_profiler_of_the_worker_sees_kernels(cuda) -> None:
    """The very function: on a build for CUDA, with a GPU, it is called for real here."""
    done = cuda.python("-W", "error", "-c", PROFILER)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 0


def test_losses_and_parameters_are_compared_across_runs(project) -> None:
    first = project.run(script(), Phase.TRACE, STEPS).only.trace
    for file in project.records.iterdir():
        file.unlink()
    second = project.run(script("pass # other text"), Phase.TRACE, STEPS).only.trace
    assert first is not None
    assert first.losses
    assert None not in first.losses
    assert first == second
