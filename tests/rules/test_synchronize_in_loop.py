"""TL208: waits for the whole GPU in every step."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL208"
GPU = "if torch.cuda.is_available():"


def loop(after: str = "torch.cuda.synchronize()", before: str = "", head: str = "") -> str:
    """Return a training loop with lines at the end of the step, in front of it, and at the top."""
    lines = ["import time", "import torch", *head.splitlines(), ""]
    lines += ["def train(model, loader, optimizer, device, args):"]
    lines += textwrap.indent(before, "    ").splitlines()
    lines += ["    for step, (x, y) in enumerate(loader):"]
    lines += ["        loss = model(x.to(device), y.to(device))"]
    lines += ["        loss.backward()", "        optimizer.step()"]
    lines += textwrap.indent(after, " " * 8).splitlines()
    return "\n".join(lines) + "\n"


SIDE = """
def set_up(model):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model.warm_up()
    torch.cuda.current_stream().wait_stream(side)
"""
REDUCES = "torch.distributed.all_reduce(loss, async_op=True)"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loop("if step % 100 == 0:\n    torch.cuda.synchronize()"), id="now and then"),
        pytest.param(
            loop("if device == 'cuda' and step % 9 == 0:\n    torch.cuda.synchronize()"),
            id="on a GPU, every nth step",
        ),
        pytest.param(
            loop("try:\n    torch.cuda.synchronize()\nexcept RuntimeError:\n    break"),
            id="errors of the GPU are caught here",
        ),
        pytest.param(loop(head="side = torch.cuda.Stream()"), id="a stream of the module"),
        pytest.param(loop(head=SIDE), id="a stream of a function"),
        pytest.param(loop(before="g = torch.cuda.CUDAGraph()"), id="a graph"),
        pytest.param(loop(before="e = torch.cuda.Event()"), id="an event that others wait for"),
        pytest.param(loop(head="import cupy"), id="kernels that PyTorch does not know of"),
        pytest.param(
            loop("host = loss.to('cpu', non_blocking=True)\ntorch.cuda.synchronize()"),
            id="a copy to the host that nobody waited for",
        ),
        pytest.param(
            loop("buffer.copy_(loss, non_blocking=True)\ntorch.cuda.synchronize()"),
            id="a copy into a buffer that may be on the host",
        ),
        pytest.param(
            loop("torch.cuda.synchronize()\ntorch.distributed.send(loss, 1)"), id="communication"
        ),
        pytest.param(
            loop(f"{REDUCES}\ntorch.cuda.synchronize()"), id="a collective nobody waits for"
        ),
        pytest.param(loop("wait = torch.cuda.synchronize"), id="not called"),
        pytest.param(
            "import torch\nfor epoch in range(9):\n    run(epoch)\n    torch.cuda.synchronize()\n",
            id="not in a step",
        ),
        pytest.param(loop("pass") + "    torch.cuda.synchronize()\n", id="after the loop"),
        pytest.param(loop(head="torch = load()"), id="torch is not torch"),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "row"),
    [
        pytest.param(loop(), 9, id="at the end of a step"),
        pytest.param(
            loop()
            + "\ndef look(model, x):\n    with torch.profiler.profile():\n        model(x)\n",
            9,
            id="something else is profiled in the file",
        ),
        pytest.param(loop("torch.cuda.synchronize(device)"), 9, id="of one device"),
        pytest.param(loop("torch.mps.synchronize()"), 9, id="of Apple's GPU"),
        pytest.param(loop("torch.accelerator.synchronize()"), 9, id="of whatever there is"),
        pytest.param(
            loop("sync()", head="from torch.cuda import synchronize as sync"), 10, id="imported"
        ),
        pytest.param(loop(f"{GPU}\n    torch.cuda.synchronize()"), 10, id="where there is a GPU"),
        pytest.param(
            loop("if device.type != 'cpu':\n    torch.cuda.synchronize()"), 10, id="not on a CPU"
        ),
        pytest.param(
            loop("try:\n    torch.cuda.synchronize()\nfinally:\n    log()"),
            10,
            id="in a try that catches nothing",
        ),
        pytest.param(
            loop("host = loss.to('cpu', non_blocking=False)\ntorch.cuda.synchronize()"),
            10,
            id="a copy to the host that waited",
        ),
        pytest.param(
            loop("x = x.to(device, non_blocking=True)\ntorch.cuda.synchronize()"),
            10,
            id="a copy to the GPU is ordered by itself",
        ),
        pytest.param(
            loop("torch.distributed.all_reduce(loss)\ntorch.cuda.synchronize()"),
            10,
            id="a collective is ordered by itself",
        ),
        pytest.param(
            loop("finish()", head="def finish():\n    torch.cuda.synchronize()"),
            4,
            id="in a function that a step calls",
        ),
    ],
)
def test_reports(source, row):
    (found,) = check(source, CODE)
    assert (found.location.row, found.severity) == (row, Severity.WARNING)
    assert found.message.endswith("until the GPU is idle, in every training step")
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    ("source", "what"),
    [
        pytest.param(loop(before="start = time.perf_counter()"), "measured", id="before the loop"),
        pytest.param(
            loop(before="t = clock()", head="from time import monotonic as clock"),
            "measured",
            id="a clock under another name",
        ),
        pytest.param(
            loop("seconds = time.time()\ntorch.cuda.synchronize()"), "measured", id="in the step"
        ),
        pytest.param(loop(before="torch.cuda.reset_peak_memory_stats()"), "measured", id="memory"),
        pytest.param(
            loop(before="start = time.time()")
            + "    took = time.time() - start\n    return took / len(loader)\n",
            "measured",
            id="the time is what the function gives",
        ),
        pytest.param(
            loop(before="e = torch.cuda.Event(enable_timing=True)"), "measured", id="an event"
        ),
        pytest.param(
            loop(before="p = torch.profiler.profile()\np.start()"), "measured", id="a profiler"
        ),
        pytest.param(
            loop(before="torch.cuda.nvtx.range_push('train')"), "measured", id="another profiler"
        ),
        pytest.param(loop(head="import lightning"), "", id="a framework"),
        pytest.param(
            loop("if args.sync:\n    torch.cuda.synchronize()"), "", id="an option asks for it"
        ),
        pytest.param(loop("print(torch.cuda.synchronize())"), "", id="inside of another call"),
    ],
)
def test_advises_without_a_fix(source, what):
    for found in check(source, CODE):
        assert what in found.message.partition("training step")[2]
        is_plain = "print(" in source
        assert (found.fix, found.severity is Severity.INFO) == (None, not is_plain)


def test_a_step_that_does_not_train():
    source = "import torch\n@torch.no_grad()\ndef evaluate(model, loader):\n    for x in loader:\n"
    (found,) = check(f"{source}        model(x)\n        torch.cuda.synchronize()\n", CODE)
    assert found.severity is Severity.INFO
    assert "in every step that does not train" in found.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("torch.cuda.synchronize()", "", id="a line"),
        pytest.param("torch.cuda.synchronize(); log()", "log()\n", id="with another on its line"),
        pytest.param(f"{GPU}\n    torch.cuda.synchronize()", "", id="with its if"),
        pytest.param(f"{GPU} torch.cuda.synchronize()", "", id="with an if on one line"),
        pytest.param(
            "if device == 'cuda':\n    torch.cuda.synchronize()\n"
            "elif device == 'mps':\n    torch.mps.synchronize()\nlog()",
            "log()\n",
            id="with its if and elif",
        ),
        pytest.param(
            f"{GPU}\n    torch.cuda.synchronize()\nelse:\n    torch.mps.synchronize()",
            "",
            id="with its if and else",
        ),
        pytest.param(
            f"{GPU}\n    torch.cuda.synchronize()\n    log()",
            f"{GPU}\n    log()\n",
            id="beside something else",
        ),
        pytest.param(
            f"{GPU}\n    torch.cuda.synchronize()\nelse:\n    log()",
            f"{GPU}\n    pass\nelse:\n    log()\n",
            id="beside another branch",
        ),
        pytest.param(
            "torch.cuda.synchronize()  # done\n# next", "# done\n# next\n", id="comments stay"
        ),
    ],
)
def test_fixes(before, after):
    assert fixed(loop(before), CODE) == loop(after.rstrip("\n"))


GIVEN = """
import time
import torch

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model.cuda(), optimizer

    def step(self, x):
        self.model.run(x.cuda())
        self.optimizer.step()
        torch.cuda.synchronize()

def train(step, loader):
    for x in loader:
        step(x)
        {}

def main(trainer: Trainer, loader):
    run = trainer.step
    train(run, loader)
"""


@pytest.mark.parametrize(
    ("line", "severity"), [("pass", Severity.WARNING), ("took = time.time()", Severity.INFO)]
)
def test_a_loop_that_is_given_its_step(line, severity):
    (found,) = check(GIVEN.format(line), CODE)
    assert found.severity is severity
