"""What always raises, so that what comes after it is never run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version
from probing import parsed, probed, unreached_in

from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = "if __name__ == '__main__':\n    run()\n"


def after(*lines: str, head: str = "") -> str:
    """Return a function with some lines before the probe."""
    body = "".join(f"    {line}\n" for line in "\n".join(lines).split("\n"))
    return f"{head}def f(a, b):\n{body}    probe(a)\n"


# -- names that nothing binds ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(after("iter(a)"), {}, id="a parameter, and Python's own"),
        pytest.param(after("iter(y)", head="y = 1\n"), {}, id="of the module"),
        pytest.param(after("y()") + "def y():\n    pass\n", {}, id="defined later"),
        pytest.param(after("iter(y)") + "if run:\n    import y\n", {}, id="imported at times"),
        pytest.param(after("if a:\n    y = 1", "iter(y)"), {}, id="bound at times"),
        pytest.param(after("iter(y)") + "def g():\n    global y\n    y = 1\n", {}, id="global"),
        pytest.param(after("y = 1", "del y", "iter(y)"), {}, id="deleted"),
        pytest.param(after("xrange(raw_input())", "unicode(a)"), {}, id="Python 2"),
        pytest.param(after("display(__file__)", "_(a)"), {}, id="of IPython and the module"),
        pytest.param(after("iter(y)", head="from numpy import *\n"), {}, id="a star"),
        pytest.param(
            after("iter(y)", head="from b import *\n"), {"b.py": "y = 1\n"}, id="a star of a file"
        ),
        pytest.param(
            after("iter(y)", head="from b import *\n"),
            {"b.py": "from c import *\n", "c.py": "from os.path import *\n"},
            id="a star behind two",
        ),
        pytest.param(
            after("iter(y)", head="from b import *\n"),
            {"b/__init__.py": "", "b/y.py": ""},
            id="a module of a package",
        ),
        pytest.param(after("exec(a)", "iter(y)"), {}, id="executed"),
        pytest.param(after("globals().update(a)", "iter(y)"), {}, id="put among the globals"),
        pytest.param(
            after("iter(y)"), {"b.py": "import net\nnet.y = 3\n"}, id="set by another file"
        ),
        pytest.param(
            after("iter(y)"), {"b.py": "import net\nsetattr(net, 'y', 3)\n"}, id="by its name"
        ),
        pytest.param(
            after("iter(y)"), {"b.py": "exec(open('net.py').read())\n"}, id="run by another file"
        ),
        pytest.param(
            after("iter(y)"), {"b.py": "import builtins\nbuiltins.y = 3\n"}, id="made a builtin"
        ),
        pytest.param(after("try:\n    iter(y)\nexcept NameError:\n    pass"), {}, id="caught"),
        pytest.param(after("with g(a):\n    iter(y)", head="from b import g\n"), {}, id="maybe so"),
        pytest.param(after("a and y", "a or y"), {}, id="the right side"),
        pytest.param(after("c = y if a else b"), {}, id="one of two"),
        pytest.param(after("c = lambda: y"), {}, id="read later"),
        pytest.param(after("c = (a for _ in b if y)", "d = [y for _ in b]"), {}, id="of each"),
        pytest.param(after("def g():\n    return y"), {}, id="in a function"),
        pytest.param(after("c: y = a"), {}, id="an annotation"),
        pytest.param(after("1 < a < y"), {}, id="the end of a comparison"),
        pytest.param(after("if a:\n    iter(y)"), {}, id="on a condition"),
        pytest.param(after("if a:\n    pass\nelif y:\n    pass"), {}, id="the second condition"),
        pytest.param(after("assert a, y"), {}, id="the message of an assertion"),
        pytest.param(after("for c in a:\n    if c:\n        continue\n    iter(y)"), {}, id="not in"
                     " each turn"),
        pytest.param(after("iter(a.y)", "iter(b, y=a)"), {}, id="attribute and keyword"),
        pytest.param(after("import y.z as c", "from y import z as d"), {}, id="a module"),
        pytest.param(after("[c for c in a]", "e = lambda y: y"), {}, id="of an inner scope"),
        pytest.param("class A:\n    y = 1\n    z = iter(y)\n    def f(self):\n        probe(1)\n",
                     {}, id="of a class"),
        pytest.param(
            "def f(a):\n    probe(a)\n    iter(y)\n", {}, id="before it"
        ),
        pytest.param(after("iter(y, probe(a))").replace("    probe(a)\n", ""), {}, id="with it"),
        pytest.param("def g():\n    def f(a):\n        iter(y)\n        probe(a)\n    y = 1\n", {},
                     id="of a function around it"),
    ],
)  # fmt: skip
def test_names_that_may_be_bound(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert not unreached_in(tmp_path, source, files)


def test_a_snippet_is_for_others_to_complete() -> None:
    program = parsed(after("iter(y)"))
    assert not program.unreached.at(probed(program))


def test_so_is_a_file_that_belongs_to_no_project(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(after("iter(y)"))
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "net.py"))
    assert program is not None
    assert not program.unreached.at(probed(program))


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(after("c = iter(y)"), {}, id="a call"),
        pytest.param(after("c = [d for d in y]"), {}, id="what a list is made of"),
        pytest.param(after("c = y and a"), {}, id="the left side"),
        pytest.param(after("c = a if y else b"), {}, id="the condition"),
        pytest.param(after("c = a[y]", "pass"), {}, id="a line between"),
        pytest.param(after("a[y] = 1"), {}, id="a target"),
        pytest.param(after("if y:\n    pass"), {}, id="a condition"),
        pytest.param(after("while y:\n    pass"), {}, id="the condition of a loop"),
        pytest.param(after("for c in y:\n    pass"), {}, id="a loop"),
        pytest.param(after("for c in a:\n    if c:\n        b()\n    iter(y)"), {}, id="each turn"),
        pytest.param(
            after("if a:\n    return\nelif y:\n    pass"), {}, id="the one that is left"
        ),
        pytest.param(after("def g(c=y):\n    pass"), {}, id="a default"),
        pytest.param(after("class A(y):\n    pass"), {}, id="a base"),
        pytest.param(
            after("with torch.no_grad():\n    iter(y)", head="import torch\n"), {}, id="a context"
        ),
        pytest.param(after("with y(a):\n    pass"), {}, id="in the head of a context"),
        pytest.param("def f(a):\n    for c in y:\n        probe(a)\n", {}, id="the body of a loop"),
        pytest.param("def f(a):\n    if y:\n        probe(a)\n", {}, id="of a condition"),
        pytest.param("def f(a):\n    with y:\n        probe(a)\n", {}, id="of a context"),
        pytest.param("iter(y)\ndef f(a):\n    probe(a)\n", {}, id="a function never defined"),
        pytest.param(
            "def g():\n    y = 1\n" + after("iter(y)"), {}, id="a variable of another function"
        ),
        pytest.param(
            "class A:\n    y = 1\n    def f(self, a):\n        iter(y)\n        probe(a)\n",
            {},
            id="an attribute of the class",
        ),
        pytest.param(
            after("iter(y)", head="from b import *\n"), {"b.py": "x = 1\n"}, id="a star without"
        ),
        pytest.param(
            after("iter(y)"), {"b.py": "self.y = 3\nargs.y = 4\ny = 5\n"}, id="set for others"
        ),
        pytest.param(
            "import torch\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
            "        super(Nett, self).__init__()\n    def forward(self, x):\n        probe(x)\n",
            {},
            id="a class that is not made",
        ),
        pytest.param(
            "def g(a):\n    probe(a)\n",
            {"main.py": f"from net import g\nrun()\ng(3)\n{SCRIPT}"},
            id="a function that is called after it",
        ),
    ],
)  # fmt: skip
def test_names_that_nothing_binds(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert unreached_in(tmp_path, source, files)


@pytest.mark.parametrize(
    ("line", "files"),
    [
        pytest.param("from b import y", {"b.py": "x = 1\n"}, id="of a script beside it"),
        pytest.param("from .b import y", {"b.py": "x = 1\n"}, id="relative"),
        pytest.param("from b.c import y", {"b/__init__.py": ""}, id="of no module"),
    ],
)
def test_an_import_that_fails_is_soon_mended(
    tmp_path: Path, line: str, files: dict[str, str]
) -> None:
    assert not unreached_in(tmp_path, f"{line}\nprobe = print\nprobe(1)\n", files)


# -- super() --------------------------------------------------------------------------------------

NETS = (
    "from torch import nn\nclass One(nn.Module):\n    def __init__(self):\n"
    "        super(One, self).__init__()\n"
    "class Two(nn.Module):\n    def __init__(self):\n        super(One, self).__init__()\n"
    "    def forward(self, x):\n        probe(x)\n"
)


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(NETS.replace("Two(nn.Module)", "Two(One)"), {}, id="of its base"),
        pytest.param(
            NETS.replace("Two(nn.Module)", "Two(Half)").replace(
                "class Two", "class Half(One):\n    pass\nclass Two"
            ),
            {},
            id="of a base of its base",
        ),
        pytest.param(NETS.replace("class Two", "class Two2").replace("One, self", "Two, self")
                     .replace("Two2", "Two"), {}, id="its own"),
        pytest.param(
            "from b import Base\n" + NETS.replace("Two(nn.Module)", "Two(Base)"), {}, id="unknown"
        ),
        pytest.param(NETS + "class Both(Two, One):\n    pass\n", {}, id="of an heir's base"),
        pytest.param(NETS, {"b.py": "class Both(Two, One):\n    pass\n"}, id="elsewhere"),
        pytest.param(NETS + "One = iter\n", {}, id="one of two"),
        pytest.param(
            NETS.replace("        super(One, self).__init__()\n    def f", "        if self.x:\n"
                         "            super(One, self).__init__()\n    def f"), {}, id="at times",
        ),
        pytest.param(
            NETS.replace("    def forward", "    @staticmethod\n    def forward"), {}, id="static"
        ),
        pytest.param(
            NETS.replace("class Two", "from b import register\n@register\nclass Two"), {},
            id="decorated",
        ),
    ],
)  # fmt: skip
def test_classes_that_may_be_made(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert not unreached_in(tmp_path, source, files)


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(NETS, {}, id="of another class"),
        pytest.param(
            NETS[NETS.index("class Two") :].replace("class", "from b import One\nfrom torch import "
                                                    "nn\nclass"),
            {"b.py": "class One:\n    pass\n"},
            id="of another file",
        ),
        pytest.param(
            NETS.replace("probe(x)", "pass") + "def f(x):\n    net = Two()\n    probe(x)\n",
            {},
            id="what follows where it is made",
        ),
        pytest.param(
            "def apply(x):\n    probe(x)\n",
            {
                "main.py": "from net import apply\n"
                + NETS.replace("probe(x)", "apply(x)") + SCRIPT
            },
            id="what it calls",
        ),
    ],
)  # fmt: skip
def test_classes_that_are_never_made(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert unreached_in(tmp_path, source, files)


# -- calls ----------------------------------------------------------------------------------------

TAKES = "def g(x, y=1):\n    return x\n"
OPEN = "def g(x):\n    raise NotImplementedError\n"
HOOK = (
    "class A:\n    def g(self, x):\n        raise NotImplementedError\n"
    "    def f(self, x):\n        self.g(x)\n        probe(x)\n"
)
STARTED = {"main.py": f"import net\nnet.A().f(3)\n{SCRIPT}"}


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(after("g(a, y=b)", head=TAKES), {}, id="it takes"),
        pytest.param(after("g(*a)", head=TAKES), {}, id="it may take"),
        pytest.param(after("g()", head="from b import h\n@h\n" + TAKES), {}, id="decorated"),
        pytest.param(after("g()", head=f"{TAKES}g = iter\n"), {}, id="one of two"),
        pytest.param(after("g = b", "g()", head=TAKES), {}, id="another of the name"),
        pytest.param(after("try:\n    g()\nexcept:\n    pass", head=TAKES), {}, id="caught"),
        pytest.param(
            after("g()", head="from b import g\n"),
            {"b.py": TAKES, "c/b.py": "def g():\n    pass\n"},
            id="of one of two files",
        ),
        pytest.param(after("g(a)", head=f"{OPEN}    yield\n"), {}, id="a generator"),
        pytest.param(after("g(a)", head=f"async {OPEN}"), {}, id="not awaited"),
        pytest.param(after("g(a)", head=OPEN.replace("raise", "if x: raise")), {}, id="at times"),
        pytest.param(
            after("g(a)", head=OPEN.replace("raise", "if x: return\n    raise")), {}, id="returns"
        ),
        pytest.param(HOOK, {}, id="a method of a library"),
        pytest.param(
            HOOK,
            STARTED | {"b.py": "class B(A):\n    def g(self, x):\n        pass\n"},
            id="an heir",
        ),
        pytest.param(HOOK, STARTED | {"b.py": "a.g = run\n"}, id="set"),
        pytest.param(HOOK, STARTED | {"b.py": "setattr(a, 'g', run)\n"}, id="set by its name"),
        pytest.param(HOOK.replace("self.g", "x.g"), STARTED, id="of something else"),
    ],
)  # fmt: skip
def test_calls_that_may_return(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert not unreached_in(tmp_path, source, files)


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(after("c = g()", head=TAKES), {}, id="too few"),
        pytest.param(after("g(a, z=1)", head="from b import g\n"), {"b.py": TAKES}, id="a word"),
        pytest.param(
            after("c = G(a)", head="class G:\n    def __init__(self):\n        pass\n"), {},
            id="too many for a class",
        ),
        pytest.param(after("g(a)", head=OPEN), {}, id="not yet written"),
        pytest.param(
            after("g(a)", head="from b import g\n"), {"b.py": OPEN.replace("raise", "print(x)\n"
                                                                           "    raise")},
            id="that of another file",
        ),
        pytest.param(
            after("g(a)", head="import sys\ndef g(x):\n    print(x)\n    sys.exit(1)\n"), {},
            id="the end of the script",
        ),
        pytest.param(after("g(a)", head="def g(x):\n    return iter(y)\n"), {}, id="a name"),
        pytest.param(HOOK, STARTED, id="a method"),
        pytest.param(HOOK.replace("raise NotImplementedError", "pass").replace("g(x)", "g(x, 1)"),
                     STARTED, id="a method that takes less"),
    ],
)  # fmt: skip
def test_calls_that_never_return(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert unreached_in(tmp_path, source, files)


# -- what fails by itself -------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["assert a", "assert True", "assert 1", "a / 0", "1 / 1", "0 / 1"])
def test_what_may_hold(line: str) -> None:
    program = parsed(after(line))
    assert not program.unreached.at(probed(program))


@pytest.mark.parametrize("line", ["assert False, a", "assert 0", "1 / 0", "c = 1/0"])
def test_what_never_holds(line: str) -> None:
    program = parsed(after(line))
    assert program.unreached.at(probed(program))


@pytest.mark.parametrize(
    ("loss", "target", "raises"),
    [
        pytest.param("a.mean()", "1.0", True, id="a mean"),
        pytest.param("a.mean()", "0.4", False, id="as it was read then"),
        pytest.param("a.mean()", None, False, id="any torch"),
        pytest.param("a.mean(1)", "1.0", False, id="a mean of each row"),
    ],
)
def test_losses_that_are_no_lists(loss: str, target: str | None, *, raises: bool) -> None:
    program = parsed(after(f"c = {loss}", "total = c.data[0]"))
    program.target = None if target is None else Version(target)
    assert program.unreached.at(probed(program)) is raises
