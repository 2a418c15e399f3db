"""Branches that only run where no GPU is used."""

from __future__ import annotations

import pytest
from probing import parsed, probed

from torchlint.analysis.branches import without_gpu


@pytest.mark.parametrize(
    "branches",
    [
        pytest.param("if torch.cuda.is_available():\n    probe(1)", id="where there is a GPU"),
        pytest.param("if use_cuda:\n    probe(1)", id="by a name"),
        pytest.param("if args.cuda:\n    probe(1)", id="by an option"),
        pytest.param("if not args.no_cuda:\n    probe(1)", id="not refused"),
        pytest.param("if other:\n    pass\nelse:\n    probe(1)", id="anything else"),
        pytest.param("if gpu:\n    pass\nelse:\n    probe(1)", id="the number of a GPU"),
        pytest.param("if args.gpu is not None:\n    pass\nelse:\n    probe(1)", id="any GPU"),
        pytest.param("if multi_gpu:\n    pass\nelse:\n    probe(1)", id="one GPU"),
        pytest.param("if torch.cuda.device_count() > 1:\n    pass\nelse:\n    probe(1)", id="one"),
        pytest.param("if use_cuda and fast:\n    pass\nelse:\n    probe(1)", id="or slow"),
        pytest.param("if not use_cuda or slow:\n    probe(1)", id="or slow, at once"),
        pytest.param("if device == 'cuda':\n    pass\nelse:\n    probe(1)", id="perhaps cuda:1"),
        pytest.param("if device.type != 'cpu':\n    probe(1)", id="not the CPU"),
        pytest.param("if device.type == 'mps':\n    pass\nelse:\n    probe(1)", id="not MPS"),
        pytest.param("if 'mps' not in text:\n    probe(1)", id="text"),
        pytest.param("if not use_cuda:\n    pass\nprobe(1)", id="after the branch"),
        pytest.param(
            "def f():\n    if not use_cuda:\n        return 0\n    probe(1)", id="after the others"
        ),
        pytest.param(
            "def f():\n    if use_cuda:\n        g()\n    probe(1)", id="after one that goes on"
        ),
        pytest.param("probe(1) if use_cuda else 0", id="an expression"),
        pytest.param("if not use_cuda:\n    def f():\n        probe(1)", id="a function"),
    ],
)
def test_may_use_a_gpu(branches: str) -> None:
    program = parsed(branches, "import torch\n")
    assert not without_gpu(program, probed(program))


@pytest.mark.parametrize(
    "branches",
    [
        pytest.param(
            "def f():\n    if torch.cuda.is_available():\n        return 0\n    probe(1)",
            id="after a branch that leaves",
        ),
        pytest.param(
            "def f():\n    if x:\n        pass\n    elif use_cuda:\n        raise E\n    else:\n"
            "        probe(1)",
            id="in the last arm",
        ),
        "if torch.cuda.is_available():\n    pass\nelse:\n    probe(1)",
        "if not torch.cuda.is_available():\n    probe(1)",
        "if use_cuda:\n    pass\nelse:\n    for x in y:\n        probe(1)",
        "if args.use_gpu:\n    pass\nelif fast:\n    probe(1)",
        "if args.no_cuda:\n    probe(1)",
        "if self.cpu_only:\n    probe(1)",
        "on = not opt.no_cuda and torch.cuda.is_available()\nif on:\n    pass\nelse:\n    probe(1)",
        "if not use_cuda and slow:\n    probe(1)",
        "if device.type == 'cuda':\n    pass\nelse:\n    probe(1)",
        "if device == 'cpu':\n    probe(1)",
        "if str(device) != 'cpu':\n    pass\nelse:\n    probe(1)",
        "if 'cuda' in str(device):\n    pass\nelse:\n    probe(1)",
        "mps = 'mps' in device.type\nif mps:\n    probe(1)",
        "if torch.backends.mps.is_available():\n    probe(1)",
        "0 if use_cuda else probe(1)",
    ],
)
def test_uses_no_gpu(branches: str) -> None:
    program = parsed(branches, "import torch\n")
    assert without_gpu(program, probed(program))
