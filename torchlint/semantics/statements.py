"""Statements: what each does to the environment, and where its branches join."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.semantics import entering, imports
from torchlint.semantics.definitions import define_class, define_function
from torchlint.semantics.guesses import guessed_name
from torchlint.semantics.narrowing import decided, narrow
from torchlint.semantics.operations import combined, element_of, is_endless, part_of
from torchlint.semantics.run import MODES, Loop
from torchlint.semantics.values import (
    NOTHING,
    Class,
    Dictionary,
    File,
    Instance,
    Object,
    Sequence,
    Text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchlint.semantics.run import Env, Run, Statement
    from torchlint.semantics.values import Value

Branch: TypeAlias = "cst.If | cst.Else | None"


def bind_target(run: Run, target: cst.BaseExpression, value: Value) -> None:
    """Give a target its value: a name, an attribute, an item, or parts to several of them."""
    match target:
        case cst.Name():
            run.bind(target, guessed_name(run, target, value))
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            starred = (isinstance(one, cst.StarredElement) for one in elements)
            rest = next((place for place, is_rest in enumerate(starred) if is_rest), None)
            for place, element in enumerate(elements):
                part = part_of(run, value, place, len(elements), rest)
                bind_target(run, element.value, part)
        case cst.StarredElement(value=inner):
            bind_target(run, inner, value)
        case _:
            _store(run, target, value)


def _store(run: Run, target: cst.BaseExpression, value: Value) -> None:
    """``x.name = value``, ``x[key] = value``."""
    match target:
        case cst.Attribute(value=inner, attr=cst.Name(value=name)):
            _set_attribute(run, target, run.value(inner), name, value)
        case cst.Subscript(value=inner):
            whole = run.value(inner)
            parts = [element.slice for element in target.slice]
            keys = [run.value(part.value) for part in parts if isinstance(part, cst.Index)]
            _set_item(run, target, whole, keys, value)


def _set_attribute(run: Run, target: cst.Attribute, owner: Value, name: str, value: Value) -> None:
    at, evaluation = run.at(target), run.evaluation
    for one in owner:
        match one:
            case Instance(cls=home) | Class(at=home):
                run.give(evaluation.attribute(home, name), at, value)
            case Object(call=made) | Dictionary(made=made) if made is not None:
                run.give(evaluation.attribute(made, name), at, value)
            case File(file=file):
                cell = evaluation.global_name(file, name)
                if cell is not None:
                    run.give(cell, at, value)


def _set_item(
    run: Run, target: cst.Subscript, whole: Value, keys: list[Value], value: Value
) -> None:
    at = run.at(target)
    for one in whole:
        match one:
            case Dictionary(made=made) if made is not None:
                match keys:
                    case [(Text(value=str(key)),)]:
                        run.give(run.evaluation.elements(made, key), at, value)
                    case _:
                        run.give(run.evaluation.elements(made), at, value)
            case Sequence(made=made) if made is not None:
                run.give(run.evaluation.elements(made), at, value)


def _line(run: Run, node: cst.SimpleStatementLine | cst.SimpleStatementSuite) -> None:
    for small in node.body:
        run.execute(small)


def _assign(run: Run, node: cst.Assign) -> None:
    value = run.value(node.value)
    for target in node.targets:
        bind_target(run, target.target, value)


def _annotated(run: Run, node: cst.AnnAssign) -> None:
    if node.value is not None:
        bind_target(run, node.target, run.value(node.value))


def _augmented(run: Run, node: cst.AugAssign) -> None:
    before = run.value(node.target)
    value = combined(run, node, before, run.value(node.value))
    run.evaluation.values[id(node)] = value
    bind_target(run, node.target, value)


def _delete(run: Run, node: cst.Del) -> None:
    target = node.target
    parts = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
    for one in [part.value for part in parts] or [target]:
        run.value(one)
        if isinstance(one, cst.Name):
            run.bind(one, run.sets.unknown)


def _expression(run: Run, node: cst.Expr) -> None:
    value = run.value(node.value)
    match node.value:
        case cst.Call(func=cst.Attribute(value=cst.Name() as name, attr=cst.Name("detach_"))):
            where = run.evaluation.where.get(id(name))
            if isinstance(where, (str, tuple)) and (seen := run.env.get(where)):
                run.env[where] = value, seen[1]


def _return(run: Run, node: cst.Return) -> None:
    value = run.one(NOTHING) if node.value is None else run.value(node.value)
    run.give(run.unit.returned, run.at(node), value)
    run.is_alive = False


def _raise(run: Run, node: cst.Raise) -> None:
    if node.exc is not None:
        run.value(node.exc)
    run.is_alive = False


def _assert(run: Run, node: cst.Assert) -> None:
    run.value(node.test)
    narrow(run, node.test, truth=True)


def _leave(run: Run, node: cst.Break | cst.Continue) -> None:
    if run.is_alive:
        loop = run.loops[-1]
        ends = loop.breaks if isinstance(node, cst.Break) else loop.continues
        ends.append(dict(run.env))
    run.is_alive = False


def _if(run: Run, node: cst.If) -> None:
    truth = decided(run.value(node.test), node.test)
    before = run.fork()
    run.is_alive = before[1] and truth is not False
    narrow(run, node.test, truth=True)
    run.block(node.body)
    then = run.env, run.is_alive
    run.env, run.is_alive = before[0], before[1] and truth is not True
    narrow(run, node.test, truth=False)
    orelse: Branch = node.orelse
    if isinstance(orelse, cst.If):
        _if(run, orelse)
    elif orelse is not None:
        run.block(orelse.body)
    run.join(then, (run.env, run.is_alive))


def _for(run: Run, node: cst.For) -> None:
    over = run.value(node.iter)

    def begin() -> None:
        bind_target(run, node.target, element_of(run, over))

    _loop(run, node, begin, ends=True)


def _while(run: Run, node: cst.While) -> None:
    def begin() -> None:
        run.value(node.test)
        narrow(run, node.test, truth=True)

    _loop(run, node, begin, ends=not is_endless(node))


def _loop(run: Run, node: cst.For | cst.While, begin: Callable[[], None], *, ends: bool) -> None:
    """Read a loop, twice where what it read at first was changed by its end.

    ``ends``: it may end by itself, and not by ``break`` alone; then comes its ``else``.
    """
    alive = run.is_alive
    entry: Env = dict(run.env)
    for _ in range(2):
        loop = Loop(dict(entry))
        run.env, run.is_alive = dict(entry), alive
        run.loops.append(loop)
        begin()
        run.block(node.body)
        run.loops.pop()
        turns = [*loop.continues, *([run.env] if run.is_alive else [])]
        run.env = dict(entry)
        for end in turns:
            run.merge(end)
        after = run.env
        if all(after[key][0] is entry[key][0] for key in loop.read if key in entry):
            break
        entry = after
    run.is_alive = alive and ends
    if node.orelse is not None:
        run.block(node.orelse.body)
    run.join((run.env, run.is_alive), *((end, alive) for end in loop.breaks))


def _try(run: Run, node: cst.Try | cst.TryStar) -> None:
    entry, alive = run.fork()
    for statement in node.body.body:
        run.execute(statement)
        now, run.env = run.env, entry
        run.merge(now)  # it may be left after any of its statements
        run.env = now
    if node.orelse is not None:
        run.block(node.orelse.body)
    ends = [(run.env, run.is_alive)]
    for handler in node.handlers:
        run.env, run.is_alive = dict(entry), alive
        if handler.type is not None:
            run.value(handler.type)
        if handler.name is not None and isinstance(handler.name.name, cst.Name):
            run.bind(handler.name.name, run.sets.unknown)
        run.block(handler.body)
        ends.append((run.env, run.is_alive))
    run.join(*ends)
    if node.finalbody is not None:
        lives, run.is_alive = run.is_alive, True
        run.block(node.finalbody.body)
        run.is_alive = run.is_alive and lives


def _with(run: Run, node: cst.With) -> None:
    modes: dict[str, Value] = {}
    around = {name: run.env.get(name) for name in MODES}  # a context may change it when it is made
    for item in node.items:
        value = run.value(item.item)
        modes.update(entering.modes(run, value))
        if item.asname is not None:
            bind_target(run, item.asname.name, entering.entered(run, value))
    for name, value in modes.items():
        run.env[name] = value, ()
    run.block(node.body)
    for name in modes:
        seen = around[name]
        if seen is None:
            run.env.pop(name, None)
        else:
            run.env[name] = seen


def _match(run: Run, node: cst.Match) -> None:
    run.value(node.subject)
    entry, alive = run.fork()
    ends = [(dict(entry), alive)]
    for case in node.cases:
        run.env, run.is_alive = dict(entry), alive
        for name in run.index.below(case.pattern, cst.Name):
            run.bind(name, run.sets.unknown)
        if case.guard is not None:
            run.value(case.guard)
        run.block(case.body)
        ends.append((run.env, run.is_alive))
    run.join(*ends)


STATEMENTS: dict[type, Statement] = {
    cst.SimpleStatementLine: _line,
    cst.SimpleStatementSuite: _line,
    cst.Assign: _assign,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented,
    cst.Del: _delete,
    cst.Expr: _expression,
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Assert: _assert,
    cst.Break: _leave,
    cst.Continue: _leave,
    cst.If: _if,
    cst.For: _for,
    cst.While: _while,
    cst.Try: _try,
    cst.TryStar: _try,
    cst.With: _with,
    cst.Match: _match,
    cst.FunctionDef: define_function,
    cst.ClassDef: define_class,
    cst.Import: imports.bring,
    cst.ImportFrom: imports.bring_from,
}
