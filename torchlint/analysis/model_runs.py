"""Whether a place may run a model: what runs none is no step of an evaluation."""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import dotted
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
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
            return program.value(receiver).kind not in _DATA
        case _:
            return True


def _is_called_builtin(program: Program, name: cst.Name) -> bool:
    """Whether a name is one of Python's own; what ``import *`` may bring by it is no model."""
    return hasattr(builtins, name.value) and program.index.scope(name).owner(name.value) is None
