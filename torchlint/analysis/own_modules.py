"""Modules of a file whose forward pass ends with a layer: its output goes where theirs goes."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.importing import texts_of_importers
from torchlint.analysis.layer_values import SOMETHING
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchlint.analysis.classes import Class
    from torchlint.analysis.layer_values import Item, Items
    from torchlint.analysis.program import Program


class OwnModules:
    """The classes of which all instances are seen, and what their forward passes return."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._given: dict[int, set[cst.Call]] = defaultdict(set)  # by the class
        self._placed: set[cst.Call] = set()

    def clear(self) -> None:
        """Forget what was seen in the pass before."""
        self._given.clear()
        self._placed.clear()

    def is_built(self, call: cst.Call) -> bool:
        """Whether a call makes an instance of such a class."""
        return id(call) in self._classes

    def place(self, call: cst.Call) -> None:
        """Note that what becomes of an instance is followed."""
        self._placed.add(call)

    def give(self, function: cst.CSTNode, producers: Items) -> bool:
        """Note what a forward pass returns; False where it is not known who gets it."""
        owner = self._forwards.get(id(function))
        if owner is None:
            return False
        self._given[id(owner.node)] |= {one for one in producers if one is not None}
        return True

    def beyond(self, follow: Mapping[cst.Call, set[Item]]) -> list[tuple[cst.Call, set[Item]]]:
        """Return what the layers that end forward passes go into, outside of their modules."""
        outer = {one: key for key, given in self._given.items() for one in given}
        return [(one, self._after(key, follow, outer, frozenset())) for one, key in outer.items()]

    def _after(
        self,
        key: int,
        follow: Mapping[cst.Call, set[Item]],
        outer: Mapping[cst.Call, int],
        seen: frozenset[int],
    ) -> set[Item]:
        """Return what the output of a class goes into, wherever an instance of it is called."""
        found: set[Item] = set()
        for call in self._instances[key]:
            after = set(follow.get(call, ()))
            if call in outer and key not in seen:
                after |= self._after(outer[call], follow, outer, seen | {key})
            found |= after if after and call in self._placed else SOMETHING
        return found or set(SOMETHING)

    # -- which classes ------------------------------------------------------------------------

    @cached_property
    def _instances(self) -> dict[int, list[cst.Call]]:
        """All calls that construct a class of which nothing else is made, nor in other files."""
        program = self._program
        found: dict[int, list[cst.Call]] = {}
        for owner in program.classes:
            alone = "forward" in owner.methods and program.classes.named(f".{owner.name}") is owner
            if not alone or not owner.is_module or program.classes.heirs(owner):
                continue
            calls = list(self._calls(owner))
            if calls and None not in calls and not self._is_imported(owner):
                found[id(owner.node)] = [call for call in calls if call is not None]
        return found

    def _calls(self, owner: Class) -> Iterator[cst.Call | None]:
        """Yield the calls of a class; None for anything else that is done with it."""
        program = self._program
        for name in program.index.named.get(owner.name, ()):
            above = program.parent(name)
            if above is owner.node:
                continue
            if isinstance(above, cst.Call) and above.func is name:
                yield above
            elif not _is_super(program, above):
                yield None

    def _is_imported(self, owner: Class) -> bool:
        return any(owner.name in text for text in texts_of_importers(self._program))

    @cached_property
    def _classes(self) -> dict[int, int]:
        return {id(call): key for key, calls in self._instances.items() for call in calls}

    @cached_property
    def _forwards(self) -> dict[int, Class]:
        return {
            id(owner.methods["forward"]): owner
            for owner in self._program.classes
            if id(owner.node) in self._instances
        }


def _is_super(program: Program, node: cst.CSTNode | None) -> bool:
    """Whether a name is what ``super(Net, self)`` is told."""
    call = program.parent(node) if isinstance(node, cst.Arg) else None
    return isinstance(call, cst.Call) and dotted(call.func) == "super"
