"""Parts of a batch that `pin_memory` hands on as they are: objects of classes without that method.

PyTorch pins tensors, what holds tensors (tuples, lists, dictionaries) and what has a method
``pin_memory``; anything else goes through without a word.  What has the method says by itself what
is pinned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.loaded import functions_given
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.reach import callee, class_of
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.loaders import Move, Path, Step
    from torchlint.analysis.program import Program

_Such: TypeAlias = "Callable[[tuple[Program, Class] | None], bool]"  # which classes are meant
_OWN = ("pin_memory", "__getattr__", "__getattribute__")
_WHOLE: Path = ()
# Libraries whose batches hold tensors in what is pinned, or pin themselves.
_PINNED = ("torch.", "torch_geometric.", "torchvision.", "transformers.", "monai.", "timm.")


def goes_unpinned(program: Program, loader: cst.Call, move: Move) -> bool:
    """Whether what a move moves is (in) an object that no loader pins, or may be such a one."""
    if move.parts == {_WHOLE} and _is_of_library(program, loader):
        return True
    return bool(move.parts) and _are_in(move, unpinned_parts(program, loader))


def _is_of_library(program: Program, loader: cst.Call) -> bool:
    """``collate_fn=Batch.collate()`` of a library: what it makes, nothing here says."""
    if program.project is None:
        return False
    for node in program.argument(loader, "collate_fn", LOADER).values:
        name = program.qualified(node.func if isinstance(node, cst.Call) else node)
        known = not name or name[0] == "." or name.startswith(_PINNED)
        if not known and not program.project.imports.may_have(name):
            return True
    return False


def pins_by_itself(program: Program, loader: cst.Call, move: Move) -> bool:
    """Whether what a move moves is (in) an object that may be given, with a method `pin_memory`.

    What that pins is its own affair: some of what the object holds, or nothing.
    """
    return _are_in(move, pinning_parts(program, loader))


def _are_in(move: Move, objects: frozenset[Path]) -> bool:
    """Whether all that a move moves, or it is not known what, is in one of some parts."""
    parts = move.parts or (_WHOLE,)
    return bool(objects) and all(any(part[: len(one)] == one for one in objects) for part in parts)


def unpinned_parts(program: Program, loader: cst.Call) -> frozenset[Path]:
    """Return the parts of each batch that a ``collate_fn`` of the project makes so: () is all."""
    found = list(_found(program, loader, _cannot_be_pinned))
    return frozenset.intersection(*found) if found else frozenset()


def pinning_parts(program: Program, loader: cst.Call) -> frozenset[Path]:
    """Return the parts that may be objects with a `pin_memory` of their own: () is all."""
    return frozenset().union(*_found(program, loader, _pins_itself))


def _found(program: Program, loader: cst.Call, such: _Such) -> Iterator[frozenset[Path]]:
    """Yield the parts of what a ``collate_fn`` of the project gives that are of such classes."""
    given = program.argument(loader, "collate_fn", LOADER).values
    if any(_makes(program, node, such) for node in given):
        yield frozenset({_WHOLE})
        return
    for home, function in functions_given(program, loader, "collate_fn"):
        for result in _results(home, function):
            if not _takes_apart(result):
                yield frozenset(_parts(home, function, result, such))


def _takes_apart(node: cst.BaseExpression) -> bool:
    """``list(zip(*samples))``: its parts are tuples, and nothing moves those."""
    match node:
        case cst.Call(
            func=cst.Name(value="list" | "tuple"),
            args=[cst.Arg(value=cst.Call(func=cst.Name(value="zip"), args=[cst.Arg(star="*")]))],
        ):
            return True
        case _:
            return False


def _makes(program: Program, node: cst.BaseExpression, such: _Such) -> bool:
    """Whether a class itself stands as ``collate_fn``."""
    value = program.value(node)
    return value.kind is Kind.CLASS and such(class_of(program, value))


def _results(
    program: Program, function: cst.FunctionDef | cst.Lambda
) -> Iterator[cst.BaseExpression]:
    if isinstance(function, cst.Lambda):
        yield function.body
        return
    for item in program.returns(function):
        if item.value is not None:
            yield item.value


def _parts(
    program: Program, function: cst.CSTNode, node: cst.BaseExpression, such: _Such
) -> Iterator[Path]:
    """Yield the parts of a result that are such objects."""
    if _is_such(program, node, such):
        yield _WHOLE
        return
    match node:
        case cst.Call(func=cst.Name(value="tuple" | "list" | "dict"), args=[cst.Arg(value=inner)]):
            yield from _parts(program, function, inner, such)
        case cst.Tuple() | cst.List() | cst.Dict():
            yield from _of_display(program, node, such)
        case cst.Name():
            made = [binding.value for binding in program.flow.reaching(node)]
            if len(made) == 1 and isinstance(made[0], cst.Tuple | cst.List | cst.Dict):
                yield from _of_display(program, made[0], such)
            yield from _put_in(program, function, node.value, such)
        case _:
            pass


def _of_display(
    program: Program, node: cst.Tuple | cst.List | cst.Dict, such: _Such
) -> Iterator[Path]:
    for place, element in enumerate(node.elements):
        if isinstance(element, cst.StarredElement | cst.StarredDictElement):
            return  # what follows stands somewhere else
        step: Step = literal(element.key) if isinstance(element, cst.DictElement) else place
        if step is not None and _is_such(program, element.value, such):
            yield (step,)


def _put_in(program: Program, function: cst.CSTNode, name: str, such: _Such) -> Iterator[Path]:
    """``batch[0] = Padded(batch[0])``, wherever the function puts something there."""
    found: dict[Step, list[cst.BaseExpression]] = {}
    for statement in program.index.below(function, cst.Assign):
        match statement.targets:
            case [
                cst.AssignTarget(
                    target=cst.Subscript(
                        value=cst.Name(value=holder),
                        slice=[cst.SubscriptElement(slice=cst.Index(value=key))],
                    )
                )
            ] if holder == name:
                step = int(key.value) if isinstance(key, cst.Integer) else literal(key)
                found.setdefault(step, []).append(statement.value)
            case _:
                pass
    for step, values in found.items():
        if step is not None and all(_is_such(program, value, such) for value in values):
            yield (step,)


def _is_such(program: Program, node: cst.BaseExpression, such: _Such) -> bool:
    value = program.value(node)
    if value.kind is Kind.UNKNOWN:
        return _gives(program, node, such)
    return _is_instance(program, node, such)


def _gives(program: Program, node: cst.BaseExpression, such: _Such) -> bool:
    """Whether all that a function returns is such an object, made there or asked to be one."""
    made = program.flow.reaching(node) if isinstance(node, cst.Name) else ()
    call = made[0].value if len(made) == 1 and not made[0].path else node
    found = callee(program, call) if isinstance(call, cst.Call) else None
    if found is None:
        return False
    home, function = found
    returned = [item.value for item in home.returns(function)]
    return bool(returned) and all(
        one is not None and (_is_instance(home, one, such) or _is_checked(home, one, such))
        for one in returned
    )


def _is_instance(program: Program, node: cst.BaseExpression, such: _Such) -> bool:
    value = program.value(node)
    return value.kind is Kind.INSTANCE and such(class_of(program, value))


def _is_checked(program: Program, node: cst.BaseExpression, such: _Such) -> bool:
    """``if isinstance(images, Padded): return images``."""
    if not isinstance(node, cst.Name):
        return False
    block = program.parent(program.statement(node))
    branch = None if block is None else program.parent(block)
    match branch:
        case cst.If(
            test=cst.Call(
                func=cst.Name(value="isinstance"),
                args=[cst.Arg(value=cst.Name(value=name)), cst.Arg(value=kind)],
            )
        ) if name == node.value and block is branch.body:
            return _makes(program, kind, such)
        case _:
            return False


def _cannot_be_pinned(found: tuple[Program, Class] | None) -> bool:
    """Whether all that a class is derived from is seen in its file, and has no such method."""
    if found is None:
        return False
    home, owner = found
    return all(
        not any(name in one.methods for name in _OWN)
        and all(base == "object" or home.classes.named(base) is not None for base in one.bases)
        for one in home.classes.lineage(owner)
    )


def _pins_itself(found: tuple[Program, Class] | None) -> bool:
    """Whether a class has such a method, be it from another class of its file."""
    return found is not None and any(
        "pin_memory" in one.methods for one in found[0].classes.lineage(found[1])
    )
