"""What a report comes to: one sentence for each kind of outcome, which no row contradicts."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest
from report_tools import SHORT_OF_TIME, compared, cpu_report, group_report, report_of

from torchlint.verify.model import Interval, Same, Verdict
from torchlint.verify.report.headline import headline
from torchlint.verify.report.rows import rows

BIG = Interval(2.8, 3.5, 4.4)
SOME = Interval(1.6, 1.8, 2.0)
NONE = Interval(0.96, 0.99, 1.03)
LESS = Interval(0.7, 0.8, 0.9)


def faster(*codes: str, ratio: Interval = SOME, **more):
    return compared(*codes, ratio=ratio, **more)


def idle(*codes: str, ratio: Interval = NONE, **more):
    return compared(*codes, ratio=ratio, verdict=Verdict.NO_CHANGE, **more)


def slower(*codes: str, **more):
    return compared(*codes, ratio=LESS, verdict=Verdict.SLOWER, **more)


def unmeasured(*codes: str, pairs: int = 0, **more):
    why = more.pop("why", SHORT_OF_TIME)
    return compared(*codes, verdict=Verdict.NOT_MEASURED, pairs=pairs, why=why, **more)


def ended(verdict: Verdict, *codes: str, **more):
    return compared(*codes, verdict=verdict, same=None, **more)


BOTH = ("TL601", "TL901")
ALONE = report_of(faster("TL901", ratio=BIG), kept=("TL901",))
OUTCOMES = {
    "one fix": (
        ALONE,
        "TL901 makes a step 3.5x faster (2.8 to 4.4), results bitwise equal.",
    ),
    "all together, one fix proved alone": (
        report_of(
            unmeasured("TL601"), faster("TL901", ratio=Interval(1.5, 1.7, 1.9)), kept=BOTH,
            together=faster(*BOTH, name="all", same=Same.TOLERANCE),
        ),
        ("All fixes together: 1.8x faster (1.6 to 2.0), results equal within rounding. "
         "Largest part: TL901 (1.7x)."),
    ),
    "all together, none proved alone": (
        report_of(unmeasured("TL601"), unmeasured("TL901"), together=faster(*BOTH, name="all")),
        ("No single fix is proved yet; all fixes together are 1.8x faster (1.6 to 2.0), "
         "results bitwise equal."),
    ),
    "a group is kept": (
        group_report(),
        ("No single fix is proved yet; TL601 and TL602 together are 1.3x faster (1.1 to 1.5), "
         "results equal within rounding: keep them together."),
    ),
    "a group of many is kept, and no single fix can still be proved": (
        report_of(
            *(idle(f"TL60{at}") for at in range(6)),
            together=idle(*(f"TL60{at}" for at in range(6)), name="all"),
            groups=(faster(*(f"TL60{at}" for at in range(5))),),
            kept=tuple(f"TL60{at}" for at in range(5)),
        ),
        ("No single fix is proved; 5 fixes together are 1.8x faster (1.6 to 2.0), "
         "results bitwise equal: keep them together. "
         "All fixes together make no measurable difference."),
    ),
    "some are kept": (
        report_of(
            faster("TL601", ratio=SOME), faster("TL901", ratio=BIG), slower("TL101"),
            kept=BOTH, kept_result=faster(*BOTH, ratio=BIG, same=Same.RANDOM_STREAM, name="kept"),
        ),
        ("TL601 and TL901 together: 3.5x faster (2.8 to 4.4), random stream changed. "
         "Largest part: TL901 (3.5x)."),
    ),
    "one is kept, and all together are slower": (
        report_of(
            slower("TL601"), faster("TL901", ratio=BIG), kept=("TL901",),
            together=slower(*BOTH, name="all"),
        ),
        ("TL901 makes a step 3.5x faster (2.8 to 4.4), results bitwise equal. "
         "All fixes together are slower."),
    ),
    "one is kept, and all together gain more": (
        report_of(
            unmeasured("TL601"), faster("TL901"), kept=("TL901",),
            together=faster(*BOTH, ratio=BIG, name="all"),
        ),
        ("TL901 makes a step 1.8x faster (1.6 to 2.0), results bitwise equal. "
         "All fixes together are 3.5x faster (2.8 to 4.4)."),
    ),
    "kept together, but not measured together": (
        report_of(faster("TL601"), faster("TL901", ratio=BIG), kept=BOTH),
        "TL901 makes a step 3.5x faster (2.8 to 4.4), results bitwise equal.",
    ),
    "nothing gains": (
        report_of(idle("TL601", ratio=Interval(0.9615, 1.0, 1.04))),
        "No fix makes a measurable difference here; a change of 4 % would have shown in TL601.",
    ),
    "nothing gains, of several": (
        report_of(
            idle("TL601", ratio=Interval(0.9615, 1.0, 1.04)),
            idle("TL901", ratio=Interval(0.9479, 1.0, 1.055)),
            together=idle(*BOTH, ratio=Interval(0.98, 1.0, 1.02), name="all"),
        ),
        ("No fix makes a measurable difference here; a change of 5.5 % would have shown in each "
         "of them."),
    ),
    "no time": (
        report_of(unmeasured("TL601", pairs=2), unmeasured("TL901")),
        "Nothing is proved: only 2 pairs of runs were made in the time; give more --time-budget.",
    ),
    "no time at all": (
        report_of(unmeasured("TL601")),
        "Nothing is proved: no pair of runs was made in the time; give more --time-budget.",
    ),
    "interrupted": (
        report_of(unmeasured("TL601", pairs=1), interrupted=True),
        "Nothing is proved: it was interrupted after 1 pair of runs.",
    ),
    "all together are slower": (
        report_of(idle("TL601"), slower("TL901"), together=slower(*BOTH, name="all")),
        "All fixes together are slower: a step takes 1.2x as long (1.1 to 1.4).",
    ),
    "some of everything": (
        report_of(
            slower("TL101"), idle("TL601"), ended(Verdict.CHANGES_RESULTS, "TL703"),
            ended(Verdict.FAILED, "TL705"), unmeasured("TL901"), unmeasured("TL902"),
            together=compared("TL101", "TL601", ratio=NONE, verdict=Verdict.NOISY, name="all"),
        ),
        ("No fix is proved faster. Slower: TL101; changes results: TL703; failed: TL705; "
         "no measurable change: TL601; too noisy to say: all together; not measured: TL901, TL902; "
         "give more --time-budget."),
    ),
    "many of a kind": (
        report_of(*(ended(Verdict.FAILED, f"TL60{at}") for at in range(5))),
        "No fix is proved faster. Failed: 5 of them.",
    ),
    "the script fails": (
        replace(report_of(), before=ended(Verdict.FAILED)),
        "The script fails as it is: no fix was tried.",
    ),
    "no fix": (report_of(), "No fix was tried: there was none."),
    "no fix for this machine": (
        report_of(unfit=(("TL201", "it acts on a GPU only"),)),
        "No fix was tried: none of the fixes can act on this machine.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_its_sentence(outcome: str) -> None:
    report, wanted = OUTCOMES[outcome]
    assert headline(report) == wanted


STATES = (
    faster, idle, slower, unmeasured,
    lambda *codes, **more: compared(*codes, ratio=NONE, verdict=Verdict.NOISY, **more),
    lambda *codes, **more: ended(Verdict.FAILED, *codes, **more),
)  # fmt: skip


@pytest.mark.parametrize("kept", [(), ("TL601",), ("TL901",), BOTH], ids="+".join)
def test_no_row_contradicts_the_headline(kept: tuple[str, ...]) -> None:
    """What is said to be so much faster is a row that is; nothing is denied that a row shows."""
    for first, second, both in product(STATES, STATES, STATES):
        report = report_of(
            first("TL601"), second("TL901"), together=both(*BOTH, name="all"), kept=kept
        )
        said = headline(report)
        proved = [row for row in rows(report) if row.result.verdict is Verdict.FASTER]
        denied = re.search("Nothing is proved|No fix (is|makes)|are slower:", said)
        assert bool(denied) != bool(proved), said
        if "No single fix is proved" in said:
            assert [row.role for row in proved] == ["together"]
        if "together are slower" in said:
            assert both is slower
        wanted = [row for row in proved if row.codes == frozenset(kept)]
        if wanted:
            name = "All fixes together" if kept == BOTH else kept[0]
            assert name.lower() in said.lower()


def test_a_proved_speed_up_is_never_rounded_to_none() -> None:
    report = report_of(faster("TL901", ratio=Interval(1.021, 1.2, 1.41)), kept=("TL901",))
    assert "1.20x faster (1.02 to 1.41)" in headline(report)


def test_the_report_of_every_verdict_says_what_to_keep() -> None:
    assert headline(cpu_report()).startswith("TL201 and TL901 together: 1.58x faster (1.56 to ")
