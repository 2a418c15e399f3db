from __future__ import annotations

import textwrap

import pytest
from tools import check, silent

CODE = "TL202"

HEAD = """\
import time
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
losses = []


def train(loader, args, writer, wandb, rank, last):
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
"""


def loop(statements: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(statements), " " * 8)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("if step % 10 == 0:\n    print(loss.item())", id="every n steps"),
        pytest.param("if not step % 10:\n    print(loss.item())", id="every n steps, negated"),
        pytest.param("if step % 10:\n    continue\nprint(loss.item())", id="skipped steps"),
        pytest.param("if time.time() - last > 5:\n    print(loss.item())", id="a time limit"),
        pytest.param("if rank == 0:\n    print(loss.item())", id="one rank"),
        pytest.param("if args.debug:\n    print(loss.item())", id="asked for"),
        pytest.param("if step == 0:\n    print(loss.item())", id="the first step"),
        pytest.param("print(loss.item() if step % 10 == 0 else '')", id="a guarded expression"),
        pytest.param(
            "if bad:\n    print(loss.item())\n    raise SystemExit(1)", id="leaves the loop"
        ),
        pytest.param(
            "try:\n    pass\nexcept ValueError:\n    print(loss.item())", id="an error handler"
        ),
        pytest.param("print(x.shape, len(x), out.size(0), out.device)", id="shapes and the like"),
        pytest.param("print(step, 'done')", id="numbers and strings"),
        pytest.param("torch.log(out)", id="the logarithm is no logger"),
        pytest.param("writer.add_text('a', 'b', step)", id="text"),
        pytest.param("print(y.cpu().numpy().mean().item())", id="a NumPy scalar"),
        pytest.param("env.step(out.argmax(1).item())", id="an action for a simulator"),
        pytest.param("action = out.argmax(1).item()\nenv.step(action)", id="an action with a name"),
        pytest.param("losses.append(loss.detach())", id="kept on the device"),
        pytest.param("unknown(step).item()", id="type not known"),
    ],
)
def test_leaves_alone(statements: str) -> None:
    silent(loop(statements), CODE)


def test_leaves_a_cpu_script_alone() -> None:
    source = loop("print(loss.item())").replace('"cuda" if torch.cuda.is_available() else ', "")
    silent(source, CODE)


def test_leaves_reads_between_epochs_alone() -> None:
    source = (
        HEAD + "    print(loss.item())\n\n\nfor epoch in range(9):\n    train([], 0, 0, 0, 0, 0)\n"
    )
    silent(source, CODE)


@pytest.mark.parametrize(
    ("statements", "read"),
    [
        ("print(loss.item())", "loss.item()"),
        ("print(f'{step}: {loss:.4f}')", "loss"),
        ("print('%d %.3f' % (step, loss))", "loss"),
        ("print('{} {}'.format(step, loss))", "loss"),
        ("losses.append(loss.item())", "loss.item()"),
        ("meter.update(loss.item(), x.size(0))", "loss.item()"),
        ("writer.add_scalar('loss', loss, step)", "loss"),
        ("writer.add_scalar('loss', loss.item(), step)", "loss.item()"),
        ("wandb.log({'loss': loss})", "loss"),
        ("wandb.log({'loss': float(loss)})", "float(loss)"),
        ("pbar.set_postfix(loss=loss.item())", "loss.item()"),
        ("pbar.set_postfix(**{'loss': loss.item()})", "loss.item()"),
        ("value = out.mean().item()", "out.mean().item()"),
        ("import math\nif math.isnan(loss):\n    pass", "math.isnan(loss)"),
        ("if step % 10 == 0:\n    pass\nelse:\n    print(loss.item())", "loss.item()"),
    ],
)
def test_reports_the_read(statements: str, read: str) -> None:
    source = loop(statements)
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == read
    assert found.severity.word == "warning"
    assert found.fix is None
    assert found.help


def test_one_finding_a_statement() -> None:
    (found,) = check(loop("print(loss.item(), out.mean().item(), out.max().item())"), CODE)
    assert "and 2 more" in found.message


def test_what_came_from_tensors_and_has_item_is_one() -> None:
    (found,) = check(loop("print(helper(out, y).item())"), CODE)
    assert found.severity.word == "warning"


def test_a_scaled_loss_is_a_tensor() -> None:
    source = """\
    import torch

    def train(model, criterion, optimizer, loader, loss_scaler, meter):
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda())
            loss_scaler(loss, optimizer, parameters=model.parameters())
            optimizer.zero_grad()
            print(loss)
    """
    (found,) = check(source, CODE)
    assert found.severity.word == "warning"


def test_what_an_unknown_function_makes_of_a_batch_may_be_on_the_gpu() -> None:
    source = """\
    import torch
    from torch.utils.data import DataLoader

    def train(module, data):
        for batch in DataLoader(data):
            loss, score = module(batch)
            loss = loss.mean()
            loss.backward()
            print(loss.item())

    train(build().cuda(), rows)
    """
    (found,) = check(source, CODE)
    assert found.severity.word == "warning"


def test_evaluation_is_information() -> None:
    source = """\
    import torch

    @torch.no_grad()
    def validate(model, loader, meter):
        for x, y in loader:
            x = x.cuda()
            meter.update(model(x).mean().item())

    def train(model, optimizer):
        optimizer.zero_grad()
    """
    (found,) = check(source, CODE)
    assert found.severity.word == "info"
    assert "evaluation step" in found.message


def test_helpers_of_a_training_step_run_per_step() -> None:
    source = """\
    import torch

    def report(loss):
        print(loss.item())

    def train(model, optimizer, loader):
        model.cuda()
        for x in loader:
            loss = model(x.cuda()).mean()
            loss.backward()
            optimizer.step()
            report(loss)
    """
    (found,) = check(source, CODE)
    assert found.location.row == 4


def test_a_step_method_runs_per_step() -> None:
    source = """\
    import torch

    class Trainer:
        def __init__(self, model):
            self.model = model.cuda()
            self.optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

        def train_step(self, x):
            loss = self.model(x.cuda()).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return loss.item()
    """
    (found,) = check(source, CODE)
    assert "loss.item()" in found.message


def test_forward_runs_per_step_where_the_file_trains() -> None:
    source = """\
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x):
            print(x.relu().mean().item())
            return x.relu()

    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in torch.randn(9, 4).cuda():
        net(x).sum().backward()
        optimizer.step()
    """
    assert [found.severity.word for found in check(source, CODE)] == ["info"]
