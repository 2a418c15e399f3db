"""Mixed precision by its old names, ``torch.cuda.amp``, and how to change all uses of an import."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.names import Names
from torchlint.analysis.origins import origins
from torchlint.edits.rewrites import (
    AddArgument,
    InsertBefore,
    PrependArgument,
    Replace,
)
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite
    from torchlint.syntax.scopes import Binding

# Names under ``torch.amp``: the version that has them, and the old parameters by place.
SINCE = {
    "autocast": Version("1.12"),
    "GradScaler": Version("2.3"),
    "custom_fwd": Version("2.4"),
    "custom_bwd": Version("2.4"),
}
_PARAMETERS = {
    "autocast": ("enabled", "dtype", "cache_enabled"),
    "GradScaler": ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
}
_OLD = {
    f"torch.{device}.amp.{name}": (device, name)
    for device in ("cuda", "cpu")
    for name in SINCE
    if device == "cuda" or not name.startswith("custom")
}
_MODULES = frozenset({"torch.cuda.amp", "torch.cpu.amp"})
_ASKS_VERSION = re.compile(
    r"torch[\w.]*version|hasattr\(\s*torch|torch\.amp|"
    r"(?<![a-z])torch_?(\d|v\d|[gl][et]_?\d|new|old|greater|less)",
    re.IGNORECASE,
)
_COMPARED = re.compile(r"isinstance\([^\n]*\bGradScaler\b")


class Form(enum.Enum):
    """How an old name is used."""

    CALL = enum.auto()
    DECORATOR = enum.auto()  # ``@custom_fwd``, not called
    CHOSEN = enum.auto()  # ``cast = suppress``, ``if amp: cast = autocast``, ``with cast():``
    ANNOTATION = enum.auto()
    OTHER = enum.auto()  # a base class, ``isinstance``, another name for it


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One use of an old name: the name or attribute chain, and the call of it."""

    node: cst.Name | cst.Attribute
    device: str
    name: str
    form: Form
    call: cst.Call | None = None

    @property
    def place(self) -> cst.CSTNode:
        """The call, or what stands for it."""
        return self.call or self.node

    @property
    def keywords(self) -> tuple[str, ...]:
        """Names of the old parameters, in their order."""
        return _PARAMETERS.get(self.name, ())


@dataclass(frozen=True, slots=True, eq=False)
class Renaming:
    """What gives old names their new ones: all uses of one import together, or a single use."""

    uses: tuple[Use, ...]
    rewrites: tuple[Rewrite, ...]


class AmpNames:
    """The old names of mixed precision in one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._renamings: dict[int, Renaming] = {}

    def uses(self) -> Iterator[Use]:
        """Calls and decorators, other than those that a newer torch never comes to.

        And names that calls may mean, among others.
        """
        program = self._program
        nodes = [call.func for call in program.calls_of(*_OLD)]
        nodes += [item.decorator for item in program.index.of(cst.Decorator)]
        found = [self._use(node) for node in nodes]
        found += [replace(use, form=Form.CHOSEN) for use in self._chosen()]
        for use in found:
            if use is None or use.form in (Form.ANNOTATION, Form.OTHER):
                continue
            if not self._for_old_versions(use):
                yield use

    def renaming(self, use: Use) -> Renaming | None:
        """Return what gives a use its new name, or None if it cannot have it."""
        root = _root(use.node)
        if self._program.qualified(root) == "torch":
            if not self._is_changeable(use):
                return None
            return Renaming((use,), self._renamed(use, f"{root.value}.amp"))
        binding = self._binding(root)
        statement = None if binding is None else self._program.parent(binding.node)
        if not isinstance(statement, (cst.Import, cst.ImportFrom)):
            return None
        key = id(statement)
        if key not in self._renamings:
            self._renamings[key] = self._moved(statement)
        found = self._renamings[key]
        return found if any(one.place is use.place for one in found.uses) else None

    # -- what a name is used for -------------------------------------------------------------

    def _chosen(self) -> Iterator[Use]:
        """Yield the old names that are one of those that a name which is called stands for."""
        program = self._program
        chosen = {id(use.node): use for use in self._kept()}
        for call in program.index.of(cst.Call) if chosen else ():
            if not isinstance(call.func, cst.Name | cst.Attribute) or program.qualified(call.func):
                continue
            for made in origins(program, call.func):
                use = chosen.pop(id(_wrapped(program, made)), None)
                if use is not None:
                    yield use

    def _kept(self) -> Iterator[Use]:
        """Yield the old names that something else gets as its value, as they are."""
        index, text = self._program.index, self._program.text
        if "amp" not in text or not any(name in text for name in SINCE):
            return
        names = chain.from_iterable(index.named.get(name, ()) for name in SINCE)
        for node in (*(one for one in index.of(cst.Attribute) if one.attr.value in SINCE), *names):
            if isinstance(index.parent(node), cst.Assign | cst.IfExp | cst.Arg | cst.Element):
                use = self._use(node)
                if use is not None and use.form is Form.OTHER:
                    yield use

    def _use(self, node: cst.BaseExpression) -> Use | None:
        found = _OLD.get(self._program.qualified(node))
        if found is None or not isinstance(node, (cst.Name, cst.Attribute)):
            return None
        device, name = found
        above = self._program.parent(node)
        if isinstance(above, cst.Call) and above.func is node:
            return Use(node, device, name, Form.CALL, above)
        if isinstance(above, cst.Decorator):
            form = Form.DECORATOR if name.startswith("custom") else Form.OTHER
            return Use(node, device, name, form)
        annotates = any(
            isinstance(outer, cst.Annotation) for outer in self._program.index.ancestors(node)
        )
        return Use(node, device, name, Form.ANNOTATION if annotates else Form.OTHER)

    @cached_property
    def compared_nearby(self) -> bool:
        """Whether a related file of the project asks whether something is of the old class."""
        project, path = self._program.project, self._program.path
        if project is None or path is None:
            return False
        having = project.imports.having(("GradScaler",))
        return any(
            _COMPARED.search(project.imports.text(other)) is not None
            for other in project.imports.related(str(path))
            if other in having
        )

    @cached_property
    def _compared(self) -> bool:
        """Whether the file depends on the old class of scalers: the new one is its base."""
        nodes: list[cst.Name | cst.Attribute] = [
            node for node in self._program.index.named.get("GradScaler", ()) if self._is_name(node)
        ]
        nodes += [
            node
            for node in self._program.index.of(cst.Attribute)
            if node.attr.value == "GradScaler"
        ]
        uses = (self._use(node) for node in nodes)
        return any(use is not None and use.form is Form.OTHER for use in uses)

    def _for_old_versions(self, use: Use) -> bool:
        """Whether the code runs only where torch has no newer name: it asks for the version."""
        places: list[cst.CSTNode] = [use.place]
        binding = self._binding(_root(use.node))
        if binding is not None:
            places.append(binding.node)
        return any(self._guarded(place, use.name) for place in places)

    def _guarded(self, node: cst.CSTNode, name: str) -> bool:
        function: cst.CSTNode = self._program.module
        for above in self._program.index.ancestors(node):
            if isinstance(above, cst.FunctionDef):
                function = above
                break
            if self._chooses(above, name):
                return True
        if isinstance(function, cst.Module):
            return False
        # ``if NEW: return torch.amp.autocast("cuda")`` before it
        tests = self._program.index.below(function, cst.If)
        return any(self._chooses(one, name) and self._has_new(one, name) for one in tests)

    def _chooses(self, node: cst.CSTNode, name: str) -> bool:
        """Whether a statement or expression decides between the old and the new name."""
        match node:
            case cst.If() | cst.IfExp():
                asks = _ASKS_VERSION.search(self._program.code(node.test)) is not None
                return asks or self._has_new(node, name)
            case cst.Try() | cst.TryStar():
                return self._has_new(node, name)
            case _:
                return False

    def _has_new(self, node: cst.CSTNode, name: str) -> bool:
        program = self._program
        new = {f"torch.amp.{name}", f"torch.{name}", f"torch.amp.autocast_mode.{name}"}
        if any(program.qualified(call.func) in new for call in program.index.below(node, cst.Call)):
            return True
        return any(
            statement.module is not None and dotted(statement.module) == "torch.amp"
            for statement in program.index.below(node, cst.ImportFrom)
        )

    # -- changing it -------------------------------------------------------------------------

    def _renamed(self, use: Use, module: str) -> tuple[Rewrite, ...]:
        """Return the rewrites of one use; ``module`` is empty where the name stays."""
        code = f"{module}.{use.name}" if module else self._program.code(use.node)
        if use.call is None:
            return (Replace(use.node, f'{code}(device_type="{use.device}")'),)
        argument: Rewrite
        if use.keywords:
            argument = PrependArgument(use.call, f'"{use.device}"', use.keywords)
        else:
            argument = AddArgument(use.call, "device_type", f'"{use.device}"')
        return (Replace(use.node, code), argument) if module else (argument,)

    def _binding(self, root: cst.Name) -> Binding | None:
        """Return the one import that a name stands for."""
        owner = self._program.index.scope(root).owner(root.value)
        bindings = [] if owner is None else owner.bindings[root.value]
        if len(bindings) != 1 or bindings[0].kind not in (Bind.FROM, Bind.IMPORT):
            return None
        return bindings[0]

    def _moved(self, statement: cst.Import | cst.ImportFrom) -> Renaming:
        """Let an import bring the new names, where all that uses what it binds can be changed."""
        if isinstance(statement.names, cst.ImportStar):
            return Renaming((), ())
        uses: list[Use] = []
        taken: list[cst.ImportAlias] = []
        for alias in statement.names:
            found = self._uses_of(alias)
            if found is not None:
                taken.append(alias)
                uses += [use for use in found if use.form is not Form.ANNOTATION]
        changes = [rewrite for use in uses for rewrite in self._renamed(use, "")]
        return Renaming(tuple(uses), (*self._import(statement, taken), *changes))

    def _import(
        self, statement: cst.Import | cst.ImportFrom, taken: list[cst.ImportAlias]
    ) -> tuple[Rewrite, ...]:
        if isinstance(statement, cst.Import):
            return tuple(Replace(alias.name, "torch.amp") for alias in taken)
        assert statement.module is not None
        assert not isinstance(statement.names, cst.ImportStar)
        new = "torch.amp" if dotted(statement.module) in _MODULES else "torch"
        if len(taken) == len(statement.names):
            return (Replace(statement.module, new),)
        rest = [alias for alias in statement.names if alias not in taken]
        left, right = (
            ", ".join(self._program.code(alias).rstrip(", ") for alias in aliases)
            for aliases in (rest, taken)
        )
        old = dotted(statement.module)
        return (
            InsertBefore(statement, f"from {new} import {right}"),
            Replace(statement, f"from {old} import {left}"),
        )

    def _uses_of(self, alias: cst.ImportAlias) -> list[Use] | None:
        """Return all uses of what an import binds, or None if one of them cannot be changed."""
        program = self._program
        binding = program.index.bound(alias)
        if binding is None or not self._is_movable(binding):
            return None
        found: list[Use] = []
        for node in program.index.named.get(binding.name, ()):
            if not self._is_name(node):
                continue
            if program.index.scope(node).owner(binding.name) is not binding.scope:
                continue
            use = self._whole(node)
            if use is None or not self._is_changeable(use):
                return None
            found.append(use)
        return found

    def _is_movable(self, binding: Binding) -> bool:
        """Whether an import brings an old name that this file alone uses."""
        program, name = self._program, binding.name
        stands_for = program.names.root(name, binding.scope)
        if len(binding.scope.bindings[name]) > 1 or self._is_public(name):
            return False
        if stands_for in _OLD:
            return self._is_there(_OLD[stands_for][1])
        return stands_for in _MODULES

    def _whole(self, name: cst.Name) -> Use | None:
        """Return the use that a name is, or begins: ``amp.autocast``."""
        use = self._use(name)
        if use is not None:
            return use
        above = self._program.parent(name)
        return self._use(above) if isinstance(above, cst.Attribute) else None

    def _is_changeable(self, use: Use) -> bool:
        if use.form in (Form.OTHER, Form.CHOSEN) or not self._is_there(use.name):
            return False
        if use.name == "GradScaler" and self._compared:
            return False
        if use.call is None or not use.keywords:
            return True
        given = [arg for arg in use.call.args if arg.keyword is None and arg.star != "**"]
        return len(given) <= len(use.keywords) and not any(arg.star for arg in given)

    def _is_there(self, name: str) -> bool:
        """Whether every torch that the project supports, if known, has the new name."""
        target = self._program.target
        return target is None or target >= SINCE[name]

    def _is_public(self, name: str) -> bool:
        """Whether other files take the name from this one."""
        path = self._program.path
        listed = f'"{name}"' in self._program.text or f"'{name}'" in self._program.text
        if path is not None and (path.name == "__init__.py" or self._is_taken(name)):
            return True
        return listed and "__all__" in self._program.text

    def _is_taken(self, name: str) -> bool:
        """Whether another file of the project imports a name that this one has imported."""
        project, path = self._program.project, str(self._program.path)
        if project is None:
            return False
        for importer in project.imports.importers(path):
            other = project.program(importer) if name in project.imports.text(importer) else None
            for statement in () if other is None else other.index.of(cst.ImportFrom):
                wanted = f"{Names.module_of(statement)}.{name}"
                if _names(statement, name) and (path, name) == project.imports.find(
                    importer, wanted
                ):
                    return True
        return False

    def _is_name(self, node: cst.Name) -> bool:
        """Whether a name is looked up where it stands: no attribute, keyword or import."""
        match self._program.parent(node):
            case cst.Attribute(attr=attr):
                return attr is not node
            case cst.Arg(keyword=keyword):
                return keyword is not node
            case cst.ImportAlias() | cst.AsName() | cst.Param():
                return False
            case _:
                return True


def _names(statement: cst.ImportFrom, name: str) -> bool:
    """Whether an import brings a name, or all names."""
    if isinstance(statement.names, cst.ImportStar):
        return True
    return any(alias.evaluated_name == name for alias in statement.names)


def _wrapped(program: Program, node: cst.CSTNode) -> cst.CSTNode:
    """``autocast`` in ``functools.partial(autocast, enabled=amp)``."""
    match node:
        case cst.Call(func=func, args=[first, *_]):
            return first.value if program.qualified(func) == "functools.partial" else node
        case _:
            return node


def _root(node: cst.BaseExpression) -> cst.Name:
    while isinstance(node, cst.Attribute):
        node = node.value
    assert isinstance(node, cst.Name)
    return node
