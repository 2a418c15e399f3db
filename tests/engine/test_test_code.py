"""Tests are no training: what only takes time is not reported in them."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from torchlint.linter import Options, check_source, with_deep_stack
from torchlint.projects import Projects
from torchlint.registry import all_rules
from torchlint.source import decode_source

EPOCH = """\
model.cuda().eval()
total = 0
with torch.no_grad():
    for x, y in loader:
        total += F.cross_entropy(model(x.cuda()), y.cuda()).item()
print(total)
"""
WRONG = """\
sampler = DistributedSampler(data)
loader = DataLoader(data, sampler=sampler)
for epoch in range(90):
    for x, y in loader:
        F.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
"""
HEAD = """\
import torch, torch.nn.functional as F
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from others import Base, data, loader, model, optimizer, unittest
"""


def found(folder, name: str, source: str) -> set[str]:
    """The codes of what is found in a file of a project."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").touch()
    path.write_text(HEAD + dedent(source))
    rules = tuple(rule for rule in all_rules() if rule.code in ("TL201", "TL804"))
    options = Options(rules, frozenset(), projects=Projects(lambda _: False))
    read = decode_source(path.read_bytes(), name, path)
    return {item.code for item in with_deep_stack(lambda: check_source(read, options))}


def function(name: str, params: str, body: str = EPOCH) -> str:
    return f"def {name}({params}):\n{indent(body, '    ')}"


CASE = f"""\
class Fits(unittest.TestCase):
{indent(function("run_it", "self, model, loader"), "    ")}
"""


@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("tests/helpers.py", function("run", "model, loader"), id="below tests"),
        pytest.param("tests/nn/helpers.py", function("run", "model, loader"), id="further below"),
        pytest.param(
            "pkg/test_net.py",
            "import pytest\n" + function("run", "model, loader"),
            id="a file of tests, by the library it uses",
        ),
        pytest.param(
            "pkg/net_test.py",
            function("run", "model, loader") + function("test_run", "net", "run(net, [])"),
            id="a file of tests, by the functions that it leaves to a runner",
        ),
        pytest.param("net.py", CASE, id="a class of tests"),
        pytest.param("net.py", function("test_net", "model, loader"), id="a function for a runner"),
        pytest.param(
            "net.py",
            "model, loader = torch.nn.Linear(3, 3), DataLoader([])\n"
            + function("test_net", "")
            + "test_net()",
            id="a function that takes nothing",
        ),
    ],
)
def test_what_a_test_costs_is_not_reported(tmp_path, name, source):
    assert found(tmp_path, name, source) == set()


@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("test.py", EPOCH, id="a script named for its test set"),
        pytest.param("test_net.py", function("test", "model, loader"), id="which calls test"),
        pytest.param(
            "test_net.py",
            function("test_epoch", "model, loader") + "test_epoch(model, loader)",
            id="a function that the script calls itself",
        ),
        pytest.param("latest/net.py", EPOCH, id="a folder whose name ends so"),
        pytest.param("net.py", "import unittest\n" + EPOCH, id="a library alone"),
        pytest.param(
            "net.py", CASE.replace("unittest.TestCase", "Base"), id="a class that is no test"
        ),
    ],
)
def test_what_an_evaluation_costs_is(tmp_path, name, source):
    assert found(tmp_path, name, source) == {"TL201"}


def test_what_is_wrong_is_reported_in_tests_too(tmp_path):
    assert found(tmp_path, "tests/test_net.py", WRONG) == {"TL804"}


def test_a_project_may_lie_in_a_folder_of_that_name(tmp_path):
    assert found(tmp_path / "tests" / "project", "src/net.py", EPOCH) == {"TL201"}
