"""What heirs hand to the ``__init__`` of their base is what the base keeps."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from probing import HEAD, parsed, probed

from torchlint.analysis.project import Project
from torchlint.analysis.values import Kind
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

BASE = """
class Loss:
    def __init__(self, name, criterion=None):
        self.name = name
        self.criterion = criterion
    def score(self, x, y):
        return probe({asked})
"""
HEIR = """
class Own(Loss):
    def __init__(self, weight=None):
        {call}
"""


def script(call: str, asked: str = "self.criterion", heir: str = HEIR) -> str:
    """Return a script with a class, and one that extends it."""
    return BASE.replace("{asked}", asked) + heir.replace("{call}", call)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("super().__init__('a', nn.L1Loss())", id="by its place"),
        pytest.param("super(Own, self).__init__('a', criterion=nn.L1Loss())", id="by its name"),
        pytest.param("made = nn.L1Loss()\n        super().__init__('a', made)", id="a local name"),
    ],
)
def test_what_an_heir_hands_on_is_kept(call: str) -> None:
    program = parsed(script(call), HEAD)
    assert program.value(probed(program)).kind is Kind.MODULE


def test_what_comes_of_it_is_known() -> None:
    program = parsed(script("super().__init__('a', nn.L1Loss())", "self.criterion(x, y)"), HEAD)
    assert program.value(probed(program)).kind is Kind.TENSOR


def test_what_an_heir_is_given_itself_is_handed_on() -> None:
    heir = "class Own(Loss):\n    def __init__(self, net):\n        super().__init__('a', net)\n"
    program = parsed(script("", heir=f"{heir}Own(nn.L1Loss())\n"), HEAD)
    assert program.value(probed(program)).kind is Kind.MODULE


def test_an_heir_of_an_heir_hands_on_to_the_nearest_that_has_an_init() -> None:
    heirs = "class Middle(Loss):\n    pass\n" + HEIR.replace("Loss", "Middle")
    program = parsed(script("super().__init__('a', nn.L1Loss())", heir=heirs), HEAD)
    assert program.value(probed(program)).kind is Kind.MODULE


@pytest.mark.parametrize(
    ("call", "heir"),
    [
        pytest.param("super().__init__('a', *rest)", HEIR, id="behind a star"),
        pytest.param("super().__init__('a')", HEIR, id="not at all"),
        pytest.param("self.more(super().__init__)", HEIR, id="not called"),
        pytest.param("super().prepare('a', nn.L1Loss())", HEIR, id="another method"),
        pytest.param("super(Loss, self).__init__('a', nn.L1Loss())", HEIR, id="past the base"),
        pytest.param("other.__init__('a', nn.L1Loss())", HEIR, id="of another object"),
        pytest.param(
            "super().__init__('a', nn.L1Loss())", HEIR.replace("Loss", "Other"), id="no heir"
        ),
        pytest.param(
            "super().__init__('a', nn.L1Loss())",
            HEIR.replace("Loss", "Mixin, Loss"),
            id="what is next may be another",
        ),
        pytest.param(
            "super().__init__('a', nn.L1Loss())",
            "class Middle(Loss):\n    def __init__(self, a, b):\n        pass\n"
            + HEIR.replace("Loss", "Middle"),
            id="of a class in between",
        ),
        pytest.param(
            "super().__init__('a', nn.L1Loss())",
            HEIR + "        super().__init__('a', nn.MSELoss())\n",
            id="twice",
        ),
        pytest.param(
            "def later():\n            super(Own, self).__init__('a', nn.L1Loss())",
            HEIR,
            id="inside another function",
        ),
    ],
)
def test_what_is_not_seen_to_be_handed_on_is_not_known(call: str, heir: str) -> None:
    program = parsed(script(call, heir=heir), HEAD)
    assert program.value(probed(program)).kind is not Kind.MODULE


@pytest.mark.parametrize("given", ["'a', 3", "*rest", "**options"])
def test_heirs_that_hand_on_different_things_leave_it_open(given: str) -> None:
    heirs = HEIR + HEIR.replace("Own", "Other").replace("{call}", f"super().__init__({given})")
    program = parsed(script("super().__init__('a', nn.L1Loss())", heir=heirs), HEAD)
    assert program.value(probed(program)).kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        pytest.param("class Loss:", Kind.MODULE, id="a plain class"),
        pytest.param("class Loss(nn.Module):", Kind.UNKNOWN, id="a module: of sizes, mostly"),
    ],
)
def test_an_heir_in_another_file(tmp_path: Path, base: str, kind: Kind) -> None:
    here = HEAD + BASE.replace("{asked}", "self.criterion").replace("class Loss:", base)
    there = HEAD + "from base import Loss\n" + HEIR
    there = there.replace("{call}", "super().__init__('a', nn.L1Loss())")
    for name, text in {"pyproject.toml": "", "base.py": here, "own.py": there}.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "base.py"))
    assert program is not None
    assert program.value(probed(program)).kind is kind
