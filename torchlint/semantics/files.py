"""Connected files: which module of the project an import means, and which names modules have."""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from torchlint.semantics.paths import Paths
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchlint.syntax.module import Module
    from torchlint.syntax.scopes import Scope

N = TypeVar("N", bound=cst.CSTNode)


class Files:
    """Modules by the paths of their files.

    A file's rank is its place in the order of their sizes, in nodes: what files are called decides
    only between files of one size.

    Args:
        modules: the parsed files.
        paths: says which file an import means, as paths of ``modules``; by default among these.

    """

    def __init__(self, modules: Mapping[str, Module], paths: Paths | None = None) -> None:
        self._paths = Paths(modules.keys()) if paths is None else paths
        self.paths = sorted(modules, key=lambda path: (len(modules[path].index.nodes), path))
        self.modules = [modules[path] for path in self.paths]
        self.ranks = {path: rank for rank, path in enumerate(self.paths)}
        self._found: dict[tuple[int, str], int | None] = {}
        self._exported: dict[int, frozenset[str]] = {}
        self._together: dict[int, set[int]] = {}
        self._called: dict[int, dict[tuple[int, str], set[str]]] = {}

    def of(self, *kinds: type[N]) -> Iterator[tuple[N, int]]:
        """Yield the nodes of some kinds, each with its file."""
        for file, module in enumerate(self.modules):
            for kind in kinds:
                for node in module.index.of(kind):
                    yield node, file

    def attributes(self, *words: str) -> Iterator[tuple[cst.Attribute, int]]:
        """Yield the attributes of some names, each with its file."""
        for file, module in enumerate(self.modules):
            for name in (one for word in words for one in module.index.named.get(word, ())):
                node = module.parent(name)
                if isinstance(node, cst.Attribute) and node.attr is name:
                    yield node, file

    def find(self, here: int, name: str) -> int | None:
        """Return the rank of the file that an import of a dotted name in a file means."""
        key = here, name
        if key not in self._found:
            path, rest = self._paths.find(self.paths[here], name) or ("", "")
            self._found[key] = None if rest else self.ranks.get(path)
        return self._found[key]

    def together(self, file: int) -> set[int]:
        """Return the files that run with one: what imports it, and all that those import."""
        if file not in self._together:
            found = _reached({file}, {(home, here) for here, home in self._imports})
            self._together[file] = _reached(found, self._imports)
        return self._together[file]

    @cached_property
    def _imports(self) -> set[tuple[int, int]]:
        """Which file imports which, as far as names were looked for."""
        edges = {(here, home) for (here, _), home in self._found.items() if home is not None}
        for here, path in enumerate(self.paths):  # importing a module runs its packages first
            inits = (str(folder / "__init__.py") for folder in PurePath(path).parents)
            edges |= {(here, self.ranks[one]) for one in inits if one in self.ranks}
        return edges

    def name(self, rank: int) -> str:
        """Return the name of a file, for messages."""
        return PurePath(self.paths[rank]).name

    def inner(self, package: int, name: str) -> int | None:
        """Return the module of a package."""
        is_package = self.name(package) == "__init__.py"
        return self.find(package, f".{name}") if is_package else None

    def star_home(self, here: int, scope: Scope, word: str) -> int | None:
        """Return the file that ``from x import *`` brings a name from.

        The last such import counts; one of a file may have the name from another one.
        """
        todo = [(here, star) for star in scope.stars]
        seen = {here}
        while todo:
            at, star = todo.pop()
            module = "." * len(star.relative) + ("" if star.module is None else dotted(star.module))
            home = self.find(at, module)
            if home is not None and home not in seen:
                seen.add(home)
                if word in self.exported(home):
                    return home
                todo += [(home, one) for one in self.modules[home].index.root.stars]
        return None

    def exported(self, rank: int) -> frozenset[str]:
        """Return the names that a star import of a file brings."""
        found = self._exported.get(rank)
        if found is None:
            names = self.modules[rank].index.root.bindings
            public = frozenset(name for name in names if not name.startswith("_"))
            found = self._exported[rank] = public
        return found

    def methods_called(self, file: int, scope: Scope, name: str) -> set[str]:
        """Return the methods that are called on a name in a scope."""
        found = self._called.get(file)
        if found is None:
            found = self._called[file] = self._methods(file)
        return found.get((id(scope), name), set())

    def _methods(self, file: int) -> dict[tuple[int, str], set[str]]:
        index = self.modules[file].index
        found: dict[tuple[int, str], set[str]] = {}
        for call in index.of(cst.Call):
            match call.func:
                case cst.Attribute(value=cst.Name(value=name) as node, attr=cst.Name(value=method)):
                    owner = index.scope(node).owner(name)
                    if owner is not None:
                        found.setdefault((id(owner), name), set()).add(method)
        return found


def _reached(start: set[int], edges: set[tuple[int, int]]) -> set[int]:
    found, new = start, start
    while new:
        new = {end for begin, end in edges if begin in new} - found
        found = found | new
    return found
