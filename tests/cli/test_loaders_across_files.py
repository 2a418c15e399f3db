"""Loaders whose dataset, whose loop and whose options stand in different files of a project."""

from __future__ import annotations

import json

import pytest

FILES = {
    "photos.py": """\
from base import Files
from reading import read

class Photos(Files):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        return read(self.paths[index])

def photos(paths):
    return Photos(paths), 1
""",
    "base.py": """\
from torch.utils.data import Dataset

class Files(Dataset):
    def __len__(self):
        return 9
""",
    "reading.py": """\
from PIL import Image

def read(path):
    return Image.open(path)
""",
    "data.py": """\
from torch.utils.data import DataLoader

def loader_of(dataset, workers=2):
    return DataLoader(dataset, batch_size=64)

def with_workers(dataset, workers=2):
    return DataLoader(dataset, batch_size=64, num_workers=workers)
""",
    "engine.py": """\
def train(model, batches, optimizer):
    for x in batches:
        model(x.cuda()).backward()
        optimizer.step()
""",
    "main.py": """\
from data import loader_of, with_workers
from engine import train
from photos import photos

def main(paths, model, optimizer):
    dataset, n = photos(paths)
    once = with_workers(dataset)
    loader = loader_of(dataset)
    for epoch in range(9):
        train(model, loader, optimizer)

if __name__ == "__main__":
    main()
""",
}


@pytest.fixture
def trained(project):
    for name, text in FILES.items():
        project.write(name, text)
    return project


def found(run, *arguments: str) -> list[tuple[str, int, str]]:
    done = run(
        "check", *arguments, "--output-format", "json", "--select", "TL101,TL103,TL105",
        "--exit-zero",
    )  # fmt: skip
    assert done.err == ""
    return [
        (item["filename"].rpartition("/")[2], item["location"]["row"], item["code"])
        for item in json.loads(done.out)
    ]


@pytest.mark.usefixtures("trained")
def test_what_a_sample_costs_is_found_in_the_file_of_its_class(run) -> None:
    assert found(run, ".") == [("data.py", 4, "TL101")]
    done = run("check", "data.py", "--select", "TL101", "--output-format", "concise")
    assert "(`Image.open(path)`) in the main process: training waits" in done.out


def test_workers_are_started_again_by_the_epochs_of_another_file(trained, run) -> None:
    text = FILES["main.py"].replace("= loader_of(", "= with_workers(")
    trained.write("main.py", text)
    assert found(run, ".") == [("data.py", 4, "TL101"), ("data.py", 7, "TL103")]


def test_training_that_an_import_starts(trained, run) -> None:
    trained.write("main.py", FILES["main.py"].partition("if __name__")[0] + "main()\n")
    done = run("check", "data.py", "--select", "TL101", "--fix", "--unsafe-fixes", "--exit-zero")
    assert (trained.root / "data.py").read_text() == FILES["data.py"]
    assert "__main__" in done.out


def test_fixed_where_it_is_made(trained, run) -> None:
    run("check", "data.py", "--select", "TL101", "--fix", "--unsafe-fixes")
    assert "num_workers=min(4, os.cpu_count() or 1))" in (trained.root / "data.py").read_text()


def test_a_dataset_that_one_caller_makes_of_tensors(trained, run) -> None:
    trained.write(
        "other.py",
        "import torch\nfrom data import loader_of\nfrom torch.utils.data import TensorDataset\n"
        "loader_of(TensorDataset(torch.zeros(9)))\n",
    )
    assert found(run, "data.py") == []
