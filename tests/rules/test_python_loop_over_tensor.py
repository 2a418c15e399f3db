"""TL310: Python loops whose turns compute with one row of a tensor each."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, silent

from torchlint.rule import Severity

CODE = "TL310"

HEAD = """\
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torchvision.ops import nms
from project import helper, match

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(4, 4).to(device)
cell = nn.GRUCell(4, 4).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader, args, net, boxes, names, lengths, n, logs):
    for step, (x, y, lens, flags) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        wide = F.softmax(out, dim=1)
        bs = x.size(0)
        penalty = 0
        rows = []
        table = torch.zeros(bs, 4, device=device)
"""
TAIL = """
        loss = F.cross_entropy(out, y) + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def loop(statements: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(statements), " " * 8) + TAIL


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("for layer in [model, model]: out = layer(out)", id="layers"),
        pytest.param("for k in (1, 5): penalty += out[k].sum()", id="a tuple of numbers"),
        pytest.param("for i in range(3): penalty += out[i].sum()", id="a few turns"),
        pytest.param("for i in range(n): penalty += out[i].sum()", id="who knows how many turns"),
        pytest.param("for i in range(len(names)): penalty += boxes[i].sum()", id="a list"),
        pytest.param("for i in range(len(names)): penalty += out[i].sum()", id="as long as a list"),
        pytest.param("for one in net(x): penalty += one.sum()", id="outputs"),
        pytest.param("for one in boxes: penalty += one.sum()", id="who knows what"),
        pytest.param("for a, b in out.chunk(2): penalty += (a - b).sum()", id="parts of a batch"),
        pytest.param("for part in x.split(1): penalty += part.sum()", id="more parts"),
        pytest.param("for one in nn.DataParallel(net)(x): penalty += one.sum()", id="of a model"),
        pytest.param("for i in range(1, bs): penalty += (out[i] - out[i - 1]).sum()",
                     id="neighbours"),
        pytest.param("for i in range(bs): penalty += lengths[i] * 2", id="a list by the rows"),
        pytest.param("for i in range(bs): penalty += net[i](out[i]).sum()", id="a layer for each"),
    ],
)  # fmt: skip
def test_leaves_alone_what_is_no_tensor(statements: str) -> None:
    silent(loop(statements), CODE)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("h = out[0]\nfor i in range(bs):\n    h = torch.tanh(h + out[i])", id="state"),
        pytest.param("h = out[0]\nfor i in range(bs):\n    h = cell(out[i], h)", id="a cell"),
        pytest.param(
            "h = out[0]\nfor i in range(bs):\n    rows.append(h * out[i])\n    h = out[i]\n"
            "out = torch.stack(rows)",
            id="what the turn before has left",
        ),
        pytest.param("for i in range(bs): table[i] = table.sum(0) + out[i]", id="what it fills"),
        pytest.param("for i in range(bs): table[i] = table[0] + out[i]", id="its first place"),
        pytest.param("for i in range(bs): table[y[i]] = out[i] * 2", id="a place more than once"),
        pytest.param(
            "for i in range(bs): rows.append(out[i] * len(rows))\nout = torch.stack(rows)",
            id="the list that it fills",
        ),
        pytest.param("for i in range(bs): penalty += out[i].sum() * penalty", id="its own total"),
        pytest.param("for i in range(bs): out = out * out[i]", id="the tensor itself"),
    ],
)  # fmt: skip
def test_leaves_recurrences_alone(statements: str) -> None:
    silent(loop(statements), CODE)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("for i in range(bs): penalty += out[i, : lens[i]].sum()", id="lengths"),
        pytest.param("for i in range(bs): penalty += out[i][: lengths[i]].sum()", id="numbers"),
        pytest.param("for i in range(bs): penalty += out[i][flags[i]].sum()", id="a mask"),
        pytest.param("for i in range(bs): penalty += out[i][out[i] > 0].mean()", id="its own mask"),
        pytest.param("for row in out: penalty += row[row.nonzero()].sum()", id="places"),
        pytest.param("for row in out: penalty += row.sum_()", id="a change in place"),
        pytest.param("for row in out: penalty += row.unique().sum()", id="different values"),
        pytest.param("for row in out: penalty += torch.where(row)[0].sum()", id="where"),
        pytest.param("for row in out: penalty += row[torch.randperm(4)][0]", id="a permutation"),
        pytest.param("for row in out: rows.append(row * 2)\nhelper(rows)", id="a list of results"),
        pytest.param("for i in range(bs): penalty += out[i, i]", id="a diagonal"),
        pytest.param("for i in range(bs):\n    if y[i]: penalty += out[i].sum()", id="a branch"),
        pytest.param("for row in out:\n    if step: continue\n    penalty += row.sum()", id="next"),
        pytest.param("for i in range(bs): penalty += out[i].sum() * i", id="its number"),
    ],
)  # fmt: skip
def test_leaves_different_rows_alone(statements: str) -> None:
    silent(loop(statements), CODE)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("for i in range(bs): penalty += helper(out[i])", id="a function"),
        pytest.param("for i in range(bs): penalty += net(out[i]).sum()", id="a model"),
        pytest.param("for i in range(bs): penalty += net.loss(out[i])", id="a method"),
        pytest.param("for i in range(bs): rows.append(out[i][nms(out[i], y, 0.5)] * 2)\n"
                     "out = torch.cat(rows)", id="non-maximum suppression"),
        pytest.param("for row in out: penalty += np.square(row.cpu().numpy()).sum()", id="NumPy"),
        pytest.param("for row in out: print((row * 2).sum())", id="printing"),
        pytest.param("for i in range(bs): logs[i] = out[i].sum() * 2", id="a list of entries"),
        pytest.param("for row in out: last = row.sum()", id="the last alone"),
        pytest.param("for row in out: logs.append(row.sum().item())", id="numbers for a log"),
        pytest.param("for row in out: rows.append(row)\nout = torch.stack(rows)", id="no work"),
        pytest.param("for i in range(bs): model(x[i]).sum().backward()", id="a step for each"),
        pytest.param("rows = [row * 2 for row in out]\nhelper(rows)", id="a list by itself"),
        pytest.param("out = torch.stack([row * 2 for row in out if step])", id="a condition"),
    ],
)  # fmt: skip
def test_leaves_other_work_alone(statements: str) -> None:
    silent(loop(statements), CODE)


@pytest.mark.parametrize(
    "statements",
    [
        "if step % 9 == 0:\n    for row in out: penalty += row.sum()",
        "if args.debug:\n    for row in out: penalty += row.sum()",
    ],
)
def test_tells_of_what_runs_now_and_then(statements: str) -> None:
    (found,) = check(loop(statements), CODE)
    assert found.severity is Severity.INFO
    assert found.message == "each turn of this loop computes with one row of `out`"


def test_tells_of_evaluations() -> None:
    source = loop("pass") + textwrap.dedent(
        """
        def evaluate(loader):
            model.eval()
            total = 0
            with torch.no_grad():
                for x in loader:
                    out = torch.relu(model(x.to(device)))
                    for row in out:
                        total += row.sum()
            return total
        """
    )
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.message.endswith("in every step of an evaluation")


@pytest.mark.parametrize(
    "statements",
    [
        "for i in range(x.size(0)): penalty += out[i].sum()",
        "for i in range(x.shape[0]): penalty = penalty + torch.logsumexp(wide[i], 0)",
        "for i in range(len(x)): table[i] = wide[i] * 2",
        "for i in range(bs): table[i, :] += wide[i] @ wide[i, None].t()",
        "bs, width = out.shape\nfor i in range(bs): penalty += criterion(out[i], x[i])",
        "bs, *_ = x.size()\nfor i in range(bs): penalty += F.mse_loss(out[i], x[i])",
        "for i in range(x.size()[0]): penalty += (wide[i] - x[i]).abs().max()",
        "for row in wide: penalty += row.square().sum().sqrt()",
        "for i in range(bs): table[i, wide[i].argmax()] = wide[i].max()",
        "for i, row in enumerate(wide): table[i] = row / row.norm()",
        "for row, weight in zip(wide, x): penalty += (row * weight).sum()",
        "for row in wide: rows.append(row.softmax(0))\nout = torch.stack(rows)",
        "for row in wide: rows.append(row / 2)\npenalty = sum(rows)",
        "for i in range(bs):\n    one = out[i]\n    one = F.relu(one)\n    table[i] = one",
        "for i in range(bs):\n    best = wide[i].argmax().item()\n    penalty += x[best].sum()",
        "for i in range(bs):\n    _, top = wide[i].topk(2)\n    table[i] = x[top].mean(0)",
        "out = torch.stack([row.softmax(0) for row in wide])",
        "penalty = sum(F.mse_loss(out[i], x[i]) for i in range(bs))",
    ],
)  # fmt: skip
def test_reports_rows(statements: str) -> None:
    (found,) = check(loop(statements), CODE)
    assert found.severity is Severity.WARNING
    assert found.message.startswith("each turn of this loop computes with one row of `")
    assert found.message.endswith(", in every training step")
    assert found.fix is None


def test_says_what_is_taken_and_where() -> None:
    source = loop("for i in range(bs): penalty += wide[i].sum()")
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == "range(bs)"
    assert "one row of `wide`" in found.message


FORWARD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        kept = []
        for i in range(x.size(0)):
            kept.append(self.layer(x[i]).relu())
        return torch.stack(kept)


def train(loader):
    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in loader:
        loss = net(x.cuda()).mean()
        loss.backward()
        optimizer.step()
"""


def test_reports_rows_of_a_forward_pass() -> None:
    (found,) = check(FORWARD, CODE)
    assert found.severity is Severity.WARNING
    assert found.message.endswith("one row of `x`, in every training step")


def test_tells_of_other_dimensions() -> None:
    (found,) = check(FORWARD.replace("size(0)", "size(1)").replace("x[i]", "x[:, i]"), CODE)
    assert found.severity is Severity.INFO
    assert "one slice of `x`" in found.message


def test_tells_of_the_host() -> None:
    (found,) = check(FORWARD.replace(".cuda()", ""), CODE)
    assert found.severity is Severity.INFO


EPISODE = """
import torch

def finish(policy, optimizer, rewards):
    returns = []
    total = 0
    for reward in rewards[::-1]:
        total = reward + 0.9 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    losses = []
    for chance, value in zip(policy.chances, returns):
        losses.append(-chance * value)
    optimizer.zero_grad()
    torch.cat(losses).sum().backward()
    optimizer.step()


def main(policy, optimizer, episodes):
    for rewards in episodes:
        finish(policy, optimizer, rewards)
"""


def test_reports_lists_beside_a_tensor_made_of_one() -> None:
    (found,) = check(EPISODE, CODE)
    assert found.severity is Severity.INFO
    assert "one row of `returns`" in found.message
    assert found.help.startswith("put the list together")


@pytest.mark.parametrize(
    ("statements", "advice"),
    [
        ("for row in wide: penalty += row.sum()", "compute with the whole tensor"),
        (
            "for i in range(bs): penalty += x[torch.multinomial(wide[i], 1).item()].sum()",
            "pick for all rows at once",
        ),
    ],
)
def test_says_what_to_write_instead(statements: str, advice: str) -> None:
    (found,) = check(loop(statements), CODE)
    assert found.help.startswith(advice)
