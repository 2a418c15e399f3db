"""What is on the host by the lines around it, whatever the rest of the file does."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed, probed

CLASSES = """
class Net(nn.Module):
    def forward(self, x):
        return x * self.weight
class Placed(nn.Module):
    def __init__(self):
        self.net = Net().cuda()
other = Net().cuda()
def test(classes, device):
    for model_class in classes:
"""


@pytest.mark.parametrize(
    ("lines", "device"),
    [
        pytest.param("model = Net()", "CPU", id="made here"),
        pytest.param("model = model_class(config=1)", "CPU", id="of one of some classes"),
        pytest.param("model = Net(); y = model(y); model.eval()", "CPU", id="used"),
        pytest.param("model = Net(); model.to(device)", "UNKNOWN", id="moved"),
        pytest.param("model = Net(); model.cuda()", "UNKNOWN", id="moved to a GPU"),
        pytest.param("model = Net(); prepare(model)", "UNKNOWN", id="handed on"),
        pytest.param("model = Net(); models = [model]", "UNKNOWN", id="kept"),
        pytest.param("model = make_model()", "UNKNOWN", id="of a function, which may move it"),
        pytest.param("model = Placed()", "UNKNOWN", id="it puts its parts on a GPU"),
        pytest.param("model = other", "CUDA", id="another model"),
    ],
)
def test_a_model_that_its_function_makes(lines: str, device: str) -> None:
    source = CLASSES + f"        {lines}\n        for p in model.parameters(): probe(p)\n"
    program = parsed(source, HEAD)
    assert program.value(probed(program)).device.name == device


def test_a_default_device_is_where_models_are_made() -> None:
    source = CLASSES + "        model = Net()\n        for p in model.parameters(): probe(p)\n"
    program = parsed(source + "torch.set_default_device('cuda')\n", HEAD)
    assert program.value(probed(program)).device.name == "UNKNOWN"


@pytest.mark.parametrize(
    ("lines", "device"),
    [
        pytest.param("if cfg.NUM_GPUS:\n    x = x.cpu()", "CPU", id="where there are GPUs"),
        pytest.param("if cfg.gpus > 0:\n    x = x.detach().cpu()", "CPU", id="detached"),
        pytest.param("if cfg.keep:\n    x = x.cpu()", "MAYBE", id="where something else holds"),
        pytest.param("if cfg.cuda:\n    pass\nelse:\n    x = x.cpu()", "MAYBE", id="where not"),
        pytest.param("if cfg.NUM_GPUS:\n    x = y.cpu()", "MAYBE", id="another tensor"),
        pytest.param("if not cfg.NUM_GPUS:\n    x = x.cpu()", "MAYBE", id="where there is none"),
    ],
)
def test_a_copy_where_gpus_are_used(lines: str, device: str) -> None:
    program = parsed(f"x = torch.ones(3).to(device)\n{lines}\nprobe(x)", HEAD)
    assert program.value(probed(program)).device.name == device


SCORED = """
def score(net, x):
    return net(x).pow(2).mean()
def moved(net, x):
    return net.to(device)(x).mean()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def train(teacher):
    net = {made}
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(999):
        x = teacher.sample(128)
        loss = {loss}
        loss.backward()
        optimizer.step()
        print(loss.item())
    show(net)
def show(net):
    return net(torch.zeros(3).to(device))
"""
LAYERS = "nn.Sequential(nn.Linear(2, 8), nn.Linear(8, 2))"


@pytest.mark.parametrize(
    ("made", "loss", "count"),
    [
        pytest.param(LAYERS, "score(net, x)", 0, id="layers that nothing moves"),
        pytest.param(LAYERS, "moved(net, x)", 1, id="a function moves them"),
        pytest.param(LAYERS, "unseen(net, x)", 1, id="who knows what a function does"),
        pytest.param(f"{LAYERS}.to(device)", "score(net, x)", 1, id="moved"),
        pytest.param(LAYERS, "score(teacher, x)", 1, id="another model"),
    ],
)
def test_what_a_function_computes_with_layers_of_the_host(made: str, loss: str, count: int) -> None:
    program = parsed(SCORED.replace("{made}", made).replace("{loss}", loss), HEAD)
    assert len(program.syncs) == count


@pytest.mark.parametrize(
    ("made", "device"),
    [
        pytest.param("from warpctc_pytorch import CTCLoss", "CPU", id="a sum on the host"),
        pytest.param("from torch.nn import CTCLoss", "UNKNOWN", id="where the inputs are"),
        pytest.param("from losses import CTCLoss", "UNKNOWN", id="another"),
    ],
)
def test_a_loss_of_a_compiled_library(made: str, device: str) -> None:
    source = f"{made}\ncriterion = CTCLoss()\nloss = criterion(model(x), y)\nprobe(loss)\n"
    program = parsed(source, HEAD)
    assert program.value(probed(program)).device.name == device
