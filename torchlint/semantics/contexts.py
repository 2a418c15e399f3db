"""Context managers: what `with` binds, and what holds inside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.run import AUTOCAST, GRAD
from torchlint.semantics.values import At, Library, Object, Truth, Unknown

if TYPE_CHECKING:
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Value

NO_GRAD = frozenset({"torch.no_grad", "torch.inference_mode"})
_SWITCHES = dict.fromkeys(NO_GRAD, False) | {"torch.enable_grad": True}
AUTOCASTS = frozenset(
    {"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"}
)


def entered(run: Run, value: Value) -> Value:
    """Return what ``with ... as x`` gives ``x``."""
    enter = run.evaluation.call_method
    return run.sets.each(value, lambda one: enter(run, one, "__enter__", run.one(one)))


def modes(run: Run, value: Value) -> dict[str, Value]:
    """Return what holds inside of a ``with`` by its context manager, or by a decorator."""
    found: dict[str, Value] = {}
    for one in value:
        match one:
            case Object(kind=name) | Library(name=name) if name in _SWITCHES:
                found[GRAD] = run.one(Truth(_SWITCHES[name]))
            case Object(kind="torch.set_grad_enabled", call=At() as call):
                found[GRAD] = run.evaluation.enabled.get(call, run.one(Truth()))
            case Object(kind=kind) if kind in AUTOCASTS:
                found[AUTOCAST] = value
            case Unknown() if GRAD not in found:
                now = run.mode(GRAD) or run.one(Truth(True))
                found[GRAD] = run.sets.union(now, run.one(Truth()))
    return found
