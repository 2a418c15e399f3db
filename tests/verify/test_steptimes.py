"""Step times of made-up runs whose lengths are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest

from torchlint.verify.model import Anchor, Ending, Phase, Record, Run, Sample
from torchlint.verify.steptimes import (
    data_wait,
    durations,
    lockstep_sample,
    sequential_sample,
    step_time,
    steps_made,
    usual_step,
)

OPTIMIZER = Anchor("optimizer", 0)


def record(*lengths: float, rank: int = 0, **known) -> Record:
    """Return a process whose first step ended at 100 s and whose others took ``lengths``."""
    ends = tuple(accumulate(lengths, initial=100.0))
    values = {"steps": (ends,), "backwards": ends, "waits": (), "turns": ()} | known
    return Record(
        rank=rank, world=1, ended="bound", device="cpu", torch="2.13", optimizers=("SGD",),
        start=0.0, workers=0, **values,
    )  # fmt: skip


def run(*records: Record) -> Run:
    return Run("before", Phase.TIMING, Ending.BOUND, 0, "", 1.0, 0, records)


def test_the_window_begins_at_the_end_of_the_warm_up() -> None:
    assert step_time(run(record(50, 9, 1, 3)), OPTIMIZER, warmup=3) == pytest.approx(2)
    assert step_time(run(record(2, 4)), OPTIMIZER, warmup=0) == pytest.approx(3)
    assert step_time(run(record(2, 4)), OPTIMIZER, warmup=1) == pytest.approx(3)


def test_rare_long_steps_count() -> None:
    assert step_time(run(record(*[1] * 9, 11)), OPTIMIZER, warmup=1) == pytest.approx(2)


def test_the_slowest_process_counts() -> None:
    both = run(record(1, 1), record(1, 5, rank=1))
    assert step_time(both, OPTIMIZER, warmup=1) == pytest.approx(3)


def test_a_helper_that_made_fewer_steps_than_the_warm_up_does_not_count() -> None:
    both = run(record(*[1] * 20), record(90, 90, rank=1))
    assert step_time(both, OPTIMIZER, warmup=10) == pytest.approx(1)


def test_no_step_no_time() -> None:
    assert step_time(run(), OPTIMIZER, warmup=0) is None
    assert step_time(run(record()), OPTIMIZER, warmup=0) is None
    assert step_time(run(record(1, 1)), Anchor("optimizer", 3), warmup=0) is None
    assert sequential_sample(run(record(1, 1)), run(record()), OPTIMIZER, 1) is None


def test_the_anchor_says_what_a_step_is() -> None:
    two = record(steps=((1.0, 2.0, 3.0), (1.0, 3.0)), backwards=(0.0, 0.5, 4.0))
    assert durations(two, Anchor("optimizer", 1)) == (2.0,)
    assert durations(two, Anchor("backward")) == (0.5, 3.5)
    assert steps_made(run(two), OPTIMIZER) == 3


def test_a_pair_is_compared_over_the_steps_that_both_made() -> None:
    sample = sequential_sample(run(record(1, 1, 99)), run(record(2, 2)), OPTIMIZER, warmup=1)
    assert sample == Sample(1.0, 2.0, "sequential")
    assert sample.ratio == 0.5


def test_turns_are_paired_without_the_first() -> None:
    before, after = run(record(turns=(90, 8, 24, 7))), run(record(turns=(9, 4, 4)))
    assert lockstep_sample(before, after) == Sample(2.0, 0.5, "lockstep")


def test_an_odd_turn_is_dropped_where_there_are_enough() -> None:
    before = run(record(turns=(90, 80, 8, 8, 8, 8)))
    assert lockstep_sample(before, before) == Sample(1.0, 1.0, "lockstep")


def test_a_turn_has_as_many_steps_as_its_run_says() -> None:
    before = replace(run(record(turns=(90, 8, 24, 7))), turn=16)
    after = replace(run(record(turns=(9, 4, 4))), turn=2)
    assert lockstep_sample(before, after) == Sample(1.0, 2.0, "lockstep")


def test_a_hint_is_the_usual_step() -> None:
    assert usual_step(run(record(9, 1, 1, 7)), OPTIMIZER) == 4
    assert usual_step(run(), OPTIMIZER) == 0


def test_one_turn_is_no_sample() -> None:
    assert lockstep_sample(run(record(turns=(9,))), run(record(turns=(9, 9)))) is None
    assert lockstep_sample(run(), run(record(turns=(9, 9)))) is None


def test_the_share_of_waits_is_that_within_the_window() -> None:
    waits = ((99.0, 50.0), (101.0, 0.5), (103.0, 0.5), (110.0, 7.0))
    assert data_wait(run(record(2, 2, waits=waits)), OPTIMIZER, warmup=1) == pytest.approx(0.25)
    assert data_wait(run(record()), OPTIMIZER, warmup=1) is None
