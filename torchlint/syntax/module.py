"""One parsed file: its text, its tree, the index of the tree, and where its nodes stand."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.abstract import read
from torchlint.syntax.index import Index
from torchlint.syntax.parsing import parse
from torchlint.syntax.places import Concrete, Places
from torchlint.syntax.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Iterator


class Module:
    """A file of Python as text and tree.

    Args:
        text: the decoded source.

    Raises:
        libcst.ParserSyntaxError: the text is not Python 3.
        TooDeepError: only libcst reads it, and it nests too deeply for that.

    """

    def __init__(self, text: str) -> None:
        """Parse the text."""
        self.text = text
        self._codes: dict[int, tuple[cst.CSTNode, str]] = {}
        with _collector_paused():
            reader = read(text)
            self.tree = parse(text) if reader is None else reader.module
            self.index = Index(self.tree)
            self.spans = None if reader is None else Spans(reader, self.index)

    def release(self) -> None:
        """Forget all; the facts and the tree refer to one another in circles.

        Without this a tree lives until the cyclic collector comes by, which is slow to find it.
        """
        self.index.release()
        if "concrete" in self.__dict__:
            self.concrete.index.release()
        self.__dict__.clear()

    @cached_property
    def concrete(self) -> Concrete:
        """The tree with its layout: libcst reads the file for whoever changes that.

        Raises:
            InternalError: libcst does not read the file, or in another way.

        """
        with _collector_paused():
            return Concrete(self.text, self.index, is_own=self.spans is None)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node that holds this one."""
        return self.index.parent(node)

    def code(self, node: cst.CSTNode) -> str:
        """Return the source of a node as it stands in the file.

        That of a compound statement begins with its decorators, without the comments above.
        """
        known = self._codes.get(id(node))
        if known is not None:
            return known[1]
        span = self.spans and self.spans.compound(node)
        text = self.text[span.start : span.end] if span else Places(self).code(node)
        self._codes[id(node)] = node, text  # of a node that is gone, another would get the identity
        return text

    def bare(self, node: cst.BaseExpression | cst.Arg) -> str:
        """Return the source of an expression without parentheses, of an argument without comma."""
        return Places(self).bare(node)

    def is_in_parentheses(self, node: cst.BaseExpression) -> bool:
        """Whether an expression has parentheses of its own."""
        return Places(self).is_in_parentheses(node)

    def same(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether two nodes of the file are written in the same way."""
        return self.code(one) == self.code(other)

    def brief(self, node: cst.CSTNode, width: int = 48) -> str:
        """Return the source of a node on one line, cut where it is long: for messages."""
        text = " ".join(self.code(node).split())
        return text if len(text) <= width else f"{text[: width - 3]}..."

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the line or compound statement a node stands in."""
        if isinstance(node, cst.BaseStatement):
            return node
        for above in self.index.ancestors(node):
            if isinstance(above, cst.BaseStatement):
                return above
        return self.tree

    def smallest_statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the simple statement around a node; of a compound one, its header's expression."""
        last = node
        for above in self.index.ancestors(node):
            if isinstance(above, cst.BaseSmallStatement):
                return above
            if isinstance(above, cst.BaseStatement):
                return last
            last = above
        return last

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the function a node stands in."""
        return self.index.nearest(node, cst.FunctionDef)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Parsing makes many objects and no garbage: the cyclic collector only costs time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
