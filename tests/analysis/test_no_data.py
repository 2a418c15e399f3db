"""Branches for batches with nothing in them."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed, probes

STEP = "optimizer.zero_grad(); loss = f(x); loss.backward(); optimizer.step()"
LOOP = f"for x, y in loader:\n    {STEP}\n    "


def guarded(source: str) -> bool:
    program = parsed(source, HEAD)
    (call,) = probes(program)
    context = program.context(call)
    assert context.role.name == "TRAIN"
    return context.guarded


@pytest.mark.parametrize(
    ("test", "rare"),
    [
        ("x.size(0) == 0", True),
        ("x.shape[1] == 0", True),
        ("x.numel() < 1", True),
        ("x.nelement() <= 0", True),
        ("not x.numel()", True),
        ("len(torch.cat([x, y])) == 0", True),
        ("go and x.size(0) == 0", True),
        ("x.size(0) == 0 or y.size(0) == 0", True),
        ("go or x.size(0) == 0", False),
        ("x.size(0) == 1", False),
        ("x.size(0) > 0", False),
        ("x.size(0) != 0", False),
        ("len(gpus) == 0", False),
        ("x.size() == 0", False),
        ("x.item() == 0", False),
        ("self.anchors.shape[0] == 0", False),
    ],
)
def test_what_asks_for_an_empty_batch(test: str, rare: bool) -> None:
    assert guarded(f"{LOOP}if {test}:\n        probe()\n") is rare


@pytest.mark.parametrize(
    ("test", "rare"),
    [
        ("x.size(0) > 0", True),
        ("x.shape[1] != 0", True),
        ("x.numel() >= 1", True),
        ("len(old[mask == 1]) > 0", True),
        ("len(old[mask]) > 0", False),
        ("len(old[mask is x]) > 0", False),
        ("go and x.size(0) > 0", False),
        ("x.size(0) > 1", False),
        ("x.size(0) == 0", False),
    ],
)
def test_what_is_left_for_an_empty_batch(test: str, rare: bool) -> None:
    assert guarded(f"{LOOP}if {test}:\n        g()\n    else:\n        probe()\n") is rare


@pytest.mark.parametrize(
    ("bound", "rare"),
    [
        ("boxes = x.size(1)", True),
        ("b, boxes = x.shape", True),
        ("b, boxes = x.size()", True),
        ("b, boxes = x.shape[:2]", True),
        ("boxes = x.size()", False),
        ("boxes = args.count", False),
        ("boxes = x.size(1) if go else args.count", False),
        ("for boxes in spans: pass", False),
    ],
)
def test_names_of_sizes(bound: str, rare: bool) -> None:
    assert guarded(f"{LOOP}{bound}\n    if boxes < 1:\n        probe()\n") is rare


@pytest.mark.parametrize(
    ("made", "bound", "rare"),
    [
        ("pass", "self.n = x.size(1)", True),
        ("pass", "self.n = count", False),
        ("self.n = weight.size(0)", "pass", False),
        ("self.n = 0", "self.n = x.size(1)", False),
        ("pass", "pass", False),
    ],
)
def test_sizes_that_an_object_keeps(made: str, bound: str, rare: bool) -> None:
    methods = (
        f"class Learner:\n    def __init__(self, weight):\n        {made}\n"
        f"    def observe(self, x, count):\n        {STEP}\n        {bound}\n"
        "        if self.n == 0:\n            probe()\n"
    )
    assert guarded(methods) is rare


@pytest.mark.parametrize(
    ("made", "rare"),
    [("valid = old[mask == 1]", True), ("valid = old[3]", False), ("valid, n = old", False)],
)
def test_what_a_mask_selects_by_a_name(made: str, rare: bool) -> None:
    source = f"{LOOP}{made}\n    if len(valid) > 0:\n        g()\n    else:\n        probe()\n"
    assert guarded(source) is rare
