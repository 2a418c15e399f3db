"""Which file an import means, and which files import a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint.imports import Imports, root_of


@pytest.fixture
def tree(tmp_path: Path) -> Imports:
    for name, text in (
        ("main.py", "from engine import train\nimport util.misc as misc, os\n"),
        ("engine.py", "from util import (\n    lr,\n    misc,\n)\n"),
        ("util/__init__.py", "from .misc import *\n"),
        ("util/misc.py", "import torch\n"),
        ("util/lr.py", ""),
        ("util/deep/a.py", "from ..lr import f\nfrom . import b\n"),
        ("util/deep/b.py", ""),
        ("src/pack/__init__.py", ""),
        ("src/pack/part.py", ""),
        ("venv/lib/engine.py", ""),
        ("accelerate/utils.py", ""),
        ("other/engine.py", ""),
        ("other/use.py", "    import engine\n"),
        ("tests/__init__.py", ""),
        ("tests/util/__init__.py", ""),
        ("tests/util/test_lr.py", ""),
        ("tests/engine.py", ""),
        ("tests/test_engine.py", ""),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    return Imports(tmp_path, lambda _: False)


@pytest.mark.parametrize(
    ("file", "name", "found"),
    [
        ("main.py", "engine.train", ("engine.py", "train")),
        ("main.py", "util.misc.f.g", ("util/misc.py", "f.g")),
        ("main.py", "util.f", ("util/__init__.py", "f")),
        ("main.py", "util", ("util/__init__.py", "")),
        ("main.py", "pack.part.f", ("src/pack/part.py", "f")),
        ("util/deep/a.py", ".b.f", ("util/deep/b.py", "f")),
        ("util/deep/a.py", "..lr.f", ("util/lr.py", "f")),
        ("util/misc.py", ".f", ("util/__init__.py", "f")),
        ("other/use.py", "engine.f", ("other/engine.py", "f")),
        ("util/deep/a.py", "engine.f", ("engine.py", "f")),
        ("tests/util/test_lr.py", "util.lr.f", ("util/lr.py", "f")),
        ("tests/test_engine.py", "engine.f", ("tests/engine.py", "f")),
        ("main.py", "torch.nn", None),
        ("main.py", "accelerate.utils", None),  # the library, though a file is called so
        ("main.py", "lib.engine", None),
        ("main.py", "other.nothing", None),
    ],
)
def test_what_a_name_means(tree: Imports, file: str, name: str, found) -> None:
    expected = found and (str(tree.root / found[0]), found[1])
    assert tree.paths.find(str(tree.root / file), name) == expected


def test_what_imports_connect_but_not_through_tests(tree: Imports) -> None:
    def connected(file: str) -> list[str]:
        found = tree.connected(str(tree.root / file))
        return [str(Path(one).relative_to(tree.root)) for one in found]

    assert connected("other/engine.py") == ["other/engine.py", "other/use.py"]
    assert {"main.py", "engine.py", "util/lr.py"} <= set(connected("util/deep/b.py"))
    for name in ("test_both.py", "both_test.py", "conftest.py"):
        (tree.root / "other" / name).write_text("import engine\nimport main\ndef test_it(): ...\n")
    again = Imports(tree.root, lambda _: False)
    found = again.connected(str(tree.root / "other/engine.py"))
    assert [Path(one).name for one in found] == ["engine.py", "use.py"]


def test_a_new_text_is_seen(tree: Imports) -> None:
    engine, use = str(tree.root / "engine.py"), str(tree.root / "other/use.py")
    assert use not in tree.connected(engine)
    assert tree.replace(use, "import main\n")
    assert use in tree.connected(engine)
    assert not tree.replace(use, "import main\n")


HELPED = """
def add_path(path):
    if path not in sys.path:
        sys.path.insert(0, path)
here = osp.dirname(__file__)
add_path(osp.join(here, '..', 'lib'))
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(HELPED, True, id="by a function of its own"),
        pytest.param("sys.path.append('../lib')", True, id="from the file's folder"),
        pytest.param("sys.path.append('./lib/')", True, id="from the root"),
        pytest.param(
            "sys.path.insert(0, os.path.join(os.path.dirname(__file__), '../lib'))", True, id="join"
        ),
        pytest.param("sys.path += [os.path.join(root, 'lib')]", True, id="added to"),
        pytest.param("sys.path.append('other')", False, id="another folder"),
        pytest.param("sys.path.append('nowhere')", False, id="no folder"),
        pytest.param("sys.path.append(os.getcwd())", False, id="unknown"),
        pytest.param("data = os.path.join(root, 'lib')", False, id="no path for imports"),
        pytest.param("print(sys.path, 'lib')", False, id="only read"),
    ],
)
def test_folders_that_scripts_put_on_the_path(tmp_path: Path, text: str, found: bool) -> None:
    for name in (
        "lib/core/function.py",
        "lib/engine.py",
        "lib/logging.py",
        "engine.py",
        "other/deep.py",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "tools").mkdir()
    main, paths = tmp_path / "tools" / "train.py", tmp_path / "tools" / "_init_paths.py"
    main.write_text("import _init_paths\nfrom core.function import train\n")
    paths.write_text(text)
    imports = Imports(tmp_path, lambda _: False)
    function = str(tmp_path / "lib/core/function.py")
    expected = (function, "train") if found else None
    assert imports.paths.find(str(main), "core.function.train") == expected
    assert (str(main) in imports.connected(function)) is found
    assert imports.paths.find(str(main), "logging.info") is None  # Python's own
    nearer = str(tmp_path / "engine.py"), "f"
    assert imports.paths.find(str(main), "engine.f") == nearer


def test_a_new_text_puts_other_folders_on_the_path(tmp_path: Path) -> None:
    for name in ("lib/core/function.py", "paths.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    main, paths = str(tmp_path / "main.py"), str(tmp_path / "paths.py")
    Path(main).write_text("from core.function import train\n")
    imports = Imports(tmp_path, lambda _: False)
    assert not imports.targets(main)
    imports.text(paths)
    assert imports.replace(paths, "sys.path.append('lib')\n")
    assert imports.targets(main) == {str(tmp_path / "lib/core/function.py")}
    assert imports.replace(paths, "")
    assert not imports.targets(main)


def test_words_are_looked_for_in_what_imports_connect(tree: Imports) -> None:
    engine = str(tree.root / "engine.py")
    assert tree.is_nearby(engine, ("engine import",))
    assert tree.is_nearby(engine, ("from .misc",))
    assert not tree.is_nearby(engine, ("import engine",))  # of another folder
    assert not tree.is_nearby(engine, ("nowhere",))


@pytest.mark.parametrize(
    ("marks", "root"),
    [
        ([], "a"),
        (["requirements.txt"], ""),
        (["a/b/pyproject.toml"], "a/b"),
        (["a/b/pyproject.toml", ".git"], ""),
        (["a/setup.py", "a/b/c/torchlint.toml"], "a/b/c"),
    ],
)
def test_where_a_project_begins(tmp_path: Path, marks: list[str], root: str) -> None:
    folder = tmp_path / "x"
    for name in ("a/main.py", "a/b/util.py", "a/b/c/deep.py", *marks):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert root_of(folder / "a" / "b" / "c" / "deep.py") == folder / root


def test_a_file_that_cannot_be_read_has_no_text(tree: Imports) -> None:
    broken = tree.root / "broken.py"
    broken.write_bytes(b"\xff\xfe\x00")
    assert tree.text(str(broken)) == ""


def test_of_a_very_large_project_each_file_is_looked_at_by_itself(
    tree: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchlint.imports._MOST", 3)
    assert tree.paths.find(str(tree.root / "main.py"), "engine.train") is None
    engine = str(tree.root / "engine.py")
    assert tree.connected(engine) == (engine,)


def test_a_module_of_the_name_of_its_package(tmp_path: Path) -> None:
    for name in ("nets/__init__.py", "nets/nets.py", "nets/blocks.py", "loose/loose.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    find = Imports(tmp_path, lambda _: False).paths.find
    package, loose = str(tmp_path / "nets"), str(tmp_path / "loose")
    assert find(f"{package}/__init__.py", "nets.blocks.f") == (
        f"{package}/blocks.py",
        "f",
    )
    assert find(f"{package}/blocks.py", "nets.nets.f") == (f"{package}/nets.py", "f")
    # a folder that is no package, of whose scripts Python looks there first
    assert find(f"{loose}/a.py", "loose.f") == (f"{loose}/loose.py", "f")
