"""Which nodes bind names, and which open scopes: what the walk over a tree asks of each type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind, Scope, ScopeKind

if TYPE_CHECKING:
    from torchlint.syntax.index import Index


def _function(index: Index, node: Any, scope: Scope) -> dict[str, Scope]:
    index.bind(scope, node.name.value, Bind.DEFINITION, node.name, node)
    inner = index.open(ScopeKind.FUNCTION, node, scope)
    _parameters(index, node.params, inner)
    return {"body": inner}


def _lambda(index: Index, node: Any, scope: Scope) -> dict[str, Scope]:
    inner = index.open(ScopeKind.LAMBDA, node, scope)
    _parameters(index, node.params, inner)
    return {"body": inner}


def _parameters(index: Index, params: cst.Parameters, scope: Scope) -> None:
    found = [*params.posonly_params, *params.params, *params.kwonly_params]
    extras = (params.star_arg, params.star_kwarg)
    found += [extra for extra in extras if isinstance(extra, cst.Param)]
    for param in found:
        index.bind(scope, param.name.value, Bind.PARAMETER, param, param)


def _class(index: Index, node: Any, scope: Scope) -> dict[str, Scope]:
    index.bind(scope, node.name.value, Bind.DEFINITION, node.name, node)
    return {"body": index.open(ScopeKind.CLASS, node, scope)}


def _type(index: Index, node: Any, scope: Scope) -> None:
    """``type T = ...``; ``def f[T]``: bound where the function is, which is near enough."""
    index.bind(scope, node.name.value, Bind.DECLARE, node.name, None)


def _comprehension(index: Index, node: Any, scope: Scope) -> dict[str, Scope]:
    inner = index.open(ScopeKind.COMPREHENSION, node, scope)
    return dict.fromkeys(("elt", "key", "value", "for_in"), inner)


def _comp_for(index: Index, node: Any, scope: Scope) -> dict[str, Scope]:
    index.bind_target(scope, node.target, Bind.FOR, node.iter)
    first = not isinstance(index.parent(node), cst.CompFor)
    return {"iter": scope.parent} if first and scope.parent is not None else {}


def _assign(index: Index, node: Any, scope: Scope) -> None:
    for target in node.targets:
        index.bind_target(scope, target.target, Bind.ASSIGN, node.value)


def _ann_assign(index: Index, node: Any, scope: Scope) -> None:
    kind = Bind.DECLARE if node.value is None else Bind.ASSIGN
    index.bind_target(scope, node.target, kind, node.value)


def _augmented(index: Index, node: Any, scope: Scope) -> None:
    index.bind_target(scope, node.target, Bind.AUGMENT, node)


def _named(index: Index, node: Any, scope: Scope) -> None:
    index.bind_target(scope.function(), node.target, Bind.ASSIGN, node.value)


def _for(index: Index, node: Any, scope: Scope) -> None:
    index.bind_target(scope, node.target, Bind.FOR, node.iter)


def _with(index: Index, node: Any, scope: Scope) -> None:
    for item in node.items:
        if item.asname is not None:
            index.bind_target(scope, item.asname.name, Bind.WITH, item.item)


def _import(index: Index, node: Any, scope: Scope) -> None:
    if isinstance(node.names, cst.ImportStar):
        scope.stars.append(node)
        return
    kind = Bind.IMPORT if isinstance(node, cst.Import) else Bind.FROM
    for alias in node.names:
        named = alias.asname and dotted(alias.asname.name)
        index.bind(scope, named or dotted(alias.name).partition(".")[0], kind, alias, alias)


def _outer(index: Index, node: Any, scope: Scope) -> None:
    del index
    word = "global" if isinstance(node, cst.Global) else "nonlocal"
    for item in node.names:
        scope.outer[item.name.value] = word


def _except(index: Index, node: Any, scope: Scope) -> None:
    if node.name is not None:
        index.bind_target(scope, node.name.name, Bind.EXCEPT, None)


def _match(index: Index, node: Any, scope: Scope) -> None:
    name = node.rest if isinstance(node, cst.MatchMapping) else getattr(node, "name", None)
    if isinstance(name, cst.Name):
        index.bind(scope, name.value, Bind.MATCH, name, None)


def _delete(index: Index, node: Any, scope: Scope) -> None:
    index.bind_target(scope, node.target, Bind.DELETE, None)


HANDLERS = {
    cst.FunctionDef: _function,
    cst.ClassDef: _class,
    cst.Lambda: _lambda,
    cst.ListComp: _comprehension,
    cst.SetComp: _comprehension,
    cst.DictComp: _comprehension,
    cst.GeneratorExp: _comprehension,
    cst.CompFor: _comp_for,
    cst.Assign: _assign,
    cst.AnnAssign: _ann_assign,
    cst.AugAssign: _augmented,
    cst.NamedExpr: _named,
    cst.For: _for,
    cst.With: _with,
    cst.Import: _import,
    cst.ImportFrom: _import,
    cst.Global: _outer,
    cst.Nonlocal: _outer,
    cst.ExceptHandler: _except,
    cst.ExceptStarHandler: _except,
    cst.MatchAs: _match,
    cst.MatchStar: _match,
    cst.MatchMapping: _match,
    cst.Del: _delete,
    cst.TypeVar: _type,
    cst.TypeVarTuple: _type,
    cst.ParamSpec: _type,
    cst.TypeAlias: _type,
}
