"""TL401: runs of models that are recorded for gradients nobody asks for."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL401"
INFO, WARNING = Severity.INFO, Severity.WARNING
HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.fc = nn.Linear(size, 2)

    def forward(self, x):
        return self.fc(x.view(-1, 8))

model, teacher = Net(), Net()
batches = torch.utils.data.DataLoader(make_dataset(), 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)

def train(model, batches, optimizer):
    for x, y in batches:
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


"""
TAIL = "\n\nfor epoch in range(9):\n    train(model, batches, optimizer)\n    score = {}\n"
CALL = "evaluate(model, batches)"
LOOP = "for x, y in batches:\n    hits += (model(x).argmax(1) == y).sum().item()\n"
NO_GRAD = "with torch.no_grad():\n"
BLOCK = NO_GRAD + textwrap.indent(LOOP, "    ")
UPDATE = "loss = F.mse_loss(model(x), y)\nloss.backward()\noptimizer.step()\n"


def evaluation(
    loop: str = LOOP, *, after: str = "return hits", top: str = "", tail: str = TAIL.format(CALL)
) -> str:
    """Return a script with a function that evaluates after each epoch."""
    body = f"hits = 0\nmodel.eval()\n{loop}{after}\n"
    return f"{HEAD}{top}def evaluate(model, batches):\n{textwrap.indent(body, '    ')}{tail}"


def step(body: str) -> str:
    """Return a training step."""
    return f"{HEAD}for x, y in batches:\n{textwrap.indent(body, '    ')}"


def in_loop(line: str) -> str:
    return f"for x, y in batches:\n    {line}\n"


SILENT = {
    "decorated": evaluation(top="@torch.no_grad()\n"),
    "decorated without brackets": evaluation(top="@torch.no_grad\n"),
    "inference mode": evaluation(top="@torch.inference_mode()\n"),
    "a decorator of the project": "import torch\ndef off(run):\n    return torch.no_grad()(run)\n"
        + evaluation(top="@off\n"),
    "a decorator that is not known": evaluation(top="@evaluating\n"),
    "in no_grad": evaluation(BLOCK),
    "a context that is not known": evaluation(BLOCK.replace("torch.no_grad", "context")),
    "by a flag": evaluation(BLOCK.replace("no_grad()", "set_grad_enabled(wanted)")),
    "switched off": evaluation(f"torch.set_grad_enabled(False)\n{LOOP}"),
    "the caller turns it off": evaluation(tail=f"\n\nwith torch.no_grad():\n    {CALL}\n"),
    "its caller is": evaluation(tail=f"\n@torch.no_grad()\ndef report():\n    {CALL}\nreport()\n"),
    "the model is": evaluation().replace("def forward", "@torch.no_grad()\n    def forward"),
    "a frozen model": evaluation(tail=f"\n\nmodel.requires_grad_(False)\n{CALL}\n"),
    "no parameter that learns": evaluation().replace("Linear(size, 2)", "Parameter(size, False)"),
    "a layer without any": step("z = nn.Softmax(1)(x).detach()\n" + UPDATE),
    "it trains": evaluation(in_loop("F.mse_loss(model(x), y).backward()")),
    "by the input": evaluation(in_loop("hits += torch.autograd.grad(model(x).sum(), x)[0].norm()")),
    "after the loop": evaluation(in_loop("hits = hits + model(x).sum()"), after="hits.backward()"),
    "by its caller": evaluation("outs = []\n" + in_loop("outs.append(model(x))"),
        after="return torch.cat(outs)", tail=f"\n\n{CALL}.sum().backward()\n"),
    "code that is not seen": step("z = teacher(x)\nkeep(z)\n" + UPDATE),
    "kept for others": step("z = teacher(x)\nmemory[0] = z\n" + UPDATE),
    "kept on an object": step("z = teacher(x)\nstate.loss += z\n" + UPDATE),
    "returned to such code": HEAD + "def outputs(net, x):\n    return net(x)\nwrap(outputs)\n",
    "returned in an object": f"{HEAD}class Out:\n    def __init__(self, z):\n        self.z = z\n"
        "def outputs(net, x):\n    return Out(net(x))\nwrap(outputs)\n",
    "a model whose base is not seen": f"from elsewhere import Base\n{HEAD}class Big(Base):\n"
        "    def forward(self, x):\n        return Kept(self.fc(x))\n",
    "a loss that such an object gets": "from timm.utils import NativeScaler\n"
        + step("NativeScaler()(F.mse_loss(teacher(x), y), optimizer)"),
    "a frozen copy": HEAD + "import copy\nclass Mean:\n    def __init__(self, net):\n"
        "        self.net = copy.deepcopy(net)\n        for p in self.net.parameters():\n"
        "            p.requires_grad_(False)\nmean = Mean(model)\nprint(mean.net(x).argmax())\n",
    "a hook": step("teacher(x)\n" + UPDATE) + "teacher.fc.register_forward_hook(keep)\n",
    "an array holds no graph": evaluation(in_loop("hits += (model(x).numpy() > 0).sum()")),
}  # fmt: skip


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT)
def test_leaves_alone(source):
    silent(source, CODE)


FOUND = {
    "a decorator with such a word": (
        evaluation(top="def tick(no_grad):\n    return no_grad\n\n@tick\n"), WARNING
    ),
    "an evaluation": (evaluation(), WARNING),
    "nobody calls it": (evaluation(tail=""), INFO),
    "some callers": (evaluation(tail=f"\n{CALL}\nwith torch.no_grad():\n    {CALL}\n"), INFO),
    "beside a framework": ("import lightning\n" + evaluation(), INFO),
    "evaluated by code that is not seen": (evaluation(in_loop("show(model(x))")), INFO),
    "once": (f"{HEAD}print(model(load()).argmax())\n", INFO),
    "labels": (step("z = teacher(x)\nprint(z.argmax(1))\n" + UPDATE), WARNING),
    "nothing is read": (step("teacher(x)\n" + UPDATE), WARNING),
    "now and then": (step(f"{UPDATE}if i % 9 == 0:\n    show(model(x).detach())\n"), INFO),
}  # fmt: skip


@pytest.mark.parametrize(("source", "severity"), FOUND.values(), ids=FOUND)
def test_finds(source, severity):
    (found,) = check(source, CODE)
    is_step = "teacher(x)" in source or "i % 9" in source
    assert (found.code, found.severity) == ("TL401b" if is_step else "TL401", severity)
    assert "is recorded" in found.message


def test_says_what_the_fix_changes():
    for source, changes in (
        (evaluation(), ""),
        (
            evaluation(in_loop("hits += model(x).sum()")),
            ", and what leaves the evaluation has no graph",
        ),
    ):
        (found,) = check(source, CODE)
        assert found.fix.safety is Safety.UNSAFE
        assert found.fix.changes == f"some layers run other kernels without gradients{changes}"


RUN, CACHE = "teacher(x)", "import functools\n@functools.cache\n"
NET = "net = nn.Linear(1, 1)\n"
SHORT = f"from torch import nn, no_grad\n\n{NET}"
USED = UPDATE.replace("y)", "z.detach())")
FIXED = {
    "the function": (evaluation(), evaluation(top="@torch.no_grad()\n")),
    "the loop": (evaluation(after="keep(hits)"), evaluation(BLOCK, after="keep(hits)")),
    "decorated otherwise": (evaluation(top=CACHE), evaluation(BLOCK, top=CACHE)),
    "comments": (
        f"{HEAD}# all\nfor x in batches:\n    # one\n    model(x)\n# z\n",
        f"{HEAD}{NO_GRAD}    # all\n    for x in batches:\n        # one\n        model(x)\n# z\n",
    ),
    "the statement": (
        step(f"z = {RUN}  # a\n{USED}"),
        step(f"{NO_GRAD}    z = {RUN}  # a\n{USED}"),
    ),
    "its name": (
        f"{SHORT}for x in y:\n\tnet(x)\n",
        f"{SHORT}with no_grad():\n\tfor x in y:\n\t\tnet(x)\n",
    ),
    "an import": (
        f"from torch import nn\n\n{NET}for x in y: net(x)\n",
        f"from torch import nn\nimport torch\n\n{NET}{NO_GRAD}    for x in y: net(x)\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), FIXED.values(), ids=FIXED)
def test_turns_gradients_off(before, after):
    assert fixed(before, CODE) == after


def test_wraps_the_loop_where_no_grad_is_no_decorator():
    assert fixed(evaluation(), CODE, target="0.4.0") == evaluation(BLOCK)


UNDECORATED = {
    "may ask for some": ("hits += (", "adv = attack(x)\n        hits += (adv + "),
    "a generator": ("return hits", "yield hits"),
    "a coroutine": ("def evaluate", "async def evaluate"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), UNDECORATED.values(), ids=UNDECORATED)
def test_decorates_no_function_that(old, new):
    assert "@torch.no_grad()" not in fixed(evaluation().replace(old, new), CODE, settles=False)


def test_a_caller_in_another_file_turns_it_off(tmp_path):
    use = f"from engine import *\nwith torch.no_grad():\n    {CALL}\n"
    files = {"engine.py": evaluation(tail=""), "run.py": use}
    assert not check_in(tmp_path, files, "engine.py", CODE)
