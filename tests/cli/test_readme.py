"""What the README shows is what the tool prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchlint.registry import all_rules

if TYPE_CHECKING:
    from conftest import Project, Run

README = Path(__file__).parents[2].joinpath("README.md").read_text()
EXAMPLE = re.search(r"```python\n# train\.py\n(.*?)```", README, re.DOTALL)
RUNS = re.findall(r"```console\n\$ torchlint (check train\.py.*?)\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), RUNS, ids=[command for command, _ in RUNS])
def test_the_example_prints_what_is_shown(
    command: str, shown: str, project: Project, run: Run
) -> None:
    assert EXAMPLE is not None
    project.write("train.py", EXAMPLE[1])
    done = run(*command.split())
    assert done.code == 1
    assert done.out == shown


def test_both_kinds_of_run_are_shown() -> None:
    assert len(RUNS) == 2


def test_the_table_lists_every_rule() -> None:
    rows = [
        f"| {rule.code} | `{rule.name}` | {rule.summary} | {rule.severity.word} | "
        f"{rule.fix.word if rule.fix else '-'} |"
        for rule in all_rules()
        if rule.words
    ]
    table = "\n".join(
        ["| code | name | what it finds | severity | fix |", "|---|---|---|---|---|", *rows]
    )
    assert table in README
