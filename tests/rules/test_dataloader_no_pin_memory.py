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
FOLDER = "import torchvision\ndataset = torchvision.datasets.ImageFolder(root)"


PADDED = """\
class Padded:
    def __init__(self, images):
        self.images = images
    def to(self, device):
        return Padded(self.images.to(device))

def collate(samples):
    batch = list(zip(*samples))
    batch[0] = Padded(batch[0])
    return tuple(batch)
"""
TARGETS = """for images, targets in loader:
    images = images.to(device)
    targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
    model(images, targets).backward()
"""


def script(*parts: str, head: str = HEAD) -> str:
    plain = (textwrap.dedent(part) if part.startswith("\n") else part for part in parts)
    return head + "".join(part.rstrip("\n") + "\n" for part in plain if part)


def loaded(arguments: str, before: str = "", loop: str = LOOP, device: str = DEVICE) -> str:
    """Return a script with ``DataLoader(dataset, <arguments>)`` and a loop over it."""
    return script(device, before, f"loader = DataLoader(dataset, {arguments})", loop)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loaded("num_workers=4, pin_memory=True"), id="pinned"),
        pytest.param(loaded("64, False, None, None, 4, None, True"), id="pinned by position"),
        pytest.param(loaded("num_workers=4, pin_memory=args.pin"), id="pinned if asked for"),
        pytest.param(loaded("num_workers=4, pin_memory=cuda"), id="pinned by a variable"),
        pytest.param(
            loaded("num_workers=4, pin_memory=False,  # /dev/shm is small\n"),
            id="refused, with a reason",
        ),
        pytest.param(loaded("*arguments"), id="perhaps by position"),
        pytest.param(loaded("**options"), id="options from elsewhere"),
        pytest.param(
            loaded("**options", "options = {'num_workers': 4, 'pin_memory': True}"),
            id="pinned by a dictionary",
        ),
        pytest.param(
            loaded(
                "**options",
                "options = dict(num_workers=1)\nif cuda:\n    options['pin_memory'] = 1",
            ),
            id="perhaps pinned by a dictionary",
        ),
        pytest.param(
            loaded("num_workers=4", loop="for x in loader:\n    model(x)\n"),
            id="the batches stay where they are",
        ),
        pytest.param(
            loaded("num_workers=4", loop="for x in loader:\n    x = x.to(torch.float16)\n"),
            id="another dtype is no device",
        ),
        *(
            pytest.param(
                loaded("num_workers=4", loop=f"for x, y in loader:\n    model({new}.to(device))\n"),
                id=why,
            )
            for new, why in (
                ("torch.from_numpy(x)", "arrays, which are not pinned"),
                ("torch.cat((x, y))", "both joined in new memory"),
                ("flat(torch.stack(x))", "parts joined in new memory"),
                ("x.clone()", "a copy in new memory"),
            )
        ),
        pytest.param(
            loaded(
                "num_workers=4", loop="for x in loader:\n    x = torch.tensor(x, device=device)\n"
            ),
            id="a tensor is made of what is none",
        ),
        pytest.param(loaded("num_workers=4", device='device = "cpu"\n'), id="a script for the CPU"),
        pytest.param(
            loaded("num_workers=4", device='device = torch.device("cpu")\n'), id="torch.device CPU"
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                device='device = "mps" if torch.backends.mps.is_available() else "cpu"\n',
            ),
            id="a script for MPS",
        ),
        pytest.param(
            script(DEVICE, "loader = DataLoader(dataset, num_workers=4)", "model.to(device)"),
            id="never iterated",
        ),
        pytest.param(
            loaded("num_workers=4", loop="x, y = next(iter(loader))\nx = x.to(device)\n"),
            id="one batch",
        ),
        pytest.param(loaded("batch_size=len(dataset), num_workers=4"), id="all in one batch"),
        pytest.param(
            loaded("num_workers=4", loop="for x in loader:\n    show(x.to(device))\n    break\n"),
            id="the first batch only",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="for i, x in enumerate(loader):\n    if i >= 5:\n        break\n"
                "    show(x.to(device))\n",
            ),
            id="a few batches only",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                "kept = []",
                loop="for i, x in enumerate(loader):\n    kept.append(x.to(device))\n"
                "    if i == 4:\n        break\n"
                "for x in kept:\n    model(x).backward()\n",
            ),
            id="a few batches only, kept for later",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                "import cv2",
                loop="for x in loader:\n    show(model(x.to(device)))\n    cv2.waitKey(0)\n",
            ),
            id="each batch waits for a key",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="for x, y in loader:\n    x, y = x.type(torch.FloatTensor), y.long()\n"
                "    model(x.to(device), y.to(device)).backward()\n",
            ),
            id="converted first: what is copied is another tensor",
        ),
        pytest.param(
            loaded("num_workers=4, collate_fn=Batch", "class Batch:\n    pass"),
            id="a class that cannot be pinned as collate_fn",
        ),
        pytest.param(
            loaded(
                "num_workers=4, collate_fn=collate",
                "class Batch(object):\n    pass\ndef collate(samples):\n    return Batch(samples)",
            ),
            id="a batch class that cannot be pinned",
        ),
        pytest.param(
            loaded("num_workers=4, collate_fn=collate", PADDED, TARGETS),
            id="images in a class that cannot be pinned, and targets",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="for i in range(99):\n    loss.backward()\n    if i % 9 == 0:\n"
                "        show(next(iter(loader)).to(device))\n",
            ),
            id="a batch now and then",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="for x in loader:\n    noise = torch.randn(x.size(0), 9).to(device)\n",
            ),
            id="something new goes to the GPU, of the batch's size",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="for x in loader:\n    n = len(x)\n    w = table(n).to(device)\n",
            ),
            id="something of the batch's length",
        ),
        pytest.param(
            loaded("num_workers=4", loop="for p in model.parameters():\n    p.data.to(device)\n"),
            id="parameters go to the GPU",
        ),
        pytest.param(
            loaded("num_workers=4", loop="for x in loader.dataset:\n    x.to(device)\n"),
            id="the dataset is iterated, not the loader",
        ),
        pytest.param(
            script(
                DEVICE,
                "data = TensorDataset(xs.to(device), ys.to(device))",
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
            loaded(
                "num_workers=4, collate_fn=collate",
                "def collate(samples):\n    return torch.tensor(samples, device=device)",
            ),
            id="collate_fn makes its batch on the GPU",
        ),
        pytest.param(
            loaded("num_workers=4, collate_fn=lambda samples: stack(samples).to(device)"),
            id="a lambda does",
        ),
        pytest.param(
            loaded("num_workers=4", "table = torch.eye(3).to_sparse()"), id="sparse tensors"
        ),
        pytest.param(
            loaded("num_workers=4").replace("torch.utils.data", "mydata"),
            id="a DataLoader of somebody else",
        ),
        pytest.param(
            """
            from torch.utils.data import DataLoader

            class Data(lightning.LightningDataModule):
                def train_dataloader(self):
                    return DataLoader(self.train, num_workers=4)
            """,
            id="a loader for somebody else to move",
        ),
        pytest.param(
            """
            from torch.utils.data import DataLoader
            from engine import train

            device = "cuda"
            train(model, DataLoader(data, num_workers=4), device)
            """,
            id="given away: what happens there is not seen",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="for state, action in loader:\n    action = action.to(device)\n"
                "    x = torch.FloatTensor(scaled(state.numpy())).to(device)\n"
                "    model(x, action).backward()\n",
            ),
            id="only the actions go as they were loaded",
        ),
        pytest.param(
            loaded(
                "num_workers=4",
                loop="for x, targets in loader:\n    targets = targets.to(device)\n"
                "    x = torch.cat((x, x.flip(1))).to(device)\n    model(x, targets).backward()\n",
            ),
            id="only the labels go as they were loaded",
        ),
        pytest.param(
            """
            import numpy as np
            from torch.utils.data import DataLoader
            from tools import to_device

            class Texts:
                def __getitem__(self, index):
                    return np.load(self.files[index])
                def pad(self, samples):
                    return np.stack(samples)
                def collate_fn(self, samples):
                    return [self.pad(samples)]

            texts = Texts()
            loader = DataLoader(texts, num_workers=4, collate_fn=texts.collate_fn)
            for batch in loader:
                to_device(batch, "cuda")
            """,
            id="arrays, which nothing pins",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("arguments", "before", "severity", "safety"),
    [
        pytest.param("num_workers=4", "", Severity.WARNING, Safety.SAFE, id="workers"),
        pytest.param("8, True, None, None, 2", "", Severity.WARNING, Safety.SAFE, id="by position"),
        pytest.param(
            "num_workers=WORKERS", "WORKERS = 4", Severity.WARNING, Safety.SAFE, id="by a constant"
        ),
        pytest.param(
            "**options", "options = {'num_workers': 4}", Severity.WARNING, Safety.SAFE,
            id="by a dictionary",
        ),
        pytest.param(
            "num_workers=args.workers", "", Severity.WARNING, Safety.UNSAFE, id="by configuration"
        ),
        pytest.param("64", FOLDER, Severity.INFO, Safety.UNSAFE, id="no workers"),
        pytest.param("num_workers=0", FOLDER, Severity.INFO, Safety.UNSAFE, id="zero workers"),
        pytest.param(
            "num_workers=args.workers",
            "parser.add_argument('--workers', type=int, default=0)",
            Severity.INFO,
            Safety.UNSAFE,
            id="none but by option",
        ),
        pytest.param(
            "num_workers=n", "n = 0\nif big:\n    n = 4", Severity.WARNING, Safety.UNSAFE,
            id="one of two numbers",
        ),
        pytest.param(
            "**options", "options = {}\nif big:\n    options['num_workers'] = 4",
            Severity.INFO, Safety.UNSAFE, id="perhaps workers",
        ),
        pytest.param(
            "num_workers=4, collate_fn=f", "", Severity.WARNING, Safety.SAFE,
            id="a batch of one's own, taken apart",
        ),
        pytest.param(
            "num_workers=4, pin_memory=False", "", Severity.WARNING, Safety.UNSAFE,
            id="refused without a reason",
        ),
    ],
)  # fmt: skip
def test_the_workers_decide_how_bad_it_is_and_how_safe_the_fix(arguments, before, severity, safety):
    (found,) = check(loaded(arguments, before), CODE)
    assert (found.severity, found.fix.safety) == (severity, safety)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("num_workers=4", False),
        ("num_workers=args.n", False),
        ("64", True),
        ("num_workers=0", True),
    ],
)
def test_without_workers_it_says_that_they_belong_together(arguments, said):
    (found,) = check(loaded(arguments, FOLDER), CODE)
    assert ("worth it together with workers" in found.message) is said


@pytest.mark.parametrize(
    ("made", "arguments", "count"),
    [
        pytest.param("corpora.load()", "8, shuffle=True, collate_fn=f", 1, id="from outside"),
        pytest.param("corpora.load()", "8, shuffle=True", 0, id="batched as usual"),
        pytest.param("corpora.load()", "8, collate_fn=f", 0, id="perhaps one without a length"),
        pytest.param("[corpora.load(), x][i]", "8, shuffle=True, collate_fn=f", 0, id="or a list"),
    ],
)
def test_without_workers_it_is_advice_for_a_dataset_from_outside(made, arguments, count, tmp_path):
    source = loaded(arguments, f"import corpora\ndataset = {made}")
    found = check_in(tmp_path, {"train.py": source}, "train.py", CODE)
    assert [one.severity for one in found] == [Severity.INFO] * count
    assert all(one.fix is None or one.fix.safety is Safety.UNSAFE for one in found)


@pytest.mark.parametrize(
    ("dataset", "count"),
    [
        pytest.param("Data()", 0, id="taken out of memory"),
        pytest.param("TensorDataset(x, y)", 0, id="tensors"),
        pytest.param("given", 0, id="not known"),
        pytest.param("Read()", 1, id="read"),
    ],
)
def test_without_workers_there_is_nothing_to_gain_for_what_is_in_memory(dataset, count):
    data = (
        "import numpy\nclass Data(torch.utils.data.Dataset):\n"
        "    def __getitem__(self, index):\n        return self.x[index], self.y[index]\n"
        "class Read(torch.utils.data.Dataset):\n"
        "    def __getitem__(self, index):\n        return numpy.load(self.x[index]), index\n"
    )
    found = check(loaded("64", f"{data}dataset = {dataset}"), CODE)
    assert len(found) == count
    assert all("worth it together with workers" in one.message for one in found)


@pytest.mark.parametrize(("operator", "count"), [("is", 1), ("==", 0), ("is not", 0)])
def test_the_type_of_a_device_is_a_new_string_each_time(operator: str, count: int) -> None:
    options = f"dict(pin_memory=True) if device.type {operator} 'cuda' else {{}}"
    assert len(check(loaded("num_workers=4, **options", f"options = {options}"), CODE)) == count


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        pytest.param(
            script(
                "import accelerate",
                DEVICE,
                "loader = DataLoader(dataset, num_workers=4)",
                LOOP,
            ),
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
    ],
)
def test_reports_without_a_fix(source, severity):
    (found,) = check(source, CODE)
    assert (found.fix, found.severity) == (None, severity)
    assert found.help


@pytest.mark.parametrize(
    ("run", "advice"),
    [
        (
            "def step(_, x):\n    model(x.to(device)).backward()\nEngine(step).run(loader)",
            "non_blocking=True to the copies",
        ),
        (
            "create_supervised_trainer(model, optimizer, f, device).run(loader)",
            "non_blocking=True to create_supervised_trainer",
        ),
    ],
)
def test_an_engine_of_ignite_takes_the_loader_as_it_is(run, advice):
    (found,) = check(
        script(
            "from ignite.engine import Engine, create_supervised_trainer",
            DEVICE,
            "loader = DataLoader(dataset, num_workers=4)",
            run,
        ),
        CODE,
    )
    assert found.fix is not None
    assert (found.fix.safety, found.severity) == (Safety.SAFE, Severity.WARNING)
    assert advice in found.help


def test_an_engine_goes_on_where_a_loop_looks_at_a_few_batches():
    source = script(
        "from ignite.engine import create_supervised_trainer",
        DEVICE,
        "loader = DataLoader(dataset, num_workers=4)",
        "for i, x in enumerate(loader):\n    show(x.to(device))\n    if i > 2:\n        break",
    )
    silent(source, CODE)
    run = "create_supervised_trainer(model, optimizer, f, device).run(loader)\n"
    assert len(check(source + run, CODE)) == 1


def test_a_framework_that_is_given_a_loader_it_does_not_train_with():
    source = script(
        "from accelerate import Accelerator",
        "accelerator = Accelerator()",
        "loader = accelerator.prepare(DataLoader(dataset, num_workers=4))",
        "print(len(loader))",
    )
    silent(source, CODE)


@pytest.mark.parametrize(
    ("collate", "reported"),
    [
        pytest.param(
            "class Batch:\n    def pin_memory(self):\n        return self", 1, id="pinned by itself"
        ),
        pytest.param("class Batch(Mapping):\n    pass", 1, id="a class whose base is not known"),
    ],
)
def test_a_batch_class_that_may_be_pinned_keeps_its_fix(collate, reported):
    source = loaded("num_workers=4, collate_fn=Batch", collate)
    found = check(source, CODE)
    assert [d.fix is not None for d in found] == [True] * reported


@pytest.mark.parametrize(
    ("collate", "loop", "safety"),
    [
        ("f", "for b in loader:\n    b[0].cuda()\n", Safety.UNSAFE),
        ("f", "for i, b in enumerate(loader):\n    b[0].cuda()\n", Safety.UNSAFE),
        ("f", "for i, (x, y) in enumerate(tqdm(loader)):\n    x.cuda()\n", Safety.SAFE),
        ("None", "for b in loader:\n    b[0].cuda()\n", Safety.SAFE),
    ],
)
def test_a_batch_of_ones_own_may_change_its_type(collate, loop, safety):
    (found,) = check(loaded(f"num_workers=4, collate_fn={collate}", loop=loop), CODE)
    assert found.fix.safety is safety


def test_there_is_no_fix_where_torch_means_something_else():
    source = """
    from torch.utils.data import DataLoader

    def train(torch, dataset, device):
        for x in DataLoader(dataset, num_workers=4):
            x.to(device).cuda()
    """
    (found,) = check(source, CODE)
    assert found.fix is None


def test_a_device_that_comes_from_outside_is_only_advice():
    source = script(
        "def train(model, dataset, device):",
        "    for x in DataLoader(dataset, num_workers=4):\n        model(x.to(device))",
    )
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix.safety is Safety.UNSAFE
    assert "may go to a GPU (`x.to(device)`)" in found.message


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
                "def train(device: torch.device):",
                "    loader = DataLoader(dataset, num_workers=4)\n    for x in loader:\n"
                "        model(x.to(device)).cuda()",
            ),
            'device.type == "cuda"',
            id="a parameter that is annotated",
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


def test_safe_fixes_leave_the_unsafe_alone():
    source = script(
        DEVICE,
        "loader = DataLoader(dataset, num_workers=4)",
        "other = DataLoader(dataset, num_workers=n)",
        LOOP,
        LOOP.replace("loader", "other"),
    )
    text = fixed(source, CODE, unsafe=False)
    assert text.count("pin_memory") == 1
    assert "other = DataLoader(dataset, num_workers=n)\n" in text


# -- little to gain ------------------------------------------------------------------------------

EVALUATE = """
def evaluate(model):
    model.eval()
    loader = DataLoader(dataset, {arguments})
    with torch.no_grad():
        for x, y in loader:
            total = model(x.to(device))
"""
TEXTS = """
class Texts(torch.utils.data.Dataset):
    def __getitem__(self, index):
        {work}return [self.vocab[word] for word in self.texts[index]]
dataset = Texts()
"""


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ("batch_size=100, num_workers=0", 0),
        ("batch_size=100", 0),
        ("batch_size=100, num_workers=4", 1),
        ("batch_size=1, num_workers=4", 0),
        ("batch_sampler=grouped, num_workers=4", 1),
    ],
)
def test_an_evaluation_gains_where_it_has_batches_and_workers(arguments, count):
    source = script(DEVICE, FOLDER, EVALUATE.replace("{arguments}", arguments))
    assert len(check(source, CODE)) == count


@pytest.mark.parametrize(
    ("after", "count"),
    [
        pytest.param("for epoch in range(9):\n    train(model)\n    evaluate(model)", 1, id="each"),
        pytest.param("for epoch in range(9):\n    train(model)\nevaluate(model)", 0, id="once"),
        pytest.param("evaluate(model)\nevaluate(other)", 0, id="without a training"),
    ],
)
def test_an_evaluation_of_one_sample_at_a_time_between_epochs_is_information(after, count):
    train = """
def train(model):
    for x, y in batches:
        model(x.to(device), y).backward()
        optimizer.step()
"""
    evaluation = EVALUATE.replace("{arguments}", "batch_size=1, num_workers=4")
    found = check(script(DEVICE, FOLDER, train, evaluation, after), CODE)
    assert [one.severity for one in found] == [Severity.INFO] * count
    assert all("little to gain for one sample at a time" in one.message for one in found)


@pytest.mark.parametrize(
    ("does", "severity"),
    [
        ("for one in total: np.save(path(one), one.cpu())", Severity.INFO),
        ("for one in total: show(one)", Severity.WARNING),
    ],
)
def test_an_evaluation_that_writes_files_has_little_to_gain(does, severity) -> None:
    evaluation = EVALUATE.replace("{arguments}", "64, num_workers=4") + f"            {does}\n"
    (found,) = check("import numpy as np\n" + script(DEVICE, FOLDER, evaluation), CODE)
    assert found.severity is severity


TRAIN = """
loader = DataLoader(dataset, num_workers=4)
held = DataLoader(held_out, num_workers=4)
def run(batches):
    with torch.no_grad():
        for x, y in batches:
            model(x.to(device), y)
for epoch in range(9):
    for x, y in loader:
        model(x.to(device), y.to(device)).backward()
        optimizer.step()
"""
RECORDED = "model.eval()\nfor x, y in held:\n    print(model(x.to(device)))"
GLANCE = "    if epoch % 5 == 0:\n        x, y = next(iter(held))\n        model(x.to(device))"


@pytest.mark.parametrize(
    ("after", "once"),
    [
        pytest.param("run(held)", True, id="once, after the epochs"),
        pytest.param(RECORDED, True, id="once, with gradients that nobody asks for"),
        pytest.param(f"{GLANCE}\nrun(held)", True, id="and a batch now and then"),
        pytest.param("    run(held)", False, id="in each epoch"),
        pytest.param("    run(loader)\nrun(held)", False, id="each epoch runs it, perhaps so"),
        pytest.param("for n in counts:\n    run(held)", False, id="several times"),
        pytest.param(
            "run(held)\nfor x, y in held:\n    model(x.to(device), y).backward()",
            False,
            id="and trained with once",
        ),
        pytest.param(
            "run(held)\nlast = iter(held)\nfor n in counts:\n    model(next(last)[0].to(device))",
            False,
            id="and taken one by one",
        ),
    ],
)
def test_a_loader_that_an_evaluation_goes_through_once_has_little_to_gain(after, once):
    trained, held = check(script(DEVICE, TRAIN, after), CODE)
    assert trained.severity is Severity.WARNING
    assert held.severity is (Severity.INFO if once else Severity.WARNING)
    assert ("little to gain for a single pass" in held.message) is once


@pytest.mark.parametrize(("last", "once"), [("return", False), ("pass", True)])
def test_an_evaluation_in_the_place_of_the_epochs(last, once):
    head, epochs = TRAIN.split("for epoch", 1)
    only = f"    if only:\n        run(held)\n        {last}\n    for epoch"
    body = only + epochs.replace("\n", "\n    ")
    source = script(DEVICE, head + "def main(only):\n" + body + "\nmain(args.only)")
    _, held = check(source, CODE)
    assert held.severity is (Severity.INFO if once else Severity.WARNING)


def test_an_evaluation_alone_is_all_that_a_script_does():
    assert check(script(DEVICE, TRAIN.partition("for epoch")[0], "run(held)"), CODE)


def test_training_gains_with_a_batch_size_of_one():
    assert check(loaded("num_workers=4, batch_size=1"), CODE)


@pytest.mark.parametrize(
    ("work", "small"), [("", True), ("image = Image.open(self.files[index]); ", False)]
)
def test_token_ids_are_copied_in_no_time(work, small):
    texts = TEXTS.replace("{work}", work)
    (found,) = check(loaded("64, num_workers=4", texts), CODE)
    assert found.severity is (Severity.INFO if small else Severity.WARNING)
    assert ("little to gain for token ids" in found.message) is small
    evaluation = script(DEVICE, texts, EVALUATE.replace("{arguments}", "64, num_workers=4"))
    assert len(check(evaluation, CODE)) == (not small)


@pytest.mark.parametrize(("workers", "count"), [("num_workers=n", 0), ("num_workers=4", 1)])
def test_token_ids_are_worth_no_line_where_nothing_says_that_there_are_workers(workers, count):
    texts = TEXTS.replace("{work}", "")
    assert len(check(loaded(f"64, {workers}", texts), CODE)) == count
    assert check(loaded(f"64, {workers}"), CODE)


IMAGES = """
from torchvision import datasets, transforms
class Mine(datasets.CIFAR100):
    pass
dataset = datasets.{made}
"""


@pytest.mark.parametrize(
    ("made", "small"),
    [
        pytest.param("MNIST('.')", "MNIST", id="numbers"),
        pytest.param("CIFAR10('.', transform=transforms.ToTensor())", "CIFAR10", id="CIFAR"),
        pytest.param("MNIST('.')\ndataset = Mine('.')", "CIFAR100", id="derived"),
        pytest.param("MNIST('.', transform=transforms.Resize(224))", "", id="made larger"),
        pytest.param("ImageFolder('.')", "", id="other images"),
        pytest.param("MNIST('.') if args.mnist else datasets.LSUN('.')", "", id="one of two"),
    ],
)
def test_small_images_are_copied_in_no_time(made, small):
    (found,) = check(loaded("num_workers=4", IMAGES.replace("{made}", made)), CODE)
    assert found.severity is (Severity.INFO if small else Severity.WARNING)
    assert found.message.endswith(f"as small as those of {small}" if small else "its memory")
    assert found.fix is not None


def test_the_move_in_the_loop_is_named():
    penalty = """
def penalty(real):
    alpha = torch.rand(len(real), 1).expand_as(real)
    alpha = alpha.to(device)
    return (alpha * real).sum()
"""
    loop = """
for x in loader:
    x = x.to(device)
    penalty(x).backward()
"""
    source = script(DEVICE, penalty, "loader = DataLoader(dataset, num_workers=4)", loop)
    (found,) = check(source, CODE)
    assert "(`x.to(device)`)" in found.message


def test_loops_of_several_files_are_told_apart(tmp_path):
    source = loaded("num_workers=4") + "from other import evaluate\nevaluate(loader, model)\n"
    other = """
    import torch

    def evaluate(loader, model):
        for x, y in loader:
            model(x.cuda())
    """
    (found,) = check_in(tmp_path, {"a.py": source, "other.py": other}, "a.py", CODE)
    assert "to(device)`" in found.message


def test_the_move_of_the_batch_is_named():
    loop = """
for x, y in loader:
    stats = measure(x).to(device)
    x = x.to(device)
    model(x).backward()
"""
    (found,) = check(loaded("num_workers=4", loop=loop), CODE)
    assert "(`x.to(device)`)" in found.message


@pytest.mark.parametrize(
    ("inputs", "count"),
    [
        pytest.param("x.float().to(device)", 0, id="converted first"),
        pytest.param("x.to(torch.float32).to(device)", 0, id="converted to a dtype first"),
        pytest.param("Variable(x.float()).view(9, -1).cuda()", 0, id="converted and viewed"),
        pytest.param("x.to(device).float()", 1, id="converted on the GPU"),
        pytest.param("x.type(torch.cuda.FloatTensor)", 1, id="converted on the way"),
        pytest.param("x.view(9, -1).to(device)", 1, id="viewed, which copies nothing"),
        pytest.param("(x.float() if n else x).to(device)", 1, id="perhaps"),
        pytest.param("x", 0, id="nothing but labels"),
    ],
)
def test_batches_that_are_converted_before_they_move(inputs, count):
    loop = f"""
for x, y in loader:
    loss = criterion(model({inputs}), y[:, -4:].to(device))
    loss.backward()
"""
    before = "from torch.autograd import Variable"
    found = check(loaded("num_workers=4", before, loop=loop), CODE)
    assert len(found) == count


@pytest.mark.parametrize(("name", "count"), [("batch_labels", 0), ("batch_data_label", 1)])
def test_what_holds_data_and_labels_is_no_label(name, count):
    loop = f"""
for {name} in loader:
    for key in {name}:
        {name}[key] = {name}[key].to(device)
    model({name}).backward()
"""
    assert len(check(loaded("num_workers=4", loop=loop), CODE)) == count


LAID_OUT = """
def images(batch):
    x = batch.permute(0, 3, 1, 2).to(memory_format=torch.contiguous_format)
    return x.float()
def rows(batch):
    if n:
        return batch.float()
    return batch
def same(batch):
    return batch.view(4, -1)
"""


@pytest.mark.parametrize(
    ("inputs", "count"),
    [
        pytest.param("x.permute(0, 3, 1, 2).contiguous().to(device)", 0, id="permuted"),
        pytest.param("x.transpose(1, 2).contiguous().unsqueeze(1).cuda()", 0, id="and viewed"),
        pytest.param("images(x).to(device)", 0, id="by a function"),
        pytest.param("x.contiguous().to(device)", 1, id="as it lies there"),
        pytest.param("x.permute(0, 3, 1, 2).to(device)", 1, id="a view"),
        pytest.param("rows(x).to(device)", 1, id="a function that may return the batch"),
        pytest.param("same(x).to(device)", 1, id="a function that returns a view"),
    ],
)
def test_batches_that_are_laid_out_before_they_move(inputs, count):
    loop = f"for x, y in loader:\n    loss = criterion(model({inputs}))\n    loss.backward()\n"
    for made in ("dataset", "ImageFolder(r, ToTensor())"):
        before = f"{LAID_OUT}from torchvision.datasets import ImageFolder\n"
        before += "from torchvision.transforms import ToTensor\n" if made != "dataset" else ""
        source = loaded("num_workers=4", before, loop=loop).replace("(dataset,", f"({made},")
        assert len(check(source, CODE)) == count


PICKED = """
def pick(x, picked):
    return x.gather(1, picked[:, None])
def cut(x, picked):
    return x[:, :picked] if picked else x.gather(1, picked)
picked = torch.randint(0, 9, (4,))
"""


@pytest.mark.parametrize(
    ("inputs", "count"),
    [
        pytest.param("x.gather(1, y).to(device)", 0, id="gathered"),
        pytest.param("torch.index_select(x, 1, y).view(9, -1).cuda()", 0, id="and viewed"),
        pytest.param("pick(x, picked).to(device)", 0, id="by a function"),
        pytest.param("x[picked].to(device)", 0, id="by an index that is a tensor"),
        pytest.param("x[:, [0, 2]].to(device)", 0, id="by a list"),
        pytest.param("x[x > 0].to(device)", 0, id="by a mask"),
        pytest.param("torch.stack([x, x]).to(device)", 0, id="stacked"),
        pytest.param("x[:, 2:].to(device)", 1, id="a slice is a view"),
        pytest.param("x[:, 0].to(device)", 1, id="so is an integer"),
        pytest.param("x[n].to(device)", 1, id="an index that nobody knows"),
        pytest.param("cut(x, picked).to(device)", 1, id="a function that may return a view"),
        pytest.param("x.to(device)[picked]", 1, id="on the GPU"),
    ],
)
def test_batches_that_are_gathered_before_they_move(inputs, count):
    loop = f"for x, y in loader:\n    loss = criterion(model({inputs}))\n    loss.backward()\n"
    assert len(check(loaded("num_workers=4", PICKED, loop=loop), CODE)) == count


@pytest.mark.parametrize(
    ("before", "moved", "count"),
    [
        pytest.param("lengths, order = torch.sort(lengths)", "xs[0][order]", 0, id="sorted"),
        pytest.param("lengths, order = len(xs), n", "xs[0][order]", 1, id="nobody knows by what"),
        pytest.param(
            "lengths, order = torch.sort(lengths)\n    for i in range(len(xs)):\n"
            "        xs[i] = xs[i][order]\n    i = 0",
            "xs[i]", 0, id="each entry in its place",
        ),
        pytest.param(
            "lengths, order = torch.sort(lengths)\n    xs[1] = xs[1][order]",
            "xs[0]", 1, id="another entry",
        ),
        pytest.param(
            "lengths, order = torch.sort(lengths)\n    i = 0\n    xs[i] = xs[i][:9]",
            "xs[i]", 1, id="an entry cut off",
        ),
    ],
)  # fmt: skip
def test_batches_that_are_put_in_order_before_they_move(before, moved, count):
    loop = f"for xs, lengths in loader:\n    {before}\n    lengths = lengths.to(device)\n"
    loop += f"    loss = model({moved}.to(device), lengths)\n    loss.backward()\n"
    assert len(check(loaded("num_workers=4", loop=loop), CODE)) == count


@pytest.mark.parametrize(
    ("focal", "images", "count"),
    [
        pytest.param('batch["focal"][0]', 'pick(batch["images"], picked)', 0, id="gathered"),
        pytest.param('batch["focal"]', 'pick(batch["images"], picked)', 1, id="of all samples"),
        pytest.param('batch["focal"][0]', "model", 1, id="nothing else moves"),
        pytest.param('batch["focal"][0]', 'batch["images"]', 1, id="the images as they are"),
    ],
)
def test_a_part_of_one_sample_beside_what_is_gathered(focal, images, count):
    loop = f"for batch in loader:\n    focal = {focal}\n    loss = model(focal.to(device))\n"
    loop += f"    loss += model({images}.to(device))\n    loss.backward()\n"
    assert len(check(loaded("num_workers=4", PICKED, loop=loop), CODE)) == count


@pytest.mark.parametrize(
    ("made", "converted", "count"),
    [
        pytest.param("ImageFolder(r, ToTensor())", "x.float()", 1, id="floats already"),
        pytest.param("ImageFolder(r, ToTensor())", "x.float().half()", 0, id="and then another"),
        pytest.param("ImageFolder(r, to_array)", "x.float()", 0, id="by a transform of one's own"),
        pytest.param("Mine(r, ToTensor())", "x.float()", 0, id="a dataset that is not seen"),
    ],
)
def test_a_conversion_that_does_nothing(made, converted, count):
    before = f"""
from torchvision.datasets import ImageFolder
from torchvision.transforms import ToTensor
dataset = {made}
"""
    loop = f"for x, index in loader:\n    x = {converted}\n    model(x.cuda(), index.cuda())\n"
    loop += "    loss.backward()\n"
    assert len(check(loaded("num_workers=4", before, loop=loop), CODE)) == count


PAIRS = """
from PIL import Image
from torchvision import transforms

def small(size):
    return transforms.Compose([transforms.Resize(size), MADE])

class Pairs(torch.utils.data.Dataset):
    def __init__(self, files, transform=None):
        self.files = files
        self.transform = transform
        self.small = small(88)
    def __getitem__(self, index):
        image = Image.open(self.files[index])
        return {"whole": self.transform(image), "small": GIVEN, "label": index}

dataset = Pairs(files, transforms.ToTensor())
"""


@pytest.mark.parametrize(
    ("part", "given", "made", "count"),
    [
        pytest.param("whole", "0", "None", 1, id="by the transform that is passed"),
        pytest.param("small", "self.small(image)", "transforms.ToTensor()", 1, id="by a function"),
        pytest.param(
            "small",
            "self.small(image)",
            "transforms.ToTensor(), transforms.Normalize(0.5, 0.5)",
            1,
            id="and normalized",
        ),
        pytest.param("small", "transforms.ToTensor()(image)", "None", 1, id="there"),
        pytest.param(
            "small",
            "transforms.functional.to_tensor(image)",
            "None",
            1,
            id="by a function of torch",
        ),
        pytest.param(
            "small", "self.small(image)", "transforms.PILToTensor()", 0, id="bytes, in fact"
        ),
        pytest.param(
            "small",
            "self.small(image)",
            "transforms.ToTensor(), transforms.Lambda(quantize)",
            0,
            id="and something else made of it",
        ),
        pytest.param("small", "to_array(image)", "None", 0, id="what nobody knows"),
        pytest.param("small", "self.resize(image)", "None", 0, id="by a transform nobody knows"),
        pytest.param("label", "0", "None", 0, id="another part"),
    ],
)
def test_a_conversion_of_what_the_dataset_gives_as_floats(part, given, made, count):
    before = PAIRS.replace("GIVEN", given).replace("MADE", made)
    loop = f"for batch in loader:\n    x = batch['{part}']\n"
    loop += "    if torch.cuda.is_available():\n        x = x.float().cuda()\n"
    loop += "    model(x).backward()\n"
    assert len(check(loaded("num_workers=4", before, loop=loop), CODE)) == count


@pytest.mark.parametrize(("given", "count"), [("transforms.ToTensor()", 1), ("crop", 0)])
def test_a_conversion_of_what_an_heir_hands_its_base(given, count):
    heir = "class Own(Pairs):\n    def __init__(self, files):\n"
    heir += f"        super().__init__(files, {given})\ndataset = Own(files)\n"
    before = PAIRS.replace("GIVEN", "0").replace("MADE", "None") + heir
    loop = "for batch in loader:\n    x = batch['whole']\n"
    loop += "    model(x.float().to(device)).backward()\n"
    assert len(check(loaded("num_workers=4", before, loop=loop), CODE)) == count


def test_one_of_two_loops_converts():
    loop = f"{LOOP}for x in loader:\n    model(x.float().to(device))\n"
    (found,) = check(loaded("num_workers=4", loop=loop), CODE)
    assert "(`x.to(device)`)" in found.message


@pytest.mark.parametrize(
    ("collate", "loop"),
    [
        pytest.param(PADDED.replace("[0]", "[1]"), TARGETS, id="of the targets"),
        pytest.param(PADDED.replace("def to(", "def pin_memory("), TARGETS, id="with the method"),
        pytest.param(PADDED.replace("Padded:", "Padded(dict):"), TARGETS, id="of another class"),
        pytest.param(PADDED, TARGETS.replace("targets in", "sizes in"), id="of one of two images"),
    ],
)
def test_what_moves_may_be_pinned_beside_a_class_that_cannot(collate, loop):
    loop = loop.replace("in targets]", "in extra]") if "sizes" in loop else loop
    loop = loop.replace("sizes in loader", "extra in loader")
    assert len(check(loaded("num_workers=4, collate_fn=collate", collate, loop), CODE)) == 1


@pytest.mark.parametrize("turn", ["cv2.waitKey(1)", "if args.show:\n        cv2.waitKey(0)"])
def test_a_loop_that_goes_on_by_itself(turn):
    loop = f"for x in loader:\n    show(model(x.to(device)))\n    {turn}\n"
    assert len(check(loaded("num_workers=4", "import cv2", loop=loop), CODE)) == 1


def test_batches_of_a_class_of_another_file(tmp_path):
    source = script(
        "from other import collate", loaded("num_workers=4, collate_fn=collate", "", TARGETS)
    )
    assert check_in(tmp_path, {"a.py": source, "other.py": PADDED}, "a.py", CODE) == []


@pytest.mark.parametrize(
    ("put", "count"),
    [
        pytest.param("Padded(batch[0])", 0, id="an object that no loader pins"),
        pytest.param("torch.stack(batch[0])", 1, id="a tensor"),
    ],
)
def test_batches_that_an_object_of_another_file_collates(tmp_path, put, count):
    head, collate = PADDED.split("def collate(samples):")
    body = collate.replace("\n", "\n    ").replace("Padded(batch[0])", put)
    other = f"import torch\n{head}class Collate:\n    def __call__(self, samples):{body}\n"
    source = script(
        "from other import Collate",
        loaded("num_workers=4, collate_fn=together", "together = Collate()", TARGETS),
    )
    found = check_in(tmp_path, {"a.py": source, "other.py": other}, "a.py", CODE)
    assert len(found) == count


TALKER = """
import torch
from torch import nn
from moving import on_gpu

class Talker(nn.Module):
    def unpack(self, batch):
        words, sounds = batch
        return on_gpu(words).long(), on_gpu(sounds).float()

class Plain(nn.Module):
    def unpack(self, batch):
        return batch

def make(options):
    return Talker().cuda()

class Settings:
    def unpack(self, batch):
        return batch
"""
MOVING = """
import torch

def on_gpu(x):
    x = x.contiguous()
    if torch.cuda.is_available():
        x = x.cuda(non_blocking=True)
    return x
"""
UNPACKED = """
from talker import Plain, Settings, Talker, make

def loaders(dataset):
    return DataLoader(dataset, 64, num_workers=4), None

def validate(model, dataset):
    for batch in loaders(dataset)[0]:
        words, sounds = model.unpack(batch)

def train(options, dataset):
    model = make(options)
    {then}
    loader, _ = loaders(dataset)
    for batch in loader:
        words, sounds = model.unpack(batch)
        model(words, sounds).backward()
"""


@pytest.mark.parametrize(
    ("then", "count"),
    [
        pytest.param("", 1, id="as it was made"),
        pytest.param("model = wrapped(model)", 1, id="wrapped, where that is not seen"),
        pytest.param("model, kept = restored(path, model, kept)", 1, id="one of two results"),
        pytest.param("if n: model = wrapped(model)", 1, id="perhaps wrapped"),
        pytest.param("model = wrapped(Talker())", 0, id="something made of another value"),
        pytest.param("model = Plain()", 0, id="of another class"),
        pytest.param("model = find(options)", 0, id="of a class that is not known"),
    ],
)
def test_the_class_of_a_model_moves_the_batches(tmp_path, then, count) -> None:
    files = {
        "a.py": script(UNPACKED.replace("{then}", then)),
        "talker.py": TALKER,
        "moving.py": MOVING,
    }
    found = check_in(tmp_path, files, "a.py", CODE)
    assert len(found) == count
    assert all("x.cuda(non_blocking=True)" in one.message for one in found)
    assert all(one.help.startswith("The copies wait as they are") for one in found)


def test_a_model_that_is_handed_on_moves_the_batches(tmp_path) -> None:
    handed = """
from talker import make

def validate(model, dataset):
    loader = DataLoader(dataset, 64, num_workers=4)
    for batch in loader:
        words, sounds = model.unpack(batch)
        print(model(words, sounds))

def main(options, dataset):
    model = make(options)
    model, _ = restored(model, options)
    validate(model, dataset)
"""
    files = {"a.py": script(handed), "talker.py": TALKER, "moving.py": MOVING}
    assert len(check_in(tmp_path, files, "a.py", CODE)) == 1


MAKING_PAIRS = """
class Pairs:
    def __init__(self, use_cuda):
        self.use_cuda = use_cuda
    def __call__(self, batch):
        images = batch["image"]
        if self.use_cuda:
            images = images.cuda()
        return images, images.flip(3)
"""
RUNNING = """
def run(loader, make_pairs, model):
    for batch in loader:
        left, right = make_pairs(batch)
        model(left, right).backward()
"""


@pytest.mark.parametrize(
    ("made", "count"),
    [
        pytest.param("Pairs(True)", 1, id="an object that moves them"),
        pytest.param("Others(True)", 0, id="an object of another class"),
        pytest.param("load(Pairs)", 0, id="something else"),
    ],
)
def test_an_object_that_is_called_moves_the_batches(tmp_path, made, count) -> None:
    main = f"""
from pairs import Pairs
from running import run

class Others:
    def __call__(self, batch):
        return batch, batch

loader = DataLoader(dataset, 64, num_workers=4)
run(loader, {made}, model)
"""
    files = {"a.py": script(main), "pairs.py": MAKING_PAIRS, "running.py": RUNNING}
    assert len(check_in(tmp_path, files, "a.py", CODE)) == count


MOVER = """
def to_gpu(batch):
    x, y = batch
    return x.cuda(), y.cuda()
"""
PASSED = """
import torch
from torch.utils.data import DataLoader
from mover import to_gpu

def validate(model, loader, {name}):
    with torch.no_grad():
        for batch in loader:
            x, y = {name}(batch)
            total = model(x) - y

def main(model, dataset):
    loader = DataLoader(dataset, batch_size=8, num_workers=4)
    for epoch in range(9):
        validate(model, loader, {given})
"""


@pytest.mark.parametrize(
    ("name", "given", "count"),
    [
        pytest.param("to_gpu", "to_gpu", 1, id="by its name"),
        pytest.param("to_gpu", "find", 0, id="another, that nobody knows"),
        pytest.param("to_gpu", "to_gpu if epoch else find", 0, id="one or another"),
    ],
)
def test_a_loop_is_passed_the_function_of_another_file_that_moves(tmp_path, name, given, count):
    files = {"mover.py": MOVER, "main.py": PASSED.format(name=name, given=given)}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == count


# -- graphs ---------------------------------------------------------------------------------------

GRAPHS = """\
import torch
from torch_geometric.datasets import PPI
from torch_geometric.loader import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = make_model().to(device)
data, held_out = PPI("data", "train"), PPI("data", "val")
train_loader = DataLoader(data, 2, True)
loader = DataLoader(held_out, 2)


def test():
    with torch.no_grad():
        for batch in loader:
            show(model(batch.x.to(device), batch.edge_index.to(device)))


for epoch in range(9):
    for batch in train_loader:
        batch = batch.to(device)
        loss(model(batch.x, batch.edge_index), batch.y).backward()
    test()
"""


def graphs(*changes: tuple[str, str]) -> str:
    source = GRAPHS
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return source


@pytest.mark.parametrize("module", ["loader", "data", "loader.dataloader"])
def test_batches_of_graphs_can_be_pinned(module):
    source = graphs(("geometric.loader", f"geometric.{module}"), ("True)", "True, num_workers=6)"))
    first, second = check(source, CODE)
    assert (first.location.row, first.severity) == (8, Severity.WARNING)
    assert first.fix.safety is Safety.UNSAFE  # they may hold what cannot be pinned
    assert (second.location.row, second.severity) == (9, Severity.INFO)
    assert "together with workers" in second.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("import DataLoader", "import DataListLoader as DataLoader", id="lists"),
        pytest.param("import DataLoader", "import NeighborSampler as DataLoader", id="samples"),
        pytest.param('"train")', '"train", T.ToDevice(device))', id="moved one by one"),
        pytest.param('"train")', '"train", T.ToSparseTensor())', id="sparse"),
        pytest.param("\ntrain_loader", "\ndata.data.to(device)\ntrain_loader", id="moved at once"),
        pytest.param("2, True)", "2, True, pin_memory=True)", id="pinned"),
        pytest.param("to(device)", "to(torch.float16)", id="stay where they are"),
    ],
)
def test_leaves_other_batches_of_graphs_alone(old, new):
    assert [row for d in check(graphs((old, new)), CODE) if (row := d.location.row) != 9] == []


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        pytest.param("held_out, 2", 0, id="without workers"),
        pytest.param("held_out, 2, num_workers=2", 1, id="with workers"),
        pytest.param("held_out, 1, num_workers=2", 0, id="one by one"),
    ],
)
def test_graphs_that_a_script_only_evaluates(arguments, count):
    evaluates = graphs(("held_out, 2", arguments))
    source = evaluates[: evaluates.index("for epoch")] + "test()\n"
    assert len(check(source, CODE)) == count


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        pytest.param(
            "x, y = x.cuda(async=True), y.cuda(async=True)",
            "they are passed async=True.",
            id="both are told",
        ),
        pytest.param(
            "x, y = x.cuda(), y.cuda(async=True)", "pass non_blocking=True", id="one is told"
        ),
        pytest.param(
            "x, y = Variable(x.cuda(), volatile=True), y.cuda()",
            "pass non_blocking=True",
            id="on any torch",
        ),
        pytest.param(
            "x, y = Variable(x.cuda(), volatile=True), y.cuda()\n    print(x.mean().data[0])",
            "pass async=True",
            id="up to torch 0.3",
        ),
    ],
)
def test_the_flag_has_the_name_that_torch_gives_it(moves, said) -> None:
    loop = f"for x, y in loader:\n    {moves}\n    loss = model(x, y)\n    loss.backward()\n"
    before = "from torch.autograd import Variable\n"
    found = check(loaded("num_workers=4", before, loop=loop, device=""), CODE)
    (found,) = [one for one in found if one.code == CODE]
    assert said in found.help


JOINED = """
import torch
from torch.utils.data import DataLoader
{made}

loader = DataLoader(load(), num_workers=4, collate_fn={collate})
for batch in loader:
    {moved}
    model(batch).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "collate", "moved", "found"),
    [
        pytest.param("from graphs import Batch", "Batch.join()", "batch.to('cuda')", 0, id="made"),
        pytest.param("from graphs import join", "join", "batch.to('cuda')", 0, id="a function"),
        pytest.param("from own import join", "join", "batch = batch.to('cuda')", 1, id="its own"),
        pytest.param(
            "from graphs import join", "join", "x, y = batch; batch = x.to('cuda')", 1, id="a part"
        ),
        pytest.param(
            "from transformers import default_data_collator as join",
            "join",
            "batch.to('cuda')",
            1,
            id="whose batches are pinned",
        ),
    ],
)
def test_batches_that_a_library_makes(tmp_path, made, collate, moved, found) -> None:
    source = JOINED.format(made=made, collate=collate, moved=moved)
    files = {"main.py": source, "own.py": "def join(samples):\n    return more(samples)\n"}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == found


@pytest.mark.parametrize(
    ("call", "count"),
    [
        pytest.param(
            "for epoch in range(9):\n    for x in xs: fit(x)\n    judge(model)",
            1,
            id="in each epoch",
        ),
        pytest.param("for epoch in range(9):\n    for x in xs: fit(x)\njudge(model)", 0, id="once"),
    ],
)
def test_an_evaluation_of_one_sample_at_a_time_that_another_file_repeats(
    tmp_path: Path, call: str, count: int
) -> None:
    judge = (
        f"{HEAD}{DEVICE}\ndef judge(model):\n    model.eval()\n"
        "    loader = DataLoader(dataset, batch_size=1, num_workers=4)\n"
        "    with torch.no_grad():\n        for x in loader:\n            model(x.to(device))\n"
    )
    train = (
        "import torch\nfrom judge import judge\ndef fit(x):\n    loss = model(x.cuda())\n"
        f"    loss.backward()\n    optimizer.step()\n{call}\n"
    )
    found = check_in(tmp_path, {"judge.py": judge, "train.py": train}, "judge.py", CODE)
    assert len(found) == count
    assert all(one.severity is Severity.INFO for one in found)
