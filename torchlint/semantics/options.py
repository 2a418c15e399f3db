"""Options of the command line: what they are where nobody gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import bound
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
from torchlint.syntax.calls import keywords

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, Value

_SWITCHES = {"store_true": False, "store_false": True}
_COUNTED: dict[str, Alternative] = {
    "builtins.int": Number(),
    "builtins.float": Number(),
    "builtins.str": Text(),
}


def add_option(run: Run, node: cst.Call, parser: Object, passed: Several[Passed]) -> Value:
    """``parser.add_argument("--name", default=...)``: take note of what the option is."""
    given = bound((), passed)[0]
    flags = [
        one.value
        for arg in passed
        if not arg.keyword
        for one in arg.value
        if isinstance(one, Text) and one.value
    ]
    dest = _text(given["dest"].value) if "dest" in given else ""
    long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
    name = dest or long.lstrip("-").replace("-", "_")
    if not name or parser.call is None:
        return run.sets.unknown
    at = run.at(node)
    action = _text(given["action"].value) if "action" in given else ""
    value: Value = given["default"].value if "default" in given else NEVER
    if not value and action in _SWITCHES:
        value = run.one(Truth(_SWITCHES[action]))
    if not value:
        value = run.one(Nothing()) if long.startswith("-") else run.sets.unknown
        kind = given["type"].value if "type" in given else NEVER
        for one in kind:
            name_of = one.name if isinstance(one, Library) else ""
            value = (
                run.sets.union(value, run.one(_COUNTED[name_of])) if name_of in _COUNTED else value
            )
    marked = run.sets.each(value, lambda one: run.one(_marked(one, at)))
    run.give(run.evaluation.attribute(parser.call, name), at, marked)
    return run.sets.unknown


def click_options(run: Run, function: cst.FunctionDef) -> dict[str, Value]:
    """Return what decorators of click make of the parameters of a function that click calls."""
    found: dict[str, Value] = {}
    for decorator in function.decorators:
        node, values = decorator.decorator, run.evaluation.values
        match values.get(id(node), NEVER):
            case (Object(kind="click.option", call=At() as at),) if isinstance(node, cst.Call):
                given = keywords(node)
                flags = [
                    one.value
                    for arg in node.args
                    if not arg.keyword
                    for one in values.get(id(arg.value), NEVER)
                    if isinstance(one, Text) and one.value
                ]
                name = max(flags, key=lambda flag: (not flag.startswith("-"), len(flag)))
                value = values.get(id(given["default"]), NEVER) if "default" in given else NEVER
                if not value and "is_flag" in given:
                    value = run.one(Truth(False))
                plain = name.split("/")[0].lstrip("-").replace("-", "_")
                found[plain] = run.sets.each(
                    value or run.one(Nothing()), lambda one: run.one(_marked(one, at))
                )
    return found


def typer_option(run: Run, default: Value) -> Value:
    """``lr: float = typer.Option(0.1)``: what the option is, NEVER for any other default."""
    match default:
        case (Object(kind="typer.Option" | "typer.Argument", call=At() as at),):
            node = run.evaluation.node(at)
            first = node.args[0].value if isinstance(node, cst.Call) and node.args else None
            value = run.evaluation.value(first)
            return run.sets.each(value, lambda one: run.one(_marked(one, at)))
    return NEVER


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
