"""What readers are warned of, and that they are not warned of nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from statistics_tools import agreement, configuration, judged, record, run

from torchlint.verify.cautions import cautions, own_failure
from torchlint.verify.model import Anchor, Bounds, Ending, Machine, Phase, Trace
from torchlint.verify.verdict import result_of

OPTIMIZER = Anchor("optimizer")
BOUNDS = Bounds(steps=40, warmup=5, seconds=60)
MACHINE = Machine(
    python="3.11", torch="2.13", device="NVIDIA X", cuda="13", driver="1", cpu="c", cores=2,
    threads=2, system="Linux", load=(0, 0, 0), pressure=0.1,
)  # fmt: skip
GOOD = run(record(*[0.1] * 39), rss=2**30)
TRACE = Trace((1.0,), ("a",), "i", "p", (1.0,), "r", ())


def result(*runs, codes=(), judgement=None):
    return result_of(configuration(*codes), runs, agreement(), judgement or judged(1))


def kinds(before=(GOOD,), after=(GOOD,), machine=MACHINE, judgement=None) -> dict[str, str]:
    found = cautions(
        machine, BOUNDS, OPTIMIZER, result(*before),
        [result(*after, codes=("TL101",), judgement=judgement)],
    )  # fmt: skip
    assert all(caution.remedy for caution in found)
    return {caution.kind: caution.text for caution in found}


def test_nothing_to_warn_of() -> None:
    assert kinds() == {}


def test_the_machine() -> None:
    assert set(kinds(machine=replace(MACHINE, device="cpu"))) == {"cpu-only"}
    busy = kinds(machine=replace(MACHINE, pressure=0.8))
    assert busy == {"busy-machine": "in 80% of the time some process waited for a CPU"}
    assert kinds(machine=replace(MACHINE, pressure=None)) == {}


def test_steps_that_are_short_or_few() -> None:
    short = kinds(before=(run(record(*[2e-4] * 39)),), after=())
    assert short == {"short-steps": "a step takes 0.2 ms: torchlint's hooks may be 12 % of that"}
    early = kinds(after=(run(record(*[0.1] * 11), ending=Ending.FINISHED),))
    assert early == {
        "ended-early": "the script ended by itself after 12 of 40 steps",
        "few-steps": "only 7 steps of each run were timed",
    }


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, set()),
        ({"batches": ("b",)}, {"random-batches"}),
        ({"losses": (2.0,)}, {"not-repeatable"}),
        ({"parameters": "q"}, {"not-repeatable"}),
    ],
)
def test_scripts_that_do_not_repeat_themselves(change, kind) -> None:
    traces = [
        run(record(1, trace=trace), phase=Phase.TRACE)
        for trace in (TRACE, replace(TRACE, **change))
    ]
    assert set(kinds(before=(GOOD, *traces))) == kind


def test_more_memory() -> None:
    large = replace(GOOD, rss=3 * 2**30)
    assert kinds(after=(large,)) == {
        "more-memory": "TL101 takes 3.0 times as much memory (3072 MiB instead of 1024 MiB)"
    }
    device = [run(record(*[0.1] * 39, memory={"allocated": k * 2**30})) for k in (1, 2)]
    found = kinds(before=device[:1], after=device[1:])
    assert found["more-memory"].startswith("TL101 takes 2.0 times as much GPU memory")


def test_writes_outside() -> None:
    paths = tuple(f"/data/{name}" for name in "edcba")
    found = kinds(after=(run(record(*[0.1] * 39, writes=paths), rss=2**30),))
    assert found["writes-outside"].endswith("project: /data/a, /data/b, /data/c and 2 more")


def test_a_script_that_fails_by_itself() -> None:
    failed = run(record(*[0.1] * 48), ending=Ending.FAILED, code=1, stderr="a\nValueError: no\n")
    told = own_failure(failed, OPTIMIZER)
    assert told.text == "the script fails by itself at step 50 (exit code 1): ValueError: no"
    assert told.remedy == "mend it; runs were ended before that step"


def test_time_and_noise() -> None:
    assert set(kinds(judgement=judged(1, count=2, last=True))) == {"time-over"}
    assert set(kinds(judgement=judged(1, 0.2, 5, last=True))) == {"noisy"}
