"""Which files are left-over copies of another: nothing runs them, and the live one is reported.

That is the snapshot of a model in ``log/``, and what scripts keep of themselves, word for word,
beside their results.  Read off the texts, before anything is parsed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint.imports import Imports

_RUNS = re.compile(r"^(for\b|while\b|with\b|if __name__|[\w.]+\()", re.MULTILINE)
_LEADS = ("sys.path", "import_module", "__import__")
_ALIKE = 0.8  # of its lines


def is_copy(path: str, imports: Imports, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a module only repeats one of the same name, which is imported, and is not itself.

    Neither is it a script, nor does anything import it but such copies.  A script is one where the
    other stands in a folder above, and says the same.
    """
    users = imports.users(path)
    if all(_repeats_one_above(one, imports) for one in users) and not _is_led_to(path, imports):
        return True
    twins = [] if path in seen else imports.namesakes(path)
    if not twins or _RUNS.search(imports.text(path)) is not None or _is_led_to(path, imports):
        return False
    seen |= {path}
    live = (one for one in twins if _is_alike(path, one, imports) and _lives(one, path, imports))
    return any(live) and all(is_copy(one, imports, seen) for one in imports.importers(path))


def _repeats_one_above(path: str, imports: Imports) -> bool:
    above, text = os.path.dirname(path), imports.text(path)  # noqa: PTH120
    return any(
        above.startswith(f"{os.path.dirname(one)}{os.sep}") and imports.text(one) == text  # noqa: PTH120
        for one in imports.namesakes(path)
    )


def _is_alike(path: str, twin: str, imports: Imports) -> bool:
    lines = _lines(imports.text(path))
    return bool(lines) and len(lines & _lines(imports.text(twin))) >= _ALIKE * len(lines)


def _lines(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()} - {""}


def _lives(twin: str, path: str, imports: Imports) -> bool:
    """Whether a file is imported, from elsewhere than where its copy lies."""
    folder = os.path.dirname(path)  # noqa: PTH120 - as in `Imports`
    others = (os.path.dirname(one) for one in imports.importers(twin))  # noqa: PTH120
    return any(one != folder for one in others) or _is_led_to(twin, imports)


def _is_led_to(path: str, imports: Imports) -> bool:
    """Whether a file that imports by name, or adds to the places to import from, names its folder.

    Not where a module is called like the folder, which that name means then.
    """
    folder = os.path.basename(os.path.dirname(path))  # noqa: PTH119, PTH120
    if imports.namesakes(f"{folder}.py"):
        return False
    named = re.compile(rf"[\"'/.]{re.escape(folder)}[\"'/.]")
    return any(named.search(imports.text(file)) for file in imports.having(_LEADS))
