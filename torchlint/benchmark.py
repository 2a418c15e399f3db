"""What is measured for a rule: `<package>.benchmarks.<rule>` declares it as `BENCHMARK`.

Importing this module imports neither libcst nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.rule import Level

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A small program with the habit that a rule finds, and how large to make it.

    ``before`` is the text of a module.  It defines ``run(steps)``, which makes so many steps and
    returns what it computed: tensors, arrays and numbers, nested as it likes.  Everything else is
    made when the module is imported, and is not timed.  Every call goes on where the last one
    ended.  The sizes are constants that are written above the text.

    The rule must find something in it.  What it is measured against is what the rule's own fixes
    make of it, the unsafe ones included; a rule without a fix says in ``after`` what it advises,
    and in ``level`` what that may change.

    ``step`` says what one step is.  ``needs_cuda`` says why a CPU has nothing to show, and keeps
    the program from being run on one.  ``gpu_sizes`` are further sizes, which fill a GPU and are
    not run on a CPU.  ``workers``: a DataLoader has processes of its own (a size named WORKERS says
    so as well).  ``compiles``: it may be silent for a minute.
    """

    before: str
    sizes: tuple[Mapping[str, int], ...]
    after: str = ""
    level: Level = Level.E0
    step: str = "training step"
    needs_cuda: str = ""
    gpu_sizes: tuple[Mapping[str, int], ...] = ()
    workers: bool = False
    compiles: bool = False
