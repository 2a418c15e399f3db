"""What is done with a loader wherever it goes: only iterated, or asked how it draws its samples."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.importing import is_imported
from torchlint.analysis.reached_returns import may_reach
from torchlint.analysis.uses import uses_of
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_MOST = 60  # places that one question looks at
_ITERATE = frozenset({"len", "enumerate", "iter", "next", "zip", "list", "tuple", "print", "tqdm",
                      "track", "cycle", "islice", "chain"})  # fmt: skip
_SAMPLING = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last"})
_HARMLESS = frozenset({"dataset", "__iter__", "__len__", "pin_memory", "num_workers"})


class Use(enum.IntEnum):
    """The most that is done with a loader."""

    ITERATED = enum.auto()
    UNKNOWN = enum.auto()  # it goes somewhere that is not seen
    ASKED = enum.auto()  # for its batch size or its samplers


def use_of(program: Program, loader: cst.Call) -> Use:
    """Return what is done with what a ``DataLoader(...)`` call makes, in any file."""
    found, seen = Use.ITERATED, set[int]()
    todo: list[tuple[Program, cst.BaseExpression]] = [(program, loader)]
    while todo and len(seen) < _MOST:
        home, node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        use, further = _at(home, node)
        found = max(found, use)
        todo += further
    return max(found, Use.UNKNOWN) if todo else found


_Places = list[tuple["Program", cst.BaseExpression]]


def _at(program: Program, node: cst.BaseExpression) -> tuple[Use, _Places]:
    """Return what is done with a loader where it stands, and where else it then is."""
    match program.parent(node):
        case cst.For(iter=iterated) | cst.CompFor(iter=iterated) if iterated is node:
            return Use.ITERATED, []
        case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
            asked = Use.ASKED if name in _SAMPLING else Use.UNKNOWN
            return Use.ITERATED if name in _HARMLESS else asked, []
        case cst.Arg() as arg:
            call = program.parent(arg)
            return _passed(program, call, node) if isinstance(call, cst.Call) else (Use.UNKNOWN, [])
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            return _named(program, program.index.bound(name))
        case cst.Expr():
            return Use.ITERATED, []
        case cst.Return() as statement:
            return _returned(program, statement, None)
        case cst.Element() as element:
            return _in_tuple(program, element)
        case _:
            return Use.UNKNOWN, []


def _in_tuple(program: Program, element: cst.Element) -> tuple[Use, _Places]:
    """``return train_loader, test_loader``."""
    above = program.parent(element)
    statement = None if above is None else program.parent(above)
    if isinstance(above, cst.Tuple) and isinstance(statement, cst.Return):
        place = next(i for i, one in enumerate(above.elements) if one is element)
        return _returned(program, statement, place)
    return Use.UNKNOWN, []


def _named(program: Program, binding: Binding | None) -> tuple[Use, _Places]:
    if binding is None or is_imported(program, binding):
        return Use.UNKNOWN, []
    return Use.ITERATED, [(program, name) for name in uses_of(program, binding)]


def _passed(program: Program, call: cst.Call, node: cst.BaseExpression) -> tuple[Use, _Places]:
    """Follow a loader into the function that it is passed to."""
    target = program.calls.target(call)
    home, function = program, target
    if target is None and (other := program.calls.elsewhere(call)) is not None:
        home, function = other.program, other.function
    if function is None:
        known = dotted(call.func).rpartition(".")[2] in _ITERATE
        return Use.ITERATED if known else Use.UNKNOWN, []
    params = function.params
    for param in (*params.posonly_params, *params.params, *params.kwonly_params):
        if home.calls.passed(function, param, call) is node:
            bound = home.index.opened(function).bindings.get(param.name.value, ())
            return _named(home, next((b for b in bound if b.value is param), None))
    return Use.UNKNOWN, []


def _returned(program: Program, statement: cst.Return, place: int | None) -> tuple[Use, _Places]:
    """Follow a loader to where its function is called."""
    function = program.function(statement)
    if function is None or program.is_property(function):
        return Use.UNKNOWN, []
    sites = [(program, site) for site in program.calls.sites(function)]
    if program.project is not None:
        sites += program.project.callers(program, function)
    sites = [one for one in sites if may_reach(program, function, one[1], statement)]
    places: _Places = []
    for home, site in sites:
        found = _received(home, site, place)
        if found is None:
            return Use.UNKNOWN, []
        places += found
    return Use.ITERATED if sites else Use.UNKNOWN, places


def _received(program: Program, site: cst.Call, place: int | None) -> _Places | None:
    """Return the places of what a call gives, or of one of several; None where not seen."""
    if place is None:
        return [(program, site)]
    match program.parent(site):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=elements))]):
            starred = any(isinstance(one, cst.StarredElement) for one in elements)
            known = not starred and place < len(elements)
            binding = program.index.bound(elements[place].value) if known else None
            use, places = _named(program, binding)
            return places if use is Use.ITERATED else None
        case _:
            return None
