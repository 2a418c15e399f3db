"""TL209: memory is cleaned up in every training step."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL209"


def loop(after: str = "torch.cuda.empty_cache()", head: str = "", before: str = "") -> str:
    """Return a training loop with lines at the end of the step, at the top, and in front."""
    lines = ["import gc", "import torch", *head.splitlines(), ""]
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
        pytest.param(loop("if step % 100 == 0:\n    torch.cuda.empty_cache()"), id="now and then"),
        pytest.param(
            loop("try:\n    f()\nexcept RuntimeError:\n    torch.cuda.empty_cache()"),
            id="where memory ran out",
        ),
        pytest.param(
            loop("model = torch.nn.Linear(2, 2)\ndel model\ntorch.cuda.empty_cache()"),
            id="a model was deleted",
        ),
        pytest.param(
            loop(
                "other = torch.optim.SGD(p)\ndel x, other\nif device == 'cuda':\n    gc.collect()"
            ),
            id="an optimizer was deleted",
        ),
        pytest.param(
            "import torch\n@torch.no_grad()\ndef evaluate(layers, batches):\n"
            "    for one in layers:\n        for x in batches:\n            one(x)\n"
            "        torch.cuda.empty_cache()\n",
            id="after all batches of a layer",
        ),
        pytest.param(loop("gc.collect(0)"), id="the youngest objects only"),
        pytest.param(loop("gc.collect()", before="gc.disable()"), id="the collector is off"),
        pytest.param(
            loop("gc.collect()", head="gc.freeze()"), id="the collector is told what to do"
        ),
        pytest.param(
            loop("torch.cuda.reset_peak_memory_stats()\ngc.collect()"), id="memory is measured"
        ),
        pytest.param(loop("n = gc.collect()"), id="the number of objects is asked for"),
        pytest.param(loop("clean = torch.cuda.empty_cache"), id="not called"),
        pytest.param(
            "import torch\nfor epoch in range(9):\n    run(epoch)\n    torch.cuda.empty_cache()\n",
            id="once an epoch, perhaps",
        ),
        pytest.param(
            loop("pass").replace("    for step", "    for epoch in range(3):\n     for step")
            + "     torch.cuda.empty_cache()\n",
            id="once an epoch",
        ),
        pytest.param(loop("pass") + "    torch.cuda.empty_cache()\n", id="after the loop"),
        pytest.param(loop(head="torch = load()"), id="torch is not torch"),
        pytest.param(loop("gc.collect()", head="gc = load()"), id="gc is not gc"),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "row"),
    [
        pytest.param(loop(), 9, id="at the end of a step"),
        pytest.param(loop("torch.xpu.empty_cache()"), 9, id="of Intel's GPU"),
        pytest.param(loop("torch.mps.empty_cache()"), 9, id="of Apple's GPU"),
        pytest.param(loop("gc.collect()"), 9, id="Python's objects"),
        pytest.param(loop("for part in x:\n    gc.collect()"), 10, id="more than once a step"),
        pytest.param(loop("clear()", head="from torch.cuda import empty_cache as clear"), 10,
                     id="imported"),
        pytest.param(
            loop("if torch.cuda.is_available():\n    torch.cuda.empty_cache()"),
            10,
            id="where there is a GPU",
        ),
        pytest.param(loop("del loss\ntorch.cuda.empty_cache()"), 10, id="a tensor was deleted"),
        pytest.param(
            loop("try:\n    f()\nfinally:\n    torch.cuda.empty_cache()"), 12, id="whatever happens"
        ),
        pytest.param(
            loop("clean()", head="def clean():\n    torch.cuda.empty_cache()"),
            4,
            id="in a function that a step calls",
        ),
        pytest.param(
            "import gc\nimport torch\nfor x in loader:\n    model(x).sum().backward()\n"
            "    gc.collect()\n",
            5,
            id="at the level of the module",
        ),
    ],
)  # fmt: skip
def test_reports(source, row):
    (found,) = check(source, CODE)
    assert (found.location.row, found.severity) == (row, Severity.WARNING)
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


def test_says_what_it_does():
    (cache,) = check(loop(), CODE)
    (objects,) = check(loop("gc.collect()"), CODE)
    assert cache.message == (
        "`torch.cuda.empty_cache()` gives away memory that the next one needs, "
        "in every training step"
    )
    assert objects.message == "`gc.collect()` walks through all objects, in every training step"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            """
            import torch

            @torch.no_grad()
            def evaluate(model, loader):
                for x in loader:
                    model(x)
                    torch.cuda.empty_cache()
            """,
            id="an evaluation",
        ),
        pytest.param(
            """
            import torch

            class Net(torch.nn.Module):
                def forward(self, x):
                    torch.cuda.empty_cache()
                    return x
            """,
            id="a forward pass",
        ),
    ],
)
def test_advises_where_memory_may_be_short(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix is not None


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            loop("if args.empty_cache:\n    torch.cuda.empty_cache()"), id="an option asks for it"
        ),
        pytest.param(
            loop("if torch.cuda.memory_reserved() > limit:\n    torch.cuda.empty_cache()"),
            id="where memory is short",
        ),
        pytest.param(loop("if full:\n    gc.collect()"), id="under a condition"),
        pytest.param(
            loop("if full:\n    for part in x:\n        gc.collect()"),
            id="in a loop under a condition",
        ),
        pytest.param(
            loop("if full:\n    pass\nelse:\n    gc.collect()"), id="in the other branch of one"
        ),
        pytest.param(
            loop("layer = layers[0]\ndel layer\ntorch.cuda.empty_cache()"),
            id="a layer was deleted",
        ),
    ],
)
def test_advises_where_nobody_knows(source):
    (found,) = check(source, CODE)
    assert (found.severity, found.fix) == (Severity.INFO, None)


def test_what_cleans_up_shared_memory_gives_none_away():
    (found,) = check(loop("torch.cuda.ipc_collect()"), CODE)
    assert found.severity is Severity.INFO
    assert "`torch.cuda.ipc_collect()` looks for memory that other processes" in found.message


def test_a_function_that_a_step_of_another_file_calls(tmp_path):
    files = {
        "clean.py": "import torch\ndef clean():\n    torch.cuda.empty_cache()\n",
        "train.py": "from clean import clean\nfor x in loader:\n    model(x).sum().backward()\n"
        "    clean()\n",
    }
    (found,) = check_in(tmp_path, files, "clean.py", CODE)
    assert (found.location.row, found.severity) == (3, Severity.WARNING)
    files["train.py"] = files["train.py"].replace("    clean()", "clean()")
    assert check_in(tmp_path, files, "clean.py", CODE) == []


def test_a_framework_has_a_switch_of_its_own():
    (found,) = check(loop(head="import lightning"), CODE)
    assert (found.fix, found.severity) == (None, Severity.INFO)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("torch.cuda.empty_cache()", "", id="a line"),
        pytest.param("gc.collect(); log()", "log()\n", id="with another on its line"),
        pytest.param("gc.collect()\ntorch.cuda.empty_cache()\nlog()", "log()\n", id="both"),
        pytest.param(
            "if torch.cuda.is_available():\n    gc.collect()\n    torch.cuda.empty_cache()",
            "",
            id="both, with their if",
        ),
        pytest.param(
            "if torch.cuda.is_available():\n    gc.collect()\n    log()",
            "if torch.cuda.is_available():\n    log()\n",
            id="beside another",
        ),
        pytest.param("gc.collect()  # no leaks\nlog()", "# no leaks\nlog()\n", id="a comment"),
    ],
)
def test_fixes(before, after):
    without = loop(after.rstrip("\n"))
    if "gc." in before:
        without = without.removeprefix("import gc\n")
    assert fixed(loop(before), CODE) == without


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("import gc, os\n", "import gc, os\n", id="beside another"),
        pytest.param("import gc  # noqa: F401\n", "import gc  # noqa: F401\n", id="a reason"),
        pytest.param("import gc\ngc.enable()\n", "import gc\ngc.enable()\n", id="needed elsewhere"),
        pytest.param("import gc\n__all__ = ['gc']\n", "import gc\n__all__ = ['gc']\n", id="a name"),
        pytest.param("import os\n\nimport gc\n\n", "import os\n\n", id="an empty line less"),
    ],
)
def test_an_import_goes_that_nothing_else_needs(before, after):
    rest = loop("gc.collect()").removeprefix("import gc\n")
    assert fixed(before + rest, CODE) == after + loop("").removeprefix("import gc\n")
