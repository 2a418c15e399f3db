"""Which files are checked, in what order, and why a given path led to none."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pathspec import GitIgnoreSpec

    from torchlint.config import Settings

SUFFIX = ".py"


@dataclass(frozen=True, slots=True)
class Found:
    """The files to check, sorted; given paths that were left out; and what is wrong with others."""

    files: tuple[Path, ...]
    excluded: tuple[Path, ...]
    problems: tuple[str, ...]


def shown(path: Path, working: Path) -> str:
    """Name of a file as reports show it: relative to the working folder where it is below it."""
    try:
        return str(path.relative_to(working))
    except ValueError:
        return str(path)


def discover(
    given: Sequence[Path], settings_of: Callable[[Path], Settings], working: Path
) -> Found:
    """Find the files that the given paths name; a file given twice is checked once.

    Files given by name are checked whatever their suffix, folders are searched for ``*.py``.
    A path that does not exist or holds no Python file is a problem, and stops nothing else.
    """
    walk = _Walk(settings_of)
    problems = walk.problems
    files: dict[str, Path] = {}
    excluded: list[Path] = []
    for path in given:
        absolute = Path(os.path.normpath(working / path))
        try:
            here = list(walk.from_path(absolute))
        except OSError as error:
            problems.append(_missing(path, error))
            continue
        except _NoPythonError as error:
            problems.append(f"{path}: {error}")
            continue
        if not here:
            excluded.append(path)
        for file in here:
            # the real file is preferred to a link to it, whichever is met first
            real = os.path.realpath(file)
            if real not in files or str(file) == real:
                files[real] = file
    return Found(tuple(sorted(files.values())), tuple(excluded), tuple(problems))


def is_left_out(path: Path, settings: Settings, settings_of: Callable[[Path], Settings]) -> bool:
    """Whether a path given by name is left out because the configuration forces exclusions."""
    return settings.force_exclude and _Walk(settings_of).is_forced_out(path, settings)


class _NoPythonError(Exception):
    """A folder or file that cannot be what the user meant."""


def _missing(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path}: no such file or folder; check the spelling and the working folder"
    return (
        f"{path}: {(error.strerror or str(error)).lower()}; name a file or folder that can be read"
    )


class _Walk:
    """A search below folders; what is learnt of ignore files on the way is kept."""

    def __init__(self, settings_of: Callable[[Path], Settings]) -> None:
        self.settings_of = settings_of
        self.ignores: dict[Path, GitIgnoreSpec | None] = {}
        self.bases: dict[Path, tuple[Path, ...]] = {}
        self.problems: list[str] = []

    def from_path(self, path: Path) -> Iterator[Path]:
        kind = path.stat().st_mode
        is_folder = stat.S_ISDIR(kind)
        settings = self.settings_of(path if is_folder else path.parent)
        if settings.force_exclude and self.is_forced_out(path, settings):
            return
        if not is_folder:
            if path.suffix == ".ipynb":
                raise _NoPythonError("notebooks are not supported yet; name a Python file")
            yield path
            return
        before = len(self.problems)
        files = list(self.below(path, configured=True))
        yield from files
        is_empty = not files and len(self.problems) == before
        if is_empty and next(self.below(path, configured=False), None) is None:
            raise _NoPythonError("no Python files in this folder; name a folder that holds some")

    def below(self, folder: Path, *, configured: bool) -> Iterator[Path]:
        """Yield Python files; without ``configured`` only the built-in exclusions hold."""
        pending = [folder]
        while pending:
            here = pending.pop()
            settings = self.settings_of(here)
            for entry in self._entries(here):
                path = here / entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not self._may_be_python(entry):
                    continue
                if settings.excludes(path, configured=configured):
                    continue
                if configured and settings.respect_gitignore and self.ignored(path, is_folder):
                    continue
                if is_folder:
                    pending.append(path)
                else:
                    yield path

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except OSError as error:
            self.problems.append(_missing(folder, error))
            return []

    @staticmethod
    def _may_be_python(entry: os.DirEntry[str]) -> bool:
        """Whether an entry is a file to check; editors' lock links and linked folders are not."""
        if not entry.name.endswith(SUFFIX) or entry.name.startswith(".#"):
            return False
        try:
            return stat.S_ISREG(entry.stat().st_mode)
        except OSError:
            return True  # a dangling or looping link: reading it says so by name

    def is_forced_out(self, path: Path, settings: Settings) -> bool:
        """Whether a given path, or a folder above it, is excluded or ignored."""
        within = [path, *(p for p in path.parents if p.is_relative_to(settings.root))]
        if any(settings.excludes(p, configured=True) for p in within if p != settings.root):
            return True
        return settings.respect_gitignore and any(
            self.ignored(p, is_folder=p != path or p.is_dir()) for p in within
        )

    def ignored(self, path: Path, is_folder: bool) -> bool:
        """Whether git would ignore the path; the deepest ignore file that has a say decides."""
        for base in self._bases(path.parent):
            spec = self._ignore_file(base)
            if spec is None:
                continue
            name = path.relative_to(base).as_posix() + ("/" if is_folder else "")
            verdict = spec.check_file(name).include
            if verdict is not None:
                return verdict
        return False

    def _bases(self, folder: Path) -> tuple[Path, ...]:
        """Folders whose ignore files hold here, deepest first, up to the repository's root."""
        if folder not in self.bases:
            chain = (folder, *folder.parents)
            top = next((above for above in chain if (above / ".git").exists()), None)
            top = top or self.settings_of(folder).root
            self.bases[folder] = tuple(p for p in chain if p.is_relative_to(top)) or (folder,)
        return self.bases[folder]

    def _ignore_file(self, folder: Path) -> GitIgnoreSpec | None:
        if folder not in self.ignores:
            lines = [*_lines(folder / ".git" / "info" / "exclude"), *_lines(folder / ".gitignore")]
            self.ignores[folder] = _compile(lines)
        return self.ignores[folder]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _compile(lines: Iterable[str]) -> GitIgnoreSpec | None:
    patterns = [line for line in lines if line.strip() and not line.startswith("#")]
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  costs as much as click; few need it

    return GitIgnoreSpec.from_lines(patterns)
