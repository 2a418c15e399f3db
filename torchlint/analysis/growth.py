"""What lists are given after they are made: ``xs = []`` and ``xs.append(x)`` in a loop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_METHODS = {"append": 0, "appendleft": 0, "insert": 1, "extend": 0,
            "extendleft": 0}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Gift:
    """One thing a list is given: an element, or several at once."""

    receiver: cst.BaseExpression
    value: cst.BaseExpression
    several: bool


class Growth:
    """The calls of one module that make lists longer."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._cache: dict[int, list[Gift]] = {}

    def of_binding(self, binding: Binding) -> list[Gift]:
        """Return what the list of one binding of a name is given."""
        found = self._cache.get(id(binding))
        if found is None:
            found = self._cache[id(binding)] = self._given(binding)
        return found

    def _given(self, binding: Binding) -> list[Gift]:
        flow, index = self._program.flow, self._program.index
        found: list[Gift] = []
        for gift in self._to_names.get(binding.name, ()):
            assert isinstance(gift.receiver, cst.Name)
            if index.scope(gift.receiver).owner(binding.name) is not binding.scope:
                continue
            if binding in flow.reaching(gift.receiver):
                found.append(gift)
        return found

    def of_attribute(self, name: str) -> list[Gift]:
        """Return what the lists kept under an attribute are given, whatever object keeps them."""
        return self._to_attributes.get(name, [])

    @cached_property
    def _found(self) -> tuple[dict[str, list[Gift]], dict[str, list[Gift]]]:
        names: dict[str, list[Gift]] = {}
        attributes: dict[str, list[Gift]] = {}
        for call, func in self._program.method_calls(*_METHODS):
            place = _METHODS[func.attr.value]
            if len(call.args) != place + 1 or any(a.star or a.keyword for a in call.args):
                continue
            gift = Gift(func.value, call.args[place].value, func.attr.value.startswith("extend"))
            match func.value:
                case cst.Name(value=name):
                    names.setdefault(name, []).append(gift)
                case cst.Attribute(attr=cst.Name(value=name)):
                    attributes.setdefault(name, []).append(gift)
                case _:
                    pass
        return names, attributes

    @property
    def _to_names(self) -> dict[str, list[Gift]]:
        return self._found[0]

    @property
    def _to_attributes(self) -> dict[str, list[Gift]]:
        return self._found[1]
