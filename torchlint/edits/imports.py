"""Giving a file an import that a fix needs, in the file's own style."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.syntax.line_layout import (
    above_comments,
    below_comments,
    newline_at,
    whole_lines,
)
from torchlint.syntax.places import locate
from torchlint.syntax.text import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchlint.syntax.module import Module
    from torchlint.syntax.places import Places

MAX_LINE = 100

Top: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement


def nodes(module: Module) -> Iterable[cst.CSTNode]:
    """Return the top-level statements that tell where an import goes."""
    for statement in module.tree.body:
        if is_import(statement):
            yield statement
            for node in _simple_imports(statement):
                yield node
                if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
                    yield from node.names
    yield from module.tree.body[:2]


def add(places: Places, wanted: Iterable[tuple[str, str | None]]) -> Sequence[Edit]:
    """Return the edits that import each module, or a name from it, where the file does not."""
    body = places.module.tree.body
    simple = [node for statement in body for node in _simple_imports(statement)]
    edits: list[Edit] = []
    lines: dict[int, tuple[cst.CSTNode | None, list[str]]] = {}
    spots: dict[int, Edit] = {}
    for module, name in dict.fromkeys(wanted):
        if any(_imports(node, module, name) for node in simple):
            continue
        if name and (edit := _join(places, simple, module, name)):
            edits.append(edit)
            continue
        run = _run(body, module)
        above = run[-1] if run else None
        code = f"from {module} import {name}" if name else f"import {module}"
        if name is None and (spot := _among_standard(places, run, module)):
            before = spots.get(spot.start)
            spots[spot.start] = _both(before, spot) if before else spot
            continue
        lines.setdefault(id(above), (above, []))[1].append(code)
    for above, codes in lines.values():
        edits.append(_below(places, above, codes) if above else _at_head(places, codes))
    return [*edits, *spots.values()]


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
        text = module.text[
            module.text.rfind("\n", 0, locate(module, [line]).span(line).start) + 1 :
        ]
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


def _simple_imports(statement: cst.CSTNode) -> list[cst.Import | cst.ImportFrom]:
    if not isinstance(statement, cst.SimpleStatementLine):
        return []
    return [small for small in statement.body if isinstance(small, cst.Import | cst.ImportFrom)]


def _imports(node: cst.Import | cst.ImportFrom, module: str, name: str | None) -> bool:
    """Whether the import binds what is wanted under its own name."""
    if isinstance(node, cst.Import):
        dotted = [_dotted(alias.name) for alias in node.names if alias.asname is None]
        wanted = module.split(".")
        return name is None and any(_starts_with(found, wanted) for found in dotted)
    if name is None or isinstance(node.names, cst.ImportStar) or _origin(node) != module:
        return False
    return any(alias.asname is None and alias.evaluated_name == name for alias in node.names)


def _starts_with(found: list[str], wanted: list[str]) -> bool:
    return found[: len(wanted)] == wanted


def _dotted(node: cst.BaseExpression | None) -> list[str]:
    names: list[str] = []
    while isinstance(node, cst.Attribute):
        names.append(node.attr.value)
        node = node.value
    if isinstance(node, cst.Name):
        names.append(node.value)
    return names[::-1]


def _origin(node: cst.ImportFrom) -> str:
    return "." * len(node.relative) + ".".join(_dotted(node.module))


def _join(
    places: Places, simple: list[cst.Import | cst.ImportFrom], module: str, name: str
) -> Edit | None:
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
            found |= {_dotted(alias.name)[0] for alias in node.names}
        elif not node.relative:
            found.add(_dotted(node.module)[0])
    return found


def _plain_part(run: list[cst.CSTNode]) -> list[cst.CSTNode]:
    """Return the imports up to the last unconditional one that is not from ``__future__``."""
    for at in range(len(run), 0, -1):
        packages = _packages(run[at - 1])
        if packages and packages != {"__future__"}:
            return run[:at]
    return run


def _among_standard(places: Places, run: Sequence[cst.CSTNode], module: str) -> Edit | None:
    """Return where a module of the standard library goes: in order, in the section of its kind.

    Where the imports are not kept apart by empty lines there is no such place.
    """
    sections = _sections(places, run)
    kinds = [
        {_is_standard(package) for one in part for package in _packages(one)} for part in sections
    ]
    if not _is_standard(module) or any(len(kind) != 1 for kind in kinds):
        return None
    at = next((at for at, kind in enumerate(kinds) if kind == {True}), None)
    if at is not None:
        return _in_order(places, sections[at], module)
    first = sections[0][0]
    if not all(isinstance(one, cst.SimpleStatementLine) for one in sections[0]):
        return None
    edit = _above(places, first, module)
    newline = newline_at(places, edit.start)
    return Edit(edit.start, edit.end, edit.content + newline)


def _sections(places: Places, run: Sequence[cst.CSTNode]) -> list[list[cst.CSTNode]]:
    """Return the imports that stand together, less those from ``__future__``."""
    sections: list[list[cst.CSTNode]] = []
    apart = True
    for one in run:
        above = getattr(places.module.concrete.of(one), "leading_lines", ())
        apart = apart or any(line.comment is None for line in above)
        if _packages(one) == {"__future__"}:
            apart = True
            continue
        if apart:
            sections.append([])
        sections[-1].append(one)
        apart = False
    return sections


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _in_order(places: Places, section: Sequence[cst.CSTNode], module: str) -> Edit | None:
    """Return the edit that puts ``import module`` where the alphabet has it."""
    below: cst.CSTNode | None = None
    for one in section:
        if not isinstance(one, cst.SimpleStatementLine):
            return None
        match one.body:
            case [cst.Import(names=[cst.ImportAlias(name=name), *_])] if (
                ".".join(_dotted(name)) < module
            ):
                below = one
    if below is not None:
        return _below(places, below, [f"import {module}"])
    return _above(places, section[0], module)


def _above(places: Places, statement: cst.CSTNode, module: str) -> Edit:
    lines = whole_lines(places, statement, statement)
    start = above_comments(places.text, lines, places.full(statement).start)
    return Edit(start, start, f"import {module}{newline_at(places, lines.start)}")


def _both(first: Edit, second: Edit) -> Edit:
    """Return the edit that imports two modules at one place, in the order of the alphabet."""
    codes = sorted(f"{code.rstrip()}\n" for code in (first.content, second.content))
    newline = "\r\n" if "\r\n" in first.content else "\n"
    tail = newline if first.content.endswith(newline * 2) else ""
    return Edit(first.start, first.end, "".join(codes).replace("\n", newline) + tail)


def _below(places: Places, statement: cst.CSTNode, codes: list[str]) -> Edit:
    lines = whole_lines(places, statement, statement)
    end = lines.end
    if isinstance(statement, cst.BaseCompoundStatement):
        end = below_comments(places.text, lines)
    newline = newline_at(places, lines.start)
    code = newline.join(codes)
    if places.text[end - 1] in "\r\n":
        return Edit(end, end, code + newline)
    return Edit(end, end, newline + code)


def _at_head(places: Places, codes: list[str]) -> Edit:
    """Return the edit for a file without imports: below its docstring, or at its first code."""
    module = places.module.tree
    first = module.body[0]
    newline = newline_at(places, places.span(first).start)
    if module.get_docstring(clean=False) is not None:
        edit = _below(places, first, codes)
        return Edit(edit.start, edit.end, newline + edit.content)
    lines = whole_lines(places, first, first)
    start = above_comments(places.text, lines, places.full(first).start)
    return Edit(start, start, newline.join(codes) + newline * 2)
