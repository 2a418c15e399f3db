"""One spelling for each public name of a library."""

from __future__ import annotations

import functools

# Where a public name also lives, and where it is documented.
_MOVED = (
    ("torch.nn.modules.", "torch.nn."),
    ("torch.utils.data.", "torch.utils.data."),
    ("torch.optim.", "torch.optim."),
    ("torch.cuda.amp.", "torch.cuda.amp."),
    ("torch.amp.", "torch.amp."),
    ("torch.autograd.", "torch.autograd."),
    ("torch.profiler.", "torch.profiler."),
    ("torch.nn.parallel.", "torch.nn.parallel."),
)
_INNER = {
    "torch.nn.modules.": ("conv", "batchnorm", "instancenorm", "linear", "container", "module",
                          "loss", "activation", "normalization", "dropout", "pooling", "rnn",
                          "sparse", "transformer", "upsampling", "padding", "flatten"),
    "torch.utils.data.": ("dataloader", "dataset", "sampler", "distributed"),
    "torch.optim.": ("adam", "adamw", "adagrad", "sgd", "optimizer", "rmsprop"),
    "torch.cuda.amp.": ("autocast_mode", "grad_scaler"),
    "torch.amp.": ("autocast_mode", "grad_scaler"),
    "torch.autograd.": ("anomaly_mode", "gradcheck", "function"),
    "torch.profiler.": ("profiler",),
    "torch.nn.parallel.": ("distributed", "data_parallel"),
}  # fmt: skip
_ELSEWHERE = {
    "torch.autograd.grad_mode.": "torch.",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.cuda.amp.autocast": "torch.cuda.amp.autocast",
}


@functools.lru_cache(4096)
def canonical(name: str) -> str:
    """Return the documented name of what a library has in several places.

    >>> canonical("torch.nn.modules.conv.Conv2d")
    'torch.nn.Conv2d'
    """
    for old, new in _MOVED:
        if name.startswith(old):
            inner, _, rest = name[len(old) :].partition(".")
            if rest and "." not in rest and inner in _INNER[old]:
                return _ELSEWHERE.get(new + rest, new + rest)
            if not rest and old != new:
                return new + inner
    for old, new in _ELSEWHERE.items():
        if name == old or (old.endswith(".") and name.startswith(old)):
            return new + name[len(old) :]
    return name
