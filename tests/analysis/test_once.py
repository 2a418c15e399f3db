"""What a script runs a single time."""

from __future__ import annotations

import libcst as cst
import pytest
from probing import parsed

from torchlint.analysis.once import runs_once


@pytest.mark.parametrize(
    ("source", "once"),
    [
        pytest.param("here()\n", True, id="at the level of the module"),
        pytest.param("def f():\n    here()\n", False, id="a function that anybody may call"),
        pytest.param("def main(args):\n    here()\n", True, id="what starts the script"),
        pytest.param("def main(args):\n    while go:\n        here()\n", False, id="in a loop"),
        pytest.param("f = lambda x: here()\n", False, id="in a lambda"),
        pytest.param("xs = [here() for _ in ys]\n", False, id="for each of several"),
        pytest.param("@step\ndef f():\n    here()\nf()\n", False, id="a decorated function"),
        pytest.param("def f():\n    here()\nf()\n", True, id="a function called once"),
        pytest.param("def f():\n    here()\nfor x in y:\n    f()\n", False, id="called in a loop"),
        pytest.param(
            "def f():\n    here()\ndef g():\n    f()\nfor x in y:\n    g()\n", False, id="by way of"
        ),
        pytest.param("def f():\n    here()\n    f()\n", False, id="a function that calls itself"),
    ],
)
def test_runs_once(source, once):
    program = parsed(source)
    (call,) = (one for one in program.index.of(cst.Call) if program.code(one.func) == "here")
    assert runs_once(program, call) is once
