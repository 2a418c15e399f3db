"""What the heirs of a class hand to its ``__init__``: ``super().__init__(name, criterion)``.

The attributes are set there, of what each heir has made: in this file or in others of the project.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program


def handed_up(
    program: Program, function: cst.FunctionDef, param: cst.Param
) -> list[tuple[Program, cst.BaseExpression]]:
    """Return what heirs pass for a parameter of the ``__init__`` of a class, each with its file.

    Nothing where one of them hides it behind a star.
    """
    owner = program.classes.around(function) if function.name.value == "__init__" else None
    if owner is None or owner.methods.get("__init__") is not function:
        return []
    found: list[tuple[Program, cst.BaseExpression]] = []
    for home, heir in _heirs(program, owner):
        call = _call_of_base(home, heir)
        if call is None or _runs(home, heir) is not function:
            continue
        given = program.calls.passed(function, param, call)
        if given is not None:
            found.append((home, given))
        elif any(arg.star for arg in call.args):
            return []
    return found


def as_of_base(program: Program, function: cst.FunctionDef) -> bool:
    """Whether a method gives what that of its base gives: ``return super().to(device)``."""
    owner = program.classes.around(function)
    if owner is None:
        return False
    results = [result.value for result in program.returns(function)]
    return bool(results) and all(
        isinstance(one, cst.Call)
        and isinstance(one.func, cst.Attribute)
        and one.func.attr.value == function.name.value
        and _is_super(program, one.func.value, owner)
        for one in results
    )


def _heirs(program: Program, owner: Class) -> Iterator[tuple[Program, Class]]:
    """Yield the classes that extend a class; of a module those of its file: theirs are sizes."""
    own = ((program, heir) for heir in program.classes.heirs(owner))
    project = None if owner.is_module else program.project
    return chain(own, () if project is None else project.heirs(program, owner, "__init__"))


def _call_of_base(program: Program, heir: Class) -> cst.Call | None:
    """Return the one ``super().__init__(...)`` of the ``__init__`` of a class, if it is plain."""
    method = heir.methods.get("__init__")
    if method is None:
        return None
    found = [
        call
        for call in program.index.below(method.body, cst.Call)
        if isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "__init__"
        and _is_super(program, call.func.value, heir)
    ]
    return found[0] if len(found) == 1 and program.function(found[0]) is method else None


def _is_super(program: Program, node: cst.BaseExpression, heir: Class) -> bool:
    """``super()``, or ``super(Heir, self)`` in the class itself: what comes next after it."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name):
        return False
    start = dotted(node.args[0].value) if node.args else heir.name
    return node.func.value == "super" and program.is_builtin(node.func) and start == heir.name


def _runs(program: Program, heir: Class) -> cst.FunctionDef | None:
    """Return the ``__init__`` that a class with one base has from it: of more, any may be next."""
    if len(heir.bases) != 1:
        return None
    (name,) = heir.bases
    base, home = program.classes.named(name), program
    if base is None and program.project is not None:
        found = program.project.defined_class(program, name)
        home, base = (program, None) if found is None else found
    if base is None:
        return None
    method = home.classes.method(base, "__init__")
    if method is not None or home.project is None:
        return method
    inherited = home.project.inherited(home, base, "__init__")
    return None if inherited is None else inherited.function
