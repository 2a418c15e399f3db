"""What a call runs of a function, by the constants that it passes: ``loaders.run("test")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.decisions import may_come_to, truth
from torchlint.analysis.dictionaries import literal
from torchlint.syntax.scopes import Bind, Binding

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_UNKNOWN = object()
_NAMES = {"True": True, "False": False, "None": None}


def may_reach(
    program: Program, function: cst.FunctionDef, site: cst.Call, node: cst.CSTNode
) -> bool:
    """Whether what stands at a node of a function of this file may be run by one of its calls.

    The call may stand in any file.  Where its constants leave it open, it may.
    """
    return Way(program, function, site).comes_to(node)


class Way:
    """The way that one call takes through a function, as far as what it passes is constant.

    Without a call nothing is known of the parameters.
    """

    def __init__(
        self, program: Program, function: cst.FunctionDef, site: cst.Call | None = None
    ) -> None:
        self._program = program
        self._function = function
        self._site = site

    def comes_to(self, node: cst.CSTNode) -> bool:
        """Whether the call may run what stands at a node of the function."""
        return may_come_to(self._program, node, self._known)

    def is_chosen(self, node: cst.CSTNode) -> bool:
        """Whether a node stands in a branch that the call takes by what it passes."""
        child = node
        for above in self._program.index.ancestors(node):
            match above:
                case cst.FunctionDef():
                    return False
                case cst.If(test=test) if child is not test and self.truth(test) is not None:
                    return True
                case _:
                    child = above
        return False

    def truth(self, test: cst.BaseExpression) -> bool | None:
        """Whether a condition of the function holds in the call; None where that is open."""
        return truth(test, self._known)

    def _known(self, test: cst.BaseExpression) -> bool | None:
        match test:
            case cst.Comparison(left=left, comparisons=[only]):
                return self._compared(left, only)
            case cst.Name() if (made := self._made(test)) is not None:
                return self.truth(made)
            case _:
                value = self._value(test)
                return None if value is _UNKNOWN else bool(value)

    def _compared(self, left: cst.BaseExpression, only: cst.ComparisonTarget) -> bool | None:
        value, other = self._value(left), only.comparator
        candidates = [self._value(other)]
        if isinstance(only.operator, cst.In | cst.NotIn):
            if not isinstance(other, cst.Tuple | cst.List | cst.Set):
                return None
            candidates = [self._value(element.value) for element in other.elements]
        if value is _UNKNOWN or _UNKNOWN in candidates:
            return None
        match only.operator:
            case cst.Equal() | cst.Is() | cst.In():
                return value in candidates
            case cst.NotEqual() | cst.IsNot() | cst.NotIn():
                return value not in candidates
            case _:
                return None

    def _value(self, node: cst.BaseExpression | None) -> object:
        """Return a constant, or what the call passes for a parameter that stays what it is."""
        if not isinstance(node, cst.Name) or node.value in _NAMES:
            return _constant(node)
        made = self._made(node)
        if made is not None:
            return self._value(made)
        match self._program.flow.reaching(node):
            case (binding,) if binding.kind is Bind.PARAMETER:
                return self._passed(binding.value)
            case _:
                return _UNKNOWN

    def _made(self, name: cst.Name) -> cst.BaseExpression | None:
        """Return what a name of the function is made of: ``train = phase == "train"``."""
        order = self._program.index.order
        match self._program.flow.reaching(name):
            case (Binding(is_plain=True, value=cst.BaseExpression() as made),) if (
                self._program.function(made) is self._function and order(made) < order(name)
            ):
                return made
            case _:
                return None

    def _passed(self, param: cst.CSTNode | None) -> object:
        params = self._function.params
        if self._site is None or param not in (
            *params.posonly_params,
            *params.params,
            *params.kwonly_params,
        ):
            return _UNKNOWN
        assert isinstance(param, cst.Param)
        given = self._program.calls.passed(self._function, param, self._site)
        if given is None and any(arg.star for arg in self._site.args):
            return _UNKNOWN
        return _constant(param.default if given is None else given)


def _constant(node: cst.BaseExpression | None) -> object:
    match node:
        case cst.SimpleString():
            text = literal(node)
            return _UNKNOWN if text is None else text
        case cst.Integer(value=text) if text.isdigit() and len(text) < 10:  # not `0x10`
            return int(text)
        case cst.Name(value=name) if name in _NAMES:
            return _NAMES[name]
        case _:
            return _UNKNOWN
