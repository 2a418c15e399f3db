"""Giving a file an import that a fix needs, in the file's own style."""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.syntax.chains import dotted
from torchlint.syntax.line_layout import put_above, put_below, whole_lines
from torchlint.syntax.places import Places
from torchlint.syntax.text import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchlint.syntax.module import Module

MAX_LINE = 100

Simple: TypeAlias = cst.Import | cst.ImportFrom


def add(places: Places, wanted: Iterable[tuple[str, str | None]]) -> Sequence[Edit]:
    """Return the edits that import each module, or a name from it, where the file does not."""
    tree, index = places.module.tree, places.module.index
    found: list[Simple] = [*index.of(cst.Import), *index.of(cst.ImportFrom)]
    simple = [one for one in found if index.parent(index.parent(one) or one) is tree]
    simple.sort(key=index.order)
    edits: list[Edit] = []
    lines: dict[int, tuple[cst.CSTNode | None, list[str]]] = {}
    for module, name in dict.fromkeys(wanted):
        if any(_imports(node, module, name) for node in simple):
            continue
        if name and (edit := _join(places, simple, module, name)):
            edits.append(edit)
            continue
        run = _run(tree.body, module)
        above = run[-1] if run else None
        code = f"from {module} import {name}" if name else f"import {module}"
        if name is None and (spot := _among_standard(places, run, module)):
            edits.append(spot)
            continue
        lines.setdefault(id(above), (above, []))[1].append(code)
    for above, codes in lines.values():
        edits.append(_below(places, above, codes) if above else _at_head(places, codes))
    return edits


def unneeded(module: Module, name: str) -> cst.Import | None:
    """Return the statement that imports a module which nothing uses but for one place.

    None where it is not alone on its line, has a comment, or may be meant by its name elsewhere.
    """
    names = module.index.named.get(name, [])
    if len(names) != 2:
        return None
    for statement in module.index.of(cst.Import):
        line = module.parent(statement)
        imported = [alias.evaluated_name for alias in statement.names if alias.asname is None]
        if imported != [name] or not isinstance(line, cst.SimpleStatementLine):
            continue
        text = module.text[module.text.rfind("\n", 0, Places(module).span(line).start) + 1 :]
        if len(line.body) == 1 and text.split("\n", 1)[0].strip() == f"import {name}":
            strings = (one.value[1:-1] for one in module.index.of(cst.SimpleString))
            is_top = isinstance(module.parent(line), cst.Module)
            return statement if is_top and name not in strings else None
    return None


def is_import(statement: cst.CSTNode) -> bool:
    """Whether a statement does nothing but import, perhaps under ``try`` or ``if``."""
    match statement:
        case cst.SimpleStatementLine(body=body):
            return any(isinstance(small, cst.Import | cst.ImportFrom) for small in body)
        case cst.Try(body=cst.IndentedBlock(body=body)):  # perhaps with `HAS_IT = True`
            return any(is_import(inner) for inner in body)
        case cst.If(body=cst.IndentedBlock(body=body)):
            return all(is_import(inner) for inner in body)
    return False


def _simple_imports(statement: cst.CSTNode) -> list[Simple]:
    if not isinstance(statement, cst.SimpleStatementLine):
        return []
    return [small for small in statement.body if isinstance(small, cst.Import | cst.ImportFrom)]


def _imports(node: Simple, module: str, name: str | None) -> bool:
    """Whether the import binds what is wanted under its own name."""
    if isinstance(node, cst.Import):
        found = [dotted(alias.name) for alias in node.names if alias.asname is None]
        return name is None and any(f"{one}.".startswith(f"{module}.") for one in found)
    if name is None or isinstance(node.names, cst.ImportStar) or _origin(node) != module:
        return False
    return any(alias.asname is None and alias.evaluated_name == name for alias in node.names)


def _origin(node: cst.ImportFrom) -> str:
    return "." * len(node.relative) + (dotted(node.module) if node.module else "")


def _join(places: Places, simple: list[Simple], module: str, name: str) -> Edit | None:
    """Return the edit that puts the name behind those of a simple ``from module import ...``."""
    for node in simple:
        if not isinstance(node, cst.ImportFrom) or _origin(node) != module:
            continue
        span = places.span(node)
        text = places.text[span.start : span.end]
        if (
            text.endswith(")")
            or isinstance(node.names, cst.ImportStar)
            or "\n" in text
            or "\r" in text
        ):
            continue
        if len(text) + len(name) + 2 <= MAX_LINE:
            return _in_their_order(places, node.names, name) or Edit(
                span.end, span.end, f", {name}"
            )
    return None


def _in_their_order(places: Places, aliases: Sequence[cst.ImportAlias], name: str) -> Edit | None:
    """Return the edit that puts a name before the first that comes after it, if they are sorted."""
    names = [alias.evaluated_name for alias in aliases]
    if names != sorted(names, key=_rank):
        return None
    after = next((one for one in aliases if _rank(one.evaluated_name) > _rank(name)), None)
    if after is None:
        return None
    start = places.full(after).start
    return Edit(start, start, f"{name}, ")


def _rank(name: str) -> tuple[int, str]:
    """Constants come first, then classes, then the rest, as isort and ruff sort them."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name)


def _run(body: Sequence[cst.CSTNode], module: str) -> list[cst.CSTNode]:
    """Return the block of imports that the new one joins.

    It is the one that imports the same package first, because what stands above it (say, an
    environment variable set before ``import torch``) may have to stay above; else the first.
    Only the part from the first plain import counts, when there is one.
    """
    runs: list[list[cst.CSTNode]] = [[]]
    for statement in body:
        if is_import(statement):
            runs[-1].append(statement)
        elif runs[-1]:
            runs.append([])
    package = module.lstrip(".").split(".")[0]
    for run in runs:
        if any(package in _packages(statement) for statement in run):
            return _plain_part(run)
    return _plain_part(runs[0])


def _packages(statement: cst.CSTNode) -> set[str]:
    found: set[str] = set()
    for node in _simple_imports(statement):
        if isinstance(node, cst.Import):
            found |= {dotted(alias.name).partition(".")[0] for alias in node.names}
        elif node.module and not node.relative:
            found.add(dotted(node.module).partition(".")[0])
    return found


def _plain_part(run: list[cst.CSTNode]) -> list[cst.CSTNode]:
    """Return the imports up to the last unconditional one that is not from ``__future__``."""
    for at in range(len(run), 0, -1):
        packages = _packages(run[at - 1])
        if packages and packages != {"__future__"}:
            return run[:at]
    return run


def _among_standard(places: Places, run: Sequence[cst.CSTNode], module: str) -> Edit | None:
    """Return where a module of the standard library goes: to the first of them, by the alphabet.

    Where there are none it gets a section of its own, above the others.
    """
    plain = [one for one in run if _packages(one) != {"__future__"}]
    if not _is_standard(module) or not plain or not _simple_imports(plain[0]):
        return None
    head = list(takewhile(lambda one: all(map(_is_standard, _packages(one) or {""})), plain))
    below = [one for one in head if _plain_name(one) < module]
    if below:
        return _below(places, below[-1], [f"import {module}"])
    lines = whole_lines(places, plain[0], plain[0])
    return put_above(places, plain[0], lines, f"import {module}", apart=not head)


def _plain_name(statement: cst.CSTNode) -> str:
    """Return what ``import a.b`` imports; what is written in another way comes last."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Import(names=[cst.ImportAlias(name=name), *_])]):
            return dotted(name)
    return "~"


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _below(places: Places, statement: cst.CSTNode, codes: list[str]) -> Edit:
    lines = whole_lines(places, statement, statement)
    return put_below(places, statement, lines, "\n".join(codes))


def _at_head(places: Places, codes: list[str]) -> Edit:
    """Return the edit for a file without imports: below its docstring, or at its first code."""
    module = places.module.tree
    first = module.body[0]
    lines = whole_lines(places, first, first)
    if module.get_docstring(clean=False) is not None:
        return put_below(places, first, lines, "\n".join(codes), apart=True)
    return put_above(places, first, lines, "\n".join(codes), apart=True)
