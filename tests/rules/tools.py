"""The vocabulary of the rule tests: what a rule says of a snippet, and what its fix makes of it."""

from __future__ import annotations

import io
import textwrap
import tokenize
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Safety
from torchlint.linter import Options, check_source, fix_source, with_deep_stack
from torchlint.preferences import DEFAULT, Preferences
from torchlint.projects import Projects
from torchlint.registry import all_rules
from torchlint.source import decode_source

if TYPE_CHECKING:
    from pathlib import Path

    from torchlint.rule import Diagnostic


def options(code: str, target: str | None = None, preferences: Preferences = DEFAULT) -> Options:
    """Options that select one rule, its fixes included."""
    rules = tuple(rule for rule in all_rules() if rule.code == code)
    assert rules, f"no rule {code}"
    every = target == "any"
    version = None if target is None or every else Version(target)
    selected = frozenset({code})
    return Options(rules, selected, version, every_version=every, preferences=preferences)


def check(source: str, code: str, target: str | None = None) -> list[Diagnostic]:
    """Findings of one rule in a snippet, in the order of their place."""
    read = decode_source(textwrap.dedent(source).encode(), "snippet.py")
    return with_deep_stack(lambda: check_source(read, options(code, target)))


def check_in(
    folder: Path, files: dict[str, str], name: str, code: str, target: str | None = None
) -> list[Diagnostic]:
    """Findings of one rule in one of the files of a project, which are written to a folder."""
    for other, text in {"pyproject.toml": "", **files}.items():
        (folder / other).write_text(textwrap.dedent(text))
    path = folder / name
    read = decode_source(path.read_bytes(), name, path)
    wanted = replace(options(code, target), projects=Projects(lambda _: False))
    return with_deep_stack(lambda: check_source(read, wanted))


def silent(source: str, code: str, target: str | None = None) -> None:
    """Assert that a rule has nothing to say."""
    assert [f"{d.location.row}: {d.message}" for d in check(source, code, target)] == []


def fixed(
    source: str,
    code: str,
    *,
    unsafe: bool = True,
    target: str | None = None,
    settles: bool = True,
    preferences: Preferences = DEFAULT,
) -> str:
    """Return a snippet after its fixes: it parses, keeps its comments, settles what was fixed."""
    before = textwrap.dedent(source)
    read = decode_source(before.encode(), "snippet.py")
    safety = Safety.UNSAFE if unsafe else Safety.SAFE
    done = with_deep_stack(lambda: fix_source(read, options(code, target, preferences), safety))
    assert done.notes == ()
    cst.parse_module(done.text)
    assert comments(done.text) == comments(before)
    if settles:
        assert done.applied, "nothing was fixed"
        assert not [d for d in done.remaining if d.fix is not None and d.fix.safety <= safety]
    return done.text


def comments(text: str) -> Counter[str]:
    """The comments of a text, each as often as it stands there."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)
