"""Who else can reach the memory of an array, and what becomes of a tensor that shares it.

The question behind it: if a tensor used this memory instead of a copy, would anybody notice?
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import numpy_tables as tables
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind, ScopeKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding


class Owner(enum.IntEnum):
    """Who holds an array beside the expression that gives it; the worst wins."""

    SOLE = enum.auto()  # nobody
    SHARED = enum.auto()  # somebody may; nothing in this file is seen to change or keep it later
    NEEDED = enum.auto()  # a copy is needed: changed or kept later, or memory that is read-only


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds an array, and whether it is a part of a larger one (with gaps between rows)."""

    owner: Owner
    part: bool = False

    def __or__(self, other: Holding) -> Holding:
        """Return what holds of an array that is one of two."""
        return Holding(max(self.owner, other.owner), self.part or other.part)


class Effect(enum.IntEnum):
    """What one use of an array does; the worst wins."""

    LOOK = enum.auto()  # its shape, its type
    READ = enum.auto()
    SHARE = enum.auto()  # another name for it, or a function that is not known
    KEEP = enum.auto()  # stored or returned
    CHANGE = enum.auto()


class Fate(enum.Flag):
    """What is done in place to a tensor."""

    NOTHING = 0
    CHANGED = enum.auto()
    RESIZED = enum.auto()


SOLE, SHARED, NEEDED = Holding(Owner.SOLE), Holding(Owner.SHARED), Holding(Owner.NEEDED)
_DEPTH = 12

_LOOKS = frozenset(["shape", "ndim", "size", "dtype", "itemsize", "nbytes", "strides", "flags"])
_ALIAS_ATTRIBUTES = frozenset({"T", "mT", "real", "imag", "flat", "base", "data"})
_READING_METHODS = frozenset(
    {*tables.METHOD_FRESH, *tables.METHOD_LIKE, *tables.METHOD_ELEMENTWISE, *tables.REDUCTIONS,
     "tolist", "item", "dot", "take", "tobytes", "tostring", "tofile", "nonzero", "searchsorted",
     "dump", "trace", "__len__"}
)  # fmt: skip
_KEEPING_METHODS = frozenset(
    {"append", "appendleft", "add", "insert", "extend", "put", "setdefault", "update", "push"}
)
_READING_BUILTINS = frozenset(
    {"len", "print", "min", "max", "sum", "float", "int", "str", "repr", "isinstance", "range",
     "bool", "abs", "round", "type", "id", "any", "all", "sorted", "hasattr", "format", "hash"}
)  # fmt: skip
_CHANGING_FUNCTIONS = frozenset(
    {"numpy.copyto", "numpy.put", "numpy.place", "numpy.putmask", "numpy.fill_diagonal",
     "numpy.put_along_axis", "numpy.random.shuffle", "random.shuffle"}
)  # fmt: skip

# Methods of a tensor that may give the same memory back.
_TENSOR_ALIASES = tables.names(
    """to float double half bfloat16 long int short byte bool type cpu cuda view reshape unsqueeze
    squeeze permute t transpose contiguous expand flatten detach narrow unflatten swapaxes movedim
    view_as reshape_as expand_as type_as real diagonal select unfold chunk split unbind"""
)
_RESIZING = frozenset({"resize_", "resize_as_", "set_"})
_TRAINING = ("Parameter", "from_pretrained", "register_buffer", "register_parameter")


class Ownership:
    """Questions about the memory of arrays and tensors in one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program

    def of(self, node: cst.BaseExpression) -> Holding:
        """Return who holds the array that an expression gives, from there on."""
        return self._of(node, _Question(self._program, node, ()))

    def fate(self, node: cst.BaseExpression) -> Fate:
        """Return what is done in place to the tensor that an expression gives."""
        return _fate(self._program, node, 0)

    # -- arrays ------------------------------------------------------------------------------

    def _of(self, node: cst.CSTNode, asked: _Question) -> Holding:
        if len(asked.passed) > _DEPTH:
            return SHARED
        asked = asked.through(node)
        match node:
            case cst.Name():
                return self._name(node, asked)
            case cst.IfExp():
                return self._of(node.body, asked) | self._of(node.orelse, asked)
            case cst.BooleanOperation():
                return self._of(node.left, asked) | self._of(node.right, asked)
            case cst.Attribute():
                return self._attribute(node, asked)
            case cst.Subscript():
                return self._subscript(node, asked)
            case cst.Call():
                return self._call(node, asked)
            case _:
                return self._by_value(node)

    def _by_value(self, node: cst.CSTNode) -> Holding:
        return SOLE if self._program.value(node).fresh else SHARED

    def _attribute(self, node: cst.Attribute, asked: _Question) -> Holding:
        base = self._program.value(node.value)
        if base.kind is Kind.NDARRAY:
            return self._of(node.value, asked)
        if any(
            effect is Effect.CHANGE
            for other in self._program.index.of(cst.Attribute)
            if other is not node and other.attr.value == node.attr.value
            for effect in (effect_of(self._program, other),)
        ):
            return NEEDED
        return SHARED

    def _subscript(self, node: cst.Subscript, asked: _Question) -> Holding:
        program = self._program
        base = program.value(node.value)
        if base.kind is not Kind.NDARRAY:
            return SHARED
        if base.type == "numpy.load" and program.value(node).fresh:
            return SOLE  # a member of an archive is read anew each time
        if program.value(node).fresh:
            return SOLE
        holding = self._of(node.value, asked)
        return replace(holding, part=holding.part or _leaves_gaps(node))

    def _call(self, node: cst.Call, asked: _Question) -> Holding:
        program = self._program
        name = program.qualified(node.func)
        if name.startswith("numpy."):
            return self._numpy_call(name.rpartition(".")[2], node, asked)
        target = program.calls.target(node)
        if target is not None:
            return self._returned(target, (), asked)
        if isinstance(node.func, cst.Attribute):
            base = program.value(node.func.value)
            method = node.func.attr.value
            views = method in tables.METHOD_VIEWS or method == "astype"
            if base.kind is Kind.NDARRAY and views and not self._copies(node, method):
                return self._of(node.func.value, asked)
        return self._by_value(node)

    def _copies(self, node: cst.Call, method: str) -> bool:
        words = [arg.keyword.value for arg in node.args if arg.keyword is not None]
        return method == "astype" and "copy" not in words

    def _numpy_call(self, last: str, node: cst.Call, asked: _Question) -> Holding:
        if last in tables.UNSHARABLE:
            return NEEDED
        casts = last in tables.SCALAR_TYPES
        if (last in tables.VIEWS or casts or last == "array") and node.args:
            first = node.args[0].value
            kind = self._program.value(first).kind
            if self._program.value(node).fresh and (kind is not Kind.NDARRAY or last == "array"):
                return SOLE
            # what is not known may be an image or a buffer that must not be written to
            return self._of(first, asked) if kind is Kind.NDARRAY else NEEDED
        if self._program.value(node).type == "numpy.load" and not self._program.value(node).fresh:
            return NEEDED
        return self._by_value(node)

    def _returned(
        self, function: cst.FunctionDef, path: tuple[int | None, ...], asked: _Question
    ) -> Holding:
        """Ask about what a function returns; a method may be another one in a subclass."""
        program = self._program
        returns = program.returns(function)
        if program.yields(function) or not returns or function.asynchronous is not None:
            return SHARED
        if function.decorators and not program.is_static(function):  # a cache, perhaps
            return SHARED
        public = program.is_method(function) and not function.name.value.startswith("_")
        result = SHARED if public else SOLE
        for each in returns:
            node: cst.CSTNode | None = each.value
            for step in path:
                inside = isinstance(node, cst.Tuple) and step is not None
                node = _element(node, step) if inside else None
            if node is None:
                return SHARED
            result |= self._of(node, replace(asked, here=node))
        return result

    # -- names -------------------------------------------------------------------------------

    def _name(self, node: cst.Name, asked: _Question) -> Holding:
        program = self._program
        bindings = [b for b in program.flow.reaching(node) if not _is_none(b)]
        if not bindings:
            return SHARED
        earlier = list(self._with_earlier(bindings))
        holding = SOLE
        for binding in earlier:
            holding |= self._binding(binding, asked)
        if holding.owner is Owner.NEEDED:
            return holding
        return holding | Holding(self._by_uses(node, earlier, asked))

    def _with_earlier(self, bindings: list[Binding]) -> Iterator[Binding]:
        """Yield the bindings, and for ``a += 1``, which changes in place, those before it."""
        todo, seen = list(bindings), set[int]()
        while todo:
            binding = todo.pop()
            if id(binding) in seen:
                continue
            seen.add(id(binding))
            if binding.kind is Bind.AUGMENT and binding.value is not None:
                todo += self._program.flow.before(binding.value, binding.name)
            else:
                yield binding

    def _binding(self, binding: Binding, asked: _Question) -> Holding:
        value = binding.value
        if binding.kind is not Bind.ASSIGN or value is None:
            return SHARED
        if binding.scope.kind not in (ScopeKind.FUNCTION, ScopeKind.MODULE):
            return SHARED
        if not binding.path:
            return self._of(value, asked)
        if isinstance(value, cst.Tuple) and len(binding.path) == 1:
            part = _element(value, binding.path[0])
            return SHARED if part is None else self._of(part, asked)
        if isinstance(value, cst.Call):
            target = self._program.calls.target(value)
            if target is not None:
                return self._returned(target, binding.path, asked.through(value))
            found = self._program.value(value).member(binding.path[0])
            return SOLE if found.fresh and len(binding.path) == 1 else SHARED
        return SHARED

    def _by_uses(self, node: cst.Name, bindings: Sequence[Binding], asked: _Question) -> Owner:
        """Return what the other uses of a name mean for the one that is asked about."""
        worst = Owner.SOLE
        rebound = _rebinds(self._program, asked.here, node.value)
        for use in self._uses(node, bindings):
            if any(self._program.index.inside(use, passed) for passed in asked.passed):
                continue
            after = asked.after(use, bindings)
            if after is None or (after and rebound):
                continue
            worst = max(worst, _verdict(effect_of(self._program, use), after=after))
        if (asked.repeats(bindings) and not rebound) or asked.outside(bindings):
            worst = max(worst, Owner.SHARED)
        return worst

    def _uses(self, node: cst.Name, bindings: Sequence[Binding]) -> Iterator[cst.Name]:
        index, flow = self._program.index, self._program.flow
        wanted = {id(binding) for binding in bindings}
        owner = index.scope(node).owner(node.value)
        own = {id(binding.node) for binding in bindings}
        for use in index.named.get(node.value, ()):
            if use is node or id(use) in own or not _is_variable(self._program, use):
                continue
            if index.scope(use).owner(use.value) is not owner:
                continue
            seen = flow.reaching(use)
            if any(id(binding) in wanted for binding in self._with_earlier(list(seen))):
                yield use


@dataclass(frozen=True, slots=True)
class _Question:
    """Where the array is asked about, and the expressions that lead to it."""

    program: Program
    here: cst.CSTNode
    passed: tuple[cst.CSTNode, ...]

    def through(self, node: cst.CSTNode) -> _Question:
        return replace(self, passed=(*self.passed, node))

    def after(self, use: cst.CSTNode, bindings: Sequence[Binding]) -> bool | None:
        """Whether a use can come after the place asked about; None if it meets it in no run."""
        index = self.program.index
        mine, other = index.scope(self.here).function(), index.scope(use).function()
        if mine is not other:
            return True  # in another function: at any time
        if any(index.inside(use, loop) for loop in self._loops(bindings)):
            return True
        if index.order(use) < index.order(self.here):
            # what is returned before has ended the run
            return None if self._apart(use) or self._returned(use) else False
        return True if not self._apart(use) and self._reached(use) else None

    def repeats(self, bindings: Sequence[Binding]) -> bool:
        """Whether the place is run again and again for one and the same array."""
        return bool(self._loops(bindings))

    def outside(self, bindings: Sequence[Binding]) -> bool:
        """Whether the array belongs to a scope around the function: each call meets it again."""
        mine = self.program.index.scope(self.here).function()
        return any(binding.scope.function() is not mine for binding in bindings)

    def _loops(self, bindings: Sequence[Binding]) -> list[cst.CSTNode]:
        """Return the loops around the place in which the array is not made anew."""
        index = self.program.index
        found: list[cst.CSTNode] = []
        for above in index.ancestors(self.here):
            if isinstance(above, (cst.FunctionDef, cst.Lambda)):
                break
            repeats = isinstance(above, (cst.For, cst.While, cst.ListComp, cst.GeneratorExp))
            if repeats and not all(index.inside(b.node, above) for b in bindings):
                found.append(above)
        return found

    def _apart(self, use: cst.CSTNode) -> bool:
        """Whether the two stand in different branches of one ``if``."""
        index = self.program.index
        child = self.here
        for above in index.ancestors(self.here):
            if isinstance(above, (cst.If, cst.IfExp)):
                branches = [above.body, *([above.orelse] if above.orelse else [])]
                others = [b for b in branches if b is not child and child is not above.test]
                if any(index.inside(use, branch) for branch in others):
                    return True
            child = above
        return False

    def _returned(self, use: cst.CSTNode) -> bool:
        for above in self.program.index.ancestors(use):
            if isinstance(above, cst.BaseStatement):
                return False
            if isinstance(above, cst.Return):
                return True
        return False

    def _reached(self, use: cst.CSTNode) -> bool:
        """Whether what follows the place gets as far as the use: no ``return`` between them."""
        index = self.program.index
        for above in index.ancestors(self.here):
            if isinstance(above, (cst.Return, cst.Raise)):
                return index.inside(use, above)
            if isinstance(above, cst.IndentedBlock) and _returns(above):
                return index.inside(use, above)
            if isinstance(above, cst.FunctionDef):
                break
        return True


def _verdict(effect: Effect, *, after: bool) -> Owner:
    if not after:
        return Owner.SHARED if effect in (Effect.SHARE, Effect.KEEP) else Owner.SOLE
    match effect:
        case Effect.LOOK:
            return Owner.SOLE
        case Effect.READ | Effect.SHARE:
            return Owner.SHARED
        case _:
            return Owner.NEEDED


def _returns(block: cst.IndentedBlock) -> bool:
    last = block.body[-1] if block.body else None
    if isinstance(last, cst.SimpleStatementLine):
        return isinstance(last.body[-1], (cst.Return, cst.Raise))
    return False


def _rebinds(program: Program, here: cst.CSTNode, name: str) -> bool:
    """Whether the name stands for something else from there on: ``x = torch.tensor(x)``."""
    for above in program.index.ancestors(here):
        if isinstance(above, (cst.Assign, cst.BaseStatement)):
            targets = above.targets if isinstance(above, cst.Assign) else ()
            return any(isinstance(t.target, cst.Name) and t.target.value == name for t in targets)
        if isinstance(above, (cst.Lambda, cst.ListComp, cst.GeneratorExp)):
            return False
    return False


def _is_variable(program: Program, name: cst.Name) -> bool:
    """Whether a name stands for a variable: not for an attribute, a keyword or a parameter."""
    match program.parent(name):
        case cst.Attribute(attr=attr):
            return attr is not name
        case cst.Arg(keyword=keyword):
            return keyword is not name
        case cst.Param(name=own) | cst.FunctionDef(name=own) | cst.ClassDef(name=own):
            return own is not name
        case cst.ImportAlias() | cst.AsName() | cst.NameItem():
            return False
        case _:
            return True


def _is_none(binding: Binding) -> bool:
    value = binding.value
    return binding.kind is Bind.ASSIGN and isinstance(value, cst.Name) and value.value == "None"


def _element(node: cst.CSTNode | None, place: int | None) -> cst.CSTNode | None:
    if not isinstance(node, cst.Tuple) or place is None or place >= len(node.elements):
        return None
    if any(isinstance(element, cst.StarredElement) for element in node.elements):
        return None
    return node.elements[place].value


def _leaves_gaps(node: cst.Subscript) -> bool:
    """Whether a slice may skip memory: any but new axes and a range of the first axis."""
    for place, element in enumerate(node.slice):
        match element.slice:
            case cst.Slice(lower=None, upper=None, step=None):
                continue
            case cst.Slice(step=None) if place == 0:
                continue
            case cst.Index(value=cst.Name(value="None") | cst.Ellipsis()):
                continue
            case cst.Index(value=cst.Attribute(attr=cst.Name(value="newaxis"))):
                continue
            case cst.Index() if place == 0:
                continue
            case _:
                return True
    return False


# -- what a use does ------------------------------------------------------------------------------


def effect_of(program: Program, node: cst.CSTNode) -> Effect:
    """Return what the expression around a use does to the array that is used."""
    for _ in range(_DEPTH):
        parent = program.parent(node)
        found = _effect(program, node, parent)
        if isinstance(found, Effect):
            return found
        node = found
    return Effect.SHARE


def _effect(
    program: Program, node: cst.CSTNode, parent: cst.CSTNode | None
) -> Effect | cst.CSTNode:
    """Return what a parent does with the array, or the node that is the array as well."""
    match parent:
        case cst.Attribute():
            return _attribute_effect(program, parent)
        case cst.Subscript() if parent.value is node:
            return _subscript_effect(program, parent)
        case cst.Arg():
            call = program.parent(parent)
            return _argument_effect(program, call, parent) if isinstance(call, cst.Call) else parent
        case cst.Index() | cst.Slice() | cst.FormattedStringExpression() | cst.Expr():
            return Effect.READ
        case cst.BinaryOperation() | cst.UnaryOperation() | cst.Comparison():
            return Effect.READ
        case cst.ComparisonTarget() | cst.Assert() | cst.Raise() | cst.If() | cst.While():
            return Effect.READ
        case cst.IfExp() if node is parent.test:
            return Effect.READ
        case cst.IfExp() | cst.BooleanOperation() | cst.Element() | cst.Tuple() | cst.List():
            return parent
        case cst.Return() | cst.Yield() | cst.Lambda() | cst.DictElement():
            return Effect.KEEP
        case cst.AugAssign():
            return Effect.CHANGE if node is parent.target else Effect.READ
        case cst.AssignTarget():
            return Effect.LOOK if isinstance(node, cst.Name) else Effect.KEEP
        case cst.Assign():
            return _assignment_effect(program, parent)
        case cst.Del():
            return Effect.LOOK
        case _:
            return Effect.SHARE


def _attribute_effect(program: Program, node: cst.Attribute) -> Effect | cst.CSTNode:
    name = node.attr.value
    call = program.parent(node)
    if isinstance(call, cst.Call) and call.func is node:
        if name in tables.METHOD_MUTATES:
            return Effect.CHANGE
        if name in tables.METHOD_VIEWS:
            return call
        return Effect.READ if name in _READING_METHODS else Effect.SHARE
    if name in _ALIAS_ATTRIBUTES:
        return node
    return Effect.LOOK if name in _LOOKS else Effect.SHARE


def _subscript_effect(program: Program, node: cst.Subscript) -> Effect | cst.CSTNode:
    above = program.parent(node)
    if isinstance(above, (cst.AssignTarget, cst.Del)):
        return Effect.CHANGE
    if isinstance(above, cst.AugAssign) and above.target is node:
        return Effect.CHANGE
    value = program.value(node)
    if value.fresh or value.kind in (Kind.NUMBER, Kind.NPSCALAR, Kind.BOOL):
        return Effect.READ
    return node


def _assignment_effect(program: Program, node: cst.Assign) -> Effect:
    """Tell stored under another name, in an object, or copied into a part of an array or tensor."""
    for target in node.targets:
        match target.target:
            case cst.Name():
                continue
            case cst.Subscript(value=base):
                if program.value(base).kind not in (Kind.NDARRAY, Kind.TENSOR):
                    return Effect.KEEP
                return Effect.READ
            case _:
                return Effect.KEEP
    return Effect.SHARE


def _argument_effect(program: Program, call: cst.Call, arg: cst.Arg) -> Effect | cst.CSTNode:
    name = program.qualified(call.func)
    last = name.rpartition(".")[2]
    if arg.keyword is not None and arg.keyword.value == "out":
        return Effect.CHANGE
    if name in _CHANGING_FUNCTIONS and (call.args[0] is arg or "shuffle" in name):
        return Effect.CHANGE
    if name.startswith("numpy."):
        if last in tables.VIEWS and call.args[0] is arg:
            return call
        value = program.value(call)
        plain = value.fresh or value.kind in (Kind.NPSCALAR, Kind.NUMBER, Kind.BOOL, Kind.OTHER)
        return Effect.READ if plain or last in tables.REDUCTIONS else call
    if name.startswith("torch."):
        return Effect.READ if name == "torch.tensor" else Effect.SHARE
    if name.startswith("math."):
        return Effect.READ
    if isinstance(call.func, cst.Name) and program.is_builtin(call.func):
        return Effect.READ if call.func.value in _READING_BUILTINS else Effect.SHARE
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _KEEPING_METHODS:
        return Effect.KEEP
    return Effect.SHARE


# -- what becomes of a tensor ---------------------------------------------------------------------


def _fate(program: Program, node: cst.CSTNode, depth: int) -> Fate:
    """Follow a tensor through what gives the same memory, and through names, to its uses."""
    if depth > _DEPTH:
        return Fate.NOTHING
    parent = program.parent(node)
    above = None if parent is None else program.parent(parent)
    match parent:
        case cst.Attribute(attr=cst.Name(value=name)) if parent.value is node:
            called = isinstance(above, cst.Call) and above.func is parent
            if called and name.endswith("_") and not name.endswith("__"):
                found = Fate.RESIZED if name in _RESIZING else Fate.CHANGED
                return found | _fate(program, above, depth + 1) if above else found
            if called and above is not None and name in _TENSOR_ALIASES:
                return _fate(program, above, depth + 1)
            return _fate(program, parent, depth + 1) if name in _ALIAS_ATTRIBUTES else Fate.NOTHING
        case cst.Subscript() if parent.value is node:
            stored = isinstance(above, (cst.AssignTarget, cst.AugAssign))
            if stored and not (isinstance(above, cst.AugAssign) and above.value is parent):
                return Fate.CHANGED
            return _fate(program, parent, depth + 1)
        case cst.AugAssign():
            return Fate.CHANGED if parent.target is node else Fate.NOTHING
        case cst.Assign():
            return _assigned_fate(program, parent, depth)
        case cst.Arg() if isinstance(above, cst.Call):
            return _argument_fate(program, parent, above)
        case cst.IfExp() | cst.BooleanOperation():
            return _fate(program, parent, depth + 1)
        case _:
            return Fate.NOTHING


def _argument_fate(program: Program, arg: cst.Arg, call: cst.Call) -> Fate:
    out = arg.keyword is not None and arg.keyword.value == "out"
    called = dotted(call.func).rpartition(".")[2]
    trained = called in _TRAINING or program.qualified(call.func).endswith(_TRAINING)
    return Fate.CHANGED if out or trained else Fate.NOTHING


def _assigned_fate(program: Program, node: cst.Assign, depth: int) -> Fate:
    found = Fate.NOTHING
    index = program.index
    for target in node.targets:
        match target.target:
            case cst.Name(value=name) as bound:
                for use in index.named.get(name, ()):
                    seen = _seen_by(program, use) if _is_variable(program, use) else ()
                    if any(binding.node is bound for binding in seen):
                        found |= _fate(program, use, depth + 1)
            case cst.Attribute(attr=cst.Name(value=name)) as kept:
                for other in index.of(cst.Attribute):
                    if other is not kept and other.attr.value == name:
                        found |= _fate(program, other, depth + 1)
            case _:
                pass
    return found


def _seen_by(program: Program, use: cst.Name) -> Sequence[Binding]:
    parent = program.parent(use)
    if isinstance(parent, cst.AugAssign) and parent.target is use:
        return program.flow.before(parent, use.value)
    return program.flow.reaching(use)
