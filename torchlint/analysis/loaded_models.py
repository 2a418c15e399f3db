"""Models that get weights and are put into evaluation mode wherever they are made.

Those were trained elsewhere, with all that is in them: the network of a loss, an extractor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.held import outermost
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_MOST = 20  # functions that make such a model


def is_loaded_wherever_made(program: Program, layer: cst.Call) -> bool:
    """Whether the project makes each model that holds a layer of a file to evaluate it.

    ``self.net = Net()``, and in the same function ``self.net.load_state_dict(torch.load(path))``
    and ``self.net.eval()``; or a function that gives one back is called likewise.
    """
    outer = outermost(program, layer)
    if outer is None or not program.unreached.is_closed:
        return False
    todo, made = [outer.name.value], 0
    for name in todo:
        uses = list(_uses(program, name))
        if len(todo) > _MOST:
            return False
        for home, use in uses:
            call = None if use is None else home.parent(use)
            function = None if use is None else home.function(use)
            if not isinstance(call, cst.Call) or call.func is not use or function is None:
                return False
            if home is program and _gives(home, function, call):
                if function.name.value not in todo:
                    todo.append(function.name.value)
            elif _is_evaluated(home, function, call):
                made += 1
            else:
                return False
    return made > 0


def _uses(program: Program, name: str) -> Iterator[tuple[Program, cst.CSTNode | None]]:
    """Yield where something of the module is used, but for ``super(Net, self)``; None if unsure."""
    elsewhere = program.unreached.mentions(name)
    own = [(program, use) for use in program.unreached.own_uses(name)]
    for home, use in (*own, *(elsewhere or ())):
        above = home.parent(use)
        call = home.parent(above) if isinstance(above, cst.Arg) else None
        if not (isinstance(call, cst.Call) and dotted(call.func) == "super"):
            yield home, use
    if elsewhere is None:
        yield program, None


def _gives(program: Program, function: cst.FunctionDef, call: cst.Call) -> bool:
    """Whether a function of the module returns what a call in it makes."""
    if program.index.scope(function).parent is not None:
        return False
    target = _target(program, call)
    returned = [line.value for line in program.returns(function)]
    return bool(returned) and all(
        one is call or (target != "" and one is not None and dotted(one) == target)
        for one in returned
    )


def _is_evaluated(program: Program, function: cst.FunctionDef, call: cst.Call) -> bool:
    target = _target(program, call)
    methods = {
        method.func.attr.value
        for method in program.index.below(function, cst.Call)
        if isinstance(method.func, cst.Attribute) and dotted(method.func.value) == target
    }
    return target != "" and {"load_state_dict", "eval"} <= methods and "train" not in methods


def _target(program: Program, call: cst.Call) -> str:
    match program.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(target=target)]):
            return dotted(target)
        case _:
            return ""
