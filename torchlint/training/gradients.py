"""Gradients by hand: where files read them, fill them, share them, or zero them in a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Parameters
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value
    from torchlint.syntax.module import Module

GRADIENTS = ("grad", "_grad")
WRITES = ("add_", "sub_", "copy_")
# What may return the memory that it is called on, and what gives a part of it.
SAME = frozenset({"detach", "to", "cpu", "cuda", "contiguous", "requires_grad_"})
VIEWS = frozenset({"view", "view_as", "narrow", "reshape", "as_strided"})


@dataclass(frozen=True, slots=True, eq=False)
class Zeroing:
    """A loop that only zeroes gradients; ``over`` is what it goes through."""

    node: cst.For
    over: Value


@dataclass(frozen=True, slots=True)
class ByHand:
    """What files do with gradients by hand, but for loops that zero them.

    ``reads``: one is read that may be None.  ``fills``: one is written into, or is a part of a
    larger tensor.  ``shares``: two parameters have the same one.
    """

    reads: bool
    fills: bool
    shares: bool


def by_hand(evaluation: Evaluation) -> ByHand:
    """Look at every gradient of the connected files."""
    found: list[tuple[Module, cst.Attribute]] = []
    for file, module in enumerate(evaluation.files.modules):
        if not any(name in module.index.named for name in GRADIENTS):
            continue
        loops = [loop.node for loop in zeroing(evaluation, file)]
        found += [
            (module, node)
            for node in module.index.of(cst.Attribute)
            if node.attr.value in GRADIENTS and not _is_function(evaluation, module, node)
            if not any(module.index.inside(node, loop) for loop in loops)
        ]
    return ByHand(
        any(
            not _is_stored(module, node) and not is_checked(module, node) for module, node in found
        ),
        any(_fills(module, node) for module, node in found),
        any(_shares(module, node) for module, node in found),
    )


def _is_function(evaluation: Evaluation, module: Module, node: cst.Attribute) -> bool:
    """``torch.autograd.grad`` and other functions of that name."""
    above = module.parent(node)
    is_called = isinstance(above, cst.Call) and above.func is node
    value = evaluation.value(node)
    return is_called or any(isinstance(one, Library) for one in value)


def _is_stored(module: Module, node: cst.Attribute) -> bool:
    above = module.parent(node)
    if isinstance(above, cst.AnnAssign):
        return above.target is node
    return isinstance(above, (cst.AssignTarget, cst.Del))


def _assigned(module: Module, node: cst.Attribute) -> cst.BaseExpression | None:
    """Return what is assigned to a gradient, or to its data."""
    above = module.parent(node)
    if isinstance(above, cst.Attribute) and above.attr.value == "data":
        return _assigned(module, above)
    statement = module.parent(above) if isinstance(above, cst.AssignTarget) else None
    return statement.value if isinstance(statement, cst.Assign) else None


def _fills(module: Module, node: cst.Attribute) -> bool:
    above = module.parent(node)
    match above:
        case cst.AugAssign(target=target):
            return target is node
        case cst.Subscript():
            return isinstance(module.parent(above), (cst.AssignTarget, cst.AugAssign))
        case cst.Attribute(attr=cst.Name(value="data")):
            return _fills(module, above)
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in WRITES
    match _assigned(module, node):
        case cst.Subscript():
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in VIEWS
    return False


def _shares(module: Module, node: cst.Attribute) -> bool:
    """``shared.grad = local.grad``: zeros in one are zeros in the other."""
    given = _assigned(module, node)
    while given is not None:
        match given:
            case cst.Call(func=cst.Attribute(value=inner, attr=attr)) if attr.value in SAME:
                given = inner
            case cst.Attribute(value=inner, attr=cst.Name(value="data")):
                given = inner
            case cst.IfExp(body=inner):
                given = inner
            case cst.Attribute(value=owner, attr=attr) if attr.value in GRADIENTS:
                return module.code(owner) != module.code(node.value)
            case _:
                return False
    return False


# -- checks for None


def is_checked(module: Module, node: cst.Attribute) -> bool:
    """Whether a gradient is only read where it is none that is None, or is asked for that."""
    code = module.code(node)
    child: cst.CSTNode = node
    for above in module.index.ancestors(node):
        match above:
            case cst.If(test=test) | cst.IfExp(test=test) | cst.While(test=test):
                if child is test:
                    return test is node or _says(module, test, code, truth=True)
                is_else = child is not above.body
                if _says(module, test, code, truth=not is_else):
                    return True
            case cst.Assert(test=test) if child is test and _says(module, test, code, truth=True):
                return True
            case cst.BooleanOperation(left=left, operator=operator):
                if child is above.right and _says(
                    module, left, code, truth=isinstance(operator, cst.And)
                ):
                    return True
            case cst.Comparison(comparisons=[cst.ComparisonTarget(comparator=cst.Name("None"))]):
                return True
            case cst.Call(func=cst.Name(value="hasattr" | "getattr")):
                return True
            case cst.ListComp() | cst.SetComp() | cst.GeneratorExp() | cst.DictComp():
                inner: cst.CompFor | None = above.for_in
                while inner is not None:
                    if any(_says(module, one.test, code, truth=True) for one in inner.ifs):
                        return True
                    inner = inner.inner_for_in
            case cst.Try(body=body) if child is body:
                return True
            case cst.IndentedBlock() if _left(module, above, child, code):
                return True
            case cst.FunctionDef():
                return False
        child = above
    return False


def _left(module: Module, block: cst.IndentedBlock, child: cst.CSTNode, code: str) -> bool:
    """``if p.grad is None: continue``, and ``assert p.grad is not None``, further up."""
    for statement in block.body:
        if statement is child:
            break
        match statement:
            case cst.SimpleStatementLine(body=[cst.Assert(test=test)]):
                if _says(module, test, code, truth=True):
                    return True
            case cst.If(test=test, body=cst.BaseSuite(body=[*_, last])):
                inner = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
                leaves = isinstance(inner, (cst.Continue, cst.Return, cst.Raise, cst.Break))
                if leaves and _says(module, test, code, truth=False):
                    return True
    return False


def _says(module: Module, test: cst.BaseExpression, code: str, *, truth: bool) -> bool:
    """Whether a condition, where it is this, says that something is not None."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _says(module, inner, code, truth=not truth)
        case cst.BooleanOperation(left=left, operator=operator, right=right):
            sides = [_says(module, side, code, truth=truth) for side in (left, right)]
            return any(sides) if isinstance(operator, cst.And) is truth else all(sides)
        case cst.Comparison(
            left=left,
            comparisons=[cst.ComparisonTarget(operator=operator, comparator=cst.Name("None"))],
        ):
            return isinstance(operator, cst.IsNot) is truth and module.code(left) == code
        case cst.Call(func=cst.Name(value="hasattr"), args=[cst.Arg(value=owner), *_]):
            return truth and module.code(owner) == code
    return truth and module.code(test) == code


# -- loops that zero


def zeroing(evaluation: Evaluation, file: int) -> Iterator[Zeroing]:
    """Yield loops such as ``for p in model.parameters(): p.grad.zero_()``."""
    module = evaluation.module(file)
    if "grad" not in module.index.named:
        return
    for loop in module.index.of(cst.For):
        if isinstance(loop.target, cst.Name) and loop.orelse is None:
            over = evaluation.value(loop.iter)
            grad = f"{loop.target.value}.grad"
            if _are_parameters(over, loop.iter) and _zeroes(
                evaluation, module, loop.body.body, grad
            ):
                yield Zeroing(loop, over)


def _are_parameters(over: Value, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="parameters"))):
            return True
        case cst.Call(func=cst.Name(value="list" | "filter"), args=[*_, cst.Arg(value=inner)]):
            return _are_parameters(over, inner)
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Index(cst.SimpleString() as key))]
        ):
            return key.evaluated_value == "params"
    return any(isinstance(one, Parameters) for one in over)


def _zeroes(evaluation: Evaluation, module: Module, body: Sequence[cst.CSTNode], grad: str) -> bool:
    """Whether statements zero the gradient and do nothing else."""
    for statement in body:
        match statement:
            case cst.If(test=test, body=cst.BaseSuite(body=block), orelse=None):
                is_so = _says(module, test, grad, truth=True)
                if not is_so or not _zeroes(evaluation, module, block, grad):
                    return False
            case cst.SimpleStatementLine(body=block):
                if not _zeroes(evaluation, module, block, grad):
                    return False
            case cst.Expr(cst.Call(func=cst.Attribute(value=target, attr=attr), args=args)):
                texts = [module.code(arg.value) for arg in args]
                is_zero = attr.value == "zero_" or (attr.value, texts) in (
                    ("fill_", ["0"]), ("fill_", ["0.0"]), ("detach_", []),
                    ("requires_grad_", ["False"]),
                )  # fmt: skip
                if not is_zero or dotted(target) not in (grad, f"{grad}.data"):
                    return False
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=cst.Call(func=func)):
                made = evaluation.value(func)
                if dotted(target) != grad or made != (Library("torch.zeros_like"),):
                    return False
            case _:
                return False
    return bool(body)
