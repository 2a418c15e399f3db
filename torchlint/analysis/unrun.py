"""Models that are wrapped and never trained: their weights are asked for, or they are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.importing import is_imported
from torchlint.analysis.loops import Role
from torchlint.analysis.queued import target_of
from torchlint.analysis.recording import Recording
from torchlint.analysis.uses import is_label, uses_of
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

# What gives or takes weights, without a forward pass.
_WEIGHTS = frozenset(
    {"state_dict", "load_state_dict", "parameters", "named_parameters", "buffers", "named_buffers",
     "modules", "named_modules", "children", "named_children"}
)  # fmt: skip
_WRAPPERS = ("DataParallel", "DistributedDataParallel")


def is_never_run(program: Program, wrap: cst.Call) -> bool:
    """Whether a wrapped model stays in a variable that is neither called nor passed on.

    ``ref = DataParallel(ref)`` and ``ref.features = DataParallel(ref.features)``.  The second
    changes a model that others may hold already: all that is done with it counts, and not only
    what comes after.
    """
    target = _target(program, wrap)
    root = _root(target)
    bindings = _given(program, target, root)
    if root is None or not bindings or any(is_imported(program, one) for one in bindings):
        return False
    whole = target is not root
    return all(
        (not whole and _is_before(program, use, wrap))
        or _keeps_still(program, use)
        or (whole and _is_before(program, use, wrap) and _is_measured(program, use))
        for use in _mentions(program, root)
    )


def is_only_evaluated(program: Program, wrap: cst.Call) -> bool:
    """Whether a wrapped model stays in a variable that only evaluations get, from there on.

    ``if args.do_test: net = DataParallel(net); evaluate(net, loader)``, whatever the option is
    called, and though the same script has trained the model before.
    """
    uses = _later_uses(program, wrap)
    evaluated = [use for use in uses if _is_evaluated(program, use)]
    return bool(evaluated) and all(
        use in evaluated
        or (_keeps_still(program, use) and program.function(use) is program.function(wrap))
        for use in uses
    )


def is_taken_off(program: Program, wrap: cst.Call) -> bool:
    """Whether a wrapper is only put on for the names of weights, and taken off before a run.

    ``net = DataParallel(net)``, ``net.load_state_dict(state)``, ``net = net.module``.
    """
    uses = _later_uses(program, wrap)
    bare = [use for use in uses if _is_unwrapped(program, use)]
    return bool(bare) and all(use in bare or _keeps_still(program, use) for use in uses)


def _later_uses(program: Program, wrap: cst.Call) -> list[cst.Name]:
    """Return the uses of the variable that a wrapped model is assigned to; none where unsure."""
    target = _target(program, wrap)
    binding = program.index.bound(target) if isinstance(target, cst.Name) else None
    if binding is None or is_imported(program, binding):
        return []
    return list(uses_of(program, binding))


def _is_unwrapped(program: Program, use: cst.Name) -> bool:
    """``net.module``, the model itself."""
    above = program.parent(use)
    return isinstance(above, cst.Attribute) and above.attr.value == "module"


def _is_evaluated(program: Program, use: cst.Name) -> bool:
    """``evaluate(net, loader)``, of a function that takes no steps; ``net(x)`` in such a loop.

    So is what shows, every n steps, what a model does.
    """
    match program.parent(use):
        case cst.Call() as run if run.func is use:
            context = program.context(run)
            off = context.guarded and program.recordings.at(run) is Recording.OFF
            return context.role is Role.EVAL or off
        case cst.Arg() as arg:
            call = program.parent(arg)
        case _:
            return False
    if not isinstance(call, cst.Call):
        return False
    context = program.context(call)
    if context.role is Role.TRAIN and not context.guarded:
        return False
    target = target_of(program, call)
    if target is None:
        return False
    home, function = target
    return home.loops.evaluates(function) and not home.loops.updates(function.body)


def _target(program: Program, wrap: cst.Call) -> cst.BaseExpression | None:
    """Return what a wrapped model is assigned to: ``x`` of ``x = wrap(model).cuda()``."""
    match program.parent(_moved(program, wrap)):
        case cst.Assign(targets=[only]):
            return only.target
        case _:
            return None


def _moved(program: Program, call: cst.CSTNode) -> cst.CSTNode:
    """Return the whole of ``call.cuda().eval()``, which gives the same model."""
    func = program.parent(call)
    while isinstance(func, cst.Attribute) and func.attr.value in torch_api.MODULE_SELF:
        above = program.parent(func)
        if not isinstance(above, cst.Call):
            break
        call, func = above, program.parent(above)
    return call


def _root(target: cst.CSTNode | None) -> cst.Name | None:
    while isinstance(target, cst.Attribute):
        target = target.value
    return target if isinstance(target, cst.Name) else None


def _given(
    program: Program, target: cst.BaseExpression | None, root: cst.Name | None
) -> list[Binding]:
    """Return what gives the variable its model, if all of it is made right there by calls."""
    if root is None:
        return []
    if target is root:
        own = program.index.bound(root)
        return [] if own is None else [own]
    found = list(program.flow.reaching(root))
    made = all(one.is_plain and isinstance(one.value, cst.Call) for one in found)
    return found if made else []


def _mentions(program: Program, root: cst.Name) -> Iterator[cst.Name]:
    """Yield the reads of a variable, wherever they stand in its scope."""
    scope = program.index.scope(root).owner(root.value)
    for name in program.index.named.get(root.value, ()):
        same = program.index.scope(name).owner(name.value) is scope
        if same and not is_label(program, name) and program.index.bound(name) is None:
            yield name


def _is_before(program: Program, use: cst.Name, wrap: cst.Call) -> bool:
    """Whether a variable is read in the same function, ahead of the wrapper and in no loop."""
    index, function = program.index, program.function(wrap)
    if program.function(use) is not function or index.order(use) > index.order(wrap):
        return False
    return not any(
        isinstance(above, cst.For | cst.While) and index.inside(use, above)
        for above in index.ancestors(wrap)
    )


def _keeps_still(program: Program, use: cst.Name) -> bool:
    """``ref.load_state_dict(x)``, ``ref.cuda()``, ``ref.features = x``, ``ref is None``."""
    whole: cst.CSTNode = use
    above = program.parent(use)
    while isinstance(above, cst.Attribute) and above.value is whole:
        whole, above = above, program.parent(above)
    match above:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)) as func) if func is whole:
            if name in torch_api.MODULE_SELF:
                return _stays(program, _moved(program, above), use)
            return name in _WEIGHTS and not _is_optimized(program, above)
        case cst.Arg():
            return _is_wrapped(program, above, use)
        case _:
            return isinstance(above, cst.AssignTarget | cst.Del | cst.Comparison)


def _stays(program: Program, call: cst.CSTNode, use: cst.Name) -> bool:
    """Whether what a call gives is dropped, or goes back into the variable it was made of."""
    match program.parent(call):
        case cst.Expr():
            return True
        case cst.Assign(targets=[only]):
            root = _root(only.target)
            return root is not None and root.value == use.value
        case _:
            return False


def _is_wrapped(program: Program, arg: cst.Arg, use: cst.Name) -> bool:
    """``ref = DistributedDataParallel(ref)``: the other way of the script."""
    call = program.parent(arg)
    if not isinstance(call, cst.Call):
        return False
    if program.qualified(call.func).rpartition(".")[2] not in _WRAPPERS:
        return False
    return _stays(program, _moved(program, call), use)


def _is_optimized(program: Program, call: cst.Call) -> bool:
    """Whether an optimizer gets the weights: some way the model is trained."""
    return any(
        isinstance(above, cst.Call) and program.value(above).kind is Kind.OPTIMIZER
        for above in program.index.ancestors(call)
    )


def _is_measured(program: Program, use: cst.Name) -> bool:
    """``size = count(ref)``, of which only numbers are made: the function keeps nothing."""
    arg = program.parent(use)
    call = None if arg is None else program.parent(arg)
    if not isinstance(arg, cst.Arg) or not isinstance(call, cst.Call):
        return False
    if not isinstance(call.func, cst.Name):
        return False
    match program.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            binding = program.index.bound(name)
        case _:
            return False
    uses = [] if binding is None else list(uses_of(program, binding))
    return bool(uses) and all(
        isinstance(program.parent(one), cst.BinaryOperation | cst.Comparison) for one in uses
    )
