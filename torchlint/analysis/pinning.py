"""Batches that gain little from pinned memory: arrays, labels, and very small samples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.evaluations import evaluations
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.loops import Role, ends_script
from torchlint.analysis.sample_dtypes import is_float
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind, Binding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.loaders import Move
    from torchlint.analysis.program import Program

_LABEL = re.compile(
    r"(?:^|_)(?:y|labels?|lbls?|targets?|tgts?|gt|actions?|classes|class_ids?)(?:_\w{1,2})?$"
    r"|^(?:index|idx)$",
    re.IGNORECASE,
)
# `batch_data_label` holds both.
_BOTH = re.compile(r"(?:^|_)data_(?:and_)?[a-z]+$", re.IGNORECASE)
# 3 KB a sample and less.
_CONVERTS = frozenset({"float", "double", "half", "bfloat16", "long", "int", "type"})
_VIEWS = frozenset({"view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "flatten",
                    "detach", "contiguous"})  # fmt: skip
_PERMUTES = frozenset({"permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims"})
# Methods, and functions of torch, that put what they pick or join into new memory.
_GATHERS = frozenset({"gather", "take", "take_along_dim", "index_select", "masked_select", "repeat",
                      "repeat_interleave", "cat", "concat", "concatenate", "stack", "hstack",
                      "vstack", "sort", "argsort", "topk", "flip", "roll"})  # fmt: skip
_INDICES = frozenset({Kind.TENSOR, Kind.NDARRAY, Kind.LIST})
_DEPTH = 6  # names and calls that a tensor goes through
_TEXT = re.compile(r"vocab|tokenize|input_ids|\bword2|\bstoi\b", re.IGNORECASE)
_OF_LISTS = ("torch.tensor", "torch.Tensor", "torch.FloatTensor", "numpy.array")
_ARRAYS = ("numpy.array", "numpy.asarray", "numpy.stack", "numpy.concatenate", "numpy.vstack")


def is_called_label(name: str) -> bool:
    """Whether a name is one for labels: a number a sample, as a rule."""
    return _LABEL.search(name) is not None and _BOTH.search(name) is None


def is_converted(program: Program, loader: cst.Call, move: Move) -> bool:
    """Whether what is moved was converted on the host, or gathered: that is in ordinary memory."""
    func = move.node.func
    moved = func.value if isinstance(func, cst.Attribute) else None
    if not _is_converted(move.program or program, moved, _CONVERTS):
        return False
    others = _CONVERTS - {"float"}
    return not _gives_floats(program, loader, move) or _is_converted(
        move.program or program, moved, others
    )


def _gives_floats(program: Program, loader: cst.Call, move: Move) -> bool:
    """Whether what is moved is seen to be floats already, so that ``.float()`` does nothing."""
    found = program.datasets.of_loader(loader)
    if found and move.parts and all(is_float(one, part) for one in found for part in move.parts):
        return program.argument(loader, "collate_fn", LOADER).absent
    homes = {one.program for one in found} | {program}
    return (
        bool(found)
        and all(map(_is_of_images, found))
        and any(any(home.calls_of("torchvision.transforms.ToTensor")) for home in homes)
    )


def _is_of_images(dataset: Dataset) -> bool:
    bases = (base for _, one in dataset.lineage() for base in one.bases)
    return any(base.startswith("torchvision.datasets.") for base in (dataset.type, *bases))


def _is_converted(
    program: Program, node: cst.CSTNode | None, converts: frozenset[str], depth: int = 0
) -> bool:
    if depth > _DEPTH:
        return False
    match node:
        case cst.Name():
            made = program.flow.reaching(node)
            return bool(made) and all(
                one.kind is Bind.ASSIGN and _is_converted(program, _given(one), converts, depth + 1)
                for one in made
            )
        case cst.Call(func=func, args=[cst.Arg(value=inner)]) if (
            program.qualified(func) == "torch.autograd.Variable"
        ):
            return _is_converted(program, inner, converts, depth + 1)
        case cst.Call() | cst.Subscript() if _is_gathered(program, node):
            return True  # on a GPU another move has put the batch there
        case cst.Subscript(value=cst.Name()):
            stored = _stored_above(program, node)
            return stored is not None and _is_converted(program, stored, converts, depth + 1)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=name))):
            if (
                name in converts
                or (name == "to" and _names_dtype(program, node))
                or (_lays_out(node) and _is_permuted(inner))
            ):
                return not program.value(node).device.gpu
            keeps = name in _VIEWS or name in _CONVERTS or _lays_out(node)
            if keeps and _is_converted(program, inner, converts, depth + 1):
                return True
            return _returns_converted(program, node, converts, depth)
        case cst.Call():
            return _returns_converted(program, node, converts, depth)
        case _:
            return False


def _lays_out(call: cst.Call) -> bool:
    """``x.contiguous()`` and ``x.to(memory_format=torch.contiguous_format)``."""
    match call:
        case cst.Call(func=cst.Attribute(attr=cst.Name("contiguous")), args=[]):
            return True
        case cst.Call(
            func=cst.Attribute(attr=cst.Name("contiguous" | "to")),
            args=[cst.Arg(keyword=cst.Name("memory_format"), value=layout)],
        ):
            return dotted(layout).endswith("contiguous_format")
        case _:
            return False


def _is_permuted(node: cst.BaseExpression) -> bool:
    """``x.permute(0, 3, 1, 2)``, whose numbers lie in another order: laid out, it is a copy."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in _PERMUTES
        case _:
            return False


def _returns_converted(
    program: Program, call: cst.Call, converts: frozenset[str], depth: int
) -> bool:
    """Whether a function of the project returns nothing but what it converts."""
    home, function = _function_of(program, call)
    if function is None or home.yields(function):
        return False
    given = [one.value for one in home.returns(function)]
    return bool(given) and all(_is_converted(home, one, converts, depth + 1) for one in given)


def _is_gathered(program: Program, node: cst.Call | cst.Subscript, depth: int = 0) -> bool:
    """``x.gather(1, picked)``, ``x[:, picked]``, and a function that returns nothing else."""
    match node:
        case cst.Subscript(slice=parts):
            return any(_picks(program, part.slice) for part in parts)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if name in _GATHERS:
            known = program.qualified(node.func)
            return not known or known.startswith("torch.")
        case _:
            return depth < _DEPTH and _returns_gathered(program, node, depth)


def _returns_gathered(program: Program, call: cst.Call, depth: int) -> bool:
    home, function = _function_of(program, call)
    if function is None or home.yields(function):
        return False
    given = [one.value for one in home.returns(function)]
    return bool(given) and all(
        isinstance(one, cst.Call | cst.Subscript) and _is_gathered(home, one, depth + 1)
        for one in given
    )


def _function_of(program: Program, call: cst.Call) -> tuple[Program, cst.FunctionDef | None]:
    """Return the function of the project that a call runs, with its file."""
    function = program.calls.target(call)
    if function is None and (other := program.calls.elsewhere(call)) is not None:
        return other.program, other.function
    return program, function


def _picks(program: Program, part: cst.BaseSlice) -> bool:
    """Whether an index is a tensor or a list: an integer or a slice gives a view."""
    if not isinstance(part, cst.Index):
        return False
    if not isinstance(part.value, cst.Name):
        return isinstance(part.value, cst.List | cst.Comparison)
    made = program.flow.reaching(part.value)
    return program.value(part.value).kind in _INDICES and all(
        one.kind is Bind.ASSIGN for one in made
    )


def _stored_above(program: Program, node: cst.Subscript) -> cst.BaseExpression | None:
    """Return what stands in an entry since a line above: ``images[i] = images[i][order]``."""
    code, order, found = program.code(node), program.index.order(node), None
    for name in program.index.named.get(dotted(node.value), ()):
        entry = program.parent(name)
        target = program.parent(entry) if isinstance(entry, cst.Subscript) else None
        match program.parent(target) if isinstance(target, cst.AssignTarget) else None:
            case cst.Assign(value=value) if (
                program.index.end(value) < order
                and entry is not None
                and program.function(entry) is program.function(node)
                and program.code(entry) == code
            ):
                found = value
            case _:
                pass
    return found


def _ends(body: cst.BaseSuite) -> bool:
    match body.body:
        case [*_, cst.SimpleStatementLine(body=[*_, cst.Return()])]:
            return True
        case _:
            return ends_script(body)


def _callers(program: Program, loop: cst.For) -> list[Program]:
    """Return the file of a loop, and those that call the function it stands in."""
    function = program.function(loop)
    sites = [] if function is None else program.sites_everywhere(function)
    return [program, *(home for home, _ in sites)]


def _evaluates(program: Program, loop: cst.For) -> bool:
    """Whether a loop evaluates a model, be it that gradients are recorded for nothing."""
    role = program.loops.role(loop)
    recorded = role is Role.OTHER and any(one.place is loop for one in evaluations(program))
    return role is Role.EVAL or recorded


def _given(binding: Binding) -> cst.CSTNode | None:
    """Return what an assignment gives a name, also as one of several."""
    match binding.value, binding.path:
        case value, ():
            return value
        case cst.Tuple(elements=elements), (place,) if place < len(elements):
            return elements[place].value
        case cst.Call() as call, (_,):  # `values, order = torch.sort(x)`
            return call
        case _:
            return None


def _names_dtype(program: Program, call: cst.Call) -> bool:
    """``x.to(torch.float32)``, and nothing of a device."""
    return bool(call.args) and all(program.value(arg.value).kind is Kind.DTYPE for arg in call.args)


def _moved(move: cst.Call) -> str:
    match move:
        case cst.Call(func=cst.Attribute(value=cst.Subscript(value=whole))) if is_called_label(
            dotted(whole).rpartition(".")[2]
        ):
            return dotted(whole).rpartition(".")[2]  # `y[:, -1].to(device)`
        case cst.Call(func=cst.Attribute(value=cst.Subscript(slice=[part]))):
            index = part.slice
            return (literal(index.value) or "") if isinstance(index, cst.Index) else ""
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value="to" | "cuda"))):
            return dotted(value).rpartition(".")[2]
        case _:
            return ""


def _run(
    program: Program, function: cst.FunctionDef | cst.Lambda
) -> Iterator[cst.FunctionDef | cst.Lambda]:
    """Yield a function, and what it calls in its file."""
    yield function
    for call in program.index.below(function, cst.Call):
        target = program.calls.target(call)
        if target is not None:
            yield target
