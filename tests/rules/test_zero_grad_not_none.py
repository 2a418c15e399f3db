"""TL602: gradients that are filled with zeros instead of dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tools import check, check_in, fixed, options, silent

from torchlint.linter import check_source
from torchlint.rule import Severity
from torchlint.source import decode_source

CODE = "TL602"

SCRIPT = """
import torch

model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in data:
    {line}
    model(x).sum().backward()
    optimizer.step()
"""


def script(line: str, *, head: str = "", tail: str = "") -> str:
    return head + SCRIPT.replace("{line}", line) + tail


# -- what is left alone -----------------------------------------------------------------------

MAKES = "\nfor w in weights:\n    w.grad = torch.zeros_like(w)\n"
CAPTURE = "    with torch.cuda.graph(torch.cuda.CUDAGraph()):\n        pass\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("optimizer.zero_grad(set_to_none=True)"), id="None is asked for"),
        pytest.param(script("optimizer.zero_grad(True)"), id="None is asked for by position"),
        pytest.param(
            script("optimizer.zero_grad(set_to_none=args.none)"), id="a condition decides"
        ),
        pytest.param(script("optimizer.zero_grad(**options)"), id="the arguments are not known"),
        pytest.param(script("optimizer.zero_grad"), id="it is not called"),
        pytest.param(
            """
            import torch

            class Trainer:
                def step(self, batch):
                    self.optimizer.zero_grad()
                    self.optimizer.update(self.epoch, self.steps)
                    self.model(batch).backward()
                    self.optimizer.step()
            """,
            id="a regime around optimizers",
        ),
        pytest.param(
            """
            import torch

            def fit(model, optimizer):
                optimizer.zero_grad()
                train(model, optimizer)

            def main():
                model = torch.nn.Linear(512, 512)
                fit(model, torch.optim.SGD(model.parameters(), lr=0.1))
            """,
            id="once, before there is a gradient",
        ),
        pytest.param(
            """
            import torch

            def main():
                one, other = torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)
                one(torch.rand(1, 512)).sum().backward()
                other.zero_grad()
                other(torch.rand(1, 512)).sum().backward()
            """,
            id="once, after other gradients",
        ),
        pytest.param(
            """
            import torch

            class Finder(Callback):
                def after_fit(self):
                    self.optimizer.zero_grad()
            """,
            id="at the end of a training",
        ),
        pytest.param(
            script("optimizer.zero_grad(set_to_none=False)", tail=CAPTURE),
            id="a CUDA graph keeps the addresses",
        ),
        pytest.param(
            """
            import torch

            class Wrapper:
                def __init__(self, inner):
                    self.inner = inner

                def zero_grad(self):
                    pass

            def train(optimizer):
                Wrapper(optimizer).zero_grad()
                optimizer.zero_grad()
            """,
            id="a class of this file has a zero_grad of its own",
        ),
        pytest.param(
            """
            import torch

            class Net(torch.nn.Module):
                def zero_grad(self):
                    super().zero_grad()

            net = Net()
            net.zero_grad()
            """,
            id="a module with its own zero_grad, and its call of torch's",
        ),
        pytest.param(
            """
            import torch

            class Agent:
                def learn(self):
                    self.zero_grad()
            """,
            id="self of a class whose base is not known",
        ),
        pytest.param(
            """
            from tinygrad.nn.optim import Adam

            def train(opt):
                opt.zero_grad()
            """,
            id="another library",
        ),
        pytest.param(
            """
            import torch
            from trainer import MixedPrecisionTrainer

            trainer = MixedPrecisionTrainer(model=net)
            trainer.zero_grad()
            """,
            id="an object of another file, made without parameters",
        ),
        pytest.param(
            """
            import torch
            from trainer import MixedPrecisionTrainer

            class Loop:
                def __init__(self, net):
                    self.trainer = MixedPrecisionTrainer(model=net)

                def step(self):
                    self.trainer.zero_grad()
            """,
            id="an object of another file, kept in self",
        ),
        pytest.param(
            script("optimizer.zero_grad()\n    w.grad.add_(noise)", tail=MAKES),
            id="gradients that are made beforehand are added to by hand",
        ),
        pytest.param(
            script("optimizer.zero_grad(set_to_none=False)\n    w.grad += noise"),
            id="gradients are added to by hand: zeros are needed",
        ),
        pytest.param(
            script("optimizer.zero_grad(set_to_none=False)\n    w.grad.data.copy_(noise)"),
            id="gradients are copied into",
        ),
        pytest.param(
            script("optimizer.zero_grad(set_to_none=False)\n    w.grad[0] = 1"),
            id="gradients are written into",
        ),
        pytest.param(
            script("optimizer.zero_grad(set_to_none=False)\n    w.grad = flat[:4].view_as(w)"),
            id="gradients are views of a buffer",
        ),
        pytest.param(
            """
            import torch

            class Mine(torch.optim.Optimizer):
                def zero_grad(self):
                    for group in self.param_groups:
                        for p in group["params"]:
                            p.grad.zero_()
            """,
            id="this is a zero_grad",
        ),
        pytest.param(
            """
            import torch

            for p in model.parameters():
                p.data -= 0.1 * p.grad
                p.grad.zero_()
            """,
            id="the loop does something else as well",
        ),
        pytest.param(
            """
            import torch

            for x in inputs:
                x.grad.zero_()
            """,
            id="not parameters",
        ),
        pytest.param(
            """
            import torch

            for p in model.parameters():
                p.grad = torch.zeros_like(p)
            for p, g in zip(model.parameters(), gradients):
                p.grad += g
            """,
            id="the zeros are a buffer to add to",
        ),
        pytest.param(
            """
            import torch

            for p in model.parameters():
                p.grad.fill_(0.01)
            for p in model.parameters():
                if p.requires_grad:
                    p.grad.zero_()
            for p in model.parameters():
                p.grad = None
            for p in model.parameters():
                for q in p:
                    pass
            """,
            id="not zeros, not all, not with zeros",
        ),
    ],
)
@pytest.mark.parametrize("target", [None, "1.13", "2.0"])
def test_leaves_alone(source, target):
    silent(source, CODE, target)


@pytest.mark.parametrize(
    ("line", "tail"),
    [
        pytest.param("w.grad.add_(noise)", "", id="added to after the backward pass"),
        pytest.param("pass", MAKES, id="only made"),
        pytest.param("w.grad.add_(noise)", "\nw.grad = compute(w)\n", id="made of something"),
    ],
)
def test_gradients_that_the_backward_pass_makes(line, tail):
    assert check(script(f"optimizer.zero_grad()\n    {line}", tail=tail), CODE)


def test_a_bare_call_drops_gradients_since_2_0():
    silent(script("optimizer.zero_grad()\n    model.zero_grad()"), CODE, "2.0")
    silent(script("optimizer.zero_grad()"), CODE, "2.13.1")


def test_below_1_7_there_is_no_such_argument():
    silent(script("optimizer.zero_grad()"), CODE, "1.6")


# -- what is reported -------------------------------------------------------------------------


def test_a_bare_call_where_the_version_is_not_known():
    [found] = check(script("optimizer.zero_grad()"), CODE)
    assert found.severity is Severity.INFO
    assert "below 2.0" in found.message
    assert "`torch-version`" in found.help
    assert "`--torch-version`" in found.help
    assert len(found.message) < 130
    assert found.location.row == 7


def test_a_bare_call_on_an_old_torch():
    [found] = check(script("optimizer.zero_grad()"), CODE, "1.13")
    assert found.severity is Severity.WARNING
    assert "1.13" in found.message
    assert "--torch-version" not in found.message


def test_a_floor_is_not_the_version_in_use():
    read = decode_source(script("optimizer.zero_grad()").encode(), "snippet.py")
    [found] = check_source(read, replace(options(CODE, "1.8"), floor=True))
    assert found.severity is Severity.INFO
    assert "on torch below 2.0" in found.message
    assert "1.8" not in found.message


EPOCHS = """
import torch

model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    {epoch}
    for x, y in data:
        {step}
        model(x).sum().backward()
        optimizer.step()
"""
BEFORE = """
import torch

class Recipe:
    def train(self):
        if not self.inside:
            self.optimizer.zero_grad()
        else:
            for optimizer in self.optimizers.values():
                optimizer.zero_grad()
        for epoch in range(self.epochs):
            for x in self.data:
                self.model(x).sum().backward()
                self.optimizer.step()
                {step}
"""
ZERO = "optimizer.zero_grad()"


def test_once_an_epoch_is_not_once_a_step() -> None:
    silent(EPOCHS.format(epoch=ZERO, step="pass"), CODE, "1.8")
    silent(EPOCHS.format(epoch=ZERO, step="pass"), CODE)
    (found,) = check(EPOCHS.format(epoch=ZERO, step="pass"), CODE, "any")
    assert found.severity is Severity.INFO, "every version was asked for"
    (found,) = check(EPOCHS.format(epoch=ZERO, step=ZERO), CODE, "1.8")
    assert found.location.row == 9
    helped = EPOCHS.format(epoch=ZERO, step="pass").replace("optimizer.step()", "scaler(optimizer)")
    (found,) = check(helped, CODE, "1.8")
    assert found.severity is Severity.INFO


def test_before_the_loop_with_the_steps() -> None:
    silent(BEFORE.format(step="pass"), CODE)
    (found,) = check(BEFORE.format(step="self.optimizer.zero_grad()"), CODE)
    assert found.location.row == 15, "of the step"


RENEWED = """
import torch

class Search:
    def search(self):
        model = fresh()
        for trial in range(9):
            model = {model}
            {before}
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            optimizer.zero_grad()
            {then}

def fresh():
    return torch.nn.Linear(512, 512)

def learn(model):
    model(torch.ones(1, 512)).sum().backward()
"""
LEARN = "learn(model)\n            optimizer.step()"


@pytest.mark.parametrize(
    ("model", "before", "count"),
    [
        pytest.param("torch.nn.Linear(512, 512)", "", 0, id="a new model"),
        pytest.param("fresh().cuda()", "model.train()", 0, id="that is moved and switched"),
        pytest.param("fresh()", "model = model.cuda()", 0, id="line by line"),
        pytest.param("model.cuda()", "", 1, id="the same model"),
        pytest.param("load(trial)", "", 1, id="no one knows which"),
        pytest.param("fresh()", "learn(model)", 1, id="that has gone back already"),
    ],
)
def test_a_new_model_has_no_gradients(model, before, count):
    source = RENEWED.format(model=model, before=before or "pass", then=LEARN)
    assert len(check(source, CODE, "1.13")) == count
    assert len(check(source, CODE, "any")) == count


RESTARTS = """
import torch

def train(model, optimizer):
    for epoch in range(9):
        one_epoch(model, optimizer, data)
        if epoch in milestones:
            {made}
            optimizer.zero_grad()

def one_epoch(model, optimizer, data):
    for x in data:
        model(x).sum().backward()
        optimizer.step()
"""
NEW = "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)"


def test_with_each_new_optimizer_is_not_once_a_step() -> None:
    silent(RESTARTS.format(made=NEW), CODE, "1.13")
    assert check(RESTARTS.format(made=NEW), CODE, "any"), "every version was asked for"
    assert check(RESTARTS.format(made="pass"), CODE, "1.13"), "the steps may be of another"
    warm = f"{NEW}; one_epoch(model, optimizer, held)"
    assert check(RESTARTS.format(made=warm), CODE, "1.13"), "it has taken steps"
    in_step = RENEWED.format(model="model", before="pass", then=LEARN)
    assert check(in_step, CODE, "1.13"), "with each step"


CHANGES = """
class Learner:
    def observe(self, x, task):
        if task != self.task:
            self.optimizer.zero_grad()
            self.penalty(x).backward()
            {noted}
        self.model(x).sum().backward()
        self.optimizer.step()
"""


def test_after_a_change_that_is_seldom() -> None:
    silent("import torch" + CHANGES.format(noted="self.task = task"), CODE)
    assert len(check("import torch" + CHANGES.format(noted="pass"), CODE)) == 1
    every = "import torch" + CHANGES.format(noted="pass").replace("task != self.task", "i % 4 == 0")
    assert len(check(every, CODE)) == 1, "gradients that are added up"


ACCUMULATES = """
import torch

def step(model, optimizer, batches):
    optimizer.zero_grad()
    for x in batches:
        model(x).sum().backward()
    optimizer.step()
"""


def test_before_a_loop_that_only_adds_gradients_up() -> None:
    assert len(check(ACCUMULATES, CODE)) == 1


@pytest.mark.parametrize(
    ("readme", "count"),
    [
        pytest.param("pip install torch==1.4.0", 0, id="no such argument"),
        pytest.param("- Pytorch: 0.4+", 0, id="nor in all that it names"),
        pytest.param("PyTorch install 2.1.0", 0, id="nothing to gain"),
        pytest.param("PyTorch install 1.11.0", 1, id="between"),
        pytest.param("efficient-pytorch/releases/download/1.0", 1, id="of something else"),
    ],
)
@pytest.mark.parametrize("name", ["README.md", "readme.md"])
def test_a_readme_names_the_version(tmp_path, name, readme, count):
    assert len(check_in(tmp_path, {"e.py": ENGINE, name: readme}, "e.py", CODE)) == count


def test_tests_gain_nothing():
    body = SCRIPT.replace("{line}", ZERO).replace("\n", "\n    ")
    silent(f"def test_training():{body}", CODE)
    assert len(check(f"def training():{body}", CODE)) == 1


@pytest.mark.parametrize("target", [None, "1.13", "2.13"])
def test_zeros_that_are_asked_for(target):
    [found] = check(script("optimizer.zero_grad(set_to_none=False)"), CODE, target)
    assert found.severity is Severity.WARNING
    assert found.fix is not None


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("model.zero_grad()", id="a module"),
        pytest.param("something.zero_grad()", id="not known, in a file with torch"),
        pytest.param("optimizers[0].zero_grad()", id="one of a list"),
    ],
)
def test_other_receivers(line):
    assert len(check(script(line), CODE)) == 1


def test_optimizers_of_this_file():
    source = """
    import torch

    class Lookahead(torch.optim.Optimizer):
        pass

    opt = Lookahead(model.parameters())
    for x in data:
        opt.zero_grad()
        model(x).sum().backward()
    """
    [found] = check(source, CODE)
    assert found.fix is not None


def test_optimizers_of_other_libraries():
    source = """
    import torch
    from lion import Lion

    opt = Lion(model.parameters())
    for x in data:
        opt.zero_grad()
        model(x).sum().backward()
    """
    [found] = check(source, CODE)
    assert found.fix is None, "its zero_grad may take no argument"


@pytest.mark.parametrize(
    "body",
    [
        "p.grad.zero_()",
        "p.grad.data.zero_()",
        "p.grad.detach_()\n    p.grad.zero_()",
        "if p.grad is not None:\n        p.grad.zero_()",
        "p.grad = torch.zeros_like(p)",
        "p.grad.data.fill_(0)",
        "if p.grad is not None: p.grad.data.zero_()",
    ],
)
@pytest.mark.parametrize(
    "over",
    ["model.parameters()", "list(model.parameters())", 'group["params"]', "params"],
)
def test_loops_over_parameters(over, body):
    source = f"import torch\nparams = list(net.parameters())\nfor p in {over}:\n    {body}\n"
    [found] = check(source, CODE, "2.13")
    assert found.severity is Severity.WARNING
    assert found.location.row == 3
    assert found.fix is None


@pytest.mark.parametrize(
    ("move", "severities"),
    [
        pytest.param("", [], id="all stays on the host"),
        pytest.param(".to(device)", [Severity.WARNING], id="there may be a GPU"),
    ],
)
def test_loops_over_parameters_on_the_host(move, severities):
    loop = "for p in model.parameters():\n        p.grad.zero_()"
    source = script(loop).replace("Linear(512, 512)", f"Linear(512, 512){move}")
    assert [found.severity for found in check(source, CODE, "2.13")] == severities


# -- what the fix writes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "line", "becomes"),
    [
        (None, "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=True)"),
        ("1.13", "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=True)"),
        (None, "optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad(set_to_none=True)"),
        ("1.9", "optimizer.zero_grad(False)", "optimizer.zero_grad(True)"),
        ("2.0", "optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad()"),
        ("2.13", "optimizer.zero_grad(False,)  # keep", "optimizer.zero_grad()  # keep"),
    ],
)
def test_fix(target, line, becomes):
    assert fixed(script(line), CODE, target=target) == script(becomes)


@pytest.mark.parametrize(
    ("target", "call"), [(None, "set_to_none=True"), ("1.13", "set_to_none=True"), ("2.1", "")]
)
def test_a_loop_becomes_a_call(target, call):
    loop = (
        "for p in model.parameters():\n        if p.grad is not None:\n            p.grad.zero_()"
    )
    before, after = (
        script(line).replace("Linear(512, 512)", "Linear(512, 512).to(device)")
        for line in (loop, f"optimizer.zero_grad({call})")
    )
    assert fixed(before, CODE, target=target) == after


def test_a_loop_over_other_parameters_stays():
    [found] = check(script("for p in other.parameters():\n        p.grad.zero_()"), CODE)
    assert found.fix is None
    assert "None" in found.help


def test_never_safe():
    source = script("optimizer.zero_grad(set_to_none=False)")
    assert fixed(source, CODE, unsafe=False, settles=False) == source


@pytest.mark.parametrize(
    "read",
    [
        pytest.param("norm = w.grad.norm()", id="an attribute"),
        pytest.param("print(w.grad)", id="printed"),
        pytest.param("if w.grad is None:\n        g = 1 + w.grad", id="checked, the wrong way"),
        pytest.param(
            "if x or w.grad is not None:\n        g = w.grad.norm()", id="not always checked"
        ),
        pytest.param("g = [p.grad.norm() for p in model.parameters()]", id="in a comprehension"),
    ],
)
def test_no_fix_where_gradients_are_read(read):
    [found] = check(script(f"optimizer.zero_grad()\n    {read}"), CODE)
    assert found.fix is None
    assert ".grad" in found.help
    [found] = check(script(f"optimizer.zero_grad(set_to_none=False)\n    {read}"), CODE)
    assert found.fix is None


@pytest.mark.parametrize(
    "read",
    [
        pytest.param("if w.grad is not None:\n        g = w.grad.norm()", id="behind a check"),
        pytest.param("if not w.grad is None:\n        g = w.grad", id="behind a negated check"),
        pytest.param("if w.grad is None:\n        pass\n    else:\n        g = w.grad", id="else"),
        pytest.param("if w.grad is None:\n        continue\n    g = w.grad", id="left before"),
        pytest.param("assert w.grad is not None\n    g = w.grad", id="asserted before"),
        pytest.param("g = w.grad if w.grad is not None else 0", id="in an expression"),
        pytest.param("g = w.grad is not None and w.grad.norm()", id="and"),
        pytest.param("g = w.grad is None or w.grad.norm()", id="or"),
        pytest.param("if w.grad:\n        g = w.grad", id="truth"),
        pytest.param("while w.grad is not None:\n        g = w.grad", id="while"),
        pytest.param("g = hasattr(w.grad, 'norm') and w.grad.norm()", id="hasattr"),
        pytest.param(
            "g = [p.grad for p in params if p.grad is not None]", id="in a filtered comprehension"
        ),
        pytest.param(
            "g = {p.grad for ps in all for p in ps if p.grad is not None}",
            id="nested comprehension",
        ),
        pytest.param(
            "try:\n        g = w.grad.norm()\n    except AttributeError:\n        pass", id="try"
        ),
        pytest.param("w.grad = None", id="only set"),
        pytest.param("w.grad: object = None", id="only set, annotated"),
        pytest.param("del w.grad", id="only deleted"),
        pytest.param("g = torch.autograd.grad(loss, w)", id="a function of that name"),
    ],
)
def test_fixed_where_gradients_are_checked(read):
    [found] = check(script(f"optimizer.zero_grad()\n    {read}"), CODE)
    assert found.fix is not None


def test_no_fix_under_a_framework():
    head = "from accelerate import Accelerator\n"
    for line in ("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)"):
        [found] = check(script(line, head=head), CODE, "1.13")
        assert found.fix is None
        assert found.severity is Severity.INFO


def test_no_fix_where_a_dictionary_carries_the_argument():
    line = "options = {'set_to_none': False}\n    optimizer.zero_grad(**options)"
    [found] = check(script(line), CODE)
    assert found.fix is None


# -- the trap: what None changes --------------------------------------------------------------


def test_zeros_let_momentum_move_a_parameter_and_none_does_not():
    """Trap 13: what the fix says that it changes."""

    def train(source: str) -> float:
        torch.manual_seed(0)
        scope: dict = {}
        exec(compile(source, "snippet.py", "exec"), scope)  # noqa: S102 - our own text
        return scope["unused"].item()

    before = """
import torch

used, unused = (torch.nn.Parameter(torch.ones(())) for _ in range(2))
both = torch.nn.ParameterList([used, unused])
optimizer = torch.optim.SGD(both.parameters(), lr=0.1, momentum=0.9)
(used * unused).backward()
optimizer.step()
for _ in range(5):
    optimizer.zero_grad(set_to_none=False)
    (used * 2).backward()
    optimizer.step()
"""
    after = fixed(before, CODE, target="2.13")
    assert train(after) == pytest.approx(0.9)
    assert train(before) < 0.6


# -- optimizers whose method takes no argument ----------------------------------------------------

ENGINE = """
import torch

def train(model, loader, optimizer: torch.optim.Optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("factory", "count"),
    [
        pytest.param("from apex.optimizers import FusedAdam\n", 0, id="apex, elsewhere"),
        pytest.param("import horovod.torch as hvd\n", 0, id="Horovod, elsewhere"),
        pytest.param("import deepspeed\n", 0, id="DeepSpeed, elsewhere"),
        pytest.param(
            "from timm.optim import create_optimizer\n", 0, id="apex by an option of timm"
        ),
        pytest.param("from timm.optim import Lamb\n", 1, id="an optimizer of timm"),
        pytest.param("import torch\n", 1, id="no other optimizers in the project"),
    ],
)
def test_an_optimizer_that_may_be_of_apex_takes_no_argument(tmp_path, factory, count):
    found = check_in(tmp_path, {"engine.py": ENGINE, "factory.py": factory}, "engine.py", CODE)
    assert [one.fix is not None for one in found] == [True] * count


@pytest.mark.parametrize(
    ("head", "change"),
    [
        ("from apex import amp\n", "model, optimizer = amp.initialize(model, optimizer)"),
        ("from apex import amp\n", "amp.initialize(model, optimizer)"),
        ("from apex import amp as a\n", "a.initialize(model, optimizer)"),
        ("from apex.amp import scale_loss\n", "scale_loss(1, optimizer)"),
        ("from apex.parallel.LARC import LARC\n", "optimizer = LARC(optimizer)"),
        ("import apex\n", "optimizer = apex.parallel.LARC(optimizer)"),
        ("import apex\n", "optimizer = apex.optimizers.FusedSGD(model.parameters(), 0.1)"),
    ],
)
def test_apex_may_change_the_optimizer_and_no_model(head, change):
    def changed(line: str) -> str:
        return script(line, head=head).replace("for x in", f"{change}\nfor x in")

    silent(changed("optimizer.zero_grad()"), CODE)
    (found,) = check(changed("model.zero_grad()"), CODE)
    assert found.fix is None


PLAIN = """
import apex
from apex import amp, optimizers
from factory import make

def main(loader, net):
    net = apex.parallel.convert_syncbn_model(net)
    optimizer = make(net)
    for x in loader:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
"""
FACTORY = "import torch\ndef make(net):\n    return torch.optim.SGD(net.parameters(), 0.1)\n"


@pytest.mark.parametrize(
    ("factory", "engine", "count"),
    [
        pytest.param(FACTORY, PLAIN, 1, id="apex only changes the layers"),
        pytest.param(
            FACTORY, PLAIN.replace("import apex\n", "import apex, torch\n"), 1, id="torch"
        ),
        pytest.param(f"{FACTORY}amp.initialize(net, optimizer)\n", PLAIN, 0, id="it wraps there"),
        pytest.param(FACTORY.replace("torch.optim", "apex.optimizers"), PLAIN, 0, id="of apex"),
    ],
)
def test_an_optimizer_of_torch_in_a_file_that_uses_apex_for_something_else(
    tmp_path, factory, engine, count
):
    files = {"engine.py": engine, "factory.py": factory}
    found = check_in(tmp_path, files, "engine.py", CODE)
    assert [one.fix is None for one in found] == [True] * count


@pytest.mark.parametrize(
    ("factory", "count"),
    [
        pytest.param("from apex.optimizers import FusedAdam\n", 1, id="apex, elsewhere"),
        pytest.param("from timm.optim import create_optimizer\n", 1, id="apex by an option"),
    ],
)
def test_every_version_asks_for_those_that_may_be_of_apex_as_well(tmp_path, factory, count):
    files = {"engine.py": ENGINE, "factory.py": factory}
    found = check_in(tmp_path, files, "engine.py", CODE, "any")
    assert [(one.fix, "apex" in one.help) for one in found] == [(None, True)] * count
    files["engine.py"] = ENGINE + "import horovod.torch as hvd\n"
    assert not check_in(tmp_path, files, "engine.py", CODE, "any")


MADE = "import torch\ndef make(name) -> torch.optim.Optimizer:\n    return find(name)\n"
OPTION = "from apex.optimizers import FusedAdam\n" + MADE


@pytest.mark.parametrize(
    ("head", "line", "count"),
    [
        pytest.param('"""As in the example of apex."""\n', "", 1, id="in the docstring"),
        pytest.param("# After the example of apex.\n", "", 1, id="in a comment"),
        pytest.param("from apex import amp\n", "", 0, id="imported"),
        pytest.param("", 'tool = import_module("apex.amp")\n', 0, id="imported by name"),
        pytest.param("", "use_apex = False\n", 0, id="in a name"),
    ],
)
def test_a_text_that_only_tells_of_apex_uses_none(tmp_path, head, line, count):
    engine = ENGINE.replace(
        "\nimport torch\n", f"{head}import torch\nfrom factory import make\n{line}"
    )
    engine = engine.replace(
        "loader, optimizer: torch.optim.Optimizer):", "loader, name):\n    optimizer = make(name)"
    )
    files = {"engine.py": engine, "factory.py": OPTION}
    found = check_in(tmp_path, files, "engine.py", CODE, "any")
    assert [(one.fix, one.severity, "apex" in one.help) for one in found] == [
        (None, Severity.INFO, True)
    ] * count
    assert not check_in(tmp_path, files, "engine.py", CODE)


LEFT_OVER = "from apex import amp\n"
USING = "from engine import train\nfrom factory import make\nfrom apex.parallel import DDP\n"


@pytest.mark.parametrize(
    ("head", "line", "others", "count"),
    [
        pytest.param(LEFT_OVER, "", (USING, FACTORY), 1, id="nothing of it is used"),
        pytest.param(LEFT_OVER, "torch.cuda.amp.autocast()\n", (USING, FACTORY), 1, id="torch's"),
        pytest.param(LEFT_OVER, "scaled = amp.scale_loss\n", (USING, FACTORY), 0, id="used"),
        pytest.param(LEFT_OVER, "kind = 'apex'\n", (USING, FACTORY), 0, id="a text names it"),
        pytest.param(LEFT_OVER, "", (USING, OPTION), 0, id="another file makes one of it"),
        pytest.param(
            LEFT_OVER, "", (f"{USING}amp.initialize(net, optimizer)\n", FACTORY), 0, id="wrapped"
        ),
        pytest.param(
            f"{LEFT_OVER}import deepspeed\n", "", (USING, FACTORY), 0, id="another engine"
        ),
    ],
)
def test_an_import_of_apex_that_nothing_uses(tmp_path, head, line, others, count):
    files = {"engine.py": f"{head}{ENGINE}\n{line}"}
    files["main.py"], files["factory.py"] = others
    found = check_in(tmp_path, files, "engine.py", CODE, "any")
    assert [(one.fix, "apex" in one.help) for one in found] == [(None, True)] * count
    assert not check_in(tmp_path, files, "engine.py", CODE)


WRAPPED = "    if args.amp:\n        net, optimizer = amp.initialize(net, optimizer)\n"


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param(WRAPPED, 1, id="by an option"),
        pytest.param("    net, optimizer = amp.initialize(net, optimizer)\n", 0, id="always"),
        pytest.param(f"{WRAPPED}    optimizer = optimizers.FusedSGD(net)\n", 0, id="of apex"),
        pytest.param(f"{WRAPPED}    optimizer = DistributedOptimizer(optimizer)\n", 0, id="again"),
    ],
)
def test_an_option_may_have_apex_change_the_optimizer(tmp_path, lines, count):
    engine = PLAIN.replace("    for x in", f"{lines}    for x in")
    files = {"engine.py": engine, "factory.py": FACTORY}
    assert not check_in(tmp_path, files, "engine.py", CODE)
    found = check_in(tmp_path, files, "engine.py", CODE, "any")
    assert [(one.fix, "`amp.initialize`" in one.help) for one in found] == [(None, True)] * count


SCHEDULED = """
import torch

class Scheduled({base}):
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def {method}(self):
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("base", "method", "count"),
    [
        pytest.param("torch.optim.Optimizer", "step", 1, id="an optimizer itself"),
        pytest.param("object", "step", 0, id="around one"),
        pytest.param("torch.optim.Optimizer", "zero_grad", 0, id="with a zero_grad of its own"),
    ],
)
def test_an_object_around_an_optimizer_that_inherits_from_it(tmp_path, base, method, count):
    engine = """
        import torch
        from scheduling import Scheduled

        def main(loader, net, options):
            optimizer = Scheduled(torch.optim.SGD(options))
            for x in loader:
                optimizer.zero_grad()
                net(x).sum().backward()
                optimizer.step()
    """
    files = {"scheduling.py": SCHEDULED.format(base=base, method=method), "engine.py": engine}
    assert len(check_in(tmp_path, files, "engine.py", CODE)) == count


CHOICE = """
import torch
from near import First, Second, Third

def main(loader, net, options):
    optimizer = First(net.parameters()) if options.first else {second}(net.parameters())
    for x in loader:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("second", "method", "count"),
    [
        pytest.param("Second", "step", 1, id="both are optimizers"),
        pytest.param("torch.optim.SGD", "step", 1, id="the other is torch's"),
        pytest.param("Second", "zero_grad", 0, id="one has a zero_grad of its own"),
        pytest.param("Third", "step", 0, id="one is no optimizer"),
    ],
)
def test_one_of_several_classes_by_an_option(tmp_path, second, method, count):
    one = "class {}(torch.optim.Optimizer):\n    def {}(self): ...\n"
    near = f"import torch\n{one.format('First', 'step')}{one.format('Second', method)}"
    near += "class Third:\n    def __init__(self, parameters): ...\n"
    files = {"near.py": near, "engine.py": CHOICE.format(second=second)}
    assert len(check_in(tmp_path, files, "engine.py", CODE)) == count


BUILDER = """
import torch

class Scaled({base}):
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def zero_grad(self):
        self.optimizer.zero_grad()

def build(net, options):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    {line}
    return optimizer
"""


@pytest.mark.parametrize(
    ("base", "line", "count"),
    [
        pytest.param("object", "if options.scaled:\n        optimizer = {}", 1, id="by an option"),
        pytest.param("object", "optimizer = {}", 0, id="always"),
        pytest.param(
            "object", "if options.scaled: pass\n    else: optimizer = {}", 0, id="by none"
        ),
        pytest.param("object", "if options.scaled:\n        return {}", 0, id="returned at once"),
        pytest.param("object", "pass", 0, id="nothing shows who makes it"),
        pytest.param(
            "torch.nn.Module", "if options.scaled:\n        optimizer = {}", 0, id="a model"
        ),
    ],
)
@pytest.mark.parametrize("parameter", ["optimizer", "optimizer: torch.optim.Optimizer"])
def test_a_class_of_the_project_around_an_optimizer(tmp_path, base, line, count, parameter):
    built = BUILDER.format(base=base, line=line.format("Scaled(optimizer=optimizer)"))
    engine = ENGINE.replace("optimizer: torch.optim.Optimizer", parameter)
    files = {"near.py": built, "engine.py": f"from near import build\n{engine}"}
    assert not check_in(tmp_path, files, "engine.py", CODE)
    found = check_in(tmp_path, files, "engine.py", CODE, "any")
    assert [(one.fix, "a class of the project" in one.help) for one in found] == [
        (None, True)
    ] * count


TRAINER = """
from net import Net

class Trainer:
    def __init__(self, options):
        self.net = Net(options)
        self.optimizer = self.net.make_optimizer(options)

    def step(self, x):
        self.optimizer.zero_grad()
        self.net(x).mean().backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("net", "count"),
    [
        pytest.param("import torch\nclass Net(torch.nn.Module): ...\n", 1, id="torch"),
        pytest.param("from torch import nn\nclass Net(nn.Module): ...\n", 1, id="from torch"),
        pytest.param("import jittor\nclass Net(jittor.Module): ...\n", 0, id="another library"),
        pytest.param("import torchlike\nclass Net: ...\n", 0, id="one that sounds like it"),
        pytest.param("import torch\ndef zero_grad(self): ...\n", 0, id="a zero_grad of its own"),
    ],
)
def test_a_trainer_that_leaves_torch_to_the_file_with_the_model(tmp_path, net, count):
    found = check_in(tmp_path, {"engine.py": TRAINER, "net.py": net}, "engine.py", CODE)
    assert [one.fix for one in found] == [None] * count


def test_an_option_may_choose_an_optimizer_of_apex(tmp_path):
    files = {
        "main.py": "from timm.optim import create_optimizer\n",
        "engine.py": ENGINE,
    }
    (found,) = check_in(tmp_path, files, "engine.py", CODE, "1.13.1")
    assert found.fix is None
    assert "apex" in found.help


def test_the_optimizer_that_comes_out_of_horovod_takes_no_argument():
    wrapped = """
    import horovod.torch as hvd
    import torch

    class Manager:
        def __init__(self, config, net):
            self.optimizer = config.build_optimizer(net.parameters())
            self.optimizer = hvd.DistributedOptimizer(self.optimizer)

        def train(self, loader):
            for x in loader:
                self.optimizer.zero_grad()
                self.net(x).sum().backward()
                self.optimizer.step()
    """
    silent(wrapped, CODE)
    plain = wrapped.replace("import horovod.torch as hvd", "").replace(
        "hvd.DistributedOptimizer(self.optimizer)", "config.check(self.optimizer)"
    )
    assert len(check(plain, CODE)) == 1


def test_the_engine_of_deepspeed_takes_no_argument():
    head = "import deepspeed\nmodel, *_ = deepspeed.initialize(model=torch.nn.Linear(512, 512))\n"
    silent(script("model.zero_grad()", head="import torch\n" + head), CODE)


def test_an_optimizer_by_annotation_may_be_of_the_project(tmp_path):
    engine = ENGINE.replace("import torch", "import torch\nimport o")
    own = "class Mine(Optimizer):\n    def zero_grad(self):\n        pass\n"
    assert check_in(tmp_path, {"e.py": engine, "o.py": own}, "e.py", CODE) == []


@pytest.mark.parametrize(
    "head",
    [
        "from torch.nn.attention import SDPBackend\n",
        "import torch\nnet = torch.compile(torch.nn.Linear(512, 512))\n",
        "import torch.nn.functional as F\ny = F.scaled_dot_product_attention(q, k, v)\n",
        "from torchvision.transforms import v2\n",
    ],
)
def test_code_for_torch_2_drops_gradients(head):
    silent(script("optimizer.zero_grad()", head=head), CODE)


@pytest.mark.parametrize(
    "head",
    [
        "import torch\nif hasattr(torch, 'compile'):\n    net = torch.compile(net)\n",
        "import torch\nif version >= '2.0':\n    net = torch.compile(net)\n",
        "try:\n    from torch.func import vmap\nexcept ImportError:\n    vmap = None\n",
        "import re\npattern = re.compile('a')\n",
    ],
)
def test_code_that_asks_for_torch_2_may_run_on_torch_1(head):
    assert len(check(script("optimizer.zero_grad()", head=head), CODE)) == 1


def test_a_file_that_is_imported_needs_torch_2(tmp_path):
    engine = ENGINE.replace("import torch", "import torch\nimport o")
    other = "import torch\n\ndef build(net):\n    return torch.compile(net)\n"
    assert check_in(tmp_path, {"e.py": engine, "o.py": other}, "e.py", CODE) == []


@pytest.mark.parametrize(
    ("line", "count"),
    [
        pytest.param("import torchao", 0, id="a package for torch 2"),
        pytest.param("from torch.distributed.tensor import DTensor", 0, id="a module of torch 2"),
        pytest.param(
            "from torch.distributed.fsdp import (\n    CPUOffload,\n    fully_shard,\n)",
            0,
            id="name",
        ),
        pytest.param("@torch.compile\ndef f(x):\n    return x", 0, id="a decorator"),
        pytest.param("try:\n    import torchao\nexcept ImportError:\n    pass", 1, id="asked for"),
        pytest.param("from torch.distributed.fsdp import CPUOffload", 1, id="of torch 1"),
        pytest.param("def f():\n    import torchao", 1, id="when it is called"),
    ],
)
def test_a_module_that_the_file_runs_needs_torch_2(tmp_path, line, count):
    engine = ENGINE.replace("import torch", "import torch\nimport near", 1)
    files = {"e.py": engine, "near.py": "import far\n", "far.py": "import farther\n"}
    assert len(check_in(tmp_path, {**files, "farther.py": line}, "e.py", CODE)) == count
    assert len(check_in(tmp_path, {"e.py": ENGINE, "farther.py": line}, "e.py", CODE)) == 1


def test_the_first_version_is_named_where_none_is_declared():
    (found,) = check(script("optimizer.zero_grad()"), CODE)
    assert found.fix is not None
    assert "torch 1.7 on" in found.message
    assert "torch below 1.7" in found.fix.changes


def test_accelerate_decides_by_itself() -> None:
    head = (
        "from accelerate import Accelerator\n"
        "model, optimizer = Accelerator().prepare(build(), torch.optim.SGD(params))\n"
    )
    (found,) = check("import torch\n" + head + SCRIPT.partition("0.1)")[2].replace(
        "{line}", "optimizer.zero_grad()"), CODE)  # fmt: skip
    assert found.severity is Severity.INFO
    assert "leaves it to Accelerate" in found.message
    assert "2.0" not in found.message


def test_what_accelerate_wraps_takes_an_argument(tmp_path):
    made = "torch.optim.SGD(build().parameters())"
    script = "import torch\nfrom accelerate import Accelerator\n" + ENGINE.replace(
        "    for x", "    optimizer = Accelerator().prepare(optimizer)\n    for x"
    )
    files = {"engine.py": script, "main.py": f"import deepspeed, torch\n{made}\n"}
    (_,) = check_in(tmp_path, files, "engine.py", CODE)


def test_an_optimizer_of_the_project_zeroes_by_itself(tmp_path):
    engine = ENGINE.replace(": torch.optim.Optimizer", "").replace(
        "import torch", "import torch\nimport o"
    )
    scheduled = "class Scheduled:\n    def zero_grad(self):\n        self.optimizer.zero_grad()\n"
    assert check_in(tmp_path, {"e.py": engine, "o.py": scheduled}, "e.py", CODE) == []
    (_,) = check_in(tmp_path, {"e.py": engine, "o.py": "import torch"}, "e.py", CODE)


# -- by what the project uses -------------------------------------------------------------------


def test_old_code_has_no_argument_to_pass() -> None:
    tail = "    loss.backward()\n    print(loss.data[0])\n"
    silent(script("optimizer.zero_grad()", tail=tail), CODE)


def test_code_for_torch_1_needs_no_version_to_be_declared() -> None:
    (found,) = check(script("optimizer.zero_grad()", head="from torch._six import inf\n"), CODE)
    assert found.severity is Severity.INFO
    assert found.message == (
        "`optimizer.zero_grad()` fills the gradients with zeros on torch below 2.0, which "
        "`torch._six` needs: `set_to_none=True` drops them (from torch 1.7 on)"
    )


def test_what_runs_up_to_torch_1_7_has_little_to_gain() -> None:
    head = "from torchtext.data import BucketIterator\n"
    silent(script("optimizer.zero_grad()", head=head), CODE)
    assert len(
        check(script("optimizer.zero_grad()", head=head.replace("data", "legacy.data")), CODE)
    )


# -- gradients that two parameters share ------------------------------------------------------

SHARED = """
import torch

def share(local, shared):
    {assign}

def train(shared, batches):
    local = torch.nn.Linear(512, 512)
    optimizer = torch.optim.SGD(shared.parameters(), lr=0.1)
    for x in batches:
        optimizer.zero_grad()
        local(x).sum().backward()
        share(local, shared)
        optimizer.step()
"""
PAIRS = "for p, s in zip(local.parameters(), shared.parameters()):\n        "


@pytest.mark.parametrize(
    "assign",
    [
        pytest.param(f"{PAIRS}s._grad = p.grad", id="the attribute below"),
        pytest.param(f"{PAIRS}s.grad = p.grad", id="the property"),
        pytest.param(f"{PAIRS}s.grad = p.grad.detach()", id="the same memory"),
        pytest.param(f"{PAIRS}s._grad = p.grad.cpu()", id="no copy of what is there"),
        pytest.param(f"{PAIRS}s.grad.data = p.grad.data", id="the data alone"),
        pytest.param(f"{PAIRS}s._grad = p.grad if x else p.grad.cpu()", id="in either case"),
        pytest.param(f"{PAIRS}g = p.grad\n        s.grad = g", id="by a name"),
        pytest.param(
            "kept = [p.grad for p in local.parameters()]\n"
            "    for s, g in zip(shared.parameters(), kept):\n        s.grad = g",
            id="from a list",
        ),
        pytest.param(
            "kept = []\n    for p in local.parameters():\n        kept.append(p.grad)\n"
            "    for i, (s, g) in enumerate(zip(shared.parameters(), kept)):\n"
            "        s.grad = g\n        t.grad = kept[i]",
            id="from a list that grows",
        ),
        pytest.param(
            "give(shared, [p.grad for p in local.parameters()])\n\n"
            "def give(model, kept):\n"
            "    for s, g in zip(model.parameters(), kept):\n        s.grad = g",
            id="by a function",
        ),
    ],
)
def test_zeros_clear_gradients_that_are_shared(assign):
    silent(SHARED.replace("{assign}", assign), CODE, "1.13")


@pytest.mark.parametrize(
    ("around", "count"),
    [
        pytest.param("nn.DataParallel(self.net)", 1, id="a module of torch"),
        pytest.param("Wrapped(self.net)", 0, id="an object that may have a zero_grad of its own"),
    ],
)
def test_what_an_attribute_of_unknown_origin_is_put_into(around, count):
    source = f"""
    import torch
    from torch import nn
    from wrapping import Wrapped

    class Runner:
        def __init__(self, net, optimizer):
            self.net, self.optimizer = net, optimizer

        def train(self, batches):
            self.net = {around}
            for x in batches:
                loss = self.net(x).sum()
                self.net.zero_grad()
                loss.backward()
                self.optimizer.step()
    """
    assert len(check(source, CODE)) == count


@pytest.mark.parametrize(
    "assign",
    [
        pytest.param(f"{PAIRS}s.grad = p.grad.clone()", id="a copy"),
        pytest.param(f"{PAIRS}s.grad = p.grad / 2", id="computed"),
        pytest.param(f"{PAIRS}s.grad = torch.zeros_like(p)", id="new"),
        pytest.param(f"{PAIRS}s.grad.copy_(p.grad)", id="copied into"),
        pytest.param(f"{PAIRS}p.grad = p.grad.data", id="its own"),
        pytest.param(f"{PAIRS}s.data = p.data", id="the values"),
        pytest.param(f"{PAIRS}g = p.grad", id="a name alone"),
        pytest.param("s.grad = torch.autograd.grad(loss, s)[0]", id="a function of that name"),
        pytest.param(
            "for g, n in zip([p.grad for p in local.parameters()], new):\n        s.grad = n",
            id="another of the pair",
        ),
    ],
)
def test_gradients_of_its_own_may_be_dropped(assign):
    assert len(check(SHARED.replace("{assign}", assign), CODE, "1.13")) == 1


@pytest.mark.parametrize(("value", "count"), [("p.grad", 0), ("p.grad.clone()", 1)])
def test_gradients_that_another_file_shares(tmp_path, value, count):
    share = f"def share(local, shared):\n    {PAIRS}s.grad = {value}\n"
    main = f"from sharing import share\n{SCRIPT.replace('{line}', 'optimizer.zero_grad()')}"
    files = {"sharing.py": share, "main.py": main}
    assert len(check_in(tmp_path, files, "main.py", CODE, "1.13")) == count


def test_dropping_one_of_two_gradients_that_are_one_keeps_the_other():
    found = []
    for drop in (False, True):
        local, shared = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
        optimizer = torch.optim.SGD([shared], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=drop)
            (3 * local).backward()
            if shared.grad is None:
                shared.grad = local.grad
        found.append(local.grad.item())
    assert found == [3, 6]


# -- gradients that move nothing, or next to nothing ------------------------------------------

MAPS = """
import torch

def maps(model, images):
    model.eval()
    for x in images:
        model.zero_grad()
        model(x).max().backward()
        {then}

def update(rule):
    rule.step()
"""
LEARNS = """
def learn(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches:
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("change", "then", "count"),
    [
        pytest.param(("", ""), "show(x)", 0, id="a heat map"),
        pytest.param((".eval()", ".train()"), "show(x)", 1, id="in training mode"),
        pytest.param(("model.eval()", "pass"), "show(x)", 1, id="in any mode"),
        pytest.param(("", ""), "update(rule)", 1, id="a helper takes a step"),
        pytest.param(
            ("model.eval()", "mode = model.training; model.eval()"),
            "model.train(mode)",
            0,
            id="in the mode from before, afterwards",
        ),
        pytest.param(("", ""), "model.train(True)", 1, id="in training mode, afterwards"),
    ],
)
def test_gradients_that_are_only_looked_at(change, then, count):
    alone = MAPS.replace(*change).replace("{then}", then)
    if "train(" not in then:
        assert len(check(alone, CODE, "1.13")) == count
    assert len(check(alone + LEARNS, CODE, "1.13")) == count


EVALUATES = """
import torch

def evaluate(model, images):
    {}
    model.eval()
    for x in images:
        show(model(x))
    model.zero_grad()
"""


@pytest.mark.parametrize(
    ("line", "count"),
    [
        pytest.param("torch.set_grad_enabled(False)", 1, id="nothing goes back any more"),
        pytest.param("torch.set_grad_enabled(True)", 0, id="something may go back"),
        pytest.param("with torch.set_grad_enabled(False): pass", 0, id="but not in there"),
    ],
)
def test_an_evaluation_that_clears_gradients_looks_at_none(line, count):
    runs = LEARNS + "for epoch in range(9):\n    learn(net, data)\n    evaluate(net, data)\n"
    assert len(check(EVALUATES.format(line) + runs, CODE, "1.13")) == count


ASKS = """
import torch

model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def gradients(out):
    return torch.autograd.grad(out.sum(), list(model.parameters()))

def learn(loss):
    loss.backward()

for x in data:
    model.zero_grad()
    {line}
optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "count"),
    [
        pytest.param("keep(gradients(model(x)))", 0, id="gradients that are returned"),
        pytest.param("keep([g.cpu() for g in gradients(model(x))])", 0, id="and moved"),
        pytest.param("learn(model(x).sum())", 1, id="a function of the file goes back"),
        pytest.param("keep(gradients(model(x))); model(x).sum().backward()", 1, id="both"),
        pytest.param("agent.update(x)", 1, id="what an unknown method does, by its name"),
        pytest.param("run(model, optimizer, x)", 1, id="a function that gets the optimizer"),
        pytest.param("jobs[0](x)", 1, id="a function without a name"),
    ],
)
def test_nothing_adds_to_gradients_that_are_cleared(line, count):
    assert len(check(ASKS.replace("{line}", line), CODE, "1.13")) == count


PROBE = """
import torch

model = load()
parameters = {made}
{assertion}
optimizer = torch.optim.SGD(parameters, lr=0.1)
for x in data:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""
ALL = "list(model.parameters())"
CHOSEN = "list(filter(lambda p: p.requires_grad, model.parameters()))"


@pytest.mark.parametrize(
    ("made", "assertion", "count"),
    [
        pytest.param(ALL, "assert len(parameters) == 2", 0, id="a layer and its bias"),
        pytest.param(CHOSEN, "assert len(parameters) == 2  # both", 0, id="those that are trained"),
        pytest.param(
            "[p for p in model.parameters() if p.requires_grad]",
            "assert len(parameters) <= 4, parameters",
            0,
            id="at most",
        ),
        pytest.param(ALL, "assert len(parameters) == 64", 1, id="many"),
        pytest.param(ALL, "assert len(parameters) > 2", 1, id="at least"),
        pytest.param(ALL, "assert len(others) == 2", 1, id="of something else"),
        pytest.param(ALL, "print(len(parameters) == 2)", 1, id="it is not asserted"),
        pytest.param(ALL, "if probe:\n    assert len(parameters) == 2", 1, id="in one mode"),
        pytest.param(
            ALL, "assert len(parameters) == 2\nparameters = list(f())", 1, id="of others before"
        ),
        pytest.param("groups(model)", "assert len(parameters) == 2", 1, id="groups of parameters"),
    ],
)
def test_few_parameters_by_assertion(made, assertion, count):
    source = PROBE.replace("{made}", made).replace("{assertion}", assertion)
    assert len(check(source, CODE, "1.13")) == count


@pytest.mark.parametrize(
    ("given", "count"),
    [
        pytest.param("[image]", 0, id="an image"),
        pytest.param("(image, scale)", 0, id="and a number"),
        pytest.param("[{'params': [image]}]", 1, id="a group"),
        pytest.param("[*others, image]", 1, id="and others"),
        pytest.param("[unknown]", 1, id="nobody knows what"),
        pytest.param("[image, image, scale, scale, image]", 1, id="more"),
    ],
)
def test_few_tensors_by_name(given, count):
    source = f"""
import torch

image = torch.rand(3, 64, 64, requires_grad=True)
scale = torch.ones(1).requires_grad_(True)
optimizer = torch.optim.SGD({given}, lr=0.1)
for x in data:
    optimizer.zero_grad()
    model(image * scale, x).sum().backward()
    optimizer.step()
"""
    assert len(check(source, CODE, "1.13")) == count


NETWORKS = """
import torch
from torch import nn

width = 5

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(width, 4)
        self.rnn = nn.RNN(input_size=4, hidden_size=width, batch_first=True)
        self.out = nn.Linear(width, 5)
    def forward(self, x):
        return self.out(self.rnn(self.words(x))[0])

class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Linear(8, 4), nn.BatchNorm1d(4)

net = {made}
optimizer = torch.optim.Adam(net.parameters())
for x in data:
    {over}.zero_grad()
    net(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "count"),
    [
        pytest.param("nn.Linear(1, 1)", 0, id="a line"),
        pytest.param("nn.Linear(28 * 28, out_features=10)", 0, id="computed"),
        pytest.param("nn.Linear(784, 10)", 0, id="one layer"),
        pytest.param("nn.Linear(2048, 1000)", 1, id="one that is large"),
        pytest.param("nn.Linear(features, 10)", 1, id="one of unknown size"),
        pytest.param("nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 1))", 0, id="two"),
        pytest.param("nn.Sequential(nn.Linear(4, 128), nn.Linear(128, 2))", 1, id="wider"),
        pytest.param("Words()", 0, id="words"),
        pytest.param("nn.LSTM(4, 4)", 0, id="a recurrent layer"),
        pytest.param("nn.LSTM(4, 64)", 1, id="with more units"),
        pytest.param("nn.GRU(units, 4)", 1, id="of unknown size, recurrent"),
        pytest.param("nn.LSTM(4, 4, num_layers=n)", 1, id="as many as somebody says"),
        pytest.param("nn.LSTM(4, 4, 9)", 1, id="nine layers"),
        pytest.param("nn.LSTM(4, 4, **options)", 1, id="with options"),
        pytest.param("nn.Linear(*sizes)", 1, id="sizes that somebody gives"),
        pytest.param("Normed()", 1, id="a layer whose size is not read"),
    ],
)
@pytest.mark.parametrize("over", ["optimizer", "net"])
def test_little_to_fill(made, count, over):
    source = NETWORKS.replace("{made}", made).replace("{over}", over)
    assert len(check(source, CODE, "1.13")) == count
