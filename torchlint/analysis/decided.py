"""Reads that a function returns to callers of which each decides by the value at once.

``loss = learner.observe(x)``, and ``assert not math.isnan(loss)`` right after it: whoever reads
later, the host has to know in that very step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.unused import is_unused
from torchlint.imports import MANY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync

_DEPTH = 3  # functions that return what another has returned
_ASKS = frozenset(
    f"{module}.is{what}"
    for module in ("math", "numpy", "torch")
    for what in ("nan", "inf", "finite")
)
_KEEPS = frozenset({"abs", "bool", "float", "int", "round"})
_NO_VALUES = (cst.Is, cst.IsNot, cst.In, cst.NotIn)


def is_decided_by_callers(program: Program, sync: Sync) -> bool:
    """Whether a function returns what it reads, and each of its callers decides by that."""
    return _is_returned(program, sync.node, 0)


def _all_decide(program: Program, function: cst.FunctionDef, depth: int) -> bool:
    if depth == _DEPTH or function.decorators:
        return False
    sites = [site for site in _sites(program, function) if not _is_idle(*site)]
    return bool(sites) and all(_decides(home, call, depth) for home, call in sites)


def _is_idle(home: Program, call: cst.Call) -> bool:
    """Whether a call stands in what nothing uses, or in a module that no file imports."""
    project, path = home.project, home.path
    if is_unused(home, call):
        return True
    if project is None or path is None or home.function(call) is None:
        return False
    started = "__main__" in home.text or not project.imports.having(("__main__",))
    return not started and not project.imports.importers(str(path))


def _decides(home: Program, call: cst.Call, depth: int) -> bool:
    """Whether a caller asks for what a call returns, by a name or not, or returns it to such."""
    if _is_asked(home, call) or _is_returned(home, call, depth + 1):
        return True
    match home.smallest_statement(call):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)], value=value):
            uses = _uses(home, name) if value is call else []
        case _:
            return False
    block = home.parent(home.statement(call))
    return any(
        (_is_asked(home, use) and home.parent(home.statement(use)) is block)
        or _is_returned(home, use, depth + 1)
        for use in uses
    )


def _uses(home: Program, name: cst.Name) -> list[cst.Name]:
    """Return where a name is used after it was bound."""
    return [
        use
        for use in home.index.named.get(name.value, ())
        if home.index.order(use) > home.index.order(name)
        and any(one.node is name for one in home.flow.reaching(use))
    ]


def _is_returned(home: Program, node: cst.BaseExpression, depth: int) -> bool:
    """Whether a function returns a value, or a sum and the like of it, to callers that decide."""
    line, function = home.smallest_statement(node), home.function(node)
    whole: cst.CSTNode = node
    while isinstance(above := home.parent(whole), cst.BinaryOperation):
        whole = above
    if function is None or not isinstance(line, cst.Return) or line.value is not whole:
        return False
    return _all_decide(home, function, depth)


def _is_asked(home: Program, node: cst.BaseExpression) -> bool:
    """Whether a value decides something: ``assert not math.isnan(x)``, ``if x > 9: ...``."""
    child: cst.CSTNode = node
    for above in home.index.ancestors(node):
        match above:
            case cst.If(test=test) | cst.While(test=test) | cst.Assert(test=test):
                return child is test
            case cst.Call(func=func) if child is not func:
                if home.qualified(func) not in _ASKS and not _keeps(home, func):
                    return False
            case cst.Comparison():
                if any(isinstance(one.operator, _NO_VALUES) for one in above.comparisons):
                    return False
            case (
                cst.Arg() | cst.UnaryOperation() | cst.BooleanOperation() | cst.BinaryOperation()
                | cst.ComparisonTarget()
            ):  # fmt: skip
                pass
            case _:
                return False
        child = above
    return False


def _keeps(home: Program, func: cst.BaseExpression) -> bool:
    return isinstance(func, cst.Name) and func.value in _KEEPS and home.is_builtin(func)


# -- who calls a method ---------------------------------------------------------------------------


def _sites(program: Program, function: cst.FunctionDef) -> list[tuple[Program, cst.Call]]:
    """Return the calls that may run a function; of a method, by its name alone where need be."""
    owner = program.classes.around(function)
    if owner is None or owner.methods.get(function.name.value) is not function:
        return program.sites_everywhere(function)
    name = function.name.value
    return [
        (home, call)
        for home in _calling(program, name)
        for call, func in home.method_calls(name)
        if _may_run(home, call, func, program, owner)
    ]


def _calling(program: Program, name: str) -> list[Program]:
    """Return the files that call a method of a name; none where they are too many to tell."""
    project = program.project
    if project is None or program.path is None:
        return [program]
    paths = sorted(project.imports.having((f".{name}(",)))
    found = [project.program(path) for path in paths] if len(paths) <= MANY else []
    return [home for home in found if home is not None]


def _may_run(
    home: Program, call: cst.Call, func: cst.Attribute, program: Program, owner: Class
) -> bool:
    """Whether a call may run a method of a class: on ``self``, of its kin, or on who knows what."""
    other: tuple[Program, Class | None] | None = None
    match func.value:
        case cst.Name("self") | cst.Call(func=cst.Name("super")):
            other = home, home.classes.around(call)
        case _:
            own, far = home.calls.target(call), home.calls.elsewhere(call)
            if own is not None:
                other = home, home.classes.around(own)
            elif far is not None:
                other = far.program, far.program.classes.around(far.function)
    if other is None:
        return not home.qualified(func)
    return other[1] is not None and _are_kin((program, owner), (other[0], other[1]))


def _are_kin(one: tuple[Program, Class], other: tuple[Program, Class]) -> bool:
    """Whether one of two classes is, or descends from, the other."""
    return any(found is other[1] for found in _lineage(*one)) or any(
        found is one[1] for found in _lineage(*other)
    )


def _lineage(program: Program, owner: Class) -> Iterator[Class]:
    """Yield a class and its bases, also those of other files of the project."""
    todo, seen = [(program, owner)], set[int]()
    while todo:
        home, current = todo.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        for base in current.bases:
            found = home.class_named(base)
            if found is not None:
                todo.append(found)
