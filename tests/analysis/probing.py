"""The vocabulary of these tests: a snippet calls ``probe(x)``, and the question is about ``x``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.program import Program
from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

_LINES = (cst.BaseSmallStatement, cst.BaseStatement, cst.MatchCase, cst.ExceptHandler,
          cst.ExceptStarHandler)  # fmt: skip
HEAD = """\
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
"""


def parsed(source: str, head: str = "") -> Program:
    """The program of a snippet."""
    return Program(head + textwrap.dedent(source))


def moved(program: Program) -> list[str]:
    """The first arguments of the loaders whose batches go to a GPU, in their order."""
    going = [call for call in program.loaders.calls if program.loaders.moves(call)]
    return [program.code(call.args[0].value) for call in going]


def probes(program: Program) -> list[cst.Call]:
    """The calls of ``probe``, in the order of the text."""
    return [
        call
        for call in program.index.of(cst.Call)
        if isinstance(call.func, cst.Name) and call.func.value == "probe"
    ]


def probed(program: Program) -> cst.BaseExpression:
    """The argument of the one call of ``probe``."""
    (call,) = probes(program)
    return call.args[0].value


def bound_to(program: Program) -> list[str]:
    """What the probed name may stand for: the line that binds it, by its text."""
    name = probed(program)
    assert isinstance(name, cst.Name)
    lines = []
    for binding in program.flow.reaching(name):
        node = binding.node
        while not isinstance(node, _LINES):
            above = program.parent(node)
            if above is None or isinstance(above, (cst.IndentedBlock, cst.Parameters)):
                break
            node = above
        lines.append(program.code(node).strip().partition("\n")[0].rstrip(";"))
    return sorted(lines)


def parsed_in(root: Path, files: dict[str, str], at: str) -> Program:
    """The program of one file of a project of these."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    program = Project(Imports(root, lambda _: False)).program(str(root / at))
    assert program is not None
    return program


def unreached_in(root: Path, source: str, files: dict[str, str], at: str = "net.py") -> bool:
    """Whether the probe in one file of a project with others is never run."""
    program = parsed_in(root, {"requirements.txt": "torch", at: source, **files}, at)
    return program.unreached.at(probed(program))
