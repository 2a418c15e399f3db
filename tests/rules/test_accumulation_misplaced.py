"""TL607: gradients that are dropped, clipped or left whole while they are accumulated."""

from __future__ import annotations

import textwrap

import pytest
import torch
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL607"

SCRIPT = """
import torch
import torch.nn.functional as F
{head}

def train(loader, k, scaler, criterion, opt_a, opt_b, opt_d, critic, accelerator, amp, compute):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    {before}
    for i, (x, y) in enumerate(loader):
        {first}
        loss = F.cross_entropy(model(x), y){share}
        {backward}
        if (i + 1) % k == 0:
            {step}
    return model
"""
SCALED = "scaler.step(optimizer)\nscaler.update()"
RIGHT = "optimizer.step()\noptimizer.zero_grad()"
ZERO = "optimizer.zero_grad()"


def script(  # noqa: PLR0917 - the parts of the loop, in their order
    first: str = "",
    share: str = " / k",
    backward: str = "loss.backward()",
    step: str = "optimizer.step()",
    before: str = "",
    head: str = "",
) -> str:
    text = SCRIPT.format(
        first=textwrap.indent(first, " " * 8).strip(),
        share=share,
        backward=textwrap.indent(backward, " " * 8).strip(),
        step=textwrap.indent(step, " " * 12).strip(),
        before=textwrap.indent(before, " " * 4).strip(),
        head=head,
    )
    return "\n".join(line for line in text.splitlines() if line.strip()) + "\n"


# -- what is left alone -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(step=RIGHT), id="as it should be"),
        pytest.param(
            script("if i % k == 0:\n    optimizer.zero_grad()"), id="dropped before each window"
        ),
        pytest.param(
            script(ZERO).replace("(i + 1) % k", "epoch % k"),
            id="the loop does not count the epochs",
        ),
        pytest.param(
            script(ZERO, backward="pass", step="loss.backward()\noptimizer.step()"),
            id="the backward pass is under the condition too",
        ),
        pytest.param(script("critic.zero_grad()"), id="the gradients of another model are dropped"),
        pytest.param(
            script(ZERO, backward="loss.backward()\nkept = model.weight.grad"),
            id="gradients are kept by hand",
        ),
        pytest.param(script(share="", step=RIGHT, head="rate = 0.1 * k"), id="a rate for the sum"),
        pytest.param(
            script(share="", step=RIGHT, head="import lightning"),
            id="the framework may divide the loss",
        ),
        pytest.param(
            script(share="", step=RIGHT).replace("F.cross_entropy(", "compute("), id="what loss"
        ),
        pytest.param(
            script(step="torch.nn.utils.clip_grad_norm_(model.parameters(), 1)\n" + RIGHT),
            id="clipped before the step",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


# -- what is reported -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "step", "how"),
    [
        (ZERO, "optimizer.step()", "`optimizer.step()` waits"),
        ("model.zero_grad()", "optimizer.step()", "`optimizer.step()` waits"),
        (ZERO, RIGHT, "until `(i + 1) % k == 0`"),
        (
            ZERO,
            "scaler.step(optimizer)\nscaler.update()",
            "`scaler.step(optimizer)` waits",
        ),
    ],
)
def test_reports(first, step, how):
    [found] = check(script(first, step=step), CODE)
    assert (found.code, found.severity) == ("TL607", Severity.ERROR)
    assert how in found.message
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


def test_two_optimizers():
    source = script("opt_a.zero_grad()\nopt_b.zero_grad()", step="opt_a.step()\nopt_b.step()")
    first, second = check(source, CODE)
    assert "`opt_a.step()` waits" in first.message
    assert "`opt_b.step()` waits" in second.message


def test_advice_under_a_framework():
    [found] = check(script(ZERO, head="import lightning"), CODE)
    assert (found.fix, found.severity) == (None, Severity.INFO)


# -- what the fix writes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            script(ZERO),
            script(step=RIGHT, before=ZERO),
            id="moved",
        ),
        pytest.param(
            script("optimizer.zero_grad(set_to_none=True)", step=SCALED + "\nlog()"),
            script(
                step=SCALED + "\noptimizer.zero_grad(set_to_none=True)\nlog()",
                before="optimizer.zero_grad(set_to_none=True)",
            ),
            id="behind the scaler's update",
        ),
        pytest.param(
            script(
                ZERO,
                step="if amp:\n    scaler.step(optimizer)\nelse:\n    optimizer.step()\nlog()",
            ),
            script(
                step="if amp:\n    scaler.step(optimizer)\nelse:\n    optimizer.step()\n"
                "optimizer.zero_grad()\nlog()",
                before=ZERO,
            ),
            id="behind both branches",
        ),
        pytest.param(
            script(ZERO, step=RIGHT),
            script(step=RIGHT, before=ZERO),
            id="there already",
        ),
        pytest.param(
            script(ZERO, before=ZERO),
            script(step=RIGHT, before=ZERO),
            id="before the loop already",
        ),
    ],
)  # fmt: skip
def test_fix(before, after):
    assert fixed(before, CODE) == after


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(ZERO, share=""), id="the loss is not divided"),
        pytest.param(script("print(optimizer.zero_grad())"), id="not a statement of its own"),
        pytest.param(script(ZERO).replace(":\n            opt", ": opt"), id="one line"),
        pytest.param(
            "import torch\n\ndef step(i, model, optimizer, x, k):\n    optimizer.zero_grad()\n"
            "    (model(x).mean() / k).backward()\n    if i % k == 0:\n        optimizer.step()\n",
            id="the loop is elsewhere",
        ),
    ],
)
def test_no_fix(source):
    [found] = check(source, CODE)
    assert found.fix is None


def test_never_safe():
    source = script(ZERO)
    assert fixed(source, CODE, unsafe=False, settles=False) == source


LOOP = """
import torch

def train(model, optimizer, loader, k):
    {0}for x, y in loader:
        {1}for part, target in zip(x.chunk(k), y.chunk(k)):
            {2}loss = torch.nn.functional.mse_loss(model(part), target) / k
            loss.backward()
        optimizer.step()
"""


def test_a_loop_of_its_own():
    line, before, within = f"{ZERO}\n", LOOP.format("", "", ZERO + "\n            "), " " * 8
    (found,) = check(before, CODE)
    assert "waits for until its loop has ended" in found.message
    assert fixed(before, CODE) == LOOP.format("", line + within, "")
    silent(LOOP.format("", line + within, ""), CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(f"if amp:\n    {ZERO}"), id="another condition decides"),
        pytest.param(
            "import torch\n\ndef step(i, model, optimizer, x, k):\n    optimizer.zero_grad()\n"
            "    model(x).mean().backward()\n    if i % k == 0:\n        optimizer.step()\n",
            id="what is counted is not seen",
        ),
    ],
)
def test_is_information(source):
    (found,) = check(source, CODE)
    assert (found.code, found.severity) == (CODE, Severity.INFO)


# -- TL607b -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["F.cross_entropy(model(x), y)", "criterion(model(x), y)"])
def test_the_whole_loss(loss):
    source = script(share="", step=RIGHT).replace("F.cross_entropy(model(x), y)", loss)
    [found] = check(source, CODE)
    assert (found.code, found.severity, found.fix) == ("TL607b", Severity.INFO, None)
    assert "not divided by `k`" in found.message


# -- TL607c -----------------------------------------------------------------------------------


CLIP = "loss.backward()\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1)"


def test_clipped_in_each_turn():
    [found] = check(script(backward=CLIP, step=RIGHT), CODE)
    assert (found.code, found.severity, found.fix) == ("TL607c", Severity.WARNING, None)
    [found] = check(script(backward=CLIP, step=RIGHT, head="import lightning"), CODE)
    assert found.severity is Severity.INFO


# -- the trap: what dropping does ---------------------------------------------------------------


def test_what_is_dropped_is_not_learned():
    def moved(source: str) -> torch.Tensor:
        torch.manual_seed(0)
        data = [(torch.randn(8, 4), torch.randint(2, (8,))) for _ in range(4)]
        scope: dict = {}
        exec(compile(source, "snippet.py", "exec"), scope)  # noqa: S102 - our own text
        return scope["train"](data, 4, *[None] * 9).weight.detach()

    def last_only(source: str) -> str:
        return source.replace("enumerate(loader)", "[(3, loader[3])]")

    before = script(ZERO)
    after = fixed(before, CODE)
    torch.testing.assert_close(moved(before), moved(last_only(before)))
    assert not torch.allclose(moved(after), moved(before))
