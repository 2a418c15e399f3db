"""torchlint finds nothing to warn of in its own code and in what its fixes make."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]


def test_nothing_to_warn_of_in_our_own_code(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    done = run("check", ".", "--config", ".ci/torchlint.toml", "--output-format", "concise", "-q")
    assert done.code == 0, done.out
    checked = run("check", ".", "--config", ".ci/torchlint.toml", "--show-files").out.splitlines()
    assert "fixtures/bias_before_norm/after.py" in checked
    assert "rules/torchlint_rules/bias_before_norm.py" in checked
    assert not [name for name in checked if name.endswith("before.py") or "/scripts/" in name]
