"""Where nodes stand in the text, and the concrete tree, which is read only where it has to be.

Of most nodes Python's parser has said where they stand (`torchlint.syntax.spans`).  Where others
stand is told by the concrete tree, by generating the code of the file.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from torchlint.errors import InternalError
from torchlint.syntax.codegen import Recorder, spans_of
from torchlint.syntax.index import Index
from torchlint.syntax.parsing import parse
from torchlint.syntax.text import Span

if TYPE_CHECKING:
    from torchlint.syntax.module import Module

N = TypeVar("N", bound=cst.CSTNode)

_HOLDERS = (
    cst.BaseCompoundStatement,
    cst.BaseSmallStatement,
    cst.Else,
    cst.ExceptHandler,
    cst.ExceptStarHandler,
    cst.Finally,
    cst.MatchCase,
    cst.SimpleStatementLine,
)


class Concrete:
    """The tree of a file with all of its layout, and which of its nodes are those of the other.

    ``own`` is the index of the other, ``is_own`` says that it is that of the concrete tree already.

    Raises:
        InternalError: libcst does not read the file, or in another way.

    """

    def __init__(self, text: str, own: Index, *, is_own: bool) -> None:
        try:
            self.module = own.module if is_own else parse(text)
        except cst.ParserSyntaxError:
            raise InternalError("libcst does not read this file, though Python does") from None
        self.index = own if is_own else Index(self.module)
        self._text = text
        self._own = own
        if list(map(type, self.index.nodes)) != list(map(type, own.nodes)):
            raise InternalError("Python's parser and libcst read this file in different ways")

    def of(self, node: N) -> N:
        """Return the node with its layout; nodes of the concrete tree are given back."""
        place = self._own.place(node)
        return node if place is None else self.index.nodes[place]  # type: ignore[return-value]

    def places(self, node: cst.CSTNode) -> tuple[Span, Span]:
        """Return the place of all that a node owns, and of the node itself.

        Raises:
            InternalError: it is not part of the tree, or the tree does not give back the text.

        """
        full, span = self._found
        twin = id(self.of(node))
        if twin not in full:
            raise InternalError(f"the place of a {type(node).__name__} is unknown")
        return full[twin], span.get(twin, full[twin])

    @cached_property
    def _found(self) -> tuple[dict[int, Span], dict[int, Span]]:
        module = self.module
        wanted = map(id, self.index.nodes)
        recorder = Recorder(wanted, indent=module.default_indent, newline=module.default_newline)
        module._codegen(recorder)  # noqa: SLF001 - libcst has no public way to pass a state
        if "".join(recorder.tokens) != self._text:
            raise InternalError("libcst does not give the text of this file back as it was")
        return spans_of(recorder, 0)


class Places:
    """The places of nodes, as offsets into the module's text.

    All that are asked for the place of a node raise an `InternalError` where it is not part of the
    module's tree.
    """

    __slots__ = ("_spans", "module", "text")

    def __init__(self, module: Module) -> None:
        self.module = module
        self.text = module.text
        self._spans = module.spans

    def full(self, node: cst.CSTNode) -> Span:
        """Return the place of all the node owns: parentheses, leading lines, commas, whitespace."""
        found = self._spans and self._spans.full(node)
        return found or self.module.concrete.places(node)[0]

    def span(self, node: cst.CSTNode) -> Span:
        """Return the place of the node itself, without parentheses and whitespace around it."""
        found = self._spans and self._spans.span(node)
        return found or self.module.concrete.places(node)[1]

    def body(self, statement: cst.CSTNode, body: cst.CSTNode) -> int:
        """Return where the block of a compound statement starts, right behind the colon."""
        found = self._spans and self._spans.body(statement)
        return self.full(body).start if found is None else found

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of the node as it stands in the file, with its parentheses."""
        full = self.full(node)
        return self.text[full.start : full.end]

    def bare(self, node: cst.CSTNode) -> str:
        """Return the text of the node without parentheses around it, or the comma behind it."""
        span = self.span(node)
        return self.text[span.start : span.end]

    def is_in_parentheses(self, node: cst.CSTNode) -> bool:
        """Whether an expression has parentheses of its own."""
        return self.full(node) != self.span(node)

    def lines(self, node: cst.CSTNode) -> Span:
        """Return where the innermost statement, or clause of one, that holds a node stands.

        Of a compound one that is its header, with decorators.
        """
        here = node
        while not isinstance(here, _HOLDERS) and (above := self.module.parent(here)) is not None:
            here = above
        decorators = here.decorators if isinstance(here, cst.FunctionDef | cst.ClassDef) else ()
        body = here.cases[0] if isinstance(here, cst.Match) else getattr(here, "body", None)
        start = self.span(decorators[0] if decorators else here).start
        if not isinstance(body, cst.BaseSuite | cst.MatchCase):
            return Span(start, self.span(here).end)
        header = self.text[start : self.body(here, body)]
        return Span(start, start + len(header.rstrip()))
