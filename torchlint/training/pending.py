"""Copies from a GPU to the host that nobody waits for, and what reads them too early.

``x.to("cpu", non_blocking=True)`` gives a tensor that is filled while Python goes on, and so does
``pinned.copy_(x, non_blocking=True)``; a copy into ordinary memory waits by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import is_known
from torchlint.semantics.tables.tensors import BOOLS, NUMBERS, VIEWS
from torchlint.semantics.values import (
    Array,
    At,
    Device,
    Guess,
    Instance,
    Library,
    Method,
    Object,
    Sequence,
    Tensor,
    Text,
    Truth,
)
from torchlint.syntax.calls import keyword_of, keywords, last_name
from torchlint.syntax.chains import dotted
from torchlint.training.copies import device_copies
from torchlint.training.effects import unit_around
from torchlint.training.host_reads import host_reads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value
    from torchlint.syntax.index import Index

ON_GPU = (Device.CUDA, Device.UNKNOWN)
DEEPEST = 8  # names and views that stand for a copy
# What a tensor is asked without its numbers, or handed on with no wait.
LOOKS = NUMBERS | BOOLS | frozenset(
    {"size", "stride", "type", "to", "cuda", "pin_memory", "copy_", "record_stream", "set_",
     "share_memory_"}
)  # fmt: skip
GIVES_VIEW = VIEWS | frozenset({"data", "T", "mT"})
# Builtins that read the numbers of what they are given.
READERS = frozenset(
    f"builtins.{name}"
    for name in ("float", "int", "bool", "print", "str", "repr", "sum", "max", "min", "sorted",
                 "list", "any", "all", "round", "abs", "format")
)  # fmt: skip
JOINS = frozenset({"cat", "concat", "stack", "vstack", "hstack", "concatenate", "array"})
# Packages whose functions do not wait for a GPU, but for tensors that they are given.
PLAIN = ("torch.", "numpy.", "math.", "time.", "random.", "logging.", "builtins.")
# Methods of lists, dictionaries, optimizers and losses; and what waits, whatever it is a method of.
QUICK = frozenset({"append", "extend", "add", "update", "items", "keys", "values", "get",
                   "zero_grad", "step", "backward", "train", "eval"})  # fmt: skip
WAITING = frozenset({"synchronize", "wait", "query", "barrier", "elapsed_time"})


@dataclass(frozen=True, slots=True, eq=False)
class HostCopy:
    """A copy to the host that is not waited for.

    ``flag`` is the argument that says so, ``result`` the expression whose memory is filled.
    ``certain``: it comes from a GPU, and that memory is pinned, so that nothing waits by itself.
    """

    call: cst.Call
    flag: cst.Arg
    result: cst.BaseExpression
    certain: bool


def host_copies(evaluation: Evaluation, file: int) -> Iterator[HostCopy]:
    """Yield the copies of tensors to the host that may go on behind the script."""
    copies = {id(copy.node): copy for copy in device_copies(evaluation, file)}
    for call in evaluation.index(file).of(cst.Call):
        match call.func:
            case cst.Attribute(value=owner, attr=cst.Name(value="to")):
                copy = copies.get(id(call))
                flag = _flag(evaluation, call, 3)
                if flag and copy and copy.target is Device.HOST and _may_be(copy.value, *ON_GPU):
                    yield HostCopy(call, flag, call, certain=_may_be(copy.value, Device.CUDA))
            case cst.Attribute(value=owner, attr=cst.Name(value="copy_")) if call.args:
                flag = _flag(evaluation, call, 1)
                target = evaluation.value(owner)
                source = evaluation.value(call.args[0].value)
                if flag and _may_be(source, *ON_GPU) and not _may_be(target, Device.CUDA):
                    pinned = _is_pinned(evaluation, owner)
                    certain = pinned and _may_be(source, Device.CUDA)
                    yield HostCopy(call, flag, owner, certain=certain)


def _flag(evaluation: Evaluation, call: cst.Call, place: int) -> cst.Arg | None:
    """Return the argument by which a copy does not wait."""
    plain = [arg for arg in call.args if arg.keyword is None and not arg.star]
    named = [a for a in call.args if keyword_of(a) == "non_blocking"]
    for arg in named or plain[place : place + 1]:
        match evaluation.value(arg.value):
            case (Truth(value=True),):
                return arg
    return None


def _may_be(value: Value, *devices: Device) -> bool:
    """Whether a value may be a tensor on one of some devices."""
    if Device.UNKNOWN in devices and not is_known(value):
        return True
    return any(isinstance(one, Tensor) and one.device in devices for one in value)


def _is_pinned(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """Whether a tensor is certainly pinned memory of the host."""
    bound = evaluation.bindings(node)
    made: list[cst.CSTNode | None] = [one.value if one.is_plain else None for one in bound]
    if not made:
        value = evaluation.value(node)
        places = [one.made if isinstance(one, Tensor) else None for one in value]
        made = [None if at is None else evaluation.node(at) for at in places]
    return bool(made) and all(isinstance(one, cst.Call) and _pins(evaluation, one) for one in made)


def _pins(evaluation: Evaluation, call: cst.Call) -> bool:
    if last_name(call.func) == "pin_memory":
        return True
    pins = evaluation.value(keywords(call).get("pin_memory"))
    return any(isinstance(one, Truth) and one.value is True for one in pins)


# -- who reads it ---------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Readers:
    """Finds what reads the numbers of copies of a file."""

    evaluation: Evaluation
    file: int

    @property
    def index(self) -> Index:
        """The index of the file."""
        return self.evaluation.index(self.file)

    def first(self, copy: HostCopy) -> cst.CSTNode | None:
        """Return what reads a copy on the host before anything can have waited for it."""
        if copy.result is copy.call:
            found = self._reads(copy.call, copy, 0)
        else:
            found = self._reads_of_buffer(copy)
        ordered = sorted(found, key=self.index.order)
        # where the first of them has been waited for, so have the others
        return ordered[0] if ordered and not self._waits_between(copy, ordered[0]) else None

    def _reads(self, node: cst.CSTNode, copy: HostCopy, depth: int) -> Iterator[cst.CSTNode]:
        """Yield what reads a tensor, through its views and the names that it is given."""
        if depth > DEEPEST:
            return
        parent = self.index.parent(node)
        above = None if parent is None else self.index.parent(parent)
        match parent:
            case cst.Attribute(attr=cst.Name(value=name)) if parent.value is node:
                is_called = isinstance(above, cst.Call) and above.func is parent
                if name in GIVES_VIEW:
                    view = above if is_called and above is not None else parent
                    yield from self._reads(view, copy, depth + 1)
                elif is_called and above is not None and name not in LOOKS:
                    yield above
            case cst.Subscript() if parent.value is node:
                if not isinstance(above, (cst.AssignTarget, cst.AugAssign)):
                    yield from self._reads(parent, copy, depth + 1)
            case cst.BinaryOperation() | cst.Comparison() | cst.UnaryOperation():
                yield parent
            case cst.ComparisonTarget() | cst.FormattedStringExpression() | cst.AugAssign():
                yield parent
            case cst.If() | cst.While() | cst.Assert():
                yield node
            case cst.Arg() if isinstance(above, cst.Call):
                yield from self._given(above, copy)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
                yield from self._reads_of_name(name, copy, depth)
            case cst.AnnAssign(target=cst.Name() as name):
                yield from self._reads_of_name(name, copy, depth)

    def _given(self, call: cst.Call, copy: HostCopy) -> Iterator[cst.CSTNode]:
        """Yield a call that reads what it is given, or what joins the list that it is put into."""
        for one in self.evaluation.value(call.func):
            match one:
                case Library(name=name) if name in READERS or (
                    name.startswith(("torch.", "numpy.", "math."))
                    and not name.startswith(("torch.cuda.", "torch.is_"))
                ):
                    yield call
                    return
                case Method(owner=Sequence(made=At() as made), name="append"):
                    yield from self._joins(made, copy)
                    return

    def _joins(self, made: At, copy: HostCopy) -> Iterator[cst.CSTNode]:
        """Yield what makes one tensor or array of a list, behind a copy."""
        function = self._function(copy.call)
        for call in self.index.of(cst.Call):
            name = self._library(call).rpartition(".")[2]
            if name in JOINS and self._is_after(copy, call) and self._function(call) is function:
                value = self.evaluation.value(call.args[0].value) if call.args else ()
                if any(isinstance(one, Sequence) and one.made == made for one in value):
                    yield call

    def _reads_of_name(self, name: cst.Name, copy: HostCopy, depth: int) -> Iterator[cst.CSTNode]:
        bound = self.index.bound(name)
        for use in self.index.named.get(name.value, ()):
            reaching = self.evaluation.bindings(use)
            if bound is not None and bound in reaching and self._is_after(copy, use):
                yield from self._reads(use, copy, depth + 1)

    def _reads_of_buffer(self, copy: HostCopy) -> Iterator[cst.CSTNode]:
        """Yield what reads a buffer, behind the copy into it."""
        code, function = dotted(copy.result), self._function(copy.call)
        for use in self.index.of(type(copy.result)) if code else ():
            if (
                dotted(use) == code
                and self._is_after(copy, use)
                and self._function(use) is function
                and self.index.bound(use) is None
                and not self._is_on_other_branch(copy.call, use)
            ):
                yield from self._reads(use, copy, 1)

    def _function(self, node: cst.CSTNode) -> cst.CSTNode:
        return unit_around(self.evaluation, node, self.file).node

    def _library(self, call: cst.Call) -> str:
        value = self.evaluation.value(call.func)
        return next((one.name for one in value if isinstance(one, Library)), "")

    def _is_after(self, copy: HostCopy, node: cst.CSTNode) -> bool:
        return self.index.order(node) >= self.index.end(copy.call)

    def _is_on_other_branch(self, node: cst.CSTNode, other: cst.CSTNode) -> bool:
        return any(
            isinstance(above, cst.If)
            and above.orelse is not None
            and self.index.inside(node, above.body)
            and self.index.inside(other, above.orelse)
            for above in self.index.ancestors(node)
        )

    # -- what waits ------------------------------------------------------------------------------

    def _waits_between(self, copy: HostCopy, read: cst.CSTNode) -> bool:
        """Whether anything from the copy to the end of the statement that reads may wait."""
        index, module = self.index, self.evaluation.module(self.file)
        start, stop = index.end(copy.call), index.end(module.smallest_statement(read))
        around: set[int] = set()  # what is called with the copy, before it is read
        for above in index.ancestors(copy.call):
            if above is read or isinstance(above, cst.BaseSmallStatement):
                break
            around.add(id(above))

        def is_between(node: cst.CSTNode) -> bool:
            return node is not read and (start <= index.order(node) < stop or id(node) in around)

        if any(is_between(call) and self._may_wait(call) for call in index.of(cst.Call)):
            return True
        if any(is_between(other.node) for other in host_reads(self.evaluation, self.file)):
            return True
        return self._is_view_of_numpy(read) and self._is_waited_for_later(read)

    def _may_wait(self, call: cst.Call) -> bool:
        """Whether a call may wait for the GPU; one of something unknown may."""
        last = last_name(call.func)
        if last in WAITING:
            return True
        words = keywords(call).keys()
        if last in ("to", "cuda"):
            return "non_blocking" not in words
        if last in QUICK:
            return False
        value = self.evaluation.value(call.func)
        return not value or not all(self._is_quick(one) for one in value)

    def _is_quick(self, one: object) -> bool:
        """Whether calling something only queues work."""
        match one:
            case Library(name=name):
                return name.startswith(PLAIN) and "synchronize" not in name
            case Method(owner=Object(kind=kind)):
                return kind.startswith("torch.")
            case Method(owner=owner):
                return isinstance(owner, (Tensor, Array, Sequence, Text, Guess, Instance))
            case Instance() | Object() | Guess():
                return True  # a model
        return False

    def _is_view_of_numpy(self, read: cst.CSTNode) -> bool:
        """Whether a read only gives the memory another name, as NumPy's."""
        if not isinstance(read, cst.Call):
            return False
        if last_name(read.func) == "numpy":
            return True
        return self._library(read) in ("numpy.asarray", "numpy.frombuffer", "torch.from_numpy")

    def _is_waited_for_later(self, read: cst.CSTNode) -> bool:
        return any(
            last_name(call.func) == "synchronize"
            and self.index.order(call) > self.index.order(read)
            for call in self.index.below(self._function(read), cst.Call)
        )
