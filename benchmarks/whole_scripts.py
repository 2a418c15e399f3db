"""The whole scripts that are measured, with arguments of a size that a person would train.

Public ones, as their authors wrote them, on data that is made up (`stand_ins`), and those of
``fixtures/``.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING

import stand_ins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
SMALL = "small.py"  # starts a script whose numbers are not arguments with smaller ones


@dataclass(frozen=True, slots=True)
class Script:
    """A script, the files that it is copied with, and how it is started.

    ``sources`` are copied from ``base`` to the same places below the copy, in whose ``folder`` the
    script is started by ``words``, or as ``module``.  ``prepare`` makes its data there, beside
    ``stand_ins``, the texts of modules and programs that a bare machine lacks.  ``origin`` is the
    repository and commit of a public one.
    """

    name: str
    base: Path
    sources: tuple[str, ...]
    words: tuple[str, ...]
    folder: str = "."
    module: str | None = None
    prepare: Callable[[Path], None] = lambda _: None
    origin: str = ""
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> Iterator[Path]:
        """Every Python file that is copied."""
        for name in self.sources:
            source = self.base / name
            yield from sorted(source.rglob("*.py")) if source.is_dir() else (source,)

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """Yield the names and the bytes of all that it runs."""
        for file in self.files:
            yield file.relative_to(self.base).as_posix(), file.read_bytes()
        for name, text in self.stand_ins.items():
            yield f"{name} (stand-in)", text.encode()

    def copy_to(self, root: Path) -> Path:
        """Copy it with its data; return the folder that it is started in."""
        for name in self.sources:
            source, target = self.base / name, root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, copy_function=shutil.copy)
            else:
                shutil.copy(source, target)
        programs = {name: text for name, text in self.stand_ins.items() if name.startswith("bin/")}
        modules = {name: text for name, text in self.stand_ins.items() if name not in programs}
        stand_ins.write(root, programs)
        stand_ins.write(root / self.folder, modules)
        self.prepare(root / self.folder)
        return root / self.folder


def scripts(public: Path | None, device: str) -> tuple[dict[str, Script], dict[str, str]]:
    """Return the scripts by name, those of ``public`` first, a folder of checkouts.

    With them, what is said of each that cannot be had, by its name.
    """
    found: dict[str, Script] = {}
    missing: dict[str, str] = {}
    for one in PUBLIC if public else ():
        if (one.cpu if device == "cpu" else one.gpu) is None:
            missing[one.name] = f"{one.name}: {one.why}"
            continue
        try:
            found[one.name] = one.script(Path(public or "."), device)
        except (OSError, ValueError) as error:
            missing[one.name] = f"{one.name}: {error}"
    return found | {one.name: one for one in own_scripts(device)}, missing


def own_scripts(device: str) -> Iterator[Script]:
    """Yield those that come with the project."""
    for folder in ("scripts", "proofs"):
        for file in sorted((FIXTURES / folder).glob("*.py")):
            words = PROOFS
            if folder == "scripts":
                words = ("--device", "cpu", *LONG) if device == "cpu" else LARGER[file.stem]
            yield Script(file.stem, file.parent, (file.name,), (file.name, *words))


def checked(file: Path, blob: str) -> None:
    """Make sure that a file is there, and is the one of the commit that is named.

    Raises:
        FileNotFoundError: it is not there.
        ValueError: it is another one, by git's own hash.

    """
    if not file.is_file():
        raise FileNotFoundError(f"there is no {file}; CONTRIBUTING.md says how it is checked out")
    data = file.read_bytes()
    if sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() != blob:
        raise ValueError(f"{file}: not the version of the commit that whole_scripts.py names")


@dataclass(frozen=True, slots=True)
class Public:
    """A public script: where it is from, and its arguments on a GPU and on a CPU.

    ``blob`` is git's hash of the script's file.  None for arguments: it is left out there, and
    ``why`` says so.
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
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    why: str = ""

    def script(self, folder: Path, device: str) -> Script:
        """Return the script of a folder of checkouts, with its arguments for a device.

        Raises:
            FileNotFoundError: it is not there.
            ValueError: it is not the version that its commit has.

        """
        base = folder / self.checkout
        checked(base / self.folder / self.file, self.blob)
        words = (self.cpu if device == "cpu" else self.gpu) or ()
        start = words if self.module or words[:1] == (SMALL,) else (self.file, *words)
        return Script(
            self.name, base, self.sources, start, self.folder, self.module, self.prepare,
            self.origin, self.stand_ins,
        )  # fmt: skip


PUBLIC = (
    Public(
        name="llms_from_scratch",
        origin="rasbt/LLMs-from-scratch@28c65cdfbc3338e2e040016eea4b7fdf556e4d57",
        checkout="LLMs-from-scratch",
        sources=("ch05/10_llm-training-speed/00_orig.py",),
        file="00_orig.py",
        blob="b0f4e8d88271e9822fb724dc7c2c36d8e2b6e22d",
        gpu=(),  # GPT-2 of 124 M parameters
        cpu=(SMALL,),
        folder="ch05/10_llm-training-speed",
        prepare=stand_ins.random_book,
        stand_ins={"tiktoken.py": stand_ins.TIKTOKEN, **stand_ins.MATPLOTLIB},
    ),
    Public(
        name="ddpm",
        origin="explainingai-code/DDPM-Pytorch@b524321c101af13f28a5d1f4fbcca1a847c19924",
        checkout="DDPM-Pytorch",
        sources=("tools", "dataset", "models", "scheduler"),
        file="tools/train_ddpm.py",
        blob="21611a4b5e8f96c8e75c6e3332f5074ccc11eb0b",
        gpu=("--config", "usual.yaml"),
        cpu=("--config", "small.yaml"),
        module="tools.train_ddpm",
        prepare=stand_ins.random_digits,
        stand_ins={
            **stand_ins.TORCHVISION, "PIL/__init__.py": "", "PIL/Image.py": stand_ins.PIL_IMAGE,
            "yaml.py": stand_ins.YAML, "tqdm.py": stand_ins.TQDM,
        },
    ),
    Public(
        name="pytorch_cifar",
        origin="kuangliu/pytorch-cifar@49b7aa97b0c12fe0d4054e670403a16b6b834ddd",
        checkout="pytorch-cifar",
        sources=("main.py", "utils.py", "models"),
        file="main.py",
        blob="05ca1eb9076ba7c4fa405001a4aebc834f2c27a2",
        gpu=(),
        cpu=None,
        stand_ins={**stand_ins.TORCHVISION, "bin/stty": stand_ins.STTY},
        why="a step takes many seconds on a CPU, and no argument makes it smaller",
    ),
    Public(
        name="nanoGPT",
        origin="karpathy/nanoGPT@3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
        checkout="nanoGPT",
        sources=("train.py", "model.py", "configurator.py"),
        file="train.py",
        blob="de5785051050d64bbda37a4964c2c079f0739b2b",
        gpu=tuple(
            """--dataset=random --compile=False --eval_interval=1000000 --eval_iters=2
            --batch_size=12 --block_size=1024 --gradient_accumulation_steps=4 --n_layer=12
            --n_head=12 --n_embd=768 --max_iters=1000000""".split()
        ),
        cpu=tuple(
            """--dataset=random --compile=False --eval_interval=1000000 --eval_iters=1
            --device=cpu --batch_size=4 --block_size=16 --gradient_accumulation_steps=2 --n_layer=2
            --n_head=2 --n_embd=64 --max_iters=1000000""".split()
        ),
        prepare=stand_ins.random_tokens,
    ),
    Public(
        name="word_language_model",
        origin="pytorch/examples@77f55b912142e11fcfdf5b530231fb9c52f181e8",
        checkout="examples",
        sources=tuple(f"word_language_model/{name}.py" for name in ("main", "data", "model")),
        file="main.py",
        blob="581b17cecd7d8008387c89f8e4b708dd33d88d01",
        # the large model of its README, with three times its batch
        gpu=("--accel", "--epochs", "1000", "--emsize", "1500", "--nhid", "1500",
             "--dropout", "0.65", "--tied", "--batch_size", "64"),
        cpu=("--epochs", "1000", "--emsize", "64", "--nhid", "64", "--batch_size", "8"),
        folder="word_language_model",
        prepare=stand_ins.random_corpus,
    ),
    Public(
        name="tcn_adding_problem",
        origin="locuslab/TCN@2f8c2b817050206397458dfd1f5a25ce8a32fe65",
        checkout="TCN",
        sources=("TCN/tcn.py", "TCN/adding_problem"),
        file="add_test.py",
        blob="4d3d7008e49d3c6b4ed9ff82fb022f272193cf33",
        gpu=("--epochs", "1000", "--batch_size", "128", "--seq_len", "600", "--nhid", "128"),
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
        gpu=("--epochs", "1000", "--batch_size", "128", "--nhid", "128"),
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
        gpu=("--data.ndigit=3", "--trainer.max_iters=1000000", "--model.model_type=gpt-mini",
             "--trainer.batch_size=1024"),
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
        gpu=("--dataset", "fake", "--accel", "--batchSize", "128", "--workers", "8",
             "--niter", "1000"),
        cpu=("--dataset", "fake", "--batchSize", "8", "--ngf", "8", "--ndf", "8",
             "--workers", "1", "--niter", "1000"),
        folder="dcgan",
        stand_ins=stand_ins.TORCHVISION,
    ),
    Public(
        name="mingpt_chargpt",
        origin="karpathy/minGPT@37baab71b9abea1b76ab957409a1cc2fbfba8a26",
        checkout="minGPT",
        sources=("mingpt", "projects/chargpt/chargpt.py"),
        file="projects/chargpt/chargpt.py",
        blob="5de925b06f4d6062a289cb24fe945e0f8a2119db",
        gpu=("--model.model_type=gpt2", "--data.block_size=512", "--trainer.batch_size=32",
             "--trainer.max_iters=1000000"),
        cpu=("--model.model_type=gpt-nano", "--trainer.batch_size=4", "--trainer.num_workers=0",
             "--trainer.device=cpu", "--trainer.max_iters=1000000"),
        module="projects.chargpt.chargpt",
        prepare=stand_ins.random_characters,
    ),
)  # fmt: skip
