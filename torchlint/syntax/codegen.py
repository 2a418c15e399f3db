"""Code of nodes that have their layout, and where in it other nodes stand."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from itertools import accumulate
from typing import TYPE_CHECKING

from libcst._nodes.internal import CodegenState  # there is no public way to learn where nodes stand

from torchlint.syntax.text import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    import libcst as cst

_NOTHING = nullcontext()


class Recorder(CodegenState):
    """Collects tokens and notes, for the wanted nodes, the first token and the one after the last.

    Counting tokens instead of characters leaves libcst's own ``add_token`` as fast as it is.
    """

    __slots__ = ("full", "open", "span", "wanted")

    def __init__(self, wanted: Iterable[int], *, indent: str = "", newline: str) -> None:
        super().__init__(default_indent=indent, default_newline=newline)
        self.wanted = set(wanted)
        self.open: dict[int, int] = {}
        self.full: dict[int, tuple[int, int]] = {}
        self.span: dict[int, tuple[int, int]] = {}

    def before_codegen(self, node: cst.CSTNode) -> None:
        """Note where the code of a node starts."""
        if id(node) in self.wanted:
            self.open[id(node)] = len(self.tokens)

    def after_codegen(self, node: cst.CSTNode) -> None:
        """Note where the code of a node ends."""
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


def spans_of(recorder: Recorder, start: int) -> tuple[dict[int, Span], dict[int, Span]]:
    """Return the full places and the bare ones that were noted, for code that starts there."""
    offsets = list(accumulate(map(len, recorder.tokens), initial=start))
    last = len(recorder.tokens)  # a popped newline leaves marks beyond the end

    def read(marks: dict[int, tuple[int, int]]) -> dict[int, Span]:
        return {
            key: Span(offsets[min(first, last)], offsets[min(end, last)])
            for key, (first, end) in marks.items()
        }

    return read(recorder.full), read(recorder.span)
