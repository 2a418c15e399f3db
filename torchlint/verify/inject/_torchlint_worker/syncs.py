"""Counts what else makes the host wait for CUDA, as torch's sync debug mode warns of it."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reads import Reads

_TEXT = "called a synchronizing CUDA operation"
_FILTERING = ("filterwarnings", "simplefilter", "resetwarnings")


class Syncs:
    """Takes these warnings for itself: the script's own output stays as it is."""

    def __init__(self, torch: Any, reads: Reads) -> None:
        self.torch = torch
        self.reads = reads
        self.filter: Any = None
        self.filterwarnings = warnings.filterwarnings

    def keep(self) -> None:
        """Begin once CUDA is in use; look whether the script has put other filters first."""
        if self.filter is None:
            if not self.torch.cuda.is_initialized():
                return
            self._begin()
        self._go_first()

    def _go_first(self) -> None:
        """Come before all filters: by one that makes errors of warnings the script would fail."""
        if not warnings.filters or warnings.filters[0] is not self.filter:
            self.filterwarnings("always", message=_TEXT)
            self.filter = warnings.filters[0]

    def _begin(self) -> None:
        with warnings.catch_warnings():  # that the mode is a prototype; some make errors of it
            warnings.simplefilter("ignore")
            self.torch.cuda.set_sync_debug_mode("warn")
        show = warnings._showwarnmsg  # type: ignore[attr-defined]  # noqa: SLF001
        wait = self.torch.cuda.synchronize

        def showing(message: Any) -> None:
            if str(message.message).startswith(_TEXT):
                self._note("sync", sys._getframe(1))  # noqa: SLF001
            else:
                show(message)

        @functools.wraps(wait)
        def synchronize(*args: Any, **kwargs: Any) -> Any:
            self._note("synchronize", sys._getframe(1))  # noqa: SLF001
            return wait(*args, **kwargs)

        warnings._showwarnmsg = showing  # type: ignore[attr-defined]  # noqa: SLF001
        self.torch.cuda.synchronize = synchronize
        for name in _FILTERING:
            setattr(warnings, name, self._then_going_first(getattr(warnings, name)))

    def _then_going_first(self, call: Any) -> Any:
        @functools.wraps(call)
        def filtering(*args: Any, **kwargs: Any) -> None:
            call(*args, **kwargs)
            self._go_first()

        return filtering

    def _note(self, call: str, frame: Any) -> None:
        if not self.reads.paused and not self.reads.reading:
            self.reads.note(call, frame, on_device=True)
