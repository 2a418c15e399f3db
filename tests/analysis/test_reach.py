"""What is known of evaluations and of callers across the files of a project."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import libcst as cst
import pytest
from probing import probed

from torchlint.analysis.project import Project
from torchlint.analysis.reach import callee, callers, class_of, forward_of
from torchlint.analysis.values import Kind
from torchlint.imports import Imports
from torchlint_rules.eval_without_no_grad import eval_without_no_grad

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchlint.analysis.program import Program

    Open = Callable[[str], Program]

ENGINE = """
    import torch

    def evaluate(model, loader):
        model.eval()
        for x, y in loader:
            hits = (model(x).argmax(1) == y).sum().item()
        return hits
    """
NETS = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 2)

        def forward(self, x):
            return self.fc(x)
    """
MAIN = """
    import torch
    from engine import evaluate
    from nets import Net

    model = Net()
    loader = torch.utils.data.DataLoader(data)
    for epoch in range(9):
        for x, y in loader:
            model.train()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        evaluate(model, loader)
    """


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Open]:
    """Make a project of files, and return what opens one of them."""

    def make(**files: str) -> Open:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        found = Project(Imports(tmp_path, lambda _: False))

        def opened(name: str) -> Program:
            program = found.program(str(tmp_path / f"{name}.py"))
            assert program is not None
            return program

        return opened

    return make


def severities(program: Program) -> list[str]:
    """The severities of the findings of TL401, and whether their fixes are safe."""
    return [
        f"{'info' if one.severity else 'warning'} {one.fix and one.fix.safety.word}"
        for one in eval_without_no_grad(program)
    ]


def test_callers_and_callees(project):
    opened = project(engine=ENGINE, nets=NETS, main=MAIN)
    main, engine = opened("main"), opened("engine")
    (evaluate,) = engine.index.of(cst.FunctionDef)
    ((other, site),) = callers(engine, evaluate)
    assert other is main
    assert callee(main, site) == (engine, evaluate)
    model = main.value(site.args[0].value)
    found = class_of(main, model)
    assert found is not None
    assert found[0] is opened("nets")
    assert forward_of(main, model) == (found[0], found[1].methods["forward"])
    assert forward_of(main, main.value(site.args[1].value)) is None


def test_an_evaluation_in_another_file_is_proven(project):
    opened = project(engine=ENGINE, nets=NETS, main=MAIN)
    assert severities(opened("engine")) == ["warning safe"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "        evaluate(", "        with torch.no_grad(): evaluate(", id="without gradients"
        ),
        pytest.param(
            "import torch\n", "import torch\n    torch.set_grad_enabled(False)\n", id="off"
        ),
        pytest.param("= Net()", "= Net()\n    model.requires_grad_(False)", id="a frozen model"),
    ],
)
def test_the_caller_decides(project, old, new):
    opened = project(engine=ENGINE, nets=NETS, main=MAIN.replace(old, new))
    assert severities(opened("engine")) == []


def test_the_model_decides(project):
    gradient = "torch.autograd.grad(self.fc(x).sum(), x)"
    opened = project(engine=ENGINE, nets=NETS.replace("self.fc(x)", gradient), main=MAIN)
    assert severities(opened("engine")) == []


DETECT = """
    import torch

    def detect(image, net):
        with torch.no_grad():
            x = image.unsqueeze(0).cuda()
        out = net(x)
        return out[0].cpu().numpy()
    """
DETECTS = """
    import torch
    from detect import *
    from nets import Net

    def test(net, images):
        for image in images:
            show(detect(image, net))

    net = Net()
    net.eval()
    net = net.cuda()
    test(net, images)
    """
TRAINS = """
    import torch
    from detect import detect

    detect(image, net).backward()
    """


def test_a_function_that_other_files_only_give_an_evaluated_model(project):
    opened = project(detect=DETECT, nets=NETS, main=DETECTS)
    assert severities(opened("detect")) == ["warning unsafe"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("net = net.cuda()", "net = other()", id="another model"),
        pytest.param("net = net.cuda()", "net = swap(net)", id="perhaps another"),
        pytest.param("net.eval()", "net.train()", id="in training"),
        pytest.param("    test(", "    net.train()\n    test(", id="in training by then"),
        pytest.param("net.eval()", "teacher.eval()", id="another is evaluated"),
        pytest.param("detect(image, net)", "detect(image, nets[0])", id="a part of it"),
        pytest.param("show(", "net.train(); show(", id="in training in between"),
    ],
)
def test_a_function_that_another_file_may_train_by(project, old, new):
    opened = project(detect=DETECT, nets=NETS, main=DETECTS.replace(old, new))
    assert severities(opened("detect")) == []


def test_a_function_that_one_of_two_files_trains_by(project):
    opened = project(detect=DETECT, nets=NETS, main=DETECTS, train=TRAINS)
    assert severities(opened("detect")) == []


def test_a_result_of_which_the_caller_asks_a_gradient(project):
    engine = ENGINE.replace("(model(x).argmax(1) == y).sum().item()", "model(x).sum()")
    opened = project(engine=engine, nets=NETS, main=MAIN)
    assert severities(opened("engine")) == ["warning unsafe"]
    main = MAIN.replace(
        "        evaluate(model, loader)", "        evaluate(model, loader).backward()"
    )
    opened = project(engine=engine, nets=NETS, main=main)
    assert severities(opened("engine")) == []


def test_a_name_imported_from_one_place_or_another_is_not_known(project):
    either = "try:\n    from engine import evaluate\nexcept E:\n    from other import evaluate\n"
    main = MAIN.replace("from engine", "from either")
    opened = project(engine=ENGINE, nets=NETS, either=either, main=main)
    assert severities(opened("engine")) == ["info unsafe"]
    call = next(c for c in opened("main").index.of(cst.Call) if c.args and len(c.args) == 2)
    assert callee(opened("main"), call) is None


AGENTS = """
    class Careful:
        def choose(self, x):
            return x

    class Bold:
        def choose(self, x):
            return -x
    """
CHOICE = """
    from agents import Bold, Careful

    if careful:
        agent = Careful()
    else:
        agent = Bold()
    agent.choose(1)
    """


@pytest.mark.parametrize(
    ("old", "new", "called"),
    [
        pytest.param("", "", True, id="of either branch"),
        pytest.param("agent = Bold()", "agent = load()", False, id="of what is not seen"),
        pytest.param("agent = Bold()", "agent, _ = Bold()", False, id="of a part"),
        pytest.param("agent.choose", "agent.ask", False, id="of another name"),
    ],
)
def test_the_method_of_one_class_or_another(project, old, new, called):
    opened = project(agents=AGENTS, main=CHOICE.replace(old, new))
    agents = opened("agents")
    for owner in agents.classes:
        sites = [site for _, site in callers(agents, owner.methods["choose"])]
        assert bool(sites) is called


def test_the_method_of_one_class_or_another_of_the_file(project):
    text = textwrap.dedent(AGENTS) + "agent = Careful() if careful else Bold()\nagent.choose(1)\n"
    agents = project(agents=text)("agents")
    assert all(list(callers(agents, owner.methods["choose"])) for owner in agents.classes)


KEPT = """
    from agents import Bold, Careful

    class Game:
        def __init__(self):
            if careful:
                self.agent = Careful()
            else:
                self.agent = Bold()

        def play(self):
            self.agent.choose(1)
    """


@pytest.mark.parametrize(
    ("old", "new", "called"),
    [
        pytest.param("", "", True, id="of either branch"),
        pytest.param("self.agent = Bold()", "self.agent = load()", False, id="of what is not seen"),
        pytest.param("self.agent = Bold()", "self.agent, _ = Bold()", False, id="of a part"),
        pytest.param("self.agent.choose", "other.agent.choose", False, id="of another object"),
    ],
)
def test_the_method_of_one_class_or_another_that_an_object_keeps(project, old, new, called):
    opened = project(agents=AGENTS, main=KEPT.replace(old, new))
    agents, main = opened("agents"), opened("main")
    (call,) = (one for one in main.index.of(cst.Call) if main.code(one).endswith(".choose(1)"))
    several = [one.function for one in main.calls.of_several(call)]
    assert several == [one.methods["choose"] for one in agents.classes if called]


TRAINER = """
    from torch import nn

    class Trainer(nn.Module):
        def __init__(self, model, optimizer):
            super().__init__()
            self.model, self.optimizer = model, optimizer

        def forward(self, x, y):
            return self.model(x).sum(), (y - self.model(x)).abs().sum()

        def do(self, x, y):
            first, second = self.forward(x, y)
            second.backward()
            self.optimizer.step()
            return [first, second]
    """
FIT = """
    import torch

    def fit(trainer, loader):
        total = 0
        for x, y in loader:
            first, second = trainer.do(x, y)
            total += second.item()
        print(total)
    """
HANDED = """
    import torch
    from torch import nn
    from fit import fit
    from trainer import Trainer

    def main():
        model = nn.Linear(3, 4).cuda()
        trainer = Trainer(model, torch.optim.SGD(model.parameters(), 0.1))
        loader = torch.utils.data.DataLoader(data)
        for epoch in range(9):
            fit(trainer, loader)
    """


PARTS = """
    from torch import nn

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 4)

        def forward(self, x, mode="all"):
            if mode == "all":
                return {"out": self.fc(x)}
            elif mode == "ends":
                return self.fc(x), x
            return self.fc(x)
    """
RUN = """
    import torch
    from torch import nn
    from parts import Parts

    class Loss(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x, "ends")

    net = Parts()
    if several:
        net = nn.DataParallel(net)
    run = Loss(net)
    """


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        pytest.param("run(x)", Kind.TUPLE, id="by a constant, of a part, wrapped or not"),
        pytest.param("net(x, mode='middle')", Kind.TENSOR, id="by what it is not"),
        pytest.param("net(x)", Kind.DICT, id="by the default"),
    ],
)
def test_what_a_call_chooses_of_a_module(project, call, kind):
    run = project(parts=PARTS, run=textwrap.dedent(RUN) + f"probe({call})\n")("run")
    assert run.value(probed(run)).kind is kind


@pytest.mark.parametrize(
    ("methods", "runs"),
    [
        pytest.param("forward", "forward", id="as torch does"),
        pytest.param("forward __call__", "__call__", id="in a way of its own"),
    ],
)
def test_what_calling_a_module_runs(project: Callable[..., Open], methods: str, runs: str) -> None:
    lines = "".join(f"    def {name}(self, x): return x\n" for name in methods.split())
    source = f"from torch import nn\nclass Net(nn.Module):\n{lines}net = Net()\nnet(1)\n"
    program = project(main=source)("main")
    call = next(one for one in program.index.of(cst.Call) if program.code(one) == "net(1)")
    found = callee(program, call)
    assert found is not None
    assert found[1].name.value == runs


def test_what_a_base_of_another_file_runs(project: Callable[..., Open]) -> None:
    method = "def forward(self, x): return x, x"
    base = f"from torch import nn\nclass Base(nn.Module):\n    {method}\n"
    main = "from base import Base\nclass Net(Base):\n    pass\nnet = Net()\nprobe(net(x))\n"
    opened = project(base=base, main=main)
    program = opened("main")
    call = next(one for one in program.index.of(cst.Call) if program.code(one) == "net(x)")
    found = callee(program, call)
    assert found is not None
    assert found[0] is opened("base")
    assert program.value(call).kind is Kind.TUPLE


def test_a_module_gives_what_its_own_call_returns(project: Callable[..., Open]) -> None:
    net = "    def forward(self, x): return x\n    def __call__(self, x): return {'out': x}\n"
    main = f"from torch import nn\nclass Net(nn.Module):\n{net}probe(Net()(x))\n"
    program = project(main=main)("main")
    assert program.value(probed(program)).kind is Kind.DICT
