"""Which files are put aside: kept for a look back, and started by nobody.

Read off the path and the imports, before anything is parsed: ``backup/train.py``, ``net_bak.py``.
What is called old may still be what runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.copies import is_copy

if TYPE_CHECKING:
    from torchlint.imports import Imports

_WORDS = "backup|bak|deprecated|obsolete|unused"
_FOLDER = re.compile(rf"_?(?:{_WORDS}|backups|archived?|attic|trash)", re.IGNORECASE)
_STEM = re.compile(rf"(?:{_WORDS})_.*|.*_(?:{_WORDS})", re.IGNORECASE)


def is_left_over(path: str, imports: Imports) -> bool:
    """Whether a file is only kept for a look back: put aside, or a copy of a live one."""
    return is_put_aside(path, imports) or is_copy(path, imports)


def is_put_aside(path: str, imports: Imports) -> bool:
    """Whether a file is put aside: by its name, or that of a folder, and no other file imports it.

    What only files of the same kind import is put aside with them.
    """
    return _is_named(path, imports.root) and all(
        _is_named(one, imports.root) for one in imports.users(path)
    )


def _is_named(path: str, root: Path) -> bool:
    *folders, file = Path(path).relative_to(root).parts
    return any(map(_FOLDER.fullmatch, folders)) or _STEM.fullmatch(file[:-3]) is not None
