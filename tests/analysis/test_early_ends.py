"""Loops over a loader that end after a few batches."""

from __future__ import annotations

import libcst as cst
import pytest
from probing import HEAD, parsed

from torchlint.analysis.early_ends import ends_early

MODULE = """
from argparse import ArgumentParser
parser = ArgumentParser()
parser.add_argument("--few", type=int, default=4)
parser.add_argument("--many", type=int, default=400)
args = parser.parse_args()
FEW = 8

def show(loader, model, samples, most=3):
"""


def found(lines: str, calls: str = "") -> bool:
    body = "\n".join(f"    {line}" for line in lines.splitlines())
    program = parsed(f"{MODULE}{body}\n{calls}", HEAD)
    (loop,) = program.index.of(cst.For)
    return ends_early(program, loop)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("for i, x in enumerate(loader):\n    model(x)", id="no end"),
        pytest.param(
            "for i, x in enumerate(loader):\n    if i > samples:\n        break", id="nobody calls"
        ),
        pytest.param(
            "for i, x in enumerate(loader):\n    if i > 100:\n        break", id="many batches"
        ),
        pytest.param(
            "for i, x in enumerate(loader):\n    if i > args.many:\n        break", id="an option"
        ),
        pytest.param(
            "for i, x in enumerate(loader):\n    if i < 3:\n        break", id="the other way round"
        ),
        pytest.param(
            "for i, x in enumerate(loader):\n    if i > 3:\n        print(i)", id="goes on"
        ),
        pytest.param(
            "for i, x in enumerate(loader):\n    if 3 > i > 2:\n        break", id="a range"
        ),
        pytest.param("for x in loader:\n    if len(x) > 3:\n        break", id="no count"),
        pytest.param(
            "for i, x in enumerate(loader):\n    if x.max() > 3:\n        break", id="a value"
        ),
        pytest.param(
            "for i, x in enumerate(loader):\n    if ready:\n        if i > 3:\n            break",
            id="perhaps",
        ),
        pytest.param(
            "for i, x in enumerate(loader):\n    if i > unknown():\n        break", id="computed"
        ),
    ],
)
def test_goes_on(lines: str) -> None:
    assert not found(lines)


@pytest.mark.parametrize(
    ("end", "calls"),
    [
        pytest.param("i >= 5", "", id="a literal"),
        pytest.param("i + 1 == 5", "", id="counted from one"),
        pytest.param("i == FEW - 1", "", id="a constant"),
        pytest.param("i > args.few", "", id="an option"),
        pytest.param("i > samples", "show(loader, model, 4)", id="by the caller"),
        pytest.param("i > most", "show(loader, model, 400)", id="by default"),
    ],
)
def test_ends_early(end: str, calls: str) -> None:
    assert found(f"for i, x in enumerate(loader, 1):\n    if {end}:\n        break", calls)


def test_one_caller_asks_for_many() -> None:
    lines = "for i, x in enumerate(loader):\n    if i > samples:\n        break"
    assert not found(lines, "show(loader, model, 4)\nshow(loader, model, 400)")
