"""One walk over the syntax tree: parents, nodes by type, scopes and what they bind.

The walk is iterative (a deep expression must not meet the recursion limit) and visits only
fields that carry meaning; whitespace, commas and parentheses are passed over.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import libcst as cst

from torchlint.syntax.bindings import HANDLERS
from torchlint.syntax.scopes import Bind, Binding, Scope, ScopeKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

N = TypeVar("N", bound=cst.CSTNode)

# Fields of nodes that hold layout, or a value that is no node.
LAYOUT = tuple(
    """
    whitespace lpar rpar comma leading_ header footer semicolon equal lines_after trailing lbracket
    rbracket lbrace rbrace colon dot posonly_ind first_colon second_colon separator asynchronous
    indent default_ has_trailing encoding conversion start end relative
    """.split()
)
_LEAVES = (
    cst.Name, cst.Integer, cst.Float, cst.Imaginary, cst.SimpleString, cst.FormattedStringText,
    cst.Pass, cst.Break, cst.Continue, cst.Ellipsis, cst.BaseBinaryOp, cst.BaseUnaryOp,
    cst.BaseCompOp, cst.BaseBooleanOp, cst.BaseAugOp, cst.ImportStar,
)  # fmt: skip
# What stands, in the text, before fields that libcst lists first.
_FIRST: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Arg: ("keyword",),
    cst.ClassDef: ("decorators", "name", "type_parameters", "bases", "keywords"),
    cst.ExceptHandler: ("type", "name"),
    cst.ExceptStarHandler: ("type", "name"),
    cst.MatchCase: ("pattern", "guard"),
    cst.FunctionDef: ("decorators", "name", "type_parameters", "params", "returns"),
}
_TURN = frozenset({
    cst.For, cst.While, cst.CompFor, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp,
})  # fmt: skip
_NO_NODES = frozenset({str, bool, int, type(None), cst.MaybeSentinel})
# Gives the fields of a node, each of them a child, several, or what is no node; that of one alone.
_Reader: TypeAlias = "Callable[[cst.CSTNode], Any]"


class _Fields(dict[type[cst.CSTNode], tuple[str, ...]]):
    """The fields that carry meaning, by type, the last one first, as a stack takes them.

    A dictionary, which is asked for each node: `functools.cache` takes five times as long.
    """

    def __missing__(self, kind: type[cst.CSTNode]) -> tuple[str, ...]:
        names = (item.name for item in reversed(dataclasses.fields(kind)))
        first = _FIRST.get(kind, ())
        rest = (name for name in names if not name.startswith(LAYOUT) and name not in first)
        found = self[kind] = () if issubclass(kind, _LEAVES) else (*rest, *reversed(first))
        return found


_FIELDS = _Fields()


_Around: TypeAlias = tuple[cst.CSTNode, tuple[cst.CSTNode, ...]]
_Late: TypeAlias = tuple[Scope, str, Bind, cst.CSTNode, cst.CSTNode | None, tuple[int, ...]]
_Handler: TypeAlias = "Callable[[Index, cst.CSTNode, Scope], dict[str, Scope] | None]"
# What lists a node, what binds names, what reads the fields, and whether those are several.
_Plan: TypeAlias = "tuple[Callable[[cst.CSTNode], None], _Handler | None, _Reader | None, bool]"


class Index:
    """Everything that one walk over a module finds out."""

    def __init__(self, module: cst.Module) -> None:
        """Walk the module once."""
        self.module = module
        self.nodes: list[cst.CSTNode] = []
        self._parents: dict[int, cst.CSTNode] = {}
        self._kinds: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        self._orders: dict[type[cst.CSTNode], list[int]] = {}
        self._bound: dict[int, Binding] = {}
        self._late: list[_Late] = []
        self._ends: dict[int, int] = {}
        self._nearest: dict[type[cst.CSTNode], dict[int, cst.CSTNode | None]] = {}
        self._around: dict[int, _Around] = {id(module): (module, ())}
        self._scopes: dict[int, Scope] = {}  # of Name nodes and of nodes that open a scope
        self.root = Scope(ScopeKind.MODULE, module, None)
        self._opened = [self.root]
        self._walk(module)
        self._bind_late()

    # -- questions ---------------------------------------------------------------------------

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node that holds this one, or None for the module."""
        return self._parents.get(id(node))

    def children(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Return the nodes right below this one, layout left out."""
        return reversed(list(_from_last(node)))

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Return the nodes around this one, from the inside out."""
        current: cst.CSTNode | None = node
        while (current := self._parents.get(id(current))) is not None:
            yield current

    def climb(
        self, node: cst.CSTNode, outer: cst.CSTNode | None = None
    ) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """Yield what is around a node up to something, each with its child that holds the node."""
        child = node
        for above in self.ancestors(node):
            yield above, child
            if above is outer:
                return
            child = above

    def around(self, node: cst.CSTNode) -> _Around:
        """Return the function or module that runs a node, and the loops there, the outer first."""
        passed: list[cst.CSTNode] = []
        while (found := self._around.get(id(node))) is None:
            passed.append(node)
            node = self._parents[id(node)]
        for child in reversed(passed):
            if isinstance(node, (cst.FunctionDef, cst.Lambda)):
                found = (node, ()) if child is node.body else found
            elif type(node) in _TURN and (loop := loop_of(node, child)) is not None:
                found = found[0], (*found[1], loop)
            self._around[id(child)] = found
            node = child
        return found

    def nearest(self, node: cst.CSTNode, kind: type[N]) -> N | None:
        """Return the innermost node of exactly this type around a node."""
        known = self._nearest.setdefault(kind, {})
        passed: list[int] = []
        here = id(node)
        while here not in known:
            passed.append(here)
            above = self._parents.get(here)
            if above is None or type(above) is kind:
                known[here] = above
            else:
                here = id(above)
        found = known[here]
        for one in passed:
            known[one] = found
        return found  # type: ignore[return-value]  # filed by type

    def of(self, kind: type[N]) -> list[N]:
        """All nodes of exactly this type, in the order of the walk."""
        return self._kinds.get(kind, [])  # type: ignore[return-value]  # filed by type

    @cached_property
    def _order(self) -> dict[int, int]:
        return dict(zip(map(id, self.nodes), range(len(self.nodes)), strict=True))

    def place(self, node: cst.CSTNode) -> int | None:
        """Place of the node in the walk, or None for a node that it did not meet."""
        return self._order.get(id(node))

    def order(self, node: cst.CSTNode) -> int:
        """Place of the node in the walk: a parent comes before its children."""
        return self._order[id(node)]

    def end(self, node: cst.CSTNode) -> int:
        """Return the place in the walk that follows the last node below this one."""
        found = self._ends.get(id(node))
        if found is None:
            last: cst.CSTNode | None = node
            while last is not None:
                found = self._order[id(last)] + 1
                last = next(_from_last(last), None)
            assert found is not None
            self._ends[id(node)] = found
        return found

    def inside(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether ``node`` is ``outer`` or lies below it."""
        place = self._order[id(node)]
        return self._order[id(outer)] <= place < self.end(outer)

    def below(self, node: cst.CSTNode, kind: type[N]) -> Iterator[N]:
        """Nodes of a type at or below a node, nested functions and classes included."""
        found = self.of(kind)
        orders = self._orders.get(kind)
        if orders is None:
            orders = self._orders[kind] = [self._order[id(one)] for one in found]
        first = bisect_left(orders, self._order[id(node)])
        return iter(found[first : bisect_left(orders, self.end(node), first)])

    @cached_property
    def named(self) -> dict[str, list[cst.Name]]:
        """All names by their text, attribute names and keywords included, in order."""
        found: dict[str, list[cst.Name]] = {}
        for node in self.of(cst.Name):
            found.setdefault(node.value, []).append(node)
        return found

    def scope(self, node: cst.CSTNode) -> Scope:
        """Return the scope a node's names are looked up in."""
        found = self._scopes.get(id(node))
        if found is not None and isinstance(node, cst.Name):
            return found
        child = node
        for above in self.ancestors(node):
            opened = self._scopes.get(id(above))
            if opened is not None and not isinstance(above, cst.Name) and _within(above, child):
                return opened
            child = above
        return self.root

    def bound(self, node: cst.CSTNode) -> Binding | None:
        """Return the binding that a name makes where it stands as a target."""
        return self._bound.get(id(node))

    def opened(self, node: cst.CSTNode) -> Scope:
        """Return the scope that a function, class, lambda or comprehension opens."""
        return self._scopes[id(node)]

    def release(self) -> None:
        """Cut the circles between scopes and bindings: the tree goes without the collector."""
        for scope in self._opened:
            scope.bindings.clear()

    # -- the walk ----------------------------------------------------------------------------

    def _walk(self, module: cst.Module) -> None:
        """Visit every node, a parent before its children, children in the order of the text.

        The stack holds nodes, and scopes: one that comes up holds for the nodes that follow.
        """
        nodes, parents = self.nodes, self._parents
        plans: dict[type[cst.CSTNode], _Plan] = {}
        scope = self.root
        stack: list[cst.CSTNode | Scope] = [module]
        while stack:
            node = stack.pop()
            if type(node) is Scope:
                scope = node
                continue
            kind = type(node)
            nodes.append(node)
            try:
                put, handler, read, several = plans[kind]
            except KeyError:
                put, handler, read, several = plans[kind] = self._plan(kind)
            put(node)
            if kind is cst.Name:
                self._scopes[id(node)] = scope
                continue
            if handler is not None and (inner := handler(self, node, scope)):
                self._open_fields(node, scope, inner, stack)
                continue
            if read is None:
                continue
            for value in read(node) if several else (read(node),):
                sort = type(value)
                if sort is tuple or sort is list:
                    for item in value:
                        parents[id(item)] = node
                    stack += value[::-1]
                elif sort not in _NO_NODES:
                    parents[id(value)] = node
                    stack.append(value)

    def _plan(self, kind: type[cst.CSTNode]) -> _Plan:
        """Return what is done with the nodes of a type: list, bind and read them."""
        names = _FIELDS[kind]
        read = attrgetter(*names) if names else None
        return self._kinds.setdefault(kind, []).append, HANDLERS.get(kind), read, len(names) > 1

    def _open_fields(
        self,
        node: cst.CSTNode,
        scope: Scope,
        inner: dict[str, Scope],
        stack: list[cst.CSTNode | Scope],
    ) -> None:
        """Stack the children of a node, some of whose fields have a scope of their own."""
        for name in _FIELDS[type(node)]:
            value = getattr(node, name)
            if type(value) in _NO_NODES:
                continue
            children = value if isinstance(value, (tuple, list)) else (value,)
            for item in children:
                self._parents[id(item)] = node
            opened = inner.get(name)
            stack += children[::-1] if opened is None else (scope, *children[::-1], opened)

    def _bind_late(self) -> None:
        """Bind what functions declare ``nonlocal`` before the function around them binds it."""
        late, self._late = self._late, []
        for scope, name, kind, node, value, path in late:
            assert scope.parent is not None
            owner = scope.parent.owner(name) or scope
            binding = self._bound[id(node)] = Binding(name, kind, node, value, owner, path)
            owner.bindings.setdefault(name, []).append(binding)

    def open(self, kind: ScopeKind, node: cst.CSTNode, parent: Scope) -> Scope:
        """Open the scope of a node."""
        scope = Scope(kind, node, parent)
        self._scopes[id(node)] = scope
        self._opened.append(scope)
        return scope

    def bind(
        self,
        scope: Scope,
        name: str,
        kind: Bind,
        node: cst.CSTNode,
        value: cst.CSTNode | None,
        *,
        path: tuple[int, ...] = (),
    ) -> None:
        """Note that a name gets a value in a scope, or in the one it was declared to belong to."""
        declared = scope.outer.get(name)
        if declared == "global":
            scope = scope.module()
        elif declared == "nonlocal" and scope.parent is not None:
            owner = scope.parent.owner(name)
            if owner is None or owner.kind is ScopeKind.MODULE:  # bound further down
                self._late.append((scope, name, kind, node, value, path))
                return
            scope = owner
        binding = Binding(name, kind, node, value, scope, path)
        self._bound[id(node)] = binding
        scope.bindings.setdefault(name, []).append(binding)

    def bind_target(
        self,
        scope: Scope,
        target: cst.CSTNode,
        kind: Bind,
        value: cst.CSTNode | None,
        path: tuple[int, ...] = (),
    ) -> None:
        """Bind the names of an assignment target, however deep its tuples nest."""
        todo = [(target, path)]
        while todo:
            part, where = todo.pop()
            if isinstance(part, cst.Name):
                self.bind(scope, part.value, kind, part, value, path=where)
            elif isinstance(part, (cst.Tuple, cst.List)):
                step = 0
                for place, element in enumerate(part.elements):
                    if isinstance(element, cst.StarredElement):
                        step = len(part.elements)  # what follows is counted from the end
                        self.bind_target(scope, element.value, Bind.REST, value, where)
                    else:
                        todo.append((element.value, (*where, place - step)))


def loop_of(above: cst.CSTNode, child: cst.CSTNode) -> cst.CSTNode | None:
    """Return the loop whose turn a child of a node is part of."""
    match above:
        case cst.For(body=body):
            return above if child is body else None
        case cst.While(orelse=orelse):
            return None if child is orelse else above
        case cst.CompFor(iter=over):
            return None if child is over else above
        case cst.ListComp(for_in=loop) | cst.SetComp(for_in=loop) | cst.DictComp(for_in=loop):
            return None if child is loop else loop
        case cst.GeneratorExp(for_in=loop):
            return None if child is loop else loop
    return None


def _from_last(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the children of a node, the one that the walk comes to last first."""
    for name in _FIELDS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, (tuple, list)):
            yield from reversed(value)
        elif type(value) not in _NO_NODES:
            yield value


def _within(opener: cst.CSTNode, child: cst.CSTNode) -> bool:
    """Whether a direct child of a scope-opening node is evaluated inside the new scope."""
    return child is getattr(opener, "body", child)  # a comprehension has none
