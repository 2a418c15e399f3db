"""Counts what else makes the host wait for CUDA, as torch's sync debug mode warns of it."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reads import Reads

_TEXT = "called a synchronizing CUDA operation"


class Syncs:
    """Takes these warnings for itself: the script's own output stays as it is."""

    def __init__(self, torch: Any, reads: Reads) -> None:
        self.torch = torch
        self.reads = reads
        self.filter: Any = None

    def keep(self) -> None:
        """Begin once CUDA is in use; go before filters that the script has set since."""
        if self.filter is None:
            if not self.torch.cuda.is_initialized():
                return
            self._begin()
        if not warnings.filters or warnings.filters[0] is not self.filter:
            warnings.filterwarnings("always", message=_TEXT)
            self.filter = warnings.filters[0]

    def _begin(self) -> None:
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

    def _note(self, call: str, frame: Any) -> None:
        if not self.reads.paused and not self.reads.reading:
            self.reads.note(call, frame, on_device=True)
