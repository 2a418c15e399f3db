"""What a file does with the optimizers it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchlint.analysis.optimizers import (
    loads,
    moved_later,
    saves,
    scaled_steps,
    sparse_gradients,
)
from torchlint.analysis.program import Program

if TYPE_CHECKING:
    import libcst as cst

MAKE = "import torch\nmodel = torch.nn.Linear(4, 2)\n"
ADAM = "optimizer = torch.optim.Adam(model.parameters())\n"


def made(program: Program) -> cst.Call:
    return next(program.calls_of("torch.optim.Adam"))


@pytest.mark.parametrize(
    ("rest", "count"),
    [
        ("optimizer.load_state_dict(state)", 1),
        ("again = optimizer\nagain.load_state_dict(state)", 1),
        ("model.load_state_dict(state)", 0),
        ("torch.optim.SGD(model.parameters()).load_state_dict(state)", 0),
        ("optimizer.load_state_dict()", 0),
    ],
)
def test_loads(rest, count):
    program = Program(MAKE + ADAM + rest + "\n")
    assert len(loads(program, made(program))) == count


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ("torch.save(optimizer.state_dict(), path)", True),
        ("def save(opt_g):\n    return opt_g.state_dict()", True),
        ("torch.save(model.state_dict(), path)", False),
        ("def save(net):\n    return net.state_dict()", False),
        ("optimizer.state_dict", False),
    ],
)
def test_saves(rest, found):
    assert saves(Program(MAKE + ADAM + rest + "\n")) is found


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ("torch.amp.GradScaler('cuda').step(optimizer)", [True]),
        ("scaler = torch.cuda.amp.GradScaler(enabled=True)\nscaler.step(optimizer)", [True]),
        ("torch.amp.GradScaler(enabled=amp).step(optimizer)", [False]),
        ("torch.amp.GradScaler(**options).step(optimizer)", [False]),
        ("torch.amp.GradScaler(enabled=False).step(optimizer)", []),
        ("def f(scaler: torch.amp.GradScaler):\n    scaler.step(optimizer)", [False]),
        ("scheduler.step(optimizer)", []),
        ("torch.amp.GradScaler('cuda').step(other)", []),
        ("torch.amp.GradScaler('cuda').step()", []),
    ],
)
def test_scaled_steps(rest, found):
    program = Program(MAKE + ADAM + rest + "\n")
    assert [sure for _, sure in scaled_steps(program, made(program))] == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (MAKE + ADAM + "model.cuda()\n", True),
        (MAKE + "both = torch.nn.ModuleList([model])\n" + ADAM + "both.cuda()\n", True),
        (
            MAKE + "both = torch.nn.ModuleList([model])\nmodel.cuda()\n" + ADAM + "both.cuda()",
            False,
        ),
        (MAKE + ADAM + "criterion = torch.nn.MSELoss()\ncriterion.cuda()\n", False),
        (MAKE + ADAM + "model = model.to(device)\n", True),
        (MAKE + "model.cuda()\n" + ADAM, False),
        (MAKE + ADAM + "other.cuda()\n", False),
        (MAKE + "torch.optim.Adam([w])\nw.cuda()\n", False),
        (MAKE + "torch.optim.Adam(parameters())\nmodel.cuda()\n", False),
        (MAKE + "torch.optim.Adam()\nmodel.cuda()\n", False),
        (MAKE + ADAM + "def f(model):\n    model.cuda()\n", False),
    ],
)
def test_moved_later(source, found):
    program = Program(source)
    assert moved_later(program, made(program)) is found


@pytest.mark.parametrize(
    ("layer", "found"),
    [
        ("torch.nn.Embedding(9, 2, sparse=True)", True),
        ("torch.nn.Embedding(9, 2, sparse=args.sparse)", True),
        ("torch.nn.Embedding(9, 2, sparse=False)", False),
        ("sparse(9)", False),
        ("torch.nn.Embedding(9, 2)", False),
    ],
)
def test_sparse_gradients(layer, found):
    assert sparse_gradients(Program(MAKE + layer + "\n")) is found


TRAINER = """
import torch

class Base:
    def __init__(self, actor, optimizer):
        self.actor = actor
        self.optimizer = optimizer
        self.actor.to(device)

class Trainer(Base):
    def __init__(self, actor, optimizer):
        super().__init__(actor, optimizer)

    def train(self):
        pass

net = build()
actor = Actor(net)
optimizer = torch.optim.Adam(actor.net.head.parameters())
Trainer(actor, optimizer)
"""
LATER = "pass", "self.actor.cuda()"
NOT_AT_ONCE = "        self.actor.to(device)\n", ""
OWN = """\
    def __init__(self, actor, optimizer):
        super().__init__(actor, optimizer)

"""


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        pytest.param([], True, id="in the class above"),
        pytest.param([NOT_AT_ONCE], False, id="not at all"),
        pytest.param([NOT_AT_ONCE, LATER], True, id="in another method of the class itself"),
        pytest.param([NOT_AT_ONCE, LATER, (OWN, "")], True, id="which has the constructor from it"),
        pytest.param([NOT_AT_ONCE, ("pass", "self.other.cuda()")], False, id="another thing"),
        pytest.param([("to(device)", "to('cpu')")], False, id="to the host"),
        pytest.param([("self.actor = actor", "self.actor = 1")], False, id="what it is not given"),
        pytest.param([("self.actor = actor", "actor.cuda()")], True, id="by the parameter"),
        pytest.param([("super()", "other()")], False, id="in no class above"),
        pytest.param([("super()", "super(Trainer, self)")], True, id="as Python 2 writes it"),
        pytest.param([("(Base):", "(Far):")], False, id="in a class that is not seen"),
        pytest.param([("(actor, optimizer)\n\n", "(optimizer, actor)\n\n")], False, id="the other"),
        pytest.param([("(actor, optimizer)\n\n", "(*actor)\n\n")], False, id="as several"),
        pytest.param([("Trainer(actor, opt", "Trainer(other, opt")], False, id="another model"),
        pytest.param([("Trainer(actor, opt", "Trainer(actor.ne, opt")], False, id="another part"),
        pytest.param([("Trainer(actor, opt", "Trainer(actor.net, opt")], True, id="a part"),
        pytest.param([("net = build()\n", "net = build()\nnet.cuda()\n")], False, id="once more"),
        pytest.param([("Actor(net)", "Actor(net)\nactor.cuda()")], False, id="and the whole"),
        pytest.param([("actor.net.head", "net"), ("Trainer(actor", "Trainer(net")], True, id="net"),
        pytest.param(
            [
                ("build()", "torch.nn.Linear(2, 2).cuda()"),
                ("actor.net.head", "net"),
                ("Trainer(actor", "Trainer(net"),
            ],
            False,
            id="made there",
        ),
    ],
)
def test_moved_later_by_a_trainer(edits, found):
    source = TRAINER
    for old, new in edits:
        assert old in source
        source = source.replace(old, new, 1)
    program = Program(source)
    assert moved_later(program, made(program)) is found
