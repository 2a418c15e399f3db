from __future__ import annotations

import pytest

from torchlint.edits.fix import Safety
from torchlint.syntax.text import Edit, apply, overlap


def test_apply():
    edits = [Edit(4, 5, "Y"), Edit(0, 1, ""), Edit(6, 6, "!"), Edit(1, 1, "x")]
    assert apply("a = y ", edits) == "x = Y !"
    assert apply("a", []) == "a"


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([Edit(0, 2, ""), Edit(1, 3, "")], id="overlap"),
        pytest.param([Edit(2, 9, "")], id="beyond the end"),
        pytest.param([Edit(2, 1, "")], id="backwards"),
        pytest.param([Edit(-1, 1, "")], id="before the start"),
    ],
)
def test_apply_refuses(edits):
    with pytest.raises(ValueError, match="overlaps another or lies outside"):
        apply("abcd", edits)


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        pytest.param(Edit(0, 2, ""), Edit(1, 3, ""), True, id="same characters"),
        pytest.param(Edit(2, 2, "a"), Edit(2, 2, "b"), True, id="insertions at one place"),
        pytest.param(Edit(0, 2, ""), Edit(2, 2, "b"), True, id="insertion at an end"),
        pytest.param(Edit(0, 2, ""), Edit(3, 4, ""), False, id="apart"),
    ],
)
def test_overlap(first, second, result):
    assert overlap([first], [second]) is result
    assert overlap([second], [Edit(9, 9, ""), first]) is result


def test_words():
    assert [safety.word for safety in Safety] == ["safe", "unsafe"]
