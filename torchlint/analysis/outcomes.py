"""What a condition comes to: by constants, and by what the calls of a function pass.

``if False:``, and ``if mask is not None:`` of what every call leaves at its default.
"""

from __future__ import annotations

import ast
import re
from itertools import product
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.analysis.classes import Store
from torchlint.analysis.decisions import COMPARED, truth
from torchlint.analysis.options import cannot_be_off
from torchlint.analysis.reach import callee
from torchlint.analysis.values import Device, Kind
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

    Sites: TypeAlias = Callable[[Program, cst.FunctionDef], list[tuple[Program, cst.Call]]]
    # of what a call passes, in the file of the call
    Holds: TypeAlias = Callable[[Program, cst.BaseExpression | None, cst.Call], bool]

_MOST = 10  # calls that are looked at
_DEPTH = 3  # functions that pass on what they are given
_WORDS = {"None": None, "True": True, "False": False}
_COMPARED: dict[type[cst.BaseCompOp], Callable[[Any, Any], bool]] = {
    **COMPARED,
    cst.Is: lambda one, other: type(one) is type(other) and one == other,
    cst.IsNot: lambda one, other: type(one) is not type(other) or one != other,
    cst.In: lambda one, several: one in several,
    cst.NotIn: lambda one, several: one not in several,
}
# What a comparison with a number comes to that the other side never is.
_NEVER_EQUAL = {cst.Equal: False, cst.NotEqual: True}
# What is never None.
_SOMETHING = (
    cst.BaseNumber, cst.BaseString, cst.BaseList, cst.BaseDict, cst.BaseSet, cst.Tuple,
    cst.Comparison, cst.BinaryOperation, cst.UnaryOperation, cst.Lambda, cst.GeneratorExp,
)  # fmt: skip
# What may not come to a part of it.
_PUTS_OFF = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.BaseComp)
# What a comparison with None comes to of what is not None.
_IS_NONE = {cst.Is: False, cst.IsNot: True}


def outcome(
    program: Program, test: cst.BaseExpression, sites: Sites, depth: int = 0
) -> bool | None:
    """Whether a condition always holds, or never does; None where that is not known.

    ``sites`` returns the calls of a function that count, each with its file; none where there are
    others.
    """
    return truth(test, lambda part: _known(program, part, sites, depth))


def _known(program: Program, test: cst.BaseExpression, sites: Sites, depth: int) -> bool | None:
    match test:
        case cst.Comparison(left=left, comparisons=[only]):
            compare = _COMPARED.get(type(only.operator))
            right = _values(program, only.comparator, sites, depth) if compare else None
            lefts = _values(program, left, sites, depth) if right else None
            if compare is None or not right:
                return None
            if not lefts:
                if right == [None] and _is_always_given(program, left, sites, depth):
                    return _IS_NONE.get(type(only.operator))
                never = _is_no_remainder(program, left, right, sites, depth)
                return _NEVER_EQUAL.get(type(only.operator)) if never else None
            try:
                return _same([compare(*pair) for pair in product(lefts, right)])
            except TypeError:
                return None
        case cst.Attribute(value=cst.Name() as name, attr=cst.Name("is_cuda")):
            return False if _is_always_on_host(program, name, sites) else None
        case cst.Attribute() if cannot_be_off(program, test):
            return True
        case _:
            return _same([bool(one) for one in _values(program, test, sites, depth)])


def _is_no_remainder(
    program: Program, node: cst.BaseExpression, numbers: list[object], sites: Sites, depth: int
) -> bool:
    """Whether a number is none that a remainder may be: ``step % 30`` is never 220."""
    match node:
        case cst.BinaryOperation(operator=cst.Modulo(), right=right):
            divisors = _values(program, right, sites, depth)
        case _:
            return False
    return bool(divisors) and all(
        isinstance(number, int) and isinstance(divisor, int) and (number >= divisor > 0)
        for number, divisor in product(numbers, divisors)
    )


def _same(found: list[bool]) -> bool | None:
    return found[0] if len({*found}) == 1 else None


def _values(
    program: Program, node: cst.BaseExpression | None, sites: Sites, depth: int
) -> list[object]:
    """Return the constants that an expression may be; none where it may be anything."""
    match node:
        case cst.Integer() | cst.Float() | cst.SimpleString():
            return [ast.literal_eval(node.value)]
        case cst.UnaryOperation(
            operator=cst.Minus(), expression=cst.Integer() | cst.Float() as one
        ):
            return [-ast.literal_eval(one.value)]
        case cst.Name(value="None" | "True" | "False" as word):
            return [_WORDS[word]]
        case cst.Name():
            return _given(program, node, sites, depth)
        case cst.Attribute(value=cst.Name("self")):
            return _switched(program, node) or _made_with(program, node, sites, depth)
        case (
            cst.Tuple(elements=elements) | cst.List(elements=elements) | cst.Set(elements=elements)
        ):
            parts = [_values(program, one.value, sites, _DEPTH) for one in elements]
            return [tuple(one for part in parts for one in part)] if all(parts) else []
        case _:
            return []


def _switched(program: Program, node: cst.Attribute) -> list[object]:
    """Return what a switch in the code is: ``self.shuffled = False``, the only place that sets it.

    By the texts of a project that nobody else uses, where its name is set or written once.
    """
    match _stored(program, node):
        case cst.Name(value=constant) if constant in _WORDS and program.unreached.is_closed:
            return [_WORDS[constant]] if _is_set_once(program, node.attr.value) else []
        case _:
            return []


def _made_with(program: Program, node: cst.Attribute, sites: Sites, depth: int) -> list[object]:
    """Return what an object is made with: ``self.ratio = ratio``, in all that makes one."""
    given, owner = _stored(program, node), program.classes.around(node)
    found = param_of(program, given) if isinstance(given, cst.Name) else None
    if found is None or owner is None or owner.methods.get("__init__") is not found[0]:
        return []
    made = _given_in(program, *found, _makers(program, owner.node), sites=sites, depth=depth)
    return made if made and _is_set_once(program, node.attr.value) else []


def _stored(program: Program, node: cst.Attribute) -> cst.CSTNode | None:
    """Return what the one line of its class sets an attribute of ``self`` to."""
    owner = program.classes.around(node)
    match None if owner is None else owner.stores.get(node.attr.value):
        case [Store(value=value, path=())]:
            return value
        case _:
            return None


def _is_set_once(program: Program, name: str) -> bool:
    """Whether the texts of a project set a name, or write it, in a single place."""
    if program.project is None:
        return False
    imports = program.project.imports
    sets = re.compile(
        rf"\b{name}\s*(?::[^=\n]*)?[-+*/|&]?=(?!=)|\b{name}\s*,[^\n]*=|[\"']{name}[\"']"
    )
    texts = map(imports.text, imports.having((name,)))
    return sum(len(sets.findall(text)) for text in texts) == 1


def _makers(program: Program, owner: cst.ClassDef) -> list[tuple[Program, cst.Call]]:
    """Return the calls of a class, where only the project makes its objects, and by its name."""
    name, unreached = owner.name.value, program.unreached
    elsewhere = unreached.mentions(name) if unreached.is_named_only(owner) else None
    if elsewhere is None:
        return []
    own = [use for use in unreached.own_uses(name) if not program.index.inside(use, owner)]
    uses = [*((program, use) for use in own), *elsewhere]
    calls = [(home, home.parent(use)) for home, use in uses]
    made = [(home, one) for home, one in calls if isinstance(one, cst.Call)]
    called = {id(one.func) for _, one in made}
    return made if all(id(use) in called for _, use in uses) else []


def _is_always_given(program: Program, node: cst.BaseExpression, sites: Sites, depth: int) -> bool:
    """Whether every call of a function gives a parameter something that is not None."""
    if not isinstance(node, cst.Name):
        return False

    def is_given(home: Program, passed: cst.BaseExpression | None, call: cst.Call) -> bool:
        return _was_used(home, passed, call) or _is_something(home, passed, sites, depth + 1)

    return depth < _DEPTH and _always_gets(program, node, sites, is_given)


def _is_something(
    program: Program, node: cst.BaseExpression | None, sites: Sites, depth: int
) -> bool:
    """Whether an expression is not None, as far as it is seen where its parts come from.

    What a function requires is given, unless one of its calls passes None.
    """
    match node:
        case None:
            return False
        case cst.Name(value="None" | "True" | "False" as word):
            return word != "None"
        case cst.Name():
            bindings = program.flow.reaching(node)
            return bool(bindings) and all(
                _binds_something(program, one, sites, depth) for one in bindings
            )
        case cst.IfExp(body=body, orelse=orelse):
            return all(_is_something(program, one, sites, depth) for one in (body, orelse))
        case cst.BooleanOperation(operator=cst.Or(), right=right):
            return _is_something(program, right, sites, depth)
        case cst.BooleanOperation():
            return False
        case cst.Subscript(slice=entries):
            return any(isinstance(one.slice, cst.Slice) for one in entries)
        case _ if isinstance(node, _SOMETHING):
            return True
        case _:
            value = program.value(node)
            return value.known and value.kind is not Kind.NONE


def _binds_something(program: Program, one: Binding, sites: Sites, depth: int) -> bool:
    made = one.value
    if depth >= _DEPTH:  # the name of a loop may lead back to itself
        return False
    if isinstance(made, cst.Param):
        function = program.function(made)
        if function is None or made.default is not None:
            return False
        calls = sites(program, function)
        return len(calls) <= _MOST and all(
            _is_something(home, program.calls.passed(function, made, call), sites, depth + 1)
            for home, call in calls
        )
    if one.is_plain and isinstance(made, cst.BaseExpression):
        return _is_something(program, made, sites, depth + 1)
    return one.kind is Bind.ASSIGN and _is_given_back(program, one, sites, depth)


def _is_given_back(program: Program, one: Binding, sites: Sites, depth: int) -> bool:
    """``x, mask = squeeze(x, mask)`` of a function that returns something in that place."""
    found = callee(program, one.value) if isinstance(one.value, cst.Call) else None
    if found is None or len(one.path) != 1:
        return False
    home, function = found
    returned = home.returns(function)
    return bool(returned) and all(
        isinstance(line.value, cst.Tuple)
        and one.path[0] < len(line.value.elements)
        and _is_something(home, line.value.elements[one.path[0]].value, sites, depth + 1)
        for line in returned
    )


def _is_always_on_host(program: Program, name: cst.Name, sites: Sites) -> bool:
    """Whether every call of a function gives a parameter a tensor that is on the host."""
    return _always_gets(program, name, sites, _is_on_host)


def _always_gets(program: Program, name: cst.Name, sites: Sites, holds: Holds) -> bool:
    """Whether something holds of what every call of a function passes for a parameter."""
    found = param_of(program, name)
    if found is None:
        return False
    function, param = found
    calls = sites(program, function)
    return 0 < len(calls) <= _MOST and all(
        holds(home, program.calls.passed(function, param, call), call) for home, call in calls
    )


def _is_on_host(program: Program, node: cst.BaseExpression | None, _: cst.Call) -> bool:
    value = program.value(node)
    return value.kind is Kind.TENSOR and value.device is Device.CPU


def _was_used(program: Program, node: cst.BaseExpression | None, call: cst.Call) -> bool:
    """``teacher.eval()`` in a line of a block around a call of ``train(teacher)``, before it."""
    if not isinstance(node, cst.Name):
        return False
    index, bound = program.index, {*program.flow.reaching(node)}
    around = {id(above) for above in index.ancestors(call)}
    for use in index.named[node.value]:
        above, statement = program.parent(use), program.smallest_statement(use)
        line = program.parent(statement)
        if (
            isinstance(above, cst.Attribute)
            and above.value is use
            and isinstance(line, cst.SimpleStatementLine)
            and id(program.parent(line)) in around
            and index.order(use) < index.order(call)
            and not any(
                isinstance(one, _PUTS_OFF) and index.inside(one, statement)
                for one in index.ancestors(use)
            )
            and {*program.flow.reaching(use)} == bound
        ):
            return True
    return False


def param_of(program: Program, name: cst.Name) -> tuple[cst.FunctionDef, cst.Param] | None:
    """Return the parameter of a single value that a name stands for, with its function."""
    bindings = program.flow.reaching(name)
    param = bindings[0].value if len(bindings) == 1 else None
    function = program.function(param) if isinstance(param, cst.Param) else None
    if function is None or not isinstance(param, cst.Param):
        return None
    params = function.params
    single = (*params.posonly_params, *params.params, *params.kwonly_params)
    # else it is of a lambda, or takes several
    return (function, param) if any(param is one for one in single) else None


def _given(program: Program, name: cst.Name, sites: Sites, depth: int) -> list[object]:
    """Return the constants that a parameter gets in the calls of its function."""
    found_param = param_of(program, name)
    if found_param is None or depth >= _DEPTH:
        return []
    return _given_in(
        program, *found_param, sites(program, found_param[0]), sites=sites, depth=depth
    )


def _given_in(
    program: Program,
    function: cst.FunctionDef,
    param: cst.Param,
    calls: list[tuple[Program, cst.Call]],
    *,
    sites: Sites,
    depth: int,
) -> list[object]:
    """Return the constants that a parameter gets in some calls."""
    found: list[object] = []
    for home, call in calls if len(calls) <= _MOST else ():
        node, where = program.calls.passed(function, param, call), home
        if node is None and not any(arg.star for arg in call.args):
            node, where = param.default, program
        values = _values(where, node, sites, depth + 1)
        if not values:
            return []
        found += values
    return found
