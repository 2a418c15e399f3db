"""How many workers a loader has, what is sent to them, and whether an import starts them."""

from __future__ import annotations

import pytest
from probing import parsed

from torchlint.analysis.workers import Workers, unpicklable, workers_of

HEAD = """\
import argparse, multiprocessing, os, sys, torch
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms
class Own(Dataset):
    def __init__(self, *args): pass
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("DataLoader(d)", Workers.NONE),
        ("DataLoader(d, num_workers=0)", Workers.NONE),
        ("DataLoader(d, num_workers=4)", Workers.SOME),
        ("DataLoader(d, 1, False, None, None, 4)", Workers.SOME),
        ("N = 4\nDataLoader(d, num_workers=N)", Workers.SOME),
        ("DataLoader(d, num_workers=os.cpu_count())", Workers.SOME),
        ("DataLoader(d, num_workers=multiprocessing.cpu_count())", Workers.SOME),
        ("DataLoader(d, num_workers=min(4, os.cpu_count() or 1))", Workers.SOME),
        ("DataLoader(d, num_workers=max(1, n))", Workers.SOME),
        ("DataLoader(d, num_workers=len(os.sched_getaffinity(0)))", Workers.SOME),
        ("DataLoader(d, num_workers=4 if cuda else 2)", Workers.SOME),
        ("DataLoader(d, num_workers=4 if cuda else 0)", Workers.UNSURE),
        ("n = 4\nif x:\n    n = 0\nDataLoader(d, num_workers=n)", Workers.UNSURE),
        ("DataLoader(d, num_workers=min(n, 4))", Workers.UNSURE),
        ("DataLoader(d, num_workers=n)", Workers.UNSURE),
        ("DataLoader(d, **options)", Workers.UNSURE),
        ("o = {'num_workers': 2}\nDataLoader(d, **o)", Workers.SOME),
        ("o = {'shuffle': True}\nDataLoader(d, **o)", Workers.NONE),
        ("def f(n=2):\n    DataLoader(d, num_workers=n)", Workers.ASKED),
        ("def f(n=0):\n    DataLoader(d, num_workers=n)", Workers.UNASKED),
        ("def f(n=2):\n    DataLoader(d, num_workers=n)\nf(n=0)", Workers.UNSURE),
        ("def f(n):\n    DataLoader(d, num_workers=n)", Workers.UNSURE),
        (
            "p.add_argument('-j', '--workers', default=4)\nDataLoader(d, num_workers=args.workers)",
            Workers.ASKED,
        ),
        (
            "p.add_argument('--n-cpu', default=4)\nDataLoader(d, num_workers=int(args.n_cpu))",
            Workers.ASKED,
        ),
        (
            "p.add_argument('--workers', default=0)\nDataLoader(d, num_workers=args.workers)",
            Workers.UNASKED,
        ),
        ("DataLoader(d, num_workers=args.workers)", Workers.UNSURE),
    ],
)
def test_number_of_workers(source: str, expected: Workers) -> None:
    program = parsed(source, HEAD)
    (loader,) = program.loaders.calls
    assert workers_of(program, loader) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("DataLoader(Own())", "", id="a class of the file"),
        pytest.param("def c(b): pass\nDataLoader(Own(), collate_fn=c)", "", id="a function"),
        pytest.param("DataLoader(d, collate_fn=lambda b: b)", "lambda b: b", id="a lambda"),
        pytest.param("c = lambda b: b\nDataLoader(d, collate_fn=c)", "lambda b: b", id="by name"),
        pytest.param(
            "DataLoader(d, worker_init_fn=lambda i: seed(i))",
            "lambda i: seed(i)",
            id="at the start",
        ),
        pytest.param(
            "t = transforms.Compose([transforms.Lambda(lambda x: x)])\n"
            "DataLoader(datasets.MNIST('x', transform=t))",
            "lambda x: x",
            id="in a transform",
        ),
        pytest.param(
            "files = sorted(names, key=lambda n: n)\nDataLoader(Own(files))", "", id="used up"
        ),
        pytest.param("DataLoader(Own(map(lambda n: n, x)))", "", id="of a builtin"),
        pytest.param(
            "def f():\n    def c(b): pass\n    DataLoader(d, collate_fn=c)", "c", id="a local one"
        ),
        pytest.param(
            "def f():\n    class D(Dataset): pass\n    DataLoader(D())",
            "class D",
            id="a local class",
        ),
        pytest.param(
            "class D(Dataset):\n    def __init__(self): self.f = lambda x: x\nDataLoader(D())",
            "lambda x: x",
            id="kept by the dataset",
        ),
    ],
)
def test_what_cannot_be_pickled(source: str, expected: str) -> None:
    program = parsed(source, HEAD)
    (loader,) = program.loaders.calls
    found = unpicklable(program, loader, program.datasets.of_loader(loader))
    assert ("" if found is None else found.text) == expected
