"""What the worker does on CUDA, held against a fake of it: no GPU gave any of these figures."""

from __future__ import annotations

import itertools
import warnings
from types import SimpleNamespace

import pytest
from fake_cuda_tools import Profile, fake_torch

from torchlint.verify.inject._torchlint_worker import versions as versions_module
from torchlint.verify.inject._torchlint_worker.busy import Busy, covered
from torchlint.verify.inject._torchlint_worker.device import Device
from torchlint.verify.inject._torchlint_worker.plan import Turns
from torchlint.verify.inject._torchlint_worker.reads import Reads
from torchlint.verify.inject._torchlint_worker.syncs import Syncs
from torchlint.verify.inject._torchlint_worker.trace import Trace
from torchlint.verify.inject._torchlint_worker.versions import versions
from torchlint.verify.inject._torchlint_worker.window import Window

SECOND = 10**9
WARNING = "called a synchronizing CUDA operation (Triggered internally at x.cpp:1.)"


@pytest.fixture
def torch():
    return fake_torch()


@pytest.fixture
def state(torch):
    plan = SimpleNamespace(warmup=2, turns=None)
    return SimpleNamespace(plan=plan, device=Device(torch), trace=None, turns=[])


def run_steps(window, torch, count) -> list[int]:
    """Let the host run ahead: it notes all steps at once, the device needs 10 ms for each."""
    times: list[int] = []
    for step in range(count):
        torch.cuda.clock += 0.010
        times.append(step)
        window.step(times)
    return times


def test_the_device_is_waited_for_at_the_two_ends_of_a_window_only(torch, state) -> None:
    window = Window(state, lambda: None)
    times = run_steps(window, torch, 6)
    assert torch.cuda.calls == ["synchronize", "reset"]
    window.close()
    assert torch.cuda.calls == ["synchronize", "reset", "synchronize"]
    assert times[1] > 1


def test_steps_get_the_times_of_the_device(torch, state) -> None:
    window = Window(state, lambda: None)
    times = run_steps(window, torch, 6)
    window.close()
    lengths = [after - before for before, after in itertools.pairwise(times[1:-1])]
    assert lengths == pytest.approx([0.010 * SECOND] * 3, rel=1e-6)


def test_every_step_is_looked_at_where_events_mark_it(torch, state) -> None:
    window = Window(state, lambda: None)
    assert [window.due(count) for count in (0, 2, 3)] == [2, 3, 4]
    torch.cuda.started = False
    assert window.due(2) == float("inf")
    state.plan.turns = Turns(4, "go", "done")
    window = Window(state, lambda: None)
    assert [window.due(count) for count in (0, 2, 3, 6)] == [2, 6, 6, 10]
    state.plan.turns = Turns(4, "go", "done", warm=1)
    window = Window(state, lambda: None)
    assert [window.due(count) for count in (0, 2, 3, 6, 7)] == [2, 3, 7, 7, 8]


def test_memory_is_that_of_all_devices(torch) -> None:
    device = Device(torch)
    assert device.memory() == {"allocated": 201, "reserved": 401, "free": 300}
    torch.cuda.started = False
    assert device.memory() == {}


def test_the_device_has_the_name_of_where_the_parameters_are(torch) -> None:
    def optimizer(kind):
        tensor = SimpleNamespace(device=SimpleNamespace(type=kind))
        return SimpleNamespace(param_groups=[{"params": [tensor]}])

    device = Device(torch)
    assert device.name([optimizer("cuda")]) == "Fake GPU"
    assert device.name([optimizer("cpu")]) == "CPU"
    assert device.name([]) == "Fake GPU"


@pytest.mark.parametrize(
    ("spans", "length"),
    [([], 0), ([(0, 10), (5, 15), (20, 30)], 25), ([(0, 10), (2, 3)], 10), ([(5, 6), (0, 1)], 2)],
)
def test_kernels_that_overlap_count_once(spans, length) -> None:
    assert covered(spans) == length


def plan(**more: object) -> SimpleNamespace:
    return SimpleNamespace(**{"warmup": 0, "steps": 50, "root": "/", **more})


def test_busy_is_the_share_of_the_window_with_kernels(torch, monkeypatch) -> None:
    monkeypatch.setattr(
        Profile, "kernels", ((0, SECOND, "CUDA"), (0, SECOND, "CUDA"), (0, 9 * SECOND, "CPU"))
    )
    busy = Busy(torch, plan())
    busy.open()
    busy.began -= 4 * SECOND
    busy.close(torch.cuda.synchronize, 2 * SECOND)
    assert busy.share == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    ("steps", "warmup", "first"), [(50, 0, 30), (24, 0, 4), (8, 0, 1), (8, 2, 2), (50, 40, 40)]
)
def test_the_busy_share_is_that_of_the_last_steps_and_not_of_the_warm_up(
    torch, steps, warmup, first
) -> None:
    assert Busy(torch, plan(steps=steps, warmup=warmup)).first == first


def test_the_profiler_begins_at_that_step_of_a_trace(torch, tmp_path) -> None:
    torch.__file__ = str(tmp_path / "torch" / "__init__.py")
    device = Device(torch)
    trace = Trace(torch, plan(root=str(tmp_path)))
    opened = []
    for count in range(1, 51):
        trace.window_step(device, count)
        opened.append(trace.busy.profile is not None)
    assert opened == [False] * 29 + [True] * 21


def test_a_profiler_of_the_script_is_left_alone(torch) -> None:
    torch.autograd._profiler_enabled = lambda: True
    busy = Busy(torch, plan())
    busy.open()
    assert busy.profile is None


@pytest.mark.parametrize("error", [RuntimeError("none here"), UserWarning("an error by -W")])
def test_without_a_profiler_or_with_warnings_as_errors_the_share_is_unknown(torch, error) -> None:
    def fails(**_kinds):
        raise error

    torch.autograd.profiler.profile = fails
    busy = Busy(torch, plan())
    busy.open()
    busy.close(torch.cuda.synchronize, 0)
    assert busy.share is None


@pytest.mark.usefixtures("syncs")  # takes back what is put into `warnings`
def test_the_synchronize_of_the_profiler_is_not_a_read_of_the_script(
    torch, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(Profile, "cuda", torch.cuda)
    device = Device(torch)
    trace = Trace(torch, plan(root=str(tmp_path)))
    trace.syncs.keep()
    trace.window_step(device, trace.busy.first)
    trace.window_closes(device)
    assert torch.cuda.calls == ["synchronize"] * 3  # ours twice, the profiler's once
    assert trace.reads.content() == []


@pytest.fixture
def syncs(torch, tmp_path, monkeypatch):
    """The counting of synchronisations, taken back after the test."""
    torch.__file__ = str(tmp_path / "torch" / "__init__.py")
    for name in ("_showwarnmsg", "filterwarnings", "simplefilter", "resetwarnings"):
        monkeypatch.setattr(warnings, name, getattr(warnings, name))
    with warnings.catch_warnings():
        yield Syncs(torch, Reads(torch, plan(root=str(tmp_path))))


def test_nothing_is_done_before_the_script_uses_cuda(torch, syncs) -> None:
    torch.cuda.started = False
    syncs.keep()
    assert torch.cuda.mode == "default"


def test_a_warning_of_a_synchronisation_is_counted_and_not_shown(torch, syncs, capsys) -> None:
    syncs.keep()
    assert torch.cuda.mode == "warn"
    warnings.filterwarnings("ignore")
    syncs.keep()
    for _ in range(3):
        warnings.warn(WARNING, stacklevel=1)
    (read,) = syncs.reads.content()
    assert (read["call"], read["count"]) == ("sync", 3)
    assert read["file"] == __file__
    assert capsys.readouterr().err == ""


def test_the_notice_of_torch_is_neither_counted_nor_shown_nor_an_error(
    torch, syncs, capsys
) -> None:
    warnings.simplefilter("error")
    syncs.keep()
    assert torch.cuda.noticed
    assert syncs.reads.content() == []
    assert capsys.readouterr().err == ""


def test_what_was_shown_once_is_not_shown_again(syncs, monkeypatch) -> None:
    """Python forgets what it has shown when filters are changed by its own functions."""
    shown = []
    monkeypatch.setattr(warnings, "_showwarnmsg", shown.append)
    warnings.simplefilter("default")

    def script() -> None:
        warnings.warn("once by its line", stacklevel=1)

    script()
    syncs.keep()
    script()
    assert [str(each.message) for each in shown] == ["once by its line"]


def test_other_warnings_are_shown_as_ever(syncs) -> None:
    syncs.keep()
    with pytest.warns(UserWarning, match="something else"):
        warnings.warn("something else", stacklevel=1)
    assert syncs.reads.content() == []


def test_a_call_that_synchronises_is_counted_by_its_line(torch, syncs) -> None:
    syncs.keep()
    torch.cuda.synchronize()
    (read,) = syncs.reads.content()
    assert (read["call"], read["count"]) == ("synchronize", 1)


def test_what_the_worker_itself_waits_for_is_not_counted(torch, syncs) -> None:
    device = Device(torch)
    syncs.keep()
    device.wait()
    syncs.reads.paused = True
    torch.cuda.synchronize()
    warnings.warn(WARNING, stacklevel=1)
    assert syncs.reads.content() == []


def asked_driver(torch, **more: bool) -> str | None:
    torch.__version__, torch.version = "2", SimpleNamespace(cuda="13.0")
    torch.get_num_threads = lambda: 1
    return versions(torch, cuda=True, **more)["driver"]


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """A machine that does not tell its driver by a file, as a virtual one."""
    monkeypatch.setattr(versions_module, "_DRIVER", str(tmp_path / "absent"))
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho asked >> $0.log\necho 570.86.15\necho 570.86.15\n")
    tool.chmod(0o755)
    return tool


@pytest.mark.usefixtures("nvidia_smi")
def test_the_driver_of_a_virtual_machine_is_asked_of_nvidia_smi(torch) -> None:
    assert asked_driver(torch) == "570.86.15"


def test_nvidia_smi_is_asked_by_one_run_only_and_may_be_absent_or_broken(torch, nvidia_smi) -> None:
    assert asked_driver(torch, ask=False) is None
    assert not nvidia_smi.with_suffix(".log").exists()
    nvidia_smi.write_text("#!/bin/sh\nexit 9\n")
    assert asked_driver(torch) is None
    nvidia_smi.unlink()
    assert asked_driver(torch) is None
