"""Parsing with libcst; faster where it was imported for that alone (`torchlint.syntax.lean`).

Scripts for Python 3.6 and older pass `x.cuda(async=True)`, which is not valid since Python 3.7, and
is the only trace of old Python in most of them.  They are parsed with another word in its place,
whose nodes then give back what the user wrote: the text of the tree is that of the file, so places
and snippets are right.  To the rules the keyword is what torch renamed it to, by its value; none of
them has to know of it.  Nothing else is mended: what Python 2 alone takes is not to be parsed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.lexer import comments, strings
from torchlint.syntax.text import Edit, Span, apply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from libcst._nodes.internal import CodegenState

_OLD = re.compile(r"(?<![\w.])async(?=\s*=(?!=))")
_STAND_IN = "as_36"  # as long as `async`, so that what the parser says of places holds
_OWN = {"SimpleWhitespace": cst.SimpleWhitespace, "Newline": cst.Newline}
_SHARED = {name: lru_cache(None)(kind) for name, kind in _OWN.items()}
_IS_LEAN = type(cst.CSTNode) is type


class OldKeyword(cst.Name):
    """The ``async`` of ``x.cuda(async=True)``: its value is what torch calls it since 0.4."""

    def _codegen_impl(self, state: CodegenState) -> None:
        state.add_token("async")


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
    """Parse, with one node for all equal whitespace where nobody changes nodes.

    Half of the nodes of a tree are whitespace, most of it empty, one blank or the end of a line.
    Nodes do not change, and no place of whitespace is ever asked for.  The parser looks each class
    up by its name in the module, which for that long gives it the remembered nodes.

    Raises:
        libcst.ParserSyntaxError: the text is not Python 3.

    """
    if not _IS_LEAN:
        return cst.parse_module(text)
    vars(cst).update(_SHARED)
    try:
        return cst.parse_module(text)
    finally:
        vars(cst).update(_OWN)
