"""A quick look at whether a text is Python, for files that no rule has to read.

Python's own parser is many times faster than libcst, but knows only the grammar of the Python that
runs: where it refuses a text, libcst has the last word.
"""

from __future__ import annotations

import symtable
import warnings

# How Python words what only Python 2 takes: the rest of it is `invalid syntax` to both.
_OLD = (
    "Missing parentheses in call to 'print'",
    "Missing parentheses in call to 'exec'",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer literals",
)


def looks_valid(text: str) -> bool:
    """Whether the Python that runs accepts the text; False is no verdict."""
    return _refusal(text) is None


def is_for_python_2(text: str) -> bool:
    """Whether the Python that runs refuses the text for what Python 2 takes, first of all."""
    error = _refusal(text)
    return isinstance(error, TabError) or (
        isinstance(error, SyntaxError) and error.msg.startswith(_OLD)
    )


def _refusal(text: str) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            symtable.symtable(text, "<file>", "exec")  # unlike `ast`, it builds no tree of objects
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return error
    return None
