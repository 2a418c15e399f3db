"""How bad a finding is, and how safe its fix: one place for all rules.

Both follow from how often the line runs and from what is proved, not from the rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.edits.fix import Safety
from torchlint.rule import Severity
from torchlint.training.frequency import Rate

if TYPE_CHECKING:
    from torchlint.training.frequency import Frequency

COSTLY = (Rate.STEP, Rate.SAMPLE, Rate.BATCH)


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
