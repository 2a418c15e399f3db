"""Classes, functions and layers that nothing in the project uses, not even by name."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.importing import texts_of_importers
from torchlint.analysis.mentions import words

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_DEFINITIONS = (cst.ClassDef, cst.FunctionDef)
_HOLDERS = (cst.Arg, cst.Element, cst.List, cst.Tuple)
_CONTAINERS = ("torch.nn.Sequential", "torch.nn.ModuleList")
# What reaches the layers of a module without naming them.
_CHILDREN = re.compile(rf"children\(|{words('_modules')}")
_BY_OTHER_NAMES = re.compile(
    rf"{words('getattr', 'vars', then='[(]')}|{_CHILDREN.pattern}|__dict__"
)


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


def is_never_read(program: Program, layer: cst.Call) -> bool:
    """Whether a layer is (a part of) an attribute of a module that nothing ever reads.

    ``self.spare = nn.Sequential(layer, ...)``, in a class that runs its layers by their names, and
    no file of the project mentions ``spare`` but to assign to it.
    """
    name, owner = _kept_as(program, layer), program.classes.around(layer)
    if not name or owner is None or any(base != "torch.nn.Module" for base in owner.bases):
        return False
    # each alternative begins with the name: such a pattern leaps from one to the next
    reads = re.compile(rf"{words(name)}(?:(?<!self\.{name})|(?! *=[^=]))")
    if reads.search(program.text) or _reads_by_other_names(program.text):
        return False
    if program.project is None:
        return True
    imports = program.project.imports
    return not any(
        reads.search(imports.text(file)) for file in imports.having((name,))
    ) and not any(_CHILDREN.search(text) for text in texts_of_importers(program))


@functools.lru_cache(1024)  # asked for each layer of a file
def _reads_by_other_names(text: str) -> bool:
    return _BY_OTHER_NAMES.search(text) is not None


def _kept_as(program: Program, layer: cst.Call) -> str:
    """Return the attribute of ``self`` that a layer is put into as it is made, or ""."""
    node = program.parent(layer)
    while node is not None and (isinstance(node, _HOLDERS) or _is_container(program, node)):
        node = program.parent(node)
    match node:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Attribute(value=cst.Name("self"), attr=name))]
        ):
            return name.value
        case _:
            return ""


def _is_container(program: Program, node: cst.CSTNode) -> bool:
    """``nn.Sequential(...)``; any other function might run what it is given."""
    return isinstance(node, cst.Call) and program.qualified(node.func) in _CONTAINERS
