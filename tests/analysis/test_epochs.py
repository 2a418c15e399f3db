"""Which loops run the training steps over a loader again and again."""

from __future__ import annotations

import textwrap

import pytest
from probing import HEAD, parsed

from torchlint.analysis.epochs import epoch_loops


def train(head: str, before: str = "", loader: str = "DataLoader(dataset, 8)") -> str:
    """Return an epoch of training under the head of a loop."""
    made = f"loader = {loader}" if loader else ""
    steps = "for x in loader:\n    model(x).backward()\n    optimizer.step()"
    return "\n".join([made, before, head, textwrap.indent(steps, "    ")])


def heads(source: str) -> list[str]:
    program = parsed(source, HEAD)
    (loader,) = program.loaders.calls
    found = epoch_loops(program, loader)
    return [one.program.code(one.loop).strip().partition("\n")[0] for one in found]


@pytest.mark.parametrize(
    ("head", "before"),
    [
        ("for epoch in range(9):", ""),
        ("for epoch in range(start, args.epochs + 1):", ""),
        ("for epoch in trange(9):", "from tqdm import trange"),
        ("for epoch in tqdm(range(9), desc='x'):", ""),
        ("for i, epoch in enumerate(range(9)):", ""),
        ("for epoch in itertools.count():", "import itertools"),
        ("for epoch in bar:", "bar = tqdm(range(9))"),
        ("while epoch < 9:", ""),
        ("while True:", ""),
    ],
)
def test_loops_that_count(head, before):
    assert heads(train(head, before)) == [head]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(train("for epoch in range(1):"), id="once"),
        pytest.param(train("for fold in folds:"), id="over other things"),
        pytest.param(train("for x in bar:", "bar = range(9) if a else b"), id="perhaps"),
        pytest.param(train("for x in tqdm():"), id="a bar of nothing"),
        pytest.param(train("if True:"), id="no loop"),
        pytest.param(
            "for trial in range(9):\n" + textwrap.indent(train("if True:"), "    "),
            id="with a new loader in each turn",
        ),
        pytest.param(
            "loader = DataLoader(dataset, 8)\nfor epoch in range(9):\n"
            "    for x in loader:\n        print(model(x))\n",
            id="no training",
        ),
        pytest.param(
            train("for epoch in range(9):").replace("optimizer.step()", "heads += mask.grad"),
            id="gradients that are only looked at",
        ),
    ],
)
def test_no_epochs(source):
    assert heads(source) == []


def test_the_loop_may_be_in_another_function():
    source = """
    def steps(loader):
        for x in loader:
            model(x).backward()
            optimizer.step()

    def main():
        loader = DataLoader(dataset, 8)
        for epoch in range(9):
            for phase in ("train", "test"):
                if phase == "train":
                    steps(loader)

    def again(loader):
        again(loader)
    """
    assert heads(source) == ["for epoch in range(9):"]


def test_each_loop_is_there_once():
    second = "\n    for x in loader:\n        model(x).backward()"
    head = "for epoch in range(9):"
    assert heads(train(head) + second) == [head]
