"""Whether the file can run on a GPU at all, by what it says about devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.importing import importers
from torchlint.analysis.options import option_default
from torchlint.analysis.values import Device, Kind, join_devices
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.analysis.program import Program
    from torchlint.analysis.project import Project

_CUDA_STRING = re.compile(r"cuda(:|$)")
_MPS = re.compile(r"(?<![A-Za-z])mps(?![A-Za-z])")  # not json.dumps
_GPU_WORDS = ("cuda", "device", "gpu", "accelerator")
# DeepSpeed's engines, and the accelerator they run on: a GPU, where there is one.
_ENGINES = frozenset({"deepspeed.initialize", "deepspeed.get_accelerator",
                      "deepspeed.accelerator.get_accelerator"})  # fmt: skip
_CUDA_MARKS = ("torch.cuda.", "torch.backends.cudnn", "torch.accelerator.")


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that is true where the script uses a GPU.

    ``needs_torch``: the module torch has to be imported for it.
    """

    code: str
    needs_torch: bool = False


class Devices:
    """Device evidence of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._asking = False

    @cached_property
    def evidence(self) -> Device:
        """What the file as a whole says: CUDA, maybe, or CPU where nothing speaks of a GPU."""
        return Device.MAYBE if self.own is Device.CPU and self._beside_gpu() else self.own

    @cached_property
    def own(self) -> Device:
        """What the file says itself, whoever uses it."""
        best = Device.CPU
        for call in self._program.index.of(cst.Call):
            found = self._of_call(call)
            if found is Device.CUDA:
                return Device.CUDA
            if found is Device.MAYBE:
                best = Device.MAYBE
        return Device.MAYBE if best is Device.CPU and self._mentions_cuda() else best

    def _beside_gpu(self) -> bool:
        """Whether a file that uses this one, or has a base of its classes, runs on a GPU."""
        project = self._program.project
        if project is None or self._asking:
            return False
        self._asking = True  # files that import one another
        try:
            return self._is_used_on_gpu(project) or self._extends_on_gpu(project)
        finally:
            self._asking = False

    def _is_used_on_gpu(self, project: Project) -> bool:
        for name in importers(self._program):
            if any(word in project.imports.text(name) for word in _GPU_WORDS):
                other = project.program(name)
                if other is not None and other.devices.gpu:
                    return True
        return False

    def _extends_on_gpu(self, project: Project) -> bool:
        """``class Trainer(BaseTrainer)``, of which another file puts the model on a GPU."""
        program = self._program
        return any(
            home is not program and home.devices.own.gpu  # not by what another heir does
            for owner in program.classes
            for home, _ in project.lineage(program, owner)
        )

    @property
    def gpu(self) -> bool:
        """Whether the file can run on a GPU."""
        return self.evidence.gpu

    @cached_property
    def named(self) -> bool:
        """Whether the file itself says that it means a GPU, and not only a "device"."""
        names = self._program.names
        for call in self._program.index.of(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "cuda":
                return True
        for node in self._program.index.of(cst.Attribute):
            if names.qualified(node).startswith(_CUDA_MARKS):
                return True
        for text in self._program.index.of(cst.SimpleString):
            if _CUDA_STRING.match(literal(text) or ""):
                return True
        return self._mentions_cuda() or self._is_asked_of_options

    @cached_property
    def _is_asked_of_options(self) -> bool:
        """``torch.device(args.device)``, an option of another file that names CUDA by default."""
        program = self._program
        for call in (
            *program.calls_of("torch.device"),
            *(call for call, _ in program.method_calls("to")),
        ):
            match call.args:
                case [cst.Arg(keyword=None, value=cst.Attribute() as option), *_]:
                    found = option_default(program, option)
                case _:
                    continue
            if found is None or _MPS.search(found[0].text):
                continue
            if _CUDA_STRING.match(literal(found[1]) or ""):
                return True
        return False

    @cached_property
    def single(self) -> bool:
        """Whether all that is on a GPU is on one and the same: nothing speaks of several."""
        text = self._program.text
        several = ("cuda:", "set_device", "DataParallel", "distributed", "device_ids", ".cuda(rank")
        return not any(word in text for word in several) and not any(
            call.args for call, _ in self._program.method_calls("cuda")
        )

    def _of_call(self, call: cst.Call) -> Device:
        program = self._program
        name = program.names.qualified(call.func)
        if name.startswith(("torch.cuda.", "torch.accelerator.")) or name in _ENGINES:
            return Device.MAYBE
        if not isinstance(call.func, cst.Attribute):
            return self._named_device(call)
        match call.func.attr.value:
            case "cuda" if not name:
                return Device.CUDA
            case "to":
                found = program.values.moved_to(call, Device.UNKNOWN)
                return found if found.gpu else Device.UNKNOWN
            case _:
                return self._named_device(call)

    def _named_device(self, call: cst.Call) -> Device:
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value in ("device", "map_location"):
                text = literal(arg.value)
                if text is not None and text.startswith("cuda"):
                    return Device.CUDA
        if self._program.names.qualified(call.func) == "torch.device" and call.args:
            found = self._program.values.device(call.args[0].value)
            return found if found is not None and found.gpu else Device.UNKNOWN
        return Device.UNKNOWN

    def _mentions_cuda(self) -> bool:
        for node in self._program.index.of(cst.Attribute):
            last = node.attr.value
            if last not in ("is_available", "device"):
                continue
            if self._program.names.qualified(node).startswith(_CUDA_MARKS):
                return True
            if last == "device" and dotted(node.value) in ("accelerator", "fabric"):
                return True
        return False

    def condition(
        self, at: cst.CSTNode, devices: Iterable[cst.BaseExpression | None]
    ) -> Condition | None:
        """Return an expression that is true, at a node, where the script uses a GPU.

        Args:
            at: the expression has to be valid in the place of this node.
            devices: expressions of the script for the device; the first that can be asked is.

        None where the name torch means something else.

        """
        text = self._program.text
        if "torch.accelerator" not in text:
            for device in devices:
                if isinstance(device, cst.Name) and self._is_made_before(device, at):
                    return Condition(f'{device.value}.type == "cuda"')
        name = self.torch_name(at)
        if not name and self._program.index.scope(at).owner("torch") is not None:
            return None
        module = "accelerator" if "torch.accelerator" in text and not _MPS.search(text) else "cuda"
        return Condition(f"{name or 'torch'}.{module}.is_available()", needs_torch=not name)

    def _is_made_before(self, device: cst.Name, at: cst.CSTNode) -> bool:
        """Whether a name is a ``torch.device`` that has certainly been made at a node."""
        index = self._program.index
        owner = index.scope(at).owner(device.value)
        if owner is None or owner is not index.scope(device).owner(device.value):
            return False
        if len(owner.bindings[device.value]) != 1:
            return False
        (binding,) = owner.bindings[device.value]
        value = self._program.values.binding(binding)
        if value.kind is not Kind.DEVICE or index.order(binding.node) > index.order(at):
            return False
        if isinstance(binding.value, cst.Param):
            return binding.value.annotation is not None and binding.value.default is None
        block = self._program.parent(self._program.statement(binding.node))
        always = block is owner.node or (block is not None and index.inside(at, block))
        made = binding.value
        return (
            always
            and isinstance(made, cst.Call)
            and self._program.qualified(made.func) == "torch.device"
        )

    def torch_name(self, at: cst.CSTNode) -> str:
        """Return the name under which the module torch is known at a node, or the empty string."""
        root = self._program.index.root
        for name, bindings in root.bindings.items():
            imported = bindings[0].kind is Bind.IMPORT
            means_torch = imported and self._program.names.root(name, root) == "torch"
            if means_torch and self._program.index.scope(at).owner(name) is root:
                return name
        return ""

    def of_string(self, node: cst.CSTNode) -> Device:
        """Return the device that an expression made of strings names.

        ``"cuda" if torch.cuda.is_available() else "cpu"`` may be CUDA.
        """
        return self._of_string(node, 0)

    def _of_string(self, node: cst.CSTNode | None, depth: int) -> Device:
        if depth > 8:
            return Device.UNKNOWN
        match node:
            case cst.SimpleString():
                found = self._program.values.device(node)
                return Device.UNKNOWN if found is None else found
            case cst.FormattedString():
                return self._program.values.device(node) or Device.UNKNOWN
            case cst.IfExp():
                if "gloo" in self._program.code(node.test):
                    return Device.CPU  # who asks has a group of processes for what is there
                return join_devices(
                    self._of_string(node.body, depth + 1), self._of_string(node.orelse, depth + 1)
                )
            case cst.Name():
                found = None
                for binding in self._program.flow.reaching(node):
                    if not binding.is_plain:
                        return Device.UNKNOWN
                    one = self._of_string(binding.value, depth + 1)
                    found = one if found is None else join_devices(found, one)
                return found or Device.UNKNOWN
            case _:
                return Device.UNKNOWN

    def of_tensor_type(self, node: cst.CSTNode | None) -> Device:
        """Return where ``torch.cuda.FloatTensor`` puts a tensor; maybe there, by one of two."""
        return self._of_tensor_type(node, 0)

    def _of_tensor_type(self, node: cst.CSTNode | None, depth: int) -> Device:
        if depth > 4:
            return Device.UNKNOWN
        text = literal(node) or self._program.qualified(node)
        if text.startswith("torch.cuda.") and text.endswith("Tensor"):
            return Device.CUDA
        match node:
            case cst.IfExp():
                sides = {self._of_tensor_type(side, depth + 1) for side in (node.body, node.orelse)}
                return Device.MAYBE if any(side.gpu for side in sides) else Device.UNKNOWN
            case cst.Name():
                bound = {
                    self._of_tensor_type(binding.value, depth + 1)
                    for binding in self._program.flow.reaching(node)
                    if binding.is_plain
                }
                if bound == {Device.CUDA}:
                    return Device.CUDA
                return Device.MAYBE if any(side.gpu for side in bound) else Device.UNKNOWN
            case _:
                return Device.UNKNOWN
