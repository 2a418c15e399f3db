"""What is on the host by the lines around it, whatever the rest of the file does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.chains import dotted, root_of
from torchlint.syntax.scopes import Bind, ScopeKind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_GPUS = re.compile(r"gpu|cuda", re.IGNORECASE)
_MOVES = frozenset({"to", "cuda", "to_empty"})
_TO_GPU = re.compile(r"(?:(?:to|move|put|send)_?)+(?:on_?)?(?:cuda|gpu|device)|cuda", re.IGNORECASE)
_CLASS = re.compile(r"[A-Z]|(.*_)?(class|cls)$")
_DEFAULTS = ("set_default_device", "default_tensor_type", "torch.device(")


def back_on_host(program: Program, binding: Binding) -> bool:
    """Whether a name is put on the host where GPUs are used: ``if cfg.NUM_GPUS: x = x.cpu()``."""
    match binding.value:
        case cst.Call(func=cst.Attribute(value=moved, attr=cst.Name("cpu")), args=[]):
            branch = program.parent(program.parent(program.statement(binding.node)) or moved)
        case _:
            return False
    root = root_of(moved)
    return (
        isinstance(root, cst.Name)
        and root.value == binding.name
        and isinstance(branch, cst.If)
        and isinstance(branch.test, cst.Name | cst.Attribute | cst.Comparison)
        and branch.body is program.parent(program.statement(binding.node))
        and _GPUS.search(program.code(branch.test)) is not None
    )


def stays_on_host(program: Program, binding: Binding) -> bool:
    """Whether a name is a model that a function makes of a class, and never moves nor hands on."""
    made = binding.value
    if not binding.is_plain or not isinstance(made, cst.Call):
        return False
    if binding.scope.kind is not ScopeKind.FUNCTION or not isinstance(made.func, cst.Name):
        return False
    if not _CLASS.match(made.func.value) or any(word in program.text for word in _DEFAULTS):
        return False
    used = all(
        _only_used(program, use)
        for use in program.index.named.get(binding.name, ())
        if use is not binding.node and program.index.scope(use).owner(use.value) is binding.scope
    )
    return used and not _moves_itself(program, made.func)


def of_host_model(program: Program, tensor: cst.BaseExpression) -> bool:
    """Whether a function computed a tensor with layers that are made here and never moved.

    ``net = nn.Sequential(...)``, and ``loss = score(net, x)``: what layers of the host compute is
    there as well.
    """
    found = program.flow.reaching(tensor) if isinstance(tensor, cst.Name) else ()
    return bool(found) and all(
        one.kind is Bind.ASSIGN
        and isinstance(one.value, cst.Call)
        and any(_are_layers_of_host(program, arg.value, tensor) for arg in one.value.args)
        for one in found
    )


def is_moved_next(program: Program, tensor: cst.BaseExpression) -> bool:
    """Whether a tensor is moved to the GPU further down in its block, under its name.

    ``n = mask.sum().item()``, and then ``mask = mask.cuda()``, or ``x, mask = to_cuda(x, mask)``.
    """
    root = root_of(tensor, subscripts=True)
    if not isinstance(root, cst.Name) or root.value == "self":
        return False
    index = program.index
    bound, around = program.flow.reaching(root), {id(one) for one in index.ancestors(root)}
    return bool(bound) and any(
        index.order(use) > index.order(root)
        and _moves_name(program, use)
        and id(program.parent(program.statement(use))) in around
        and program.flow.reaching(use) == bound
        for use in index.named[root.value]
    )


def _moves_name(program: Program, use: cst.Name) -> bool:
    """``x = x.cuda()``, ``x, y = to_cuda(x, y)``: the name stands for what is on the GPU then."""
    above = program.parent(use)
    call = None if above is None else program.parent(above)
    if not isinstance(call, cst.Call):
        return False
    match above:
        case cst.Attribute(attr=cst.Name("cuda" | "to")) if call.func is above:
            pass
        case cst.Arg() if _TO_GPU.fullmatch(dotted(call.func).rpartition(".")[2]) is not None:
            pass
        case _:
            return False
    match program.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(target=target)]):
            return any(name.value == use.value for name in program.index.below(target, cst.Name))
        case _:
            return False


def _are_layers_of_host(program: Program, node: cst.BaseExpression, read: cst.CSTNode) -> bool:
    """Whether a name stands for layers that nothing moves up to a line, or in a turn around it."""
    bindings = program.flow.reaching(node) if isinstance(node, cst.Name) else ()
    if len(bindings) != 1 or any(word in program.text for word in _DEFAULTS[:2]):
        return False
    (binding,) = bindings
    made = binding.value
    if not binding.is_plain or not isinstance(made, cst.Call):
        return False
    if binding.scope.kind is not ScopeKind.FUNCTION:
        return False
    loops = [one for one in program.index.ancestors(read) if isinstance(one, cst.For | cst.While)]
    end = program.index.end(loops[-1] if loops else read)
    return program.qualified(made.func) == "torch.nn.Sequential" and all(
        _only_used(program, use) or _is_given_away_unmoved(program, use)
        for use in program.index.named[binding.name]
        if use is not binding.node
        and program.index.order(use) < end
        and program.index.scope(use).owner(use.value) is binding.scope
    )


def _is_given_away_unmoved(program: Program, use: cst.Name) -> bool:
    """Whether a function is given a model that speaks of no device."""
    arg = program.parent(use)
    call = program.parent(arg) if isinstance(arg, cst.Arg) else None
    if not isinstance(call, cst.Call):
        return False
    own, far = program.calls.target(call), program.calls.elsewhere(call)
    home = program if own is not None else far.program if far is not None else None
    function = own if own is not None else far.function if far is not None else None
    return (
        home is not None
        and function is not None
        and not any(
            one.value in _MOVES or "device" in one.value
            for one in home.index.below(function, cst.Name)
        )
    )


def _moves_itself(program: Program, name: cst.Name) -> bool:
    """Whether a class of the project speaks of devices: it may put itself, or its parts, on one."""
    home, owner = program, program.classes.named(program.qualified(name))
    node: cst.CSTNode | None = None if owner is None else owner.node
    if owner is None and program.project is not None:
        found = program.project.define(program, program.qualified(name))
        if found is not None:
            home, node = found.program, found.binding.value
    return node is not None and any(
        one.value in _MOVES or "device" in one.value for one in home.index.below(node, cst.Name)
    )


def _only_used(program: Program, use: cst.Name) -> bool:
    """Whether a model is called, or asked for what it has, and goes nowhere else."""
    match program.parent(use):
        case cst.Attribute(value=held, attr=cst.Name(value=name)):
            return held is not use or name not in _MOVES
        case cst.Call(func=called):
            return called is use
        case cst.Arg(keyword=word):
            return word is use
        case _:
            return False
