"""Calls of Python's `collections`: containers like those of the language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics import builtin_calls
from torchlint.semantics.values import NEVER, Dictionary, Library, Object, Sequence

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    import libcst as cst

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Value


def call(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """Return what a container of this name is at first."""
    match name.rpartition(".")[2]:
        case "OrderedDict":
            return builtin_calls.call(run, node, "dict", passed)
        case "deque":
            return builtin_calls.call(run, node, "list", passed[:1])
        case "defaultdict":
            element = NEVER
            for one in passed[0].value if passed and not passed[0].keyword else NEVER:
                element = run.sets.union(element, _made(run, node, one))
            return run.sets.nested(Dictionary((), element, run.at(node)))
    return run.one(Object(name, run.at(node)))


def _made(run: Run, node: cst.Call, factory: object) -> Value:
    """Return what a dictionary puts under a new key."""
    match factory:
        case Library(name="builtins.list" | "builtins.set" as name):
            kind = name.partition(".")[2]
            return run.one(Sequence(kind, () if kind == "list" else None, NEVER, run.at(node)))
        case Library(name="builtins.dict"):
            return run.one(Dictionary((), NEVER, run.at(node)))
    from torchlint.semantics import calls  # noqa: PLC0415  calls imports this module

    return calls.apply(run, node, factory, ())  # type: ignore[arg-type]
