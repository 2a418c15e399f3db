"""The script that fixes copies of real files, over the bundled ones, and what it would catch."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from torchlint import linter
from torchlint.linter import Fixed
from torchlint.source import decode_source
from torchlint.syntax.text import Edit, apply

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(ROOT.glob("fixtures/**/*.py"))

# its lines are counted where the tests of each rule run them
pytestmark = pytest.mark.uncounted


@pytest.fixture(scope="module")
def script():
    path = ROOT / "benchmarks" / "fix_real_files.py"
    spec = importlib.util.spec_from_file_location("fix_real_files", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_bundled_files_are_fixed_without_harm(script, path):
    result = script.examine(path.read_bytes(), str(path))
    assert result.violations == []
    assert (result.before != result.after) is bool(result.applied)
    if path.name == "before.py":
        assert result.found


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("import torch  # keep\n", "import torch\n", "the comment `# keep` is lost"),
        ("import torch\n", "import torch(\n", "does not compile after"),
        ("import torch\r\nx = 1\r\n", "import torch\r\nx = 2\n", "kind of newline"),
    ],
    ids=["comment", "syntax", "newline"],
)
def test_harm_to_a_changed_file_is_seen(script, before, after, said):
    source = decode_source(before.encode(), "x.py")
    found = list(script.check_changed(source, Fixed(after, (), (), (), ())))
    assert any(said in text for text in found)


def test_a_change_without_an_edit_is_seen(script):
    edits = (Edit(4, 5, "2"),)
    assert script.outside_changed("a = 1\n", apply("a = 1\n", edits), edits) is None
    assert "changed" in script.outside_changed("a = 1\n", "b = 2\n", edits)
    assert "behind" in script.outside_changed("a = 1\n", "a = 2\n\n", edits)
    assert "not in the new text" in script.outside_changed("a = 1\n", "a = 3\n", edits)


def test_an_edit_that_no_fix_reports_is_seen(script):
    step = script.Step("a = 1\n", (Edit(4, 5, "2"),), "a = 2\n")
    fixed = Fixed("a = 2\n", (), (), (), ())
    assert list(script.check_passes("a = 1\n", fixed, [step]))
    assert list(script.check_passes("a = 1\n", fixed, []))
    assert not list(script.check_passes("a = 2\n", fixed, []))


@pytest.mark.parametrize(
    ("code", "binds"),
    [
        ("nn.Conv2d(3, 64, 3, bias=False)", True),
        ("nn.Conv2d(3, 64, 3, 1, 1, 1, 1, True, bias=False)", False),
        ("nn.Conv2d(3, 64, kernel=3)", False),
        ("torch.as_tensor(x, dtype=None)", True),
        ("torch.from_numpy(x, dtype=None)", False),
        ("optimizer.zero_grad(set_to_none=True)", True),
        ("optimizer.zero_grad(drop=True)", False),
        ("DataLoader(data, **options, pin_memory=True)", True),
        ("DataLoader(data, pinned=True)", False),
    ],
)
def test_calls_that_do_not_bind_are_seen(script, code, binds):
    head = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
    [(call, function)] = script.rewritten_calls(head, f"{head}{code}\n")
    assert function is not None
    assert (script.unbound(call, function) is None) is binds


def test_an_exception_is_a_violation_that_names_itself(script, monkeypatch):
    def fail(*_):
        raise KeyError("lost")

    monkeypatch.setattr(linter, "check_source", fail)
    [text] = script.examine(b"import torch\n", "x.py").violations
    assert "KeyError" in text


def test_an_unreadable_file_is_no_violation(script):
    result = script.examine(b"x = '\xff'\n", "x.py")
    assert (result.kind, result.violations) == ("unreadable", [])


def test_a_log_shows_how_far_it_is(script, monkeypatch, capsys):
    monkeypatch.setattr(script, "CHUNK", 1)
    monkeypatch.setattr(
        script, "examine_chunk", lambda names: [script.Result(name) for name in names]
    )
    script.examine_all(["a.py", "b.py"], 1, None)
    assert capsys.readouterr().err == "1 of 2 files\n2 of 2 files\n"
