"""What has to be done before the script's first line; the rest follows when torch comes in."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from . import places, writes
from .finder import after_import
from .plan import read
from .writes import guard_safetensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .lines import Lines
    from .plan import Plan


class Early:
    """What is known before torch is: ``start`` is a time in nanoseconds."""

    def __init__(self, plan: Plan, start: int) -> None:
        self.plan = plan
        self.start = start
        self.guard = writes.guard(plan)
        self.lines: Lines | None = None

    def torch_came(self, torch: Any) -> None:
        """Install the hooks; torch is imported by now and nothing of the script used it yet."""
        with telling(self.plan.records):
            from .session import begin  # noqa: PLC0415  # scripts without torch don't need it

            begin(torch, self)


def get_ready(path: str, start: int) -> None:
    """Read the plan and begin."""
    plan = read(path)
    with telling(plan.records):
        places.use_copy(plan)
        early = Early(plan, start)
        if plan.phase == "pilot" and plan.lines:
            from .lines import count  # noqa: PLC0415  # only pilots count

            early.lines = count(plan)
        if plan.phase == "trace":
            from .seeds import seed_early  # noqa: PLC0415  # only traces are made repeatable

            seed_early(plan.reseed)
            os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler logs on stderr
        after_import("safetensors", functools.partial(guard_safetensors, judge=early.guard))
        after_import("torch", early.torch_came)


@contextlib.contextmanager
def telling(folder: str) -> Iterator[None]:
    """Tell the harness what the worker itself fails at, and end: nothing can be measured."""
    leave = os._exit
    try:
        yield
    except Exception:  # noqa: BLE001  # whatever it is, it is not the script's
        tell_error(folder)
        sys.stdout.flush()
        leave(1)


def tell_error(folder: str) -> None:
    """Leave the traceback of the present error for the harness, named by this process."""
    import traceback  # noqa: PLC0415  # rarely needed

    with contextlib.suppress(OSError):
        path = os.path.join(folder, f"{os.getpid()}.error")
        with open(path, "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
