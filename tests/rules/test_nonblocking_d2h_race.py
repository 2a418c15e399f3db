"""TL206: copies to the host that are read before they are complete."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL206"

HEAD = """\
import numpy as np
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
cpu = torch.device("cpu")
model = torch.nn.Linear(3, 3).to(device)
rows = []
"""
MOVED = "out.to('cpu', non_blocking=True)"
COPY = 'h = out.to("cpu", non_blocking=True)\n'


def script(*lines: str, head: str = "") -> str:
    """Return a script with lines behind a forward pass on the GPU, in a loop."""
    body = textwrap.indent("\n".join(lines), "    ")
    return f"{HEAD}{head}for x in batches:\n    out = model(x.to(device))\n{body}\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("print(out.to('cpu'))"), id="waits"),
        pytest.param(script("print(out.to('cpu', non_blocking=fast))"), id="a variable decides"),
        pytest.param(script("print(out.to('cuda:1', non_blocking=True))"), id="to another GPU"),
        pytest.param(script("print(out.to(device, non_blocking=True))"), id="to where it is"),
        pytest.param(script("print(x.to('cpu', non_blocking=True))"), id="on the host already"),
        pytest.param(script("print(y.to('cpu', non_blocking=True))"), id="from nobody knows where"),
        pytest.param(script("print(model.to('cpu', non_blocking=True))"), id="a model"),
        pytest.param(script(COPY), id="not read"),
        pytest.param(script(COPY, "n = h.shape[0] + h.size(1) + h.numel()"), id="only its size"),
        pytest.param(script(COPY, "y = h.to(device)"), id="back to the GPU, in order"),
        pytest.param(script(COPY, "keep(h)"), id="given to a function"),
        pytest.param(script(COPY, "kept.h = h"), id="stored"),
        pytest.param(script(COPY, "h[0] = 1"), id="written to"),
        pytest.param(script(COPY, "h = 3", "print(h)"), id="the name is given away"),
        pytest.param(script("if x:", "    " + COPY, "else:", "    h = 1"), id="on another way"),
        pytest.param(script("print(h)", COPY), id="read in the next step, perhaps after a wait"),
        pytest.param(script(COPY, "torch.cuda.synchronize()", "print(h)"), id="a wait"),
        pytest.param(script(COPY, "event.synchronize()", "print(h)"), id="an event"),
        pytest.param(script(COPY, "self.finish()", "print(h)"), id="a wait, perhaps"),
        pytest.param(script(COPY, "loss = out.sum().item()", "print(h)"), id="item waits as well"),
        pytest.param(script(COPY, "g = y.to(device)", "print(h)"), id="a blocking copy waits"),
        pytest.param(script(COPY, "print(out)", "print(h)"), id="printing from the GPU waits"),
        pytest.param(script(COPY, "a = torch.cat((h, out.cpu()))"), id="a wait before the reading"),
        pytest.param(
            script(COPY, "a = h.numpy()", "torch.cuda.synchronize()"), id="a view, a wait"
        ),
        pytest.param(script(COPY, "a = np.asarray(h)", "e.synchronize()"), id="NumPy's view"),
        pytest.param(
            script("wait(out.to('cpu', non_blocking=True)).item()"), id="waited for at once"
        ),
        pytest.param(
            script("rows.append(out.to('cpu', non_blocking=True))") + "torch.cat(rows)\n",
            id="collected",
        ),
        pytest.param(
            script(COPY) + "def f(h):\n    print(h)\n", id="another name in another function"
        ),
        pytest.param(script(COPY, "print(a.h, f(h=3))"), id="another thing of that name"),
        pytest.param(
            script(
                "if x:\n    b.copy_(out, True)\nelse:\n    print(b)", head="b = p.pin_memory()\n"
            ),
            id="into a buffer",
        ),
        pytest.param(script("out.copy_(x, non_blocking=True)", "print(out)"), id="to the GPU"),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "reader"),
    [
        pytest.param(script(f"a = {MOVED}.numpy()"), f"{MOVED}.numpy()", id="numpy"),
        pytest.param(script(f"a += {MOVED}.tolist()"), f"{MOVED}.tolist()", id="list"),
        pytest.param(script(f"a = float({MOVED})"), f"float({MOVED})", id="a number"),
        pytest.param(script(f"a = np.mean({MOVED})"), f"np.mean({MOVED})", id="by NumPy"),
        pytest.param(script(COPY, "a = h.mean()"), "h.mean()", id="a method"),
        pytest.param(script(COPY, "keep(h.mean())"), "h.mean()", id="given to a function"),
        pytest.param(
            script(COPY, "while x:", "    h = h[1:]", "print(h)"), "print(h)", id="a name for parts"
        ),
        pytest.param(script(COPY, "a = h + 1"), "h + 1", id="arithmetic"),
        pytest.param(script(COPY, "a = 1 < h"), "< h", id="a comparison"),
        pytest.param(script(COPY, "total += h"), "total += h", id="a total"),
        pytest.param(script(COPY, "a = f'{h}'"), "{h}", id="text"),
        pytest.param(script(COPY, "a = torch.sum(h)"), "torch.sum(h)", id="by torch"),
        pytest.param(script(COPY, "g = h", "a = g.sum()"), "g.sum()", id="by another name"),
        pytest.param(
            script("h: torch.Tensor = out.to('cpu', non_blocking=True)", "print(h)"),
            "print(h)",
            id="annotated",
        ),
        pytest.param(
            script(COPY, "y = model(out)", "rows.append(1)", "print(h)"),
            "print(h)",
            id="after more work",
        ),
        pytest.param(
            script(COPY, "y = x.to(device, non_blocking=True)", "print(h)"),
            "print(h)",
            id="after a copy to the GPU",
        ),
    ],
)
def test_reports(source, reader):
    (found,) = check(source, CODE)
    assert found.severity is Severity.ERROR
    assert found.message.endswith(f"does not wait for the copy, and `{reader}` reads it")
    assert found.fix is not None
    assert found.fix.safety is Safety.SAFE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "a = out.to('cpu', non_blocking=True).numpy()", "a = out.to('cpu').numpy()", id="to"
        ),
        pytest.param(
            "a = out.to(non_blocking=True, device='cpu').sum()",
            "a = out.to(device='cpu').sum()",
            id="the flag first",
        ),
    ],
)
def test_fixes(before, after):
    assert fixed(script(before), CODE, unsafe=False) == script(after)
