"""What a loader gives: tensors on a GPU, objects of a class that nothing pins."""

from __future__ import annotations

import pytest

from torchlint.analysis.loaded import yields_gpu_tensors
from torchlint.analysis.program import Program

HEAD = "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        pytest.param("DataLoader(load())", False, id="not known"),
        pytest.param("DataLoader(TensorDataset(x.cuda()))", True, id="tensors"),
        pytest.param("DataLoader(TensorDataset(torch.ones(3)))", False, id="tensors of the host"),
        pytest.param("d = TensorDataset(x.to('cuda'))\nDataLoader(d)", True, id="with a name"),
        pytest.param("DataLoader(x.cuda())", True, id="a tensor"),
        pytest.param(
            "class D:\n    def f(self, i):\n        return torch.ones(3, device='cuda')\n"
            "DataLoader(D())",
            True,
            id="a class",
        ),
        pytest.param(
            "class C:\n    def __call__(self, b):\n        return b.to('cuda')\n"
            "DataLoader(d, collate_fn=C())",
            True,
            id="a callable object",
        ),
        pytest.param(
            "class C:\n    def f(self, b):\n        return b.to('cpu')\n    def g(self, b):\n"
            "        return b.to('cuda')\nc = C()\nDataLoader(d, collate_fn=c.g)",
            True,
            id="a method",
        ),
        pytest.param(
            "def f(b):\n    return b.to(torch.float16)\nDataLoader(d, collate_fn=f)",
            False,
            id="a function that only converts",
        ),
        pytest.param(
            "from functools import partial\ndef f(b, n):\n    return b.to('cuda')\n"
            "DataLoader(d, collate_fn=partial(f, n=3))",
            True,
            id="a function with some of its arguments",
        ),
        pytest.param(
            "from functools import partial\ndef f(b, n):\n    return b\n"
            "DataLoader(d, collate_fn=partial(f, n=torch.ones(3, device='cuda')))",
            False,
            id="an argument alone is on a GPU",
        ),
        pytest.param("DataLoader(d, collate_fn=tool.f)", False, id="something of another file"),
    ],
)
def test_loaders_that_give_tensors_on_a_gpu(source, answer):
    program = Program(HEAD + source)
    (call,) = program.loaders.calls
    assert yields_gpu_tensors(program, call) is answer
