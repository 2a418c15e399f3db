"""What is known of a batch while it is still what its DataLoader gave."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed, probed

from torchlint.analysis.batches import origin, pinned
from torchlint.analysis.values import Kind


def loader(arguments: str, before: str = "") -> tuple:
    program = parsed(f"{before}\nDataLoader(data, {arguments})\n", HEAD)
    (call,) = program.loaders.calls
    return program, call


@pytest.mark.parametrize(
    ("arguments", "before", "expected"),
    [
        pytest.param("pin_memory=True", "", "YES", id="always"),
        pytest.param("pin_memory=1", "", "YES", id="a number"),
        pytest.param("pin_memory=torch.cuda.is_available()", "", "YES", id="where there is a GPU"),
        pytest.param("pin_memory=use_cuda", "", "YES", id="by the name of a variable"),
        pytest.param("pin_memory=pin", "pin = True", "YES", id="by a variable"),
        pytest.param("", "", "NO", id="absent"),
        pytest.param("pin_memory=False", "", "NO", id="refused"),
        pytest.param("pin_memory=pin", "pin = False", "NO", id="refused by a variable"),
        pytest.param("**options", "", "NO", id="not seen"),
        pytest.param("pin_memory=args.pin", "", "MAYBE", id="an option"),
        pytest.param("pin_memory=pin", "def f(pin): pass", "MAYBE", id="not bound"),
        pytest.param(
            "**o", "o = {}\nif a:\n    o['pin_memory'] = True", "YES", id="where it matters, maybe"
        ),
        pytest.param(
            "**o",
            "o = {}\nif a:\n    o['pin_memory'] = True\nif b:\n    o['pin_memory'] = False",
            "MAYBE",
            id="on some ways",
        ),
        pytest.param(
            "**o", "o = {}\nif a:\n    o['pin_memory'] = False", "NO", id="refused, perhaps"
        ),
    ],
)
def test_pinned(arguments, before, expected):
    assert pinned(*loader(arguments, before)).name == expected


def step(body: str, head: str = "for x, y in DataLoader(data):") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{HEAD}{head}\n{lines}"


@pytest.mark.parametrize(
    ("source", "member", "passed"),
    [
        pytest.param(step("probe(x)"), True, False, id="taken apart by the loop"),
        pytest.param(step("probe(x)", "for x in DataLoader(data):"), False, False, id="whole"),
        pytest.param(step("probe(b[0])", "for b in DataLoader(data):"), True, False, id="an item"),
        pytest.param(step("probe(b.x)", "for b in DataLoader(data):"), True, False, id="a field"),
        pytest.param(
            step("probe(b.get('x'))", "for b in DataLoader(data):"), True, False, id="by get"
        ),
        pytest.param(
            step("x, y = b\nprobe(y)", "for b in DataLoader(data):"), True, False, id="unpacked"
        ),
        pytest.param(
            step("x, z = b['x'], 1\nprobe(x)", "for b in DataLoader(data):"),
            True,
            False,
            id="side by side",
        ),
        pytest.param(
            step("for t in b:\n    probe(t)", "for b in DataLoader(data):"), True, False, id="each"
        ),
        pytest.param(
            step("[probe(v) for k, v in b.items()]", "for b in DataLoader(data):"),
            True,
            False,
            id="each value",
        ),
        pytest.param(
            step("probe(b)", "for i, b in enumerate(DataLoader(data)):"), False, False, id="counted"
        ),
        pytest.param(
            step("probe(x)", "for i, (x, y) in enumerate(DataLoader(data)):"),
            True,
            False,
            id="counted and taken apart",
        ),
        pytest.param(
            step("probe(b[0] if flag else b)", "for b in DataLoader(data):"),
            False,
            False,
            id="a part, perhaps",
        ),
        pytest.param(
            step("f(x)").replace("for x", "def f(z):\n    probe(z)\nfor x"),
            True,
            True,
            id="given to a function",
        ),
        pytest.param(
            "data = DataLoader(d)\nit = iter(data)\nwhile 1:\n    b = next(it)\n    probe(b)\n",
            False,
            False,
            id="by next",
        ),
    ],
)
def test_origin(source, member, passed):
    program = parsed(source, "" if source.startswith("import") else HEAD)
    node = probed(program)
    assert program.value(node).kind is Kind.BATCH
    found = origin(program, node)
    assert (found.member, found.passed) == (member, passed)
