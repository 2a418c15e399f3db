"""Every run gets a fresh copy of the project, and the user's own tree stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
from executor_tools import SHARED, Place, place, sandbox, unchanged

from torchlint.errors import TorchlintError
from torchlint.verify import copying
from torchlint.verify.copying import Limits
from torchlint.verify.sandbox import Sandbox, Workspace, tree_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

both = pytest.mark.parametrize("way", ["overlay", "copy"])


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with place(monkeypatch) as made:
        yield made


def run(workspace: Workspace, code: str) -> str:
    """Run code in the project, as the executor runs scripts; return what it prints."""
    folder = (str(workspace.original),) if workspace.prefix else ()
    words = [*workspace.prefix, *folder, sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(words, cwd=workspace.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@both
def test_changed_files_are_in_the_copy_only(here: Place, way: str) -> None:
    here.write({"train.py": "old", "pkg/model.py": "old model", "pkg/data.py": "data"})
    (here.root / "train.py").chmod(0o750)
    files = {"train.py": b"new", "pkg/model.py": b"new model", "made/up.py": b"made"}
    read = "import os; print(*(open(f).read() for f in FILES), oct(os.stat('train.py').st_mode))"
    names = ["train.py", "pkg/model.py", "pkg/data.py", "made/up.py"]
    with unchanged(here.root), sandbox(here.root, way) as made, made.fresh(files) as workspace:
        shown = run(workspace, read.replace("FILES", repr(names)))
    assert shown == "new new model data made 0o100750"


@both
def test_each_run_begins_afresh(here: Place, way: str) -> None:
    here.write({"a.txt": "", "out/last.pt": "mine"})
    code = """
        import os
        print(sorted(os.listdir('.')), open('out/last.pt').read())
        open('out/last.pt', 'w').write('theirs')
        open('checkpoint.pt', 'w').write('theirs')
        os.remove('a.txt')
    """
    with unchanged(here.root), sandbox(here.root, way) as made:
        for _ in range(2):
            with made.fresh({}) as workspace:
                assert run(workspace, code) == "['a.txt', 'out'] mine"


@both
def test_the_user_stays_who_they_are(here: Place, way: str) -> None:
    with sandbox(here.root, way) as made, made.fresh({}) as workspace:
        assert run(workspace, "import os; print(os.getuid(), os.getgid())") == (
            f"{os.getuid()} {os.getgid()}"
        )


@both
def test_folders_that_nobody_may_enter_are_removed(here: Place, way: str) -> None:
    with sandbox(here.root, way) as made:
        with made.fresh({}) as workspace:
            run(workspace, "import os; os.makedirs('a/b'); open('a/b/c', 'w'); os.chmod('a', 0)")
        assert not workspace.folder.exists()


@both
def test_a_linked_folder_of_the_project_is_not_written_through(here: Place, way: str) -> None:
    outside = here.temporary.parent / "outside"
    outside.mkdir()
    (outside / "model.py").write_text("old")
    (outside / "other.py").write_text("other")
    (here.root / "lib").symlink_to(outside)
    with sandbox(here.root, way) as made, made.fresh({"lib/model.py": b"new"}) as workspace:
        read = "print(open('lib/model.py').read(), open('lib/other.py').read())"
        assert run(workspace, read) == "new other"
    assert (outside / "model.py").read_text() == "old"


def test_overlay_shows_the_project_at_its_own_path(here: Place) -> None:
    here.write({"a.py": ""})
    with sandbox(here.root, "overlay") as made, made.fresh({}) as workspace:
        assert workspace.root == here.root
        assert run(workspace, "import os; print(os.getcwd())") == str(here.root)
        assert workspace.moved(f"--out={here.root}/x") == f"--out={here.root}/x"


def test_no_overlay_where_a_path_cannot_be_told_to_the_kernel(here: Place) -> None:
    odd = here.root / "a,b"
    odd.mkdir()
    made = Sandbox(odd)
    made.close()
    assert made.way == "copy"


def test_the_temporary_folder_may_lie_in_the_project(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.write({"a.py": ""})
    (here.root / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(here.root / "tmp"))
    with sandbox(here.root, "copy") as made, made.fresh({}) as workspace:
        assert run(workspace, "import os; print(os.listdir('.'), os.listdir('tmp'))") == (
            "['a.py', 'tmp'] []"
        )
    assert Sandbox(here.root).close() is None


def test_a_copy_keeps_links_and_leaves_out_what_no_script_reads(here: Place) -> None:
    here.write(
        {
            "src/a.py": "a",
            "env/pyvenv.cfg": "",
            "env/bin/python": "",
            "__pycache__/a.pyc": "",
            "node_modules/x.js": "",
            "big.bin": b"x" * 2000,
            "big.pt": b"x" * 2000,
            "secret/a.txt": "",
        }
    )
    (here.root / "inside").symlink_to("src/a.py")
    (here.root / "absolute").symlink_to(here.root / "src")
    (here.root / "outside").symlink_to("../t")
    (here.root / "nowhere").symlink_to("gone")
    with (
        unchanged(here.root),
        sandbox(here.root, "copy", limits=Limits(linked=1000), exclude=["secret"]) as made,
        made.fresh({}) as workspace,
    ):
        root = workspace.root
        assert sorted(path.name for path in root.iterdir()) == (
            ["absolute", "big.bin", "big.pt", "inside", "nowhere", "outside", "src"]
        )
        links = {p.name: str(p.readlink()) for p in root.iterdir() if p.is_symlink()}
        assert links == {
            "absolute": str(root / "src"),
            "inside": "src/a.py",
            "outside": str(here.temporary),
            "nowhere": "gone",
            "big.bin": str(here.root / "big.bin"),
        }
        before = workspace.stamps()
        (root / "big.bin").write_bytes(b"y" * 2001)
        assert {name for name, *_ in before ^ workspace.stamps()} == {"big.bin"}
        (here.root / "big.bin").write_bytes(b"x" * 2000)


def test_folders_of_many_data_files_are_linked_in_one_that_is_not(here: Place) -> None:
    here.write({f"data/train/{i}.png": "" for i in range(20)})
    here.write({f"images/{i}.png": "" for i in range(20)})
    here.write({f"package/{i}.py": "" for i in range(20)})
    here.write({"data/index.txt": "i", "data/train/deep/a.png": ""})
    found = copying.survey(here.root, Limits(crowd=10))
    assert found.linked == ["data/train", "images"]
    assert len(found.files) == 21
    with (
        unchanged(here.root),
        sandbox(here.root, "copy", limits=Limits(crowd=10)) as made,
        made.fresh({}) as workspace,
    ):
        (workspace.root / "data" / "cache").write_text("new")
        assert len(list((workspace.root / "data" / "train").iterdir())) == 21


@pytest.mark.parametrize("limits", [Limits(total=1000), Limits(files=2)], ids=["bytes", "files"])
def test_too_large_a_project_names_the_place_and_the_remedy(here: Place, limits: Limits) -> None:
    here.write({"runs/a.pt": b"x" * 900, "runs/b.pt": b"x" * 900, "runs/c.py": "", "a.py": ""})
    with pytest.raises(TorchlintError, match=r"runs has .* --root, or .* --exclude"):
        Sandbox(here.root, try_overlay=False, limits=limits)


def test_what_lies_beside_the_project_lies_beside_its_copy(here: Place) -> None:
    data = here.root.parent / "data"
    data.mkdir()
    (data / "a.txt").write_text("mine")
    with sandbox(here.root, "copy") as made, made.fresh({}) as workspace:
        assert run(workspace, "print(open('../data/a.txt').read())") == "mine"
    assert (data / "a.txt").exists()


def test_a_repository_is_copied_without_its_objects(here: Place) -> None:
    here.write({"a.py": "a"})
    git = ["git", "-C", str(here.root), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    with (
        unchanged(here.root),
        sandbox(here.root, "copy") as made,
        made.fresh({"a.py": b"b"}) as workspace,
    ):
        inside = ["git", "-C", str(workspace.root)]
        seen = subprocess.run(
            [*inside, "log", "--format=%H"], check=True, capture_output=True, text=True
        )
        changed = subprocess.run(
            [*inside, "status", "--short"], check=True, capture_output=True, text=True
        )
    assert seen.stdout == head.stdout
    assert changed.stdout == " M a.py\n"


def test_words_below_the_project_lead_into_the_copy(here: Place) -> None:
    here.write({"train.py": "", ".venv/bin/python": ""})
    root = str(here.root)
    with sandbox(here.root, "copy") as made, made.fresh({}) as workspace:
        copy = str(workspace.root)
        words = {
            f"{root}/train.py": f"{copy}/train.py",
            f"--out={root}/new": f"--out={copy}/new",
            f"{root}/a:{root}:/b": f"{copy}/a:{copy}:/b",
            root: copy,
            f"{{'out': '{root}/new', 1: ['{root}']}}": f"{{'out': '{copy}/new', 1: ['{copy}']}}",
            f"{root}/": f"{copy}/",
            f"{root}/.venv/bin/python": f"{root}/.venv/bin/python",
            f"{root}er/train.py": f"{root}er/train.py",
            "train.py": "train.py",
            f"/x{root}/train.py": f"/x{root}/train.py",
        }
        assert {word: workspace.moved(word) for word in words} == words
        environment = workspace.environment({"PYTHONPATH": f"{root}/src", "A": "1"})
        assert environment["PYTHONPATH"] == f"{copy}/src"
        assert environment["A"] == "1"
        assert environment["TMPDIR"] == str(workspace.temporary)
        assert not environment["TORCHINDUCTOR_CACHE_DIR"].startswith(str(workspace.folder))


def test_a_full_disk_is_said_before_and_while_copying(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.write({"a.py": ""})
    with sandbox(here.root, "copy") as made:
        with monkeypatch.context() as full:
            full.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 1 << 20))
            with pytest.raises(TorchlintError, match=r"MiB are free.*TMPDIR"), made.fresh({}):
                pass

        def no_space(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(shutil, "copy2", no_space)
            with pytest.raises(TorchlintError, match=r"no space is left.*TMPDIR"), made.fresh({}):
                pass
        assert [path.name for path in made.session.folder.iterdir()] == ["owner"]


def harness(here: Place, way: str) -> subprocess.Popen[str]:
    """Start a process that keeps a run alive, whose script left its session, and wait for it."""
    code = f"""
        import pathlib, subprocess, sys, tempfile, time
        tempfile.tempdir = {str(here.temporary)!r}
        from torchlint.verify.process import launch
        from torchlint.verify.sandbox import Sandbox
        made = Sandbox(pathlib.Path({str(here.root)!r}), try_overlay={way == "overlay"})
        with made.fresh({{}}) as space:
            import os
            folder = (str(space.root),) if space.prefix else ()
            script = "import os, time; os.fork() and os._exit(0); os.setsid(); " \\
                "held = open('/dev/shm/psm_tlt{here.mark[:8]}', 'w'); " \\
                "open('checkpoint', 'w').close(); time.sleep(60)"
            words = (*space.prefix, *folder, sys.executable, "-c", script)
            launch(words, space.root, dict(os.environ), space.folder / "plan.json").wait(
                time.monotonic() + 60)
            print(made.way, flush=True)
            time.sleep(60)
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=here.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@both
def test_what_a_killed_harness_left_is_swept_and_a_live_one_is_left_alone(
    here: Place, way: str
) -> None:
    with unchanged(here.root), harness(here, way) as other:
        assert other.stdout is not None
        made = other.stdout.readline().strip()
        shared = SHARED / f"psm_tlt{here.mark[:8]}"
        until(shared.exists)
        Sandbox(here.root).close()
        assert len(list(here.temporary.iterdir())) == 1
        assert len(here.processes()) == 2
        other.kill()
        other.wait()
        assert len(here.processes()) == 1
        Sandbox(here.root).close()
        assert here.processes() == []
        assert list(here.temporary.iterdir()) == []
        assert not shared.exists()
    if made != way:
        pytest.skip("this system allows no overlay file system in a user namespace")


def until(question) -> None:
    deadline = time.monotonic() + 30
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_folders_of_others_and_new_ones_without_an_owner_are_left(here: Place) -> None:
    new = here.temporary / "torchlint-verify-new"
    old = here.temporary / "torchlint-verify-old"
    other = here.temporary / "torchlint-verifier"
    for folder in (new, old, other):
        folder.mkdir()
    os.utime(old, (0, 0))
    Sandbox(here.root).close()
    assert sorted(here.temporary.iterdir()) == [other, new]
    new.rmdir()
    other.rmdir()


def test_tree_hash_sees_names_modes_contents_and_links(here: Place) -> None:
    here.write({"a": "1", "b/c": "2"})
    seen = {tree_hash(here.root)}
    (here.root / "a").write_text("3")
    seen.add(tree_hash(here.root))
    (here.root / "a").chmod(0o700)
    seen.add(tree_hash(here.root))
    (here.root / "a").rename(here.root / "d")
    seen.add(tree_hash(here.root))
    (here.root / "e").symlink_to("d")
    seen.add(tree_hash(here.root))
    (here.root / "f").mkdir()
    seen.add(tree_hash(here.root))
    assert len(seen) == 6
