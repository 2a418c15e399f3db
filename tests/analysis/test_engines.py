"""Engines of PyTorch Ignite: where their batches come from and go to, and what they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import probing
import pytest

from torchlint.analysis.loops import Role
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

HEAD = """\
import torch
import torch_xla.core.xla_model as xm
from ignite.engine import (
    Engine, Events, create_supervised_evaluator, create_supervised_trainer,
    supervised_training_step,
)
from torch.utils.data import DataLoader
A, B = DataLoader(a), DataLoader(b)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
STEP = """
def step(engine, batch):
    x, y = batch
    loss = model(x.to(device), y)
    loss.backward()
    optimizer.step()
"""


def parsed(source: str) -> Program:
    return probing.parsed(source, HEAD)


def moved(source: str) -> list[str]:
    return probing.moved(parsed(source))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(STEP + "Engine(step).run(A)", id="an engine"),
        pytest.param(STEP + "e = Engine(step)\ne.run(A, max_epochs=3)", id="under a name"),
        pytest.param(STEP + "e = Engine(process_function=step)\ne.run(data=A)", id="by keywords"),
        pytest.param(
            STEP + "def make(f):\n    e = Engine(step)\n    return e\nmake().run(A)",
            id="from a maker",
        ),
        pytest.param(
            "class T:\n    def step(self, engine, batch):\n        batch['x'].cuda()\n"
            "    def fit(self):\n        e = Engine(self.step)\n        e.run(A)",
            id="of a method",
        ),
        pytest.param(
            "e = create_supervised_trainer(net, opt, f, device=device)\ne.run(A)", id="a trainer"
        ),
        pytest.param(
            "e = create_supervised_trainer(net, opt, f, device)\ne.run(A)", id="a trainer by place"
        ),
        pytest.param(
            "e = create_supervised_evaluator(net, metrics, 'cuda')\n"
            "@t.on(EPOCH_COMPLETED)\ndef evaluate(engine):\n    e.run(A)",
            id="an evaluator, in a handler",
        ),
        pytest.param(
            "e = Engine(supervised_training_step(net, opt, f, device))\ne.run(A)", id="a step"
        ),
        pytest.param(
            "def prepare(batch, device, non_blocking):\n    return batch[0].to(device), batch[1]\n"
            "e = create_supervised_trainer(net, opt, f, device, prepare_batch=prepare)\ne.run(A)",
            id="prepared",
        ),
    ],
)
def test_batches_of_an_engine_go_to_the_gpu(source):
    assert moved(source) == ["a"]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(STEP + "e = Engine(step)", id="never run"),
        pytest.param(STEP + "e = Engine(other)\ne.run(A)", id="another function"),
        pytest.param(STEP + "e = Runner(step)\ne.run(A)", id="another class"),
        pytest.param(
            "def step(engine, batch):\n    engine.state.x.cuda()\nEngine(step).run(A)",
            id="what the engine holds",
        ),
        pytest.param("create_supervised_trainer(net, opt, f).run(A)", id="no device"),
        pytest.param("create_supervised_trainer(net, opt, f, 'cpu').run(A)", id="the CPU"),
        pytest.param(
            "device = xm.xla_device()\ncreate_supervised_trainer(net, opt, f, device).run(A)",
            id="XLA",
        ),
        pytest.param(
            "create_supervised_trainer(net, opt, f, device, prepare_batch=given).run(A)",
            id="prepared by a function that is not seen",
        ),
        pytest.param("create_supervised_trainer(*given, device=device).run(A)", id="a star before"),
    ],
)
def test_batches_that_are_not_seen_to_go_there(source):
    assert moved(source) == []


@pytest.mark.parametrize(
    ("source", "role"),
    [
        (STEP + "Engine(step).run(A)", Role.TRAIN),
        ("create_supervised_trainer(net, opt, f).run(A)", Role.TRAIN),
        ("create_supervised_evaluator(net).run(A)", Role.EVAL),
        (
            "def step(e, b):\n    with torch.no_grad():\n        net(b)\nEngine(step).run(A)",
            Role.EVAL,
        ),
        ("def step(e, b):\n    net.eval()\n    net(b)\nEngine(step).run(A)", Role.EVAL),
        ("def step(e, b):\n    print(b)\nEngine(step).run(A)", Role.OTHER),
    ],
)
def test_what_a_loader_is_for_that_an_engine_goes_through(source, role):
    program = parsed(source)
    assert program.loaders.roles(program.loaders.calls[0]) == {role}


@pytest.mark.parametrize(
    ("run", "role"),
    [("Engine(look).run(A)", Role.EVAL), ("Runner(look).run(A)", Role.OTHER)],
)
def test_a_process_function_runs_for_each_batch(run, role):
    program = parsed(f"def look(e, b):\n    with torch.no_grad():\n        net(b)\n{run}")
    (call,) = program.calls.named("net")
    assert program.context(call).role is role


def test_what_a_process_function_is_given_is_a_batch():
    program = parsed("def step(engine, batch):\n    show(batch, engine)\nEngine(step).run(A)")
    (call,) = program.calls.named("show")
    kinds = [program.value(arg.value).kind for arg in call.args]
    assert kinds == [Kind.BATCH, Kind.UNKNOWN]


@pytest.mark.parametrize(
    ("handler", "role", "guarded"),
    [
        ("@e.on(Events.ITERATION_COMPLETED)\ndef f(engine):\n    note()", Role.TRAIN, False),
        ("@e.on(Events.ITERATION_STARTED)\ndef f():\n    note()", Role.TRAIN, False),
        (
            "def f():\n    note()\ne.add_event_handler(Events.ITERATION_STARTED, f)",
            Role.TRAIN,
            False,
        ),
        ("@e.on(Events.ITERATION_COMPLETED(every=9))\ndef f():\n    note()", Role.TRAIN, True),
        ("@v.on(Events.ITERATION_COMPLETED)\ndef f():\n    note()", Role.EVAL, False),
        ("@e.on(Events.EPOCH_COMPLETED)\ndef f():\n    note()", Role.OTHER, False),
        ("@other.on(Events.ITERATION_COMPLETED)\ndef f():\n    note()", Role.OTHER, False),
        ("@e.on(Mine.ITERATION_COMPLETED)\ndef f():\n    note()", Role.OTHER, False),
    ],
)
def test_handlers_of_iterations_run_in_each_step(handler, role, guarded):
    engines = "e = Engine(step)\nv = create_supervised_evaluator(net)\n"
    program = parsed(f"{STEP}{engines}{handler}\ne.run(A)\nv.run(B)")
    (call,) = program.calls.named("note")
    found = program.context(call)
    assert (found.role, found.guarded) == (role, guarded)
