"""Values of which all that is used are numbers, labels and shapes: nobody follows their graph."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.asked import ASKING, differentiates
from torchlint.analysis.attached import (
    DISTRIBUTIONS,
    GRAPH_METHODS,
    Held,
    held,
    is_distribution,
)
from torchlint.analysis.reach import callee, received
from torchlint.analysis.uses import uses_of
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

# Attributes that say what a tensor is like, and nothing of what it holds.
LOOKS = frozenset({"shape", "device", "dtype", "size", "dim", "ndim"})
# Functions that read a value, and keep nothing of it.
_READS = frozenset("print int float bool str len round isinstance".split())
# Functions that do nothing to what they are given.
_PLAIN = _READS - {"print"} | frozenset("range zip enumerate list tuple min max sum abs".split())
# Methods that give parts of a tensor.
_PARTS = frozenset("split chunk unbind narrow".split())
# Names of functions that compute a number from an output: what they give is followed.
_MEASURES = re.compile(r"loss|criteri|accuracy|acc$|metric|score|error|nll", re.IGNORECASE)
_SPACES = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")
# What a value is part of, without anything happening to it.
_AROUND = (
    cst.Arg, cst.BinaryOperation, cst.Element, cst.IfExp, cst.Index, cst.List, cst.Subscript,
    cst.SubscriptElement, cst.Tuple, cst.UnaryOperation,
)  # fmt: skip
_ENDS = (
    cst.Assert, cst.Comparison, cst.Expr, cst.FormattedStringExpression, cst.If, cst.While,
)  # fmt: skip


def only_read(program: Program, node: cst.BaseExpression, *, surely: bool = False) -> bool:
    """Whether a value is used, and each of its uses ends in something that has no graph.

    What is computed from it is followed through the names of its function: a loss of which the
    number is printed, labels, comparisons.  What goes into an array without `detach()` has none to
    begin with, else it raised; ``surely``: so has what may go there.
    """
    refused = Held.MAYBE if surely else Held.YES
    todo: list[cst.BaseExpression] = [node]
    seen: set[int] = set()
    read = False
    while todo:
        one = todo.pop()
        given = _given(program, one, refused)
        if given is None:
            return False
        read = read or (not given and not _is_idle(program, one))
        for binding in given:
            if id(binding) not in seen:
                seen.add(id(binding))
                todo += (use for use in uses_of(program, binding) if use is not binding.node)
    return read


def _is_idle(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a use does nothing with a value, or asks for its shape alone."""
    above = program.parent(node)
    looks = isinstance(above, cst.Attribute) and above.attr.value in LOOKS
    return looks or isinstance(above, cst.Expr)


def _given(program: Program, node: cst.BaseExpression, refused: Held) -> list[Binding] | None:
    """Return the names that get what an expression is part of: none where its graph ends there.

    None where it may go anywhere.
    """
    child: cst.CSTNode = node
    place: int | None = None  # in a tuple that is taken apart
    for above in program.index.ancestors(node):
        if isinstance(above, cst.Assign):
            return _names(program, _targets(above, place))
        if isinstance(above, cst.AugAssign):
            return _names(program, [above.target])
        if isinstance(above, cst.Call) and (
            _asks(program, above) or _refuses(program, above, refused)
        ):
            return None
        if isinstance(above, _ENDS) or _is_without(program, above):
            return []
        if isinstance(above, cst.Call) and _ends_in(program, above, child):
            return []
        if not _passes(program, child, above):
            return None
        if isinstance(above, cst.Tuple):
            place = next(i for i, one in enumerate(above.elements) if one is child)
        elif not isinstance(above, cst.Element):
            place = None
        child = above
    return None


def _asks(program: Program, call: cst.Call) -> bool:
    """Whether a call asks for gradients: by its name, or in the function that it runs."""
    found = callee(program, call)
    if found is not None:
        return differentiates(*found)
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ASKING


def _refuses(program: Program, call: cst.Call, least: Held) -> bool:
    """``y.cpu().numpy()`` of what has not been detached: it raises where that is recorded."""
    match call.func:
        case cst.Attribute(value=of, attr=cst.Name("numpy")):
            return held(program, of) >= least
        case _:
            return False


def _ends_in(program: Program, call: cst.Call, arg: cst.CSTNode) -> bool:
    """Whether the function that a call runs is seen to use an argument where its graph ends.

    ``def psnr(img): img = img.data.cpu().numpy(); ...``
    """
    taken = received(program, call, arg.value) if isinstance(arg, cst.Arg) else None
    if taken is None:
        return False
    home, binding = taken
    uses = list(uses_of(home, binding))
    return any(not _is_idle(home, use) for use in uses) and all(
        _is_ended(home, use) for use in uses
    )


def _is_ended(program: Program, use: cst.BaseExpression) -> bool:
    """Whether the graph of a value ends in the expression that it is used in."""
    child: cst.CSTNode = use
    for above in program.index.ancestors(use):
        if isinstance(above, _ENDS) or _is_without(program, above):
            return True
        if isinstance(above, cst.Call | cst.BaseStatement) and not _passes(program, child, above):
            return False
        child = above
    return False


def _targets(assign: cst.Assign, place: int | None) -> list[cst.BaseExpression]:
    """Return what a statement gives a value to, or a part of it that is taken apart."""
    targets: list[cst.BaseExpression] = [one.target for one in assign.targets]
    if len(targets) == 1 and isinstance(targets[0], cst.Tuple) and place is not None:
        return [targets[0].elements[place].value]
    return targets


def _names(program: Program, targets: list[cst.BaseExpression]) -> list[Binding] | None:
    """Return the names that are given a value; None where it is kept otherwise."""
    for target in targets:
        kept = (
            program.index.below(target, cst.Attribute),
            program.index.below(target, cst.Subscript),
        )
        if any(True for nodes in kept for _ in nodes):
            return None
    return list(_bound(program, targets))


def _bound(program: Program, targets: Iterable[cst.CSTNode]) -> Iterator[Binding]:
    for target in targets:
        for name in program.index.below(target, cst.Name):
            binding = program.index.bound(name)
            if binding is not None:
                yield binding


def _is_without(program: Program, node: cst.CSTNode) -> bool:
    """Whether an expression is known to hold no graph, of whatever it is computed."""
    if isinstance(node, cst.Attribute) and node.attr.value in LOOKS:
        return True
    if not isinstance(node, cst.Attribute | cst.Call | cst.Subscript):
        return False
    # what returns nothing may have put it somewhere
    return program.value(node).kind is not Kind.NONE and held(program, node) is Held.NO


def _passes(program: Program, child: cst.CSTNode, above: cst.CSTNode) -> bool:
    """Whether what is above a value in the tree is computed from it, and no more is done."""
    if isinstance(above, cst.Attribute):
        return child is above.value
    if not isinstance(above, cst.Call):
        return isinstance(above, _AROUND)
    func = above.func
    if child is func:
        return isinstance(func, cst.Attribute) and (
            func.attr.value in GRAPH_METHODS or is_distribution(program, func.value)
        )
    return _computes(program, above)


def _computes(program: Program, call: cst.Call) -> bool:
    """Whether a function only computes something from what it is given, or reads that."""
    func = call.func
    name = program.qualified(func)
    if name.startswith("torch."):
        return name.rpartition(".")[0] in _SPACES or name.startswith(DISTRIBUTIONS)
    if isinstance(func, cst.Name) and func.value in _READS:
        return program.is_builtin(func)
    last = func.attr.value if isinstance(func, cst.Attribute) else dotted(func)
    loss = program.value(func)
    if loss.kind is Kind.MODULE and loss.type.startswith("torch.nn."):
        return loss.type.endswith("Loss")
    if _MEASURES.search(last) is not None:
        return True
    found = callee(program, call)
    return found is not None and _is_pure(*found)


def _is_pure(program: Program, function: cst.FunctionDef) -> bool:
    """Whether a function of the project does nothing but compute what it returns.

    It calls functions of torch, methods of tensors and builtin functions, and changes at most
    lists of its own.
    """
    below = program.index.below
    if function.decorators or program.yields(function) or function.asynchronous is not None:
        return False
    own = _own_lists(program, function)
    targets = [one.target for one in below(function.body, cst.AssignTarget)]
    targets += [one.target for one in below(function.body, cst.AugAssign)]
    if not all(isinstance(one, cst.Name | cst.Tuple) for one in targets):
        return False
    for outer in (cst.Global, cst.Nonlocal):
        if any(True for _ in below(function.body, outer)):
            return False
    return all(_is_pure_call(program, call, own) for call in below(function.body, cst.Call))


def _own_lists(program: Program, function: cst.FunctionDef) -> set[str]:
    """Return the names of the lists that a function starts itself."""
    return {
        dotted(target.target)
        for assign in program.index.below(function.body, cst.Assign)
        if isinstance(assign.value, cst.List)
        for target in assign.targets
    } - {""}


def _is_pure_call(program: Program, call: cst.Call, own: set[str]) -> bool:
    name = program.qualified(call.func)
    if name.startswith("torch."):
        return name.rpartition(".")[0] in _SPACES
    match call.func:
        case cst.Name() as func:
            return func.value in _PLAIN and program.is_builtin(func)
        case cst.Attribute(value=cst.Name(value=kept), attr=cst.Name("append")):
            return kept in own
        case cst.Attribute(attr=cst.Name(value=method)):
            return method in GRAPH_METHODS or method in LOOKS or method in _PARTS
        case _:
            return False
