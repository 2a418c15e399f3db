"""Configuration files: which holds, what it may say, and how layers merge."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint.config import (
    BY_KEY,
    OPTIONS,
    Configuration,
    Layer,
    Pattern,
    Settings,
    check_values,
    file_in,
    parse_toml,
    read_layers,
    settle,
)
from torchlint.errors import ConfigError
from torchlint.preferences import Preferences
from torchlint.registry import all_rules
from torchlint.rule import Severity

pytestmark = pytest.mark.usefixtures("few_rules")


def settings_of(project, folder=".", *, isolated=False, pinned=None, **values) -> Settings:
    overrides = Layer("command line", project.root, values)
    configuration = Configuration(project.root, overrides, pinned, isolated=isolated)
    return configuration.of(project.root / folder)


def test_defaults(project) -> None:
    settings = settings_of(project)
    assert settings.file is None
    assert settings.root == project.root
    assert settings.fail_on is Severity.WARNING
    assert settings.respect_gitignore
    assert not settings.force_exclude
    assert settings.torch_version is None
    assert all(
        settings.reports(rule.code, None) and settings.may_fix(rule.code) for rule in all_rules()
    )


def test_what_fixes_write_is_a_choice_of_the_project(project) -> None:
    assert settings_of(project).preferences == Preferences(None, "bfloat16", 100)
    project.write("torchlint.toml", 'num-workers = 8\namp-dtype = "float16"\nlog-interval = 10\n')
    assert settings_of(project).preferences == Preferences(8, "float16", 10)


@pytest.mark.parametrize("value", [0, -1, True, "4", 1.5])
def test_a_count_is_a_whole_number_above_zero(value) -> None:
    with pytest.raises(ConfigError, match="a whole number above 0"):
        check_values({"num-workers": value}, "here")


def test_the_closest_file_holds(project) -> None:
    project.write("pyproject.toml", '[tool.torchlint]\nfail-on = "error"\n')
    project.write("sub/torchlint.toml", 'fail-on = "info"\n')
    project.write("sub/deep/pyproject.toml", "[tool.other]\ntorchlint = 1\n")
    assert settings_of(project).fail_on is Severity.ERROR
    assert settings_of(project, "sub/deep").fail_on is Severity.INFO
    assert settings_of(project, "sub/deep").file == project.root / "sub/torchlint.toml"
    assert settings_of(project, isolated=True).fail_on is Severity.WARNING


def test_a_pyproject_that_does_not_mention_us_is_not_even_parsed(project) -> None:
    project.write("pyproject.toml", "[broken")
    assert settings_of(project).file is None


def test_names_in_one_folder_have_an_order(project) -> None:
    project.write("pyproject.toml", "[tool.torchlint]\n")
    assert file_in(project.root) == project.root / "pyproject.toml"
    project.write("torchlint.toml")
    assert file_in(project.root) == project.root / "torchlint.toml"
    project.write(".torchlint.toml")
    assert file_in(project.root) == project.root / ".torchlint.toml"


def test_a_named_file_holds_everywhere(project) -> None:
    named = project.write("other.toml", 'fail-on = "error"\n')
    project.write("sub/torchlint.toml", 'fail-on = "info"\n')
    assert settings_of(project, "sub", pinned=named).fail_on is Severity.ERROR


def test_the_command_line_wins(project) -> None:
    project.write("torchlint.toml", 'fail-on = "error"\n')
    settings = settings_of(project, **{"fail-on": "info"})
    assert settings.fail_on is Severity.INFO
    assert settings.origins["fail-on"] == "command line"
    assert settings.origins["exclude"] == "default"


def test_extend_merges(project) -> None:
    project.write(
        "shared/base.toml",
        'fail-on = "error"\nignore = ["TL2"]\nextend-exclude = ["a"]\npreview = true\n',
    )
    project.write(
        "torchlint.toml",
        'extend = "shared/base.toml"\nfail-on = "info"\n'
        'extend-select = ["TL201"]\nextend-exclude = ["b"]\n',
    )
    settings = settings_of(project)
    assert settings.fail_on is Severity.INFO
    assert settings.preview
    assert settings.reports("TL201", None)
    assert not settings.reports("TL204", None)
    assert settings.excludes(project.root / "b")
    assert settings.excludes(project.root / "shared/a")
    assert settings.origins["preview"].endswith("base.toml")


def test_extend_in_a_circle_names_the_file(project) -> None:
    project.write("torchlint.toml", 'extend = "other.toml"\n')
    project.write("other.toml", 'extend = "torchlint.toml"\n')
    with pytest.raises(ConfigError, match=r"torchlint\.toml: `extend` leads back to itself"):
        settings_of(project)


def test_extend_of_a_missing_file(project) -> None:
    project.write("torchlint.toml", 'extend = "nothing.toml"\n')
    with pytest.raises(ConfigError, match=r"nothing\.toml: No such file"):
        settings_of(project)


def test_a_named_pyproject_needs_the_section(project) -> None:
    file = project.write("pyproject.toml", "[project]\n")
    with pytest.raises(ConfigError, match=r"no `\[tool.torchlint\]` section"):
        read_layers(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('selct = ["TL2"]', "unknown key `selct`; did you mean `select`", id="key"),
        pytest.param("per_file_ignores = 1", "did you mean `per-file-ignores`", id="underscores"),
        pytest.param("zzz = 1", "unknown key `zzz`; `torchlint config` lists", id="like nothing"),
        pytest.param('select = "TL2"', "`select` is 'TL2'; it has to be a list", id="not a list"),
        pytest.param("select = [1]", "`select` is [1]; it has to be a list", id="list of numbers"),
        pytest.param('preview = "yes"', "`preview` is 'yes'; it has to be true or", id="flag"),
        pytest.param('fail-on = "fatal"', "it has to be one of error, warning, info", id="choice"),
        pytest.param("fail-on = []", "it has to be one of error, warning, info", id="list"),
        pytest.param('torch-version = "new"', "it has to be a version", id="version"),
        pytest.param("torch-version = 2.3", "it has to be a version", id="version as a number"),
        pytest.param("extend = 3", "it has to be a string", id="string"),
        pytest.param('per-file-ignores = ["a"]', "it has to be a table", id="table"),
        pytest.param('per-file-ignores = {a = "TL2"}', "it has to be a table", id="table of text"),
        pytest.param(
            'select = ["TL9999"]', "unknown rule selector `TL9999` in `select`", id="code"
        ),
        pytest.param(
            'per-file-ignores = {a = ["X"]}', "unknown rule selector `X`", id="in a table"
        ),
        pytest.param("select = ", "not valid TOML", id="syntax"),
        pytest.param(b"a = '\xff'", "not valid TOML", id="encoding"),
    ],
)
def test_bad_values_name_file_key_and_remedy(project, text, message) -> None:
    file = project.write("torchlint.toml", text)
    with pytest.raises(ConfigError) as caught:
        settings_of(project)
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)


def test_the_section_has_to_be_a_table(project) -> None:
    project.write("pyproject.toml", "[tool]\ntorchlint = 1\n")
    with pytest.raises(ConfigError, match="is not a table"):
        settings_of(project)


def test_a_pyproject_whose_tool_is_no_table_is_not_ours(project) -> None:
    project.write("pyproject.toml", "tool = 'torchlint'\n")
    assert settings_of(project).file is None


def test_an_unreadable_pyproject_is_an_error(project, monkeypatch) -> None:
    file = project.write("pyproject.toml", "[tool.torchlint]\n")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ConfigError, match="Permission denied; make it readable"):
        file_in(file.parent)


def test_a_byte_order_mark_is_taken() -> None:
    assert parse_toml(b"\xef\xbb\xbfa = 1", "here") == {"a": 1}


def test_every_default_fits_its_option() -> None:
    set_by_default = {o.key: o.default for o in OPTIONS if o.default is not None}
    assert check_values(set_by_default, "defaults") == set_by_default
    assert check_values({"torch-version": "any"}, "here")
    assert check_values({"torch-version": "2.3"}, "here")


def test_every_option_is_described() -> None:
    assert all(option.description.endswith(".") for option in OPTIONS)
    assert BY_KEY["fail-on"].expected == "one of error, warning, info"
    assert BY_KEY["select"].expected == "a list of rule codes or prefixes"


def test_per_file_ignores(project) -> None:
    settings = settings_of(project, **{"per-file-ignores": {"tests/*": ["TL2"]}})
    rules = {r.code for r in settings.rules(all_rules(), project.root / "tests/deep/a.py")}
    assert not settings.reports("TL201", project.root / "tests/deep/a.py")
    assert settings.reports("TL302", project.root / "tests/a.py")
    assert settings.reports("TL201", project.root / "src/a.py")
    assert settings.reports("TL201", None)
    assert "TL201" not in rules
    assert "TL302" in rules


def test_a_sub_case_brings_its_rule() -> None:
    settings = settle([Layer("here", Path("/"), {"select": ["TL303b"]})], Path("/"), None)
    assert [rule.code for rule in settings.rules(all_rules(), None)] == ["TL303"]
    assert settings.reports("TL303b", None)
    assert not settings.reports("TL303", None)


def test_fixable_by_the_most_specific() -> None:
    values = {"fixable": ["TL2", "TL302"], "unfixable": ["TL201", "TL3"]}
    settings = settle([Layer("here", Path("/"), values)], Path("/"), None)
    fixable = [rule.code for rule in all_rules() if settings.may_fix(rule.code)]
    assert fixable == ["TL202", "TL204", "TL208", "TL302"]


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        pytest.param("build", "/r/a/build", True, id="a name anywhere"),
        pytest.param("build", "/r/a/builder", False, id="the whole name"),
        pytest.param("build/", "/r/build", True, id="a closing slash"),
        pytest.param("*.gen.py", "/r/a/x.gen.py", True, id="a glob on the name"),
        pytest.param("a/b.py", "/r/a/b.py", True, id="a path below the root"),
        pytest.param("a/b.py", "/r/x/a/b.py", False, id="not a path deeper down"),
        pytest.param("a/*.py", "/r/a/b/c.py", True, id="a star takes slashes, as in ruff"),
        pytest.param("**/c.py", "/r/c.py", True, id="two stars take nothing"),
        pytest.param("a/**/c.py", "/r/a/c.py", True, id="two stars in the middle"),
        pytest.param("/r/a", "/r/a", True, id="an absolute path"),
        pytest.param("a", "/elsewhere/a", True, id="a name outside of the root"),
        pytest.param("x/a", "/elsewhere/x/a", False, id="no path outside of the root"),
    ],
)
def test_patterns(glob: str, path: str, fits: bool) -> None:
    assert Pattern(Path("/r"), glob).matches(Path(path)) is fits
