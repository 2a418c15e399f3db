"""TL401: evaluations that are recorded for gradients nobody asks for."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL401"
HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(x.view(-1, 8))


model = Net()
batches = torch.utils.data.DataLoader(make_dataset(), 4)


def train(model, batches, optimizer):
    model.train()
    for x, y in batches:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


"""
TAIL = """\


for epoch in range(9):
    train(model, batches, optimizer)
    score = evaluate(model, batches)
"""
LOOP = """\
for x, y in batches:
    hits += (model(x).argmax(1) == y).sum().item()
"""


def evaluation(
    loop: str = LOOP,
    *,
    switch: str = "model.eval()",
    after: str = "return hits",
    top: str = "",
    name: str = "evaluate",
    tail: str = TAIL,
) -> str:
    """Return a script with a function that evaluates."""
    body = f"hits = 0\n{switch}\n{loop}{after}\n"
    lines = f"{top}def {name}(model, batches):\n{textwrap.indent(body, '    ')}"
    return HEAD + lines + tail.replace("evaluate", name)


def step(body: str) -> str:
    """Return a training step with two networks."""
    return (
        HEAD
        + "teacher = Net()\ncriterion = Net()\nfor x, y in batches:\n"
        + textwrap.indent(body, "    ")
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(evaluation(top="@torch.no_grad()\n"), id="decorated"),
        pytest.param(evaluation(top="@torch.no_grad\n"), id="decorated without brackets"),
        pytest.param(evaluation(top="@torch.inference_mode()\n"), id="inference mode"),
        pytest.param(evaluation(top="@evaluating\n"), id="a decorator that may turn them off"),
        pytest.param(
            evaluation("with torch.no_grad():\n" + textwrap.indent(LOOP, "    ")), id="in no_grad"
        ),
        pytest.param(
            evaluation(
                "for x, y in batches:\n    with torch.no_grad():\n"
                "        hits += (model(x).argmax(1) == y).sum().item()\n"
            ),
            id="no_grad in the loop",
        ),
        pytest.param(
            evaluation("with context():\n" + textwrap.indent(LOOP, "    ")),
            id="a context that may turn them off",
        ),
        pytest.param(
            evaluation("with torch.enable_grad():\n" + textwrap.indent(LOOP, "    ")),
            id="gradients are wanted",
        ),
        pytest.param(
            evaluation("with torch.set_grad_enabled(wanted):\n" + textwrap.indent(LOOP, "    ")),
            id="on some calls only",
        ),
        pytest.param(
            evaluation(tail=TAIL.replace("score =", "with torch.no_grad(): score =")),
            id="the caller turns them off",
        ),
        pytest.param(
            evaluation(
                tail="\n\n@torch.no_grad()\ndef report(model, batches):\n"
                "    evaluate(model, batches)\n\n\nreport(model, batches)\n"
            ),
            id="the caller is decorated",
        ),
        pytest.param(
            evaluation(
                tail=TAIL.replace("score =", "with torch.no_grad(): score =")
                + "with torch.no_grad():\n    evaluate(model, batches)\n"
            ),
            id="all of the callers turn them off",
        ),
        pytest.param(
            evaluation(tail=TAIL + "with quiet():\n    evaluate(model, batches)\n"),
            id="one of the callers may turn them off",
        ),
        pytest.param(
            evaluation(tail=f"{TAIL}\ntorch.set_grad_enabled(False)\n"), id="off for the whole file"
        ),
        pytest.param(
            evaluation(tail=f"{TAIL}\ntorch.no_grad().__enter__()\n"), id="entered by hand"
        ),
        pytest.param(
            evaluation(switch="model.eval()\nmodel = make()"), id="another model under its name"
        ),
        pytest.param(
            evaluation("out = model(x)\n", name="test", tail="\n\ntest(model, batches)\n"),
            id="no loop anywhere",
        ),
        pytest.param(
            evaluation(
                "for x, y in batches:\n    loss = F.cross_entropy(model(x), y)\n"
                "    loss.backward()\n"
            ),
            id="trained in evaluation mode",
        ),
        pytest.param(
            evaluation(
                "for x, y in batches:\n    x.requires_grad_()\n    out = model(x).sum()\n"
                "    hits += torch.autograd.grad(out, x)[0].norm().item()\n"
            ),
            id="a gradient by the input",
        ),
        pytest.param(
            evaluation(
                "for x, y in batches:\n    hits += force(model, x)\n    out = model(x)\n",
                tail="\n\ndef force(model, x):\n    x.requires_grad = True\n"
                "    return torch.autograd.grad(model(x).sum(), x)[0].norm().item()\n" + TAIL,
            ),
            id="a gradient in a function that it calls",
        ),
        pytest.param(
            evaluation().replace(
                "return self.fc(x.view(-1, 8))",
                "e = self.fc(x)\n        return torch.autograd.grad(e.sum(), x)",
            ),
            id="a gradient in the model",
        ),
        pytest.param(
            evaluation("for x, y in batches:\n    adv = attack(x, y)\n    out = model(adv)\n"),
            id="an attack",
        ),
        pytest.param(
            evaluation("for x, y in batches:\n    out = model(make(model, x))\n"),
            id="the model goes to what is not seen",
        ),
        pytest.param(
            evaluation("made = Maker(model)\nfor x, y in batches:\n    out = model(made(x, y))\n"),
            id="the loop uses what was made of the model",
        ),
        pytest.param(
            evaluation("for x, y in batches:\n    out = model(x)\n    runner.train_on(out)\n"),
            id="something else trains",
        ),
        pytest.param("import captum\n" + evaluation(), id="a library that asks for gradients"),
        pytest.param("import pytest\n" + evaluation(), id="a unit test"),
        pytest.param("import lightning\n" + evaluation(), id="a framework evaluates"),
        pytest.param(evaluation(name="benchmark"), id="a benchmark"),
        pytest.param(
            evaluation(
                "for x, y in batches:\n    hits = hits + model(x).sum()\n",
                after="hits.backward()",
            ),
            id="a gradient is asked for after the loop",
        ),
        pytest.param(
            evaluation(
                "outs = []\nfor x, y in batches:\n    outs.append(model(x))\n",
                after="torch.cat(outs).sum().backward()",
            ),
            id="a gradient of all that was collected",
        ),
        pytest.param(
            evaluation(
                "outs = []\nfor x, y in batches:\n    outs.append(model(x))\n",
                after="return torch.cat(outs)",
                tail=f"{TAIL}    score.sum().backward()\n",
            ),
            id="a gradient of what it returns",
        ),
        pytest.param(
            evaluation("for x, y in batches:\n    yield model(x)\n", after=""), id="a generator"
        ),
        pytest.param(
            evaluation(tail=f"{TAIL}\nmodel.requires_grad_(False)\n"), id="a frozen model"
        ),
        pytest.param(
            evaluation(tail=f"{TAIL}\nfor p in model.parameters():\n    p.requires_grad = False\n"),
            id="frozen parameter by parameter",
        ),
        pytest.param(
            evaluation().replace("def forward", "@torch.no_grad()\n    def forward"),
            id="the model turns them off",
        ),
        pytest.param(
            evaluation().replace(
                "return self.fc(", "with torch.no_grad():\n            return self.fc("
            ),
            id="the model turns them off in its body",
        ),
        pytest.param(evaluation(top="async "), id="a coroutine"),
    ],
)
def test_leaves_alone(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(evaluation(switch=""), id="named for evaluation, but without eval()"),
        pytest.param(evaluation(switch="other.eval()"), id="another model is switched"),
        pytest.param(evaluation(switch="model.eval(mode)"), id="another method"),
        pytest.param(evaluation(switch="model.train(mode)"), id="a mode that is not known"),
        pytest.param(evaluation(switch="model.train(True)"), id="put into training"),
        pytest.param(evaluation(switch="model.train(False, x)"), id="another method that trains"),
        pytest.param(evaluation(switch="model.train(*[False])"), id="a mode behind a star"),
        pytest.param(
            evaluation(switch="model.train(False)\nmodel.train(True)"), id="switched there and back"
        ),
        pytest.param(
            evaluation(switch="if quick:\n    model.eval()"), id="switched under a condition"
        ),
        pytest.param(evaluation(switch="model.eval()\nmodel.train()"), id="switched back"),
        pytest.param(
            evaluation(switch="model.eval(), other.eval()\nother.train(), model.train()"),
            id="switched back beside another",
        ),
        pytest.param(
            evaluation(switch="quick and (model.eval(), other.eval())"),
            id="switched beside another under a condition",
        ),
    ],
)
def test_a_test_that_is_not_seen_to_be_in_evaluation_mode(source):
    """What it runs is recorded for nothing all the same, as only numbers are read."""
    (found,) = check(source, CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.INFO)
    silent(source.replace("(model(x).argmax(1) == y).sum().item()", "model(x).sum()"), CODE)


def test_a_test_of_a_single_pass_outside_of_any_loop():
    once = "x, y = load()\nhits += (model(x).argmax(1) == y).sum().item()\n"
    silent(evaluation(once, switch="", name="test", tail="\n\ntest(model, batches)\n"), CODE)


def test_what_is_read_as_an_array_has_no_graph():
    loop = "for x, y in batches:\n    hits += (model(x){}.numpy() > 0).sum()\n"
    silent(evaluation(loop.format(""), switch=""), CODE)
    assert check(evaluation(loop.format(".detach()"), switch=""), CODE)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("z = teacher(x)\nloss = F.mse_loss(model(x), z)\n", id="used as it is"),
        pytest.param("z = teacher(x)\nloss = f(model(x), z.detach(), z)\n", id="used both ways"),
        pytest.param("z, w = teacher(x)\nloss = f(model(x), z.detach(), w)\n", id="one of several"),
        pytest.param(
            "with torch.no_grad():\n    z = teacher(x).detach()\nloss = f(model(x), z)\n",
            id="off already",
        ),
        pytest.param(
            "loss = f(model(x))\nif step % 9 == 0:\n    show(teacher(x).detach())\n",
            id="now and then",
        ),
        pytest.param(
            "loss = F.mse_loss(model(x), y)\ntotal += loss.detach()\n", id="the loss itself"
        ),
        pytest.param(
            "loss_f = nn.MSELoss()\nloss = f(model(x))\nother = loss_f(x, y).detach()\n",
            id="a loss without parameters",
        ),
        pytest.param(
            "z = maker(x).detach()\nloss = f(model(x), z)\n", id="not known to be a module"
        ),
        pytest.param("z = fake.detach()\nloss = f(model(x), z)\n", id="nothing runs"),
    ],
)
def test_leaves_other_forward_passes_alone(body):
    silent(step(f"{body}loss.backward()\noptimizer.step()\n"), CODE)


def test_a_module_that_keeps_what_it_computes_needs_its_graph():
    source = step("z = teacher(x).detach()\nloss = f(z) + teacher.kl\nloss.backward()\n")
    silent(source.replace("return self.fc(", "self.kl = x.sum()\n        return self.fc("), CODE)


def test_hooks_may_need_the_graph():
    body = "z = teacher(x).detach()\nloss = f(model(x), z)\nloss.backward()\n"
    silent(step(body) + "teacher.fc.register_forward_hook(keep)\n", CODE)


def test_a_frozen_teacher_records_nothing():
    body = "z = teacher(x).detach()\nloss = f(model(x), z)\nloss.backward()\n"
    made = "teacher = Net()\n"
    silent(step(body).replace(made, made + "teacher.requires_grad_(False)\n"), CODE)


PASSED_ON = """


def describe(model, batches):
    return evaluate(model, batches)


def compare(held):
    return describe(Frozen(), held)


class Frozen(nn.Module):
    def __init__(self, trained=False):
        super().__init__()
        self.fc = nn.Linear(8, 2)
        for p in self.parameters():
            p.requires_grad = trained

    def forward(self, x):
        return self.fc(x)
"""


def test_a_network_that_freezes_itself_records_nothing():
    source = evaluation(tail=PASSED_ON + "\n\ndescribe(find(), batches)\ncompare(batches)\n")
    silent(source, CODE)
    loop = PASSED_ON[PASSED_ON.index("        for p in") : PASSED_ON.index("    def forward")]
    assert len(check(source.replace(loop, "\n"), CODE)) == 1


def test_a_network_that_freezes_one_of_its_parts_records_the_others():
    pair = (
        "class Pair(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.guess = nn.Sequential(nn.Linear(8, 8))\n"
        "        self.fixed = nn.Linear(8, 8)\n"
        "        for p in self.fixed.parameters():\n            p.requires_grad = False\n\n\n"
        "teacher = Pair()\n"
    )
    body = "z = teacher.guess(x).detach()\nloss = f(model(x), z)\nloss.backward()\n"
    assert len(check(step(body).replace("teacher = Net()\n", pair), CODE)) == 1


def without_parameters(source: str) -> str:
    """Give the teacher buffers only."""
    made = "teacher = Net()\n"
    mel = (
        "class Mel(nn.Module):\n    def __init__(self, size=80):\n        super().__init__()\n"
        "        self.size = size\n        self.register_buffer('basis', make_basis(size))\n"
        "    def forward(self, x):\n        return x @ self.basis\n"
    )
    assert made in source
    return source.replace(made, f"{mel}teacher = Mel()\n")


def test_a_module_without_parameters_records_nothing_of_a_batch():
    body = "z = teacher(x).detach()\nloss = f(model(x), z)\nloss.backward()\n"
    silent(without_parameters(step(body)), CODE)


def test_a_module_without_parameters_records_what_comes_from_a_model():
    body = "z = teacher(model(x)).detach()\nloss = f(model(x), z)\nloss.backward()\n"
    (found,) = check(without_parameters(step(body)), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.INFO)


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param("nn.Softmax(dim=1)", id="keeps its result"),
        pytest.param("nn.Sequential(nn.Flatten(), nn.Sigmoid())", id="two of them"),
        pytest.param("nn.MSELoss()", id="a loss"),
    ],
)
def test_a_layer_without_parameters_is_not_worth_a_line(layer):
    body = f"out = model(x)\nloss = f(out)\nprint({layer}(out).argmax(1))\nloss.backward()\n"
    silent(step(body), CODE)


def test_layers_of_which_one_has_parameters_are_worth_one():
    head = "head = nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=1))\n"
    body = "out = model(x)\nloss = f(out)\nprint(head(out).argmax(1))\nloss.backward()\n"
    (found,) = check(head + step(body), CODE)
    assert found.code == "TL401b"


def test_a_module_whose_parameters_are_not_seen_is_advice():
    body = "z = teacher(x).detach()\nloss = f(model(x), z)\nloss.backward()\n"
    source = step(body).replace("self.fc = nn.Linear(8, 2)", "self.fc = make_layers(8, 2)")
    (found,) = check(source, CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.INFO)


WARNED = [
    pytest.param(evaluation(), id="a function"),
    pytest.param(evaluation(name="check"), id="a function of another name"),
    pytest.param(
        HEAD + "train(model, batches, optimizer)\nmodel.eval()\nhits = 0\n" + LOOP, id="a script"
    ),
    pytest.param(
        HEAD + "hits = 0\nfor x, y in batches:\n    model = model.eval()\n    out = model(x)\n",
        id="switched in the loop",
    ),
    pytest.param(
        evaluation("logits = model(batches)\n", after="return logits.argmax(1)"),
        id="the whole set at once, in every epoch",
    ),
    pytest.param(
        evaluation(switch="model = model.to(0).eval()"), id="switched where it gets its name"
    ),
    pytest.param(evaluation(switch="model.train(False)"), id="switched by the mode"),
    pytest.param(evaluation(switch="model.train(mode=False)"), id="by the mode, with its name"),
    pytest.param(
        evaluation(switch="model.eval()\nmodel.train(False)"), id="switched by both, one by one"
    ),
    pytest.param(evaluation(switch="model.eval(), other.eval()"), id="switched beside another"),
    pytest.param(
        evaluation(switch="other, model = other.eval(), model.eval()"),
        id="switched beside another where they get their names",
    ),
    pytest.param(
        evaluation("with torch.autocast('cuda'):\n" + textwrap.indent(LOOP, "    ")),
        id="under a context that is known",
    ),
    pytest.param(
        evaluation("for x, y in batches:\n    out = model.forward(x)\n"), id="forward by its name"
    ),
    pytest.param(
        HEAD
        + "context = nullcontext() if quick else torch.autocast('cuda')\nmodel.eval()\n"
        + "with context:\n    for x, y in batches:\n        out = model(x)\n",
        id="under a context by its name",
    ),
]
WARNED[-1] = pytest.param(
    "from contextlib import nullcontext\n" + WARNED[-1].values[0], id=WARNED[-1].id
)


@pytest.mark.parametrize("source", WARNED)
def test_warns(source):
    (found,) = check(source, CODE)
    assert (found.code, found.severity) == (CODE, Severity.WARNING)
    assert "`eval()` alone does not" in found.message
    assert found.fix is not None


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(evaluation(tail=""), id="nobody is seen to call it"),
        pytest.param(
            evaluation(
                "outs = []\nfor x, y in batches:\n    outs.append(model(x))\n",
                after="return torch.cat(outs)",
                name="features",
            ),
            id="what it returns has a graph, and its name does not tell why",
        ),
    ],
)
def test_informs(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE or "caller" in found.message


def test_a_file_that_only_evaluates_may_say_so_by_the_mode():
    head, tail = HEAD.partition("def train(")[0], "\n\nevaluate(model, batches)\n"
    source = evaluation(switch="model.train(False)", tail=tail).replace(HEAD, head)
    assert len(check(source, CODE)) == 1


def test_a_script_with_accelerate_is_only_told():
    (found,) = check("import accelerate\n" + evaluation(), CODE)
    assert (found.severity, found.fix) == (Severity.INFO, None)


def test_volatile_does_nothing():
    source = evaluation("for x, y in batches:\n    out = model(Variable(x, volatile=True))\n")
    (found,) = check(source, CODE)
    assert "since torch 0.4" in found.help


def test_volatile_turns_gradients_off_in_what_is_declared_to_be_for_torch_0_3():
    source = evaluation("for x, y in batches:\n    out = model(Variable(x, volatile=True))\n")
    silent(source, CODE, "0.3.1")
    assert len(check(source, CODE, "0.4")) == 1


def test_volatile_turns_gradients_off_where_only_torch_0_3_runs():
    old = "\n\ndef train(loss):\n    loss.backward()\n    print(loss.data[0])\n"
    source = evaluation("for x, y in batches:\n    out = model(Variable(x, volatile=True))\n")
    assert not check(source + old, CODE)
    plain = evaluation("for x, y in batches:\n    out = model(x)\n")
    (found,) = check(f"{plain}{old}\nz = Variable(y, volatile=True)\n", CODE)
    assert found.fix is None
    assert "torch 0.3" in found.help


RUN = """\
import torch
from torch.autograd import Variable

model = torch.nn.Linear(2, 2)


def wrap(x, off):
    return Variable(x, volatile=off)


def run(net, x, mode="train"):
    volatile = mode != "train"
    return net(Variable(x, volatile=volatile))


def train():
    model.train()
    for x in batches:
        optimizer.zero_grad()
        run(model, x).sum().backward()
        optimizer.step()


def evaluate():
    model.eval()
    return [run(model, x, mode="test").sum().data[0] for x in batches]


for epoch in range(9):
    train()
    evaluate()
"""
IN_TRAINING = """\
    if mode == "train":
        x = Variable(x, volatile=True)
    volatile = mode =="""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        pytest.param("", "", 0, id="by what the mode comes to"),
        pytest.param('mode != "train"', "mode", 0, id="by a parameter"),
        pytest.param('mode != "train"', "True", 0, id="always"),
        pytest.param('mode != "train"', "choose(x)", 0, id="by what is not known"),
        pytest.param("net(Variable(x, volatile=volatile))", "net(wrap(x, volatile))", 0, id="deep"),
        pytest.param('mode="test"', 'mode="train"', 1, id="not in this mode"),
        pytest.param(', mode="test"', "", 1, id="not by default"),
        pytest.param('mode != "train"', "False", 1, id="never"),
        pytest.param("    volatile = mode !=", IN_TRAINING, 1, id="only in training"),
    ],
)
def test_volatile_turns_gradients_off_in_a_function_that_is_called(old, new, count):
    assert len(check(RUN.replace(old, new, 1 if old else 0), CODE, "0.3")) == count


BY_FLAG = """\
import torch
from torch.autograd import Variable

model = torch.nn.Linear(2, 2)


def run(batch, train):
    x = Variable(batch, volatile=not train)
    loss = model(x).sum()
    if train:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.data[0]


for epoch in range(9):
    for batch in batches:
        run(batch, True)
    for batch in others:
        run(batch, False)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        pytest.param("", "", 0, id="by the flag"),
        pytest.param("not train", "train", 1, id="the other way round"),
        pytest.param(", volatile=not train", "", 1, id="never"),
    ],
)
def test_volatile_turns_gradients_off_by_the_flag_that_evaluates(old, new, count):
    assert len(check(BY_FLAG.replace(old, new, 1 if old else 0), CODE, "0.3")) == count


@pytest.mark.parametrize(
    ("z", "given", "count"),
    [
        pytest.param("noise", "Variable(z, volatile=True)", 0, id="made for it"),
        pytest.param("Variable(noise, volatile=True)", "z", 0, id="by a name"),
        pytest.param("wrap(noise)", "z", 0, id="by a function"),
        pytest.param("Variable(noise)", "z", 1, id="a plain variable"),
    ],
)
def test_volatile_turns_gradients_off_of_what_is_only_used_detached(z, given, count):
    source = f"""
        import torch
        from torch.autograd import Variable

        def wrap(x):
            return Variable(x, volatile=True)

        generator, critic = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        for real in batches:
            z = {z}
            fake = generator({given}).detach()
            loss = critic(fake).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    assert len(check(source, CODE, "0.3")) == count


def test_a_loop_within_the_loop_of_another_switch_is_one_finding():
    source = (
        f"{HEAD}\nmodel.eval()\nfor x, y in batches:\n    model.eval()\n"
        "    for part in x.chunk(4):\n        print(model(part).argmax().item())\n"
    )
    (found,) = check(source, CODE)
    assert found.fix is not None


def test_two_loops_of_one_function_are_one_finding():
    assert len(check(evaluation(LOOP + LOOP), CODE)) == 1
    assert len(check(evaluation(LOOP + LOOP, name="check"), CODE)) == 2


@pytest.mark.parametrize(
    ("source", "safety"),
    [
        pytest.param(evaluation(), Safety.SAFE, id="nothing but numbers leaves"),
        pytest.param(
            evaluation(
                f"print('evaluate')\nfor x, y in enumerate(batches):\n    {LOOP[25:].strip()}\n"
            ),
            Safety.SAFE,
            id="what shows numbers",
        ),
        pytest.param(
            evaluation("for x, y in batches:\n    print(model(x))\n"),
            Safety.UNSAFE,
            id="a tensor shows its graph",
        ),
        pytest.param(
            evaluation("for x, y in batches:\n    text = f'{model(x)}'\n"),
            Safety.UNSAFE,
            id="a tensor shows its graph in a string",
        ),
        pytest.param(
            evaluation("for x, y in batches:\n    hits += F.cross_entropy(model(x), y)\n"),
            Safety.UNSAFE,
            id="a tensor with its graph leaves",
        ),
        pytest.param(
            evaluation("for x, y in batches:\n    meter.update(model(x).argmax(1))\n"),
            Safety.UNSAFE,
            id="a function that is not known",
        ),
        pytest.param(
            evaluation("for x, y in batches:\n    hits += (model(x) @ y).item()\n"),
            Safety.UNSAFE,
            id="a product folds by who requires gradients",
        ),
        pytest.param(
            evaluation().replace("nn.Linear(8, 2)", "nn.LSTM(8, 2)"), Safety.UNSAFE, id="an LSTM"
        ),
        pytest.param(
            evaluation().replace("self.fc(x.view(-1, 8))", "self.fc(x) @ x"),
            Safety.UNSAFE,
            id="a product in the model",
        ),
        pytest.param(
            evaluation().replace("return self.fc", "return checked(self).fc"),
            Safety.UNSAFE,
            id="the model calls what is not known",
        ),
        pytest.param(
            evaluation().replace("model = Net()", "model = load()"), Safety.UNSAFE, id="not seen"
        ),
        pytest.param(
            evaluation().replace(
                "model = Net()", "model = nn.Sequential(nn.Flatten(), nn.Linear(8, 2))"
            ),
            Safety.SAFE,
            id="layers in a row",
        ),
        pytest.param(
            evaluation().replace("model = Net()", "model = nn.Sequential(nn.GRU(8, 2))"),
            Safety.UNSAFE,
            id="a recurrent layer in a row",
        ),
        pytest.param(
            evaluation(tail=f"{TAIL}\nmodel.fc.register_forward_hook(keep)\n"),
            Safety.UNSAFE,
            id="a hook",
        ),
    ],
)
def test_is_safe_where_nothing_can_tell(source, safety):
    (found,) = check(source, CODE)
    assert found.fix is not None
    assert found.fix.safety is safety


OLD = "def step(loss):\n    loss.backward()\n    print(loss.data[0])\n"


def test_decorates_a_function_that_evaluates():
    assert fixed(evaluation(), CODE) == evaluation(top="@torch.no_grad()\n")
    static = "class A:\n    @staticmethod\n    # static\n    {}def validate(m, batches):\n"
    static += "        m.eval()\n        for x in batches:\n            m(x)\n"
    before = "import torch\n\n" + static.format("")
    assert fixed(before, CODE) == "import torch\n\n" + static.format("@torch.no_grad()\n    ")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            evaluation(name="check"),
            evaluation("with torch.no_grad():\n" + textwrap.indent(LOOP, "    "), name="check"),
            id="a function that is not named for it",
        ),
        pytest.param(
            evaluation() + OLD,
            evaluation("with torch.no_grad():\n" + textwrap.indent(LOOP, "    ")) + OLD,
            id="code for torch 0.4, where it was no decorator",
        ),
        pytest.param(
            evaluation(top="@functools.cache\n"),
            evaluation(
                "with torch.no_grad():\n" + textwrap.indent(LOOP, "    "), top="@functools.cache\n"
            ),
            id="decorated otherwise",
        ),
        pytest.param(
            HEAD
            + "model.eval()\n# all of them\nfor x in batches:\n    # one\n    model(x)\n# end\n",
            HEAD + "model.eval()\nwith torch.no_grad():\n    # all of them\n    for x in batches:\n"
            "        # one\n        model(x)\n# end\n",
            id="comments",
        ),
        pytest.param(
            "from torch import nn, no_grad\n\nm.eval()\nfor x in y:\n\tm(x)\n",
            "from torch import nn, no_grad\n\nm.eval()\nwith no_grad():\n\tfor x in y:\n\t\tm(x)\n",
            id="the name by which the file knows it",
        ),
        pytest.param(
            "from torch import nn\n\nm.eval()\nfor x in y: m(x)\n",
            "from torch import nn\nimport torch\n\nm.eval()\nwith torch.no_grad():\n"
            "    for x in y: m(x)\n",
            id="an import",
        ),
    ],
)
def test_wraps_a_loop(before, after):
    before = "import functools\n" + before if "functools" in before else before
    after = "import functools\n" + after if "functools" in after else after
    assert fixed(before, CODE) == after


@pytest.mark.parametrize(
    ("target", "decorates"),
    [("0.4", False), ("0.4.0", False), ("0.4.1", True), ("1.0", True), ("any", True)],
)
def test_wraps_a_loop_where_no_grad_may_be_no_decorator(target, decorates):
    block = evaluation("with torch.no_grad():\n" + textwrap.indent(LOOP, "    "))
    after = evaluation(top="@torch.no_grad()\n") if decorates else block
    assert fixed(evaluation(), CODE, target=target) == after


@pytest.mark.parametrize(
    ("text", "decorates"),
    [
        pytest.param("Needs PyTorch 0.4.", False, id="an old one"),
        pytest.param("Runs with PyTorch 0.4 to PyTorch 2.1.", False, id="or newer"),
        pytest.param("Needs PyTorch 1.0.", True, id="one that has it"),
    ],
)
def test_wraps_a_loop_where_a_readme_names_torch_0_4_0(tmp_path, text, decorates):
    (found,) = check_in(tmp_path, {"README.md": text, "a.py": evaluation()}, "a.py", CODE)
    assert found.fix is not None
    assert found.fix.title.startswith("Decorate") is decorates


def test_no_fix_where_torch_is_something_else():
    source = "from torch import nn\ntorch = load()\nm.eval()\nfor x in y:\n    m(x)\n"
    (found,) = check(source, CODE)
    assert found.fix is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "z = teacher(x)  # target\nloss = F.mse_loss(model(x), z.detach())\n",
            "with torch.no_grad():\n    z = teacher(x)  # target\n"
            "loss = F.mse_loss(model(x), z.detach())\n",
            id="detached where it is used",
        ),
        pytest.param(
            "z = teacher(x).detach()\nloss = F.mse_loss(model(x), z)\n",
            "with torch.no_grad():\n    z = teacher(x).detach()\nloss = F.mse_loss(model(x), z)\n",
            id="detached at once",
        ),
    ],
)
def test_wraps_a_forward_pass_whose_graph_is_dropped(before, after):
    update = "loss.backward()\noptimizer.step()\n"
    (found,) = check(step(before + update), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.WARNING)
    assert fixed(step(before + update), CODE) == step(after + update)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("loss = F.mse_loss(model(x), teacher(x).detach())\n", id="in a loss"),
        pytest.param("z = teacher(x).max(1)[0].detach()\nloss = f(model(x), z)\n", id="a target"),
        pytest.param("z = (y + 0.9 * teacher(x)).detach()\nloss = f(model(x), z)\n", id="a sum"),
        pytest.param("loss = f(model(x))\nkeep(torch.exp(teacher(x)).detach())\n", id="shown"),
    ],
)
def test_reports_other_dropped_graphs_without_a_fix(body):
    (found,) = check(step(f"{body}loss.backward()\noptimizer.step()\n"), CODE)
    assert (found.code, found.fix) == ("TL401b", None)


def for_an_option(condition: str, *lines: str) -> str:
    """Return a training step with a block under a condition before its update."""
    block = textwrap.indent("\n".join(lines), "    ")
    return step(
        f"loss = f(model(x))\nif {condition}:\n{block}\nloss.backward()\noptimizer.step()\n"
    )


TERM = ("z = teacher(y).detach()", "extra = F.mse_loss(model(x), z)", "extra.backward()")


@pytest.mark.parametrize(
    ("condition", "lines"),
    [
        pytest.param("args.log_features", TERM, id="to look at it"),
        pytest.param("epoch % 5 == 0", TERM, id="now and then"),
        pytest.param(
            "args.shown", ("z = teacher(y).detach()", "show(z)"), id="no term of the loss"
        ),
        pytest.param(
            "args.perceptual", ("z = teacher(y).detach() if late else y", *TERM[1:]), id="chosen"
        ),
        pytest.param("args.perceptual", ("if late:", f"    {TERM[0]}", *TERM[1:]), id="decided"),
        pytest.param(
            "args.perceptual", ("if i % 9:", "    continue", *TERM), id="some turns go on"
        ),
    ],
)
def test_leaves_alone_what_an_option_asks_for_seldom_or_to_look(condition, lines):
    silent(for_an_option(condition, *lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(TERM, id="a pass back of its own"),
        pytest.param((*TERM[:2], "loss = loss + extra"), id="added to the loss"),
        pytest.param(("z = teacher(y)", "loss += F.mse_loss(model(x), z.detach())"), id="in place"),
    ],
)
def test_an_option_that_asks_for_a_term_of_the_loss_asks_in_each_step(lines):
    (found,) = check(for_an_option("args.perceptual", *lines), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.WARNING)
    assert "teacher(y)" in found.message


def test_a_network_of_another_file_may_keep_what_it_computes():
    body = "z = other(x).detach()\nloss = f(model(x), z)\nloss.backward()\n"
    (found,) = check(f"other = load()\nother.parameters()\n{step(body)}", CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.INFO)


# -- a whole data set in one batch ------------------------------------------------------------

WHOLE = (
    HEAD
    + """\
x, y, optimizer = load()


def step(epoch):
    model.train()
    out = model(x)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if not quick:
        model.eval()
        out = model(x)
    BODY


def test():
    model.eval()
    out = model(x)
    BODY


for epoch in range(9):
    step(epoch)
test()
"""
)
SHOWN = "held_out = F.cross_entropy(out, y)\n    print(held_out.item(), accuracy(out, y).item())"


def whole(body: str = SHOWN) -> str:
    """Return a script that evaluates behind each step, and once at the end."""
    return WHOLE.replace("BODY", body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(SHOWN, id="a loss and a score"),
        pytest.param("print((out.argmax(1) == y).sum().item())", id="labels"),
        pytest.param(
            "total = 0\n    total += F.cross_entropy(out, y)\n    print(total)", id="added"
        ),
        pytest.param("a, b = F.cross_entropy(out, y), 1\n    print(a.item(), b)", id="by a tuple"),
        pytest.param("if out.mean() > best:\n        print('better')", id="decided by"),
    ],
)
def test_a_single_forward_pass_whose_output_is_only_read(body):
    behind, last = check(whole(body), CODE)
    assert (behind.severity, last.severity) == (Severity.WARNING, Severity.INFO)
    assert behind.fix is not None
    assert last.fix is not None


PSNR = """\
def psnr(image, clean):
    image = {}
    return other.psnr(image, clean.data.cpu().numpy())


"""


@pytest.mark.parametrize(
    ("image", "ends"),
    [
        ("image.data.cpu().numpy()", True),
        ("image.detach() * 255", True),
        ("image.argmax(1)", True),
        ("image.clamp(0, 1)", False),  # and then, who knows
        ("keep(image)", False),
        ("clean.shape", False),  # nothing is done with it
    ],
)
def test_a_function_of_the_project_that_reads_an_output(image: str, ends: bool) -> None:
    found = check(PSNR.format(image) + whole("value = psnr(out, y)\n    show(value)"), CODE)
    assert len(found) == 2 * ends


def test_turns_gradients_off_for_the_single_statement_or_the_function():
    after = fixed(whole(), CODE)
    assert (
        "        model.eval()\n        with torch.no_grad():\n            out = model(x)\n" in after
    )
    assert "@torch.no_grad()\ndef test():\n    model.eval()\n    out = model(x)\n" in after


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("print('done')", id="nobody reads it"),
        pytest.param("F.cross_entropy(out, y).backward()", id="a gradient"),
        pytest.param("late = F.cross_entropy(out, y)\n    late.backward()", id="a later gradient"),
        pytest.param("scaler.scale(F.cross_entropy(out, y)).backward()", id="a scaled gradient"),
        pytest.param(
            "print(torch.autograd.grad(out.sum(), x)[0].norm().item())", id="by the input"
        ),
        pytest.param("print(update(out).item())", id="to a function that is not seen"),
        pytest.param("losses.append(F.cross_entropy(out, y))", id="kept in a list"),
        pytest.param("state.loss = F.cross_entropy(out, y)", id="kept on an object"),
        pytest.param("state['loss'] = F.cross_entropy(out, y)", id="kept under a key"),
        pytest.param("return F.cross_entropy(out, y)", id="returned"),
        pytest.param("print(train_score(out))", id="a function that trains and gives a number"),
    ],
)
def test_leaves_a_single_forward_pass_alone_whose_output_goes_on(body):
    trains = "def train_score(out):\n    out.sum().backward()\n    return out.sum().item()\n\n\n"
    silent(trains + whole(body), CODE)


def test_a_single_forward_pass_counts_only_where_the_file_trains():
    source = HEAD[: HEAD.index("def train(")] + "model.eval()\nout = model(x)\nprint(out.mean())\n"
    silent(source, CODE)


def test_a_loop_over_parts_of_the_output_does_not_hide_the_forward_pass():
    body = "out, hits = model(batches), []\nfor part in parts:\n    hits.append(out[part].sum())\n"
    (found,) = check(evaluation(body), CODE)
    assert found.severity is Severity.WARNING


def test_a_variable_of_autograd_asks_for_nothing():
    for name in ("torch.autograd.Variable", "autograd.Variable"):
        body = f"for x, y in batches:\n    out = model({name}(x))\n"
        (found,) = check(evaluation(body), CODE)
        assert found.severity is Severity.WARNING
        silent(evaluation(body.replace("(x))", "(x, requires_grad=True))")), CODE)


def test_an_evaluation_that_reads_a_clock_is_no_benchmark():
    clock = "start = time.time()\n"
    used = "for x, y in batches:\n    out = model(x)\n    hits += out.argmax(1).sum().item()\n"
    after = "print(time.time() - start)"
    (found,) = check("import time\n" + evaluation(clock + used, after=after), CODE)
    assert found.severity is Severity.WARNING
    for line in ("out = model(x)", "model(x)"):
        unused = f"for x, y in batches:\n    {line}\n"
        silent("import time\n" + evaluation(clock + unused, after=after), CODE)


# -- what is only read while training -----------------------------------------------------------

UPDATE = "loss = f(model(x))\nloss.backward()\noptimizer.step()\n"


def now_and_then(line: str) -> str:
    """Return a training step with a forward pass under a condition."""
    return "held_out = load()\n" + step(f"{UPDATE}if step % 9 == 0:\n    {line}\n")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("z = teacher(x)\nprint((z.argmax(1) == y).sum())\n", id="labels"),
        pytest.param("z = teacher(x)\nchosen = torch.max(z, 1)[1].cpu().numpy()\n", id="places"),
        pytest.param("z = F.mse_loss(teacher(x), y)\nprint(z.item())\n", id="a number"),
        pytest.param("z, w = teacher(x)\nprint(z.argmax(), w.argmax())\n", id="two results"),
        pytest.param("z, w = teacher(x)\nkept.append((z.detach(), w.data))\n", id="detached"),
    ],
)
def test_warns_of_what_is_only_read_in_every_step(line):
    (found,) = check(step(line + UPDATE), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.WARNING)
    assert "used of its result has a graph" in found.message


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("z = teacher(x)\nz.sum().backward()\n", id="a gradient"),
        pytest.param("z = teacher(x)\nkept.append(z)\nprint(z.argmax())\n", id="kept"),
        pytest.param(
            "z = teacher(x)\nself.loss += F.mse_loss(z, y)\nprint(z.argmax())\n", id="added up"
        ),
        pytest.param("z = teacher(x)\nsums[0] += z.sum()\nprint(z.argmax())\n", id="in a list"),
        pytest.param("z = teacher(x)\nchosen = draw(z).item()\n", id="to what is not seen"),
        pytest.param("z = teacher(x)\nv = losses[step](z).item()\n", id="to one of a list"),
        pytest.param("z = teacher(x)\nv = self.heads[0](z).item()\n", id="to one of an own list"),
        pytest.param("z = teacher(x)\nv = pick()(z).item()\n", id="to what a call gives"),
        pytest.param("z, w = teacher(x)\nprint(z.argmax())\nkept.append(w)\n", id="one of two"),
        pytest.param("teacher(x)\n", id="nobody reads it"),
        pytest.param(
            "with torch.no_grad():\n    z = model(x)\nv = criterion(z, y)\nprint(v.item())\n",
            id="a loss",
        ),
        pytest.param("z = teacher(x)\nassert z.shape == (4, 2)\n", id="a look at its shape"),
    ],
)
def test_leaves_alone_what_goes_on(line):
    silent(step(line + UPDATE), CODE)


def test_a_held_out_batch_while_training_is_advice():
    (found,) = check(now_and_then("z = model(held_out)\n    print(z.argmax(1).sum())"), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.INFO)
    assert "whenever it runs" in found.message
    assert found.fix is not None
    silent(now_and_then("z = model(x)\n    print(z.argmax(1).sum())"), CODE)


# -- what is only read where a model is tuned before it is tested ------------------------------

TUNED = """
import copy
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))
        self.mean = nn.Parameter(torch.zeros(4), requires_grad=False)

    def forward(self, x):
        return F.linear(x - self.mean, self.weight)

model = Net()

def fit(x, y):
    F.cross_entropy(model(x), y).backward()

def tune(x, y, asked, right):
    net = copy.deepcopy(model)
    scores = []
    for turn in range(9):
        loss = F.cross_entropy(net(x), y)
        grads = torch.autograd.grad(loss, [*net.parameters()])
        update(net, grads)
        out = net(asked)
        missed = F.cross_entropy(out, right)
        scores.append((out.argmax(1) == right).sum().item())
    return scores

print(tune(*load()))
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("torch.autograd.grad(", "differ(", id="nothing asks for gradients"),
        pytest.param("    for turn in range(9):", "    if x is not y:", id="in no loop"),
        pytest.param("grads =", "for part in loss: grads =", id="gradients in another loop"),
        pytest.param("grad(loss,", "grad(loss + out.sum(),", id="a gradient of it"),
        pytest.param("missed =", "self.missed =", id="a loss that is kept"),
        pytest.param("(torch.ones(4, 4))", "(torch.ones(4, 4), False)", id="nothing to record"),
        pytest.param(
            "self.weight = nn.Parameter(torch.ones(4, 4))",
            "self.weight = torch.ones(4, 4)",
            id="no other parameter",
        ),
        pytest.param("print(tune", "with torch.no_grad(): print(tune", id="no gradients"),
    ],
)
def test_leaves_alone_what_is_tuned(old, new):
    assert old in TUNED
    silent(TUNED.replace(old, new), CODE)


def test_tells_of_what_is_only_read_beside_gradients():
    (found,) = check(TUNED, CODE)
    assert (found.code, TUNED.splitlines()[found.location.row - 1].strip()) == (
        "TL401b",
        "out = net(asked)",
    )
    assert "is recorded whenever it runs" in found.message


# -- one function for both ------------------------------------------------------------------------

BOTH = (
    HEAD
    + """\
def run(batches, optimizer=None, training=True):
    total = 0
    for x, y in batches:
        loss = F.cross_entropy(model(x), y)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
    return total


for epoch in range(9):
    run(batches, optimizer)
    run(held_out, training=False)
"""
)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(BOTH, id="a flag"),
        pytest.param(BOTH.replace("if training", "if optimizer is not None"), id="no optimizer"),
        pytest.param(BOTH.replace("model(x)", "model.forward(x)"), id="forward by its name"),
    ],
)
def test_a_function_that_trains_or_evaluates_by_a_flag(source):
    (found,) = check(source, CODE)
    assert (found.code, found.severity, found.fix) == (CODE, Severity.WARNING, None)
    assert "`run(held_out, training=False)` runs it" in found.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    run(held_out, training=False)\n", "", id="it always trains"),
        pytest.param("training=False", "training=training", id="not known"),
        pytest.param("training=False", "**options", id="hidden by stars"),
        pytest.param("    run(held_out", "    with torch.no_grad(): run(held_out", id="the caller"),
        pytest.param(
            "    for x, y in batches:\n        loss = F.cross_entropy(model(x), y)\n        if t",
            "    for x, y in batches:\n        with torch.set_grad_enabled(training):\n"
            "            loss = F.cross_entropy(model(x), y)\n        if t",
            id="asked by the flag",
        ),
        pytest.param("return total", "return loss", id="the caller may ask"),
        pytest.param("total += loss.item()", "kept.append(loss)", id="kept for later"),
        pytest.param(
            "total += loss.item()",
            "total += torch.autograd.grad(loss, x)[0].norm().item()",
            id="another gradient",
        ),
        pytest.param(
            "total += loss.item()", "train(model, batches, optimizer)", id="in a function"
        ),
        pytest.param("if training", "training = True\n        if training", id="set again"),
        pytest.param("if training", "if epoch % 2", id="no flag"),
    ],
)
def test_leaves_a_function_for_both_alone(old, new):
    assert old in BOTH
    silent(BOTH.replace(old, new), CODE)


# The same, by a flag that says what is left out.
NEGATED = (
    BOTH.replace("training=True", "validating=False")
    .replace("if training", "if not validating")
    .replace("training=False", "validating=True")
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("validating=True", "validating=False", id="it always trains"),
        pytest.param("validating=True", "validating=validating", id="not known"),
        pytest.param("(held_out, validating=True)", "(held_out)", id="it trains by default"),
        pytest.param(
            "        total +=",
            "        else:\n            scaler.scale(loss).backward()\n        total +=",
            id="the other way asks for gradients",
        ),
        pytest.param(
            "        total +=",
            "        else:\n            engine.learn(loss)\n        total +=",
            id="the other way is not seen",
        ),
    ],
)
def test_leaves_a_function_alone_that_may_go_back_either_way(old, new):
    assert old in NEGATED
    silent(NEGATED.replace(old, new), CODE)


def test_a_function_that_trains_unless_a_flag_is_up():
    (found,) = check(NEGATED, CODE)
    assert (found.code, found.severity, found.fix) == (CODE, Severity.WARNING, None)
    assert "`run(held_out, validating=True)` runs it" in found.message


# The same, by what a parameter is compared with.
PHASES = (
    BOTH.replace("training=True", 'phase="train"')
    .replace("    total = 0\n", '    total = 0\n    training = phase == "train"\n')
    .replace("training=False", 'phase="val"')
)
BACK = """\
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
"""
LEAVES = """\
        total += loss.item()
        if not training:
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
OTHER = """\
        if phase == "val":
            print(loss.item())
        else:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param('phase="val"', 'phase="train"', id="it always trains"),
        pytest.param('phase="val"', "phase=phase", id="not known"),
        pytest.param('phase="val"', "**options", id="hidden by stars"),
        pytest.param('phase == "train"', 'phase in ("train", "val")', id="it trains in both"),
        pytest.param('phase == "train"', "phase == first", id="compared with what is not known"),
        pytest.param('phase == "train"', "phase == 'train' or tune", id="or by an option"),
        pytest.param('training = phase == "train"', "training = False", id="nothing ever trains"),
        pytest.param(
            'training = phase == "train"',
            'training = phase == "train"\n    if tune: training = True',
            id="set again",
        ),
        pytest.param("    run(held_out", "    with torch.no_grad(): run(held_out", id="the caller"),
        pytest.param("return total", "return loss", id="the caller may ask"),
        pytest.param(
            "        loss = F.cross_entropy(model(x), y)\n",
            "        if training:\n            loss = F.cross_entropy(model(x), y)\n"
            "        else:\n            with torch.no_grad():\n"
            "                loss = F.cross_entropy(model(x), y)\n",
            id="off there in evaluation",
        ),
        pytest.param(
            "        loss = F.cross_entropy(model(x), y)\n",
            "        if model.training:\n            loss = F.cross_entropy(model(x), y)\n"
            "        else:\n            with torch.no_grad():\n"
            "                loss = F.cross_entropy(model(x), y)\n",
            id="off there by the mode",
        ),
        pytest.param(
            BACK,
            LEAVES.replace("            continue", "            loss.sum().backward()"),
            id="it goes on",
        ),
        pytest.param(
            BACK,
            LEAVES.replace("continue", "engine.learn(loss)\n            continue"),
            id="it leaves after what is not seen",
        ),
        pytest.param(BACK, OTHER.replace('"val"', '"test"'), id="it trains in that phase"),
        pytest.param(
            BACK, OTHER.replace("print(loss.item())", "engine.learn(loss)"), id="not seen"
        ),
    ],
)
def test_leaves_a_function_alone_that_may_train_in_the_phase_of_a_call(old: str, new: str) -> None:
    assert old in PHASES
    silent(PHASES.replace(old, new), CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "", id="a name for it"),
        pytest.param("if training:", 'if phase == "train":', id="asked itself"),
        pytest.param("if training:", 'if phase == "train" and not frozen:', id="and more"),
        pytest.param(
            'training = phase == "train"', "training = optimizer is not None", id="no optimizer"
        ),
        pytest.param(BACK, LEAVES, id="it goes to the next turn"),
        pytest.param(BACK, OTHER, id="the other way"),
    ],
)
def test_a_function_that_trains_in_one_phase_only(old: str, new: str) -> None:
    (found,) = check(PHASES.replace(old, new), CODE)
    assert (found.code, found.severity, found.fix) == (CODE, Severity.WARNING, None)
    assert '`run(held_out, phase="val")` runs it' in found.message


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("print(loss)", id="shown"),
        pytest.param("meter.update(loss.item(), len(x))", id="numbers"),
        pytest.param("worst = torch.max(worst, loss.detach())", id="torch"),
    ],
)
def test_the_other_way_may_look_at_the_loss(line):
    other = f"        else:\n            {line}\n        total +="
    assert len(check(NEGATED.replace("        total +=", other), CODE)) == 1


# -- what is only read between the epochs -------------------------------------------------------

EPOCHS = """
import torch
from torch.autograd import Variable

{head}
generator = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(generator.parameters(), 0.1)
fixed = torch.randn(9, 4)

def train():
    for x in loader:
        optimizer.zero_grad()
        generator(x).sum().backward()
        optimizer.step()

def look():
{body}

for epoch in range(9):
    train()
    {call}
"""


def between(body: str, call: str = "look()", head: str = "") -> str:
    """Return a script with a function that runs between the epochs."""
    return EPOCHS.format(body=textwrap.indent(body, "    "), call=call, head=head)


@pytest.mark.parametrize("call", ["look()", "if epoch % 3 == 0:\n        look()"])
def test_tells_of_what_is_only_read_between_the_epochs(call):
    body = "images = generator(fixed).cpu().data.numpy()[:64]\nsave(images)"
    (found,) = check(between(body, call), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.INFO)
    assert "is recorded whenever it runs" in found.message


@pytest.mark.parametrize(
    ("body", "call"),
    [
        pytest.param("images = generator(fixed)\nsave(images)", "look()", id="goes anywhere"),
        pytest.param("return generator(fixed)", "look()", id="is returned"),
        pytest.param("z = generator(fixed)\nz.sum().backward()", "look()", id="a gradient"),
        pytest.param("generator(fixed)", "look()", id="not used"),
        pytest.param(
            "save(generator(fixed).data)",
            "with torch.no_grad():\n        look()",
            id="no gradients",
        ),
        pytest.param(
            "z = Variable(fixed, volatile=True)\nsave(generator(z).data)", "look()", id="volatile"
        ),
    ],
)
def test_leaves_alone_between_the_epochs(body, call):
    head = OLD if "volatile" in body else ""
    silent(between(body, call, head), CODE)


def test_other_results_that_nobody_names():
    line = "z, _, _ = teacher(x)\nprint(z.argmax())\n"
    (found,) = check(step(line + UPDATE), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.WARNING)


@pytest.mark.parametrize("names", ["z, unused", "unused, z", "[_, unused, z]"])
def test_other_results_that_nobody_reads(names):
    line = f"{names} = teacher(x)\nprint(z.argmax())\n"
    (found,) = check(step(line + UPDATE), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.WARNING)


MEASURE = """\
class Precision(torch.nn.Module):
    def __init__(self, least):
        super().__init__()
        self.least = least

    def forward(self, output, target):
        found = (output > self.least).float()
        wanted = (target > self.least).float()
        hits = (found * wanted).sum()
        return hits / (found.sum() + 1e-8), hits / (wanted.sum() + 1e-8)


measure = Precision(0.5)
"""


@pytest.mark.parametrize(
    ("found", "count"),
    [
        pytest.param("(output > self.least).float()", 0, id="counts"),
        pytest.param("(output - self.least).relu()", 1, id="what has a graph"),
    ],
)
def test_a_module_that_measures(found, count):
    loop = "output = model(x)\na, b = measure(output, y)\nlog(a.item(), b.item())\n"
    loop += "loss = f(output)\nloss.backward()\noptimizer.step()\n"
    source = MEASURE.replace("(output > self.least).float()", found) + step(loop)
    assert source.count(found) == 1
    assert len(check("import torch\n" + source, CODE)) == count


# -- methods that run layers, and distributions ---------------------------------------------------

POLICY = """\
import torch
import torch.nn as nn
from torch.distributions import Categorical, Normal

log = []


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.chosen = []
        self.optimizer = torch.optim.Adam(self.parameters())

    def chances(self, x):
        return self.fc(x).softmax(0)

    def shape(self, x):
        return x.shape

    def learn(self, x):
        loss = self.chances(x).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main(env):
    policy = Policy()
    for episode in range(9):
        x, done = env.reset(), False
        while not done:
            chances = policy.chances(x)
            action = Categorical(chances).sample()
            x, reward, done, _ = env.step(action.item())
            kept = chances[action].item()
        policy.learn(x)
"""
ACTS = "action = Categorical(chances).sample()"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("chances = policy.chances(x)", "chances = policy.shape(x)", id="no layers"),
        pytest.param(
            "    def chances", "    @torch.no_grad()\n    def chances", id="no gradients there"
        ),
        pytest.param(
            "return self.fc(x).softmax(0)",
            "x = x + 1\n        with torch.no_grad():\n            y = self.fc(x)\n"
            "        return y.softmax(0)",
            id="no gradients in it",
        ),
        pytest.param(
            "policy = Policy()",
            "policy = Policy()\n    policy.requires_grad_(False)",
            id="a frozen network",
        ),
        pytest.param("return self.fc(x).softmax(0)", "yield self.fc(x)", id="a generator"),
        pytest.param(
            "return self.fc(x).softmax(0)",
            "y = self.fc(x).softmax(0)\n        self.last = y\n        return y",
            id="keeps it",
        ),
        pytest.param(
            "return self.fc(x).softmax(0)",
            "y = self.fc(x).softmax(0)\n        self.chosen.append(y)\n        return y",
            id="keeps it in a list",
        ),
        pytest.param(
            "return self.fc(x).softmax(0)",
            "y = self.fc(x).softmax(0)\n        log.append(y)\n        return y",
            id="keeps it in a list of the file",
        ),
        pytest.param(
            "return self.fc(x).softmax(0)",
            "return self.note(self.fc(x).softmax(0))\n\n"
            "    def note(self, y):\n        self.chosen.append(y)\n        return y",
            id="keeps it in another method",
        ),
        pytest.param("kept = chances[action].item()", "log.append(chances)", id="kept"),
        pytest.param(
            ACTS,
            "spread = Categorical(chances)\n            action = spread.sample()\n"
            "            log.append(spread.log_prob(action))",
            id="its logarithm is kept",
        ),
        pytest.param(
            ACTS,
            "action = Normal(chances, 1).rsample()\n            log.append(action)",
            id="drawn with gradients",
        ),
        pytest.param(
            ACTS,
            "action = Guess(chances).sample()",
            id="what draws is not known",
        ),
        pytest.param(ACTS, "action = chances.sample()", id="another way to draw"),
        pytest.param("    def chances", "    @remember\n    def chances", id="another decorator"),
    ],
)
def test_leaves_a_method_of_a_network_alone(old, new):
    assert old in POLICY
    silent(POLICY.replace(old, new), CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "", id="a number of it, and what is drawn"),
        pytest.param(
            "return self.fc(x).softmax(0)",
            "parts = []\n        parts.append(self.fc(x))\n        return parts[0].softmax(0)",
            id="a list of its own",
        ),
        pytest.param(
            ACTS,
            "spread = Categorical(chances)\n            action = spread.sample()\n"
            "            log.append(spread.log_prob(action).item())",
            id="the number of its logarithm",
        ),
        pytest.param(ACTS, "action = Normal(chances, 1).rsample().detach()", id="detached"),
        pytest.param(
            "return self.fc(x).softmax(0)",
            "return self.forward(x).softmax(0)\n\n"
            "    def forward(self, x):\n        return self.fc(x)",
            id="by the forward pass of the network",
        ),
    ],
)
def test_tells_of_what_an_acting_loop_records(old, new):
    (found,) = check(POLICY.replace(old, new), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.WARNING)
    assert "`policy.chances(x)` is recorded in every training step" in found.message


EITHER = """\
import torch
from torch import nn


class Close(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def draw(self, x):
        return self.fc(x), x

    def to(self, device):
        return super().to(device)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.last = nn.Linear(4, 2), None

    def draw(self, x):
        y = self.fc(x)
        return y, x


class Agent:
    def __init__(self, close):
        if close:
            self.policy = Close().to("cuda")
        else:
            self.policy = Wide().to("cuda")

    def act(self, x):
        y, _ = self.policy.draw(x)
        return y.detach().cpu().numpy()

    def learn(self, x):
        loss = self.policy.draw(x)[0].sum()
        loss.backward()


agent = Agent(args.close)
for episode in range(9):
    x = env.reset()
    for step in range(9):
        x, _, _, _ = env.step(agent.act(x))
    agent.learn(x)
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        pytest.param("", "", 1, id="either"),
        pytest.param("y = self.fc(x)\n", "y = self.last = self.fc(x)\n", 0, id="one keeps it"),
        pytest.param("Wide().to", "build().to", 0, id="one is not seen"),
        pytest.param("y = self.fc(x)\n", "y = x + 1\n", 0, id="one runs no layer"),
        pytest.param("return super().to(device)", "return super().train()", 0, id="not moved"),
        pytest.param("return super().to(device)", "return self.fc.to(device)", 0, id="a part"),
        pytest.param("return super().to(device)", "return device", 0, id="moved to who knows what"),
    ],
)
def test_a_method_of_one_network_or_another(old, new, found):
    assert len(check(EITHER.replace(old, new), CODE)) == found


PARTS = """\
import torch
from torch import nn


class Novelty(nn.Module):
    def __init__(self):
        super().__init__()
        self.target, self.guess = nn.Linear(4, 2), nn.Linear(4, 2)
        {more}

    def forward(self, x):
        return self.guess(x), self.target(x)


model = Novelty().to("cuda")
optimizer = torch.optim.SGD(model.guess.parameters(), lr=0.1)
for x in batches:
    wanted = model.target(x)
    loss = (model.guess(x) - wanted.detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("more", "found"),
    [
        pytest.param("pass", 1, id="that it may train"),
        pytest.param(
            "for w in self.target.parameters():\n            w.requires_grad = False",
            0,
            id="that it freezes",
        ),
    ],
)
def test_a_part_of_a_network(more, found):
    assert len(check(PARTS.format(more=more), CODE)) == found


def test_turns_gradients_off_for_a_method_of_a_network():
    line = "chances = policy.chances(x)\n"
    after = fixed(POLICY, CODE)
    assert after == POLICY.replace(line, f"with torch.no_grad():\n                {line}")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param("w.requires_grad = True", 1, id="told to"),
        pytest.param("w.requires_grad_()", 1, id="told to by a method"),
        pytest.param("w = torch.zeros(1, requires_grad=True)", 1, id="made so"),
        pytest.param("w.requires_grad = False", 0, id="told not to"),
        pytest.param("w.requires_grad_(flag)", 0, id="told by a flag"),
        pytest.param("w = torch.zeros(1, requires_grad=flag)", 0, id="made by a flag"),
        pytest.param("print(w.requires_grad)", 0, id="asked"),
    ],
)
def test_a_network_that_says_what_requires_gradients(line, found):
    told = f"self.chosen = []\n        {line}"
    assert len(check(POLICY.replace("self.chosen = []", told), CODE)) == found


# -- what was volatile ----------------------------------------------------------------------------

VOLATILE = """\
import torch
from torch.autograd import Variable


class Holder:
    def __init__(self):
        self.net = torch.nn.Linear(4, 4)

    def look(self, batch):
        self.given = Variable(batch, volatile=True)
        self.shown = self.net.forward(self.given)


holder = Holder()
holder.look(load())
"""
RUNS = "self.shown = self.net.forward(self.given)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(", volatile=True", "", id="a plain variable"),
        pytest.param(", volatile=True", ", volatile=flag", id="by a flag"),
        pytest.param(RUNS, f"with torch.no_grad():\n            {RUNS}", id="no gradients"),
        pytest.param("holder.look", "with torch.no_grad():\n    holder.look", id="by the caller"),
        pytest.param(RUNS, f"self.given = Variable(batch)\n        {RUNS}", id="made anew"),
        pytest.param(RUNS, "self.shown = self.net.forward(batch)", id="of something else"),
        pytest.param(RUNS, "self.shown = show(self.given)", id="not known to be a module"),
        pytest.param("class Holder", f"{OLD}\n\nclass Holder", id="for torch 0.3"),
    ],
)
def test_leaves_alone_what_was_volatile(old, new):
    assert old in VOLATILE
    silent(VOLATILE.replace(old, new), CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "", id="by an attribute"),
        pytest.param("self.net.forward(", "self.net(", id="called"),
        pytest.param("self.given", "given", id="by a name"),
        pytest.param(RUNS, "self.net(Variable(batch, volatile=True))", id="at once"),
    ],
)
def test_a_variable_that_was_to_record_nothing(old, new):
    (found,) = check(VOLATILE.replace(old, new), CODE)
    assert (found.code, found.severity) == (CODE, Severity.WARNING)
    assert "`volatile=True` has had no effect since torch 0.4" in found.message


def test_a_variable_that_was_to_record_nothing_for_callers_that_are_not_seen():
    (found,) = check(VOLATILE[: VOLATILE.index("\n\nholder")], CODE)
    assert found.severity is Severity.INFO
    assert "unless its caller" in found.message


def test_records_nothing_of_what_was_volatile():
    after = fixed(VOLATILE, CODE)
    assert after == VOLATILE.replace(RUNS, f"with torch.no_grad():\n            {RUNS}")


# -- networks that nobody trains ------------------------------------------------------------------

COPIED = """\
import copy
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.fc = nn.Linear(size, 2)

    def forward(self, x):
        return self.fc(x)


def blend(target, source):
    for a, b in zip(target.parameters(), source.parameters()):
        a.data.copy_(0.9 * a.data + 0.1 * b.data)


class Agent:
    def __init__(self):
        self.net = Net()
        self.target = Net()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, x, y):
        value = y + self.target(x)
        loss = F.mse_loss(self.net(x), value)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        blend(self.target, self.net)


agent = Agent()
for x, y in load():
    agent.update(x, y)
"""
LOADS = "self.target.load_state_dict(self.net.state_dict())"
SCRIPT = """\
net, optimizer = Net(), make()
target = Net()
target.load_state_dict(net.state_dict())
target.eval()
for x, y in load():
    loss = F.mse_loss(net(x), y + target(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "", id="copied by a function"),
        pytest.param("blend(self.target, self.net)", LOADS, id="loaded"),
        pytest.param("self.target = Net()", "self.target = copy.deepcopy(self.net)", id="deep"),
        pytest.param("self.target = Net()", "self.target = Net(8).to(device).eval()", id="moved"),
        pytest.param(
            "blend(self.target, self.net)",
            "with torch.no_grad():\n"
            "            for a, b in zip(self.target.parameters(), self.net.parameters()):\n"
            "                a.mul_(0.9).add_(0.1 * b)",
            id="copied in place",
        ),
        pytest.param("y + self.target(x)", "y + self.target(self.target(x))", id="one of another"),
        pytest.param(COPIED[COPIED.index("class Agent") :], SCRIPT, id="a script"),
    ],
)
def test_a_network_that_only_gets_copies(old, new):
    (found, *others) = check(COPIED.replace(old, new), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.WARNING)
    assert "is never trained" in found.message
    assert len(others) == ("target(self.target" in new)


def test_no_gradients_for_a_network_that_only_gets_copies():
    source = COPIED.replace("y + self.target(x)", "self.target(x)")
    block = "with torch.no_grad():\n            value = self.target(x)"
    assert fixed(source, CODE) == source.replace("value = self.target(x)", block)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "Adam(self.net.parameters())", "Adam(self.target.parameters())", id="an optimizer"
        ),
        pytest.param(
            "blend(self.target, self.net)", "train(self.target)", id="to what is not seen"
        ),
        pytest.param("blend(self.target, self.net)", "pass", id="nothing is copied"),
        pytest.param("a.data.copy_(0.9 * a.data + 0.1 * b.data)", "a.grad = b", id="gradients"),
        pytest.param("a.data.copy_(0.9 * a.data + 0.1 * b.data)", "keep(a)", id="kept"),
        pytest.param("self.target(x)", "self.target(self.net(x))", id="another network before it"),
        pytest.param("agent.update(x, y)", "agent.update(model(x), y)", id="a network in the call"),
        pytest.param("self.target = Net()", "self.target = self.net", id="the same network"),
        pytest.param("self.target = Net()", "self.target = Net(self.net)", id="of its parts"),
        pytest.param(
            "self.target = Net()",
            "self.target = Net()\n        self.target.requires_grad_(False)",
            id="frozen",
        ),
        pytest.param(
            "self.target = Net()",
            "self.target = Net()\n        self.target.fc = self.net.fc",
            id="a part of another",
        ),
        pytest.param("class Agent:", "class Agent(nn.Module):", id="a part of a module"),
        pytest.param(
            "    def forward", "    @torch.no_grad()\n    def forward", id="off in the network"
        ),
        pytest.param("agent = Agent()", "agent = Agent()\nfit(agent.target)", id="from outside"),
        pytest.param(
            "value = y + self.target(x)",
            "with torch.no_grad():\n            value = y + self.target(x)",
            id="off already",
        ),
        pytest.param("value = y", "x.requires_grad_()\n        value = y", id="of the input"),
        pytest.param("self.optimizer.step()", "self.sample = self.target.to(0)", id="another name"),
    ],
)
def test_leaves_other_networks_in_a_loss_alone(old, new):
    source = COPIED.replace("agent = Agent()", "model = Net()\nagent = Agent()")
    assert old in source
    silent(source.replace(old, new), CODE)


@pytest.mark.parametrize(
    ("use", "count"),
    [
        pytest.param("optimizer = make(agent.target.parameters())", 0, id="an optimizer of it"),
        pytest.param("torch.save(agent.target.state_dict(), path)", 1, id="it is saved"),
    ],
)
def test_another_file_may_train_the_network(tmp_path, use, count):
    files = {"agents.py": COPIED, "main.py": f"from agents import Agent\nagent = Agent()\n{use}\n"}
    assert len(check_in(tmp_path, files, "agents.py", CODE)) == count


# -- functions that are handed the model ----------------------------------------------------------

HANDED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def encode(self, x):
        return self.fc(x)

    def forward(self, x):
        return self.fc(x)


def write(model, x):
    found = []
    for _ in range(9):
        x = model.encode(x)
        found.append(x.argmax().item())
    return found


def use(path):
    model = Net()
    model.load_state_dict(torch.load(path))
    model.eval()
    while True:
        print(write(model, ask()))


def main():
    use("model.pt")


main()
"""


@pytest.mark.parametrize("asked", ["model.encode(x)", "model(x)"])
def test_a_function_that_is_handed_the_model_in_evaluation(asked):
    source = HANDED.replace("model.encode(x)", asked)
    (found,) = check(source, CODE)
    assert f"`{asked}` is recorded" in found.message
    assert "@torch.no_grad()\ndef write(" in fixed(source, CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    model.eval()\n", "", id="not in evaluation mode"),
        pytest.param("def write", "@torch.no_grad()\ndef write", id="off there"),
        pytest.param(
            "        print(write", "        with torch.no_grad(): print(write", id="off around it"
        ),
        pytest.param("def encode", "@torch.no_grad()\n    def encode", id="off in the method"),
        pytest.param("def main():", "def main():\n    write(Net(), 1)[0].backward()", id="a step"),
        pytest.param("def main():", "write(Net(), 1)\ndef main():", id="by the script"),
        pytest.param(
            "    model.eval()\n    while True:\n        print(write(model, ask()))",
            "    print(write(model, ask()))\n    model.eval()",
            id="before that",
        ),
        pytest.param("while True", "model.train()\n    while True", id="back in training"),
        pytest.param("model.encode(x)", "model.generate(x)", id="a method that is not seen"),
    ],
)
def test_leaves_functions_that_are_handed_a_model_alone(old, new):
    assert old in HANDED
    silent(HANDED.replace(old, new), CODE)


LENT = """\
import torch
import torch.nn.functional as F


class Runner:
    def train(self, net, batches, held_out):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for epoch in range(9):
            net.train()
            for x, y in batches:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            net.eval()
            self.validation(net, held_out)
            net.train()

    def validation(self, net, held_out):
        if held_out:
            self.predict(net, held_out)

    def predict(self, net, held_out):
        found = []
        for x, y in held_out:
            found.append(net(x))
        self.write(found)
"""


def test_a_method_that_is_handed_the_model_between_the_epochs():
    (found,) = check(LENT, CODE)
    assert (found.location.row, found.severity) == (26, Severity.WARNING)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("            net.eval()\n", "", id="not in evaluation mode"),
        pytest.param("net.eval()", "net.eval()\n            net.train()", id="back in training"),
        pytest.param("net.eval()", "if fast:\n                net.eval()", id="not always"),
        pytest.param(
            "optimizer.zero_grad()", "self.predict(net, [(x, y)])", id="in a training step as well"
        ),
        pytest.param(
            "            net.train()\n\n", "            loss.backward()\n\n", id="normalization"
        ),
        pytest.param("if held_out:", "if net.train():", id="trains again"),
        pytest.param("self.write(found)", "net(x).sum().backward()", id="a step itself"),
        pytest.param("def predict", "@torch.no_grad()\n    def predict", id="off there"),
    ],
)
def test_leaves_other_methods_that_are_handed_a_model_alone(old, new):
    assert old in LENT
    silent(LENT.replace(old, new), CODE)


FOR_BOTH = (
    HEAD.partition("def train")[0]
    + """\
import kit


def fast_adapt(model, batch):
    x, y = batch
    out = model(x)
    return F.cross_entropy(out, y), (out.argmax(1) == y).float().mean()


optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(9):
    model.train()
    for batch in batches:
        loss, right = fast_adapt(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    total = 0
    for batch in held_out:
        loss, right = fast_adapt(model, batch)
        total += loss.item()
    print(epoch, total)

for batch in tests:
    loss, right = fast_adapt(model, batch)
    print(right)
"""
)


def test_a_function_for_both_that_an_evaluation_hands_the_model() -> None:
    found = check(FOR_BOTH, CODE)
    assert [(one.location.row, one.severity) for one in found] == [
        (39, Severity.WARNING),
        (44, Severity.WARNING),
    ]
    assert "`fast_adapt(model, batch)` is recorded" in found[0].message
    after = fixed(FOR_BOTH, CODE)
    assert "    with torch.no_grad():\n        for batch in held_out:\n" in after
    assert "\nwith torch.no_grad():\n    for batch in tests:\n" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    model.eval()\n", "", id="not in evaluation mode"),
        pytest.param("out = model(x)", "with torch.no_grad(): out = model(x)", id="off there"),
        pytest.param(
            "out = model(x)",
            "if model.training:\n        out = model(x)\n"
            "    else:\n        with torch.no_grad():\n            out = model(x)",
            id="off there in evaluation",
        ),
        pytest.param(
            "out = model(x)",
            "if debug or not model.training:\n        with torch.no_grad():\n"
            "            out = model(x)\n    else:\n        out = model(x)",
            id="off there, asked the other way round",
        ),
        pytest.param(
            "out = model(x)",
            "if not model.training:\n        return 0, 0\n    out = model(x)",
            id="evaluation has left before",
        ),
        pytest.param(
            "out = model(x)", "out = model(x) if model.training else y", id="only in training"
        ),
        pytest.param("out = model(x)", "model.train()\n    out = model(x)", id="trains again"),
        pytest.param("out = model(x)", "out = model(model.adapt(x))", id="what may adapt"),
        pytest.param("out = model(x)", "out = model(kit.tuned(model, x))", id="handed on"),
        pytest.param(
            "out = model(x)",
            "out = model(x)\n    g = torch.autograd.grad(out.sum(), model.fc.weight)",
            id="gradients of its own",
        ),
        pytest.param("import kit", "import higher", id="a library that asks for gradients"),
        pytest.param("import kit", "import learn2learn as kit\nkit.algorithms.MAML(model, 1)",
                     id="a part of a library that asks for gradients"),
        pytest.param("import kit", "import learn2learn", id="a library without any use"),
    ],
)  # fmt: skip
def test_leaves_a_function_for_both_alone_where(old: str, new: str) -> None:
    assert old in FOR_BOTH
    silent(FOR_BOTH.replace(old, new), CODE)


TRAINER = (
    HEAD.partition("def train")[0]
    + """\


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def loss_of(self, batch):
        x, y = batch
        return F.cross_entropy(self.model(x), y)

    def fit(self):
        self.model.train()
        for batch in batches:
            loss = self.loss_of(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def validate(self):
        self.model.eval()
        total = 0
        for batch in held_out:
            total += self.loss_of(batch).item()
        return total


trainer = Trainer(model)
for epoch in range(9):
    trainer.fit()
    print(epoch, trainer.validate())
"""
)
GIVEN = (
    TRAINER.replace("loss_of(batch)", "loss_of(self.model, batch)")
    .replace("loss_of(self, batch)", "loss_of(self, model, batch)")
    .replace("self.model(x)", "model(x)")
)


@pytest.mark.parametrize("source", [TRAINER, GIVEN])
def test_a_method_for_both_runs_the_model_in_an_evaluation(source: str) -> None:
    (found,) = check(source, CODE)
    assert found.severity is Severity.WARNING
    assert "total += self.loss_of" in source.splitlines()[found.location.row - 1]
    assert "    @torch.no_grad()\n    def validate(self):\n" in fixed(source, CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("        self.model.eval()\n", "", id="not in evaluation mode"),
        pytest.param(
            "        total = 0\n",
            "        total = 0\n        torch.set_grad_enabled(False)\n",
            id="off before",
        ),
        pytest.param(
            "x, y = batch\n",
            "x, y = batch\n        torch.autograd.grad(self.model(x).sum(), x)\n",
            id="gradients of its own",
        ),
        pytest.param(
            "self.model(x), y)", "self.model(self.adapt(x)), y)", id="what may adapt the model"
        ),
        pytest.param("self.model(x), y)", "self.other(x), y)", id="another model"),
    ],
)
def test_leaves_a_method_for_both_alone_where(old: str, new: str) -> None:
    assert old in TRAINER
    silent(TRAINER.replace(old, new), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            "if model.training:\n        x = x + noise\n    out = model(x)", id="beside it"
        ),
        pytest.param(
            "if other.training:\n        out = model(x)\n"
            "    else:\n        with torch.no_grad():\n            out = model(x)",
            id="of another model",
        ),
        pytest.param(
            "if not model.training:\n        out = model(x)\n"
            "    else:\n        out = model(x + noise)",
            id="in evaluation as well",
        ),
        pytest.param(
            "if model.training or debug:\n        out = model(x)\n    else:\n        out = 0",
            id="by an option as well",
        ),
        pytest.param("if not model.training:\n        print(x)\n    out = model(x)", id="goes on"),
    ],
)
def test_a_pass_that_asks_for_the_mode_is_recorded_where_it_may_run(lines: str) -> None:
    assert len(check(FOR_BOTH.replace("out = model(x)", lines), CODE)) == 2


@pytest.mark.parametrize(
    "kit",
    [
        "import learn2learn as kit\nbatches = kit.data.Taskset(kit.vision.datasets.Omniglot())",
        "from learn2learn.data import Taskset",
    ],
)
def test_the_data_of_a_library_that_asks_for_gradients_asks_for_none(kit: str) -> None:
    assert len(check(FOR_BOTH.replace("import kit", kit), CODE)) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("\nfor batch in tests", "\nmodel.train()\nfor batch in tests", id="it trains"),
        pytest.param("\nfor batch in tests", "\nmodel = Net()\nfor batch in tests", id="a new one"),
        pytest.param("    print(right)", "    loss.backward()", id="it tunes"),
        pytest.param(
            "    print(epoch, total)", "    model.train()", id="the epoch ends in training"
        ),
    ],
)
def test_after_the_epochs_the_model_is_as_they_leave_it(old: str, new: str) -> None:
    assert old in FOR_BOTH
    (found,) = check(FOR_BOTH.replace(old, new), CODE)
    assert found.location.row == 39


def test_where_only_some_callers_turn_gradients_off_it_is_information() -> None:
    last = "with torch.no_grad():\n    evaluate(model, batches)\n"
    (found,) = check(evaluation(tail=TAIL + last), CODE)
    assert found.severity is Severity.INFO
    assert "unless its caller turns them off, as only some do" in found.message


def test_tests_that_leave_gradients_on_do_not_count(tmp_path):
    use = "from engine import evaluate\n\nevaluate(m, b)\n"
    files = {
        "engine.py": evaluation(tail=TAIL.replace("score =", "with torch.no_grad(): score =")),
        "test_engine.py": f"import pytest\n{use}",
    }
    assert not check_in(tmp_path, files, "engine.py", CODE)
    files["run.py"] = use
    assert len(check_in(tmp_path, files, "engine.py", CODE)) == 1


SAMPLED = """\
import torch
import torch.nn.functional as F


def train(net, data, shown):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    loader = torch.utils.data.DataLoader(data, 4)
    net.train()
    for step in range(10_000):
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, y = next(batches)
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            net.eval()
            for _ in range(5):
                try:
                    x, y = next(batches)
                except StopIteration:
                    batches = iter(loader)
                    x, y = next(batches)
                show(net(x), y)
            net.train()
"""


def test_samples_from_the_batches_that_the_training_goes_on_with():
    (found,) = check(SAMPLED, CODE)
    assert (found.location.row, found.severity) == (27, Severity.WARNING)


def test_leaves_samples_alone_that_the_training_goes_on_with():
    computed = SAMPLED.replace("batches = iter(loader)", "batches = iter([(net(x), y)])")
    silent(computed, CODE)


PURE = """
import torch
from torch import nn
def mixed(z):
    assert z.dim() == 2
    parts = []
    for one in z.split(1, 1):
        parts.append(one[torch.randperm(z.size(0)).to(z.device)])
    {}
    return torch.cat(parts, 1)
net, judge = nn.Linear(3, 3).cuda(), nn.Linear(3, 2).cuda()
optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)
for x in load():
    z = net(x.cuda())
    loss = judge(mixed(z).detach()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_result_that_is_cut_off_after_a_function_that_only_computes():
    (found,) = check(PURE.format("pass"), CODE)
    assert (found.code, found.severity) == ("TL401b", Severity.WARNING)
    assert "net(x.cuda())" in found.message


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param("fake = net(x.cuda())[:, :2]", 1, id="a part"),
        pytest.param("fake = net(x.cuda()) + net(x.cuda())", 2, id="a sum"),
        pytest.param("fake = net(x.cuda())\n    keep(fake)", 0, id="used as well"),
    ],
)
def test_what_is_made_of_a_result_that_is_only_used_detached(line, found):
    source = PURE.format("pass").replace("z = net(x.cuda())", f"{line}\n    fake = fake.detach()")
    source = source.replace("mixed(z).detach()", "fake")
    told = check(source, CODE)
    assert ["its detached result" in one.message for one in told] == [True] * found


OTHERS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    {decorator}
    def forward(self, x):
        return self.fc(x)
"""
MINE = """
import torch
from torch import nn
from net import Net

net, judge = Net().cuda(), nn.Linear(3, 2).cuda()
optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)

for x in load():
    loss = judge(net(x.cuda()).detach()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("decorator", "found"),
    [
        pytest.param("", 1, id="only another caller turns gradients off"),
        pytest.param("@torch.no_grad()", 0, id="turns them off by itself"),
    ],
)
def test_a_model_that_others_run_without_gradients(tmp_path, decorator, found):
    shown = "import torch\ndef shown(net, x):\n    with torch.no_grad():\n        net.forward(x)\n"
    files = {"net.py": OTHERS.format(decorator=decorator), "main.py": MINE, "shown.py": shown}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == found


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("seen.append(parts)", id="a list of others"),
        pytest.param("self.parts = parts", id="an attribute"),
        pytest.param("memory[0] = parts", id="an entry"),
        pytest.param("keep(parts)", id="a call of what is not seen"),
        pytest.param("global kept; kept = parts", id="a global name"),
        pytest.param("yield z", id="a generator"),
    ],
)
def test_a_result_that_a_function_may_keep(statement):
    assert not check(PURE.format(statement), CODE)


FIELD = """
import torch
from torch import nn

class Field(nn.Module):
    def forward(self, x):
        return self.fc(x)

    def gradient(self, x):
        return torch.autograd.grad(self(x).sum(), x)[0]
"""


@pytest.mark.parametrize(
    ("field", "model", "found"),
    [
        pytest.param(FIELD, "build(args.model)", 0, id="a module of the project asks for one"),
        pytest.param(FIELD, "Net()", 1, id="the model is seen, and does not"),
        pytest.param(FIELD.replace("(nn.Module)", ""), "build(args.model)", 1, id="no module"),
        pytest.param(
            FIELD.replace("torch.autograd.grad(", "grad("), "build(args.model)", 1, id="by nothing"
        ),
    ],
)
def test_a_model_that_is_not_seen_may_ask_for_a_gradient(tmp_path, field, model, found) -> None:
    source = evaluation().replace("Net()", model)
    assert source.count(model) > 0
    files = {"field.py": field, "main.py": source}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == found
