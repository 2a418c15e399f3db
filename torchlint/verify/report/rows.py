"""The configurations of a report in the order in which every format tells them, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from torchlint.verify.model import Same, Speed, Verdict
from torchlint.verify.report.figures import USEFUL, Figures, figures, typical
from torchlint.verify.report.words import listing, rule_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.verify.model import Caution, Interval, Report, Result

TOLD = ("cpu-only", "time-over")  # cautions that are told elsewhere: by a label, by a note
FEW = 3  # codes that a name has room for
MANY = 8  # of which a note says how many they are, above that
FEWER = 2  # and that the short name of a group has room for
Role: TypeAlias = Literal["before", "single", "together", "group", "kept"]


@dataclass(frozen=True, slots=True)
class Row:
    """A configuration: what it is called, what is known of it, its numbers, whether to keep it."""

    role: Role
    title: str
    subtitle: str
    result: Result
    figures: Figures
    keep: bool

    @property
    def name(self) -> str:
        """The whole name: ``TL000 a-pattern``."""
        return f"{self.title} {self.subtitle}".strip()

    @property
    def mark(self) -> str:
        """The mark of a fix to keep, or of a group of them; as many blanks without."""
        return "* " if self.keep and self.role in ("single", "group") else "  "

    @property
    def codes(self) -> frozenset[str]:
        """The rules whose fixes are in it."""
        return frozenset(self.result.configuration.codes)

    @property
    def is_judged(self) -> bool:
        """Whether there is a verdict to tell; the script as it was has one only if it failed."""
        return self.role != "before" or self.result.verdict is Verdict.FAILED

    @property
    def verdict(self) -> str:
        """The verdict in words, empty where there is none to tell."""
        return self.result.verdict.value if self.is_judged else ""

    @property
    def ratio(self) -> Interval | None:
        """The speed-up, where enough pairs of runs were made to speak of one."""
        judgement = self.result.judgement
        if self.role == "before" or judgement is None or judgement.speed is Speed.OPEN:
            return None
        return judgement.interval

    @property
    def times(self) -> tuple[float, float] | None:
        """The step times of its own pairs, before and after; their ratio is the speed-up."""
        judgement = self.result.judgement
        return typical(judgement.samples) if self.ratio and judgement else None

    @property
    def words(self) -> tuple[str, ...]:
        """What the table does not say: why a verdict was given, and how results changed."""
        result = self.result
        if not self.is_judged:
            return ()
        if result.verdict is not Verdict.FASTER:
            return (_without(result.why, self.verdict),)
        if self.role != "single":
            return ()
        why = () if result.keep else (result.why,)  # which says why it is left out
        if result.agreement is None or result.agreement.same is Same.BITWISE:
            return why
        return (*why, result.agreement.why)


def _without(why: str, verdict: str) -> str:
    """Return a reason without the verdict at its start, which stands beside it already."""
    rest = why.removeprefix(verdict)
    return rest[1:].lstrip() if rest != why and rest[:1] in (":", ";") else why


def rows(report: Report) -> list[Row]:
    """Return what was run: the script before, each fix, all together, groups, the kept ones."""
    told: list[tuple[Role, Result | None]] = [
        ("before", report.before),
        *(("single", single) for single in report.singles),
        ("together", report.together),
        *(("group", group) for group in report.groups),
        ("kept", report.kept_result),
    ]
    return [
        Row(
            role,
            *_titles(role, result),
            result,
            figures(result, report.bounds),
            result.keep or (role != "single" and _is_kept(result, report)),
        )
        for role, result in told
        if result is not None
    ]


def _is_kept(result: Result, report: Report) -> bool:
    codes = result.configuration.codes
    return bool(codes) and frozenset(codes) == frozenset(report.kept)


def _titles(role: Role, result: Result) -> tuple[str, str]:
    codes = result.configuration.codes
    if role == "single":
        code = codes[0] if codes else result.configuration.name
        return code, rule_name(code)
    if role == "group":
        if len(codes) <= FEWER:
            return "+".join(codes), ""
        return f"{codes[0]}+{len(codes) - 1} more", ", ".join(codes[1:])
    number = "+".join(codes) if len(codes) <= FEW else f"{len(codes)} together"
    return {"before": ("before", ""), "together": ("all", number), "kept": ("kept", number)}[role]


@dataclass(frozen=True, slots=True)
class Note:
    """What is told below the table of one configuration, or of several that share a reason.

    ``tail`` are the script's own last words, where no note before has the same.
    """

    name: str
    verdict: Verdict
    sentences: tuple[str, ...]
    tail: tuple[str, ...]


def notes(told: Sequence[Row], report: Report) -> list[Note]:
    """Return what the table does not say, each reason once; what was not measured comes last."""
    shared: dict[tuple[Verdict, tuple[str, ...]], list[Row]] = {}
    for row in told:
        if row.words:
            shared.setdefault((row.result.verdict, row.words), []).append(row)
    found: list[Note] = []
    for (verdict, words), same in shared.items():
        tail = tuple(stderr_tail(same[0].result))
        is_new = all(tail != note.tail for note in found)  # all together often fail as one does
        if verdict is not Verdict.NOT_MEASURED:
            found.append(Note(_names(same), verdict, words, tail if is_new else ()))
    reasons = {
        words[0]: same
        for (verdict, words), same in shared.items()
        if verdict is Verdict.NOT_MEASURED
    }
    return [*found, *_unmeasured(reasons, report)]


def _unmeasured(reasons: dict[str, list[Row]], report: Report) -> Iterator[Note]:
    """Yield the one note on all that was not measured: each reason with the fixes that have it."""
    everything = [row for same in reasons.values() for row in same]
    sentences = [
        why if len(reasons) == 1 else f"{', '.join(map(_short, same))}: {why}"
        for why, same in reasons.items()
    ]
    remedies = (each.remedy for each in report.cautions if each.kind == "time-over")
    if everything:
        name = _names(everything) if len(everything) <= MANY else f"{len(everything)} of them"
        yield Note(name, Verdict.NOT_MEASURED, (*sentences, *remedies), ())


def _names(told: Sequence[Row]) -> str:
    """Return the name of one row, or the short ones of several."""
    return told[0].name if len(told) == 1 else ", ".join(map(_short, told))


def _short(row: Row) -> str:
    return row.title if row.role in ("single", "group") else row.name


def unfit_words(report: Report) -> list[str]:
    """Return which fixes were not run because they cannot act on this machine: a line a reason."""
    reasons: dict[str, list[str]] = {}
    for code, why in report.unfit:
        reasons.setdefault(why, []).append(code)
    return [
        f"Not run here, since {_of_several(why) if len(codes) > 1 else why}: {', '.join(codes)}"
        for why, codes in reasons.items()
    ]


def _of_several(why: str) -> str:
    start = "it acts "
    return f"they act {why.removeprefix(start)}" if why.startswith(start) else why


def keep_words(told: Sequence[Row], report: Report) -> str:
    """Return what to keep, by name; nothing where nothing is."""
    faster = [row for row in told if row.result.verdict is Verdict.FASTER]
    proved = frozenset[str]().union(*(row.codes for row in faster))
    if not report.kept or proved.isdisjoint(report.kept):
        return f"{listing(report.kept)}: no gain measured here, and no loss" if report.kept else ""
    needs_all = len(report.kept) > 1 and all(row.role != "single" for row in faster)
    return listing(report.kept) + (" together" if needs_all else "")


def cautions(report: Report) -> list[Caution]:
    """Return the cautions but for those that every format tells in another place."""
    return [each for each in report.cautions if each.kind not in TOLD]


def stderr_tail(result: Result, most: int = 6) -> list[str]:
    """Return the script's own last lines on stderr, of the last run that did not end well."""
    failed = [run for run in result.runs if run.stderr.strip() and run.ending not in USEFUL]
    return failed[-1].stderr.rstrip().splitlines()[-most:] if failed else []
