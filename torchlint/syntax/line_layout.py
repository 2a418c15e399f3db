"""Lines, indentation and comments around a place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.lexer import NEWLINE, comments
from torchlint.syntax.places import Places
from torchlint.syntax.text import Edit

if TYPE_CHECKING:
    from torchlint.syntax.module import Module
    from torchlint.syntax.text import Span

_BLANK = re.compile(r"[ \t\f]*")
_AFTER = re.compile(r"[ \t\f]*;?[ \t\f]*(?:\#|[\r\n]|\Z)")


class Unplaceable(Exception):  # noqa: N818 - it is no error: the finding is reported without a fix
    """The code is laid out in a way that a rewrite cannot follow without damage."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The whole lines of a statement: ``[start, end)`` with the newline at the end, if any."""

    start: int
    end: int
    indent: str


def line_start(text: str, offset: int) -> int:
    """Offset of the first character of the line."""
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def line_end(text: str, offset: int) -> int:
    """Offset of the end of the line, before its newline."""
    found = NEWLINE.search(text, offset)
    return found.start() if found else len(text)


def next_line(text: str, offset: int) -> int:
    """Offset of the first character of the next line, or of the end of the text."""
    found = NEWLINE.search(text, offset)
    return found.end() if found else len(text)


def newline_of(module: Module) -> str:
    """Return the newline that a file uses first."""
    found = NEWLINE.search(module.text)
    return found[0] if found else "\n"


def newline_at(places: Places, offset: int) -> str:
    """Return the newline that ends the line, or the file's own at its last line."""
    found = NEWLINE.search(places.text, offset)
    return found[0] if found else newline_of(places.module)


def indent_at(text: str, offset: int) -> str:
    """Return the whitespace that the line of this place starts with."""
    found = _BLANK.match(text, line_start(text, offset))
    return found[0] if found else ""


def indent_of(module: Module, statement: cst.CSTNode) -> str:
    """Return the whitespace that the line of a statement starts with."""
    while isinstance(statement, cst.SimpleStatementLine):
        statement = statement.body[0]
    return indent_at(module.text, Places(module).span(statement).start)


def default_indent(module: Module) -> str:
    """Return what the first block of a file is indented by."""
    blocks = module.index.of(cst.IndentedBlock)
    return indent_of(module, blocks[0].body[0]) if blocks else "    "


def starts_line(text: str, offset: int) -> bool:
    """Whether only whitespace stands before this place on its line."""
    return not text[line_start(text, offset) : offset].strip(" \t\f")


def has_comment(text: str, span: Span) -> bool:
    """Whether a comment stands in the span."""
    return next(comments(text, span.start, span.end), None) is not None


def whole_lines(places: Places, statement: cst.CSTNode, anchor: cst.CSTNode) -> Lines:
    """Return the lines of a statement that shares them with nothing but comments.

    ``anchor`` is where it starts: its first decorator, or the statement itself.

    Raises:
        Unplaceable: it follows or precedes another one on its line, or is an ``elif``.

    """
    text = places.text
    start, end = places.span(anchor).start, places.span(statement).end
    first = line_start(text, start)
    if not starts_line(text, start) or text[:first].rstrip("\r\n").endswith("\\"):
        raise Unplaceable("another statement stands before it on the same line")
    if text.startswith("elif", start):
        raise Unplaceable("it is an elif")
    if not _AFTER.match(text, end):
        raise Unplaceable("another statement follows it on the same line")
    return Lines(first, next_line(text, end), text[first:start])


def indented(code: str, indent: str, newline: str) -> str:
    """Return the lines of the code with the indentation and the newline of their place."""
    lines = NEWLINE.split(code.strip("\r\n"))
    return "".join(f"{indent}{line}{newline}" if line else newline for line in lines)


def put_above(
    places: Places, statement: cst.CSTNode, lines: Lines, code: str, *, apart: bool = False
) -> Edit:
    """Return the edit that puts code above a statement and the comments directly above it.

    ``apart``: with an empty line between.
    """
    start, newline = above_comments(places, statement, lines), newline_at(places, lines.start)
    code = indented(code, lines.indent, newline) + (newline if apart else "")
    return Edit(start, start, code)


def put_below(
    places: Places, statement: cst.CSTNode, lines: Lines, code: str, *, apart: bool = False
) -> Edit:
    """Return the edit that puts code below a statement, ``apart``: with an empty line between."""
    end, newline = end_of(places.text, statement, lines), newline_at(places, lines.start)
    code = (newline if apart else "") + indented(code, lines.indent, newline)
    if places.text[end - 1] not in "\r\n":  # the last line of a file has none, and keeps none
        code = newline + code.removesuffix(newline)
    return Edit(end, end, code)


def end_of(text: str, statement: cst.CSTNode, lines: Lines) -> int:
    """Return the end of a statement; of a compound one, with the comments that belong to it."""
    is_block = isinstance(statement, cst.BaseCompoundStatement)
    return below_comments(text, lines) if is_block else lines.end


def above_comments(places: Places, statement: cst.CSTNode, lines: Lines) -> int:
    """Return the start of the comment lines that stand directly above a line or block.

    What stands above the first one of a file belongs to the file, and what is indented as the block
    above belongs to that.
    """
    text, start = places.text, lines.start
    block = places.module.parent(statement)
    if not isinstance(block, cst.Module | cst.IndentedBlock):
        return start
    at = next(i for i, one in enumerate(block.body) if one is statement)
    if at == 0 and isinstance(block, cst.Module):
        return start
    floor = places.span(block.body[at - 1]).end if at else 0
    while start > floor:
        previous = line_start(text, start - (2 if text[:start].endswith("\r\n") else 1))
        line = text[previous:start].removeprefix(lines.indent)
        if previous < floor or not line.startswith("#"):
            break
        start = previous
    return start


def below_comments(text: str, lines: Lines) -> int:
    """Return the end of the comment lines below a block that are indented as its body is."""
    end = here = lines.end
    while here < len(text):
        line = text[here : next_line(text, here)]
        content = line.strip(" \t\f\r\n")
        if content and not content.startswith("#"):
            break
        if content:
            if len(indent_at(text, here)) <= len(lines.indent):
                break
            end = here + len(line)
        here += len(line)
    return end
