"""Context managers: what `with` binds, and what holds inside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.run import AUTOCAST, GRAD
from torchlint.semantics.values import Object, Truth, Unknown

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Value

NO_GRAD = frozenset({"torch.no_grad", "torch.inference_mode"})
AUTOCASTS = frozenset(
    {"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"}
)


def entered(run: Run, value: Value) -> Value:
    """Return what ``with ... as x`` gives ``x``."""
    enter = run.evaluation.call_method
    return run.sets.each(value, lambda one: enter(run, one, "__enter__", run.one(one)))


def modes(run: Run, value: Value, node: cst.BaseExpression) -> dict[str, Value]:
    """Return what holds inside of a ``with`` by its context manager."""
    found: dict[str, Value] = {}
    for one in value:
        match one:
            case Object(kind=kind) if kind in NO_GRAD:
                found[GRAD] = run.one(Truth(False))
            case Object(kind="torch.enable_grad"):
                found[GRAD] = run.one(Truth(True))
            case Object(kind="torch.set_grad_enabled"):
                found[GRAD] = run.evaluation.enabled.get(run.at(node), run.one(Truth()))
            case Object(kind=kind) if kind in AUTOCASTS:
                found[AUTOCAST] = value
            case Unknown() if GRAD not in found:
                found[GRAD] = run.sets.union(
                    run.mode(GRAD) or run.one(Truth(True)), run.one(Truth())
                )
    return found
