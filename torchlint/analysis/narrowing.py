"""What the tests around a use of a name show it to be: ``if isinstance(x, np.ndarray): ...``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import UNKNOWN, Kind, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_KINDS = {
    "torch.Tensor": Kind.TENSOR, "numpy.ndarray": Kind.NDARRAY, "list": Kind.LIST,
    "tuple": Kind.TUPLE, "int": Kind.NUMBER, "float": Kind.NUMBER, "str": Kind.STRING,
    "dict": Kind.DICT, "bool": Kind.BOOL,
}  # fmt: skip
_STRUCTURES = frozenset({Kind.LIST, Kind.TUPLE, Kind.DICT})
_NUMPY_SCALARS = ("numpy.number", "numpy.generic", "numpy.floating", "numpy.integer")
_LEAVES = (cst.Return, cst.Raise, cst.Continue, cst.Break)
_AROUND = frozenset({
    cst.If, cst.IfExp, cst.While, cst.BooleanOperation, cst.IndentedBlock, cst.Module,
    cst.FunctionDef, cst.Lambda,
})  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """A name is one of these kinds, or is none of them."""

    name: cst.Name
    kinds: frozenset[Kind]
    holds: bool


class Narrowing:
    """The type tests of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program

    def narrowed(self, use: cst.Name, value: Value) -> Value:
        """Return the value of a name as the tests on the way to this use leave it."""
        if use.value not in self._tested:
            return value
        bindings = self._program.flow.reaching(use)
        for fact in reversed(list(self._facts(use))):
            if fact.name.value == use.value and self._program.flow.reaching(fact.name) == bindings:
                value = _applied(value, fact)
        return value

    @cached_property
    def _tested(self) -> set[str]:
        calls = self._program.calls
        tests = [
            call for name in ("isinstance", "type", "is_tensor") for call in calls.by_name(name)
        ]
        methods = self._program.method_calls("is_tensor")
        tests += [call for call, _ in methods if len(call.args) == 1]
        subjects = [call.args[0].value for call in tests if call.args]
        return {subject.value for subject in subjects if isinstance(subject, cst.Name)}

    def _facts(self, use: cst.CSTNode) -> Iterator[Fact]:
        """Yield what holds at a use, the outermost test last."""
        child = use
        for above in self._program.index.ancestors(use):
            if type(above) not in _AROUND:  # most nodes: that many cases cost a while
                child = above
                continue
            match above:
                case cst.If() | cst.IfExp() if child is above.body:
                    yield from self._shown(above.test, holds=True)
                case cst.If() | cst.IfExp() if child is above.orelse:
                    yield from self._shown(above.test, holds=False)
                case cst.While() if child is above.body:
                    yield from self._shown(above.test, holds=True)
                case cst.BooleanOperation() if child is above.right:
                    yield from self._shown(above.left, holds=isinstance(above.operator, cst.And))
                case cst.IndentedBlock() | cst.Module():
                    yield from self._after_exits(above, child)
                case cst.FunctionDef() | cst.Lambda():
                    return
            child = above

    def _after_exits(
        self, block: cst.IndentedBlock | cst.Module, child: cst.CSTNode
    ) -> Iterator[Fact]:
        """``if isinstance(x, T): return``: below, it is no T."""
        for statement in block.body:
            if statement is child:
                return
            if isinstance(statement, cst.If) and statement.orelse is None:
                if leaves(statement.body):
                    yield from self._shown(statement.test, holds=False)
            elif isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    if isinstance(small, cst.Assert):
                        yield from self._shown(small.test, holds=True)

    def _shown(self, test: cst.BaseExpression, *, holds: bool) -> Iterator[Fact]:
        match test:
            case cst.UnaryOperation(operator=cst.Not()):
                yield from self._shown(test.expression, holds=not holds)
            case cst.BooleanOperation() if isinstance(test.operator, cst.And) is holds:
                yield from self._shown(test.left, holds=holds)
                yield from self._shown(test.right, holds=holds)
            case cst.Call(func=cst.Name(value="isinstance"), args=[first, second]):
                yield from self._fact(first.value, second.value, holds=holds)
            case cst.Call(func=func, args=[cst.Arg(value=cst.Name() as subject)]):
                if self._program.qualified(func) == "torch.is_tensor":
                    yield Fact(subject, frozenset({Kind.TENSOR}), holds)
            case cst.Comparison(
                left=cst.Call(func=cst.Name(value="type"), args=[first]),
                comparisons=[
                    cst.ComparisonTarget(operator=cst.Is() | cst.Equal(), comparator=kind)
                ],
            ) if holds:
                yield from self._fact(first.value, kind, holds=holds)

    def _fact(
        self, subject: cst.BaseExpression, types: cst.BaseExpression, *, holds: bool
    ) -> Iterator[Fact]:
        if not isinstance(subject, cst.Name):
            return
        kinds: set[Kind] = set()
        for node in _alternatives(types):
            own = node.value if isinstance(node, cst.Name) else ""
            name = self._program.qualified(node) or own
            if name in _NUMPY_SCALARS:
                kinds.add(Kind.NPSCALAR)
            else:
                kinds.add(_KINDS.get(name, Kind.OTHER))
        yield Fact(subject, frozenset(kinds), holds)


def leaves(block: cst.BaseSuite) -> bool:
    """Tell whether a block never runs to its end."""
    last = block.body[-1] if block.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1] if last.body else None
    return isinstance(last, _LEAVES)


def alternatives(annotation: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """Return the types of ``A | B``, ``Union[A, B]`` or ``Optional[A]``; None for one type."""
    match annotation:
        case cst.BinaryOperation(operator=cst.BitOr()):
            return _alternatives(annotation)
        case cst.Subscript(value=cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name))):
            if name not in ("Union", "Optional"):
                return None
            parts = [element.slice for element in annotation.slice]
            return [part.value for part in parts if isinstance(part, cst.Index)]
        case _:
            return None


def _alternatives(types: cst.BaseExpression) -> list[cst.BaseExpression]:
    match types:
        case cst.Tuple():
            return [element.value for element in types.elements]
        case cst.BinaryOperation(operator=cst.BitOr()):
            return [*_alternatives(types.left), *_alternatives(types.right)]
        case _:
            return [types]


def _is_structure(fact: Fact) -> bool:
    """Whether a batch is shown to be a list, a tuple or a dictionary, or to be no tensor."""
    return fact.kinds <= _STRUCTURES if fact.holds else fact.kinds == {Kind.TENSOR}


def _applied(value: Value, fact: Fact) -> Value:
    if value.kind is Kind.BATCH and _is_structure(fact):
        return value  # in whatever it stands, it is what the loader gave
    kind = Kind.TENSOR if value.kind is Kind.BATCH else value.kind
    if not fact.holds:
        return UNKNOWN if kind in fact.kinds else value
    if kind in fact.kinds:
        return value
    if len(fact.kinds) == 1 and Kind.OTHER not in fact.kinds:
        return Value(next(iter(fact.kinds)), device=value.device)
    return UNKNOWN if value.known and Kind.OTHER not in fact.kinds else value
