"""Which ``return`` a call reaches, by the constants that it passes."""

from __future__ import annotations

import textwrap

import pytest
from probing import parsed

from torchlint.analysis.reached_returns import may_reach


def reached(body: str, call: str, head: str = "mode, both=False, *rest, k=1") -> list[str]:
    """Return what a function of this body may return to a call of ``f``."""
    indented = textwrap.indent(textwrap.dedent(body), "    ")
    program = parsed(f"def f({head}):\n{indented}\n{call}\n")
    (function,) = program.index.of(type(program.module.body[0]))
    site = program.calls.by_name("f")[-1]
    return [
        program.code(one.value)
        for one in program.returns(function)
        if one.value is not None and may_reach(program, function, site, one)
    ]


CHAIN = """
if mode == 'train':
    return a
elif mode in ('test', 'val'):
    if both:
        return b, c
    return b
elif mode is None:
    return d
return e
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        pytest.param("f(mode)", "a b d e", id="a variable, and a default"),
        pytest.param("f(*modes)", "a b,c b d e", id="a star"),
        pytest.param("f('test', *more)", "b,c b", id="a star behind it"),
        pytest.param("f('test', **more)", "b,c b", id="two stars"),
        pytest.param("f('train')", "a", id="the first branch"),
        pytest.param("f('test')", "b", id="a default"),
        pytest.param("f(both=True, mode='val')", "b,c", id="by name"),
        pytest.param("f('test', both=1)", "b,c", id="a number"),
        pytest.param("f('test', flag)", "b,c b", id="one of two is not known"),
        pytest.param("f(None)", "d", id="None"),
        pytest.param("f('other')", "e", id="none of the branches"),
    ],
)
def test_what_a_call_gets(call, found):
    assert [one.replace(" ", "") for one in reached(CHAIN, call)] == found.split()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param("mode = pick(mode)\nif mode == 'a': return a\nreturn b", "a b", id="rebound"),
        pytest.param("if mode == other: return a\nreturn b", "a b", id="no constant"),
        pytest.param("if mode < 'a': return a\nreturn b", "a b", id="another comparison"),
        pytest.param("if mode.lower() == 'a': return a\nreturn b", "a b", id="a call"),
        pytest.param("if mode in modes: return a\nreturn b", "a b", id="one of those unknown"),
        pytest.param("if mode in (x, 'a'): return a\nreturn b", "a b", id="some are unknown"),
        pytest.param("if rest == 'a': return a\nreturn b", "a b", id="the others"),
        pytest.param("if mode == 'b' or x: return a\nreturn b", "a b", id="or something else"),
        pytest.param("if mode == 'a' and x: return a\nreturn b", "a b", id="and something else"),
        pytest.param("if x: return a\nelse: return b\nreturn c", "a b c", id="unknown branches"),
        pytest.param("if mode == 'a': n = 1\nreturn b", "b", id="a branch that goes on"),
        pytest.param("n = mode == 'b'\nif n: return a\nreturn b", "b", id="by a name"),
        pytest.param("n = mode\nif n == 'b': return a\nreturn b", "b", id="by another name"),
        pytest.param(
            "n = mode == 'b'\nif x: n = y\nif n: return a\nreturn b", "a b", id="one of two"
        ),
        pytest.param("n, m = mode == 'b', 1\nif n: return a\nreturn b", "a b", id="one of a pair"),
        pytest.param(
            "while True:\n    if x: return a\n    if n: return b\n    n = not n",
            "a b",
            id="of itself",
        ),
        pytest.param("n = other == 'b'\nif n: return a\nreturn b", "a b", id="of what is unknown"),
        pytest.param("if mode == 0x61: return a\nreturn b", "a b", id="another way to count"),
        pytest.param("if mode != 'a': return a\nreturn b", "b", id="unequal"),
        pytest.param("if not mode == 'a': return a\nreturn b", "b", id="not"),
        pytest.param("if mode not in ['a']: return a\nreturn b", "b", id="not in"),
        pytest.param("if mode is not None: return a\nreturn b", "a", id="is not"),
        pytest.param("if mode == 'b' or k == 1: return a\nreturn b", "a", id="or"),
        pytest.param("if mode == 'a' and k == 2: return a\nreturn b", "b", id="and"),
        pytest.param("if mode == 'b': raise E\nelse: return b\nreturn c", "b", id="else"),
        pytest.param("for x in y:\n    if mode == 'a': continue\n    return a", "", id="a loop"),
    ],
)
def test_what_decides(body, found):
    assert reached(body, "f('a')") == found.split()


def test_a_method_takes_itself_first():
    program = parsed(
        "class A:\n    def f(self, mode):\n        if mode == 'a':\n            return a\n"
        "        return b\nA().f('a')\n"
    )
    (site,) = program.calls.named("f")
    function = program.calls.target(site)
    assert function is not None
    results = program.returns(function)
    assert [may_reach(program, function, site, one) for one in results] == [True, False]
