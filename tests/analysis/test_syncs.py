"""Where the host waits for the GPU to read a value."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from probing import HEAD, parsed

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

SCRIPT = """
model = nn.Linear(3, 3).cuda()
for step, (x, y) in enumerate(DataLoader(data)):
    loss = F.mse_loss(model(x.cuda()), y.cuda())
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    {}
"""


def reads(program: Program) -> list[str]:
    return [f"{s.read.name} {program.code(s.tensor)}{'' if s.sure else '?'}" for s in program.syncs]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param("loss.item()", ["SCALAR loss"], id="item"),
        pytest.param("float(loss)", ["SCALAR loss"], id="float"),
        pytest.param("int(loss.sum())", ["SCALAR loss.sum()"], id="int"),
        pytest.param("import math; math.isnan(loss)", ["SCALAR loss"], id="math.isnan"),
        pytest.param("np.isnan(loss)", [], id="raises of a tensor on the GPU"),
        pytest.param("torch.isnan(loss)", [], id="torch.isnan stays on the device"),
        pytest.param("loss.cpu()", ["COPY loss"], id="cpu"),
        pytest.param("loss.to('cpu')", ["COPY loss"], id="to the host"),
        pytest.param("loss.to('cpu', non_blocking=True)", [], id="to the host, without a wait"),
        pytest.param("loss.to('cuda:1')", [], id="to another GPU"),
        pytest.param(
            "with torch.cuda.stream(s): logs = {k: v.item() for k, v in {0: loss}.items()}",
            [],
            id="of a stream that nothing else is queued on",
        ),
        pytest.param(
            "with torch.cuda.stream(s):\n        a = loss * 2; a.item()",
            ["SCALAR a"],
            id="computed on that stream",
        ),
        pytest.param("with torch.no_grad(): loss.item()", ["SCALAR loss"], id="on the same stream"),
        pytest.param("loss.tolist()", ["COPY loss"], id="tolist"),
        pytest.param("loss.cpu().item()", ["SCALAR loss"], id="one read, not two"),
        pytest.param("other(loss).item()", ["SCALAR other(loss)?"], id="computed by anything"),
        pytest.param("float(other(loss))", [], id="a number already, perhaps"),
        pytest.param("x.sum().item()", [], id="the batch was never moved"),
        pytest.param("float('3')", [], id="text"),
        pytest.param("np.zeros(3).sum().item()", [], id="a NumPy scalar"),
        pytest.param(
            "a = {k: loss * 2 for k in y}; a.get(0, 1).item()", ["SCALAR a.get(0, 1)?"], id="get"
        ),
        pytest.param("a = {k: loss for k in y}; float(a.get(0, 1))", [], id="the default, perhaps"),
        pytest.param("a = {k: step for k in y}; a.get(0, 1).item()", [], id="get of numbers"),
        pytest.param("torch.zeros(y.size(0), len(y))", [], id="sizes that the host knows"),
        pytest.param("torch.zeros(x.sum())", [], id="a size of the host"),
        pytest.param("torch.zeros(*loss)", [], id="sizes that are unpacked"),
        pytest.param("torch.zeros(3, out=loss)", [], id="what is filled"),
        pytest.param("torch.ones_like(loss)", [], id="as large as another"),
        pytest.param("other.zeros(loss)", [], id="the zeros of another library"),
        pytest.param("np.zeros(loss)", [], id="refuses what is on the GPU"),
        pytest.param("other.range(loss)", [], id="another range"),
        pytest.param("range = other; range(loss)", [], id="another range of this name"),
        pytest.param("torch.zeros(3, loss)", ["SIZE loss"], id="a size"),
        pytest.param("torch.full((loss, 3), 0)", ["SIZE loss"], id="one of several sizes"),
        pytest.param("torch.arange(loss.max())", ["SIZE loss.max()"], id="the end of a range"),
        pytest.param("x.new_zeros(loss)", ["SIZE loss"], id="a size of a new tensor"),
        pytest.param("for i in range(loss): other(i)", ["SIZE loss"], id="how many turns"),
        pytest.param("print(loss)", ["SHOWN loss"], id="print"),
        pytest.param("print(f'{loss:.3f} {step}')", ["SHOWN loss"], id="an f-string"),
        pytest.param("print('a' f'{loss}')", ["SHOWN loss"], id="joined strings"),
        pytest.param("print('%f' % loss)", ["SHOWN loss"], id="percent"),
        pytest.param("print('{}'.format(loss))", ["SHOWN loss"], id="format"),
        pytest.param("print(str(loss), [loss], {'a': loss})", ["SHOWN loss"] * 3, id="inside"),
        pytest.param("print(loss.shape)", [], id="a shape"),
        pytest.param("print(loss.item())", ["SCALAR loss"], id="a number is shown"),
        pytest.param("print('%d' % 3, *loss)", [], id="unpacked"),
        pytest.param("log.info(loss)", ["SHOWN loss"], id="a logger"),
        pytest.param("bar.set_postfix(**{'loss': loss})", ["SHOWN loss"], id="a bar"),
        pytest.param("wandb.log({'loss': loss})", ["SHOWN loss"], id="wandb"),
        pytest.param("torch.log(loss)", [], id="a logarithm"),
        pytest.param("loss.log()", [], id="the logarithm of a tensor"),
        pytest.param("other(loss)", [], id="any function"),
        pytest.param("env.step(loss.item())", [], id="an action of a simulator"),
        pytest.param("a = loss.item(); env.step(a)", [], id="an action by name"),
        pytest.param("a = loss.item(); g(a)", ["SCALAR loss"], id="any name"),
        pytest.param("if loss.item() > 3: pass", ["SCALAR loss"], id="a condition"),
        pytest.param("loss.data[0]", ["SCALAR loss"], id="item, as it was up to torch 0.4"),
        pytest.param("float(loss.data[0])", ["SCALAR loss"], id="a number already"),
        pytest.param("print(loss.data[0] / 3)", ["SCALAR loss"], id="an old number is shown"),
        pytest.param("total += loss.data[0]; print(total)", ["SCALAR loss"], id="an old total"),
        pytest.param("loss.cpu().data[0]", ["SCALAR loss"], id="one old read, not two"),
        pytest.param(
            "F.nll_loss(x.cuda(), y).data[0]",
            ["SCALAR F.nll_loss(x.cuda(), y)"],
            id="a loss without a name",
        ),
        pytest.param("loss.data[1], loss.data[:1], loss.data[i]", [], id="no number by dimension"),
        pytest.param("loss.grad[0], loss[0]", [], id="no data"),
        pytest.param("model(x.cuda()).data[0]", [], id="the first of a batch"),
        pytest.param("other(loss).data[0]", [], id="computed by anything, of any dimensions"),
        pytest.param("x.sum().data[0]", [], id="an old read of what was never moved"),
        pytest.param("np.zeros(3).sum().data[0]", [], id="old, of NumPy"),
        pytest.param("env.step(loss.data[0])", [], id="an old action of a simulator"),
        pytest.param(
            "a = loss.data[0] if old else loss.item()", ["SCALAR loss"], id="for two versions"
        ),
        pytest.param(
            "a = loss.data[0] if old else y.item()", ["SCALAR loss"], id="for one of them"
        ),
    ],
)
def test_reads(line: str, found: list[str]) -> None:
    assert sorted(reads(parsed(SCRIPT.format(line), HEAD))) == sorted(found)


@pytest.mark.parametrize(
    ("lines", "nodes"),
    [
        ("if old:\n    a = loss.data[0]\nelse:\n    a = loss.item()", ["loss.item()"]),
        ("try:\n    a = loss.data[0]\nexcept E:\n    a = loss.item()", ["loss.item()"]),
        ("if old:\n    a = loss.data[0]", ["loss.data[0]"]),
        ("try:\n    a = loss.data[0]\nexcept E:\n    a = 0", ["loss.data[0]"]),
        ("if old:\n    for _ in y: loss.data[0]\n    loss.item()", ["loss.item()", "loss.data[0]"]),
    ],
)
def test_what_is_written_for_two_versions_reads_once(lines: str, nodes: list[str]) -> None:
    program = parsed(SCRIPT.format(textwrap.indent(lines, "    ").lstrip()), HEAD)
    assert sorted(program.code(one.node) for one in program.syncs) == sorted(nodes)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("for x in y:\n    loss = f(x); loss.backward()\n    loss.item()", id="no GPU"),
        pytest.param(SCRIPT.format("pass") + "loss.item()", id="after the loop"),
        pytest.param(SCRIPT.format("def print(x): pass\n    print(loss)"), id="a print of its own"),
    ],
)
def test_no_reads(source: str) -> None:
    assert reads(parsed(source, HEAD)) == []


def test_a_framework_logs_without_waiting() -> None:
    source = SCRIPT.format("self.log('loss', loss)")
    assert reads(parsed("import lightning\n" + source, HEAD)) == []
    assert reads(parsed(source, HEAD)) == ["SHOWN loss"]


def test_whole_numbers() -> None:
    program = parsed(SCRIPT.format("int(loss), float(loss), loss.item()"), HEAD)
    assert sorted(sync.reads_whole for sync in program.syncs) == [False, False, True]


GATHERS = """
import pickle
import torch.distributed as dist

def gather(data):
    mine = torch.ByteTensor(list(pickle.dumps(data))).to("cuda")
    sizes = [torch.IntTensor([1]).to("cuda") for _ in range(2)]
    dist.{gathers}(sizes, torch.IntTensor([mine.numel()]).to("cuda"))
    longest = max([int(size.item()) for size in sizes])
    parts = [torch.empty(longest, dtype=torch.uint8, device="cuda") for _ in sizes]
    dist.{gathers}(parts, mine)
    return [{made}(part.cpu().numpy().tobytes()) for part in parts]

model = nn.Linear(3, 3).cuda()
for x, y in DataLoader(data):
    loss = F.mse_loss(model(x.cuda()), y.cuda())
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    everyone = gather(names)
"""


@pytest.mark.parametrize(
    ("size", "found"),
    [
        pytest.param("batch_size=len(held)", [], id="all at once"),
        pytest.param("batch_size=len(held) // 4", ["model(x).mean().item()"], id="in parts"),
        pytest.param("batch_size=64", ["model(x).mean().item()"], id="in batches"),
    ],
)
def test_an_evaluation_of_one_batch_reads_once(size: str, found: list[str]) -> None:
    source = f"""
    loader = DataLoader(held, {size})
    model = nn.Linear(2, 2).cuda()
    model.eval()
    with torch.no_grad():
        for x in loader:
            total += model(x).mean().item()
    """
    program = parsed(source, HEAD)
    assert [program.code(sync.node) for sync in program.syncs] == found
