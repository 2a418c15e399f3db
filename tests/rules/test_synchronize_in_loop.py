"""TL208: waits for the whole GPU in training steps."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from tools import check, fixed, silent

from torchlint.analysis.program import Program
from torchlint.edits.fix import Safety
from torchlint.rule import Severity
from torchlint_rules.synchronize_in_loop import synchronize_in_loop

CODE = "TL208"


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


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loop("if step % 100 == 0:\n    torch.cuda.synchronize()"), id="now and then"),
        pytest.param(
            loop("if args.sync:\n    torch.cuda.synchronize()"), id="an option asks for it"
        ),
        pytest.param(loop(before="start = time.perf_counter()"), id="a clock before the loop"),
        pytest.param(
            loop(before="t = clock()", head="from time import monotonic as clock"),
            id="a clock under another name",
        ),
        pytest.param(loop(before="e = torch.cuda.Event()"), id="a CUDA event"),
        pytest.param(
            loop(before="p = torch.profiler.profile()\np.start()"), id="a profiler in the function"
        ),
        pytest.param(
            loop(
                "with record_function('end'):\n    torch.cuda.synchronize()",
                head="from torch.profiler import record_function",
            ),
            id="a range of a profiler",
        ),
        pytest.param(
            loop(before="torch.cuda.nvtx.range_push('train')"), id="a range of another profiler"
        ),
        pytest.param(
            loop() + "\nwith torch.profiler.profile() as p:\n    train(m, l, o, d, a)\n",
            id="a profiler around a call of the function",
        ),
        pytest.param(
            loop()
            + "\nwith torch.autograd.profiler.profile() as p:\n    run()\n"
            + "\ndef run():\n    train(m, l, o, d, a)\n",
            id="a profiler around what calls the function",
        ),
        pytest.param(loop().replace("def train", "def benchmark"), id="a benchmark by name"),
        pytest.param(loop().replace("def train", "def time_step"), id="a timing by name"),
        pytest.param(
            loop(head="side = torch.cuda.Stream()"), id="streams: the order is made by hand"
        ),
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
            loop("torch.cuda.synchronize()\ntorch.distributed.send(loss, 1)"),
            id="communication",
        ),
        pytest.param(
            loop("torch.distributed.all_reduce(loss, async_op=True)\ntorch.cuda.synchronize()"),
            id="a collective that nobody waits for",
        ),
        pytest.param(
            loop(
                "h = torch.distributed.all_reduce(loss, async_op=True)\n"
                "torch.cuda.synchronize()\nh = other()\nh.wait()"
            ),
            id="another handle is waited for",
        ),
        pytest.param(
            loop("torch.distributed.all_reduce(loss, op, None, later)\ntorch.cuda.synchronize()"),
            id="a collective that may go on",
        ),
        pytest.param(
            loop(before="start = torch.cuda.Event(enable_timing=True)\nt = time.time()")
            + "    print(time.time() - t, start)\n",
            id="an event around the loop",
        ),
        pytest.param(
            loop("try:\n    torch.cuda.synchronize()\nexcept RuntimeError:\n    break"),
            id="errors of the GPU are caught here",
        ),
        pytest.param(
            loop("if cuda and step % 9 == 0:\n    torch.cuda.synchronize()"), id="every nth step"
        ),
        pytest.param(
            loop("if not cuda % debug:\n    torch.cuda.synchronize()"), id="a computed condition"
        ),
        pytest.param(
            loop("if wanted[step] and debug:\n    torch.cuda.synchronize()"), id="if debugging"
        ),
        pytest.param(loop("wait = torch.cuda.synchronize"), id="not called"),
        pytest.param(loop("print(torch.cuda.synchronize())"), id="not a statement of its own"),
        pytest.param(
            "import torch\nfor epoch in range(9):\n    run(epoch)\n    torch.cuda.synchronize()\n",
            id="not in a training step",
        ),
        pytest.param(
            """
            import torch

            @torch.no_grad()
            def evaluate(model, loader):
                for x in loader:
                    model(x)
                    torch.cuda.synchronize()
            """,
            id="an evaluation",
        ),
        pytest.param(loop(head="torch = load()"), id="torch is not torch"),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(("name", "count"), [("bench_train.py", 0), ("train.py", 1)])
def test_the_name_of_the_file_may_say_that_it_measures(name, count):
    assert len(list(synchronize_in_loop(Program(loop(), Path(name))))) == count


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
        pytest.param(
            loop(head="from torch.profiler import profile"), 10, id="a profiler that is not used"
        ),
        pytest.param(loop("torch.cuda.synchronize(device)"), 9, id="of one device"),
        pytest.param(loop("torch.mps.synchronize()"), 9, id="of Apple's GPU"),
        pytest.param(loop("torch.xpu.synchronize()"), 9, id="of Intel's GPU"),
        pytest.param(loop("torch.accelerator.synchronize()"), 9, id="of whatever there is"),
        pytest.param(
            loop("sync()", head="from torch.cuda import synchronize as sync"), 10, id="imported"
        ),
        pytest.param(
            loop("if torch.cuda.is_available():\n    torch.cuda.synchronize()"),
            10,
            id="where there is a GPU",
        ),
        pytest.param(
            loop("if args.cuda and not args.cpu_device:\n    torch.cuda.synchronize()"),
            10,
            id="an option asks for the GPU, not for the wait",
        ),
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
            loop(
                "h = torch.distributed.all_reduce(loss, async_op=True)\n"
                "h.wait()\ntorch.cuda.synchronize()"
            ),
            11,
            id="a collective whose handle is waited for",
        ),
        pytest.param(
            loop("world = torch.distributed.get_world_size()\ntorch.cuda.synchronize()"),
            10,
            id="the number of processes is no communication",
        ),
        pytest.param(
            """
            import torch
            from torch import nn

            class Net(nn.Module):
                def forward(self, x):
                    torch.cuda.synchronize()
                    return x
            """,
            7,
            id="in forward",
        ),
        pytest.param(
            """
            import torch

            def finish(loss):
                loss.backward()
                torch.cuda.synchronize()

            for x in loader:
                finish(model(x))
            """,
            6,
            id="in a function that a step calls",
        ),
    ],
)
def test_reports(source, row):
    (found,) = check(source, CODE)
    assert (found.location.row, found.severity) == (row, Severity.WARNING)
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


def test_a_framework_keeps_its_waits():
    (found,) = check(loop(head="import lightning"), CODE)
    assert (found.fix, found.severity) == (None, Severity.INFO)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("torch.cuda.synchronize()", "", id="a line"),
        pytest.param("torch.cuda.synchronize()\nlog()", "log()\n", id="in the middle"),
        pytest.param("torch.cuda.synchronize(); log()", "log()\n", id="with another on its line"),
        pytest.param(
            "if torch.cuda.is_available():\n    torch.cuda.synchronize()", "", id="with its if"
        ),
        pytest.param("if cuda: torch.cuda.synchronize()", "", id="with an if on one line"),
        pytest.param(
            "if device == 'cuda':\n    torch.cuda.synchronize()\n"
            "elif device == 'mps':\n    torch.mps.synchronize()\nlog()",
            "log()\n",
            id="with its if and elif",
        ),
        pytest.param(
            "if cuda:\n    torch.cuda.synchronize()\nelse:\n    torch.mps.synchronize()",
            "",
            id="with its if and else",
        ),
        pytest.param(
            "if cuda:\n    torch.cuda.synchronize()\n    log()",
            "if cuda:\n    log()\n",
            id="beside something else",
        ),
        pytest.param(
            "if cuda:\n    torch.cuda.synchronize()\nelse:\n    log()",
            "if cuda:\n    pass\nelse:\n    log()\n",
            id="beside another branch",
        ),
        pytest.param(
            "if cuda:\n    torch.cuda.synchronize()\nelif step % 9:\n    torch.mps.synchronize()",
            "if cuda:\n    pass\nelif step % 9:\n    torch.mps.synchronize()\n",
            id="a branch for now and then stays",
        ),
        pytest.param(
            "torch.cuda.synchronize()  # done\n# next", "# done\n# next\n", id="comments stay"
        ),
    ],
)
def test_fixes(before, after):
    assert fixed(loop(before), CODE) == loop(after.rstrip("\n"))


def test_a_body_that_would_be_empty_gets_pass():
    source = """
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            torch.cuda.synchronize()
    """
    assert fixed(source, CODE).endswith("def forward(self, x):\n        pass\n")


TIMED = """\
torch.cuda.synchronize()
now = time.time()
if step % 10 == 0:
    print(loss.item(), now - start)
"""


def timed(after: str = TIMED, name: str = "train") -> str:
    """Return a loop that reads the clock at both ends of each step."""
    source = loop("loss = step\n" + after).replace("def train", f"def {name}")
    return source.replace(
        "        loss = model", "        start = time.time()\n        loss = model"
    )


def test_a_time_that_is_read_now_and_then_needs_no_wait_in_every_step():
    (finding,) = check(timed(), CODE)
    assert finding.severity is Severity.INFO
    assert finding.fix is None
    assert "for a time that is only read now and then" in finding.message


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loop("seconds = time.time()\ntorch.cuda.synchronize()"), id="a clock beside"),
        pytest.param(
            loop(
                "t = clock()\ntorch.cuda.synchronize()", head="from time import monotonic as clock"
            ),
            id="a clock under another name",
        ),
        pytest.param(loop("timer.toc()\ntorch.cuda.synchronize()"), id="a timer object"),
        pytest.param(loop("meter.iter_toc()\ntorch.cuda.synchronize()"), id="a timer's method"),
        pytest.param(timed(TIMED + "meter.update(now - start)\n"), id="a time of every step"),
        pytest.param(timed(TIMED + "last = now\n"), id="kept for the next step"),
        pytest.param(timed(TIMED + "meter.update(time.time())\n"), id="one more clock"),
        pytest.param(timed(TIMED + "print(elapsed(start))\n"), id="a timer"),
        pytest.param(
            timed("if cuda:\n    " + TIMED + "torch.distributed.send(loss, 1)\nprint(now)\n"),
            id="communication elsewhere in the step",
        ),
    ],
)
def test_a_time_of_training_is_information(source):
    (finding,) = check(source, CODE)
    assert finding.severity is Severity.INFO
    assert finding.fix is None
    assert "for the time that is taken there" in finding.message


def test_a_time_around_the_loop_needs_one_wait():
    around = loop(before="start = time.time()") + "    print(time.time() - start)\n"
    silent(around.replace("def train", "def benchmark"), CODE)
    silent(around.replace("print(time.time() - start)", "return time.time() - start"), CODE)
    silent(around.replace("print(", "took = (") + "    return took / len(loader)\n", CODE)
    (finding,) = check(around, CODE)
    assert (finding.severity, finding.fix) == (Severity.INFO, None)
    assert "for a time that is taken around the loop" in finding.message


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(timed(name="time_steps"), id="a timing by name"),
        pytest.param(
            timed(TIMED.replace("now", "torch.distributed.send(loss, 1)\nnow", 1)),
            id="communication before the clock",
        ),
        pytest.param(
            timed(TIMED.replace("torch.cuda.sync", "if step % 10 == 0: torch.cuda.sync")),
            id="waits now and then",
        ),
        pytest.param(
            timed("try:\n    torch.cuda.synchronize()\nexcept E: pass\n" + TIMED[25:]),
            id="errors appear there",
        ),
    ],
)
def test_silent_where_the_time_is_the_point(source):
    silent(source, CODE)


SIDE = """
def set_up(model):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model.warm_up()
    torch.cuda.current_stream().wait_stream(side)
"""


@pytest.mark.parametrize(
    ("head", "count"),
    [
        pytest.param(SIDE, 1, id="for what is set up, and joined"),
        pytest.param(f"{SIDE}    return side\n", 0, id="given to others"),
        pytest.param(f"{SIDE}    model.side = side\n", 0, id="kept"),
        pytest.param(SIDE.replace("    torch.cuda.current", "    nobody"), 0, id="not joined"),
        pytest.param(f"{SIDE}    torch.cuda.CUDAGraph()\n", 0, id="and a graph"),
        pytest.param(
            SIDE.replace("    side = torch.cuda.Stream()", "    global side\n    side = find()"),
            1,
            id="of another's making",
        ),
    ],
)
def test_a_stream_for_what_is_set_up(head, count):
    assert len(check(loop(head=head), CODE)) == count


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
    train({}, loader)
"""


@pytest.mark.parametrize(
    ("line", "step", "severities"),
    [
        pytest.param("pass", "run", [Severity.WARNING], id="nothing is timed"),
        pytest.param("took = time.time()", "run", [Severity.INFO], id="the loop times it"),
        pytest.param("took = time.time()", "trainer.step", [Severity.INFO], id="without a name"),
    ],
)
def test_a_loop_that_is_given_its_step(line, step, severities):
    found = check(GIVEN.format(line, step), CODE)
    assert [one.severity for one in found] == severities


def test_a_loop_that_is_given_its_step_or_another():
    source = GIVEN.format("took = time.time()", "run") + "    train(other, loader)\n"
    silent(source, CODE)
