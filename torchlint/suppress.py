"""Comments that suppress findings: reading them, finding the unused ones, writing new ones."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.edits.fix import ResolvedFix, Safety
from torchlint.registry import SYNTAX_ERROR, UNUSED_SUPPRESSION, all_rules
from torchlint.rule import Diagnostic
from torchlint.syntax.lexer import NEWLINE, comments
from torchlint.syntax.text import Edit, Span, apply

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from torchlint.source import Source
    from torchlint.syntax.lexer import Comment

_DIRECTIVE = re.compile(
    r"""
    \#\s*torchlint:\s*ignore(?P<file>-file)?\b(?:\[(?P<ours>[^\]]*)\])?(?!\[)(?P<reason>[^#]*)
  | \#\s*(?i:noqa)\b(?::\s*(?P<codes>[A-Za-z]+[0-9]*[a-z]?(?:[,\s]+[A-Z]+[0-9]+[a-z]?)*))?[^#]*
    """,
    re.VERBOSE,
)
_CODE = re.compile(r"[^,\s]+")
_COMMENT_LINE = re.compile(r"[ \t\f]*\#")


class Kind(enum.Enum):
    """What a comment suppresses: the statement's findings, the file's, or (noqa) the line's."""

    STATEMENT = enum.auto()
    FILE = enum.auto()
    NOQA = enum.auto()


@dataclass(frozen=True, slots=True)
class Code:
    """A code in a suppression comment, and where it stands."""

    text: str
    span: Span

    def covers(self, code: str) -> bool:
        """Whether a finding's code is this one, or one of its sub-cases or extensions."""
        return bool(self.text) and code.startswith(self.text)


@dataclass(frozen=True, slots=True)
class Directive:
    """One suppression comment; no codes at all stand for every code.

    ``span`` reaches from its ``#`` to the end of its reason.  ``below`` is the row of the first
    line of code below a comment that stands alone on its line, else 0.
    """

    kind: Kind
    codes: tuple[Code, ...]
    everything: bool
    span: Span
    comment: Comment
    row: int
    below: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding with the rows of its statement; of a compound statement, those of the header.

    ``whole``: it speaks of several places in the statement, so of the statement as well.
    """

    diagnostic: Diagnostic
    first: int
    last: int
    whole: bool = False


def suppress(
    source: Source, placed: Iterable[Placed], selected: Collection[str]
) -> list[Diagnostic]:
    """Drop the findings that comments suppress, and report the comments that suppress none.

    ``selected`` holds the codes of the rules that were asked for: only of those can be said
    that they find nothing.
    """
    directives = read(source)
    uses: list[set[Code | None]] = [set() for _ in directives]  # None: a comment without codes
    kept = [item.diagnostic for item in placed if not _is_suppressed(item, directives, uses)]
    if UNUSED_SUPPRESSION.code in selected:
        for directive, use in zip(directives, uses, strict=True):
            kept += _unused(source, directive, use, selected)
    return kept


def read(source: Source) -> list[Directive]:
    """Return the suppression comments of a file."""
    text = source.text
    if "torchlint:" not in text and "noqa" not in text.lower():
        return []
    return [
        _directive(source, comment, found)
        for comment in comments(text)
        for found in _DIRECTIVE.finditer(comment.text)
    ]


def add_ignore(source: Source, diagnostics: Iterable[Diagnostic], reason: str = "") -> str:
    """Return the text with a comment for each finding, joined to one that is there already."""
    wanted: dict[int, set[str]] = {}
    for item in diagnostics:
        if item.code not in (SYNTAX_ERROR.code, UNUSED_SUPPRESSION.code):
            wanted.setdefault(item.suppression_row, set()).add(item.code)
    present = {item.row: item for item in read(source) if item.kind is Kind.STATEMENT}
    ends = [found.start() for found in NEWLINE.finditer(source.text)] + [len(source.text)]
    edits: list[Edit] = []
    for row, codes in wanted.items():
        there = present.get(row)
        if there and there.codes:
            at = there.codes[-1].span.end
            edits.append(Edit(at, at, "".join(f", {code}" for code in sorted(codes))))
        else:
            end = ends[row - 1]
            start = len(source.text[:end].rstrip(" \t\f"))
            comment = f"  # torchlint: ignore[{', '.join(sorted(codes))}] {reason}".rstrip()
            edits.append(Edit(start, end, comment))
    return apply(source.text, edits)


def _directive(source: Source, comment: Comment, found: re.Match[str]) -> Directive:
    text, start = source.text, comment.start
    group = "codes" if found["reason"] is None else "ours"
    kind = Kind.NOQA if group == "codes" else Kind.FILE if found["file"] else Kind.STATEMENT
    codes = tuple(
        Code(code[0], _shifted(code.span(), start + found.start(group)))
        for code in _CODE.finditer(found[group] or "")
    )
    row = source.location(start).row
    line = start - source.location(start).column + 1
    alone = not text[line:start].strip()
    return Directive(
        kind,
        codes,
        found[group] is None,
        _shifted((found.start(), found.start() + len(found[0].rstrip())), start),
        comment,
        row,
        _row_below(text, start + len(comment.text), row) if alone else 0,
    )


def _shifted(span: tuple[int, int], by: int) -> Span:
    return Span(span[0] + by, span[1] + by)


def _row_below(text: str, end: int, row: int) -> int:
    """Return the row of the first line below that is no comment."""
    for found in NEWLINE.finditer(text, end):
        row += 1
        if not _COMMENT_LINE.match(text, found.end()):
            break
    return row


def _is_suppressed(
    item: Placed, directives: Sequence[Directive], uses: Sequence[set[Code | None]]
) -> bool:
    suppressed = False
    for directive, use in zip(directives, uses, strict=True):
        if _reaches(directive, item):
            codes = {code for code in directive.codes if code.covers(item.diagnostic.code)}
            known: set[Code | None] = {None} if directive.everything else {*codes}
            suppressed |= bool(known)
            use.update(known)
    return suppressed


def _reaches(directive: Directive, item: Placed) -> bool:
    if directive.kind is Kind.FILE:
        return bool(directive.below)
    if directive.kind is Kind.NOQA:
        found = item.diagnostic  # inside of a string the comment can only stand behind it
        rows = [found.location.row, found.end_location.row, found.suppression_row]
        if item.whole:
            rows += [item.first, item.last]
        return directive.row in rows
    return item.first <= directive.row <= item.last or directive.below == item.first


def _unused(
    source: Source, directive: Directive, use: set[Code | None], selected: Collection[str]
) -> Iterable[Diagnostic]:
    """Report what a comment does not suppress, where that can be known."""
    if any(code.text == UNUSED_SUPPRESSION.code for code in directive.codes):
        return
    if directive.everything:
        known = directive.kind is not Kind.NOQA and _all_selected("", selected)
        if known and not use:
            yield _report(source, directive, (), "nothing is found here to be suppressed")
        return
    unused = [
        code
        for code in directive.codes
        if code not in use and _can_be_judged(directive, code, selected)
    ]
    if unused or not directive.codes:
        names = " and ".join(code.text for code in unused)
        verb = "is" if len(unused) == 1 else "are"
        said = f"{names} {verb} not found here" if names else "it names no code"
        yield _report(source, directive, unused, said)


def _can_be_judged(directive: Directive, code: Code, selected: Collection[str]) -> bool:
    """Whether it is ours to say that a code is unused: it was looked for, or is no code at all."""
    codes = [rule.code for rule in all_rules()]
    if code.text == SYNTAX_ERROR.code:  # found or not, no comment suppresses it
        return False
    base = code.text[:-1] if code.text[-1:].islower() else code.text
    if not any(known.startswith(base) for known in codes):
        return directive.kind is not Kind.NOQA
    return _all_selected(base, selected)


def _all_selected(prefix: str, selected: Collection[str]) -> bool:
    engine = (SYNTAX_ERROR.code, UNUSED_SUPPRESSION.code)
    codes = [rule.code for rule in all_rules() if rule.code not in engine]
    return all(code in selected for code in codes if code.startswith(prefix))


def _report(source: Source, directive: Directive, unused: Sequence[Code], said: str) -> Diagnostic:
    if directive.kind is Kind.FILE and not directive.below:
        said = "`ignore-file` counts only on a line of its own"
    rule = UNUSED_SUPPRESSION
    edit = _removal(source.text, directive, unused)
    fix = ResolvedFix("Remove the unused suppression", Safety.SAFE, (edit,))
    return Diagnostic(
        source.filename,
        rule.code,
        rule.name,
        f"unused suppression: {said}",
        rule.severity,
        directive.span,
        source.location(directive.span.start),
        source.location(directive.span.end),
        directive.row,
        fix,
    )


def _removal(text: str, directive: Directive, unused: Sequence[Code]) -> Edit:
    """Return the edit that takes codes out of a comment, or the comment out of the text."""
    left = [code for code in directive.codes if code not in unused]
    if unused and left:
        first, last = directive.codes[0].span.start, directive.codes[-1].span.end
        return Edit(first, last, ", ".join(code.text for code in left))
    start, end = directive.span.start, directive.span.end
    comment_end = directive.comment.start + len(directive.comment.text)
    rest = text[end:comment_end].strip()
    if start > directive.comment.start or rest:  # it shares the comment with something else
        before = text[:start].rstrip(" \t") if not rest else text[:start]
        behind = text[end:comment_end]
        return Edit(len(before), end + len(behind) - len(behind.lstrip()), "")
    before = text[:start].rstrip(" \t\f")
    if directive.below and (found := NEWLINE.search(text, comment_end)):
        return Edit(len(before), found.end(), "")
    return Edit(len(before), comment_end, "")
