"""Imports: what they bind, a module of the project or a name of a library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.names import canonical
from torchlint.semantics.values import File, Library
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Value


def bring(run: Run, node: cst.Import) -> None:
    """``import a.b`` binds ``a``, ``import a.b as c`` binds what ``a.b`` is."""
    for alias in node.names:
        name = dotted(alias.name)
        whole = module_value(run, name)
        first = name.partition(".")[0]
        is_whole = alias.asname is not None or first == name
        run.bind(alias, whole if is_whole else module_value(run, first))


def bring_from(run: Run, node: cst.ImportFrom) -> None:
    """``from a import b``: a name of a module of the project, a module, or a library's."""
    module = "." * len(node.relative) + ("" if node.module is None else dotted(node.module))
    if isinstance(node.names, cst.ImportStar):
        module_value(run, module)
        return
    for alias in node.names:
        run.bind(alias, imported(run, module, dotted(alias.name)))


def imported(run: Run, module: str, name: str) -> Value:
    """Return what ``from module import name`` gives."""
    evaluation, here = run.evaluation, run.unit.at.file
    joined = f"{module}{name}" if module.endswith(".") else f"{module}.{name}"
    home = evaluation.files.find(here, module)
    if home is not None:
        evaluation.run_file(home)
        cell = evaluation.global_name(home, name)
        if cell is not None:
            return run.read(cell)
    inner = evaluation.files.find(here, joined)
    if inner is not None:
        evaluation.run_file(inner)
        return run.one(File(inner))
    if home is not None or module.startswith("."):
        return run.sets.unknown
    return run.one(Library(canonical(joined)))


def module_value(run: Run, name: str) -> Value:
    """Return a module by its dotted name."""
    found = run.evaluation.files.find(run.unit.at.file, name)
    if found is None:
        return run.sets.unknown if name.startswith(".") else run.one(Library(canonical(name)))
    run.evaluation.run_file(found)
    return run.one(File(found))
