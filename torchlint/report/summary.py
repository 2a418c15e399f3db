"""The closing lines: how much was found, what could be fixed; and `--statistics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.edits.fix import Safety
from torchlint.report.model import count, findings_of
from torchlint.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.model import Reported, View
    from torchlint.report.paint import Line
    from torchlint.rule import Diagnostic


def summary(files: Sequence[Reported], view: View) -> Iterator[Line]:
    """Yield the closing lines of a report for people."""
    findings = findings_of(files)
    if not findings:
        yield from _clean(view)
        return
    tally = [sum(f.severity is severity for f in findings) for severity in reversed(Severity)]
    kinds = f"{count(tally[0], 'error')}, {count(tally[1], 'warning')}, {tally[2]} info"
    if view.fixed:
        total = view.fixed + len(findings)
        remain = f"{view.fixed} fixed, {len(findings)} remaining: {kinds}"
        yield [(f"Found {count(total, 'finding')} ({remain}).", "bold")]
    else:
        yield [(f"Found {count(len(findings), 'finding')} ({kinds}).", "bold")]
    if line := _could_be_fixed(findings, view):
        yield [(line, "")]


def _clean(view: View) -> Iterator[Line]:
    if view.fixed:
        found = count(view.fixed, "finding")
        yield [(f"Found {found} ({view.fixed} fixed, 0 remaining).", "bold")]
    elif not view.problems:
        yield [("All checks passed!", "bold green")]


def _could_be_fixed(findings: list[Diagnostic], view: View) -> str:
    """Return what `--fix` and `--unsafe-fixes` could do about these findings."""
    safe = sum(f.fix is not None and f.fix.safety is Safety.SAFE for f in findings)
    unsafe = sum(f.fix is not None and f.fix.safety is Safety.UNSAFE for f in findings)
    if view.safety is Safety.UNSAFE:
        safe, unsafe = safe + unsafe, 0
    if safe and unsafe:
        return f"[*] {safe} fixable with --fix ({unsafe} more with --unsafe-fixes)"
    if safe:
        return f"[*] {safe} fixable with --fix"
    if unsafe:
        return f"{unsafe} fixable with --fix --unsafe-fixes"
    return ""


def statistics(files: Sequence[Reported], view: View) -> Iterator[Line]:
    """Yield one line a rule, the most frequent first; `[-]` marks those with fixes for some."""
    rows = tally(files, view)
    digits = max((len(str(number)) for number, *_ in rows), default=1)
    for number, code, name, fixable in rows:
        mark = "[*]" if fixable == number else "[-]" if fixable else "[ ]"
        yield [
            (f"{number:{digits}}", "bold"),
            ("\t", ""),
            (code, "bold red"),
            (f"\t{mark} {name}", ""),
        ]


def tally(files: Sequence[Reported], view: View) -> list[tuple[int, str, str, int]]:
    """Count findings by code: number, code, name, and how many of them can be fixed."""
    groups: dict[tuple[str, str], list[bool]] = {}
    for finding in findings_of(files):
        groups.setdefault((finding.code, finding.name), []).append(view.is_applicable(finding))
    rows = [(len(each), code, name, sum(each)) for (code, name), each in groups.items()]
    return sorted(rows, key=lambda row: (-row[0], row[1]))


def fixes(applied: Sequence[tuple[str, Sequence[Diagnostic]]]) -> Iterator[Line]:
    """Yield what was fixed, file by file (`--show-fixes`)."""
    total = sum(len(each) for _, each in applied)
    if not total:
        return
    yield [(f"Fixed {count(total, 'finding')}:", "bold")]
    for filename, each in applied:
        groups: dict[tuple[str, str], int] = {}
        for finding in each:
            groups[finding.code, finding.name] = groups.get((finding.code, finding.name), 0) + 1
        if groups:
            yield [("- ", ""), (filename, "bold"), (":", "")]
        for (code, name), number in sorted(groups.items()):
            yield [(f"    {number} x ", ""), (code, "bold red"), (f" ({name})", "")]
