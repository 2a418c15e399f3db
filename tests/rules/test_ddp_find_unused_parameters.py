"""TL803: replicated models that look for unused parameters in every step."""

from __future__ import annotations

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL803"
ROW = "nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Sequential(nn.LSTM(4, 2)))"
LOOP = "for x in loader:\n    model(x).sum().backward()\n"


def script(given: str = "find_unused_parameters=True", model: str = ROW, loop: str = LOOP) -> str:
    """Return the training of a replicated model."""
    return (
        "from torch import nn\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
        "from elsewhere import Net\n\nclass Own(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.one, self.other = nn.Linear(2, 2), nn.Tanh()\n"
        "\n    def forward(self, x):\n        return self.one(x)\n\n"
        "class Both(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.one, self.size = nn.Linear(2, 2), 2\n\n"
        "    def forward(self, x):\n        return self.one(x)\n\n"
        "class Some(Both):\n    def forward(self, x):\n        return self.one(x) if x else x\n\n"
        "class More(Both):\n    def __init__(self):\n        super().__init__()\n"
        "        self.two = nn.Linear(2, 2)\n\n"
        "    def forward(self, x):\n        return self.two(x)\n\n"
        f"model = DDP({model}, device_ids=[rank], {given})\n{loop}"
    )


SILENT = {
    "it does not look": script("find_unused_parameters=False"),
    "nobody says so": script("broadcast_buffers=False"),
    "an option says so": script("find_unused_parameters=args.find_unused"),
    "the first step alone looks": script("find_unused_parameters=True, static_graph=True"),
    "it only evaluates": script(loop="for x in loader:\n    print(model(x))\n"),
}  # fmt: skip


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT)
def test_is_silent(source):
    silent(source, CODE)


FOUND = {
    "a row of layers": (script(), Severity.WARNING),
    "layers of a list": (script(model="nn.Sequential(*[nn.Tanh() for _ in x])"), Severity.WARNING),
    "all that forward runs": (script(model="Both()"), Severity.WARNING),
    "a layer": (script(model="nn.Linear(8, 4)"), Severity.WARNING),
    "a model that leaves some out": (script(model="Own()"), Severity.INFO),
    "a model that leaves some out at times": (script(model="Some()"), Severity.INFO),
    "layers of the class that it extends": (script(model="More()"), Severity.INFO),
    "layers that nobody runs": (script(model="nn.ModuleList([nn.Linear(2, 2)])"), Severity.INFO),
    "a model that nobody knows": (script(model="Net()"), Severity.INFO),
    "at times": (script(loop=LOOP.replace("model(x)", "(model(x) if x else x)")), Severity.INFO),
}  # fmt: skip


@pytest.mark.parametrize(("source", "severity"), FOUND.values(), ids=FOUND)
def test_reports(source, severity):
    (found,) = check(source, CODE)
    assert found.severity is severity
    assert "looks for parameters without gradients in" in found.message


def test_the_fix():
    (found,) = check(script(), CODE)
    assert found.fix.safety is Safety.UNSAFE
    assert fixed(script(), CODE) == script("").replace(", )", ")")
    (found,) = check(script(model="Net()"), CODE)
    assert found.fix is None
