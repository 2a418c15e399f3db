"""Classes, functions and layers that nothing in the project uses, not even by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.mentions import words

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_DEFINITIONS = (cst.ClassDef, cst.FunctionDef)
_HOLDERS = (cst.Arg, cst.Element, cst.List, cst.Tuple)
_CONTAINERS = ("torch.nn.Sequential", "torch.nn.ModuleList")
# What reaches the layers of a module without naming them.
_CHILDREN = re.compile(rf"children\(|{words('_modules')}")


def is_unused(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node stands in what no file of the project names beside its definition.

    That is a class, or a function of the module.  Only where a script of the project is there to
    be started: a library is used by others.  Comments name without using.
    """
    defined = [one for one in program.index.ancestors(node) if isinstance(one, _DEFINITIONS)]
    classes = [one for one in defined if type(one) is cst.ClassDef]
    owner = next(iter(classes or defined[-1:]), None)
    if owner is None or owner.decorators or not _has_script(program):
        return False
    word = owner.name.value
    named = program.index.named.get(word, ())
    if not all(program.index.inside(one, owner) for one in named):
        return False
    if re.search(rf"[\"']{word}[\"']", program.text):
        return False  # __all__, or a registry of classes
    project, path = program.project, program.path
    if project is None or path is None:
        return True
    uses = re.compile(rf"^[^#\n]*\b{word}\b", re.MULTILINE)
    imports = project.imports
    return not any(
        uses.search(imports.text(file)) for file in imports.having((word,)) if file != str(path)
    )


def _has_script(program: Program) -> bool:
    project = program.project
    return "__main__" in program.text or (
        project is not None and bool(project.imports.having(("__main__",)))
    )
