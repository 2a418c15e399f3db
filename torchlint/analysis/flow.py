"""Which bindings of a name can be the ones that a use of it sees.

Works on the structure of the statements, backwards from the use, without building a graph:
inside the scope of the use it follows order, branches and loops; for a name of an outer scope
every binding counts, since the time of the call is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import Bind, Binding, Index, ScopeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAVES_BLOCK = (cst.Return, cst.Raise, cst.Continue, cst.Break)
_Loop = (cst.For, cst.While)


@dataclass(frozen=True, slots=True)
class Reach:
    """The bindings that may be seen, and whether one of them certainly was made."""

    bindings: tuple[Binding, ...]
    certain: bool


_NOTHING = Reach((), certain=False)
_LEFT = Reach((), certain=True)  # the block never reaches its end


class Flow:
    """Reaching bindings in one module."""

    def __init__(self, index: Index) -> None:
        """Nothing is computed before it is asked for."""
        self._index = index
        self._cache: dict[int, tuple[Binding, ...]] = {}

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
        """Bindings of a name of the statement's own scope that hold just before the statement."""
        scope = self._index.scope(statement).function()
        every = scope.bindings.get(name)
        return self._backwards(statement, every, scope.node) if every else ()

    def _backwards(
        self, use: cst.CSTNode, every: list[Binding], border: cst.CSTNode
    ) -> tuple[Binding, ...]:
        # what another function binds through ``global`` or ``nonlocal`` can happen at any time
        function = self._index.scope
        own = every[0].scope
        seen = [
            b for b in every
            if b.kind is not Bind.PARAMETER and function(b.node).function() is not own
        ]  # fmt: skip
        node = use
        for above in self._index.ancestors(use):
            reach = self._around(node, above, every)
            seen += [binding for binding in reach.bindings if binding not in seen]
            if reach.certain:
                return tuple(seen)
            if above is border:
                break
            node = above
        seen += [b for b in every if b.kind is Bind.PARAMETER and b not in seen]
        return tuple(seen)

    def _around(self, node: cst.CSTNode, above: cst.CSTNode, every: list[Binding]) -> Reach:
        """What one surrounding node adds for a use inside its child ``node``."""
        match above:
            case (
                cst.IndentedBlock()
                | cst.Module()
                | cst.SimpleStatementLine()
                | (cst.SimpleStatementSuite())
            ):
                body: Sequence[cst.CSTNode] = above.body
                place = next(i for i, item in enumerate(body) if item is node)
                return self._block(body[:place], every)
            case cst.For() | cst.While() if node is above.body:
                return self._from_loop_head(above, every)
            case cst.For() | cst.While() if node is above.orelse:
                return Reach(self._all_inside(above.body, every), certain=False)
            case cst.With() if node is above.body:
                return self._bound_by(above, Bind.WITH, every)
            case cst.Try() | cst.TryStar() if node is not above.body:
                certain = node is above.orelse and self._block_of(above.body, every).certain
                bound = self._all_inside(above.body, every)
                if node is above.finalbody:
                    for handler in above.handlers:
                        bound += self._all_inside(handler, every)
                return Reach(bound, certain=certain)
            case cst.ExceptHandler() if node is above.body:
                return self._bound_by(above, Bind.EXCEPT, every)
            case _:
                return _NOTHING

    def _from_loop_head(self, loop: cst.For | cst.While, every: list[Binding]) -> Reach:
        if isinstance(loop, cst.For):
            target = self._bound_by(loop, Bind.FOR, every)
            if target.certain:
                return target
        # what an earlier turn of the loop left behind
        return Reach(self._all_inside(loop.body, every), certain=False)

    def _bound_by(self, node: cst.CSTNode, kind: Bind, every: list[Binding]) -> Reach:
        bound = tuple(
            binding
            for binding in every
            if binding.kind is kind and self._statement_of(binding.node) is node
        )
        return Reach(bound, certain=bool(bound))

    def _statement_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        for above in self._index.ancestors(node):
            if isinstance(above, (cst.BaseStatement, cst.BaseSmallStatement, cst.ExceptHandler)):
                return above
        return None

    def _all_inside(self, node: cst.CSTNode, every: list[Binding]) -> tuple[Binding, ...]:
        inside = self._index.inside
        return tuple(binding for binding in every if inside(binding.node, node))

    def _block_of(self, suite: cst.BaseSuite, every: list[Binding]) -> Reach:
        return self._block(suite.body, every)

    def _block(self, body: Sequence[cst.CSTNode], every: list[Binding]) -> Reach:
        seen: tuple[Binding, ...] = ()
        for statement in reversed(body):
            if isinstance(statement, _LEAVES_BLOCK):
                return _LEFT
            reach = self._statement(statement, every)
            seen += reach.bindings
            if reach.certain:
                return Reach(seen, certain=True)
        return Reach(seen, certain=False)

    def _statement(self, node: cst.CSTNode, every: list[Binding]) -> Reach:
        """What running a statement to its end leaves the name bound to."""
        inside = self._all_inside(node, every)
        if not inside and not isinstance(node, (cst.If, cst.SimpleStatementLine)):
            return _NOTHING
        match node:
            case cst.SimpleStatementLine() | cst.SimpleStatementSuite():
                return self._block(node.body, every)
            case cst.If():
                return self._branches(node, every) if inside else _NOTHING
            case cst.For() | cst.While():
                return Reach(inside, certain=False)
            case cst.With():
                body = self._block_of(node.body, every)
                return body if body.certain else Reach(inside, certain=False)
            case cst.Try() | cst.TryStar():
                return self._attempt(node, every, inside)
            case cst.FunctionDef() | cst.ClassDef():
                own = tuple(b for b in inside if b.node is node.name)
                return Reach(own, certain=bool(own))
            case cst.Match():
                return Reach(inside, certain=False)
            case _:
                return Reach(inside[-1:], certain=True)

    def _branches(self, node: cst.If, every: list[Binding]) -> Reach:
        body = self._block_of(node.body, every)
        match node.orelse:
            case cst.If():
                other = self._branches(node.orelse, every)
            case cst.Else():
                other = self._block_of(node.orelse.body, every)
            case _:
                other = _NOTHING
        test = self._all_inside(node.test, every)
        certain = body.certain and other.certain
        return Reach(body.bindings + other.bindings + test, certain=certain)

    def _attempt(
        self, node: cst.Try | cst.TryStar, every: list[Binding], inside: tuple[Binding, ...]
    ) -> Reach:
        if node.finalbody is not None:
            final = self._block_of(node.finalbody.body, every)
            if final.certain:
                return final
        body = self._block_of(node.body, every)
        handlers = [self._block_of(handler.body, every) for handler in node.handlers]
        certain = body.certain and all(handler.certain for handler in handlers)
        if certain and all(not handler.bindings for handler in handlers):
            return Reach(body.bindings, certain=True)
        return Reach(inside, certain=certain)
