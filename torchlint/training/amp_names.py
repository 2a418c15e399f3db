"""Mixed precision by its old names, ``torch.cuda.amp``: where they stand, and what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.syntax.chains import root_of

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


def _is_read(module: Module, node: cst.Name | cst.Attribute) -> bool:
    """Whether a name is looked up where it stands, and is no part of a longer chain."""
    above = module.parent(node)
    is_bound = isinstance(above, (cst.AsName, cst.ImportAlias, cst.AssignTarget, cst.Param))
    is_part = node in (getattr(above, "attr", None), getattr(above, "keyword", None))
    return not (is_bound or is_part) and isinstance(root_of(node), cst.Name)
