"""What type tests show a name to be, and what lists are given after they are made."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed, probed

from torchlint.analysis.values import Kind, Value


def value(source: str) -> Value:
    program = parsed(source, HEAD)
    return program.value(probed(program))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("if isinstance(x, np.ndarray): probe(x)", Kind.NDARRAY),
        ("if not isinstance(x, np.ndarray): pass\n    else: probe(x)", Kind.NDARRAY),
        ("if n and isinstance(x, torch.Tensor): probe(x)", Kind.TENSOR),
        ("if not (n or not torch.is_tensor(x)): probe(x)", Kind.TENSOR),
        ("if torch.is_tensor(x): probe(x)", Kind.TENSOR),
        ("from torch import is_tensor\n    if is_tensor(x): probe(x)", Kind.TENSOR),
        ("if is_tensor(x): probe(x)", Kind.UNKNOWN),
        ("if type(x) is np.ndarray: probe(x)", Kind.NDARRAY),
        ("if type(x) == list: probe(x)", Kind.LIST),
        ("while isinstance(x, str): probe(x)", Kind.STRING),
        ("y = probe(x) if isinstance(x, dict) else None", Kind.DICT),
        ("isinstance(x, np.ndarray) and probe(x)", Kind.NDARRAY),
        ("not isinstance(x, np.ndarray) or probe(x)", Kind.NDARRAY),
        ("assert isinstance(x, np.ndarray)\n    probe(x)", Kind.NDARRAY),
        ("if not isinstance(x, np.ndarray): raise E\n    probe(x)", Kind.NDARRAY),
        ("if isinstance(x, (np.ndarray, list)): probe(x)", Kind.UNKNOWN),
        ("if isinstance(x, np.ndarray | list): probe(x)", Kind.UNKNOWN),
        ("if isinstance(x, Other): probe(x)", Kind.UNKNOWN),
        ("if isinstance(x, np.number): probe(x)", Kind.NPSCALAR),
        ("if isinstance(x, np.ndarray) or n: probe(x)", Kind.UNKNOWN),
        ("if isinstance(x, np.ndarray): x = n\n    probe(x)", Kind.UNKNOWN),
        ("if isinstance(x, np.ndarray):\n        x = n\n        probe(x)", Kind.UNKNOWN),
        ("if isinstance(n, np.ndarray): probe(x)", Kind.UNKNOWN),
        ("if isinstance(x.y, np.ndarray): probe(x)", Kind.UNKNOWN),
        ("if isinstance(x, np.ndarray):\n        def g(): probe(x)", Kind.UNKNOWN),
        ("if type(x) is not list: probe(x)", Kind.UNKNOWN),
    ],
)
def test_tests_around_a_use(body: str, kind: Kind) -> None:
    assert value(f"def f(x, n):\n    {body}\n").kind is kind


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("probe(x)", Kind.TENSOR),
        ("if isinstance(x, np.ndarray): probe(x)", Kind.NDARRAY),
        ("if isinstance(x, (list, tuple)): probe(x)", Kind.UNKNOWN),
        ("if isinstance(x, torch.Tensor): return\n    probe(x)", Kind.UNKNOWN),
        ("if isinstance(x, list): return\n    probe(x)", Kind.TENSOR),
        ("if isinstance(x, torch.Tensor): probe(x)", Kind.TENSOR),
        ("if isinstance(x, torch.Tensor): print(x)\n    probe(x)", Kind.TENSOR),
        ("if isinstance(x, Other): probe(x)", Kind.TENSOR),
    ],
)
def test_tests_against_what_is_known(body: str, kind: Kind) -> None:
    assert value(f"def f(x: torch.Tensor):\n    {body}\n").kind is kind


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("np.ndarray", Kind.NDARRAY),
        ("Optional[np.ndarray]", Kind.NDARRAY),
        ("np.ndarray | None", Kind.NDARRAY),
        ("typing.Union[np.ndarray, None]", Kind.NDARRAY),
        ("Union[np.ndarray, torch.Tensor]", Kind.UNKNOWN),
        ("np.ndarray | list", Kind.UNKNOWN),
        ("list[np.ndarray]", Kind.LIST),
        ("dict[str, int]", Kind.UNKNOWN),
    ],
)
def test_annotations(annotation: str, kind: Kind) -> None:
    source = f"def f(x: {annotation}):\n    probe(x)\nf(torch.zeros(3))\n"
    expected = Kind.TENSOR if annotation.startswith("dict") else kind
    assert value(source).kind is expected


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("xs = []\nfor i in y: xs.append(np.zeros(3))\nprobe(xs)", Kind.NDARRAY),
        ("xs, ys = [], []\nys.append(1)\nxs.append(np.zeros(3))\nprobe(xs)", Kind.NDARRAY),
        ("xs = list()\nxs.extend([1, 2])\nprobe(xs)", Kind.NUMBER),
        ("xs = [1]\nxs.insert(0, np.zeros(3))\nprobe(xs)", Kind.UNKNOWN),
        ("xs = []\nxs.append(1)\nxs = []\nxs.append(np.zeros(3))\nprobe(xs)", Kind.NDARRAY),
        ("xs = []\nxs.append(*y)\nprobe(xs)", Kind.NEVER),
        ("xs = []\nxs.append(xs[-1])\nxs.append(1)\nprobe(xs)", Kind.NUMBER),
        ("xs = []\ndef f(xs):\n    xs.append(1)\nprobe(xs)", Kind.NEVER),
        ("xs = []\nf().append(1)\nprobe(xs)", Kind.NEVER),
        ("xs = y\nxs.append(1)\nprobe(xs.z)", Kind.UNKNOWN),
    ],
)
def test_what_lists_are_given(body: str, kind: Kind) -> None:
    assert value(body).each().kind is kind


def test_what_lists_in_objects_are_given() -> None:
    source = """\
    class Memory:
        def __init__(self):
            self.states = []

        def add(self):
            self.states.append(np.zeros(3))

        def show(self):
            probe(self.states)
    """
    assert value(source).each().kind is Kind.NDARRAY
