from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.preferences import Preferences
from torchlint.rule import Severity

if TYPE_CHECKING:
    from pathlib import Path

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
        pytest.param("if step == 10:\n    print(loss.item())\n    continue", id="a step left out"),
        pytest.param("if time.time() - last > 5:\n    print(loss.item())", id="a time limit"),
        pytest.param(
            "if rank == 0 and step % 9 == 0:\n    print(loss.item())", id="one rank, at times"
        ),
        pytest.param("if args.debug:\n    print(loss.item())", id="asked for"),
        pytest.param("if step == 0:\n    print(loss.item())", id="the first step"),
        pytest.param("print(loss.item() if step % 10 == 0 else '')", id="a guarded expression"),
        pytest.param(
            "if bad:\n    print(loss.item())\n    raise SystemExit(1)", id="leaves the loop"
        ),
        pytest.param(
            "try:\n    pass\nexcept ValueError:\n    print(loss.item())", id="an error handler"
        ),
        pytest.param("if device == 'cpu':\n    print(loss.item())", id="a branch for the CPU"),
        pytest.param(
            "if torch.backends.mps.is_available():\n    out.cpu(), print(loss.item())",
            id="a branch for Apple's GPU",
        ),
        pytest.param("if out.max() > 1:\n    print(out.max())", id="certain values only"),
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
        ("from tqdm import tqdm\nbar = tqdm(total=9)\nbar.set_postfix(loss=loss)", "loss"),
        ("value = out.mean().item()", "out.mean().item()"),
        ("import math\nif math.isnan(loss):\n    pass", "math.isnan(loss)"),
        ("if step % 10 == 0:\n    pass\nelse:\n    print(loss.item())", "loss.item()"),
        ("if size == 0:\n    continue\nlosses.append(float(loss))", "float(loss)"),
    ],
)
def test_reports_the_read(statements: str, read: str) -> None:
    source = loop(statements)
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == read
    assert found.severity.word == "warning"
    assert found.help


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("if not math.isfinite(loss.item()): stop()", "check"),
        ("assert math.isfinite(loss.item())", "check"),
        ("if ready: print(loss.item())", "log"),
    ],
)
def test_what_a_condition_asks_is_checked(statement: str, word: str) -> None:
    (found,) = check(loop(f"import math\n{statement}"), CODE)
    assert found.help == f"{word} it every n steps (`if step % n == 0:`)"


def test_one_finding_a_statement() -> None:
    (found,) = check(loop("print(loss.item(), out.mean().item(), out.max().item())"), CODE)
    assert "and 2 more" in found.message


def test_the_finding_reaches_from_the_first_read_to_the_last() -> None:
    source = loop("print('%d %f %f' % (\n    step,\n    loss.item(),\n    out.mean().item(),\n))")
    (found,) = check(source, CODE)
    reads = source[source.index("loss.item()") : source.index(",\n        ))")]
    assert source[found.span.start : found.span.end] == reads
    assert (found.location.row, found.end_location.row) == (21, 22)
    (found,) = check(loop("print(step, float(loss), out.mean().item(), step)"), CODE)
    assert (found.location.column, found.end_location.column) == (21, 51)


@pytest.mark.parametrize("place", ["first", "loss", "mean", "last"])
@pytest.mark.parametrize("comment", ["# noqa: TL202", "# torchlint: ignore[TL202]"])
def test_a_comment_for_reads_of_many_lines(place: str, comment: str) -> None:
    lines = {"first": "print(", "loss": "    loss.item(),", "mean": "    out.mean().item(),",
             "last": ")"}  # fmt: skip
    assert len(check(loop("\n".join(lines.values())), CODE)) == 1
    lines[place] += f"  {comment}"
    silent(loop("\n".join(lines.values())), CODE)


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("bar.set_description(('%11s' * 2 + '%11.4g' * 2) % ('a', 'b', *out))", "out"),
        ("print(('%d ' + '%.3f') % (step, loss))", "loss"),
        ("print(('{} ' * 2).format(step, loss))", "loss"),
    ],
)
def test_texts_that_are_put_together_and_tensors_that_are_taken_apart(
    statement: str, read: str
) -> None:
    source = loop(statement)
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == read


@pytest.mark.parametrize(
    "statement",
    [
        "tell(f'{step}: {loss:.3f}')",
        "text = f'{loss:.3f}'",
        "tell(step, line='a' f'{f\"{loss}\"}')",
        "text = '%d: %.3f' % (step, loss)",
        "tell('{:.3f}'.format(loss))",
    ],
)
def test_a_text_reads_what_it_is_made_of_whoever_gets_it(statement: str) -> None:
    source = loop(statement)
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == "loss"
    assert found.severity.word == "warning"


@pytest.mark.parametrize(
    "statement",
    [
        "assert step < 9, f'{loss}'",
        "tell(lambda: f'{loss}')",
        "if step % 9 == 0:\n    tell(f'{loss}')",
        "tell(f'{loss.shape} {step} {time.time():.2f} {last}')",
        "if broken(x):\n    raise ValueError(f'{loss}')",
        "if broken(x):\n    raise ValueError('%s' % loss)",
        "text = '%d %s' % (step, loss.shape)",
        "odd = loss % 2",
        "tell(other.format(loss))",
    ],
)
def test_texts_that_read_nothing_or_are_made_at_times(statement: str) -> None:
    silent(loop(statement), CODE)


@pytest.mark.parametrize("test", ["device == 'cuda'", "torch.cuda.is_available()"])
def test_a_read_after_a_wait_that_asks_for_the_device(test: str) -> None:
    wait = f"if device == 'mps':\n    torch.mps.synchronize()\nelif {test}:\n"
    (found,) = check(loop(f"{wait}    torch.cuda.synchronize()\nprint(loss.item())"), CODE)
    assert "`torch.cuda.synchronize()` has just waited" in found.message
    (found,) = check(loop("if broken(x):\n    torch.cuda.synchronize()\nprint(loss.item())"), CODE)
    assert "has just waited" not in found.message


def test_what_is_taken_apart_on_the_host() -> None:
    silent(loop("print(*out.shape, *losses)\nprint(step % 9, '%s %s' % (*x.shape,))"), CODE)


@pytest.mark.parametrize("test", ["rank in (-1, 0)", "rank == 0", "is_main_process()"])
def test_the_first_process_reads_in_each_step(test: str) -> None:
    (found,) = check(loop(f"if {test}:\n    last = (last + loss.item()) / 2"), CODE)
    assert found.severity.word == "warning"
    silent(loop("if rank in (0, 1):\n    last = (last + loss.item()) / 2"), CODE)


def test_reads_of_one_statement_are_one_wait() -> None:
    lines = "pbar.set_description(f'loss: {loss.item():.5f}; ' f'mean: {out.mean():.5f}')"
    (found,) = check(loop(lines), CODE)
    assert found.severity.word == "warning"
    assert found.message == (
        "reading `loss.item()` and 1 more to log it waits for the GPU in every training step"
    )


def test_a_copy_in_the_statement_comes_before_the_read_after_it() -> None:
    (found,) = check(loop("print(out.cpu(), loss.item())"), CODE)
    assert found.severity.word == "info"
    assert "`out.cpu()` has just waited" in found.message


def test_a_read_right_before_a_wait_for_the_gpu_is_information() -> None:
    lines = "meter.update(loss.item(), x.size(0))\ntorch.cuda.synchronize()\nend = time.time()"
    (found,) = check(loop(lines), CODE)
    assert found.severity.word == "info"
    assert "but so does `torch.cuda.synchronize()` after it" in found.message


def test_a_read_right_after_another_is_information() -> None:
    source = loop("losses.append(loss.item())\nmeter.update(out.item(), x.size(0))")
    first, second = check(source, CODE)
    assert [first.severity.word, second.severity.word] == ["warning", "info"]
    assert "copy" not in first.message
    assert second.message == (
        "reading `out.item()` to log it waits for its own copy alone in every training step, as "
        "`loss.item()` has just waited for the GPU: they have to go together"
    )


def test_the_same_number_is_kept() -> None:
    first, second = check(loop("losses.append(loss.item())\nprint(loss.item())"), CODE)
    assert [first.severity.word, second.severity.word] == ["warning", "info"]
    assert "what `loss.item()` has already read" in second.message
    assert "first number" in second.help


def test_a_name_of_two_loops_is_no_same_number() -> None:
    lines = "losses.append(loss.item())\nprint([v.item() for v in {}], [v.item() for v in {}])"
    source = loop("first, second = model(x), model(x)\n" + lines.format("first", "second"))
    messages = [one.message for one in check(source, CODE)]
    assert len(messages) > 1
    assert not any("already read" in message for message in messages)


def test_another_number_beside_the_same() -> None:
    """The first of three has been read before, and it is not what the others cost."""
    lines = "losses.append(loss.item())\nprint(loss.item(), out.max().item(), out.mean().item())"
    _, second = check(loop(lines), CODE)
    assert "`out.max().item()` and 2 more to print it waits for its own copy" in second.message


def test_the_spelling_of_old_torch_is_the_same_read() -> None:
    first, second = check(loop("losses.append(loss.data[0])\nprint(loss.data[0])"), CODE)
    assert [first.severity.word, second.severity.word] == ["warning", "info"]
    assert first.message == (
        "reading `loss.data[0]` to keep it waits for the GPU in every training step"
    )
    assert first.help == (
        "append `loss.detach().clone()` and read them together after the loop; "
        "current torch spells it `loss.item()`"
    )
    assert "what `loss.data[0]` has already read" in second.message
    assert (first.fix, second.fix) == (None, None)


def test_a_function_that_returns_what_old_torch_reads() -> None:
    source = """\
    import torch

    model = torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = torch.nn.MSELoss()

    def step(x, y):
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.data[0] / 3

    for epoch in range(9):
        losses.append(step(*batch()))
    """
    (found,) = check(source, CODE)
    assert found.message == "reading `loss.data[0]` waits for the GPU in every training step"


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("if step % 10 == 0:\n    print(loss.data[0])", id="every n steps"),
        pytest.param("if args.show:\n    print(loss.data[0])", id="asked for"),
        pytest.param("if loss.data[0] < 0:\n    print(loss.data[0])\n    break", id="leaves"),
        pytest.param("total += loss.data[0]", id="a total: another rule's"),
        pytest.param("picture = x.data[0]\nprint(y.data[0].shape)", id="the first of a batch"),
        pytest.param("best = out.data[0]", id="the first output"),
    ],
)
def test_leaves_alone_what_old_torch_reads_seldom(statements: str) -> None:
    reads = [d.message for d in check(loop(statements), CODE) if "print it" in d.message]
    assert reads == []


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


def test_the_first_read_of_an_evaluation_stands_for_those_right_after_it() -> None:
    """What the others cost is their own copy, a few microseconds: in training it is told of."""
    source = """\
    import torch

    @torch.no_grad()
    def validate(model, loader, meter):
        for x, y in loader:
            out = model(x.cuda())
            meter.update(out.mean().item())
            meter.update(out.min().item())
            {}
            meter.update(out.max().item())

    def train(model, optimizer):
        optimizer.zero_grad()
    """
    (found,) = check(source.format("pass"), CODE)
    assert "`out.mean().item()`" in found.message
    _, last = check(source.format("out = model(y.cuda())"), CODE)
    assert "reading `out.max().item()` to log it waits for the GPU in every" in last.message


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        pytest.param("", 0, id="what it does by default"),
        pytest.param(", reduction='mean'", 0, id="as it is asked"),
        pytest.param(", reduction='none'", 1, id="the other way"),
        pytest.param(", reduction=args.reduction", 1, id="one of both"),
    ],
)
def test_a_function_that_waits_as_it_is_called(asked: str, count: int) -> None:
    source = f"""\
    import torch
    model = torch.nn.Linear(2, 2).cuda()

    def accuracy(y, t, reduction="mean"):
        hits = (y.argmax(1) == t).float()
        if reduction == "none":
            return hits.detach()
        elif reduction == "mean":
            return hits.mean().item()

    def validate(loader, meter, args):
        for x, t in loader:
            t = t.cuda()
            with torch.no_grad():
                y = model(x.cuda())
                loss = torch.nn.functional.cross_entropy(y, t)
                hits = accuracy(y, t{asked})
            meter.update(loss.item(), hits)

    def train(optimizer):
        optimizer.zero_grad()
    """
    found = [one for one in check(source, CODE) if "loss.item()" in one.message]
    assert len(found) == count


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


LOSSES = """\
import torch
from torch import nn

class Loss({base}):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, y, t):
        parts = []
        for one in self.functions:
            part = one["weight"] * one["function"](y, t)
            parts.append(part)
            self.seen += part.item()
        whole = sum(parts)
        self.all += whole.item()
        return whole

net = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = Loss([]).cuda()
for x in torch.randn(9, 4).cuda():
    criterion(net(x), x).backward()
    optimizer.step()
"""


def test_what_a_loss_reads_of_its_own_sum() -> None:
    found = check(LOSSES.format(base="nn.modules.loss._Loss"), CODE)
    assert [one.message for one in found] == [
        "reading `part.item()` waits for the GPU in every forward pass",
        "reading `whole.item()` waits for the GPU in every forward pass",
    ]
    assert {(one.severity, one.fix) for one in found} == {(Severity.INFO, None)}
    silent(LOSSES.format(base="object"), CODE)


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


BASE = """\
import torch

class Base:
    def log(self, loss):
        self.seen = loss.mean().item()
"""
HEIR = """\
import torch
from torch import nn
from base import Base{imported}

class Trainer({of}):
    def update(self, x):
        self.optimizer.zero_grad()
        loss = self.net(x.cuda()).sum()
        loss.backward()
        self.optimizer.step()
        self.log(loss)
{own}"""


@pytest.mark.parametrize(
    ("of", "own", "count"),
    [
        pytest.param("nn.Module", "", 0, id="it is no base of the trainer"),
        pytest.param("Base", "    def log(self, loss): pass\n", 0, id="the heir has its own"),
        pytest.param("Base", "", 1, id="inherited"),
        pytest.param("Middle", "", 1, id="by way of a third file"),
    ],
)
def test_a_step_runs_what_it_inherits_from_another_file(
    tmp_path: Path, of: str, own: str, count: int
) -> None:
    imported = "\nfrom middle import Middle" if of == "Middle" else ""
    heir = HEIR.format(imported=imported, of=of, own=own)
    middle = "from base import Base\n\nclass Middle(Base):\n    pass\n"
    files = {"base.py": BASE, "middle.py": middle, "train.py": heir}
    assert len(check_in(tmp_path, files, "base.py", CODE)) == count


# -- fixes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "print(loss.item())", "if step % 100 == 0:\n    print(loss.item())", id="a print"
        ),
        pytest.param(
            "writer.add_scalar('loss', loss, step)",
            "if step % 100 == 0:\n    writer.add_scalar('loss', loss, step)",
            id="a writer",
        ),
        pytest.param(
            "wandb.log({'loss': float(loss), 'lr': scheduler.get_last_lr()[0]})",
            "if step % 100 == 0:\n"
            "    wandb.log({'loss': float(loss), 'lr': scheduler.get_last_lr()[0]})",
            id="what else is looked at",
        ),
        pytest.param(
            "sys.stdout.write(f'{loss.item():.3f}')",
            "if step % 100 == 0:\n    sys.stdout.write(f'{loss.item():.3f}')",
            id="a stream",
        ),
        pytest.param(
            "pbar.set_postfix(loss=loss.item())\nprint(loss.item())\nfinish()",
            "if step % 100 == 0:\n    pbar.set_postfix(loss=loss.item())\n"
            "    print(loss.item())\nfinish()",
            id="two together",
        ),
        pytest.param(
            "value = loss.item()\nprint(value)",
            "if step % 100 == 0:\n    value = loss.item()\n    print(value)",
            id="with the name that it shows",
        ),
        pytest.param(
            "a, b = loss.item(), out.mean().item()\nprint(a)\nprint(step, b)",
            "if step % 100 == 0:\n    a, b = loss.item(), out.mean().item()\n"
            "    print(a)\n    print(step, b)",
            id="with two names",
        ),
        pytest.param(
            "# how it goes\nprint(\n    loss.item(),  # now\n)",
            "if step % 100 == 0:\n    # how it goes\n"
            "    print(\n        loss.item(),  # now\n    )",
            id="comments go along",
        ),
        pytest.param(
            "if x.is_cuda:\n    print(loss.item())",
            "if x.is_cuda:\n    if step % 100 == 0:\n        print(loss.item())",
            id="under a condition",
        ),
        pytest.param(
            "value = loss.item()\nprint(loss.item())\nlosses.append(value)",
            "value = loss.item()\nif step % 100 == 0:\n    print(loss.item())\n"
            "losses.append(value)",
            id="a name that something else needs stays",
        ),
    ],
)
def test_logs_now_and_then(before: str, after: str) -> None:
    assert fixed(loop(before), CODE) == loop(after)


def test_the_fix_is_unsafe_and_says_what_it_changes() -> None:
    (found,) = check(loop("print(loss.item())"), CODE)
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE
    assert found.fix.changes == "one of 100 steps is logged"


def test_the_project_chooses_how_often() -> None:
    after = fixed(loop("print(loss.item())"), CODE, preferences=Preferences(log_interval=7))
    assert "if step % 7 == 0:\n            print(loss.item())" in after


@pytest.mark.parametrize(
    ("head", "counter"),
    [
        pytest.param("for i, (x, y) in enumerate(loader):", "i", id="enumerate"),
        pytest.param("for i, (x, y) in enumerate(loader, 1):", "i", id="enumerate from 1"),
        pytest.param("for i, (x, y) in enumerate(tqdm(loader)):", "i", id="a bar inside"),
        pytest.param("for i, (x, y) in tqdm(enumerate(loader)):", "i", id="a bar outside"),
        pytest.param("for i in range(len(loader)):", "i", id="range"),
        pytest.param("for i in trange(9):", "i", id="trange"),
        pytest.param("seen = 0\n    for x, y in loader:", "seen", id="a variable"),
        pytest.param("seen = 0\n    while seen < 9:", "seen", id="a variable of a while loop"),
    ],
)
def test_what_counts_the_steps(head: str, counter: str) -> None:
    source = (
        loop("seen += 1\nprint(loss.item())") if counter == "seen" else loop("print(loss.item())")
    )
    after = fixed(source.replace("for step, (x, y) in enumerate(loader):", head), CODE)
    assert f"if {counter} % 100 == 0:\n            print(loss.item())" in after


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("for x, y in loader:", id="nothing"),
        pytest.param("for i in range(0, 999, 64):", id="a range of starts"),
        pytest.param("for i in trange(0, 999, 64):", id="a bar of starts"),
        pytest.param("for i in loader:", id="a batch is no number"),
        pytest.param("for i, (x, y) in counted(loader):", id="counted by somebody"),
        pytest.param("for i, (x, y) in loader.items():", id="a key is no number"),
        pytest.param("for i, x, y in enumerate(loader):", id="not a pair"),
        pytest.param("for i, (x, y) in enumerate(loader):\n        i = f(i)", id="changed"),
    ],
)
def test_nothing_counts_the_steps(head: str) -> None:
    source = loop("print(loss.item())")
    (found,) = check(source.replace("for step, (x, y) in enumerate(loader):", head), CODE)
    assert found.fix is None


@pytest.mark.parametrize(
    ("start", "increase"),
    [
        pytest.param("seen = start", "seen += 1", id="from a number nobody knows"),
        pytest.param("seen = 0", "seen += 2", id="in steps of two"),
        pytest.param("seen = 0", "seen += x.size(0)", id="samples are no steps"),
        pytest.param("seen = 0", "if x:\n    seen += 1", id="not in every step"),
        pytest.param("seen = 0", "seen += 1\nif x:\n    seen = 0", id="started again"),
        pytest.param("seen, rest = 0, 1", "seen += 1", id="from a pair"),
    ],
)
def test_a_variable_that_does_not_count_the_steps(start: str, increase: str) -> None:
    source = loop(f"{increase}\nprint(loss.item())").replace(
        "for step, (x, y) in enumerate(loader):", f"{start}\n    for x, y in loader:"
    )
    (found,) = check(source, CODE)
    assert found.fix is None


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("losses.append(loss.item())", id="kept"),
        pytest.param("meter.update(loss.item(), x.size(0))", id="counted"),
        pytest.param("value = out.mean().item()", id="read, for nothing that is seen"),
        pytest.param("value = loss.item()\nlosses.append(value)", id="kept by its name"),
        pytest.param("value = loss.item()\nprint(value)\nlosses.append(value)", id="also kept"),
        pytest.param("value = loss.item()\nif value > 9:\n    break", id="looked at"),
        pytest.param("value = loss.item()\nx = 1\nprint(value)", id="shown further down"),
        pytest.param("best = value = loss.item()\nprint(value)\nkeep(best)", id="one of two kept"),
        pytest.param("args.loss = loss.item()\nprint(args.loss)", id="kept in an object"),
        pytest.param("print(next(loader), loss.item())", id="takes a batch"),
        pytest.param("print(torch.rand(3), loss.item())", id="draws random numbers"),
        pytest.param("print(out.add_(1), loss.item())", id="changes a tensor"),
        pytest.param("print(reduce(x), loss.item())", id="calls what nobody knows"),
        pytest.param("print(n := loss.item())", id="binds a name"),
        pytest.param("print(loss.item()); finish()", id="shares its line"),
        pytest.param("if x.is_cuda: print(loss.item())", id="shares a line with its condition"),
        pytest.param("f = open(x)\nf.write(str(loss.item()))", id="writes a file"),
    ],
)
def test_nothing_else_may_be_left_out(statements: str) -> None:
    assert [found.fix for found in check(loop(statements), CODE)] == [None]


def test_no_fix_in_a_helper_or_a_framework() -> None:
    helper = """\
    import torch

    def report(step, loss):
        print(step, loss.item())

    def train(model, loader):
        for step, x in enumerate(loader):
            loss = model(x.cuda()).mean()
            loss.backward()
            report(step, loss)
    """
    for source in (helper, "import lightning\n" + loop("print(loss.item())")):
        (found,) = check(source, CODE)
        assert found.fix is None


# -- a loss that is computed on the host ----------------------------------------------------------

ENCODER = """
import torch
from torch import nn

class Encoder(nn.Module):
    def __init__(self, device, loss_device):
        super().__init__()
        self.loss_device = loss_device
        self.linear = nn.Linear(4, 4).to(device)
        self.weight = nn.Parameter(torch.ones(1)).to(loss_device)
        self.criterion = nn.CrossEntropyLoss().to(loss_device)

    def forward(self, x):
        return self.linear(x)

    def loss(self, embeds):
        scores = torch.zeros(len(embeds), 4).to(self.loss_device)
        scores = (scores + embeds) * self.weight
        target = torch.arange(len(embeds)).to(self.loss_device)
        hits = (scores.argmax(1) == target).sum().item()
        return self.criterion(scores, target), hits
"""
TRAINER = """
import torch
from model import Encoder

def train(loader):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loss_device = torch.device({on})
    model = Encoder(device, loss_device)
    optimizer = torch.optim.Adam(model.parameters())
    for x in loader:
        embeds = model(x.to(device))
        loss, hits = model.loss(embeds.to(loss_device))
        model.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item(), hits)
"""


def test_a_loss_on_the_device_that_the_constructor_is_told(tmp_path: Path) -> None:
    files = {"model.py": ENCODER, "train.py": TRAINER.format(on='"cpu"')}
    for name, code in (("train.py", CODE), ("model.py", CODE), ("model.py", "TL301")):
        assert check_in(tmp_path, files, name, code) == []
    files["train.py"] = TRAINER.format(on='"cuda"')
    [_] = check_in(tmp_path, files, "model.py", CODE)
    assert len(check_in(tmp_path, files, "model.py", "TL301")) == 2


def test_a_device_that_is_the_cpu_in_one_place_only(tmp_path: Path) -> None:
    other = "import torch\nfrom model import Encoder\nEncoder('cuda', torch.device('cuda'))\n"
    files = {"model.py": ENCODER, "train.py": TRAINER.format(on='"cpu"'), "other.py": other}
    [_] = check_in(tmp_path, files, "model.py", CODE)


HELPED = """\
import torch
from torch import nn
from helpers import to_cpu

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in batches:
    loss = model(x.cuda()).mean()
    loss.backward()
    optimizer.step()
    logger.show([("loss", {read})])
"""
COPIES = 'def to_cpu(x):\n    """Copy it."""\n    return x.detach().cpu()\n'


@pytest.mark.parametrize(
    ("helper", "read", "count"),
    [
        pytest.param(COPIES, "to_cpu(loss).item()", 1, id="item"),
        pytest.param(COPIES, "float(to_cpu(loss))", 1, id="float"),
        pytest.param(COPIES, "to_cpu(torch.zeros(1)).item()", 0, id="a tensor of the host"),
        pytest.param(COPIES, "to_cpu(loss.cpu()).item()", 0, id="it is on the host already"),
        pytest.param(
            "import torch\ndef to_cpu(x):\n    return torch.zeros(1)\n",
            "to_cpu(loss).item()",
            0,
            id="another tensor",
        ),
        pytest.param(
            "def to_cpu(x, y):\n    return y.cpu()\n",
            "to_cpu(loss, torch.zeros(1)).item()",
            0,
            id="another parameter",
        ),
        pytest.param(
            "import torch\ndef to_cpu(x):\n    x = torch.zeros(1)\n    return x.cpu()\n",
            "to_cpu(loss).item()",
            0,
            id="more than a copy",
        ),
    ],
)
def test_a_read_of_what_a_function_copies(
    tmp_path: Path, helper: str, read: str, count: int
) -> None:
    files = {"helpers.py": helper, "train.py": HELPED.format(read=read)}
    found = check_in(tmp_path, files, "train.py", CODE)
    assert [one.message for one in found] == [
        f"reading `{read}` waits for the GPU in every training step"
    ] * count


QUEUE = """\
import torch
from torch import nn

class Queue(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("place", {made})
        self.register_buffer("rows", torch.randn(size, 4))

    def forward(self, x):
        place = int(self.place)
        self.rows[place] = x.mean(0)
        return x @ self.rows.T

model = Queue(9).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in batches:
    loss = model(x.cuda()).mean()
    loss.backward()
    optimizer.step()
"""


def test_a_buffer_that_each_pass_reads() -> None:
    (found,) = check(QUEUE.format(made="torch.zeros(1, dtype=torch.long)"), CODE)
    assert found.message == "reading `int(self.place)` waits for the GPU in every forward pass"
    assert "Python attribute" in found.help
    silent(QUEUE.format(made="made(size)"), CODE)


SCORES = """\
import torch
from torch import nn

class Scores(nn.Module):
    def __init__(self, size, margin):
        super().__init__()
        self.margin = {made}
        self.rows = nn.Parameter(torch.randn(size, 4))

    def forward(self, x, kind):
        scores = {{"near": self.near, "far": self.far}}
        return scores[kind](x)

    def near(self, x):
        return self.margin.item() - (x @ self.rows.T).norm(dim=1)

    def far(self, x):
        return x @ self.rows.T

    @staticmethod
    def train_step(model, optimizer, x, args):
        optimizer.zero_grad()
        loss = model(x.cuda(), args.kind).mean()
        if {test}:
            decay = {weight} * model.rows.norm()
            loss = loss + decay
            logs = {{"decay": {logged}}}
        else:
            logs = {{}}
        loss.backward()
        optimizer.step()
        return logs
"""
STEPS = """
net = Scores(9, 1.0)
net.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in batches:
    net.train_step(net, optimizer, x, args)
"""
PARAMETER = "nn.Parameter(torch.Tensor([margin]), requires_grad=False)"
OPTION = {"test": "args.decay != 0.0", "weight": "args.decay", "logged": "None"}


def test_a_parameter_that_each_pass_reads() -> None:
    """Its module moves it; the step that runs the pass stands beside it, for others to call."""
    (found,) = check(SCORES.format(made=PARAMETER, **OPTION), CODE)
    assert found.message == "reading `self.margin.item()` waits for the GPU in every forward pass"
    silent(SCORES.format(made="torch.Tensor([margin])", **OPTION), CODE)


def test_a_parameter_of_a_model_that_nobody_trains() -> None:
    source = SCORES.format(made=PARAMETER, **OPTION)
    silent(source.replace("loss.backward()", "pass").replace("optimizer.step()", "pass"), CODE)


def test_a_parameter_of_a_model_that_stays_on_the_host() -> None:
    source = """\
    import torch
    from torch import nn

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

    def train(other, optimizer, loader):
        scale = Scale()
        for x in loader:
            loss = other(x.cuda()).mean()
            loss.backward()
            optimizer.step()
            print(scale{}.scale.item())
    """
    silent(source.format(""), CODE)
    assert len(check(source.format(".cuda()"), CODE)) == 1


@pytest.mark.parametrize("test", ["args.decay != 0.0", "args.decay > 0", "args.decay"])
def test_a_term_of_the_loss_that_an_option_weighs(test: str) -> None:
    option = {"test": test, "weight": "args.decay", "logged": "decay.item()"}
    (found,) = check(SCORES.format(made="margin", **option) + STEPS, CODE)
    assert found.message == "reading `decay.item()` waits for the GPU in every training step"


@pytest.mark.parametrize(
    ("test", "weight"),
    [
        pytest.param("args.log_decay", "args.log_decay", id="an option about logs"),
        pytest.param("args.other", "args.decay", id="another option"),
        pytest.param("args.decay == 1", "args.decay", id="one value"),
        pytest.param("step % 9 == 0", "args.decay", id="every n steps"),
    ],
)
def test_a_term_of_the_loss_that_is_asked_for_otherwise(test: str, weight: str) -> None:
    option = {"test": test, "weight": weight, "logged": "decay.item()"}
    silent(SCORES.format(made="margin", **option) + STEPS, CODE)


def test_a_weight_of_what_is_not_added_to_the_loss() -> None:
    option = {"test": "args.decay", "weight": "args.decay", "logged": "decay.item()"}
    source = SCORES.format(made="margin", **option) + STEPS
    silent(source.replace("loss = loss + decay", "other = loss + decay"), CODE)


def test_an_assertion_in_a_loop_without_gradients_is_a_test() -> None:
    source = """\
    import torch

    model = torch.nn.Linear(4, 4).cuda()
    with torch.no_grad():
        for x in batches:
            y = model(x.cuda())
            {}
    """
    silent(source.format("assert (y - 1).norm().item() < 1e-5"), CODE)
    (found,) = check(source.format("gaps.append((y - 1).norm().item())"), CODE)
    assert found.severity.word == "info"


GENERATOR = """\
import torch

@torch.no_grad()
def {name}(model, ids, stop):
    model = model.cuda()
    ids = ids.cuda()
    for step in range(99):
        token = model(ids).argmax(-1)
        number = token.item()
        {line}
"""


@pytest.mark.parametrize(
    ("name", "line", "count"),
    [
        pytest.param("generate", "found.append(number)", 1, id="kept"),
        pytest.param("generate", "found.append(number); yield token", 1, id="another is yielded"),
        pytest.param("score", "ids = torch.tensor([number]).cuda()", 0, id="by whatever name"),
        pytest.param("score", "yield number", 0, id="yielded"),
        pytest.param(
            "score", "found = [stop]; found.append(number); yield found", 0, id="yielded in a list"
        ),
        pytest.param("generate", "ids = torch.tensor([number]).cuda()", 0, id="the next input"),
    ],
)
def test_what_a_generator_hands_on(name: str, line: str, count: int) -> None:
    assert len(check(GENERATOR.format(name=name, line=line), CODE)) == count


STOPS = """\
import torch
import torch.distributed as dist

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in batches:
    flag = torch.tensor(done(x), device="cuda")
    {first}
    last = bool(flag.item())
    {then}
    loss = model(x.cuda()).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "then", "severity"),
    [
        pytest.param("flag += 1", "if last: break", "warning", id="of one process"),
        pytest.param("dist.all_reduce(x)", "if last: break", "warning", id="something else"),
        pytest.param("dist.all_reduce(flag)", "show(last)", "warning", id="stops nothing"),
        pytest.param("dist.all_reduce(flag)", "if last: show(last)", "warning", id="goes on"),
        pytest.param("dist.all_reduce(flag)", "if last: break", "info", id="stops all"),
    ],
)
def test_a_flag_that_stops_all_processes(first: str, then: str, severity: str) -> None:
    (found,) = check(STOPS.format(first=first, then=then), CODE)
    assert found.severity.word == severity


COMPUTE = """\
import torch

class Compute:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __call__(self, loss):
        loss = loss.cuda().mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()
"""


@pytest.mark.parametrize(
    ("script", "severity"),
    [
        pytest.param("from compute import Compute\n", "warning", id="imported"),
        pytest.param("import compute\nx = compute.Compute\n", "warning", id="by its module"),
        pytest.param("import compute\nx = getattr(compute, 'Compute')\n", "warning", id="by text"),
        pytest.param("from compute import Computer\n", "info", id="another class"),
    ],
)
def test_a_class_that_nothing_uses(tmp_path: Path, script: str, severity: str) -> None:
    start = "if __name__ == '__main__':\n    print(1)\n"
    files = {"compute.py": COMPUTE, "train.py": script + start, "pyproject.toml": "[project]\n"}
    (found,) = check_in(tmp_path, files, "compute.py", CODE)
    assert found.severity.word == severity


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        pytest.param("", "warning", id="a library"),
        pytest.param(
            "__all__ = ['Compute']\nif __name__ == '__main__': pass\n", "warning", id="all"
        ),
        pytest.param("if __name__ == '__main__': main(Compute)\n", "warning", id="made here"),
        pytest.param("if __name__ == '__main__': pass\n", "info", id="a script without it"),
    ],
)
def test_a_class_that_its_own_file_does_not_use(text: str, severity: str) -> None:
    (found,) = check(COMPUTE + text, CODE)
    assert found.severity.word == severity


DEMO = """\
import torch
{head}
class Loss(torch.nn.Module):
    def forward(self, x):
        return x.mean()

if __name__ == "__main__":
    torch.cuda.manual_seed(1) if torch.cuda.is_available() else None
    model, loss = torch.nn.Linear(4, 4){moved}, Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        out = loss(model(torch.rand(3, 4)))
        print(out)
        out.backward()
        optimizer.step()
"""
MAIN = "import torch\nfrom demo import Loss\nloss = Loss().cuda()\n"


@pytest.mark.parametrize(
    ("head", "moved", "count"),
    [
        pytest.param("", ".cuda()", 1, id="a model on a GPU"),
        pytest.param("from parts import put\n", "", 1, id="another file may put it there"),
        pytest.param("", "", 0, id="all on the host"),
    ],
)
def test_a_demo_that_stays_on_the_host(tmp_path: Path, head: str, moved: str, count: int) -> None:
    demo = DEMO.format(head=head, moved=moved)
    files = {"demo.py": demo, "main.py": MAIN, "parts.py": "def put(x):\n    return x.cuda()\n"}
    assert len(check_in(tmp_path, files, "demo.py", CODE)) == count


DECODES = """\
import torch

@torch.no_grad()
def answer(model, ids, stop, words):
    model = model.cuda()
    token = model(ids.cuda()).argmax(-1)
    found = [token.item()]
    for step in range(99):
        {line}
        scores = model(token)
        token = scores.argmax(-1)
        {kept}
"""


@pytest.mark.parametrize(
    ("line", "kept", "count"),
    [
        pytest.param("pass", "found.append(token.item())", 0, id="the next input"),
        pytest.param("if token.item() == stop: break", "pass", 0, id="decides the end"),
        pytest.param("if scores.max().item() == stop: break", "pass", 0, id="another decides"),
        pytest.param(
            "pass", "gap = scores.norm(); found.append(gap.item())", 1, id="not of the next input"
        ),
        pytest.param(
            "pass", "gap = scores.norm(); found.append(gap.item() > 2)", 1, id="decides no end"
        ),
    ],
)
def test_decoding_needs_each_token(line: str, kept: str, count: int) -> None:
    assert len(check(DECODES.format(line=line, kept=kept), CODE)) == count


def test_a_chain_of_model_runs_for_each_read() -> None:
    source = """\
    import torch

    @torch.no_grad()
    def evaluate(model, loader):
        model = model.cuda()
        for x in loader:
            y = {}
            gaps.append((y - 1).norm().item())
            print("done")
    """
    silent(source.format("model.generate(x.cuda()).cuda()"), CODE)
    silent(source.format("sample_loop(model, x.shape).cuda()"), CODE)
    assert check(source.format("model(x.cuda())"), CODE)
    assert check(source.format("model(model.generate(x.cuda()))"), CODE)
    assert check(source.format("model(sample_one(loader).cuda())"), CODE)


@pytest.mark.parametrize("clock", ["", "; t = time.time()"], ids=["needless", "for a clock"])
def test_a_wait_before_a_read_that_is_reported_itself(clock) -> None:
    [found] = check(loop(f"torch.cuda.synchronize(){clock}\nlosses.append(loss.item())"), CODE)
    assert found.severity.word == "info"  # that wait is reported itself
    assert "as `torch.cuda.synchronize()` has just waited" in found.message


def test_a_wait_that_has_to_stay_before_a_read() -> None:
    ordered = "torch.distributed.send(loss, 1)\ntorch.cuda.synchronize()\n"
    silent(loop(f"{ordered}losses.append(loss.item())"), CODE)
    [found] = check(loop("if loss > 9:\n    pass\nlosses.append(loss.item())"), CODE)
    assert found.severity.word == "info"
    assert "as `loss > 9` has just waited" in found.message


STEPPED = """\
import math
import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def update(loss):
    loss.backward()
    optimizer.step()

for x in batches:
    loss = model(x.cuda()).mean()
{}
"""


def stepped(lines: str) -> str:
    return STEPPED.format(textwrap.indent(lines, "    "))


@pytest.mark.parametrize(
    "lines",
    [
        "loss.backward()\nif torch.isfinite(loss).item():\n    optimizer.step()",
        "if not math.isnan(loss) and loss.item() < 9:\n    update(loss)",
        "loss.backward()\nfine = torch.isfinite(loss).item()\nif fine:\n    optimizer.step()",
        "if loss.isnan().item():\n    x = 0\nelse:\n    update(loss)",
        "if x is None:\n    x = 0\nelif loss.isnan().item():\n    x = 1\nelse:\n    update(loss)",
        "if loss.item() > 9:\n    print('left out')\n    continue\nupdate(loss)",
        "if loss.item() > 9:\n    continue\nlosses.append(loss.item())\nupdate(loss)",
        "if not loss.isfinite():\n    continue\nlosses.append(loss.item())\nupdate(loss)",
        "losses.append(loss.item())\nif loss.item() < 9:\n    update(loss)",
    ],
)
def test_a_read_that_decides_whether_the_step_is_taken(lines: str) -> None:
    silent(stepped(lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("loss.backward()\nif loss.item() < 9:\n    optimizer.step()", id="went back"),
        pytest.param(
            "loss.backward()\nif loss.item() > 9:\n    continue\noptimizer.step()", id="goes on"
        ),
        pytest.param(
            "norm = x.cuda().norm()\nif norm.item() < 9:\n    loss.backward()\noptimizer.step()",
            id="not what goes back",
        ),
        pytest.param(
            "update(loss)\nif loss.item() < 9:\n    (model(x.cuda()).mean()).backward()",
            id="another pass",
        ),
        pytest.param(
            "if model(x.cuda()).mean().item() < 9:\n    model(x.cuda()).sum().backward()",
            id="of the same model",
        ),
        pytest.param(
            "if step and last.item() > 9:\n    continue\nlast = loss\nlast.backward()",
            id="of the step before",
        ),
    ],
)
def test_a_read_that_decides_but_holds_no_backward_pass_of_it_back(lines: str) -> None:
    silent(stepped(lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        "if loss.item() < 9:\n    loss.backward()\n    optimizer.step()",
        "if math.isfinite(loss.data.item()):\n    (loss / 4).backward()\noptimizer.step()",
        "if not torch.isfinite(loss).item():\n    continue\nscaler.scale(loss).backward()",
        "small = loss.item()\nif small > 9:\n    pass\nelse:\n    update(x)\n    loss.backward()",
    ],
)
def test_a_read_that_holds_the_backward_pass_back(lines: str) -> None:
    [found] = check(stepped(lines), CODE)
    assert (found.severity, found.fix) == (Severity.INFO, None)
    assert found.message.endswith("in every training step, before the backward pass is queued")
    assert found.help.startswith("call `backward()` first")


MOVED = "sizes = sizes.cuda()\nif wanted: sizes = sizes.to('cuda')\n"
SKIPS = "if sizes[-1].item() == 0:\n    continue\nupdate(loss)"
COUNTS = "update(loss)\nprint(int(sum(sizes)))"


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param(MOVED + SKIPS, 1, id="decides, but is known before the copy"),
        pytest.param(
            "sizes = torch.tensor(sizes)\nsizes = sizes.cuda()\n"
            "if sizes[-1].item() == 0:\n    continue\n(loss * sizes).sum().backward()",
            1,
            id="decides on what goes back, but is known before the copy",
        ),
        pytest.param(MOVED + COUNTS, 1, id="int() of a sum"),
        pytest.param(COUNTS, 0, id="int() of what stays on the host"),
        pytest.param("sizes = model(sizes).cuda()\n" + SKIPS, 0, id="the model gives it"),
        pytest.param("sizes = loss.cuda()\n" + SKIPS, 0, id="it was there before"),
        pytest.param("sizes = find(x).cuda()\n" + COUNTS, 0, id="nobody knows what it was"),
        pytest.param("sizes = sizes.to('cpu')\n" + COUNTS, 0, id="to the host"),
        pytest.param(MOVED + "if y: sizes = find(y)\n" + COUNTS, 0, id="may be another"),
    ],
)
def test_a_read_of_what_the_step_has_copied_to_the_gpu(lines: str, count: int) -> None:
    found = check(stepped(lines).replace("for x in batches", "for x, sizes in batches"), CODE)
    assert [one.severity for one in found] == [Severity.WARNING] * count
    assert all("before it is copied" in one.help for one in found)


@pytest.mark.parametrize(
    "lines",
    [
        "update(loss)\nif loss.item() > 9:\n    print('large')",
        "update(loss)\nif loss.item() > 9:\n    continue\nprint('small')",
        "if math.isnan(loss.item()):\n    raise ValueError\nupdate(loss)",
        "if loss.item() < 0.1:\n    break\nupdate(loss)",
        "if loss.item() > 9:\n    for _ in x:\n        continue\nupdate(loss)",
        "if loss.item() > 9:\n    x = 3\nupdate(loss)",
        "update(loss)\nfine = loss.item()\nprint(fine) if fine else update(loss)",
    ],
)
def test_a_read_that_decides_something_else(lines: str) -> None:
    [found] = check(stepped(lines), CODE)
    assert found.severity.word == "warning"


@pytest.mark.parametrize(
    ("done", "count"),
    [("loss.backward(); optimizer.step()", 0), ("print(loss.shape)", 1)],
)
def test_a_read_that_decides_whether_another_file_takes_the_step(
    done: str, count: int, tmp_path: Path
) -> None:
    script = "from steps import update\n" + stepped(
        "if loss.item() < 9:\n    update(loss, optimizer)\nloss.backward()"
    ).replace("def update(", "def own(")
    files = {"steps.py": f"def update(loss, optimizer):\n    {done}\n", "main.py": script}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == count


FITTED = """
import torch
image = torch.rand(1, 3, 9, 9, device="cuda", requires_grad=True)
optimizer = torch.optim.Adam([image])
error = criterion(image).item()
while {}:
    loss = criterion(image)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    error = -loss.item()
"""


@pytest.mark.parametrize("test", ["error > 0.1", "not done() and abs(error) > 0.1"])
def test_a_read_that_decides_whether_the_loop_goes_on(test: str) -> None:
    silent(FITTED.format(test), CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(FITTED.format("not done()"), id="another decides"),
        pytest.param(FITTED.format("not done()") + "while error > 1:\n    error /= 2\n",
                     id="a loop after it"),
    ],
)  # fmt: skip
def test_a_read_that_does_not_decide_whether_the_loop_goes_on(source: str) -> None:
    [found] = check(source, CODE)
    assert found.severity.word == "warning"


def test_a_read_after_the_step_that_another_has_let_be_taken() -> None:
    lines = "loss.backward()\nif loss.item() < 9:\n    optimizer.step()\nlosses.append(loss.item())"
    [found] = check(stepped(lines), CODE)
    assert (found.location.row, found.severity.word) == (16, "warning")


@pytest.mark.parametrize(
    ("first", "last", "rows"),
    [
        pytest.param("if loss.item() > 9: return", "optimizer.step()", [], id="the step"),
        pytest.param("if loss.item() > 9: return", "loss.backward()", [7], id="the pass back"),
        pytest.param("loss.backward()", "if loss.item() > 9: return", [9], id="nothing else"),
        pytest.param("loss.backward()", "if loss.item() > 9: print()", [9], id="goes on"),
    ],
)
def test_a_return_that_ends_the_step(first: str, last: str, rows: list[int]) -> None:
    source = f"""\
    import torch
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def training_step(x):
        loss = model(x.cuda()).mean()
        {first}
        optimizer.zero_grad()
        {last}
        print("done")
    """
    assert [found.location.row for found in check(source, CODE)] == rows


def test_a_step_that_is_timed_by_who_calls_it() -> None:
    source = """\
    import torch

    def timed(step, wait=True):
        result = step()
        if wait:
            {}
        return result

    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in range(9):
        def step():
            loss = model(torch.rand(4, 4).cuda()).mean()
            loss.backward()
            optimizer.step()
            return float(loss)
        timed(step)
    """
    [found] = check(source.format("torch.cuda.synchronize()"), CODE)
    assert (found.severity.word, "so does `timed(step)`" in found.message) == ("info", True)
    [found] = check(source.format("pass"), CODE)
    assert found.severity.word == "warning"


def test_the_arms_of_a_choice_exclude_each_other() -> None:
    [found] = check(loop("kept = loss.item() if last else 2 * loss.item()"), CODE)
    assert "more" not in found.message
    [found] = check(loop("kept = loss.item(), 2 * out.mean().item()"), CODE)
    assert "and 1 more" in found.message


def test_a_copy_that_has_to_stay_after_a_read() -> None:
    source = """\
    import torch

    @torch.no_grad()
    def evaluate(model, loader):
        model = model.cuda()
        for x in loader:
            y = model(x.cuda()).abs()
            gaps.append(y.norm().item())
            {}
    """
    silent(source.format("save(y.cpu())"), CODE)
    silent(source.format("save(y.sigmoid().softmax(1).cpu())"), CODE)
    silent(source.format("p = y.log_softmax(1).cpu(); kept.append(p[p > 2])"), CODE)
    assert check(source.format("p = y.softmax(1).cpu(); kept.append(p)"), CODE)
    assert check(source.format("z = model(y); save(y.cpu())"), CODE)
    assert check(source.format("save(model(y).softmax(1).cpu())"), CODE)
    assert check(source.format("kept.append(y.cpu())"), CODE)


def test_a_read_that_must_come_after_another() -> None:
    source = """\
    import torch

    @torch.no_grad()
    def evaluate(model, loader, gaps, log):
        model = model.cuda()
        for x in loader:
            y = model(x.cuda()).abs()
            gaps.append(y.norm().item())
            {}
    """
    silent(source.format("print(y.max().item())"), CODE)
    silent(source.format("log.write(str(y.max().item()))"), CODE)
    for rest in ("gaps.append(y.max().item())", "z = model(x.cuda()); print(z.max().item())"):
        found = check(source.format(rest), CODE)
        assert [one.severity.word for one in found][:1] == ["info"], rest


CALLED = """\
import torch

def share(y):
    y = y.abs()
    return y.mean().item()

def part(y):
    return y.mean().item()

def parts(y):
    return [part(y)]

def twice(y):
    for _ in range(2):
        top = y.mean().item()
        model(y)
    return top

def after_work(y):
    return model(y).mean().item()

@torch.no_grad()
def evaluate(loader, gaps):
    for x in loader:
        y = model(x.cuda())
        {}

model = torch.nn.Linear(3, 3).cuda()
"""


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        pytest.param("gaps.append(share(y))", [5], id="no wait before it"),
        pytest.param("gaps.append(y.max().item()); gaps.append(share(y))", [5, 26],
                     id="a wait that may go"),
        pytest.param("print(y.max().item()); z = model(x.cuda()); gaps.append(share(z))", [5],
                     id="work in between"),
        pytest.param("print(y.max().item()); gaps.append(share(model(x.cuda())))", [5],
                     id="work for the call"),
        pytest.param("gaps.append(share(y)); print(y.max().item()); gaps.append(share(y))", [5],
                     id="one call of two"),
        pytest.param("if step: print(y.max().item())\n        gaps.append(share(y))", [5],
                     id="perhaps"),
        pytest.param("print(y.max().item()); gaps.append(twice(y))", [15], id="in turns"),
        pytest.param("print(y.max().item()); gaps.append(after_work(y))", [20], id="after work"),
        pytest.param("print(y.max().item()); gaps.append(share(y))", [], id="a wait that stays"),
        pytest.param("print(y.max().item()); gaps.append(parts(y))", [], id="through another"),
        pytest.param("print(y.max().item()); gaps.append(share(y.exp()))", [], id="little work"),
    ],
)  # fmt: skip
def test_a_function_that_is_called_right_after_a_wait(lines: str, rows: list[int]) -> None:
    assert [found.location.row for found in check(CALLED.format(lines), CODE)] == rows


def test_a_copy_that_has_to_stay_after_a_read_by_which_it_is_scaled() -> None:
    source = """\
    import torch

    def write(y, w):
        y = {}
        save(y.cpu())

    @torch.no_grad()
    def evaluate(model, loader):
        model = model.cuda()
        for x in loader:
            write(model(x.cuda()), model.weight)
    """
    silent(source.format("y / max(y.abs().max().item(), 1)"), CODE)
    assert check(source.format("y @ (w / max(y.abs().max().item(), 1))"), CODE)


METERS = """\
import torch

@torch.no_grad()
def evaluate(model, loader, meters, found, total, names, config):
    model = model.cuda()
    for step, x in enumerate(loader):
        y = model(x.cuda()).mean()
        {}
    return total
"""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("print(y.item())", id="printed"),
        pytest.param("print(y)", id="printed as it is"),
        pytest.param("gap = y.item(); writer.add_scalar('gap', gap, step)", id="logged"),
        pytest.param("found.append(f'{y.item():.2f}')", id="text"),
        pytest.param("found.append(decode(y.item()))", id="given to nobody knows whom"),
        pytest.param("found.append(names[int(y)])", id="looked up"),
        pytest.param("few = []; few.append(y.item()); show(few)", id="a list of the turn"),
        pytest.param("if y.item() > 2: total += 1", id="decides"),
        pytest.param("x = x * y.item()", id="computed with"),
        pytest.param("for k in range(int(y)): total += 1", id="turns"),
        pytest.param("total = total + y.item(); print(f'{total / step}')", id="a printed total"),
        pytest.param("total += float(y); bar.set_postfix(all=total)", id="one in a progress bar"),
        pytest.param("self.n = self.n + y.item(); print(self.n)", id="one that is kept"),
    ],
)
def test_an_evaluation_needs_what_it_does_not_collect(line: str) -> None:
    silent(METERS.format(line), CODE)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("found.append(y.item())", id="a list"),
        pytest.param("found['y'].append((step, y.item()))", id="a list in a dict"),
        pytest.param("found[step] = y.item()", id="an array"),
        pytest.param("found += [y.item()]", id="a longer list"),
        pytest.param("total = max(total, y.item())", id="the largest"),
        pytest.param("gap = y.item(); half = gap / 2; found.append(half)", id="by a name"),
        pytest.param(
            "total = max(total, y.item())\n        if step % 9 == 0: print(total)",
            id="a total that is printed now and then",
        ),
        pytest.param("total = max(total, y.item()); print(step)", id="beside what is printed"),
        pytest.param("few = []; few.append(y.item()); found.extend(few)", id="by a list"),
        pytest.param("meters.update(loss=y.item())", id="a meter"),
        pytest.param("meters['y'].update(y.item(), len(x))", id="a meter of many"),
    ],
)
def test_an_evaluation_that_collects(line: str) -> None:
    (found,) = check(METERS.format(line), CODE)
    assert found.severity.word == "info"


PROGRESS = """\
import sys

def show(step, text):
    parts = [str(step), text]
    {}
"""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("sys.stdout.write(' '.join(parts))", True),
        ("return ' '.join(parts)", False),
        ("def later():\n        sys.stdout.write(' '.join(parts))", False),
    ],
)
def test_a_total_that_a_function_of_the_project_shows(
    tmp_path: Path, line: str, *, shown: bool
) -> None:
    main = "from progress import show\n" + METERS.format(
        "total = total + y.item(); show(step, f'{total / step}')"
    )
    files = {"progress.py": PROGRESS.format(line), "main.py": main}
    assert (not check_in(tmp_path, files, "main.py", CODE)) is shown


def test_what_an_evaluation_reads_sample_by_sample_it_waits_for() -> None:
    lines = "best = model(x.cuda()).argmax(1); found.append(y.item())"
    loop = "\n        for i in range(len(x)):\n            "
    assert check(METERS.format(lines), CODE)
    silent(METERS.format(lines + loop + "print(names[best[i].item()])"), CODE)
    assert check(METERS.format(lines + loop + "found.append(best[i].item())"), CODE)


def test_what_an_evaluation_collects_of_a_function() -> None:
    source = """\
    import torch

    def gap_of(y):
        return y.abs().mean().item()

    @torch.no_grad()
    def evaluate(model, loader, gaps):
        model = model.cuda()
        for x in loader:
            {}
    """
    assert len(check(source.format("gaps.append(gap_of(model(x.cuda())))"), CODE)) == 1
    silent(source.format("print(gap_of(model(x.cuda())))"), CODE)


def test_a_branch_for_certain_values_of_what_it_reads() -> None:
    source = "if {}:\n    book.add(loss.item())"
    for test in ("loss.item() < 0.0", "x and loss.item() < -1"):
        (found,) = check(loop(source.format(test)), CODE)
        assert found.location.row == 19
    found = check(loop(source.format("out.sum().item() < 0.0")), CODE)
    assert [one.location.row for one in found] == [19, 20]


def test_a_mask_whose_values_are_only_summed_need_not_be_counted() -> None:
    (finding,) = check(
        loop("hits = (out.argmax(1) == y).masked_select(y.ne(0)).sum().item()"), CODE
    )
    assert finding.severity is Severity.INFO
    assert "waits for its own copy alone" in finding.message


def test_what_a_mask_selects_is_counted_for_all_else() -> None:
    silent(loop("hits = (out.argmax(1) == y).masked_select(y.ne(0)).tolist()[0]"), CODE)
    silent(loop("hits = out.masked_select(out > 0).max().item()"), CODE)


MEANS = "{made}\nmeans[name] = (means[name] * step + loss) / (step + 1)\ntext = '%g' % means['a']"


@pytest.mark.parametrize("made", ["means = defaultdict(float)", "means = {}"])
def test_entries_of_a_dictionary_that_starts_empty(made: str) -> None:
    source = "from collections import defaultdict\n" + loop(MEANS.format(made=made))
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == "means['a']"
    silent(source.replace(" + loss)", " + loss.shape[0])"), CODE)
    silent(source.replace("means[name] =", "means['b'] ="), CODE)
    silent(source.replace("text", "means.update(other)\n        text"), CODE)
    silent(source.replace("text", "fill(means)\n        text"), CODE)
    silent(source.replace("text", "means = other\n        text"), CODE)


NORM = """
import torch

def train(loader):
    model = torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()
        total = 0.0
        {use}
"""
PARAMETERS = "for p in model.parameters(): total"


@pytest.mark.parametrize(
    ("use", "adds"),
    [
        pytest.param(
            f"{PARAMETERS} += p.grad.norm().item()\n        print(total)", True, id="in a loop"
        ),
        pytest.param(
            f"{PARAMETERS} = total + p.grad.norm().item()\n        print(total)",
            True,
            id="spelled out",
        ),
        pytest.param(
            f"{PARAMETERS} += p.grad.norm().item(); print(total)", False, id="read in each turn"
        ),
        pytest.param("total += x.sum().cuda().item(); print(total)", False, id="in no loop"),
    ],
)
def test_a_total_of_one_step_is_read_after_its_own_loop(use: str, adds: bool) -> None:
    (found,) = check(NORM.format(use=use), CODE)
    assert ("add up `total` on the device" in found.help) == adds


DICTIONARY = """\
import torch
from torch import nn

class Losses(nn.Module):
    def forward(self, out, y):
        losses = {"first": torch.mean(out - y)}
        losses["second"] = torch.sum(out)
        LINE
        return losses["first"] + losses["second"], losses
"""
GONE_THROUGH = """\
import torch
from losses import Losses

model = torch.nn.Linear(4, 1).cuda()
criterion = Losses()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches:
    loss, losses = criterion(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    for name, value in losses.items():
        print(f"{name} {value:.4f}")
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param("pass", 1, id="of losses"),
        pytest.param("losses['third'] = loss.item()", 0, id="of which one is a number"),
        pytest.param("losses['third'] = weigh(out)", 0, id="of which one may be anything"),
        pytest.param("fill(losses)", 0, id="that another may fill"),
    ],
)
def test_a_dictionary_that_a_module_of_another_file_returns(tmp_path, line, found):
    files = {"losses.py": DICTIONARY.replace("LINE", line), "train.py": GONE_THROUGH}
    assert len(check_in(tmp_path, files, "train.py", CODE)) == found


def test_a_number_that_the_gpu_has_counted() -> None:
    [found] = check(loop("z = torch.arange(torch.max(y), device=device)"), CODE)
    assert (
        found.message
        == "reading `torch.max(y)` as a number waits for the GPU in every training step"
    )
    assert found.help is not None
    assert found.help.startswith("hand the number on from where the host knows it")
    assert found.fix is None
    silent(loop("if step % 9 == 0:\n    z = torch.arange(torch.max(y), device=device)"), CODE)
    silent(loop("z = torch.arange(y.size(0), device=device)"), CODE)


def test_tensors_in_a_list_that_one_is_made_of() -> None:
    [found] = check(loop("z = torch.tensor([loss, loss.abs(), 1.0])"), CODE)
    assert found.message == "reading `loss` and 1 more waits for the GPU in every training step"
    assert found.help == "`torch.stack([...])` makes one tensor of them on the device"
    assert found.fix is None
    silent(loop("if step % 9 == 0:\n    z = torch.tensor([loss])"), CODE)
    silent(loop("z = torch.tensor([1.0, y.size(0), unknown(y)])"), CODE)
    silent(loop("z = torch.stack([loss, loss])"), CODE)


ATTACK = """
import torch
from torch import nn

class Attacker(nn.Module):
    def forward(self, x, y, *_, steps, progress=False):
        def find(x):
            turns = range(steps)
            for _ in turns:
                x = x.cuda().requires_grad_()
                loss = nn.functional.cross_entropy(self.model(x), y)
                grad, = torch.autograd.grad(loss, [x])
                x = x + grad
                if progress: turns.set_description("loss: {l}".format(l=loss))
            return x
        return find(x)

class Attacked(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.attack = model, Attacker()

    def forward(self, x, y, **options):
        return self.model(self.attack(x, y, **options))
"""
ROBUST = """
import torch
from attack import Attacked
from load import load

def train(net, loader):
    model, options = Attacked(net).cuda(), {OPTIONS}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in load(loader, progress=True):
        loss = torch.nn.functional.cross_entropy(model(x, y, **options), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("options", "count"),
    [('{"steps": 9}', 0), ('{"steps": 9, "progress": True}', 1), ("dict(progress=True)", 1)],
)
def test_a_parameter_that_nothing_in_the_project_gives(
    tmp_path: Path, options: str, count: int
) -> None:
    loads = "def load(loader, progress=False):\n    return loader\n"
    files = {"attack.py": ATTACK, "load.py": loads}
    files["train.py"] = ROBUST.replace("{OPTIONS}", options)
    assert len(check_in(tmp_path, files, "attack.py", CODE)) == count


@pytest.mark.parametrize(
    ("required", "count"), [("torch==1.4.0", 0), ("torch>=1.0", 1), ("torch==1.5", 1)]
)
def test_the_norm_of_gradients_is_a_number_below_torch_1_5(
    tmp_path: Path, required: str, count: int
) -> None:
    main = HEAD + (
        "    for step, (x, y) in enumerate(loader):\n"
        "        criterion(model(x.to(device)), y.to(device)).backward()\n"
        "        norm = nn.utils.clip_grad_norm_(model.parameters(), 1)\n"
        "        print(f'{norm:.3f}')\n"
        "        optimizer.step()\n"
    )
    files = {"requirements.txt": required, "README.md": "", "main.py": main}
    version = required.partition("==")[2] or None
    assert len(check_in(tmp_path, files, "main.py", CODE, version)) == count


@pytest.mark.parametrize(
    ("device", "count"), [("torch.device('cpu')", 0), ("torch.device('cuda')", 1), ("other", 1)]
)
def test_what_is_looked_up_after_all_results_were_copied(device: str, count: int) -> None:
    source = f"""\
    import torch

    @torch.no_grad()
    def evaluate(model, loader, meter, other):
        model = model.cuda()
        place = {device}
        for images, targets in loader:
            targets = [{{k: v.cuda() for k, v in t.items()}} for t in targets]
            outputs = model(images.cuda())
            outputs = [{{k: v.to(place) for k, v in t.items()}} for t in outputs]
            found = {{t["id"].item(): out for t, out in zip(targets, outputs)}}
            meter.update(found)
    """
    assert len(check(source, CODE)) == count


@pytest.mark.parametrize(
    ("after", "count"),
    [
        ("mask = mask.cuda()", 0),
        ("x, mask = to_cuda(x, mask)", 0),
        ("if deep:\n            mask = mask.cuda()", 1),
        ("other = mask.cuda()", 1),
        ("x, mask = sort(x, mask)", 1),
        ("mask = x; mask = mask.cuda()", 1),
    ],
)
def test_what_is_moved_next_is_on_the_host(after: str, count: int) -> None:
    source = HEAD + (
        "    for x, y in loader:\n"
        "        mask = torch.ones(9, device=y.device) > 0\n"
        "        losses.append(mask.sum().item())\n"
        f"        {after}\n"
        "        criterion(model(x.to(device)), y.to(device)).backward()\n"
        "        optimizer.step()\n"
    )
    assert len(check(source, CODE)) == count
