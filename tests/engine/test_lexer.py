from __future__ import annotations

import io
import tokenize
from pathlib import Path

import pytest

from torchlint.syntax.lexer import comments

PLAIN = [
    pytest.param("x = 1  # a\n# b", ["# a", "# b"], id="two"),
    pytest.param("x = '# a' # b", ["# b"], id="string"),
    pytest.param('x = "# \\" # a" # b', ["# b"], id="escaped quote"),
    pytest.param("x = r'\\' # a' # b", ["# b"], id="raw string"),
    pytest.param("'''\n# a\n' '' # b\n''' # c", ["# c"], id="string of lines"),
    pytest.param('"""a\\""" # b """ # c', ["# c"], id="escaped quotes"),
    pytest.param("x = '\\\n# a' # b", ["# b"], id="string goes on below"),
    pytest.param("x = '\\\r\n# a' # b", ["# b"], id="string goes on below, CRLF"),
    pytest.param("x = f'{a}# b' # c", ["# c"], id="f-string"),
    pytest.param("x = f'{a!r:#>{b}}' # c", ["# c"], id="format"),
    pytest.param("x = f'{{# {a}}}' # c", ["# c"], id="doubled braces"),
    pytest.param("x = rf'\\{a}# b' # c", ["# c"], id="raw f-string"),
    pytest.param("x = F'''{a\n}# b''' # c", ["# c"], id="f-string of lines"),
    pytest.param("x = f'{a[\"# b\"]}' # c", ["# c"], id="other quotes in a field"),
    pytest.param("x = f'{ {1: 2}[1] }' # c", ["# c"], id="braces in a field"),
    pytest.param("x = b'# a' u'# b' # c", ["# c"], id="prefixes"),
    pytest.param("a # b\rc # d\r\ne", ["# b", "# d"], id="newlines"),
    pytest.param("x = ''# a", ["# a"], id="empty string"),
    pytest.param('x = """"# a" # b"""# c', ["# c"], id="quote after quotes"),
    pytest.param("", [], id="empty"),
]
# Syntax of Python 3.12 (PEP 701), and strings that do not end.
NEWER = [
    pytest.param("x = f'{a['# b']}' # c", ["# c"], id="same quotes in a field"),
    pytest.param("x = f'{f'{f'# a'}'}' # c", ["# c"], id="f-strings in f-strings"),
    pytest.param("x = f'''{\na # b\n}''' # c", ["# b", "# c"], id="comment in a field"),
    pytest.param("x = t'{a}# b' # c", ["# c"], id="t-string"),
    pytest.param("x = f'{(lambda x: 1)}# a' # c", ["# c"], id="colon in brackets"),
    pytest.param("x = f'{a:{b:{c}}}# a' # c", ["# c"], id="format in a format"),
    pytest.param("x = 'a # b\n# c", ["# c"], id="string without end"),
    pytest.param("x = '''a # b\n# c", [], id="string of lines without end"),
    pytest.param("x = f'a # b\n# c", ["# b", "# c"], id="f-string without end"),
    pytest.param("x = f'{a:\n# c", ["# c"], id="format without end"),
    pytest.param("x = f'{a # b", ["# b"], id="field without end"),
    pytest.param("'''a\\", [], id="backslash at the end"),
]


@pytest.mark.parametrize(("text", "found"), PLAIN + NEWER)
def test_comments(text, found):
    result = list(comments(text))
    assert [comment.text for comment in result] == found
    assert all(text.startswith(comment.text, comment.start) for comment in result)


def by_tokenize(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text, newline="").readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


@pytest.mark.parametrize(("text", "found"), [case for case in PLAIN if "\r" not in case.values[0]])
def test_tokenize_finds_the_same(text, found):
    assert by_tokenize(text) == found


def test_tokenize_finds_the_same_in_our_own_files():
    root = Path(__file__).parents[2]
    files = [
        *root.glob("torchlint/**/*.py"),
        *root.glob("rules/**/*.py"),
        *root.glob("tests/**/*.py"),
    ]
    assert len(files) > 20
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert [comment.text for comment in comments(text)] == by_tokenize(text), file


def test_a_part_of_the_text():
    text = "a # b\nc # d\ne # f\n"
    assert [comment.text for comment in comments(text, 6, 11)] == ["# d"]


def test_many_unfinished_f_strings_take_no_time():
    """A scan that starts again at each of them would take hours."""
    assert len(list(comments('f"{' * 100_000 + "# a"))) <= 1
