"""Classes of the project: what they extend, their methods, and which kind of thing they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.cells import Cell
from torchlint.semantics.names import is_of_library
from torchlint.semantics.tables.frameworks import HOOKS
from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import Class, Library

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.tables.frameworks import Hook
    from torchlint.semantics.values import At, Value
    from torchlint.syntax.module import Module

DECORATED = {"staticmethod": "static", "classmethod": "class"}
DECORATED |= dict.fromkeys(("property", "cached_property"), "property")


@dataclass(slots=True, eq=False)
class ClassOf:
    """A class: ``bases`` are the values of its bases, as they were when it was made."""

    at: At
    node: cst.ClassDef
    module: Module
    bases: list[Value] = field(default_factory=list)
    methods: dict[str, cst.FunctionDef] = field(default_factory=dict)
    heirs: list[ClassOf] = field(default_factory=list)
    instances: Cell = field(default_factory=Cell)

    @property
    def name(self) -> str:
        """The name that it is defined under."""
        return self.node.name.value


class Classes:
    """All classes of connected files."""

    def __init__(self) -> None:
        self._found: dict[At, ClassOf] = {}
        self._lineages: dict[At, list[ClassOf]] = {}
        self._kinds: dict[At, str] = {}

    def __iter__(self) -> Iterator[ClassOf]:
        return iter(self._found.values())

    def define(self, at: At, node: cst.ClassDef, module: Module, bases: list[Value]) -> ClassOf:
        """Take note of a class where its definition runs."""
        found = self._found.get(at)
        if found is None:
            methods = {
                one.name.value: one for one in node.body.body if isinstance(one, cst.FunctionDef)
            }
            found = self._found[at] = ClassOf(at, node, module, methods=methods)
        elif found.bases == bases:
            return found
        found.bases = bases
        self._lineages.clear()
        self._kinds.clear()
        for base in self._own(found):
            if found not in base.heirs:
                base.heirs.append(found)
        return found

    def of(self, at: At) -> ClassOf | None:
        """Return a class by its definition, None where that did not run yet."""
        return self._found.get(at)

    def _own(self, one: ClassOf) -> Iterator[ClassOf]:
        for value in one.bases:
            for base in value:
                if isinstance(base, Class) and (found := self._found.get(base.at)):
                    yield found

    def lineage(self, at: At) -> list[ClassOf]:
        """Return the class and those of the project that it extends, nearest first."""
        known = self._lineages.get(at)
        if known is None:
            first = self._found.get(at)
            known = self._lineages[at] = [first] if first else []
            for one in known:
                known += [base for base in self._own(one) if base not in known]
        return known

    def library_bases(self, at: At) -> list[str]:
        """Return the names of classes of libraries that a class extends, by way of others too."""
        return [
            base.name
            for one in self.lineage(at)
            for value in one.bases
            for base in value
            if isinstance(base, Library)
        ]

    def hook(self, at: At, name: str) -> Hook | None:
        """Return what a framework calls a method for, None where it does not."""
        tables = (HOOKS[base] for base in self.library_bases(at) if base in HOOKS)
        return next((table[name] for table in tables if name in table), None)

    def is_open(self, at: At) -> bool:
        """Whether a class extends something unknown."""
        return any(
            not isinstance(base, (Library, Class))
            for one in self.lineage(at)
            for value in one.bases
            for base in value
        )

    def kind(self, at: At) -> str:
        """Return what a class makes by what it extends: a "module", a "dataset" ..., or "".

        What extends something unknown and has a ``forward`` is taken for a module.
        """
        known = self._kinds.get(at)
        if known is None:
            bases = self.library_bases(at)
            known = next(filter(None, map(kind_of, bases)), "")
            is_open = self.is_open(at) or not all(map(is_of_library, bases))
            if not known and is_open and self.method(at, "forward"):
                known = "module"
            self._kinds[at] = known
        return known

    def method(self, at: At, name: str) -> tuple[ClassOf, cst.FunctionDef] | None:
        """Return a method and the class that defines it."""
        for one in self.lineage(at):
            if name in one.methods:
                return one, one.methods[name]
        return None


def role(function: cst.CSTNode) -> str:
    """Return "static", "class" or "property" for a method that is one, by its decorators."""
    for decorator in function.decorators if isinstance(function, cst.FunctionDef) else ():
        name = decorator.decorator
        if isinstance(name, cst.Attribute):
            name = name.attr
        if isinstance(name, cst.Name) and name.value in DECORATED:
            return DECORATED[name.value]
    return ""
