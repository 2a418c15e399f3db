"""How often loaders are made and gone through."""

from __future__ import annotations

import pytest
from revealing import evaluated

from torchlint.training.loaders import loaders
from torchlint.training.passes import repeating as found_in

HEAD = "from torch.utils.data import DataLoader\nfrom tqdm import tqdm\n"
RUN = "def run(batches):\n    for x in tqdm(batches):\n        f(x)\n"
MADE = "loader = DataLoader(data)\n"
KEPT = """
class T:
    def __init__(self):
        self.data = DataLoader(a)
    def one(self):
        for x in self.data:
            f(x)
    def fit(self):
        for e in n:
            self.one()
"""
PICKED = """
d = {k: DataLoader(k) for k in ks}
for e in n:
    for k in ks:
        batches = d[k]
        run(batches)
"""


def repeating(code: str) -> list[str]:
    """Return what the loops go through, or ask, that repeat passes over the first loader."""
    evaluation = evaluated(HEAD + code)
    found = found_in(evaluation, loaders(evaluation)[0])
    code_of = evaluation.files.modules[0].code
    return [
        code_of(getattr(around.loop, "iter", None) or around.loop.test)  # type: ignore[attr-defined]
        for _, around in found
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (MADE + "for e in range(9):\n    for x in loader:\n        f(x)", ["range(9)"]),
        (MADE + "for x in loader:\n    f(x)", []),
        (RUN + MADE + "while True:\n    run(loader)", ["True"]),
        (RUN + "for e in range(9):\n    run(DataLoader(data))", []),
        (RUN + MADE + "for e in n:\n    run(DataLoader(other))\nrun(loader)", []),
        (RUN + "for f in folds:\n    a = DataLoader(f)\n    for e in n:\n        run(a)", ["n"]),
        (RUN + MADE + "rest = DataLoader(b)\nfor one in (loader, rest):\n    run(one)", []),
        (RUN + PICKED, ["n"]),
        (MADE + "for e in range(1):\n    for x in loader:\n        f(x)", []),
        (MADE + "for e in n:\n    for x in loader:\n        f(x)\n    break", []),
        (MADE + "for e in n:\n    continue\n    for x in loader:\n        f(x)", []),
        (MADE + "for e in n:\n    if e == m:\n        for x in loader:\n            f(x)", []),
        (MADE + "for e in n:\n    if e > m:\n        for x in loader:\n            f(x)", ["n"]),
        (MADE + "for i in range(n):\n    x = next(iter(loader))", ["range(n)"]),
        (MADE + "it = iter(loader)\nfor i in range(n):\n    x = next(it)", []),
        (KEPT, ["n"]),
    ],
)
def test_which_loops_repeat(code: str, expected: list[str]) -> None:
    assert repeating(code) == expected
