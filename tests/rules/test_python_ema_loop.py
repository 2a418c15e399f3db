"""TL604: loops over parameters that keep a moving average of them in every training step."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.rule import Severity

CODE = "TL604"
LOOP = "for e, p in zip(average.parameters(), model.parameters()):"
UPDATE = "e.data.mul_(decay).add_(p.data, alpha=1 - decay)"
CALL = "get_ema_multi_avg_fn({})(list(average.parameters()), list(model.parameters()), None)"


def train(body: str, after: str = "", before: str = "", device: str = "cuda") -> str:
    """Return a training whose steps end with some lines."""
    lines = [
        "import torch",
        *before.splitlines(),
        "def train(model, average, loader, optimizer, decay, tau, device, args):",
        "    for step, (x, y) in enumerate(loader):",
        f"        loss = torch.nn.functional.cross_entropy(model(x.to('{device}')), y)",
        "        optimizer.zero_grad()",
        "        loss.backward()",
        "        optimizer.step()",
        *textwrap.indent(textwrap.dedent(body), " " * 8).splitlines(),
        *textwrap.indent(textwrap.dedent(after), " " * 4).splitlines(),
    ]
    return "\n".join(lines) + "\n"


def loop(*updates: str, head: str = LOOP) -> str:
    return "\n".join([head, *(f"    {line}" for update in updates for line in update.splitlines())])


EMA = loop(UPDATE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(train("", after=EMA), id="once an epoch"),
        pytest.param(
            f"import torch\ndef follow(model, average, decay):\n"
            f"    torch.cuda.init()\n{textwrap.indent(EMA, '    ')}\n",
            id="not called",
        ),
        pytest.param(train(EMA, device="cpu"), id="on the CPU"),
        pytest.param(train(loop("e.data.copy_(p.data)")), id="a copy"),
        pytest.param(train(loop("e.data.copy_(p.data + e.data)")), id="a sum"),
        pytest.param(train(loop("e.mul_(decay).add_(p.grad, alpha=1 - decay)")), id="gradients"),
        pytest.param(train(loop("e.mul_(decay).add_(p, alpha=tau)")), id="not one together"),
        pytest.param(train(loop("e.mul_(0.9).add_(p, alpha=0.2)")), id="numbers not one together"),
        pytest.param(train(loop("e.mul_(decay)\ne.add_(p)")), id="a discounted sum"),
        pytest.param(train(loop("e.mul_(decay)\np.add_(p, alpha=1 - decay)")), id="two tensors"),
        pytest.param(train(loop("e.mul_(decay)\ne.sub_(p, alpha=1 - decay)")), id="a difference"),
        pytest.param(
            train(loop("old[x] = decay * old[x] + (1 - decay) * p.data")), id="one of a batch"
        ),
        pytest.param(train(loop("e.data.copy_(decay * e + (1 - decay) * p.cpu())")), id="moved"),
        pytest.param(train(loop("e.data.copy_(decay * e + (1 - decay) * e)")), id="with itself"),
        pytest.param(train(loop("e.data.copy_(decay * p + (1 - decay) * p)")), id="not its own"),
        pytest.param(train(loop("e = decay * e + (1 - decay) * p")), id="only a name"),
        pytest.param(
            train(loop("e.mul_(decay).add_(noise, alpha=1 - decay)")), id="not of the loop"
        ),
        pytest.param(
            train(loop("totals['x'] = decay * totals['x'] + (1 - decay) * p.data")), id="one total"
        ),
        pytest.param(train(loop("e.data.sub_(decay * (p - e))")), id="away from it"),
    ],
)
def test_left_alone(source):
    silent(source, CODE)


def test_older_torch_has_no_such_function():
    silent(train(EMA), CODE, "2.0")


@pytest.mark.parametrize(
    ("update", "decay"),
    [
        (UPDATE, "decay"),
        ("e.data.mul_(decay).add_((1 - decay) * p.detach().data)", "decay"),
        ("e.mul_(decay).add_(1.0 - decay, p.data)", "decay"),
        ("e.mul_(0.999).add_(p, alpha=0.001)", "0.999"),
        ("e.data.copy_(args.tau * p.data + (1 - args.tau) * e.data)", "1 - args.tau"),
        ("e.data.copy_(e.data * (1.0 - tau) + p.data * tau)", "1.0 - tau"),
        ("e.data = e.data * decay + p.data * (1. - decay)", "decay"),
        ("e.data = torch.lerp(p.data, e.data, decay)", "decay"),
        ("e.copy_(p.detach().lerp(e, decay))", "decay"),
        ("e.copy_(torch.lerp(e, p, tau))", "1 - tau"),
        ("e.data.lerp_(p.data, tau)", "1 - tau"),
        ("e.data.lerp_(p.data, 1 - decay)", "decay"),
        ("e.data.lerp_(p.data, 0.1)", "0.9"),
        ("e.data.mul_(decay)\ne.data.add_(p.data * (1 - decay))", "decay"),
        ("e *= decay\ne += (1 - decay) * p.detach()", "decay"),
        ("e.sub_(tau * (e - p))", "1 - tau"),
        ("e.data.add_(tau * (p.data - e.data))", "1 - tau"),
        ("e.data.lerp_(p.data, args.rates[step])", "1 - args.rates[step]"),
    ],
)
def test_a_loop_becomes_one_call(update, decay):
    done = fixed(train(loop(update)), CODE, target="2.4")
    assert "".join(done.split()) == "".join(train(CALL.format(decay), before=IMPORT).split())


IMPORT = "from torch.optim.swa_utils import get_ema_multi_avg_fn"


def test_the_order_of_zip_does_not_matter():
    turned = loop(UPDATE, head="for p, e in zip(model.parameters(), average.parameters()):")
    assert fixed(train(turned), CODE, target="2.4") == train(CALL.format("decay"), before=IMPORT)


def test_a_long_call_is_laid_out():
    source = train(EMA.replace("model.", "model.module.encoder."))
    assert CALL.format("decay").replace("model.", "model.module.encoder.") not in fixed(
        source, CODE
    )
    assert max(map(len, fixed(source, CODE).splitlines())) <= 100
    assert "get_ema_multi_avg_fn(decay)(\n            list(average" in fixed(source, CODE)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "sd = model.state_dict()\n"
            + loop(
                "v.copy_(decay * v + (1 - decay) * sd[k])",
                head="for k, v in average.state_dict().items():",
            ),
            id="counters in a state",
        ),
        pytest.param(
            "sd = model.state_dict()\n"
            + loop("average[k] = decay * average[k] + (1 - decay) * sd[k]", head="for k in sd:"),
            id="keys",
        ),
        pytest.param(
            "old = dict(model.named_parameters())\n"
            + loop(
                "p = old[k]\nassert p is not e\ne.copy_(decay * e + (1 - decay) * p)",
                head="for k, e in average.named_parameters():",
            ),
            id="by name",
        ),
        pytest.param(loop(f"if p.requires_grad:\n    {UPDATE}"), id="some of them"),
        pytest.param(
            loop(
                "if v.is_floating_point():\n    v *= decay\n    v += (1 - decay) * sd[k]",
                head="for k, v in average.state_dict().items():",
            ),
            id="of one dtype",
        ),
        pytest.param(
            loop("pass", "if p.requires_grad:\n    pass\nelse:\n    " + UPDATE), id="in an else"
        ),
        pytest.param(loop(UPDATE, "p.mul_(0.99)"), id="with something else"),
        pytest.param(
            loop("e.mul_(decay)", "e.add_(p, alpha=1 - decay)", "p.mul_(0.99)"), id="after two"
        ),
        pytest.param(loop(UPDATE, head="for e, p in zip(average_params, params):"), id="lists"),
        pytest.param(f"{EMA}\nelse:\n    pass", id="with an else"),
        pytest.param(EMA.replace("decay", "decay()"), id="computed anew for each"),
        pytest.param("decay = torch.ones(1)\n" + EMA, id="a tensor decides"),
        pytest.param(loop("# why", UPDATE), id="a comment"),
    ],
)
def test_found_without_a_fix(body):
    before = "params, average_params = list(net.parameters()), list(net.parameters())"
    [finding] = check(train(body, before=before), CODE)
    assert finding.fix is None
    assert "get_ema_multi_avg_fn" in finding.help


def test_no_fix_under_a_framework():
    [finding] = check(train(EMA, before="import accelerate"), CODE)
    assert finding.fix is None


def test_it_is_advice_that_names_the_version():
    [finding] = check(train(EMA), CODE)
    assert finding.severity is Severity.INFO
    assert "from torch 2.1 on" in finding.message
    assert "torch below 2.1 has no such function" in finding.fix.changes
    [finding] = check(train(EMA), CODE, "2.4")
    assert "2.1" not in finding.message + finding.fix.changes


AGENT = """\
import torch

class Agent:
    def __init__(self, model, average):
        self.model, self.average = model, average
        self.source = self.model.state_dict()

    @torch.no_grad()
    def soft_update(self, decay):
        {}
            {}
"""
METHOD = AGENT.format(
    LOOP.replace("model.", "self.model.").replace("average.", "self.average."), UPDATE
)
STORED = AGENT.format(
    "for k in self.source:", "self.kept[k] = 0.9 * self.kept[k] + 0.1 * self.source[k]"
)


@pytest.mark.parametrize("agent", [METHOD, STORED])
def test_a_method_of_another_file_that_each_step_calls(tmp_path, agent):
    main = "from agent import Agent\n" + train("agent.soft_update(decay)").replace(
        "    for step", "    agent = Agent(model, average)\n    for step"
    )
    files = {"agent.py": agent, "main.py": main}
    assert len(check_in(tmp_path, files, "agent.py", CODE)) == 1
    files["main.py"] = main.replace("        agent.", "        if step % 8 == 0: agent.")
    [found] = check_in(tmp_path, files, "agent.py", CODE)
    assert "one tensor after the other: " in found.message  # and not in every step


def test_a_forward_pass_that_keeps_the_average():
    source = f"""\
import torch

class MoCo(torch.nn.Module):
    def forward(self, x):
        x = x.cuda()
        with torch.no_grad():
            self.follow(0.99)
        return self.model(x)

    def follow(self, decay):
        {LOOP.replace("model.", "self.model.").replace("average.", "self.average.")}
            {UPDATE}

def train(model, loader, optimizer):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""
    assert len(check(source, CODE)) == 1


FORWARD = """\
import torch

class Pairs(torch.nn.Module):
    def __init__(self, query, key):
        super().__init__()
        self.pairs = [[query, key]]

    def forward(self, x):
        self.follow(0.99)
        return self.pairs[0][0](x.cuda())

    @torch.no_grad()
    def follow(self, decay):
        for pair in self.pairs:
            for p, e in zip(pair[0].parameters(), pair[1].parameters()):
                {}

def train(model, loader, optimizer):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""


def test_a_forward_pass_that_keeps_the_averages_of_several_models():
    [finding] = check(FORWARD.format(UPDATE), CODE)
    assert finding.location.row == FORWARD[: FORWARD.index("for p, e")].count("\n") + 1
    silent(FORWARD.format("e.data.copy_(p.data)"), CODE)
