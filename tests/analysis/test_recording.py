"""Whether autograd records what runs at a place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probing import HEAD, parsed, probes

from torchlint.analysis.project import Project
from torchlint.analysis.spelling import of_torch
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

CONTEXTS = "from contextlib import nullcontext\nfrom torch import no_grad, set_grad_enabled\n"
CALLED = "\ng()"


def at(source: str) -> str:
    """What holds at the one ``probe()``."""
    program = parsed(source, HEAD + CONTEXTS)
    return program.recordings.at(probes(program)[0]).name


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("probe()", "ON", id="a script"),
        pytest.param("class A:\n    x = probe()", "ON", id="a class"),
        pytest.param("with no_grad(): probe()", "OFF", id="no_grad"),
        pytest.param("with no_grad():\n    for x in y: probe()", "OFF", id="further in"),
        pytest.param("with open('f') as f, torch.no_grad(): probe()", "OFF", id="one of two"),
        pytest.param("with f(), torch.no_grad(): probe()", "OFF", id="off for sure"),
        pytest.param("with set_grad_enabled(False): probe()", "OFF", id="switched off"),
        pytest.param("with set_grad_enabled(True): probe()", "WANTED", id="switched on"),
        pytest.param("with set_grad_enabled(a): probe()", "UNKNOWN", id="switched somehow"),
        pytest.param("with torch.enable_grad(): probe()", "WANTED", id="enabled"),
        pytest.param("with no_grad():\n    with f(): probe()", "UNKNOWN", id="f may turn it on"),
        pytest.param("with open('f') as f: probe()", "ON", id="a file"),
        pytest.param("with torch.autocast('cuda'): probe()", "ON", id="autocast"),
        pytest.param("with f(probe()): pass", "ON", id="what makes the context"),
        pytest.param(
            "c = nullcontext() if a else torch.autocast('cuda')\nwith c: probe()", "ON", id="a name"
        ),
        pytest.param(
            "c = nullcontext() if a else no_grad()\nwith c: probe()", "UNKNOWN", id="one or other"
        ),
        pytest.param("for c in cs:\n    with c: probe()", "UNKNOWN", id="a name from nowhere"),
        pytest.param("with self.context: probe()", "UNKNOWN", id="an attribute"),
        pytest.param("x = lambda: probe()", "UNKNOWN", id="a lambda"),
        pytest.param("def g(): probe()", "ASSUMED", id="a function nobody calls"),
        pytest.param(f"def g(): probe(){CALLED}", "ON", id="a function"),
        pytest.param(f"@no_grad()\ndef g(): probe(){CALLED}", "OFF", id="decorated"),
        pytest.param(f"@no_grad\ndef g(): probe(){CALLED}", "OFF", id="without brackets"),
        pytest.param(f"@torch.enable_grad()\ndef g(): probe(){CALLED}", "WANTED", id="asked for"),
        pytest.param(f"@f\ndef g(): probe(){CALLED}", "UNKNOWN", id="by f"),
        pytest.param(f"@torch.compile\ndef g(): probe(){CALLED}", "ON", id="by compile"),
        pytest.param("class A:\n    @staticmethod\n    def g(): probe()", "ASSUMED", id="static"),
        pytest.param("def g(): probe()\nwith no_grad(): g()", "OFF", id="by its caller"),
        pytest.param("def g(): probe()\ng()\nwith no_grad(): g()", "SOME", id="by one"),
        pytest.param("def g(): probe()\ng()\nwith f(): g()", "UNKNOWN", id="perhaps by one"),
        pytest.param("def g(): probe()\ndef h(): g()\ng()", "ON", id="by one that is called"),
        pytest.param("def g():\n    probe()\n    g()", "ASSUMED", id="by itself"),
        pytest.param(
            "def g():\n    for x in y:\n        loss.backward()\n    probe()",
            "ON",
            id="a function that trains",
        ),
        pytest.param("def g():\n    probe()\n    loss.backward()", "ON", id="goes back"),
        pytest.param(
            "def g():\n    probe()\n    with torch.autocast('cuda'): loss.backward()",
            "ON",
            id="goes back under autocast",
        ),
        pytest.param(
            "def g():\n    probe()\n    if a: loss.backward()", "ASSUMED", id="may go back"
        ),
        pytest.param(
            "def g():\n    probe()\n    for x in y: loss.backward()\n    x = lambda: z.backward()",
            "ON",
            id="a loop of a training",
        ),
        pytest.param(
            "def g():\n    probe()\n    x = lambda: z.backward()", "ASSUMED", id="for later"
        ),
        pytest.param(
            "def g():\n    probe()\n    with torch.enable_grad(): loss.backward()",
            "ASSUMED",
            id="goes back where it is turned on",
        ),
        pytest.param(
            "def g():\n    probe()\n    def h(): loss.backward()", "ASSUMED", id="another goes back"
        ),
        pytest.param(
            "def g():\n    probe()\n    loss.backward()\nwith no_grad():\n    with f: g()",
            "ON",
            id="goes back, wherever it is called",
        ),
        pytest.param("set_grad_enabled(False)\nprobe()", "UNKNOWN", id="off from somewhere on"),
        pytest.param("set_grad_enabled(False)\ndef g(): probe()", "UNKNOWN", id="in functions"),
        pytest.param("set_grad_enabled(True)\nprobe()", "ON", id="on from somewhere on"),
        pytest.param("no_grad().__enter__()\nprobe()", "UNKNOWN", id="entered by hand"),
    ],
)
def test_recording(source, found):
    assert at(source) == found


TIMER = """
class Timer({bases}):
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        {enters}
        self.since = time.time()
    def __exit__(self, *failure):
        print(self.name, time.time() - self.since)
"""
TIMED = """
from contextlib import contextmanager
@contextmanager
def Timer(name):
    since = time.time()
    {yields}
    print(name, time.time() - since)
"""


@pytest.mark.parametrize(
    ("contexts", "found"),
    [
        pytest.param(TIMER.format(bases="", enters="pass"), "ON", id="a timer"),
        pytest.param(TIMER.format(bases="object", enters="pass"), "ON", id="an object"),
        pytest.param(
            TIMER.format(bases="", enters="torch.set_grad_enabled(False)"), "UNKNOWN", id="a switch"
        ),
        pytest.param(
            TIMER.format(bases="", enters="self.quiet.__enter__()"), "UNKNOWN", id="enters another"
        ),
        pytest.param(
            TIMER.format(bases="no_grad", enters="super().__enter__()"), "UNKNOWN", id="an heir"
        ),
        pytest.param(TIMER.format(bases="lib.Quiet", enters="pass"), "UNKNOWN", id="of a library"),
        pytest.param(TIMED.format(yields="yield"), "ON", id="a function"),
        pytest.param(
            TIMED.format(yields="with no_grad(): yield"),
            "UNKNOWN",
            id="a function that turns them off",
        ),
        pytest.param("from lib import Timer", "UNKNOWN", id="of a module that is not seen"),
    ],
)
def test_contexts_of_the_project(contexts, found):
    assert at(f"{contexts}\nwith Timer('step'): probe()") == found


def test_a_chain_of_names_ends():
    assert at("".join(f"c{n} = c{n + 1}\n" for n in range(9)) + "with c0: probe()") == "UNKNOWN"


@pytest.mark.parametrize(
    ("source", "code", "imports"),
    [
        pytest.param("import torch\nprobe()", "torch.no_grad", 0, id="torch"),
        pytest.param("import torch as t\nprobe()", "t.no_grad", 0, id="another name"),
        pytest.param("from torch import no_grad\nprobe()", "no_grad", 0, id="the function"),
        pytest.param("from torch import nn\nprobe()", "torch.no_grad", 1, id="not there yet"),
        pytest.param("import torch.nn as nn\nprobe()", "torch.no_grad", 1, id="only a part"),
        pytest.param("import torch.nn\nprobe()", "torch.no_grad", 0, id="by a part"),
        pytest.param(
            "import torch\ndef f(torch): probe()", None, 0, id="a name that means something else"
        ),
    ],
)
def test_spelling(source, code, imports):
    program = parsed(source)
    found = of_torch(program, probes(program)[0], "no_grad")
    assert (found and found.code) == code
    assert found is None or len(found.imports) == imports


BY_NAME = {
    "off": "with torch.no_grad(): model.validate(x)\n",
    "on": "model.validate(x)\n",
    "other": "class B:\n    def validate(self, x): pass\nwith torch.no_grad(): B().validate(x)\n",
}


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        pytest.param(["off"], "OFF", id="turned off"),
        pytest.param(["off", "off"], "OFF", id="twice"),
        pytest.param(["on"], "ASSUMED", id="not turned off"),
        pytest.param(["off", "on"], "ASSUMED", id="turned off by one"),
        pytest.param(["other"], "ASSUMED", id="of another class"),
        pytest.param([], "ASSUMED", id="not called"),
    ],
)
def test_calls_of_what_is_not_known(tmp_path: Path, calls: list[str], found: str) -> None:
    (tmp_path / "net.py").write_text("class A:\n    def validate(self, x):\n        probe(x)\n")
    lines = "".join(BY_NAME[each] for each in calls)
    (tmp_path / "main.py").write_text(
        f"import torch\nfrom lib import make\nmodel = make()\n{lines}"
    )
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "net.py"))
    assert program is not None
    assert program.recordings.at(probes(program)[0]).name == found
