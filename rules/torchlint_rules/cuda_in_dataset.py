"""A dataset, or what collates its samples, works on the GPU.

## Why
A `DataLoader` gets ahead of the training by preparing batches in worker processes.  On the GPU they
cannot: a process that was forked cannot use CUDA when its parent has ("Cannot re-initialize CUDA in
forked subprocess"), and each one that was started afresh takes its own few hundred megabytes of GPU
memory.  Nor can tensors on the GPU be put into pinned memory.  Without workers it works, but each
sample is copied by itself, where one copy of the batch would do, and training waits meanwhile.

## Bad
    from torch.utils.data import DataLoader, Dataset

    class Points(Dataset):
        def __init__(self, x, y):
            self.x, self.y = x, y

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            return self.x[index].cuda(), self.y[index].cuda()

    def train(x, y, model, optimizer):
        for x, y in DataLoader(Points(x, y), batch_size=64):
            optimizer.zero_grad()
            model(x, y).backward()
            optimizer.step()

## Good
    from torch.utils.data import DataLoader, Dataset

    class Points(Dataset):
        def __init__(self, x, y):
            self.x, self.y = x, y

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            return self.x[index], self.y[index]

    def train(x, y, model, optimizer):
        for x, y in DataLoader(Points(x, y), batch_size=64, num_workers=4, pin_memory=True):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            optimizer.zero_grad()
            model(x, y).backward()
            optimizer.step()

## Leaves alone
- Datasets that hold their tensors on the GPU, without workers and without `pin_memory=True`: that
  is fast.  Another dataset of their class, made of tensors on the host, is told apart from them.
- Copies to where another tensor is, to the host, or to another type.
- Seeds for the GPU in a `worker_init_fn`: they wait until CUDA is used.

As information: a copy to a device that is not known, or that only some of the code asks for; in a
`collate_fn` without workers, which copies whole batches; and in a dataset of which no loader is
seen, or whose samples are batches themselves.

## Fix safety
No fix: the copy moves to the training loop, and to every other place that takes batches.

## Evidence
A CPU has nothing to show: on a CPU nothing is copied.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Multi-process data loading"
- PyTorch documentation, "Multiprocessing best practices: CUDA in multiprocessing"
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.batches import Pinned, pinned
from torchlint.analysis.datasets import TENSOR_DATASET
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.loaded import functions_given
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.neighbours import loaders_around, texts_around
from torchlint.analysis.origins import origins
from torchlint.analysis.values import Device, Kind
from torchlint.analysis.workers import Workers, workers_of
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Store
    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.program import Program

TAKES = ("__getitem__", "__getitems__", "__iter__")
HOLDERS = ("self", "cls", "args", "opt", "opts", "cfg", "config", "conf", "hparams", "params",
           "options")  # fmt: skip
DEPTH = 3  # functions that a method calls


class Part(enum.Enum):
    """What a function does for a loader."""

    SAMPLE = enum.auto()
    BATCH = enum.auto()
    WORKER = enum.auto()  # it starts one


@dataclass(slots=True, eq=False)
class Place:
    """A function that a loader runs; ``workers`` and ``batches``: of any of its loaders."""

    function: cst.FunctionDef | cst.Lambda
    part: Part
    used: bool = False
    workers: bool = False
    batches: bool = False


def cuda_in_dataset(program: Program) -> Iterator[Finding]:
    """Find work on the GPU in datasets and collate functions, and data on it for workers."""
    for place in places(program):
        move = first_move(program, place.function, 0)
        if move is not None:
            yield finding(program, place, *move)
    for loader in program.loaders.calls:
        held = held_on_gpu(program, loader)
        if held is not None:
            yield kept(program, loader, held)


def places(program: Program) -> list[Place]:
    """Return the functions of this file that loaders run, here and in the files around."""
    found: dict[int, Place] = {}
    likely = list(likely_functions(program))
    for home, loader in loaders_around(program) if likely else own_loaders(program):
        for where, function, part in run_by(home, loader):
            if where is program:
                place = found.setdefault(id(function), Place(function, part))
                place.used = True
                place.workers |= workers_of(home, loader) is Workers.SOME
                place.batches |= makes_batches(home, loader)
    if "DataLoader" in program.text or any("DataLoader" in text for text in texts_around(program)):
        for function in likely:
            owner = program.classes.around(function)
            if owner is not None and owner.is_dataset:
                found.setdefault(id(function), Place(function, Part.SAMPLE))
    return list(found.values())


def own_loaders(program: Program) -> Iterator[tuple[Program, cst.Call]]:
    """Yield the loaders of the file."""
    return ((program, loader) for loader in program.loaders.calls)


def likely_functions(program: Program) -> Iterator[cst.FunctionDef]:
    """Yield what loaders of other files may run, by its name, and what works on some device."""
    for function in program.index.of(cst.FunctionDef):
        name = function.name.value
        if name in TAKES or name == "__call__" or "collate" in name:
            calls = program.index.below(function.body, cst.Call)
            if any(device_of(program, call) is not None for call in calls):
                yield function


def run_by(
    program: Program, loader: cst.Call
) -> Iterator[tuple[Program, cst.FunctionDef | cst.Lambda, Part]]:
    """Yield the functions that a loader runs, with the files that they stand in."""
    for data in program.datasets.of_loader(loader):
        for name in TAKES:
            method = data.method(name)
            if method is not None:
                yield *method, Part.SAMPLE
    for argument, part in (("collate_fn", Part.BATCH), ("worker_init_fn", Part.WORKER)):
        for home, function in functions_given(program, loader, argument):
            yield home, function, part


def makes_batches(program: Program, loader: cst.Call) -> bool:
    """Whether the samples of a loader are put together: they are no batches themselves."""
    size = program.argument(loader, "batch_size", LOADER)
    batches = program.argument(loader, "batch_sampler", LOADER)
    if size.absent:
        return not batches.absent
    return not any(literal(value) in ("None", "1") for value in size.values)


# -- moves ------------------------------------------------------------------------------------


def first_move(
    program: Program, function: cst.FunctionDef | cst.Lambda, depth: int
) -> tuple[cst.Call, bool] | None:
    """Return the first call that makes or moves something on a GPU, and whether it surely does."""
    calls = sorted(program.index.below(function.body, cst.Call), key=program.index.order)
    for call in calls:
        target = device_of(program, call)
        if target is not None:
            device = Device.CUDA if target is call else known_device(program, target)
            if device.gpu:
                return call, device is Device.CUDA and not under_condition(program, call, function)
    for call in calls:
        inner = program.calls.target(call)
        if inner is not None and depth < DEPTH and inner is not function:
            found = first_move(program, inner, depth + 1)
            if found is not None:
                return call, found[1] and not under_condition(program, call, function)
    return None


def device_of(program: Program, call: cst.Call) -> cst.BaseExpression | None:
    """Return the expression that says where a call puts a tensor; the call, if CUDA by its name."""
    first = next((a.value for a in call.args if a.keyword is None and not a.star), None)
    named = next((a.value for a in call.args if a.keyword and a.keyword.value == "device"), None)
    match call.func:
        case cst.Attribute(attr=cst.Name(value="cuda")):
            return call if not program.qualified(call.func) else None
        case cst.Attribute(attr=cst.Name(value="to")):
            return named or first
        case cst.Attribute(attr=cst.Name(value=name)):
            qualified = program.qualified(call.func)
            if qualified.startswith("torch.cuda.") and name.endswith("Tensor"):
                return call
            return named if qualified.startswith("torch.") else None
        case _:
            return None


def known_device(program: Program, node: cst.BaseExpression) -> Device:
    """Return the device that an expression names: CUDA where that is seen, MAYBE by its name."""
    if is_of_tensor(node):
        return Device.UNKNOWN
    found = {device_at(program, one) for one in origins(program, node)}
    if Device.UNKNOWN not in found:
        return Device.CUDA if any(one.gpu for one in found) else Device.CPU
    guess = program.values.device(node) or Device.UNKNOWN
    return guess if guess.gpu and program.devices.named else Device.UNKNOWN


def device_at(program: Program, node: cst.CSTNode) -> Device:
    """Return the device that a call or literal names, UNKNOWN if none is seen."""
    if isinstance(node, cst.Name | cst.Attribute | cst.Param):
        return Device.UNKNOWN
    if isinstance(node, cst.Integer):
        return Device.CUDA
    value = program.value(node)
    return value.device if value.kind is Kind.DEVICE else program.devices.of_string(node)


def is_of_tensor(node: cst.BaseExpression) -> bool:
    """``x.device``: where another tensor is."""
    if not (isinstance(node, cst.Attribute) and node.attr.value == "device"):
        return False
    return not (isinstance(node.value, cst.Name) and node.value.value in HOLDERS)


def under_condition(program: Program, call: cst.Call, function: cst.CSTNode) -> bool:
    """Whether a condition decides in a function whether a call is made."""
    for above in program.index.ancestors(call):
        if above is function:
            return False
        if isinstance(above, cst.If | cst.IfExp | cst.Try | cst.ExceptHandler):
            return True
    return False


# -- findings ---------------------------------------------------------------------------------


def finding(program: Program, place: Place, move: cst.Call, sure: bool) -> Finding:
    """Return the finding for work on the GPU in what a loader runs."""
    where = f"`{name_of(program, place.function)}`"
    code = f"`{program.brief(move)}`"
    does = "works on the GPU" if sure else "may work on the GPU"
    if place.workers or place.part is Part.WORKER:
        text = f"{code} in {where} {does} in worker processes, which cannot if they are forked"
    elif place.part is Part.SAMPLE:
        text = f"{code} in {where} {does} for each sample by itself, and rules out workers"
    else:
        text = f"{code} in {where} {does} while training waits, and rules out workers"
    costs = place.workers or place.part is Part.WORKER
    costs |= place.part is Part.SAMPLE and place.used and place.batches
    return Finding(
        move,
        text,
        severity=None if costs and sure and not program.frameworks else Severity.INFO,
        help="Return tensors on the CPU, and copy each batch in the training loop: pin_memory=True "
        "and x.to(device, non_blocking=True).",
    )


def name_of(program: Program, function: cst.FunctionDef | cst.Lambda) -> str:
    """Return the name of a function, with that of its class."""
    if isinstance(function, cst.Lambda):
        return program.brief(function)
    owner = program.classes.around(function)
    inside = owner is not None and program.is_method(function)
    return f"{owner.name}.{function.name.value}" if owner and inside else function.name.value


def held_on_gpu(program: Program, loader: cst.Call) -> str | None:
    """Return what a dataset keeps on the GPU, of a loader with workers or pinned memory."""
    if (
        workers_of(program, loader) is not Workers.SOME
        and pinned(program, loader) is not Pinned.YES
    ):
        return None
    for data in program.datasets.of_loader(loader):
        if data.type == TENSOR_DATASET and data.call is not None:
            for arg in data.call.args:
                if is_on_gpu(data.program, arg.value):
                    return data.program.brief(arg.value)
        for name in TAKES:
            method = data.method(name)
            held = None if method is None else kept_in(data, *method)
            if held is not None:
                return held
    return None


def kept_in(data: Dataset, program: Program, method: cst.FunctionDef) -> str | None:
    """Return what a dataset keeps on the GPU and takes samples out of, in a method."""
    for node in program.index.below(method.body, cst.Subscript):
        name = dotted(node.value)
        if name.startswith("self.") and is_on_gpu(program, node.value):
            given = given_for(data, name.removeprefix("self."))
            if all(is_on_gpu(data.program, one) for one in given):
                return program.brief(node.value)
    return None


def given_for(data: Dataset, name: str) -> list[cst.BaseExpression]:
    """Return what the call that makes a dataset passes for what the dataset keeps, where seen.

    Another call of the class may put other tensors on the GPU.
    """
    stores = [(home, one) for home, owner in data.lineage() for one in owner.stores.get(name, ())]
    passed = [passed_for(data, *store) for store in stores]
    found = [one for one in passed if one is not None]
    return found if len(found) == len(passed) else []


def passed_for(data: Dataset, program: Program, store: Store) -> cst.BaseExpression | None:
    """Return what is passed for a parameter that is kept as it is: ``self.x = x.float()``."""
    node = store.value
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value in ("to", "cuda", "type"):
            return None
        node = node.func.value
    if not isinstance(node, cst.Name) or store.path or data.call is None:
        return None
    method = store.method
    bound = program.flow.reaching(node)
    params = [one.value for one in bound if isinstance(one.value, cst.Param)]
    if method.name.value != "__init__" or len(params) != 1 or len(bound) != 1:
        return None
    return program.calls.passed(method, params[0], data.call)


def is_on_gpu(program: Program, node: cst.BaseExpression) -> bool:
    """Whether an expression is seen to be a tensor on a GPU, where there is one."""
    values = [program.value(one) for one in origins(program, node)]
    return bool(values) and all(v.kind is Kind.TENSOR and v.device.gpu for v in values)


def kept(program: Program, loader: cst.Call, held: str) -> Finding:
    """Return the finding for a dataset on the GPU whose loader cannot use it."""
    workers = workers_of(program, loader) is Workers.SOME
    why = (
        "workers that are forked cannot read" if workers else "`pin_memory=True` cannot be done to"
    )
    return Finding(
        loader,
        f"the dataset of this DataLoader keeps `{held}` on the GPU, which {why}",
        severity=Severity.INFO if program.frameworks else None,
        help="Keep the data on the GPU without workers and without pin_memory, or on the CPU with "
        "both.",
    )
