"""Forward passes while training whose graph nobody follows: all that is used has none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.asked import differentiates
from torchlint.analysis.attached import Held, held
from torchlint.analysis.derivation import sources
from torchlint.analysis.evaluations import asks_for_gradients, records_nothing
from torchlint.analysis.host_results import loop_around
from torchlint.analysis.loops import Role
from torchlint.analysis.parameters import has_parameters
from torchlint.analysis.reach import callee
from torchlint.analysis.read_only import LOOKS, only_read
from torchlint.analysis.recording import Recording
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value
    from torchlint.syntax.scopes import Binding

_HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_hook",
          "register_full_backward_hook")  # fmt: skip
# What is called on a model that is trained, or set up.
_OF_MODELS = ("parameters", "named_parameters", "train", "eval", "load_state_dict", "to", "cuda")
_TESTS = re.compile(r"_*(test|eval|valid)", re.IGNORECASE)
_LOSS = re.compile(r"loss|criteri", re.IGNORECASE)
_DEPTH = 3  # methods that call methods


def discarded(program: Program) -> Iterator[cst.Call]:
    """Find the calls of modules in training steps whose result is only used without its graph."""
    if "backward" not in program.text:
        return
    cuts = [func.value for call, func in program.method_calls("detach") if not call.args]
    if not cuts or any(program.method_calls(*_HOOKS)):
        return
    found: dict[int, cst.Call] = {}
    for cut in cuts:
        for forward in _forwards(program, cut):
            if (
                id(forward) not in found
                and (program.context(forward).per_step or program.loops.adds_term(forward))
                and _is_wasted(program, forward)
            ):
                found[id(forward)] = forward
    yield from sorted(found.values(), key=program.index.order)


def read_off(program: Program) -> Iterator[cst.Call]:
    """Find the calls of modules while training of whose result only numbers and labels are read.

    What runs now and then on the batch of the step is a log; on other data it is an evaluation, as
    is what runs between the epochs.  A loop that asks for gradients in each turn trains as well,
    wherever it runs: some models are tuned before they are tested.
    """
    if "backward" not in program.text or any(program.method_calls(*_HOOKS)):
        return
    if asks_for_gradients(program):
        return
    models = set(_likely_models(program))
    for call in program.index.of(cst.Call):
        name = dotted(call.func)
        if name not in models and name.rpartition(".")[0] not in models:
            continue  # the usual case, and cheap to see
        if _LOSS.search(name.rpartition(".")[2]):
            continue  # it has no parameters: what it is given would have the graph
        if model_of(program, call) is None:
            continue
        context = program.context(call)
        trains = context.role in (Role.TRAIN, Role.EPOCH) or _is_beside_gradients(program, call)
        if (
            (trains or _is_tested(program, call))
            and not (context.role is Role.TRAIN and context.guarded and _is_of_batch(program, call))
            and _is_wasted(program, call)
            and only_read(program, call, surely=not trains)
        ):
            yield call


def _is_beside_gradients(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node runs in a loop whose turns call ``torch.autograd.grad()`` as well."""
    asks = list(program.calls_of("torch.autograd.grad"))
    loop = loop_around(program, node) if asks else None
    return loop is not None and any(loop_around(program, call) is loop for call in asks)


def _is_tested(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node stands in a loop of a function that is named for an evaluation."""
    function = program.function(node)
    return (
        function is not None
        and function.asynchronous is None
        and _TESTS.match(function.name.value) is not None
        and loop_around(program, node) is not None
    )


def model_of(program: Program, call: cst.Call) -> Value | None:
    """Return the module that a call runs; by a method of its class, where that runs its layers."""
    model = program.value(call.func)
    if model.kind is Kind.MODULE:
        return model
    if not isinstance(call.func, cst.Attribute):
        return None
    model = program.value(call.func.value)
    found = _methods(program, call) if model.kind is Kind.MODULE else []
    return model if found and all(_runs_layers(*one) for one in found) else None


def _methods(program: Program, call: cst.Call) -> list[tuple[Program, cst.FunctionDef]]:
    """Return what a call runs, or what it runs one of: of models of one class or another."""
    found = callee(program, call)
    several = () if found is not None else program.calls.of_several(call)
    return [(one.program, one.function) for one in several] if found is None else [found]


def _runs_layers(program: Program, method: cst.FunctionDef) -> bool:
    """Whether a method records what its own layers do with what it is given, and returns that."""
    if method.name.value == "forward" or method.decorators or program.yields(method):
        return False
    layers = (
        call
        for call in program.index.below(method, cst.Call)
        if dotted(call.func).startswith("self.") and program.value(call.func).kind is Kind.MODULE
    )
    ran = [program.recordings.at(layer) for layer in layers]
    return bool(ran) and Recording.OFF not in ran


def _likely_models(program: Program) -> Iterator[str]:
    """Yield what is made of a class, or treated as a model: names, without looking them up."""
    for _, func in program.method_calls(*_OF_MODELS):
        yield dotted(func.value)
    for statement in program.index.of(cst.Assign):
        made = _first(statement.value)
        if isinstance(made, cst.Call) and dotted(made.func).rpartition(".")[2][:1].isupper():
            yield from (dotted(one.target) for one in statement.targets)


def _first(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the call that a chain of calls begins with: ``Net()`` of ``Net().to(device)``."""
    while (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and isinstance(node.func.value, cst.Call)
    ):
        node = node.func.value
    return node


def _is_of_batch(program: Program, forward: cst.Call) -> bool:
    """Whether a model is given what a loop goes over, or what is made of it."""
    given = sources(program, [arg.value for arg in forward.args])
    return any(
        one.kind is Bind.FOR and program.values.binding(one).kind is not Kind.NUMBER
        for one in given.bindings.values()
    )


def _forwards(program: Program, cut: cst.BaseExpression) -> Iterator[cst.Call]:
    """Yield the outermost calls of modules in what is detached, here or where it got its name."""
    if isinstance(cut, cst.Name):
        match program.flow.reaching(cut):
            case (binding,) if binding.is_plain:
                value = binding.value
                if isinstance(value, cst.BaseExpression) and _is_only_detached(program, binding):
                    yield from _forwards(program, value)
            case _:
                pass
        return
    todo: list[cst.CSTNode] = [cut]
    while todo:
        node = todo.pop()
        match node:
            case cst.Call() if program.value(node.func).kind is Kind.MODULE:
                yield node
            case cst.Call(func=cst.Attribute(value=inner)):
                todo += [inner, *(arg.value for arg in node.args)]
            case cst.Call():
                todo += [arg.value for arg in node.args]
            case cst.BinaryOperation():
                todo += [node.left, node.right]
            case cst.Subscript():
                todo.append(node.value)
            case _:
                pass


def _is_only_detached(program: Program, binding: Binding) -> bool:
    """Whether each use of a name detaches it, or looks at its shape."""
    uses = [
        use
        for use in program.index.named[binding.name]
        if program.index.bound(use) is None and binding in program.flow.reaching(use)
    ]
    return all(_detaches(program, use) for use in uses)


def _detaches(program: Program, use: cst.Name) -> bool:
    above = program.parent(use)
    return (
        isinstance(above, cst.Attribute)
        and above.value is use
        and above.attr.value in ("detach", "data", *LOOKS)
    )


def _is_wasted(program: Program, forward: cst.Call) -> bool:
    """Whether a forward pass is recorded, and nothing beside its result needs that."""
    if program.recordings.at(forward) is not Recording.ON:
        return False
    model = model_of(program, forward)
    if model is None:
        return False
    if records_nothing(program, forward):
        return False
    # a layer of torch, such as a softmax, keeps little more than its result; others run several
    if has_parameters(program, model) is False and (
        model.type.startswith("torch.nn.")
        or not _may_be_given_a_graph(program, forward)
        or held(program, forward) is Held.NO
    ):
        return False
    return not any(differentiates(*one) or _keeps(*one) for one in _methods(program, forward))


def _may_be_given_a_graph(program: Program, forward: cst.Call) -> bool:
    return any(held(program, arg.value) is not Held.NO for arg in forward.args)


def _keeps(program: Program, method: cst.FunctionDef, depth: int = 0) -> bool:
    """Whether a method leaves something on the module, or elsewhere, where a loss may find it."""
    index = program.index
    targets = [dotted(one.target) for one in index.below(method, cst.AssignTarget)]
    targets += [dotted(one.target) for one in index.below(method, cst.AugAssign)]
    if any(target.startswith("self.") for target in targets):
        return True
    return any(
        _hands_on(program, method, call) or (depth < _DEPTH and _is_kept_by(program, call, depth))
        for call in index.below(method, cst.Call)
    )


def _is_kept_by(program: Program, call: cst.Call, depth: int) -> bool:
    """Whether another method of the same object keeps something."""
    if not dotted(call.func).startswith("self."):
        return False
    called = program.calls.target(call)
    return called is not None and _keeps(program, called, depth + 1)


def _hands_on(program: Program, method: cst.FunctionDef, call: cst.Call) -> bool:
    """Whether something is called only to be given something, and may keep it.

    Lists of the method itself are gone with it, unless it returns them.
    """
    if not call.args or not isinstance(program.parent(call), cst.Expr):
        return False
    match call.func:
        case cst.Name(value="print"):
            return False
        case cst.Attribute(value=cst.Name() as receiver):
            bound = program.flow.reaching(receiver)
            inside = program.index.inside
            own = (one.kind is Bind.ASSIGN and inside(one.node, method) for one in bound)
            return not bound or not all(own)
        case _:
            return True
