"""What the files of the project that import a file say, by their texts: none of them is parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.index import Binding
    from torchlint.analysis.program import Program


def importers(program: Program) -> tuple[str, ...]:
    """Return the paths of the files that import a file; none where no project is known."""
    project, path = program.project, program.path
    return () if project is None or path is None else project.imports.importers(str(path))


def texts_of_importers(program: Program) -> Iterator[str]:
    """Yield the texts of the files that import a file."""
    project = program.project
    return iter(()) if project is None else map(project.imports.text, importers(program))


def is_imported(program: Program, binding: Binding) -> bool:
    """Whether another file may import a name of the module."""
    texts = texts_of_importers(program)
    return binding.scope.parent is None and any(binding.name in text for text in texts)
