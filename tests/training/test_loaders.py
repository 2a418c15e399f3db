"""Loaders, what they are told, and where their batches go."""

from __future__ import annotations

import pytest
from revealing import evaluated

from torchlint.semantics.values import Device, Loaded
from torchlint.training.copies import Batches, all_copies
from torchlint.training.loaders import loaders

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(
    ("code", "workers", "pinned"),
    [
        ("DataLoader(data)", 0, False),
        ("DataLoader(data, num_workers=4, pin_memory=True)", 4, True),
        ("DataLoader(data, 1, True, None, None, 2)", 2, False),
        ("k = {'num_workers': 3}\nDataLoader(data, **k)", 3, False),
        ("DataLoader(data, num_workers=n(), pin_memory=c())", None, None),
        ("DataLoader(data, **options())", None, None),
        ("k = {}\nif cuda:\n    k.update(num_workers=2)\nDataLoader(data, **k)", None, False),
    ],
)
def test_what_they_are_told(code: str, workers: int | None, pinned: bool | None) -> None:
    (loader,) = loaders(evaluated(HEAD + code))
    assert (loader.told("num_workers", 0), loader.is_pinned) == (workers, pinned)


def test_where_their_batches_go() -> None:
    code = """
first, second = DataLoader(a), DataLoader(b)
for x, y in first:
    x, y = x.cuda(non_blocking=True), y.to("cpu")
    x.float()
for x in second:
    pass
"""
    evaluation = evaluated(HEAD + code)
    copies = tuple(all_copies(evaluation))
    assert [copy.targets for copy in copies] == [{Device.CUDA}, {Device.HOST}]
    assert [copy.is_upload for copy in copies] == [True, False]
    assert [copy.non_blocking is not None for copy in copies] == [True, False]
    first, second = loaders(evaluation)
    assert (len(first.passes), len(second.passes)) == (1, 1)
    found = [Batches(evaluation, one, copies[:1]).uploads() for one in (first, second)]
    assert found == [[(copies[0], Loaded.YES)], []]
