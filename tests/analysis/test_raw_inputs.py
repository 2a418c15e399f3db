"""Whether a module of another file is fed with batches as they are loaded."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from torchlint.analysis.project import Project
from torchlint.imports import Imports
from torchlint.rule import Severity
from torchlint_rules.checkpoint_use_reentrant import checkpoint_use_reentrant

if TYPE_CHECKING:
    from pathlib import Path

NETS = """
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 2)

        def forward(self, x):
            return checkpoint(self.fc, x)
    """
MAIN = """
    import torch
    from nets import Net

    model = Net()
    for x, y in torch.utils.data.DataLoader(data):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    """


@pytest.mark.parametrize(
    ("main", "severity"),
    [
        pytest.param(MAIN, Severity.ERROR, id="batches"),
        pytest.param(MAIN.replace("model(x)", "model(stem(x))"), None, id="something else"),
        pytest.param(
            MAIN.replace("    loss =", "    x.requires_grad_()\n        loss ="), None, id="asked"
        ),
    ],
)
def test_across_files(main, severity, tmp_path: Path):
    (tmp_path / "nets.py").write_text(textwrap.dedent(NETS))
    (tmp_path / "main.py").write_text(textwrap.dedent(main))
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "nets.py"))
    assert program is not None
    (found,) = checkpoint_use_reentrant(program)
    assert found.severity is severity
