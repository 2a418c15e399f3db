"""Whether a file needs torch 2.0 or newer, by what it uses: names that older versions lack."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

# All of them came with torch 2.0 or later.
_NAMES = (
    "torch.compile", "torch.func", "torch.vmap", "torch._dynamo", "torch.export",
    "torch.set_default_device", "torch.get_default_device",
    "torch.nn.functional.scaled_dot_product_attention", "torch.nn.attention", "torch.nn.RMSNorm",
    "torch.nn.functional.rms_norm", "torch.nn.Buffer", "torch.amp.GradScaler",
    "torch.amp.custom_fwd", "torch.amp.custom_bwd", "torch.backends.cuda.sdp_kernel",
    "torch.optim.lr_scheduler.LRScheduler", "torch.distributed.device_mesh",
    "torch.distributed.fsdp.fully_shard", "torch.distributed.fsdp.FSDPModule",
    "torch.distributed.tensor", "torch.distributed._composable", "torchvision.transforms.v2",
    "torchvision.tv_tensors", "torchao",
)  # fmt: skip
_LAST = frozenset(name.rpartition(".")[2] for name in _NAMES)  # one of these is in a full name
# Texts without these use none of them.
_TRACES = re.compile(
    r"torch\.(compile|func|vmap|_dynamo|export|amp)\b|from torch import .*(compile|func|vmap)"
    r"|default_device|scaled_dot_product|nn\.attention|nn\.Buffer|RMSNorm|rms_norm|sdp_kernel|LRScheduler"
    r"|device_mesh|fully_shard|FSDPModule|distributed\.(tensor|_composable)|torchao"
    r"|transforms\.v2|transforms import .*v2|tv_tensors"
)
# What a module imports where nothing guards it: at the beginning of a line.
_NEEDS = re.compile(
    r"^(?:from|import)[ ]+(?:torchao|torchtitan|torch\.(?:func|_dynamo|export|nn\.attention)"
    r"|torch\.distributed\.(?:tensor|_composable|device_mesh)"
    r"|torchvision\.(?:transforms\.v2|tv_tensors))\b"
    r"|^from[ ]+torch\.distributed\.fsdp[ ]+import[ ]+(?:\([^)]*?|[^(\n]*?)"
    r"\b(?:fully_shard|FSDPModule)\b"
    r"|^@torch\.compile\b",
    re.MULTILINE,
)
_WORDS = ("torchao", "torchtitan", "torch.func", "torch._dynamo", "torch.export",
          "torch.nn.attention", "torch.distributed.tensor", "torch.distributed._composable",
          "device_mesh", "transforms.v2", "tv_tensors", "fully_shard", "FSDPModule",
          "@torch.compile")  # fmt: skip
_ASKS = re.compile(r"version|hasattr|legacy|compat|torch_?2", re.IGNORECASE)


def needs_2(program: Program) -> bool:
    """Whether a file uses what only torch 2 has, one beside it, or an import of what it runs."""
    if _needs(program.text) or _uses(program):
        return True
    project, path = program.project, program.path
    if project is None or path is None:
        return False
    imports = project.imports
    if str(path) in imports.leading_to(_needs):
        return True
    for name in sorted({*imports.targets(str(path)), *imports.importers(str(path))}):
        if _TRACES.search(imports.text(name)):
            other = project.program(name)
            if other is not None and _uses(other):
                return True
    return False


@functools.lru_cache(1024)
def _needs(text: str) -> bool:
    """Whether a module cannot be imported by torch 1."""
    return any(word in text for word in _WORDS) and _NEEDS.search(text) is not None


def _uses(program: Program) -> bool:
    """Whether a file uses such a name without asking first whether it is there."""
    if not _TRACES.search(program.text):
        return False
    return any(
        _is_new(program.qualified(node)) and not _is_asked_for(program, node)
        for word in sorted(_LAST | _imported(program))
        for name in program.index.named.get(word, ())
        for node in (name, program.index.parent(name) or name)
    )


def _imported(program: Program) -> set[str]:
    """Return the names that imports give to what is new, or is a part of it."""
    bound = filter(None, map(program.index.bound, program.index.of(cst.ImportAlias)))
    return {one.name for one in bound if _is_new(program.names.root(one.name, one.scope))}


def _is_new(name: str) -> bool:
    return name.startswith("torch") and any(
        name == new or name.startswith(f"{new}.") for new in _NAMES
    )


def _is_asked_for(program: Program, node: cst.CSTNode) -> bool:
    """Whether code runs only where the name exists: in ``try``, or after a look at the version."""
    for above in program.index.ancestors(node):
        match above:
            case cst.Try() | cst.ExceptHandler():
                return True
            case cst.If(test=test) | cst.IfExp(test=test) if _ASKS.search(program.code(test)):
                return True
            case cst.Call(func=cst.Name(value="hasattr" | "getattr")):
                return True
            case _:
                pass
    return False
