"""Loops that wait for a person in each of their turns."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest
from probing import parsed

from torchlint.analysis.paused import waits_for_person

FILE = """\
import cv2
import pdb
def show(x):
    cv2.imshow("x", x)
    cv2.waitKey()
def perhaps(x):
    if x is None:
        return
    input()
def again(x):
    again(x)
def main():
    for x in loader:
"""


def waits(lines: str) -> bool:
    program = parsed(FILE + textwrap.indent(lines, "        "))
    loop = program.index.of(cst.For)[0]
    return waits_for_person(program, loop)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("model(x)", id="does not wait"),
        pytest.param("cv2.waitKey(1)", id="for a millisecond"),
        pytest.param("cv2.waitKey(delay)", id="for as long as an option says"),
        pytest.param("self.input()", id="something else of that name"),
        pytest.param("if args.show:\n    input()", id="if an option asks for it"),
        pytest.param("args.show and input()", id="if an option asks for it, in short"),
        pytest.param("y = input() if args.show else 0", id="or not"),
        pytest.param("for y in x:\n    input()", id="for what there is in a batch"),
        pytest.param("if not args.show:\n    continue\ninput()", id="not where the turn ends"),
        pytest.param("on_key = lambda: input()", id="when it is called"),
        pytest.param("try:\n    model(x)\nexcept ValueError:\n    input()", id="after a failure"),
        pytest.param("if bad(x):\n    pdb.set_trace()", id="for who debugs a failure"),
        pytest.param("perhaps(x)", id="a function that may return before"),
        pytest.param("again(x)", id="a function that calls itself"),
    ],
)
def test_goes_on(lines: str) -> None:
    assert not waits(lines)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("cv2.imshow('x', x)\ncv2.waitKey(0)", id="for a key"),
        pytest.param("model(x)\npdb.set_trace()", id="for who debugs"),
        pytest.param("breakpoint()", id="at a breakpoint"),
        pytest.param("with torch.no_grad():\n    model(x)\n    cv2.waitKey()", id="in a block"),
        pytest.param("if cv2.waitKey(0) == 27:\n    break", id="for a key that ends it"),
        pytest.param("while input() != 'n':\n    pass", id="for an answer"),
        pytest.param("input('next?')\nif x:\n    continue", id="before the turn may end"),
        pytest.param("show(x)", id="in a function"),
    ],
)
def test_waits(lines: str) -> None:
    assert waits(lines)
