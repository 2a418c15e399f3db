"""TL507: matrix products in full float32."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

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
        pytest.param(script("torch.set_float32_matmul_precision(args.how)"), id="an option"),
        pytest.param(script("torch.autocast('cuda').__enter__()"), id="mixed precision"),
        pytest.param(script("s = torch.amp.GradScaler()"), id="a scaler"),
        pytest.param(
            script("from apex import amp", "model, o = amp.initialize(model, o)"), id="apex"
        ),
        pytest.param(script("from accelerate import Accelerator\na = Accelerator("
                            "mixed_precision='bf16')"), id="a framework is told"),
        pytest.param(script(extra="model.half()"), id="half precision"),
        pytest.param(script(extra="model.to(torch.bfloat16)"), id="bfloat16"),
        pytest.param(script(extra="model = nn.DataParallel(model).double()"), id="double"),
        pytest.param(script(size="512, dtype=torch.float16"), id="made in half precision"),
        pytest.param(script("torch.set_default_dtype(torch.float64)"), id="double by default"),
        pytest.param(script().replace(".cuda()", ""), id="on the CPU"),
        pytest.param(script().partition("for x")[0], id="no training"),
        pytest.param(script().replace("nn.Transformer", "build"), id="an unknown model"),
        pytest.param(
            script().replace("nn.Transformer(512)", "nn.Conv2d(3, 64, 3)"), id="a convolution"
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


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("# autocast, float16, tf32"), id="words"),
        pytest.param(script("torch.backends.cudnn.allow_tf32 = False"), id="of convolutions only"),
        pytest.param(script("torch.autocast('cuda', enabled=False)"), id="autocast is off"),
        pytest.param(script("torch.set_default_dtype(torch.float32)"), id="the default type"),
        pytest.param(script("from accelerate import Accelerator\na = Accelerator("
                            "mixed_precision='no')"), id="a framework is told no"),
        pytest.param(script(extra="labels = labels.double()"), id="other tensors are cast"),
        pytest.param(script("q = torch.zeros(2).half()"), id="a tensor in half precision"),
        pytest.param(
            "def train():\n" + textwrap.indent(script(), "    "), id="nobody calls it"
        ),
    ],
)  # fmt: skip
def test_reports_also(source):
    (found,) = check(source, CODE)
    assert found.code == CODE


@pytest.mark.parametrize(
    ("model", "fixes"),
    [
        pytest.param("nn.Linear(1024, 1024)", True, id="large"),
        pytest.param("nn.Linear(512, 512)", False, id="as soon computed as started"),
        pytest.param("nn.Linear(size, 4096)", False, id="unknown"),
        pytest.param("nn.Sequential(nn.Conv2d(3, 64, 3), nn.Linear(64, 10))", False, id="an end"),
        pytest.param("nn.MultiheadAttention(64, 8)", True, id="attention"),
        pytest.param("AutoModelForCausalLM.from_pretrained('gpt2')", True, id="a pretrained one"),
        pytest.param("Net('x @ x')", True, id="the operator"),
        pytest.param("Net('x.bmm(x)')", True, id="a method"),
        pytest.param("Net('torch.einsum(S, x, x)')", True, id="a function"),
    ],
)
def test_fixes_what_is_seen_to_be_large(model, fixes):
    computes = model.split("'")[1] if "Net" in model else "x"
    net = "from transformers import AutoModelForCausalLM\n"
    net += f"class Net(nn.Module):\n    def forward(self, x):\n        return {computes}\n"
    source = script(net).replace("nn.Transformer(512)", model)
    (found,) = check(source, CODE)
    assert (found.fix is not None) is fixes


def test_models_and_settings_of_other_files_are_seen(tmp_path):
    net = "from torch import nn\n\ndef build():\n    return nn.Transformer(512)\n"
    main = "from net import build\n" + script().replace("nn.Transformer(512)", "build()")
    (found,) = check_in(tmp_path, {"net.py": net, "main.py": main}, "net.py", CODE)
    assert found.location.row == 4
    net = f"import torch\n{HIGH}\n{net}"
    for name in ("net.py", "main.py"):
        assert check_in(tmp_path, {"net.py": net, "main.py": main}, name, CODE) == []


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
    expected = script(after) if head else script().replace("nn\n", f"nn\n\n{HIGH}\n", 1)
    assert fixed(script(head), CODE) == expected
    assert fixed(script(head), CODE, unsafe=False, settles=False) == script(head)


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


# -- TL507b -----------------------------------------------------------------------------------

OFF = "torch.backends.cuda.matmul.allow_tf32 = False"


@pytest.mark.parametrize(
    "head",
    [
        OFF,
        f"{OFF}  # small differences",
        "torch.set_float32_matmul_precision('highest')",
        "torch.backends.cuda.matmul.fp32_precision = 'ieee'",
        f"if exact:\n    {OFF}",
    ],
)
def test_asked_for(head):
    [found] = check(script(head), CODE)
    assert (found.code, found.severity, found.fix) == ("TL507b", Severity.INFO, None)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(OFF.replace("False", "args.tf32")), id="an option"),
        pytest.param(
            script("import argparse\np = argparse.ArgumentParser()\n"
                   "p.add_argument('--exact', action='store_true')\n"
                   f"if p.parse_args().exact:\n    {OFF}"),
            id="under an option that is off",
        ),
        pytest.param(script(f"{OFF}\ndef later():\n    {OFF.replace('False', 'True')}"),
                     id="set again"),
        pytest.param(f"import torch\n{OFF}\nmodel = Net().cuda()\n", id="nothing is trained"),
        pytest.param(script(OFF, extra="s = torch.amp.GradScaler()"), id="beside mixed precision"),
    ],
)  # fmt: skip
def test_not_asked_for(source):
    assert "TL507b" not in [one.code for one in check(source, CODE)]
