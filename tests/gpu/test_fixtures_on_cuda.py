"""On a GPU too the fix of every rule changes no more than its pair of fixtures declares."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from gpu_tools import ROOT, fake_cuda
from pairs_tools import compiles, run_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpu_tools import Cuda

FIXTURES = ROOT / "fixtures"
PAIRS = sorted(path.parent.name for path in FIXTURES.glob("*/before.py"))
RACES = {"nonblocking_d2h_race"}  # before its fix it reads what a GPU may not have written yet
# What the fake is shown: a pair of each level, among them those that call most of torch.cuda.
SHOWN = {
    "accumulation_misplaced",
    "deprecated_cuda_amp",
    "item_accumulate_in_train_loop",
    "nonblocking_d2h_race",
    "optimizer_not_fused",
    "synchronize_in_loop",
    "tf32_disabled",
}
LEVELS = {"all_together": "E2", "all_together_float32": "E2"}  # they declare none themselves


def level_of(pair: str) -> str:
    """Read off the file: importing it may need what only the process with the GPU has."""
    text = (FIXTURES / pair / "before.py").read_text()
    declared = [line for line in text.splitlines() if line.startswith("EQUIVALENCE")]
    return declared[0].split('"')[1] if declared else LEVELS[pair]


@pytest.fixture(scope="module")
def given(cuda: Cuda, tmp_path_factory) -> Mapping[str, Any]:
    """All pairs, most of them in one process: each start takes seconds."""
    pairs = PAIRS if cuda.is_real else sorted(SHOWN)
    return run_pairs(cuda, FIXTURES, pairs, tmp_path_factory.mktemp("pairs"))


@pytest.mark.xdist_group("pairs")
@pytest.mark.parametrize(
    ("cuda", "pair"),
    [
        *(pytest.param("gpu", pair, marks=pytest.mark.gpu) for pair in PAIRS),
        *(("fake", pair) for pair in sorted(SHOWN)),
    ],
    indirect=["cuda"],
    scope="session",
)
def test_a_fix_changes_on_a_gpu_what_its_pair_declares(given, pair) -> None:
    assert isinstance(given[pair], tuple), given[pair]
    before, again, after = given[pair]
    assert before[0]
    finite = torch.tensor([*before[0], *after[0]]).isfinite()
    assert finite.all()
    match "E3" if pair in RACES else level_of(pair):
        case "E0" if is_same(before, again):
            assert is_same(before, after)
        case "E0":  # two runs of the same script differ: its kernels add up in any order
            assert difference(before, after) <= 3 * difference(before, again)
        case "E1":
            assert difference(before, after) <= max(1e-5, 3 * difference(before, again))
        case "E2":
            last = max(1, len(before[0]) // 5)
            means = [sum(losses[-last:]) / last for losses, _ in (before, after)]
            assert means[0] == pytest.approx(means[1], rel=0.2)
        case "E3":
            pass


def is_same(one: Any, other: Any) -> bool:
    """Whether losses and parameters are equal, bit for bit."""
    return one[0] == other[0] and all(
        torch.equal(value, other[1][name]) for name, value in one[1].items()
    )


def difference(one: Any, other: Any) -> float:
    """Return the largest difference of losses and parameters, relative where they are above 1."""
    assert one[1].keys() == other[1].keys()
    pairs = [(torch.tensor(one[0]), torch.tensor(other[0]))]
    pairs += [(value, other[1][name]) for name, value in one[1].items()]
    return max(float(((a - b).abs() / a.abs().clamp(min=1)).max()) for a, b in pairs if a.numel())


def test_every_pair_says_what_its_fix_may_change() -> None:
    assert {level_of(pair) for pair in PAIRS} == {"E0", "E1", "E2", "E3"}


MADE_UP = {
    "a_works": "def run(): return [1.0], {}",
    "b_fails": "def run(): raise ValueError('of this pair')",
    "c_dies": "import os\ndef run(): os._exit(7)",
    "d_hangs": "import time\ndef run(): time.sleep(100)",
    "e_works": "def run(): return [2.0], {}",
}


def test_a_pair_that_hangs_dies_or_fails_costs_only_itself(tmp_path: Path) -> None:
    for pair, text in MADE_UP.items():
        (tmp_path / pair).mkdir()
        for side in "before", "after":
            (tmp_path / pair / f"{side}.py").write_text(text)
    output = tmp_path / "output"
    output.mkdir()
    given = run_pairs(fake_cuda(), tmp_path, list(MADE_UP), output, limit=2)
    assert given["a_works"] == (([1.0], {}),) * 3
    assert "ValueError: of this pair" in given["b_fails"]
    assert "ended (7)" in given["c_dies"]
    assert re.search("Timeout(.|\n)*before.py.*in run", given["d_hangs"])
    assert given["e_works"] == (([2.0], {}),) * 3


def test_pairs_that_compile_are_known() -> None:
    found = {pair for pair in PAIRS if compiles(FIXTURES / pair)}
    assert "no_torch_compile" in found
    assert not found & SHOWN
