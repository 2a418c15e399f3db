"""Classes of torch and its relatives, by the kind of thing they make."""

from __future__ import annotations

import re

LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in """
    Linear Bilinear LazyLinear Identity Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
    ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d
    LazyConvTranspose3d BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d
    LazyBatchNorm3d SyncBatchNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm RMSNorm
    GroupNorm LocalResponseNorm Embedding EmbeddingBag RNN LSTM GRU RNNCell LSTMCell GRUCell
    Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer
    TransformerDecoderLayer MultiheadAttention Dropout Dropout1d Dropout2d Dropout3d AlphaDropout
    FeatureAlphaDropout ReLU ReLU6 ELU SELU CELU GELU SiLU Mish Sigmoid Tanh Softmax LogSoftmax
    Softmin Softplus Softsign Hardtanh Hardswish Hardsigmoid LeakyReLU PReLU RReLU GLU Threshold
    MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d AdaptiveAvgPool1d
    AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
    MaxUnpool1d MaxUnpool2d MaxUnpool3d Flatten Unflatten Fold Unfold Upsample UpsamplingNearest2d
    UpsamplingBilinear2d PixelShuffle PixelUnshuffle ZeroPad2d ReflectionPad1d ReflectionPad2d
    ReplicationPad1d ReplicationPad2d ConstantPad1d ConstantPad2d ChannelShuffle
    """.split()
)
CONTAINERS = frozenset(
    f"torch.nn.{name}" for name in ("Sequential", "ModuleList", "ModuleDict", "ParameterList")
)
LOSSES = frozenset(
    f"torch.nn.{name}"
    for name in """
    CrossEntropyLoss NLLLoss MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss
    KLDivLoss CTCLoss PoissonNLLLoss GaussianNLLLoss HingeEmbeddingLoss MarginRankingLoss
    MultiMarginLoss
    MultiLabelMarginLoss MultiLabelSoftMarginLoss SoftMarginLoss CosineEmbeddingLoss
    TripletMarginLoss TripletMarginWithDistanceLoss
    """.split()
)
WRAPPERS = frozenset({
    "torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.compile",
    "torch.jit.script", "torch.jit.trace", "torch.distributed.fsdp.FullyShardedDataParallel",
    "apex.parallel.DistributedDataParallel",
})  # fmt: skip
OPTIMIZERS = frozenset(
    f"torch.optim.{name}"
    for name in """
    Optimizer Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD LBFGS Muon NAdam RAdam RMSprop Rprop
    SGD SparseAdam
    """.split()
)
SCALERS = frozenset(
    {"torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler"}
)
LOADERS = frozenset(
    {"torch.utils.data.DataLoader"}
    | {
        f"torch_geometric.{module}.DataLoader"
        for module in ("loader", "loader.dataloader", "data", "data.dataloader")
    }
)
DATASETS = frozenset(
    f"torch.utils.data.{name}"
    for name in ("Dataset", "IterableDataset", "TensorDataset", "Subset", "ConcatDataset",
                 "ChainDataset")
)  # fmt: skip
MODULES = frozenset({
    "torch.nn.Module", "torch.jit.ScriptModule", "transformers.PreTrainedModel",
    "lightning.LightningModule", "torch.nn._Loss", "torch.nn._WeightedLoss",
})  # fmt: skip
# Functions of libraries that make models, by how their names begin.
MAKES_MODELS = ("timm.create_model", *(
    f"torchvision.models.{name}"
    for name in """
    alexnet convnext densenet efficientnet googlenet inception_v3 maxvit mnasnet mobilenet_v2
    mobilenet_v3 regnet resnet1 resnet3 resnet5 resnext shufflenet_v2 squeezenet1 swin_ vgg1 vit_
    wide_resnet
    """.split()
))  # fmt: skip
# Methods of classes of transformers that make one of its models, by the names of the classes.
PRETRAINED = re.compile(
    r"transformers\.(?:\w+\.)*\w*(?:Model|For[A-Z])\w*\.from_(?:pretrained|config)"
)
SCHEDULERS = "torch.optim.lr_scheduler."
SCHEDULES = frozenset(
    f"transformers.{module}get_{name}"
    for module in ("", "optimization.")
    for name in ("scheduler", "constant_schedule", "constant_schedule_with_warmup",
                 "linear_schedule_with_warmup", "cosine_schedule_with_warmup",
                 "cosine_with_hard_restarts_schedule_with_warmup",
                 "polynomial_decay_schedule_with_warmup", "inverse_sqrt_schedule",
                 "wsd_schedule")
)  # fmt: skip

KINDS: dict[str, str] = {
    **dict.fromkeys(LAYERS | CONTAINERS | MODULES, "module"),
    **dict.fromkeys(LOSSES, "criterion"),
    **dict.fromkeys(OPTIMIZERS, "optimizer"),
    **dict.fromkeys(SCALERS, "scaler"),
    **dict.fromkeys(SCHEDULES, "scheduler"),
    **dict.fromkeys(LOADERS, "loader"),
    **dict.fromkeys(DATASETS, "dataset"),
    **dict.fromkeys(WRAPPERS, "module"),
}


def kind_of(name: str) -> str:
    """Return what a class of a library makes: a "module", an "optimizer" ..., or ""."""
    if name.startswith(MAKES_MODELS) or PRETRAINED.fullmatch(name):
        return "module"
    return "scheduler" if name.startswith(SCHEDULERS) else KINDS.get(name, "")
