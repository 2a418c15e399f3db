from __future__ import annotations

import os

import pytest

from torchlint.errors import UnreadableFileError
from torchlint.rule import Location
from torchlint.source import decode_source, read_source

BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        pytest.param(b"x = 1\n", "utf-8", "x = 1\n", id="plain"),
        pytest.param("x = 'ä'\n".encode(), "utf-8", "x = 'ä'\n", id="UTF-8"),
        pytest.param(BOM + b"x\r\n", "utf-8", "x\r\n", id="byte order mark"),
        pytest.param(
            BOM + b"# coding: utf8\nx\n", "utf-8", "# coding: utf8\nx\n", id="mark, cookie"
        ),
        pytest.param(
            b"# coding: latin-1\n'\xe4'", "iso8859-1", "# coding: latin-1\n'ä'", id="cookie"
        ),
        pytest.param(
            b"#!/bin/sh\n# -*- coding: cp1252 -*-\n'\x80'",
            "cp1252",
            "#!/bin/sh\n# -*- coding: cp1252 -*-\n'€'",
            id="cookie on the second line",
        ),
        pytest.param(
            b"x\n# coding: cp1252\n", "utf-8", "x\n# coding: cp1252\n", id="no cookie below code"
        ),
        pytest.param(b"\n\n# coding: cp1252\n", "utf-8", "\n\n# coding: cp1252\n", id="third line"),
        pytest.param(b"# coding: utf-8-sig\nx", "utf-8", "# coding: utf-8-sig\nx", id="utf-8-sig"),
        pytest.param(b"a\rb\r\nc\nd", "utf-8", "a\rb\r\nc\nd", id="mixed newlines"),
        pytest.param(b"", "utf-8", "", id="empty"),
        pytest.param(BOM, "utf-8", "", id="only a mark"),
    ],
)
def test_decoded_and_encoded(data, encoding, text):
    source = decode_source(data, "a.py")
    assert (source.encoding, source.text) == (encoding, text)
    assert source.encode(text) == data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b"x\n\xff = 1\n", r"byte 0xff on line 2 is not utf-8; save it", id="bytes"),
        pytest.param(b"x\r\r\n\0", r"null byte on line 3; is it Python", id="null byte"),
        pytest.param(b"# coding: nope\n", r"unknown encoding nope; correct", id="encoding"),
        pytest.param(b"# coding: rot13\n", r"unknown encoding rot13", id="no encoding of text"),
        pytest.param(BOM + b"# coding: latin-1\n", r"byte order mark .* iso8859-1", id="mark"),
        pytest.param(
            b"# coding: utf-7\n+AGE-", r"cannot be written back as utf-7 byte", id="two spellings"
        ),
    ],
)
def test_undecodable(data, said):
    with pytest.raises(UnreadableFileError, match=rf"^a\.py: .*{said}"):
        decode_source(data, "a.py")


def test_a_character_that_the_encoding_lacks():
    source = decode_source(b"# coding: ascii\n", "a.py")
    with pytest.raises(UnreadableFileError, match="'ä', which ascii does not have; save the file"):
        source.encode("ä")


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        pytest.param(0, (1, 1), id="start"),
        pytest.param(1, (1, 2), id="newline"),
        pytest.param(2, (2, 1), id="after LF"),
        pytest.param(4, (3, 1), id="after CR"),
        pytest.param(7, (4, 1), id="after CRLF"),
        pytest.param(8, (4, 2), id="end"),
    ],
)
def test_location(offset, place):
    source = decode_source("ä\nb\rc\r\nd".encode(), "a.py")
    assert source.location(offset) == Location(*place)
    assert source.offset(*place) == offset


@pytest.mark.parametrize(
    ("place", "offset"), [((0, 1), 0), ((9, 1), 8), ((1, 9), 1), ((2, -3), 2), ((4, 9), 8)]
)
def test_a_place_that_is_not_there(place, offset):
    assert decode_source("ä\nb\rc\r\nd".encode(), "a.py").offset(*place) == offset


def test_read(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"x\r\n")
    source = read_source(path, "shown.py")
    assert (source.filename, source.path, source.data) == ("shown.py", path, b"x\r\n")


def test_unreadable(tmp_path, monkeypatch):
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    os.mkfifo(tmp_path / "pipe.py")
    for name, said in (
        ("folder.py", "is a directory; check"),
        ("missing.py", "no such file or directory; check"),
        ("loop.py", "too many levels of symbolic links; check"),
        ("pipe.py", "is no regular file; exclude"),
    ):
        with pytest.raises(UnreadableFileError, match=f"^shown.py: {said}"):
            read_source(tmp_path / name, "shown.py")

    def forbidden(_):
        raise PermissionError(13, "no entry")

    monkeypatch.setattr("pathlib.Path.read_bytes", forbidden)
    (tmp_path / "secret.py").touch()
    with pytest.raises(UnreadableFileError, match="no entry; check the path and its permissions"):
        read_source(tmp_path / "secret.py", "shown.py")
