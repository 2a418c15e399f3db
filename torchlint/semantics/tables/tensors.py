"""Attributes and methods of a tensor, by what they give."""

from __future__ import annotations


def names(text: str, prefix: str = "") -> frozenset[str]:
    """Return the words of a text, each behind a prefix."""
    return frozenset(prefix + word for word in text.split())


FLAGS = names("""is_cuda is_leaf requires_grad is_sparse is_quantized is_meta is_mps is_xpu
    is_nested retains_grad is_cpu""")
HOST_NUMBERS = names("ndim itemsize nbytes")
SELF_VIEWS = names("T mT H mH real imag")
KNOWN = (
    FLAGS
    | HOST_NUMBERS
    | SELF_VIEWS
    | names("shape device data grad dtype layout grad_fn names to cuda cpu type float size")
)

# Methods that give no tensor.
NUMBERS = names("""_nnz dim ndimension numel nelement element_size data_ptr get_device
    storage_offset __len__ sparse_dim dense_dim""")
BOOLS = names("""is_contiguous is_floating_point is_complex is_pinned is_shared is_set_to
    is_inference is_signed is_conj is_same_size""")
NOTHING = names("backward register_hook retain_grad")
# Methods that read numbers of the tensor on the host: it waits for the GPU.
READS = names("item tolist numpy __bool__ __float__ __int__ equal allclose is_nonzero")
# Methods that give views of the same memory ...
VIEWS = names("""view reshape view_as reshape_as flatten unflatten squeeze unsqueeze transpose
    permute movedim moveaxis swapaxes swapdims t expand expand_as narrow select unfold diagonal
    detach contiguous squeeze_ unsqueeze_ transpose_ t_ requires_grad_ split chunk unbind
    tensor_split hsplit vsplit dsplit swapaxes_ real imag""")
# ... of all of it, in the same order ...
RESHAPES = names("view view_as reshape reshape_as flatten unflatten squeeze unsqueeze contiguous")
# ... but for those that may have to copy.
PERHAPS = names("contiguous reshape reshape_as flatten float long")
PERMUTES = names("permute transpose movedim moveaxis swapaxes swapdims t")
# Methods that give several tensors.
SEVERAL = names("""split chunk unbind tensor_split hsplit vsplit dsplit topk sort kthvalue cummax
    cummin frexp aminmax qr svd eig slogdet nonzero_tuple unsafe_chunk unsafe_split""")
PAIR_WITH_DIM = names("max min median mode nanmedian")
# Methods that give truth values, and whole numbers.
MASKS = names("""eq ne lt le gt ge isnan isinf isfinite isclose logical_and logical_or logical_not
    logical_xor bool greater less greater_equal less_equal not_equal all any""")
INDICES = names("argmax argmin argsort long int nonzero argwhere bincount searchsorted multinomial")
# What makes whole numbers of truth values and whole numbers.
SUMS = names("sum cumsum prod")
# Methods through which autograd does not go back.
DETACHED = names("detach detach_ argmax argmin argsort nonzero multinomial long int bool") | MASKS

# What `torch.` makes anew on a device of its own choice.
FACTORIES = names(
    """tensor zeros ones empty full rand randn randint randperm arange linspace logspace
    eye empty_strided normal complex bernoulli_ as_tensor from_numpy tril_indices triu_indices
    FloatTensor LongTensor IntTensor DoubleTensor ByteTensor BoolTensor HalfTensor Tensor
    scalar_tensor hann_window hamming_window blackman_window kaiser_window frombuffer""",
    "torch.",
)
LIKE = names(
    """zeros_like ones_like empty_like full_like rand_like randn_like
    randint_like""",
    "torch.",
)
# What `torch.` has that gives no tensor, beside what begins with get_, set_ or is_.
NO_TENSOR = names(
    """numel manual_seed seed initial_seed save load compile no_grad enable_grad inference_mode
    autocast use_deterministic_algorithms equal allclose finfo iinfo Size Generator typename
    result_type promote_types can_cast broadcast_shapes device dtype is_nonzero""",
    "torch.",
)
