"""`torchlint check`: every flag, and the exit code it leads to."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from torchlint import check as checking
from torchlint import linter, registry, suppress, writing
from torchlint.cli import cli, main
from torchlint.errors import UnreadableFileError

pytestmark = pytest.mark.usefixtures("few_rules")

# one safe fix (TL201), one unsafe (TL703), and one that depends on the version of torch (TL602)
SCRIPT = """\
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 3, 8, 8) for _ in range(3)]

total = 0.0
for batch in batches:
    optimizer.zero_grad()
    loss = model(batch.to(device)).square().mean()
    loss.backward()
    optimizer.step()
    total += loss.item()
print(total)
"""
CLEAN = "import torch\n\nprint(torch.ones(1))\n"
SAFE_ONLY = ("--select", "TL201")


def codes(text: str) -> list[str]:
    """Codes of the findings in a concise report, in order."""
    return re.findall(r"^\S+:\d+:\d+: (TL\w+)", text, re.MULTILINE)


@pytest.fixture
def concise(project, run):
    """Run `check` on the script, with one line a finding."""
    project.write("train.py", SCRIPT)

    def call(*arguments: str, **more):
        return run("check", "--output-format", "concise", *arguments, **more)

    return call


def text_of(project, name: str = "train.py") -> str:
    return (project.root / name).read_bytes().decode()


def test_findings_are_reported_and_exit_with_1(concise) -> None:
    result = concise()
    assert codes(result.out) == ["TL703", "TL602", "TL201"]
    assert result.code == 1
    assert result.err == ""
    assert "Found 3 findings (0 errors, 1 warning, 2 info).\n" in result.out


def test_a_clean_file_exits_with_0(project, run) -> None:
    project.write("clean.py", CLEAN)
    result = run("check")
    assert (result.code, result.out, result.err) == (0, "All checks passed!\n", "")


# selection


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--select", "TL2"], ["TL201"], id="prefix"),
        pytest.param(["--select", "TL201,TL602"], ["TL602", "TL201"], id="commas"),
        pytest.param(["--select", "TL201", "--select", "TL7"], ["TL703", "TL201"], id="repeated"),
        pytest.param(["--select", "ALL"], ["TL703", "TL602", "TL201"], id="ALL"),
        pytest.param(["--select", ""], [], id="nothing"),
        pytest.param(["--ignore", "TL2"], ["TL703", "TL602"], id="ignore"),
        pytest.param(["--ignore", "TL", "--extend-select", "TL703"], ["TL703"], id="extend"),
        pytest.param(["--per-file-ignores", "tr*.py:TL7,tr*.py:TL6"], ["TL201"], id="per file"),
        pytest.param(
            ["--per-file-ignores", "other.py:TL7", *SAFE_ONLY], ["TL201"], id="other file"
        ),
        pytest.param(["--config", 'select = ["TL7"]'], ["TL703"], id="a setting in TOML"),
        pytest.param(
            ["--config", 'select = ["TL7"]', "--select", "TL6"], ["TL602"], id="a flag wins"
        ),
    ],
)
def test_selection(concise, arguments, expected) -> None:
    assert codes(concise(*arguments).out) == expected


def test_nothing_that_is_selected_hides_a_syntax_error(project, run) -> None:
    project.write("bad.py", SCRIPT + "def f(:\n")
    result = run("check", "--select", "TL201", "--output-format", "concise")
    assert codes(result.out) == ["TL001"]
    assert result.code == 1


# exit codes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--select", "TL602"], 0, id="info does not fail"),
        pytest.param(["--select", "TL602", "--fail-on", "info"], 1, id="unless it is asked to"),
        pytest.param(["--fail-on", "error"], 0, id="warnings do not fail on error"),
        pytest.param(["--exit-zero"], 0, id="exit zero"),
        pytest.param(["--fix", *SAFE_ONLY], 0, id="fixed and nothing remains"),
        pytest.param(["--fix"], 0, id="fixed and what remains is info"),
        pytest.param(["--fix", "--fail-on", "info"], 1, id="fixed and something remains"),
        pytest.param(["--fix", *SAFE_ONLY, "--exit-non-zero-on-fix"], 1, id="fixed is failed"),
        pytest.param(
            ["--select", "TL703", "--fix", "--exit-non-zero-on-fix", "--exit-zero"],
            0,
            id="nothing was fixed",
        ),
        pytest.param(["--fix-only"], 0, id="what remains does not count"),
        pytest.param(["--diff"], 1, id="a diff that is not empty"),
        pytest.param(["--diff", "--exit-zero"], 0, id="unless nothing fails"),
        pytest.param(["--diff", "--select", "TL703"], 0, id="an empty diff"),
        pytest.param(["--diff", "--select", "TL703", "--unsafe-fixes"], 1, id="an unsafe diff"),
        pytest.param(["train.py", "nothing.py"], 2, id="2 beats 1"),
        pytest.param(["train.py", "nothing.py", "--exit-zero"], 2, id="2 beats --exit-zero"),
        pytest.param(["train.py", "nothing.py", "--diff"], 2, id="2 beats a diff"),
        pytest.param(["train.py", "nothing.py", "--add-ignore"], 2, id="2 beats --add-ignore"),
        pytest.param(["--torch-version", "1.9", "--select", "TL602"], 1, id="the version is known"),
    ],
)
def test_exit_codes(concise, arguments, code) -> None:
    assert concise(*arguments).code == code


def test_the_severity_to_fail_on_is_that_of_the_file(project, run) -> None:
    project.write("sub/train.py", SCRIPT)
    project.write("sub/torchlint.toml", 'fail-on = "error"\n')
    assert run("check", "-q").code == 0
    project.write("train.py", SCRIPT)
    assert run("check", "-q").code == 1


# fixing


def test_fix_applies_safe_fixes(concise, project) -> None:
    result = concise("--fix")
    assert "loss.item()" not in text_of(project)
    assert "bias=False" not in text_of(project)
    assert codes(result.out) == ["TL703", "TL602"]
    assert "Found 3 findings (1 fixed, 2 remaining: 0 errors, 0 warnings, 2 info).\n" in result.out


def test_unsafe_fixes_alone_change_nothing_but_the_marks(concise, project) -> None:
    result = concise("--unsafe-fixes")
    assert text_of(project) == SCRIPT
    assert "TL703 [*]" in result.out
    assert "TL703 [*]" not in concise().out


def test_fix_with_unsafe_fixes(concise, project) -> None:
    result = concise("--fix", "--unsafe-fixes")
    assert "bias=False" in text_of(project)
    assert result.code == 0
    before = text_of(project)
    assert concise("--fix", "--unsafe-fixes").code == 0
    assert text_of(project) == before


def test_fix_only_is_silent_about_the_rest(concise, project) -> None:
    assert concise("--fix-only").out == ""
    assert "loss.item()" not in text_of(project)


def test_show_fixes(concise) -> None:
    out = concise("--fix", "--show-fixes").out
    assert "Fixed 1 finding:\n- train.py:\n    1 x TL201 (item-accumulate-in-train-loop)\n" in out
    assert "Fixed" not in concise("--fix", "--show-fixes").out


def test_diff_changes_nothing(concise, project) -> None:
    result = concise("--diff")
    assert text_of(project) == SCRIPT
    assert result.out.startswith("--- train.py\n+++ train.py\n@@ ")
    assert "-    total += loss.item()\n" in result.out
    assert result.err == "Would fix 1 finding.\n"
    assert concise("--diff", "--color", "always").out.startswith("\x1b[1m--- train.py")


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diff")
def test_a_diff_is_what_fixing_does(concise, project) -> None:
    diff = concise("--diff", "--unsafe-fixes").out
    subprocess.run(["git", "apply", "-p0"], input=diff.encode(), check=True)
    applied = text_of(project)
    project.write("train.py", SCRIPT)
    concise("--fix", "--unsafe-fixes")
    assert text_of(project) == applied


@pytest.mark.parametrize(
    "arguments", [["--unfixable", "TL201"], ["--fixable", "TL7"]], ids=["unfixable", "fixable"]
)
def test_what_may_not_be_fixed_is_reported_without_its_fix(concise, project, arguments) -> None:
    result = concise("--fix", *arguments)
    assert text_of(project) == SCRIPT
    assert "TL201" in codes(result.out)
    assert "TL201 [*]" not in result.out


# standard input


def test_standard_input(concise) -> None:
    result = concise("-", stdin=SCRIPT.encode())
    assert result.out.startswith("-:4:")
    assert result.code == 1


def test_standard_input_with_a_name(concise, project) -> None:
    project.write("sub/torchlint.toml", 'select = ["TL7"]\n')
    result = concise("-", "--stdin-filename", "sub/x.py", stdin=SCRIPT.encode())
    assert codes(result.out) == ["TL703"]
    assert result.out.startswith("sub/x.py:")


def test_fixing_standard_input_writes_the_code(concise, project) -> None:
    fixed = concise("-", "--fix", "--fail-on", "info", stdin=SCRIPT.encode())
    concise("--fix", "train.py")
    assert fixed.out == text_of(project)
    assert codes(fixed.err) == ["TL703", "TL602"]
    assert fixed.code == 1


@pytest.mark.parametrize("code", [CLEAN, SCRIPT + "def f(:\n", "x = '\0'\n", ""])
def test_fixing_standard_input_never_loses_it(concise, code) -> None:
    assert concise("-", "--fix", stdin=code.encode()).out == code


def test_a_diff_of_standard_input(concise) -> None:
    result = concise("-", "--diff", stdin=SCRIPT.encode())
    assert result.out.startswith("--- -\n+++ -\n")


def test_standard_input_that_is_excluded(concise) -> None:
    arguments = ("-", "--stdin-filename", "gen/x.py", "--exclude", "gen", "--force-exclude")
    result = concise(*arguments, stdin=SCRIPT.encode())
    assert (result.code, result.out) == (0, "")
    assert "excluded or ignored by the configuration: gen/x.py" in result.err
    assert concise(*arguments, "--fix", stdin=SCRIPT.encode()).out == SCRIPT


# which files


def test_exclude(concise, project) -> None:
    project.write("gen/a.py", SCRIPT)
    assert "gen/a.py" in concise().out
    assert "gen/a.py" not in concise("--exclude", "gen,other").out
    assert "gen/a.py" in concise("--exclude", "gen", "gen/a.py").out


def test_everything_excluded_is_0_with_a_notice(concise) -> None:
    result = concise("--exclude", "train.py", "--force-exclude", "train.py")
    assert result.code == 0
    assert result.err == "nothing to check: excluded or ignored by the configuration: train.py\n"
    assert concise("--exclude", "train.py", "--force-exclude", "train.py", "-q").err == ""


def test_everything_excluded_still_writes_the_report(concise) -> None:
    excluded = ("--exclude", "train.py", "--force-exclude", "train.py")
    result = concise(*excluded, "--output-format", "json")
    assert json.loads(result.out) == []
    result = concise("nothing.py", "--output-format", "json")
    assert (result.code, json.loads(result.out)) == (2, [])


def test_gitignore(concise, project) -> None:
    project.write(".gitignore", "train.py\n")
    assert concise().code == 0
    assert concise("--no-respect-gitignore").code == 1
    assert concise("train.py").code == 1


def test_show_files(concise, project) -> None:
    project.write("a/b.py", CLEAN)
    result = concise("--show-files")
    assert result.out == "a/b.py\ntrain.py\n"
    assert result.code == 0
    assert concise("--show-files", ".", "nothing.py").code == 2


# configuration


def test_show_settings(concise, project) -> None:
    project.write("requirements.txt", "torch>=2.1\n")
    project.write("torchlint.toml", 'fail-on = "error"\nextend-exclude = ["gen"]\n')
    out = concise("--show-settings", "--select", "TL2").out
    assert "# settings of train.py\n" in out
    assert f"# configuration: {project.root / 'torchlint.toml'}\n" in out
    assert 'select = ["TL2"]  # command line\n' in out
    assert f'fail-on = "error"  # {project.root / "torchlint.toml"}\n' in out
    assert f'torch-version = "2.1"  # {project.root / "requirements.txt"}: torch>=2.1\n' in out
    assert 'extend-exclude = ["gen"]' in out
    assert "# extend is not set\n" in out
    assert concise("--show-settings", ".", "nothing.py").code == 2


def test_shown_settings_are_settings(concise, project) -> None:
    shown = concise("--show-settings").out
    project.write("torchlint.toml", shown)
    again = concise("--show-settings").out
    strip = re.compile(r"\s*#.*")
    assert strip.sub("", again) == strip.sub("", shown)


def test_isolated(concise, project) -> None:
    project.write("torchlint.toml", 'select = ["TL7"]\n')
    project.write("requirements.txt", "torch>=2.1\n")
    assert codes(concise().out) == ["TL703"]
    assert len(codes(concise("--isolated").out)) == 3
    assert "--isolated: nothing is read" in concise("--isolated", "--show-settings").out
    shown = concise("--isolated", "--show-settings", "-", "--stdin-filename", "x.py").out
    assert "# settings of x.py" in shown


def test_a_named_configuration(concise, project) -> None:
    project.write("torchlint.toml", 'select = ["TL6"]\n')
    project.write("other.toml", 'select = ["TL7"]\n')
    assert codes(concise("--config", "other.toml").out) == ["TL703"]


def test_the_format_is_a_setting(project, run) -> None:
    project.write("train.py", SCRIPT)
    project.write("torchlint.toml", 'output-format = "json"\n')
    assert len(json.loads(run("check").out)) == 3
    assert run("check", "--output-format", "concise").out.startswith("train.py:")


@pytest.mark.parametrize("declared", ["any", "1.9", "2.4"])
def test_torch_version(concise, project, declared) -> None:
    project.write("requirements.txt", "torch>=1.8\n")
    assert concise("--torch-version", declared).code == 1


NEW = """\
import torch

def train(model, optimizer, batches):
    model = torch.compile(model)
    for x in batches:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param([], [], id="code that only torch 2 runs has nothing to change"),
        pytest.param(["--torch-version", "any"], ["TL602"], id="every version counts"),
    ],
)
def test_any_version_that_is_asked_for_counts(concise, project, asked, found) -> None:
    project.write("train.py", NEW)
    assert codes(concise("--select", "TL602", *asked).out) == found


@pytest.mark.parametrize(
    "arguments",
    [
        ["--jobs", "2"],
        ["-j", "0"],
        ["--no-cache"],
        ["-n"],
        ["--cache-dir", "cache"],
        ["--preview"],
        ["--no-preview"],
    ],
    ids=" ".join,
)
def test_accepted_for_later(concise, arguments) -> None:
    assert concise(*arguments).code == 1


# reports


def test_output_file(concise, project) -> None:
    result = concise("-o", "report.txt")
    assert result.out == ""
    assert codes(text_of(project, "report.txt")) == ["TL703", "TL602", "TL201"]
    assert "\x1b" not in text_of(project, "report.txt")


def test_an_output_file_that_cannot_be_written(concise) -> None:
    result = concise("-o", "missing/report.txt")
    assert result.code == 2
    assert "missing/report.txt: No such file or directory; name a file" in result.err


def test_statistics(concise) -> None:
    out = concise("--statistics", "-q").out
    assert "1\tTL201\t[*] item-accumulate-in-train-loop\n" in out


def test_json_names_files_as_ruff_does(project, run) -> None:
    project.write("train.py", SCRIPT)
    entries = json.loads(run("check", "--output-format", "json").out)
    assert {entry["filename"] for entry in entries} == {str(project.root / "train.py")}


def test_edits_of_the_json_report_make_the_fix(project, run) -> None:
    project.write("train.py", SCRIPT)
    entries = json.loads(run("check", "--output-format", "json", *SAFE_ONLY).out)
    lines = SCRIPT.splitlines(keepends=True)
    text = SCRIPT

    def offset(at):
        return sum(map(len, lines[: at["row"] - 1])) + at["column"] - 1

    for edit in sorted(entries[0]["fix"]["edits"], key=lambda e: -offset(e["location"])):
        start, end = offset(edit["location"]), offset(edit["end_location"])
        text = text[:start] + edit["content"] + text[end:]
    run("check", "--fix", *SAFE_ONLY)
    assert text_of(project) == text


@pytest.mark.parametrize("name", ["full", "concise", "json", "github", "sarif"])
def test_every_format_names_file_and_code(project, run, name) -> None:
    project.write("train.py", SCRIPT)
    out = run("check", "--output-format", name).out
    assert "train.py" in out
    assert "TL201" in out


def test_machine_formats_are_relative_to_the_repository(project, run, monkeypatch) -> None:
    project.write("sub/train.py", SCRIPT)
    monkeypatch.chdir(project.root / "sub")
    assert "file=sub/train.py," in run("check", "--output-format", "github").out
    log = json.loads(run("check", "--output-format", "sarif").out)
    base = log["runs"][0]["originalUriBaseIds"]["SRCROOT"]["uri"]
    assert base == project.root.as_uri() + "/"


@pytest.mark.parametrize(
    ("environment", "arguments", "colored"),
    [
        ({}, [], False),
        ({"FORCE_COLOR": "1"}, [], True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], False),
        ({"FORCE_COLOR": "1"}, ["--color", "never"], False),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
    ],
)
def test_color(concise, monkeypatch, environment, arguments, colored) -> None:
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    assert ("\x1b[" in concise(*arguments).out) is colored


def test_quiet(concise) -> None:
    result = concise("-q")
    assert "Found" not in result.out
    assert len(codes(result.out)) == 3


def test_verbose(concise, project) -> None:
    result = concise("-v")
    assert f"{project.root}: configuration none, torch any (" in result.err


# suppressing


def test_add_ignore(concise, project) -> None:
    result = concise("--add-ignore=known cost")
    assert result.err == "Added 3 suppressions.\n"
    assert (result.code, result.out) == (0, "")
    line = "    total += loss.item()  # torchlint: ignore[TL201] known cost\n"
    assert line in text_of(project)
    assert concise().code == 0
    assert codes(concise().out) == []


def test_add_ignore_without_a_reason_takes_no_path(concise, project) -> None:
    assert concise(*SAFE_ONLY, "--add-ignore", "train.py").err == "Added 1 suppression.\n"
    assert "loss.item()  # torchlint: ignore[TL201]\n" in text_of(project)


def test_add_ignore_keeps_other_bytes(concise, project) -> None:
    windows = SCRIPT.replace("\n", "\r\n").rstrip()
    project.write("train.py", windows)
    concise(*SAFE_ONLY, "--add-ignore")
    comment = "  # torchlint: ignore[TL201]"
    assert text_of(project) == windows.replace("loss.item()", f"loss.item(){comment}")


def test_add_ignore_leaves_syntax_errors(project, run) -> None:
    project.write("bad.py", SCRIPT + "def f(:\n")
    assert run("check", "--add-ignore").err == "Added 0 suppressions.\n"
    assert text_of(project, "bad.py") == SCRIPT + "def f(:\n"


def test_add_ignore_that_does_not_help_is_not_written(concise, project, monkeypatch) -> None:
    monkeypatch.setattr(suppress, "add_ignore", lambda source, *_: source.text + "# nothing\n")
    result = concise("--add-ignore")
    assert result.code == 2
    assert "train.py: a comment does not fit" in result.err
    assert text_of(project) == SCRIPT


# the use is at fault


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--select", "TL2O1"], "unknown rule selector `TL2O1` in `select`; did you mean `TL201`?"),
        (["--ignore", "F401"], "unknown rule selector `F401` in `ignore`"),
        (["--per-file-ignores", "a.py"], "takes PATTERN:CODE, not `a.py`"),
        (["--torch-version", "new"], "`torch-version` is 'new'; it has to be a version"),
        (["--config", "nothing.toml"], "nothing.toml: No such file or directory"),
        (["--config", "a.toml", "--config", "b.toml"], "--config names two files"),
        (["--config", "selct = 1"], "--config: unknown key `selct`; did you mean `select`?"),
        (["--config", "select = "], "not valid TOML"),
        (["--config", "a.toml", "--isolated"], "--isolated reads no configuration file"),
        (["-", "train.py"], "`-` stands alone"),
        (["--stdin-filename", "a.py"], "--stdin-filename names what `-` reads"),
        (["-", "--add-ignore"], "--add-ignore writes files"),
        (["--add-ignore", "--fix"], "--add-ignore cannot be used with --fix"),
        (["--add-ignore=a\nb"], "has to fit on one line"),
        (["--jobs", "-1"], "-1 is not in the range"),
        (["--jobs", "many"], "'many' is not a valid integer"),
        (["--output-format", "html"], "'html' is not one of"),
        (["--fail-on", "never"], "'never' is not one of"),
        (["--nonsense"], "No such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_misuse_exits_with_2_and_says_what_is_wrong(concise, project, arguments, message) -> None:
    result = concise(*arguments)
    assert result.code == 2
    assert message in " ".join(result.err.split()).replace(" │ ", " ") or message in result.err
    assert result.out == ""
    assert text_of(project) == SCRIPT


# what goes wrong in one file


def test_a_bug_met_in_one_file_is_reported_by_name(concise, project, monkeypatch) -> None:
    project.write("zother.py", SCRIPT)
    check = linter.examine

    def fail(source, options):
        if source.filename == "train.py":
            raise KeyError("oh")
        return check(source, options)

    monkeypatch.setattr(linter, "examine", fail)
    result = concise()
    assert result.code == 2
    assert "error: train.py: internal error of torchlint" in result.err
    assert "KeyError: 'oh'" in result.err
    assert "please report this" in result.err
    assert "zother.py" in result.out


def test_a_rule_that_fails_does_not_hide_the_others(concise, monkeypatch) -> None:
    load = registry.load

    def fail(rule):
        return load(rule) if rule.code != "TL703" else lambda _: 1 / 0

    monkeypatch.setattr(registry, "load", fail)
    for arguments in ([], ["--fix"]):
        result = concise(*arguments)
        assert result.code == 2
        assert result.err.startswith("error: train.py: internal error in rule TL703: ")
        assert "please report it with the file" in result.err
        assert "TL602" in codes(result.out)


ARRAYS = """\
import torch


def copies(x: torch.Tensor, rows):
    y = torch.tensor(x.detach().float())
    return y
"""
BOTH = (
    "import numpy as np\n"
    + ARRAYS
    + """

def stacked():
    rows = [np.zeros(3, dtype=np.float32) for _ in range(4)]
    return torch.tensor(rows)
"""
)


def test_a_sub_case_that_may_not_be_fixed_is_left(project, run) -> None:
    project.write("both.py", BOTH)
    unsafe = ("check", "--select", "TL303", "--fix", "--unsafe-fixes")
    run(*unsafe, "--unfixable", "TL303b")
    text = text_of(project, "both.py")
    assert "torch.tensor(x.detach().float())" in text
    assert "torch.tensor(rows)" not in text
    assert run(*unsafe).code == 0
    assert "torch.tensor(" not in text_of(project, "both.py")


def test_a_sub_case_is_selected_fixed_and_left_out_by_its_letter(project, run) -> None:
    project.write("arrays.py", ARRAYS)

    def check(*arguments):
        return run("check", "--output-format", "concise", *arguments)

    assert codes(check("--select", "TL303").out) == ["TL303b"]
    assert codes(check("--select", "TL303b").out) == ["TL303b"]
    assert codes(check("--select", "TL303", "--ignore", "TL303b").out) == []
    assert "[*]" in check("--select", "TL303").out
    assert "[*]" not in check("--select", "TL303", "--unfixable", "TL303b").out
    text = text_of(project, "arrays.py")
    for arguments in (["--ignore", "TL303b"], ["--unfixable", "TL303b"], ["--fixable", "TL2"]):
        check("--select", "TL303", "--fix", *arguments)
        assert text_of(project, "arrays.py") == text
    check("--select", "TL303b", "--fix", "--fixable", "TL303b")
    assert text_of(project, "arrays.py") != text


def test_a_file_that_cannot_be_written_keeps_its_findings(concise, project, monkeypatch) -> None:
    def refuse(source, _data):
        raise UnreadableFileError(source.path, "no room on the disk", "make some")

    monkeypatch.setattr(writing, "write_atomically", refuse)
    result = concise("--fix")
    assert result.code == 2
    assert "no room on the disk; make some" in result.err
    assert codes(result.out) == ["TL703", "TL602", "TL201"]
    assert text_of(project) == SCRIPT
    assert concise("--add-ignore").code == 2


def test_notes_of_the_fix_loop_are_passed_on(concise, monkeypatch) -> None:
    fixed = linter.fix_sources

    def note(*arguments):
        return [
            replace(done, notes=("the fix of TL201 is at fault",)) for done in fixed(*arguments)
        ]

    monkeypatch.setattr(linter, "fix_sources", note)
    assert "the fix of TL201 is at fault\n" in concise("--fix").err


def test_interrupted(concise, monkeypatch) -> None:
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(linter, "examine", interrupt)
    assert concise().code == 130


def test_any_other_failure_is_ours_and_without_traceback(concise, monkeypatch) -> None:
    monkeypatch.setattr(checking, "discover", lambda *_: {}["x"])
    result = concise()
    assert result.code == 2
    assert "internal error of torchlint" in result.err


def test_a_reader_that_went_away(project, monkeypatch) -> None:
    project.write("train.py", SCRIPT)

    class Closed(io.StringIO):
        def write(self, _) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    assert main(["check", "--fail-on", "error"]) == 0
    assert main(["check"]) == 1


def test_a_reader_that_goes_away_at_the_very_end(monkeypatch) -> None:
    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    monkeypatch.setattr(cli, "main", lambda *_, **__: 1)
    assert main(["check"]) == 0


def test_a_vanished_working_folder(run, monkeypatch) -> None:
    def gone():
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "cwd", gone)
    result = run("check")
    assert result.code == 2
    assert "No such file or directory" in result.err
