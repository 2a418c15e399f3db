"""Which packages a run needs, and which of them are there."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = Path(__file__).parents[1] / "lease_packages.txt"
CARRIED, OPTIONAL = "carried", "optional"


def listed() -> dict[str, str]:
    """Return the names in lease_packages.txt, and what is said of each."""
    lines = (line.split() for line in FILE.read_text(encoding="utf-8").splitlines())
    return {words[0]: " ".join(words[1:]) for words in lines if words and words[0] != "#"}


def found(names: Iterable[str]) -> dict[str, str | None]:
    """Return the version of each package, None where it is missing."""
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def missing() -> list[str]:
    """Return what is said of the packages that are missing and needed: name and remedy."""
    known = listed()
    absent = [name for name, version in found(known).items() if version is None]
    return [
        f"the package {name} is missing: {_remedy(known[name], name)}"
        for name in absent
        if known[name] != OPTIONAL
    ]


def _remedy(said: str, name: str) -> str:
    if said == CARRIED:
        return "run `lease.py --carry` where there is a network, and carry the folder `carry`"
    return f"install it, or unpack its wheel into carry/packages ({name})"


def unlisted() -> list[str]:
    """Return the packages here that neither stand in lease_packages.txt nor are needed by one."""
    allowed: set[str] = set()
    waiting = [_plain(name) for name in listed()]
    while waiting:
        name = waiting.pop()
        if name not in allowed:
            allowed.add(name)
            waiting += _needed_by(name)
    names = {_plain(each.metadata["Name"]) for each in metadata.distributions()}
    return sorted(names - allowed)


def _needed_by(name: str) -> list[str]:
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    return [
        _plain(re.split(r"[^\w.-]", line, maxsplit=1)[0])
        for line in lines
        if "extra ==" not in line
    ]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
