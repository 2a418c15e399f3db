from __future__ import annotations

import textwrap

import pytest
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.preferences import Preferences

CODE = "TL202"

HEAD = """\
import sys, time
import numpy as np
import torch
import wandb
from tqdm import tqdm, trange
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
losses = []


def train(loader, args, writer, rank, last):
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
        pytest.param("if step == 0:\n    print(loss.item())", id="the first step"),
        pytest.param("print(loss.item() if step % 10 == 0 else '')", id="a guarded expression"),
        pytest.param(
            "if bad:\n    print(loss.item())\n    raise SystemExit(1)", id="leaves the loop"
        ),
        pytest.param(
            "try:\n    pass\nexcept ValueError:\n    print(loss.item())", id="an error handler"
        ),
        pytest.param("if device == 'cpu':\n    print(loss.item())", id="a branch for the CPU"),
        pytest.param("print(x.shape, len(x), out.size(0), out.device)", id="shapes and the like"),
        pytest.param("print(step, 'done')", id="numbers and strings"),
        pytest.param("torch.log(out)", id="the logarithm is no logger"),
        pytest.param("writer.add_text('a', 'b', step)", id="text"),
        pytest.param("print(y.cpu().numpy().mean().item())", id="a NumPy scalar"),
        pytest.param("losses.append(loss.detach())", id="kept on the device"),
        pytest.param("unknown(step).item(3)", id="type not known"),
        pytest.param("print(np.log(len(x)).astype('int').item())", id="a number of NumPy"),
    ],
)
def test_leaves_alone(statements: str) -> None:
    silent(loop(statements), CODE)


def test_leaves_a_cpu_script_alone() -> None:
    source = loop("print(loss.item())").replace('"cuda" if torch.cuda.is_available() else ', "")
    silent(source, CODE)


def test_leaves_reads_between_epochs_alone() -> None:
    source = (
        HEAD + "    print(loss.item())\n\n\nfor epoch in range(9):\n    train([], 0, 0, 0, 0)\n"
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


def test_the_steps_between_those_that_log() -> None:
    source = loop("if step % 10 == 0:\n    save()\nelse:\n    print(loss.item())")
    (finding,) = check(source, CODE)
    assert "in all but every n-th training step" in finding.message
    assert finding.fix is None


def test_a_condition_that_nobody_knows_says_which_steps() -> None:
    (found,) = check(loop("if ready: print(loss.item())"), CODE)
    assert "in each training step that gets here" in found.message


def test_what_is_written_is_not_read() -> None:
    silent(loop("eye = torch.eye(2, out=torch.empty_like(out))"), CODE)


def test_one_finding_a_statement() -> None:
    (found,) = check(loop("print(loss.item(), out.mean().item(), out.max().item())"), CODE)
    assert "and 2 more" in found.message


def test_the_finding_reaches_from_the_first_read_to_the_last() -> None:
    source = loop("print('%d %f %f' % (\n    step,\n    loss.item(),\n    out.mean().item(),\n))")
    (found,) = check(source, CODE)
    reads = source[source.index("loss.item()") : source.index(",\n        ))")]
    assert source[found.span.start : found.span.end] == reads
    assert (found.location.row, found.end_location.row) == (24, 25)
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


def test_what_is_taken_apart_on_the_host() -> None:
    silent(loop("print(*out.shape, *losses)\nprint(step % 9, '%s %s' % (*x.shape,))"), CODE)


def test_reads_of_one_statement_are_one_wait() -> None:
    lines = "pbar.set_description(f'loss: {loss.item():.5f}; ' f'mean: {out.mean():.5f}')"
    (found,) = check(loop(lines), CODE)
    assert found.severity.word == "warning"
    assert found.message == (
        "reading `loss.item()` and 1 more to show it waits for the GPU in every training step "
        "(one of 2 reads in it)"
    )


@pytest.mark.parametrize(
    "statements",
    [
        "if args.debug:\n    print(loss.item())",
        "if rank == 0:\n    last = (last + loss.item()) / 2",
        "if out.max() > 1:\n    print(out.max())",
    ],
)
def test_reads_under_what_nobody_knows_are_information(statements: str) -> None:
    assert {found.severity.word for found in check(loop(statements), CODE)} == {"info"}


def test_what_came_from_tensors_and_has_item_is_one() -> None:
    (found,) = check(loop("print(helper(out, y).item())"), CODE)
    assert found.severity.word == "info"


def test_a_loss_is_where_its_model_is_whatever_else_it_may_be() -> None:
    source = loop("print(loss.item())").replace("(out, y)", "(out, y) if weighted else made(out)")
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
    assert found.severity.word == "info"


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
