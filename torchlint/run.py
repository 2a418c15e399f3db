"""One run over many files: each is read, checked, perhaps fixed; what goes wrong stays its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from torchlint.errors import TorchlintError
from torchlint.registry import SYNTAX_ERROR, UNUSED_SUPPRESSION, all_rules, may_be_relevant
from torchlint.rule import rule_code
from torchlint.syntax.validity import looks_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from torchlint.config import Settings
    from torchlint.edits.fix import Safety
    from torchlint.errors import InternalError
    from torchlint.linter import Fixed, Options
    from torchlint.projects import Projects
    from torchlint.rule import Diagnostic, Rule
    from torchlint.source import Source
    from torchlint.target import Target

ROUNDS = 5  # in which files are checked again that others have to do with
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
    """Check files, given with the names they are shown by; no file stops the others."""
    from torchlint.source import read_source  # noqa: PLC0415  not needed to list files

    seen: dict[Path, str] = {}
    for path, filename in files:
        tick(outcome.checked)
        check_one(partial(read_source, path, filename), filename, plan, outcome)
        seen[path] = filename
    if plan.fix is not None and plan.write:
        _settle(seen, plan, outcome)


def _settle(files: Mapping[Path, str], plan: Plan, outcome: Outcome) -> None:
    """Check files again that were checked before a file was fixed which says more of them now."""
    checked = {path: place for place, path in enumerate(files)}
    results = {file.source.path: file for file in outcome.files if file.source.path}
    fixed = {path: checked[path] for path, file in results.items() if file.applied}
    clock = len(files)
    for _ in range(ROUNDS):
        roots = {plan.projects().root(path) for path in fixed}
        near = (path for path in files if fixed and plan.projects().root(path) in roots)
        again = [path for path in near if _is_outdated(path, checked, fixed, plan.projects())]
        for path in again:
            clock += 1
            checked[path] = clock
            if _check_again(path, files[path], plan, outcome, results):
                fixed[path] = clock
    outcome.files = [results[path] for path in files if path in results]


def _is_outdated(
    path: Path, checked: Mapping[Path, int], fixed: Mapping[Path, int], projects: Projects
) -> bool:
    """Whether a file that has to do with this one was fixed after this one was checked."""
    later = {str(one) for one, when in fixed.items() if when > checked[path]}
    return bool(later) and not later.isdisjoint(projects.imports(path).related(str(path)))


def _check_again(
    path: Path, filename: str, plan: Plan, outcome: Outcome, results: dict[Path, Checked]
) -> bool:
    """Check a file once more and put together what was done; return whether more was fixed."""
    from torchlint.source import read_source  # noqa: PLC0415  not needed to list files

    fresh = Outcome(outcome.complain)
    check_one(partial(read_source, path, filename), filename, plan, fresh)
    outcome.problems += fresh.problems
    before = results.pop(path, None)
    for file in fresh.files:
        results[path] = replace(file, applied=(*(before.applied if before else ()), *file.applied))
    if not fresh.files and before is not None and before.applied:
        results[path] = replace(before, findings=(), notes=())
    return any(file.applied for file in fresh.files)


def check_one(read: Callable[[], Source], filename: str, plan: Plan, outcome: Outcome) -> None:
    """Check one file and add what comes of it to the outcome."""
    outcome.checked += 1
    try:
        source = read()
        result = _check(source, plan, outcome)
    except TorchlintError as error:
        outcome.trouble(str(error))
        return
    except Exception as error:  # noqa: BLE001  a bug met in one file must not hide the others
        outcome.trouble(internal_error(filename, error))
        return
    if result.findings or result.applied or result.notes:
        outcome.files.append(result)


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


def _check(source: Source, plan: Plan, outcome: Outcome) -> Checked:
    settings = plan.settings_of(source.path.parent if source.path else plan.working)
    if not may_be_relevant(source.text) and looks_valid(source.text):
        return Checked(source, settings, source.text, ())
    from torchlint.linter import Options, examine  # noqa: PLC0415  see above

    rules, fixable = _wanted(settings, source.path if settings.per_file_ignores else None)
    projects = plan.projects()
    projects.trim()
    target = plan.target_of(source.path.parent if source.path else plan.working, settings)
    options = Options(
        rules,
        fixable,
        target.version,
        floor=target.floor,
        every_version=target.every,
        trusting=True,
        preferences=settings.preferences,
        projects=projects,
    )
    if plan.fix is not None:
        fixed, notes = _fix(source, options, plan.fix, settings)
        changes = plan.write and fixed.text != source.text
        if not changes or _write(source, fixed.text, outcome):
            _tell(fixed.errors, outcome)
            found = tuple(_shown(fixed.remaining, settings, source.path))
            return Checked(source, settings, fixed.text, found, fixed.applied, fixed.notes + notes)
    checked = examine(source, options)
    _tell(checked.errors, outcome)
    found = tuple(_shown(checked.diagnostics, settings, source.path))
    return Checked(source, settings, source.text, found)


@lru_cache(8)  # most files have the settings of the file before
def _wanted(settings: Settings, path: Path | None) -> tuple[tuple[Rule, ...], frozenset[str]]:
    """Return the rules that a file is checked by, and the codes of those that may fix it."""
    rules = settings.rules(all_rules(), path)
    return rules, frozenset(rule.code for rule in rules if settings.may_fix_some(rule.code))


def _tell(errors: Iterable[InternalError], outcome: Outcome) -> None:
    """Report rules that failed on a file; what the others found still counts."""
    for error in errors:
        outcome.trouble(str(error))


def _fix(
    source: Source, options: Options, safety: Safety, settings: Settings
) -> tuple[Fixed, tuple[str, ...]]:
    """Fix a file, and say what was left because a sub-case of the same rule is not wanted.

    The fix loop knows rules, not their sub-cases: where it fixed one that is not wanted, it is
    asked again without that rule.
    """
    from torchlint.linter import fix_source  # noqa: PLC0415

    notes: tuple[str, ...] = ()
    while True:
        fixed = fix_source(source, options, safety)
        done = {item.code for item in fixed.applied}
        wrong = {c for c in done if not (settings.may_fix(c) and settings.reports(c, source.path))}
        if not wrong:
            return fixed, notes
        rules = {rule_code(code) for code in wrong}
        options = replace(options, fixable=options.fixable - rules)
        names = " and ".join(sorted(rules))
        notes += (f"{source.filename}: {names} not fixed: some of its sub-cases may not be",)


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
    again = _check(changed, plan, quiet)
    known = {f.message for f in file.findings if f.code == SYNTAX_ERROR.code}  # yet was checked
    return any(
        f.code in codes or (f.code == SYNTAX_ERROR.code and f.message not in known)
        for f in again.findings
    )
