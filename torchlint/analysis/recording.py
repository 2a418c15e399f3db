"""Whether autograd records what runs at a place: is it under ``torch.no_grad()``, here or above."""

from __future__ import annotations

import enum
import re
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.debugging import in_test
from torchlint.analysis.loops import Role
from torchlint.analysis.reach import callee, callers, class_of
from torchlint.analysis.values import Kind
from torchlint.imports import MANY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.analysis.program import Program


class Recording(enum.Enum):
    """Whether operations on tensors that require gradients are recorded."""

    ON = enum.auto()
    WANTED = enum.auto()  # by torch.enable_grad()
    ASSUMED = enum.auto()  # nothing turns it off in sight, but nobody is seen to call the function
    SOME = enum.auto()  # some callers turn it off, and others do not
    UNKNOWN = enum.auto()  # a context, decorator or caller that may turn it off
    OFF = enum.auto()


_SWITCHES = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})
_TURNS_ON = frozenset({"torch.enable_grad", "torch.autograd.enable_grad"})
# Contexts that leave gradients alone.
_NEUTRAL = re.compile(
    r"torch\.(\w+\.)*(autocast|profile|record_function|emit_nvtx|device|stream|fork_rng|sdpa_kernel)|"
    r"torch\.backends\.[\w.]+|contextlib\.(nullcontext|suppress|redirect_std\w+)|"
    r"tqdm\.[\w.]+|warnings\.catch_warnings|rich\.progress\.\w+|tempfile\.\w+|"
    r"torch\.utils\.tensorboard\.\w+|concurrent\.futures\.\w+|multiprocessing\.[\w.]+"
)
# Decorators that leave gradients alone.
_PLAIN = re.compile(
    r"click\.[\w.]+|hydra\.main|typing\.\w+|functools\.\w+|abc\.\w+|"
    r"torch\.distributed\.elastic\.multiprocessing\.errors\.record|torch\.compile"
)
# Where it depends on what a function is given whether a line of it runs.
_DEPENDING = (cst.If, cst.IfExp, cst.For, cst.While, cst.Try, cst.BooleanOperation, cst.Lambda)
_BUILTIN = frozenset({"staticmethod", "classmethod", "property"})
# What a context of the project may say that turns gradients off or on, also by way of others.
_SWITCHING = re.compile(r"grad|inference_mode|\bwith\b|\.__(enter|exit)__\(|enter_context|super\(")
_CONTEXT_BASES = frozenset(
    {"object", "contextlib.ContextDecorator", "contextlib.AbstractContextManager"}
)
_DEPTH = 6  # names that stand for contexts
_DECIDES = frozenset({cst.With, cst.FunctionDef, cst.Lambda})


class Recordings:
    """Whether gradients are recorded, at the places of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._functions: dict[int, Recording] = {}

    def at(self, node: cst.CSTNode) -> Recording:
        """Whether what runs at a node is recorded."""
        child = node
        for above in self._program.index.ancestors(node):
            found = None
            if type(above) not in _DECIDES:  # most nodes: that many cases cost a while
                child = above
                continue
            match above:
                case cst.With() if child is above.body:
                    found = self._under(above)
                case cst.FunctionDef() if child is above.body:
                    return self.function(above)
                case cst.Lambda():
                    return Recording.UNKNOWN
                case _:
                    pass
            if found is not None:
                return found
            child = above
        return self._everywhere

    def function(self, function: cst.FunctionDef) -> Recording:
        """Whether the body of a function is recorded, by its decorators and its callers."""
        found = self._functions.get(id(function))
        if found is None:
            self._functions[id(function)] = Recording.ASSUMED  # it calls itself
            found = self._functions[id(function)] = self._of_function(function)
        return found

    def _of_function(self, function: cst.FunctionDef) -> Recording:
        for item in function.decorators:
            found = self._decorated(item.decorator)
            if found is not None:
                return found
        if self._everywhere is not Recording.ON:
            return self._everywhere
        if self._trains(function) or self._goes_back(function):
            return Recording.ON
        sites = list(callers(self._program, function))
        if not sites and self._may_be_under_no_grad(function):
            return Recording.OFF
        used = [(other, site) for other, site in sites if not in_test(other, site)]
        return _agreed(other.recordings.at(site) for other, site in used or sites)

    def _may_be_under_no_grad(self, function: cst.FunctionDef) -> bool:
        """Whether all calls that may be of a method, by its name, turn gradients off.

        ``with torch.no_grad(): algorithm.validate(loader)`` of an algorithm that an option chooses.
        """
        project, name = self._program.project, function.name.value
        if project is None or name.startswith("__") or not self._program.is_method(function):
            return False
        files = project.imports.having((f".{name}(",))
        homes = [project.program(file) for file in sorted(files)] if len(files) <= MANY else []
        found = [
            home.recordings.at(call)
            for home in homes
            if home is not None
            for call, func in home.method_calls(name)
            if home.value(func.value).kind is Kind.UNKNOWN and callee(home, call) is None
        ]
        return bool(found) and all(one is Recording.OFF for one in found)

    def _decorated(self, node: cst.BaseExpression) -> Recording | None:
        """Return what a decorator decides; None where it leaves gradients alone."""
        program = self._program
        if program.loops.is_no_grad(node):
            return Recording.OFF
        func = node.func if isinstance(node, cst.Call) else node
        name = program.qualified(func)
        if name in _TURNS_ON:
            return Recording.WANTED
        builtin = isinstance(func, cst.Name) and func.value in _BUILTIN
        return None if builtin or _PLAIN.fullmatch(name) else Recording.UNKNOWN

    def _trains(self, function: cst.FunctionDef) -> bool:
        """Whether a function holds a training loop, or a loop of such: gradients are on there."""
        role, below = self._program.loops.role, self._program.index.below
        loops: list[cst.For | cst.While] = [*below(function, cst.For), *below(function, cst.While)]
        return any(role(loop) in (Role.TRAIN, Role.EPOCH) for loop in loops)

    def _goes_back(self, function: cst.FunctionDef) -> bool:
        """Whether a function calls ``backward()`` whatever it is given: that needs a graph."""
        program = self._program
        for call, _ in program.method_calls("backward"):
            if program.function(call) is function and not any(
                isinstance(above, _DEPENDING)
                or (isinstance(above, cst.With) and self._under(above) is not None)
                for above in takewhile(
                    lambda one: one is not function, program.index.ancestors(call)
                )
            ):
                return True
        return False

    def _under(self, node: cst.With) -> Recording | None:
        """Return what a ``with`` block decides; None where it leaves gradients alone."""
        found = [self._context(item.item, 0) for item in node.items]
        for worst in (Recording.OFF, Recording.UNKNOWN, Recording.WANTED):
            if worst in found:
                return worst
        return None

    def _context(self, node: cst.BaseExpression, depth: int) -> Recording | None:
        program = self._program
        if program.loops.is_no_grad(node):
            return Recording.OFF
        name = program.qualified(node.func if isinstance(node, cst.Call) else node)
        if name in _TURNS_ON or _switched(program, node) == "True":
            return Recording.WANTED
        if isinstance(node, cst.Call):
            opens = isinstance(node.func, cst.Name) and node.func.value == "open"
            plain = opens or _NEUTRAL.fullmatch(name) or self._is_neutral(node)
            return None if plain else Recording.UNKNOWN
        choices = self._choices(node)
        if choices is None or depth > _DEPTH:
            return Recording.UNKNOWN
        found = {self._context(choice, depth + 1) for choice in choices}
        return found.pop() if len(found) == 1 else Recording.UNKNOWN

    def _is_neutral(self, call: cst.Call) -> bool:
        """``with Timer("step"):`` of the project: whether it leaves gradients alone."""
        program = self._program
        found = class_of(program, program.value(call))
        if found is not None:
            home, owner = found
            return _CONTEXT_BASES.issuperset(owner.bases) and not _SWITCHING.search(
                home.code(owner.node)
            )
        ran = callee(program, call)
        if ran is None:
            return False
        home, function = ran
        made = [home.qualified(item.decorator) for item in function.decorators]
        return made == ["contextlib.contextmanager"] and not _SWITCHING.search(home.code(function))

    def _choices(self, node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        """Return what a name or a choice may be; None where it cannot be told."""
        if isinstance(node, cst.IfExp):
            return [node.body, node.orelse]
        if not isinstance(node, cst.Name):
            return None
        found: list[cst.BaseExpression] = []
        for binding in self._program.flow.reaching(node):
            if not binding.is_plain:
                return None
            assert isinstance(binding.value, cst.BaseExpression)
            found.append(binding.value)
        return found or None

    @cached_property
    def _everywhere(self) -> Recording:
        """What holds outside of any block: a bare ``torch.set_grad_enabled(False)`` ends it."""
        program = self._program
        for call in program.calls_of(*_SWITCHES):
            if isinstance(program.parent(call), cst.Expr) and _switched(program, call) != "True":
                return Recording.UNKNOWN
        entered = any(
            program.loops.is_no_grad(func.value) for _, func in program.method_calls("__enter__")
        )
        return Recording.UNKNOWN if entered else Recording.ON


def _switched(program: Program, node: cst.BaseExpression) -> str | None:
    """Return the literal that ``torch.set_grad_enabled`` is given."""
    if not isinstance(node, cst.Call) or program.qualified(node.func) not in _SWITCHES:
        return None
    return literal(node.args[0].value) if node.args else None


def _agreed(places: Iterable[Recording]) -> Recording:
    """Return what holds for a function, by what holds where it is called."""
    found = set(places)
    if not found:
        return Recording.ASSUMED
    if len(found) == 1:
        return found.pop()
    if found == {Recording.ON, Recording.ASSUMED}:
        return Recording.ON
    on = not found.isdisjoint({Recording.ON, Recording.SOME})
    unclear = not found.isdisjoint({Recording.UNKNOWN, Recording.WANTED})
    return Recording.SOME if on and not unclear else Recording.UNKNOWN
