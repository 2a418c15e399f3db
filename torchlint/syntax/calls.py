"""How a call is written: the name of its method, and its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Collection


def last_name(node: cst.CSTNode | None) -> str:
    """``"step"`` for ``a.b.step``, "" for what is no attribute: the method, of what is called."""
    return node.attr.value if isinstance(node, cst.Attribute) else ""


def keyword_of(arg: cst.Arg) -> str:
    """Return the keyword of an argument, "" without one."""
    return arg.keyword.value if arg.keyword else ""


def keywords(call: cst.CSTNode | None) -> dict[str, cst.BaseExpression]:
    """Return the arguments that a call names."""
    args = call.args if isinstance(call, cst.Call) else ()
    return {arg.keyword.value: arg.value for arg in args if arg.keyword}


def positional(call: cst.Call) -> list[cst.BaseExpression]:
    """Return the arguments by place, but for those of a ``*``."""
    return [arg.value for arg in call.args if not arg.keyword and not arg.star]


def argument_of(call: cst.Call, word: str, place: int) -> cst.BaseExpression | None:
    """Return the argument that a call gives by a keyword or at a place."""
    found, by_place = keywords(call).get(word), positional(call)
    return by_place[place] if found is None and place < len(by_place) else found


def has_keyword(call: cst.Call, words: Collection[str]) -> bool:
    """Whether a call names any of some arguments."""
    return any(keyword_of(arg) in words for arg in call.args)
