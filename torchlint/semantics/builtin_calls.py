"""Calls of Python's own functions: ``range``, ``zip``, ``float``, ``getattr`` and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.arguments import first_of
from torchlint.semantics.operations import element_of
from torchlint.semantics.values import (
    NEVER,
    RANK,
    Array,
    Class,
    Dictionary,
    Function,
    Iterator,
    Library,
    Number,
    Object,
    Parameters,
    Sequence,
    Tensor,
    Text,
    Truth,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as Several
    from typing import TypeAlias

    import libcst as cst

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import At, Value

    Call: TypeAlias = Callable[[Run, cst.Call, Several[Passed]], Value]

TYPES = frozenset("int float bool str list tuple dict set frozenset".split())


def call(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """Return what a call of a builtin gives."""
    handler = _CALLS.get(name)
    return run.sets.unknown if handler is None else handler(run, node, passed)


def read_of(run: Run, node: cst.Call, value: Value) -> At | None:
    """Return the read that turns a tensor into a number here, or gave the number before."""
    for one in value:
        if isinstance(one, Tensor):
            return run.at(node)
        if isinstance(one, (Number, Array)) and one.read is not None:
            return one.read
    return None


def _float(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    value = first_of(passed, 0)
    match value:
        case (Object(kind=kind),) if kind == RANK:
            return value
        case (Number(value=number, read=read),) if number is not None:
            return run.one(Number(number, read))
    return run.one(Number(None, read_of(run, node, value)))


def _bool(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node, passed
    return run.one(Truth())


def _text(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    match first_of(passed, 0):
        case (Text() as one,):
            return run.one(one)
    return run.one(Text())


def _length(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    match first_of(passed, 0):
        case (Sequence(elements=tuple(elements), made=None),):
            return run.one(Number(len(elements)))
    return run.one(Number())


def _range(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node, passed
    return run.sets.nested(Iterator(run.one(Number())))


def _enumerate(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    value = first_of(passed, 0, "iterable")
    element = _element(run, value)
    pair = run.sets.nested(Sequence("tuple", (run.one(Number()), element), NEVER, None))
    return run.sets.nested(Iterator(pair, run.evaluation.loader_of(value)))


def _zip(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    plain = [one for one in passed if not one.keyword]
    if any(one.star for one in plain):
        return run.sets.unknown
    elements = tuple(_element(run, one.value) for one in plain)
    loaders = [found for one in plain if (found := run.evaluation.loader_of(one.value))]
    pair = run.sets.nested(Sequence("tuple", elements, NEVER, None))
    return run.sets.nested(Iterator(pair, loaders[0] if loaders else None))


def _iter(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    value = first_of(passed, 0)
    if any(isinstance(one, Iterator) for one in value):
        return value
    return run.sets.nested(Iterator(_element(run, value), run.evaluation.loader_of(value)))


def _next(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    return run.sets.union(_element(run, first_of(passed, 0)), first_of(passed, 1))


def _map(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    from torchlint.semantics import calls  # noqa: PLC0415  calls imports this module

    results: Value = NEVER
    given = tuple(type(one)("", "", _element(run, one.value), one.node) for one in passed[1:])
    for one in first_of(passed, 0):
        if isinstance(one, (Function, Library, Class)):
            results = run.sets.union(results, calls.apply(run, node, one, given))
    return run.sets.nested(Iterator(results or run.sets.unknown))


def _filter(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    return run.sets.nested(Iterator(_element(run, first_of(passed, 1))))


def _sequence(kind: str) -> Call:
    def make(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
        value = first_of(passed, 0)
        if not passed:
            return run.one(Sequence(kind, () if kind == "list" else None, NEVER, run.at(node)))
        match value:
            case (Sequence(elements=tuple(elements)),) if kind != "set":
                return run.sets.nested(Sequence(kind, elements, NEVER, run.at(node)))
            case (Parameters(),) if kind in ("list", "tuple"):
                return value  # still those of a model
        return run.sets.nested(Sequence(kind, None, _element(run, value), run.at(node)))

    return make


def _dictionary(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    entries: dict[str, Value] = {}
    element: Value = NEVER
    for arg in passed:
        if arg.keyword:
            entries[arg.keyword] = arg.value
        else:
            for one in arg.value:
                if isinstance(one, Dictionary):
                    entries.update(one.entries)
                    element = run.sets.union(element, one.element)
    return run.sets.nested(Dictionary(tuple(sorted(entries.items())), element, run.at(node)))


def _sum(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    return _without_value(run, _element(run, first_of(passed, 0)))


def _largest(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    plain = [one for one in passed if not one.keyword]
    if len(plain) == 1:
        return _element(run, plain[0].value)
    return run.sets.all(one.value for one in plain) or run.sets.unknown  # it is one of them


def _without_value(run: Run, value: Value) -> Value:
    return (
        run.sets.each(
            value, lambda one: run.one(Number(None, one.read) if isinstance(one, Number) else one)
        )
        if value
        else value
    )


def _file(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del passed
    return run.one(Object("builtins.open", run.at(node)))


def _iterated(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node
    return run.sets.nested(Iterator(_element(run, first_of(passed, 0))))


def _super(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    del node, passed
    return run.evaluation.parent_of(run)


def _getattr(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    from torchlint.semantics.attributes import named_attribute  # noqa: PLC0415  it calls functions

    match first_of(passed, 1):
        case (Text(value=str(name)),):
            found = named_attribute(run, node, first_of(passed, 0), name)
            return run.sets.union(found, first_of(passed, 2))
    return run.sets.unknown


def _absolute(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    value = first_of(passed, 0)
    return (
        run.sets.each(
            value,
            lambda one: run.one(
                Number(None, read_of(run, node, (one,))) if isinstance(one, Number) else one
            ),
        )
        if value
        else run.sets.unknown
    )


def _element(run: Run, value: Value) -> Value:
    return element_of(run, value) if value else run.sets.unknown


_CALLS: dict[str, Call] = {
    "float": _float, "int": _float, "bool": _bool, "str": _text, "repr": _text, "len": _length,
    "range": _range, "enumerate": _enumerate, "zip": _zip, "iter": _iter, "next": _next,
    "map": _map, "filter": _filter, "list": _sequence("list"), "tuple": _sequence("tuple"),
    "set": _sequence("set"), "sorted": _sequence("list"), "dict": _dictionary, "sum": _sum,
    "min": _largest, "max": _largest, "reversed": _iterated, "super": _super,
    "getattr": _getattr, "abs": _absolute, "round": _absolute, "isinstance": _bool,
    "hasattr": _bool, "callable": _bool, "any": _bool, "all": _bool, "issubclass": _bool,
    "id": _length, "hash": _length, "ord": _length, "open": _file, "print": _bool,
}  # fmt: skip
