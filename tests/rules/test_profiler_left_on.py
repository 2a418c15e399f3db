"""TL902: profilers and checks of gradients that were left on."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, silent

from torchlint.rule import Severity

CODE = "TL902"
HEAD = """\
import itertools
import torch
from contextlib import nullcontext
from torch.autograd import gradcheck, profiler
from torch.profiler import profile, schedule
from tqdm import tqdm

def step(x):
    model(x).sum().backward()
    optimizer.step()

"""
LOOP = "for x in loader:\n    step(x)"


def script(body: str) -> str:
    """Return a script: `HEAD` and some lines of its own, which begin on row 12."""
    return HEAD + textwrap.dedent(body).strip("\n") + "\n"


def block(context: str, body: str = LOOP) -> str:
    """Return a `with` statement around lines."""
    return script(f"with {context}:\n{textwrap.indent(body, '    ')}")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            block("profile(schedule=schedule(wait=1, warmup=1, active=3))"), id="schedule"
        ),
        pytest.param(block("profile(schedule=make(args))"), id="some schedule"),
        pytest.param(block("profile(**options)"), id="perhaps a schedule"),
        pytest.param(block("profiler.profile(False)"), id="off"),
        pytest.param(block("profiler.profile(enabled=args.profile)"), id="an option decides"),
        pytest.param(block("profiler.emit_nvtx(enabled=False)"), id="NVTX off"),
        pytest.param(
            block("profile() if args.profile else nullcontext()"), id="an option chooses it"
        ),
        pytest.param(
            script(
                "context = nullcontext()\nif args.p:\n    context = profile()\n"
                "with context:\n    for x in loader:\n        step(x)"
            ),
            id="an option chooses it before",
        ),
        pytest.param(
            script(
                "if args.p:\n    with profile():\n        for x in loader:\n            step(x)"
            ),
            id="an option asks for it",
        ),
        pytest.param(block("profile()", "step(x)"), id="one step"),
        pytest.param(block("profile()", "for x in loader:\n    model(x)"), id="no training"),
        pytest.param(block("profile()", "for _ in range(10):\n    step(x)"), id="ten steps"),
        pytest.param(
            block("profile()", "for _ in tqdm(range(2, 12)):\n    step(x)"), id="ten with a bar"
        ),
        pytest.param(
            block("profile()", "for x in itertools.islice(loader, 10):\n    step(x)"),
            id="ten batches",
        ),
        pytest.param(
            block(
                "profile()",
                "for i, x in enumerate(loader):\n    if i > 9:\n        break\n    step(x)",
            ),
            id="left after ten",
        ),
        pytest.param(
            script(
                "def train(xs, n):\n    for i, x in enumerate(xs):\n        if i == n:\n"
                "            break\n        step(x)\n\nwith profile():\n    train(loader, 10)"
            ),
            id="told how many",
        ),
        pytest.param(
            script(
                "def run():\n    with profile():\n        for i, x in enumerate(loader):\n"
                "            step(x)\n            if i > 9:\n                return"
            ),
            id="left for good after ten",
        ),
        pytest.param(
            script(
                "for i, x in enumerate(loader):\n    with profile():\n        step(x)\n    break"
            ),
            id="a step, then left",
        ),
        pytest.param(
            script(
                "for i, x in enumerate(loader):\n    if i % 100 == 0:\n        with profile():\n"
                "            step(x)"
            ),
            id="every hundredth step",
        ),
        pytest.param(script(f"prof = profile()\n{LOOP}"), id="not started"),
        pytest.param(block("torch.profiler.record_function('train')"), id="a range"),
        pytest.param(script(f"torch.cuda.cudart().cudaProfilerStart()\n{LOOP}"), id="for a tool"),
        pytest.param(
            "from torch.autograd import gradcheck\nassert gradcheck(f, x)\n",
            id="gradients checked by a script",
        ),
        pytest.param(
            script(f"def check():\n    assert gradcheck(f, x)\n\n{LOOP}"),
            id="gradients checked by a function",
        ),
        pytest.param(
            script("for e in range(args.n):\n    if e == 0:\n        gradcheck(f, x)\n    step(e)"),
            id="gradients checked once",
        ),
        pytest.param(
            block("profile()").replace("from torch.profiler", "from mine"),
            id="a profiler of others",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "row"),
    [
        pytest.param(block("profile()"), 12, id="a block"),
        pytest.param(block("profile(with_stack=True) as prof"), 12, id="with a name"),
        pytest.param(block("profile(schedule=None)"), 12, id="no schedule, said"),
        pytest.param(block("torch.profiler.profile()"), 12, id="in full"),
        pytest.param(block("profiler.profile(True, use_cuda=True)"), 12, id="of autograd"),
        pytest.param(block("torch.cuda.profiler.profile(), profiler.emit_nvtx()"), 12, id="NVTX"),
        pytest.param(block("profiler.emit_itt()"), 12, id="ITT"),
        pytest.param(
            block("profile()", "for epoch in range(3):\n    for x in loader:\n        step(x)"),
            12,
            id="around epochs",
        ),
        pytest.param(
            script(
                "for e in range(3):\n    with profile():\n        for x in xs:\n            step(x)"
            ),
            13,
            id="in each epoch",
        ),
        pytest.param(
            script("for x in loader:\n    with profile():\n        step(x)"), 13, id="in each step"
        ),
        pytest.param(
            script(
                "def train():\n    for x in xs:\n        step(x)\n\nwith profile():\n    train()"
            ),
            16,
            id="around a call",
        ),
        pytest.param(
            script(
                f"prof = profile()\nwith prof:\n    {LOOP}".replace("\n    step", "\n        step")
            ),
            12,
            id="entered by name",
        ),
        pytest.param(
            block("profile()", "for i in range(args.steps):\n    step(x)"), 12, id="unknown number"
        ),
        pytest.param(block("profile()", "while True:\n    step(x)"), 12, id="while"),
        pytest.param(
            block(
                "profile()",
                "for i, x in enumerate(loader):\n    step(x)\n    for p in ps:\n        break",
            ),
            12,
            id="another loop is left",
        ),
        pytest.param(
            script("for x in loader:\n    assert gradcheck(f, x)\n    step(x)"), 13, id="gradients"
        ),
        pytest.param(
            script(
                "for epoch in range(3):\n    torch.autograd.gradgradcheck(f, x)\n"
                "    for x in loader:\n        step(x)"
            ),
            13,
            id="second gradients in each epoch",
        ),
    ],
)
def test_reports(source, row):
    (found,) = check(source, CODE)
    assert (found.location.row, found.severity, found.fix) == (row, Severity.WARNING, None)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import accelerate\n" + block("profile()"), id="a framework trains"),
    ],
)
def test_reports_as_information(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(("name", "code"), [("gradcheck", "TL902b"), ("gradgradcheck", "TL902b")])
def test_checks_of_gradients_have_a_letter(name, code):
    source = f"for x in loader:\n    torch.autograd.{name}(f, x)\n    step(x)"
    (found,) = check(script(source), CODE)
    assert found.code == code


ENGINE = """\
def train(model, loader, optimizer):
    for x in {}:
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("batches", "given", "count"),
    [("loader", "*parts", 1), ("range(9)", "*parts", 0)],
)
def test_the_training_may_stand_in_another_file(tmp_path, batches, given, count):
    main = "import torch\nfrom engine import train\n\n"
    main += f"with torch.profiler.profile():\n    train({given})\n"
    files = {"engine.py": ENGINE.format(batches), "main.py": main}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == count
