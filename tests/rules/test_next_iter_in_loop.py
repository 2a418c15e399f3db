"""TL106: iterators over a loader that are made in every training step."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL106"
MADE = "loader = DataLoader(dataset, batch_size=8, shuffle=True)"
BATCH = "x, y = next(iter(loader))"


def loop(
    draw: str = BATCH,
    made: str = MADE,
    head: str = "for step in range(steps):",
    top: str = "",
    name: str = "train",
) -> str:
    """Return training steps that get their batch by ``draw``, after ``made`` made the loader."""
    lines = ["import torch", "from torch.utils.data import DataLoader", *top.splitlines(), ""]
    lines += [f"def {name}(model, dataset, optimizer, steps, args):"]
    lines += [*textwrap.indent(made, "    ").splitlines(), f"    {head}"]
    lines += textwrap.indent(draw, " " * 8).splitlines()
    lines += ["        loss = model(x, y)", "        optimizer.zero_grad()"]
    lines += ["        loss.backward()", "        optimizer.step()"]
    return "\n".join(lines) + "\n"


def hoisted(code: str, name: str = "batches", **parts: str) -> str:
    """Return the same steps with the iterator made before the loop."""
    made = parts.pop("made", MADE)
    return loop(
        **{"draw": f"x, y = next({name})", "made": f"{made}\n{name} = {code}".strip(), **parts}
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loop("pass", made=f"{MADE}\n{BATCH}"), id="one look before the loop"),
        pytest.param(
            loop("x, y = next(batches)", made=f"{MADE}\nbatches = iter(loader)"), id="one"
        ),
        pytest.param(
            loop(
                "try:\n    x, y = next(it)\nexcept StopIteration:\n    it = iter(loader)\n"
                "    x, y = next(it)",
                made=f"{MADE}\nit = iter(loader)",
            ),
            id="a new pass where the last one has ended",
        ),
        pytest.param(
            loop(
                "left -= 1\nif left == 0:\n    it = iter(loader)\n    left = len(loader)\n"
                "x, y = next(it)",
                made=f"{MADE}\nleft = 1",
            ),
            id="a new pass where the steps of the last one are counted",
        ),
        pytest.param(loop(f"{MADE}\n{BATCH}", made=""), id="the loader is made in the loop"),
        pytest.param(
            loop(f"dataset.append(play(model))\n{BATCH}"), id="the dataset grows in the loop"
        ),
        pytest.param(loop(head="for step in range(1):"), id="a loop of one turn"),
        pytest.param(loop(top="iter = cycle"), id="iter is not Python's"),
        pytest.param(
            """
            from torch.utils.data import DataLoader

            def try_one_step(model, dataset, optimizer):
                loader = DataLoader(dataset, 8)
                x, y = next(iter(loader))
                optimizer.zero_grad()
                model(x, y).backward()
                optimizer.step()
            """,
            id="a step that no loop is seen to repeat",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "row"),
    [
        pytest.param(loop(), 7, id="next of iter"),
        pytest.param(loop("x, y = iter(loader).next()"), 7, id="the method of old versions"),
        pytest.param(loop(f"if device == 'cuda':\n    {BATCH}"), 8, id="if there is a GPU"),
        pytest.param(
            """
            from torch.utils.data import DataLoader

            class Trainer:
                def __init__(self, model, dataset, optimizer):
                    self.model, self.optimizer = model, optimizer
                    self.loader = DataLoader(dataset, 8, shuffle=True)

                def step(self):
                    x, y = next(iter(self.loader))
                    self.optimizer.zero_grad()
                    self.model(x, y).backward()
                    self.optimizer.step()

                def train(self):
                    for _ in range(9):
                        self.step()
            """,
            10,
            id="in a method that a loop calls",
        ),
    ],
)
def test_reports(source, row):
    (found,) = check(source, CODE)
    assert (found.location.row, found.severity) == (row, Severity.WARNING)


LOOK = "pass\nif {}:\n    show(next(iter(loader)))"


@pytest.mark.parametrize(
    "arguments",
    ["num_workers=0", "shuffle=True", "num_workers=4, persistent_workers=True"],
)
def test_a_look_every_few_steps_that_starts_no_workers(arguments):
    made = f"loader = DataLoader(dataset, 8, {arguments})"
    silent(loop(LOOK.format("step % 10 == 0"), made=made), CODE)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(
            loop(LOOK.format("step % 10 == 0"), made="loader = DataLoader(dataset, num_workers=4)"),
            "and 4 worker processes in some training steps, for one batch", id="now and then",
        ),
        pytest.param(loop(LOOK.format("args.show")), "in some training steps", id="on request"),
        pytest.param(
            """
            import torch
            from torch.utils.data import DataLoader

            @torch.no_grad()
            def evaluate(model, dataset):
                loader = DataLoader(dataset, 8)
                for _ in range(9):
                    model(next(iter(loader)))
            """,
            "in every evaluation step, for one batch", id="an evaluation",
        ),
        pytest.param(
            """
            import torch

            def step(model, loader, optimizer):
                x, y = next(iter(loader))
                model(x, y).backward()
            """,
            "in every training step", id="a loader by its name, a step that nothing repeats",
        ),
    ],
)  # fmt: skip
def test_information(source, words):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert words in found.message


@pytest.mark.parametrize(
    ("made", "words"),
    [
        pytest.param(MADE, "pass over the data in every training step, for one batch", id="plain"),
        pytest.param(
            "loader = DataLoader(dataset, 8, True, num_workers=4)",
            "data and 4 worker processes in every",
            id="workers are started",
        ),
        pytest.param(
            "from torch.utils.data import TensorDataset\n"
            "loader = DataLoader(TensorDataset(a, b), batch_size=8)",
            "for one batch: each time the first one",
            id="in order",
        ),
    ],
)
def test_says_what_it_costs(made, words):
    (found,) = check(loop(made=made), CODE)
    assert found.message.startswith("`next(iter(loader))` starts a new pass over the data")
    assert words in found.message


def test_a_framework_runs_the_loop():
    (found,) = check(loop(top="import lightning"), CODE)
    assert (found.fix, found.severity) == (None, Severity.INFO)


ENDLESS = "itertools.chain.from_iterable(itertools.repeat({}))"
IMPORTED = "import itertools"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            loop(top=IMPORTED),
            hoisted(ENDLESS.format("loader"), top=IMPORTED),
            id="before the loop",
        ),
        pytest.param(
            loop(head="for step in range(len(loader)):"),
            hoisted("iter(loader)", head="for step in range(len(loader)):"),
            id="one pass",
        ),
        pytest.param(
            loop(f"{BATCH}\nif step % 9 == 0:\n    show(next(iter(loader)))", top=IMPORTED),
            hoisted(
                ENDLESS.format("loader"),
                draw="x, y = next(batches)\nif step % 9 == 0:\n    show(next(iter(loader)))",
                top=IMPORTED,
            ),
            id="what is drawn now and then stays",
        ),
        pytest.param(
            loop(f"batches = 0\n{BATCH}", top=IMPORTED),
            hoisted(
                ENDLESS.format("loader"),
                name="loader_batches",
                draw="batches = 0\nx, y = next(loader_batches)",
                top=IMPORTED,
            ),
            id="another name where the first is taken",
        ),
    ],
)
def test_fixes(before, after):
    (first, *_) = check(before, CODE)
    assert first.fix is not None
    assert first.fix.safety is Safety.UNSAFE
    assert fixed(before, CODE) == after


@pytest.mark.parametrize(
    ("loader", "name"),
    [
        ("train_loader", "train_batches"),
        ("trainloader", "train_batches"),
        ("trainset", "trainset_batches"),
    ],
)
def test_the_iterator_is_named_after_the_loader(loader, name):
    done = fixed(loop(BATCH.replace("loader", loader), made=MADE.replace("loader", loader)), CODE)
    assert f"    {name} = {ENDLESS.format(loader)}\n" in done


def test_the_iterator_is_made_before_the_outermost_loop_of_steps():
    source = """
    import itertools
    from torch.utils.data import DataLoader

    class Gan:
        def __init__(self, dataset):
            self.loader = DataLoader(dataset, 8, shuffle=True)

        def train(self, epochs):
            for epoch in range(epochs):
                for step in range(100):
                    for _ in range(5):
                        real = next(iter(self.loader))
                        self.critic(real).backward()
                        self.critic_optimizer.step()
                    self.critic(self.generator()).backward()
                    self.generator_optimizer.step()
    """
    lines = [line.strip() for line in fixed(source, CODE).splitlines()]
    at = lines.index(f"batches = {ENDLESS.format('self.loader')}")
    assert lines[at - 1] == "for epoch in range(epochs):"
    assert lines[at + 1 : at + 4] == [
        "for step in range(100):",
        "for _ in range(5):",
        "real = next(batches)",
    ]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loop("it = iter(loader)\nx, y = next(it)"), id="an iterator with a name"),
        pytest.param(
            loop(f"try:\n    {BATCH}\nexcept StopIteration:\n    break"), id="the end is caught"
        ),
        pytest.param(
            """
            from torch.utils.data import DataLoader

            loader = DataLoader(dataset, 8, shuffle=True)

            def batch():
                return next(iter(loader))

            for _ in range(9):
                model(batch()).backward()
                optimizer.step()
            """,
            id="the loop is in another function",
        ),
    ],
)
def test_reports_without_a_fix(source):
    found = check(source, CODE)
    assert found
    assert all(one.fix is None for one in found)


TABLE = """
import torch
from torch.utils.data import DataLoader

DATA = {{"small": DataLoader(a, 8), "large": {other}}}

def train(model, loader, optimizer, steps):
    for step in range(steps):
        x, y = next(iter(loader))
        model(x, y).backward()
        optimizer.step()

train(model, DATA[name], optimizer, steps)
"""


@pytest.mark.parametrize(("other", "count"), [("DataLoader(b, 8)", 1), ("[1, 2]", 0), ("f()", 1)])
def test_a_loader_chosen_from_a_table(other, count):
    assert len(check(TABLE.format(other=other), CODE)) == count
