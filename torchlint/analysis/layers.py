"""Which layer feeds which: in ``nn.Sequential``, in lists of layers, and in ``forward``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import Bind, dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """The output of one layer goes only and directly into another.

    ``producer`` and ``consumer`` are the calls that construct the layers.
    """

    producer: cst.Call
    consumer: cst.Call


def links(program: Program) -> Iterator[Link]:
    """All links of a file, each producer at most once."""
    seen: set[int] = set()
    for link in (*_in_sequences(program), *_in_methods(program)):
        if id(link.producer) not in seen:
            seen.add(id(link.producer))
            yield link


# -- sequences: Sequential(...), lists of layers ----------------------------------------------


def _in_sequences(program: Program) -> Iterator[Link]:
    for call in program.index.of(cst.Call):
        if program.qualified(call.func) == "torch.nn.Sequential":
            yield from _neighbours(program, _members(program, call))
    for node in program.index.of(cst.List):
        if len(node.elements) > 1 and _holds_layers(program, node) and _is_sequence(program, node):
            yield from _neighbours(program, [element.value for element in node.elements])
    yield from _appended(program)


def _members(program: Program, call: cst.Call) -> list[cst.BaseExpression]:
    """The layers given to ``nn.Sequential``: in place, or in an ``OrderedDict`` of pairs."""
    if len(call.args) == 1 and isinstance(call.args[0].value, cst.Call):
        inner = call.args[0].value
        if program.qualified(inner.func) == "collections.OrderedDict" and inner.args:
            pairs = inner.args[0].value
            if isinstance(pairs, (cst.List, cst.Tuple)):
                return [
                    e.value.elements[1].value
                    for e in pairs.elements
                    if isinstance(e.value, cst.Tuple) and len(e.value.elements) == 2
                ]
            if isinstance(pairs, cst.Dict):
                return [e.value for e in pairs.elements]
    return [arg.value for arg in call.args]


def _neighbours(program: Program, members: Iterable[cst.BaseExpression]) -> Iterator[Link]:
    before: cst.Call | None = None
    for member in members:
        layer = _layer(program, member)
        if before is not None and layer is not None:
            yield Link(before, layer)
        before = layer


def _layer(program: Program, node: cst.BaseExpression) -> cst.Call | None:
    """The constructor call of a layer that stands here and nowhere else."""
    if isinstance(node, cst.Call):
        return node if program.qualified(node.func).startswith("torch.nn.") else None
    if isinstance(node, cst.Name):
        bindings = program.flow.reaching(node)
        if len(bindings) == 1 and bindings[0].kind is Bind.ASSIGN and not bindings[0].path:
            made = bindings[0].value
            if isinstance(made, cst.Call) and len(_uses(program, bindings[0].node)) == 1:
                return _layer(program, made)
    return None


def _uses(program: Program, target: cst.CSTNode) -> list[cst.Name]:
    """Reads of the name that a target binds, in its scope."""
    assert isinstance(target, cst.Name)
    scope = program.index.scope(target).owner(target.value)
    return [
        name
        for name in program.index.of(cst.Name)
        if name.value == target.value
        and name is not target
        and program.index.scope(name).owner(name.value) is scope
        and not _is_attribute_name(program, name)
    ]


def _is_attribute_name(program: Program, name: cst.Name) -> bool:
    above = program.parent(name)
    return (isinstance(above, cst.Attribute) and above.attr is name) or (
        isinstance(above, cst.Arg) and above.keyword is name
    )


def _holds_layers(program: Program, node: cst.List) -> bool:
    return all(
        isinstance(element.value, (cst.Call, cst.Name, cst.IfExp)) for element in node.elements
    ) and any(
        isinstance(element.value, cst.Call)
        and program.qualified(element.value.func).startswith("torch.nn.")
        for element in node.elements
    )


def _is_sequence(program: Program, node: cst.List) -> bool:
    """Whether a list's members run one after another: not those of a ``ModuleList``."""
    above = program.parent(node)
    if isinstance(above, cst.Arg):
        call = program.parent(above)
        if isinstance(call, cst.Call):
            name = program.qualified(call.func)
            if above.star == "*":
                return name == "torch.nn.Sequential"
            return isinstance(call.func, cst.Attribute) and call.func.attr.value == "extend"
    if isinstance(above, (cst.Assign, cst.AugAssign)):
        target = above.target if isinstance(above, cst.AugAssign) else above.targets[0].target
        return isinstance(target, cst.Name) and _becomes_sequential(program, target)
    return isinstance(above, cst.Return) and _is_unpacked(program, program.function(node))


def _becomes_sequential(program: Program, target: cst.Name) -> bool:
    """Whether a list of layers ends up, unpacked, in ``nn.Sequential``."""
    for use in _uses(program, target):
        above = program.parent(use)
        if isinstance(above, cst.Arg) and above.star == "*":
            call = program.parent(above)
            if isinstance(call, cst.Call) and program.qualified(call.func) == "torch.nn.Sequential":
                return True
        if isinstance(above, cst.Return) and _is_unpacked(program, program.function(use)):
            return True
    return False


def _is_unpacked(program: Program, function: cst.FunctionDef | None) -> bool:
    """Whether what a function returns is unpacked into ``nn.Sequential``."""
    if function is None:
        return False
    for site in program.calls.sites(function):
        above = program.parent(site)
        call = program.parent(above) if isinstance(above, cst.Arg) and above.star == "*" else None
        if isinstance(call, cst.Call) and program.qualified(call.func) == "torch.nn.Sequential":
            return True
    return False


def _appended(program: Program) -> Iterator[Link]:
    """``layers.append(conv); layers.append(norm)`` in one block, nothing between them."""
    for block in (*program.index.of(cst.IndentedBlock), program.module):
        before: tuple[str, cst.Call | None] = ("", None)
        for statement in block.body:
            grown = _growth(program, statement)
            if grown is None:
                if isinstance(statement, cst.BaseCompoundStatement):
                    before = ("", None)
                continue
            name, first, last = grown
            if before[0] == name and before[1] is not None and first is not None:
                yield Link(before[1], first)
            before = (name, last)


def _growth(
    program: Program, statement: cst.CSTNode
) -> tuple[str, cst.Call | None, cst.Call | None] | None:
    """The list a statement lengthens, with the first and the last layer it adds."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    match statement.body[0]:
        case cst.Expr(
            value=cst.Call(
                func=cst.Attribute(value=cst.Name() as name, attr=cst.Name(value="append")),
                args=[cst.Arg(value=added)],
            )
        ):
            layer = _layer(program, added)
            return (name.value, layer, layer) if _becomes_sequential(program, name) else None
        case cst.AugAssign(target=cst.Name() as name, value=cst.List(elements=elements)) if (
            elements
        ):
            pass
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name() as name)],
            value=cst.List(elements=elements),
        ) if elements:
            pass
        case _:
            return None
    if not _becomes_sequential(program, name):
        return None
    return (name.value, _layer(program, elements[0].value), _layer(program, elements[-1].value))


# -- dataflow in forward ----------------------------------------------------------------------


def _in_methods(program: Program) -> Iterator[Link]:
    for owner in program.classes:
        if not owner.is_module:
            continue
        for call in program.index.below(owner.node, cst.Call):
            consumer = _attribute_layer(program, owner, call.func)
            if consumer is None or len(call.args) != 1:
                continue
            source = _source(program, call.args[0].value)
            if source is None:
                continue
            producer = _attribute_layer(program, owner, source.func)
            if producer is not None and _called_once(program, owner, source.func):
                yield Link(producer, consumer)


def _attribute_layer(program: Program, owner: Class, func: cst.CSTNode) -> cst.Call | None:
    """The layer behind ``self.name``, where one constructor call is all that is stored there."""
    if not (isinstance(func, cst.Attribute) and dotted(func).startswith("self.")):
        return None
    stores = program.classes.stores(owner, func.attr.value)
    if len(stores) != 1 or dotted(func).count(".") != 1 or stores[0].path:
        return None
    made = stores[0].value
    if isinstance(made, cst.Call) and program.qualified(made.func).startswith("torch.nn."):
        return made
    return None


def _source(program: Program, node: cst.BaseExpression) -> cst.Call | None:
    """The call whose result this argument is, where nothing else reads the result."""
    if isinstance(node, cst.Call):
        return node
    if not isinstance(node, cst.Name):
        return None
    bindings = program.flow.reaching(node)
    if len(bindings) != 1 or bindings[0].kind is not Bind.ASSIGN or bindings[0].path:
        return None
    made, target = bindings[0].value, bindings[0].node
    assert isinstance(target, cst.Name)
    readers = [
        use for use in _uses(program, target)
        if not _is_target(program, use) and bindings[0] in program.flow.reaching(use)
    ]  # fmt: skip
    return made if isinstance(made, cst.Call) and len(readers) == 1 else None


def _is_target(program: Program, name: cst.Name) -> bool:
    return isinstance(program.parent(name), cst.AssignTarget)


def _called_once(program: Program, owner: Class, func: cst.CSTNode) -> bool:
    """Whether a layer is called at one place and reached in no other way."""
    assert isinstance(func, cst.Attribute)
    found = 0
    for node in program.index.below(owner.node, cst.Attribute):
        if node.attr.value == func.attr.value and dotted(node) == dotted(func):
            above = program.parent(node)
            if isinstance(above, cst.Call) and above.func is node:
                found += 1
            elif isinstance(above, cst.Arg):
                return False  # handed on: somebody else may call it too
    return found == 1
