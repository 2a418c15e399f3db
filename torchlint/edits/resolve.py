"""A fix as edits of the text: what its rewrites come to together."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from torchlint.edits import arguments, imports
from torchlint.edits.fix import ResolvedFix
from torchlint.edits.rewrites import AddArgument, AddImport
from torchlint.syntax.text import Edit

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.edits.fix import Fix
    from torchlint.syntax.places import Places


def resolve(fix: Fix, places: Places) -> ResolvedFix:
    """Turn a fix into edits of the text.

    Keywords that several rewrites add to one call are added together, and so are imports; what
    several insert at one place becomes one edit, in the order of the rewrites.

    Raises:
        Unplaceable: one of its rewrites cannot be made.
        ValueError: its rewrites get in each other's way.

    """
    try:
        edits = _resolved(fix, places, apart=True)
    except ValueError:  # another rewrite changes what stands between the arguments of a call
        edits = _resolved(fix, places, apart=False)
    return ResolvedFix(fix.title, fix.safety, edits, fix.changes)


def _resolved(fix: Fix, places: Places, *, apart: bool) -> tuple[Edit, ...]:
    added: dict[int, tuple[cst.Call, list[tuple[str, str]]]] = {}
    imported: list[tuple[str, str | None]] = []
    found: list[Edit] = []
    for rewrite in fix.rewrites:
        if isinstance(rewrite, AddArgument):
            pairs = added.setdefault(id(rewrite.call), (rewrite.call, []))[1]
            pairs.append((rewrite.keyword, rewrite.code))
        elif isinstance(rewrite, AddImport):
            imported.append((rewrite.module, rewrite.name))
        else:
            found += rewrite.edits(places)
    for call, pairs in added.values():
        found += arguments.add(places, call, tuple(pairs), apart=apart)
    found += imports.add(places, imported)
    return _merged(found)


def _merged(found: list[Edit]) -> tuple[Edit, ...]:
    """Return the edits in the order of their place, one edit for each place.

    Raises:
        ValueError: two of them replace the same text.

    """
    edits: dict[tuple[int, int], Edit] = {}
    for edit in found:
        key = (edit.start, edit.end)
        if edit.start == edit.end and key in edits:
            edits[key] = Edit(*key, edits[key].content + edit.content)
        elif edits.setdefault(key, edit) != edit:
            raise ValueError("two of its rewrites replace the same code")
    ordered = tuple(sorted(edits.values()))
    if any(first.end > second.start for first, second in pairwise(ordered)):
        raise ValueError("its rewrites overlap")
    return ordered
