"""The one-file report: complete, escaped, small, and without a network."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from report_tools import (
    Lab,
    agreement,
    configuration,
    cpu_report,
    cuda_report,
    group_report,
    interrupted_report,
    unproved_report,
)

from torchlint.errors import TorchlintError
from torchlint.verify.model import Phase, Result, Same, Speed, Verdict
from torchlint.verify.report import html
from torchlint.verify.report.headline import headline

VOID = {"meta"}
MADE = [cpu_report, cuda_report, interrupted_report]
REPORTS = pytest.mark.parametrize("make", [*MADE, group_report, unproved_report])


class Page(HTMLParser):
    """What a page is made of; fails where an element is closed that is not the open one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.pictures: list[dict] = []  # those that are no part of another
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "svg" and "svg" not in self.open:
            self.pictures.append(dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data

    def all(self, tag: str, **attrs: str) -> list[dict]:
        return [
            found
            for name, found in self.tags
            if name == tag and all(found.get(key) == value for key, value in attrs.items())
        ]


def page(report) -> Page:
    return Page(html.render(report))


def classed(seen: Page, word: str) -> list[dict]:
    return [found for _, found in seen.tags if word in (found.get("class") or "").split()]


@REPORTS
def test_every_element_is_closed_and_every_name_is_there_once(make) -> None:
    seen = page(make())
    names = [found["id"] for _, found in seen.tags if "id" in found]
    assert len(names) == len(set(names))
    referred = [found["aria-labelledby"] for _, found in seen.tags if "aria-labelledby" in found]
    assert set(referred) <= set(names)


@REPORTS
def test_it_needs_neither_network_nor_script(make) -> None:
    text = html.render(make())
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<link|<script|<img|<iframe|\son\w+=", text)


@pytest.mark.parametrize("make", MADE)
def test_every_plot_has_words_for_those_who_do_not_see_it(make) -> None:
    seen = page(make())
    told = [found for found in seen.pictures if found.get("role") == "img"]
    hidden = [found for found in seen.pictures if found.get("aria-hidden") == "true"]
    assert told
    assert all(found["aria-labelledby"] for found in told)
    assert len(seen.all("title")) == len(told) + 1
    assert len(told) + len(hidden) == len(seen.pictures)


def test_what_the_user_wrote_is_escaped() -> None:
    report = replace(
        cpu_report(), shown_command="python '<b>' && x", apply_command="</code><i>", cautions=()
    )
    text = html.render(report)
    assert "<b>'" not in text
    assert "<i>" not in text
    assert "<script" not in text
    assert "&lt;script&gt;alert(&#39;no&#39;)" in text
    assert "python '<b>' && x" in Page(text).text


def test_every_verdict_is_told_in_words_and_every_configuration_has_a_row() -> None:
    seen = page(cpu_report())
    assert all(verdict.value in seen.text for verdict in Verdict)
    rows = seen.all("th", scope="row")
    assert len(rows) == 12 + 11  # figures have the script before too


def test_every_pair_of_runs_is_drawn() -> None:
    report = cpu_report()
    pairs = sum(len(each.judgement.samples) for each in report.singles if each.judgement)
    pairs += len(report.kept_result.judgement.samples)
    seen = page(report)
    assert [len(classed(seen, name)) for name in ("pairing", "before-dot", "after-dot")] == [
        pairs, pairs, pairs,
    ]  # fmt: skip


def test_both_curves_of_losses_are_drawn_and_where_they_part() -> None:
    seen = page(cpu_report())
    curves = [found for found in seen.all("path") if "curve" in found.get("class", "")]
    traced = [
        each
        for each in (*cpu_report().singles, cpu_report().kept_result)
        if any(run.phase is Phase.TRACE and run.records for run in each.runs)
    ]
    assert len(curves) == 2 * len(traced)
    apart = [
        before["d"] != after["d"] for before, after in zip(curves[::2], curves[1::2], strict=True)
    ]
    assert apart.count(True) == 1
    assert len(classed(seen, "first")) == 1


def test_a_cpu_is_labelled_and_a_gpu_is_not() -> None:
    label = "measured on a CPU: says nothing of a GPU"
    assert label in page(cpu_report()).text
    assert label not in page(cuda_report()).text
    assert "interrupted" in page(interrupted_report()).text


@REPORTS
def test_the_headline_is_the_first_thing_and_the_plot_of_speed_ups_the_first_picture(make) -> None:
    report = make()
    text = html.render(report)
    said = headline(report).replace("x faster", "\N{MULTIPLICATION SIGN} faster")
    said = said.replace("x).", "\N{MULTIPLICATION SIGN}).")
    assert f"<h1>{said}</h1>" in text
    assert text.index("<h1>") < text.index('<table class="forest"') < text.index('<h2 id="figures')
    assert text.index('class="forest"') < (text.find('role="img"') % len(text))


def test_a_group_is_kept_by_name_and_has_its_own_row_and_bar() -> None:
    seen = page(group_report())
    assert "Keep TL601 and TL602 together:" in seen.text
    assert "torchlint check --fix --fixable TL601,TL602 train.py" in seen.text
    assert len(classed(seen, "mark")) == 3  # all together, and two groups


def test_what_was_not_run_or_not_measured_is_told_once() -> None:
    text = page(group_report()).text
    assert text.count("Not run here, since they act on a GPU only: TL102, TL201, TL501") == 1
    assert text.count("no pair of runs was made before the time was over") == 1


def test_many_fixes_and_long_runs_make_a_small_file_that_says_what_it_left_out() -> None:
    lab = Lab(steps=3000)
    before, after = lab.trace("before"), lab.trace("after", drift=0.3)
    pairs = Lab().judged(0.2, 0.1, 0.01, 15, Speed.FASTER, turns=True)
    judgement, _, step, _ = pairs
    single = Result(
        configuration("TL901"), Verdict.FASTER, "it is faster", judgement,
        agreement(Same.SEED_SPREAD, first=20), (after,), keep=True, step=step,
    )  # fmt: skip
    report = cpu_report()
    report = replace(report, before=replace(report.before, runs=(before,)), singles=(single,) * 40)
    text = html.render(report)
    assert len(text) < 400_000
    assert "drawn as the smallest and the largest of every 36" in text


def test_without_jinja2_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(TorchlintError, match=r"pip install torchlint\[verify\]"):
        html.render(cpu_report())


def test_a_report_without_any_fix_is_a_page_too() -> None:
    report = replace(
        cpu_report(), singles=(), together=None, kept=(), kept_result=None, cautions=()
    )
    assert "No fix was tried" in page(report).text


def channel(value: int) -> float:
    share = value / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def luminance(color: str) -> float:
    red, green, blue = (channel(int(color[at : at + 2], 16)) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", range(3), ids=["light", "dark", "print"])
def test_colours_can_be_told_from_what_they_are_on(theme: int) -> None:
    """WCAG 2.2: 4.5 for text (1.4.3), 3 for parts of a plot (1.4.11)."""
    style = (html.TEMPLATES / "style.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    assert len(blocks) == 3
    colors = dict(re.findall(r"--([\w-]+): (#\w{6})", blocks[theme]))
    for name in ("text", "quiet", "good", "bad", "alarm", "doubt", "none"):
        assert contrast(colors[name], colors["page"]) >= 4.5, name
    for name in ("before", "after"):
        assert contrast(colors[name], colors["page"]) >= 3, name
    assert contrast(colors["text"], colors["panel"]) >= 4.5
    assert contrast(colors["text"], colors["note"]) >= 4.5
