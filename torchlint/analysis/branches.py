"""What is only come to where no GPU is used: ``if cuda: ... else: ...``."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.decisions import may_come_to
from torchlint.analysis.dictionaries import literal
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_ASKS = re.compile(r"torch\.(cuda|accelerator)\.is_available")
_ASKS_OTHERS = re.compile(r"torch\.(backends\.mps|mps|xpu)\.is_available")
# Names that say whether a GPU is used; `gpu` by itself may be the number of one.
_USES = re.compile(
    r"(?:(?:use|using|has|have|is|with|on|enable)_?)?cuda(?:_?(?:available|enabled|mode))?|"
    r"(?:use|using|has|have|is|with|on|enable)_?gpus?|gpu_?(?:available|enabled|mode)",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"(?:no|disable|without)_?(?:cuda|gpu)|(?:use_?|is_?|on_?|only_?)?cpu(?:_?only)?", re.IGNORECASE
)
_DEVICE = re.compile(r"device", re.IGNORECASE)
# What a file says that puts anything on a GPU.
_PLACES = re.compile(
    r"\.cuda\(|\.to\(|device|cuda\.\w*Tensor|default_tensor_type|ccelerat|Trainer|DataParallel"
)
_DEPTH = 3


def without_gpu(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node is only come to where no CUDA GPU is used.

    In a branch for that, or after one that is for a GPU and does not run to its end.
    """
    if not may_come_to(program, node, partial(_with_gpu, program)):
        return True
    child = node
    for above in program.index.ancestors(node):
        match above:
            case cst.FunctionDef():
                return False
            case cst.If(test=cst.Comparison(left=cst.Name("__name__"))) if child is above.body:
                return _stays_on_host(program)
            case _:
                child = above
    return False


def _with_gpu(program: Program, test: cst.BaseExpression) -> bool | None:
    """What a condition comes to where a GPU is used; None where other things decide."""
    if _uses_gpu(program, test, holds=True) is False:
        return False
    return True if _uses_gpu(program, test, holds=False) is False else None


def _stays_on_host(program: Program) -> bool:
    """Whether a file that is started by itself puts nothing on a GPU: what imports it may."""
    project, path = program.project, program.path
    if program.frameworks or _PLACES.search(program.text):
        return False
    return project is None or path is None or not project.imports.targets(str(path))


def _uses_gpu(
    program: Program, test: cst.BaseExpression, *, holds: bool, depth: int = 0
) -> bool | None:
    """What follows from a condition that holds, or does not: a GPU is used, is not, or either."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _uses_gpu(program, inner, holds=not holds, depth=depth)
        case cst.BooleanOperation(left=left, right=right):
            sides = [_uses_gpu(program, s, holds=holds, depth=depth) for s in (left, right)]
            if isinstance(test.operator, cst.And) is holds:  # both sides are so
                return sides[1] if sides[0] is None else sides[0]
            return sides[0] if sides[0] == sides[1] else None
        case cst.Call(func=func):
            name = program.qualified(func)
            if _ASKS_OTHERS.fullmatch(name):
                return False if holds else None
            return holds if _ASKS.fullmatch(name) else None
        case cst.Comparison(left=left, comparisons=[only]):
            return _by_comparison(left, only, holds=holds)
        case cst.Name() | cst.Attribute():
            return _by_name(program, test, holds=holds, depth=depth)
        case _:
            return None


def _by_name(
    program: Program, test: cst.Name | cst.Attribute, *, holds: bool, depth: int
) -> bool | None:
    """``use_cuda``, ``args.no_cuda``, or a name for a condition of this kind."""
    last = dotted(test).rpartition(".")[2]
    if _USES.fullmatch(last):
        return holds
    if _REFUSES.fullmatch(last):
        return not holds
    if isinstance(test, cst.Name) and depth < _DEPTH:
        match program.flow.reaching(test):
            case (binding,) if binding.is_plain:
                if isinstance(binding.value, cst.BaseExpression):
                    return _uses_gpu(program, binding.value, holds=holds, depth=depth + 1)
            case _:
                pass
    return None


def _by_comparison(
    left: cst.BaseExpression, only: cst.ComparisonTarget, *, holds: bool
) -> bool | None:
    """``device.type == "cpu"``, ``"cuda" in str(device)``."""
    match only.operator:
        case cst.Equal():
            holds_equal = holds
        case cst.NotEqual():
            holds_equal = not holds
        case cst.In():
            if not _is_device(only.comparator):
                return None
            return _of_kind(literal(left), holds=holds, exact=True)
        case _:
            return None
    exact = dotted(left).endswith(".type")
    return (
        _of_kind(literal(only.comparator), holds=holds_equal, exact=exact)
        if _is_device(left)
        else None
    )


def _is_device(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Name(value="str"), args=[arg]):
            return _is_device(arg.value)
        case _:
            return _DEVICE.search(dotted(node)) is not None


def _of_kind(kind: str | None, *, holds: bool, exact: bool) -> bool | None:
    """What a device of a kind, or of another one, means; ``exact``: whatever its number."""
    if kind == "cpu":
        return not holds
    if kind == "mps":
        return False if holds else None
    if kind is not None and kind.startswith("cuda"):
        return True if holds else (False if exact and kind == "cuda" else None)
    return None
