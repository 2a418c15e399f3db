"""What a file says of the precision it computes in, and what a lower one would break."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.importing import IMPORTERS, programs_above
from torchlint.analysis.origins import origins
from torchlint.analysis.reach import callee, passed
from torchlint.analysis.uses import is_label
from torchlint.analysis.values import Kind
from torchlint.imports import MANY
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.analysis.training_steps import PlainStep, TrainingStep
    from torchlint.syntax.scopes import Binding

# Words in lower case: they are looked for one by one, which is faster than one pattern for all.
_CHOSEN = (
    "autocast", "apex", "bfloat16", "float16", "bf16", "fp16", ".half", "gradscaler", "mixed_prec",
    "mixed-prec", "mixed prec", "mixedprec", "float8", "fp8", "torchao", "bitsandbytes",
    "transformer_engine", "torch.quantization", "torch.ao.", "torch.float64", "torch.double",
    "torch.complex", "doubletensor", "set_default_dtype", "set_default_tensor_type", "lbfgs",
    "create_graph=true", "create_graph = true", "autograd.grad(", "torch.sparse", "to_sparse",
    "distributed.rpc", "env.step(",
)  # fmt: skip
# Libraries of kernels that autocast does not know, some of which take no lower precision.
_KERNELS = ("torch_geometric", "torch_scatter", "torch_sparse", "torch_cluster",
            "torch_spline_conv", "MinkowskiEngine", "spconv", "torchsparse", "pykeops", "dgl",
            )  # fmt: skip
_GAMES = ("import gym", "import atari_py", "env.step(")
_SWITCHED = ("autocast", "GradScaler", "bfloat16", "fp16", "bf16", "apex", "mixed_precision",
             "float16", ".half()", "loss_scale", "loss-scale", "autograd.Function",
             "cpp_extension", *_GAMES,
             *(f"{word} {name}" for word in ("from", "import") for name in _KERNELS))  # fmt: skip
_EXACT = re.compile(
    r"\b(?<!np\.)(?<!numpy\.)(?:torch|linalg)\.(?:slogdet|logdet|det|inverse|inv|cholesky)\("
    r"|\.(?:slogdet|logdet|inverse|cholesky)\(\)"
    r"|clamp\w*\([^\n]*\b1(?:\.0*)?\s*-\s*(?:\w*eps|1e-|0?\.0)"
)
# Distances as `x**2 - 2 * x @ y + y**2`, whose cancellation changes what is nearest.
_DISTANCES = re.compile(
    r"-[ \t]*2(?:\.0*)?[ \t]*\*[ \t]*(?:torch\.(?:matmul|mm|bmm|einsum)\(|[\w.()]+[ \t]*@)"
    r"|addmm_?\([^\n]*-[ \t]*2\b"
)
_NEAREST = re.compile(r"topk|argmin|argsort|\bsort\(|\bmin\(|\bknn")
_EXACT_WORDS = ("det(", "inv", "cholesky", "clamp")
_DOUBLE = re.compile(r"\bModule\)[\s\S]*\.double\(\)(?<!\.detach\(\)\.double\(\))")
_OWN_BACKWARD = re.compile(r"^\s*class \w+\((?:\w+\.)*Function\)", re.MULTILINE)
_AMP = re.compile(r"amp(?<![a-z]amp)(?![a-z])")
_OTHER_FIELDS = frozenset(
    {"gym", "gymnasium", "stable_baselines3", "mujoco", "mujoco_py", "pybullet", "pettingzoo",
     "procgen", "minigrid", "dm_control", "deepxde", "torchdiffeq", *_KERNELS}
)  # fmt: skip
# Losses that autocast computes in float32, whatever their input is.
_LOSSES = frozenset(
    {"CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "KLDivLoss",
     "BCEWithLogitsLoss", "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss",
     "MultiLabelMarginLoss", "MultiMarginLoss", "PoissonNLLLoss", "SoftMarginLoss",
     "TripletMarginLoss", "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss",
     "kl_div", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
     "hinge_embedding_loss", "margin_ranking_loss", "multilabel_margin_loss",
     "multi_margin_loss", "poisson_nll_loss", "soft_margin_loss", "triplet_margin_loss"}
)  # fmt: skip
# Names beside which nothing is proved: no kernels for the type, or no mixing of types.
_FRAGILE = frozenset(
    {"linalg", "fft", "stft", "istft", "rfft", "irfft", "fft2", "ifft", "ifft2", "inverse",
     "pinverse", "cholesky", "svd", "eig", "eigh", "symeig", "qr", "lu", "solve", "lstsq", "det",
     "logdet", "slogdet", "matrix_exp", "triangular_solve", "view_as_complex", "view_as_real",
     "polar", "complex", "cfloat", "float64", "double", "sparse", "to_sparse", "BCELoss",
     "binary_cross_entropy", "scatter_", "scatter_add_", "index_put_", "index_add_", "index_add",
     "index_copy_", "index_copy", "masked_scatter_", "masked_scatter", "lerp", "lerp_", "dot",
     "RNN", "GRU", "LSTM", "RNNCell", "GRUCell", "LSTMCell", "Function", "custom_fwd",
     "load_inline", "cpp_extension", "triton", "jit"}
)  # fmt: skip
# Modules whose functions a model may call; "" begins the names of this file.
_KNOWN = frozenset(
    {"", "torch", "torchvision", "timm", "math", "functools", "collections", "einops"}
)
_REFUSED = frozenset({"BCELoss", "binary_cross_entropy"})
_NN = ("torch.nn", "torch.nn.functional")
_SAME_TYPE = frozenset(
    {"to", "cuda", "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose",
     "contiguous", "long", "float", "detach", "size", "zero_grad"}
)  # fmt: skip
_PASSES_ON = frozenset({"detach", "data", "cpu", "cuda", "to", "squeeze", "view", "reshape"})
_TYPELESS = frozenset(
    {"argmax", "argmin", "argsort", "size", "shape", "dim", "ndim", "numel", "eq", "ne", "gt", "ge",
     "lt", "le", "float", "item", "tolist"}
)  # fmt: skip
_WITH_INDICES = frozenset({"max", "min", "topk", "sort"})


def chosen(program: Program) -> bool:
    """Whether the file already says which precision it computes in, or needs the full one."""
    if _says(program.text):
        return True
    if any("torch.autograd.Function" in owner.bases for owner in program.classes):
        return True
    if any(name.partition(".")[0] in _OTHER_FIELDS for name in program.names.imported()):
        return True
    return any(
        program.value(func.value).kind is Kind.MODULE for _, func in program.method_calls("double")
    )


def _says(text: str) -> bool:
    text = text.lower()
    return any(word in text for word in _CHOSEN) or _AMP.search(text) is not None


def chosen_nearby(program: Program) -> bool:
    """Whether a file that this one imports, or that imports it, speaks of precision or a game.

    A game is also played by what a script brings together with a file.
    """
    project, path = program.project, program.path
    if project is None or path is None:
        return False
    imports = project.imports
    having = imports.having(_SWITCHED)
    if any(other in having for other in imports.related(str(path))):
        return True
    played, users = imports.having(_GAMES), imports.users(str(path))
    return bool(played) and (
        len(users) <= MANY and any(not played.isdisjoint(imports.targets(one)) for one in users)
    )


def is_without_cudnn(program: Program) -> bool:
    """Whether a file, or one that imports it, always switches cuDNN off: the fast kernels."""
    switching = (program, *programs_above(program, "cudnn.enabled"))
    return any(map(_switches_cudnn_off, switching))


def _switches_cudnn_off(program: Program) -> bool:
    """Whether a file switches cuDNN off under no condition, and never on again."""
    switches = [
        statement
        for statement in program.index.of(cst.Assign)
        if program.qualified(statement.targets[0].target) == "torch.backends.cudnn.enabled"
    ]
    return bool(switches) and all(
        literal(one.value) == "False" and not _is_optional(program, one) for one in switches
    )


def _is_optional(program: Program, node: cst.CSTNode) -> bool:
    """Whether a condition stands above a statement, other than that a file is run as a script."""
    tests = (one.test for one in program.index.ancestors(node) if isinstance(one, cst.If))
    return any("__name__" not in program.code(test) for test in tests)


def needs_exact(program: Program) -> bool:
    """Whether a file, or one with models that it leads to, computes what bears no rounding.

    Rounded layers of a normalizing flow are no longer undone by their inverses, `1 - 1e-4` is 1 in
    float16, and a function with a backward pass of its own has to say which types it takes.
    """
    if _cancels(program.text) or any(map(_is_exact, _imported(program))):
        return True
    # `import_module(args.model)` may import any file
    by_name = any(word in program.text for word in IMPORTERS)
    project = program.project if by_name else None
    return project is not None and bool(project.imports.where(_has_own_backward))


def _cancels(text: str) -> bool:
    """Whether a text computes determinants and the like, or the nearest by expanded distances."""
    if any(word in text for word in _EXACT_WORDS) and _EXACT.search(text):
        return True
    return _DISTANCES.search(text) is not None and _NEAREST.search(text) is not None


@functools.lru_cache(1024)  # asked for each script that leads to a file
def _is_exact(text: str) -> bool:
    if _has_own_backward(text):
        return True
    if "Module)" not in text:
        return False
    return _cancels(text) or (".double()" in text and _DOUBLE.search(text) is not None)


def _has_own_backward(text: str) -> bool:
    """Whether a file defines a function of autograd, often far from the layers that call it."""
    return "autograd" in text and _OWN_BACKWARD.search(text) is not None


def _imported(program: Program) -> Iterator[str]:
    """Yield the texts of the files that a file imports, and that those import."""
    project, path = program.project, program.path
    if project is None or path is None:
        return
    seen = {str(path)}
    todo = [str(path)]
    while todo:
        for one in project.imports.targets(todo.pop()) - seen:
            seen.add(one)
            todo.append(one)
            yield project.imports.text(one)


def loss_name(program: Program, call: cst.Call) -> str:
    """Return the class or function of torch that a call computes a loss with, or ""."""
    value = program.value(call.func)
    name = value.type if value.kind is Kind.MODULE else program.qualified(call.func)
    return name.rpartition(".")[2] if name.startswith("torch.nn.") else ""


def has_recurrence(program: Program) -> bool:
    """Whether the file names recurrent layers: autocast runs them in float16, whatever is asked."""
    return bool({"RNN", "GRU", "LSTM"} & program.index.named.keys())


def refused_loss(program: Program, step: TrainingStep) -> str:
    """Return the loss of a step that raises under autocast on a GPU, or ""."""
    project = program.project
    if not _REFUSED & program.index.named.keys() and (
        project is None or not project.imports.having(tuple(_REFUSED))
    ):
        return ""
    for call in program.index.below(step.place, cst.Call):
        found = (
            _refused(program, call)
            or _refused_inside(program, call)
            or _refused_as_part(program, call)
        )
        if found:
            return found
    chosen_by = (_refused_by_choice(program, call) for call in _made(program, step))
    return next(filter(None, chosen_by), "")


def _made(program: Program, step: TrainingStep) -> Iterator[cst.Call]:
    """Yield the calls that give what a step goes back from."""
    for backward in step.backwards:
        match backward.func:
            case cst.Attribute(value=cst.Name() as loss):
                made = (binding.value for binding in program.flow.reaching(loss))
                yield from (call for call in made if isinstance(call, cst.Call))
            case _:
                pass


def _refused_by_choice(program: Program, call: cst.Call) -> str:
    """Return such a loss of the file with the function that chooses what computes it.

    ``loss_of = get_loss(args.loss)`` of the script that hands it to a trainer.
    """
    for home, node in _sources(program, call.func):
        chooser = callee(home, node) if isinstance(node, cst.Call) else None
        if chooser is None:
            continue
        other, function = chooser
        chosen = other.values.result(function)
        one = chosen.type or chosen.made is not None
        if not one and (found := _computed_in(other)):
            return found
    return ""


def _computed_in(program: Program) -> str:
    """Return such a loss that a file computes anywhere."""
    named = ((name, f"{space}.{name}") for name in sorted(_REFUSED) for space in _NN)
    return next((name for name, full in named if any(program.calls_of(full))), "")


def _sources(program: Program, node: cst.BaseExpression) -> Iterator[tuple[Program, cst.CSTNode]]:
    """Yield what a value may come from, here or where the calls in other files get it from."""
    for one in origins(program, node):
        yield program, one
        function = program.function(one)
        for binding in program.flow.reaching(one) if isinstance(one, cst.Name) else ():
            if isinstance(binding.value, cst.Param) and function is not None:
                for home, given in passed(program, function, binding.value):
                    yield from ((home, other) for other in origins(home, given))


def _refused(program: Program, call: cst.Call) -> str:
    name = loss_name(program, call)
    return name if name in _REFUSED else ""


def _refused_inside(program: Program, call: cst.Call) -> str:
    """Return such a loss that a module or function of the project makes or calls."""
    found = callee(program, call)
    if found is None or not _REFUSED & found[0].index.named.keys():
        return ""
    home, function = found
    owner = home.classes.around(function)
    if owner is not None and not owner.is_module:
        return ""
    inside = home.index.below(function if owner is None else owner.node, cst.Call)
    named = (home.qualified(one.func).rpartition(".") for one in inside)
    return next((name for space, _, name in named if name in _REFUSED and space in _NN), "")


def _refused_as_part(program: Program, call: cst.Call) -> str:
    """Return such a loss that some class of the project keeps by the name: ``model.loss(y, z)``."""
    project = program.project
    match call.func:
        case cst.Attribute(value=cst.Name(value=whole) as model, attr=cst.Name(value=name)) if (
            project is not None
            and whole != "self"
            and "loss" in name
            and program.value(model).kind in (Kind.MODULE, Kind.UNKNOWN)
        ):
            kept = re.compile(rf"\bself\.{name}\s*=\s*[\w.]*\b({'|'.join(sorted(_REFUSED))})\(")
            texts = map(project.imports.text, sorted(project.imports.having(tuple(_REFUSED))))
            found = filter(None, map(kept.search, texts))
            return next((one[1] for one in found), "")
        case _:
            return ""


def is_proved(program: Program, plain: PlainStep, called: Sequence[cst.Call]) -> bool:
    """Whether nothing in a step, nor in the models it calls, can tell a lower precision apart."""
    return (
        loss_name(program, plain.loss_call) in _LOSSES
        and all(_is_seen(program, call.func) for call in called)
        and _is_sturdy(program)
        and all(_is_simple(program, (*called, plain.loss_call), line) for line in plain.forward)
        and all(_survives(program, binding, plain) for binding in _outputs(program, plain))
    )


def _is_total(program: Program, name: cst.Name) -> bool:
    """``total += loss.detach().double()``: what is added up exactly is not computed with."""
    match program.parent(name):
        case cst.Attribute(value=cst.Call(func=cst.Attribute(attr=cst.Name(value="detach")))):
            return True
        case _:
            return False


def _is_sturdy(program: Program) -> bool:
    """Whether a file has no model that a lower precision may break."""
    return (
        not any(
            name in _FRAGILE
            and not (name == "double" and all(_is_total(program, node) for node in nodes))
            for name, nodes in program.index.named.items()
        )
        and not any(_writes_into(program))
        and all(_is_closed(program, owner) for owner in program.classes if owner.is_module)
    )


def _is_closed(program: Program, owner: Class) -> bool:
    """Whether a class of a model is made of torch's layers and of classes and functions here."""
    bases = all(base.startswith((".", "torch.nn.")) for base in owner.bases)
    return bases and all(
        (program.qualified(call.func) or "torch").partition(".")[0] in _KNOWN
        for call in program.index.below(owner.node, cst.Call)
    )


def _is_seen(program: Program, func: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a model is of this project, or of a library whose models are trained this way."""
    value = program.value(func)
    if value.kind is not Kind.MODULE or depth > 4:
        return False
    if value.type.endswith("DistributedDataParallel") and isinstance(value.made, cst.Call):
        return bool(value.made.args) and _is_seen(program, value.made.args[0].value, depth + 1)
    if value.type.endswith("DataParallel"):
        return False  # its threads forget which type was asked for
    if value.type.startswith(("torch.nn.", "torchvision.models.", "timm.")):
        return True
    if program.classes.named(value.type) is not None:
        return True
    found = None if program.project is None else program.project.class_of(value.type)
    return found is not None and _is_sturdy(found[0]) and not chosen(found[0])


def _writes_into(program: Program) -> Iterator[cst.CSTNode]:
    """Yield writes into parts of tensors in the file's models: both sides need one type."""
    for owner in program.classes:
        if not owner.is_module:
            continue
        for target in program.index.below(owner.node, cst.AssignTarget):
            if isinstance(target.target, cst.Subscript):
                yield target
        for assign in program.index.below(owner.node, cst.AugAssign):
            if isinstance(assign.target, cst.Subscript):
                yield assign


def _is_simple(program: Program, called: Sequence[cst.Call], line: cst.SimpleStatementLine) -> bool:
    """Whether a line only calls the model and the loss, and looks at tensors in another shape."""
    match line.body[0]:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() | cst.Tuple())]):
            pass
        case cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name(value="zero_grad")))):
            return True
        case _:
            return False
    return all(
        any(call is known for known in called)
        or (isinstance(call.func, cst.Attribute) and call.func.attr.value in _SAME_TYPE)
        or program.qualified(call.func) in ("torch.argmax", "torch.max")
        for call in program.index.below(line, cst.Call)
    )


def _outputs(program: Program, plain: PlainStep) -> Iterable[Binding]:
    """Return what the lines of the forward pass bind, other than the loss."""
    for line in plain.forward:
        for name in program.index.below(line, cst.Name):
            binding = program.index.bound(name)
            if binding is not None and binding.value is not plain.loss_call:
                yield binding


def _survives(program: Program, binding: Binding, plain: PlainStep) -> bool:
    """Whether the type of an output does not matter where it is used after the forward pass."""
    return binding.kind is Bind.ASSIGN and all(
        _is_typeless(program, name)
        for name in program.index.named.get(binding.name, ())
        if program.index.bound(name) is None
        and not is_label(program, name)
        and not any(program.index.inside(name, line) for line in plain.forward)
        and binding in program.flow.reaching(name)
    )


def _is_typeless(program: Program, use: cst.CSTNode) -> bool:
    """Whether a use of a tensor asks for its shape, or for places and comparisons of values."""
    node = use
    while True:
        above = program.parent(node)
        match above:
            case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
                if name in _TYPELESS:
                    return True
                call = program.parent(above)
                if name in _WITH_INDICES and isinstance(call, cst.Call):
                    return _takes_indices(program, call)
                if name not in _PASSES_ON:
                    return False
                node = call if isinstance(call, cst.Call) and call.func is above else above
            case cst.Subscript(value=value) if value is node:
                node = above
            case cst.Arg():
                return _is_asked_for_places(program, program.parent(above))
            case cst.Comparison() | cst.ComparisonTarget() | cst.Del():
                return True
            case _:
                return False


def _is_asked_for_places(program: Program, call: cst.CSTNode | None) -> bool:
    if not isinstance(call, cst.Call):
        return False
    name = program.qualified(call.func)
    if name in ("torch.max", "torch.topk", "torch.min", "torch.sort"):
        return _takes_indices(program, call)
    plain = isinstance(call.func, cst.Name) and call.func.value == "len"
    return name == "torch.argmax" or plain or loss_name(program, call) in _LOSSES


def _takes_indices(program: Program, call: cst.Call) -> bool:
    """Whether only the indices of ``max``, ``topk`` and their kin are kept."""
    match program.parent(call):
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer(value="1")))]
        ):
            return True
        case cst.Attribute(attr=cst.Name(value="indices")):
            return True
        case cst.Assign(
            targets=[
                cst.AssignTarget(
                    target=cst.Tuple(elements=[cst.Element(value=cst.Name(value=name)), _])
                )
            ]
        ):
            return name == "_"
        case _:
            return False
