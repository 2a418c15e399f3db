"""Whether each worker of a loader gives every sample of an iterable dataset."""

from __future__ import annotations

import textwrap

import pytest
from probing import parsed, probed

from torchlint.analysis.sharding import repeats_samples

HEAD = """\
import csv, os, random, torch
from itertools import islice
from torch.utils.data import Dataset, IterableDataset, Subset, get_worker_info
from torchdata import Pipe
"""


def repeats(body: str, made: str = "Own([1, 2])", base: str = "IterableDataset") -> bool:
    """Tell of a class with such an ``__iter__``."""
    body = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    source = (
        f"class Own({base}):\n    def __init__(self, data):\n        self.data = data\n"
        f"    def __iter__(self):\n{body}\nprobe({made})"
    )
    program = parsed(source, HEAD)
    (one,) = program.datasets.of(probed(program))
    return repeats_samples(one)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("for i in range(9):\n    yield i", id="numbers"),
        pytest.param("for x in self.data:\n    yield x", id="a list"),
        pytest.param("yield from self.data", id="a list as a whole"),
        pytest.param("return iter(self.data)", id="an iterator"),
        pytest.param("return (f(x) for x in self.data)", id="a generator"),
        pytest.param("return map(f, self.data)", id="mapped"),
        pytest.param("for i, x in enumerate(self.data):\n    yield i, x", id="counted"),
        pytest.param(
            "with open('lines') as file:\n    for line in file:\n        yield line", id="lines"
        ),
        pytest.param(
            "file = open('lines')\nreader = csv.reader(file)\nfor row in reader:\n    yield row",
            id="rows",
        ),
        pytest.param(
            "for x in self.data:\n    for y in range(x):\n        yield y", id="loops in each other"
        ),
    ],
)
def test_repeated(body: str) -> None:
    assert repeats(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "info = get_worker_info()\nfor i in range(info.id, 9):\n    yield i", id="its share"
        ),
        pytest.param("for i in range(self.rank, 9):\n    yield i", id="by rank"),
        pytest.param("for i in range(9):\n    yield torch.randn(i)", id="random samples"),
        pytest.param("while True:\n    yield from self.data", id="without an end"),
        pytest.param("for x in load('name'):\n    yield x", id="of a library"),
        pytest.param("for x in self.stream:\n    yield x", id="of something that is not known"),
        pytest.param("return Pipe(self.data)", id="a pipe"),
        pytest.param("return self", id="itself"),
    ],
)
def test_not_repeated(body: str) -> None:
    assert not repeats(body)


def test_the_class_has_to_be_seen() -> None:
    body = "yield from self.data"
    assert repeats(body)
    assert not repeats(body, base="Pipe, IterableDataset")
    assert not repeats(body, base="Dataset")
    assert not repeats(body, made="Own(stream)")
