"""Options of the command line: what they are where nobody gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.semantics.arguments import bound, first_of
from torchlint.semantics.operations import element_of
from torchlint.semantics.values import (
    NEVER,
    At,
    Library,
    Nothing,
    Number,
    Object,
    Sequence,
    Text,
    Truth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    import libcst as cst

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, Value

_SWITCHES = {"store_true": False, "store_false": True}
_COUNTED: dict[str, Alternative] = {
    "builtins.int": Number(),
    "builtins.float": Number(),
    "builtins.str": Text(),
}


PARSER, PARENTS = "argparse.ArgumentParser", "@parents"


def new_parser(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    """``ArgumentParser(parents=[...])``: it has their options as well."""
    parents = run.evaluation.attribute(run.at(node), PARENTS)
    run.give(parents, run.at(node), element_of(run, first_of(passed, 99, "parents")))
    return run.one(Object(PARSER, run.at(node)))


def add_option(run: Run, node: cst.Call, parser: Object, passed: Several[Passed]) -> Value:
    """``parser.add_argument("--name", default=...)``: take note of what the option is."""
    given = {word: one.value for word, one in bound((), passed)[0].items()}
    flags = [_text(arg.value) for arg in passed if not arg.keyword]
    long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
    name = _text(given.get("dest", NEVER)) or long.lstrip("-").replace("-", "_")
    if not name or parser.call is None:
        return run.sets.unknown
    at, action = run.at(node), _text(given.get("action", NEVER))
    value = given.get("default", NEVER)
    if not value and action in _SWITCHES:
        value = run.one(Truth(_SWITCHES[action]))
    if not value:
        types = [one.name for one in given.get("type", NEVER) if isinstance(one, Library)]
        counted = run.sets.of(_COUNTED[name] for name in types if name in _COUNTED)
        missing = run.one(Nothing()) if long.startswith("-") else run.sets.unknown
        value = run.sets.union(missing, counted)
    marked = run.sets.each(value, lambda one: run.one(_marked(one, at)))
    run.give(run.evaluation.attribute(parser.call, name), at, marked)
    return run.sets.unknown


def _marked(one: Alternative, at: At) -> Alternative:
    match one:
        case Truth() | Number() | Text():
            return replace(one, option=at)
    return one


def _text(value: Value) -> str:
    match value:
        case (Text(value=str(word)),):
            return word
    return ""


def parsed(run: Run, parser: Object, name: str) -> Value:
    """``parser.parse_args()``: what holds the options, which are kept by their parser."""
    options = run.one(Object("argparse.Namespace", parser.call))
    if name == "parse_known_args":
        return run.sets.nested(Sequence("tuple", (options, run.sets.unknown), NEVER, None))
    return options
