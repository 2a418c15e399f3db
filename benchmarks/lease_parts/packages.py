"""Which packages a run needs, and which of them are there."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILE = Path(__file__).parents[1] / "lease_packages.txt"
REQUIRED = re.compile(r"([\w.-]+)\s*(?:\[([^]]*)\])?")  # a name and its extras
EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)""")
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
    allowed: set[tuple[str, str]] = set()
    waiting = [(_plain(name), "") for name in listed()]
    while waiting:
        if (one := waiting.pop()) not in allowed:
            allowed.add(one)
            waiting += _needed_by(*one)
    names = {_plain(each.metadata["Name"]) for each in metadata.distributions()}
    return sorted(names - {name for name, _ in allowed})


def _needed_by(name: str, extra: str) -> Iterator[tuple[str, str]]:
    """Yield what a package needs, or one of its extras: names, each with no extra or one."""
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        asked = EXTRA.search(line)
        if (asked[1] if asked else "") == extra and (said := REQUIRED.match(line)):
            yield from (
                (_plain(said[1]), each.strip()) for each in ["", *(said[2] or "").split(",")]
            )


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
