"""Libraries that put something around torch's optimizers: Horovod, DeepSpeed, Lightning, FSDP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.mentions import words
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value
    from torchlint.imports import Imports

# Their optimizers have a `zero_grad` that takes no argument.
_ENGINES = ("deepspeed.initialize", "import deepspeed")  # their model's takes none either
_REFUSE = ("apex", "horovod", "DistributedOptimizer", *_ENGINES)
_CHOOSING = (("timm.optim",), ("create_optimizer",))  # gives one of apex by its name
_CHANGES = ("apex.amp.", "apex.contrib.optimizers.", "apex.fp16_utils.", "apex.optimizers.")
_WRAP = re.compile(
    r"DistributedOptimizer\(|deepspeed\.initialize\(|amp\.initialize\(|FP16_Optimizer\("
    rf"|{words('LARC', then='[(]')}"
    r"|FSDP\(|FullyShardedDataParallel\(|fully_shard\(|PrivacyEngine\("
)
_APEX = "amp.initialize("
_MAKES = re.compile(r"amp\.(initialize|scale_loss)\b|\bFused(Adam|LAMB|SGD|NovoGrad|Adagrad)\b|"
                    r"\bapex\.optimizers|FP16_Optimizer|network_to_half|\bLARC\b")  # fmt: skip
_LIGHTNING = frozenset({"lightning", "pytorch_lightning"})
_CLIPS = ("gradient_clip_val",)
_FAR = 4  # imports between a file and those that use what it makes


def may_refuse_arguments(program: Program, receiver: cst.BaseExpression) -> bool:
    """Whether the ``zero_grad`` of an optimizer may be that of a library around torch's.

    The file has to use the library: with one of torch's optimizers, to put something around it.
    """
    if any(word in program.text for word in _ENGINES):
        return True
    value = program.value(receiver)
    if value.kind is Kind.MODULE or not _uses(program, _REFUSE):
        return False
    return not (_is_plain(program, value) or _only_imports_apex(program))


def _only_imports_apex(program: Program) -> bool:
    """Whether a file uses nothing of apex that it imports, and no file near by an optimizer of it.

    ``from apex import amp`` is often left over from the time before torch had its own.
    """
    if program.project is None or program.path is None:
        return False
    others = tuple(word for word in _REFUSE if word != "apex")
    if _uses(program, others) or _names_apex(program):
        return False
    imports = program.project.imports
    users = _users(imports, str(program.path)) | {str(program.path)}
    near = users.union(*(imports.targets(one) for one in users))
    return not any(
        _MAKES.search(text) or _WRAP.search(text) or any(word in text for word in others)
        for text in map(imports.text, near)
    )


def _names_apex(program: Program) -> bool:
    """Whether anything but imports speaks of apex: a use of what they bring, a name or a text."""
    of = program.index.of
    names = [name for name in of(cst.Name) if not _is_imported(program, name)]
    if any("apex" in name.value or _is_of_apex(program, name) for name in names):
        return True
    texts = (
        text for text in of(cst.SimpleString) if not isinstance(program.parent(text), cst.Expr)
    )
    return any("apex" in text.value for text in texts)


def _is_of_apex(program: Program, name: cst.Name) -> bool:
    """Whether a name stands for something of apex; the `amp` of `torch.cuda.amp` does not."""
    match program.parent(name):
        case cst.Attribute(attr=attr) if attr is name:
            return False
        case cst.Arg(keyword=keyword) if keyword is name:
            return False
        case _:
            return program.qualified(name).startswith("apex")


def _is_imported(program: Program, node: cst.CSTNode) -> bool:
    return any(
        isinstance(above, cst.Import | cst.ImportFrom) for above in program.index.ancestors(node)
    )


def _uses(program: Program, words: tuple[str, ...]) -> bool:
    """Whether a file names a library in its code: comments and docstrings may tell of any."""
    if not any(word in program.text for word in words):
        return False
    named = [*program.index.named]
    named += [
        text.value
        for text in program.index.of(cst.SimpleString)
        if not isinstance(program.parent(text), cst.Expr)
    ]
    return any(word in one for one in named for word in words)


def may_be_wrapped(program: Program) -> bool:
    """Whether only an option puts something around optimizers: ``if args.amp: amp.initialize()``.

    Mixed precision by apex, whose ``zero_grad`` takes no argument at some of its levels.
    """
    text = program.text.replace(_APEX, "")
    if _WRAP.search(text) or any(word in text for word in _REFUSE if word != "apex"):
        return False
    calls = [
        (call, name)
        for call in program.index.of(cst.Call)
        if (name := program.qualified(call.func)).startswith(_CHANGES)
    ]
    wraps = [call for call, name in calls if name == f"apex.{_APEX[:-1]}"]
    return (
        bool(wraps)
        and all(name.startswith("apex.amp.") for _, name in calls)
        and all(_is_optional(program, call) for call in wraps)
    )


def _is_optional(program: Program, call: cst.Call) -> bool:
    """Whether a call runs only where some setting of the script has it."""
    return any(
        isinstance(above, cst.If) and "__name__" not in program.code(above.test)
        for above in program.index.ancestors(call)
    )


def may_be_anothers(program: Program, receiver: cst.BaseExpression) -> bool:
    """Whether a file that uses such a library may have made an optimizer."""
    value = program.value(receiver)
    if value.kind is Kind.MODULE or isinstance(value.made, cst.Call):
        return False
    return not _is_plain(program, value) and _somewhere(program, _REFUSE)


def _is_plain(program: Program, value: Value) -> bool:
    """Whether a value is one of torch's optimizers, and nothing near by is put around those."""
    if value.type not in torch_api.OPTIMIZERS or _WRAP.search(program.text):
        return False
    calls = (program.qualified(call.func) for call in program.index.of(cst.Call))
    return not any(name.startswith(_CHANGES) for name in calls) and not wrapped_elsewhere(program)


def may_be_chosen(program: Program, receiver: cst.BaseExpression) -> bool:
    """Whether an option may make an optimizer one of apex, as timm's `create_optimizer` lets it."""
    value = program.value(receiver)
    made_here = value.kind is Kind.MODULE or isinstance(value.made, cst.Call)
    return not made_here and all(_somewhere(program, words) for words in _CHOOSING)


def _somewhere(program: Program, words: tuple[str, ...]) -> bool:
    return program.project is not None and bool(program.project.imports.having(words))


def wrapped_elsewhere(program: Program) -> bool:
    """Whether a file that uses this one, or that this one uses, wraps optimizers."""
    return any(_WRAP.search(text) for text in _beside(program))


def scaled_elsewhere(program: Program) -> bool:
    """Whether a file that only builds optimizers is used by one that scales gradients."""
    builds = ".backward(" not in program.text
    return builds and any("scaler" in text.lower() for text in _beside(program, targets=False))


def clipped_by_lightning(program: Program, call: cst.Call) -> bool:
    """Whether Lightning gets an optimizer whose gradients it may clip.

    Under mixed precision it then raises for one whose step undoes the loss scaling itself.
    """
    function = program.function(call)
    if function is None or function.name.value != "configure_optimizers":
        return False
    clips = _CLIPS[0] in program.text or _somewhere(program, _CLIPS)
    return clips and not _LIGHTNING.isdisjoint(program.frameworks)


def _beside(program: Program, *, targets: bool = True) -> Iterator[str]:
    """Yield the texts of the files that use a file, at some distance, and of those it imports."""
    if program.project is None or program.path is None:
        return
    imports, path = program.project.imports, str(program.path)
    for one in sorted(_users(imports, path) | (imports.targets(path) if targets else frozenset())):
        yield imports.text(one)


def _users(imports: Imports, path: str) -> set[str]:
    found: set[str] = set()
    edge = {path}
    for _ in range(_FAR):
        edge = {user for one in edge for user in imports.importers(one)} - found - {path}
        found |= edge
    return found
