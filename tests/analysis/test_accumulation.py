"""Loops that accumulate gradients by hand."""

from __future__ import annotations

import textwrap

import pytest

from torchlint.analysis.accumulation import (
    Accumulation,
    Scale,
    accumulations,
    scale,
    touches_gradients,
    zeroings,
)
from torchlint.analysis.program import Program

HEAD = """
import torch
import torch.nn.functional as F
model = torch.nn.Linear(4, 2)
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""
LOOP = """
for i, (x, y) in enumerate(loader):
    {loss}
    {backward}
    if {test}:
        {step}
"""


def program(
    loss: str = "loss = criterion(model(x), y)",
    backward: str = "loss.backward()",
    test: str = "(i + 1) % k == 0",
    step: str = "optimizer.step()",
) -> Program:
    parts = {"loss": loss, "backward": backward, "test": test, "step": step}
    parts["step"] = step.replace("\n", "\n    ")
    parts = {name: part.replace("\n", "\n    ") for name, part in parts.items()}
    return Program(HEAD + LOOP.format(**parts))


def only(found: Program) -> Accumulation:
    [one] = accumulations(found)
    return one


@pytest.mark.parametrize(
    ("change", "every"),
    [
        ({}, "k"),
        ({"test": "i % k == k - 1"}, "k"),
        ({"test": "not (i + 1) % args.k"}, "args.k"),
        ({"test": "(i + 1) % 4 == 0 or i + 1 == len(loader)"}, "4"),
        ({"test": "i and (0 == i % k)"}, "k"),
        ({"loss": "last = (i + 1) % k == 0\nloss = model(x)", "test": "last"}, "k"),
        ({"loss": "count += 1\nloss = model(x)", "test": "count % k == 0"}, "k"),
        ({"loss": "self.count += 1\nloss = model(x)", "test": "self.count % k == 0"}, "k"),
        ({"step": "scaler.step(optimizer)\nscaler.update()"}, "k"),
        ({"step": "if amp:\n    scaler.step(optimizer)\nelse:\n    optimizer.step()"}, "k"),
        (
            {"backward": "if amp:\n    scaler.scale(loss).backward()\nelse:\n    loss.backward()"},
            "k",
        ),
        ({"step": "optimizer.step()\nscheduler.step()"}, "k"),
        ({"step": "opt_a.step()\nopt_b.step()"}, "k"),
    ],
)
def test_accumulations(change, every):
    found = program(**change)
    assert found.code(only(found).every) == every


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"test": "k == 0"}, id="no counter"),
        pytest.param({"test": "i % k != 0"}, id="all but a few"),
        pytest.param({"test": "epoch % k == 0"}, id="a counter that the loop does not change"),
        pytest.param({"test": "i % 1 == 0"}, id="always"),
        pytest.param({"test": "flag"}, id="a name of unknown value"),
        pytest.param({"step": "scheduler.step()"}, id="no optimizer"),
        pytest.param({"step": "env.step(action)"}, id="an environment"),
        pytest.param({"backward": "pass"}, id="no backward pass"),
        pytest.param(
            {"backward": "pass", "step": "loss.backward()\noptimizer.step()"}, id="guarded as well"
        ),
        pytest.param({"backward": "loss.backward()\nother.backward()"}, id="two backward passes"),
        pytest.param(
            {"backward": "if i % 2 == 0:\n    loss.backward()"}, id="backward now and then"
        ),
        pytest.param(
            {"backward": "for part in loss:\n    part.backward()"}, id="backward in an inner loop"
        ),
        pytest.param(
            {"backward": "loss.backward()\nopt_d.step()"}, id="another optimizer in each turn"
        ),
    ],
)  # fmt: skip
def test_what_is_no_accumulation(change):
    assert list(accumulations(program(**change))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch\n",
        "if i % 2 == 0:\n    optimizer.step()\n",
        "for x in y:\n    pass\nelse:\n    if i % 2 == 0:\n        optimizer.step()\n",
        "for x in y:\n    def f():\n        if x % 2 == 0:\n            optimizer.step()\n",
    ],
)
def test_no_loop(source):
    assert list(accumulations(Program(source))) == []


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("optimizer.zero_grad()\nloss = model(x)", 1),
        ("model.zero_grad()\nloss = model(x)", 1),
        ("other.zero_grad()\nloss = model(x)", 0),
        ("if i % k == 0:\n    optimizer.zero_grad()\nloss = model(x)", 0),
        ("if first:\n    optimizer.zero_grad()\nloss = model(x)", 0),
        ("for z in x:\n    optimizer.zero_grad()\nloss = model(x)", 0),
    ],
)
def test_zeroings(where, count):
    found = program(loss=where)
    assert len(zeroings(found, only(found))) == count


def test_zeroing_beside_the_step_under_one_condition():
    inside = "if training:\n    optimizer.zero_grad()\n    loss = model(x)\n    loss.backward()\n"
    source = f"{HEAD}for i, x in enumerate(loader):\n" + textwrap.indent(
        inside + "    if i % k == 0:\n        scaler.step(optimizer)\n", "    "
    )
    found = Program(source)
    assert len(zeroings(found, only(found))) == 1


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("loss = criterion(model(x), y)", Scale.WHOLE),
        ("loss = F.cross_entropy(model(x), y)", Scale.WHOLE),
        ("loss = F.cross_entropy(model(x), y, reduction='mean')", Scale.WHOLE),
        ("loss = model(x).mean()", Scale.WHOLE),
        ("loss = F.mse_loss(x, y) + 2 * F.l1_loss(x, y)", Scale.WHOLE),
        ("part = F.mse_loss(x, y)\nloss = part - part", Scale.WHOLE),
        ("loss = model(x).loss", Scale.LIKELY),
        ("loss = loss_fn(model(x), y)", Scale.LIKELY),
        ("loss = F.mse_loss(x, y) + model(x).loss", Scale.LIKELY),
        ("loss = model(x)", Scale.UNKNOWN),
        ("loss, _ = model(x)", Scale.UNKNOWN),
        ("loss = 0.25 * criterion(model(x), y)", Scale.UNKNOWN),
        ("loss = share * criterion(model(x), y)", Scale.UNKNOWN),
        ("loss = [1]", Scale.UNKNOWN),
        ("loss = F.cross_entropy(model(x), y, **options)", Scale.UNKNOWN),
        ("loss = F.cross_entropy(model(x), y, reduction=how)", Scale.UNKNOWN),
        ("loss = F.nll_loss(model(x), y, size_average=False)", Scale.UNKNOWN),
        ("for loss in x:\n    pass", Scale.UNKNOWN),
        ("loss = criterion(model(x), y) / 4", Scale.DIVIDED),
        ("loss = criterion(model(x), y)\nloss /= 4", Scale.DIVIDED),
        ("loss = criterion(model(x), y)\nif k > 1:\n    loss = loss / 4", Scale.DIVIDED),
        ("loss = model(x).sum()", Scale.DIVIDED),
        ("loss = F.mse_loss(x, y, reduction='sum')", Scale.DIVIDED),
        ("rate = 0.1 * k\nloss = criterion(model(x), y)", Scale.DIVIDED),
        ("loss = criterion(model(x), y).div(k)", Scale.DIVIDED),
        ("total = loss_a / k\nloss = criterion(model(x), y)", Scale.DIVIDED),
        ("k *= 2\nloss = criterion(model(x), y)", Scale.DIVIDED),
        ("print(total / k)\nloss = criterion(model(x), y)", Scale.WHOLE),
        ("note = f'{total / k}'\nloss = criterion(model(x), y)", Scale.WHOLE),
        ("show(k)\nloss = criterion(model(x), y)", Scale.WHOLE),
    ],
)
def test_scale(loss, expected):
    found = program(loss=loss)
    assert scale(found, only(found)) is expected


@pytest.mark.parametrize(
    ("backward", "expected"),
    [
        ("(loss / 4).backward()", Scale.DIVIDED),
        ("scaler.scale(loss / 4).backward()", Scale.DIVIDED),
        ("scaler.scale(loss).backward()", Scale.WHOLE),
        ("accelerator.backward(loss)", Scale.UNKNOWN),
    ],
)
def test_scale_of_what_is_differentiated(backward, expected):
    found = program(backward=backward)
    assert scale(found, only(found)) is expected


def test_a_loss_that_leads_far_back():
    lines = ["a0 = F.mse_loss(x, y)", *(f"a{n} = a{n - 1}" for n in range(1, 9)), "loss = a8"]
    found = program(loss="\n".join(lines))
    assert scale(found, only(found)) is Scale.UNKNOWN


@pytest.mark.parametrize(
    ("code", "found"),
    [("p.grad /= 4", True), ("norm = w.grad.norm()", True), ("torch.autograd.grad(a, b)", False)],
)
def test_touches_gradients(code, found):
    assert touches_gradients(Program(HEAD + code + "\n")) is found
