"""Run pairs of fixtures, as many as are asked for: ``python run_pairs.py FOLDER OUTPUT``.

Reads the name of a pair from a line of stdin and answers with a line when OUTPUT holds what
``run()`` gave before, before once more, and after (``PAIR.pt``), or a traceback (``PAIR.txt``).
SIGUSR2 has the stacks written to stderr.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path

import torch
from pairs_tools import RACES


def outcomes(pair: str) -> tuple[object, object, object]:
    """Return what a pair gives; a race may fail before its fix, which is then given thrice."""
    before = importlib.import_module(f"{pair}.before")
    after = importlib.import_module(f"{pair}.after")
    try:
        first, again = before.run(), before.run()
    except RuntimeError:
        if pair not in RACES:
            raise
        first = again = None
    fixed = after.run()
    return first or fixed, again or fixed, fixed


def run(pair: str, output: Path) -> None:
    try:
        outcome = outcomes(pair)
        torch.save(outcome, output / f"{pair}.part")
        (output / f"{pair}.part").rename(output / f"{pair}.pt")
    except BaseException:  # noqa: BLE001 - the test shows it
        (output / f"{pair}.txt").write_text(traceback.format_exc())
    finally:  # a script may choose for the whole process
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.benchmark = False


def main() -> None:
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    folder, output = sys.argv[1:]
    sys.path.append(folder)
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a script prints is no answer
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        run(line.strip(), Path(output))
        print(line.strip(), file=answers, flush=True)


if __name__ == "__main__":
    main()
