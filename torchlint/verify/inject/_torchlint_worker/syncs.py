"""Counts what else makes the host wait for CUDA, as torch's sync debug mode warns of it."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reads import Reads

_TEXT = "called a synchronizing CUDA operation"
_NOTICE = "Synchronization debug mode is a prototype"  # torch tells it once in a process
_FILTERING = ("filterwarnings", "simplefilter", "resetwarnings")


class Syncs:
    """Takes these warnings for itself: the script's own output stays as it is."""

    def __init__(self, torch: Any, reads: Reads) -> None:
        self.torch = torch
        self.reads = reads
        self.began = False
        self.filter = "always", re.compile(f"{_TEXT}|{_NOTICE}"), Warning, None, 0

    def keep(self) -> None:
        """Begin once CUDA is in use; look whether the script has put other filters first."""
        if self.began:
            self._go_first()
        elif self.torch.cuda.is_initialized():
            self.began = True
            self._take_warnings()
            self._watch_synchronize()
            self._go_first()
            self.torch.cuda.set_sync_debug_mode("warn")

    def _go_first(self) -> None:
        """Come before all filters: by one that makes errors of warnings the script would fail.

        Not by `warnings.filterwarnings`, nor `catch_warnings`: with these Python forgets which
        warnings it has shown, and the script's own would come again.
        """
        filters: Any = warnings.filters
        if not filters or filters[0] is not self.filter:
            with contextlib.suppress(ValueError):
                filters.remove(self.filter)
            filters.insert(0, self.filter)

    def _take_warnings(self) -> None:
        show = warnings._showwarnmsg  # type: ignore[attr-defined]  # noqa: SLF001

        def showing(message: Any) -> None:
            text = str(message.message)
            if text.startswith(_TEXT):
                self._note("sync", sys._getframe(1))  # noqa: SLF001
            elif not (self.reads.paused or text.startswith(_NOTICE)):  # paused: it is our own
                show(message)

        warnings._showwarnmsg = showing  # type: ignore[attr-defined]  # noqa: SLF001
        for name in _FILTERING:
            setattr(warnings, name, self._then_going_first(getattr(warnings, name)))

    def _watch_synchronize(self) -> None:
        wait = self.torch.cuda.synchronize

        @functools.wraps(wait)
        def synchronize(*args: Any, **kwargs: Any) -> Any:
            self._note("synchronize", sys._getframe(1))  # noqa: SLF001
            return wait(*args, **kwargs)

        self.torch.cuda.synchronize = synchronize

    def _then_going_first(self, call: Any) -> Any:
        @functools.wraps(call)
        def filtering(*args: Any, **kwargs: Any) -> None:
            call(*args, **kwargs)
            self._go_first()

        return filtering

    def _note(self, call: str, frame: Any) -> None:
        if not self.reads.paused and not self.reads.reading:
            self.reads.note(call, frame, on_device=True)
