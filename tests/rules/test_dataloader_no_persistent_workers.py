"""TL103: workers that are started anew in every epoch."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL103"

HEAD = """\
import os, torch
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

"""
OPTION = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int, default={})
args = parser.parse_args()
"""
EPOCHS = """\
for epoch in range(epochs):
    for x in loader:
        model(x).backward()
        optimizer.step()
"""
FUNCTIONS = """\
def train(batches):
    for i, x in enumerate(tqdm(batches)):
        model(x).backward()
        optimizer.step()

"""


def loaded(arguments: str, before: str = "", loop: str = EPOCHS) -> str:
    """Return a script with ``DataLoader(dataset, <arguments>)`` and its use."""
    before = textwrap.dedent(before).strip()
    return f"{HEAD}{before}\nloader = DataLoader(dataset, {arguments})\n{textwrap.dedent(loop)}"


def option(default: int) -> str:
    """Return a command line with an option ``n``."""
    return OPTION.format(default)


def turns(first: str) -> str:
    """Return a script whose epochs begin with a statement."""
    loop = f"for epoch in range(epochs):\n    {first}\n    for x in loader:\n        f(x)\n"
    return loaded("num_workers=4", loop=loop)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loaded("64"), id="no workers"),
        pytest.param(loaded("num_workers=args.n", option(0)), id="none unless an option asks"),
        pytest.param(loaded("num_workers=4, persistent_workers=True"), id="persistent"),
        pytest.param(loaded("num_workers=4, **options"), id="perhaps persistent by a dictionary"),
        pytest.param(loaded("num_workers=4", loop="for x in loader:\n    f(x)\n"), id="once"),
        pytest.param(loaded("num_workers=4", "epochs = 1"), id="one epoch"),
        pytest.param(
            HEAD + "for fold in folds:\n    loader = DataLoader(dataset[fold], num_workers=4)\n"
            "    for x in loader:\n        f(x)\n",
            id="made anew for each pass",
        ),
        pytest.param(turns("dataset.set_epoch(epoch)"), id="the dataset is told of the epoch"),
        pytest.param(turns("loader.dataset.size = epoch"), id="the dataset is changed"),
        pytest.param(
            loaded("num_workers=4", loop=EPOCHS + "        for y in loader: f(x, y)\n"),
            id="the loader inside of itself",
        ),
        pytest.param(
            loaded("num_workers=4").replace("torch.utils.data", "mine"), id="another DataLoader"
        ),
    ],
)
def test_left_alone(source: str) -> None:
    silent(source, CODE)


def test_before_the_argument_existed() -> None:
    silent(loaded("num_workers=4"), CODE, "1.6")
    assert check(loaded("num_workers=4"), CODE, "1.7")


@pytest.mark.parametrize(
    ("source", "where"),
    [
        pytest.param(loaded("num_workers=4"), "for epoch in range(epochs)", id="at module level"),
        pytest.param(
            loaded("num_workers=4", FUNCTIONS, "while True:\n    train(loader)\n"),
            "while True",
            id="by functions",
        ),
        pytest.param(
            f"{HEAD}{FUNCTIONS}def make():\n    return DataLoader(d, num_workers=2), k\n"
            "loader, n = make()\nfor e in range(n):\n    train(loader)\n",
            "for e in range(n)",
            id="made by a function",
        ),
    ],
)
def test_reported(source: str, where: str) -> None:
    (found,) = check(source, CODE)
    assert found.message == (
        f"the workers of this DataLoader are started anew in every turn of `{where}`"
    )
    assert found.severity is Severity.INFO
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


def test_passes_now_and_then() -> None:
    source = (
        f"{HEAD}loader = DataLoader(dataset, num_workers=4)\nfor step, y in enumerate(other):\n"
        "    if step % 1000 == 0:\n        for x in loader:\n            f(x)\n"
    )
    (found,) = check(source, CODE)
    assert "anew for each of its passes in `for step, y in enumerate(other)`" in found.message


@pytest.mark.parametrize(
    ("arguments", "before", "expected"),
    [
        ("num_workers=4", "", "num_workers=4, persistent_workers=True"),
        ("4, True, None, None, 4", "", "4, True, None, None, 4, persistent_workers=True"),
        ("num_workers=n", "n = os.cpu_count()", "num_workers=n, persistent_workers=n > 0"),
        (
            "num_workers=min(4, os.cpu_count() or 1)",
            "",
            "num_workers=min(4, os.cpu_count() or 1), persistent_workers=True",
        ),
        ("num_workers=args.n", option(4), "num_workers=args.n, persistent_workers=args.n > 0"),
        (
            "num_workers=int(args.n)",
            option(4),
            "num_workers=int(args.n), persistent_workers=int(args.n) > 0",
        ),
        ("**options", "options = {'num_workers': 4}", "persistent_workers=True, **options"),
    ],
)
def test_fixed(arguments: str, before: str, expected: str) -> None:
    assert fixed(loaded(arguments, before), CODE) == loaded(expected, before)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            loaded("**options", option(4) + "options = {'num_workers': args.n}"),
            id="the number is not written in the call",
        ),
        pytest.param("import accelerate\n" + loaded("num_workers=4"), id="a framework"),
        pytest.param(
            f"{HEAD}import lightning as L\nloader = DataLoader(d, num_workers=4)\n"
            "L.Trainer(max_epochs=9).fit(model, loader)\n",
            id="a framework's loop",
        ),
        pytest.param(loaded("num_workers=4 if cuda else 0"), id="it may have none"),
        pytest.param(loaded("num_workers=4, persistent_workers=False"), id="decided against"),
        pytest.param(
            f"{HEAD}import lightning as L\nclass Data(L.LightningDataModule):\n"
            "    def val_dataloader(self):\n        return DataLoader(self.d, num_workers=4)\n",
            id="a framework's hook",
        ),
    ],
)  # fmt: skip
def test_reported_without_a_fix(source: str) -> None:
    (found,) = check(source, CODE)
    assert found.fix is None


@pytest.mark.parametrize("count", ["n", "args.workers", "4 if cuda else 0"])
def test_a_number_that_may_be_none(count: str) -> None:
    (found,) = check(loaded(f"num_workers={count}"), CODE)
    assert "the workers of this DataLoader, if it has any, are started anew" in found.message


@pytest.mark.parametrize(
    ("test", "count"),
    [("epoch == epochs", 0), ("args.epochs == epoch + 1", 0), ("epoch >= epochs // 2", 1),
     ("epoch % 5 == 4", 1)],
)  # fmt: skip
def test_passes_of_a_single_turn(test: str, count: int) -> None:
    loop = f"""
    for epoch in tqdm(range(epochs + 1)):
        if {test}:
            for x in loader:
                f(x)
    """
    assert len(check(loaded("num_workers=4", loop=loop), CODE)) == count


ROLLOUTS = """\
import random
from torch.utils.data import Dataset

class Rollouts(Dataset):
    def __init__(self, files):
        self.files = files
        self.buffer = files[:9]
    def __len__(self):
        return len(self.buffer)
    def __getitem__(self, index):
        return self.buffer[index]
    def load_next(self):
        self.buffer = self.files[9:]
    def reorder(self):
        random.shuffle(self.buffer)
    def advance(self):
        self.load_next()
    def describe(self):
        return f"{len(self.files)} files, {self.buffer[0]}"

"""


def passes(statement: str, given: str = "rollouts, loader") -> str:
    """Return epochs that call a function which does something and goes through a loader."""
    return (
        f"{HEAD}{ROLLOUTS}rollouts, others = Rollouts(files), Rollouts(more)\n"
        "loader = DataLoader(rollouts, num_workers=4)\nrest = DataLoader(others)\n"
        f"def train(data, batches):\n    {statement}\n    for x in batches:\n"
        "        x = x.to(device)\n        model(x).backward()\n        optimizer.step()\n\n"
        f"for epoch in range(epochs):\n    train({given})\n"
    )


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("rollouts.load_next()", id="a method of a global that stores"),
        pytest.param("data.load_next()", id="of what is passed"),
        pytest.param("data.reorder()", id="by a function that shuffles"),
        pytest.param("data.files = []", id="an attribute is stored"),
        pytest.param("data.buffer.append(None)", id="an attribute grows"),
        pytest.param("data.curriculum(3)", id="a method that is not seen"),
    ],
)
def test_a_dataset_that_is_changed_in_a_function_of_the_loop(statement: str) -> None:
    silent(passes(statement), CODE)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("print(len(data), data.files)", id="plain reads"),
        pytest.param("print(data.describe())", id="a method that reads only"),
    ],
)
def test_a_dataset_that_is_only_read(statement: str) -> None:
    assert check(passes(statement), CODE)
