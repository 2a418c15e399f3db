"""What a file says about the devices it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest
from probing import parsed_in

from torchlint.analysis.program import Program
from torchlint.analysis.values import Device

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "import torch\nfrom torch import nn\n"


def parsed(source: str) -> Program:
    return Program(HEAD + source)


@pytest.mark.parametrize(
    ("source", "evidence"),
    [
        pytest.param("x = torch.ones(3)", "CPU", id="nothing speaks of a GPU"),
        pytest.param("model.to('cpu')", "CPU", id="the CPU only"),
        pytest.param("device = torch.device('cpu')", "CPU", id="torch.device CPU"),
        pytest.param("model.to(torch.float16)", "CPU", id="a dtype"),
        pytest.param("model.to('mps')", "CPU", id="MPS"),
        pytest.param(
            "device = 'mps' if torch.backends.mps.is_available() else 'cpu'\nmodel.to(device)",
            "CPU",
            id="MPS where there is it",
        ),
        pytest.param(
            "device = torch.device('mps' if c else 'cpu')\nmodel.to(device)",
            "CPU",
            id="a device",
        ),
        pytest.param("model.cuda()", "CUDA", id=".cuda()"),
        pytest.param("model.to('cuda:1')", "CUDA", id="a literal"),
        pytest.param("torch.ones(3, device='cuda')", "CUDA", id="a literal by keyword"),
        pytest.param("torch.load(f, map_location='cuda')", "CUDA", id="a place to load to"),
        pytest.param("device = torch.device('cuda')", "CUDA", id="a CUDA device"),
        pytest.param("device = torch.device('cuda', 0)", "CUDA", id="a device with its number"),
        pytest.param("torch.cuda.manual_seed(0)", "MAYBE", id="a call of torch.cuda"),
        pytest.param("d = torch.accelerator.current_accelerator()", "MAYBE", id="an accelerator"),
        pytest.param(
            "d = 'cuda' if torch.cuda.is_available() else 'cpu'\nmodel.to(d)",
            "MAYBE",
            id="CUDA where there is it",
        ),
        pytest.param(
            "d = 'cpu'\nif c:\n    d = 'cuda'\nmodel.to(d)", "MAYBE", id="one of two strings"
        ),
        pytest.param("def f(device):\n    model.to(device)", "MAYBE", id="a parameter"),
        pytest.param("model.to(args.device)", "MAYBE", id="an option"),
        pytest.param("x = f(accelerator.device)", "MAYBE", id="a framework's device"),
        pytest.param(
            "import deepspeed\nengine, *_ = deepspeed.initialize(model=net)",
            "MAYBE",
            id="an engine",
        ),
        pytest.param(
            "from deepspeed import get_accelerator as get\nd = torch.device(get().device_name())",
            "MAYBE",
            id="DeepSpeed's accelerator",
        ),
        pytest.param("engine = thing.initialize(model=net)", "CPU", id="another's engine"),
        pytest.param("d = get_accelerator()", "CPU", id="another's accelerator"),
        pytest.param("available = torch.cuda.is_available", "MAYBE", id="not called"),
        pytest.param("name = thing.device", "CPU", id="somebody's device"),
    ],
)
def test_evidence(source, evidence):
    devices = parsed(source).devices
    assert devices.evidence is Device[evidence]
    assert devices.gpu is (evidence != "CPU")


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("model.to(device)", False),
        ("model.to('cpu')", False),
        ("print('cudart')", False),
        ("model.cuda()", True),
        ("parser.add_argument('--device', default='cuda')", True),
        ("torch.backends.cudnn.benchmark = True", True),
        ("model.to(accelerator.device)", True),
    ],
)
def test_whether_the_file_itself_names_a_gpu(source, named):
    assert parsed(source).devices.named is named


@pytest.mark.parametrize(
    ("source", "device"),
    [
        pytest.param("d = 'cuda'", "CUDA", id="a literal"),
        pytest.param("d = f'cuda:{rank}'", "CUDA", id="a formatted string"),
        pytest.param("d = 'cpu'", "CPU", id="the CPU"),
        pytest.param("d = 'cuda' if c else 'cpu'", "MAYBE", id="one of two"),
        pytest.param("d = 'cuda' if c else 'mps' if b else 'cpu'", "MAYBE", id="one of three"),
        pytest.param("d = 'cpu' if backend == 'gloo' else 'cuda'", "CPU", id="of its processes"),
        pytest.param("d = 'mps' if c else 'cpu'", "OTHER", id="no CUDA among them"),
        pytest.param("d = 'cpu'\nif c:\n    d = 'cuda'", "MAYBE", id="on some paths"),
        pytest.param("e = 'cuda'\nd = e", "CUDA", id="another name"),
        pytest.param("d, e = 'cuda', 1", "UNKNOWN", id="unpacked"),
        pytest.param("d = name()", "UNKNOWN", id="a call"),
        pytest.param("d = d", "UNKNOWN", id="itself"),
        pytest.param("", "UNKNOWN", id="not bound"),
    ],
)
def test_a_device_that_strings_name(source, device):
    program = parsed(f"{source}\nuse(d)")
    use = program.index.of(cst.Call)[-1]
    assert program.devices.of_string(use.args[0].value) is Device[device]


@pytest.mark.parametrize(
    ("moves", "extends", "gpu"),
    [
        pytest.param("model.cuda()", "Base", True, id="a base that moves its model"),
        pytest.param("model", "Base", False, id="a base that moves nothing"),
        pytest.param("model.cuda()", "object", False, id="no heir"),
    ],
)
def test_what_a_base_of_another_file_does(
    tmp_path: Path, moves: str, extends: str, gpu: bool
) -> None:
    base = f"class Base:\n    def __init__(self, model):\n        self.model = {moves}\n"
    heir = f"from base import Base\nclass Trainer({extends}): pass\n"
    program = parsed_in(tmp_path, {"base.py": base, "trainer.py": heir}, "trainer.py")
    assert program.devices.gpu is gpu


def test_what_another_heir_of_the_same_base_does(tmp_path: Path) -> None:
    files = {
        "base.py": "class Base:\n    def keep(self, model):\n        self.model = model\n",
        "quick.py": (
            "from base import Base\nclass Quick(Base):\n"
            "    def keep(self, model):\n        self.model = model.cuda()\n"
        ),
        "plain.py": "from base import Base\nclass Plain(Base): pass\n",
    }
    assert parsed_in(tmp_path, files, "base.py").devices.gpu
    assert not parsed_in(tmp_path, files, "plain.py").devices.gpu
