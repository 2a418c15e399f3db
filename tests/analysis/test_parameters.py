"""Whether a module has parameters."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed, probed

from torchlint.analysis.parameters import has_parameters

CLASSES = """
import timm, torchaudio

class Mel(nn.Module):
    def __init__(self, size=80, top=8000.0, log=True):
        super().__init__()
        self.register_buffer("basis", make_basis(size))
        self.size, self.shapes = size, (3, 4)
        self.hop = size * 4
        self.top = top
        self.log = log
        self.shapes = [1, 2]
        self.pad = nn.ReflectionPad1d(3)
        self.steps = 0
        self.scale = torchaudio.transforms.MelScale()
    def forward(self, x):
        self.steps += 1
        return x
class Net(nn.Module):
    def __init__(self):
        self.mel = Mel()
        self.fc = nn.Linear(3, 3)
class Child(Net):
    pass
class Scale(nn.Module):
    def __init__(self):
        self.scale = nn.Parameter(torch.ones(1))
class Added(nn.Module):
    def __init__(self, parts):
        self.add_module("part", parts[0])
class Loaded(nn.Module):
    def __init__(self):
        self.net = timm.create_model("vit")
class Wrapped(nn.Module):
    def __init__(self, net):
        self.net = net
class Perhaps(nn.Module):
    def __init__(self, net=None):
        self.net = net
class Listed(nn.Module):
    def __init__(self, net):
        self.nets = [net]
class Other(timm.Base, nn.Module):
    pass
class Both(Loaded):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
class Deep(nn.Module):
    def __init__(self):
        self.inner = Deep()
"""


@pytest.mark.parametrize(
    ("made", "answer"),
    [
        pytest.param("nn.Upsample(scale_factor=2)", False, id="a layer without"),
        pytest.param("nn.Linear(3, 3)", True, id="a layer"),
        pytest.param("nn.LSTM(3, 3)", True, id="a layer with many"),
        pytest.param("nn.Sequential(nn.ReLU(), nn.Flatten())", False, id="layers without"),
        pytest.param("nn.Sequential(nn.ReLU(), nn.Linear(3, 3))", True, id="one of several layers"),
        pytest.param("nn.Sequential(*list(net.children())[:3])", True, id="layers of a model"),
        pytest.param("Mel()", False, id="a class with buffers and numbers"),
        pytest.param("Net()", True, id="a class with a layer"),
        pytest.param("Child()", True, id="a class with a layer of its base"),
        pytest.param("Scale()", True, id="a class with a parameter"),
        pytest.param("Added(x)", True, id="a class that adds a part"),
        pytest.param("Both()", True, id="a class with a layer beside what is not seen"),
        pytest.param("Loaded()", None, id="a class with what a library makes"),
        pytest.param("Wrapped(x)", None, id="a class with what it is given"),
        pytest.param("Perhaps(x)", None, id="a class with what it may be given"),
        pytest.param("Listed(x)", None, id="a class with a list of what it is given"),
        pytest.param("Other()", None, id="a class with a base that is not seen"),
        pytest.param("Deep()", None, id="a class in itself"),
        pytest.param("unknown()", None, id="something"),
    ],
)
def test_has_parameters(made: str, answer: bool | None) -> None:
    program = parsed(f"{CLASSES}\nmodel = {made}\nprobe(model)\n", HEAD)
    assert has_parameters(program, program.value(probed(program))) is answer
