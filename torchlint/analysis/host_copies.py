"""Copies from a GPU to the host that nobody waits for, and what reads them too early.

``x.to("cpu", non_blocking=True)`` gives a tensor of pinned memory that is filled while Python goes
on, and so does ``pinned.copy_(x, non_blocking=True)``; a copy into ordinary memory waits by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import keywords
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.origins import origins
from torchlint.analysis.values import Device, Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_DEPTH = 8  # names and views that stand for the copy

# Methods and attributes that tell about a tensor, or give the same memory under another name.
_LOOKS = frozenset(
    {"size", "dim", "numel", "nelement", "stride", "data_ptr", "is_pinned", "element_size", "shape",
     "dtype", "device", "ndim", "requires_grad", "requires_grad_", "is_contiguous", "type"}
)  # fmt: skip
_VIEWS = frozenset(
    {"view", "reshape", "detach", "unsqueeze", "squeeze", "flatten", "permute", "transpose", "t",
     "T", "data", "expand", "narrow", "select", "movedim", "view_as", "detach_"}
)  # fmt: skip
_BACK = frozenset({"to", "cuda", "pin_memory", "copy_", "record_stream", "set_", "share_memory_"})
_READERS = frozenset(
    {"float", "int", "bool", "print", "str", "repr", "sum", "max", "min", "sorted", "list", "any",
     "all", "round", "abs"}
)  # fmt: skip
_JOINS = ("torch.cat", "torch.concat", "torch.stack", "torch.vstack", "torch.hstack",
          "numpy.concatenate", "numpy.stack", "numpy.vstack", "numpy.array")  # fmt: skip

# Methods that wait for the GPU, whatever they are called on, and names of functions that may.
_WAITS = frozenset(
    {"item", "cpu", "tolist", "wait", "query", "nonzero", "masked_select", "unique", "argwhere",
     "equal", "allclose", "record", "elapsed_time"}
)  # fmt: skip
_WAITING_WORDS = ("sync", "wait", "barrier", "flush", "empty_cache")
# Functions that do not wait for the GPU, unless they are given a tensor that is there.
_PLAIN = ("torch.", "numpy.", "math.", "time.", "random.", "logging.")
_PLAIN_METHODS = frozenset(
    {"append", "extend", "update", "add", "zero_grad", "step", "backward", "items", "keys",
     "values", "get", "format", "join", "train", "eval"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class HostCopy:
    """A copy to the host that is not waited for.

    ``flag``: the argument that says so.  ``result``: the expression whose memory is filled.
    """

    call: cst.Call
    flag: cst.Arg
    result: cst.BaseExpression


def host_copies(program: Program) -> Iterator[HostCopy]:
    """Yield the copies of GPU tensors into pinned memory of the host that nobody waits for."""
    for call, func in program.method_calls("to", "copy_"):
        flag = _flag(call, func.attr.value)
        if flag is None or literal(flag.value) != "True":
            continue
        source = func.value if func.attr.value == "to" else call.args[0].value
        if not _from_gpu(program, source):
            continue
        if func.attr.value == "copy_":
            if is_pinned(program, func.value):
                yield HostCopy(call, flag, func.value)
        elif program.values.moved_to(call, Device.UNKNOWN) is Device.CPU:
            yield HostCopy(call, flag, call)


def _flag(call: cst.Call, method: str) -> cst.Arg | None:
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "non_blocking":
            return arg
    plain = [arg for arg in call.args if arg.keyword is None and not arg.star]
    return plain[1] if method == "copy_" and len(plain) == 2 else None


def _from_gpu(program: Program, node: cst.BaseExpression) -> bool:
    value = program.value(node)
    return value.kind in (Kind.TENSOR, Kind.UNKNOWN) and value.device.gpu


def is_pinned(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a tensor is certainly pinned memory of the host."""
    made = origins(program, node)
    return bool(made) and all(_pins(one) for one in made)


def _pins(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "pin_memory":
        return True
    words = keywords(node)
    return literal(words.get("pin_memory")) == "True"


# -- who reads it ---------------------------------------------------------------------------------


def first_read(program: Program, copy: HostCopy) -> cst.CSTNode | None:
    """Return what reads the copy on the host before anything can have waited for it."""
    found = sorted(_reads(program, copy.result, copy.call, 0), key=program.index.order)
    # where the first of them has been waited for, so have the others
    return found[0] if found and not _waits_between(program, copy.call, found[0]) else None


def _reads(
    program: Program, node: cst.CSTNode, copy: cst.Call, depth: int
) -> Iterator[cst.CSTNode]:
    """Yield the expressions that read a tensor, through its views and the names it is given."""
    if depth > _DEPTH:
        return
    if isinstance(node, cst.Name | cst.Attribute) and depth == 0:
        yield from _reads_of_buffer(program, node, copy)
        return
    parent = program.parent(node)
    above = None if parent is None else program.parent(parent)
    match parent:
        case cst.Attribute(attr=cst.Name(value=name)) if parent.value is node:
            called = isinstance(above, cst.Call) and above.func is parent
            if name in _VIEWS:
                given = above if called and above is not None else parent
                yield from _reads(program, given, copy, depth + 1)
            elif called and above is not None and name not in _LOOKS | _BACK:
                yield above
        case cst.Subscript() if parent.value is node:
            if isinstance(above, cst.AssignTarget):
                return
            yield from _reads(program, parent, copy, depth + 1)
        case cst.BinaryOperation() | cst.Comparison() | cst.UnaryOperation():
            yield parent
        case cst.ComparisonTarget() | cst.FormattedStringExpression() | cst.AugAssign():
            yield parent
        case cst.If() | cst.While() | cst.Assert():
            yield node
        case cst.Arg() if isinstance(above, cst.Call):
            yield from _given(program, above, copy)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            yield from _reads_of_name(program, name, copy, depth)
        case cst.AnnAssign(target=cst.Name() as name):
            yield from _reads_of_name(program, name, copy, depth)
        case _:
            pass


def _given(program: Program, call: cst.Call, copy: cst.Call) -> Iterator[cst.CSTNode]:
    """Yield a call that reads what it is given, or what reads the list that it is put into."""
    name = program.qualified(call.func)
    if name.startswith(("numpy.", "math.", "torch.")):
        if not name.startswith(("torch.cuda.", "torch.is_")):
            yield call
        return
    match call.func:
        case cst.Name(value=function) if function in _READERS and program.is_builtin(call.func):
            yield call
        case cst.Attribute(value=cst.Name() as holder, attr=cst.Name(value="append")):
            yield from _joins_of(program, holder, copy)
        case _:
            pass


def _reads_of_name(
    program: Program, name: cst.Name, copy: cst.Call, depth: int
) -> Iterator[cst.CSTNode]:
    bound = program.index.bound(name)
    for use in _uses_after(program, name, copy):
        if bound is not None and bound in program.flow.reaching(use):
            yield from _reads(program, use, copy, depth + 1)


def _reads_of_buffer(
    program: Program, node: cst.Name | cst.Attribute, copy: cst.Call
) -> Iterator[cst.CSTNode]:
    """Yield what reads a buffer, behind the copy into it."""
    code, index = dotted(node), program.index
    function = program.function(copy)
    kind = type(node)
    for use in index.of(kind):
        after = index.order(use) >= index.end(copy) and program.function(use) is function
        if not after or dotted(use) != code or index.bound(use) is not None:
            continue
        if not _on_other_branch(program, copy, use):
            yield from _reads(program, use, copy, 1)


def _on_other_branch(program: Program, node: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two nodes stand in different branches of one ``if``."""
    for above in program.index.ancestors(node):
        if isinstance(above, cst.If) and above.orelse is not None:
            here = program.index.inside(node, above.body)
            if here and program.index.inside(other, above.orelse):
                return True
    return False


def _joins_of(program: Program, name: cst.Name, copy: cst.Call) -> Iterator[cst.CSTNode]:
    """Yield what makes one tensor or array of a list."""
    for use in _uses_after(program, name, copy):
        match program.parent(use):
            case cst.Arg() as arg if isinstance(call := program.parent(arg), cst.Call):
                if program.qualified(call.func) in _JOINS:
                    yield call
            case _:
                pass


def _uses_after(program: Program, name: cst.Name, copy: cst.Call) -> Iterator[cst.Name]:
    index = program.index
    function = program.function(copy)
    owner = index.scope(name).owner(name.value)
    for use in index.named.get(name.value, ()):
        if index.order(use) < index.end(copy) or index.bound(use) is not None:
            continue
        same = index.scope(use).owner(use.value) is owner
        parent = program.parent(use)
        attribute = isinstance(parent, cst.Attribute) and parent.attr is use
        keyword = isinstance(parent, cst.Arg) and parent.keyword is use
        if same and program.function(use) is function and not attribute and not keyword:
            yield use


# -- what waits -----------------------------------------------------------------------------------


def _waits_between(program: Program, copy: cst.Call, read: cst.CSTNode) -> bool:
    """Whether something from the copy to the end of the reading statement may wait for the GPU."""
    index = program.index
    start, stop = index.end(copy), index.end(program.smallest_statement(read))
    around = set[int]()  # what is called with the copy, before it is read
    for above in index.ancestors(copy):
        if above is read or isinstance(above, cst.BaseSmallStatement):
            break
        around.add(id(above))
    between = (
        call
        for call in index.of(cst.Call)
        if call is not read and (start <= index.order(call) < stop or id(call) in around)
    )
    if any(_may_wait(program, call) for call in between):
        return True
    return _is_numpy_view(program, read) and _synchronizes_later(program, read)


def _may_wait(program: Program, call: cst.Call) -> bool:
    """Whether a call may wait for the GPU; a call of something unknown may."""
    func = call.func
    name = program.qualified(func)
    last = func.attr.value if isinstance(func, cst.Attribute) else dotted(func)
    if last in _WAITS or any(word in last.lower() for word in _WAITING_WORDS):
        return True
    if last in ("to", "cuda"):
        return not any(
            a.keyword is not None and a.keyword.value == "non_blocking" for a in call.args
        )
    if name.startswith(_PLAIN):
        return False
    if isinstance(func, cst.Name) and program.is_builtin(func):
        return any(program.value(arg.value).device.gpu for arg in call.args)
    if last in _PLAIN_METHODS:
        return False
    value = program.value(func)
    if value.kind is Kind.MODULE:
        return False
    receiver = program.value(func.value) if isinstance(func, cst.Attribute) else value
    return receiver.kind not in (Kind.TENSOR, Kind.NDARRAY, Kind.STRING, Kind.LIST, Kind.NUMBER)


def _is_numpy_view(program: Program, read: cst.CSTNode) -> bool:
    """Whether a read only gives the memory another name, as NumPy's."""
    if not isinstance(read, cst.Call):
        return False
    if isinstance(read.func, cst.Attribute) and read.func.attr.value == "numpy":
        return True
    return program.qualified(read.func) in ("numpy.asarray", "numpy.frombuffer", "torch.from_numpy")


def _synchronizes_later(program: Program, read: cst.CSTNode) -> bool:
    function = program.function(read) or program.module
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value == "synchronize"
        for call in program.index.below(function, cst.Call)
        if program.index.order(call) > program.index.order(read)
    )
