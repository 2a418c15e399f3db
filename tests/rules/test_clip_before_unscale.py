from __future__ import annotations

import textwrap

import pytest
import torch
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL503"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
STEP = "scaler.step(optimizer)\nscaler.update()"


def step(body: str, *, head: str = "", scaler: str = "torch.amp.GradScaler('cuda')") -> str:
    """A training loop that scales its loss and then does what is given."""
    return (
        f"import torch\nfrom torch import nn\n{head}\n"
        "def train(model, loader, optimizer, args):\n"
        f"    scaler = {scaler}\n"
        "    for i, (x, y) in enumerate(loader):\n"
        "        loss = model(x, y)\n" + textwrap.indent(body, " " * 8) + "\n"
    )


def scaled(*lines: str) -> str:
    return "\n".join(("scaler.scale(loss).backward()", *lines))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(step(scaled("scaler.unscale_(optimizer)", CLIP, STEP)), id="unscaled first"),
        pytest.param(
            step(scaled(f"if args.clip:\n    scaler.unscale_(optimizer)\n    {CLIP}", STEP)),
            id="unscaled where it is clipped",
        ),
        pytest.param(
            step(scaled(f"if i % 4 == 3:\n    scaler.unscale_(optimizer)\n    {CLIP}", STEP)),
            id="every fourth step",
        ),
        pytest.param(
            step(scaled("scaler.unscale_(other)", CLIP, STEP)),
            id="another optimizer is unscaled: whose gradients are they",
        ),
        pytest.param(step(f"loss.backward()\n{CLIP}\noptimizer.step()"), id="not scaled"),
        pytest.param(step(scaled(STEP, CLIP)), id="clipped after the step"),
        pytest.param(step(f"{CLIP}\n{scaled(STEP)}"), id="clipped before the backward pass"),
        pytest.param(
            step(scaled(CLIP, STEP), scaler="torch.amp.GradScaler('cuda', enabled=False)"),
            id="a scaler that is off",
        ),
        pytest.param(step(scaled(CLIP, STEP), scaler="MinMaxScaler()"), id="not a gradient scaler"),
        pytest.param(
            step(scaled(CLIP, STEP), head="from apex_like import Scaler", scaler="Scaler()"),
            id="a scaler of somebody else, which may unscale by itself",
        ),
        pytest.param(
            step(
                f"if args.fp16:\n    scaler.scale(loss).backward()\nelse:\n    loss.backward()\n"
                f"    {CLIP}\nif args.fp16:\n    scaler.step(optimizer)\n    scaler.update()"
            ),
            id="clipped in the branch that does not scale",
        ),
        pytest.param(
            step(
                scaled(f"if not args.x:\n    {CLIP}", STEP),
                scaler="torch.amp.GradScaler(enabled=args.x)",
            ),
            id="clipped where nothing is scaled, by an option",
        ),
        pytest.param(
            step(scaled(f"if args.fp16:\n    {STEP}\nelse:\n    {CLIP}".replace("\ns", "\n    s"))),
            id="clipped in the other branch than the step",
        ),
        pytest.param(
            step(scaled(CLIP.replace("1.0", "scaler.get_scale()"), STEP)),
            id="a limit that is scaled as well",
        ),
        pytest.param(
            step(scaled("s = scaler.get_scale()", "divide(model, s)", CLIP, STEP)),
            id="unscaled by hand",
        ),
        pytest.param(
            step(scaled("unscale(scaler, optimizer)", CLIP, STEP), head="from my import unscale"),
            id="a function that is given the scaler",
        ),
        pytest.param(
            step(
                scaled("prepare(optimizer)", CLIP, STEP),
                head="def prepare(o):\n    SCALER.unscale_(o)\n",
            ),
            id="a function of the file that unscales",
        ),
        pytest.param(
            step(scaled("x.clip_(0, 1)", "clip_paths(x)", STEP)),
            id="what is clipped is no gradient",
        ),
        pytest.param(
            """
            import torch
            def backward(scaler, loss):
                scaler.scale(loss).backward()
            def clip(model, optimizer, scaler):
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
            """,
            id="in two functions: the caller decides what comes between",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "row"),
    [
        pytest.param(step(scaled(CLIP, STEP)), 9, id="by norm"),
        pytest.param(
            step(scaled("nn.utils.clip_grad_value_(model.parameters(), 1.0)", STEP)),
            9,
            id="by value",
        ),
        pytest.param(
            step(
                scaled("clip(model.parameters(), 1.0)", STEP),
                head="from torch.nn.utils.clip_grad import clip_grad_norm_ as clip",
            ),
            9,
            id="under another name",
        ),
        pytest.param(
            step(
                scaled("clip_all(optimizer)", STEP),
                head="def clip_all(o):\n    for p in o.params: p.grad.data.clamp_(-1, 1)\n",
            ),
            11,
            id="in a function of the file",
        ),
        pytest.param(
            step(scaled("for p in model.parameters():\n    p.grad.clamp_(-1, 1)", STEP)),
            10,
            id="one by one",
        ),
        pytest.param(
            step(scaled(CLIP, "scaler.unscale_(optimizer)", STEP)), 9, id="unscaled too late"
        ),
        pytest.param(
            step(scaled(f"if i % 4 == 3:\n    {CLIP}\n    {STEP}".replace("\ns", "\n    s"))),
            10,
            id="when gradients were accumulated",
        ),
        pytest.param(
            step(scaled(f"if args.clip:\n    {CLIP}", STEP)), 10, id="under an option of its own"
        ),
        pytest.param(
            step("for part in loss:\n    scaler.scale(part).backward()\n" + f"{CLIP}\n{STEP}"),
            10,
            id="after a loop of backward passes",
        ),
        pytest.param(
            """
            import torch
            def step(scaler, loss, optimizer, model):
                scaler.scale(loss).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """,
            5,
            id="a scaler that the caller gives",
        ),
        pytest.param(
            """
            import torch
            class Trainer:
                def __init__(self):
                    self.scaler = torch.cuda.amp.GradScaler(enabled=self.amp)
                def step(self, loss):
                    if self.amp:
                        self.scaler.scale(loss).backward()
                        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                        self.scaler.step(self.optimizer)
                        self.scaler.update()
            """,
            9,
            id="in a class, where the option holds for all of it",
        ),
    ],
)
def test_reports(source, row):
    (found,) = check(source, CODE)
    assert (found.location.row, found.severity) == (row, Severity.ERROR)
    assert "has scaled" in found.message
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


UNSCALE = "scaler.unscale_(optimizer)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(scaled(CLIP, STEP), scaled(UNSCALE, CLIP, STEP), id="a line"),
        pytest.param(
            scaled("# not too far", f"norm = {CLIP}", STEP),
            scaled(UNSCALE, "# not too far", f"norm = {CLIP}", STEP),
            id="above the comment",
        ),
        pytest.param(
            scaled(f"if args.clip:\n    {CLIP}", STEP),
            scaled(UNSCALE, f"if args.clip:\n    {CLIP}", STEP),
            id="before the condition",
        ),
        pytest.param(
            scaled("for p in model.parameters():\n    nn.utils.clip_grad_norm_(p, 1.0)", STEP),
            scaled(
                UNSCALE, "for p in model.parameters():\n    nn.utils.clip_grad_norm_(p, 1.0)", STEP
            ),
            id="once before a loop",
        ),
        pytest.param(
            scaled(CLIP, f"{UNSCALE}  # first", STEP),
            scaled(UNSCALE, CLIP, "# first", STEP),
            id="moved up",
        ),
        pytest.param(
            scaled(CLIP, "scaler.step(optimizer)", "scaler.step(args.other)", "scaler.update()"),
            scaled(
                UNSCALE,
                "scaler.unscale_(args.other)",
                CLIP,
                "scaler.step(optimizer)",
                "scaler.step(args.other)",
                "scaler.update()",
            ),
            id="two optimizers share the gradients",
        ),
    ],
)
def test_fixes(before, after):
    assert fixed(step(before), CODE) == step(after)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            scaled(CLIP, f"if i % 4 == 3:\n    {STEP}".replace("\ns", "\n    s")),
            id="clipped more often than stepped: a second unscale_ raises",
        ),
        pytest.param(
            scaled(CLIP, "if i == 3:\n    continue", STEP), id="the update may not be reached"
        ),
        pytest.param(scaled(CLIP, "scaler.step(optimizer)"), id="no update to be seen"),
        pytest.param(
            scaled(CLIP, "for o in args.all:\n    scaler.step(o)", "scaler.update()"),
            id="many optimizers",
        ),
        pytest.param(scaled(CLIP, STEP.replace("optimizer", "make(i)")), id="a new optimizer"),
        pytest.param(
            scaled(CLIP, f"if args.clip:\n    {UNSCALE}", STEP), id="unscaled under a condition"
        ),
        pytest.param(
            scaled(CLIP, "scaler.unscale_(args.other)", STEP), id="another one is unscaled"
        ),
        pytest.param(scaled(CLIP, "scaler.step(optimizer); scaler.update()"), id="two on a line"),
    ],
)
def test_reports_without_a_fix(body):
    (found,) = check(step(body), CODE)
    assert (found.severity, found.fix) == (Severity.ERROR, None)


@pytest.mark.parametrize(
    ("body", "count"),
    [("torch.nn.utils.clip_grad_norm_(p, 1.0)", 1), ("SCALER.unscale_(p)\n    p.grad.clip_()", 0)],
    ids=["clips", "unscales first"],
)
def test_a_function_of_another_file(tmp_path, body, count):
    files = {
        "train.py": step(scaled("clip_all(optimizer)", STEP), head="from helpers import clip_all"),
        "helpers.py": f"import torch\ndef clip_all(p):\n    {body}\n",
    }
    assert len(check_in(tmp_path, files, "train.py", CODE)) == count


def test_a_framework_may_unscale():
    (found,) = check(step(scaled(CLIP, STEP), head="import accelerate"), CODE)
    assert (found.severity, found.fix) == (Severity.INFO, None)


def test_what_torch_does():
    """The clipping sees the scaled norm; unscale_ twice before an update raises."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(weight.sum()).backward()
    assert (
        torch.nn.utils.clip_grad_norm_([weight], 1.0) == 1024
    )  # torchlint: ignore[TL503] the test runs it
    scaler.step(optimizer)
    assert weight.item() == pytest.approx(-1 / 1024)
    scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
