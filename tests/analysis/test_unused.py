"""What nothing in the project uses, not even by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probing import probed

from torchlint.analysis.project import Project
from torchlint.analysis.unused import is_unused
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

FUNCTION = "def apply(x):\n    probe(x)\n"
CLASS = "class Net:\n    def forward(self, x):\n        probe(x)\n"
SCRIPT = "if __name__ == '__main__':\n    main()\n"


def unused(folder: Path, source: str, other: str) -> bool:
    (folder / "net.py").write_text(source)
    (folder / "main.py").write_text(other)
    program = Project(Imports(folder, lambda _: False)).program(str(folder / "net.py"))
    assert program is not None
    return is_unused(program, probed(program))


@pytest.mark.parametrize(
    ("source", "other"),
    [
        pytest.param(FUNCTION, "apply(3)\n" + SCRIPT, id="a call in another file"),
        pytest.param(CLASS, "net.Net()\n" + SCRIPT, id="a class, by its module"),
        pytest.param(FUNCTION, "run('apply')\n" + SCRIPT, id="by its name as a text"),
        pytest.param(FUNCTION + "apply(3)\n", SCRIPT, id="a call in its own file"),
        pytest.param(FUNCTION + "__all__ = ['apply']\n", SCRIPT, id="offered to others"),
        pytest.param("@register\n" + FUNCTION, SCRIPT, id="registered"),
        pytest.param(FUNCTION, "", id="a library without a script"),
        pytest.param("probe(1)\n", SCRIPT, id="at the top"),
    ],
)
def test_what_is_used(tmp_path: Path, source: str, other: str) -> None:
    assert not unused(tmp_path, source, other)


@pytest.mark.parametrize(
    ("source", "other"),
    [
        pytest.param(FUNCTION, SCRIPT, id="a function"),
        pytest.param(CLASS, SCRIPT, id="a class"),
        pytest.param(FUNCTION, "# apply(3)\nreapply(3)  # apply\n" + SCRIPT, id="a comment"),
        pytest.param(FUNCTION + SCRIPT, "", id="of the script itself"),
        pytest.param(
            "def apply(x):\n    def inner(y):\n        probe(y)\n    inner(x)\n",
            SCRIPT,
            id="a function inside of one",
        ),
    ],
)
def test_what_is_not(tmp_path: Path, source: str, other: str) -> None:
    assert unused(tmp_path, source, other)
