"""Batches whose entries are replaced by their copies: ``batch[key] = batch[key].to(device)``.

The name still stands for what the loader gave, and what it holds is elsewhere from there on.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.entries import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_MOVES = frozenset({"to", "cuda"})


class Refilled:
    """The entries that one module replaces in what its names hold."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program

    def before(self, use: cst.Name, key: str | None = None) -> Iterator[cst.Call]:
        """Yield the moves whose results stand in an entry, or in every entry, of a name at a use.

        Without a key, every entry: those of one key alone leave the others as they are.
        """
        program, function, meant = self._program, self._program.function(use), None
        for kept, stored, move in self._stores.get(use.value, ()):
            if program.function(kept) is not function:
                continue
            if program.index.end(move) > program.index.order(use) or stored not in (None, key):
                continue
            meant = meant or program.flow.reaching(use)
            if program.flow.reaching(kept) == meant:
                yield move
        for param in self._handed_to(use) if key is None else ():
            yield from self._of_every_entry(param)

    def _of_every_entry(self, param: cst.Param) -> Iterator[cst.Call]:
        """Yield the moves that a function stores in what it is passed for a parameter."""
        for kept, stored, move in self._stores.get(param.name.value, ()):
            meant = self._program.flow.reaching(kept)
            if stored is None and [one.value for one in meant] == [param]:
                yield move

    def _handed_to(self, use: cst.Name) -> Iterator[cst.Param]:
        """Yield the parameters of functions of this file that were given the same value before."""
        program = self._program
        if not self._stores:
            return
        meant, function = program.flow.reaching(use), program.function(use)
        for other in program.index.named.get(use.value, ()):
            if program.index.order(other) >= program.index.order(use):
                break
            arg = program.parent(other)
            call = program.parent(arg) if isinstance(arg, cst.Arg) else None
            if not isinstance(call, cst.Call) or program.function(other) is not function:
                continue
            if program.index.inside(use, call) or program.flow.reaching(other) != meant:
                continue
            target = program.calls.target(call)
            if target is None:
                continue
            for param in target.params.params:
                if program.calls.passed(target, param, call) is other:
                    yield param

    @cached_property
    def _stores(self) -> dict[str, list[tuple[cst.Name, str | None, cst.Call]]]:
        """The moves that are stored in entries of what has a name: by that name, with the key."""
        found: dict[str, list[tuple[cst.Name, str | None, cst.Call]]] = {}
        for statement in self._program.index.of(cst.Assign):
            match statement:
                case cst.Assign(
                    targets=[
                        cst.AssignTarget(target=cst.Subscript(value=cst.Name() as kept) as to)
                    ],
                    value=cst.Call() as value,
                ) if _may_move(value):
                    found.setdefault(kept.value, []).append((kept, key_of(to), value))
        return found


def _may_move(call: cst.Call) -> bool:
    """``value.to(device)``, and ``to_var(value)``, of which the caller asks what it gives."""
    match call.func:
        case cst.Attribute(attr=cst.Name(method)):
            return method in _MOVES
        case cst.Name():
            return len(call.args) > 0
        case _:
            return False
