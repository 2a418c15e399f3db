"""Distributed samplers: which loaders draw from them or need one, and what tells them the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import RANK, Instance, Method, Object, Truth, Unknown
from torchlint.training.datasets import reached
from torchlint.training.frequency import Rate
from torchlint.training.passes import loops_making, repeating

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At
    from torchlint.training.datasets import Datasets
    from torchlint.training.loaders import Loader
    from torchlint.training.passes import Around
    from torchlint.training.script import Connected

DISTRIBUTED = "torch.utils.data.DistributedSampler"
PARAMETERS = ("dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last")
ASKS = ("torch.distributed.", "torch.utils.data.get_worker_info", "os.environ")
DEEPEST = 4  # names that come from names


@dataclass(frozen=True, slots=True, eq=False)
class Sampler:
    """A call that makes a sampler, and a loader that draws from it."""

    node: cst.Call
    at: At
    loader: Loader
    shuffles: bool


def samplers_of(evaluation: Evaluation, loader: Loader) -> Iterator[Sampler]:
    """Yield the distributed samplers that a loader may draw from, through batch samplers too."""
    found = dict.fromkeys(loader.value("sampler"))
    for one in loader.value("batch_sampler"):
        made = evaluation.node(one.call) if isinstance(one, Object) and one.call else None
        for arg in made.args if isinstance(made, cst.Call) else ():
            found |= dict.fromkeys(evaluation.value(arg.value))
    for one in found:
        if is_distributed(one) and isinstance(one, Object) and one.call is not None:
            node = evaluation.node(one.call)
            if isinstance(node, cst.Call) and evaluation.library(node.func) == DISTRIBUTED:
                given, is_whole = given_to(evaluation, node, PARAMETERS)
                shuffle = given["shuffle"].value if "shuffle" in given else (Truth(is_whole),)
                yield Sampler(node, one.call, loader, shuffle == (Truth(True),))


def is_distributed(one: Alternative) -> bool:
    """Whether something is a sampler for several processes."""
    return isinstance(one, Object) and one.kind == DISTRIBUTED


def epochs(connected: Connected, sampler: Sampler) -> list[Around]:
    """Return the loops whose turns go through what a sampler draws, for training."""
    evaluation, frequencies = connected.evaluation, connected.frequencies
    if all(one.rate is not Rate.STEP for one in connected.turns(sampler.loader)):
        return []
    made = loops_making(evaluation, sampler.node, sampler.at.file)
    found: dict[int, Around] = {}
    for one, around in repeating(evaluation, sampler.loader):
        rate = frequencies.rate_of(evaluation.at(around.loop, around.file))
        if id(around.loop) not in made and rate is not Rate.STEP:
            found.setdefault(id(one.node), around)
    return list({id(one.loop): one for one in found.values()}.values())


def may_be_told(evaluation: Evaluation, sampler: Sampler) -> bool:
    """Whether anything may tell a sampler the epoch: code that is not seen may, by the loader."""
    told = [evaluation.value(one.value) for one, _ in evaluation.files.attributes("set_epoch")]
    is_told = any(not value or any(_may_be(one, sampler) for one in value) for value in told)
    return is_told or not sampler.loader.is_seen


def _may_be(one: Alternative, sampler: Sampler) -> bool:
    """Whether something may be the sampler: an attribute of an object of a library may."""
    is_held = isinstance(one, Method) and isinstance(one.owner, Object)
    is_it = isinstance(one, Object) and one.call == sampler.at
    return is_held or is_it or isinstance(one, Unknown)


def may_divide(datasets: Datasets) -> bool:
    """Whether the dataset of a loader may be another one in each process."""
    evaluation, given = datasets.evaluation, datasets.loader.arguments.get("dataset")
    nodes: list[tuple[cst.CSTNode | None, int]] = [
        (given.node if given else None, datasets.loader.at.file)
    ]
    for one in datasets.found:
        made = one.call if isinstance(one, (Instance, Object)) else None
        nodes.append((evaluation.node(made), made.file) if made else (None, 0))
    if any(node is None or _is_part(evaluation, node, file) for node, file in nodes):
        return True
    methods = datasets.methods("__init__", "__getitem__", "__len__", "__iter__")
    called = (site.node.func for site, _ in reached(datasets.effects, methods))
    return any(evaluation.library(func).startswith(ASKS) for func in called)


def _is_part(evaluation: Evaluation, node: cst.CSTNode, file: int, depth: int = 0) -> bool:
    """Whether an expression takes a part of something, or has the rank in it."""
    below = evaluation.index(file).below
    names = list(below(node, cst.Name))
    kinds = [getattr(one, "kind", "") for name in names for one in evaluation.value(name)]
    if any(below(node, cst.Subscript)) or any(kind == RANK for kind in kinds):
        return True
    if any(evaluation.library(call.func).startswith(ASKS) for call in below(node, cst.Call)):
        return True
    made = [bound.value for name in names for bound in evaluation.bindings(name) if bound.is_plain]
    return depth < DEEPEST and any(
        each is not None and _is_part(evaluation, each, file, depth + 1) for each in made
    )
