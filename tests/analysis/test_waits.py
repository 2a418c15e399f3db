"""Reads that find nothing left to wait for."""

from __future__ import annotations

import textwrap

import pytest
from probing import HEAD, parsed

from torchlint.analysis.waits import waited

SCRIPT = """
def accuracy(output, target):
    return (output == target).float().mean()


class Meter:
    def update(self, value, n=1):
        self.total = value * n
        self.shown = round(value, 3)


class Moving:
    def update(self, value):
        net.step(value)


net = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
meter, moving = Meter(), Moving()
for step, (x, y) in enumerate(DataLoader(data)):
    x, y = x.cuda(), y.cuda()
    out = net(x)
    loss, top, far = F.mse_loss(out, y), out.mean(), out.max()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def of_last(lines: str) -> str:
    """What the last read of some lines finds before it."""
    program = parsed(SCRIPT + textwrap.indent(textwrap.dedent(lines), "    "), HEAD)
    found = waited(program, max(program.syncs, key=lambda s: program.index.order(s.node)))
    return "" if found is None else program.code(found)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("a = top.item()", id="the first read"),
        pytest.param("a = loss.item()\noptimizer.step()\nb = top.item()", id="an update"),
        pytest.param("a = loss.item()\nloss.backward()\nb = top.item()", id="a backward pass"),
        pytest.param("a = loss.item()\nout = net(x)\nb = top.item()", id="a forward pass"),
        pytest.param("a = loss.item()\nc = accuracy(out, y)\nb = top.item()", id="a metric"),
        pytest.param("a = loss.item()\nc = unknown()\nb = top.item()", id="an unknown function"),
        pytest.param("a = loss.item()\nmoving.update(a)\nb = top.item()", id="a known method"),
        pytest.param("a = loss.item()\nc = f(out.cpu(), y)\nb = top.item()", id="not all copies"),
        pytest.param("a = loss.item()\nc = net(out.cpu())\nb = top.item()", id="a model"),
        pytest.param("a = loss.item()\nmeter.update(top)\nb = top.item()", id="given a tensor"),
        pytest.param("a = loss.item()\nother.update(top)\nb = top.item()", id="told a tensor"),
        pytest.param("a = loss.item()\nc = top * 2\nb = top.item()", id="an operation"),
        pytest.param("a = loss.item()\nc = -top\nb = top.item()", id="a sign"),
        pytest.param("a = loss.item()\ntotal += top\nb = top.item()", id="a total on the GPU"),
        pytest.param("a = loss.item()\nc = top > 0\nb = top.item()", id="a comparison"),
        pytest.param("a = loss.item()\nb = (out == y).sum().item()", id="a read that computes"),
        pytest.param("unknown(loss.item())\nb = top.item()", id="what takes the first number"),
        pytest.param("if step % 9 == 0:\n    loss.item()\nb = top.item()", id="now and then"),
        pytest.param("if y.ndim:\n    loss.item()\nb = top.item()", id="in a branch"),
        pytest.param(
            "if y.ndim:\n    loss.item()\nelse:\n    b = top.item()", id="in the other branch"
        ),
        pytest.param("a = known and loss.item()\nb = top.item()", id="after an and"),
        pytest.param("a = loss.item() if known else 0\nb = top.item()", id="a choice"),
        pytest.param("f = lambda: loss.item()\nb = top.item()", id="a function to be called"),
        pytest.param("for i in known:\n    loss.item()\nb = top.item()", id="no turn, perhaps"),
        pytest.param(
            "try:\n    a = loss.item()\nexcept ValueError:\n    a = top.item()", id="a handler"
        ),
        pytest.param(
            "loss.item()\nfor i in range(3):\n    b = top.item()\n    net(x)", id="its second turn"
        ),
    ],
)
def test_waits_for_the_gpu(lines: str) -> None:
    assert of_last(lines) == ""


@pytest.mark.parametrize(
    ("lines", "before"),
    [
        ("a = loss.item()\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nb = top.item()\nc = far.item()", "loss.item()"),
        ("a, b = loss.item(), top.item()", "loss.item()"),
        ("meter.update(loss.item(), x.size(0))\nmeter.update(top.item())", "loss.item()"),
        ("other.update(loss.item(), len(x))\nother.update(top.item())", "loss.item()"),
        ("print(loss)\nlosses.append(top.item())", "loss"),
        ("writer.add_scalar('a', loss.item(), step)\nb = float(top)", "loss.item()"),
        ("torch.cuda.synchronize()\nb = top.item()", "torch.cuda.synchronize()"),
        ("a = out.cpu().numpy()\nb = top.item()", "out.cpu()"),
        ("a = accuracy(out.cpu().numpy(), k=5)\nb = top.item()", "out.cpu()"),
        ("a = out.cpu()\nc = a.mean().sqrt()\nb = top.item()", "out.cpu()"),
        ("if not np.isfinite(loss.item()):\n    raise ValueError\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nif step % 9 == 0:\n    net(x)\nb = top.item()", "loss.item()"),
        ("with torch.no_grad():\n    a = loss.item()\nb = top.item()", "loss.item()"),
        ("try:\n    a = loss.item()\nfinally:\n    pass\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nfor i in range(3):\n    b = out[i].item()", "loss.item()"),
        ("a = loss.item()\nimport time\nend = time.time() - 3\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nlr_scheduler.step_update(step)\nb = top.item()", "loss.item()"),
    ],
)
def test_has_been_waited_for(lines: str, before: str) -> None:
    assert of_last(lines) == before


def test_a_read_in_another_function_is_not_before() -> None:
    source = (
        HEAD
        + """
net = nn.Linear(3, 3).cuda()

def show(loss):
    print(loss.item())

def train():
    for x in DataLoader(data):
        loss = net(x.cuda()).mean()
        loss.backward()
        show(loss)
        print(loss.item())
"""
    )
    program = parsed(source)
    assert [waited(program, sync) for sync in program.syncs] == [None, None]
