"""Batches that gain little from pinned memory: arrays, labels, and very small samples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.index import dotted
from torchlint.analysis.loaded import functions_given

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.loaders import Move
    from torchlint.analysis.program import Program

_LABEL = re.compile(
    r"(?:^|_)(?:y|labels?|lbls?|targets?|tgts?|gt|actions?|classes|class_ids?)(?:_\w{1,2})?$",
    re.IGNORECASE,
)
_NO_MAKERS = ("torch.utils.", "torch.device", "torch.cuda.", "torch.no_grad")
# 3 KB a sample and less.
_SMALL = frozenset(
    f"torchvision.datasets.{name}"
    for name in ("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "USPS", "CIFAR10",
                 "CIFAR100", "SVHN")
)  # fmt: skip
_CONVERTS = frozenset({"float", "double", "half", "bfloat16", "long", "int", "type"})
_GROWN = re.compile(r"Resize|Resample|Upsample|interpolate|\bresize\(")
_TEXT = re.compile(r"vocab|tokenize|input_ids|\bword2|\bstoi\b", re.IGNORECASE)
_MEDIA = re.compile(r"image|img|video|audio|wav|\bmels?\b|spec|feat|pixel", re.IGNORECASE)
_ARRAYS = ("numpy.array", "numpy.asarray", "numpy.stack", "numpy.concatenate", "numpy.vstack")


def moves_labels_only(moves: list[Move]) -> bool:
    """Whether all that goes to the GPU as it was loaded is labels: of the rest a copy goes."""
    return bool(moves) and all(moves_label(move.node) for move in moves)


def moves_label(move: cst.Call) -> bool:
    """Whether a call moves what is called a label, by its name or the key that it is taken by."""
    return is_label(_moved(move))


def is_label(name: str) -> bool:
    """Whether a name is one for labels: a number a sample, as a rule."""
    return _LABEL.search(name) is not None


def may_be_copies(moves: list[Move]) -> bool:
    """Whether all that moves but labels is converted first: a copy, if the dtype is another."""
    rest = [move.node.func for move in moves if not moves_label(move.node)]
    return bool(rest) and all(
        isinstance(func, cst.Attribute)
        and isinstance(func.value, cst.Call)
        and isinstance(func.value.func, cst.Attribute)
        and func.value.func.attr.value in _CONVERTS
        for func in rest
    )


def _moved(move: cst.Call) -> str:
    match move:
        case cst.Call(func=cst.Attribute(value=cst.Subscript(value=whole))) if _LABEL.search(
            dotted(whole).rpartition(".")[2]
        ):
            return dotted(whole).rpartition(".")[2]  # `y[:, -1].to(device)`
        case cst.Call(func=cst.Attribute(value=cst.Subscript(slice=[part]))):
            index = part.slice
            return (literal(index.value) or "") if isinstance(index, cst.Index) else ""
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value="to" | "cuda"))):
            return dotted(value).rpartition(".")[2]
        case _:
            return ""


def small_samples(program: Program, loader: cst.Call) -> str:
    """Return the data set whose small images a loader gives, unless they may be made larger."""
    found = program.datasets.of_loader(loader)
    kinds = [_image_set(one) for one in found]
    homes = {one.program for one in found} | {program}
    grown = any(_GROWN.search(home.text) for home in homes)
    return kinds[0].rpartition(".")[2] if kinds and all(kinds) and not grown else ""


def gives_tokens(program: Program, loader: cst.Call) -> bool:
    """Whether the samples are seen to be texts: a few hundred numbers each."""
    found = program.datasets.of_loader(loader)
    return bool(found) and all(_is_of_text(one) for one in found)


def _is_of_text(dataset: Dataset) -> bool:
    taken = dataset.method("__getitem__")
    if taken is None:
        return False
    home, method = taken
    code = home.code(method)
    return _TEXT.search(code) is not None and _MEDIA.search(code) is None


def _image_set(dataset: Dataset) -> str:
    """Return the class of torchvision that a dataset is, or is derived from, if it is small."""
    bases = [base for _, one in dataset.lineage() for base in one.bases]
    return next((name for name in (dataset.type, *bases) if name in _SMALL), "")


def gives_arrays(program: Program, loader: cst.Call) -> bool:
    """Whether a ``collate_fn`` makes arrays of NumPy, in a file that makes no tensor.

    Only tensors are pinned: of arrays a thread of the loader hands on the list as it is.
    """
    return any(
        not _makes_tensors(home) and any(_makes_arrays(home, one) for one in _run(home, function))
        for home, function in functions_given(program, loader, "collate_fn")
    )


def _run(
    program: Program, function: cst.FunctionDef | cst.Lambda
) -> Iterator[cst.FunctionDef | cst.Lambda]:
    """Yield a function, and what it calls in its file."""
    yield function
    for call in program.index.below(function, cst.Call):
        target = program.calls.target(call)
        if target is not None:
            yield target


def _makes_arrays(program: Program, function: cst.CSTNode) -> bool:
    return any(
        program.qualified(call.func) in _ARRAYS for call in program.index.below(function, cst.Call)
    )


def _makes_tensors(program: Program) -> bool:
    """Whether a file calls functions of torch other than those that load and place."""
    names = (program.qualified(call.func) for call in program.index.of(cst.Call))
    return any(
        name.startswith(("torch.", "torchvision.", "torchaudio."))
        and not name.startswith(_NO_MAKERS)
        for name in names
    )
