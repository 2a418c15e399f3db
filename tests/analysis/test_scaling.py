"""Gradient scalers, and what clips gradients."""

from __future__ import annotations

import libcst as cst
import pytest
from probing import HEAD, parsed

from torchlint.analysis.scaling import clips, exclusive


@pytest.mark.parametrize(
    ("line", "clipping"),
    [
        pytest.param("nn.utils.clip_grad_norm_(p, 1)", True, id="torch"),
        pytest.param("p.grad.data.clamp_(-1, 1)", True, id="by hand"),
        pytest.param("clip_all(p)", True, id="a function of the file"),
        pytest.param("x.clamp_(-1, 1)", False, id="no gradient"),
        pytest.param("other.clip_grad_norm_(p)", False, id="of somebody else"),
    ],
)
def test_clips(line, clipping):
    head = "def clip_all(p):\n    for q in p: q.grad.clamp_(-1, 1)\n"
    program = parsed(f"{line}\n", HEAD + head)
    assert any(program.function(call) is None for call in clips(program)) is clipping


def test_exclusive():
    program = parsed("if a:\n    f()\nelse:\n    g()\nh()\n")
    f, g, h = program.index.of(cst.Call)
    assert exclusive(program, f, g)
    assert not exclusive(program, f, h)
