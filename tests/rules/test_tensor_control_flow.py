"""TL203: conditions on tensors of the GPU, for which the host waits in every step."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from tools import check, check_in, silent

from torchlint.rule import Severity

if TYPE_CHECKING:
    from pathlib import Path

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
        pytest.param("if torch.is_grad_enabled(): bad += 1", id="the mode of autograd"),
        pytest.param("if torch.is_autocast_enabled(): bad += 1", id="the mode of autocast"),
        pytest.param("if torch.cuda.is_available(): bad += 1", id="the machine"),
        pytest.param("if best > 3: bad += 1", id="a Python number"),
        pytest.param("if torch.rand(1) < 0.5: bad += 1", id="a tensor on the host"),
        pytest.param("if args.weights > args.limit: bad += 1", id="who knows what"),
        pytest.param("if loss.item() > 3: bad += 1", id="a read, which has a rule"),
        pytest.param("if math.isnan(loss): bad += 1", id="a read by its NaN"),
        pytest.param("if step % 9 == 0:\n    if loss > 3: bad += 1", id="every n steps"),
        pytest.param("if step % 9 == 0 and loss > 3: bad += 1", id="every n steps, in one line"),
        pytest.param("if args.debug:\n    assert loss > 0", id="a debug mode"),
        pytest.param("if DEBUG and torch.isnan(loss): bad += 1", id="a flag that is asked first"),
        pytest.param("fine = step > 9 and not out.any()", id="what is asked first may settle it"),
        pytest.param("fine = step > 9 and (out.any() or 1)", id="a choice that may not come"),
        pytest.param("fine = step > 9 and bool(out.any())", id="a conversion that may not come"),
        pytest.param("fine = step is None or out.any()", id="nobody asks"),
        pytest.param("def bool(x): return x\nfine = bool(out.any())", id="no conversion"),
        pytest.param("while loss > 3:\n    loss = loss / 2", id="one more turn of a loop"),
        pytest.param("while True:\n    if loss < 3: break\n    loss = loss / 2", id="a loop's end"),
        pytest.param("seen = out > 0\nif seen.any():\n    out = out[seen]", id="a mask selects"),
        pytest.param("z = out[out > 0] if (out > 0).any() else out", id="a mask selects, or not"),
        pytest.param(
            "seen = out.gt(0)\nif not seen.any():\n    bad += 1\nelse:\n    out = out[seen]",
            id="a mask by another name selects in the other arm",
        ),
        pytest.param("if not torch.isnan(out).any():\n    loss = loss + out.sum()",
                     id="a term that may be none"),
        pytest.param("if kv_cache is not None:\n    if out[-1, 0] > 9: bad += 1", id="a cache"),
        pytest.param(
            "sizes = [torch.zeros(1, device=device)] * 2\n"
            "torch.distributed.all_gather(sizes, out.max())\n"
            "if out.max() != 9: bad += 1",
            id="what all processes have",
        ),
        pytest.param("z = out[out > 0]\nif (z > 0).all(): bad += 1", id="after a mask selected"),
        pytest.param("if device == 'cpu':\n    assert loss > 0", id="a branch for the CPU"),
    ],
)  # fmt: skip
def test_leaves_alone(statements: str) -> None:
    silent(loop(statements), CODE)


def clipped(clip: str, condition: str) -> str:
    """Return a training step that asks for the norm that it clips by, where an option says so."""
    ask = f"if {condition}:\n    norm = nn.utils.{clip}(model.parameters(), args.clip)\n"
    ask += "    if norm > args.clip: bad += 1"
    update = "        loss.backward()\n"
    source = loop("")
    assert update in source
    return source.replace(update, update + textwrap.indent(ask, " " * 8) + "\n")


@pytest.mark.parametrize("clip", ["clip_grad_norm_", "clip_grad_norm"])
def test_a_norm_to_clip_by_is_asked_about(clip: str) -> None:
    (found,) = check(clipped(clip, "args.clip is not None"), CODE)
    assert found.severity is Severity.WARNING
    silent(clipped(clip, "step % 9 == 0"), CODE)


def test_a_norm_of_torch_before_1_5_is_a_number() -> None:
    source = clipped("clip_grad_norm", "args.clip is not None")
    silent(source + "\n\nbest = torch.gesv(make(), make())\n", CODE)


COUNTS = """
class Trainer:
    def __init__(self, model, criterion, metric):
        self.model = model.to(device)
        self.criterion = criterion.to(device)
        self.metric = metric.to(device)

    def train(self, loader):
        for x, y in loader:
            loss, count = self.criterion(self.model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right, other = self.metric(x.to(device), y.to(device))
            {}
"""


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("assert count == other", id="two of them"),
        pytest.param("if count > 3: print(x)", id="one of them"),
        pytest.param("if count: print(x)", id="by itself"),
    ],
)
def test_leaves_results_alone_that_may_be_numbers(statement: str) -> None:
    head = HEAD.partition("def train")[0]
    silent(head + COUNTS.format(statement), CODE)
    used = statement.replace("count", "loss")  # it goes back: it is a tensor
    (found,) = check(head + COUNTS.format(used), CODE)
    assert "loss" in found.message


def test_leaves_a_cpu_script_alone() -> None:
    source = loop("assert loss > 0").replace('"cuda" if torch.cuda.is_available() else ', "")
    silent(source, CODE)


def test_leaves_evaluations_alone() -> None:
    source = """
    import torch

    def evaluate(model, loader):
        model.eval().cuda()
        good = 0
        with torch.no_grad():
            for x, y in loader:
                if (model(x.cuda()).argmax(1) == y.cuda()).all():
                    good += 1
        return good
    """
    silent(source, CODE)


def test_leaves_the_end_of_an_epoch_alone() -> None:
    source = loop("pass") + "    if loss > 3:\n        print('high')\n"
    silent(source + "\n\nfor epoch in range(9):\n    train([], 0, 0)\n", CODE)


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
        ("if torch.isnan(loss): raise RuntimeError(step)", "torch.isnan(loss)"),
        ("if not torch.isfinite(loss).all(): sys.exit(1)", "torch.isfinite(loss).all()"),
        ("assert (x >= 0).all(), 'below'", "(x >= 0).all()"),
        ("if (out > 9).any(): logger.warning('high')", "(out > 9).any()"),
        ("if (out > 9).any(): raise ValueError(out[out > 9])", "(out > 9).any()"),
        ("fine = not out.isnan().any()", "out.isnan().any()"),
        ("fine = bool(out.isnan().any())", "out.isnan().any()"),
        ("best = loss.detach() if loss < best else best", "loss < best"),
        ("fine = (out > 0).all() and step", "(out > 0).all()"),
        ("if torch.isnan(loss) and DEBUG: print('NaN')", "torch.isnan(loss)"),
        ("if kv_cache is None and loss > 3: bad += 1", "loss > 3"),
        ("kept = [one for one in (loss,) if one > 0]", "one > 0"),
        ("for p in model.parameters():\n    if p.grad.isnan().any(): bad += 1",
         "p.grad.isnan().any()"),
    ],
)  # fmt: skip
def test_reports_what_is_asked(statements: str, asked: str) -> None:
    source = loop(statements)
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == asked
    assert found.severity is Severity.WARNING
    assert found.message == f"asking whether `{asked}` waits for the GPU in every training step"


def test_reports_questions_of_a_forward_pass() -> None:
    (found,) = check(forward("if self.scale[0] == 0:\n    x = x + 1"), CODE)
    assert found.message.endswith("`self.scale[0] == 0` waits for the GPU in every forward pass")


def test_reports_a_flag_that_each_pass_asks() -> None:
    source = forward("if not self.ready:\n    self.ready += 1")
    silent(source, CODE)
    for made, count in (("unknown()", 0), ("torch.tensor(0)", 1)):
        buffer = f'"scale", torch.ones(4))\n        self.register_buffer("ready", {made})'
        found = check(source.replace('"scale", torch.ones(4))', buffer), CODE)
        assert len(found) == count
    assert found[0].message.startswith("asking whether `self.ready` waits for the GPU in every")
    assert "Python attribute" in found[0].help


def test_reports_a_statement_once() -> None:
    (found,) = check(loop("bad = bool(loss > 3) + (not out.any())"), CODE)
    assert "`loss > 3` and 1 more waits" in found.message
    (found,) = check(loop("if loss > 3 or out.isnan().any() or not out.any(): bad += 1"), CODE)
    assert "`loss > 3` waits" in found.message


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("if torch.isnan(loss): continue", id="the step is left out"),
        pytest.param("if loss < best: loss.backward()", id="it goes back"),
        pytest.param("if loss < best: optimizer.step()", id="the step is taken"),
        pytest.param("if loss < 0.1: break", id="the training ends"),
        pytest.param("if loss > 3: out = model(x)", id="a model is run once more"),
    ],
)
def test_tells_of_decisions_over_the_step(statements: str) -> None:
    (found,) = check(loop(statements), CODE)
    assert found.severity is Severity.INFO
    assert found.help.startswith("ask every n steps, or for the step before")


def test_tells_of_the_wait_before() -> None:
    (found,) = check(loop("print(loss.item())\nif loss > 3: bad += 1"), CODE)
    assert found.severity is Severity.INFO
    assert "as `loss.item()` has just waited" in found.message


@pytest.mark.parametrize(
    ("statements", "advice"),
    [
        ("assert loss > 0", "torch._assert_async"),
        ("if loss > 3: print('high')", "read it then"),
        ("if loss > 3: raise RuntimeError(model(x))", "read it then"),
        ("if loss > 3:\n    model(x)\n    sys.exit(1)", "read it then"),
        ("if loss > 3: print('high')\nelse: bad = 0", "torch.where"),
        ("if loss < best: best = loss.detach()", "torch.where"),
    ],
)
def test_says_what_to_write_instead(statements: str, advice: str) -> None:
    (found,) = check(loop(statements), CODE)
    assert advice in found.help


def test_names_no_function_that_torch_does_not_have_yet() -> None:
    old = "from torch._six import inf\nfrom torch.utils.serialization import load_lua\n"
    (found,) = check(old + loop("assert loss > 0"), CODE)
    assert found.help == "ask every n steps"


def test_knows_what_a_helper_is_given() -> None:
    helper = "\n\ndef check(value):\n    if value > 3:\n        raise RuntimeError\n"
    (found,) = check(loop("check(loss)") + helper, CODE)
    assert found.message.endswith("`value > 3` waits for the GPU in every training step")
    silent(loop("check(loss.item())") + helper, CODE)


def test_tells_of_what_nothing_uses() -> None:
    source = (
        forward("if self.scale[0] > 3: x = x + 1")
        + "\n\nif __name__ == '__main__':\n    train([])\n"
    )
    (found,) = check(source, CODE)
    assert found.severity is Severity.WARNING
    (found,) = check(source.replace("model = Net()", "model = nn.Linear(4, 4)"), CODE)
    assert found.severity is Severity.INFO


def test_is_no_wait_that_excuses_a_read_after_it() -> None:
    (found,) = check(loop("assert loss > 0\nprint(loss.item())"), "TL202")
    assert found.severity is Severity.INFO
    assert "as `loss > 0` has just waited" in found.message


CRITERION = """\
import torch
from torch import nn

class Criterion(nn.Module):
    def forward(self, out, target):
        chosen = torch.sum(target > 0)
        if chosen > 0:
            out = out / chosen
        return out.sum()
"""
FITTING = """\
def fit(model, criterion, optimizer, loader):
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
MAIN = """\
import torch
from criterion import Criterion
from fitting import fit

model = torch.nn.Linear(4, 4).cuda()
loader = torch.utils.data.DataLoader(load(), 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
criterion = Criterion()
for epoch in range(9):
    fit(model, criterion, optimizer, loader)
"""


@pytest.mark.parametrize(
    ("main", "count"),
    [
        pytest.param(MAIN, 1, id="trains by a function of a third file"),
        pytest.param(MAIN.replace("    fit(model", "    show(model"), 0, id="only imports it"),
    ],
)
def test_a_loss_whose_steps_stand_in_a_third_file(tmp_path: Path, main: str, count: int) -> None:
    files = {"criterion.py": CRITERION, "fitting.py": FITTING, "main.py": main}
    assert len(check_in(tmp_path, files, "criterion.py", CODE)) == count


@pytest.mark.parametrize(
    ("made", "count"),
    [
        pytest.param("y.data.ne(0).sum()", 0, id="the sum of a tensor is a number"),
        pytest.param("loss.data.max()", 0, id="its maximum"),
        pytest.param("y.data.ne(0)", 1, id="a tensor"),
        pytest.param("y.ne(0).sum()", 1, id="the sum of a Variable is a Variable"),
    ],
)
@pytest.mark.parametrize("old", [True, False], ids=["torch 0.3", "torch"])
def test_what_has_no_dimensions_is_a_number_up_to_torch_03(made, count, old) -> None:
    step = f"y = Variable(y.cuda(), volatile={old})\nseen = {made}\nassert seen > 0"
    source = loop(f"{step}\nlogger(loss.mean().data[0])" if old else step)
    head = "from torch.autograd import Variable\n"
    source = head + source.replace(".to(device)", ".cuda()")
    assert len(check(source, CODE)) == (count if old else 1)
