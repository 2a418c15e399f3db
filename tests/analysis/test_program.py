"""The questions that rules ask most, and the whole of Python's grammar."""

from __future__ import annotations

import gc
import sys

import libcst as cst
import pytest
from probing import HEAD, parsed, probed, probes

from torchlint.analysis.program import Program
from torchlint.analysis.values import TENSOR, UNKNOWN, Device
from torchlint.errors import InternalError
from torchlint.linter import with_deep_stack


def test_calls_by_name_and_by_method() -> None:
    program = parsed("torch.ones(3)\nfrom torch import ones\nones(1)\nx.ones()\nzeros()", HEAD)
    assert [program.code(c) for c in program.calls_of("torch.ones")] == ["torch.ones(3)", "ones(1)"]
    assert [program.code(c) for c, _ in program.method_calls("ones")] == ["torch.ones(3)",
                                                                          "x.ones()"]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "statement", "smallest"),
    [
        pytest.param("y = probe(); z = 1", "y = probe(); z = 1", "y = probe()", id="a line"),
        pytest.param("if probe(): pass", "if probe(): pass", "probe()", id="a condition"),
        pytest.param("for x in probe(): pass", "for x in probe(): pass", "probe()", id="a loop"),
        pytest.param("if a: probe()", "if a: probe()", "probe()", id="a one-line block"),
    ],
)
def test_statements(source: str, statement: str, smallest: str) -> None:
    program = parsed(source)
    (call,) = probes(program)
    assert program.code(program.statement(call)).strip() == statement
    assert program.code(program.smallest_statement(call)).strip(" ;") == smallest


def test_statements_of_the_module_and_of_statements() -> None:
    program = parsed("x = 1")
    line = program.module.body[0]
    assert program.statement(line) is line
    assert program.statement(program.module) is program.module
    assert program.smallest_statement(program.module) is program.module
    assert program.function(line) is None
    assert program.parent(line) is program.module


def test_functions() -> None:
    program = parsed(
        "class A:\n    def f(self):\n        def g():\n            return 1\n        return 2\n"
        "    @staticmethod\n    def s(): yield 1\n    @property\n    def p(self): pass\n"
        "def h():\n    def k(): yield 1\n"
    )
    found = {f.name.value: f for f in program.index.of(cst.FunctionDef)}
    assert [n for n, f in found.items() if program.is_method(f)] == ["f", "p"]
    assert [n for n, f in found.items() if program.is_static(f)] == ["s"]
    assert [n for n, f in found.items() if program.is_property(f)] == ["p"]
    assert [n for n, f in found.items() if program.yields(f)] == ["s", "k"]
    assert [len(program.returns(found[n])) for n in "fgh"] == [1, 1, 0]


@pytest.mark.parametrize(
    ("source", "builtin"),
    [
        ("probe(len)", True),
        ("len = 1\nprobe(len)", False),
        ("probe(nobody)", False),
        ("from x import *\nprobe(len)", True),
        ("from x import *\nprobe(sum)", False),
        ("from x import *\nprobe(float)", True),
        ("from torch import *\nprobe(float)", False),
        ("from torch.nn import *\nprobe(enumerate)", True),
    ],
)
def test_builtins(source: str, builtin: bool) -> None:
    program = parsed(source)
    name = probed(program)
    assert isinstance(name, cst.Name)
    assert program.is_builtin(name) is builtin


@pytest.mark.parametrize(
    ("source", "frameworks"),
    [
        ("import torch", set()),
        ("import lightning as L", {"lightning"}),
        ("import pytorch_lightning.callbacks", {"pytorch_lightning"}),
        ("from accelerate import Accelerator", {"accelerate"}),
        ("from transformers import Trainer", {"transformers.Trainer"}),
        ("from transformers import AutoModel", set()),
    ],
)
def test_frameworks(source: str, frameworks: set[str]) -> None:
    assert parsed(source).frameworks == frameworks


def test_where_tensors_may_live() -> None:
    gpu, host = parsed("x.cuda()"), parsed("import torch")
    assert [p.on_gpu(UNKNOWN) for p in (gpu, host)] == [True, False]
    assert [p.on_gpu(TENSOR.on(Device.CPU)) for p in (gpu, host)] == [False, False]


def test_source_of_nodes() -> None:
    program = parsed(f"probe(a,\n      b{'b' * 80})")
    (call,) = probes(program)
    assert program.code(call).startswith("probe(a,\n ")
    assert program.brief(call, 20) == "probe(a, bbbbbbbb..."
    assert program.brief(call.args[0].value) == "a"


def test_arguments_and_links_are_asked_here() -> None:
    program = parsed("DataLoader(d, 4)\nnn.Sequential(nn.Linear(1, 2), nn.ReLU())", HEAD)
    assert program.argument(program.index.of(cst.Call)[0], "batch_size").literal() == "4"
    assert isinstance(program.links, list)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        parsed("x = 1")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_broken_text_is_refused() -> None:
    with pytest.raises(cst.ParserSyntaxError):
        Program("def f(:")


EXOTIC = [
    pytest.param(
        "match x:\n    case [1, *r] | {'a': b, **c} if d: f(r)\n    case A(k, l=m) as n: n\n"
        "    case None | -1 | 'a' | B.c | (): pass\n    case _: pass",
        id="match",
    ),
    pytest.param("if any((y := f(x)) for x in z if (w := x)): g(y, w)", id="walrus"),
    pytest.param(
        "async def f():\n    async with a as b, c: pass\n    async for x, *y in z: await x\n"
        "    return [i async for i in j if await k]",
        id="async",
    ),
    pytest.param(
        "type A[T: int, *Ts, **P] = dict[T, P]\ndef f[T: int](x: T) -> T: return x\n"
        "class C[T]: x: T",
        id="type parameters",
    ),
    pytest.param(
        "a, *b = *c, *d\nf(*e, **g)\nh = [*i], {*j}, {**k, 1: 2}\nx[*y, 1:2, ...]", id="stars"
    ),
    pytest.param(
        "@(d := f)\n@a.b[0]\ndef g(a, /, b=1, *c, d: int = 2, **e): pass", id="decorators"
    ),
    pytest.param("try: pass\nexcept* (A, B) as e: e\nelse: pass\nfinally: pass", id="except*"),
    pytest.param("f'{a!r:>{w}} {f\"{b}\"} {c=}' rf'{d}'\nb'x'", id="f-strings"),
    pytest.param("f = lambda a, /, b=1, *c, d=2, **e: (yield)", id="lambda"),
    pytest.param(
        "class A:\n    for i in range(3):\n        x = i\n    del i\n    y = [x for _ in x]\n"
        "    def f(self, z=x): return self.y",
        id="a class body with a loop",
    ),
    pytest.param(
        "try:\n    import a\nexcept ImportError:\n    a = None\nif a: from b import c as d\n"
        "else: d = lambda: 0",
        id="conditional imports",
    ),
    pytest.param(
        "global x\nx = y = z[0] = a.b = 1\nx.y += 1\nz[0] @= x\ndel x, (y, [z])", id="targets"
    ),
    pytest.param(
        "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x += 1\n"
        "        yield from g()\n    return g",
        id="nonlocal",
    ),
    pytest.param("while (x := f()): break\nelse: x\nfor i in x: continue\nelse: i", id="loops"),
    pytest.param(
        "assert x, y\nraise A from b\nx = y if z else w\nx = not y is not z not in w",
        id="statements",
    ),
    pytest.param(
        "from . import a\nfrom .. b import *\nfrom c . d import (e as f,)\nimport g . h",
        id="imports",
    ),
    pytest.param("with (open(a) as f, open(b) as (g, h)): f; g", id="with"),
    pytest.param("x: int\nx: int = 1\na.b: int\na[0]: int = 3", id="annotations"),
    pytest.param("", id="nothing"),
    pytest.param("# only a comment", id="a comment"),
    pytest.param("x = " + "a." * 500 + "b", id="500 attributes"),
    pytest.param("x = a" + ".f(1)" * 500, id="500 calls"),
    pytest.param("x = a" + "[0]" * 500, id="500 subscripts"),
    pytest.param("x = 1" + " + y" * 500, id="500 operators"),
    pytest.param("x = y" + " and y" * 500, id="500 conditions"),
    pytest.param("if a: pass\n" + "elif x: x = 1\n" * 500 + "else: x", id="500 branches"),
    pytest.param("x = " + "-" * 500 + "y", id="500 signs"),
    pytest.param("x = " + "f(" * 90 + "y" + ")" * 90, id="90 brackets"),
    pytest.param("x = y" + " if a else y" * 500, id="500 conditional expressions"),
    pytest.param("x = 0\n" + "x = x.f()\n" * 900 + "x.backward()", id="900 lines"),
    pytest.param("x0 = y\n" + "".join(f"x{i + 1} = x{i}\n" for i in range(900)), id="900 aliases"),
    pytest.param(
        "".join(f"def f{i}(x): return f{i + 1}(x)\n" for i in range(300)) + "f0(1)",
        id="300 functions",
    ),
]


def ask_everything(program: Program) -> None:
    """Every fact of every node."""
    index = program.index
    for node in index.nodes:
        index.scope(node)
        program.value(node)
        program.context(node)
        program.qualified(node)
    for node in index.nodes[::20]:
        program.statement(node)
        program.smallest_statement(node)
    for name in index.of(cst.Name):
        program.flow.reaching(name)
        program.is_builtin(name)
    for call in index.of(cst.Call):
        program.calls.target(call)
        program.argument(call, "x")
    for function in index.of(cst.FunctionDef):
        program.calls.sites(function)
        program.returns(function)
    for loop in (*index.of(cst.For), *index.of(cst.While)):
        program.loops.role(loop)
    assert program.devices.evidence
    assert isinstance(program.links, list)
    assert isinstance(program.syncs, list)
    assert isinstance(program.frameworks, frozenset)


@pytest.mark.parametrize("source", EXOTIC)
def test_every_fact_of_every_node(source: str) -> None:
    limit = sys.getrecursionlimit()
    with_deep_stack(lambda: ask_everything(parsed(source + "\nx.cuda()\n", HEAD)))
    assert sys.getrecursionlimit() == limit


def test_code_of_a_node_that_stands_nowhere() -> None:
    program = parsed("probe(first)")
    with pytest.raises(InternalError, match="place of a Name is unknown"):
        program.code(cst.Name("first"))


def test_what_is_read_of_the_text_stays_where_facts_are_forgotten() -> None:
    program = parsed("probe(first)")
    concrete, names = program.concrete, program.names
    program.forget()
    assert program.concrete is concrete
    assert program.names is not names
