"""Names of files as machine formats need them: relative to the root of the repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint.report.model import Reported


def repository_root(folder: Path) -> Path:
    """Return the closest folder that holds ``.git``, or the folder itself."""
    return next((here for here in (folder, *folder.parents) if (here / ".git").exists()), folder)


def relative_name(file: Reported, root: Path) -> str:
    """Path below the root with forward slashes; outside of it, the path as it is."""
    path = file.path or Path(file.filename)
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return path.as_posix()
