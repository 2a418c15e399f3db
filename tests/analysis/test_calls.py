"""Who calls whom inside a file, and what is passed for a parameter."""

from __future__ import annotations

import libcst as cst
import pytest
from probing import HEAD, parsed, probed, probes


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param("def f(): pass\nprobe(f())", "f", id="a function"),
        pytest.param("from x import f\nprobe(f())", None, id="an imported function"),
        pytest.param("def f(): pass\nf = g\nprobe(f())", None, id="rebound"),
        pytest.param(
            "if a:\n    def f(): pass\nelse:\n    def f(): pass\nprobe(f())", None, id="one of two"
        ),
        pytest.param(
            "class A:\n    def __init__(self): pass\nprobe(A())", "__init__", id="a constructor"
        ),
        pytest.param("class A: pass\nprobe(A())", None, id="no constructor"),
        pytest.param(
            "class B:\n    def __init__(self): pass\nclass A(B): pass\nprobe(A())",
            "__init__",
            id="an inherited constructor",
        ),
        pytest.param(
            "class A:\n    def f(self): probe(self.g())\n    def g(self): pass",
            "g",
            id="a method of self",
        ),
        pytest.param("class A:\n    def f(self): probe(self.g())", None, id="no such method"),
        pytest.param("probe(self.g())", None, id="self of no class"),
        pytest.param(
            "class A:\n    def f(self): pass\na = A()\nprobe(a.f())",
            "f",
            id="a method of an object",
        ),
        pytest.param(
            "class A:\n    def f(self): pass\nprobe(x.f())", None, id="a method of anything"
        ),
        pytest.param(
            "class A(nn.Module):\n    def f(self): pass\nprobe(A().cuda().f())",
            "f",
            id="a method of a module",
        ),
        pytest.param("probe(f()())", None, id="a result"),
    ],
)
def test_target(source: str, target: str | None) -> None:
    program = parsed(source, HEAD)
    call = probed(program)
    assert isinstance(call, cst.Call)
    found = program.calls.target(call)
    assert (None if found is None else found.name.value) == target
    assert found is None or call in program.calls.sites(found)


def test_a_call_of_one_of_two_functions_is_a_site_of_both() -> None:
    program = parsed("def f(x): pass\ndef g(x): pass\nrun = f if a else g\nprobe(run(1))")
    call = probed(program)
    assert isinstance(call, cst.Call)
    assert [one.name.value for one in program.calls.targets(call)] == ["f", "g"]
    assert program.calls.target(call) is None
    assert all(call in program.calls.sites(one) for one in program.calls.targets(call))


TABLE = """\
class A:
    def run(self, kind):
        table = {"f": self.f, "g": self.g}
        probe(table[kind](1))
    def f(self, x): pass
    def g(self, x): pass
"""


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        pytest.param("", "", ["f", "g"], id="any of them"),
        pytest.param("[kind]", "['g']", ["g"], id="the one of a key"),
        pytest.param("self.g}", "g}", [], id="one is not known"),
        pytest.param("self.g}", "self.g, **more}", [], id="there are more"),
        pytest.param("self.g}", "self.g}\n        table[a] = b", [], id="another is put in"),
        pytest.param("self.g}", "self.g}\n        table.update(b)", [], id="others are put in"),
        pytest.param("table[kind]", "other[kind]", [], id="another dictionary"),
    ],
)
def test_a_call_of_an_entry_runs_one_of_a_dictionary(old: str, new: str, names: list[str]) -> None:
    program = parsed(TABLE.replace(old, new) if old else TABLE)
    call = probed(program)
    assert isinstance(call, cst.Call)
    assert [one.name.value for one in program.calls.targets(call)] == names
    assert all(call in program.calls.sites(one) for one in program.calls.targets(call))


@pytest.mark.parametrize(
    ("source", "passed"),
    [
        pytest.param("def f(x): probe(x)\nf(1)\nf(x=2)", ["1", "2"], id="by place and by name"),
        pytest.param("def f(a, /, b, x): probe(x)\nf(1, 2, 3)", ["3"], id="the third"),
        pytest.param("def f(a, *, x): probe(x)\nf(1, x=2)", ["2"], id="by name only"),
        pytest.param("def f(a, x=0): probe(x)\nf(1)", [], id="not passed"),
        pytest.param("def f(x): probe(x)\nf(*a)", [], id="behind a star"),
        pytest.param("def f(x): probe(x)\nf(1)\nf(**a)", [], id="behind two stars in one place"),
        pytest.param("def f(x): probe(x)\nf(1, **a)", ["1"], id="before two stars"),
        pytest.param("def f(x): probe(x)\ng(f)", [], id="handed on"),
        pytest.param(
            "class A:\n    def f(self, x): probe(x)\n    def g(self): self.f(1)",
            ["1"],
            id="a method",
        ),
        pytest.param(
            "class A:\n    @staticmethod\n    def f(x): probe(x)\n    def g(self): self.f(1)",
            ["1"],
            id="a static method",
        ),
        pytest.param(
            "class A:\n    def __init__(self, x): probe(x)\nA(1)", ["1"], id="a constructor"
        ),
        pytest.param(
            "class A:\n    def __init__(self, x): probe(x)\n"
            "class B:\n    def __init__(self, x): pass\nA(1)\nB(2)",
            ["1"],
            id="not that of another class",
        ),
        pytest.param(
            "class A:\n    def f(self, x): probe(x)\n    def g(self): self.f(1)\n"
            "class B:\n    def f(self, x): pass\n    def g(self): self.f(2)",
            ["1"],
            id="not a method of another class",
        ),
        pytest.param(
            "class A:\n    def f(self, x): probe(x)\nclass B(A):\n    def g(self): self.f(1)",
            ["1"],
            id="called by an heir",
        ),
        pytest.param(
            "class A:\n    def g(self): self.f(1)\nclass B(A):\n    def f(self, x): probe(x)",
            ["1"],
            id="called by a base",
        ),
        pytest.param(
            "class A:\n    def m(self):\n        def f(x): probe(x)\n        f(1)",
            ["1"],
            id="a function in a method",
        ),
        pytest.param("def f(x): probe(x)\nrun = f\nrun(1)", ["1"], id="by another name"),
        pytest.param(
            "def f(x): probe(x)\ndef g(x): pass\nif a:\n    run = f\nelse:\n    run = g\nrun(1)",
            ["1"],
            id="by the name of one of two",
        ),
        pytest.param(
            "def f(x): probe(x)\ndef g(x): pass\nrun = g if a else f\nrun(1)",
            ["1"],
            id="chosen by an expression",
        ),
        pytest.param(
            "def f(x): probe(x)\nrun = f\nrun(1)\nrun = other\nrun(2)",
            ["1"],
            id="not once the name stands for something else",
        ),
        pytest.param(
            "def f(x): probe(x)\nrun = f if a else other\nrun(1)", [], id="one is not known"
        ),
        pytest.param("def f(x): probe(x)\nrun = f()\nrun(1)", [], id="not what it returns"),
        pytest.param("def f(x): probe(x)\nrun, n = f\nrun(1)", [], id="not a part of it"),
        pytest.param(
            "def f(x): probe(x)\ndef g(run): run(1)\ng(f)", ["1"], id="given to another function"
        ),
        pytest.param(
            "def f(x): probe(x)\ndef h(x): pass\ndef g(run): run(1)\ng(f)\ng(run=h)",
            ["1"],
            id="one of two is given",
        ),
        pytest.param(
            "def f(x): probe(x)\ndef g(run): run(1)\ng(f)\ng(other)", [], id="one is unknown"
        ),
        pytest.param(
            "def f(x): probe(x)\ndef g(run): run = other; run(1)\ng(f)", [], id="bound anew"
        ),
    ],
)
def test_arguments(source: str, passed: list[str]) -> None:
    program = parsed(source)
    (call,) = probes(program)
    function = program.function(call)
    assert function is not None
    params = function.params
    every = (*params.posonly_params, *params.params, *params.kwonly_params)
    (param,) = [p for p in every if p.name.value == "x"]
    found = program.calls.arguments(function, param)
    assert sorted(program.code(node) for node in found) == passed
