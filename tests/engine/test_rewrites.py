from __future__ import annotations

from textwrap import dedent

import libcst as cst
import pytest
from engine_tools import code, node, nodes, rewritten

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.resolve import resolve
from torchlint.edits.rewrites import (
    AddArgument,
    AddDecorator,
    AddImport,
    DeleteStatement,
    DropMethod,
    InsertAfter,
    InsertBefore,
    PrependArgument,
    RemoveArgument,
    Replace,
    ReplaceArgument,
    Unplaceable,
    Wrap,
)
from torchlint.syntax.module import Module
from torchlint.syntax.places import Places
from torchlint.syntax.text import overlap

LONG = "a" * 40


def first_call(module: Module) -> cst.Call:
    return node(module, cst.Call)


def pin(module: Module) -> AddArgument:
    return AddArgument(first_call(module), "pin", "True")


def workers(module: Module) -> AddArgument:
    return AddArgument(first_call(module), "n", "2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f()", "f(pin=True, n=2)", id="no arguments"),
        pytest.param("f(\n)", "f(\n    pin=True,\n    n=2,\n)", id="no arguments, two lines"),
        pytest.param(
            "f(\n    # why\n)", "f(\n    # why\n    pin=True,\n    n=2,\n)", id="only a comment"
        ),
        pytest.param("f(a)", "f(a, pin=True, n=2)", id="one line"),
        pytest.param("f(a,)", "f(a, pin=True, n=2,)", id="one line, trailing comma"),
        pytest.param("f(a, b = 1)", "f(a, b = 1, pin = True, n = 2)", id="blanks around equals"),
        pytest.param("f(a, b= 1)", "f(a, b= 1, pin=True, n=2)", id="a blank behind equals"),
        pytest.param("f(a, b =1)", "f(a, b =1, pin=True, n=2)", id="a blank before equals"),
        pytest.param("f(a,b)", "f(a,b,pin=True,n=2)", id="no blanks after commas"),
        pytest.param("f((x for x in y))", "f((x for x in y), pin=True, n=2)", id="generator"),
        pytest.param("f(x for x in y)", "f((x for x in y), pin=True, n=2)", id="bare generator"),
        pytest.param(
            "f(\n    x\n    for x in y\n)",
            "f(\n    (x\n    for x in y), pin=True, n=2\n)",
            id="bare generator, lines",
        ),
        pytest.param("f(*a)", "f(*a, pin=True, n=2)", id="star"),
        pytest.param("f(**kw)", "f(pin=True, n=2, **kw)", id="only double star"),
        pytest.param("f(a, **kw)", "f(a, pin=True, n=2, **kw)", id="before double star"),
        pytest.param(
            "f(\n    **kw,\n)",
            "f(\n    pin=True,\n    n=2,\n    **kw,\n)",
            id="double star on a line",
        ),
        pytest.param(
            "f(\n    a,\n    b=1,  # c\n    **kw,\n)",
            "f(\n    a,\n    b=1,  # c\n    pin=True,\n    n=2,\n    **kw,\n)",
            id="one a line, comment, double star",
        ),
        pytest.param(
            "f(\n    a,\n    b  # c\n)",
            "f(\n    a,\n    b,  # c\n    pin=True,\n    n=2\n)",
            id="one a line, comment, no trailing comma",
        ),
        pytest.param(
            "f(\n    a,\n    b  # c, d\n)",
            "f(\n    a,\n    b,  # c, d\n    pin=True,\n    n=2\n)",
            id="one a line, comment with a comma",
        ),
        pytest.param(
            "f(\n    a,\n    b=1,  # c\n)",
            "f(\n    a,\n    b=1,  # c\n    pin=True,\n    n=2,\n)",
            id="one a line, comment, trailing comma",
        ),
        pytest.param(
            "f(a,\n  b)",
            "f(a,\n  b,\n  pin=True,\n  n=2)",
            id="one a line, first beside the bracket",
        ),
        pytest.param(
            "f(a,\n  b,)", "f(a,\n  b,\n  pin=True,\n  n=2,)", id="one a line, comma and bracket"
        ),
        pytest.param("f(a, b,\n  c)", "f(a, b,\n  c, pin=True, n=2)", id="filled lines"),
        pytest.param(
            f"f({LONG},\n  {LONG}, {LONG}, c)",
            f"f({LONG},\n  {LONG}, {LONG}, c,\n  pin=True,\n  n=2)",
            id="filled lines, too long",
        ),
        pytest.param("f(\n    a, b\n)", "f(\n    a, b, pin=True, n=2\n)", id="hugging"),
        pytest.param(
            "f(\n  a\n  ,\n)", "f(\n  a\n  ,\n  pin=True,\n  n=2,\n)", id="comma on its own line"
        ),
        pytest.param(
            "f(\r\n\ta,\r\n)", "f(\r\n\ta,\r\n\tpin=True,\r\n\tn=2,\r\n)", id="tabs and CRLF"
        ),
        pytest.param("f(g(a), (b))", "f(g(a), (b), pin=True, n=2)", id="brackets inside"),
    ],
)
def test_add_arguments(before, after):
    assert rewritten(before, pin, workers) == after
    assert rewritten(f"x = {before}  # end\n", pin, workers).count("\n") >= 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f"if a:\n    x = f({LONG}, bb, {LONG})\n",
            f"if a:\n    x = f(\n        {LONG},\n        bb,\n        {LONG},\n"
            "        pin=True,\n        n=2,\n    )\n",
            id="a line, too long",
        ),
        pytest.param(
            f"x = f({LONG}, {LONG})  # c",
            f"x = f(\n    {LONG},\n    {LONG},\n    pin=True,\n    n=2,\n)  # c",
            id="a line, too long, comment behind it",
        ),
        pytest.param(
            f"x = -f({LONG}, {LONG})",
            f"x = -f({LONG}, {LONG}, pin=True, n=2)",
            id="too long, part of a statement",
        ),
        pytest.param(
            f"x = f({LONG}, {LONG},)",
            f"x = f({LONG}, {LONG}, pin=True, n=2,)",
            id="too long, with a comma behind the last",
        ),
    ],
)
def test_a_call_that_gets_too_long_is_taken_apart(before, after):
    assert rewritten(before, pin, workers) == after


def device(module: Module) -> PrependArgument:
    return PrependArgument(first_call(module), '"cuda"', ("enabled", "dtype"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f()", 'f("cuda")', id="no arguments"),
        pytest.param("f(a)", 'f("cuda", enabled=a)', id="one by place"),
        pytest.param("f(a, b)", 'f("cuda", enabled=a, dtype=b)', id="two by place"),
        pytest.param("f(a, k = b)", 'f("cuda", enabled = a, k = b)', id="blanks around equals"),
        pytest.param("f(k=b)", 'f("cuda", k=b)', id="by keyword"),
        pytest.param("f(**kw)", 'f("cuda", **kw)', id="double star"),
        pytest.param("f(a, **kw)", 'f("cuda", enabled=a, **kw)', id="by place and double star"),
        pytest.param(
            "f(\n    a,  # why\n    b,\n)",
            'f(\n    "cuda",\n    enabled=a,  # why\n    dtype=b,\n)',
            id="one a line",
        ),
        pytest.param(
            "f(\n    # why\n    a, b\n)",
            'f(\n    # why\n    "cuda", enabled=a, dtype=b\n)',
            id="hugging",
        ),
    ],
)
def test_prepend_an_argument(before, after):
    assert rewritten(before, device) == after


@pytest.mark.parametrize("before", ["f(*a)", "f(a, b, c)", "f(x for x in y)"])
def test_arguments_without_a_keyword_to_go_by_are_left(before):
    with pytest.raises(Unplaceable):
        rewritten(before, device)


def test_an_argument_that_is_there_is_not_added():
    with pytest.raises(Unplaceable, match="already"):
        rewritten("f(pin=False)\n", pin)


@pytest.mark.parametrize(
    ("before", "at", "after"),
    [
        pytest.param("f(a)", 0, "f()", id="only one"),
        pytest.param("f(a,)", 0, "f()", id="only one, comma"),
        pytest.param("f(a, b=1)", 0, "f(b=1)", id="first"),
        pytest.param("f(a, b=1)", 1, "f(a)", id="last"),
        pytest.param("f(a, b=1,)", 1, "f(a,)", id="last, comma"),
        pytest.param("f(a, b, c)", 1, "f(a, c)", id="middle"),
        pytest.param("f(a,\n  b)", 1, "f(a)", id="last line"),
        pytest.param("f(a,\n  b)", 0, "f(b)", id="first of two lines"),
        pytest.param("f(a,  # c\n  b)", 0, "f(# c\n  b)", id="the comment beside it stays"),
        pytest.param("f(a,  # c\n  b)", 1, "f(a,  # c\n)", id="the comment above it stays"),
        pytest.param("f(\n    a,\n    b,\n    c,\n)", 1, "f(\n    a,\n    c,\n)", id="own line"),
        pytest.param("f(\n    a,\n    b\n)", 1, "f(\n    a,\n)", id="own line, last"),
        pytest.param(
            "f(\n    a,\n    b,  # c\n)", 1, "f(\n    a,\n    # c\n)", id="its comment gets a line"
        ),
        pytest.param("f(\n    a,\n    *b  # c\n)", 1, "f(\n    a,\n    # c\n)", id="no comma"),
    ],
)
def test_remove_argument(before, at, after):
    def remove(module: Module) -> RemoveArgument:
        return RemoveArgument(first_call(module), first_call(module).args[at])

    assert rewritten(before, remove) == after


@pytest.mark.parametrize("code", ["f(a, b=[1,  # c\n 2])", "f(a, b  # c\n , d)"])
def test_an_argument_with_a_comment_inside_stays(code):
    with pytest.raises(Unplaceable, match="comment"):
        rewritten(code, lambda p: RemoveArgument(first_call(p), first_call(p).args[1]))


@pytest.mark.parametrize(
    ("before", "at", "after"),
    [
        pytest.param("f(a, b)", 1, "f(a, k=v)", id="by place"),
        pytest.param("f(k=a, b=c)", 0, "f(k=v, b=c)", id="by keyword"),
        pytest.param("f(a, b = c,)", 1, "f(a, k = v,)", id="blanks around equals"),
        pytest.param("f(\n    a,  # c\n)", 0, "f(\n    k=v,  # c\n)", id="a comment"),
        pytest.param("f((a), b=c)", 0, "f(k=v, b=c)", id="parentheses"),
    ],
)
def test_replace_argument(before, at, after):
    def replace(module: Module) -> ReplaceArgument:
        return ReplaceArgument(first_call(module), first_call(module).args[at], "k", "v")

    assert rewritten(before, replace) == after


def test_an_argument_with_a_comment_inside_is_not_replaced():
    with pytest.raises(Unplaceable, match="comment"):
        rewritten(
            "f([1,  # c\n 2])",
            lambda p: ReplaceArgument(first_call(p), first_call(p).args[0], "k", "v"),
        )


def inserted(text: str, how: type, kind: type[cst.CSTNode], *codes: str, at: int = 0) -> str:
    return rewritten(text, *(lambda p, code=code: how(nodes(p, kind)[at], code) for code in codes))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("for x in y:\n    a\n", "for x in y:\n    a\nn1\nn2\n", id="block"),
        pytest.param("for x in y:\n    a", "for x in y:\n    a\nn1\nn2", id="end without newline"),
        pytest.param(
            "for x in y:\r\n    a\r\nb\r\n", "for x in y:\r\n    a\r\nn1\r\nn2\r\nb\r\n", id="CRLF"
        ),
        pytest.param("for x in y: a\nb\n", "for x in y: a\nn1\nn2\nb\n", id="one line"),
        pytest.param(
            "for x in y:\n    a\nelse:\n    c\nb\n",
            "for x in y:\n    a\nelse:\n    c\nn1\nn2\nb\n",
            id="with else",
        ),
        pytest.param(
            "def f():\n\tfor x in y:\n\t\ta\n\t\t# tail\n\n\t# next\n\tb\n",
            "def f():\n\tfor x in y:\n\t\ta\n\t\t# tail\n\tn1\n\tn2\n\n\t# next\n\tb\n",
            id="comments of the block stay in it",
        ),
        pytest.param(
            "for x in y:\n    a\n\n    # tail",
            "for x in y:\n    a\n\n    # tail\nn1\nn2",
            id="tail at end",
        ),
    ],
)
def test_insert_after_a_loop(before, after):
    assert inserted(before, InsertAfter, cst.For, "n1", "n2") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a  # c\nb\n", "a  # c\nif n:\n    m\nb\n", id="comment"),
        pytest.param("a;  # c\nb\n", "a;  # c\nif n:\n    m\nb\n", id="semicolon"),
        pytest.param("a\\\n+ b\nc\n", "a\\\n+ b\nif n:\n    m\nc\n", id="two lines"),
        pytest.param("a; b\nc", "a; b\nif n:\n    m\nc", id="two on the line"),
    ],
)
def test_insert_after_a_line(before, after):
    assert inserted(before, InsertAfter, cst.SimpleStatementLine, "if n:\n    m") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\nb\n", "a\n\nn\nb\n", id="a line"),
        pytest.param("a\r\n\r\nb\r\n", "a\r\n\r\nn\r\n\r\nb\r\n", id="newlines"),
        pytest.param("a", "a\n\nn", id="the last line of the file"),
    ],
)
def test_insert_apart(before, after):
    def put(module: Module) -> InsertAfter:
        return InsertAfter(node(module, cst.SimpleStatementLine), "n", apart=True)

    assert rewritten(before, put) == after


@pytest.mark.parametrize(
    ("before", "kind", "after"),
    [
        pytest.param("for x in y: a\n", cst.For, "n\nfor x in y: a\n", id="first"),
        pytest.param(
            "z\n\n# section\n\n# about\nfor x in y: a\n",
            cst.For,
            "z\n\n# section\n\nn\n# about\nfor x in y: a\n",
            id="above the comment about it",
        ),
        pytest.param(
            "#!/bin/sh\n# licence\n\nfor x in y: a\n",
            cst.For,
            "#!/bin/sh\n# licence\n\nn\nfor x in y: a\n",
            id="below the head",
        ),
        pytest.param("# head\nx\n", cst.SimpleStatementLine, "# head\nn\nx\n", id="head beside it"),
        pytest.param(
            "class A:\n    # c\n    @d\n    # e\n    def f(self): pass\n",
            cst.FunctionDef,
            "class A:\n    n\n    # c\n    @d\n    # e\n    def f(self): pass\n",
            id="above the decorator",
        ),
        pytest.param(
            "z\r\n# c\r\nfor x in y: a", cst.For, "z\r\nn\r\n# c\r\nfor x in y: a", id="CRLF"
        ),
    ],
)
def test_insert_before(before, kind, after):
    assert inserted(before, InsertBefore, kind, "n") == after


@pytest.mark.parametrize("how", [InsertBefore, InsertAfter])
@pytest.mark.parametrize(
    ("text", "kind", "at"),
    [
        pytest.param("if x: a\n", cst.Expr, 0, id="behind a colon"),
        pytest.param("a; b; c\n", cst.Expr, 1, id="between semicolons"),
        pytest.param("if x:\n    a\nelif y:\n    b\n", cst.If, 1, id="elif"),
        pytest.param("if x: \\\n  a\n", cst.Expr, 0, id="behind a backslash"),
    ],
)
def test_nothing_is_inserted_into_a_line(how, text, kind, at):
    with pytest.raises(Unplaceable):
        inserted(text, how, kind, "n", at=at)


def test_nothing_is_inserted_after_the_first_of_two():
    with pytest.raises(Unplaceable, match="follows"):
        inserted("a; b\n", InsertAfter, cst.Expr, "n")


@pytest.mark.parametrize(
    ("before", "kind", "at", "after"),
    [
        pytest.param("a\nb\n", cst.SimpleStatementLine, 0, "b\n", id="line"),
        pytest.param("a\nb\n", cst.Expr, 1, "a\n", id="small statement"),
        pytest.param("a\nb", cst.Expr, 1, "a", id="last line without newline"),
        pytest.param("a\r\nb", cst.Expr, 1, "a", id="last line without newline, CRLF"),
        pytest.param("a", cst.Expr, 0, "", id="the whole file"),
        pytest.param("if x:\n    a  # c\n", cst.Expr, 0, "if x:\n    pass  # c\n", id="only one"),
        pytest.param(
            "if x:\n    a  # c\n    b\n", cst.Expr, 0, "if x:\n    # c\n    b\n", id="comment"
        ),
        pytest.param("if x: a\n", cst.Expr, 0, "if x: pass\n", id="behind a colon"),
        pytest.param("if x: a; b\n", cst.Expr, 0, "if x: b\n", id="first of two"),
        pytest.param("if x: a; b\n", cst.Expr, 1, "if x: a\n", id="second of two"),
        pytest.param("a; b; c  # d\n", cst.Expr, 1, "a; c  # d\n", id="second of three"),
        pytest.param("a; b\nc\n", cst.SimpleStatementLine, 0, "c\n", id="a line of two"),
        pytest.param("a;\nb\n", cst.Expr, 0, "b\n", id="semicolon"),
        pytest.param(
            "# up\nf(1,\n2)\nx\n", cst.SimpleStatementLine, 0, "# up\nx\n", id="two lines"
        ),
        pytest.param("x\nfor a in b:\n    c\ny\n", cst.For, 0, "x\ny\n", id="block"),
        pytest.param("@d\ndef f():\n    pass\nx\n", cst.FunctionDef, 0, "x\n", id="decorated"),
        pytest.param(
            "def f():\n    for a in b:\n        c\ny\n",
            cst.For,
            0,
            "def f():\n    pass\ny\n",
            id="only block",
        ),
    ],
)
def test_delete(before, kind, at, after):
    assert rewritten(before, lambda p: DeleteStatement(nodes(p, kind)[at])) == after


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("f(1,  # c\n2)\nx\n", cst.Expr, id="in brackets"),
        pytest.param("@d\n# c\ndef f(): pass\nx\n", cst.FunctionDef, id="below a decorator"),
    ],
)
def test_a_statement_with_a_comment_inside_is_not_deleted(text, kind):
    with pytest.raises(Unplaceable, match="comment"):
        rewritten(text, lambda p: DeleteStatement(node(p, kind)))


def wrapped(text: str, kind: type[cst.CSTNode], at: int | None = None) -> str:
    """The text with statements of a kind wrapped: one, or all but those named ``keep``."""

    def wrap(module: Module) -> Wrap:
        found = [n for n in nodes(module, kind) if "keep" not in code(module, n)]
        return Wrap(tuple(found if at is None else [found[at]]), "with a:")

    return rewritten(text, wrap)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("b\nc\nkeep\n", "with a:\n    b\n    c\nkeep\n", id="two lines"),
        pytest.param("b\n\nc\n", "with a:\n    b\n\n    c\n", id="a blank line stays blank"),
        pytest.param("b\r\nc", "with a:\r\n    b\r\n    c", id="CRLF, no newline at the end"),
        pytest.param(
            "keep\n\n# b\nb  # 1\n# c\nc\n# d\nkeep\n",
            "keep\n\nwith a:\n    # b\n    b  # 1\n    # c\n    c\n# d\nkeep\n",
            id="comments",
        ),
        pytest.param(
            "keep\n# b\nb\n\nc\n",
            "keep\nwith a:\n    # b\n    b\n\n    c\n",
            id="a comment about the first",
        ),
        pytest.param(
            "b = f(\n  1,\n)\nc = \\\n2\n",
            "with a:\n    b = f(\n      1,\n    )\n    c = \\\n    2\n",
            id="over several lines",
        ),
        pytest.param(
            "b = '''1\n2 # 3\n''' + '''4\n5'''\nc = f'''{\n6}\n'''\n",
            "with a:\n    b = '''1\n2 # 3\n''' + '''4\n5'''\n    c = f'''{\n6}\n'''\n",
            id="strings keep their value",
        ),
        pytest.param("b = '1\\\n2'\nc\n", "with a:\n    b = '1\\\n2'\n    c\n", id="a long string"),
        pytest.param(
            "b = ('1'\n  '2')\nc\n", "with a:\n    b = ('1'\n      '2')\n    c\n", id="two strings"
        ),
        pytest.param("b; z\nc\n", "with a:\n    b; z\n    c\n", id="two on a line"),
    ],
)
def test_wrap_lines(before, after):
    assert wrapped(before, cst.SimpleStatementLine) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "for x in y:\n  b\n", "with a:\n  for x in y:\n    b\n", id="two blanks a step"
        ),
        pytest.param(
            "def f():\n\tfor x in y:\n\t\tb\n\t\t# tail\n\n\tc\n",
            "def f():\n\twith a:\n\t\tfor x in y:\n\t\t\tb\n\t\t\t# tail\n\n\tc\n",
            id="tabs, and a comment of the block",
        ),
        pytest.param(
            "def g():\n    pass\ndef f():\n  for x in y:\n    b\n",
            "def g():\n    pass\ndef f():\n  with a:\n    for x in y:\n      b\n",
            id="a function of its own style",
        ),
        pytest.param(
            "for x in y: b\nelse:\n    c\n",
            "with a:\n    for x in y: b\n    else:\n        c\n",
            id="one line and else",
        ),
    ],
)
def test_wrap_a_loop(before, after):
    assert wrapped(before, cst.For) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "if c:\n\tif d:\n\t  for x in y:\n\t    b\n",
            "if c:\n\tif d:\n\t  with a:\n\t    for x in y:\n\t      b\n",
            id="blanks after a tab",
        ),
        pytest.param(
            "if c:\n  if d:\n  \tfor x in y:\n  \t  b(1,\n2)\n  \t  # tail\n",
            "if c:\n  if d:\n  \twith a:\n  \t\tfor x in y:\n  \t\t  b(1,\n\t2)\n  \t\t  # tail\n",
            id="a tab after blanks",
        ),
    ],
)
def test_wrap_a_loop_that_tabs_and_blanks_indent(before, after):
    assert wrapped(before, cst.For) == after
    compile(after, "after.py", "exec")


def test_what_is_put_behind_a_wrapped_block_waits_for_the_next_pass():
    module = Module("for x in y:\n    b\nc\n")
    loop, line = nodes(module, cst.For)[0], nodes(module, cst.SimpleStatementLine)[0]
    wrap, insert = Wrap((loop,), "with a:"), InsertAfter(line, "d")
    places = Places(module)
    assert overlap(wrap.edits(places), insert.edits(places))


@pytest.mark.parametrize(
    ("text", "kind", "at"),
    [
        pytest.param("if x: a\n", cst.Expr, 0, id="behind a colon"),
        pytest.param("a; b\n", cst.Expr, 1, id="one of two on a line"),
        pytest.param("if x:\n    a\nelif y:\n    b\n", cst.If, 1, id="elif"),
    ],
)
def test_parts_of_lines_are_not_wrapped(text, kind, at):
    with pytest.raises(Unplaceable):
        wrapped(text, kind, at)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("def f(): pass\n", "@n\ndef f(): pass\n", id="first"),
        pytest.param(
            "x\n# about\n@d  # e\n# f\ndef f():\n    pass\n",
            "x\n# about\n@d  # e\n# f\n@n\ndef f():\n    pass\n",
            id="below the others",
        ),
        pytest.param(
            "class A:\r\n\tasync def f(self): pass",
            "class A:\r\n\t@n\r\n\tasync def f(self): pass",
            id="tabs and CRLF",
        ),
    ],
)
def test_add_decorator(before, after):
    assert rewritten(before, lambda p: AddDecorator(node(p, cst.FunctionDef), "@n")) == after


def loader(_: Module) -> AddImport:
    return AddImport("torch.utils.data", "DataLoader")


def torch(_: Module) -> AddImport:
    return AddImport("torch")


NEW = "from torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "import os\nimport torch\n\nx\n", f"import os\nimport torch\n{NEW}\nx\n", id="last"
        ),
        pytest.param("'''doc'''\nx\n", f"'''doc'''\n\n{NEW}import torch\nx\n", id="docstring"),
        pytest.param("# c\n\nx\n", f"# c\n\n{NEW}import torch\n\nx\n", id="no imports"),
        pytest.param(
            "from __future__ import annotations\nx\n",
            f"from __future__ import annotations\n{NEW}import torch\nx\n",
            id="future",
        ),
        pytest.param(
            "import os\nos.environ['a'] = 'b'\n\nimport torch\ntry:\n    import foo\n"
            "except ImportError:\n    foo = None\n",
            "import os\nos.environ['a'] = 'b'\n\nimport torch\n"
            f"{NEW}try:\n    import foo\nexcept ImportError:\n    foo = None\n",
            id="beside its own package, outside of try",
        ),
        pytest.param(
            "try:\n    import a\nexcept ImportError:\n    import b\nx\n",
            f"try:\n    import a\nexcept ImportError:\n    import b\n{NEW}import torch\nx\n",
            id="below try",
        ),
        pytest.param(
            "import a\nif x:\n    import b\nif y:\n    c\nfrom . import d\n",
            f"import a\n{NEW}import torch\nif x:\n    import b\nif y:\n    c\nfrom . import d\n",
            id="above if",
        ),
        pytest.param(
            "try:\n    import a\n    b = 1\nexcept ImportError:\n    b = 0\nfrom . import d\n",
            "try:\n    import a\n    b = 1\nexcept ImportError:\n    b = 0\nfrom . import d\n"
            f"{NEW}import torch\n",
            id="below try that does more",
        ),
        pytest.param(
            "from torch.utils.data import Dataset  # c\n",
            "from torch.utils.data import DataLoader, Dataset  # c\nimport torch\n",
            id="joined",
        ),
        pytest.param(
            "import torch\nfrom torch.utils.data import (Dataset)\n",
            f"import torch\nfrom torch.utils.data import (Dataset)\n{NEW}",
            id="names in brackets on a line",
        ),
        pytest.param(
            "import torch\nfrom torch.utils.data import (\n    Dataset,\n)\n",
            f"import torch\nfrom torch.utils.data import (\n    Dataset,\n)\n{NEW}",
            id="not joined to brackets",
        ),
        pytest.param(
            "import torch as t\nfrom torch.utils.data import *\nx",
            f"import torch as t\nfrom torch.utils.data import *\n{NEW}import torch\nx",
            id="alias and star",
        ),
        pytest.param("import torch", f"import torch\n{NEW.strip()}", id="no newline at the end"),
        pytest.param(
            "import torch.nn\nfrom torch.utils.data import Dataset, DataLoader\n",
            "import torch.nn\nfrom torch.utils.data import Dataset, DataLoader\n",
            id="there already",
        ),
        pytest.param(
            "from .torch.utils.data import DataLoader as D\nimport a; import b\nx\n",
            "from .torch.utils.data import DataLoader as D\nimport a; import b\n"
            f"{NEW}import torch\nx\n",
            id="a relative one is another",
        ),
        pytest.param(
            f"import torch\nfrom torch.utils.data import {LONG}, {LONG}\n",
            f"import torch\nfrom torch.utils.data import {LONG}, {LONG}\n{NEW}",
            id="not joined to a long line",
        ),
    ],
)
def test_add_imports(before, after):
    assert rewritten(before, loader, torch, torch) == after
    assert rewritten(after, loader, torch) == after


def standard(_: Module) -> AddImport:
    return AddImport("itertools")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "import gc\nimport time\n\nimport torch\n",
            "import gc\nimport itertools\nimport time\n\nimport torch\n",
            id="in the order of the alphabet",
        ),
        pytest.param(
            "import time\nfrom io import BytesIO\n\nimport torch\n",
            "import itertools\nimport time\nfrom io import BytesIO\n\nimport torch\n",
            id="before all of its kind",
        ),
        pytest.param(
            '"""Doc."""\n\nfrom __future__ import annotations\n\n# c\nimport torch\n',
            '"""Doc."""\n\nfrom __future__ import annotations\n\n'
            "import itertools\n\n# c\nimport torch\n",
            id="the first of its kind",
        ),
        pytest.param(
            "import os, gc  # c\n\nimport torch\n",
            "import itertools\nimport os, gc  # c\n\nimport torch\n",
            id="several on a line",
        ),
        pytest.param(
            "import os\r\nimport torch\r\n",
            "import itertools\r\nimport os\r\nimport torch\r\n",
            id="where kinds are mixed",
        ),
        pytest.param(
            "import itertools as it\nimport time\n",
            "import itertools\nimport itertools as it\nimport time\n",
            id="another name",
        ),
        pytest.param(
            "import torch\nx = 1\nimport time\n",
            "import itertools\n\nimport torch\nx = 1\nimport time\n",
            id="the first block",
        ),
    ],
)
def test_add_imports_of_the_standard_library(before, after):
    assert rewritten(before, standard) == after


def replaced(text: str, kind: type[cst.CSTNode], code: str, old: str | None = None) -> str:
    return rewritten(text, lambda p: Replace(node(p, kind, old), code))


@pytest.mark.parametrize(
    ("before", "kind", "code", "after"),
    [
        pytest.param("x = a.b() * 3", cst.Call, "c + d", "x = (c + d) * 3", id="operand"),
        pytest.param("x = (a.b())", cst.Call, "c + d", "x = (c + d)", id="has parentheses"),
        pytest.param("x = (a.b) * 3", cst.Attribute, "c + d", "x = (c + d) * 3", id="has some"),
        pytest.param("x = -a.b()", cst.Call, "1", "x = -1", id="number"),
        pytest.param("x = a.b().c", cst.Call, "1", "x = (1).c", id="number with attribute"),
        pytest.param("f(a.b)", cst.Attribute, "c if d else e", "f(c if d else e)", id="argument"),
        pytest.param("f(a.b)", cst.Attribute, "x := 1", "f((x := 1))", id="walrus"),
        pytest.param("f(a.b)", cst.Attribute, "1, 2", "f((1, 2))", id="tuple"),
        pytest.param("f(a.b)", cst.Attribute, "(1, 2)", "f((1, 2))", id="tuple with parentheses"),
        pytest.param("x = 1, 2", cst.Tuple, "3, 4", "x = 3, 4", id="tuple for a tuple"),
        pytest.param("x = a.b", cst.Attribute, "c +\nd", "x = (c +\nd)", id="two lines"),
        pytest.param("x += a", cst.AugAssign, "x = x + a", "x = x + a", id="statement"),
        pytest.param("print(f'{a.b}')", cst.Attribute, "c", "print(f'{c}')", id="f-string"),
        pytest.param(
            "x = f(1,  # c\n2)", cst.Call, "g(1,  # c\n2)", "x = g(1,  # c\n2)", id="comment"
        ),
    ],
)
def test_replace(before, kind, code, after):
    assert replaced(before, kind, code) == after


def test_replace_loses_no_comment():
    with pytest.raises(Unplaceable, match="comment"):
        replaced("x = f(1,  # c\n2)\n", cst.Call, "g(1)")


def test_no_quotes_are_put_into_an_f_string():
    with pytest.raises(Unplaceable, match="f-string"):
        replaced("print(f'{a.b}')\n", cst.Attribute, "c['d']")


@pytest.mark.parametrize(
    "second", [pytest.param("c", id="the same node twice"), pytest.param(None, id="a node inside")]
)
def test_rewrites_in_each_others_way_are_an_error(second):
    module = Module("x = f(a.b)\n")
    inner = node(module, cst.Attribute)
    other = Replace(inner, second) if second else Replace(first_call(module), "g()")
    fix = Fix("change it", Safety.SAFE, (Replace(inner, "d"), other))
    places = Places(module)
    with pytest.raises(ValueError, match="rewrites"):
        resolve(fix, places)


def test_every_rewrite_can_stand_alone():
    text = dedent("""\
        import torch
        x = f(a)
        """)
    module = Module(text)
    call = first_call(module)
    for one in (
        AddArgument(call, "b", "1"),
        RemoveArgument(call, call.args[0]),
        AddImport("os"),
    ):
        places = Places(module)
        assert len(one.edits(places)) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("y = f(x).g(1)", "y = f(x, pin=True)", id="one line"),
        pytest.param("y = (f(x)).g(1)", "y = (f(x, pin=True))", id="brackets stay"),
        pytest.param("y = (f(x)\n     .g(\n    1))", "y = (f(x, pin=True))", id="several lines"),
        pytest.param("y = f(x).g(1).h()", "y = f(x, pin=True).h()", id="more behind it"),
        pytest.param("y = f(x).g(1)  # c", "y = f(x, pin=True)  # c", id="a comment behind it"),
    ],
)
def test_a_method_goes(before, after):
    assert rewritten(before, lambda p: DropMethod(called(p, "g")), argument) == after


def test_a_comment_before_a_method_stays():
    with pytest.raises(Unplaceable, match="comment"):
        rewritten("y = (f(x)  # c\n     .g(1))", lambda p: DropMethod(called(p, "g")))


def called(module: Module, name: str) -> cst.Call:
    calls = nodes(module, cst.Call)
    return next(c for c in calls if module.code(c.func).rpartition(".")[2] == name)


def argument(module: Module) -> AddArgument:
    return AddArgument(called(module, "f"), "pin", "True")
