"""Which expressions a value may come from: through names, ``self.x``, branches and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_Path: TypeAlias = tuple[int, ...]
_Step: TypeAlias = tuple[cst.CSTNode, _Path]

_MOST = 200  # expressions that one question looks at


def origins(program: Program, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the expressions that a value may be, each once.

    These are calls, literals and the like.  What cannot be followed stands for itself: a name that
    a loop binds, a parameter that no call of the file gives, an attribute of another object, and
    ``x += y``.
    """
    found: dict[int, cst.CSTNode] = {}
    seen: set[tuple[int, _Path]] = set()
    todo: list[_Step] = [(node, ())]
    while todo and len(seen) < _MOST:
        step = todo.pop()
        key = (id(step[0]), step[1])
        if key in seen:
            continue
        seen.add(key)
        before = list(_before(program, *step))
        todo += before
        if not before:
            found[id(step[0])] = step[0]
    return list(found.values())


def _before(program: Program, node: cst.CSTNode, path: _Path) -> Iterator[_Step]:
    """Yield what an expression takes its value from; nothing where it makes it."""
    match node:
        case _ if program.index.bound(node) is not None:
            return  # where a loop, a ``with`` or the like binds a name
        case cst.IfExp():
            yield node.body, path
            yield node.orelse, path
        case cst.BooleanOperation():
            yield node.left, path
            yield node.right, path
        case cst.NamedExpr():
            yield node.value, path
        case cst.Tuple() | cst.List() if path:
            if len(node.elements) > path[0] >= 0 and not _has_star(node):
                yield node.elements[path[0]].value, path[1:]
        case cst.Name():
            for binding in program.flow.reaching(node):
                yield from _bound(program, binding, path)
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
            owner = program.classes.around(node)
            for store in () if owner is None else program.classes.stores(owner, name):
                if store.value is not None and not isinstance(store.value, cst.AugAssign):
                    yield store.value, (*store.path, *path)
        case cst.Call():
            target = program.calls.target(node)
            for function in (target,) if target is not None else program.calls.chosen(node):
                for item in program.returns(function) if function.name.value != "__init__" else ():
                    if item.value is not None:
                        yield item.value, path


def _bound(program: Program, binding: Binding, path: _Path) -> Iterator[_Step]:
    value = binding.value
    match binding.kind:
        case Bind.ASSIGN if value is not None:
            yield value, (*binding.path, *path)
        case Bind.PARAMETER if isinstance(value, cst.Param):
            function = program.parent(program.parent(value) or value)
            if isinstance(function, cst.FunctionDef):
                for site in program.calls.sites(function):
                    given = program.calls.passed(function, value, site) or value.default
                    yield given or value, path
        case Bind.AUGMENT if value is not None:
            yield value, path
        case _:
            yield binding.node, path


def _has_star(node: cst.Tuple | cst.List) -> bool:
    return any(isinstance(element, cst.StarredElement) for element in node.elements)
