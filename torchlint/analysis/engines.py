"""Engines of PyTorch Ignite: which function they run for each batch of which data.

``engine.run(data)`` goes through the data again and again and gives each batch to the process
function that the engine was made of, as its second argument.  The makers of supervised engines
have such a function of their own: it moves the batch to the device that they are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.loops import Event, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_DEPTH = 4  # names and functions between an engine and where it is made
_PLAIN = frozenset(
    f"ignite.engine.{name}"
    for name in ("Engine", "engine.Engine", "DeterministicEngine",
                 "deterministic.DeterministicEngine")
)  # fmt: skip
# Makers of engines, and of process functions: what they do, the place of their device.
_SUPERVISED = {
    "ignite.engine.create_supervised_trainer": (Role.TRAIN, 3),
    "ignite.engine.create_supervised_evaluator": (Role.EVAL, 2),
    "ignite.engine.supervised_training_step": (Role.TRAIN, 3),
    "ignite.engine.supervised_evaluation_step": (Role.EVAL, 1),
}
_EACH_STEP = frozenset(
    f"ignite.engine.{module}Events.{name}"
    for module in ("", "events.")
    for name in ("ITERATION_STARTED", "ITERATION_COMPLETED", "GET_BATCH_STARTED",
                 "GET_BATCH_COMPLETED")
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One ``engine.run(data)``, with what the engine does, where Ignite says it.

    ``engine`` is the call that makes the engine.  Where Ignite itself moves the batches, ``maker``
    is the call that says to which ``device``; where a function of the file gets them, it is
    ``process``, and ``place`` that of its parameter.
    """

    call: cst.Call
    data: cst.BaseExpression
    engine: cst.Call
    does: Role | None = None
    maker: cst.Call | None = None
    device: cst.BaseExpression | None = None
    process: cst.FunctionDef | None = None
    place: int = 1


class Engines:
    """The engines of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program

    @cached_property
    def runs(self) -> list[Run]:
        """Every ``engine.run(data)`` whose engine is seen to be made in the file."""
        if "ignite" not in self._program.frameworks:
            return []
        return [
            run
            for call, func in self._program.method_calls("run")
            if (data := _argument(call, "data", 0)) is not None
            for maker in self._makers(func.value, 0)
            for run in self._runs(call, data, maker)
        ]

    @cached_property
    def moving(self) -> dict[int, list[Run]]:
        """The runs whose batches Ignite moves, by the call that says where to."""
        found: dict[int, list[Run]] = {}
        for run in self.runs:
            if run.maker is not None and run.device is not None:
                found.setdefault(id(run.maker), []).append(run)
        return found

    def given(self, function: cst.FunctionDef, param: cst.Param) -> list[cst.BaseExpression]:
        """Return the data whose batches a parameter of a function is given, one by one."""
        params = [*function.params.posonly_params, *function.params.params]
        place = params.index(param) if param in params else None
        if place is not None and self._program.is_method(function):
            place -= 1
        return [run.data for run in self.runs if run.process is function and run.place == place]

    def role(self, run: Run) -> Role:
        """Return what an engine does for each batch of a run; OTHER where that is not known."""
        if run.does is not None or run.process is None:
            return run.does or Role.OTHER
        loops, index = self._program.loops, self._program.index
        if loops.done_by(run.process) & (Event.BACKWARD | Event.STEP):
            return Role.TRAIN
        off = any(map(loops.turns_gradients_off, index.below(run.process.body, cst.With)))
        return Role.EVAL if off or loops.evaluates(run.process) else Role.OTHER

    def of_process(self, function: cst.FunctionDef) -> Role:
        """Return what a function does for each batch, if runs make it a process function."""
        roles = {self.role(run) for run in self.runs if run.process is function and not run.does}
        return roles.pop() if len(roles) == 1 else Role.OTHER

    def of_handler(self, function: cst.FunctionDef) -> tuple[Role, bool]:
        """Return what a handler that runs in each step is part of, and whether it skips some.

        Handlers of other events, of which there are few in an epoch, are OTHER.
        """
        for engine, event in self._handled.get(id(function), ()) if self.runs else ():
            plain = event.func if isinstance(event, cst.Call) else event
            if self._program.qualified(plain) in _EACH_STEP:
                makers = {id(maker) for maker in self._makers(engine, 0)}
                roles = {self.role(run) for run in self.runs if id(run.engine) in makers}
                if len(roles) == 1:
                    return roles.pop(), plain is not event
        return Role.OTHER, False

    @cached_property
    def _handled(self) -> dict[int, list[tuple[cst.BaseExpression, cst.BaseExpression]]]:
        """The engines and events by which functions run: ``@engine.on(event)``, by function."""
        found: dict[int, list[tuple[cst.BaseExpression, cst.BaseExpression]]] = {}
        for call, func in self._program.method_calls("on", "add_event_handler"):
            above = self._program.parent(self._program.parent(call) or call)
            handler: cst.CSTNode | None = _argument(call, "handler", 1)
            if isinstance(self._program.parent(call), cst.Decorator):
                handler = above
            elif isinstance(handler, cst.BaseExpression):
                handler = self._function(handler)
            if handler is not None and (event := _argument(call, "event_name", 0)) is not None:
                found.setdefault(id(handler), []).append((func.value, event))
        return found

    def _makers(self, node: cst.CSTNode | None, depth: int) -> Iterator[cst.Call]:
        """Yield the calls of Ignite that make an engine."""
        if depth > _DEPTH:
            return
        program = self._program
        match node:
            case cst.Name():
                for binding in program.flow.reaching(node):
                    if binding.is_plain:
                        yield from self._makers(binding.value, depth + 1)
            case cst.Call() if program.qualified(node.func).startswith("ignite."):
                yield node
            case cst.Call(func=cst.Name()):
                target = program.calls.target(node)  # by a name: values ask for the engines
                for item in [] if target is None else program.returns(target):
                    yield from self._makers(item.value, depth + 1)
            case _:
                pass

    def _runs(self, call: cst.Call, data: cst.BaseExpression, maker: cst.Call) -> Iterator[Run]:
        engine, name = maker, self._program.qualified(maker.func)
        if name in _PLAIN:
            process = _argument(maker, "process_function", 0)
            if isinstance(process, cst.Call):
                name, maker = self._program.qualified(process.func), process
            function = self._function(process)
            if function is not None:
                yield Run(call, data, engine, process=function)
        if name not in _SUPERVISED:
            return
        role, place = _SUPERVISED[name]
        prepares = _keyword(maker, "prepare_batch")
        if prepares is None:
            yield Run(call, data, engine, role, maker, _argument(maker, "device", place))
        else:
            function = self._function(prepares)
            yield Run(call, data, engine, role, process=function, place=0)

    def _function(self, node: cst.BaseExpression | None) -> cst.FunctionDef | None:
        """Return the function of the file that an expression stands for."""
        program = self._program
        match node:
            case cst.Name():
                found = [binding.value for binding in program.flow.reaching(node)]
                only = found[0] if len(found) == 1 else None
                return only if isinstance(only, cst.FunctionDef) else None
            case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
                owner = program.classes.around(node)
                return None if owner is None else program.classes.method(owner, name)
            case _:
                return None


def _argument(call: cst.Call, name: str, place: int) -> cst.BaseExpression | None:
    """Return what a call passes by a keyword, or in a place before any star."""
    for at, arg in enumerate(call.args):
        if arg.star:
            return None
        if (arg.keyword is None and at == place) or _is_called(arg, name):
            return arg.value
    return None


def _keyword(call: cst.Call, name: str) -> cst.BaseExpression | None:
    return next((arg.value for arg in call.args if _is_called(arg, name)), None)


def _is_called(arg: cst.Arg, name: str) -> bool:
    return arg.keyword is not None and arg.keyword.value == name
