r"""Patterns that are looked for in the text of whole files.

A search leaps from one character that can begin a match to the next where each alternative begins
with a plain character.  One that begins with ``\b``, a lookbehind or a group, or ignores case, is
tried at every character, which takes three to twenty times as long: patterns of whole files look
back once they met a word, and ignore case by being looked for in `Program.lowered`.
"""

from __future__ import annotations


def words(*some: str, then: str = r"\b") -> str:
    r"""Return the alternatives of a pattern that are met where one of some words begins.

    >>> words("amp", "apex")
    'amp(?<=\\bamp)\\b|apex(?<=\\bapex)\\b'
    """
    return "|".join(rf"{word}(?<=\b{word}){then}" for word in some)
