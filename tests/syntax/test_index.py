"""Names, scopes and places in the tree, as one walk finds them."""

from __future__ import annotations

import libcst as cst
import pytest

from torchlint.syntax.chains import dotted
from torchlint.syntax.module import Module
from torchlint.syntax.scopes import Bind, ScopeKind


def probed(module: Module) -> cst.BaseExpression:
    """The argument of the one call of ``probe``."""
    (call,) = (
        call
        for call in module.index.of(cst.Call)
        if isinstance(call.func, cst.Name) and call.func.value == "probe"
    )
    return call.args[0].value


@pytest.mark.parametrize(
    ("source", "owner"),
    [
        pytest.param("x = 1\nprobe(x)", "MODULE", id="a name of the module"),
        pytest.param("x = 1\ndef f():\n    probe(x)", "MODULE", id="a global read in a function"),
        pytest.param("x = 1\ndef f(x):\n    probe(x)", "FUNCTION", id="a parameter"),
        pytest.param("x = 1\ndef f():\n    x = 2\n    probe(x)", "FUNCTION", id="a local"),
        pytest.param(
            "x = 1\ndef f():\n    global x\n    x = 2\n    probe(x)", "MODULE", id="global"
        ),
        pytest.param(
            "def f():\n    global x\n    probe(x)", None, id="a global that the file never makes"
        ),
        pytest.param("global x\nx = 1\nprobe(x)", "MODULE", id="global at the level of the module"),
        pytest.param(
            "def f():\n    x = 1\n    def g():\n        nonlocal x; x = 2; probe(x)",
            "FUNCTION",
            id="nonlocal",
        ),
        pytest.param(
            "def f():\n    def g():\n        nonlocal x; x = 2; probe(x)\n    x = 1",
            "FUNCTION",
            id="nonlocal of a name that is bound further down",
        ),
        pytest.param("class A:\n    x = 1\n    probe(x)", "CLASS", id="a class body"),
        pytest.param(
            "class A:\n    x = 1\n    def f(self):\n        probe(x)",
            None,
            id="a class body is not seen from its methods",
        ),
        pytest.param(
            "x = 0\nclass A:\n    x = 1\n    y = [probe(x) for i in z]",
            "MODULE",
            id="nor from a comprehension in it",
        ),
        pytest.param("lambda x: probe(x)", "LAMBDA", id="a parameter of a lambda"),
        pytest.param("x = 1\nlambda x=probe(x): x", "MODULE", id="the default of a lambda"),
        pytest.param("x = 1\ndef f(x=probe(x)): pass", "MODULE", id="the default of a function"),
        pytest.param("x = 1\n@probe(x)\ndef f(x): pass", "MODULE", id="a decorator"),
        pytest.param("[probe(x) for x in y]", "COMPREHENSION", id="a comprehension"),
        pytest.param("{1: probe(x) for x in y}", "COMPREHENSION", id="a dictionary comprehension"),
        pytest.param("x = 1\n[x for x in probe(x)]", "MODULE", id="what a comprehension runs over"),
        pytest.param("[y for x in z for y in probe(x)]", "COMPREHENSION", id="its second source"),
        pytest.param("[1 for a in b if (x := a)]\nprobe(x)", "MODULE", id=":= in a comprehension"),
        pytest.param("[x for x in y]\nprobe(x)", None, id="a comprehension keeps its names"),
        pytest.param("if (x := f()):\n    probe(x)", "MODULE", id=":="),
        pytest.param("import a.b.x\nprobe(a)", "MODULE", id="import of a package"),
        pytest.param("import a.b as x\nprobe(x)", "MODULE", id="import as"),
        pytest.param("from a import x\nprobe(x)", "MODULE", id="from import"),
        pytest.param("from a import y as x\nprobe(x)", "MODULE", id="from import as"),
        pytest.param("from a import *\nprobe(x)", None, id="a star import"),
        pytest.param("for x in y:\n    probe(x)", "MODULE", id="for"),
        pytest.param(
            "async def f():\n    async for x in y:\n        probe(x)", "FUNCTION", id="async for"
        ),
        pytest.param("for a, (b, *x) in y:\n    probe(x)", "MODULE", id="nested targets"),
        pytest.param("with y as x:\n    probe(x)", "MODULE", id="with"),
        pytest.param("with y as (a, x):\n    probe(x)", "MODULE", id="with, unpacked"),
        pytest.param("try:\n    f()\nexcept E as x:\n    probe(x)", "MODULE", id="except"),
        pytest.param("try:\n    f()\nexcept* E as x:\n    probe(x)", "MODULE", id="except*"),
        pytest.param("match y:\n    case [1, x]:\n        probe(x)", "MODULE", id="match"),
        pytest.param("match y:\n    case [1, *x]:\n        probe(x)", "MODULE", id="match a star"),
        pytest.param(
            "match y:\n    case {1: 2, **x}:\n        probe(x)", "MODULE", id="match a rest"
        ),
        pytest.param("match y:\n    case A() as x:\n        probe(x)", "MODULE", id="match as"),
        pytest.param("x: int\nprobe(x)", "MODULE", id="an annotation"),
        pytest.param("x: int = 1\nprobe(x)", "MODULE", id="an annotated assignment"),
        pytest.param("y = x = 1\nprobe(x)", "MODULE", id="a chained assignment"),
        pytest.param("x += 1\nprobe(x)", "MODULE", id="an augmented assignment"),
        pytest.param("del x\nprobe(x)", "MODULE", id="del"),
        pytest.param("y.x = 1\nprobe(x)", None, id="an attribute binds nothing"),
        pytest.param("y[x] = 1\nprobe(x)", None, id="a subscript binds nothing"),
        pytest.param("def f(a, /, b, *c, x, **d): probe(x)", "FUNCTION", id="keyword only"),
        pytest.param("def f(x, /, b): probe(x)", "FUNCTION", id="positional only"),
        pytest.param("def f(*x): probe(x)", "FUNCTION", id="*args"),
        pytest.param("def f(**x): probe(x)", "FUNCTION", id="**kwargs"),
        pytest.param("def f(*, x): probe(x)", "FUNCTION", id="a bare star"),
        pytest.param("type X = int\nprobe(X)", "MODULE", id="type"),
        pytest.param("def f[T](x): probe(T)", "MODULE", id="a type parameter"),
        pytest.param("class A[T]: probe(T)", "MODULE", id="a type parameter of a class"),
    ],
)
def test_owner_of_a_name(source: str, owner: str | None) -> None:
    module = Module(source)
    name = probed(module)
    assert isinstance(name, cst.Name)
    found = module.index.scope(name).owner(name.value)
    assert (None if found is None else found.kind.name) == owner


def test_nonlocal_of_a_name_that_is_bound_further_down() -> None:
    index = Module("def f():\n    def g():\n        nonlocal x\n        x = 2\n    x = 1").index
    outer, _inner = index.of(cst.FunctionDef)
    assert len(index.opened(outer).bindings["x"]) == 2


def test_scopes_of_nodes_that_are_no_names() -> None:
    module = Module("def f(a):\n    return g(a)\nx = lambda b: (b, 1)")
    index = module.index
    (function,), (lamb,) = index.of(cst.FunctionDef), index.of(cst.Lambda)
    (back,) = index.of(cst.Return)
    (pair,) = index.of(cst.Tuple)
    assert index.scope(back) is index.opened(function)
    assert index.scope(function.params) is index.root
    assert index.scope(pair) is index.opened(lamb)
    assert index.scope(lamb) is index.root
    assert index.scope(module.tree) is index.root
    assert index.opened(lamb).kind is ScopeKind.LAMBDA


def test_places_in_the_walk() -> None:
    module = Module("def f():\n    a = g(b)\n    return a\nh(1)\n")
    index = module.index
    (function,) = index.of(cst.FunctionDef)
    inner, outer = index.of(cst.Call)
    assert index.inside(inner, function)
    assert index.inside(function, function)
    assert not index.inside(outer, function)
    assert list(index.below(function, cst.Call)) == [inner]
    assert list(index.below(module.tree, cst.Call)) == [inner, outer]
    assert list(index.below(function, cst.Lambda)) == []
    assert index.order(function) < index.order(inner) < index.order(outer)
    assert index.end(function) <= index.order(outer)
    assert list(index.ancestors(inner))[-1] is module.tree
    assert index.parent(module.tree) is None
    assert [name.value for name in index.named["a"]] == ["a", "a"]


def test_every_meaningful_node_is_walked_once() -> None:
    module = Module("@d\nclass A(B, k=1):\n    x: int = f(*a, **b)[1:2, ::3] if y else {**c}\n")
    assert len({id(node) for node in module.index.nodes}) == len(module.index.nodes)
    names = ["d", "A", "B", "k", "x", "int", "y", "f", "a", "b", "c"]
    assert [name.value for name in module.index.of(cst.Name)] == names


@pytest.mark.parametrize(
    ("source", "kind", "path"),
    [
        pytest.param("x = 1", Bind.ASSIGN, (), id="plain"),
        pytest.param("a, x = f()", Bind.ASSIGN, (1,), id="unpacked"),
        pytest.param("a, [b, x] = f()", Bind.ASSIGN, (1, 1), id="nested"),
        pytest.param("*a, x = f()", Bind.ASSIGN, (-1,), id="after a star"),
        pytest.param("a, *x = f()", Bind.REST, (), id="a star"),
        pytest.param("x, *a = f()", Bind.ASSIGN, (0,), id="before a star"),
        pytest.param("for i, (x, y) in f(): pass", Bind.FOR, (1, 0), id="loop"),
    ],
)
def test_where_in_a_value_a_name_comes_from(source: str, kind: Bind, path: tuple[int]) -> None:
    index = Module(source).index
    (binding,) = index.root.bindings["x"]
    assert (binding.kind, binding.path) == (kind, path)
    assert index.bound(binding.node) is binding


@pytest.mark.parametrize(
    ("source", "text"),
    [("a", "a"), ("a.b.c", "a.b.c"), ("a().b", ""), ("a[0]", ""), ("1", "")],
)
def test_dotted(source: str, text: str) -> None:
    assert dotted(cst.parse_expression(source)) == text
