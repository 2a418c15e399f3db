"""A file as a training script: what rules ask.

Files that imports connect are evaluated together, once; each of them is then a `Script` of its own,
and a finding stands in the file that the script is of.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from torchlint.semantics.evaluation import Evaluation
from torchlint.semantics.files import Files
from torchlint.training.conventions import suggested
from torchlint.training.effects import Effects
from torchlint.training.frequency import Frequencies, Frequency
from torchlint.training.host_reads import HostRead, host_reads

if TYPE_CHECKING:
    from collections.abc import Mapping

    import libcst as cst

    from torchlint.semantics.values import Value
    from torchlint.syntax.module import Module


class Connected:
    """Files that imports connect, by their paths relative to the project's root."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.files = Files(modules)

    @cached_property
    def evaluation(self) -> Evaluation:
        """The values of their expressions."""
        made = Evaluation(self.files, suggested)
        made.evaluate()
        return made

    @cached_property
    def frequencies(self) -> Frequencies:
        """How often their nodes run."""
        return Frequencies(self.evaluation, Effects(self.evaluation))

    def script(self, path: str) -> Script:
        """Return one of the files as a script."""
        return Script(self, self.files.paths.index(path))


class Script:
    """One file, with what is known of it together with those that it is connected to."""

    def __init__(self, connected: Connected, file: int) -> None:
        self.connected, self.file = connected, file
        self.module = connected.files.modules[file]

    def value(self, node: cst.BaseExpression) -> Value:
        """Return what an expression may be."""
        return self.connected.evaluation.values.get(id(node), ())

    def frequency(self, node: cst.CSTNode) -> Frequency:
        """Return how often a node runs."""
        return self.connected.frequencies.of(node, self.file)

    @cached_property
    def host_reads(self) -> tuple[HostRead, ...]:
        """Where the host waits for the numbers of a tensor."""
        return tuple(host_reads(self.connected.evaluation, self.file))
