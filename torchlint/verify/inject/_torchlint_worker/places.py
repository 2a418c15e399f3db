"""Which paths belong to the copy that runs, which to the user's own tree, which to neither."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Plan

_INSTALLED = ("site-packages", "dist-packages")


def below(path: str, folder: str) -> bool:
    """Whether a path is a folder or in it; both absolute, both real."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def is_installed(path: str) -> bool:
    """Whether a file belongs to an installed package: a project often holds its environment."""
    return any(part in _INSTALLED for part in path.split(os.sep)) or _is_standard(path)


def _is_standard(path: str) -> bool:
    return below(path, os.path.dirname(os.path.realpath(os.__file__)))


def in_copy(path: str, plan: Plan) -> str:
    """Return the copy's path for one in the user's tree, where there is such, else the path."""
    real = os.path.realpath(path) if path else ""
    if not below(real, plan.original) or below(real, plan.root) or is_installed(real):
        return path
    copied = os.path.join(plan.root, os.path.relpath(real, plan.original))
    return os.path.normpath(copied) if os.path.exists(copied) else path


def use_copy(plan: Plan) -> None:
    """Let editable installs and `PYTHONPATH` find the copy instead of the user's own tree."""
    if plan.root == plan.original:
        return
    sys.path[:] = [in_copy(entry, plan) for entry in sys.path]
    for finder in sys.meta_path:  # setuptools maps packages to folders in a module of its own
        mapping = getattr(sys.modules.get(finder.__module__), "MAPPING", None)
        if finder.__module__.startswith("__editable__") and isinstance(mapping, dict):
            mapping.update({name: in_copy(path, plan) for name, path in mapping.items()})


def main_file() -> str | None:
    """Return the script's file; when the script is over, Python has forgotten it."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(path) if isinstance(path, str) else None


def imported_files(plan: Plan, main: str | None) -> list[str]:
    """Return the files of modules that were imported: those of the copy, and of the user's tree."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = {path for path in [main, *modules] if isinstance(path, str) and path.endswith(".py")}
    files = (_as_named(os.path.abspath(path), plan) for path in paths if not is_installed(path))
    return sorted({file for file in files if file is not None})


def _as_named(path: str, plan: Plan) -> str | None:
    """Return a file's name below the copy or the user's tree; a linked file counts to the copy."""
    if not os.path.isfile(path):
        return None  # torch names some of its modules after files that are not there
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    if below(real, plan.root):
        return real
    if below(path, plan.root):
        return path
    return real if below(real, plan.original) else None
