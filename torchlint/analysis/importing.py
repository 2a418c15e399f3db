"""What the files of the project that import a file say, mostly by their texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

IMPORTERS = ("import_module(", "__import__(")
# Of a name that is put together, what it begins with: `"models." + name`, `f"models.{name}"`.
_COMPUTED = re.compile(r"""(?:import_module|__import__)\(\s*f?["']([\w.]+)\.["'{%]""")


def importers(program: Program) -> tuple[str, ...]:
    """Return the paths of the files that import a file; none where no project is known."""
    project, path = program.project, program.path
    return () if project is None or path is None else project.imports.importers(str(path))


def texts_of_importers(program: Program) -> Iterator[str]:
    """Yield the texts of the files that import a file."""
    project = program.project
    return iter(()) if project is None else map(project.imports.text, importers(program))


def programs_of_importers(program: Program) -> Iterator[Program]:
    """Yield the files that import a file, with all that is known of them."""
    project = program.project
    if project is not None:
        found = map(project.program, importers(program))
        yield from (other for other in found if other is not None)


def programs_above(program: Program, word: str) -> Iterator[Program]:
    """Yield the files with a word that import a file, be it as one of a package by its name."""
    project = program.project
    if project is None:
        return
    having = project.imports.having((word,))
    computing = project.imports.having(IMPORTERS) if having else ()
    for path in sorted(having):
        text = project.imports.text(path)
        if path in importers(program) or (path in computing and _may_import(text, program)):
            other = project.program(path)
            if other is not None:
                yield other


def _may_import(text: str, program: Program) -> bool:
    """``import_module("models." + name)``, of a file in a folder ``models``."""
    folder = () if program.path is None else program.path.parent.parts
    packages = (package.split(".") for package in _COMPUTED.findall(text))
    return any(folder[-len(package) :] == tuple(package) for package in packages)


def is_imported(program: Program, binding: Binding) -> bool:
    """Whether another file may import a name of the module."""
    texts = texts_of_importers(program)
    return binding.scope.parent is None and any(binding.name in text for text in texts)
