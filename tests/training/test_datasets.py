"""What datasets cost, keep and give."""

from __future__ import annotations

import pytest
from revealing import evaluated

from torchlint.training.datasets import Datasets, datasets_of
from torchlint.training.effects import Effects
from torchlint.training.loaders import loaders

HEAD = """
import cv2, json, numpy as np, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
class Data({base}):
    def __init__(self, file):
        self.file = open(file) if file else None
        self.seen = {{}}
    def read(self, path):
        return cv2.imread(path)
    def __getitem__(self, index):
        {body}
{loader}
"""


def dataset(body: str = "pass", loader: str = "", base: str = "Dataset") -> Datasets:
    """Return what is known of the dataset of the first loader."""
    loader = loader or "DataLoader(Data(None))"
    evaluation = evaluated(HEAD.format(base=base, body=body, loader=loader))
    return datasets_of(Effects(evaluation), loaders(evaluation)[0])


@pytest.mark.parametrize(
    ("body", "code", "is_known"),
    [
        ("return np.load(index)", "np.load(index)", True),
        ("return self.read(index)", "cv2.imread(path)", True),
        ("return torch.as_tensor(self.seen[index])", "", True),
        ("return decode(index)", "", False),
        ("return json.load(open(index))", "json.load(open(index))", True),
    ],
)
def test_what_a_sample_costs(body: str, code: str, is_known: bool) -> None:
    assert dataset(body).cost == (code if code or is_known else None)


@pytest.mark.parametrize(
    ("loader", "is_known"),
    [("DataLoader(TensorDataset(x))", True), ("DataLoader(x)", False), ("DataLoader([1])", True)],
)
def test_what_costs_little(loader: str, is_known: bool) -> None:
    assert dataset(loader=loader).cost == ("" if is_known else None)


def test_what_stands_in_the_way_of_workers() -> None:
    assert dataset("return index.cuda()").gives_gpu_tensors
    assert dataset("return torch.zeros(2, device='cuda')").gives_gpu_tensors
    assert not dataset("return torch.zeros(2)").gives_gpu_tensors
    assert [dataset(base=base).is_iterable for base in ("Dataset", "IterableDataset")] == [
        False,
        True,
    ]
    assert dataset(loader="DataLoader(data)").is_iterable is None
