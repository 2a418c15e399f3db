"""Mixed precision by its old names, ``torch.cuda.amp``: where they stand, and what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.semantics.callbacks import PARTIAL
from torchlint.semantics.values import Library, Nothing, Object
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.values import Value
    from torchlint.syntax.module import Module
    from torchlint.training.script import Script

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
OLD = {
    f"torch.{device}.amp.{name}": (device, name)
    for device in ("cuda", "cpu")
    for name in SINCE
    if device == "cuda" or not name.startswith("custom")
}
_NEW = {"torch.autocast": "autocast", **{f"torch.amp.{name}": name for name in SINCE}}


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A use of an old name, which a name or a chain of attributes stands for.

    ``call`` is the call of it; ``decorates``: it, or its call, is a decorator; ``is_kept``: it
    is the value of something that is called elsewhere.
    """

    node: cst.Name | cst.Attribute
    device: str
    name: str
    call: cst.Call | None = None
    decorates: bool = False
    annotates: bool = False
    is_kept: bool = False

    @property
    def place(self) -> cst.CSTNode:
        """The call, or what stands for it."""
        return self.call or self.node

    @property
    def keywords(self) -> tuple[str, ...]:
        """Names of the old parameters, in their order."""
        return _PARAMETERS.get(self.name, ())

    @property
    def runs(self) -> bool:
        """Whether the old name is called here."""
        return self.call is not None or (self.decorates and self.name.startswith("custom"))


class AmpNames:
    """The old names of mixed precision in a file."""

    def __init__(self, script: Script) -> None:
        self._script = script

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """All uses, in the order of the walk."""
        return tuple(self._uses(self._script.module))

    def _uses(self, module: Module) -> Iterator[Use]:
        kinds: tuple[type[cst.Name | cst.Attribute], ...] = (cst.Name, cst.Attribute)
        for node in (one for kind in kinds for one in module.index.of(kind)):
            match [one for one in self._script.value(node) if not isinstance(one, Nothing)]:
                case [Library(name=name)] if name in OLD and _is_read(module, node):
                    yield self._use(module, node, *OLD[name])

    def _use(self, module: Module, node: cst.Name | cst.Attribute, device: str, name: str) -> Use:
        above = module.parent(node)
        call = above if isinstance(above, cst.Call) and above.func is node else None
        outer = module.parent(call) if call is not None else above
        is_kept = isinstance(above, (cst.Assign, cst.IfExp, cst.Arg)) and name in self._chosen
        annotates = any(isinstance(one, cst.Annotation) for one in module.index.ancestors(node))
        decorates = isinstance(outer, cst.Decorator)
        return Use(node, device, name, call, decorates, annotates, is_kept and call is None)

    def reported(self) -> Iterator[Use]:
        """Yield the uses that call an old name, other than those for an older torch."""
        for use in self.uses:
            if (use.runs or use.is_kept) and not self._is_for_old_versions(use):
                yield use

    @cached_property
    def _chosen(self) -> frozenset[str]:
        """The names that a call may mean, among others."""
        evaluation = self._script.connected.evaluation
        found: set[str] = set()
        for module in self._script.connected.files.modules:
            for call in module.index.of(cst.Call):
                value: Value = evaluation.value(call.func)
                for one in value:
                    if isinstance(one, Object) and one.kind == PARTIAL and one.call is not None:
                        value = (*value, *evaluation.attribute(one.call, "func").value)
                if len(value) > 1:
                    names = [one.name for one in value if isinstance(one, Library)]
                    found |= {OLD[name][1] for name in names if name in OLD}
        return frozenset(found)

    @cached_property
    def is_compared(self) -> bool:
        """Whether the file depends on the old class of scalers: the new one is its base."""
        return any(_asks(use) for use in self.uses)

    @cached_property
    def is_compared_elsewhere(self) -> bool:
        """Whether a connected file asks whether something is of the old class."""
        modules = self._script.connected.files.modules
        others = (one for one in modules if one is not self._script.module)
        return any(_asks(use) for module in others for use in self._uses(module))

    # -- versions --------------------------------------------------------------------------------

    def _is_for_old_versions(self, use: Use) -> bool:
        """Whether the code runs only where torch has no newer name: it asks for the version."""
        index = self._script.module.index
        root = root_of(use.node)
        owner = index.scope(root).owner(root.value)
        bound = [] if owner is None else owner.bindings.get(root.value, [])
        return any(
            self._is_guarded(place, use.name)
            for place in (use.place, *(binding.node for binding in bound[:1]))
        )

    def _is_guarded(self, node: cst.CSTNode, name: str) -> bool:
        index = self._script.module.index
        function: cst.FunctionDef | None = None
        for above in index.ancestors(node):
            if isinstance(above, cst.FunctionDef):
                function = above
                break
            if self._chooses(above, name):
                return True
        if function is None:
            return False
        # ``if NEW: return torch.amp.autocast("cuda")`` before it
        return any(self._has_new(one, name) for one in index.below(function, cst.If))

    def _chooses(self, node: cst.CSTNode, name: str) -> bool:
        """Whether a statement or expression decides between the old and the new name."""
        match node:
            case cst.If() | cst.IfExp():
                return self._asks_version(node.test) or self._has_new(node, name)
            case cst.Try() | cst.TryStar():
                return self._has_new(node, name)
        return False

    def _asks_version(self, test: cst.BaseExpression) -> bool:
        index = self._script.module.index
        for node in (*index.below(test, cst.Attribute), *index.below(test, cst.Name)):
            if self._script.name(node).startswith("torch.") and node.deep_equals(test):
                return False
            if self._script.name(node) in ("torch.__version__", "torch.version.__version__"):
                return True
        return any(
            self._script.name(call.func) == "builtins.hasattr"
            and self._script.name(call.args[0].value).partition(".")[0] == "torch"
            for call in index.below(test, cst.Call)
            if call.args
        )

    def _has_new(self, node: cst.CSTNode, name: str) -> bool:
        index = self._script.module.index
        for one in (*index.below(node, cst.Attribute), *index.below(node, cst.Name)):
            if _NEW.get(self._script.name(one)) == name:
                return True
        return any(
            statement.module is not None and dotted(statement.module) == "torch.amp"
            for statement in index.below(node, cst.ImportFrom)
        )


def root_of(node: cst.BaseExpression) -> cst.Name:
    """Return the name that a chain of attributes begins with."""
    while isinstance(node, cst.Attribute):
        node = node.value
    assert isinstance(node, cst.Name)
    return node


def _asks(use: Use) -> bool:
    return use.name == "GradScaler" and not (use.runs or use.annotates)


def _is_read(module: Module, node: cst.Name | cst.Attribute) -> bool:
    """Whether a name is looked up where it stands, and is no part of a longer chain."""
    match module.parent(node):
        case cst.AsName() | cst.ImportAlias() | cst.AssignTarget() | cst.Param():
            return False
        case cst.Arg(keyword=keyword):
            return keyword is not node
        case cst.Attribute(attr=attr):
            return attr is not node
    root: cst.BaseExpression = node
    while isinstance(root, cst.Attribute):
        root = root.value
    return isinstance(root, cst.Name)
