"""TL801: models that one process trains on several GPUs."""

from __future__ import annotations

import pytest
from tools import check, check_in, silent

from torchlint.rule import Severity

CODE = "TL801"
WRAP = "model = nn.DataParallel(model)"


def script(wrap: str = WRAP, head: str = "", step: str = "loss.backward()", run: str = "model"):
    """Return a script that wraps a model and trains it."""
    return (
        f"import torch\nfrom torch import nn\n{head}\nmodel = nn.Linear(4, 2)\n{wrap}\n"
        f"for x in data:\n    loss = {run}(x.cuda()).sum()\n    {step}\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("model = nn.DataParallel(model, device_ids=[0])"), id="one device"),
        pytest.param(script("model = nn.DataParallel(model, (rank,))"), id="a tuple"),
        pytest.param(script("ids = [0]\nmodel = nn.DataParallel(model, ids)"), id="by a name"),
        pytest.param(
            script("ids = {'device_ids': [0]}\nmodel = nn.DataParallel(model, **ids)"),
            id="in a dictionary",
        ),
        pytest.param(
            script("def wrap(net, ids):\n    return nn.DataParallel(net, ids)\n"
                   "model = wrap(model, [0])"),
            id="one device, passed",
        ),
        pytest.param(script(step="print(loss)"), id="nothing trains"),
        pytest.param(script("model = nn.parallel.DistributedDataParallel(model)"), id="DDP"),
        pytest.param(script("wrapped = isinstance(model, nn.DataParallel)"), id="only asked about"),
        pytest.param(script("model = Parallel(model)", head="from geometry import Parallel"),
                     id="another library's"),
        pytest.param(script("both = nn.DataParallel(model)\nboth.cuda()"), id="it is never run"),
        pytest.param(script("teacher = nn.DataParallel(model).eval()\nteacher(x)"), id="a teacher"),
        pytest.param(script("criterion = nn.DataParallel(nn.L1Loss())"), id="no weights"),
        pytest.param(script("nn.DataParallel()"), id="no model"),
        pytest.param(
            script("model = Own(model)", head="class Own(nn.DataParallel):\n"
                   "    def forward(self, x):\n        return self.module(x)\n"),
            id="a class that runs it in its own way",
        ),
    ],
)  # fmt: skip
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(), id="under the same name"),
        pytest.param(script("both = nn.DataParallel(model)", run="both"), id="under another"),
        pytest.param(script("model = nn.DataParallel(model, device_ids=[0, 1])"), id="two devices"),
        pytest.param(script("model = nn.DataParallel(model, ids)"), id="devices are not known"),
        pytest.param(script("pass", run="nn.DataParallel(model)"), id="in each step"),
        pytest.param(script("pass", step="nn.parallel.data_parallel(model, x).backward()"),
                     id="the function"),
        pytest.param(script("model = P(model)", head="from torch.nn import DataParallel as P"),
                     id="imported"),
        pytest.param(
            script("if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)"),
            id="where there are several",
        ),
    ],
)  # fmt: skip
def test_reports(source):
    (found,) = check(source, CODE)
    assert (found.severity, found.fix) == (Severity.WARNING, None)
    assert "to each in every forward pass" in found.message


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("run(nn.DataParallel(model))"), id="who runs it is not known"),
        pytest.param(script("self.net = nn.DataParallel(model)"), id="it is kept"),
        pytest.param(script(head="import lightning"), id="a framework has its own way"),
        pytest.param(script("torch.distributed.init_process_group('nccl')\n" + WRAP),
                     id="it has processes as well"),
        pytest.param(script(head="def old():\n    nn.parallel.DistributedDataParallel(1)\n"),
                     id="it has the other wrapper as well"),
    ],
)  # fmt: skip
def test_advises(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO


def test_a_model_that_another_file_trains(tmp_path):
    files = {
        "net.py": "import torch\nmodel = torch.nn.DataParallel(torch.nn.Linear(1, 1))\n",
        "train.py": "from net import model\nfor x in data:\n    model(x).sum().backward()\n",
    }
    (found,) = check_in(tmp_path, files, "net.py", CODE)
    assert found.severity is Severity.WARNING
    files["train.py"] = files["train.py"].replace(".backward()", "")
    assert check_in(tmp_path, files, "net.py", CODE) == []
