"""How often code runs: the small programs of the files in `cases`, each line with a `probe()`."""

from __future__ import annotations

import re
from pathlib import Path

import libcst as cst
import pytest
from programs import programs
from revealing import evaluated

from torchlint.training.effects import Effects
from torchlint.training.frequency import Frequencies

CASES = Path(__file__).with_name("cases")


def rates(files: dict[str, str]) -> list[str]:
    """Return how often each call of `probe` runs, in the order of files and lines."""
    evaluation = evaluated(files)
    frequencies = Frequencies(evaluation, Effects(evaluation))
    found = []
    for file, module in enumerate(evaluation.files.modules):
        for call in module.index.of(cst.Call):
            if isinstance(call.func, cst.Name) and call.func.value == "probe":
                frequency = frequencies.of(call, file)
                words = [frequency.rate.name.lower().replace("_", " ")]
                words += [frequency.guard.name.lower()] if frequency.guard else []
                words += ["but some"] if frequency.misses else []
                words += [] if frequency.known else ["unknown"]
                words += ["where it is so"] if frequency.certain > frequency.holds else []
                found.append(" ".join(words))
    return found


@pytest.mark.parametrize("files", list(programs(CASES / "frequency.txt")))
def test_how_often_it_runs(files: dict[str, str]) -> None:
    lines = [line for _, text in sorted(files.items()) for line in text.splitlines()]
    expected = re.findall(r"#: (.*)", "\n".join(lines))
    assert expected
    assert rates(files) == expected
