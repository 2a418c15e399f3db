"""Two devices for the same tests: a CUDA device (`-m gpu`), and one that torch only pretends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.with_name("verify"))]  # their vocabulary: `*_tools`

from gpu_tools import Cuda, carry, fake_cuda  # noqa: E402  it is found from here on
from supervisor_tools import end_with_this_process  # noqa: E402

end_with_this_process()


@pytest.fixture(scope="session", params=[pytest.param("gpu", marks=pytest.mark.gpu), "fake"])
def cuda(request: pytest.FixtureRequest) -> Cuda:
    if request.param == "fake":
        return fake_cuda()
    import torch  # noqa: PLC0415  seconds, which collecting need not take

    return Cuda(torch.cuda.get_device_name())


@pytest.fixture(scope="session", autouse=True)
def _carried(tmp_path_factory):
    """Have what is not torchlint's own on PYTHONPATH, as on a machine where it is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", carry(tmp_path_factory.mktemp("carried")), prepend=os.pathsep)
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests unless the words after -m name them: `-m gpu` alone does not."""
    if "slow" in config.option.markexpr:
        return
    slow = [item for item in items if HERE in item.path.parents and item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def pytest_collection_finish(session: pytest.Session) -> None:
    """End at once where tests of a GPU were asked for and there is none: they prove nothing."""
    if not any(item.get_closest_marker("gpu") for item in session.items):
        return
    import torch  # noqa: PLC0415  seconds, which collecting need not take

    if not torch.cuda.is_available():
        raise pytest.UsageError("-m gpu: torch finds no CUDA device; run it where one is")
