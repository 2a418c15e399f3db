"""Chains of names, attributes and calls: ``a.b().c``."""

from __future__ import annotations

import libcst as cst


def root_of(node: cst.BaseExpression, *, subscripts: bool = False) -> cst.BaseExpression:
    """``a`` for ``a.b().c``, and where asked for ``a[0].b`` as well: what a chain starts with."""
    while True:
        match node:
            case cst.Attribute(value=inner) | cst.Call(func=inner):
                node = inner
            case cst.Subscript(value=inner) if subscripts:
                node = inner
            case _:
                return node


def dotted(node: cst.CSTNode) -> str:
    """``a.b.c`` for a chain of names and attributes, else the empty string."""
    # not isinstance: it is slow to say no, and this is asked most of all
    if type(node) is cst.Name:
        return node.value
    parts: list[str] = []
    while type(node) is cst.Attribute:
        parts.append(node.attr.value)
        node = node.value
    if not parts or type(node) is not cst.Name:
        return ""
    parts.append(node.value)
    return ".".join(reversed(parts))
