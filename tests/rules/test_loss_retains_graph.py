"""TL402: totals and lists that keep the graph of every step alive."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL402"
HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

model, teacher = nn.Linear(8, 2), nn.Linear(8, 2)
"""


def training(
    keep: str = "total += loss",
    *,
    start: str = "total = 0.0",
    step: str = "loss.backward()",
    after: str = "return total / len(batches)",
    head: str = "",
) -> str:
    """Return a training loop that keeps something in every step."""
    body = f"out = model(x)\nloss = F.cross_entropy(out, y)\n{step}\noptimizer.step()\n{keep}\n"
    loop = (
        f"{start}\nfor i, (x, y) in enumerate(batches):\n{textwrap.indent(body, '    ')}{after}\n"
    )
    return f"{head}{HEAD}\n\ndef train(batches, optimizer):\n{textwrap.indent(loop, '    ')}"


def evaluation(keep: str = "total += loss", start: str = "total = 0", after: str = "") -> str:
    """Return a script that evaluates with gradients on."""
    return (
        f"{HEAD}\nmodel.eval()\n{start}\nfor x, y in batches:\n    out = model(x)\n"
        f"    loss = F.cross_entropy(out, y)\n{textwrap.indent(keep, '    ')}\n{after}"
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(training("total += loss.item()"), id="a number"),
        pytest.param(training("total += loss.detach()"), id="detached"),
        pytest.param(training("total += float(loss)"), id="a Python number"),
        pytest.param(training("total += (out.argmax(1) == y).sum()"), id="a count of hits"),
        pytest.param(training("loss = loss.detach()\ntotal += loss"), id="detached before"),
        pytest.param(training("loss.detach_()\ntotal += loss"), id="detached in place"),
        pytest.param(
            training("with torch.no_grad():\n    total += loss"), id="added without a graph"
        ),
        pytest.param(training("total = loss + reg"), id="a sum of one step"),
        pytest.param(training("total = 0\ntotal += loss"), id="a sum that starts anew"),
        pytest.param(training("loss += reg(model)", step="pass"), id="part of the loss"),
        pytest.param(
            training("if i % 100 == 0:\n    losses.append(loss)", start="losses = []"),
            id="now and then",
        ),
        pytest.param(
            training(step="total = total + loss", keep="if last:\n    total.backward()"),
            id="one backward pass for many steps",
        ),
        pytest.param(
            training(
                "losses.append(loss)\nif last:\n    torch.stack(losses).mean().backward()",
                start="losses = []",
                step="pass",
            ),
            id="one backward pass for a list",
        ),
        pytest.param(
            training(
                "bank.append(out)\nloss2 = f(torch.cat(bank))\nloss2.backward()", start="bank = []"
            ),
            id="a memory that learns",
        ),
        pytest.param(
            training("losses = []\nlosses.append(loss)", start=""), id="a list of one step"
        ),
        pytest.param(
            training("losses.append(loss)\nlosses.clear()", start="losses = []"),
            id="a list that is emptied",
        ),
        pytest.param(
            training("total += loss\nif (i + 1) % k == 0:\n    log(total)\n    total = 0"),
            id="a total of a window",
        ),
        pytest.param(
            training("losses.append(loss)", start="losses = deque(maxlen=10)"),
            id="a list of few",
        ),
        pytest.param(training("outs.append(out.cpu().numpy())", start="outs = []"), id="an array"),
        pytest.param(
            training("total += out.sum()", step="loss.backward()", head="").replace(
                "out = model(x)", "out = model(x).detach()"
            ),
            id="an output without a graph",
        ),
        pytest.param(training("total += scale(loss)"), id="what an unknown function makes of it"),
        pytest.param(f"{HEAD}\nx = data()\nfor name in names:\n    total += x\n", id="no training"),
        pytest.param(
            HEAD + "for episode in range(9):\n    rewards = []\n    for t in range(9):\n"
            "        p = model(s)\n        probs.append(p.log())\n        rewards.append(env(p))\n"
            "    loss = -(torch.stack(probs) * returns(rewards)).sum()\n    loss.backward()\n"
            "    optimizer.step()\n    del probs[:]\n",
            id="the returns of a policy",
        ),
        pytest.param(
            training("kept = out.view(kept.size(0), 2)", start="kept = torch.zeros(4, 2)"),
            id="sized like the one before",
        ),
        pytest.param(
            training("scaled(out, loss)", head="def scaled(a, b):\n    a = a + b\n    log(a)\n\n"),
            id="a parameter that is bound anew",
        ),
        pytest.param(evaluation("total += loss.item()"), id="an evaluation of numbers"),
        pytest.param(
            evaluation().replace("for x", "torch.set_grad_enabled(False)\nfor x"), id="off"
        ),
        pytest.param(
            evaluation().replace(
                "    out = model(x)", "    with context():\n        out = model(x)"
            ),
            id="in a context that nobody knows",
        ),
        pytest.param(evaluation(after="total.backward()\n"), id="a gradient after an evaluation"),
        pytest.param(evaluation("total = 0\ntotal += loss"), id="a total of one batch"),
    ],
)
def test_leaves_alone(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "after"),
    [
        pytest.param(training(), "total += loss.detach()", id="a total"),
        pytest.param(
            training("total = total + loss"), "total = total + loss.detach()", id="spelled out"
        ),
        pytest.param(
            training("total += loss * len(x)"), "total += loss.detach() * len(x)", id="scaled"
        ),
        pytest.param(
            training("total += loss.mean()"), "total += loss.mean().detach()", id="its mean"
        ),
        pytest.param(
            training("total += F.mse_loss(out, y)"),
            "total += F.mse_loss(out, y).detach()",
            id="made where it is added",
        ),
        pytest.param(
            training("losses.append(loss)", start="losses = []"),
            "losses.append(loss.detach())",
            id="a list",
        ),
        pytest.param(
            training("with torch.no_grad():\n    losses.append(loss)", start="losses = []"),
            "losses.append(loss.detach())",
            id="a list keeps it, wherever that happens",
        ),
        pytest.param(
            training("outs.append(out)", start="outs = []"),
            "outs.append(out.detach())",
            id="an output that the loss was made of",
        ),
        pytest.param(
            training("logs['loss'] += loss", start="logs = {'loss': 0}"),
            "logs['loss'] += loss.detach()",
            id="in a dictionary",
        ),
        pytest.param(
            training("logs['loss'].append(loss)", start="logs = {'loss': []}"),
            "logs['loss'].append(loss.detach())",
            id="a list in a dictionary",
        ),
        pytest.param(
            training(step="scaler.scale(loss).backward()"), "total += loss.detach()", id="scaled"
        ),
        pytest.param(
            training(step="loss = loss / 4\nloss.backward()"),
            "total += loss.detach()",
            id="divided",
        ),
        pytest.param(
            training("loss *= len(x)\ntotal += loss"), "total += loss.detach()", id="in place"
        ),
        pytest.param(
            training(
                "total += part", step="part = loss * 2\nwhole = part + loss\nwhole.backward()"
            ),
            "total += part.detach()",
            id="a part of what runs backward",
        ),
        pytest.param(
            training("total += out[:, 0].sum()"),
            "total += out[:, 0].sum().detach()",
            id="a part of an output",
        ),
        pytest.param(
            HEAD + "def step(x, y):\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n"
            "    optimizer.step()\n    return loss, len(x)\n\n\ntotal = 0\nfor x, y in batches:\n"
            "    loss, count = step(x, y)\n    total += loss\n    seen += count\n",
            "total += loss.detach()",
            id="a step in a function",
        ),
        pytest.param(
            HEAD + "class Trainer:\n    def __init__(self):\n        self.total = 0\n"
            "        self.losses = []\n\n    def fit(self):\n        for x, y in batches:\n"
            "            loss = F.cross_entropy(model(x), y)\n            loss.backward()\n"
            "            self.optimizer.step()\n            self.total += loss\n",
            "self.total += loss.detach()",
            id="an attribute",
        ),
    ],
)
def test_detaches(source, after):
    (found,) = check(source, CODE)
    assert found.severity is Severity.WARNING
    assert "of every training step alive" in found.message
    assert found.fix is not None
    assert found.fix.safety is Safety.SAFE
    result = fixed(source, CODE, unsafe=False)
    assert after in result
    assert result.replace(".detach()", "") == source


def test_a_total_that_starts_anew_in_every_epoch_is_reported():
    (found,) = check(
        HEAD + "for epoch in range(9):\n    total = 0\n    for x, y in batches:\n"
        "        loss = F.cross_entropy(model(x), y)\n        loss.backward()\n"
        "        optimizer.step()\n        total += loss\n    print(float(total))\n",
        CODE,
    )
    assert found.location.row == 12


def test_an_attribute_that_starts_anew_in_every_step_is_left_alone():
    source = (
        HEAD + "class Trainer:\n    def fit(self, batches):\n        for x, y in batches:\n"
        "            self.losses = []\n            self.step(x, y)\n\n    def step(self, x, y):\n"
        "        loss = F.cross_entropy(model(x), y)\n        loss.backward()\n"
        "        self.optimizer.step()\n        self.losses.append(loss)\n"
    )
    silent(source, CODE)
    (found,) = check(source.replace("        for x", "        self.losses = []\n        for x")
                     .replace("            self.losses = []\n", ""), CODE)  # fmt: skip
    assert found.location.row == 16


@pytest.mark.parametrize(
    ("source", "why"),
    [
        pytest.param(
            training(step="loss.backward(retain_graph=True)"), "on purpose", id="retained"
        ),
        pytest.param(training(after="print(total)"), "grad_fn", id="printed"),
        pytest.param(training(after="print(f'{total}')"), "grad_fn", id="in a string"),
        pytest.param(
            training("losses.append(loss)", start="losses = []", after="logger.info(losses)"),
            "grad_fn",
            id="a list that is logged",
        ),
    ],
)
def test_is_unsafe(source, why):
    (found,) = check(source, CODE)
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE
    assert why in found.fix.changes


@pytest.mark.parametrize(
    ("keep", "start", "after"),
    [
        pytest.param("total += loss", "total = 0", "total += loss.detach()", id="a total"),
        pytest.param("outs.append(out)", "outs = []", "outs.append(out.detach())", id="a list"),
        pytest.param(
            "outs.append(model(x).softmax(1))",
            "outs = []",
            "outs.append(model(x).softmax(1).detach())",
            id="made where it is kept",
        ),
    ],
)
def test_an_evaluation_runs_out_of_memory(keep, start, after):
    source = evaluation(keep, start)
    (found,) = check(source, CODE)
    assert found.severity is Severity.ERROR
    assert "all of its activations" in found.message
    assert fixed(source, CODE, unsafe=False) == evaluation(after, start)


def test_an_evaluation_that_nobody_is_seen_to_call():
    source = (
        f"{HEAD}\n\ndef evaluate(net, batches):\n    net.eval()\n    outs = []\n"
        "    for x in batches:\n        outs.append(net(x))\n    return torch.cat(outs)\n"
    )
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix is not None
    assert "a caller" in found.fix.changes


def test_what_no_backward_frees_is_kept_as_well():
    (found,) = check(training("outs.append(teacher(x))", start="outs = []"), CODE)
    assert found.severity is Severity.WARNING


def test_a_total_of_the_parts_of_a_step():
    silent(
        f"{HEAD}optimizer = torch.optim.SGD(model.parameters())\nfor x, y in batches:\n"
        "    total = 0\n    for part in x.chunk(4):\n"
        "        loss = F.cross_entropy(model(part), y)\n        loss.backward()\n"
        "        total += loss\n    optimizer.step()\n    log(total)\n",
        CODE,
    )


@pytest.mark.parametrize(
    "keep",
    [
        pytest.param("average = 0.1 * loss + 0.9 * average", id="spelled out"),
        pytest.param("average = average * 0.9 + loss * 0.1", id="the other way"),
    ],
)
def test_a_running_average(keep):
    (found,) = check(training(keep, start="average = 0.0"), CODE)
    assert found.severity is Severity.WARNING
    assert "loss.detach()" in fixed(training(keep, start="average = 0.0"), CODE, unsafe=False)


def test_a_running_average_of_an_object():
    source = """
        import torch

        class Agent:
            def __init__(self):
                self.net = torch.nn.Linear(2, 2)
                self.average = None

            def keep(self, loss):
                if self.average is None:
                    self.average = loss
                self.average = 0.1 * loss + 0.9 * self.average

            def learn(self, batches):
                for x in batches:
                    loss = self.net(x).sum()
                    loss.backward()
                    self.keep(loss)
        """
    (found,) = check(source, CODE)
    assert found.location.row == 18
    silent(source.replace("self.keep(loss)", "self.keep(loss.detach())"), CODE)


def test_a_caller_may_ask_a_gradient_of_what_an_evaluation_returns():
    source = (
        f"{HEAD}\n\ndef penalty(batches):\n    model.eval()\n    total = 0\n"
        "    for x in batches:\n        total += model(x).sum()\n    return total / 2\n\n\n"
        "loss = penalty(batches)\n"
    )
    assert check(source, CODE)
    silent(source + "loss.backward()\n", CODE)
    silent(source + "loss.backward()\n", "TL401")


def test_a_frozen_model_leaves_no_graph():
    silent(evaluation().replace("model.eval()", "model.eval()\nteacher.requires_grad_(False)")
           .replace("out = model(x)\n", "z = model(x)\n    out = teacher(y)\n"), CODE)  # fmt: skip


def test_a_framework_is_only_told():
    (found,) = check(training(step="accelerator.backward(loss)", head="import accelerate\n"), CODE)
    assert (found.severity, found.fix) == (Severity.INFO, None)


def test_a_method_that_others_call_may_run_without_gradients() -> None:
    body = textwrap.indent(
        "outs = []\nfor x in batches:\n    outs.append(model(x.cuda()))\n", " " * 8
    )
    source = f"{HEAD}\nclass Predictor:\n    def run(self, batches):\n{body}        return outs\n"
    source += "\n    def stream(self, batches):\n        return self.run(batches)\n"
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
