"""What a name must be, by how it is used."""

from __future__ import annotations

import pytest
from probing import parsed, probed


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        pytest.param("x = f()\nprobe(x)\nx.backward()", "TENSOR", id="it is differentiated"),
        pytest.param("x = f()\nprobe(x)\nscaler.scale(x).backward()", "TENSOR", id="scaled"),
        pytest.param("x = f()\nprobe(x)\naccelerator.backward(x)", "TENSOR", id="by a helper"),
        pytest.param("x = f()\nprobe(x)\noptimizer.backward(x)", "TENSOR", id="by an optimizer"),
        pytest.param("optim = f()\nprobe(optim)\noptim.backward(x)", "UNKNOWN", id="which is none"),
        pytest.param("x = f()\nprobe(x)\nscaler.scale().backward()", "UNKNOWN", id="no argument"),
        pytest.param("x = f()\nprobe(x)\nother(x).backward()", "UNKNOWN", id="something else is"),
        pytest.param("x = f()\nx.backward()\nx = g()\nprobe(x)", "UNKNOWN", id="another value is"),
        pytest.param("m = f()\nprobe(m)\nopt(m.parameters())", "MODULE", id="it has parameters"),
        pytest.param(
            "m = f()\nopt(m.parameters())\nm = wrap(m)\nprobe(m)", "MODULE", id="a model stays one"
        ),
        pytest.param("m = f()\nprobe(m)\nsave(m.state_dict())", "UNKNOWN", id="others have states"),
        pytest.param(
            "m = f()\nprobe(m)\nn = f()\nm.load_state_dict(n.state_dict())\nn.parameters()",
            "MODULE",
            id="it gets the parameters of a model",
        ),
        pytest.param(
            "m = f()\nprobe(m)\nn = f()\nm.load_state_dict(n.state_dict())",
            "UNKNOWN",
            id="it gets the state of anything",
        ),
        pytest.param(
            "m = f()\nprobe(m)\nn = f()\nm.load_state_dict(n)\nn.parameters()",
            "UNKNOWN",
            id="it gets a state by its name",
        ),
        pytest.param(
            "class A:\n    def f(self): probe(self.m)\n    def g(self):\n"
            "        self.m.load_state_dict(self.n.state_dict())\n        self.n.parameters()",
            "MODULE",
            id="an attribute gets the parameters of a model",
        ),
        pytest.param("m = f()\nprobe(m)\nm.parameters(1)", "UNKNOWN", id="other parameters"),
        pytest.param("m = None\nprobe(m)\nm.parameters()", "MODULE", id="None at first"),
        pytest.param("x = 1\nprobe(x)\nx.backward()", "NUMBER", id="what is known counts more"),
        pytest.param("a.b = f()\nprobe(a.b)\na.b.backward()", "TENSOR", id="an attribute"),
        pytest.param("a().b = f()\nprobe(a().b)\na().b.backward()", "UNKNOWN", id="of a result"),
        pytest.param(
            "class A:\n    def f(self): probe(self.m)\n    def g(self):\n"
            "        self.m.parameters()",
            "MODULE",
            id="an attribute of self",
        ),
        pytest.param(
            "class A:\n    def f(self): probe(self.m)\nclass B:\n    def g(self):\n"
            "        self.m.parameters()",
            "UNKNOWN",
            id="of another class",
        ),
        pytest.param("def f(x):\n    probe(x)\n    x.backward()", "TENSOR", id="a parameter"),
        pytest.param("x = f()\nprobe(x)\nbackward(x)", "UNKNOWN", id="a plain function"),
        pytest.param("x = f()\nprobe(x)\ny = x.detach()", "TENSOR", id="it is detached"),
        pytest.param(
            "x = f()\nprobe(x)\nif is_tensor(x): x = x.detach()", "UNKNOWN", id="it may be detached"
        ),
        pytest.param(
            "x = f()\nprobe(x)\ny = x.detach() if g(x) else x", "UNKNOWN", id="one side detaches it"
        ),
        pytest.param("x = f()\nprobe(x)\nx.detach(1)", "UNKNOWN", id="another method detach"),
    ],
)
def test_shown_by_use(source: str, kind: str) -> None:
    program = parsed(source)
    assert program.value(probed(program)).kind.name == kind


def test_the_device_is_kept() -> None:
    program = parsed("x = f(y.cuda())\nprobe(x)\nx.backward()")
    value = program.value(probed(program))
    assert (value.kind.name, value.device.name) == ("TENSOR", "CUDA")
