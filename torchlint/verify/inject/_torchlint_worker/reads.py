"""Counts reads that make the host wait for the device, by the line of the script that asks."""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from .places import below, is_installed

if TYPE_CHECKING:
    from types import FrameType

    from .plan import Plan

_METHODS = (
    "item", "tolist", "numpy", "cpu", "nonzero",
    "__bool__", "__float__", "__int__", "__index__", "__complex__",
)  # fmt: skip
_PART_OF_TENSOR = ("_tensor.py", "_tensor_str.py")  # methods of tensors that are written in Python


class Reads:
    """Counts while it is not paused; ``loading`` says whether a loader of the script is at work.

    Where there is no device, the reads that would wait are those that the script itself asks for,
    not those of optimizers and loaders: what they read is on the CPU in any case.
    """

    def __init__(self, torch: Any, plan: Plan) -> None:
        self.torch = torch
        self.folder = os.path.dirname(os.path.realpath(torch.__file__))
        self.root = plan.root
        self.paused = False
        self.loading = False
        self.reading = False  # a read of a device that was noted is under way
        self.kinds: dict[str, str] = {}  # of files: "tensor", "torch", "installed" or ""
        self.clear()

    def clear(self) -> None:
        """Begin anew, as in a process that was forked."""
        self.counts: Counter[tuple[str, int, str]] = Counter()

    def watch(self) -> None:
        """Put counting methods in the place of the reading ones."""
        for name in _METHODS:
            method = getattr(self.torch.Tensor, name, None)
            if method is not None:
                setattr(self.torch.Tensor, name, self._counting(name, method))

    def content(self) -> list[dict[str, Any]]:
        """Return this part of the record; files of the copy are named from its root."""
        return [
            {"file": file, "line": line, "call": call, "count": count}
            for (file, line, call), count in self.counts.items()
        ]

    def note(self, call: str, frame: FrameType | None, *, on_device: bool) -> None:
        """Count a read for the first line outside installed packages."""
        while frame is not None and self._kind(frame) == "tensor":
            frame = frame.f_back
        if frame is None or (not on_device and self._kind(frame) == "torch"):
            return
        while frame is not None and self._kind(frame):
            frame = frame.f_back
        if frame is not None:
            self.counts[self._name(frame.f_code.co_filename), frame.f_lineno, call] += 1

    def _counting(self, name: str, method: Any) -> Any:
        is_compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", bool)

        @functools.wraps(method)
        def counting(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.paused and not is_compiling():
                on_device = tensor.device.type != "cpu"
                if on_device or not (self.loading or self.torch.cuda.is_initialized()):
                    self.note(name.strip("_"), sys._getframe(1), on_device=on_device)  # noqa: SLF001
                    return self._read(method, tensor, *args, **kwargs)
            return method(tensor, *args, **kwargs)

        return counting

    def _read(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        before, self.reading = self.reading, True
        try:
            return method(*args, **kwargs)
        finally:
            self.reading = before

    def _kind(self, frame: FrameType) -> str:
        name = frame.f_code.co_filename
        if name not in self.kinds:
            self.kinds[name] = self._look_up(name)
        return self.kinds[name]

    def _look_up(self, name: str) -> str:
        path = os.path.realpath(name)
        if below(path, self.folder):
            return "tensor" if os.path.basename(path) in _PART_OF_TENSOR else "torch"
        is_code = name.startswith("<")
        return "installed" if is_code or is_installed(path) else ""

    def _name(self, file: str) -> str:
        path = os.path.realpath(file)
        return os.path.relpath(path, self.root) if below(path, self.root) else path
