"""Forward hooks on layers, which see all of what a layer returns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.test_code import is_test

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

HOOKS = ("_forward_hook", "_forward_pre_hook", "create_feature_extractor")
# What a file with such hooks says of a layer, or of all of its class: `block.{name}`, `"{name}"`.
_NAMES = r"""\.{name}\b|["'][^"'\n]*\b{name}\b|\bisinstance\([^()]*\b{kind}\b"""


def is_hooked_elsewhere(program: Program, name: str, kind: str) -> bool:
    """Whether a file of the project that registers hooks names a layer: one may be on it.

    By the attribute that keeps it, or by its class.  Tests hook what they look at.
    """
    if program.project is None:
        return False
    imports = program.project.imports
    names = re.compile(_NAMES.format(name=re.escape(name), kind=kind))
    return any(
        names.search(imports.text(file)) is not None
        and not is_test(Path(file), imports.text(file), imports.root)
        for file in imports.having(HOOKS)
    )
