"""Lists of devices that are one device."""

from __future__ import annotations

import pytest
from probing import parsed, probed

from torchlint.analysis.device_lists import by_default_one, is_one_device


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("probe([0])", True),
        ("probe((rank,))", True),
        ("probe(range(1))", True),
        ("ids = [0]\nprobe(ids)", True),
        ("def f(ids=[0]):\n    probe(ids)\n", True),
        ("def f(ids):\n    probe(ids)\nf([1])\n", True),
        ("def f(ids=[0]):\n    probe(ids)\nf([0, 1])\n", False),
        ("def f(ids):\n    probe(ids)\n", False),
        ("ids = [0]\nif n:\n    ids = [0, 1]\nprobe(ids)", False),
        ("for ids in lists:\n    probe(ids)", False),
        ("probe([0, 1])", False),
        ("assert args.n == 1\nprobe(range(args.n))", True),
        ("if args.n > 1: raise ValueError\nprobe(list(range(args.n)))", True),
        ("assert args.n >= 1\nprobe(range(args.n))", False),
        ("probe(list([0]))", True),
        ("probe(range(2))", False),
        ("probe([*ids])", False),
        ("probe(list(ids))", False),
        ("probe(args.ids)", False),
        ("class A:\n    def __init__(self):\n        self.i = [0]\n        probe(self.i)\n", True),
        ("class A:\n    def run(self):\n        probe(self.i)\n", False),
    ],
)
def test_one_device(source: str, expected: bool) -> None:
    program = parsed(source)
    assert is_one_device(program, probed(program)) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("p.add_argument('--n', default=1)\nprobe(range(args.n))", True),
        ("p.add_argument('--n', default=1)\nprobe(list(range(args.n)))", True),
        ("p.add_argument('--n', default=0)\nprobe(range(args.n))", True),
        ("p.add_argument('--n', default=2)\nprobe(range(args.n))", False),
        ("p.add_argument('--n')\nprobe(range(args.n))", False),
        ("probe(range(args.n))", False),
        ("p.add_argument('--ids', default='0')\nprobe(args.ids)", True),
        ("p.add_argument('--ids', default='0,1')\nprobe(args.ids)", False),
    ],
)
def test_one_device_by_default(source: str, expected: bool) -> None:
    program = parsed(source)
    assert by_default_one(program, probed(program)) is expected
