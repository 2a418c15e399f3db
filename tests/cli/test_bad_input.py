"""What is wrong with a file is said by name, with the remedy; the other files are still checked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from torchlint import linter

TRAIN = """\
import torch

model = torch.nn.Linear(512, 512).to("cuda" if torch.cuda.is_available() else "cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in [torch.randn(8, 4) for _ in range(3)]:
    optimizer.zero_grad(set_to_none=False)
    model(batch.to("cuda")).square().mean().backward()
    optimizer.step()
"""
FINDING = "good.py:6:"
KNOWN = ("--torch-version", "2.0")  # then the finding of the good file is a warning with a fix


@pytest.fixture
def check(project, run):
    """Check a bad file beside a good one that has a finding."""
    project.write("good.py", TRAIN)

    def call(*arguments: str):
        return run("check", "--output-format", "concise", *KNOWN, *arguments)

    return call


UNREADABLE = [
    pytest.param("missing.py", None, "no such file or folder; check", id="missing path"),
    pytest.param("latin.py", b"import torch\ns = '\xe9'\n", "UTF-8", id="bad encoding"),
    pytest.param("cookie.py", b"# -*- coding: utf-99 -*-\nimport torch\n", "utf-99", id="cookie"),
    pytest.param("null.py", b"import torch\nx = 1\0\n", "null", id="null bytes"),
    pytest.param(
        "deep.py", TRAIN.encode() + b"x = " + b"(" * 1000 + b")" * 1000 + b"\n", "deep", id="depth"
    ),
]


@pytest.mark.parametrize(("name", "content", "remedy"), UNREADABLE)
def test_what_cannot_be_read_exits_with_2(project, check, name, content, remedy) -> None:
    if content is not None:
        project.write(name, content)
    for arguments in ([], ["--fix"], ["--diff"]):
        project.write("good.py", TRAIN)
        result = check(name, "good.py", "--unsafe-fixes", *arguments)
        assert result.code == 2
        (line,) = result.err.replace("Would fix 1 finding.\n", "").splitlines()
        assert line.startswith(f"error: {name}: ")
        assert remedy.lower() in line.lower()
        assert ";" in line
        fixed = "set_to_none" not in (project.root / "good.py").read_text()
        assert FINDING in result.out or fixed or "+++ good.py" in result.out
        if content is not None:
            assert (project.root / name).read_bytes() == content


NOT_PYTHON = [
    pytest.param("def train(:\n", id="syntax error"),
    pytest.param("print 'loss', loss\n", id="Python 2 print"),
    pytest.param("raise ValueError, 'loss'\n", id="Python 2 raise"),
    pytest.param("if x:\n\ty\n  z\n", id="mixed tabs"),
    pytest.param("s = '''open\n", id="open string"),
    pytest.param("<<<<<<< HEAD\nx = 1\n=======\n", id="merge conflict"),
]


@pytest.mark.parametrize("content", NOT_PYTHON)
def test_what_is_not_python_is_a_finding(project, check, content) -> None:
    file = project.write("bad.py", TRAIN + content)
    for arguments in ([], ["--fix"]):
        result = check(*arguments)
        assert result.code == 1
        assert result.err == ""
        assert "bad.py:" in result.out
        assert ": TL001 " in result.out
        assert FINDING in result.out
        assert file.read_text() == TRAIN + content


def test_a_syntax_error_in_full(project, run) -> None:
    project.write("bad.py", TRAIN + "def train(:\n    pass\n")
    out = run("check").out
    assert out.startswith("error TL001 ")
    assert " --> bad.py:9:" in out
    assert " 9 | def train(:\n" in out


def test_a_folder_without_python(project, check) -> None:
    project.write("empty/readme.md")
    result = check("empty", "good.py")
    assert result.code == 2
    assert "error: empty: no Python files in this folder; name a folder" in result.err
    assert FINDING in result.out


def test_a_folder_named_like_a_file(project, check) -> None:
    project.write("x.py/inner.py", TRAIN)
    result = check("x.py", "good.py")
    assert result.code == 1
    assert "x.py/inner.py:6:" in result.out
    (project.root / "y.py").mkdir()
    result = check("y.py", "good.py")
    assert result.code == 2
    assert "error: y.py: no Python files" in result.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(project, check) -> None:
    file = project.write("closed.py", TRAIN)
    file.chmod(0)
    result = check()
    file.chmod(0o600)
    assert result.code == 2
    assert "error: closed.py: " in result.err
    assert FINDING in result.out


def test_a_file_that_the_system_refuses(project, check, monkeypatch) -> None:
    project.write("closed.py", TRAIN)
    read = Path.read_bytes

    def refuse(self: Path) -> bytes:
        if self.name == "closed.py":
            raise PermissionError(13, "Permission denied", str(self))
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    result = check()
    assert result.code == 2
    assert "closed.py: " in result.err
    assert "ermission" in result.err
    assert FINDING in result.out


def test_a_link_to_itself(project, check) -> None:
    (project.root / "loop.py").symlink_to("loop.py")
    (project.root / "folder").symlink_to(".", target_is_directory=True)
    for arguments in ([], ["loop.py", "good.py"]):
        result = check(*arguments)
        assert result.code == 2
        assert "error: loop.py: " in result.err
        assert len(result.err.splitlines()) == 1
        assert FINDING in result.out


def test_twenty_thousand_lines(project, check) -> None:
    project.write("long.py", TRAIN + "x = 1  # a line like any other\n" * 20_000)
    result = check("--select", "TL602")
    assert result.code == 1
    assert "long.py:6:" in result.out
    assert FINDING in result.out


def test_a_line_of_a_megabyte(project, check) -> None:
    file = project.write("wide.py", TRAIN + "data = '" + "x" * 1_000_000 + "'\n")
    result = check("--output-format", "full", "--select", "TL602")
    assert result.code == 1
    assert len(result.out) < 10_000
    check("--fix", "--unsafe-fixes", "--select", "TL602")
    text = file.read_text()
    assert "set_to_none" not in text
    assert text.endswith("data = '" + "x" * 1_000_000 + "'\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('select = ["TL2O1"]', "unknown rule selector `TL2O1` in `select`", id="code"),
        pytest.param("slect = []", "unknown key `slect`; did you mean `select`?", id="key"),
    ],
)
def test_a_configuration_at_fault(project, check, text, message) -> None:
    file = project.write("torchlint.toml", text)
    result = check()
    assert result.code == 2
    assert f"error: {file}: {message}" in result.err
    assert result.out == ""


def test_a_file_changed_while_it_is_fixed(project, check, monkeypatch) -> None:
    file = project.write("other.py", TRAIN)
    fix = linter.fix_sources

    def change(files, *arguments):
        done = fix(files, *arguments)
        if any(source.filename == "other.py" for source, _ in files):
            file.write_text("mine\n")
        return done

    monkeypatch.setattr(linter, "fix_sources", change)
    result = check("--fix", "--unsafe-fixes")
    assert result.code == 2
    assert "other.py: " in result.err
    assert "chang" in result.err
    assert file.read_text() == "mine\n"
    assert "set_to_none" not in (project.root / "good.py").read_text()
    assert sorted(p.name for p in project.root.glob("*.*")) == [".git", "good.py", "other.py"]


def test_a_read_only_file(project, check, monkeypatch) -> None:
    file = project.write("other.py", TRAIN)
    file.chmod(0o444)
    if os.geteuid() == 0:  # root may write everything
        monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "other.py")
    result = check("--fix", "--unsafe-fixes")
    assert result.code == 2
    assert "other.py: " in result.err
    assert "writ" in result.err
    assert file.read_text() == TRAIN
    assert stat.S_IMODE(file.stat().st_mode) == 0o444
    assert "other.py:6:" in result.out
    assert "set_to_none" not in (project.root / "good.py").read_text()


def test_fixing_keeps_mode_mark_and_newlines(project, check) -> None:
    windows = b"\xef\xbb\xbf" + TRAIN.replace("\n", "\r\n").encode() + b"# \xc3\xa9 \x0c no end"
    file = project.write("windows.py", windows)
    file.chmod(0o755)
    check("--fix", "--unsafe-fixes", "--select", "TL602")
    assert stat.S_IMODE(file.stat().st_mode) == 0o755
    before, after = windows.split(b"set_to_none=False")
    assert file.read_bytes() == before + after
