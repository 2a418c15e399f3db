"""What only a pretended GPU can be made to do; and that tests of a real one are asked for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from gpu_tools import ROOT, fake_cuda
from test_worker_on_cuda import STEPS, script
from worker_tools import Project

from torchlint.verify.model import Phase


def test_without_a_profiler_the_share_is_not_known(tmp_path) -> None:
    """A script may have its own profiler, and on some machines there is none."""
    project = Project(tmp_path, fake_cuda(FAKE_CUDA="no-profiler").environment)
    done = project.run(script(), Phase.TRACE, replace(STEPS, steps=30))
    assert done.code == 0
    assert done.only.busy is None


@pytest.mark.parametrize("profiler", ["", "old-profiler"])
def test_the_share_is_that_of_kernels_each_moment_counted_once(tmp_path, profiler) -> None:
    project = Project(tmp_path, fake_cuda(FAKE_CUDA=profiler).environment)
    busy = project.run(script(), Phase.TRACE, replace(STEPS, steps=30)).only.busy
    assert busy is not None
    assert 0.4 < busy < 1  # a half, and more of what is left when our own time is taken off


def collected(*options: str) -> subprocess.CompletedProcess[str]:
    words = ["-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", "tests/gpu", *options]
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_plain_pytest_leaves_tests_of_a_gpu_out() -> None:
    told = collected()
    assert told.returncode == 0, told.stderr
    assert "[fake" in told.stdout
    assert "[gpu" not in told.stdout
    assert "deselected" in told.stdout


def test_asking_for_them_without_a_gpu_is_an_error() -> None:
    told = collected("-m", "gpu")
    if torch.cuda.is_available():
        assert "[gpu" in told.stdout
    else:
        assert told.returncode == 4
        assert "no CUDA device" in told.stderr + told.stdout
