"""Which expressions a value may come from."""

from __future__ import annotations

import pytest
from probing import parsed, probed

from torchlint.analysis.origins import origins


def texts(source: str) -> list[str]:
    program = parsed(source)
    return sorted(program.brief(node) for node in origins(program, probed(program)))


CHOSEN = """
def f():
    return g(), 1
def h():
    return k(), 2
def choose(a):
    return f if a else {}
b = choose(c)
x, y = b()
probe(x)
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("probe(f())", ["f()"], id="a call"),
        pytest.param("x = f()\nprobe(x)", ["f()"], id="a name"),
        pytest.param("x = f()\ny = x\nprobe(y)", ["f()"], id="a name for a name"),
        pytest.param("x = f()\nx = g()\nprobe(x)", ["g()"], id="the last of two"),
        pytest.param("if a:\n    x = f()\nelse:\n    x = g()\nprobe(x)", ["f()", "g()"], id="if"),
        pytest.param("probe(f() if a else None)", ["None", "f()"], id="one of two"),
        pytest.param("probe(f() or g())", ["f()", "g()"], id="or"),
        pytest.param("probe(x := f())", ["f()"], id="a name in the midst"),
        pytest.param("x, y = f(), g()\nprobe(y)", ["g()"], id="unpacked"),
        pytest.param("x, y = f()\nprobe(y)", ["f()"], id="unpacked from an unknown function"),
        pytest.param("x, *y = f(), g()\nprobe(x)", ["f()"], id="before a star"),
        pytest.param("*x, y = f(), g()\nprobe(y)", ["f(), g()"], id="counted from the end"),
        pytest.param("x, y = *a, g()\nprobe(y)", ["*a, g()"], id="after what is unpacked"),
        pytest.param("for x in f():\n    probe(x)", ["x"], id="what a loop binds"),
        pytest.param("x = f()\nx += g()\nprobe(x)", ["x += g()"], id="added to"),
        pytest.param("probe(x)", ["x"], id="a name of nobody"),
        pytest.param("x = x\nprobe(x)", [], id="a name for itself"),
        pytest.param("def f():\n    return g(), h()\nx, y = f()\nprobe(y)", ["h()"], id="returned"),
        pytest.param(
            "def f(a, b=1):\n    probe(b)\nf(g(), h())\nf(g())", ["1", "h()"], id="parameter"
        ),
        pytest.param(CHOSEN.format("h"), ["g()", "k()"], id="of a function that another chooses"),
        pytest.param(CHOSEN.format("other"), ["b()"], id="of one that may be any"),
        pytest.param("def f(a):\n    probe(a)", ["a"], id="a parameter that nobody gives"),
        pytest.param("def f(a):\n    probe(a)\nf(*b)", ["a"], id="a parameter behind a star"),
        pytest.param("f = lambda a: probe(a)\nf(1)", ["a"], id="a parameter of a lambda"),
        pytest.param("class A: ...\nprobe(A())", ["A()"], id="an instance"),
        pytest.param("probe(a.b)", ["a.b"], id="an attribute of another object"),
        pytest.param(
            "class A:\n    def f(self):\n        self.x = g()\n        self.x += 1\n"
            "    def h(self):\n        probe(self.x)",
            ["g()"],
            id="an attribute of self",
        ),
        pytest.param("def f(self):\n    probe(self.x)", ["self.x"], id="self of no class"),
    ],
)
def test_origins(source, expected):
    assert texts(source) == expected
