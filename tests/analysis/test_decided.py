"""Reads that a function returns to callers of which each decides by the value at once."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from probing import HEAD, parsed

from torchlint.analysis.decided import is_decided_by_callers
from torchlint.analysis.program import Program
from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import math

net = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def step(x):
    loss = net(x.cuda()).mean()
    loss.backward()
    optimizer.step()
    return {returned}

{between}
def train(loader, shown, limit):
    for x in loader:
        {caller}
"""


RUN = "def run(x):\n    return step(x)\n"


def is_decided(caller: str, returned: str = "loss.item()", between: str = "") -> bool:
    caller = textwrap.indent(caller, " " * 8).lstrip()
    program = parsed(SCRIPT.format(caller=caller, returned=returned, between=between), HEAD)
    (sync,) = program.syncs
    return is_decided_by_callers(program, sync)


@pytest.mark.parametrize(
    ("caller", "decided"),
    [
        pytest.param("loss = step(x)\nassert not math.isnan(loss)", True, id="a check"),
        pytest.param("loss = step(x)\nif np.isnan(loss):\n    break", True, id="of NumPy"),
        pytest.param("loss = step(x)\nassert loss < 9\nshown(loss)", True, id="shown as well"),
        pytest.param("loss = step(x)\nif abs(loss) > limit:\n    break", True, id="a limit"),
        pytest.param("assert not math.isnan(step(x))", True, id="without a name"),
        pytest.param("while step(x) > limit:\n    pass", True, id="goes on until then"),
        pytest.param("loss = step(x)\nshown(loss)", False, id="shown alone"),
        pytest.param("step(x)", False, id="dropped"),
        pytest.param("shown(step(x))", False, id="handed on"),
        pytest.param("loss = step(x)\nassert loss is not None", False, id="no value"),
        pytest.param("loss = step(x)\nif isinstance(loss, dict):\n    pass", False, id="a type"),
        pytest.param("loss = step(x)\nif loss in shown:\n    pass", False, id="is it known"),
        pytest.param(
            "loss = step(x)\nif limit:\n    assert loss < 9", False, id="where an option asks"
        ),
        pytest.param("assert limit < 9\nloss = step(x)", False, id="another value"),
        pytest.param("loss = step(x)\nloss = 0\nassert loss < 9", False, id="bound again"),
        pytest.param(
            "loss = step(x)\nassert loss < 9\nstep(x)", False, id="a caller that drops it"
        ),
        pytest.param("if limit:\n    shown(x)", False, id="nobody calls"),
    ],
)
def test_what_a_caller_decides_by(caller: str, decided: bool) -> None:
    assert is_decided(caller) is decided


@pytest.mark.parametrize(
    ("caller", "decided"),
    [
        pytest.param("loss = run(x)\nassert not math.isnan(loss)", True, id="a check"),
        pytest.param("loss = run(x)\nshown(loss)", False, id="shown alone"),
    ],
)
def test_a_function_that_returns_what_another_has_returned(caller: str, decided: bool) -> None:
    assert is_decided(caller, between=RUN) is decided


def test_what_is_made_of_the_read_before_it_is_returned() -> None:
    caller = "loss = step(x)\nassert not math.isnan(loss)"
    assert not is_decided(caller, "{'loss': loss.item()}")


def test_a_function_that_returns_what_it_returns_itself() -> None:
    caller = "loss = again(x)\nassert loss < limit"
    between = "def again(x):\n    if limit:\n        return again(x)\n    return step(x)\n"
    assert not is_decided(caller, between=between)


@pytest.mark.parametrize("returned", ["first + loss.item()", "(first - loss.item() * 2) / 3"])
def test_a_sum_that_a_caller_decides_by(returned: str) -> None:
    assert is_decided("loss = step(x)\nassert not math.isnan(loss)", returned)
    assert not is_decided("shown(step(x))", returned)


FILES = {
    "base.py": """\
        class Learner:
            def meta(self, *args):
                if self.logs:
                    found = self.other(self.observe)(*args)
                else:
                    found = self.observe(*args)
                    if isinstance(found, dict):
                        found = found["loss"]
                return found
        """,
    "learner.py": """\
        import torch
        from base import Learner

        class Mean(Learner):
            def observe(self, x):
                loss = self.net(x.cuda()).mean()
                loss.backward()
                self.optimizer.step()
                return loss.item()
        """,
    "main.py": """\
        import math
        from learner import Mean

        def train(learner, loader):
            for x in loader:
                loss = learner.meta(x)
                assert not math.isnan(loss)

        if __name__ == "__main__":
            train(Mean(), [])
        """,
}


def decided_in(folder: Path, more: dict[str, str]) -> bool:
    files = {**FILES, **more}
    for name, text in files.items():
        (folder / name).write_text(textwrap.dedent(text))
    path = folder / "learner.py"
    project = Project(Imports(folder, lambda _: False))
    program = project.checked(path, path.read_text(), lambda: Program(path.read_text(), path))
    (sync,) = program.syncs
    return is_decided_by_callers(program, sync)


SIBLING = """\
    from {module} import {base}

    class Fitted({base}):
        def fit(self, x):
            self.observe(x)
    """
FITTED = "from fitted import Fitted\n" + textwrap.dedent(FILES["main.py"])
LEFT = """\
    def train(learner, loader):
        for x in loader:
            print(learner.observe(x))
    """


@pytest.mark.parametrize(
    ("more", "decided"),
    [
        pytest.param({}, True, id="a check"),
        pytest.param({"main.py": FILES["main.py"].replace("assert", "print")}, False, id="shown"),
        pytest.param(
            {"fitted.py": SIBLING.format(module="base", base="Learner"), "main.py": FITTED},
            True,
            id="of another heir",
        ),
        pytest.param(
            {"fitted.py": SIBLING.format(module="learner", base="Mean"), "main.py": FITTED},
            False,
            id="of an heir of this one",
        ),
        pytest.param({"left.py": LEFT}, True, id="in a module that nothing imports"),
        pytest.param(
            {"left.py": LEFT, "main.py": "import left\n" + textwrap.dedent(FILES["main.py"])},
            False,
            id="of who knows what",
        ),
    ],
)
def test_methods_that_a_base_in_another_file_calls(
    tmp_path: Path, more: dict[str, str], decided: bool
) -> None:
    assert decided_in(tmp_path, more) is decided
