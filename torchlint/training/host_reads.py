"""Host reads: where the host waits for the numbers of a tensor on a GPU, and what for."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Device, Library, Method, Tensor, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, Value

NUMBERS = frozenset({"item", "tolist", "__float__", "__int__", "__bool__", "__index__"})
COPIES = frozenset({"cpu", "numpy", "__array__"})
# What counts what it selects, or looks at all numbers, before the host knows a size.
SIZES = frozenset({"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere",
                   "bincount", "repeat_interleave"})  # fmt: skip
CONVERSIONS = frozenset({"float", "int", "bool", "complex"})
SHOWS = frozenset({"print", "str", "repr", "format"})


class How(enum.Enum):
    """How a value reaches the host."""

    NUMBER = enum.auto()  # .item(), float(t)
    COPY = enum.auto()  # .cpu(), .numpy(), np.array(t)
    SHOWN = enum.auto()  # print(t), f"{t}"
    TRUTH = enum.auto()  # if t:
    SIZE = enum.auto()  # t[mask], t.nonzero()


@dataclass(frozen=True, slots=True, eq=False)
class HostRead:
    """One read; ``tensor`` is the expression that is read, by the place in ``file``.

    ``sure`` says that it is a tensor on a GPU in any case.
    """

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    file: int
    how: How
    sure: bool


def host_reads(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    """Yield the reads of a file, in the order of the walk."""
    index = evaluation.files.modules[file].index
    found = [*_calls(evaluation, file), *_texts(evaluation, file), *_truths(evaluation, file)]
    found += _items(evaluation, file)
    seen: set[int] = set()
    for read in sorted(found, key=lambda one: index.order(one.node)):
        if id(read.node) not in seen:
            seen.add(id(read.node))
            yield read


def _calls(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    for call in evaluation.files.modules[file].index.of(cst.Call):
        for one in evaluation.values.get(id(call.func), ()):
            match one, call.func:
                case Method(owner=Tensor() as tensor, name=name), cst.Attribute(value=inner):
                    how = _method(evaluation, call, name)
                    if how and _may_wait(tensor):
                        yield _read(evaluation, call, inner, file, how)
                case Library(name=name), _:
                    yield from _library(evaluation, call, name, file)


def _method(evaluation: Evaluation, call: cst.Call, name: str) -> How | None:
    if name in NUMBERS:
        return How.NUMBER
    if name in SIZES:
        counts = name != "repeat_interleave" or any(
            isinstance(one, Tensor)
            for arg in call.args
            for one in evaluation.values.get(id(arg.value), ())
        )
        return How.SIZE if counts else None
    if name == "to":
        first = call.args[0] if call.args else None
        value = evaluation.values.get(id(first.value), ()) if first else ()
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
    elif package == "numpy":
        how = How.COPY
    elif name in ("torch.nonzero", "torch.masked_select", "torch.unique", "torch.argwhere"):
        how = How.SIZE
    if how is None:
        return
    for arg in call.args:
        value = evaluation.values.get(id(arg.value), ())
        if any(isinstance(one, Tensor) and _may_wait(one) for one in value):
            yield _read(evaluation, call, arg.value, file, how)
            return


def _texts(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    for part in evaluation.files.modules[file].index.of(cst.FormattedStringExpression):
        if _waits(evaluation, part.expression):
            yield _read(evaluation, part.expression, part.expression, file, How.SHOWN)


def _truths(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    index = evaluation.files.modules[file].index
    tests: list[cst.BaseExpression] = []
    for kind in (cst.If, cst.While, cst.IfExp, cst.Assert, cst.CompIf):
        tests += [node.test for node in index.of(kind)]  # type: ignore[attr-defined]
    while tests:
        test = tests.pop()
        match test:
            case cst.BooleanOperation(left=left, right=right):
                tests += [left, right]
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                tests.append(inner)
            case _:
                value = evaluation.values.get(id(test), ())
                is_tensor = bool(value) and all(isinstance(one, Tensor) for one in value)
                if is_tensor and _waits(evaluation, test):
                    yield _read(evaluation, test, test, file, How.TRUTH)


def _items(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    """``t[mask]``: how many numbers a mask selects, the host has to know."""
    for node in evaluation.files.modules[file].index.of(cst.Subscript):
        if not _waits(evaluation, node.value):
            continue
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                value = evaluation.values.get(id(element.slice.value), ())
                if any(isinstance(one, Tensor) and one.dtype == "bool" for one in value):
                    yield _read(evaluation, node, element.slice.value, file, How.SIZE)
                    break


def _waits(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    value: Value = evaluation.values.get(id(node), ())
    return any(isinstance(one, Tensor) and _may_wait(one) for one in value)


def _may_wait(tensor: Tensor) -> bool:
    return tensor.device in (Device.CUDA, Device.UNKNOWN)


def _read(
    evaluation: Evaluation,
    node: cst.BaseExpression,
    tensor: cst.BaseExpression,
    file: int,
    how: How,
) -> HostRead:
    value = evaluation.values.get(id(tensor), ())
    sure = bool(value) and all(
        isinstance(one, Tensor) and one.sure and one.device is Device.CUDA for one in value
    )
    return HostRead(node, tensor, file, how, sure)
