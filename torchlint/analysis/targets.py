"""A function with the file that it stands in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.analysis.program import Program


@dataclass(frozen=True, slots=True)
class Target:
    """A function that a call runs, of this file or of another one."""

    program: Program
    function: cst.FunctionDef
