"""Lockstep: the worker stops after its turns, says how long they were, and goes on when told."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace

import pytest
from worker_tools import TOY, Project

from torchlint.verify.model import Anchor, Bounds, Phase
from torchlint.verify.record import Turns

BOUNDS = Bounds(steps=10, warmup=2, seconds=60, anchor=Anchor("optimizer", 0))


class Partner:
    """The harness's side of the two FIFOs; answers with the given lines, in their order."""

    def __init__(self, folder, answers, warm: int = 0, **held) -> None:
        self.turns = Turns(4, folder / "go", folder / "done", warm, **held)
        for path in (self.turns.go, self.turns.done):
            os.mkfifo(path)
        self.heard: list[dict[str, object]] = []
        self.answers = answers
        self.thread = threading.Thread(target=self._talk, daemon=True)
        self.thread.start()

    def _talk(self) -> None:
        with self.turns.done.open() as done, self.turns.go.open("w") as go:
            for answer in self.answers:
                self.heard.append(json.loads(done.readline()))
                go.write(answer + "\n")
                go.flush()
            done.read()


@pytest.mark.parametrize(
    ("answers", "steps"), [(["go", "go", "end"], 10), (["go", "end"], 6), (["end"], 2)]
)
def test_turns_are_made_until_the_harness_ends_them(tmp_path, answers, steps) -> None:
    partner = Partner(tmp_path, answers)
    ran = Project(tmp_path).run(
        TOY + "while True: step()\n", Phase.TIMING, BOUNDS, turns=partner.turns
    )
    partner.thread.join(10)
    record = ran.only
    assert (ran.code, record.ended) == (0, "bound")
    assert len(record.steps[0]) == steps
    assert [said["turn"] for said in partner.heard] == list(range(len(answers)))
    assert [said["seconds"] for said in partner.heard] == [None, *record.turns]
    assert len(record.turns) == len(answers) - 1
    assert all(0 < length <= record.steps[0][-1] - record.steps[0][0] for length in record.turns)


def test_the_first_step_of_a_turn_is_not_timed(tmp_path) -> None:
    partner = Partner(tmp_path, ["go", "go", "end"], warm=1)
    ran = Project(tmp_path).run(
        TOY + "while True: step()\n", Phase.TIMING, replace(BOUNDS, steps=12), turns=partner.turns
    )
    partner.thread.join(10)
    ends = ran.only.steps[0]
    assert len(ends) == 12
    assert ran.only.turns == pytest.approx([ends[6] - ends[2], ends[11] - ends[7]], abs=1e-6)


@pytest.mark.parametrize("anchor", [Anchor("optimizer", 0), Anchor("backward")])
def test_a_run_is_held_once_before_it_trains(tmp_path, anchor) -> None:
    """Both arms start at once, but the warm-up of one must not disturb that of the other."""
    hold, held, told = (tmp_path / name for name in ("hold", "held", "told"))
    os.mkfifo(hold)
    partner = Partner(tmp_path, ["end"], hold=hold, held=held)

    def let_go() -> None:
        with hold.open("w") as pipe:  # opens once the worker waits at the other end
            said.extend([held.exists(), told.exists()])
            pipe.write("x")

    said: list[bool] = []
    thread = threading.Thread(target=let_go, daemon=True)
    thread.start()
    again = "torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)\n"
    text = f"{TOY}{again}step(); open({str(told)!r}, 'w').close()\nwhile True: step()\n"
    ran = Project(tmp_path).run(
        text, Phase.TIMING, replace(BOUNDS, anchor=anchor), turns=partner.turns
    )
    thread.join(10)
    partner.thread.join(10)
    assert (ran.code, ran.only.ended) == (0, "bound")
    assert said == [True, False]
    assert told.exists()
