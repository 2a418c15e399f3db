"""Plain training steps: lines of one block whose numbers a lower precision does no more than round.

There the forward pass and the loss can be put into a block of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics.values import Instance, Object
from torchlint.syntax.chains import root_of
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from torchlint.semantics.values import Alternative
    from torchlint.syntax.module import Module
    from torchlint.training.script import Connected
    from torchlint.training.steps import Member, Region

# Losses that autocast computes in float32, whatever their input is.
LOSSES = frozenset(
    """
    CrossEntropyLoss NLLLoss MSELoss L1Loss SmoothL1Loss KLDivLoss BCEWithLogitsLoss
    CosineEmbeddingLoss HingeEmbeddingLoss MarginRankingLoss MultiLabelMarginLoss MultiMarginLoss
    PoissonNLLLoss SoftMarginLoss TripletMarginLoss cross_entropy nll_loss mse_loss l1_loss
    smooth_l1_loss kl_div binary_cross_entropy_with_logits cosine_embedding_loss
    hinge_embedding_loss margin_ranking_loss multilabel_margin_loss multi_margin_loss
    poisson_nll_loss soft_margin_loss triplet_margin_loss
    """.split()
)
# What models may not have: no kernels for the type, or no mixing of types.
FRAGILE = frozenset(
    """
    linalg fft stft istft rfft irfft fft2 ifft ifft2 inverse pinverse cholesky svd eig eigh symeig
    qr lu solve lstsq det logdet slogdet matrix_exp triangular_solve view_as_complex view_as_real
    polar complex cfloat float64 double sparse to_sparse spmm BCELoss binary_cross_entropy scatter_
    scatter_add_ index_put_ index_add_ index_add index_copy_ index_copy masked_scatter_
    masked_scatter lerp lerp_ dot RNN GRU LSTM RNNCell GRUCell LSTMCell Function custom_fwd
    load_inline cpp_extension triton jit DataParallel apply autocast half bfloat16
    """.split()
)
LIBRARIES = tuple(
    "torch. torchvision. timm. math. builtins. functools. collections. einops.".split()
)
MODELS = ("torch.nn.", "torchvision.models.", "timm.")
LINE_SEARCH = "torch.optim.LBFGS"  # needs exact losses


@dataclass(frozen=True, slots=True, eq=False)
class PlainStep:
    """A step whose forward pass, loss, backward pass and update are lines of one block.

    ``forward`` are the lines from the first run of a model to the loss, ``after`` those between
    the backward pass and the update; ``loss`` is the name that is differentiated.
    """

    forward: tuple[cst.SimpleStatementLine, ...]
    loss: cst.Name
    loss_call: cst.Call
    backward: cst.Call
    after: tuple[cst.BaseStatement, ...]
    step: cst.Call
    optimizer: cst.BaseExpression


def plain_step(region: Region, run: Member) -> PlainStep | None:
    """Return the parts of a step that is a run of lines, with one backward pass and one update."""
    backwards, steps = region.of(Role.BACKWARD), region.of(Role.STEP)
    if not len(backwards) == len(steps) == 1 or region.of(Role.UNSEEN):
        return None
    backward, step = backwards[0], steps[0]
    module = region.evaluation.module(backward.file)
    together = (backward, step, *region.of(Role.FORWARD))
    if len({one.path[:-1] for one in together}) > 1:
        return None
    match backward.node, step.node:
        case cst.Call(cst.Attribute(cst.Name() as loss), []), cst.Call(cst.Attribute(owner), []):
            bindings = region.evaluation.bindings(loss)
        case _:
            return None
    made = bindings[0].value if len(bindings) == 1 and bindings[0].is_plain else None
    around = module.parent(module.statement(backward.node))
    is_block = isinstance(around, (cst.IndentedBlock, cst.Module))
    block: list[Any] = list(getattr(around, "body", ())) if is_block else []
    if not isinstance(made, cst.Call) or step.by:
        return None
    nodes = (run.node, made, backward.node, step.node)
    inside = module.index.inside
    places = [n for node in nodes for n, line in enumerate(block) if inside(node, line)]
    if len(places) != len(nodes) or not places[0] <= places[1] < places[2] < places[3]:
        return None
    first, last, middle, end = places
    forward, after = tuple(block[first : last + 1]), tuple(block[middle + 1 : end])
    if not all(map(_is_line, (*forward, block[end]))):
        return None
    return PlainStep(forward, loss, made, backward.node, after, step.node, owner)


def _is_line(statement: cst.BaseStatement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1


def rounds_only(connected: Connected, region: Region, plain: PlainStep) -> bool:
    """Whether nothing is seen, in a step and the models it runs, that a lower precision breaks."""
    steps = region.of(Role.STEP)
    return (
        not connected.evaluation.calls("torch.autograd.grad")
        and _is_loss(connected, plain.loss_call)
        and not any(getattr(one, "kind", "") == LINE_SEARCH for one in steps[0].owner)
        and not _becomes_array(connected.evaluation.module(region.file), plain)
        and not any(name.startswith("torch.") and _is_fragile(name) for name in region.called)
        and all(_is_sturdy(connected, one) for run in region.of(Role.FORWARD) for one in run.owner)
    )


def _is_loss(connected: Connected, call: cst.Call) -> bool:
    value = connected.evaluation.value(call.func)
    names = [getattr(one, "kind", getattr(one, "name", "")) for one in value]
    return bool(names) and all(
        name.startswith("torch.nn.") and name.rpartition(".")[2] in LOSSES for name in names
    )


def _is_fragile(name: str) -> bool:
    return not FRAGILE.isdisjoint(name.split("."))


def _becomes_array(module: Module, plain: PlainStep) -> bool:
    """Whether an output becomes an array: NumPy has no bfloat16."""
    index = module.index
    outputs = {
        name.value
        for line in plain.forward
        for name in index.below(line, cst.Name)
        if index.bound(name) is not None
    }
    reads = (index.parent(name) for name in index.named.get("numpy", ()))
    roots = (root_of(one) for one in reads if isinstance(one, cst.Attribute))
    return any(isinstance(root, cst.Name) and root.value in outputs for root in roots)


def _is_sturdy(connected: Connected, one: Alternative) -> bool:
    """Whether a model is made of layers and functions that a lower precision does not break."""
    parts = connected.parts.of((one,))
    if any(_is_fragile(part.name) or not part.name.startswith(LIBRARIES) for part in parts):
        return False
    if not isinstance(one, Instance):
        return isinstance(one, Object) and one.kind.startswith(MODELS)
    classes = connected.evaluation.classes
    return not classes.is_open(one.cls) and not any(
        node.attr.value in FRAGILE
        for home in classes.lineage(one.cls)
        for node in home.module.index.below(home.node, cst.Attribute)
    )
