"""Adding arguments to a call, and taking them away, in the call's own layout."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.lexer import comments
from torchlint.syntax.line_layout import (
    Unplaceable,
    default_indent,
    has_comment,
    indent_at,
    line_end,
    line_start,
    newline_at,
    next_line,
    starts_line,
)
from torchlint.syntax.text import Edit, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.syntax.places import Places

MAX_LINE = 100  # an argument that would make its line longer than this starts a line of its own

_COMMA = re.compile(r"(?:\s|\\\r?\n|\#[^\r\n]*(?=[\r\n]|\Z))*,")


def add(
    places: Places, call: cst.Call, pairs: Sequence[tuple[str, str]], *, apart: bool = True
) -> Sequence[Edit]:
    """Return the edits that give the call the keywords.

    A call that gets too long for its line is taken apart, one argument a line, unless it must not.

    Raises:
        Unplaceable: the call has one of the keywords already.

    """
    if {key for key, _ in pairs} & {arg.keyword.value for arg in call.args if arg.keyword}:
        raise Unplaceable("the call has this argument already")
    equal = _equal_sign(places, call)
    new = [f"{key}{equal}{code}" for key, code in pairs]
    at = next((i for i, arg in enumerate(call.args) if arg.star == "**"), len(call.args))
    if at:
        return _add_after(places, call, at - 1, new, apart=apart)
    if call.args:
        return (_add_before(places, call.args[0], new),)
    return (_add_first(places, call, new),)


def prepend(places: Places, call: cst.Call, code: str, keywords: Sequence[str]) -> Sequence[Edit]:
    """Return the edits that pass the code first, and what was passed by place by keyword.

    Raises:
        Unplaceable: an argument by place cannot be given a keyword.

    """
    if not call.args:
        return (_add_first(places, call, [code]),)
    start = places.full(call.args[0]).start
    separator = ", "
    if starts_line(places.text, start) and _one_a_line(places, call):
        separator = "," + newline_at(places, start) + indent_at(places.text, start)
    first = Edit(start, start, code + separator)
    equal = _equal_sign(places, call)
    named: list[Edit] = []
    for place, arg in enumerate(arg for arg in call.args if arg.keyword is None):
        if arg.star == "**":
            continue
        if arg.star or _is_bare_generator(places, arg) or place >= len(keywords):
            raise Unplaceable("an argument goes by its place only")
        start = places.full(arg).start
        named.append(Edit(start, start, keywords[place] + equal))
    return (first, *named)


def remove(places: Places, call: cst.Call, arg: cst.Arg) -> Sequence[Edit]:
    """Return the edits that take one argument away, with its comma.

    Raises:
        Unplaceable: a comment stands inside of the argument or between it and its comma.

    """
    text = places.text
    start, end = _extent(places, arg)
    comma = _comma_end(places, end)
    if has_comment(text, Span(start, comma or end)):
        raise Unplaceable("a comment stands inside of the argument")
    stop = comma or end
    line = line_end(text, stop)
    behind = text[stop:line].lstrip(" \t\f")
    if starts_line(text, start) and behind.startswith("#"):  # the comment becomes a line of its own
        return (Edit(start, next(comments(text, stop, line)).start, ""),)
    if starts_line(text, start) and not behind:
        return (Edit(line_start(text, start), next_line(text, stop), ""),)
    at = next(i for i, other in enumerate(call.args) if other is arg)
    if comma and at + 1 < len(call.args):
        following = places.full(call.args[at + 1]).start
        commented = has_comment(text, Span(stop, following))
        return (Edit(start, line - len(behind) if commented else following, ""),)
    return (_remove_last(places, call, at, Span(start, end), comma),)


def replace(places: Places, call: cst.Call, arg: cst.Arg, pair: tuple[str, str]) -> Sequence[Edit]:
    """Return the edit that puts a keyword and its value in the place of an argument.

    Raises:
        Unplaceable: a comment stands inside of the argument.

    """
    start, end = _extent(places, arg)
    if has_comment(places.text, Span(start, end)):
        raise Unplaceable("a comment stands inside of the argument")
    return (Edit(start, end, f"{pair[0]}{_equal_sign(places, call)}{pair[1]}"),)


def _remove_last(places: Places, call: cst.Call, at: int, span: Span, comma: int | None) -> Edit:
    """Take the last argument away; without a comma of its own it takes the one before it."""
    if at == 0:
        return Edit(span.start, comma or span.end, "")
    before = _extent(places, call.args[at - 1])[1]
    if not has_comment(places.text, Span(before, span.start)):
        return Edit(before, span.end, "")
    blank = places.text[: span.start].rstrip(" \t\f")
    return Edit(len(blank), comma or span.end, "")


def _extent(places: Places, arg: cst.Arg) -> tuple[int, int]:
    """Return where the argument starts, keyword and stars included, and where its value ends."""
    return places.full(arg).start, places.full(arg.value).end


def _comma_end(places: Places, end: int) -> int | None:
    found = _COMMA.match(places.text, end)
    return found.end() if found else None


def _is_bare_generator(places: Places, arg: cst.Arg) -> bool:
    """``f(x for x in xs)``: whether a generator has no parentheses but those of the call."""
    return isinstance(arg.value, cst.GeneratorExp) and not places.is_in_parentheses(arg.value)


def _equal_sign(places: Places, call: cst.Call) -> str:
    """Return ``=`` with the blanks that the call's last keyword has around it."""
    for arg in reversed(call.args):
        if arg.keyword:
            start, value = places.full(arg).start, places.full(arg.value).start
            sign = places.text[start + len(arg.keyword.value) : value]
            return " = " if sign[0] != "=" and sign[-1] != "=" else "="
    return "="


def _separator(places: Places, call: cst.Call) -> str:
    """Return the comma as the call writes it, when it stands inside of a line."""
    ends = [_comma_end(places, _extent(places, arg)[1]) for arg in call.args[:-1]]
    starts = [places.full(arg).start for arg in call.args[1:]]
    return "," if ends and ends == starts else ", "


def _one_a_line(places: Places, call: cst.Call) -> bool:
    """Whether every argument starts a line; the first may follow the parenthesis."""
    starts = [starts_line(places.text, places.full(arg).start) for arg in call.args]
    return all(starts[1:]) and (starts[0] or len(starts) > 1)


def _add_after(
    places: Places, call: cst.Call, at: int, new: list[str], *, apart: bool
) -> Sequence[Edit]:
    """Add behind the argument with this number, before what follows it."""
    text, arg = places.text, call.args[at]
    start, end = _extent(places, arg)
    opening: list[Edit] = []
    closing = ""
    if _is_bare_generator(places, arg):
        opening, closing = [Edit(start, start, "(")], ")"
    elif _one_a_line(places, call) and starts_line(text, start):
        return _add_lines(places, arg, new)
    separator = _separator(places, call)
    content = closing + "".join(separator + code for code in new)
    if apart and not closing and _is_better_apart(places, call, len(content)):
        return _take_apart(places, call, at, new)
    line = text[line_start(text, end) : line_end(text, end)]
    if len(line) + len(content) > MAX_LINE and _line_is_of(places, call, line_start(text, end)):
        pad = newline_at(places, end) + indent_at(text, end)
        content = closing + "".join(f",{pad}{code}" for code in new)
    return (*opening, Edit(end, end, content))


def _is_better_apart(places: Places, call: cst.Call, added: int) -> bool:
    """Whether a call on one line gets too long for that: all that a statement assigns or does."""
    text, span = places.text, places.span(call)
    line = text[line_start(text, span.end) : line_end(text, span.end)]
    above = places.module.parent(call)
    whole = isinstance(above, cst.Assign | cst.AnnAssign | cst.Return | cst.Expr)
    is_plain = not set(text[span.start : span.end]) & set("\r\n\\#")
    comma = _comma_end(places, _extent(places, call.args[-1])[1])
    return len(line) + added > MAX_LINE and whole and is_plain and not comma


def _take_apart(places: Places, call: cst.Call, at: int, new: list[str]) -> Sequence[Edit]:
    """Put each argument on a line of its own, the new ones behind the one with this number."""
    text, span = places.text, places.span(call)
    first = places.full(call.args[0]).start
    outer = newline_at(places, first) + indent_at(text, span.start)
    pad = outer + default_indent(places.module)
    behind = "".join(f",{pad}{code}" for code in new)
    edits = [Edit(len(text[:first].rstrip()), first, pad)]
    for number, arg in enumerate(call.args):
        is_last = number + 1 == len(call.args)
        after = span.end - 1 if is_last else places.full(call.args[number + 1]).start
        comma = f"{behind if number == at else ''},{outer if is_last else pad}"
        edits.append(Edit(_extent(places, arg)[1], after, comma))
    return edits


def _line_is_of(places: Places, call: cst.Call, start: int) -> bool:
    """Whether the line starts with an argument of this call."""
    first = start + len(indent_at(places.text, start))
    return any(places.full(arg).start == first for arg in call.args)


def _add_lines(places: Places, arg: cst.Arg, new: list[str]) -> Sequence[Edit]:
    """Add one line for each new argument; a comment stays on the line of its own argument."""
    text = places.text
    start, end = _extent(places, arg)
    pad = newline_at(places, end) + indent_at(text, start)
    comma = _comma_end(places, end)
    if comma:
        line = line_end(text, comma)
        behind = text[comma:line].strip(" \t\f")
        at = line if not behind or behind.startswith("#") else comma
        return (Edit(at, at, "".join(f"{pad}{code}," for code in new)),)
    line = line_end(text, end)
    lines = ",".join(pad + code for code in new)
    if text[end:line].lstrip(" \t\f").startswith("#"):
        return (Edit(end, end, ","), Edit(line, line, lines))
    return (Edit(end, end, "," + lines),)


def _add_before(places: Places, arg: cst.Arg, new: list[str]) -> Edit:
    """Add before the first argument, a ``**kwargs``."""
    start = places.full(arg).start
    separator = ", "
    if starts_line(places.text, start):
        separator = "," + newline_at(places, start) + indent_at(places.text, start)
    return Edit(start, start, "".join(code + separator for code in new))


def _add_first(places: Places, call: cst.Call, new: list[str]) -> Edit:
    """Add to a call without arguments, which may hold a comment."""
    text = places.text
    close = places.span(call).end - 1
    inside = text[places.full(call.func).end : close].rstrip()
    start = places.full(call.func).end + len(inside)
    if "#" not in inside and "\n" not in text[start:close] and "\r" not in text[start:close]:
        return Edit(start, start, ", ".join(new))
    pad = newline_at(places, start) + indent_at(text, places.span(call).start)
    pad += default_indent(places.module)
    return Edit(start, start, "".join(f"{pad}{code}," for code in new))
