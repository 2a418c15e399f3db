"""TL701: convolutions for which cuDNN may not try its algorithms."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL701"
SWITCH = "torch.backends.cudnn.benchmark"
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
"""
DATA = "data = datasets.MNIST('data', transform=transforms.ToTensor())"


def script(
    head: str = "", data: str = DATA, model: str = "Net().cuda()", net: str = NET, step: str = ""
) -> str:
    """Return a script that trains a model of convolutions on images of one size."""
    parts = ["import timm", "import torch", "import torchvision", "from torch import nn"]
    parts += ["from torchvision import datasets, transforms", "", net, head, data]
    parts += ["loader = torch.utils.data.DataLoader(data, 64, shuffle=True)"]
    parts += [f"model = {model}", "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"]
    parts += ["for x, y in loader:", "    loss = criterion(model(x.cuda()), y.cuda())"]
    parts += ["    loss.backward()", "    optimizer.step()", textwrap.indent(step, "    ")]
    return "\n".join(parts) + "\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(f"{SWITCH} = True"), id="on"),
        pytest.param(
            script(f"def setup():\n    {SWITCH} = True"), id="on in a function that others call"
        ),
        pytest.param(script(f"{SWITCH} = args.benchmark"), id="an option decides"),
        pytest.param(script("cudnn = torch.backends.cudnn\ncudnn.benchmark = True"), id="alias"),
        pytest.param(
            script(f"torch.backends.cudnn.enabled, {SWITCH} = True, True"), id="beside another"
        ),
        pytest.param(script("torch.use_deterministic_algorithms(True)"), id="deterministic"),
        pytest.param(
            script(f"{SWITCH} = False\ntorch.backends.cudnn.deterministic = True"),
            id="off and deterministic",
        ),
        pytest.param(script(net=NET.replace("Conv2d", "Linear")), id="no convolution"),
        pytest.param(script(model="mine.Net().cuda()"), id="an unknown model"),
        pytest.param(script(model="torchvision.models.vit_b_16().cuda()"), id="a transformer"),
        pytest.param(script(model="timm.create_model(args.model).cuda()"), id="of any kind"),
        pytest.param(script(model="timm.create_model('vit_tiny').cuda()"), id="a transformer too"),
        pytest.param(script().replace(".cuda()", ""), id="for the CPU"),
        pytest.param(
            script().replace("    loss.backward()\n    optimizer.step()\n", ""), id="no training"
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script().replace("64, shuffle", "1, shuffle"), id="one sample a batch"),
        pytest.param(script().replace("64, shuffle=True", "64, collate_fn=pad"), id="a collate_fn"),
        pytest.param(script().replace("in loader", "in mine.batches()"), id="unknown batches"),
        pytest.param(script(f"{SWITCH} = False"), id="off"),
        pytest.param(script(f"if args.x:\n    {SWITCH} = False"), id="off on request"),
        pytest.param(script("import accelerate"), id="a framework"),
    ],
)
def test_advises_without_a_fix(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix is None


def test_one_finding_for_each_training_step():
    several = script("other = Net().cuda()", step="criterion(other(x.cuda()), y).backward()")
    assert len(check(several, CODE)) == 1
    assert len(check(script(f"def unused():\n    {SWITCH} = False"), CODE)) == 1


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(), id="MNIST"),
        pytest.param(script(data="data = torchvision.datasets.CIFAR100('data')"), id="CIFAR"),
        pytest.param(
            script(data="data = torch.utils.data.TensorDataset(x, y)"), id="tensors of one size"
        ),
        pytest.param(script(data="data = Images()"), id="samples that are stacked"),
        pytest.param(script(net=NET.replace("Conv2d", "Conv1d")), id="in one dimension"),
        pytest.param(script(model="torchvision.models.resnet18().cuda()"), id="torchvision's"),
        pytest.param(script(model="timm.create_model('efficientnet_b0').cuda()"), id="timm's"),
        pytest.param(script(model="nn.DataParallel(Net()).cuda()"), id="wrapped"),
        pytest.param(
            script(model="nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten()).cuda()", net=""),
            id="without a class",
        ),
        pytest.param(
            script(net=NET + "        self.more = nn.Conv2d(8, 8, 1), Attention(8)"),
            id="convolutions and attention",
        ),
        pytest.param(script("torch.manual_seed(0)"), id="a seed alone"),
        pytest.param(script("def set_seed():\n    torch.manual_seed(0)\nset_seed()"), id="its own"),
        pytest.param(
            script()
            .replace("for x", "if __name__ == '__main__':\n  for x")
            .replace("    ", "    "),
            id="a main block",
        ),
    ],
)
def test_reports(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


def test_no_fix_where_torch_has_no_name():
    source = script().replace("import torch\n", "from torch import optim, utils\n")
    source = source.replace("torch.optim", "optim").replace("torch.utils", "utils")
    (found,) = check(source, CODE)
    assert found.fix is None


def test_the_switch_goes_below_the_imports():
    line = f"\n{SWITCH} = True\n"
    imports, after, rest = script().partition("import datasets, transforms\n")
    assert fixed(script(), CODE) == imports + after + line + rest


HELPER = "import torch\n\ndef set_seed(n):\n    torch.manual_seed(n)\n"


@pytest.mark.parametrize(
    ("net", "seed", "count"),
    [
        (NET, HELPER, 1),
        (NET, f"{HELPER}    torch.backends.cudnn.deterministic = True\n", 0),
        (NET.replace("Conv2d", "Linear"), HELPER, 0),
    ],
)
def test_models_and_seeds_of_other_files_are_seen(tmp_path, net, seed, count):
    files = {
        "net.py": f"from torch import nn\n\n{net}",
        "seed.py": seed,
        "main.py": "from net import Net\nfrom seed import set_seed\n"
        + script("set_seed(0)", net=""),
    }
    found = check_in(tmp_path, files, "main.py", CODE)
    assert len(found) == count


def test_another_script_that_imports_the_same_says_nothing_of_this_one(tmp_path):
    main = "from net import Net\n" + script(net="")
    other = "import torch\nfrom net import Net\ntorch.backends.cudnn.benchmark = True\n"
    files = {"net.py": f"from torch import nn\n\n{NET}", "main.py": main, "other.py": other}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == 1
    starts = other.replace("from net import Net", "import main")
    assert not check_in(tmp_path, files | {"other.py": starts}, "main.py", CODE)


def test_the_fix_comes_below_the_star_import_that_brings_torch(tmp_path) -> None:
    head, imports = "from common import *\n", "import timm\nimport torch\n"
    source = script().replace(imports, "import timm\n" + head)
    files = {"common.py": "import torch\n", "main.py": source}
    (found,) = check_in(tmp_path, files, "main.py", CODE)
    assert found.fix is not None
