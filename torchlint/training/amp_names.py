"""Mixed precision by its old names, ``torch.cuda.amp``: where they stand, and what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.syntax.chains import dotted, root_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
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
VERSIONS = ("torch.__version__", "torch.version.__version__")


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A use of an old name, which a name or a chain of attributes stands for.

    ``call`` is the call of it; ``decorates``: it, or its call, is a decorator.
    """

    node: cst.Name | cst.Attribute
    device: str
    name: str
    call: cst.Call | None
    decorates: bool
    annotates: bool

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

    @property
    def asks(self) -> bool:
        """Whether code depends on the old class of scalers: the new one is its base."""
        return self.name == "GradScaler" and not (self.runs or self.annotates)


@dataclass(frozen=True, slots=True, eq=False)
class AmpNames:
    """The old names in a file; ``is_asked``: connected files depend on the old class of scalers."""

    uses: tuple[Use, ...]
    is_asked: bool


def amp_names(script: Script) -> AmpNames:
    """Return the old names in a file."""
    evaluation = script.connected.evaluation
    found = tuple(_uses(evaluation, script.file))
    modules = evaluation.files.modules
    named = [file for file, one in enumerate(modules) if "GradScaler" in one.index.named]
    is_asked = any(use.asks for file in named if found for use in _uses(evaluation, file))
    return AmpNames(found, is_asked)


def _uses(evaluation: Evaluation, file: int) -> Iterator[Use]:
    """Yield the uses of old names in a file, in the order of the walk."""
    module = evaluation.module(file)
    kinds: tuple[type[cst.Name | cst.Attribute], ...] = (cst.Name, cst.Attribute)
    for node in (one for kind in kinds for one in module.index.of(kind)):
        old = OLD.get(evaluation.library(node))
        if old is None or not _is_read(module, node):
            continue
        above = module.parent(node)
        call = above if isinstance(above, cst.Call) and above.func is node else None
        outer = module.parent(call) if call is not None else above
        annotates = any(isinstance(one, cst.Annotation) for one in module.index.ancestors(node))
        yield Use(node, *old, call, isinstance(outer, cst.Decorator), annotates)


def is_for_old_versions(script: Script, use: Use) -> bool:
    """Whether the code runs only where torch has no newer name, or stands beside that."""
    index, root = script.module.index, root_of(use.node)
    assert isinstance(root, cst.Name)
    owner = index.scope(root).owner(root.value)
    bound = [binding.node for binding in owner.bindings[root.value][:1]] if owner else []
    for place in (use.place, *bound):
        for above in index.ancestors(place):
            if isinstance(above, cst.FunctionDef):
                # ``if NEW: return torch.amp.autocast("cuda")`` before it
                if any(_has_new(script, one, use) for one in index.below(above, cst.If)):
                    return True
                break
            is_test = isinstance(above, (cst.If, cst.IfExp)) and _asks_version(script, above.test)
            is_choice = isinstance(above, (cst.If, cst.IfExp, cst.Try))
            if is_test or (is_choice and _has_new(script, above, use)):
                return True
    return False


def _asks_version(script: Script, test: cst.BaseExpression) -> bool:
    below = script.module.index.below
    nodes = (*below(test, cst.Attribute), *below(test, cst.Name))
    return any(script.name(node) in VERSIONS for node in nodes) or any(
        script.name(call.func) == "builtins.hasattr"
        and script.name(call.args[0].value).partition(".")[0] == "torch"
        for call in below(test, cst.Call)
        if call.args
    )


def _has_new(script: Script, node: cst.CSTNode, use: Use) -> bool:
    below, new = script.module.index.below, (f"torch.{use.name}", f"torch.amp.{use.name}")
    return any(
        script.name(one) in new for one in (*below(node, cst.Attribute), *below(node, cst.Name))
    ) or any(
        one.module is not None and dotted(one.module) == "torch.amp"
        for one in below(node, cst.ImportFrom)
    )


def _is_read(module: Module, node: cst.Name | cst.Attribute) -> bool:
    """Whether a name is looked up where it stands, and is no part of a longer chain."""
    above = module.parent(node)
    is_bound = isinstance(above, (cst.AsName, cst.ImportAlias, cst.AssignTarget, cst.Param))
    is_part = node in (getattr(above, "attr", None), getattr(above, "keyword", None))
    return not (is_bound or is_part) and isinstance(root_of(node), cst.Name)
