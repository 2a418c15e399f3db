from __future__ import annotations

import threading

import libcst as cst
import pytest
from engine_tools import code, node, nodes

from torchlint.errors import InternalError
from torchlint.linter import with_deep_stack
from torchlint.syntax.module import Module
from torchlint.syntax.places import Concrete, Places
from torchlint.syntax.text import Span

TEXT = '''\
# head
import torch


# about f
@deco(1)
def f(a, b=(2)):
    """Doc."""
    if a:  # why
        x = (  a + b )  # sum
    elif b: y = 1; z = 2
    else:
        g(a, b=b,)
    return [x, y]


x = 1
x = 1
for i in range(3):
\tx += i
'''


def span_text(text: str, kind: type[cst.CSTNode], code: str | None = None) -> tuple[str, str]:
    module = Module(text)
    found = node(module, kind, code)
    places = Places(module)
    span = places.span(found)
    return text[span.start : span.end], places.code(found)


@pytest.mark.parametrize(
    ("kind", "code", "span", "full"),
    [
        pytest.param(cst.BinaryOperation, None, "a + b", "(  a + b )", id="parentheses"),
        pytest.param(cst.Arg, "b=b,", "b=b", "b=b,", id="an argument owns its comma"),
        pytest.param(cst.Call, "range(3)", "range(3)", "range(3)", id="call"),
        pytest.param(
            cst.For,
            None,
            "for i in range(3):\n\tx += i",
            "for i in range(3):\n\tx += i\n",
            id="block",
        ),
        pytest.param(cst.Return, None, "return [x, y]", "return [x, y]", id="small statement"),
        pytest.param(cst.Else, None, "else:\n        g(a, b=b,)", None, id="clause"),
        pytest.param(cst.Module, None, TEXT, TEXT, id="module"),
    ],
)
def test_span_and_full(kind, code, span, full):
    found = span_text(TEXT, kind, code)
    assert found[0] == span
    assert full is None or found[1] == full


def test_every_node_stands_where_its_code_says():
    module = Module(TEXT)
    every = [n for n in nodes(module, cst.CSTNode) if not isinstance(n, cst.Module)]
    places = Places(module)
    for found in nodes(module, cst.BaseExpression):
        assert places.code(found) == code(module, found)
    assert all(places.full(n).start <= places.span(n).start for n in every)
    assert all(places.span(n).end <= places.full(n).end for n in every)


def test_statements_with_the_same_text_are_told_apart():
    module = Module(TEXT)
    first, second = (
        line
        for line in module.tree.body
        if isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Assign)
    )
    places = Places(module)
    start = TEXT.index("x = 1\nx = 1\n")
    assert places.span(first) == Span(start, start + 5)
    assert places.span(second) == Span(start + 6, start + 11)


@pytest.mark.parametrize("text", ["x = 1", "a\nx = 1", "x = 1  # c", "if a:\n    x = 1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_no_newline_at_the_end(text, newline):
    text = text.replace("\n", newline)
    module = Module(text)
    found = node(module, cst.Assign)
    span = Places(module).span(found)
    assert text[span.start : span.end] == "x = 1"


def test_a_node_of_another_tree_is_an_internal_error():
    module = Module("x = 1\n")
    stranger = cst.Name("y")
    places = Places(module)
    with pytest.raises(InternalError, match=r"place of a Name is unknown; .*report"):
        places.span(stranger)


def test_a_tree_that_does_not_give_the_text_back_is_an_internal_error():
    module = Module("x = 1\n")
    concrete = Concrete(module.text, module.index, is_own=False)
    concrete.module = concrete.module.with_changes(header=[cst.EmptyLine()])
    with pytest.raises(InternalError, match="does not give the text"):
        concrete.places(node(module, cst.AssignTarget))


def test_a_chain_as_long_as_the_limit_is_placed():
    with_deep_stack(lambda: None)
    before = threading.active_count()
    text = "x = a" + ".b" * 900 + "\n"
    found: list[Span] = []

    def work() -> None:
        module = Module(text)
        value = node(module, cst.Assign).value
        found.append(Places(module).span(value))

    with_deep_stack(work)
    assert found == [Span(4, len(text) - 1)]
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("kind", "code", "lines"),
    [
        pytest.param(cst.Call, "range(3)", "for i in range(3):", id="header of a loop"),
        pytest.param(cst.Call, "deco(1)", "@deco(1)\ndef f(a, b=(2)):", id="decorator"),
        pytest.param(cst.Name, "z", "z = 2", id="one of two on a line"),
        pytest.param(cst.Else, None, "else:", id="clause"),
        pytest.param(cst.List, None, "return [x, y]", id="expression"),
    ],
)
def test_holder(kind, code, lines):
    module = Module(TEXT)
    span = Places(module).lines(node(module, kind, code))
    assert TEXT[span.start : span.end] == lines


def test_holder_in_a_match():
    text = "match f(1):\n    case g(x=1) if h(2):\n        pass\n"
    module = Module(text)
    for wanted, lines in (("f(1)", "match f(1):"), ("h(2)", "case g(x=1) if h(2):")):
        span = Places(module).lines(node(module, cst.Call, wanted))
        assert text[span.start : span.end] == lines
