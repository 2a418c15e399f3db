"""The other commands, and what every command does at its ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import torchlint
from torchlint.config import OPTIONS
from torchlint.registry import all_rules

BAD = (
    "import torch\nopt.zero_grad(set_to_none=False)\nloss.backward()\n"
    "total += loss.item()\ndef f(:\n"
)
ROOT = Path(torchlint.__file__).parent.parent


def process(*arguments: str, code: str = "", folder: Path, **more) -> subprocess.CompletedProcess:
    """Run the command line, or some code, in a process of its own."""
    command = [sys.executable, *(["-c", code] if code else ["-m", "torchlint"]), *arguments]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "rules")))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, check=False, **more)


def test_version(run) -> None:
    assert run("--version").out == f"torchlint {torchlint.__version__}\n"


def test_each_setting_is_an_option_of_check(run, project) -> None:
    told = run("check", "--help").out
    assert all(f"--{option.key} " in told for option in OPTIONS if option.key != "extend")
    project.write("train.py", "")
    shown = run("check", "--num-workers", "4", "--check-tests", "--show-settings", ".").out
    assert "num-workers = 4  # command line" in shown
    assert "check-tests = true  # command line" in shown


def test_help_lists_the_commands(run) -> None:
    result = run("--help")
    assert result.code == 0
    for command in ("check", "config", "rule"):
        assert f"  {command} " in result.out


@pytest.mark.parametrize("arguments", [[], ["chekc"]])
def test_no_or_an_unknown_command(run, arguments) -> None:
    assert run(*arguments).code == 2


@pytest.mark.parametrize("name", ["TL703", "bias-before-norm"])
def test_rule(run, name) -> None:
    result = run("rule", name)
    assert result.code == 0
    assert result.out.startswith("# bias-before-norm (TL703)\n\nSeverity: info.")
    assert "\n## Why\n" in result.out


def test_rule_of_a_sub_case(run) -> None:
    assert run("rule", "TL303b").out == run("rule", "TL303").out


def test_rule_of_the_engine(run) -> None:
    assert "There is no automatic fix." in run("rule", "TL001").out


def test_rule_as_json(run) -> None:
    page = json.loads(run("rule", "TL703", "--output-format", "json").out)
    assert page["code"] == "TL703"
    assert page["fix"] == "unsafe"
    assert "## Bad" in page["explanation"]


def test_all_rules(run) -> None:
    text = run("rule", "--all").out
    pages = json.loads(run("rule", "--all", "--output-format", "json").out)
    assert [page["code"] for page in pages] == [rule.code for rule in all_rules()]
    assert all(f"# {rule.name} ({rule.code})\n" in text for rule in all_rules())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name one rule"),
        (["TL201", "--all"], "name one rule"),
        (["TL2O1"], "unknown rule `TL2O1`; did you mean `TL201`?"),
    ],
)
def test_rule_misused(run, arguments, message) -> None:
    result = run("rule", *arguments)
    assert result.code == 2
    assert message in result.err


def test_config(run) -> None:
    text = run("config").out
    table = json.loads(run("config", "--output-format", "json").out)
    assert list(table) == [option.key for option in OPTIONS]
    assert all(f"{option.key}\n  {option.description}\n" in text for option in OPTIONS)
    assert run("config", "fail-on").out == (
        "fail-on\n  Lowest severity that makes the exit code 1.\n"
        '  default: "warning"\n  type: one of error, warning, info\n'
    )
    assert json.loads(run("config", "fail-on", "--output-format", "json").out)["fail-on"]


def test_config_of_an_unknown_key(run) -> None:
    result = run("config", "fail_on")
    assert result.code == 2
    assert "unknown key `fail_on`; did you mean `fail-on`?" in result.err


def test_as_a_module(project) -> None:
    project.write("bad.py", BAD)
    done = process("check", folder=project.root, capture_output=True)
    assert done.returncode == 1
    assert b"TL001" in done.stdout
    assert done.stderr == b""


PROBE = """
import sys
from torchlint.cli import main
code = main(["check", "--no-cache", *sys.argv[1:]])
heavy = {"libcst", "rich", "packaging", "tomllib", "json", "difflib"} & set(sys.modules)
print(code, sorted(heavy))
"""


def test_a_file_without_torch_is_cheap(project) -> None:
    project.write("plain.py", "import os\n\nprint(os.sep)\n")
    done = process("plain.py", code=PROBE, folder=project.root, capture_output=True, text=True)
    assert done.stdout == "All checks passed!\n0 []\n"
    assert done.stderr == ""


def test_a_check_never_imports_torch_or_colour(project) -> None:
    project.write("plain.py", "import torch\n\nprint(torch.ones(1).item())\n")
    code = PROBE.replace('"libcst", "rich"', '"rich", "torch"').replace(', "packaging"', "")
    done = process("plain.py", code=code, folder=project.root, capture_output=True, text=True)
    assert done.stdout == "All checks passed!\n0 []\n"


def test_a_closed_pipe_ends_quietly(project) -> None:
    for number in range(300):
        project.write(f"bad{number:03}.py", BAD)
    command = f"{sys.executable} -m torchlint check | head -1; echo ${{PIPESTATUS[0]}}"
    path = os.pathsep.join(map(str, (ROOT, ROOT / "rules")))
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 2
    assert done.stdout.splitlines()[1] == "1"


def test_characters_a_terminal_lacks_do_not_stop_the_report(project, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("PYTHONUTF8", "0")
    project.write("bad.py", f"{BAD}# é漢\n")
    done = process("check", folder=project.root, capture_output=True)
    assert done.returncode == 1
    assert b"\\xe9" in done.stdout
