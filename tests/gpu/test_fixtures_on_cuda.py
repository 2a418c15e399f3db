"""On a GPU too the fix of every rule changes no more than its pair of fixtures declares."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from gpu_tools import ROOT, Cuda
from pairs_tools import RACES, Failed, Pairs

if TYPE_CHECKING:
    from collections.abc import Iterator


FIXTURES = ROOT / "fixtures"
PAIRS = sorted(path.parent.name for path in FIXTURES.glob("*/before.py"))
# What the fake is shown: a pair of each level, among them those that call most of torch.cuda.
SHOWN = {
    "accumulation_misplaced",
    "deprecated_cuda_amp",
    "item_accumulate_in_train_loop",
    "nonblocking_d2h_race",
    "optimizer_not_fused",
    "profiler_left_on",
    "synchronize_in_loop",
    "tf32_disabled",
}
GROUPS = 3
LEVELS = {"all_together": "E2", "all_together_float32": "E2"}  # they declare none themselves


def level_of(pair: str) -> str:
    """Read off the file: importing it may need what only the process with the GPU has."""
    text = (FIXTURES / pair / "before.py").read_text()
    declared = [line for line in text.splitlines() if line.startswith("EQUIVALENCE")]
    return declared[0].split('"')[1] if declared else LEVELS[pair]


def compiles(pair: str) -> bool:
    """Whether a pair compiles its model, which takes long, and changes what runs after it."""
    files = (FIXTURES / pair).glob("*.py")
    return any(re.search(r"\.compile\(", file.read_text()) for file in files)


def group_of(pair: str) -> str:
    """Return the pairs that one process of pytest-xdist is to run (`--dist loadgroup`)."""
    return f"compiled-{pair}" if compiles(pair) else f"pairs-{sum(map(ord, pair)) % GROUPS}"


@pytest.fixture(scope="module")
def pairs(cuda: Cuda, tmp_path_factory) -> Iterator[Pairs]:
    """One process for all of them: each start takes seconds."""
    running = Pairs(cuda, FIXTURES, tmp_path_factory.mktemp("pairs"))
    yield running
    running.close()


@pytest.mark.parametrize(
    ("cuda", "pair"),
    [
        pytest.param(
            device,
            pair,
            marks=[*marks, pytest.mark.xdist_group(f"{device}-{group_of(pair)}")],
        )
        for device, chosen, marks in (
            ("gpu", sorted(PAIRS, key=lambda pair: (compiles(pair), pair)), [pytest.mark.gpu]),
            ("fake", sorted(SHOWN), []),
        )
        for pair in chosen
    ],
    indirect=["cuda"],
    scope="session",
)
def test_a_fix_changes_on_a_gpu_what_its_pair_declares(cuda, pairs, pair) -> None:
    failure = ""
    try:
        before, again, after = pairs.run(pair, alone=cuda.is_real and compiles(pair))
    except Failed as failed:
        failure = str(failed)
    if failure:  # told here, as the failure alone, without what led to it in these tests
        pytest.fail(f"{pair}: {failure}", pytrace=False)
    import torch  # noqa: PLC0415  seconds, which collecting need not take

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
    import torch  # noqa: PLC0415  see above

    return one[0] == other[0] and all(
        torch.equal(value, other[1][name]) for name, value in one[1].items()
    )


def difference(one: Any, other: Any) -> float:
    """Return the largest difference of losses and parameters, relative where they are above 1."""
    import torch  # noqa: PLC0415  see above

    assert one[1].keys() == other[1].keys()
    pairs = [(torch.tensor(one[0]), torch.tensor(other[0]))]
    pairs += [(value, other[1][name]) for name, value in one[1].items()]
    return max(float(((a - b).abs() / a.abs().clamp(min=1)).max()) for a, b in pairs if a.numel())


def test_every_pair_says_what_its_fix_may_change() -> None:
    assert {level_of(pair) for pair in PAIRS} == {"E0", "E1", "E2", "E3"}


HANGS = "import time\ndef run():\n    time.sleep(600)\n"
DIES = "import os\ndef run():\n    os._exit(7)\n"
FAILS = "def run():\n    raise ValueError('bad pair')\n"
WORKS = "def run():\n    print('noise')\n    return [1.0], {}\n"


def test_a_pair_that_hangs_dies_or_fails_is_missing_alone(tmp_path) -> None:
    """Each with the reason in the test's own text; those before and after it are there."""
    fixtures, output = tmp_path / "fixtures", tmp_path / "output"
    output.mkdir()
    texts = {"works": WORKS, "hangs": HANGS, "dies": DIES, "fails": FAILS, "too": WORKS}
    for name, text in texts.items():
        (fixtures / name).mkdir(parents=True)
        (fixtures / name / "before.py").write_text(text)
        (fixtures / name / "after.py").write_text(text)
    [race] = RACES
    (fixtures / race).mkdir()
    (fixtures / race / "before.py").write_text("def run(): raise RuntimeError('stale classes')")
    (fixtures / race / "after.py").write_text(WORKS)
    pairs = Pairs(Cuda("none"), fixtures, output, limit=5)
    try:
        assert pairs.run("works")[2] == ([1.0], {})
        with pytest.raises(Failed, match="ValueError: bad pair"):
            pairs.run("fails")
        assert pairs.run(race) == (([1.0], {}),) * 3  # that it may fail is what its fix is for
        assert pairs.started == 1
        with pytest.raises(Failed, match=r"(?s)no end within 5 s.*before\.py.* in run"):
            pairs.run("hangs")
        with pytest.raises(Failed, match="its process ended with 7"):
            pairs.run("dies")
        assert pairs.run("too")[0] == ([1.0], {})
        assert (output / "works.pt").exists()  # saved as it was done
    finally:
        pairs.close()


def test_each_pair_runs_in_one_process_of_xdist_and_those_that_compile_come_last() -> None:
    last = sorted(PAIRS, key=compiles)[-3:]
    assert "no_torch_compile" in last
    groups = {group_of(pair) for pair in PAIRS}
    assert len({group for group in groups if group.startswith("pairs-")}) == GROUPS
    assert group_of("no_torch_compile") == "compiled-no_torch_compile"
