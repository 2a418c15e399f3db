from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

CODE = "TL204"

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []


def train(loader):
    for step, (x, y) in enumerate(loader):
        out = model(x.to(device))
        loss = out.mean()
        loss.backward()
        optimizer.step()
"""


def loop(statements: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(statements), " " * 8)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("if step % 10 == 0:\n    kept.append(out.cpu())", id="every n steps"),
        pytest.param("kept.append(y.cpu())", id="a batch that was not moved"),
        pytest.param("kept.append(y.detach().view(-1).cpu())", id="a view of such a batch"),
        pytest.param("kept.append(y.numpy())", id="numpy() is for tensors on the host"),
        pytest.param("model.cpu()", id="a module"),
        pytest.param("kept.append(loss.cpu().item())", id="one number: another rule's"),
        pytest.param("kept.append(float(loss.cpu()))", id="one number, converted"),
        pytest.param("kept.append(out.to(torch.float16))", id="a cast"),
        pytest.param("kept.append(out.detach())", id="stays on the device"),
        pytest.param("rows = torch.zeros(3).tolist()", id="made on the host"),
        pytest.param("row = out.to('cpu', non_blocking=True)", id="does not wait"),
        pytest.param("try:\n    f()\nexcept E:\n    kept.append(out.cpu())", id="in except"),
    ],
)
def test_leaves_alone(statements: str) -> None:
    silent(loop(statements), CODE)


def test_leaves_copies_after_the_loop_alone() -> None:
    silent(HEAD + "    kept.append(out.cpu())\n", CODE)


def test_leaves_a_loop_over_parameters_alone() -> None:
    source = """\
    import torch

    def log_validation(model, writer):
        model.cuda()
        for name, value in model.named_parameters():
            writer.add_histogram(name, value.data.cpu().numpy())
    """
    silent(source, CODE)


def test_leaves_a_script_for_the_cpu_alone() -> None:
    silent(loop("kept.append(out.cpu())").replace('"cuda"', '"cpu"'), CODE)


@pytest.mark.parametrize(
    ("statements", "read"),
    [
        ("kept.append(out.detach().cpu())", "out.detach().cpu()"),
        ("score = metric(out.cpu().numpy())", "out.cpu()"),
        ("rows = out.tolist()", "out.tolist()"),
        ("rows = out.to('cpu')", "out.to('cpu')"),
        ("rows = out.data.cpu().numpy()[0]", "out.data.cpu()"),
        ("kept.append(model.weight.grad.cpu())", "model.weight.grad.cpu()"),
        ("rows = out.cpu(), loss.cpu()", "out.cpu()"),
    ],
)
def test_reports_the_copy(statements: str, read: str) -> None:
    source = loop(statements)
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == read
    assert "to the host waits for the GPU in every training step" in found.message
    assert found.fix is None


EVALUATES = """\
import torch

def evaluate(model, loader):
    model.eval()
    rows = []
    with torch.no_grad():
        for x in loader:
            rows.append(model(x.cuda()).sigmoid().cpu())
    return rows
"""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(EVALUATES, id="an evaluation"),
        pytest.param(loop("if f():\n    kept.append(out.cpu())"), id="who knows how often"),
        pytest.param(loop("kept.append(thing(step).cpu())"), id="who knows what"),
        pytest.param("import lightning\n" + loop("kept.append(out.cpu())"), id="a framework"),
    ],
)
def test_is_information(source: str) -> None:
    assert [found.severity.word for found in check(source, CODE)] == ["info"]


@pytest.mark.parametrize("move", [".cuda()", ".to(device)", ".to('cuda')"])
def test_there_and_back_is_dropped(move: str) -> None:
    source = loop(f"kept.append(out.cpu(){move} + 1)  # why")
    assert "kept.append(out + 1)  # why" in fixed(source, CODE, unsafe=False)


def test_there_and_back_is_dropped_where_there_may_be_a_gpu() -> None:
    source = loop("kept.append(out.cpu().to(device) + 1)").replace(
        'torch.device("cuda")', 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    )
    assert "kept.append(out + 1)" in fixed(source, CODE, unsafe=False)


def test_a_named_copy_is_unsafe_to_drop() -> None:
    (found,) = check(loop("copy = out.cpu().to(device)"), CODE)
    assert found.fix is not None
    assert found.fix.safety.word == "unsafe"
    assert "copy" in found.fix.changes


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("a = out.cpu().to('cuda:1')", id="may be another device"),
        pytest.param("a = out.cpu().to(device)\ntorch.cuda.set_device(1)", id="one of several"),
        pytest.param("a = out.cpu().cuda(step)", id="one by its number"),
        pytest.param("a = out.cpu().to(device, torch.float16)", id="casts as well"),
        pytest.param("a = out.cpu().to(other)", id="target not known"),
    ],
)
def test_reported_without_a_fix(statements: str) -> None:
    (found,) = check(loop(statements), CODE)
    assert found.fix is None
