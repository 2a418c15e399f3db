"""Which datasets a loader may be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probing import parsed, probed

from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
import copy, datasets as hf, torch
from torch.utils.data import (
    ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split)
from torchvision import datasets

class Own(Dataset):
    def __getitem__(self, index): return index
class Heir(Own): pass
class Stream(IterableDataset):
    def __iter__(self): yield 1
class Foreign(Elsewhere): pass
class Indexed(Elsewhere):
    def __getitem__(self, index): return index
def train_data(): return Own()
def both(): return Own(), datasets.MNIST("x")
"""


def found(source: str) -> list[str]:
    """Return the types of the datasets that the probed expression may be, wrappers first."""
    program = parsed(source, HEAD)
    return [
        " ".join([*(name.rpartition(".")[2] for name in one.wrappers), one.type])
        for one in program.datasets.of(probed(program))
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("probe(Own())", ".Own", id="made in place"),
        pytest.param("d = Own()\nprobe(d)", ".Own", id="by name"),
        pytest.param(
            "if x:\n    kind = datasets.CIFAR10\nelse:\n    kind = datasets.CIFAR100\n"
            "probe(kind('x'))",
            "torchvision.datasets.CIFAR10 torchvision.datasets.CIFAR100",
            id="of one class or another",
        ),
        pytest.param(
            "kind = datasets.MNIST if x else datasets.KMNIST\nprobe(kind('x'))",
            "torchvision.datasets.MNIST torchvision.datasets.KMNIST",
            id="of one class or another, in a line",
        ),
        pytest.param(
            "kind = datasets.MNIST if x else y\nprobe(kind('x'))", "", id="perhaps of another class"
        ),
        pytest.param("d = None\nif x:\n    d = Own()\nprobe(d)", ".Own", id="None at first"),
        pytest.param("d = a = Own()\nprobe(a)", ".Own", id="by two names"),
        pytest.param("d, e = Own(), 1\nprobe(d)", ".Own", id="unpacked"),
        pytest.param("d, e = both()\nprobe(d)", ".Own", id="unpacked from a function"),
        pytest.param("probe(both()[1])", "torchvision.datasets.MNIST", id="an item of a result"),
        pytest.param("probe(train_data())", ".Own", id="returned"),
        pytest.param("def f(d):\n    probe(d)\nf(Own())", ".Own", id="passed"),
        pytest.param("d = {'a': Own()}\nprobe(d['a'])", ".Own", id="in a dictionary"),
        pytest.param("d = {k: Own(k) for k in ks}\nprobe(d[k])", ".Own", id="in a comprehension"),
        pytest.param("for d in (Own(), Own()):\n    probe(d)", ".Own .Own", id="in a loop"),
        pytest.param("probe(copy.deepcopy(Own()))", ".Own", id="copied"),
        pytest.param("probe(d := Own())", ".Own", id="named in passing"),
        pytest.param(
            "class A:\n    def __init__(self): self.d = Own()\n    def f(self): probe(self.d)",
            ".Own",
            id="an attribute",
        ),
        pytest.param("l = DataLoader(Own())\nprobe(l.dataset)", ".Own", id="of another loader"),
        pytest.param("probe(Heir())", ".Heir", id="an heir"),
        pytest.param("probe(TensorDataset(x))", "torch.utils.data.TensorDataset", id="tensors"),
        pytest.param("probe([1, 2])", "memory", id="a list"),
        pytest.param("probe(range(9))", "memory", id="a range"),
        pytest.param("probe(torch.zeros(9))", "memory", id="a tensor"),
        pytest.param("probe(Subset(Own(), i))", "Subset .Own", id="a subset"),
        pytest.param(
            "a, b = random_split(TensorDataset(x), [8, 2])\nprobe(a)",
            "Subset torch.utils.data.TensorDataset",
            id="a part",
        ),
        pytest.param(
            "probe(ConcatDataset([Own(), TensorDataset(x)]))",
            "ConcatDataset .Own ConcatDataset torch.utils.data.TensorDataset",
            id="joined",
        ),
        pytest.param("probe(Own() + Own())", "ConcatDataset .Own ConcatDataset .Own", id="added"),
        pytest.param("probe(Own() if x else Heir())", ".Own .Heir", id="one of two"),
        pytest.param(
            "if x:\n    d = Own()\nelse:\n    d = datasets.MNIST()\nprobe(d)",
            ".Own torchvision.datasets.MNIST",
            id="by a branch",
        ),
        pytest.param(
            "d = hf.load_dataset('x')\nd = d.map(f).filter(g)\nprobe(d['train'])",
            "datasets.Dataset",
            id="of the Hub",
        ),
    ],
)
def test_known(source: str, expected: str) -> None:
    assert " ".join(found(source)) == expected


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("probe(d)", id="no binding"),
        pytest.param("from data import d\nprobe(d)", id="of another file"),
        pytest.param("probe(make())", id="made elsewhere"),
        pytest.param("d = Own()\nif x:\n    d = wrap(d)\nprobe(d)", id="wrapped on one branch"),
        pytest.param("for i in x:\n    d = d.map(f)\nprobe(d)", id="made of itself"),
        pytest.param("def f(d):\n    probe(d)", id="passed by nobody"),
        pytest.param("def f(*d):\n    probe(d)\nf(Own())", id="a tuple of arguments"),
        pytest.param("probe(random_split(Own(), [1, 2]))", id="the list of parts"),
        pytest.param("probe(datasets.folder())", id="a function of torchvision"),
        pytest.param("probe(TensorDataset(x)[0])", id="a sample"),
        pytest.param("probe(a + 1)", id="a sum"),
        pytest.param("probe(both()[1:])", id="a slice"),
        pytest.param("d = {**more, 'a': Own()}\nprobe(d['b'])", id="of an unknown dictionary"),
        pytest.param("def g():\n    yield Own()\nprobe(g())", id="a generator"),
        pytest.param("probe(None)", id="none"),
    ],
)
def test_not_known(source: str) -> None:
    assert found(source) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("probe(Own())", False),
        ("probe(Stream())", True),
        ("probe(Foreign())", None),
        ("probe(Indexed())", False),
        ("probe(TensorDataset(x))", False),
        ("probe(hf.load_dataset('x', streaming=True))", True),
        ("probe(hf.load_dataset('x', streaming=s))", None),
    ],
)
def test_iterable(source: str, expected: bool | None) -> None:
    program = parsed(source, HEAD)
    (one,) = program.datasets.of(probed(program))
    assert one.iterable is expected


def test_a_loader_is_asked_by_parameter() -> None:
    program = parsed("DataLoader(batch_size=2, dataset=Own())\nDataLoader(*x)", HEAD)
    first, second = program.loaders.calls
    assert [one.type for one in program.datasets.of_loader(first)] == [".Own"]
    assert program.datasets.of_loader(second) == ()


@pytest.mark.parametrize(
    ("table", "call", "expected"),
    [
        pytest.param("{'a': One}", "DATA[name]()", ["One"], id="one class"),
        pytest.param("{'a': One, 'b': Two}", "DATA[name]()", ["One", "Two"], id="one of two"),
        pytest.param("{'a': One, 'b': Two}", "DATA['b']()", ["Two"], id="by its name"),
        pytest.param("{'a': One, 'b': load}", "DATA[name]()", [], id="something else, too"),
        pytest.param("{'a': One, **more}", "DATA[name]()", [], id="not all of it"),
    ],
)
def test_tables_of_classes_of_other_files(
    tmp_path: Path, table: str, call: str, expected: list[str]
) -> None:
    for name in ("One", "Two"):
        (tmp_path / f"{name.lower()}.py").write_text(
            f"from torch.utils.data import Dataset\nclass {name}(Dataset):\n"
            "    def __getitem__(self, index): return index\n"
        )
    (tmp_path / "data.py").write_text(
        f"from one import One\nfrom two import Two\nDATA = {table}\n"
        f"def get(name):\n    return {call}\n"
    )
    (tmp_path / "train.py").write_text("from data import get\nprobe(get('a'))\n")
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "train.py"))
    assert program is not None
    assert [one.type for one in program.datasets.of(probed(program))] == [
        f".{name}" for name in expected
    ]
