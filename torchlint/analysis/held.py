"""Whose layer it is: the models that a layer may be part of, in the file or in others.

By names alone: a class holds what its text mentions, and what those texts mention in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.importing import texts_of_importers
from torchlint.analysis.origins import origins
from torchlint.analysis.uses import is_label
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from typing import TypeAlias

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

    _Definition: TypeAlias = cst.FunctionDef | cst.ClassDef

_DEPTH = 4  # calls of methods one after the other
_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")


def may_hold(home: Program, model: cst.BaseExpression, program: Program, layer: cst.Call) -> bool:
    """Whether what an expression of some file stands for may hold a layer of this file."""
    name = dotted(model)
    if name == "self" or name.startswith("self."):
        owner = home.classes.around(model)
        return owner is not None and class_may_hold(home, owner, program, layer)
    value = home.value(model)
    if value.kind is Kind.MODULE:
        if value.type.startswith("torch.nn.") and not value.type.endswith(_CONTAINERS):
            return value.made is layer
        owner = home.classes.named(value.type)
        if owner is not None:
            return class_may_hold(home, owner, program, layer)
        found = None if home.project is None else home.project.class_of(value.type)
        if found is not None:
            return class_may_hold(*found, program, layer)
    return home is program or _imports(home, program) or _is_imported_by_name(home, model)


def class_may_hold(home: Program, owner: Class, program: Program, layer: cst.Call) -> bool:
    """Whether objects of a class of some file may hold a layer of this file, or inherit it."""
    outer = outermost(program, layer)
    if is_heir(home, owner, program, outer):
        return True
    if home is program:
        return outer is not None and outer.name.value in _mentioned(program, owner.name)
    return _imports(home, program)


def is_heir(home: Program, owner: Class, program: Program, node: _Definition | None) -> bool:
    """Whether a definition of this file is a class of some file, or one that inherits from it."""
    found = program.classes.get(node)
    if found is None:
        return False
    lineage = program.classes.lineage(found)
    if home is program:
        return owner in lineage
    bases = {base.rpartition(".")[2] for one in lineage for base in one.bases}
    return owner.name in bases and _imports(program, home)


def is_made_only_in(program: Program, owner: Class, node: _Definition) -> bool:
    """Whether one class of the file makes all that a definition of the file does."""
    seen = {id(node)}
    todo: list[_Definition] = [node]
    while todo:
        last = todo.pop()
        name = last.name.value
        if any(name in text for text in texts_of_importers(program)):
            return False
        uses = [one for one in program.index.named.get(name, ()) if not is_label(program, one)]
        users = [user for user in (outermost(program, one) for one in uses) if user is not last]
        for user in users or [None]:  # what nothing in the file uses, others may
            if user is None:
                return False
            if id(user) not in seen and user is not owner.node:
                seen.add(id(user))
                todo.append(user)
    return True


def outermost(program: Program, node: cst.CSTNode) -> _Definition | None:
    """Return the function or class of the module that a node stands in."""
    outer = None
    for above in program.index.ancestors(node):
        if isinstance(above, cst.FunctionDef | cst.ClassDef):
            outer = above
    return outer


def _mentioned(program: Program, name: str) -> set[str]:
    """Return the functions and classes of a file that one of them leads to, itself included."""
    index = program.index
    definitions: list[_Definition] = [*index.of(cst.FunctionDef), *index.of(cst.ClassDef)]
    made = {one.name.value: one for one in definitions if index.scope(one).parent is None}
    found, todo = {name}, [name]
    while todo:
        node = made.get(todo.pop())
        names = () if node is None else index.below(node, cst.Name)
        new = {one.value for one in names if one.value in made} - found
        found |= new
        todo += new
    return found


def _is_imported_by_name(program: Program, model: cst.CSTNode, depth: int = 0) -> bool:
    """``import_module(args.model).build().cuda()``, also under names: the file may be any."""
    if depth > _DEPTH or "import_module(" not in program.text:
        return False
    for made in origins(program, model):
        match made:
            case cst.Call(func=func, args=[*_, cst.Arg(value=named)]) if (
                program.qualified(func) == "importlib.import_module"
            ):
                if not isinstance(named, cst.SimpleString):
                    return True
            case cst.Call(func=cst.Attribute(value=inner)):
                if _is_imported_by_name(program, inner, depth + 1):
                    return True
            case _:
                pass
    return False


def _imports(program: Program, other: Program) -> bool:
    """Whether a file imports another, be it by way of one or two more."""
    if program.project is None or program.path is None or other.path is None:
        return False
    targets, found = program.project.imports.targets, {str(program.path)}
    for _ in range(3):
        found = found.union(*map(targets, found))
    return str(other.path) in found
