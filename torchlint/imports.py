"""The Python files of a project and what they import, read off the text: nothing is parsed here."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import string
import sys
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.errors import TorchlintError
from torchlint.source import read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Excluded = Callable[[Path], bool]

VCS = (".git", ".hg", ".svn")
MARKS = (
    "pyproject.toml", "setup.py", "setup.cfg", "torchlint.toml", ".torchlint.toml",
    "requirements.txt", "environment.yml", "environment.yaml",
)  # fmt: skip
_STATEMENT = re.compile(
    r"[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]+))"
)
_IMPORTING = re.compile(f"^{_STATEMENT.pattern}", re.MULTILINE)
_ALIASED = re.compile(r"(\w[\w.]*)(?:[ \t]+as[ \t]+(\w+))?")
# A name as a value: handed on, kept, returned, or one of a choice.
_VALUE = (
    r"(?:[(,=:\[{{]\s*|\b(?:return|else|or|and)\s+){name}(?=\s*(?:[,)\]}}\n:]|if\b|else\b|or\b))"
)
_IMPORT = re.compile("import")
_DEFINED = re.compile(r"^[ \t]*(?:def|class)[ \t]+(\w+)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_LETTERS = f"{string.ascii_letters}{string.digits}_"
# Names in texts that are no Python: not those of files and options (``train.py``, ``--eval``).
_NAMED = re.compile(r"(?<![\w/-])[A-Za-z_]\w*(?![\w-]|\.py\b)")
_IN_PROSE = re.compile(r"[A-Za-z_]\w*(?=\()|(?<=`)\w+(?=`)|(?<=import )\w+")
_OTHERS = (".ipynb", ".sh", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".md", ".rst")
_PROSE = (".md", ".rst")
# What a script puts on `sys.path`, by itself or through a function of its own: `add_path(...)`.
_EXTENDING = ("sys.path.insert", "sys.path.append", "sys.path.extend", "sys.path +=")
_STRINGS = r"[\"'][^\"'\n]*[\"']"
_JOINED = re.compile(rf"\bjoin\([^\"'\n]*((?:{_STRINGS}[\s,]*)+)\)")
_STRING = re.compile(r"[\"']([^\"'\n]*)[\"']")
_ADDED = re.compile(rf"sys\.path[^\"'\n]*({_STRINGS})")
_TEST = re.compile(r"(^|[/\\])(test_[^/\\]*|[^/\\]*_test|conftest)\.py$")
_TESTS = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def[ \t]+test_\w*\(|class[ \t]+Test)", re.MULTILINE)
_LARGE = 10_000_000  # bytes: what is larger is data
# More files than this that use something make it part of a library: what they have in common says
# little, and reading them all takes long.
MANY = 30
_MOST = 1_000  # files of a project; of a larger one, each file is looked at by itself


@lru_cache(1024)  # asked of a few files of a project for each name that others have from there
def imported_words(text: str) -> frozenset[str]:
    """Return the words of a text that stand in imports: what it may have from elsewhere."""
    found = _statements(text)
    return frozenset(word for _, *names in found for part in names for word in _WORD.findall(part))


@lru_cache(4096)
def bound_names(text: str) -> dict[str, tuple[str, ...]]:
    """Return the dotted names that each name of the imports of a text may stand for.

    A relative one begins with ``@``, as `Imports.find` takes it.
    """
    found: dict[str, tuple[str, ...]] = {}
    for module, names, plain in _statements(text):
        base = f"@{module}" if module[:1] == "." else module
        start = base if not base or base[-1] == "." else f"{base}."
        for name, alias in _ALIASED.findall(plain or names):
            dotted = start + name if alias or names else name.partition(".")[0]
            bound = alias or dotted.rpartition(".")[2]
            found[bound] = (*found.get(bound, ()), dotted)
    return found


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
    return _topmost(path.parent)


def _topmost(folder: Path) -> Path:
    """Climb while there are Python files."""
    top = folder
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


def _end_of(text: str) -> str:
    """Return the letters of ASCII that a text ends with: of most words all of them."""
    return text[len(text.rstrip(_LETTERS)) :]


class Imports:
    """Which module of a project an import means, and which files import a file.

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
        self._importers: dict[str, tuple[str, ...]] = {}
        self._besides: dict[str, tuple[str, ...]] = {}
        self._users: dict[str, frozenset[str]] = {}
        self._having: dict[tuple[str, ...], frozenset[str]] = {}
        self._where: dict[Callable[[str], bool], frozenset[str]] = {}
        self._found_by: dict[Callable[[str], Iterable[str]], frozenset[str]] = {}
        self._leading: dict[Callable[[str], bool], frozenset[str]] = {}
        self._names: dict[tuple[str, tuple[str, ...]], frozenset[str]] = {}
        self._near: dict[str, tuple[str, ...]] = {}
        self._nearby: dict[tuple[str, tuple[str, ...]], bool] = {}
        self._starts: dict[tuple[str, str], str | None] = {}

    @cached_property
    def files(self) -> dict[str, None]:
        """The Python files of the project, sorted; none where there are too many to be read."""
        return {} if self.is_too_large else dict.fromkeys(sorted(self._found))

    @property
    def is_too_large(self) -> bool:
        """Whether the project has more files than are read of one."""
        return len(self._found) > _MOST

    @cached_property
    def _found(self) -> list[str]:
        return list(itertools.islice(self._ending((".py",)), _MOST + 1))

    def _ending(self, endings: tuple[str, ...]) -> Iterator[str]:
        """Yield the files of the project whose names end in some way."""
        for folder, folders, names in os.walk(self.root):
            if "pyvenv.cfg" in names:
                folders.clear()
                continue
            folders[:] = sorted(one for one in folders if not self._excluded(Path(folder, one)))
            yield from (os.path.join(folder, one) for one in names if one.endswith(endings))  # noqa: PTH118 - thousands

    @cached_property
    def words_of_others(self) -> frozenset[str]:
        """The words by which notebooks, shell scripts and the like may mean what is in a module."""
        found: set[str] = set()
        for file in self._others:
            pattern = _IN_PROSE if file.suffix in _PROSE else _NAMED
            found.update(pattern.findall(self._text_of(file)))
        return frozenset(found)

    @cached_property
    def words_of_texts(self) -> frozenset[str]:
        """All the words in them, one of which may be an option: ``python main.py --model net``."""
        return frozenset(
            word for file in self._others for word in _WORD.findall(self._text_of(file))
        )

    @cached_property
    def _others(self) -> list[Path]:
        return list(map(Path, self._ending(_OTHERS)))

    @staticmethod
    def _text_of(file: Path) -> str:
        """Return the text of a file that is no Python; none of a large one, which is data."""
        with contextlib.suppress(OSError):
            if file.stat().st_size <= _LARGE:
                return file.read_text("utf-8", "replace")
        return ""

    def namesakes(self, path: str) -> list[str]:
        """Return the other files of the project that are called like a file; no packages."""
        name = os.path.basename(path)  # noqa: PTH119
        return [one for one in self._named.get(name, ()) if one != path]

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for file in self.files:
            found.setdefault(os.path.basename(file), []).append(file)  # noqa: PTH119
        found.pop("__init__.py", None)
        return found

    @cached_property
    def _folders(self) -> frozenset[str]:
        """Folders that hold Python files, at any depth."""
        found: set[str] = set()
        for file in self.files:
            folder = os.path.dirname(file)  # noqa: PTH120 - thousands of them
            while folder not in found and len(folder) >= len(str(self.root)):
                found.add(folder)
                folder = os.path.dirname(folder)  # noqa: PTH120
        return frozenset(found)

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
        self._importers.clear()
        self._besides.clear()
        self._users.clear()
        if any(word in one for one in (known, text) for word in _EXTENDING):
            self.__dict__.pop("_added", None)
            self._starts.clear()
            self._targets.clear()
        for facts in (
            self._nearby, self._having, self._where, self._found_by, self._leading, self._near,
            self._names,
        ):  # fmt: skip
            facts.clear()
        for name in ("_reverse", "_run_by", "_calling", "handed_on"):
            self.__dict__.pop(name, None)
        return True

    def find(self, path: str, name: str) -> tuple[str, str] | None:
        """Return the file that a dotted name means when it is imported in a file, and the rest.

        ``"engine.train"`` is ``("/project/engine.py", "train")``.  A name that starts with ``@`` is
        relative, as `names` writes it: ``"@.engine.train"``.
        """
        folder = os.path.dirname(path)  # noqa: PTH120 - asked for every import of a project
        if name[0] == "@":
            words = name[1:].lstrip(".")
            for _ in range(len(name) - len(words) - 2):
                folder = os.path.dirname(folder)  # noqa: PTH120
            return self._below(folder, words.split(".") if words else [])
        parts = name.split(".")
        if parts[0] not in self._heads:
            return None
        start = self._start(folder, parts[0])
        return None if start is None else self._below(start, parts)

    def may_have(self, name: str) -> bool:
        """Whether a dotted name begins as a module of the project does, in whichever folder."""
        return name[0] == "@" or name.partition(".")[0] in self._heads

    @cached_property
    def _heads(self) -> frozenset[str]:
        """The names that an import of a file of the project can begin with."""
        stems = (os.path.basename(file)[:-3] for file in self.files)  # noqa: PTH119
        return frozenset((*stems, *(os.path.basename(folder) for folder in self._folders)))  # noqa: PTH119

    def _start(self, folder: str, head: str) -> str | None:
        """Return the folder that holds a module.

        The file's own, one above it, ``src``, or one that the project puts on ``sys.path``.
        """
        key = (folder, head)
        if key not in self._starts:
            top = str(self.root)
            found = [here for here in self._above(folder) if self._holds(here, head)]
            if not found and self._holds(source := f"{top}{os.sep}src", head):
                found = [source]
            if not found and head not in sys.stdlib_module_names:
                found = [one for one in self._added if self._holds(one, head)]
            # the tests of a package may stand in a package with a folder of the same name,
            # and a module in a package of its name: `lpips.x` in `lpips`, beside `lpips.py`
            named = os.path.basename(folder) == head  # noqa: PTH119
            outer = (
                one
                for one in found
                if (one == folder and not named) or f"{one}{os.sep}__init__.py" not in self.files
            )
            self._starts[key] = next(outer, found[0] if found else None)
        return self._starts[key]

    def _above(self, folder: str) -> Iterator[str]:
        """Yield a folder and those above it, up to the root."""
        top = str(self.root)
        yield folder
        while folder != top and len(folder) > len(top):
            folder = os.path.dirname(folder)  # noqa: PTH120
            yield folder

    @cached_property
    def _added(self) -> tuple[str, ...]:
        """Folders that files put on ``sys.path``, from their own or from the root.

        By the text alone: ``add_path(osp.join(this_dir, "..", "lib"))`` in a file that extends it.
        """
        found: set[str] = set()
        for file in self.having(_EXTENDING):
            text = self.text(file)
            parts = [
                *("/".join(_STRING.findall(one)) for one in _JOINED.findall(text)),
                *(_STRING.findall(one)[0] for one in _ADDED.findall(text)),
            ]
            for start in (os.path.dirname(file), str(self.root)):  # noqa: PTH120
                found.update(os.path.normpath(f"{start}{os.sep}{part}") for part in parts if part)
        return tuple(sorted(found & self._folders))

    def _holds(self, folder: str, name: str) -> bool:
        stem = f"{folder}{os.sep}{name}"
        return f"{stem}.py" in self.files or stem in self._folders

    def _below(self, folder: str, parts: list[str]) -> tuple[str, str] | None:
        """Follow the parts of a name down from a folder, packages before modules."""
        for place, part in enumerate(parts):
            stem = f"{folder}{os.sep}{part}"
            if stem not in self._folders:
                file = f"{stem}.py"
                if file in self.files:
                    return file, ".".join(parts[place + 1 :])
                init = f"{folder}{os.sep}__init__.py"
                return (init, ".".join(parts[place:])) if init in self.files else None
            folder = stem
        init = f"{folder}{os.sep}__init__.py"
        return (init, "") if init in self.files else None

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
            if head and head not in self._heads:
                continue
            base = module if head else f"@{module}"
            yield from self._file(path, base)
            start = base if base.endswith(".") else f"{base}."
            for name in _WORD.findall(names):
                if name in self._heads:
                    yield from self._file(path, start + name)

    def _file(self, path: str, name: str) -> Iterator[str]:
        found = self.find(path, name) if name else None
        if found is not None:
            yield found[0]

    def modules(self, path: str) -> dict[str, str]:
        """Return the modules of the project that a file has under some names, by these."""
        found: dict[str, str] = {}
        for name, dotted in bound_names(self.text(path)).items():
            for one in dotted:
                file, rest = self.find(path, one) or ("", "")
                if file and not rest:
                    found[name] = file
        return found

    @cached_property
    def handed_on(self) -> frozenset[str]:
        """The modules that some file uses as a value: ``build(nets, name)``."""
        found: set[str] = set()
        for file in self.files:
            if not (modules := self.modules(file)):
                continue
            code = _IMPORTING.sub("", self.text(file))
            found.update(
                module
                for name, module in modules.items()
                if re.search(_VALUE.format(name=name), code) is not None
            )
        return frozenset(found)

    def users(self, path: str) -> frozenset[str]:
        """Return a file and those that import it, be it by way of others."""
        found = self._users.get(path)
        if found is None:
            seen, todo = {path}, [path]
            while todo:
                new = set(self.importers(todo.pop())) - seen
                seen |= new
                todo += new
            found = self._users[path] = frozenset(seen)
        return found

    def connected(self, path: str) -> tuple[str, ...]:
        """Return the files that imports connect to a file, itself among them; sorted.

        Tests, by the names that pytest goes by, connect nothing: they call what training does not.
        """
        if is_test(path, self.text(path)):
            return (path,)
        found = {path}
        todo = [path]
        while todo:
            one = todo.pop()
            near = {*self.targets(one), *self._reverse.get(one, ())} - found
            near = {other for other in near if not is_test(other, self.text(other))}
            found |= near
            todo += near
        return tuple(sorted(found))

    def importers(self, path: str) -> tuple[str, ...]:
        """Return the files that import a file, or what a package re-exports of it; sorted."""
        found = self._importers.get(path)
        if found is None:
            seen: set[str] = set()
            todo = [path]
            while todo:
                for one in self._reverse.get(todo.pop(), ()):
                    if one not in seen and one != path:
                        seen.add(one)
                        if one.endswith("__init__.py"):
                            todo.append(one)
            found = self._importers[path] = tuple(sorted(seen))
        return found

    def beside(self, path: str) -> tuple[str, ...]:
        """Return the files that the importers of a file import as well; sorted.

        They may get objects of its classes, and call their methods, without importing it.
        """
        found = self._besides.get(path)
        if found is None:
            above = self.importers(path)
            others = {other for one in above for other in self.targets(one)}
            found = self._besides[path] = tuple(sorted(others.difference(above, (path,))))
        return found

    def calling_beside(self, path: str, method: str) -> list[str]:
        """Return the files that do not import a file, but may call a method of what it makes."""
        calling, called = self._calling.get(_end_of(method), ()), f".{method}("
        return [one for one in self.beside(path) if one in calling and called in self.text(one)]

    def calling(self, path: str, name: str) -> Iterator[str]:
        """Yield the files that import a file and may call what has a name; sorted."""
        calling = self._calling.get(_end_of(name), ())
        return (one for one in self.importers(path) if one in calling)

    @cached_property
    def _calling(self) -> dict[str, set[str]]:
        """The files of the project by the ends of the words before brackets in their texts."""
        found: dict[str, set[str]] = {}
        for file in self.files:
            for word in set(map(_end_of, self.text(file).split("(")[:-1])):
                found.setdefault(word, set()).add(file)
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
        """Whether one of some words occurs in a file that imports a file or that it imports.

        Or in one that the former imports as well: a script has its model and its steps elsewhere.
        """
        key = (path, words)
        if key not in self._nearby:
            near = itertools.chain(self.importers(path), self.targets(path), self.beside(path))
            self._nearby[key] = not self.having(words).isdisjoint(near)
        return self._nearby[key]

    def defined_near(self, path: str, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the functions and classes of files near one in which one of some words occurs.

        That are those that it imports, and those that its importers do: they pass it their objects.
        """
        near = {*self.targets(path), *self.beside(path)}
        for one in self.targets(path):
            if one.endswith("__init__.py"):
                near |= self.targets(one)
        return tuple(sorted({name for one in near for name in self._defined(one, words)}))

    def _defined(self, path: str, words: tuple[str, ...]) -> frozenset[str]:
        key = (path, words)
        if key not in self._names:
            text = self.text(path)
            some = any(word in text for word in words)
            self._names[key] = frozenset(_DEFINED.findall(text) if some else ())
        return self._names[key]

    def having(self, words: tuple[str, ...]) -> frozenset[str]:
        """Return the files of the project in which one of some words occurs."""
        found = self._having.get(words)
        if found is None:
            texts = ((file, self.text(file)) for file in self.files)
            found = frozenset(file for file, text in texts if any(word in text for word in words))
            self._having[words] = found
        return found

    def where(self, holds: Callable[[str], bool]) -> frozenset[str]:
        """Return the files of the project of whose text a function holds."""
        found = self._where.get(holds)
        if found is None:
            found = frozenset(file for file in self.files if holds(self.text(file)))
            self._where[holds] = found
        return found

    def found_by(self, search: Callable[[str], Iterable[str]]) -> frozenset[str]:
        """Return all that a function finds in the texts of the project."""
        found = self._found_by.get(search)
        if found is None:
            found = frozenset(one for file in self.files for one in search(self.text(file)))
            self._found_by[search] = found
        return found

    def leading_to(self, holds: Callable[[str], bool]) -> frozenset[str]:
        """Return the files whose imports run, at any distance, one of whose text a function holds.

        To import a module of a package runs the package first.
        """
        found = self._leading.get(holds)
        if found is None:
            found = self._leading[holds] = self.above(self.where(holds))
        return found

    def above(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the files whose imports run, at any distance, one of some files."""
        todo, seen = list(paths), set[str]()
        while todo:
            seen.update(new := self._run_by.get(todo.pop(), set()) - seen)
            todo += new
        return frozenset(seen)

    @cached_property
    def _run_by(self) -> dict[str, set[str]]:
        """The files that run each file, or a module of the package it begins, as they import it."""
        found: dict[str, set[str]] = {}
        for file in self.files:
            for target in self.targets(file):
                for one in (target, *self._packages(target)):
                    found.setdefault(one, set()).add(file)
        return found

    def _packages(self, path: str) -> Iterator[str]:
        """Yield the packages that a module is a part of: importing it runs them first."""
        folder = os.path.dirname(path)  # noqa: PTH120 - asked for every import of a project
        while (init := f"{folder}{os.sep}__init__.py") in self.files:
            yield init
            folder = os.path.dirname(folder)  # noqa: PTH120

    def related(self, path: str) -> tuple[str, ...]:
        """Return the files at most two imports away, in either direction; sorted.

        Files that many import lead nowhere: what imports them has little to do with one another.
        """
        if path not in self._near:
            near = {one for one in self._beside(path) if len(self.importers(one)) <= MANY}
            far = near.union(*(self._beside(one) for one in near))
            self._near[path] = tuple(sorted(far - {path}))
        return self._near[path]

    def _beside(self, path: str) -> frozenset[str]:
        importers = self.importers(path)
        return self.targets(path).union(importers if len(importers) <= MANY else ())
