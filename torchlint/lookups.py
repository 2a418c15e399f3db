"""Which functions and classes a project finds by names that it computes: ``getattr(nets, name)``.

Read off the texts, unparsed.  A name is looked up in the names of a file itself, as by
``globals()``, or in those of a module: of one that the file imports, or of one that it gets as a
value, be it from another file or because it is imported by a name as well.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchlint.imports import bound_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.imports import Imports

# What imports modules by names that stand anywhere.
_IMPORTERS = (
    "import_module", "__import__", "spec_from_file", "SourceFileLoader", "runpy", "pkgutil",
)  # fmt: skip
# What looks names up in the file itself.
_OWN = re.compile(
    r"(?:\b(?:globals|vars|locals)\(\)|sys\.modules\[__name__\]|\bFire\(\s*\))"
    r"(?:\[\s*[fr]?[\"'](\w*))?"
)
# The same, unless what it gives is data: it is not called.
_EVALUATES = re.compile(r"^([^#\n]*)(?<![\w.])(?:eval|exec)\(", re.MULTILINE)
_DATA = re.compile(r"\b(?:if|in|and|or|not) $|\b(?:int|float|list|tuple|dict|set|len|append)\($")
_KEPT = re.compile(r"^\s*(\w+) = $")
# What looks names up in what stands in the group that matches.
_IN = re.compile(
    r"\b(?:vars|getmembers)\(([\w.]+)|\bgetattr\(\s*(?:([\w.]+),\s*[^\"'\s]|([\w.]+[(\[]))"
)
_IN_DICT = re.compile(r"([\w.]+)\.(?:__dict__|__getattribute__)")
_IN_ANY = re.compile(r"(?<!\bdel )\bsys\.modules\[(?!__name__)[^\]\n]*\](?! = )|\battrgetter\b")
# What is only asked about, or written down, is not called.
_ASKED = re.compile(r"\b(?:callable|isinstance|print|add_scalar)\((?:[^()]*,\s*)?getattr\(")
_HINTS = (
    "getattr", "globals", "vars(", "locals", "__dict__", "sys.modules", "getmembers", "Fire(",
    "eval(", "exec(",
)  # fmt: skip
# Objects and their options, by their names: no modules.
_OBJECTS = frozenset({"self", "cls", "args", "opt", "opts", "cfg", "config"})
_STAR = re.compile(r"^[ \t]*from[ \t]+[\w.]+[ \t]+import[ \t]*\*", re.MULTILINE)
_IMPORTS = re.compile(
    r"(?<!import )\b(?:import_module|__import__|spec_from_file\w*|SourceFileLoader|run_path"
    r"|run_module|iter_modules|walk_packages)\b(?:\(\s*[rRfF]?[\"']([^\"'\n]*)[\"']\s*([,)]?))?"
)
_BY_OPTION = re.compile(r"\b(?:import_module|__import__)\(\s*(?:args|opts?|options|FLAGS)\b")
# What finds all that a module has, or what the command line says.
_ANY_NAME = re.compile(
    r"\.__dict__|\b(?:vars|dir|getmembers)\(|\bgetattr\([^\n]*\b(?:args|opts?|options|FLAGS)\."
)
_LISTING = ("listdir", "glob", "scandir", "iterdir", "iter_modules", "walk_packages", "os.walk")
_STRING = re.compile(r"[\"']([\w./]+)")


class _Lookups(NamedTuple):
    """What one text looks names up in."""

    own: frozenset[str]  # its own names, that start in one of these ways
    evaluated: bool  # and, by them, those of the modules that it imports
    subjects: frozenset[str]  # ``nets``, ``lib.nets``
    anywhere: bool


_NONE = _Lookups(own=frozenset(), evaluated=False, subjects=frozenset(), anywhere=False)


def imports_by_name(imports: Imports) -> bool:
    """Whether a project imports modules by names that stand anywhere."""
    return bool(imports.having(_IMPORTERS))


def is_found(path: str, name: str, imports: Imports) -> bool:
    """Whether a project may find a function or class of a module by a name that it computes."""
    return any(_finds(file, path, name, imports) for file in sorted(imports.having(_HINTS)))


def _finds(file: str, path: str, name: str, imports: Imports) -> bool:
    """Whether one file may find it."""
    lookups = _lookups(imports.text(file))
    if lookups is _NONE:
        return False
    if any(map(name.startswith, lookups.own)) and _has(file, path, name, imports):
        return True
    if lookups.evaluated and path in imports.targets(file):
        return True
    if lookups.anywhere and (file in imports.users(path) or imports_by_name(imports)):
        return True
    return any(_finds_in(file, one, path, name, imports) for one in lookups.subjects)


@lru_cache(4096)  # asked of each file of a project for each definition
def _lookups(text: str) -> _Lookups:
    """Read a text; each pattern, which is slow to find nothing, where its words occur."""
    asked = _ASKED.sub("", text) if "getattr(" in text else text
    subjects = {one for found in _IN.findall(asked) for one in found if one}
    if "__dict__" in asked or "__getattribute__" in asked:
        subjects.update(_IN_DICT.findall(asked))
    evaluated = ("eval(" in text or "exec(" in text) and _evaluates(text)
    own = frozenset((*_OWN.findall(asked), *([""] if evaluated else ())))
    several = "sys.modules[" in asked or "attrgetter" in asked
    anywhere = several and _IN_ANY.search(asked) is not None
    if not (subjects or evaluated or own or anywhere):
        return _NONE
    return _Lookups(own, evaluated, frozenset(subjects), anywhere)


def _evaluates(text: str) -> bool:
    """Whether a text gets functions or classes by ``eval``, and not only data."""
    if "def eval(" in text:
        return False
    for before in _EVALUATES.findall(text):
        kept = _KEPT.match(before)
        if kept is not None and re.search(rf"\b{kept[1]}\(", text) is None:
            continue
        if _DATA.search(before) is None:
            return True
    return False


def _has(file: str, path: str, name: str, imports: Imports) -> bool:
    """Whether what a module has under a name is, under the same, in another file as well."""
    if file == path:
        return True
    text = imports.text(file)
    if file not in imports.users(path):
        return False
    return re.search(rf"\b{name}\b", text) is not None or _STAR.search(text) is not None


def _finds_in(file: str, subject: str, path: str, name: str, imports: Imports) -> bool:
    """Whether a name that is looked up in something of a file may be found in a module."""
    text, head = imports.text(file), subject.partition(".")[0]
    if subject in _OBJECTS:
        return False
    if subject[-1] in "([":
        may_import = "import" in subject or "module" in subject
    elif head in bound_names(text):
        return any(_has(one, path, name, imports) for one in _meant(file, subject, imports))
    else:
        may_import = _may_hold_module(subject, text)
        if any(_has(one, path, name, imports) for one in imports.handed_on):
            return True
    if not may_import or not (_ANY_NAME.search(text) or _is_told(name, imports)):
        return False
    return is_imported_by_name(path, imports)


def _may_hold_module(variable: str, text: str) -> bool:
    """Whether a variable may hold what is imported by a name: it is a parameter, or set so."""
    held = rf"\bdef \w+\([^)]*\b{variable}\b|\b{variable}\s*=.*(?i:import|module|load)\w*\("
    return re.search(held, text) is not None


def _meant(file: str, subject: str, imports: Imports, most: int = 3) -> Iterator[str]:
    """Yield the modules that a dotted name may stand for, in a file that imports its first word."""
    head, _, rest = subject.partition(".")
    for dotted in bound_names(imports.text(file)).get(head, ()):
        found = imports.find(file, f"{dotted}.{rest}" if rest else dotted)
        if found is None:
            continue  # of a library
        if not found[1]:
            yield found[0]
        elif most and found[0] != file:
            yield from _meant(found[0], found[1], imports, most - 1)


def is_imported_by_name(path: str, imports: Imports) -> bool:
    """Whether a project may import a module by a name that it computes, or has in a text."""
    return any(_imports_it(file, path, imports) for file in sorted(imports.having(_IMPORTERS)))


def _imports_it(file: str, path: str, imports: Imports) -> bool:
    text = imports.text(file)
    folder = os.path.dirname(file)  # noqa: PTH120 - as in `Imports`
    parts = Path(path).relative_to(imports.root).with_suffix("").parts
    packages = _runs(parts[:-1])
    computed = False
    for written, ends in _IMPORTS.findall(text):
        start = re.split(r"[{%]", written)[0]
        if written and ends and start == written:
            found = imports.find(file, f"@{written}" if written[0] == "." else written)
            if found is not None and found[0] == path:
                return True
        elif start[:1] == "." and path.startswith(f"{folder}{os.sep}"):
            return True
        elif package := start.rpartition(".")[0].strip("."):
            if package in packages:
                return True
        else:
            computed = True
    if not computed:
        return False
    if _BY_OPTION.search(text) is not None:
        return True
    if path.startswith(f"{folder}{os.sep}") and any(word in text for word in _LISTING):
        return True
    texts = {one.replace("/", ".").strip(".") for one in _STRING.findall(text)}
    return not packages.isdisjoint(texts) or _is_told(parts[-1], imports)


def _runs(parts: tuple[str, ...]) -> frozenset[str]:
    """Return the dotted names that some of the folders above a module may have: ``lib.nets``."""
    places = range(len(parts))
    return frozenset(".".join(parts[i : j + 1]) for i in places for j in places[i:])


def _is_told(name: str, imports: Imports) -> bool:
    """Whether a text, a configuration or a string, names a module, or what is in one."""
    return name in imports.words_of_texts or any(
        re.search(rf"[\"'./:]{name}[\"'.]", imports.text(file)) for file in imports.having((name,))
    )
