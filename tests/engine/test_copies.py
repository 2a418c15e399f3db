"""Of a module and its left-over copies, only the one that is imported costs anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchlint.linter import Options, check_source, with_deep_stack
from torchlint.projects import Projects
from torchlint.registry import all_rules
from torchlint.source import decode_source

if TYPE_CHECKING:
    from pathlib import Path

LAYERS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        return self.norm(self.conv(x))
"""
OTHER = LAYERS.replace("nn.Conv2d(3, 8, 3)", "nn.Conv2d(1, 32, 5)").replace("8", "32") + (
    "\n\ndef build(depth):\n    layers = [Net()]\n    for _ in range(depth):\n"
    "        layers.append(Net())\n    model = nn.Sequential(*layers)\n    return model\n"
)
TRAIN = "from models.layers import Net\n\nif __name__ == '__main__':\n    print(Net())\n"
BY_PATH = (
    "import sys\nsys.path.append('models')\nimport importlib\nimportlib.import_module('net')\n"
)


def found(root: Path, path: str, files: dict[str, str]) -> set[str]:
    """The codes of what is found in a file of a project."""
    (root / "setup.py").write_text("")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    rules = tuple(all_rules())
    options = Options(rules, frozenset(), projects=Projects(lambda _: False))
    source = decode_source(files[path].encode(), path, root / path)
    return {one.code for one in with_deep_stack(lambda: check_source(source, options))}


COPY = "log/run1/layers.py"
SCRIPT = f"{LAYERS}\nfor _ in '12':\n    print(Net())\n"
BOTH = {"models/layers.py": LAYERS, COPY: LAYERS, "train.py": TRAIN}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(BOTH, id="the same"),
        pytest.param(BOTH | {COPY: f"{LAYERS}\nSIZE = 3\n"}, id="a line more"),
        pytest.param(
            BOTH
            | {"models/net.py": "from layers import Net\n", "train.py": BY_PATH}
            | {"log/run1/net.py": "from layers import Net\n"},
            id="imported by a copy that nothing imports",
        ),
        pytest.param(
            {"net/layers.py": LAYERS, COPY: LAYERS, "train.py": BY_PATH.replace("models", "net")},
            id="the other is imported by its name",
        ),
        pytest.param(
            BOTH
            | {"run1.py": "RATE = 0.1\n", "train.py": f"{TRAIN}{BY_PATH}"}
            | {"more.py": "import importlib\nimportlib.import_module('run1')\n"},
            id="a module called like its folder is imported by name",
        ),
        pytest.param({COPY: SCRIPT, "layers.py": SCRIPT}, id="a script that stands above"),
        pytest.param(
            {COPY: SCRIPT, "log/layers.py": SCRIPT, "log/run1/main.py": "import layers\n"}
            | {"main.py": "import layers\n"},
            id="imported by a copy",
        ),
    ],
)
def test_copies_cost_nothing(tmp_path, files):
    assert found(tmp_path, COPY, files) == set()


@pytest.mark.parametrize(
    ("path", "files"),
    [
        pytest.param("models/layers.py", BOTH, id="the one that is imported"),
        pytest.param(COPY, {COPY: LAYERS}, id="no other"),
        pytest.param(COPY, {COPY: LAYERS, "models/layers.py": LAYERS}, id="neither is imported"),
        pytest.param(
            COPY,
            BOTH | {COPY: OTHER, "log/run1/main.py": "import layers\nlayers.Net()\n"},
            id="the same name, other content",
        ),
        pytest.param(
            COPY, BOTH | {"log/run1/main.py": "import layers\nlayers.Net()\n"}, id="imported too"
        ),
        pytest.param(COPY, BOTH | {COPY: f"{LAYERS}for _ in '12':\n    Net()\n"}, id="a script"),
        pytest.param(COPY, BOTH | {COPY: f"{LAYERS}print(Net())\n"}, id="it does something"),
        pytest.param(
            COPY,
            BOTH | {"b.py": BY_PATH.replace("models", "log/run1") + "layers.Net()\n"},
            id="named",
        ),
        pytest.param(COPY, {COPY: SCRIPT, "models/layers.py": SCRIPT}, id="a script beside"),
        pytest.param(
            COPY, {COPY: SCRIPT, "layers.py": f"{SCRIPT}    f()\n"}, id="a script with more above"
        ),
        pytest.param(
            COPY,
            {COPY: SCRIPT, "layers.py": SCRIPT, "b.py": BY_PATH.replace("models", "log/run1")},
            id="a script that is named",
        ),
        pytest.param("layers.py", {COPY: SCRIPT, "layers.py": SCRIPT}, id="the script above"),
    ],
)
def test_what_may_run_does(tmp_path, path, files):
    assert found(tmp_path, path, files) == {"TL703"}


def test_what_is_wrong_is_reported_in_copies_too(tmp_path):
    wrong = (
        "from torch.utils.data import DataLoader\n"
        "def make(data):\n    return DataLoader(data, num_workers=0, prefetch_factor=4)\n"
    )
    files = {
        "models/loaders.py": wrong,
        "log/loaders.py": wrong,
        "train.py": "import models.loaders",
    }
    assert found(tmp_path, "log/loaders.py", files) == {"TL105"}


def test_files_that_are_put_aside_cost_nothing(tmp_path):
    assert found(tmp_path, "backup/layers.py", {"backup/layers.py": SCRIPT}) == set()
