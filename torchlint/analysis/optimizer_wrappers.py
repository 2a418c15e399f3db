"""Libraries that put something around torch's optimizers: Horovod, DeepSpeed, Lightning, FSDP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.imports import Imports

# Their optimizers have a `zero_grad` that takes no argument.
_ENGINES = ("deepspeed.initialize", "import deepspeed")  # their model's takes none either
_REFUSE = ("apex", "horovod", "DistributedOptimizer", *_ENGINES)
_CHOOSING = (("timm.optim",), ("create_optimizer",))  # gives one of apex by its name
_WRAP = re.compile(
    r"DistributedOptimizer\(|deepspeed\.initialize\(|amp\.initialize\(|FP16_Optimizer\(|\bLARC\("
    r"|FSDP\(|FullyShardedDataParallel\(|fully_shard\(|PrivacyEngine\("
)
_LIGHTNING = frozenset({"lightning", "pytorch_lightning"})
_CLIPS = ("gradient_clip_val",)
_FAR = 4  # imports between a file and those that use what it makes


def may_refuse_arguments(program: Program, receiver: cst.BaseExpression) -> bool:
    """Whether the ``zero_grad`` of an optimizer may be that of a library around torch's."""
    if any(word in program.text for word in _ENGINES):
        return True
    value = program.value(receiver)
    if value.kind is Kind.MODULE:
        return False
    if any(word in program.text for word in _REFUSE):
        return True
    made_here = isinstance(value.made, cst.Call)
    return not made_here and _somewhere(program, _REFUSE)


def may_be_chosen(program: Program, receiver: cst.BaseExpression) -> bool:
    """Whether an option may make an optimizer one of apex, as timm's `create_optimizer` lets it."""
    value = program.value(receiver)
    made_here = value.kind is Kind.MODULE or isinstance(value.made, cst.Call)
    return not made_here and all(_somewhere(program, words) for words in _CHOOSING)


def _somewhere(program: Program, words: tuple[str, ...]) -> bool:
    return program.project is not None and bool(program.project.imports.having(words))


def wrapped_elsewhere(program: Program) -> bool:
    """Whether a file that uses this one, or that this one uses, wraps optimizers."""
    return any(_WRAP.search(text) for text in _beside(program))


def scaled_elsewhere(program: Program) -> bool:
    """Whether a file that only builds optimizers is used by one that scales gradients."""
    builds = ".backward(" not in program.text
    return builds and any("scaler" in text.lower() for text in _beside(program, targets=False))


def clipped_by_lightning(program: Program, call: cst.Call) -> bool:
    """Whether Lightning gets an optimizer whose gradients it may clip.

    Under mixed precision it then raises for one whose step undoes the loss scaling itself.
    """
    function = program.function(call)
    if function is None or function.name.value != "configure_optimizers":
        return False
    clips = _CLIPS[0] in program.text or _somewhere(program, _CLIPS)
    return clips and not _LIGHTNING.isdisjoint(program.frameworks)


def _beside(program: Program, *, targets: bool = True) -> Iterator[str]:
    """Yield the texts of the files that use a file, at some distance, and of those it imports."""
    if program.project is None or program.path is None:
        return
    imports, path = program.project.imports, str(program.path)
    for one in sorted(_users(imports, path) | (imports.targets(path) if targets else frozenset())):
        yield imports.text(one)


def _users(imports: Imports, path: str) -> set[str]:
    found: set[str] = set()
    edge = {path}
    for _ in range(_FAR):
        edge = {user for one in edge for user in imports.importers(one)} - found - {path}
        found |= edge
    return found
