"""Whether an expression of a loop means the same before it."""

from __future__ import annotations

import textwrap

import libcst as cst
from probing import parsed, probed

from torchlint.analysis.hoisting import free_name, loops_around, mentions


def loop(line: str, before: str = "", head: str = "for i in range(9):") -> str:
    """Return a loop with a line in it."""
    body = textwrap.indent(line, "    ")
    return f"{before}\n{head}\n{body}\n"


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
