"""Where nodes of the abstract tree stand, by what Python's parser says of what they are made of.

That is free where it is known: expressions, statements, arguments.  Of other nodes nothing is said
here, and the concrete tree has to tell (`torchlint.syntax.places`).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, final

import libcst as cst

from torchlint.syntax.codegen import Recorder, spans_of
from torchlint.syntax.lexer import NEWLINE
from torchlint.syntax.text import Span

if TYPE_CHECKING:
    from torchlint.syntax.abstract import Reader
    from torchlint.syntax.index import Index

# A comment goes to the end of its line: none of its commas is one of the code.
_GAP = r"(?:[ \t\f\r\n]|\\(?:\r\n|\r|\n)|\#[^\r\n]*(?=[\r\n]|\Z))*"
_AFTER = re.compile(_GAP)
_COLON = re.compile(r"(?:[^:#]|\#[^\r\n]*)*:")
_COMMA = re.compile(rf"{_GAP},{_GAP}")
_BLANK = frozenset(" \t\f\r\n\\")
_BRACKETED = (ast.Tuple, ast.GeneratorExp)  # Python counts their parentheses to them


@final
class Spans:
    """The spans of the nodes of an abstract tree, as those of the concrete tree would be."""

    def __init__(self, reader: Reader, index: Index) -> None:
        self._text = reader.lines.text
        self._lines = reader.lines
        self._origins = reader.origins
        self._pieces = reader.pieces
        self._index = index
        self._in_pieces: dict[int, tuple[Span, Span]] = {}

    def span(self, node: cst.CSTNode) -> Span | None:
        """Return the place of a node without parentheses around it; None where it is not known."""
        if isinstance(node, cst.Arg):
            return self._argument(node, comma=False)
        origin = self._origins.get(id(node))
        if isinstance(node, cst.SimpleStatementLine):
            first, last = (self._origins[id(node.body[at])] for at in (0, -1))
            return Span(self._lines.start(first), self._lines.end(last))
        if origin is None:
            return self._name(node) or self._in_piece(node)[1]
        span = self._of(origin)
        if type(origin) in _BRACKETED:
            return self._inside(origin, span)
        return span

    def full(self, node: cst.CSTNode) -> Span | None:
        """Return the place of an expression with its parentheses, or of an argument with its comma.

        None where it is not known, and for all other nodes.
        """
        if isinstance(node, cst.Arg):
            return self._argument(node, comma=True)
        origin = self._origins.get(id(node))
        if origin is None:
            return self._name(node) or self._in_piece(node)[0]
        if not isinstance(node, cst.BaseExpression) or type(node) is cst.StarredElement:
            return None
        span, opening = self._of(origin), self._opening(node)
        if span.start == opening:  # `f(x for x in xs)`
            return self._inside(origin, span)
        around = self._around(span, opening, self._is_first(node, span.start))
        if around != span and isinstance(self._index.parent(node), cst.WithItem):
            return None  # parentheses may be those of the statement
        return around

    def compound(self, statement: cst.CSTNode) -> Span | None:
        """Return the place of a compound statement, decorators included; None for other nodes."""
        origin = self._origins.get(id(statement))
        if origin is None or not isinstance(statement, cst.BaseCompoundStatement):
            return None
        span, decorators = self._of(origin), getattr(origin, "decorator_list", ())
        start = (
            self._text.rindex("@", 0, self._lines.start(decorators[0]))
            if decorators
            else span.start
        )
        return Span(start, span.end)

    def body(self, statement: cst.CSTNode) -> int | None:
        """Return where the block of a compound statement starts, right behind the colon."""
        origin = self._origins.get(id(statement))
        if origin is None:
            return None
        last = self._lines.start(origin)
        for field, value in ast.iter_fields(origin):
            if field not in ("body", "orelse", "handlers", "finalbody"):
                for one in value if isinstance(value, list) else (value,):
                    last = max(last, self._last(one))
        found = _COLON.match(self._text, last)
        return found.end() if found else None

    def _last(self, node: object) -> int:
        """Return where the last of what Python's parser places at or below a node ends."""
        if not isinstance(node, ast.AST):
            return 0
        if hasattr(node, "end_lineno"):
            return self._lines.end(node)
        return max((self._last(one) for one in ast.iter_child_nodes(node)), default=0)

    def _of(self, origin: ast.AST) -> Span:
        start, end = self._lines.start(origin), self._lines.end(origin)
        if isinstance(origin, ast.stmt):  # a semicolon is counted to the statement around
            while self._text[end - 1] in "; \t\f":
                end -= 1
        return Span(start, end)

    def _in_piece(self, node: cst.CSTNode) -> tuple[Span | None, Span | None]:
        """Return the places of a node in what libcst read: all that it owns, and itself."""
        piece: cst.CSTNode | None = node
        while piece is not None and id(piece) not in self._pieces:
            piece = self._index.parent(piece)
        if piece is None:
            return None, None
        if id(node) not in self._in_pieces:
            first, end = self._index.order(piece), self._index.end(piece)
            inside = [id(one) for one in self._index.nodes[first:end]]
            place = self._of(self._origins[id(piece)])
            newline = NEWLINE.search(self._text, place.start)
            recorder = Recorder(inside, newline=newline[0] if newline else "")
            piece._codegen(recorder)  # noqa: SLF001 - libcst has no public way to pass a state
            full, span = spans_of(recorder, place.start)
            for key in full:
                self._in_pieces[key] = full[key], span.get(key) or full[key]
        return self._in_pieces[id(node)]

    def _name(self, node: cst.CSTNode) -> Span | None:
        """Return the place of the name of an attribute, which ends where the attribute does."""
        above = self._index.parent(node)
        if not (isinstance(node, cst.Name) and isinstance(above, cst.Attribute)):
            return None
        if above.attr is not node:
            return None
        origin = self._origins.get(id(above))
        if origin is None:
            return None
        end = self._lines.end(origin)
        start = end - len(node.value)
        return Span(start, end) if self._text[start:end] == node.value else None

    def _inside(self, origin: ast.AST, span: Span) -> Span | None:
        """Return the place inside of the parentheses that Python counts to a tuple or generator."""
        own = self._lines.is_in_parentheses(origin) if isinstance(origin, ast.Tuple) else True
        if not own:
            return span if own is False else None
        start, end = span.start + 1, span.end - 1
        inside = self._text[start:end]
        if "#" in inside or "\\" in inside:
            return None
        stripped = inside.strip()
        start += len(inside) - len(inside.lstrip())
        return Span(start, start + len(stripped))

    def _argument(self, node: cst.Arg, *, comma: bool) -> Span | None:
        """Return the place of an argument of a call, with the comma to where the next one starts.

        Only that of a keyword or of stars is known to Python's parser.
        """
        call = self._index.parent(node)
        if not isinstance(call, cst.Call):
            return None
        if id(call) not in self._origins:
            return self._in_piece(node)[0 if comma else 1]
        if (full := self.full(node.value)) is None:
            return None
        origin = self._origins.get(id(node))
        start = full.start if origin is None else self._lines.start(origin)
        if not comma:
            return Span(start, full.end)
        found = _COMMA.match(self._text, full.end) or _AFTER.match(self._text, full.end)
        assert found is not None
        return Span(start, found.end())

    def _opening(self, node: cst.CSTNode) -> int | None:
        """Return where the parenthesis of the call opens of which this is the only argument."""
        arg = self._index.parent(node)
        call = None if arg is None else self._index.parent(arg)
        if not isinstance(arg, cst.Arg):
            return None
        if isinstance(call, cst.ClassDef):
            return self._text.find("(", self._lines.start(self._origins[id(call)]))
        func = self._origins.get(id(call.func)) if isinstance(call, cst.Call) else None
        if func is None:
            return None
        place = self._lines.end(func)
        while True:  # past the parentheses of the function
            found = _AFTER.match(self._text, place)
            assert found is not None
            if not self._text.startswith(")", found.end()):
                return found.end()
            place = found.end() + 1

    def _is_first(self, node: cst.CSTNode, start: int) -> bool:
        """Whether a statement starts with a node."""
        for above in self._index.ancestors(node):
            origin = self._origins.get(id(above))
            if isinstance(origin, ast.stmt):
                return self._lines.start(origin) == start
        return False

    def _around(self, span: Span, stop: int | None, first: bool) -> Span | None:
        """Return the place of an expression with the parentheses around it, up to the call's.

        None where a line above ends in a comment, in which a parenthesis may stand, or before it.
        """
        text, start, end = self._text, span.start, span.end
        while not first:
            before = start - 1
            while before >= 0 and text[before] in _BLANK:
                before -= 1
            if self._is_commented(before + 1, start):
                return None
            if before < 0 or before == stop or text[before] != "(":
                break
            found = _AFTER.match(text, end)
            assert found is not None
            if not text.startswith(")", found.end()):
                break
            start, end = before, found.end() + 1
        return Span(start, end)

    def _is_commented(self, start: int, end: int) -> bool:
        """Whether a line ends between two places, in what may be a comment."""
        line = max(self._text.rfind("\n", 0, start), self._text.rfind("\r", 0, start)) + 1
        return NEWLINE.search(self._text, start, end) is not None and "#" in self._text[line:start]
