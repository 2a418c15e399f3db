"""Scopes, and the places that give names a value."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import libcst as cst


class ScopeKind(enum.Enum):
    """What opened a scope; class scopes are not seen from the functions inside them."""

    MODULE = enum.auto()
    CLASS = enum.auto()
    FUNCTION = enum.auto()
    LAMBDA = enum.auto()
    COMPREHENSION = enum.auto()


class Bind(enum.Enum):
    """How a name gets its value."""

    IMPORT = enum.auto()  # value: the ImportAlias
    FROM = enum.auto()  # value: the ImportAlias of an ImportFrom
    ASSIGN = enum.auto()  # value: the expression; path: where in it, for unpacked tuples
    AUGMENT = enum.auto()  # value: the AugAssign
    DECLARE = enum.auto()  # an annotation without a value
    FOR = enum.auto()  # value: what is iterated; path: where in each item
    WITH = enum.auto()  # value: the context manager
    PARAMETER = enum.auto()  # value: the Param
    DEFINITION = enum.auto()  # value: the FunctionDef or ClassDef
    REST = enum.auto()  # what ``*rest`` gets of the value
    EXCEPT = enum.auto()
    MATCH = enum.auto()
    DELETE = enum.auto()


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One place that gives a name a value.

    ``path`` holds the indices that lead from the value to what the name gets: empty for
    ``x = v``, ``(1,)`` for ``_, x = v``, ``(-1,)`` for ``*_, x = v``.
    """

    name: str
    kind: Bind
    node: cst.CSTNode
    value: cst.CSTNode | None
    scope: Scope
    path: tuple[int, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the name is what the value is: ``x = v``, and no part of it."""
        return self.kind is Bind.ASSIGN and not self.path


@final
@dataclass(slots=True, eq=False)
class Scope:
    """The names bound in a module, class, function, lambda or comprehension."""

    kind: ScopeKind
    node: cst.CSTNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=dict)  # name -> "global" or "nonlocal"
    stars: list[cst.ImportFrom] = field(default_factory=list)

    def owner(self, name: str) -> Scope | None:
        """Return the scope whose binding a use of ``name`` in this scope refers to."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.outer:
                if scope.outer[name] == "global":
                    module = scope.module()
                    return module if name in module.bindings else None  # or another file's doing
            # A comprehension in a class body still sees that body through its first iterable only.
            elif name in scope.bindings and (scope is self or scope.kind is not ScopeKind.CLASS):
                return scope
            scope = scope.parent
        return None

    def module(self) -> Scope:
        """Return the module's scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def function(self) -> Scope:
        """Return the nearest function, class or module scope: comprehensions are transparent."""
        scope = self
        while scope.kind is ScopeKind.COMPREHENSION and scope.parent is not None:
            scope = scope.parent
        return scope
