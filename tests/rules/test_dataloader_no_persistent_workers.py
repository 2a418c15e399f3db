"""TL103: workers that are started anew in every epoch."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL103"

HEAD = """\
import os, torch
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

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

def test(batches):
    total = 0
    with torch.no_grad():
        for x in batches:
            total += model(x)

"""


def loaded(arguments: str, before: str = "", loop: str = EPOCHS) -> str:
    """Return a script with ``DataLoader(dataset, <arguments>)`` and its use."""
    before = textwrap.dedent(before).strip()
    return f"{HEAD}{before}\nloader = DataLoader(dataset, {arguments})\n{textwrap.dedent(loop)}"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loaded("64"), id="no workers"),
        pytest.param(loaded("num_workers=0"), id="zero workers"),
        pytest.param(loaded("num_workers=n"), id="a number from elsewhere"),
        pytest.param(loaded("num_workers=args.workers"), id="an option from elsewhere"),
        pytest.param(
            loaded("num_workers=args.n", "parser.add_argument('--n', default=0)"),
            id="an option whose default is none",
        ),
        pytest.param(loaded("num_workers=4 if cuda else 0"), id="perhaps no workers"),
        pytest.param(loaded("num_workers=4, persistent_workers=True"), id="persistent"),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="def run():\n    return\n    for x in loader:\n        f(x)\n\n"
                "for epoch in range(epochs):\n    run()\n",
            ),
            id="a loop behind a return",
        ),
        pytest.param(
            loaded("sampler=sampler, num_workers=4", "sampler = Endless(dataset, num_epochs, 64)"),
            id="a sampler of all epochs",
        ),
        pytest.param(
            HEAD
            + """
def accuracy(output, target, topk):
    pred = output.topk(max(topk), 1)[1].t()
    correct = pred.eq(target.view(1, -1))
    return [correct[:k].view(-1).sum() for k in topk]

loader = DataLoader(dataset, num_workers=4)
"""
            + EPOCHS
            + "        accuracy(model(x), x, topk=(1, 5))\n",
            id="code that raises from torch 1.7 on",
        ),
        pytest.param(loaded("num_workers=4, persistent_workers=False"), id="decided against"),
        pytest.param(loaded("num_workers=4, **options"), id="perhaps persistent by a dictionary"),
        pytest.param(loaded("num_workers=4", loop="for x in loader:\n    f(x)\n"), id="once"),
        pytest.param(loaded("num_workers=4", "epochs = 1"), id="one epoch"),
        pytest.param(loaded("num_workers=4", loop=""), id="never"),
        pytest.param(
            HEAD + "for fold in folds:\n    loader = DataLoader(dataset[fold], num_workers=4)\n"
            "    for x in loader:\n        f(x)\n",
            id="made anew for each pass",
        ),
        pytest.param(
            f"{HEAD}{FUNCTIONS}def epoch():\n    test(DataLoader(dataset, num_workers=4))\n"
            "for e in range(9):\n    epoch()\n",
            id="made anew in a function",
        ),
        pytest.param(
            loaded("num_workers=4", FUNCTIONS, "for e in range(9):\n    train(a)\ntest(loader)\n"),
            id="gone through once, by a function",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                f"{FUNCTIONS}other = DataLoader(rest)",
                "for e in range(9):\n    test(other)\ntest(loader)\n",
            ),
            id="the function goes through another one in each epoch",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="""
                for epoch in range(epochs):
                    dataset.set_epoch(epoch)
                    for x in loader:
                        f(x)
                """,
            ),
            id="the dataset is told of the epoch",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="""
                for epoch in range(epochs):
                    loader.dataset.size = epoch
                    for x in loader:
                        f(x)
                """,
            ),
            id="the dataset is changed",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="""
                for epoch in range(epochs):
                    for x in loader:
                        for y in loader:
                            f(x, y)
                """,
            ),
            id="the loader inside of itself",
        ),
        pytest.param(
            loaded("num_workers=4").replace("(dataset,", "(TensorDataset(xs),"),
            id="tensors in memory need no workers",
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
            loaded(
                "num_workers=4", FUNCTIONS, "while True:\n    train(loader)\n    test(loader)\n"
            ),
            "while True",
            id="by functions",
        ),
        pytest.param(
            f"{HEAD}{FUNCTIONS}def make():\n    return DataLoader(d, num_workers=2), 1\n"
            "loader, n = make()\nfor e in range(n):\n    train(loader)\n",
            "for e in range(n)",
            id="made by a function",
        ),
        pytest.param(
            f"{HEAD}class Trainer:\n    def __init__(self):\n"
            "        self.loader = DataLoader(d, num_workers=2)\n    def train(self):\n"
            "        for x in self.loader:\n            f(x)\n    def fit(self):\n"
            "        for e in range(self.epochs):\n            self.train()\n",
            "for e in range(self.epochs)",
            id="kept by an object",
        ),
        pytest.param(
            f"{HEAD}for fold in folds:\n    loader = DataLoader(dataset[fold], num_workers=4)\n"
            "    for e in range(9):\n        for x in loader:\n            f(x)\n",
            "for e in range(9)",
            id="one for each fold",
        ),
        pytest.param(
            f"{HEAD}loaders = {{k: DataLoader(d[k], num_workers=4) for k in d}}\n"
            "for e in range(9):\n    for k in d:\n        for x in loaders[k]:\n            f(x)\n",
            "for e in range(9)",
            id="in a dictionary, of which each turn inside takes another",
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
    assert not check(source.replace("other", "other_loader"), CODE), "in a turn over batches"


@pytest.mark.parametrize(
    ("arguments", "before", "expected"),
    [
        ("num_workers=4", "", "num_workers=4, persistent_workers=True"),
        ("4, True, None, None, 4", "", "4, True, None, None, 4, persistent_workers=True"),
        ("num_workers=n", "n = os.cpu_count()", "num_workers=n, persistent_workers=True"),
        (
            "num_workers=min(4, os.cpu_count() or 1)",
            "",
            "num_workers=min(4, os.cpu_count() or 1), persistent_workers=True",
        ),
        (
            "num_workers=args.n",
            "parser.add_argument('--n', default=4)",
            "num_workers=args.n, persistent_workers=args.n > 0",
        ),
        (
            "num_workers=int(args.n)",
            "parser.add_argument('--n', default=4)",
            "num_workers=int(args.n), persistent_workers=int(args.n) > 0",
        ),
        (
            "**options",
            "options = {'num_workers': 4}",
            "persistent_workers=True, **options",
        ),
    ],
)
def test_fixed(arguments: str, before: str, expected: str) -> None:
    assert fixed(loaded(arguments, before), CODE) == loaded(expected, before)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            loaded("**options", "parser.add_argument('--n', default=4)\noptions = {'num_workers': "
                   "args.n}"),
            id="the number is not written in the call",
        ),
        pytest.param("import accelerate\n" + loaded("num_workers=4"), id="a framework"),
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


def test_the_first_version_is_named_where_none_is_declared():
    [found] = check(loaded("num_workers=4"), CODE)
    assert found.fix is not None
    assert "torch 1.7" in found.help
    assert "torch below 1.7" in found.fix.changes
    [found] = check(loaded("num_workers=4"), CODE, "2.1")
    assert found.fix is not None
    assert "torch" not in found.help + found.fix.changes


def test_a_sampler_of_one_epoch():
    [_] = check(loaded("sampler=s, num_workers=4", "s = RandomSampler(dataset, 64)"), CODE)


@pytest.mark.parametrize(("readme", "count"), [("PyTorch 1.4", 0), ("PyTorch 1.8", 1)])
def test_silent_for_a_torch_that_a_readme_names(tmp_path, readme, count) -> None:
    files = {"main.py": loaded("num_workers=4"), "README.md": readme}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == count


@pytest.mark.parametrize("pins", ["True", "device.type == 'cuda'"])
def test_silent_where_pinned_batches_break_persistent_workers(pins: str) -> None:
    """Up to torch 1.7 the second pass over a loader that has both fails."""
    source = loaded(f"num_workers=4, pin_memory={pins}")
    assert not check(source, CODE, "1.7")
    [_] = check(source, CODE, "1.8")
    [_] = check(source, CODE)
    for other in ("num_workers=4", "num_workers=4, pin_memory=False"):
        [_] = check(loaded(other), CODE, "1.7")


def test_silent_where_batches_are_to_be_pinned() -> None:
    """TL102 tells such a loader to pin: on torch 1.7 it cannot have both."""
    source = loaded("num_workers=4", loop=EPOCHS.replace("model(x)", "model(x.cuda())"))
    assert not check(source, CODE, "1.7")
    [_] = check(source, CODE, "1.8")


SAVES = """
import torch
from torch.utils.data import DataLoader

def fit(model, optimizer, batches, dataset, every):
    loader = DataLoader(dataset, num_workers=4)
    for epoch in range(9):
        for step, x in enumerate(batches):
            model(x).sum().backward()
            optimizer.step()
            if step % {every} == 0:
                listen(loader){save}
        {after}

def listen(loader):
    for x in loader:
        f(x)
"""
SAVE = "\n                torch.save(model.state_dict(), path)"


def saves(every: str = "n", save: str = "", after: str = "pass") -> str:
    """Return a training that goes through another loader now and then, in a step."""
    return SAVES.format(every=every, save=save, after=after)


def test_passes_as_rare_as_checkpoints() -> None:
    silent(saves("10", SAVE), CODE)
    assert check(saves("10"), CODE), "every tenth step"
    assert check(saves(save=SAVE, after="listen(loader)"), CODE), "and once an epoch"
    assert check(saves(save=SAVE).replace("step % n", "step - n"), CODE), "perhaps once an epoch"
    after = "if epoch % 2 == 0: listen(loader); torch.save(1, path)"
    source = saves("10", after=after).replace("  listen(loader)", "  pass", 1)
    assert check(source, CODE), "an epoch is long"


@pytest.mark.parametrize(
    ("every", "count"),
    [
        ("args.interval", 0),
        ("1000", 0),
        ("20", 1),
        ("(len(batches) // 5)", 1),
        ("len(batches)", 1),
    ],
)
def test_passes_after_many_steps(every: str, count: int) -> None:
    """Nothing shows that an interval is short, unless it is a number or a part of an epoch."""
    assert len(check(saves(every), CODE)) == count


@pytest.mark.parametrize(
    ("test", "count"),
    [
        ("epoch == epochs", 0),
        ("args.epochs == epoch + 1", 0),
        ("epoch == best", 1),
        ("epoch >= epochs // 2", 1),
        ("epoch % 5 == 4", 1),
        ("epoch * 0 == 0", 1),
    ],
)
def test_passes_of_a_single_turn(test: str, count: int) -> None:
    loop = f"""
    best = 0
    for epoch in tqdm(range(epochs + 1)):
        fit()
        if {test}:
            best = epoch
            for x in loader:
                f(x)
    """
    assert len(check(loaded("num_workers=4", loop=loop), CODE)) == count


def test_the_loop_around_the_one_with_a_single_pass_is_named() -> None:
    """Each fit ends with a pass; that of every epoch elsewhere says more."""
    fits = """\
def fit():
    for epoch in range(9):
        if epoch == 8:
            test(loader)
for run in range(4):
    fit()
"""
    [found] = check(loaded("num_workers=4", FUNCTIONS, fits), CODE)
    assert "for each of its passes in `for run in range(4)`" in found.message
    fits += "for epoch in range(5):\n    test(loader)\n"
    [found] = check(loaded("num_workers=4", FUNCTIONS, fits), CODE)
    assert "in every turn of `for epoch in range(5)`" in found.message


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
        pytest.param("batches.dataset.load_next()", id="of what the loader keeps"),
        pytest.param("data.advance()", id="by another method"),
        pytest.param("data.reorder()", id="by a function that shuffles"),
        pytest.param("data.files = []", id="an attribute is stored"),
        pytest.param("data.buffer[0] = None", id="an item of an attribute is stored"),
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
        pytest.param("rest.dataset.load_next()", id="the dataset of another loader"),
        pytest.param("mine = Rollouts(files)", id="another dataset is made"),
        pytest.param("others = datasets.Rollouts()", id="a module called datasets"),
    ],
)
def test_a_dataset_that_is_only_read(statement: str) -> None:
    assert check(passes(statement).replace("import os,", "import datasets, os,"), CODE)


def test_a_global_of_the_name_of_a_batch() -> None:
    source = loaded("num_workers=4", f"{FUNCTIONS}x = load()", "for e in n:\n    train(loader)\n")
    source = source.replace("(dataset,", "(x,").replace("model(x)", "x.mean()", 1)
    assert check(source, CODE)
