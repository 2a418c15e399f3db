"""What is done with a loader wherever it goes."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed

from torchlint.analysis.loader_uses import Use, use_of

MADE = "loader = DataLoader(dataset, 8)\n"


def use(source: str) -> Use:
    program = parsed(source, HEAD)
    return use_of(program, program.loaders.calls[0])


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(f"{MADE}for x in loader: pass", id="a loop"),
        pytest.param(f"{MADE}for i, x in enumerate(tqdm(loader)): pass", id="wrapped"),
        pytest.param(f"{MADE}print(len(loader), len(loader.dataset))", id="its length"),
        pytest.param(f"{MADE}xs = [x for x in loader]", id="a comprehension"),
        pytest.param(f"{MADE}same = loader\nfor x in same: pass", id="another name"),
        pytest.param("for x in DataLoader(dataset, 8): pass", id="without a name"),
        pytest.param("DataLoader(dataset, 8)", id="for nothing"),
        pytest.param(f"def f(a, b):\n    for x in b: pass\n{MADE}f(1, b=loader)", id="passed"),
        pytest.param(f"def f():\n    {MADE}    return loader\nfor x in f(): pass", id="returned"),
        pytest.param(
            f"def f():\n    {MADE}    return loader, 1\na, b = f()\nfor x in a: pass",
            id="returned with others",
        ),
        pytest.param(f"def f(a):\n    f(a)\n{MADE}f(loader)", id="passed in a circle"),
        pytest.param(
            f"def f(m):\n    {MADE}    if m: return loader\n    return 1, 2\n"
            "for x in f(True): pass\na, b = f(False)",
            id="returned to some calls",
        ),
    ],
)
def test_iterated(source):
    assert use(source) is Use.ITERATED


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(f"{MADE}n = loader.batch_size", id="by name"),
        pytest.param(f"def f(a):\n    return a.sampler\n{MADE}f(loader)", id="in a function"),
        pytest.param(f"{MADE}unknown(loader)\nn = loader.drop_last", id="before it goes away"),
    ],
)
def test_asked(source):
    assert use(source) is Use.ASKED


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(f"{MADE}train(loader)", id="a function of another file"),
        pytest.param(f"{MADE}self.loader = loader", id="kept in an object"),
        pytest.param(f"{MADE}loaders = [loader]", id="kept in a list"),
        pytest.param(f"{MADE}a = b = loader", id="two names at once"),
        pytest.param(f"{MADE}x = loader.unknown", id="another attribute"),
        pytest.param(f"{MADE}x = loader if a else b", id="one of two"),
        pytest.param(f"def f(*a): ...\n{MADE}f(loader)", id="behind a star"),
        pytest.param(f"def f():\n    {MADE}    return loader", id="returned to nobody"),
        pytest.param(f"def f():\n    {MADE}    return [loader]\nf()", id="returned in a list"),
        pytest.param(
            f"def f():\n    {MADE}    return loader, 1\nx = f()", id="returned with others, kept"
        ),
        pytest.param(
            f"def f():\n    {MADE}    return loader, 1\nx, *y = f()", id="unpacked with a star"
        ),
        pytest.param(
            f"class A:\n    @property\n    def f(self):\n        {MADE}        return loader",
            id="a property",
        ),
        pytest.param("return_ = lambda: DataLoader(dataset, 8)", id="a lambda"),
        pytest.param(MADE + "a0 = loader\n" + "".join(f"a{i + 1} = a{i}\n" for i in range(70)),
                     id="too far"),
    ],
)  # fmt: skip
def test_unknown(source):
    assert use(source) is Use.UNKNOWN
