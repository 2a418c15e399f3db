"""Models: where they are met again, what feeds what in them, and whether they are trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest
from revealing import evaluated

from torchlint.training.effects import Effects
from torchlint.training.layers import Layers
from torchlint.training.models import Uses
from torchlint.training.trained import may_be_trained

if TYPE_CHECKING:
    from torchlint.semantics.values import At

HEAD = "import torch\nfrom torch import nn\n"


def uses(code: str) -> Uses:
    evaluation = evaluated(HEAD + code)
    return Uses(evaluation, Effects(evaluation))


def first(found: Uses, kind: str) -> At:
    """Return the first call in the text that makes a layer of a kind."""
    calls = found.module(0).index.of(cst.Call)
    made = [call for call in calls if found.module(0).code(call.func) == f"nn.{kind}"]
    return found.evaluation.at(made[0], 0)


@pytest.mark.parametrize(
    ("code", "methods"),
    [
        ("m = nn.Linear(1, 1)\nm.cuda().eval()\nn = m\nn.train()\n", ["eval", "cuda", "train"]),
        ("def f(model):\n    model.half()\nf(nn.Linear(1, 1))\n", ["half"]),
        ("class A:\n    def __init__(self):\n        self.m = nn.Linear(1, 1)\n\nA().m.eval()\n",
         ["eval"]),
    ],
)  # fmt: skip
def test_methods_that_are_called_on_it(code: str, methods: list[str]) -> None:
    found = uses(code)
    assert [call.name for call in found.methods(first(found, "Linear"))] == methods


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("m = nn.Sequential(nn.Linear(1, 1), nn.ReLU())", ["ReLU"]),
        ("m = nn.Sequential(nn.Sequential(nn.Linear(1, 1)), nn.Tanh())", ["Tanh"]),
        ("parts = [nn.Linear(1, 1)]\nparts += [nn.ReLU()]\nm = nn.Sequential(*parts)", ["ReLU"]),
        ("parts = []\nfor n in a:\n    parts.append(nn.Linear(1, 1))\nm = nn.Sequential(*parts)",
         ["Linear"]),
        ("p = [nn.Linear(1, 1)]\nif a:\n    p += [nn.Tanh()]\np += [nn.ELU()]\nnn.Sequential(*p)",
         ["Tanh", "ELU"]),
        ("p = [nn.Linear(1, 1)]\nfor n in a:\n    p += [nn.ReLU(), nn.Tanh()]\nnn.Sequential(*p)",
         ["ReLU"]),
        ("y = nn.Linear(1, 1)(x)\nz = nn.Tanh()(y)", ["Tanh"]),
        ("y = nn.Linear(1, 1)(x)\nz = nn.Tanh()(y) + y", ["Tanh", ""]),
    ],
)  # fmt: skip
def test_what_gets_its_output(code: str, kinds: list[str]) -> None:
    found = uses(code)
    consumers = Layers(found).consumers(first(found, "Linear"))
    assert [one.kind.rpartition(".")[2] for one in consumers] == kinds


@pytest.mark.parametrize(
    ("code", "may_be"),
    [
        ("m = nn.Linear(1, 1).eval()\nloss.backward()\n", False),
        ("m = nn.Linear(1, 1)\nloss.backward()\nm.eval()\n", True),
        ("m = nn.Linear(1, 1)\nn = nn.Sequential(m)\nn.eval()\n", False),
        ("m = nn.Linear(1, 1).eval()\nn = nn.Sequential(m)\nn.train()\n", True),
    ],
)
def test_whether_it_is_trained(code: str, may_be: bool) -> None:
    found = uses(code)
    assert may_be_trained(found, first(found, "Linear")) is may_be
