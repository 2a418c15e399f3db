"""What is known of the value of an expression: a small lattice.

`UNKNOWN` says nothing is known, which for a rule means silence.  A value of unknown kind may
still have a device: it was computed from tensors that live there.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import libcst as cst


class Kind(enum.Enum):
    """The sort of thing an expression gives."""

    NEVER = enum.auto()  # no value: the start of a join
    UNKNOWN = enum.auto()
    NONE = enum.auto()
    BOOL = enum.auto()
    NUMBER = enum.auto()  # a Python int or float
    STRING = enum.auto()
    TENSOR = enum.auto()
    BATCH = enum.auto()  # what a DataLoader yields: tensors on the host, in any structure
    NDARRAY = enum.auto()
    NPSCALAR = enum.auto()  # a NumPy scalar
    LIST = enum.auto()
    TUPLE = enum.auto()
    DICT = enum.auto()
    ITERATOR = enum.auto()  # anything else with elements: enumerate, zip, a generator
    LOADER = enum.auto()
    DATASET = enum.auto()
    MODULE = enum.auto()  # an instance of torch.nn.Module
    OPTIMIZER = enum.auto()
    SCHEDULER = enum.auto()
    SCALER = enum.auto()  # a GradScaler
    DEVICE = enum.auto()
    DTYPE = enum.auto()
    FUNCTION = enum.auto()
    CLASS = enum.auto()
    INSTANCE = enum.auto()  # of a class of this file, or of a known class named by `type`
    OTHER = enum.auto()  # known to be none of the above


class Device(enum.Enum):
    """Where a tensor lives, or what a device expression names."""

    UNKNOWN = enum.auto()
    CPU = enum.auto()
    MAYBE = enum.auto()  # a GPU where there is one
    CUDA = enum.auto()
    OTHER = enum.auto()  # MPS, XLA, meta

    @property
    def gpu(self) -> bool:
        """Whether CUDA is proved or possible."""
        return self in (Device.CUDA, Device.MAYBE)


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of a value.

    ``type`` is the qualified name of the class (``torch.nn.Conv2d``; ``.Net`` for a class of this
    file), or of the function or class itself.  ``made`` is the call, literal or definition it
    comes from.  ``items`` are the members of a tuple or list whose length is known, ``element``
    what any member of a container is, or what a ``DataParallel`` wraps.  ``fresh``: an array that
    nothing else refers to.  ``rank``: the fewest dimensions an array has, -1 where it may have
    become a NumPy scalar.
    """

    kind: Kind
    type: str = ""
    made: cst.CSTNode | None = None
    items: tuple[Value, ...] | None = None
    element: Value | None = None
    device: Device = Device.UNKNOWN
    dtype: str = ""
    fresh: bool = False
    rank: int = 0

    @property
    def known(self) -> bool:
        """Whether the kind is known."""
        return self.kind not in (Kind.UNKNOWN, Kind.NEVER)

    @property
    def is_tensor(self) -> bool:
        """Whether this is certainly a tensor."""
        return self.kind is Kind.TENSOR

    @property
    def wraps(self) -> Value | None:
        """The module that a ``DataParallel`` or ``DistributedDataParallel`` runs."""
        return self.element if self.type.endswith("DataParallel") else None

    def on(self, device: Device) -> Value:
        """Return the same value on another device."""
        return self if device is self.device else replace(self, device=device)

    def member(self, place: int | None) -> Value:
        """Return what unpacking or indexing with a constant gives."""
        if self.kind in (Kind.BATCH, Kind.NEVER):
            return self
        if (
            self.items is not None
            and place is not None
            and -len(self.items) <= place < len(self.items)
        ):
            return self.items[place]
        if self.items is not None:
            return join(self.items)
        if self.element is not None:
            return self.element
        if self.kind is Kind.TENSOR:
            return Value(Kind.TENSOR, device=self.device)
        return Value(Kind.UNKNOWN, device=self.device)

    def each(self) -> Value:
        """Return what a loop over this value binds in each turn."""
        if self.kind is Kind.DICT:
            return UNKNOWN
        if self.kind is Kind.STRING:
            return self
        return self.member(None)


NEVER = Value(Kind.NEVER)
UNKNOWN = Value(Kind.UNKNOWN)
NONE = Value(Kind.NONE)
BOOL = Value(Kind.BOOL)
NUMBER = Value(Kind.NUMBER)
STRING = Value(Kind.STRING)
TENSOR = Value(Kind.TENSOR)
BATCH = Value(Kind.BATCH, device=Device.CPU)
OTHER = Value(Kind.OTHER)

_GIVING = frozenset({Kind.LIST, Kind.TUPLE, Kind.ITERATOR})
_NUMERIC = (Kind.NUMBER, Kind.BOOL)


def join_devices(first: Device, second: Device) -> Device:
    """Where a value lives that comes from one of two places."""
    if first is second:
        return first
    if first.gpu or second.gpu:
        return Device.MAYBE
    if {first, second} == {Device.CPU, Device.OTHER}:
        return Device.OTHER  # an accelerator that is none of CUDA's, where there is one
    return Device.UNKNOWN


def shared_device(devices: Iterable[Device]) -> Device:
    """Where the result of an operation lives: operands of one operation share a device.

    A tensor on the host beside one on a GPU is a 0-d tensor or about to be moved: the GPU wins.
    """
    best = Device.UNKNOWN
    for device in devices:
        if device is Device.CUDA:
            return device
        if device is Device.MAYBE or (device is not Device.UNKNOWN and best is Device.UNKNOWN):
            best = device
    return best


def join(values: Iterable[Value]) -> Value:
    """Return what is known of a value that is one of several."""
    result = NEVER
    for value in values:
        result = _join(result, value)
    return result


def join_known(values: Sequence[Value]) -> Value:
    """Join values that stand for one thing, of which some are known better than others."""
    sizes = {len(value.items) if value.items is not None else -1 for value in values}
    if len(sizes) == 1 and sizes != {-1} and all(value.kind is Kind.TUPLE for value in values):
        places = zip(*(value.items or () for value in values), strict=True)
        return Value(Kind.TUPLE, items=tuple(join_known(place) for place in places))
    known = [value for value in values if value.known]
    return join(known or values)


def _join(a: Value, b: Value) -> Value:
    if b.kind is Kind.NEVER:
        return a
    if a.kind is Kind.NEVER:
        return b
    if a == b:  # asked late: it takes a while
        return a
    # A name that starts as None holds the other value wherever it is used as one.
    if a.kind is Kind.NONE:
        return b
    if b.kind is Kind.NONE:
        return a
    device = join_devices(a.device, b.device)
    if a.kind is not b.kind:
        if a.kind in _NUMERIC and b.kind in _NUMERIC:
            return NUMBER
        if {a.kind, b.kind} == {Kind.TENSOR, Kind.BATCH}:
            return Value(Kind.TENSOR, device=device)
        return _join_members(a, b) or Value(Kind.UNKNOWN, device=device)
    if a.kind is Kind.MODULE:  # ``if several: model = DataParallel(model)``
        for outer, inner in ((a, b), (b, a)):
            if outer.wraps is not None and outer.wraps.type == inner.type:
                return inner.on(device)
    items = None
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        items = tuple(_join(x, y) for x, y in zip(a.items, b.items, strict=True))
    element = None
    if items is None:
        mine, yours = _any(a), _any(b)
        element = None if mine is None or yours is None else _join(mine, yours)
    return Value(
        a.kind,
        type=a.type if a.type == b.type else "",
        made=a.made if a.made is b.made else None,
        items=items,
        element=element,
        device=device,
        dtype=a.dtype if a.dtype == b.dtype else "",
        fresh=a.fresh and b.fresh,
        rank=min(a.rank, b.rank),
    )


def _join_members(a: Value, b: Value) -> Value | None:
    """Return what gives the members of a list or of what else has some; None if they differ.

    ``parameters`` is one after ``if isinstance(parameters, Tensor): parameters = [parameters]``.
    """
    mine, yours, kinds = _any(a), _any(b), {a.kind, b.kind}
    if mine is None or yours is None or Kind.ITERATOR not in kinds or not kinds <= _GIVING:
        return None
    element = _join(mine, yours)
    return Value(Kind.ITERATOR, element=element) if element.known else None


def _any(value: Value) -> Value | None:
    """Return what any member is; NEVER for an empty container, None where nothing is known."""
    if value.items is not None:
        return join(value.items)
    return value.element
