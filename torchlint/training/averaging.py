"""Loops that keep a moving average of the parameters of a model, one tensor after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Parameters
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.training.script import Script

_TENSORS = frozenset({"parameters", "named_parameters", "buffers", "named_buffers", "state_dict"})
_VIEWS = frozenset({"items", "values", "keys"})
_COPIES = frozenset({"list", "tuple", "dict", "iter", "OrderedDict", "collections.OrderedDict"})
_SAME = frozenset({"detach", "clone"})  # calls that give the values of their tensor
_DEPTH = 4  # lists of lists between a loop and the model that it runs over


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """``target = decay * target + (1 - decay) * source``.

    ``weight`` is the decay, or, where ``of_source``, what it lacks to one; the tensors are known
    by what the loop calls them.
    """

    target: str
    source: str
    weight: cst.BaseExpression
    of_source: bool


@dataclass(frozen=True, slots=True, eq=False)
class Averaging:
    """A loop that updates a moving average; ``alone``: it does nothing else, at no condition."""

    loop: cst.For
    mix: Mix
    alone: bool


def averagings(script: Script) -> Iterator[Averaging]:
    """Yield the loops over the tensors of a model that mix each into its moving average."""
    for loop in script.module.index.of(cst.For):
        mixes = _mixes(script, loop, loop.body.body, alone=loop.orelse is None)
        first = next(mixes, None)  # to read the lines costs less than what the loop runs over
        if first is not None and _over_tensors(script, loop.iter):
            yield Averaging(loop, *first)


# -- what a loop runs over ------------------------------------------------------------------------


def _over_tensors(script: Script, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether something holds the tensors of a model, or their names."""
    if depth > _DEPTH:
        return False
    value = script.value(node) if isinstance(node, cst.BaseExpression) else ()
    if any(isinstance(one, Parameters) for one in value):
        return True
    match node:
        case cst.Name():
            return any(_over_tensors(script, one, depth + 1) for one in _definitions(script, node))
        case cst.Call(func=cst.Name(value="zip" | "enumerate"), args=args):
            return any(_over_tensors(script, arg.value, depth + 1) for arg in args)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name), value=inner)):
            return name in _TENSORS or (name in _VIEWS and _over_tensors(script, inner, depth + 1))
        case cst.Call(func=func, args=[cst.Arg(value=inner)]) if dotted(func) in _COPIES:
            return _over_tensors(script, inner, depth + 1)
        case _:
            return False


def _definitions(script: Script, name: cst.Name) -> Iterator[cst.CSTNode]:
    """Yield what a name is given, also as one of several."""
    owner = script.module.index.scope(name).owner(name.value)
    bindings = script.connected.evaluation.bindings(name)
    for one in bindings or (owner.bindings[name.value] if owner else ()):
        match one.value, one.path:
            case cst.Tuple(elements=elements), (place,) if place < len(elements):
                yield elements[place].value
            case cst.CSTNode() as value, ():
                yield value


def _root(script: Script, node: cst.BaseExpression, loop: cst.For) -> str:
    """Return the tensor of this turn of a loop that an expression gives the values of, or ""."""
    match node:
        case cst.Attribute(value=inner, attr=cst.Name(value="data")):
            return _root(script, inner, loop)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=name)), args=[]):
            return _root(script, inner, loop) if name in _SAME else ""
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Name() as key))]):
            return script.module.brief(node, 10_000) if _is_of_turn(script, key, loop) else ""
        case cst.Name():
            if _is_of_turn(script, node, loop):
                return node.value
            value = _only_value(script, node)
            if isinstance(value, cst.Subscript) and script.module.index.inside(value, loop.body):
                return node.value if _root(script, value, loop) else ""
            return ""
        case _:
            return ""


def _is_of_turn(script: Script, name: cst.Name, loop: cst.For) -> bool:
    """Whether a loop gives a name its value, which may have been changed in place since."""
    return any(bound.value == name.value for bound in _names(script, loop)) and all(
        binding.kind is Bind.AUGMENT or script.module.index.inside(binding.node, loop.target)
        for binding in script.connected.evaluation.bindings(name)
    )


def _names(script: Script, loop: cst.For) -> Iterator[cst.Name]:
    return script.module.index.below(loop.target, cst.Name)


def _only_value(script: Script, name: cst.Name) -> cst.CSTNode | None:
    """Return the expression that a name stands for, if there is only one."""
    match script.connected.evaluation.bindings(name):
        case [binding] if binding.is_plain:
            return binding.value
        case _:
            return None


# -- what it does in each turn ----------------------------------------------------------------


def _mixes(
    script: Script, loop: cst.For, block: Sequence[cst.CSTNode], *, alone: bool
) -> Iterator[tuple[Mix, bool]]:
    """Yield the updates of an average in a block, each with whether it is all that is done."""
    lines = list(_statements(block))
    read = _Reader(script, loop)
    for place, line in enumerate(lines):
        after = lines[place + 1] if place + 1 < len(lines) else None
        if isinstance(line, cst.If | cst.With):
            below: cst.CSTNode | None = line
            while isinstance(below, cst.If | cst.With | cst.Else):
                yield from _mixes(script, loop, below.body.body, alone=False)
                below = below.orelse if isinstance(below, cst.If) else None
        elif (mix := read.in_one(line)) is not None:
            yield mix, alone and len(lines) == 1
        elif after is not None and (mix := read.in_two(line, after)) is not None:
            yield mix, alone and len(lines) == 2


def _statements(block: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    for statement in block:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
        else:
            yield statement


class _Reader:
    """What the statements of a loop do to the tensors of a turn."""

    def __init__(self, script: Script, loop: cst.For) -> None:
        self.script = script
        self.loop = loop

    def in_one(self, line: cst.CSTNode) -> Mix | None:
        """Return the update that one statement makes."""
        match line:
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                kept = isinstance(target, cst.Attribute | cst.Subscript)
                return self._mixed(target, value) if kept else None
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=target, attr=attr)) as call):
                return self._done(target, attr.value, call)
            case _:
                return None

    def in_two(self, first: cst.CSTNode, second: cst.CSTNode) -> Mix | None:
        """``average.mul_(decay)``, and then ``average.add_(...)``."""
        one, two = _in_place(first), _in_place(second)
        if one is None or two is None:
            return None
        (target, kind, given), (other, kind_after, more) = one, two
        same = self._root(target) == self._root(other)
        if not same or (kind, kind_after) != ("mul_", "add_") or len(given) != 1:
            return None
        return self._added(target, given[0].value, more)

    def _root(self, node: cst.BaseExpression) -> str:
        return _root(self.script, node, self.loop)

    def _done(self, target: cst.BaseExpression, method: str, call: cst.Call) -> Mix | None:
        """What ``target.method(...)`` does, or a chain of two."""
        args = call.args
        match method, target:
            case "copy_", _ if args:
                return self._mixed(target, args[0].value)
            case "lerp_", _:
                return self._between(target, target, call)
            case "add_", cst.Call(
                func=cst.Attribute(value=inner, attr=cst.Name(value="mul_")),
                args=[cst.Arg(value=weight)],
            ):
                return self._added(inner, weight, args)
            case "sub_" | "add_", _ if len(args) == 1:
                return self._moved(target, args[0].value, method)
            case _:
                return None

    def _mixed(self, target: cst.BaseExpression, value: cst.BaseExpression) -> Mix | None:
        """Return what mixes a tensor with another: a sum of two products, or ``lerp``."""
        match value:
            case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
                return self._sum(target, left, right) or self._sum(target, right, left)
            case cst.Call(func=cst.Attribute(value=first, attr=cst.Name(value="lerp"))):
                return self._between(target, first, value)
            case _:
                return None

    def _sum(
        self, target: cst.BaseExpression, own: cst.BaseExpression, other: cst.BaseExpression
    ) -> Mix | None:
        for kept, weight in _factors(own):
            if self._root(kept) != self._root(target):
                continue
            for source, rest in _factors(other):
                if self._complete(weight, rest) and (mix := self._mix(target, source, weight)):
                    return mix
        return None

    def _between(
        self, target: cst.BaseExpression, first: cst.BaseExpression, call: cst.Call
    ) -> Mix | None:
        """``a.lerp(b, w)`` or ``torch.lerp(a, b, w)``: ``(1 - w) * a + w * b``."""
        args = [arg.value for arg in call.args]
        if self.script.name(call.func) == "torch.lerp":
            first, *args = args or [first]
        if len(args) != 2:
            return None
        other, weight = args
        if self._root(first) == self._root(target):
            return self._mix(target, other, weight, of_source=True)
        if self._root(other) == self._root(target):
            return self._mix(target, first, weight)
        return None

    def _added(
        self, target: cst.BaseExpression, weight: cst.BaseExpression, args: Sequence[cst.Arg]
    ) -> Mix | None:
        """Return what ``target.mul_(weight).add_(...)`` mixes."""
        match args:
            case [cst.Arg(value=product, keyword=None)]:
                pairs = list(_factors(product))
            case [cst.Arg(value=source), cst.Arg(value=rest, keyword=cst.Name(value="alpha"))]:
                pairs = [(source, rest)]
            case [cst.Arg(value=rest, keyword=None), cst.Arg(value=source, keyword=None)]:
                pairs = [(source, rest)]  # as before torch 1.5
            case _:
                pairs = []
        for source, rest in pairs:
            if self._complete(weight, rest) and (mix := self._mix(target, source, weight)):
                return mix
        return None

    def _moved(
        self, target: cst.BaseExpression, value: cst.BaseExpression, method: str
    ) -> Mix | None:
        """``target.sub_(weight * (target - source))``, or the same with ``add_``."""
        for difference, weight in _factors(value):
            match difference:
                case cst.BinaryOperation(left=left, operator=cst.Subtract(), right=right):
                    own, source = (left, right) if method == "sub_" else (right, left)
                    if self._root(own) == self._root(target):
                        return self._mix(target, source, weight, of_source=True)
                case _:
                    pass
        return None

    def _mix(
        self,
        target: cst.BaseExpression,
        source: cst.BaseExpression,
        weight: cst.BaseExpression,
        *,
        of_source: bool = False,
    ) -> Mix | None:
        """Return the update if both are other tensors of this turn, and both count."""
        own, other = self._root(target), self._root(source)
        number = _number(weight)
        if not own or not other or own == other or (number is not None and not 0 < number < 1):
            return None
        return Mix(own, other, weight, of_source)

    def _complete(self, first: cst.BaseExpression, second: cst.BaseExpression) -> bool:
        """Whether two weights are one together: ``decay`` and ``1 - decay``."""
        one, two = self._spelled(first), self._spelled(second)
        numbers = _number(one), _number(two)
        if numbers[0] is not None and numbers[1] is not None:
            return abs(numbers[0] + numbers[1] - 1) < 1e-9
        return self._lacks(one, second) or self._lacks(two, first)

    def _lacks(self, rest: cst.BaseExpression, weight: cst.BaseExpression) -> bool:
        less = rest_of_one(rest)
        return less is not None and self.script.module.bare(less) == self.script.module.bare(weight)

    def _spelled(self, weight: cst.BaseExpression) -> cst.BaseExpression:
        """Return what a weight is computed as, where a name stands for that."""
        value = _only_value(self.script, weight) if isinstance(weight, cst.Name) else None
        return value if isinstance(value, cst.BaseExpression) else weight


def _in_place(
    line: cst.CSTNode,
) -> tuple[cst.BaseExpression, str, Sequence[cst.Arg]] | None:
    """Return the tensor that a statement changes, how, and by what."""
    match line:
        case cst.AugAssign(target=target, operator=cst.MultiplyAssign(), value=value):
            return target, "mul_", [cst.Arg(value)]
        case cst.AugAssign(target=target, operator=cst.AddAssign(), value=value):
            return target, "add_", [cst.Arg(value)]
        case cst.Expr(value=cst.Call(func=cst.Attribute(value=target, attr=attr), args=args)):
            return target, attr.value, args
        case _:
            return None


def _factors(
    node: cst.BaseExpression,
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield the two sides of a product, either one first."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        yield node.left, node.right
        yield node.right, node.left


def rest_of_one(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return ``x`` of ``1 - x``."""
    match node:
        case cst.BinaryOperation(left=left, operator=cst.Subtract(), right=right):
            return right if _number(left) == 1 else None
        case _:
            return None


def _number(node: cst.BaseExpression) -> float | None:
    return float(node.evaluated_value) if isinstance(node, cst.Integer | cst.Float) else None
