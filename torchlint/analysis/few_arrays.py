"""Lists of a few small arrays, each made of a list of numbers: the sentences of an example."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.uses import uses_of
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

FEW = 16  # arrays
_DEPTH = 6  # names, pairs and functions that a list goes through
_LISTED = ("numpy.array", "numpy.asarray")
_ONE_HOT = ("numpy.eye", "numpy.identity")
_PLAIN = frozenset({"enumerate", "float", "int", "len", "lower", "range", "split", "strip"})
_LOOKS = frozenset({"enumerate", "join", "len", "list", "print", "range", "sorted", "zip"})
_IN_ORDER = ("enumerate", "list", "reversed", "sorted", "tuple")


def lists_few(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a list is seen to hold a few arrays at most, which are made of lists in the file.

    How long those are is not asked: to write them in Python took as long as to read them does.
    """
    found = _members(program, node, (), 0)
    return (
        bool(found)
        and sum(number for _, number in found or ()) <= FEW
        and all(_is_listed(program, array) for array, _ in found or ())
    )


def _is_listed(program: Program, node: cst.BaseExpression) -> bool:
    """``np.array([ids[word] for word in line])``, ``np.eye(n)[[1, 2]]``."""
    match node:
        case cst.Call(args=[cst.Arg(value=made), *_]):
            return program.qualified(node.func) in _LISTED and _is_list(program, made)
        case cst.Subscript(
            value=cst.Call() as rows, slice=[cst.SubscriptElement(cst.Index(value=made))]
        ):
            return program.qualified(rows.func) in _ONE_HOT and _is_list(program, made)
        case _:
            return False


def _is_list(program: Program, node: cst.BaseExpression) -> bool:
    """Whether an expression is a list that the file makes of what it has in its names."""
    match node:
        case cst.List() | cst.ListComp():
            return all(_last(call.func) in _PLAIN for call in program.index.below(node, cst.Call))
        case cst.Name():
            made = _made(program, node)
            value = None if made is None or made.path else made.value
            return isinstance(value, cst.List | cst.ListComp) and _is_list(program, value)
        case _:
            return False


def _last(func: cst.BaseExpression) -> str:
    """Return ``split`` of ``line.lower().split``, and the name of a function."""
    name = func.attr if isinstance(func, cst.Attribute) else func
    return name.value if isinstance(name, cst.Name) else ""


def _members(
    program: Program, node: cst.CSTNode, path: tuple[int, ...], depth: int
) -> list[tuple[cst.BaseExpression, int]] | None:
    """Return what a list is made of, and how often each at most; None where that is not seen."""
    if depth > _DEPTH:
        return None
    match node:
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            if any(isinstance(one, cst.StarredElement) for one in elements):
                return None
            if not path:
                return [(one.value, 1) for one in elements]
            inside = 0 <= path[0] < len(elements)
            part = elements[path[0]].value if inside else node
            return _members(program, part, path[1:], depth + 1) if inside else None
        case cst.ListComp(elt=element, for_in=cst.CompFor(inner_for_in=None, iter=iterated)):
            number = None if path else _length(program, iterated)
            return None if number is None else [(element, number)]
        case cst.Name():
            return _of_name(program, node, path, depth)
        case cst.Call():
            target = program.calls.target(node)
            results = [] if target is None else program.returns(target)
            value = results[0].value if len(results) == 1 else None
            return None if value is None else _members(program, value, path, depth + 1)
        case _:
            return None


def _of_name(
    program: Program, name: cst.Name, path: tuple[int, ...], depth: int
) -> list[tuple[cst.BaseExpression, int]] | None:
    made = _made(program, name)
    if made is None or made.value is None or not _only_grows(program, made):
        return None
    found = _members(program, made.value, (*made.path, *path), depth + 1)
    for gift in program.growth.of_binding(made):
        number = None if gift.several or path else _times(program, gift.value, made)
        if number is None or found is None:
            return None
        found = [*found, (gift.value, number)]
    return found


def _made(program: Program, name: cst.Name) -> Binding | None:
    """Return the one assignment that a name has its value from."""
    found = program.flow.reaching(name)
    return found[0] if len(found) == 1 and found[0].kind is Bind.ASSIGN else None


def _only_grows(program: Program, made: Binding) -> bool:
    """Whether a list gets no elements but by its own methods: nothing else is handed it."""
    return all(_is_look(program, use) for use in uses_of(program, made))


def _is_look(program: Program, use: cst.Name) -> bool:
    match program.parent(use):
        case cst.Attribute() | cst.For() | cst.CompFor() | cst.Return() | cst.Subscript():
            return True
        case cst.Element() as member:
            pair = program.parent(member)
            return isinstance(pair, cst.Tuple) and isinstance(program.parent(pair), cst.Return)
        case cst.Arg() as given:
            call = program.parent(given)
            if not isinstance(call, cst.Call):
                return False
            known = program.qualified(call.func).startswith(("torch.", "numpy."))
            return known or _last(call.func) in _LOOKS
        case _:
            return False


def _times(program: Program, node: cst.CSTNode, made: Binding) -> int | None:
    """Return how often a node runs at most after a binding, in the same function."""
    if program.function(node) is not program.function(made.node):
        return None
    product = 1
    for loop in loops_around(program, node):
        if program.index.inside(made.node, loop):
            break
        number = _length(program, loop.iter) if isinstance(loop, cst.For) else None
        if number is None:
            return None
        product *= number
    return product


def _length(program: Program, node: cst.CSTNode, depth: int = 0) -> int | None:
    """Return how many members a literal of the file has that never grows, or ``range(5)``."""
    match node:
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            starred = any(isinstance(one, cst.StarredElement) for one in elements)
            return None if starred else len(elements)
        case cst.Name() if depth < _DEPTH:
            made = _made(program, node)
            if made is None or made.value is None or made.path:
                return None
            if program.growth.of_binding(made) or not _only_grows(program, made):
                return None
            return _length(program, made.value, depth + 1)
        case cst.Call(func=cst.Name(value="range"), args=[only]):
            return program.arguments.number(only.value)
        case cst.Call(func=cst.Name(value=name), args=[cst.Arg(value=inner), *_]):
            return _length(program, inner, depth + 1) if name in _IN_ORDER else None
        case _:
            return None
