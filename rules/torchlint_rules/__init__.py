"""The built-in rules: one file a rule, and the table that lists them.

The table is literal and is imported before libcst is: it decides which files are parsed at all.
"""

from __future__ import annotations

from torchlint.edits.fix import Safety
from torchlint.rule import Level, Nearby, Needs, Rule, Severity

INFO, ERROR = Severity.INFO, Severity.ERROR
SAFE, UNSAFE = Safety.SAFE, Safety.UNSAFE

# Words without which no GPU is meant, and without which no step is seen.
GPU = Nearby(("cuda", "device", "gpu", "accelerator", "mps", "Trainer", "Lightning"))
STEPS = Nearby(
    "backward training_step compute_loss zero_grad .step( no_grad inference_mode .eval(".split()
)
# Words without which nothing is read from a GPU.
READS = tuple(
    """
    .item .data[0] .cpu( .tolist .to( float( int( isnan isfinite isinf print( log warning( info(
    debug( add_scalar set_postfix set_description
    """.split()
)
# What spreads a model over several GPUs: a class of the project may be derived from it.
SPREADS = Nearby(("DataParallel", "data_parallel"))
# What makes a tensor or an array.
MAKES = tuple(
    """
    zeros( ones( full( empty( eye( arange( linspace( rand( randn( randint( randperm( random(
    normal( uniform( sample( ensor( from_numpy(
    """.split()
)
# What a training framework is told the precision by.
PRECISION_SWITCHES = tuple(
    """
    Trainer TrainingArguments Fabric Accelerator earner create_supervised_trainer deepspeed
    """.split()
)

# The switches of TensorFloat-32, by their last names.
TF32 = ("allow_tf32", "fp32_precision", "matmul_precision")

RULES: tuple[Rule, ...] = (
    Rule(
        code="TL101",
        name="dataloader-no-workers",
        summary="a DataLoader without workers prepares its samples while training waits",
        fix=UNSAFE,
        group=4,
        level=Level.E2,
        words=(("DataLoader",),),
    ),
    Rule(
        code="TL102",
        name="dataloader-no-pin-memory",
        summary="batches go to a GPU from a DataLoader without pinned memory",
        fix=SAFE,
        group=4,
        needs=Needs.GPU,
        words=(("DataLoader",), GPU),
    ),
    Rule(
        code="TL103",
        name="dataloader-no-persistent-workers",
        summary="the workers of a DataLoader are started anew in every epoch",
        severity=INFO,
        fix=UNSAFE,
        group=4,
        level=Level.E2,
        words=(("DataLoader",),),
    ),
    Rule(
        code="TL104",
        name="tensordataset-per-sample-collate",
        summary="tensors are taken apart sample by sample, and the samples stacked again",
        fix=SAFE,
        group=4,
        words=(Nearby(("TensorDataset",)), ("DataLoader",)),
    ),
    Rule(
        code="TL105",
        name="invalid-worker-options",
        summary="options of a DataLoader exclude each other, or its workers cannot follow them",
        severity=ERROR,
        group=2,
        words=(("DataLoader",),),
        in_tests=True,
    ),
    Rule(
        code="TL106",
        name="next-iter-in-loop",
        summary="every training step starts a new pass over the data for one batch",
        fix=UNSAFE,
        group=4,
        level=Level.E3,
        words=(
            ("next(", ".next()", "__next__()"),
            ("iter(", "enumerate("),
        ),
    ),
    Rule(
        code="TL108",
        name="cuda-in-dataset",
        summary="samples are copied to the GPU one by one, or where workers cannot",
        group=2,
        needs=Needs.GPU,
        words=(("Dataset", "collate", "DataLoader"), ("cuda", "device")),
    ),
    Rule(
        code="TL201",
        name="item-accumulate-in-train-loop",
        summary="a running total waits for the GPU in every training step",
        fix=SAFE,
        group=5,
        needs=Needs.GPU,
        words=((".item", "float(", "int(", ".data[0]"), GPU, STEPS),
    ),
    Rule(
        code="TL202",
        name="log-every-step",
        summary="a value is read from the GPU in every training step to be logged or kept",
        fix=UNSAFE,
        group=5,
        needs=Needs.GPU,
        words=(READS, GPU, STEPS),
    ),
    Rule(
        code="TL203",
        name="tensor-control-flow",
        summary="the truth of a tensor on the GPU is asked for in every training step",
        group=5,
        needs=Needs.GPU,
        words=(GPU, STEPS),
    ),
    Rule(
        code="TL204",
        name="device-roundtrip-in-loop",
        summary="tensors are copied to the host in every training step",
        fix=SAFE,
        group=5,
        needs=Needs.GPU,
        words=(("cpu", "tolist"), GPU, STEPS),
    ),
    Rule(
        code="TL205",
        name="blocking-h2d-copy",
        summary="the host waits for each pinned batch to be copied to the GPU",
        fix=SAFE,
        group=5,
        needs=Needs.GPU,
        words=(Nearby(("DataLoader",)), Nearby(("pin_memory",)), (".to(", ".cuda(", ".type(")),
    ),
    Rule(
        code="TL206",
        name="nonblocking-d2h-race",
        summary="a copy to the host is read before it is complete",
        severity=ERROR,
        fix=SAFE,
        group=2,
        needs=Needs.GPU,
        words=((".to(", ".copy_("), ("non_blocking", "pin_memory")),
        in_tests=True,
    ),
    Rule(
        code="TL208",
        name="synchronize-in-loop",
        summary="the host waits for the whole GPU in every training step",
        fix=UNSAFE,
        group=5,
        needs=Needs.GPU,
        words=(("synchronize",),),
    ),
    Rule(
        code="TL209",
        name="empty-cache-in-loop",
        summary="memory is cleaned up in every training step",
        fix=UNSAFE,
        group=5,
        words=(("empty_cache", "gc", "ipc_collect"), ("empty_cache", "collect")),
    ),
    Rule(
        code="TL301",
        name="create-on-cpu-then-move",
        summary="a tensor is made on the host and then copied to the GPU",
        fix=SAFE,
        group=5,
        level=Level.E2,
        needs=Needs.GPU,
        words=(MAKES, Nearby(("cuda", ".to(", ".type_as(", "device="))),
    ),
    Rule(
        code="TL302",
        name="tensor-copies-numpy",
        summary="torch.tensor copies a NumPy array that nobody else needs",
        fix=SAFE,
        group=5,
        words=(("tensor(",), ("numpy",)),
    ),
    Rule(
        code="TL303",
        name="tensor-from-list-of-arrays",
        summary="torch.tensor takes arrays apart element by element, or copies a tensor",
        fix=SAFE,
        group=5,
        words=(("ensor(",),),
    ),
    Rule(
        code="TL310",
        name="python-loop-over-tensor",
        summary="a Python loop computes with one row of a tensor at a time in every training step",
        group=8,
        words=(("for ",), STEPS),
    ),
    Rule(
        code="TL401",
        name="eval-without-no-grad",
        summary="a model is evaluated with gradients on, which nobody asks for",
        fix=SAFE,
        group=6,
        words=(
            Nearby(("nn", "odel", "odule", "net", "encoder", "critic", "rator", "timm", "hub.")),
        ),
    ),
    Rule(
        code="TL402",
        name="loss-retains-graph",
        summary="a running total or a list keeps the graph of every step alive",
        fix=SAFE,
        group=2,
        words=(("for ", "while ", "def "), ("backward", "append", "+", ".update(", ".add")),
    ),
    Rule(
        code="TL407",
        name="checkpoint-use-reentrant",
        summary="activation checkpointing by its old, reentrant variant",
        fix=UNSAFE,
        group=2,
        level=Level.E3,
        words=(("checkpoint",), ("utils.checkpoint", "utils import")),
    ),
    Rule(
        code="TL501",
        name="no-mixed-precision",
        summary="a training step on the GPU computes everything in float32",
        severity=INFO,
        fix=UNSAFE,
        group=9,
        level=Level.E2,
        needs=Needs.GPU,
        words=(
            Nearby(("backward", *PRECISION_SWITCHES)),
            Nearby((*GPU, *PRECISION_SWITCHES)),
        ),
    ),
    Rule(
        code="TL503",
        name="clip-before-unscale",
        summary="gradients are clipped while they are scaled for mixed precision",
        severity=ERROR,
        fix=UNSAFE,
        group=2,
        level=Level.E3,
        words=(("scale",), (".step",)),
        in_tests=True,
    ),
    Rule(
        code="TL507",
        name="tf32-disabled",
        summary="matrix products are computed in full float32 where the GPU has TensorFloat-32",
        severity=INFO,
        fix=UNSAFE,
        group=9,
        level=Level.E2,
        needs=Needs.GPU,
        words=(
            Nearby(("cuda", "accelerator", *TF32)),
            Nearby(("Linear", "ttention", "ransformer", "matmul", "mm", "einsum", "@", *TF32)),
            Nearby(("backward", ".step(", "zero_grad", *TF32)),
        ),
    ),
    Rule(
        code="TL601",
        name="optimizer-not-fused",
        summary="an optimizer updates in many kernels what a fused one updates at once",
        severity=INFO,
        fix=UNSAFE,
        group=7,
        level=Level.E1,
        words=(Nearby(("Adam", "SGD", "Adagrad")), Nearby(("optim",))),
    ),
    Rule(
        code="TL602",
        name="zero-grad-not-none",
        summary="gradients are filled with zeros instead of dropped",
        fix=UNSAFE,
        group=7,
        words=(("zero_grad", ".grad"),),
    ),
    Rule(
        code="TL604",
        name="python-ema-loop",
        summary="a moving average of the parameters is kept in many small kernels a step",
        severity=INFO,
        fix=UNSAFE,
        group=7,
        level=Level.E1,
        words=(
            ("param", "state_dict"),
            ("lerp", "mul_(", "copy_(", "add_(", "sub_(", "*"),
            ("lerp", "sub_(", "add_(", "1 -", "1-", "1. -", "1.-", "1.0 -", "1.0-", "0.9"),
            Nearby(("backward", ".step(", "zero_grad", "training_step")),
        ),
    ),
    Rule(
        code="TL605",
        name="scheduler-step-frequency",
        summary="a schedule of the learning rate is moved on too early, or too seldom",
        group=2,
        words=((".step()",), Nearby(("lr_scheduler", "transformers"))),
        in_tests=True,
    ),
    Rule(
        code="TL607",
        name="accumulation-misplaced",
        summary="gradients that are accumulated are dropped, clipped or left whole on the way",
        severity=ERROR,
        fix=UNSAFE,
        group=2,
        level=Level.E3,
        words=(("backward",), (".step(",)),
        in_tests=True,
    ),
    Rule(
        code="TL701",
        name="cudnn-benchmark-off",
        summary="convolutions use algorithms that cuDNN guesses",
        severity=INFO,
        fix=UNSAFE,
        group=8,
        level=Level.E2,
        needs=Needs.GPU,
        words=(
            Nearby(("cuda", "accelerator", "cudnn")),
            Nearby(("backward", ".step(", "zero_grad")),
            Nearby(("Conv", "conv", "models", "timm")),
        ),
    ),
    Rule(
        code="TL703",
        name="bias-before-norm",
        summary="a bias that the following normalisation subtracts again",
        severity=INFO,
        fix=UNSAFE,
        group=8,
        level=Level.E2,
        words=(("BatchNorm", "InstanceNorm"),),
    ),
    Rule(
        code="TL705",
        name="no-torch-compile",
        summary="a model is trained kernel by kernel, without a compiler",
        severity=INFO,
        fix=UNSAFE,
        group=10,
        level=Level.E2,
        needs=Needs.GPU,
        words=(
            Nearby(("cuda", "accelerator", "TrainingArguments", "Accelerator")),
            Nearby(("backward", ".step(", "zero_grad", "TrainingArguments")),
        ),
    ),
    Rule(
        code="TL713",
        name="mha-need-weights",
        summary="attention weights that nobody reads keep attention from its fused kernel",
        fix=UNSAFE,
        group=8,
        level=Level.E1,
        words=(("MultiheadAttention",),),
    ),
    Rule(
        code="TL801",
        name="data-parallel",
        summary="one process trains a model on several GPUs",
        group=8,
        needs=Needs.GPUS,
        words=(SPREADS,),
    ),
    Rule(
        code="TL802",
        name="ddp-accumulation-sync",
        summary="gradients of micro-batches are averaged over all processes one by one",
        group=8,
        words=(("backward(",), (".step(",), Nearby(("Distributed", "distributed", "DDP"))),
    ),
    Rule(
        code="TL803",
        name="ddp-find-unused-parameters",
        summary="each step looks for parameters that it left out, where there are none",
        fix=UNSAFE,
        group=8,
        level=Level.E1,
        words=(("find_unused_parameters",),),
    ),
    Rule(
        code="TL804",
        name="sampler-no-set-epoch",
        summary="every epoch of a distributed training has the same order of the data",
        severity=ERROR,
        fix=UNSAFE,
        group=4,
        level=Level.E3,
        words=(("DistributedSampler", "DistributedDataParallel"), ("DataLoader",)),
        in_tests=True,
    ),
    Rule(
        code="TL901",
        name="detect-anomaly-on",
        summary="every backward pass is searched for NaN, as when debugging",
        fix=SAFE,
        group=3,
        words=(("detect_anomaly",),),
    ),
    Rule(
        code="TL902",
        name="profiler-left-on",
        summary="a profiler, or a check of gradients, runs along with the whole training",
        group=3,
        words=(("profiler", "gradcheck"),),
    ),
    Rule(
        code="TL906",
        name="deprecated-cuda-amp",
        summary="mixed precision by its old names, torch.cuda.amp",
        fix=SAFE,
        group=1,
        words=(
            ("autocast", "GradScaler", "custom_fwd", "custom_bwd"),
            ("cuda.amp", "cpu.amp", "torch.cuda", "torch.cpu"),
            ("amp",),
        ),
        in_tests=True,
    ),
)
