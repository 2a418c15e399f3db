"""Patterns of whole files find what the plain ones would, and can be searched in leaps."""

from __future__ import annotations

import re

import pytest

from torchlint.analysis import compilation, convolutions
from torchlint.analysis.mentions import words
from torchlint_rules import optimizer_not_fused, tf32_disabled

PATTERN = re.compile(words("amp", "apex"))


@pytest.mark.parametrize("text", ["amp", "torch.amp.autocast", "(apex)", "use amp"])
def test_whole_words_are_found(text: str) -> None:
    assert PATTERN.search(text)


@pytest.mark.parametrize("text", ["stamp", "amplitude", "_amp", "apexes"])
def test_parts_of_words_are_not(text: str) -> None:
    assert not PATTERN.search(text)


def test_what_follows_a_word_can_be_chosen() -> None:
    cells = re.compile(words("LSTM", "GRU", then=r"(Cell)?\("))
    assert cells.search("nn.GRUCell(3)")
    assert not cells.search("ConvLSTM(3)")
    assert not cells.search("LSTM")


@pytest.mark.parametrize(
    "pattern",
    [
        compilation._COMPILED,
        compilation._HINDERED,
        compilation._VARYING,
        compilation._LENGTH,
        convolutions._VARYING,
        optimizer_not_fused.OTHERS,
        optimizer_not_fused.SCALED,
        tf32_disabled.OTHER,
    ],
)
def test_patterns_of_whole_files_begin_with_plain_characters(pattern: re.Pattern[str]) -> None:
    alternatives = re.split(r"\|(?![^(]*\))", pattern.pattern)
    assert not pattern.flags & re.IGNORECASE
    assert all(re.match(r"\w|\\\.", one) for one in alternatives), alternatives
