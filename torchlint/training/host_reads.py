"""Host reads: where the host waits for the numbers of a tensor on a GPU."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import (
    Device,
    Library,
    Method,
    Object,
    Tensor,
    Text,
    Unknown,
)
from torchlint.syntax.chains import dotted, root_of
from torchlint.syntax.scopes import Bind
from torchlint.training.host_batches import is_part_of_moved
from torchlint.training.read_names import (
    CONVERSIONS,
    COPIES,
    COUNTS,
    LOGGERS,
    LOGGING,
    LOGS,
    NUMBERS,
    ON_THE_WAY,
    SHOWS,
    SIZES,
    WRITES,
)
from torchlint.training.scalars import comes_from_tensor, goes_back, is_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, Value
    from torchlint.syntax.index import Index


class How(enum.Enum):
    """How a value reaches the host."""

    NUMBER = enum.auto()  # .item(), float(t), math.isnan(t)
    COPY = enum.auto()  # .cpu(), .numpy(), .tolist(), np.array(t)
    SHOWN = enum.auto()  # print(t), f"{t}", writer.add_scalar("loss", t)
    COUNT = enum.auto()  # range(t), torch.zeros(t), torch.tensor([t])
    TRUTH = enum.auto()  # if t:
    SIZE = enum.auto()  # t[mask], t.nonzero()


@dataclass(frozen=True, slots=True, eq=False)
class HostRead:
    """One read; ``tensor`` is the expression that is read, by the place in ``file``.

    ``sure`` says that it certainly is a tensor, on a GPU where the script has one.
    """

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    file: int
    how: How
    sure: bool

    @property
    def is_old(self) -> bool:
        """Whether it is spelled as up to torch 0.4: ``loss.data[0]``."""
        return self.how is How.NUMBER and isinstance(self.node, cst.Subscript)


def host_reads(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    """Yield the reads of a file, in the order of the walk."""
    index = evaluation.index(file)
    found = [*_calls(evaluation, file), *_texts(evaluation, file), *_truths(evaluation, file)]
    found += _items(evaluation, file)
    seen: set[int] = set()
    for read in sorted(found, key=lambda one: index.order(one.node)):
        if id(read.node) not in seen:
            seen.add(id(read.node))
            yield read


def _calls(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    index = evaluation.index(file)
    for call in index.of(cst.Call):
        functions = evaluation.value(call.func)
        for one in functions:
            match one, call.func:
                case Method(owner=Tensor() as tensor, name=name), cst.Attribute(value=inner):
                    how = _method(evaluation, call, name)
                    if how and _may_wait(tensor):
                        end = _end(evaluation, index, call) if how is How.COPY else call
                        how = how if end is call else How.NUMBER
                        yield _read(evaluation, end, inner, file, how)
                case Library(name=name), _:
                    yield from _library(evaluation, call, name, file)
        yield from _written(evaluation, call, functions, file)
        match call:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="item")), args=[]):
                if all(map(_is_open, functions)) and (
                    comes_from_tensor(evaluation, inner) or goes_back(evaluation, inner, file)
                ):
                    yield HostRead(call, inner, file, How.NUMBER, sure=False)
            case cst.Call(
                func=cst.Attribute(value=inner, attr=cst.Name(value="to" | "cpu" as name))
            ):
                is_known = not all(map(_is_open, functions)) or _is_no_copy(evaluation, inner, file)
                if not is_known and _method(evaluation, call, name) is How.COPY:
                    yield HostRead(call, inner, file, How.COPY, sure=False)


def _is_open(function: Alternative) -> bool:
    """Whether nothing is known of what has a method."""
    return isinstance(function, Unknown) or (
        isinstance(function, Method) and isinstance(function.owner, (Unknown, Method))
    )


def _is_no_copy(evaluation: Evaluation, node: cst.BaseExpression, file: int) -> bool:
    """Whether something unknown may be a model by its name, or is what a loop takes of something.

    Models are moved as a whole, and loaders give what is on the host.
    """
    word = dotted(node).rpartition(".")[2]
    bound = evaluation.bindings(root_of(node, subscripts=True))
    is_taken = bool(bound) and all(one.kind is Bind.FOR for one in bound)
    is_host = is_taken and not is_part_of_moved(evaluation, node, file)
    return is_host or evaluation.convention(word) == "model"


def _end(evaluation: Evaluation, index: Index, call: cst.Call) -> cst.Call:
    """Return the call that makes a number of a copy (``t.cpu().item()``), else the copy itself."""
    node: cst.CSTNode = call
    for above in index.ancestors(call):
        match above:
            case cst.Attribute(value=inner, attr=cst.Name(value=name)) if inner is node:
                if name not in ON_THE_WAY:
                    return call
            case cst.Call(func=cst.Attribute(attr=cst.Name(value="item"))) if above.func is node:
                return above
            case cst.Call(func=func) if func is node:
                pass
            case cst.Arg():
                pass
            case cst.Call(func=func, args=[arg]) if arg is node:
                name = _name(evaluation, func)
                is_number = name.partition("builtins.")[2] in CONVERSIONS
                return above if is_number else call
            case _:
                return call
        node = above
    return call


def _method(evaluation: Evaluation, call: cst.Call, name: str) -> How | None:
    if name in NUMBERS:
        return How.NUMBER
    if name in SIZES:
        counts = name != "repeat_interleave" or any(
            isinstance(one, Tensor) for arg in call.args for one in evaluation.value(arg.value)
        )
        return How.SIZE if counts else None
    if name == "to":
        first = call.args[0] if call.args else None
        value = evaluation.value(first.value) if first else ()
        is_host = bool(value) and all(_is_host(one) for one in value)
        return How.COPY if is_host else None
    return How.COPY if name in COPIES else None


def _is_host(one: Alternative) -> bool:
    return (isinstance(one, Text) and one.value == "cpu") or (
        getattr(one, "device", None) is Device.HOST and not isinstance(one, Tensor)
    )


def _library(evaluation: Evaluation, call: cst.Call, name: str, file: int) -> Iterator[HostRead]:
    package, _, rest = name.partition(".")
    how: How | None = None
    if package == "builtins":
        how = How.NUMBER if rest in CONVERSIONS else How.SHOWN if rest in SHOWS else None
        how = How.TRUTH if rest == "bool" else how
    elif package == "numpy":
        how = How.COPY
    elif package == "math":
        how = How.NUMBER
    elif name in ("torch.nonzero", "torch.masked_select", "torch.unique", "torch.argwhere"):
        how = How.SIZE
    if name in COUNTS:
        how = How.COUNT
    elif name == "torch.tensor":
        yield from _listed(evaluation, call, file)
    if how is not None:
        yield from _arguments(evaluation, call, file, how)


def _arguments(evaluation: Evaluation, call: cst.Call, file: int, how: How) -> Iterator[HostRead]:
    """Yield what a call reads of its arguments: all of it is read at once."""
    for arg in call.args:
        for node in _parts(arg.value):
            if _waits(evaluation, node):
                is_all = how in (How.SHOWN, How.COUNT, How.TRUTH)
                yield _read(evaluation, node if is_all else call, node, file, how)
                if not is_all:
                    return


def _listed(evaluation: Evaluation, call: cst.Call, file: int) -> Iterator[HostRead]:
    """``torch.tensor([loss, accuracy])``: each of them."""
    for arg in call.args[:1]:
        for node in _parts(arg.value) if isinstance(arg.value, (cst.List, cst.Tuple)) else ():
            if _waits(evaluation, node):
                yield _read(evaluation, node, node, file, How.COUNT)


def _written(
    evaluation: Evaluation, call: cst.Call, functions: Value, file: int
) -> Iterator[HostRead]:
    """``writer.add_scalar("loss", loss)``, ``logging.info("%s", loss)``, ``"{}".format(loss)``."""
    for one in functions or (Unknown(),):
        match one, call.func:
            case Library(name=name), _ if name.startswith(LOGGERS):
                yield from _arguments(evaluation, call, file, How.SHOWN)
            case Method(owner=Text(), name="format"), _:
                yield from _arguments(evaluation, call, file, How.SHOWN)
            case Method(owner=Object(kind=kind), name=name), _ if name in LOGS | WRITES:
                if kind.startswith(LOGGING):
                    yield from _arguments(evaluation, call, file, How.SHOWN)
            case Unknown(), cst.Attribute(attr=cst.Name(value=name)) if name in WRITES:
                yield from _arguments(evaluation, call, file, How.SHOWN)


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the parts of a display, through displays in it; else the expression itself."""
    match node:
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            for element in elements:
                yield from _parts(element.value)
        case cst.Dict(elements=entries):
            for entry in entries:
                yield from _parts(entry.value)
        case _:
            yield node


def _texts(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    """``f"{t}"`` and ``"%s" % t``."""
    index = evaluation.index(file)
    for part in index.of(cst.FormattedStringExpression):
        if _waits(evaluation, part.expression):
            yield _read(evaluation, part.expression, part.expression, file, How.SHOWN)
    for node in index.of(cst.BinaryOperation):
        if isinstance(node.operator, cst.Modulo) and any(
            isinstance(one, Text) for one in evaluation.value(node.left)
        ):
            for inner in _parts(node.right):
                if _waits(evaluation, inner):
                    yield _read(evaluation, inner, inner, file, How.SHOWN)


def _truths(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    index = evaluation.index(file)
    tests: list[cst.BaseExpression] = []
    for kind in (cst.If, cst.While, cst.IfExp, cst.Assert, cst.CompIf):
        tests += [node.test for node in index.of(kind)]  # type: ignore[attr-defined]
    tests += [one.left for one in index.of(cst.BooleanOperation)]
    tests += [
        one.expression for one in index.of(cst.UnaryOperation) if isinstance(one.operator, cst.Not)
    ]
    while tests:
        test = tests.pop()
        match test:
            case cst.BooleanOperation(left=left, right=right):
                tests += [left, right]
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                tests.append(inner)
            case _:
                value = evaluation.value(test)
                if _is_asked(value):
                    yield _read(evaluation, test, test, file, How.TRUTH)


def _is_asked(value: Value) -> bool:
    """Whether the host waits for the truth of a value: it is a tensor in any case, as is known."""
    tensors = [one for one in value if isinstance(one, Tensor) and _may_wait(one)]
    on_gpu = any(one.device is Device.CUDA for one in tensors)
    others = [one for one in value if not isinstance(one, Tensor)]
    if any(not isinstance(one, Unknown) for one in others):
        return False
    return on_gpu if others else bool(tensors)


def _items(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    """``t[mask]``: how many numbers a mask selects, the host has to know; ``loss.data[0]``."""
    index = evaluation.index(file)
    for node in index.of(cst.Subscript):
        if not _waits(evaluation, node.value):
            continue
        if getattr(index.parent(node), "target", None) is node:
            continue  # a mask that is written to selects nothing
        match node.value, node.slice:
            case cst.Attribute(value=inner, attr=cst.Name(value="data")), [
                cst.SubscriptElement(slice=cst.Index(value=cst.Integer(value="0")))
            ] if is_scalar(evaluation, inner, file):
                yield _read(evaluation, node, inner, file, How.NUMBER)
                continue
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                value = evaluation.value(element.slice.value)
                if any(isinstance(one, Tensor) and one.dtype == "bool" for one in value):
                    yield _read(evaluation, node, element.slice.value, file, How.SIZE)
                    break


def _name(evaluation: Evaluation, node: cst.BaseExpression) -> str:
    match evaluation.value(node):
        case (Library(name=name),):
            return name
    return ""


def _waits(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    value: Value = evaluation.value(node)
    return any(isinstance(one, Tensor) and _may_wait(one) for one in value)


def _may_wait(tensor: Tensor) -> bool:
    return tensor.device is not Device.HOST


def _read(
    evaluation: Evaluation,
    node: cst.BaseExpression,
    tensor: cst.BaseExpression,
    file: int,
    how: How,
) -> HostRead:
    value = evaluation.value(tensor)
    sure = all(isinstance(one, Tensor) and one.sure for one in value)
    return HostRead(node, tensor, file, how, sure and _on_gpu(value))


def _on_gpu(value: Value) -> bool:
    """Whether tensors live on a GPU, on the host at most where there is none."""
    devices = {one.device for one in value if isinstance(one, Tensor)}
    return bool(devices - {Device.HOST}) and Device.UNKNOWN not in devices
