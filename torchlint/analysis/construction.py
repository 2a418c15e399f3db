"""What a dataset is made of: what its ``__init__`` is passed, and hands on to those of its bases.

``class Photos(Folder)`` may pass on what it is given, ``super().__init__(root, transform=t)``, and
the attributes are set there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.syntax.chains import dotted
from torchlint.syntax.makers import call as made_call
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Store
    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.program import Program

_Given: TypeAlias = "tuple[Program, cst.BaseExpression]"


@dataclass(frozen=True, slots=True, eq=False)
class _Link:
    """An ``__init__`` that runs as a dataset is made, and the call that runs it."""

    program: Program
    method: cst.FunctionDef
    caller: Program
    call: cst.Call


def passed(dataset: Dataset, method: cst.FunctionDef, param: cst.Param) -> _Given | None:
    """Return what an ``__init__`` is passed for a parameter as a dataset is made, with its file.

    None where nothing is seen to be passed: the default holds, or a star hides it.
    """
    links = list(_links(dataset))
    place = next((i for i, link in enumerate(links) if link.method is method), None)
    return None if place is None else _passed(links[: place + 1], param)


def _passed(links: list[_Link], param: cst.Param) -> _Given | None:
    *before, link = links
    given = link.program.calls.passed(link.method, param, link.call)
    if given is None:
        return _passed_on(before[-1], link.call, param.name.value) if before else None
    handed_on = _parameter(link.caller, given)
    if handed_on is None or not before or _owner(link.caller, handed_on) is not before[-1].method:
        return link.caller, given
    found = _passed(before, handed_on)
    if found is None and handed_on.default is not None and not _hides(before[-1].call):
        return link.caller, handed_on.default
    return found


def _passed_on(link: _Link, call: cst.Call, name: str) -> _Given | None:
    """Return what reaches a call by its name alone: ``super().__init__(root, **kwargs)``."""
    own = link.method.params
    named = {one.name.value for one in (*own.params, *own.kwonly_params)}
    if own.star_kwarg is None or name in named or not any(arg.star == "**" for arg in call.args):
        return None
    for arg in link.call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return link.caller, arg.value
    return None


def _links(dataset: Dataset) -> Iterator[_Link]:
    """Yield the ``__init__`` methods that run, each with the call that runs it, outermost first."""
    call, caller, base = dataset.call, dataset.program, ""
    for home, one in dataset.lineage():
        method = one.methods.get("__init__")
        if method is None:
            continue
        if call is None or base not in ("", one.name):
            return
        yield _Link(home, method, caller, call)
        above, base = _call_of_base(home, method)
        if above is None or not _hands_on_all(method, above):
            caller, call = home, above


def _call_of_base(program: Program, method: cst.FunctionDef) -> tuple[cst.Call | None, str]:
    """Return the one ``super().__init__(...)`` of a method.

    Or the one ``Folder.__init__(self, ...)``, without its first argument, and the class's name.
    """
    found: list[tuple[cst.Call, str]] = []
    for call in program.index.below(method.body, cst.Call):
        match call:
            case cst.Call(func=cst.Attribute(value=cst.Call() as inner, attr=attr)):
                if attr.value == "__init__" and dotted(inner.func) == "super":
                    found.append((call, ""))
            case cst.Call(
                func=cst.Attribute(value=base, attr=attr),
                args=[cst.Arg(value=cst.Name(value="self")), *rest],
            ) if attr.value == "__init__":
                found.append((made_call(call.func, rest), dotted(base).rpartition(".")[2]))
            case _:
                pass
    return found[0] if len(found) == 1 else (None, "")


def _hands_on_all(method: cst.FunctionDef, call: cst.Call) -> bool:
    """``def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs)``."""
    own = method.params
    named = len(own.posonly_params) + len(own.params) + len(own.kwonly_params)
    return named == 1 and bool(call.args) and all(arg.star for arg in call.args)


def _hides(call: cst.Call) -> bool:
    return any(arg.star for arg in call.args)


def _owner(program: Program, param: cst.Param) -> cst.CSTNode | None:
    """Return the function that has a parameter."""
    return program.parent(program.parent(param) or param)


def _parameter(program: Program, node: cst.BaseExpression) -> cst.Param | None:
    """Return the parameter that a name stands for, and nothing else."""
    bindings = program.flow.reaching(node) if isinstance(node, cst.Name) else ()
    one = bindings[0] if len(bindings) == 1 else None
    if one is None or one.kind is not Bind.PARAMETER or not isinstance(one.value, cst.Param):
        return None
    return one.value


def kept(dataset: Dataset, name: str) -> Iterator[_Given]:
    """Yield what a dataset keeps as ``self.name``, as far as that is seen, each with its file."""
    for home, one in dataset.lineage():
        for store in one.stores.get(name, ()):
            yield from _kept(dataset, home, store)


def _kept(dataset: Dataset, program: Program, store: Store) -> Iterator[_Given]:
    value = store.value
    if store.path or not isinstance(value, cst.BaseExpression):
        return
    param = _parameter(program, value)
    if param is None:
        yield program, value
        return
    given = passed(dataset, store.method, param)
    if given is not None:
        yield given
    elif param.default is not None:
        yield program, param.default
