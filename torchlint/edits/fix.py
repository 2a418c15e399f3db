"""What a rule says should change, and how safe that is.

A rule speaks of nodes (`Rewrite`); `rewrites.resolve` looks up where those nodes stand in the text
and turns them into edits of it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint.edits.rewrites import Rewrite
    from torchlint.syntax.text import Edit


class Safety(enum.IntEnum):
    """Whether a fix may be applied without reading it."""

    SAFE = 1  # --fix: same values on every step, same random stream, same state_dict keys
    UNSAFE = 2  # --unsafe-fixes: right under a stated condition, or changes what it says it changes

    @property
    def word(self) -> str:
        """The name used in reports (ruff's ``applicability``)."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, eq=False)
class Fix:
    """A change that a rule proposes: all of its rewrites are made, or none.

    ``title`` is an imperative of a few words; ``changes`` says what an unsafe fix changes.
    """

    title: str
    safety: Safety
    rewrites: tuple[Rewrite, ...]
    changes: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedFix:
    """A fix as edits of the text, in the order of their place, none of them overlapping."""

    title: str
    safety: Safety
    edits: tuple[Edit, ...]
    changes: str = ""
