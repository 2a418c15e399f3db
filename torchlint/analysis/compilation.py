"""Whether a model can be compiled as it is trained, and where that has to be said."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.debugging import ways_to
from torchlint.analysis.loops import Role
from torchlint.analysis.mentions import words
from torchlint.analysis.profiling import is_short
from torchlint.analysis.trained import Trained, model_of
from torchlint.analysis.values import Kind
from torchlint.edits.rewrites import InsertAfter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.analysis.classes import Class, Store
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

# What speaks of compilers, by whatever name; `re.compile` is another.
_COMPILED = re.compile(r"compil(?<!\bre\.compil)|torch\.jit|dynamo|tensorrt|torch_xla|inductor")
# What gives each step other shapes, each of which is compiled anew, or in a more general form.
_VARYING = re.compile(
    r"collat|Collat|pad_sequence|pack(ed)?_(padded_)?[Ss]equence|Pack(ed)?_(padded_)?[Ss]equence"
    r"|padding=(True|[\"']longest)|\.detection\b|multi_?scale|torch_geometric|torchtext"
    r"|bucket\w*(Iterator|Sampler)|Bucket\w*(Iterator|Sampler)"
    rf"|{words('dgl', 'pad_batch', 'pad_sequences')}"
)
_LENGTH = re.compile(r"lengths|seq_lens|pad_id|pad_token")  # found fast, before the next
_LENGTHS = re.compile(r"\b(?!random_)(\w+_)?(lengths|seq_lens|pad_idx|pad_id|pad_token\w*)\b")
_CALLED = r"(Cell)?\("
# What the compiler cannot follow, or gains nothing from.
_HINDERED = re.compile(
    r"create_graph|autograd\.(grad|functional|Function|backward)|functorch|torch\.fx\b"
    r"|CUDAGraph|cuda\.graph|make_graphed|DataParallel(?<!DistributedDataParallel)|_hook\("
    rf"|_shard\b|Sharded|{words('LSTM', 'GRU', 'RNN', then=_CALLED)}|cpp_extension"
    rf"|{words('vmap', 'triton', 'cupy', 'numba', 'apex', 'horovod', 'deepspeed')}"
    r"|quanti[sz]|sparse|weight_norm|spectral_norm"
)
# Of the files that the file of a model imports: what its layers are made with.
_LAYERED = re.compile(r"weight_norm|spectral_norm|_hook\(|cpp_extension|autograd\.Function")
_READS = ("item", "tolist", "numpy", "nonzero", "unique", "masked_select", "data_ptr")
_MOVES = torch_api.MODULE_SELF - {"train", "eval", "requires_grad_"}
_BUILDERS = ("torchvision.models.", "timm.", "transformers.", "torch.nn.")


def speaks_of_compiling(program: Program) -> bool:
    """Whether the file, or one near by in its project, is about compiled models."""
    if _COMPILED.search(program.lowered):
        return True
    if program.project is None or program.path is None:
        return False
    imports = program.project.imports
    near = imports.related(str(program.path))
    return any("torch.compile" in imports.text(path) for path in near)


def trains_long(program: Program) -> bool:
    """Whether a training loop of the file makes more than a few steps."""
    return any(not is_short(program, loop) for loop in program.loops.training)


def hindered(program: Program) -> bool:
    """Whether a file holds what a compiler stumbles over, or shapes that change.

    Of the files that it imports only the shapes count: they may make its batches.
    """
    if _hinders(program.text):
        return True
    if program.project is None or program.path is None:
        return False
    imports = program.project.imports
    imported = imports.targets(str(program.path))
    return any(_varies(imports.text(path)) for path in imported)


def _has_wrapped_layers(home: Program) -> bool:
    """Whether what a model's file imports holds layers that a compiler would stumble over."""
    if home.project is None or home.path is None:
        return False
    imports = home.project.imports
    return any(_LAYERED.search(imports.text(path)) for path in imports.targets(str(home.path)))


@functools.lru_cache(1024)  # asked for each model of a file, and for each file that imports it
def _hinders(text: str) -> bool:
    return _HINDERED.search(text) is not None or _varies(text)


@functools.lru_cache(1024)  # see above
def _varies(text: str) -> bool:
    if _VARYING.search(text):
        return True
    return _LENGTH.search(text) is not None and _LENGTHS.search(text) is not None


def compilable(program: Program, model: Trained) -> bool:
    """Whether a model is one for sure, and nothing is seen that a compiler would stumble over."""
    kind = model.value.type
    if model.value.kind is not Kind.MODULE or hindered(program):
        return False
    if kind.startswith(_BUILDERS):
        return True
    found = _class(program, kind)
    if found is None:
        return False
    home, owner = found
    if hindered(home) or _has_wrapped_layers(home) or not _is_plain(home, owner):
        return False
    return not _reads_values(home) and not _counts_calls(home)


def _class(program: Program, kind: str) -> tuple[Program, Class] | None:
    """Return the class of a type, and the file it stands in."""
    owner = program.classes.named(kind)
    if owner is not None:
        return program, owner
    return program.project.class_of(kind) if program.project is not None and ":" in kind else None


def _is_plain(home: Program, owner: Class) -> bool:
    """Whether a class is derived from torch's modules alone, and keeps their ``compile``."""
    lineage = home.classes.lineage(owner)
    outside = [base for one in lineage for base in one.bases if home.classes.named(base) is None]
    known = all(base.startswith("torch.nn.") for base in outside)
    return known and bool(outside) and home.classes.method(owner, "compile") is None


def _reads_values(home: Program) -> bool:
    """Whether a module reads values of tensors: the host has to wait, and the graph breaks."""
    for call, _ in home.method_calls(*_READS):
        owner = home.classes.around(call)
        if owner is not None and owner.is_module:
            return True
    return False


def _counts_calls(home: Program) -> bool:
    """Whether a module counts in a Python number: it is compiled anew for each, eight times."""
    return any(
        any(isinstance(one.value, cst.Integer | cst.Float) for one in stores)
        and any(_counts(home, one) for one in stores)
        for owner in home.classes
        if owner.is_module
        for stores in owner.stores.values()
    )


def _counts(home: Program, store: Store) -> bool:
    """Whether a forward pass makes the next number of the last: ``self.n += 1``."""
    match store.value:
        case cst.AugAssign():
            pass
        case cst.BinaryOperation(left=cst.Attribute(attr=cst.Name(name))) if name == store.name:
            pass
        case _:
            return False
    return home.context(store.node).role is Role.FORWARD


def is_called(program: Program, model: Trained) -> bool:
    """Whether training steps call the model itself: a method of it would not be compiled."""
    for call in program.index.of(cst.Call):
        if not isinstance(call.func, cst.Name) or not call.args or call.func.value[:1].isupper():
            continue
        if program.context(call).role is Role.TRAIN:
            value = model_of(program, call.func)
            if value.kind is Kind.MODULE and value.type == model.value.type:
                return True
    return False


def place(program: Program, models: Sequence[Trained]) -> InsertAfter | None:
    """Say that the one model is to be compiled: once it is moved, before it is wrapped or trained.

    None where several models are trained, where the model is not a plain local name, or where no
    statement is the last of those that make it.
    """
    names = [model.node for model in models if isinstance(model.node, cst.Name)]
    if len(names) < len(models) or len({name.value for name in names}) != 1:
        return None
    name, function = names[0], program.function(names[0])
    owner = program.index.scope(name).owner(name.value)
    bindings = [] if owner is None else owner.bindings[name.value]
    training = _first_training(program, function)
    if training is None or not all(_is_model(program, binding) for binding in bindings):
        return None
    wraps = [b.node for b in bindings if program.values.binding(b).type.endswith("DataParallel")]
    made = [*_moves(program, name.value, function), *(binding.node for binding in bindings)]
    statement = _last_statement(program, made, [training, *wraps])
    if statement is None or any(_is_in_training(program, one.node, training) for one in bindings):
        return None
    if not any(_as_often(program, statement, one.node) for one in bindings):
        return None
    return InsertAfter(statement, f"{name.value}.compile()")


def _is_model(program: Program, binding: Binding) -> bool:
    plain = binding.is_plain
    return plain and program.values.binding(binding).kind is Kind.MODULE


def _is_in_training(program: Program, node: cst.CSTNode, training: cst.CSTNode) -> bool:
    """Whether a node comes after the start of the training, in one of its loops."""
    index = program.index
    return index.order(node) > index.order(training) and any(
        index.inside(node, loop)
        for loop in (training, *index.ancestors(training))
        if isinstance(loop, cst.For | cst.While)
    )


def _as_often(program: Program, statement: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a statement stands in no loop but those that a node stands in."""
    return all(
        program.index.inside(node, above)
        for above in program.index.ancestors(statement)
        if isinstance(above, cst.For | cst.While)
    )


def _first_training(program: Program, function: cst.FunctionDef | None) -> cst.CSTNode | None:
    """Return the first loop that trains, or call that leads to one, in a function or the module."""
    places = [
        place
        for loop in program.loops.training
        for place in ways_to(program, loop)
        if program.function(place) is function
    ]
    return min(places, key=program.index.order, default=None)


def _moves(program: Program, name: str, function: cst.FunctionDef | None) -> list[cst.CSTNode]:
    """Return the calls that move a model, or change its type, in place."""
    return [
        call
        for call, func in program.method_calls(*_MOVES)
        if isinstance(func.value, cst.Name)
        and func.value.value == name
        and program.function(call) is function
    ]


def _last_statement(
    program: Program, made: Sequence[cst.CSTNode], ends: Sequence[cst.CSTNode]
) -> cst.BaseStatement | None:
    """Return the statement with the last of what makes a model, before what wraps or trains it.

    It stands in a block that goes on to the first of these ends, and holds none of them.
    """
    index = program.index
    end = min(ends, key=index.order)
    before = [node for node in made if index.order(node) < index.order(end)]
    if not before:
        return None
    last = max(before, key=index.order)
    blocks = (
        one for one in index.ancestors(end) if isinstance(one, cst.IndentedBlock | cst.Module)
    )
    held = (one for block in blocks for one in block.body if index.inside(last, one))
    statement = next(held)
    apart = not any(index.inside(one, statement) for one in ends)
    plain = isinstance(statement, cst.SimpleStatementLine | cst.If | cst.With)
    return statement if plain and apart else None
