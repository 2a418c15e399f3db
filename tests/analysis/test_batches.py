"""What is known of a batch while it is still what its DataLoader gave."""

from __future__ import annotations

import libcst as cst
import pytest
from probing import HEAD, parsed, probed, probes

from torchlint.analysis.batches import (
    changed_later,
    collates_plainly,
    handed_on_later,
    origin,
    pinned,
)
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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param("", True, id="absent"),
        pytest.param("collate_fn=None", True, id="None"),
        pytest.param("collate_fn=torch.utils.data.default_collate", True, id="PyTorch's own"),
        pytest.param("collate_fn=collate", False, id="another"),
        pytest.param("**options", False, id="not seen"),
    ],
)
def test_collates_plainly(arguments, expected):
    assert collates_plainly(*loader(arguments)) is expected


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


@pytest.mark.parametrize(
    ("body", "changed", "handed"),
    [
        pytest.param("probe(x.cuda())", False, False, id="not used again"),
        pytest.param("x.add_(1)\nprobe(x.cuda())", False, False, id="changed before"),
        pytest.param("probe(x.cuda())\nx.add_(1)", True, False, id="changed"),
        pytest.param("probe(x.cuda())\nx += 1", True, False, id="changed by an operator"),
        pytest.param("probe(x.cuda())\nx[0] = 1", True, False, id="changed in a part"),
        pytest.param("x = probe(x.cuda())\nx.add_(1)", False, False, id="the copy is changed"),
        pytest.param("probe(x.cuda())\nx.cuda().add_(1)", False, False, id="another copy is"),
        pytest.param("probe(x.cuda())\nx.add(1)", False, False, id="only read"),
        pytest.param("probe(x.cuda())\nf(x)", False, True, id="handed on"),
        pytest.param("probe(x.cuda())\ntorch.sum(x)", False, False, id="given to torch"),
        pytest.param("probe(x.cuda())\nf.x(x=3)", False, False, id="another x"),
    ],
)
def test_later_on_the_host(body, changed, handed):
    program = parsed(step(body))
    (probe,) = probes(program)
    copy = probe.args[0].value
    assert isinstance(copy, cst.Call)
    assert isinstance(copy.func, cst.Attribute)
    source = origin(program, copy.func.value)
    assert changed_later(program, copy, source) is changed
    assert handed_on_later(program, copy, source) is handed
