"""What the worker does on CUDA, held against a fake of it: no GPU gave any of these figures."""

from __future__ import annotations

import itertools
import warnings
from types import SimpleNamespace

import pytest
from fake_cuda_tools import Profile, fake_torch

from torchlint.verify.inject._torchlint_worker.busy import Busy, covered
from torchlint.verify.inject._torchlint_worker.device import Device
from torchlint.verify.inject._torchlint_worker.plan import Turns
from torchlint.verify.inject._torchlint_worker.reads import Reads
from torchlint.verify.inject._torchlint_worker.syncs import Syncs
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


def test_busy_is_the_share_of_the_window_with_kernels(torch, monkeypatch) -> None:
    monkeypatch.setattr(
        Profile, "kernels", ((0, SECOND, "CUDA"), (0, SECOND, "CUDA"), (0, 9 * SECOND, "CPU"))
    )
    busy = Busy(torch)
    busy.open()
    busy.began -= 4 * SECOND
    busy.close(torch.cuda.synchronize, 2 * SECOND)
    assert busy.share == pytest.approx(0.5, rel=0.05)


def test_only_the_first_steps_are_profiled(torch, monkeypatch) -> None:
    monkeypatch.setattr(Profile, "kernels", ((0, 1, "CUDA"),))
    busy = Busy(torch)
    busy.open()
    for _ in range(19):
        busy.step(torch.cuda.synchronize, 0)
    assert busy.share is None
    busy.step(torch.cuda.synchronize, 0)
    assert busy.share is not None
    busy.close(torch.cuda.synchronize, 0)


def test_a_profiler_of_the_script_has_precedence(torch) -> None:
    def fails(**_kinds):
        raise RuntimeError("Profiler is already enabled")

    torch.profiler.profile = fails
    busy = Busy(torch)
    busy.open()
    busy.close(torch.cuda.synchronize, 0)
    assert busy.share is None


@pytest.fixture
def syncs(torch, tmp_path, monkeypatch):
    """The counting of synchronisations, taken back after the test."""
    torch.__file__ = str(tmp_path / "torch" / "__init__.py")
    for name in ("_showwarnmsg", "filterwarnings", "simplefilter", "resetwarnings"):
        monkeypatch.setattr(warnings, name, getattr(warnings, name))
    with warnings.catch_warnings():
        yield Syncs(torch, Reads(torch, SimpleNamespace(root=str(tmp_path))))


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
