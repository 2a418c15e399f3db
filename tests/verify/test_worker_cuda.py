"""What the worker does on CUDA, held against a fake of it: no GPU gave any of these figures."""

from __future__ import annotations

import itertools
import warnings
from types import SimpleNamespace

import pytest
from fake_cuda_tools import Profile, fake_torch

from torchlint.verify.inject._torchlint_worker import versions
from torchlint.verify.inject._torchlint_worker.busy import Busy, covered, profiler
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


def nothing() -> None:
    """Wait for no device."""


def test_busy_is_the_share_of_the_window_with_kernels(torch, monkeypatch) -> None:
    monkeypatch.setattr(
        Profile, "kernels", ((0, SECOND, "CUDA"), (0, SECOND, "CUDA"), (0, 9 * SECOND, "CPU"))
    )
    busy = Busy(torch, 1)
    busy.open(nothing)
    busy.began -= 4 * SECOND
    busy.close(nothing, 2 * SECOND)
    assert busy.share == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    ("steps", "begins", "ends"),
    [(50, 16, 36), (30, 10, 30), (12, 5, None), (4, 2, None), (1, 0, None), (0, 0, None)],
)
def test_the_busy_share_is_taken_after_the_warm_up(torch, steps, begins, ends) -> None:
    busy = Busy(torch, steps)
    turns = {busy.turn(): made for made in range(steps + 1)}
    assert (turns["begins"], turns.get("ends")) == (begins, ends)


def test_a_profiler_of_the_script_has_precedence(torch) -> None:
    Profile.on = 1
    busy = Busy(torch, 1)
    busy.open(nothing)
    busy.close(nothing, 0)
    assert (busy.share, Profile.on) == (None, 1)


def test_a_profiler_of_the_script_that_came_later_is_left_alone(torch, monkeypatch) -> None:
    """Torch has one at a time: the script's has ended ours."""
    monkeypatch.setattr(Profile, "kernels", ((0, 1, "CUDA"),))
    busy = Busy(torch, 1)
    busy.open(nothing)
    Profile.on = 0
    busy.close(nothing, 0)
    assert (busy.share, Profile.on) == (None, 0)


def test_the_profiler_is_asked_for_as_this_torch_knows_it() -> None:
    """Without a GPU it is refused for that alone; with one, the tests of a GPU call it for real."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises((AssertionError, UserWarning), match=r"CUDA|activities"):
        profiler(torch)


@pytest.mark.parametrize("error", [UserWarning("is an error"), AssertionError(), TypeError()])
def test_what_a_profiler_fails_at_costs_the_share_only(torch, error) -> None:
    def fails(**_asked):
        raise error

    torch.autograd.profiler.profile = fails
    busy = Busy(torch, 1)
    busy.open(nothing)
    busy.close(nothing, 0)
    assert busy.share is None


@pytest.fixture
def syncs(torch, tmp_path, monkeypatch):
    """The counting of synchronisations, taken back after the test."""
    torch.__file__ = str(tmp_path / "torch" / "__init__.py")
    for name in ("_showwarnmsg", "showwarning", "filterwarnings", "simplefilter", "resetwarnings"):
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


def test_torchs_notice_of_the_mode_is_neither_counted_nor_shown(torch, syncs, capsys) -> None:
    """Nor does it end a script that makes errors of warnings."""
    warnings.simplefilter("error")
    syncs.keep()
    assert torch.cuda.noticed == 1
    assert syncs.reads.content() == []
    assert capsys.readouterr().err == ""


def test_a_warning_that_python_has_shown_does_not_come_again(syncs) -> None:
    """`catch_warnings` and `filterwarnings` would let Python forget it."""
    registry: dict[object, object] = {}

    def warn() -> None:
        warnings.warn_explicit("mine", UserWarning, "train.py", 1, registry=registry)

    shown: list[str] = []
    warnings.showwarning = lambda message, *_: shown.append(str(message))
    warnings.simplefilter("default")
    warn()
    syncs.keep()
    syncs.keep()
    warn()
    assert shown == ["mine"]


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


def driver(torch, tmp_path, monkeypatch, answer: str | None, **ask: bool) -> str | None:
    """Return the driver's version that a record names where no file of the system tells it."""
    monkeypatch.setattr(versions, "_DRIVER", str(tmp_path / "missing"))
    monkeypatch.setenv("PATH", str(tmp_path))
    if answer is not None:
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\n{answer}\n")
        tool.chmod(0o755)
    torch.__version__ = "2"
    torch.version = SimpleNamespace(cuda="13.0")
    torch.get_num_threads = lambda: 1
    return versions.versions(torch, cuda=True, **ask)["driver"]


@pytest.mark.parametrize(
    ("answer", "version"),
    [("echo 580.1.2; echo 580.1.2", "580.1.2"), ("exit 9", None), (None, None), ("true", None)],
)
def test_the_driver_is_known_in_a_virtual_machine(
    torch, tmp_path, monkeypatch, answer, version
) -> None:
    assert driver(torch, tmp_path, monkeypatch, answer) == version


def test_only_the_pilot_spends_time_on_the_driver(torch, tmp_path, monkeypatch) -> None:
    assert driver(torch, tmp_path, monkeypatch, "echo 580.1.2", ask=False) is None
