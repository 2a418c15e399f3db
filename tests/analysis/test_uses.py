"""Where the value of a binding may be read."""

from __future__ import annotations

import pytest
from probing import parsed

from torchlint.analysis.uses import uses_of
from torchlint.syntax.places import locate


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        pytest.param("x = 1\nprint(x)\nx = 2\nprint(x)", [2], id="until it is bound again"),
        pytest.param("x = 1\nif a:\n    x = 2\nprint(x)", [4], id="on one of two ways"),
        pytest.param("x = 1\nx += 1\nprint(x)", [2], id="added to"),
        pytest.param("x = 1\nx = x + 1\nprint(x)", [2], id="on the other side"),
        pytest.param("x = 1\ndel x", [2], id="deleted"),
        pytest.param("x = 1\nprint(y.x, f(x=3))", [], id="attributes and keywords"),
        pytest.param("x = 1\ndef f():\n    return x", [3], id="in a function inside"),
        pytest.param("x = 1\ndef f(x):\n    return x", [], id="a parameter of that name"),
        pytest.param("x = 1\ndef f(a=x):\n    return a", [2], id="the default of a parameter"),
        pytest.param("x = 1\nfor x in y:\n    print(x)", [], id="a loop of that name"),
        pytest.param("x = 1\nprint(x.a[x])", [2, 2], id="twice"),
    ],
)
def test_uses(source, rows):
    program = parsed(source)
    binding = min(program.index.root.bindings["x"], key=lambda b: program.index.order(b.node))
    uses = list(uses_of(program, binding))
    places = locate(program, uses)
    assert [places.text.count("\n", 0, places.span(use).start) + 1 for use in uses] == rows
