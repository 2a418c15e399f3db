"""Which import a name stands for: ``nn.Conv2d`` is ``torch.nn.Conv2d``.

A name that is bound more than once, in ways that disagree, stands for nothing: silence is right.
Where it can only be an import (before the loop that takes its name), it is that import.
Every spelling of one thing gets one name (`canonical`).
"""

from __future__ import annotations

import builtins
import functools
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind, Binding

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchlint.analysis.flow import Flow
    from torchlint.syntax.index import Index
    from torchlint.syntax.scopes import Scope

# Where a public name also lives -> where it is documented.
_MOVED = (
    ("torch.nn.modules.conv.", "torch.nn."),
    ("torch.nn.modules.batchnorm.", "torch.nn."),
    ("torch.nn.modules.instancenorm.", "torch.nn."),
    ("torch.nn.modules.linear.", "torch.nn."),
    ("torch.nn.modules.container.", "torch.nn."),
    ("torch.nn.modules.module.", "torch.nn."),
    ("torch.nn.modules.loss.", "torch.nn."),
    ("torch.nn.modules.activation.", "torch.nn."),
    ("torch.nn.modules.", "torch.nn."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.utils.data.sampler.", "torch.utils.data."),
    ("torch.utils.data.distributed.", "torch.utils.data."),
    ("torch.optim.adam.", "torch.optim."),
    ("torch.optim.adamw.", "torch.optim."),
    ("torch.optim.adagrad.", "torch.optim."),
    ("torch.optim.sgd.", "torch.optim."),
    ("torch.optim.optimizer.", "torch.optim."),
    ("torch.cuda.amp.autocast_mode.", "torch.cuda.amp."),
    ("torch.cuda.amp.grad_scaler.", "torch.cuda.amp."),
    ("torch.autograd.grad_mode.", "torch."),
    ("torch.autograd.anomaly_mode.", "torch.autograd."),
    ("torch.autograd.gradcheck.", "torch.autograd."),
    ("torch.profiler.profiler.", "torch.profiler."),
)


@functools.lru_cache(4096)
def canonical(name: str) -> str:
    """One spelling for each public name of torch.

    >>> canonical("torch.nn.modules.conv.Conv2d")
    'torch.nn.Conv2d'
    """
    for old, new in _MOVED:
        if name.startswith(old) and "." not in name[len(old) :]:
            return new + name[len(old) :]
    return name


class Names:
    """Qualified names of the expressions of one module."""

    def __init__(
        self,
        index: Index,
        flow: Flow,
        brought: Callable[[str, str], str] | None = None,
        taken: Callable[[str], str] | None = None,
    ) -> None:
        """Nothing is computed before it is asked for.

        ``brought`` tells what a star import of a module, which may be another file of the project,
        brings under a name that is bound nowhere in this file, or "".  ``taken`` tells what of a
        library such a file has under a name that this file imports from there, or "".
        """
        self._index = index
        self._flow = flow
        self._brought = brought
        self._taken = taken
        self._cache: dict[int, str] = {}
        self._roots: dict[tuple[int, str], str] = {}
        self._rebound: set[tuple[int, str]] = set()  # imports whose names stand for more
        self._imported: frozenset[str] | None = None

    def qualified(self, node: cst.CSTNode | None) -> str:
        """Qualified name of a name or attribute chain, or the empty string if it has none.

        A class or function of this very file is named ``.Name``: it has no module.
        """
        if node is None:
            return ""
        found = self._cache.get(id(node))
        if found is None:
            found = self._cache[id(node)] = canonical(self._qualify(node))
        return found

    def base(self, node: cst.ClassDef, base: cst.BaseExpression) -> str:
        """Qualified name of a base of a class: ``class Dataset(Dataset)`` is of the import.

        The built-in ``object`` is ``"object"``, and one optimizer of torch or another, by an
        option, ``"torch.optim.Optimizer"``.
        """
        if not _extends_namesake(node, base):
            return self.qualified(base) or self._likely_base(node, base)
        owner = self._index.scope(node).owner(node.name.value)
        bindings = [] if owner is None else owner.bindings[node.name.value]
        return canonical(self._resolve([one for one in bindings if one.value is not node]))

    def _likely_base(self, node: cst.ClassDef, base: cst.BaseExpression) -> str:
        if not isinstance(base, cst.Name):
            return ""
        owner = self._index.scope(node).owner(base.value)
        if owner is None:
            return "object" if base.value == "object" else ""
        meant = {self._meaning(one) for one in owner.bindings[base.value]}
        optimizer = bool(meant) and all(one.startswith("torch.optim.") for one in meant)
        return "torch.optim.Optimizer" if optimizer else ""

    def _qualify(self, node: cst.CSTNode) -> str:
        parts: list[str] = []
        while type(node) is cst.Attribute:  # see `dotted`
            parts.append(node.attr.value)
            node = node.value
        if type(node) is not cst.Name:
            return ""
        scope = self._index.scope(node)
        base = self.root(node.value, scope) or self._before_rebound(node, scope)
        return ".".join((base, *reversed(parts))) if base else ""

    def root(self, name: str, scope: Scope) -> str:
        """Return what a single name stands for in a scope, by the imports that bind it."""
        owner = scope.owner(name)
        if owner is None:
            return self._starred(name, scope.module())
        key = (id(owner), name)
        if key not in self._roots:
            self._roots[key] = ""  # a name that leads back to itself stands for nothing
            bindings = owner.bindings[name]
            self._roots[key] = found = self._resolve(bindings)
            if not found and any(one.kind in (Bind.IMPORT, Bind.FROM) for one in bindings):
                self._rebound.add(key)
        return self._roots[key]

    def _before_rebound(self, use: cst.Name, scope: Scope) -> str:
        """Return which import a name still stands for, which another value takes its name from."""
        if not self._rebound or self._index.bound(use) is not None:
            return ""
        owner = scope.owner(use.value)
        if owner is None or (id(owner), use.value) not in self._rebound:
            return ""
        return self._resolve(list(self._flow.reaching(use)))

    def imported(self) -> frozenset[str]:
        """Return what the names of the module stand for, those that star imports bring as well."""
        if self._imported is None:
            root = self._index.root
            used = self._index.named if root.stars else ()
            names = (self.root(name, root) for name in (*root.bindings, *used))
            self._imported = frozenset(names) - {""}
        return self._imported

    def _starred(self, name: str, module: Scope) -> str:
        """Return what ``from x import *`` brings under a name: the last that brings it counts."""
        if self._brought is None or not module.stars or hasattr(builtins, name):
            return ""
        key = (id(module), name)
        if key not in self._roots:
            self._roots[key] = ""
            found = (self._brought(self.module_of(star), name) for star in reversed(module.stars))
            self._roots[key] = next(filter(None, found), "")
        return self._roots[key]

    @staticmethod
    def module_of(statement: cst.ImportFrom) -> str:
        """Return the module that a ``from`` imports from; ``@`` marks one relative to the file.

        ``from ..nets import x`` is of ``@..nets``.
        """
        module = "" if statement.module is None else dotted(statement.module)
        return f"@{'.' * len(statement.relative)}{module}" if statement.relative else module

    def _resolve(self, bindings: list[Binding]) -> str:
        meant: set[str] = set()
        for binding in last_of_namesakes(bindings):
            if self._is_fallback(binding):
                continue
            meant.add(self._meaning(binding))
        return meant.pop() if len(meant) == 1 else _in_package(meant)

    def _is_fallback(self, binding: Binding) -> bool:
        """``except ImportError: name = None`` leaves the meaning of the name as it is.

        So does a class or function that stands in there for what the ``try`` imports.
        """
        value = binding.value
        if binding.kind is Bind.ASSIGN and isinstance(value, cst.Name):
            stands_in = value.value in ("None", "False")
        else:
            stands_in = binding.kind is Bind.DEFINITION and any(
                one.kind in (Bind.IMPORT, Bind.FROM) for one in binding.scope.bindings[binding.name]
            )
        return stands_in and any(
            isinstance(above, cst.ExceptHandler) for above in self._index.ancestors(binding.node)
        )

    def _meaning(self, binding: Binding) -> str:
        value = binding.value
        if binding.kind is Bind.IMPORT and isinstance(value, cst.ImportAlias):
            full = dotted(value.name)
            return full if value.asname is not None else full.partition(".")[0]
        if binding.kind is Bind.FROM and isinstance(value, cst.ImportAlias):
            statement = self._index.parent(value)
            if not isinstance(statement, cst.ImportFrom):
                return ""
            module = self.module_of(statement)
            name = dotted(value.name)
            full = f"{module}{name}" if module.endswith(".") else f"{module}.{name}"
            return (self._taken and self._taken(full)) or full
        if binding.is_plain:
            if isinstance(value, (cst.Name, cst.Attribute)):
                return self.qualified(value)
            return ""
        if binding.kind is Bind.DEFINITION and binding.scope.parent is None:
            return f".{binding.name}"
        return ""


def _extends_namesake(node: cst.CSTNode | None, base: cst.BaseExpression | None = None) -> bool:
    """``class Dataset(Dataset)``: the class takes the place of the one that it extends."""
    return isinstance(node, cst.ClassDef) and any(
        isinstance(arg.value, cst.Name)
        and arg.value.value == node.name.value
        and base in (None, arg.value)
        for arg in node.bases
    )


def _in_package(meant: set[str]) -> str:
    """Return ``@.nets.Net`` of that and ``nets.Net``: one file, in a package and as a script."""
    within = min(meant, default="")
    return within if len(meant) == 2 and meant == {within, within.lstrip("@.")} else ""


def last_of_namesakes(bindings: list[Binding]) -> list[Binding]:
    """Leave out the import that a class of the same name extends and hides."""
    if len(bindings) < 2 or not _extends_namesake(bindings[-1].value):
        return bindings
    return bindings[-1:]
