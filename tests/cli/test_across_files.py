"""Facts that cross the files of a project, as the command line sees them."""

from __future__ import annotations

import json

import pytest

ENGINE = """\
def train_one_epoch(model, loader, optimizer, device):
    for x, y in loader:
        loss = step(model, x.to(device), y.to(device), optimizer)

def step(model, x, y, optimizer):
    loss = model(x, y)
    loss.backward()
    optimizer.step()
    return loss
"""
METRICS = """\
import torch

def accuracy(output, target):
    return (output.argmax(1) == target).sum().item()
"""
DATA = """\
from torch.utils.data import DataLoader

def get_loader(dataset):
    return DataLoader(dataset, batch_size=64, num_workers=4)
"""
MAIN = """\
import torch
from data import get_loader
from metrics import accuracy
from net import Net

def main(dataset):
    device = torch.device("cuda")
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters())
    loader = get_loader(dataset)
    for epoch in range(9):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            output = model(x)
            loss = torch.nn.functional.cross_entropy(output, y)
            loss.backward()
            optimizer.step()
            hits = accuracy(output, y)
"""
NET = """\
import torch
from base import Base

class Net(Base):
    def forward(self, x):
        return self.layer(x)
"""
BASE = """\
from torch import nn

class Base(nn.Module):
    pass
"""


@pytest.fixture
def trained(project):
    """A project whose loader, metric and model stand in files of their own."""
    for name, text in (
        ("main.py", MAIN), ("metrics.py", METRICS), ("data.py", DATA), ("net.py", NET),
        ("base.py", BASE),
    ):  # fmt: skip
        project.write(name, text)
    return project


def found(run, *arguments: str, stdin: bytes = b"") -> list[tuple[str, int, str]]:
    done = run("check", *arguments, "--output-format", "json", "--select", "TL102,TL202,TL204",
               "--exit-zero", stdin=stdin)  # fmt: skip
    assert done.err == ""
    items = json.loads(done.out)
    names = [(item["filename"].rpartition("/")[2], item["location"]["row"]) for item in items]
    return [(*name, item["code"]) for name, item in zip(names, items, strict=True)]


@pytest.mark.usefixtures("trained")
def test_a_helper_and_a_loader_are_judged_by_the_file_that_trains(run) -> None:
    assert found(run, ".") == [("data.py", 4, "TL102"), ("metrics.py", 4, "TL202")]


@pytest.mark.parametrize(
    "given", [["metrics.py"], ["metrics.py", "main.py"], ["main.py", "metrics.py"]]
)
@pytest.mark.usefixtures("trained")
def test_neither_order_nor_presence_of_callers_matters(run, given) -> None:
    assert found(run, *given) == [("metrics.py", 4, "TL202")]


@pytest.mark.usefixtures("trained")
def test_standard_input_sees_its_project(run) -> None:
    text = METRICS.replace("def", "# moved\ndef").encode()
    assert found(run, "-", "--stdin-filename", "metrics.py", stdin=text) == [
        ("metrics.py", 5, "TL202")
    ]


def test_without_callers_nothing_is_known(project, run) -> None:
    project.write("metrics.py", METRICS)
    project.write("data.py", DATA)
    assert found(run, ".") == []


def test_a_caller_in_a_subfolder_and_a_package(trained, run) -> None:
    (trained.root / "tools").mkdir()
    (trained.root / "main.py").rename(trained.root / "tools" / "main.py")
    assert found(run, "metrics.py") == [("metrics.py", 4, "TL202")]


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("from util.metrics import accuracy", "accuracy("),
        ("from util import accuracy", "accuracy("),
        ("from util import *", "accuracy("),
        ("import util.metrics", "util.metrics.accuracy("),
        ("from util import metrics as m", "m.accuracy("),
        ("import util", "util.accuracy("),
    ],
)
def test_every_way_to_import_a_helper(trained, run, line, call) -> None:
    (trained.root / "metrics.py").unlink()
    trained.write("util/__init__.py", "from .metrics import *\n")
    trained.write("util/metrics.py", METRICS)
    main = MAIN.replace("from metrics import accuracy", line).replace("accuracy(", call)
    trained.write("main.py", main)
    assert found(run, "util") == [("metrics.py", 4, "TL202")]


@pytest.mark.parametrize(
    ("utility", "there"),
    [
        pytest.param("def mean(x): pass\n", True, id="brings other names"),
        pytest.param("from more import *\n", True, id="brings what another brings"),
        pytest.param("def enumerate(x): pass\n", False, id="brings its own enumerate"),
        pytest.param("from own import *\n", False, id="brings that of another"),
    ],
)
def test_a_star_import_leaves_the_builtins_that_it_does_not_bring(trained, run, utility, there):
    """Research code star-imports its `utils`: what is enumerated there is a loader all the same."""
    trained.write("more.py", "import numpy\n")
    trained.write("own.py", "def enumerate(x): pass\n")
    trained.write("utils.py", utility)
    trained.write("data.py", DATA.replace("num_workers=4", "num_workers=4, pin_memory=True"))
    main = MAIN.replace("for x, y in loader:", "for _, (x, y) in enumerate(loader):")
    trained.write("main.py", f"from utils import *\n{main}")
    done = run("check", "main.py", "--select", "TL205")
    assert ("TL205" in done.out) is there


def test_a_module_of_the_same_name_elsewhere_is_another(trained, run) -> None:
    trained.write("other/metrics.py", METRICS)
    trained.write("other/use.py", "from metrics import accuracy\n")
    assert found(run, "other") == []


def test_a_guarded_call_is_guarded(trained, run) -> None:
    guarded = "if epoch % 10 == 0:\n                hits = accuracy(output, y)"
    trained.write("main.py", MAIN.replace("hits = accuracy(output, y)", guarded))
    assert found(run, "metrics.py") == []


def test_methods_of_imported_classes_are_followed(trained, run) -> None:
    trained.write(
        "metrics.py",
        "import torch\nclass Meter:\n    def update(self, x):\n        self.x = x.item()\n",
    )
    main = MAIN.replace("import accuracy", "import Meter").replace(
        "accuracy(output, y)", "meter.update(loss)"
    )
    trained.write("main.py", main.replace("    loader =", "    meter = Meter()\n    loader ="))
    assert found(run, "metrics.py") == [("metrics.py", 4, "TL202")]


def test_files_that_import_one_another_come_to_an_end(project, run) -> None:
    project.write(
        "a.py",
        "import torch\nfrom b import g\ndef f(x, d):\n    g(x).item()\nd = torch.device('cuda')\n",
    )
    project.write(
        "b.py",
        "import torch\nfrom a import f, d\ndef g(x):\n    x.backward()\n    return f(x, d)\n",
    )
    assert found(run, "a.py", "b.py") == found(run, "b.py", "a.py")


def test_a_broken_caller_is_no_caller(trained, run) -> None:
    trained.write("main.py", MAIN + "def (:\n")
    assert found(run, "metrics.py") == []


@pytest.mark.usefixtures("trained")
def test_a_fix_of_one_file_is_seen_by_the_next(run) -> None:
    done = run("check", ".", "--select", "TL102", "--fix", "--diff")
    assert "pin_memory=True" in done.out
    assert run("check", ".", "--select", "TL102", "--fix").code == 0
    assert found(run, ".") == [("metrics.py", 4, "TL202")]


def test_one_run_settles_what_one_fix_makes_of_another_file(trained, run) -> None:
    options = ("--select", "TL102,TL205", "--unsafe-fixes", "--isolated")
    first = run("check", ".", *options, "--fix")
    data, main = ((trained.root / name).read_text() for name in ("data.py", "main.py"))
    assert "pin_memory=True" in data
    assert "non_blocking=True" in main
    assert first.code == 0
    assert run("check", ".", *options, "--diff").out == ""


def test_a_file_that_was_checked_before_is_checked_again(trained, run) -> None:
    (trained.root / "data.py").rename(trained.root / "zdata.py")
    trained.write("main.py", MAIN.replace("from data", "from zdata"))
    options = ("--select", "TL102,TL205", "--unsafe-fixes", "--isolated")
    done = run("check", ".", *options, "--fix", "--show-fixes")
    assert "non_blocking=True" in (trained.root / "main.py").read_text()
    assert "main.py" in done.err + done.out
    assert run("check", ".", *options, "--diff").out == ""
