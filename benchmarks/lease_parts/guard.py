"""Ends all that a run started once the run itself has died, however it died.

    python guard.py MARK FOLDER      # its standard input is a pipe that only the run holds open

``FOLDER`` holds the run's caches, and is removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))

from lease_parts import marked  # noqa: E402  found from here on

if TYPE_CHECKING:
    from collections.abc import Iterator

QUIET = 2  # looks in a row that find nothing


@contextlib.contextmanager
def guarded(mark: str, folder: Path) -> Iterator[None]:
    """Leave no process that carries the mark, and no folder, whatever ends this process."""
    environment = {name: text for name, text in os.environ.items() if name != marked.VARIABLE}
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", __file__, mark, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment,
    )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def main(mark: str, folder: str) -> None:
    """Wait for the end of the run, and clear up behind it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for _ in range(QUIET):  # what was about to be started when the run died is seen by the second
        marked.end(mark, seconds=60)
        time.sleep(marked.PAUSE)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
