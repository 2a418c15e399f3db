"""Taking a context manager out of a ``with`` statement, and the block with the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.lexer import comments
from torchlint.syntax.line_layout import (
    Unplaceable,
    below_comments,
    has_comment,
    indent_at,
    newline_at,
    next_line,
    whole_lines,
)
from torchlint.syntax.text import Edit, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.syntax.module import Module
    from torchlint.syntax.places import Places


@dataclass(frozen=True, slots=True, eq=False)
class Unwrap:
    """A context manager goes from its ``with`` statement.

    Where it is the only one, the block moves out, one level of indentation to the left;
    comments of the line of ``with`` stay above it.
    """

    item: cst.WithItem

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        statement = _statement(places.module, self.item)
        if statement.asynchronous is not None or self.item.asname is not None:
            raise Unplaceable("it is asynchronous, or given a name")
        if len(statement.items) > 1:
            return (_remove(places, statement, self.item),)
        if isinstance(statement.body, cst.IndentedBlock):
            return (_move_out(places, statement, statement.body),)
        start, body = places.span(statement).start, places.span(statement.body.body[0]).start
        if has_comment(places.text, Span(start, body)):
            raise Unplaceable("a comment stands inside of it")
        return (Edit(start, body, ""),)


def _statement(module: Module, item: cst.WithItem) -> cst.With:
    statement = module.parent(item)
    assert isinstance(statement, cst.With)
    return statement


def _long_strings(module: Module, body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    """Yield strings over several lines, whose lines must stay as they are."""
    for string in module.index.below(body, cst.SimpleString):
        if "\n" in string.value or "\r" in string.value:
            yield string
    yield from module.index.below(body, cst.FormattedString)


def _remove(places: Places, statement: cst.With, item: cst.WithItem) -> Edit:
    """Take one of several context managers away, with the comma beside it."""
    items = statement.items
    at = next(i for i, other in enumerate(items) if other is item)
    if at + 1 < len(items):
        span = Span(places.full(item.item).start, places.full(items[at + 1].item).start)
    else:
        before = items[at - 1]
        span = Span(places.full(before.asname or before.item).end, places.full(item.item).end)
    if has_comment(places.text, span):
        raise Unplaceable("a comment stands beside it")
    return Edit(span.start, span.end, "")


def _move_out(places: Places, statement: cst.With, block: cst.IndentedBlock) -> Edit:
    """Replace the statement by the lines of its block."""
    text = places.text
    lines = whole_lines(places, statement, statement)
    body = next_line(text, places.body(statement, block))
    end = below_comments(text, lines)
    newline = newline_at(places, lines.start)
    head = "".join(
        f"{lines.indent}{comment.text}{newline}" for comment in comments(text, lines.start, body)
    )
    strings = [places.span(node) for node in _long_strings(places.module, block)]
    inner = indent_at(text, places.span(block.body[0]).start)
    moved: list[str] = []
    here = body
    while here < end:
        following = next_line(text, here)
        line = text[here:following]
        if line.startswith(inner) and not any(one.start < here < one.end for one in strings):
            line = lines.indent + line[len(inner) :]
        moved.append(line)
        here = following
    return Edit(lines.start, end, head + "".join(moved))
