"""What the README shows is what the tool prints."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

    from conftest import Project, Run

ROOT = Path(__file__).parents[2]
README = ROOT.joinpath("README.md").read_text()
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


@pytest.fixture(scope="module")
def regenerate() -> ModuleType:
    """Run `python tests/regenerate.py` where one of these tests fails."""
    spec = importlib.util.spec_from_file_location("regenerate", ROOT / "tests" / "regenerate.py")
    assert spec is not None
    assert spec.loader is not None
    regenerate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(regenerate)
    return regenerate


def test_the_list_of_rules_is_current(regenerate: ModuleType) -> None:
    assert regenerate.table() == (ROOT / "rules" / "README.md").read_text()


def test_the_table_of_evidence_is_current(regenerate: ModuleType) -> None:
    text = (ROOT / "README.md").read_text()
    assert regenerate.WORTH.search(text)
    assert regenerate.worth(text) == text


def test_the_pages_of_evidence_are_current(regenerate: ModuleType) -> None:
    made = regenerate.docs()
    assert "evidence.md" in made
    for name, text in made.items():
        assert (ROOT / "docs" / name).read_text() == text, name


def test_the_evidence_in_the_pages_is_current(regenerate: ModuleType) -> None:
    for file, code in regenerate.modules():
        text = file.read_text()
        assert regenerate.with_evidence(text, code) == text, file.name
