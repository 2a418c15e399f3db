"""Safe fixes leave every number as it was: whole scripts, 50 steps, bit for bit."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from executor_tools import Place, place

from torchlint.edits.fix import Safety
from torchlint.verify.agree import agreement
from torchlint.verify.executor import ProjectExecutor
from torchlint.verify.model import Anchor, Bounds, Command, Ending, Phase, Same
from torchlint.verify.plan import Fixer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.verify.model import Configuration

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "scripts"
MIXED = {"graph_net"}  # each rule with a safe fix there has an unsafe one as well
SLOW = {"gan", "lstm_forecast"}  # tests/fixtures runs all of them, without the worker
STEPS = 50
LONG = ("--device", "cpu", "--epochs", "1000", "--steps", "1000")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with place(monkeypatch) as made:
        yield made


def all_safe(fixer: Fixer) -> Configuration:
    codes = [one.codes[0] for one in fixer.singles() if one.safety is Safety.SAFE]
    return fixer.with_codes(codes)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW))
        for path in sorted(SCRIPTS.glob("*.py"))
        if path.stem not in MIXED
    ],
)
def test_all_safe_fixes_together(here: Place, script: Path) -> None:
    shutil.copy(script, here.root)
    (here.root / "pyproject.toml").touch()
    command = Command(
        Path(sys.executable), here.root / script.name, None, LONG, (), here.root, here.root
    )
    fixer = Fixer(command, {}, None, True, pytest.fail)
    safe = all_safe(fixer)
    assert safe.codes
    bounds = Bounds(STEPS, 0, 200.0, Anchor("optimizer"))
    with ProjectExecutor(command, environment=here.environment) as executor:
        before, again = (executor.run(fixer.before(), Phase.TRACE, bounds) for _ in range(2))
        after = executor.run(safe, Phase.TRACE, bounds)
    for run in before, again, after:
        assert run.ending is Ending.BOUND, (run.code, run.stderr)
        assert len(run.records[0].steps[0]) == STEPS
    found = agreement(before, again, None, after, level=safe.level, safety=safe.safety)
    assert found.same is Same.BITWISE, (safe.codes, found)
    assert found.allowed
    once, fixed = before.records[0].trace, after.records[0].trace
    assert len(once.losses) >= STEPS
    assert (once.losses, once.batches, once.parameters, once.random) == (
        fixed.losses, fixed.batches, fixed.parameters, fixed.random
    )  # fmt: skip
