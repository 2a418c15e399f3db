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


def step(body: str, head: str = "for x, y in loader:") -> str:
    """Return what is done in each step of an epoch."""
    return f"{head}\n" + textwrap.indent(f"model(x, y).backward()\n{body}", "    ")


GAN = f"""\
other = torch.optim.SGD(critic.parameters(), lr=0.1)
{MADE}"""
OWN = """\
class Own(StepLR):
    def {method}(self):
        pass
"""
RATES = """\
class Rates(torch.optim.lr_scheduler._LRScheduler):
    def get_lr(self):
        return {rates}
"""
STEPPING = """\
    def step(self):
        self.last_epoch += 1
"""


@pytest.mark.parametrize(
    "rates",
    [
        "[r * 2 ** (self.last_epoch / 9) for r in self.base_lrs]",
        "[r * (self.last_epoch + 1) / 9 for r in self.base_lrs]",
        "[r / (1 + self.last_epoch) for r in self.base_lrs]",
    ],
)
def test_rates_of_its_own_count_as_those_of_torch(rates: str) -> None:
    source = train(made=made("Rates(optimizer)"), top=RATES.format(rates=rates))
    (finding,) = check(source, CODE)
    assert finding.code == "TL605b"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(train(f"{STEPS}\n{MOVE}"), id="after the epoch"),
        pytest.param(train(step("optimizer.step()\nscheduler.step()")), id="after each step"),
        pytest.param(train(made=made("ReduceLROnPlateau(optimizer)")), id="it waits for a plateau"),
        pytest.param(train(EARLY.replace(MOVE, "scheduler.step(epoch)")), id="of a given epoch"),
        pytest.param(train(made=made("make(optimizer)")), id="not known"),
        pytest.param(
            train(made=made("StepLR(optimizer, 3)\nif args.own:\n    scheduler = make(optimizer)")),
            id="perhaps another",
        ),
        pytest.param(
            train(made=made("StepLR(optimizer, 3)"), top="from timm.scheduler import StepLR"),
            id="of another library",
        ),
        pytest.param(
            train(made=made("Own(optimizer, 3)"), top=OWN.format(method="step")), id="its own step"
        ),
        pytest.param(
            train(made=made("Own(optimizer, 3)"), top=OWN.format(method="get_lr")),
            id="its own learning rates",
        ),
        pytest.param(
            train(
                made=made("Rates(optimizer)"),
                top=RATES.format(rates="[r * self.last_epoch / 9 for r in self.base_lrs]"),
            ),
            id="a warm-up from 0: the first rate is to be left out",
        ),
        pytest.param(
            train(
                made=made("Rates(optimizer)"),
                top=RATES.format(rates="[0.1 ** self.last_epoch]") + STEPPING,
            ),
            id="its own learning rates and step",
        ),
        pytest.param(
            train(
                made=made("Own(optimizer, 3)"),
                top="class Own(torch.optim.lr_scheduler.LRScheduler):\n    pass\n",
            ),
            id="a class that counts in its own way",
        ),
        pytest.param(train(f"optimizer.step()\n{EARLY}"), id="a step before it in the turn"),
        pytest.param(train(f"{STEPS}\n{EARLY}"), id="an epoch before it in the turn"),
        pytest.param(train(f"pretrain(model)\n{EARLY}"), id="what trains by its name"),
        pytest.param(train(f"trainer.train()\n{EARLY}"), id="a trainer trains"),
        pytest.param(train(f"loss_scaler(loss, optimizer)\n{EARLY}"), id="a loss scaler steps"),
        pytest.param(train(made=f"{MADE}\noptimizer.step()"), id="a step before the loop"),
        pytest.param(
            train(f"warm(optimizer)\n{EARLY}", top="def warm(optimizer):\n    optimizer.step()\n"),
            id="a function of the file steps",
        ),
        pytest.param(train(f"if epoch > 0:\n    {MOVE}\n{STEPS}"), id="not in the first turn"),
        pytest.param(
            train(f"if done:\n    {MOVE}\ndone = True\n{STEPS}"), id="a flag of the turns"
        ),
        pytest.param(train(f"if epoch < args.start:\n    {MOVE}\n{STEPS}"), id="catching up"),
        pytest.param(train(MOVE), id="a loop of nothing else"),
        pytest.param(train(STEPS, made=f"{MADE}\n{MOVE}"), id="once before the loop"),
        pytest.param(train(made=f"{MADE}\nscheduler.last_epoch = 3"), id="its count is set"),
        pytest.param(train(f"{MOVE}\nrun(model)"), id="the steps are not seen"),
        pytest.param(
            train(f"{MOVE}\n{STEPS}".replace("optimizer.step", "other.step"), GAN),
            id="only another optimizer steps",
        ),
        pytest.param(
            train(f"if args.a:\n    {MOVE}\nelse:\n    optimizer.step()"), id="in another branch"
        ),
        pytest.param(
            train(f"try:\n    load()\nexcept OSError:\n    {MOVE}\n{STEPS}"), id="only after errors"
        ),
        pytest.param(train(top="import accelerate"), id="a framework has its own order"),
        pytest.param(train(f"{EARLY}\n    show(loss.data[0])"), id="only an older torch runs it"),
        pytest.param(
            train(EARLY, "optimizer = torch.optim.SGD(model.parameters())", "if args.train:"),
            id="no loop",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        pytest.param("StepLR(optimizer, 30)", False, id="many steps have the first rate"),
        pytest.param("LambdaLR(optimizer, rate)", False, id="nobody knows"),
        pytest.param("CyclicLR(optimizer, 0.1, 0.2)", False, id="the first rate comes again"),
        pytest.param("torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)", True, id="each"),
        pytest.param("OneCycleLR(optimizer, 0.1, total_steps=9)", True, id="one cycle"),
    ],
)
def test_the_first_rate_is_unused_where_each_step_changes_it(code: str, unused: bool) -> None:
    (found,) = check(train(made=made(code)), CODE)
    assert found.message.endswith("one step early" + unused * UNUSED)


@pytest.mark.parametrize("target", ["0.4.1", "1.0"])
def test_on_an_older_torch_that_is_the_order(target):
    silent(train(), CODE, target)
    assert check(train(), CODE, "1.1")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(train(), id="an epoch"),
        pytest.param(train(head="while True:"), id="as long as it takes"),
        pytest.param(train(f"model.train()\nprint(epoch)\n{EARLY}"), id="after other things"),
        pytest.param(train(f"if scheduler is not None:\n    {MOVE}\n{STEPS}"), id="an option"),
        pytest.param(train(made=made("LambdaLR(optimizer, f)")), id="another scheduler"),
        pytest.param(train(made=f"scheduler = None\n{MADE}"), id="nothing at first"),
        pytest.param(
            train(made=made("Own(optimizer, 3)"), top="class Own(StepLR):\n    pass\n"),
            id="a class that is one",
        ),
        pytest.param(
            train(
                made=made("get_linear_schedule_with_warmup(optimizer, 1, 2)"),
                top="from transformers import get_linear_schedule_with_warmup",
            ),
            id="of transformers",
        ),
        pytest.param(
            train(made=made("None\nif args.decay:\n    scheduler = StepLR(optimizer, 30)")),
            id="none without an option",
        ),
        pytest.param(train(made=f"{MADE}\noptimizer = wrap(optimizer)"), id="wrapped later"),
        pytest.param(train(made=made("StepLR(**args.decay)")), id="of an optimizer not known"),
        pytest.param(train(f"env.step(action)\n{EARLY}"), id="no optimizer has stepped"),
        pytest.param(
            train(f"def closure():\n    optimizer.step()\n{EARLY}"), id="a function steps later"
        ),
        pytest.param(train(f"other.step()\n{EARLY}", GAN), id="another optimizer has stepped"),
        pytest.param(
            train(
                f"{MOVE}\none_epoch(loader, optimizer)",
                top=textwrap.dedent("""
                def one_epoch(loader, optimizer):
                    for x, y in loader:
                        optimizer.step()
            """),
            ),
            id="a function of the file steps",
        ),
        pytest.param(
            train(
                f"{MOVE}\n{STEPS}".replace("optimizer.step()", "scaler.step(optimizer)"),
                f"{MADE}\nscaler = torch.amp.GradScaler()",
            ),
            id="by a gradient scaler",
        ),
    ],
)
def test_an_epoch_begins_with_it(source):
    (found,) = check(source, CODE)
    assert found.code == "TL605b"
    assert found.severity is Severity.WARNING
    assert source.splitlines()[found.location.row - 1].strip() == MOVE
    assert "one step early" in found.message
    assert found.help == "Call it at the end of the epoch."


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("scheduler.step()\noptimizer.step()", id="right before"),
        pytest.param(
            "if epoch % 2 == 0:\n    scheduler.step()\n    optimizer.step()", id="both now and then"
        ),
    ],
)
def test_each_step_begins_with_it(body):
    (found,) = check(train(step(body)), CODE)
    assert found.help == "Call it right after the optimizer's."


METHODS = f"""\
{IMPORTS}
class Trainer:
    def __init__(self, model, loader):
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


def test_an_object_keeps_both_and_a_method_is_the_epoch():
    (found,) = check(METHODS, CODE)
    assert found.location.row == METHODS[: METHODS.index("self.scheduler.step")].count("\n") + 1
    silent(METHODS.replace("self.run()", "self.optimizer.step()\n            self.run()"), CODE)
    silent(METHODS.replace("for self.epoch in range(9)", "if True"), CODE)


def test_every_call_of_the_method_has_to_be_early():
    again = "\n    def again(self):\n        for _ in range(9):\n            {}self.run()\n"
    assert check(METHODS + again.format(""), CODE)
    silent(METHODS + again.format("self.optimizer.step()\n            "), CODE)


def test_schedulers_are_moved_on_together():
    decay = "decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)"
    assert len(check(train(f"decay.step()\n{EARLY}", f"{MADE}\n{decay}"), CODE)) == 2


def test_what_the_caller_stepped_is_another_optimizer():
    main = "\ndef main(model, loader, tuner):\n    tuner.step()\n    train(model, loader, None)\n"
    assert check(train() + main, CODE)


def test_the_caller_may_have_stepped():
    """The loop stands in a function that gets both."""
    source = train(made="", top="").replace("loader, args)", "loader, optimizer, scheduler)")
    main = f"\ndef main(model, loader):\n{textwrap.indent(MADE, '    ')}\n"
    call = "    train(model, loader, optimizer, scheduler)\n"
    assert check(source + main + call, CODE)
    silent(source + main + "    optimizer.step()\n" + call, CODE)


def test_the_scheduler_and_the_steps_are_in_other_files(tmp_path):
    loop = """\
        import torch
        from steps import epoch

        def train(loader, optimizer, scheduler):
            for _ in range(9):
                scheduler.step()
                epoch(loader, optimizer)
    """
    call = "train(loader, optimizer, scheduler)"
    files = {
        "loop.py": loop,
        "steps.py": "def epoch(loader, opt):\n    for x in loader:\n        opt.step()\n",
        "main.py": f"from loop import train\n{IMPORTS}\n{MADE}\n{call}\n",
    }
    assert [one.location.row for one in check_in(tmp_path, files, "loop.py", CODE)] == [6]
    files["main.py"] = files["main.py"].replace("\ntrain(", "\noptimizer.step()\ntrain(")
    assert not check_in(tmp_path, files, "loop.py", CODE)


def test_a_readme_that_names_an_older_torch_makes_it_information(tmp_path):
    files = {"README.md": "We use PyTorch 1.0.\n", "train.py": train()}
    (found,) = check_in(tmp_path, files, "train.py", CODE)
    assert found.severity is Severity.INFO
    assert "README" in found.message


OPTION = METHODS.replace(
    "        self.scheduler.step()",
    "        if self.args.decay:\n            self.scheduler.step()",
).replace(
    "        self.loader = loader\n", "        self.loader = loader\n        self.args = args\n"
)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(f"{OPTION}        self.args = self.next_args()\n", id="a method changes it"),
        pytest.param(
            f"{OPTION}\nclass Late(Trainer):\n    def end(self):\n        self.args = 1\n",
            id="a class that extends it changes it",
        ),
        pytest.param(
            f"{OPTION}\ndef begin(trainer):\n    trainer.args = 1\n", id="somebody else changes it"
        ),
        pytest.param(
            OPTION.replace("        self.args = args\n", ""), id="nobody is seen to set it"
        ),
        pytest.param(OPTION.replace("self.args.decay", "self.args.warm"), id="it asks for a turn"),
        pytest.param(
            OPTION.replace("self.args.decay", "ready(self)"), id="it asks for all there is"
        ),
    ],
)
def test_an_object_may_change_its_mind(source):
    silent(source, CODE)


def test_an_option_that_an_object_keeps_is_the_same_in_each_epoch():
    assert check(OPTION, CODE)


def option(given: str) -> str:
    """Return an epoch in a function of its own, which moves a schedule on where it is told to."""
    function = f"""\
def one_epoch(loader, optimizer, scheduler, decay):
    if decay:
        {MOVE}
{textwrap.indent(STEPS, "    ")}
"""
    return train(f"one_epoch(loader, optimizer, scheduler, {given})", top=function)


@pytest.mark.parametrize("given", ["epoch > 3", "ready", "*args.all"])
def test_what_decides_may_be_another_in_each_epoch(given):
    silent(option(given).replace(HEAD, f"{HEAD}\n        ready = args.at()"), CODE)


@pytest.mark.parametrize("given", ["args.decay", "True"])
def test_an_option_is_passed_to_each_epoch(given):
    assert check(option(given), CODE)


KEEPS = f"""\
{IMPORTS}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(9, 9)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        self.scheduler = StepLR(self.optimizer, 30)
"""
EPOCH = """\
def run(model, loader):
    model.scheduler.step()
    for x in loader:
        model(x).backward()
        model.optimizer.step()
"""
CUDA = """\
def to_gpu(x):
    return x.cuda() if torch.cuda.is_available() else x
"""


def kept(made: str = "Net()", more: str = "") -> str:
    """Return a training whose model keeps its scheduler."""
    main = f"model = {made}\n{more}\n{HEAD}\n    run(model, loader)\n"
    return f"{KEEPS}\n{EPOCH}\n{CUDA}\n{main}"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(kept("load()"), id="a model of an unknown class"),
        pytest.param(kept("wrap(Net())"), id="a function that is not seen gives another"),
        pytest.param(kept("Net() if a else load()"), id="perhaps of an unknown class"),
        pytest.param(
            kept(more="model.scheduler = load()"), id="somebody else gives it a scheduler"
        ),
        pytest.param(
            kept(more="model.optimizer.step()"), id="its optimizer has stepped before the loop"
        ),
        pytest.param(kept().replace("self.scheduler =", "scheduler ="), id="it keeps none"),
        pytest.param(
            kept().replace("self.scheduler = StepLR", "self.scheduler = make"),
            id="of whatever kind",
        ),
        pytest.param(kept("model.next"), id="made of itself"),
        pytest.param(
            kept()
            .replace("self.optimizer = torch.optim.SGD", "self.optimizer, self.other_opt = make")
            .replace("model.optimizer", "model.other_opt"),
            id="two optimizers from one function",
        ),
    ],
)
def test_what_an_object_keeps_is_not_known(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    "made", ["Net()", "Net().cuda()", "to_gpu(Net())", "Net() if a else Net().to('cuda')"]
)
def test_a_model_keeps_its_scheduler(made):
    (found,) = check(kept(made), CODE)
    assert "`model.scheduler.step()` comes before" in found.message


def test_a_model_of_another_file_keeps_its_scheduler(tmp_path):
    files = {
        "net.py": f"{KEEPS}\n{CUDA}",
        "steps.py": f"import torch\n\n{EPOCH}",
        "main.py": f"from net import Net, to_gpu\nfrom steps import run\nimport torch\n"
        f"model = to_gpu(Net())\n{HEAD}\n    run(model, loader)\n",
    }
    assert [one.location.row for one in check_in(tmp_path, files, "steps.py", CODE)] == [4]
    files["net.py"] += "\ndef swap(net):\n    net.scheduler = None\n"
    assert not check_in(tmp_path, files, "steps.py", CODE)


# -- TL605: once an epoch, what counts batches ------------------------------------------------

LOADER = "loader = DataLoader(data, 8)\n"
CYCLE = "OneCycleLR(optimizer, 0.1, epochs=9, steps_per_epoch={})"


EACH = step("optimizer.step()\nscheduler.step()")


def cycle(code: str = CYCLE.format("len(loader)"), epoch: str = f"{STEPS}\n{MOVE}") -> str:
    return train(epoch, LOADER + made(code))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(cycle(CYCLE.format(1)), id="as many as epochs"),
        pytest.param(cycle("OneCycleLR(optimizer, 0.1, total_steps=len(names))"), id="of others"),
        pytest.param(cycle("StepLR(optimizer, 30)"), id="another schedule"),
        pytest.param(cycle(epoch=EACH), id="in each step"),
        pytest.param(cycle(epoch=f"{EACH}\n{MOVE}"), id="in both"),
        pytest.param(cycle(epoch=f"{STEPS}\nlog(scheduler)\n{MOVE}"), id="a function gets it"),
    ],
)
def test_a_schedule_is_moved_on_as_often_as_it_counts(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    "code",
    [
        CYCLE.format("len(loader)"),
        "OneCycleLR(optimizer, 0.1, total_steps=9 * len(loader))",
        "CyclicLR(optimizer, 0.1, 1.0, step_size_up=2 * len(loader))",
    ],
)
def test_a_schedule_of_batches_is_moved_on_once_an_epoch(code):
    (found,) = check(cycle(code), CODE)
    assert found.code == "TL605"
    assert "once an epoch" in found.message
