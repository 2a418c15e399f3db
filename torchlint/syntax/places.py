"""Where nodes stand in the text, and the concrete tree, which is read only where it has to be.

Of most nodes Python's parser has said where they stand (`torchlint.syntax.spans`).  The others
are looked for in the concrete tree, by generating code for the few statements that hold them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import libcst as cst

from torchlint.errors import InternalError
from torchlint.syntax.codegen import Recorder, recorder_of, spans_of
from torchlint.syntax.index import Index
from torchlint.syntax.parsing import parse
from torchlint.syntax.text import Span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from torchlint.syntax.module import Module
    from torchlint.syntax.spans import Spans

N = TypeVar("N", bound=cst.CSTNode)

_BLOCKS = frozenset({cst.IndentedBlock, cst.Module})


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
        self._own = own
        if list(map(type, self.index.nodes)) != list(map(type, own.nodes)):
            raise InternalError("Python's parser and libcst read this file in different ways")

    def of(self, node: N) -> N:
        """Return the node with its layout; nodes of the concrete tree are given back."""
        place = self._own.place(node)
        return node if place is None else self.index.nodes[place]  # type: ignore[return-value]


class Places:
    """The places of the nodes asked for, as offsets into the module's text."""

    __slots__ = ("_located", "_wanted", "module", "text")

    def __init__(self, module: Module, wanted: Iterable[cst.CSTNode]) -> None:
        self.module = module
        self.text = module.text
        self._wanted = {id(node): node for node in wanted}  # by identity, so they must stay alive
        self._located: dict[int, tuple[Span, Span]] = {}  # full places, and bare ones

    def full(self, node: cst.CSTNode) -> Span:
        """Return the place of all the node owns: parentheses, leading lines, commas, whitespace.

        Raises:
            InternalError: nobody asked for the node, or it is not part of the module's tree.

        """
        spans = self._spans(node)
        return (spans and spans.full(node)) or self._in_concrete(node)[0]

    def span(self, node: cst.CSTNode) -> Span:
        """Return the place of the node itself, without parentheses and whitespace around it.

        Raises:
            InternalError: nobody asked for the node, or it is not part of the module's tree.

        """
        spans = self._spans(node)
        return (spans and spans.span(node)) or self._in_concrete(node)[1]

    def body(self, statement: cst.CSTNode, body: cst.CSTNode) -> int:
        """Return where the block of a compound statement starts, right behind the colon.

        Raises:
            InternalError: nobody asked for the block, or it is not part of the module's tree.

        """
        spans = self._spans(body)
        found = spans and spans.body(statement)
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

    def _spans(self, node: cst.CSTNode) -> Spans | None:
        """Return who may tell the place of a node without the concrete tree."""
        if id(node) not in self._wanted:
            raise _unknown(node)
        return self.module.spans

    def _in_concrete(self, node: cst.CSTNode) -> tuple[Span, Span]:
        """Return the full and the bare place by the concrete tree; all are looked for at once."""
        if not self._located:
            concrete = self.module.concrete
            twins = {key: concrete.of(one) for key, one in self._wanted.items()}
            full, span = _locate(self.text, concrete, twins.values())
            for key, twin in twins.items():
                if (whole := full.get(id(twin))) is not None:
                    self._located[key] = whole, span.get(id(twin), whole)
        if id(node) not in self._located:
            raise _unknown(node)
        return self._located[id(node)]


def _unknown(node: cst.CSTNode) -> InternalError:
    return InternalError(f"the place of a {type(node).__name__} is unknown")


def locate(module: Module, nodes: Iterable[cst.CSTNode]) -> Places:
    """Return the places of the nodes, which are looked for when they are asked for."""
    return Places(module, nodes)


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """The statement that holds a node; of a compound statement or clause, only its header.

    ``start`` is its first decorator or itself, ``body`` the block that follows the header.
    """

    statement: cst.CSTNode
    start: cst.CSTNode
    body: cst.CSTNode | None

    def nodes(self) -> Iterable[cst.CSTNode]:
        """Return the nodes whose places are needed."""
        return (self.statement, self.start, self.body or self.statement)

    def lines(self, places: Places) -> Span:
        """Return where the statement or header starts and where it ends."""
        start = places.span(self.start).start
        if self.body is None:
            return Span(start, places.span(self.statement).end)
        header = places.text[start : places.body(self.statement, self.body)]
        return Span(start, start + len(header.rstrip()))


def holder_of(module: Module, node: cst.CSTNode) -> Holder:
    """Return the innermost statement, or clause of one, that holds the node."""
    here = node
    while not isinstance(here, _HOLDERS) and (parent := module.parent(here)) is not None:
        here = parent
    decorators = here.decorators if isinstance(here, cst.FunctionDef | cst.ClassDef) else ()
    body = here.cases[0] if isinstance(here, cst.Match) else getattr(here, "body", None)
    if not isinstance(body, cst.BaseSuite | cst.MatchCase):
        body = None
    return Holder(here, decorators[0] if decorators else here, body)


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


_Spans: TypeAlias = dict[int, Span]


def _locate(text: str, concrete: Concrete, nodes: Collection[cst.CSTNode]) -> tuple[_Spans, _Spans]:
    """Return the places of nodes of the concrete tree, with and without what surrounds them.

    Raises:
        InternalError: the tree does not give back the text.

    """
    search = _Search(text, concrete)
    around = {id(node): _statements_around(concrete, node) for node in nodes}
    while around:
        around = search.in_statements(around)
    if missing := {id(node) for node in nodes} - search.full.keys():
        search.in_module(missing)
    return search.full, search.span


def _statements_around(concrete: Concrete, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the statements that hold a node, from the outside in.

    Nodes of whitespace have no known parent: they are looked for in the whole module.
    """
    found: list[cst.CSTNode] = []
    here = node
    while (parent := concrete.index.parent(here)) is not None:
        if type(parent) in _BLOCKS:
            found.append(here)
        here = parent
    return found[::-1] if here is concrete.module else []


class _Search:
    """Finds nodes in the text by generating the code of what holds them."""

    def __init__(self, text: str, concrete: Concrete) -> None:
        self.full: _Spans = {}
        self.span: _Spans = {}
        self._text = text
        self._concrete = concrete

    def in_statements(self, around: dict[int, list[cst.CSTNode]]) -> dict[int, list[cst.CSTNode]]:
        """Place nodes by the last statement of each; return those left, with the statements left.

        The smaller a statement is, the less code is generated; that it occurs once is the rule.
        """
        tried: dict[int, tuple[cst.CSTNode, set[int]]] = {}
        for key, statements in around.items():
            if statements:
                statement = statements.pop()
                tried.setdefault(id(statement), (statement, set()))[1].add(key)
        left: dict[int, list[cst.CSTNode]] = {}
        for statement, keys in tried.values():
            if not self._in_statement(statement, keys):
                left.update((key, around[key]) for key in keys)
        return left

    def _in_statement(self, statement: cst.CSTNode, keys: set[int]) -> bool:
        """Place the nodes of one statement if its text occurs only once in the file.

        Code generation is the dear part (some 50,000 lines a second) and searching is nearly free,
        so what stands above is not generated only to learn how long it is.
        """
        text, module, index = self._text, self._concrete.module, self._concrete.index
        recorder = recorder_of(module, keys)
        blocks = [one for one in index.ancestors(statement) if isinstance(one, cst.IndentedBlock)]
        for block in reversed(blocks):
            indent = block.indent
            recorder.increase_indent(module.default_indent if indent is None else indent)
        statement._codegen(recorder)  # noqa: SLF001 - libcst has no public way to pass a state
        if statement is module.body[-1] and not module.has_trailing_newline and not module.footer:
            recorder.pop_trailing_newline()
        code = "".join(recorder.tokens)
        start = text.find(code)
        if start < 0 or text.find(code, start + 1) >= 0:
            return False
        self._read_off(recorder, start)
        return True

    def in_module(self, keys: set[int]) -> None:
        """Place nodes in the whole text."""
        recorder = recorder_of(self._concrete.module, keys)
        self._concrete.module._codegen(recorder)  # noqa: SLF001 - see above
        if "".join(recorder.tokens) != self._text:
            raise InternalError("libcst does not give the text of this file back as it was")
        self._read_off(recorder, 0)

    def _read_off(self, recorder: Recorder, start: int) -> None:
        full, span = spans_of(recorder, start)
        self.full.update(full)
        self.span.update(span)
