"""What the options of the command line are by default: ``parser.add_argument("--workers", ...)``.

In a script of its own, or in a file of the project that is there for them (``options.py``).
"""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import keywords, literal
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

UNKNOWN = object()  # what no constant is
# What a switch is that is not given; any other option without a default is None.
_SWITCHES: dict[str | None, object] = {"store_true": False, "store_false": True, "count": UNKNOWN}
# What the options of a script are called, as they are handed around.
OPTION_ROOTS = frozenset(
    {"args", "opt", "opts", "cfg", "config", "hparams", "FLAGS", "params", "options", "conf", "hp",
     "arg", "configs", "hps", "flags"}
)  # fmt: skip
_ALIAS = re.compile(r"^[ \t]*(\w+)[ \t]*=[ \t]*\w+\.add_argument[ \t]*$", re.MULTILINE)


def option_default(
    program: Program, option: cst.Attribute
) -> tuple[Program, cst.BaseExpression] | None:
    """Return the default of the option that an attribute reads, with the file that gives it.

    Options of other files, at most two imports away, count where all that have this one give the
    same literal: which of them a script reads is not known.
    """
    flags = _flags(option.attr.value)
    own = _defaults(program, flags)
    if own:
        return None if own[0] is None else (program, own[0])
    if program.project is None or program.value(option.value).kind is not Kind.UNKNOWN:
        return None
    found = [
        (other, default)
        for other in program.project.related(program, flags)
        for default in _defaults(other, flags)
    ]
    agreed = len({literal(default) for _, default in found}) == 1
    match found:
        case [(other, default), *_] if agreed and literal(default) is not None:
            assert default is not None
            return other, default
        case _:
            return None


def option_constant(program: Program, option: cst.Attribute) -> object:
    """Return what an option is where it is not given; `UNKNOWN` where that cannot be told.

    Options of other files count as for `option_default`; none does that a file sets afterwards.
    """
    found = [_constant(home, call) for home, call in _places_of(program, option)]
    return found[0] if found and all(one == found[0] for one in found) else UNKNOWN


def cannot_be_off(program: Program, option: cst.Attribute) -> bool:
    """``type=bool, default=True``: whether an option is true whatever text it is given.

    ``--use_sgd False`` reads the text ``"False"``, which is true; the empty text nobody writes.  So
    is one of ``action="store_true", default=True``, which takes none.
    """
    if dotted(option.value).rpartition(".")[2] not in OPTION_ROOTS:
        return False
    added = _places_of(program, option)
    return bool(added) and all(
        (_reads_bool(call) or _stores_true(call)) and _constant(home, call) is True
        for home, call in added
    )


def _stores_true(call: cst.Call) -> bool:
    action = keywords(call).get("action")
    return action is not None and literal(action) == "store_true"


def _reads_bool(call: cst.Call) -> bool:
    kind = keywords(call).get("type")
    return isinstance(kind, cst.Name) and kind.value == "bool"


def _places_of(program: Program, option: cst.Attribute) -> list[tuple[Program, cst.Call]]:
    """Return where an option is added, each with its file; nothing where a file sets it."""
    name = option.attr.value
    flags = _flags(name)
    homes = [program] if _adding(program, flags) else []
    if not homes and program.project and program.value(option.value).kind is Kind.UNKNOWN:
        homes = list(program.project.related(program, flags))
    added = [(home, call) for home in homes for call in _adding(home, flags)]
    if any(_sets(home, name, added) for home in (program, *homes)):
        return []
    return added


def _flags(name: str) -> tuple[str, ...]:
    return f"--{name}", f"--{name.replace('_', '-')}"


def _sets(home: Program, name: str, added: list[tuple[Program, cst.Call]]) -> bool:
    """``args.name = ...``, ``parser.set_defaults(name=...)``, another switch for the same."""
    ways = rf"\.{name}[ \t]*=(?!=)|set_defaults\([^)]*\b{name}="
    if re.search(ways, home.text) is not None:
        return True
    own = (keywords(call).get("dest") for other, call in added if other is home)
    named = sum(1 for one in own if one is not None and literal(one) == name)
    return len(re.findall(rf"dest\s*=\s*[\"']{name}[\"']", home.text)) > named


def _constant(program: Program, call: cst.Call) -> object:
    """Return what ``add_argument`` makes of an option that is not given."""
    given = keywords(call)
    action = literal(given["action"]) if "action" in given else None
    if any(arg.star for arg in call.args) or "required" in given:
        return UNKNOWN
    if "default" not in given:
        return _SWITCHES.get(action)
    found = constant(program, given["default"])
    reads = given.get("type")  # "no" may be False to it
    plain = reads is None or (isinstance(reads, cst.Name) and reads.value == "str")
    return UNKNOWN if isinstance(found, str) and not plain else found


def constant(program: Program, node: cst.BaseExpression) -> object:
    """Return the number, text or other constant that an expression is; else `UNKNOWN`."""
    try:
        return ast.literal_eval(program.code(node))
    except (ValueError, SyntaxError, TypeError):
        return UNKNOWN


def _defaults(program: Program, flags: tuple[str, ...]) -> list[cst.BaseExpression | None]:
    """Return the default in each place where a file adds an option, or None where it gives none."""
    return [
        next((arg.value for arg in call.args if _is_for(arg, "default")), None)
        for call in _adding(program, flags)
    ]


def _adding(program: Program, flags: tuple[str, ...]) -> list[cst.Call]:
    """Return the calls of a file that add an option."""
    return [
        call
        for call in _added(program)
        if any(arg.keyword is None and literal(arg.value) in flags for arg in call.args)
    ]


def _added(program: Program) -> list[cst.Call]:
    """Return the calls that add an option, by another name as well: ``arg = p.add_argument``."""
    calls = [call for call, _ in program.method_calls("add_argument")]
    for name in _aliases(program.text):
        calls += program.calls.by_name(name)
    return calls


@functools.lru_cache(256)  # asked for each option
def _aliases(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_ALIAS.findall(text)))


def _is_for(arg: cst.Arg, parameter: str) -> bool:
    return arg.keyword is not None and arg.keyword.value == parameter
