"""Files that have to do with each other: check them, and apply fixes until none is left.

A pass takes the fixes that do not touch each other, in the documented order, changes the texts,
and checks them again.  A fix that breaks the file, loses a comment or does not settle its finding
is a bug of its rule: it is taken back, named in a note, and the others are kept.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from torchlint.checking import Checked, Options, announce, check_source, examine
from torchlint.deep import with_deep_stack
from torchlint.errors import InternalError, TorchlintError, UnreadableFileError
from torchlint.registry import SYNTAX_ERROR, UNUSED_SUPPRESSION
from torchlint.rule import rule_code
from torchlint.source import Source
from torchlint.syntax.lexer import comments
from torchlint.syntax.text import Span, apply, overlap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchlint.edits.fix import Safety
    from torchlint.rule import Diagnostic
    from torchlint.syntax.text import Edit

__all__ = [
    "Checked",
    "Fixed",
    "Options",
    "check_source",
    "examine",
    "fix_source",
    "fix_sources",
    "with_deep_stack",
]

MAX_PASSES = 50


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of a file: its text, the findings that were fixed, and those that are left.

    ``notes`` tell of fixes that had to be taken back, ``errors`` of rules that failed.
    """

    text: str
    applied: tuple[Diagnostic, ...]
    remaining: tuple[Diagnostic, ...]
    notes: tuple[str, ...] = ()
    errors: tuple[InternalError, ...] = ()


def fix_source(source: Source, options: Options, safety: Safety) -> Fixed:
    """Apply the fixes that are wanted and at most as unsafe as said, until nothing changes.

    Fixes that find no end leave the text as it was, with a note.

    Raises:
        UnreadableFileError: the file nests too deeply, or takes too long.

    """
    (fixed,) = fix_sources([(source, options)], safety)
    if isinstance(fixed, Exception):
        raise fixed
    return fixed


def fix_sources(
    files: Sequence[tuple[Source, Options]], safety: Safety
) -> list[Fixed | TorchlintError]:
    """Apply the fixes of files that have to do with each other, a pass in all of them at a time.

    What a fix of one of them makes true of another is settled as well.  A file that cannot be
    checked gives an error and keeps no other from being fixed.
    """
    loops = [_Loop(source, options, safety) for source, options in files]
    for loop, checked in zip(loops, _examine_all(loops), strict=True):
        loop.begin(checked)
    if any(loop.batch() for loop in loops):
        with_deep_stack(lambda: _settle(loops))
    return [loop.result() for loop in loops]


def _settle(loops: Sequence[_Loop]) -> None:
    """Make passes until one finds nothing to do."""
    for _ in range(MAX_PASSES):
        at_work = [loop for loop in loops if loop.prepare()]
        if not at_work:
            return
        while at_work:  # of what goes wrong, halves are tried until the culprit is found
            results = _examine_all(loops)
            at_work = [
                loop for loop, checked in zip(loops, results, strict=True) if loop.judge(checked)
            ]
    for loop in loops:
        if loop.batch():
            loop.give_up()


def _examine_all(loops: Sequence[_Loop]) -> list[Checked | TorchlintError]:
    """Check files with the texts that they have now, each with those of the others."""
    for loop in loops:
        announce(loop.source, loop.options)
    return [_examined(loop) for loop in loops]


def _examined(loop: _Loop) -> Checked | TorchlintError:
    try:
        return examine(loop.source, loop.options)
    except TorchlintError as error:
        return error


@dataclass(slots=True)
class _Loop:
    """The state of the fix loop of one file.

    ``source`` is its text now, which is that of a pass on trial while ``trial`` holds its fixes;
    ``settled`` and ``checked`` are the text before and what was found in it.
    """

    original: Source
    options: Options
    safety: Safety
    applied: list[Diagnostic] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: set[tuple[str, ...]] = field(default_factory=set)
    trial: list[Diagnostic] = field(default_factory=list)
    given_up: bool = False
    failure: TorchlintError | None = None
    source: Source = field(init=False)
    settled: Source = field(init=False)
    checked: Checked = field(init=False)
    first: Checked = field(init=False)

    def __post_init__(self) -> None:
        self.source = self.settled = self.original
        self.first = self.checked = Checked(())

    def begin(self, checked: Checked | TorchlintError) -> None:
        """Take what is found in the file as it stands."""
        if isinstance(checked, TorchlintError):
            self.failure = checked
        else:
            self.first = self.checked = checked

    def result(self) -> Fixed | TorchlintError:
        """Return what became of the file."""
        if self.failure is not None:
            return self.failure
        return Fixed(
            self.settled.text,
            tuple(self.applied),
            self.checked.diagnostics,
            tuple(self.notes),
            self.checked.errors,
        )

    def prepare(self) -> bool:
        """Put the next batch on trial; return whether there is one."""
        self.trial = self.batch()
        return bool(self.trial) and self._try()

    def _try(self) -> bool:
        """Change the text by what is on trial, or refuse what would break it at once."""
        while self.trial:
            text = apply(self.settled.text, _all_edits(self.trial))
            problem = "changes nothing" if text == self.settled.text else ""
            old = self.settled
            self.source = Source(old.filename, old.path, old.data, text, old.encoding)
            if not problem:
                try:
                    self.source.encode(text)
                except UnreadableFileError as error:
                    problem = f"leaves a file that {error.problem}"
            if not problem:
                return True
            self._reject(problem)
        return False

    def _reject(self, problem: str) -> None:
        """Go on with the first half of what went wrong, or refuse the fix that did."""
        self.source = self.settled
        if len(self.trial) == 1:
            self.refused.add(_signature(self.settled, self.trial[0]))
            self.notes.append(self._blame(self.trial[0], problem))
            self.trial = self.batch()
        else:
            self.trial = self.trial[: len(self.trial) // 2]

    def judge(self, checked: Checked | TorchlintError) -> bool:
        """Accept a pass or change what is tried; return whether something is tried again."""
        if not self.trial:
            if isinstance(checked, TorchlintError):  # what others became is too much for it
                self.failure = self.failure or checked
            else:
                self.checked = checked
            return False
        problem = self._problem(checked)
        if problem or isinstance(checked, TorchlintError):
            self._reject(problem)
            return self._try()
        self.applied += self.trial
        self.trial = []
        self.settled, self.checked = self.source, checked
        return False

    def _problem(self, checked: Checked | TorchlintError) -> str:
        """Return what is wrong with the changed text."""
        if isinstance(checked, UnreadableFileError):
            return f"leaves a file that {checked.problem}"
        if isinstance(checked, TorchlintError):
            return f"leaves a file that cannot be checked ({checked})"
        return (
            _broken(self.settled, self.source, checked)
            or _lost_comment(self.settled.text, self.source.text, self.trial)
            or _failing(self.checked, checked)
            or _unsettled(self.checked, checked, self.trial, _all_edits(self.trial))
        )

    def give_up(self) -> None:
        """Leave the file as it was: fixes may undo each other."""
        codes = " and ".join(sorted({item.code for item in self.applied}))
        self.notes.append(
            f"{self.original.filename}: the fixes of {codes} find no end in {MAX_PASSES} passes; "
            "the file was left as it was, this is a bug of torchlint, please report it with it"
        )
        self.source = self.settled = self.original
        self.checked = self.first
        self.applied, self.given_up = [], True

    def batch(self) -> list[Diagnostic]:
        """Return the findings whose fixes can be applied together, in the documented order.

        Where a fix has to wait for one of an earlier group, its whole group does, and those after:
        a later fix could take its reason away.
        """
        if self.given_up or self.failure is not None:
            return []
        groups = {rule.code: rule.group for rule in self.options.rules}
        wanted = [
            item
            for item in self.checked.diagnostics
            if _is_wanted(item, self.options, self.safety)
            and _signature(self.settled, item) not in self.refused
        ]
        wanted.sort(key=lambda item: (groups.get(rule_code(item.code), 0), item.code, item.span))
        batch: list[Diagnostic] = []
        taken: list[Edit] = []
        for _, group in groupby(wanted, key=lambda item: groups.get(rule_code(item.code), 0)):
            items = list(group)
            if any(overlap(_edits(item), taken) for item in items):
                break
            shared: set[tuple[Edit, ...]] = set()  # one fix may settle several findings
            for item in items:
                edits = _edits(item)
                if edits in shared:
                    batch.append(item)
                elif not overlap(edits, taken):
                    batch.append(item)
                    shared.add(edits)
                    taken += edits
        return batch

    def _blame(self, item: Diagnostic, problem: str) -> str:
        where = f"{self.original.filename}:{item.location.row}"
        return (
            f"{where}: the fix of {item.code} ({item.name}) {problem}, so it was not applied; "
            "this is a bug of the rule, please report it with the file"
        )


def _all_edits(batch: Iterable[Diagnostic]) -> list[Edit]:
    return list(dict.fromkeys(edit for item in batch for edit in _edits(item)))


def _is_wanted(item: Diagnostic, options: Options, safety: Safety) -> bool:
    return (
        item.fix is not None
        and bool(item.fix.edits)
        and item.fix.safety <= safety
        and rule_code(item.code) in options.fixable
        and options.may_fix(item.code)
    )


def _edits(item: Diagnostic) -> tuple[Edit, ...]:
    return item.fix.edits if item.fix else ()


def _signature(source: Source, item: Diagnostic) -> tuple[str, ...]:
    """Return what identifies a fix when places have shifted: the rule, the old and the new code."""
    edits = _edits(item)
    code = source.text[item.span.start : item.span.end]
    old = (source.text[edit.start : edit.end] for edit in edits)
    return (item.code, item.message, code, *old, *(edit.content for edit in edits))


def _broken(before: Source, after: Source, result: Checked) -> str:
    if any(item.code == SYNTAX_ERROR.code for item in result.diagnostics):
        return "leaves a file that cannot be parsed"
    if (error := _compile_error(after)) and not _compile_error(before):
        return f"leaves a file that cannot be compiled ({error})"
    return ""


def _compile_error(source: Source) -> str:
    """Return what this Python says of the file; newer or older syntax is for libcst to judge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source.text, source.filename, "exec", dont_inherit=True)
        except SyntaxError as error:
            return error.msg
        except (ValueError, RecursionError, MemoryError):
            return ""
    return ""


def _lost_comment(before: str, after: str, batch: Iterable[Diagnostic]) -> str:
    """Return which comment is gone, other than those that are removed on purpose."""
    removed = [
        edit for item in batch if item.code == UNUSED_SUPPRESSION.code for edit in _edits(item)
    ]
    kept = Counter(
        comment.text.rstrip()
        for comment in comments(before)
        if not any(
            edit.start < comment.start + len(comment.text) and comment.start < edit.end
            for edit in removed
        )
    )
    lost = kept - Counter(comment.text.rstrip() for comment in comments(after))
    return f"loses the comment `{next(iter(lost))}`" if lost else ""


def _failing(before: Checked, after: Checked) -> str:
    known = {error.rule for error in before.errors}
    failing = [error for error in after.errors if error.rule not in known]
    return f"makes {failing[0].rule or 'torchlint'} fail ({failing[0].note})" if failing else ""


def _unsettled(
    before: Checked, after: Checked, batch: Sequence[Diagnostic], edits: Sequence[Edit]
) -> str:
    """Return whether a finding is still there after its fix.

    Fixed findings must be missing from the count of their code; where they are not, one that
    stands where the fixed one stood is the same.
    """
    fixed = Counter(item.code for item in batch)
    left = Counter(item.code for item in after.diagnostics)
    had = Counter(item.code for item in before.diagnostics)
    for item in batch:
        if left[item.code] <= had[item.code] - fixed[item.code]:
            continue
        place = _moved(item.span, edits)
        if any(
            other.code == item.code and place.start <= other.span.start <= place.end
            for other in after.diagnostics
        ):
            return "does not settle the finding"
    return ""


def _moved(span: Span, edits: Sequence[Edit]) -> Span:
    """Return where the text of a span is now, widened to the edits that begin or end inside."""
    start = end = shift = 0
    for edit in sorted(edits):
        if edit.end <= span.start:
            start = shift = shift + len(edit.content) - (edit.end - edit.start)
        elif edit.start < span.start:
            start = shift + edit.start - span.start
        if edit.start <= span.end:
            end += len(edit.content) - (edit.end - edit.start)
            end += max(0, edit.end - span.end)
    return Span(span.start + start, span.end + end)
