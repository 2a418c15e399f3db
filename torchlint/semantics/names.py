"""One spelling for each public name of a library."""

from __future__ import annotations

import functools
import sys

# The inner modules in which public names live, by the module that documents them.
_INNER = {
    "torch.utils.data": ("dataloader", "dataset", "sampler", "distributed"),
    "torch.optim": ("adam", "adamw", "adagrad", "sgd", "optimizer", "rmsprop"),
    "torch.cuda.amp": ("autocast_mode", "grad_scaler"),
    "torch.amp": ("autocast_mode", "grad_scaler"),
    "torch.autograd": ("anomaly_mode", "gradcheck", "function"),
    "torch.profiler": ("profiler",),
    "torch.nn.parallel": ("distributed", "data_parallel"),
}
_MOVED = {
    f"{home}.{inner}": home for home, inner_modules in _INNER.items() for inner in inner_modules
} | {"torch.autograd.grad_mode": "torch", "torch.nn.modules": "torch.nn"}
# One framework under three names.
_LIGHTNING = ("pytorch_lightning.", "lightning.pytorch.", "lightning.core.module.")
PACKAGES = {"lightning": ("lightning", "pytorch_lightning")}  # that a name may be imported from
_SAME = {
    "transformers.trainer.Trainer": "transformers.Trainer",
    "transformers.trainer_callback.TrainerCallback": "transformers.TrainerCallback",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "tqdm.trange": "builtins.range",
    "tqdm.auto.trange": "builtins.range",
    "tqdm.notebook.trange": "builtins.range",
}

# Libraries that any table knows names of; they are not looked into, not even in their own projects.
LIBRARIES = frozenset(
    """
    torch torchvision torchaudio torchtext torchdata torch_xla torch_geometric apex timm lightning
    pytorch_lightning lightning_fabric accelerate deepspeed fastai ignite composer transformers
    diffusers datasets bitsandbytes numpy scipy pandas cupy numba triton tqdm rich click typer fire
    wandb mlflow tensorboard tensorboardX loguru psutil nvtx cv2 PIL skimage sklearn matplotlib
    """.split()
)


def is_of_library(name: str) -> bool:
    """Whether a dotted name is one of the standard library, or of a library that tables know."""
    root = name.partition(".")[0]
    return root in LIBRARIES or root in sys.stdlib_module_names


@functools.lru_cache(4096)
def canonical(name: str) -> str:
    """Return the documented name of what a library has in several places."""
    for prefix in _LIGHTNING:
        if name.startswith(prefix):
            name = f"lightning.{name[len(prefix) :]}"
    module, _, last = name.rpartition(".")
    if module.startswith("torch.nn.modules.") and module.count(".") == 3:
        module = "torch.nn"
    found = f"{_MOVED.get(module, module)}.{last}" if module else last
    return _SAME.get(found, found)
