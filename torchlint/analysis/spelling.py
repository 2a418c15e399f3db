"""How a file writes the functions of torch, for the code that a fix adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.edits.rewrites import AddImport
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.analysis.program import Program


@dataclass(frozen=True, slots=True)
class Spelled:
    """A name as the file writes it, and the import that it needs, if any."""

    code: str
    imports: tuple[AddImport, ...] = ()


def of_torch(program: Program, at: cst.CSTNode, function: str) -> Spelled | None:
    """Return how ``torch.<function>`` is written at a node; None where torch is something else."""
    root, scope = program.index.root, program.index.scope(at)
    for wanted, code in ((f"torch.{function}", "{}"), ("torch", f"{{}}.{function}")):
        for name, bindings in root.bindings.items():
            imported = bindings[0].kind in (Bind.IMPORT, Bind.FROM)
            if imported and program.names.root(name, root) == wanted and scope.owner(name) is root:
                return Spelled(code.format(name))
    if scope.owner("torch") is not None:
        return None
    return Spelled(f"torch.{function}", (AddImport("torch"),))
