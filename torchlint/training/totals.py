"""Running totals: ``total += loss.item()``, where they start, where they are read.

A total is read in each turn of its loop, now and then, or after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Number
from torchlint.syntax.scopes import Bind, ScopeKind
from torchlint.training.guards import guard_between
from torchlint.training.read_uses import Use, grown, places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.syntax.scopes import Binding, Scope
    from torchlint.training.host_reads import HostRead
    from torchlint.training.script import Script

_LOOPS = (cst.For, cst.While)


@dataclass(eq=False)
class Total:
    """What a statement adds to: ``loop`` is the innermost one that it stands in."""

    script: Script
    target: cst.BaseExpression
    statement: cst.AugAssign | cst.Assign
    loop: cst.For | cst.While

    @property
    def name(self) -> str:
        """The total as the code spells it."""
        return self.script.module.code(self.target)

    @cached_property
    def scope(self) -> Scope | None:
        """Where the name of the total is bound, None for entries and what is no local name."""
        if not isinstance(self.target, cst.Name):
            return None
        here = self.script.module.index.scope(self.target)
        owner = here.owner(self.target.value)
        return owner if owner is here.function() else None

    @cached_property
    def bindings(self) -> list[Binding]:
        """All that the name of the total is ever bound to."""
        assert isinstance(self.target, cst.Name)
        return [] if self.scope is None else self.scope.bindings[self.target.value]

    @cached_property
    def starts(self) -> list[cst.Integer | cst.Float]:
        """The numbers that it is set to, where they are written out."""
        return [value for one in self.bindings if (value := _number(one)) is not None]

    @cached_property
    def reads(self) -> list[cst.BaseExpression]:
        """Every mention that is no assignment and no addition to it."""
        module = self.script.module
        match self.target:
            case cst.Name(value=word):
                owner = module.index.scope(self.target).owner(word)
                mentions: list[cst.BaseExpression] = [
                    name
                    for name in module.index.named.get(word, ())
                    if module.index.scope(name).owner(word) is owner and not self._is_label(name)
                ]
            case _:
                mentions = list(self._entries())
        return [one for one in mentions if not self._is_written(one)]

    def _entries(self) -> Iterator[cst.BaseExpression]:
        """``totals["loss"]``, and all of ``totals``: in its function, or in the whole file."""
        module, target = self.script.module, self.target
        assert isinstance(target, cst.Subscript)
        around = module.function(target) or module.tree
        for kind in (cst.Subscript, cst.Name, cst.Attribute):
            for node in module.index.below(around, kind):
                above = module.parent(node)
                is_part = isinstance(above, (cst.Subscript, cst.Attribute)) and (
                    above.value is node or getattr(above, "attr", None) is node
                )
                is_whole = not is_part and module.same(node, target.value)
                if module.same(node, target) or is_whole:
                    yield node

    def _is_label(self, name: cst.Name) -> bool:
        above = self.script.module.parent(name)
        return (isinstance(above, cst.Attribute) and above.attr is name) or (
            isinstance(above, cst.Arg) and above.keyword is name
        )

    def _is_written(self, node: cst.BaseExpression) -> bool:
        module = self.script.module
        match module.parent(node):
            case cst.AssignTarget() | cst.NameItem():
                return True
            case cst.AugAssign(target=target):
                return target is node
            case cst.Element() as element:  # of a tuple that is assigned to
                tuple_ = module.parent(element)
                return isinstance(module.parent(tuple_ or element), cst.AssignTarget)
            case cst.BinaryOperation(left=left) as operation if left is node:
                statement = module.parent(operation)
                file = self.script.file
                return grown(self.script.connected.evaluation, statement or node, file) is not None
        return False

    def is_in_turn(self, node: cst.CSTNode) -> bool:
        """Whether a node is part of what each turn of the loop runs."""
        inside, loop = self.script.module.index.inside, self.loop
        return inside(node, loop.body) or (isinstance(loop, cst.While) and inside(node, loop.test))

    @cached_property
    def is_read_in_each_turn(self) -> bool:
        """Whether each turn of the loop looks at the total, as far as is known."""
        script = self.script
        return any(
            self.is_in_turn(read)
            and guard_between(script.connected.evaluation, read, self.loop, script.file) is None
            for read in self.reads
        )

    @cached_property
    def is_read_after(self) -> bool:
        """Whether anything but turns of its loop may read the total."""
        return any(not self.is_in_turn(read) for read in self.reads)

    def guarded_block(self, read: cst.CSTNode) -> cst.IndentedBlock | None:
        """Return the block of the loop's own body around a read that does not run in each turn."""
        script, child, found = self.script, read, None
        for above in script.module.index.ancestors(read):
            if above is self.loop:
                break
            if isinstance(above, (*_LOOPS, cst.FunctionDef, cst.Lambda)):
                found = None
            elif isinstance(above, cst.If) and found is None and child is above.body:
                guard = guard_between(script.connected.evaluation, read, above, script.file)
                found = child if guard is not None else None
            child = above
        return found if isinstance(found, cst.IndentedBlock) else None

    def heads(self) -> list[cst.BaseStatement | cst.BaseSmallStatement] | None:
        """Return the first statements of the blocks in the loop that read the total.

        None where a read is in no such block, or at a time that is not known.
        """
        script, found = self.script, list[cst.BaseStatement | cst.BaseSmallStatement]()
        for read in self.reads:
            index = script.module.index
            if index.scope(read).function() is not self.scope or self._is_after_exception(read):
                return None
            if not index.inside(read, self.loop):
                continue
            block = self.guarded_block(read)
            if block is None:
                return None
            if block.body[0] not in found:
                found.append(block.body[0])
        return found

    def _is_after_exception(self, read: cst.CSTNode) -> bool:
        """Whether a read is reached when an exception ends the loop: nothing converts it then."""
        inside = self.script.module.index.inside
        return any(
            isinstance(above, (cst.Try, cst.TryStar))
            and inside(self.loop, above.body)
            and not inside(read, above.body)
            for above in self.script.module.index.ancestors(self.loop)
        )

    @property
    def is_only_added_to(self) -> bool:
        """Whether it is a number but for what this statement adds in the loop."""
        module = self.script.module
        return bool(self.starts) and all(
            module.index.scope(one.node).function() is self.scope
            and (
                _number(one) is not None
                or module.smallest_statement(one.node) is self.statement
                or (not module.index.inside(one.node, self.loop) and self._is_converted(one))
            )
            for one in self.bindings
        )

    def _is_converted(self, binding: Binding) -> bool:
        """``total /= n``, ``total = total / n``: still a number."""
        value = binding.value
        if isinstance(value, cst.AugAssign):
            value = value.value
        found = self.script.value(value) if isinstance(value, cst.BaseExpression) else ()
        return not binding.path and bool(found) and all(isinstance(one, Number) for one in found)

    @property
    def goes_on(self) -> bool:
        """Whether the total is read once the loop has ended, or added to where it does not start.

        The start is a statement of the block that the loop is in.
        """
        module = self.script.module
        block = module.parent(self.loop)
        outside = [one for one in self.bindings if not module.index.inside(one.node, self.loop)]
        starts = any(
            _number(one) is not None and module.parent(module.statement(one.node)) is block
            for one in outside
        )
        return self.is_read_after or not starts or any(one.kind is Bind.AUGMENT for one in outside)

    def is_direct(self, read: HostRead) -> bool:
        """Whether the read itself is a term of the sum, as it is or with a factor."""
        for above in self.script.module.index.ancestors(read.node):
            if above is self.statement:
                return True
            if not isinstance(above, cst.BinaryOperation):
                return False
        return False

    @cached_property
    def is_local(self) -> bool:
        """Whether nothing but its function can read the total."""
        scope = self.scope
        return scope is not None and scope.kind is ScopeKind.FUNCTION and not self._is_looked_up

    @property
    def _is_looked_up(self) -> bool:
        named = self.script.module.index.named
        return any(word in named for word in ("locals", "vars", "eval", "exec"))


def total_of(script: Script, statement: cst.CSTNode) -> Total | None:
    """Return the total that a statement in a loop adds to."""
    target = grown(script.connected.evaluation, statement, script.file)
    loop = next(iter(_loops(script, statement)), None)
    if loop is None or not isinstance(target, (cst.Name, cst.Subscript)):
        return None
    assert isinstance(statement, (cst.AugAssign, cst.Assign))
    return Total(script, target, statement, loop)


def totals_fed(script: Script, read: HostRead) -> tuple[Total, ...]:
    """Return the totals that a read is for, if it is for nothing else."""
    found: list[Total] = []
    for use, place in places(script.connected.evaluation, read.node, read.file):
        total = total_of(script, place) if use is Use.TOTAL else None
        if total is None:
            return ()
        found.append(total)
    return tuple(found)


def _loops(script: Script, node: cst.CSTNode) -> Iterator[cst.For | cst.While]:
    """Yield the loops around a node in its function, from the inside out."""
    for above in script.module.index.ancestors(node):
        if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            return
        if isinstance(above, _LOOPS):
            yield above


def _number(binding: Binding) -> cst.Integer | cst.Float | None:
    """Return the number that a binding writes out: ``total, hits = 0.0, 0``."""
    value: cst.CSTNode | None = binding.value if binding.kind is Bind.ASSIGN else None
    for place in binding.path:
        if not isinstance(value, cst.Tuple) or not 0 <= place < len(value.elements):
            return None
        value = value.elements[place].value
    return value if isinstance(value, (cst.Integer, cst.Float)) else None
