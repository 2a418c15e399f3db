"""Counts what else makes the host wait for CUDA, as torch's sync debug mode warns of it."""

from __future__ import annotations

import functools
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reads import Reads

_TEXT = "called a synchronizing CUDA operation"
_NOTICE = "Synchronization debug mode is a prototype"  # once a process, when it is turned on
_FILTERING = ("filterwarnings", "simplefilter", "resetwarnings")


class Syncs:
    """Takes these warnings for itself: the script's own output stays as it is."""

    def __init__(self, torch: Any, reads: Reads) -> None:
        self.torch = torch
        self.reads = reads
        self.began = False
        self.filters: list[Any] = [
            ("always", re.compile(_TEXT), Warning, None, 0),
            ("ignore", re.compile(_NOTICE), Warning, None, 0),
        ]

    def keep(self) -> None:
        """Begin once CUDA is in use; look whether the script has put other filters first."""
        if not self.began:
            if not self.torch.cuda.is_initialized():
                return
            self._begin()
        self._go_first()

    def _go_first(self) -> None:
        """Come before all filters: by one that makes errors of warnings the script would fail.

        The list itself is changed: `warnings.filterwarnings` and `warnings.catch_warnings` would
        make Python forget what it has shown, and the script would show it a second time.
        """
        filters: list[Any] = warnings.filters  # type: ignore[assignment]  # typeshed: read only
        if filters[: len(self.filters)] != self.filters:
            filters[:] = self.filters + [each for each in filters if each not in self.filters]

    def _begin(self) -> None:
        self.began = True
        show = warnings._showwarnmsg  # type: ignore[attr-defined]  # noqa: SLF001
        wait = self.torch.cuda.synchronize

        def showing(message: Any) -> None:
            if self.reads.paused:
                return  # caused by the worker: not for the script's reader
            if str(message.message).startswith(_TEXT):
                self._note("sync", sys._getframe(1))  # noqa: SLF001
            else:
                show(message)

        @functools.wraps(wait)
        def synchronize(*args: Any, **kwargs: Any) -> Any:
            self._note("synchronize", sys._getframe(1))  # noqa: SLF001
            return wait(*args, **kwargs)

        warnings._showwarnmsg = showing  # type: ignore[attr-defined]  # noqa: SLF001
        for name in _FILTERING:
            setattr(warnings, name, self._then_going_first(getattr(warnings, name)))
        self._go_first()
        self.torch.cuda.set_sync_debug_mode("warn")
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
