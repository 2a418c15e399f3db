"""Datasets: what a sample costs, whether they are iterated, on a GPU, or changed by a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.loaders import unwrapped
from torchlint.semantics.sets import flat
from torchlint.semantics.values import (
    Array,
    Class,
    Device,
    Dictionary,
    Function,
    Instance,
    Iterator,
    Library,
    Method,
    Nothing,
    Number,
    Object,
    Sequence,
    Tensor,
    Text,
    Truth,
)
from torchlint.syntax.calls import last_name
from torchlint.syntax.chains import dotted
from torchlint.training.gpu_work import works_on_gpu
from torchlint.training.loaders import loaders_in

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Iterator as Several

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At
    from torchlint.training.effects import CallSite, Effects
    from torchlint.training.loaders import Loader

ITERABLE = "torch.utils.data.IterableDataset"
MEMORY = "torch.utils.data.TensorDataset"
PICTURES = ("torchvision.datasets.", "torchaudio.datasets.")
GIVES = ("__getitem__", "__getitems__", "__iter__")
# Functions that read, decode or transform a whole sample: a fraction of a millisecond and more.
WORK = frozenset(
    """builtins.open torch.load json.load json.loads pickle.load pickle.loads numpy.load
    numpy.loadtxt numpy.genfromtxt numpy.fromfile""".split()
)
WORKING = tuple(
    """torchvision.io. torchvision.transforms. torchaudio. pandas.read_ cv2. imageio. skimage.
    librosa. soundfile. nibabel. pydicom. tifffile. rasterio. decord. av. SimpleITK. albumentations.
    scipy. h5py. gzip. yaml. wave. nltk. jieba. transformers. tokenizers. sentencepiece. PIL.
    """.split()
)
# Libraries of which all else costs little.
LIGHT = tuple(
    """builtins. torch. numpy. math. random. copy. os.path. itertools. functools. operator.
    collections. typing. bisect. time.""".split()
)
SPARSE = (
    "torch.sparse",
    "torch_geometric.transforms.ToSparse",
    "torch_geometric.transforms.ToDevice",
)
PLAIN = (Tensor, Array, Sequence, Dictionary, Text, Number, Truth, Nothing, Iterator)


@dataclass(frozen=True, slots=True, eq=False)
class Datasets:
    """What the dataset of a loader may be."""

    effects: Effects
    loader: Loader
    found: tuple[Alternative, ...]

    @property
    def evaluation(self) -> Evaluation:
        """The values of the connected files."""
        return self.effects.evaluation

    @property
    def is_iterable(self) -> bool | None:
        """Whether it is gone through and has no indices; None where that is not known."""
        found = {_is_iterable(self.evaluation, one) for one in self.found}
        return found.pop() if len(found) == 1 else None

    @property
    def classes(self) -> list[At]:
        """The classes of the project that it may be of."""
        return list(dict.fromkeys(one.cls for one in self.found if isinstance(one, Instance)))

    def methods(self, *names: str) -> list[At]:
        """Return methods of its classes."""
        return [at for cls in self.classes for at in _methods(self.evaluation, cls, names)]

    @property
    def collates(self) -> list[At]:
        """The functions that put its samples together."""
        return [one.at for one in self.loader.value("collate_fn") if isinstance(one, Function)]

    @property
    def is_in_memory(self) -> bool:
        """Whether it may be tensors, arrays or a list: taking one of them is no work."""
        return any(isinstance(one, PLAIN) or _is(one, MEMORY) for one in self.found)

    @property
    def cost(self) -> str | None:
        """The code that makes a sample costly, "" where all costs little, None if not known."""
        if self.is_in_memory:
            return ""
        costs = [*map(self._cost, self.found), self._of_functions(self.collates)]
        is_little = bool(self.found) and all(cost == "" for cost in costs)
        return next((cost for cost in costs if cost), "" if is_little else None)

    def _cost(self, one: Alternative) -> str | None:
        if not isinstance(one, Instance):
            kind = one.kind if isinstance(one, Object) else ""
            return kind if kind.startswith(PICTURES) else None
        bases = self.evaluation.classes.library_bases(one.cls)
        reads = [base for base in bases if base.startswith(PICTURES)]
        if own := _methods(self.evaluation, one.cls, GIVES):
            cost = self._of_functions(own)
            return cost or (None if reads else cost)
        whole = [base for base in reads if not base.endswith(".VisionDataset")]
        return whole[0] if whole else "" if MEMORY in bases else None

    def _of_functions(self, functions: list[At]) -> str | None:
        is_known = True
        for site, file in reached(self.effects, functions):
            for one in self.evaluation.value(site.node.func):
                work = _works(one)
                if work:
                    return self.evaluation.module(file).brief(site.node)
                is_known = is_known and work is False
        return "" if is_known else None

    @property
    def gives_gpu_tensors(self) -> bool:
        """Whether samples or batches are made on a GPU, which workers cannot share."""
        functions = [*self.methods(*GIVES), *self.collates]
        calls = (site.node for site, _ in reached(self.effects, functions))
        units = [self.evaluation.units[at] for at in functions if at in self.evaluation.units]
        given = [one for unit in units for one in flat(unit.returned.value + unit.yielded.value)]
        return any(isinstance(one, Tensor) and one.device is Device.CUDA for one in given) or any(
            works_on_gpu(self.evaluation, call) for call in calls
        )

    def is_changed_in(self, scopes: Iterable[tuple[int, cst.CSTNode]]) -> bool:
        """Whether code stores something in it, or calls a method for nothing but what that does."""
        for file, outer in scopes:
            index = self.evaluation.index(file)
            for node in index.nodes[index.order(outer) : index.end(outer)]:
                holder = _changed(node)
                if holder and self._is_inside(holder, file):
                    return True
        return False

    def _is_inside(self, node: cst.BaseExpression, file: int) -> bool:
        """Whether an expression may be what the loader is given, or something in it."""
        given, value = self.loader.arguments.get("dataset"), self.evaluation.value
        known = [one for one in self.loader.value("dataset") if getattr(one, "call", None)]
        if any(one in known for one in value(node)):
            return True
        name = dotted(given.node) if given and given.node and file == self.loader.at.file else ""
        if not known and name and dotted(node) == name:
            return True
        if not isinstance(node, (cst.Attribute, cst.Subscript)):
            return False
        if last_name(node) == "dataset" and self.loader.at in loaders_in(value(node.value)):
            return True  # ``loader.dataset``
        return self._is_inside(node.value, file)


def datasets_of(effects: Effects, loader: Loader) -> Datasets:
    """Return what the dataset of a loader may be, taken out of subsets and the like."""
    value = unwrapped(effects.evaluation, loader.value("dataset"))
    return Datasets(effects, loader, tuple(value))


def run_by(effects: Effects, functions: Iterable[At]) -> list[At]:
    """Return some functions, and those that they run, by others too."""
    found = dict.fromkeys(functions)
    waiting = list(found)
    for at in waiting:
        new = {to: None for site in effects.sites.get(at, ()) for to in site.targets}
        waiting += [one for one in new if one not in found]
        found |= new
    return waiting


def reached(effects: Effects, functions: Iterable[At]) -> Several[tuple[CallSite, int]]:
    """Yield the calls that some functions make, themselves and by others, each with its file."""
    for at in run_by(effects, functions):
        for site in effects.sites.get(at, ()):
            yield site, at.file


def makes_sparse(evaluation: Evaluation) -> bool:
    """Whether connected files make sparse tensors anywhere."""
    return any(
        last_name(call.func).startswith("to_sparse")
        or evaluation.library(call.func).startswith(SPARSE)
        for call, _ in evaluation.files.of(cst.Call)
    )


def _methods(evaluation: Evaluation, cls: At, names: Iterable[str]) -> list[At]:
    found = (evaluation.method_of(cls, name) for name in names)
    return [at for at in found if at is not None]


def _changed(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return what a statement changes: ``x`` of ``x.a = 1``, ``x[0] = 1`` and ``x.append(1)``."""
    match node:
        case (
            cst.AssignTarget(target=cst.Attribute() | cst.Subscript() as target)
            | cst.AugAssign(target=cst.Attribute() | cst.Subscript() as target)
            | cst.Expr(value=cst.Call(func=cst.Attribute() as target))
        ):
            return target.value
    return None


def _works(one: Alternative) -> bool | None:
    """Whether calling something does work; None where that is not known."""
    match one:
        case Library(name=name) | Object(kind=name) | Method(owner=Object(kind=name)):
            if name in WORK or name.startswith(WORKING):
                return True
            return False if name.startswith(LIGHT) or name == "super" else None
        case Function() | Class() | Instance() | Nothing():
            return False  # what these do is asked of them
        case Method(owner=owner):
            return False if isinstance(owner, PLAIN) else None
    return None


def _is(one: Alternative, *kinds: str) -> bool:
    return isinstance(one, Object) and one.kind in kinds


def _is_iterable(evaluation: Evaluation, one: Alternative) -> bool | None:
    classes = evaluation.classes
    if isinstance(one, Instance):
        is_open = classes.is_open(one.cls) and classes.method(one.cls, "__getitem__") is None
        return True if ITERABLE in classes.library_bases(one.cls) else None if is_open else False
    if isinstance(one, Object):
        return _is(one, ITERABLE, "torch.utils.data.ChainDataset")
    return False if isinstance(one, PLAIN) else None
