"""On a GPU too the fix of every rule changes no more than its pair of fixtures declares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from gpu_tools import ROOT

if TYPE_CHECKING:
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
def given(cuda: Cuda, tmp_path_factory) -> dict[str, Any]:
    """All pairs in one process: each start takes seconds."""
    pairs = PAIRS if cuda.is_real else sorted(SHOWN)
    output = tmp_path_factory.mktemp("pairs") / "pairs.pt"
    done = cuda.python(Path(__file__).with_name("run_pairs.py"), FIXTURES, output, *pairs)
    assert done.returncode == 0, done.stderr[-2000:]
    return torch.load(output, map_location="cpu", weights_only=True)


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
