"""What expressions are, by the code alone: the small programs of the files in `cases`.

Each line with ``#:`` holds one `reveal`, and says what is known of its argument, in any order.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import programs
from revealing import revealed

CASES = sorted(Path(__file__).with_name("cases").glob("*.txt"))


@pytest.mark.parametrize("files", [one for path in CASES for one in programs(path)])
def test_what_is_known(files: dict[str, str]) -> None:
    lines = [line for _, text in sorted(files.items()) for line in text.splitlines()]
    expected = [line.partition("#: ")[2] for line in lines if "#: " in line]
    assert expected
    assert list(map(alternatives, revealed(files))) == list(map(alternatives, expected))


def alternatives(shown: str) -> list[str]:
    return sorted(shown.split(" | "))
