"""What a setup.py requires, read off its text: it is never run."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_REQUIRING = ("install_requires", "extras_require")


def required(source: bytes) -> Iterator[str]:
    """Yield the lines of all texts in what is required, also of those that names stand for.

    Raises:
        ValueError: the source is not Python 3.

    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, MemoryError) as error:
        raise ValueError(str(error)) from None
    made = _made(tree)
    todo = list(_given(tree))
    while todo:
        for node in ast.walk(todo.pop()):
            match node:
                case ast.Constant(value=str(text)):
                    yield from text.splitlines()
                case ast.Name(id=name):
                    todo += made.pop(name, ())
                case _:
                    pass


def _given(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield what is given for the requirements, in a call or in a dictionary for one."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=name, value=value) if name in _REQUIRING:
                yield value
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value in _REQUIRING:
                        yield value
            case _:
                pass


def _made(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return what each name is given, or has put into it: ``extras["gpu"] = ["torch>=1.8"]``."""
    made: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[target], value=ast.expr() as value):
                pass
            case ast.AugAssign(target=target, value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pass
            case _:
                continue
        match target:
            case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
                made.setdefault(name, []).append(value)
            case _:
                pass
    return made
