"""Parts of a batch that no loader pins: objects of classes without the method."""

from __future__ import annotations

import pytest
from probing import HEAD

from torchlint.analysis.program import Program
from torchlint.analysis.unpinned import pinning_parts, unpinned_parts

CLASSES = """\
class Batch(object):
    def __call__(self, b):
        return b
class Pinned:
    def pin_memory(self):
        return self
class Child(dict):
    pass
class Forward:
    def __getattr__(self, name):
        return getattr(self.x, name)
class Grandchild(Pinned):
    pass
class Itself(Itself):
    pass
class Apart:
    def __call__(self, b):
        return list(zip(*b))
class Together:
    def __call__(self, b):
        return Batch(b), 1
def make(b):
    return Batch(b)
def once(x):
    if isinstance(x, Batch):
        return x
    return Batch(x)
def anything(x):
    if isinstance(x, Pinned):
        return x
    return Batch(x)
def other(x, y):
    if isinstance(x, Batch):
        return y
    return Batch(x)
"""


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        pytest.param("def f(b):\n    return b", set(), id="a batch"),
        pytest.param("f = Pinned", set(), id="a class that pins itself"),
        pytest.param("f = Child", set(), id="a class with a base"),
        pytest.param("f = Forward", set(), id="a class that may forward it"),
        pytest.param("f = Grandchild", set(), id="a class that inherits the method"),
        pytest.param("f = Batch(3)", set(), id="an object that is called"),
        pytest.param("f = lambda b: (Pinned(b), b)", set(), id="beside one that pins itself"),
        pytest.param("f = lambda b: (*b, Batch(b))", set(), id="at a place that is not known"),
        pytest.param(
            "def f(b):\n    if c:\n        return b\n    return Batch(b)", set(), id="perhaps"
        ),
        pytest.param(
            "def f(b):\n    b[0] = Batch(b)\n    b[0] = b[0].x\n    return b", set(), id="no longer"
        ),
        pytest.param("def f(b):\n    return anything(b), b", set(), id="one of two classes"),
        pytest.param("def f(b):\n    return other(b, b), b", set(), id="another is asked"),
        pytest.param("f = Together() if c else g", set(), id="one of two that are called"),
        pytest.param("f = Apart()", set(), id="what takes samples apart"),
        pytest.param("def f(b):\n    return Batch(b)", {()}, id="an object"),
        pytest.param("def f(b):\n    return once(b), b", {(0,)}, id="made once"),
        pytest.param("def f(b):\n    x = once(b)\n    return x, b", {(0,)}, id="and kept"),
        pytest.param("f = Together() if c else Together()", {(0,)}, id="two that are called"),
        pytest.param("f = Apart() if c else Together()", {(0,)}, id="beside samples taken apart"),
        pytest.param("f = lambda b: Batch(b)", {()}, id="an object of a lambda"),
        pytest.param("f = Batch", {()}, id="the class"),
        pytest.param(
            "from functools import partial\ndef g(b, n):\n    return Batch(b)\nf = partial(g, n=3)",
            {()},
            id="by a function with some of its arguments",
        ),
        pytest.param(
            "def partial(g, n):\n    return h\ndef g(b, n):\n    return Batch(b)\n"
            "f = partial(g, n=3)",
            set(),
            id="by another function of that name",
        ),
        pytest.param(
            "def f(b):\n    return make(b), b", {(0,)}, id="by a function, the first of two"
        ),
        pytest.param("f = lambda b: {'x': b, 'y': Batch(b)}", {("y",)}, id="by a key"),
        pytest.param("def f(b):\n    c = [b, Batch(b)]\n    return c", {(1,)}, id="by a name"),
        pytest.param(
            "def f(b):\n    b = list(b)\n    b[0] = Batch(b)\n    return tuple(b)",
            {(0,)},
            id="put there later",
        ),
        pytest.param(
            "def f(b):\n    d = dict(b)\n    d['x'] = Batch(b)\n    d[k] = 0\n    return d",
            {("x",)},
            id="put there by a key",
        ),
    ],
)
def test_parts(source: str, parts: set[tuple[int | str, ...]]) -> None:
    program = Program(f"{HEAD}{CLASSES}{source}\nDataLoader(d, collate_fn=f)")
    (call,) = program.loaders.calls
    assert unpinned_parts(program, call) == parts


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        pytest.param("def f(b):\n    return b", set(), id="a batch"),
        pytest.param("def f(b):\n    return Batch(b)", set(), id="without the method"),
        pytest.param("def f(b):\n    return other.Pinned(b)", set(), id="of another library"),
        pytest.param("def f(b):\n    return Pinned", set(), id="the class, not an object"),
        pytest.param("f = Pinned", {()}, id="the class itself collates"),
        pytest.param("def f(b):\n    return Pinned(b)", {()}, id="an object"),
        pytest.param("def f(b):\n    return Grandchild(b)", {()}, id="that inherits the method"),
        pytest.param("def f(b):\n    return Pinned(b), b", {(0,)}, id="the first of two"),
        pytest.param(
            "def f(b):\n    if c:\n        return None, b\n    return Pinned(b)", {()}, id="perhaps"
        ),
    ],
)
def test_parts_that_pin_by_themselves(source: str, parts: set[tuple[int | str, ...]]) -> None:
    program = Program(f"{HEAD}{CLASSES}{source}\nDataLoader(d, collate_fn=f)")
    (call,) = program.loaders.calls
    assert pinning_parts(program, call) == parts
