"""TL705: models that are trained without a compiler."""

from __future__ import annotations

import textwrap

import pytest
import torch
from tools import check, check_in, fixed, silent

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


def counting(line: str) -> str:
    """Return the class with a number, and a line more in its forward pass."""
    return with_forward(line).replace(
        "        self.layers", "        self.calls = 0\n        self.layers", 1
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("model = torch.compile(Net().cuda())"), id="compiled"),
        pytest.param(script(head="from torch._six import inf"), id="for torch 1"),
        pytest.param(script("model = Net().cuda()\nmodel.compile()"), id="compiled in place"),
        pytest.param(
            script("model = Net().cuda()\nif args.compile:\n    model = f(model)"), id="an option"
        ),
        pytest.param(script("model = torch.jit.script(Net().cuda())"), id="TorchScript"),
        pytest.param(script(head="import torch_xla"), id="XLA"),
        pytest.param(script().replace(".cuda()", ""), id="for the CPU"),
        pytest.param(script("model = mine.Net().cuda()"), id="an unknown model"),
        pytest.param(script("model = build(Net).cuda()"), id="built by somebody"),
        pytest.param(script("model = Net().cuda() if fresh else load()"), id="perhaps another"),
        pytest.param(
            script(net=NET.replace("(nn.Module)", "(mine.Module)")), id="a class of another library"
        ),
        pytest.param(script(net=NET + "    def compile(self): pass\n"), id="its own method"),
        pytest.param(
            script(net=NET.replace("forward", "loss"), loop=LOOP.replace("model(", "model.loss(")),
            id="called by a method",
        ),
        pytest.param(script(loop="evaluate(model)\n" + LOOP.replace("model(", "other(")),
                     id="another is called"),
        pytest.param(script(net=with_forward("n = x.sum().item()")), id="a value is read"),
        pytest.param(script(net=with_forward("x = x[x.nonzero()]")), id="shapes of values"),
        pytest.param(script(net=counting("self.calls += 1")), id="compiled anew for each number"),
        pytest.param(
            script(net=counting("self.calls = self.calls + 1")), id="a number, spelled out"
        ),
        pytest.param(script(net=NET.replace("nn.GELU()", "nn.LSTM(8, 8)")), id="recurrent"),
        pytest.param(script(loop=LOOP.replace("backward()", "backward(create_graph=True)")),
                     id="second derivatives"),
        pytest.param(script(head="class F(torch.autograd.Function):\n    pass\n"),
                     id="a backward pass by hand"),
        pytest.param(script("model = nn.DataParallel(Net()).cuda()"), id="replicated"),
        pytest.param(script("model = Net().cuda()\nmodel.register_forward_hook(see)"), id="a hook"),
        pytest.param(script(head="import triton"), id="other kernels"),
        pytest.param(
            script(head="loader = torch.utils.data.DataLoader(data, collate_fn=pad)"),
            id="shapes may change",
        ),
        pytest.param(script(head="batch = tokenizer(texts, padding=True)"), id="padded"),
        pytest.param(script(head="from torchtext.data import Field"), id="texts"),
        pytest.param(script(head="loader = BucketIterator(data, 64)"), id="buckets of texts"),
        pytest.param(script(head="s = data.BucketBatchSampler(64)"), id="buckets"),
        pytest.param(script(head="src_pad_idx = vocab['<pad>']"), id="sequences are padded"),
        pytest.param(script(head="x = pack(x, input_lengths)"), id="sequences have lengths"),
        pytest.param(script(loop=LOOP.replace("in loader", "in zip(range(9), xs)")), id="a trial"),
        pytest.param(script(loop=LOOP.replace("    loss.backward()\n    optimizer.step()\n", "")),
                     id="no training"),
        pytest.param(script(optimizer="optimizer = mine(model)"), id="not seen to be trained"),
        pytest.param(
            script(model="", optimizer="", loop="")
            + "\ndef train(loader):\n"
            + textwrap.indent(f"model = Net().cuda()\n{OPTIMIZER}\n{LOOP}", "    "),
            id="no script",
        ),
        pytest.param(
            script(model="", optimizer="", loop="")
            + "\ndef test_it():\n"
            + textwrap.indent(f"model = Net().cuda()\n{OPTIMIZER}\n{LOOP}", "    ")
            + "\nif __name__ == '__main__':\n    test_it()\n",
            id="a test",
        ),
        pytest.param(
            "import torch\nfrom torch import nn\n\ndef main():\n"
            + textwrap.indent(f"{NET}\nmodel = Net().cuda()\n{OPTIMIZER}\n{LOOP}", "    ")
            + "\nif __name__ == '__main__':\n    main()\n",
            id="a class inside of a function",
        ),
        pytest.param(script(head="import lightning"), id="a framework without a switch"),
        pytest.param(
            "from transformers import Trainer, TrainingArguments\n"
            "TrainingArguments('out', torch_compile=True)\n",
            id="a framework's switch is on",
        ),
        pytest.param(
            "from transformers import Trainer, TrainingArguments\nTrainingArguments(**options)\n",
            id="a framework's switch may be on",
        ),
        pytest.param(
            "from transformers import Trainer, TrainingArguments, DataCollatorWithPadding\n"
            "TrainingArguments('out')\n",
            id="a framework's batches may have any shape",
        ),
        pytest.param(
            f"from accelerate import Accelerator\nAccelerator(cpu=True)\n{OPTIMIZER}\n{LOOP}",
            id="a framework on the CPU",
        ),
        pytest.param(
            "from accelerate import Accelerator\nAccelerator().prepare(model, optimizer)\n",
            id="a framework that is not seen to train",
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
        pytest.param(script("model = nn.Sequential(nn.Linear(8, 1)).cuda()"), id="without a class"),
        pytest.param(
            script("model = torchvision.models.vit_b_16().cuda()", "import torchvision"),
            id="torchvision's",
        ),
        pytest.param(script("model = timm.create_model('vit').cuda()"), id="timm's"),
        pytest.param(script(head="import re\nword = re.compile('x')"), id="another compile"),
        pytest.param(
            script(net=NET.replace("nn.Module", "Base"), head="class Base(nn.Module):\n    pass"),
            id="of two classes",
        ),
        pytest.param(script(loop=LOOP + "    print(loss.item())"), id="read outside of the model"),
        pytest.param(
            script(net=counting("self.calls += 1").replace("= 0", "= torch.zeros(())")),
            id="a tensor counts",
        ),
        pytest.param(script(net=counting("y = self.calls + 1")), id="a number that stays"),
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


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            script("model = Net().cuda()\nother = Net().cuda()",
                   loop="second = torch.optim.SGD(other.parameters(), lr=1)\n" + LOOP),
            id="two models",
        ),
        pytest.param(script("model = load()\nmodel = Net().cuda()"), id="once another"),
        pytest.param(
            script(model="", optimizer="", loop="")
            + "def train(model: Net, loader):\n"
            + textwrap.indent(f"{OPTIMIZER}\n{LOOP}", "    ")
            + "\nif __name__ == '__main__':\n    train(Net().cuda(), data)\n",
            id="a parameter",
        ),
        pytest.param(
            script("for part in parts:\n    model = Net().cuda()"), id="the last of several"
        ),
        pytest.param(
            script("model = Net()", optimizer="for stage in stages:\n    model.cuda()\n    "
                   + OPTIMIZER, loop=textwrap.indent(LOOP, "    ")),
            id="moved in a loop",
        ),
        pytest.param(
            script(loop=LOOP + "    model = model.cuda()\n"), id="moved in the training"
        ),
        pytest.param(
            script(model="", optimizer="", loop="")
            + f"def main():\n{textwrap.indent(OPTIMIZER + chr(10) + LOOP, '    ')}\n"
            + "if __name__ == '__main__':\n    model = Net().cuda()\n    main()\n",
            id="made below the function that trains it",
        ),
        pytest.param(
            script(model="", optimizer="", loop="")
            + "def build():\n    global model\n    model = Net().cuda()\n\n"
            + f"def main():\n{textwrap.indent(OPTIMIZER + chr(10) + LOOP, '    ')}\n"
            + "if __name__ == '__main__':\n    build()\n    main()\n",
            id="made by another function",
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


def test_fixes_for_a_torch_that_is_known():
    (found,) = check(script(), CODE, target="2.13")
    assert found.fix is not None
    assert "2.0" not in found.message


DDP = "torch.nn.parallel.DistributedDataParallel"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("model = Net().cuda()", "model = Net().cuda()\nmodel.compile()", id="moved"),
        pytest.param(
            "model = Net()\nmodel.cuda()  # move",
            "model = Net()\nmodel.cuda()  # move\nmodel.compile()",
            id="moved in place",
        ),
        pytest.param(
            "model = Net()\nmodel = model.cuda()\nlog(model)",
            "model = Net()\nmodel = model.cuda()\nmodel.compile()\nlog(model)",
            id="bound again",
        ),
        pytest.param(
            "model = Net()\nif gpu:\n    model.cuda()\n    # done",
            "model = Net()\nif gpu:\n    model.cuda()\n    # done\nmodel.compile()",
            id="moved under a condition",
        ),
        pytest.param(
            f"model = Net().cuda()\nmodel = {DDP}(model)",
            f"model = Net().cuda()\nmodel.compile()\nmodel = {DDP}(model)",
            id="before it is wrapped",
        ),
        pytest.param(
            f"model = Net().cuda()\nif many:\n    model = {DDP}(model)",
            f"model = Net().cuda()\nmodel.compile()\nif many:\n    model = {DDP}(model)",
            id="before it is perhaps wrapped",
        ),
        pytest.param(
            f"model = Net().cuda()\nwrapped = {DDP}(model)",
            f"model = Net().cuda()\nmodel.compile()\nwrapped = {DDP}(model)",
            id="before it is wrapped under another name",
        ),
        pytest.param(
            "model = Net().cuda()\nmodel.load_state_dict(state)\nmodel.train()",
            "model = Net().cuda()\nmodel.compile()\nmodel.load_state_dict(state)\nmodel.train()",
            id="before its weights are loaded",
        ),
    ],
)
def test_fixes(before, after):
    assert fixed(script(before), CODE) == script(after)


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


@pytest.mark.parametrize(
    ("model", "near", "count"),
    [
        (f"from torch import nn\n\n{NET}", "", 1),
        (f"from torch import nn\n\n{NET}".replace("nn.GELU()", "nn.GRU(8, 8)"), "", 0),
        (f"from torch import nn\n\n{NET}".replace("nn.GELU()", "weight_norm(f)"), "", 0),
        (f"import layers\nfrom torch import nn\n\n{NET}", "", 0),
        (f"import torch\nfrom torch import nn\n\n{NET}x = torch.compile(f)\n", "", 0),
        (f"from torch import nn\n\n{NET}", "def load(d):\n    return Loader(d, collate_fn=f)", 0),
    ],
)
def test_models_and_batches_of_other_files_are_seen(tmp_path, model, near, count):
    main = "from net import Net\nimport data\n" + script(net="")
    layers = "import torch\nconv = torch.nn.utils.weight_norm(torch.nn.Conv2d(1, 1, 3))\n"
    files = {"net.py": model, "data.py": near, "main.py": main, "layers.py": layers}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == count


def test_a_compiled_model_trains_as_before(monkeypatch):
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
    before = script(head=head).replace("import timm\n", "")
    results = []
    for source in (before, fixed(before, CODE)):
        space: dict[str, object] = {}
        exec(source.replace(".cuda()", ""), space)  # noqa: S102 - the point of the test
        results.append(space["model"].state_dict())
    assert graphs
    torch.testing.assert_close(results[0], results[1])
