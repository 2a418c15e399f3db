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
        pytest.param("torch.tensor(np.mean(x))", id="a mean is a NumPy scalar"),
        pytest.param("torch.tensor(np.zeros(5000).sum())", id="and a sum by method"),
        pytest.param("torch.tensor(np.random.rand())", id="one random number"),
        pytest.param("torch.tensor(np.float32(n))", id="a cast of something unknown"),
        pytest.param("torch.tensor(np.zeros(5000).tolist())", id="a list again"),
        pytest.param("torch.tensor(np.zeros(5000), requires_grad=True)", id="a leaf with gradient"),
        pytest.param("torch.tensor(np.zeros(5000), requires_grad=n)", id="perhaps a leaf"),
        pytest.param("torch.tensor(np.zeros(5000), pin_memory=True)", id="torch raises here"),
        pytest.param("torch.tensor(np.zeros(5000), **n)", id="keywords that are not known"),
        pytest.param("torch.tensor(np.broadcast_to(x, (3, 3)))", id="read-only memory"),
        pytest.param("torch.tensor(np.frombuffer(x, np.uint8))", id="a buffer is read-only"),
        pytest.param("torch.tensor(np.load(x, mmap_mode='r'))", id="a memory map"),
        pytest.param("torch.tensor(np.asarray(x))", id="perhaps an image, read-only"),
        pytest.param("torch.tensor(np.array(x, copy=False))", id="the same for array(copy=False)"),
        pytest.param("torch.tensor(np.zeros(5000), dtype=torch.float32)", id="converts anyway"),
        pytest.param("torch.tensor(np.stack(x), dtype=torch.float32)", id="likely converts"),
        pytest.param("torch.tensor(np.stack(x), dtype=n)", id="to a dtype that nobody knows"),
        pytest.param(
            "torch.tensor(np.array([np.array(n, dtype=int)]), dtype=torch.float)",
            id="converts a list of arrays",
        ),
        pytest.param("torch.tensor(np.zeros(5000), device='cuda')", id="goes to a GPU anyway"),
        pytest.param("torch.tensor(np.zeros(5000), device=n)", id="goes where a GPU may be"),
        pytest.param("torch.Tensor(np.zeros(5000))", id="a conversion: another rule's"),
        pytest.param("torch.as_tensor(np.zeros(5000))", id="as_tensor does not copy"),
        pytest.param("torch.from_numpy(np.zeros(5000))", id="nor does from_numpy"),
        pytest.param("torch.tensor(x.values)", id="perhaps a view of a data frame"),
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
                np.random.shuffle(a)
                return t
            """,
            id="shuffled afterwards",
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
                return torch.nn.Parameter(torch.tensor(a))
            """,
            id="training would write into the caller's array",
        ),
    ],
)
def test_leaves_alone_what_needs_the_copy(body: str) -> None:
    silent(script(body), CODE)


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
                total = a.sum() + len(a) + np.mean(a)
                print(total, a.shape)
                t = torch.tensor(a)
                return t
            """,
            id="made, filled and read before",
        ),
        pytest.param(
            """\
            def collate():
                a = np.zeros(5000)
                a = torch.tensor(a)
                a[0] = 1
                return a
            """,
            id="the name goes on as the tensor",
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
        pytest.param(
            "def make(n):\n    return np.ones(n)\ndef collate():\n    return torch.tensor(make(9))",
            "shares", id="made by another function",
        ),
        pytest.param(
            "def collate(n):\n    a = np.ones(n)\n    b = a[1:]\n    return torch.tensor(a), b",
            "shares", id="a view that was taken before",
        ),
        pytest.param(
            "def collate(n):\n    a = np.ones(n)\n    return torch.tensor(a), a", "shares",
            id="returned as well",
        ),
        pytest.param(
            "def collate(n, kept):\n    a = np.ones(n)\n    kept.append(a)\n"
            "    return torch.tensor(a)", "shares", id="kept in a list",
        ),
        pytest.param("def collate():\n    return torch.tensor(np.zeros(9)).resize_(5)", "shares",
                     id="only memory of torch can be resized"),
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


INFO = (
    ("t = torch.tensor(np.stack(y))\n", "once"),
    ("def f(y):\n    return torch.tensor(np.stack(y))\n", "as often as nobody knows"),
    (TRAINING.format("torch.tensor(np.stack(y), dtype=torch.long)"), "perhaps a conversion"),
    (TRAINING.format("torch.tensor(np.stack(y)[0])"), "perhaps a number"),
    (TRAINING.format("(torch.tensor(np.stack(y)) if args.plot else x)"), "in some steps"),
)


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for body, name in INFO])
def test_what_is_rare_or_not_known_is_information(body: str) -> None:
    (finding,) = check(script(body + "train(model, loader, optimizer)\n"), CODE)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("body", "rate"),
    [
        pytest.param(TRAINING.format("torch.tensor(np.stack(y))"), "training step", id="step"),
        pytest.param(
            TRAINING.format("x") + "class Rows(torch.utils.data.Dataset):\n"
            "    def __getitem__(self, i):\n        return torch.tensor(np.load(self.names[i]))\n",
            "for every sample", id="sample",
        ),
        pytest.param(
            TRAINING.format("x") + "def put(rows):\n    return torch.tensor(np.stack(rows))\n"
            "loader = torch.utils.data.DataLoader(rows, collate_fn=put)\n",
            "for every batch", id="batch",
        ),
    ],
)  # fmt: skip
def test_what_runs_again_and_again_is_a_warning(body: str, rate: str) -> None:
    (finding,) = check(script(body + "train(model, loader, optimizer)\n"), CODE)
    assert finding.severity is Severity.WARNING
    assert rate in finding.message
    assert finding.fix is not None


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
