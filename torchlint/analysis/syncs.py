"""Where the host waits for the GPU to read a value: ``.item()``, ``float(t)``, printing.

``loss.data[0]`` is how torch spelled ``loss.item()`` up to 0.4.

Only reads of what is (or may be) a tensor on a GPU count: a NumPy scalar, a Python number or a
batch that was not moved yet costs nothing to read.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.branches import without_gpu
from torchlint.analysis.early_ends import has_one_turn
from torchlint.analysis.fetched import fetched
from torchlint.analysis.loops import Context, Role
from torchlint.analysis.on_host import is_moved_next, of_host_model
from torchlint.analysis.removed import old_item
from torchlint.analysis.simulators import for_simulator
from torchlint.analysis.sinks import SHOWS, is_sink
from torchlint.analysis.timing import copies_without_waiting
from torchlint.analysis.unmoved import is_moved_aside, stays_unmoved
from torchlint.analysis.uploaded import was_uploaded
from torchlint.analysis.uses import is_label
from torchlint.analysis.values import Device, Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value


class Read(enum.Enum):
    """How a value reaches the host."""

    SCALAR = enum.auto()  # .item(), float(t), int(t), loss.data[0]
    COPY = enum.auto()  # .cpu(), .to("cpu"), .tolist()
    SHOWN = enum.auto()  # a tensor given to print, a logger or a progress bar as it is
    SIZE = enum.auto()  # torch.zeros(n), range(n)
    LISTED = enum.auto()  # torch.tensor([loss, accuracy])
    TRUTH = enum.auto()  # `if loss > 1:`, `not mask.any()`


@dataclass(frozen=True, slots=True, eq=False)
class Sync:
    """One read of a tensor by the host.

    ``node`` is the expression that reads, ``tensor`` what it reads, ``sure`` whether the latter is
    proved to be a tensor (and not merely computed from tensors by something unknown).
    """

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    read: Read
    context: Context
    sure: bool

    @property
    def step(self) -> str:
        """What it runs in every time, as a phrase for messages."""
        match self.context.role:
            case Role.EVAL:
                return "evaluation step"
            case Role.FORWARD:
                return "forward pass"
            case _:
                return "training step"

    @property
    def copies(self) -> bool:
        """Whether a tensor is copied as it is."""
        return self.read is Read.COPY

    @property
    def likely(self) -> bool:
        """Whether a tensor is read: by proof, or as training computed it and it has ``.item()``."""
        return self.sure or (self.read is Read.SCALAR and self.context.role is Role.TRAIN)

    @property
    def old(self) -> bool:
        """Whether it is ``loss.data[0]``: no line that runs on today's torch may replace it."""
        return self.read is Read.SCALAR and isinstance(self.node, cst.Subscript)

    @property
    def reads_whole(self) -> bool:
        """Whether ``int(t)`` reads a whole number."""
        func = self.node.func if isinstance(self.node, cst.Call) else None
        return isinstance(func, cst.Name) and func.value == "int"


_SCALARS = ("float", "int")
_STEPS = (Role.TRAIN, Role.EVAL, Role.FORWARD)
# What makes a tensor of some sizes, or goes through as many numbers: each is read as it is called.
_SIZED = frozenset(
    {"zeros", "ones", "empty", "full", "eye", "arange", "rand", "randn", "randint", "randperm"}
)
_MAKERS = frozenset(f"torch.{name}" for name in _SIZED)
_NEW = frozenset({"new_zeros", "new_ones", "new_empty", "new_full"})
_STREAM = "stream("
# What makes a tensor of a list reads each tensor in it as a number.
_OF_LIST = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor"})
_LOOKED_AT = SHOWS.union(
    _SCALARS,
    _SIZED,
    _NEW,
    _OF_LIST,
    ("range",),
    ("item", "cpu", "tolist", "to", "isnan", "isfinite", "isinf", "print"),
)  # the last names of all calls below


def syncs(program: Program) -> list[Sync]:
    """Every read of a GPU tensor that runs per step, training or evaluation."""
    if not program.devices.gpu:
        return []
    calls = (
        call
        for call in program.index.of(cst.Call)
        if _last_name(call.func) in _LOOKED_AT and program.context(call).role in _STEPS
    )
    found = [sync for call in calls for sync in _of_call(program, call)]
    known = {id(sync.node) for sync in found}
    found += {id(one.node): one for one in _in_texts(program) if id(one.node) not in known}.values()
    for node, tensor in _old_items(program):
        if not _is_item_beside(program, node, tensor):
            found += sync_of(program, node, _uncopied(program, tensor), Read.SCALAR)
    found = [sync for sync in found if not _is_beside(program, sync)]
    found = [sync for sync in found if not _is_once(program, sync)]
    scalars = {id(sync.node) for sync in found if sync.read is Read.SCALAR}
    return [s for s in found if s.read is not Read.COPY or not _inside_scalar(program, s, scalars)]


def _is_once(program: Program, sync: Sync) -> bool:
    """Whether an evaluation reads once: all that it goes through is one batch."""
    return sync.context.role is Role.EVAL and has_one_turn(program, sync.context.loop)


def _is_beside(program: Program, sync: Sync) -> bool:
    """Whether a read waits for a stream of its own, on which nothing is computed but itself.

    ``with torch.cuda.stream(torch.cuda.Stream()): losses.append(loss.item())``
    """
    for above in program.index.ancestors(sync.node) if _STREAM in program.text else ():
        if isinstance(above, cst.For | cst.While | cst.FunctionDef):
            return False
        if isinstance(above, cst.With) and any(_is_stream(program, one) for one in above.items):
            names = program.index.below(sync.tensor, cst.Name)
            bindings = (one for name in names for one in program.flow.reaching(name))
            return not any(
                one.kind is Bind.ASSIGN and program.index.inside(one.node, above)
                for one in bindings
            )
    return False


def _is_stream(program: Program, item: cst.WithItem) -> bool:
    call = item.item
    return isinstance(call, cst.Call) and program.qualified(call.func) == "torch.cuda.stream"


def items(program: Program) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield each ``x.item()``, and ``x.data[0]`` of a loss, with the ``x``, whatever that is."""
    for call, func in program.method_calls("item"):
        if not call.args:
            yield call, func.value
    yield from _old_items(program)


def _old_items(
    program: Program,
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    for node in program.index.of(cst.Subscript) if ".data[0]" in program.text else ():
        tensor = old_item(program, node)
        if tensor is not None:
            yield node, tensor


def _is_item_beside(program: Program, node: cst.BaseExpression, tensor: cst.BaseExpression) -> bool:
    """Whether another torch reads the same by ``.item()``, in the other arm of a choice."""
    item = f"{program.code(tensor)}.item()"
    for above in program.index.ancestors(node):
        if isinstance(above, cst.For | cst.While | cst.FunctionDef):
            return False
        if isinstance(above, cst.If | cst.IfExp | cst.Try) and item in program.code(above):
            return True
    return False


def _holds(program: Program, place: cst.BaseExpression, sync: Sync) -> bool:
    """Whether an expression is or has in it what is read; an option of the same name is another."""
    code = program.code(sync.tensor)
    return any(
        program.code(one) == code and not is_label(program, one)
        for one in program.index.below(place, type(sync.tensor))
    )


def _inside_scalar(program: Program, sync: Sync, scalars: set[int]) -> bool:
    """``loss.cpu().item()`` is one read, not two."""
    return any(id(above) in scalars for above in program.index.ancestors(sync.node))


def _last_name(func: cst.BaseExpression) -> str:
    if type(func) is cst.Attribute:
        return func.attr.value
    return func.value if type(func) is cst.Name else ""


def _of_call(program: Program, call: cst.Call) -> Iterator[Sync]:
    match call.func:
        case cst.Attribute(value=tensor, attr=cst.Name(value="item")) if not call.args:
            yield from sync_of(program, call, _uncopied(program, tensor), Read.SCALAR)
        case cst.Attribute(value=tensor, attr=cst.Name(value="cpu" | "tolist")) if not call.args:
            yield from sync_of(program, call, tensor, Read.COPY)
        case cst.Attribute(value=tensor, attr=cst.Name(value="to")) if call.args:
            to_host = program.values.moved_to(call, Device.UNKNOWN) is Device.CPU
            if to_host and not copies_without_waiting(program, call):
                yield from sync_of(program, call, tensor, Read.COPY)
        case cst.Name(value=name) if name in _SCALARS and len(call.args) == 1:
            if program.is_builtin(call.func):
                tensor = fetched(program, call.args[0].value) or call.args[0].value
                yield from sync_of(program, call, tensor, Read.SCALAR, proved=True)
        case cst.Attribute(attr=cst.Name(value="isnan" | "isfinite" | "isinf")) if call.args:
            if program.qualified(call.func).startswith("math."):  # NumPy's refuse the GPU's
                tensor = call.args[0].value
                yield from sync_of(program, call, tensor, Read.SCALAR, proved=True)
        case _:
            for size in _sizes(program, call):
                yield from sync_of(program, size, size, Read.SIZE, proved=True)
            for one in _listed(program, call):
                yield from sync_of(program, one, one, Read.LISTED, proved=True)
    if is_sink(program, call):
        for shown in _shown(program, call):
            yield from sync_of(program, shown, shown, Read.SHOWN, proved=True)


def _sizes(program: Program, call: cst.Call) -> list[cst.BaseExpression]:
    """Return what a call takes for numbers: ``torch.arange(lengths.max())``, ``range(count)``."""
    name, last = program.qualified(call.func), _last_name(call.func)
    counts = isinstance(call.func, cst.Name) and last == "range" and program.is_builtin(call.func)
    if not (counts or name in _MAKERS or (last in _NEW and not name)):
        return []
    given = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    if given and isinstance(given[0], cst.Tuple | cst.List):
        given[:1] = [one.value for one in given[0].elements]
    return given


def _listed(program: Program, call: cst.Call) -> list[cst.BaseExpression]:
    """Return what a call makes one tensor of: ``torch.tensor([loss, accuracy])``."""
    if _last_name(call.func) not in _OF_LIST or not call.args:
        return []
    given = call.args[0].value
    if not isinstance(given, cst.List | cst.Tuple) or not (
        program.qualified(call.func).startswith("torch.")
    ):
        return []
    return [one.value for one in given.elements if isinstance(one, cst.Element)]


def _uncopied(program: Program, tensor: cst.BaseExpression) -> cst.BaseExpression:
    """``loss`` in ``loss.cpu().item()`` and ``to_cpu(loss).item()``: the copy is what waits."""
    match tensor:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="cpu")), args=[]):
            return inner
        case _:
            return fetched(program, tensor) or tensor


def sync_of(
    program: Program,
    node: cst.BaseExpression,
    tensor: cst.BaseExpression,
    read: Read,
    *,
    proved: bool = False,
) -> Iterator[Sync]:
    """Yield the read of an expression, if that is a tensor on a GPU and a step reads it."""
    value = program.value(tensor)
    sure = value.kind is Kind.TENSOR
    derived = value.kind is Kind.UNKNOWN and (
        was_uploaded(program, tensor)
        if proved and read is Read.SCALAR
        else not proved and _is_trained_with(program, tensor, value)
    )
    if not (sure or derived) or not program.on_gpu(value) or for_simulator(program, node):
        return
    if value.device is Device.UNKNOWN and (
        stays_unmoved(program, tensor) or is_moved_aside(program, tensor)
    ):
        return
    if of_host_model(program, tensor):
        return
    if value.device is not Device.CUDA and is_moved_next(program, tensor):
        return
    context = program.context(node)
    if context.role in _STEPS and not without_gpu(program, node):
        yield Sync(node, tensor, read, context, sure)


def _is_trained_with(program: Program, tensor: cst.BaseExpression, value: Value) -> bool:
    """Whether what nobody knows was computed on a GPU, or is a part of what goes back."""
    if value.device.gpu or not isinstance(tensor, cst.Name):
        return value.device.gpu
    bindings = program.flow.reaching(tensor)
    return any(id(binding) in program.terms_of_losses for binding in bindings)


# -- tensors shown as they are ----------------------------------------------------------------


def _shown(program: Program, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Expressions that a sink formats: its arguments, and what stands in them."""
    if program.frameworks and dotted(call.func) in ("self.log", "self.log_dict"):
        return  # a framework's own logging keeps tensors on the device
    yield from _formatted(program, [arg.value for arg in call.args if arg.star != "*"])


def _in_texts(program: Program) -> Iterator[Sync]:
    """Find the tensors that a text is made of: that reads them, whoever gets it."""
    for text in _texts(program):
        if program.context(text).role in _STEPS and not _is_of_failure(program, text):
            for shown in _formatted(program, [text]):
                yield from sync_of(program, shown, shown, Read.SHOWN, proved=True)


def _texts(program: Program) -> Iterator[cst.BaseExpression]:
    """Yield ``f"{loss:.4f}"``, ``"%.4f" % loss`` and ``"{:.4f}".format(loss)``."""
    yield from program.index.of(cst.FormattedString)
    for node in program.index.of(cst.BinaryOperation):
        if isinstance(node.operator, cst.Modulo) and _is_text(program, node.left):
            yield node
    yield from (call for call, _ in program.method_calls("format"))


def _is_of_failure(program: Program, text: cst.CSTNode) -> bool:
    """Whether a text is only made when something is wrong, or when somebody asks for it."""
    for above in program.index.ancestors(text):
        if isinstance(above, cst.Raise | cst.Assert | cst.Lambda):
            return True
        if isinstance(above, cst.BaseStatement):
            break
    return False


def _formatted(program: Program, todo: list[cst.BaseExpression]) -> Iterator[cst.BaseExpression]:
    """Yield the tensors in what is made text of."""
    while todo:
        node = todo.pop()
        match node:
            case cst.FormattedString():
                todo += [p.expression for p in node.parts
                         if isinstance(p, cst.FormattedStringExpression)]  # fmt: skip
            case cst.ConcatenatedString():
                todo += [node.left, node.right]
            case cst.Dict():
                todo += [element.value for element in node.elements]
            case cst.Tuple() | cst.List():
                todo += [element.value for element in node.elements]
            case cst.BinaryOperation(operator=cst.Modulo()) if _is_text(program, node.left):
                todo.append(node.right)
            case cst.Call(func=cst.Attribute(value=text, attr=cst.Name("format"))) if _is_text(
                program, text
            ):
                todo += [arg.value for arg in node.args]
            case cst.Call(func=cst.Name(value="dict" | "str")):
                todo += [arg.value for arg in node.args]
            case cst.BaseExpression() if program.value(node).kind is Kind.TENSOR:
                yield node
            case _:
                pass


def _is_text(program: Program, node: cst.BaseExpression) -> bool:
    """Whether an expression is a string: ``"%s"``, ``"%11s" * 2 + "%11.4g" * 5``."""
    return program.value(node).kind is Kind.STRING
