"""What `same_bits` trusts computes the same bits with gradients on and off, in torch itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from torchlint.training.same_bits import FUNCTIONS, LAYERS, LOSSES, METHODS

if TYPE_CHECKING:
    from collections.abc import Callable

MADE = {
    "Linear": (nn.Linear, (8, 5), (3, 8)),
    "LayerNorm": (nn.LayerNorm, (8,), (3, 8)),
    "GroupNorm": (nn.GroupNorm, (2, 8), (3, 8, 6)),
    "Flatten": (nn.Flatten, (), (3, 4, 5)),
    "Unflatten": (nn.Unflatten, (1, (2, 4)), (3, 8)),
    "Softmax": (nn.Softmax, (1,), (3, 8)),
    "LogSoftmax": (nn.LogSoftmax, (1,), (3, 8)),
    "PixelShuffle": (nn.PixelShuffle, (2,), (3, 8, 4, 4)),
    "ZeroPad2d": (nn.ZeroPad2d, (1,), (3, 8, 4, 4)),
    "ReflectionPad2d": (nn.ReflectionPad2d, (1,), (3, 8, 4, 4)),
    "Upsample": (nn.Upsample, (None, 2.0), (3, 8, 4, 4)),
}


def layer(name: str) -> tuple[nn.Module, torch.Tensor]:
    """A layer and an input that it takes."""
    if name in MADE:
        kind, args, shape = MADE[name]
        return kind(*args), torch.randn(shape)
    kind = getattr(nn, name)
    shape = (3, 8, *(6,) * int(name[-2])) if name[-2].isdigit() else (3, 8)
    if name.startswith("Conv"):
        return kind(8, 4, 3), torch.randn(shape)
    if "Norm" in name:
        return kind(8), torch.randn(shape)
    if "Pool" in name:
        return kind(2), torch.randn(shape)
    if name == "Embedding":
        return kind(10, 4), torch.arange(6).view(2, 3)
    return kind(), torch.randn(shape)


def both(run: Callable[[torch.Tensor], object], x: torch.Tensor) -> None:
    """Assert that a function gives the same bits with gradients on and off."""
    scale = torch.ones((), requires_grad=True)  # what it gets was computed by others
    results = []
    for enabled in (True, False):
        torch.manual_seed(1)
        with torch.set_grad_enabled(enabled):
            result = run(x * scale if x.is_floating_point() else x)
        results.append(result)
    first, second = (r if isinstance(r, tuple) else (r,) for r in results)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(torch.as_tensor(one).detach(), torch.as_tensor(other))


@pytest.mark.parametrize("mode", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", sorted(one.rpartition(".")[2] for one in LAYERS))
def test_layers_give_the_same_bits(name, mode):
    torch.manual_seed(0)
    module, x = layer(name)
    module.train(mode)
    state = {key: value.clone() for key, value in module.state_dict().items()}

    def run(x: torch.Tensor) -> object:
        module.load_state_dict(state)
        return module(x)

    both(run, x)


@pytest.mark.parametrize("name", sorted(one.rpartition(".")[2] for one in LOSSES))
def test_losses_give_the_same_bits(name):
    torch.manual_seed(0)
    x, y = torch.rand(4, 5), torch.rand(4, 5)
    target = torch.randint(5, (4,)) if name in ("CrossEntropyLoss", "NLLLoss") else y
    reduction = "batchmean" if name == "KLDivLoss" else "mean"
    both(lambda x: getattr(nn, name)(reduction=reduction)(x, target), x)


FACTORIES = ("zeros", "ones", "arange", "tensor", "device", "one_hot")  # they take no graph
NAMES = sorted(one for one in FUNCTIONS if not one.endswith(FACTORIES))
OTHER_ARGUMENTS = {
    "softmax": (1,), "log_softmax": (1,), "max_pool2d": (2,), "avg_pool2d": (2,), "topk": (2,),
    "adaptive_avg_pool2d": (2,), "unsqueeze": (0,), "reshape": ((-1,),), "transpose": (0, 1),
    "permute": ((1, 0, 2, 3),),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_functions_give_the_same_bits(name):
    space, _, last = name.rpartition(".")
    torch.manual_seed(0)
    function = getattr(nn.functional if space.endswith("functional") else torch, last)
    x = torch.rand(4, 3, 6, 6)
    if last in ("cat", "stack"):
        both(lambda x: function([x, x]), x)
    elif last in ("cross_entropy", "nll_loss"):
        target = torch.randint(3, (4, 6, 6))
        both(lambda x: function(x, target), x)
    elif last.endswith(("loss", "entropy", "logits", "eq")):
        other = torch.rand_like(x)
        both(lambda x: function(x, other), x)
    else:
        both(lambda x: function(x, *OTHER_ARGUMENTS.get(last, ())), x)


METHOD_ARGUMENTS = {
    "view": (-1,), "reshape": (-1,), "permute": (1, 0), "transpose": (0, 1), "unsqueeze": (0,),
    "expand": (2, 3, 4), "softmax": (1,), "log_softmax": (1,), "topk": (2,), "pow": (2,),
    "clamp": (0.2, 0.8), "to": ("cpu",), "size": (0,),
}  # fmt: skip
COMPARES = {"eq", "ne", "gt", "lt", "ge", "le", "view_as", "expand_as"}


@pytest.mark.parametrize("name", sorted(METHODS - {"cuda"}))
def test_methods_give_the_same_bits(name):
    torch.manual_seed(0)
    x = torch.rand(3, 4)
    if name == "item":
        x = x[0, 0]
    args = (torch.rand(3, 4),) if name in COMPARES else METHOD_ARGUMENTS.get(name, ())
    cut = name in ("numpy", "tolist")  # they refuse a graph

    both(lambda x: getattr(x.detach() if cut else x, name)(*args), x)
