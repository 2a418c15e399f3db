"""TL101: samples that are prepared by the process that trains."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.preferences import Preferences
from torchlint.rule import Severity

CODE = "TL101"

HEAD = """\
import os
import numpy as np, torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data import TensorDataset, random_split
from torchvision import datasets, transforms
from transformers import AutoTokenizer
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Photos(Dataset):
    def __init__(self, paths, transform=None):
        self.paths = paths
        self.transform = transform
    def __getitem__(self, index):
        image = Image.open(self.paths[index])
        return image if self.transform is None else self.transform(image)

class Numbers(Dataset):
    def __init__(self, x, transform=None):
        self.x = x
        self.transform = transform
    def __getitem__(self, index):
        x = torch.tensor(self.x[index])
        return x if self.transform is None else self.transform(x)

"""
LOOP = """\
for x in loader:
    loss = model(x.to(device))
    loss.backward()
    optimizer.step()
"""
EVALUATION = """\
with torch.no_grad():
    for x in loader:
        total += metric(model(x.to(device)))
"""
NEXT = """\
batches = iter(loader)
for step in range(steps):
    loss = model(next(batches).to(device))
    loss.backward()
    optimizer.step()
"""
OPTION = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
"""


def loaded(call: str, before: str = "", loop: str = LOOP, head: str = HEAD) -> str:
    """Return a script with a function that makes a loader and goes through it."""
    body = f"{textwrap.dedent(before).strip()}\nloader = {call}\n{loop}".strip()
    return f"{head}def train(model, optimizer):\n{textwrap.indent(body, '    ')}\n"


def of_class(name: str, body: str, base: str = "Dataset") -> str:
    """Return a script with a loader of a dataset of its own."""
    made = f"class {name}({base}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    return loaded(f"DataLoader({name}(p))", head=HEAD + made)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loaded("DataLoader(Photos(p), num_workers=4)"), id="workers"),
        pytest.param(loaded("DataLoader(Photos(p), num_workers=n)"), id="a number from elsewhere"),
        pytest.param(loaded("DataLoader(Photos(p), **options)"), id="options from elsewhere"),
        pytest.param(
            loaded(
                "DataLoader(Photos(p), **options)",
                "options = {'num_workers': 0}\nif big: options['num_workers'] = 2",
            ),
            id="workers on some paths to a dictionary",
        ),
        pytest.param(
            loaded(
                "DataLoader(Photos(p), **options)",
                "options = {'num_workers': 0}\nif big: options.update(asked)",
            ),
            id="what may be in a dictionary",
        ),
        pytest.param(loaded("DataLoader(TensorDataset(x, y))"), id="tensors in memory"),
        pytest.param(loaded("DataLoader(x)", "x = torch.zeros(9, 9)"), id="a tensor"),
        pytest.param(
            loaded("DataLoader(d)", "d = Photos(p)\nif small:\n    d = TensorDataset(x)"),
            id="perhaps tensors in memory",
        ),
        pytest.param(loaded("DataLoader(Numbers(x))"), id="a row of an array"),
        pytest.param(
            of_class("Moved", "def __getitem__(self, i):\n    return read(Image.open(i)).cuda()"),
            id="the dataset uses the GPU",
        ),
        pytest.param(
            loaded("DataLoader(Photos(p), collate_fn=lambda b: torch.stack(b).to(device))"),
            id="collate_fn uses the GPU",
        ),
        pytest.param(loaded("DataLoader(Photos(p))", loop=""), id="never gone through"),
        pytest.param(
            loaded("DataLoader(Photos(p))", loop="x = next(iter(loader))"), id="one batch"
        ),
        pytest.param(
            loaded("DataLoader(Photos(p))").replace("torch.utils.data", "mine"),
            id="another DataLoader",
        ),
    ],
)  # fmt: skip
def test_left_alone(source: str) -> None:
    silent(source, CODE)


@pytest.mark.parametrize(
    ("call", "cost"),
    [
        ("DataLoader(Photos(p))", "Image.open(self.paths[index])"),
        ("DataLoader(Photos(p), num_workers=0)", "Image.open(self.paths[index])"),
        ("DataLoader(Subset(Photos(p), i))", "Image.open(self.paths[index])"),
        ("DataLoader(ConcatDataset([Photos(p), Photos(q)]))", "Image.open(self.paths[index])"),
        ("DataLoader(random_split(Photos(p), [8, 2])[0])", "Image.open(self.paths[index])"),
        ("DataLoader(Numbers(x, transforms.Normalize(0, 1)))", "self.transform(x)"),
        ("DataLoader(datasets.CIFAR10('d'))", "torchvision.datasets.CIFAR10"),
        ("DataLoader(datasets.CIFAR10('d'), **{'shuffle': True})", "torchvision.datasets.CIFAR10"),
    ],
)
def test_reported(call: str, cost: str) -> None:
    (found,) = check(loaded(call), CODE)
    assert found.message == (
        f"this DataLoader prepares its samples (`{cost}`) in the main process: "
        "training waits for every batch"
    )
    assert found.severity is Severity.WARNING
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


def test_work_of_collate_fn_counts() -> None:
    head = f"{HEAD}tokenizer = AutoTokenizer.from_pretrained('t')\ndef pad(rows):\n"
    source = loaded(
        "DataLoader(Numbers(x), collate_fn=pad)", head=head + "    return tokenizer(rows)\n"
    )
    (found,) = check(source, CODE)
    assert "`tokenizer(rows)`" in found.message


@pytest.mark.parametrize(
    ("source", "says"),
    [
        pytest.param(loaded("DataLoader(Photos(p))", loop=EVALUATION),
                     "what goes through it waits", id="an evaluation"),
        pytest.param(
            OPTION + loaded("DataLoader(Photos(p), num_workers=args.workers)"),
            "in the main process, unless an option says otherwise: training waits",
            id="an option that is 0 by default",
        ),
        pytest.param(loaded("DataLoader(dataset)"), "samples in the main process", id="unseen"),
        pytest.param(
            of_class("Own", "def __getitem__(self, i):\n    return torch.as_tensor(self.data[i])",
                     "datasets.CIFAR10"),
            "samples in the main process",
            id="arrays of torchvision, perhaps",
        ),
        pytest.param(loaded("DataLoader(Photos(p))").replace('"cuda" if torch.cuda.is_available() '
                     "else ", ""), "training waits", id="without a GPU"),
    ],
)  # fmt: skip
def test_information(source: str, says: str) -> None:
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert says in found.message


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            "DataLoader(Photos(p), batch_size=8)",
            "DataLoader(Photos(p), batch_size=8, num_workers=min(4, os.cpu_count() or 1))",
        ),
        (
            "DataLoader(Photos(p), num_workers=0, shuffle=True)",
            "DataLoader(Photos(p), num_workers=min(4, os.cpu_count() or 1), shuffle=True)",
        ),
        (
            "DataLoader(Photos(p), 8, True, None, None, 0)",
            "DataLoader(Photos(p), 8, True, None, None, min(4, os.cpu_count() or 1))",
        ),
        (
            "DataLoader(Photos(p), **{'batch_size': 8})",
            "DataLoader(Photos(p), num_workers=min(4, os.cpu_count() or 1), **{'batch_size': 8})",
        ),
    ],
)
def test_fixed(call: str, expected: str) -> None:
    assert fixed(loaded(call), CODE) == loaded(expected)
    assert fixed(loaded(call), CODE, unsafe=False, settles=False) == loaded(call)


def test_the_project_chooses_the_number() -> None:
    call = "DataLoader(Photos(p), {})"
    chosen = fixed(loaded(call.format("8")), CODE, preferences=Preferences(num_workers=6))
    assert chosen == loaded(call.format("8, num_workers=6"))


def test_os_is_imported() -> None:
    source = loaded("DataLoader(Photos(p))").removeprefix("import os\n")
    assert fixed(source, CODE).startswith("import os\n\n")


def test_fixed_under_the_main_guard_and_where_batches_are_taken_one_by_one() -> None:
    body = textwrap.indent(f"loader = DataLoader(Photos(p))\n{NEXT}", "    ")
    source = f'{HEAD}if __name__ == "__main__":\n{body}'
    assert "num_workers=min(4" in fixed(source, CODE)


def test_an_engine_of_ignite_takes_the_loader_as_it_is() -> None:
    engine = "create_supervised_trainer(model, optimizer, f, device).run(loader, max_epochs=5)"
    head = f"from ignite.engine import create_supervised_trainer\n{HEAD}"
    (found,) = check(loaded("DataLoader(Photos(p))", loop=engine, head=head), CODE)
    assert "training waits" in found.message
    assert found.fix is not None
    assert found.severity is Severity.WARNING


LOCAL = "class Local(Dataset):\n    def __getitem__(self, i):\n        return np.load(files[i])"
HOOK = """
import lightning as L
class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Photos(self.paths), batch_size=8)
"""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        pytest.param(f"{HEAD}loader = DataLoader(Photos(p))\n{LOOP}", "`if __name__ ==",
                     id="training starts when the file is imported"),
        pytest.param(loaded("DataLoader(Photos(p))") + "train(model, optimizer)\n",
                     '`if __name__ == "__main__":`', id="a function that an import calls"),
        pytest.param(loaded("DataLoader(Photos(p), collate_fn=lambda b: b)"),
                     "Define `lambda b: b` at the level", id="a lambda"),
        pytest.param(
            loaded("DataLoader(datasets.MNIST('x', transform=t))",
                   "t = transforms.Compose([transforms.Lambda(lambda x: -x)])"),
            "Define `lambda x: -x` at the level", id="a lambda in a transform",
        ),
        pytest.param(loaded("DataLoader(Local())", LOCAL), "Define `class Local` at the level",
                     id="a local class"),
        pytest.param(
            of_class("Lines", "def __iter__(self):\n    return open('lines')", "IterableDataset"),
            "share its samples out", id="an iterable would give everything twice",
        ),
        pytest.param("from accelerate import Accelerator\n" + loaded("DataLoader(Photos(p))"),
                     "the framework does not choose it", id="a framework"),
        pytest.param(HEAD + HOOK, "the framework does not choose it", id="a framework's hook"),
        pytest.param(loaded("DataLoader(Photos(p))", "os = 1"), "How many workers",
                     id="os is something else"),
        pytest.param(loaded("DataLoader(Photos(p), **o)", "o = {'num_workers': 0} if c else {}"),
                     "How many workers", id="a zero in a dictionary"),
    ],
)  # fmt: skip
def test_reported_without_a_fix(source: str, says: str) -> None:
    (found,) = check(source, CODE)
    assert found.fix is None
    assert says in found.help
