"""The lattice of values: what is known of a value that is one of several."""

from __future__ import annotations

from dataclasses import replace

import pytest

from torchlint.analysis.values import (
    BATCH,
    BOOL,
    NEVER,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    UNKNOWN,
    Device,
    Kind,
    Value,
    join,
    join_devices,
    shared_device,
)

PAIR = Value(Kind.TUPLE, items=(NUMBER, TENSOR))
NUMBERS = Value(Kind.LIST, element=NUMBER)
EMPTY = Value(Kind.LIST, items=())
TURNS = Value(Kind.ITERATOR, element=NUMBER)
CUDA, CPU = TENSOR.on(Device.CUDA), TENSOR.on(Device.CPU)


@pytest.mark.parametrize(
    ("values", "joined"),
    [
        pytest.param((), NEVER, id="nothing"),
        pytest.param((NUMBER,), NUMBER, id="one"),
        pytest.param((NUMBER, NUMBER), NUMBER, id="the same"),
        pytest.param((NUMBER, BOOL), NUMBER, id="numbers"),
        pytest.param((NUMBER, STRING), UNKNOWN, id="of two kinds"),
        pytest.param((NUMBER, TENSOR), UNKNOWN, id="a number or a tensor"),
        pytest.param((UNKNOWN, TENSOR), UNKNOWN, id="one of them not known"),
        pytest.param((NONE, TENSOR), TENSOR, id="None first"),
        pytest.param((TENSOR, NONE), TENSOR, id="None later"),
        pytest.param((NEVER, TENSOR), TENSOR, id="no value first"),
        pytest.param((TENSOR, NEVER), TENSOR, id="no value later"),
        pytest.param((CUDA, CPU), TENSOR.on(Device.MAYBE), id="a tensor of two places"),
        pytest.param((TENSOR, CPU), TENSOR, id="a tensor of a place not known"),
        pytest.param(
            (UNKNOWN.on(Device.CUDA), NUMBER),
            UNKNOWN.on(Device.MAYBE),
            id="the device is kept where the kind is not known",
        ),
        pytest.param((BATCH, CUDA), TENSOR.on(Device.MAYBE), id="a batch or a tensor"),
        pytest.param(
            (PAIR, Value(Kind.TUPLE, items=(NUMBER, NUMBER))),
            Value(Kind.TUPLE, items=(NUMBER, UNKNOWN)),
            id="member by member",
        ),
        pytest.param(
            (PAIR, Value(Kind.TUPLE, items=(NUMBER,))),
            Value(Kind.TUPLE, element=UNKNOWN),
            id="of two lengths",
        ),
        pytest.param((EMPTY, NUMBERS), NUMBERS, id="an empty list and one of numbers"),
        pytest.param((Value(Kind.LIST), NUMBERS), Value(Kind.LIST), id="any list"),
        pytest.param((TURNS, NUMBERS), TURNS, id="an iterator and a list of the same"),
        pytest.param((NUMBERS, TURNS, EMPTY), TURNS, id="or an empty one"),
        pytest.param((TURNS, PAIR), UNKNOWN, id="an iterator and a pair of something else"),
        pytest.param((TURNS, Value(Kind.LIST)), UNKNOWN, id="an iterator and any list"),
        pytest.param((NUMBERS, Value(Kind.TUPLE, element=NUMBER)), UNKNOWN, id="list or tuple"),
        pytest.param(
            (
                Value(Kind.NDARRAY, dtype="float32", rank=2, fresh=True),
                Value(Kind.NDARRAY, dtype="int64", rank=1, fresh=False),
            ),
            Value(Kind.NDARRAY, rank=1),
            id="two arrays",
        ),
        pytest.param(
            (Value(Kind.MODULE, type="torch.nn.ReLU"), Value(Kind.MODULE, type=".Net")),
            Value(Kind.MODULE),
            id="two modules",
        ),
    ],
)
def test_join(values: tuple[Value, ...], joined: Value) -> None:
    assert join(values) == joined


def test_join_does_not_depend_on_the_order() -> None:
    values = [NEVER, NONE, NUMBER, BOOL, STRING, CUDA, CPU, BATCH, PAIR, NUMBERS, TURNS, EMPTY]
    values.append(UNKNOWN)
    for a in values:
        for b in values:
            if {a.kind, b.kind} != {Kind.NONE} and NONE not in (a, b):
                assert join((a, b)).kind is join((b, a)).kind
                assert join((a, b)).device is join((b, a)).device


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (Device.CUDA, Device.CUDA, Device.CUDA),
        (Device.CUDA, Device.CPU, Device.MAYBE),
        (Device.UNKNOWN, Device.MAYBE, Device.MAYBE),
        (Device.CPU, Device.OTHER, Device.OTHER),
        (Device.CPU, Device.UNKNOWN, Device.UNKNOWN),
    ],
)
def test_join_devices(first: Device, second: Device, joined: Device) -> None:
    assert join_devices(first, second) is joined
    assert join_devices(second, first) is joined
    assert joined.gpu == (joined in {Device.CUDA, Device.MAYBE})


@pytest.mark.parametrize(
    ("devices", "shared"),
    [
        ((), Device.UNKNOWN),
        ((Device.UNKNOWN, Device.CPU), Device.CPU),
        ((Device.CPU, Device.MAYBE), Device.MAYBE),
        ((Device.MAYBE, Device.CUDA, Device.CPU), Device.CUDA),
        ((Device.OTHER, Device.CPU), Device.OTHER),
    ],
)
def test_operands_share_a_device(devices: tuple[Device, ...], shared: Device) -> None:
    assert shared_device(devices) is shared


@pytest.mark.parametrize(
    ("value", "place", "member"),
    [
        pytest.param(PAIR, 1, TENSOR, id="by place"),
        pytest.param(PAIR, -2, NUMBER, id="from the end"),
        pytest.param(PAIR, 5, UNKNOWN, id="out of range: any of them"),
        pytest.param(PAIR, None, UNKNOWN, id="any of them"),
        pytest.param(NUMBERS, 3, NUMBER, id="of a list"),
        pytest.param(CUDA, 0, CUDA, id="of a tensor"),
        pytest.param(BATCH, 0, BATCH, id="of a batch"),
        pytest.param(UNKNOWN.on(Device.CUDA), 0, UNKNOWN.on(Device.CUDA), id="of anything"),
    ],
)
def test_member(value: Value, place: int | None, member: Value) -> None:
    assert value.member(place) == member


def test_each() -> None:
    assert PAIR.each() == UNKNOWN
    assert Value(Kind.DICT, element=NUMBER).each() == UNKNOWN
    assert STRING.each() == STRING
    assert NUMBERS.each() == NUMBER


def test_what_is_known() -> None:
    assert [v.known for v in (NEVER, UNKNOWN, NONE, NUMBER)] == [False, False, True, True]
    assert [v.is_tensor for v in (TENSOR, BATCH, UNKNOWN)] == [True, False, False]
    assert CUDA.on(Device.CUDA) is CUDA
    assert replace(CUDA, device=Device.CPU) == CPU
