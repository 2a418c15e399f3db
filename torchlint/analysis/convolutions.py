"""Whether a file trains a model of convolutions, on inputs that all have the same shape."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.trained import built_by, trained_models

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value

_CONVOLUTIONS = tuple(f"torch.nn.Conv{kind}{n}d" for kind in ("", "Transpose") for n in (2, 3))
_ARCHITECTURES = re.compile(
    r"(wide_)?resne|vgg|densenet|mobilenet|efficientnet|googlenet|inception|shufflenet|squeezenet"
    r"|alexnet|mnasnet|regnet|convnext|xception|darknet|hrnet|nfnet",
    re.IGNORECASE,
)
_FEW = 3  # a vision transformer cuts its image with one
_ATTENTION = re.compile(r"attention|attn|transformer", re.IGNORECASE)
_DATASETS = re.compile(
    r"torchvision\.datasets\.(\w+\.)?((Fashion|K|E|Q)?MNIST|CIFAR100?|SVHN|STL10|USPS|FakeData)"
)
_CROPS = frozenset({"CenterCrop", "RandomCrop", "RandomResizedCrop", "FiveCrop", "TenCrop"})
_VARYING = re.compile(  # in small letters
    r"multi_?scale|collate_fn|pad_sequence|randomresize\b|randomshortestside|randomsizedcrop|bucket"
    r"|\.detection\b|progressive|ragged|variable_(size|length)|random\.(choice|rand\w+)\([^)\n]*(img|image|scale|crop)"
)


def convolutional(program: Program) -> cst.Call | None:
    """Return the call that builds a model of convolutions which the file trains."""
    for model in trained_models(program):
        call = built_by(program, model.node)
        if call is not None and _convolves(program, call, model.value):
            return call
    return None


def _convolves(program: Program, call: cst.Call, value: Value) -> bool:
    kind = value.type
    if kind.startswith("torchvision.models."):
        return bool(_ARCHITECTURES.match(kind.rpartition(".")[2]))
    if kind.startswith("timm."):
        name = literal(call.args[0].value) if call.args else None
        return name is not None and bool(_ARCHITECTURES.match(name))
    home = _home(program, kind)
    if home is None:
        return False
    count = sum(1 for _ in home.calls_of(*_CONVOLUTIONS))
    return count >= _FEW or (count > 0 and not _ATTENTION.search(home.text))


def _home(program: Program, kind: str) -> Program | None:
    """Return the file that holds the layers of a model of this type."""
    if kind.startswith((".", "torch.nn.")):
        return program
    found = program.project.class_of(kind) if program.project is not None and ":" in kind else None
    return None if found is None else found[0]


def fixed_shapes(program: Program) -> bool:
    """Whether the file shows that all images have one size, and nothing that they have several."""
    if _VARYING.search(program.lowered):
        return False
    return any(_fixes(program, call) for call in _likely(program))


def _likely(program: Program) -> Iterator[cst.Call]:
    for call in program.index.of(cst.Call):
        last = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
        if isinstance(last, cst.Name) and last.value[:1].isupper():
            yield call


def _fixes(program: Program, call: cst.Call) -> bool:
    """Whether a call makes a data set of images of one size, or brings images to one size."""
    name = program.qualified(call.func)
    if _DATASETS.fullmatch(name) or name == "torch.utils.data.TensorDataset":
        return True
    last = name.rpartition(".")[2]
    if name.startswith(("torchvision.transforms.", "albumentations.")):
        if last in _CROPS:
            return True
        return last == "Resize" and _both_sides(call, name)
    return False


def _both_sides(call: cst.Call, name: str) -> bool:
    """Whether a resize gives both sides: one alone keeps the proportions."""
    if name.startswith("albumentations."):
        return True
    given = (arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "size")
    size = next(given, None)
    return isinstance(size, cst.Tuple | cst.List) and len(size.elements) == 2
