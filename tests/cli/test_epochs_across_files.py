"""Epochs, samplers and loaders that stand in several files of a project."""

from __future__ import annotations

import json

import pytest

DATA = """\
from torch.utils.data import DataLoader, DistributedSampler

def get_loader(dataset):
    sampler = DistributedSampler(dataset)
    return DataLoader(dataset, batch_size=64, sampler=sampler)
"""
ENGINE = """\
def train_one_epoch(model, loader, optimizer, epoch):
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
"""
MAIN = """\
from data import get_loader
from engine import train_one_epoch

def main(model, dataset, optimizer):
    loader = get_loader(dataset)
    for epoch in range(9):
        train_one_epoch(model, loader, optimizer, epoch)
"""
TOLD = MAIN.replace("        train", "        loader.sampler.set_epoch(epoch)\n        train")
TELLS = ENGINE.replace("    for", "    loader.sampler.set_epoch(epoch)\n    for")
UNKNOWN = MAIN.replace("        train", "        begin(loader, epoch)\n        train")
ELSEWHERE = "from library import begin\n" + UNKNOWN
STEPS = """\
import torch
from data import get_loader

def main(model, dataset, optimizer):
    loader = get_loader(dataset)
    for step in range(9):
        x, y = next(iter(loader))
        model(x, y).backward()
        optimizer.step()
"""
STEP = """\
import torch

def step(model, loader, optimizer):
    x, y = next(iter(loader))
    model(x, y).backward()
    optimizer.step()
"""
CALLS_STEP = """\
from data import get_loader
from step import step

def main(model, dataset, optimizer):
    loader = get_loader(dataset)
    for i in range(9):
        step(model, loader, optimizer)
"""


def found(run, *arguments: str) -> list[tuple[str, int, str]]:
    done = run("check", *arguments, "--output-format", "json", "--select", "TL106,TL804",
               "--exit-zero")  # fmt: skip
    assert done.err == ""
    return [
        (item["filename"].rpartition("/")[2], item["location"]["row"], item["code"])
        for item in json.loads(done.out)
    ]


@pytest.mark.parametrize(
    ("main", "engine", "expected"),
    [
        pytest.param(MAIN, ENGINE, [("data.py", 4, "TL804")], id="nobody tells the epoch"),
        pytest.param(TOLD, ENGINE, [], id="the file with the epochs tells it"),
        pytest.param(MAIN, TELLS, [], id="the function of an epoch tells it"),
        pytest.param(ELSEWHERE, ENGINE, [], id="a library may tell it"),
    ],
)
def test_samplers(project, run, main, engine, expected) -> None:
    for name, text in (("data.py", DATA), ("engine.py", engine), ("main.py", main)):
        project.write(name, text)
    assert found(run, ".") == expected


def test_a_loader_of_another_file(project, run) -> None:
    project.write("data.py", DATA)
    project.write("main.py", STEPS)
    assert found(run, ".") == [("main.py", 7, "TL106")]


def test_steps_in_another_file(project, run) -> None:
    project.write("data.py", DATA)
    project.write("step.py", STEP)
    project.write("main.py", CALLS_STEP)
    assert found(run, ".") == [("step.py", 4, "TL106")]


def test_a_name_that_two_modules_give_is_followed_to_both(project, run) -> None:
    project.write("data/__init__.py", "try:\n    from .a import get_loader\nexcept ImportError:\n"
                  "    from .b import get_loader\n")  # fmt: skip
    project.write("data/a.py", DATA)
    project.write("data/b.py", DATA)
    project.write("main.py", STEPS)
    assert found(run, ".") == [("main.py", 7, "TL106")]
