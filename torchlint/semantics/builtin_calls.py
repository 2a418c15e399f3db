"""Calls of Python's own functions and containers: ``range``, ``float``, ``getattr``, ``deque``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.arguments import first_of
from torchlint.semantics.attributes import attribute
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
    Nothing,
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
    from torchlint.semantics.values import Alternative, At, Value

    Call: TypeAlias = Callable[[Run, cst.Call, Several[Passed]], Value]

# What gives the same whatever it is given.
_ALWAYS: dict[str, Alternative] = {
    **dict.fromkeys("bool isinstance issubclass hasattr callable any all".split(), Truth()),
    **dict.fromkeys("id hash ord".split(), Number()),
    "print": Nothing(),
}


def call(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """Return what a call of something in `builtins` or `collections` gives."""
    if name in _ALWAYS:
        return run.one(_ALWAYS[name])
    handler = _CALLS.get(name)
    return run.sets.unknown if handler is None else handler(run, node, passed)


def _number(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    """``float(x)``: of a tensor it reads it, of a number that was read it is that read."""
    value = first_of(passed, 0)
    match value:
        case (Object(kind=kind),) if kind == RANK:
            return value
        case (Number(value=number, read=read),) if number is not None:
            return run.one(Number(number, read))
    return run.one(Number(None, read_of(run, node, value)))


def read_of(run: Run, node: cst.Call, value: Several[Alternative]) -> At | None:
    """Return the read that turns a tensor into a number here, or gave the number before."""
    for one in value:
        if isinstance(one, Tensor):
            return run.at(node)
        if isinstance(one, (Number, Array)) and one.read is not None:
            return one.read
    return None


def _text(run: Run, _: cst.Call, passed: Several[Passed]) -> Value:
    match first_of(passed, 0):
        case (Text() as one,):
            return run.one(one)
    return run.one(Text())


def _length(run: Run, _: cst.Call, passed: Several[Passed]) -> Value:
    match first_of(passed, 0):
        case (Sequence(elements=tuple(elements), made=None),):
            return run.one(Number(len(elements)))
    return run.one(Number())


def _range(run: Run, *_: object) -> Value:
    return run.sets.nested(Iterator(run.one(Number())))


def _enumerate(run: Run, _: cst.Call, passed: Several[Passed]) -> Value:
    value = first_of(passed, 0, "iterable")
    pair = run.one(Number()), element_of(run, value)
    whole = run.sets.nested(Sequence("tuple", pair, NEVER, None))
    return run.sets.nested(Iterator(whole, run.evaluation.loader_of(value)))


def _zip(run: Run, _: cst.Call, passed: Several[Passed]) -> Value:
    plain = [one for one in passed if not one.keyword]
    if any(one.star for one in plain):
        return run.sets.unknown
    elements = tuple(element_of(run, one.value) for one in plain)
    loaders = [found for one in plain if (found := run.evaluation.loader_of(one.value))]
    pair = run.sets.nested(Sequence("tuple", elements, NEVER, None))
    return run.sets.nested(Iterator(pair, loaders[0] if loaders else None))


def _iter(run: Run, _: cst.Call, passed: Several[Passed]) -> Value:
    value = first_of(passed, 0)
    if any(isinstance(one, Iterator) for one in value):
        return value
    return run.sets.nested(Iterator(element_of(run, value), run.evaluation.loader_of(value)))


def _next(run: Run, _: cst.Call, passed: Several[Passed]) -> Value:
    return run.sets.union(element_of(run, first_of(passed, 0)), first_of(passed, 1))


def _map(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    results: Value = NEVER
    given = tuple(type(one)("", "", element_of(run, one.value), one.node) for one in passed[1:])
    for one in first_of(passed, 0):
        if isinstance(one, (Function, Library, Class)):
            results = run.sets.union(results, run.evaluation.apply(run, node, one, given))
    return run.sets.nested(Iterator(results or run.sets.unknown))


def _through(place: int) -> Call:
    """``reversed(x)``, ``filter(f, x)``: goes through what it is given."""
    return lambda run, _, passed: run.sets.nested(
        Iterator(element_of(run, first_of(passed, place)))
    )


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
        return run.sets.nested(Sequence(kind, None, element_of(run, value), run.at(node)))

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


def _default_dictionary(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    """``defaultdict(list)``: it holds what its factory makes."""
    element, no_call = NEVER, ()
    for one in passed[0].value if passed and not passed[0].keyword else NEVER:
        element = run.sets.union(element, run.evaluation.apply(run, node, one, no_call))
    return run.sets.nested(Dictionary((), element, run.at(node)))


def _sum(run: Run, _: cst.Call, passed: Several[Passed]) -> Value:
    return _changed(run, element_of(run, first_of(passed, 0)))


def _changed(run: Run, value: Value) -> Value:
    """Return other numbers, of the same reads."""
    return run.sets.each(
        value, lambda one: run.one(Number(None, one.read) if isinstance(one, Number) else one)
    )


def _absolute(run: Run, _: cst.Call, passed: Several[Passed]) -> Value:
    return _changed(run, first_of(passed, 0)) or run.sets.unknown


def _largest(run: Run, _: cst.Call, passed: Several[Passed]) -> Value:
    plain = [one for one in passed if not one.keyword]
    if len(plain) == 1:
        return element_of(run, plain[0].value)
    return run.sets.all(one.value for one in plain) or run.sets.unknown  # it is one of them


def _super(run: Run, *_: object) -> Value:
    return run.evaluation.parent_of(run)


def _getattr(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    match first_of(passed, 1):
        case (Text(value=str(name)),):
            found = attribute(run, node, first_of(passed, 0), name)
            return run.sets.union(found, first_of(passed, 2))
    return run.sets.unknown


_CALLS: dict[str, Call] = {
    "float": _number, "int": _number, "str": _text, "repr": _text, "len": _length,
    "range": _range, "enumerate": _enumerate, "zip": _zip, "iter": _iter, "next": _next,
    "map": _map, "filter": _through(1), "list": _sequence("list"), "tuple": _sequence("tuple"),
    "set": _sequence("set"), "sorted": _sequence("list"), "dict": _dictionary, "sum": _sum,
    "min": _largest, "max": _largest, "reversed": _through(0), "super": _super,
    "getattr": _getattr, "abs": _absolute, "round": _absolute, "OrderedDict": _dictionary,
    "deque": lambda run, node, passed: _sequence("list")(run, node, passed[:1]),
    "defaultdict": _default_dictionary,
    "open": lambda run, node, _: run.one(Object("builtins.open", run.at(node))),
}  # fmt: skip
