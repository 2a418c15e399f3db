"""TL605b: schedulers that are moved on before the optimizer; TL605: those moved on too seldom."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, silent

from torchlint.rule import Severity

CODE = "TL605"
UNUSED = ", and its first learning rate is never used"
IMPORTS = """\
import torch
from torch.optim.lr_scheduler import CyclicLR, LambdaLR, OneCycleLR, ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader
"""
MADE = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nscheduler = StepLR(optimizer, 30)"
MOVE = "scheduler.step()"
STEPS = "for x, y in loader:\n    loss = model(x, y)\n    loss.backward()\n    optimizer.step()"
EARLY = f"{MOVE}\n{STEPS}"
HEAD = "for epoch in range(9):"


def train(epoch: str = EARLY, made: str = MADE, head: str = HEAD, top: str = "") -> str:
    """Return a training of several epochs with a scheduler."""
    lines = [IMPORTS, *top.splitlines(), "", "def train(model, loader, args):"]
    lines += textwrap.indent(made, "    ").splitlines()
    lines += [f"    {head}", *textwrap.indent(epoch, " " * 8).splitlines()]
    return "\n".join(lines) + "\n"


def made(code: str) -> str:
    """Return how the optimizer and another scheduler are made."""
    return MADE.replace("StepLR(optimizer, 30)", code)


def step(body: str) -> str:
    """Return what is done in each step of an epoch."""
    return "for x, y in loader:\n" + textwrap.indent(f"model(x, y).backward()\n{body}", "    ")


OTHER = f"other = torch.optim.SGD(critic.parameters(), lr=0.1)\n{MADE}"
OWN = "class Own(StepLR):\n    def {}(self):\n        pass\n"
RATES = """\
class Rates(torch.optim.lr_scheduler._LRScheduler):
    def get_lr(self):
        return {}
"""
ONE_EPOCH = """\
def one_epoch(loader, optimizer):
    for x, y in loader:
        model(x).backward()
        optimizer.step()
"""
SCALED = EARLY.replace("optimizer.step()", "scaler.step(optimizer)")
TRANSFORMERS = "from transformers import get_linear_schedule_with_warmup as linear"
METHODS = f"""\
{IMPORTS}
class Trainer:
    def __init__(self, model, loader, args):
        self.args = args
        self.loader = loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scheduler = StepLR(self.optimizer, 30)

    def train(self):
        for self.epoch in range(9):
            self.run()

    def run(self):
        self.scheduler.step()
        for x, y in self.loader:
            self.optimizer.step()
"""
OPTION = METHODS.replace(
    "self.scheduler.step()", "if self.args.decay:\n            self.scheduler.step()"
)
KEEPS = f"""\
{IMPORTS}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(9, 9)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        self.scheduler = StepLR(self.optimizer, 30)

def run(model, loader):
    model.scheduler.step()
    for x in loader:
        model(x).backward()
        model.optimizer.step()

model = Net().cuda()
before = None
for epoch in range(9):
    run(model, DataLoader(data))
"""
WARNED = {
    "an epoch": train(),
    "as long as it takes": train(head="while True:"),
    "an option": train(f"if scheduler is not None:\n    {MOVE}\n{STEPS}"),
    "none without an option": train(
        made=made("None\nif args.decay:\n    scheduler = StepLR(optimizer, 30)")
    ),
    "a class that is one": train(
        made=made("Own(optimizer, 3)"), top="class Own(StepLR):\n    pass\n"
    ),
    "of transformers": train(made=made("linear(optimizer, 1, 2)"), top=TRANSFORMERS),
    "what is no optimizer steps": train(f"env.step(action)\n{EARLY}"),
    "a function steps later": train(f"def closure():\n    optimizer.step()\n{EARLY}"),
    "another optimizer has stepped": train(f"other.step()\n{EARLY}", OTHER),
    "a function of the file steps": train(f"{MOVE}\none_epoch(loader, optimizer)", top=ONE_EPOCH),
    "by a scaler": train(SCALED, f"{MADE}\nscaler = torch.amp.GradScaler()"),
    "right before": train(step("scheduler.step()\noptimizer.step()")),
    "both now and then": train(
        step("if epoch % 2 == 0:\n    scheduler.step()\n    optimizer.step()")
    ),
    "an object keeps both": METHODS,
    "a model keeps both": KEEPS,
}
INFORMED = {
    "perhaps another": train(
        made=made("StepLR(optimizer, 3)\nif args.own:\n    scheduler = make(optimizer)")
    ),
    "of an optimizer not known": train(made=made("StepLR(**args.decay)")),
    "its own rates": train(made=made("Own(optimizer, 3)"), top=OWN.format("get_lr")),
    "a warm-up from 0": train(
        made=made("Rates(optimizer)"), top=RATES.format("[r * self.last_epoch / 9]")
    ),
    "once before the loop": train(STEPS, made=f"{MADE}\n{MOVE}"),
    "no loop around": METHODS.replace("for self.epoch in range(9)", "if True"),
    "a framework has its own order": train(top="import accelerate"),
    "what is not seen gets the optimizer": train(made=f"{MADE}\nwarm(optimizer)"),
    "only parameters": train(made="").replace("args)", "optimizer, scheduler)"),
}
SILENT = {
    "after the epoch": train(f"{STEPS}\n{MOVE}"),
    "after each step": train(step("optimizer.step()\nscheduler.step()")),
    "it waits for a plateau": train(made=made("ReduceLROnPlateau(optimizer)")),
    "of a given epoch": train(EARLY.replace(MOVE, "scheduler.step(epoch)")),
    "not known": train(made=made("make(optimizer)")),
    "its own step": train(made=made("Own(optimizer, 3)"), top=OWN.format("step")),
    "a step before it in the turn": train(f"optimizer.step()\n{EARLY}"),
    "an epoch before it in the turn": train(f"{STEPS}\n{EARLY}"),
    "what is not seen steps": train(f"loss_scaler(loss, optimizer)\n{EARLY}"),
    "a step before the loop": train(made=f"{MADE}\noptimizer.step()"),
    "a function has stepped": train(f"one_epoch(loader, optimizer)\n{EARLY}", top=ONE_EPOCH),
    "not in the first turn": train(f"if epoch > 0:\n    {MOVE}\n{STEPS}"),
    "a flag of the turns": train(f"if done:\n    {MOVE}\ndone = True\n{STEPS}"),
    "catching up": train(f"if epoch < args.start:\n    {MOVE}\n{STEPS}"),
    "a loop of nothing else": train(MOVE),
    "its count is set": train(made=f"{MADE}\nscheduler.last_epoch = 3"),
    "the steps are not seen": train(f"{MOVE}\nrun(model)"),
    "only another optimizer steps": train(EARLY.replace("optimizer.step", "other.step"), OTHER),
    "in another branch": train(f"if args.a:\n    {MOVE}\nelse:\n    optimizer.step()"),
    "what an object keeps has stepped": KEEPS.replace("before = None", "model.optimizer.step()"),
    "another way to it is right": METHODS
    + "\n    def again(self):\n        self.optimizer.step()\n        self.run()\n",
    "an option that is not seen": OPTION,
    "it asks for all there is": OPTION.replace("self.args.decay", "ready(self)"),
    "it asks for the epoch": OPTION.replace("self.args.decay", "self.epoch"),
}


@pytest.mark.parametrize("source", WARNED.values(), ids=WARNED)
def test_a_schedule_runs_early(source: str) -> None:
    (found,) = check(source, CODE)
    assert (found.code, found.severity) == ("TL605b", Severity.WARNING)
    assert source.splitlines()[found.location.row - 1].strip().endswith("scheduler.step()")
    assert "one step early" in found.message


@pytest.mark.parametrize("source", INFORMED.values(), ids=INFORMED)
def test_what_is_not_certain_is_information(source: str) -> None:
    (found,) = check(source, CODE)
    assert (found.code, found.severity) == ("TL605b", Severity.INFO)


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT)
def test_is_silent(source: str) -> None:
    silent(source, CODE)


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        ("StepLR(optimizer, 30)", False),
        ("LambdaLR(optimizer, rate)", False),
        ("CyclicLR(optimizer, 0.1, 0.2)", False),  # the first rate comes again
        ("torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)", True),
        ("OneCycleLR(optimizer, 0.1, total_steps=9)", True),
    ],
)
def test_the_first_rate_is_unused_where_each_step_changes_it(code: str, unused: bool) -> None:
    (found,) = check(train(made=made(code)), CODE)
    assert found.message.endswith("one step early" + unused * UNUSED)


def test_the_help_says_where_it_belongs() -> None:
    assert check(train(), CODE)[0].help == "Call it at the end of the epoch."
    (found,) = check(WARNED["right before"], CODE)
    assert found.help == "Call it right after the optimizer's."


def test_on_an_older_torch_that_is_the_order() -> None:
    silent(train(), CODE, "1.0")
    assert check(train(), CODE, "1.1")


@pytest.mark.parametrize(
    ("given", "is_found"),
    [("args.decay", False), ("True", True), ("epoch > 3", False), ("ready", False)],
)
def test_a_parameter_decides_as_what_is_passed_for_it(given: str, is_found: bool) -> None:
    body = f"if decay:\n    {MOVE}\n{STEPS}"
    top = "def run(loader, optimizer, scheduler, decay):\n" + textwrap.indent(body, "    ")
    call = f"ready = args.at()\nrun(loader, optimizer, scheduler, {given})"
    assert bool(check(train(call, top=top), CODE)) is is_found


def test_the_scheduler_and_the_steps_are_in_other_files(tmp_path) -> None:
    files = {
        "loop.py": "import torch\nfrom steps import epoch\n\n"
        "def train(loader, optimizer, scheduler):\n    for _ in range(9):\n"
        "        scheduler.step()\n        epoch(loader, optimizer)\n",
        "steps.py": "def epoch(loader, opt):\n    for x in loader:\n        opt.step()\n",
        "main.py": f"from loop import train\n{IMPORTS}\n{MADE}\n"
        "train(loader, optimizer, scheduler)\n",
    }
    assert [one.location.row for one in check_in(tmp_path, files, "loop.py", CODE)] == [6]
    files["main.py"] = files["main.py"].replace("\ntrain(", "\noptimizer.step()\ntrain(")
    assert not check_in(tmp_path, files, "loop.py", CODE)


# -- TL605: once an epoch, what counts batches ------------------------------------------------

CYCLE = "OneCycleLR(optimizer, 0.1, epochs=9, steps_per_epoch={})"
EACH = step("optimizer.step()\nscheduler.step()")


def cycle(code: str = CYCLE.format("len(loader)"), epoch: str = f"{STEPS}\n{MOVE}") -> str:
    return train(epoch, f"loader = DataLoader(data, 8)\n{made(code)}")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(cycle(CYCLE.format(1)), id="as many as epochs"),
        pytest.param(cycle("OneCycleLR(optimizer, 0.1, total_steps=len(names))"), id="of others"),
        pytest.param(cycle("StepLR(optimizer, 30)"), id="another schedule"),
        pytest.param(cycle(epoch=EACH), id="in each step"),
        pytest.param(cycle(epoch=f"{EACH}\n{MOVE}"), id="in both"),
    ],
)
def test_a_schedule_is_moved_on_as_often_as_it_counts(source: str) -> None:
    silent(source, CODE)


@pytest.mark.parametrize(
    "code",
    [
        CYCLE.format("len(loader)"),
        "OneCycleLR(optimizer, 0.1, 9 * len(loader))",
        "CyclicLR(optimizer, 0.1, 1.0, step_size_up=2 * len(loader))",
        "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9 * len(loader))",
    ],
)
def test_a_schedule_of_batches_is_moved_on_once_an_epoch(code: str) -> None:
    (found,) = check(cycle(code), CODE)
    assert (found.code, found.severity) == ("TL605", Severity.WARNING)
    assert "once an epoch" in found.message
