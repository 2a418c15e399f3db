"""Which loop goes through a loader again and again."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed

from torchlint.analysis.passes import draws, repeating

USES = """\
def go(batches):
    for x in batches:
        f(x)
def go_on(batches):
    bar = tqdm(batches)
    go(bar)
"""


def repeated(source: str) -> list[str]:
    """Return for each loader the loop that repeats it, or ""."""
    program = parsed(source, HEAD + USES)
    found = [repeating(program, loader) for loader in program.loaders.calls]
    return ["" if loop is None else loop.header for loop in found]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("a = DataLoader(d)\nfor x in a: f(x)", "", id="once"),
        pytest.param(
            "a = DataLoader(d)\nfor e in es:\n    for x in a: f(x)", "for e in es", id="again"
        ),
        pytest.param(
            "a = DataLoader(d)\nfor e in es:\n    pass\nelse:\n    for x in a: f(x)",
            "",
            id="when the loop ends",
        ),
        pytest.param("for e in es:\n    for x in DataLoader(d): f(x)", "", id="made anew"),
        pytest.param(
            "a = DataLoader(d)\nfor e in range(1):\n    for x in a: f(x)", "", id="one turn"
        ),
        pytest.param(
            "a = DataLoader(d)\nfor e in ['train']:\n    for x in a: f(x)", "", id="one element"
        ),
        pytest.param(
            "a = DataLoader(d)\nn = 1\nfor e in range(n):\n    for x in a: f(x)",
            "",
            id="one turn, by a name",
        ),
        pytest.param(
            "def run(a, n=1):\n    for e in range(n):\n        for x in a: f(x)\n"
            "run(DataLoader(d))",
            "",
            id="one turn, by a default that callers keep",
        ),
        pytest.param(
            "def run(a, n=1):\n    for e in range(n):\n        for x in a: f(x)\n"
            "run(DataLoader(d), 9)",
            "for e in range(n)",
            id="a default that a caller replaces",
        ),
        pytest.param(
            "a = DataLoader(d)\nfor e in range(3):\n    for x in a: f(x)", "", id="a few turns"
        ),
        pytest.param(
            "a = DataLoader(d)\nn = 2\nfor e in range(n): go(a)", "", id="a few turns, by a name"
        ),
        pytest.param(
            "a = DataLoader(d)\nfor e in range(4):\n    for x in a: f(x)",
            "for e in range(4)",
            id="more turns",
        ),
        pytest.param(
            "def run(a, n=2):\n    for e in range(n): go(a)\nrun(DataLoader(d))",
            "for e in range(n)",
            id="a few turns, if nobody asks for more",
        ),
        pytest.param(
            "a = DataLoader(d)\nfor r in range(2):\n    for e in range(2): go(a)",
            "for e in range(2)",
            id="a few turns in each of a few",
        ),
        pytest.param(
            "a = DataLoader(d)\nfor e in range(2): go(a)\nwhile c: go(a)",
            "for e in range(2)",
            id="a few turns, and others",
        ),
        pytest.param(
            "a = {'x': DataLoader(d)}\nfor p in ps:\n    for x in a[p]: f(x)",
            "",
            id="another loader in each turn",
        ),
        pytest.param(
            "a = DataLoader(d)\nfor e in es:\n    for i, x in enumerate(a, e * len(a)): f(x)",
            "for e in es",
            id="the same loader, counted on",
        ),
        pytest.param(
            "a = {'x': DataLoader(d)}\nwhile c:\n    for p in ps: go(a[p])",
            "while c",
            id="the loop around one that chooses",
        ),
        pytest.param(
            "a = DataLoader(d)\nfor e in [*es]:\n    for x in a: f(x)",
            "for e in [*es]",
            id="elements of a list",
        ),
        pytest.param("a = DataLoader(d)\ngo(a)", "", id="by a function, once"),
        pytest.param("a = DataLoader(d)\nwhile c: go(a)", "while c", id="by a function"),
        pytest.param("a = DataLoader(d)\nwhile c: go_on(a)", "while c", id="by two functions"),
        pytest.param("a = DataLoader(d)\nwhile c: go(b)\ngo(a)", "", id="another argument"),
        pytest.param(
            "def main():\n    a = DataLoader(d)\n    go(a)\nwhile c: main()",
            "",
            id="made in a function",
        ),
        pytest.param(
            "def main():\n    a = DataLoader(d)\n    while b: go(a)\nwhile c: main()",
            "while b",
            id="made in the outer loop",
        ),
        pytest.param(
            "a = DataLoader(d)\nwhile c:\n    for x in a:\n        go(a)", "", id="inside itself"
        ),
        pytest.param(
            "a = DataLoader(d)\nwhile c:\n    for x in a:\n        y = next(iter(a))",
            "",
            id="another iterator inside",
        ),
        pytest.param(
            "a = DataLoader(d)\nb = next(iter(a))\nwhile c:\n    go(a)",
            "while c",
            id="an iterator before",
        ),
    ],
)
def test_repeating(source: str, expected: str) -> None:
    assert repeated(source) == [expected]


RUNNER = """
class Runner:
    def __init__(self, model, data):
        self.data = data
    def run(self):
        for x in self.data: f(x)
a, b = DataLoader(d), DataLoader(d)
"""
KEEPS = """
class Both:
    def __init__(self):
        self.often = Runner(net, a)
        self.last = Runner(net, b)
    def go(self):
        for e in es:
            self.often.run()
        self.last.run()
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "often, last = 1, 2\noften = Runner(net, a)\nlast = Runner(net, b)\n"
            "for e in es:\n    often.run()\nlast.run()",
            ["for e in es", ""],
            id="names",
        ),
        pytest.param(KEEPS, ["for e in es", ""], id="attributes"),
        pytest.param(
            "r = Runner(net, a)\nif c:\n    r = Runner(net, b)\nfor e in es:\n    r.run()",
            ["for e in es"] * 2,
            id="one of two",
        ),
        pytest.param(
            "r = Runner(net, a)\nif c:\n    r = pick(r, b)\nfor e in es:\n    r.run()\n"
            "Runner(net, b)",
            ["for e in es"] * 2,
            id="not known what",
        ),
    ],
)
def test_repeated_of_objects_that_keep_a_loader(source: str, expected: list[str]) -> None:
    assert repeated(RUNNER + source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("it = iter(a)\nwhile c:\n    x = next(it)\n    loss.backward()", ["next(it)"]),
        ("it = iter(a)\nwhile c:\n    x = it.next()\n    loss.backward()", ["it.next()"]),
        ("it = iter(a)\nx = next(it)", []),
        ("it = iter(b)\nwhile c:\n    x = next(it)\n    loss.backward()", []),
        ("while c:\n    x = next(iter(a))\n    loss.backward()", []),
        ("it = iter(a)\nfor i in y:\n    loss.backward()\n    if i % 9 == 0: next(it)", []),
    ],
)
def test_draws(source: str, expected: list[str]) -> None:
    program = parsed(f"a = DataLoader(d)\n{source}", HEAD)
    found = draws(program, program.loaders.calls[0])
    assert [program.code(call) for call in found] == expected
