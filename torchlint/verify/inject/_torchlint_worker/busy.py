"""The share of time in which the GPU had work, from the kernels that the profiler saw."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .plan import Plan

_STEPS = 20  # that are profiled at most: each has thousands of kernels


def profiler(torch: Any) -> Any:
    """Return the profiler of a GPU's kernels, not yet begun; on a build without CUDA it raises.

    `torch.profiler.profile` would warn, and under ``-W error`` that would end the script.
    """
    return torch.autograd.profiler.profile(use_cpu=False, use_device="cuda", use_kineto=True)


class Busy:
    """Profiles the last steps of a trace run on CUDA; where that cannot be, the share stays None.

    The last ones, as a warm-up is slower and busy with other things.  The profiler stays attached
    to the device when it has ended: that is why no timed run ever has one.
    """

    def __init__(self, torch: Any, plan: Plan) -> None:
        self.torch = torch
        self.first = max(1, plan.warmup, plan.steps - _STEPS)  # looked at from this step's end on
        self.share: float | None = None
        self.profile: Any = None
        self.began = 0

    def open(self) -> None:
        """Begin, with nothing under way on the device."""
        try:
            if self.torch.autograd._profiler_enabled():  # noqa: SLF001  # the script's own
                return
            profile = profiler(self.torch)
            profile.__enter__()
        except Exception:  # noqa: BLE001  # there is none: the script has to go on
            return
        self.profile = profile
        self.began = perf_counter_ns()

    def close(self, wait: Any, spent: int) -> None:
        """End; ``wait`` waits for the device, ``spent`` are the nanoseconds of our own hooks."""
        profile, self.profile = self.profile, None
        if profile is None:
            return
        wait()
        length = perf_counter_ns() - self.began - spent
        try:
            profile.__exit__(None, None, None)
        except Exception:  # noqa: BLE001  # the script may have ended it
            return
        spans = [_span(each) for each in profile.kineto_results.events() if _is_work(each)]
        if spans and length > 0:
            self.share = min(1.0, covered(spans) / length)


def _is_work(event: Any) -> bool:
    """Whether an event is a kernel or a copy: ranges that a script names hold idle time as well."""
    is_named = getattr(event, "is_user_annotation", bool)()
    return "CUDA" in str(event.device_type()) and not is_named


def _span(event: Any) -> tuple[int, int]:
    if hasattr(event, "start_ns"):
        return event.start_ns(), event.start_ns() + event.duration_ns()
    return event.start_us() * 1000, (event.start_us() + event.duration_us()) * 1000  # torch < 2.4


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return the length that is covered by spans which may overlap."""
    total = end = 0
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total
