"""What only a pretended GPU can be made to do, and how awkward it is: as much as a real one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_tools import ROOT, Cuda, fake_cuda
from test_worker_on_cuda import STEPS, script
from worker_tools import Project

from torchlint.verify.model import Phase

ASKS = """
import os, torch
def child():
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        torch.ones(1, device="cuda")
    except RuntimeError as error:
        os._exit(3 if "Cannot re-initialize CUDA in forked subprocess" in str(error) else 4)
    os._exit(0)
print(child(), torch.cuda.is_initialized(), child(), torch.cuda.is_available(), child())
"""
FORKS = """
import os, torch
pid = os.fork()
if not pid:
    torch.ones(1, device="cuda")
    os._exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(status, flush=True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).square().mean().backward()
    optimizer.step()
"""
AWKWARD = """
import warnings
warnings.simplefilter("always")
import torch
def told(call):
    with warnings.catch_warnings(record=True) as caught:
        call()
    return [str(each.message)[:40] for each in caught]
def profiles(profiler):
    waits = []
    wait = torch.cuda.synchronize
    torch.cuda.synchronize = lambda: waits.append(1) or wait()
    with profiler:
        torch.ones(1, device="cuda")
    torch.cuda.synchronize = wait
    return len(waits)
free = torch.cuda.mem_get_info()[0]
assert free < 2**34
for _ in range(2):
    print(told(lambda: torch.cuda.set_sync_debug_mode("warn")))
    print(told(lambda: torch.ones(1, device="cuda").item()))
torch.cuda.set_sync_debug_mode("default")
print(told(lambda: print(profiles(torch.profiler.profile()))))
own = torch.autograd.profiler.profile(use_cpu=False, use_device="cuda", use_kineto=True)
print(told(lambda: print(profiles(own))))
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    there = torch.ones(9, device="cuda")
there.record_stream(stream)
print(torch.cuda.memory_stats()["allocated_bytes.all.peak"] > 0)
try:
    torch.ones(10**6, device="cuda")
except torch.cuda.OutOfMemoryError as error:
    print(str(error)[:47])
"""
# What torch's own code asks a driver for: on a build for CUDA, without a GPU, that raises.
DRIVER = """
import torch, fake_cuda
def driver(*_words):
    raise RuntimeError("Found no NVIDIA driver on your system")
names = "getDevice setDevice exchangeDevice maybeExchangeDevice getDeviceCount isInBadFork init"
for name in [*names.split(), "isCurrentStreamCapturing", "synchronize"]:
    setattr(torch._C, "_cuda_" + name, driver)
torch.cuda.graphs._cuda_isCurrentStreamCapturing = driver
fake_cuda.keep_from_driver()
with torch.cuda.device(0):
    model = torch.nn.Linear(3, 2).cuda()
optimizer = torch.optim.Adam(model.parameters())
drawn = torch.rand(2, 3, generator=torch.Generator(device="cuda").manual_seed(0)).cuda()
model(drawn).sum().backward()
optimizer.step()
torch.cuda.set_rng_state(torch.cuda.get_rng_state())
with torch.random.fork_rng():
    torch.manual_seed(0)
loader = torch.utils.data.DataLoader(torch.ones(4, 3), 2, num_workers=1, pin_memory=True)
print(sum(len(batch.to("cuda", non_blocking=True)) for batch in loader))
print(torch._C._cuda_getDevice(), torch.cuda.is_current_stream_capturing())
"""


def told(text: str, cuda: Cuda | None = None) -> list[str]:
    done = (cuda or fake_cuda()).python("-c", text)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_child_that_was_forked_after_cuda_was_asked_for_cannot_use_it() -> None:
    """Only to ask whether it is there is enough, as on a build for CUDA."""
    assert told(ASKS) == ["0 False 0 True 3"]


@pytest.mark.parametrize("phase", list(Phase))
def test_the_worker_asks_nothing_of_cuda_before_the_script_does(tmp_path, phase) -> None:
    done = Project(tmp_path, fake_cuda().environment).run(FORKS, phase, STEPS)
    assert (done.code, done.out) == (0, "7\n"), done.err


def test_profilers_warn_and_wait_notices_come_once_and_memory_runs_out() -> None:
    notice = ["Synchronization debug mode is a prototyp"]
    sync = "called a synchronizing CUDA operation (T"
    assert told(AWKWARD, fake_cuda(FAKE_CUDA_ROOM="100000")) == [
        str(notice), str([sync]), "[]", str([sync]),
        "1", "['Warning: Profiler clears events at the e']",
        "1", "[]",
        "True",
        "CUDA out of memory. Tried to allocate 3.81 MiB.",
    ]  # fmt: skip


def test_the_pretence_asks_no_driver_on_a_build_for_cuda_without_a_gpu() -> None:
    assert told(DRIVER) == ["4", "0 False"]


def test_processes_find_what_is_on_the_inherited_python_path(monkeypatch) -> None:
    """On a bare machine libcst is there alone: without it nothing of torchlint runs."""
    find = "import libcst, torchlint; print(libcst.__file__)"
    inherited = os.environ["PYTHONPATH"].split(os.pathsep)
    assert told(find)[0].startswith(inherited[0])
    project = Project(ROOT / "absent", fake_cuda().environment)
    assert set(inherited) <= set(project.variables()["PYTHONPATH"].split(os.pathsep))
    monkeypatch.delenv("PYTHONPATH")
    assert "No module named 'libcst'" in fake_cuda().python("-c", find).stderr


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="the driver is told there")
@pytest.mark.parametrize(("phase", "driver"), [(Phase.PILOT, "570.86.15"), (Phase.TIMING, None)])
def test_only_the_pilot_asks_nvidia_smi_for_the_driver(tmp_path, phase, driver) -> None:
    """It takes up to a second, which is no cost of each run."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 570.86.15\n")
    tool.chmod(0o755)
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    project = Project(tmp_path, fake_cuda(PATH=path).environment)
    assert project.run(script(), phase, STEPS).only.driver == driver


def test_without_a_profiler_the_share_is_not_known(tmp_path) -> None:
    """A script may have its own profiler, and on some machines there is none."""
    project = Project(tmp_path, fake_cuda(FAKE_CUDA="no-profiler").environment)
    done = project.run(script(), Phase.TRACE, replace(STEPS, steps=30))
    assert done.code == 0
    assert done.only.busy is None


@pytest.mark.parametrize(
    ("profiler", "steps"),
    [("", 30), ("old-profiler", 270)],
    ids=["ended-by-the-worker", "ended-by-itself"],  # after 100 steps, with a profiler under way
)
def test_the_share_is_that_of_kernels_each_moment_counted_once(tmp_path, profiler, steps) -> None:
    project = Project(tmp_path, fake_cuda(FAKE_CUDA=profiler).environment)
    busy = project.run(script(), Phase.TRACE, replace(STEPS, steps=steps)).only.busy
    assert busy is not None
    assert 0.4 < busy < 1  # a half, and more of what is left when our own time is taken off


def collected(cuda: Cuda, *options: str) -> tuple[int, str]:
    """Collect these tests with pytest alone: a borrowed machine has none of its plugins."""
    plugins = [
        word for name in ("randomly", "xdist", "pytest_cov") for word in ("-p", f"no:{name}")
    ]
    words = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *plugins]
    done = cuda.python(*words, "tests/gpu", *options, folder=ROOT)
    return done.returncode, done.stdout + done.stderr


def test_plain_pytest_without_plugins_leaves_tests_of_a_gpu_out() -> None:
    code, text = collected(Cuda("none"), "--strict-config")
    assert code == 0, text
    assert "[fake" in text
    assert "[gpu" not in text
    assert "deselected" in text


def test_asking_for_them_without_a_gpu_is_an_error() -> None:
    code, text = collected(Cuda("none", {"CUDA_VISIBLE_DEVICES": ""}), "-m", "gpu")
    assert code == 4
    assert "no CUDA device" in text


@pytest.mark.parametrize(
    ("asked", "slow"), [("gpu", False), ("gpu and slow", True)], ids=["alone", "named"]
)
def test_tests_of_a_gpu_that_are_slow_are_left_out_unless_they_are_named(asked, slow) -> None:
    code, text = collected(fake_cuda(), "-m", asked)
    assert code == 0, text
    assert "[gpu" in text
    assert ("goes_on_where_it_stopped[gpu]" in text) is slow
    assert ("test_the_report_is_of_the_gpu[gpu]" in text) is not slow
