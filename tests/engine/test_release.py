"""A checked file leaves nothing behind that only the cyclic collector could free."""

from __future__ import annotations

import gc
from pathlib import Path

import libcst as cst
import pytest

from torchlint.linter import Options, examine
from torchlint.registry import all_rules
from torchlint.source import read_source

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(ROOT.glob("fixtures/*/*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_tree_goes_when_the_check_ends(path):
    options = Options(all_rules(), frozenset(), None)
    source = read_source(path, path.name)
    gc.collect()
    gc.disable()
    try:
        known = set(map(id, _trees()))
        examine(source, options)
        assert not [tree for tree in _trees() if id(tree) not in known]
    finally:
        gc.enable()


def _trees() -> list[cst.Module]:
    return [each for each in gc.get_objects() if type(each) is cst.Module]
