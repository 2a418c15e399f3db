"""The vocabulary of the engine's tests: modules, nodes in them, and texts after rewrites."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.resolve import resolve
from torchlint.source import decode_source
from torchlint.syntax.module import Module
from torchlint.syntax.places import Places
from torchlint.syntax.text import apply

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchlint.edits.rewrites import Rewrite
    from torchlint.source import Source

N = TypeVar("N", bound=cst.CSTNode)


def source(text: str) -> Source:
    return decode_source(text.encode(), "snippet.py")


def nodes(module: Module, kind: type[N]) -> list[N]:
    """All nodes of a kind, in the order of the text."""
    own = [node for node in module.index.nodes if isinstance(node, kind)]
    return own or _layout(module, kind)


def _layout(module: Module, kind: type[N]) -> list[N]:
    """Nodes of layout, which only the concrete tree has."""
    found: list[N] = []
    stack: list[cst.CSTNode] = [module.concrete.module]
    while stack:
        node = stack.pop()
        if isinstance(node, kind):
            found.append(node)
        stack += reversed(node.children)
    return found


def code(module: Module, node: cst.CSTNode) -> str:
    """The code of a node with all that it owns."""
    return module.concrete.module.code_for_node(module.concrete.of(node))


def node(module: Module, kind: type[N], wanted: str | None = None) -> N:
    """The first node of a kind, or the one with this code."""
    found = nodes(module, kind)
    return next(n for n in found if wanted is None or wanted == code(module, n).strip())


def rewritten(text: str, *make: Callable[[Module], Rewrite]) -> str:
    """The text after one fix of these rewrites; it must still parse."""
    module = Module(text)
    fix = Fix("change it", Safety.SAFE, tuple(one(module) for one in make))
    places = Places(module)
    result = apply(text, resolve(fix, places).edits)
    cst.parse_module(result)
    return result
