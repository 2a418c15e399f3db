"""What the rules about making tensors share: dtypes by name, spelling of functions, defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.numpy_api import dtype_named
from torchlint.edits.rewrites import AddImport, Replace

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite

_DEVICES = ("torch.set_default_device", "torch.set_default_tensor_type")
_DTYPES = ("torch.set_default_dtype", "torch.set_default_tensor_type")


def torch_dtype(program: Program, node: cst.BaseExpression) -> str:
    """Return NumPy's name of a dtype as torch names it (`torch.float` is float32), or ""."""
    name = program.qualified(node)
    if name.startswith("torch."):
        short = name.rpartition(".")[2]
        return {"float": "float32", "half": "float16"}.get(short) or dtype_named(node)
    return dtype_named(node) if isinstance(node, cst.Name) and program.is_builtin(node) else ""


def sets_device(program: Program) -> bool:
    """Tell whether the file changes where tensors are made by default."""
    if any(True for _ in program.calls_of(*_DEVICES)):
        return True
    return any(
        program.qualified(item.item.func) == "torch.device"
        for block in program.index.of(cst.With)
        for item in block.items
        if isinstance(item.item, cst.Call)
    )


def sets_dtype(program: Program) -> bool:
    """Tell whether the file changes of which dtype tensors are by default."""
    return any(True for _ in program.calls_of(*_DTYPES))


def spelled(program: Program, func: cst.BaseExpression, function: str) -> str | None:
    """Return how another function of torch is called beside ``func``; None where it cannot be.

    ``t.tensor`` gives ``t.from_numpy``, an imported ``tensor`` gives ``from_numpy``.
    """
    if isinstance(func, cst.Attribute):
        return f"{program.code(func.value)}.{function}"
    root = program.names.root(function, program.index.scope(func))
    free = program.index.scope(func).owner(function) is None
    return function if free or root == f"torch.{function}" else None


def imports(program: Program, func: cst.BaseExpression, function: str) -> tuple[Rewrite, ...]:
    """Return the import that `spelled` asks for, if it does."""
    free = program.index.scope(func).owner(function) is None
    return (AddImport("torch", function),) if isinstance(func, cst.Name) and free else ()


def renamed(program: Program, call: cst.Call, function: str) -> tuple[Rewrite, ...] | None:
    """Return the rewrites that call another function of torch with the same arguments."""
    if isinstance(call.func, cst.Attribute):
        return (Replace(call.func.attr, function),)
    if spelled(program, call.func, function) is None:
        return None
    return (Replace(call.func, function), *imports(program, call.func, function))


def numpy_function(
    program: Program, place: cst.CSTNode, function: str
) -> tuple[str, tuple[Rewrite, ...]] | None:
    """Return how a NumPy function is called at a place, and the import it takes."""
    scope = program.index.scope(place)
    for name in program.index.root.bindings:
        if scope.owner(name) is program.index.root:
            root = program.names.root(name, scope)
            if root == "numpy":
                return f"{name}.{function}", ()
    if program.names.root(function, scope) == f"numpy.{function}":
        return function, ()
    if scope.owner("np") is None:
        return f"np.{function}", (AddImport("numpy as np"),)
    return None
