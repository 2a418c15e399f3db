"""Which tensors hold on to the graph that computed them."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed, probed

from torchlint.analysis.attached import held

LOSS = "loss = f(x)\nloss.backward()\n"
DRAWS = f"{LOSS}drawn = torch.distributions.Categorical(loss)\n"
NET = """
class Bare(nn.Module):
    def forward(self, x):
        return x * 2
class Net(Bare):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
"""
LOADER = "for x, y in DataLoader(d):\n    out = nn.Linear(2, 2)(x)\n    "


@pytest.mark.parametrize(
    ("source", "found"),
    [
        # what has a gradient asked of it
        pytest.param(f"{LOSS}probe(loss)", "YES", id="a loss"),
        pytest.param(f"{LOSS}probe(loss * 2)", "YES", id="times a number"),
        pytest.param(f"{LOSS}probe(-loss)", "YES", id="negative"),
        pytest.param(f"{LOSS}probe(loss.mean().cpu())", "YES", id="its mean"),
        pytest.param(f"{LOSS}probe(torch.exp(loss))", "YES", id="a function of it"),
        pytest.param(f"{LOSS}probe(F.relu(loss) if a else loss)", "YES", id="both ways"),
        pytest.param(f"{LOSS}probe([loss, 1])", "YES", id="in a list"),
        pytest.param(f"{LOSS}probe({{'loss': loss}})", "YES", id="in a dictionary"),
        pytest.param(f"{LOSS}xs = []\nxs.append(loss)\nprobe(xs)", "YES", id="put into a list"),
        pytest.param(f"{LOSS}loss = loss / 2\nprobe(loss)", "YES", id="another of its name"),
        pytest.param(f"{LOSS}t = 0\nt += loss\nprobe(t)", "YES", id="a sum"),
        pytest.param(f"{LOSS}probe(loss.mT)", "YES", id="an attribute"),
        pytest.param(f"{LOSS}a = loss\nprobe(a)", "YES", id="by another name"),
        pytest.param("def g():\n    loss.backward()\n    return loss\nprobe(g())", "MAYBE", id="g"),
        # what is cut off
        pytest.param(f"{LOSS}probe(loss.detach())", "NO", id="detached"),
        pytest.param(f"{LOSS}probe(loss.item())", "NO", id="a number"),
        pytest.param(f"{LOSS}probe(loss.data)", "NO", id="its data"),
        pytest.param(f"{DRAWS}probe(drawn.sample())", "NO", id="drawn"),
        pytest.param(f"{DRAWS}probe(drawn.rsample())", "MAYBE", id="drawn with gradients"),
        pytest.param(f"{LOSS}drawn = Guess(loss)\nprobe(drawn.sample())", "MAYBE", id="a guess"),
        pytest.param(f"{LOSS}probe(loss > 1)", "NO", id="a truth value"),
        pytest.param(f"{LOSS}probe(not loss)", "NO", id="not"),
        pytest.param(f"{LOSS}probe(float(loss))", "NO", id="a Python number"),
        pytest.param(f"{LOSS}probe(loss.argmax(1))", "NO", id="places"),
        pytest.param(f"{LOSS}probe(torch.argmax(loss))", "NO", id="places by a function"),
        pytest.param(f"{LOSS}probe(loss.max(1)[1])", "NO", id="places of two results"),
        pytest.param(f"{LOSS}_, i = torch.max(loss, 1)\nprobe(i)", "NO", id="unpacked places"),
        pytest.param(f"{LOSS}v, _ = torch.max(loss, 1)\nprobe(v)", "YES", id="unpacked values"),
        pytest.param(f"{LOSS}probe(torch.max(loss, 1)[0])", "YES", id="values of two results"),
        pytest.param(f"{LOSS}loss.detach_()\nprobe(loss)", "MAYBE", id="detached in place"),
        pytest.param(f"{LOSS}with torch.no_grad(): probe(loss * 2)", "NO", id="twice, without"),
        pytest.param(f"{LOSS}with torch.no_grad(): probe(torch.exp(loss))", "NO", id="without"),
        pytest.param(
            f"{LOSS}t = 0\nwith torch.no_grad():\n    t += loss\nprobe(t)", "NO", id="added without"
        ),
        pytest.param(f"{LOSS}{NET}probe(Net()(loss))", "YES", id="of a network"),
        pytest.param(f"{LOSS}{NET}probe(Bare()(loss))", "MAYBE", id="of one without parameters"),
        pytest.param(
            f"{LOSS}{NET.replace('x * 2', 'x > 2')}probe(Bare()(loss))", "NO", id="counts"
        ),
        pytest.param(
            f"{LOSS}{NET.replace('x * 2', 'x > 2')}probe(Net()(loss))", "YES", id="or may"
        ),
        pytest.param(
            f"{LOSS}probe(((((((loss > 0).float() + 1) * 2 - 3) / 4).exp() + 5) * 6).sum().sqrt()"
            ".abs().tanh().exp())",
            "NO",
            id="of a truth value, a long way",
        ),
        # the rest
        pytest.param("probe(torch.zeros(2))", "NO", id="zeros"),
        pytest.param("probe(torch.zeros(2, requires_grad=True))", "MAYBE", id="a parameter"),
        pytest.param("probe(1 + 2)", "NO", id="numbers"),
        pytest.param("probe(f(x))", "MAYBE", id="unknown"),
        pytest.param("probe(x)", "MAYBE", id="from nowhere"),
        pytest.param("probe(x[0])", "MAYBE", id="a part"),
        pytest.param("probe(x or 1)", "MAYBE", id="or"),
        pytest.param("probe(x.shape)", "NO", id="a shape"),
        pytest.param("probe(x.foo)", "MAYBE", id="an attribute of what is unknown"),
        pytest.param("probe([x for x in y])", "MAYBE", id="a comprehension"),
        pytest.param("d = {}\nd[0] = loss\nprobe(d)", "MAYBE", id="filled later"),
        pytest.param("def f(a):\n    probe(a)", "MAYBE", id="a parameter of a function"),
        pytest.param("torch.save(x)\nprobe(torch.utils.f(x))", "MAYBE", id="no tensor function"),
        pytest.param(f"{LOADER}probe(x)", "NO", id="a batch"),
        pytest.param(f"{LOADER}probe(out)", "MAYBE", id="an output, of what may be frozen"),
        pytest.param(f"{LOADER}probe(nn.MSELoss()(x, y))", "NO", id="a loss of what has no graph"),
        pytest.param(f"{LOADER}probe(nn.MSELoss()(out, y))", "MAYBE", id="a loss of an output"),
        pytest.param("probe(DataLoader(d))", "NO", id="a loader"),
        pytest.param("it = iter(DataLoader(d))\nprobe(it)", "NO", id="its iterator"),
        pytest.param("it = iter(DataLoader(d))\nprobe(next(it))", "NO", id="its next batch"),
        pytest.param("it = enumerate(DataLoader(d))\nprobe(it)", "NO", id="its batches, counted"),
        pytest.param(f"{LOSS}xs = [0]\nxs.append(loss)\nprobe(iter(xs))", "MAYBE", id="of a list"),
        pytest.param(f"{LOSS}it = iter((1, loss))\nprobe(it)", "MAYBE", id="of a loss"),
        pytest.param(f"{LOSS}pair = (0, loss)\nprobe(pair)", "YES", id="in a pair"),
    ],
)
def test_held(source, found):
    program = parsed(source, HEAD)
    assert held(program, probed(program)).name == found


def test_a_long_way_is_not_followed():
    names = "".join(f"x{n} = x{n - 1}\n" for n in range(1, 20))
    program = parsed(f"x0 = 1\n{names}probe([x19, f(x19)])", HEAD)
    assert held(program, probed(program)).name == "MAYBE"
