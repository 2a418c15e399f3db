"""What crosses scopes: cells that some give values to and others read, and the scopes themselves.

There are four kinds of cell: a name of an outer scope, what a node made (attributes, elements),
what a function returns or yields, and a parameter.  Each giver owns its contribution and replaces
it when it runs again; the value is their union.  Who read a cell runs again when it changes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from torchlint.semantics.values import NEVER, At

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.semantics.sets import Sets
    from torchlint.semantics.values import Value
    from torchlint.syntax.module import Module
    from torchlint.syntax.scopes import Scope

Giver: TypeAlias = "At | str"

REPLACES, ENDS = 4, 30


@dataclass(slots=True, eq=False)
class Cell:
    """What several places give a value to, and who read it."""

    value: Value = NEVER
    given: dict[Giver, Value] = field(default_factory=dict)
    readers: dict[int, None] = field(default_factory=dict)  # scopes, by their numbers

    def give(self, giver: Giver, value: Value, sets: Sets, *, adds: bool = False) -> bool:
        """Take a contribution in the place of the giver's last one, or beside it; True if new."""
        before = self.given.get(giver)
        if before is not None and (adds or not value):
            value = sets.union(before, value)
        if before is value:
            return False
        self.given[giver] = value
        union = sets.union(self.value, value) if before is None else sets.all(self.given.values())
        changed = union is not self.value
        self.value = union
        return changed


Key = TypeVar("Key")
Cells: TypeAlias = defaultdict[Key, Cell]


def new_cells() -> Cells[str]:
    """Return cells by name, which are made when they are asked for."""
    return defaultdict(Cell)


@dataclass(slots=True, eq=False)
class Unit:
    """A scope that is evaluated in one pass: a module, a function or a lambda."""

    number: int  # in the order of their making
    at: At
    node: cst.Module | cst.FunctionDef | cst.Lambda
    module: Module
    scope: Scope
    parameters: Cells[str] = field(default_factory=new_cells)
    modes: Cells[str] = field(default_factory=new_cells)  # what holds around its calls
    returned: Cell = field(default_factory=Cell)
    yielded: Cell = field(default_factory=Cell)
    callers: dict[At, tuple[Unit, cst.Call]] = field(default_factory=dict)
    is_module_method: bool = False  # of a class of models, or inside of one
    is_recorded: bool = False  # of these: it runs layers with gradients on
    is_unrecorded: bool = False  # it runs layers with gradients off
    runs: int = 0
    order: int = 0  # by the end of its first run: callees come before callers
    is_queued: bool = False

    @property
    def adds(self) -> bool:
        """Whether what it gives is added to what it gave before, so that cycles end."""
        return self.runs > REPLACES

    @property
    def rests(self) -> bool:
        """Whether it has run as often as it may."""
        return self.runs >= ENDS
