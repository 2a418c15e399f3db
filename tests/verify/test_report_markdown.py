"""The comment on a pull request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_tools import cpu_report, cuda_report, group_report, interrupted_report, unproved_report

from torchlint.verify.model import Caution
from torchlint.verify.report.markdown import code, fenced, plain, render


def test_a_cpu_is_labelled_and_a_gpu_is_not() -> None:
    label = "> [!WARNING]\n> measured on a CPU: says nothing of a GPU\n"
    assert label in render(cpu_report())
    assert "WARNING" not in render(cuda_report())
    assert "interrupted" in render(interrupted_report())


@pytest.mark.parametrize(
    "make", [cpu_report, cuda_report, interrupted_report, group_report, unproved_report]
)
def test_every_row_has_every_column_and_every_fold_ends(make) -> None:
    lines = render(make()).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1
    assert lines.count("<details>") == lines.count("</details>") > 0


def test_what_a_script_says_can_neither_call_nor_format_anything() -> None:
    caution = Caution("x", "@ada #12 | <b> [x](y) `c` _e_ *s*", "line\nbreak")
    text = render(replace(cpu_report(), cautions=(caution,)))
    line = next(line for line in text.splitlines() if line.startswith("- **"))
    assert line == (
        "- **&#64;ada &#35;12 &#124; &#60;b&#62; &#91;x&#93;&#40;y&#41; &#96;c&#96; "
        "&#95;e&#95; &#42;s&#42;**; line break"
    )


def test_plain_words_stay_as_they_are() -> None:
    assert plain("a change of 1.6 % would have shown: nothing") == (
        "a change of 1.6 % would have shown: nothing"
    )


def test_code_is_fenced_with_more_backticks_than_it_has() -> None:
    assert code("a ``b`` c") == "```a ``b`` c```"
    assert code("`a`") == "`` `a` ``"
    assert fenced("x\n```\ny", "text") == ["````text", "x", "```", "y", "````"]


def test_the_headline_comes_first_and_what_to_keep_with_its_command() -> None:
    text = render(group_report())
    assert text.startswith("### torchlint verify: No single fix is proved yet; TL601 and TL602 ")
    command = "torchlint check --fix --fixable TL601,TL602 train.py"
    assert f"Keep TL601 and TL602 together:\n\n```console\n{command}\n```" in text


def test_columns_that_nobody_has_are_left_out() -> None:
    assert "GPU busy" not in render(cpu_report())
    assert "GPU busy" in render(cuda_report())
