"""Files that nest too deeply for libcst's parser, found before that sees them.

libcst's parser recurses: some thousands of nested brackets or chained operators end the process
without an exception, and long chains take time that grows with their square.  CPython refuses
200 nested brackets as well, so no program that runs is lost by the limits below.
"""

from __future__ import annotations

import ast
import re
import warnings
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LEVELS = 1_000  # operators, attributes, calls, elifs in one expression or statement

STEEP = {"case": 8, "del": 14}  # each bracket makes libcst take 3 or 2 times as long there
_STEEP = re.compile(r"(?:^|[;:])[ \t]*(case|del)\b(?=[ \t]*[^\s=.,)])", re.MULTILINE)
_STOP = re.compile(r"[(\[{]|[)\]}]|[\r\n]")


class TooDeepError(Exception):
    """A text nests too deeply for libcst; the message says where and how."""


def too_deep(text: str) -> str | None:
    """Return where and how the text nests too deeply to be parsed, or None.

    Of what Python's own parser does not take, only what it says about nesting is known: libcst
    comes no further than the place where that stops.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (RecursionError, MemoryError):
        return "it nests too deeply for Python itself"
    except SyntaxError as error:
        is_deep = "too many nested" in error.msg
        return f"line {error.lineno}: {error.msg}" if is_deep else _steep(text)
    except ValueError:
        return _steep(text)
    deepest, row = max(_levels(tree, text))
    if deepest > MAX_LEVELS:
        return f"line {row} chains more than {MAX_LEVELS:,} operators, attributes or calls"
    return _steep(text)


def _levels(tree: ast.AST, text: str) -> Iterator[tuple[int, int]]:
    """Yield how deep nodes lie, and in which line, but for those too short to hold many levels."""
    starts = [0, *accumulate(map(len, text.encode("utf-8", "replace").splitlines(keepends=True)))]
    waiting = [(tree, 0, 1)]
    for node, level, above in waiting:  # it grows: nothing recurses here
        yield level, above
        for child in ast.iter_child_nodes(node):
            row, size = getattr(child, "lineno", above), MAX_LEVELS
            if isinstance(child, (ast.expr, ast.stmt)):
                end = starts[(child.end_lineno or row) - 1] + (child.end_col_offset or 0)
                size = end - starts[row - 1] - child.col_offset
            if size >= MAX_LEVELS:
                waiting.append((child, level + 1, row))


def _steep(text: str) -> str | None:
    """Find brackets in patterns and after ``del``, where each one multiplies libcst's time."""
    for found in _STEEP.finditer(text):
        depth, limit = 0, STEEP[found[1]]
        for piece in _STOP.finditer(text, found.end()):
            depth += (piece[0] in "([{") - (piece[0] in ")]}")
            if depth > limit:
                line = text.count("\n", 0, found.start(1)) + 1
                return f"line {line} nests more than {limit} brackets after `{found[1]}`"
            if depth < 0 or (depth == 0 and piece[0] in "\r\n"):
                break
    return None
