from __future__ import annotations

import textwrap

import pytest
import torch
from tools import check, fixed, silent

CODE = "TL201"

HEAD = """\
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
"""


def script(body: str, head: str = HEAD) -> str:
    return head + textwrap.dedent(body)


def loop(statements: str, before: str = "total = 0.0", after: str = "print(total)") -> str:
    """A training loop that ends with the statements given."""
    return script(
        f"""\
def train(loader):
    {before}
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{textwrap.indent(textwrap.dedent(statements), " " * 8).rstrip()}
    {after}
"""
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            loop("self.total += loss.item()", "self = State()"), id="kept: another rule's"
        ),
        pytest.param(loop("if step % 100 == 0:\n    total += loss.item()"), id="every n steps"),
        pytest.param(
            loop(
                "if rank == 0 and step % 9 == 0:\n    total += loss.item()", "total, rank = 0.0, 0"
            ),
            id="one rank, at times",
        ),
        pytest.param(loop("total += x.size(0)"), id="a size is a Python number"),
        pytest.param(loop("total += len(y)"), id="a length is a Python number"),
        pytest.param(loop("total += loss.detach()"), id="stays on the device already"),
        pytest.param(loop("pass", after="total += loss.item()"), id="after the loop"),
        pytest.param(
            loop("total += loss.item()\nprint(total)"), id="read in every step: another rule's"
        ),
        pytest.param(
            loop("total += loss.item()\nif rank == 0:\n    bar.set_postfix(a=total)"),
            id="read in every step of one rank: another rule's",
        ),
        pytest.param(
            loop('sums["loss"] += loss.item()', "sums = {}"), id="an entry: another rule's"
        ),
        pytest.param(
            loop("meter.update(loss.item())", "meter = Meter()"), id="a meter: another rule's"
        ),
        pytest.param(loop("total += y.cpu().numpy().mean().item()"), id="item() of a NumPy scalar"),
        pytest.param(
            loop("total += loss.item()").replace('"cuda" if torch.cuda.is_available() else ', ""),
            id="a script for the CPU",
        ),
        pytest.param(
            script(
                """\
                for name, group in groups.items():
                    total += group.item()
                """
            ),
            id="no training loop, type not known",
        ),
        pytest.param(
            loop("for key, value in stats.items():\n    total += value", "total, stats = 0.0, {}"),
            id="dict.items",
        ),
    ],
)
def test_leaves_alone(source: str) -> None:
    silent(source, CODE)


@pytest.mark.parametrize(
    ("statement", "row_text"),
    [
        ("total += loss.item()", "loss.item()"),
        ("total = total + loss.item()", "loss.item()"),
        ("total += float(loss)", "float(loss)"),
        ("total += loss.item() * x.size(0)", "loss.item()"),
        ("total += loss.data.item()", "loss.data.item()"),
        ("total += (out.argmax(1) == y).sum().item()", "(out.argmax(1) == y).sum().item()"),
        ("total += loss.cpu().item()", "loss.cpu().item()"),
    ],
)
def test_reports_the_read(statement: str, row_text: str) -> None:
    source = loop(statement)
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == row_text
    assert found.severity.word == "warning"
    assert "`total`" in found.message


def test_evaluation_is_information() -> None:
    source = script(
        """\
        @torch.no_grad()
        def evaluate(loader):
            model.eval()
            correct = 0
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                correct += (model(x).argmax(1) == y).sum().item()
            return correct
        """
    )
    (found,) = check(source, CODE)
    assert found.severity.word == "info"
    assert "evaluation" in found.message


def test_the_exact_form_is_float64_and_safe() -> None:
    text = fixed(loop("total += loss.item()  # running"), CODE, unsafe=False)
    assert "        total += loss.detach().double()  # running\n" in text
    assert "    total = float(total)\n    print(total)\n" in text


def test_scaled_by_a_number() -> None:
    text = fixed(loop("total += loss.item() * x.size(0)"), CODE, unsafe=False)
    assert "total += loss.detach().double() * x.size(0)\n    total = float(total)\n" in text


def test_counts_stay_whole() -> None:
    text = fixed(
        loop("total += (out.argmax(1) == y).sum().item()", "total = 0"), CODE, unsafe=False
    )
    assert "total += (out.argmax(1) == y).sum()\n    total = int(total)\n" in text


def test_the_message_says_what_a_graph_hangs_on() -> None:
    for term, told in (("loss.item()", ", detached,"), ("(out.argmax(1) == y).sum().item()", "")):
        (found,) = check(loop(f"total += {term}", "total = 0"), CODE)
        assert f"add up `total` on the device{told} and read it once" in found.message


def test_truth_values_are_counted() -> None:
    text = fixed(loop("total += int(loss > 2)", "total = 0"), CODE, unsafe=False)
    assert "total += (loss > 2)\n    total = int(total)\n" in text


def test_totals_may_start_together() -> None:
    text = fixed(loop("total += loss.item()", "total, hits = 0, 0"), CODE, unsafe=False)
    assert "total += loss.detach().double()\n    total = float(total)\n" in text


def test_counts_in_a_float_stay_float() -> None:
    text = fixed(loop("total += (out.argmax(1) == y).sum().item()"), CODE, unsafe=False)
    assert ".sum().detach().double()\n    total = float(total)\n" in text


def test_a_periodic_block_reads_at_its_head() -> None:
    source = loop(
        """\
        total += loss.item()
        if step % 100 == 99:
            print(total / 100)
            total = 0.0
        """
    )
    text = fixed(source, CODE, unsafe=False)
    assert "if step % 100 == 99:\n            total = float(total)\n            print(" in text
    assert "        total = 0.0\n    total = float(total)\n" in text


def test_a_total_that_nobody_reads_later_is_not_converted() -> None:
    source = loop(
        """\
        total += loss.item()
        if step % 100 == 99:
            print(total)
            total = 0.0
        """,
        after="return None",
    )
    assert fixed(source, CODE, unsafe=False).count("total = float(total)") == 1


def test_mps_has_no_float64() -> None:
    source = loop("total += loss.item()").replace("device = ", 'fallback = "mps"\ndevice = ', 1)
    (found,) = check(source, CODE)
    assert found.fix is not None
    assert found.fix.safety.word == "unsafe"
    assert "float32" in found.fix.changes
    assert "loss.detach().float()" in fixed(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loop("total += loss.item() / len(x)"), id="division may round otherwise"),
        pytest.param(loop("total += loss.item()", "total = start()"), id="start is not known"),
        pytest.param(loop("total += loss.item() * y.sum()"), id="scaled by a tensor"),
        pytest.param(loop("total += helper(out, y).item()"), id="type is not proved"),
        pytest.param(loop("total += int(loss)"), id="int() cuts off the fraction"),
        pytest.param(
            loop("total += loss.item()", "total = 0.0\n    show = lambda: total"),
            id="read by a nested function",
        ),
        pytest.param(loop("total += loss.item()", "global total\n    total = 0.0"), id="a global"),
        pytest.param(
            script(
                """\
                def train(loader):
                    total = 0.0
                    try:
                        for x, y in loader:
                            loss = criterion(model(x.to(device)), y.to(device))
                            loss.backward()
                            optimizer.step()
                            total += loss.item()
                    except KeyboardInterrupt:
                        print(total)
                """
            ),
            id="read where an exception ends the loop",
        ),
        pytest.param(
            "import lightning\n" + loop("total += loss.item()"), id="a framework owns the loop"
        ),
    ],
)
def test_reported_without_a_fix(source: str) -> None:
    (found,) = check(source, CODE)
    assert found.fix is None


def run_train(text: str) -> object:
    """The value a fixed or unfixed `train` returns for three seeded batches."""
    torch.manual_seed(0)
    space: dict[str, object] = {}
    exec(compile(text, "snippet.py", "exec"), space)  # noqa: S102  # the test's own snippet
    batches = [(torch.randn(8, 4), torch.randint(0, 2, (8,))) for _ in range(3)]
    return space["train"](batches)  # type: ignore[operator]


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize(
    ("statement", "start"),
    [
        ("total += loss.item()", "0.0"),
        ("total += loss.item()", "0"),
        ("total += loss.item() * x.size(0)", "0.0"),
        ("total += (out.argmax(1) == y).sum().item()", "0"),
        ("total += (out.argmax(1) == y).sum().item()", "0.0"),
        ("total += float(loss)", "0.0"),
        ("total += int(loss > 0.7)", "0"),
        ("total = total + loss.item()", "0.0"),
        ("total += loss.bfloat16().item()", "0.0"),
        ("total += out.argmax().item()", "0"),
    ],
)
def test_the_sum_is_the_same_bit_for_bit(statement: str, start: str) -> None:
    source = loop(statement, f"total = {start}", "return total")
    assert run_train(fixed(source, CODE, unsafe=False)) == run_train(source)


def test_no_batch_at_all() -> None:
    source = loop("total += loss.item()", after="return total")
    space: dict[str, object] = {}
    exec(compile(fixed(source, CODE, unsafe=False), "s.py", "exec"), space)  # noqa: S102
    assert space["train"]([]) == 0.0  # type: ignore[operator]


def test_code_over_several_lines_keeps_its_layout() -> None:
    source = loop("total += criterion(\n    out,  # logits\n    y,\n).item()")
    text = fixed(source, CODE, unsafe=False)
    assert (
        "        total += criterion(\n            out,  # logits\n            y,\n"
        "        ).detach().double()\n"
    ) in text


def test_the_total_of_an_accumulation_is_read_in_every_step_all_the_same() -> None:
    source = """\
        import torch
        def train(model, batches, opt):
            model.cuda()
            while True:
                total = 0.0
                for x in next(batches):
                    loss = model(x.cuda()).mean()
                    total += loss.item()
                    loss.backward()
                opt.step()
                print(total)
    """
    (found,) = check(source, CODE)
    assert found.severity.word == "warning"


@pytest.mark.parametrize(
    ("statements", "after"),
    [
        pytest.param("total += loss.item()", "return total", id="returned"),
        pytest.param("total += loss.item()", "print(f'{total}')", id="shown"),
        pytest.param("total += loss.item()", "return lambda: total", id="read by a closure"),
        pytest.param("total += loss.item()", "print(locals())", id="perhaps read by name"),
        pytest.param("total += loss.item()", "del total", id="deleted"),
    ],
)
def test_a_total_that_is_read_is_added_up(statements: str, after: str) -> None:
    (found,) = check(loop(statements, after=after), CODE)
    assert "add up `total` on the device" in found.message


def test_a_total_of_a_module_may_be_read_elsewhere() -> None:
    source = loop("total += loss.item()", "global total", "pass")
    (found,) = check("total = 0.0\n" + source, CODE)
    assert "add up `total` on the device" in found.message


def test_a_total_that_one_rank_reads_now_and_then() -> None:
    lines = "total += loss.item()\nif rank == 0:\n    if step % 9 == 0:\n        print(total)"
    assert check(loop(lines), CODE)
    lines = "total += loss.item()\nif rank == 0 and step % 9 == 0:\n    print(total)"
    assert check(loop(lines), CODE)
    lines = "total += loss.item()\nif step % 9 == 0:\n    if rank == 0:\n        print(total)"
    assert check(loop(lines), CODE)


def test_what_has_item_is_a_tensor_as_far_as_anybody_knows() -> None:
    (found,) = check(loop("total += judge(out).item()"), CODE)
    assert (found.severity.word, found.fix) == ("info", None)


@pytest.mark.parametrize(
    ("after", "where"),
    [
        pytest.param("print(total)", "once after the loop", id="after the loop"),
        pytest.param("pass", "only where it is reported", id="every n steps alone"),
    ],
)
def test_says_where_the_total_is_read(after: str, where: str) -> None:
    """``if step % 100 == 0: print(total); total = 0.0``: nothing is left to read after the loop."""
    source = loop(
        "total += loss.item()\nif step % 100 == 0:\n    print(total)\n    total = 0.0", after=after
    )
    (found,) = check(source, CODE)
    assert f"read it {where}" in found.message


def test_says_that_a_loss_is_detached_where_no_graph_is_seen() -> None:
    source = loop("total += loss.item()").replace("criterion(out, y)", "torch.ones(3).cuda().sum()")
    (found,) = check(source, CODE)
    assert "on the device, detached, and read" in found.message
