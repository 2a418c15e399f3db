"""What the probe finds, and what it says where something is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from lease_parts import packages
from lease_tools import ROOT, pretended

SMI = """#!/bin/sh
case "$1" in
    *compute-apps*) echo "4711, 2048 MiB";;
    *) echo "Fake GPU, 580.1, 100 MiB, 7 MiB, 700 W, 1980 MHz, 2619 MHz";;
esac
"""


def probe(tmp_path, listed: str | None = None, budget: float = 60, **environment: str):
    """Run the probe, with a list of packages of its own."""
    program = "import sys, lease_probe\nfrom lease_parts import packages\n"
    if listed is not None:
        (tmp_path / "listed.txt").write_text(listed)
        program += f"packages.FILE = type(packages.FILE)({str(tmp_path / 'listed.txt')!r})\n"
    folders = [str(ROOT / "benchmarks"), environment.pop("PYTHONPATH", "")]
    words = [
        "--evidence",
        str(tmp_path),
        "--known",
        str(tmp_path / "known"),
        "--time-budget",
        str(budget),
    ]
    return subprocess.run(
        [sys.executable, "-c", program + "sys.exit(lease_probe.main())", *words],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_it_finds_is_put_beside_what_is_known(tmp_path):
    (tmp_path / "fake-gpu.json").write_text('{"device": "Fake GPU", "rules": {"rows": [1]}}')
    run = probe(tmp_path, budget=0.5, **pretended())
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads((tmp_path / "fake-gpu.json").read_text())
    assert found["rules"] == {"rows": [1]}
    assert found["probe"]["context seconds"] >= 0
    assert found["probe"]["packages"]["torch"]
    assert found["probe"]["a forked child finds CUDA"] is True
    assert "left out, no time" in run.stdout  # the time was short; the run goes on


def test_the_file_begins_as_the_known_one_so_that_it_may_replace_it(tmp_path):
    (tmp_path / "known").mkdir()
    known = {"device": "Fake GPU", "schema": 1, "scripts": {"fit": {"status": "done"}}}
    (tmp_path / "known" / "fake-gpu.json").write_text(json.dumps(known))
    run = probe(tmp_path, budget=0, **pretended())
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads((tmp_path / "fake-gpu.json").read_text())
    assert found.pop("probe")
    assert found == known


def test_each_figure_is_tried_and_one_that_fails_costs_only_itself(monkeypatch):
    torch = pytest.importorskip("torch")
    import lease_probe  # noqa: PLC0415  found by conftest.py

    def fails():
        raise RuntimeError("out of memory")

    assert lease_probe._tried(fails) == "RuntimeError: out of memory"
    names = [name for name, _ in lease_probe._measures()]
    assert {"copies GB/s", "matmul tf32 TFLOP/s", "matmul bf16 TFLOP/s"} <= set(names)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    calls = []
    lease_probe._timed(lambda: calls.append(1))
    assert len(calls) == 1 + lease_probe.TURNS


def test_the_profiler_is_the_one_that_the_worker_uses(monkeypatch):
    pytest.importorskip("torch")
    import lease_probe  # noqa: PLC0415  found by conftest.py

    from torchlint.verify.inject._torchlint_worker import busy  # noqa: PLC0415

    def no_profiler(_torch):
        raise RuntimeError("No activities specified")

    monkeypatch.setattr(busy, "profiler", no_profiler, raising=False)
    assert lease_probe._tried(lease_probe._profiler) == "RuntimeError: No activities specified"


@pytest.mark.parametrize("is_poisoned", [False, True])
def test_a_forked_child_that_cannot_use_the_gpu_is_told(is_poisoned):
    import lease_probe  # noqa: PLC0415  found by conftest.py

    def zeros(*_, device):
        if is_poisoned:
            raise RuntimeError(f"Cannot re-initialize {device} in forked subprocess")
        return SimpleNamespace(sum=lambda: SimpleNamespace(item=lambda: 0))

    assert lease_probe._forks(SimpleNamespace(zeros=zeros)) is not is_poisoned


def test_no_cuda_device_ends_with_2_and_the_reason(tmp_path):
    run = probe(tmp_path, CUDA_VISIBLE_DEVICES="")
    assert run.returncode == 2
    assert "finds no CUDA device: " in run.stdout
    assert "run it where one is" in run.stdout


def test_a_missing_package_ends_with_2_its_name_and_the_remedy(tmp_path):
    listed = "torch\nno-such-one\nno-such-two carried\nno-such-three optional\n"
    run = probe(tmp_path, listed)
    assert run.returncode == 2
    assert "error: the package no-such-one is missing: install it" in run.stdout
    assert "error: the package no-such-two is missing: run `lease.py --carry`" in run.stdout
    assert "no-such-three is missing" not in run.stdout


def test_another_process_on_the_gpu_is_told_in_a_line(tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI)
    tool.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    run = probe(tmp_path, budget=0, PATH=path, **pretended())
    assert "another process uses the GPU: pid 4711, 2048 MiB" in run.stdout
    found = json.loads((tmp_path / "fake-gpu.json").read_text())["probe"]
    assert found["nvidia-smi"]["driver_version"] == "580.1"


def test_a_full_disk_costs_only_the_file(tmp_path):
    (tmp_path / "fake-gpu.json").mkdir()  # it cannot be replaced
    run = probe(tmp_path, budget=0, **pretended())
    assert run.returncode == 0
    assert "fake-gpu.json is not written" in run.stdout


def test_the_list_names_what_torchlint_needs():
    said = packages.listed()
    assert {"click", "libcst", "packaging", "pathspec", "rich", "jinja2", "psutil"} <= set(said)
    assert set(said.values()) <= {"", packages.CARRIED, packages.OPTIONAL}
