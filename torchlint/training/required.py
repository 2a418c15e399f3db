"""Whether a tensor requires a gradient: batches as loaded do not, what layers made does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.run import GRAD
from torchlint.semantics.values import Library, Loaded, Method, Object, Tensor, Truth
from torchlint.syntax.scopes import Bind
from torchlint.training.asked import passed_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.model_calls import ModelCalls

# Methods whose result requires a gradient if what they are called on does, and else not.
_KEEPS = frozenset(
    "view reshape flatten permute transpose contiguous unsqueeze squeeze expand repeat relu relu_ "
    "float half bfloat16 to cuda cpu chunk split mean sum add mul clone".split()
)
_DEEPEST = 20


def is_raw(evaluation: Evaluation, node: cst.BaseExpression, file: int, depth: int = 0) -> bool:
    """Whether an expression is a batch as its loader gave it, moved or in another shape."""
    value = evaluation.value(node)
    batches = [one for one in value if isinstance(one, Tensor) and one.batch is not None]
    if not batches or len(batches) < len(value) or depth > _DEEPEST:
        return False
    if any(one.graph or one.batch in _differentiated(evaluation) for one in batches):
        return False
    if all(one.loaded is Loaded.YES for one in batches):
        return True
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=name))):
            return name in _KEEPS and is_raw(evaluation, inner, file, depth + 1)
        case cst.Name():
            found = evaluation.bindings(node)
            sources = [list(_sources(evaluation, one, file)) for one in found]
            return bool(sources) and all(
                bool(some) and all(is_raw(evaluation, one, home, depth + 1) for one, home in some)
                for some in sources
            )
    return False


def _sources(
    evaluation: Evaluation, binding: object, file: int
) -> Iterator[tuple[cst.BaseExpression, int]]:
    """Yield what a binding may be given, each with its file."""
    kind, value = getattr(binding, "kind", None), getattr(binding, "value", None)
    if kind is Bind.PARAMETER and isinstance(value, cst.Param):
        index = evaluation.index(file)
        function = next(
            one for one in index.ancestors(value) if isinstance(one, (cst.FunctionDef, cst.Lambda))
        )
        unit = evaluation.units[evaluation.at(function, file)]
        for caller, call in unit.callers.values():
            for given in passed_to(evaluation, unit, call, value.name.value):
                yield given, caller.at.file
    elif getattr(binding, "is_plain", False) and isinstance(value, cst.BaseExpression):
        yield value, file


def _differentiated(evaluation: Evaluation) -> set[object]:
    """Return the loaders whose batches are told to require gradients."""
    found: set[object] = set()
    for module in evaluation.files.modules:
        for word in ("requires_grad_", "requires_grad"):
            for name in module.index.named.get(word, ()):
                owner = module.index.parent(name)
                if isinstance(owner, cst.Attribute):
                    value = evaluation.value(owner.value)
                    found |= {one.batch for one in value if isinstance(one, Tensor)}
    return found - {None}


def freezes(evaluation: Evaluation) -> bool:
    """Whether any parameter or tensor is told whether it requires a gradient."""
    for module in evaluation.files.modules:
        index = module.index
        for word in ("requires_grad_", "requires_grad"):
            for name in index.named.get(word, ()):
                owner = index.parent(name)
                above = index.parent(owner) if owner else None
                if isinstance(above, (cst.AssignTarget, cst.Call)) and isinstance(
                    owner, (cst.Attribute, cst.Arg)
                ):
                    return True
    return False


def requires_gradient(
    evaluation: Evaluation, models: ModelCalls, node: cst.BaseExpression, file: int
) -> bool:
    """Whether a tensor requires a gradient where it stands, as far as gradients are recorded."""
    if isinstance(node, cst.Name) and _is_asked(evaluation, node, file):
        return True
    return not freezes(evaluation) and _Search(evaluation, models).made(node, 0)


class _Search:
    """A look back at what made a tensor, in its function."""

    def __init__(self, evaluation: Evaluation, models: ModelCalls) -> None:
        self._evaluation, self._models = evaluation, models
        self._seen: set[int] = set()

    def made(self, node: cst.BaseExpression, depth: int) -> bool:
        """Whether layers with parameters certainly took part in an expression."""
        if depth > _DEEPEST:
            return False
        match node:
            case cst.Name():
                found = self._evaluation.bindings(node)
                return bool(found) and all(self._bound(one, depth + 1) for one in found)
            case cst.BinaryOperation(left=left, right=right):
                return self.made(left, depth + 1) or self.made(right, depth + 1)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                return any(self.made(one.value, depth + 1) for one in elements)
            case cst.Call():
                return self._called(node, depth + 1)
        return False

    def _bound(self, binding: object, depth: int) -> bool:
        if id(binding) in self._seen:
            return True  # around a loop: as it was before
        self._seen.add(id(binding))
        value = getattr(binding, "value", None)
        if not getattr(binding, "is_plain", False) or not isinstance(value, cst.BaseExpression):
            return False
        return self.made(value, depth)

    def _called(self, call: cst.Call, depth: int) -> bool:
        modes = self._evaluation.modes.get(id(call), {}).get(GRAD, ())
        if any(one != Truth(True) for one in modes):
            return False
        value = self._evaluation.value(call.func)
        match value:
            case (Object(kind=kind) as one,) if kind.startswith("torch.nn."):
                if self._models.learns(one):
                    return True
            case (Library(name=name),) if not name.startswith("torch."):
                return False
            case (Method(owner=Tensor(), name=name),) if isinstance(call.func, cst.Attribute):
                return name in _KEEPS and self.made(call.func.value, depth)
            case (Library() | Object(),):
                pass
            case _:
                return False
        return any(self.made(arg.value, depth) for arg in call.args)


def _is_asked(evaluation: Evaluation, node: cst.Name, file: int) -> bool:
    """Whether a name stands behind ``if x.requires_grad:``, of itself."""
    index = evaluation.index(file)
    now = evaluation.bindings(node)
    child: cst.CSTNode = node
    for above in index.ancestors(node):
        if isinstance(above, (cst.FunctionDef, cst.Lambda)):
            return False
        if (
            isinstance(above, cst.If)
            and child is above.body
            and any(_asks(evaluation, one, node, now) for one in _parts(above.test, truth=True))
        ):
            return True
        if isinstance(above, cst.IndentedBlock):
            for statement in above.body:
                if statement is child:
                    break
                if (
                    isinstance(statement, cst.If)
                    and _leaves(statement)
                    and any(
                        _asks(evaluation, one, node, now)
                        for one in _parts(statement.test, truth=False)
                    )
                ):
                    return True
        child = above
    return False


def _parts(test: cst.BaseExpression, *, truth: bool) -> Iterator[cst.BaseExpression]:
    """Yield what certainly holds where a condition does, or does not."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            yield from _parts(inner, truth=not truth)
        case cst.BooleanOperation(left=left, operator=operator, right=right):
            if isinstance(operator, cst.And) is truth:
                yield from _parts(left, truth=truth)
                yield from _parts(right, truth=truth)
        case _ if truth:
            yield test


def _asks(evaluation: Evaluation, test: cst.BaseExpression, node: cst.Name, now: object) -> bool:
    match test:
        case cst.Attribute(value=cst.Name(value=word) as name, attr=cst.Name("requires_grad")):
            return word == node.value and evaluation.bindings(name) == now
    return False


def _leaves(statement: cst.If) -> bool:
    last = statement.body.body[-1]
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(small, (cst.Return, cst.Raise, cst.Continue, cst.Break))
