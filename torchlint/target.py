"""Which torch versions the code has to run with, from what the project declares.

The answer is a lower bound, or nothing (``any``).  It never comes from what is installed:
findings are the same in pre-commit, in CI and on a laptop.
"""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packaging.version import Version

    from torchlint.config import Settings

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
ROOTS = (".git", ".hg")
# `name = "torch"` and the version that follows it, in the TOML of a lock file
LOCKED = re.compile(r'^name = "torch"\r?\n(?:(?!\[).*\r?\n)*?version = "([^"]+)"', re.MULTILINE)
TORCH = re.compile(r"(?i)(?:py)?torch\s*(?=[\[<>=!~;@#,(\s\\]|$)")
WHEEL = re.compile(r"/torch-([0-9][^-/]*)-")
CONDA_FILE = re.compile(r"(?i).*(?:conda|env).*\.ya?ml")  # `environment.yml`, `conda_env.yml`
CONDA = re.compile(
    r"""^\s*-\s*["']?(?:[\w./-]+::)?(?:pytorch|pytorch-gpu|pytorch-cpu)\s*([<>=!~0-9][^"'#]*)"""
)
CONDA_PIP = re.compile(r"""^\s*-\s*["']?(torch\b[^"'#]*)""")
MAJOR = 2  # code for this torch and later ones is served by the advice for any


@dataclass(frozen=True, slots=True)
class Target:
    """A lower bound of the torch version (None: not known), and where it was found."""

    version: Version | None
    origin: str
    floor: bool = False  # no more than that: torch 2 is supported as well
    every: bool = False  # `any` was asked for: each version counts, whatever the code needs

    def __str__(self) -> str:
        """Return the bound as it is written in configuration."""
        return "any" if self.version is None else str(self.version)


class Targets:
    """The target of any folder; each folder is looked at once."""

    def __init__(self, *, isolated: bool) -> None:
        self.isolated = isolated
        self.found: dict[Path, Target] = {}
        self.declared: dict[Path, Target | None] = {}
        self.tops: dict[Path, bool] = {}
        self.home = _home()
        self.warnings: list[str] = []

    def of(self, folder: Path, settings: Settings) -> Target:
        """Return the target of the files of a folder.

        A setting wins; then the declarations of the closest folder that has some, from this
        folder up to the repository's root; of several bounds there, the lowest.
        """
        if settings.torch_version is not None:
            every = settings.torch_version == "any"
            version = None if every else _version(settings.torch_version)
            return Target(version, settings.origins["torch-version"], every=every)
        if self.isolated:
            return Target(None, "--isolated: nothing is read")
        if folder not in self.found:
            unknown = Target(None, "no bound on torch is declared")
            targets = map(self._declared, self._upwards(folder))
            self.found[folder] = next((target for target in targets if target), unknown)
        return self.found[folder]

    def _upwards(self, folder: Path) -> Iterator[Path]:
        """Folders of the project from the inside out; a home folder is not a project."""
        for here in (folder, *folder.parents):
            if here in (self.home, here.parent):
                return
            yield here
            if here not in self.tops:
                self.tops[here] = any((here / name).exists() for name in ROOTS)
            if self.tops[here]:
                return

    def _declared(self, folder: Path) -> Target | None:
        if folder not in self.declared:
            self.declared[folder] = self._lowest(_metadata(folder))
        return self.declared[folder]

    def _lowest(self, metadata: Iterable[tuple[Path, Any]]) -> Target | None:
        """Return the lowest bound that files of a folder declare."""
        found = list(self._requirements(metadata))
        bounds = [
            (bound, f"{file}: {text.strip()}", is_floor(text))
            for file, text in found
            if (bound := lower_bound(text)) is not None
        ]
        pinned = any(bound.major < MAJOR and not floor for bound, _, floor in bounds)
        if not bounds:
            return None
        version, origin, floor = min(bounds, key=lambda each: each[0])
        return Target(version, origin, floor and not pinned)

    def _requirements(self, metadata: Iterable[tuple[Path, Any]]) -> Iterator[tuple[Path, str]]:
        """Yield every requirement on torch of some files, as text, with the file it is in."""
        for file, reader in metadata:
            try:
                found = list(reader(file))
            except (OSError, UnicodeDecodeError, ConfigError, ValueError, RecursionError) as error:
                self.warnings.append(f"{file}: not read for the torch version: {error}")
                continue
            for text in found:
                yield file, text


def _names(folder: Path) -> list[str]:
    """Return what a folder holds, sorted; nothing where it cannot be read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _metadata(folder: Path) -> Iterator[tuple[Path, Any]]:
    readers = {
        "pyproject.toml": read_pyproject,
        "setup.cfg": read_setup_cfg,
        "setup.py": read_setup_py,
        **dict.fromkeys(LOCKS, read_lock),
    }
    names = _names(folder)
    for name, reader in readers.items():
        if name in names and (folder / name).is_file():
            yield folder / name, reader
    listed = [folder / name for name in fnmatch.filter(names, "requirement*.txt")]
    if "requirements" in names:
        listed += sorted((folder / "requirements").glob("*.txt"))
    for file in listed:
        yield file, read_requirements
    for name in filter(CONDA_FILE.fullmatch, names):
        yield folder / name, read_conda


def lower_bound(text: str) -> Version | None:
    """Return the lowest version that a requirement on torch admits, None where it names none."""
    if at := text.find("@") + 1:
        wheel = WHEEL.search(text, at)
        return _version(wheel[1].split("%2B")[0].split("+")[0]) if wheel else None
    unmarked = text.partition(";")[0]
    specifiers = re.sub(r"^[^\[<>=!~;0-9]*(\[[^\]]*\])?", "", unmarked).strip(" ()\t\r\n")
    bounds = [_one_bound(part.strip()) for part in specifiers.split(",")]
    return max((bound for bound in bounds if bound is not None), default=None)


def is_floor(text: str) -> bool:
    """Whether a requirement on torch admits versions of torch 2, such as `>=1.8,!=1.9`."""
    unmarked = re.sub(
        r"<=?\s*v?(?!2(\.0)*\s*(,|$))[2-9]", "", text.partition(";")[0]
    )  # `<3` is none
    return ">" in unmarked and not re.search(r"<|(?<![>!])=|~|\^|\*|@", unmarked)


def _one_bound(specifier: str) -> Version | None:
    """Lower bound of `>=2.0`, `==1.13.*`, conda's `=1.7`, poetry's `^2` or a bare version."""
    match = re.match(r"(>=|===?|=|~=|~|\^|>)?\s*v?([0-9]+(?:\.[0-9]+)*)", specifier)
    return _version(match[2]) if match else None


def _version(text: str) -> Version | None:
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415  files with torch only

    try:
        return Version(text)
    except InvalidVersion:
        return None


def _torch_only(requirements: Iterable[Any]) -> Iterator[str]:
    for text in requirements:
        if isinstance(text, str) and TORCH.match(text.strip()):
            yield text.strip()


def read_requirements(file: Path, seen: frozenset[Path] = frozenset()) -> Iterator[str]:
    """Yield the torch requirements of a requirements file and of those it includes."""
    text = file.read_text("utf-8-sig").replace("\\\n", " ")
    for written in text.splitlines():
        line = re.sub(r"(^|\s)#.*", "", written).partition(" --")[0].strip()
        if include := re.match(r"(?:-r|-c|--requirement|--constraint)[\s=]+(\S+)", line):
            other = (file.parent / include[1]).resolve()
            if other not in seen and other.is_file():
                yield from read_requirements(other, seen | {file.resolve(), other})
        elif WHEEL.search(line) and "@" not in line:
            yield f"torch @ {line}"
        else:
            yield from _torch_only([line])


def read_pyproject(file: Path) -> Iterator[str]:
    """Yield the torch requirements of a pyproject.toml, of every table that declares some."""
    from torchlint.config import parse_toml  # noqa: PLC0415  config imports the registry

    data = file.read_bytes()
    if b"torch" not in data:
        return
    table = parse_toml(data, str(file))
    yield from _in_tables(table)


def _in_tables(table: dict[str, Any]) -> Iterator[str]:
    project, tool = _table(table, "project"), _table(table, "tool")
    yield from _torch_only(_list(project.get("dependencies")))
    tables = (_table(project, "optional-dependencies"), _table(table, "dependency-groups"))
    for group in tables:
        for entries in group.values():
            yield from _torch_only(_list(entries))
    for name in ("dev-dependencies", "constraint-dependencies"):
        yield from _torch_only(_list(_table(tool, "uv").get(name)))
    poetry = _table(tool, "poetry")
    groups = [_table(poetry, "group", name) for name in _table(poetry, "group")]
    for owner in (poetry, *groups):
        for name in ("dependencies", "dev-dependencies"):
            yield from _poetry(_table(owner, name).get("torch"))


def _poetry(value: Any) -> Iterator[str]:
    """Yield poetry's forms of a dependency: a string, a table, or a list of tables."""
    if isinstance(value, list):
        for each in value:
            yield from _poetry(each)
    elif isinstance(value, dict):
        yield from _poetry(value.get("version", value.get("url") and f"@ {value['url']}"))
    elif isinstance(value, str):
        for alternative in value.split("||"):
            yield f"torch {alternative.strip()}"


def _table(table: dict[str, Any], *path: str) -> dict[str, Any]:
    for key in path:
        below = table.get(key)
        table = below if isinstance(below, dict) else {}
    return table


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read_setup_cfg(file: Path) -> Iterator[str]:
    """Yield the torch requirements of a setup.cfg."""
    text = file.read_text("utf-8")
    if "torch" not in text:
        return
    import configparser  # noqa: PLC0415  few projects still have one

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error).splitlines()[0]) from None
    values = [parser.get("options", "install_requires", fallback="")]
    if parser.has_section("options.extras_require"):
        values += dict(parser.items("options.extras_require")).values()
    for value in values:
        yield from _torch_only(value.replace("#", "\n#").splitlines())


def read_setup_py(file: Path) -> Iterator[str]:
    """Yield the torch requirements among the strings of a setup.py, which is never run."""
    data = file.read_bytes()
    if b"torch" not in data:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(data)))
    except (SyntaxError, MemoryError) as error:
        raise ValueError(str(error)) from None
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    for text in texts:
        if isinstance(text, str):
            yield from _torch_only(text.splitlines())


def read_conda(file: Path) -> Iterator[str]:
    """Yield the torch requirements of a conda environment, from its lines."""
    text = file.read_text("utf-8")
    if "dependencies:" not in text:
        return  # another file with such a name: the settings of a simulator's environment
    for line in text.splitlines():
        if conda := CONDA.match(line):
            # `=1.7.1=py3.8_cuda11.0`: what follows the second `=` is a build, not a version
            version = re.sub(r"(=+[0-9.]+)=.*", r"\1", conda[1])
            yield f"pytorch {version.strip()}"
        elif pip := CONDA_PIP.match(line):
            yield from _torch_only([pip[1]])


def read_lock(file: Path) -> Iterator[str]:
    """Yield the locked torch versions; a lock has thousands of lines, so it is not parsed."""
    for match in LOCKED.finditer(file.read_text("utf-8")):
        yield f"torch=={match[1]}"
