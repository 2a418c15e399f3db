"""The whole scripts that are measured on a GPU, with arguments that make them train for long."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
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
    "clipping": ("--steps", "1000000"),
    "curve_fit": ("--steps", "1000000"),
    "mixed_precision": ("--steps", "1000000"),
}
NANO_GPT = tuple(
    """--dataset=random --compile=False --eval_interval=1000000 --eval_iters=2 --batch_size=8
    --block_size=256 --gradient_accumulation_steps=2 --n_layer=6 --n_head=6 --n_embd=384
    --max_iters=1000000""".split()
)
DCGAN = ("--dataset", "fake", "--accel", "--batchSize", "128", "--workers", "4", "--niter", "1000")


@dataclass(frozen=True, slots=True)
class Script:
    """A script, the folder that it is copied with, and how it is started from there.

    ``prepare`` makes its data in the copy.
    """

    name: str
    sources: tuple[Path, ...]
    words: tuple[str, ...]
    prepare: Callable[[Path], None] = lambda _: None

    def copy_to(self, folder: Path) -> None:
        """Copy it with its data."""
        for source in self.sources:
            if source.is_dir():
                shutil.copytree(source, folder / source.name)
            else:
                shutil.copy(source, folder)
        self.prepare(folder)


def scripts(public: Path | None) -> list[Script]:
    """Return the scripts of the fixtures, then those of ``public``, a folder of checkouts.

    Raises:
        FileNotFoundError: one of the public ones is not there.

    """
    return [*own_scripts(), *(public_scripts(public) if public else ())]


def own_scripts() -> Iterator[Script]:
    """Yield those that come with the project."""
    for folder in ("scripts", "proofs"):
        for file in sorted((FIXTURES / folder).glob("*.py")):
            yield Script(file.stem, (file,), (file.name, *LARGER[file.stem]))


def public_scripts(folder: Path) -> Iterator[Script]:
    """Yield those that nobody here wrote; CONTRIBUTING.md says how the folder is made."""
    nano, dcgan = folder / "nanoGPT", folder / "examples" / "dcgan"
    files = tuple(nano / name for name in ("train.py", "model.py", "configurator.py"))
    for file in (*files, dcgan / "main.py"):
        if not file.is_file():
            raise FileNotFoundError(file)
    yield Script("nanoGPT", files, ("train.py", *NANO_GPT), _random_tokens)
    yield Script("dcgan", (dcgan / "main.py",), ("main.py", *DCGAN))


def _random_tokens(folder: Path) -> None:
    """Write the token files of nanoGPT: 16-bit numbers below its vocabulary's size."""
    data = folder / "data" / "random"
    data.mkdir(parents=True)
    draw = random.Random(0)  # noqa: S311 - tokens to train on
    for name, count in (("train.bin", 1_000_000), ("val.bin", 100_000)):
        tokens = (draw.randrange(50_000).to_bytes(2, "little") for _ in range(count))
        (data / name).write_bytes(b"".join(tokens))
