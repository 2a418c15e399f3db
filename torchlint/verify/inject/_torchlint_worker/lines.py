"""Counts how often given lines run: with `sys.monitoring`, before Python 3.12 `sys.settrace`."""

from __future__ import annotations

import dis
import functools
import mmap
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from .statements import spans

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from .plan import Plan

_ENOUGH = 10_000  # a line is not counted further, where that saves time
_FILE = "lines.counts"
_TOOLS = (4, 3)  # identifiers that no kind of tool has for its own; see `sys.monitoring`


def count(plan: Plan) -> Lines | None:
    """Begin to count; None where another tool traces already: it would be turned off."""
    lines = Lines(plan)
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is not None:
        return lines if _monitor(lines, monitoring) else None
    if sys.gettrace() is not None:
        return None
    sys.settrace(lines.called)
    threading.settrace(lines.called)
    return lines


class Lines:
    """The counts of all lines of the statements that the given lines are in.

    They are in a file that all processes of the run map into their memory, since a dataset's lines
    run in the workers of its loader.
    """

    def __init__(self, plan: Plan) -> None:
        self.start = os.getcwd()
        self.spans: dict[str, dict[int, tuple[int, int]]] = {}
        self.places: dict[str, dict[int, int]] = {}  # by real path: line -> place in the counts
        self.files: dict[str, dict[int, int] | None] = {}  # the same by a code's file name
        self.codes: dict[tuple[str, str, int], bool] = {}
        size = 0
        for name in sorted(plan.lines):
            path = os.path.realpath(os.path.join(plan.root, name))
            self.spans[name] = found = spans(path, plan.lines[name])
            lines = sorted({n for first, last in found.values() for n in range(first, last + 1)})
            self.places[path] = {line: size + place for place, line in enumerate(lines)}
            size += len(lines)
        self.root = plan.root
        self.counts = _shared(os.path.join(plan.records, _FILE), max(size, 1))

    def places_of(self, name: str) -> dict[int, int] | None:
        """Return where lines of a file are counted, by the name that its code has."""
        if name not in self.files:
            self.files[name] = self.places.get(os.path.realpath(os.path.join(self.start, name)))
        return self.files[name]

    def places_in(self, code: CodeType) -> dict[int, int] | None:
        """Return where lines of a code object's file are counted; None if it has none of them."""
        name = code.co_filename
        places = self.places_of(name)
        if places is None:
            return None
        key = name, code.co_name, code.co_firstlineno
        if key not in self.codes:
            self.codes[key] = any(line in places for _, line in dis.findlinestarts(code))
        return places if self.codes[key] else None

    def reached(self) -> dict[str, dict[str, int]]:
        """Return the counts of the given lines; one that has no code takes its statement's."""
        given: dict[str, dict[str, int]] = {}
        for name, found in self.spans.items():
            places = self.places[os.path.realpath(os.path.join(self.root, name))]
            counts = {line: self.counts[place] for line, place in places.items()}
            given[name] = {
                str(line): counts.get(line) or max(counts[n] for n in range(first, last + 1))
                for line, (first, last) in found.items()
            }
        return given

    def count_compiled(self, guards: Any) -> None:
        """Count a line when it is compiled: what runs later is a graph that has no lines."""
        note = getattr(guards.TracingContext, "set_current_loc", None)
        if note is None:
            return

        @functools.wraps(note)
        def noted(filename: str, line: int, *args: Any, **kwargs: Any) -> Any:
            place = (self.places_of(filename) or {}).get(line)
            if place is not None:
                self.counts[place] += 1
            return note(filename, line, *args, **kwargs)

        guards.TracingContext.set_current_loc = staticmethod(noted)

    def called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """Trace a call, for `sys.settrace`: go on only in code that has a wanted line."""
        places = self.places_in(frame.f_code)
        if places is None:
            return None
        counts, wanted = self.counts, places

        def line_ran(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "line" and frame.f_lineno in wanted:
                counts[wanted[frame.f_lineno]] += 1
            return line_ran

        return line_ran


def _shared(path: str, size: int) -> Any:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(descriptor, size * 4)
        return memoryview(mmap.mmap(descriptor, size * 4)).cast("I")
    finally:
        os.close(descriptor)


def _monitor(lines: Lines, monitoring: Any) -> bool:
    tool = next((each for each in _TOOLS if monitoring.get_tool(each) is None), None)
    if tool is None:
        return False
    events, disable = monitoring.events, monitoring.DISABLE

    def started(code: CodeType, _offset: int) -> Any:
        if lines.places_in(code) is not None:
            monitoring.set_local_events(tool, code, events.LINE)
        return disable

    def ran(code: CodeType, line: int) -> Any:
        place = (lines.places_in(code) or {}).get(line)
        if place is None:
            return disable
        lines.counts[place] += 1
        return disable if lines.counts[place] >= _ENOUGH else None

    monitoring.use_tool_id(tool, "torchlint")
    monitoring.register_callback(tool, events.PY_START, started)
    monitoring.register_callback(tool, events.LINE, ran)
    monitoring.set_events(tool, events.PY_START)
    return True
