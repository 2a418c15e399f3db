"""Stores: attributes and items, and what containers are given later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Class, Dictionary, File, Instance, Object, Sequence, Text

if TYPE_CHECKING:
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Value


def store(run: Run, target: cst.BaseExpression, value: Value) -> None:
    """``x.name = value``, ``x[key] = value``."""
    match target:
        case cst.Attribute(value=inner, attr=cst.Name(value=name)):
            _attribute(run, target, run.value(inner), name, value)
        case cst.Subscript(value=inner):
            whole = run.value(inner)
            parts = [element.slice for element in target.slice]
            keys = [run.value(part.value) for part in parts if isinstance(part, cst.Index)]
            _item(run, target, whole, keys, value)


def _attribute(run: Run, target: cst.Attribute, owner: Value, name: str, value: Value) -> None:
    at, evaluation = run.at(target), run.evaluation
    for one in owner:
        match one:
            case Instance(cls=home) | Class(at=home):
                run.give(evaluation.attribute(home, name), at, value)
            case Object(call=made) | Dictionary(made=made) if made is not None:
                run.give(evaluation.attribute(made, name), at, value)
            case File(file=file):
                cell = evaluation.global_name(file, name)
                if cell is not None:
                    run.give(cell, at, value)


def _item(run: Run, target: cst.Subscript, whole: Value, keys: list[Value], value: Value) -> None:
    at = run.at(target)
    for one in whole:
        match one:
            case Dictionary(made=made) if made is not None:
                match keys:
                    case [(Text(value=str(key)),)]:
                        run.give(run.evaluation.entry_cell(made, key), at, value)
                    case _:
                        run.give(run.evaluation.elements(made), at, value)
            case Sequence(made=made) if made is not None:
                run.give(run.evaluation.elements(made), at, value)
