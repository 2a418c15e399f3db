"""Which part of a project is read for a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchlint.projects import Projects

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("main.py", "a/x.py", "a/b/y.py", "a/b/z.py", "c/d/u.py", "c/d/v.py", "c/d/w.py", "c/t.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("most", "file", "part"),
    [
        pytest.param(8, "a/b/y.py", "", id="all of a project that is small enough"),
        pytest.param(7, "a/b/y.py", "a", id="the largest folder that is"),
        pytest.param(7, "a/x.py", "a", id="of a file above others"),
        pytest.param(2, "a/b/y.py", "a/b", id="a folder of that"),
    ],
)
def test_how_much_of_a_large_project_is_read(root, monkeypatch, most, file, part) -> None:
    monkeypatch.setattr("torchlint.imports._MOST", most)
    projects = Projects(lambda _: False)
    found = projects.imports(root / file)
    assert found.root == root / part
    assert set(found.files) == {str(root / one) for one in FILES if one.startswith(part)}
    assert projects.root(root / file) == root  # tests and copies are told by the whole of it


@pytest.mark.parametrize("file", ["main.py", "c/t.py", "c/d/u.py"])
def test_a_file_right_in_too_large_a_folder_is_looked_at_by_itself(root, monkeypatch, file):
    monkeypatch.setattr("torchlint.imports._MOST", 2)
    assert not Projects(lambda _: False).imports(root / file).files


def test_parts_follow_one_another(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlint.imports._MOST", 4)
    projects = Projects(lambda _: False)
    parts = [projects.imports(root / file).root for file in ("a/x.py", "c/t.py", "a/b/y.py")]
    assert parts == [root / "a", root / "c", root / "a"]
    assert projects.imports(root / "a" / "x.py") is projects.imports(root / "a" / "b" / "z.py")
