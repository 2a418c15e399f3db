"""Parsing with libcst; faster where it was imported for that alone (`torchlint.syntax.lean`)."""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

from torchlint.syntax.depth import TooDeepError, too_deep

_OWN = {"SimpleWhitespace": cst.SimpleWhitespace, "Newline": cst.Newline}
_SHARED = {name: lru_cache(None)(kind) for name, kind in _OWN.items()}
_IS_LEAN = type(cst.CSTNode) is type


def parse(text: str) -> cst.Module:
    """Parse, with one node for all equal whitespace where nobody changes nodes.

    Half of the nodes of a tree are whitespace, most of it empty, one blank or the end of a line.
    Nodes do not change, and no place of whitespace is ever asked for.  The parser looks each class
    up by its name in the module, which for that long gives it the remembered nodes.

    Raises:
        libcst.ParserSyntaxError: the text is not Python 3.
        TooDeepError: the parser would end the process, or take for ever.

    """
    if problem := too_deep(text):
        raise TooDeepError(problem)
    if not _IS_LEAN:
        return cst.parse_module(text)
    vars(cst).update(_SHARED)
    try:
        return cst.parse_module(text)
    finally:
        vars(cst).update(_OWN)
