"""TL713: attention weights that nobody reads."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL713"


def block(forward: str, layer: str = "nn.MultiheadAttention(8, 2)", head: str = "") -> str:
    """Return a module with these lines in `forward`, the first of which is row 11 or below."""
    lines = ["import torch", "from torch import nn", *head.splitlines(), ""]
    lines += ["class Block(nn.Module):", "    def __init__(self, attn=None):"]
    lines += ["        super().__init__()", f"        self.attn = {layer}", ""]
    lines += ["    def forward(self, x, kw):", textwrap.indent(forward, " " * 8)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(block("return self.attn(x, x, x)"), id="both are returned"),
        pytest.param(block("x, w = self.attn(x, x, x)\nreturn x, w"), id="both are named"),
        pytest.param(block("x, _ = self.attn(x, x, x)\nprint(_)"), id="read under any name"),
        pytest.param(
            block("x, w = self.attn(x, x, x)\nreturn lambda: w"), id="read by a function inside"
        ),
        pytest.param(block("x, self.w = self.attn(x, x, x)\nreturn x"), id="kept"),
        pytest.param(block("x, w[0] = self.attn(x, x, x)\nreturn x"), id="stored"),
        pytest.param(block("x, w = self.attn(x, x, x)\nw += 1\nreturn x"), id="added to"),
        pytest.param(block("x, *w = self.attn(x, x, x)\nreturn w"), id="the rest is read"),
        pytest.param(block("return self.attn(x, x, x)[1]"), id="the weights"),
        pytest.param(block("return self.attn(x, x, x)[:1]"), id="a slice"),
        pytest.param(block("return self.attn(x, x, x)[-1]"), id="the last"),
        pytest.param(block("return self.attn(x, x, x)[kw]"), id="either"),
        pytest.param(block("out = self.attn(x, x, x)\nreturn out"), id="the pair is returned"),
        pytest.param(
            block("out = self.attn(x, x, x)\nself.w = out[1]\nreturn out[0]"), id="both members"
        ),
        pytest.param(block("out = self.attn(x, x, x)\nreturn out[0], len(out)"), id="the length"),
        pytest.param(block("out = self.attn(x, x, x)"), id="the pair is not read at all"),
        pytest.param(block("self.out = self.attn(x, x, x)\nreturn self.out[0]"), id="a kept pair"),
        pytest.param(block("return self.attn(x, x, x, need_weights=False)[0]"), id="said"),
        pytest.param(block("return self.attn(x, x, x, need_weights=kw)[0]"), id="decided"),
        pytest.param(
            block("return self.attn(x, x, x, need_weights=True)[0]"), id="wanted on purpose"
        ),
        pytest.param(block("return self.attn(x, x, x, None, False)[0]"), id="by position"),
        pytest.param(block("return self.attn(x, x, x, **kw)[0]"), id="perhaps in a dictionary"),
        pytest.param(block("return self.attn(*x)[0]"), id="perhaps by position"),
        pytest.param(block("return self.attn(x, x, x)[0]", "Attention(8, 2)"), id="another layer"),
        pytest.param(
            block(
                "return self.attn(x, x, x)[0]",
                "Attention(8, 2)",
                "class Attention(nn.MultiheadAttention):\n    pass",
            ),
            id="a subclass",
        ),
        pytest.param(block("return self.attn(x, x, x)[0]", "attn"), id="a parameter"),
        pytest.param(
            block("return self.attn(x, x, x)[0]", "attn or nn.MultiheadAttention(8, 2)"),
            id="perhaps a parameter",
        ),
        pytest.param(
            """
            from torch import nn

            def attend(x, attn: nn.MultiheadAttention):
                return attn(x, x, x)[0]
            """,
            id="an annotated parameter, perhaps of a subclass",
        ),
        pytest.param(block("return self.attn(x, x, x)[0]", "nn.LSTM(8, 2)"), id="recurrent"),
        pytest.param(block("return self.attn(x)[0]"), id="no call of attention"),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("tail", "count"),
    [
        pytest.param("b = Block()\nb.attn.register_forward_hook(f)\n", 0, id="on the layer"),
        pytest.param("b = nn.Linear(1, 1)\nb.register_forward_hook(f)\n", 1, id="on another"),
    ],
)
def test_hooks_that_may_read_the_weights(tmp_path, tail, count):
    source = block("return self.attn(x, x, x)[0]")
    found = check(source + tail, CODE)
    assert len(found) == count
    files = {"net.py": source, "maps.py": f"from net import *\nfrom torch import nn\n{tail}"}
    assert len(check_in(tmp_path, files, "net.py", CODE)) == count


@pytest.mark.parametrize(
    ("forward", "row"),
    [
        pytest.param("x, _ = self.attn(x, x, x)\nreturn x", 10, id="unpacked"),
        pytest.param("x, weights = self.attn(x, x, x)\nreturn x", 10, id="not read"),
        pytest.param("(x, _) = self.attn(x, x, x)\nreturn x", 10, id="in parentheses"),
        pytest.param("[x, _] = self.attn(x, x, x)\nreturn x", 10, id="in brackets"),
        pytest.param("x, *_ = self.attn(x, x, x)\nreturn x", 10, id="the rest is not read"),
        pytest.param("return x + self.attn(x, x, x)[0]", 10, id="indexed"),
        pytest.param("out = self.attn(x, x, x)\nreturn out[0]", 10, id="indexed later"),
        pytest.param("x = self.attn(x, x, x)\nx = x[0]\nreturn x", 10, id="renamed"),
        pytest.param(
            "x, w = self.attn(x, x, x)\nw = x.w\nreturn f(w, w=x)", 10, id="the name is used again"
        ),
        pytest.param(
            "x, _ = self.attn(x, x, x, average_attn_weights=False)\nreturn x", 10, id="each head's"
        ),
        pytest.param("x, _ = self.attn(query=x, key=x, value=x)\nreturn x", 10, id="by keyword"),
    ],
)
def test_reports(forward, row):
    step = "for x in loader:\n    Block()(x, 0).sum().backward()\n"
    (found,) = check(block(forward) + step, CODE)
    assert (found.location.row, found.severity) == (row, Severity.WARNING)
    assert check(block(forward), CODE)[0].severity is Severity.INFO, "who runs it is not known"
    assert found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    "head",
    [
        "from torch.nn import MultiheadAttention as Attention",
        "from torch.nn.modules.activation import MultiheadAttention as Attention",
    ],
)
def test_reports_whatever_the_layer_is_called(head):
    assert len(check(block("return self.attn(x, x, x)[0]", "Attention(8, 2)", head), CODE)) == 1


def test_reports_layers_without_a_class():
    source = "import torch\nattn = torch.nn.MultiheadAttention(8, 2)\nx, _ = attn(a, b, c)\n"
    (found,) = check(source, CODE)
    assert found.location.row == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "return self.attn(x, x, x)[0]",
            "return self.attn(x, x, x, need_weights=False)[0]",
            id="one line",
        ),
        pytest.param(
            "x, _ = self.attn(\n    x,\n    x,\n    x,  # values\n    attn_mask=kw,\n)\nreturn x",
            "x, _ = self.attn(\n    x,\n    x,\n    x,  # values\n    attn_mask=kw,\n"
            "    need_weights=False,\n)\nreturn x",
            id="one argument a line",
        ),
        pytest.param(
            "x = self.attn(x, x, x, **{'attn_mask': kw})\nx = x[0]\nreturn x",
            "x = self.attn(x, x, x, need_weights=False, **{'attn_mask': kw})\nx = x[0]\nreturn x",
            id="before a dictionary that is known",
        ),
    ],
)
def test_fixes(before, after):
    assert fixed(block(before), CODE) == block(after)


def test_the_fix_is_not_safe():
    source = block("return self.attn(x, x, x)[0]")
    assert fixed(source, CODE, unsafe=False, settles=False) == source
