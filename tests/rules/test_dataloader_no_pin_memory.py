"""TL102: batches that go to a GPU from a DataLoader without pinned memory."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

if TYPE_CHECKING:
    from pathlib import Path

CODE = "TL102"

HEAD = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
"""
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
LOOP = """\
for x, y in loader:
    x, y = x.to(device), y.to(device)
    loss = model(x, y)
    loss.backward()
"""
PADDED = """\
class Padded:
    def __init__(self, images):
        self.images = images
    def to(self, device):
        return Padded(self.images.to(device))

def collate(samples):
    return Padded(torch.stack(samples)), torch.tensor([1])
"""


def script(*parts: str, head: str = HEAD) -> str:
    plain = (textwrap.dedent(part) if part.startswith("\n") else part for part in parts)
    return head + "".join(part.rstrip("\n") + "\n" for part in plain if part)


def loaded(arguments: str, before: str = "", loop: str = LOOP, device: str = DEVICE) -> str:
    """Return a script with ``DataLoader(dataset, <arguments>)`` and a loop over it."""
    return script(device, before, f"loader = DataLoader(dataset, {arguments})", loop)


def moving(code: str) -> str:
    """Return a script of which the training step moves this."""
    return loaded("num_workers=4", loop=f"for x, y in loader:\n    model({code}).backward()\n")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loaded("64, False, None, None, 4, None, True"), id="pinned by position"),
        pytest.param(loaded("num_workers=4, pin_memory=cuda"), id="pinned by a variable"),
        pytest.param(loaded("*arguments"), id="perhaps by position"),
        pytest.param(loaded("**options"), id="options from elsewhere"),
        pytest.param(
            loaded("**options", "options = {}\nif gpu:\n    options['pin_memory'] = True"),
            id="perhaps pinned by a dictionary",
        ),
        pytest.param(
            loaded("num_workers=4", loop="for x, y in loader:\n    model(x).backward()\n"),
            id="the batches stay where they are",
        ),
        pytest.param(moving("x.to(torch.float16)"), id="another dtype is no device"),
        pytest.param(loaded("num_workers=4", device='device = "cpu"\n'), id="a script for the CPU"),
        pytest.param(
            loaded(
                "num_workers=4",
                device='device = "mps" if torch.backends.mps.is_available() else "cpu"\n',
            ),
            id="a script for MPS",
        ),
        pytest.param(loaded("num_workers=4", loop="print(loader)\n"), id="never iterated"),
        pytest.param(moving("x.new_zeros(3).cuda()"), id="something new goes to the GPU"),
        pytest.param(moving("torch.zeros(len(x)).cuda()"), id="of its length"),
        pytest.param(moving("torch.tensor(x, device=device)"), id="a tensor is made of it"),
        pytest.param(moving("x.gather(1, y).to(device)"), id="gathered"),
        pytest.param(moving("x[x > 0].to(device)"), id="by a mask"),
        pytest.param(moving("x[:, [0, 2]].to(device)"), id="by a list"),
        pytest.param(moving("torch.stack([x, x]).view(9, -1).cuda()"), id="stacked and viewed"),
        pytest.param(moving("x.permute(0, 2, 1).contiguous().to(device)"), id="laid out anew"),
        pytest.param(moving("x.float().half().to(device)"), id="converted"),
        pytest.param(
            script(
                DEVICE,
                "xs = xs.to(device)\ndata = TensorDataset(xs, ys.to(device))",
                "loader = DataLoader(data, num_workers=4)",
                LOOP,
            ),
            id="the dataset holds tensors on the GPU",
        ),
        pytest.param(
            script(
                DEVICE,
                """
                class Data(torch.utils.data.Dataset):
                    def __getitem__(self, index):
                        return self.x[index].cuda()
                """,
                "loader = DataLoader(Data(), num_workers=4)",
                LOOP,
            ),
            id="the dataset moves its samples",
        ),
        pytest.param(
            loaded("num_workers=4, collate_fn=lambda samples: stack(samples).to(device)"),
            id="collate_fn makes its batch on the GPU",
        ),
        pytest.param(
            loaded("num_workers=4").replace("torch.utils.data", "mydata"),
            id="a DataLoader of somebody else",
        ),
        pytest.param(
            script(
                "from accelerate import Accelerator",
                "accelerator = Accelerator()",
                "loader = accelerator.prepare(DataLoader(dataset, num_workers=4))",
                "print(len(loader))",
            ),
            id="a framework is given a loader that it does not train with",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "severity", "safety"),
    [
        pytest.param(loaded("num_workers=4"), Severity.WARNING, Safety.SAFE, id="workers"),
        pytest.param(
            loaded("8, True, None, None, 2"), Severity.WARNING, Safety.SAFE, id="by position"
        ),
        pytest.param(
            loaded("**options", "options = {'num_workers': 4}"), Severity.WARNING, Safety.SAFE,
            id="by a dictionary",
        ),
        pytest.param(
            loaded("num_workers=args.workers"), Severity.WARNING, Safety.UNSAFE, id="configured"
        ),
        pytest.param(loaded("64"), Severity.INFO, Safety.UNSAFE, id="no workers"),
        pytest.param(
            loaded("num_workers=n", "n = 0\nif big:\n    n = 4"), Severity.WARNING, Safety.UNSAFE,
            id="one of two numbers",
        ),
        pytest.param(
            loaded("num_workers=4, collate_fn=f"), Severity.WARNING, Safety.UNSAFE,
            id="a batch of one's own, taken apart",
        ),
        pytest.param(
            loaded("4, num_workers=4, collate_fn=f", loop="for b in loader:\n    b[0].cuda()\n"),
            Severity.INFO, Safety.UNSAFE, id="not taken apart: a tuple becomes a list",
        ),
        pytest.param(
            loaded("num_workers=4, pin_memory=False"), Severity.WARNING, Safety.UNSAFE,
            id="refused",
        ),
        pytest.param(
            loaded("num_workers=4", "table = torch.eye(3).to_sparse()"), Severity.INFO,
            Safety.UNSAFE, id="sparse tensors elsewhere",
        ),
        pytest.param(
            loaded("num_workers=4", loop="with torch.no_grad():\n    for x in loader:\n"
                   "        model(x.to(device))\n"),
            Severity.INFO, Safety.SAFE, id="an evaluation",
        ),
        pytest.param(moving("x.float().to(device)"), Severity.INFO, Safety.UNSAFE,
                     id="perhaps a copy"),
        pytest.param(moving("x.to(torch.float32).to(device)"), Severity.INFO, Safety.UNSAFE,
                     id="perhaps a copy of another type"),
        pytest.param(moving("x.contiguous().to(device)"), Severity.INFO, Safety.UNSAFE,
                     id="perhaps laid out anew"),
        pytest.param(moving("x.permute(0, 3, 1, 2).to(device)"), Severity.WARNING, Safety.SAFE,
                     id="a view"),
        pytest.param(moving("x.type(torch.cuda.FloatTensor)"), Severity.WARNING, Safety.SAFE,
                     id="converted on the way"),
        pytest.param(moving("x.to(device)[picked]"), Severity.WARNING, Safety.SAFE,
                     id="picked on the GPU"),
        pytest.param(
            loaded("num_workers=4", loop="for batch in loader:\n    for key in batch:\n"
                   "        batch[key] = batch[key].to(device)\n    model(batch).backward()\n"),
            Severity.WARNING, Safety.SAFE, id="entry by entry",
        ),
        pytest.param(
            script("def train(model, dataset, device):\n"
                   "    for x in DataLoader(dataset, num_workers=4):\n        model(x.to(device))"),
            Severity.INFO, Safety.UNSAFE, id="a device that comes from outside",
        ),
        pytest.param(
            loaded("num_workers=4").replace("torch.utils.data", "torch_geometric.loader"),
            Severity.WARNING, Safety.UNSAFE, id="graphs may be sparse",
        ),
        pytest.param(
            script("from ignite.engine import Engine, create_supervised_trainer",
                   "loader = DataLoader(dataset, num_workers=4)",
                   "create_supervised_trainer(model, optimizer, f, device).run(loader)"),
            Severity.INFO, Safety.UNSAFE, id="an engine of ignite moves the batches",
        ),
    ],
)  # fmt: skip
def test_how_bad_it_is_and_how_safe_the_fix(source, severity, safety):
    (found,) = check(source, CODE)
    assert (found.severity, found.fix.safety) == (severity, safety)


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        pytest.param(
            loaded("num_workers=4", "import accelerate"),
            Severity.INFO,
            id="a framework is at work",
        ),
        pytest.param(
            script(
                "from accelerate import Accelerator",
                "accelerator = Accelerator()",
                "loader = accelerator.prepare(DataLoader(dataset, num_workers=4))",
                "for x in loader:\n    accelerator.backward(model(x))",
            ),
            Severity.INFO,
            id="a framework moves the batches",
        ),
        pytest.param(
            loaded("num_workers=4, pin_memory=True, collate_fn=collate", PADDED),
            Severity.WARNING,
            id="nothing pins a class of one's own",
        ),
        pytest.param(
            loaded("**options", "options = {'num_workers': 4, 'pin_memory': False}"),
            Severity.WARNING,
            id="refused in a dictionary",
        ),
    ],
)  # fmt: skip
def test_reports_without_a_fix(source, severity):
    found = check(source, CODE)
    assert [(one.fix, one.severity, bool(one.help)) for one in found] == [(None, severity, True)]


def test_a_class_that_pins_itself_or_is_pinned_part_by_part():
    own = PADDED.replace("def to(", "def pin_memory(self):\n        return self\n    def to(")
    silent(loaded("num_workers=4, pin_memory=True, collate_fn=collate", own), CODE)
    (found,) = check(loaded("num_workers=4, collate_fn=collate", own), CODE)
    assert found.fix is not None


def test_what_the_fix_does_not_pin_is_told_beside_it():
    moves = "for x, y in loader:\n    x, y = x.to(device), y.to(device)\n    step(x, y)"
    source = loaded("num_workers=4, collate_fn=collate", PADDED, loop=moves)
    assert [one.fix is None for one in check(source, CODE)].count(True) == 1
    (left,) = check(fixed(source, CODE), CODE)
    assert left.fix is None


@pytest.mark.parametrize(
    ("arguments", "moved", "said"),
    [
        ("num_workers=4", "x.to(device)", "does not pin its memory"),
        ("num_workers=4, pin_memory=False", "x.to(device)", "is told not to pin its memory"),
        ("64", "x.to(device)", "worth it together with workers"),
        (
            "num_workers=4",
            "x.cuda(non_blocking=True)",
            "go to the GPU (`x.cuda(non_blocking=True)`",
        ),
    ],
)
def test_says_what_is_so(arguments, moved, said):
    loop = f"for x, y in loader:\n    z = measure(x).to(device)\n    model({moved}, z).backward()\n"
    (found,) = check(loaded(arguments, loop=loop), CODE)
    assert said in found.message
    assert ("as they are" in found.help) is ("non_blocking" in moved)


def test_the_move_may_stand_in_another_file(tmp_path: Path):
    source = script("from other import train", "train(DataLoader(dataset, num_workers=4), model)")
    other = (
        "def train(loader, model):\n    for x, y in loader:\n        model(x.cuda()).backward()\n"
    )
    (found,) = check_in(tmp_path, {"a.py": source, "other.py": other}, "a.py", CODE)
    assert (found.severity, found.fix.safety) == (Severity.WARNING, Safety.SAFE)


def test_the_copy_in_the_same_file_is_named(tmp_path: Path):
    source = script("from other import train", "loader = DataLoader(dataset, num_workers=4)")
    source += "train(loader, model)\nfor z, _ in loader:\n    model(z.cuda()).backward()\n"
    other = (
        "def train(loader, model):\n    for x, y in loader:\n        model(x.cuda()).backward()\n"
    )
    (found,) = check_in(tmp_path, {"a.py": source, "other.py": other}, "a.py", CODE)
    assert "`z.cuda()`" in found.message


def value_of(source: str) -> str:
    """Return what the fix passes as ``pin_memory``."""
    text = fixed(source, CODE)
    return text.partition("pin_memory=")[2].partition(")\n")[0]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        pytest.param(
            loaded("num_workers=4", device='device = "cuda"\n'), "True", id="always a GPU"
        ),
        pytest.param(
            loaded("num_workers=4", device="", loop="for x in loader:\n    model(x.cuda())\n"),
            "True",
            id="always .cuda()",
        ),
        pytest.param(loaded("num_workers=4"), 'device.type == "cuda"', id="a torch.device"),
        pytest.param(
            script(
                "def train(device):",
                "    loader = DataLoader(dataset, num_workers=4)\n    for x in loader:\n"
                "        model(x.to(device)).cuda()",
            ),
            "torch.cuda.is_available()",
            id="a parameter of which nothing is seen",
        ),
        pytest.param(
            script(
                "def train(device: torch.device = None):",
                "    loader = DataLoader(dataset, num_workers=4)\n    for x in loader:\n"
                "        model(x.to(device)).cuda()",
            ),
            "torch.cuda.is_available()",
            id="a parameter that may be None",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                device='device = torch.device("cuda") if torch.cuda.is_available() else None\n',
            ),
            "torch.cuda.is_available()",
            id="a device that may be None",
        ),
        pytest.param(
            loaded(
                "num_workers=4", device='device = "cuda" if torch.cuda.is_available() else "cpu"\n'
            ),
            "torch.cuda.is_available()",
            id="a string has no type",
        ),
        pytest.param(
            script("loader = DataLoader(dataset, num_workers=4)", DEVICE, LOOP),
            "torch.cuda.is_available()",
            id="a device that is made later",
        ),
        pytest.param(
            loaded(
                "num_workers=4", device=DEVICE + 'if args.cpu:\n    device = torch.device("cpu")\n'
            ),
            "torch.cuda.is_available()",
            id="one of two devices",
        ),
        pytest.param(
            loaded("num_workers=4", device=f"if args.new:\n    {DEVICE}"),
            "torch.cuda.is_available()",
            id="a device that is made on some paths",
        ),
        pytest.param(
            script(
                "def setup():",
                f"    {DEVICE}    return DataLoader(dataset, num_workers=4)",
                "loader = setup()",
                LOOP.replace("device", '"cuda"'),
            ),
            "torch.cuda.is_available()",
            id="another device of that name",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                device="",
                loop="for x in loader:\n    if use_cuda:\n        x = x.cuda()\n",
            ),
            "torch.cuda.is_available()",
            id="a move under a condition",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                device="",
                loop="for x in loader:\n    x = x.cuda() if gpu else x\n",
            ),
            "torch.cuda.is_available()",
            id="a conditional move",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                device="Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor\n",
                loop="for x in loader:\n    x = x.type(Tensor)\n",
            ),
            "torch.cuda.is_available()",
            id="a tensor type of the GPU",
        ),
        pytest.param(
            loaded("num_workers=4", device="device = torch.accelerator.current_accelerator()\n"),
            "torch.accelerator.is_available()",
            id="whatever accelerator there is",
        ),
        pytest.param(
            loaded(
                "num_workers=4", device='device = "cuda" if th.cuda.is_available() else "cpu"\n'
            ).replace("import torch\n", "import torch as th\n"),
            "th.cuda.is_available()",
            id="torch under another name",
        ),
    ],
)
def test_what_is_passed_holds_wherever_the_script_runs(source, value):
    assert value_of(source) == value


def test_torch_is_imported_where_it_has_no_name():
    source = """
    from torch.utils.data import DataLoader

    def train(model, dataset, device):
        for x in DataLoader(dataset, num_workers=4):
            model(x.to(device)).cuda()
    """
    text = fixed(source, CODE)
    assert "import torch\n" in text
    assert "DataLoader(dataset, num_workers=4, pin_memory=torch.cuda.is_available())" in text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "DataLoader(d, 8, None, None, None, 4)",
            "DataLoader(d, 8, None, None, None, 4, pin_memory=True)",
            id="after arguments by position",
        ),
        pytest.param(
            "DataLoader(d, **{'num_workers': 2})",
            "DataLoader(d, pin_memory=True, **{'num_workers': 2})",
            id="before a dictionary",
        ),
        pytest.param(
            "DataLoader(d, pin_memory=False, num_workers=2)",
            "DataLoader(d, pin_memory=True, num_workers=2)",
            id="in the place of False",
        ),
        pytest.param(
            "DataLoader(d, 64, False, None, None, 4, None, False)",
            "DataLoader(d, 64, False, None, None, 4, None, True)",
            id="in the place of False, by position",
        ),
        pytest.param(
            "DataLoader(\n    d,  # all of it\n    num_workers=2,\n)",
            "DataLoader(\n    d,  # all of it\n    num_workers=2,\n    pin_memory=True,\n)",
            id="a line an argument",
        ),
    ],
)
def test_where_it_is_passed(before, after):
    rest = 'for x in loader:\n    model(x.to("cuda"))'
    assert fixed(script(f"loader = {before}", rest), CODE) == script(f"loader = {after}", rest)
