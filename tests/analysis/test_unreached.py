"""Which places nothing reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probing import parsed, probed, unreached_in

from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = "if __name__ == '__main__':\n    run()\n"
FUNCTION = "def apply(x):\n    probe(x)\n"
CLASS = "from base import Base\nclass Net(Base):\n    def forward(self, x):\n        probe(x)\n"
MASKED = "def apply(x, mask=None):\n    if mask is not None:\n        probe(x)\n"


def unreached(source: str) -> bool:
    """Whether the probe of a snippet by itself is never run."""
    program = parsed(source)
    return program.unreached.at(probed(program))


# -- places within a function ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def f(x):\n    if x:\n        return\n    probe(x)", id="one branch leaves"),
        pytest.param(
            "def f(x):\n    if x:\n        return\n    elif y:\n        g()\n    probe(x)",
            id="one of several",
        ),
        pytest.param(
            "def f(x):\n    with g():\n        raise E\n    probe(x)", id="a context may catch it"
        ),
        pytest.param("for x in y:\n    continue\nprobe(x)", id="of a loop before"),
        pytest.param("def f(x):\n    probe(x)\n    return x", id="before it"),
        pytest.param("def f(x):\n    def g():\n        return\n    probe(x)", id="of another"),
        pytest.param("self.exit()\nprobe(x)", id="a method called exit"),
        pytest.param("def exit():\n    pass\nexit()\nprobe(x)", id="an exit of its own"),
        pytest.param("if 1:\n    probe(x)", id="always"),
        pytest.param("if x == 3:\n    probe(x)", id="sometimes"),
        pytest.param("if False:\n    f()\nelse:\n    probe(x)", id="the other branch"),
        pytest.param("if False:\n    f()\nelif x:\n    probe(x)", id="the next branch"),
        pytest.param("while True:\n    probe(x)", id="a loop without end"),
        pytest.param("if x or True:\n    probe(x)", id="either"),
        pytest.param(
            "def f(x, y):\n    if x:\n        probe(x)\n    assert not x", id="asserted later"
        ),
        pytest.param(
            "def f(x, y):\n    assert not x\n    x = g()\n    if x:\n        probe(x)",
            id="asserted of another value",
        ),
        pytest.param(
            "def f(x, y):\n    assert not y\n    if x:\n        probe(x)", id="of another"
        ),
        pytest.param(
            "def f(x):\n    assert x\n    if x:\n        probe(x)", id="asserted to be so"
        ),
        pytest.param(
            "def f(x, y):\n    if y:\n        assert not x\n    if x:\n        probe(x)",
            id="asserted at times",
        ),
        pytest.param(
            "def f(x):\n    assert not x\n    if x:\n        g()\n    else:\n        probe(x)",
            id="the branch that is left",
        ),
        pytest.param("if x % 30 == 20:\n    probe(x)", id="a remainder"),
        pytest.param("if x % n == 20:\n    probe(x)", id="a remainder of any number"),
        pytest.param("if x % 30 < 40:\n    probe(x)", id="all remainders"),
        pytest.param("if x // 30 == 40:\n    probe(x)", id="a quotient"),
        pytest.param("DEBUG = False\nif DEBUG:\n    probe(x)", id="a switch with a name"),
    ],
)
def test_places_that_may_be_reached(source: str) -> None:
    assert not unreached(source)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def f(x):\n    return x\n    probe(x)", id="return"),
        pytest.param("def f(x):\n    return x; probe(x)", id="on the same line"),
        pytest.param("def f(x):\n    raise E\n    if x:\n        probe(x)", id="raise, deeper"),
        pytest.param("for x in y:\n    continue\n    probe(x)", id="continue"),
        pytest.param("for x in y:\n    break\n    probe(x)", id="break"),
        pytest.param("import sys\nsys.exit()\nprobe(x)", id="the end of the script"),
        pytest.param("from os import _exit\n_exit(1)\nprobe(x)", id="by another name"),
        pytest.param("exit()\ndef f(x):\n    probe(x)", id="a function never defined"),
        pytest.param(
            "def f(x):\n    if x:\n        return 1\n    else:\n        raise E\n    probe(x)",
            id="both branches leave",
        ),
        pytest.param("def f(x):\n    if True:\n        return\n    probe(x)", id="a sure branch"),
        pytest.param("if False:\n    probe(x)", id="if False"),
        pytest.param("if 0 and x:\n    probe(x)", id="if 0 and"),
        pytest.param("if x % 30 == 30:\n    probe(x)", id="what no remainder is"),
        pytest.param("if x % 30 != 40: pass\nelse:\n    probe(x)", id="all that remainders are"),
        pytest.param("while 0:\n    probe(x)", id="while 0"),
        pytest.param(
            "def f(x):\n    'Text.'\n    assert not x, 'no'\n    for y in g():\n"
            "        if x:\n            probe(x)",
            id="what an assertion rules out",
        ),
        pytest.param("if not False:\n    f()\nelse:\n    probe(x)", id="the other branch"),
        pytest.param("if 1:\n    f()\nelif x:\n    probe(x)", id="the next branch"),
        pytest.param("y = probe(x) if '' else x", id="an expression"),
    ],
)
def test_places_that_are_not(source: str) -> None:
    assert unreached(source)


# -- parameters that every call leaves alone ------------------------------------------------------

CALLED = {"main.py": "from net import apply\napply(3)\n" + SCRIPT}


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(
            MASKED, {"main.py": "from net import apply\napply(3, m)\n" + SCRIPT}, id="given"
        ),
        pytest.param(
            MASKED, CALLED | {"b.py": "import net\nnet.apply(3, mask=m)\n"}, id="given elsewhere"
        ),
        pytest.param(
            MASKED, {"main.py": "from net import apply\napply(*x)\n" + SCRIPT}, id="hidden"
        ),
        pytest.param(
            MASKED, CALLED | {"b.py": "from net import apply\nrun(apply)\n"}, id="passed on"
        ),
        pytest.param(
            MASKED, CALLED | {"b.py": "from net import apply as f\nf(3, m)\n"}, id="renamed"
        ),
        pytest.param(
            MASKED,
            CALLED | {"c.py": "from net import *\n", "b.py": "from c import apply\napply(3, m)\n"},
            id="handed on by a star",
        ),
        pytest.param(MASKED + "run(apply)\n", CALLED, id="passed on in its own file"),
        pytest.param(MASKED, CALLED | {"b.py": "import net\nrun(net.apply)\n"}, id="by its module"),
        pytest.param(MASKED + "HOOKS = ['apply']\n", CALLED, id="found by its name"),
        pytest.param(MASKED, CALLED | {"b.ipynb": '"apply(3, m)"'}, id="called in a notebook"),
        pytest.param(MASKED, CALLED | {"setup.py": ""}, id="a library"),
        pytest.param("from base import wrapped\n@wrapped\n" + MASKED, CALLED, id="decorated"),
        pytest.param(
            "class A:\n    def apply(self, x, mask=None):\n        if mask:\n            probe(x)\n"
            "    def f(self):\n        self.apply(3)\n",
            {"main.py": "from net import A\nrun(A()).apply(3, m)\n" + SCRIPT},
            id="a method",
        ),
        pytest.param(
            "def apply(x, mask=None):\n    if mask is None:\n        mask = x\n"
            "    if mask is not None:\n        probe(x)\n",
            CALLED,
            id="set before",
        ),
        pytest.param(MASKED.replace("is not", "is"), CALLED, id="the other branch"),
        pytest.param(
            "def apply(x, n=5):\n    if n:\n        probe(x)\n", CALLED, id="a true default"
        ),
        pytest.param(
            "def apply(x, *mask):\n    if mask:\n        probe(x)\n", CALLED, id="several"
        ),
        pytest.param(
            "def apply(x):\n    f = lambda y, mask=None: probe(x) if mask else y\n    f(x, m)\n",
            CALLED,
            id="of a lambda",
        ),
    ],
)
def test_branches_that_some_call_may_take(tmp_path: Path, source: str, files: dict[str, str]):
    assert not unreached_in(tmp_path, source, files)


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(MASKED, CALLED, id="left at None"),
        pytest.param(
            MASKED, {"main.py": "import net\nnet.apply(3, None)\n" + SCRIPT}, id="None given"
        ),
        pytest.param(
            "def apply(x, mask=False):\n    if mask:\n        probe(x)\n", CALLED, id="a switch"
        ),
        pytest.param(
            "def apply(x, n=0):\n    if x and n > 0:\n        probe(x)\n", CALLED, id="a number"
        ),
        pytest.param(
            "def apply(x, mask=None):\n    if mask is None:\n        return x\n    probe(x)\n",
            CALLED,
            id="behind a return",
        ),
        pytest.param(
            MASKED,
            CALLED | {"b.py": "def apply(x, mask):\n    pass\napply(1, 2)\n"},
            id="namesakes",
        ),
        pytest.param(
            MASKED,
            CALLED
            | {"b.py": "from net import x\ndef apply(x):\n    pass\napply(model.apply(2))\n"},
            id="a namesake and a method in a file that imports it",
        ),
        pytest.param(
            f"{MASKED}def more(x, m=None):\n    apply(x, m)\n",
            {"main.py": "from net import more\nmore(3)\n" + SCRIPT},
            id="handed on",
        ),
        pytest.param(
            "import torch\ndef apply(x):\n    if x.is_cuda:\n        probe(x)\n",
            {"main.py": "import torch\nfrom net import apply\napply(torch.ones(3))\n" + SCRIPT},
            id="of a tensor that is on the host",
        ),
    ],
)
def test_branches_that_no_call_takes(tmp_path: Path, source: str, files: dict[str, str]):
    assert unreached_in(tmp_path, source, files)


# -- functions and classes that nothing names -----------------------------------------------------

SWITCHED = (
    "class Net:\n    def __init__(self):\n        self.more = False\n"
    "    def forward(self, x):\n        if self.more:\n            probe(x)\n"
)
USED = {"main.py": "import net\nif __name__ == '__main__':\n    net.Net().forward(3)\n"}


@pytest.mark.parametrize(
    ("source", "files", "never"),
    [
        pytest.param(SWITCHED, USED, True, id="switched off in the code"),
        pytest.param(SWITCHED.replace("False", "True"), USED, False, id="on"),
        pytest.param(
            SWITCHED.replace("(self):", "(self, x=0):").replace("False", "x"),
            USED,
            True,
            id="by a parameter that nobody gives",
        ),
        pytest.param(
            SWITCHED.replace("(self):", "(self, x=0):").replace("False", "x"),
            {"main.py": USED["main.py"].replace("Net()", "Net(x=n)")},
            False,
            id="by one that somebody gives",
        ),
        pytest.param(
            SWITCHED.replace("(self):", "(self, x=0):").replace("False", "x"),
            USED | {"b.py": "from net import Net\nclass More(Net):\n    pass\n"},
            False,
            id="by one that an heir may be given",
        ),
        pytest.param(
            SWITCHED + "    def on(self):\n        self.more = True\n", USED, False, id="on later"
        ),
        pytest.param(SWITCHED, USED | {"b.py": "net.more = True\n"}, False, id="from outside"),
        pytest.param(SWITCHED, USED | {"b.py": "net.more, x = y\n"}, False, id="with others"),
        pytest.param(SWITCHED, USED | {"b.py": "setattr(net, 'more', x)\n"}, False, id="by a text"),
        pytest.param(
            SWITCHED, USED | {"b.py": "class More(Net):\n    more = True\n"}, False, id="by an heir"
        ),
        pytest.param(SWITCHED, USED | {"b.py": "Net(more=True)\n"}, False, id="by a keyword"),
        pytest.param(SWITCHED, USED | {"setup.py": ""}, False, id="installed: others may set it"),
        pytest.param(SWITCHED, USED | {"b.py": "if net.more == x:\n    f()\n"}, True, id="read"),
    ],
)
def test_switches_in_the_code(
    tmp_path: Path, source: str, files: dict[str, str], *, never: bool
) -> None:
    assert unreached_in(tmp_path, source, files) is never


@pytest.mark.parametrize(
    ("loop", "never"),
    [
        pytest.param("for epoch in range(9):\n    train(epoch)\n", True, id="epochs"),
        pytest.param("while self_epoch < 9:\n    train()\n", True, id="epochs that are counted"),
        pytest.param("for name in names:\n    add(name)\n", False, id="another loop"),
        pytest.param("def f():\n    for epoch in x:\n        pass\n", False, id="of a function"),
    ],
)
def test_a_project_is_started_by_a_loop_over_epochs(
    tmp_path: Path, loop: str, *, never: bool
) -> None:
    assert unreached_in(tmp_path, CLASS, {"main.py": f"from net import other\n{loop}"}) is never


MAIN = {"main.py": "import net\n" + SCRIPT}


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(
            FUNCTION, {"main.py": "from net import apply\napply(3)\n" + SCRIPT}, id="called"
        ),
        pytest.param(FUNCTION + "URLS = {'net': 'apply'}\n", MAIN, id="a text of data"),
        pytest.param(FUNCTION + "register('apply')\n", MAIN, id="a text that is passed"),
        pytest.param(CLASS, {"main.py": "import net\nnet.Net()\n" + SCRIPT}, id="by its module"),
        pytest.param(
            FUNCTION,
            MAIN
            | {
                "b.py": "from net import apply as run\n",
                "c.py": "from b import run as apply\napply(3)\n",
            },
            id="by another name and its own again",
        ),
        pytest.param(
            FUNCTION, MAIN | {"b.py": "from net import apply as run\nrun(3)\n"}, id="renamed"
        ),
        pytest.param(
            CLASS, {"main.py": "import net\n# x = net.Net()\n" + SCRIPT}, id="one of a choice"
        ),
        pytest.param(FUNCTION, MAIN | {"b.py": "run(import_module(x), 'apply')\n"}, id="as a text"),
        pytest.param(
            FUNCTION,
            {"main.py": "import net\n# apply(x)\n" + SCRIPT},
            id="called in a comment elsewhere",
        ),
        pytest.param(
            FUNCTION,
            {"main.py": "import net\nrun(net).apply(x)\n" + SCRIPT},
            id="a method of what is not known",
        ),
        pytest.param(FUNCTION, MAIN | {"b.py": "run('net.apply')\n"}, id="by its path"),
        pytest.param(
            FUNCTION,
            MAIN
            | {"b.py": "import sys\nsys.path.append('..')\nfrom x.net import apply\napply(3)\n"},
            id="by way of a changed path",
        ),
        pytest.param(
            FUNCTION,
            MAIN | {"c.py": "from net import *\n", "b.py": "from c import apply\napply(3)\n"},
            id="by way of another module",
        ),
        pytest.param(
            FUNCTION,
            MAIN
            | {
                "a/x.py": "import sys\nsys.path.append('..')\nfrom net import apply\napply(3)\n",
                "a/net.py": "def apply(x):\n    pass\n",
            },
            id="of one of two modules of a name",
        ),
        pytest.param(
            FUNCTION,
            MAIN
            | {
                "net2.py": "from net import apply\n",
                "b.py": "from net2 import apply\napply(3)\n",
            },
            id="handed on by another module",
        ),
        pytest.param(
            FUNCTION,
            MAIN
            | {
                "net2.py": "try:\n    from net import apply\nexcept ImportError:\n"
                "    def apply(x):\n        pass\n",
                "b.py": "from net2 import apply\napply(3)\n",
            },
            id="handed on where it can be",
        ),
        pytest.param(FUNCTION + "apply(3)\n", MAIN, id="called in its own file"),
        pytest.param(FUNCTION + "run(apply)\n", MAIN, id="passed on"),
        pytest.param(
            FUNCTION + "def run():\n    apply(3)\nrun()\n", MAIN, id="called by what is called"
        ),
        pytest.param(
            FUNCTION + "def more(x=apply(3)):\n    pass\n", MAIN, id="called for a default"
        ),
        pytest.param(FUNCTION + "@apply\ndef more():\n    pass\n", MAIN, id="a decorator"),
        pytest.param(FUNCTION + "class A:\n    x = apply(3)\n", MAIN, id="called in a class"),
        pytest.param(
            CLASS + "class More(Net):\n    pass\n",
            {"main.py": "from net import More\nMore()\n" + SCRIPT},
            id="the base of what is used",
        ),
        pytest.param(
            FUNCTION,
            {"main.py": "from net import apply\ndef main():\n    apply(3)\n" + SCRIPT},
            id="called by what a launcher starts",
        ),
        pytest.param(
            FUNCTION,
            MAIN | {"b.py": "from net import apply\ndef test_it():\n    apply(3)\n"},
            id="tested",
        ),
        pytest.param(
            FUNCTION,
            MAIN
            | {
                "b.py": "from net import apply\nfrom base import hook\n"
                "@hook\ndef f():\n    apply(3)\n"
            },
            id="called by what is registered",
        ),
        pytest.param(FUNCTION + "# apply(3)\n", MAIN, id="called by uncommenting it"),
        pytest.param(
            CLASS + "if __name__ == '__main__':\n    Net()(3)\n",
            {"b.py": SCRIPT},
            id="by a script of its own",
        ),
        pytest.param("from base import register\n@register\n" + FUNCTION, MAIN, id="registered"),
        pytest.param(FUNCTION.replace("apply", "main"), MAIN, id="started by a launcher"),
        pytest.param(
            f"{FUNCTION}f = globals()[name]\n", MAIN, id="found among the names of the file"
        ),
        pytest.param(
            CLASS, MAIN | {"b.py": "import net\ngetattr(net, args.name)()\n"}, id="found by option"
        ),
        pytest.param(CLASS, MAIN | {"b.py": "import net\neval(args.name)()\n"}, id="evaluated"),
        pytest.param(
            CLASS,
            MAIN | {"b.py": "import hydra\n", "b.yaml": "_target_: net.Net\n"},
            id="found by a configuration",
        ),
        pytest.param(
            CLASS + "class A:\n    def f(self):\n        # self.a = Net()\n        self.a = 1\n",
            MAIN,
            id="one of a choice of parts",
        ),
        pytest.param(
            CLASS, MAIN | {"b.py": "import net\nf = sys.modules[name].f\n"}, id="a module found"
        ),
        pytest.param(
            CLASS,
            MAIN | {"b.py": "getattr(import_module(args.module), args.name)()\n"},
            id="of a module imported by option",
        ),
        pytest.param(
            CLASS,
            MAIN | {"b.py": "from base import *\nx = import_module(args.x)\nx.Net()\n"},
            id="an attribute of it",
        ),
        pytest.param(
            CLASS,
            MAIN | {"b.py": "y = 'net.Net'\nself.x = import_module(y)\ngetattr(self.x, name)()\n"},
            id="it is kept",
        ),
        pytest.param(CLASS, MAIN | {"b.py": "Base.__subclasses__()\n"}, id="found by its base"),
        pytest.param(FUNCTION, MAIN | {"b.ipynb": '"from net import apply"'}, id="in a notebook"),
        pytest.param(CLASS, MAIN | {"b.yaml": "model: net.Net\n"}, id="in a configuration"),
        pytest.param(
            FUNCTION, MAIN | {"b.sh": "python -c 'import net; net.apply(3)'\n"}, id="shell"
        ),
        pytest.param(FUNCTION, MAIN | {"README.md": "Call `apply` first."}, id="explained"),
        pytest.param(FUNCTION, MAIN | {"setup.py": ""}, id="installed"),
        pytest.param(
            FUNCTION,
            MAIN | {"setup.py": "setup(packages=find_packages(), ext_modules=[ops])\n"},
            id="installed beside kernels",
        ),
        pytest.param(
            FUNCTION, MAIN | {"pyproject.toml": "[project]\nname = 'n'\n"}, id="a package"
        ),
        pytest.param(FUNCTION, {}, id="nothing is started"),
        pytest.param("from base import keep\n@keep\n" + FUNCTION, MAIN, id="given to a decorator"),
        pytest.param("probe(1)\n", MAIN, id="at the top"),
        pytest.param(
            "def run(x):\n    def apply():\n        probe(x)\nrun(1)\n",
            MAIN,
            id="a function inside",
        ),
        pytest.param(
            "class Net:\n    def apply(self, x):\n        probe(x)\nNet()\n", MAIN, id="a method"
        ),
    ],
)
def test_definitions_that_may_be_used(tmp_path: Path, source: str, files: dict[str, str]):
    assert not unreached_in(tmp_path, source, files)


@pytest.mark.parametrize("mark", ["@torch.no_grad()", "@torch.inference_mode()"])
def test_decorators_that_keep_nothing(tmp_path: Path, mark: str):
    assert unreached_in(tmp_path, f"import torch\n{mark}\n{FUNCTION}", MAIN)


def test_a_project_too_large_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlint.imports._MOST", 1)
    assert not unreached_in(tmp_path, FUNCTION, MAIN)


def test_a_folder_whose_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "spare").mkdir()
    (tmp_path / "main.py").write_text(SCRIPT)
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "spare" / "net.py").write_text(FUNCTION)
    (tmp_path / "spare" / "run.py").write_text("from net import apply\napply(3)\n")
    imports = Imports(tmp_path, lambda folder: folder.name == "spare")
    program = Project(imports).program(str(tmp_path / "spare" / "net.py"))
    assert program is not None
    assert not program.unreached.at(probed(program))


def test_what_a_hub_offers(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "hubconf.py").write_text(FUNCTION + SCRIPT)
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "hubconf.py"))
    assert program is not None
    assert not program.unreached.at(probed(program))


BY_DEFAULT = """
def run(x, state=None):
    if state is None:
        LINE
    return state
"""


@pytest.mark.parametrize(
    ("line", "call", "expected"),
    [
        pytest.param("state = apply(x)", "run(1, (2, 3))", True, id="every call gives one"),
        pytest.param("state = apply(x)", "run(1)", False, id="a call leaves it out"),
        pytest.param("state = apply(x)", "run(1, given)", False, id="a call may leave it out"),
        pytest.param("state = more(x)", "run(1, (2, 3))", True, id="by another"),
        pytest.param("state = more(x)", "run(1)", False, id="by another that is called"),
        pytest.param("kept = [apply]", "run(1, (2, 3))", True, id="not called there"),
    ],
)
def test_functions_that_are_named_where_nothing_comes(tmp_path, line, call, expected):
    source = "from z import probe\n" + FUNCTION + BY_DEFAULT.replace("LINE", line)  # none raises
    source += "def more(x):\n    return apply(x)\n" if "more" in line else ""
    main = f"from z import given\nfrom net import run\ndef main():\n    {call}\n{SCRIPT}"
    assert unreached_in(tmp_path, source, {"main.py": main.replace("run()", "main()")}) is expected


@pytest.mark.parametrize(
    ("setup", "files", "left_out"),
    [
        pytest.param("packages=find_packages()", {}, True, id="in no package"),
        pytest.param("name='lib'", {}, True, id="all packages, none named"),
        pytest.param("packages=find_packages()", {"tools/__init__.py": ""}, False, id="a package"),
        pytest.param("packages=find_namespace_packages()", {}, False, id="without __init__"),
        pytest.param("packages=find_packages(), py_modules=['a']", {}, False, id="modules too"),
        pytest.param("packages=['tools']", {}, False, id="named"),
        pytest.param("packages=['lib'], scripts=['tools/net.py']", {}, False, id="a script"),
        pytest.param("packages=['lib', 'lib.nets']", {}, True, id="not named"),
        pytest.param("packages=['lib'] + more", {}, False, id="named elsewhere"),
        pytest.param(
            "packages=find_packages('tools')", {}, False, id="looked for in another folder"
        ),
    ],
)
def test_scripts_beside_packages(
    tmp_path: Path, setup: str, files: dict[str, str], *, left_out: bool
) -> None:
    """``tools/net.py``: ``find_packages`` takes folders with an ``__init__.py`` alone."""
    files = MAIN | {"setup.py": f"setup({setup})\n", **files}
    assert unreached_in(tmp_path, FUNCTION, files, at="tools/net.py") is left_out


def test_other_tools_take_what_they_take(tmp_path: Path) -> None:
    files = MAIN | {"pyproject.toml": "[build-system]\nrequires = ['hatchling']\n"}
    assert not unreached_in(tmp_path, FUNCTION, files, at="tools/net.py")


def test_a_package_in_a_folder_that_is_none(tmp_path: Path) -> None:
    files = MAIN | {"setup.py": "setup(packages=find_packages())\n", "tools/lib/__init__.py": ""}
    assert unreached_in(tmp_path, FUNCTION, files, at="tools/lib/net.py")


def test_a_snippet_is_for_others_to_use() -> None:
    assert not unreached(FUNCTION)


def test_so_is_a_file_that_belongs_to_no_project(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FUNCTION + SCRIPT)
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "net.py"))
    assert program is not None
    assert not program.unreached.at(probed(program))


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(FUNCTION, MAIN, id="a function"),
        pytest.param(CLASS, MAIN, id="a class"),
        pytest.param(FUNCTION + SCRIPT, {}, id="of the script itself"),
        pytest.param(f"{FUNCTION}model.apply(run)\nf(apply=3)\n", MAIN, id="only labels"),
        pytest.param(
            FUNCTION, MAIN | {"b.py": "def apply(x):\n    pass\napply(3)\n"}, id="a namesake"
        ),
        pytest.param(
            FUNCTION,
            MAIN
            | {
                "nets/old_net.py": "def apply(x):\n    pass\n",
                "b.py": "import net\nfrom nets.old_net import apply\napply(3)\n",
                "nets/c.py": "import net\nfrom . import old_net\nold_net.apply(3)\n",
            },
            id="imported from other modules",
        ),
        pytest.param(FUNCTION, MAIN | {"b.py": "apply = 3\n"}, id="another file's variable"),
        pytest.param(
            FUNCTION + "def apply_one(x):\n    pass\n",
            MAIN | {"b.py": "from net import apply_one as apply\napply(3)\n"},
            id="another of the file by its name",
        ),
        pytest.param(
            FUNCTION,
            {"main.py": "import net\nf(mode='apply')  # to apply it\n" + SCRIPT},
            id="a text and a comment of its user",
        ),
        pytest.param(
            FUNCTION,
            {
                "main.py": "import net\nclass A:\n    def apply(self):\n        pass\n"
                "def main():\n    a = A()\n    a.apply()\n" + SCRIPT
            },
            id="a method of an object of its user",
        ),
        pytest.param(
            FUNCTION + "class A:\n    def f(self):\n        return self.__dict__\n",
            MAIN,
            id="where objects are shown",
        ),
        pytest.param(FUNCTION + "__all__ = ['apply']\n", MAIN, id="exported"),
        pytest.param(FUNCTION + "tqdm(y, desc='apply')\n", MAIN, id="what is shown"),
        pytest.param(
            FUNCTION + "URLS = {'apply': 'https://x.y/z', 'b': {}}\nload(URLS['apply'])\n",
            MAIN,
            id="a key of data",
        ),
        pytest.param(
            FUNCTION,
            {"main.py": "from net import apply\n__all__ = ['apply']\n" + SCRIPT},
            id="exported by another module",
        ),
        pytest.param(
            "def eval(x):\n    probe(x)\nmodel.eval()\n" + SCRIPT,
            {"b.py": "def eval(x):\n    pass\neval(3)\n"},
            id="called like a builtin",
        ),
        pytest.param(
            "class Net:\n    def __init__(self, x):\n        super(Net, self).__init__()\n"
            "        probe(x)\n",
            MAIN,
            id="a class that names itself",
        ),
        pytest.param(
            FUNCTION,
            MAIN | {"README.md": "Please apply:\n\n    python apply.py --apply\n"},
            id="prose",
        ),
        pytest.param(
            FUNCTION,
            MAIN | {"pyproject.toml": "[tool.black]\n", "setup.cfg": "[flake8]\n"},
            id="tools",
        ),
        pytest.param(FUNCTION, MAIN | {"ops/setup.py": ""}, id="another part is installed"),
        pytest.param(
            FUNCTION, MAIN | {"setup.py": "setup(ext_modules=[ops])\n"}, id="it compiles kernels"
        ),
        pytest.param(
            FUNCTION,
            MAIN | {"b.py": "import net\ngetattr(args, name)\n"},
            id="an option by its name",
        ),
        pytest.param(
            FUNCTION,
            MAIN | {"b.py": "import net\nlog.add_scalar(name, getattr(x, name))\n"},
            id="a number by its name",
        ),
        pytest.param(
            FUNCTION,
            MAIN | {"b.py": "import_module(args.module).Model(3)\n"},
            id="a module by its name, for something else",
        ),
        pytest.param(
            FUNCTION, {"main.py": "from net import apply\n" + SCRIPT}, id="imported in vain"
        ),
        pytest.param(
            FUNCTION, MAIN | {"b.py": "import net\n# eval() is run first\n"}, id="told in a comment"
        ),
        pytest.param(FUNCTION, MAIN | {"b.py": "LABELS = ['fire hydrant']\n"}, id="a hydrant"),
        pytest.param(
            CLASS, MAIN | {"b.py": "import hydra\n", "b.yaml": "lr: 1\n"}, id="not configured"
        ),
        pytest.param(
            CLASS + "class A:\n    def f(self):\n        # self.a = Net()\n        self.b = 1\n",
            MAIN,
            id="a part that is left out",
        ),
        pytest.param(
            CLASS,
            MAIN | {"b.py": "import net\ndef f(self):\n    # self.a = net.Net()\n    g(self.a)\n"},
            id="a part that is left out elsewhere",
        ),
        pytest.param(
            FUNCTION, MAIN | {"b.py": "import net\nsys.modules[name] = x\n"}, id="a module stored"
        ),
        pytest.param(FUNCTION + "def more():\n    apply(3)\n", MAIN, id="named in vain"),
        pytest.param(
            CLASS + "if __name__ == '__main__':\n    Net()(3)\n", MAIN, id="shown by its module"
        ),
        pytest.param(
            FUNCTION + "class A(B):\n    def f(self):\n        apply(3)\n", MAIN, id="by a class"
        ),
        pytest.param(CLASS + "class More(Net):\n    pass\n", MAIN, id="the base of another"),
        pytest.param(
            "def apply(x):\n    probe(x)\n    more()\ndef more():\n    apply(3)\n",
            MAIN,
            id="a circle",
        ),
        pytest.param(
            FUNCTION,
            MAIN | {"b.py": "from net import apply\ndef more():\n    apply(3)\n"},
            id="named in vain elsewhere",
        ),
        pytest.param(
            FUNCTION + "# here we apply the rule\n", MAIN, id="a word of a comment of its file"
        ),
        pytest.param(
            CLASS.replace("Net", "Transition") + "# Transition layers\n",
            MAIN,
            id="a word that begins a comment of its file",
        ),
    ],
)
def test_definitions_that_nothing_names(tmp_path: Path, source: str, files: dict[str, str]):
    assert unreached_in(tmp_path, source, files)


# -- calls that raise -----------------------------------------------------------------------------

MADE = (
    "from torch import nn\nclass Net(nn.Module):\n"
    "    def __init__(self, n, m=1):\n        probe(n)\n"
)
TAKES = "def apply(x, y=1, *, z=2):\n    probe(x)\n"


def calling(*calls: str, of: str = "apply") -> dict[str, str]:
    """Return a script that makes some calls."""
    return {"main.py": "\n".join((f"from net import {of}", *calls, SCRIPT))}


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(TAKES, calling("apply(1, 2, z=3)"), id="all"),
        pytest.param(TAKES, calling("apply(y=1, x=2)"), id="by name"),
        pytest.param(TAKES, calling("apply(*x)"), id="any number"),
        pytest.param(TAKES, calling("apply(**x)"), id="any names"),
        pytest.param(
            TAKES,
            calling("for x in (1, 2):", "    if x: apply(1, w=2)", "    else: apply(1)"),
            id="one of two calls",
        ),
        pytest.param(TAKES, calling("run(apply)", "apply(1, w=2)"), id="passed on as well"),
        pytest.param(TAKES.replace("z=2", "z=2, **more"), calling("apply(1, w=2)"), id="others"),
        pytest.param(TAKES.replace("*,", "*rest,"), calling("apply(1, 2, 3)"), id="more of them"),
        pytest.param(
            "from base import wrapped\n@wrapped\n" + TAKES, calling("apply(1, w=2)"), id="decorated"
        ),
        pytest.param(
            TAKES + "def apply(x, w):\n    pass\n", calling("apply(1, w=2)"), id="a later one"
        ),
        pytest.param(
            "from base import run, x\n" + TAKES + "if x:\n    apply = run\napply(1, w=2)\n",
            MAIN,
            id="maybe another",
        ),
        pytest.param(MADE, calling("Net(3)", of="Net"), id="made"),
        pytest.param(
            "from base import Base\n" + MADE.replace("nn.Module", "Base"),
            calling("Net()", of="Net"),
            id="of a base",
        ),
        pytest.param(
            MADE.replace("class", "from base import register\n@register\nclass"),
            calling("Net()", of="Net"),
            id="a class",
        ),
        pytest.param(
            MADE.replace("Module", "Module, metaclass=M"),
            calling("Net()", of="Net"),
            id="made by another class",
        ),
        pytest.param(
            MADE + "    def __new__(cls, **kw):\n        pass\n",
            calling("Net(w=2)", of="Net"),
            id="made by itself",
        ),
        pytest.param(
            "from base import configured\n" + MADE.replace("    def", "    @configured\n    def"),
            calling("Net(w=2)", of="Net"),
            id="by a configuration",
        ),
        pytest.param(
            MADE.replace("self, n, m=1", "*n"),
            calling("Net(1, 2)", of="Net"),
            id="no self",
        ),
        pytest.param(
            "from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n"
            "        probe(x)\n",
            calling("Net(3)", of="Net"),
            id="it leaves that to its base",
        ),
    ],
)
def test_calls_that_may_run(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert not unreached_in(tmp_path, source, files)


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(TAKES, calling("apply(1, w=2)"), id="a keyword that it has not"),
        pytest.param(TAKES, calling("apply(*x, w=2)"), id="beside others"),
        pytest.param(TAKES, calling("apply(1, 2, 3)"), id="too many"),
        pytest.param(TAKES, calling("apply(1, 2, y=3)"), id="one twice"),
        pytest.param(TAKES, calling("apply(z=3)"), id="too few"),
        pytest.param(TAKES, {"main.py": f"import net\nnet.apply()\n{SCRIPT}"}, id="by its module"),
        pytest.param(TAKES + "apply(1, w=2)\n", MAIN, id="in its own file"),
        pytest.param(MADE, calling("Net(3, w=2)", "Net()", of="Net"), id="classes"),
    ],
)
def test_calls_that_raise(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert unreached_in(tmp_path, source, files)


# -- methods --------------------------------------------------------------------------------------

NET = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n"
    "    def __init__(self):\n        super(Net, self).__init__()\n        self.a = nn.ReLU()\n"
    "    def forward(self, x):\n        probe(x)\n"
    "    def encode(self, x):\n        return self.a(x)\n"
)
LOSS = NET.replace(
    "x):\n        probe(x)", "x, mask=None):\n        if mask is None:\n            probe(x)"
)


def kept(*lines: str, base: str = "nn.Module", made: str = "Net()") -> dict[str, str]:
    """Return a script whose trainer keeps a net and does something with it."""
    does = "".join(f"        {line}\n" for line in lines)
    return {
        "main.py": "from torch import nn\nfrom net import Net\nfrom base import Other\n"
        f"class Trainer({base}):\n    def __init__(self):\n        self.net = {made}\n"
        f"    def step(self, x, m):\n{does}Trainer().step(1, 2)\n{SCRIPT}"
    }


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(NET, kept("self.net(x)"), id="called"),
        pytest.param(NET, kept("self.net.forward(x)"), id="called by its name"),
        pytest.param(NET, kept("self.net.cuda()(x)"), id="called as it is moved"),
        pytest.param(NET, kept("run(self.net)"), id="passed on"),
        pytest.param(NET, kept("run(self.net.forward)"), id="its method is passed on"),
        pytest.param(NET, kept("return self.net.eval()"), id="returned"),
        pytest.param(NET, kept("nets = [self.net]"), id="in a list"),
        pytest.param(NET, kept("net = self.net"), id="by another name"),
        pytest.param(NET, kept("getattr(self, x)(m)"), id="found by a name"),
        pytest.param(NET, kept("run('net')"), id="its name is passed on"),
        pytest.param(NET, kept("# self.net(x)", "pass"), id="called by uncommenting it"),
        pytest.param(NET, kept("for one in self.children():", "    one(x)"), id="as one of all"),
        pytest.param(NET, kept("pass", base="nn.Sequential"), id="called by what keeps it"),
        pytest.param(NET, kept("pass", base="Other"), id="kept for others"),
        pytest.param(NET, kept("pass", made="nn.DataParallel(Net())"), id="wrapped"),
        pytest.param(NET, kept("return self.net", made="[Net()]"), id="returned in a list"),
        pytest.param(NET, kept("pass", made="Net() if x else Net()"), id="made in two ways"),
        pytest.param(NET, kept("pass") | {"b.py": "import z\nz.t.net(3)\n"}, id="elsewhere"),
        pytest.param(NET, kept("pass") | {"b.ipynb": '"t.net(3)"'}, id="in a notebook"),
        pytest.param(NET, kept("pass") | {"setup.py": ""}, id="installed"),
        pytest.param(NET + "class More(Net):\n    pass\nMore()\n", kept("pass"), id="a base"),
        pytest.param(NET + "    def f(self):\n        self(3)\n", kept("pass"), id="by itself"),
        pytest.param(NET + "    def f(self):\n        return self\n", kept("pass"), id="out"),
        pytest.param(
            "from base import Base\n" + NET.replace("nn.Module", "Base"),
            kept("pass"),
            id="called by its base",
        ),
        pytest.param(
            NET, {"main.py": f"from net import Net\ndef f():\n    return Net()\n{SCRIPT}f()\n"},
            id="returned where it is made",
        ),
        pytest.param(
            NET, {"main.py": f"from net import Net\nmodel = Net()\n{SCRIPT}"}, id="a global name"
        ),
        pytest.param(LOSS, kept("self.net(x)"), id="left at its default"),
        pytest.param(
            LOSS.replace("mask is None", "mask"),
            kept("self.net(x)", "run(self.net.forward)"),
            id="called by others as well",
        ),
        pytest.param(LOSS, kept("self.net(x, None)", "self.net(x, m)"), id="now and then"),
    ],
)  # fmt: skip
def test_methods_that_may_be_called(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert not unreached_in(tmp_path, source, files)


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(NET, kept("self.net.encode(x)"), id="only another method is called"),
        pytest.param(
            NET, kept("self.net.cuda().train()", "f(self.net.parameters())"), id="harmless uses"
        ),
        pytest.param(NET, kept("pass", made="Net().cuda()"), id="moved as it is made"),
        pytest.param(
            NET,
            {
                "main.py": "from net import Net\ndef f(x):\n    net = Net()\n    net.encode(x)\n"
                f"f(1)\n{SCRIPT}"
            },
            id="a variable",
        ),
        pytest.param(
            LOSS.replace("mask is None", "mask is not None"), kept("self.net(x)"), id="not passed"
        ),
        pytest.param(
            LOSS.replace("mask is None", "mask"), kept("self.net(x, None)"), id="None is passed"
        ),
        pytest.param(
            LOSS.replace("mask is None", "mask").replace("forward", "measure"),
            kept("self.net.measure(x)"),
            id="of another method",
        ),
    ],
)  # fmt: skip
def test_methods_that_no_call_reaches(tmp_path: Path, source: str, files: dict[str, str]) -> None:
    assert unreached_in(tmp_path, source, files)


NETS = "nn.ModuleList([Net() for _ in range(3)])"
FILLED = ["nets = []", "nets.append(Net())", "self.more = nn.ModuleList(nets)"]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(kept("self.net[0](x)", made=NETS), id="by its place"),
        pytest.param(kept("for net in self.net:", "    net(x)", made=NETS), id="in turns"),
        pytest.param(kept("for _, net in enumerate(self.net):", "    net(x)", made=NETS), id="n"),
        pytest.param(kept("for _, net in zip(m, self.net):", "    net(x)", made=NETS), id="zip"),
        pytest.param(kept("for net in self.net[1:]:", "    net(x)", made=NETS), id="a part"),
        pytest.param(kept("for net in reversed(self.net):", "    net(x)", made=NETS), id="back"),
        pytest.param(kept("x = [net(x) for net in self.net]", made=NETS), id="a comprehension"),
        pytest.param(kept("nets = self.net", "nets[0](x)", made=NETS), id="by another name"),
        pytest.param(kept("x = self.net[0].eval()(x)", made="[Net()]"), id="a plain list"),
        pytest.param(kept(*FILLED, "self.more[0](x)"), id="filled"),
        pytest.param(kept("run(self.net)", made=NETS), id="the list is passed on"),
        pytest.param(kept("self.net[0], x = x, self.net[0]", made=NETS), id="an entry goes on"),
        pytest.param(kept("run(*self.net)", made=NETS), id="as arguments"),
        pytest.param(kept("one, two = self.net", made=NETS), id="taken apart"),
        pytest.param(kept("self.net.pop()(x)", made=NETS), id="taken out"),
        pytest.param(kept("it = map(run, self.net)", made=NETS), id="mapped"),
        pytest.param(kept("for one in zip(m, self.net):", "    run(one)", made=NETS), id="pairs"),
        pytest.param(kept("nets = m.nets", "nets.append(Net())"), id="in a list of others"),
        pytest.param(kept("m.nets.append(Net())"), id="in a list elsewhere"),
        pytest.param(kept("m.add(Net())"), id="added"),
        pytest.param(kept("pass", made="[[Net()]]"), id="a list in a list"),
        pytest.param(kept("nets = []", "nets.append([Net()])"), id="a list put in a list"),
        pytest.param(kept("pass", made="nn.Sequential(Net())"), id="a sequence of layers"),
        pytest.param(kept("self.net.append(Net())"), id="a list or one"),
        pytest.param(kept("getattr(self.net, 'forward')(x)"), id="found by its name"),
        pytest.param(kept("getattr(self.net, x)(m)"), id="found by a name"),
    ],
)
def test_lists_of_modules_that_may_be_called(tmp_path: Path, files: dict[str, str]) -> None:
    assert not unreached_in(tmp_path, NET, files)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(kept("pass", made=NETS), id="kept"),
        pytest.param(kept("for net in self.net:", "    net.encode(x)", made=NETS), id="encode"),
        pytest.param(kept("self.net[0].encode(x)", made=NETS), id="one"),
        pytest.param(kept("n = len(self.net)", "f(self.net.parameters())", made=NETS), id="asked"),
        pytest.param(kept(*FILLED, "self.more.append(Net())"), id="filled"),
        pytest.param(kept(*FILLED, "self.more.extend([Net()])"), id="by many"),
        pytest.param(
            kept("if hasattr(self.net, 'a'):", "    f(getattr(self.net, 'a', x))"), id="a"
        ),
    ],
)
def test_lists_of_modules_that_nothing_calls(tmp_path: Path, files: dict[str, str]) -> None:
    assert unreached_in(tmp_path, NET, files)


# -- parameters that every call gives -------------------------------------------------------------

UNMASKED = "import torch\ndef apply(x, mask=None):\n    if mask is None:\n        probe(x)\n"


def calling(*lines: str, more: str = "") -> dict[str, str]:
    """Return a script with a function of some lines that the script calls."""
    body = "".join(f"    {line}\n" for line in lines)
    return {
        "main.py": f"import torch\nfrom net import apply\n{more}\n"
        f"def step(x, m, n=None):\n{body}if __name__ == '__main__':\n    step(1, 2)\n"
    }


MANY_STEPS = "    step(x, x)\n" * 11
PAIR = "def pair(x, m, n=None):\n    return x, {}\n"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(calling("apply(x)"), id="left out"),
        pytest.param(calling("apply(x, None)"), id="None"),
        pytest.param(calling("apply(x, n)"), id="what may be left out"),
        pytest.param(
            calling("apply(x, n)", more="def f():\n    run(step)"), id="by calls that are not seen"
        ),
        pytest.param(calling("apply(x, print(x))"), id="what gives nothing"),
        pytest.param(calling("apply(x, m)", more="def f():\n    step(3, None)"), id="None once"),
        pytest.param(calling("m = None if x else m", "apply(x, m)"), id="one or the other"),
        pytest.param(calling("if x:", "    m = None", "apply(x, m)"), id="None at times"),
        pytest.param(
            calling("for y in x:", "    m = y.a if y else m", "    apply(x, m)"), id="by itself"
        ),
        pytest.param(calling("for y in x:", "    m = x or m", "    apply(x, m)"), id="in turns"),
        pytest.param(calling("apply(x, m or n)"), id="None at last"),
        pytest.param(calling("apply(x, m and x)"), id="one of both"),
        pytest.param(calling("apply(x, x.mask)"), id="an attribute"),
        pytest.param(calling("apply(x, x[0])"), id="an entry"),
        pytest.param(calling("apply(x, f(x))"), id="what another function gives"),
        pytest.param(calling("apply(*x)"), id="hidden"),
        pytest.param(calling("x, m = x.pair(m)", "apply(x, m)"), id="of a pair of others"),
        pytest.param(
            calling("x, m = pair(x, m)", "apply(x, m)", more=PAIR.format("n")), id="of a pair"
        ),
        pytest.param(
            calling("for x, m in pair(x, m):", "    apply(x, m)", more=PAIR.format("m[1:]")),
            id="of what a pair holds",
        ),
        pytest.param(
            calling("apply(x, m)", more=f"def f(x):\n{MANY_STEPS}    step(x, None)"),
            id="by one of many calls",
        ),
        pytest.param(
            calling("x, m = pair(x, m)", "apply(x, m)", more="def pair(x, m):\n    return x\n"),
            id="of what is no pair",
        ),
    ],
)
def test_what_some_call_may_leave_out(tmp_path: Path, files: dict[str, str]) -> None:
    assert not unreached_in(tmp_path, UNMASKED, files)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(calling("apply(x, m)"), id="what the caller requires"),
        pytest.param(calling("apply(x, torch.ones(3))"), id="a tensor"),
        pytest.param(calling("m = torch.ones(3)", "apply(x, m)"), id="a name of one"),
        pytest.param(calling("apply(x, x * n)"), id="a product"),
        pytest.param(calling("apply(x, True)"), id="a constant"),
        pytest.param(calling("apply(x, m if n else x)"), id="one of two"),
        pytest.param(calling("apply(x, n or m)"), id="something at last"),
        pytest.param(calling("apply(x, x[1:])"), id="a slice"),
        pytest.param(calling("apply(x, mask=[x])"), id="a list"),
        pytest.param(
            calling("x, m = pair(x, m)", "apply(x, m)", more=PAIR.format("m[1:]")), id="of a pair"
        ),
        pytest.param(calling("x = torch.squeeze(x)", "apply(x, m)"), id="beside other names"),
    ],
)
def test_what_every_call_gives(tmp_path: Path, files: dict[str, str]) -> None:
    assert unreached_in(tmp_path, UNMASKED, files)


def test_functions_of_torch_are_no_namesakes(tmp_path: Path) -> None:
    source = UNMASKED.replace("apply", "squeeze") + "def other(x):\n    torch.squeeze(x)\n"
    files = calling("squeeze(torch.squeeze(x), m)")
    files["main.py"] = files["main.py"].replace("import apply", "import squeeze")
    assert unreached_in(tmp_path, source, files)


METHOD = (
    "from torch import nn\nclass Net(nn.Module):\n    def take_step(self, x):\n        probe(x)\n"
)
USED = {"main.py": "from net import Net\nnet = Net()\nrun(net)\n" + SCRIPT}


@pytest.mark.parametrize(
    ("source", "files", "expected"),
    [
        pytest.param(METHOD, USED, True, id="named nowhere"),
        pytest.param(METHOD.replace("nn.Module", ""), USED, True, id="of a plain class"),
        pytest.param(
            METHOD,
            USED | {"b.py": "from net import Net\nclass B(Net):\n    pass\n"},
            True,
            id="an heir",
        ),
        pytest.param(
            METHOD,
            USED | {"b.py": "class B(Net):\n    def take_step(self, x):\n        pass\n"},
            True,
            id="that writes it anew",
        ),
        pytest.param(
            METHOD, USED | {"b.py": "x = getattr(self, 'layer%d' % i)\n"}, True, id="other names"
        ),
        pytest.param(METHOD, USED | {"b.py": "x = getattr(self, name)\n"}, True, id="a whole one"),
        pytest.param(
            METHOD + "    def take_steps(self, x):\n        self.take_step(x)\n",
            USED,
            True,
            id="only by one that is named nowhere",
        ),
        pytest.param(
            METHOD + "    def run(self, x):\n        self.take_step(x)\n",
            USED,
            False,
            id="by one with a plain name",
        ),
        pytest.param(
            METHOD + "    def take_steps(self, x):\n        hook(self.take_step)\n",
            USED,
            False,
            id="handed on by one that is named nowhere",
        ),
        pytest.param(
            METHOD
            + "    def take_more(self, x):\n        self.take_step(x)\n        self.take_more(x)\n",
            USED,
            False,
            id="by one that calls itself",
        ),
        pytest.param(METHOD, USED | {"b.py": "net.take_step(1)\n"}, False, id="called"),
        pytest.param(METHOD, USED | {"b.py": "# net.take_step(1)\n"}, False, id="in a comment"),
        pytest.param(METHOD, USED | {"b.py": "x = 'take_step'\n"}, False, id="in a text"),
        pytest.param(METHOD, USED | {"b.yaml": "do: take_step\n"}, False, id="in a configuration"),
        pytest.param(
            METHOD, USED | {"b.py": "getattr(net, 'take_' + x)()\n"}, False, id="put together"
        ),
        pytest.param(
            METHOD, USED | {"b.py": "getattr(net, f'{x}_step')()\n"}, False, id="by its end"
        ),
        pytest.param(METHOD.replace("take_step", "take"), USED, False, id="a plain word"),
        pytest.param(
            "from lib import Trainer\n" + METHOD.replace("nn.Module", "Trainer"),
            USED,
            False,
            id="of a library's class",
        ),
        pytest.param(
            "from lib import hook\n" + METHOD.replace("    def", "    @hook\n    def"),
            USED,
            False,
            id="with a decorator",
        ),
        pytest.param(
            METHOD, USED | {"b.py": "class B(Net, Trainer):\n    pass\n"}, False, id="mixed in"
        ),
        pytest.param(METHOD, USED | {"setup.py": ""}, False, id="for others to use"),
    ],
)
def test_methods_that_are_named_nowhere(
    tmp_path: Path, source: str, files: dict[str, str], *, expected: bool
) -> None:
    assert unreached_in(tmp_path, source, files) is expected


# -- files that are put aside ---------------------------------------------------------------------
