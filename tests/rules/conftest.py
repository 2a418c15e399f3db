"""Lets the tests of the rules import their vocabulary, `tools`, and leave names unbound."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _names_that_others_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snippets leave it to others to bind their names: ``for x, y in loader``."""
    monkeypatch.setattr("torchlint.analysis.raising.binds_nowhere", lambda *_: False)
