"""Expressions: the value of each kind, by the values of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.attributes import attribute
from torchlint.semantics.calls import call
from torchlint.semantics.definitions import define_lambda
from torchlint.semantics.narrowing import narrow
from torchlint.semantics.operations import combined, compared, element_of, item_of, negated
from torchlint.semantics.statements import bind_target
from torchlint.semantics.values import (
    NEVER,
    Dictionary,
    Iterator,
    Nothing,
    Number,
    Sequence,
    Text,
    Truth,
    Unknown,
)

if TYPE_CHECKING:
    from torchlint.semantics.run import Expression, Run
    from torchlint.semantics.values import Value

LONGEST = 1000  # digits of a number that is read: Python refuses to write out much longer ones
_KINDS: dict[type, str] = {cst.Tuple: "tuple", cst.List: "list", cst.Set: "set"}
_KINDS |= {cst.ListComp: "list", cst.SetComp: "set"}


def _name(run: Run, node: cst.Name) -> Value:
    word = node.value
    if word == "None":
        return run.one(Nothing())
    if word in ("True", "False"):
        return run.one(Truth(word == "True"))
    return run.name(node)


def _string(run: Run, node: cst.SimpleString) -> Value:
    is_plain = not node.prefix and "\\" not in node.value  # else Python's own parser reads it
    value = node.raw_value if is_plain else node.evaluated_value
    return run.one(Text(value) if isinstance(value, str) else Unknown())


def _joined(run: Run, node: cst.ConcatenatedString) -> Value:
    for part in (node.left, node.right):
        run.value(part)
    value = node.evaluated_value
    return run.one(Text(value if isinstance(value, str) else None))


def _formatted(run: Run, node: cst.FormattedString) -> Value:
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            run.value(part.expression)
            for inner in part.format_spec or ():
                if isinstance(inner, cst.FormattedStringExpression):
                    run.value(inner.expression)
    match node.parts:
        case [cst.FormattedStringText(value=word), _] if word in ("cuda:", "xpu:"):
            return run.one(Text(word))  # whichever number
    return run.one(Text())


def _display(run: Run, node: cst.Tuple | cst.List | cst.Set) -> Value:
    values, known = [], True
    for element in node.elements:
        value = run.value(element.value)
        if isinstance(element, cst.StarredElement):
            known = False
            value = element_of(run, value)
        values.append(value)
    kind = _KINDS[type(node)]
    made = None if kind == "tuple" else run.at(node)
    if known and kind != "set":
        return run.sets.nested(Sequence(kind, tuple(values), NEVER, made))
    return run.sets.nested(Sequence(kind, None, run.sets.all(values), made))


def _dictionary(run: Run, node: cst.Dict) -> Value:
    entries: dict[str, Value] = {}
    element = NEVER
    for item in node.elements:
        value = run.value(item.value)
        if isinstance(item, cst.StarredDictElement):
            for one in value:
                if isinstance(one, Dictionary):
                    entries.update(one.entries)
                    element = run.sets.union(element, one.element)
                else:
                    element = run.sets.union(element, run.sets.unknown)
            continue
        assert isinstance(item, cst.DictElement)
        key = run.value(item.key)
        match key:
            case (Text(value=str(word)),):
                entries[word] = value
            case _:
                element = run.sets.union(element, value)
    return run.sets.nested(Dictionary(tuple(sorted(entries.items())), element, run.at(node)))


def _boolean(run: Run, node: cst.BooleanOperation) -> Value:
    left = run.value(node.left)
    before = run.fork()
    is_and = isinstance(node.operator, cst.And)
    narrow(run, node.left, truth=is_and)
    right = run.value(node.right)
    run.join(before, (run.env, run.is_alive))
    return run.sets.union(left, right)


def _comparison(run: Run, node: cst.Comparison) -> Value:
    left = run.value(node.left)
    values = [run.value(target.comparator) for target in node.comparisons]
    return compared(run, node, left, values)


def _if_else(run: Run, node: cst.IfExp) -> Value:
    run.value(node.test)
    before = run.fork()
    narrow(run, node.test, truth=True)
    body = run.value(node.body)
    then = run.env, run.is_alive
    run.env, run.is_alive = before
    narrow(run, node.test, truth=False)
    orelse = run.value(node.orelse)
    run.join(then, (run.env, run.is_alive))
    return run.sets.union(body, orelse)


def _subscript(run: Run, node: cst.Subscript) -> Value:
    value = run.value(node.value)
    indices: list[Value] = []
    for element in node.slice:
        inner = element.slice
        if isinstance(inner, cst.Index):
            indices.append(run.value(inner.value))
        elif isinstance(inner, cst.Slice):
            for part in (inner.lower, inner.upper, inner.step):
                if part is not None:
                    run.value(part)
            indices.append(NEVER)
    return item_of(run, node, value, indices)


def _comprehended(run: Run, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> Value:
    before = dict(run.env)
    _go_through(run, node.for_in)
    element = run.value(node.elt)
    run.env = before
    if isinstance(node, cst.GeneratorExp):
        return run.sets.nested(Iterator(element))
    return run.sets.nested(Sequence(_KINDS[type(node)], None, element, run.at(node)))


def _go_through(run: Run, node: cst.CompFor) -> None:
    inner: cst.CompFor | None = node
    while inner is not None:
        over = run.value(inner.iter)
        bind_target(run, inner.target, element_of(run, over))
        for test in inner.ifs:
            run.value(test.test)
            narrow(run, test.test, truth=True)
        inner = inner.inner_for_in


def _dictionary_of(run: Run, node: cst.DictComp) -> Value:
    before = dict(run.env)
    _go_through(run, node.for_in)
    run.value(node.key)
    value = run.value(node.value)
    run.env = before
    return run.sets.nested(Dictionary((), value, run.at(node)))


def _walrus(run: Run, node: cst.NamedExpr) -> Value:
    value = run.value(node.value)
    bind_target(run, node.target, value)
    return value


def _yield(run: Run, node: cst.Yield) -> Value:
    if isinstance(node.value, cst.From):
        value = element_of(run, run.value(node.value.item))
    else:
        value = run.one(Nothing()) if node.value is None else run.value(node.value)
    run.give(run.unit.yielded, run.at(node), value)
    return run.sets.unknown


EXPRESSIONS: dict[type, Expression] = {
    cst.Name: _name,
    cst.Attribute: lambda run, node: attribute(run, node, run.value(node.value), node.attr.value),
    cst.Call: call,
    cst.Integer: lambda run, node: run.one(
        Number(int(node.value, 0) if len(node.value) < LONGEST else None)
    ),
    cst.Float: lambda run, node: run.one(Number(float(node.value))),
    cst.Imaginary: lambda run, _: run.one(Number()),
    cst.SimpleString: _string,
    cst.ConcatenatedString: _joined,
    cst.FormattedString: _formatted,
    cst.Tuple: _display,
    cst.List: _display,
    cst.Set: _display,
    cst.Dict: _dictionary,
    cst.BinaryOperation: lambda run, node: combined(
        run, node, run.value(node.left), run.value(node.right)
    ),
    cst.UnaryOperation: lambda run, node: negated(run, node, run.value(node.expression)),
    cst.BooleanOperation: _boolean,
    cst.Comparison: _comparison,
    cst.IfExp: _if_else,
    cst.Subscript: _subscript,
    cst.ListComp: _comprehended,
    cst.SetComp: _comprehended,
    cst.GeneratorExp: _comprehended,
    cst.DictComp: _dictionary_of,
    cst.NamedExpr: _walrus,
    cst.Lambda: define_lambda,
    cst.Await: lambda run, node: run.value(node.expression),
    cst.Yield: _yield,
}
