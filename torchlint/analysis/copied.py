"""Networks whose parameters are only copied or loaded: nobody uses their gradients.

Such is the target network of reinforcement learning: no optimizer has its parameters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.derivation import sources
from torchlint.analysis.evaluations import asks_for_gradients, records_nothing
from torchlint.analysis.importing import texts_of_importers
from torchlint.analysis.parameters import has_parameters
from torchlint.analysis.reach import callee, callers
from torchlint.analysis.recording import Recording
from torchlint.analysis.uses import is_label
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.analysis.program import Program

# What is asked of a network without training it, and what puts the parameters of another into it.
_LEAVES = frozenset("eval train to cuda cpu float double half state_dict".split())
_LOADS = "load_state_dict"
_PARAMETERS = ("parameters", "named_parameters")
_WANTS = frozenset("grad requires_grad requires_grad_ retain_grad".split())
_COPIES = ("copy.deepcopy", "copy.copy")


def copied(program: Program) -> Iterator[cst.Call]:
    """Find the calls, in training steps, of networks whose parameters are only copied or loaded.

    What they are given must come from no network that is trained: its gradient would pass here.
    """
    text = program.text
    if "backward" not in text or asks_for_gradients(program):
        return
    if "copy_(" not in text and _LOADS not in text and ".lerp_(" not in text:
        return
    known: dict[str, bool] = {}
    for call in program.index.of(cst.Call):
        if (
            _may_be(program, call)
            and _is_copy(program, call.func, known)
            and _gets_no_graph(program, call, known)
        ):
            yield call


def _may_be(program: Program, call: cst.Call) -> bool:
    """Whether a call runs a network with parameters in each training step, and is recorded."""
    name = dotted(call.func)
    if not name or (isinstance(call.func, cst.Attribute) and not _is_own(call.func)):
        return False
    model = program.value(call.func)
    return (
        model.kind is Kind.MODULE
        and program.context(call).per_step
        and program.recordings.at(call) is Recording.ON
        and has_parameters(program, model) is True
        and not records_nothing(program, call)
        and not _wants_gradients(program, call)
    )


def _is_own(node: cst.Attribute) -> bool:
    """``self.target``."""
    return isinstance(node.value, cst.Name) and node.value.value == "self"


def _wants_gradients(program: Program, call: cst.Call) -> bool:
    """Whether the function around a call speaks of gradients by the input."""
    place = program.function(call) or program.module
    return any(name.value in _WANTS for name in program.index.below(place, cst.Name))


# -- what is done with the network ----------------------------------------------------------------


def _is_copy(program: Program, func: cst.BaseExpression, known: dict[str, bool]) -> bool:
    """Whether all that a project does with a network is to run it, and to copy into it."""
    key = f"{id(program.classes.around(func))} {dotted(func)}"
    if key not in known:
        known[key] = _is_only_copied(program, func)
    return known[key]


def _is_only_copied(program: Program, func: cst.BaseExpression) -> bool:
    mentions = _mentions(program, func)
    if mentions is None:
        return False
    name = dotted(func).rpartition(".")[2]
    used = re.compile(rf"\b{re.escape(name)}\b(?!\.(state_dict|eval|train|to|cuda)\()")
    if any(used.search(text) for text in texts_of_importers(program)):
        return False
    found = [_use(program, one) for one in mentions]
    return False not in found and True in found


def _mentions(program: Program, func: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """Return where the file names a network; None where that may be another one."""
    index = program.index
    if isinstance(func, cst.Name):
        owner = index.scope(func).owner(func.value)
        return [
            one
            for one in index.named.get(func.value, ())
            if not is_label(program, one)
            and not _is_declared(program, one)
            and index.scope(one).owner(func.value) is owner
        ]
    if not isinstance(func, cst.Attribute):
        return None
    home = program.classes.around(func)
    if home is None or home.is_module:
        return None  # `parameters()` of the whole has them, too
    same = [one for one in index.of(cst.Attribute) if one.attr.value == func.attr.value]
    return list(same) if all(_is_own(one) for one in same) else None


def _is_declared(program: Program, name: cst.Name) -> bool:
    """Whether a name is that of a parameter, which is the own of its function."""
    above = program.parent(name)
    return isinstance(above, cst.Param) and above.name is name


def _use(program: Program, node: cst.BaseExpression) -> bool | None:
    """Return True for what copies into a network, None for what leaves it, False for the rest."""
    above = program.parent(node)
    match above:
        case cst.AssignTarget():
            statement = program.parent(above)
            made = statement.value if isinstance(statement, cst.Assign) else None
            return None if made is not None and _is_made(program, made) else False
        case cst.NameItem():
            return None  # `global target`
        case cst.Call(func=func) if func is node:
            return None
        case cst.Attribute(value=value, attr=cst.Name(value=asked)) if value is node:
            return _of_method(program, above, asked)
        case cst.Arg(star="") if isinstance(call := program.parent(above), cst.Call):
            return _copies_into(program, call, node)
        case _:
            return False


def _is_made(program: Program, made: cst.BaseExpression) -> bool:
    """Whether an expression makes a network of its own, no part of which is another's."""
    return (
        program.value(made).kind is Kind.MODULE
        and isinstance(made, cst.Call)
        and _makes(program, made)
    )


def _makes(program: Program, call: cst.Call) -> bool:
    """``Net(4)``, ``copy.deepcopy(net)``, and both with ``.to(device)`` behind."""
    match call.func:
        case cst.Attribute(value=cst.Call() as inner, attr=cst.Name(value=asked)) if (
            asked in _LEAVES
        ):
            return _makes(program, inner)
        case func if program.qualified(func) in _COPIES:
            return True
        case func if program.value(func).kind is not Kind.CLASS:
            return False
        case _:
            return not any(
                arg.star
                or (
                    isinstance(arg.value, cst.Name | cst.Attribute)
                    and program.value(arg.value).kind is Kind.MODULE
                )
                for arg in call.args
            )


def _of_method(program: Program, node: cst.Attribute, asked: str) -> bool | None:
    call = program.parent(node)
    if not isinstance(call, cst.Call) or call.func is not node:
        return False
    if asked in _PARAMETERS:
        return _is_copied_over(program, call)
    if asked == _LOADS:
        return True
    if asked == "state_dict":
        return None
    return None if asked in _LEAVES and _stays(program, call, dotted(node.value)) else False


def _stays(program: Program, call: cst.Call, name: str) -> bool:
    """``net.eval()`` and ``net = net.to(device)``: no other name stands for the network."""
    match program.parent(call):
        case cst.Expr():
            return True
        case cst.Assign(targets=targets):
            return all(dotted(one.target) == name for one in targets)
        case _:
            return False


def _copies_into(program: Program, call: cst.Call, given: cst.BaseExpression) -> bool:
    """Whether a function of the project does nothing with a network but to copy parameters."""
    found = callee(program, call)
    if found is None:
        return False
    home, function = found
    own = home.index.opened(function).bindings
    names = [
        param.name.value
        for param in function.params.params
        if home.calls.passed(function, param, call) is given
    ]
    uses = [
        use
        for name in names
        if len(own.get(name, ())) == 1
        for use in home.index.named.get(name, ())
        if home.function(use) is function and not is_label(home, use)
    ]
    uses = [use for use in uses if not _is_declared(home, use)]
    done = [_use_of_parameter(home, use) for use in uses]
    return bool(done) and False not in done and True in done


def _use_of_parameter(program: Program, use: cst.Name) -> bool | None:
    above = program.parent(use)
    if isinstance(above, cst.Attribute) and above.value is use:
        return _of_method(program, above, above.attr.value)
    return False


def _is_copied_over(program: Program, asked: cst.Call) -> bool | None:
    """``for a, b in zip(target.parameters(), source.parameters()): a.data.copy_(b.data)``.

    None where the data of one network alone is looked at, or set.
    """
    loop = next(
        (one for one in program.index.ancestors(asked) if not isinstance(one, cst.Arg | cst.Call)),
        None,
    )
    if not isinstance(loop, cst.For) or not program.index.inside(asked, loop.iter):
        return False
    names = {name.value for name in program.index.below(loop.target, cst.Name)}
    used = [one for one in program.index.below(loop.body, cst.Name) if one.value in names]
    if not used or not all(_is_data(program, one) for one in used):
        return False
    return True if _is_written(program, loop, asked) else None


def _is_written(program: Program, loop: cst.For, asked: cst.Call) -> bool:
    """Whether the turns of a loop put values into the parameters that are asked for."""
    match loop.iter, loop.target:
        case cst.Call(func=cst.Name("zip"), args=args), cst.Tuple(elements=elements):
            own = [
                name.value
                for arg, element in zip(args, elements, strict=False)
                if program.index.inside(asked, arg)
                for name in program.index.below(element, cst.Name)
            ]
        case _:
            return False
    stores = [one.target for one in program.index.below(loop.body, cst.AssignTarget)]
    calls = [
        call.func.value
        for call in program.index.below(loop.body, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("_")
    ]
    return any(dotted(one).partition(".")[0] in own for one in (*stores, *calls))


def _is_data(program: Program, use: cst.Name) -> bool:
    """``a.data``, ``a.copy_(...)`` and, where nothing is recorded, all that is computed."""
    if is_label(program, use):
        return True
    above = program.parent(use)
    if not isinstance(above, cst.Attribute):
        return program.recordings.at(use) is Recording.OFF
    asked = above.attr.value
    off = asked not in _WANTS and program.recordings.at(use) is Recording.OFF
    return off or asked in ("data", "detach", "copy_")


# -- what it is given -----------------------------------------------------------------------------


def _gets_no_graph(program: Program, call: cst.Call, known: dict[str, bool]) -> bool:
    """Whether no network that is trained computes what a call is given, as far as that is seen."""
    given = sources(program, [arg.value for arg in call.args])
    function = program.function(call)
    if not _is_plain(program, given.expressions.values(), known):
        return False
    for binding in given.bindings.values():
        if binding.kind is Bind.PARAMETER and function is not None:
            if not isinstance(binding.value, cst.Param):
                return False
            if not _comes_plain(program, function, binding.value, known):
                return False
    return True


def _comes_plain(
    program: Program, function: cst.FunctionDef, param: cst.Param, known: dict[str, bool]
) -> bool:
    """Whether no call of a function passes for a parameter what a network has computed."""
    for other, site in callers(program, function):
        given = program.calls.passed(function, param, site)
        before = () if given is None else sources(other, [given]).expressions.values()
        if not _is_plain(other, before, known):
            return False
    return True


def _is_plain(program: Program, nodes: Iterable[cst.CSTNode], known: dict[str, bool]) -> bool:
    """Whether no network runs in some expressions, but for those that only get copies."""
    return all(
        _is_copy(program, call.func, known)
        if program.value(call.func).kind is Kind.MODULE
        else not _runs_network(program, call)
        for node in nodes
        for call in program.index.below(node, cst.Call)
    )


def _runs_network(program: Program, call: cst.Call) -> bool:
    """Whether a function of the project runs a network, where that is recorded."""
    found = callee(program, call)
    if found is None:
        return any(program.value(arg.value).kind is Kind.MODULE for arg in call.args)
    home, function = found
    return home.recordings.function(function) is not Recording.OFF and any(
        home.value(one.func).kind is Kind.MODULE for one in home.index.below(function, cst.Call)
    )
