"""Where nodes stand in the text, by generating code for the few statements that hold them."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import libcst as cst
from libcst._nodes.internal import CodegenState  # there is no public way to learn where nodes stand

from torchlint.edits import Span
from torchlint.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from contextlib import AbstractContextManager

    from torchlint.analysis.program import Program

_NOTHING = nullcontext()
_BLOCKS = frozenset({cst.IndentedBlock, cst.Module})


def generate(module: cst.Module, node: cst.CSTNode) -> str:
    """Return the code of a node, as ``module.code_for_node`` does; no places are asked for."""
    recorder = _Recorder(module, set())  # libcst's own state makes a context manager for each node
    node._codegen(recorder)  # noqa: SLF001 - libcst has no public way to pass a state
    return "".join(recorder.tokens)


class Places:
    """The places of the nodes asked for, as offsets into the program's text."""

    __slots__ = ("_full", "_keep", "_span", "program", "text")

    def __init__(self, program: Program, keep: list[cst.CSTNode]) -> None:
        self.program = program
        self.text = program.text
        self._keep = keep  # places are known by identity, so the nodes must stay alive
        self._full: dict[int, Span] = {}
        self._span: dict[int, Span] = {}

    def full(self, node: cst.CSTNode) -> Span:
        """Return the place of all the node owns: parentheses, leading lines, commas, whitespace."""
        try:
            return self._full[id(node)]
        except KeyError:
            raise InternalError(f"the place of a {type(node).__name__} is unknown") from None

    def known(self) -> Collection[int]:
        """Return the ids of the nodes whose places are known."""
        return self._full.keys()

    def span(self, node: cst.CSTNode) -> Span:
        """Return the place of the node itself, without parentheses and whitespace around it."""
        return self._span.get(id(node)) or self.full(node)

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of the node as it stands in the file, with its parentheses."""
        full = self.full(node)
        return self.text[full.start : full.end]


def locate(program: Program, nodes: Iterable[cst.CSTNode]) -> Places:
    """Find out where the nodes stand, each of which must belong to the program's tree.

    Raises:
        InternalError: the tree does not give back the text, or a node is not part of the tree.

    """
    wanted = {id(node): node for node in nodes}
    places = Places(program, list(wanted.values()))
    around = {key: _statements_around(program, node) for key, node in wanted.items()}
    while around:
        around = _locate_in_statements(places, around)
    if missing := wanted.keys() - places.known():
        _locate_in_module(places, missing)
    return places


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
        header = places.text[start : places.full(self.body).start]
        return Span(start, start + len(header.rstrip()))


def holder_of(program: Program, node: cst.CSTNode) -> Holder:
    """Return the innermost statement, or clause of one, that holds the node."""
    here = node
    while not isinstance(here, _HOLDERS) and (parent := program.parent(here)) is not None:
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


def _locate_in_statements(
    places: Places, around: dict[int, list[cst.CSTNode]]
) -> dict[int, list[cst.CSTNode]]:
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
        if not _locate_statement(places, statement, keys):
            left.update((key, around[key]) for key in keys)
    return left


def _statements_around(program: Program, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the statements that hold a node, from the outside in.

    Nodes of whitespace have no known parent: they are looked for in the whole module.
    """
    found: list[cst.CSTNode] = []
    here = node
    while (parent := program.parent(here)) is not None:
        if type(parent) in _BLOCKS:
            found.append(here)
        here = parent
    return found[::-1] if here is program.module else []


def _locate_statement(places: Places, statement: cst.CSTNode, keys: set[int]) -> bool:
    """Place the nodes of one statement if its text occurs only once in the file.

    Code generation is the dear part (some 50,000 lines a second) and searching is nearly free,
    so what stands above is not generated only to learn how long it is.
    """
    program, text = places.program, places.text
    module = program.module
    recorder = _Recorder(module, keys)
    blocks = [a for a in program.index.ancestors(statement) if isinstance(a, cst.IndentedBlock)]
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
    _read_off(places, recorder, start)
    return True


def _locate_in_module(places: Places, keys: set[int]) -> None:
    module = places.program.module
    recorder = _Recorder(module, keys)
    module._codegen(recorder)  # noqa: SLF001 - see above
    if "".join(recorder.tokens) != places.text:
        raise InternalError("libcst does not give the text of this file back as it was")
    _read_off(places, recorder, 0)


def _read_off(places: Places, recorder: _Recorder, start: int) -> None:
    """Turn numbers of tokens into offsets."""
    offsets = list(accumulate(map(len, recorder.tokens), initial=start))
    last = len(recorder.tokens)  # a popped newline leaves marks beyond the end
    for marks, spans in ((recorder.full, places._full), (recorder.span, places._span)):  # noqa: SLF001
        for key, (first, end) in marks.items():
            spans[key] = Span(offsets[min(first, last)], offsets[min(end, last)])


class _Recorder(CodegenState):
    """Collects tokens and notes, for the wanted nodes, the first token and the one after the last.

    Counting tokens instead of characters leaves libcst's own ``add_token`` as fast as it is.
    """

    __slots__ = ("full", "open", "span", "wanted")

    def __init__(self, module: cst.Module, wanted: set[int]) -> None:
        super().__init__(
            default_indent=module.default_indent, default_newline=module.default_newline
        )
        self.wanted = set(wanted)
        self.open: dict[int, int] = {}
        self.full: dict[int, tuple[int, int]] = {}
        self.span: dict[int, tuple[int, int]] = {}

    def before_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.open[id(node)] = len(self.tokens)

    def after_codegen(self, node: cst.CSTNode) -> None:
        key = id(node)
        if key in self.open:
            self.full[key] = (self.open.pop(key), len(self.tokens))

    def record_syntactic_position(  # type: ignore[override]  # any context manager will do
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> AbstractContextManager[None]:
        """Note the node without what surrounds it; a child may say where it starts or ends."""
        if id(node) not in self.wanted:
            return _NOTHING
        return self._record(id(node), start_node, end_node)

    @contextmanager
    def _record(
        self, key: int, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> Iterator[None]:
        self.wanted.update(id(child) for child in (start_node, end_node) if child is not None)
        first = len(self.tokens)
        yield
        end = len(self.tokens)
        if start_node is not None:
            first = self._known(start_node)[0]
        if end_node is not None:
            end = self._known(end_node)[1]
        self.span[key] = (first, end)

    def _known(self, node: cst.CSTNode) -> tuple[int, int]:
        return self.span.get(id(node)) or self.full[id(node)]
