"""Lets the tests of the engine import their vocabulary, and gives them rules of their own."""

from __future__ import annotations

import sys
import types
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from torchlint.edits.fix import Safety
from torchlint.rule import Rule

if TYPE_CHECKING:
    from torchlint.rule import Check

sys.path.insert(0, str(Path(__file__).parent))


class MakeRule(Protocol):
    def __call__(
        self, code: str, check: Check, *, group: int = 5, words: tuple[tuple[str, ...], ...] = ()
    ) -> Rule: ...


@pytest.fixture
def make_rule(monkeypatch: pytest.MonkeyPatch) -> MakeRule:
    """Make a rule out of a check, as if it lay in a module of its own."""
    numbers = count()

    def make(
        code: str, check: Check, *, group: int = 5, words: tuple[tuple[str, ...], ...] = ()
    ) -> Rule:
        name = f"fake-{next(numbers)}"
        rule = Rule(
            code, name, "a rule of a test", group, words, fix=Safety.SAFE, package="fake_rules"
        )
        module = types.ModuleType(rule.module)
        setattr(module, rule.function, check)
        monkeypatch.setitem(sys.modules, rule.module, module)
        return rule

    return make
