"""What is known of the value of an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probing import HEAD, parsed, parsed_in, probed, probes

from torchlint.analysis.values import Device, Kind

if TYPE_CHECKING:
    from pathlib import Path

    import libcst as cst

    from torchlint.analysis.program import Program

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.scale = 2.0
        self.memory = None
        self.seen = []
        self.register_buffer("steps", torch.zeros(3))
        self.register_buffer("rest", unknown())
        self.register_buffer("turns", torch.tensor(0))
        self.register_buffer("other", torch.tensor(0))
        self.register_buffer("some", unknown())
    @property
    def rate(self):
        return 0.5
    @staticmethod
    def double(x):
        return 2
    def forward(self, x):
        return self.conv(x)
    def both(self, x):
        self.turns += 1
        self.other += 1
        self.other = f(self.other)
        self.some += 1
        return self.conv(x), 1
net = Net()
"""


DEQUE = "import collections\nd = collections.deque(maxlen=9)\nd.append(1)\n"
MEMORY = """
class Memory:
    def __init__(self):
        self.kept = []

    def put(self, one):
        self.kept.append(one)


"""


def shown(program: Program, node: cst.BaseExpression) -> str:
    """A value in short: its kind, its type and device where they are known."""
    value = program.value(node)
    text = value.kind.name
    if value.type:
        text += f" {value.type}"
    return text if value.device.name == "UNKNOWN" else f"{text} @{value.device.name}"


KEEPING = """\
def scale(x): return torch.exp(x)
class Keeping(nn.Module):
    def __init__(self, other):
        super().__init__()
        self.fc, self.rnn = nn.Linear(3, 4), nn.LSTM(3, 4)
        self.all, self.scale, self.other = nn.Sequential(nn.Linear(3, 4)), scale, other
    def forward(self, x): probe("""
CASES = [
    # literals and operators
    pytest.param("probe(1)", "NUMBER", id="a number"),
    pytest.param("probe(1j)", "NUMBER", id="a complex number"),
    pytest.param("probe(True)", "BOOL", id="True"),
    pytest.param("probe(None)", "NONE", id="None"),
    pytest.param("probe('a' f'{b}')", "STRING", id="strings"),
    pytest.param("probe('%d' % 3)", "STRING", id="a formatted string"),
    pytest.param("probe('a' + x)", "STRING", id="a longer string"),
    pytest.param("probe('a'[0])", "STRING", id="a letter"),
    pytest.param("probe(-1)", "NUMBER", id="a sign"),
    pytest.param("probe(-True)", "NUMBER", id="the sign of a bool"),
    pytest.param("probe(not x)", "BOOL", id="not"),
    pytest.param("probe(1 + 2.0)", "NUMBER", id="a sum"),
    pytest.param("probe(1 < 2)", "BOOL", id="a comparison"),
    pytest.param("probe([1] == torch.ones(3))", "TENSOR @CPU", id="a comparison with a tensor"),
    pytest.param("probe([1] == [2])", "BOOL", id="a comparison of lists"),
    pytest.param("probe(x in y)", "BOOL", id="in"),
    pytest.param("probe(x + 1)", "UNKNOWN", id="a sum with something"),
    pytest.param("probe(x and 1)", "UNKNOWN", id="one of two"),
    pytest.param("probe(1 if x else 2)", "NUMBER", id="a conditional expression"),
    pytest.param("probe((y := 1))", "NUMBER", id=":="),
    pytest.param("probe([1] * 3)", "LIST", id="a list, repeated"),
    pytest.param("probe(([1] + ['a'])[0])", "UNKNOWN", id="two lists"),
    pytest.param("probe(([1] + [2])[0])", "NUMBER", id="two lists of numbers"),
    pytest.param("probe({1, 2})", "ITERATOR", id="a set"),
    pytest.param("probe({1: 2})", "DICT", id="a dictionary"),
    pytest.param("probe({'a': 1}['a'])", "NUMBER", id="an entry"),
    pytest.param("probe({'a': 1}['b'])", "UNKNOWN", id="no entry"),
    pytest.param("probe({'a': 1}[k])", "UNKNOWN", id="some entry"),
    pytest.param("probe(dict(a=1)['a'])", "UNKNOWN", id="an entry of dict()"),
    pytest.param("probe({k: 1 for k in x})", "DICT", id="a dictionary comprehension"),
    pytest.param("d = {k: 1 for k in x}\nprobe(d[x])", "NUMBER", id="any entry of one"),
    pytest.param("d = {k: x for k in x}\nprobe(d[x])", "UNKNOWN", id="an entry that nobody knows"),
    pytest.param(
        "d = {k: 1 for k in x}\nd['a'] = x\nprobe(d['a'])", "UNKNOWN", id="an entry set later"
    ),
    pytest.param(
        "d = {k: 1 for k in x}\nd['a'] += x\nprobe(d['a'])", "UNKNOWN", id="an entry added to"
    ),
    pytest.param("for v in {k: 1 for k in x}.values(): probe(v)", "NUMBER", id="its values"),
    pytest.param("for k, v in {'a': 1}.items(): probe(v)", "NUMBER", id="items"),
    pytest.param(
        "d = {'a': 1}\nd['b'] = torch.ones(3)\nfor v in d.values(): probe(v)",
        "UNKNOWN",
        id="items of several kinds",
    ),
    pytest.param(
        "d = {'a': 1, **x}\nfor v in d.values(): probe(v)", "UNKNOWN", id="items of another"
    ),
    pytest.param(
        "d = {'a': 1}\nfill(d)\nfor v in d.values(): probe(v)", "UNKNOWN", id="filled elsewhere"
    ),
    pytest.param(
        "def f():\n    d = {'a': 1}\n    d['b'] = 2\n    return 3, d\n"
        "for k, v in f()[1].items(): probe(v)",
        "NUMBER",
        id="items of what is returned",
    ),
    pytest.param("probe({'a': 1}.get('a'))", "UNKNOWN", id="get"),
    pytest.param("probe([1 for x in y][0])", "NUMBER", id="a list comprehension"),
    pytest.param("for v in (1 for x in y): probe(v)", "NUMBER", id="a generator"),
    pytest.param("probe([*x, 1][0])", "UNKNOWN", id="a list with a star"),
    pytest.param("probe([1, 'a'][1])", "STRING", id="an item"),
    pytest.param("probe([1, 'a'][-1])", "STRING", id="the last item"),
    pytest.param("probe([1, 'a'][x])", "UNKNOWN", id="some item"),
    pytest.param("probe([1, 2][0:1])", "LIST", id="a slice"),
    pytest.param("probe([" + "1," * 70 + "][0])", "NUMBER", id="a long list"),
    pytest.param("probe([1," + "f()," * 70 + "][0])", "UNKNOWN", id="a long list of anything"),
    pytest.param("probe(lambda: 1)", "FUNCTION", id="a lambda"),
    pytest.param("probe((lambda: 1)())", "NUMBER", id="a lambda, called"),
    pytest.param("probe(await f())", "UNKNOWN", id="await"),
    # names
    pytest.param("x = 1\nprobe(x)", "NUMBER", id="a name"),
    pytest.param("probe(nobody)", "UNKNOWN", id="a name of nobody"),
    pytest.param(
        "def f(d=torch.device('cpu')):\n    probe(d)", "DEVICE @MAYBE", id="a device by default"
    ),
    pytest.param(
        "def f(a: torch.Tensor, k=1):\n    return a.sum()\nprobe(f(torch.ones(3), k=2))",
        "TENSOR @CPU",
        id="a function of a tensor on the host",
    ),
    pytest.param(
        "def f(a: torch.Tensor):\n    return a.sum()\nprobe(f(x))",
        "TENSOR",
        id="a function of nobody knows what",
    ),
    pytest.param("probe(len)", "FUNCTION len", id="a builtin function"),
    pytest.param("from torch import *\nprobe(int(y))", "UNKNOWN", id="after a star import"),
    pytest.param("def len(x): return 'a'\nprobe(len(y))", "STRING", id="len of this file"),
    pytest.param("a, *b, c = 1, 2, 'a'\nprobe(a)", "NUMBER", id="unpacked"),
    pytest.param("a, *b, c = 1, 2, 'a'\nprobe(c)", "STRING", id="unpacked after a star"),
    pytest.param("a, *b, c = 1, 2, 'a'\nprobe(b)", "LIST", id="what is left"),
    pytest.param("a, (b, c) = 1, (2, 'a')\nprobe(c)", "STRING", id="unpacked twice"),
    pytest.param("x = 0\nfor i in y:\n    x = x + 1\nprobe(x)", "NUMBER", id="a circle"),
    pytest.param(
        "x = 0\nfor i in y:\n    x += torch.ones(3).cuda()\nprobe(x)",
        "UNKNOWN @MAYBE",
        id="a number that becomes a tensor",
    ),
    pytest.param(
        "x = 0\nwhile a:\n    x, y = y, x\n    y = 'a'\nprobe(x)",
        "UNKNOWN",
        id="a circle of two names",
    ),
    pytest.param(
        "x = torch.ones(3)\nfor i in y:\n    x = x.relu()\n    probe(x)",
        "TENSOR @CPU",
        id="a tensor that is changed in a loop",
    ),
    pytest.param(
        "x = torch.ones(3)\nfor i in y:\n    xs = [x.clamp(0)]\n    ys = []\n"
        "    for v in xs:\n        probe(v)\n        ys.append((1, v.clone()))\n"
        "    x = torch.stack([a[1] for a in ys]).mean(0)",
        "TENSOR @CPU",
        id="a circle of tensors on the host",
    ),
    pytest.param("x = torch.from_file('f', False, 9)\nprobe(x[2])", "TENSOR @CPU", id="a file"),
    pytest.param(
        "x = torch.normal(mean=0.0, std=s, size=(1,))\nprobe(x)",
        "TENSOR @CPU",
        id="noise of a size",
    ),
    pytest.param("probe(torch.normal(0.0, s, (3,)))", "TENSOR @CPU", id="noise of a size by place"),
    pytest.param("probe(torch.normal(m, s))", "TENSOR", id="noise where its means are"),
    pytest.param(
        "x = torch.ones(3)\nfor i in y:\n    x = x.cuda()\nprobe(x)",
        "TENSOR @MAYBE",
        id="a tensor that is moved in a loop",
    ),
    pytest.param(
        "x = torch.ones(3)\nfor i in y:\n    x = x.shape\nprobe(x)",
        "UNKNOWN",
        id="a tensor that becomes something else",
    ),
    pytest.param(
        "x = 1\nfor i in y:\n    x = (x, 1)\nprobe(x)", "UNKNOWN", id="a circle that never rests"
    ),
    pytest.param("x = x\nprobe(x)", "UNKNOWN", id="a name that is itself"),
    pytest.param("x = 1\ndel x\nprobe(x)", "UNKNOWN", id="a deleted name"),
    pytest.param("try: pass\nexcept E as x: probe(x)", "UNKNOWN", id="an exception"),
    pytest.param("x: torch.Tensor = f()\nprobe(x)", "TENSOR", id="an annotated assignment"),
    pytest.param("def f(x: torch.Tensor): probe(x)", "TENSOR", id="an annotated parameter"),
    pytest.param("def f(x: 'torch.Tensor'): probe(x)", "TENSOR", id="a quoted annotation"),
    pytest.param("def f(x: np.ndarray): probe(x)", "NDARRAY", id="an annotated array"),
    pytest.param("def f(x: list[int]): probe(x)", "LIST", id="a generic annotation"),
    pytest.param("def f(x: nn.Module): probe(x)", "MODULE torch.nn.Module", id="a module"),
    pytest.param("def f(x: 'Other'): probe(x)", "UNKNOWN", id="an annotation nobody knows"),
    pytest.param("def f(n: int | None = None): probe(n)", "NUMBER", id="an annotated number"),
    pytest.param("def f(s: str = None): probe(s)", "STRING", id="an annotated string"),
    pytest.param(
        "def f(x: float): probe(x)\nf(torch.zeros(3))",
        "TENSOR @CPU",
        id="a tensor passed for a number",
    ),
    pytest.param("def f(x: float): probe(x)\nf(y)", "NUMBER", id="what is passed is not known"),
    pytest.param("from y import int\ndef f(x: int): probe(x)", "UNKNOWN", id="another `int`"),
    pytest.param("def f(d: torch.device): probe(d)", "DEVICE", id="an annotated device"),
    pytest.param("def f(x): probe(x)\nf(1)\nf(2)", "NUMBER", id="a parameter by its calls"),
    pytest.param("def f(x): probe(x)\nf(1)\nf('a')", "UNKNOWN", id="of two kinds"),
    pytest.param("def f(x): probe(x)\nf(1)\nf(*y)", "UNKNOWN", id="a call with a star"),
    pytest.param("def f(a, *, x): probe(x)\nf(1, x='a')", "STRING", id="by keyword"),
    pytest.param("def f(x=1): probe(x)", "UNKNOWN", id="a default alone says little"),
    pytest.param("def f(x=1): probe(x)\nf()", "UNKNOWN", id="even if it is used"),
    pytest.param(
        "def f(x, n=3):\n    if n: f(x, n - 1)\n    probe(x)\nf(1)",
        "NUMBER",
        id="handed on in a recursion",
    ),
    pytest.param("def f(*x): probe(x)\nf(1)", "UNKNOWN", id="*args"),
    pytest.param("lambda x: probe(x)", "UNKNOWN", id="a parameter of a lambda"),
    pytest.param("import os\nprobe(os)", "UNKNOWN os", id="a module"),
    pytest.param("with open(a) as f: probe(f)", "OTHER", id="an open file"),
    pytest.param(
        "class C:\n    def __enter__(self): return 1\nwith C() as c: probe(c)",
        "NUMBER",
        id="what a context gives",
    ),
    pytest.param("class C: pass\nwith C() as c: probe(c)", "UNKNOWN", id="an unknown context"),
    pytest.param(
        "@contextmanager\ndef f():\n    yield 1\nwith f() as c: probe(c)",
        "UNKNOWN",
        id="a context manager",
    ),
    # calls
    pytest.param("def f(): return 1\nprobe(f())", "NUMBER", id="a function"),
    pytest.param("def f(): return\nprobe(f())", "NONE", id="a bare return"),
    pytest.param("def f(): pass\nprobe(f())", "NONE", id="no return"),
    pytest.param(
        "def f():\n    if a: return 1\n    return 'a'\nprobe(f())", "UNKNOWN", id="two returns"
    ),
    pytest.param("def f(): return f()\nprobe(f())", "UNKNOWN", id="a function that is itself"),
    pytest.param(
        "def f(n): return f(n), 1\na, b = f(2)\nprobe(a)",
        "UNKNOWN",
        id="no value is left of a circle",
    ),
    pytest.param(
        "def f(n):\n    if n: return f(n - 1)\n    return 1\nprobe(f(3))",
        "NUMBER",
        id="a recursion",
    ),
    pytest.param("def f(): yield 1\nprobe(f())", "ITERATOR", id="a generator function"),
    pytest.param("async def f(): return 1\nprobe(f())", "UNKNOWN", id="a coroutine"),
    pytest.param("def f() -> str: return g()\nprobe(f())", "STRING", id="a promise"),
    pytest.param(
        "def f() -> float: return torch.zeros(3)\nprobe(f())",
        "TENSOR @CPU",
        id="a promise not kept",
    ),
    pytest.param(
        "def f() -> DataLoader: return g()\nprobe(f())",
        "LOADER torch.utils.data.DataLoader",
        id="a promised loader",
    ),
    pytest.param("@wraps\ndef f(): return 1\nprobe(f())", "UNKNOWN", id="a decorated function"),
    pytest.param(
        "@torch.no_grad()\ndef f(): return 1\nprobe(f())",
        "NUMBER",
        id="a function without gradients",
    ),
    pytest.param(
        "def f():\n    def g(): return 'a'\n    return 1\nprobe(f())",
        "NUMBER",
        id="the returns of a function inside are not its own",
    ),
    pytest.param("class A: pass\nprobe(A())", "INSTANCE .A", id="an instance"),
    pytest.param("class A: pass\nprobe(A)", "CLASS", id="a class"),
    pytest.param(
        "class A: pass\nT = {'a': A, 'b': A}\nprobe(T[k]())", "INSTANCE .A", id="a class of a table"
    ),
    pytest.param(
        "class A: pass\nclass B: pass\nT = {'a': A, 'b': B}\nprobe(T[k]())",
        "UNKNOWN",
        id="one class of two",
    ),
    pytest.param(
        "class A: pass\nT = {'a': A, 'b': f}\nprobe(T[k]())", "UNKNOWN", id="or a function"
    ),
    pytest.param(
        "class A: pass\nT = {'a': A}\nT[x] = f\nprobe(T[k]())", "UNKNOWN", id="or another, put in"
    ),
    pytest.param(
        "class A: pass\nT = {'a': A}\nT.update(x)\nprobe(T[k]())", "UNKNOWN", id="or another's"
    ),
    pytest.param("T = {'a': 1}\nprobe(T[k])", "UNKNOWN", id="a table of numbers"),
    pytest.param("class A: pass\nprobe(A.x)", "UNKNOWN", id="an attribute of a class"),
    pytest.param("class A:\n    def f(self): return 1\nprobe(A().f())", "NUMBER", id="a method"),
    pytest.param("class A:\n    def f(self): probe(self)", "INSTANCE .A", id="self"),
    pytest.param(
        "class A:\n    def __init__(self): self.f = lambda: 1\nprobe(A().f())",
        "NUMBER",
        id="a function kept",
    ),
    pytest.param("class A(Dataset): pass\nprobe(A())", "DATASET .A", id="a data set"),
    pytest.param(
        "def f():\n    class A: pass\n    probe(A())", "INSTANCE .A", id="a class in a function"
    ),
    pytest.param("probe(f().g().h)", "UNKNOWN", id="a chain of anything"),
    pytest.param("probe(f()())", "UNKNOWN", id="the result of a result"),
    # builtins
    pytest.param("probe(len(x))", "NUMBER", id="len"),
    pytest.param("probe(isinstance(x, y))", "BOOL", id="isinstance"),
    pytest.param("probe(str(x))", "STRING", id="str"),
    pytest.param("for i in range(3): probe(i)", "NUMBER", id="range"),
    pytest.param("for i, v in enumerate(['a']): probe(v)", "STRING", id="enumerate"),
    pytest.param("for i, v in enumerate(['a']): probe(i)", "NUMBER", id="the count of enumerate"),
    pytest.param("for a, b in zip([1], ['a']): probe(b)", "STRING", id="zip"),
    pytest.param("for v in reversed([1]): probe(v)", "NUMBER", id="reversed"),
    pytest.param("probe(next(iter([1])))", "NUMBER", id="next"),
    pytest.param("probe(list((1, 2))[0])", "NUMBER", id="list"),
    pytest.param("probe(tuple())", "TUPLE", id="an empty tuple"),
    pytest.param("probe(sum([1, 2]))", "NUMBER", id="sum"),
    pytest.param("probe(sum([torch.ones(3).cuda()]))", "TENSOR @CUDA", id="a sum of tensors"),
    pytest.param("probe(sum(x))", "UNKNOWN", id="a sum of anything"),
    pytest.param("probe(abs(-1))", "NUMBER", id="abs"),
    pytest.param("probe(max(1, 2))", "NUMBER", id="max"),
    pytest.param("probe(max([1, 2]))", "NUMBER", id="max of a list"),
    pytest.param("probe(dict(a=1))", "DICT", id="dict"),
    pytest.param("probe(open(x))", "OTHER", id="open"),
    pytest.param("probe(print(x))", "NONE", id="print"),
    pytest.param("probe(eval(x))", "UNKNOWN", id="eval"),
    pytest.param("probe('a b'.split()[0])", "STRING", id="split"),
    pytest.param("probe('a'.upper())", "STRING", id="upper"),
    pytest.param("probe([1].pop())", "NUMBER", id="pop"),
    pytest.param("probe([1].append(2))", "NONE", id="append"),
    pytest.param(
        "xs = []\nfor i in y: xs.append(1)\nprobe(xs[0])", "NUMBER", id="what is appended"
    ),
    # libraries
    pytest.param("import math\nprobe(math.sqrt(2))", "NUMBER", id="math"),
    pytest.param("import random\nprobe(random.sample(x, 2))", "LIST", id="a sample"),
    pytest.param("import random\nprobe(random.random())", "NUMBER", id="drawn"),
    pytest.param("import random\nprobe(random.sample(*x)[0])", "UNKNOWN", id="a sample of stars"),
    pytest.param(
        "import random\nprobe(random.sample(['a'], 2)[0])", "STRING", id="one of a sample"
    ),
    pytest.param("import random\nprobe(random.choice(['a']))", "STRING", id="a choice"),
    pytest.param("import random\nprobe(random.choice(x))", "UNKNOWN", id="a choice of the unknown"),
    pytest.param(f"{DEQUE}probe(d[0])", "NUMBER", id="in a deque"),
    pytest.param(f"{DEQUE}probe(d.popleft())", "NUMBER", id="out of a deque"),
    pytest.param(f"{DEQUE}d.extendleft([2])\nprobe(d[0])", "NUMBER", id="more in a deque"),
    pytest.param(f"{DEQUE}probe(d)", "ITERATOR collections.deque", id="a deque is no list"),
    pytest.param(
        "from collections import deque\nd = deque(['a'], 3)\nprobe(d[0])", "STRING", id="filled"
    ),
    pytest.param("for a, b in zip(*x): probe(a)", "UNKNOWN", id="columns of the unknown"),
    pytest.param("a, b = zip(*[(1, 'a'), (2, 'b')])\nprobe(b[0])", "STRING", id="columns"),
    pytest.param("a, b = zip(*[[1], [2]])\nprobe(b[0])", "NUMBER", id="columns of lists"),
    pytest.param(
        f"{MEMORY}m, n = Memory(), 1\nm.put((1, 'a'))\nprobe(m.kept[0][1])", "STRING", id="put in"
    ),
    pytest.param(
        f"{MEMORY}m = make()\nm.put((1, 'a'))\nprobe(Memory().kept[0])", "UNKNOWN", id="by others"
    ),
    pytest.param(
        f"{MEMORY}m = Memory() if x else make()\nm.put(1)\nprobe(Memory().kept[0])",
        "UNKNOWN",
        id="by one or another",
    ),
    pytest.param(
        f"{MEMORY}(m, *n) = Memory(), 1\nn.put(1)\nprobe(Memory().kept[0])",
        "UNKNOWN",
        id="by the rest",
    ),
    pytest.param(
        f"{MEMORY}class Long(Memory): pass\nm = Long()\nm.put('a')\nprobe(Memory().kept[0])",
        "STRING",
        id="by an heir",
    ),
    pytest.param(
        f"{MEMORY}class Other: pass\nm = Other()\nm.put('a')\nprobe(Memory().kept[0])",
        "UNKNOWN",
        id="by another class",
    ),
    pytest.param("import copy\nprobe(copy.deepcopy([1]))", "LIST", id="a copy"),
    pytest.param("from tqdm import tqdm\nfor x in tqdm([1]): probe(x)", "NUMBER", id="tqdm"),
    pytest.param("from tqdm import trange\nfor x in trange(3): probe(x)", "NUMBER", id="trange"),
    pytest.param(
        "import timm\nprobe(timm.create_model('x'))", "MODULE timm.create_model", id="timm"
    ),
    pytest.param(
        "from torchvision import models\nprobe(models.resnet18())",
        "MODULE torchvision.models.resnet18",
        id="torchvision's models",
    ),
    pytest.param(
        "from torchvision import datasets\nprobe(datasets.MNIST('.'))",
        "DATASET torchvision.datasets.MNIST",
        id="torchvision's data",
    ),
    pytest.param(
        "from torchvision import transforms as T\nprobe(T.ToTensor())",
        "OTHER torchvision.transforms.ToTensor",
        id="a transform",
    ),
    pytest.param(
        "from transformers import AutoModel\nprobe(AutoModel.from_pretrained('x'))",
        "MODULE transformers.AutoModel.from_pretrained",
        id="transformers",
    ),
    pytest.param("import os\nprobe(os.listdir('.'))", "UNKNOWN", id="another library"),
    # NumPy
    pytest.param("probe(np.zeros(3) + 1)", "NDARRAY", id="an array"),
    pytest.param("probe(np.zeros(3) < 1)", "NDARRAY", id="an array of truths"),
    pytest.param("probe(-np.zeros(3))", "NDARRAY", id="a negated array"),
    pytest.param("probe(np.pi)", "NUMBER", id="pi"),
    pytest.param("for row in np.zeros((3, 3)): probe(row)", "NDARRAY", id="a row"),
    # tensors
    pytest.param("probe(torch.ones(3))", "TENSOR @CPU", id="a tensor"),
    pytest.param("probe(torch.ones(3, device='cuda'))", "TENSOR @CUDA", id="on the GPU"),
    pytest.param("probe(torch.ones(3).cuda().cpu())", "TENSOR @CPU", id="moved"),
    pytest.param("probe(torch.ones(3).to(torch.float16))", "TENSOR @CPU", id="converted"),
    pytest.param("probe(torch.ones(3).to(other.device))", "TENSOR @MAYBE", id="to a device"),
    pytest.param("probe(torch.ones(3).to(device=x))", "TENSOR", id="to some device"),
    pytest.param("probe(x.to(torch.ones(3).cuda()))", "UNKNOWN @CUDA", id="to that of a tensor"),
    pytest.param("probe(torch.ones(3).to(0))", "TENSOR @CUDA", id="to a GPU by number"),
    pytest.param("probe(torch.ones(3).to(f'cuda:{i}'))", "TENSOR @CUDA", id="to an f-string"),
    pytest.param("probe(torch.ones(3).to(f'{d}'))", "TENSOR", id="to any f-string"),
    pytest.param("probe(torch.ones(3).to('mps'))", "TENSOR @OTHER", id="to another device"),
    pytest.param("probe(torch.ones(3).to(args.device))", "TENSOR @MAYBE", id="to an option"),
    pytest.param(
        "d = 'cuda' if c else 'cpu'\nprobe(torch.ones(3).to(d))",
        "TENSOR @MAYBE",
        id="to one of two",
    ),
    pytest.param("probe(torch.ones(3).numpy())", "NDARRAY", id="as an array"),
    pytest.param("probe(torch.ones(3).item())", "NUMBER", id="as a number"),
    pytest.param("probe(torch.ones(3).tolist())", "LIST", id="as a list"),
    pytest.param("probe(torch.ones(3).size())", "TUPLE", id="the sizes"),
    pytest.param("probe(torch.ones(3).size(0))", "NUMBER", id="one size"),
    pytest.param("probe(torch.ones(3).stride(0))", "NUMBER", id="a stride"),
    pytest.param("probe(torch.ones(3).stride())", "TUPLE", id="the strides"),
    pytest.param("probe(torch.ones(3).type())", "STRING", id="the name of its type"),
    pytest.param("probe(torch.ones(3).type(x))", "TENSOR @CPU", id="of another type"),
    pytest.param("probe(torch.ones(3).shape[0])", "NUMBER", id="shape"),
    pytest.param(NET + "probe(net.steps)", "TENSOR", id="a buffer goes where its module goes"),
    pytest.param(NET + "probe(net.rest)", "UNKNOWN", id="a buffer of anything"),
    pytest.param(NET + "probe(net.turns)", "TENSOR", id="a buffer that counts"),
    pytest.param(NET + "probe(net.other)", "UNKNOWN", id="a buffer that is set to anything"),
    pytest.param(NET + "probe(net.some)", "UNKNOWN", id="a buffer of anything that counts"),
    pytest.param("probe(f().shape[0])", "UNKNOWN", id="the shape of anything"),
    pytest.param("probe(f(x.cuda()).shape[0])", "NUMBER", id="the shape of what is on the GPU"),
    pytest.param("probe(torch.ones(3).ndim)", "NUMBER", id="ndim"),
    pytest.param("probe(torch.ones(3).name)", "STRING", id="its name"),
    pytest.param("probe(torch.ones(3).is_cuda)", "BOOL", id="is_cuda"),
    pytest.param("probe(torch.ones(3).device)", "DEVICE @CPU", id="its device"),
    pytest.param("probe(torch.ones(3).dtype)", "DTYPE", id="its dtype"),
    pytest.param("probe(torch.ones(3).grad)", "TENSOR @CPU", id="its gradient"),
    pytest.param("probe(torch.ones(3).is_contiguous())", "BOOL", id="a question"),
    pytest.param("probe(torch.ones(3).backward())", "NONE", id="backward"),
    pytest.param("probe(torch.ones(3)[0])", "TENSOR @CPU", id="a row of a tensor"),
    pytest.param("probe(torch.ones(3) + x)", "TENSOR @CPU", id="a sum with anything"),
    pytest.param("probe(torch.ones(3) > 0)", "TENSOR @CPU", id="a mask"),
    pytest.param("v, i = torch.ones(3).max(1)\nprobe(i)", "TENSOR @CPU", id="max with indices"),
    pytest.param("probe(torch.ones(3).max())", "TENSOR @CPU", id="max of all"),
    pytest.param("for x in torch.ones(3).split(1): probe(x)", "TENSOR @CPU", id="parts"),
    pytest.param("probe(F.relu(torch.ones(3).cuda()))", "TENSOR @CUDA", id="functional"),
    pytest.param("probe(F.max_pool2d_with_indices(x))", "UNKNOWN", id="functional, of two"),
    pytest.param("probe(torch.cat([a, torch.ones(3).cuda()]))", "TENSOR @CUDA", id="cat"),
    pytest.param(
        "probe(torch.stack([torch.ones(3).cuda() for a in b]))", "TENSOR @CUDA", id="stack"
    ),
    pytest.param("probe(torch.autograd.grad(x, y))", "TUPLE", id="autograd.grad"),
    pytest.param(
        "probe(torch.autograd.Variable(torch.ones(3).cuda()))", "TENSOR @CUDA", id="Variable"
    ),
    pytest.param("probe(torch.Tensor([1]))", "TENSOR @CPU", id="Tensor"),
    pytest.param("probe(torch.cuda.FloatTensor(3))", "TENSOR @CUDA", id="a CUDA type"),
    pytest.param(
        "probe(torch.ones(3).type(torch.cuda.FloatTensor))", "TENSOR @CUDA", id="to a CUDA type"
    ),
    pytest.param("probe(torch.ones(3).type(torch.half))", "TENSOR @CPU", id="to a dtype"),
    pytest.param("probe(torch.FloatTensor(3))", "TENSOR @CPU", id="a CPU type"),
    pytest.param(
        "probe(torch.ones(3).type_as(torch.ones(3).cuda()))", "TENSOR @CUDA", id="as on a GPU"
    ),
    pytest.param(
        "probe(torch.ones(3).cuda().type_as(torch.ones(3)))", "TENSOR @CPU", id="as on the host"
    ),
    pytest.param("probe(torch.ones(3).type_as(x))", "TENSOR", id="as what may be anywhere"),
    pytest.param("probe(torch.ones(3).cuda().type_as(x))", "TENSOR @CUDA", id="as something else"),
    pytest.param("probe(torch.ones(3).cuda().get_field('size'))", "UNKNOWN", id="of no tensor"),
    pytest.param("probe(torch.ones(3).cuda().add_(1))", "TENSOR @CUDA", id="in place"),
    pytest.param("probe(torch.ones(3) != None)", "BOOL", id="compared with None"),
    pytest.param("probe(torch.ones(3) == 'all')", "BOOL", id="compared with a text"),
    pytest.param("probe(torch.ones(3) == torch.ones(3))", "TENSOR @CPU", id="compared"),
    pytest.param("probe(np.ones(3) == None)", "UNKNOWN", id="an array compared with None"),
    pytest.param(
        "a, b = map(lambda t: t.cuda(), f())\nprobe(b)", "UNKNOWN @CUDA", id="what map moves"
    ),
    pytest.param("a, b = map(f, x)\nprobe(b)", "UNKNOWN", id="what map may do"),
    pytest.param("probe(torch.nn.utils.clip_grad_norm_(x, 1))", "TENSOR", id="the norm"),
    pytest.param(
        "probe(torch.nn.utils.clip_grad_norm(x, 1))", "TENSOR", id="the norm, by its old name"
    ),
    pytest.param(
        "from torch.nn.utils.clip_grad import clip_grad_norm_\nprobe(clip_grad_norm_(x, 1))",
        "TENSOR",
        id="the norm, by its module",
    ),
    pytest.param(
        "x = torch.gesv(a, b)\nprobe(torch.nn.utils.clip_grad_norm_(x, 1))",
        "NUMBER",
        id="the norm, in code that ends before torch 1.5",
    ),
    pytest.param("probe(torch.min(x, torch.exp(x)))", "TENSOR", id="the lesser of two"),
    pytest.param("probe(torch.max(x, other=torch.exp(x)))", "TENSOR", id="the greater of two"),
    pytest.param("probe(torch.max(x, 1))", "TUPLE", id="the greatest along a dimension"),
    pytest.param("probe(torch.nn.utils.rnn.pad_sequence(x))", "TENSOR", id="padded"),
    pytest.param("probe(torch.nn.utils.rnn.pad_packed_sequence(x))", "TUPLE", id="unpadded"),
    pytest.param("probe(torch.device('cuda:0'))", "DEVICE @CUDA", id="a device"),
    pytest.param("probe(torch.device(x))", "DEVICE", id="some device"),
    pytest.param("probe(torch.float16)", "DTYPE torch.float16", id="a dtype"),
    pytest.param("probe(torch.is_tensor(x))", "BOOL", id="is_tensor"),
    pytest.param("probe(torch.numel(x))", "NUMBER", id="numel"),
    pytest.param("probe(torch.load(x))", "UNKNOWN", id="load"),
    pytest.param("probe(torch.cuda.is_available())", "BOOL", id="is_available"),
    pytest.param("probe(torch.cuda.device_count())", "NUMBER", id="device_count"),
    pytest.param("probe(torch.cuda.synchronize())", "OTHER", id="synchronize"),
    pytest.param(
        "probe(torch.accelerator.current_accelerator())", "DEVICE @MAYBE", id="the accelerator"
    ),
    pytest.param("probe(torch.accelerator.is_available())", "BOOL", id="an accelerator"),
    pytest.param("probe(torch.distributed.get_rank())", "UNKNOWN", id="distributed"),
    # loaders
    pytest.param(
        "loader = DataLoader(x)\nfor batch in loader: probe(batch)", "BATCH @CPU", id="a batch"
    ),
    pytest.param("for x, y in DataLoader(d): probe(y)", "BATCH @CPU", id="part of a batch"),
    pytest.param(
        "def up(x): return x.cuda()\nfor batch in DataLoader(d):\n"
        "    for k, v in batch.items():\n        batch[k] = up(v)\n    probe(batch['x'] + 1)",
        "UNKNOWN @MAYBE",
        id="entries that a function moves",
    ),
    pytest.param(
        "def same(x): return x\nfor batch in DataLoader(d):\n"
        "    for k, v in batch.items():\n        batch[k] = same(v)\n    probe(batch['x'])",
        "BATCH @CPU",
        id="entries that a function leaves",
    ),
    pytest.param(
        "def up(x): return x.cuda()\nfor batch in DataLoader(d):\n"
        "    batch['x'] = up(batch['x'])\n    probe(batch['y'])",
        "BATCH @CPU",
        id="another entry than the one that a function moves",
    ),
    pytest.param(
        "for i, (x, y) in enumerate(DataLoader(d)): probe(y)",
        "BATCH @CPU",
        id="part of a counted batch",
    ),
    pytest.param(
        "from tqdm import tqdm\nwith tqdm(DataLoader(d)) as bar:\n    for x, y in bar: probe(x)",
        "BATCH @CPU",
        id="a batch behind a bar",
    ),
    pytest.param("x, y = next(iter(DataLoader(d)))\nprobe(x)", "BATCH @CPU", id="the next batch"),
    pytest.param("for x, y in DataLoader(d): probe(x.cuda())", "TENSOR @CUDA", id="a moved batch"),
    pytest.param(
        "a, b = torch.utils.data.random_split(d, [1, 2])\nprobe(a)",
        "DATASET torch.utils.data.Subset",
        id="random_split",
    ),
    pytest.param("probe(torch.utils.data.default_collate(x))", "BATCH @CPU", id="collated"),
    pytest.param("probe(torch.utils.data.get_worker_info())", "UNKNOWN", id="worker info"),
    # modules, optimizers
    pytest.param("probe(nn.Linear(1, 2))", "MODULE torch.nn.Linear", id="a layer"),
    pytest.param("probe(nn.Linear(1, 2)(x))", "TENSOR", id="the output of a layer"),
    pytest.param("probe(nn.LSTM(1, 2)(x))", "TUPLE", id="the output of an LSTM"),
    pytest.param("probe(nn.Linear(1, 2).cuda()(x))", "TENSOR @CUDA", id="of a layer on a GPU"),
    pytest.param(
        "probe(nn.Upsample(size=(2, 2))(net(x).cpu()))", "TENSOR @CPU", id="of a layer on the host"
    ),
    pytest.param("probe(nn.MSELoss()(x.cpu(), y))", "TENSOR", id="of the host and elsewhere"),
    pytest.param("probe(nn.Sequential(net)(x.cpu()))", "TENSOR", id="of modules that may move it"),
    pytest.param(
        "def f(net: nn.DataParallel): probe(net(x.cpu()))", "TENSOR", id="of one that moves it"
    ),
    pytest.param(
        "probe(nn.DataParallel(x))", "MODULE torch.nn.DataParallel @CUDA", id="DataParallel"
    ),
    pytest.param("probe(torch.compile(nn.Linear(1, 2)))", "MODULE torch.nn.Linear", id="compile"),
    pytest.param("for p in nn.Linear(1, 2).parameters(): probe(p)", "TENSOR", id="parameters"),
    pytest.param(
        "for n, p in nn.Linear(1, 2).named_parameters(): probe(p)", "TENSOR", id="named parameters"
    ),
    pytest.param("for m in nn.Linear(1, 2).modules(): probe(m)", "MODULE", id="modules"),
    pytest.param("for n, m in nn.Linear(1, 2).named_children(): probe(m)", "MODULE", id="children"),
    pytest.param("probe(nn.Linear(1, 2).state_dict())", "DICT", id="state_dict"),
    pytest.param("probe(nn.Linear(1, 2).zero_grad())", "OTHER", id="zero_grad"),
    pytest.param("probe(nn.Linear(1, 2).forward(x))", "TENSOR", id="forward"),
    pytest.param("probe(nn.Linear(1, 2).eval())", "MODULE torch.nn.Linear", id="eval"),
    pytest.param("probe(nn.Linear(1, 2).cpu())", "MODULE torch.nn.Linear @CPU", id="cpu"),
    pytest.param("probe(nn.Linear(1, 2).extra(x))", "UNKNOWN", id="a method nobody knows"),
    pytest.param("probe(torch.optim.SGD(x))", "OPTIMIZER torch.optim.SGD", id="an optimizer"),
    pytest.param("probe(torch.optim.SGD(x).step())", "OTHER", id="its step"),
    pytest.param(
        "probe(torch.optim.lr_scheduler.StepLR(x))",
        "SCHEDULER torch.optim.lr_scheduler.StepLR",
        id="a scheduler",
    ),
    pytest.param(
        "probe(torch.cuda.amp.GradScaler())", "SCALER torch.cuda.amp.GradScaler", id="a scaler"
    ),
    pytest.param(
        "probe(torch.amp.GradScaler().scale(x.cuda()))", "UNKNOWN @CUDA", id="a scaled loss"
    ),
    pytest.param(
        "from apex import amp\nfor p in amp.master_params(opt): probe(p.grad)",
        "TENSOR @MAYBE",
        id="a gradient of apex",
    ),
    pytest.param(
        "from apex import amp\n"
        "net, opt = amp.initialize(torch.nn.Linear(3, 3), opt, opt_level='O2')\nprobe(net)",
        "MODULE torch.nn.Linear",
        id="a model of apex",
    ),
    pytest.param(NET + "probe(net)", "MODULE .Net", id="a model"),
    pytest.param(NET + "probe(net.module)", "MODULE .Net", id="a model that may be wrapped"),
    pytest.param(
        NET + "probe(nn.DataParallel(net).module)", "MODULE .Net", id="a model that is wrapped"
    ),
    pytest.param(NET + "probe(net.scale)", "NUMBER", id="what it keeps"),
    pytest.param(NET + "probe(net.conv)", "MODULE torch.nn.Conv2d", id="a layer of it"),
    pytest.param(NET + "probe(net.memory)", "NONE", id="None"),
    pytest.param(NET + "probe(net.rate)", "NUMBER", id="a property"),
    pytest.param(NET + "probe(net.nothing)", "UNKNOWN", id="what nobody stored"),
    pytest.param(
        "class D:\n    def a(self):\n        self.x = torch.tensor(self.x)\n"
        "    def b(self): probe(self.x)",
        "UNKNOWN",
        id="what is made of itself alone",
    ),
    pytest.param(
        "class D:\n    def __init__(self): self.x = torch.ones(3)\n"
        "    def a(self): self.x = torch.tensor(self.x)\n    def b(self): probe(self.x)",
        "TENSOR @CPU",
        id="what is made of itself, and was a tensor before",
    ),
    pytest.param(KEEPING + "self.fc(x))", "TENSOR", id="what a layer that it keeps gives"),
    pytest.param(KEEPING + "self.fc(x.cuda()))", "TENSOR @CUDA", id="of what is on a GPU"),
    pytest.param(KEEPING + "self.rnn(x))", "TUPLE", id="what a recurrent layer gives"),
    pytest.param(KEEPING + "self.all(x))", "UNKNOWN @MAYBE", id="of a container: who knows"),
    pytest.param(KEEPING + "self.scale(x))", "TENSOR", id="what a function that it keeps gives"),
    pytest.param(KEEPING + "self.other(x))", "UNKNOWN @MAYBE", id="what something unknown gives"),
    pytest.param(NET + "probe(net(x))", "TENSOR", id="its output"),
    pytest.param(NET + "probe(net(x.cuda()))", "TENSOR @CUDA", id="its output on a GPU"),
    pytest.param(NET + "probe(net.both(x)[1])", "NUMBER", id="another method"),
    pytest.param(NET + "probe(net.double(2))", "NUMBER", id="a static method"),
    pytest.param(
        "class N(nn.Module):\n    def forward(self, x): return f(x), 1\n"
        "a, b = N()(y.cuda())\nprobe(a)",
        "TENSOR @CUDA",
        id="an output of two",
    ),
    # unknown receivers
    pytest.param("probe(x.item())", "NUMBER", id="item of anything"),
    pytest.param("probe(x.detach())", "TENSOR", id="detach of anything"),
    pytest.param("probe(x.cuda())", "UNKNOWN @CUDA", id="cuda of anything"),
    pytest.param("probe(x.cpu())", "UNKNOWN @CPU", id="cpu of anything"),
    pytest.param("probe(x.numpy())", "NDARRAY", id="numpy of anything"),
    pytest.param("probe(x.size(0))", "NUMBER", id="size of anything"),
    pytest.param("probe(x.numel())", "NUMBER", id="numel of anything"),
    pytest.param("probe(x.strip())", "STRING", id="strip of anything"),
    pytest.param("probe(x.tolist())", "LIST", id="tolist of anything"),
    pytest.param("probe(x.zero_grad())", "NONE", id="zero_grad of anything"),
    pytest.param("probe(f(x.cuda()))", "UNKNOWN @CUDA", id="a function of a GPU tensor"),
    pytest.param("probe(x[0])", "UNKNOWN", id="an item of anything"),
    pytest.param("probe(nn.ModuleList([x])[0])", "MODULE", id="a layer of a list"),
]


@pytest.mark.parametrize(("source", "value"), CASES)
def test_value(source: str, value: str) -> None:
    if "await" in source:
        source = f"async def main():\n    {source}"
    program = parsed(source, HEAD)
    assert shown(program, probed(program)) == value


def test_no_expression_has_no_value() -> None:
    assert not parsed("").value(None).known


@pytest.mark.parametrize("length", [50, 300, 900])
def test_a_long_chain_of_assignments_is_followed(length: int) -> None:
    lines = "".join(f"x{i + 1} = x{i}.relu() + 1\n" for i in range(length))
    program = parsed(f"x0 = torch.ones(3).cuda()\n{lines}probe(x{length})", HEAD)
    assert shown(program, probed(program)) == "TENSOR @CUDA"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("probe(torch.ones(3).cuda()" + ".relu()" * 100 + ")", id="methods"),
        pytest.param("y = torch.ones(3).cuda()" + " + 1" * 200 + "\nprobe(y)", id="operators"),
        pytest.param("probe(" + "F.relu(" * 100 + "torch.ones(3).cuda()" + ")" * 101, id="calls"),
    ],
)
def test_a_long_expression_is_followed(source: str) -> None:
    program = parsed(source, HEAD)
    assert shown(program, probed(program)) == "TENSOR @CUDA"


def test_answers_do_not_depend_on_the_order_of_the_questions() -> None:
    source = """
        x = y = None
        for i in range(9):
            probe(x), probe(y), probe(z)
            x = y + 1 if i else 0
            y = x * z
            z = f(x, y) if i else torch.ones(3)
        def f(a, b):
            probe(a)
            return f(b, a) if a is None else b
    """
    first, second = parsed(source, HEAD), parsed(source, HEAD)
    forwards = [shown(first, call.args[0].value) for call in probes(first)]
    backwards = [shown(second, call.args[0].value) for call in reversed(probes(second))]
    assert forwards == backwards[::-1]


def test_a_mesh_of_circles_is_given_up_in_time() -> None:
    names = [f"v{i}" for i in range(40)]
    body = "".join(f"    {name} = g({', '.join(names)})\n" for name in names)
    program = parsed("while a:\n" + body + "probe(v3)")
    assert shown(program, probed(program)) == "UNKNOWN"


OVERRIDDEN = """
class Base:
    def run(self, x):
        {names} = self.update(x)
        probe(loss)
    def update(self, x):
        raise NotImplementedError
class Training(Base):
    def update(self, x):
        loss = self.loss(x)
        loss.backward()
        return {first}
class Other(Base):
    def update(self, x):
        return {second}
"""


@pytest.mark.parametrize(
    ("names", "first", "second", "kind"),
    [
        pytest.param("loss", "loss", "self.loss(x)", Kind.TENSOR, id="one is known"),
        pytest.param("loss, y", "(loss, x)", "(self.loss(x), x)", Kind.TENSOR, id="of two parts"),
        pytest.param("loss", "loss", "loss.item()", Kind.UNKNOWN, id="they differ"),
        pytest.param("loss", "x", "self.loss(x)", Kind.UNKNOWN, id="none is known"),
    ],
)
def test_a_method_that_heirs_have_to_write_gives_what_theirs_return(
    names: str, first: str, second: str, kind: Kind
) -> None:
    program = parsed(OVERRIDDEN.format(names=names, first=first, second=second), HEAD)
    assert program.value(probed(program)).kind is kind


GIVEN = """
def distance(a, b):
    {body}
def train(x):
    return distance(net(x.cuda()), x.cuda())
x = torch.ones(3)
probe(distance({args}))
"""


@pytest.mark.parametrize(
    ("body", "args", "value"),
    [
        pytest.param("return torch.mean(a - b)", "x, x", "TENSOR @CPU", id="both on the host"),
        pytest.param("return (a - b).abs().mean()", "x, x", "TENSOR @CPU", id="methods"),
        pytest.param(
            "assert len(a) == len(b)\n    return torch.abs(a - b)", "x, x", "TENSOR @CPU", id="len"
        ),
        pytest.param("return torch.mean(a - b)", "x.cuda(), x", "TENSOR @CUDA", id="one moved"),
        pytest.param("return torch.mean(a - b).cuda()", "x, x", "TENSOR @CUDA", id="moves itself"),
        pytest.param(
            "return torch.abs(a - b).to(place)", "x, x", "TENSOR @MAYBE", id="moves it somewhere"
        ),
        pytest.param(
            "c = torch.zeros(3, device='cuda')\n    return a * c",
            "x, x",
            "TENSOR @CUDA",
            id="device",
        ),
        pytest.param(
            "return torch.mean(net(a) - net(b))", "x, x", "TENSOR @CUDA", id="a call that may move"
        ),
    ],
)
def test_what_a_function_computes_is_where_its_tensors_are(
    body: str, args: str, value: str
) -> None:
    head = "net = nn.DataParallel(nn.Linear(3, 3)).cuda()\n"
    program = parsed(head + GIVEN.format(body=body, args=args), HEAD)
    assert shown(program, probed(program)) == value


@pytest.mark.parametrize(
    ("body", "device"),
    [("return torch.mean(a - b)", Device.CPU), ("return torch.mean(a - b).cuda()", Device.CUDA)],
)
def test_that_holds_of_functions_of_other_files(tmp_path: Path, body: str, device: Device) -> None:
    losses = f"import torch\ndef distance(a, b):\n    {body}\n"
    train = (
        "import torch\nfrom losses import distance\nx = torch.ones(3)\n"
        "print(distance(x.cuda(), x.cuda()))\nprobe(distance(x, x))\n"
    )
    program = parsed_in(tmp_path, {"losses.py": losses, "train.py": train}, "train.py")
    assert program.value(probed(program)).device is device


@pytest.mark.parametrize(
    ("call", "kind"),
    [("NETS[name]()", Kind.MODULE), ("NETS['a']()", Kind.MODULE), ("NETS[name].x()", Kind.UNKNOWN)],
)
def test_tables_of_classes_of_other_files(tmp_path: Path, call: str, kind: Kind) -> None:
    net = "from torch import nn\nclass Net(nn.Module): pass\n"
    train = f"from net import Net\nNETS = {{'a': Net}}\nprobe({call})\n"
    program = parsed_in(tmp_path, {"net.py": net, "train.py": train}, "train.py")
    assert program.value(probed(program)).kind is kind


HOOKED = """
from torch import nn
def with_hooks(module, other=None):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "args", "value"),
    [
        pytest.param("module.register_forward_hook(f)\n    return module", "net", ".Net", id="one"),
        pytest.param("module.cuda()\n    return module", "net", ".Net", id="moved before"),
        pytest.param("if x: return module\n    return module", "net", ".Net", id="twice"),
        pytest.param("return other", "1, other=net", ".Net", id="another parameter"),
        pytest.param("return module if x else other", "net, net", "", id="one of two"),
        pytest.param("module = f(module)\n    return module", "net", "", id="another object"),
        pytest.param("yield module\n    return module", "net", "", id="a generator"),
    ],
)
def test_what_a_function_gives_back(tmp_path: Path, body: str, args: str, value: str) -> None:
    hooked = HOOKED.format(body=body)
    use = "with_hooks(nn.Linear(3, 3))\nwith_hooks(unknown, unknown)\n"
    net = "class Net(nn.Module): pass\nnet = Net()\n" + use + f"probe(with_hooks({args}))\n"
    here = parsed(hooked + net, HEAD)
    assert here.value(probed(here)).type == value
    train = f"from torch import nn\nfrom hooks import with_hooks\n{net}"
    there = parsed_in(tmp_path, {"hooks.py": hooked, "train.py": train}, "train.py")
    assert there.value(probed(there)).type == value


REDUCED = """
import torch
def reduce(found, more=None):
    if alone:
        return found
    {use}
    with torch.no_grad():
        names, losses = [], []
        for k in sorted(found.keys()):
            names.append(k)
            losses.append(found[k])
        losses = torch.stack(losses, 0)
        return {{k: v for k, v in zip(names, losses)}}
"""
LENT = """
import torch
{source}
found = {{}}
for x in y:
    found["loss"] = torch.ones(3).cuda().mean()
    {before}
    probe(reduce({args})["loss"])
"""


@pytest.mark.parametrize(
    ("use", "before", "args", "value"),
    [
        pytest.param("print(found)", "pass", "found", "TENSOR", id="reads it"),
        pytest.param("n = found['loss']", "pass", "found=found", "TENSOR", id="by name"),
        pytest.param("found['n'] = 1", "pass", "found", "UNKNOWN", id="sets an entry"),
        pytest.param("found['loss'] += 1", "pass", "found", "UNKNOWN", id="adds to an entry"),
        pytest.param("found.clear()", "pass", "found", "UNKNOWN", id="empties it"),
        pytest.param("other(found)", "pass", "found", "UNKNOWN", id="hands it on"),
        pytest.param("kept = found", "pass", "found", "UNKNOWN", id="keeps it"),
        pytest.param("pass", "other(found)", "found", "UNKNOWN", id="lent to nobody knows whom"),
        pytest.param(
            "pass", "found['rows'] = torch.ones(3)", "found", "UNKNOWN", id="one is on the host"
        ),
    ],
)
def test_a_dictionary_that_is_lent_to_a_function(
    tmp_path: Path, use: str, before: str, args: str, value: str
) -> None:
    reduce = REDUCED.format(use=use)
    here = parsed(LENT.format(source=reduce, before=before, args=args), HEAD)
    assert here.value(probed(here)).kind.name == value
    train = LENT.format(source="from dist import reduce", before=before, args=args)
    there = parsed_in(tmp_path, {"dist.py": reduce, "train.py": train}, "train.py")
    assert there.value(probed(there)).kind.name == value


PARALLEL = """
from torch import nn
class Parallel(nn.DataParallel):
    def gather(self, outputs, device): return outputs[0]
class Again(Parallel): pass
class Own(nn.Module): pass
"""
LOSSES = """
class Net(nn.Module):
    def forward(self, x):
        return {given}
net = {wrapped}
for found in [net(x)]:
    probe({read})
"""


@pytest.mark.parametrize(
    ("wrapped", "value"),
    [
        pytest.param("Parallel(Net())", "TENSOR @CUDA", id="derived from torch's"),
        pytest.param("Again(Net(), device_ids=ids)", "TENSOR @CUDA", id="derived from that"),
        pytest.param("Own(Net())", "TENSOR", id="a module of its own"),
    ],
)
def test_what_a_derived_wrapper_runs(tmp_path: Path, wrapped: str, value: str) -> None:
    rest = LOSSES.format(wrapped=wrapped, given="x.mean()", read="found")
    here = parsed(PARALLEL + rest, HEAD)
    assert shown(here, probed(here)) == value
    train = "from torch import nn\nfrom parallel import Again, Own, Parallel\n" + rest
    there = parsed_in(tmp_path, {"parallel.py": PARALLEL, "train.py": train}, "train.py")
    assert shown(there, probed(there)) == value


@pytest.mark.parametrize(
    ("given", "read", "value"),
    [
        pytest.param("unknown(x, {})", "found['a']", "TENSOR @CUDA", id="of unknown code"),
        pytest.param("dict(a=unknown(x))", "found['a'].mean()", "UNKNOWN @CUDA", id="an entry"),
        pytest.param("dict(a=1)", "[v.mean() for v in found.values()][0]", "UNKNOWN @CUDA",
                     id="any value"),
        pytest.param("{'a': 1}", "found['a']", "NUMBER", id="what is written out"),
    ],
)  # fmt: skip
def test_what_a_forward_pass_gives_in_a_dictionary(given: str, read: str, value: str) -> None:
    wrapped = "nn.DataParallel(Net())"
    source = LOSSES.format(wrapped=wrapped, given=given, read=read)
    program = parsed("from torch import nn\n" + source, HEAD)
    assert shown(program, probed(program)) == value


BASE = """
import torch
class Base:
    def __init__(self, model, loss, device):
        self.model = model
        self.loss = loss
        if device:
            self.model = torch.nn.DataParallel(self.model)
        self.model.to(self.place())
        self.device = self.place()
    def place(self):
        return torch.device("cuda")
    def size(self): pass
"""
HEIR = """
from base import Base
class Trainer(Base):
    def train(self, x):
        probe({asked})
"""


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        pytest.param("self.device", "DEVICE @CUDA", id="what a base keeps"),
        pytest.param("self.model", "MODULE @MAYBE", id="a model, as it may be wrapped"),
        pytest.param("self.model(x)", "TENSOR @MAYBE", id="what it computes"),
        pytest.param("self.loss", "UNKNOWN", id="what nothing tells of"),
        pytest.param("self.size", "UNKNOWN", id="a method"),
        pytest.param("self.other", "UNKNOWN", id="what it does not keep"),
    ],
)
def test_what_a_base_of_another_file_keeps(tmp_path: Path, asked: str, value: str) -> None:
    files = {"base.py": BASE, "train.py": HEIR.format(asked=asked)}
    program = parsed_in(tmp_path, files, "train.py")
    assert shown(program, probed(program)) == value


def test_what_an_heir_keeps_itself(tmp_path: Path) -> None:
    heir = HEIR.format(asked="self.device")
    heir += "        self.device = None\n"
    program = parsed_in(tmp_path, {"base.py": BASE, "train.py": heir}, "train.py")
    assert shown(program, probed(program)) == "NONE"
