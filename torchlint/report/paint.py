"""Lines made of styled fragments, as plain text or coloured by rich."""

from __future__ import annotations

import os
import sys
import unicodedata
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Fragment: TypeAlias = tuple[str, str]  # text, and a style in rich's words ("" for none)
Line: TypeAlias = list[Fragment]

TAB = "    "


def is_colored(choice: str, *, to_file: bool = False) -> bool:
    """Whether a report is coloured: on a terminal, unless the environment says otherwise.

    ``choice`` is "auto", "always" or "never".
    """
    if choice != "auto":
        return choice == "always"
    if to_file or os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def paint(lines: Iterable[Line], *, color: bool) -> Iterator[str]:
    """Yield each line as text with its newline; rich is imported only for colour."""
    if not color:
        for line in lines:
            yield "".join(text for text, _ in line) + "\n"
        return
    style = _styler()
    for line in lines:
        yield "".join(style(text, name) if name else text for text, name in line) + "\n"


def _styler() -> Callable[[str, str], str]:
    from rich.color import ColorSystem  # noqa: PLC0415  a pipe never needs it
    from rich.style import Style  # noqa: PLC0415

    return lambda text, name: Style.parse(name).render(text, color_system=ColorSystem.STANDARD)


def visible(text: str) -> str:
    """Return source text safe for a terminal: tabs widened, control characters as pictures."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_char, text))


def _visible_char(char: str) -> str:
    if char == "\t":
        return TAB
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return "\N{REPLACEMENT CHARACTER}"
    return char


def width(text: str) -> int:
    """Columns that visible text takes; East Asian wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
