"""Running a function where deep recursion is harmless: in a thread with a large stack."""

from __future__ import annotations

import os
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    # a function for the thread, and where it tells that it is done or what was raised
    _Task: TypeAlias = tuple[Callable[[], object], SimpleQueue[BaseException | None]]

T = TypeVar("T")

STACK = 256 * 1024 * 1024  # bytes of address space; only what is used becomes memory
RECURSION = 50_000  # frames: a chain of 1,000 links takes some 4,000 of them in libcst's codegen

_deep = threading.local()


def with_deep_stack(function: Callable[[], T]) -> T:
    """Run a function where deep recursion is harmless: libcst recurses with the nesting of code.

    A thread with a large stack runs it; its result or exception is passed on.  Inside of that
    thread the function is simply called.
    """
    if getattr(_deep, "inside", False):
        return function()
    if not _workers:
        _workers.append(_DeepWorker())
    outcome: list[T] = []
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(max(limit, RECURSION))
        failure = _workers[0].run(lambda: outcome.append(function()))
    except BaseException:
        end_deep_thread()  # interrupted while it waited: the thread may be at work for long
        raise
    finally:
        sys.setrecursionlimit(limit)
    if failure is not None:
        raise failure
    return outcome[0]


def end_deep_thread() -> None:
    """Have the thread end when it is done with what it is at; what comes next starts another."""
    while _workers:
        _workers.pop().end()


class _DeepWorker:
    """A thread with a large stack that runs one function after another.

    One thread for all files rather than one for each: a new thread pays for its stack and its
    heap anew, 5 % of a check.  It is a daemon, so that nothing waits for it at the end.
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        size = threading.stack_size(STACK)
        try:
            threading.Thread(target=self._work, name="torchlint", daemon=True).start()
        finally:
            threading.stack_size(size)

    def run(self, task: Callable[[], object]) -> BaseException | None:
        """Have the thread run a function; return what it raised."""
        reply: SimpleQueue[BaseException | None] = SimpleQueue()
        self._tasks.put((task, reply))
        return reply.get()

    def end(self) -> None:
        """Have the thread end when it has run what it was given."""
        self._tasks.put(None)

    def _work(self) -> None:
        _deep.inside = True
        while (next_one := self._tasks.get()) is not None:
            task, reply = next_one
            reply.put(_failure_of(task))
            del next_one, task, reply  # what they hold is not kept until the next one comes


def _failure_of(task: Callable[[], object]) -> BaseException | None:
    try:
        task()
    except BaseException as error:  # noqa: BLE001 - it is raised again in the calling thread
        return error
    return None


_workers: list[_DeepWorker] = []  # one at most
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.clear)  # a child has none of its parent's threads
