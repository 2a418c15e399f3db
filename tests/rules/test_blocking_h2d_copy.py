"""TL205: the host waits for pinned batches to be copied to the GPU."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

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
    return "\n".join(lines) + "\n" + textwrap.indent(body, "    ") + "\n"


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
        pytest.param(script("show(model(x.to(device)))\ninput()"), id="a person goes on"),
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
        pytest.param(script("z = x.float().to(device)"), id="converted: new memory, not pinned"),
        pytest.param(script("z = augment(x).to(device)"), id="from a function nobody knows"),
        pytest.param(script(loop="for x, y in prefetch(loader):"), id="may have been moved"),
        pytest.param(script("z = x[:, 0].to(device)"), id="a part with gaps"),
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
            script("x = x.cuda(non_blocking=True) if use_cuda else x.to(device)"),
            id="the way without a GPU, in an expression",
        ),
        pytest.param(
            HEAD + "loader = DataLoader(dataset, pin_memory=True)\n"
            "x, y = next(iter(loader))\nx = x.to(device)\n",
            id="one batch, to look at",
        ),
        pytest.param(
            "import torch\ndef train(loader, dev):\n    for x in loader:\n        x.to(dev)\n",
            id="no loader in this file",
        ),
        pytest.param(
            script().replace("torch.utils.data", "torch_geometric.loader"), id="another loader"
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
            script("if args.cuda:\n    x = x.cuda()"), 9, Safety.SAFE, id="an option for the GPU"
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
        "the host waits for `x.to(device)` and 1 more in every batch, "
        "though the DataLoader pins its memory"
    )


def test_counts_what_one_batch_copies():
    source = script().replace("x.to(device)", "x.to(device) if n else x.to(device, torch.float)")
    (found,) = check(source, CODE)
    assert "`x.to(device)` and 1 more in every batch" in found.message


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


EVALUATED = """
import torch
from torch.utils.data import DataLoader

loader = DataLoader(dataset, num_workers=4, pin_memory=True)
model.eval()
with torch.no_grad():
    for images, labels in loader:
        images = images{images}
        labels = labels.cuda()
        hits += (model(images).argmax(1) == labels).sum()
"""


@pytest.mark.parametrize("before", [PADDED, PINNING])
def test_what_is_pinned_beside_a_class_that_may_not_be(before):
    given = "pin_memory=True, collate_fn=pad"
    (found,) = check(script("y = y.to(device)", given=given, before=before), CODE)
    assert "`y.to(device)`" in found.message


@pytest.mark.parametrize(
    ("images", "count"),
    [
        pytest.param(".float().cuda()", 1, id="a copy of the images is moved"),
        pytest.param(".cuda(non_blocking=True)", 1, id="the images are queued"),
        pytest.param(".cuda()", 2, id="the images as well"),
    ],
)
def test_labels_in_an_evaluation_are_information(images, count):
    found = check(EVALUATED.replace("{images}", images), CODE)
    assert [one.severity for one in found] == [Severity.INFO] * count


def test_labels_alone_in_a_training_step():
    source = script("y = y.to(device)", loop="for x, y in loader:") + "    loss.backward()\n"
    assert len(check(source, CODE)) == 1


@pytest.mark.parametrize(
    ("rest", "severity"),
    [
        pytest.param("if i % 100 == 0:\n    show(model(x))", Severity.INFO, id="now and then"),
        pytest.param("show(model(x))", Severity.WARNING, id="in each step"),
    ],
)
def test_what_is_queued_after_the_last_read_of_a_step(rest, severity):
    step = f"x = x.to(device)\nloss = model(x).sum()\nloss.backward()\nloss.item()\n{rest}"
    (found,) = check(script(step, loop="for i, (x, y) in enumerate(loader):"), CODE)
    assert found.severity is severity


def test_loops_of_now_and_then_and_those_without_gradients_are_information():
    inner = "loss = 0\nfor x, y in loader:\n    if {}:\n        for x, y in loader:\n"
    inner += "            x = x.to(device)"
    (found,) = check(script(inner.format("step % 500 == 0"), loop="if True:"), CODE)
    assert found.severity is Severity.INFO
    (found,) = check(script(inner.format("True"), loop="if True:"), CODE)
    assert found.severity is Severity.WARNING
    (found,) = check(script("with torch.no_grad():\n    x = x.to(device)"), CODE)
    assert found.severity is Severity.INFO
    step = "with torch.no_grad():\n    x = x.to(device)\nmodel(x).backward()"
    (found,) = check(script(step), CODE)
    assert found.severity is Severity.WARNING


def test_a_parameter_that_every_call_leaves_at_its_default():
    source = """\
    import torch
    from torch.utils.data import DataLoader

    def load(data, pinned={default}):
        return DataLoader(data, 64, num_workers=4, pin_memory=pinned)

    def train(model, data, device):
        for x, y in load(data{more}):
            model(x.cuda())
    """
    (found,) = check(source.format(default="True", more=""), CODE)
    assert "though the DataLoader pins its memory" in found.message
    (found,) = check(source.format(default="True", more=", data.pinned"), CODE)
    assert "may pin" in found.message
    assert check(source.format(default="False", more=""), CODE) == []


STEP = """\
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    {first}
    x = x.to(device)
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    {last}
"""


@pytest.mark.parametrize(
    ("first", "last", "severity"),
    [
        pytest.param("pass", "optimizer.step(); shown = loss.item()", "info", id="ends waiting"),
        pytest.param(
            "pass", "optimizer.step(); book.add(loss.item()); steps += 1", "info", id="then counts"
        ),
        pytest.param(
            "pass", "optimizer.step(); book.add(loss.data[0])", "info", id="as torch 0.4 waited"
        ),
        pytest.param(
            "for one in model.parameters(): one.grad = None",
            "optimizer.step(); loss.item()",
            "info",
            id="drops gradients first",
        ),
        pytest.param(
            "with torch.no_grad(): size = len(x)",
            "optimizer.step(); loss.item()",
            "info",
            id="only counts first",
        ),
        pytest.param("pass", "shown = loss.item(); optimizer.step()", "warning", id="then works"),
        pytest.param("model(noise)", "optimizer.step(); loss.item()", "warning", id="works first"),
        pytest.param(
            "pass", "optimizer.step()\n    if steps % 9 == 0: loss.item()", "warning", id="rarely"
        ),
    ],
)
def test_a_step_that_ends_with_a_wait(first: str, last: str, severity: str) -> None:
    source = script("pass", loop="if True:") + STEP.format(first=first, last=last)
    (found,) = check(source, CODE)
    assert found.severity.word == severity


def test_what_is_given_the_copy_runs_after_it() -> None:
    step = STEP.format(first="a, b = split(x.to(device))", last="optimizer.step(); loss.item()")
    source = script("pass", loop="if True:") + step.replace("    x = x.to(device)\n", "")
    (found,) = check(source.replace("model(x)", "model(a)"), CODE)
    assert found.severity.word == "info"


REPLAYED = """\
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x = x.to(device)
    for _ in range(8):
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    {last}
"""


@pytest.mark.parametrize(
    ("last", "severity"),
    [
        pytest.param("total += loss.item()", "info", id="ends waiting"),
        pytest.param("total += loss.data[0]", "info", id="ends waiting as torch 0.4 did"),
        pytest.param("pass", "warning", id="ends at once"),
        pytest.param("total += loss.item(); model(noise)", "warning", id="then works"),
        pytest.param("total += len(x); counts.item()", "warning", id="of the host"),
    ],
)
def test_a_batch_that_is_trained_on_several_times(last: str, severity: str) -> None:
    (found,) = check(script("pass", loop="if True:") + REPLAYED.format(last=last), CODE)
    assert found.severity.word == severity


ATTACKED = """\
def attack(model, x):
    for _ in range(steps):
        out = model(x) > torch.zeros(4, device="cuda")
        {waits}
    return x

@torch.no_grad()
def evaluate(model, book):
    for x, y in loader:
        x = x.to(device)
        book.add(model(attack(model, x)))
"""


@pytest.mark.parametrize(
    ("waits", "count"),
    [
        pytest.param("wrong = torch.where(out)", 0, id="counts in each turn"),
        pytest.param("wrong = out", 1, id="counts nothing"),
    ],
)
def test_an_evaluation_that_calls_what_waits_in_its_own_turns(waits: str, count: int) -> None:
    source = script("pass", loop="if True:") + ATTACKED.format(waits=waits)
    assert len(check(source, CODE)) == count


GENERATED = """\
@torch.no_grad()
def evaluate(model, other, rows):
    for x, y in loader:
        x = x.to(device)
        {turn}
        rows.append(ids)
"""


@pytest.mark.parametrize(
    ("turn", "count"),
    [
        pytest.param("ids = model.generate(x)", 0, id="a chain of runs for each batch"),
        pytest.param("ids = model(other.generate(x, do_sample=True))", 0, id="and one more run"),
        pytest.param("ids = model(x)", 1, id="one run"),
        pytest.param(
            "if kind == 'own': ids = model(x)\n        else: ids = model.generate(x)",
            0,
            id="one of two ways",
        ),
        pytest.param("if step % 50 == 0: ids = model.generate(x)", 1, id="now and then"),
    ],
)
def test_an_evaluation_that_generates(turn: str, count: int) -> None:
    source = script("pass", loop="if True:") + GENERATED.format(turn=turn)
    assert len(check(source, CODE)) == count


SAMPLES = """\
import torch
from torch.utils.data import DataLoader, Dataset

class Texts(Dataset):
    def __getitem__(self, i):
        {}
        return x

def train(model, optimizer):
    for x in DataLoader(Texts(), 64, num_workers=4, pin_memory=True):
        model(x.cuda()).mean().backward()
        optimizer.step()
"""


def test_token_ids_and_samples_on_the_gpu() -> None:
    (found,) = check(SAMPLES.format("x = self.images[i]"), CODE)
    assert found.severity is Severity.WARNING
    (found,) = check(SAMPLES.format("x = self.input_ids[i]"), CODE)
    assert found.severity is Severity.INFO
    silent(SAMPLES.format("x = torch.tensor(self.rows[i], device='cuda')"), CODE)


@pytest.mark.parametrize(
    ("name", "count"), [("find_lr", 0), ("lr_finder", 0), ("range_test_lr", 1), ("fit", 1)]
)
def test_one_pass_that_looks_for_a_learning_rate(name: str, count: int) -> None:
    source = SAMPLES.format("x = self.images[i]").replace("def train", f"def {name}")
    assert len(check(source, CODE)) == count


WRITTEN = """
class Points(torch.utils.data.Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __getitem__(self, i):
        return self.x[i], self.y[i]

def points():
    x = torch.tensor([[-1.2, 3.1], [0.5, 2.6]])
    y = {}
    return DataLoader(Points(x, y), 2, pin_memory=True)

for x, y in points():
    model(x.to(device), y.to(device)).backward()
"""


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("torch.tensor([0, 1])", 0),
        ("np.array([0, 1])", 0),
        ("torch.tensor([n] * 1000)", 1),
        ("torch.tensor(labels)", 1),
        ("torch.load(path)", 1),
    ],
)
def test_samples_that_stand_in_the_script(made: str, count: int) -> None:
    source = HEAD + "import numpy as np\n" + WRITTEN.format(made)
    assert len(check(source, CODE)) == count


UPLOADS = """
def validate(model, loader):
    model.eval()
    with torch.no_grad():
        for x, words in loader:
            x = x.to(device)
            size = len(x)
            {}
            show(model(x, lengths))


validate(model, DataLoader(dataset, 64, num_workers=4, pin_memory=True))
"""


@pytest.mark.parametrize(
    "upload",
    [
        pytest.param("lengths = torch.tensor([len(one) for one in words]).to(device)", id="a list"),
        pytest.param("lengths = torch.IntTensor([3] * size).to(device)", id="a type of tensor"),
        pytest.param("lengths = torch.LongTensor(size, 3).fill_(0).cuda()", id="filled"),
        pytest.param("x.size(0), torch.from_numpy(table).to(device)", id="an array"),
        pytest.param(
            "lengths = torch.tensor([len(one) for one in words], device=device)", id="made there"
        ),
    ],
)
def test_is_silent_where_an_evaluation_waits_next_for_what_it_makes_on_the_host(upload):
    silent(HEAD + UPLOADS.format(upload), CODE)


@pytest.mark.parametrize(
    "upload",
    [
        pytest.param("pass", id="nothing"),
        pytest.param("lengths = torch.zeros(size).to(device)", id="what another rule reports"),
        pytest.param("lengths = torch.tensor(words).to(device, non_blocking=True)", id="queued"),
        pytest.param("lengths = torch.tensor(words)", id="stays on the host"),
        pytest.param("y = model(x)\n            z = torch.tensor(words).to(device)",
                     id="after work that is queued"),
        pytest.param("if size:\n                z = torch.tensor(words).to(device)", id="perhaps"),
        pytest.param("z = torch.tensor(words).to(device) if size else x", id="perhaps, in a line"),
        pytest.param("z = torch.tensor(x).to(device)", id="a tensor that is there"),
        pytest.param("z = torch.tensor([3, size], device='cpu')", id="made on the host"),
    ],
)  # fmt: skip
def test_an_evaluation_that_need_not_wait(upload):
    (found,) = check(HEAD + UPLOADS.format(upload), CODE)
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        pytest.param("x = x.to(device)\nn = torch.tensor([len(x)]).to(device)", Severity.INFO,
                     id="a wait follows"),
        pytest.param("x, y = x.to(device), y.to(device)\nn = torch.tensor([9]).to(device)",
                     Severity.INFO, id="a wait follows two"),
        pytest.param("a = front(x.to(device))\nn = torch.tensor([9]).to(device)",
                     Severity.WARNING, id="work is queued before the wait"),
        pytest.param("n = torch.tensor([9]).to(device)\nx = x.to(device)", Severity.WARNING,
                     id="the wait is over"),
    ],
)  # fmt: skip
def test_a_step_that_waits_next_for_what_it_makes_on_the_host(body, severity):
    step = "\nloss = model(x).sum()\nloss.backward()\noptimizer.step()"
    (found,) = check(script(body + step), CODE)
    assert found.severity is severity


TWO_LOOPS = """
def train(loader, model, optimizer):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()

def train_twice(loader, model, optimizer):
    for x, y in loader:
        z = x.cuda()
        optimizer.zero_grad()
        model(z, y).backward()
        optimizer.step()

def main(twice):
    options = {"num_workers": 4, "pin_memory": True} if device.type == "cuda" else {}
    loader = DataLoader(dataset, **options)
    if twice:
        run = train_twice
    else:
        run = CHOSEN
    run(loader, model, optimizer)
"""


@pytest.mark.parametrize(("chosen", "rows"), [("train", [8, 15]), ("other", [])])
def test_a_loader_passed_to_the_one_of_two_functions_that_a_name_stands_for(chosen, rows):
    found = check(HEAD + TWO_LOOPS.replace("CHOSEN", chosen), CODE)
    assert [one.location.row for one in found] == rows


DATA = """
from torch.utils.data import DataLoader

def make_loaders(args, **kwargs):
    if args.name == "small":
        dataset = Small(args)
        return DataLoader(dataset, 64, shuffle=True, **kwargs), dataset.classes
    dataset = Large(args)
    return DataLoader(dataset, 64, shuffle=True, **kwargs), dataset.classes

def make_loader(dataset, options):
    return DataLoader(dataset, 64, **options)
"""
USES = """
import torch
from data import make_loader, make_loaders

class Trainer:
    def __init__(self, args):
        kwargs = {GIVEN}
        self.loader, self.classes = MADE

    def train(self, model):
        for x, y in self.loader:
            x = x.cuda()
            model(x, y).backward()
"""


@pytest.mark.parametrize(
    ("made", "given", "other", "count"),
    [
        pytest.param("make_loaders(args, **kwargs)", '"pin_memory": True', "", 1, id="keywords"),
        pytest.param("make_loader(d, kwargs), 3", '"pin_memory": True', "", 1, id="a dictionary"),
        pytest.param("make_loaders(args, pin_memory=True)", "", "", 1, id="a keyword"),
        pytest.param("make_loaders(args, **kwargs)", '"pin_memory": False', "", 0, id="not pinned"),
        pytest.param("make_loaders(args, **kwargs)", '"num_workers": 4', "", 0, id="of no memory"),
        pytest.param("make_loaders(args, **kwargs)", '"pin_memory": fast', "", 0, id="a variable"),
        pytest.param("make_loaders(args, **kwargs)", "**options", "", 0, id="from nowhere"),
        pytest.param(
            "make_loaders(args, **kwargs)",
            '"pin_memory": True',
            "from data import make_loaders\nloader, n = make_loaders(args)\n",
            0,
            id="another file makes one that is not pinned",
        ),
    ],
)
def test_options_that_another_file_passes(tmp_path, made, given, other, count):
    source = USES.replace("GIVEN", given).replace("MADE", made)
    files = {"train.py": source, "data.py": DATA, "other.py": other}
    assert len(check_in(tmp_path, files, "train.py", CODE)) == count


TABLE = """
from torch.utils.data import DataLoader

class Digits:
    def __init__(self, gpu):
        pin = True if gpu else False
        self.loader = DataLoader(read(), 64, pin_memory=pin)

DATA = {"digits": Digits}

def create(name, gpu):
    return DATA[name](gpu)
"""
TAKEN = """
import torch
import data

def main():
    images = data.create(args.data, torch.cuda.is_available())
    train(images.loader, net)

def train(loader, model):
    for x, y in loader:
        x = x.cuda()
        model(x, y).backward()

main()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        pytest.param("pin_memory=pin", "num_workers=4", 0, id="not pinned"),
        pytest.param(": Digits}", ": Digits}\nDATA.update(more)", 0, id="or another"),
        pytest.param(": Digits}", ": Digits, 'x': other}", 0, id="or what another gives"),
        pytest.param(": Digits}", ": Digits}", 1, id="the one class of the table"),
    ],
)
def test_a_loader_kept_by_an_object_of_a_class_from_a_table(tmp_path, old, new, count):
    files = {"train.py": TAKEN, "data.py": TABLE.replace(old, new)}
    assert len(check_in(tmp_path, files, "train.py", CODE)) == count


ENDLESS = """
class Endless:
    def __init__(self, dataset, **kwargs):
        self.loader = DataLoader(dataset, 64, **kwargs)
        self.batches = iter(self.loader)

    def next(self):
        return TAKEN

    def take(self):
        try:
            batch = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        return batch

def train(model):
    endless = Endless(dataset, pin_memory=PIN)
    while True:
        batch = endless.next()
        x, y = [t.to(device) for t in batch]
        model(x, y).backward()
"""


@pytest.mark.parametrize(
    ("taken", "pin", "count"),
    [
        pytest.param("next(self.batches)", "True", 1, id="what its method returns"),
        pytest.param("self.take()", "True", 1, id="what another method returns"),
        pytest.param("next(self.batches)", "False", 0, id="not pinned"),
        pytest.param("augment(next(self.batches))", "True", 0, id="something made of it"),
        pytest.param("self.ahead", "True", 0, id="nobody knows what"),
    ],
)
def test_a_class_that_takes_batches_out_of_its_loader(taken, pin, count):
    source = ENDLESS.replace("TAKEN", taken).replace("PIN", pin)
    main = 'if __name__ == "__main__":\n    train(model)\n'
    assert len(check(HEAD + source + main, CODE)) == count
    silent(HEAD + source.replace("while True:", "if True:") + main, CODE)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("if isinstance(x, list):\n    x = x[0]\nx = x.to(device)", id="a list"),
        pytest.param("if isinstance(x, (list, tuple)):\n    x = x[0]\nx = x.to(device)", id="both"),
        pytest.param("if isinstance(x, dict):\n    x = x['image']\nx = x.to(device)", id="a dict"),
        pytest.param(
            "if not isinstance(x, torch.Tensor):\n    x = x[0]\nx = x.to(device)", id="no tensor"
        ),
    ],
)
def test_a_batch_that_is_tested_for_its_structure(body) -> None:
    (found,) = check(script(body, loop="for x in loader:"), CODE)
    assert "`x.to(device)`" in found.message


def test_a_batch_that_is_tested_for_something_else() -> None:
    body = "if isinstance(x, str):\n    x = read(x)\nx = x.to(device)"
    assert check(script(body, loop="for x in loader:"), CODE) == []


STEPS = """
class Trainer:
    def __init__(self, device):
        self.device = device
        self.loader = DataLoader(dataset, 64, num_workers=4, pin_memory=True)
        self.held_out = iter(DataLoader(others, 64, num_workers=4, pin_memory=True))

    def step(self, batch):
        for key, value in batch.items():
            batch[key] = value.to(self.device)
        return model(batch)

    def train(self):
        for batch in self.loader:
            loss = self.step(batch)
            loss.backward()
            optimizer.step()
            measure(batch["truth"].to(self.device, {how}), loss)

    def validate(self):
        batch = self.held_out.{next}()
        self.step(batch)
"""


@pytest.mark.parametrize("name", ["next", "__next__"])
def test_a_method_is_given_batches_by_a_loop_and_by_an_iterator(name) -> None:
    steps = STEPS.replace("{next}", name).replace("{how}", "non_blocking=True")
    (found,) = check(HEAD + steps + "Trainer(device)\n", CODE)
    assert "`value.to(self.device)`" in found.message


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param(
            "for k, v in x.items():\n    x[k] = v.to(device, non_blocking=True)\n"
            "y = x['y'].to(device)",
            0,
            id="each entry",
        ),
        pytest.param(
            "for i in range(2):\n    x[i] = x[i].cuda(non_blocking=True)\ny = x[1].to(device)",
            0,
            id="each place",
        ),
        pytest.param(
            "x['y'] = x['y'].to(device, non_blocking=True)\ny = x['y'].to(device)",
            0,
            id="this entry",
        ),
        pytest.param(
            "x['z'] = x['z'].to(device, non_blocking=True)\ny = x['y'].to(device)",
            1,
            id="another entry",
        ),
        pytest.param(
            "for k, v in x.items():\n    x[k] = v.to('cpu')\ny = x['y'].to(device)",
            1,
            id="not moved",
        ),
        pytest.param(
            "other[k] = x['y'].to(device, non_blocking=True)\ny = x['y'].to(device)",
            1,
            id="stored in something else",
        ),
        pytest.param("move(x)\ny = x['y'].to(device)", 0, id="each entry, by a function"),
        pytest.param("y = x['y'].to(device)\nmove(x)", 1, id="by a function, afterwards"),
        pytest.param("show(x)\ny = x['y'].to(device)", 1, id="by no function"),
    ],
)
def test_entries_that_are_replaced_by_their_copies(body, count) -> None:
    before = """
def move(batch):
    for key in batch:
        batch[key] = batch[key].to(device, non_blocking=True)
def show(batch):
    print(batch.keys())
"""
    found = check(script(body, loop="for x in loader:", before=before), CODE)
    assert len(found) == count


def test_knows_the_name_of_the_flag_in_older_python() -> None:
    source = script("x, y = x.cuda(async=True), y.cuda()")
    copy, syntax = sorted(check(source, CODE), key=lambda one: one.code != CODE)
    assert (copy.code, copy.fix, syntax.code) == (CODE, None, "TL001")
    assert "`y.cuda()`" in copy.message
    (syntax,) = check(script("x = x.cuda(async=True)"), CODE)
    assert syntax.code == "TL001"


ENHANCER = """
import torch

class Enhancer:
    def train(self, loader, valid, device):
        self.net.to(device)
        for epoch in range(9):
            self.evaluate(valid{GIVEN})

    def evaluate(self, loader, log=None, device="cpu"):
        with torch.no_grad():
            for batch in loader:
                clean, noisy = batch
                clean = clean.to(device)
                log(self.net(clean), noisy)
"""
ENHANCES = """
import torch
from torch.utils.data import DataLoader
from enhancer import Enhancer

device = "cuda" if torch.cuda.is_available() else "cpu"
loader = DataLoader(dataset, 8, num_workers=4, pin_memory=True)
valid = DataLoader(other, 8, num_workers=4, pin_memory=True)
enhancer = Enhancer()
enhancer.train(loader, valid, device)
{MORE}
"""


@pytest.mark.parametrize(
    ("given", "more", "count"),
    [
        ("", "", 0),
        (", device=device", "", 1),
        ("", "enhancer.evaluate(valid, device=device)", 1),
        ("", "enhancer.evaluate(valid, *options)", 1),
    ],
)
def test_a_device_that_every_call_leaves_at_its_default(tmp_path, given, more, count):
    files = {
        "enhancer.py": ENHANCER.replace("{GIVEN}", given),
        "train.py": ENHANCES.replace("{MORE}", more),
    }
    assert len(check_in(tmp_path, files, "enhancer.py", CODE)) == count
