"""What a reader of the figures has to know, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.verify.errors import how, last_words
from torchlint.verify.model import Caution, Ending, Phase, Verdict
from torchlint.verify.steptimes import step_time, steps_made

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.verify.model import Anchor, Bounds, Machine, Result, Run

SHORT = 1e-3  # seconds of a step in which the hooks themselves can be felt
FEW = 20  # timed steps of a run
BUSY = 0.5  # share of time in which something waited for a CPU
MORE = 1.2  # times the memory
MIB = 2**20
SHOWN = 3


def cautions(
    machine: Machine, bounds: Bounds, anchor: Anchor, before: Result, results: Sequence[Result]
) -> tuple[Caution, ...]:
    """Return all cautions, those on the machine first; ``results`` are those after fixes."""
    runs = [run for result in (before, *results) for run in result.runs]
    return (
        *_of_the_machine(machine),
        *_of_steps(bounds, anchor, before, runs),
        *_of_repeating(before),
        *_of_memory(before, results),
        *_of_writes(runs),
        *_of_time(results),
    )


def own_failure(run: Run, anchor: Anchor) -> Caution:
    """Return the caution of a script that fails by itself, with and without fixes."""
    said = last_words(run, 1)
    text = f"the script fails by itself at step {steps_made(run, anchor) + 1} ({how(run)})"
    text += f": {said[0]}" if said else ""
    return Caution("fails-by-itself", text, "mend it; runs were ended before that step")


def nothing_fits(unfit: Sequence[tuple[str, str]]) -> Caution:
    """Return the caution of a machine on which none of the fixes can gain anything."""
    told = ", ".join(f"{code} ({why})" for code, why in unfit)
    text = f"none of the fixes can gain anything on this machine: {told}"
    return Caution("nothing-fits", text, "verify on the machine that trains")


def _of_the_machine(machine: Machine) -> Iterator[Caution]:
    if machine.is_cpu:
        text = "measured on a CPU: nothing here is evidence for a GPU"
        yield Caution("cpu-only", text, "run it on the machine that trains")
    if machine.pressure is not None and machine.pressure > BUSY:
        text = f"in {machine.pressure:.0%} of the time some process waited for a CPU"
        yield Caution("busy-machine", text, "stop other work on the machine, and measure again")


def _of_steps(
    bounds: Bounds, anchor: Anchor, before: Result, runs: Sequence[Run]
) -> Iterator[Caution]:
    timed = [run for run in before.runs if run.phase is Phase.TIMING and run.records]
    times = [time for run in timed if (time := step_time(run, anchor, bounds.warmup))]
    if times and min(times) < SHORT:
        text = f"a step takes {1e3 * min(times):.2g} ms: torchlint's hooks may be 12 % of that"
        yield Caution("short-steps", text, "give it batches as large as in the real training")
    ended = [run for run in runs if run.ending is Ending.FINISHED and run.phase is Phase.TIMING]
    early = min((steps_made(run, anchor) for run in ended), default=bounds.steps)
    if early < bounds.steps:
        text = f"the script ended by itself after {early} of {bounds.steps} steps"
        yield Caution("ended-early", text, "give it arguments with which it trains for longer")
    if (left := min(early, bounds.steps) - bounds.warmup) < FEW:
        text = f"only {max(left, 0)} steps of each run were timed"
        remedy = "give it arguments with which it trains longer, or ask for more with --steps"
        yield Caution("few-steps", text, remedy)


def _of_repeating(before: Result) -> Iterator[Caution]:
    traces = [run.records[0].trace for run in before.runs if run.phase is Phase.TRACE][:2:]
    known = [trace for trace in traces if trace]
    if len(known) < 2:
        return
    if known[0].batches != known[1].batches:
        text = "two runs of the script saw other batches, although all seeds were set alike"
        remedy = "compare the results of fixes with care; seed what the data depends on"
        yield Caution("random-batches", text, remedy)
    elif known[0].losses != known[1].losses or known[0].parameters != known[1].parameters:
        text = "two runs of the script do not give the same losses, although all seeds were set"
        remedy = "torch.use_deterministic_algorithms(True) says which operation it is"
        yield Caution("not-repeatable", text, remedy)


def _of_memory(before: Result, results: Sequence[Result]) -> Iterator[Caution]:
    for kind in ("rss", "allocated"):
        first = _memory(before, kind)
        for result in results:
            then = _memory(result, kind)
            if first and then > max(MORE * first, first + 64 * MIB):
                where = "GPU memory" if kind == "allocated" else "memory"
                text = (
                    f"{result.configuration.name} takes {then / first:.1f} times as much {where} "
                    f"({then / MIB:.0f} MiB instead of {first / MIB:.0f} MiB)"
                )
                yield Caution("more-memory", text, "leave room for it, or leave the fix out")


def _memory(result: Result, kind: str) -> int:
    runs = [run for run in result.runs if run.phase is Phase.TIMING]
    if kind == "rss":
        return max((run.rss for run in runs), default=0)
    peaks = [record.memory.get(kind, 0) for run in runs for record in run.records]
    return max(peaks, default=0)


def _of_writes(runs: Sequence[Run]) -> Iterator[Caution]:
    paths = sorted({path for run in runs for record in run.records for path in record.writes})
    if paths:
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        text = f"the script writes outside its project: {', '.join(paths[:SHOWN])}{more}"
        yield Caution("writes-outside", text, "give it other paths, if runs must not meet there")


def _of_time(results: Sequence[Result]) -> Iterator[Caution]:
    left = [result for result in results if result.verdict is Verdict.NOT_MEASURED]
    if left:
        names = ", ".join(result.configuration.name for result in left)
        text = f"the budget was too short for a verdict on {names}"
        yield Caution("time-over", text, "give more --time-budget")
    noisy = [result for result in results if result.verdict is Verdict.NOISY]
    if noisy:
        names = ", ".join(result.configuration.name for result in noisy)
        text = f"the times vary too much to say anything of {names}"
        yield Caution("noisy", text, "stop other work on the machine, or ask for more --steps")
