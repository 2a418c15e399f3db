"""Plain training steps: lines of one block whose numbers a lower precision does no more than round.

There the forward pass and the loss can be put into a block of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Instance, Library, Object, Unknown
from torchlint.syntax.calls import last_name
from torchlint.syntax.scopes import Bind
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.semantics.values import Alternative, Value
    from torchlint.syntax.module import Module
    from torchlint.syntax.scopes import Binding
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
    polar complex cfloat float64 double sparse to_sparse BCELoss binary_cross_entropy scatter_
    scatter_add_ index_put_ index_add_ index_add index_copy_ index_copy masked_scatter_
    masked_scatter lerp lerp_ dot RNN GRU LSTM RNNCell GRUCell LSTMCell Function custom_fwd
    load_inline cpp_extension triton jit DataParallel apply autocast half bfloat16
    """.split()
)
LIBRARIES = ("torch.", "torchvision.", "timm.", "math.", "builtins.", "functools.", "collections.",
             "einops.")  # fmt: skip
LINE_SEARCH = "torch.optim.LBFGS"  # needs exact losses
MODELS = ("torch.nn.", "torchvision.models.", "timm.")
SAME_TYPE = frozenset(
    """to cuda view reshape flatten squeeze unsqueeze permute transpose contiguous long float
    detach size zero_grad""".split()
)
PASSES_ON = frozenset("detach data cpu cuda to squeeze view reshape".split())
TYPELESS = frozenset(
    """argmax argmin argsort size shape dim ndim numel eq ne gt ge lt le float item
    tolist""".split()
)
WITH_INDICES = frozenset({"max", "min", "topk", "sort"})


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
        case (
            cst.Call(func=cst.Attribute(value=cst.Name() as loss), args=[]),
            cst.Call(func=cst.Attribute(value=optimizer), args=[]),
        ):
            bindings = region.evaluation.bindings(loss)
        case _:
            return None
    made = bindings[0].value if len(bindings) == 1 and bindings[0].is_plain else None
    block = _block(module, backward.node)
    if not isinstance(made, cst.Call) or step.by:
        return None
    nodes = (run.node, made, backward.node, step.node)
    places = [p for node in nodes if (p := _place(module, block, node)) is not None]
    if len(places) != len(nodes) or not places[0] <= places[1] < places[2] < places[3]:
        return None
    first, last, middle, end = places
    lines = [one for one in block[first : last + 1] if _is_line(one)]
    if len(lines) != last + 1 - first or not _is_line(block[end]):
        return None
    forward = tuple(one for one in lines if isinstance(one, cst.SimpleStatementLine))
    after = tuple(block[middle + 1 : end])
    return PlainStep(forward, loss, made, backward.node, after, step.node, optimizer)


def _block(module: Module, node: cst.CSTNode) -> Sequence[cst.BaseStatement]:
    match module.parent(module.statement(node)):
        case cst.IndentedBlock(body=body):
            return body
        case cst.Module(body=several):
            return several
    return ()


def _place(module: Module, block: Sequence[cst.BaseStatement], node: cst.CSTNode) -> int | None:
    inside = (n for n, statement in enumerate(block) if module.index.inside(node, statement))
    return next(inside, None)


def _is_line(statement: cst.BaseStatement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1


def rounds_only(connected: Connected, region: Region, plain: PlainStep) -> bool:
    """Whether nothing in a step, nor in the models it runs, can tell a lower precision apart."""
    runs, steps = region.of(Role.FORWARD), region.of(Role.STEP)
    module = region.evaluation.module(steps[0].file)
    if connected.calls("torch.autograd.grad"):
        return False
    calls = [one.node for one in runs] + [plain.loss_call]
    return (
        _is_loss(connected, plain.loss_call)
        and not any(getattr(one, "kind", "") == LINE_SEARCH for one in steps[0].owner)
        and not any(_is_fragile(connected, *scope) for scope in region.scopes)
        and all(_is_sturdy(connected, one) for run in runs for one in run.owner)
        and all(_is_simple(connected, module, calls, line) for line in plain.forward)
        and all(_survives(connected, module, plain, one) for one in _outputs(module, plain))
    )


def _is_loss(connected: Connected, call: cst.Call) -> bool:
    names = [getattr(one, "kind", getattr(one, "name", "")) for one in _value(connected, call.func)]
    return bool(names) and all(
        name.startswith("torch.nn.") and name.rpartition(".")[2] in LOSSES for name in names
    )


def _is_fragile(connected: Connected, file: int, scope: cst.CSTNode) -> bool:
    """Whether code calls a function of torch that a lower precision breaks."""
    index = connected.files.modules[file].index
    names = (name for call in index.below(scope, cst.Call) for name in _names(connected, call.func))
    return any(name.startswith("torch.") and FRAGILE & set(name.split(".")) for name in names)


def _is_sturdy(connected: Connected, one: Alternative) -> bool:
    """Whether a model is made of layers and functions that a lower precision does not break."""
    parts = connected.parts.of((one,))
    if any(
        FRAGILE & set(part.name.split(".")) or not part.name.startswith(LIBRARIES) for part in parts
    ):
        return False
    if not isinstance(one, Instance):
        return isinstance(one, Object) and one.kind.startswith(MODELS)
    classes = connected.evaluation.classes
    if classes.is_open(one.cls):
        return False
    for home in classes.lineage(one.cls):
        below = home.module.index.below
        if any(_is_unseen(connected, home.module, call) for call in below(home.node, cst.Call)):
            return False
        if any(attribute.attr.value in FRAGILE for attribute in below(home.node, cst.Attribute)):
            return False
        stored = [one.target for one in below(home.node, cst.AssignTarget)]
        stored += [one.target for one in below(home.node, cst.AugAssign)]
        if any(isinstance(target, cst.Subscript) for target in stored):
            return False
    return True


def _is_unseen(connected: Connected, module: Module, call: cst.Call) -> bool:
    """Whether a call may run code that is not seen; methods of what is passed are of tensors."""
    value = _value(connected, call.func)
    if any(isinstance(one, Library) and not one.name.startswith(LIBRARIES) for one in value):
        return True
    first: cst.BaseExpression = call.func
    while isinstance(first, cst.Attribute):
        first = first.value
    owner = module.index.scope(first).owner(first.value) if isinstance(first, cst.Name) else None
    is_local = not isinstance(first, cst.Name) or (
        owner is not None and owner is not owner.module()
    )
    return not is_local and (not value or Unknown() in value)


def _is_simple(
    connected: Connected, module: Module, calls: list[cst.Call], line: cst.SimpleStatementLine
) -> bool:
    """Whether a line only runs the model and the loss, and looks at tensors in another shape."""
    match line.body[0]:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() | cst.Tuple())]):
            pass
        case cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name(value="zero_grad")))):
            return True
        case _:
            return False
    return all(
        any(call is known for known in calls)
        or last_name(call.func) in SAME_TYPE
        or _names(connected, call.func) in (["torch.argmax"], ["torch.max"])
        for call in module.index.below(line, cst.Call)
    )


def _outputs(module: Module, plain: PlainStep) -> Iterator[Binding]:
    """Yield what the lines of the forward pass bind, other than the loss."""
    for line in plain.forward:
        for name in module.index.below(line, cst.Name):
            binding = module.index.bound(name)
            if binding is not None and binding.value is not plain.loss_call:
                yield binding


def _survives(connected: Connected, module: Module, plain: PlainStep, binding: Binding) -> bool:
    """Whether the type of an output does not matter where it is used after the forward pass."""
    return binding.kind is Bind.ASSIGN and all(
        _is_typeless(connected, module, name)
        for name in connected.uses.reads(binding)
        if not any(module.index.inside(name, line) for line in plain.forward)
    )


def _is_typeless(connected: Connected, module: Module, use: cst.CSTNode) -> bool:
    """Whether a use of a tensor asks for its shape, or for places and comparisons of values."""
    node = use
    while True:
        above = module.parent(node)
        match above:
            case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
                if name in TYPELESS:
                    return True
                call = module.parent(above)
                if name in WITH_INDICES and isinstance(call, cst.Call):
                    return _takes_indices(module, call)
                if name not in PASSES_ON:
                    return False
                node = call if isinstance(call, cst.Call) and call.func is above else above
            case cst.Subscript(value=value) if value is node:
                node = above
            case cst.Arg():
                call = module.parent(above)
                names = _names(connected, call.func) if isinstance(call, cst.Call) else []
                if (
                    isinstance(call, cst.Call)
                    and names
                    and names[0] in {f"torch.{name}" for name in WITH_INDICES}
                ):
                    return _takes_indices(module, call)
                is_plain = names in (["builtins.len"], ["torch.argmax"])
                return is_plain or (isinstance(call, cst.Call) and _is_loss(connected, call))
            case cst.Comparison() | cst.ComparisonTarget() | cst.Del():
                return True
            case _:
                return False


def _takes_indices(module: Module, call: cst.Call) -> bool:
    """Whether only the indices of ``max``, ``topk`` and their kin are kept."""
    match module.parent(call):
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer(value="1")))]
        ):
            return True
        case cst.Attribute(attr=cst.Name(value="indices")):
            return True
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=[first, _]))]):
            return isinstance(first.value, cst.Name) and first.value.value == "_"
    return False


def _value(connected: Connected, node: cst.BaseExpression) -> Value:
    return connected.evaluation.value(node)


def _names(connected: Connected, node: cst.BaseExpression) -> list[str]:
    return [one.name for one in _value(connected, node) if isinstance(one, Library)]
