"""Switches of torch: what is set, to which value, and what models are made of."""

from __future__ import annotations

import libcst as cst
import pytest
from revealing import evaluated

from torchlint.training.parts import Parts
from torchlint.training.settings import settings

BENCHMARK = "torch.backends.cudnn.benchmark"


@pytest.mark.parametrize(
    ("source", "name", "off"),
    [
        ("torch.backends.cudnn.benchmark = False", BENCHMARK, True),
        ("import torch.backends.cudnn as c\nc.benchmark = True", BENCHMARK, False),
        ("from torch.backends import cudnn\ncudnn.benchmark = x", BENCHMARK, False),
        ("a, torch.backends.cudnn.benchmark = True, False", BENCHMARK, False),
        (
            "torch.set_float32_matmul_precision('highest')",
            "torch.set_float32_matmul_precision",
            True,
        ),
    ],
)
def test_settings(source, name, off):
    (found,) = settings(evaluated(f"import torch\n{source}\n"))
    assert (found.name, found.is_off) == (name, off)


def test_another_object_is_no_switch():
    assert settings(evaluated("mine.cudnn.benchmark = False\n")) == ()


def test_parts():
    made = evaluated(
        "import torch\nfrom torch import nn\n"
        "class Block(nn.Module):\n"
        "    def __init__(self):\n        self.one = nn.Linear(2, 2)\n"
        "    def forward(self, x):\n        return torch.mm(x, x).relu() @ torch.ones(2, 2)\n"
        "model = nn.Sequential(nn.Conv2d(3, 8, 3), Block())\n"
        "reveal(model)\n"
    )
    call = made.files.modules[0].index.of(cst.Call)[-1]
    names = {part.name for part in Parts(made).of(made.values[id(call.args[0].value)])}
    layers = {"torch.nn.Conv2d", "torch.nn.Linear"}
    assert layers | {"torch.mm", "torch.Tensor.relu", "torch.matmul"} <= names
