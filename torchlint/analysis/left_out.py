"""Parameters that no call of the project gives: they have their defaults.

``def evaluate(self, loader, device="cpu")``, and ``self.evaluate(loader)`` in each place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.reach import callee
from torchlint.imports import MANY

if TYPE_CHECKING:
    from torchlint.analysis.program import Program


def is_left_out(program: Program, function: cst.FunctionDef, param: cst.Param) -> bool:
    """Whether a function is called, and each call of its name leaves a parameter at its default.

    By the name alone, for values ask this.  What is passed on or decorated has other callers.
    """
    name = function.name.value
    if param.default is None or function.decorators or name.startswith("__"):
        return False
    files = files_with(program, name)
    if any(_is_passed_on(home, name) for home in files):
        return False
    calls = [call for home in files for call in home.calls.named(name)]
    return bool(calls) and not any(
        program.calls.passed(function, param, call) is not None or any(a.star for a in call.args)
        for call in calls
    )


def is_never_named(program: Program, function: cst.FunctionDef, param: cst.Param) -> bool:
    """Whether nothing in the project writes the name of a parameter that is only given by name.

    Other than for functions that have one of that name as well.  Calls may hide it:
    ``attack(x, **options)``.
    """
    if not any(one is param for one in function.params.kwonly_params):
        return False
    files = files_with(program, param.name.value)
    return bool(files) and not any(_writes(home, param.name.value, function) for home in files)


def files_with(program: Program, word: str) -> list[Program]:
    """Return the files in which a word occurs; none where they are too many to tell."""
    project, path = program.project, program.path
    if project is None or path is None:
        return [program]
    paths = project.imports.having((word,)) - {str(path)}
    if len(paths) >= MANY:
        return []
    found = [project.program(one) for one in sorted(paths)]
    return [program, *(one for one in found if one is not None)]


def _is_passed_on(home: Program, name: str) -> bool:
    """``run(self.evaluate)``, ``step = evaluate``: calls of it have another name, or arguments."""
    for used in home.index.named.get(name, ()):
        node: cst.CSTNode = used
        above = home.parent(used)
        if isinstance(above, cst.Attribute) and above.attr is used:
            node, above = above, home.parent(above)
        called = isinstance(above, cst.Call) and above.func is node
        reads = isinstance(above, cst.Arg) and above.keyword is not node
        if not called and (reads or _is_kept(above, node)):
            return True
    return False


def _is_kept(above: cst.CSTNode | None, node: cst.CSTNode) -> bool:
    match above:
        case cst.Assign(value=value) | cst.AnnAssign(value=value) | cst.Return(value=value):
            return value is node
        case cst.ImportAlias(asname=asname):
            return asname is not None
        case (
            cst.DictElement() | cst.Element() | cst.IfExp() | cst.Lambda() | cst.BooleanOperation()
        ):
            return True
        case _:
            return False


def _writes(home: Program, word: str, function: cst.FunctionDef) -> bool:
    """Whether a file writes a name that a call of a function may have as a keyword.

    ``f(word=1)``, or ``{"word": 1}`` and ``"--word"``, for what calls hide behind stars.
    """
    keywords = (
        arg
        for arg in home.index.of(cst.Arg)
        if arg.keyword is not None and arg.keyword.value == word
    )
    if any(not _is_for_others(home, home.parent(arg), word, function) for arg in keywords):
        return True
    texts = (literal(text) or "" for text in home.index.of(cst.SimpleString))
    return any(text.lstrip("-").replace("-", "_") == word for text in texts)


def _is_for_others(
    home: Program, call: cst.CSTNode | None, word: str, function: cst.FunctionDef
) -> bool:
    """Whether a call runs another function, one that has a parameter of a name itself."""
    found = callee(home, call) if isinstance(call, cst.Call) else None
    if found is None or found[1] is function:
        return False
    params = found[1].params
    return any(one.name.value == word for one in (*params.params, *params.kwonly_params))
