"""The entries of dictionaries: those that are written out, and those that are set afterwards.

The second are seen where they are set: ``means[key] = loss``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.reach import received
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_READS = frozenset({"items", "keys", "values", "get", "copy"})
_EMPTIES = frozenset({"clear", "pop"})
_READERS = frozenset({"print", "len", "str", "dict", "sorted", "list", "sum"})


class Entries:
    """The entries of the dictionaries of one module that a name of a function stands for."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._seen: dict[int, bool] = {}

    def are_seen(self, kept: cst.BaseExpression) -> bool:
        """Whether a name is that of such a dictionary, and whatever fills it is seen."""
        binding = self._made(kept)
        if binding is None:
            return False
        if id(binding) not in self._seen:
            uses = self._program.index.named.get(binding.name, ())
            own = (use for use in uses if self._made(use) is binding)
            self._seen[id(binding)] = all(self._keeps(use) for use in own)
        return self._seen[id(binding)]

    def given(self, node: cst.Subscript) -> Iterator[cst.BaseExpression]:
        """Yield what entries are given that have the key of a subscript, or may have it."""
        binding, wanted = self._made(node.value), key_of(node)
        for target, value in self._stores:
            key = key_of(target)
            same = key is None or wanted is None or key == wanted
            if same and binding is not None and self._made(target.value) is binding:
                yield value

    def held(self, made: cst.Dict) -> list[cst.BaseExpression] | None:
        """Return all that a dictionary holds that is written out, and then may be filled by name.

        None where another may fill it as well; whoever it is returned to gets it as it is there.
        """
        elements = [one for one in made.elements if isinstance(one, cst.DictElement)]
        if len(elements) < len(made.elements):
            return None
        found = [one.value for one in elements]
        match self._program.parent(made):
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
                binding = self._program.index.bound(name)
            case cst.Assign() | cst.AnnAssign() | cst.Arg():
                return None
            case _:
                return found
        if binding is None:
            return None
        uses = [use for use in self._program.index.named[name.value] if self._has(use, binding)]
        if not all(self._keeps(use) or self._is_returned(use) for use in uses):
            return None
        return found + [value for target, value in self._stores if self._has(target.value, binding)]

    def _has(self, use: cst.BaseExpression, binding: Binding) -> bool:
        if not isinstance(use, cst.Name) or isinstance(self._program.parent(use), cst.Param):
            return False
        return binding in self._program.flow.reaching(use)

    def _is_returned(self, use: cst.Name) -> bool:
        """``return means`` and ``return loss, means``."""
        above = self._program.parent(use)
        if isinstance(above, cst.Element):
            above = self._program.parent(self._program.parent(above) or above)
        return isinstance(above, cst.Return)

    def _made(self, kept: cst.BaseExpression) -> Binding | None:
        """Return the binding of a name whose only value is an empty dictionary."""
        bindings = self._program.flow.reaching(kept) if type(kept) is cst.Name else ()
        if len(bindings) != 1 or not bindings[0].is_plain:
            return None
        match bindings[0].value:
            case cst.Dict(elements=[]):
                return bindings[0]
            case cst.Call(func=func):
                made = self._program.qualified(func) == "collections.defaultdict"
                return bindings[0] if made else None
            case _:
                return None

    def _keeps(self, use: cst.Name) -> bool:
        """Whether a use sets one entry, or none."""
        match self._program.parent(use):
            case cst.Subscript(value=value) if value is use:
                return True
            case cst.Attribute(value=value, attr=cst.Name(method)) if value is use:
                return method in _READS | _EMPTIES
            case cst.AssignTarget():
                return True
            case cst.Arg(keyword=keyword) if keyword is use:
                return True
            case cst.Arg() as arg:
                call = self._program.parent(arg)
                reads = _reads(self._program, use)
                return reads or (isinstance(call, cst.Call) and self._lends(call, use))
            case _:
                return _reads(self._program, use)

    def _lends(self, call: cst.Call, use: cst.Name) -> bool:
        """Whether a function of the project that gets a dictionary reads it, or gives it back."""
        found = received(self._program, call, use)
        if found is None or self._program.calls.overrides(call):
            return False
        home, binding = found
        uses = (one for one in home.index.named[binding.name] if home.index.bound(one) is None)
        own = [one for one in uses if home.index.scope(one).owner(one.value) is binding.scope]
        return all(isinstance(home.parent(one), cst.Return) or _reads(home, one) for one in own)

    @cached_property
    def _stores(self) -> list[tuple[cst.Subscript, cst.BaseExpression]]:
        """The stores in entries of what has a name, each with its value."""
        index = self._program.index
        found = [
            (one.target, statement.value)
            for statement in index.of(cst.Assign)
            for one in statement.targets
        ]
        found += [(statement.target, statement.value) for statement in index.of(cst.AugAssign)]
        return [(target, value) for target, value in found if isinstance(target, cst.Subscript)]


def _reads(program: Program, use: cst.Name) -> bool:
    """Whether a use of a dictionary reads it, and no more."""
    match above := program.parent(use):
        case cst.Subscript(value=value) if value is use:
            return not isinstance(program.parent(above), cst.AssignTarget | cst.AugAssign)
        case cst.Attribute(value=value, attr=cst.Name(method)) if value is use:
            return method in _READS
        case cst.For() | cst.CompFor() | cst.ComparisonTarget():
            return True
        case cst.Arg():
            call = program.parent(above)
            func = call.func if isinstance(call, cst.Call) else None
            return isinstance(func, cst.Name) and func.value in _READERS
        case _:
            return False


def key_of(node: cst.Subscript) -> str | None:
    """Return the literal key of an entry; None where it is computed."""
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=value))]:
            return literal(value)
        case _:
            return None


def written_out(program: Program, table: cst.Name, key: str | None) -> list[cst.BaseExpression]:
    """Return what a dictionary has under a key, or has at all, if it is written out at once."""
    match [(one.kind, one.path, one.value) for one in program.flow.reaching(table)]:
        case [(Bind.ASSIGN, (), cst.Dict(elements=elements))] if not _is_filled(program, table):
            pass
        case _:
            return []
    if not all(isinstance(one, cst.DictElement) for one in elements):
        return []
    keys = [literal(one.key) for one in elements if isinstance(one, cst.DictElement)]
    pairs = zip(keys, elements, strict=True)
    return [one.value for own, one in pairs if None in (own, key) or own == key]


def _is_filled(program: Program, table: cst.Name) -> bool:
    """Whether entries of a dictionary are set after it is made."""
    for use in program.index.named[table.value]:
        match above := program.parent(use):
            case cst.Subscript():
                if isinstance(program.parent(above), cst.AssignTarget):
                    return True
            case cst.Attribute(value=value, attr=cst.Name("update" | "setdefault")):
                if value is use:
                    return True
            case _:
                pass
    return False
