"""Replicas: models of which each process has one, wrapped in DistributedDataParallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.derivation import sources
from torchlint.analysis.schedules import made_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.micro_batches import MicroBatches
    from torchlint.analysis.program import Program
    from torchlint.analysis.schedules import Place

REPLICA = "torch.nn.parallel.DistributedDataParallel"
_NAMES = frozenset({
    REPLICA,
    "torch.nn.parallel.distributed.DistributedDataParallel",
})  # fmt: skip
_DEPTH = 4  # functions that wrap a model, and torch.compile around it


def replicas(program: Program, node: cst.CSTNode, depth: int = 0) -> list[Place]:
    """Return the calls of torch's wrapper that a model may come from, each with its file."""
    found: list[Place] = []
    for home, one in made_of(program, node) if depth < _DEPTH else ():
        if not isinstance(one, cst.Call):
            continue
        name = home.qualified(one.func)
        if name in _NAMES:
            found.append((home, one))
        elif name == "torch.compile" and one.args:
            found += replicas(home, one.args[0].value, depth + 1)
        elif (target := home.calls.elsewhere(one)) is not None:
            for item in target.program.returns(target.function):
                if item.value is not None:
                    found += replicas(target.program, item.value, depth + 1)
    return found


def replicated(
    program: Program, parts: MicroBatches
) -> tuple[cst.BaseExpression, list[Place]] | None:
    """Return the wrapped model that runs in each turn for its loss, and what wraps it."""
    for model in _models(program, parts):
        found = replicas(program, model)
        if found:
            return model, found
    return None


def _models(program: Program, parts: MicroBatches) -> Iterator[cst.BaseExpression]:
    """Yield what is called on the way to a loss, and what such functions are given."""
    assert isinstance(parts.backward.func, cst.Attribute)
    seen: set[str] = set()
    for node in sources(program, [parts.backward.func.value]).expressions.values():
        for call in program.index.below(node, cst.Call):
            if not program.index.inside(call, parts.loop.body):
                continue
            for one in (call.func, *(arg.value for arg in call.args)):
                code = program.code(one) if isinstance(one, cst.Name | cst.Attribute) else ""
                if code and code not in seen:
                    seen.add(code)
                    yield one
