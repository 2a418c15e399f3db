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


def found(folder, name: str, source: str, *, tests: bool = False) -> set[str]:
    """The codes of what is found in a file of a project."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").touch()
    path.write_text(HEAD + dedent(source))
    rules = tuple(rule for rule in all_rules() if rule.code in ("TL201", "TL804"))
    options = Options(rules, frozenset(), tests=tests, projects=Projects(lambda _: False))
    read = decode_source(path.read_bytes(), name, path)
    return {item.code for item in with_deep_stack(lambda: check_source(read, options))}


def function(name: str, params: str, body: str = EPOCH) -> str:
    return f"def {name}({params}):\n{indent(body, '    ')}"


CASE = f"""\
class TestFits:
{indent(function("run_it", "self, model, loader"), "    ")}
"""


MADE = "model, loader = torch.nn.Linear(3, 3), DataLoader([])\n"
TEST = function("test_net", "model, loader")


@pytest.mark.parametrize(
    ("name", "source", "codes"),
    [
        pytest.param("test_net.py", TEST, set(), id="a function that pytest runs"),
        pytest.param("tests/net_test.py", TEST, set(), id="the other name of a file"),
        pytest.param("test_net.py", CASE, set(), id="a class that pytest runs"),
        pytest.param("conftest.py", function("net", "model, loader"), set(), id="conftest"),
        pytest.param("tests/net.py", TEST, {"TL201"}, id="a file that pytest does not look into"),
        pytest.param("test.py", MADE + EPOCH, {"TL201"}, id="a script named for its test set"),
        pytest.param(
            "test_net.py", function("test", "model, loader"), {"TL201"}, id="nothing pytest runs"
        ),
        pytest.param("tests/test_net.py", WRONG + TEST, {"TL804"}, id="what is wrong is said"),
    ],
)
def test_what_takes_time_is_not_reported_in_tests(tmp_path, name, source, codes):
    assert found(tmp_path, name, source) == codes


def test_a_setting_has_tests_checked_as_well(tmp_path):
    assert found(tmp_path, "test_net.py", TEST, tests=True) == {"TL201"}
