from __future__ import annotations

import os
import stat

import pytest

from torchlint import writing
from torchlint.errors import UnreadableFileError
from torchlint.source import decode_source, read_source
from torchlint.writing import write_atomically


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"old\n")
    return path


def only(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_written_with_its_mode(file, tmp_path):
    file.chmod(0o751)
    write_atomically(read_source(file, "a.py"), b"new\n")
    assert file.read_bytes() == b"new\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert only(tmp_path) == ["a.py"]


def test_a_link_stays_a_link(file, tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "b.py"
    link.symlink_to("../a.py")
    write_atomically(read_source(link, "b.py"), b"new\n")
    assert link.is_symlink()
    assert file.read_bytes() == b"new\n"
    assert (only(tmp_path), only(folder)) == (["a.py", "links"], ["b.py"])


def test_a_file_that_changed_is_left_alone(file, tmp_path):
    source = read_source(file, "shown.py")
    file.write_bytes(b"newer\n")
    with pytest.raises(
        UnreadableFileError, match=r"^shown\.py: changed while .*; .*run torchlint again"
    ):
        write_atomically(source, b"new\n")
    assert file.read_bytes() == b"newer\n"
    assert only(tmp_path) == ["a.py"]


def test_a_file_that_changes_at_the_last_moment_is_left_alone(file, tmp_path, monkeypatch):
    source = read_source(file, "a.py")

    def fsync(_):
        file.write_bytes(b"newer\n")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UnreadableFileError, match="changed while"):
        write_atomically(source, b"new\n")
    assert file.read_bytes() == b"newer\n"
    assert only(tmp_path) == ["a.py"]


def test_a_file_that_is_gone_is_not_made_again(file, tmp_path):
    source = read_source(file, "a.py")
    file.unlink()
    with pytest.raises(UnreadableFileError, match=r"could not be written \(no such file"):
        write_atomically(source, b"new\n")
    assert only(tmp_path) == []


def test_a_read_only_file_is_left_alone(file, tmp_path):
    file.chmod(0o444)
    with pytest.raises(
        UnreadableFileError,
        match=r"^a\.py: could not be written \(permission denied\); nothing was changed",
    ):
        write_atomically(read_source(file, "a.py"), b"new\n")
    assert file.read_bytes() == b"old\n"
    assert only(tmp_path) == ["a.py"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            PermissionError(13, "no"), r"could not be written \(no\)", id="read-only folder"
        ),
        pytest.param(OSError(28, "No space left"), r"\(no space left\); nothing", id="full disk"),
        pytest.param(OSError("odd"), r"could not be written \(odd\)", id="other"),
    ],
)
@pytest.mark.parametrize("step", ["tempfile.mkstemp", "os.fsync", "os.chmod", "os.replace"])
def test_no_failure_leaves_anything_behind(*, file, tmp_path, monkeypatch, error, said, step):
    def fails(*_, **__):
        raise error

    source = read_source(file, "a.py")
    monkeypatch.setattr(f"torchlint.writing.{step}", fails)
    with pytest.raises(UnreadableFileError, match=said):
        write_atomically(source, b"new\n")
    assert file.read_bytes() == b"old\n"
    assert only(tmp_path) == ["a.py"]


def test_an_interrupt_leaves_nothing_behind(file, tmp_path, monkeypatch):
    def fails(*_):
        raise KeyboardInterrupt

    source = read_source(file, "a.py")
    monkeypatch.setattr(writing.os, "replace", fails)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(source, b"new\n")
    assert only(tmp_path) == ["a.py"]


def test_standard_input_cannot_be_written():
    with pytest.raises(ValueError, match="standard input"):
        write_atomically(decode_source(b"x\n", "-"), b"y\n")
