"""Launches rows until each is judged, or the time is over: depth before breadth."""

from __future__ import annotations

import datetime as dt
import random
import signal
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from torchlint.bench.model import Arm, Check, Pair
from torchlint.errors import TorchlintError
from torchlint.verify import statistics
from torchlint.verify.model import Speed, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from torchlint.bench.model import Measured
    from torchlint.bench.process import Server
    from torchlint.verify.model import Progress

    Hear: TypeAlias = Callable[[str, Measured, str], None]  # what happened, to which row, and why

GROUP = 8  # rows that take their launches by turns: time passes between two of the same
SECONDS = 0.3  # in which the arms of a row take turns, in one launch
WARM, FIRST_WARM = 0.3, 1.0  # seconds of work that bring up the clock of a GPU
USUAL = 1.0  # seconds that a launch takes, as long as none is known
VERDICTS = {
    Speed.FASTER: Verdict.FASTER,
    Speed.SLOWER: Verdict.SLOWER,
    Speed.NO_CHANGE: Verdict.NO_CHANGE,
    Speed.NOISY: Verdict.NOISY,
    Speed.OPEN: Verdict.NOT_MEASURED,
}


@dataclass(slots=True)
class Bench:
    """Measures rows on one device until a time of the monotonic clock; tells and hears of it."""

    start: Callable[[], Server]
    device: str
    ends: float
    tell: Progress
    hear: Hear
    fewest: int = statistics.FEWEST
    most: int = statistics.USUAL
    rng: random.Random = field(default_factory=random.Random)
    launches: int = 0
    interrupted: bool = False
    server: Server | None = None
    rows: Sequence[Measured] = ()

    def measure(self, known: Sequence[Measured]) -> None:
        """Add to what is known of each row; Ctrl-C ends it with what is known by then."""
        self.rows = [one for one in known if not (one.row.unfit or one.row.broken)]
        for one in known:
            if one.row.unfit:
                one.why = one.row.unfit
                self.hear("left out", one, one.why)
            elif one.row.broken:
                one.verdict, one.why = Verdict.FAILED, one.row.broken
                self.hear("failed", one, one.why)
        for one in self.rows:
            self._judge(one)
        try:
            for one in self._order():
                self._launch(one)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            if self.server is not None:
                self.server.close()
        for one in self.rows:
            self._judge(one, last=True)

    def _order(self) -> Iterator[Measured]:
        """Yield which row is launched next: groups to their fewest pairs, then what is nearest."""
        quick = any(one.row.quick for one in self.rows)
        for group in groups(self.rows, len(self.rows) if quick else GROUP):
            for count in range(1, self.fewest + 1):
                self.rng.shuffle(group)
                yield from (one for one in group if len(one.pairs) < count and self._can(one))
        while todo := [one for one in self.rows if one.pairs and self._can(one)]:
            yield min(todo, key=self._cost)

    def _can(self, one: Measured) -> bool:
        """Whether a launch could tell more of a row, and would end in time."""
        return one.is_open and time.monotonic() + self._expected(one) <= self.ends

    def _expected(self, one: Measured) -> float:
        if one.seconds is not None:
            return one.seconds
        return median([each.seconds for each in self.rows if each.seconds] or [USUAL])

    def _cost(self, one: Measured) -> tuple[float, int]:
        """Return the seconds to a verdict, infinite where none is in sight."""
        needed = statistics.pairs_needed(
            one.samples, len(self.rows), self._spread(one), most=self.most
        )
        seconds = self._expected(one) * needed if needed else float("inf")
        return seconds, len(one.pairs)

    def _launch(self, one: Measured) -> None:
        """Let both arms of a row take their turns in a process of their own."""
        begun = time.monotonic()
        self.server = self.server or self.start()
        todo = sum(max(0, self.fewest - len(each.pairs)) for each in self.rows if each.is_open)
        self.tell(one.row.key, self.launches + 1, self.launches + max(1, todo), self.ends - begun)
        job = {
            **self.server.write(self.rows.index(one), one.row),
            "device": self.device,
            "seed": self.rng.randrange(2**31),
            "check": one.check is None,
            **self._pace(one),
        }
        self.launches += 1
        said: dict[str, Any] = {}
        try:
            for words in self.server.ask(job, self.ends):
                said.update(words)
        except TorchlintError as error:
            said["error"] = str(error)
            self.server.close()
            self.server = None
        one.seconds = time.monotonic() - begun
        self._note(one, said)

    def _pace(self, one: Measured) -> dict[str, float | None]:
        """Return the seconds of turns, of one turn at least, and of bringing up a GPU's clock."""
        if one.row.quick:
            return {"seconds": 0.0, "turn": 0.0, "warm": 0.0}
        return {"seconds": SECONDS, "turn": None, "warm": WARM if self.launches else FIRST_WARM}

    def _note(self, one: Measured, said: Mapping[str, Any]) -> None:
        """Keep what a launch says of a row, and judge it; what was answered counts in any case."""
        what, why = _trouble(said, one.row.patience)
        if "check" in said:
            one.check = Check(**said["check"])
        if "before" in said:
            syncs = said.get("syncs", {})
            arms = (Arm(**said[side], syncs=syncs.get(side)) for side in ("before", "after"))
            one.pairs.append(Pair(*arms))
            one.when = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
            self._judge(one)
        elif what != "stopped":
            one.verdict, one.why = Verdict.FAILED, why
        if one.check is not None and not one.check.allowed:
            one.verdict, one.why = Verdict.CHANGES_RESULTS, _apart(one)
            what, why = "changes results", one.why
        if "before" in said:
            self.hear("pair", one, "")
        if what:
            self.hear(what, one, why)

    def _judge(self, one: Measured, *, last: bool = False) -> None:
        """Judge a row beside the others of its kind; a verdict stays."""
        if not one.pairs or not one.is_open:
            return
        found = statistics.judge(
            one.samples,
            comparisons=len(self.rows),
            spread=self._spread(one),
            fewest=self.fewest,
            most=self.most,
            last=last,
        )
        one.interval = found.interval
        one.verdict = VERDICTS[found.speed]

    def _spread(self, one: Measured) -> statistics.Spread:
        kind = one.row.workers
        return statistics.pooled(
            each.samples for each in self.rows if each is not one and each.row.workers is kind
        )


def groups(rows: Iterable[Measured], size: int) -> list[list[Measured]]:
    """Return rows in groups: by rank, then the cheap ones, as far as that is known."""

    def cost(one: Measured) -> tuple[int, float]:
        return one.row.rank, one.seconds if one.seconds is not None else 2.0 * one.row.workers

    order = sorted(rows, key=cost)
    return [order[first : first + size] for first in range(0, len(order), size)]


def _trouble(said: Mapping[str, Any], patience: float) -> tuple[str, str]:
    """Return what went wrong in a launch, and what is known of it; nothing where all went well."""
    ended = said.get("ended")
    if "error" in said:
        return "failed", said["error"].strip()
    if ended == "hung":
        after = ", after its answer" if "done" in said else ""
        return "hung", f"it said nothing for {patience:.0f} s{after}\n{said['stack'].strip()}"
    if ended == "stopped":
        return "stopped", "the time was over"
    if not ended:
        return "", ""
    how = f"by {signal.Signals(-ended).name}" if ended < 0 else f"with {ended}"
    last = said["said"].strip().splitlines()[-1:] or ["it said nothing"]
    return "failed", f"the process ended {how}: {last[0]}"


def _apart(one: Measured) -> str:
    """Say that the results of a row differ, and by how much."""
    assert one.check is not None
    level = one.row.level.name
    if one.check.difference is None:
        return f"before and after compute what cannot be compared; {level} does not allow that"
    own = f" (before differs from itself by {one.check.itself:.1g})" if one.check.itself else ""
    return (
        f"before and after compute what is {one.check.difference:.1g} apart, "
        f"more than {level} allows{own}"
    )
