"""Whether tensors lie in memory in the order of their dimensions."""

from __future__ import annotations

import libcst as cst
import pytest
from revealing import evaluated

from torchlint.training.density import is_dense

HEAD = """
import numpy as np
import torch
def pair(n):
    x = torch.rand(n, 3, 4)
    return x.permute(0, 2, 1), (x[:, 0] > 1).long()
made = torch.zeros(2, 3, 4)
turned = made.transpose(1, 2)
first, second = pair(4)
"""


@pytest.mark.parametrize(
    ("code", "dense"),
    [
        ("made", True),
        ("turned", False),
        ("turned.contiguous()", True),
        ("made.sum(1) + 1", True),
        ("turned * 2", False),
        ("first", False),
        ("second", True),
        ("torch.cat([made, made])", True),
        ("torch.cat([made, turned])", False),
        ("torch.from_numpy(np.arange(9).astype(np.float32))", True),
        ("torch.load('x')", False),
        ("pair(made)", False),
        ("unknown", False),
    ],
)
def test_is_dense(code: str, dense: bool) -> None:
    evaluation = evaluated(f"{HEAD}reveal({code})\n")
    call = evaluation.files.modules[0].index.of(cst.Call)
    (asked,) = (
        one for one in call if isinstance(one.func, cst.Name) and one.func.value == "reveal"
    )
    assert is_dense(evaluation, asked.args[0].value) is dense
