"""Each public name of torch has one spelling."""

from __future__ import annotations

import pytest

from torchlint.semantics.names import canonical


@pytest.mark.parametrize(
    ("name", "documented"),
    [
        ("torch.nn.modules.conv.Conv2d", "torch.nn.Conv2d"),
        ("torch.nn.modules.Conv2d", "torch.nn.Conv2d"),
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.optim.adamw.AdamW", "torch.optim.AdamW"),
        ("torch.autograd.grad_mode.no_grad", "torch.no_grad"),
        ("torch.nn.parallel.data_parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.DistributedDataParallel"),
        ("torch.nn.functional.relu", "torch.nn.functional.relu"),
        ("torch", "torch"),
        ("numpy.random.rand", "numpy.random.rand"),
    ],
)
def test_one_spelling(name: str, documented: str) -> None:
    assert canonical(name) == documented
