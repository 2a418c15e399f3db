"""Who else holds the memory of an array: whether anybody would notice a tensor that shares it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.array_types import SAME
from torchlint.semantics.numpy_calls import READ_ONLY, REDUCES
from torchlint.semantics.values import Array, Function, Library, Number, Truth
from torchlint.syntax.calls import keyword_of, last_name
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value
    from torchlint.syntax.module import Module
    from torchlint.syntax.scopes import Binding

DEEPEST = 12
_LOOKS = frozenset("shape ndim size dtype itemsize nbytes strides flags".split())
_READS = REDUCES | frozenset("tolist item dot tobytes tofile nonzero copy astype flatten".split())
_CHANGES = frozenset("fill sort put resize partition itemset setflags byteswap setfield".split())
_CHANGE_FIRST = frozenset(
    f"numpy.{name}" for name in "copyto put place putmask fill_diagonal random.shuffle".split()
)
_READERS = ("torch.tensor", "builtins.", "math.")
_VIEWS = SAME | {"view", "astype", "T"}
_LOOPS = (cst.For, cst.While, cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.DictComp)
# What gives the memory of a tensor again, or may, and what trains or keeps it.
_ALIASES = frozenset(
    """to float double half long int cpu view reshape unsqueeze squeeze permute t transpose detach
    contiguous expand flatten type""".split()
)
_TRAINED = ("Parameter", "register_buffer", "register_parameter", "from_pretrained")
_RESIZES = frozenset({"resize_", "resize_as_", "set_"})


class Holder(enum.IntEnum):
    """Who holds an array beside the expression that gives it; the worst wins."""

    NOBODY = 0
    OTHERS = 1  # somebody may
    KEPT = 2  # it is returned or stored later
    CHANGED = 3  # it is changed later, or must not be written to: a copy is needed


class Effect(enum.IntEnum):
    """What a use of an array does."""

    LOOK = 0
    READ = 1
    SHARE = 2
    KEEP = 3
    CHANGE = 4


LATER = {Effect.LOOK: Holder.NOBODY, Effect.READ: Holder.OTHERS, Effect.SHARE: Holder.OTHERS,
         Effect.KEEP: Holder.KEPT, Effect.CHANGE: Holder.CHANGED}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ArrayMemory:
    """Questions about arrays of one file."""

    evaluation: Evaluation
    file: int

    @property
    def module(self) -> Module:
        """The file."""
        return self.evaluation.module(self.file)

    def _value(self, node: cst.CSTNode) -> Value:
        return self.evaluation.value(node)

    def _is_array(self, node: cst.CSTNode) -> bool:
        value = self._value(node)
        return bool(value) and all(isinstance(one, Array) for one in value)

    def holder(self, node: cst.BaseExpression, depth: int = 0) -> Holder:
        """Return who holds the array that an expression gives, from there on."""
        value, here = self._value(node), self.evaluation.at(node, self.file)
        if value and all(isinstance(one, Array) and one.made == here for one in value):
            return Holder.NOBODY
        if depth > DEEPEST:
            return Holder.OTHERS
        match node:
            case cst.Name():
                return self._of_name(node, depth)
            case cst.IfExp(body=body, orelse=orelse):
                return max(self.holder(body, depth + 1), self.holder(orelse, depth + 1))
            case cst.Attribute(value=inner, attr=cst.Name(value="T")) if self._is_array(inner):
                return self.holder(inner, depth + 1)
            case cst.Attribute(attr=cst.Name(value=word)):
                others = [n for n in self.module.index.of(cst.Attribute) if n.attr.value == word]
                is_changed = any(self.effect(one) is Effect.CHANGE for one in others)
                return Holder.CHANGED if is_changed else Holder.OTHERS
            case cst.Subscript(value=inner):
                return max(self.holder(inner, depth + 1), Holder.OTHERS)  # with gaps, perhaps
            case cst.Call():
                return self._of_call(node, depth)
        return Holder.OTHERS

    def _of_call(self, node: cst.Call, depth: int) -> Holder:
        called = self._value(node.func)
        name = called[0].name if len(called) == 1 and isinstance(called[0], Library) else ""
        short = name.rpartition(".")[2]
        if name.startswith("numpy."):
            first = node.args[0].value if node.args else None
            if short in READ_ONLY or short == "load":
                return Holder.CHANGED
            if short in SAME | {"array"}:  # what is not known may be an image, which is read-only
                is_array = first is not None and self._is_array(first)
                return self.holder(first, depth + 1) if is_array and first else Holder.CHANGED
            return Holder.OTHERS
        functions = [one for one in called if isinstance(one, Function)]
        if functions:
            is_all = len(functions) == len(called)
            return max(Holder.OTHERS if not is_all else Holder.NOBODY,
                       *(self._returned(one, (), depth) for one in functions))  # fmt: skip
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
            inner = node.func.value
            return self.holder(inner, depth + 1) if self._is_array(inner) else Holder.OTHERS
        return Holder.OTHERS

    def _returned(self, one: Function, path: tuple[int | None, ...], depth: int) -> Holder:
        """Return who holds what a function gives, beside its caller."""
        unit = self.evaluation.units.get(one.at)
        if unit is None or not isinstance(unit.node, cst.FunctionDef) or unit.yielded.value:
            return Holder.OTHERS
        if unit.node.decorators or unit.node.asynchronous:
            return Holder.OTHERS
        memory, worst = ArrayMemory(self.evaluation, one.at.file), Holder.NOBODY
        for statement in unit.module.index.below(unit.node, cst.Return):
            node: cst.BaseExpression | None = statement.value
            for step in path:
                is_inside = isinstance(node, cst.Tuple) and step is not None
                node = _member(node, step or 0) if is_inside else None
            worst = max(worst, Holder.OTHERS if node is None else memory.holder(node, depth + 1))
        return min(worst, Holder.OTHERS)

    # -- names -------------------------------------------------------------------------------

    def _of_name(self, node: cst.Name, depth: int) -> Holder:
        bindings = list(self._bindings(node, 0))
        scope = self.module.index.scope(node).function()
        worst = Holder.NOBODY if bindings else Holder.OTHERS
        for one in bindings:
            is_here = one.kind is Bind.ASSIGN and one.scope.function() is scope
            worst = max(worst, self._bound(one, depth) if is_here else Holder.OTHERS)
        loops = [
            above
            for above in self.module.index.ancestors(node)
            if isinstance(above, _LOOPS)
            and not all(self.module.index.inside(one.node, above) for one in bindings)
            and self.module.index.scope(above).function() is scope
        ]
        if loops:
            worst = max(worst, Holder.OTHERS)
        ends = self._return_around(node)
        for use in self._uses(node, bindings):
            is_first = self.module.index.order(use) < self.module.index.order(node)
            other = self._return_around(use)
            if ends is not other and ((other and is_first) or (ends and not is_first)):
                continue  # the one that runs ends the function
            effect = self.effect(use)
            is_later = (
                self.module.index.scope(use).function() is not scope
                or not is_first
                or any(self.module.index.inside(use, loop) for loop in loops)
            )
            shares = effect in (Effect.SHARE, Effect.KEEP)
            worst = max(worst, LATER[effect] if is_later else Holder(shares))
        return worst

    def _return_around(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the ``return`` statement that an expression is part of."""
        for above in self.module.index.ancestors(node):
            if isinstance(above, (cst.BaseStatement, cst.Lambda)):
                return None
            if isinstance(above, cst.Return):
                return above
        return None

    def _bindings(self, node: cst.CSTNode, depth: int) -> Iterator[Binding]:
        """Yield what a name got its array from; ``a += 1`` changes the one that it had."""
        for one in self.evaluation.bindings(node):
            value = one.value
            if one.kind is Bind.AUGMENT and isinstance(value, cst.AugAssign) and depth < DEEPEST:
                yield from self._bindings(value.target, depth + 1)
            else:
                yield one

    def _bound(self, one: Binding, depth: int) -> Holder:
        value = one.value
        if not isinstance(value, cst.BaseExpression):
            return Holder.OTHERS
        if not one.path:
            return self.holder(value, depth + 1)
        if isinstance(value, cst.Tuple) and len(one.path) == 1:
            part = _member(value, one.path[0])
            return Holder.OTHERS if part is None else self.holder(part, depth + 1)
        functions = self._value(value.func) if isinstance(value, cst.Call) else ()
        found = [
            self._returned(each, one.path, depth) if isinstance(each, Function) else Holder.OTHERS
            for each in functions
        ]
        return max(found, default=Holder.OTHERS)

    def _uses(self, node: cst.Name, bindings: list[Binding]) -> Iterator[cst.Name]:
        index, wanted = self.module.index, {id(one) for one in bindings}
        own, owner = {id(one.node) for one in bindings}, index.scope(node).owner(node.value)
        for use in index.named.get(node.value, ()):
            is_seen = wanted & {id(one) for one in self._bindings(use, 0)}
            is_other = index.scope(use).owner(use.value) is owner and (
                index.scope(use).function() is not index.scope(node).function()
            )
            is_bound = id(use) in own or (index.bound(use) is not None and not is_seen)
            if use is not node and not is_bound and (is_seen or is_other):
                yield use

    # -- what a use does ---------------------------------------------------------------------

    def effect(self, node: cst.CSTNode) -> Effect:
        """Return what the expression around a use does to the array."""
        parent = self.module.parent(node)
        above = None if parent is None else self.module.parent(parent)
        match parent:
            case cst.Attribute(attr=cst.Name(value=name)) if parent.value is node:
                is_called = isinstance(above, cst.Call) and above.func is parent
                if is_called and name in _CHANGES:
                    return Effect.CHANGE
                if name in _VIEWS and name != "astype":
                    return self.effect(above if is_called and above else parent)
                known = Effect.READ if is_called and name in _READS else Effect.SHARE
                return Effect.LOOK if name in _LOOKS else known
            case cst.Subscript() if parent.value is node:
                is_store = isinstance(above, (cst.AssignTarget, cst.Del)) or (
                    isinstance(above, cst.AugAssign) and above.target is parent
                )
                if is_store:
                    return Effect.CHANGE
                return Effect.READ if self._is_new(parent) else self.effect(parent)
            case cst.Arg():
                return self._given(parent, above)
            case cst.AugAssign():
                return Effect.CHANGE if parent.target is node else Effect.READ
            case cst.IfExp() | cst.BooleanOperation() if node is not getattr(parent, "test", None):
                return self.effect(parent)
            case cst.Element() | cst.Tuple() | cst.List():
                return self.effect(parent)
            case cst.Return() | cst.Yield() | cst.DictElement():
                return Effect.KEEP
            case cst.Assign(targets=targets):
                names = all(isinstance(one.target, cst.Name) for one in targets)
                return Effect.SHARE if names else Effect.KEEP
            case cst.AssignTarget() | cst.Del():
                return Effect.LOOK
            case cst.Index() | cst.Slice() | cst.FormattedStringExpression() | cst.Expr():
                return Effect.READ
            case cst.BinaryOperation() | cst.UnaryOperation() | cst.Comparison():
                return Effect.READ
            case cst.ComparisonTarget() | cst.Assert() | cst.If() | cst.While() | cst.IfExp():
                return Effect.READ
        return Effect.SHARE

    def _is_new(self, node: cst.CSTNode) -> bool:
        """Whether an expression gives numbers, or memory of its own."""
        value, here = self._value(node), self.evaluation.at(node, self.file)
        return bool(value) and all(
            isinstance(one, (Number, Truth)) or (isinstance(one, Array) and one.made == here)
            for one in value
        )

    def _given(self, arg: cst.Arg, call: cst.CSTNode | None) -> Effect:
        if not isinstance(call, cst.Call):
            return Effect.SHARE
        names = [one.name for one in self._value(call.func) if isinstance(one, Library)]
        name = names[0] if len(names) == 1 else ""
        if keyword_of(arg) == "out" or name in _CHANGE_FIRST:
            return Effect.CHANGE
        is_read = name.startswith(_READERS) or (name.startswith("numpy.") and self._is_new(call))
        if is_read and name != "builtins.getattr":
            return Effect.READ
        method = last_name(call.func)
        is_put = not name and method in ("append", "add", "insert", "extend", "put", "update")
        return Effect.KEEP if is_put else Effect.SHARE

    # -- tensors -----------------------------------------------------------------------------

    def is_written(self, node: cst.CSTNode, *, resized: bool = False, depth: int = 0) -> bool:
        """Whether a tensor is seen to be changed in place, or ``resized``, under its names too."""
        parent = self.module.parent(node)
        above = None if parent is None else self.module.parent(parent)
        if depth > DEEPEST:
            return False
        match parent:
            case cst.Attribute(attr=cst.Name(value=name)) if parent.value is node:
                if name in _RESIZES if resized else name.endswith("_") and name[:2] != "__":
                    return True
                is_same = name in _ALIASES and isinstance(above, cst.Call)
                return bool(is_same and above) and self.is_written(
                    above or parent, resized=resized, depth=depth + 1
                )
            case cst.Subscript() if parent.value is node:
                return not resized and isinstance(above, (cst.AssignTarget, cst.AugAssign))
            case cst.AugAssign():
                return not resized and parent.target is node
            case cst.Arg() if isinstance(above, cst.Call):
                called = self.module.code(above.func).rpartition(".")[2]
                return not resized and called in _TRAINED
            case cst.Assign(targets=targets):
                return any(
                    self.is_written(use, resized=resized, depth=depth + 1)
                    for one in targets
                    if isinstance(one.target, cst.Name)
                    for use in self.module.index.named[one.target.value]
                    if any(b.node is one.target for b in self._bindings(use, 0))
                )
        return False


def _member(node: cst.BaseExpression | None, place: int | None) -> cst.BaseExpression | None:
    if not isinstance(node, cst.Tuple) or place is None or not 0 <= place < len(node.elements):
        return None
    if any(isinstance(one, cst.StarredElement) for one in node.elements):
        return None
    return node.elements[place].value
