"""Where the host waits for a tensor: the lines of `cases/host_reads.txt` that are marked, no other.

A question mark says that it is a tensor on a GPU only as far as anybody knows.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import programs
from revealing import evaluated

from torchlint.training.host_reads import host_reads

CASES = Path(__file__).with_name("cases")


def reads(text: str) -> dict[int, set[str]]:
    """Return how values are read, by the number of the line."""
    evaluation = evaluated(text)
    (module,) = evaluation.files.modules
    found: dict[int, set[str]] = {}
    for read in host_reads(evaluation, 0):
        code = module.code(module.smallest_statement(read.node))
        line = next(k for k, one in enumerate(text.splitlines()) if code.splitlines()[0] in one)
        found.setdefault(line, set()).add(read.how.name.lower() + "?" * (not read.sure))
    return found


@pytest.mark.parametrize("files", list(programs(CASES / "host_reads.txt")))
def test_what_is_read(files: dict[str, str]) -> None:
    text = files["main.py"]
    marked = {
        number: {line.partition("#: ")[2]}
        for number, line in enumerate(text.splitlines())
        if "#: " in line
    }
    assert reads(text) == marked
