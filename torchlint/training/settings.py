"""What a script sets for the whole process: switches of torch, by the values they are set to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Text, Truth, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value

# Attributes of torch's modules that switch something, by their last names, and functions.
ATTRIBUTES = frozenset({"benchmark", "deterministic", "allow_tf32", "fp32_precision"})
CALLS = ("torch.set_float32_matmul_precision", "torch.use_deterministic_algorithms")
OFF = (Truth(value=False), Text("highest"), Text("ieee"))


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """A switch of torch that is set, by its qualified name."""

    name: str
    value: Value
    node: cst.CSTNode
    file: int

    @property
    def is_off(self) -> bool:
        """Whether it is certainly switched off: an option that is off may be switched on."""
        return bool(self.value) and all(one in OFF for one in self.value)


def settings(evaluation: Evaluation) -> tuple[Setting, ...]:
    """Return where connected files set switches, in the order of files and text."""
    found: list[Setting] = []
    for file, module in enumerate(evaluation.files.modules):
        own = [*_attributes(evaluation, file), *_calls(evaluation, file)]
        found += sorted(own, key=lambda one: module.index.order(one.node))
    return tuple(found)


def _attributes(evaluation: Evaluation, file: int) -> Iterator[Setting]:
    """``torch.backends.cudnn.benchmark = True``; beside others it may be set to anything."""
    index = evaluation.index(file)
    for target in index.of(cst.AssignTarget) if ATTRIBUTES & index.named.keys() else ():
        statement = index.parent(target)
        assert isinstance(statement, cst.Assign)
        for node in index.below(target, cst.Attribute):
            for one in evaluation.value(node.value) if node.attr.value in ATTRIBUTES else ():
                if isinstance(one, Library) and one.name.startswith("torch.backends"):
                    is_alone = target.target is node
                    value = evaluation.value(statement.value) if is_alone else (Unknown(),)
                    yield Setting(f"{one.name}.{node.attr.value}", value, statement, file)


def _calls(evaluation: Evaluation, file: int) -> Iterator[Setting]:
    """``torch.set_float32_matmul_precision("high")``."""
    index = evaluation.index(file)
    is_named = any(name.rpartition(".")[2] in index.named for name in CALLS)
    for call in index.of(cst.Call) if is_named else ():
        name = evaluation.library(call.func)
        if name in CALLS and call.args:
            yield Setting(name, evaluation.value(call.args[0].value), call, file)
