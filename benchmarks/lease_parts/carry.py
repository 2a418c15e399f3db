"""Fetches the packages that a lease's machine lacks into the folder `carry/packages`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from lease_parts import packages
from lease_parts.plan import ROOT

FOLDER = ROOT / "carry" / "packages"
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")


def carry() -> int:
    """Download wheels for Python 3.12 on Linux and unpack them; return pip's exit code."""
    names = [name for name, said in packages.listed().items() if said == packages.CARRIED]
    with tempfile.TemporaryDirectory() as place:
        line = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        line += ["--python-version", "3.12", "--dest", place]
        line += [word for platform in PLATFORMS for word in ("--platform", platform)]
        if code := subprocess.run([*line, *names], check=False).returncode:
            print(f"error: {', '.join(names)}: pip could not download them", file=sys.stderr)
            return code
        for wheel in sorted(Path(place).glob("*.whl")):
            with zipfile.ZipFile(wheel) as content:
                content.extractall(FOLDER)
            print(f"{wheel.name} is in {FOLDER}")
    return 0
