"""What a trace run keeps: losses, hashes of batches and parameters, reads of the device."""

from __future__ import annotations

import contextlib
import random
import sys
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from .busy import Busy
from .digest import Digest
from .reads import Reads
from .syncs import Syncs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .device import Device
    from .plan import Plan
    from .state import State

_NODES = 200_000  # of a graph that are looked at


class Trace:
    """Kept while the script runs; numbers are taken from the device only at the end."""

    def __init__(self, torch: Any, plan: Plan) -> None:
        self.torch = torch
        self.reads = Reads(torch, plan)
        self.syncs = Syncs(torch, self.reads)
        self.steps_timed = plan.steps - max(plan.warmup, 1)
        self.clear()

    def clear(self) -> None:
        """Begin anew, as in a process that was forked."""
        self.losses: list[Any] = []
        self.batches: list[str] = []
        self.initial: dict[int, tuple[Any, str]] = {}  # optimizer, hash before its first step
        self.leaves: list[Any] = []  # what the last loss was computed from, without an optimizer
        self.first_leaves = ""
        self.scaled: tuple[Any, Any] | None = None
        self.spent = 0  # nanoseconds in here
        self.busy = Busy(self.torch, self.steps_timed)
        self.reads.clear()

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """Let what is done here count neither as the script's reads nor as its time."""
        began = perf_counter_ns()
        paused, self.reads.paused = self.reads.paused, True
        try:
            yield
        finally:
            self.reads.paused = paused
            self.spent += perf_counter_ns() - began

    def got(self, batch: Any) -> None:
        """Hash a batch that a loader gave."""
        with self.unseen():
            digest = Digest(self.torch)
            digest.value(batch)
            self.batches.append(digest.text())

    def scales(self, loss: Any, scaled: Any) -> None:
        """Remember what a `GradScaler` made of a loss: the backward will see only that."""
        if isinstance(loss, self.torch.Tensor):
            self.scaled = weakref.ref(scaled), loss.detach()

    def goes_backward(self, tensors: Any, *, trained: bool) -> None:
        """Keep the loss of an outermost backward, before it can change in place."""
        self.syncs.keep()
        with self.unseen():
            loss = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
            if not trained and isinstance(loss, self.torch.Tensor):
                self._look_at_leaves(loss)
            if self.scaled is not None and self.scaled[0]() is loss:
                loss = self.scaled[1]
            self.scaled = None
            single = isinstance(loss, self.torch.Tensor) and loss.numel() == 1
            self.losses.append(loss.detach().clone() if single else None)

    def steps(self, optimizer: Any) -> None:
        """Hash the parameters of an optimizer that is about to make its first step."""
        if id(optimizer) not in self.initial:
            with self.unseen():
                self.initial[id(optimizer)] = optimizer, self._hash(_parameters(optimizer))

    def window_step(self, device: Device) -> None:
        """Look at the opening of the window or a step of it: some settled steps are profiled."""
        turn = self.busy.turn()
        if turn == "begins" and device.is_cuda():
            with self.unseen():
                self.busy.open(device.wait)
            self.spent = 0
        elif turn == "ends":
            self.window_closes(device)

    def window_closes(self, device: Device) -> None:
        """Look no further: the profiler waits for the device itself, which is no read either."""
        with self.unseen():
            self.busy.close(device.wait, self.spent)

    def content(self, state: State) -> dict[str, Any]:
        """Return this part of the record."""
        with self.unseen():
            optimizers = [stepper.optimizer() for stepper in state.steppers]
            parameters = [each for one in optimizers for each in _parameters(one)] or self.leaves
            first = Digest(self.torch)
            for optimizer in optimizers:
                first.say(self.initial.get(id(optimizer), (None, ""))[1])
            return {
                "losses": [None if loss is None else float(loss) for loss in self.losses],
                "batches": self.batches,
                "initial": first.text() if optimizers else self.first_leaves,
                "parameters": self._hash(parameters),
                "norms": [self._norm(parameter) for parameter in parameters],
                "random": self._random(),
                "reads": self.reads.content(),
            }

    def _hash(self, tensors: list[Any]) -> str:
        digest = Digest(self.torch)
        for tensor in tensors:
            digest.tensor(tensor)
        return digest.text()

    def _norm(self, tensor: Any) -> float:
        tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        return float(self.torch.linalg.vector_norm(tensor.detach().cpu().to(self.torch.float64)))

    def _random(self) -> str:
        torch, numpy = self.torch, sys.modules.get("numpy.random")
        digest = Digest(torch)
        digest.tensor(torch.get_rng_state())
        if torch.cuda.is_initialized():
            for state in torch.cuda.get_rng_state_all():
                digest.tensor(state)
        digest.value(random.getstate())
        if numpy is not None:
            digest.value(numpy.get_state())
        return digest.text()

    def _look_at_leaves(self, loss: Any) -> None:
        self.leaves = _leaves(loss)
        self.first_leaves = self.first_leaves or self._hash(self.leaves)


def _parameters(optimizer: Any) -> list[Any]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _leaves(loss: Any) -> list[Any]:
    """Return the leaf tensors that a loss was computed from, in the order of the graph."""
    seen: set[Any] = set()
    leaves = []
    nodes = [loss.grad_fn]
    while nodes and len(seen) < _NODES:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        nodes.extend(following for following, _ in reversed(node.next_functions))
    return leaves
