"""What a rule says should change, in terms of nodes, and how that becomes edits of the text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import libcst as cst

from torchlint.edits import arguments, imports
from torchlint.syntax.lexer import comments, strings
from torchlint.syntax.line_layout import (
    Unplaceable,
    above_comments,
    default_indent,
    end_of,
    has_comment,
    indent_of,
    indented,
    line_end,
    line_start,
    newline_at,
    next_line,
    put_above,
    put_below,
    whole_lines,
)
from torchlint.syntax.text import Edit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.syntax.module import Module
    from torchlint.syntax.places import Places

Statement: TypeAlias = cst.BaseStatement | cst.BaseSmallStatement
BLOCKS = (cst.IndentedBlock, cst.SimpleStatementSuite)


class Rewrite(Protocol):
    """One change of a fix."""

    def edits(self, places: Places) -> Sequence[Edit]:
        """Return the change as edits of the text.

        Raises:
            Unplaceable: it cannot be made without damage; the finding loses its fix.

        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Replace:
    """The text of an expression or a statement is replaced by other code.

    Parentheses around the old expression stay; others are added where the new code binds less
    tightly than its place allows.
    """

    node: cst.CSTNode
    code: str

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        span = places.span(self.node)
        old = Counter(comment.text for comment in comments(places.text, span.start, span.end))
        if old - Counter(comment.text for comment in comments(self.code)):
            raise Unplaceable("a comment stands inside of it")
        if _in_format(places.module, self.node) and set(self.code) & set("\"'\\#\r\n"):
            raise Unplaceable("it stands inside of an f-string")
        code = f"({self.code})" if _needs_parentheses(places, self.node, self.code) else self.code
        return (Edit(span.start, span.end, code),)


@dataclass(frozen=True, slots=True, eq=False)
class _OfCall:
    """What changes the arguments of a call."""

    call: cst.Call


@dataclass(frozen=True, slots=True, eq=False)
class AddArgument(_OfCall):
    """A call gets ``keyword=code`` behind its last argument, before any ``**kwargs``."""

    keyword: str
    code: str

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        return arguments.add(places, self.call, ((self.keyword, self.code),))


@dataclass(frozen=True, slots=True, eq=False)
class PrependArgument(_OfCall):
    """A call gets a first argument by place; ``keywords`` name those that had a place before."""

    code: str
    keywords: tuple[str, ...] = ()

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        return arguments.prepend(places, self.call, self.code, self.keywords)


@dataclass(frozen=True, slots=True, eq=False)
class RemoveArgument(_OfCall):
    """An argument of a call goes, with its comma; comments beside it stay."""

    arg: cst.Arg

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        return arguments.remove(places, self.call, self.arg)


@dataclass(frozen=True, slots=True, eq=False)
class ReplaceArgument(_OfCall):
    """An argument of a call becomes ``keyword=code`` in its place."""

    arg: cst.Arg
    keyword: str
    code: str

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        return arguments.replace(places, self.call, self.arg, (self.keyword, self.code))


@dataclass(frozen=True, slots=True, eq=False)
class DropMethod:
    """``x.method(...)`` becomes ``x``, which other rewrites of the fix may change."""

    call: cst.Call

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        assert isinstance(self.call.func, cst.Attribute)
        start, end = places.full(self.call.func.value).end, places.span(self.call).end
        if next(comments(places.text, start, end), None):
            raise Unplaceable("a comment stands inside of it")
        return (Edit(start, end, ""),)


@dataclass(frozen=True, slots=True, eq=False)
class _OfStatement:
    """Lines that are put beside a statement."""

    statement: Statement
    code: str


@dataclass(frozen=True, slots=True, eq=False)
class InsertBefore(_OfStatement):
    """Lines are put before a statement, above the comments that stand directly above it.

    The code is one line or several without indentation.
    """

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        lines = whole_lines(places, self.statement, _anchor(self.statement))
        return (put_above(places, self.statement, lines, self.code),)


@dataclass(frozen=True, slots=True, eq=False)
class InsertAfter(_OfStatement):
    """Lines are put after a statement; after a block, below the comments that belong to it.

    ``apart``: an empty line is put between the statement and them.
    """

    apart: bool = False

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        lines = whole_lines(places, self.statement, _anchor(self.statement))
        return (put_below(places, self.statement, lines, self.code, apart=self.apart),)


@dataclass(frozen=True, slots=True, eq=False)
class DeleteStatement:
    """A statement goes with its lines; comments on and above them stay.

    ``pass`` is left where a block would be empty.
    """

    statement: Statement

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        return _delete(places, self.statement)


@dataclass(frozen=True, slots=True, eq=False)
class Wrap:
    """Statements that follow one another become the block of a header: ``with a:``.

    They go one step further in, with the comments directly above the first and those between.
    Lines that start inside of a string stay as they are, so that its value does.
    """

    statements: Sequence[Statement]
    header: str

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        text, last = places.text, self.statements[-1]
        lines = [whole_lines(places, one, _anchor(one)) for one in self.statements]
        start = above_comments(places, self.statements[0], lines[0])
        end = end_of(text, last, lines[-1])
        header = indented(self.header, lines[0].indent, newline_at(places, lines[0].start))
        step = _step(places.module, last)
        inside = [
            _further_in(text, at, lines[0].indent, step) for at in _indentable(text, start, end)
        ]
        edits = [Edit(start, start, header), *(Edit(at, at, step) for at in inside)]
        # what another fix puts behind the block has to wait: it may belong inside of it
        return (*edits, Edit(end, end, ""))


@dataclass(frozen=True, slots=True, eq=False)
class AddDecorator:
    """A function gets a decorator directly above its ``def``, below those that it has."""

    function: cst.FunctionDef
    code: str

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        lines = whole_lines(places, self.function, self.function)
        code = indented(self.code, lines.indent, newline_at(places, lines.start))
        return (Edit(lines.start, lines.start, code),)


@dataclass(frozen=True, slots=True, eq=False)
class AddImport:
    """``import module``, or ``from module import name``, where the file does not have it yet."""

    module: str
    name: str | None = None

    def edits(self, places: Places) -> Sequence[Edit]:  # noqa: D102
        return imports.add(places, ((self.module, self.name),))


# Operators that a looser expression must not stand next to without parentheses.
_TIGHT_PLACES = (
    cst.Attribute,
    cst.Await,
    cst.BinaryOperation,
    cst.BooleanOperation,
    cst.Call,
    cst.Comparison,
    cst.ComparisonTarget,
    cst.IfExp,
    cst.StarredElement,
    cst.Subscript,
    cst.UnaryOperation,
)
_ATOMS = (
    cst.Attribute,
    cst.Call,
    cst.Dict,
    cst.DictComp,
    cst.Float,
    cst.FormattedString,
    cst.Imaginary,
    cst.List,
    cst.ListComp,
    cst.Name,
    cst.Set,
    cst.SetComp,
    cst.SimpleString,
    cst.Subscript,
)
_NEVER_BARE = (cst.NamedExpr, cst.Tuple, cst.Yield, cst.GeneratorExp)


def _needs_parentheses(places: Places, node: cst.CSTNode, code: str) -> bool:
    """Whether the code would bind differently in the place of the node than on its own."""
    if not isinstance(node, cst.BaseExpression):
        return False
    new = cst.parse_expression(f"({code})")
    bracketed = len(getattr(new, "lpar", ())) > 1
    if places.is_in_parentheses(node) or bracketed or isinstance(new, _ATOMS):
        return False
    if "\n" in code or "\r" in code:
        return True
    parent = places.module.parent(node)
    if isinstance(parent, _TIGHT_PLACES):
        number = isinstance(new, cst.Integer) and not isinstance(parent, cst.Attribute)
        return not number
    return isinstance(new, _NEVER_BARE) and not isinstance(node, type(new))


def _in_format(module: Module, node: cst.CSTNode) -> bool:
    """Whether the node stands in an f-string, where quotes could end the string."""
    here: cst.CSTNode | None = node
    while here is not None and not isinstance(here, cst.BaseStatement | cst.BaseSmallStatement):
        if isinstance(here, cst.FormattedStringExpression):
            return True
        here = module.parent(here)
    return False


def _anchor(statement: Statement) -> cst.CSTNode:
    """Return the node where the statement's first line starts: its first decorator, if any."""
    if isinstance(statement, cst.FunctionDef | cst.ClassDef) and statement.decorators:
        return statement.decorators[0]
    return statement


def _step(module: Module, statement: Statement) -> str:
    """Return what one more step of indentation is in the block of a statement."""
    for above in module.index.ancestors(statement):
        if isinstance(above, cst.IndentedBlock):
            outer = module.parent(above)
            assert outer is not None
            return indent_of(module, above.body[0]).removeprefix(indent_of(module, outer))
    return default_indent(module)


def _further_in(text: str, line: int, indent: str, step: str) -> int:
    """Return where a line gets its step: after the indentation of its block, if tabs mix with it.

    Blanks before a tab lead no further than the tab does.
    """
    mixed = step + indent != indent + step
    return line + len(indent) if mixed and text.startswith(indent, line) else line


def _indentable(text: str, start: int, end: int) -> list[int]:
    """Return where the lines start that may be indented: none is blank or part of a string."""
    within = [
        string for string in strings(text, start, end) if string.end > line_end(text, string.start)
    ]
    found: list[int] = []
    while start < end:
        after = next_line(text, start)
        if text[start:after].strip() and not any(s.start < start < s.end for s in within):
            found.append(start)
        start = after
    return found


def _is_alone(module: Module, statement: Statement) -> bool:
    """Whether its block would be empty without it."""
    parent = module.parent(statement)
    if isinstance(parent, cst.SimpleStatementLine) and len(parent.body) == 1:
        parent = module.parent(parent)
    return isinstance(parent, BLOCKS) and len(parent.body) == 1


def _delete(places: Places, statement: Statement) -> Sequence[Edit]:
    text, module = places.text, places.module
    span = places.span(statement)
    start = places.span(_anchor(statement)).start
    if has_comment(text, span) or has_comment(text, type(span)(start, span.start)):
        raise Unplaceable("a comment stands inside of it")
    if _is_alone(module, statement):
        return (Edit(start, span.end, "pass"),)
    line = module.parent(statement)
    if isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        at = next(i for i, one in enumerate(line.body) if one is statement)
        if at + 1 < len(line.body):  # with the semicolon beside it
            return (Edit(start, places.span(line.body[at + 1]).start, ""),)
        if at:
            return (Edit(places.span(line.body[at - 1]).end, span.end, ""),)
    lines = whole_lines(places, statement, _anchor(statement))
    end = line_end(text, span.end)
    comment = next(comments(text, span.end, end), None)
    if comment:
        return (Edit(start, comment.start, ""),)
    if lines.end == end and lines.start:  # the last line of the file: its newline is the one before
        before = lines.start - (2 if text[: lines.start].endswith("\r\n") else 1)
        return (Edit(before, end, ""),)
    above = text[line_start(text, max(lines.start - 1, 0)) : lines.start]
    after = next_line(text, lines.end)
    if not above.strip() and not text[lines.end : after].strip():  # one empty line is enough
        return (Edit(lines.start, after, ""),)
    return (Edit(lines.start, lines.end, ""),)
