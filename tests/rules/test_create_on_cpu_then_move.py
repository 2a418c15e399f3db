"""TL301: tensors that are made on the host and then copied to the GPU."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL301"
HEAD = """\
import numpy as np
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


def step(lines: str, head: str = "") -> str:
    """Return a script with lines in its training steps."""
    body = textwrap.indent(lines, "    ")
    return f"{HEAD}{head}for x in batches:\n    model(x).backward()\n{body}\n"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("z = torch.FloatTensor(x).to(device)", id="values"),
        pytest.param("z = torch.Tensor([[0.5, n]]).to(device)", id="a list of values"),
        pytest.param("z = torch.zeros(3, device=device)", id="made where it is wanted"),
        pytest.param("z = torch.zeros(3, **options).to(device)", id="perhaps made elsewhere"),
        pytest.param("z = torch.randn(3, generator=g).to(device)", id="a generator of the host"),
        pytest.param("z = torch.zeros(3, out=b).to(device)", id="into memory of its own"),
        pytest.param("z = torch.zeros(3).to(torch.float16)", id="another dtype"),
        pytest.param("z = torch.zeros(3).to('cpu')", id="stays on the host"),
        pytest.param("z = torch.zeros(3).to('mps')", id="goes to Apple's GPU"),
        pytest.param("z = torch.zeros(3).to(*where)", id="hidden by a star"),
        pytest.param("z = torch.zeros(3)", id="stays where it is made"),
        pytest.param("z = torch.empty(0).to(device)", id="no element"),
        pytest.param("z = torch.normal(mean, std).to(device)", id="made where others are"),
        pytest.param("z = torch.arange(3).expand(4, 3).to(device)", id="rows of their own"),
        pytest.param("z = torch.tensor([1.0, x.size(0)]).to(device)", id="copied anyway"),
        pytest.param("z = torch.zeros(3)\nz[0] = 1\nz = z.to(device)", id="filled on the host"),
        pytest.param("z = torch.zeros(3)\nprint(z)\nz = z.to(device)", id="read on the host"),
        pytest.param("z = torch.tensor(values, device=device)", id="values of a variable"),
        pytest.param("z = torch.tensor(1.0)", id="a number on the host"),
        pytest.param("z = torch.tensor(1e300, device=device)", id="too large a number"),
        pytest.param("z = torch.tensor(1.0, device=device, requires_grad=True)", id="a leaf"),
        pytest.param("a = np.zeros(3)\nprint(a)\nz = torch.tensor(a).to(device)", id="an array"),
        pytest.param("z = torch.tensor([1, 2]).to(device)\nz[0] = n", id="written into"),
        pytest.param("z = torch.tensor([1, 2]).to(device)\nz.add_(x)", id="changed in place"),
    ],
)
def test_is_silent(lines):
    silent(step(lines), CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(f"{HEAD}noise = torch.randn(8).to(device)\n", id="once"),
        pytest.param(f"{HEAD}def make():\n    return torch.ones(3).to(device)\n", id="not called"),
        pytest.param(step("if i % 9 == 0:\n    z = torch.ones(3).to(device)"), id="now and then"),
        pytest.param(step("if x.size(1) == 0:\n    z = torch.ones(3).cuda()"), id="perhaps"),
        pytest.param(step("z = torch.randperm(9).to(device)"), id="small"),
        pytest.param(step("z = torch.ones(3, device='cpu').to(device)"), id="made there by choice"),
        pytest.param(step("z = torch.ones(3).to(x.device)"), id="to a device that nobody knows"),
        pytest.param(
            f"{HEAD}class Net(torch.nn.Module):\n    def forward(self, x):\n"
            "        return x + torch.zeros(3).cuda()\n",
            id="a forward pass that nobody is seen to run",
        ),
        pytest.param(
            f"{HEAD}class Trainer:\n    def fit(self):\n        for x in batches:\n"
            "            model(x).backward()\n            if self.q is None:\n"
            "                self.q = torch.ones(8).to(device)\n",
            id="what the first step makes and keeps",
        ),
    ],
)
def test_is_information_where_it_does_not_cost_in_every_step(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO


def test_says_how_often_where_that_is_certain():
    (every,) = check(step("z = torch.ones(3).cuda()"), CODE)
    (some,) = check(step("if i % 9 == 0:\n    z = torch.ones(3).cuda()"), CODE)
    assert every.message.endswith(
        "is made on the host and then copied to the GPU in every training step"
    )
    assert some.message.endswith("is made on the host and then copied to the GPU")


@pytest.mark.parametrize(
    ("before", "after", "safety"),
    [
        ("torch.zeros(3).to(device)", "torch.zeros(3, device=device)", 1),
        ("torch.ones(3, 4).cuda()", 'torch.ones(3, 4, device="cuda")', 1),
        ("torch.ones(3).cuda(1)", 'torch.ones(3, device="cuda:1")', 1),
        ("torch.empty(3).to(device, non_blocking=True)", "torch.empty(3, device=device)", 1),
        ("torch.full((3,), 2.5).to(device)", "torch.full((3,), 2.5, device=device)", 1),
        ("torch.eye(3).to('cuda:0')", "torch.eye(3, device='cuda:0')", 1),
        ("torch.zeros(3).to(x.device)", "torch.zeros(3, device=x.device)", 1),
        (
            "torch.zeros(3).to(device, torch.half)",
            "torch.zeros(3, dtype=torch.half, device=device)",
            1,
        ),
        (
            "torch.zeros(3).view(3, 1).to(device)",
            "torch.zeros(3, device=device).view(3, 1)",
            1,
        ),
        (
            "torch.arange(0, n, dtype=torch.long).to(device)",
            "torch.arange(0, n, dtype=torch.long, device=device)",
            1,
        ),
        (
            "torch.arange(-2, 9).to(device)",
            "torch.arange(-2, 9, device=device)",
            1,
        ),
        ("torch.arange(a, b).to(device)", "torch.arange(a, b, device=device)", 2),
        ("torch.linspace(0, 1, 9).to(device)", "torch.linspace(0, 1, 9, device=device)", 2),
        ("torch.randn(3).to(device)", "torch.randn(3, device=device)", 2),
        (
            "torch.FloatTensor(3, n).uniform_().to(device)",
            "torch.empty(3, n, dtype=torch.float32, device=device).uniform_()",
            2,
        ),
        (
            "torch.zeros(3, requires_grad=True).to(device)",
            "torch.zeros(3, requires_grad=True, device=device)",
            2,
        ),
        ("torch.tensor(0.5, device=device)", "torch.full((), 0.5, device=device)", 1),
        ("torch.tensor(3, device=device)", "torch.full((), 3, device=device)", 1),
        ("torch.tensor(-1).to(device)", "torch.full((), -1, device=device)", 1),
    ],
)
def test_fixes(before, after, safety):
    (found,) = check(step(f"z = {before}"), CODE)
    assert found.fix is not None
    assert found.fix.safety is Safety(safety)
    assert fixed(step(f"z = {before}"), CODE) == step(f"z = {after}")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("torch.full((3,), 0.1).to(device, torch.half)", id="a value of another dtype"),
        pytest.param("torch.zeros(3).view(3).to(device, torch.half)", id="a dtype after a view"),
        pytest.param("torch.zeros(3).to(device, memory_format=f)", id="a memory format"),
        pytest.param("torch.randn(n).type(torch.cuda.FloatTensor)", id="a type of tensors"),
    ],
)
def test_reports_without_a_fix(line):
    (found,) = check(step(f"z = {line}"), CODE)
    assert found.fix is None


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("z = torch.rand(3)\nz = z.to(device)\nnet(z)", id="under its name"),
        pytest.param("z = torch.rand(3).view(1, 3)\ny = z.cuda()", id="under another name"),
        pytest.param("z = torch.rand(3)\nz = z.cuda() if x.is_cuda else z", id="if there is one"),
    ],
)
def test_what_a_later_line_moves(lines):
    (found,) = check(step(lines), CODE)
    assert (found.severity, found.fix) == (Severity.WARNING, None)
    assert "is made on the host, and then copied to the GPU in every training step" in found.message
    assert "make it there: `torch.rand(..., device=...)`, without `" in found.help


def test_what_a_function_of_another_file_moves(tmp_path):
    files = {
        "moving.py": "import torch\ndef to_var(x):\n    return x.cuda()\n",
        "train.py": "import torch\nfrom moving import to_var\nfor x in batches:\n"
        "    model(x).backward()\n    z = to_var(torch.ones(3))\n",
    }
    (found,) = check_in(tmp_path, files, "train.py", CODE)
    assert (found.location.row, found.severity, found.fix) == (5, Severity.WARNING, None)


@pytest.mark.parametrize(
    ("lines", "code", "text"),
    [
        ("z = torch.tensor(0.5, device=device)", "TL301b", "copies a number to the GPU"),
        (
            "y = x + torch.tensor([1.0, -2.0]).to(device)",
            "TL301b",
            "copies the same numbers to the GPU in every training step",
        ),
        (
            "z = torch.tensor(np.zeros(3)).to(device)",
            "TL301c",
            "`np.zeros(3)` is made on the host and then copied to the GPU in every training step",
        ),
        (
            "a = np.random.rand(3)\nz = torch.cuda.FloatTensor(a)",
            "TL301c",
            "`np.random.rand(3)` is made on the host",
        ),
    ],
)
def test_what_is_copied_in_every_step(lines, code, text):
    (found,) = check(step(lines), CODE)
    assert (found.code, found.severity) == (code, Severity.WARNING)
    assert text in found.message
