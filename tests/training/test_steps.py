"""Training steps: which calls belong to one, in which order, and what accumulates gradients."""

from __future__ import annotations

import textwrap

import pytest
from revealing import evaluated

from torchlint.training.accumulation import accumulations
from torchlint.training.effects import Effects
from torchlint.training.frequency import Frequencies
from torchlint.training.steps import Steps

HEAD = "import torch\n\n\n"


def steps(source: str) -> Steps:
    evaluation = evaluated({"train.py": HEAD + textwrap.dedent(source)})
    return Steps(Frequencies(evaluation, Effects(evaluation)))


PLAIN = """
def train(model, optimizer, loader):
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for epoch in range(9):
        for x in loader:
            {body}
        scheduler.step()
"""
BODY = "model(x).sum().backward(); optimizer.step(); optimizer.zero_grad()"


@pytest.mark.parametrize(
    ("source", "roles"),
    [
        pytest.param(PLAIN.format(body=BODY), ["FORWARD BACKWARD STEP ZERO_GRAD"], id="in a loop"),
        pytest.param(
            """
            def update(loss, optimizer, scaler):
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

            def train(model, optimizer, loader):
                scaler = torch.amp.GradScaler()
                for x in loader:
                    update(model(x).mean(), optimizer, scaler)
            """,
            ["FORWARD BACKWARD STEP UPDATE"],
            id="through a function",
        ),
        pytest.param(
            """
            def step(model, optimizer, x):
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            """,
            ["ZERO_GRAD FORWARD BACKWARD STEP"],
            id="a function that nobody calls",
        ),
        pytest.param(
            """
            def train(model, optimizer, loader):
                for x in loader:
                    for part in x.chunk(4):
                        model(part).mean().backward()
                    optimizer.step()
                for x in loader:
                    model(x)
            """,
            ["FORWARD BACKWARD STEP"],
            id="a loop within a step is no step, nor is an evaluation",
        ),
        pytest.param(
            """
            def train(model, params, loader):
                made = build(params)
                for x in loader:
                    made.zero_grad()
                    model(x).mean().backward()
                    made.step()
            """,
            ["ZERO_GRAD FORWARD BACKWARD STEP"],
            id="an optimizer by its use",
        ),
    ],
)
def test_members(source, roles):
    assert [" ".join(one.role.name for one in step.members) for step in steps(source)] == roles


ACCUMULATES = """
def train(model, params, loader, k):
    opt_a, opt_b = torch.optim.SGD(params[0]), torch.optim.SGD(params[1])
    for i, x in enumerate(loader):
        loss = model(x).mean()
        {0}
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("loss.backward()\nif (i + 1) % k == 0: opt_a.step()", "(i + 1) % k == 0: k"),
        ("loss.backward()\nif not i % 4: opt_a.step()", "not i % 4: 4"),
        ("last = i % k == 0 or i == 9\nloss.backward()\nif last: opt_a.step()", "last: k"),
        ("loss.backward()\nif i % k != 0: continue\nopt_a.step()", "i % k != 0: k"),
        ("for j in range(k): loss.backward()\nopt_a.step()", "loop: k"),
        ("loss.backward()\nopt_a.step()", None),
        ("for j in range(k): loss.backward()\nopt_a.zero_grad()\nopt_a.step()", None),
        ("loss.backward()\nif i % 1 == 0: opt_a.step()", None),
        ("if i % k == 0:\n    loss.backward()\n    opt_a.step()", None),
        ("loss.backward()\nopt_a.step()\nif i % k == 0: opt_b.step()", None),
    ],
)
def test_accumulation(body, found):
    source = ACCUMULATES.format(textwrap.indent(body, " " * 8).strip())
    results = [
        f"{one.code(one.test.test) if one.test else 'loop'}: {one.every and one.code(one.every)}"
        for one in accumulations(steps(source))
    ]
    assert results == ([found] if found else [])


def test_a_function_that_nobody_calls_accumulates():
    source = """
    def step(model, optimizer, batch):
        for part in batch.chunk(8):
            model(part).mean().backward()
        optimizer.step()
    """
    assert [one.code(one.every) for one in accumulations(steps(source)) if one.every] == ["8"]
