"""Reports as verify gives them, made of numbers that are drawn from a fixed seed."""

from __future__ import annotations

import functools
import math
import random
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from torchlint.edits.fix import Safety
from torchlint.report.paint import paint
from torchlint.verify.model import (
    Agreement,
    Anchor,
    Bounds,
    Caution,
    Command,
    Configuration,
    Ending,
    Interval,
    Judgement,
    Level,
    Machine,
    Phase,
    Read,
    Record,
    Report,
    Result,
    Run,
    Same,
    Sample,
    Speed,
    Trace,
    Verdict,
)
from torchlint.verify.report import markdown, table
from torchlint.verify.statistics import judge, log_interval
from torchlint.verify.steptimes import lockstep_sample, sequential_sample

WARMUP, TIMED, TURN = 10, 48, 8
BOUNDS = Bounds(WARMUP + TIMED, WARMUP, 120.0, Anchor("optimizer"))
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ada/mnist/train.py", line 41, in <module>
    loss = step(images, labels)
  File "/home/ada/mnist/train.py", line 29, in step
    raise ValueError("<script>alert('no')</script> & batch of 3")
ValueError: <script>alert('no')</script> & batch of 3
"""

CPU = Machine(
    python="3.11.2",
    torch="2.13.0+cpu",
    device="CPU",
    cuda=None,
    driver=None,
    cpu="AMD EPYC 7B13",
    cores=2,
    threads=2,
    system="Linux x86_64",
    load=(1.31, 1.12, 0.87),
    pressure=0.042,
    libraries={"numpy": "2.3.4"},
)
H100 = replace(
    CPU,
    torch="2.13.0+cu128",
    device="NVIDIA H100 80GB HBM3",
    cuda="12.8",
    driver="570.86.15",
    cores=26,
    threads=26,
    pressure=None,
)
COMMAND = Command(
    python=Path("/home/ada/env/bin/python"),
    script=Path("/home/ada/mnist/train.py"),
    module=None,
    arguments=("--epochs", "1", "--data", "./data"),
    launcher=(),
    folder=Path("/home/ada/mnist"),
    root=Path("/home/ada/mnist"),
)


def configuration(*codes: str, name: str = "", safety: Safety = Safety.SAFE) -> Configuration:
    """The project with some fixes in it."""
    return Configuration(
        name=name or "+".join(codes) or "before",
        codes=codes,
        files={"train.py": b"# fixed\n"} if codes else {},
        lines={"train.py": frozenset({12, 29})} if codes else {},
        safety=safety if codes else None,
        level=Level.E0,
    )


class Lab:
    """Draws runs: a step takes ``mean`` seconds, more or less ``noise`` of it, run by run."""

    def __init__(self, seed: int = 7, *, device: bool = False, steps: int = BOUNDS.steps) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.device = device
        self.bounds = replace(BOUNDS, steps=steps)

    def run(self, name: str, mean: float, noise: float, *, turns: bool = False) -> Run:
        """One timing run."""
        mean *= 1 + self.random.gauss(0, noise)
        lengths = [mean * self.random.uniform(0.9, 1.1) for _ in range(self.bounds.steps)]
        times = tuple(accumulate(lengths, initial=3.0))[1:]
        timed = lengths[WARMUP:]
        taken = tuple(sum(timed[at : at + TURN]) for at in range(0, len(timed), TURN))
        record = self.record(times, turns=taken if turns else ())
        return self.launch(name, Phase.TIMING, record, rss=round(1.2e9 + 1e9 * mean))

    def record(self, times: tuple[float, ...], **more) -> Record:
        memory = {"allocated": 11_240_000_000, "reserved": 12_900_000_000}
        return Record(
            rank=0,
            world=1,
            ended="bound",
            device="cuda:0" if self.device else "cpu",
            torch="2.13.0",
            steps=(times,),
            optimizers=("AdamW",),
            backwards=times,
            waits=tuple((time - 0.001, 0.0006) for time in times),
            start=2.0,
            workers=2,
            memory=memory if self.device else {},
            **more,
        )

    def launch(self, name: str, phase: Phase, *records: Record, **more) -> Run:
        ended = {"ending": Ending.BOUND, "code": 0, "stderr": "", "seconds": 9.5}
        values = {**ended, "rss": 1_240_000_000, **more}
        return Run(configuration=name, phase=phase, records=records, **values)

    def trace(self, name: str, *, reads: int = 2, drift: float = 0.0, fall: float = 30.0) -> Run:
        """A trace run: the losses fall, and from the 20th on ``drift`` of them is different."""
        own = random.Random(1)  # noqa: S311
        losses = [
            2.3 * math.exp(-at / fall) + 0.25 + own.uniform(-0.09, 0.09)
            for at in range(self.bounds.steps)
        ]
        apart = tuple(
            loss * (1 + drift * min(1.0, (at - 20) / 30) * (1 + 0.3 * math.sin(at)))
            if at >= 20
            else loss
            for at, loss in enumerate(losses)
        )
        steps = self.bounds.steps
        trace = Trace(
            losses=apart,
            batches=tuple(f"{at:08x}" for at in range(steps)),
            initial="a1",
            parameters="b2",
            norms=(1.5, 0.25),
            random="c3",
            reads=(Read("train.py", 44, "Tensor.item", reads * steps),) if reads else (),
        )
        times = tuple(3.0 + 0.05 * at for at in range(steps))
        record = self.record(times, trace=trace, busy=0.87 if self.device else None)
        return self.launch(name, Phase.TRACE, record)

    def judged(
        self, before: float, after: float, noise: float, pairs: int, speed: Speed, *, turns: bool
    ) -> tuple[Judgement, tuple[Run, ...], Interval, tuple[Run, ...]]:
        """Pairs of runs with what they say: the judgement, the runs, and those of before."""
        first = tuple(self.run("before", before, noise, turns=turns) for _ in range(pairs))
        second = tuple(self.run("after", after, noise, turns=turns) for _ in range(pairs))
        samples = tuple(
            lockstep_sample(*pair) if turns else sequential_sample(*pair, BOUNDS.anchor, WARMUP)
            for pair in zip(first, second, strict=True)
        )
        judgement = replace(judge(samples), speed=speed)
        step = log_interval([sample.after for sample in samples])
        return judgement, second, step, first


def agreement(same: Same, *, allowed: bool = True, first: int | None = None) -> Agreement:
    why = {
        Same.BITWISE: "all 58 losses and all parameters are the same to the last bit",
        Same.TOLERANCE: "the losses differ by at most 6e-05 of their size, as rounding does",
        Same.RANDOM_STREAM: "the same samples came in another order",
        Same.SEED_SPREAD: "the losses differ less than those of two seeds",
        Same.DIVERGED: "from backward 20 on the losses differ by up to 31 %: two seeds do less",
    }[same]
    return Agreement(same, allowed, first, 0.0 if same is Same.BITWISE else 0.31, why)


@functools.cache
def cpu_report() -> Report:
    """A report with every verdict, of a CPU."""
    lab, base = Lab(), 0.0412
    arms: list[Run] = []

    def single(code: str, verdict: Verdict, why: str, after: float | None = None, **more) -> Result:
        speed, noise, pairs, same, drift = (
            more.pop(key, default)
            for key, default in (
                ("speed", Speed.FASTER), ("noise", 0.012), ("pairs", 7),
                ("same", agreement(Same.BITWISE)), ("drift", 0.0),
            )
        )  # fmt: skip
        judgement, runs, step = None, (), None
        if after is not None:
            judgement, runs, step, first = lab.judged(base, after, noise, pairs, speed, turns=False)
            arms.extend(first)
        if same is not None:
            runs = (lab.trace(code, drift=drift, **more), *runs)
        own = configuration(code)
        return Result(own, verdict, why, judgement, same, runs, verdict is Verdict.FASTER, step)

    failed = lab.launch("TL705", Phase.TRACE, ending=Ending.FAILED, code=1, stderr=TRACEBACK, rss=0)
    singles = (
        single("TL901", Verdict.FASTER, "1.45x faster", 0.0284, reads=2),
        single("TL201", Verdict.FASTER, "1.08x faster", 0.0381, reads=0, noise=0.004),
        single("TL602", Verdict.NO_CHANGE, "a change of 1.6 % would have shown", 0.0411,
               speed=Speed.NO_CHANGE, noise=0.005, pairs=9),
        single("TL101", Verdict.SLOWER, "starting 4 workers costs more than they save", 0.0533,
               speed=Speed.SLOWER),
        single("TL703", Verdict.CHANGES_RESULTS,
               "the fix is declared to change nothing, but the losses differ from backward 20 on",
               0.0389, same=agreement(Same.DIVERGED, allowed=False, first=20), drift=0.31),
        single("TL206", Verdict.NOT_EXERCISED,
               "line 88 of train.py, which the fix changes, was never reached in 58 steps",
               same=None),
        replace(single("TL705", Verdict.FAILED, "the script ended with exit code 1 in its trace",
                       same=None), runs=(failed,)),
        single("TL104", Verdict.NOISY, "only a change of 21 % or more would have shown",
               0.0398, speed=Speed.NOISY, noise=0.16, pairs=15),
        single("TL401", Verdict.NOT_MEASURED, "the time budget of 10 min was over before its turn",
               speed=Speed.OPEN),
    )  # fmt: skip
    judgement, runs, step, first = lab.judged(base, 0.0262, 0.01, 7, Speed.FASTER, turns=False)
    kept = configuration("TL201", "TL901", name="kept")
    kept_result = Result(
        kept, Verdict.FASTER, "1.57x faster", judgement, agreement(Same.BITWISE),
        (lab.trace("kept", reads=0), *runs), keep=True, step=step,
    )  # fmt: skip
    together = Result(
        configuration(*(each.configuration.codes[0] for each in singles), name="all"),
        Verdict.FAILED, "the script ended with exit code 1 in its trace run, as with TL705 alone",
        None, None, (replace(failed, configuration="all"),), keep=False,
    )  # fmt: skip
    arms = [*arms, *first]
    before = Result(
        configuration(), Verdict.NOT_MEASURED, "not measured: as it is", None, None,
        (lab.trace("before"), lab.trace("before"), *arms), keep=False,
    )  # fmt: skip
    return Report(
        command=COMMAND,
        shown_command="python train.py --epochs 1 --data ./data",
        machine=CPU,
        mode="sequential",
        bounds=BOUNDS,
        before=before,
        singles=singles,
        together=together,
        kept=("TL201", "TL901"),
        kept_result=kept_result,
        apply_command="torchlint check train.py --select TL201,TL901 --fix",
        cautions=(
            Caution(
                "cpu-pressure",
                "other processes wanted the CPU in 21 % of the time, which widens the intervals",
                "end them, or give verify more time with --time-budget 30m",
            ),
            Caution(
                "writes-outside",
                "the script wanted to write to /home/ada/mnist/runs/log.txt",
                "nothing: it wrote into the copy instead",
            ),
        ),
        interrupted=False,
        seconds=612.4,
    )


@functools.cache
def cuda_report() -> Report:
    """A report of a GPU with memory and busy share, measured in lockstep."""
    lab = Lab(11, device=True)
    arms: list[Run] = []

    def result(codes: tuple[str, ...], after: float, **more) -> Result:
        judgement, runs, step, first = lab.judged(
            0.1873, after, 0.004, 5, more.get("speed", Speed.FASTER), turns=True
        )
        arms.extend(first)
        same = agreement(more.get("same", Same.BITWISE))
        own = configuration(*codes)
        traced = lab.trace(own.name, reads=more.get("reads", 3), drift=more.get("drift", 0.0))
        verdict = more.get("verdict", Verdict.FASTER)
        why = more.get("why", "it is faster")
        return Result(own, verdict, why, judgement, same, (traced, *runs), keep=True, step=step)

    singles = (
        result(("TL501",), 0.0921, same=Same.TOLERANCE, drift=0.004),
        result(("TL201",), 0.1742, reads=1),
        replace(
            result(
                ("TL602",), 0.1871, speed=Speed.NO_CHANGE, verdict=Verdict.NO_CHANGE,
                why="a change of 1.1 % would have shown",
            ),
            keep=False,
        ),
        result(("TL104",), 0.1650, same=Same.RANDOM_STREAM),
    )  # fmt: skip
    pilot = replace(lab.run("before", 0.1873, 0.0), phase=Phase.PILOT)
    together = result(("TL501", "TL201", "TL602", "TL104"), 0.0688, same=Same.RANDOM_STREAM)
    kept = result(("TL501", "TL201", "TL104"), 0.0691, reads=1, same=Same.RANDOM_STREAM)
    before = Result(
        configuration(), Verdict.NOT_MEASURED, "not measured: as it is", None, None,
        (pilot, lab.trace("before", reads=3), lab.trace("before", reads=3), *arms), keep=False,
    )  # fmt: skip
    return replace(
        cpu_report(),
        machine=H100,
        mode="lockstep",
        before=before,
        singles=singles,
        together=together,
        kept=("TL501", "TL201", "TL104"),
        kept_result=kept,
        apply_command="torchlint check train.py --select TL501,TL201,TL104 --fix --unsafe-fixes",
        cautions=(),
        seconds=254.0,
    )


def interrupted_report() -> Report:
    """What is known when Ctrl-C comes during the second fix."""
    whole = cpu_report()
    left = whole.singles[1]
    unmeasured = replace(
        left, verdict=Verdict.NOT_MEASURED, why="interrupted before its turn", judgement=None,
        agreement=None, runs=(), keep=False, step=None,
    )  # fmt: skip
    return replace(
        whole,
        singles=(whole.singles[0], unmeasured),
        together=None,
        kept=("TL901",),
        kept_result=None,
        apply_command="torchlint check train.py --select TL901 --fix",
        cautions=(),
        interrupted=True,
        seconds=71.2,
    )


def compared(
    *codes: str,
    ratio: Interval | None = None,
    verdict: Verdict = Verdict.FASTER,
    same: Same | None = Same.BITWISE,
    pairs: int = 3,
    name: str = "",
    why: str = "",
) -> Result:
    """A configuration of which that is known; its pairs agree with the ratio."""
    speed = next((each for each in Speed if each.value == verdict.value), None)
    judgement = None
    if speed is not None:
        before, after = 0.04, 0.04 / (ratio.middle if ratio else 1.0)
        drift = [1.1 ** (at - (pairs - 1) / 2) for at in range(pairs)]
        samples = tuple(Sample(before * each, after * each, "sequential") for each in drift)
        judgement = Judgement(
            speed, ratio, ratio.high / ratio.middle - 1 if ratio else None, samples
        )
    return Result(
        configuration(*codes, name=name), verdict, why or f"{verdict.value}: as it was seen",
        judgement, agreement(same) if same is not None else None, (),
        keep=False,
    )  # fmt: skip


def report_of(
    *singles: Result,
    together: Result | None = None,
    groups: tuple[Result, ...] = (),
    kept: tuple[str, ...] = (),
    kept_result: Result | None = None,
    **more,
) -> Report:
    """A report of these, in which each single fix says whether it is kept."""
    told = tuple(replace(one, keep=one.configuration.codes[0] in kept) for one in singles)
    command = f"torchlint check --fix --fixable {','.join(kept)} train.py" if kept else ""
    values = {"cautions": (), "seconds": 181.0, "interrupted": False, "unfit": (), **more}
    return replace(
        cpu_report(), singles=told, together=together, groups=groups, kept=kept,
        kept_result=kept_result, apply_command=command, **values,
    )  # fmt: skip


SHORT_OF_TIME = "not measured: no pair of runs was made before the time was over"
ON_A_GPU = "it acts on a GPU only"


def group_report() -> Report:
    """Only a group of fixes is proved; the time was over before its parts were."""
    unmeasured = [
        compared(code, verdict=Verdict.NOT_MEASURED, pairs=0, why=SHORT_OF_TIME)
        for code in ("TL601", "TL602", "TL104")
    ]
    few = compared(
        "TL904", verdict=Verdict.NOT_MEASURED, pairs=2,
        why="not measured: only 2 pairs of runs were made before the time was over",
    )  # fmt: skip
    codes = ("TL104", "TL601", "TL602", "TL904")
    all_of_them = compared(
        *codes, ratio=Interval(0.93, 1.09, 1.28), verdict=Verdict.NOISY, name="all", pairs=7,
        why="too noisy to say: 0.93x to 1.28x; only a change of 19 % would have shown",
    )  # fmt: skip
    halves = (
        compared("TL601", "TL602", ratio=Interval(1.12, 1.3, 1.51), same=Same.TOLERANCE),
        compared(
            "TL104", "TL904", ratio=Interval(0.97, 1.0, 1.03), verdict=Verdict.NO_CHANGE,
            why="no measurable change; a change of 5 % would have shown",
        ),
    )  # fmt: skip
    unfit = (("TL102", ON_A_GPU), ("TL201", ON_A_GPU), ("TL501", ON_A_GPU),
             ("TL801", "it acts on several GPUs only"))  # fmt: skip
    over = Caution("time-over", "the time was over before TL601", "give more --time-budget")
    return report_of(
        *unmeasured, few, together=all_of_them, groups=halves, kept=("TL601", "TL602"),
        unfit=unfit, cautions=(over,),
    )  # fmt: skip


def unproved_report() -> Report:
    """Nothing gains anything."""
    none = compared(
        "TL601", ratio=Interval(0.96, 0.99, 1.03), verdict=Verdict.NO_CHANGE,
        why="no measurable change; a change of 4.0 % would have shown",
    )  # fmt: skip
    return report_of(none)


DATA = Path(__file__).with_name("data")


def snapshot(name: str) -> str:
    """What a report looked like when a person last looked at it."""
    return (DATA / "report" / name).read_text(encoding="utf-8")


def snapshots() -> dict[str, str]:
    """All of them, made anew."""
    made = {
        "cpu": cpu_report(), "cuda": cuda_report(), "interrupted": interrupted_report(),
        "group": group_report(), "unproved": unproved_report(),
    }  # fmt: skip
    found = {}
    for name, report in made.items():
        for columns in (60, 100, 140):
            text = "".join(paint(table.lines(report, columns), color=False))
            found[f"{name}-{columns}.txt"] = text
        found[f"{name}.md"] = markdown.render(report)
    return found


if __name__ == "__main__":
    (DATA / "report").mkdir(parents=True, exist_ok=True)
    for name, text in snapshots().items():
        (DATA / "report" / name).write_text(text, encoding="utf-8")
