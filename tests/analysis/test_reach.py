"""What is known of evaluations and of callers across the files of a project."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import libcst as cst
import pytest

from torchlint.analysis.project import Project
from torchlint.analysis.reach import callee, callers, class_of, forward_of
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
