"""The two modes of a model: which calls put it into evaluation, and what is passed by then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.decisions import may_come_to
from torchlint.analysis.dictionaries import literal
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_EACH = "[]"  # ends the name of each model of several


def evaluation_switches(program: Program) -> Iterator[cst.Call]:
    """Yield the calls of a file that put a model into evaluation."""
    for call, _ in program.method_calls("eval", "train"):
        if puts_into_evaluation(call):
            yield call


def puts_into_evaluation(call: cst.Call) -> bool:
    """``model.eval()``, and ``model.train(False)``, which is the same."""
    match call:
        case cst.Call(func=cst.Attribute(attr=cst.Name("eval")), args=[]):
            return True
        case cst.Call(
            func=cst.Attribute(attr=cst.Name("train")), args=[cst.Arg(value=mode, star="")]
        ):
            return literal(mode) == "False"
        case _:
            return False


def switched(program: Program, switch: cst.Call) -> list[str]:
    """Return the names of the models that ``.eval()`` is called on: ``model``, ``self.net``.

    Of a loop through some, all of their names; of one through what holds them, ``nets[]``.
    """
    assert isinstance(switch.func, cst.Attribute)
    statement = program.smallest_statement(switch)
    if isinstance(statement, cst.Assign) and statement.value is switch:
        return [dotted(statement.targets[0].target)]
    model = switch.func.value
    loop = loop_through_models(program, switch)
    names = [model_name(program, model)]
    if loop is not None and isinstance(loop.iter, cst.Tuple | cst.List):
        names += [dotted(one.value) for one in loop.iter.elements]
    return [name for name in names if name]


def loop_through_models(program: Program, switch: cst.Call) -> cst.For | None:
    """Return the loop around ``net.eval()`` that goes through several models, if it is one."""
    assert isinstance(switch.func, cst.Attribute)
    turn = switch.func.value
    if isinstance(turn, cst.Subscript):  # `nets[i]`
        match turn.slice:
            case [cst.SubscriptElement(slice=cst.Index(value=turn))]:
                pass
            case _:
                return None
    if not isinstance(turn, cst.Name):
        return None
    made = program.flow.reaching(turn)
    for above in program.index.ancestors(switch):
        if isinstance(above, cst.For):
            of_loop = len(made) == 1 and made[0].kind is Bind.FOR and made[0].value is above.iter
            return above if of_loop else None
        if isinstance(above, cst.FunctionDef):
            return None
    return None


def is_named(program: Program, node: cst.BaseExpression, name: str) -> bool:
    """Whether an expression is what has a name here: ``nets[]`` for each one of several."""
    return (model_name(program, node) if name.endswith(_EACH) else dotted(node)) == name


def model_name(program: Program, node: cst.BaseExpression) -> str:
    """Return what a model is called: ``net``, ``self.net``, and ``nets[]`` of each that these are.

    So it is in ``nets[i]`` and in ``for net in nets``.
    """
    match node:
        case cst.Subscript(value=several) if dotted(several):
            return f"{dotted(several)}{_EACH}"
        case cst.Name():
            names = {_each_of(made) for made in program.flow.reaching(node)}
            held = names.pop() if len(names) == 1 else ""
            return f"{held}{_EACH}" if held else node.value
        case _:
            return dotted(node)


def _each_of(made: Binding) -> str:
    """Return the name of that of which a loop gives each member, or ""."""
    if made.kind is not Bind.FOR:
        return ""
    match made.value, made.path:
        case cst.Name() | cst.Attribute() as several, ():
            return dotted(several)
        case cst.Call(func=cst.Name("enumerate"), args=[cst.Arg(value=several), *_]), (1,):
            return dotted(several)
        case cst.Call(func=cst.Name("zip"), args=args), (int() as place,) if place < len(args):
            return dotted(args[place].value)
        case cst.Call(func=cst.Attribute(value=several, attr=cst.Name("values"))), ():
            return dotted(several)
        case cst.Call(func=cst.Attribute(value=several, attr=cst.Name("items"))), (1,):
            return dotted(several)
        case _:
            return ""


def only_in_training(program: Program, node: cst.CSTNode, name: str) -> bool:
    """Whether a node is never come to while a model is evaluated: ``if model.training: ...``.

    Also what stands after ``if not model.training: return ...``.
    """
    return not may_come_to(program, node, partial(_in_evaluation, name))


def _in_evaluation(name: str, test: cst.BaseExpression) -> bool | None:
    """What a condition comes to of a model in evaluation; None where other things decide."""
    match test:
        case cst.Attribute(value=model, attr=cst.Name("training")) if dotted(model) == name:
            return False
        case _:
            return None
