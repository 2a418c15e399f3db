"""Which files are found below the given paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchlint.config import Configuration, Layer
from torchlint.discovery import discover, is_left_out, shown


def find(project, *given: str, **values):
    overrides = Layer("command line", project.root, values)
    configuration = Configuration(project.root, overrides, None, isolated=False)
    found = discover([Path(each) for each in given], configuration.of, project.root)
    return [shown(file, project.root) for file in found.files], found


def test_folders_give_python_files_in_order(project) -> None:
    for name in ("b.py", "a/z.py", "a/c.txt", "a/stub.pyi", "a.py", "d.ipynb"):
        project.write(name)
    assert find(project, ".")[0] == ["a/z.py", "a.py", "b.py"]


def test_named_files_are_taken_whatever_their_suffix(project) -> None:
    project.write("train")
    assert find(project, "train")[0] == ["train"]


@pytest.mark.parametrize("twice", [("a.py", "a.py"), ("a.py", "."), (".", "./sub/../a.py")])
def test_a_file_given_twice_is_found_once(project, twice) -> None:
    project.write("a.py")
    assert find(project, *twice)[0] == ["a.py"]


def test_a_link_and_its_file_are_one(project) -> None:
    project.write("real.py")
    (project.root / "alias.py").symlink_to("real.py")
    assert find(project, ".")[0] == ["real.py"]
    assert find(project, "alias.py")[0] == ["alias.py"]


def test_default_exclusions(project) -> None:
    project.write("a.py")
    for folder in (".git", ".venv", "venv", "build", "dist", "node_modules", "__pycache__"):
        project.write(f"{folder}/hidden.py")
    project.write("lib/site-packages/hidden.py")
    assert find(project, ".")[0] == ["a.py"]
    project.write("lib/._a.py")
    assert find(project, ".")[0] == ["a.py"]
    assert find(project, "build")[0] == ["build/hidden.py"]
    assert find(project, "lib/._a.py")[0] == ["lib/._a.py"]


def test_exclude_replaces_and_extend_exclude_adds(project) -> None:
    for name in ("a.py", "build/b.py", "gen/c.py"):
        project.write(name)
    assert find(project, ".", exclude=["gen"])[0] == ["a.py", "build/b.py"]
    assert find(project, ".", **{"extend-exclude": ["gen"]})[0] == ["a.py"]


def test_a_nested_configuration_excludes_below_itself(project) -> None:
    for name in ("skip/a.py", "sub/skip/b.py", "sub/c.py"):
        project.write(name)
    project.write("sub/torchlint.toml", 'exclude = ["skip"]')
    assert find(project, ".")[0] == ["skip/a.py", "sub/c.py"]


def test_named_files_are_excluded_only_by_force(project) -> None:
    project.write("gen/a.py")
    assert find(project, "gen/a.py", exclude=["gen"])[0] == ["gen/a.py"]
    names, found = find(project, "gen/a.py", exclude=["gen"], **{"force-exclude": True})
    assert names == []
    assert found.excluded == (Path("gen/a.py"),)
    assert not found.problems


def test_gitignore_nested_and_negated(project) -> None:
    project.write(".gitignore", "# generated\n*.gen.py\nout/\n\n/top.py\n")
    project.write("sub/.gitignore", "!keep.gen.py\nlocal.py\n")
    for name in ("a.gen.py", "out/b.py", "top.py", "sub/top.py", "sub/keep.gen.py", "sub/local.py"):
        project.write(name)
    assert find(project, ".")[0] == ["sub/keep.gen.py", "sub/top.py"]
    assert find(project, "sub")[0] == ["sub/keep.gen.py", "sub/top.py"]
    everything = find(project, ".", **{"respect-gitignore": False})[0]
    assert len(everything) == 6


def test_git_info_exclude_counts(project) -> None:
    project.write(".git/info/exclude", "private.py\n")
    project.write("private.py")
    project.write("a.py")
    assert find(project, ".")[0] == ["a.py"]


def test_a_repository_inside_is_its_own(project) -> None:
    project.write(".gitignore", "a.py\n")
    project.write("sub/.git/HEAD")
    project.write("sub/a.py")
    assert find(project, "sub")[0] == ["sub/a.py"]


def test_gitignore_without_a_repository(project) -> None:
    (project.root / ".git").rmdir()
    project.write(".gitignore", "a.py\n")
    project.write("sub/a.py")
    project.write("sub/b.py")
    assert find(project, ".")[0] == ["sub/b.py"]
    outside = project.root.parent / "elsewhere"
    outside.mkdir()
    (outside / "a.py").touch()
    assert find(project, str(outside))[0] == [str(outside / "a.py")]


def test_ignored_files_named_by_force(project) -> None:
    project.write(".gitignore", "out/\n")
    project.write("out/a.py")
    assert find(project, "out/a.py")[0] == ["out/a.py"]
    assert find(project, "out/a.py", **{"force-exclude": True})[0] == []


def test_missing_paths_stop_nothing(project) -> None:
    project.write("a.py")
    names, found = find(project, "nothing.py", "a.py")
    assert names == ["a.py"]
    assert found.problems[0].startswith("nothing.py: no such file or folder; check")


def test_a_folder_without_python_is_a_problem(project) -> None:
    project.write("docs/readme.md")
    project.write("x.py/readme.md")
    for folder in ("docs", "x.py"):
        names, found = find(project, folder)
        assert names == []
        assert found.problems[0].startswith(f"{folder}: no Python files in this folder")


def test_a_folder_named_like_a_file_is_searched(project) -> None:
    project.write("x.py/a.py")
    assert find(project, ".")[0] == ["x.py/a.py"]


def test_a_folder_whose_files_are_all_excluded_is_no_problem(project) -> None:
    project.write("gen/a.py")
    _, found = find(project, "gen", exclude=["*.py"])
    assert found.excluded == (Path("gen"),)
    assert not found.problems


def test_only_default_exclusions_leave_a_folder_empty(project) -> None:
    project.write("src/.venv/a.py")
    assert "no Python files" in find(project, "src")[1].problems[0]


def test_notebooks_are_refused_by_name(project) -> None:
    project.write("a.ipynb")
    assert "a.ipynb: notebooks are not supported yet" in find(project, "a.ipynb")[1].problems[0]


def test_linked_folders_do_not_loop(project) -> None:
    project.write("sub/a.py")
    (project.root / "sub/loop").symlink_to(project.root, target_is_directory=True)
    assert find(project, ".")[0] == ["sub/a.py"]
    assert find(project, "sub/loop")[0] == ["sub/loop/sub/a.py"]


def test_a_link_to_itself_is_named(project) -> None:
    project.write("a.py")
    (project.root / "loop.py").symlink_to("loop.py")
    (project.root / ".#lock.py").symlink_to("someone@somewhere")
    assert find(project, ".")[0] == ["a.py", "loop.py"]
    names, found = find(project, "loop.py", "a.py")
    assert names == ["a.py"]
    assert "loop.py: too many levels of symbolic links" in found.problems[0]


def test_a_folder_that_cannot_be_listed_is_named(project, monkeypatch) -> None:
    project.write("a.py")
    project.write("closed/b.py")
    scandir = os.scandir

    def refuse(folder):
        if Path(folder).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    names, found = find(project, ".")
    assert names == ["a.py"]
    assert "closed: permission denied" in found.problems[0]
    _, found = find(project, "closed")
    assert len(found.problems) == 1


def test_pipes_are_not_files(project) -> None:
    project.write("a.py")
    os.mkfifo(project.root / "pipe.py")
    assert find(project, ".")[0] == ["a.py"]


def test_is_left_out(project) -> None:
    file = project.write("gen/a.py")
    for force in (True, False):
        values = {"exclude": ["gen"], "force-exclude": force}
        overrides = Layer("command line", project.root, values)
        configuration = Configuration(project.root, overrides, None, isolated=False)
        settings = configuration.of(file.parent)
        assert is_left_out(file, settings, configuration.of) is force
