"""How bad a finding is, and how safe its fix: one place for all rules.

Both follow from how often the line runs and from what is proved, not from the rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.edits.fix import Safety
from torchlint.rule import Severity
from torchlint.training.frequency import Rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchlint.training.frequency import Frequency
    from torchlint.training.host_reads import HostRead, How
    from torchlint.training.script import Script

STEPS = {Rate.STEP: "training step", Rate.EVAL_STEP: "evaluation step"}
COSTLY = (Rate.STEP, Rate.SAMPLE, Rate.BATCH)
TURNS = STEPS | {Rate.EVAL_STEP: "step of an evaluation", Rate.EPOCH: "epoch"}
OTHERS = {Rate.BATCH: "for every batch", Rate.SAMPLE: "for every sample"}


def severity(frequency: Frequency, *proved: bool) -> Severity | None:
    """Return INFO for what is not seen to cost in every step, sample or batch, else None.

    None leaves a finding the severity of its rule.  ``proved`` is what else has to hold for
    that: that the value is a tensor on a GPU, that no framework wraps the loop.
    """
    costs = frequency.rate in COSTLY and frequency.certain
    return None if costs and all(proved) else Severity.INFO


def safety(*proved: bool) -> Safety:
    """Return how safe a fix is that leaves what is computed as it was if all of this is proved."""
    return Safety.SAFE if all(proved) else Safety.UNSAFE


def every(frequency: Frequency, steps: Mapping[Rate, str] = STEPS) -> str:
    """Say of which steps something is a part."""
    step = steps[frequency.rate]
    if frequency.misses:
        return f"all but every n-th {step}"
    return f"every {step}" if frequency.holds else f"each {step} that gets here"


def by_statement(script: Script, *hows: How) -> Iterator[list[HostRead]]:
    """Yield what is read of the GPU in each step, the reads of one statement together."""
    statements: dict[int, list[HostRead]] = {}
    for read in script.host_reads:
        frequency = script.frequency(read.node)
        if read.how in hows and frequency.rate in STEPS and not frequency.guard:
            line = script.module.smallest_statement(read.node)
            statements.setdefault(id(line), []).append(read)
    yield from statements.values()


def waits(script: Script, read: HostRead) -> str:
    """Say how often the host waits for a read, and for how many others the same step waits."""
    frequency = script.frequency(read.node)
    reads = script.connected.reads_of_steps.get(frequency.loop, 1) if frequency.loop else 1
    more = f" (one of {reads} reads in it)" if reads > 1 and not frequency.misses else ""
    return f"waits for the GPU in {every(frequency)}{more}"


def often(frequency: Frequency) -> str:
    """Return how often something runs, to end a sentence with; "" where that is not certain."""
    if not frequency.certain or frequency.rate is Rate.ONCE:
        return ""
    return f" {OTHERS.get(frequency.rate) or 'in ' + every(frequency, TURNS)}"
