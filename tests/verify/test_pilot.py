"""What made-up pilots say of warm-up, steps and turns."""

from __future__ import annotations

import pytest
from statistics_tools import record, run

from torchlint.verify.model import Anchor, Ending
from torchlint.verify.pilot import bounds_of, fitted, noise_of, turns_of, warmup_of

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
    assert (slow.warmup, slow.steps) == (2, 2 + 4)
    assert (slow.turn, slow.warm) == (1, 0)
    fast = bounds_of(pilot(*[1e-5] * 39), OPTIMIZER)
    assert fast.steps - fast.warmup == 2000 // 8 * (8 + 1)
    assert bounds.anchor == OPTIMIZER


def test_turns_on_a_gpu_last_so_long_that_draining_its_queue_costs_little() -> None:
    """8 steps of 0.5 ms are 4 ms; a queue that drains at both ends of that hides a gain."""
    for step in (0.0005, 0.002, 0.005):
        bounds = bounds_of(pilot(*[step] * 39, device="NVIDIA H200"), OPTIMIZER)
        assert bounds.turn * step >= 0.0799
        assert (bounds.steps - bounds.warmup) // (bounds.turn + bounds.warm) >= 6
    assert bounds_of(pilot(*[0.0005] * 39), OPTIMIZER).turn == 8
    assert bounds_of(pilot(*[0.05] * 39, device="NVIDIA H200"), OPTIMIZER).turn == 8


def test_turns_become_shorter_where_a_script_makes_few_steps() -> None:
    bounds = bounds_of(pilot(*[0.05] * 39), OPTIMIZER)
    assert [fitted(bounds, k, step=0.05).turn for k in (69, 41, 20, 8)] == [8, 6, 2, 1]
    assert [fitted(bounds, k, step=0.05).warmup for k in (69, 20, 10, 4)] == [5, 5, 3, 1]
    less = fitted(bounds, 29, step=0.05)
    assert bounds.expected - less.expected == pytest.approx(40 * 0.05)


def test_a_script_that_ends_after_few_steps_is_not_timed_in_turns() -> None:
    assert turns_of(pilot(*[0.05] * 9), OPTIMIZER, steps=7).mode == "sequential"
    assert turns_of(pilot(*[0.05] * 39), OPTIMIZER, steps=16).mode == "lockstep"


def test_the_user_and_the_script_bound_the_steps() -> None:
    assert bounds_of(pilot(*[0.05] * 39), OPTIMIZER, asked=7).steps == 7
    assert bounds_of(pilot(*[0.05] * 39), OPTIMIZER, asked=7).warmup == 2
    ended = bounds_of(pilot(*[0.05] * 19, ending=Ending.FINISHED), OPTIMIZER)
    assert (ended.steps, ended.warmup) == (20, 5)


def test_little_time_makes_short_windows() -> None:
    quick = run(record(*[0.05] * 39, start=99.5), rss=1000)
    bounds = bounds_of(quick, OPTIMIZER, seconds=100, runs=50)
    assert bounds.steps - bounds.warmup == 8 * 3  # 1 s


def test_a_window_is_not_much_shorter_than_the_start_of_a_run() -> None:
    """That would save little time, and a short disturbance would be a large share of it."""
    late = run(record(*[0.05] * 39, start=95.75), rss=1000)
    bounds = bounds_of(late, OPTIMIZER, seconds=100, runs=50)
    assert 1.1 < (bounds.steps - bounds.warmup) * 0.05 < 1.6


def test_the_time_after_which_a_run_is_killed_knows_the_start() -> None:
    quick, late = (run(record(*[0.1] * 39, start=start)) for start in (99.0, 0.0))
    difference = bounds_of(late, OPTIMIZER).seconds - bounds_of(quick, OPTIMIZER).seconds
    assert difference == pytest.approx(5 * 99)


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
