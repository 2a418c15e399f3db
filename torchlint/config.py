"""Settings: the table of options, the files they are read from, and which file holds where."""

from __future__ import annotations

import enum
import fnmatch
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.errors import ConfigError, UsageError
from torchlint.preferences import DEFAULT, Preferences
from torchlint.registry import Choice, check_selector, is_selected, specificity
from torchlint.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchlint.rule import Rule

FORMATS = ("full", "concise", "json", "github", "sarif")
FILES = (".torchlint.toml", "torchlint.toml", "pyproject.toml")
# `._*`: what macOS leaves beside a file on a foreign disk, no Python whatever it is called
DEFAULT_EXCLUDE = tuple(
    """
    .bzr .direnv .eggs .git .git-rewrite .hg .ipynb_checkpoints .mypy_cache .nox .pants.d .pyenv
    .pytest_cache .pytype .ruff_cache .svn .torchlint_cache .tox .venv .vscode __pycache__
    __pypackages__ _build buck-out build dist node_modules site-packages venv ._*
    """.split()
)


class Kind(enum.Enum):
    """The type of an option's value, in the words of an error message."""

    FLAG = "true or false"
    TEXT = "a string"
    CHOICE = "one of"
    PATTERNS = "a list of glob patterns"
    SELECTORS = "a list of rule codes or prefixes"
    PER_FILE = "a table from glob pattern to a list of rule codes or prefixes"
    VERSION = 'a version such as "2.3", or "any"'
    COUNT = "a whole number above 0"


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its key, type, default and meaning."""

    key: str
    kind: Kind
    default: Any
    description: str
    choices: tuple[str, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether it has several values, which the command line takes one by one."""
        return self.kind in (Kind.PATTERNS, Kind.SELECTORS, Kind.PER_FILE)

    @property
    def expected(self) -> str:
        """What a value has to be, in words."""
        return f"{self.kind.value} {', '.join(self.choices)}" if self.choices else self.kind.value


OPTIONS = (
    Option(
        "select",
        Kind.SELECTORS,
        ["ALL"],
        "Rules to check, by code, prefix or ALL; the most specific selector wins.",
    ),
    Option("ignore", Kind.SELECTORS, [], "Rules not to check."),
    Option("extend-select", Kind.SELECTORS, [], "Rules to check on top of those selected."),
    Option(
        "per-file-ignores",
        Kind.PER_FILE,
        {},
        "Rules not to check in the files that a pattern matches.",
    ),
    Option("fixable", Kind.SELECTORS, ["ALL"], "Rules whose fixes may be applied."),
    Option("unfixable", Kind.SELECTORS, [], "Rules whose fixes are never applied."),
    Option(
        "exclude",
        Kind.PATTERNS,
        list(DEFAULT_EXCLUDE),
        "Files and folders to leave out; replaces the default list.",
    ),
    Option(
        "extend-exclude", Kind.PATTERNS, [], "Files and folders to leave out on top of `exclude`."
    ),
    Option(
        "force-exclude",
        Kind.FLAG,
        False,
        "Leave out excluded files even when they are named on the command line.",
    ),
    Option("respect-gitignore", Kind.FLAG, True, "Leave out what .gitignore files leave out."),
    Option(
        "check-tests",
        Kind.FLAG,
        False,
        "Report what only costs time in tests as well: `test_*.py`, `*_test.py`, `conftest.py`.",
    ),
    Option(
        "torch-version",
        Kind.VERSION,
        None,
        "Lowest torch version the code runs with; from the project's dependencies if absent.",
    ),
    Option(
        "fail-on",
        Kind.CHOICE,
        "warning",
        "Lowest severity that makes the exit code 1.",
        ("error", "warning", "info"),
    ),
    Option(
        "num-workers",
        Kind.COUNT,
        None,
        "Worker processes that fixes give a DataLoader; from the machine's cores if absent.",
    ),
    Option(
        "amp-dtype",
        Kind.CHOICE,
        DEFAULT.amp_dtype,
        "What fixes let `torch.autocast` compute in; float16 comes with a gradient scaler.",
        ("bfloat16", "float16"),
    ),
    Option(
        "log-interval",
        Kind.COUNT,
        DEFAULT.log_interval,
        "Training steps between two log lines that fixes leave.",
    ),
    Option("output-format", Kind.CHOICE, "full", "How findings are written.", FORMATS),
    Option(
        "preview",
        Kind.FLAG,
        False,
        "Check rules that are not settled yet (there are none at present).",
    ),
    Option(
        "cache-dir",
        Kind.TEXT,
        ".torchlint_cache",
        "Folder of the cache (accepted; nothing is cached yet).",
    ),
    Option(
        "extend", Kind.TEXT, None, "A configuration file that this one builds upon, relative to it."
    ),
)
BY_KEY = {option.key: option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class Layer:
    """The values that one place sets; ``root`` is the folder that its patterns are relative to."""

    origin: str
    root: Path
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob with the folder it is relative to; ``*`` also matches ``/``, as in ruff."""

    root: Path
    glob: str

    def matches(self, path: Path) -> bool:
        """Whether the glob matches the path's last name, or the whole path below the root."""
        globs = {self.glob.rstrip("/"), self.glob.rstrip("/").replace("**/", "")}
        names = [path.name, str(path)]
        if path.is_relative_to(self.root):
            names.append(path.relative_to(self.root).as_posix())
        return any(_glob_fits(glob, names) for glob in globs)


def _glob_fits(glob: str, names: list[str]) -> bool:
    if not any(char in glob for char in "*?["):
        return glob in names  # most patterns are plain names, and compiling each costs a while
    return any(fnmatch.fnmatchcase(name, glob) for name in names)


@dataclass(frozen=True, slots=True, eq=False)  # remembered by identity: many files share them
class Settings:
    """What holds for the files of one folder; ``origins`` says which place set a key."""

    root: Path
    file: Path | None
    choices: tuple[Choice, ...]
    per_file_ignores: tuple[tuple[Pattern, tuple[str, ...]], ...]
    fixable: tuple[str, ...]
    unfixable: tuple[str, ...]
    exclude: tuple[Pattern, ...]
    default_exclude: tuple[Pattern, ...]
    force_exclude: bool
    respect_gitignore: bool
    check_tests: bool
    torch_version: str | None
    fail_on: Severity
    output_format: str
    preview: bool
    cache_dir: str
    preferences: Preferences
    values: Mapping[str, Any]
    origins: Mapping[str, str]

    def excludes(self, path: Path, *, configured: bool = True) -> bool:
        """Whether a file or folder is left out; without ``configured``, by default patterns."""
        patterns = self.exclude if configured else self.default_exclude
        return any(pattern.matches(path) for pattern in patterns)

    def reports(self, code: str, path: Path | None) -> bool:
        """Whether findings of this code are wanted in this file."""
        if not is_selected(code, self.choices):
            return False
        return path is None or not any(
            specificity(code, selectors) >= 0 and pattern.matches(path)
            for pattern, selectors in self.per_file_ignores
        )

    def may_fix(self, code: str) -> bool:
        """Whether fixes of this code may be applied."""
        return specificity(code, self.fixable) > specificity(code, self.unfixable)

    def rules(self, every: Iterable[Rule], path: Path | None) -> tuple[Rule, ...]:
        """Rules of which at least one case is wanted in this file."""
        named = [s for choice in self.choices for s in (*(choice.select or ()), *choice.extend)]
        return tuple(
            rule
            for rule in every
            if self.reports(rule.code, path)
            or any(s.startswith(rule.code) and self.reports(s, path) for s in named)
        )


class Configuration:
    """The settings of any folder: the closest configuration file holds; each is read once."""

    def __init__(
        self, working: Path, overrides: Layer, pinned: Path | None, *, isolated: bool
    ) -> None:
        self.working = working
        self.overrides = overrides
        self.isolated = isolated
        self.fixed = self._settle_file(pinned) if pinned else None
        self.known: dict[Path, Settings] = {}
        self.closest: dict[Path, Path | None] = {}
        self.read: dict[Path | None, Settings] = {}

    def of(self, folder: Path) -> Settings:
        """Return the settings that hold in a folder.

        Raises:
            ConfigError: its configuration file cannot be read or understood.

        """
        if self.fixed:
            return self.fixed
        if folder not in self.known:
            file = None if self.isolated else self._closest_file(folder)
            if file not in self.read:
                self.read[file] = self._settle_file(file)
            self.known[folder] = self.read[file]
        return self.known[folder]

    def _closest_file(self, folder: Path) -> Path | None:
        """Return the configuration file of the closest folder, from this one upwards."""
        if folder not in self.closest:
            above = folder.parent
            file = file_in(folder)
            if file is None and above != folder:
                file = self._closest_file(above)
            self.closest[folder] = file
        return self.closest[folder]

    def _settle_file(self, file: Path | None) -> Settings:
        layers = read_layers(file) if file else []
        return settle([*layers, self.overrides], file.parent if file else self.working, file)


def file_in(folder: Path) -> Path | None:
    """Return the configuration file of a folder."""
    for name in FILES:
        file = folder / name
        if file.is_file() and (name != "pyproject.toml" or _has_section(file)):
            return file
    return None


def _has_section(file: Path) -> bool:
    """Whether a pyproject.toml configures torchlint; most do not, and are not parsed."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}; make it readable or use --isolated") from None
    if b"torchlint" not in data:
        return False
    return _section(file, parse_toml(data, str(file))) is not None


def _section(file: Path, table: dict[str, Any]) -> dict[str, Any] | None:
    if file.name != "pyproject.toml":
        return table
    tool = table.get("tool", {})
    section = tool.get("torchlint") if isinstance(tool, dict) else None
    if section is not None and not isinstance(section, dict):
        raise ConfigError(f"{file}: `tool.torchlint` is not a table; write `[tool.torchlint]`")
    return section


def parse_toml(data: bytes, where: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ConfigError: it is not TOML; the message names the place.

    """
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415  most folders have nothing to parse
    else:  # pragma: no cover  Python 3.10
        import tomli as tomllib  # noqa: PLC0415

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{where}: not valid TOML: {error}; correct it") from None


def read_layers(file: Path, seen: tuple[Path, ...] = ()) -> list[Layer]:
    """Read a configuration file and those it extends; the one that is built upon comes first."""
    file = file.resolve()
    if file in seen:
        chain = " -> ".join(str(each) for each in (*seen, file))
        raise ConfigError(f"{file}: `extend` leads back to itself ({chain}); break the circle")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{file}: {error.strerror}; name a configuration file that exists"
        ) from None
    table = _section(file, parse_toml(data, str(file)))
    if table is None:
        raise ConfigError(f"{file}: there is no `[tool.torchlint]` section; add one")
    values = check_values(table, str(file))
    layers = [Layer(str(file), file.parent, values)]
    if base := values.get("extend"):
        layers = read_layers(file.parent / Path(base).expanduser(), (*seen, file)) + layers
    return layers


def check_values(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check keys and types of a table of settings, and return them.

    Raises:
        ConfigError: a key is unknown or a value is of the wrong type; the message names both.

    """
    for key, value in table.items():
        if key not in BY_KEY:
            raise ConfigError(unknown_key(key, where))
        _check_value(BY_KEY[key], value, where)
    return dict(table)


def unknown_key(key: str, where: str) -> str:
    """Say that there is no such key, and which one may have been meant."""
    import difflib  # noqa: PLC0415  only on the way to an error

    close = difflib.get_close_matches(key.replace("_", "-").lower(), BY_KEY, n=1)
    hint = f"; did you mean `{close[0]}`?" if close else ""
    return f"{where}: unknown key `{key}`{hint}; `torchlint config` lists the keys"


def _check_value(option: Option, value: Any, where: str) -> None:
    if not _fits(option, value):
        raise ConfigError(f"{where}: `{option.key}` is {value!r}; it has to be {option.expected}")
    if option.kind is Kind.SELECTORS:
        lists: Iterable[list[str]] = [value]
    elif option.kind is Kind.PER_FILE:
        lists = value.values()
    else:
        return
    try:
        for selector in (each for one in lists for each in one):
            check_selector(selector, f"`{option.key}`")
    except UsageError as error:
        raise ConfigError(f"{where}: {error}") from None


def _fits(option: Option, value: Any) -> bool:
    if option.kind is Kind.FLAG:
        return isinstance(value, bool)
    if option.kind is Kind.COUNT:
        return isinstance(value, int) and not isinstance(value, bool) and value > 0
    if option.kind is Kind.CHOICE:
        return value in option.choices
    if option.kind is Kind.PER_FILE:
        return isinstance(value, dict) and all(_is_list(each) for each in value.values())
    if option.kind in (Kind.PATTERNS, Kind.SELECTORS):
        return _is_list(value)
    if option.kind is Kind.VERSION:
        return isinstance(value, str) and is_version(value)
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def is_version(text: str) -> bool:
    """Whether the text is a version, or ``any``."""
    if text == "any":
        return True
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415  only where one is given

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def settle(layers: list[Layer], root: Path, file: Path | None) -> Settings:
    """Merge layers into settings: a later layer wins, the ``extend-`` keys add up."""
    merged = {option.key: option.default for option in OPTIONS}
    origins = {option.key: "default" for option in OPTIONS}
    roots = {option.key: root for option in OPTIONS}
    extended: list[Pattern] = []
    for layer in layers:
        for key, value in layer.values.items():
            merged[key], origins[key], roots[key] = value, layer.origin, layer.root
        extended += (Pattern(layer.root, g) for g in layer.values.get("extend-exclude", ()))
    merged["extend-exclude"] = [pattern.glob for pattern in extended]
    return Settings(
        root=root,
        file=file,
        choices=tuple(_choices(layers)),
        per_file_ignores=tuple(
            (Pattern(roots["per-file-ignores"], glob), tuple(selectors))
            for glob, selectors in merged["per-file-ignores"].items()
        ),
        fixable=tuple(merged["fixable"]),
        unfixable=tuple(merged["unfixable"]),
        exclude=(*(Pattern(roots["exclude"], glob) for glob in merged["exclude"]), *extended),
        default_exclude=tuple(Pattern(root, glob) for glob in DEFAULT_EXCLUDE),
        force_exclude=merged["force-exclude"],
        respect_gitignore=merged["respect-gitignore"],
        check_tests=merged["check-tests"],
        torch_version=merged["torch-version"],
        fail_on=Severity[merged["fail-on"].upper()],
        output_format=merged["output-format"],
        preview=merged["preview"],
        cache_dir=merged["cache-dir"],
        preferences=Preferences(merged["num-workers"], merged["amp-dtype"], merged["log-interval"]),
        values=merged,
        origins=origins,
    )


def _choices(layers: list[Layer]) -> Iterable[Choice]:
    yield Choice(select=tuple(BY_KEY["select"].default))
    for layer in layers:
        select = layer.values.get("select")
        yield Choice(
            None if select is None else tuple(select),
            tuple(layer.values.get("extend-select", ())),
            tuple(layer.values.get("ignore", ())),
        )
