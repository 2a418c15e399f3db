"""TL602: gradients that are filled with zeros instead of dropped."""

from __future__ import annotations

import pytest
import torch
from tools import check, check_in, fixed, silent

from torchlint.rule import Severity

CODE = "TL602"
EXPLICIT = "optimizer.zero_grad(set_to_none=False)"

SCRIPT = """
import torch

model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in data:
    {line}
    model(x).sum().backward()
    optimizer.step()
"""
TRAIN = """
import torch

def train(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""


def script(line: str, *, head: str = "", tail: str = "") -> str:
    return head + SCRIPT.replace("{line}", line) + tail


def zeroing(over: str, body: str) -> str:
    return script(f"for p in {over}:\n        {body}")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("optimizer.zero_grad(set_to_none=True)"), id="None is asked for"),
        pytest.param(script("optimizer.zero_grad(True)"), id="by position"),
        pytest.param(script("optimizer.zero_grad(set_to_none=args.none)"), id="nothing decides it"),
        pytest.param(script("optimizer.zero_grad(**options)"), id="arguments that are not known"),
        pytest.param(script("optimizer.zero_grad"), id="it is not called"),
        pytest.param(
            script("pass").replace("for x", f"{EXPLICIT}\nfor x"), id="before there is a gradient"
        ),
        pytest.param(
            script(EXPLICIT + "\n    with torch.cuda.graph(torch.cuda.CUDAGraph()):\n        pass"),
            id="a CUDA graph keeps the addresses",
        ),
        pytest.param(
            script(
                EXPLICIT,
                tail="for s, p in zip(shared, model.parameters()):\n    s._grad = p.grad.cpu()\n",
            ),
            id="zeros clear the gradient of another parameter",
        ),
        pytest.param(script(f"{EXPLICIT}\n    w.grad += noise"), id="the buffer is added to"),
        pytest.param(script(f"{EXPLICIT}\n    w.grad.data.copy_(x)"), id="copied into"),
        pytest.param(script(f"{EXPLICIT}\n    w.grad[0] = 1"), id="written into"),
        pytest.param(script(f"{EXPLICIT}\n    w.grad = flat[:4].view_as(w)"), id="a view of one"),
        pytest.param(
            """
            import torch

            class Mine(torch.optim.Optimizer):
                def zero_grad(self):
                    self.filled = 0

            mine = Mine(parameters)
            for x in data:
                mine.zero_grad()
                model(x).sum().backward()
            """,
            id="a class with a zero_grad of its own",
        ),
        pytest.param(
            script("optimizer.zero_grad()", head="from apex.optimizers import FusedSGD\n").replace(
                "torch.optim.SGD", "FusedSGD"
            ),
            id="optimizers of apex drop gradients",
        ),
        pytest.param(
            "import jittor\n\ndef train(net):\n    net.zero_grad()\n", id="a library like torch"
        ),
        pytest.param(
            zeroing("model.parameters()", "p.data -= 0.1 * p.grad\n        p.grad.zero_()"),
            id="the loop does something else as well",
        ),
        pytest.param(zeroing("model.parameters()", "p.grad.fill_(0.01)"), id="not zeros"),
        pytest.param(
            zeroing("model.parameters()", "if p.requires_grad:\n            p.grad.zero_()"),
            id="not all",
        ),
        pytest.param(zeroing("model.parameters()", "p.grad = None"), id="dropped"),
    ],
)
@pytest.mark.parametrize("target", [None, "1.13", "2.0"])
def test_is_silent(source, target):
    silent(source, CODE, target)


@pytest.mark.parametrize("target", ["1.6", "2.0", "2.13.1"])
def test_a_bare_call_where_it_drops_gradients_or_takes_no_argument(target):
    silent(script("optimizer.zero_grad()\n    model.zero_grad()"), CODE, target)


def test_a_bare_call_where_the_version_is_not_known():
    [found] = check(script("optimizer.zero_grad()"), CODE)
    assert found.severity is Severity.INFO
    assert found.message == (
        "`optimizer.zero_grad()` fills the gradients with zeros on torch below 2.0 in every "
        "training step: `set_to_none=True` drops them (from torch 1.7 on)"
    )
    assert "`torch-version`" in found.help
    assert "`--torch-version`" in found.help


def test_a_bare_call_on_an_old_torch():
    [found] = check(script("optimizer.zero_grad()"), CODE, "1.13")
    assert found.severity is Severity.WARNING
    assert "1.13" in found.message
    assert "--torch-version" not in found.help


def test_code_for_torch_2():
    source = script("optimizer.zero_grad()", tail="torch.compile(model)\n")
    silent(source, CODE)
    assert check(source, CODE, "any")
    asks = script("optimizer.zero_grad()", tail="if hasattr(torch, 'compile'): pass\n")
    assert check(asks, CODE)


@pytest.mark.parametrize("target", [None, "1.13", "2.0"])
@pytest.mark.parametrize(
    "line",
    [
        EXPLICIT,
        "optimizer.zero_grad(False)",
        "model.zero_grad(set_to_none=False)",
        "for one in [optimizer]:\n        one.zero_grad(set_to_none=False)",
        "options = {'set_to_none': False}\n    optimizer.zero_grad(**options)",
    ],
)
def test_zeros_that_are_asked_for(line, target):
    [found] = check(script(line), CODE, target)
    assert found.severity is Severity.WARNING
    assert "in every training step" in found.message
    assert (found.fix is None) == ("options" in line)


@pytest.mark.parametrize(
    ("source", "fixes"),
    [
        pytest.param(TRAIN, True, id="by convention"),
        pytest.param(TRAIN.replace("optimizer)", "optimizer: torch.optim.Adam)"), True, id="typed"),
        pytest.param(script("something.zero_grad()"), False, id="not known"),
        pytest.param(
            script("optimizer.zero_grad()").replace("torch.optim.SGD", "Mine") + "",
            False,
            id="made by something that is not known",
        ),
        pytest.param(
            script("optimizer.zero_grad()", head="from lion_pytorch import Lion\n").replace(
                "torch.optim.SGD", "Lion"
            ),
            False,
            id="of another library",
        ),
        pytest.param(
            f"{TRAIN}class Wrapped:\n    def zero_grad(self): ...\n", False, id="perhaps a class"
        ),
        pytest.param(
            f"{TRAIN}import apex\nmodel, optimizer = apex.amp.initialize(model, optimizer)\n",
            False,
            id="apex may replace the method",
        ),
        pytest.param(
            "import torch\nclass Mine(torch.optim.SGD): ...\n"
            + script("optimizer.zero_grad()").replace("torch.optim.SGD", "Mine"),
            True,
            id="a class that extends torch's",
        ),
    ],
)
def test_whose_method_it_is(source, fixes):
    [found] = check(source, CODE)
    assert found.severity is Severity.INFO
    assert (found.fix is not None) == fixes


def test_a_class_of_another_file(tmp_path):
    own = "import torch\nclass Mine(torch.optim.SGD):\n    def {}(self): ...\n"
    main = script("optimizer.zero_grad()", head="from own import Mine\n")
    main = main.replace("torch.optim.SGD", "Mine")
    for method, count in (("zero_grad", 0), ("other", 1)):
        files = {"own.py": own.format(method), "main.py": main}
        assert len(check_in(tmp_path, files, "main.py", CODE)) == count


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param(f"if args.clear:\n        {EXPLICIT}", False, id="an unknown condition"),
        pytest.param(f"if step % 4 == 0:\n        {EXPLICIT}", False, id="now and then"),
    ],
)
def test_what_does_not_run_in_every_step_is_information(line, told):
    [found] = check(script(line).replace("for x in", "for step, x in enumerate(").replace(
        "data:", "data):"), CODE, "2.0")  # fmt: skip
    assert found.severity is Severity.INFO
    assert ("every" in found.message) == told


@pytest.mark.parametrize("body", [
    "p.grad.zero_()", "p.grad.data.zero_()", "p.grad.detach_()\n        p.grad.zero_()",
    "if p.grad is not None:\n            p.grad.zero_()", "p.grad = torch.zeros_like(p)",
    "if p.grad is not None: p.grad.data.zero_()",
])  # fmt: skip
@pytest.mark.parametrize(
    "over", ["net.parameters()", "list(net.parameters())", 'group["params"]', "params"]
)
def test_loops_over_parameters(over, body):
    head = "import torch\nnet = torch.nn.Linear(2, 2).cuda()\nparams = list(net.parameters())\n"
    [found] = check(head + zeroing(over, body), CODE, "2.13")
    assert found.severity is Severity.WARNING
    assert found.fix is None
    assert "None" in found.help


def test_loops_over_parameters_on_the_host_are_information():
    [found] = check(zeroing("model.parameters()", "p.grad.zero_()"), CODE, "2.13")
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    ("target", "line", "becomes"),
    [
        (None, "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=True)"),
        ("1.13", "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=True)"),
        (None, EXPLICIT, "optimizer.zero_grad(set_to_none=True)"),
        ("1.9", "optimizer.zero_grad(False)", "optimizer.zero_grad(True)"),
        ("2.0", EXPLICIT, "optimizer.zero_grad()"),
        ("2.13", "optimizer.zero_grad(False,)  # keep", "optimizer.zero_grad()  # keep"),
    ],
)
def test_fix(target, line, becomes):
    assert fixed(script(line), CODE, target=target) == script(becomes)
    assert fixed(script(line), CODE, target=target, unsafe=False, settles=False) == script(line)


def test_no_fix_under_a_framework():
    for line in ("optimizer.zero_grad()", EXPLICIT):
        [found] = check(script(line, head="from accelerate import Accelerator\n"), CODE, "1.13")
        assert (found.fix, found.severity) == (None, Severity.INFO)


def test_zeros_let_momentum_move_a_parameter_and_none_does_not():
    """What the fix says that it changes."""

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
