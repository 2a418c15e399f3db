"""TL104: loaders that take a TensorDataset apart sample by sample."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL104"
DATA = "data = TensorDataset(torch.ones(9, 4), torch.arange(9))"
LOADER = "loader = DataLoader(data, batch_size=4)"
IMPORTS = "from torch.utils.data import DataLoader, TensorDataset"
FROM = "from torch.utils.data import "
MORE = f"{FROM}BatchSampler, DataLoader, SequentialSampler, TensorDataset"
RANDOM = f"{FROM}BatchSampler, DataLoader, RandomSampler, TensorDataset"


def load(
    loader: str = LOADER,
    data: str = DATA,
    imports: str = IMPORTS,
    use: str = "for x, y in loader:\n    step(x, y).backward()",
) -> str:
    """Return a use of a loader of tensors."""
    body = textwrap.indent(f"{data}\n{loader}\n{use}".strip("\n"), "    ")
    return f"import torch\n{imports}\n\ndef main(option, x, *more, **options):\n{body}\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(load(LOADER.replace(")", ", collate_fn=mine)")), id="its own collate_fn"),
        pytest.param(load("loader = DataLoader(data, batch_sampler=mine)"), id="its own batches"),
        pytest.param(load(LOADER.replace(")", ", sampler=mine)")), id="an unknown sampler"),
        pytest.param(
            load(
                LOADER.replace(")", ", sampler=DistributedSampler(data))"),
                imports=f"{IMPORTS}, DistributedSampler",
            ),
            id="a sampler that is told the epoch",
        ),
        pytest.param(
            load(imports=f"{FROM}TensorDataset\nfrom torch_geometric.loader import DataLoader"),
            id="a loader of graphs",
        ),
        pytest.param(load(LOADER.replace(")", ", num_workers=2)")), id="workers"),
        pytest.param(load(LOADER.replace(")", ", **options)")), id="unknown options"),
        pytest.param(load("loader = DataLoader(data)"), id="one sample a batch"),
        pytest.param(load("loader = DataLoader(data, None)"), id="no batches"),
        pytest.param(load("loader = DataLoader(data, None if option else 4)"), id="perhaps none"),
        pytest.param(
            load(data="data = Subset(TensorDataset(x), [1])", imports=f"{IMPORTS}, Subset"),
            id="a part of it",
        ),
        pytest.param(
            load(
                data="data = Mine(x)",
                imports=f"{IMPORTS}\n\nclass Mine(TensorDataset):\n"
                "    def __getitem__(self, i):\n        return f(super()[i])\n",
            ),
            id="a class derived from it",
        ),
        pytest.param(load(data="data = [1, 2]"), id="a list"),
        pytest.param(load(data=""), id="a dataset that is not known"),
        pytest.param(
            load(data="data = TensorDataset(x) if option else Mine(x)"), id="perhaps another one"
        ),
        pytest.param(load(imports=f"{IMPORTS}\nimport accelerate"), id="a framework"),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        pytest.param(load(), Severity.WARNING, id="a loop"),
        pytest.param(load(use="train(loader)"), Severity.INFO, id="no loop is seen"),
        pytest.param(load(use="for x in loader: show(x)"), Severity.INFO, id="no step is seen"),
        pytest.param(
            load(use="model.eval()\nwith torch.no_grad():\n    for x in loader: model(x)"),
            Severity.INFO,
            id="an evaluation",
        ),
        pytest.param(
            load(LOADER.replace("4", "option.batch_size")), Severity.WARNING, id="any size"
        ),
        pytest.param(
            load(LOADER.replace(")", ", collate_fn=None, sampler=None, num_workers=0)")),
            Severity.WARNING,
            id="everything as it is by default",
        ),
    ],
)
def test_reports(source, severity):
    (found,) = check(source, CODE)
    assert found.severity is severity


def drawn(inner: str, drop: str = "False", size: str = "4") -> str:
    return f"sampler=BatchSampler({inner}, {size}, {drop})"


ORDERED, SHUFFLED = drawn("SequentialSampler(data)"), drawn("RandomSampler(data)")
GIVEN = f"{IMPORTS}, RandomSampler, BatchSampler"
EITHER = drawn("RandomSampler(data) if option else SequentialSampler(data)")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            load(),
            load(f"loader = DataLoader(data, batch_size=None, {ORDERED})", imports=MORE),
            id="in order",
        ),
        pytest.param(
            load("loader = DataLoader(data, batch_size=4, shuffle=True)"),
            load(f"loader = DataLoader(data, batch_size=None, {SHUFFLED})", imports=RANDOM),
            id="shuffled",
        ),
        pytest.param(
            load("loader = DataLoader(data, 4, True)"),
            load(f"loader = DataLoader(data, batch_size=None, {SHUFFLED})", imports=RANDOM),
            id="by place",
        ),
        pytest.param(
            load("loader = DataLoader(data, 4, pin_memory=True, drop_last=True)"),
            load(
                "loader = DataLoader(data, batch_size=None, pin_memory=True, "
                f"{ORDERED.replace('False', 'True')})",
                imports=MORE,
            ),
            id="drop_last",
        ),
        pytest.param(
            load("loader = DataLoader(TensorDataset(torch.ones(9)), 4)", data=""),
            load(
                "dataset = TensorDataset(torch.ones(9))\nloader = DataLoader(\n    "
                f"dataset,\n    batch_size=None,\n    {ORDERED.replace('data', 'dataset')},\n)",
                data="",
                imports=MORE,
            ),
            id="a dataset without a name",
        ),
        pytest.param(
            load("loader = DataLoader(data, 4, shuffle=option)"),
            load(
                f"loader = DataLoader(data, batch_size=None, {EITHER})",
                imports=RANDOM.replace("Sampler, Tensor", "Sampler, SequentialSampler, Tensor"),
            ),
            id="shuffled on request",
        ),
        pytest.param(
            load("loader = DataLoader(\n    data,\n    batch_size=4,  # few\n    shuffle=True,\n)"),
            load(
                f"loader = DataLoader(\n    data,\n    batch_size=None,  # few\n    {SHUFFLED},\n)",
                imports=RANDOM,
            ),
            id="over several lines",
        ),
        pytest.param(
            load("loader = torch.utils.data.DataLoader(data, 4)"),
            load(
                "loader = torch.utils.data.DataLoader(\n    data,\n    batch_size=None,\n"
                "    sampler=torch.utils.data.BatchSampler("
                "torch.utils.data.SequentialSampler(data), 4, False),\n)"
            ),
            id="with the names of the module",
        ),
        pytest.param(
            load(data="data = TensorDataset(x, x[:, 0] + 1, torch.ones(9))"),
            load(
                f"loader = DataLoader(data, batch_size=None, {ORDERED})",
                data="data = TensorDataset("
                "x.contiguous(), (x[:, 0] + 1).contiguous(), torch.ones(9))",
                imports=MORE,
            ),
            id="tensors that may have been permuted",
        ),
    ],
)  # fmt: skip
def test_fixes(before, after):
    (found,) = check(before, CODE)
    assert found.fix is not None
    assert found.fix.safety is Safety.SAFE
    assert fixed(before, CODE, unsafe=False) == after


def test_two_loaders_of_one_dataset():
    source = load(
        LOADER + "\nother = DataLoader(data, 8)",
        data="data = TensorDataset(x)",
        use="for (x,) in loader:\n    step(x, [y for (y,) in other])",
    )
    done = fixed(source, CODE, unsafe=False)
    assert "data = TensorDataset(x.contiguous())\n" in done
    assert done.count("BatchSampler(SequentialSampler(data), ") == 2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(load(use="train(loader)"), "may ask the loader", id="it goes elsewhere"),
        pytest.param(
            load(data="data = TensorDataset(*more)"), "were permuted keep", id="unseen tensors"
        ),
    ],
)
def test_unsafe_fixes(source, words):
    (found,) = check(source, CODE)
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE
    assert words in found.fix.changes
    assert ".contiguous()" not in fixed(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            load(use="for x, y in loader:\n    step(x, loader.batch_size)"), id="its batch_size"
        ),
        pytest.param(load("loader = DataLoader(data, 4, False, None)"), id="four by place"),
        pytest.param(load("loader = DataLoader(data, **{'batch_size': 4})"), id="a dictionary"),
        pytest.param(
            load(imports=f"{IMPORTS}\nfrom mine import BatchSampler"), id="the name is taken"
        ),
        pytest.param(
            load("loader = option or DataLoader(TensorDataset(x), 4)", data=""),
            id="without a name, in an expression",
        ),
        pytest.param(
            load("loader = DataLoader(data, 4, True, generator=option)"), id="a generator"
        ),
        pytest.param(
            load("loader = DataLoader(data, 4, sampler=RandomSampler(data))", imports=GIVEN),
            id="a sampler",
        ),
    ],
)  # fmt: skip
def test_reports_without_a_fix(source):
    (found,) = check(source, CODE)
    assert found.fix is None


def test_leaves_code_alone_for_a_torch_that_takes_no_batches():
    silent(load(), CODE, "1.1")
    assert check(load(), CODE, "1.2")
