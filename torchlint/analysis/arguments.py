"""Arguments of calls by parameter, with keyword dictionaries followed.

``DataLoader(ds, **kwargs)`` is answered by looking at every way ``kwargs`` was built; what
cannot be followed is `Given.UNSURE`, on which a rule stays silent.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import Dictionaries, Keys, literal
from torchlint.analysis.torch_api import LIBRARY_SIGNATURES, SIGNATURES
from torchlint.syntax.scopes import Binding

if TYPE_CHECKING:
    from torchlint.analysis.program import Program


_DEPTH = 4  # names that stand for names


def keywords(call: cst.Call) -> dict[str, cst.BaseExpression]:
    """Return what a call passes by keyword."""
    return {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}


class Given(enum.Enum):
    """Whether a call passes a parameter."""

    NO = enum.auto()
    YES = enum.auto()
    UNSURE = enum.auto()  # through something that could not be followed, or on some paths only


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """One parameter of a call: passed or not, by which node, and with what value.

    ``arg`` is the argument of the call itself (None where a dictionary carries it).
    ``values`` holds the expressions the parameter may get; empty where it is not passed.
    """

    given: Given
    arg: cst.Arg | None = None
    values: tuple[cst.BaseExpression, ...] = ()

    @property
    def absent(self) -> bool:
        """Certainly not passed."""
        return self.given is Given.NO

    def literal(self) -> str | None:
        """Return the text of the one literal that is passed, such as ``True`` or ``0``, or None."""
        if self.given is Given.YES and len(self.values) == 1:
            return literal(self.values[0])
        return None


_ABSENT = Argument(Given.NO)
_UNSURE = Argument(Given.UNSURE)


class Arguments:
    """Parameters of the calls of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self.dictionaries = Dictionaries(program)

    def of(self, call: cst.Call, name: str, function: str | None = None) -> Argument:
        """Return the argument of a call for a parameter of a function in `SIGNATURES`.

        Args:
            call: the call.
            name: the parameter.
            function: qualified name of what is called; found by name where not given.

        """
        function = self._program.qualified(call.func) if function is None else function
        signature = SIGNATURES.get(function, LIBRARY_SIGNATURES.get(function, ()))
        positional = signature[: signature.index("*")] if "*" in signature else signature
        place = 0
        unpacked: Argument | None = None
        for arg in call.args:
            if arg.star == "**":
                found = _look_up(self.dictionaries.keys(arg.value), name)
                if found.given is Given.YES:
                    return found
                if found.given is Given.UNSURE:
                    unpacked = found
            elif arg.star == "*":
                if name in positional[place:]:
                    unpacked = _UNSURE
                place = len(positional)
            elif arg.keyword is not None:
                if arg.keyword.value == name:
                    return Argument(Given.YES, arg, (arg.value,))
            else:
                if place < len(positional) and positional[place] == name:
                    return Argument(Given.YES, arg, (arg.value,))
                place += 1
        return unpacked or _ABSENT

    def number(self, node: cst.CSTNode | None, depth: int = 0) -> int | None:
        """Return the whole number that an expression always is, through constants of the file."""
        if isinstance(node, cst.Integer):
            return int(node.value, 0)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            sides = [self.number(side, depth + 1) for side in (node.left, node.right)]
            return None if None in sides else math.prod(side or 0 for side in sides)
        if not isinstance(node, cst.Name) or depth > _DEPTH:
            return None
        match self._program.flow.reaching(node):
            case (Binding(is_plain=True, value=value),):
                return self.number(value, depth + 1)
            case _:
                return None


def _look_up(keys: Keys, name: str) -> Argument:
    """Return the parameter as an unpacked dictionary passes it."""
    if name in keys.certain:
        return Argument(Given.YES, None, keys.certain[name] + keys.possible.get(name, ()))
    if name in keys.possible:
        return Argument(Given.UNSURE, None, keys.possible[name])
    return _ABSENT if keys.complete else _UNSURE


__all__ = ["Argument", "Arguments", "Given", "literal"]
