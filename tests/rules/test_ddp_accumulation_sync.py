"""TL802: micro-batches whose gradients are averaged over all processes one by one."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from tools import check, check_in, silent

from torchlint.rule import Severity

if TYPE_CHECKING:
    from pathlib import Path

CODE = "TL802"
IMPORTS = """\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
"""
WRAP = "model = DistributedDataParallel(model)"
FORWARD = "loss = model(x, y) / 4"
BACKWARD = f"{FORWARD}\nloss.backward()"
STEP = "optimizer.step()\noptimizer.zero_grad()"
IF = "if (i + 1) % 4 == 0:"
AGAIN = "optimizer.zero_grad()\noptimizer.step()"


def window(
    backward: str = BACKWARD, guard: str = IF, step: str = STEP, wrap: str = WRAP, top: str = ""
) -> str:
    """Return a loop that steps every few batches."""
    turn = f"{backward}\n{guard}\n{textwrap.indent(step, '    ')}"
    return script(
        f"for i, (x, y) in enumerate(loader):\n{textwrap.indent(turn, '    ')}", wrap, top
    )


def parts(
    part: str = BACKWARD,
    head: str = "for x, y in zip(xs.chunk(4), ys.chunk(4)):",
    before: str = "optimizer.zero_grad()",
    after: str = "optimizer.step()",
    top: str = "",
) -> str:
    """Return a loop that steps after each batch, which goes through the model in parts."""
    turn = f"{before}\n{head}\n{textwrap.indent(part, '    ')}\n{after}"
    return script(f"for xs, ys in loader:\n{textwrap.indent(turn, '    ')}", WRAP, top)


def script(loop: str, wrap: str = WRAP, top: str = "") -> str:
    made = f"{wrap}\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    body = textwrap.indent(f"{made}\n{loop}", "    ")
    return f"{IMPORTS}{top}\ndef train(model, loader, args, k=1, other_optimizer=None):\n{body}\n"


BY_HAND = "model.require_backward_grad_sync = last\n"
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
ATTACK = "loss = model(x)\nloss.backward()\nx = x + x.grad.sign()"
INSTEAD = "if a:\n    for x in xs:\n        model(x).backward()\nelse:\n    optimizer.step()"
OPTION = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--parts", type=int, default={})
"""


# -- what is left alone -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(window(wrap="pass"), id="a model that nothing wraps"),
        pytest.param(window(wrap="model = nn.DataParallel(model)"), id="one process"),
        pytest.param(
            window(wrap="model = DDP(model)", top="from apex.parallel import DDP"),
            id="another library's, with ways of its own",
        ),
        pytest.param(
            window(f"with model.no_sync():\n    {FORWARD}\nloss.backward()"), id="it knows no_sync"
        ),
        pytest.param(window(BY_HAND + BACKWARD), id="or what no_sync sets"),
        pytest.param(
            window(wrap="model = DistributedDataParallel(model, static_graph=True)"),
            id="no_sync fails where the graph is static",
        ),
        pytest.param(window(top="import accelerate"), id="a framework does it"),
        pytest.param(
            window(guard="if (i + 1) % k == 0:") + "\ntrain(net, data, None)",
            id="not passed either",
        ),
        pytest.param(window(guard="if True:"), id="a step in each turn"),
        pytest.param(window(guard="if (i + 1) % 1 == 0:"), id="of one batch"),
        pytest.param(
            window(guard="if (i + 1) % parts == 0:", top="parts = 1"), id="of one batch, by a name"
        ),
        pytest.param(
            window(f"optimizer.zero_grad()\n{BACKWARD}"), id="gradients are dropped: see TL607"
        ),
        pytest.param(window("pass", step=f"{BACKWARD}\n{STEP}"), id="no backward but the last"),
        pytest.param(window(ATTACK), id="each turn uses gradients"),
        pytest.param(window(f"{BACKWARD}\n{CLIP}"), id="each turn clips its average"),
        pytest.param(window(f"{BACKWARD}\nif args.clip:\n    {CLIP}"), id="or does if it is asked"),
        pytest.param(parts(f"{BACKWARD}\n{CLIP}"), id="each part clips its average"),
        pytest.param(window(f"{BACKWARD}\nother_optimizer.step()"), id="another step in each turn"),
        pytest.param(window() + "        other_optimizer.step()", id="another step behind it"),
        pytest.param(
            window(guard="if (n + 1) % 4 == 0:"), id="a condition that does not count the turns"
        ),
        pytest.param(window("loss = compute(x)\nloss.backward()"), id="what ran is not seen"),
        pytest.param(
            window("loss = model.module(x)\nloss.backward()"), id="the model without its wrapper"
        ),
        pytest.param(window("engine.backward(model(x))"), id="an engine's own backward"),
        pytest.param(
            script("loss = model(x)\nfor one in loss:\n    one.backward()\noptimizer.step()"),
            id="one forward pass",
        ),
        pytest.param(parts(f"{BACKWARD}\noptimizer.zero_grad()"), id="parts that are dropped"),
        pytest.param(
            parts(f"{BACKWARD}\nfinish(optimizer)", top="def finish(one):\n    one.step()"),
            id="a step in a function",
        ),
        pytest.param(parts(head="for x in xs.chunk(1):"), id="all in one part"),
        pytest.param(parts(after=AGAIN), id="parts that are dropped before the step"),
        pytest.param(
            parts(after="def finish():\n    optimizer.step()"), id="a step for later"
        ),
        pytest.param(parts(after="scheduler.step()"), id="no step of an optimizer"),
        pytest.param(
            parts(before="if train:\n    optimizer.step()", after="pass"), id="a step before only"
        ),
        pytest.param(script(INSTEAD), id="a step instead"),
        pytest.param(script("model(x).backward()\noptimizer.step()"), id="no loop"),
        pytest.param(
            f"{IMPORTS}{WRAP}\nfor x in xs:\n    model(x).backward()\noptimizer.step()\n",
            id="parts of the only batch there is",
        ),
    ],
)  # fmt: skip
def test_left_alone(source):
    silent(source, CODE)


# -- what is found ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(window(), id="the step is under a condition"),
        pytest.param(window(step=f"{CLIP}\n{STEP}"), id="it clips the sum"),
        pytest.param(
            window("scaler.scale(model(x)).backward()", step="scaler.step(optimizer)"),
            id="with a scaler",
        ),
        pytest.param(
            window(wrap="if args.distributed:\n    model = DistributedDataParallel(model)"),
            id="it may be wrapped",
        ),
        pytest.param(window(wrap=f"{WRAP}\nmodel = torch.compile(model)"), id="and compiled"),
        pytest.param(
            window(wrap="model = nn.parallel.distributed.DistributedDataParallel(model)"),
            id="by the name of its module",
        ),
        pytest.param(
            window(
                "if half:\n    loss = model(x)\n    loss.backward()\nelse:\n    model(x).backward()"
            ),
            id="two ways of one pass",
        ),
        pytest.param(parts(), id="parts of a batch"),
        pytest.param(parts(head="for x in range(4):"), id="as many as a number says"),
        pytest.param(
            script(f"for x in range(4):\n{textwrap.indent(BACKWARD, '    ')}\noptimizer.step()"),
            id="parts of the batch of a function",
        ),
        pytest.param(
            parts(f"{BACKWARD}\nlog(x)", top="def log(x):\n    print(x)"), id="with a harmless call"
        ),
    ],
)
def test_found(source):
    [found] = check(source, CODE)
    assert found.severity is Severity.WARNING
    assert "averages the gradients over all processes in each turn; `" in found.message
    assert "of `4` turns" in found.message
    assert found.help.endswith("under `with model.no_sync():`.")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            window(
                f"assert args.parts == 1  # for now\n{BACKWARD}",
                guard="if (i + 1) % args.parts == 0:",
            ),
            id="one is all that is allowed",
        ),
        pytest.param(
            window(
                f"if args.distributed and args.parts > 1:\n    raise ValueError\n{BACKWARD}",
                guard="if (i + 1) % args.parts == 0:",
            ),
            id="more is an error",
        ),
        pytest.param(window(guard="if (i + 1) % args.parts == 0:"), id="an option not seen"),
        pytest.param(
            window(guard="if (i + 1) % args.parts == 0:", top=OPTION.format(1)), id="one by default"
        ),
        pytest.param(window(guard="if (i + 1) % k == 0:"), id="a parameter, one by default"),
        pytest.param(window(guard="if (i + 1) % (a // b) == 0:"), id="computed"),
        pytest.param(
            window(
                f"if args.parts < 1:\n    raise ValueError\n{BACKWARD}",
                guard="if (i + 1) % args.parts == 0:",
            ),
            id="one is the least",
        ),
        *(
            pytest.param(parts(head=head), id=head)
            for head in (
                "for x in xs:",
                "for x, y in split(xs, ys):",
                "for x in range(0, n, size):",
                "for x in range(0, 4):",
                "while take(xs):",
                "for x in chunks():",
            )
        ),
    ],
)
def test_information(source):
    [found] = check(source, CODE)
    assert found.severity is Severity.INFO
    assert "; when accumulating, `optimizer.step()` uses" in found.message


def test_by_default_several():
    source = window(guard="if i % args.parts == 0:", top=OPTION.format(8))
    [found] = check(f"{source}\ntrain(net, data, parser.parse_args())\n", CODE)
    assert found.severity is Severity.WARNING


def test_the_forward_pass_has_to_be_under_it_as_well():
    most = "if k < 3:\n    with model.no_sync():\n        loss.backward()"
    turn = f"{FORWARD}\n{most}\nelse:\n    loss.backward()"
    [found] = check(parts(turn, head="for k in range(4):"), CODE)
    assert "as `model(x, y)` is not under `no_sync()`; `optimizer.step()`" in found.message


# -- across files -----------------------------------------------------------------------------

ENGINE = """
def train_epoch(model, loader, optimizer, every):
    for i, x in enumerate(loader):
        loss = model(x)
        loss.backward()
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
HELPER = """
from torch.nn.parallel import DistributedDataParallel
def wrap(model):
    if not parallel:
        return model
    return DistributedDataParallel(model)
"""
MAIN = """
import torch.distributed
from engine import train_epoch
from helper import wrap
model = wrap(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_epoch(model, loader, optimizer, every=4)
"""


def across(folder: Path, **change: str) -> list[str]:
    files = {"engine": ENGINE, "helper": HELPER, "main": MAIN, **change}
    named = {f"{name}.py": text for name, text in files.items()}
    return [one.message for one in check_in(folder, named, "engine.py", CODE)]


def test_wrapped_by_another_file(tmp_path):
    assert len(across(tmp_path)) == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"helper": "def wrap(model):\n    return"}, id="it wraps nothing"),
        pytest.param({"main": MAIN.replace("every=4", "every=1")}, id="of one batch"),
    ],
)
def test_left_alone_across_files(tmp_path, change):
    assert across(tmp_path, **change) == []
