"""TL407: activation checkpointing by the reentrant variant."""

from __future__ import annotations

import warnings

import pytest
import torch
from tools import check, fixed, silent
from torch import nn
from torch.utils.checkpoint import checkpoint

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL407"
HEAD = "import torch\nfrom torch import nn\nfrom torch.utils.checkpoint import checkpoint\n"


def net(call: str = "checkpoint(self.a, x)", tail: str = "", head: str = HEAD) -> str:
    """Return a model that checkpoints in its forward pass."""
    return (
        f"{head}\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.a = nn.Linear(8, 8)\n"
        "        self.b = nn.Linear(8, 2)\n\n    def forward(self, x):\n"
        f"        return self.b({call})\n{tail}"
    )


def trained(call: str = "checkpoint(self.a, x)", batch: str = "x", first: str = "") -> str:
    """Return a model and its training on batches of a loader."""
    return net(call) + (
        "\n\nmodel = Net()\nloader = torch.utils.data.DataLoader(data)\nfor x, y in loader:\n"
        f"    {first or 'pass'}\n    loss = nn.functional.cross_entropy(model({batch}), y)\n"
        "    loss.backward()\n    optimizer.step()\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(net("checkpoint(self.a, x, use_reentrant=False)"), id="the new variant"),
        pytest.param(net("checkpoint(self.a, x, use_reentrant=True)"), id="chosen on purpose"),
        pytest.param(net("checkpoint(self.a, x, use_reentrant=old)"), id="by a variable"),
        pytest.param(net("checkpoint(self.a, x, **options)"), id="by a dictionary, perhaps"),
        pytest.param(net("checkpoint(self.a, x, bias=b)"), id="what the old variant refuses"),
        pytest.param(
            net(head=HEAD.replace("torch.utils.checkpoint", "fairscale.nn.checkpoint")),
            id="another library's",
        ),
        pytest.param(
            net(head=f"{HEAD}\n\ndef checkpoint(f, x):\n    return f(x)\n"), id="a wrapper"
        ),
        pytest.param(
            f"{HEAD}with torch.no_grad():\n    y = checkpoint(f, x)\n", id="nothing is kept"
        ),
        pytest.param(
            "from torch.utils.checkpoint import checkpoint_sequential\n"
            "y = checkpoint_sequential(layers, 2, x, False)\n",
            id="by its place",
        ),
    ],
)  # fmt: skip
def test_leaves_alone(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        pytest.param(net(), "1.10", 0, id="before the argument"),
        pytest.param(net(), "1.11", 1, id="with the argument"),
        pytest.param(
            "import torch.utils.checkpoint as cp\ny = cp.checkpoint_sequential(f, 2, x)\n",
            "1.13", 0, id="in a row, before the argument",
        ),
        pytest.param(
            "import torch.utils.checkpoint as cp\ny = cp.checkpoint_sequential(f, 2, x)\n",
            "2.0", 1, id="in a row",
        ),
    ],
)  # fmt: skip
def test_the_version_has_to_know_the_argument(source, target, found):
    assert len(check(source, CODE, target)) == found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "checkpoint(self.a, x)", "checkpoint(self.a, x, use_reentrant=False)", id="one input"
        ),
        pytest.param(
            "checkpoint(self.a, x, preserve_rng_state=False)",
            "checkpoint(self.a, x, preserve_rng_state=False, use_reentrant=False)",
            id="with an option",
        ),
        pytest.param(
            "torch.utils.checkpoint.checkpoint(\n            self.a,\n"
            "            x,  # in\n        )",
            "torch.utils.checkpoint.checkpoint(\n            self.a,\n            x,  # in\n"
            "            use_reentrant=False,\n        )",
            id="one a line",
        ),
    ],
)
def test_chooses_the_new_variant(before, after):
    (found,) = check(net(before), CODE)
    assert found.severity is Severity.WARNING
    assert "`self.a`" in found.message
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE
    assert fixed(net(before), CODE) == net(after)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(trained(), id="by default"),
        pytest.param(trained("checkpoint(self.a, x, use_reentrant=True)"), id="chosen"),
        pytest.param(
            trained("self.a(x)", batch="checkpoint(front, x)").replace(
                "loader = ", "front = Net()\nloader = "
            ),
            id="in the loop",
        ),
    ],
)
def test_a_block_that_is_fed_with_batches_gets_no_gradients(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.ERROR
    assert "requires no gradient" in found.message
    assert "use_reentrant=False" in fixed(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(trained("checkpoint(self.a, self.stem(x))"), id="after a layer"),
        pytest.param(trained("checkpoint(self.a, x, self.dummy)"), id="with another input"),
        pytest.param(trained(first="x.requires_grad_()"), id="a batch that asks for gradients"),
        pytest.param(trained().replace("loss.backward()", "pass").replace(
            "optimizer.step()", "pass"), id="not trained"),
        pytest.param(trained("checkpoint(self.a, x * self.scale)"), id="scaled by a parameter"),
        pytest.param(trained(batch="x.to(device)"), id="moved"),
        pytest.param(net(), id="nobody is seen to call it"),
    ],
)  # fmt: skip
def test_other_inputs_may_require_gradients(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.WARNING


def test_torch_leaves_a_block_without_gradients():
    for reentrant in (True, False):
        block, x = nn.Linear(2, 2), torch.ones(1, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = checkpoint(block, x, use_reentrant=reentrant)
            (out.sum() * torch.ones((), requires_grad=True)).backward()
        assert (block.weight.grad is None) == reentrant
