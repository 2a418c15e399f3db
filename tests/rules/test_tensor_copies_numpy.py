from __future__ import annotations

import textwrap
import warnings

import numpy as np
import pytest
import torch
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL302"
HEAD = "import numpy as np\nimport torch\n"


def script(body: str) -> str:
    return HEAD + textwrap.dedent(body)


def one(body: str) -> str:
    """What the fix of a function of one line makes of it."""
    return (
        fixed(script(f"def collate(x, n, dev):\n    return {body}\n"), CODE)
        .splitlines()[-1]
        .strip()
    )


# -- left alone -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("torch.tensor(x)", id="a parameter may be anything"),
        pytest.param("torch.tensor([1, 2])", id="from_numpy takes no list"),
        pytest.param("torch.tensor(3.0)", id="nor a number"),
        pytest.param("torch.tensor(np.mean(x))", id="a mean is a NumPy scalar"),
        pytest.param("torch.tensor(np.max(np.zeros(5000)))", id="and so is a maximum"),
        pytest.param("torch.tensor(np.zeros(5000).sum())", id="and a sum by method"),
        pytest.param("torch.tensor(np.random.rand())", id="one random number"),
        pytest.param("torch.tensor(np.random.randint(5))", id="one random integer"),
        pytest.param("torch.tensor(np.float32(n))", id="a cast of something unknown"),
        pytest.param("torch.tensor(np.array(3.0))", id="nothing to copy in one number"),
        pytest.param("torch.tensor(np.array('text'))", id="torch takes no strings"),
        pytest.param("torch.tensor(np.zeros(5000).tolist())", id="a list again"),
        pytest.param("torch.tensor(np.zeros(5000)[0])", id="one element is a scalar"),
        pytest.param("torch.tensor(np.dot(x, x))", id="a product of vectors is a scalar"),
        pytest.param("torch.tensor(np.zeros(5000), requires_grad=True)", id="a leaf with gradient"),
        pytest.param("torch.tensor(np.zeros(5000), requires_grad=n)", id="perhaps a leaf"),
        pytest.param("torch.tensor(np.zeros(5000), pin_memory=True)", id="torch raises here"),
        pytest.param("torch.tensor(np.zeros(5000), copy=True)", id="a keyword torch has not"),
        pytest.param("torch.tensor(np.zeros(5000), **n)", id="keywords that are not known"),
        pytest.param("torch.tensor(*n)", id="starred arguments"),
        pytest.param("torch.tensor(np.broadcast_to(x, (3, 3)))", id="read-only memory"),
        pytest.param("torch.tensor(np.frombuffer(x, np.uint8))", id="a buffer is read-only"),
        pytest.param("torch.tensor(np.load(x, mmap_mode='r'))", id="a memory map"),
        pytest.param("torch.tensor(np.asarray(x))", id="perhaps an image, read-only"),
        pytest.param("torch.tensor(np.array(x, copy=False))", id="the same for array(copy=False)"),
        pytest.param("torch.tensor(np.flip(np.zeros(5000)))", id="torch raises: negative strides"),
        pytest.param("torch.tensor(np.zeros(5000), dtype=torch.float32)", id="converts anyway"),
        pytest.param("torch.tensor(np.random.rand(3), dtype=torch.half)", id="converts to half"),
        pytest.param("torch.tensor(np.load(n), dtype=torch.long)", id="may convert"),
        pytest.param("torch.tensor(np.stack(x), dtype=torch.float32)", id="likely converts"),
        pytest.param("torch.tensor(np.stack(x), dtype=n)", id="to a dtype that nobody knows"),
        pytest.param("torch.tensor(np.stack(x)).float()", id="converted at once"),
        pytest.param("torch.tensor(np.stack(x)).to(torch.int32)", id="converted by `to`"),
        pytest.param("torch.tensor(np.array(x)[::-1])", id="torch raises: it runs backwards"),
        pytest.param("torch.tensor(np.zeros((64, 64)))", id="a small shape"),
        pytest.param("torch.tensor(np.eye(4, dtype=np.float32))", id="a small square"),
        pytest.param("torch.tensor(np.arange(n))", id="places: a number a sample"),
        pytest.param("torch.tensor(np.random.permutation(n))", id="places in a random order"),
        pytest.param("torch.tensor(np.where(np.zeros(n))[0])", id="places that were found"),
        pytest.param("torch.tensor(np.array([1.0, 2.0]))", id="a few numbers"),
        pytest.param("torch.tensor(np.asarray([len(row) for row in x]))", id="read from a list"),
        pytest.param(
            "torch.tensor(np.array([np.array(n, dtype=int)]), dtype=torch.float)",
            id="converts a list of arrays",
        ),
        pytest.param("torch.tensor(np.load(n)['x'], dtype=torch.float32)", id="likewise a part"),
        pytest.param(
            "torch.tensor(np.array([i / 9 for i in range(9)]), dtype=torch.float)", id="quotients"
        ),
        pytest.param("torch.tensor(np.zeros(5000), device='cuda')", id="goes to a GPU anyway"),
        pytest.param("torch.tensor(np.zeros(5000), device=n)", id="goes where a GPU may be"),
        pytest.param("torch.tensor(np.zeros(5000), device=n.device)", id="where another tensor is"),
        pytest.param("torch.Tensor(np.zeros(5000))", id="a conversion: another rule's"),
        pytest.param("torch.FloatTensor(np.zeros(5000))", id="the same for FloatTensor"),
        pytest.param(
            "torch.tensor(np.stack(x)[:, 0]).cuda()", id="a column that a GPU gets in one piece"
        ),
        pytest.param("torch.as_tensor(np.zeros(5000))", id="as_tensor does not copy"),
        pytest.param("torch.from_numpy(np.zeros(5000))", id="nor does from_numpy"),
        pytest.param("torch.tensor(np.zeros(5000)).resize_(5)", id="torch's memory can be resized"),
        pytest.param("torch.tensor(x.values)", id="perhaps a view of a data frame"),
        pytest.param("torch.tensor(x.to_numpy())", id="pandas again"),
    ],
)  # fmt: skip
def test_leaves_alone(expression: str) -> None:
    silent(script(f"def collate(x, n):\n    return {expression}\n"), CODE)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                t = torch.tensor(a)
                a[0] = 1
                return t
            """,
            id="changed afterwards",
        ),
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                t = torch.tensor(a)
                a += 1
                return t
            """,
            id="changed in place by an operator",
        ),
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                t = torch.tensor(a)
                np.random.shuffle(a)
                return t
            """,
            id="shuffled afterwards",
        ),
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                t = torch.tensor(a)
                np.add(t, 1, out=a)
                return t
            """,
            id="written as an output",
        ),
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                t = torch.tensor(a)
                return t, a
            """,
            id="returned beside the tensor",
        ),
        pytest.param(
            """\
            def collate(kept):
                a = np.zeros(5000)
                t = torch.tensor(a)
                kept.append(a)
                return t
            """,
            id="kept in a list",
        ),
        pytest.param(
            """\
            class Buffer:
                def collate(self):
                    a = np.zeros(5000)
                    t = torch.tensor(a)
                    self.a = a
                    return t
            """,
            id="kept in an object",
        ),
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                for i in range(3):
                    show(torch.tensor(a))
                    a[i] = 1
            """,
            id="changed in the next turn of the loop",
        ),
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                for i in range(3):
                    a[i] = 1
                    show(torch.tensor(a))
            """,
            id="changed earlier in the next turn",
        ),
        pytest.param(
            """\
            class Memory:
                def __init__(self):
                    self.states = np.zeros((8, 4))

                def add(self, i, state):
                    self.states[i] = state

                def recent(self):
                    return torch.tensor(self.states[:4])
            """,
            id="a buffer that is written to",
        ),
        pytest.param(
            """\
            def collate(a: np.ndarray):
                t = torch.tensor(a)
                t.mul_(2)
                return t
            """,
            id="the tensor is changed, the array is the caller's",
        ),
        pytest.param(
            """\
            def collate(a: np.ndarray):
                t = torch.tensor(a).float()
                t[0] = 2
                return t
            """,
            id="the tensor is written to",
        ),
        pytest.param(
            """\
            def collate(a: np.ndarray):
                return torch.nn.Parameter(torch.tensor(a))
            """,
            id="training would write into the caller's array",
        ),
        pytest.param(
            """\
            def collate(a: np.ndarray, copy=True):
                if copy:
                    return torch.tensor(a)
                return torch.as_tensor(a)
            """,
            id="the copy is a choice",
        ),
        pytest.param(
            """\
            def collate(a):
                if isinstance(a, np.ndarray):
                    return torch.from_numpy(a)
                return torch.tensor(a)
            """,
            id="arrays went another way",
        ),
    ],
)
def test_leaves_alone_what_needs_the_copy(body: str) -> None:
    silent(script(body), CODE)


@pytest.mark.parametrize(
    ("part", "use", "reported"),
    [
        pytest.param("[:, 0]", "t = t.cuda()", False, id="a column"),
        pytest.param("[:, 0]", "t = t.to(dev)", False, id="to a device"),
        pytest.param("[2:]", "t = t.cuda()", True, id="rows are in one piece"),
        pytest.param("[:, 0]", "t = t.sum()", True, id="it stays on the host"),
        pytest.param("[:, 0]", "n = n.cuda()", True, id="something else is moved"),
    ],
)
def test_a_column_is_copied_to_be_moved(part: str, use: str, *, reported: bool) -> None:
    source = script(
        f"""\
        def collate(x, n, dev):
            t = torch.tensor(np.stack(x){part})
            {use}
            return t, n
        """
    )
    assert bool(check(source, CODE)) is reported


def test_what_a_module_copies_as_it_is_made() -> None:
    silent(
        script(
            "class Grid(torch.nn.Module):\n    def __init__(self):\n"
            "        self.register_buffer('grid', torch.tensor(np.eye(99)))\n"
        ),
        CODE,
    )


def test_a_torch_of_another_name_is_no_torch() -> None:
    silent("import numpy as np\nimport mytorch as torch\nt = torch.tensor(np.zeros(5000))\n", CODE)
    silent("import jax.numpy as np\nimport torch\nt = torch.tensor(np.zeros(5000))\n", CODE)


# -- reported and fixed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.tensor(np.stack(x))", "torch.as_tensor(np.stack(x))"),
        ("torch.tensor(np.array(x))", "torch.as_tensor(np.array(x))"),
        ("torch.tensor(np.random.rand(n, 3))", "torch.as_tensor(np.random.rand(n, 3))"),
        ("torch.tensor(np.load(x))", "torch.as_tensor(np.load(x))"),
        ("torch.tensor(np.array(x).T)", "torch.as_tensor(np.array(x).T)"),
        ("torch.tensor(np.eye(99)[[0, 1]])", "torch.as_tensor(np.eye(99)[[0, 1]])"),
        ("torch.tensor(np.array(x) / 255)", "torch.as_tensor(np.array(x) / 255)"),
        ("torch.tensor(data=np.stack(x))", "torch.as_tensor(data=np.stack(x))"),
        ("torch.tensor(np.stack(x), requires_grad=False)", "torch.as_tensor(np.stack(x))"),
        ("torch.tensor(np.stack(x), dtype=torch.long)",
         "torch.as_tensor(np.stack(x), dtype=torch.long)"),
        ("torch.tensor(np.zeros(5000), dtype=torch.double)",
         "torch.as_tensor(np.zeros(5000), dtype=torch.double)"),
        ("torch.tensor(np.stack(x), dtype=torch.double, pin_memory=False)",
         "torch.as_tensor(np.stack(x), dtype=torch.double)"),
        ("torch.tensor(np.array(x, dtype=np.float32), dtype=torch.float)",
         "torch.as_tensor(np.array(x, dtype=np.float32), dtype=torch.float)"),
        ("torch.tensor(np.array([np.array(n, dtype=int)]), dtype=torch.long)",
         "torch.as_tensor(np.array([np.array(n, dtype=int)]), dtype=torch.long)"),
        ("torch.tensor(np.zeros(5000), dtype=float)",
         "torch.as_tensor(np.zeros(5000), dtype=float)"),
    ],
)  # fmt: skip
def test_fixes_a_fresh_array_safely(before: str, after: str) -> None:
    assert one(before) == f"return {after}"
    (finding,) = check(script(f"def collate(x, n, dev):\n    return {before}\n"), CODE)
    assert finding.fix is not None
    assert finding.fix.safety is Safety.SAFE
    assert "which nothing else uses" in finding.message


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                a[0] = 1
                a += 1
                total = a.sum() + len(a) + np.mean(a)
                print(total, a.shape)
                t = torch.tensor(a)
                return t, a.shape
            """,
            id="made, filled and read before",
        ),
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                a = a.reshape(3, 1)
                a = torch.tensor(a)
                a[0] = 1
                return a
            """,
            id="the name goes on as the tensor",
        ),
        pytest.param(
            """\
            def collate(n):
                for i in range(n):
                    a = np.zeros(5000)
                    a[0] = i
                    show(torch.tensor(a))
            """,
            id="made anew in each turn",
        ),
        pytest.param(
            """\
            def make(n):
                a = np.zeros(n)
                if n > 3:
                    return a
                a[:] = 1
                return a

            def collate():
                return torch.tensor(make(3))
            """,
            id="made by a function of this file",
        ),
        pytest.param(
            """\
            def make(n):
                return np.zeros(n), n

            def collate():
                a, n = make(3)
                return torch.tensor(a)
            """,
            id="one of several results",
        ),
        pytest.param(
            """\
            def collate(flag):
                a = np.zeros(5000)
                if flag:
                    return torch.tensor(a)
                return a
            """,
            id="returned itself on the other path",
        ),
        pytest.param(
            """\
            class Memory:
                def __init__(self, size):
                    self.states = np.zeros((8, 4))

                def add(self, i, state):
                    self.states[i] = state

                def collate(self, count):
                    rows = np.random.choice(8, count)
                    return torch.tensor(self.states[rows])
            """,
            id="rows picked by their indices are a copy",
        ),
        pytest.param(
            """\
            def collate(flag):
                return torch.tensor(np.zeros(5000) if flag else np.ones(3))
            """,
            id="one of two fresh arrays",
        ),
        pytest.param(
            """\
            data = np.load("data.npz")
            def collate(names):
                return [torch.tensor(data["x"]) for name in names]
            """,
            id="a member of an archive is read anew",
        ),
        pytest.param(
            """\
            def collate():
                t = torch.tensor(np.zeros(5000))
                t.mul_(2)
                return t
            """,
            id="the tensor is changed, and nobody holds the array",
        ),
    ],
)
def test_safe_where_nobody_else_holds_the_array(body: str) -> None:
    (finding,) = check(script(body), CODE)
    assert finding.fix is not None
    assert finding.fix.safety is Safety.SAFE


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        pytest.param(
            "def collate(a: np.ndarray):\n    return torch.tensor(a)", "shares", id="caller's"
        ),
        pytest.param(
            "def collate(a: np.ndarray):\n    return torch.tensor(a[None])", "shares",
            id="a view of it",
        ),
        pytest.param(
            "def collate(a: np.ndarray):\n    return torch.tensor(a.reshape(1, -1))", "shares",
            id="a reshape may be a view",
        ),
        pytest.param(
            "def collate(x):\n    return torch.tensor(x.numpy())", "shares", id="a tensor's memory"
        ),
        pytest.param(
            "def collate(x):\n    if isinstance(x, np.ndarray):\n        "
            "x = torch.tensor(x)\n    keep(x)",
            "shares", id="shown by a test",
        ),
        pytest.param(
            "def collate(n):\n    a = np.ones(n)\n    t = torch.tensor(a)\n    return t, a.sum()",
            "shares", id="read afterwards",
        ),
        pytest.param(
            "def collate(n):\n    a = np.ones(n)\n    show(a)\n    return torch.tensor(a)",
            "shares", id="handed to a function that is not known",
        ),
        pytest.param(
            "def collate(n):\n    a = np.ones(n)\n    b = a\n    return torch.tensor(a), b",
            "shares", id="another name for it",
        ),
        pytest.param(
            "def collate(n):\n    a = np.ones(n)\n    return [torch.tensor(a) for _ in range(3)]",
            "shares", id="several tensors of one array",
        ),
        pytest.param("def collate():\n    return torch.tensor(np.zeros((3000, 4))[:, 1:])", "gaps",
                     id="rows with gaps between them"),
    ],
)  # fmt: skip
def test_unsafe_where_somebody_else_may_hold_it(body: str, changes: str) -> None:
    (finding,) = check(script(body), CODE)
    assert finding.fix is not None
    assert finding.fix.safety is Safety.UNSAFE
    assert changes in finding.fix.changes


def test_the_cpu_is_no_other_device() -> None:
    (_,) = check(
        script("def collate():\n    return torch.tensor(np.zeros(5000), device='cpu')\n"), CODE
    )


TRAINING = """
def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, {}).sum()
        loss.backward()
        optimizer.step()
"""


COLLATE = """
def collate(samples):
    images, labels = map(list, zip(*samples))
    return torch.tensor(np.array({}))
"""


HELD = """
from torch.utils.data import Dataset

class Held(Dataset):
    def {}(self, path):
        self.xs = []
        {}
"""
LOOPED = "for name in path: self.xs.append(torch.tensor(np.load(name)))"
READS = """
def read(path):
    return torch.tensor(np.load(path))
""" + HELD.format("__init__", "for name in path: self.xs.append(read(name))")
PICKED = """
def picked(xs):
    chosen = np.where(np.ones(9))[0]
    return xs[torch.tensor(chosen)]
"""
GENERATED = """
for text in open("texts"):
    image = np.zeros(9)
    out = model.generate(torch.tensor(image))
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(COLLATE.format("labels"), id="the labels of a batch"),
        pytest.param(COLLATE.format("[int(label) for label in labels]"), id="numbers of a batch"),
        pytest.param(
            "class A(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
            "        classes = []\n        for one in self.objects[i]:\n"
            "            classes.append(one['class'])\n"
            "        return torch.tensor(np.array(classes), dtype=torch.int64)\n",
            id="the classes of the objects in a sample",
        ),
        pytest.param(
            "def collate(rows):\n    array = np.asarray([len(row) for row in rows])\n"
            "    return torch.tensor(array)\n",
            id="numbers, by the name of their array",
        ),
        pytest.param(HELD.format("__init__", LOOPED), id="the samples of a dataset"),
        pytest.param(READS, id="read by a function of its own"),
        pytest.param(PICKED + "picked(xs)\n", id="an index, once"),
        pytest.param(GENERATED, id="beside a whole generation"),
        pytest.param("t = torch.tensor(np.stack(y))\n", id="once a run"),
        pytest.param("def f(y):\n    return torch.tensor(np.stack(y))\n", id="nobody knows when"),
        pytest.param("for i in y:\n    t = torch.tensor(np.stack(i))\n", id="a loop of setup"),
        pytest.param(
            "class Config:\n    def __init__(self, path):\n"
            "        self.vectors = torch.tensor(np.load(path)['vectors'])\n",
            id="as an object is made",
        ),
        pytest.param(
            HELD.format("__init__", "self.weights = torch.tensor(np.ones(n))"),
            id="an array in a dataset that is not the data",
        ),
        pytest.param(HELD.format("grow", LOOPED), id="samples, nobody knows when"),
        pytest.param(
            TRAINING.format("y").replace(
                "        loss.back",
                "        if args.plot:\n            show(torch.tensor(np.stack(y)))\n"
                "        loss.back",
            ),
            id="in some steps",
        ),
    ],
)
def test_leaves_alone_what_gains_nothing(body: str) -> None:
    silent(script(body), CODE)


EVALUATION = """
def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            show(model(torch.tensor(np.stack(x))))
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(EVALUATION, id="each step of an evaluation"),
        pytest.param(
            "def collate(rows):\n    return torch.tensor(np.stack(rows), dtype=torch.long)\n",
            id="perhaps a conversion, each batch",
        ),
        pytest.param(
            HELD.format("__init__", "self.xs = torch.tensor(np.load(path))"), id="a whole dataset"
        ),
        pytest.param(
            "from torch.utils.data import TensorDataset\nxs = torch.tensor(np.stack(rows))\n"
            "data = TensorDataset(xs, torch.zeros(9))\n",
            id="joined for a whole dataset",
        ),
    ],
)
def test_what_costs_less_is_advice(body: str) -> None:
    (finding,) = check(script(body), CODE)
    assert finding.severity is Severity.INFO


def test_an_evaluation_that_generates() -> None:
    silent(script(EVALUATION.replace("model(torch", "model.generate(torch")), CODE)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(TRAINING.format("torch.tensor(np.stack(y))"), id="every step"),
        pytest.param(TRAINING.format("torch.tensor(np.stack(y)).to(x.device)"), id="then moved"),
        pytest.param(
            TRAINING.format("joined(y)") + "def joined(y):\n    return torch.tensor(np.stack(y))\n",
            id="a function that every step calls",
        ),
        pytest.param(
            "class A(torch.nn.Module):\n    def forward(self, x):\n"
            "        return x + torch.tensor(np.zeros(5000))\n",
            id="every forward pass",
        ),
        pytest.param(
            "class A(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
            "        return self.read(i)\n\n    def read(self, i):\n"
            "        return torch.tensor(np.load(self.paths[i]))\n",
            id="every sample",
        ),
        pytest.param(
            "def collate_rows(rows):\n    return torch.tensor(np.stack(rows))\n", id="every batch"
        ),
        pytest.param(COLLATE.format("images"), id="the images of a batch"),
        pytest.param(
            READS + "    def __getitem__(self, i):\n        return read(self.paths[i])\n",
            id="samples that are also read one by one",
        ),
        pytest.param(
            TRAINING.format("torch.tensor(np.stack(y))").replace(
                "loss.back", "model.generate(x); loss.back"
            ),
            id="a step that also generates",
        ),
        pytest.param(COLLATE.format("[np.load(one) for one in labels]"), id="a list of arrays"),
        pytest.param(
            COLLATE.format("labels").replace(
                "    return", "    labels = [np.zeros(n) for n in labels]\n    return"
            ),
            id="labels that are arrays",
        ),
        pytest.param(
            "class A(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
            "        x, target = self.pairs[i]\n        return x, torch.tensor(np.array(target))\n",
            id="the label of a sample, which may be an image",
        ),
    ],
)
def test_what_runs_again_and_again_is_a_warning(body: str) -> None:
    (finding,) = check(script(body), CODE)
    assert finding.severity is Severity.WARNING


def test_follows_the_spelling_of_the_file() -> None:
    source = "import numpy\nfrom torch import tensor\ndef collate(a):\n"
    source += "    t = tensor(numpy.stack([a, a]))  # joined\n"
    assert fixed(source, CODE).splitlines()[1:] == [
        "from torch import as_tensor, tensor",
        "def collate(a):",
        "    t = as_tensor(numpy.stack([a, a]))  # joined",
    ]
    source = "import numpy as np, torch as th\ndef collate(x):\n  t = "
    source += "th.tensor(\n    np.stack(x),  # rows\n)\n"
    assert "th.as_tensor(\n    np.stack(x),  # rows\n)" in fixed(source, CODE)


def test_no_fix_where_the_name_is_taken() -> None:
    source = "import numpy as np\nfrom torch import tensor\nas_tensor = 1\n"
    source += "def collate(x):\n    return tensor(np.stack(x))\n"
    (finding,) = check(source, CODE)
    assert finding.fix is None


def test_from_numpy_does_not_follow_a_default_device() -> None:
    for line in ("torch.set_default_device('cpu')", "with torch.device('cpu'): pass"):
        source = script(f"{line}\ndef collate(x):\n    return torch.tensor(np.eye(99))\n")
        assert "torch.as_tensor(np.eye(99))" in fixed(source, CODE)


def test_a_long_array_is_cut_in_the_message() -> None:
    (finding,) = check(
        script(f"def collate(abc):\n    return torch.tensor(np.stack([{'abc, ' * 20}]))\n"), CODE
    )
    assert "the array `np.stack([abc, abc, abc, abc, abc, abc, abc, ...`" in finding.message
    (finding,) = check(
        script(f"def collate(x):\n    return torch.tensor(np.eye(3) + {'1 + ' * 20}1)\n"), CODE
    )
    assert "1 + 1...`" in finding.message


# -- what the rewrite rests on, run on torch ------------------------------------------------------

ARRAYS = {
    "C": np.arange(6.0).reshape(2, 3),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "float32": np.ones((2, 3), np.float32),
    "bool": np.ones((2, 3)) > 0,
    "0-d": np.array(3),
    "empty": np.zeros((0, 3)),
    "uint16": np.array([1, 2], np.uint16),
    "complex": np.array([1j]),
    "picked": np.eye(4)[:, [0, 2]],
}


@pytest.mark.parametrize("name", ARRAYS)
def test_the_tensor_is_the_same(name: str) -> None:
    array = ARRAYS[name]
    copied = torch.tensor(array)
    for shared in (torch.from_numpy(array), torch.as_tensor(array)):
        assert torch.equal(shared, copied)
        assert (shared.dtype, shared.stride()) == (copied.dtype, copied.stride())
    real = (torch.float32, torch.float64)
    for dtype in () if np.iscomplexobj(array) else real:
        cast = torch.as_tensor(array, dtype=dtype)
        assert torch.equal(cast, torch.tensor(array, dtype=dtype))
        assert cast.stride() == torch.tensor(array, dtype=dtype).stride()


def test_what_makes_a_copy_necessary() -> None:
    array = np.zeros(3)
    shared = torch.from_numpy(array)
    array[0] = 1
    assert shared[0] == 1
    shared[1] = 2
    assert array[1] == 2
    with pytest.raises(RuntimeError, match="not resizable"):
        shared.resize_(5)
    gaps = np.zeros((3, 4))[:, 1:]
    assert torch.tensor(gaps).stride() != torch.as_tensor(gaps).stride()
    read_only = np.broadcast_to(np.zeros(3), (2, 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.as_tensor(read_only)
    assert any("not writable" in str(warning.message) for warning in caught) or not caught


@pytest.mark.parametrize("scalar", [np.float64(3), np.float32(3), np.int64(3), np.bool_(1)])
def test_scalars_go_to_as_tensor_only(scalar: np.generic) -> None:
    with pytest.raises(TypeError):
        torch.from_numpy(scalar)
    assert torch.as_tensor(scalar).dtype == torch.tensor(scalar).dtype
    assert torch.equal(torch.as_tensor(scalar), torch.tensor(scalar))


@pytest.mark.parametrize(
    "array",
    [np.zeros(3)[::-1], np.zeros(3, ">f4"), np.array(["a"]), np.array([None, 1]),
     np.zeros(3, np.longdouble), np.zeros(3, "datetime64[s]")],
    ids=["negative strides", "big-endian", "strings", "objects", "long double", "dates"],
)  # fmt: skip
def test_what_torch_does_not_take_raises_either_way(array: np.ndarray) -> None:
    for function in (torch.tensor, torch.from_numpy, torch.as_tensor):
        with pytest.raises((TypeError, ValueError)):
            function(array)


def test_a_pinned_copy_of_an_array_raises() -> None:
    with pytest.raises(RuntimeError, match="pin"):
        torch.tensor(np.zeros(3), pin_memory=True)


# -- vector environments --------------------------------------------------------------------------


ROLLOUT = """
import gymnasium as gym
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
envs = {make}
seen, _ = envs.reset()
for step in range(1000):
    actions = model({seen}).argmax(1)
    seen, reward, ended, cut, infos = envs.step(actions.cpu().numpy())
    loss = (model.value - {reward}.to(device)).mean()
    loss.backward()
"""
VECTOR = "gym.vector.SyncVectorEnv(makers)"


def test_the_rewards_of_a_vector_environment_are_a_copy_of_a_few_bytes():
    silent(ROLLOUT.format(make=VECTOR, seen="seen", reward="torch.tensor(reward)"), CODE)


def test_its_observations_are_copied_in_every_step():
    source = ROLLOUT.format(make=VECTOR, seen="torch.tensor(seen).to(device)", reward="reward")
    [found] = check(source, CODE)
    assert found.severity is Severity.WARNING


def test_one_environment_answers_with_numbers():
    source = ROLLOUT.format(
        make="gym.make('FrozenLake-v1')", seen="torch.tensor(seen)", reward="torch.tensor(reward)"
    )
    silent(source, CODE)
    silent(source.replace("FrozenLake", "CartPole").replace("torch.tensor(seen)", "seen"), CODE)


def test_one_environment_shows_a_few_numbers_or_an_image():
    for name, count in (("CartPole-v1", 0), ("CarRacing-v3", 1), ("ALE/Pong-v5", 1)):
        make, seen = f"gym.make('{name}')", "torch.tensor(seen).to(device)"
        found = check(ROLLOUT.format(make=make, seen=seen, reward="reward"), CODE)
        assert [one.severity for one in found] == [Severity.WARNING] * count


def test_tensor_of_an_array_is_no_copy_of_float32():
    seen, array = "torch.Tensor(seen).to(device)", np.zeros(3, dtype=np.float32)
    silent(ROLLOUT.format(make=VECTOR, seen=seen, reward="reward"), CODE)
    torch.Tensor(array)[0] = 1
    assert array[0] == 1
