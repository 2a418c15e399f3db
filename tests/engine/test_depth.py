from __future__ import annotations

import subprocess
import sys

import pytest

from torchlint.deep import with_deep_stack
from torchlint.syntax.depth import MAX_LEVELS, too_deep

# What nests or chains, as a function of how often.
DEEP = {
    "parentheses": lambda n: "x = " + "(" * n + "1" + ")" * n,
    "lists": lambda n: "x = " + "[" * n + "]" * n,
    "dictionaries": lambda n: "x = " + "{1:" * n + "1" + "}" * n,
    "calls in calls": lambda n: "x = " + "f(" * n + ")" * n,
    "subscripts in subscripts": lambda n: "x = " + "a[" * n + "1" + "]" * n,
    "walrus": lambda n: "x = " + "(a:=" * n + "1" + ")" * n,
    "conditions in parentheses": lambda n: "x = " + "(a if " * n + "b" + " else c)" * n,
    "f-strings": lambda n: "x = " + 'f"{' * n + "1" + '}"' * n,
    "formats": lambda n: 'x = f"' + "{a:" * n + "}" * n + '"',
    "patterns": lambda n: "match x:\n  case " + "[" * n + "a" + "]" * n + ":\n    pass\n",
    "pattern without end": lambda n: "match x:\n  case A(b=" + "(" * n + "\n",
    "del": lambda n: "if x: del " + "(a, " * n + ")" * n,
    "open brackets": lambda n: "(" * n,
    "brackets closed in comments": lambda n: "x = (\n" + "( # )\n" * n,
    "brackets closed in strings": lambda n: "x = (" + "(')'," * n,
    "lambdas": lambda n: "x = " + "lambda: " * n + "1",
    "lambdas with parameters": lambda n: "x = " + "lambda a, b: " * n + "1",
    "minus": lambda n: "x = " + "-" * n + "1",
    "not": lambda n: "x = " + "not " * n + "1",
    "attributes": lambda n: "x = a" + ".b" * n,
    "sums": lambda n: "x = a" + "+a" * n,
    "powers": lambda n: "x = a" + "**a" * n,
    "sums over lines": lambda n: "x = (a\n" + "    + a\n" * n + ")",
    "sums over backslashes": lambda n: "x = a" + " \\\n + a" * n,
    "conditions": lambda n: "x = " + "a if b else " * n + "c",
    "comparisons": lambda n: "x = a" + " < a" * n,
    "and": lambda n: "x = a" + " and a" * n,
    "await": lambda n: "async def f():\n  " + "await " * n + "a",
    "subscripts": lambda n: "x = a" + "[0]" * n,
    "calls": lambda n: "x = f" + "()" * n,
    "for in for": lambda n: "x = [a " + "for a in b " * n + "]",
    "dotted import": lambda n: "import a" + ".b" * n,
    "alternatives": lambda n: "match x:\n  case 1" + " | 1" * n + ":\n    pass\n",
    "elif": lambda n: "if a:\n  b\n" + "elif a:\n  b\n" * n,
    "strings": lambda n: "x = " + '"a" ' * 4 * n,
    "formatted strings": lambda n: "x = " + 'f"a" ' * 4 * n,
}
# What is long and flat, and what Python itself refuses without harm.
FLAT = {
    "list": lambda n: "x = [" + "-1.5, " * n + "]",
    "dictionary": lambda n: "x = {\n" + "  'a': -b.c(d),\n" * n + "}",
    "list of lists": lambda n: "x = [" + "[1, (2)], " * n + "]",
    "tuple": lambda n: "x = " + "a.b, " * n,
    "arguments": lambda n: "f(" + "a=b.c, " * n + ")",
    "statements": lambda n: "x = a.b\n" * n,
    "semicolons": lambda n: "a.b;" * n + "a",
    "if": lambda n: "if a.b:\n  b\n" * n,
    "functions": lambda n: "def f(a, b=1): return lambda: a\n" * n,
    "decorators": lambda n: "@a.b\n" * n + "def f(): pass",
    "except": lambda n: "try:\n  a\n" + "except a.b:\n  b\n" * n,
    "global": lambda n: "def f():\n  global a" + ", a" * n,
    "nested blocks": lambda n: "".join(" " * i + "if a:\n" for i in range(n // 20)) + " " * n + "b",
    "closed brackets": lambda n: ")" * n,
    "long string": lambda n: "x = '" + "([{.+" * n + "'",
    "string of lines": lambda n: "x = '''" + "([{.+ elif\n" * n + "'''",
    "comments": lambda n: "# ((((\n" * n,
    "blank lines": lambda n: "\n" * n,
    "backslashes": lambda n: "\\\n" * n,
    "f-strings apart": lambda n: "x = [" + 'f"{a}({b})", ' * n + "]",
    "brackets apart from del": lambda n: "del (a)\nx = " + "(" * 20 + ")" * 20 + "\nb\n" * n,
    "cases": lambda n: "match x:\n" + "  case A(b=(c, [d])) if f(g(h(i(j))))[0]: k(l(m()))\n" * n,
}


# How often is surely allowed, where it is not 95 times.
FEW = {"patterns": 8, "pattern without end": 7, "del": 14, "formats": 2}
# What libcst reads in a loop as well, or refuses at once, as CPython does.
FREE = frozenset(
    {
        "minus", "comparisons", "and", "await", "for in for", "dotted import", "alternatives",
        "strings", "formatted strings", "formats",
    }
)  # fmt: skip


@pytest.mark.parametrize("kind", DEEP)
def test_deep(kind):
    text = "import torch\n" + DEEP[kind](1_500)
    assert (with_deep_stack(lambda: too_deep(text)) is None) is (kind in FREE)
    assert too_deep("import torch\n" + DEEP[kind](FEW.get(kind, 95))) is None


@pytest.mark.parametrize("make", FLAT.values(), ids=FLAT)
def test_flat(make):
    assert too_deep("import torch\n" + make(5_000)) is None


@pytest.mark.parametrize("kind", ["attributes", "sums", "conditions", "and", "strings", "elif"])
def test_what_cpython_takes_is_taken(kind):
    assert with_deep_stack(lambda: too_deep(DEEP[kind](500))) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "\n\r\nx = " + "(" * 300, "line 3: too many nested parentheses", id="brackets"
        ),
        pytest.param(
            "y = 1\nx = (a\n" + "+ a\n" * 1_500 + ")",
            "line 2 chains more than 1,000 operators, attributes or calls",
            id="links",
        ),
        pytest.param(
            "\nif a: del " + "(" * 20 + ")" * 20,
            "line 2 nests more than 14 brackets after `del`",
            id="del",
        ),
    ],
)
def test_where(text, said):
    assert with_deep_stack(lambda: too_deep(text)) == said


def test_elifs_of_several_statements_do_not_add_up():
    one = "if a:\n  b\n" + "elif a:\n  b\n" * 600
    assert too_deep(one * 3) is None
    assert too_deep(one + "else:\n  b\n" + one) is None


SURVIVES = """
import sys
sys.path[:0] = {path!r}
from torchlint.syntax.places import Places
from torchlint.syntax.depth import TooDeepError
from torchlint.linter import with_deep_stack
import libcst as cst
def work():
    from torchlint.syntax.module import Module
    for text in {texts!r}:
        try:
            module = Module(text)
            module.concrete
        except (cst.ParserSyntaxError, TooDeepError):
            print("syntax")
            continue
        places = Places(module)
        for statement in module.tree.body:
            assert places.span(statement).start <= places.full(statement).end <= len(text)
        assert module.concrete.module.code == text
        print("ok")
with_deep_stack(work)
"""


def test_what_is_not_too_deep_is_parsed_and_placed_in_one_piece():
    """In a process of its own, since the failure to be feared is a segmentation fault."""
    texts = [
        *(make(FEW.get(name, 95)) for name, make in DEEP.items()),
        *(DEEP[kind](500) for kind in ("calls", "sums", "conditions", "elif", "minus")),
        DEEP["attributes"](MAX_LEVELS - 10),
        DEEP["parentheses"](195),
        DEEP["lists"](195),
        *(make(1_500) for make in DEEP.values()),
        *(make(50) for make in FLAT.values()),
    ]
    code = SURVIVES.format(path=[p for p in sys.path if p], texts=texts)
    done = subprocess.run(
        [sys.executable, "-"], input=code, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    words = done.stdout.split()
    assert len(words) == len(texts)
    assert words.count("ok") >= len(texts) - len(DEEP) - 12
