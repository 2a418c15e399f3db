"""What is known of torch's public functions: parameters, and what a call gives.

The parameters are checked against the installed torch by a test.
"""

from __future__ import annotations

# Positional-or-keyword parameters first; after "*" keyword-only ones.
_CONV = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
         "bias", "padding_mode", "device", "dtype")  # fmt: skip
_CONV_TRANSPOSE = ("in_channels", "out_channels", "kernel_size", "stride", "padding",
                   "output_padding", "groups", "bias", "dilation", "padding_mode", "device",
                   "dtype")  # fmt: skip
_BATCH_NORM = ("num_features", "eps", "momentum", "affine", "track_running_stats", "device",
               "dtype", "*", "bias")  # fmt: skip
_ADAM = ("params", "lr", "betas", "eps", "weight_decay", "amsgrad", "*")
_FACTORY = ("*", "dtype", "device", "requires_grad", "pin_memory")

SIGNATURES: dict[str, tuple[str, ...]] = {
    "torch.utils.data.DataLoader": (
        "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers",
        "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn",
        "multiprocessing_context", "generator", "*", "prefetch_factor", "persistent_workers",
        "pin_memory_device", "in_order",
    ),
    "torch.utils.data.DistributedSampler": (
        "dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last",
    ),
    "torch.tensor": ("data", *_FACTORY),
    "torch.as_tensor": ("data", "*", "dtype", "device"),
    "torch.from_numpy": ("ndarray",),
    **{f"torch.nn.Conv{n}d": _CONV for n in (1, 2, 3)},
    **{f"torch.nn.ConvTranspose{n}d": _CONV_TRANSPOSE for n in (1, 2, 3)},
    "torch.nn.Linear": ("in_features", "out_features", "bias", "device", "dtype"),
    **{f"torch.nn.BatchNorm{n}d": _BATCH_NORM for n in (1, 2, 3)},
    **{f"torch.nn.InstanceNorm{n}d": _BATCH_NORM for n in (1, 2, 3)},
    "torch.nn.SyncBatchNorm": (
        "num_features", "eps", "momentum", "affine", "track_running_stats", "process_group",
        "device", "dtype", "*", "bias",
    ),
    **{f"torch.nn.LazyConv{n}d": _CONV[1:] for n in (1, 2, 3)},
    **{f"torch.nn.LazyConvTranspose{n}d": _CONV_TRANSPOSE[1:] for n in (1, 2, 3)},
    "torch.nn.LazyLinear": ("out_features", "bias", "device", "dtype"),
    **{f"torch.nn.LazyBatchNorm{n}d": _BATCH_NORM[1:] for n in (1, 2, 3)},
    "torch.nn.DataParallel": ("module", "device_ids", "output_device", "dim"),
    "torch.nn.parallel.data_parallel": (
        "module", "inputs", "device_ids", "output_device", "dim", "module_kwargs",
    ),
    "torch.optim.Adam": (
        *_ADAM, "foreach", "maximize", "capturable", "differentiable", "fused",
        "decoupled_weight_decay",
    ),
    "torch.optim.AdamW": (
        *_ADAM, "maximize", "foreach", "capturable", "differentiable", "fused",
    ),
    "torch.optim.Adagrad": (
        "params", "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "foreach",
        "*", "maximize", "differentiable", "fused",
    ),
    "torch.optim.SGD": (
        "params", "lr", "momentum", "dampening", "weight_decay", "nesterov", "*", "maximize",
        "foreach", "differentiable", "fused",
    ),
    "torch.utils.checkpoint.checkpoint": (
        "function", "*", "use_reentrant", "context_fn", "determinism_check", "debug", "early_stop",
    ),
    "torch.utils.checkpoint.checkpoint_sequential": (
        "functions", "segments", "input", "use_reentrant",
    ),
    "torch.autograd.grad": (
        "outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs",
        "allow_unused", "is_grads_batched", "materialize_grads",
    ),
    "torch.optim.Optimizer.zero_grad": ("set_to_none",),
    "torch.nn.Module.zero_grad": ("set_to_none",),
    "torch.nn.MultiheadAttention.forward": (
        "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask",
        "average_attn_weights", "is_causal",
    ),
    "torch.autograd.set_detect_anomaly": ("mode", "check_nan"),
    "torch.autograd.detect_anomaly": ("check_nan",),
    "torch.autograd.profiler.profile": (
        "enabled", "*", "use_cuda", "use_device", "record_shapes", "with_flops", "profile_memory",
        "with_stack", "with_modules", "use_kineto", "use_cpu", "experimental_config", "acc_events",
        "custom_trace_id_callback", "post_processing_timeout_s", "activity_filters",
    ),
    "torch.autograd.profiler.emit_nvtx": ("enabled", "record_shapes"),
    "torch.autograd.profiler.emit_itt": ("enabled", "record_shapes"),
    "torch.cuda.memory._record_memory_history": (
        "enabled", "context", "stacks", "max_entries", "device", "clear_history",
        "compile_context", "global_record_annotations", "skip_actions",
    ),
    "torch.Tensor.to": ("device", "dtype", "non_blocking", "copy", "*", "memory_format"),
    "torch.Tensor.cuda": ("device", "non_blocking", "*", "memory_format"),
    "torch.Tensor.cpu": ("*", "memory_format"),
}  # fmt: skip

# The loader of PyTorch Geometric is derived from torch's, and hands what it is not told on to it.
GRAPH_LOADERS = tuple(
    f"torch_geometric.{module}.DataLoader"
    for module in ("loader", "loader.dataloader", "data", "data.dataloader")
)
LIBRARY_SIGNATURES = dict.fromkeys(
    GRAPH_LOADERS, ("dataset", "batch_size", "shuffle", "follow_batch", "exclude_keys", "*")
)

# torch.<name> that gives no tensor.
NO_TENSOR = frozenset(
    {"device", "dtype", "is_tensor", "is_storage", "is_complex", "is_floating_point", "is_nonzero",
     "is_grad_enabled", "numel", "set_default_dtype", "get_default_dtype", "set_default_device",
     "set_default_tensor_type", "manual_seed", "seed", "initial_seed", "get_rng_state",
     "set_rng_state", "save", "load", "compile", "no_grad", "enable_grad", "inference_mode",
     "set_grad_enabled", "autocast", "set_num_threads", "get_num_threads", "set_printoptions",
     "set_flush_denormal", "use_deterministic_algorithms", "set_float32_matmul_precision", "equal",
     "allclose", "finfo", "iinfo", "Size", "Generator", "typename", "is_inference_mode_enabled",
     "result_type", "promote_types", "can_cast", "broadcast_shapes"}
)  # fmt: skip
# Functions and methods that give (values, indices) when a dimension is given ...
PAIR_WITH_DIM = frozenset({"max", "min", "median", "mode", "nanmedian"})
# ... and those that always do.
ALWAYS_PAIR = frozenset({"topk", "sort", "kthvalue", "cummax", "cummin", "frexp", "aminmax"})
SEVERAL = frozenset(
    {"split", "chunk", "unbind", "tensor_split", "meshgrid", "broadcast_tensors", "hsplit",
     "vsplit", "nonzero_tuple", "unsafe_chunk", "unsafe_split"}
)  # fmt: skip

# Tensor methods by what they give; every other method gives a tensor.
TENSOR_NUMBER = frozenset(
    {"item", "dim", "ndimension", "numel", "nelement", "element_size", "data_ptr", "get_device",
     "storage_offset", "__len__", "sparse_dim", "dense_dim"}
)  # fmt: skip
TENSOR_BOOL = frozenset(
    {"is_contiguous", "is_floating_point", "is_complex", "is_pinned", "is_shared", "is_set_to",
     "equal", "allclose", "is_inference", "is_signed", "is_conj"}
)  # fmt: skip
TENSOR_NONE = frozenset({"backward", "register_hook", "retain_grad", "share_memory_"})

# The methods of a tensor, of torch 2.13 and before; those in place have `_` behind the name.
TENSOR_METHODS = frozenset(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all allclose
    amax amin aminmax angle any apply arccos arccosh arcsin arcsinh arctan arctan2 arctanh
    argmax argmin argsort argwhere as_strided as_strided_scatter as_subclass asin asinh atan
    atan2 atanh backward baddbmm bernoulli bfloat16 bincount bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm bool broadcast_to byte cauchy
    ccol_indices cdouble ceil cfloat chalf char cholesky cholesky_inverse cholesky_solve
    chunk clamp clamp_max clamp_min clip clone coalesce col_indices conj conj_physical
    const_data_ptr contiguous copy copysign corrcoef cos cosh count_nonzero cov cpu cross
    crow_indices cuda cummax cummin cumprod cumsum data_ptr deg2rad dense_dim dequantize det
    detach diag diag_embed diagflat diagonal diagonal_scatter diff digamma dim dim_order
    dist div divide dot double dsplit eig element_size eq equal erf erfc erfinv exp exp2
    expand expand_as expm1 exponential fill fill_diagonal fix flatten flip fliplr flipud
    float float_power floor floor_divide fmax fmin fmod frac frexp gather gcd ge gels
    geometric geqrf ger gesv get_device greater greater_equal gt half hardshrink hash_tensor
    heaviside histc histogram hsplit hypot i0 igamma igammac index index_add index_copy
    index_fill index_put index_reduce index_select indices inner int int_repr inverse ipu
    is_coalesced is_complex is_conj is_contiguous is_distributed is_floating_point
    is_inference is_neg is_nonzero is_pinned is_same_size is_set_to is_shared is_signed
    isclose isfinite isinf isnan isneginf isposinf isreal istft item kron kthvalue lcm ldexp
    le lerp less less_equal lgamma log log10 log1p log2 log_normal log_softmax logaddexp
    logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit
    logsumexp long lstsq lt lu lu_solve map map2 masked_fill masked_scatter masked_select
    matmul matrix_exp matrix_power max maximum mean median min minimum mm mode module_load
    moveaxis movedim msort mtia mul multinomial multiply mv mvlgamma nan_to_num nanmean
    nanmedian nanquantile nansum narrow narrow_copy ndimension ne neg negative nelement new
    new_empty new_empty_strided new_full new_ones new_tensor new_zeros nextafter nonzero
    nonzero_static norm normal not_equal numel numpy orgqr ormqr outer permute pin_memory
    pinverse polygamma positive pow prelu prod put q_per_channel_axis q_per_channel_scales
    q_per_channel_zero_points q_scale q_zero_point qr qscheme quantile rad2deg random ravel
    reciprocal record_stream register_hook register_post_accumulate_grad_hook reinforce relu
    remainder renorm repeat repeat_interleave requires_grad reshape reshape_as resize
    resize_as resize_as_sparse resolve_conj resolve_neg retain_grad roll rot90 round
    row_indices rsqrt scatter scatter_add scatter_reduce select select_scatter set sgn
    share_memory short sigmoid sign signbit sin sinc sinh size slice_inverse slice_scatter
    slogdet smm softmax solve sort sparse_dim sparse_mask sparse_resize
    sparse_resize_and_clear split split_with_sizes sqrt square squeeze sspaddmm std stft
    storage storage_offset storage_type stride sub subtract sum sum_to_size svd swapaxes
    swapdims symeig t take take_along_dim tan tanh tensor_split tile to to_dense to_mkldnn
    to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc
    to_sparse_csr tolist topk trace transpose triangular_solve tril triu trtrs true_divide
    trunc type type_as unbind unflatten unfold uniform unique unique_consecutive
    unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze untyped_storage values var
    vdot view view_as vsplit where xlogy xpu zero
    """.split()
)
# Tensor attributes that are no tensor.
TENSOR_FLAGS = frozenset(
    {"is_cuda", "is_leaf", "requires_grad", "is_sparse", "is_quantized", "is_meta", "is_mps",
     "is_xpu", "is_nested", "retains_grad", "is_cpu"}
)  # fmt: skip

# Methods of a module that give the module back.
MODULE_SELF = frozenset(
    {"to", "cuda", "cpu", "xpu", "eval", "train", "half", "float", "double", "bfloat16", "type",
     "apply", "requires_grad_", "to_empty", "share_memory", "ipu"}
)  # fmt: skip

# torch.nn layers that do not give one tensor.
RECURRENT = frozenset({"torch.nn.RNN", "torch.nn.GRU", "torch.nn.LSTM"})

OPTIMIZERS = frozenset(
    f"torch.optim.{name}"
    for name in ("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS",
                 "Muon", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam")
)  # fmt: skip
# What cuts off gradients by their norm, and gives that; up to torch 1.4 as a Python number.
NORM_CLIPS = frozenset(
    f"torch.nn.utils.{module}{name}"
    for module in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_norm")
)
# What cuts off gradients, in place, before an optimizer's step.
CLIPS = (
    NORM_CLIPS
    | {
        f"torch.nn.utils.{module}{name}"
        for module in ("", "clip_grad.")
        for name in ("clip_grad_value_", "clip_grads_with_norm_")
    }
    | {f"timm.utils.{name}" for name in ("dispatch_clip_grad", "adaptive_clip_grad")}
)
GRAD_SCALERS = frozenset(
    {"torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cpu.amp.GradScaler"}
)
DATASET_BASES = frozenset(
    f"torch.utils.data.{name}"
    for name in ("Dataset", "IterableDataset", "TensorDataset", "Subset", "ConcatDataset")
)
MODULE_BASES = frozenset(
    {"torch.nn.Module", "torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict",
     "transformers.PreTrainedModel", "lightning.LightningModule",
     "pytorch_lightning.LightningModule", "lightning.pytorch.LightningModule",
     "torch.jit.ScriptModule", "torch.nn._Loss", "torch.nn._WeightedLoss"}
)  # fmt: skip
