"""Which loaders' batches go to a GPU, and which loops iterate which loader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import probing
import pytest

from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

    from torchlint.analysis.program import Program

HEAD = """\
import itertools, torch
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm
"""


def parsed(source: str) -> Program:
    return probing.parsed(source, HEAD)


def moved(source: str) -> list[str]:
    return probing.moved(parsed(source))


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("for x in A:\n    x.cuda()", id="directly"),
        pytest.param("for x, y in A:\n    y.cuda()", id="a part of the batch"),
        pytest.param("for x in A:\n    x['image'].cuda()", id="a key of the batch"),
        pytest.param("for x in A:\n    x.image.cuda()", id="an attribute of the batch"),
        pytest.param("for i, (x, y) in enumerate(A):\n    x.cuda()", id="counted"),
        pytest.param("for i, x in enumerate(tqdm(A), 1):\n    x.cuda()", id="with a progress bar"),
        pytest.param("bar = tqdm(enumerate(A))\nfor i, x in bar:\n    x.cuda()", id="in steps"),
        pytest.param("for x, y in zip(A, B):\n    x.cuda()", id="the first of two"),
        pytest.param("for y, x in zip(B, A):\n    x.cuda()", id="the second of two"),
        pytest.param("for p in zip(A, list(C)):\n    p[0].cuda()", id="of a pair"),
        pytest.param("for i, (x, y) in enumerate(zip(A, B)):\n    x.cuda()", id="counted pairs"),
        pytest.param("for x in itertools.islice(A, 9):\n    x.cuda()", id="some of them"),
        pytest.param("for x in logger.log_every(A, 10):\n    x.cuda()", id="by a logger"),
        pytest.param("it = iter(A)\nwhile c:\n    x = next(it)\n    x.cuda()", id="one by one"),
        pytest.param(
            "it = iter(A)\nwhile c:\n    x, y = it.next()\n    x.cuda()", id="by a method"
        ),
        pytest.param("[x.cuda() for x in A]", id="in a comprehension"),
        pytest.param("for b in A:\n    b = [t.cuda() for t in b]", id="each part of the batch"),
        pytest.param(
            "for b in A:\n    b = {k: v.cuda() for k, v in b.items()}", id="each item of the batch"
        ),
        pytest.param("for b in A:\n    for v in b.values():\n        v.cuda()", id="each value"),
        pytest.param("for b in A:\n    b.get('x').cuda()", id="an item by get"),
        pytest.param(
            "for b in A:\n    x = b[0]\n    y = x.view(-1).float()\n    y.cuda()", id="later"
        ),
        pytest.param("for b in A:\n    x = 0\n    x += b\n    x.cuda()", id="after a sum"),
        pytest.param("for b in A:\n    (b if c else d).cuda()", id="under a condition"),
        pytest.param("for b in A:\n    x, y = b, 0\n    x.cuda()", id="after unpacking"),
        pytest.param("for b in A:\n    (x := b).cuda()", id="named on the way"),
        pytest.param("for b in A:\n    torch.autograd.Variable(b).cuda()", id="in a Variable"),
        pytest.param("for b in A:\n    torch.as_tensor(b, device='cuda')", id="by a function"),
        pytest.param("for b in A:\n    to_device(b, device)", id="by a function of another file"),
        pytest.param(
            "def move(*all): return (one.cuda() for one in all)\nfor b in A:\n    x, y = move(*b)",
            id="all that a function is passed",
        ),
        pytest.param(
            "def move(n, *all): return [one.cuda() for one in all]\n"
            "for x, y in A:\n    move(1, x, y)",
            id="the rest of what it is passed",
        ),
        pytest.param(
            "def move(*all): return all[0], all[1].cuda()\nfor x, y in zip(B, A):\n    move(x, y)",
            id="the second that it is passed",
        ),
        pytest.param(
            "def move(n, *all): return all[1].cuda()\nfor x, y in zip(B, A):\n    move(1, x, y)",
            id="the second of the rest",
        ),
        pytest.param("for b in A:\n    send(b, device=args.gpu)", id="by a function, by keyword"),
        pytest.param("for b in A:\n    b.to(device=device)", id="by keyword"),
        pytest.param("for b in A:\n    b.type('torch.cuda.FloatTensor')", id="by type"),
        pytest.param(
            "T = torch.cuda.FloatTensor\nfor b in A:\n    b.type(T)", id="by a type with a name"
        ),
        pytest.param(
            "g = torch.empty(9).cuda()\nfor b in A:\n    g.copy_(b)", id="into a buffer on the GPU"
        ),
        pytest.param("def f(b):\n    b.cuda()\nfor x in A:\n    f(x)", id="in a function"),
        pytest.param("f = lambda n, t: t.cuda()\nfor x in A:\n    f(1, x)", id="in a lambda"),
        pytest.param("for x, y in A:\n    a = map(lambda t: t.cuda(), (x, y))", id="in map"),
        pytest.param("def f(l):\n    for x in l:\n        x.cuda()\nf(A)", id="passed on"),
        pytest.param("def f(*, l):\n    for x in l:\n        x.cuda()\nf(l=A)", id="by name"),
        pytest.param(
            "def f():\n    while c:\n        for x in A:\n            yield x\n"
            "for x in f():\n    x.cuda()",
            id="by a generator",
        ),
        pytest.param("def f():\n    yield from A\nfor x in f():\n    x.cuda()", id="yielded from"),
        pytest.param(
            "def f():\n    return next(it)\nit = iter(A)\nfor i in n:\n    f().cuda()",
            id="a batch that a function fetches",
        ),
        pytest.param(
            "def f():\n    return A, B\na, b = f()\nfor x in a:\n    x.cuda()", id="returned"
        ),
        pytest.param(
            "for l in (A, D):\n    for x in l:\n        x.cuda()", id="one of a tuple of loaders"
        ),
        pytest.param(
            "for l, n in ((A, B), (A, 1)):\n    for x in l:\n        x.cuda()", id="of pairs"
        ),
        pytest.param(
            "loaders = {'train': A, 'val': B}\nfor x in loaders['train']:\n    x.cuda()",
            id="by key",
        ),
        pytest.param(
            "loaders = dict(train=A)\nfor x in loaders['train']:\n    x.cuda()", id="of dict()"
        ),
        pytest.param(
            "loaders = {}\nloaders['train'] = A\nfor x in loaders['train']:\n    x.cuda()",
            id="put in a dictionary",
        ),
        pytest.param(
            "loaders = {'train': A}\nfor x in loaders.get('train'):\n    x.cuda()", id="by get"
        ),
        pytest.param(
            "loaders = [A, B]\nfor x in loaders[0]:\n    x.cuda()", id="by place in a list"
        ),
        pytest.param(
            "loaders = []\nloaders.append(A)\nfor l in loaders:\n    for x in l:\n        x.cuda()",
            id="appended",
        ),
        pytest.param(
            "for n, l in {'train': A}.items():\n    for x in l:\n        x.cuda()", id="of items"
        ),
        pytest.param(
            "for l in {'train': A}.values():\n    for x in l:\n        x.cuda()", id="of values"
        ),
        pytest.param("wrapped = Prefetcher(A)\nfor x in wrapped:\n    x.cuda()", id="in a wrapper"),
        pytest.param("with A as l:\n    for x in l:\n        x.cuda()", id="in with"),
    ],
)
def test_batches_go_to_a_gpu(loop):
    head = "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    loaders = "A = DataLoader(a)\nB = DataLoader(b)\nC = DataLoader(c)\nD = 0\n"
    assert moved(f"{head}{loaders}{loop}") == ["a"]


@pytest.mark.parametrize(
    ("loop", "loaders"),
    [
        pytest.param(
            """
            loaders = {"train": DataLoader(a), "val": DataLoader(b)}
            for phase in ["train", "val"]:
                for x in loaders[phase]:
                    x.cuda()
            """,
            ["a", "b"],
            id="a dictionary of phases",
        ),
        pytest.param(
            """
            loaders = {n: DataLoader(data[n]) for n in names}
            for x in loaders["train"]:
                x.cuda()
            """,
            ["data[n]"],
            id="a dictionary that is computed",
        ),
        pytest.param(
            """
            for l in [DataLoader(d) for d in sets]:
                for x in l:
                    x.cuda()
            """,
            ["d"],
            id="a list that is computed",
        ),
        pytest.param(
            """
            def loaders():
                train = DataLoader(a)
                test = DataLoader(b)
                return train, test

            train, test = loaders()
            for x in test:
                x.cuda()
            """,
            ["b"],
            id="one of what a function returns",
        ),
        pytest.param(
            """
            class Trainer:
                def __init__(self, loader):
                    self.loader = loader
                    self.test, n = DataLoader(b), 1
                    self.more = []
                    self.more.append(DataLoader(c))

                @property
                def both(self):
                    return self.loader

                def fit(self):
                    for x in self.both:
                        x.to("cuda")
                    for l in self.more:
                        for x in l:
                            x.to("cuda")

            Trainer(DataLoader(a)).fit()
            """,
            ["c", "a"],
            id="in self",
        ),
        pytest.param(
            """
            class Data:
                def __init__(self):
                    self.train = DataLoader(a)

                def loader(self):
                    return self.train

            data = Data()
            for x in data.train:
                x.cuda()
            """,
            ["a"],
            id="in an object",
        ),
        pytest.param(
            """
            class Moving:
                def __init__(self, loader):
                    self.loader = loader

                def __iter__(self):
                    for batch in self.loader:
                        yield send(batch)

            def send(batch):
                if isinstance(batch, list):
                    return [send(item) for item in batch]
                return batch.to(device)

            device = torch.device("cuda")
            train = Moving(DataLoader(a))
            """,
            ["a"],
            id="in an iterator of one's own",
        ),
        pytest.param(
            """
            class Model:
                def set_input(self, batch):
                    self.x = batch["A"]

                def forward(self):
                    return self.x.cuda()

            model = Model()
            for x in DataLoader(a):
                model.set_input(x)
            """,
            ["a"],
            id="kept by the model",
        ),
    ],
)
def test_batches_of_loaders_in_larger_structures(loop, loaders):
    assert moved(loop) == loaders


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(
            "def f(net):\n    net.cuda()\nfor x in A:\n    f((x.shape[1], x.dtype))",
            id="what a batch tells of itself",
        ),
        pytest.param("for y in zip(B, A):\n    pass", id="no move"),
        pytest.param("for x, y in zip(A, B):\n    y.cuda()", id="the other of two"),
        pytest.param("for i, x in enumerate(A):\n    i.cuda()", id="the count"),
        pytest.param(
            "for k, l in {'a': A}.items():\n    for x in k:\n        x.cuda()", id="a key"
        ),
        pytest.param("for k in {'a': A}.keys():\n    k.cuda()", id="keys"),
        pytest.param("l = {'a': A, 'b': B}\nfor x in l['b']:\n    x.cuda()", id="another key"),
        pytest.param("l = [A, B]\nfor x in l[1]:\n    x.cuda()", id="another place"),
        pytest.param("model = make(A)\nmodel.cuda()", id="a model that knows the loader"),
        pytest.param("x = next(iter(A))\nx.cuda()", id="one batch"),
        pytest.param(
            "def f():\n    return next(iter(A)).cuda()\nf()", id="one batch, in a function"
        ),
        pytest.param("for x in A:\n    x.cuda()\n    break", id="the first batch"),
        pytest.param("for x in A:\n    x.cpu()", id="to the host"),
        pytest.param("for x in A:\n    x.to('mps')", id="to another kind of device"),
        pytest.param("for x in A:\n    x.type(torch.FloatTensor)", id="another type"),
        pytest.param("for x in A:\n    host.copy_(x)", id="into a buffer somewhere"),
        pytest.param("for x in A:\n    torch.zeros(len(x), device='cuda')", id="of its length"),
        pytest.param("for x in A:\n    torch.zeros_like(x).cuda()", id="of its shape"),
        pytest.param("for x in A:\n    print(x, device)", id="shown"),
        pytest.param("for m in (model, A.dataset):\n    m.cuda()", id="its dataset"),
        pytest.param("f = lambda x: x.cuda()", id="a lambda that nobody is seen to call"),
        pytest.param(
            "f = lambda *x, k: [x[0].cuda(), k.cuda()]\nf(A, k=A)", id="a lambda of any number"
        ),
        pytest.param("for x in A:\n    f = sorted(x, key=lambda t: t.cuda())", id="as a key"),
        pytest.param("T = T\nfor x in A:\n    x.type(T)", id="a type that is itself"),
        pytest.param("T, n = torch.cuda.FloatTensor, 1\nfor x in A:\n    x.type(T)", id="unpacked"),
        pytest.param(
            "loaders = {}\nloaders[1:2] = A\nfor x in loaders:\n    x.cuda()", id="a part"
        ),
        pytest.param("f().x['a'] = A\nf().x.append(A)\nfor x in f():\n    x.cuda()", id="in f()"),
        pytest.param("def f():\n    yield\n    return\nfor x in f():\n    x.cuda()", id="empty"),
        pytest.param("for x in A[0, 1]:\n    pass\nA[0, 1].cuda()", id="two indices"),
        pytest.param("while c:\n    n = x.next()\nA.x.cuda()", id="next of something else"),
        pytest.param("del A\nA.cuda()", id="deleted"),
        pytest.param("A[1:2].cuda()", id="a slice"),
        pytest.param("for x in A:\n    y = x / 255\n    y.cuda()", id="new memory"),
        pytest.param("for x in A:\n    torch.tensor(x.numpy()).cuda()", id="an array of it"),
        pytest.param("for x in A:\n    torch.FloatTensor(x).cuda()", id="a tensor of it"),
    ],
)
def test_batches_do_not(loop):
    assert "a" not in moved(f"device = 'cpu'\nA = DataLoader(a)\nB = DataLoader(b)\n{loop}")


SELDOM = """
A = DataLoader(a)

def check(turns=100):
    {setup}
    it = iter(A)
    {loop}
        {draw}

for step, y in enumerate(ys):
    loss(y).backward()
    optimizer.step()
    if step % 500 == 0:
        check()
"""
SWITCHED, DRAWN = "model.eval()", "x = next(it).cuda()"
SHORTER = "model.eval(); turns = min(turns, len(A))"


@pytest.mark.parametrize(
    ("setup", "loop", "draw", "found"),
    [
        pytest.param(SWITCHED, "for i in range(turns):", DRAWN, [], id="as many as are asked for"),
        pytest.param(SWITCHED, "for i in range(len(names)):", DRAWN, [], id="as many as others"),
        pytest.param("pass", "for i in range(len(A)):", DRAWN, [], id="no evaluation"),
        pytest.param(
            SWITCHED, "for i in range(len(A)):", f"if i == k: {DRAWN}", [], id="now and then"
        ),
        pytest.param(
            SWITCHED,
            "for i in range(len(A)):",
            f"def one(): {DRAWN}\n        if i == k: one()",
            [],
            id="by a function, now and then",
        ),
        pytest.param(SWITCHED, "if len(A):", DRAWN, [], id="once"),
        pytest.param(SWITCHED, "for i in range(len(A)):", DRAWN, ["a"], id="all"),
        pytest.param(SWITCHED, "while i < len(A):", DRAWN, ["a"], id="all, one by one"),
        pytest.param(SHORTER, "for i in range(turns):", DRAWN, ["a"], id="by a name"),
        pytest.param(
            SHORTER, "for i in range(turns):", "x = it.next().cuda()", ["a"], id="by a method"
        ),
    ],
)
def test_an_evaluation_now_and_then_that_draws_all_batches(
    setup: str, loop: str, draw: str, found: list[str]
) -> None:
    assert moved(SELDOM.format(setup=setup, loop=loop, draw=draw)) == found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        pytest.param("for x in A:\n    pass", [5], id="directly"),
        pytest.param("for x in tqdm(A):\n    pass\nfor x in A:\n    pass", [5, 7], id="twice"),
        pytest.param("for x in B:\n    pass", [], id="not at all"),
        pytest.param(
            "xs = []\nfor x in A:\n    xs.append(x.cuda())\nfor x, y in zip(xs, xs):\n    pass",
            [6],
            id="what is kept on the GPU is not loaded again",
        ),
        pytest.param(
            "kept = []\nkept.append(A)\nfor x in kept[0]:\n    pass", [7], id="a loader is kept"
        ),
    ],
)
def test_loops_over_a_loader(source, lines):
    program = parsed(f"A = DataLoader(a)\n{source}")
    (call,) = program.loaders.calls
    loops = program.loaders.loops(call)
    assert len(loops) == len(lines)
    assert all(program.index.parent(loop) is program.module for loop in loops)


MODES = """
def make(mode):
    if mode == "train":
        return DataLoader(a), DataLoader(b)
    elif mode == "test":
        return DataLoader(c)
    return DataLoader(d)
first, second = make("train")
for x in first:
    x.cuda()
for y in second:
    y.cuda()
for z in make("test"):
    z.cuda()
for rest in make(mode):
    pass
"""


def test_a_call_gives_the_loaders_that_its_constants_choose():
    program = parsed(MODES)
    loaders = program.loaders
    found = [[program.code(one.node) for one in loaders.moves(call)] for call in loaders.calls]
    assert found == [["x.cuda()"], ["y.cuda()"], ["z.cuda()"], []]
    loops = [[program.code(one.iter) for one in loaders.loops(call)] for call in loaders.calls]
    assert loops[:2] == [["first", "make(mode)"], ["second", "make(mode)"]]
    assert loops[2:] == [['make("test")', "make(mode)"], ["make(mode)"]]


CHOSEN = """
def small():
    return DataLoader(a), 1
def large():
    return DataLoader(b), 2
def builder(name):
    if name == "small":
        return small
    LAST
build = builder(name)
loader, _ = build()
for x in loader:
    x.cuda()
"""


@pytest.mark.parametrize(
    ("last", "loops"),
    [
        pytest.param("return other", [0, 0], id="nothing is known of what may be another"),
        pytest.param("raise ValueError(name)", [1, 0], id="one"),
        pytest.param("return large", [1, 1], id="either"),
    ],
)
def test_the_loaders_of_a_function_that_a_function_chooses(last, loops):
    loaders = parsed(CHOSEN.replace("LAST", last)).loaders
    assert [len(loaders.loops(call)) for call in loaders.calls] == loops


@pytest.mark.parametrize(
    ("source", "device"),
    [
        ("x.cuda()", "CUDA"),
        ("x.to('cuda:0')", "CUDA"),
        ("if c:\n        x.cuda()", "MAYBE"),
        ("x = x.cuda() if c else x", "MAYBE"),
        ("x.to(device)", "MAYBE"),
        ("x.type(torch.cuda.FloatTensor)", "CUDA"),
        ("x.type(torch.cuda.FloatTensor if c else torch.FloatTensor)", "MAYBE"),
        ("send(x, 'cuda', device=torch.device('cuda'))", "MAYBE"),
    ],
)
def test_how_sure_a_move_is(source, device):
    program = parsed(f"for x in DataLoader(a):\n    {source}")
    (call,) = program.loaders.calls
    assert [move.device.name for move in program.loaders.moves(call)] == [device]


def test_a_file_without_loaders_is_not_searched():
    program = parsed("for x in batches:\n    x.cuda()")
    assert program.loaders.calls == []
    assert (program.loaders._moves, program.loaders._loops) == ({}, {})


TRAINER = """\
from toolkit import Trainer
A = DataLoader("A")
B = DataLoader("B")

class Own(Trainer):
    def train(self, {taken}):
        for x in options["data"]:
            x.cuda()

    def show(self, data):
        print(data)

def run(other):
    trainer = Own()
    {call}
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        pytest.param("trainer.fit(data=A, held_out=B)", ["A"], id="to a base that is not seen"),
        pytest.param("trainer.fit(held_out=A)", [], id="by another keyword"),
        pytest.param("trainer.show(data=A)", [], id="to a method of its own"),
        pytest.param("other.fit(data=A)", [], id="to another object"),
        pytest.param("trainer.fit(data=A)\n    trainer.train({'data': B})", ["B"], id="seen"),
    ],
)
def test_a_base_that_is_not_seen_hands_its_keywords_to_a_method(
    call: str, found: list[str]
) -> None:
    assert moved(TRAINER.format(taken="options", call=call)) == [f'"{name}"' for name in found]


def test_a_base_that_is_not_seen_hands_its_keywords_on_as_such() -> None:
    assert moved(TRAINER.format(taken="**options", call="trainer.fit(data=A)")) == ['"A"']


KEPT = """
class Data:
    def __init__(self, mode, extra=None):
        if mode == "train":
            self.loader = DataLoader(a)
        elif mode == "val":
            self.loader = DataLoader(b)
        else:
            self.loader = DataLoader(c)
"""


@pytest.mark.parametrize(
    ("loop", "loaders"),
    [
        ("data = Data('train')\nfor x in data.loader:\n    x.cuda()", ["a"]),
        ("data = Data(mode='val')\nfor x in data.loader:\n    x.cuda()", ["b"]),
        ("data = Data('test')\nfor x in data.loader:\n    x.cuda()", ["c"]),
        ("data = Data('train') if c else Data('val')\nfor x in data.loader:\n    x.cuda()",
         ["a", "b"]),
        (("if c:\n    data = Data('train')\nelse:\n    data = Data('test')\n"
         "for x in data.loader:\n    x.cuda()"), ["a", "c"]),
        ("def run(data):\n    for x in data.loader:\n        x.cuda()\nrun(Data('val'))", ["b"]),
        (("def run(data):\n    for x in data.loader:\n        x.cuda()\n"
         "data = Data('val')\nrun(data)\nrun(Data('train'))"), ["a", "b"]),
        (("def make():\n    return Data('val')\ndata = make()\n"
         "for x in data.loader:\n    x.cuda()"), ["a", "b", "c"]),
        ("data = Data(mode)\nfor x in data.loader:\n    x.cuda()", ["a", "b", "c"]),
        ("def run(data: Data):\n    for x in data.loader:\n        x.cuda()", ["a", "b", "c"]),
        (("class More(Data):\n    pass\ndata = More('val')\n"
         "for x in data.loader:\n    x.cuda()"), ["a", "b", "c"]),
        (("data = Data('val')\nfor _ in r:\n    data, n = Data('train'), 1\n"
         "for x in data.loader:\n    x.cuda()"), ["a", "b", "c"]),
    ],
)  # fmt: skip
def test_an_object_keeps_what_its_constructor_comes_to(loop: str, loaders: list[str]) -> None:
    assert moved(KEPT + loop) == loaders


def test_an_object_of_a_class_of_another_file_keeps_what_its_constructor_comes_to(
    tmp_path: Path,
) -> None:
    head = "from torch.utils.data import DataLoader\n"
    (tmp_path / "data.py").write_text(head + KEPT)
    (tmp_path / "steps.py").write_text(
        "def run(data):\n    for x in data.loader:\n        x.cuda()\n"
    )
    (tmp_path / "train.py").write_text(
        "from data import Data\nfrom steps import run\ndata = Data('val')\nrun(data)\n"
        "other = Data('test')\nfor x in other.loader:\n    x.cuda()\n"
    )
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "data.py"))
    assert program is not None
    assert probing.moved(program) == ["b", "c"]
