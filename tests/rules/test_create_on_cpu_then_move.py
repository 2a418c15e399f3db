"""TL301: tensors that are made on the host and then copied to the GPU."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
import torch
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

if TYPE_CHECKING:
    from pathlib import Path

CODE = "TL301"

HEAD = """\
import numpy as np
import torch
from torch.autograd import Variable

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


def step(line: str, head: str = "") -> str:
    """Return a script with a line in its training steps."""
    body = textwrap.indent(line, "    ")
    return f"{HEAD}{head}for x in batches:\n    model(x).backward()\n{body}\n"


def once(line: str) -> str:
    """Return a script with a function that runs a line once."""
    return f"{HEAD}def make():\n{textwrap.indent(line, '    ')}\n"


def forward(line: str, head: str = HEAD) -> str:
    """Return a module with a line in its forward pass."""
    lines = [head, "class Net(torch.nn.Module):", "    def forward(self, x):", f"        {line}"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("torch.zeros((0,))", 0),
        ("torch.zeros(0, n)", 0),
        ("torch.empty([0, n])", 0),
        ("torch.zeros((n, 10))", 1),
        ("torch.arange(0, n)", 1),
        ("torch.full((n,), 0)", 1),
    ],
)
def test_a_tensor_without_elements_is_not_copied(made: str, count: int) -> None:
    assert len(check(step(f"y = {made}.to(device)"), CODE)) == count


@pytest.mark.parametrize(
    "made",
    [
        "torch.FloatTensor()",
        "torch.FloatTensor(x)",
        "torch.FloatTensor(*x)",
        "torch.Tensor([[0.5, n]])",
        "torch.FloatTensor(np.ones(3).shape)",  # the numbers of a tuple
        "torch.FloatTensor(3, n).copy_(x)",
        "torch.FloatTensor(3, 0)",
        "torch.cuda.FloatTensor(3, 4)",
    ],
)
def test_no_new_memory_of_a_size_on_the_host(made: str) -> None:
    assert check(step(f"y = {made}.to(device)"), CODE) == []


GPU_TYPE = "Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor\n"


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("z = torch.randn(n).type(Tensor)", 1),
        ("z = Variable(torch.zeros(n).type(torch.cuda.FloatTensor))", 1),
        ("z = torch.rand(n)\nz = z.type(Tensor)", 1),
        ("z = torch.zeros(n).type(torch.FloatTensor)", 0),
        ("z = torch.zeros(n).type(other.type())", 0),
        ("z = torch.zeros(n).type()", 0),
        ("z = x.type(Tensor)", 0),
    ],
)
def test_a_tensor_type_of_the_gpu_moves_as_well(line: str, count: int) -> None:
    findings = check(step(line, GPU_TYPE), CODE)
    assert len(findings) == count
    assert all(finding.fix is None for finding in findings)


TOP = """
def accuracy(output, target, topk):
    pred = output.topk(5)[1].t()
    correct = pred.eq(target)
    return [correct[:k].view(-1).sum() for k in topk]
"""
EXPORT = f"""{HEAD}def run(weights, sizes):
    model = load(weights)
    image = torch.zeros(1, 3, *sizes).to(device)
    model.eval()
    for _ in range(2):
        out = model(image)
    export_onnx(model, image)

def evaluate(model, batches):
    model.eval()
    with torch.no_grad():
        for x in batches:
            model(x)
            run("best.pt", x.shape)
"""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(step("z = torch.zeros(3, device=device)"), id="made where it is wanted"),
        pytest.param(f"{HEAD}noise = torch.randn(8).to(device)\n", id="once, as the script starts"),
        pytest.param(
            f"{HEAD}class Weights:\n    def __init__(self, n):\n"
            "        self.kept = torch.ones(n).to(device)\n"
            "def main():\n    train(Weights(3))\n",
            id="what an object that is made once starts with",
        ),
        pytest.param(
            f"{HEAD}if __name__ == '__main__':\n    out = Net().cuda()(torch.rand(8).cuda())\n",
            id="an example",
        ),
        pytest.param(EXPORT, id="an example to export the model with"),
        pytest.param(
            f"{HEAD}def show(x):\n    return torch.zeros(3).to(device)\n"
            + step("if step % 9 == 0:\n    show(x)").removeprefix(HEAD),
            id="in a function that is called now and then",
        ),
        pytest.param(
            step("print(loss.data[0])\nz = torch.zeros(3).to(device)", "loss.backward()\n"),
            id="code for torch 0.4 or 0.3",
        ),
        pytest.param(
            step("i = torch.randperm(len(x)).to(device)\naccuracy(y, t, topk=(1, 5))", TOP),
            id="put in order on the host, before 1.9",
        ),
        pytest.param(step("z = torch.zeros(3, device='cpu').to(device)"), id="made elsewhere"),
        pytest.param(step("z = torch.zeros(3, **options).to(device)"), id="perhaps elsewhere"),
        pytest.param(
            step("z = torch.randn(3, generator=g).to(device)"), id="the same numbers everywhere"
        ),
        pytest.param(step("z = torch.zeros(3, pin_memory=True).to(device)"), id="pinned"),
        pytest.param(step("z = torch.zeros(3, out=b).to(device)"), id="into memory of its own"),
        pytest.param(
            step("z = torch.zeros(3).to(weights)", head="weights = torch.tensor([1.0])\n"),
            id="to where a tensor of the host is, with its dtype",
        ),
        pytest.param(
            step("z = torch.zeros(3).to(weights)", head="from data import weights\n"),
            id="to where what is not known may be, or in its dtype",
        ),
        pytest.param(
            step("z = torch.zeros(3).type_as(weights)", head="weights = torch.tensor([1.0])\n"),
            id="as a tensor of the host",
        ),
        pytest.param(
            step("z = torch.zeros(3).type_as(weights)", head="from data import weights\n"),
            id="as what may be anywhere",
        ),
        pytest.param(
            step("z = torch.zeros(3).type_as(device_mask)", head="from data import device_mask\n"),
            id="as what is only named after a device",
        ),
        pytest.param(step("z = torch.zeros(3).to(torch.float16)"), id="another dtype"),
        pytest.param(step("z = torch.zeros(3).to('cpu')"), id="stays on the host"),
        pytest.param(step("z = torch.zeros(3).to('mps')"), id="goes to Apple's GPU"),
        pytest.param(step("z = torch.zeros(3).to(*where)"), id="hidden by a star"),
        pytest.param(step("z = torch.zeros(3)"), id="stays where it is made"),
        pytest.param(step("z = torch.zeros_like(x).to(device)"), id="made where another is"),
        pytest.param(step("z = torch.normal(mean, std).to(device)"), id="made where others are"),
        pytest.param(step("z = torch.zeros(3).add(x).to(device)"), id="computed on the host"),
        pytest.param(step("z = torch.tensor([1.0, x.size(0)]).to(device)"), id="copied anyway"),
        pytest.param(step("z = torch.tensor(values, device=device)"), id="values of a variable"),
        pytest.param(step("z = torch.tensor(1.0)"), id="a number on the host"),
        pytest.param(step("z = torch.tensor(1.0, device='cpu')"), id="a number kept on the host"),
        pytest.param(step("z = torch.tensor(1e300, device=device)"), id="too large a number"),
        pytest.param(step("z = torch.tensor(1j, device=device)"), id="a complex number"),
        pytest.param(
            step("z = torch.tensor(1.0, device=device, requires_grad=True)"), id="a parameter"
        ),
        pytest.param(step("z = torch.tensor(*values, device=device)"), id="anything"),
        pytest.param(step("z = torch.tensor(0.5).to(device, torch.half)"), id="a number converted"),
        pytest.param(once("z = torch.zeros(3).to(device)"), id="in a function nobody calls"),
        pytest.param(
            f"{HEAD}def mean_precision(boxes):\n    for c in range(1, 20):\n"
            "        found = torch.zeros(len(boxes[c])).to(device)\n"
            "def evaluate(loader):\n    boxes = []\n    with torch.no_grad():\n"
            "        for x in loader:\n            boxes.append(model(x))\n"
            "    print(mean_precision(boxes))\nmodel.eval()\nevaluate(loader)\n",
            id="for each class, after an evaluation",
        ),
        pytest.param(
            f"{HEAD}for epoch in range(9):\n    states = torch.zeros(3).to(device)\n"
            "    for x in batches:\n        model(x).backward()\n        optimizer.step()\n",
            id="what an epoch starts with",
        ),
        pytest.param(
            f"{HEAD}def main():\n    loss = model(torch.randn(8, 5).to(device)).sum()\n"
            "    loss.backward()\n    optimizer.step()\nmain()\n",
            id="a single step to show how it is done",
        ),
        *(
            pytest.param(
                f"{forward(f'if {test}:')}            self.q = {line}\n", id=f"kept: {test} {line}"
            )
            for test in ("self.q is None", "not len(self.q)", "not hasattr(self, 'q')")
            for line in (
                "torch.ones(8).to(device)",
                "torch.tensor(1.0, device=device)",
                "torch.as_tensor(np.zeros(3), device=device)",
            )
        ),
        pytest.param(once("z = torch.tensor(0.5, device=device)"), id="a number, once"),
        pytest.param(
            step("if step % 9 == 0:\n    z = torch.tensor(0.5, device=device)"),
            id="a number, now and then",
        ),
        pytest.param(once("z = torch.tensor(np.zeros(3)).to(device)"), id="an array, once"),
        pytest.param(step("z = torch.tensor(np.zeros(3))"), id="an array, for the host"),
        pytest.param(step("z = torch.tensor(np.load(x)).to(device)"), id="an array that is read"),
        pytest.param(step("z = np.zeros(3)"), id="an array for itself"),
        pytest.param(step("z = np.zeros(3).sum().item()"), id="an array that is reduced"),
        pytest.param(step("z = f(np.zeros(3)).to(device)"), id="an array given to a function"),
        pytest.param(step("z = torch.tensor(x, dtype=np.ones(3)).cuda()"), id="another argument"),
        pytest.param(step("z = torch.as_tensor(np.ones(3), device='cpu')"), id="kept on the host"),
        pytest.param(step("z = torch.as_tensor(np.ones(3)).to('cpu')"), id="moved to the host"),
        pytest.param(step("z = zeros(3).to(device)"), id="not torch's"),
        pytest.param(
            step("z = torch.zeros(3).to(device)", head="torch = load()\n"), id="not torch"
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


BEGINS = """
    for x in loader:
        {}
            grid = torch.zeros(3).to(device)
        total = model(x).sum()
        {}
"""
EPISODES = """
def evaluate(policy):
    policy.eval()
    for episode in range(9):
        state = env.reset()
        {}
        for turn in range(999):
            {}
            state, reward, done, _ = env.step(policy(state, hidden))
"""
MADE = "hidden = torch.zeros(1, 8).to(device)"
ANSWERS = """
def answer(questions):
    with torch.no_grad():
        for x in questions:
            mask = torch.ones(len(x)).to(device)
            texts = model.{}(x, mask)
"""


@pytest.mark.parametrize(
    ("test", "later", "count"),
    [
        pytest.param("if grid is None:", "", 0, id="the first turn"),
        pytest.param("if grid is None:", "if full(grid): grid = None", 1, id="a turn may set back"),
        pytest.param("if grid is None:", "grid = show(grid)", 1, id="who knows what it becomes"),
        pytest.param("if x is None:", "", 1, id="what a turn is given"),
        pytest.param("if grid is not None:", "", 1, id="the other turns"),
    ],
)
def test_what_the_first_turn_of_a_pass_makes(test: str, later: str, count: int) -> None:
    lines = "def look(loader):\n    grid = None\n    model.eval()" + BEGINS.format(test, later)
    assert len(check(HEAD + lines, CODE)) == count


@pytest.mark.parametrize(
    ("lines", "counts"),
    [
        ("if step > args.start_iter:\n    r = f(x)\nelse:\n    {}", (0, 0)),
        ("if step < self.warmup_steps:\n    {}\nelse:\n    r = f(x)", (0, 0)),
        ("if step > args.start_iter:\n    {}", (1, 0)),
        ("if step < self.warmup_steps:\n    r = f(x)\nelse:\n    {}", (1, 1)),
        ("if step < n_steps:\n    {}", (1, 1)),
        ("if loss > start:\n    r = f(x)\nelse:\n    {}", (1, 1)),
    ],
)
def test_what_only_the_first_steps_do(lines: str, counts: tuple[int, int]) -> None:
    made = ("torch.zeros(3).to(device)", "torch.tensor(0.0, device=device)")
    found = [len(check(step(lines.format(f"r = {one}")), CODE)) for one in made]
    assert tuple(found) == counts


@pytest.mark.parametrize(
    ("first", "each", "count"),
    [(MADE, "", 0), ("", MADE, 1), (MADE.replace("hidden", "mask"), MADE, 1)],
)
def test_what_an_episode_starts_with(first: str, each: str, count: int) -> None:
    assert len(check(HEAD + EPISODES.format(first, each), CODE)) == count


@pytest.mark.parametrize(("runs", "count"), [("generate", 0), ("p_sample_loop", 0), ("score", 1)])
def test_what_is_made_once_for_all_tokens_of_an_answer(runs: str, count: int) -> None:
    assert len(check(HEAD + "model.eval()\n" + ANSWERS.format(runs), CODE)) == count


STATES = """
def NAME(questions, n):
    with torch.no_grad():
        for x in questions:
            h = torch.zeros(len(x)).to(device)
            for LOOP:
                x, h = model(x, h)
"""


@pytest.mark.parametrize(
    ("name", "loop", "count"),
    [
        ("synthesize", "i in range(n)", 0),
        ("generate", "_ in x", 0),
        ("score", "i in range(n)", 1),
    ],
)
def test_the_state_that_a_generation_starts_with(name: str, loop: str, count: int) -> None:
    source = STATES.replace("NAME", name).replace("LOOP", loop)
    assert len(check(HEAD + "model.eval()\n" + source, CODE)) == count


@pytest.mark.parametrize(
    ("parameter", "lines", "count"),
    [
        ("y=None", "if y is None:\n    {}", 0),
        ("gt_labels=None", "if gt_labels is not None:\n    f(x)\nelse:\n    {}", 0),
        ("y=None", "if y is not None:\n    {}", 1),
        ("y", "if y is None:\n    {}", 1),
        ("mask=None", "if mask is None:\n    {}", 1),
    ],
)
def test_what_a_forward_pass_does_without_targets(parameter: str, lines: str, count: int) -> None:
    body = textwrap.indent(lines.format("z = torch.eye(3).to(device)"), " " * 8)
    net = f"class Net(torch.nn.Module):\n    def forward(self, x, {parameter}):\n{body}\n"
    assert len(check(HEAD + net, CODE)) == count


@pytest.mark.parametrize(
    ("before", "count"),
    [
        ("teacher.freeze()", 0),
        ("teacher.training = False", 0),
        ("if teacher: teacher.freeze()", 1),
        ("n = teacher.n if teacher else 0", 1),
        ("teacher.freeze(); teacher = find()", 1),
        ("", 1),
    ],
)
def test_what_each_call_gives_has_been_used_before(before: str, count: int) -> None:
    made = "d = torch.tensor(0.0, device=device)"
    train = step(f"if teacher is not None:\n    d = f(x)\nelse:\n    {made}")
    body = textwrap.indent(train.removeprefix(HEAD), "    ")
    main = f"teacher = find()\n{before}\ntrain(teacher)\n"
    assert len(check(f"{HEAD}def train(teacher):\n{body}\n{main}", CODE)) == count


@pytest.mark.parametrize(
    ("before", "after", "safety"),
    [
        pytest.param(
            "torch.zeros(3, 4).to(device)", "torch.zeros(3, 4, device=device)", 1, id="zeros"
        ),
        pytest.param("torch.ones(3).cuda()", 'torch.ones(3, device="cuda")', 1, id="cuda"),
        pytest.param("torch.ones(3).cuda(1)", 'torch.ones(3, device="cuda:1")', 1, id="one GPU"),
        pytest.param(
            "torch.ones(3).cuda(non_blocking=True)", 'torch.ones(3, device="cuda")', 1, id="queued"
        ),
        pytest.param(
            "torch.ones(3).cuda(int(n))", "torch.ones(3, device=int(n))", 1, id="a GPU by number"
        ),
        pytest.param(
            "torch.empty(3).to(device, non_blocking=True)",
            "torch.empty(3, device=device)",
            1,
            id="empty",
        ),
        pytest.param(
            "torch.full((3,), 2.5).to(device=device)",
            "torch.full((3,), 2.5, device=device)",
            1,
            id="full",
        ),
        pytest.param(
            "torch.eye(3).to('cuda:0')", "torch.eye(3, device='cuda:0')", 1, id="by its name"
        ),
        pytest.param(
            "torch.zeros(3).to(x.device)", "torch.zeros(3, device=x.device)", 1, id="where x is"
        ),
        pytest.param(
            "torch.zeros(3).to(device, torch.half)",
            "torch.zeros(3, dtype=torch.half, device=device)",
            1,
            id="with a dtype",
        ),
        pytest.param(
            "torch.zeros(3, dtype=torch.int).to(device, dtype=torch.half)",
            "torch.zeros(3, dtype=torch.half, device=device)",
            1,
            id="with another dtype",
        ),
        pytest.param(
            "torch.zeros(3).to(device, None)", "torch.zeros(3, device=device)", 1, id="no dtype"
        ),
        pytest.param(
            "torch.arange(n).unsqueeze(0).to(device)",
            "torch.arange(n, device=device).unsqueeze(0)",
            1,
            id="reshaped in between",
        ),
        pytest.param(
            "torch.arange(1, x.size(0) + 1).to(device)",
            "torch.arange(1, x.size(0) + 1, device=device)",
            1,
            id="a range of whole numbers",
        ),
        pytest.param(
            "torch.arange(-len(x), x.shape[0] // 2, 2).to(device)",
            "torch.arange(-len(x), x.shape[0] // 2, 2, device=device)",
            1,
            id="a longer range of whole numbers",
        ),
        pytest.param(
            "torch.arange(a, b, dtype=torch.long).to(device)",
            "torch.arange(a, b, dtype=torch.long, device=device)",
            1,
            id="a range by its dtype",
        ),
        pytest.param(
            "torch.arange(0, n).to(device)",
            "torch.arange(0, n, device=device)",
            2,
            id="a range, perhaps of fractions",
        ),
        pytest.param(
            "torch.arange(*ends).to(device)",
            "torch.arange(*ends, device=device)",
            2,
            id="any range",
        ),
        pytest.param(
            "torch.linspace(0, 1, 9).to(device)",
            "torch.linspace(0, 1, 9, device=device)",
            2,
            id="fractions",
        ),
        pytest.param(
            "torch.randn(3).to(device)", "torch.randn(3, device=device)", 2, id="random numbers"
        ),
        pytest.param(
            "torch.normal(0.0, 1.0, (3,)).cuda()",
            'torch.normal(0.0, 1.0, (3,), device="cuda")',
            2,
            id="normal numbers",
        ),
        pytest.param(
            "torch.zeros(3, requires_grad=True).to(device)",
            "torch.zeros(3, requires_grad=True, device=device)",
            2,
            id="a leaf",
        ),
        pytest.param(
            "torch.zeros(3, requires_grad=False).to(device)",
            "torch.zeros(3, requires_grad=False, device=device)",
            1,
            id="no leaf",
        ),
        pytest.param(
            "torch.FloatTensor(3, n).to(device)",
            "torch.empty(3, n, dtype=torch.float32, device=device)",
            1,
            id="memory of a type",
        ),
        pytest.param(
            "torch.Tensor(x.size(0)).zero_().to(device)",
            "torch.empty(x.size(0), device=device).zero_()",
            1,
            id="zeros in memory of the default type",
        ),
        pytest.param(
            "torch.LongTensor(3, n).fill_(1).to(device, torch.half)",
            None,
            1,
            id="another dtype for what was filled",
        ),
        pytest.param(
            "torch.zeros(n).uniform_(-1, 1).cuda()",
            'torch.zeros(n, device="cuda").uniform_(-1, 1)',
            2,
            id="random numbers put in",
        ),
        pytest.param(
            "(torch.zeros(\n        3,  # of them\n        4,\n    ).to(device))",
            "(torch.zeros(\n        3,  # of them\n        4,\n        device=device,\n    ))",
            1,
            id="over several lines",
        ),
    ],
)
def test_fixes(before, after, safety):
    source = step(f"z = {before}")
    (found,) = check(source, CODE)
    assert found.severity is Severity.WARNING
    if after is None:
        assert found.fix is None
        return
    assert found.fix is not None
    assert found.fix.safety is Safety(safety)
    assert fixed(source, CODE, unsafe=safety > 1) == step(f"z = {after}")


def test_says_where_zeros_are_made_in_code_for_a_torch_that_makes_them_anywhere():
    [_] = check(step("z = torch.zeros(3).to(device)\naccuracy(y, t, topk=(1, 5))", TOP), CODE)
    [_] = check(EXPORT.replace("export_onnx", "show"), CODE)


def test_an_order_saves_no_more_than_the_wait():
    source = step("i = torch.randperm(len(x)).to(device)")
    [found] = check(source, CODE)
    assert found.severity is Severity.INFO
    [_] = check(source, CODE, target="1.9")
    silent(source, CODE, target="1.8")


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("n = 3\n", id="a number"),
        pytest.param("b, n = x.shape\n", id="taken out of a shape"),
        pytest.param("b, n = x.size()\n", id="taken out of a size"),
        pytest.param("m = 3\nn = m * 2\n", id="by another name"),
        pytest.param("for n in range(9): pass\n", id="counted"),
    ],
)
def test_a_name_for_a_whole_number(head):
    (found,) = check(step("z = torch.arange(1, n).to(device)", head=head), CODE)
    assert found.fix is not None
    assert found.fix.safety is Safety.SAFE


def test_a_parameter_for_a_whole_number():
    source = "def forward(self, n: int, m):\n        return torch.arange(1, {}).to(device)\n"
    head = f"{HEAD}class Net(torch.nn.Module):\n    "
    safe, unsafe = (check(head + source.format(name), CODE)[0].fix for name in "nm")
    assert safe is not None
    assert unsafe is not None
    assert (safe.safety, unsafe.safety) == (Safety.SAFE, Safety.UNSAFE)


@pytest.mark.parametrize(
    ("source", "message", "severity"),
    [
        pytest.param(
            step("z = torch.zeros(3).to(device)"),
            "`torch.zeros(3)` is made on the host and then copied to `device` "
            "in every training step",
            Severity.WARNING,
            id="in every step",
        ),
        pytest.param(
            forward("return torch.zeros(3).cuda()"),
            "`torch.zeros(3)` is made on the host and then copied to the GPU in every forward pass",
            Severity.WARNING,
            id="in every forward pass",
        ),
        pytest.param(
            forward("if x.any(): self.q = torch.zeros(3).cuda()"),
            "`torch.zeros(3)` is made on the host and then copied to the GPU in every forward pass",
            Severity.WARNING,
            id="kept under another condition",
        ),
        pytest.param(
            forward("return torch.zeros(3).to(x.device)", head="import torch"),
            "`torch.zeros(3)` is made on the host and then copied to `x.device` "
            "in every forward pass",
            Severity.INFO,
            id="no GPU is named",
        ),
        pytest.param(
            f"{HEAD}model.eval()\nwith torch.no_grad():\n    for x in batches:\n"
            "        model(x, torch.zeros(3).to(device))\n",
            "`torch.zeros(3)` is made on the host and then copied to `device`",
            Severity.INFO,
            id="in every step of an evaluation",
        ),
        pytest.param(
            step("if step % 9 == 0:\n    z = torch.zeros(3).to(device)"),
            "`torch.zeros(3)` is made on the host and then copied to `device`",
            Severity.INFO,
            id="now and then",
        ),
    ],
)
def test_says_how_often(source, message, severity):
    (found,) = check(source, CODE)
    assert (found.message, found.severity) == (message, severity)


@pytest.mark.parametrize("like", [".to(y)", ".type_as(y)"])
@pytest.mark.parametrize("move", [".cuda()", ".to(device)"])
def test_to_the_device_of_a_tensor_there_and_in_its_dtype(move, like):
    (found,) = check(step(f"z = torch.zeros(3){like}", f"y = torch.ones(3){move}\n"), CODE)
    assert found.message == (
        "`torch.zeros(3)` is made on the host and then copied to `y.device` in every training step"
    )
    assert found.help == "make it there: `torch.zeros(..., device=y.device)`, in the dtype of `y`"
    assert (found.severity, found.fix) == (Severity.WARNING, None)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("torch.full((3,), 0.1).to(device, torch.half)", id="a value of another dtype"),
        pytest.param("torch.zeros(3).view(3).to(device, torch.half)", id="a dtype after a view"),
        pytest.param(
            "torch.zeros(3).to(device, memory_format=torch.preserve_format)", id="a memory format"
        ),
        pytest.param("torch.zeros(3).to(device, torch.half, False, True)", id="by place"),
        pytest.param("torch.zeros(3).cuda(args.gpu)", id="a GPU that may be None"),
        pytest.param("torch.zeros(3).to(torch.device(\n        'cuda'))", id="a long device"),
        pytest.param("(torch.zeros(3)  # of them\n        .to(device))", id="a comment between"),
        pytest.param(
            "torch.zeros(1, 3).expand(n, -1).to(device)", id="rows of memory of their own"
        ),
        pytest.param("torch.zeros(3).expand_as(x).long().to(device)", id="a copy of each row"),
    ],
)
def test_reports_without_a_fix(line):
    (found,) = check(step(f"z = {line}"), CODE)
    assert (found.severity, found.fix) == (Severity.WARNING, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "torch.tensor(0.5, device=device)", "torch.full((), 0.5, device=device)", id="a number"
        ),
        pytest.param(
            "torch.tensor(-1).to(device)", "torch.full((), -1, device=device)", id="then moved"
        ),
        pytest.param(
            "torch.tensor(True).cuda()", 'torch.full((), True, device="cuda")', id="a boolean"
        ),
        pytest.param(
            "torch.tensor(data=1, dtype=torch.half, device=x.device)",
            "torch.full((), 1, dtype=torch.half, device=x.device)",
            id="with a dtype",
        ),
    ],
)
def test_fills_a_number_in(before, after):
    source = step(f"z = {before}")
    (found,) = check(source, CODE)
    assert (found.code, found.severity) == ("TL301b", Severity.WARNING)
    assert fixed(source, CODE, unsafe=False) == step(f"z = {after}")


@pytest.mark.parametrize("dtype", [None, torch.half, torch.bfloat16, torch.double, torch.int32])
@pytest.mark.parametrize("number", [0, -3, True, 0.1, 16777217, 65504.0, 1e-8, 3e37])
def test_a_number_that_is_filled_in_is_the_same(number, dtype):
    try:
        copied = torch.tensor(number, dtype=dtype)
    except RuntimeError:  # it does not fit
        with pytest.raises(RuntimeError):
            torch.full((), number, dtype=dtype)
        return
    filled = torch.full((), number, dtype=dtype)
    assert (copied.dtype, copied.shape) == (filled.dtype, filled.shape)
    assert torch.equal(copied, filled)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("tensor(0.5, device=device)", id="by an imported name"),
        pytest.param(
            "torch.tensor(0.5, device=torch.device(\n        'cuda'))", id="a long device"
        ),
    ],
)
def test_a_number_without_a_fix(line):
    source = step(f"z = {line}", head="from torch import tensor\n")
    (found,) = check(source, CODE)
    assert (found.code, found.fix) == ("TL301b", None)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("torch.tensor(np.zeros(3)).to(device)", id="moved"),
        pytest.param("torch.tensor(np.zeros(3), device=device)", id="put there"),
        pytest.param("torch.from_numpy(np.random.randn(3)).float().cuda()", id="converted, moved"),
        pytest.param("torch.tensor(np.ones(3).astype('f4')).cuda()", id="converted before"),
        pytest.param("torch.cuda.FloatTensor(np.random.normal(0, 1, 3))", id="a tensor of the GPU"),
        pytest.param("Variable(Tensor(np.random.normal(0, 1, 3)))", id="a type of tensor by name"),
        pytest.param("Variable(torch.from_numpy(np.zeros(3))).cuda()", id="wrapped, moved"),
    ],
)
def test_arrays(line):
    head = "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\n"
    (found,) = check(step(f"z = {line}", head=head), CODE)
    assert (found.code, found.severity, found.fix) == ("TL301c", Severity.WARNING, None)


NAMED = "t = torch.from_numpy(z).cuda()"
MASK = "z = np.zeros((8, 3))\nz[range(8), labels] = 1.0\n"
ONE_HOT = (
    "def one_hot(y):\n    z = np.zeros((y.shape[0], 3))\n    z[np.arange(len(y)), y] = 1\n"
    "    return torch.Tensor(z).cuda()\n"
)
LABELS = "z = np.random.randint(0, 3, 8)\nt = torch.LongTensor(z).cuda()\nu = one_hot(z)"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(f"z = np.random.randn(8)\n{NAMED}", id="once"),
        pytest.param(f"z = np.ones(8)\nn = len(z)\nm = z.shape\n{NAMED}", id="its size"),
        pytest.param(
            f"z = np.ones(8)\nu = torch.cuda.FloatTensor(z)\n{NAMED}",
            id="twice",
        ),
    ],
)
def test_arrays_with_a_name(lines):
    (found,) = check(step(lines), CODE)
    assert (found.code, found.severity, found.fix) == ("TL301c", Severity.WARNING, None)


def test_a_one_in_each_row_of_an_array():
    (found,) = check(step(f"{MASK}{NAMED}"), CODE)
    assert (found.code, found.severity, found.fix) == ("TL301c", Severity.INFO, None)
    assert "one_hot" in found.help


def test_numbers_that_serve_a_function_for_the_gpu_alone():
    found = check(step(LABELS, head=ONE_HOT), CODE)
    assert [one.severity for one in found] == [Severity.INFO, Severity.WARNING]


@pytest.mark.parametrize(
    ("lines", "head"),
    [
        pytest.param(f"z = np.ones(8)\nprint(z)\n{NAMED}", "", id="printed"),
        pytest.param(f"z = np.ones(8)\nx = images[z]\n{NAMED}", "", id="an index on the host"),
        pytest.param(f"z = np.ones(8)\nx = z + 1\n{NAMED}", "", id="computed with"),
        pytest.param(f"z = np.ones(8)\nz += 1\n{NAMED}", "", id="changed"),
        pytest.param(f"z = np.zeros(8)\nz[3] = 1\n{NAMED}", "", id="filled in one place"),
        pytest.param(
            f"z = np.zeros((8, 3))\nz[range(8), 0] = x\n{NAMED}", "", id="filled with data"
        ),
        pytest.param(f"z = np.zeros((8, 3))\nz[range(8), 0] = 2\n{NAMED}", "", id="twos"),
        pytest.param(f"z = np.ones((8, 3))\nz[range(8), 0] = 1\n{NAMED}", "", id="other values"),
        pytest.param(
            f"z = np.zeros((8, 3))\nz[rows(8), 0] = 1\n{NAMED}", "", id="filled in some rows"
        ),
        pytest.param(f"z = np.ones(8)\nfor y in x:\n    {NAMED}", "", id="moved in another loop"),
        pytest.param(
            f"z = np.ones(8)\nif step % 9 == 0:\n    {NAMED}", "", id="moved now and then"
        ),
        pytest.param(f"z = np.ones(8)\nif x:\n    z = load()\n{NAMED}", "", id="or something else"),
        pytest.param("z = np.ones(8)\nn = len(z)", "", id="not moved"),
        pytest.param(LABELS, "from tool import one_hot\n", id="given to what is not seen"),
        pytest.param(
            LABELS,
            "def one_hot(y):\n    return table[y]\n",
            id="given to what uses it on the host",
        ),
        pytest.param(
            LABELS,
            "def one_hot(y):\n    z = np.zeros((8, 3))\n    z[range(8), y] = 1\n    return z\n",
            id="given to what fills an array of the host",
        ),
    ],
)
def test_arrays_that_serve_the_host_as_well(lines, head):
    silent(step(lines, head=head), CODE)


def test_an_array_with_a_name_for_the_first_step():
    kept = "if not len(self.q):\n            z = np.zeros(3)\n            self.q = "
    silent(forward(f"{kept}torch.as_tensor(z, device=device)"), CODE)


# -- one request at a time --------------------------------------------------------------------

EXPLAINS = """
class Explainer:
    def load(self):
        self.net = Net().cuda()
        self.net.eval()

    def explain(self, image):
        self.net.zero_grad()
        self.net(image).max().backward()
        return image.grad
"""
ALL = "    def all(self, xs):\n        for x in xs:\n            self.explain(x)\n"
ONES = forward("return torch.ones(3).to(x.device)", "import torch\n")
NUMBER = forward("return torch.tensor(0.5, device=x.device)", "import torch\n")


@pytest.mark.parametrize("made", [ONES, NUMBER])
@pytest.mark.parametrize(
    ("change", "count"),
    [
        pytest.param(("", ""), 0, id="a request"),
        pytest.param((".eval()", ".train()"), 1, id="in training mode"),
        pytest.param(("        self.net(image).max().backward()\n", ""), 1, id="no gradients"),
        pytest.param(
            ("        self.net(image)", "        for _ in range(99):\n            self.net(image)"),
            1,
            id="many at a time",
        ),
        pytest.param(
            ("class Ex", "def main(images):\n    for x in images:\n        explain(x)\nclass Ex"),
            0,
            id="another function of that name",
        ),
        pytest.param(
            ("    def load(self):", f"{ALL}    def load(self):"),
            1,
            id="one after the other",
        ),
    ],
)
def test_what_explains_one_answer_is_no_loop(made, change, count):
    assert len(check(f"{made}\n{EXPLAINS.replace(*change)}", CODE)) == count


def test_a_model_that_other_files_use_runs_in_their_loops(tmp_path):
    files = {"explain.py": f"{ONES}\n{EXPLAINS}", "main.py": "from explain import Net\n"}
    assert len(check_in(tmp_path, files, "explain.py", CODE)) == 1
    files["main.py"] = ""
    assert not check_in(tmp_path, files, "explain.py", CODE)


def test_a_file_that_names_no_gpu_makes_a_tensor_like_another(tmp_path):
    net = forward("return torch.ones(3).type_as(x)", "import torch\n")
    main = "from net import Net\nnet = Net().cuda()\nfor x in xs:\n    net(x.cuda()).backward()\n"
    (found,) = check_in(tmp_path, {"net.py": net, "main.py": main}, "net.py", CODE)
    assert found.severity is Severity.INFO


def test_an_evaluation_beside_an_explanation_is_a_loop():
    loop = "for x in loader:\n        z = torch.ones(3).cuda()\n        net(x)\n"
    source = f"import torch\n{EXPLAINS}\n@torch.no_grad()\ndef evaluate(net, loader):\n    {loop}"
    assert len(check(source, CODE)) == 1


LEFT = "def f(loss):\n    loss.backward()\n    print(loss.data[0])\n"
OLD = "from torch.utils.serialization import load_lua\n"


@pytest.mark.parametrize(
    ("main", "count"),
    [
        pytest.param("import net\n", 0, id="for torch 0.4 or 0.3"),
        pytest.param("import net\nwith torch.no_grad():\n    net.run()\n", 1, id="for 0.4"),
    ],
)
def test_old_code_makes_tensors_there_where_it_is_seen_to_be_for_torch_0_4(tmp_path, main, count):
    net = forward("return torch.ones(3).cuda()", f"import torch\n{OLD}")
    old = "from torch.autograd import Variable\nVariable(x, volatile=True)\n"
    files = {"net.py": net, "main.py": main, "old.py": old}
    assert len(check_in(tmp_path, files, "net.py", CODE)) == count
    left = {"net.py": net.replace(OLD, LEFT)}
    assert not check_in(tmp_path, left, "net.py", CODE), "left over from 0.3"


# -- made in one line, moved in another -------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("z = torch.rand(3)\nz = z.to(device)\nnet(z)", id="under its name"),
        pytest.param("z = torch.rand(3)\nnet(z.to(device))", id="for a call"),
        pytest.param("z = torch.rand(3).view(1, 3)\ny = z.cuda()", id="under another name"),
        pytest.param("z = torch.rand(3).expand(n, 3)\ny = z.cuda()", id="as the same rows"),
        pytest.param(
            "z = torch.rand(3)\nif use_gpu:\n    x, z = x.cuda(), z.cuda()\nnet(x, z)",
            id="beside the batch, where there is a GPU",
        ),
        pytest.param("z = torch.rand(3)\nz = z.cuda() if x.is_cuda else z", id="if there is one"),
        pytest.param("z = torch.rand(3)\nz = z if cpu else z.cuda()", id="unless there is none"),
    ],
)
def test_what_a_later_line_moves(lines: str) -> None:
    [found] = check(step(lines), CODE)
    assert found.severity is Severity.WARNING
    assert found.fix is None
    assert "is made on the host, and then copied to the GPU in every training step" in found.message
    assert "make it there: `torch.rand(..., device=...)`, without `" in found.help


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("z = (1 - 2 * torch.rand(3)).to(device)", id="in one line"),
        pytest.param("z = torch.rand(3)\nz = -z < 0.5\nz = z.to(device)", id="in several"),
        pytest.param(
            "z = torch.cat([torch.rand(4) for _ in range(2)], dim=0)\n"
            "z = (z.unsqueeze(0) == z.unsqueeze(1)).float()\nz = z.to(device)",
            id="from itself",
        ),
        pytest.param("z = torch.stack((torch.rand(3), torch.ones(3))).cuda()", id="of several"),
        pytest.param("z = Variable(torch.rand(3)).cuda()", id="wrapped"),
        pytest.param("z = torch.rand(args.n) / args.n\nz = z.cuda()", id="by its size"),
        pytest.param("z = (n - torch.rand(2, n)).cuda()", id="by one of its sizes"),
    ],
)
def test_what_is_computed_of_tensors_of_the_host_alone(lines: str) -> None:
    [found] = check(step(lines), CODE)
    assert found.severity is Severity.INFO
    assert found.fix is None
    assert "`torch.rand(" in found.message
    assert "what follows from it then copied to the GPU in every training step" in found.message


def test_a_tensor_that_is_moved_now_and_then() -> None:
    [found] = check(step("z = torch.rand(3)\nif i % 9 == 0:\n    net(z.cuda())"), CODE)
    assert found.severity is Severity.INFO
    assert "every" not in found.message


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("z = torch.zeros(3)\nz[0] = 1\nz = z.to(device)", id="filled"),
        pytest.param("z = torch.zeros(3)\nz += x\nz = z.to(device)", id="added to"),
        pytest.param("z = torch.zeros(3)\nfill(z)\nz = z.to(device)", id="handed on"),
        pytest.param("z = torch.zeros(3)\nz.copy_(x)\nz = z.to(device)", id="changed"),
        pytest.param("z = torch.rand(3)\ny = z.to(device)\nprint(z)", id="read later as it is"),
        pytest.param(
            "z = torch.rand(3)\nif gpu:\n    net(z.cuda())\nelse:\n    net(z)",
            id="used on the host where there is no GPU",
        ),
        pytest.param("z = torch.rand(3) if a else x\nz = z.to(device)", id="perhaps another"),
        pytest.param("z = torch.rand(3)\ny = z.cuda() if z.any() else z", id="asked before"),
        pytest.param("z = torch.zeros(3) + x\nz = z.to(device)", id="computed of others"),
        pytest.param("z = torch.rand(args.n) / args.m\nz = z.cuda()", id="perhaps of others"),
        pytest.param("z = torch.cat([torch.zeros(3), x]).to(device)", id="joined to others"),
        pytest.param(
            "a = torch.rand(3)\nz = torch.cat([torch.zeros(3)], out=a)\nz = z.to(device)",
            id="into memory of its own",
        ),
        pytest.param("z, y = torch.rand(2, 3)\nz = z.to(device)", id="a part of it"),
        pytest.param("z = torch.zeros(3, device=device)\nz = z.to(device)", id="made there"),
        pytest.param("z = torch.zeros(0)\nz = z.to(device)", id="without elements"),
        pytest.param("z = torch.zeros(3)\nz = z.to('cpu')", id="stays on the host"),
        pytest.param("z = 3\nz = z.to(device)", id="a number"),
        pytest.param("z = x.expand(n, -1)\nz = z.to(device)", id="rows of what is not seen"),
        pytest.param("z = shape.expand(torch.zeros(3)).to(device)", id="spread by another"),
    ],
)
def test_what_the_host_needs_before_it_is_moved(lines: str) -> None:
    silent(step(lines), CODE)


def test_what_is_made_outside_of_the_loop_is_not_made_in_every_step() -> None:
    silent(step("y = z.to(device)", head="z = torch.rand(3)\n"), CODE)
    silent(once("z = torch.rand(3)\nz = z.to(device)"), CODE)
    silent(step("use(torch.rand(3))", head="def use(z):\n    z = z.to(device)\n"), CODE)


# -- functions that move what they are given --------------------------------------------------

TO_VAR = """def to_var(x):
    \"\"\"Put it where the model is.\"\"\"
    if torch.cuda.is_available():
        x = x.cuda()
    return Variable(x)

"""
IF_WANTED = "def put(x, wanted):\n    return x.cuda() if wanted else x\n\n"
TO_DEVICE = "def put(x, device):\n    return x.to(device)\n\n"


@pytest.mark.parametrize(
    ("head", "line"),
    [
        pytest.param(TO_VAR, "y = to_var(torch.ones(3))", id="where there is a GPU"),
        pytest.param(TO_VAR, "y = torch.ones(3)\ny = to_var(y)", id="in a later line"),
        pytest.param(IF_WANTED, "y = put(torch.ones(3), use_cuda)", id="where it is wanted"),
        pytest.param(TO_DEVICE, "y = put(torch.ones(3), device)", id="to a device it is given"),
        pytest.param(
            "def put(x):\n    if gpu:\n        return x.cuda()\n    else:\n        return x\n\n",
            "y = put(torch.ones(3).long())",
            id="in branches",
        ),
    ],
)
def test_what_is_given_to_a_function_that_only_moves_it(head: str, line: str) -> None:
    [found] = check(step(line, head), CODE)
    assert found.fix is None
    assert found.severity is Severity.WARNING
    assert "`torch.ones(3)` is made on the host, and then copied to the GPU" in found.message


def test_a_method_that_only_moves_what_it_is_given() -> None:
    body = textwrap.indent(TO_VAR.replace("(x):", "(self, x):"), "    ")
    loop = "        for x in batches:\n            model(x).backward()\n"
    line = "            y = self.to_var(torch.ones(3))\n"
    source = f"{HEAD}class Solver:\n{body}    def train(self):\n{loop}{line}"
    [found] = check(source, CODE)
    assert "without `self.to_var(...)`" in found.help


def test_a_function_of_another_file_that_only_moves_what_it_is_given(tmp_path: Path) -> None:
    source = step("y = to_var(torch.ones(3))", "from utils import to_var\n")
    files = {"utils.py": HEAD + TO_VAR, "train.py": source}
    assert len(check_in(tmp_path, files, "train.py", CODE)) == 1


OF_ANOTHER = "import torch\nfrom utils import to_var\nfor x in batches:\n    model(x).backward()\n"


@pytest.mark.parametrize(
    ("moves", "severities"),
    [
        pytest.param("return x.cuda()", [Severity.WARNING], id="to the GPU"),
        pytest.param("return x.to(get())", [], id="not seen where to"),
        pytest.param("return x.half()", [], id="without a move"),
    ],
)
def test_the_file_of_a_function_that_moves_names_the_gpu(
    tmp_path: Path, moves: str, severities: list[Severity]
) -> None:
    source = f"{OF_ANOTHER}    y = to_var(torch.ones(3))\n"
    files = {"utils.py": f"cuda = True\ndef to_var(x):\n    {moves}\n", "train.py": source}
    found = check_in(tmp_path, files, "train.py", CODE)
    assert [one.severity for one in found] == severities


@pytest.mark.parametrize(
    ("head", "line"),
    [
        pytest.param("", "y = to_var(torch.ones(3))", id="not seen"),
        pytest.param(
            "def put(x):\n    x[0] = 3\n    return x.cuda()\n\n", "put(torch.ones(3))", id="filled"
        ),
        pytest.param(
            "def put(x):\n    log(x)\n    return x.cuda()\n\n", "put(torch.ones(3))", id="read"
        ),
        pytest.param(
            "def put(x):\n    return x.sort()[0].cuda()\n\n", "put(torch.ones(3))", id="computed"
        ),
        pytest.param("def put(x):\n    return x\n\n", "put(torch.ones(3))", id="left alone"),
        pytest.param("def put(x):\n    return x.to('cpu')\n\n", "put(torch.ones(3))", id="host"),
        pytest.param(
            TO_DEVICE, "put(x, device)\nput(torch.ones(3), 'cpu')", id="to the host, by this call"
        ),
        pytest.param(
            "def put(x):\n    y = x.cuda()\n    return x\n\n", "put(torch.ones(3))", id="a copy"
        ),
        pytest.param(TO_DEVICE, "put(x, torch.ones(3))", id="to where another is"),
        pytest.param(
            "@cached\ndef put(x):\n    return x.cuda()\n\n", "put(torch.ones(3))", id="decorated"
        ),
        pytest.param(TO_VAR, "y = torch.ones(3)\ny[0] = 3\ny = to_var(y)", id="filled before"),
    ],
)
def test_what_is_given_to_another_function(head: str, line: str) -> None:
    silent(step(line, head), CODE)


@pytest.mark.parametrize(
    "made",
    [
        "torch.tensor([1] * n)",
        "torch.LongTensor([args.label] * n)",
        "torch.tensor([0.5])",
        "torch.LongTensor([len(x)])",
        "torch.tensor([names.index(name)])",
        "torch.tensor([place])",
    ],
)
def test_a_list_of_one_number_is_what_full_makes(made: str) -> None:
    [found] = check(step(f"place = names.index(x)\ny = {made}.to(device)"), CODE)
    assert found.fix is None
    assert found.help == "make it there: `torch.full(..., device=...)`"


@pytest.mark.parametrize(
    "made",
    ["torch.tensor(labels * n)", "torch.tensor([1, 2] * n)", "torch.tensor([row] * n)",
     "torch.tensor([[1, 2]] * n)", "torch.stack([x] * n)", "torch.tensor([row])",
     "torch.tensor([*row])", "torch.tensor([[n]])", "torch.tensor([n, 2])",
     "torch.tensor([model.weight])", "torch.tensor([names.find(name)])",
     "torch.tensor([first])", "torch.tensor([len(x)], pin_memory=True)"],
)  # fmt: skip
def test_a_list_of_more_than_one_number(made: str) -> None:
    head = "first = names.index(n)\nif n:\n    first = rows[n]\n"
    silent(step(f"y = {made}.to(device)", head), CODE)


def test_a_function_with_the_loop_of_the_steps_is_called_by_a_mode() -> None:
    loop = "    for x in batches:\n        model(x).backward()\n        if args.labelled:\n"
    train = f"def train():\n{loop}            y = torch.ones(3).to(device)\n"
    call = "if __name__ == '__main__':\n    if args.mode == 'train':\n        train()\n"
    [found] = check(HEAD + train + call, CODE)
    assert found.severity is Severity.INFO


MEAN = "MEAN = (0.485, -0.456, 1 / 3)\nodd = [1, 2]\nROWS = [[1, 2], [3, 4]]\n"
MEAN += "seen = held.seen\nlast = []\ndef keep(x):\n    last.append(x)\n"


@pytest.mark.parametrize(
    "line",
    [
        "y = x - torch.tensor(MEAN).view(3, 1).to(device)",
        "mean = torch.as_tensor(MEAN).to(device)[None, :, None]\nx = x - mean",
        "mean = torch.tensor(MEAN, dtype=torch.float32, device=device)",
        "weight = torch.FloatTensor(ROWS).cuda()\nloss = torch.sum(x, weight)",
        "y = x + torch.tensor([1.0, -2.0]).to(device)",
        "mask = torch.ByteTensor([[1], [0]]).repeat(n, 2).to(device)\ny = x * mask",
        "mask = torch.tensor([1, 0]).to(device)\ny = torch.ones_like(x).masked_fill_(mask, 2)",
        "if wide:\n    y = x\nelse:\n    y = torch.tensor([0, 1]).float().to(device)",
    ],
)
def test_the_same_numbers_in_every_step(line: str) -> None:
    (found,) = check(step(line, MEAN), CODE)
    assert (found.code, found.severity, found.fix) == ("TL301b", Severity.WARNING, None)
    assert "copies the same numbers to the GPU in every training step" in found.message


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("y = torch.tensor([step, 2]).to(device)", id="not the same in every step"),
        pytest.param(
            "y = torch.tensor([1, 2]).to(device)\ny[0] = 2", id="one that is written into"
        ),
        pytest.param("y = torch.tensor(odd).to(device)\nodd[0] = 2", id="a list that changes"),
        pytest.param("y = torch.tensor(odd).to(device)\nshow(odd)", id="a list that is handed on"),
        pytest.param("y = torch.tensor(last).to(device)", id="a list that a function changes"),
        pytest.param("y = torch.Tensor(odd).to(device)", id="perhaps of a size"),
        pytest.param("y = torch.tensor(args.odd).to(device)", id="an attribute"),
        pytest.param("y = torch.from_numpy(seen).to(device)", id="part of what others hold"),
        pytest.param("y = torch.tensor(Mean).to(device)", id="not seen"),
        pytest.param("y = torch.tensor(MEAN)", id="on the host"),
        pytest.param("y = torch.tensor(MEAN).sum().to(device)", id="computed on the host"),
        pytest.param("y = torch.tensor(MEAN).to(device)\ny += x", id="added to"),
        pytest.param("y = torch.tensor(MEAN).to(device)\ny[0] = x", id="filled"),
        pytest.param("y = torch.tensor(MEAN).to(device)\ny.add_(x)", id="changed in place"),
        pytest.param("y = torch.tensor(MEAN).cuda()\nz = y.view(2)\nz += x", id="by a view"),
        pytest.param("y = torch.tensor(MEAN).to(device).requires_grad_()", id="with gradients"),
        pytest.param("y = torch.tensor(MEAN, requires_grad=True).to(device)", id="a leaf"),
        pytest.param(
            "y = torch.tensor(MEAN).to(device)\ntorch.distributed.all_reduce(y)", id="reduced"
        ),
        pytest.param("y = torch.tensor(MEAN).to(device)\nkept.append(y)", id="kept"),
        pytest.param("self.y = torch.tensor(MEAN).to(device)", id="kept as an attribute"),
        pytest.param("y = torch.tensor(MEAN).to(device)\ntorch.ones_like(x).set_(y)", id="shared"),
        pytest.param(
            "y = torch.tensor(MEAN).to(device)\nkept.fill_(y)", id="given to what is not known"
        ),
        pytest.param("if step % 9 == 0:\n    y = torch.tensor(MEAN).to(device)", id="now and then"),
    ],
)
def test_numbers_that_each_step_needs_anew(line: str) -> None:
    silent(step(line, MEAN), CODE)


UPLOADS = """
def weighted(loss, y):
    return torch.mean(loss * y)

def fit(model, optimizer, loader, counts):
    size = len(counts)
    for x in loader:
        optimizer.zero_grad()
        y = torch.from_numpy(counts)
        if cuda:
            y = y.cuda()
        loss = {given}
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("given", "before", "found"),
    [
        pytest.param("weighted(model(x), y)", "", 1, id="of the caller"),
        pytest.param("weighted(model(x), y)", "counts = np.ones(3)", 1, id="made before the loop"),
        pytest.param("weighted(model(x), y) / len(counts)", "", 1, id="of which the size is asked"),
        pytest.param(
            "weighted(model(x), y) / len(counts)", "from a import len", 0, id="by another function"
        ),
        pytest.param("weighted(model(x), y.mul_(2))", "", 0, id="changed in place"),
        pytest.param("other(model(x), y)", "", 0, id="given to what is not seen"),
        pytest.param("weighted(model(x), y) * counts.sum()", "", 0, id="used otherwise"),
        pytest.param("weighted(model(x), y)", "counts = self.counts", 0, id="of an object"),
    ],
)
def test_the_same_array_in_every_step(given: str, before: str, found: int) -> None:
    source = f"{HEAD}import numpy as np\n{UPLOADS}".replace("{given}", given)
    source = source.replace("size = len(counts)", before or "size = len(counts)")
    assert [one.code for one in check(source, CODE)] == ["TL301b"] * found


def test_the_same_numbers_in_a_forward_pass_are_for_a_buffer() -> None:
    silent(forward("return x - torch.tensor(MEAN).to(device)", HEAD + MEAN), CODE)


def test_a_constant_of_a_library_is_known_by_its_name(tmp_path: Path) -> None:
    line = "y = x - torch.as_tensor(MEAN).to(device)"
    (found,) = check(step(line, "from images.constants import MEAN\n"), CODE)
    assert found.severity is Severity.INFO
    silent(step(line.replace("MEAN", "mean"), "from images.constants import mean\n"), CODE)
    main = step(line, "from images import MEAN\n")
    for given, severities in (("(1, 2)", [Severity.WARNING]), ("load()", [])):
        files = {"images.py": f"MEAN = {given}\n", "main.py": main}
        found_there = check_in(tmp_path, files, "main.py", CODE)
        assert [one.severity for one in found_there] == severities


@pytest.mark.parametrize(
    ("test", "count"),
    [
        pytest.param("x.size(1) == 0", 0, id="an empty batch"),
        pytest.param("self.boxes == 0", 0, id="by a name that the object keeps"),
        pytest.param("self.most == 0", 1, id="an option"),
        pytest.param("x.size(1) == 4", 1, id="another size"),
    ],
)
def test_what_is_made_for_an_empty_batch_is_left_alone(test: str, count: int) -> None:
    source = (
        f"{HEAD}class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n        self.boxes = x.size(1)\n"
        f"        if {test}:\n            return torch.zeros(4, 4).to(device)\n        return x\n"
    )
    assert len(check(source, CODE)) == count
