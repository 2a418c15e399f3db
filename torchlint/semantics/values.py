"""What an expression may be: alternatives, each with what the code shows of it.

A value is a set of alternatives (`torchlint.semantics.sets`).  They are hashable without addresses:
a node is its file and its number in the walk over that file (`At`), so that the same code gives the
same values in any order of files and in any run.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Value: TypeAlias = "tuple[Alternative, ...]"


class At(NamedTuple):
    """A node: the rank of its file among those evaluated together, and its place in the walk."""

    file: int
    number: int


class Device(enum.IntEnum):
    """Where a tensor lives."""

    UNKNOWN = 0
    HOST = 1
    CUDA = 2
    OTHER = 3  # MPS, XLA, meta


class Loaded(enum.IntEnum):
    """Whether a tensor is still the memory that a loader gave: a view of it is, a sum is not."""

    NO = 0
    PERHAPS = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything at all; it stays beside what else is known."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """``None``, which is not an unknown bool."""


@dataclass(frozen=True, slots=True)
class Library:
    """What a library has under a name: ``torch.nn.Linear``, ``builtins.print``."""

    name: str


@dataclass(frozen=True, slots=True)
class File:
    """A module of the project, by the rank of its file."""

    file: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function or lambda of the project; ``owner`` is what its first parameter is bound to."""

    at: At
    owner: Instance | Class | None = None


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the project."""

    at: At


@dataclass(frozen=True, slots=True)
class Instance:
    """What a class of the project makes; ``call`` is None where nobody is seen to make one."""

    cls: At
    call: At | None


@dataclass(frozen=True, slots=True)
class Object:
    """What a class or factory of a library makes: ``torch.optim.Adam``, made by a call."""

    kind: str
    call: At | None


@dataclass(frozen=True, slots=True)
class Method:
    """A method of something that is no instance of a class of the project."""

    owner: Alternative
    name: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor.

    ``batch`` is the call of the loader that it comes from, ``loaded`` whether it still is memory of
    the batch.  ``made`` is the call of a factory that it is the unchanged result of.  ``graph``
    holds the calls of models that autograd would go back through.  ``dtype`` is that of a mask
    ("bool"), an index ("int") or numbers ("float"), empty where it is not known.  ``sure`` is False
    where it is a tensor by what seems likely.
    """

    device: Device = Device.UNKNOWN
    batch: At | None = None
    loaded: Loaded = Loaded.NO
    made: At | None = None
    graph: tuple[At, ...] = ()
    dtype: str = ""
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Array:
    """A NumPy array, or what converts itself to one; ``read`` is the read of a tensor it is.

    ``made`` is the expression that made its memory: a view has none of its own.
    """

    batch: At | None = None
    read: At | None = None
    dtype: str = ""
    made: At | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A number of Python or NumPy, None where any; ``read`` is the read that gave it."""

    value: float | None = None
    read: At | None = None
    option: At | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """A bool; ``option`` is the definition of the option whose default it is."""

    value: bool | None = None
    option: At | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    value: str | None = None
    option: At | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A device: ``torch.device("cuda")``."""

    device: Device


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters, buffers or a state of models, by the calls that made them."""

    models: tuple[At, ...]


@dataclass(frozen=True, slots=True)
class Iterator:
    """What is gone through: a generator, ``iter(loader)``; ``loader`` where it is one's batches."""

    element: Value
    loader: At | None = None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list, tuple or set: its elements where they are known one by one, else any of them.

    ``made`` is the display or call that made it: what is put in later is kept there.
    """

    kind: str
    elements: tuple[Value, ...] | None
    element: Value
    made: At | None

    def __hash__(self) -> int:
        """Hash what is held by identity: equal values of one evaluation are identical."""
        return hash((self.kind, self.made, id(self.element), *map(id, self.elements or ())))


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A dictionary: its entries by literal keys, else any of its values; ``made`` as above."""

    entries: tuple[tuple[str, Value], ...]
    element: Value
    made: At | None

    def __hash__(self) -> int:
        """Hash what is held by identity, as above."""
        return hash((self.made, id(self.element), *((key, id(part)) for key, part in self.entries)))


@dataclass(frozen=True, slots=True)
class Guess:
    """What something seems to be: an "optimizer", a "loader", a "model" ...

    ``is_used`` so, and not only named or annotated.
    """

    what: str
    is_used: bool = False


_Named: TypeAlias = Unknown | Nothing | Library | File | Function | Class | Instance | Object
_Plain: TypeAlias = Method | Tensor | Array | Number | Truth | Text | Place | Parameters
Alternative: TypeAlias = _Named | _Plain | Iterator | Sequence | Dictionary | Guess

RANK = "rank"  # the kind of object that the number of a process is
NEVER: Value = ()  # of what was not evaluated yet, and of what never ends
UNKNOWN, NOTHING = Unknown(), Nothing()
