"""`torchlint bench` on a CUDA device: its events time the steps, and it counts waits and memory."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.xdist_group("bench")  # with --dist loadgroup one process has them all
CODES = ("TL301", "TL201")


@pytest.fixture(scope="session")
def cuda(cuda):
    """Where every warning is an error."""
    return cuda.strict


@pytest.fixture(scope="module")
def told(cuda, tmp_path_factory):
    file = tmp_path_factory.mktemp("bench") / "bench.json"
    budget = "15s" if cuda.is_real else "20s"
    words = ("--device", "cuda", "--quick", "--time-budget", budget, "--json", file)
    done = cuda.python("-m", "torchlint", "bench", *CODES, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(file.read_text())


def test_the_steps_are_timed_by_events_of_the_gpu(cuda, told) -> None:
    assert told["machine"]["device"] == cuda.name
    assert told["label"] is None
    assert {row["code"] for row in told["rows"]} == set(CODES)
    for row in told["rows"]:
        assert row["pairs"], row["why"]
        for pair in row["pairs"]:
            assert all(pair[side]["gpu"] > 0 for side in ("before", "after"))


def test_memory_and_waits_are_those_of_the_gpu(told) -> None:
    arms = [(pair["before"], pair["after"]) for row in told["rows"] for pair in row["pairs"][:1]]
    assert arms
    assert all(0 < arm["memory"] < 2**33 for pair in arms for arm in pair)
    # a tensor that is made on the GPU, and a total that stays there, are not waited for
    assert all(after["syncs"] < before["syncs"] for before, after in arms)
