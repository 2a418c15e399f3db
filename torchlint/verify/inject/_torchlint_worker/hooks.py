"""The hooks: steps of optimizers, outermost backwards, waits for batches; each of constant cost."""

from __future__ import annotations

import functools
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from .finder import after_import

if TYPE_CHECKING:
    from .bound import Bound
    from .state import State
    from .trace import Trace


def install(torch: Any, state: State, bound: Bound) -> None:
    """Hook into torch; timed runs see backwards only where these are the steps."""
    after_import("torch.optim.optimizer", functools.partial(_hook_steps, state, bound))
    plan = state.plan
    if plan.phase != "timing" or (plan.anchor and plan.anchor.kind == "backward"):
        _hook_backwards(torch, state, bound)
    after_import("torch.utils.data.dataloader", functools.partial(_hook_loaders, state, bound))
    if state.trace is not None:
        trace = state.trace
        after_import("torch.optim.optimizer", functools.partial(_hook_first_steps, trace))
        after_import("torch.cuda.amp.grad_scaler", functools.partial(_hook_scaler, trace))
        trace.reads.watch()


def _hook_first_steps(trace: Trace, module: Any) -> None:
    def steps(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        trace.steps(optimizer)

    module.register_optimizer_step_pre_hook(steps)


def _hook_scaler(trace: Trace, module: Any) -> None:
    kinds = module.GradScaler.__mro__  # torch.amp's has the method where there is one
    scaler = next(each for each in kinds if "scale" in vars(each))
    scale = scaler.scale

    @functools.wraps(scale)
    def scaling(self: Any, outputs: Any) -> Any:
        scaled = scale(self, outputs)
        trace.scales(outputs, scaled)
        return scaled

    scaler.scale = scaling


def _hook_steps(state: State, bound: Bound, module: Any) -> None:
    def stepped(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        last = state.last  # most scripts have one optimizer: looking it up costs time
        if last is None or last.optimizer() is not optimizer:
            last = state.last = state.stepper(optimizer)
        now = perf_counter_ns()
        last.times.append(now)
        if len(last.times) >= last.due or now > bound.latest:
            bound.stepped(last)

    module.register_optimizer_step_post_hook(stepped)


def _hook_backwards(torch: Any, state: State, bound: Bound) -> None:
    run = torch.autograd.backward
    depth = 0  # of the process: reentrant checkpoints go backward in a thread of the engine

    @functools.wraps(run)
    def backward(*args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth == 0 and state.trace is not None:
            tensors = args[0] if args else kwargs.get("tensors")
            state.trace.goes_backward(tensors, trained=bool(state.steppers))
        depth += 1
        try:
            given = run(*args, **kwargs)
        finally:
            depth -= 1
        if depth == 0:
            state.backwards.append(perf_counter_ns())
            bound.went_backward()
        return given

    torch.autograd.backward = backward


def _hook_loaders(state: State, bound: Bound, dataloader: Any) -> None:
    iterator_type = dataloader._BaseDataLoaderIter  # noqa: SLF001
    start, following = dataloader.DataLoader.__iter__, iterator_type.__next__
    depth = 0  # a dataset may read from a loader of its own

    def timed(call: Any, of: Any) -> Any:
        nonlocal depth
        began = perf_counter_ns()
        depth += 1
        if state.trace is not None:
            state.trace.reads.loading = True
        try:
            return call(of)
        finally:
            depth -= 1
            if depth == 0:
                if state.trace is not None:
                    state.trace.reads.loading = False
                end = perf_counter_ns()
                state.waits.append((end, end - began))

    @functools.wraps(start)
    def __iter__(self: Any) -> Any:  # noqa: N807
        iterator = timed(start, self)
        state.loaders.add(iterator)
        count = sum(len(getattr(each, "_workers", ())) for each in state.loaders)
        state.workers = max(state.workers, count)
        return iterator

    @functools.wraps(following)
    def __next__(self: Any) -> Any:  # noqa: N807
        batch = timed(following, self)
        if depth == 0:
            if state.trace is not None:
                state.trace.got(batch)
            bound.waited()
        return batch

    dataloader.DataLoader.__iter__ = __iter__
    iterator_type.__next__ = __next__
