"""What made-up pilots say of warm-up, steps and turns."""

from __future__ import annotations

import pytest
from statistics_tools import record, run

from torchlint.verify.model import Anchor, Ending
from torchlint.verify.pilot import bounds_of, noise_of, turns_of, warmup_of

OPTIMIZER = Anchor("optimizer")


def pilot(*lengths: float, ending: Ending = Ending.BOUND, **known):
    return run(record(*lengths, start=95.0, **known), ending=ending, rss=1000)


def test_steps_that_compile_are_warm_up() -> None:
    assert warmup_of([9, 4, 0.3, *[0.1, 0.11] * 10]) == 3
    assert warmup_of([0.1, 0.11] * 10) <= 1
    assert warmup_of([]) == 0


def test_regular_stalls_are_not_warm_up() -> None:
    assert warmup_of([1 if k % 5 == 4 else 0.1 for k in range(40)]) <= 5


def test_the_window_is_a_few_seconds_in_whole_turns() -> None:
    bounds = bounds_of(pilot(*[0.05] * 39), OPTIMIZER)
    assert (bounds.warmup, bounds.steps) == (5, 5 + 64)  # 3 s are 60 steps
    slow = bounds_of(pilot(*[5.0] * 9), OPTIMIZER)
    assert slow.steps - slow.warmup == 16
    fast = bounds_of(pilot(*[1e-5] * 39), OPTIMIZER)
    assert fast.steps - fast.warmup == 2000
    assert bounds.anchor == OPTIMIZER


def test_the_user_and_the_script_bound_the_steps() -> None:
    assert bounds_of(pilot(*[0.05] * 39), OPTIMIZER, asked=7).steps == 7
    assert bounds_of(pilot(*[0.05] * 39), OPTIMIZER, asked=7).warmup == 3
    ended = bounds_of(pilot(*[0.05] * 19, ending=Ending.FINISHED), OPTIMIZER)
    assert (ended.steps, ended.warmup) == (20, 5)


def test_little_time_makes_short_windows() -> None:
    bounds = bounds_of(pilot(*[0.05] * 39), OPTIMIZER, seconds=100, runs=50)
    assert bounds.steps - bounds.warmup == 32  # 1 s each


def test_the_time_after_which_a_run_is_killed_knows_the_start() -> None:
    quick, late = (run(record(*[0.1] * 39, start=start)) for start in (99.0, 0.0))
    difference = bounds_of(late, OPTIMIZER).seconds - bounds_of(quick, OPTIMIZER).seconds
    assert difference == pytest.approx(990)


def test_turns_are_for_one_process_that_does_not_wait() -> None:
    assert turns_of(pilot(*[1.0] * 9), OPTIMIZER).mode == "lockstep"
    waits = tuple((101.0 + k, 0.1) for k in range(9))
    for other in (
        pilot(*[1.0] * 9, workers=2),
        pilot(*[1.0] * 9, waits=waits),
        pilot(*[1.0] * 9, world=2),
        run(record(1), record(1, rank=1)),
    ):
        assert turns_of(other, OPTIMIZER).mode == "sequential"
        assert turns_of(other, OPTIMIZER).why
    assert turns_of(pilot(1), OPTIMIZER, launcher=("torchrun",)).mode == "sequential"


def test_turns_need_memory_for_two() -> None:
    assert turns_of(pilot(1), OPTIMIZER, memory=1999).mode == "sequential"
    assert turns_of(pilot(1), OPTIMIZER, memory=2000).mode == "lockstep"
    on_gpu = {"allocated": 500, "reserved": 600}
    assert turns_of(pilot(1, memory={**on_gpu, "free": 599}), OPTIMIZER).mode == "sequential"
    assert turns_of(pilot(1, memory={**on_gpu, "free": 600}), OPTIMIZER).mode == "lockstep"
    assert turns_of(pilot(1, memory=on_gpu), OPTIMIZER).mode == "lockstep"


def test_noise_is_that_of_turns() -> None:
    assert noise_of(pilot(*[1.0] * 30), OPTIMIZER, 1) == 0
    uneven = [1.0 + (k // 10 % 2) * 0.5 for k in range(50)]
    assert noise_of(pilot(*uneven), OPTIMIZER, 1) == pytest.approx(0.0)
    rising = [1.0 + k / 50 for k in range(50)]
    assert noise_of(pilot(*rising), OPTIMIZER, 1) == pytest.approx(0.2 / 1.49, rel=0.01)
    assert noise_of(pilot(1.0), OPTIMIZER, 1) is None
