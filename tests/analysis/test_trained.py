"""Which models a file trains, and what builds them."""

from __future__ import annotations

import pytest
from probing import parsed

from torchlint.analysis.trained import built_by, trained_models
from torchlint.analysis.values import Kind

HEAD = """\
import torch
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(nn.Module):
    pass

"""
PLAIN = "optimizer = optim.SGD(model.parameters(), lr=0.1)"


@pytest.mark.parametrize(
    ("source", "kind", "built"),
    [
        pytest.param("model = Net()", ".Net", "Net()", id="plain"),
        pytest.param("model = Net().to(device).train()", ".Net", "Net()", id="moved"),
        pytest.param("model = Net()\nmodel = model.cuda()", ".Net", "Net()", id="moved later"),
        pytest.param("model = DDP(Net().cuda())", ".Net", "Net()", id="wrapped"),
        pytest.param("model = Net()\nmodel = nn.DataParallel(model)", ".Net", "Net()", id="later"),
        pytest.param("model = DDP(**parts)", "torch.nn.parallel.DistributedDataParallel",
                     "DDP(**parts)", id="wrapped by keywords"),
        pytest.param("model = build(Net)", "", "build(Net)", id="built elsewhere"),
        pytest.param("model = build(Net).eval()", "", "build(Net).eval()", id="then moved"),
        pytest.param("model, x = build()", "", None, id="one of two"),
        pytest.param("def f(model):\n    pass", "", None, id="nobody's"),
        pytest.param("model = models[3]", "", None, id="a member"),
        pytest.param("model = Net()\nmodel = model", ".Net", "Net()", id="itself"),
        pytest.param("while x:\n    model = model", "", None, id="in circles"),
    ],
)  # fmt: skip
def test_what_builds_a_model(source, kind, built):
    program = parsed(f"{source}\n{PLAIN}\n", HEAD)
    (model,) = trained_models(program)
    call = built_by(program, model.node)
    assert (model.value.type, call and program.brief(call)) == (kind, built)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        pytest.param("optim.Adam(a.parameters())", ["a"], id="one"),
        pytest.param("optim.Adam(params=a.parameters())", ["a"], id="by keyword"),
        pytest.param("optim.Adam([*a.parameters(), *b.c.parameters()])", ["a", "b.c"], id="two"),
        pytest.param("optim.Adam([{'params': a.parameters()}, w])", ["a"], id="in groups"),
        pytest.param("optim.Adam(filter(f, a.parameters()))", ["a"], id="some"),
        pytest.param("optim.Adam(weights)", [], id="weights"),
        pytest.param("mine.Adam(a.parameters())", [], id="of others"),
        pytest.param("optim.Adam()", [], id="nothing"),
    ],
)
def test_which_models_are_trained(source, names):
    program = parsed(source, HEAD)
    assert [program.brief(model.node) for model in trained_models(program)] == names


@pytest.mark.parametrize("wraps", ["nn.DataParallel(model)", "DDP(nn.DataParallel(model))"])
def test_a_global_model_that_wraps_itself(wraps: str) -> None:
    program = parsed(
        f"def build():\n    global model\n    model = Net()\n    model = {wraps}\n"
        "    model = model.cuda()\n    optimizer = optim.SGD(model.parameters(), lr=0.1)\n",
        HEAD,
    )
    (model,) = trained_models(program)
    assert model.value.kind is Kind.MODULE
