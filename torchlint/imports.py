"""The Python files of a project and what they import, read off the text: nothing is parsed here."""

from __future__ import annotations

import itertools
import os
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.errors import TorchlintError
from torchlint.semantics.paths import Paths
from torchlint.source import read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Excluded = Callable[[Path], bool]

VCS = (".git", ".hg", ".svn")
MARKS = tuple(
    """
    pyproject.toml setup.py setup.cfg torchlint.toml .torchlint.toml requirements.txt
    environment.yml environment.yaml
    """.split()
)
_STATEMENT = re.compile(
    r"[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]+))"
)
_IMPORT = re.compile("import")
_WORD = re.compile(r"\w+")
# What a script puts on `sys.path`, by itself or through a function of its own: `add_path(...)`.
_EXTENDING = ("sys.path.insert", "sys.path.append", "sys.path.extend", "sys.path +=")
_STRINGS = r"[\"'][^\"'\n]*[\"']"
_JOINED = re.compile(rf"\bjoin\([^\"'\n]*((?:{_STRINGS}[\s,]*)+)\)")
_STRING = re.compile(r"[\"']([^\"'\n]*)[\"']")
_ADDED = re.compile(rf"sys\.path[^\"'\n]*({_STRINGS})")
_TEST = re.compile(r"(^|[/\\])(test_[^/\\]*|[^/\\]*_test|conftest)\.py$")
_TESTS = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def[ \t]+test_\w*\(|class[ \t]+Test)", re.MULTILINE)
_MOST = 1_000  # files of a project; of a larger one, each file is looked at by itself


def _statements(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield what stands in each line that imports: module and names of ``from``, or modules."""
    end = 0
    for word in _IMPORT.finditer(text):  # few lines have the word, and it is found fast
        start = text.rfind("\n", 0, word.start()) + 1
        if start >= end and (found := _STATEMENT.match(text, start)):
            end = found.end()
            yield found[1] or "", found[2] or "", found[3] or ""


def is_test(path: str, text: str) -> bool:
    """Whether a file is a test as pytest finds them: by its name and what it defines."""
    if _TEST.search(path) is None:
        return False
    return path.endswith("conftest.py") or _TESTS.search(text) is not None


def is_marked(folder: Path, marks: tuple[str, ...]) -> bool:
    """Whether a folder holds a file or folder of one of some names."""
    return any((folder / mark).exists() for mark in marks)


def root_of(path: Path, marked: Callable[[Path, tuple[str, ...]], bool] = is_marked) -> Path:
    """Return the folder of the project that a file belongs to.

    The repository, else the nearest folder with a project's own files; where there is neither, the
    topmost folder that is reached from the file through folders that hold Python files.
    """
    for marks in (VCS, MARKS):
        for folder in path.parents:
            if marked(folder, marks):
                return folder
    top = path.parent
    while _has_python(top.parent):
        top = top.parent
    return top


def _has_python(folder: Path) -> bool:
    if folder.parent == folder:
        return False
    try:
        return any(name.endswith(".py") for name in os.listdir(folder))  # noqa: PTH208 - names do
    except OSError:
        return False


class Imports:
    """Which files of a project import which.

    Args:
        root: the folder of the project.
        excluded: folders that are not looked into.

    """

    def __init__(self, root: Path, excluded: Excluded) -> None:
        """Nothing is read before it is asked for."""
        self.root = root
        self._excluded = excluded
        self._texts: dict[str, str] = {}
        self._targets: dict[str, frozenset[str]] = {}
        self._connected: dict[str, tuple[str, ...]] = {}
        self._nearby: dict[tuple[str, tuple[str, ...]], bool] = {}

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The Python files of the project, sorted; none where there are too many to be read."""
        return () if self.is_too_large else tuple(sorted(self._found))

    @property
    def is_too_large(self) -> bool:
        """Whether the project has more files than are read of one."""
        return len(self._found) > _MOST

    @cached_property
    def _found(self) -> list[str]:
        return list(itertools.islice(self._walk(), _MOST + 1))

    def _walk(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self.root):
            if "pyvenv.cfg" in names:
                folders.clear()
                continue
            folders[:] = sorted(one for one in folders if not self._excluded(Path(folder, one)))
            yield from (os.path.join(folder, one) for one in names if one.endswith(".py"))  # noqa: PTH118 - thousands

    def text(self, path: str) -> str:
        """Return the text of a file, or "" where it cannot be read."""
        found = self._texts.get(path)
        if found is None:
            try:
                found = read_source(Path(path), path).text
            except TorchlintError:
                found = ""
            self._texts[path] = found
        return found

    def replace(self, path: str, text: str) -> bool:
        """Let a file have this text from now on; return whether it was known by another."""
        known = self._texts.get(path)
        self._texts[path] = text
        if known is None or known == text:
            return False
        self._targets.pop(path, None)
        self._connected.clear()
        self._nearby.clear()
        self.__dict__.pop("_reverse", None)
        if any(word in one for one in (known, text) for word in _EXTENDING):
            self.__dict__.pop("added", None)
            self.__dict__.pop("paths", None)
            self._targets.clear()
        return True

    @cached_property
    def paths(self) -> Paths:
        """Which file a name means."""
        return Paths(self.files, str(self.root), self.added)

    @cached_property
    def added(self) -> tuple[str, ...]:
        """Folders that files put on ``sys.path``, from their own or from the root.

        By the text alone: ``add_path(osp.join(this_dir, "..", "lib"))`` in a file that extends it.
        """
        found: set[str] = set()
        for file in self.files:
            text = self.text(file)
            if not any(word in text for word in _EXTENDING):
                continue
            parts = [
                *("/".join(_STRING.findall(one)) for one in _JOINED.findall(text)),
                *(_STRING.findall(one)[0] for one in _ADDED.findall(text)),
            ]
            for start in (os.path.dirname(file), str(self.root)):  # noqa: PTH120
                found.update(os.path.normpath(f"{start}{os.sep}{part}") for part in parts if part)
        return tuple(sorted(found))

    def targets(self, path: str) -> frozenset[str]:
        """Return the files of the project that a file imports."""
        found = self._targets.get(path)
        if found is None:
            found = self._targets[path] = frozenset(self._read(path)) - {path}
        return found

    def _read(self, path: str) -> Iterator[str]:
        for module, names, plain in _statements(self.text(path)):
            if plain:
                for one in plain.split(","):
                    words = one.split(None, 1)
                    yield from self._file(path, words[0] if words else "")
                continue
            head = module.partition(".")[0]
            if head and head not in self.paths.heads:
                continue
            yield from self._file(path, module)
            start = module if module.endswith(".") else f"{module}."
            for name in _WORD.findall(names):
                if name in self.paths.heads:
                    yield from self._file(path, start + name)

    def _file(self, path: str, name: str) -> Iterator[str]:
        found = self.paths.find(path, name) if name else None
        if found is not None:
            yield found[0]

    def connected(self, path: str) -> tuple[str, ...]:
        """Return the files that imports connect to a file, itself among them; sorted.

        Tests, by the names that pytest goes by, connect nothing: they call what training does not.
        """
        if path not in self._connected:
            found = {path} if is_test(path, self.text(path)) else self._reach(path)
            self._connected |= dict.fromkeys(found, tuple(sorted(found)))
        return self._connected[path]

    def _reach(self, path: str) -> set[str]:
        found = {path}
        todo = [path]
        while todo:
            one = todo.pop()
            near = {*self.targets(one), *self._reverse.get(one, ())} - found
            near = {other for other in near if not is_test(other, self.text(other))}
            found |= near
            todo += near
        return found

    @cached_property
    def _reverse(self) -> dict[str, list[str]]:
        """The files that import each file."""
        found: dict[str, list[str]] = {}
        for file in self.files:
            for target in self.targets(file):
                found.setdefault(target, []).append(file)
        return found

    def is_nearby(self, path: str, words: tuple[str, ...]) -> bool:
        """Whether one of some words occurs in a file that imports connect to a file."""
        files = self.connected(path)
        key = files[0], words  # connected files have the same first one
        if key not in self._nearby:
            self._nearby[key] = any(word in self.text(file) for file in files for word in words)
        return self._nearby[key]
