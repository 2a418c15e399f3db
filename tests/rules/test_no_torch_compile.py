"""TL705: models that are trained without a compiler."""

from __future__ import annotations

import textwrap

import pytest
import torch
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL705"
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)
"""
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
TRANSFORMERS = "from transformers import Trainer, TrainingArguments\n"
ACCELERATE = "from accelerate import Accelerator\na = Accelerator()\n"
LOOP = """\
for x, y in loader:
    loss = criterion(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def script(
    model: str = "model = Net().cuda()",
    head: str = "",
    net: str = NET,
    optimizer: str = OPTIMIZER,
    loop: str = LOOP,
) -> str:
    """Return a script that trains a model on a GPU."""
    imports = ["import timm", "import torch", "from torch import nn"]
    return "\n".join([*imports, head, net, model, optimizer, loop])


def with_forward(line: str) -> str:
    """Return the class with a line more in its forward pass."""
    return NET.replace("        return self", f"        {line}\n        return self")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("model = torch.compile(Net().cuda())"), id="compiled"),
        pytest.param(script("model = Net().cuda()\nmodel.compile()"), id="compiled in place"),
        pytest.param(
            script("model = Net().cuda()\nif f():\n    model = torch.compile(model)"),
            id="perhaps compiled",
        ),
        pytest.param(
            script(net=NET.replace("    def forward", "    @torch.compile\n    def forward")),
            id="its forward pass is compiled",
        ),
        pytest.param(script("model = torch.jit.script(Net().cuda())"), id="TorchScript"),
        pytest.param(script(head="import torch_xla", loop=LOOP + "    torch_xla.sync()"),
                     id="XLA"),
        pytest.param(script().replace(".cuda()", ""), id="for the CPU"),
        pytest.param(script().replace(".cuda()", ".to('cpu')"), id="moved to the CPU"),
        pytest.param(
            script(head="torch.cuda.manual_seed(0)").replace(").cuda()", ")")
            .replace("x.cuda()", "x").replace("y.cuda()", "y"),
            id="a GPU is named, not used",
        ),
        pytest.param(script("model = build(Net)"), id="nothing is known of it"),
        pytest.param(script("model = nn.Linear(8, 1).cuda()"), id="one layer"),
        pytest.param(
            script(net=NET.replace("forward", "loss"), loop=LOOP.replace("model(", "model.loss(")),
            id="called by a method",
        ),
        pytest.param(script(loop=LOOP.replace("backward()", "backward(create_graph=True)")),
                     id="second derivatives"),
        pytest.param(script("model = nn.DataParallel(Net()).cuda()"), id="replicated"),
        pytest.param(script(loop=LOOP.replace("    loss.backward()\n    optimizer.step()\n", "")),
                     id="no training"),
        pytest.param(
            f"{TRANSFORMERS}Trainer(m, TrainingArguments('out', torch_compile=True)).train()\n",
            id="a framework's switch is on",
        ),
        pytest.param(f"{TRANSFORMERS}Trainer(m, TrainingArguments(**options)).train()\n",
                     id="a framework's switch may be on"),
        pytest.param(f"{TRANSFORMERS}Trainer(m, TrainingArguments('out')).predict(data)\n",
                     id="a framework that is not seen to train"),
        pytest.param(
            f"from accelerate import Accelerator\nAccelerator(cpu=True)\n{OPTIMIZER}\n{LOOP}",
            id="a framework on the CPU",
        ),
    ],
)  # fmt: skip
def test_is_silent(source):
    silent(source, CODE)


def test_is_silent_for_a_torch_without_a_compiler():
    silent(script(), CODE, target="1.13")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(), id="a class of the file"),
        pytest.param(script("model = timm.create_model('vit').cuda()"), id="timm's"),
        pytest.param(script(head="# compile, dynamo, LSTM\npad_idx, use_compile = 0, True"),
                     id="words"),
        pytest.param(script(head="import re\nword = re.compile('x')"), id="another compile"),
        pytest.param(
            script(net=NET.replace("nn.Module", "Base"), head="class Base(nn.Module):\n    pass"),
            id="of two classes",
        ),
        pytest.param(script(loop=LOOP + "    print(loss.item())"), id="read outside of the model"),
        pytest.param(script("model = Net().cuda()\nother = Net()\nother.compile()"),
                     id="another model is compiled"),
    ],
)  # fmt: skip
def test_reports(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize("target", ["2.0", "2.1"])
def test_no_fix_for_a_torch_that_may_not_have_the_method(target):
    (found,) = check(script(), CODE, target=target)
    assert found.fix is None


OPTION = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--{name}", action="store_{default}")
args = parser.parse_args()
"""
CHOSEN = "model = Net().cuda()\nif args.{name}:\n    model.compile()"


@pytest.mark.parametrize("name", ["use_compile", "fast"])
@pytest.mark.parametrize(("default", "count"), [("true", 1), ("false", 0)])
def test_options_are_judged_by_their_defaults(name, default, count):
    head = OPTION.format(name=name, default=default)
    found = check(script(CHOSEN.format(name=name), head), CODE)
    assert [(one.fix, "An option" in one.help) for one in found] == [(None, True)] * count


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("model = nn.Sequential(nn.Linear(8, 1)).cuda()"), id="torch's forward"),
        pytest.param(
            script("model = Net().cuda()\nother = Net().cuda()",
                   loop=LOOP.replace("model(x.cuda())", "other(model(x.cuda()))")),
            id="two models",
        ),
        pytest.param(script("model = Net().cuda() if fresh else load()"), id="perhaps another"),
        pytest.param(script(net=NET + "\n    def compile(self): pass\n"), id="its own method"),
        pytest.param(script(net=with_forward("n = x.sum().item()")), id="a value is read"),
        pytest.param(script(net=with_forward("x = x[x.nonzero()]")), id="shapes of values"),
        pytest.param(script(net=NET.replace("nn.GELU()", "nn.LSTM(8, 8)")), id="recurrent"),
        pytest.param(script(head="graph = torch.eye(3).to_sparse()"), id="sparse"),
        pytest.param(script(head="import lightning"), id="a framework"),
        pytest.param(
            script(model="", optimizer="", loop="")
            + "def train(model: Net, loader):\n"
            + textwrap.indent(f"{OPTIMIZER}\n{LOOP}", "    ")
            + "\nif __name__ == '__main__':\n    train(Net().cuda(), data)\n",
            id="a parameter",
        ),
    ],
)  # fmt: skip
def test_reports_without_a_fix(source):
    (found,) = check(source, CODE)
    assert found.fix is None


@pytest.mark.parametrize(
    ("source", "switch"),
    [
        (f"{TRANSFORMERS}Trainer(model, TrainingArguments('out')).train()\n", "torch_compile=True"),
        (
            f"{ACCELERATE}{OPTIMIZER}\n{LOOP.replace('loss.backward()', 'a.backward(loss)')}",
            'dynamo_backend="inductor"',
        ),
    ],
)
def test_a_framework_has_its_own_switch(source, switch):
    (found,) = check(source, CODE)
    assert switch in found.message
    assert (found.fix, found.severity) == (None, Severity.INFO)


DDP = "torch.nn.parallel.DistributedDataParallel"


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("model = Net().cuda()@", id="moved"),
        pytest.param("model = load()\nmodel = Net().cuda()@", id="once another"),
        pytest.param("model = Net()@\nmodel.cuda()  # move", id="moved in place"),
        pytest.param("model = Net()@\nmodel = model.cuda()\nlog(model)", id="bound again"),
        pytest.param(f"model = Net().cuda()@\nmodel = {DDP}(model)", id="before it is wrapped"),
        pytest.param(f"model = Net().cuda()@\nif many:\n    model = {DDP}(model)",
                     id="before it is perhaps wrapped"),
        pytest.param(f"model = Net().cuda()@\nwrapped = {DDP}(model)", id="by another name"),
        pytest.param("model = Net().cuda()@\nmodel.load_state_dict(state)\nmodel.train()",
                     id="before its weights are loaded"),
    ],
)  # fmt: skip
def test_fixes(model):
    before, after = (script(model.replace("@", line)) for line in ("", "\nmodel.compile()"))
    assert fixed(before, CODE) == after


@pytest.mark.parametrize(
    ("model", "condition"),
    [
        ("model = Net()@\nif gpu:\n    model.cuda()", "torch.cuda.is_available()"),
        ("d = torch.device('cuda' if f() else 'cpu')\nmodel = Net().to(d)@", 'd.type == "cuda"'),
        ("model = Net().to('cuda' if f() else 'cpu')@", "torch.cuda.is_available()"),
    ],
)  # fmt: skip
def test_the_fix_asks_for_the_gpu(model, condition):
    line = f"\nif {condition}:\n    model.compile()"
    before, after = (script(model.replace("@", each)) for each in ("", line))
    assert fixed(before, CODE) == after


def test_a_script_with_functions():
    train = f"def train(model, loader, optimizer):\n{textwrap.indent(LOOP, '    ')}\n"
    main = "def main():\n    model = Net().cuda()\n{}    " + OPTIMIZER + "\n"
    main += "    for epoch in range(3):\n        train(model, loader, optimizer)\n"
    main += "        model.train()\n"
    rest = main + "\nif __name__ == '__main__':\n    main()\n"
    head = script(model="", optimizer="", loop="") + train
    assert fixed(head + rest.format(""), CODE) == head + rest.format("    model.compile()\n")


def test_each_model_of_a_loop_is_compiled():
    body = textwrap.indent(f"{OPTIMIZER}\n{LOOP}", "    ")
    loop = "for fold in folds:\n    model = Net().cuda()\n{}" + body
    before, after = (loop.format(line) for line in ("", "    model.compile()\n"))
    head = script(model="", optimizer="", loop="")
    assert fixed(head + before, CODE) == head + after


@pytest.mark.parametrize("move", ["cuda()", 'to("cuda" if torch.cuda.is_available() else "cpu")'])
def test_a_compiled_model_trains_as_before_and_only_on_a_gpu(move, monkeypatch):
    compile_with = torch.nn.Module.compile
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(
        torch.nn.Module, "compile", lambda model: compile_with(model, backend=backend)
    )
    data = "loader = [(torch.ones(2, 8) * i, torch.ones(2, 1)) for i in range(3)]"
    head = f"{data}\ncriterion = nn.MSELoss()\ntorch.manual_seed(0)"
    before = script(head=head).replace("import timm\n", "").replace("cuda()", move)
    results = []
    for source in (before, fixed(before, CODE)):
        space: dict[str, object] = {}
        exec(source.replace(".cuda()", ""), space)  # noqa: S102 - the point of the test
        results.append(space["model"].state_dict())
    assert len(graphs) == (1 if move == "cuda()" else 0)
    torch.testing.assert_close(results[0], results[1])


def test_in_place_torch_compiles_no_model_whose_forward_pass_is_its_own():
    graphs = []
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())
    model.compile(backend=lambda graph, _: graphs.append(graph) or graph.forward)
    model(torch.ones(1, 2))
    assert graphs == []
