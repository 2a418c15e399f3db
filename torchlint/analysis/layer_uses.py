"""Which uses of a module look at its members, here and in a module that it is handed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.reach import class_of
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

# These neither run a module nor give it away.
ABOUT_MODULES = frozenset(
    {"weight", "bias", "in_channels", "out_channels", "in_features", "out_features", "kernel_size",
     "stride", "padding", "dilation", "groups", "num_features", "eps", "momentum", "affine",
     "running_mean", "running_var", "training", "parameters", "named_parameters", "state_dict",
     "load_state_dict", "modules", "named_modules", "apply", "train", "eval", "requires_grad_",
     "zero_grad", "reset_parameters", "reset_running_stats"}
)  # fmt: skip
SAME_MODULE = frozenset(
    {"to", "cuda", "cpu", "half", "float", "double", "train", "eval", "requires_grad_", "apply"}
)
_ITERATES = frozenset({"list", "tuple", "enumerate", "zip", "iter", "reversed"})


def opens(program: Program, use: cst.BaseExpression) -> bool:
    """Whether a use of a module looks at its members."""
    above = program.parent(use)
    match above:
        case cst.Subscript(value=inside) | cst.For(iter=inside) | cst.CompFor(iter=inside):
            return inside is use
        case cst.Attribute(value=inside, attr=attr):
            return inside is use and attr.value not in ABOUT_MODULES | SAME_MODULE
        case cst.Arg():
            call = program.parent(above)
            return isinstance(call, cst.Call) and dotted(call.func) in _ITERATES
        case _:
            return False


def runs_members(program: Program, call: cst.Call) -> bool:
    """Whether a call makes a module that looks at the members of what it is given.

    It may run them one by one, with something else in between.
    """
    found = class_of(program, program.value(call))
    if found is None:
        return False
    home, owner = found
    return any(opens(home, use) for name in _given(home, owner) for use in _uses(home, owner, name))


def _given(program: Program, owner: Class) -> Iterator[str]:
    """Yield the attributes that keep what the constructor is given."""
    for one in program.classes.lineage(owner):
        for name, stores in one.stores.items():
            for store in stores:
                if store.method.name.value == "__init__" and isinstance(store.value, cst.Name):
                    yield name


def _uses(program: Program, owner: Class, name: str) -> Iterator[cst.Attribute]:
    for one in program.classes.lineage(owner):
        for node in program.index.below(one.node, cst.Attribute):
            if dotted(node) == f"self.{name}":
                yield node
