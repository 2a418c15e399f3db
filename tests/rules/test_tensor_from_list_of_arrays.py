from __future__ import annotations

import textwrap
import warnings

import numpy as np
import pytest
import torch
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL303"
HEAD = "import numpy as np\nimport torch\n"


def script(body: str) -> str:
    return HEAD + textwrap.dedent(body)


def one(expression: str) -> str:
    """What the fix makes of an expression."""
    source = script(f"def f(x, n, t: torch.Tensor, s: torch.Tensor):\n    return {expression}\n")
    return fixed(source, CODE).splitlines()[-1].strip().removeprefix("return ")


def safety(source: str) -> Safety:
    (finding,) = check(source, CODE)
    assert finding.fix is not None
    return finding.fix.safety


# -- left alone -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("torch.tensor([1, 2, 3])", id="numbers"),
        pytest.param("torch.tensor([[1, 2], [3, 4]])", id="lists of numbers"),
        pytest.param("torch.tensor(x)", id="not known"),
        pytest.param("torch.tensor([x, n])", id="elements are not known"),
        pytest.param("torch.tensor([np.mean(x), np.max(x)])", id="NumPy scalars"),
        pytest.param("torch.tensor([np.zeros(3), x])", id="one of them is not known"),
        pytest.param("torch.tensor([np.zeros(3), 1.0])", id="ragged: torch raises, too"),
        pytest.param("torch.tensor([float(v) for v in x])", id="a comprehension of numbers"),
        pytest.param("torch.tensor([t, s])", id="tensors: torch.stack is for them"),
        pytest.param("torch.stack([t, s])", id="stacked tensors"),
        pytest.param("torch.tensor(np.array([np.zeros(3)]))", id="one array already"),
        pytest.param("torch.Tensor(3, 4)", id="sizes"),
        pytest.param("torch.FloatTensor([1.0, 2.0])", id="numbers in a legacy constructor"),
        pytest.param("torch.FloatTensor(t)", id="a legacy conversion of a tensor"),
        pytest.param("torch.LongTensor(*x)", id="starred sizes"),
        pytest.param("torch.tensor(t.item())", id="a number from a tensor"),
        pytest.param("torch.as_tensor(t)", id="as_tensor gives the tensor itself"),
        pytest.param("t.new_tensor([1, 2])", id="new_tensor of numbers"),
        pytest.param("t.new_tensor(s, dtype=n)", id="new_tensor with a dtype"),
        pytest.param("torch.tensor(**x)", id="arguments that are not known"),
    ],
)
def test_leaves_alone(expression: str) -> None:
    source = script(f"def f(x, n, t: torch.Tensor, s: torch.Tensor):\n    return {expression}\n")
    silent(source, CODE)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            """\
            def play(env):
                states = []
                for _ in range(5):
                    state, reward = env.step()
                    states.append(state)
                return torch.tensor(states)
            """,
            id="what the environment gives",
        ),
        pytest.param(
            """\
            def f(x):
                rewards = []
                for r in x:
                    rewards.append(float(r))
                return torch.tensor(rewards)
            """,
            id="numbers from a loop",
        ),
        pytest.param(
            """\
            def f(x, t):
                both = [np.zeros(3)]
                both.append(t)
                return torch.tensor(both)
            """,
            id="one more element, not known",
        ),
        pytest.param(
            """\
            def f(t: torch.Tensor):
                if isinstance(t, (list, tuple)):
                    return torch.tensor(t)
                return t
            """,
            id="a test shows that it is a list",
        ),
        pytest.param(
            """\
            def f(t: torch.Tensor):
                if torch.is_tensor(t):
                    return t
                return torch.tensor(t)
            """,
            id="tensors went another way",
        ),
        pytest.param(
            """\
            def f(t: torch.Tensor | float):
                return torch.tensor(t)
            """,
            id="perhaps a number",
        ),
    ],
)
def test_leaves_alone_what_is_not_proved(body: str) -> None:
    silent(script(body), CODE)


@pytest.mark.parametrize(
    ("first", "codes"),
    [
        pytest.param("pass", [], id="nothing else says what it is: it may be a list"),
        pytest.param("self.ids = torch.ones(3)", ["TL303b"], id="a tensor before"),
    ],
)
def test_an_attribute_that_is_made_of_itself(first: str, codes: list[str]) -> None:
    source = script(
        f"""\
        class Request:
            def __init__(self):
                {first}

            def convert(self):
                self.ids = torch.tensor(self.ids)
        """
    )
    assert [finding.code for finding in check(source, CODE)] == codes


# -- lists of arrays ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.tensor([np.zeros(3)])", "torch.as_tensor(np.array([np.zeros(3)]))"),
        ("torch.tensor((np.zeros(3), np.ones(3)))",
         "torch.as_tensor((np.array((np.zeros(3), np.ones(3)))))"),
        ("torch.tensor(dtype=n, data=(np.eye(3),))",
         "torch.as_tensor(dtype=n, data=(np.array((np.eye(3),))))"),
        ("torch.tensor([np.eye(3), np.eye(3)], dtype=torch.float32)",
         "torch.as_tensor(np.array([np.eye(3), np.eye(3)]), dtype=torch.float32)"),
        ("torch.tensor([np.zeros(3)], device=n)",
         "torch.as_tensor(np.array([np.zeros(3)]), device=n)"),
        ("torch.tensor(data=[np.zeros(3)])", "torch.as_tensor(data=np.array([np.zeros(3)]))"),
        ("torch.tensor([np.array(v) for v in x])",
         "torch.as_tensor(np.array([np.array(v) for v in x]))"),
        ("torch.FloatTensor([np.zeros(3)])",
         "torch.from_numpy(np.array([np.zeros(3)])).float()"),
        ("torch.Tensor([np.zeros(3)])", "torch.from_numpy(np.array([np.zeros(3)])).float()"),
        ("torch.LongTensor([np.arange(3)])",
         "torch.from_numpy(np.array([np.arange(3)])).long()"),
        ("torch.tensor([s.cpu().numpy()])", "torch.as_tensor(np.array([s.cpu().numpy()]))"),
    ],
)  # fmt: skip
def test_makes_one_array_first(before: str, after: str) -> None:
    assert one(before) == after


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            """\
            def f(n):
                rows = []
                for i in range(n):
                    rows.append(np.zeros(3))
                return torch.tensor(rows)
            """,
            id="appended in a loop",
        ),
        pytest.param(
            """\
            def f(n):
                rows, labels = [], []
                for i in range(n):
                    rows.insert(0, np.zeros(3))
                    labels.append(i)
                return torch.tensor(rows), torch.tensor(labels)
            """,
            id="two lists grow together",
        ),
        pytest.param(
            """\
            def f(parts):
                rows = list()
                rows.extend([np.zeros(3), np.ones(3)])
                return torch.tensor(rows)
            """,
            id="extended",
        ),
        pytest.param(
            """\
            class Memory:
                def __init__(self):
                    self.states = []

                def add(self, state):
                    self.states.append(np.array(state))

                def all(self):
                    return torch.tensor(self.states)
            """,
            id="kept in an object",
        ),
        pytest.param(
            """\
            def f(rows: list[np.ndarray]):
                return torch.tensor(rows)
            """,
            id="annotated",
        ),
    ],
)
def test_lists_that_may_be_empty_are_unsafe(body: str) -> None:
    assert safety(script(body)) is Safety.UNSAFE
    fixed(script(body), CODE)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("torch.tensor([np.zeros(3)])", Safety.SAFE, id="one array"),
        pytest.param("torch.tensor([np.zeros(n), np.ones(n)])", Safety.SAFE, id="two arrays"),
        pytest.param("torch.FloatTensor([np.zeros(3)])", Safety.SAFE, id="float32 asked"),
        pytest.param("torch.tensor([np.zeros(3)], dtype=torch.half)", Safety.SAFE, id="half asked"),
        pytest.param("torch.tensor([np.array(x)])", Safety.UNSAFE, id="dtype not known"),
        pytest.param(
            "torch.tensor([np.zeros(3), np.ones(3, int)])", Safety.UNSAFE, id="two dtypes"
        ),
        pytest.param("torch.LongTensor([np.zeros(3)])", Safety.UNSAFE, id="integers asked"),
    ],
)
def test_safe_only_for_what_is_written_out(expression: str, expected: Safety) -> None:
    assert safety(script(f"def f(x, n):\n    return {expression}\n")) is expected


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("torch.tensor([np.zeros(3)], pin_memory=True)", id="pinned"),
        pytest.param("torch.tensor([np.zeros(3)], requires_grad=True)", id="a leaf"),
        pytest.param("torch.set_default_dtype(x), torch.Tensor([np.eye(3)])", id="default dtype"),
    ],
)
def test_no_fix(line: str) -> None:
    (finding,) = check(script(f"{line}\n"), CODE)
    assert finding.fix is None


def test_follows_the_spelling_of_the_file() -> None:
    source = "from numpy import array, zeros\nfrom torch import tensor\nt = tensor([zeros(3)])\n"
    assert fixed(source, CODE).splitlines()[1:] == [
        "from torch import as_tensor, tensor",
        "t = as_tensor(array([zeros(3)]))",
    ]
    source = "import torch as t\ndef f(p: t.Tensor):\n    return t.tensor([p.numpy()])\n"
    assert "return t.as_tensor(np.array([p.numpy()]))" in fixed(source, CODE)
    assert "import numpy as np\n" in fixed(source, CODE)
    source = "from torch import FloatTensor\nimport numpy\nt = FloatTensor([numpy.eye(3)])\n"
    assert "t = from_numpy(numpy.array([numpy.eye(3)])).float()" in fixed(source, CODE)


def test_no_fix_where_names_are_taken() -> None:
    taken = "import torch as t\nnp = 1\ndef f(p: t.Tensor):\n    return t.tensor([p.numpy()])\n"
    (finding,) = check(taken, CODE)
    assert finding.fix is None
    for name in ("tensor", "FloatTensor"):
        taken = (
            f"import numpy as np\nfrom torch import {name}\nfrom_numpy = as_tensor = 1\n"
            f"{name}([np.eye(3)])\n"
        )
        (finding,) = check(taken, CODE)
        assert finding.fix is None


def test_default_device_takes_as_tensor() -> None:
    source = script("torch.set_default_device('cpu')\nt = torch.tensor([np.zeros(3)])\n")
    assert "torch.as_tensor(np.array([np.zeros(3)]))" in fixed(source, CODE)


def test_comments_stay() -> None:
    source = script("t = torch.tensor([\n    np.zeros(3),  # first\n    np.ones(3),\n])\n")
    assert "np.array([\n    np.zeros(3),  # first\n    np.ones(3),\n])" in fixed(source, CODE)


ROWS = "rows = [np.zeros(3) for _ in range(4)]\n"
STEPS = """\
for step in range(100):
    optimizer.zero_grad()
    model({}).sum().backward()
    optimizer.step()
"""
MAKE = "def make():\n    return torch.FloatTensor(rows)\n"
DATASET = """\
class Rows(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return torch.FloatTensor(rows)
"""
FORWARD = """\
class Net(torch.nn.Module):
    def forward(self, x):
        return x + torch.FloatTensor(rows)
net = Net()
net.forward(1)
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("x = torch.FloatTensor(rows)\n" + STEPS.format("x"), id="before the loop"),
        pytest.param(
            "if __name__ == '__main__':\n    x = torch.LongTensor(rows)\n", id="a script's own part"
        ),
        pytest.param(MAKE + "x = make()\n" + STEPS.format("x"), id="a function called once"),
    ],
)
def test_what_runs_a_single_time_is_information(body: str) -> None:
    (finding,) = check(script(ROWS + body), CODE)
    assert finding.severity is Severity.INFO
    assert finding.fix is not None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(STEPS.format("torch.FloatTensor(rows)"), id="a step"),
        pytest.param(MAKE + STEPS.format("make()"), id="a function that steps call"),
        pytest.param(DATASET + "Rows().__getitem__(0)\n", id="a sample"),
    ],
)
def test_what_runs_again_and_again_is_a_warning(body: str) -> None:
    (finding,) = check(script(ROWS + body), CODE)
    assert finding.severity is Severity.WARNING


def test_a_collate_fn_gets_what_getitem_returns() -> None:
    body = """\
        class Rows(torch.utils.data.Dataset):
            def __init__(self):
                self.rows = [np.random.rand(9).astype(np.float32) for _ in range(48)]

            def __getitem__(self, index):
                return self.rows[index], index

        def put(batch):
            rows = [one[0] for one in batch]
            return torch.tensor(rows), torch.tensor([one[1] for one in batch])

        loader = torch.utils.data.DataLoader(Rows(), collate_fn=put)
        for rows, indices in loader:
            show(rows)
        """
    (finding,) = check(script(body), CODE)
    assert finding.severity is Severity.WARNING
    assert "for every batch" in finding.message


# -- copies of tensors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.tensor(t)", "t.detach().clone()"),
        ("torch.tensor(t.detach())", "t.detach().clone()"),
        ("torch.tensor(t + 1)", "(t + 1).detach().clone()"),
        ("torch.tensor(data=t)", "t.detach().clone()"),
        ("torch.tensor(t[0])", "t[0].detach().clone()"),
        ("torch.tensor(t, dtype=n)", "t.detach().to(dtype=n, copy=True)"),
        ("torch.tensor(t, device=x)", "t.detach().to(device=x, copy=True)"),
        ("torch.tensor(t, dtype=torch.half, device=x)",
         "t.detach().to(dtype=torch.half, device=x, copy=True)"),
        ("torch.tensor(t, requires_grad=True)", "t.detach().clone().requires_grad_(True)"),
        ("torch.tensor(t, requires_grad=False)", "t.detach().clone()"),
        ("torch.tensor(t, dtype=n, requires_grad=x)",
         "t.detach().to(dtype=n, copy=True).requires_grad_(x)"),
        ("t.new_tensor(s)", "s.detach().to(t, copy=True)"),
        ("t.new_tensor(s * 2)", "(s * 2).detach().to(t, copy=True)"),
    ],
)  # fmt: skip
def test_copies_a_tensor_by_name(before: str, after: str) -> None:
    assert one(before) == after
    source = script(f"def f(x, n, t: torch.Tensor, s: torch.Tensor):\n    return {before}\n")
    (finding,) = check(source, CODE)
    assert finding.code == "TL303b"
    assert finding.fix is not None
    assert finding.fix.safety is Safety.SAFE


def test_a_parameter_known_by_its_callers_is_unsafe() -> None:
    source = "def f(t):\n    return torch.tensor(t)\nf(torch.zeros(3))\n"
    assert safety(script(source)) is Safety.UNSAFE


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("return torch.tensor(t, pin_memory=True)", id="pinned"),
        pytest.param("torch.set_default_device(x); return torch.tensor(t)", id="default device"),
    ],
)
def test_a_copy_without_a_fix(line: str) -> None:
    (finding,) = check(script(f"def f(t: torch.Tensor, x):\n    {line}\n"), CODE)
    assert finding.fix is None


def test_a_long_tensor_is_cut_in_the_message() -> None:
    (finding,) = check(script(f"t = torch.tensor(torch.zeros(3) + {'1 + ' * 20}1)\n"), CODE)
    assert "1 + ...`" in finding.message


# -- what the rewrites rest on, run on torch ------------------------------------------------------

LISTS = {
    "float64": [np.random.default_rng(0).normal(size=3) for _ in range(4)],
    "float32": [np.ones(3, np.float32), np.zeros(3, np.float32)],
    "half": [np.ones(3, np.float16)],
    "int64": [np.arange(3)],
    "bool": [np.ones(3) > 0],
    "transposed": [np.arange(6.0).reshape(2, 3).T] * 2,
}


@pytest.mark.parametrize("name", LISTS)
def test_one_array_gives_the_same_tensor(name: str) -> None:
    arrays = LISTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slow = torch.tensor(arrays)
        legacy = torch.FloatTensor(arrays)
    fast = torch.from_numpy(np.array(arrays))
    assert torch.equal(fast, slow)
    assert (fast.dtype, fast.stride()) == (slow.dtype, slow.stride())
    assert torch.equal(fast.float(), legacy)
    assert fast.float().dtype == legacy.dtype
    for dtype in (torch.float16, torch.float32, torch.float64):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            slow = torch.tensor(arrays, dtype=dtype)
        assert torch.equal(torch.as_tensor(np.array(arrays), dtype=dtype), slow)


def test_why_it_is_unsafe_in_general() -> None:
    assert torch.tensor([]).dtype == torch.float32
    assert torch.from_numpy(np.array([])).dtype == torch.float64
    mixed = [np.arange(3), np.ones(3, np.float32)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.tensor(mixed).dtype == torch.float32
    assert torch.from_numpy(np.array(mixed)).dtype == torch.float64
    rows = [np.zeros((3, 4)).T, np.zeros((3, 4)).T]
    assert not torch.from_numpy(np.stack(rows)).is_contiguous()
    assert torch.from_numpy(np.array(rows)).is_contiguous()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_a_detached_clone_is_what_tensor_makes(*, transposed: bool, grad: bool) -> None:
    tensor = torch.arange(6.0).reshape(2, 3).requires_grad_(grad)
    tensor = tensor.t() if transposed else tensor
    other = torch.zeros(1, dtype=torch.float64)
    with pytest.warns(UserWarning, match="copy construct"):
        pairs = [
            (torch.tensor(tensor), tensor.detach().clone()),
            (torch.tensor(tensor, dtype=torch.float64),
             tensor.detach().to(dtype=torch.float64, copy=True)),
            (torch.tensor(tensor, dtype=None, device="cpu"),
             tensor.detach().to(dtype=None, device="cpu", copy=True)),
            (torch.tensor(tensor, requires_grad=True),
             tensor.detach().clone().requires_grad_(True)),
            (other.new_tensor(tensor), tensor.detach().to(other, copy=True)),
        ]  # fmt: skip
    for made, copied in pairs:
        assert torch.equal(made, copied)
        for name in ("dtype", "device", "requires_grad", "is_leaf"):
            assert getattr(made, name) == getattr(copied, name)
        assert made.stride() == copied.stride()
        assert copied.data_ptr() != tensor.data_ptr()
