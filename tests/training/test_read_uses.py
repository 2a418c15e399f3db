"""What a number is for that the host reads."""

from __future__ import annotations

import pytest
from revealing import evaluated

from torchlint.training.host_reads import host_reads
from torchlint.training.read_uses import uses

HEAD = "import logging, torch\nt = torch.ones(3).cuda()\nrows = []\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("total += t.item()", "total"),
        ("total = total + 2 * t.item()", "total"),
        ("n = t.item()\ntotal += n", "total"),
        ("print(t.item())", "shown"),
        ("f'{t.item():.2f}'", "shown"),
        ("'%s' % t.item()", "shown"),
        ("logging.info('%s', t.item())", "shown"),
        ("bar.set_postfix(loss=t.item())", "shown"),
        ("n = round(t.item(), 2)\nprint({'n': n})\nrows.append(n)", "shown kept"),
        ("rows.append(t.item())", "kept"),
        ("me.last = t.item()", "kept"),
        ("meter.update(t.item())", "handed"),
        ("if t.item() > 1:\n    pass", "decides"),
        ("ok = not t.item() > 1\nassert ok", "decides"),
        ("rows[int(t)]", "counted"),
        ("range(t.item())", "counted"),
        ("def f():\n    n = t.item()\n    return n", "returned"),
        ("n *= t.item()", "computed"),
        ("t.item()", ""),
    ],
)
def test_what_it_is_for(code: str, expected: str) -> None:
    evaluation = evaluated(HEAD + code)
    (read,) = host_reads(evaluation, 0)
    assert " ".join(use.name.lower() for use in uses(evaluation, read)) == expected
