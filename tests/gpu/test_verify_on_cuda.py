"""`torchlint verify` and the benchmark, from the command line to what they write, on a GPU."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from gpu_tools import ROOT, Cuda

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("verify")  # with --dist loadgroup one process has them all
SCRIPT = ROOT / "fixtures" / "proofs" / "clipping.py"
BENCHMARK = ROOT / "benchmarks" / "gpu.py"
FEW = ("--steps", "24", "--pairs", "3")  # three pairs of runs: enough to see that all goes its way
ENDLESS = ("--steps", "1000000")
COPY = "x = torch.randn(64, 16).to(device)"  # made on the host: TL301 makes it on the GPU


def line_of(piece: str) -> int:
    lines = SCRIPT.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if piece in line)


@pytest.fixture(scope="module")
def report(cuda: Cuda, tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("verify")
    script = folder / "clipping.py"
    script.write_bytes(SCRIPT.read_bytes())
    file = folder / "report.json"
    done = cuda.strict.python(
        "-m", "torchlint", "verify", script.name, "--root", folder, "--isolated", "--json", file,
        "--select", "TL301", "--mode", "lockstep", "--time-budget", "120s", *FEW,
        "--", *ENDLESS, folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(file.read_text())
    return {**content, "told": done.stdout}


def test_the_report_is_of_the_gpu(report, cuda) -> None:
    assert report["machine"]["device"] == cuda.name
    assert report["machine"]["cuda"]
    assert report["label"] is None
    assert "CPU" not in {row["name"] for row in report["configurations"]}
    assert report["method"]["mode"] == "lockstep"


def rows(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in report["configurations"]}


def test_fixes_are_timed_in_turns_and_held_to_what_they_declare(report) -> None:
    single = rows(report)["TL301"]
    assert single["speed"]["samples"], single["why"]
    assert {sample["mode"] for sample in single["speed"]["samples"]} == {"lockstep"}
    assert single["results"]["allowed"]
    assert len(single["speed"]["samples"]) >= 3


def test_the_report_takes_few_launches_as_each_costs_seconds_on_a_gpu(report) -> None:
    """A pilot, three traces, three pairs, and two pairs of `before` against itself at most."""
    runs = [run for row in rows(report).values() for run in row["runs"]]
    assert 6 <= len(runs) <= 14


def test_memory_busy_share_and_waits_are_those_of_the_gpu(report) -> None:
    figures = {name: row["figures"] for name, row in rows(report).items()}
    assert figures["before"]["on_device"]
    assert figures["before"]["memory"] < 2**29
    assert 0 < figures["before"]["busy"] <= 1
    trace = next(run for run in rows(report)["before"]["runs"] if run["phase"] == "trace")
    reads = {(each["line"], each["call"]) for each in trace["records"][0]["trace"]["reads"]}
    assert (line_of(COPY), "sync") in reads
    assert figures["TL301"]["reads"] < figures["before"]["reads"]  # the copy does not wait any more


def benchmark(cuda: Cuda, evidence: Path, *options: str):
    return cuda.python(
        BENCHMARK, "--device", "cuda", "--known", evidence, "--evidence", evidence,
        "--scripts", "clipping", "--budget", "120s", *FEW, *options,
    )  # fmt: skip


@pytest.mark.slow
def test_the_benchmark_writes_evidence_and_goes_on_where_it_stopped(cuda, tmp_path) -> None:
    cut = benchmark(cuda, tmp_path, "--time-budget", "10s")
    assert cut.returncode == 3, cut.stderr
    assert not list(tmp_path.iterdir())  # nothing was begun that could not be ended
    done = benchmark(cuda, tmp_path, "--time-budget", "9m")
    assert done.returncode == 0, done.stdout + done.stderr
    [file] = tmp_path.iterdir()
    written = file.read_bytes()
    evidence = json.loads(written)
    assert evidence["device"] == cuda.name
    entry = evidence["scripts"]["clipping"]
    assert entry["machine"]["device"] == cuda.name
    assert entry["rows"].keys() >= {"before", "all proven fixes"}
    together = entry["rows"]["all proven fixes"]
    assert "TL301" in together["codes"]
    assert "TL503" not in together["codes"]  # it is meant to change what is computed
    assert entry["fixes"]["TL503"]["results"] == "diverged"
    assert entry["status"] == "done"
    for row in entry["rows"].values():
        assert row["step seconds"] > 0
        assert 0 < row["allocated"] <= row["reserved"]
        assert row["reads"]
    again = benchmark(cuda, tmp_path, "--time-budget", "60s")
    assert again.returncode == 0
    assert file.read_bytes() == written


def test_without_a_gpu_there_is_no_evidence(tmp_path) -> None:
    nowhere = Cuda("none", {"CUDA_VISIBLE_DEVICES": ""})
    done = benchmark(nowhere, tmp_path)
    assert done.returncode == 2
    assert "no CUDA device" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--scripts", "absent"), "no script is named absent"),
        (("--pairs", "2"), "--pairs takes"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(tmp_path, options, problem) -> None:
    done = Cuda("none").python(BENCHMARK, "--evidence", tmp_path, *options)
    assert done.returncode == 2
    assert problem in done.stderr


def test_the_evidence_is_never_half_written(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    monkeypatch.setattr(sys, "path", [*sys.path])
    import evidence  # noqa: PLC0415  found from here on

    file, known = evidence.of_device(tmp_path / "evidence", "NVIDIA H200 (80 GB)")
    assert file.name == "nvidia-h200-80-gb.json"
    evidence.write(file, known)
    with pytest.raises(TypeError):
        evidence.write(file, {"scripts": {1: object()}})
    again = evidence.of_device(tmp_path / "evidence", "NVIDIA H200 (80 GB)")
    assert again == (file, {"device": "NVIDIA H200 (80 GB)", "schema": 2, "scripts": {}})
