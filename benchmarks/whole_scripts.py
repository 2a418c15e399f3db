"""The whole scripts that are measured, with arguments that make them train for long.

Those of ``fixtures/``, and public ones as their authors wrote them, on data that is made up.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIXTURES = Path(__file__).parents[1] / "fixtures"
LONG = ("--epochs", "100000")
# As large as the options of each allow: with the data they draw, these give whole batches.
LARGER = {
    "cnn_classifier": (*LONG, "--batch-size", "128"),
    "gan": (*LONG, "--batch_size", "128", "--img_size", "64"),
    "graph_net": LONG,
    "lstm_forecast": (*LONG, "--lookback", "168"),
    "transformer_lm": ("--epochs", "1000"),
}
PROOFS = ("--steps", "1000000")


@dataclass(frozen=True, slots=True)
class Script:
    """A script, the files that it is copied with, and how it is started.

    ``sources`` are copied from ``base`` to the same places below the copy, in whose ``folder`` the
    script is started by ``words``, or as ``module``.  ``prepare`` makes its data there.
    ``origin`` is the repository and commit of a public one.
    """

    name: str
    base: Path
    sources: tuple[str, ...]
    words: tuple[str, ...]
    folder: str = "."
    module: str | None = None
    prepare: Callable[[Path], None] = lambda _: None
    origin: str = ""

    @property
    def files(self) -> Iterator[Path]:
        """Every file that is copied."""
        for name in self.sources:
            source = self.base / name
            yield from sorted(source.rglob("*.py")) if source.is_dir() else (source,)

    def copy_to(self, root: Path) -> Path:
        """Copy it with its data; return the folder that it is started in."""
        for name in self.sources:
            source, target = self.base / name, root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy(source, target)
        self.prepare(root / self.folder)
        return root / self.folder


def scripts(public: Path | None, device: str) -> list[Script]:
    """Return the scripts of the fixtures, then those of ``public``, a folder of checkouts.

    Raises:
        FileNotFoundError: one of the public ones is not there.
        ValueError: one is not the version that its commit has.

    """
    return [*own_scripts(device), *(public_scripts(public, device) if public else ())]


def own_scripts(device: str) -> Iterator[Script]:
    """Yield those that come with the project."""
    for folder in ("scripts", "proofs"):
        for file in sorted((FIXTURES / folder).glob("*.py")):
            words = PROOFS
            if folder == "scripts":
                words = ("--device", "cpu", *LONG) if device == "cpu" else LARGER[file.stem]
            yield Script(file.stem, file.parent, (file.name,), (file.name, *words))


def public_scripts(folder: Path, device: str) -> Iterator[Script]:
    """Yield those that nobody here wrote; CONTRIBUTING.md says how the folder is made."""
    for public in PUBLIC:
        words = public.cpu if device == "cpu" else public.gpu
        if words is None:
            continue
        base = folder / public.checkout
        checked(base / public.folder / public.file, public.blob)
        start = words if public.module else (public.file, *words)
        yield Script(
            public.name, base, public.sources, start, public.folder, public.module, public.prepare,
            public.origin,
        )  # fmt: skip


def checked(file: Path, blob: str) -> None:
    """Make sure that a file is there, and is the one of the commit that is named.

    Raises:
        FileNotFoundError: it is not there.
        ValueError: it is another one, by git's own hash.

    """
    data = file.read_bytes()
    if sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() != blob:
        raise ValueError(f"{file}: not the version of the commit that whole_scripts.py names")


@dataclass(frozen=True, slots=True)
class Public:
    """A public script: where it is from, and its arguments on a GPU and on a CPU.

    ``blob`` is git's hash of the script's file.  None for arguments: it is left out there.
    """

    name: str
    origin: str
    checkout: str
    sources: tuple[str, ...]
    file: str
    blob: str
    gpu: tuple[str, ...] | None
    cpu: tuple[str, ...] | None
    folder: str = "."
    module: str | None = None
    prepare: Callable[[Path], None] = lambda _: None


def _random_tokens(folder: Path) -> None:
    """Write the token files of nanoGPT: 16-bit numbers below its vocabulary's size."""
    data = folder / "data" / "random"
    data.mkdir(parents=True)
    draw = random.Random(0)  # noqa: S311 - tokens to train on
    for name, count in (("train.bin", 1_000_000), ("val.bin", 100_000)):
        tokens = (draw.randrange(50_000).to_bytes(2, "little") for _ in range(count))
        (data / name).write_bytes(b"".join(tokens))


def _random_words(folder: Path) -> None:
    """Write the texts of the word language model: made-up words, as often as in a language."""
    data = folder / "data" / "wikitext-2"
    data.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)  # noqa: S311 - words to train on
    words = [f"w{k}" for k in range(2_000)]
    weights = [1 / (k + 1) for k in range(len(words))]
    for name, lines in (("train", 8_000), ("valid", 200), ("test", 200)):
        text = (" ".join(draw.choices(words, weights, k=20)) for _ in range(lines))
        (data / f"{name}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")


PUBLIC = (
    Public(
        name="nanoGPT",
        origin="karpathy/nanoGPT@3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
        checkout="nanoGPT",
        sources=("train.py", "model.py", "configurator.py"),
        file="train.py",
        blob="de5785051050d64bbda37a4964c2c079f0739b2b",
        gpu=tuple(
            """--dataset=random --compile=False --eval_interval=1000000 --eval_iters=2
            --batch_size=8 --block_size=256 --gradient_accumulation_steps=2 --n_layer=6 --n_head=6
            --n_embd=384 --max_iters=1000000""".split()
        ),
        cpu=tuple(
            """--dataset=random --compile=False --eval_interval=1000000 --eval_iters=1
            --device=cpu --batch_size=4 --block_size=16 --gradient_accumulation_steps=2 --n_layer=2
            --n_head=2 --n_embd=64 --max_iters=1000000""".split()
        ),
        prepare=_random_tokens,
    ),
    Public(
        name="word_language_model",
        origin="pytorch/examples@77f55b912142e11fcfdf5b530231fb9c52f181e8",
        checkout="examples",
        sources=tuple(f"word_language_model/{name}.py" for name in ("main", "data", "model")),
        file="main.py",
        blob="581b17cecd7d8008387c89f8e4b708dd33d88d01",
        gpu=("--accel", "--epochs", "1000"),
        cpu=("--epochs", "1000", "--emsize", "64", "--nhid", "64", "--batch_size", "8"),
        folder="word_language_model",
        prepare=_random_words,
    ),
    Public(
        name="tcn_adding_problem",
        origin="locuslab/TCN@2f8c2b817050206397458dfd1f5a25ce8a32fe65",
        checkout="TCN",
        sources=("TCN/tcn.py", "TCN/adding_problem"),
        file="add_test.py",
        blob="4d3d7008e49d3c6b4ed9ff82fb022f272193cf33",
        gpu=("--epochs", "1000"),
        # its --cuda means no GPU
        cpu=("--cuda", "--epochs", "1000", "--batch_size", "8", "--seq_len", "100",
             "--levels", "4"),
        folder="TCN/adding_problem",
    ),
    Public(
        name="tcn_copy_memory",
        origin="locuslab/TCN@2f8c2b817050206397458dfd1f5a25ce8a32fe65",
        checkout="TCN",
        sources=("TCN/tcn.py", "TCN/copy_memory"),
        file="copymem_test.py",
        blob="7a79695ebf274d2402dbecdf72c9c05e529b9fee",
        gpu=("--epochs", "1000"),
        cpu=("--cuda", "--epochs", "1000", "--batch_size", "8", "--blank_len", "100",
             "--levels", "4"),
        folder="TCN/copy_memory",
    ),
    Public(
        name="mingpt_adder",
        origin="karpathy/minGPT@37baab71b9abea1b76ab957409a1cc2fbfba8a26",
        checkout="minGPT",
        sources=("mingpt", "projects/adder/adder.py"),
        file="projects/adder/adder.py",
        blob="55f03ee1caf4290e86f5ce02570553a87caeee23",
        gpu=("--data.ndigit=3", "--trainer.max_iters=1000000"),
        cpu=("--data.ndigit=3", "--trainer.max_iters=1000000", "--trainer.device=cpu",
             "--trainer.num_workers=0", "--model.model_type=gpt-nano"),
        module="projects.adder.adder",
    ),
    Public(
        name="dcgan",
        origin="pytorch/examples@77f55b912142e11fcfdf5b530231fb9c52f181e8",
        checkout="examples",
        sources=("dcgan/main.py",),
        file="main.py",
        blob="b150174ca228175d8bc97dba6dbdb3791d55e32b",
        gpu=("--dataset", "fake", "--accel", "--batchSize", "128", "--workers", "4",
             "--niter", "1000"),
        cpu=None,  # it needs torchvision
        folder="dcgan",
    ),
)  # fmt: skip
