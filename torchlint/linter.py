"""One file: check it, and apply fixes until none is left.

A pass takes the fixes that do not touch each other, in the documented order, changes the text,
and checks it again.  A fix that breaks the file, loses a comment or does not settle its finding
is a bug of its rule: it is taken back, named in a note, and the others are kept.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from torchlint.checking import (
    Checked,
    Options,
    check_source,
    examine,
    with_deep_stack,
)
from torchlint.errors import InternalError, UnreadableFileError
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

    Fixes that undo each other leave the text as it was, with a note.

    Raises:
        UnreadableFileError: the file nests too deeply, or takes too long.

    """
    checked = examine(source, options)
    if not any(_is_wanted(item, options, safety) for item in checked.diagnostics):
        return Fixed(source.text, (), checked.diagnostics, (), checked.errors)
    return with_deep_stack(lambda: _Loop(source, options, safety, checked).run())


@dataclass(slots=True)
class _Loop:
    """The state of the fix loop of one file."""

    original: Source
    options: Options
    safety: Safety
    first: Checked
    applied: list[Diagnostic] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: set[tuple[str, ...]] = field(default_factory=set)

    def run(self) -> Fixed:
        """Make passes until one finds nothing to do."""
        source, checked = self.original, self.first
        seen = {source.text: 0}  # and how many fixes had been applied then
        for _ in range(MAX_PASSES):
            batch = self._batch(source, checked)
            if not batch:
                return Fixed(
                    source.text,
                    tuple(self.applied),
                    checked.diagnostics,
                    tuple(self.notes),
                    checked.errors,
                )
            before = source
            source, checked = self._pass(source, checked, batch)
            if source is not before and source.text in seen:
                return self._give_up(self.applied[seen[source.text] :], "undo each other")
            seen.setdefault(source.text, len(self.applied))
        return self._give_up(self.applied, f"find no end in {MAX_PASSES} passes")

    def _give_up(self, culprits: Iterable[Diagnostic], why: str) -> Fixed:
        codes = " and ".join(sorted({item.code for item in culprits}))
        note = (
            f"{self.original.filename}: the fixes of {codes} {why}; the file was left as it was, "
            "this is a bug of torchlint, please report it with the file"
        )
        first = self.first
        return Fixed(self.original.text, (), first.diagnostics, (*self.notes, note), first.errors)

    def _batch(self, source: Source, checked: Checked) -> list[Diagnostic]:
        """Return the findings whose fixes can be applied together, in the documented order.

        Where a fix has to wait for one of an earlier group, its whole group does, and those after:
        a later fix could take its reason away.
        """
        groups = {rule.code: rule.group for rule in self.options.rules}
        wanted = [
            item
            for item in checked.diagnostics
            if _is_wanted(item, self.options, self.safety)
            and _signature(source, item) not in self.refused
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

    def _pass(
        self, source: Source, checked: Checked, batch: list[Diagnostic]
    ) -> tuple[Source, Checked]:
        """Apply a batch; of one that goes wrong, halves are tried until the culprit is found."""
        while True:
            changed, result, problem = self._attempt(source, checked, batch)
            if result is not None and not problem:
                self.applied += batch
                return changed, result
            if len(batch) == 1:
                self.refused.add(_signature(source, batch[0]))
                self.notes.append(self._blame(batch[0], problem))
                return source, checked
            batch = batch[: len(batch) // 2]

    def _attempt(
        self, source: Source, checked: Checked, batch: Sequence[Diagnostic]
    ) -> tuple[Source, Checked | None, str]:
        """Return the changed source, what is found in it, and what is wrong with it."""
        edits = list(dict.fromkeys(edit for item in batch for edit in _edits(item)))
        text = apply(source.text, edits)
        if text == source.text:
            return source, None, "changes nothing"
        changed = Source(source.filename, source.path, source.data, text, source.encoding)
        try:
            changed.encode(text)
            result = examine(changed, self.options)
        except UnreadableFileError as error:
            return source, None, f"leaves a file that {error.problem}"
        problem = (
            _broken(source, changed, result)
            or _lost_comment(source.text, text, batch)
            or _failing(checked, result)
            or _unsettled(checked, result, batch, edits)
        )
        return changed, result, problem

    def _blame(self, item: Diagnostic, problem: str) -> str:
        where = f"{self.original.filename}:{item.location.row}"
        return (
            f"{where}: the fix of {item.code} ({item.name}) {problem}, so it was not applied; "
            "this is a bug of the rule, please report it with the file"
        )


def _is_wanted(item: Diagnostic, options: Options, safety: Safety) -> bool:
    return (
        item.fix is not None
        and bool(item.fix.edits)
        and item.fix.safety <= safety
        and rule_code(item.code) in options.fixable
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
