"""What a rule is, and what it reports.

Importing this module does not import libcst: the table of rules is read before it is
known whether any file has to be parsed.
"""

from __future__ import annotations

import enum
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    import libcst as cst

    from torchlint.edits.fix import Fix, ResolvedFix, Safety
    from torchlint.syntax.text import Span
    from torchlint.training.script import Script

    Check: TypeAlias = Callable[[Script], Iterable["Finding"]]


class Severity(enum.IntEnum):
    """How bad a finding is; the order is used by ``--fail-on``."""

    INFO = 1  # advice, or it holds under an assumption that the file does not show
    WARNING = 2  # costs time or memory
    ERROR = 3  # training is wrong, or crashes

    @property
    def word(self) -> str:
        """The name used in reports, on the command line and in configuration."""
        return self.name.lower()


class Level(enum.IntEnum):
    """What the fixes of a rule may do to what a script computes, as the rule declares it."""

    E0 = 0  # nothing: every loss and every weight is the same, bit for bit
    E1 = 1  # other rounding
    E2 = 2  # another random stream, or lower precision: the same within the spread of seeds
    E3 = 3  # it is meant to compute something else


class Needs(enum.IntEnum):
    """What a machine must have for a rule's fix to gain anything on it: so many GPUs."""

    NOTHING = 0
    GPU = 1
    GPUS = 2  # more than one

    def lacking(self, gpus: int) -> str:
        """Return what a machine with so many GPUs lacks, in words; nothing where it has enough."""
        if gpus >= self:
            return ""
        return "it acts on a GPU only" if self is Needs.GPU else "it acts on several GPUs only"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules.

    ``words`` is the gate: the rule cannot fire in a file unless, for every entry, at least one
    of its alternatives occurs literally in the text.  ``group`` places the rule's fixes
    in the documented order (a lower group is applied first).  The check is the function that
    bears the rule's name in the module of that name in the package ``package``.  ``level`` is what
    its unsafe fixes may do to what is computed; safe ones do nothing to it.  ``needs`` is what
    a machine must have for them to gain anything: elsewhere neither verify nor bench times them.
    ``in_tests``: it speaks of tests as well, being about what is wrong and not about what takes
    time.
    """

    code: str
    name: str
    summary: str
    group: int
    words: tuple[tuple[str, ...], ...]
    severity: Severity = Severity.WARNING
    fix: Safety | None = None
    package: str = "torchlint_rules"
    level: Level = Level.E0
    needs: Needs = Needs.NOTHING
    in_tests: bool = False

    @property
    def module(self) -> str:
        """Dotted name of the module that holds the check."""
        return f"{self.package}.{self.function}"

    @property
    def function(self) -> str:
        """Name of the check: the rule's name as an identifier."""
        return self.name.replace("-", "_")


def rule_code(code: str) -> str:
    """Return a code without the letter of its sub-case: the code of the rule."""
    return code.rstrip(string.ascii_lowercase)


class Nearby(tuple[str, ...]):
    """Words of a gate that may also stand in a file which imports this one, or which it imports.

    A helper reads a tensor; the file that trains and names the GPU is another, or one that the
    importing file imports as well.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What a check yields: a node, why it is there, and perhaps a fix.

    ``severity`` overrides the rule's own; ``case`` is the letter of a sub-case (TL303**b**).
    ``help`` says what to do where there is no fix, or what to know where there is one.  ``more``
    are further nodes of the same statement that it speaks of: it reaches over all of them.
    """

    node: cst.CSTNode
    message: str
    fix: Fix | None = None
    severity: Severity | None = None
    case: str = ""
    help: str = ""
    more: tuple[cst.CSTNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; ``row`` and ``column`` count from 1, columns in characters."""

    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding with its place in the file: what reports show and what the fix loop works on.

    ``code`` carries the sub-case letter.  ``suppression_row`` is the row on which a
    suppression comment is written by ``--add-ignore`` (ruff's ``noqa_row``).
    """

    filename: str
    code: str
    name: str
    message: str
    severity: Severity
    span: Span
    location: Location
    end_location: Location
    suppression_row: int
    fix: ResolvedFix | None = None
    help: str = ""
