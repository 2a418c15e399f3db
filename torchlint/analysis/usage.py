"""What a name must be, by how it is used: only a tensor has ``.backward()``.

Used where the value itself is not known, such as the result of an imported function.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import TENSOR, Kind, Value
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

    _Found: TypeAlias = tuple[dict[int, Value], dict[tuple[int, str], Value]]

_MODULE = Value(Kind.MODULE)
_OPTIMIZER = Value(Kind.OPTIMIZER)
_CONDITIONAL = frozenset(
    {cst.BooleanOperation, cst.CompIf, cst.If, cst.IfExp, cst.Match, cst.Try, cst.TryStar}
)
_FUNCTIONS = frozenset({cst.FunctionDef, cst.Lambda})
# ``optimizer.backward(loss)``, of what wraps one for mixed precision.
_STEPPED = re.compile(r"optim|scaler|engine", re.IGNORECASE)
_BACKWARD_HELPERS = frozenset({"accelerator", "fabric", "self", "booster", "engine"})


class Usage:
    """Kinds of names and attributes, by their uses in one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program

    def shown_by(self, bindings: Iterable[Binding]) -> Value | None:
        """Return what the uses of a name show it to be, whichever of these bindings is meant."""
        found = [self._bindings.get(id(binding)) for binding in bindings]
        shown = [value for value in found if value is not None]
        return shown[0] if shown and all(v.kind is shown[0].kind for v in shown) else None

    def shown_attribute(self, node: cst.Attribute) -> Value | None:
        """Return what the uses of ``self.x`` show it to be, in the class it stands in."""
        text = dotted(node)
        return self._attributes.get((id(self._class(node)), text)) if text else None

    def _class(self, node: cst.CSTNode) -> cst.CSTNode | None:
        owner = self._program.classes.around(node)
        return None if owner is None else owner.node

    @cached_property
    def _found(self) -> _Found:
        found: _Found = {}, {}
        for call in self._program.index.of(cst.Call):
            for target, value in self._shown(call):
                self._show(target, value, found)
        for call, func in self._program.method_calls("load_state_dict"):
            if self._is_module(_loaded(call), found):
                self._show(func.value, _MODULE, found)
        return found

    def _show(self, target: cst.BaseExpression, value: Value, found: _Found) -> None:
        names, attributes = found
        if isinstance(target, cst.Name):
            self._show_name(target, value, names)
        elif isinstance(target, cst.Attribute) and dotted(target):
            attributes.setdefault((id(self._class(target)), dotted(target)), value)

    def _is_module(self, node: cst.BaseExpression | None, found: _Found) -> bool:
        """Whether an expression has been shown to be a module."""
        names, attributes = found
        match node:
            case cst.Name():
                shown = [names.get(id(one)) for one in self._program.flow.reaching(node)]
                return bool(shown) and all(one is _MODULE for one in shown)
            case cst.Attribute():
                return attributes.get((id(self._class(node)), dotted(node))) is _MODULE
            case _:
                return False

    def _shown(self, call: cst.Call) -> list[tuple[cst.BaseExpression, Value]]:
        """Return what one call shows about the expressions in it."""
        func = call.func
        if type(func) is cst.Attribute and func.attr.value == "detach":
            # under a condition, it may be a tensor there alone: `if torch.is_tensor(x): ...`
            always = not call.args and not self._is_conditional(call)
            return [(func.value, TENSOR)] if always and type(func.value) is cst.Name else []
        return _shown(call)

    def _is_conditional(self, node: cst.CSTNode) -> bool:
        """Whether a condition within its function decides on a place."""
        for above in self._program.index.ancestors(node):
            if type(above) in _CONDITIONAL:
                return True
            if type(above) in _FUNCTIONS:
                return False
        return False

    def _show_name(self, target: cst.Name, value: Value, names: dict[int, Value]) -> None:
        flow = self._program.flow
        bindings = flow.reaching(target)
        if value.kind is not Kind.TENSOR:
            # a model or optimizer is one for as long as the name stands for it
            owner = self._program.index.scope(target).owner(target.value)
            bindings = tuple(owner.bindings[target.value]) if owner is not None else bindings
        for binding in bindings:
            names.setdefault(id(binding), value)

    @property
    def _bindings(self) -> dict[int, Value]:
        return self._found[0]

    @property
    def _attributes(self) -> dict[tuple[int, str], Value]:
        return self._found[1]


def _shown(call: cst.Call) -> list[tuple[cst.BaseExpression, Value]]:
    """Return what one call shows about the expressions in it."""
    if scales_loss(call):
        return [(call.args[0].value, TENSOR)]
    if type(call.func) is not cst.Attribute:
        return []
    receiver, method = call.func.value, call.func.attr.value
    match method:
        case "backward":
            return [(target, TENSOR) for target in _differentiated(receiver, call)]
        case "parameters" | "named_parameters" | "state_dict" if not call.args:
            return [(receiver, _MODULE)] if method != "state_dict" else []
        case _:
            return []


def _loaded(call: cst.Call) -> cst.BaseExpression | None:
    """Return what a call takes the parameters of: ``target.load_state_dict(net.state_dict())``."""
    match call.args:
        case [cst.Arg(value=cst.Call(func=cst.Attribute(value, cst.Name("state_dict")), args=[]))]:
            return value
        case _:
            return None


def scales_loss(call: cst.Call) -> bool:
    """Whether a call is ``loss_scaler(loss, optimizer, ...)``, which does backward and step."""
    return (
        type(call.func) is cst.Name
        and "scaler" in call.func.value.lower()
        and len(call.args) > 1
        and call.args[0].keyword is None
    )


def _differentiated(receiver: cst.BaseExpression, call: cst.Call) -> list[cst.BaseExpression]:
    if isinstance(receiver, cst.Call):  # scaler.scale(loss).backward()
        scales = isinstance(receiver.func, cst.Attribute) and receiver.func.attr.value == "scale"
        return [receiver.args[0].value] if scales and receiver.args else []
    if (
        call.args
        and call.args[0].keyword is None
        and (
            dotted(receiver).split(".")[0] in _BACKWARD_HELPERS
            or _STEPPED.search(dotted(receiver)) is not None
        )
    ):
        return [call.args[0].value]
    return [receiver]
