"""What public scripts get in place of what a bare machine lacks: made-up data, and small modules.

The modules are written beside the script, where Python finds them first, so that a script is the
same work on every machine.  They have just what the scripts of `whole_scripts` call.
"""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TIKTOKEN = '''\
"""A tokenizer without its vocabulary, which has to be downloaded: a number a word, by its hash."""
import zlib


class Encoding:
    n_vocab = 50257

    def encode(self, text, allowed_special=()):
        return [zlib.crc32(word.encode()) % self.n_vocab for word in text.split()]

    def decode(self, tokens):
        return " ".join(f"w{token}" for token in tokens)


def get_encoding(name):
    return Encoding()
'''

TQDM = '''\
"""No progress bar."""


def tqdm(iterable, *args, **options):
    return iterable
'''

YAML = '''\
"""Reads the part of YAML that is JSON."""
import json


class YAMLError(ValueError):
    pass


def safe_load(stream):
    return json.load(stream)
'''

PIL_IMAGE = '''\
"""Grey images of 28 x 28 pixels, kept as they are in memory."""
import numpy


def open(name):
    return numpy.fromfile(name, dtype=numpy.uint8).reshape(28, 28)
'''

TRANSFORMS = '''\
"""The transforms of arrays of (height, width, channels) and of tensors."""
import random

import numpy
import torch


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class RandomCrop:
    def __init__(self, size, padding):
        self.size, self.padding = size, padding

    def __call__(self, image):
        around = [(self.padding, self.padding)] * 2 + [(0, 0)]
        image = numpy.pad(image, around)
        top, left = (int(torch.randint(0, 2 * self.padding + 1, (1,))) for _ in range(2))
        return image[top : top + self.size, left : left + self.size]


class RandomHorizontalFlip:
    def __call__(self, image):
        return image[:, ::-1] if torch.rand(1) < 0.5 else image


class ToTensor:
    def __call__(self, image):
        image = image[:, :, None] if image.ndim == 2 else image
        image = torch.from_numpy(numpy.ascontiguousarray(image.transpose(2, 0, 1)))
        return image.to(torch.float32).div(255)


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = (torch.tensor(each).view(-1, 1, 1) for each in (mean, std))

    def __call__(self, image):
        return image.sub(self.mean).div_(self.std)
'''

DATASETS = '''\
"""Random images and classes, as many as the real data set has."""
import numpy
import torch


class _Images(torch.utils.data.Dataset):
    def __init__(self, count, size, transform):
        draw = numpy.random.default_rng(0)
        self.data = draw.integers(0, 256, (count, *size), dtype=numpy.uint8)
        self.targets = draw.integers(0, 10, count).tolist()
        self.transform = transform

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        image = self.data[index]
        return self.transform(image) if self.transform else image, self.targets[index]


class CIFAR10(_Images):
    def __init__(self, root, train=True, transform=None, download=False):
        super().__init__(50_000 if train else 10_000, (32, 32, 3), transform)


class FakeData(_Images):
    def __init__(self, size=1000, image_size=(3, 224, 224), transform=None):
        channels, height, width = image_size
        super().__init__(size, (height, width, channels), transform)
'''

UTILS = '''\
"""Images are written as tensors."""
import torch


def save_image(tensor, file, normalize=False):
    torch.save(tensor.detach().cpu(), file)
'''

STTY = """\
#!/bin/sh
echo 24 80
"""

TORCHVISION = {
    "torchvision/__init__.py": "from . import datasets, transforms, utils\n",
    "torchvision/datasets.py": DATASETS,
    "torchvision/transforms.py": TRANSFORMS,
    "torchvision/utils.py": UTILS,
}
MATPLOTLIB = {"matplotlib/__init__.py": "", "matplotlib/pyplot.py": ""}


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the modules and programs that stand in for others below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if name.startswith("bin/"):
            path.chmod(0o755)


def _draw() -> random.Random:
    return random.Random(0)  # noqa: S311 - something to train on


def random_tokens(folder: Path) -> None:
    """Write the token files of nanoGPT: 16-bit numbers below its vocabulary's size."""
    data = folder / "data" / "random"
    data.mkdir(parents=True)
    draw = _draw()
    for name, count in (("train.bin", 1_000_000), ("val.bin", 100_000)):
        tokens = (draw.randrange(50_000).to_bytes(2, "little") for _ in range(count))
        (data / name).write_bytes(b"".join(tokens))


def random_text(lines: int, words: int = 2_000) -> str:
    """Return lines of 20 made-up words, as often as words are in a language."""
    names = [f"w{k}" for k in range(words)]
    weights = [1 / (k + 1) for k in range(words)]
    drawn = _draw().choices(names, weights, k=20 * lines)
    return "".join(" ".join(drawn[k : k + 20]) + "\n" for k in range(0, len(drawn), 20))


def random_corpus(folder: Path) -> None:
    """Write the texts of the word language model."""
    data = folder / "data" / "wikitext-2"
    data.mkdir(parents=True, exist_ok=True)
    for name, lines in (("train", 24_000), ("valid", 200), ("test", 200)):
        (data / f"{name}.txt").write_text(random_text(lines, 10_000), encoding="utf-8")


def random_book(folder: Path) -> None:
    """Write the book of LLMs-from-scratch, of 1.8 MB, and a start with a small model."""
    (folder / "middlemarch.txt").write_text(random_text(19_000), encoding="utf-8")
    (folder / "small.py").write_text(SMALL_LLM, encoding="utf-8")


SMALL_LLM = '''\
"""Trains the model of 00_orig.py with few numbers."""
import importlib

if __name__ == "__main__":
    importlib.import_module("00_orig").main(
        {"vocab_size": 50257, "context_length": 64, "emb_dim": 32, "n_heads": 2, "n_layers": 2,
         "drop_rate": 0.1, "qkv_bias": False},
        {"learning_rate": 5e-4, "num_epochs": 1000, "batch_size": 4, "weight_decay": 0.1},
    )
'''


def random_characters(folder: Path) -> None:
    """Write the text of minGPT's chargpt: 1 MB; what it is asked to go on with occurs in it."""
    names = ["O", "God,", "God!", *(f"w{k}" for k in range(500))]
    text = " ".join(_draw().choices(names, k=220_000))
    (folder / "input.txt").write_text("O God, O God! " + text, encoding="utf-8")


def random_digits(folder: Path) -> None:
    """Write the images of DDPM-Pytorch, 10 classes of 1280, and its settings in two sizes."""
    draw = _draw()
    for digit in range(10):
        images = folder / "data" / "train" / "images" / str(digit)
        images.mkdir(parents=True)
        first = images / "0.png"
        first.write_bytes(draw.randbytes(784))
        for k in range(1, 1280):
            os.link(first, images / f"{k}.png")
    small = {
        "down_channels": [8, 16, 24, 32], "mid_channels": [32, 32, 24], "time_emb_dim": 16,
        "num_down_layers": 1, "num_mid_layers": 1, "num_up_layers": 1,
    }  # fmt: skip
    for name, model, batch in (("usual", {}, 64), ("small", small, 8)):
        settings = {
            "dataset_params": {"im_path": "data/train/images"},
            "diffusion_params": {"num_timesteps": 1000, "beta_start": 0.0001, "beta_end": 0.02},
            "model_params": {
                "im_channels": 1, "im_size": 28, "down_channels": [32, 64, 128, 256],
                "mid_channels": [256, 256, 128], "down_sample": [True, True, False],
                "time_emb_dim": 128, "num_down_layers": 2, "num_mid_layers": 2,
                "num_up_layers": 2, "num_heads": 4, **model,
            },
            "train_params": {
                "task_name": "out", "batch_size": batch, "num_epochs": 1000, "num_samples": 100,
                "num_grid_rows": 10, "lr": 0.0001, "ckpt_name": "ddpm.pth",
            },
        }  # fmt: skip
        (folder / f"{name}.yaml").write_text(json.dumps(settings), encoding="utf-8")
