"""Which file of a project an import means, by the paths of its files alone."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from torchlint.semantics.names import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class Paths:
    """The Python files of a project.

    Args:
        files: their paths, absolute or all relative to ``root``.
        root: the folder of the project, "" where paths are relative to it.
        added: further folders that the project puts on ``sys.path``.

    """

    def __init__(self, files: Collection[str], root: str = "", added: Collection[str] = ()) -> None:
        self.files = frozenset(files)
        self._root = root
        self._added = added
        self.folders = frozenset(self._all_folders())
        stems = (os.path.basename(file)[:-3] for file in self.files)  # noqa: PTH119 - thousands
        self.heads = frozenset((*stems, *(os.path.basename(one) for one in self.folders)))  # noqa: PTH119
        self._starts: dict[tuple[str, str], str | None] = {}

    def _all_folders(self) -> set[str]:
        """Return the folders that hold Python files, at any depth."""
        found: set[str] = set()
        for file in self.files:
            folder = os.path.dirname(file)  # noqa: PTH120 - thousands of them
            while folder not in found and len(folder) >= len(self._root):
                found.add(folder)
                folder = os.path.dirname(folder)  # noqa: PTH120
        return found

    def find(self, path: str, name: str) -> tuple[str, str] | None:
        """Return the file that a dotted name means when it is imported in a file, and the rest.

        ``"engine.train"`` is ``("/project/engine.py", "train")``, and so is ``".engine.train"`` in
        a file beside it.  What tables know by its public names is the library, not a file.
        """
        folder = os.path.dirname(path)  # noqa: PTH120 - asked for every import of a project
        words = name.lstrip(".")
        parts = words.split(".") if words else []
        if words != name:
            for _ in range(len(name) - len(words) - 1):
                folder = os.path.dirname(folder)  # noqa: PTH120
            return self._below(folder, parts)
        if not parts or parts[0] not in self.heads or parts[0] in LIBRARIES:
            return None
        start = self._start(folder, parts[0])
        return None if start is None else self._below(start, parts)

    def _start(self, folder: str, head: str) -> str | None:
        """Return the folder that holds a module.

        The file's own, one above it, ``src``, or one that the project puts on ``sys.path``.
        """
        key = (folder, head)
        if key not in self._starts:
            found = [here for here in self._above(folder) if self._holds(here, head)]
            if not found and self._holds(source := _join(self._root, "src"), head):
                found = [source]
            if not found and head not in sys.stdlib_module_names:
                found = [one for one in self._added if self._holds(one, head)]
            # the tests of a package may stand in a package with a folder of the same name,
            # and a module in a package of its name: `lpips.x` in `lpips`, beside `lpips.py`
            named = os.path.basename(folder) == head  # noqa: PTH119
            outer = (
                one
                for one in found
                if (one == folder and not named) or _join(one, "__init__.py") not in self.files
            )
            self._starts[key] = next(outer, found[0] if found else None)
        return self._starts[key]

    def _above(self, folder: str) -> Iterator[str]:
        """Yield a folder and those above it, up to the root."""
        yield folder
        while len(folder) > len(self._root):
            folder = os.path.dirname(folder)  # noqa: PTH120
            yield folder

    def _holds(self, folder: str, name: str) -> bool:
        stem = _join(folder, name)
        return f"{stem}.py" in self.files or stem in self.folders

    def _below(self, folder: str, parts: list[str]) -> tuple[str, str] | None:
        """Follow the parts of a name down from a folder, packages before modules."""
        for place, part in enumerate(parts):
            stem = _join(folder, part)
            if stem not in self.folders:
                file = f"{stem}.py"
                if file in self.files:
                    return file, ".".join(parts[place + 1 :])
                init = _join(folder, "__init__.py")
                return (init, ".".join(parts[place:])) if init in self.files else None
            folder = stem
        init = _join(folder, "__init__.py")
        return (init, "") if init in self.files else None


def _join(folder: str, name: str) -> str:
    return f"{folder}{os.sep}{name}" if folder else name
