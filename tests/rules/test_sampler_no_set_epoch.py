"""TL804: distributed samplers that are not told the epoch; TL804b: training without one."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL804"
SAMPLER = "sampler = DistributedSampler(dataset)"
LOADER = "loader = DataLoader(dataset, 8, sampler=sampler)"
NAMES = "BatchSampler, DataLoader, DistributedSampler, RandomSampler"
STEPS = "for x, y in loader:\n    loss = model(x, y)\n    loss.backward()\n    optimizer.step()"


def train(
    epoch: str = STEPS,
    sampler: str = SAMPLER,
    loader: str = LOADER,
    head: str = "for epoch in range(9):",
    top: str = "",
) -> str:
    """Return a training of several epochs with a sampler."""
    lines = [f"from torch.utils.data import {NAMES}"]
    lines += [*top.splitlines(), "", "def train(model, dataset, optimizer, args):"]
    lines += textwrap.indent(f"{sampler}\n{loader}", "    ").splitlines()
    lines += [f"    {head}", *textwrap.indent(epoch, " " * 8).splitlines()]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(train(f"sampler.set_epoch(epoch)\n{STEPS}"), id="it is told"),
        pytest.param(train(f"loader.sampler.set_epoch(epoch)\n{STEPS}"), id="by the loader"),
        pytest.param(train(f"f(loader).set_epoch(epoch)\n{STEPS}"), id="by something else"),
        pytest.param(
            train(
                f"loader.batch_sampler.sampler.set_epoch(epoch)\n{STEPS}",
                loader="loader = DataLoader(dataset, batch_sampler=BatchSampler(sampler, 8, True))",
            ),
            id="by its batch sampler",
        ),
        pytest.param(
            train(
                f"tell(loader, epoch)\n{STEPS}",
                top="def tell(loader, epoch):\n    loader.sampler.set_epoch(epoch)",
            ),
            id="a function of the file does it",
        ),
        pytest.param(
            train(
                f"samplers['train'].set_epoch(epoch)\n{STEPS}",
                "samplers = {'train': DistributedSampler(dataset)}",
                LOADER.replace("=sampler", "=samplers['train']"),
            ),
            id="it is kept in a dictionary",
        ),
        pytest.param(train(f"begin(loader, epoch)\n{STEPS}"), id="a function gets the loader"),
        pytest.param(
            train(sampler="sampler = DistributedSampler(dataset, shuffle=False)"),
            id="it does not shuffle",
        ),
        pytest.param(
            train(sampler="sampler = DistributedSampler(dataset, shuffle=args.shuffle)"),
            id="perhaps it does not shuffle",
        ),
        pytest.param(
            train(loader="loader = DataLoader(dataset, 8, shuffle=True, sampler=sampler)"),
            id="such a loader raises",
        ),
        pytest.param(
            train(top="from samplers import DistributedSampler"), id="another class of that name"
        ),
        pytest.param(train(head="if args.train:"), id="no loop over epochs"),
        pytest.param(train(f"{SAMPLER}\n{LOADER}\n{STEPS}", "", ""), id="made in each epoch"),
        pytest.param(train("for x, y in loader:\n    show(model(x))"), id="no training"),
        pytest.param(train(top="import accelerate"), id="a framework tells it"),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


def test_deepspeed_takes_the_batches_as_they_are_given():
    (found,) = check(train(top="import deepspeed"), CODE)
    assert found.severity is Severity.ERROR
    assert found.fix is None


@pytest.mark.parametrize(
    ("source", "row"),
    [
        pytest.param(train(), 4, id="a sampler"),
        pytest.param(
            train(
                sampler=f"{SAMPLER}\nother = DistributedSampler(extra)\n"
                "more = DataLoader(extra, 8, sampler=other)",
                epoch=f"other.set_epoch(epoch)\nmore.sampler.set_epoch(epoch)\n{STEPS}",
            ),
            4,
            id="another sampler is told",
        ),
        pytest.param(
            train(epoch=f"print(epoch, len(loader), len(sampler))\n{STEPS}"),
            4,
            id="functions that cannot tell it",
        ),
        pytest.param(
            """
            import torch

            def one_epoch(model, loader, optimizer):
                for x in loader:
                    model(x).backward()
                    optimizer.step()

            def main(args):
                if args.distributed:
                    sampler = torch.utils.data.distributed.DistributedSampler(dataset)
                else:
                    sampler = None
                loader = torch.utils.data.DataLoader(dataset, 8, sampler=sampler)
                for epoch in range(args.epochs):
                    one_epoch(model, loader, optimizer)
            """,
            11,
            id="an epoch is a function",
        ),
    ],
)
def test_reports(source, row):
    (found,) = check(source, CODE)
    assert (found.code, found.location.row, found.severity) == (CODE, row, Severity.ERROR)


def test_a_sampler_of_two_loaders_is_reported_once():
    source = train(
        loader=f"{LOADER}\nother = DataLoader(dataset, 8, sampler=sampler)",
        epoch=STEPS + "\n" + STEPS.replace("loader", "other"),
    )
    (found,) = check(source, CODE)
    assert "`sampler` gives every epoch the order of the first" in found.message


TOLD = "sampler.set_epoch(epoch)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(train(), train(TOLD + STEPS), id="as the first statement"),
        pytest.param(
            train(sampler="sampler = DistributedSampler(dataset) if args.distributed else None"),
            train(
                f"if sampler is not None:\n    {TOLD}{STEPS}",
                sampler="sampler = DistributedSampler(dataset) if args.distributed else None",
            ),
            id="if there is one",
        ),
        pytest.param(
            train(
                sampler=f"if args.distributed:\n    {SAMPLER}\nelse:\n"
                "    sampler = RandomSampler(dataset)"
            ),
            train(
                f"if isinstance(sampler, DistributedSampler):\n    {TOLD}{STEPS}",
                sampler=f"if args.distributed:\n    {SAMPLER}\nelse:\n"
                "    sampler = RandomSampler(dataset)",
            ),
            id="if it is one",
        ),
        pytest.param(
            train(sampler="", loader=LOADER.replace("=sampler", "=DistributedSampler(dataset)")),
            train(
                f"loader.{TOLD}{STEPS}",
                sampler="",
                loader=LOADER.replace("=sampler", "=DistributedSampler(dataset)"),
            ),
            id="by the loader",
        ),
        pytest.param(
            train(f"{STEPS}\nsampler = None"),
            train(f"loader.{TOLD}{STEPS}\nsampler = None"),
            id="by the loader where the name stands for something else",
        ),
        pytest.param(
            train(
                sampler="",
                loader=LOADER.replace(
                    "=sampler", "=DistributedSampler(dataset) if args.d else None"
                ),
            ),
            train(
                f"if isinstance(loader.sampler, DistributedSampler):\n    loader.{TOLD}{STEPS}",
                sampler="",
                loader=LOADER.replace(
                    "=sampler", "=DistributedSampler(dataset) if args.d else None"
                ),
            ),
            id="by the loader, if it has one",
        ),
        pytest.param(
            train(head="for _ in range(9):"),
            train(TOLD + STEPS),
            id="an epoch without a name gets one",
        ),
    ],
)
def test_fixes(before, after):
    (found,) = check(before, CODE)
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE
    assert fixed(before, CODE) == after


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(train(head="while not done():"), id="the epoch has no number"),
        pytest.param(
            train(
                sampler="",
                loader="loader = DataLoader(dataset, batch_sampler="
                "BatchSampler(DistributedSampler(dataset), 8, True))",
            ),
            id="in a batch sampler",
        ),
        pytest.param(
            """
            from torch.utils.data import DataLoader

            def make(dataset, distributed):
                from torch.utils.data import DistributedSampler

                sampler = DistributedSampler(dataset) if distributed else None
                return DataLoader(dataset, 8, sampler=sampler)

            def main(model, optimizer, dataset, distributed):
                loader = make(dataset, distributed)
                for epoch in range(9):
                    for x in loader:
                        model(x).backward()
                        optimizer.step()
            """,
            id="the class has no name where it is asked for",
        ),
    ],
)
def test_reports_without_a_fix(source):
    (found,) = check(source, CODE)
    assert found.fix is None


# -- TL804b -----------------------------------------------------------------------------------


def parallel(
    loader: str = "loader = DataLoader(dataset, 8, shuffle=True)",
    data: str = "dataset = TensorDataset(x, y)",
    wrap: str = "model = DistributedDataParallel(model, device_ids=[gpu])",
    top: str = "",
) -> str:
    """Return a distributed training without a sampler."""
    lines = ["import torch", "from torch.nn.parallel import DistributedDataParallel"]
    lines += ["from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset"]
    lines += [*top.splitlines(), "", "def main(model, optimizer, gpu, x, y, files):"]
    lines += textwrap.indent(f"{wrap}\n{data}\n{loader}", "    ").splitlines()
    lines += ["    for epoch in range(9):", *textwrap.indent(STEPS, " " * 8).splitlines()]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(parallel(wrap="model = wrap(model)"), id="not distributed"),
        pytest.param(
            parallel("loader = DataLoader(dataset, 8, sampler=mine(dataset))"), id="a sampler"
        ),
        pytest.param(parallel(data="dataset = read(files)"), id="a dataset that is not known"),
        pytest.param(parallel(data="dataset = list(files)"), id="plain data, perhaps a part"),
        pytest.param(
            parallel(data="dataset = TensorDataset(x[rank::2], y[rank::2])"), id="a part by rank"
        ),
        pytest.param(
            parallel(data="mine = files[rank]\npart = load(mine)\ndataset = TensorDataset(part)"),
            id="a file for each rank",
        ),
        pytest.param(
            parallel(
                data="dataset = Mine()",
                top="import torch.distributed as dist\nclass Mine(Dataset):\n"
                "    def __getitem__(self, i):\n        return read(i * dist.get_world_size())\n",
            ),
            id="the dataset knows of processes",
        ),
        pytest.param(
            parallel(
                data="dataset = Mine()",
                top="class Mine(IterableDataset):\n    def __iter__(self):\n        yield 1",
            ),
            id="a dataset that is iterated",
        ),
        pytest.param(
            parallel().replace("loss.backward()", "pass").replace("optimizer.step()", ""),
            id="no training",
        ),
        pytest.param(parallel(top="import lightning"), id="a framework puts in a sampler"),
    ],
)
def test_without_a_sampler_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "row"),
    [
        pytest.param(parallel(), 8, id="all of the data"),
        pytest.param(
            parallel(
                data="dataset = Mine()",
                top="class Mine(Dataset):\n    def __getitem__(self, i):\n        return read(i)",
            ),
            11,
            id="a dataset of the file",
        ),
    ],
)
def test_without_a_sampler_is_reported(source, row):
    (found,) = check(source, CODE)
    assert (found.code, found.location.row, found.severity) == ("TL804b", row, Severity.WARNING)
    assert found.fix is None
