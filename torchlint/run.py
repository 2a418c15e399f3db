"""One run over many files: each is read, checked, perhaps fixed; what goes wrong stays its own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.errors import TorchlintError
from torchlint.registry import SYNTAX_ERROR, UNUSED_SUPPRESSION, all_rules, may_be_relevant
from torchlint.syntax.validity import looks_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torchlint.config import Settings
    from torchlint.edits.fix import Safety
    from torchlint.errors import InternalError
    from torchlint.linter import Options
    from torchlint.projects import Projects
    from torchlint.rule import Diagnostic, Rule
    from torchlint.source import Source
    from torchlint.target import Target

# A comment cannot accept these: the file has to be parsed, and an unused comment goes.
UNSUPPRESSED = frozenset((SYNTAX_ERROR.code, UNUSED_SUPPRESSION.code))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done to every file.

    ``fix`` is the class of fixes to apply (None: none), ``write`` whether files are changed.
    """

    fix: Safety | None
    write: bool
    working: Path
    settings_of: Callable[[Path], Settings]
    target_of: Callable[[Path, Settings], Target]
    projects: Callable[[], Projects]


@dataclass(frozen=True, slots=True)
class Checked:
    """A file after the run: ``text`` is what ``findings`` point into."""

    source: Source
    settings: Settings
    text: str
    findings: tuple[Diagnostic, ...]
    applied: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether a finding is at or above the severity that the settings fail on."""
        return any(f.severity >= self.settings.fail_on for f in self.findings)


@dataclass(slots=True)
class Outcome:
    """What a run found: the files with something to say, and what kept others from it.

    Files with neither findings nor fixes are only counted, so that memory does not grow with them.
    """

    complain: Callable[[str], None]
    files: list[Checked] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    checked: int = 0

    def trouble(self, problem: str) -> None:
        """Remember what kept a file from being checked or written, and say it at once."""
        self.problems.append(problem)
        self.complain(problem)


def new_projects() -> Projects:
    """Return the projects of a run: what the check of one file reads of others is kept."""
    from torchlint.config import DEFAULT_EXCLUDE  # noqa: PLC0415  not needed to list files
    from torchlint.projects import Projects  # noqa: PLC0415  see above

    return Projects(lambda folder: folder.name in DEFAULT_EXCLUDE)


def check_files(
    files: Iterable[tuple[Path, str]], plan: Plan, outcome: Outcome, tick: Callable[[int], None]
) -> None:
    """Check files, given with the names they are shown by; no file stops the others.

    Those that imports connect are checked together, and a fix of one is known to the others.
    """
    from torchlint.source import read_source  # noqa: PLC0415  not needed to list files

    order: dict[Path, int] = {}
    waiting: dict[str, Source] = {}
    for path, filename in files:
        order[path] = len(order)
        with trouble(filename, outcome):
            source = read_source(path, filename)
            if may_be_relevant(source.text) or not looks_valid(source.text):
                waiting[str(path)] = source
                continue
        outcome.checked += 1
        tick(outcome.checked)
    while waiting:
        name = next(iter(waiting))
        near = {name, *plan.projects().imports(Path(name)).connected(name)}
        check_group([waiting.pop(one) for one in sorted(near & waiting.keys())], plan, outcome)
        tick(outcome.checked)
    outcome.files.sort(key=lambda file: order[file.source.path] if file.source.path else 0)


def check_group(sources: Sequence[Source], plan: Plan, outcome: Outcome) -> None:
    """Check files together, and add what comes of it to the outcome."""
    jobs: list[tuple[Source, Settings, Options]] = []
    for source in sources:
        outcome.checked += 1
        with trouble(source.filename, outcome):
            settings = plan.settings_of(source.path.parent if source.path else plan.working)
            jobs.append((source, settings, _options(source, settings, plan)))
    plan.projects().trim()
    for result in _fixed(jobs, plan, outcome) if plan.fix is not None else _found(jobs, outcome):
        if result.findings or result.applied or result.notes:
            outcome.files.append(result)


@contextlib.contextmanager
def trouble(filename: str, outcome: Outcome) -> Iterator[None]:
    """Report what goes wrong: a bug met in one file must not hide what is found in others."""
    try:
        yield
    except TorchlintError as error:
        outcome.trouble(str(error))
    except Exception as error:  # noqa: BLE001 - see above
        outcome.trouble(internal_error(filename, error))


def _found(jobs: Iterable[tuple[Source, Settings, Options]], outcome: Outcome) -> Iterator[Checked]:
    from torchlint.linter import examine  # noqa: PLC0415  not needed where no file has torch

    for source, settings, options in jobs:
        with trouble(source.filename, outcome):
            checked = examine(source, options)
            _tell(checked.errors, outcome)
            found = tuple(_shown(checked.diagnostics, settings, source.path))
            yield Checked(source, settings, source.text, found)


def _fixed(
    jobs: Sequence[tuple[Source, Settings, Options]], plan: Plan, outcome: Outcome
) -> Iterator[Checked]:
    """Fix files; one that cannot be written keeps its findings."""
    from torchlint.linter import fix_sources  # noqa: PLC0415  not needed where no file has torch

    if plan.fix is None:
        return
    unwritten: list[tuple[Source, Settings, Options]] = []
    results = fix_sources([(source, options) for source, _, options in jobs], plan.fix)
    for job, fixed in zip(jobs, results, strict=True):
        source, settings, _ = job
        if isinstance(fixed, Exception):
            outcome.trouble(str(fixed))
            continue
        changes = plan.write and fixed.text != source.text
        if changes and not _write(source, fixed.text, outcome):
            unwritten.append(job)
            continue
        _tell(fixed.errors, outcome)
        found = tuple(_shown(fixed.remaining, settings, source.path))
        yield Checked(source, settings, fixed.text, found, fixed.applied, fixed.notes)
    yield from _found(unwritten, outcome)


def internal_error(where: str, error: BaseException) -> str:
    """Describe an error that is torchlint's own: its kind, its place, and what to do."""
    from torchlint import __version__  # noqa: PLC0415  only on the way to an error

    trace, at = error.__traceback__, ""
    while trace:
        at = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return (
        f"{where}: internal error of torchlint {__version__}: {type(error).__name__}: {error} "
        f"({at}); the file was left as it was; please report this with the file"
    )


def _options(source: Source, settings: Settings, plan: Plan) -> Options:
    """Return what to look for in a file."""
    from torchlint.linter import Options  # noqa: PLC0415  not needed where no file has torch

    rules = _wanted(settings, source.path if settings.per_file_ignores else None)
    target = plan.target_of(source.path.parent if source.path else plan.working, settings)
    return Options(
        rules,
        frozenset(rule.code for rule in rules),
        target.version,
        floor=target.floor,
        every_version=target.every,
        tests=settings.check_tests,
        trusting=True,
        preferences=settings.preferences,
        projects=plan.projects(),
        may_fix=lambda code: settings.may_fix(code) and settings.reports(code, source.path),
    )


@lru_cache(8)  # most files have the settings of the file before
def _wanted(settings: Settings, path: Path | None) -> tuple[Rule, ...]:
    """Return the rules that a file is checked by."""
    return settings.rules(all_rules(), path)


def _tell(errors: Iterable[InternalError], outcome: Outcome) -> None:
    """Report rules that failed on a file; what the others found still counts."""
    for error in errors:
        outcome.trouble(str(error))


def _shown(
    findings: Iterable[Diagnostic], settings: Settings, path: Path | None
) -> Iterator[Diagnostic]:
    """Yield the findings that are wanted, without the fixes that may not be applied.

    A file that cannot be parsed is never passed over.
    """
    for finding in findings:
        if finding.code == SYNTAX_ERROR.code or settings.reports(finding.code, path):
            forbidden = finding.fix and not settings.may_fix(finding.code)
            yield replace(finding, fix=None) if forbidden else finding


def _write(source: Source, text: str, outcome: Outcome) -> bool:
    from torchlint.writing import write_atomically  # noqa: PLC0415

    try:
        write_atomically(source, source.encode(text))
    except TorchlintError as error:
        outcome.trouble(str(error))
        return False
    return True


def add_ignores(outcome: Outcome, reason: str, plan: Plan) -> int:
    """Write a comment that suppresses each finding; return how many findings have one now."""
    from torchlint.suppress import add_ignore  # noqa: PLC0415

    written = 0
    for file in outcome.files:
        findings = [each for each in file.findings if each.code not in UNSUPPRESSED]
        if not findings:
            continue
        text = add_ignore(file.source, findings, reason)
        if _still_shows(file, text, {each.code for each in findings}, plan):
            name = file.source.filename
            outcome.trouble(f"{name}: a comment does not fit on these lines; write them by hand")
        elif _write(file.source, text, outcome):
            written += len(findings)
    return written


def _still_shows(file: Checked, text: str, codes: set[str], plan: Plan) -> bool:
    """Whether the text with comments is broken, or does not suppress what it should."""
    from torchlint.source import decode_source  # noqa: PLC0415

    source = file.source
    changed = decode_source(source.encode(text), source.filename, source.path)
    quiet = Outcome(complain=lambda _: None)
    check_group([changed], plan, quiet)
    known = {f.message for f in file.findings if f.code == SYNTAX_ERROR.code}  # yet was checked
    return any(
        f.code in codes or (f.code == SYNTAX_ERROR.code and f.message not in known)
        for again in quiet.files
        for f in again.findings
    )
