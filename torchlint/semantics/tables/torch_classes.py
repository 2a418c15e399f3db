"""Classes of torch and its relatives, by the kind of thing they make."""

from __future__ import annotations

import re

from torchlint.semantics.tables.tensors import names

LAYERS = names(
    """Linear Bilinear LazyLinear Identity Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
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
    ReplicationPad1d ReplicationPad2d ConstantPad1d ConstantPad2d ChannelShuffle""",
    "torch.nn.",
)
CONTAINERS = names("Sequential ModuleList ModuleDict ParameterList", "torch.nn.")
LOSSES = names(
    """CrossEntropyLoss NLLLoss MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss
    KLDivLoss CTCLoss PoissonNLLLoss GaussianNLLLoss HingeEmbeddingLoss MarginRankingLoss
    MultiMarginLoss
    MultiLabelMarginLoss MultiLabelSoftMarginLoss SoftMarginLoss CosineEmbeddingLoss
    TripletMarginLoss TripletMarginWithDistanceLoss""",
    "torch.nn.",
)
WRAPPERS = names(
    """torch.nn.DataParallel torch.nn.parallel.DistributedDataParallel torch.compile
    torch.jit.script torch.jit.trace torch.distributed.fsdp.FullyShardedDataParallel
    apex.parallel.DistributedDataParallel"""
)
OPTIMIZERS = names(
    """Optimizer Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD LBFGS Muon NAdam RAdam RMSprop
    Rprop SGD SparseAdam""",
    "torch.optim.",
) | names("create_optimizer create_optimizer_v2", "timm.optim.")
SCALERS = names("torch.amp.GradScaler torch.cuda.amp.GradScaler torch.cpu.amp.GradScaler")
LOADERS = names(
    """torch.utils.data.DataLoader torch_geometric.loader.DataLoader torch_geometric.data.DataLoader
    torch_geometric.loader.dataloader.DataLoader torch_geometric.data.dataloader.DataLoader"""
)
DATASETS = names(
    "Dataset IterableDataset TensorDataset Subset ConcatDataset ChainDataset", "torch.utils.data."
)
MODULES = names(
    """torch.nn.Module torch.jit.ScriptModule transformers.PreTrainedModel lightning.LightningModule
    torch.nn._Loss torch.nn._WeightedLoss"""
)
# Functions of libraries that make models, by how their names begin.
MAKES_MODELS = tuple(
    """timm.create_model torchvision.models.alexnet torchvision.models.convnext
    torchvision.models.densenet torchvision.models.efficientnet torchvision.models.googlenet
    torchvision.models.inception_v3 torchvision.models.maxvit torchvision.models.mnasnet
    torchvision.models.mobilenet_v2 torchvision.models.mobilenet_v3 torchvision.models.regnet
    torchvision.models.resnet1 torchvision.models.resnet3 torchvision.models.resnet5
    torchvision.models.resnext torchvision.models.shufflenet_v2 torchvision.models.squeezenet1
    torchvision.models.swin_ torchvision.models.vgg1 torchvision.models.vit_
    torchvision.models.wide_resnet""".split()
)
# Methods of classes of transformers that make one of its models, by the names of the classes.
PRETRAINED = re.compile(
    r"transformers\.(?:\w+\.)*\w*(?:Model|For[A-Z])\w*\.from_(?:pretrained|config)"
)
SCHEDULERS = "torch.optim.lr_scheduler."
_SCHEDULES = """scheduler constant_schedule constant_schedule_with_warmup
    linear_schedule_with_warmup cosine_schedule_with_warmup
    cosine_with_hard_restarts_schedule_with_warmup polynomial_decay_schedule_with_warmup
    inverse_sqrt_schedule wsd_schedule"""
SCHEDULES = names(_SCHEDULES, "transformers.get_") | names(
    _SCHEDULES, "transformers.optimization.get_"
)
PROFILERS = (
    "torch.profiler.profile",
    "torch.autograd.profiler.profile",
    "torch.autograd.profiler.emit_nvtx",
    "torch.autograd.profiler.emit_itt",
)

KINDS: dict[str, str] = {
    **dict.fromkeys(LAYERS | CONTAINERS | MODULES, "module"),
    **dict.fromkeys(LOSSES, "criterion"),
    **dict.fromkeys(OPTIMIZERS, "optimizer"),
    **dict.fromkeys(SCALERS, "scaler"),
    **dict.fromkeys(SCHEDULES, "scheduler"),
    **dict.fromkeys(LOADERS, "loader"),
    **dict.fromkeys(DATASETS, "dataset"),
    **dict.fromkeys(WRAPPERS, "module"),
    **dict.fromkeys(PROFILERS, "profiler"),
}


def kind_of(name: str) -> str:
    """Return what a class of a library makes: a "module", an "optimizer" ..., or ""."""
    if name.startswith(MAKES_MODELS) or PRETRAINED.fullmatch(name):
        return "module"
    return "scheduler" if name.startswith(SCHEDULERS) else KINDS.get(name, "")
