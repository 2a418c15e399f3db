"""Datasets that stand in other files than their loaders."""

from __future__ import annotations

import json

import pytest

TENSORS = """\
from torch.utils.data import TensorDataset

def points(x):
    return TensorDataset(x, x + 1)
"""
TRAIN = """\
from torch.utils.data import DataLoader
from points import points

def train(x, step):
    data = points(x)
    for x, y in DataLoader(data, 64):
        step(x, y).backward()
"""
DRAWN = (
    "DataLoader(data, batch_size=None, sampler=BatchSampler(SequentialSampler(data), 64, False))"
)


def found(run, code: str) -> list[tuple[str, int, str]]:
    done = run("check", ".", "--output-format", "json", "--select", code, "--exit-zero")
    assert done.err == ""
    return [
        (item["filename"].rpartition("/")[2], item["location"]["row"], item["severity"])
        for item in json.loads(done.out)
    ]


@pytest.fixture
def tensors(project):
    """A loader of tensors that another file puts together."""
    project.write("points.py", TENSORS)
    project.write("train.py", TRAIN)
    return project


@pytest.mark.usefixtures("tensors")
def test_tensors_of_another_file_are_found(run) -> None:
    assert found(run, "TL104") == [("train.py", 6, "warning")]


def test_their_layout_is_left_alone(tensors, run) -> None:
    run("check", "train.py", "--select", "TL104", "--fix", "--exit-zero")
    assert (tensors.root / "train.py").read_text() == TRAIN
    run("check", "train.py", "--select", "TL104", "--fix", "--unsafe-fixes", "--exit-zero")
    assert DRAWN in (tensors.root / "train.py").read_text()
    assert (tensors.root / "points.py").read_text() == TENSORS


MOVES = """\
import torch
from torch.utils.data import Dataset

class Points(Dataset):
    def __getitem__(self, index):
        return torch.ones(3).cuda()

def collate(batch):
    return torch.stack(batch).cuda()
"""
LOADS = """\
from torch.utils.data import DataLoader
from points import Points, collate

def train(data):
    return DataLoader(Points(), 8), DataLoader(data, 8, collate_fn=collate, num_workers=2)
"""


def test_what_loaders_of_another_file_run(project, run) -> None:
    project.write("points.py", MOVES)
    assert found(run, "TL108") == []
    project.write("train.py", LOADS)
    assert found(run, "TL108") == [("points.py", 6, "warning"), ("points.py", 9, "warning")]
