"""Whether a file needs torch 2.0 or newer, by what it uses: names that older versions lack."""

from __future__ import annotations

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
    "torch.distributed.fsdp.fully_shard", "torchvision.transforms.v2", "torchvision.tv_tensors",
)  # fmt: skip
# Texts without these use none of them.
_TRACES = re.compile(
    r"torch\.(compile|func|vmap|_dynamo|export|amp)\b|from torch import .*(compile|func|vmap)"
    r"|default_device|scaled_dot_product|nn\.attention|nn\.Buffer|RMSNorm|rms_norm|sdp_kernel|LRScheduler"
    r"|device_mesh|fully_shard|transforms\.v2|transforms import .*v2|tv_tensors"
)
_ASKS = re.compile(r"version|hasattr|legacy|compat|torch_?2", re.IGNORECASE)


def needs_2(program: Program) -> bool:
    """Whether a file, or one that it imports or is imported by, uses what only torch 2 has."""
    if _uses(program):
        return True
    project, path = program.project, program.path
    if project is None or path is None:
        return False
    imports = project.imports
    for name in sorted({*imports.targets(str(path)), *imports.importers(str(path))}):
        if _TRACES.search(imports.text(name)):
            other = project.program(name)
            if other is not None and _uses(other):
                return True
    return False


def _uses(program: Program) -> bool:
    """Whether a file uses such a name without asking first whether it is there."""
    if not _TRACES.search(program.text):
        return False
    return any(
        _is_new(program.qualified(node)) and not _is_asked_for(program, node)
        for kind in (cst.Attribute, cst.Name)
        for node in program.index.of(kind)
    )


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
