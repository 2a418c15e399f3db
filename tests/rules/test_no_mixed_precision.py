from __future__ import annotations

import textwrap

import pytest
import torch
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.preferences import Preferences
from torchlint.rule import Severity

CODE = "TL501"
HALF = Preferences(amp_dtype="float16")
NET = "nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))"
FORWARD = "output = model(x)\nloss = criterion(output, y)"
BACKWARD = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()"


def script(
    forward: str = FORWARD,
    backward: str = BACKWARD,
    *,
    head: str = "",
    model: str = NET,
    move: str = ".cuda()",
    criterion: str = "nn.CrossEntropyLoss()",
    optimizer: str = "torch.optim.SGD(model.parameters(), lr=0.1)",
    scaler: str = "",
) -> str:
    """A training script for the GPU with the given lines in its step."""
    lines = ["import torch", "from torch import nn", *head.splitlines(), "", "def train(loader):"]
    made = [f"model = {model}{move}", f"criterion = {criterion}", f"optimizer = {optimizer}"]
    lines += [f"    {line}" for line in [*made, *filter(None, [scaler])]]
    lines += ["    for x, y in loader:", f"        x, y = x{move}, y{move}"]
    body = textwrap.indent(f"{forward}\n{backward}", " " * 8)
    return "\n".join(lines) + "\n" + body + "\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(move=""), id="on the CPU"),
        pytest.param(
            script().replace("for x, y in loader:", "for _ in range(10):") + "train(loader)\n",
            id="ten steps, once",
        ),
        pytest.param(script().replace("def train(", "def test_train("), id="a test"),
        pytest.param(
            "import torch\nfrom torch import nn\n\ndef demo():\n"
            f"    model = {NET}.cuda()\n    optimizer = torch.optim.SGD(model.parameters())\n"
            "    model(torch.randn(2, 8).cuda()).sum().backward()\n    optimizer.step()\n\n"
            "def main():\n    demo()\n\nmain()\n",
            id="one step to show how it is done",
        ),
        pytest.param(script(backward=f"{BACKWARD}\nenv.step(1)"), id="a game"),
        pytest.param(
            script(f"{FORWARD}\ngrad = torch.autograd.grad(loss, x)"), id="gradients by hand"
        ),
        pytest.param(script(move=".to('mps')"), id="on another device than CUDA"),
        pytest.param(
            script("loss = criterion(net(x), blur(y))", head="blur = nn.Conv2d(1, 1, 3)"),
            id="no model but a filter that nobody trains",
        ),
        pytest.param(
            script(
                "if torch.cuda.is_available():\n    output = run(model, x)\nelse:\n    "
                "output = model(x)\nloss = criterion(output, y)"
            ),
            id="in a branch for the CPU",
        ),
        pytest.param(
            script(f"with torch.autocast('cuda'):\n{textwrap.indent(FORWARD, '    ')}"),
            id="in autocast",
        ),
        pytest.param(
            script(f"with ctx:\n{textwrap.indent(FORWARD, '    ')}", head="from my import amp"),
            id="by somebody's amp",
        ),
        pytest.param(script(move=".cuda().to(torch.bfloat16)"), id="in bfloat16"),
        pytest.param(script(move=".cuda().half()"), id="in half"),
        pytest.param(script(head="from apex import parallel"), id="apex"),
        pytest.param(script(head="torch.set_default_dtype(torch.float64)"), id="in double"),
        pytest.param(script(forward="model.double()\n" + FORWARD), id="a double model"),
        pytest.param(
            script(optimizer="torch.optim.LBFGS(model.parameters())"),
            id="a line search needs exact losses",
        ),
        pytest.param(
            script(FORWARD + "\ng = torch.autograd.grad(loss, x, create_graph=True)"),
            id="gradients of gradients",
        ),
        pytest.param(script(head="import gymnasium as gym"), id="reinforcement learning"),
        pytest.param(script(head="from torch_geometric.nn import GCNConv"), id="other kernels"),
        pytest.param(
            script(head="adj = torch.sparse_coo_tensor(i, v)\na = adj.to_sparse()"),
            id="sparse matrices",
        ),
        pytest.param(
            script(head="import torch.distributed.rpc as rpc"),
            id="a model on another machine, where autocast does not reach",
        ),
        pytest.param(
            script(head="class Mine(torch.autograd.Function):\n    pass"),
            id="a function that says nothing of types",
        ),
        pytest.param(script("loss = compute(x, y)"), id="no model is seen"),
        pytest.param(
            script("with torch.no_grad():\n    z = model(x)\nloss = criterion(y, y)"),
            id="the model is not trained",
        ),
        pytest.param(script(head="import accelerate"), id="a framework moves and casts"),
        pytest.param(
            """
            import torch
            @torch.no_grad()
            def evaluate(model, loader):
                for x in loader:
                    model(x.cuda())
            """,
            id="an evaluation",
        ),
        pytest.param(
            "from lightning import Trainer\nTrainer(precision='16-mixed').fit(m)\n",
            id="Lightning, with a precision",
        ),
        pytest.param(
            "from lightning import Trainer\nTrainer(**options).fit(m)\n", id="unknown options"
        ),
        pytest.param(
            "from lightning import Trainer\nTrainer(accelerator='cpu').fit(m)\n",
            id="Lightning on the CPU",
        ),
        pytest.param("from lightning import Trainer\nTrainer().test(m)\n", id="only tested"),
        pytest.param(
            "from accelerate import Accelerator\na = Accelerator(mixed_precision=p)\n"
            "a.backward(loss)\n",
            id="Accelerate, by an option",
        ),
        pytest.param(
            "from transformers import Trainer, TrainingArguments\n"
            "Trainer(model, TrainingArguments('out', deepspeed='ds.json')).train()\n",
            id="Transformers, by a file of DeepSpeed",
        ),
        pytest.param(
            "import deepspeed\nm = deepspeed.initialize(model=n, config='ds.json')[0]\n"
            "m.backward(loss)\n",
            id="DeepSpeed, by a file",
        ),
        pytest.param(
            "from fastai.vision.all import *\nlearn = vision_learner(d, n).to_fp16()\n"
            "learn.fine_tune(1)\n",
            id="fastai in float16",
        ),
        pytest.param(
            "from my.learners import vision_learner\nlearn = vision_learner(d)\nlearn.fit(1)\n",
            id="not fastai's",
        ),
        pytest.param(
            "from composer import Trainer\nTrainer(model=m).fit()\n", id="Composer does by itself"
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


LOOKS = """\
import torch
from torch import nn

def sensitivity(model, loader):
    found = []
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        found.append(model[0].weight.grad.norm())
    return found

def main(loader):
    model = nn.Sequential(nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 9)).cuda()
    {line}
    print(sensitivity(model, loader))
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        pytest.param("{line}", "pass", 0, id="only looked at"),
        pytest.param("{line}", "optimizer.step()", 1, id="its caller takes a step"),
        pytest.param("return found", "optimizer.step()", 1, id="it takes one itself"),
    ],
)
def test_gradients_that_are_only_looked_at(old: str, new: str, count: int) -> None:
    source = LOOKS.replace(old, new).replace("{line}", "pass")
    assert len(check(source, CODE)) == count


@pytest.mark.parametrize("call", ["for _ in range(9):\n    train(loader)\n", ""])
def test_few_steps_that_may_be_repeated_are_no_trial(call):
    source = script().replace("for x, y in loader:", "for _ in range(10):")
    assert len(check(f"{source}{call}", CODE)) == 1


def test_is_silent_in_code_for_a_torch_without_autocast():
    silent(script(backward=BACKWARD + "\nprint(loss.data[0])"), CODE)


def test_is_silent_where_torch_has_no_autocast():
    silent(script(), CODE, "1.9")
    assert check(script(), CODE, "1.10")


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        pytest.param(script(), [10], id="a loop"),
        pytest.param(script("loss = criterion(model(x), y)"), [10], id="inside of the loss"),
        pytest.param(
            script(model="Net()", head="from my import Net"), [11], id="a model of another file"
        ),
        pytest.param(
            script("a = model(x)\nb = model(a)\nloss = criterion(b, y)"), [10], id="the first call"
        ),
        pytest.param(
            script() + script().replace("train(", "finetune("), [10, 24], id="once for each loop"
        ),
        pytest.param(
            """
            import torch
            class Trainer:
                def __init__(self, model):
                    self.model = model.cuda()
                    self.optimizer = torch.optim.Adam(self.model.parameters())
                def step(self, x, y):
                    loss = torch.nn.functional.mse_loss(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
            """,
            [8],
            id="a function for one step",
        ),
        pytest.param(
            """
            import torch
            def train(device):
                encoder = Encoder(9).to("cuda")
                for x in loader:
                    loss = encoder(x)
                    loss.backward()
                    optimizer.step()
            """,
            [6],
            id="a class of somebody that was put on the GPU",
        ),
    ],
)
def test_reports_the_first_forward_pass(source, rows):
    found = check(source, CODE)
    assert [one.location.row for one in found] == rows
    assert {one.severity for one in found} == {Severity.INFO}


def test_the_model_is_named_behind_a_filter_that_nobody_trains():
    source = script(f"y = blur(y)\n{FORWARD}", head="blur = nn.Conv2d(1, 1, 3)")
    (found,) = check(source, CODE)
    assert found.message.startswith("`model(x)`")


def test_a_filter_that_another_file_may_train(tmp_path):
    source = script("loss = criterion(net(x), blur(y))", head="blur = nn.Conv2d(1, 1, 3)")
    importer = "from a import blur\nblur.requires_grad_(True)\n"
    (found,) = check_in(tmp_path, {"a.py": source, "b.py": importer}, "a.py", CODE)
    assert found.message.startswith("`blur(y)`")


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        pytest.param(
            "import lightning as L\nL.Trainer(max_epochs=3).fit(model)\n",
            'Trainer(precision="bf16-mixed")',
            id="Lightning",
        ),
        pytest.param(
            "import pytorch_lightning as pl\npl.Trainer(gpus=2).fit(model)\n",
            'Trainer(precision="bf16-mixed")',
            id="its old name",
        ),
        pytest.param(
            "from lightning.fabric import Fabric\nf = Fabric()\nf.backward(loss)\n",
            'Fabric(precision="bf16-mixed")',
            id="Fabric",
        ),
        pytest.param(
            "from accelerate import Accelerator\na = Accelerator()\na.backward(loss)\n",
            'Accelerator(mixed_precision="bf16")',
            id="Accelerate",
        ),
        pytest.param(
            "from transformers import Trainer, TrainingArguments\n"
            "Trainer(model, TrainingArguments('out')).train()\n",
            "TrainingArguments(bf16=True)",
            id="Transformers",
        ),
        pytest.param(
            "import deepspeed\nconfig = {'train_batch_size': 8}\n"
            "m = deepspeed.initialize(model=n, config=config)[0]\nm.backward(loss)\n",
            '"bf16": {"enabled": true}',
            id="DeepSpeed",
        ),
        pytest.param(
            "from fastai.vision.all import *\nlearn = vision_learner(d, n)\nlearn.fine_tune(1)\n",
            "to_bf16()",
            id="fastai",
        ),
        pytest.param(
            "from ignite.engine import create_supervised_trainer\n"
            "create_supervised_trainer(m, o, f, device='cuda').run(d)\n",
            'amp_mode="amp"',
            id="Ignite",
        ),
    ],
)
def test_a_framework_has_its_own_switch(source, advice):
    (found,) = check(source, CODE)
    assert advice in found.help
    assert (found.severity, found.fix) == (Severity.INFO, None)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        pytest.param("t = Trainer()\nt.fit(m)", 1, id="by its name"),
        pytest.param("t: Trainer = Trainer()\nt.fit(m)", 1, id="annotated"),
        pytest.param("if (t := Trainer()):\n    t.fit(m)", 1, id="bound in an expression"),
        pytest.param("t = Trainer() if go else None\nt.fit(m)", 1, id="by a choice"),
        pytest.param("t = Trainer()\nu = t\nu.fit(m)", 1, id="by another name"),
        pytest.param("t = [Trainer()]\nt[0].fit(m)", 1, id="kept in a list"),
        pytest.param("t = {}\nt[1] = Trainer()\nt[1].fit(m)", 1, id="kept in a dictionary"),
        pytest.param("a.t = Trainer()\na.t.fit(m)", 1, id="kept in an object"),
        pytest.param("t = Trainer()\nf = getattr(t, mode)\ny.fit(m)", 1, id="by an option"),
        pytest.param("def f(t):\n    t.fit(m)\n\nf(Trainer())", 1, id="in a function"),
        pytest.param("def f():\n    return Trainer()\n\nf().fit(m)", 1, id="made by a function"),
        pytest.param(
            "class A:\n    @property\n    def t(self):\n        return Trainer()\n\n"
            "    def run(self):\n        self.t.fit(m)",
            1,
            id="made by a property",
        ),
        pytest.param("t = Trainer()\nt.predict(m)\nscaler.fit(y)", 0, id="of something else"),
        pytest.param("Trainer()\nscaler.fit(y)", 0, id="of nothing"),
        pytest.param("a.t = Trainer()\na.t.test(m)\na.u.fit(y)", 0, id="of another part"),
        pytest.param("f(m, Trainer())\nscaler.fit(y)", 0, id="handed to what is not seen"),
        pytest.param("f(*Trainer())\nscaler.fit(y)", 0, id="and as several"),
        pytest.param(
            "def f(t):\n    t.predict(m)\n\nf(Trainer())\nscaler.fit(y)", 0, id="in a function"
        ),
        pytest.param(
            "def f():\n    return Trainer()\n\nf().test(m)\nscaler.fit(y)", 0, id="made to test"
        ),
        pytest.param(
            "t = Trainer()\nt.fit(m)\nt = Trainer()\nt.predict(m)", 1, id="one after the other"
        ),
    ],
)
def test_a_trainer_that_fits(source, count):
    assert len(check(f"from lightning import Trainer\n{source}\n", CODE)) == count


@pytest.mark.parametrize(("method", "count"), [("fit", 1), ("predict", 0)])
def test_a_trainer_that_another_file_asks(tmp_path, method, count):
    source = "from lightning import Trainer\nfrom b import run\nrun(m, Trainer())\ny.fit(z)\n"
    other = f"def run(model, trainer):\n    trainer.{method}(model)\n"
    files = {"a.py": source, "b.py": other}
    assert len(check_in(tmp_path, files, "a.py", CODE)) == count


def test_a_trainer_that_goes_through_many_names():
    names = "".join(f"t{i + 1} = t{i}\n" for i in range(12))
    source = f"from lightning import Trainer\nt0 = Trainer()\n{names}t12.predict(m)\ny.fit(z)\n"
    assert len(check(source, CODE)) == 1


def test_accelerate_may_be_configured_elsewhere():
    source = "from accelerate import Accelerator\na = Accelerator()\na.backward(loss)\n"
    assert "unless `accelerate config`" in check(source, CODE)[0].message


WITH = 'with torch.autocast(device_type="cuda", dtype=torch.bfloat16):\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(FORWARD, WITH + textwrap.indent(FORWARD, "    "), id="two lines"),
        pytest.param(
            "loss = criterion(model(x), y)  # the loss",
            WITH + "    loss = criterion(model(x), y)  # the loss",
            id="one line",
        ),
        pytest.param(
            "output = model(\n    x\n)\n# compare\n"
            "loss = nn.functional.mse_loss(output.view(-1), y)",
            WITH + "    output = model(\n        x\n    )\n    # compare\n"
            "    loss = nn.functional.mse_loss(output.view(-1), y)",
            id="several lines, with a comment",
        ),
        pytest.param(
            "output = model(x)\n_, right = torch.max(output, 1)\nloss = criterion(output, y)",
            WITH + "    output = model(x)\n    _, right = torch.max(output, 1)\n"
            "    loss = criterion(output, y)",
            id="with the prediction in between",
        ),
    ],
)
def test_fixes(before, after):
    assert fixed(script(before), CODE) == script(after)
    (found,) = check(script(before), CODE)
    assert found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    "use",
    [
        "right += (output.argmax(1) == y).sum()",
        "_, best = output.detach().max(1)",
        "best = torch.max(output.data, 1)[1]",
        "print(output.shape, loss.item())",
        "total += loss.item() * len(output)",
        "wrong = (output > 0) != y",
        "report(float=nn.functional.cross_entropy(output, y).item())",
        "del output",
    ],
)
def test_uses_of_the_output_that_no_type_matters_to(use):
    assert "autocast" in fixed(script(backward=f"{BACKWARD}\n{use}"), CODE)


@pytest.mark.parametrize(
    ("device", "enabled"),
    [
        pytest.param(
            'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
            'device.type == "cuda"',
            id="a device",
        ),
        pytest.param(
            '"cuda" if torch.cuda.is_available() else "cpu"',
            "torch.cuda.is_available()",
            id="the name of one",
        ),
    ],
)
def test_autocast_is_off_where_there_is_no_gpu(device, enabled):
    source = script(head=f"device = {device}", move=".to(device)")
    text = fixed(source, CODE)
    assert f'autocast("cuda", dtype=torch.bfloat16, enabled={enabled}):' in text
    text = fixed(source, CODE, preferences=HALF)
    assert f'scaler = torch.amp.GradScaler("cuda", enabled={enabled})' in text


SCALED = (
    "optimizer.zero_grad()\nscaler.scale(loss).backward()\n{}"
    "scaler.step(optimizer)\nscaler.update()"
)
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(BACKWARD, SCALED.format(""), id="scaled"),
        pytest.param(
            BACKWARD.replace("optimizer.step", CLIP + "optimizer.step"),
            SCALED.format("scaler.unscale_(optimizer)\n" + CLIP),
            id="unscaled before it is clipped",
        ),
    ],
)
def test_float16_gets_a_scaler(before, after):
    forward = WITH.replace("bfloat16", "float16") + textwrap.indent(FORWARD, "    ")
    made = 'scaler = torch.amp.GradScaler("cuda")'
    wanted = script(forward, after, scaler=made)
    assert fixed(script(backward=before), CODE, preferences=HALF) == wanted
    old = wanted.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
    assert fixed(script(backward=before), CODE, preferences=HALF, target="2.0") == old


def test_the_scaler_gets_a_name_of_its_own():
    text = fixed(script(head="scaler = scale_features()"), CODE, preferences=HALF)
    assert "grad_scaler.scale(loss).backward()" in text


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            script(backward=BACKWARD.replace("optimizer.step", "log(model)\noptimizer.step")),
            id="something may look at the gradients",
        ),
        pytest.param(
            script(optimizer="torch.optim.SGD(model.parameters(), lr=0.1, fused=True)"),
            id="a fused update",
        ),
        pytest.param(
            script(optimizer="choose(torch.optim.SGD(model.parameters(), lr=0.1))"),
            id="an optimizer from somewhere",
        ),
    ],
)
def test_float16_without_a_fix(source):
    silent_fix = fixed(source, CODE, preferences=HALF, settles=False)
    assert silent_fix == source


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(
            script(criterion="nn.BCELoss()"), "BCEWithLogitsLoss", id="BCELoss raises in autocast"
        ),
        pytest.param(
            script("loss = nn.functional.binary_cross_entropy(model(x), y)"),
            "binary_cross_entropy_with_logits",
            id="so does its function",
        ),
        pytest.param(
            script(model=f"nn.DataParallel({NET})"), "DataParallel", id="threads without the type"
        ),
        pytest.param(
            script(model="nn.LSTM(8, 8)"),
            "dtype=torch.float16",
            id="recurrent layers know one type",
        ),
        pytest.param(
            script(head="from torch.distributed.fsdp import FullyShardedDataParallel"),
            "MixedPrecision",
            id="FSDP has its own policy",
        ),
    ],
)
def test_says_what_stands_in_the_way(source, said):
    (found,) = check(source, CODE)
    assert said in found.help


LOSSES = """\
import torch
from torch import nn


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.BCELoss()

    def forward(self, x, y):
        return self.loss(x.sigmoid(), y) + x.square().mean()
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", "BCEWithLogitsLoss"),
        ("self.loss = nn.BCELoss()", "", "autocast("),
        ("nn.BCELoss()", "nn.BCEWithLogitsLoss()", "autocast("),
        ("self.loss(x", "torch.nn.functional.binary_cross_entropy(x", "BCEWithLogitsLoss"),
    ],
)
def test_says_what_a_loss_of_another_file_does(tmp_path, old, new, said):
    main = script(criterion="Both()", head="from losses import Both")
    files = {"losses.py": LOSSES.replace(old, new), "main.py": main}
    (found,) = check_in(tmp_path, files, "main.py", CODE)
    assert said in found.help


KEPT = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.BCELoss()
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", "BCEWithLogitsLoss"),
        ("nn.BCELoss()", "nn.MSELoss()", "autocast("),
        ("self.loss", "self.other", "autocast("),
    ],
)
def test_says_what_a_model_keeps_as_its_loss(tmp_path, old, new, said):
    main = script("loss = net.loss(model(x), y)")
    main = main.replace("(loader):", "(loader, net):")
    files = {"nets.py": KEPT.replace(old, new), "main.py": main}
    (found,) = check_in(tmp_path, files, "main.py", CODE)
    assert said in found.help


CHOSEN = """\
from torch import nn


class Close:
    def __call__(self, x, y):
        return nn.functional.binary_cross_entropy(x, y)


class Far:
    def __call__(self, x, y):
        return (x - y).abs().sum()


def far(x, y):
    return (x - y).abs().sum()


def loss_by(name):
    return Close() if name == "close" else Far()
"""
CHOICE = 'return Close() if name == "close" else Far()'
TRAINER = """\
import torch


class Trainer:
    def __init__(self, model, optimizer, loss_of):
        self.model = model.cuda()
        self.optimizer, self.loss_of = optimizer, loss_of

    def train(self, loader):
        for x, y in loader:
            loss = self.loss_of(self.model(x.cuda()), y.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
STARTS = """\
import torch
from losses import loss_by
from trainer import Trainer

net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3))
loss_of = loss_by(args.loss)
trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), loss_of)
for epoch in range(90):
    trainer.train(loader)
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param("", "", "BCEWithLogitsLoss", id="one of those that an option chooses"),
        pytest.param("binary_cross_entropy(", "mse_loss(", "autocast(", id="none of them"),
        pytest.param(CHOICE, "return nn.MSELoss()", "autocast(", id="a module that is seen"),
        pytest.param(
            CHOICE,
            "return nn.MSELoss() if name else nn.MSELoss(reduction='sum')",
            "autocast(",
            id="modules of one class",
        ),
        pytest.param(CHOICE, "return far", "autocast(", id="a function that is seen"),
    ],
)
def test_says_what_a_loss_does_that_an_option_chooses(tmp_path, old, new, said):
    losses = CHOSEN.replace(old, new) if old else CHOSEN
    said = said.replace("BCEWithLogitsLoss", "binary_cross_entropy_with_logits")
    files = {"losses.py": losses, "trainer.py": TRAINER, "main.py": STARTS}
    (found,) = check_in(tmp_path, files, "trainer.py", CODE)
    assert said in found.help


def test_says_what_a_loss_does_that_the_script_itself_lets_an_option_choose(tmp_path):
    main = script(criterion="loss_by(args.loss)", head="from losses import loss_by")
    (found,) = check_in(tmp_path, {"losses.py": CHOSEN, "main.py": main}, "main.py", CODE)
    assert "binary_cross_entropy_with_logits" in found.help


@pytest.mark.parametrize(
    ("loss", "said"), [("BCELoss", "BCEWithLogitsLoss"), ("MSELoss", "autocast(")]
)
def test_says_what_a_function_of_another_file_does(tmp_path, loss, said):
    losses = f"from torch import nn\ndef both(x, y):\n    return nn.{loss}()(x.sigmoid(), y)\n"
    main = script("loss = criterion(model(x), y) + both(x, y)", head="from losses import both")
    (found,) = check_in(tmp_path, {"losses.py": losses, "main.py": main}, "main.py", CODE)
    assert said in found.help


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(criterion="nn.BCELoss()"), id="a loss that raises"),
        pytest.param(script(criterion="MyLoss()"), id="a loss of somebody"),
        pytest.param(script("loss = criterion(model(x), y) + model.penalty()"), id="a sum"),
        pytest.param(script(head="from my import Net", model="Net()"), id="a model not seen"),
        pytest.param(script(model=f"nn.DataParallel({NET})"), id="DataParallel"),
        pytest.param(script(model="nn.LSTM(8, 8)"), id="recurrent layers"),
        pytest.param(script(FORWARD + "\nq = torch.linalg.svd(y)"), id="linear algebra"),
        pytest.param(
            script(
                head="class Net(nn.Module):\n    def forward(self, x):\n        x[0] = 1\n"
                "        return x @ self.weight",
                model="Net()",
            ),
            id="a model that writes into tensors",
        ),
        pytest.param(
            script("output = model(x)\nlog(output)\nloss = criterion(output, y)"),
            id="something else in between",
        ),
        pytest.param(
            script("output = model(x)\nif y.any():\n    y = y + 1\nloss = criterion(output, y)"),
            id="a condition in between",
        ),
        pytest.param(
            script("if y.any():\n    loss = criterion(model(x), y)\nelse:\n    loss = model(y)"),
            id="two losses",
        ),
        pytest.param(
            script(backward=BACKWARD + "\nkeep.append(output.cpu().numpy())"),
            id="NumPy has no bfloat16",
        ),
        pytest.param(script(backward=BACKWARD + "\nstate = output"), id="the output is kept"),
        pytest.param(
            script(backward=BACKWARD + "\naccuracy(output, y)"), id="the output is handed on"
        ),
        pytest.param(
            script(backward="loss.backward()\nif y.any():\n    optimizer.step()"),
            id="updated now and then",
        ),
        pytest.param(
            script(backward="loss.backward()\nloss.backward()\noptimizer.step()"),
            id="two backward passes",
        ),
        pytest.param(script(backward="loss.backward()\noptimizer.step(closure)"), id="a closure"),
        pytest.param(script(backward="(loss / 2).backward()\noptimizer.step()"), id="a part of it"),
    ],
)
def test_reports_without_a_fix(source):
    (found,) = check(source, CODE)
    assert (found.severity, found.fix) == (Severity.INFO, None)


NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(8, 4, 3)

    def forward(self, x):
        return {}
"""


@pytest.mark.parametrize(
    ("result", "fixes"),
    [
        pytest.param("torch.relu(self.layer(x))", [True], id="that is seen to bear it"),
        pytest.param("torch.fft.fft(self.layer(x)).abs()", [False], id="that may break"),
        pytest.param("torch.linalg.inv(self.layer(x))", [], id="that inverts matrices"),
        pytest.param("self.layer.weight.slogdet()[1]", [], id="that takes determinants"),
        pytest.param("self.layer(x).double().exp()", [], id="that is exact in a part"),
        pytest.param("special(self.layer(x))", [False], id="that calls what is not seen"),
        pytest.param("autocast(self.layer)(x)", [], id="that casts by itself"),
    ],
)
def test_a_model_of_another_file(tmp_path, result, fixes):
    special = "from special import special\n" if "special" in result else ""
    files = {
        "train.py": script(head="from nets import Net", model="Net()"),
        "nets.py": special + NETS.format(result),
    }
    found = check_in(tmp_path, files, "train.py", CODE)
    assert [one.fix is not None for one in found] == fixes


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param({"main.py": "import train\nenv.step(1)\n"}, 0, id="a game that imports it"),
        pytest.param({"main.py": "import train\nimport gym\n"}, 0, id="a gym that imports it"),
        pytest.param({"main.py": "import gym\n"}, 1, id="a gym that has to do with nothing"),
        pytest.param({"nets.py": "import spconv.pytorch as s\n"}, 0, id="other kernels"),
        pytest.param({"main.py": "import train\na('--loss-scale')\n"}, 0, id="a scale, by option"),
        pytest.param({"nets.py": "from c import Net\n"}, 1, id="a model of plain layers"),
        pytest.param(
            {"c.py": "class Swish(torch.autograd.Function): ...\nclass Net(nn.Module): ..."},
            0,
            id="a function of its own",
        ),
        pytest.param(
            {
                "c.py": "from f import Cost\nclass Net(nn.Module): ...",
                "f.py": "from torch.autograd import Function\nclass Cost(Function): ...",
            },
            0,
            id="a function of its own in a file without layers",
        ),
        pytest.param(
            {"c.py": "class Cost(Function): ...\nclass Net(nn.Module): ..."},
            1,
            id="another kind of function",
        ),
        pytest.param(
            {"c.py": "class Net(nn.Module):\n  p = torch.clamp(p, 1e-4, 1.0 - 1e-4)\n"},
            0,
            id="a probability below one",
        ),
        pytest.param(
            {"c.py": "class Net(nn.Module):\n  p = torch.clamp(p, 0, n - 1)\n"}, 1, id="an index"
        ),
        pytest.param(
            {"c.py": "class Net(nn.Module):\n  p = torch.inverse(p)\n"}, 0, id="an inverse"
        ),
        pytest.param(
            {"c.py": "class Net(nn.Module):\n  p = np.linalg.inv(p)\n"}, 1, id="not of torch"
        ),
        pytest.param(
            {"c.py": "class Net(nn.Module):\n  d = -2*torch.matmul(x, y)\n  n = d.topk(3)\n"},
            0,
            id="what is nearest",
        ),
        pytest.param(
            {"c.py": "class Net(nn.Module):\n  d = b - 2 * x @ y.t()\n  n = d.argmin(1)\n"},
            0,
            id="the nearest, by an operator",
        ),
        pytest.param(
            {"c.py": "class Net(nn.Module):\n  d = -2 * torch.matmul(x, y)\n"},
            1,
            id="a product alone",
        ),
        pytest.param(
            {"c.py": "class Net(nn.Module):\n  n = torch.matmul(x, y).topk(3)\n"},
            1,
            id="the largest products",
        ),
    ],
)
def test_files_that_it_leads_to_or_that_import_it(tmp_path, files, found):
    chain = {"nets.py": "from a import Net\n", "a.py": "from b import Net\n"}
    chain |= {"b.py": "from c import Net\n", "c.py": "class Net(nn.Module): ...\n"}
    train = script(head="from nets import Net", model="Net()")
    result = check_in(tmp_path, {"train.py": train, **chain, **files}, "train.py", CODE)
    assert len(result) == found


# -- nothing to gain -----------------------------------------------------------------------------

REGRESSION = """
class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, 2)
        {more}
    def forward(self, x):
        return torch.sigmoid(self.fc(x))
"""


@pytest.mark.parametrize(
    ("model", "head", "count"),
    [
        pytest.param("nn.Linear(n, 2)", "", 0, id="a layer"),
        pytest.param("nn.Sequential(nn.Linear(n, 2), nn.Softmax())", "", 0, id="and its softmax"),
        pytest.param("Net(8)", REGRESSION.replace("{more}", ""), 0, id="in a class"),
        pytest.param("nn.Sequential(nn.Embedding(9, n), nn.ReLU())", "", 0, id="none"),
        pytest.param("nn.Sequential(nn.Linear(n, 9), nn.Linear(9, 2))", "", 1, id="two layers"),
        pytest.param("nn.Sequential(nn.Embedding(9, n), nn.Linear(n, 9))", "", 1, id="words"),
        pytest.param("nn.Sequential(nn.Conv2d(3, 9, 3), nn.ReLU())", "", 1, id="a convolution"),
        pytest.param("nn.Sequential(nn.Linear(n, 2), *more)", "", 1, id="and others, not seen"),
        pytest.param("nn.Sequential(*layers)", "", 1, id="layers that are not seen"),
        pytest.param("nn.GRU(n, 2)", "", 1, id="a recurrent layer"),
        pytest.param(
            "Net(8)",
            REGRESSION.replace("{more}", "self.more = nn.Linear(n, 2)"),
            1,
            id="two layers in a class",
        ),
        pytest.param(
            "Net(8)",
            REGRESSION.replace("{more}", "self.more = [nn.ReLU() for _ in range(n)]"),
            1,
            id="layers in a loop",
        ),
        pytest.param(
            "Net(8)",
            REGRESSION.replace("{more}", "self.more = self.cuda()"),
            1,
            id="a class that holds itself",
        ),
        pytest.param("Net(8)", "from my import Net", 1, id="a class that is not seen"),
    ],
)
def test_one_layer_is_computed_in_no_time(model, head, count):
    assert len(check(script(model=model, head=head), CODE)) == count


@pytest.mark.parametrize(
    ("stored", "count"),
    [
        ("self.net = self.net.cuda()\n        self.net = copy.deepcopy(self.net)", 0),
        ("self.net = self.net.cuda()\n        self.net = load()", 1),
        ("self.net = deeper(self.net.cuda())", 1),
    ],
)
def test_one_layer_is_followed_to_where_it_is_made(stored, count):
    source = f"""
import copy, torch
class Probe:
    def __init__(self):
        self.net = torch.nn.Linear(n, 2)
        {stored}
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def train(self, batches):
        for x, y in batches:
            loss = torch.nn.functional.mse_loss(self.net(x), y)
            loss.backward()
            self.optimizer.step()
"""
    assert len(check(source, CODE)) == count


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("with torch.no_grad():\n    x = encoder(x)\n", id="without gradients"),
        pytest.param("x = self.encode(x)\n", id="by a method that is not seen"),
    ],
)
def test_another_model_beside_one_layer(before):
    assert check(script(before + FORWARD, model="nn.Linear(n, 2)"), CODE)


OFF = "torch.backends.cudnn.enabled = False\n"


@pytest.mark.parametrize(
    ("head", "count"),
    [
        pytest.param(OFF, 0, id="always"),
        pytest.param(f"def main():\n    {OFF}", 0, id="in a function"),
        pytest.param(f"if args.exact:\n    {OFF}", 1, id="on request"),
        pytest.param(OFF.replace("False", "args.fast"), 1, id="by an option"),
        pytest.param(OFF + OFF.replace("False", "True"), 1, id="for a while"),
        pytest.param(OFF.replace("enabled", "benchmark"), 1, id="another switch"),
    ],
)
def test_a_script_that_switches_cudnn_off(head, count):
    assert len(check(script(head=head), CODE)) == count


@pytest.mark.parametrize(
    ("importer", "count"),
    [
        pytest.param("import nets.train", 0, id="by its name"),
        pytest.param("net = importlib.import_module('nets.' + args.net)", 0, id="computed"),
        pytest.param("net = importlib.import_module(f'nets.{args.net}')", 0, id="written in"),
        pytest.param("net = __import__('nets.%s' % args.net)", 0, id="by a format"),
        pytest.param("net = importlib.import_module('other.' + args.net)", 1, id="of others"),
        pytest.param("net = importlib.import_module(args.net)", 1, id="of any"),
        pytest.param("import other", 1, id="other files"),
    ],
)
def test_what_imports_a_file_switches_cudnn_off(tmp_path, importer, count):
    main = f"if __name__ == '__main__':\n    {OFF}    {importer}\n"
    net = f"{script()}\ntrain(loader)\n"
    files = {"main.py": f"import importlib, torch\n{main}", "nets/train.py": net}
    (tmp_path / "nets").mkdir()
    assert len(check_in(tmp_path, files, "nets/train.py", CODE)) == count


RUN = """
torch.manual_seed(0)
losses = []
def batches():
    for _ in range(40):
        x = torch.randn(64, 8)
        yield x, x[:, :4].argmax(1)
train(batches())
"""


@pytest.mark.parametrize("preferences", [Preferences(), HALF], ids=["bfloat16", "float16"])
def test_what_is_written_trains_as_before(preferences):
    """On the CPU, in the lower precision: losses go down as they did."""
    source = script(backward=BACKWARD.replace("optimizer.step", CLIP + "optimizer.step"))
    after = fixed(source, CODE, preferences=preferences)
    losses = []
    for text in (source, after):
        on_cpu = text.replace(".cuda()", "").replace('"cuda"', '"cpu"')
        names: dict[str, object] = {}
        exec(on_cpu + "        losses.append(loss.item())\n" + RUN, names)  # noqa: S102
        losses.append(names["losses"])
    assert losses[0] != losses[1]
    assert losses[0][-1] < losses[0][0]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_what_torch_does():
    """A loss is computed in float32 under autocast, whatever its input is."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = torch.nn.Linear(4, 4)(torch.ones(2, 4))
        loss = torch.nn.functional.cross_entropy(output, torch.tensor([0, 1]))
    assert output.dtype is torch.bfloat16
    assert loss.dtype is torch.float32


OWN_BACKWARD = "from torch.autograd import Function\nclass Group(Function): ...\n"


@pytest.mark.parametrize(
    ("build", "ops", "count"),
    [
        pytest.param("import_module(args.model).Net()", OWN_BACKWARD, 0, id="a file with such"),
        pytest.param("import_module(args.model).Net()", "", 1, id="no file has such"),
        pytest.param(NET, OWN_BACKWARD, 1, id="a model of its own"),
    ],
)
def test_a_model_of_a_file_that_an_option_names(tmp_path, build, ops, count):
    # which runs what another file computes by a function of autograd
    model = f"nn.Sequential(nn.Linear(4, 4), {build})"
    source = script(head="from importlib import import_module", model=model)
    files = {"train.py": source, "ops.py": ops}
    assert len(check_in(tmp_path, files, "train.py", CODE)) == count
