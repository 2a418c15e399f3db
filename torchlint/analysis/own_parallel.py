"""Classes of the project that are torch's `DataParallel`, with something of their own.

Such a class may split the batch in its own way (``scatter``) or leave the outputs where they are
(``gather``): the model is still copied to every GPU in each forward pass.  It need not be where a
class runs the model, or copies it, in its own way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

    Place: TypeAlias = tuple[Program, cst.BaseExpression]

# Where the class can be imported from.
DATA_PARALLEL = frozenset({
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
})  # fmt: skip
_DERIVED = re.compile(r"^[ \t]*class \w+\([^()]*\bDataParallel\b", re.MULTILINE)
_RUNS = ("forward", "__call__", "parallel_apply")  # what decides how the copies run
_COPIES = "replicate"


def own_wraps(program: Program) -> Iterator[tuple[cst.Call, list[Place]]]:
    """Yield what makes an object of such a class, with what may say its devices."""
    for call in program.index.of(cst.Call) if _may_have_any(program) else ():
        found = _class_of(program, call) if call.args else None
        if found is not None and _is_plain(*found):
            yield call, [*((program, arg.value) for arg in call.args[1:]), *_handed_on(*found)]


def _may_have_any(program: Program) -> bool:
    """Whether a file of the project has such a class."""
    if _defines(program.text):
        return True
    return program.project is not None and bool(program.project.imports.where(_defines))


def _defines(text: str) -> bool:
    return "DataParallel" in text and _DERIVED.search(text) is not None


def _class_of(program: Program, call: cst.Call) -> tuple[Program, Class] | None:
    """Return the class of the project that a call makes an object of, with its file."""
    name = program.qualified(call.func)
    if not name or name.startswith("torch."):
        return None
    owner = program.classes.named(name)
    if owner is not None:
        return program, owner
    return None if program.project is None else program.project.defined_class(program, name)


def _is_plain(home: Program, owner: Class) -> bool:
    """Whether a class is derived from torch's, and leaves alone how copies are made and run."""
    bases = {base for one in home.classes.lineage(owner) for base in one.bases}
    copies = home.classes.method(owner, _COPIES)
    return (
        not bases.isdisjoint(DATA_PARALLEL)
        and not any(home.classes.method(owner, name) for name in _RUNS)
        and (copies is None or _calls_own(home, copies, _COPIES))
    )


def _calls_own(home: Program, method: cst.FunctionDef, name: str) -> bool:
    """Whether a method does what the class above does: ``super().replicate(module, ids)``."""
    calls = home.index.below(method.body, cst.Call)
    return any(isinstance(one.func, cst.Attribute) and one.func.attr.value == name for one in calls)


def _handed_on(home: Program, owner: Class) -> Iterator[Place]:
    """Yield what the ``__init__`` of a class tells torch's: ``super().__init__(module, [0])``."""
    made = home.classes.method(owner, "__init__")
    for call in () if made is None else home.index.below(made.body, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "__init__":
            yield from ((home, arg.value) for arg in call.args[1:])
