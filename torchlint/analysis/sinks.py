"""Calls that print or log what they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

# Methods of loggers, writers and progress bars.
SHOWS = frozenset(
    {"info", "debug", "warning", "add_scalar", "add_scalars", "set_postfix", "set_description",
     "set_postfix_str", "set_description_str", "log", "log_metric", "log_metrics", "log_scalar"}
)  # fmt: skip


def is_sink(program: Program, call: cst.Call) -> bool:
    """Whether a call prints or logs what it is given."""
    match call.func:
        case cst.Name(value="print"):
            return program.is_builtin(call.func)
        case cst.Attribute(attr=cst.Name(value=name)) if name in SHOWS:
            if program.qualified(call.func).startswith(("torch.", "numpy.", "math.")):
                return False  # the logarithm
            return program.value(call.func.value).kind in (Kind.UNKNOWN, Kind.ITERATOR, Kind.LOADER,
                                                           Kind.NONE)  # fmt: skip
        case _:
            return False
