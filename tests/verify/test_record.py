"""The plan and the records: what is written is what is read; what is torn is named."""

from __future__ import annotations

import json
import math

import pytest

from torchlint.errors import InternalError, UnreadableFileError
from torchlint.verify.model import Anchor, Bounds, Phase, Read
from torchlint.verify.record import Turns, read_records, write_plan

TOLD = {
    "version": 1, "rank": 0, "world": 2, "ended": "bound", "device": "CPU", "torch": "2.13.0",
    "steps": [[1.0, 2.5]], "optimizers": ["SGD"], "backwards": [0.5], "waits": [[0.25, 0.125]],
    "start": 0.0, "workers": 2, "turns": [0.5], "reached": {"train.py": {"3": 7}},
    "modules": ["/copy/train.py"], "writes": [], "trace": None, "python": "3.11.7", "cuda": None,
    "gpus": 0, "driver": None, "threads": 1, "libraries": {"numpy": "2.4"}, "memory": {},
    "busy": None,
}  # fmt: skip
TRACE = {
    "losses": [1.5, math.nan, None, math.inf], "batches": ["aa"], "initial": "00",
    "parameters": "11", "norms": [0.5], "random": "22",
    "reads": [{"file": "train.py", "line": 3, "call": "item", "count": 7}],
}  # fmt: skip


def put(folder, name, **changes) -> None:
    (folder / name).write_text(json.dumps({**TOLD, **changes}))


def test_a_record_is_read_with_its_numbers_as_numbers(tmp_path) -> None:
    put(tmp_path, "0-7.json")
    (record,) = read_records(tmp_path)
    assert record.steps == ((1.0, 2.5),)
    assert record.waits == ((0.25, 0.125),)
    assert record.reached == {"train.py": {3: 7}}
    assert record.libraries == {"numpy": "2.4"}


def test_losses_may_be_no_numbers(tmp_path) -> None:
    put(tmp_path, "0-7.json", trace=TRACE)
    trace = read_records(tmp_path)[0].trace
    first, second, third, fourth = trace.losses
    assert (first, third, fourth) == (1.5, None, math.inf)
    assert math.isnan(second)
    assert trace.reads == (Read("train.py", 3, "item", 7),)


def test_records_come_by_rank_and_not_by_name(tmp_path) -> None:
    put(tmp_path, "10-5.json", rank=10)
    put(tmp_path, "9-6.json", rank=9)
    assert [record.rank for record in read_records(tmp_path)] == [9, 10]


def test_what_is_being_written_is_no_record_yet(tmp_path) -> None:
    put(tmp_path, "0-7.json.part")
    assert read_records(tmp_path) == ()


@pytest.mark.parametrize("text", ["", '{"version": 1, "rank"', "[]", "{}", "null"])
def test_a_torn_or_foreign_file_is_named(tmp_path, text) -> None:
    (tmp_path / "0-7.json").write_text(text)
    with pytest.raises(UnreadableFileError, match=r"0-7\.json: is no record"):
        read_records(tmp_path)


def test_a_record_of_another_version_is_refused(tmp_path) -> None:
    put(tmp_path, "0-7.json", version=2)
    with pytest.raises(UnreadableFileError, match="version 2"):
        read_records(tmp_path)


def test_what_a_worker_failed_at_is_said(tmp_path) -> None:
    (tmp_path / "7.error").write_text("Traceback ...\nValueError: no such hook\n")
    with pytest.raises(InternalError, match="ValueError: no such hook"):
        read_records(tmp_path)


def test_a_plan_says_all_that_the_worker_needs(tmp_path) -> None:
    path = tmp_path / "plan.json"
    write_plan(
        path,
        Phase.TIMING,
        Bounds(steps=20, warmup=4, seconds=60.0, anchor=Anchor("optimizer", 1), reseed=3),
        records=tmp_path / "records",
        root=tmp_path / "copy",
        original=tmp_path / "mine",
        lines={"a.py": frozenset({9, 3})},
        turns=Turns(
            8,
            *(tmp_path / name for name in ("go", "done")),
            1,
            tmp_path / "hold",
            tmp_path / "held",
        ),
    )
    assert json.loads(path.read_text()) == {
        "version": 1,
        "phase": "timing",
        "steps": 20,
        "warmup": 4,
        "anchor": {"kind": "optimizer", "index": 1},
        "reseed": 3,
        "seconds": 60.0,
        "records": str(tmp_path / "records"),
        "root": str(tmp_path / "copy"),
        "original": str(tmp_path / "mine"),
        "lines": {"a.py": [3, 9]},
        "turns": {
            "size": 8,
            "go": str(tmp_path / "go"),
            "done": str(tmp_path / "done"),
            "warm": 1,
            "hold": str(tmp_path / "hold"),
            "held": str(tmp_path / "held"),
        },
    }
