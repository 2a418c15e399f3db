"""The abstract tree is libcst's without layout, and its nodes stand where libcst says they do."""

from __future__ import annotations

import collections
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

from torchlint.syntax import module as module_of_text
from torchlint.syntax.abstract import read
from torchlint.syntax.index import Index
from torchlint.syntax.makers import call
from torchlint.syntax.module import Module

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(ROOT.glob("fixtures/*/*.py"))


def _script() -> Any:
    path = ROOT / "benchmarks" / "trees.py"
    spec = importlib.util.spec_from_file_location("trees", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.path[:]
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


TREES = _script()

STATEMENTS = {
    "assignments": "a = b = c, *d = 1, 2\na: int\nb: str = 'x'\na.b += 1\nc[0] @= d\n(e) = (f)\n",
    "one line": "a = 1; b = 2;\nif a: b; c\nelse: d;\nclass A: pass\nwhile a: break\n",
    "a continued line": "a = 1; \\\n  b = 2\nc = ';' ; d = '\\\\'\ne = 1\n",
    "a line behind a string of several": "a = '''\n'''; b = 2\nc = 3\n",
    "elif and else": "if a:\n  b\nelif c:\n  d\nelse:\n  if e:\n    f\n  elif g:\n    h\n",
    "else behind an if": "if a:\n  b\nelse:\n  if c:\n    d\n  e\n",
    "loops": "for i, (j, k) in a, b:\n  continue\nelse:\n  c\nwhile a:\n  b\nelse:\n  c\n",
    "try": (
        "try:\n  a\nexcept (A, B) as e:\n  b\nexcept C: c\nexcept:\n  d\nelse:\n  e\n"
        "finally:\n  f\n"
    ),
    "with": (
        "with a as b, c(d) as (e, f):\n  g\nwith (a):\n  b\nwith (a) as b:\n  c\n"
        "with (a, b):\n  c\nwith (a as b, c as d,):\n  e\n"
    ),
    "functions": (
        "@a\n# why\n@b.c(1)\ndef f(a, /, b: int = 1, *c: str, d, e=2, **f) -> 'x':\n  return\n"
        "def g(*, a): yield\ndef h(a, b): return a, *b\ndef i(): pass\nasync def j(*a): await b\n"
    ),
    "classes": (
        "class A(B, *c, metaclass=D, **e):\n  x: int = 1\n\n@a\nclass F(G): pass\nclass H():\n  1\n"
    ),
    "async": (
        "async def f():\n  async for a in b:\n    c\n  async with a as b:\n    c\n"
        "  return [d async for d in e if await f]\n"
    ),
    "imports": (
        "import a, b.c as d\nfrom . import e\nfrom ..f.g import h as i, j\n"
        "from k import (\n  l,\n  m,\n)\nfrom n import *\n"
    ),
    "the rest": (
        "global a, b\ndel a\ndel a, b\ndel (a, b)\ndel (a)\ndel a,\nassert a, b\nassert (c)\n"
        "raise\nraise a from b\nraise (a)\ndef f():\n  nonlocal c\n  pass\n"
    ),
    "old keywords": "print(a)\nexec(b)\nmatch = case = type = 1\nmatch[a] = b\n",
}
EXPRESSIONS = {
    "names": "a, None, True, False, ..., __debug__",
    "numbers": "1, 0x_Ff, 1_000, 1.5e-3, .5, 2j, 1E5, 0b1, 0o7, -1, - 1",
    "strings": r"""'a', "b", r'\c', b'd', Rb"e", u'f', '''g
h''', '\'', "\\", '', "''", '''a'b''c'''""",
    "joined strings": "'a' 'b'\n  \"c\", ('d'\n  'e'), f'{a}' 'b', b'a' b'b'",
    "formatted": (
        "f'{a!r:>{b}} {c.d(e, k=1)[f]} {{g}}', f'''{\n  h\n}''', rf'{a:\\d}', (f'{b=}'),"
        " f\"{d['e']}\""
    ),
    "operators": "a + b - c * d / e // f % g ** h @ i << j >> k & l | m ^ n",
    "unary": "not a, ~b, +c, --d, not (e), (not f)",
    "comparisons": "a < b <= c == d != e > f >= g, a is b, a is not b, c in d, c not  in d",
    "booleans": "a and b and c or d or e and (f or g) and not h, (a or b) or c, a or (b or c)",
    "calls": (
        "f(), f(a), f(a, *b, c=d, *e, **g), f(a for a in b), f((a for a in b)),"
        " f(a, (b for b in c)), f(*(a)), f((a)), f((a), (b)), (f)(a), f(a)(b), f (a), f(a,),"
        " f(  a  ,  ), f(a := 1), f(a=(b)), f(a = b)"
    ),
    "calls over lines": (
        "f(\n  a,  # why, then\n  b=c,  # and\n  # a, line\n  *d\n  # the, end\n), g(a # b, c\n  )"
    ),
    "parentheses": (
        "(a), ((b)), ( c ), (\n d\n), ((e) + (f)), (a).b, ((a.b)).c, (a)[b], (a)(b), -(a), (-a)"
    ),
    "comments in tuples": "( # one\n a, b # two\n), f( # (\n c for d in e # )\n), (g, \\\n)",
    "comments in parentheses": "( # one\n a # two\n), (\n # three\n b), (c # four)\n)",
    "subscripts": (
        "a[b], a[b, c], a[(b, c)], a[(b), c], a[(b), (c)], a[b:c], a[::d, ...], a[b:c:d, e], a[()],"
        " a[b,], a[(b, c), d], a[((b, c), d)], a[(b for b in c)], a[:, None], a [b]"
    ),
    "tuples": "(), (a,), (a, b), ((a), (b)), ((a, b), c), (*a, b), ( a , b ), (\n a,\n b,\n)",
    "collections": "[], [a, *b], {a}, {a, *b}, {}, {a: b, **c, 'd': (e)}, [(a)], {(a): (b)}",
    "comprehensions": (
        "[a for b in c if d if e for f in g], {a for b in c}, {a: b for c in d}, (a for b in c)"
    ),
    "the rest": (
        "a if b else c, (a) if (b) else (c), lambda: a, lambda a, *b, c=1, **d: (e), (a := b),"
        " (lambda: b)()"
    ),
    "continued": "a + \\\n b, f( \\\n c \\\n), d . \\\n e . f",
    "not ASCII": "'ä' + ä.ö(ü, 'ß', é=1) + '\U0001f600' + x, f'{ä}é{x}' + y",
}


def _texts() -> list[Any]:
    texts = [pytest.param(text, id=name) for name, text in STATEMENTS.items()]
    for name, code in EXPRESSIONS.items():
        texts.append(pytest.param(f"x = ({code})\n", id=f"{name}, in parentheses"))
        inside = "\n".join(f"    {line}" for line in f"f({code})".splitlines())
        texts.append(pytest.param(f"def g():\n{inside}\n", id=f"{name}, as arguments"))
        if "\n" not in code:
            texts.append(pytest.param(f"{code}\n", id=f"{name}, in a line"))
    return texts


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("text", _texts())
def test_the_trees_are_the_same(text, newline):
    counts: collections.Counter[str] = collections.Counter()
    assert list(TREES.differences(text.replace("\n", newline), counts)) == []
    assert counts["places"] > 3


@pytest.mark.parametrize("text", _texts())
def test_lines_of_old_macintoshes_have_the_same_places(text):
    """That libcst does not give these texts back, is no trouble to those who only read them."""
    first, second = Module(text), Module(text.replace("\n", "\r"))
    assert first.spans is not None
    assert second.spans is not None
    for one, other in zip(first.index.nodes, second.index.nodes, strict=True):
        assert first.spans.span(one) == second.spans.span(other)
        assert first.spans.full(one) == second.spans.full(other)


@pytest.mark.uncounted
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_trees_of_real_files_are_the_same(path):
    counts: collections.Counter[str] = collections.Counter()
    assert list(TREES.differences(path.read_text("utf-8"), counts)) == []
    assert counts["places"] > counts["nodes"]  # most nodes have two


def test_the_script_tells_of_files_that_differ(tmp_path, monkeypatch, capsys):
    (tmp_path / "one.py").write_text("f(a, b)\n")
    (tmp_path / "two.py").write_text("print 1\n")
    (tmp_path / "three.txt").write_text("f(\n")
    assert TREES.main([str(tmp_path)]) == 0
    assert "2 files" in capsys.readouterr().out
    monkeypatch.setattr(TREES, "_told", lambda node: (type(node), id(node)))
    assert TREES.main([str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "one.py: node 0: " in said
    assert "1 differences" in said
    assert "1 not compared: libcst does not read it" in said


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("match a:\n    case b:\n        c\n", id="match"),
        pytest.param("def f[T](a): pass\n", id="parameters of types"),
        pytest.param("class A[T]: pass\n", id="of classes"),
        pytest.param("type A = int\n", id="named types"),
        pytest.param("a[( # why\n b), c]\n", id="a comment where parentheses are asked for"),
    ],
)
def test_what_libcst_alone_reads_is_read_by_libcst(text):
    module = Module(text)
    assert module.spans is None
    assert module.concrete.module is module.tree
    assert module.tree.code == text


def test_what_neither_reads_is_an_error_of_libcst():
    with pytest.raises(cst.ParserSyntaxError):
        Module("f(\n")


@pytest.mark.parametrize(
    "name", ["lpar", "rpar", "whitespace_after_func", "whitespace_before_args"]
)
def test_layout_is_not_there_to_be_asked_for(name):
    module = Module("f( a )\n")
    (found,) = module.index.of(cst.Call)
    with pytest.raises(AttributeError, match=name):
        getattr(found, name)
    assert getattr(module.concrete.of(found), name) is not None


def test_a_name_is_what_python_makes_of_it():
    module = Module("x.\ufb01t(1)\n")
    assert [name.value for name in module.index.of(cst.Name)] == ["x", "fit"]
    assert [module.code(name) for name in module.index.of(cst.Name)] == ["x", "\ufb01t"]


def test_a_call_that_stands_nowhere():
    module = Module("f(a, b)\n")
    (found,) = module.index.of(cst.Call)
    made = call(found.func, found.args[1:])
    assert module.code(made.args[0].value) == "b"
    assert module.index.place(made) is None


def test_a_deep_text_is_left_to_libcst():
    assert read("x = " + "(" * 250 + ")" * 250 + "\n") is None


def test_places_that_are_told_without_libcst(monkeypatch):
    monkeypatch.setattr(module_of_text, "Concrete", None)  # nobody may ask it
    text = (
        "import a as b\nfor c in d(e, f=g)[0]:\n  try: h.i\n  except J: pass\n"
        "  if k: l\n  elif m: f'{n.o(p=q)}'\n@r\nclass S(T):\n  def u(self): return -v, [w]\n"
    )
    module = Module(text)
    told = {
        text[span.start : span.end].partition("\n")[0]
        for node in module.index.nodes
        if module.spans is not None and (span := module.spans.span(node)) is not None
    }
    assert told >= {
        "import a as b", "a as b", "for c in d(e, f=g)[0]:", "d(e, f=g)[0]", "e", "f=g", "g", "i",
        "try: h.i", "except J: pass", "if k: l", "elif m: f'{n.o(p=q)}'", "n.o(p=q)", "p=q", "o",
        "class S(T):", "def u(self): return -v, [w]", "return -v, [w]", "-v, [w]", "-v", "[w]",
    }  # fmt: skip
    (made,) = module.index.of(cst.ClassDef)
    assert module.code(made).startswith("@r\nclass S(T):\n")


LEAN = """
import sys
sys.path[:0] = {path!r}
from torchlint.syntax.lean import import_libcst
import_libcst()
import libcst as cst
from torchlint.syntax.module import Module
module = Module("class A(B):\\n    x = f(a, *b, c=(d))\\n")
for node in module.index.nodes:
    print(type(node).__name__, end=" ")
(found,) = module.index.of(cst.Call)
print(module.code(found), hasattr(found, "lpar"))
"""


def test_nodes_are_the_same_where_libcst_is_imported_to_parse_alone():
    code = LEAN.format(path=[p for p in sys.path if p])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    module = Module("class A(B):\n    x = f(a, *b, c=(d))\n")
    names = " ".join(type(node).__name__ for node in module.index.nodes)
    assert done.stdout == f"{names} f(a, *b, c=(d)) False\n"


def test_no_warning_of_a_text_is_shown(recwarn):
    reader = read("x = '\\d'\ny = 1if x else 2\n")
    assert reader is not None
    assert len(Index(reader.module).nodes) > 5
    assert not recwarn.list


def test_what_is_too_deep_for_python_is_left_to_libcst():
    """Python's parser takes it, and what tells of its tree goes deeper than the stack allows."""
    assert read("x = " + "-" * 2000 + "1\n") is None


def test_the_place_of_an_expression_below_a_comment_is_told():
    module = Module("# (\nf(a)\nx = (  # (\n  b)\n")
    assert module.spans is not None
    assert module.spans.full(module.index.of(cst.Call)[0]) is not None
    b = module.index.named["b"][0]
    assert module.spans.full(b) is None  # the parenthesis may be part of the comment
    assert module.code(b) == "(  # (\n  b)"
