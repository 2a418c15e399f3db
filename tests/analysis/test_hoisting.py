"""Whether an expression of a loop means the same before it."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest
from probing import parsed, probed

from torchlint.analysis.hoisting import free_name, loops_around, mentions, unchanged_in


def loop(line: str, before: str = "", head: str = "for i in range(9):") -> str:
    """Return a loop with a line in it."""
    body = textwrap.indent(line, "    ")
    return f"{before}\n{head}\n{body}\n"


def is_unchanged(source: str) -> bool:
    program = parsed(source)
    node = probed(program)
    return unchanged_in(program, node, [*loops_around(program, node)][-1])


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loop("probe(x)", "x = 1"), id="a name"),
        pytest.param(loop("probe(x.y)", "x = f()"), id="an attribute"),
        pytest.param(loop("probe(x['y'].z[0])", "x = f()"), id="an item by a literal key"),
        pytest.param(loop("probe(x.y)\nx.z = x.yy = 1", "x = f()"), id="another attribute is set"),
        pytest.param(loop("probe(x['y'])\nx['z'] = 1", "x = f()"), id="another item is set"),
        pytest.param(loop("probe(x)\na[x] = x.y", "x = f()"), id="it is only read"),
        pytest.param(
            loop("for j in y:\n    probe(x)", "x = 1", "while y:"), id="in a loop in the loop"
        ),
        pytest.param(
            "x = 1\ndef f():\n    for i in range(9):\n        probe(x)", id="a name of the module"
        ),
    ],
)
def test_unchanged(source):
    assert is_unchanged(source)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loop("probe(x)\nx = 2", "x = 1"), id="it is bound in the loop"),
        pytest.param(loop("probe(i)"), id="it is what the loop binds"),
        pytest.param(loop("probe(x)"), id="nothing binds it"),
        pytest.param(loop("probe(x)") + "x = 1\n", id="it is bound after the loop"),
        pytest.param(loop("probe(x.y)\nx.y = 1", "x = f()"), id="the attribute is set"),
        pytest.param(loop("probe(x.y)\nx.y, z = 1, 2", "x = f()"), id="among others"),
        pytest.param(loop("probe(x.y.z)\nx.y += 1", "x = f()"), id="what it is an attribute of"),
        pytest.param(loop("probe(x.y)\nx.y: int = 1", "x = f()"), id="set with an annotation"),
        pytest.param(loop("probe(x['y'])\nx['y'] = 1", "x = f()"), id="the item is set"),
        pytest.param(loop("probe(x.y)\ndel x.y", "x = f()"), id="it is deleted"),
        pytest.param(loop("probe(x[y])", "x = y = f()"), id="an item by a name"),
        pytest.param(loop("probe(f())", "f = g"), id="a call"),
        pytest.param(loop("[probe(x) for x in y]", "y = g"), id="a name of a comprehension"),
    ],
)
def test_changed(source):
    assert not is_unchanged(source)


def test_loops_around_end_at_the_function():
    program = parsed("""
    for a in b:
        def f():
            for c in d:
                while e:
                    probe(1)
                else:
                    pass
    """)
    loops = list(loops_around(program, probed(program)))
    assert [type(one) for one in loops] == [cst.While, cst.For]
    assert program.brief(loops[-1].iter) == "d"  # type: ignore[union-attr]


def test_the_head_of_a_loop_is_not_in_it():
    program = parsed("for a in probe(x):\n    pass\nelse:\n    pass")
    assert list(loops_around(program, probed(program))) == []


def test_mentions_are_places_that_read():
    program = parsed("""
    x = 1
    for i in x:
        a.x = f(x=x)
        probe(x)
    """)
    (loop,) = program.index.of(cst.For)
    assert len(list(mentions(program, probed(program), loop))) == 3


def test_a_free_name_is_used_nowhere():
    program = parsed("def f(a):\n    return b.c")
    assert free_name(program, ["a", "b", "c", "d"]) == "d"
    assert free_name(program, ["f"]) is None


def test_a_name_of_another_function_is_free():
    program = parsed("def f(a):\n    probe(b.c)\ndef g(d):\n    return e")
    assert free_name(program, ["b", "c", "a", "d"], probed(program)) == "d"
    assert free_name(program, ["d"]) is None
    assert free_name(program, ["f", "g"], probed(program)) is None
