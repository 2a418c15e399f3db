"""TL108: datasets and collate functions that work on the GPU, and data on it for workers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from tools import check, check_in, silent

from torchlint.rule import Severity

if TYPE_CHECKING:
    from pathlib import Path

CODE = "TL108"
HEAD = """\
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


def dataset(  # noqa: PLR0917 - parts of a text
    gives: str = "return self.x[i].cuda()",
    loader: str = "DataLoader(Points(x), 8)",
    made: str = "self.x = x",
    top: str = "",
    base: str = "Dataset",
    name: str = "__getitem__(self, i)",
) -> str:
    """Return a dataset, and a loader of it."""
    lines = [HEAD, top, f"class Points({base}):", "    def __init__(self, x, device=None):"]
    lines += [*textwrap.indent(made, " " * 8).splitlines(), "", f"    def {name}:"]
    lines += [*textwrap.indent(gives, " " * 8).splitlines(), "", "def main(x, option):"]
    lines += [*textwrap.indent(loader, "    ").splitlines()]
    return "\n".join(lines) + "\n"


def collated(loader: str, function: str = "return torch.stack(batch).to(device)") -> str:
    """Return a loader with a function that collates."""
    return f"{HEAD}\ndef collate(batch):\n    {function}\n\ndef main(data):\n    {loader}\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(dataset("return self.x[i].cpu()"), id="to the host"),
        pytest.param(dataset("return self.x[i].to('cpu')"), id="to the host by name"),
        pytest.param(
            dataset(
                "return self.x[i].to(self.device)",
                made="self.x, self.device = x, device",
                loader="DataLoader(Points(x, 'cpu'), 8)",
            ),
            id="to a device that is the host",
        ),
        pytest.param(dataset("return self.x[i].to(torch.float16)"), id="to another type"),
        pytest.param(dataset("return self.x[i].to(y[i].device)"), id="to another tensor"),
        pytest.param(
            dataset("where = kept.device\nreturn self.x[i].to(where)", top="kept = x().cuda()"),
            id="to another tensor by name",
        ),
        pytest.param(dataset("return self.x[i].to(y)"), id="to what another tensor is"),
        pytest.param(dataset("return torch.zeros(3, device='cpu')"), id="made on the host"),
        pytest.param(dataset("return self.x[i]", made="self.x = x.cuda()"), id="all is on the GPU"),
        pytest.param(
            dataset("return self.x[i].to(self.device)", made="self.device = device").replace(
                "cuda", "gpu"
            ),
            id="a file that does not speak of CUDA",
        ),
        pytest.param(
            dataset("return torch.load(f, map_location='cuda')"), id="what a file holds"
        ),
        pytest.param(
            dataset(base="object", loader="Points(x)[0]"), id="no dataset, and no loader of it"
        ),
        pytest.param(
            dataset(loader="Points(x)[0]").replace("DataLoader, ", ""), id="no loader anywhere"
        ),
        pytest.param(
            collated("DataLoader(data, 8, collate_fn=collate)", "return torch.stack(batch)"),
            id="collated on the host",
        ),
        pytest.param(collated("DataLoader(data, 8)"), id="not what the loader collates by"),
        pytest.param(
            collated(
                "DataLoader(data, 8, worker_init_fn=collate, num_workers=2)",
                "torch.cuda.manual_seed(batch)",
            ),
            id="a seed for the GPU",
        ),
        pytest.param(
            f"{HEAD}\nDataLoader(TensorDataset(torch.ones(3).cuda()), 8)", id="tensors on the GPU"
        ),
        pytest.param(
            f"{HEAD}\nDataLoader(TensorDataset(torch.ones(3)), 8, num_workers=2, pin_memory=True)",
            id="tensors on the host",
        ),
        pytest.param(
            dataset("return 1", made="self.model = Net().cuda()",
                    loader="DataLoader(Points(x), 8, num_workers=2)"),
            id="a model that is kept",
        ),
    ],
)  # fmt: skip
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(dataset(), "`self.x[i].cuda()` works on the GPU for each sample", id="cuda"),
        pytest.param(dataset("return self.x[i].to('cuda:0')"), "each sample", id="by name"),
        pytest.param(dataset("return self.x[i].to(device)"), "rules out workers", id="a device"),
        pytest.param(dataset("return self.x[i].to(device=device)"), "works", id="by keyword"),
        pytest.param(dataset("return torch.zeros(3, device=device)"), "works", id="made there"),
        pytest.param(dataset("return torch.cuda.FloatTensor(3)"), "works", id="of a CUDA type"),
        pytest.param(
            dataset("return read(i)", top="def read(i):\n    return x[i].cuda()\n"),
            "`read(i)` works",
            id="in a function",
        ),
        pytest.param(
            dataset("yield self.x[0].cuda()", base="IterableDataset", name="__iter__(self)"),
            "`self.x[0].cuda()` works",
            id="iterated",
        ),
        pytest.param(
            dataset(loader="DataLoader(Points(x), num_workers=4)"),
            "if they are forked",
            id="workers",
        ),
        pytest.param(
            collated("DataLoader(data, 8, collate_fn=collate, num_workers=2)"),
            "`torch.stack(batch).to(device)` works on the GPU in worker processes",
            id="collated in workers",
        ),
        pytest.param(
            f"{HEAD}\n"
            "DataLoader(data, 8, collate_fn=lambda b: torch.stack(b).cuda(), num_workers=2)",
            "`torch.stack(b).cuda()` works",
            id="collated by a lambda",
        ),
        pytest.param(
            collated("DataLoader(data, worker_init_fn=collate, num_workers=2)", "batch.cuda()"),
            "in worker processes",
            id="when a worker starts",
        ),
    ],
)  # fmt: skip
def test_reports(source, words):
    (found,) = check(source, CODE)
    assert words in found.message
    assert (found.severity, found.fix) == (Severity.WARNING, None)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            dataset(
                "return self.x[i].to(self.device)",
                made="self.x, self.device = x, device",
                loader="DataLoader(Points(x, option), 8)",
            ),
            id="a device that is not known",
        ),
        pytest.param(
            dataset("x = self.x[i]\nif option:\n    x = x.cuda()\nreturn x"), id="on request"
        ),
        pytest.param(dataset(loader="make(DataLoader)"), id="no loader of it is seen"),
        pytest.param(dataset(loader="DataLoader(Points(x))"), id="one sample a batch"),
        pytest.param(dataset(loader="DataLoader(Points(x), None)"), id="samples are batches"),
        pytest.param(
            collated("DataLoader(data, 8, collate_fn=collate)"), id="collated without workers"
        ),
        pytest.param(dataset(top="import lightning"), id="a framework copies the batches"),
    ],
)
def test_is_information(source):
    (found,) = check(source, CODE)
    assert (found.severity, found.fix) == (Severity.INFO, None)


def test_two_loaders_of_one_dataset_give_one_finding():
    both = "DataLoader(Points(x))\nDataLoader(Points(x), 8, num_workers=1)"
    (found,) = check(dataset(loader=both), CODE)
    assert found.severity is Severity.WARNING
    assert "in worker processes" in found.message


def test_a_dataset_named_as_its_base_in_another_file(tmp_path: Path) -> None:
    data = """\
from torch.utils.data import Dataset

class Dataset(Dataset):
    def __getitem__(self, i):
        return torch.tensor(self.x[i], device=torch.device("cuda"))
"""
    main = """\
import torch
from torch.utils.data import DataLoader
from data import Dataset

for x in DataLoader(Dataset(), 8, num_workers=4):
    model(x.cuda()).sum().backward()
    optimizer.step()
"""
    files = {"data.py": f"import torch\n{data}", "main.py": main}
    assert check_in(tmp_path, files, "data.py", CODE)
    assert not check_in(tmp_path, files, "main.py", "TL102")
