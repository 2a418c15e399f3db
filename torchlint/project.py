"""The parsed files of one project, and which of them are evaluated together."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.files import Files
from torchlint.syntax.depth import TooDeepError
from torchlint.syntax.module import Module
from torchlint.training.script import Connected

if TYPE_CHECKING:
    from pathlib import Path

    from torchlint.imports import Imports
    from torchlint.training.script import Script, Settings


class Project:
    """The files of one project as far as they were parsed; nothing is before it is asked for."""

    def __init__(self, imports: Imports) -> None:
        self.imports = imports
        self.size = 0  # characters of source that were parsed
        self._modules: dict[str, Module | None] = {}
        self._connected: dict[str, Connected] = {}
        self._latest: tuple[str, ...] = ()  # the files that were evaluated together at last

    def release(self) -> None:
        """Forget all trees and values; texts are kept."""
        self._keep(())

    def trim(self, limit: int) -> None:
        """Forget all but the files that were evaluated together at last, if those are not too many.

        ``limit`` is in characters of source.
        """
        modules = (self._modules.get(path) for path in self._latest)
        size = sum(len(module.text) for module in modules if module is not None)
        self._keep(self._latest if 0 < size <= limit else ())

    def _keep(self, kept: tuple[str, ...]) -> None:
        for path in [one for one in self._connected if one not in kept]:
            self._connected.pop(path).release()
        for path in [one for one in self._modules if one not in kept]:
            self._drop(path)
        self._latest = kept

    def _drop(self, path: str) -> None:
        module = self._modules.pop(path, None)
        if module is not None:
            self.size -= len(module.text)
            module.release()

    def script(self, path: str, module: Module, settings: Settings) -> Script:
        """Return a file of the project as a training script, with those that it is connected to."""
        if path not in self._connected:
            paths = self.imports.connected(path)

            def load() -> Files:
                self._latest = paths
                found = ((other, self.module(other)) for other in paths)
                modules = {other: one for other, one in found if one is not None}
                return Files(modules, self.imports.paths)

            self._connected |= dict.fromkeys(paths, Connected(load))
        return self._connected[path].script(path, module, settings)

    def module(self, path: str) -> Module | None:
        """Return a file of the project; None where it cannot be parsed."""
        if path not in self._modules:
            text = self.imports.text(path)
            self._modules[path] = None
            if text:
                with contextlib.suppress(cst.ParserSyntaxError, TooDeepError):
                    self._parse(path, text)
        return self._modules[path]

    def _parse(self, path: str, text: str) -> Module:
        made = self._modules[path] = Module(text)
        self.size += len(text)
        return made

    def announce(self, path: str, text: str) -> None:
        """Let a file have this text from now on; values drawn from another are forgotten."""
        known = self._modules.get(path)
        if known is not None and known.text == text:
            return
        if self.imports.replace(path, text) or known is not None:
            for connected in self._connected.values():
                connected.release()
            self._connected.clear()
        self._drop(path)

    def checked(self, path: Path, text: str) -> Module:
        """Return a file with the text that is checked now.

        Raises:
            libcst.ParserSyntaxError: the text is not Python 3.

        """
        self.announce(str(path), text)
        known = self._modules.get(str(path))
        return self._parse(str(path), text) if known is None else known
