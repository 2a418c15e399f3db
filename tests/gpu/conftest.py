"""Two devices for the same tests: a CUDA device (`-m gpu`), and one that torch only pretends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.with_name("verify"))]  # their vocabulary: `*_tools`

from gpu_tools import Cuda, fake_cuda, guarded  # noqa: E402  it is found from here on


@pytest.fixture(scope="session", autouse=True)
def _end_with_pytest():
    with guarded():
        yield


@pytest.fixture(scope="session", params=[pytest.param("gpu", marks=pytest.mark.gpu), "fake"])
def cuda(request: pytest.FixtureRequest) -> Cuda:
    if request.param == "fake":
        return fake_cuda()
    return Cuda(torch.cuda.get_device_name())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out of `-m gpu` too: on a lease of minutes they would take the others'."""
    if "slow" in config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def pytest_collection_finish(session: pytest.Session) -> None:
    """End at once where tests of a GPU were asked for and there is none: they prove nothing."""
    if not torch.cuda.is_available() and any(
        item.get_closest_marker("gpu") for item in session.items
    ):
        raise pytest.UsageError("-m gpu: torch finds no CUDA device; run it where one is")
