"""Follows a file of JSON lines that a command appends to, and counts what happened."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from lease_parts.out import Out

BAD = frozenset({"failed", "error", "hung", "crashed", "changes results", "not written"})
RAISED = re.compile(r"(?:E\s+)?((?:[\w.]*(?:Error|Exception|Warning)\b|assert ).*)")
SUBJECTS = ("test", "row", "script")


@dataclass(slots=True)
class Told:
    """What a command has told so far."""

    counts: Counter[str] = field(default_factory=Counter)
    last: dict[str, dict[str, Any]] = field(default_factory=dict)  # of each test, row or script
    bad: list[str] = field(default_factory=list)
    begun: str = ""  # the test that runs, or ran when its process died
    tests: int = 0  # that there are
    left: str = ""  # what a later run has to do
    now: str = ""


class Follower:
    """Reads what is new in a file whenever it is asked to."""

    def __init__(self, path: Path, job: str, told: Told, out: Out) -> None:
        self.path, self.job, self.told, self.out = path, job, told, out
        self._place = path.stat().st_size if path.is_file() else 0
        self._rest = b""

    def read(self) -> None:
        """Take in the new lines; a failure is written down at once."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._place)
                read = stream.read()
        except OSError:
            return
        self._place += len(read)
        *lines, self._rest = (self._rest + read).split(b"\n")
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a full disk cut it short
            if isinstance(entry, dict) and entry.get("job", self.job) == self.job:
                self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        what = str(entry.get("what", ""))
        subject = str(next((entry[name] for name in SUBJECTS if entry.get(name)), ""))
        self.told.counts[what] += "text" not in entry  # that says again what was just told
        self.told.tests = max(self.told.tests, entry.get("tests") or 0)
        self.told.now = " ".join(filter(None, (what, subject.rpartition("::")[2])))
        self.told.begun = subject if what == "begun" else ""
        if subject and what != "begun":
            self.told.last[subject] = entry
        if what == "left":
            self.told.left = str(entry.get("why", ""))
        if what in BAD:
            self.bad(f"{subject}: {what}", str(entry.get("why") or entry.get("text") or ""))

    def died(self, how: str) -> bool:
        """Say which test ran when its process ended, if one did."""
        if not (test := self.told.begun):
            return False
        self.told.begun = ""
        self.bad(f"{test}: {how}", "its stack is above, if it left one")
        return True

    def bad(self, title: str, why: str) -> None:
        """Write down a failure."""
        self.told.bad.append(f"{title}: {_brief(why)}")
        self.out.failure(title, why)


def _brief(why: str) -> str:
    """Return the line of a traceback that says most: what was raised last."""
    raised = [found[1] for line in why.splitlines() if (found := RAISED.match(line))]
    said = [line.strip() for line in why.splitlines() if line.strip()] or [""]
    return (raised[-1] if raised else said[0])[:120]
