"""Files that nest too deeply for libcst's parser, found by a linear scan before that sees them.

libcst's parser recurses: some thousands of nested brackets or chained operators end the process
without an exception, and long chains take time that grows with their square.  CPython refuses
200 nested brackets as well, so no program that runs is lost by the limits below.
"""

from __future__ import annotations

import re

from torchlint.syntax.lexer import STRING, formatted_string

MAX_BRACKETS = 200  # CPython: "too many nested parentheses"
MAX_LINKS = 1_000  # operators, attributes, calls, elifs in one expression; CPython: some 2,000
MAX_STRINGS = 3_000  # "a" "b" ...: libcst calls more a syntax error, CPython reads them in a loop

BRACKETS = f"nests more than {MAX_BRACKETS} brackets"

STEEP = {"case": 8, "del": 14}  # each bracket makes libcst take 3 or 2 times as long there

_TOKEN = re.compile(
    rf"""
    (?P<skip>\#[^\r\n]*|\\\r?\n|[ \t\f]+)
  | (?P<string>[bBuUrR]{{0,2}}(?:{STRING}))
  | (?P<word>\w+)
  | (?P<open>[(\[{{])
  | (?P<close>[)\]}}])
  | (?P<end>[\r\n,;])
  | (?P<colon>:(?!=))
  | (?P<link>->|\*\*=?|//=?|>>=?|<<=?|[-+*/%&|^@=!<>:]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset(
    {"and", "or", "not", "if", "lambda", "await", "in", "is", "yield"}  # each makes one level
)
_STEEP = re.compile(r"(?:^|[;:])[ \t]*(case|del)\b(?=[ \t]*[^\s=.,)])", re.MULTILINE)
_FIRST_WORD = re.compile(r"^([ \t]*)(?:(elif)\b|(?=[^\s\#]))", re.MULTILINE)


class TooDeepError(Exception):
    """A text nests too deeply for libcst; the message says where and how."""


def too_deep(text: str) -> str | None:
    """Return where and how the text nests too deeply to be parsed, or None."""
    if text.count("elif") > MAX_LINKS and (line := _long_elif(text)):
        return f"line {line} continues an `if` with more than {MAX_LINKS:,} `elif`s"
    return _steep(text) or _count(text)


def _steep(text: str) -> str | None:
    """Find brackets in patterns and after ``del``, where each one multiplies libcst's time."""
    for found in _STEEP.finditer(text):
        here, depth, limit = found.end(), 0, STEEP[found[1]]
        while depth >= 0 and (piece := _TOKEN.match(text, here)):
            here = piece.end()
            depth += (piece.lastgroup == "open") - (piece.lastgroup == "close")
            if depth > limit:
                line = _line(text, found.start(1))
                return f"line {line} nests more than {limit} brackets after `{found[1]}`"
            if depth == 0 and piece.lastgroup in {"end", "colon"} and piece[0] != ",":
                break
    return None


class _Level:
    """One open bracket, or the statement: how much the item that is being read nests."""

    __slots__ = ("inner", "lambdas", "links", "most", "strings")

    def __init__(self) -> None:
        self.links = 0  # of the item so far
        self.strings = 0
        self.inner = 0  # what the deepest bracket inside of the item nests
        self.most = 0  # what the deepest item so far nests
        self.lambdas = 0  # whose parameters are being read: their commas end no item

    def end_item(self) -> None:
        self.most = max(self.most, self.links + self.inner)
        self.links = self.strings = self.inner = 0


def _count(text: str) -> str | None:
    """Count brackets and links exactly, as one pass over the tokens."""
    levels = [_Level()]
    here = 0
    while found := _TOKEN.match(text, here):
        here, kind = found.end(), found.lastgroup
        top = levels[-1]
        if kind == "skip":
            continue
        if kind in ("string", "formatted"):
            if found["formatted"] is not None:
                string = formatted_string(text, here)
                here = string.end
                if string.depth > MAX_BRACKETS:
                    return f"line {_line(text, here)} {BRACKETS}"
            top.strings += 1
        elif kind == "open":
            levels.append(_Level())
        elif kind == "close":
            if len(levels) > 1:
                _close(levels)
        elif kind == "end":
            if len(levels) == 1 or found[0] == ",":
                _end(top, found[0])
        elif kind == "colon":
            top.lambdas = max(0, top.lambdas - 1)
        elif kind == "link" or found[0] in _KEYWORDS:
            top.links += 1
            top.lambdas += found[0] == "lambda"
        if problem := _problem(levels):
            return f"line {_line(text, found.start())} {problem}"
    return None


def _end(level: _Level, mark: str) -> None:
    if mark != "," or not level.lambdas:
        level.end_item()
        level.lambdas = 0


def _close(levels: list[_Level]) -> None:
    done = levels.pop()
    done.end_item()
    levels[-1].links += 1
    levels[-1].inner = max(levels[-1].inner, done.most)


def _problem(levels: list[_Level]) -> str | None:
    top = levels[-1]
    if len(levels) > MAX_BRACKETS:
        return BRACKETS
    if top.links + top.inner > MAX_LINKS:
        return f"chains more than {MAX_LINKS:,} operators, attributes or calls"
    if top.strings > MAX_STRINGS:
        return f"puts more than {MAX_STRINGS:,} strings side by side"
    return None


def _line(text: str, offset: int) -> int:
    return 1 + len(re.findall(r"\r\n|\r|\n", text[:offset]))


def _long_elif(text: str) -> int | None:
    """Return the line where an ``if`` gets one ``elif`` too many."""
    counts: dict[str, int] = {}
    for found in _FIRST_WORD.finditer(text):
        indent = found[1]
        counts[indent] = counts.get(indent, 0) + 1 if found[2] else 0
        if counts[indent] > MAX_LINKS:
            return _line(text, found.start())
    return None
