"""TL901: anomaly detection that was left on."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL901"
SET = "torch.autograd.set_detect_anomaly"
BLOCK = "with torch.autograd.detect_anomaly():\n    loss.backward()"


def train(step: str = "loss.backward()", before: str = "", head: str = "") -> str:
    """Return a training function with these lines in the step, before its loop, and at the top."""
    lines = ["import os", "import torch", *head.splitlines(), ""]
    lines += ["def train(model, loader, optimizer, args):"]
    lines += textwrap.indent(before, "    ").splitlines()
    lines += ["    for step, (x, y) in enumerate(loader):"]
    lines += ["        loss = model(x, y)", "        optimizer.zero_grad()"]
    lines += textwrap.indent(step, " " * 8).splitlines()
    lines += ["        optimizer.step()"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(train(head=f"{SET}(False)"), id="off"),
        pytest.param(train(before=f"{SET}(args.anomaly)"), id="an option decides"),
        pytest.param(train(head=f"{SET}(mode=bool(os.environ.get('D')))"), id="a computed mode"),
        pytest.param(train(before=f"if args.nan:\n    {SET}(True)"), id="an option asks for it"),
        pytest.param(
            train(head=f"if os.environ['ANOMALY']:\n    {SET}(True)"), id="the environment asks"
        ),
        pytest.param(
            train(head=f"if not (on := os.getenv('X')):\n    pass\nelse:\n    {SET}(True)"),
            id="the environment asks, in the other branch",
        ),
        pytest.param(
            train(before=f"if not args.debug:\n    return\n{SET}(True)"), id="left before"
        ),
        pytest.param(
            train("if step % 100 == 0:\n" + textwrap.indent(BLOCK, "    ")), id="now and then"
        ),
        pytest.param(train(head=f"on = {SET}"), id="not called"),
        pytest.param(
            train(before=f"try:\n    pass\nexcept ValueError:\n    {SET}(True)"),
            id="after an error",
        ),
        pytest.param(
            train(before=f"{SET}(True)\nprobe(model)\n{SET}(False)"), id="switched off again"
        ),
        pytest.param(
            "import lightning as L\nL.Trainer(detect_anomaly=False)\n", id="Lightning, off"
        ),
        pytest.param(
            "import lightning as L\nL.Trainer(detect_anomaly=args.debug)\n",
            id="Lightning, an option decides",
        ),
        pytest.param(
            "import lightning as L\nif args.nan:\n    L.Trainer(detect_anomaly=True)\n",
            id="Lightning, an option asks for it",
        ),
        pytest.param(
            "from mine import Trainer\nTrainer(detect_anomaly=True)\n", id="not Lightning"
        ),
        pytest.param(
            train(head=f"import pytorch_lightning as pl\n{SET}(True)\npl.Trainer().fit(model)"),
            id="Lightning's Trainer sets it itself",
        ),
        pytest.param(train(head=f"torch = load()\n{SET}(True)"), id="torch is not torch"),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "row"),
    [
        pytest.param(train(head=f"{SET}(True)"), 3, id="at the top"),
        pytest.param(train(head=f"{SET}(mode=True, check_nan=False)"), 3, id="by keyword"),
        pytest.param(train(before=f"{SET}(True)"), 5, id="in a function"),
        pytest.param(train(before=f"if torch.cuda.is_available():\n    {SET}(True)"), 6, id="GPU"),
        pytest.param(
            train(head="from torch import autograd\nautograd.set_detect_anomaly(True)"),
            4,
            id="of an imported module",
        ),
        pytest.param(
            train(
                head="from torch.autograd.anomaly_mode import set_detect_anomaly as on\non(True)"
            ),
            4,
            id="imported from where it is defined",
        ),
        pytest.param(
            train(head=f"if __name__ == '__main__':\n    {SET}(True)"), 4, id="in the main block"
        ),
        pytest.param(
            train(f"{SET}(True)\nloss.backward()\n{SET}(False)"), 8, id="on and off in every step"
        ),
        pytest.param(
            train(head=f"import accelerate\n{SET}(True)"),
            4,
            id="no framework but Lightning's sets it",
        ),
        pytest.param(
            train(head=f"from lightning import Fabric\n{SET}(True)"), 4, id="nor does Fabric"
        ),
        pytest.param(train(BLOCK), 8, id="a block in the step"),
        pytest.param(
            f"""
            import torch

            class Losses:
                def backward(self, loss):
                    with {SET}(True):  # only to debug
                        loss.backward()
            """,
            6,
            id="a block around a backward pass",
        ),
        pytest.param(
            train() + "\nwith torch.autograd.detect_anomaly():\n    train(*parts)\n",
            11,
            id="a block around the call of the training",
        ),
        pytest.param(
            """
            import torch

            for epoch in range(3):
                with torch.autograd.detect_anomaly():
                    for x in loader:
                        model(x).sum().backward()
                        optimizer.step()
            """,
            5,
            id="a block around each epoch",
        ),
    ],
)
def test_reports(source, row):
    (found,) = check(source, CODE)
    assert (found.location.row, found.severity) == (row, Severity.WARNING)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            "import torch\nimport mine\nwith torch.autograd.detect_anomaly():\n    mine.fit()\n",
            id="a block that is not seen to train",
        ),
        pytest.param(
            "import torch\ndef interpret(f, args):\n"
            "    with torch.autograd.detect_anomaly(check_nan=False):\n        return f(*args)\n",
            id="a tracer that wants the tracebacks",
        ),
        pytest.param(
            "import lightning as L\nimport torch\nwith torch.autograd.detect_anomaly():\n"
            "    L.Trainer().fit(model)\n",
            id="Lightning's Trainer sets it inside of a block",
        ),
        pytest.param(
            train(before=f"{SET}(args.nan)").replace(
                "import os",
                "import argparse\np = argparse.ArgumentParser()\n"
                "p.add_argument('--nan', default=True)\nargs = p.parse_args()",
            ) + "train(model, loader, optimizer, args)\n",
            id="an option that is on by default",
        ),
        pytest.param(f"import torch\n\ndef debug():\n    {SET}(True)\n", id="nobody calls it"),
        pytest.param(train(head=f"DEBUG = True\n{SET}(DEBUG)"), id="a constant decides"),
    ],
)  # fmt: skip
def test_is_information_without_a_fix(source):
    (found,) = check(source, CODE)
    assert (found.fix, found.severity) == (None, Severity.INFO)


@pytest.mark.parametrize("error", ["RuntimeError", "(ValueError, Exception)"])
def test_the_fix_is_unsafe_where_the_error_would_be_caught(error):
    step = f"try:\n    loss.backward()\nexcept {error}:\n    continue"
    (found,) = check(train(step, head=f"{SET}(True)"), CODE)
    assert found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    "step",
    [
        "try:\n    loss.backward()\nfinally:\n    print()",
        "try:\n    loss.backward()\nexcept KeyboardInterrupt:\n    break",
        "try:\n    print()\nexcept RuntimeError:\n    loss.backward()",
    ],
)
def test_the_fix_is_safe_where_it_is_not(step):
    (found,) = check(train(step, head=f"{SET}(True)"), CODE)
    assert found.fix.safety is Safety.SAFE


def test_the_error_may_be_caught_by_the_caller():
    source = """
    import torch

    torch.autograd.set_detect_anomaly(True)

    def step(x):
        model(x).backward()

    for x in loader:
        try:
            step(x)
        except RuntimeError:
            continue
    """
    (found,) = check(source, CODE)
    assert found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    ("step", "after"),
    [
        pytest.param(f"{SET}(True)\nloss.backward()", f"{SET}(False)\nloss.backward()", id="call"),
        pytest.param(
            f"was = {SET}(mode = True)\nloss.backward()",
            f"was = {SET}(mode = False)\nloss.backward()",
            id="kept",
        ),
        pytest.param(BLOCK, "loss.backward()", id="block"),
        pytest.param(f"with {SET}(True): loss.backward()", "loss.backward()", id="on one line"),
        pytest.param(
            f"with autocast(), {SET}(True):\n    loss.backward()",
            "with autocast():\n    loss.backward()",
            id="the last of two contexts",
        ),
        pytest.param(
            f"with {SET}(True), autocast() as cast:\n    loss.backward()",
            "with autocast() as cast:\n    loss.backward()",
            id="the first of two contexts",
        ),
        pytest.param(
            f"with autocast() as cast, {SET}(True):\n    loss.backward()",
            "with autocast() as cast:\n    loss.backward()",
            id="behind a context with a name",
        ),
        pytest.param(
            f"with (\n    autocast(),\n    {SET}(True),\n):\n    loss.backward()",
            "with (\n    autocast(),\n):\n    loss.backward()",
            id="in parentheses",
        ),
        pytest.param(
            f"with {SET}(True):  # why\n    # here\n    loss.backward()\n    # there\nlog()",
            "# why\n# here\nloss.backward()\n# there\nlog()",
            id="comments stay",
        ),
        pytest.param(
            f"with {SET}(True):\n    loss.backward()\n    log('''\n        a\n    b''',\n      1)",
            "loss.backward()\nlog('''\n        a\n    b''',\n  1)",
            id="strings over several lines stay as they are",
        ),
        pytest.param(
            f"with {SET}(True):\n    loss.backward()\n    log('a', f'{{loss}}')",
            "loss.backward()\nlog('a', f'{loss}')",
            id="strings on one line",
        ),
        pytest.param(
            f"with {SET}(True):\n\n    loss.backward()\n\n    if x:\n        log()",
            "\nloss.backward()\n\nif x:\n    log()",
            id="blank lines and blocks",
        ),
    ],
)
def test_fixes(step, after):
    assert fixed(train(step), CODE, unsafe=False) == train(after)


def test_nested_blocks_go_one_after_the_other():
    inner = textwrap.indent(BLOCK, "    ")
    assert fixed(train(f"with {SET}(True):\n{inner}"), CODE, unsafe=False) == train()


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("with torch.autograd.detect_anomaly() as d:\n    loss.backward()", id="named"),
        pytest.param(
            "with (torch.autograd.detect_anomaly(),  # why\n      other()):\n    loss.backward()",
            id="a comment beside it",
        ),
        pytest.param(
            "with (  # why\n  torch.autograd.detect_anomaly()): loss.backward()",
            id="a comment in front of a body on the same line",
        ),
    ],
)
def test_reports_without_a_fix(step):
    (found,) = check(train(step), CODE)
    assert found.fix is None


def test_the_training_may_stand_in_another_file(tmp_path):
    main = (
        "import torch\nfrom engine import fit\n\nwith torch.autograd.detect_anomaly():\n    fit()\n"
    )
    engine = f"{train()}\ndef fit():\n    train(*parts)\n"
    (found,) = check_in(tmp_path, {"engine.py": engine, "main.py": main}, "main.py", CODE)
    assert found.severity is Severity.WARNING
    assert found.fix is not None
