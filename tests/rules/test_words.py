"""No word decides: comments, and functions that nothing calls, change nothing that is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint.linter import Options, check_source, with_deep_stack
from torchlint.registry import all_rules
from torchlint.source import decode_source

FIXTURES = Path(__file__).parents[2] / "fixtures"
SCRIPTS = [
    *sorted(FIXTURES.glob("scripts/*.py")),
    *sorted(FIXTURES.glob("all_together*/before.py")),
]
WORDS = (
    "amp apex autocast scaler half bf16 fp16 tf32 compiled quantization lengths padded debug "
    "anomaly test demo copy legacy profile benchmark distributed ddp fsdp lightning gym attack"
)
UNUSED = f"def {WORDS.replace(' ', '_')}():\n    return '{WORDS}'\n"


def found(text: str) -> list[tuple[str, int, str, str, bool]]:
    """What all rules find in a text, by place, with messages and whether it has a fix."""
    source = decode_source(text.encode(), "snippet.py")
    given = with_deep_stack(lambda: check_source(source, Options(all_rules(), frozenset())))
    return [
        (one.code, one.location.row, one.severity.word, one.message, one.fix is not None)
        for one in given
    ]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_words_at_the_end_change_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    before = found(text)
    assert len(before) > 4
    assert found(f"{text}\n# {WORDS}\n\n\n{UNUSED}") == before
