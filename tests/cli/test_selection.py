"""Which rules a selection turns on."""

from __future__ import annotations

import pytest

from torchlint.errors import UsageError
from torchlint.registry import (
    Choice,
    all_rules,
    check_selector,
    find,
    is_selected,
    load,
    page,
    specificity,
)

pytestmark = pytest.mark.usefixtures("few_rules")

ALL = Choice(select=("ALL",))


@pytest.mark.parametrize(
    ("code", "choices", "on"),
    [
        pytest.param("TL201", [], False, id="nothing is selected by nobody"),
        pytest.param("TL201", [ALL], True, id="ALL covers every code"),
        pytest.param("TL201", [Choice(select=("TL2",))], True, id="a prefix covers its codes"),
        pytest.param("TL302", [Choice(select=("TL2",))], False, id="a prefix covers no other"),
        pytest.param(
            "TL201",
            [Choice(select=("TL201",), ignore=("TL2",))],
            True,
            id="the more specific selector wins over a broader ignore",
        ),
        pytest.param(
            "TL201",
            [Choice(select=("TL2",), ignore=("TL201",))],
            False,
            id="the more specific ignore wins over a broader selector",
        ),
        pytest.param(
            "TL201",
            [Choice(select=("TL201",), ignore=("TL201",))],
            False,
            id="ignore wins a draw",
        ),
        pytest.param(
            "TL201",
            [ALL, Choice(ignore=("TL201",)), Choice(select=("TL2",))],
            True,
            id="a later select replaces what came before",
        ),
        pytest.param(
            "TL201",
            [ALL, Choice(ignore=("TL2",)), Choice(extend=("TL201",))],
            True,
            id="a later extension adds to what came before",
        ),
        pytest.param(
            "TL201", [ALL, Choice(ignore=("TL2",)), Choice()], False, id="silence changes nothing"
        ),
        pytest.param(
            "TL303", [Choice(select=("TL303b",))], False, id="a sub-case leaves its rule off"
        ),
        pytest.param("TL303b", [Choice(select=("TL303b",))], True, id="a sub-case is on"),
        pytest.param("TL303b", [Choice(select=("TL303",))], True, id="a rule covers its sub-cases"),
    ],
)
def test_is_selected(code: str, choices: list[Choice], on: bool) -> None:
    assert is_selected(code, choices) is on


def test_specificity_is_the_length_of_the_longest_cover() -> None:
    assert specificity("TL201", ("TL", "TL20", "TL3")) == 4
    assert specificity("TL201", ("ALL",)) == 0
    assert specificity("TL201", ("TL3",)) == -1


@pytest.mark.parametrize("selector", ["ALL", "TL", "TL2", "TL201", "TL303b", "TL001"])
def test_known_selectors(selector: str) -> None:
    check_selector(selector, "here")


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        pytest.param("TL9O1", "TL", id="a letter for a digit"),
        pytest.param("TL999", "", id="no such number"),
        pytest.param("tl201", "`TL201`", id="wrong case"),
        pytest.param("bias-before-norm", "`TL703`", id="a name instead of a code"),
        pytest.param("", "", id="empty"),
        pytest.param("TL303B", "`TL303`", id="a sub-case is a small letter"),
        pytest.param("TL303z", "`TL303`", id="no such sub-case"),
        pytest.param("TL303-", "`TL303`", id="no letter"),
        pytest.param("qqqqqq", "", id="like nothing"),
    ],
)
def test_unknown_selectors(selector: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_selector(selector, "`select`")
    assert f"`{selector}`" in str(caught.value)
    assert "in `select`" in str(caught.value)
    assert "rule --all" in str(caught.value)
    assert hint in str(caught.value)
    assert ("did you mean" in str(caught.value)) is bool(hint)


def test_rules_are_in_order_and_unique() -> None:
    codes = [rule.code for rule in all_rules()]
    assert codes == sorted(set(codes))
    assert codes[:2] == ["TL001", "TL002"]


def test_find_takes_codes_names_and_sub_cases() -> None:
    assert find("TL703").name == "bias-before-norm"
    assert find("bias-before-norm").code == "TL703"
    assert find("TL303b").code == "TL303"
    with pytest.raises(UsageError, match="did you mean `bias-before-norm`"):
        find("bias-before-nrom")


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_every_rule_has_a_page(rule) -> None:
    text = page(rule)
    for heading in ("## Why", "## Bad", "## Good", "## Leaves alone", "## Fix safety"):
        assert f"\n{heading}\n" in text


@pytest.mark.parametrize("rule", all_rules()[2:], ids=lambda rule: rule.name)
def test_every_check_can_be_loaded(rule) -> None:
    assert load(rule).__name__ == rule.function
