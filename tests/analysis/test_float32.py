"""How a file computes in float32."""

from __future__ import annotations

import pytest

from torchlint.analysis.float32 import product, switches, turns_off
from torchlint.analysis.program import Program

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


@pytest.mark.parametrize(
    ("code", "name", "value"),
    [
        ("torch.set_float32_matmul_precision('high')", "torch.set_float32_matmul_precision", True),
        ("torch.get_float32_matmul_precision()", "torch.get_float32_matmul_precision", False),
        (
            "torch.backends.cudnn.allow_tf32 = False",
            "torch.backends.cudnn.allow_tf32",
            True,
        ),
        (
            "print(torch.backends.cuda.matmul.allow_tf32)",
            "torch.backends.cuda.matmul.allow_tf32",
            False,
        ),
        ("torch.backends.fp32_precision = 'ieee'", "torch.backends.fp32_precision", True),
    ],
)
def test_switches(code, name, value):
    [found] = switches(Program(HEAD + code + "\n"))
    assert (found.name, found.value is not None) == (name, value)


@pytest.mark.parametrize(
    "code", ["mine.allow_tf32 = False", "torch.backends.cudnn.benchmark = True", "f.fp32_precision"]
)
def test_what_is_no_switch(code):
    assert list(switches(Program(HEAD + code + "\n"))) == []


@pytest.mark.parametrize(
    ("value", "off"),
    [("False", True), ("True", False), ("'highest'", True), ("'ieee'", True), ("'tf32'", False),
     ("args.exact", False)],
)  # fmt: skip
def test_turns_off(value, off):
    [found] = switches(Program(HEAD + f"torch.backends.cudnn.allow_tf32 = {value}\n"))
    assert turns_off(found) is off


def forward(code: str) -> str:
    return f"class Net(nn.Module):\n    def forward(self, x):\n        return {code}\n"


@pytest.mark.parametrize(
    "code",
    [
        "nn.Transformer(512)",
        "nn.TransformerEncoderLayer(512, 8)",
        "nn.MultiheadAttention(512, 8)",
        "nn.Linear(512, 1024)",
        "nn.Linear(8, 64)\nn = 768\nnn.Linear(n, n)",
        forward("torch.matmul(x, x)"),
        forward("x.matmul(x)"),
        forward("x @ self.weight"),
        forward("torch.einsum('ij,jk->ik', x, x)"),
        forward("F.scaled_dot_product_attention(x, x, x)"),
        "nn.Conv2d(3, 64, 3)\n" + forward("torch.bmm(x, x)"),
    ],
)
def test_product(code):
    assert product(Program(HEAD + code + "\n")) is not None


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("nn.Linear(10, 10)", id="small"),
        pytest.param("nn.Linear(512, 512)", id="narrow"),
        pytest.param("nn.Linear(10, 1024)", id="of few weights"),
        pytest.param("nn.Linear(784, 520)", id="for digits"),
        pytest.param("nn.Linear(n, 512)", id="of unknown size"),
        pytest.param("nn.Linear()", id="of no size"),
        pytest.param(
            "nn.Conv2d(3, 64, 3)\nnn.Linear(512, 1000)", id="the end of a convolution net"
        ),
        pytest.param("torch.matmul(x, x)", id="not in a forward pass"),
        pytest.param("@decorated\ndef f(x):\n    return x @ x", id="in a function"),
        pytest.param(forward("mine.einsum(x)"), id="not torch's"),
        pytest.param(forward("x.mm(x)") + "import mm", id="of what is not known"),
        pytest.param("Transformer(512)", id="a class of the project"),
        pytest.param("import sparse\n" + forward("x @ self.w"), id="a sparse matrix, perhaps"),
        pytest.param("import sparse\n" + forward("torch.mm(x, x)"), id="a sparse one, by a call"),
        pytest.param("nn.GRU(512, 512)", id="cuDNN's, which uses it already"),
    ],
)
def test_no_product(code):
    assert product(Program(HEAD + code + "\n")) is None
