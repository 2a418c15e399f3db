"""What is written where a GPU is asked for."""

from __future__ import annotations

import pytest
from revealing import evaluated

from torchlint.training.copies import all_copies
from torchlint.training.gpu_condition import condition_for_gpu
from torchlint.training.loaders import loaders

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
LOOP = "for x in loader:\n    x.to(device)\n"


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("device = 'cuda'", "True"),
        ("device = torch.device('cuda')", "True"),
        ("device = torch.device('cuda' if ok else 'cpu')", 'device.type == "cuda"'),
        ("device = 'cuda' if ok else 'cpu'", "torch.cuda.is_available()"),
        ("device = other = torch.device('cuda' if ok else 'cpu')", 'device.type == "cuda"'),
        ("if ok:\n    device = torch.device('cuda' if ok else 'cpu')", "torch.cuda.is_available()"),
        ("from elsewhere import device", "torch.cuda.is_available()"),
    ],
)  # fmt: skip
def test_condition(before: str, code: str) -> None:
    evaluation = evaluated(f"{HEAD}{before}\nloader = DataLoader(data)\n{LOOP}")
    (loader,) = loaders(evaluation)
    found = condition_for_gpu(evaluation, loader.at, all_copies(evaluation))
    assert found is not None
    assert found == code


def test_torch_may_have_no_name() -> None:
    evaluation = evaluated(
        f"from torch.utils.data import DataLoader\nloader = DataLoader(d)\n{LOOP}"
    )
    (loader,) = loaders(evaluation)
    found = condition_for_gpu(evaluation, loader.at, ())
    assert found is not None
    assert found.startswith("torch.")
