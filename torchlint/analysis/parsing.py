"""Parsing with libcst; and faster, in a process that builds and changes no nodes by hand.

Half of the time of `libcst.parse_module` goes into the constructors of its nodes.  They are frozen
dataclasses, which set each field by a call that evades their own `__setattr__`, and then check
what they were built of, for those who build nodes by hand.  What the parser reads from a text is
valid by itself.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN = {"SimpleWhitespace": cst.SimpleWhitespace, "Newline": cst.Newline}
_SHARED = {name: lru_cache(None)(kind) for name, kind in _OWN.items()}
_trusted: set[type[cst.CSTNode]] = set()


def trust_parser() -> None:
    """Let libcst's nodes take what they are given, in this process from now on.

    They are no longer checked, nor guarded against being changed.  The switch is never turned
    back: Python drops what it knows of a class each time that the class changes.
    """
    if _trusted:
        return
    for kind in _kinds(cst.CSTNode):  # type: ignore[type-abstract]
        _trusted.add(kind)
        own = vars(kind)
        for guard in ("__setattr__", "__delattr__"):
            if guard in own:
                delattr(kind, guard)
        if "__init__" in own and "__dataclass_params__" in own:
            kind.__init__ = _plain_init(kind)  # type: ignore[method-assign, assignment]


def parse(text: str) -> cst.Module:
    """Parse, with one node for all equal whitespace where the parser is trusted.

    Half of the nodes of a tree are whitespace, most of it empty, one blank or the end of a line.
    Nodes do not change, and no place of whitespace is ever asked for.  The parser looks each class
    up by its name in the module, which for that long gives it the remembered nodes.

    Raises:
        libcst.ParserSyntaxError: the text is not Python 3.

    """
    if not _trusted:
        return cst.parse_module(text)
    vars(cst).update(_SHARED)
    try:
        return cst.parse_module(text)
    finally:
        vars(cst).update(_OWN)


def _kinds(kind: type[cst.CSTNode]) -> Iterator[type[cst.CSTNode]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


def _plain_init(kind: type[cst.CSTNode]) -> object:
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
