"""TL105: options that exclude each other, and workers that go wrong."""

from __future__ import annotations

import pytest
from tools import check, silent

from torchlint.rule import Severity

CODE = "TL105"

HEAD = """\
import multiprocessing, pytest, torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset
from torch.utils.data import RandomSampler, get_worker_info
from torchvision import datasets, transforms

class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path
    def __iter__(self):
        with open(self.path) as file:
            for line in file:
                yield line

class Shared(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield from range(info.id, 9, info.num_workers)

"""


OPTION = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int, default=0)
args = parser.parse_args()
"""


def loaded(arguments: str, before: str = "", dataset: str = "dataset") -> str:
    """Return a script that makes a loader."""
    return f"{HEAD}{before}\nloader = DataLoader({dataset}, {arguments})\n"


def trained(arguments: str, before: str = "", after: str = "") -> str:
    """Return a script that goes through a loader in a function."""
    return (
        f"{HEAD}{before}\ndef train():\n    loader = DataLoader(dataset, {arguments})\n"
        f"    for x in loader:\n        model(x).backward()\n        optimizer.step()\n{after}"
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loaded("num_workers=2, persistent_workers=True"), id="workers"),
        pytest.param(loaded("num_workers=2, prefetch_factor=4"), id="workers that fetch ahead"),
        pytest.param(loaded("num_workers=n, persistent_workers=True"), id="perhaps workers"),
        pytest.param(loaded("persistent_workers=True, **options"), id="workers by a dictionary"),
        pytest.param(loaded("prefetch_factor=None"), id="the default"),
        pytest.param(loaded("worker_init_fn=seed"), id="a function for workers is accepted"),
        pytest.param(loaded("shuffle=True, sampler=sampler"), id="perhaps a sampler"),
        pytest.param(
            loaded(
                "shuffle=True, sampler=sampler",
                "sampler = None\nif distributed:\n    sampler = make(dataset)",
            ),
            id="none, or what may be a sampler",
        ),
        pytest.param(
            loaded("shuffle=sampler is None, sampler=sampler", "sampler = RandomSampler(d)"),
            id="shuffled where there is no sampler",
        ),
        pytest.param(loaded("shuffle=False", dataset="Lines('x')"), id="in the file's order"),
        pytest.param(
            loaded("shuffle=True", "dataset = Lines('x') if stream else [1]"),
            id="perhaps a stream",
        ),
        # TL105b
        pytest.param(loaded("collate_fn=lambda b: b"), id="a lambda without workers"),
        pytest.param(loaded("num_workers=n, collate_fn=lambda b: b"), id="and perhaps without"),
        pytest.param(
            loaded("num_workers=2, collate_fn=lambda b: b, multiprocessing_context='fork'"),
            id="forked",
        ),
        pytest.param(loaded("num_workers=2, collate_fn=collate"), id="a function of a module"),
        pytest.param(
            trained("num_workers=2", after='if __name__ == "__main__":\n    train()\n'),
            id="trains as the main module",
        ),
        # TL105c
        pytest.param(loaded("num_workers=2", dataset="Shared()"), id="workers share"),
        pytest.param(
            loaded("num_workers=2, worker_init_fn=share", dataset="Lines('x')"),
            id="they share when they start",
        ),
        pytest.param(
            loaded("persistent_workers=True").replace("torch.utils.data", "mine"),
            id="another DataLoader",
        ),
    ],
)
def test_left_alone(source: str) -> None:
    silent(source, CODE, "2.13")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ("persistent_workers=True", "`persistent_workers=True` needs num_workers above 0"),
        (
            "num_workers=0, persistent_workers=True",
            "`persistent_workers=True` needs num_workers above 0",
        ),
        ("prefetch_factor=2", "`prefetch_factor=2` needs num_workers above 0"),
        ("prefetch_factor=8", "`prefetch_factor=8` needs num_workers above 0"),
        ("shuffle=True, sampler=RandomSampler(dataset)", "`sampler` replaces `shuffle=True`"),
        (
            "64, batch_sampler=BatchSampler(s, 4, False)",
            "`batch_sampler` replaces batch_size, shuffle, sampler and drop_last",
        ),
        (
            "drop_last=True, batch_sampler=BatchSampler(s, 4, False)",
            "`batch_sampler` replaces batch_size, shuffle, sampler and drop_last",
        ),
        (
            "batch_size=None, drop_last=True",
            "`batch_size=None` makes no batches that `drop_last=True` could drop",
        ),
    ],
)
def test_options_that_raise(arguments: str, what: str) -> None:
    (found,) = check(loaded(arguments), CODE, "2.13")
    assert found.message == f"{what}: making this DataLoader raises ValueError"
    assert found.severity is Severity.ERROR
    assert found.code == "TL105"


@pytest.mark.parametrize("option", ["shuffle=True", "sampler=RandomSampler(s)"])
def test_a_stream_has_its_order(option: str) -> None:
    (found,) = check(loaded(option, dataset="Lines('x')"), CODE)
    assert found.severity is Severity.ERROR
    assert "the dataset is an IterableDataset, whose order" in found.message


def test_the_default_of_prefetch_factor() -> None:
    source = loaded("prefetch_factor=2")
    silent(source, CODE, "1.13")
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert "from torch 2.0 on" in found.message
    (found,) = check(loaded("prefetch_factor=4"), CODE, "1.13")
    assert found.severity is Severity.ERROR


def test_no_workers_by_default() -> None:
    (found,) = check(loaded("num_workers=args.n, persistent_workers=True", OPTION), CODE)
    assert found.severity is Severity.INFO


# -- TL105b -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "before", "local"),
    [
        ("num_workers=2, collate_fn=lambda b: b", "", "lambda b: b"),
        ("num_workers=2, worker_init_fn=lambda i: seed(i)", "", "lambda i: seed(i)"),
        ("num_workers=2, collate_fn=c", "c = lambda b: b", "lambda b: b"),
    ],
)
def test_what_cannot_be_sent(arguments: str, before: str, local: str) -> None:
    (found,) = check(loaded(arguments, before), CODE)
    assert found.code == "TL105b"
    assert found.message.startswith(f"`{local}` cannot be sent to the workers of a DataLoader")
    assert found.severity is Severity.INFO
    rows = loaded(arguments, before).splitlines()
    assert local in rows[found.location.row - 1][found.location.column - 1 :]


def test_what_cannot_be_sent_is_told_of_once() -> None:
    source = loaded("num_workers=2, collate_fn=c", "c = lambda b: b")
    other = source + source[source.index("loader =") :]
    assert len(check(other, CODE)) == 1


FILES = """\
class Files(torch.utils.data.Dataset):
    def __init__(self, root, path_of):
        super().__init__()
        self.files = {}
    def _list(self, root, path_of):
        return [path_of(one) for one in root]
    def __len__(self):
        return len(self.files)
    def __getitem__(self, i):
        return self.files[i]
"""


@pytest.mark.parametrize(
    ("files", "count"),
    [
        pytest.param("self._list(root, path_of)", 0, id="called by a method"),
    ],
)
def test_a_function_that_a_dataset_only_calls_as_it_is_made(files: str, count: int) -> None:
    made = "Files(range(9), lambda one: root / one)"
    source = loaded("num_workers=2", FILES.format(files), dataset=made)
    assert len(check(source, CODE)) == count


def test_a_lambda_in_a_transform() -> None:
    data = "datasets.MNIST('x', transform=transforms.Lambda(lambda x: -x))"
    (found,) = check(loaded("num_workers=2", dataset=data), CODE)
    assert found.message.startswith("`lambda x: -x` cannot be sent")


def test_it_is_an_error_where_workers_are_not_forked() -> None:
    arguments = "num_workers=2, collate_fn=lambda b: b, multiprocessing_context='spawn'"
    (found,) = check(loaded(arguments), CODE)
    assert found.severity is Severity.ERROR


# -- TL105c -----------------------------------------------------------------------------------


def test_workers_that_repeat_a_stream() -> None:
    (found,) = check(loaded("num_workers=2", dataset="Lines('x')"), CODE)
    assert found.code == "TL105c"
    assert found.severity is Severity.ERROR
    assert found.message == (
        "every worker of this DataLoader gives every sample: the dataset's `__iter__` does "
        "not ask for the worker's share"
    )
    assert "get_worker_info" in found.help


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("yield from range(0, 9, 2)", id="every n-th"),
        pytest.param("for i in range(9):\n            if i % 2 == 0:\n                yield i",
                     id="by a remainder"),
        pytest.param("while True:\n            yield from open('x')", id="without an end"),
        pytest.param("for i in range(9):\n            yield random.random()", id="at random"),
        pytest.param("yield from streams.open(self.path)", id="of another library"),
        pytest.param("yield from self.path", id="of what is not seen"),
    ],
)  # fmt: skip
def test_a_stream_that_may_be_another_in_each_worker(body: str) -> None:
    stream = (
        f"import random, streams\nclass Stream(Lines):\n    def __iter__(self):\n        {body}"
    )
    silent(loaded("num_workers=2", stream, "Stream(data)"), CODE)
