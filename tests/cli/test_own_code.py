"""torchlint finds nothing to warn of in its own code and in what its fixes make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Check the whole project, in a process that coverage does not slow down."""
    command = (sys.executable, "-B", "-m", "torchlint", "check", ".", *arguments)
    settings = ("--config", ".ci/torchlint.toml")
    return subprocess.run(
        [*command, *settings], check=False, cwd=ROOT, capture_output=True, text=True
    )


def test_nothing_to_warn_of_in_our_own_code() -> None:
    done = check("--output-format", "concise", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    checked = check("--show-files").stdout.splitlines()
    assert "fixtures/bias_before_norm/after.py" in checked
    assert "rules/torchlint_rules/bias_before_norm.py" in checked
    assert not [name for name in checked if name.endswith("before.py") or "/scripts/" in name]
