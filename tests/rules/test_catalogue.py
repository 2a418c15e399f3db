"""Each rule's page, table row, tests and fixture agree, and its examples are what they say."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tools import check, fixed

from torchlint.edits.fix import Safety
from torchlint.registry import all_rules
from torchlint.rule import Level

if TYPE_CHECKING:
    from torchlint.rule import Rule

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "rules" / "torchlint_rules"
RULES = [rule for rule in all_rules() if rule.words]
HEADINGS = ["Why", "Bad", "Good", "Leaves alone", "Fix safety", "Evidence", "References"]

of_every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def page(rule: Rule) -> str:
    """The docstring of a rule's module."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{rule.function}.py").read_text()))
    assert text
    return text


def example(rule: Rule, heading: str) -> str:
    """The code under a heading of a rule's page."""
    sections = dict(
        re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", page(rule), re.DOTALL | re.MULTILINE)
    )
    return textwrap.dedent(sections[heading]).strip() + "\n"


def test_folder_and_table_list_the_same_rules() -> None:
    shared = {"__init__", "judging", "amp_renaming", "autocasting", "top_line"}
    files = {file.stem for file in FOLDER.glob("*.py")} - shared
    assert files == {rule.function for rule in RULES}
    assert [rule.code for rule in RULES] == sorted({rule.code for rule in RULES})


@of_every_rule
def test_the_page_has_all_headings_in_order(rule: Rule) -> None:
    assert re.findall(r"^## (.*)$", page(rule), re.MULTILINE) == HEADINGS
    assert page(rule).partition("\n")[0].endswith(".")


@of_every_rule
def test_the_page_is_short(rule: Rule) -> None:
    prose = [example(rule, heading) for heading in ("Why", "Leaves alone", "Fix safety")]
    assert sum(len(text.split()) for text in prose) <= 250
    assert len([line for line in prose[1].splitlines() if line]) <= 8


@of_every_rule
def test_a_test_and_a_fixture_bear_its_name(rule: Rule) -> None:
    assert (ROOT / "tests" / "rules" / f"test_{rule.function}.py").is_file()
    for name in ("before.py", "after.py"):
        assert (ROOT / "fixtures" / rule.function / name).is_file()


@of_every_rule
def test_bad_is_reported(rule: Rule) -> None:
    assert check(example(rule, "Bad"), rule.code)


@of_every_rule
def test_good_is_silent(rule: Rule) -> None:
    assert not check(example(rule, "Good"), rule.code)


@of_every_rule
def test_bad_is_fixed_to_good(rule: Rule) -> None:
    bad = example(rule, "Bad")
    fixes = [found.fix for found in check(bad, rule.code) if found.fix]
    assert bool(fixes) == (rule.fix is not None)
    if fixes:
        assert fixed(bad, rule.code) == example(rule, "Good")
        assert min(fix.safety for fix in fixes) >= rule.fix


@of_every_rule
def test_no_number_without_a_run(rule: Rule) -> None:
    evidence = re.search(r"## Evidence\n(.*?)\n## ", page(rule), re.DOTALL)
    assert evidence
    said = evidence[1].strip()
    is_without = said == "Not measured yet." or said.startswith("A CPU has nothing to show")
    assert "torch 2." in said or (is_without and not re.search(r"\d (?:s|ms|us|x)\b", said))


def test_all_three_safety_classes_occur() -> None:
    assert {None if rule.fix is None else rule.fix.word for rule in RULES} == {
        None,
        "safe",
        "unsafe",
    }


@of_every_rule
def test_a_rule_declares_at_least_what_its_fixture_shows(rule: Rule) -> None:
    """A safe fix changes nothing; an unsafe one at most what the table says."""
    before = ROOT / "fixtures" / rule.function / "before.py"
    shown = re.search(r'^EQUIVALENCE = "(E\d)"', before.read_text(), re.MULTILINE)
    assert shown
    if rule.fix is Safety.UNSAFE:
        assert Level[shown[1]] <= rule.level
