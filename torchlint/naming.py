"""Who may use a function or class of a module: read off the texts of its project, unparsed.

Only of a project that is started, and not installed: what is installed is for others to use.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.imports import MARKS, VCS, is_marked
from torchlint.lookups import imports_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.imports import Imports

_STARTED = ("__main__", "parse_args(")
_EPOCHS = re.compile(r"^(?:for|while)\b[^\n]*epoch", re.MULTILINE | re.IGNORECASE)
_METADATA = {
    # unless it only compiles extensions for the scripts beside it
    "setup.py": r"\A(?![\s\S]*\bext_modules\b)|packages|py_modules|\bpbr\b",
    "setup.cfg": r"^\[(metadata|options)\]",
    "pyproject.toml": r"^\[(build-system|project|tool\.(poetry|flit|pdm))\b",
}
# What finds functions and classes by names that stand anywhere.
_LOADERS = (
    "locate(", "jsonargparse", "LightningCLI", "import gin",
    "__subclasses__", "__init_subclass__", "entry_points",
)  # fmt: skip
_WORD = re.compile(r"\w+")
_SEVERAL = re.compile(r"\bclass\s+\w+\s*\(([^),]*,[^)]*)\)")  # bases of one class
# A name that is put together: ``getattr(self, "train_" + kind)``.  A variable holds a whole one.
_COMPOSED = re.compile(
    r"\b(?:getattr|methodcaller)\((?!\s*[^,()]+,\s*(?:[\w.]+|[\"'][^\"']*[\"'])\s*[,)])([^)\n]*)"
)
_TEXT = re.compile(r"[\"']([^\"'\n]*)[\"']")
_FILLED = re.compile(r"%\w|\{[^{}]*\}")
_EXPORTS = re.compile(r"^__all__\s*(?::[^=\n]*)?\+?=\s*[\[(][^\])]*[\])]", re.MULTILINE)
# Packages that a setup.py names, or looks for: folders with an `__init__.py` all the way down.
_PACKAGES = re.compile(r"\bpackages\s*=\s*\[([^\]]+)\](?!\s*\+)")
_LOOKED_FOR = re.compile(r"\bfind_packages\(\s*(?:\)|exclude|include)")
_BESIDE_PACKAGES = re.compile(r"py_modules|package_dir|namespace|\bscripts\s*=")


def is_closed(path: str, imports: Imports) -> bool:
    """Whether only the scripts of a project use a module."""
    return (
        path in imports.files
        and os.path.basename(path) != "hubconf.py"  # noqa: PTH119 - as in `Imports`
        and is_marked(imports.root, (*VCS, *MARKS))
        and not _is_installed(Path(path), imports.root)
        and bool(imports.having(_STARTED) or imports.where(_trains))
        and not imports.having(_LOADERS)
    )


def _trains(text: str) -> bool:
    """Whether a file trains as it is run: a loop over epochs that no function holds."""
    return _EPOCHS.search(text) is not None


def without_exports(text: str) -> str:
    """Return a text without its ``__all__``: to export a name is not to use it."""
    return _EXPORTS.sub("", text) if "__all__" in text else text


def is_quoted(name: str, text: str) -> bool:
    """Whether a text has a name in quotes: ``__all__``, or a table of functions by their names."""
    return re.search(rf"[\"'.:]{name}[\"']", text) is not None


def is_mixed_in(name: str, imports: Imports) -> bool:
    """Whether a class of a project has a base of a name, and another one."""
    return name in imports.found_by(_mixed)


def _mixed(text: str) -> list[str]:
    return [word for bases in _SEVERAL.findall(text) for word in _WORD.findall(bases)]


def is_composed(name: str, imports: Imports) -> bool:
    """Whether texts that are no Python have a name, or code may put it together."""
    return name in imports.words_of_texts or any(
        _may_be(line, name) for line in imports.found_by(_COMPOSED.findall)
    )


def spellers(name: str, imports: Imports) -> Iterator[tuple[str, int]]:
    """Yield the files that write a name other than to define what has it, and how many times."""
    word, defined = re.compile(rf"\b{name}\b"), re.compile(rf"\bdef[ \t]+{name}\b")
    for file in imports.having((name,)):
        text = imports.text(file)
        if (times := len(word.findall(text)) - len(defined.findall(text))) > 0:
            yield file, times


def _may_be(composed: str, name: str) -> bool:
    """Whether a name may be put together in a line: of any texts there, each is a part of it."""
    parts = [part for text in _TEXT.findall(composed) for part in _FILLED.split(text)]
    return all(part in name for part in parts)


def _is_installed(path: Path, root: Path) -> bool:
    """Whether a folder above a file, within the project, says how to make a package of it."""
    for folder in path.parents:
        for name, says in _METADATA.items():
            try:
                text = (folder / name).read_text("utf-8", "replace")
            except OSError:
                continue
            if re.search(says, text, re.MULTILINE) is None:
                continue
            if name != "setup.py" or not _is_beside_packages(path, folder, text):
                return True
        if folder == root:
            break
    return False


def _is_beside_packages(path: Path, top: Path, setup: str) -> bool:
    """Whether a setup.py only takes packages, and a file in a folder below it is in none."""
    folders = path.relative_to(top).parts[:-1]
    if not folders or _BESIDE_PACKAGES.search(setup) is not None:
        return False
    if (named := _PACKAGES.search(setup)) is not None:
        return folders[0] not in re.findall(r"[\"'](\w+)", named[1])
    if re.search(r"\bpackages\s*=", setup) is not None and _LOOKED_FOR.search(setup) is None:
        return False
    above = path.parents[: len(folders)]
    return not all((folder / "__init__.py").is_file() for folder in above)


def _users(path: str, imports: Imports) -> frozenset[str]:
    """Return a file and those that import it, be it by way of others or by a name they compute."""
    return frozenset(imports.files) if imports_by_name(imports) else imports.users(path)


def means_one_file(path: str, name: str, imports: Imports) -> bool:
    """Whether a dotted name that a file imports has its module in one file only.

    A script's own folder comes first on the path of modules, unless another script imports it:
    where two folders have such a module, it may be either.
    """
    found = imports.find(path, name)
    if found is None or not name.endswith(f".{found[1]}"):
        return False
    if name[0] == "@":
        return True
    module = name.removesuffix(f".{found[1]}").replace(".", os.sep)
    ends = (f"{os.sep}{module}.py", f"{os.sep}{module}{os.sep}__init__.py")
    return [one for one in imports.files if one.endswith(ends)] == [found[0]]


def namers(path: str, name: str, imports: Imports) -> Iterator[str]:
    """Yield the files that may mean a function or class of a module, beside the module.

    Elsewhere than in the files that import it, the name is that of something else: unless it is
    quoted there, with its module or in a project that imports modules by their names, or the module
    imported in a way that `Imports` does not follow.  Comments name it too: who chooses a model by
    uncommenting a line uses them all.
    """
    whole, users = re.compile(rf"\b{name}\b"), _users(path, imports)
    parts = {*Path(path).relative_to(imports.root).with_suffix("").parts} - {"src", "__init__"}
    modules = "|".join(map(re.escape, parts))
    imported = rf"^[ \t]*(?:from|import)\b[^\n]*\b(?:{modules})\b"
    before = "[\"'.:]" if imports_by_name(imports) else "[.:]"
    hinted = re.compile(rf"{before}{name}[\"']|{imported}", re.MULTILINE)
    for file in imports.having((name,)) - {path}:
        text = imports.text(file)
        if whole.search(text) and (file in users or hinted.search(text)):
            yield file
    if name in imports.words_of_others:
        yield str(imports.root)
