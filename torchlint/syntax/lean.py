"""libcst, imported for a process that only parses: it builds and changes no nodes by hand.

`import libcst` makes some 200 classes of nodes.  Most of its time goes into what `dataclasses`
writes and compiles for each of them: a constructor that sets each field by a call that evades the
class's own guard against changes, and then checks what it was given, for those who build nodes by
hand.  What the parser reads from a text is valid by itself, and half of the time of
`libcst.parse_module` goes into these constructors.  Plain ones do the same to the parser.

The classes are plain as well.  libcst's are of `abc.ABCMeta`, which asks a list of registered
classes first, in Python.  No class is ever registered as a node, and rules ask millions of times
what a node is.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class _Plain:
    """A base class in the place of `abc.ABC`."""

    __slots__ = ()


def import_libcst() -> None:
    """Import libcst in this way, for the whole process, unless it is there already."""
    if "libcst" in sys.modules:
        return
    before = {"ABC": abc.ABC}, {"dataclass": dataclasses.dataclass}
    vars(abc).update(ABC=_Plain)
    vars(dataclasses).update(dataclass=_lean(dataclasses.dataclass))
    try:
        import libcst  # noqa: F401, PLC0415
    finally:
        vars(abc).update(before[0])
        vars(dataclasses).update(before[1])


def _lean(dataclass: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator of classes that gives those of nodes nothing but a plain constructor."""

    def decorate(kind: type | None = None, /, **options: bool) -> Any:
        if kind is None:
            return functools.partial(decorate, **options)
        if not hasattr(kind, "_codegen"):  # no node
            return dataclass(kind, **options)
        kind.__doc__ = kind.__doc__ or kind.__name__  # else `dataclasses` writes the signature
        made = dataclass(kind, init=False, repr=False, eq=False)
        made.__init__ = _plain_init(made)
        return made

    return decorate


def _plain_init(kind: type) -> object:
    """Return a constructor that sets the fields of a dataclass and does nothing else.

    It is written out and compiled, as those of `dataclasses` are: Python is quickest with plain
    assignments to the attributes of ``self``.
    """
    known: dict[str, object] = {"omitted": (omitted := object())}
    head, body = ["self"], ["pass"]
    for item in dataclasses.fields(kind):
        name, given = item.name, item.name
        if item.default_factory is not dataclasses.MISSING:
            known[f"make_{name}"] = item.default_factory
            known[f"default_{name}"] = omitted
            given = f"make_{name}() if {name} is omitted else {name}"
        elif item.default is not dataclasses.MISSING:
            known[f"default_{name}"] = item.default
        head.append(f"{name}=default_{name}" if f"default_{name}" in known else name)
        body.append(f"self.{name} = {given}")
    text = f"def __init__({', '.join(head)}):\n  " + "\n  ".join(body)
    exec(text, known)  # noqa: S102 - of nothing but the names of fields
    return known["__init__"]
