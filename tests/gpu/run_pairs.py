"""Run pairs of fixtures in one process: ``python run_pairs.py FOLDER OUTPUT PAIR...``.

Of each pair OUTPUT holds what ``run()`` gave before, before once more, and after; or a traceback.
"""

from __future__ import annotations

import importlib
import sys
import traceback
import warnings

import torch


def run(pair: str) -> object:
    try:
        before = importlib.import_module(f"{pair}.before")
        first, again = before.run(), before.run()
        return first, again, importlib.import_module(f"{pair}.after").run()
    except Exception:  # noqa: BLE001 - the test shows it
        return traceback.format_exc()
    finally:  # a script may choose for the whole process
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.benchmark = False


def main() -> None:
    folder, output, *pairs = sys.argv[1:]
    sys.path.append(folder)
    warnings.simplefilter("ignore")
    torch.save({pair: run(pair) for pair in pairs}, output)


if __name__ == "__main__":
    main()
