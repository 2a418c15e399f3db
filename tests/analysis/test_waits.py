"""Reads that find nothing left to wait for."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from probing import HEAD, parsed

from torchlint.analysis.project import Project
from torchlint.analysis.waits import reads_again, waited
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
def accuracy(output, target):
    return (output == target).float().mean()


def share(output, target):
    with torch.no_grad():
        right = (output == target).sum().item()
        return right / len(target)


def share_or_none(output, target):
    if unlabelled:
        return None
    return (output == target).sum().item() / len(target)


def halved(output):
    largest = output.max().item()
    return output * 0.5 / largest


def mean_of(output):
    return output.mean().data[0]


def settle(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


class Meter:
    def update(self, value, n=1):
        self.total = value * n
        self.shown = round(value, 3)


class Book:
    def logkv(self, key, value):
        set_up(net(torch.zeros(3)))


class Moving:
    def update(self, value):
        net.step(value)


class Smooth:
    def __init__(self, start):
        self.kept = start.clone()

    def update(self, value):
        self.kept = self.kept * 0.9 + value


def gathered_later(value):
    parts = [torch.zeros(9, device="cuda") for _ in range(3)]
    if not torch.distributed.is_initialized():
        return parts
    for part in parts:
        value = part.cpu()
    return value


def gathered_each(value):
    if not torch.distributed.is_initialized():
        return [value]
    parts = [torch.zeros(9, device="cuda") for _ in range(3)]
    found = []
    for part in parts:
        found.append(part.cpu())
    return found


smooth = Smooth(torch.zeros(3).cuda())
net = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
meter, moving, book = Meter(), Moving(), Book()
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
        pytest.param("c = torch.where(out > 2, out, y)\nb = top.item()", id="chooses"),
        pytest.param("keep = out > 2\nout[keep] = 0\nb = top.item()", id="no count is needed"),
        pytest.param("if out is not y:\n    pass\nb = top.item()", id="asks nothing of it"),
        pytest.param("a = loss.item()\nloss.backward()\nb = top.item()", id="a backward pass"),
        pytest.param("a = loss.item()\nout = net(x)\nb = top.item()", id="a forward pass"),
        pytest.param("a = loss.item()\nc = accuracy(out, y)\nb = top.item()", id="a metric"),
        pytest.param("a = loss.item()\nc = unknown()\nb = top.item()", id="an unknown function"),
        pytest.param("a = loss.item()\nmoving.update(a)\nb = top.item()", id="a known method"),
        pytest.param("a = loss.item()\nc = f(out.cpu(), y)\nb = top.item()", id="not all copies"),
        pytest.param("a = loss.item()\nc = net(out.cpu())\nb = top.item()", id="a model"),
        pytest.param("a = loss.item()\nmeter.update(top)\nb = top.item()", id="given a tensor"),
        pytest.param("a = loss.item()\nother.update(top)\nb = top.item()", id="told a tensor"),
        pytest.param("smooth.update(loss.item())\nb = top.item()", id="it keeps a tensor itself"),
        pytest.param("a = loss.item()\ngathered_later(a)\nb = top.item()", id="leaves in between"),
        pytest.param("a = loss.item()\nc = top @ far\nb = top.item()", id="a product"),
        pytest.param(
            "a = loss.item()\nc = top * 2 + far / 3 - 1 + top * far - 2 / far\nb = top.item()",
            id="many",
        ),
        pytest.param(
            "a = loss.item()\nfor p in known:\n    c = top * 2\nb = top.item()", id="many times"
        ),
        pytest.param("book.logkv('a', top)\nb = top.item()", id="a logger of tensors"),
        pytest.param("net.unknown(loss.item())\nb = top.item()", id="a model takes the number"),
        pytest.param("unknown(loss.item(), top)\nb = top.item()", id="a tensor beside the number"),
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
        pytest.param("c = share_or_none(out, y)\nb = top.item()", id="a wait that may not come"),
        pytest.param("c = halved(out)\nb = top.item()", id="a function that queues after it waits"),
        pytest.param("if step % 9 == 0:\n    share(out, y)\nb = top.item()", id="seldom called"),
        pytest.param("c = share(out, y)\nnet(x)\nb = top.item()", id="a pass after a metric"),
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
        (
            "if str(x.device) != 'cpu':\n    torch.cuda.synchronize()\nb = top.item()",
            "torch.cuda.synchronize()",
        ),
        ("a = out.cpu().numpy()\nb = top.item()", "out.cpu()"),
        ("a = accuracy(out.cpu().numpy(), k=5)\nb = top.item()", "out.cpu()"),
        ("a = out.cpu()\nc = a.mean().sqrt()\nb = top.item()", "out.cpu()"),
        ("if not np.isfinite(loss.item()):\n    raise ValueError\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nif step % 9 == 0:\n    net(x)\nb = top.item()", "loss.item()"),
        ("with torch.no_grad():\n    a = loss.item()\nb = top.item()", "loss.item()"),
        ("try:\n    a = loss.item()\nfinally:\n    pass\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nfor i in range(3):\n    b = out[i].item()", "loss.item()"),
        ("a = loss.item()\nimport time\nend = time.time() - 3\nb = top.item()", "loss.item()"),
        ("writer.meters['a'].update(loss.item(), n=x.shape[0])\nb = top.item()", "loss.item()"),
        ("a = loss.item()\ngathered_each(a)\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nb = top.clone().item()", "loss.item()"),
        ("a = loss.item()\nif a is None:\n    pass\nb = top.item()", "loss.item()"),
        ("c = share(out, y)\nb = top.item()", "share(out, y)"),
        ("a = loss.item()\nc = top * 2\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nc = -top\nb = top.item()", "loss.item()"),
        ("a = loss.item()\ntotal += top\nb = (top - far).mean().item()", "loss.item()"),
        ("unknown(loss.item())\nb = top.item()", "loss.item()"),
        ("book.logkv('a', loss.item())\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nunknown.note('a', a)\nb = top.item()", "loss.item()"),
        ("unknown.note(given.mean().item())\nb = top.item()", "given.mean().item()"),
        ("a = loss.item()\nc = top > 0\nb = top.item()", "loss.item()"),
        ("a = loss.item()\nb = (out == y).sum().item()", "loss.item()"),
        (
            "a = loss.item()\nb = torch.mean((torch.abs(top - 1) > 0.2).float()).item()",
            "loss.item()",
        ),
        ("if not (out > y).all():\n    pass\nb = top.item()", "(out > y).all()"),
        ("a = loss.item()\nfor b in top.tolist():\n    net(x)", "loss.item()"),
        ("keep = out > 2\nc = out[keep]\nb = top.item()", "out[keep]"),
        ("keep = out.bool() | far\nc = out[keep]\nb = top.item()", "out[keep]"),
        ("c = torch.where(out > 2)\nb = top.item()", "torch.where(out > 2)"),
        ("c = (out > 2).nonzero()\nb = top.item()", "(out > 2).nonzero()"),
        (
            "if kept is None:\n    kept = loss.item()\nelse:\n    loss.item()\nb = top.item()",
            "loss.item()",
        ),
        ("c = share(out, y)\nmeter.update(c, len(y))\nb = top.item()", "share(out, y)"),
        ("settle(x.device)\nb = top.view(-1).to('cpu')", "settle(x.device)"),
        ("a = loss.item()\nlr_scheduler.step_update(step)\nb = top.item()", "loss.item()"),
        ("a = loss.data[0]\nb = top.item()", "loss.data[0]"),
        ("a = loss.item()\nb = loss.data[0]", "loss.item()"),
        ("unknown(loss.data[0])\nb = top.item()", "loss.data[0]"),
        ("a = loss.data[0]\nunknown.note('a', a)\nb = top.item()", "loss.data[0]"),
        ("meter.update(loss.data[0], n=1)\nb = top.item()", "loss.data[0]"),
        ("err = 100. * (1. - loss.data[0])\nb = top.item()", "loss.data[0]"),
        ("unknown.note(given.mean().data[0])\nb = top.item()", "given.mean().data[0]"),
        ("c = mean_of(out)\nb = top.item()", "mean_of(out)"),
        ("mean_of(out)\nb = top.item()", "mean_of(out)"),
    ],
)
def test_has_been_waited_for(lines: str, before: str) -> None:
    assert of_last(lines) == before


@pytest.mark.parametrize(
    ("lines", "before"),
    [
        pytest.param("loss.item()", "larc.step()", id="a read after LARC"),
        pytest.param("bank[:] = out.detach() * 2\nloss.item()", "larc.step()", id="little work"),
        pytest.param("net(x)\nloss.item()", "", id="a forward pass"),
        pytest.param("optimizer.step()\nloss.backward()\nloss.item()", "", id="a backward pass"),
    ],
)
def test_optimizers_of_apex_wait_by_themselves(lines: str, before: str) -> None:
    head = "from apex import amp\nfrom apex.parallel.LARC import LARC\n"
    script = SCRIPT.replace("\nmeter, ", "\nlarc = LARC(optimizer=optimizer)\nmeter, ")
    script = script.replace("optimizer.step()\n", "larc.step()\n")
    program = parsed(script + textwrap.indent(lines, "    "), HEAD + head)
    found = waited(program, max(program.syncs, key=lambda s: program.index.order(s.node)))
    assert ("" if found is None else program.code(found)) == before


@pytest.mark.parametrize(
    ("options", "before"),
    [
        pytest.param(", loss_scale=args.loss_scale", "", id="a scale that may be fixed"),
        pytest.param(", opt_level='O2', loss_scale=1.0", "", id="a fixed scale"),
        pytest.param(", opt_level=args.level", "", id="a level that may have a fixed scale"),
        pytest.param(", opt_level='O0'", "", id="a level with a fixed scale"),
        pytest.param(", **args.apex", "", id="options that are not known"),
        pytest.param(", enabled=args.fp16", "", id="off where nobody asks for it"),
        pytest.param(", enabled=True", "amp.scale_loss(loss, optimizer)", id="on"),
        pytest.param("", "amp.scale_loss(loss, optimizer)", id="the scale of the level"),
        pytest.param(", opt_level='O2'", "amp.scale_loss(loss, optimizer)", id="a higher level"),
        pytest.param(
            ", loss_scale='dynamic'", "amp.scale_loss(loss, optimizer)", id="asked for by name"
        ),
    ],
)
def test_apex_waits_for_gradients_only_where_it_finds_the_scale(options: str, before: str) -> None:
    head = f"from apex import amp\nnet, optimizer = amp.initialize(net, optimizer{options})\n"
    lines = (
        "with amp.scale_loss(loss, optimizer) as scaled:\n    scaled.backward()\n"
        "optimizer.step()\nloss.item()"
    )
    program = parsed(SCRIPT + textwrap.indent(lines, "    "), HEAD + head)
    found = waited(program, max(program.syncs, key=lambda s: program.index.order(s.node)))
    assert ("" if found is None else program.code(found)) == before


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        pytest.param(", delay_unscale=(i + 1) % 4 != 0", False, id="most of the time"),
        pytest.param(", delay_unscale=True", False, id="always"),
        pytest.param(", **options", False, id="not known"),
        pytest.param(", delay_unscale=False", True, id="never"),
    ],
)
def test_apex_waits_for_no_gradients_that_it_unscales_later(options: str, waits: bool) -> None:
    head = "from apex import amp\nnet, optimizer = amp.initialize(net, optimizer)\n"
    lines = (
        f"with amp.scale_loss(loss, optimizer{options}) as scaled:\n    scaled.backward()\n"
        "optimizer.step()\nloss.item()"
    )
    program = parsed(SCRIPT + textwrap.indent(lines, "    "), HEAD + head)
    found = waited(program, max(program.syncs, key=lambda s: program.index.order(s.node)))
    assert (found is not None) is waits


def test_a_scale_that_apex_is_given_elsewhere_is_no_reason() -> None:
    lines = "with amp.scale_loss(loss, optimizer) as scaled:\n    scaled.backward()\nloss.item()"
    program = parsed(SCRIPT + textwrap.indent(lines, "    "), HEAD + "from apex import amp\n")
    assert waited(program, max(program.syncs, key=lambda s: program.index.order(s.node))) is None


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("print((out > 2).nonzero()[:, 0].tolist())", "(out > 2).nonzero()"),
        ("print(out[out > 2].sum().item())", "out[out > 2]"),
        ("print(net(out[out > 2]).sum().item())", ""),
        ("print(out[:, 0].tolist())", ""),
        ("print(torch.multinomial(out, 1).item())", ""),
    ],
)
def test_what_is_read_may_have_waited_itself(line: str, before: str) -> None:
    assert of_last(line) == before


ATTACK = """
def attack(net, x, y):
    for _ in {turns}:
        out = {runs} > torch.zeros(3, device="cuda")
        {waits}
    return x

def evaluate(loader, net):
    net.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.cuda(), y.cuda()
            {calls}
            total += F.mse_loss(net(x), y).item()
    return total
"""


@pytest.mark.parametrize(
    ("between", "again"),
    [
        pytest.param("if args.extra:\n    loss += args.extra", False, id="added to in place"),
        pytest.param("if args.extra:\n    loss = loss + 1", False, id="another value"),
        pytest.param("if args.debug:\n    loss.clamp_(0, 1)", False, id="a method in place"),
        pytest.param("if args.debug:\n    loss.data.mul_(2)", False, id="its data in place"),
        pytest.param("if args.debug:\n    loss[0] = 1", False, id="an entry"),
        pytest.param("", True, id="nothing"),
        pytest.param("if args.debug:\n    other += 1", True, id="another name"),
        pytest.param("if args.debug:\n    loss.data_ptr()", True, id="a method of another end"),
    ],
)
def test_a_value_is_read_again_where_nothing_changed_it(between: str, again: bool) -> None:
    lines = f"a = loss.item()\n{between}\nb = loss.item()\n"
    program = parsed(SCRIPT + textwrap.indent(lines, "    "))
    sync = max(program.syncs, key=lambda s: program.index.order(s.node))
    first = waited(program, sync)
    assert first is not None
    assert reads_again(program, first, sync) is again


def test_a_value_that_later_turns_change_is_not_read_again() -> None:
    lines = "a = loss.item()\nfor extra in args:\n    b = loss.item()\n    loss += extra\n"
    program = parsed(SCRIPT + textwrap.indent(lines, "    "))
    first, second = sorted(program.syncs, key=lambda s: program.index.order(s.node))[-2:]
    assert not reads_again(program, first.node, second)


def test_a_read_in_another_function_comes_before_where_that_is_called() -> None:
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
    found = [waited(program, sync) for sync in program.syncs]
    assert [one and program.code(one) for one in found] == [None, "show(loss)"]


SCORED = """
from sklearn.metrics import f1_score

def score(output, target):
    wanted = target.cpu().numpy()
    return f1_score(wanted, output.argmax(1).cpu().numpy())

def score_of_few(output, target):
    if len(target) > 9:
        return 0
    return f1_score(target.cpu(), output.cpu())

def score_again(output, target):
    target = net(target)
    return f1_score(target.cpu(), output.cpu())

def count(output, target):
    return (output == target).sum().item()

def mean(output, target):
    return target.cpu().numpy().mean()

def clear(output, target):
    torch.cuda.synchronize()
    return net(output)

net = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(data):
    x, y = x.cuda(), y.cuda()
    out = net(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    {}
"""


METERS = """
class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.meters = 0, {}

    def update(self, value, n=1, **more):
        self.total += value * n
        if value is not None:
            self.mean = self.total / n
        for name, one in more.items():
            self.meters[name].update(one * 2)


class Smooth:
    def __init__(self, start):
        self.kept = start.clone()

    def update(self, value):
        self.kept = self.kept * 0.9 + value
"""
TOLD = """
from meters import Meter, Smooth

meter, elsewhere, smooth = Meter(), Meter(), Smooth(torch.zeros(3).cuda())
net = nn.Linear(3, 3).cuda()
for step, x in enumerate(DataLoader(data)):
    x = x.cuda()
    loss = net(x).mean()
    top = loss * 2
    loss.backward()
    elsewhere.update(loss, len(x), top=top)
"""


@pytest.mark.parametrize(
    ("told", "before"),
    [
        pytest.param("meter.update(top)", "", id="a tensor to keep"),
        pytest.param("meter.update(loss.item(), top=top)", "", id="one tensor of several"),
        pytest.param("meter.update(**{'value': loss.item()})", "", id="what nobody sees"),
        pytest.param("smooth.update(loss.item())", "", id="it keeps a tensor itself"),
        pytest.param("meter.update(loss.item(), x.size(0))", "loss.item()", id="numbers"),
        pytest.param("meter.update(loss.item(), top=3)", "loss.item()", id="named numbers"),
        pytest.param("meter.meters['a'].update(loss.item())", "loss.item()", id="one of several"),
    ],
)
def test_a_meter_is_told_numbers_here_and_tensors_there(
    told: str, before: str, tmp_path: Path
) -> None:
    (tmp_path / "meters.py").write_text(METERS)
    lines = textwrap.indent(f"{told}\nprint(top.item())", "    ")
    (tmp_path / "main.py").write_text(HEAD + TOLD + lines)
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "main.py"))
    assert program is not None
    found = waited(program, max(program.syncs, key=lambda s: program.index.order(s.node)))
    assert ("" if found is None else program.code(found)) == before


INDEXED = (
    HEAD
    + """
import time
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Linear(3, 3).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
b_obs, kept = torch.zeros(9, 3).to(device), torch.zeros(9, 3)
b_inds, places = np.arange(9), torch.arange(9).to(device)
sync = torch.cuda.synchronize if device.type == "cuda" else lambda: None
settle = print if device.type == "cuda" else lambda: None

def wait():
    if torch.cuda.is_available():
        torch.cuda.synchronize()

for start in range(9):
    {head}
    mb_inds = b_inds[start:]
    loss = net(b_obs[places]).mean()
    loss.backward()
    optimizer.step()
    top = loss * 2
"""
)


def with_head(lines: str, head: str = "pass") -> str:
    return INDEXED.replace("{head}", head) + textwrap.indent(textwrap.dedent(lines), "    ")


def test_an_index_that_is_copied_comes_before_a_read() -> None:
    program = parsed(with_head("part = b_obs[mb_inds]\ntop.item()"))
    found = waited(program, program.syncs[-1])
    assert found is not None
    assert program.code(found) == "b_obs[mb_inds]"


EACH = (
    HEAD
    + """
device = torch.device("cuda")
net = nn.Linear(3, 3).to(device)

@torch.no_grad()
def evaluate(loader, log, words, gaps):
    for step, batch in enumerate(loader):
        x, names = batch["x"].to(device), batch["names"]
        size = len(batch["names"])
        out = net(x).mean(1)
        loss = out.sum()
        gaps.append(loss.item())
"""
)
