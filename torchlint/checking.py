"""Checking one file: ask the rules that can fire, and drop what is suppressed."""

from __future__ import annotations

import contextlib
import gc
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint import registry, suppress
from torchlint.deep import with_deep_stack
from torchlint.errors import InternalError, UnreadableFileError
from torchlint.imports import is_test
from torchlint.preferences import DEFAULT, Preferences
from torchlint.rule import Diagnostic, Nearby, Severity
from torchlint.syntax.depth import TooDeepError
from torchlint.syntax.lean import import_libcst
from torchlint.syntax.lexer import takes_comment
from torchlint.syntax.text import Span
from torchlint.syntax.validity import is_for_python_2, looks_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import libcst as cst
    from packaging.version import Version

    from torchlint.edits.fix import ResolvedFix
    from torchlint.projects import Projects
    from torchlint.rule import Finding, Rule
    from torchlint.source import Source
    from torchlint.syntax.module import Module
    from torchlint.syntax.places import Places
    from torchlint.training.script import Script

TIME_LIMIT = 120.0  # seconds of CPU time for one file, looked at between the phases

ALONE = "script.py"  # the path of a text that belongs to no project
_TEMPLATE = re.compile(r"^\s*\{%.*%\}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Options:
    """What to look for: the selected rules, those whose fixes are wanted, the torch version.

    ``may_fix`` tells of a finding's code, which may be a sub-case's, whether its fix is wanted too.

    ``preferences`` is what fixes write where they have to choose.  ``projects`` gives the facts
    that other files hold; without it each file is looked at by itself.

    ``floor``: the project says that newer versions than the target do as well.

    ``every_version``: each version counts, also those on which the code no longer runs.

    ``tests``: what only costs time is reported in tests as well.

    ``trusting`` parses faster, by an import of libcst that holds for the whole process.
    """

    rules: tuple[Rule, ...]
    fixable: frozenset[str]
    target: Version | None = None
    floor: bool = False
    every_version: bool = False
    tests: bool = False
    trusting: bool = False
    preferences: Preferences = DEFAULT
    projects: Projects | None = None
    may_fix: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings of a file, sorted by place, and the rules that failed on it."""

    diagnostics: tuple[Diagnostic, ...]
    errors: tuple[InternalError, ...] = ()


def check_source(source: Source, options: Options) -> list[Diagnostic]:
    """Return the findings of a file, sorted by place.

    Raises:
        UnreadableFileError: it nests too deeply, or takes too long.
        InternalError: a rule failed; `examine` returns what the others found.

    """
    checked = examine(source, options)
    if checked.errors:
        raise checked.errors[0]
    return list(checked.diagnostics)


def announce(source: Source, options: Options) -> None:
    """Let a file have this text from now on, also for the checks of other files of its project."""
    if options.projects is not None and source.path is not None:
        options.projects.announce(source.path, source.text)


def examine(source: Source, options: Options) -> Checked:
    """Return the findings of a file and the errors of rules that failed on it.

    Raises:
        UnreadableFileError: it nests too deeply, or takes too long.

    """
    relevant = _is_relevant(source, options)
    known = _Words(source.text)
    paid = options.tests or source.path is None or not is_test(str(source.path), source.text)
    rules = [
        rule
        for rule in options.rules
        if relevant
        and (paid or rule.in_tests)
        and _may_fire(rule, known, nearby=lambda words: _is_nearby(source, options, words))
        and rule not in registry.ENGINE_RULES
    ]
    if not rules and looks_valid(source.text):
        return _finish(source, options, [], []) if relevant else Checked(())
    if not relevant and is_for_python_2(source.text):
        return Checked(())
    if options.trusting:
        import_libcst()
    return with_deep_stack(lambda: _examine(source, options, rules))


def _is_relevant(source: Source, options: Options) -> bool:
    """Whether a file has to do with PyTorch: a trainer may have all of it from another file."""
    if registry.is_relevant(source.text):
        return True
    return registry.TRAINS in source.text and _is_nearby(source, options, registry.TORCH)


class _Words(dict[str, bool]):
    """Whether words occur in a text: each is looked for once, however many rules ask."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __missing__(self, word: str) -> bool:
        found = self[word] = word in self._text
        return found


def _may_fire(rule: Rule, known: _Words, nearby: Callable[[Nearby], bool]) -> bool:
    """Whether the words without which the rule finds nothing occur in the text, or near it."""
    elsewhere: list[Nearby] = []
    for words in rule.words:
        for word in words:  # most rules end here in most files, after a word or two
            if known[word]:
                break
        else:
            if not isinstance(words, Nearby):
                return False
            elsewhere.append(words)
    return all(map(nearby, elsewhere))


def _is_nearby(source: Source, options: Options, words: Nearby) -> bool:
    """Whether one of some words occurs in a file that imports this one or that it imports."""
    if options.projects is None or source.path is None:
        return False
    return options.projects.imports(source.path).is_nearby(str(source.path), words)


def _examine(source: Source, options: Options, rules: list[Rule]) -> Checked:
    """Parse, ask the rules, and place what they find; with the cyclic collector paused.

    A collector that ran meanwhile would look at each node several times and find nothing.  The
    trees of a project are kept beyond this file: they are put where it does not look.
    """
    with _collector_paused():
        try:
            return _ask(source, options, rules)
        except (RecursionError, TooDeepError) as error:
            problem = str(error) if isinstance(error, TooDeepError) else "it nests too deeply"
            remedy = "split it over several statements, or exclude it"
            raise _unreadable(source, f"cannot be parsed: {problem}", remedy) from None
        finally:
            if options.projects is not None:
                gc.freeze()


def _ask(source: Source, options: Options, rules: list[Rule]) -> Checked:
    clock = _Clock(source)
    module = _parse(source, options)
    if isinstance(module, Diagnostic):
        return Checked((module,))
    script = _script(source, options, module)
    try:
        clock.look("parsing")
        errors: list[InternalError] = []
        found: list[tuple[Rule, Finding]] = []
        for rule in rules:
            try:
                found += [(rule, finding) for finding in registry.load(rule)(script)]
            except Exception as error:  # noqa: BLE001 - one rule's failure must not hide the rest
                errors.append(_rule_failed(source, rule, error))
            clock.look(rule.code)
        placed = _place(source, module, found, errors) if found else []
        clock.look("placing the findings")
        return _finish(source, options, placed, errors)
    finally:
        if options.projects is None or source.path is None:
            script.connected.release()
            module.release()


def _script(source: Source, options: Options, module: Module) -> Script:
    """Return a file as a training script, together with those that imports connect to it."""
    from torchlint.semantics.files import Files  # noqa: PLC0415 - imports libcst
    from torchlint.training.script import Connected, Settings  # noqa: PLC0415 - imports libcst

    settings = Settings(options.target, options.floor, options.every_version, options.preferences)
    if options.projects is None or source.path is None:
        return Connected(lambda: Files({ALONE: module})).script(ALONE, module, settings)
    return options.projects.of(source.path).script(str(source.path), module, settings)


def _finish(
    source: Source,
    options: Options,
    placed: list[suppress.Placed],
    errors: list[InternalError],
) -> Checked:
    """Apply the suppression comments and sort.

    Which of them are unused cannot be said where a rule failed.
    """
    selected: Collection[str] = {rule.code for rule in options.rules} if not errors else ()
    kept = suppress.suppress(source, placed, selected)
    kept.sort(key=lambda item: (item.span.start, item.span.end, item.code, item.message))
    return Checked(tuple(kept), tuple(errors))


def _parse(source: Source, options: Options) -> Module | Diagnostic:
    import libcst as cst  # noqa: PLC0415 - most files never need it

    from torchlint.syntax.module import Module  # noqa: PLC0415

    try:
        if options.projects is None or source.path is None:
            return Module(source.text)
        return options.projects.of(source.path).checked(source.path, source.text)
    except cst.ParserSyntaxError as error:
        return _syntax_error(source, error)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # libcst's parser is Rust, this is its crash
            raise
        raise _unreadable(source, "libcst's parser fails on it", "exclude it") from error


def _syntax_error(source: Source, error: cst.ParserSyntaxError) -> Diagnostic:
    """Report text that is not Python; Python's own parser words it better, if it agrees."""
    import ast  # noqa: PLC0415 - only on the way to this finding
    import warnings  # noqa: PLC0415

    row, column, said = error.raw_line, error.raw_column + 1, "libcst cannot parse this line"
    with (
        warnings.catch_warnings(),
        contextlib.suppress(ValueError, RecursionError, MemoryError, SyntaxError),
    ):
        warnings.simplefilter("ignore")
        try:
            ast.parse(source.text)
        except SyntaxError as better:
            row, column = better.lineno or row, better.offset or 1
            said = better.msg
    at = source.offset(row, column)
    start = source.location(at)
    template = "{{" in source.filename or _TEMPLATE.search(source.text) is not None
    what = "a template rather than Python" if template else "not valid Python"
    rule = registry.SYNTAX_ERROR
    return Diagnostic(
        source.filename,
        rule.code,
        rule.name,
        f"this is {what}, so the file was not checked: {said}",
        Severity.INFO if template else rule.severity,
        Span(at, at),
        start,
        start,
        start.row,
        help="Mend it, or leave the file out with `exclude`.",
    )


def _place(
    source: Source,
    module: Module,
    found: list[tuple[Rule, Finding]],
    errors: list[InternalError],
) -> list[suppress.Placed]:
    """Turn findings into diagnostics."""
    from torchlint.syntax.places import Places  # noqa: PLC0415 - imports libcst

    places = Places(module)
    placed: list[suppress.Placed] = []
    for rule, finding in found:
        try:
            item = _diagnostic(source, places, rule, finding)
            placed.append(_with_rows(source, item, places.lines(finding.node), bool(finding.more)))
            fix, reason = _resolve(places, finding)
        except Exception as error:  # noqa: BLE001 - see above: the finding stays, without its fix
            errors.append(_rule_failed(source, rule, error))
            continue
        advice = " ".join(filter(None, (finding.help, reason)))
        item = replace(placed[-1].diagnostic, fix=fix, help=advice)
        placed[-1] = replace(placed[-1], diagnostic=item)
    return placed


def _resolve(places: Places, finding: Finding) -> tuple[ResolvedFix | None, str]:
    """Return the fix as edits, or None and why the layout of the code does not allow it."""
    from torchlint.edits.resolve import resolve  # noqa: PLC0415 - imports libcst
    from torchlint.syntax.line_layout import Unplaceable  # noqa: PLC0415

    if finding.fix is None:
        return None, ""
    try:
        return resolve(finding.fix, places), ""
    except Unplaceable as reason:
        return None, f"It has no fix here because {reason}."


def _diagnostic(source: Source, places: Places, rule: Rule, finding: Finding) -> Diagnostic:
    spans = [places.span(node) for node in (finding.node, *finding.more)]
    span = Span(min(one.start for one in spans), max(one.end for one in spans))
    start = source.location(span.start)
    return Diagnostic(
        source.filename,
        rule.code + finding.case,
        rule.name,
        finding.message,
        finding.severity or rule.severity,
        span,
        start,
        source.location(span.end),
        start.row,
    )


def _with_rows(source: Source, item: Diagnostic, lines: Span, whole: bool) -> suppress.Placed:
    """Add the rows that a suppression comment may stand on, and the one to write it on."""
    first, last = source.location(lines.start).row, source.location(lines.end).row
    if not takes_comment(source.text, lines, item.span.start):
        item = replace(item, suppression_row=last)
    return suppress.Placed(item, first, last, whole)


def _rule_failed(source: Source, rule: Rule, error: Exception) -> InternalError:
    if isinstance(error, TooDeepError):  # the rule asked for layout that libcst cannot read
        raise error
    what = error.note if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
    failure = InternalError(what, rule=rule.code, filename=source.filename)
    failure.__cause__ = error
    return failure


def _unreadable(source: Source, problem: str, remedy: str) -> UnreadableFileError:
    return UnreadableFileError(Path(source.filename), problem, remedy)


class _Clock:
    """Ends the check of a file that takes too long; it cannot interrupt a phase."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._end = time.process_time() + TIME_LIMIT

    def look(self, phase: str) -> None:
        if time.process_time() > self._end:
            problem = f"took more than {TIME_LIMIT:.0f} seconds of CPU time (stopped after {phase})"
            raise _unreadable(self._source, problem, "split the file, or exclude it")


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
