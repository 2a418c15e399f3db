"""Code that always raises: what comes after it is never run.

That is a name that nothing binds, ``super(Other, self)`` in a class that is no ``Other``, a call
that a function or class of the project does not take or never returns from, an assertion that never
holds, and ``loss.data[0]`` on a torch that reads it with ``item()``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.removed import INDEXED, old_item
from torchlint.analysis.signatures import binds, taker
from torchlint.analysis.unbound import KNOWN, binds_nowhere
from torchlint.naming import means_one_file
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

    Definition: TypeAlias = cst.FunctionDef | cst.ClassDef

_LIBRARIES = ("torch.", "torchvision.", "numpy.", "abc.", "typing.", "enum.")
# Contexts that catch nothing.
_PASSES_ON = frozenset(
    """torch.no_grad torch.enable_grad torch.set_grad_enabled torch.inference_mode torch.autocast
    torch.cuda.amp.autocast torch.amp.autocast torch.autograd.set_detect_anomaly""".split()
)
_GOES_ON = (cst.Return, cst.Break, cst.Continue)


@dataclass(slots=True)
class _Places:
    """The statements that raise, by their identity, and those whose first line does."""

    statements: set[int] = field(default_factory=set)
    headers: set[int] = field(default_factory=set)


class Raising:
    """The places of one file that always raise."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._never: dict[tuple[int, bool], bool] = {}

    @cached_property
    def statements(self) -> set[int]:
        """The statements that never run to their end, by their identity."""
        return self._all.statements

    @cached_property
    def headers(self) -> set[int]:
        """Those of them that raise before they come to their blocks."""
        return self._all.headers

    @cached_property
    def _own(self) -> _Places:
        """What raises whatever the functions do that it calls."""
        places = _Places()
        for nodes in (self._names(), self._supers(), self._failing()):
            for node in nodes:
                self._note(node, places)
        return places

    @cached_property
    def _all(self) -> _Places:
        own = self._own
        places = _Places({*own.statements}, {*own.headers})
        for call in self._calls():
            self._note(call, places)
        return places

    def never_returns(self, function: cst.FunctionDef, *, deep: bool) -> bool:
        """Whether each call of a function raises, or ends the script.

        Unless ``deep``, only where it says so: to find all that raises in a file takes a while.
        """
        key = (id(function), deep)
        if key not in self._never:
            self._never[key] = self._find_never_returns(function, deep=deep)
        return self._never[key]

    def _find_never_returns(self, function: cst.FunctionDef, *, deep: bool) -> bool:
        if function.asynchronous is not None or function.decorators:
            return False
        last = next((one for one in function.body.body if self._ends(one, deep=deep)), None)
        return (
            last is not None
            and not self._is_left_before(function, last)
            and not self._program.yields(function)
        )

    def _is_left_before(self, function: cst.FunctionDef, node: cst.CSTNode) -> bool:
        """Whether a function may return before it comes to the end of a statement."""
        index = self._program.index
        simple = isinstance(node, cst.SimpleStatementLine | cst.BaseSmallStatement)
        end = index.order(node) if simple else index.end(node)
        return any(index.order(one) < end for one in self._program.returns(function))

    def never_made(self, owner: Class) -> bool:
        """Whether no instance of a class is ever made, for its ``__init__`` fails."""
        first = owner.methods.get("__init__")
        if first is None or not self.statements or first.decorators or owner.node.keywords:
            return False
        failing = next((one for one in _small(first.body) if id(one) in self.statements), None)
        if failing is None or "__new__" in owner.methods or owner.node.decorators:
            return False
        return not self._is_left_before(first, failing) and not any(self._heirs(owner))

    # -- from what raises to the statement ------------------------------------------------------

    def _statement(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the statement that always comes to a node as it is run; of others the header."""
        child = node
        for above in self._program.index.ancestors(node):
            if not _always_runs(above, child):
                return None
            if isinstance(above, cst.BaseStatement | cst.BaseSmallStatement):
                return above
            child = above
        return None

    def _note(self, node: cst.CSTNode, places: _Places) -> None:
        """Note the statement that a node makes raise, and those around it."""
        statement = self._statement(node)
        if statement is None:
            return
        places.statements.add(id(statement))
        if isinstance(statement, cst.BaseCompoundStatement):
            places.headers.add(id(statement))
        self._spread(statement, places)

    def _spread(self, statement: cst.CSTNode, places: _Places) -> None:
        """Note the loops and contexts that do not go on either."""
        parent = self._program.parent
        while True:
            block = parent(statement)
            if isinstance(block, cst.SimpleStatementLine):
                block = parent(block)
            holder = None if block is None else parent(block)
            match holder:
                case cst.With(items=items) if all(map(self._passes_on, items)):
                    pass
                case cst.For(body=body) if body is block and self._is_first(statement, holder):
                    pass
                case cst.While(test=cst.Name("True") | cst.Integer("1"), body=body) if (
                    body is block and self._is_first(statement, holder)
                ):
                    pass
                case _:
                    return
            assert holder is not None
            places.statements.add(id(holder))
            statement = holder

    def _passes_on(self, item: cst.WithItem) -> bool:
        called = item.item.func if isinstance(item.item, cst.Call) else item.item
        return self._program.qualified(called) in _PASSES_ON

    def _is_first(self, statement: cst.CSTNode, loop: cst.For | cst.While) -> bool:
        """Whether nothing in a turn of a loop goes elsewhere before a statement."""
        index = self._program.index
        place = index.order(statement)
        return not any(
            index.order(one) < place for kind in _GOES_ON for one in index.below(loop.body, kind)
        )

    def _ends(self, node: cst.CSTNode, *, deep: bool) -> bool:
        """Whether a statement raises, or ends the script, where it runs to its end."""
        kind = type(node)  # of most nodes soon told
        if kind is cst.SimpleStatementLine or kind is cst.IndentedBlock:
            return any(self._ends(one, deep=deep) for one in node.body)  # type: ignore[attr-defined]
        if kind is cst.Raise or (deep and id(node) in self._own.statements):
            return True
        match node:
            case cst.Expr(value=cst.Call(func=func)):
                return self._program.unreached.is_exit(func)
            case (
                cst.If(body=body, orelse=cst.Else(body=other))
                | cst.If(body=body, orelse=cst.If() as other)
            ):
                return self._ends(body, deep=deep) and self._ends(other, deep=deep)
            case _:
                return False

    # -- what fails by itself -------------------------------------------------------------------

    def _names(self) -> Iterator[cst.Name]:
        """Yield the names that nothing binds, where they are read in any case."""
        known: dict[str, bool] = {}
        for name in self._program.index.unbound(KNOWN):
            if self._statement(name) is None or self._program.qualified(name):
                continue  # brought by a star
            word = name.value
            if word not in known:
                known[word] = binds_nowhere(self._program, word)
            if known[word]:
                yield name

    def _supers(self) -> Iterator[cst.CSTNode]:
        """``super(Other, self)`` in a method of a class that is no ``Other``."""
        for call in self._program.calls.by_name("super"):
            match call.args:
                case [cst.Arg(value=cst.Name() as of), cst.Arg(value=cst.Name() as instance)] if (
                    self._is_of_another(of, instance)
                ):
                    yield call
                case _:
                    pass

    def _is_of_another(self, of: cst.Name, instance: cst.Name) -> bool:
        program = self._program
        owner = program.classes.around(instance)
        if owner is None or owner.name == of.value:
            return False
        match program.flow.reaching(instance):
            case (one,) if one.kind is Bind.PARAMETER:
                function = program.function(instance)
            case _:
                return False
        if (
            function is None
            or function.decorators
            or owner.methods.get(function.name.value) is not function
            or function.params.params[:1] != (one.value,)
        ):
            return False
        scope = program.index.scope(of).owner(of.value)
        other = None if scope is None else self._definition(scope.bindings[of.value])
        if other is None or not isinstance(other[1], cst.ClassDef):
            return False
        lineage = self._lineage(owner)
        return (
            lineage is not None
            and not any(one is other[1] for one in lineage)
            and not any(self._heirs(owner))
        )

    def _lineage(self, owner: Class) -> list[cst.ClassDef] | None:
        """Return a class and all of the project that it extends; None where that is not known."""
        todo = [(self._program, owner)]
        for home, current in todo:
            for base, arg in zip(current.bases, current.node.bases, strict=True):
                if isinstance(arg.value, cst.Name) and home.is_builtin(arg.value):
                    continue
                if base.startswith(_LIBRARIES):
                    continue
                found = home.class_named(base)
                if found is None:
                    return None
                if not any(found[1] is one for _, one in todo):
                    todo.append(found)
        return [one.node for _, one in todo]

    def _heirs(self, owner: Class) -> Iterator[str]:
        """Yield the names of classes that may extend a class, by the texts of the project."""
        project = self._program.project
        extends = re.compile(rf"^\s*class\s+(\w+)\s*\([^)]*\b{owner.name}\b", re.MULTILINE)
        texts = {self._program.text}
        if project is not None:
            texts.update(map(project.imports.text, project.imports.having((owner.name,))))
        for text in texts:
            yield from extends.findall(text)

    def _failing(self) -> Iterator[cst.CSTNode]:
        """Yield ``assert False``, a division of a number by 0, and ``loss.data[0]`` of today."""
        index, text = self._program.index, self._program.text
        for statement in index.of(cst.Assert):
            match statement.test:
                case cst.Name("False" | "None") | cst.Integer("0"):
                    yield statement.test
                case _:
                    pass
        target = self._program.target
        if ".data[0]" in text and target is not None and target >= INDEXED:
            for read in index.of(cst.Subscript):
                if old_item(self._program, read) is not None:
                    yield read
        if re.search(r"/ ?0(?![\w.])", text):
            for one in index.of(cst.BinaryOperation):
                match one:
                    case cst.BinaryOperation(
                        cst.Integer() | cst.Float(),
                        cst.Divide() | cst.FloorDivide(),
                        cst.Integer("0"),
                    ):
                        yield one
                    case _:
                        pass

    # -- calls ----------------------------------------------------------------------------------

    def _calls(self) -> Iterator[cst.Call]:
        """Yield the calls that raise, or never return."""
        program = self._program
        root = program.index.root
        for word, bindings in root.bindings.items():
            calls = program.calls.by_name(word)
            found = self._definition(bindings) if calls and len(bindings) == 1 else None
            if found is None:
                continue
            taken, never = taker(*found), self._never_returns(*found)
            for call in calls:
                fails = never or (taken is not None and not binds(*taken, call.args))
                if fails and program.index.scope(call.func).owner(word) is root:
                    yield call
        for owner in program.classes:
            for word, method in owner.methods.items():
                for call, func in program.method_calls(word):
                    if (
                        isinstance(func.value, cst.Name)
                        and func.value.value == "self"
                        and not method.decorators
                        and (
                            not binds(method.params, 1, call.args)
                            or self.never_returns(method, deep=True)
                        )
                        and program.classes.around(call) is owner
                        and self._is_the_only(owner, method)
                    ):
                        yield call

    def _never_returns(self, home: Program, made: Definition) -> bool:
        """Whether each call of a function or class raises, or ends the script."""
        deep = home is self._program
        if isinstance(made, cst.FunctionDef):
            return home.raising.never_returns(made, deep=deep)
        owner = home.classes.get(made)
        if owner is None or "__new__" in owner.methods or made.keywords:
            return False
        first = owner.methods.get("__init__")
        return first is not None and home.raising.never_returns(first, deep=deep)

    def _definition(self, bindings: list[Binding]) -> tuple[Program, Definition] | None:
        """Return the one function or class of the project that a name means, and its file."""
        program, project = self._program, self._program.project
        (binding,) = bindings if len(bindings) == 1 else (None,)
        if binding is None or binding.kind not in (Bind.DEFINITION, Bind.FROM):
            return None
        home, made = program, binding.value
        if binding.kind is Bind.FROM:
            full = program.names.root(binding.name, binding.scope)
            found = project.define(program, full) if project is not None else None
            if found is None or project is None:
                return None
            if not means_one_file(str(program.path), full, project.imports):
                return None
            home, made = found.program, found.binding.value
        if isinstance(made, cst.FunctionDef | cst.ClassDef) and not made.decorators:
            return home, made
        return None

    def _is_the_only(self, owner: Class, method: cst.FunctionDef) -> bool:
        """Whether ``self.method`` is that one: no heir has another, and nothing takes its place."""
        program = self._program
        word, project = method.name.value, program.project
        if not program.unreached.is_closed or project is None or owner.stores.get(word):
            return False
        other = re.compile(rf"\bdef\s+{word}\b|\.{word}\s*=(?!=)|[\"']{word}[\"']|^\s+{word}\s*=")
        texts = map(project.imports.text, project.imports.having((word,)))
        return sum(len(other.findall(text)) for text in texts) == 1


def _always_runs(above: cst.CSTNode, child: cst.CSTNode) -> bool:
    """Whether what stands above a part always comes to it first, before anything else of it."""
    match above:
        case cst.BooleanOperation():
            return child is above.left
        case cst.IfExp() | cst.If() | cst.While():
            return child is above.test
        case cst.Comparison():
            return child is above.left or child is above.comparisons[0]
        case cst.CompFor() | cst.For():
            return child is above.iter
        case cst.BaseComp():
            return child is above.for_in
        case cst.Lambda():
            return child is above.params
        case cst.Param():
            return child is above.default
        case cst.Assert():
            return child is above.test
        case cst.With():
            return child is above.items[0]
        case cst.FunctionDef():
            return child is above.params or child in above.decorators
        case cst.ClassDef():
            return child in above.decorators or child in above.bases
        case (
            cst.Annotation() | cst.Try() | cst.TryStar() | cst.Match() | cst.Del() | cst.Global()
            | cst.Nonlocal() | cst.Import() | cst.ImportFrom() | cst.TypeAlias() | cst.TypeVar()
            | cst.AsName()
        ):  # fmt: skip
            return False
        case _:
            return True


def _small(block: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    for one in block.body:
        yield one
        if isinstance(one, cst.SimpleStatementLine):
            yield from one.body
