"""Figures from runs, and numbers as people read them: known answers."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from report_tools import BOUNDS, Lab, configuration, cpu_report

from torchlint.verify.model import Anchor, Bounds, Ending, Interval, Phase, Result, Sample, Verdict
from torchlint.verify.report.curves import curves
from torchlint.verify.report.figures import figures, step_seconds, typical, wait_share
from torchlint.verify.report.grid import clip
from torchlint.verify.report.plots import forest, strip
from torchlint.verify.report.rows import rows
from torchlint.verify.report.scales import Scale, around, linear_ticks, ratio_ticks
from torchlint.verify.report.words import (
    change,
    duration,
    listing,
    memory,
    number,
    percent,
    seconds,
    speedup,
    spread,
)
from torchlint.verify.statistics import judge

SHORT = Bounds(steps=6, warmup=2, seconds=60.0, anchor=Anchor("optimizer", 1))


def run(*records, **more):
    return Lab().launch("x", Phase.TIMING, *records, **more)


def record(*times: float, **more):
    """A process whose second optimizer steps at these times."""
    made = Lab().record((0.0,))
    values = {"steps": ((0.5, 9.5), times), "waits": (), "backwards": times, **more}
    return replace(made, **values)


TIMES = (1.0, 2.0, 2.5, 3.5, 4.0, 5.0)


def test_a_step_time_is_the_mean_after_the_warm_up() -> None:
    assert step_seconds(run(record(*TIMES)), SHORT) == pytest.approx(3.0 / 4)


def test_of_several_processes_the_slowest_counts() -> None:
    slow = record(*(2 * time for time in TIMES))
    assert step_seconds(run(record(*TIMES), slow), SHORT) == pytest.approx(6.0 / 4)


def test_lockstep_counts_its_turns_and_not_the_time_between() -> None:
    turns = run(record(1.0, 2.0, 2.5, 3.5, 40.0, 41.0, turns=(9.0, 1.6, 3.2)))
    assert step_seconds(turns, SHORT) == pytest.approx(2.4 / 8)
    assert wait_share(turns, SHORT) is None


def test_backwards_are_the_anchor_where_nothing_steps() -> None:
    bounds = replace(SHORT, anchor=Anchor("backward"))
    bare = record(*TIMES, steps=())
    assert step_seconds(run(bare), bounds) == pytest.approx(3.0 / 4)


def test_the_typical_times_of_pairs_have_the_ratio_that_is_told_of_them() -> None:
    """Medians of the arms would say 20 and 20, and the speed-up of the pairs is 1.27."""
    pairs = [
        Sample(10, 5, "sequential"),
        Sample(20, 20, "sequential"),
        Sample(31, 30, "sequential"),
    ]
    before, after = typical(pairs)
    told = judge(pairs, last=True).interval
    assert told is not None
    assert before / after == pytest.approx(told.middle)


def test_a_plot_of_step_times_says_what_the_table_says() -> None:
    judgement = cpu_report().singles[0].judgement
    plot = strip(judgement.samples)
    assert (plot.first.middle, plot.second.middle) == pytest.approx(typical(judgement.samples))


def test_a_run_that_ended_in_its_warm_up_has_no_step_time() -> None:
    assert step_seconds(run(record(1.0, 2.0)), SHORT) is None
    assert step_seconds(run(), SHORT) is None


def test_only_waits_inside_the_window_count() -> None:
    waits = ((1.5, 0.4), (2.5, 0.3), (4.0, 0.3))
    assert wait_share(run(record(*TIMES, waits=waits)), SHORT) == pytest.approx(0.6 / 3.0)


def test_runs_that_failed_give_no_figures() -> None:
    failed = run(record(*TIMES), ending=Ending.FAILED)
    result = Result(
        configuration("TL901"), Verdict.FAILED, "", None, None, (failed,), keep=False
    )  # fmt: skip
    assert figures(result, SHORT).seconds is None


def test_memory_is_the_devices_where_that_is_known() -> None:
    def peak(device: bool) -> tuple[int | None, bool]:
        lab = Lab(device=device)
        runs = (lab.run("x", 0.1, 0.0), lab.trace("x"))
        result = Result(
            configuration("TL901"), Verdict.FASTER, "", None, None, runs, keep=True
        )  # fmt: skip
        found = figures(result, BOUNDS)
        return found.memory, found.on_device

    assert peak(device=True) == (11_240_000_000, True)
    assert peak(device=False) == (1_300_000_000, False)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (seconds(0.0284), "28.4 ms"),
        (seconds(1.5), "1.50 s"),
        (seconds(0.000131), "131 µs"),
        (number(1234.5), "1234"),
        (number(0.0), "0"),
        (percent(0.004), "0.4%"),
        (percent(0.0), "0%"),
        (percent(0.126), "13%"),
        (memory(1_240_000_000), "1.24 GB"),
        (memory(980_000), "980 kB"),
        (duration(42), "42 s"),
        (duration(252), "4 min 12 s"),
        (duration(3900), "1 h 5 min"),
        (speedup(Interval(1.41, 1.45, 1.49)), ("1.45x", "1.41-1.49")),
        (speedup(Interval(1.015, 1.02, 1.024)), ("1.020x", "1.015-1.024")),
        (speedup(Interval(2.83, 3.51, 4.36)), ("3.5x", "2.8-4.4")),
        (speedup(Interval(1.03, 1.2, 1.41)), ("1.20x", "1.03-1.41")),
        (speedup(Interval(28.3, 31.2, 34.5)), ("31x", "28-34")),
        (speedup(Interval(2.0, 2.0, 2.0)), ("2.000x", "2.000-2.000")),
        (change(0.04), "4 %"),
        (change(0.0549), "5.5 %"),
        (change(1.01), "100 %"),
        (listing(["TL1"]), "TL1"),
        (listing(["TL1", "TL2", "TL3"]), "TL1, TL2 and TL3"),
        (spread(Interval(0.0276, 0.0284, 0.0292), 1e-3), ("28.4", "±0.8")),
        (spread(Interval(0.0270, 0.0284, 0.0298), 1e-3), ("28.4", "±1.4")),
        (spread(Interval(0.02, 0.0284, 0.0368), 1e-3), ("28", "±8")),
        (spread(Interval(0.0284, 0.0284, 0.0284), 1e-3), ("28.4", "")),
        (spread(Interval(0.001, 0.0284, 0.9), 1e-3), ("~28", "")),
        (clip("detect-anomaly-on", 10), "detect-an…"),
    ],
)
def test_numbers_are_told_as_people_read_them(said: object, wanted: object) -> None:
    assert said == wanted


def test_equal_values_have_an_axis_too() -> None:
    scale = around([2.0, 2.0])
    assert scale.low < 2.0 < scale.high
    assert linear_ticks(scale)


def test_ticks_are_round_and_have_as_many_places_as_they_need() -> None:
    assert [tick.label for tick in linear_ticks(Scale(0.0281, 0.0415), 5, 1e-3)] == [
        "30", "35", "40",
    ]  # fmt: skip
    assert [tick.label for tick in linear_ticks(Scale(1.01, 1.19), 4)] == [
        "1.05", "1.10", "1.15",
    ]  # fmt: skip


@pytest.mark.parametrize("high", [1.03, 1.3, 2.0, 8.0, 40.0])
def test_an_axis_of_ratios_has_1_and_labels_that_do_not_touch(high: float) -> None:
    ticks = ratio_ticks(Scale(0.9, high, log=True))
    assert "1\N{MULTIPLICATION SIGN}" in [tick.label for tick in ticks]
    places = [tick.at for tick in ticks]
    assert all(after - before >= 11 for before, after in pairwise(places))


def test_a_curve_has_a_gap_where_a_loss_is_no_number() -> None:
    plot = curves([3.0, 2.0, None, 1.0], [3.0, float("nan"), 2.0, 1.0], None, 100)
    assert plot is not None
    assert plot.before.count("M") == 2
    assert plot.after.count("M") == 2
    assert plot.missing == 2


def test_long_curves_keep_their_extremes() -> None:
    losses = [1.0] * 1000
    losses[437] = 9.0
    plot = curves(losses, losses, None, 100)
    assert plot is not None
    assert plot.each == 10
    heights = [int(height) for height in re.findall(r"[ML]\d+ (\d+)", plot.before)]
    assert min(heights) < 60
    assert len(plot.before) < 2500


def test_steep_losses_are_drawn_on_a_logarithmic_scale() -> None:
    plot = curves([1000.0, 10.0, 0.1], [1000.0, 10.0, 0.1], None, 100)
    assert plot is not None
    assert plot.log
    assert [tick.label for tick in plot.rows] == ["0.1", "1", "10", "100", "1000"]


def test_without_losses_there_is_no_plot() -> None:
    assert curves([None, float("inf")], [], None, 100) is None


def test_what_is_too_noisy_may_reach_beyond_the_plot_so_that_the_others_stay_readable() -> None:
    report = cpu_report()
    noisy = next(each for each in report.singles if each.verdict is Verdict.NOISY)
    wide = replace(noisy.judgement, interval=Interval(0.02, 1.1, 60.0))
    singles = (report.singles[0], replace(noisy, judgement=wide))
    told = rows(replace(report, singles=singles, together=None, kept_result=None))
    ratios = {
        row.name: (row.ratio, row.result.verdict is Verdict.NOISY)
        for row in told
        if row.is_judged and row.ratio
    }
    plot = forest(ratios, report.margin)
    assert plot is not None
    first, second = plot.bars.values()
    assert (first.cut_low, first.cut_high) == (False, False)
    assert (second.cut_low, second.cut_high) == (True, True)
    assert first.high - first.low > 5
    assert plot.band[0] < plot.one < plot.band[1]
