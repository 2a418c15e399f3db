"""The pages that `torchlint rule` and `torchlint config` print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchlint.registry import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.config import Option, Settings
    from torchlint.rule import Rule
    from torchlint.target import Target


def as_text(rules: Sequence[Rule]) -> str:
    """Return the pages of rules, each under its name and code."""
    return "\n".join(
        f"# {rule.name} ({rule.code})\n\n{_facts(rule)}\n\n{page(rule)}" for rule in rules
    )


def _facts(rule: Rule) -> str:
    fix = f"The best fix is {rule.fix.word}." if rule.fix else "There is no automatic fix."
    return f"Severity: {rule.severity.word}. {fix}"


def as_json(rules: Sequence[Rule], *, single: bool) -> str:
    """Return rules as JSON: one object, or an array."""
    found = [
        {
            "code": rule.code,
            "name": rule.name,
            "summary": rule.summary,
            "severity": rule.severity.word,
            "fix": rule.fix.word if rule.fix else None,
            "explanation": page(rule),
        }
        for rule in rules
    ]
    return json.dumps(found[0] if single else found, indent=2) + "\n"


def options_as_text(options: Sequence[Option]) -> str:
    """Return settings with their meaning, default and type."""
    return "\n".join(
        f"{option.key}\n  {option.description}\n"
        f"  default: {toml(option.default)}\n  type: {option.expected}\n"
        for option in options
    )


def options_as_json(options: Sequence[Option]) -> str:
    """Return settings as JSON, keyed by their names."""
    found = {
        option.key: {
            "description": option.description,
            "default": option.default,
            "type": option.expected,
        }
        for option in options
    }
    return json.dumps(found, indent=2) + "\n"


def toml(value: Any) -> str:
    """Return a setting's value as it is written in TOML; a comment where it is not set."""
    if value is None:
        return "# not set"
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(value, ensure_ascii=False)


def settings_as_text(filename: str, settings: Settings, target: Target) -> str:
    """Return the settings of a file as TOML, each with the place it comes from."""
    lines = [f"# settings of {filename}", f"# configuration: {settings.file or 'none'}"]
    for key, value in settings.values.items():
        if key == "torch-version":
            lines.append(f'{key} = "{target}"  # {target.origin}')
        elif value is None:
            lines.append(f"# {key} is not set")
        else:
            lines.append(f"{key} = {toml(value)}  # {settings.origins[key]}")
    return "\n".join(lines) + "\n"
