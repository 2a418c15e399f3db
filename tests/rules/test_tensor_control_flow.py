"""TL203: conditions on tensors of the GPU and sizes that depend on them, in every step."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, silent

from torchlint.rule import Severity

CODE = "TL203"

HEAD = """\
import math
import sys
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
DEBUG = False


def train(loader, args, logger, bad=0, best=9.0, kv_cache=None):
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
"""
TAIL = """
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x, kv_cache=None):
        x = self.layer(x)
"""
RETURN = """
        return x


def train(loader):
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
"""


def loop(statements: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(statements), " " * 8) + TAIL


def forward(statements: str) -> str:
    return NET + textwrap.indent(textwrap.dedent(statements), " " * 8) + RETURN


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("if x.shape[0] > 4: bad += 1", id="a shape"),
        pytest.param("if x.dtype == torch.float16: bad += 1", id="a dtype"),
        pytest.param("if x.is_cuda and len(x) > 3 and x.dim() > 1: bad += 1", id="properties"),
        pytest.param("if x.grad is None or x is not y: bad += 1", id="which object it is"),
        pytest.param("if torch.is_autocast_enabled(): bad += 1", id="the mode of autocast"),
        pytest.param("if torch.cuda.is_available(): bad += 1", id="the machine"),
        pytest.param("if best > 3: bad += 1", id="a Python number"),
        pytest.param("if torch.rand(1) < 0.5: bad += 1", id="a tensor on the host"),
        pytest.param("if args.weights > args.limit: bad += 1", id="who knows what"),
        pytest.param("if loss.item() > 3: bad += 1", id="a read, which has a rule"),
        pytest.param("if math.isnan(loss): bad += 1", id="a read by its NaN"),
        pytest.param("if step % 9 == 0:\n    if loss > 3: bad += 1", id="every n steps"),
        pytest.param("if step % 9 == 0 and loss > 3: bad += 1", id="every n steps, in one line"),
        pytest.param("if DEBUG and torch.isnan(loss): bad += 1", id="a flag that is off"),
        pytest.param("fine = step is None or out.any()", id="nobody asks"),
        pytest.param("def bool(x): return x\nfine = bool(out.any())", id="no conversion"),
        pytest.param("if device == 'cpu':\n    assert loss > 0", id="a branch for the CPU"),
        pytest.param(
            "if not torch.cuda.is_available():\n    assert loss > 0", id="a branch without a GPU"
        ),
        pytest.param("out[out > 3] = 0", id="a mask that is written to"),
        pytest.param("z = out[y.long()]", id="an index"),
    ],
)
def test_leaves_alone(statements: str) -> None:
    silent(loop(statements), CODE)


def test_a_buffer_of_a_model_may_be_on_the_gpu() -> None:
    (found,) = check(forward("if self.scale.min() > 3:\n    x = x + 1"), CODE)
    assert found.severity.word == "info"


def test_leaves_a_cpu_script_alone() -> None:
    source = loop("assert loss > 0").replace('"cuda" if torch.cuda.is_available() else ', "")
    silent(source, CODE)


def test_leaves_the_end_of_an_epoch_alone() -> None:
    silent(loop("pass") + "    if loss > 3: bad += 1\n", CODE)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("if self.training: x = x + 1", id="the mode"),
        pytest.param("if self.layer.bias is not None: x = x + 1", id="a layer without a bias"),
        pytest.param("if kv_cache is not None and x[-1, 0] > 9: x = x + 1", id="a cache"),
    ],
)
def test_leaves_alone_in_a_forward_pass(statements: str) -> None:
    silent(forward(statements), CODE)


@pytest.mark.parametrize(
    ("statements", "asked"),
    [
        ("if loss > best: bad += 1", "loss > best"),
        ("if not torch.isfinite(loss).all(): sys.exit(1)", "torch.isfinite(loss).all()"),
        ("assert (out >= 0).all(), 'below'", "(out >= 0).all()"),
        ("if (out > 9).any(): raise ValueError(1)", "(out > 9).any()"),
        ("fine = not out.isnan().any()", "out.isnan().any()"),
        ("fine = bool(out.isnan().any())", "out.isnan().any()"),
        ("best = loss.detach() if loss < best else best", "loss < best"),
        ("fine = (out > 0).all() and step", "(out > 0).all()"),
        ("if torch.isnan(loss) and DEBUG: print('NaN')", "torch.isnan(loss)"),
        ("while loss > 3:\n    loss = loss / 2", "loss > 3"),
        ("kept = [one for one in (loss,) if one > 0]", "one > 0"),
    ],
)
def test_reports_what_is_asked(statements: str, asked: str) -> None:
    source = loop(statements)
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == asked
    assert found.severity is Severity.WARNING
    assert found.message == f"asking whether `{asked}` waits for the GPU in every training step"


@pytest.mark.parametrize(
    "code", ["out[out > 0]", "out.nonzero()", "torch.unique(out)", "out.masked_select(out > 0)"]
)
def test_reports_sizes(code: str) -> None:
    (found,) = check(loop(f"z = {code}"), CODE)
    assert found.message == f"the size of `{code}` waits for the GPU in every training step"
    assert (found.severity, "masked_fill" in found.help) == (Severity.WARNING, True)


def test_reports_questions_of_a_forward_pass() -> None:
    (found,) = check(forward("if (x > 3).any(): x = x + 1"), CODE)
    assert found.severity is Severity.WARNING
    assert "`(x > 3).any()` waits for the GPU in every training step" in found.message


def test_reports_a_statement_once() -> None:
    (found,) = check(loop("bad = bool(loss > 3) + (not out.any())"), CODE)
    assert "`loss > 3` and 1 more waits" in found.message


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loop("if args.debug:\n    assert loss > 0"), id="an option asks for it"),
        pytest.param(loop("fine = args.debug and loss > 0 and step"), id="asked first"),
        pytest.param(loop("assert (x >= 0).all()"), id="of what was moved, which nobody knows"),
        pytest.param("import lightning\n" + loop("assert loss > 0"), id="a framework"),
        pytest.param(
            "import torch\n\ndef evaluate(model, loader):\n    model.eval().cuda()\n"
            "    with torch.no_grad():\n        for x, y in loader:\n"
            "            if (model(x.cuda()).argmax(1) == y.cuda()).all():\n"
            "                print('good')\n",
            id="an evaluation",
        ),
    ],
)
def test_tells_of_what_may_not_cost_in_every_step(source: str) -> None:
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    ("statements", "advice"),
    [("assert loss > 0", "torch._assert_async"), ("if loss < best: best = loss", "torch.where")],
)
def test_says_what_to_write_instead(statements: str, advice: str) -> None:
    (found,) = check(loop(statements), CODE)
    assert advice in found.help


def test_knows_what_a_helper_is_given() -> None:
    helper = "\n\ndef check(value):\n    if value > 3:\n        raise RuntimeError\n"
    (found,) = check(loop("check(loss)") + helper, CODE)
    assert found.message.endswith("`value > 3` waits for the GPU in every training step")
    silent(loop("check(loss.item())") + helper, CODE)
