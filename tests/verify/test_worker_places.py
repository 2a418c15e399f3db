"""The user's own tree stays as it is; the copy is what runs; what Python loads is looked at."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from eager_tools import EAGER, eager_path
from worker_tools import TOY, Project

from torchlint.verify.model import Bounds

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = "torchlint verify keeps the project as it is"
QUICKER = "import eager_torch\neager_torch.install()\n"  # as the sitecustomize does that they hide


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def kept(project):
    """A file in the user's tree that a script wants to harm."""
    project.write("data/kept.txt", "as it was")
    return project.original / "data" / "kept.txt"


@pytest.mark.parametrize(
    "harm",
    [
        "open(path, 'w')",
        "open(path, 'ab')",
        "pathlib.Path(path).write_text('x')",
        "os.open(path, os.O_RDWR)",
        "os.remove(path)",
        "os.rename(path, 'here')",
        "os.rename('own.txt', path)",
        "os.truncate(path, 0)",
        "os.mkdir(folder + '/new')",
        "os.rmdir(folder)",
        "os.symlink('own.txt', folder + '/link')",
        "os.chmod(path, 0o600)",
        "os.utime(path)",
        "shutil.rmtree(folder)",
        "shutil.copy('own.txt', path)",
        "shutil.move(path, 'here')",
        "sqlite3.connect(folder + '/new.db')",
        "open('linked/kept.txt', 'w')",
        "open('linked/new.txt', 'w')",
        "os.remove('linked/kept.txt')",
        "open('../original/data/kept.txt', 'w')",
    ],
)
def test_a_write_to_the_users_tree_is_refused(project, kept, harm) -> None:
    ran = project.run(
        f"""
import os, pathlib, shutil, sqlite3
path, folder = {str(kept)!r}, {str(kept.parent)!r}
open("own.txt", "w").write("mine")
os.symlink(folder, "linked")
try:
    {harm}
except PermissionError as error:
    print(error.strerror)
""",
    )
    assert ran.out.startswith(REFUSED), (ran.out, ran.err)
    assert kept.read_text() == "as it was"
    assert [path.name for path in kept.parent.iterdir()] == ["kept.txt"]


def test_reading_the_users_tree_and_writing_the_copy_are_free(project, kept) -> None:
    ran = project.run(
        f"""
import os, shutil, tempfile
print(open({str(kept)!r}).read())
os.symlink({str(kept.parent)!r}, "linked")
os.remove("linked")
os.makedirs("out/deep")
open("out/deep/a.txt", "w").write("a")
os.rename("out/deep/a.txt", os.path.abspath("b.txt"))
shutil.rmtree("out")
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/c.txt", "w").write("c")
os.chdir(tempfile.gettempdir())
""",
    )
    assert (ran.code, ran.out, ran.err) == (0, "as it was\n", "")


def test_torch_cannot_write_there_either_and_it_is_told(project, kept) -> None:
    ran = project.run(
        TOY
        + f"""
import pathlib
for target in {str(kept)!r}, pathlib.Path({str(kept)!r}), "linked.pt", "own.pt":
    try:
        torch.save(model.state_dict(), target)
    except PermissionError as error:
        print(error.filename)
    if target != "own.pt":
        pathlib.Path("linked.pt").unlink(missing_ok=True)
        pathlib.Path("linked.pt").symlink_to({str(kept)!r})
step()
"""
    )
    assert ran.out == f"{kept}\n" * 3
    assert ran.err == ""
    assert (project.copy / "own.pt").exists()
    assert kept.read_text() == "as it was"
    assert ran.only.writes == (str(kept),)


def test_writes_to_other_places_are_told_only(project) -> None:
    script = "try:\n    open('/no/such/folder', 'w')\nexcept FileNotFoundError as error: pass\n"
    assert project.run(TOY + script + "step()\n").only.writes == ("/no/such/folder",)


def test_the_files_that_were_imported_are_those_of_the_copy(project) -> None:
    project.write("package/__init__.py", "")
    project.write("package/part.py", "")
    record = project.run(TOY + "import package.part\nstep()\n").only
    assert record.modules == tuple(
        str(project.copy / name) for name in ("package/__init__.py", "package/part.py", "train.py")
    )


def test_paths_into_the_users_tree_lead_to_the_copy(tmp_path) -> None:
    source = tmp_path / "original" / "src"
    project = Project(tmp_path, {"PYTHONPATH": eager_path(str(source))})
    project.write("src/package/__init__.py", "")
    (source / "package" / "__init__.py").write_text("raise SystemExit('the original')")
    record = project.run(TOY + "import package\nstep()\n").only
    assert str(project.copy / "src" / "package" / "__init__.py") in record.modules


def test_what_only_the_users_tree_has_is_named(tmp_path) -> None:
    project = Project(tmp_path)
    project.write("own.py", "")
    script = f"import sys\nsys.path.insert(0, {str(project.original)!r})\nimport own\n"
    record = project.run(script + TOY + "step()\n").only
    assert str(project.original / "own.py") in record.modules


def with_sitecustomize(tmp_path: Path, text: str) -> tuple[Project, Path]:
    """Return a project whose user has a sitecustomize, and the folder of that."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(QUICKER + text)
    return Project(tmp_path, {"PYTHONPATH": os.pathsep.join((str(folder), str(EAGER)))}), folder


def test_the_users_own_sitecustomize_runs_too(tmp_path) -> None:
    own = "import sys\nsys.own = __file__, __name__\n"
    project, folder = with_sitecustomize(tmp_path, own)
    ran = project.run(
        TOY
        + """
import sitecustomize, sys
print(*sys.own)
print(sitecustomize.__file__)
print(any("inject" in entry for entry in sys.path))
step()
"""
    )
    own = folder / "sitecustomize.py"
    assert ran.out.splitlines() == [f"{own} sitecustomize", str(own), "False"]
    assert len(ran.only.steps[0]) == 1


def test_torch_may_come_in_through_another_module_and_late(project) -> None:
    project.write("deep.py", "def load():\n    import torch.nn as nn\n    return nn\n")
    script = "import deep\ndeep.load()\n" + TOY + "import torch\nstep()\nprint(torch.__loader__)\n"
    ran = project.run(script)
    assert len(ran.only.steps[0]) == 1
    assert "SourceFileLoader" in ran.out


def test_a_file_of_the_project_may_have_the_name_of_a_standard_module(project) -> None:
    project.write("shutil.py", "own = 1\n")
    project.write("random.py", "own = 2\n")
    ran = project.run("import random, shutil\nprint(random.own, shutil.own)\n")
    assert (ran.out, ran.err) == ("2 1\n", "")


def test_a_worker_that_fails_says_so_and_ends_the_run(project) -> None:
    project.write("torch/__init__.py", "pass\n")
    with pytest.raises(Exception, match="the worker failed: AttributeError"):
        project.run("import torch\nprint('goes on')\n")


def test_lines_are_counted_by_statement(project) -> None:
    script = """
import torch
weight = torch.nn.Parameter(
    torch.ones(1),
    requires_grad=True,
)
optimizer = torch.optim.SGD(
    [weight],
    lr=0.1,
)  # the end of a statement has no line of its own
def unused():
    return 1

# a comment goes with what follows
class Tool:
    @staticmethod
    def use(): return weight * 2
while True:
    Tool.use().sum().backward()
    optimizer.step()
    if False:
        unused()
"""
    asked = {2: 1, 4: 1, 6: 1, 10: 1, 12: 0, 14: 1, 17: 6, 18: 6, 20: 6, 22: 0}
    bounds = Bounds(steps=6, warmup=2, seconds=60)
    lines = {"train.py": frozenset(asked), "absent.py": frozenset({3})}
    reached = project.run(script, bounds=bounds, lines=lines).only.reached
    assert {line: bool(count) for line, count in reached["train.py"].items()} == {
        line: bool(count) for line, count in asked.items()
    }
    assert reached["train.py"][20] == 6
    assert reached["absent.py"] == {3: 0}


def test_another_tracer_is_left_alone(tmp_path) -> None:
    project, _ = with_sitecustomize(tmp_path, "import sys\nsys.settrace(lambda *_: None)\n")
    script = TOY + "import sys\nprint(sys.gettrace().__module__)\nstep()\n"
    ran = project.run(script, lines={"train.py": frozenset({4})})
    assert ran.out == "sitecustomize\n"


def test_a_library_that_writes_outside_of_python_is_asked_too(project, kept) -> None:
    project.write(
        "safetensors/__init__.py",
        """
        def serialize_file(tensors, filename, metadata=None):
            print("wrote", filename)
        """,
    )
    project.write("safetensors/torch.py", "from safetensors import serialize_file\n")
    ran = project.run(
        f"""
from safetensors.torch import serialize_file
serialize_file({{}}, "own.safetensors")
try:
    serialize_file({{}}, filename={str(kept)!r})
except PermissionError as error:
    print("refused", error.filename)
"""
    )
    assert ran.out == f"wrote own.safetensors\nrefused {kept}\n"


def test_a_module_is_run_with_its_relative_imports(project) -> None:
    project.write("package/__init__.py", "")
    project.write("package/tools.py", "def double(value):\n    return value * 2\n")
    script = TOY + "from .tools import double\nwhile True:\n    double(step())\n"
    project.write("package/train.py", script)
    record = project.run(
        "",
        command=(sys.executable, "-m", "package.train"),
        lines={"package/tools.py": frozenset({2}), "package/train.py": frozenset({14})},
    ).only
    assert record.reached == {"package/tools.py": {2: 5}, "package/train.py": {14: 6}}
    assert {str(project.copy / "package" / name) for name in ("tools.py", "train.py")} <= set(
        record.modules
    )
