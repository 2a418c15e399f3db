"""Another function of a library, called the way that a call beside it spells the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library

if TYPE_CHECKING:
    from torchlint.training.script import Script


def beside(script: Script, func: cst.BaseExpression, name: str) -> tuple[str, bool] | None:
    """Return how torch's function ``name`` is called beside ``func``, and whether to import it.

    ``t.tensor`` gives ``t.as_tensor``, an imported ``tensor`` gives ``as_tensor``; None where that
    is a name of something else.
    """
    if isinstance(func, cst.Attribute):
        return f"{script.module.code(func.value)}.{name}", False
    owner = script.module.index.scope(func).owner(name)
    if owner is None:
        return name, True
    evaluation = script.connected.evaluation
    cell = evaluation.global_name(script.file, name)
    is_it = owner is script.module.index.root and cell is not None
    return (name, False) if is_it and cell and cell.value == (Library(f"torch.{name}"),) else None


def numpy_function(script: Script, place: cst.CSTNode, name: str) -> tuple[str, bool] | None:
    """Return how a function of NumPy is called at a place, and whether to import NumPy as `np`."""
    index, evaluation = script.module.index, script.connected.evaluation
    scope = index.scope(place)
    for word in index.root.bindings:
        cell = evaluation.global_name(script.file, word)
        match cell.value if cell is not None and scope.owner(word) is index.root else ():
            case (Library(name=known),) if known in ("numpy", f"numpy.{name}"):
                return f"{word}.{name}" if known == "numpy" else word, False
    return (f"np.{name}", True) if scope.owner("np") is None else None
