"""What a loop leaves as it is, how many turns it makes, and names that are free."""

from __future__ import annotations

import libcst as cst
import pytest
from revealing import evaluated

from torchlint.training.hoisting import free_name, is_unchanged, named_after
from torchlint.training.turns import most_turns


@pytest.mark.parametrize(
    ("body", "unchanged"),
    [
        ("reveal(x.y)", True),
        ("x.z = 1; reveal(x.y)", True),
        ("x.y = 1; reveal(x.y)", False),
        ("x = 1; reveal(x.y)", False),
        ("z = 1; reveal(z)", False),
        ("reveal([n for n in x])", False),
    ],
)
def test_is_unchanged(body: str, unchanged: bool) -> None:
    evaluation = evaluated(f"def f(x):\n    for i in range(9):\n        {body}\n")
    module = evaluation.files.modules[0]
    (asked,) = (
        one.args[0].value
        for one in module.index.of(cst.Call)
        if isinstance(one.func, cst.Name) and one.func.value == "reveal"
    )
    (loop,) = module.index.of(cst.For)
    assert is_unchanged(module, asked, loop) is unchanged
    assert free_name(module, ("x", "i", "other"), asked) == "other"


@pytest.mark.parametrize(
    ("loop", "turns"),
    [
        ("for i in range(3): f()", 3),
        ("for i in range(1, 4): f()", 3),
        ("for i in range(n): f()", None),
        ("for i in enumerate([1, 2]): f()", 2),
        ("for i in x:\n    f()\n    break", 1),
        ("for i in x:\n    if i: continue\n    break", None),
        ("while True: f()", None),
        ("for i in itertools.islice(x, 5): f()", 5),
        ("for i, y in enumerate(x):\n    if i == 9: break\n    f()", 11),
        ("for y in x:\n    if y.n > 9: break\n    f()", None),
    ],
)
def test_most_turns(loop: str, turns: int | None) -> None:
    evaluation = evaluated(f"import itertools\n{loop}\n")
    index = evaluation.files.modules[0].index
    (node,) = (*index.of(cst.For), *index.of(cst.While))
    assert most_turns(evaluation, node, 0) == turns


def test_names_of_what_belongs_to_a_loader() -> None:
    assert named_after("self.train_loader", "batches")[0] == "train_batches"
    assert named_after("trainDataLoader", "dataset")[0] == "train_dataset"
    assert named_after("rows", "batches")[0] == "rows_batches"
