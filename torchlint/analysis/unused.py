"""Classes that nothing in the project uses, not even by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from torchlint.analysis.program import Program


def in_unused_class(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node stands in a class that no file of the project names beside its definition.

    Only where a script of the project is there to be started: a library is used by others.
    """
    owner = next((one for one in program.index.ancestors(node) if type(one) is cst.ClassDef), None)
    if owner is None or owner.decorators or not _has_script(program):
        return False
    name = re.compile(rf"\b{owner.name.value}\b")
    named = program.index.named.get(owner.name.value, ())
    if not all(program.index.inside(one, owner) for one in named):
        return False
    if re.search(rf"[\"']{owner.name.value}[\"']", program.text):
        return False  # __all__, or a registry of classes
    project, path = program.project, program.path
    if project is None or path is None:
        return True
    imports = project.imports
    return not any(
        name.search(imports.text(file))
        for file in imports.having((owner.name.value,))
        if file != str(path)
    )


def _has_script(program: Program) -> bool:
    project = program.project
    return "__main__" in program.text or (
        project is not None and bool(project.imports.having(("__main__",)))
    )
