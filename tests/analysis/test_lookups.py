"""What a project finds by names that it computes: a function that nothing else names is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probing import unreached_in

from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

MAIN = "import lib.net\nif __name__ == '__main__':\n    run()\n"
BUILD = "def build(kinds, name):\n    return getattr(kinds, name)()\n"
BY_NAME = "def build(kinds):\n    return getattr(import_module(kinds), args.kind)()\n"


def found_in(root: Path, files: dict[str, str]) -> bool:
    """Whether a function of ``lib/net.py`` that nothing names may be reached."""
    source = "def apply(x):\n    probe(x)\n"
    return not unreached_in(root, source, {"main.py": MAIN, **files}, at="lib/net.py")


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"b.py": "import lib.net as nets\nnets.__dict__[name]()\n"}, id="its names"),
        pytest.param({"b.py": "from lib import net\nvars(net)[name]()\n"}, id="as a dict"),
        pytest.param({"b.py": "import lib.net\ngetattr(lib.net, name)()\n"}, id="by its path"),
        pytest.param(
            {"lib/__init__.py": "from .net import *\n", "b.py": "import lib\ngetattr(lib, n)()\n"},
            id="re-exported",
        ),
        pytest.param(
            {"a.py": "from lib import net as n\n", "b.py": "import a\ngetattr(a.n, name)()\n"},
            id="by way of another module",
        ),
        pytest.param({"b.py": "from lib.net import *\nglobals()[name]()\n"}, id="imported whole"),
        pytest.param(
            {"b.py": "from lib.net import apply\nglobals()[name]()\n"}, id="imported by name"
        ),
        pytest.param({"b.py": "from lib.net import *\nx = locals()['app' + y]\n"}, id="by a start"),
        pytest.param({"b.py": "from lib.net import *\nx = eval(name)\nx(3)\n"}, id="evaluated"),
        pytest.param(
            {"b.py": "import lib.net as net\nx = eval(name)\nx(3)\n"}, id="with its module"
        ),
        pytest.param(
            {"b.py": BUILD, "c.py": "from lib import net\nbuild(net, args.kind)\n"}, id="handed on"
        ),
        pytest.param(
            {"b.py": BUILD, "c.py": "from lib import net\nkinds = net if x else None\n"},
            id="one of a choice",
        ),
        pytest.param(
            {"b.py": "import sys\nimport lib.net\nx = sys.modules[name].f\n"}, id="of any module"
        ),
        pytest.param({"b.py": "x = import_module('lib.net')\nvars(x)[name]()\n"}, id="by a text"),
        pytest.param(
            {"lib/b.py": "x = import_module('.net', 'lib')\nvars(x)[name]()\n"}, id="relative"
        ),
        pytest.param(
            {"b.py": "x = import_module(f'lib.{kind}')\nvars(x)[name]()\n"}, id="of a package"
        ),
        pytest.param(
            {"b.py": "x = import_module('lib.' + kind)\nvars(x)[name]()\n"}, id="put together"
        ),
        pytest.param(
            {"b.py": "x = import_module('lib.%s' % kind)\nvars(x)[name]()\n"}, id="formatted"
        ),
        pytest.param(
            {"lib/__init__.py": "x = import_module('.' + kind, __name__)\nvars(x)[name]()\n"},
            id="of its own package",
        ),
        pytest.param(
            {"lib/b.py": "x = load(spec_from_file_location('', glob(y)))\nvars(x)[name]()\n"},
            id="from a path, without a name",
        ),
        pytest.param(
            {"b.py": "path = 'lib/' + kind\nx = import_module(path)\nvars(x)[name]()\n"},
            id="of a package that the file tells of",
        ),
        pytest.param(
            {
                "lib/__init__.py": "for one in os.listdir(HERE):\n    x = import_module(one)\n"
                "    kinds[one] = vars(x)[name]\n"
            },
            id="each file of a folder",
        ),
        pytest.param({"b.py": BY_NAME.replace("(kinds)", "(args.kinds)")}, id="by option"),
        pytest.param(
            {"b.py": BY_NAME, "README.md": "    python main.py --kinds net\n"}, id="explained"
        ),
        pytest.param({"b.py": BY_NAME, "run.yaml": "kinds: lib.net\n"}, id="in a configuration"),
        pytest.param({"b.py": BY_NAME, "c.py": "build('lib.net')\n"}, id="told elsewhere"),
        pytest.param(
            {
                "b.py": BUILD,
                "c.py": "build(import_module('lib.net'), x)\n",
                "run.cfg": "kind=apply",
            },
            id="passed",
        ),
        pytest.param(
            {"b.py": "x = import_module('lib.net')\ngetattr(x, y)()\n", "c.py": "y = 'apply'\n"},
            id="a name that is told",
        ),
    ],
)
def test_what_may_be_found(tmp_path: Path, files: dict[str, str]) -> None:
    assert found_in(tmp_path, files)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {"a.py": "", "b.py": "import lib.net\nimport a\ngetattr(a, x)()\n"}, id="another"
        ),
        pytest.param(
            {"b.py": "import lib.net\nfrom torchvision import models\nmodels.__dict__[x]()\n"},
            id="of a library",
        ),
        pytest.param({"b.py": "import lib.net\nx = globals()[name]\n"}, id="names of another file"),
        pytest.param({"b.py": "from lib.net import *\nx = locals()['x_' + y]\n"}, id="starts else"),
        pytest.param({"b.py": "import lib.net\nwidth = eval(line)\nf(width)\n"}, id="a number"),
        pytest.param(
            {"b.py": "from lib.net import *\nif eval(line):\n    f()\n"}, id="a condition"
        ),
        pytest.param({"b.py": "import lib.net\nx = [int(eval(y))]\n"}, id="turned into a number"),
        pytest.param({"b.py": "import lib.net\nfire.Fire(run)\n"}, id="a command line of another"),
        pytest.param({"b.py": "import lib.net\n" + BUILD}, id="of what is handed on: no module is"),
        pytest.param(
            {"b.py": BUILD, "a.py": "", "c.py": "import lib.net\nimport a\nbuild(a, x)\n"},
            id="another is handed on",
        ),
        pytest.param(
            {"b.py": "def apply(x):\n    pass\nglobals()[name](3)\n"}, id="a namesake elsewhere"
        ),
        pytest.param({"b.py": "x = sys.modules[name].f\n"}, id="of any module of another script"),
        pytest.param(
            {"b.py": "from lib import net\nx = callable(getattr(net, name))\n"}, id="only asked"
        ),
        pytest.param(
            {"b.py": "x = import_module(args.x)\ndef f(args):\n    return getattr(args, name)\n"},
            id="an option by its name",
        ),
        pytest.param(
            {"b.py": "import lib.net\nfor m in [*sys.modules]:\n    del sys.modules[m]\n"},
            id="modules are dropped",
        ),
        pytest.param(
            {"b.py": "x = import_module('json')\ngetattr(x, name)()\n"}, id="one of a library"
        ),
        pytest.param(
            {"b.py": "x = import_module(f'nets.{kind}')\ngetattr(x, name)()\n"},
            id="of another package",
        ),
        pytest.param({"b.py": BY_NAME}, id="a module that no text names"),
        pytest.param(
            {"b.py": "x = import_module('lib.net')\ngetattr(x, name)()\n"},
            id="a name that none does",
        ),
        pytest.param(
            {"b.py": "x = import_module(args.x)\n", "c.py": "x = settings()\ngetattr(x, name)\n"},
            id="a setting by its name",
        ),
        pytest.param(
            {"b.py": "x = import_module(args.x)\n", "c.py": "getattr(torch.zeros(3), name)()\n"},
            id="a method of a tensor",
        ),
    ],
)
def test_what_is_not(tmp_path: Path, files: dict[str, str]) -> None:
    assert not found_in(tmp_path, files)


def test_a_text_that_changes(tmp_path: Path) -> None:
    """An editor's buffer: what was read before it is forgotten."""
    assert not found_in(tmp_path, {"b.py": BUILD, "c.py": "from lib import net\n"})
    imports = Imports(tmp_path, lambda _: False)
    assert not imports.handed_on
    imports.replace(str(tmp_path / "c.py"), "from lib import net\nbuild(net, x)\n")
    assert imports.handed_on == {str(tmp_path / "lib" / "net.py")}
