"""One parsed file and its facts, each computed once and only when a rule asks for it."""

from __future__ import annotations

import builtins
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import Argument, Arguments
from torchlint.analysis.calls import Calls
from torchlint.analysis.classes import Class, Classes
from torchlint.analysis.datasets import Datasets
from torchlint.analysis.derivation import terms_of_losses
from torchlint.analysis.devices import Devices
from torchlint.analysis.engines import Engines
from torchlint.analysis.evaluate import Evaluator
from torchlint.analysis.floating import is_floating
from torchlint.analysis.flow import Flow
from torchlint.analysis.growth import Growth
from torchlint.analysis.layers import Link, links
from torchlint.analysis.loaders import Loaders
from torchlint.analysis.loops import Context, Loops
from torchlint.analysis.names import Names
from torchlint.analysis.needless_waits import Clock, needless_waits, timed_waits
from torchlint.analysis.queued import implied_waits, index_copies, waits
from torchlint.analysis.raising import Raising
from torchlint.analysis.recording import Recordings
from torchlint.analysis.removed import Limit, limit, named, own
from torchlint.analysis.syncs import Sync, syncs
from torchlint.analysis.truths import truths
from torchlint.analysis.unreached import Unreached
from torchlint.analysis.usage import Usage
from torchlint.analysis.values import Device, Value
from torchlint.analysis.waits import calls_that_wait
from torchlint.preferences import DEFAULT, Preferences
from torchlint.syntax.module import Module
from torchlint.test_code import is_test

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packaging.version import Version

    from torchlint.analysis.project import Project
    from torchlint.training.script import Connected

_FRAMEWORKS = ("lightning", "pytorch_lightning", "accelerate", "deepspeed", "fastai", "ignite",
               "composer", "transformers.Trainer", "transformers.trainer")  # fmt: skip

# Builtins that libraries export another of, as found in numpy, torch, math, os and 30 more.
_IN_LIBRARIES = frozenset(
    """abs all any bool breakpoint bytes compile divmod exit max min open pow print property round
    sum""".split()
)
_IN_TORCH = _IN_LIBRARIES | {"complex", "float", "int", "range"}


class Program(Module):
    """A file of Python as the rules see it, with the facts that they ask for.

    Args:
        text: the decoded source.
        path: where it stands, for rules that look at the name of the file.
        target: the lowest torch version the project supports; None where it is not known.
        preferences: what fixes write where they have to choose.

    Raises:
        libcst.ParserSyntaxError: the text is not Python 3.

    """

    def __init__(
        self,
        text: str,
        path: Path | None = None,
        target: Version | None = None,
        preferences: Preferences = DEFAULT,
    ) -> None:
        """Parse the text; facts come later."""
        super().__init__(text)
        self.module = self.tree
        self.path = path
        self.target = target
        self.floor = False  # the target is only where the versions begin that the project supports
        self.every_version = False  # nothing that the code says of versions counts
        self.preferences = preferences
        self.project: Project | None = None
        self.connected: Connected | None = None  # where it belongs to no project

    def release(self) -> None:
        """Forget all facts, those of the new core as well."""
        if self.connected is not None:
            self.connected.release()
        super().release()

    def forget(self) -> None:
        """Forget all facts but the tree: another file of the project has changed."""
        for name in [name for name in self.__dict__ if name in _FACTS]:
            del self.__dict__[name]

    # -- facts -------------------------------------------------------------------------------

    @cached_property
    def lowered(self) -> str:
        """The text in small letters."""
        return self.text.lower()

    @cached_property
    def is_test(self) -> bool:
        """Whether the file is a test, by its place in the project or by its name and text."""
        root = None if self.project is None else self.project.imports.root
        return is_test(self.path, self.text, root)

    @cached_property
    def names(self) -> Names:
        """Which import a name stands for."""
        return Names(self.index, self.flow, self._brought, self._taken)

    def _brought(self, module: str, name: str) -> str:
        return "" if self.project is None else self.project.brought(self, module, name)

    def _taken(self, name: str) -> str:
        return "" if self.project is None else self.project.taken(self, name)

    def _is_defined(self, name: str) -> bool:
        return self.project is not None and self.project.define(self, name) is not None

    @cached_property
    def flow(self) -> Flow:
        """Which bindings a use of a name may see."""
        return Flow(self.index)

    @cached_property
    def arguments(self) -> Arguments:
        """Arguments of calls by parameter."""
        return Arguments(self)

    @cached_property
    def classes(self) -> Classes:
        """The classes of the file."""
        return Classes(self.index, self.names, self._kind_of_class)

    def _kind_of_class(self, name: str) -> tuple[bool, bool]:
        """Whether a class of another file is a module, and whether it is a dataset."""
        found = None if self.project is None else self.project.defined_class(self, name)
        return (False, False) if found is None else (found[1].is_module, found[1].is_dataset)

    def class_named(self, name: str) -> tuple[Program, Class] | None:
        """Return the class that a qualified name means, here or in another file, and its file."""
        own = self.classes.named(name)
        if own is not None:
            return self, own
        return None if self.project is None else self.project.defined_class(self, name)

    @cached_property
    def calls(self) -> Calls:
        """Who calls whom."""
        return Calls(self)

    @cached_property
    def unreached(self) -> Unreached:
        """Which places nothing reaches."""
        return Unreached(self)

    @cached_property
    def raising(self) -> Raising:
        """Which places always raise."""
        return Raising(self)

    @cached_property
    def usage(self) -> Usage:
        """What names must be, by how they are used."""
        return Usage(self)

    @cached_property
    def devices(self) -> Devices:
        """Whether the file can run on a GPU."""
        return Devices(self)

    @cached_property
    def values(self) -> Evaluator:
        """What is known of the value of an expression."""
        return Evaluator(self)

    @cached_property
    def loops(self) -> Loops:
        """What runs in every training step."""
        return Loops(self)

    @cached_property
    def loaders(self) -> Loaders:
        """Where the batches of each DataLoader go."""
        return Loaders(self)

    @cached_property
    def engines(self) -> Engines:
        """Which function an engine of Ignite runs for each batch of which data."""
        return Engines(self)

    @cached_property
    def datasets(self) -> Datasets:
        """Which class the dataset of each DataLoader is."""
        return Datasets(self)

    @cached_property
    def growth(self) -> Growth:
        """What lists are given after they are made."""
        return Growth(self)

    @cached_property
    def recordings(self) -> Recordings:
        """Whether autograd records what runs at a place."""
        return Recordings(self)

    @cached_property
    def links(self) -> list[Link]:
        """Which layer feeds which."""
        return list(links(self))

    @cached_property
    def syncs(self) -> list[Sync]:
        """Where the host reads a GPU tensor in a training or evaluation step."""
        return syncs(self)

    @cached_property
    def truths(self) -> list[Sync]:
        """Where a training step asks whether a GPU tensor is true."""
        return truths(self)

    @cached_property
    def terms_of_losses(self) -> set[int]:
        """The bindings, by their identity, of the names that are added up to what goes back."""
        return terms_of_losses(self)

    @cached_property
    def waits(self) -> list[cst.Call]:
        """Where the host waits for all that was queued: ``torch.cuda.synchronize()``."""
        return waits(self)

    @cached_property
    def needless_waits(self) -> list[cst.Call]:
        """Those of the waits that training steps could do without."""
        return needless_waits(self)

    @cached_property
    def timed_waits(self) -> dict[cst.Call, Clock]:
        """Waits of training steps for a clock, and when the time is read."""
        return timed_waits(self)

    @cached_property
    def index_copies(self) -> list[cst.Subscript]:
        """Where a tensor on a GPU is indexed with what has to be copied there first."""
        return index_copies(self)

    @cached_property
    def implied_waits(self) -> list[cst.BaseExpression]:
        """Where the host waits by the way: it counts what a mask selects, or asks a tensor."""
        return implied_waits(self)

    @cached_property
    def calls_that_wait(self) -> list[cst.Call]:
        """Where a function is called that waits for what it is given before it queues more."""
        return calls_that_wait(self)

    @cached_property
    def removed(self) -> tuple[Limit, ...]:
        """What the file itself uses that torch no longer has."""
        return tuple(own(self))

    @property
    def limit(self) -> Limit | None:
        """Where the torch versions end that the file can run on, by what it uses."""
        return None if self.every_version else self._limit

    @cached_property
    def _limit(self) -> Limit | None:
        return limit(self)

    @property
    def named(self) -> Version | None:
        """The lowest torch version that a README names, where the project declares none."""
        return None if self.every_version else self._named

    @cached_property
    def _named(self) -> Version | None:
        return named(self) if self.target is None else None

    def is_named_below(self, version: Version) -> bool:
        """Whether a README names a torch older than a version, and nothing else is declared."""
        return self.named is not None and self.named < version

    def reaches(self, version: Version) -> bool:
        """Whether the file can run on a version of torch: it uses nothing that was removed."""
        return self.limit is None or version < self.limit.version

    def may_run_on(self, version: Version) -> bool:
        """Whether the file can run on a version of torch, and its project does not pin an older."""
        declared = None if self.floor else self.target
        return self.reaches(version) and (declared is None or declared >= version)

    def may_be(self, version: Version) -> bool:
        """Whether the torch in use may be of a version, by all that the project says of it."""
        return self.may_run_on(version) and not self.is_named_below(version)

    # -- the questions that rules ask most ---------------------------------------------------

    def qualified(self, node: cst.CSTNode | None) -> str:
        """Qualified name of what a name or attribute chain stands for, or ""."""
        return self.names.qualified(node)

    def value(self, node: cst.CSTNode | None) -> Value:
        """Return what is known of the value of an expression."""
        return self.values.of(node)

    def argument(self, call: cst.Call, name: str, function: str | None = None) -> Argument:
        """Return the argument a call passes for a parameter."""
        return self.arguments.of(call, name, function)

    def context(self, node: cst.CSTNode) -> Context:
        """How often a node runs."""
        return self.loops.context(node)

    def on_gpu(self, value: Value) -> bool:
        """Whether a tensor lives on a GPU, or may: by itself, else by what the file says."""
        if value.device is Device.UNKNOWN:
            return self.devices.gpu
        return value.device.gpu

    def is_floating(self, node: cst.BaseExpression) -> bool:
        """Whether a tensor is proved to hold floating-point numbers: a loss, a mean, a gradient."""
        return is_floating(self, node)

    def calls_of(self, *names: str) -> Iterator[cst.Call]:
        """Return calls of functions by qualified name."""
        found = [call for name in names for call in self._calls.get(name, ())]
        return iter(found if len(names) == 1 else sorted(found, key=self.index.order))

    @cached_property
    def _calls(self) -> dict[str, list[cst.Call]]:
        found: dict[str, list[cst.Call]] = {}
        for call in self.index.of(cst.Call):
            found.setdefault(self.names.qualified(call.func), []).append(call)
        return found

    def method_calls(self, *names: str) -> Iterator[tuple[cst.Call, cst.Attribute]]:
        """Return calls of methods by name, whatever they are called on."""
        found = [pair for name in names for pair in self._method_calls.get(name, ())]
        return iter(found if len(names) == 1 else sorted(found, key=self._place_of_call))

    @cached_property
    def _method_calls(self) -> dict[str, list[tuple[cst.Call, cst.Attribute]]]:
        found: dict[str, list[tuple[cst.Call, cst.Attribute]]] = {}
        for call in self.index.of(cst.Call):
            func = call.func
            if type(func) is cst.Attribute:
                found.setdefault(func.attr.value, []).append((call, func))
        return found

    def _place_of_call(self, pair: tuple[cst.Call, cst.Attribute]) -> int:
        return self.index.order(pair[0])

    def sites_everywhere(self, function: cst.FunctionDef) -> list[tuple[Program, cst.Call]]:
        """Return the calls of a function of this file, each with the file it stands in."""
        own = [(self, call) for call in self.calls.sites(function)]
        return own if self.project is None else own + self.project.callers(self, function)

    def is_builtin(self, name: cst.Name) -> bool:
        """Whether a name is nobody's in this file, so that it is Python's own."""
        word, scope = name.value, self.index.scope(name)
        if not hasattr(builtins, word) or scope.owner(word) is not None:
            return False
        return not any(self._may_bring(star, word) for star in scope.module().stars)

    def _may_bring(self, star: cst.ImportFrom, builtin: str) -> bool:
        """Whether ``from x import *`` may put something else in the place of a builtin.

        Of a file of the project that is known; libraries have some of the names.
        """
        module = self.names.module_of(star)
        name = f"{module}.{builtin}"
        if self.project is not None and self.project.imports.find(str(self.path), name):
            return self._is_defined(name)
        return builtin in (_IN_TORCH if module == "torch" else _IN_LIBRARIES)

    def is_method(self, function: cst.FunctionDef) -> bool:
        """Whether a function takes ``self`` (or ``cls``) first."""
        block = self.index.parent(function)
        above = None if block is None else self.index.parent(block)
        return isinstance(above, cst.ClassDef) and not self.is_static(function)

    def is_static(self, function: cst.FunctionDef) -> bool:
        """Whether a function is a static method."""
        return _decorated(function, "staticmethod")

    def is_property(self, function: cst.FunctionDef) -> bool:
        """Whether a method is read as an attribute."""
        return _decorated(function, "property")

    def returns(self, function: cst.FunctionDef) -> list[cst.Return]:
        """Return statements of a function, not of those inside it."""
        found = self.index.below(function.body, cst.Return)
        return [node for node in found if self.function(node) is function]

    def returned_parameter(self, function: cst.FunctionDef) -> cst.Param | None:
        """Return the parameter that a function returns, whatever it did with it before."""
        given = [self._parameter(item.value) for item in self.returns(function)]
        first = given[0] if given else None
        return first if all(one is first for one in given) else None

    def _parameter(self, node: cst.BaseExpression | None) -> cst.Param | None:
        bindings = self.flow.reaching(node) if isinstance(node, cst.Name) else ()
        value = bindings[0].value if len(bindings) == 1 else None
        return value if isinstance(value, cst.Param) else None

    def yields(self, function: cst.FunctionDef) -> bool:
        """Whether a function is a generator."""
        found = self.index.below(function.body, cst.Yield)
        return any(self.function(node) is function for node in found)

    @cached_property
    def frameworks(self) -> frozenset[str]:
        """Training frameworks that the file imports: they wrap loops, loaders and devices."""
        found: set[str] = set()
        for name in self.names.imported():
            found.update(f for f in _FRAMEWORKS if name == f or name.startswith(f + "."))
        return frozenset(found)

    @property
    def wrappers(self) -> frozenset[str]:
        """The frameworks that may put another loader in the place of one: Ignite does not."""
        return self.frameworks - {"ignite"}


_FACTS = frozenset(
    name for name, fact in vars(Program).items() if isinstance(fact, cached_property)
)


def _decorated(function: cst.FunctionDef, name: str) -> bool:
    return any(
        isinstance(item.decorator, cst.Name) and item.decorator.value == name
        for item in function.decorators
    )
