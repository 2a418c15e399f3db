"""Host reads: where the host waits for the numbers of a tensor on a GPU."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.semantics.values import (
    Device,
    Library,
    Method,
    Object,
    Place,
    Tensor,
    Text,
    Unknown,
)
from torchlint.syntax.calls import argument_of, has_keyword, keyword_of, last_name
from torchlint.syntax.chains import root_of
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, Value


class How(enum.Enum):
    """How a value reaches the host."""

    NUMBER = enum.auto()  # .item(), float(t), math.isnan(t)
    COPY = enum.auto()  # .cpu(), .numpy(), .tolist(), np.array(t)
    SHOWN = enum.auto()  # print(t), f"{t}", writer.add_scalar("loss", t)
    COUNT = enum.auto()  # range(t), torch.zeros(t)
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


_Found: TypeAlias = tuple[cst.BaseExpression, cst.BaseExpression, How]  # the node, the tensor

CONVERSIONS = frozenset(f"builtins.{name}" for name in ("float", "int", "complex"))
SHOWS = frozenset(f"builtins.{name}" for name in ("print", "str", "repr", "format"))
# What needs whole numbers on the host: how many turns there are, or rows.
COUNTS = frozenset(
    {"builtins.range"} | {f"torch.{one}" for one in "arange zeros ones full empty rand eye".split()}
)
# What counts what it selects, or looks at all numbers, before the host knows a size.
SIZES = frozenset("nonzero masked_select unique unique_consecutive argwhere bincount".split())
METHODS = {
    **dict.fromkeys(("item", "__float__", "__int__", "__bool__", "__index__"), How.NUMBER),
    **dict.fromkeys(("cpu", "numpy", "tolist", "__array__"), How.COPY),
    **dict.fromkeys(SIZES, How.SIZE),
}
FUNCTIONS = {
    **dict.fromkeys(CONVERSIONS, How.NUMBER),
    "builtins.bool": How.TRUTH,
    **dict.fromkeys(COUNTS, How.COUNT),
    **dict.fromkeys((f"torch.{name}" for name in SIZES), How.SIZE),
}
PACKAGES = {"math": How.NUMBER, "numpy": How.COPY}
# Methods that show or write numbers, whatever has them, and libraries that do.
WRITES = frozenset(
    "add_scalar add_scalars set_postfix set_postfix_str set_description set_description_str".split()
)
LOGGERS = ("logging.", "wandb.log", "mlflow.log_", "tqdm.", "sys.stdout.", "sys.stderr.")
LOGGING = ("logging.", "wandb.", "tqdm.", "loguru.", "torch.utils.tensorboard.", "tensorboardX.")
# What a copy goes through on the host before it is a number.
ON_THE_WAY = frozenset("cpu detach data numpy item".split())


def host_reads(evaluation: Evaluation, file: int) -> Iterator[HostRead]:
    """Yield the reads of a file, in the order of the walk."""
    found = [*_calls(evaluation, file), *_texts(evaluation, file), *_truths(evaluation, file)]
    found += _masks(evaluation, file)
    seen: set[int] = set()
    for node, tensor, how in sorted(found, key=lambda one: evaluation.index(file).order(one[0])):
        if id(node) not in seen:
            seen.add(id(node))
            yield HostRead(node, tensor, file, how, _is_sure(evaluation.value(tensor)))


def _is_sure(value: Value) -> bool:
    """Whether something is a tensor on a GPU, on the host at most where there is none.

    So is what comes of a model that is on a GPU, whatever else comes into it that nobody knows.
    """
    tensors = [one for one in value if isinstance(one, Tensor)]
    if any(one.graph and one.device is Device.CUDA for one in tensors):
        return True
    devices = {one.device if isinstance(one, Tensor) and one.sure else None for one in value}
    return bool(devices - {Device.HOST}) and not devices & {None, Device.UNKNOWN}


def _waits(value: Value) -> bool:
    """Whether it may be a tensor on a GPU; of some on the host, others are seen to be on one."""
    devices = {one.device for one in value if isinstance(one, Tensor)}
    return bool(devices - {Device.HOST, Device.UNKNOWN}) or devices == {Device.UNKNOWN}


def shows(evaluation: Evaluation, call: cst.Call) -> bool:
    """Whether a call makes text of what it is given, or writes it to where it is looked at."""
    return last_name(call.func) in WRITES or any(map(_shows, evaluation.value(call.func)))


def _shows(function: Alternative) -> bool:
    match function:
        case Library(name=name):
            return name in SHOWS or name.startswith(LOGGERS)
        case Method(owner=Text(), name="format"):
            return True
        case Method(owner=Object(kind=kind)):
            return kind.startswith(LOGGING)
    return False


def _calls(evaluation: Evaluation, file: int) -> Iterator[_Found]:
    for call in evaluation.index(file).of(cst.Call):
        functions = evaluation.value(call.func)
        if isinstance(call.func, cst.Attribute):
            yield from _method(evaluation, call, call.func, functions, file)
        names = [one.name for one in functions if isinstance(one, Library)]
        for name in names:
            how = FUNCTIONS.get(name) or PACKAGES.get(name.partition(".")[0])
            if how is not None:
                yield from _arguments(evaluation, call, how)
        if shows(evaluation, call):
            yield from _arguments(evaluation, call, How.SHOWN)


def _method(
    evaluation: Evaluation, call: cst.Call, func: cst.Attribute, functions: Value, file: int
) -> Iterator[_Found]:
    """Yield what a method reads: of a tensor, or ``item()`` and ``cpu()`` of who knows what."""
    name = func.attr.value
    how = METHODS.get(name)
    if name == "to" and not has_keyword(call, ("non_blocking",)):
        where = evaluation.value(argument_of(call, "device", 0))
        how = How.COPY if where and all(map(_is_host, where)) else None
    is_open = all(map(_is_open, functions)) and (
        (name in ("to", "cpu") and not _is_taken(evaluation, func.value))
        or (name == "item" and not call.args)
    )
    owners = [one.owner for one in functions if isinstance(one, Method)]
    if how is not None and (is_open or _waits(tuple(owners))):
        end = _end(evaluation, call, file) if how is How.COPY and not is_open else call
        yield end, func.value, how if end is call else How.NUMBER


def _is_open(function: Alternative) -> bool:
    """Whether nothing is known of what has a method."""
    owner = function.owner if isinstance(function, Method) else function
    return isinstance(owner, (Unknown, Method))


def _is_taken(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """Whether a loop takes something out of who knows what: loaders give what is on the host."""
    bound = evaluation.bindings(root_of(node, subscripts=True))
    return bool(bound) and all(one.kind is Bind.FOR for one in bound)


def _is_host(one: Alternative) -> bool:
    return one == Text("cpu") or one == Place(Device.HOST)


def _end(evaluation: Evaluation, call: cst.Call, file: int) -> cst.Call:
    """Return the call that makes a number of a copy (``t.cpu().item()``), else the copy itself."""
    for above, node in evaluation.index(file).climb(call):
        match above:
            case cst.Call(func=cst.Attribute(attr=cst.Name("item"))) if above.func is node:
                return above
            case cst.Call(func=func) if func is not node:
                return above if evaluation.library(func) in CONVERSIONS else call
            case cst.Attribute(attr=cst.Name(name)) if name not in ON_THE_WAY:
                break
            case cst.Attribute() | cst.Arg() | cst.Call():
                continue
        break
    return call


def _arguments(evaluation: Evaluation, call: cst.Call, how: How) -> Iterator[_Found]:
    """Yield what a call reads of its arguments: what computes with them waits once."""
    read = [arg.value for arg in call.args if keyword_of(arg) != "out"]  # that is written
    for node in (node for value in read for node in _parts(value)):
        if _waits(evaluation.value(node)):
            is_one = how in (How.NUMBER, How.COPY, How.SIZE)
            yield call if is_one else node, node, how


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


def _texts(evaluation: Evaluation, file: int) -> Iterator[_Found]:
    """``f"{t}"`` and ``"%s" % t``."""
    index = evaluation.index(file)
    shown = [one.expression for one in index.of(cst.FormattedStringExpression)]
    for node in index.of(cst.BinaryOperation):
        if isinstance(node.operator, cst.Modulo) and is_text(evaluation, node.left):
            shown += _parts(node.right)
    for one in shown:
        if _waits(evaluation.value(one)):
            yield one, one, How.SHOWN


def is_text(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """Whether something may be a string."""
    return any(isinstance(one, Text) for one in evaluation.value(node))


def _truths(evaluation: Evaluation, file: int) -> Iterator[_Found]:
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
                if _is_asked(evaluation.value(test)):
                    yield test, test, How.TRUTH


def _is_asked(value: Value) -> bool:
    """Whether the host waits for the truth of a value: it is a tensor in any case, as is known."""
    tensors = [one for one in value if isinstance(one, Tensor)]
    is_seen = any(one.device is Device.CUDA for one in tensors) or len(tensors) == len(value)
    are_others = any(not isinstance(one, (Tensor, Unknown)) for one in value)
    return is_seen and not are_others and _waits(value)


def _masks(evaluation: Evaluation, file: int) -> Iterator[_Found]:
    """``t[mask]``: how many numbers a mask selects, the host has to know."""
    index = evaluation.index(file)
    for node in index.of(cst.Subscript):
        is_target = getattr(index.parent(node), "target", None) is node  # it selects nothing
        if is_target or not _waits(evaluation.value(node.value)):
            continue
        for element in node.slice:
            part = element.slice
            if isinstance(part, cst.Index) and _is_mask(evaluation.value(part.value)):
                yield node, part.value, How.SIZE
                break


def _is_mask(value: Value) -> bool:
    return any(isinstance(one, Tensor) and one.dtype == "bool" for one in value)
