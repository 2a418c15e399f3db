"""What a script sets for the whole process: switches of torch, by the values they are set to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Text, Truth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value
    from torchlint.syntax.module import Module

# Attributes of torch's modules that switch something, by their last names.
ATTRIBUTES = frozenset({"benchmark", "deterministic", "allow_tf32", "fp32_precision"})
CALLS = frozenset({
    "torch.set_float32_matmul_precision", "torch.get_float32_matmul_precision",
    "torch.use_deterministic_algorithms", "torch.set_default_dtype",
    "torch.set_default_tensor_type",
})  # fmt: skip
OFF = (Truth(value=False), Text("highest"), Text("ieee"))


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """A switch of torch that is set or read, by its qualified name.

    ``node`` is the statement or call, ``written`` what it is set to, None where it is read.
    """

    name: str
    value: Value
    node: cst.Assign | cst.Call | cst.Attribute
    written: cst.BaseExpression | None
    file: int

    @property
    def is_off(self) -> bool:
        """Whether it is certainly switched off: an option that is off may be switched on."""
        return bool(self.value) and all(one in OFF for one in self.value)


def settings(evaluation: Evaluation) -> tuple[Setting, ...]:
    """Return where connected files set or read switches, in the order of files and text."""
    found: list[Setting] = []
    for file, module in enumerate(evaluation.files.modules):
        own = [*_attributes(evaluation, file), *_calls(evaluation, file)]
        found += sorted(own, key=lambda one: module.index.order(one.node))
    return tuple(found)


def _attributes(evaluation: Evaluation, file: int) -> Iterator[Setting]:
    """``torch.backends.cudnn.benchmark = True``, also beside others in one statement."""
    module = evaluation.module(file)
    if not ATTRIBUTES & module.index.named.keys():
        return
    for node in module.index.of(cst.Attribute):
        if node.attr.value not in ATTRIBUTES:
            continue
        for one in evaluation.value(node.value):
            if isinstance(one, Library) and one.name.startswith("torch.backends"):
                name = f"{one.name}.{node.attr.value}"
                yield _stored(evaluation, file, node, name)


def _stored(evaluation: Evaluation, file: int, node: cst.Attribute, name: str) -> Setting:
    module = evaluation.module(file)
    above = module.parent(node)
    place = None
    if isinstance(above, cst.Element):
        several = module.parent(above)
        assert isinstance(several, cst.Tuple | cst.List)
        place, above = [one.value for one in several.elements].index(node), module.parent(several)
    statement = module.parent(above) if isinstance(above, cst.AssignTarget) else None
    if not isinstance(statement, cst.Assign):
        return Setting(name, (), node, None, file)
    written = statement.value
    if place is not None:
        if not isinstance(written, cst.Tuple) or place >= len(written.elements):
            return Setting(name, evaluation.sets.unknown, statement, written, file)
        written = written.elements[place].value
    return Setting(name, evaluation.value(written), statement, written, file)


def _calls(evaluation: Evaluation, file: int) -> Iterator[Setting]:
    """``torch.set_float32_matmul_precision("high")``; ``setattr(cudnn, "benchmark", True)``."""
    module = evaluation.module(file)
    lasts = {name.rpartition(".")[2] for name in CALLS} | {"setattr"}
    if not lasts & module.index.named.keys():
        return
    values = evaluation.values
    for call in module.index.of(cst.Call):
        for one in values.get(id(call.func), ()):
            if not isinstance(one, Library):
                continue
            given = [arg.value for arg in call.args]
            if one.name in CALLS:
                written = given[0] if given else None
                value = values.get(id(written), ()) if written else ()
                yield Setting(one.name, value, call, written, file)
            elif one.name == "builtins.setattr" and len(given) == 3:
                match values.get(id(given[0]), ()), values.get(id(given[1]), ()):
                    case (Library(name=owner),), (Text(value=str(word)),) if word in ATTRIBUTES:
                        value = values.get(id(given[2]), ())
                        yield Setting(f"{owner}.{word}", value, call, given[2], file)


def apart(module: Module, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether only one of two nodes runs, in branches of a condition, or they share no scope."""
    index = module.index
    for above in index.ancestors(one):
        if isinstance(above, (cst.If, cst.Try)) and index.inside(other, above):
            return not (index.inside(other, above.body) and index.inside(one, above.body))
        if isinstance(above, cst.FunctionDef) and not index.inside(other, above):
            return True
    return False
