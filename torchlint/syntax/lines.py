"""Where the nodes of Python's own tree stand in the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlint.syntax.lexer import NEWLINE

if TYPE_CHECKING:
    import ast


class Lines:
    """Where lines start in a text; Python counts in bytes of UTF-8 from there."""

    __slots__ = ("_is_ascii", "_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(found.end() for found in NEWLINE.finditer(text))]
        self._is_ascii = text.isascii()

    def at(self, line: int, column: int) -> int:
        """Return the offset of a line, from 1, and of bytes behind its start."""
        start = self._starts[line - 1]
        if self._is_ascii:
            return start + column
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        row = self.text[start:end]
        return start + (column if row.isascii() else len(row.encode()[:column].decode()))

    def start(self, node: Any) -> int:
        """Return where a node of Python's tree starts."""
        return self.at(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        """Return where a node of Python's tree ends."""
        return self.at(node.end_lineno, node.end_col_offset)

    def is_in_parentheses(self, node: ast.Tuple) -> bool | None:
        """Whether a tuple has parentheses of its own, which Python counts to it; None: unclear.

        ``(a), b`` starts with one as well, that closes before the comma.
        """
        start = self.start(node)
        if self.text[start] != "(" or not node.elts:
            return not node.elts
        before = self.text[start : self.start(node.elts[0])]
        opened = before.count("(")
        closed = 0
        for sign in self.text[self.end(node.elts[0]) :]:
            if sign == ")":
                closed += 1
            elif sign == "," or closed == opened:
                break
            elif not sign.isspace():
                return None
        return None if "#" in before else closed < opened
