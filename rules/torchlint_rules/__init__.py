"""The built-in rules: one file a rule, and the table that lists them.

The table is literal and is imported before libcst is: it decides which files are parsed at all.
"""

from __future__ import annotations

from torchlint.edits import Safety
from torchlint.rule import Nearby, Rule, Severity

INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
SAFE, UNSAFE = Safety.SAFE, Safety.UNSAFE

# Words without which no GPU is meant, and without which no step is seen.
GPU = Nearby(("cuda", "device", "gpu", "accelerator", "mps"))
STEPS = Nearby(
    ("backward", "training_step", "zero_grad", ".step(", "no_grad", "inference_mode", ".eval(")
)
# Words without which nothing is read from a GPU.
READS = (
    ".item", ".cpu(", ".tolist", ".to(", "float(", "int(", "isnan", "isfinite", "isinf", "print(",
    "log", "warning(", "info(", "debug(", "add_scalar", "set_postfix", "set_description",
)  # fmt: skip
# What makes a tensor or an array.
MAKES = ("zeros(", "ones(", "full(", "empty(", "eye(", "arange(", "linspace(", "rand(", "randn(",
         "randint(", "randperm(", "random(", "normal(", "uniform(", "sample(",
         "ensor(")  # fmt: skip
# Calls with which a training framework is told the precision.
PRECISION_SWITCHES = ("Trainer(", "TrainingArguments(", "Fabric(", "Accelerator(", "earner(",
                      "create_supervised_trainer(", "deepspeed")  # fmt: skip

RULES: tuple[Rule, ...] = (
    Rule(
        code="TL101",
        name="dataloader-no-workers",
        summary="a DataLoader without workers prepares its samples while training waits",
        severity=WARNING,
        fix=UNSAFE,
        group=4,
        words=(("DataLoader",),),
    ),
    Rule(
        code="TL102",
        name="dataloader-no-pin-memory",
        summary="batches go to a GPU from a DataLoader without pinned memory",
        severity=WARNING,
        fix=SAFE,
        group=4,
        words=(("DataLoader",), GPU),
    ),
    Rule(
        code="TL103",
        name="dataloader-no-persistent-workers",
        summary="the workers of a DataLoader are started anew in every epoch",
        severity=INFO,
        fix=UNSAFE,
        group=4,
        words=(("DataLoader",),),
    ),
    Rule(
        code="TL105",
        name="invalid-worker-options",
        summary="options of a DataLoader exclude each other, or its workers cannot follow them",
        severity=Severity.ERROR,
        fix=None,
        group=2,
        words=(("DataLoader",),),
    ),
    Rule(
        code="TL106",
        name="next-iter-in-loop",
        summary="every training step starts a new pass over the data for one batch",
        severity=WARNING,
        fix=UNSAFE,
        group=4,
        words=(
            ("next(", ".next()", "__next__()"),
            ("iter(", "enumerate("),
            STEPS,
        ),
    ),
    Rule(
        code="TL201",
        name="item-accumulate-in-train-loop",
        summary="a running total waits for the GPU in every training step",
        severity=WARNING,
        fix=SAFE,
        group=5,
        words=((".item", "float(", "int("), GPU, STEPS),
    ),
    Rule(
        code="TL202",
        name="log-every-step",
        summary="a value is read from the GPU in every training step to be logged or kept",
        severity=WARNING,
        fix=None,
        group=5,
        words=(READS, GPU, STEPS),
    ),
    Rule(
        code="TL204",
        name="device-roundtrip-in-loop",
        summary="tensors are copied to the host in every training step",
        severity=WARNING,
        fix=SAFE,
        group=5,
        words=(("cpu", "tolist"), GPU, STEPS),
    ),
    Rule(
        code="TL205",
        name="blocking-h2d-copy",
        summary="the host waits for each pinned batch to be copied to the GPU",
        severity=WARNING,
        fix=SAFE,
        group=5,
        words=(Nearby(("DataLoader",)), Nearby(("pin_memory",)), (".to(", ".cuda(")),
    ),
    Rule(
        code="TL208",
        name="synchronize-in-loop",
        summary="the host waits for the whole GPU in every training step",
        severity=WARNING,
        fix=UNSAFE,
        group=5,
        words=(("synchronize",),),
    ),
    Rule(
        code="TL209",
        name="empty-cache-in-loop",
        summary="memory is cleaned up in every training step",
        severity=WARNING,
        fix=UNSAFE,
        group=5,
        words=(("empty_cache", "gc", "ipc_collect"), ("empty_cache", "collect")),
    ),
    Rule(
        code="TL301",
        name="create-on-cpu-then-move",
        summary="a tensor is made on the host and then copied to the GPU",
        severity=WARNING,
        fix=SAFE,
        group=5,
        words=(MAKES, ("cuda", ".to(", "device=")),
    ),
    Rule(
        code="TL302",
        name="tensor-copies-numpy",
        summary="torch.tensor copies a NumPy array that nobody else needs",
        severity=WARNING,
        fix=SAFE,
        group=5,
        words=(("tensor(",), ("numpy",)),
    ),
    Rule(
        code="TL303",
        name="tensor-from-list-of-arrays",
        summary="torch.tensor takes arrays apart element by element, or copies a tensor",
        severity=WARNING,
        fix=SAFE,
        group=5,
        words=(("ensor(",),),
    ),
    Rule(
        code="TL501",
        name="no-mixed-precision",
        summary="a training step on the GPU computes everything in float32",
        severity=INFO,
        fix=UNSAFE,
        group=9,
        words=(
            ("backward(", *PRECISION_SWITCHES),
            Nearby((*GPU, *PRECISION_SWITCHES)),
        ),
    ),
    Rule(
        code="TL503",
        name="clip-before-unscale",
        summary="gradients are clipped while they are scaled for mixed precision",
        severity=Severity.ERROR,
        fix=UNSAFE,
        group=2,
        words=((".scale",), ("clip", "clamp_"), (".step",)),
    ),
    Rule(
        code="TL507",
        name="tf32-disabled",
        summary="matrix products are computed in full float32 where the GPU has TensorFloat-32",
        severity=INFO,
        fix=UNSAFE,
        group=9,
        words=(
            ("cuda", "allow_tf32", "fp32_precision", "matmul_precision", "accelerator"),
            ("torch",),
        ),
    ),
    Rule(
        code="TL601",
        name="optimizer-not-fused",
        summary="an optimizer updates in many kernels what a fused one updates at once",
        severity=INFO,
        fix=UNSAFE,
        group=7,
        words=(("Adam", "SGD", "Adagrad"), ("optim",)),
    ),
    Rule(
        code="TL602",
        name="zero-grad-not-none",
        summary="gradients are filled with zeros instead of dropped",
        severity=WARNING,
        fix=UNSAFE,
        group=7,
        words=(("zero_grad", ".grad"),),
    ),
    Rule(
        code="TL607",
        name="accumulation-misplaced",
        summary="gradients that are accumulated are dropped, clipped or left whole on the way",
        severity=Severity.ERROR,
        fix=UNSAFE,
        group=2,
        words=(("%",), ("backward",), (".step(",)),
    ),
    Rule(
        code="TL701",
        name="cudnn-benchmark-off",
        summary="convolutions on inputs of one size use algorithms that cuDNN guesses",
        severity=INFO,
        fix=UNSAFE,
        group=8,
        words=(
            ("cuda", "accelerator", "cudnn"),
            ("optim",),
            (
                "Crop",
                "Resize",
                "MNIST",
                "CIFAR",
                "SVHN",
                "STL10",
                "USPS",
                "FakeData",
                "TensorDataset",
            ),
            Nearby(("Conv2d", "Conv3d", "ConvTranspose", "models", "timm")),
        ),
    ),
    Rule(
        code="TL703",
        name="bias-before-norm",
        summary="a bias that the following normalisation subtracts again",
        severity=WARNING,
        fix=UNSAFE,
        group=8,
        words=(("BatchNorm", "InstanceNorm"),),
    ),
    Rule(
        code="TL713",
        name="mha-need-weights",
        summary="attention weights that nobody reads keep attention from its fused kernel",
        severity=WARNING,
        fix=UNSAFE,
        group=8,
        words=(("MultiheadAttention",),),
    ),
    Rule(
        code="TL801",
        name="data-parallel",
        summary="one process trains a model on several GPUs",
        severity=WARNING,
        fix=None,
        group=8,
        words=(
            (
                ".DataParallel",
                " DataParallel",
                "(DataParallel",
                ",DataParallel",
                "\nDataParallel",
                "data_parallel",
            ),
        ),
    ),
    Rule(
        code="TL804",
        name="sampler-no-set-epoch",
        summary="every epoch of a distributed training has the same order of the data",
        severity=ERROR,
        fix=UNSAFE,
        group=4,
        words=(("DistributedSampler", "DistributedDataParallel"), ("DataLoader",)),
    ),
    Rule(
        code="TL901",
        name="detect-anomaly-on",
        summary="every backward pass is searched for NaN, as when debugging",
        severity=WARNING,
        fix=SAFE,
        group=3,
        words=(("detect_anomaly",),),
    ),
    Rule(
        code="TL902",
        name="profiler-left-on",
        summary="a profiler, or a check of gradients, runs along with the whole training",
        severity=WARNING,
        fix=None,
        group=3,
        words=(("profiler", "_record_memory_history", "gradcheck"),),
    ),
    Rule(
        code="TL906",
        name="deprecated-cuda-amp",
        summary="mixed precision by its old names, torch.cuda.amp",
        severity=WARNING,
        fix=SAFE,
        group=1,
        words=(
            ("autocast", "GradScaler", "custom_fwd", "custom_bwd"),
            ("cuda.amp", "cpu.amp", "torch.cuda", "torch.cpu"),
            ("amp",),
        ),
    ),
)
