"""Which bindings a use of a name may see: straight lines, branches, loops, failures."""

from __future__ import annotations

import libcst as cst
import pytest
from probing import bound_to, parsed, probed


@pytest.mark.parametrize(
    ("source", "bound"),
    [
        pytest.param("x = 1\nx = 2\nprobe(x)", ["x = 2"], id="the last one"),
        pytest.param("x = 1\nprobe(x)\nx = 2", ["x = 1"], id="not a later one"),
        pytest.param("x = 1; x = 2; probe(x); x = 3", ["x = 2"], id="on one line"),
        pytest.param("x = 1\nx = probe(x)", ["x = 1"], id="the value comes before the target"),
        pytest.param("x = 1\nx += probe(x)", ["x = 1"], id="also of +="),
        pytest.param("x = 1\nx += 2\nprobe(x)", ["x += 2"], id="+= binds"),
        pytest.param("x = 1\ny = x = 2\nprobe(x)", ["y = x = 2"], id="chained"),
        pytest.param(
            "x = 1\na.x = 2\nx[0] = 3\nprobe(x)", ["x = 1"], id="attributes and items bind nothing"
        ),
        pytest.param("x = 1\ndel x\nx = 2\nprobe(x)", ["x = 2"], id="bound again after del"),
        pytest.param("x = 1\ndel x\nprobe(x)", ["del x"], id="del"),
        pytest.param(
            "x = 1\nx: int\nprobe(x)",
            ["x = 1", "x: int"],
            id="an annotation alone leaves the value",
        ),
        pytest.param("import x\nx = 1\nprobe(x)", ["x = 1"], id="over an import"),
        pytest.param("x = 1\ndef x(): pass\nprobe(x)", ["def x(): pass"], id="def"),
        pytest.param("x = 1\nclass x:\n    x = 2\nprobe(x)", ["class x:"], id="class"),
        pytest.param("x = 1\nif a:\n    x = 2\nprobe(x)", ["x = 1", "x = 2"], id="if"),
        pytest.param(
            "x = 1\nif a:\n    x = 2\nelse:\n    x = 3\nprobe(x)",
            ["x = 2", "x = 3"],
            id="if and else",
        ),
        pytest.param(
            "x = 0\nif a:\n    x = 1\nelif b:\n    x = 2\nelse:\n    x = 3\nprobe(x)",
            ["x = 1", "x = 2", "x = 3"],
            id="elif with else",
        ),
        pytest.param(
            "x = 0\nif a:\n    x = 1\nelif b:\n    x = 2\nprobe(x)",
            ["x = 0", "x = 1", "x = 2"],
            id="elif without else",
        ),
        pytest.param(
            "x = 1\nif a:\n    x = 2\nelse:\n    probe(x)",
            ["x = 1"],
            id="the other branch is not seen",
        ),
        pytest.param(
            "x = 1\nif a:\n    x = 2\n    raise E\nprobe(x)", ["x = 1"], id="a branch that raises"
        ),
        pytest.param(
            "x = 1\nif a:\n    pass\nelse:\n    raise E\nx = 2\nprobe(x)",
            ["x = 2"],
            id="after a branch that raises",
        ),
        pytest.param(
            "def f():\n    x = 1\n    if a:\n        x = 2\n        return 1\n    probe(x)",
            ["x = 1"],
            id="a branch that returns",
        ),
        pytest.param(
            "x = 1\nfor i in y:\n    x = 2\nprobe(x)", ["x = 1", "x = 2"], id="a loop may not run"
        ),
        pytest.param(
            "x = 1\nfor i in y:\n    probe(x)\n    x = 2", ["x = 1", "x = 2"], id="the turn before"
        ),
        pytest.param("x = 1\nfor i in y:\n    x = 2\n    probe(x)", ["x = 2"], id="this turn"),
        pytest.param(
            "x = 1\nfor x in y:\n    probe(x)\n    x = 2",
            ["for x in y:"],
            id="the target of the loop",
        ),
        pytest.param(
            "x = 1\nfor x in y:\n    pass\nprobe(x)",
            ["for x in y:", "x = 1"],
            id="the target after the loop",
        ),
        pytest.param(
            "x = 1\nfor i in probe(x):\n    x = 2",
            ["x = 1"],
            id="what is iterated is asked for once",
        ),
        pytest.param(
            "x = 1\nwhile probe(x):\n    x = 2",
            ["x = 1", "x = 2"],
            id="a condition is asked in each turn",
        ),
        pytest.param(
            "x = 1\nwhile a:\n    if b:\n        x = 2\n        break\nprobe(x)",
            ["x = 1", "x = 2"],
            id="break carries out of the loop",
        ),
        pytest.param(
            "x = 1\nwhile a:\n    probe(x)\n    if b:\n        x = 2\n        continue\n",
            ["x = 1", "x = 2"],
            id="continue carries to the next turn",
        ),
        pytest.param(
            "x = 1\nfor i in y:\n    if a:\n        x = 2\n        continue\n    probe(x)",
            ["x = 1", "x = 2"],
            id="but not to the rest of this one",
        ),
        pytest.param(
            "x = 1\nfor i in y:\n    x = 2\nelse:\n    probe(x)",
            ["x = 1", "x = 2"],
            id="the else of a loop",
        ),
        pytest.param("x = 1\nwith a:\n    x = 2\nprobe(x)", ["x = 2"], id="with"),
        pytest.param("x = 1\nwith a as x:\n    probe(x)", ["with a as x:"], id="with as"),
        pytest.param(
            "x = 1\nwith a as x:\n    pass\nprobe(x)", ["with a as x:"], id="after with as"
        ),
        pytest.param(
            "x = 1\nwith a as x, probe(x) as b:\n    pass",
            ["with a as x, probe(x) as b:"],
            id="a later item of with",
        ),
        pytest.param("x = 1\nwith probe(x) as x:\n    pass", ["x = 1"], id="its own item"),
        pytest.param(
            "x = 1\nwith a:\n    if b:\n        x = 2\nprobe(x)",
            ["x = 1", "x = 2"],
            id="a branch in with",
        ),
        pytest.param(
            "try:\n    x = 1\nexcept E:\n    x = 2\nprobe(x)", ["x = 1", "x = 2"], id="try"
        ),
        pytest.param(
            "x = 0\ntry:\n    x = 1\nexcept E:\n    pass\nprobe(x)",
            ["x = 0", "x = 1"],
            id="a failure before the binding",
        ),
        pytest.param(
            "x = 0\ntry:\n    x = 1\nexcept E:\n    raise\nprobe(x)",
            ["x = 1"],
            id="a handler that raises",
        ),
        pytest.param(
            "x = 0\ntry:\n    x = 1\nexcept E:\n    probe(x)",
            ["x = 0", "x = 1"],
            id="in the handler",
        ),
        pytest.param(
            "x = 0\ntry:\n    x = 1\nexcept E as x:\n    probe(x)",
            ["except E as x:"],
            id="the name of a handler",
        ),
        pytest.param(
            "x = 0\ntry:\n    x = 1\nexcept* E as x:\n    probe(x)",
            ["except* E as x:"],
            id="the name of a handler of groups",
        ),
        pytest.param(
            "x = 0\ntry:\n    x = 1\nexcept E:\n    pass\nelse:\n    probe(x)",
            ["x = 1"],
            id="in the else of a try",
        ),
        pytest.param(
            "try:\n    x = 1\nexcept E:\n    x = 2\nelse:\n    x = 3\nprobe(x)",
            ["x = 2", "x = 3"],
            id="the else binds again",
        ),
        pytest.param(
            "try:\n    x = 1\nexcept E:\n    x = 2\nelse:\n    if a:\n        x = 3\nprobe(x)",
            ["x = 1", "x = 2", "x = 3"],
            id="the else may bind again",
        ),
        pytest.param(
            "x = 0\ntry:\n    x = 1\nfinally:\n    probe(x)", ["x = 0", "x = 1"], id="in finally"
        ),
        pytest.param(
            "x = 0\ntry:\n    x = 1\nfinally:\n    x = 2\nprobe(x)", ["x = 2"], id="finally binds"
        ),
        pytest.param(
            "x = 0\ntry:\n    x = 1\nfinally:\n    if a:\n        x = 2\nprobe(x)",
            ["x = 1", "x = 2"],
            id="finally may bind",
        ),
        pytest.param("x = 0\nmatch y:\n    case x:\n        probe(x)", ["case x:"], id="match"),
        pytest.param(
            "x = 0\nmatch y:\n    case 1:\n        x = 1\nprobe(x)",
            ["x = 0", "x = 1"],
            id="after match",
        ),
        pytest.param(
            "x = 0\nmatch y:\n    case 1:\n        probe(x)", ["x = 0"], id="a case without names"
        ),
        pytest.param("x = 0\nif (x := f()):\n    probe(x)", ["if (x := f()):"], id=":= in if"),
        pytest.param(
            "x = 0\nif (x := f()):\n    pass\nprobe(x)", ["if (x := f()):"], id="after := in if"
        ),
        pytest.param(
            "x = 0\nif a and (x := f()):\n    pass\nprobe(x)",
            ["if a and (x := f()):", "x = 0"],
            id=":= that may not run",
        ),
        pytest.param(
            "x = 0\nif a:\n    pass\nelif (x := f()):\n    probe(x)",
            ["elif (x := f()):"],
            id=":= in elif",
        ),
        pytest.param(
            "x = 0\nwhile (x := f()):\n    probe(x)", ["while (x := f()):"], id=":= in while"
        ),
        pytest.param(
            "x = 0\nwhile (x := f()):\n    pass\nprobe(x)",
            ["while (x := f()):"],
            id="after := in while",
        ),
        pytest.param(
            "x = 0\nf((x := 1), probe(x))",
            ["f((x := 1), probe(x))"],
            id=":= earlier in the expression",
        ),
        pytest.param("x = 0\nf(probe(x), (x := 1))", ["x = 0"], id=":= later in the expression"),
        pytest.param(
            "x = 0\nf(a and (x := 1), probe(x))",
            ["f(a and (x := 1), probe(x))", "x = 0"],
            id=":= that may have run",
        ),
        pytest.param(
            "x = 0\n(x := 1) and probe(x)", ["(x := 1) and probe(x)"], id=":= that ran if this runs"
        ),
        pytest.param("x = 0\n(x := probe(x))", ["x = 0"], id="the value of :="),
        pytest.param(
            "x = 0\ny = a if b else (x := 1)\nprobe(x)",
            ["x = 0", "y = a if b else (x := 1)"],
            id=":= in a conditional expression",
        ),
        pytest.param(
            "x = 0\n[(x := i) for i in y]\nprobe(x)",
            ["[(x := i) for i in y]", "x = 0"],
            id=":= in a comprehension",
        ),
        pytest.param(
            "def f(x):\n    if a:\n        x = 1\n    probe(x)",
            ["x", "x = 1"],
            id="a parameter and a branch",
        ),
        pytest.param("def f(x):\n    x = 1\n    probe(x)", ["x = 1"], id="over a parameter"),
        pytest.param(
            "x = 1\ndef f():\n    probe(x)\nx = 2",
            ["x = 1", "x = 2"],
            id="a function may run at any time",
        ),
        pytest.param(
            "x = 1\nf = lambda: probe(x)\nx = 2", ["x = 1", "x = 2"], id="and so may a lambda"
        ),
        pytest.param(
            "x = 1\nx = 2\ny = [probe(x) for i in z]",
            ["x = 2"],
            id="a comprehension runs where it stands",
        ),
        pytest.param(
            "x = 1\ndef f():\n    global x\n    x = 2\nx = 3\nprobe(x)",
            ["x = 2", "x = 3"],
            id="a global bound elsewhere",
        ),
        pytest.param(
            "for x in a:\n    pass\n[probe(x) for x in b]",
            ["[probe(x) for x in b]"],
            id="a name of a comprehension",
        ),
        pytest.param("class A:\n    x = 1\n    x = 2\n    probe(x)", ["x = 2"], id="a class body"),
        pytest.param(
            "if a: x = 1\nelse: x = 2\nprobe(x)", ["x = 1", "x = 2"], id="one-line branches"
        ),
        pytest.param("probe(x)", [], id="bound nowhere"),
        pytest.param("return\nx = 1\nx = 2\nprobe(x)", ["x = 2"], id="code that is never reached"),
    ],
)
def test_reaching(source: str, bound: list[str]) -> None:
    assert bound_to(parsed(source)) == bound


@pytest.mark.parametrize(
    ("source", "count"),
    [
        pytest.param("x = 1\nx = 2\nx += 1", 1, id="the last one"),
        pytest.param("def f():\n    global x\n    x += 1\nx = 1\nx = 2", 3, id="a global"),
        pytest.param("f()\ny += 1", 1, id="itself, of a single binding"),
    ],
)
def test_before_a_statement(source: str, count: int) -> None:
    program = parsed(source)
    (statement,) = program.index.of(cst.AugAssign)
    assert isinstance(statement.target, cst.Name)
    assert len(program.flow.before(statement, statement.target.value)) in (count, count - 1)
    assert program.flow.before(statement, "nobody") == ()


def test_a_thousand_rebindings_are_followed_at_once() -> None:
    program = parsed("x = 0\n" + "if a:\n    x = 1\n" * 500 + "x = 2\nprobe(x)")
    assert bound_to(program) == ["x = 2"]
    assert len(program.flow.reaching(probed(program))) == 1  # type: ignore[arg-type]  # a Name
