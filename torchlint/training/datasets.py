"""Datasets: what a sample costs, whether they are in memory, iterated, or give tensors on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.loaders import unwrapped
from torchlint.semantics.tensors import device_of
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
from torchlint.syntax.chains import root_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Iterator as Several

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.training.effects import CallSite, Effects
    from torchlint.training.loaders import Loader

ITERABLE = "torch.utils.data.IterableDataset"
MEMORY = "torch.utils.data.TensorDataset"
PICTURES = ("torchvision.datasets.", "torchaudio.datasets.")
GIVES = ("__getitem__", "__getitems__", "__iter__")
# Functions that read, decode or transform a whole sample: a fraction of a millisecond and more.
WORK = frozenset({
    "builtins.open", "PIL.Image.open", "torch.load", "json.load", "json.loads", "pickle.load",
    "pickle.loads", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile",
})  # fmt: skip
WORKING = (
    "torchvision.io.", "torchvision.transforms.", "torchaudio.", "pandas.read_", "cv2.",
    "imageio.", "skimage.", "librosa.", "soundfile.", "nibabel.", "pydicom.", "tifffile.",
    "rasterio.", "decord.", "av.", "SimpleITK.", "albumentations.", "scipy.", "h5py.", "gzip.",
    "yaml.", "wave.", "nltk.", "jieba.", "transformers.", "tokenizers.", "sentencepiece.", "PIL.",
)  # fmt: skip
# Libraries of which all else costs little.
LIGHT = ("builtins.", "torch.", "numpy.", "math.", "random.", "copy.", "os.path.", "itertools.",
         "functools.", "operator.", "collections.", "typing.", "bisect.", "time.")  # fmt: skip
HANDLES = frozenset({
    "builtins.open", "io.open", "gzip.open", "h5py.File", "lmdb.open", "sqlite3.connect",
    "zipfile.ZipFile", "tarfile.open", "netCDF4.Dataset", "rasterio.open", "cv2.VideoCapture",
    "tables.open_file", "decord.VideoReader", "av.open",
})  # fmt: skip
PLAIN = (Tensor, Array, Sequence, Dictionary, Text, Number, Truth, Nothing, Iterator)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a sample costs: the code that costs, or whether it is known to be little."""

    code: str = ""
    is_known: bool = True


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
        classes = self.evaluation.classes
        found = [classes.method(cls, name) for cls in self.classes for name in names]
        return [self.evaluation.at(one[1], one[0].at.file) for one in found if one]

    @property
    def collates(self) -> list[At]:
        """The functions that put its samples together."""
        return [one.at for one in self.loader.value("collate_fn") if isinstance(one, Function)]

    @property
    def is_in_memory(self) -> bool:
        """Whether it may be tensors, arrays or a list: taking one of them is no work."""
        return any(map(_is_memory, self.found))

    @property
    def cost(self) -> Cost:
        """What a sample costs: the worst that is seen, of what puts samples together as well."""
        if self.is_in_memory:
            return Cost()
        costs = [*map(self._cost, self.found), self._of_functions(self.collates)]
        seen = next((cost for cost in costs if cost.code), None)
        is_known = bool(self.found) and all(cost.is_known for cost in costs)
        return seen or Cost(is_known=is_known)

    def _cost(self, one: Alternative) -> Cost:
        match one:
            case Instance(cls=cls):
                return self._of_class(cls)
            case Object(kind=kind):
                if kind.startswith(PICTURES):
                    return Cost(kind)
                return Cost(is_known=kind == MEMORY)
        return Cost(is_known=isinstance(one, PLAIN))

    def _of_class(self, cls: At) -> Cost:
        classes = self.evaluation.classes
        bases = classes.library_bases(cls)
        outside = next((base for base in bases if base.startswith(PICTURES)), "")
        found = [classes.method(cls, name) for name in GIVES]
        own = [self.evaluation.at(one[1], one[0].at.file) for one in found if one]
        is_vision = outside.endswith(".VisionDataset")
        if not own:
            is_light = any(base == MEMORY for base in bases)
            return Cost(outside) if outside and not is_vision else Cost(is_known=is_light)
        cost = self._of_functions(own)
        if cost.code or not outside or is_vision:
            return cost
        calls = (site.node.func for site, _ in reached(self.effects, own))
        asks = any(last_name(func) in GIVES for func in calls)
        return Cost(outside) if asks else Cost(is_known=False)  # arrays in memory, perhaps

    def _of_functions(self, functions: list[At]) -> Cost:
        is_known = True
        for site, file in reached(self.effects, functions):
            module = self.evaluation.module(file)
            for one in self.evaluation.value(site.node.func):
                work = _works(one)
                if work:
                    return Cost(module.brief(site.node))
                is_known = is_known and work is False
        return Cost(is_known=is_known)

    @property
    def gives_gpu_tensors(self) -> bool:
        """Whether samples or batches are made on a GPU, which workers cannot share."""
        functions = [*self.methods(*GIVES), *self.collates]
        if any(self._moves(site.node) for site, _ in reached(self.effects, functions)):
            return True
        units = [self.evaluation.units.get(at) for at in functions]
        return any(
            _on_gpu(cell.value) for unit in units if unit for cell in (unit.returned, unit.yielded)
        )

    def _moves(self, call: cst.Call) -> bool:
        """``x.cuda()``, ``x.to("cuda")``."""
        match call.func:
            case cst.Attribute(attr=cst.Name(value="cuda")):
                return True
            case cst.Attribute(attr=cst.Name(value="to")) if call.args:
                where = self.evaluation.value(call.args[0].value)
                return device_of(where) is Device.CUDA
        return False

    @property
    def remembers(self) -> str:
        """The class of which giving a sample changes the object, a cache, a counter; or ""."""
        for method in self.methods(*GIVES):
            unit = self.evaluation.units.get(method)
            if unit is None or not isinstance(unit.node, cst.FunctionDef):
                continue
            params, index = unit.node.params.params, unit.module.index
            own = params[0].name.value if params else ""
            targets = [one.target for one in index.below(unit.node, cst.AssignTarget)]
            targets += [one.target for one in index.below(unit.node, cst.AugAssign)]
            for target in targets:
                root = root_of(target, subscripts=True)
                if root is not target and isinstance(root, cst.Name) and root.value == own:
                    cls = self.evaluation.class_around(unit)
                    return cls.name if cls else ""
        return ""

    @property
    def handle(self) -> str:
        """The call that opens a file for as long as the dataset lives, or ""."""
        given = {id(site.node) for site, _ in reached(self.effects, self.methods(*GIVES))}
        for cls in self.classes:
            homes = {one.at for one in self.evaluation.classes.lineage(cls)}
            kept = [
                one.call
                for (owner, _), cell in self.evaluation.attributes.items()
                for one in (cell.value if owner in homes else ())
                if isinstance(one, Object) and one.kind in HANDLES
            ]
            for call in kept:
                if call is not None and id(node := self.evaluation.node(call)) not in given:
                    return self.evaluation.module(call.file).brief(node)
        return ""


def datasets_of(effects: Effects, loader: Loader) -> Datasets:
    """Return what the dataset of a loader may be, taken out of subsets and the like."""
    value = unwrapped(effects.evaluation, loader.value("dataset"))
    return Datasets(effects, loader, tuple(value))


def reached(effects: Effects, functions: Iterable[At]) -> Several[tuple[CallSite, int]]:
    """Yield the calls that some functions make, themselves and by others, each with its file."""
    seen: set[At] = set()
    waiting = list(functions)
    while waiting:
        at = waiting.pop(0)
        if at not in seen:
            seen.add(at)
            for site in effects.sites.get(at, ()):
                yield site, at.file
                waiting += site.targets


def _works(one: Alternative) -> bool | None:
    """Whether calling something does work; None where that is not known."""
    match one:
        case Library(name=name) | Object(kind=name):
            if name in WORK or name.startswith(WORKING):
                return True
            return False if name.startswith(LIGHT) or name == "super" else None
        case Function() | Class() | Instance() | Nothing():
            return False  # what these do is asked of them
        case Method(owner=owner):
            inner = _works(owner) if isinstance(owner, Object) else isinstance(owner, PLAIN)
            return inner if isinstance(owner, Object) else False if inner else None
    return None


def _is_memory(one: Alternative) -> bool:
    return isinstance(one, PLAIN) or (isinstance(one, Object) and one.kind == MEMORY)


def _is_iterable(evaluation: Evaluation, one: Alternative) -> bool | None:
    match one:
        case Instance(cls=cls):
            bases, method = evaluation.classes.library_bases(cls), evaluation.classes.method
            if ITERABLE in bases:
                return True
            is_open = evaluation.classes.is_open(cls) and method(cls, "__getitem__") is None
            return None if is_open else False
        case Object(kind=kind):
            return kind in (ITERABLE, "torch.utils.data.ChainDataset")
    return False if isinstance(one, PLAIN) else None


def _on_gpu(value: Value) -> bool:
    for one in value:
        match one:
            case Tensor(device=Device.CUDA):
                return True
            case Sequence(elements=elements, element=element):
                if any(map(_on_gpu, (*(elements or ()), element))):
                    return True
            case Dictionary(entries=entries, element=element):
                if any(map(_on_gpu, (*(entry for _, entry in entries), element))):
                    return True
    return False
