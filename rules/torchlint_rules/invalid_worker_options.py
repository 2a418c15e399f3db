"""Options of a DataLoader exclude each other, or its workers cannot do what they are asked to.

## Why
Some options only mean something with worker processes, and some replace each other.  A DataLoader
that is given both raises `ValueError` when it is made, perhaps hours into a script.  Two more
mistakes show themselves only when the workers start:

- TL105b: workers get the dataset and the functions by pickling, unless they are forked.  A
  `lambda`, or what is defined inside a function, cannot be pickled; and a script that trains as
  soon as it is imported is imported, and trains, again in each worker.  Windows, macOS and, from
  Python 3.14 on, Linux do not fork.
- TL105c: every worker has a copy of an `IterableDataset` and goes through all of it.  With four
  workers an epoch holds each sample four times, unless the dataset asks `get_worker_info()` for its
  share.

## Bad
    from torch.utils.data import DataLoader, IterableDataset

    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            with open(self.path) as file:
                for line in file:
                    yield line.split()

    def loaders(dataset, path):
        train = DataLoader(dataset, batch_size=64, persistent_workers=True)
        return train, DataLoader(Lines(path), batch_size=64, num_workers=4)

## Good
    from itertools import islice
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            worker = get_worker_info()
            first, step = (worker.id, worker.num_workers) if worker else (0, 1)
            with open(self.path) as file:
                for line in islice(file, first, None, step):
                    yield line.split()

    def loaders(dataset, path):
        train = DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)
        return train, DataLoader(Lines(path), batch_size=64, num_workers=4)

## Leaves alone
- Options with values that are not known here, and what may be a sampler.  (What an option makes
  one is reported: where there is one, `shuffle=True` raises.)
- `prefetch_factor=2` without workers below torch 2.0, where 2 is the default; where the version is
  not known it is advice.
- A DataLoader in a `try` with a handler, or in a test that expects it to raise.
- TL105b: workers that are told to be forked (`multiprocessing_context="fork"`), loops inside of
  functions that the file itself does not call when it is imported, loaders that only code which
  nothing reaches goes through (below `if step % 30 == 40:`).  Unless the script itself asks
  for workers that are not forked, a `lambda` is only advised against, and a script that trains as
  it is imported is left alone.
- TL105c: datasets whose class speaks of workers, shards or ranks, draws at random or never ends;
  those that go through something of another library, which may ask for its share itself; loaders
  with a `worker_init_fn`.

More than 64 workers are reported as advice: few machines can run them, and each holds a copy of
the dataset.

## Fix safety
No fix: which of the options is meant only the author knows.

## Evidence
Not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Multi-process Data Loading, Platform-specific behaviors"
- PyTorch documentation, "torch.utils.data.IterableDataset", with examples of sharing by workers
- Python documentation, "multiprocessing: Contexts and start methods"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.origins import origins
from torchlint.analysis.sharding import repeats_samples
from torchlint.analysis.workers import (
    Workers,
    is_run,
    start_method,
    started_by_import,
    unpicklable,
    workers_of,
)
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

MANY = 64
PREFETCH_NONE = Version("2.0")  # the release whose default is None
NOT_FORKED = "where workers are not forked (Windows, macOS, Linux from Python 3.14 on)"
SHARE = (
    "Take each worker's share: `info = torch.utils.data.get_worker_info()`, then every "
    "`info.num_workers`-th sample from `info.id` on; `info` is None without workers."
)


def invalid_worker_options(program: Program) -> Iterator[Finding]:
    """Find loaders that raise when they are made, or whose workers go wrong."""
    imports: list[cst.CSTNode] = []
    told: list[cst.CSTNode] = []
    for call in program.loaders.calls:
        workers = workers_of(program, call)
        yield from excluded(program, call, workers)
        if workers in (Workers.SOME, Workers.ASKED):
            yield from too_many(program, call)
            method = start_method(program, call)
            if method not in ("fork", "unknown"):
                yield from unsent(program, call, method, told)
                yield from badly_started(program, call, method, imports)
            yield from repeated(program, call)


def excluded(program: Program, call: cst.Call, workers: Workers) -> Iterator[Finding]:
    """Find options that make the constructor raise."""
    clashes = [*without_workers(program, call, workers), *replaced(program, call)]
    if clashes and not is_expected(program, call):
        what, severity = clashes[0]
        yield Finding(call, f"{what}: making this DataLoader raises ValueError", None, severity)
    elif may_be_sampled(program, call) and not is_expected(program, call):
        yield Finding(
            call,
            "`sampler` replaces `shuffle=True`: making this DataLoader raises ValueError where "
            "there is a sampler",
            help="Pass `shuffle=sampler is None`, with the name of the sampler.",
        )


def without_workers(
    program: Program, call: cst.Call, workers: Workers
) -> Iterator[tuple[str, Severity | None]]:
    """Yield options that need workers where there are none."""
    if workers is not Workers.NONE:
        return
    if program.argument(call, "persistent_workers").literal() == "True":
        yield "`persistent_workers=True` needs num_workers above 0", None
    factor = program.argument(call, "prefetch_factor").literal()
    if factor is not None and factor != "None":
        old = program.target is not None and program.target < PREFETCH_NONE
        if factor != "2" or (program.target is not None and not old):
            yield f"`prefetch_factor={factor}` needs num_workers above 0", None
        elif not old:
            yield (
                f"`prefetch_factor={factor}` needs num_workers above 0 from torch 2.0 on",
                (Severity.INFO),
            )
    context = program.argument(call, "multiprocessing_context").values
    if len(context) == 1 and (
        isinstance(context[0], cst.SimpleString) or is_call(context[0], "get_context")
    ):
        yield (
            f"`multiprocessing_context={program.brief(context[0])}` needs num_workers above 0",
            (None),
        )


def replaced(program: Program, call: cst.Call) -> Iterator[tuple[str, Severity | None]]:
    """Yield options that replace each other."""
    shuffles = program.argument(call, "shuffle").literal() == "True"
    drops = program.argument(call, "drop_last").literal() == "True"
    size = program.argument(call, "batch_size").literal()
    sampled = has_sampler(program, call, "sampler")
    batched = has_sampler(program, call, "batch_sampler")
    datasets = program.datasets.of_loader(call) if shuffles or sampled or batched else ()
    if datasets and all(one.iterable for one in datasets):
        word = "shuffle=True" if shuffles else "sampler" if sampled else "batch_sampler"
        name = datasets[0].name
        yield f"`{name}` is an IterableDataset, whose order `{word}` cannot set", None
    elif batched and (shuffles or drops or sampled or size not in (None, "1")):
        yield "`batch_sampler` replaces batch_size, shuffle, sampler and drop_last", None
    elif sampled and shuffles:
        yield "`sampler` replaces `shuffle=True`", None
    elif size == "None" and drops:
        yield "`batch_size=None` makes no batches that `drop_last=True` could drop", None


def has_sampler(program: Program, call: cst.Call, word: str) -> bool:
    """Whether a loader is certainly given a sampler, not None."""
    nodes = list(program.argument(call, word).values)
    made: list[cst.CSTNode | None] = []
    for node in nodes:
        if isinstance(node, cst.Name):
            bound = program.flow.reaching(node)
            made += (b.value if b.is_plain else None for b in bound)
        else:
            made.append(node)
    return bool(made) and all(is_call(node, "Sampler") for node in made)


def may_be_sampled(program: Program, call: cst.Call) -> bool:
    """Whether a loader that shuffles is given a sampler, or None: one by an option."""
    if program.argument(call, "shuffle").literal() != "True":
        return False
    made: list[cst.CSTNode] = []
    for node in program.argument(call, "sampler").values:
        made += origins(program, node)
    given = [one for one in made if is_call(one, "Sampler")]
    return bool(given) and all(one in given or literal(one) == "None" for one in made)


def is_call(node: cst.CSTNode | None, ending: str) -> bool:
    """Whether an expression is a call of something whose name ends so."""
    return isinstance(node, cst.Call) and dotted(node.func).endswith(ending)


def is_expected(program: Program, call: cst.Call) -> bool:
    """Whether the error is waited for: ``pytest.raises``, ``assertRaises``, ``try``."""
    child: cst.CSTNode = call
    for above in program.index.ancestors(call):
        if isinstance(above, cst.Try) and child is above.body and above.handlers:
            return True
        if isinstance(above, cst.With) and any(
            isinstance(item.item, cst.Call) and "raises" in dotted(item.item.func).lower()
            for item in above.items
        ):
            return True
        child = above
    return False


def too_many(program: Program, call: cst.Call) -> Iterator[Finding]:
    """Find more workers than machines have processors."""
    values = program.argument(call, "num_workers").values
    count = program.arguments.number(values[0]) if len(values) == 1 else None
    if count is not None and count > MANY:
        yield Finding(
            call,
            f"{count} workers, each with a copy of the dataset, are more than most machines run",
            None,
            Severity.INFO,
            help="Start with one for each processor, and measure.",
        )


def unsent(
    program: Program, call: cst.Call, method: str, told: list[cst.CSTNode]
) -> Iterator[Finding]:
    """Find what only forked workers can be given (TL105b): each once, where it stands."""
    local = unpicklable(program, call, program.datasets.of_loader(call))
    if local is None or not is_run(program, call):
        return
    node = local.node if local.home is program else call
    if node not in told:
        told.append(node)
        where = f"by {method}" if method else NOT_FORKED
        yield Finding(
            node,
            f"`{local.text}` cannot be sent to the workers of a DataLoader {where}",
            None,
            None if method else Severity.INFO,
            case="b",
            help="Define it at the level of the module.",
        )


def badly_started(
    program: Program, call: cst.Call, method: str, imports: list[cst.CSTNode]
) -> Iterator[Finding]:
    """Find workers that start as their file is imported, and import it again (TL105b)."""
    if not method:
        return  # most scripts train as they are imported, and are started by fork
    for home, loop in program.loaders.loops_everywhere(call):
        start = started_by_import(home, loop)
        if start is not None and start[0] is program and not imports:  # one guard heals the file
            imports.append(start[1])
            yield Finding(
                header_of(start[1]),
                f"workers start when this file is imported, and import it again by {method}",
                None,
                case="b",
                help='Put what trains under `if __name__ == "__main__":`.',
            )


def header_of(node: cst.CSTNode) -> cst.CSTNode:
    """Return what to point at: of a loop what it goes through."""
    return node.iter if isinstance(node, cst.For) else node


def repeated(program: Program, call: cst.Call) -> Iterator[Finding]:
    """Find workers that all give the same samples (TL105c)."""
    if not program.argument(call, "worker_init_fn").absent:
        return
    datasets = program.datasets.of_loader(call)
    if datasets and all(repeats_samples(one) for one in datasets):
        name = datasets[0].name
        yield Finding(
            call,
            f"every worker of this DataLoader gives every sample of `{name}`: "
            "its `__iter__` does not ask for the worker's share",
            None,
            case="c",
            help=SHARE,
        )
