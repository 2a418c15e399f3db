"""Sums and lists that keep the graph of every step alive: ``total += loss``.

So does an object that adds up what it is given: ``meter.update(loss)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.attached import Held, held, is_cut_in_place
from torchlint.analysis.derivation import Sources, differentiated, sources
from torchlint.analysis.escapes import escapes, feed_backward
from torchlint.analysis.evaluations import evaluations, records_nothing
from torchlint.analysis.loops import Role
from torchlint.analysis.meters import metered
from torchlint.analysis.recording import Recording
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.evaluations import Evaluation
    from torchlint.analysis.meters import Metered
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding


@dataclass(frozen=True, slots=True, eq=False)
class Growing:
    """A statement that adds to a sum or a list: ``keeper`` grows by ``term``.

    ``metered`` where the keeper is an object of the project, and the sum is in it.
    """

    statement: cst.BaseSmallStatement
    keeper: cst.BaseExpression
    term: cst.BaseExpression
    metered: Metered | None = None

    @property
    def is_list(self) -> bool:
        """Whether the keeper is a list, and not a sum."""
        return isinstance(self.statement, cst.Expr) and self.metered is None


@dataclass(frozen=True, slots=True, eq=False)
class Retention:
    """A graph that is kept from each step to the next.

    ``leaves`` are the tensors of the term that hold it.  ``evaluation`` where nothing runs
    backward, so that all activations are kept as well.
    """

    growing: Growing
    leaves: tuple[cst.BaseExpression, ...]
    evaluation: Evaluation | None = None


def retentions(program: Program) -> Iterator[Retention]:
    """Find the sums and lists of a file that keep graphs alive, in training and evaluation."""
    found = [one for one in _growing(program) if not _is_cut(one.term)]
    asked = list(differentiated(program))
    places = list(evaluations(program)) if found else []
    if not found or not (asked or places):
        return
    wanted = sources(program, asked)
    for growing in found:
        inside = [one for one in places if program.index.inside(growing.statement, one.place)]
        retention = (
            _in_evaluation(program, growing, inside[0])
            if inside
            else _in_training(program, growing, wanted)
        )
        if retention is not None and not _is_differentiated(program, growing, wanted):
            yield retention


# -- what grows ---------------------------------------------------------------------------------


def _growing(program: Program) -> Iterator[Growing]:
    index = program.index
    for grown in index.of(cst.AugAssign):
        if isinstance(grown.operator, cst.AddAssign):
            yield Growing(grown, grown.target, grown.value)
    for assigned in index.of(cst.Assign):
        term = _summand(assigned)
        if term is not None:
            yield Growing(assigned, assigned.targets[0].target, term)
    for call, func in program.method_calls("append"):
        statement = program.parent(call)
        if isinstance(statement, cst.Expr) and len(call.args) == 1:
            yield Growing(statement, func.value, call.args[0].value)
    for one in metered(program):
        statement = program.parent(one.call)
        assert isinstance(statement, cst.Expr)
        yield Growing(statement, one.keeper, one.term, one)


def _summand(node: cst.Assign) -> cst.BaseExpression | None:
    """``term`` in ``x = x + term``."""
    match node:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name() | cst.Attribute() as target)],
            value=cst.BinaryOperation(left=left, operator=cst.Add(), right=right),
        ):
            name = dotted(target)
            return right if dotted(left) == name else left if dotted(right) == name else None
        case _:
            return None


def _is_cut(term: cst.BaseExpression) -> bool:
    """Whether a term is seen at once to have no graph."""
    match term:
        case cst.Call(func=cst.Attribute(attr=cst.Name("item" | "detach" | "size" | "tolist"))):
            return True
        case cst.Call(func=cst.Name("len" | "int" | "float" | "str")):
            return True
        case _:
            return isinstance(term, cst.BaseNumber | cst.BaseString | cst.Comparison)


# -- what it holds ------------------------------------------------------------------------------


def _in_training(program: Program, growing: Growing, wanted: Sources) -> Retention | None:
    """Return what a training step keeps of the graph that its backward pass went through."""
    if not _is_relevant(program, growing.term, wanted):
        return None  # the usual case, and cheap to see
    context = program.context(growing.statement)
    if context.role is not Role.TRAIN or context.guarded:
        return None
    leaves = tuple(_leaves(program, growing.term, wanted))
    if not leaves:
        return None
    adds = not growing.is_list  # a list keeps graphs, wherever it gets them
    recording = program.recordings.at(growing.statement)
    if adds and recording not in (Recording.ON, Recording.ASSUMED):
        return None
    if not _is_carried(program, growing, context.loop) or _is_reset(program, growing, context.loop):
        return None
    return Retention(growing, leaves)


def _is_relevant(program: Program, term: cst.BaseExpression, wanted: Sources) -> bool:
    """Whether gradients are asked of part of a term, or a function of the project gave it."""
    todo: list[cst.CSTNode] = [term]
    seen: set[int] = set()
    while todo:
        node = todo.pop()
        if isinstance(node, cst.Call) and (
            wanted.hold(program, node)
            or program.calls.target(node) is not None
            or program.calls.elsewhere(node) is not None
        ):
            return True
        for name in program.index.below(node, cst.Name):
            for binding in _bindings(program, name):
                if wanted.have(binding):
                    return True
                value = binding.value
                if isinstance(value, cst.Name | cst.Call) and id(value) not in seen:
                    seen.add(id(value))
                    todo.append(value)
    return False


def _bindings(program: Program, name: cst.Name) -> Iterator[Binding]:
    """Yield the bindings that a name may have, and those that ``loss *= 2`` changed."""
    for binding in program.flow.reaching(name):
        yield binding
        if binding.kind is Bind.AUGMENT and binding.value is not None:
            yield from program.flow.before(binding.value, binding.name)


def _in_evaluation(program: Program, growing: Growing, evaluation: Evaluation) -> Retention | None:
    """Return what an evaluation that is recorded keeps of each batch."""
    place = evaluation.place
    if isinstance(place, cst.FunctionDef) or not _is_carried(program, growing, place):
        return None
    leaves = tuple(_leaves(program, growing.term, None))
    if not leaves or feed_backward(program, list(escapes(program, place)), evaluation.function):
        return None
    return Retention(growing, leaves, evaluation)


def _leaves(
    program: Program, term: cst.BaseExpression, wanted: Sources | None
) -> Iterator[cst.BaseExpression]:
    """Yield the tensors of a sum or product that hold a graph."""
    match term:
        case cst.BinaryOperation(left=left, right=right):
            yield from _leaves(program, left, wanted)
            yield from _leaves(program, right, wanted)
        case cst.UnaryOperation(expression=inner):
            yield from _leaves(program, inner, wanted)
        case _ if holds_graph(program, term, wanted):
            yield term
        case _:
            pass


def holds_graph(
    program: Program, node: cst.CSTNode | None, wanted: Sources | None, depth: int = 0
) -> bool:
    """Whether an expression certainly holds a graph.

    ``wanted`` is what the gradients of the file are asked for: what went into that, and comes out
    of a module, has a graph.  None: what comes out of any module that is not frozen.
    """
    if node is None or depth > _DEPTH:
        return False
    found = held(program, node)
    if found is not Held.MAYBE:
        return found is Held.YES
    match node:
        case cst.Name():
            bindings = program.flow.reaching(node)
            cut = is_cut_in_place(program, node)
            return (
                bool(bindings)
                and not cut
                and all(
                    binding.kind is Bind.ASSIGN
                    and (wanted is None or wanted.have(binding))
                    and not isinstance(binding.value, cst.Name)
                    and holds_graph(program, binding.value, wanted, depth + 1)
                    for binding in bindings
                )
            )
        case cst.Call() if program.value(node.func).kind is Kind.MODULE:
            kind = program.value(node.func).type
            if kind.startswith("torch.nn.") and kind.endswith("Loss"):
                return _any_holds(program, node, wanted, depth)
            seen = wanted is None or wanted.hold(program, node)
            return seen and not records_nothing(program, node)
        case cst.Call() if _is_differentiable(program, node):
            return _any_holds(program, node, wanted, depth)
        case cst.BinaryOperation(left=left, right=right):
            sides = (left, right)
            return any(holds_graph(program, side, wanted, depth + 1) for side in sides)
        case cst.Subscript(value=inner) | cst.Attribute(value=inner):
            return holds_graph(program, inner, wanted, depth + 1)
        case _:
            return False


_DEPTH = 8
_FUNCTIONS = frozenset(
    """cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div sum mean exp log abs
    binary_cross_entropy binary_cross_entropy_with_logits softmax log_softmax sigmoid relu tanh
    sqrt stack cat""".split()
)
_METHODS = frozenset(
    """mean sum pow square sqrt exp log abs view reshape squeeze unsqueeze flatten transpose permute
    contiguous clone cpu cuda softmax log_softmax sigmoid tanh relu norm""".split()
)


def _is_differentiable(program: Program, call: cst.Call) -> bool:
    """Whether the result of a call has a graph if one of its operands has one."""
    name = program.qualified(call.func)
    if name.startswith("torch."):
        return name.rpartition(".")[2] in _FUNCTIONS
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS


def _any_holds(program: Program, call: cst.Call, wanted: Sources | None, depth: int) -> bool:
    operands = [arg.value for arg in call.args]
    if isinstance(call.func, cst.Attribute) and not program.qualified(call.func):
        operands.append(call.func.value)
    return any(holds_graph(program, one, wanted, depth + 1) for one in operands)


# -- how long it is kept --------------------------------------------------------------------------


def _is_carried(program: Program, growing: Growing, loop: cst.CSTNode | None) -> bool:
    """Whether what is kept in one turn of a loop is still there in the next."""
    keeper, statement = growing.keeper, growing.statement
    if growing.is_list:
        return _is_list(program, keeper) and _outlives(program, keeper, loop)
    resets = _resets_of_object(program, growing.metered)
    if loop is not None and any(program.index.inside(one, loop) for one in resets):
        return False
    if isinstance(keeper, cst.Name) and growing.metered is None:
        bound = program.index.bound(keeper)
        return bound is not None and bound in program.flow.before(statement, keeper.value)
    return _outlives(program, keeper, loop)


def _is_list(program: Program, keeper: cst.BaseExpression) -> bool:
    return program.value(keeper).kind is Kind.LIST


def _outlives(program: Program, keeper: cst.BaseExpression, loop: cst.CSTNode | None) -> bool:
    """Whether something is made outside of a loop, and not emptied in its steps."""
    root = keeper
    while isinstance(root, cst.Subscript):
        if len(root.slice) != 1 or not isinstance(root.slice[0].slice, cst.Index):
            return False  # a part of a tensor
        root = root.value
    if isinstance(root, cst.Name):
        bindings = program.flow.reaching(root)
        local = any(loop is None or program.index.inside(b.node, loop) for b in bindings)
        return bool(bindings) and not local and not _is_emptied(program, keeper)
    return dotted(root).startswith("self.") and not _is_emptied(program, keeper)


def _is_emptied(program: Program, keeper: cst.BaseExpression) -> bool:
    """Whether what is kept is dropped in every step: by an assignment, ``clear()`` or ``del``."""
    resets = _resets(program, {program.code(keeper)})
    return any(program.context(one).per_step for one in resets)


def _is_reset(program: Program, growing: Growing, loop: cst.CSTNode | None) -> bool:
    """Whether the loop drops what is kept now and then: little is left of graphs in a window."""
    names = {program.code(growing.keeper)}
    if isinstance(growing.keeper, cst.Subscript):
        names.add(program.code(growing.keeper.value))
    loops = (loop, _steps_around(program, loop))
    resets = [*_resets(program, names), *_resets_of_object(program, growing.metered)]
    contexts = (program.context(one) for one in resets)
    return any(one.role is Role.TRAIN and one.loop in loops for one in contexts)


def _steps_around(program: Program, loop: cst.CSTNode | None) -> cst.CSTNode | None:
    """Return the loop of steps around one that adds up gradients."""
    for above in () if loop is None else program.index.ancestors(loop):
        if isinstance(above, cst.For | cst.While):
            return above if program.loops.steps(above) else loop
        if isinstance(above, cst.FunctionDef):
            break
    return loop


def _resets(program: Program, names: set[str]) -> Iterator[cst.CSTNode]:
    """Yield what drops a total or a list: an assignment of something else, ``clear``, ``del``."""
    index = program.index
    for one in index.of(cst.AssignTarget):
        if program.code(one.target) in names:
            made = index.parent(one)
            if not isinstance(made, cst.Assign) or _summand(made) is None:
                yield one
    for call, func in program.method_calls("clear", "pop", "popleft"):
        if program.code(func.value) in names:
            yield call
    for deleted in index.of(cst.Del):
        code = program.code(deleted.target)
        if any(name in code for name in names):
            yield deleted


def _resets_of_object(program: Program, one: Metered | None) -> Iterator[cst.CSTNode]:
    """Yield what starts an object anew: ``meter.reset()``, ``meter.sum = 0``."""
    if one is None:
        return
    keeper = program.code(one.keeper)
    yield from _resets(program, {f"{keeper}.{one.attribute}"})
    for call, func in program.method_calls(*one.empties):
        if program.code(func.value) == keeper:
            yield call


def _is_differentiated(program: Program, growing: Growing, wanted: Sources) -> bool:
    """Whether a gradient is asked for what is kept."""
    keeper = growing.keeper
    if isinstance(keeper, cst.Name):
        found = program.flow.reaching(keeper) or program.flow.before(
            growing.statement, keeper.value
        )
        bound = program.index.bound(keeper)
        return any(wanted.have(one) for one in (*found, *((bound,) if bound else ())))
    text = program.code(keeper)
    return any(text in program.code(one) for one in wanted.expressions.values())


def retains_on_purpose(program: Program) -> bool:
    """Whether a backward pass of the file leaves its graph for another one."""
    for call, _ in program.method_calls("backward"):
        for arg in call.args:
            named = arg.keyword is not None and arg.keyword.value in _LEAVES
            if named and literal(arg.value) != "False":
                return True
    return False


_LEAVES = ("retain_graph", "create_graph")
