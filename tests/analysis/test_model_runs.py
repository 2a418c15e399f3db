"""Whether a place may run a model."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed

from torchlint.analysis.model_runs import runs_model

FUNCTIONS = """
import scipy.sparse

class Net(nn.Module):
    def forward(self, x):
        return x

def sparse(data):
    return scipy.sparse.csr_matrix(data.cpu().numpy())

def scores(x):
    return net(x).mean()

class Wrapped:
    @property
    def inner(self):
        return self._inner

    def run(self, x):
        return self.inner(x)

net = Net()
banks = []
weights = torch.rand(4, 4)
"""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("net(x)", id="a module"),
        pytest.param("model(x)", id="an unknown name"),
        pytest.param("self.head(x)", id="an unknown attribute"),
        pytest.param("scores(x)", id="in a function"),
        pytest.param("evaluate(net, x)", id="given away"),
        pytest.param("vae.decode(x)", id="a method that may be a model's"),
        pytest.param("Wrapped().run(x)", id="what a property gives"),
        pytest.param("scipy.run(net)", id="given to a library"),
        pytest.param("torch.vmap(net)(x)", id="what a call gives"),
        pytest.param("(net or model)(x)", id="one of two"),
        pytest.param("self.scaler(x)", id="a scale that is called itself"),
    ],
)
def test_may_run_one(line: str) -> None:
    program = parsed(FUNCTIONS + line, HEAD)
    assert runs_model(program, program.module.body[-1])


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("sparse(weights)", id="a function that computes"),
        pytest.param("torch.mm(weights, weights.t()).max(dim=1)", id="torch"),
        pytest.param("banks[0].mean().cpu().numpy()", id="methods of tensors"),
        pytest.param("getattr(net.parts, 'a').weight.copy_(weights)", id="a copy into weights"),
        pytest.param("results['a'][name].append({'x': 1})", id="results"),
        pytest.param("scipy.sparse.csr_matrix(weights)", id="a library"),
        pytest.param("len(range(9))", id="builtins"),
        pytest.param("u.square().clamp_min(3).softmax(0)", id="methods of what is not known"),
        pytest.param("zip(pair[0].parameters(), self.twin.buffers())", id="parts of models"),
        pytest.param("self.tokenizer.decode(ids)", id="words"),
        pytest.param("scaler.inverse_transform(weights)", id="a scale"),
        pytest.param("self.normalizer.decode(weights)", id="a scale of an object"),
        pytest.param("Net", id="no call"),
    ],
)
def test_runs_none(line: str) -> None:
    program = parsed(FUNCTIONS + line, HEAD)
    assert not runs_model(program, program.module.body[-1])


def test_a_star_import_brings_no_model_by_the_name_of_a_builtin() -> None:
    program = parsed(FUNCTIONS + "print(len(banks))", HEAD + "from nets import *\n")
    assert not runs_model(program, program.module.body[-1])
    program = parsed(FUNCTIONS + "scored(banks)", HEAD + "from nets import *\n")
    assert runs_model(program, program.module.body[-1])


def test_a_recursion_may() -> None:
    program = parsed("def f(x):\n    return f(x)\nf(1)\n", HEAD)
    assert runs_model(program, program.module.body[-1])


BOXES = """
class Boxes:
    def convert(self, mode):
        return Boxes(self.corners.clone(), mode)

    def field(self, name):
        return self.fields[name]

class Masks:
    def convert(self, mode):
        return self.rendered(mode)

class Segmenter(nn.Module):
    def segment(self, x):
        return x
"""


@pytest.mark.parametrize(
    ("lines", "runs"),
    [
        pytest.param("for one in found: one.field('scores').cpu()", False, id="of a class"),
        pytest.param(
            "for one in found: one.convert('xy'); one.field('scores')", False, id="by its others"
        ),
        pytest.param("for one in found: one.convert('xy')", True, id="of one of two"),
        pytest.param("for one in found: one.convert('xy'); one.run(x)", True, id="of neither"),
        pytest.param("for one in found: one.predict('xy')", True, id="that no class has"),
        pytest.param("for one in found: one.segment('xy')", True, id="of a module"),
        pytest.param("for one in found: one.model.field('xy')", True, id="of what it has"),
        pytest.param("for net in nets: net.field('xy')", True, id="of models, by their name"),
        pytest.param("one = make(); one.field('xy')", True, id="of what is no result"),
    ],
)
def test_a_method_that_only_results_have(lines: str, runs: bool) -> None:
    program = parsed(BOXES + lines, HEAD)
    assert runs_model(program, program.module.body[-1]) is runs
