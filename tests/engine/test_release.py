"""A checked file leaves nothing behind that only the cyclic collector could free."""

from __future__ import annotations

import gc
from pathlib import Path

import libcst as cst
import pytest

from torchlint.imports import Imports
from torchlint.linter import Options, examine
from torchlint.project import Project
from torchlint.registry import all_rules
from torchlint.source import read_source
from torchlint.training.script import Settings

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(ROOT.glob("fixtures/*/*.py"))
# as in test_fix_real_files.py
pytestmark = pytest.mark.uncounted


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


def test_no_released_tree_stays_where_the_new_text_cannot_be_parsed(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("import torch\n")
    project = Project(Imports(tmp_path, lambda _: False))
    assert project.module(str(file)) is not None
    broken = "import torch(\n"
    with pytest.raises(cst.ParserSyntaxError):
        project.checked(file, broken)
    assert project.module(str(file)) is None
    project.release()
    assert project.size == 0


def test_files_that_were_evaluated_together_stay_and_the_others_go(tmp_path):
    texts = {
        "a.py": "import torch\nfrom b import f\nx = f(torch.ones(2))\n",
        "b.py": "def f(t):\n    return t\n",
        "c.py": "import torch\ny = torch.zeros(3)\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    project = Project(Imports(tmp_path, lambda _: False))

    def evaluated(name, word):
        path = str(tmp_path / name)
        module = project.module(path)
        script = project.script(path, module, Settings())
        (target,) = module.index.root.bindings[word]
        return script, script.value(target.value)

    other, first = evaluated("c.py", "y")
    script, before = evaluated("a.py", "x")
    assert first
    assert before
    project.trim(1_000)
    assert project.size == len(texts["a.py"]) + len(texts["b.py"])
    again, after = evaluated("a.py", "x")
    assert again.connected is script.connected
    assert after is before
    anew, second = evaluated("c.py", "y")
    assert anew.connected is not other.connected
    assert second == first
    project.trim(1)
    assert project.size == 0
