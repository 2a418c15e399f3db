"""Which statement a line belongs to: Python reports a statement of many lines by some of them."""

from __future__ import annotations

import ast
from typing import Any, Iterable, Tuple

Span = Tuple[int, int]


def spans(path: str, lines: Iterable[int]) -> dict[int, Span]:
    """Return for each line the first and last line of its statement, or of a block's header.

    A line between statements goes with the next one.  In a file that does not parse, each line
    stands for itself.
    """
    try:
        with open(path, "rb") as file:
            pieces = _pieces(ast.parse(file.read()))
    except (OSError, SyntaxError, ValueError, RecursionError):
        pieces = []
    return {line: _span(pieces, line) for line in lines}


def _span(pieces: list[Span], line: int) -> Span:
    holding = [piece for piece in pieces if piece[0] <= line <= piece[1]]
    if holding:
        return min(holding, key=lambda piece: piece[1] - piece[0])
    following = [piece for piece in pieces if piece[0] > line]
    if following:
        return min(following)
    return max(pieces) if pieces else (line, line)


def _pieces(tree: ast.AST) -> list[Span]:
    return [_piece(node) for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def _piece(node: Any) -> Span:
    body = getattr(node, "body", None) or [
        each for case in getattr(node, "cases", ()) for each in case.body
    ]
    if not body:
        return node.lineno, node.end_lineno
    first = _first(node)
    return first, max(node.lineno, _first(body[0]) - 1)


def _first(node: Any) -> int:
    lines: list[int] = [node.lineno]
    lines += [each.lineno for each in getattr(node, "decorator_list", ())]
    return min(lines)
