"""Running totals: what ``total += loss.item()`` adds up, from which start, and who reads it when.

A total is read in each turn of its loop, now and then, or after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Number, Tensor, Truth
from torchlint.syntax.scopes import Bind
from torchlint.training.guards import decision
from torchlint.training.read_uses import Use, grown, places

if TYPE_CHECKING:
    from torchlint.syntax.scopes import Binding
    from torchlint.training.host_reads import HostRead
    from torchlint.training.script import Script


@dataclass(eq=False)
class Total:
    """What a statement adds to: ``loop`` is the innermost one that it stands in."""

    script: Script
    target: cst.Name
    statement: cst.AugAssign | cst.Assign
    loop: cst.For | cst.While

    @property
    def name(self) -> str:
        """The total as the code spells it."""
        return self.target.value

    @cached_property
    def starts(self) -> list[cst.Integer | cst.Float] | None:
        """The numbers that it is added to; None where it may be anything else."""
        index, word = self.script.module.index, self.target.value
        here = index.scope(self.target)
        before = self.statement.value if isinstance(self.statement, cst.Assign) else self.target
        found = [
            _number(one)
            for one in self.script.connected.evaluation.bindings(getattr(before, "left", before))
            if not index.inside(one.node, self.statement)
        ]
        known = [one for one in found if one is not None]
        is_own = here.owner(word) is here.function()
        return known if is_own and known and len(known) == len(found) else None

    @cached_property
    def reads(self) -> list[cst.Name]:
        """Every mention of it outside of what adds to it."""
        index, word = self.script.module.index, self.target.value
        owner = index.scope(self.target).owner(word)
        if owner is None:
            return []
        return [
            one
            for one in index.below(owner.node, cst.Name)
            if one.value == word
            and index.scope(one).owner(word) is owner
            and self.script.value(one)
            and not index.inside(one, self.statement)
            and not (getattr(index.parent(one), "target", None) is one and self.is_in_turn(one))
        ]

    def is_in_turn(self, node: cst.CSTNode) -> bool:
        """Whether a node is part of the loop."""
        return self.script.module.index.inside(node, self.loop)

    @cached_property
    def is_read_in_each_turn(self) -> bool:
        """Whether each turn of the loop looks at the total, as far as is known."""
        script = self.script
        return any(
            self.is_in_turn(read)
            and decision(script.connected.evaluation, read, self.loop, script.file).guard is None
            for read in self.reads
        )

    @cached_property
    def is_read_after(self) -> bool:
        """Whether anything but turns of its loop may read the total."""
        return any(not self.is_in_turn(read) for read in self.reads)

    def heads(self) -> list[cst.BaseStatement | cst.BaseSmallStatement] | None:
        """Return the first statements of the guarded blocks in the loop that read the total.

        None where a read is in no such block of the loop's own, in another function, or where an
        exception that ends the loop leads.
        """
        script, index = self.script, self.script.module.index
        tried, function = index.nearest(self.loop, cst.Try), index.scope(self.target).function()
        found: list[cst.BaseStatement | cst.BaseSmallStatement] = []
        for read in self.reads:
            is_handling = tried is not None and not index.inside(read, tried.body)
            if is_handling or index.scope(read).function() is not function:
                return None
            if not self.is_in_turn(read):
                continue
            match next((one for one in self.loop.body.body if index.inside(read, one)), None):
                case cst.If(body=cst.IndentedBlock(body=[head, *_]) as block) as above if (
                    index.inside(read, block)
                    and decision(script.connected.evaluation, head, above, script.file).guard
                ):
                    found += [] if head in found else [head]
                case _:
                    return None
        return found

    def factors(self, read: HostRead) -> list[cst.BaseExpression] | None:
        """Return what a read is multiplied by before it is added; None where it is no such term.

        A division may be made by a reciprocal on the device, which rounds otherwise.
        """
        found: list[cst.BaseExpression] = []
        for above, child in self.script.module.index.climb(read.node):
            match above:
                case cst.BinaryOperation(operator=cst.Multiply(), left=left, right=right):
                    found.append(right if left is child else left)
                case cst.BinaryOperation(operator=cst.Add(), right=right) if right is child:
                    continue
                case _:
                    is_term = above is self.statement
                    is_known = all(_is_number(self.script, one) for one in found)
                    return found if is_term and is_known else None
        return None


def totals_fed(script: Script, read: HostRead) -> tuple[Total, ...]:
    """Return the totals that a read is for, if it is for nothing else."""
    found: list[Total] = []
    for use, place in places(script.connected.evaluation, read.node, read.file):
        total = _total(script, place) if use is Use.TOTAL else None
        if total is None:
            return ()
        found.append(total)
    return tuple(found)


def _total(script: Script, statement: cst.CSTNode) -> Total | None:
    """Return the total that a statement in a loop adds to."""
    target = grown(script.connected.evaluation, statement, script.file)
    match statement, script.module.index.around(statement):
        case cst.AugAssign() | cst.Assign(), (_, [*_, cst.For() | cst.While() as loop]):
            return Total(script, target, statement, loop) if isinstance(target, cst.Name) else None
    return None


def _number(binding: Binding) -> cst.Integer | cst.Float | None:
    """Return the number that a binding writes out: ``total, hits = 0.0, 0``."""
    value: cst.CSTNode | None = binding.value if binding.kind is Bind.ASSIGN else None
    for place in binding.path:
        if not isinstance(value, cst.Tuple) or not 0 <= place < len(value.elements):
            return None
        value = value.elements[place].value
    return value if isinstance(value, (cst.Integer, cst.Float)) else None


def _is_number(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number of Python: ``x.size(0)`` is one, if it is anything."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("size" | "numel"))):
            return True
    return all(isinstance(one, (Number, Truth)) for one in script.value(node))


def plain(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``loss`` of ``loss.detach()``, ``loss.data``, ``loss.cpu()``."""
    match node:
        case cst.Call(cst.Attribute(inner, cst.Name("detach" | "cpu")), []):
            return plain(inner)
        case cst.Attribute(inner, cst.Name("data")):
            return plain(inner)
    return node


def is_whole(script: Script, read: HostRead) -> bool:
    """Whether a read gives a whole number, by its kind or by ``int(t)``."""
    kinds = {one.dtype if isinstance(one, Tensor) else "" for one in script.value(read.tensor)}
    is_item = isinstance(read.node, cst.Call) and isinstance(read.node.func, cst.Attribute)
    is_cut = is_cut_off(script, read)
    return (is_cut and kinds == {"bool"}) or ((is_item or is_cut) and kinds == {"int"})


def is_cut_off(script: Script, read: HostRead) -> bool:
    """``int(t)``."""
    return isinstance(read.node, cst.Call) and script.name(read.node.func) == "builtins.int"
