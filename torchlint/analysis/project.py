"""Facts across the files of one project.

Each file keeps its own facts; what crosses from one file to another goes through here: what an
imported name stands for, who calls a function from elsewhere, and with what.  Nodes of one file
never enter the tables of another: values that cross lose the node they were made by
(`portable`), and what has to name a node names the program it belongs to as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.memory import Memory
from torchlint.analysis.names import last_of_namesakes
from torchlint.analysis.targets import Target
from torchlint.analysis.values import Kind
from torchlint.imports import MANY, imported_words
from torchlint.syntax.depth import too_deep
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value
    from torchlint.imports import Imports
    from torchlint.syntax.module import Module
    from torchlint.syntax.scopes import Binding
    from torchlint.training.script import Connected, Script, Settings


# What rules know by its public names is never looked into, not even in its own repository.
_LIBRARIES = (
    "torch.", "torchvision.", "numpy.", "accelerate.", "lightning.", "pytorch_lightning.",
    "transformers.", "deepspeed.", "fastai.", "ignite.", "composer.", "tqdm.",
)  # fmt: skip
# Methods that are not called by their names.
_CALLED_BY_TORCH = frozenset({"forward", "__call__", "__getitem__", "__len__", "__iter__"})
_CALLS = ("def ",)  # stands in what is handed objects to call
_PART = re.compile(r"device|(^|_)(model|net|network|module|encoder|decoder|backbone)(_|$)")
_DEPTH = 8  # imports that are followed through re-exports


@dataclass(frozen=True, slots=True)
class Definition:
    """What a name stands for in another file: the binding at the level of its module."""

    program: Program
    binding: Binding


class Project:
    """The files of one project as far as they were parsed, and the facts that cross them."""

    def __init__(self, imports: Imports) -> None:
        """Nothing is parsed before it is asked for."""
        self.imports = imports
        self.memory = Memory()
        self.size = 0
        self._programs: dict[str, Program | None] = {}
        self._callers: dict[int, list[tuple[Program, cst.Call]]] = {}
        self._definitions: dict[tuple[str, str], Definition | None] = {}
        self._heirs: dict[tuple[int, str], list[tuple[Program, Class]]] = {}
        self._connected: dict[str, Connected] = {}
        self._latest: tuple[str, ...] = ()  # the files that were evaluated together at last

    # -- programs ----------------------------------------------------------------------------

    def release(self) -> None:
        """Forget all trees and facts; texts are kept."""
        for program in self._programs.values():
            if program is not None:
                program.release()
        self._programs.clear()
        self._forget()
        self.size = 0

    def trim(self, limit: int) -> None:
        """Forget all but the files that were evaluated together at last, if those are not too many.

        ``limit`` is in characters of source.
        """
        programs = self._programs
        kept = [path for path in self._latest if programs.get(path) is not None]
        size = sum(len(program.text) for path in kept if (program := programs[path]))
        if not size or size > limit:
            self.release()
            return
        for path in [one for one in programs if one not in set(kept)]:
            if (program := programs.pop(path)) is not None:
                program.release()
        for path in [one for one in self._connected if one not in set(kept)]:
            self._connected.pop(path).release()
        self.size = size
        self._forget_facts()
        for path in kept:
            if (program := programs[path]) is not None:
                program.forget()

    def _forget(self) -> None:
        self._forget_facts()
        for connected in self._connected.values():
            connected.release()
        self._connected.clear()
        self._latest = ()

    def _forget_facts(self) -> None:
        self.memory = Memory()
        self._callers.clear()
        self._definitions.clear()
        self._heirs.clear()

    def script(self, program: Program, settings: Settings) -> Script:
        """Return a file of the project as a training script, with those that it is connected to."""
        from torchlint.training.script import Connected  # noqa: PLC0415 - few rules ask it

        path = str(program.path)
        if path not in self._connected:
            paths = self.imports.connected(path)

            def load() -> dict[str, Module]:
                self._latest = paths
                found = ((other, self.program(other)) for other in paths)
                return {other: module for other, module in found if module is not None}

            self._connected |= dict.fromkeys(paths, Connected(load))
        return self._connected[path].script(path, program, settings)

    def program(self, path: str) -> Program | None:
        """Return a file of the project; None where it cannot be parsed."""
        if path not in self._programs:
            self._programs[path] = None  # while it is parsed, and where that fails
            self._programs[path] = self._parsed(path, self.imports.text(path))
        return self._programs[path]

    def _parsed(self, path: str, text: str) -> Program | None:
        from torchlint.analysis.program import Program  # noqa: PLC0415 - which knows its project

        if not text or too_deep(text):
            return None
        try:
            program = Program(text, Path(path))
        except cst.ParserSyntaxError:
            return None
        return self._joined(program, text)

    def _joined(self, program: Program, text: str) -> Program:
        program.project = self
        self.size += len(text)
        return program

    def holds(self, path: Path, text: str) -> bool:
        """Whether a file was parsed with this text."""
        known = self._programs.get(str(path))
        return known is not None and known.text == text

    def announce(self, name: str, text: str) -> None:
        """Let a file have this text from now on; facts drawn from another are forgotten."""
        known = self._programs.get(name)
        if known is not None and known.text == text:
            return
        drawn = self.imports.replace(name, text)
        if known is not None or drawn:
            self._forget()
            for other in self._programs.values():
                if other is not None:
                    other.forget()
        self._programs.pop(name, None)
        if known is not None:
            self.size -= len(known.text)
            known.release()

    def checked(self, path: Path, text: str, make: Callable[[], Program]) -> Program:
        """Return the program of a file with the text that is checked now."""
        name = str(path)
        self.announce(name, text)
        known = self._programs.get(name)
        if known is None:
            self._programs[name] = None  # while it is parsed, and where that fails
            known = self._programs[name] = self._joined(make(), text)
        return known

    # -- what a name stands for --------------------------------------------------------------

    def define(self, program: Program, name: str) -> Definition | None:
        """Return what a qualified name of one file stands for in another file of the project."""
        if program.path is None or not name or name[0] == "." or name.startswith(_LIBRARIES):
            return None
        key = (str(program.path), name)
        if key not in self._definitions:
            self._definitions[key] = None  # a circle of imports defines nothing
            self._definitions[key] = self._define(str(program.path), name, 0)
        return self._definitions[key]

    def _define(self, path: str, name: str, depth: int) -> Definition | None:
        found = self.imports.find(path, name) if name else None  # of two modules: of neither
        if found is None or depth > _DEPTH or found[0] == path:
            return None
        file, rest = found
        return self._member(file, rest, depth) if rest else None

    def _member(self, file: str, rest: str, depth: int) -> Definition | None:
        program = self.program(file)
        if program is None:
            return None
        first, _, more = rest.partition(".")
        scope = program.index.root
        bindings = last_of_namesakes(scope.bindings.get(first, []))
        if not bindings:
            stars = (program.names.module_of(star) for star in scope.stars)
            found = (self._define(file, f"{star}.{rest}", depth + 1) for star in stars)
            return next((one for one in found if one is not None), None)
        if all(binding.kind in (Bind.IMPORT, Bind.FROM) for binding in bindings):
            name = program.names.root(first, scope)
            if not name:  # imported from one place or another
                return None
            return self._define(file, f"{name}.{more}" if more else name, depth + 1)
        if more or len(bindings) != 1:
            return None
        kind = bindings[0].kind
        return Definition(program, bindings[0]) if kind in (Bind.DEFINITION, Bind.ASSIGN) else None

    def brought(self, program: Program, module: str, name: str) -> str:
        """Return what ``from module import *`` brings a file under a name, or "".

        What another file of the project defines keeps the name that it has there; what that one
        has imported (``import torch``) is brought as well, unless its ``__all__`` says otherwise.
        """
        here = f"{module}.{name}"
        if self.define(program, here) is not None:
            return here
        found = self.imports.find(str(program.path), here)
        other = None if found is None or found[1] != name else self.program(found[0])
        if other is None or other is program or name[0] == "_" or "__all__" in other.text:
            return ""
        meant = other.names.root(name, other.index.root)
        if not meant or meant[0] == ".":
            return ""
        in_project = meant[0] == "@" or self.imports.find(str(other.path), meant) is not None
        return here if in_project else meant

    def taken(self, program: Program, name: str) -> str:
        """Return what of a library another file of the project has under a name, or "".

        ``from data import DataLoader``, of a file that has imported it from torch.
        """
        if program.path is None or name.startswith(_LIBRARIES) or not self.imports.may_have(name):
            return ""
        path = str(program.path)
        file, rest = self.imports.find(path, name) or (path, "")
        if (
            file == path
            or not rest.isidentifier()
            or rest not in imported_words(self.imports.text(file))
        ):
            return ""
        other = self.program(file)
        meant = "" if other is None else other.names.root(rest, other.index.root)
        return meant if f"{meant}.".startswith(_LIBRARIES) else ""

    def function(self, program: Program, name: str) -> Target | None:
        """Return the function of another file that a call of this name runs."""
        found = self.define(program, name)
        if found is None:
            return None
        match found.binding.value:
            case cst.FunctionDef() as function:
                return Target(found.program, function)
            case cst.ClassDef() as made:
                owner = found.program.classes.get(made)
                if owner is None:
                    return None
                return self.inherited(found.program, owner, "__init__")
            case _:
                return None

    def class_of(self, type_name: str) -> tuple[Program, Class] | None:
        """Return a class of another file by the type that a portable value has."""
        path, _, name = type_name.rpartition(":")
        program = self.program(path) if path else None
        owner = None if program is None else program.classes.named(name)
        return None if program is None or owner is None else (program, owner)

    def method(self, type_name: str, name: str) -> Target | None:
        """Return a method of a class of another file."""
        found = self.class_of(type_name)
        return None if found is None else self.inherited(*found, name)

    def inherited(self, program: Program, owner: Class, name: str) -> Target | None:
        """Return a method of a class, or that of the nearest of its bases in any file."""
        for home, current in self.lineage(program, owner):
            function = home.classes.method(current, name)
            if function is not None:
                return Target(home, function)
        return None

    def lineage(self, program: Program, owner: Class) -> Iterator[tuple[Program, Class]]:
        """Yield a class, then the classes of other files that it extends, nearest first.

        Each stands for itself and the bases that its own file defines.
        """
        todo, seen = [(program, owner)], {id(owner)}
        for home, current in todo:
            yield home, current
            for base in home.classes.outside(current):
                found = self.defined_class(home, base)
                if found is not None and id(found[1]) not in seen:
                    seen.add(id(found[1]))
                    todo.append(found)

    # -- who calls ---------------------------------------------------------------------------

    def callers(
        self, program: Program, function: cst.FunctionDef
    ) -> list[tuple[Program, cst.Call]]:
        """Return the calls of a function in other files of the project."""
        found = self._callers.get(id(function))
        if found is None:
            self._callers[id(function)] = []  # the question leads back to itself
            found = self._callers[id(function)] = list(self._find_callers(program, function))
        return found

    def _find_callers(
        self, program: Program, function: cst.FunctionDef
    ) -> Iterator[tuple[Program, cst.Call]]:
        if program.path is None:
            return
        word = function.name.value
        owner = program.classes.around(function)
        if program.index.scope(function).parent is not None:
            if owner is None or owner.methods.get(word) is not function:
                yield from self._calls_of_made(program, function)
                return  # inside another function
            yield from self._calls_by_bases(program, owner, function)
            if word == "__init__" and owner.is_module and not _takes_parts(function):
                return  # layers are made of sizes and options
            word = owner.name if word == "__init__" else word
        if word in _CALLED_BY_TORCH:
            return
        paths = [*islice(self.imports.calling(str(program.path), word), MANY + 1)]
        if owner is not None and word == function.name.value:
            beside = self.imports.calling_beside(str(program.path), word)
            paths += beside if len(paths) + len(beside) <= MANY else ()
        for path in paths if len(paths) <= MANY else ():
            other = self.program(path)
            if other is None:
                continue
            for call in other.calls.named(word):
                target = other.calls.elsewhere(call)
                found = (*other.calls.of_several(call), *other.calls.passed_elsewhere(call))
                found = found if target is None else (target,)
                if any(one.function is function for one in found):
                    yield other, call

    def _calls_of_made(
        self, program: Program, function: cst.FunctionDef
    ) -> Iterator[tuple[Program, cst.Call]]:
        """Yield the calls of a function that another one around it returns."""
        maker = program.function(function)
        if maker is None or function not in program.calls.given_back(maker):
            return
        for other, made in self.callers(program, maker):
            for call in other.calls.of_result(made):
                if any(one.function is function for one in other.calls.far(call)):
                    yield other, call

    def _calls_by_bases(
        self, program: Program, owner: Class, function: cst.FunctionDef
    ) -> Iterator[tuple[Program, cst.Call]]:
        """Yield the calls of a method that a base of its class, in another file, leaves to it."""
        word = function.name.value
        for other in self._homes_of_bases(program, owner):
            for call, _ in other.method_calls(word):
                if any(one.function is function for one in other.calls.overrides(call)):
                    yield other, call

    def _homes_of_bases(self, program: Program, owner: Class) -> Iterator[Program]:
        """Yield the other files that define bases of a class, be it by way of one another."""
        homes = {id(home): home for home, _ in self.lineage(program, owner)}
        del homes[id(program)]
        yield from homes.values()

    def heirs(self, program: Program, owner: Class, name: str) -> list[tuple[Program, Class]]:
        """Return the classes of other files that extend a class and have a method of a name."""
        key = (id(owner), name)
        if key not in self._heirs:
            self._heirs[key] = []  # the question leads back to itself
            self._heirs[key] = list(self._find_heirs(program, owner, name))
        return self._heirs[key]

    def _find_heirs(
        self, program: Program, owner: Class, name: str
    ) -> Iterator[tuple[Program, Class]]:
        if program.path is None:
            return
        text, having = self.imports.text, f"def {name}("
        users = self.imports.calling(str(program.path), name)
        paths = [one for one in users if having in text(one)]
        for path in paths if len(paths) <= MANY else ():
            other = self.program(path)
            if other is None or other is program:
                continue
            for heir in other.classes:
                if name in heir.methods and self._extends(other, heir, owner):
                    yield other, heir

    def _extends(self, program: Program, heir: Class, owner: Class) -> bool:
        """Whether a class has a base in another file that is a class, or extends it there."""
        above = (self.defined_class(program, base) for base in program.classes.outside(heir))
        return any(one and owner in one[0].classes.lineage(one[1]) for one in above)

    def defined_class(self, program: Program, name: str) -> tuple[Program, Class] | None:
        """Return the class of another file that a name of this one means, and its file."""
        found = self.define(program, name)
        owner = None if found is None else found.program.classes.get(found.binding.value)
        return None if found is None or owner is None else (found.program, owner)

    def passed(
        self, program: Program, function: cst.FunctionDef, param: cst.Param
    ) -> Iterator[tuple[Program, cst.BaseExpression]]:
        """Yield what the calls in other files pass for a parameter."""
        for other, call in self.callers(program, function):
            node = program.calls.passed(function, param, call)
            if node is not None:
                yield other, node

    def passed_to_object(
        self, program: Program, function: cst.FunctionDef, param: cst.Param
    ) -> Iterator[tuple[Program, cst.BaseExpression]]:
        """Yield what is passed where other files call objects of a class: `param` of `__call__`.

        Not all of it: libraries call objects that they are given.
        """
        owner = program.classes.around(function)
        if function.name.value != "__call__" or owner is None or owner.is_module:
            return
        for other in self.related(program, _CALLS):
            for call in other.calls.of_far_objects.get(id(function), ()):
                node = program.calls.passed(function, param, call)
                if node is not None:
                    yield other, node

    # -- neighbours --------------------------------------------------------------------------

    def related(self, program: Program, words: tuple[str, ...]) -> Iterator[Program]:
        """Yield the programs at most two imports away in whose text one of some words occurs."""
        if program.path is None:
            return
        having = self.imports.having(words)
        likely = [path for path in self.imports.related(str(program.path)) if path in having]
        for path in likely if len(likely) <= MANY else ():
            other = self.program(path)
            if other is not None:
                yield other


def _takes_parts(function: cst.FunctionDef) -> bool:
    """Whether a module is told a device or given models: ``def __init__(self, model, device)``."""
    return any(_PART.search(param.name.value) for param in function.params.params)


def portable(value: Value, source: Program, target: Program) -> Value:
    """Return a value of one file as another may know it: without nodes, with absolute types."""
    kind = value.type
    if kind.startswith("."):
        kind = f"{source.path}:{kind}"
    elif kind.startswith(f"{target.path}:"):
        kind = kind.rpartition(":")[2]
    items = value.items and tuple(portable(item, source, target) for item in value.items)
    held = source.values.held(value) if value.kind is Kind.DICT else value.element
    element = held and portable(held, source, target)
    made = None
    if kind.startswith(".") and (owner := target.classes.named(kind)) is not None:
        made = owner.node
    return replace(value, type=kind, made=made, items=items, element=element, fresh=False)
