"""How the time of a run is shared out, and what its commands are."""

from __future__ import annotations

from pathlib import Path

import lease
import pytest
from lease_parts import plan
from lease_parts.plan import shares, table
from lease_parts.run import children_environment, unpretended

ALL = lease.PARTS


def test_a_lease_of_nine_minutes():
    assert shares(ALL, 540) == pytest.approx(
        {"probe": 20, "tests": 110, "rules": 200, "scripts": 150, "more": 40, "summary": 20}
    )


def test_a_short_one_gives_half_its_time_to_the_rules():
    short = shares(ALL, 120)
    assert short == pytest.approx(
        {"probe": 8, "tests": 18, "rules": 62, "scripts": 27, "more": 0, "summary": 5}
    )


@pytest.mark.parametrize("seconds", [60, 120, 199, 200, 300, 540, 800])
@pytest.mark.parametrize("names", [ALL, ("rules",), ("probe", "tests"), ("scripts", "more")])
def test_the_shares_are_all_of_the_time(names, seconds):
    shared = shares(names, seconds)
    assert sum(shared.values()) == pytest.approx(seconds)
    assert shared["summary"] <= 20
    assert set(shared) == {*names, "summary"}


def test_more_gets_what_a_longer_run_has():
    assert shares(ALL, 600)["more"] == pytest.approx(100)
    assert shares(ALL, 600)["rules"] == pytest.approx(200)


def test_each_command_goes_on_from_committed_evidence_and_writes_to_the_folder(tmp_path):
    parts = {part.name: part for part in table(tmp_path, None, rehearsal=False)}
    assert tuple(parts) == ALL
    for name, log in (("rules", "rules.jsonl"), ("scripts", "runs.jsonl")):
        words = " ".join(parts[name].jobs[0].words)
        assert f"--evidence {tmp_path} --log {tmp_path / log}" in words
        assert "/benchmarks/evidence" in words.partition("--known ")[2].split()[0]
    assert parts["more"].jobs[:2] == (*parts["rules"].jobs, *parts["scripts"].jobs)
    assert "gpu and slow" in parts["more"].jobs[2].words
    assert "--public" not in str(parts)
    assert "--public" in str(table(tmp_path, Path("here"), rehearsal=True))


def test_a_rehearsal_runs_the_tests_of_the_pretence_and_what_a_cpu_can_do(tmp_path):
    real, rehearsed = (
        {job.name: job.words for part in table(tmp_path, None, rehearsal=way) for job in part.jobs}
        for way in (False, True)
    )
    real["tests"] = real.get("tests") or real["tests worker_on_cuda"]
    rehearsed["tests"] = rehearsed.get("tests") or rehearsed["tests worker_on_cuda"]
    assert "gpu and not slow" in real["tests"]
    assert "not gpu and not slow" in rehearsed["tests"]
    assert set(rehearsed["rules"]) - set(real["rules"]) == {"--quick"}
    assert set(rehearsed["scripts"]) - set(real["scripts"]) == {"--scripts", "curve_fit"}


def test_threads_are_bounded_but_those_of_scripts(tmp_path):
    for rehearsal, threads in ((False, (1, 4, None)), (True, (1, 1, 1))):
        jobs = {
            job.name: job.threads
            for part in table(tmp_path, None, rehearsal=rehearsal)
            for job in part.jobs
        }
        assert {jobs[name] for name in jobs if "tests" in name.split()} == {threads[0]}
        assert (jobs["rules"], jobs["scripts"]) == threads[1:]


def test_commands_find_the_checkout_then_what_was_inherited(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "/inherited")
    path = children_environment(tmp_path)["PYTHONPATH"].split(":")
    root = Path(lease.__file__).parents[1]
    assert path[:2] == [str(root), str(root / "rules")]
    assert path[-1] == "/inherited"


def test_the_tests_of_a_rehearsal_have_their_own_pretence():
    given = {"PYTHONPATH": "/checkout:/pretended:/kept", "LEASE_PRETENCE": "/pretended"}
    assert unpretended(given)["PYTHONPATH"] == "/checkout:/kept"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--out", "o", "--parts", "rule"], "no part is named rule; use probe,tests"),
        (["--out", "o", "--seconds", "3"], "at least 20 seconds"),
        (["--out", "o", "--public", "/no/such"], "/no/such is no folder"),
        ([], "--out FOLDER"),
    ],
)
def test_wrong_use_is_told_and_ends_with_2(capsys, words, problem):
    with pytest.raises(SystemExit) as ended:
        lease.main(words)
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_ends_with_2(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("TORCHLINT_LEASE", raising=False)
    (tmp_path / "file").write_text("")
    assert lease.main(["--out", str(tmp_path / "file" / "out")]) == 2
    assert "error: " in capsys.readouterr().err


def test_files_of_tests_run_beside_each_other_where_there_are_processors(tmp_path, monkeypatch):
    def tests():
        return next(part for part in table(tmp_path, None, rehearsal=False) if part.name == "tests")

    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(16), raising=False)
    many = tests()
    files = {path.name for path in (plan.ROOT / "tests" / "gpu").glob("test_*.py")}
    assert {Path(word).name for job in many.jobs for word in job.words if "/gpu/" in word} == files
    assert many.at_once == plan.TESTS_AT_ONCE
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(2), raising=False)
    assert [job.name for job in tests().jobs] == ["tests"]
    assert tests().at_once == 1
