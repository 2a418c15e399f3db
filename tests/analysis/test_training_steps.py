"""Where a training step runs its model, and whether the step is a run of plain lines."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed

from torchlint.analysis.training_steps import PlainStep, models, plain_step, training_steps

SETUP = """
model = nn.Linear(3, 3)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters())
def train():
    for x, y in loader:
"""
PLAIN = ["out = model(x)", "loss = criterion(out, y)", "loss.backward()", "optimizer.step()"]


def script(*lines: str) -> str:
    return SETUP + "".join(f"        {line}\n" for line in lines)


def called(source: str) -> list[list[str]]:
    program = parsed(source, HEAD)
    return [[program.code(c) for c in models(program, s)] for s in training_steps(program)]


def plain(source: str) -> PlainStep | None:
    program = parsed(source, HEAD)
    (step,) = training_steps(program)
    return plain_step(program, step)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param(script(*PLAIN), [["model(x)"]], id="a loop"),
        pytest.param(
            script("run = model.forward", "out = run(x)", *PLAIN[1:]), [["run(x)"]], id="by a name"
        ),
        pytest.param(
            script("loss = criterion(model(x), model(y))", *PLAIN[2:]),
            [["model(x)", "model(y)"]],
            id="two calls, and the loss is no model",
        ),
        pytest.param(
            script(*PLAIN, "model(y)"), [["model(x)"]], id="a call after the backward pass"
        ),
        pytest.param(
            script("with torch.no_grad(): z = model(x)", *PLAIN), [["model(x)"]], id="no gradients"
        ),
        pytest.param(script("loss = f(x)", *PLAIN[2:]), [], id="no model"),
        pytest.param(
            script("x.float().to(0)", "nn.Linear(3, 3)", *PLAIN),
            [["model(x)"]],
            id="methods and constructors are not models",
        ),
    ],
)
def test_models(source, found):
    assert called(source) == found


FILTERS = """
blur = Blur(nn.Conv2d(1, 1, 3)).cuda()
blur.eval()
optimizer = torch.optim.SGD(other.parameters())
def step(net, x, y):
    global blur
"""


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        pytest.param(["loss = F.mse_loss(x, blur(y))"], None, id="alone"),
        pytest.param(
            ["z = net(x)", "loss = f(z, blur(y))"], None, id="beside what may be anything"
        ),
        pytest.param(
            ["net.train(False)", "z = net(x)", "loss = f(z, blur(y))"],
            None,
            id="beside an evaluation",
        ),
        pytest.param(
            ["net.train()", "z = net(x)", "loss = f(z, blur(y))"], "net(x)", id="beside the model"
        ),
        pytest.param(
            ["z = net(x)", "loss = f(z, blur(y))", "clip(net.parameters())"],
            "net(x)",
            id="beside a model whose parameters are asked for",
        ),
        pytest.param(
            ["clip(blur.weight)", "loss = blur(x)"], "blur(x)", id="whose weight is asked for"
        ),
        pytest.param(["other(blur)", "loss = blur(x)"], "blur(x)", id="that is given on"),
    ],
)
def test_a_filter_that_nobody_trains_is_not_named(lines, named):
    lines = [*lines, "loss.backward()", "optimizer.step()"]
    source = FILTERS + "".join(f"    {line}\n" for line in lines)
    program = parsed(f"class Blur(nn.Module):\n    pass\n{source}", HEAD)
    assert [program.code(step.forward) for step in training_steps(program)] == (
        [] if named is None else [named]
    )


def test_a_filter_is_named_where_nothing_says_what_is_trained():
    source = FILTERS.replace("optimizer = torch.optim.SGD(other.parameters())\n", "")
    lines = "    loss = blur(x)\n    loss.backward()\n    optimizer.step()\n"
    program = parsed(f"class Blur(nn.Module):\n    pass\n{source}{lines}", HEAD)
    assert [program.code(step.forward) for step in training_steps(program)] == ["blur(x)"]


PARTS = """
def train(net, teacher, loader):
    head = nn.Linear(3, 3)
    grow = nn.Upsample(scale_factor=2)
    codes = nn.Embedding(9, 3)
    for x, y in loader:
"""


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        pytest.param(["loss = head(x)"], "head(x)", id="of what was loaded"),
        pytest.param(["z = augment(x)", "loss = head(z)"], "head(z)", id="of what is no model"),
        pytest.param(
            ["with torch.no_grad():", "    z = teacher_net(x)", "loss = head(z)"],
            "head(z)",
            id="of a model that is not trained",
        ),
        pytest.param(["loss = grow(x)"], None, id="a layer without parameters"),
        pytest.param(["loss = codes(x)"], None, id="one that only looks rows up"),
        pytest.param(["z = codes(x)", "loss = head(z)"], "head(z)", id="after such a layer"),
        pytest.param(["z, _ = net(x)", "loss = head(z[1:])"], "net(x)", id="a part of the output"),
        pytest.param(
            ["z = net(x)", "a, b = z.chunk(2)", "if y:", "    loss = head(a)"],
            "net(x)",
            id="under an option, after other lines",
        ),
        pytest.param(["z = net(x)", "loss = grow(z)"], "net(x)", id="before such a layer"),
    ],
)
def test_the_model_itself_is_named(lines, named):
    source = PARTS + "".join(f"        {line}\n" for line in [*lines, "loss.backward()"])
    program = parsed(source, HEAD)
    assert [program.code(step.forward) for step in training_steps(program)] == (
        [] if named is None else [named]
    )


def test_plain():
    step = plain(script("x = x * 2", *PLAIN[:3], "clip(model)", PLAIN[3]))
    assert step is not None
    assert (len(step.forward), step.loss.value, len(step.after)) == (2, "loss", 1)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["if x.any(): out = model(x)", *PLAIN[1:]], id="a condition"),
        pytest.param([*PLAIN[:3], "if x.any(): optimizer.step()"], id="a conditional update"),
        pytest.param([*PLAIN[:2], "loss.backward(retain_graph=True)", PLAIN[3]], id="arguments"),
        pytest.param([*PLAIN, "optimizer.step()"], id="two updates"),
        pytest.param([*PLAIN[:2], "loss += 1", *PLAIN[2:]], id="the loss is changed"),
        pytest.param(["a = 1; out = model(x)", *PLAIN[1:]], id="two statements on a line"),
        pytest.param([*PLAIN[:2], PLAIN[3], PLAIN[2]], id="the update comes first"),
    ],
)
def test_not_plain(lines):
    assert plain(script(*lines)) is None
