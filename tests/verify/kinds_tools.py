"""Takes a script of some kind through a verification: pilot, traces, and one timed run."""

from __future__ import annotations

import shlex
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from executor_tools import Place, unchanged

from torchlint.verify.executor import ProjectExecutor
from torchlint.verify.model import Ending, Phase, Same
from torchlint.verify.plan import Fixer, Request, command_of
from torchlint.verify.session import Limits, Session
from torchlint.verify.steptimes import ends_of_steps

if TYPE_CHECKING:
    from torchlint.verify.model import Agreement, Anchor, Record, Run, Trace

STEPS = 8
# A habit to fix, and each loss said aloud: what a trace holds is compared with that.
HEAD = """
import sys
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(True)


def say(loss):
    sys.stderr.write(f"loss {loss.item()!r}\\n")  # whole lines, also from two processes
    return loss
"""


@dataclass(frozen=True)
class Tried:
    """What was seen of one fix: ``before`` and ``after`` are traces, ``timed`` has the fix."""

    session: Session
    anchor: Anchor
    pilot: Run
    before: Run
    after: Run | None
    timed: Run | None
    agreement: Agreement | None
    unexercised: str
    files: tuple[str, ...]

    @property
    def traces(self) -> tuple[Trace, ...]:
        assert self.after is not None
        return tuple(record.trace for run in (self.before, self.after) for record in run.records)

    def steps(self, run: Run) -> list[int]:
        return [len(ends_of_steps(record, self.anchor)) for record in run.records]

    def check(self, losses: int = STEPS, processes: int = 1) -> None:
        """Look whether steps, losses and results are as they have to be after a safe fix."""
        assert self.unexercised == ""
        for run in self.before, self.after, self.timed:
            assert run.ending is Ending.BOUND, (run.ending, run.code, run.stderr)
            assert self.steps(run) == [STEPS] * processes
            assert len(run.records) == processes
        for run in self.before, self.after:
            heard = said(run)
            told = [list(record.trace.losses) for record in run.records]
            assert [len(each) for each in told] == [losses] * processes
            if processes == 1:
                assert told[0] == heard
            else:
                assert sorted(loss for each in told for loss in each) == sorted(heard)
        assert self.agreement.same is Same.BITWISE, self.agreement
        assert self.agreement.allowed


def said(run: Run) -> list[float]:
    """Return the losses that the script itself told."""
    lines = [line.partition("loss ") for line in run.stderr.splitlines()]
    return [float(rest) for _, word, rest in lines if word]


def only(run: Run) -> Record:
    assert len(run.records) == 1, (run.ending, run.code, run.stderr)
    return run.records[0]


def tried(
    here: Place,
    files: dict[str, str],
    *words: str,
    code: str = "TL901",
    module: str | None = None,
    launcher: str = "",
    try_overlay: bool = True,
    steps: int = STEPS,
) -> Tried:
    """Run the project as it is and with one rule's fixes; the user's tree stays as it was."""
    here.write({"pyproject.toml": "", **{name: textwrap.dedent(t) for name, t in files.items()}})
    words = () if module else words or ("train.py",)
    request = Request(words, module, Path(sys.executable), tuple(shlex.split(launcher)))
    command = command_of(request, here.root)
    fixer = Fixer(command, {"select": [code]}, None, True, _refuse)
    singles = fixer.singles()
    with (
        unchanged(here.root),
        ProjectExecutor(command, environment=here.environment, try_overlay=try_overlay) as executor,
    ):
        tree = command.root if executor.way == "copy" else None
        limits = Limits(600.0, 3, 3, steps)
        session = Session(executor, fixer, limits, lambda *_: None, tree=tree)
        fit = session.begin(singles) or singles  # some act on a GPU only
        return _seen(session, fit[0].codes)


def _seen(session: Session, codes: tuple[str, ...]) -> Tried:
    known = session.with_codes(codes)
    once = session.launches.run(session.before, Phase.TRACE, session._traced())
    session.before.runs.append(once)  # stands for the second one too
    session.trace(known)
    after = known.traces()[0] if known.traces() else None
    timed = None
    if not known.unexercised and not known.failed:
        timed = session.launches.run(known, Phase.TIMING, session.how.bounds)
    return Tried(
        session, session.how.anchor, session.how.pilot, once, after, timed, known.agreement,
        known.unexercised, tuple(sorted(known.configuration.files)),
    )  # fmt: skip


def _refuse(problem: str) -> None:
    raise AssertionError(problem)
