"""The scripts that are measured: what is copied of them, and what is said of those not there."""

from __future__ import annotations

import runpy
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import stand_ins
import whole_scripts

if TYPE_CHECKING:
    from pathlib import Path

EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"  # git's hash of an empty file


def test_a_public_script_of_another_version_is_refused(tmp_path) -> None:
    file = tmp_path / "train.py"
    with pytest.raises(FileNotFoundError, match=r"no .*train\.py; CONTRIBUTING"):
        whole_scripts.checked(file, EMPTY)
    file.write_bytes(b"")
    whole_scripts.checked(file, EMPTY)
    file.write_bytes(b"x")
    with pytest.raises(ValueError, match="not the version"):
        whole_scripts.checked(file, EMPTY)


@pytest.fixture
def checkouts(tmp_path, monkeypatch) -> Path:
    """Return a folder with a checkout of each public script, of empty files."""
    empty = tuple(replace(public, blob=EMPTY) for public in whole_scripts.PUBLIC)
    monkeypatch.setattr(whole_scripts, "PUBLIC", empty)
    for public in empty:
        base = tmp_path / "checkouts" / public.checkout
        files = [base / name for name in public.sources if name.endswith(".py")]
        files += [base / name / "part.py" for name in public.sources if not name.endswith(".py")]
        for file in (*files, base / public.folder / public.file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    return tmp_path / "checkouts"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_script_is_copied_with_its_folders_data_and_stand_ins(
    tmp_path, checkouts, device
) -> None:
    found, missing = whole_scripts.scripts(checkouts, device)
    public = [script for script in found.values() if script.origin]
    assert len(public) + len(missing) == len(whole_scripts.PUBLIC)
    assert list(found.values())[: len(public)] == public  # they come first: people train them
    assert missing.keys() <= ({"pytorch_cifar"} if device == "cpu" else set())
    for script in public:
        root = tmp_path / script.name
        root.mkdir()
        folder = script.copy_to(root)
        names = {file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()}
        assert {file.relative_to(script.base).as_posix() for file in script.files} <= names
        assert all(any(name.endswith(own) for name in names) for own in script.stand_ins)
        assert all(file.stat().st_mode & 0o100 for file in root.glob("bin/*"))
        assert "@" in script.origin
        if script.module is None:
            start = folder / script.words[0]
            assert start.is_file()


def test_a_missing_checkout_costs_only_itself(tmp_path, checkouts) -> None:
    (checkouts / "nanoGPT").rename(tmp_path / "elsewhere")
    found, missing = whole_scripts.scripts(checkouts, "cuda")
    assert missing.keys() == {"nanoGPT"}
    assert {"clipping", "gan", "ddpm", "dcgan"} <= found.keys()


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_what_cannot_be_had_is_named_with_the_reason(tmp_path, folder) -> None:
    found, missing = whole_scripts.scripts(tmp_path / folder, "cpu")
    assert "clipping" in found
    assert missing.keys() == {public.name for public in whole_scripts.PUBLIC}
    assert "nanoGPT: there is no " in missing["nanoGPT"]
    assert "on a CPU" in missing["pytorch_cifar"]


def test_stand_ins_do_what_the_scripts_ask_of_them(tmp_path) -> None:
    files = {
        **stand_ins.TORCHVISION, **stand_ins.MATPLOTLIB, "tiktoken.py": stand_ins.TIKTOKEN,
        "tqdm.py": stand_ins.TQDM, "yaml.py": stand_ins.YAML, "PIL/__init__.py": "",
        "PIL/Image.py": stand_ins.PIL_IMAGE, "bin/stty": stand_ins.STTY,
    }  # fmt: skip
    stand_ins.write(tmp_path, files)
    (tmp_path / "x.png").write_bytes(bytes(784))
    (tmp_path / "use.py").write_text(USE)
    done = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    size = subprocess.run([tmp_path / "bin" / "stty"], capture_output=True, text=True, check=True)
    assert len(size.stdout.split()) == 2


USE = """
import io
import tiktoken, torch, torchvision, torchvision.transforms as transforms, yaml
import matplotlib.pyplot
from PIL import Image
from tqdm import tqdm
train = transforms.Compose([
    transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
    transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.25,) * 3)])
data = torchvision.datasets.CIFAR10("./data", train=False, download=True, transform=train)
image, label = data[len(data) - 1]
assert image.shape == (3, 32, 32) and image.dtype == torch.float32 and label in range(10)
fake = torchvision.datasets.FakeData(image_size=(3, 64, 64), transform=transforms.ToTensor())
image, _ = fake[0]
assert image.shape == (3, 64, 64) and 0 <= image.min() < image.max() <= 1
assert transforms.ToTensor()(Image.open("x.png")).shape == (1, 28, 28)
torchvision.utils.save_image(image, "image.png", normalize=True)
encoding = tiktoken.get_encoding("gpt2")
tokens = encoding.encode("a b a", allowed_special={"x"})
assert tokens[0] == tokens[2] != tokens[1] and max(tokens) < 50257
assert encoding.decode(tokens).split()[0] == f"w{tokens[0]}"
assert list(tqdm(range(2))) == [0, 1]
assert yaml.safe_load(io.StringIO('{"a": [1]}')) == {"a": [1]}
"""


def test_made_up_data_is_the_same_each_time(tmp_path) -> None:
    for make in (stand_ins.random_book, stand_ins.random_characters, stand_ins.random_digits):
        made = []
        for name in ("one", "two"):
            folder = tmp_path / make.__name__ / name
            folder.mkdir(parents=True)
            make(folder)
            files = sorted(file for file in folder.rglob("*") if file.is_file())
            made.append([(file.relative_to(folder), file.read_bytes()) for file in files])
        assert made[0] == made[1] != []
    text = (tmp_path / "random_characters" / "one" / "input.txt").read_text()
    assert set("O God, O God!") <= set(text)
    small = tmp_path / "random_book" / "one" / "small.py"
    assert runpy.run_path(str(small))  # it starts nothing when it is imported
