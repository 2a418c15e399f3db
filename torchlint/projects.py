"""The projects of a run: which project a file belongs to, and what is kept of each.

Importing this module does not import libcst: words are looked for across files before it is known
whether any of them has to be parsed.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from torchlint.imports import Imports, is_marked, root_of

if TYPE_CHECKING:
    from pathlib import Path

    from torchlint.imports import Excluded
    from torchlint.project import Project

_BUDGET = 6_000_000  # characters of source whose trees are kept: some 300 MB of memory
_TOGETHER = 2 * _BUDGET  # ... of files that were evaluated together


class Projects:
    """The projects of a run, each with the files that were parsed so far.

    Args:
        excluded: tells of a folder whether it is part of no project.

    """

    def __init__(self, excluded: Excluded) -> None:
        """Nothing is read before it is asked for."""
        self._excluded = excluded
        self._roots: dict[Path, Path] = {}
        self._parts: dict[Path, Path] = {}  # what is read of a project, by the folder of a file
        self._too_large: set[Path] = set()
        self._marked = functools.cache(is_marked)  # folders have those above them in common
        self._imports: dict[Path, Imports] = {}
        self._projects: dict[Path, Project] = {}

    def root(self, path: Path) -> Path:
        """Return the folder of the project that a file belongs to."""
        folder = path.parent
        if folder not in self._roots:
            self._roots[folder] = root_of(path, self._marked)
        return self._roots[folder]

    def imports(self, path: Path) -> Imports:
        """Return which files of a file's project import which.

        Of a project that is too large to be read, that is of its largest folder around the file
        that is not.
        """
        part = self._parts.get(path.parent)
        if part not in self._imports:
            found = self._survey(path)
            self._parts[path.parent] = part = found.root
            if part not in self._imports:
                self.release()  # files come project by project
                self._imports[part] = found
        return self._imports[part]

    def _survey(self, path: Path) -> Imports:
        root = self.root(path)
        within = [one for one in reversed(path.parents) if one.is_relative_to(root)]
        for folder in within:
            if folder in self._imports:
                return self._imports[folder]
            if folder not in self._too_large:
                found = Imports(folder, self._excluded)
                if not found.is_too_large:
                    return found
                self._too_large.add(folder)
        return Imports(root, self._excluded)

    def of(self, path: Path) -> Project:
        """Return the project of a file."""
        from torchlint.project import Project  # noqa: PLC0415 - imports libcst

        imports = self.imports(path)
        if imports.root not in self._projects:
            self._projects[imports.root] = Project(imports)
        return self._projects[imports.root]

    def announce(self, path: Path, text: str) -> None:
        """Let a file have this text from now on."""
        imports = self.imports(path)
        if imports.root in self._projects:
            self._projects[imports.root].announce(str(path), text)
        else:
            imports.replace(str(path), text)

    def release(self) -> None:
        """Forget all texts, trees and facts."""
        for project in self._projects.values():
            project.release()
        self._projects.clear()
        self._imports.clear()

    def trim(self) -> None:
        """Forget trees and facts where they take much memory; they are made again when needed.

        Files that are evaluated together stay as long as files of theirs come, up to a limit.
        """
        for project in self._projects.values():
            if project.size > _BUDGET:
                project.trim(_TOGETHER)
