"""Which fixes make which configuration, and how the script is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torchlint.edits.fix import Safety
from torchlint.errors import UnreadableFileError, UsageError
from torchlint.rule import Level
from torchlint.verify.command import _limits, pairs, seconds
from torchlint.verify.plan import Fixer, Request, apply, command_of, shown_command, touched

SCRIPT = """\
import torch

torch.autograd.set_detect_anomaly(True)
model = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(20)])
optimizer = torch.optim.SGD(
    model.parameters(),
    lr=0.1,
)


def train(steps):
    total = 0.0
    for _ in range(steps):
        loss = model(torch.rand(4, 2)).sum()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
    return total


train(5)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def fixer(project: Path, **values: object) -> Fixer:
    command = command_of(Request(("train.py", "--epochs", "1")), project)
    values = {"torch-version": "2.13", **values}
    return Fixer(command, values, None, isolated=True, complain=pytest.fail)


def test_a_configuration_a_rule_with_its_fixes_alone(project: Path) -> None:
    made = {one.codes: one for one in fixer(project).singles()}
    assert ("TL602",) in made
    assert ("TL901",) in made
    text = made[("TL901",)].files["train.py"].decode()
    assert "set_detect_anomaly(False)" in text
    assert "set_to_none=False" in text


def test_together_all_fixes_are_in_one_file(project: Path) -> None:
    text = fixer(project).with_codes(("TL901", "TL602"), "all").files["train.py"].decode()
    assert "set_detect_anomaly(False)" in text
    assert "set_to_none" not in text


def test_nothing_is_written(project: Path) -> None:
    fixer(project).singles()
    assert (project / "train.py").read_text() == SCRIPT


def test_only_selected_rules_are_verified(project: Path) -> None:
    assert [one.codes for one in fixer(project, select=["TL9"]).singles()] == [("TL901",)]


def test_rules_that_may_not_fix_are_not_verified(project: Path) -> None:
    made = fixer(project, unfixable=["TL602"]).singles()
    assert ("TL602",) not in {one.codes for one in made}


def test_safe_fixes_declare_that_nothing_changes(project: Path) -> None:
    made = {one.codes: one for one in fixer(project).singles()}
    assert made[("TL901",)].level is Level.E0
    assert made[("TL901",)].safety is Safety.SAFE
    assert made[("TL601",)].level is Level.E1
    assert made[("TL601",)].safety is Safety.UNSAFE


def test_lines_are_those_of_the_whole_statement(project: Path) -> None:
    made = {one.codes: one for one in fixer(project).singles()}
    assert made[("TL901",)].lines == {"train.py": frozenset({3})}
    assert made[("TL601",)].lines == {"train.py": frozenset({5, 6, 7, 8})}


def test_an_insertion_touches_the_next_statement() -> None:
    assert touched("a = 1\n\n# then\nb = 2\n", "a = 1\nc = 3\n\n# then\nb = 2\n") == {4}


def test_an_inserted_import_touches_nothing() -> None:
    assert touched("a = 1\n", "import os\na = 1\n") == frozenset()


def test_of_a_statement_with_a_body_the_head_alone_is_touched() -> None:
    before = "for x in (\n    y):\n    z = x\n"
    assert touched(before, before.replace("y)", "y, 1)")) == {1, 2}


def test_what_is_applied_is_what_was_verified(project: Path) -> None:
    made = fixer(project)
    apply(made.with_codes(("TL901",)), project, made.originals)
    text = (project / "train.py").read_text()
    assert text == SCRIPT.replace("anomaly(True)", "anomaly(False)")


def test_a_file_that_changed_meanwhile_is_left(project: Path) -> None:
    made = fixer(project)
    configuration = made.with_codes(("TL901",))
    (project / "train.py").write_text(SCRIPT + "# mine\n")
    with pytest.raises(UnreadableFileError, match="changed while it was verified"):
        apply(configuration, project, made.originals)
    assert (project / "train.py").read_text() == SCRIPT + "# mine\n"


def test_nothing_is_applied_when_one_of_two_files_has_changed(project: Path) -> None:
    (project / "other.py").write_text(SCRIPT)
    made = fixer(project)
    configuration = made.with_codes(("TL901",))
    assert set(configuration.files) == {"train.py", "other.py"}
    (project / "train.py").write_text(SCRIPT + "# mine\n")
    with pytest.raises(UnreadableFileError):
        apply(configuration, project, made.originals)
    assert (project / "other.py").read_text() == SCRIPT


def test_of_a_large_project_only_what_the_script_imports_is_checked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchlint.verify.plan.FEW", 2)
    (project / "train.py").write_text("import layers\n" + SCRIPT)
    for name in ("layers", "unused", "more"):
        (project / f"{name}.py").write_text(SCRIPT)
    assert {file.name for file in fixer(project).files} == {"train.py", "layers.py"}


def test_files_that_are_not_imported_are_left_alone(project: Path) -> None:
    (project / "other.py").write_text(SCRIPT)
    made = fixer(project)
    assert set(made.with_codes(("TL901",)).files) == {"train.py", "other.py"}
    made.keep_to({"train.py"})
    assert set(made.with_codes(("TL901",)).files) == {"train.py"}


def test_the_script_is_checked_even_where_it_is_excluded(project: Path) -> None:
    made = fixer(project, exclude=["train.py"])
    assert [file.name for file in made.files] == ["train.py"]


def test_command_of_a_script(project: Path) -> None:
    command = command_of(Request(("train.py", "--epochs", "1")), project)
    assert command.script == project / "train.py"
    assert command.arguments == ("--epochs", "1")
    assert command.root == project
    assert command.python == Path(sys.executable)
    assert shown_command(command) == "python train.py --epochs 1"


def test_command_of_a_module_has_the_working_folder(project: Path) -> None:
    request = Request(("--lr", "a b"), module="pkg.train", launcher=("torchrun", "--standalone"))
    command = command_of(request, project)
    assert command.script is None
    assert command.root == project
    assert shown_command(command) == "torchrun --standalone -m pkg.train --lr 'a b'"


def test_the_root_holds_the_working_folder(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "train.py").write_text(SCRIPT)
    assert command_of(Request(("train.py",)), project / "sub").root == project


def test_the_working_folder_has_to_be_in_the_project(project: Path) -> None:
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(UsageError, match="working folder is not in the project"):
        command_of(Request((str(project / "train.py"),)), elsewhere)


@pytest.mark.parametrize(
    ("words", "complaint"), [((), "say what to run"), (("absent.py",), "absent.py: no such file")]
)
def test_nothing_to_run(project: Path, words: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        command_of(Request(words), project)


@pytest.mark.parametrize(("text", "length"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200)])
def test_lengths_of_time(text: str, length: float) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize("text", ["", "m", "ten", "-3m", "0"])
def test_no_lengths_of_time(text: str) -> None:
    with pytest.raises(UsageError, match="--time-budget takes"):
        seconds(text)


def test_steps_are_enough_to_time_some() -> None:
    told = {"pairs": "3..40", "time_budget": "60s"}
    assert _limits(told | {"steps": 4}).steps == 4
    assert _limits(told | {"steps": None}).steps is None
    with pytest.raises(UsageError, match="--steps takes at least 4"):
        _limits(told | {"steps": 3})


@pytest.mark.parametrize(("text", "found"), [("5..40", (5, 40)), ("3", (3, 3))])
def test_numbers_of_pairs(text: str, found: tuple[int, int]) -> None:
    assert pairs(text) == found


@pytest.mark.parametrize("text", ["", "2", "9..5", "a..b", "5.."])
def test_no_numbers_of_pairs(text: str) -> None:
    with pytest.raises(UsageError, match="--pairs takes"):
        pairs(text)
