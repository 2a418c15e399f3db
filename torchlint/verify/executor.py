"""Runs the user's script in configurations, each run in a fresh copy of the project."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.errors import TorchlintError
from torchlint.verify import lockstep, record
from torchlint.verify.model import Ending, Phase, Run
from torchlint.verify.process import LINGER, launch, signals_interrupt
from torchlint.verify.sandbox import Sandbox
from torchlint.verify.temporary import check_space, no_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from torchlint.verify.copying import Limits, Stamp
    from torchlint.verify.model import Bounds, Command, Configuration, Record
    from torchlint.verify.process import Live
    from torchlint.verify.sandbox import Way, Workspace

# Launchers that start the script with an interpreter of their own.
BRING_PYTHON = frozenset(
    "torchrun accelerate deepspeed composer torch.distributed.run torch.distributed.launch".split()
)
RECORD = 20.0  # seconds for writing a record after the last turn
LOOK_FOR_TORCH = """
import importlib.util, sys
print(*sys.version_info[:2], importlib.util.find_spec("torch") is not None)
"""


class ProjectExecutor(contextlib.AbstractContextManager["ProjectExecutor"]):
    """Implements `model.Executor`; use it in a ``with`` statement, so that nothing is left.

    While it is open, SIGTERM and SIGHUP raise KeyboardInterrupt as Ctrl-C does.

    Raises:
        TorchlintError: the interpreter lacks torch, the launcher is not there, or the project
            cannot be copied.

    """

    def __init__(
        self,
        command: Command,
        *,
        rng: random.Random | None = None,
        environment: Mapping[str, str] | None = None,
        try_overlay: bool = True,
        limits: Limits | None = None,
        exclude: Sequence[str] = (),
    ) -> None:
        self._command = command
        self._rng = rng or random.Random()  # noqa: S311 - which of two runs goes first
        self._environment = dict(os.environ if environment is None else environment)
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            stack.enter_context(signals_interrupt())
            _check_launcher(command, self._environment)
            _check_python(command, self._environment)
            self._sandbox = Sandbox(
                command.root, try_overlay=try_overlay, limits=limits, exclude=exclude
            )
            stack.callback(self._sandbox.close)
            self._stack = stack.pop_all()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what still runs, and remove all temporary folders."""
        self._stack.close()

    @property
    def way(self) -> Way:
        """How runs get a copy of the project."""
        return self._sandbox.way

    def run(self, configuration: Configuration, phase: Phase, bounds: Bounds) -> Run:
        """Run once, from a fresh copy of the project.

        Raises:
            TorchlintError: there is no space for the copy, or a record cannot be read.
            KeyboardInterrupt: Ctrl-C or SIGTERM; all processes are ended and folders removed.

        """
        with self._started(configuration, phase, bounds) as trial:
            watch = _Watch(trial.workspace.records)
            in_time = trial.live.wait(trial.live.started + bounds.seconds, watch.is_complete)
            return _finish(trial, in_time=in_time)

    def lockstep(
        self, first: Configuration, second: Configuration, bounds: Bounds
    ) -> tuple[Run | None, Run | None]:
        """Run two at once that take turns; the records hold the lengths of the turns.

        Both make the same even number of turns, unless one dies or hangs: that ends the other too,
        or keeps it from training, which gives None.  Chance says which is first.  Each has
        ``bounds.seconds`` to come to its first turn, both together have as long for the turns.

        Raises:
            TorchlintError: as for `run`.
            KeyboardInterrupt: as for `run`.

        """
        turns, seconds, bounds = (
            lockstep.turns_in(bounds), bounds.seconds, lockstep.widened(bounds)
        )  # fmt: skip
        order = [0, 1]
        self._rng.shuffle(order)
        runs: dict[int, Run] = {}
        with contextlib.ExitStack() as stack:
            trials: dict[int, _Trial] = {}
            ready: list[lockstep.Arm] = []
            arms: list[lockstep.Arm] = []
            for place in order:
                trials[place] = trial = stack.enter_context(
                    self._started((first, second)[place], Phase.TIMING, bounds, in_turns=True)
                )
                assert trial.channel is not None
                ready.append(lockstep.Arm(trial.live, trial.channel))
            latest = time.monotonic() + seconds
            for arm in ready:
                arm.start(latest)
            for arm in ready:  # what a warm-up chooses must not depend on the other arm
                arms.append(arm)
                arm.arrive(time.monotonic() + seconds)
                if arm.is_over:
                    break
            lockstep.take_turns(arms, turns, time.monotonic() + seconds)
            for place, arm in zip(order, arms, strict=False):
                watch = _Watch(trials[place].workspace.records)
                latest = time.monotonic() + RECORD
                in_time = not arm.is_late and arm.live.wait(latest, watch.is_complete)
                runs[place] = _finish(trials[place], in_time=in_time)
        return runs.get(0), runs.get(1)

    @contextlib.contextmanager
    def _started(
        self,
        configuration: Configuration,
        phase: Phase,
        bounds: Bounds,
        *,
        in_turns: bool = False,
    ) -> Iterator[_Trial]:
        """Launch a run in a copy of its own; both are gone afterwards."""
        with contextlib.ExitStack() as stack:
            workspace = stack.enter_context(self._sandbox.fresh(configuration.files))
            stack.enter_context(no_space(workspace.folder.parent))
            channel = (
                stack.enter_context(lockstep.opened(workspace.folder, workspace.records))
                if in_turns
                else None
            )
            plan = workspace.folder / "plan.json"
            record.write_plan(
                plan,
                phase,
                bounds,
                records=workspace.records,
                root=workspace.root,
                original=workspace.original,
                lines=configuration.lines,
                turns=channel.turns(bounds) if channel else None,
            )
            before = frozenset(workspace.stamps())
            live = launch(
                words_of(self._command, workspace, self._environment),
                Path(workspace.moved(str(self._command.folder))),
                _environment(workspace, self._environment),
                plan,
            )
            stack.callback(live.end)
            yield _Trial(configuration.name, phase, bounds, workspace, live, before, channel)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A run that goes on; ``before`` says how linked data was when it began."""

    configuration: str
    phase: Phase
    bounds: Bounds
    workspace: Workspace
    live: Live
    before: frozenset[Stamp]
    channel: lockstep.Channel | None


class _Watch:
    """Tells when every rank has written that it made its steps."""

    def __init__(self, records: Path) -> None:
        self._records = records
        self._names: frozenset[str] = frozenset()
        self._complete = False

    def is_complete(self) -> bool:
        names = frozenset(path.name for path in self._records.glob("*.json"))
        if names != self._names:
            self._names = names
            self._complete = _all_bound(record.read_records(self._records))
        return self._complete


def _all_bound(records: tuple[Record, ...]) -> bool:
    return all(one.ended == "bound" for one in records) and len(records) >= max(
        (one.world for one in records), default=1
    )


def _finish(trial: _Trial, *, in_time: bool) -> Run:
    """End what is left of a run, and say what became of it."""
    live = trial.live
    if in_time and live.code is None:
        live.wait(time.monotonic() + LINGER)
    code = live.code
    stderr = live.end(0.0 if code is None else LINGER)
    records = record.read_records(trial.workspace.records)
    ending = _ending(code, records, in_time=in_time)
    if ending is Ending.FAILED:  # not its own fault, perhaps
        check_space(trial.workspace.folder.parent)
    return Run(
        configuration=trial.configuration,
        phase=trial.phase,
        ending=ending,
        code=code,
        stderr=stderr,
        seconds=time.monotonic() - live.started,
        rss=live.rss,
        records=records,
        way=trial.workspace.way,
        touched=tuple(sorted({name for name, *_ in trial.before ^ trial.workspace.stamps()})),
        turn=trial.bounds.turn,
        expected=trial.bounds.expected,
    )


def _ending(code: int | None, records: tuple[Record, ...], *, in_time: bool) -> Ending:
    if _all_bound(records) or (code == 0 and any(one.ended == "bound" for one in records)):
        return Ending.BOUND
    if not in_time:
        return Ending.TIMEOUT
    return Ending.FINISHED if code == 0 else Ending.FAILED


def words_of(
    command: Command, workspace: Workspace, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the words that start the script in a workspace."""
    launcher = [workspace.moved(word) for word in command.launcher]
    if launcher:
        launcher[0] = _program(command.launcher[0], environment) or launcher[0]
    if not _brings_python(command.launcher):
        launcher.append(str(command.python))
    what = ("-m", command.module or "") if command.script is None else (str(command.script),)
    folder = (workspace.moved(str(command.folder)),) if workspace.prefix else ()
    words = (*what, *command.arguments)
    return (*workspace.prefix, *folder, *launcher, *(workspace.moved(word) for word in words))


def _brings_python(launcher: Sequence[str]) -> bool:
    names = {Path(word).name for word in launcher}
    return bool(names & BRING_PYTHON) or bool(launcher and names_python(launcher[-1]))


def names_python(word: str) -> bool:
    """Whether a word of a command is an interpreter."""
    return Path(word).name.startswith("python")


def _environment(workspace: Workspace, user: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a run; the folder of the worker comes first in Python's path."""
    environment = workspace.environment(user)
    theirs = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
    return environment | {"PYTHONPATH": os.pathsep.join([str(record.INJECT), *theirs])}


def _program(name: str, environment: Mapping[str, str]) -> str | None:
    return shutil.which(name, path=environment.get("PATH"))


def _check_launcher(command: Command, environment: Mapping[str, str]) -> None:
    if command.launcher and _program(command.launcher[0], environment) is None:
        raise TorchlintError(
            f"--launcher {command.launcher[0]}: there is no such program on the PATH; "
            "install it, or give its path"
        )


def _check_python(command: Command, environment: Mapping[str, str]) -> None:
    """Look whether the interpreter can run the worker: without importing torch, which is slow."""
    python = command.python
    try:
        done = subprocess.run(  # noqa: S603 - the user's own interpreter
            (python, "-c", LOOK_FOR_TORCH), cwd=command.folder, env=dict(environment),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        major, minor, has_torch = done.stdout.split()[-3:]
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise TorchlintError(
            f"{python}: this Python cannot be run ({error}); name another with --python"
        ) from None
    if (int(major), int(minor)) < (3, 8):
        raise TorchlintError(
            f"{python}: verify needs Python 3.8 or newer, this is {major}.{minor}; "
            "name another with --python"
        )
    if has_torch != "True":
        raise TorchlintError(
            f"{python}: torch is not installed for this Python; activate the environment that the "
            "script runs in, or name its interpreter with --python"
        )
