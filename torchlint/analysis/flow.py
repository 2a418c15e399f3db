"""Which bindings of a name can be the ones that a use of it sees.

Works on the structure of the statements, backwards from the use, without building a graph:
inside the scope of the use it follows order, branches and loops; for a name of an outer scope
every binding counts, since the time of the call is not known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.syntax.scopes import Bind, Binding, ScopeKind

if TYPE_CHECKING:
    from torchlint.syntax.index import Index

_LEAVES_BLOCK = (cst.Return, cst.Raise, cst.Continue, cst.Break)
_CONDITIONAL = (cst.BooleanOperation, cst.IfExp, cst.CompFor, cst.BaseComp)
_Block: TypeAlias = cst.Module | cst.BaseSuite | cst.SimpleStatementLine


@dataclass(frozen=True, slots=True)
class Reach:
    """The bindings that may be seen, and whether one of them certainly was made."""

    bindings: tuple[Binding, ...]
    certain: bool


_AROUND = frozenset({
    cst.IndentedBlock, cst.Module, cst.SimpleStatementLine, cst.SimpleStatementSuite, cst.For,
    cst.While, cst.If, cst.With, cst.Try, cst.TryStar, cst.ExceptHandler, cst.ExceptStarHandler,
    cst.MatchCase,
})  # fmt: skip
_NOTHING = Reach((), certain=False)
_LEFT = Reach((), certain=True)  # the block never reaches its end


@dataclass(frozen=True, slots=True, eq=False)
class _Bindings:
    """The bindings of one name in one scope, by their place in the file.

    ``foreign`` are those another function makes through ``global`` or ``nonlocal``: they can
    happen at any time.  ``named`` are those of ``:=``, which bind in the midst of an expression.
    """

    every: tuple[Binding, ...]
    orders: list[int]
    foreign: tuple[Binding, ...]
    parameters: tuple[Binding, ...]
    named: tuple[Binding, ...]

    def between(self, first: int, last: int) -> tuple[Binding, ...]:
        orders = self.orders
        start = bisect_left(orders, first)
        return self.every[start : bisect_left(orders, last, start)]


class Flow:
    """Reaching bindings in one module."""

    def __init__(self, index: Index) -> None:
        """Nothing is computed before it is asked for."""
        self._index = index
        self._cache: dict[int, tuple[Binding, ...]] = {}
        self._sorted: dict[int, _Bindings] = {}
        self._starts: dict[int, list[int]] = {}
        self._left: dict[int, bool] = {}

    def reaching(self, use: cst.Name) -> tuple[Binding, ...]:
        """Bindings that a use of a name may see; empty where the name is not bound in the file."""
        found = self._cache.get(id(use))
        if found is None:
            found = self._cache[id(use)] = self._reaching(use)
        return found

    def _reaching(self, use: cst.Name) -> tuple[Binding, ...]:
        scope = self._index.scope(use)
        owner = scope.owner(use.value)
        if owner is None:
            return ()
        every = owner.bindings[use.value]
        if len(every) == 1:
            return (every[0],)
        if owner.kind is ScopeKind.COMPREHENSION or owner is not scope.function():
            return tuple(every)
        return self._backwards(use, every, owner.node)

    def before(self, statement: cst.CSTNode, name: str) -> tuple[Binding, ...]:
        """Bindings of a name that hold just before a statement."""
        scope = self._index.scope(statement).function()
        owner = scope.owner(name)
        if owner is None:
            return ()
        if owner is not scope:
            return tuple(owner.bindings[name])
        return self._backwards(statement, owner.bindings[name], scope.node)

    # -- backwards from a use ----------------------------------------------------------------

    def _backwards(
        self, use: cst.CSTNode, every: list[Binding], border: cst.CSTNode
    ) -> tuple[Binding, ...]:
        known = self._arranged(every)
        seen = dict.fromkeys(known.foreign)
        if known.named:
            reach = self._named_before(use, known)
            seen.update(dict.fromkeys(reach.bindings))
            if reach.certain:
                return tuple(seen)
        node = use
        for above in self._index.ancestors(use):
            reach = self._around(node, above, known)
            seen.update(dict.fromkeys(reach.bindings))
            if reach.certain:
                return tuple(seen)
            if above is border:
                break
            node = above
        seen.update(dict.fromkeys(known.parameters))
        return tuple(seen)

    def _arranged(self, every: list[Binding]) -> _Bindings:
        found = self._sorted.get(id(every))
        if found is not None:
            return found
        index = self._index
        own = every[0].scope
        ranked = sorted(every, key=lambda b: index.order(b.node))
        parameters = tuple(b for b in ranked if b.kind is Bind.PARAMETER)
        found = self._sorted[id(every)] = _Bindings(
            tuple(ranked),
            [index.order(b.node) for b in ranked],
            tuple(
                b for b in ranked
                if b.kind is not Bind.PARAMETER and index.scope(b.node).function() is not own
            ),
            parameters,
            tuple(b for b in ranked if isinstance(index.parent(b.node), cst.NamedExpr)),
        )  # fmt: skip
        return found

    def _named_before(self, use: cst.CSTNode, known: _Bindings) -> Reach:
        """Return what ``:=`` bound earlier in the very expression of the use."""
        border: cst.CSTNode = use
        for above in self._index.ancestors(use):
            if isinstance(above, (cst.BaseSuite, cst.BaseCompoundStatement)):
                break
            border = above
        place = self._index.order(use)
        found = tuple(
            b
            for b in known.named
            if self._index.order(b.node) < place
            and self._index.inside(b.node, border)
            and not self._binds(b, use)
        )
        return Reach(found, certain=any(self._is_sure(b.node, use) for b in found))

    def _binds(self, binding: Binding, use: cst.CSTNode) -> bool:
        """Whether the use stands in the value that a ``:=`` is about to bind."""
        expression = self._index.parent(binding.node)
        return expression is not None and self._index.inside(use, expression)

    def _is_sure(self, node: cst.CSTNode, use: cst.CSTNode | None) -> bool:
        """Whether ``:=`` runs whenever its statement does (or whenever the use does)."""
        for above in self._index.ancestors(node):
            if isinstance(above, (cst.BaseStatement, cst.BaseSmallStatement)):
                return True
            if use is not None and self._index.inside(use, above):
                return True
            if isinstance(above, _CONDITIONAL):
                return False
        return True

    def _around(self, node: cst.CSTNode, above: cst.CSTNode, known: _Bindings) -> Reach:
        """Find what one surrounding node adds for a use inside its child ``node``."""
        if type(above) not in _AROUND:  # an expression: that many cases cost a while
            return _NOTHING
        match above:
            case (
                cst.IndentedBlock()
                | cst.Module()
                | cst.SimpleStatementLine()
                | cst.SimpleStatementSuite()
            ):
                return self._run(above, known, self._index.order(node))
            case cst.For() | cst.While() if node is above.body:
                return self._from_loop_head(above, known)
            case cst.While() if node is above.test:
                return Reach(self._inside(above.body, known), certain=False)
            case cst.For() | cst.While() if node is above.orelse:
                return Reach(self._inside(above, known), certain=False)
            case cst.If() if node is not above.test:
                return self._header(above.test, known)
            case cst.With() if above.items:
                head = known.between(self._index.order(above.items[0]), self._index.order(node))
                return Reach(head, certain=any(b.kind is Bind.WITH for b in head))
            case cst.Try() | cst.TryStar() if node is not above.body:
                return self._after_failure(node, above, known)
            case cst.ExceptHandler() | cst.ExceptStarHandler() if node is above.body:
                head = known.between(self._index.order(above), self._index.order(node))
                return Reach(head, certain=bool(head))
            case cst.MatchCase() if node is above.body:
                head = known.between(self._index.order(above), self._index.order(node))
                return Reach(head, certain=bool(head))
            case _:
                return _NOTHING

    def _from_loop_head(self, loop: cst.For | cst.While, known: _Bindings) -> Reach:
        if isinstance(loop, cst.For):
            target = self._inside(loop.target, known)
            if target:
                return Reach(target, certain=True)
            head = self._header(loop.iter, known)
        else:
            head = self._header(loop.test, known)
            if head.certain:
                return head
        # what an earlier turn of the loop left behind
        return Reach(head.bindings + self._inside(loop.body, known), certain=False)

    def _header(self, expression: cst.BaseExpression, known: _Bindings) -> Reach:
        """Return what ``:=`` in the condition of a statement binds."""
        if not known.named:
            return _NOTHING
        found = self._inside(expression, known)
        return Reach(found, certain=any(self._is_sure(b.node, None) for b in found))

    def _after_failure(
        self, node: cst.CSTNode, above: cst.Try | cst.TryStar, known: _Bindings
    ) -> Reach:
        """Return what holds in a handler, in the ``else`` or in the ``finally`` of a ``try``."""
        if node is above.orelse:
            return self._run(above.body, known)
        bound = self._inside(above.body, known)
        if node is above.finalbody:
            bound = known.between(self._index.order(above), self._index.order(node))
        return Reach(bound, certain=False)

    def _inside(self, node: cst.CSTNode, known: _Bindings) -> tuple[Binding, ...]:
        return known.between(self._index.order(node), self._index.end(node))

    # -- forwards through statements ---------------------------------------------------------

    def _run(self, block: _Block, known: _Bindings, stop: int | None = None) -> Reach:
        """Return what running a block, to a place in it or to its end, binds the name to."""
        if stop is None:
            if self._leaves(block):
                return _LEFT
            stop = self._index.end(block)
        first = self._index.order(block)
        seen: tuple[Binding, ...] = ()
        while True:
            place = bisect_left(known.orders, stop) - 1
            if place < 0 or known.orders[place] < first:
                return Reach(seen, certain=False)
            statement = self._statement_at(block, known.orders[place])
            reach = self._statement(statement, known)
            seen += reach.bindings
            if reach.certain:
                return Reach(seen, certain=True)
            stop = self._index.order(statement)

    def _statement_at(self, block: _Block, order: int) -> cst.CSTNode:
        starts = self._starts.get(id(block))
        if starts is None:
            starts = self._starts[id(block)] = [self._index.order(one) for one in block.body]
        return block.body[bisect_right(starts, order) - 1]

    def _leaves(self, block: _Block) -> bool:
        """Whether a block ends in the midst: by return, raise, continue or break of its own."""
        found = self._left.get(id(block))
        if found is None:
            found = self._left[id(block)] = any(_is_leaving(one) for one in block.body)
        return found

    def _statement(self, node: cst.CSTNode, known: _Bindings) -> Reach:
        """Return what running a statement to its end leaves the name bound to."""
        inside = self._inside(node, known)
        match node:
            case cst.SimpleStatementLine():
                return self._run(node, known)
            case cst.BaseSmallStatement():
                return self._small(inside)
            case cst.If():
                return self._branches(node, known)
            case cst.While():
                return Reach(inside, certain=self._header(node.test, known).certain)
            case cst.With():
                return self._managed(node, known)
            case cst.Try() | cst.TryStar():
                return self._attempt(node, known)
            case cst.FunctionDef() | cst.ClassDef():
                own = tuple(b for b in inside if b.node is node.name)
                return Reach(own, certain=bool(own))
            case _:
                return Reach(inside, certain=False)

    def _managed(self, node: cst.With, known: _Bindings) -> Reach:
        body = self._run(node.body, known)
        if body.certain:
            return body
        head = known.between(self._index.order(node), self._index.order(node.body))
        certain = any(b.kind is Bind.WITH for b in head)
        return Reach(head + self._inside(node.body, known), certain=certain)

    def _small(self, inside: tuple[Binding, ...]) -> Reach:
        """Return the last binding of a simple statement holds; a mere annotation binds nothing."""
        sure = [
            b
            for b in inside
            if b.kind is not Bind.DECLARE
            and (
                not isinstance(self._index.parent(b.node), cst.NamedExpr)
                or self._is_sure(b.node, None)
            )
        ]
        return Reach(tuple(sure[-1:]) if sure else inside, certain=bool(sure))

    def _branches(self, node: cst.If, known: _Bindings) -> Reach:
        seen: tuple[Binding, ...] = ()
        certain = True
        branch: cst.If | cst.Else | None = node
        while isinstance(branch, cst.If):  # a long chain of elif must not meet the recursion limit
            head = self._header(branch.test, known)
            body = self._run(branch.body, known)
            seen += body.bindings + head.bindings
            certain = certain and (body.certain or head.certain)
            branch = branch.orelse
        if branch is None:
            return Reach(seen, certain=False)
        last = self._run(branch.body, known)
        return Reach(seen + last.bindings, certain=certain and last.certain)

    def _attempt(self, node: cst.Try | cst.TryStar, known: _Bindings) -> Reach:
        final = _NOTHING
        if node.finalbody is not None:
            final = self._run(node.finalbody.body, known)
            if final.certain:
                return final
        normal = self._run(node.body, known)
        if node.orelse is not None and normal is not _LEFT:
            other = self._run(node.orelse.body, known)
            normal = (
                other
                if other.certain
                else Reach(other.bindings + normal.bindings, certain=normal.certain)
            )
        seen, certain = final.bindings + normal.bindings, normal.certain
        for handler in node.handlers:
            reach = self._run(handler.body, known)
            if not reach.certain:  # the body may have got to any of its bindings
                seen += self._inside(node.body, known)
            seen += reach.bindings
            certain = certain and reach.certain
        return Reach(seen, certain=certain)


def _is_leaving(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.SimpleStatementLine):
        return any(isinstance(small, _LEAVES_BLOCK) for small in node.body)
    return isinstance(node, _LEAVES_BLOCK)
