"""Calls a function right after a module was imported, whoever imports it and whenever."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_wanted: dict[str, list[Callable[[Any], None]]] = {}


def after_import(name: str, call: Callable[[Any], None]) -> None:
    """Call ``call(module)`` once, now if the module is there, else when it has been imported."""
    module = sys.modules.get(name)
    if module is not None:
        call(module)
        return
    _wanted.setdefault(name, []).append(call)
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)


class Finder:
    """Asks the other finders and adds a call to what they found: imports nothing by itself."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the next finder gives; None at once for modules that nobody waits for."""
        if name not in _wanted:
            return None
        for finder in sys.meta_path:
            if finder is not cls and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    _add_call(spec.loader, name)
                    return spec
        return None


def _add_call(loader: Any, name: str) -> None:
    """Let the loader call after it ran the module; on the object, since its type has to stay."""
    run = getattr(loader, "exec_module", None)
    if run is None:
        return

    def exec_module(module: ModuleType) -> None:
        run(module)
        if module.__name__ == name and name in _wanted:
            loader.__dict__.pop("exec_module", None)
            for call in _wanted.pop(name):
                call(module)

    loader.exec_module = exec_module
