"""Whether a place may run a model: what runs none is no step of an evaluation."""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

_DEPTH = 3  # functions that call functions
# What holds data, or is told numbers.
_DATA = frozenset(
    {Kind.TENSOR, Kind.BATCH, Kind.NDARRAY, Kind.NPSCALAR, Kind.LIST, Kind.TUPLE, Kind.DICT,
     Kind.STRING, Kind.NUMBER, Kind.BOOL, Kind.ITERATOR, Kind.OPTIMIZER, Kind.SCHEDULER}
)  # fmt: skip
# Methods of data that no model has, whatever they are called on.
_OF_DATA = frozenset(
    """append extend update items keys values get pop sort add cpu numpy cuda to item tolist size
    wait format join split strip write info debug warning mean sum max min view reshape detach long
    int float bool double flatten squeeze unsqueeze clone t transpose permute contiguous unbind
    expand repeat numel dim argmax topk sqrt pow abs norm square clamp clamp_min clamp_max exp log
    softmax sigmoid round div mul sub nonzero any all eq ne gt lt ge le masked_fill gather
    index_select expand_as view_as type_as std var prod cumsum dot matmul bmm half
    bfloat16""".split()
)
# Methods of a model that give what it is made of, and do not run it.
GIVES_PARTS = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "modules",
     "named_modules", "children", "named_children"}
)  # fmt: skip
# Whatever these do, they run no model.
_NO_MODEL = re.compile(
    r"token|vocab|logg|writer|meter|metric|progress|bar$|timer|scaler|normali[sz]er", re.IGNORECASE
)

_IS_MODEL = re.compile(r"model|net|module|encoder|decoder|backbone", re.IGNORECASE)
_FEW = 4  # files with a method of the same name


def runs_model(program: Program, place: cst.CSTNode, depth: int = 0) -> bool:
    """Whether a call at or below a place may run a model: what is not known may."""
    return depth > _DEPTH or any(
        may_run_model(program, call, depth) for call in program.index.below(place, cst.Call)
    )


def may_run_model(program: Program, call: cst.Call, depth: int = 0) -> bool:
    """Whether one call may run a model."""
    if any(program.value(arg.value).kind is Kind.MODULE for arg in call.args):
        return True
    own = program.calls.target(call)
    if own is not None and not program.is_property(own):  # else it is what a property gives
        return runs_model(program, own.body, depth + 1)
    other = program.calls.elsewhere(call)
    if other is not None:
        return runs_model(other.program, other.function.body, depth + 1)
    function = program.value(call.func)
    if function.kind is Kind.MODULE:
        return True
    if program.qualified(call.func).partition(".")[0]:
        return False  # a function of a library
    match call.func:
        case cst.Name() as name:
            return not (_is_called_builtin(program, name) or function.kind is Kind.CLASS)
        case cst.Attribute(value=receiver, attr=cst.Name(value=method)):
            runs_none = method in _OF_DATA or method in GIVES_PARTS or method.endswith("_")
            if runs_none or _NO_MODEL.search(dotted(receiver).rpartition(".")[2]):
                return False
            kind = program.value(receiver).kind
            return kind not in _DATA and not (
                kind is Kind.UNKNOWN
                and isinstance(receiver, cst.Name)
                and _is_of_result(program, receiver, method, depth)
            )
        case _:
            return True


def _is_of_result(program: Program, name: cst.Name, method: str, depth: int) -> bool:
    """``for boxes in found: boxes.convert("xywh")``, of what a loop goes through.

    Whether all that has such a method in the project runs no model: classes that are no modules,
    and have the other methods that the object is asked for.
    """
    bound = program.flow.reaching(name)
    if _IS_MODEL.search(name.value) or not bound or any(b.kind is not Bind.FOR for b in bound):
        return False
    owners = [
        (home, owner)
        for home in _defining(program, method)
        for owner in home.classes
        if method in owner.methods
    ]
    if not owners:
        return False
    asked = _asked_of(program, name)
    owners = [one for one in owners if all(_has(*one, other) for other in asked)]
    return bool(owners) and not any(
        owner.is_module or runs_model(home, owner.methods[method].body, depth + 1)
        for home, owner in owners
    )


def _defining(program: Program, method: str) -> list[Program]:
    """Return the files that define a function of a name; none where they are many."""
    project = program.project
    if project is None or program.path is None:
        return [program]
    paths = project.imports.having((f"def {method}(",))
    found = [project.program(path) for path in sorted(paths)] if len(paths) <= _FEW else []
    return [home for home in found if home is not None]


def _asked_of(program: Program, result: cst.Name) -> set[str]:
    """Return the methods that a name is asked for where it has the same value."""
    bound = {*program.flow.reaching(result)}
    return {
        func.attr.value
        for name in program.index.named[result.value]
        if isinstance(func := program.parent(name), cst.Attribute)
        and func.value is name
        and isinstance(call := program.parent(func), cst.Call)
        and call.func is func
        and {*program.flow.reaching(name)} == bound
    }


def _has(home: Program, owner: Class, method: str) -> bool:
    """Whether a class has a method, of its own or of a base in the project."""
    if home.classes.method(owner, method) is not None:
        return True
    return home.project is not None and home.project.inherited(home, owner, method) is not None


def _is_called_builtin(program: Program, name: cst.Name) -> bool:
    """Whether a name is one of Python's own; what ``import *`` may bring by it is no model."""
    return hasattr(builtins, name.value) and program.index.scope(name).owner(name.value) is None
