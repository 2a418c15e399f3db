"""Whether a list of devices, such as ``device_ids``, is one device."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.options import is_held_to_one, option_default
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_DEPTH = 8
_ONE_GPU = re.compile(r"torch\.cuda\.device_count\(\)\s*(?:==\s*1|<=\s*1|<\s*2)")


def is_one_device(program: Program, node: cst.CSTNode | None, depth: int = 0) -> bool:
    """``[0]``, ``(rank,)``, ``range(1)``, and names of these.

    A parameter is what the calls that are seen pass, and what it is where they pass nothing.
    """
    match node:
        case _ if depth > _DEPTH:
            return False
        case cst.List(elements=[cst.Element()]) | cst.Tuple(elements=[cst.Element()]):
            return True
        case cst.Call(func=cst.Name("range"), args=[cst.Arg(cst.Integer(count))]):
            return int(count, 0) < 2
        case cst.Call(func=cst.Name("range"), args=[cst.Arg(cst.Attribute(attr=count))]):
            return is_held_to_one(program, count.value)
        case cst.Call(func=cst.Name("list"), args=[arg]):
            return is_one_device(program, arg.value, depth + 1)
        case cst.Name():
            bindings = program.flow.reaching(node)
            return bool(bindings) and all(_is_one(program, one, depth) for one in bindings)
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
            owner = program.classes.around(node)
            stores = [] if owner is None else program.classes.stores(owner, name)
            return bool(stores) and all(
                not store.path and is_one_device(program, store.value, depth + 1)
                for store in stores
            )
        case _:
            return False


def asserts_one(program: Program) -> bool:
    """``assert torch.cuda.device_count() == 1``: a file that runs on one GPU alone."""
    return "device_count" in program.text and any(
        _ONE_GPU.fullmatch(program.code(one.test)) is not None
        for one in program.index.of(cst.Assert)
    )


def _is_one(program: Program, binding: Binding, depth: int) -> bool:
    match binding.kind, binding.value:
        case Bind.ASSIGN, value if not binding.path:
            return is_one_device(program, value, depth + 1)
        case Bind.PARAMETER, cst.Param() as param:
            passed = list(_passed(program, param))
            return bool(passed) and all(
                is_one_device(home, node, depth + 1) for home, node in passed
            )
        case _:
            return False


def _passed(program: Program, param: cst.Param) -> Iterator[tuple[Program, cst.BaseExpression]]:
    if param.default is not None:
        yield program, param.default
    function = program.parent(program.parent(param) or param)
    if isinstance(function, cst.FunctionDef):
        for node in program.calls.arguments(function, param):
            yield program, node
        if program.project is not None:
            yield from program.project.passed(program, function, param)


def sees_one(program: Program) -> bool:
    """Whether a file shows itself a single GPU, unless it is told to show more."""
    if "CUDA_VISIBLE_DEVICES" not in program.text:
        return False
    return any(
        isinstance(one.targets[0].target, cst.Subscript)
        and "CUDA_VISIBLE_DEVICES" in program.code(one.targets[0].target)
        and by_default_one(program, one.value)
        for one in program.index.of(cst.Assign)
    )


def by_default_one(program: Program, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether an option that names devices names one unless it is told to name more.

    Also in parts: ``list(map(int, args.gpus.split(",")))``.
    """
    match node:
        case _ if depth > _DEPTH:
            return False  # `ids = list(ids)` in a loop leads back to itself
        case cst.SimpleString():
            return (literal(node) or "").strip().isdigit()
        case (
            cst.Call(func=cst.Name("str" | "list"), args=[cst.Arg(value=inner)])
            | cst.Call(func=cst.Name("map"), args=[_, cst.Arg(value=inner)])
            | cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("split")))
            | cst.ListComp(for_in=cst.CompFor(iter=inner))
        ):
            return by_default_one(program, inner, depth + 1)
        case cst.Name():
            made = [one.value for one in program.flow.reaching(node) if one.is_plain]
            given = [one for one in made if literal(one) != "None"]
            return bool(given) and all(
                isinstance(one, cst.Call | cst.ListComp) and by_default_one(program, one, depth + 1)
                for one in given
            )
        case cst.Call(func=cst.Name("range"), args=[cst.Arg(cst.Attribute() as count)]):
            number = option_default(program, count)
            return number is not None and literal(number[1]) in ("0", "1")
        case _:
            pass
    found = option_default(program, node) if isinstance(node, cst.Attribute) else None
    default = None if found is None else found[1]
    if isinstance(default, cst.Integer) or is_one_device(program, default):
        return True
    text = literal(default)
    return text is not None and text.strip().isdigit()
