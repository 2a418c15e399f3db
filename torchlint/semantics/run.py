"""One pass over a scope: its environment, how names are read and bound, how branches join."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from torchlint.semantics.cells import Cell
from torchlint.semantics.values import NEVER, Alternative, At, Guess, Library, Truth, Value
from torchlint.syntax.scopes import ScopeKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import libcst as cst

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.syntax.scopes import Binding, Scope

Key: TypeAlias = "str | tuple[str, int]"  # of comprehensions and class bodies with their number
Seen: TypeAlias = "tuple[Value, tuple[Binding, ...]]"
Env: TypeAlias = "dict[Key, Seen]"
Expression: TypeAlias = "Callable[[Run, Any], Value]"
Statement: TypeAlias = "Callable[[Run, Any], None]"

_INNER = (ScopeKind.COMPREHENSION, ScopeKind.CLASS)
GRAD, AUTOCAST = "@grad", "@autocast"
# What holds around a call, and what that is where nobody says anything.
MODES: dict[str, Alternative] = {GRAD: Truth(True), AUTOCAST: Truth(False)}
ASSUMED = Guess("recorded")  # of gradients, in a function that nobody is seen to call


@dataclass(slots=True)
class Loop:
    """A loop that is being read: what held at its start, and what was read of that unchanged."""

    entry: Env
    read: set[Key] = field(default_factory=set)
    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)


class Run:
    """One pass over a scope, in the order of its statements.

    ``env`` holds what names are; what comes after a ``return`` is read with the last one, and
    ``is_alive`` is False there.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        unit: Unit,
        expressions: Mapping[type, Expression],
        statements: Mapping[type, Statement],
    ) -> None:
        self.evaluation, self.unit = evaluation, unit
        self.sets, self.index, self.module = evaluation.sets, unit.module.index, unit.module
        self.env: Env = {}
        self.is_alive = True
        self.loops: list[Loop] = []
        self._expressions, self._statements = expressions, statements
        self._values, self._where = evaluation.values, evaluation.where

    # -- expressions and statements ----------------------------------------------------------

    def value(self, node: cst.BaseExpression) -> Value:
        """Evaluate an expression, and keep its value."""
        handler = self._expressions.get(type(node))
        found = self.sets.unknown if handler is None else handler(self, node)
        self._values[id(node)] = found
        return found

    def execute(self, node: cst.CSTNode) -> None:
        """Run a statement."""
        if not self.is_alive:
            self.evaluation.dead.add(id(node))
        elif self.evaluation.dead:
            self.evaluation.dead.discard(id(node))
        handler = self._statements.get(type(node))
        if handler is not None:
            handler(self, node)

    def block(self, body: cst.BaseSuite) -> None:
        """Run the statements of a block."""
        for statement in body.body:
            self.execute(statement)

    def at(self, node: cst.CSTNode) -> At:
        """Return which node it is."""
        return At(self.unit.at.file, self.index.order(node))

    def one(self, alternative: Alternative) -> Value:
        """Return the value that is one alternative."""
        return self.sets.one(alternative)

    # -- names -------------------------------------------------------------------------------

    def name(self, node: cst.Name) -> Value:
        """Return what a name is where it is read, and take note of where it got that."""
        where = self._where.get(id(node))
        if where is None:
            where = self._where[id(node)] = self._resolved(node)
        if isinstance(where, Cell):
            return self.read(where)
        seen = self.env.get(where)
        if seen is None:  # what functions give it, or what nobody sees
            owner = self.index.scope(node).owner(node.value)
            assert owner is not None
            given = self.read(self.evaluation.name(self.unit.at.file, owner, node.value))
            return given or (NEVER if self.loops else self.sets.unknown)
        for loop in self.loops:
            if loop.entry.get(where) is seen:
                loop.read.add(where)
        self.evaluation.reaching[id(node)] = seen[1]
        return seen[0]

    def _resolved(self, node: cst.Name) -> Key | Cell:
        """Return where a name is kept: in the environment, or in a cell."""
        word, scope = node.value, self.index.scope(node)
        owner = scope.owner(word)
        if owner is not None:
            return self.key(word, owner) or self.evaluation.name(self.unit.at.file, owner, word)
        starred = self.evaluation.starred(self.unit.at.file, scope.module(), word)
        if starred is not None:
            return starred
        is_builtin = hasattr(builtins, word)
        return Cell(self.one(Library(f"builtins.{word}")) if is_builtin else self.sets.unknown)

    def key(self, word: str, owner: Scope) -> Key | None:
        """Return under what the environment has a name of this scope; None of another's."""
        scope = owner
        while scope.kind in _INNER and scope.parent is not None:
            scope = scope.parent
        if scope is not self.unit.scope:
            return None
        return word if owner is scope else (word, self.index.order(owner.node))

    def read(self, cell: Cell) -> Value:
        """Return what is in a cell: this scope runs again when that changes."""
        cell.readers[self.unit.number] = None
        return cell.value

    def give(self, cell: Cell, giver: At | str, value: Value) -> None:
        """Give a cell a value in the place of what this giver gave before."""
        if self.is_alive and cell.give(giver, value, self.sets, adds=self.unit.adds):
            self.evaluation.changed(cell)

    def bind(self, target: cst.CSTNode, value: Value) -> None:
        """Give a name a value; others see it where the name is not this scope's own."""
        binding = self.index.bound(target)
        if binding is None:
            return
        owner = binding.scope
        key = self.key(binding.name, owner)
        if key is not None:
            self.env[key] = value, (binding,)
        if (
            key is None
            or owner.kind is ScopeKind.MODULE
            or self.evaluation.is_captured(self.unit.at.file, owner)
        ):
            cell = self.evaluation.name(self.unit.at.file, owner, binding.name)
            self.give(cell, self.at(target), value)

    # -- branches ----------------------------------------------------------------------------

    def mode(self, name: str) -> Value:
        """Return what holds here of how code runs: whether autograd records."""
        seen = self.env.get(name)
        return seen[0] if seen else NEVER

    @property
    def records(self) -> bool:
        """Whether autograd may record what runs here."""
        return self.mode(GRAD) != self.one(Truth(False))

    def modes(self) -> dict[str, Value]:
        """Return all that holds here of how code runs."""
        return {name: self.env[name][0] for name in MODES if name in self.env}

    def fork(self) -> tuple[Env, bool]:
        """Return the state here, for another branch to begin with."""
        return dict(self.env), self.is_alive

    def join(self, *states: tuple[Env, bool]) -> None:
        """Go on with what may hold after any of some branches that came to their end."""
        alive = [env for env, lives in states if lives]
        self.is_alive = bool(alive)
        envs = alive or [states[-1][0]]
        self.env = dict(envs[0])
        for other in envs[1:]:
            self.merge(other)

    def merge(self, other: Env) -> None:
        """Let what holds in another environment be possible here as well."""
        env, union = self.env, self.sets.union
        for key, seen in other.items():
            own = env.get(key)
            if own is None:
                env[key] = seen
            elif own is not seen:
                value = union(own[0], seen[0])
                bindings = own[1]
                if bindings is not seen[1]:
                    bindings = (*bindings, *(one for one in seen[1] if one not in bindings))
                env[key] = value, bindings
