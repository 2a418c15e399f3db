"""Holds a run of lockstep before it trains, until the harness lets it go on.

Both arms start at once, which takes seconds, but what a warm-up chooses must not depend on what the
other arm does meanwhile.  The first optimizer is where training begins, for nearly every script.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from .finder import after_import

if TYPE_CHECKING:
    from .plan import Plan, Turns


def hold(plan: Plan) -> None:
    """Wait where the first optimizer is made; where steps are backwards, as torch comes in."""
    turns = plan.turns
    if turns is None or not turns.hold:
        return
    if plan.anchor is not None and plan.anchor.kind == "backward":
        _wait(turns)
    else:
        after_import("torch.optim.optimizer", functools.partial(_hold_optimizers, turns))


def _hold_optimizers(turns: Turns, module: Any) -> None:
    make = module.Optimizer.__init__

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        make(self, *args, **kwargs)
        if module.Optimizer.__init__ is __init__:
            module.Optimizer.__init__ = make
        _wait(turns)

    module.Optimizer.__init__ = __init__


def _wait(turns: Turns) -> None:
    """Wait once; of several processes that come here, only the first one does."""
    try:
        os.close(os.open(turns.held, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return
    place = os.open(turns.hold, os.O_RDONLY)
    try:
        os.read(place, 1)
    finally:
        os.close(place)
