"""Comments, strings and brackets of Python text, found without parsing it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.syntax.text import Span

if TYPE_CHECKING:
    from collections.abc import Iterator


NEWLINE = re.compile(r"\r\n|\r|\n")
MAX_DEPTH = 400  # open f-strings, fields and brackets of one f-string; CPython: 150 strings


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, from its ``#`` to the end of the line."""

    start: int
    text: str


# A string that does not end is taken to end with its line, or the text: the parser will complain.
# No alternative fails after its quotes, so there is no backtracking and the time is linear.
# Raw strings need no care, since a backslash keeps the quote from ending those as well.
PLAIN_STRING = r"""
    \"\"\"[^"\\]*(?:(?:\\.|\"(?!\"\"))[^"\\]*)*(?:\"\"\"|\\?\Z)
  | '''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\\?\Z)
  | "[^"\\\r\n]*(?:\\(?:\r\n|.)[^"\\\r\n]*)*"?
  | '[^'\\\r\n]*(?:\\(?:\r\n|.)[^'\\\r\n]*)*'?
"""
STRING = rf"""
    (?P<formatted>\b(?:[rR]?[fFtT]|[fFtT][rR])(?=["']))
  | {PLAIN_STRING}
"""
_COMMENT = re.compile(rf"(?P<comment>\#[^\r\n]*)|{STRING}", re.VERBOSE | re.DOTALL)
_END = re.compile(r"[\r\n]|\Z")
_LITERAL = re.compile(r"\\(?:\r\n|[^{}])|\{\{|\}\}|[{}\"'\r\n]", re.DOTALL)
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
            string = formatted_string(text, start)
            start = string.end
            yield from string.comments


def strings(text: str, start: int = 0, end: int | None = None) -> Iterator[Span]:
    """Yield where the strings of the text are, which starts and ends outside of strings."""
    end = len(text) if end is None else end
    while found := _COMMENT.search(text, start, end):
        start = found.end()
        if found["formatted"]:
            start = formatted_string(text, start).end
        if not found["comment"]:
            yield Span(found.start(), start)


def takes_comment(text: str, statement: Span, offset: int) -> bool:
    """Whether a comment can be put at the end of the line of this place in a statement.

    It cannot where the line ends inside of a string or in a backslash.
    """
    found = _END.search(text, offset)
    end = found.start() if found else len(text)
    if end >= statement.end:
        return True
    if text[:end].endswith("\\"):
        return False
    found_strings = strings(text, statement.start, statement.end)
    return not any(string.start < end < string.end for string in found_strings)


@dataclass(frozen=True, slots=True)
class FormattedString:
    """An f-string: where it ends, and the comments in its fields."""

    end: int
    comments: tuple[Comment, ...]


def formatted_string(text: str, start: int) -> FormattedString:
    """Read the f-string whose quotes start here.

    Quotes of the string's own kind may stand inside of its fields (PEP 701), so the fields are
    followed.  A string that does not end is taken to be its first quote; of one that nests deeper
    than any parser takes it, the rest is left unread.
    """
    inner: list[Comment] = []
    quote, here = _opening(text, start)
    stack = [quote]  # open f-strings (their quotes), fields ("{"; ":" in the format), brackets
    while stack:
        top = stack[-1]
        literal = top[0] in "\"':"
        found = (_LITERAL if literal else _FIELD).search(text, here)
        if found is None:
            return FormattedString(start + 1, ())
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
            return FormattedString(start + 1, ())
        if len(stack) > MAX_DEPTH:
            break
    return FormattedString(here, tuple(inner))


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
