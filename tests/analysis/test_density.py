"""Which tensors lie in memory in the order of their dimensions."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed, probed

from torchlint.analysis.density import is_dense

MORE = "import pandas as pd\nimport random\nfrom sklearn.model_selection import train_test_split\n"


def dense(source: str) -> bool:
    program = parsed(source, HEAD + MORE)
    return is_dense(program, probed(program))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("probe(torch.randn(9, 3, 4, 4))", id="random numbers"),
        pytest.param("probe(torch.tensor([1, 2]))", id="a list"),
        pytest.param("probe(torch.tensor([f(x) for x in y], dtype=torch.long))", id="a list of y"),
        pytest.param("probe(torch.tensor(list(range(9))))", id="a list of a builtin"),
        pytest.param("x = []\nx.append(y)\nprobe(torch.tensor(x))", id="a list that grows"),
        pytest.param("x = [1]\nx += [2]\nprobe(torch.tensor(x))", id="a list that is added to"),
        pytest.param("x = torch.rand(9)\nprobe((x * 2 + 1).float().unsqueeze(1))", id="computed"),
        pytest.param("x = torch.rand(9)\nprobe(-torch.sin(x) > 0)", id="compared"),
        pytest.param("x = torch.rand(9, 4, 4)\nprobe(x[:5, None, 1:])", id="a part"),
        pytest.param("x = np.random.rand(9, 4)\nprobe(torch.from_numpy(x).to(device))", id="NumPy"),
        pytest.param("df = pd.read_csv(f)\nprobe(torch.tensor(df['a'].values))", id="a table"),
        pytest.param("probe(torch.tensor(anything().to_numpy()))", id="another table"),
        pytest.param(
            "a, b = train_test_split(np.zeros(9), random_state=0)\nprobe(torch.tensor(b))",
            id="a split",
        ),
        pytest.param("x = torch.rand(9)\nprobe(torch.stack([x, x], dim=1))", id="joined"),
        pytest.param("probe(x.permute(0, 2, 1).contiguous())", id="contiguous"),
        pytest.param("def f():\n    return torch.ones(3)\nprobe(f())", id="of a function"),
        pytest.param("probe(torch.ones(3) if a else torch.zeros(3))", id="one of two"),
        pytest.param("probe(torch.full((9, 4), np.pi))", id="a constant"),
    ],
)
def test_dense(source):
    assert dense(source)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("probe(torch.randn(9, 4, 4, 3).permute(0, 3, 1, 2))", id="permuted"),
        pytest.param("probe(torch.permute(torch.ones(9, 4, 4), (0, 2, 1)))", id="by a function"),
        pytest.param("probe(torch.randn(3, 9).T)", id="transposed"),
        pytest.param(
            "x = np.random.rand(9, 4, 4, 3).transpose(0, 3, 1, 2)\nprobe(torch.tensor(x).float())",
            id="transposed in NumPy",
        ),
        pytest.param("probe(torch.ones(9, 3, 4, 4).to(memory_format=m))", id="channels last"),
        pytest.param("probe(torch.tensor(data=x))", id="unknown data, by keyword"),
        pytest.param("probe(torch.tensor(np.array(x, order='F')))", id="columns first"),
        pytest.param("probe(torch.tensor(np.load(f)))", id="from a file"),
        pytest.param("probe(torch.linalg.svd(torch.rand(9, 3, 3)))", id="linear algebra"),
        pytest.param("probe(abs(x))", id="a builtin of an unknown"),
        pytest.param("probe(torch.tensor(x))", id="unknown"),
        pytest.param("def f(x):\n    probe(x)", id="a parameter"),
        pytest.param("for x in y:\n    probe(x)", id="what a loop binds"),
        pytest.param("with f() as x:\n    probe(x)", id="what a context gives"),
        pytest.param("probe(f(torch.ones(3)))", id="of an unknown function"),
        pytest.param("probe(f.g(torch.ones(3)))", id="of an unknown method"),
        pytest.param("probe(torch.stack(xs))", id="a list of unknown tensors"),
        pytest.param("xs = [x]\nprobe(torch.stack(xs))", id="a list with a name"),
        pytest.param("xs = [x]\nprobe(xs[0])", id="of a list"),
        pytest.param("probe(torch.cat([torch.ones(3), x]))", id="joined with an unknown one"),
        pytest.param("probe(torch.ones(*x))", id="behind a star"),
        pytest.param("x = x + 1\nprobe(x)", id="of itself"),
        pytest.param("x += torch.ones(3)\nprobe(x)", id="added to an unknown one"),
        pytest.param("x = torch.ones(3)\nx += y\nprobe(x)", id="an unknown one is added"),
        pytest.param("x.y += 1\nprobe(x.y)", id="an attribute of an unknown object"),
    ],
)
def test_not_seen_to_be_dense(source):
    assert not dense(source)
