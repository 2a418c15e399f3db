"""Comments, strings and brackets of Python text, found without parsing it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, from its ``#`` to the end of the line."""

    start: int
    text: str


# A string whose quotes do not match is left to the parser: only its first quote is skipped.
# Raw strings need no care, since a backslash keeps the quote from ending those as well.
STRING = r"""
    (?P<formatted>\b(?:[rR]?[fFtT]|[fFtT][rR])(?=["']))
  | \"\"\"[^"\\]*(?:(?:\\.|\"(?!\"\"))[^"\\]*)*\"\"\"
  | '''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''
  | "[^"\\\r\n]*(?:\\(?:\r\n|.)[^"\\\r\n]*)*"
  | '[^'\\\r\n]*(?:\\(?:\r\n|.)[^'\\\r\n]*)*'
"""
_COMMENT = re.compile(rf"(?P<comment>\#[^\r\n]*)|{STRING}", re.VERBOSE | re.DOTALL)
_LITERAL = re.compile(r"\\(?:\r\n|.)|\{\{|\}\}|[{}\"'\r\n]", re.DOTALL)
_FIELD = re.compile(rf"(?P<comment>\#[^\r\n]*)|{STRING}|[][(){{}}:]", re.VERBOSE | re.DOTALL)


def comments(text: str, start: int = 0, end: int | None = None) -> Iterator[Comment]:
    """Yield the comments of the text, which starts and ends outside of strings."""
    end = len(text) if end is None else end
    if text.find("#", start, end) < 0:
        return
    while found := _COMMENT.search(text, start, end):
        start = found.end()
        if found["comment"]:
            yield Comment(found.start(), found["comment"])
        elif found["formatted"]:
            start, inner = formatted_string(text, start)
            yield from inner


def formatted_string(text: str, start: int) -> tuple[int, list[Comment]]:
    """Return the end of the f-string whose quotes start here, and the comments in its fields.

    Quotes of the string's own kind may stand inside of its fields (PEP 701), so the fields are
    followed.  A string that does not end is taken to be its first quote.
    """
    inner: list[Comment] = []
    stack: list[
        str
    ] = []  # open f-strings (their quotes), fields ("{" or ":" for a format), brackets
    quote, here = _opening(text, start)
    stack.append(quote)
    while stack:
        top = stack[-1]
        literal = top[0] in "\"':"
        found = (_LITERAL if literal else _FIELD).search(text, here)
        if found is None:
            return start + 1, []
        here = found.end()
        piece = found[0]
        if literal:
            here = _in_literal(text, piece, here, stack)
        elif found["comment"]:
            inner.append(Comment(found.start(), piece))
        elif found["formatted"]:
            quote, here = _opening(text, here)
            stack.append(quote)
        elif piece == ":" and top == "{" and stack[-2][0] in "\"':":
            stack[-1] = ":"
        elif piece in "([{":
            stack.append("[" if piece == "{" else piece)
        elif piece in ")]}":
            stack.pop()
        if here < 0:
            return start + 1, []
    return here, inner


def _in_literal(text: str, piece: str, here: int, stack: list[str]) -> int:
    """Take one step through the literal part of an f-string; -1 if the string does not end."""
    top = stack[-1]
    if piece == "{" or (top == ":" and piece == "{{"):
        stack.append("{")
        return here - len(piece) + 1
    if piece[0] == "}" and top == ":":
        stack.pop()
        return here - len(piece) + 1
    if piece in "\r\n":
        quotes = next(entry for entry in reversed(stack) if entry[0] in "\"'")
        return here if len(quotes) == 3 else -1
    if piece == top[0] and text.startswith(top, here - 1):
        stack.pop()
        return here - 1 + len(top)
    return here


def _opening(text: str, start: int) -> tuple[str, int]:
    quote = text[start]
    quotes = quote * 3 if text.startswith(quote * 3, start) else quote
    return quotes, start + len(quotes)
