"""Batches: what going through a loader gives, by its dataset and its ``collate_fn``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.operations import element_of
from torchlint.semantics.sets import parts_of
from torchlint.semantics.tables.torch_classes import LOADERS
from torchlint.semantics.values import (
    NEVER,
    UNKNOWN,
    Array,
    Class,
    Device,
    Dictionary,
    Function,
    Guess,
    Instance,
    Library,
    Loaded,
    Nothing,
    Number,
    Object,
    Sequence,
    Tensor,
    Text,
    Truth,
    Unknown,
)

if TYPE_CHECKING:
    from torchlint.semantics.arguments import Argument
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, At, Value

# Datasets that give samples of others.
HOLDERS = frozenset({"torch.utils.data.Subset", "torch.utils.data.ConcatDataset"})
ROWS = "torch.utils.data.TensorDataset"
# What puts samples together where no `collate_fn` does.
COLLATES = frozenset(
    f"torch.utils.data.{place}default_collate" for place in ("", "_utils.collate.")
)
PARAMETERS = tuple(
    """dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last
    timeout worker_init_fn multiprocessing_context generator * prefetch_factor persistent_workers
    pin_memory_device in_order""".split()
)


def batches_of(run: Run, one: Alternative) -> Value:
    """Return what a loader gives, NEVER where it is none."""
    match one:
        case Object(kind=kind, call=call) if kind in LOADERS and call is not None:
            batch = _batch(run, call)
            if run.evaluation.placed(run, one) is Device.CUDA:  # Accelerate has prepared it
                return run.sets.each(batch, lambda each: _moved(run, each))
            return batch
        case Instance(cls=cls, call=call) if call and run.evaluation.classes.kind(cls) == "loader":
            return run.one(Tensor(Device.HOST, call, Loaded.YES, sure=False))
        case Guess(what="loader"):
            return run.sets.unknown
    return NEVER


def _batch(run: Run, call: At) -> Value:
    given = {name: one.value for name, one in arguments(run.evaluation, call).items()}
    collate, value = given.get("collate_fn", NEVER), NEVER
    sample = _sample(run, given.get("dataset", NEVER), call)
    samples = run.sets.nested(Sequence("list", None, sample or run.sets.unknown, None))
    for one in collate:
        if isinstance(one, Function):
            given_back = run.evaluation.push(run, one.at, [samples], call)
            value = run.sets.union(value, given_back)
        elif isinstance(one, Class):
            value = run.sets.union(value, run.one(Instance(one.at, None)))
        elif isinstance(one, Instance):
            at = run.evaluation.method_of(one.cls, "__call__")
            value = run.sets.union(value, run.evaluation.push(run, at, [samples], call))
    if value:
        return run.sets.each(value, lambda one: _marked(run, one, call))
    is_plain = all(
        isinstance(one, Nothing) or (isinstance(one, Library) and one.name in COLLATES)
        for one in collate
    )
    if not sample or not is_plain:
        return run.one(Tensor(Device.HOST, call, Loaded.YES, sure=False))
    return run.sets.each(sample, lambda one: _collated(run, one, call))


def put_together(run: Run, samples: Value) -> Value:
    """Return what a call of `default_collate` gives, whose samples no loader has drawn."""
    element = element_of(run, samples)
    return run.sets.each(element, lambda one: _collated(run, one, None)) or run.sets.unknown


def arguments(evaluation: Evaluation, call: At) -> dict[str, Argument]:
    """Return the arguments of the call that made an object, as they were evaluated there."""
    return all_arguments(evaluation, call)[0]


def all_arguments(evaluation: Evaluation, call: At) -> tuple[dict[str, Argument], bool]:
    """Return the arguments of a call by parameter, and whether these are all for certain."""
    node = evaluation.node(call)
    assert isinstance(node, cst.Call)
    return given_to(evaluation, node, PARAMETERS)


def unwrapped(evaluation: Evaluation, dataset: Value) -> Value:
    """Return the datasets that a dataset may be, or takes its samples from."""
    found: list[Alternative] = []
    waiting = list(dataset)
    seen: set[Alternative] = set()
    while waiting:
        one = waiting.pop(0)
        if one in seen:
            continue
        seen.add(one)
        if not (isinstance(one, Object) and one.kind in HOLDERS and one.call is not None):
            found.append(one)
            continue
        node = evaluation.node(one.call)
        assert isinstance(node, cst.Call)
        for arg in node.args[:1]:
            value = evaluation.value(arg.value)
            is_several = one.kind == "torch.utils.data.ConcatDataset"
            for each in value:
                if is_several and isinstance(each, Sequence):
                    waiting += [inner for part in parts_of(each) for inner in part]
                else:
                    waiting.append(UNKNOWN if is_several else each)
    return evaluation.sets.of(found)


def _sample(run: Run, dataset: Value, call: At) -> Value:
    """Return what a dataset gives for an index."""
    value: Value = NEVER
    for one in unwrapped(run.evaluation, dataset):
        if isinstance(one, Instance):
            at = run.evaluation.method_of(one.cls, "__getitem__")
            given = run.evaluation.push(run, at, [run.one(Number())], call)
            value = run.sets.union(value, given)
        elif isinstance(one, Object) and one.kind == ROWS and one.call is not None:
            value = run.sets.union(value, _row(run, one.call))
    return value


def _row(run: Run, call: At) -> Value:
    """Return what a dataset of tensors gives: a row of each."""
    node = run.evaluation.node(call)
    assert isinstance(node, cst.Call)
    if any(arg.star or arg.keyword for arg in node.args):
        return run.one(Sequence("tuple", None, run.one(Tensor()), None))
    columns = [
        [one for one in run.evaluation.value(arg.value) if isinstance(one, Tensor)] or [Tensor()]
        for arg in node.args
    ]
    rows = tuple(
        run.sets.of(Tensor(one.device, dtype=one.dtype) for one in each) for each in columns
    )
    return run.sets.nested(Sequence("tuple", rows, NEVER, None))


def _collated(run: Run, one: Alternative, call: At | None) -> Value:
    """Return what `default_collate` makes of a sample's part."""
    loaded = Loaded.NO if call is None else Loaded.YES
    match one:
        case Tensor(device=device, dtype=dtype):
            where = Device.HOST if device is Device.UNKNOWN else device
            return run.one(Tensor(where, call, loaded, dtype=dtype))
        case Array() | Number() | Truth():
            return run.one(Tensor(Device.HOST, call, loaded))
        case Text():
            return run.one(Sequence("list", None, run.one(one), None))
        case Sequence(elements=tuple()):
            whole: Alternative = replace(one, kind="list", made=None)
            return run.sets.within(whole, lambda part: _collated(run, part, call))
        case Dictionary():
            whole = replace(one, made=None)
            return run.sets.within(whole, lambda part: _collated(run, part, call))
    return run.one(Tensor(Device.HOST, call, loaded, sure=False))


def _moved(run: Run, one: Alternative) -> Value:
    """Return a batch with its tensors on a GPU."""
    if isinstance(one, Tensor):
        return run.one(replace(one, device=Device.CUDA, loaded=Loaded.NO))
    return run.sets.within(one, lambda part: _moved(run, part))


def _marked(run: Run, one: Alternative, call: At) -> Value:
    """Return what a ``collate_fn`` gives, as memory of a batch."""
    match one:
        case Tensor(device=device, dtype=dtype):
            return run.one(Tensor(device, call, Loaded.YES, dtype=dtype))
        case Unknown():
            return run.one(Tensor(Device.HOST, call, Loaded.YES, sure=False))
        case Sequence() | Dictionary():
            one = replace(one, made=None)
    return run.sets.within(one, lambda part: _marked(run, part, call))
