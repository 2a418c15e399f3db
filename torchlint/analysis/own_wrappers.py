"""Classes of the project that an option puts around an optimizer of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program


def defining_zero_grad(program: Program) -> frozenset[str]:
    """Return the files near by that define a ``zero_grad``."""
    if program.project is None or program.path is None:
        return frozenset()
    imports = program.project.imports
    defining = imports.having(("def zero_grad(",))
    return defining.intersection(imports.related(str(program.path))) if defining else defining


def wraps_by_option(program: Program) -> bool:
    """Whether those classes only come around an optimizer where some setting has it.

    ``if args.scaled: optimizer = Scaled(optimizer)``: without it, the optimizer stays torch's.
    """
    names = {name for path in defining_zero_grad(program) for name in _defined(program, path)}
    return bool(names) and all(_is_put_around(program, name) for name in names)


def _defined(program: Program, path: str) -> Iterator[str]:
    """Yield the names of the classes of a file with a ``zero_grad``; "" for any other such."""
    other = None if program.project is None else program.project.program(path)
    for function in () if other is None else other.index.of(cst.FunctionDef):
        if other is not None and function.name.value == "zero_grad":
            owner = other.classes.around(function)
            yield "" if owner is None or owner.is_module else owner.node.name.value


def _is_put_around(program: Program, name: str) -> bool:
    """Whether a class is only made around an optimizer that has a name already, by an option."""
    project = program.project
    if project is None or not name:
        return False
    homes = [project.program(path) for path in sorted(project.imports.having((f"{name}(",)))]
    calls = [
        _wraps(home, call)
        for home in homes
        if home is not None
        for call in home.index.of(cst.Call)
        if dotted(call.func).rpartition(".")[2] == name
    ]
    return bool(calls) and all(calls)


def _wraps(home: Program, call: cst.Call) -> bool:
    """``optimizer = Scaled(optimizer, rate)`` in a branch; the first was one of torch."""
    line = home.smallest_statement(call)
    match line:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=made):
            pass
        case _:
            return False
    inner = [one.value for one in call.args]
    same = [one for one in inner if isinstance(one, cst.Name) and one.value == name]
    return (
        made is call
        and any(_may_be_torchs(home, one) for one in same)
        and any(
            isinstance(above, cst.If) and home.index.inside(call, above.body)
            for above in home.index.ancestors(call)
            if home.function(above) is home.function(call)
        )
    )


def _may_be_torchs(home: Program, name: cst.Name) -> bool:
    bindings = home.flow.reaching(name)
    return any(home.values.binding(one).kind is Kind.OPTIMIZER for one in bindings)
