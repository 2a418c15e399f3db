"""Whether what repeats the passes over a loader also changes its dataset, in the main process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.reach import callee
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.passes import Turns
    from torchlint.analysis.program import Program

_DEPTH = 4  # methods that call methods
_MOST = 60  # functions that a loop is followed into
_CHANGING = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "add", "discard", "update",
     "setdefault", "sort", "reverse", "shuffle", "fill", "seek"}
)  # fmt: skip


def changes_dataset(program: Program, loader: cst.Call, outer: Turns) -> bool:
    """Whether a loop, or a function that it calls, changes the dataset of a loader.

    A method of it counts, unless it is seen to leave the dataset as it is.
    """
    return any(
        _may_change(program, loader, home, node)
        and _is_dataset(program, loader, home, node.value, inside=place is outer.loop.body)
        for home, place in _run_in(outer)
        for node in home.index.below(place, cst.Attribute)
    )


def _run_in(outer: Turns) -> Iterator[tuple[Program, cst.CSTNode]]:
    """Yield the body of a loop and of the functions that it calls, each with its file.

    What a dataset does in its own methods is no matter of who calls them.
    """
    todo: list[tuple[Program, cst.CSTNode]] = [(outer.program, outer.loop.body)]
    seen = set[int]()
    while todo and len(seen) < _MOST:
        home, place = todo.pop(0)
        if id(place) in seen:
            continue
        seen.add(id(place))
        yield home, place
        for call in home.index.below(place, cst.Call):
            found = callee(home, call)
            if found is not None and not _is_of_dataset(*found):
                todo.append((found[0], found[1].body))


def _is_of_dataset(program: Program, function: cst.FunctionDef) -> bool:
    owner = program.classes.around(function)
    return owner is not None and owner.is_dataset


def _may_change(program: Program, loader: cst.Call, home: Program, node: cst.Attribute) -> bool:
    """Whether what is done with an attribute may change what it belongs to."""
    above = home.parent(node)
    if isinstance(above, cst.Call) and above.func is node:
        return not _is_reading(program, loader, home, above)
    return _is_changed(home, node)


def _is_changed(home: Program, node: cst.CSTNode) -> bool:
    """``dataset.epoch = 3``, ``dataset.sizes[i] += 1``, ``dataset.order.sort()``."""
    above = home.parent(node)
    while isinstance(above, cst.Subscript) and above.value is node:
        node, above = above, home.parent(above)
    if isinstance(above, cst.Attribute) and above.value is node:
        call = home.parent(above)
        called = isinstance(call, cst.Call) and call.func is above
        return called and (above.attr.value in _CHANGING or above.attr.value.endswith("_"))
    return isinstance(above, cst.AssignTarget) or (
        isinstance(above, cst.AugAssign) and above.target is node
    )


def _is_reading(program: Program, loader: cst.Call, home: Program, call: cst.Call) -> bool:
    """Whether a method that is called is seen to leave the dataset as it is."""
    assert isinstance(call.func, cst.Attribute)
    name = call.func.attr.value
    found = callee(home, call)
    if found is not None:
        methods = [found]
    else:
        known = [one.method(name) for one in program.datasets.of_loader(loader)]
        methods = [one for one in known if one is not None]
        if len(methods) < len(known):
            return False
    return bool(methods) and all(_only_reads(one, method, 0) for one, method in methods)


def _only_reads(program: Program, method: cst.FunctionDef, depth: int) -> bool:
    """Whether a method is seen to leave what its object keeps as it is."""
    if depth > _DEPTH or any(True for _ in program.index.below(method, cst.Global)):
        return False
    names = program.index.below(method.body, cst.Name)
    return all(
        _reads(program, name, depth) for name in names if name.value in ("self", "super", "setattr")
    )


def _reads(program: Program, name: cst.Name, depth: int) -> bool:
    """Whether ``self`` is only read where it stands."""
    attribute = program.parent(name)
    if name.value != "self" or not isinstance(attribute, cst.Attribute):
        return False  # `super()`, `setattr(self, ...)`: it goes where it is not followed
    if attribute.value is not name or _is_changed(program, attribute):
        return False
    above = program.parent(attribute)
    if isinstance(above, cst.Arg):
        call = program.parent(above)
        return not (isinstance(call, cst.Call) and "shuffle" in dotted(call.func))
    if not (isinstance(above, cst.Call) and above.func is attribute):
        return True
    own = program.calls.target(above)
    return own is not None and _only_reads(program, own, depth + 1)


def _is_dataset(
    program: Program, loader: cst.Call, home: Program, node: cst.BaseExpression, *, inside: bool
) -> bool:
    """Whether an expression may be the dataset of a loader: by what it is, or by its name.

    Names other than "dataset" count in the loop itself, and where they are the very same variable.
    """
    name = node.attr.value if isinstance(node, cst.Attribute) else dotted(node)
    value = home.value(node)
    if value.kind is Kind.CLASS or home.qualified(node).startswith(("torch", "datasets")):
        return False
    if name == "dataset" and isinstance(node, cst.Attribute):
        sources = home.loaders.sources(node.value)
        return not sources or any(one is loader for one in sources)
    if "dataset" in name.lower() or value.kind is Kind.DATASET:
        return True
    given = [one for one in program.argument(loader, "dataset").values if dotted(one)]
    if any(dotted(one) == dotted(node) for one in given):
        return inside or any(_is_same(program, one, home, node) for one in given)
    made = {id(one.node) for one in program.datasets.of_loader(loader) if one.owner is not None}
    return bool(made) and any(id(one.node) in made for one in home.datasets.of(node))


def _is_same(
    program: Program, given: cst.BaseExpression, home: Program, node: cst.BaseExpression
) -> bool:
    """Whether two equal names of a file are one variable, or one attribute of ``self``."""
    if home is not program:
        return False
    root = dotted(node).partition(".")[0]
    if root == "self":
        return home.classes.around(given) is home.classes.around(node)
    return home.index.scope(given).owner(root) is home.index.scope(node).owner(root)
