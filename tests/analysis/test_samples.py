"""What a dataset does to give one sample."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from probing import parsed, probed

from torchlint.analysis.project import Project
from torchlint.analysis.samples import (
    collate_work,
    goes_on_by_itself,
    keeps_handle,
    keeps_state,
    work,
)
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
import cv2, h5py, json, lmdb, os, torch
import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets, transforms
"""


def of_class(body: str, made: str = "Own(files)", init: str = "self.files = files") -> str:
    """Return a probe of a dataset with such a ``__getitem__``."""
    body = textwrap.indent(textwrap.dedent(body), " " * 8)
    return (
        f"class Own(Dataset):\n    def __init__(self, files, transform=None):\n        {init}\n"
        f"        self.transform = transform\n    def __getitem__(self, i):\n{body}\nprobe({made})"
    )


def cost(source: str) -> str:
    program = parsed(source, HEAD)
    (one,) = program.datasets.of(probed(program))
    return work(one)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("probe(datasets.MNIST('x'))", "torchvision.datasets.MNIST", id="torchvision"),
        pytest.param(
            "class Own(datasets.ImageFolder): pass\nprobe(Own())",
            "torchvision.datasets.ImageFolder",
            id="an heir of torchvision's",
        ),
        pytest.param(
            of_class("return Image.open(self.files[i])"), "Image.open(self.files[i])", id="opens"
        ),
        pytest.param(of_class("return np.load(self.files[i])"), "np.load(self.files[i])", id="np"),
        pytest.param(of_class("with open(x) as f:\n    return f"), "open(x)", id="the builtin"),
        pytest.param(of_class("return cv2.resize(x, s)"), "cv2.resize(x, s)", id="a library"),
        pytest.param(
            of_class("return tokenizer(self.files[i])"), "tokenizer(self.files[i])", id="tokens"
        ),
        pytest.param(
            of_class("return self.tokenizer.encode(x)"), "self.tokenizer.encode(x)", id="encoded"
        ),
        pytest.param(
            "from nltk.tokenize import word_tokenize\n" + of_class("return word_tokenize(x)"),
            "word_tokenize(x)",
            id="words of a text",
        ),
        pytest.param(
            of_class("return self.transform(x)", made="Own(f, transforms.ToTensor())"),
            "self.transform(x)",
            id="a transform that is given",
        ),
        pytest.param(
            of_class("return read(i)") + "\ndef read(i): return json.load(i)",
            "json.load(i)",
            id="in a function",
        ),
        pytest.param(
            of_class("return self.read(i)\ndef read(self, i):\n    return torch.load(i)").replace(
                "        def read", "    def read"
            ),
            "torch.load(i)",
            id="in a method",
        ),
    ],
)
def test_work(source: str, expected: str) -> None:
    assert cost(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("probe(TensorDataset(x))", id="tensors"),
        pytest.param("probe([1])", id="a list"),
        pytest.param(of_class("return self.files[i]"), id="an item"),
        pytest.param(of_class("return torch.tensor(self.files[i])"), id="a tensor of an item"),
        pytest.param(of_class("return np.array(self.files[i])"), id="an array of an item"),
        pytest.param(
            of_class("return self.transform(x) if self.transform else x"), id="no transform"
        ),
        pytest.param(
            of_class("return self.transform(x)", made="Own(f, None)"), id="None for a transform"
        ),
        pytest.param(
            of_class("return self.files[i]", init="self.files = [Image.open(f) for f in files]"),
            id="read beforehand",
        ),
    ],
)
def test_no_work(source: str) -> None:
    assert cost(source) == ""


def of_heir(init: str, made: str, loader: str = "read") -> str:
    """Return a probe of a dataset whose base keeps what it is handed on."""
    return (
        "def read(path): return open(path)\n"
        "def first(path): return path[0]\n"
        "class Base(Dataset):\n"
        "    def __init__(self, files, loader, transform=None):\n"
        "        self.files, self.loader = files, loader\n"
        "        self.load = loader\n"
        "        self.transform = transform\n"
        "    def __getitem__(self, i):\n"
        "        x = self.load(self.files[i])\n"
        "        return self.transform(x) if self.transform else x\n"
        "class Own(Base):\n"
        f"    def __init__(self, files, transform=None, loader={loader}, **more):\n"
        f"        {init}\n"
        f"probe({made})"
    )


HANDS_ON = "super().__init__(files, loader, transform=transform)"


@pytest.mark.parametrize(
    ("init", "made", "loader", "expected"),
    [
        pytest.param(HANDS_ON, "Own(f)", "read", "open(path)", id="by default"),
        pytest.param(HANDS_ON, "Own(f, loader=read)", "first", "open(path)", id="passed"),
        pytest.param(HANDS_ON, "Own(f)", "np.load", "self.load(self.files[i])", id="a library's"),
        pytest.param(HANDS_ON, "Own(f, t)", "first", "self.transform(x)", id="transforms"),
        pytest.param(
            "super(Own, self).__init__(files, loader, transform)",
            "Own(f, t)",
            "first",
            "self.transform(x)",
            id="by the class",
        ),
        pytest.param(
            "Base.__init__(self, files, loader, transform)",
            "Own(f, t)",
            "first",
            "self.transform(x)",
            id="by the name of the base",
        ),
        pytest.param(
            "super().__init__(files, first, t)", "Own(f)", "read", "self.transform(x)", id="its own"
        ),
        pytest.param(HANDS_ON, "Own(f)", "first", "", id="cheap"),
        pytest.param(HANDS_ON, "Own(f, loader=first)", "read", "", id="passed a cheap one"),
        pytest.param(HANDS_ON, "Own(f, loader=other)", "read", "", id="passed an unknown one"),
        pytest.param(
            "super().__init__(files, first)", "Own(f, t)", "read", "", id="it is not handed on"
        ),
        pytest.param(
            "Other.__init__(self, files, loader, transform)", "Own(f, t)", "read", "", id="another"
        ),
        pytest.param("pass", "Own(f, t)", "read", "", id="nothing is handed on"),
    ],
)
def test_work_that_a_base_is_handed(init: str, made: str, loader: str, expected: str) -> None:
    assert cost(of_heir(init, made, loader)) == expected


@pytest.mark.parametrize(
    ("params", "given", "made", "expected"),
    [
        ("files, **more", "files, first, **more", "Own(f, transform=t)", "self.transform(x)"),
        ("*args, **more", "*args, **more", "Own(f, first, t)", "self.transform(x)"),
        ("*args, **more", "*args, **more", "Own(f, read)", "open(path)"),
        ("files, **more", "files, first, **more", "Own(f, other=t)", ""),
        ("files, transform, **more", "files, first, **more", "Own(f, transform=t)", ""),
        ("files, transform", "files, first", "Own(f, transform=t)", ""),
        ("*args, **more", "*args, **more", "Own(f, first)", ""),
    ],
)
def test_work_that_stars_hand_on(params: str, given: str, made: str, expected: str) -> None:
    source = of_heir(f"super().__init__({given})", made)
    old = "self, files, transform=None, loader=read, **more"
    assert cost(source.replace(old, f"self, {params}")) == expected


def test_work_that_a_function_around_is_passed() -> None:
    source = of_heir("super().__init__(*args, **more)", "Own(f, first, transform)")
    old = "self, files, transform=None, loader=read, **more"
    source = source.replace(old, "self, *args, **more")
    before, _, made = source.rpartition("probe(")
    source = f"{before}def make(f, transform=None): probe({made}\nmake(f, t)"
    assert cost(source) == "self.transform(x)"


@pytest.mark.parametrize(
    ("collate", "expected"),
    [
        ("def collate(b): return tokenizer.pad(b)", "tokenizer.pad(b)"),
        ("def collate(b): return torch.stack(b)", ""),
        ("collate = lambda b: tokenizer.pad(b)", "tokenizer.pad(b)"),
        ("from other import collate", ""),
    ],
)
def test_work_of_collate_fn(collate: str, expected: str) -> None:
    program = parsed(f"{collate}\nDataLoader(d, collate_fn=collate)", HEAD)
    assert collate_work(program, program.loaders.calls[0]) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.cache[i] = x\nreturn x", True),
        ("self.count += 1\nreturn x", True),
        ("self.seen.append(i)\nreturn x", True),
        ("self.rng, y = x\nreturn y", True),
        ("x = self.cache[i]\nreturn x", False),
        ("x[i] = self.cache\nreturn x", False),
        ("return self.files.index(i)", False),
    ],
)
def test_state(body: str, expected: bool) -> None:
    program = parsed(of_class(body), HEAD)
    (one,) = program.datasets.of(probed(program))
    assert keeps_state(one) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("self.n += 1\nreturn self.files[self.n]", True, id="a cursor"),
        pytest.param("return self.more()", True, id="in another method"),
        pytest.param("self.n += 1\nreturn self.files[i]", False, id="only a number of samples"),
        pytest.param("n = 0\nn += 1\nreturn self.files[n]", False, id="counted for one sample"),
        pytest.param("return self.files[self.n]", False, id="the same one each time"),
        pytest.param("return self.__getitem__(i + 1)", False, id="the next one instead"),
    ],
)
def test_a_dataset_that_counts_on(body: str, expected: bool) -> None:
    more = "    def more(self):\n        self.n += 1\n        return self.files[self.n]\n"
    program = parsed(
        of_class(body).replace("    def __getitem__", f"{more}    def __getitem__"), HEAD
    )
    (one,) = program.datasets.of(probed(program))
    assert goes_on_by_itself(one) is expected


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ("self.f = h5py.File(files)", "h5py.File(files)"),
        ("self.f = open(files)", "open(files)"),
        ("self.f = h5py.File(files)['x']", "h5py.File(files)"),
        ("self.f = [h5py.File(one) for one in files]", "h5py.File(one)"),
        ("env = lmdb.open(files)\n        self.f = env", "lmdb.open(files)"),
        ("self.open()", "lmdb.open(self.files)"),
        ("self.f = Reader(files)", "open(files)"),
        ("self.f = json.load(open(files))", ""),
        ("self.f = h5py.File(files)['x'][:]", ""),
        ("self.f = files", ""),
    ],
)
def test_handles(init: str, expected: str) -> None:
    opens = "    def open(self):\n        self.f = lmdb.open(self.files)\nprobe("
    reader = "class Reader:\n    def __init__(self, files):\n        self.f = open(files)\n"
    source = reader + of_class("return self.f[i]", init=init).replace("probe(", opens)
    program = parsed(source, HEAD)
    (one,) = program.datasets.of(probed(program))
    assert keeps_handle(one) == expected


def test_a_handle_of_each_worker() -> None:
    source = of_class("if self.f is None:\n    self.open()\nreturn self.f[i]", init="self.f = None")
    opens = "    def open(self):\n        self.f = lmdb.open(self.files)\nprobe("
    program = parsed(source.replace("probe(", opens), HEAD)
    (one,) = program.datasets.of(probed(program))
    assert keeps_handle(one) == ""


@pytest.mark.parametrize(
    "source",
    [
        "probe(datasets.LSUN('d'))",
        "class Rooms(datasets.LSUN):\n    pass\nprobe(Rooms('d'))",
    ],
)
def test_a_library_keeps_its_file_open(source: str) -> None:
    program = parsed(source, HEAD)
    (one,) = program.datasets.of(probed(program))
    assert keeps_handle(one) == "torchvision.datasets.LSUN"


TURNS = "def collate(b):\n    rows = []\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("for i in range(len(b)): rows.append(b[i])", "", id="through the samples"),
        pytest.param(
            "for x in b:\n        for i in range(len(x)): rows[i].append(x[i])",
            "",
            id="through the fields of each",
        ),
        pytest.param(
            "for x in b:\n        for i in range(3): rows[i].append(x[i])",
            "",
            id="of a fixed number",
        ),
        pytest.param(
            "for k in range(9): rows += [b[i] for i in range(k)]", "", id="a number counted off"
        ),
        pytest.param(
            "for k, x in enumerate(b): rows += [x for _ in range(k)]", "", id="the place of each"
        ),
        pytest.param("for n in b: rows.append(torch.arange(n))", "", id="torch counts"),
        pytest.param("for n in b: rows.append(range(n))", "", id="no loop"),
        pytest.param("n = len(b)\n    rows = [b[i] for i in range(n)]", "", id="of no loop"),
        pytest.param(
            "for n in b: rows.append([i + 1 for i in range(int(n))])",
            "[i + 1 for i in range(int(n))]",
            id="as long as each sample",
        ),
        pytest.param(
            "for x in b:\n        for i in range(x.size(0)): rows.append(i)",
            "range(x.size(0))",
            id="through its elements",
        ),
        pytest.param(
            "return [[0 for _ in range(most - n)] for n in b]",
            "[0 for _ in range(most - n)]",
            id="what is left of each",
        ),
        pytest.param("return other(b)", "[i for i in range(n)]", id="in another function"),
    ],
)
def test_what_a_collate_fn_counts_off(lines: str, expected: str) -> None:
    other = "def other(b): return [[i for i in range(n)] for n in b]\n"
    program = parsed(f"{other}{TURNS}    {lines}\nDataLoader(d, collate_fn=collate)", HEAD)
    assert collate_work(program, program.loaders.calls[0]) == expected


def test_what_a_collate_fn_counts_off_in_another_file(tmp_path: Path) -> None:
    files = {
        "requirements.txt": "",
        "main.py": "from pads import collate\nfrom torch.utils.data import DataLoader\n"
        "DataLoader(d, collate_fn=collate)",
        "pads.py": "from more import pad\ndef collate(b): return pad(b)\n",
        "more.py": "def pad(b): return [[i for i in range(n)] for n in b]\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "main.py"))
    assert program is not None
    assert collate_work(program, program.loaders.calls[0]) == "[i for i in range(n)]"
