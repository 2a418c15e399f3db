"""What of a project is copied for a run, what is linked, what is left out; and the copying."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.errors import TorchlintError

if TYPE_CHECKING:
    from collections.abc import Collection

Stamp = tuple[str, int, int]  # name below the root, bytes, nanoseconds of the last change
MEBI = 1 << 20
CODE = frozenset(".py .pyi .pyx .pxd .so .pyd .dylib .c .cc .cpp .cu .cuh .h .hpp".split())
# A link would let a script write through to the user's own checkpoint: these are always copied.
CHECKPOINTS = frozenset(".pt .pth .ckpt .safetensors .pkl .h5 .onnx .tar .npz .db .log".split())
LEFT_OUT = frozenset(
    "__pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache .hypothesis "
    "node_modules .hg .svn .eggs .idea .vscode".split()
)
VIRTUAL = ("pyvenv.cfg", "conda-meta")  # what lies in an environment, whatever its name
GIT_FILES = ("HEAD", "config", "packed-refs", "index", "shallow")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a copy of a project may hold.

    Files of more than ``linked`` bytes are linked, and so are the folders in one that holds more
    than ``crowd`` files, none of them code.  All that is copied may be ``total`` bytes in ``files``
    files.
    """

    linked: int = 32 * MEBI
    total: int = 2048 * MEBI
    files: int = 50_000
    crowd: int = 5_000


@dataclass(slots=True)
class Survey:
    """What a project holds, by paths below its root: parents come before what is in them.

    ``linked`` are files and folders of data that stay where they are; ``size`` is the number of
    bytes that are copied.
    """

    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    symlinks: list[str] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, other: Survey) -> None:
        """Take over what a folder in this one holds."""
        self.folders += other.folders
        self.files += other.files
        self.symlinks += other.symlinks
        self.linked += other.linked
        self.size += other.size


@dataclass(frozen=True, slots=True)
class _Within:
    """A folder that was looked through: how many files it holds, and whether one is code."""

    survey: Survey
    count: int
    code: bool


def survey(
    root: Path, limits: Limits, exclude: Collection[str] = (), avoid: Path | None = None
) -> Survey:
    """Look through a project: what is copied, what is linked.

    ``exclude`` are patterns of names, or of paths below the root, that are left out; ``avoid`` is
    a folder that is left out too, since the copies lie in it.

    Raises:
        TorchlintError: there is too much to copy.

    """
    found = _look(root, "", limits, exclude, avoid).survey
    if found.size > limits.total or len(found.files) > limits.files:
        raise _too_much(root, found, limits)
    return found


def _look(
    root: Path, below: str, limits: Limits, exclude: Collection[str], avoid: Path | None
) -> _Within:
    here, count, code = Survey(folders=[below] if below else []), 0, False
    within: dict[str, _Within] = {}
    for entry in _entries(root / below):
        path = os.path.join(below, entry.name)  # noqa: PTH118 - many files: strings are faster
        if _is_left_out(entry, path, exclude, avoid):
            continue
        if entry.is_symlink():
            here.symlinks.append(path)
        elif entry.is_dir(follow_symlinks=False):
            within[path] = _look(root, path, limits, exclude, avoid)
        elif entry.is_file(follow_symlinks=False) and os.access(entry.path, os.R_OK):
            count += 1
            suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 - see above
            code = code or suffix in CODE
            size = entry.stat(follow_symlinks=False).st_size
            if size > limits.linked and suffix not in CODE | CHECKPOINTS:
                here.linked.append(path)
            else:
                here.files.append(path)
                here.size += size
    every = count + sum(inside.count for inside in within.values())
    code = code or any(inside.code for inside in within.values())
    if below and not code and count > limits.crowd:
        return _Within(Survey(linked=[below]), every, code)
    if below and not code and every > limits.crowd:
        # New files beside the folders of data stay in the copy.
        here.linked += within
        return _Within(here, every, code)
    for inside in within.values():
        here.add(inside.survey)
    return _Within(here, every, code)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:  # what cannot be read by us cannot be by the script
        return []


def _is_left_out(
    entry: os.DirEntry[str], path: str, exclude: Collection[str], avoid: Path | None
) -> bool:
    if any(fnmatch.fnmatch(entry.name, p) or fnmatch.fnmatch(path, p) for p in exclude):
        return True
    if not entry.is_dir(follow_symlinks=False):
        return False
    if entry.name in LEFT_OUT or entry.name == ".git" or entry.path == str(avoid):
        return True
    return any(Path(entry.path, name).exists() for name in VIRTUAL)


def _too_much(root: Path, found: Survey, limits: Limits) -> TorchlintError:
    sizes: dict[str, list[int]] = {}
    for file in found.files:
        with contextlib.suppress(OSError):
            size = (root / file).lstat().st_size
            sizes.setdefault(Path(file).parts[0], []).append(size)
    what, most = max(sizes.items(), key=lambda item: (sum(item[1]), len(item[1])))
    if found.size <= limits.total:
        what, most = max(sizes.items(), key=lambda item: len(item[1]))
    return TorchlintError(
        f"{root}: {found.size / MEBI:,.0f} MiB in {len(found.files):,} files are too much to copy "
        f"for every run (the limits are {limits.total / MEBI:,.0f} MiB and {limits.files:,} files; "
        f"{what} has {sum(most) / MEBI:,.0f} MiB in {len(most):,}); name the folder that the "
        "script needs with --root, or leave some out with --exclude"
    )


def populate(found: Survey, root: Path, copy: Path) -> None:
    """Copy a project; files that have gone since it was looked through are not there."""
    copy.mkdir(parents=True)
    for name in found.folders:
        with contextlib.suppress(FileExistsError):
            (copy / name).mkdir()
    for name in found.files:
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(root / name, copy / name, follow_symlinks=False)
    for name in found.symlinks:
        with contextlib.suppress(FileNotFoundError):
            (copy / name).symlink_to(_target(root, name, copy))
    for name in found.linked:
        (copy / name).symlink_to(root / name)
    for name in reversed(found.folders):
        with contextlib.suppress(OSError):
            shutil.copystat(root / name, copy / name)
            (copy / name).chmod((copy / name).stat().st_mode | stat.S_IRWXU)
    if (root / ".git").exists():
        with contextlib.suppress(OSError):
            _copy_git(root / ".git", copy / ".git")


def _target(root: Path, name: str, copy: Path) -> str:
    """Where a link of the project leads in the copy: what is in the project is in the copy."""
    target = (root / name).readlink()
    absolute = Path(os.path.normpath((root / name).parent / target))
    if absolute.is_relative_to(root):
        return str(copy / absolute.relative_to(root)) if target.is_absolute() else str(target)
    return str(absolute)


def _copy_git(git: Path, copy: Path) -> None:
    """Make a repository with the same commits, whose objects stay where they are."""
    if git.is_file():  # a worktree or submodule: it names a folder elsewhere
        shutil.copy2(git, copy)
        return
    (copy / "objects" / "info").mkdir(parents=True)
    for name in GIT_FILES:
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(git / name, copy / name)
    shutil.copytree(git / "refs", copy / "refs")
    (copy / "objects" / "info" / "alternates").write_text(f"{git / 'objects'}\n", "utf-8")


def stamps(found: Survey, root: Path) -> frozenset[Stamp]:
    """Return how what is linked is now: it changes if a run writes through a link."""
    stamps: set[Stamp] = set()
    for name in found.linked:
        with contextlib.suppress(OSError):
            status = (root / name).stat()
            stamps.add((name, status.st_size, status.st_mtime_ns))
    return frozenset(stamps)
