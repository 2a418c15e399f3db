"""Parsing with libcst; and faster, in a process that builds and changes no nodes by hand.

Half of the time of `libcst.parse_module` goes into the constructors of its nodes.  They are frozen
dataclasses, which set each field by a call that evades their own `__setattr__`, and then check
what they were built of, for those who build nodes by hand.  What the parser reads from a text is
valid by itself.

Scripts for Python 3.6 and older pass `x.cuda(async=True)`, which is not valid since Python 3.7, and
is the only trace of old Python in most of them.  They are parsed with another word in its place,
whose nodes then give back what the user wrote: the text of the tree is that of the file, so places
and snippets are right.  To the rules the keyword is what torch renamed it to, by its value; none of
them has to know of it.  Nothing else is mended: what Python 2 alone takes is not to be parsed.
"""

from __future__ import annotations

import dataclasses
import re
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits import Edit, Span, apply
from torchlint.lexer import comments, strings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from libcst._nodes.internal import CodegenState

_OLD = re.compile(r"(?<![\w.])async(?=\s*=(?!=))")
_STAND_IN = "as_36"  # as long as `async`, so that what the parser says of places holds
_OWN = {"SimpleWhitespace": cst.SimpleWhitespace, "Newline": cst.Newline}
_SHARED = {name: lru_cache(None)(kind) for name, kind in _OWN.items()}
_trusted: set[type[cst.CSTNode]] = set()


class _Plain(type):
    """The class of node classes whose instances are found by inheritance alone.

    libcst's are of `abc.ABCMeta`, which asks a list of registered classes first, in Python.  No
    class is ever registered as a node, and rules ask millions of times what a node is.
    """


class OldKeyword(cst.Name):
    """The ``async`` of ``x.cuda(async=True)``: its value is what torch calls it since 0.4."""

    def _codegen_impl(self, state: CodegenState) -> None:
        state.add_token("async")


def trust_parser() -> None:
    """Let libcst's nodes take what they are given, in this process from now on.

    They are no longer checked, nor guarded against being changed, and classes of nodes are plain
    ones.  The switch is never turned back: Python drops what it knows of a class each time that the
    class changes.
    """
    if _trusted:
        return
    for kind in _kinds(cst.CSTNode):  # type: ignore[type-abstract]
        _trusted.add(kind)
        kind.__class__ = _Plain  # type: ignore[method-assign, assignment]
        own = vars(kind)
        for guard in ("__setattr__", "__delattr__"):
            if guard in own:
                delattr(kind, guard)
        if "__init__" in own and "__dataclass_params__" in own:
            kind.__init__ = _plain_init(kind)  # type: ignore[method-assign, assignment]


def parse(text: str) -> cst.Module:
    """Parse; keywords named ``async`` become an `OldKeyword` each.

    Raises:
        libcst.ParserSyntaxError: the text is not Python 3.

    """
    try:
        return _parse(text)
    except cst.ParserSyntaxError:
        module = _parse_old(text) if "async" in text and _STAND_IN not in text else None
        if module is None:
            raise
        return module


def _parse_old(text: str) -> cst.Module | None:
    """Parse text that passes keywords named ``async``; None where it is not Python 3 besides."""
    aside = [*strings(text), *(Span(c.start, c.start + len(c.text)) for c in comments(text))]
    places = [
        found.start()
        for found in _OLD.finditer(text)
        if not any(span.start <= found.start() < span.end for span in aside)
    ]
    if not places:
        return None
    edits = [Edit(start, start + len(_STAND_IN), _STAND_IN) for start in places]
    try:
        module = _parse(apply(text, edits))
    except cst.ParserSyntaxError:
        return None
    renamed = 0
    for arg in _arguments(module):
        if arg.keyword is not None and arg.keyword.value == _STAND_IN:
            object.__setattr__(arg, "keyword", OldKeyword("non_blocking"))
            renamed += 1
    return module if renamed == len(places) else None  # the others are variables or parameters


def _arguments(module: cst.Module) -> Iterator[cst.Arg]:
    todo: list[cst.CSTNode] = [module]
    while todo:
        node = todo.pop()
        if isinstance(node, cst.Arg):
            yield node
        todo += node.children


def _parse(text: str) -> cst.Module:
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
