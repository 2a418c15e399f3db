"""A file as a training script: what rules ask.

Files that imports connect are evaluated together, once; each of them is then a `Script` of its own,
and a finding stands in the file that the script is of.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.preferences import DEFAULT, Preferences
from torchlint.semantics.evaluation import Evaluation
from torchlint.semantics.names import PACKAGES
from torchlint.semantics.values import Device
from torchlint.syntax.chains import dotted
from torchlint.training.allocations import MAKERS, Allocation, allocations, holders_of
from torchlint.training.asked import Asked
from torchlint.training.biases import freezes_norms
from torchlint.training.carriers import Carriers
from torchlint.training.compilation import Compilation
from torchlint.training.conventions import suggested
from torchlint.training.copies import Batches, all_copies
from torchlint.training.datasets import Datasets, datasets_of, makes_sparse
from torchlint.training.effects import Effects
from torchlint.training.frequency import Frequencies, Frequency
from torchlint.training.gradients import are_written
from torchlint.training.graphs import Graphs
from torchlint.training.host_reads import HostRead, host_reads
from torchlint.training.layers import Layers
from torchlint.training.loaders import Loader, loaders
from torchlint.training.model_calls import ModelCalls
from torchlint.training.models import Uses
from torchlint.training.parts import Parts
from torchlint.training.precisions import Precisions
from torchlint.training.settings import settings
from torchlint.training.step_models import step_models
from torchlint.training.steps import Steps
from torchlint.training.unused_graphs import UnusedGraphs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packaging.version import Version

    from torchlint.semantics.files import Files
    from torchlint.semantics.values import At, Value
    from torchlint.syntax.module import Module
    from torchlint.training.settings import Setting

FRAMEWORKS = tuple(
    """lightning pytorch_lightning accelerate deepspeed fastai ignite composer transformers.Trainer
    transformers.trainer""".split()
)

MPS = ("torch.mps", "torch.backends.mps")
CHOOSES_GPU = frozenset("torch.cuda.set_device torch.cuda.device torch.nn.DataParallel".split())
# What asks for a GPU, and what takes one where there is one.
ACCELERATORS = tuple(
    """torch.cuda torch.accelerator torch.xpu accelerate.Accelerator lightning.Trainer
    lightning.LightningModule transformers.Trainer transformers.Seq2SeqTrainer""".split()
)


@dataclass(frozen=True, slots=True)
class Settings:
    """For which versions of torch a file is read, and what its fixes write.

    ``target`` is the oldest version, None where it is not known; with ``floor`` the project says
    that newer ones do as well.  ``every_version``: each counts, also those that the code no longer
    runs on.
    """

    target: Version | None = None
    floor: bool = False
    every_version: bool = False
    preferences: Preferences = DEFAULT

    def may_be(self, version: Version) -> bool:
        """Whether the torch in use may be of a version, by what the project declares."""
        return self.floor or self.target is None or self.target >= version


def imported(module: Module) -> Iterator[str]:
    """Yield the dotted names of what a file imports."""
    for alias in module.index.of(cst.ImportAlias):
        above = module.parent(alias)
        whole = dotted(above.module) if isinstance(above, cst.ImportFrom) and above.module else ""
        yield f"{whole}.{dotted(alias.name)}".removeprefix(".")


class Connected:
    """Files that imports connect; nothing is parsed before a rule asks for a value.

    ``load`` parses them.
    """

    def __init__(self, load: Callable[[], Files]) -> None:
        self._load = load
        self._host_reads: dict[int, tuple[HostRead, ...]] = {}

    def release(self) -> None:
        """Forget all: the trees go without the collector."""
        if "evaluation" in self.__dict__:
            self.evaluation.release()
        self.__dict__.clear()

    @cached_property
    def files(self) -> Files:
        """The files, parsed."""
        return self._load()

    @cached_property
    def evaluation(self) -> Evaluation:
        """The values of their expressions."""
        made = Evaluation(self.files, suggested)
        made.evaluate()
        return made

    # What their modules say of these, each found when it is first asked for.
    frequencies = cached_property(
        lambda self: Frequencies(self.evaluation, Effects(self.evaluation))
    )
    loaders = cached_property(lambda self: loaders(self.evaluation))
    copies = cached_property(lambda self: tuple(all_copies(self.evaluation)))
    uploads = cached_property(lambda self: tuple(one for one in self.copies if one.is_upload))
    writes_gradients = cached_property(lambda self: are_written(self.evaluation))
    allocations = cached_property(lambda self: allocations(self.evaluation))
    holders = cached_property(lambda self: holders_of(self.evaluation))
    steps = cached_property(lambda self: Steps(self.frequencies))
    uses = cached_property(lambda self: Uses(self.evaluation, self.frequencies.effects))
    layers = cached_property(lambda self: Layers(self.uses))
    asked = cached_property(lambda self: Asked(self.evaluation, self.frequencies.effects))
    step_models = cached_property(lambda self: step_models(self.steps) if self.uses_gpu else ())
    freezes_norms = cached_property(freezes_norms)
    makes_sparse = cached_property(lambda self: makes_sparse(self.evaluation))
    set_switches = cached_property(lambda self: settings(self.evaluation))
    parts = cached_property(lambda self: Parts(self.evaluation))
    precisions = cached_property(lambda self: Precisions(self.evaluation, self.uses, self.parts))
    compilation = cached_property(
        lambda self: Compilation(self.evaluation, self.frequencies, self.uses, self.parts)
    )
    model_calls = cached_property(
        lambda self: ModelCalls(self.evaluation, self.frequencies.effects)
    )
    graphs = cached_property(
        lambda self: Graphs(
            self.evaluation,
            self.frequencies,
            Carriers(self.evaluation, self.frequencies),
            self.asked,
            self.model_calls,
        )
    )
    unused_graphs = cached_property(
        lambda self: UnusedGraphs(self.evaluation, self.asked, self.model_calls)
    )

    @cached_property
    def libraries(self) -> frozenset[str]:
        """The first names of what they import."""
        modules = self.files.modules
        return frozenset(name.partition(".")[0] for one in modules for name in imported(one))

    def switches(self, *files: int) -> list[Setting]:
        """Return where files, or what runs with one of them, set switches of torch."""
        told = self.set_switches
        together = {near for one in files if told for near in self.files.together(one)}
        return [one for one in told if one.file in together]

    def turns(self, loader: Loader) -> list[Frequency]:
        """Return how often the batches of a loader are taken, for each place that takes them."""
        return [self.frequencies.of(one.node, one.file) for one in loader.turns]

    @cached_property
    def uses_gpu(self) -> bool:
        """Whether anything in them is seen to be on a GPU, to go there, or to ask for one."""
        return (
            any(name.startswith(ACCELERATORS) for name in self.evaluation.named)
            or any(self.files.attributes("cuda"))  # ``x.cuda()``
            or any(getattr(one, "device", None) is Device.CUDA for one in self.evaluation.met)
        )

    def host_reads(self, file: int) -> tuple[HostRead, ...]:
        """Return where a file makes the host wait for the numbers of a tensor."""
        found = self._host_reads.get(file)
        if found is None:
            found = self._host_reads[file] = tuple(host_reads(self.evaluation, file))
        return found

    @cached_property
    def reads_of_steps(self) -> Mapping[At, int]:
        """How many host reads there are in each turn of a loop that trains or evaluates."""
        found: Counter[At] = Counter()
        for file in range(len(self.files.modules)):
            for read in self.host_reads(file):
                way = self.frequencies.of(read.node, file)
                if way.loop is not None and way.guard is None:
                    found[way.loop] += 1
        return found

    @cached_property
    def may_use_mps(self) -> bool:
        """Whether anything in them names the GPU of Apple, which has no float64."""
        is_named = any(name.startswith(MPS) for name in self.evaluation.named)
        return is_named or any(text.partition(":")[0] == "mps" for text in self.evaluation.texts)

    @cached_property
    def uses_several_gpus(self) -> bool:
        """Whether anything in them names another GPU than the first, or chooses one by a number."""
        others = {name.partition("cuda:")[2] for name in self.evaluation.texts} - {"", "0"}
        return bool(others | (self.evaluation.named & CHOOSES_GPU))

    def script(self, path: str, module: Module, settings: Settings) -> Script:
        """Return one of the files as a script."""
        return Script(self, path, module, settings)


class Script:
    """One file, with what is known of it together with those that it is connected to."""

    def __init__(self, connected: Connected, path: str, module: Module, settings: Settings) -> None:
        self.connected, self.module = connected, module
        self.settings = settings
        self._path = path

    @cached_property
    def file(self) -> int:
        """The rank of the file among those that it is connected to."""
        return self.connected.files.ranks[self._path]

    def value(self, node: cst.BaseExpression) -> Value:
        """Return what an expression may be."""
        return self.connected.evaluation.value(node)

    def frequency(self, node: cst.CSTNode) -> Frequency:
        """Return how often a node runs."""
        return self.connected.frequencies.of(node, self.file)

    def name(self, node: cst.BaseExpression) -> str:
        """Return the name of what a library has there, "" where it may be anything else."""
        return self.connected.evaluation.library(node)

    def calls_of(self, *names: str) -> Iterator[tuple[cst.Call, str]]:
        """Yield the calls of functions of libraries, each with the name, in their order.

        Such a call, or the import of what it calls, names the library and the function: else
        nothing is evaluated.
        """
        if not any(map(self._may_call, names)):
            return
        for call in self.module.index.of(cst.Call):
            name = self.name(call.func)
            if name in names:
                yield call, name

    def _may_call(self, name: str) -> bool:
        named, package = self.module.index.named, name.partition(".")[0]
        packages = PACKAGES.get(package, (package,))
        return name.rpartition(".")[2] in named and any(one in named for one in packages)

    def is_statement(self, call: cst.Call) -> bool:
        """Whether a call is a statement of its own."""
        return isinstance(self.module.parent(call), cst.Expr)

    @cached_property
    def frameworks(self) -> frozenset[str]:
        """Training frameworks that the file imports: they wrap loops, loaders and devices."""
        names = [f"{name}." for name in imported(self.module)]
        return frozenset(
            one for one in FRAMEWORKS if any(name.startswith(f"{one}.") for name in names)
        )

    def kind(self, node: cst.BaseExpression) -> str:
        """Return what kind of thing an expression may be: an "optimizer", a "module" ..., or ""."""
        effects = self.connected.frequencies.effects
        return next((kind for one in self.value(node) if (kind := effects.kind(one))), "")

    @cached_property
    def loaders(self) -> tuple[Loader, ...]:
        """The loaders that the file makes."""
        if "DataLoader" not in self.module.index.named:
            return ()
        return tuple(one for one in self.connected.loaders if one.at.file == self.file)

    def datasets(self, loader: Loader) -> Datasets:
        """Return what the dataset of a loader may be."""
        return datasets_of(self.connected.frequencies.effects, loader)

    def batches(self, loader: Loader) -> Batches:
        """Return where the batches of a loader go."""
        return Batches(self.connected.evaluation, loader, self.connected.uploads)

    @cached_property
    def allocations(self) -> tuple[Allocation, ...]:
        """The tensors that the file makes on the host, and that are moved to a device."""
        if not self.module.index.named.keys() & MAKERS:
            return ()
        return tuple(one for one in self.connected.allocations if one.at.file == self.file)

    @cached_property
    def host_reads(self) -> tuple[HostRead, ...]:
        """Where the host waits for the numbers of a tensor, of which something may be on a GPU."""
        return self.connected.host_reads(self.file) if self.connected.uses_gpu else ()
