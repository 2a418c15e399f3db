from __future__ import annotations

import pytest

from torchlint.checking import Options, check_source
from torchlint.errors import UnreadableFileError
from torchlint.source import decode_source
from torchlint.syntax.validity import looks_valid


@pytest.mark.parametrize(
    "text", ["x = 1\n", "", "match = 1\nmatch x:\n    case 1: pass\n", "'\\d'\n"]
)
def test_accepts_python(text: str) -> None:
    assert looks_valid(text)


@pytest.mark.parametrize(
    "text", ["def f(:\n", "print 'hi'\n", "x = 1\0\n", "(" * 1000 + ")" * 1000, "-" * 100_000 + "1"]
)
def test_refuses_the_rest(text: str) -> None:
    assert not looks_valid(text)


OLD = [
    pytest.param("print 'hi'\n", id="print"),
    pytest.param("exec 'x'\n", id="exec"),
    pytest.param("if x:\n\ty\n        z\n", id="tabs"),
    pytest.param("mode = 0755\n", id="octal"),
]


@pytest.mark.parametrize("text", OLD)
def test_python_2_is_found_where_it_has_to_do_with_torch(text: str) -> None:
    options = Options((), frozenset())
    assert check_source(decode_source(text.encode(), "x.py"), options) == []
    (found,) = check_source(decode_source(f"import torch\n{text}".encode(), "x.py"), options)
    assert found.code == "TL001"


def test_python_2_is_told_by_the_first_thing_that_python_refuses() -> None:
    text = "try:\n    f()\nexcept E, e:\n    print e\n"
    options = Options((), frozenset())
    assert check_source(decode_source(text.encode(), "x.py"), options) == []


@pytest.mark.parametrize("text", ["def f(:\n", "x = (\n", "import torch\ndef f(:\n"])
def test_a_syntax_error_is_found_whatever_the_file_is_about(text: str) -> None:
    (found,) = check_source(decode_source(text.encode(), "x.py"), Options((), frozenset()))
    assert found.code == "TL001"


def test_a_deep_file_is_unreadable_whatever_it_is_about() -> None:
    source = decode_source(("(" * 1000 + ")" * 1000).encode(), "x.py")
    with pytest.raises(UnreadableFileError):
        check_source(source, Options((), frozenset()))
