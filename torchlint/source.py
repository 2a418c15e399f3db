"""Bytes to text and back: encoding, byte order mark and newlines are kept as they are."""

from __future__ import annotations

import bisect
import codecs
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from torchlint.errors import UnreadableFileError
from torchlint.rule import Location
from torchlint.syntax.lexer import NEWLINE

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#[^\r\n]*)?$")
_LINES = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A file as it was read; ``filename`` is how reports call it, ``path`` is None for stdin.

    ``text`` is without byte order mark and with the newlines of the file.
    """

    filename: str
    path: Path | None
    data: bytes
    text: str
    encoding: str
    _starts: list[int] = field(default_factory=list, init=False, repr=False)

    def encode(self, text: str) -> bytes:
        """Return a changed text as bytes in the file's encoding, with its byte order mark.

        Raises:
            UnreadableFileError: the encoding lacks a character of the new text.

        """
        try:
            return self._mark() + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise UnreadableFileError(
                Path(self.filename),
                f"a fix needs {error.object[error.start]!r}, which {self.encoding} does not have",
                "save the file as UTF-8",
            ) from None

    def location(self, offset: int) -> Location:
        """Return row and column of a place in the text."""
        starts = self._line_starts()
        row = bisect.bisect_right(starts, offset)
        return Location(row, offset - starts[row - 1] + 1)

    def offset(self, row: int, column: int) -> int:
        """Return the place of a row and column; the nearest one where there is no such place."""
        starts = self._line_starts()
        if not 1 <= row <= len(starts):
            return len(self.text) if row > 1 else 0
        end = starts[row] - 1 if row < len(starts) else len(self.text)
        return max(starts[row - 1], min(starts[row - 1] + column - 1, end))

    def _line_starts(self) -> list[int]:
        if not self._starts:
            self._starts.append(0)
            self._starts.extend(found.end() for found in NEWLINE.finditer(self.text))
        return self._starts

    def _mark(self) -> bytes:
        return codecs.BOM_UTF8 if self.data.startswith(codecs.BOM_UTF8) else b""


def read_source(path: Path, filename: str) -> Source:
    """Read a file.

    Raises:
        UnreadableFileError: it cannot be opened or decoded.

    """
    try:
        special = not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
        data = b"" if special else path.read_bytes()
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        remedy = "check the path and its permissions, or exclude it"
        raise UnreadableFileError(Path(filename), problem, remedy) from None
    if special:  # reading a pipe or a device may never end
        raise UnreadableFileError(Path(filename), "is no regular file", "exclude it")
    return decode_source(data, filename, path)


def decode_source(data: bytes, filename: str, path: Path | None = None) -> Source:
    """Decode the bytes of a Python file as Python does.

    Raises:
        UnreadableFileError: the encoding is unknown, or the bytes do not belong to it.

    """
    body = data.removeprefix(codecs.BOM_UTF8)
    marked = len(body) < len(data)
    encoding = "utf-8" if marked else _cookie(body, filename) or "utf-8"
    if marked and (named := _cookie(body, filename)) not in (None, "utf-8"):
        raise UnreadableFileError(
            Path(filename),
            f"starts with the byte order mark of UTF-8 but names {named} as its encoding",
            "remove one of the two",
        )
    if b"\0" in body:
        where = _row(body, body.index(b"\0"))
        raise UnreadableFileError(
            Path(filename),
            f"holds a null byte on line {where}",
            "is it Python text? if not, exclude it",
        )
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableFileError(
            Path(filename),
            f"byte 0x{body[error.start]:02x} on line {_row(body, error.start)} is not {encoding}",
            "save it as UTF-8, or name its encoding in a `# coding:` comment on the first line",
        ) from None
    source = Source(filename, path, data, text, encoding)
    if source.encode(text) != data:  # some encodings have two ways to write one text
        raise UnreadableFileError(
            Path(filename),
            f"cannot be written back as {encoding} byte for byte",
            "save it as UTF-8",
        )
    return source


def _cookie(body: bytes, filename: str) -> str | None:
    """Return the encoding that the first two lines name (PEP 263), or None.

    Raises:
        UnreadableFileError: Python does not know it, or it is none of text.

    """
    lines = _LINES.split(body[:4096], maxsplit=2)
    found = _COOKIE.match(lines[0])
    if not found and len(lines) > 1 and _BLANK.match(lines[0]):
        found = _COOKIE.match(lines[1])
    if not found:
        return None
    name = found[1].decode("ascii", "replace")
    try:
        known = codecs.lookup(name)
        "".encode(known.name)
    except (LookupError, UnicodeError):
        raise UnreadableFileError(
            Path(filename), f"names the unknown encoding {name}", "correct its `# coding:` comment"
        ) from None
    return known.name.removesuffix("-sig")


def _row(body: bytes, offset: int) -> int:
    return 1 + len(_LINES.findall(body[:offset]))
