"""Which branches of a function a call passes by, as the constants that it passes decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.definitions import parameters
from torchlint.semantics.values import Function, Instance, Nothing, Number, Object, Text, Truth
from torchlint.syntax.scopes import Bind
from torchlint.training.between import conditions

if TYPE_CHECKING:
    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value

_DEEPEST = 8


def passes_by(evaluation: Evaluation, call: cst.Call, unit: Unit, node: cst.CSTNode) -> bool:
    """Whether a call of a function never gets to a node of it, by what it passes."""
    if not isinstance(unit.node, cst.FunctionDef):
        return False
    one = _Call(evaluation, call, unit.node)
    return any(
        one.truth(condition.test) is (not condition.truth)
        for condition in conditions(evaluation, node, unit.node, unit.at.file)
    )


def gets_to(evaluation: Evaluation, call: cst.Call, unit: Unit, node: cst.CSTNode) -> bool:
    """Whether a call of a function certainly gets to a node of it, by what it passes."""
    if not isinstance(unit.node, cst.FunctionDef):
        return False
    one = _Call(evaluation, call, unit.node)
    return all(
        one.truth(condition.test) is condition.truth
        for condition in conditions(evaluation, node, unit.node, unit.at.file)
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A call, and the function that it runs."""

    evaluation: Evaluation
    call: cst.Call
    function: cst.FunctionDef

    def truth(self, test: cst.BaseExpression, depth: int = 0) -> bool | None:
        """Return what a condition gives in the call, None where that is not known."""
        if depth > _DEEPEST:
            return None
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                inside = self.truth(inner, depth + 1)
                return None if inside is None else not inside
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                ends = isinstance(operator, cst.Or)
                sides = {self.truth(left, depth + 1), self.truth(right, depth + 1)}
                return ends if ends in sides else (not ends if sides == {not ends} else None)
            case cst.Comparison(left=left, comparisons=[target]):
                return self._compared(left, target)
            case cst.Name():
                bound = self.evaluation.bindings(test)
                is_plain = len(bound) == 1 and bound[0].is_plain
                if is_plain and isinstance(bound[0].value, cst.BaseExpression):
                    return self.truth(bound[0].value, depth + 1)
        found = {_is_true(one) for one in self._value(test)}
        return found.pop() if len(found) == 1 else None

    def _compared(self, left: cst.BaseExpression, target: cst.ComparisonTarget) -> bool | None:
        sides = [self._value(side) for side in (left, target.comparator)]
        is_same = isinstance(target.operator, (cst.Equal, cst.Is))
        if not is_same and not isinstance(target.operator, (cst.NotEqual, cst.IsNot)):
            return None
        if Nothing() in sides[1] and len(sides[1]) == 1 and sides[0]:
            nothing = {isinstance(one, Nothing) for one in sides[0]}
            certain = all(isinstance(one, Nothing) or _is_true(one) for one in sides[0])
            return nothing.pop() is is_same if len(nothing) == 1 and certain else None
        match sides:
            case [(Text(value=str(one)),), (Text(value=str(other)),)]:
                return (one == other) is is_same
            case [(Truth(value=bool(one)),), (Truth(value=bool(other)),)]:
                return (one is other) is is_same
        return None

    def _value(self, node: cst.BaseExpression) -> Value:
        """Return what an expression is in the call: a parameter is what the call passes."""
        bound = self.evaluation.bindings(node)
        if len(bound) == 1 and bound[0].kind is Bind.PARAMETER and isinstance(node, cst.Name):
            return self._passed(node.value)
        return self.evaluation.value(node)

    def _passed(self, word: str) -> Value:
        params = list(parameters(self.function))
        names = [one.name.value for one in params]
        func = self.evaluation.value(self.call.func)
        is_bound = any(isinstance(one, Function) and one.owner is not None for one in func)
        given, is_sure = given_to(self.evaluation, self.call, names[is_bound:])
        if word in given:
            return given[word].value if given[word].always else ()
        default = next((one.default for one in params if one.name.value == word), None)
        return self.evaluation.value(default) if is_sure else ()


def _is_true(one: object) -> bool | None:
    match one:
        case Nothing():
            return False
        case Truth(value=value, option=None) | Number(value=value) | Text(value=value):
            return None if value is None else bool(value)
        case Object() | Instance() | Function():
            return True
    return None
