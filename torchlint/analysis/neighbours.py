"""The other files of the project that a file may work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.analysis.program import Program


def texts_around(program: Program) -> Iterator[str]:
    """Yield the texts of the files at most two imports away."""
    if program.project is not None and program.path is not None:
        imports = program.project.imports
        yield from (imports.text(path) for path in imports.related(str(program.path)))


def loaders_around(program: Program) -> Iterator[tuple[Program, cst.Call]]:
    """Yield the loaders of a file and of those around it, each with the file that makes it."""
    for loader in program.loaders.calls:
        yield program, loader
    if program.project is not None:
        for other in program.project.related(program, ("DataLoader",)):
            if other is not program:
                yield from ((other, loader) for loader in other.loaders.calls)
