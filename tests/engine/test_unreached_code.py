"""What takes time is not reported where nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchlint.linter import Options, check_source, with_deep_stack
from torchlint.projects import Projects
from torchlint.registry import all_rules
from torchlint.source import decode_source

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "from torch.utils.data import DataLoader\n\n"
WRONG = "DataLoader(data, num_workers=0, prefetch_factor=4)"
SLOW = "torch.tensor(np.array(data))"
MAIN = "if __name__ == '__main__':\n    print(collate)\n"


def found(root: Path, source: str) -> set[str]:
    """The codes of what two rules find in the script of a project."""
    path = root / "train.py"
    (root / "requirements.txt").touch()
    path.write_text(f"import numpy as np, torch\n{HEAD}{source}")
    rules = tuple(rule for rule in all_rules() if rule.code in ("TL105", "TL302"))
    options = Options(rules, frozenset(), projects=Projects(lambda _: False))
    read = decode_source(path.read_bytes(), path.name, path)
    return {one.code for one in with_deep_stack(lambda: check_source(read, options))}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            f"def collate(data):\n    return data\n    return {SLOW}\n{MAIN}", id="a place"
        ),
        pytest.param(f"def spare_collate(data):\n    return {SLOW}\n{MAIN}", id="a function"),
    ],
)
def test_what_is_never_run_costs_nothing(tmp_path: Path, source: str) -> None:
    assert found(tmp_path, source) == set()
    assert found(tmp_path, source.replace(SLOW, f"({WRONG}, {SLOW})")) == {
        "TL105"
    }  # yet it is wrong


def test_what_runs_does(tmp_path: Path) -> None:
    assert found(tmp_path, f"def collate(data):\n    return {SLOW}\n{MAIN}") == {"TL302"}
