"""The evaluation ends, whatever it is given, and says the same in every run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from revealing import evaluated

from torchlint.deep import with_deep_stack
from torchlint.semantics.sets import Sets
from torchlint.semantics.values import NEVER, Method, Number, Sequence

ROOT = Path(__file__).parents[2]
CHAIN = "\n".join(f"def f{k}(x):\n    return f{k + 1}(x)" for k in range(400))
HOSTILE = {
    "numbers of any length": f"x = {'1' * 5000}\nif c():\n    x = 0x{'f' * 5000}\nx, 1e999, 1_0",
    "a list that holds itself": "x = []\nx.append(x)\nfor y in x:\n    y.append(y)",
    "a dictionary that holds itself": "d = {}\nd['d'] = d\nd.update(d)\ne = {**d, 'e': d}",
    "a list that grows around itself": "x = [1]\nwhile c():\n    x = [x, (x, x)]",
    "an attribute that grows": "class A:\n    def f(self):\n        self.x = (self.x, 1)\nA().f()",
    "functions that call one another": "\n".join(
        f"def g{k}(x):\n    return g{(k * 7 + 1) % 300}([x]) + g{(k * 5 + 3) % 300}({{'k': x}})"
        for k in range(300)
    )
    + "\ng0(1)",
    "a long chain of calls": CHAIN + "\ndef f400(x):\n    return x\nf0(1)",
    "numbers without end": "n = 0\nwhile c():\n    n = n + 1\n    s = 'a' * n",
    "a class that extends itself": "class A(A):\n    pass\nA().x",
    "functions that return themselves": "def f():\n    return f\nf()()()()()",
    "a generator of itself": "def g():\n    yield g()\n    yield from g()\nfor x in g():\n    pass",
    "deep parentheses": "x = " + "(" * 150 + "1" + ")" * 150,
    "a name bound nowhere": "x = y\ndel z\nfrom nowhere import *\nw",
}
# Prints a hash of all values of the scripts of fixtures/, by file and node.
PRINTS = """
import hashlib, sys
sys.path[:0] = [{semantics!r}]
from pathlib import Path
from revealing import evaluated
paths = sorted(Path({scripts!r}).glob("*.py"))
evaluation = evaluated({{path.name: path.read_text(encoding="utf-8") for path in paths}})
told = [
    (file, number, repr(evaluation.values.get(id(node))))
    for file, module in enumerate(evaluation.files.modules)
    for number, node in enumerate(module.index.nodes)
]
print(hashlib.sha256(repr(told).encode()).hexdigest())
"""


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
def test_it_ends(code: str) -> None:
    evaluation = with_deep_stack(lambda: evaluated(code))
    assert all(unit.runs for unit in evaluation.units.values())


def test_hash_seeds_change_nothing() -> None:
    code = PRINTS.format(
        semantics=str(Path(__file__).parent), scripts=str(ROOT / "fixtures" / "scripts")
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(told) == 1


def test_the_order_in_which_files_are_given_changes_nothing() -> None:
    files = {
        "a.py": "from b import f\nx = f(1)",
        "b.py": "def f(n):\n    return n",
        "c.py": "import a",
    }
    told = []
    for order in (files, dict(reversed(files.items()))):
        evaluation = evaluated(order)
        nodes = [node for module in evaluation.files.modules for node in module.index.nodes]
        told.append([repr(evaluation.values.get(id(node))) for node in nodes])
    assert told[0] == told[1]


def test_what_holds_itself_many_times_over_takes_no_memory() -> None:
    sets = Sets()
    number = sets.one(Number(1))
    value = number
    for _ in range(80):  # written out, the last of them has 2 ** 80 parts
        owner = Sequence("list", (value, value), NEVER, None)
        value = sets.union(sets.one(Method(owner, "append")), number)
    assert len(value) == 2
