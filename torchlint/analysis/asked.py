"""Whether code asks for gradients, itself or in a function that it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.reach import callee
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

# Names that ask for gradients, wherever they stand.
ASKING = frozenset(
    """backward manual_backward autograd requires_grad requires_grad_ grad enable_grad
    set_grad_enabled retain_grad grad_fn register_hook register_full_backward_hook jacobian hessian
    jvp vjp vmap GradScaler zero_grad""".split()
)
_CALLS = 4  # functions that call functions


def differentiates(program: Program, place: cst.CSTNode, depth: int = 0) -> bool:
    """Whether something at or below a place, or in a function that it calls, wants a gradient."""
    index = program.index
    for name in index.below(place, cst.Name):
        if name.value in ASKING and not _is_refusal(program, name):
            return True
    if depth > _CALLS:
        return False
    for call in index.below(place, cst.Call):
        match callee(program, call):
            case (other, target) if other is not program or not index.inside(place, target):
                if differentiates(other, target, depth + 1):
                    return True
            case _:
                pass
    return False


def may_differentiate(program: Program, forward: cst.Call) -> bool:
    """Whether a forward pass that is not seen may ask for a gradient, as a module here does.

    ``normals = self.sdf.gradient(x)``, with ``torch.autograd.grad`` in a method of ``sdf``: what
    the model consists of, a configuration may say.
    """
    project = program.project
    if callee(program, forward) is not None:
        return False
    files = () if project is None else sorted(project.imports.having(("autograd.grad(",)))
    homes = [program, *(home for file in files if project and (home := project.program(file)))]
    return any(map(_has_module_that_asks, homes))


def _has_module_that_asks(program: Program) -> bool:
    owners = map(program.classes.around, program.calls_of("torch.autograd.grad"))
    return any(owner is not None and owner.is_module for owner in owners)


def _is_refusal(program: Program, name: cst.Name) -> bool:
    """``requires_grad=False``, as an argument; ``autograd.Variable``, which asks for nothing."""
    above = program.parent(name)
    if isinstance(above, cst.Arg) and above.keyword is name:
        return literal(above.value) == "False"
    if above is not None and dotted(above) == "torch.autograd":
        above = program.parent(above)
    return above is not None and dotted(above).endswith("autograd.Variable")
