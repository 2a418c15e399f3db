"""A fresh copy of the project for every run: the user's own tree is never written to."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torchlint.errors import TorchlintError
from torchlint.verify import copying, overlay
from torchlint.verify.process import uninterrupted
from torchlint.verify.temporary import PREFIX, Session, no_space, remember_shared_memory, remove

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Way = Literal["overlay", "copy"]
MARGIN = 64 * copying.MEBI  # bytes that stay free on the disk beside a copy
NEIGHBOURS = 1_000  # entries beside the project that are linked beside its copy
EDGE = r"""[=,:;"'(){}\[\]]"""  # what stands before and after a path in a word of a command
SOCKET = 60  # characters of TMPDIR: a socket in it may have 104 or 108 in all


@dataclass(frozen=True, slots=True)
class Workspace:
    """The project for one run.

    ``folder`` holds all that belongs to the run, ``root`` is where the script finds the project
    and ``original`` where the user has it: the same with an overlay.  ``prefix`` are the words
    that come before the command.
    """

    way: Way
    folder: Path
    root: Path
    original: Path
    prefix: tuple[str, ...]
    survey: copying.Survey

    @property
    def records(self) -> Path:
        """The folder for the worker's records."""
        return self.folder / "records"

    @property
    def temporary(self) -> Path:
        """The folder for what the script calls temporary."""
        return self.folder / "tmp"

    def stamps(self) -> frozenset[copying.Stamp]:
        """Return how the data is now that is linked into the copy."""
        return copying.stamps(self.survey, self.original)

    def moved(self, word: str) -> str:
        """Return a word of the command with paths below the project's root moved into the copy.

        What is there but was left out of the copy stays what it is (an interpreter in ``.venv``).
        """
        if self.root == self.original:
            return word
        for root in {str(self.original), str(self.original.resolve())}:
            path = rf"(^|{EDGE})({re.escape(root)})((?:/(?:(?!{EDGE}).)*)?)(?=$|{EDGE})"
            word = re.sub(path, self._moved, word)
        return word

    def _moved(self, path: re.Match[str]) -> str:
        before, root, below = path.groups()
        left_out = not os.path.lexists(f"{self.root}{below}") and os.path.lexists(root + below)
        return f"{before}{root if left_out else self.root}{below}"

    def environment(self, user: Mapping[str, str]) -> dict[str, str]:
        """Return an environment with its paths moved, and a folder of its own for what is passing.

        What inductor compiled stays where it always is: else each run would compile anew.
        """
        moved = {name: self.moved(value) for name, value in user.items()}
        if len(str(self.temporary)) <= SOCKET:
            usual = Path(user.get("TMPDIR", "/tmp"), f"torchinductor_{_user()}")  # noqa: S108
            moved.setdefault("TORCHINDUCTOR_CACHE_DIR", str(usual))
            moved["TMPDIR"] = str(self.temporary)
        return moved | {"GIT_OPTIONAL_LOCKS": "0"}


def _user() -> str:
    import getpass  # noqa: PLC0415 - asked once a run

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # no such user: a container with a bare number
        name = str(os.getuid())
    return re.sub(r'[\\/:*?"<>|]', "_", name)  # as torch._inductor.runtime.cache_dir_utils does


class Sandbox:
    """Makes copies of one project, all in one way: with an overlay where that works, or real.

    Raises:
        TorchlintError: the project is too large, or there is no space for copies.

    """

    def __init__(
        self,
        root: Path,
        *,
        try_overlay: bool = True,
        limits: copying.Limits | None = None,
        exclude: Sequence[str] = (),
    ) -> None:
        self.root = root
        self.session = Session()
        self._count = 0
        try:
            self.way: Way = "overlay" if try_overlay and self._can_overlay() else "copy"
            self.survey = (
                copying.Survey()
                if self.way == "overlay"
                else copying.survey(
                    root, limits or copying.Limits(), exclude, avoid=self.session.folder
                )
            )
        except BaseException:
            self.session.close()
            raise

    def close(self) -> None:
        """End what still runs, and remove everything."""
        with uninterrupted():
            self.session.close()

    @contextlib.contextmanager
    def fresh(self, files: Mapping[str, bytes]) -> Iterator[Workspace]:
        """Give the project with these files changed; it is gone afterwards.

        Raises:
            TorchlintError: there is no space for it, or a script left what cannot be removed.

        """
        self._count += 1
        folder = self.session.folder / f"r{self._count}"
        try:
            with no_space(self.session.folder):
                for new in (folder, folder / "records", folder / "tmp"):
                    new.mkdir()
                remember_shared_memory(folder)
                made = self._overlaid(folder) if self.way == "overlay" else self._copied(folder)
                upper = folder / "upper" if self.way == "overlay" else made.root
                for name, content in files.items():
                    _put(content, self.root, name, upper)
            yield made
        finally:
            with uninterrupted():
                remove(folder)

    def _overlaid(self, folder: Path) -> Workspace:
        prefix = overlay_words(self.root, folder)
        return Workspace("overlay", folder, self.root, self.root, prefix, self.survey)

    def _copied(self, folder: Path) -> Workspace:
        free = shutil.disk_usage(folder).free
        if free < self.survey.size + MARGIN:
            raise TorchlintError(
                f"{folder.parent}: {free / copying.MEBI:,.0f} MiB are free, a copy of the project "
                f"takes {self.survey.size / copying.MEBI:,.0f}; free some, or set TMPDIR to a "
                "folder on a larger disk"
            )
        beside = folder / "tree"
        beside.mkdir()
        copy = beside / (self.root.name or "root")
        copying.populate(self.survey, self.root, copy)
        _link_neighbours(self.root, beside)
        return Workspace("copy", folder, copy, self.root, (), self.survey)

    def _can_overlay(self) -> bool:
        """Try a layer over the project, with a command that looks whether all is as it should."""
        if not sys.platform.startswith("linux") or set(str(self.root)) & set(":,\\"):
            return False
        if self.session.folder.is_relative_to(self.root.resolve()) or _has_mounts(self.root):
            return False
        folder = self.session.folder / "probe"
        folder.mkdir()
        name = f".{self.session.folder.name}"
        check = f"import os; open({name!r}, 'x').close(); print(os.geteuid(), os.getegid())"
        try:
            words = (*overlay_words(self.root, folder), str(self.root), sys.executable, "-ISc")
            done = subprocess.run(  # noqa: S603 - our own program
                (*words, check), capture_output=True, text=True, check=False, timeout=30,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return False
        same = done.stdout.split() == [str(os.geteuid()), str(os.getegid())]
        worked = done.returncode == 0 and same and (folder / "upper" / name).exists()
        remove(folder)
        return worked


def overlay_words(root: Path, folder: Path) -> tuple[str, ...]:
    """Make the folders of a layer, and return what comes before the working folder and command."""
    upper, work = folder / "upper", folder / "work"
    upper.mkdir()
    work.mkdir()
    shutil.copystat(root, upper)
    real = str(root.resolve())
    return (sys.executable, "-I", "-S", overlay.__file__, real, str(upper), str(work))


def _has_mounts(root: Path) -> bool:
    """Whether something is mounted inside the project: an overlay would show it empty."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return True
    below = f"{root.resolve()}{os.sep}"
    points = (line.split()[4].encode().decode("unicode_escape") for line in lines)
    return any(point.startswith(below) for point in points)


def _put(content: bytes, root: Path, name: str, upper: Path) -> None:
    """Write a changed file, with the mode of the original and of the folders it is in."""
    file = upper / name
    for folder in reversed(Path(name).parents):
        _make_real(root / folder, upper / folder)
    if file.is_symlink():  # the fix goes into the copy, not through the link
        file.unlink()
    file.write_bytes(content)
    if (root / name).exists():
        before = (root / name).stat()
        file.chmod(stat.S_IMODE(before.st_mode))
        # Bytecode is taken for that of the source with its time and size: give it another time.
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 2_000_000_000))


def _make_real(original: Path, folder: Path) -> None:
    """Let a folder be none that is linked: what is written into it must not reach the original."""
    linked = original.is_symlink() or folder.is_symlink()
    if folder.is_dir() and not folder.is_symlink():
        return
    folder.unlink(missing_ok=True)
    folder.mkdir()
    if original.is_dir():
        shutil.copystat(original, folder)
    if linked:
        for entry in original.resolve().iterdir():
            (folder / entry.name).symlink_to(entry)


def _link_neighbours(root: Path, beside: Path) -> None:
    """Link what lies beside the project beside its copy: scripts read ``../data``."""
    with contextlib.suppress(OSError), os.scandir(root.parent) as entries:
        for count, entry in enumerate(entries):
            if count >= NEIGHBOURS:
                break
            if not entry.name.startswith((".", PREFIX)) and not (beside / entry.name).exists():
                (beside / entry.name).symlink_to(entry.path)


def tree_hash(root: Path) -> str:
    """Return a hash of all below a folder: names, kinds, modes, contents, targets of links."""
    total = hashlib.sha256()
    for here, folders, files in os.walk(root):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = Path(here, name)
            status = path.lstat()
            total.update(os.fsencode(f"{path.relative_to(root)}\0{status.st_mode:o}\0"))
            if stat.S_ISLNK(status.st_mode):
                total.update(os.fsencode(path.readlink()))
            elif stat.S_ISREG(status.st_mode):
                with path.open("rb") as file:
                    while piece := file.read(copying.MEBI):
                        total.update(piece)
    return total.hexdigest()
