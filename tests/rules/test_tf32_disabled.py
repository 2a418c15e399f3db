"""TL507: matrix products in full float32."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL507"

SCRIPT = """
import torch
from torch import nn
{head}

model = nn.Transformer({size}).cuda()
{extra}
for x in data:
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
"""


def script(head: str = "", extra: str = "", size: str = "512") -> str:
    return SCRIPT.format(head=head, extra=extra, size=size)


HIGH = 'torch.set_float32_matmul_precision("high")'

# -- what is left alone -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(HIGH), id="chosen"),
        pytest.param(script("torch.backends.cuda.matmul.allow_tf32 = True"), id="allowed"),
        pytest.param(script("torch.backends.fp32_precision = 'tf32'"), id="allowed, since 2.9"),
        pytest.param(script("set_precision(tf32=args.tf32)"), id="an option of the project"),
        pytest.param(script("from torch import autocast"), id="mixed precision"),
        pytest.param(script(extra="model.half()"), id="half precision"),
        pytest.param(script("dtype = torch.bfloat16"), id="bfloat16"),
        pytest.param(script("from apex import amp"), id="apex"),
        pytest.param(script(extra="model.double()"), id="double precision"),
        pytest.param(script("torch.set_default_dtype(torch.float64)"), id="double by default"),
        pytest.param(script().replace(".cuda()", ""), id="on the CPU"),
        pytest.param(
            script().replace(".cuda()", ".to(where)"), id="the file does not name a GPU"
        ),
        pytest.param(script().partition("for x")[0], id="no training"),
        pytest.param(script().replace("nn.Transformer", "build"), id="the model is elsewhere"),
        pytest.param(
            script().replace("nn.Transformer(512)", "nn.Conv2d(3, 64, 3)"), id="a convolution"
        ),
        pytest.param(
            "def train():\n" + "\n".join("    " + line for line in script().splitlines()),
            id="not a script",
        ),
    ],
)  # fmt: skip
def test_is_silent(source):
    silent(source, CODE)


def test_before_torch_1_12_it_was_on():
    silent(script(), CODE, "1.11")


# -- what is reported -------------------------------------------------------------------------


def test_reports():
    [found] = check(script(), CODE)
    assert (found.location.row, found.severity) == (6, Severity.INFO)
    assert "`nn.Transformer(512)`" in found.message
    assert "from torch 1.12 on" in found.message
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE
    [found] = check(script(), CODE, "2.0")
    assert "from torch" not in found.message


def test_a_script_by_its_main():
    body = "\n".join("    " + line for line in script().splitlines()[5:])
    lines = script().splitlines()[:5]
    source = "\n".join(
        [*lines, "def train():", body, 'if __name__ == "__main__":', "    train()\n"]
    )
    [_] = check(source, CODE)


def test_a_framework_has_its_own_switch():
    [found] = check(script("from transformers import Trainer"), CODE)
    assert found.fix is None
    assert "tf32=True" in found.help


# -- what the fix writes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "after"),
    [
        pytest.param("", f"\n{HIGH}\n", id="below the imports"),
        pytest.param("import os  # paths", f"import os  # paths\n\n{HIGH}", id="the last of them"),
        pytest.param("x = 1\nimport os", f"x = 1\nimport os\n\n{HIGH}", id="after other lines"),
        pytest.param(
            "\ndef f():\n    import os",
            f"\n{HIGH}\n\ndef f():\n    import os",
            id="not of functions",
        ),
    ],
)
def test_fix(head, after):
    if head:
        assert fixed(script(head), CODE) == script(after)
    else:
        assert fixed(script(), CODE) == script().replace("import nn\n", f"import nn\n\n{HIGH}\n")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script().replace("import torch\n", "import torch as t\n"), id="another name"),
        pytest.param(
            script().replace("import torch\n", "") + "import torch\n", id="imported below"
        ),
    ],
)  # fmt: skip
def test_no_fix_without_the_name(source):
    [found] = check(source, CODE)
    assert found.fix is None


def test_never_safe():
    assert fixed(script(), CODE, unsafe=False, settles=False) == script()


# -- TL507b -----------------------------------------------------------------------------------

OFF = "torch.backends.cuda.matmul.allow_tf32 = False"


@pytest.mark.parametrize(
    "line",
    [
        OFF,
        "torch.set_float32_matmul_precision('highest')",
        "torch.backends.cudnn.allow_tf32 = False",
        "torch.backends.cuda.matmul.fp32_precision = 'ieee'",
    ],
)
def test_asked_for(line):
    [found] = check(script(line), CODE)
    assert (found.code, found.severity, found.fix) == ("TL507b", Severity.INFO, None)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(OFF + "  # small differences"), id="a reason beside it"),
        pytest.param(script("\n# small differences\n" + OFF), id="a reason above it"),
        pytest.param(script(f"if exact:\n    {OFF}"), id="under a condition"),
        pytest.param(script(OFF.replace("False", "args.tf32")), id="an option"),
        pytest.param(f"import torch\n{OFF}\nmodel = Net().cuda()\n", id="nothing is trained"),
        pytest.param(script(OFF, extra="scaler = GradScaler()"), id="beside mixed precision"),
        pytest.param(script(f"def test_it():\n    {OFF}"), id="a test"),
    ],
)
def test_asked_for_with_reason(source):
    silent(source, CODE)


# -- TL507c -----------------------------------------------------------------------------------

NEW = "torch.backends.cuda.matmul.fp32_precision = 'tf32'"


@pytest.mark.parametrize(
    "lines",
    [
        f"{NEW}\n{HIGH}",
        f"{HIGH}\n{NEW}",
        f"{NEW}\nprint(torch.get_float32_matmul_precision())",
        f"{NEW}\nprint(torch.backends.cuda.matmul.allow_tf32)",
        "torch.backends.fp32_precision = 'tf32'\ntorch.backends.cudnn.allow_tf32 = True",
        "torch.backends.cudnn.conv.fp32_precision = 'tf32'\ntorch.backends.cudnn.allow_tf32 = True",
    ],
)
def test_mixed(lines):
    [found] = check("import torch\n" + lines + "\n", CODE)
    assert (found.code, found.severity, found.fix) == ("TL507c", Severity.WARNING, None)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(NEW, id="one way"),
        pytest.param(f"{HIGH}\nprint(torch.backends.cuda.matmul.allow_tf32)", id="the old way"),
        pytest.param(
            f"{HIGH}\ntorch.backends.cudnn.conv.fp32_precision = 'tf32'", id="of different things"
        ),
        pytest.param(
            f"if hasattr(torch.backends, 'fp32_precision'):\n    {NEW}\nelse:\n    {HIGH}",
            id="whichever this torch has",
        ),
        pytest.param(
            f"try:\n    {NEW}\nexcept AttributeError:\n    {HIGH}", id="whichever works"
        ),
        pytest.param(f"def a():\n    {NEW}\n\ndef b():\n    {HIGH}", id="in different functions"),
    ],
)  # fmt: skip
def test_not_mixed(lines):
    silent("import torch\n" + lines + "\n", CODE)


@pytest.mark.parametrize(
    ("lines", "raises"),
    [
        (f"{NEW}\nprint(torch.get_float32_matmul_precision())", True),
        (f"{NEW}\nprint(torch.backends.cuda.matmul.allow_tf32)", True),
        (f"{HIGH}\nprint(torch.backends.cuda.matmul.allow_tf32)", False),
    ],
)
def test_torch_refuses_the_mixture(lines, raises):
    """In a process of its own: the switches are the process's."""
    done = subprocess.run(
        [sys.executable, "-c", "import torch\n" + lines],
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode != 0) is raises
    assert ("mix of the legacy and new APIs" in done.stderr) is raises
