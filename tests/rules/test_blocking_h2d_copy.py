"""TL205: the host waits for pinned batches to be copied to the GPU."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL205"

HEAD = """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


PADDED = """
class Padded:
    def __init__(self, images):
        self.images = images
    def to(self, device):
        return Padded(self.images.to(device))

def pad(samples):
    images, labels = zip(*samples)
    return Padded(images), torch.stack(labels)
"""


# The same with a method that pins what it likes.
PINNING = PADDED.replace(
    "\ndef pad", "    def pin_memory(self):\n        return self.images, self.boxes\n\ndef pad"
)


def script(
    body: str = "x, y = x.to(device), y.to(device)",
    *,
    loop: str = "for x, y in loader:",
    given: str = "pin_memory=True",
    before: str = "",
) -> str:
    """Return a script with a pinned loader and a loop over it."""
    lines = [HEAD + before, f"loader = DataLoader(dataset, 64, num_workers=4, {given})", loop]
    return "\n".join(lines) + "\n" + textwrap.indent(body, "    ") + "\n    loss.backward()\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("x = x.to(device, non_blocking=True)"), id="does not wait"),
        pytest.param(script("x = x.cuda(non_blocking=True)"), id="does not wait, by cuda"),
        pytest.param(script("x = x.to(device, non_blocking=False)"), id="waits on purpose"),
        pytest.param(script("x = x.to(device, non_blocking=fast)"), id="a variable decides"),
        pytest.param(script("x = x.cuda(0, True)"), id="does not wait, by position"),
        pytest.param(script("x = x.to(device, torch.half, fast)"), id="perhaps, by position"),
        pytest.param(
            script("x = x.type(torch.cuda.FloatTensor, True)"), id="does not wait, by type"
        ),
        pytest.param(script("x = x.type(torch.FloatTensor)"), id="a type of the host"),
        pytest.param(script("x = x.type(torch.float32)"), id="another dtype"),
        pytest.param(script("kind = x.type()"), id="asks for the type"),
        pytest.param(script("x = x.to(device, **options)"), id="perhaps, by a dictionary"),
        pytest.param(script("x = x.to(*where)"), id="perhaps, by a star"),
        pytest.param(script(given="shuffle=True"), id="not pinned: another rule reports that"),
        pytest.param(script(given="pin_memory=False"), id="not pinned on purpose"),
        pytest.param(script(given="pin_memory=None"), id="not pinned, by None"),
        pytest.param(script(given="**options"), id="options from elsewhere"),
        pytest.param(
            script(given="pin_memory=pin", before="pin = False"), id="not pinned, by a variable"
        ),
        pytest.param(script("x = x.to('cpu')"), id="stays on the host"),
        pytest.param(script("x.to(device)"), id="an object that moves itself"),
        pytest.param(
            script("x = x.to(device)", given="pin_memory=True, collate_fn=pad", before=PADDED),
            id="in a class that is not pinned",
        ),
        pytest.param(
            script("x = x.to(device)", given="pin_memory=True, collate_fn=pad", before=PINNING),
            id="in a class that pins what it will",
        ),
        pytest.param(
            script(
                given="pin_memory=True, collate_fn=pad",
                before=PINNING.replace(", torch.stack(labels)", ""),
            ),
            id="what such an object gives in its own place",
        ),
        pytest.param(script("x = x.to('mps')"), id="goes to Apple's GPU"),
        pytest.param(script("x = x.to(torch.float16)"), id="another dtype only"),
        pytest.param(script("model.to(device)"), id="a model"),
        pytest.param(script("z = torch.ones(3)\nz = z.to(device)"), id="not from the loader"),
        pytest.param(script("z = (x / 255).to(device)"), id="computed: new memory, not pinned"),
        pytest.param(script("z = augment(x).to(device)"), id="from a function nobody knows"),
        pytest.param(script(loop="for x, y in prefetch(loader):"), id="may have been moved"),
        pytest.param(script("g = x.to(device)\nx.add_(1)"), id="changed on the host afterwards"),
        pytest.param(script("g = x.to(device)\nx += 1"), id="changed by an operator"),
        pytest.param(script("g = x.to(device)\nx[0] = 1"), id="changed in a part"),
        pytest.param(
            script("g = b['x'].to(device)\nb['x'].zero_()", loop="for b in loader:"),
            id="changed through the batch",
        ),
        pytest.param(
            script("x = b[0]\ng = x.to(device)\nb[0].mul_(2)", loop="for b in loader:"),
            id="changed through the batch it was taken out of",
        ),
        pytest.param(
            script(
                "if torch.cuda.is_available():\n    x = x.to(device, non_blocking=True)\n"
                "else:\n    x = x.to(device)"
            ),
            id="the way without a GPU",
        ),
        pytest.param(
            "import torch\ndef train(loader, dev):\n    for x in loader:\n        x.to(dev)\n",
            id="no loader in this file",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "row", "safety"),
    [
        pytest.param(script(), 8, Safety.SAFE, id="two in one statement"),
        pytest.param(script("x = x.cuda()"), 8, Safety.SAFE, id="cuda"),
        pytest.param(script("x = x.cuda(0)"), 8, Safety.SAFE, id="one GPU"),
        pytest.param(script("x = x.to('cuda:0')"), 8, Safety.SAFE, id="a GPU by its name"),
        pytest.param(script("x = x.to(device, torch.half)"), 8, Safety.SAFE, id="with a dtype"),
        pytest.param(script("x = x.to(device=device)"), 8, Safety.SAFE, id="by keyword"),
        pytest.param(script("x = x.unsqueeze(1).to(device)"), 8, Safety.SAFE, id="a view"),
        pytest.param(
            script("x = x.requires_grad_(args.inputs).to(device)"),
            8,
            Safety.SAFE,
            id="the same tensor, whose gradient is asked for",
        ),
        pytest.param(
            script(given="pin_memory=torch.cuda.is_available()"), 8, Safety.SAFE, id="if a GPU"
        ),
        pytest.param(
            script(given="pin_memory=pin", before="pin = device.type == 'cuda'"),
            8,
            Safety.SAFE,
            id="if a GPU, by a variable",
        ),
        pytest.param(
            script(
                given="**options",
                before="options = {}\nif torch.cuda.is_available():\n"
                "    options.update({'pin_memory': True})",
            ),
            10,
            Safety.SAFE,
            id="if a GPU, by a dictionary",
        ),
        pytest.param(
            script("x = x.to(device)", loop="for step, (x, y) in enumerate(loader):"),
            8,
            Safety.SAFE,
            id="enumerate",
        ),
        pytest.param(
            script("x = b['x'].to(device)", loop="for b in loader:"), 8, Safety.SAFE, id="a key"
        ),
        pytest.param(
            script("b = {k: v.to(device) for k, v in b.items()}", loop="for b in loader:"),
            8,
            Safety.SAFE,
            id="every key",
        ),
        pytest.param(
            script("b = [t.to(device) for t in b]", loop="for b in loader:"),
            8,
            Safety.SAFE,
            id="every part",
        ),
        pytest.param(
            script("x, y = b\nx = x.to(device)", loop="for b in loader:"),
            9,
            Safety.SAFE,
            id="taken apart",
        ),
        pytest.param(
            script("x, y = next(batches)\nx = x.to(device)", loop="while True:").replace(
                "while", "batches = iter(loader)\nwhile"
            ),
            10,
            Safety.SAFE,
            id="by next, again and again",
        ),
        pytest.param(
            script("g = x.to(device)\nn = x.shape[0] + x.sum()"),
            8,
            Safety.SAFE,
            id="only read on the host afterwards",
        ),
        pytest.param(
            script("b = b.to(device)", loop="for b in loader:"),
            8,
            Safety.UNSAFE,
            id="the whole batch, whose class nobody knows",
        ),
        pytest.param(
            script(given="pin_memory=True, collate_fn=collate"),
            8,
            Safety.UNSAFE,
            id="made by a function of its own",
        ),
        pytest.param(
            script("g = x.to(device)\nkeep(x)"), 8, Safety.UNSAFE, id="handed on afterwards"
        ),
        pytest.param(
            script("run(x, y)", before="def run(x, y):\n    return x.to(device) + y"),
            6,
            Safety.UNSAFE,
            id="a function is given it",
        ),
        pytest.param(
            script(before="if torch.backends.mps.is_available():\n    device = 'mps'"),
            9,
            Safety.UNSAFE,
            id="the device may be Apple's",
        ),
    ],
)
def test_reports(source, row, safety):
    (found,) = check(source, CODE)
    assert (found.location.row, found.severity) == (row, Severity.WARNING)
    assert found.fix is not None
    assert found.fix.safety is safety


def test_says_what_waits():
    (found,) = check(script(), CODE)
    assert found.message == (
        "the host waits for `x.to(device)` in every batch, though the DataLoader pins its memory"
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(given="pin_memory=args.pin"), id="an option decides"),
        pytest.param(
            script(given="pin_memory=pin", before="def main(pin): pass\npin = args.pin"),
            id="an option decides, by a variable",
        ),
        pytest.param(
            script(
                given="**options", before="options = {}\nif fast:\n    options['pin_memory'] = p"
            ),
            id="perhaps by a dictionary",
        ),
    ],
)
def test_an_option_may_pin(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert "may pin its memory" in found.message
    assert found.fix is not None
    assert found.fix.safety is Safety.SAFE


def test_a_framework_moves_by_itself():
    (found,) = check(script(before="import lightning"), CODE)
    assert (found.severity, found.fix) == (Severity.INFO, None)


def test_a_profiler_orders_nothing() -> None:
    (found,) = check(script(before="p = torch.profiler.profile()"), CODE)
    assert found.fix is not None


def test_an_order_made_by_hand_is_kept():
    (found,) = check(script(before="side = torch.cuda.Stream()"), CODE)
    assert (found.severity, found.fix) == (Severity.WARNING, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("x = x.cuda()", "x = x.cuda(non_blocking=True)", id="no argument"),
        pytest.param(
            "x = x.type(torch.cuda.FloatTensor)",
            "x = x.type(torch.cuda.FloatTensor, non_blocking=True)",
            id="by type",
        ),
        pytest.param(
            "x, y = x.to(device), y.to(device)",
            "x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)",
            id="two in one statement",
        ),
        pytest.param(
            "x = x.to(\n    device,  # the GPU\n)",
            "x = x.to(\n    device,  # the GPU\n    non_blocking=True,\n)",
            id="over several lines",
        ),
    ],
)
def test_fixes(before, after):
    assert fixed(script(before), CODE, unsafe=False) == script(after)


def test_the_loader_is_pinned_first():
    source = script(given="shuffle=True")
    pinned = fixed(source, "TL102")
    assert "non_blocking=True" in fixed(pinned, CODE)


@pytest.mark.parametrize(
    ("source", "safety"),
    [
        pytest.param(script("if args.cuda:\n    x = x.cuda()"), Safety.SAFE, id="an option"),
        pytest.param(script("x = x.float().to(device)"), None, id="perhaps a copy already"),
        pytest.param(
            script().replace("    loss.backward()\n", ""), Safety.SAFE, id="an evaluation"
        ),
        pytest.param(
            HEAD + "x, y = next(iter(DataLoader(d, pin_memory=True)))\nx = x.to(device)\n",
            Safety.SAFE,
            id="one batch",
        ),
    ],
)
def test_is_information(source, safety):
    found = check(source, CODE)
    assert [(one.severity, one.fix and one.fix.safety) for one in found] == [
        (Severity.INFO, safety)
    ]


def test_graphs_are_pinned_by_their_own_class():
    (found,) = check(script().replace("torch.utils.data", "torch_geometric.loader"), CODE)
    assert found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("for key in batch:\n    batch[key] = batch[key].to(device)", 1),
        ("x = batch['x'].to(device) if n else batch['x'].cuda(non_blocking=True)", 1),
        (
            """
            x = batch["x"]
            if n and device.type == "cuda":
                x = x.cuda(n, non_blocking=True)
            else:
                x = x.to(device)
            """,
            1,
        ),
    ],
)
def test_what_comes_before_and_beside(body, count):
    source = script(textwrap.dedent(body).strip(), loop="for batch in loader:")
    assert len(check(source, CODE)) == count
