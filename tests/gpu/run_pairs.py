"""Run pairs of fixtures in one process: ``python run_pairs.py FOLDER OUTPUT SECONDS PAIR...``.

For each pair a file in OUTPUT holds what ``run()`` gave before, before once more, and after, as
soon as it is there; or ``PAIR.txt`` holds a traceback.  A pair that takes longer ends the process.
"""

from __future__ import annotations

import faulthandler
import importlib
import sys
import traceback
import warnings
from pathlib import Path

import torch


def run(pair: str) -> tuple[object, object, object]:
    try:
        before = importlib.import_module(f"{pair}.before")
        first, again = before.run(), before.run()
        return first, again, importlib.import_module(f"{pair}.after").run()
    finally:  # a script may choose for the whole process
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.benchmark = False


def save(pair: str, output: Path, seconds: float) -> None:
    with (output / f"{pair}.txt").open("w") as told:
        faulthandler.dump_traceback_later(seconds, exit=True, file=told)
        try:
            torch.save(run(pair), output / "part")
        except Exception:  # noqa: BLE001 - the test shows it
            traceback.print_exc(file=told)
        else:
            (output / "part").replace(output / f"{pair}.pt")
        finally:
            faulthandler.cancel_dump_traceback_later()


def main() -> None:
    folder, output, seconds, *pairs = sys.argv[1:]
    sys.path.append(folder)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # others run beside it
    for pair in pairs:
        save(pair, Path(output), float(seconds))


if __name__ == "__main__":
    main()
