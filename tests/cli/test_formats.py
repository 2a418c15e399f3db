"""How findings are written, format by format."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from torchlint.edits.fix import ResolvedFix, Safety
from torchlint.report import formats, github
from torchlint.report.diff import unified
from torchlint.report.frame import fix_frame, source_frame
from torchlint.report.model import Reported, View, line_starts, place, split_lines
from torchlint.report.paint import paint, visible, width
from torchlint.report.progress import counting
from torchlint.report.summary import fixes
from torchlint.rule import Diagnostic, Severity
from torchlint.syntax.text import Edit, Span

ROOT = Path("/repo")
TEXT = """\
import torch

for x in loader:
    total += loss.item()
    zero(set_to_none=False)
print(total)
"""


def found(
    needle: str, code: str = "TL201", text: str = TEXT, filename: str = "train.py", **more
) -> Diagnostic:
    """Return a finding at the first place where the text holds the needle."""
    at = text.index(needle)
    span = Span(at, at + len(needle))
    starts = line_starts(text)
    values = {
        "name": "a-pattern",
        "message": f"`{needle}` waits",
        "severity": Severity.WARNING,
        "location": place(starts, span.start),
        "end_location": place(starts, span.end),
        "suppression_row": place(starts, span.start).row,
    }
    return Diagnostic(filename=filename, code=code, span=span, **{**values, **more})


def fix(
    needle: str, content: str, safety: Safety = Safety.SAFE, text: str = TEXT, changes: str = ""
):
    at = text.index(needle)
    return ResolvedFix("Do it", safety, (Edit(at, at + len(needle), content),), changes)


def reported(*findings: Diagnostic, text: str = TEXT, name: str = "train.py") -> Reported:
    return Reported(name, ROOT / name, text, findings)


def view(**more) -> View:
    return View(**{"safety": Safety.SAFE, "root": ROOT, **more})


def render(name: str, *files: Reported, statistics=False, quiet=False, **more) -> str:
    pieces = formats.render(name, files, view(**more), statistics=statistics, quiet=quiet)
    return "".join(pieces)


SAFE = found("loss.item()", fix=fix("loss.item()", "loss.detach()"), help="Keep it on the device.")
UNSAFE = found(
    "set_to_none=False",
    "TL602",
    fix=fix("set_to_none=False", "", Safety.UNSAFE, changes="gradients become None"),
)
ADVICE = found("import torch", "TL703", severity=Severity.INFO, message="drop the bias")
WRONG = found("print", "TL001", severity=Severity.ERROR, message="bad syntax", name="syntax-error")

FULL = """\
warning TL201 [*] `loss.item()` waits
 --> train.py:4:14
  |
2 |
3 | for x in loader:
4 |     total += loss.item()
  |              ^^^^^^^^^^^
5 |     zero(set_to_none=False)
6 | print(total)
  |
help: Keep it on the device.
safe fix: Do it
  |
4 | -     total += loss.item()
4 | +     total += loss.detach()
  |

warning TL602 `set_to_none=False` waits
 --> train.py:5:10
  |
3 | for x in loader:
4 |     total += loss.item()
5 |     zero(set_to_none=False)
  |          ^^^^^^^^^^^^^^^^^
6 | print(total)
7 |
  |
unsafe fix: Do it (gradients become None)
  |
5 | -     zero(set_to_none=False)
5 | +     zero()
  |

advice on train.py (each holds under an assumption: let `torchlint verify` measure it)
       1:1 TL703 drop the bias

Found 3 findings (0 errors, 2 warnings, 1 info).
[*] 1 fixable with --fix (1 more with --unsafe-fixes)
"""


def test_full() -> None:
    assert render("full", reported(ADVICE, SAFE, UNSAFE)) == FULL


def test_full_with_advice_that_can_be_fixed() -> None:
    first = replace(ADVICE, fix=fix("import torch", "", changes="all"))
    second = replace(ADVICE, help="Read this.")
    text = render("full", reported(first, second))
    assert "1:1 TL703 [*] drop the bias\n           safe fix: Do it (all)\n" in text
    assert "1:1 TL703 drop the bias\n           Read this.\n" in text


def test_full_in_colour_says_the_same() -> None:
    colored = render("full", reported(SAFE, UNSAFE, ADVICE), color=True)
    assert "\x1b[" in colored
    plain = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [line.rstrip() for line in plain.splitlines()] == FULL.splitlines()


def test_plain_text_does_not_import_rich(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    render("full", reported(SAFE))
    assert not any(name.partition(".")[0] == "rich" for name in sys.modules)


def test_concise() -> None:
    assert render("concise", reported(SAFE, UNSAFE, WRONG), safety=Safety.UNSAFE) == (
        "train.py:4:14: TL201 [*] `loss.item()` waits\n"
        "train.py:5:10: TL602 [*] `set_to_none=False` waits\n"
        "train.py:6:1: TL001 bad syntax\n"
        "Found 3 findings (1 error, 2 warnings, 0 info).\n"
        "[*] 2 fixable with --fix\n"
    )


@pytest.mark.parametrize(
    ("files", "more", "text"),
    [
        pytest.param([], {}, "All checks passed!\n", id="nothing found"),
        pytest.param([], {"problems": ("x",)}, "", id="nothing found in what could be read"),
        pytest.param([], {"fixed": 0}, "All checks passed!\n", id="nothing to fix"),
        pytest.param([], {"fixed": 1}, "Found 1 finding (1 fixed, 0 remaining).\n", id="all fixed"),
        pytest.param(
            [reported(WRONG)],
            {"fixed": 2},
            "Found 3 findings (2 fixed, 1 remaining: 1 error, 0 warnings, 0 info).\n",
            id="some fixed",
        ),
        pytest.param(
            [reported(UNSAFE)],
            {},
            "Found 1 finding (0 errors, 1 warning, 0 info).\n1 fixable with --fix --unsafe-fixes\n",
            id="only unsafe fixes",
        ),
        pytest.param(
            [reported(SAFE)],
            {},
            "Found 1 finding (0 errors, 1 warning, 0 info).\n[*] 1 fixable with --fix\n",
            id="only safe fixes",
        ),
    ],
)
def test_summary(files, more, text) -> None:
    assert render("concise", *files, **more).endswith(text)
    assert "Found" not in render("concise", *files, quiet=True, **more)


def test_statistics() -> None:
    files = [reported(SAFE, UNSAFE), reported(SAFE, WRONG)]
    assert render("full", *files, statistics=True, quiet=True) == (
        "2\tTL201\t[*] a-pattern\n1\tTL001\t[ ] syntax-error\n1\tTL602\t[ ] a-pattern\n"
    )
    assert json.loads(render("json", *files, statistics=True))[0] == {
        "code": "TL201",
        "name": "a-pattern",
        "count": 2,
        "fixable": True,
        "fixable_count": 2,
    }
    assert render("full", statistics=True, quiet=True) == ""
    some = reported(SAFE, replace(SAFE, fix=None))
    assert render("full", some, statistics=True, quiet=True) == "2\tTL201\t[-] a-pattern\n"


def test_show_fixes() -> None:
    lines = fixes([("a.py", [SAFE, SAFE, UNSAFE]), ("b.py", [])])
    assert "".join(paint(lines, color=False)) == (
        "Fixed 3 findings:\n- a.py:\n    2 x TL201 (a-pattern)\n    1 x TL602 (a-pattern)\n"
    )
    assert list(fixes([("b.py", [])])) == []


def test_json_has_the_keys_of_ruff() -> None:
    entries = json.loads(render("json", reported(SAFE, WRONG)))
    assert entries[0] == {
        "cell": None,
        "code": "TL201",
        "name": "a-pattern",
        "message": "`loss.item()` waits",
        "filename": "/repo/train.py",
        "location": {"row": 4, "column": 14},
        "end_location": {"row": 4, "column": 25},
        "severity": "warning",
        "url": None,
        "noqa_row": 4,
        "fix": {
            "applicability": "safe",
            "message": "Do it",
            "edits": [
                {
                    "content": "loss.detach()",
                    "location": {"row": 4, "column": 14},
                    "end_location": {"row": 4, "column": 25},
                }
            ],
        },
    }
    assert entries[1]["fix"] is None
    assert json.loads(render("json")) == []


def test_github() -> None:
    odd = replace(WRONG, message="50%\nof: this, that", help="why")
    assert render("github", reported(odd, name="a,b:c.py")) == (
        "::error title=torchlint (TL001),file=a%2Cb%3Ac.py,line=6,col=1,endLine=6,endColumn=6::"
        "a,b:c.py:6:1: TL001 50%25%0Aof: this, that%0A  help: why\n"
    )


@pytest.mark.parametrize(
    ("numbers", "hidden"),
    [
        pytest.param((10, 10, 10), 0, id="as many as are shown"),
        pytest.param((11, 10, 3), 1, id="one error too many"),
        pytest.param((12, 13, 9), 5, id="errors and warnings"),
        pytest.param((0, 0, 11), 2, id="the notice takes the place of one piece of advice"),
        pytest.param((11, 0, 10), 2, id="the notice takes a place beside errors"),
    ],
)
def test_github_says_how_many_are_hidden(numbers, hidden) -> None:
    findings = [
        replace(SAFE, severity=severity)
        for severity, number in zip(reversed(Severity), numbers, strict=True)
        for _ in range(number)
    ]
    lines = render("github", reported(*findings)).splitlines()
    assert len(lines) == sum(numbers) + bool(hidden)
    assert sum(line.startswith("::notice") for line in lines) <= github.LIMIT
    assert lines[-1].startswith("::notice title=torchlint::") is bool(hidden)
    if hidden:
        assert f"::{hidden} finding" in lines[-1]


def sarif(*files: Reported, **more) -> dict:
    log = json.loads(render("sarif", *files, **more))
    schema = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0-subset.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(log, schema, cls=jsonschema.Draft7Validator)
    return log["runs"][0]


def test_sarif() -> None:
    run = sarif(reported(SAFE, UNSAFE, ADVICE, WRONG, name="a b/train.py"), problems=("c.py: bad",))
    result = run["results"][0]
    assert result["ruleId"] == "TL201"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "TL201"
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b/train.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 4, "startColumn": 14, "endLine": 4, "endColumn": 25},
    }
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == "file:///repo/"
    assert result["fixes"][0]["artifactChanges"][0]["replacements"] == [
        {
            "deletedRegion": {"startLine": 4, "startColumn": 14, "endLine": 4, "endColumn": 25},
            "insertedContent": {"text": "loss.detach()"},
        }
    ]
    assert [each["level"] for each in run["results"]] == ["warning", "warning", "note", "error"]
    assert run["results"][1]["fixes"][0]["description"]["text"] == (
        "Do it (unsafe: gradients become None)"
    )
    assert run["invocations"][0]["executionSuccessful"] is False
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert notes[0]["message"]["text"] == "c.py: bad"


def test_sarif_lists_sub_cases_as_rules() -> None:
    run = sarif(reported(replace(SAFE, code="TL303b")))
    rule = run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]
    assert rule["id"] == "TL303b"
    assert rule["name"] == "tensor-from-list-of-arrays"


def test_sarif_outside_of_the_root() -> None:
    file = Reported("/else/x.py", Path("/else/x.py"), TEXT, (SAFE,))
    location = sarif(file)["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "file:///else/x.py"}


def test_sarif_of_standard_input() -> None:
    location = sarif(Reported("-", None, TEXT, (SAFE,)))["results"][0]["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "-"


def fingerprints(text: str, *needles: str) -> list[str]:
    results = sarif(reported(*(found(n, text=text) for n in needles), text=text))["results"]
    return [each["partialFingerprints"]["primaryLocationLineHash"] for each in results]


def test_sarif_fingerprints_stay_when_code_moves() -> None:
    before = fingerprints(TEXT, "loss.item()", "loss.item")
    after = fingerprints("# new\n" * 3 + TEXT.replace("    total", "\t  total"), "loss.item()")
    assert after[0] == before[0]
    assert before[0] != before[1]
    assert before[0][:16] == before[1][:16]
    assert fingerprints(TEXT, "print")[0][:16] != before[0][:16]


def frame(text: str, needle: str) -> list[str]:
    finding = found(needle, text=text)
    return list(paint(source_frame(split_lines(text), finding, ""), color=False))


def test_a_frame_of_several_rows() -> None:
    text = "a\nb(\n  c,\n  d)\ne\n"
    assert frame(text, "b(\n  c,\n  d)") == [
        "  |\n", "1 | a\n", "2 | b(\n", "  | ^^\n", "3 |   c,\n", "  |   ^^\n", "4 |   d)\n",
        "  |   ^^\n", "5 | e\n", "6 |\n", "  |\n",
    ]  # fmt: skip


def test_a_frame_of_many_rows_is_cut() -> None:
    text = "x(\n" + "  1,\n" * 30 + ")\n"
    assert len(frame(text, text)) < 25


def test_carets_stand_under_tabs_and_wide_characters() -> None:
    lines = frame("\t'漢字' + x\n", "x")
    assert lines[2].index("^") == len("1 |     '漢字' + ") + 2
    assert lines[1] == "1 |     '漢字' + x\n"


def test_a_line_of_a_megabyte_is_cut_around_the_finding() -> None:
    text = "a = [" + "1, " * 300_000 + "x.item()" + ", 2" * 300_000 + "]\n"
    lines = frame(text, "x.item()")
    assert max(map(len, lines)) < 200
    shown, carets = lines[1], lines[2]
    assert shown[carets.index("^") : carets.rindex("^") + 1] == "x.item()"


def test_a_finding_at_the_very_end() -> None:
    finding = replace(found("x", text="x"), location=place([0], 1), end_location=place([0], 1))
    lines = list(paint(source_frame(["x"], finding, ""), color=False))
    assert lines[2] == "  |  ^\n"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert visible("\x1b[31m\u202e\tx") == "␛[31m\N{REPLACEMENT CHARACTER}    x"
    assert width("e\u0301漢") == 3


def diff_of(text: str, *edits: Edit) -> list[str]:
    return list(paint(fix_frame(text, tuple(sorted(edits))), color=False))


def test_a_fix_in_two_places_is_shown_in_two_pieces() -> None:
    text = "a\nb\nc\nd\ne\nf\n"
    assert diff_of(text, Edit(0, 0, "new\n"), Edit(10, 11, "F")) == [
        "  |\n", "1 | + new\n", "2 |   a\n", "  ...\n", "6 | - f\n", "7 | + F\n", "  |\n",
    ]  # fmt: skip


def test_a_fix_that_deletes_a_line() -> None:
    assert diff_of("a\nb\nc\n", Edit(2, 4, "")) == ["  |\n", "2 | - b\n", "2 |   c\n", "  |\n"]


def test_a_fix_at_the_end_without_newline() -> None:
    assert diff_of("a\nb", Edit(3, 3, "\nc")) == ["  |\n", "2 |   b\n", "3 | + c\n", "  |\n"]


def test_a_fix_without_edits_shows_none() -> None:
    assert diff_of("a\n") == ["  |\n", "  |\n"]


def test_near_edits_are_shown_together() -> None:
    assert diff_of("a\nb\nc\n", Edit(0, 1, "A"), Edit(2, 3, "B")) == [
        "  |\n", "1 | - a\n", "2 | - b\n", "1 | + A\n", "2 | + B\n", "  |\n",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        pytest.param(
            "a\nb\n", "a\nc\n", "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", id="plain"
        ),
        pytest.param(
            "a",
            "b\n",
            "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n",
            id="no newline at the end",
        ),
        pytest.param(
            "é\r\nb\r\n",
            "é\r\nc\r\n",
            "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n é\r\n-b\r\n+c\r\n",
            id="newlines are kept",
        ),
        pytest.param(
            "x = '\x0c'\nb  \n",
            "x = '\x0c'\nc  \n",
            "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x = '\x0c'\n-b  \n+c  \n",
            id="form feeds and trailing blanks are kept",
        ),
    ],
)
def test_a_unified_diff_can_be_applied(old: str, new: str, diff: str) -> None:
    checked = SimpleNamespace(source=SimpleNamespace(filename="a.py", text=old), text=new)
    assert "".join(paint(unified(checked), color=False)) == diff


def test_locations_count_every_kind_of_newline() -> None:
    starts = line_starts("a\r\nb\rc\nd")
    assert [place(starts, at).row for at in (0, 3, 5, 7)] == [1, 2, 3, 4]
    assert split_lines("a\x0cb\r\nc") == ["a\x0cb", "c"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal(monkeypatch) -> None:
    monkeypatch.setattr("torchlint.report.progress.PATIENCE", 0.0)
    stream = Terminal()
    with counting(7, stream, quiet=False) as tick:
        tick(3)
        tick(4)
    assert stream.getvalue() == "\r\x1b[Kchecking 3/7 files\r\x1b[K"


@pytest.mark.parametrize(
    ("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True), (Terminal(), False)]
)
def test_no_progress_in_a_pipe_or_when_quiet_or_soon_over(stream, quiet) -> None:
    with counting(7, stream, quiet=quiet) as tick:
        tick(3)
    assert stream.getvalue() == ""
