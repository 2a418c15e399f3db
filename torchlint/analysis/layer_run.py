"""One function, run in the abstract: names and ``self.x`` hold layers and outputs of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.layer_uses import ABOUT_MODULES, SAME_MODULE, opens, runs_members
from torchlint.analysis.layer_values import (
    ANY_LAYER,
    ANY_LAYERS,
    NO_LAYERS,
    Layers,
    Output,
    Value,
    as_list,
    concatenate,
    layer,
    member,
    repeat,
    shuffled,
)
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.analysis.classes import Class
    from torchlint.analysis.layer_reader import Reader

Env: TypeAlias = dict[str, Value]

_SEQUENTIAL = "torch.nn.Sequential"
_LISTS = frozenset({"torch.nn.ModuleList"})
_NO_LAYERS = frozenset({"torch.nn.Parameter", "torch.nn.ModuleDict", "torch.nn.ParameterList",
                        "torch.nn.ParameterDict"})  # fmt: skip
# Reading these says nothing of the values in a tensor.
_ABOUT_TENSORS = frozenset({"shape", "device", "dtype", "ndim", "requires_grad", "is_cuda"})
_ASKING_TENSORS = frozenset({"size", "dim", "numel", "ndimension", "get_device", "is_contiguous"})
_ASKING = frozenset({"len", "isinstance", "hasattr", "type", "id", "range", "issubclass"})

_LITERALS = frozenset({cst.Integer, cst.Float, cst.SimpleString})


class Run:
    """One function, or the top level of the module."""

    def __init__(self, reader: Reader, scope: cst.CSTNode, owner: Class | None) -> None:
        self._reader = reader
        self._program = reader.program
        self._scope = scope
        self._owner = owner
        self.returned: list[Value] = []
        self._ends: list[Env] = []
        self._breaks: list[list[Env]] = []  # what holds where the loops around are left,
        self._turns: list[list[Env]] = []  # and where their next turns begin
        self._turning: list[set[str]] = []  # names that the loops around bind in each turn

    def run(self, body: Sequence[cst.CSTNode]) -> None:
        """Run the body and keep what it leaves in ``self``."""
        last = self._block(body, {})
        if last is not None:
            self._ends.append(last)
        env = self._merge(self._ends)
        for name, value in env.items():
            if name.startswith("self."):
                self._reader.store(self._owner, name[5:], value)
            elif isinstance(value, Layers) and value.chain and self._owner is None:
                self._reader.escape(value)  # for all we know, others run it
        self._close_over(env)
        own = env.get("self")
        if isinstance(own, Layers):
            self._reader.commit(own)

    def _close_over(self, env: Env) -> None:
        """Functions and classes inside this one may do anything with the names they see."""
        index = self._program.index
        held = {name for name, value in env.items() if value is not None}
        for name in index.below(self._scope, cst.Name) if held else ():
            if name.value not in held:
                continue
            scope = index.scope(name)
            if scope.function().node is self._scope:
                continue
            owner = scope.owner(name.value)
            if owner is not None and owner.node is self._scope:
                self._reader.escape(env[name.value], opened=opens(self._program, name))

    # -- statements --------------------------------------------------------------------------

    def _block(self, body: Sequence[cst.CSTNode], env: Env) -> Env | None:
        current: Env | None = env
        for statement in body:
            if current is None:
                break
            current = self._statement(statement, current)
        return current

    def _suite(self, suite: cst.BaseSuite, env: Env) -> Env | None:
        return self._block(suite.body, env)

    def _statement(self, node: cst.CSTNode, env: Env) -> Env | None:
        match node:
            case cst.SimpleStatementLine() | cst.SimpleStatementSuite():
                return self._block(node.body, env)
            case cst.Assign():
                self._assign([target.target for target in node.targets], node.value, env)
            case cst.AnnAssign():
                if node.value is not None:
                    self._assign([node.target], node.value, env)
            case cst.AugAssign():
                self._augment(node, env)
            case cst.Expr():
                self._value(node.value, env)
            case cst.Return():
                value = None if node.value is None else self._value(node.value, env)
                if isinstance(value, Output):
                    self._reader.give(self._scope, value)
                self.returned.append(value if isinstance(value, Layers) else None)
                self._ends.append(env)
                return None
            case cst.Break():
                self._breaks[-1].append(env)
                return None
            case cst.Continue():
                self._turns[-1].append(env)
                return None
            case cst.Raise():
                self._leak(node, env)
                return None
            case cst.If():
                return self._branch(node, env)
            case cst.For() | cst.While():
                return self._loop(node, env)
            case cst.With():
                for item in node.items:
                    self._leak(item.item, env)
                return self._suite(node.body, env)
            case cst.Try() | cst.TryStar():
                return self._attempt(node, env)
            case cst.Match():
                self._leak(node.subject, env)
                ends = [self._suite(case.body, dict(env)) for case in node.cases]
                return self._merge([env, *(end for end in ends if end is not None)])
            case cst.FunctionDef() | cst.ClassDef() | cst.Del():
                pass
            case _:
                self._leak(node, env)
        return env

    def _branch(self, node: cst.If, env: Env) -> Env | None:
        self._test(node.test, env)
        holds = self._reader.assumed.get(id(node))
        if holds:
            return self._suite(node.body, env)
        ends = [] if holds is False else [self._suite(node.body, dict(env))]
        match node.orelse:
            case cst.If():
                ends.append(self._branch(node.orelse, dict(env)))
            case cst.Else():
                ends.append(self._suite(node.orelse.body, dict(env)))
            case _:
                ends.append(dict(env))
        left = [end for end in ends if end is not None]
        return self._merge(left) if left else None

    def _loop(self, node: cst.For | cst.While, env: Env) -> Env | None:
        bound: set[str] = set()
        if isinstance(node, cst.For):
            bound = {name.value for name in self._program.index.below(node.target, cst.Name)}
        self._turning.append(bound)
        self._breaks.append([])
        for _ in range(2):
            inner = dict(env)
            if isinstance(node, cst.For):
                self._bind(node.target, self._each(node.iter, inner), inner)
            else:
                self._test(node.test, inner)
            self._turns.append([])
            end = self._suite(node.body, inner)
            ends = [*self._turns.pop(), *([] if end is None else [end])]
            before, env = env, self._merge([env, *ends])
            if all(before.get(name) is value for name, value in env.items()):
                break
        self._turning.pop()
        left = self._breaks.pop()
        whole = env if node.orelse is None else self._suite(node.orelse.body, env)
        left += [] if whole is None else [whole]
        return self._merge(left) if left else None

    def _attempt(self, node: cst.Try | cst.TryStar, env: Env) -> Env | None:
        tried = self._suite(node.body, dict(env))
        begun = self._merge([env, *([] if tried is None else [tried])])
        ends = [tried] + [self._suite(handler.body, dict(begun)) for handler in node.handlers]
        if node.orelse is not None and tried is not None:
            ends[0] = self._suite(node.orelse.body, tried)
        left = [end for end in ends if end is not None]
        after = self._merge(left) if left else None
        if node.finalbody is None:
            return after
        final = self._suite(node.finalbody.body, begun if after is None else after)
        return None if after is None else final

    def _merge(self, ends: Sequence[Env]) -> Env:
        """One environment out of those that several paths end with."""
        if len(ends) == 1:
            return dict(ends[0])
        names = {name: None for env in ends for name in env}
        return {
            name: self._reader.join([env[name] for env in ends if name in env]) for name in names
        }

    def _test(self, node: cst.BaseExpression, env: Env) -> None:
        value = self._value(node, env)
        if isinstance(value, Output):
            self._reader.escape(value)

    # -- stores ------------------------------------------------------------------------------

    def _assign(
        self, targets: Sequence[cst.BaseExpression], node: cst.BaseExpression, env: Env
    ) -> None:
        target = targets[0]
        if (
            len(targets) == 1
            and isinstance(target, (cst.Tuple, cst.List))
            and isinstance(node, (cst.Tuple, cst.List))
            and len(target.elements) == len(node.elements)
        ):
            values = [self._value(element.value, env) for element in node.elements]
            for element, value in zip(target.elements, values, strict=True):
                self._store(element.value, value, env)
            return
        value = self._value(node, env)
        aliased = isinstance(value, Layers) and (
            len(targets) > 1
            or (value.listed and isinstance(target, cst.Name) and _key(node) is not None)
        )
        if aliased:  # two names for one thing that can grow
            self._reader.escape(value, opened=True)
            value = ANY_LAYERS if isinstance(value, Layers) and value.listed else None
            if (key := _key(node)) is not None:
                env[key] = value
        for one in targets:
            self._store(one, value, env)

    def _store(self, target: cst.BaseExpression, value: Value, env: Env) -> None:
        key = _key(target)
        match target:
            case cst.Attribute() if isinstance(value, Output):
                self._reader.escape(value)
                self._store(target, None, env)
            case _ if key is not None:
                env[key] = value
            case cst.Subscript():
                self._store_item(target, value, env)
            case cst.Tuple() | cst.List():
                self._reader.escape(value)
                for element in target.elements:
                    self._store(element.value, None, env)
            case _:
                self._reader.escape(value)
                self._leak(target, env)

    def _store_item(self, target: cst.Subscript, value: Value, env: Env) -> None:
        """``layers["conv"] = nn.Conv2d(...)`` lengthens an ``OrderedDict``."""
        held = self._value(target.value, env)
        key = _key(target.value)
        match target.slice:
            case [cst.SubscriptElement(slice=cst.Index(value=cst.BaseString()))]:
                if isinstance(held, Layers) and held.listed and key is not None:
                    env[key] = concatenate(held, self._member_of(value))
                    return
            case _:
                pass
        self._reader.escape(held, opened=True)
        self._reader.escape(value, opened=True)
        if key is not None and isinstance(held, Layers):
            env[key] = ANY_LAYERS if held.listed else None

    def _augment(self, node: cst.AugAssign, env: Env) -> None:
        held = self._value(node.target, env)
        value = self._value(node.value, env)
        key = _key(node.target)
        if (
            isinstance(held, Layers) and isinstance(value, Layers) and key is not None
            and held.listed and value.listed and isinstance(node.operator, cst.AddAssign)
        ):  # fmt: skip
            env[key] = concatenate(held, value)
            return
        self._reader.escape(held)
        self._reader.escape(value)
        if key is not None:
            listed = isinstance(held, Layers) and held.listed
            env[key] = concatenate(held, ANY_LAYERS) if listed else None  # type: ignore[arg-type]

    def _bind(self, target: cst.BaseExpression, value: Value | tuple[Value, ...], env: Env) -> None:
        if isinstance(value, tuple):
            if isinstance(target, (cst.Tuple, cst.List)) and len(target.elements) == len(value):
                for element, part in zip(target.elements, value, strict=True):
                    self._bind(element.value, part, env)
                return
            for part in value:
                self._reader.escape(part)
            value = None
        self._store(target, value, env)

    def _each(self, node: cst.BaseExpression, env: Env) -> Value | tuple[Value, ...]:
        """Return what a loop binds in each turn."""
        match node:
            case cst.Call(func=cst.Name(value="zip"), args=args):
                parts = tuple(self._each(arg.value, env) for arg in args)
                return tuple(None if isinstance(part, tuple) else part for part in parts)
            case cst.Call(func=cst.Name(value="enumerate"), args=[cst.Arg(value=inner), *_]):
                part = self._each(inner, env)
                return (None, None if isinstance(part, tuple) else part)
            case cst.Call(func=cst.Name(value="reversed" | "list"), args=[cst.Arg(value=inner)]):
                return self._each(inner, env)
            case _:
                return self._element(self._value(node, env))

    def _element(self, value: Value) -> Value:
        if isinstance(value, Layers) and value.listed:
            return member(value)
        self._reader.escape(value, opened=True)
        return None

    # -- expressions -------------------------------------------------------------------------

    def _leak(self, node: cst.CSTNode, env: Env) -> None:
        """Evaluate what is below a node; nothing is known of what it is used for."""
        if isinstance(node, cst.BaseExpression):
            self._reader.escape(self._value(node, env))
            return
        for child in self._program.index.children(node):
            self._leak(child, env)

    def _value(self, node: cst.BaseExpression, env: Env) -> Value:
        if not self._reader.spend() or type(node) in _LITERALS:
            return None
        match node:
            case cst.Name():
                return env.get(node.value)
            case cst.Attribute():
                return self._attribute(node, env)
            case cst.Call():
                return self._call(node, env)
            case cst.List() | cst.Tuple():
                return self._display(node, env)
            case cst.ListComp() | cst.GeneratorExp():
                return self._comprehension(node, env)
            case cst.IfExp():
                self._test(node.test, env)
                holds = self._reader.assumed.get(id(node))
                sides = [node.body] if holds is not False else []
                sides += [] if holds else [node.orelse]
                return self._reader.join([self._value(side, env) for side in sides])
            case cst.NamedExpr():
                value = self._value(node.value, env)
                self._store(node.target, value, env)
                return value
            case cst.BinaryOperation():
                return self._operation(node, env)
            case cst.Comparison():
                self._compare(node, env)
                return None
            case cst.Subscript():
                return self._subscript(node, env)
            case cst.Lambda():
                return None  # what it sees escapes when the function ends
            case _:
                for child in self._program.index.children(node):
                    self._leak(child, env)
                return None

    def _attribute(self, node: cst.Attribute, env: Env) -> Value:
        key = _key(node)
        if key is not None:
            return env[key] if key in env else self._reader.attribute(self._owner, key[5:])
        value = self._value(node.value, env)
        harmless = _ABOUT_TENSORS if isinstance(value, Output) else ABOUT_MODULES
        if node.attr.value not in harmless:
            self._reader.escape(value, opened=True)
        return None

    def _display(self, node: cst.List | cst.Tuple, env: Env) -> Value:
        result = NO_LAYERS
        for element in node.elements:
            value = self._value(element.value, env)
            if isinstance(element, cst.StarredElement):
                result = concatenate(result, self._unpacked(value))
            else:
                result = concatenate(result, self._member_of(value))
        return result

    def _member_of(self, value: Value) -> Layers:
        """Return a value as a member of a list."""
        if isinstance(value, Layers) and not value.listed:
            return as_list(value)
        self._reader.escape(value)
        return as_list(ANY_LAYER)

    def _unpacked(self, value: Value) -> Layers:
        """Return a value as ``*value`` in a list or a call."""
        if isinstance(value, Layers) and value.listed:
            return value
        self._reader.escape(value, opened=True)
        return ANY_LAYERS

    def _comprehension(self, node: cst.ListComp | cst.GeneratorExp, env: Env) -> Value:
        inner = dict(env)
        part: cst.CompFor | None = node.for_in
        while part is not None:
            self._bind(part.target, self._each(part.iter, inner), inner)
            for condition in part.ifs:
                self._test(condition.test, inner)
            part = part.inner_for_in
        return repeat(self._member_of(self._value(node.elt, inner)))

    def _operation(self, node: cst.BinaryOperation, env: Env) -> Value:
        left, right = self._value(node.left, env), self._value(node.right, env)
        lists = [isinstance(side, Layers) and side.listed for side in (left, right)]
        if isinstance(node.operator, cst.Add) and any(lists):
            return concatenate(self._unpacked(left), self._unpacked(right))
        if isinstance(node.operator, cst.Multiply) and isinstance(left, Layers) and left.listed:
            self._reader.escape(left)  # the same layers several times
            return repeat(left)
        self._reader.escape(left)
        self._reader.escape(right)
        return None

    def _compare(self, node: cst.Comparison, env: Env) -> None:
        identity = all(isinstance(i.operator, (cst.Is, cst.IsNot)) for i in node.comparisons)
        for side in (node.left, *(item.comparator for item in node.comparisons)):
            value = self._value(side, env)
            if isinstance(value, Output) and not identity:
                self._reader.escape(value)

    def _subscript(self, node: cst.Subscript, env: Env) -> Value:
        value = self._value(node.value, env)
        for part in node.slice:
            self._leak(part, env)
        if isinstance(value, Layers) and value.listed:
            sliced = any(isinstance(part.slice, cst.Slice) for part in node.slice)
            return shuffled(value) if sliced else member(value)
        self._reader.escape(value, opened=True)
        return None

    # -- calls -------------------------------------------------------------------------------

    def _call(self, node: cst.Call, env: Env) -> Value:
        name = self._program.qualified(node.func)
        last = name.rpartition(".")[2]
        if name == _SEQUENTIAL:
            return self._sequential(self._members(node.args, env))
        if name in _LISTS or name == "collections.OrderedDict":
            return self._listed(node, env)
        if name.startswith("torch.nn.") and last[:1].isupper() and name not in _NO_LAYERS:
            self._leak_arguments(node, env)
            return layer(node)
        if self._reader.modules.is_built(node):
            self._leak_arguments(node, env)
            self._reader.modules.place(node)
            return layer(node)
        match node.func:
            case cst.Name(value="list" | "tuple") if len(node.args) == 1:
                return self._unpacked(self._value(node.args[0].value, env))
            case cst.Name(value=function) if function in _ASKING:
                for arg in node.args:
                    self._test(arg.value, env)
                return None
            case cst.Attribute():
                return self._method(node, node.func, env)
            case _:
                return self._function(node, env)

    def _function(self, node: cst.Call, env: Env) -> Value:
        value = self._value(node.func, env)
        if isinstance(value, Layers) and not value.listed:
            return self._forward(value, node, env)
        self._reader.escape(value)
        self._leak_arguments(node, env)
        target = self._program.calls.target(node)
        if target is None or target.name.value == "__init__":
            return None
        return self._reader.summary(target)

    def _leak_arguments(self, node: cst.Call, env: Env) -> None:
        for arg in node.args:
            value = self._value(arg.value, env)
            handed = isinstance(value, Layers) and value.chain
            self._reader.escape(value, opened=handed and runs_members(self._program, node))

    def _forward(self, module: Layers, node: cst.Call, env: Env) -> Value:
        """Call a module: record what its first layers get, and return what it gives."""
        for place, arg in enumerate(node.args):
            value = self._value(arg.value, env)
            if isinstance(value, Output) and place == 0 and not arg.star and not module.empty:
                self._reader.feed(value.producers, module.first)
            else:
                self._reader.escape(value)
        self._count(module, node)
        return Output(module.last)

    def _count(self, module: Layers, node: cst.Call) -> None:
        """Note a call: what runs at several places, or in each turn of a loop, is shared."""
        key = _key(node.func)
        if key is None:
            return
        if key.startswith("self."):
            self._reader.called(self._owner, key[5:], node)
        if self._turning and not any(key in bound for bound in self._turning):
            self._reader.escape(module)

    def _members(self, args: Sequence[cst.Arg], env: Env) -> Layers:
        """Return the layers that ``nn.Sequential`` is given."""
        result = NO_LAYERS
        for arg in args:
            value = self._value(arg.value, env)
            if arg.star == "*":
                part = self._unpacked(value)
            elif len(args) == 1 and isinstance(value, Layers) and value.listed:
                part = value  # an OrderedDict
            else:
                part = self._member_of(value)
            result = concatenate(result, part)
        return result

    def _sequential(self, members: Layers) -> Layers:
        self._reader.commit(members)
        return Layers(
            members.first, members.last, frozenset(), members.heads, members.tails, members.empty,
            chain=True,
        )  # fmt: skip

    def _listed(self, node: cst.Call, env: Env) -> Layers:
        """``nn.ModuleList(...)`` and ``OrderedDict(...)``."""
        if not node.args:
            return NO_LAYERS
        given = node.args[0].value
        if self._program.qualified(node.func) == "collections.OrderedDict":
            pairs = _pairs(given)
            if pairs is None:
                self._leak_arguments(node, env)
                return ANY_LAYERS
            result = NO_LAYERS
            for value in pairs:
                result = concatenate(result, self._member_of(self._value(value, env)))
            return result
        return self._unpacked(self._value(given, env))

    def _method(self, node: cst.Call, func: cst.Attribute, env: Env) -> Value:
        key = _key(func)
        if key is not None:
            if key in ("self.add_module", "self.register_module") and len(node.args) == 2:
                self._register(node, env)
                return None
            return self._function(node, env)
        if _is_super(func.value):
            self._super(node, func.attr.value, env)
            return None
        held = self._value(func.value, env)
        match held:
            case Layers() if held.listed or held.chain:
                return self._grow(node, func, held, env)
            case Layers():
                return self._module_method(node, func.attr.value, held, env)
            case _:
                if func.attr.value not in _ASKING_TENSORS:
                    self._reader.escape(held)
                self._leak_arguments(node, env)
                return self._own_method(node)

    def _own_method(self, node: cst.Call) -> Value:
        target = self._program.calls.target(node)
        return None if target is None else self._reader.summary(target)

    def _module_method(self, node: cst.Call, name: str, held: Layers, env: Env) -> Value:
        if name in ("forward", "__call__"):
            return self._forward(held, node, env)
        self._leak_arguments(node, env)
        if name in SAME_MODULE:
            return held
        if name not in ABOUT_MODULES:
            self._reader.escape(held, opened=True)
        return None

    def _grow(self, node: cst.Call, func: cst.Attribute, held: Layers, env: Env) -> Value:
        """``append`` and its kin, on a list or on ``nn.Sequential``."""
        name, key = func.attr.value, _key(func.value)
        grown: Layers | None = None
        args = [arg.value for arg in node.args]
        if key is not None:
            match name, args:
                case ("append", [added]) | (("add_module" | "register_module"), [_, added]):
                    grown = concatenate(held, self._member_of(self._value(added, env)))
                case ("extend", [added]):
                    grown = concatenate(held, self._unpacked(self._value(added, env)))
                case ("insert", [cst.Integer(value="0"), added]):
                    one = self._member_of(self._value(added, env))
                    grown = concatenate(one, held)
        if grown is None or key is None:
            if held.listed:
                self._leak_arguments(node, env)
                self._reader.escape(held, opened=True)
                return None
            return self._module_method(node, name, held, env)
        env[key] = grown if held.listed else self._sequential(grown)
        return env[key] if held.chain else None

    def _register(self, node: cst.Call, env: Env) -> None:
        """``self.add_module("name", layer)``."""
        value = self._value(node.args[1].value, env)
        if self._is_chain():
            held = env.get("self")
            before = held if isinstance(held, Layers) else NO_LAYERS
            env["self"] = concatenate(before, self._member_of(value))
            return
        name = node.args[0].value
        if isinstance(name, cst.SimpleString) and isinstance(name.evaluated_value, str):
            env[f"self.{name.evaluated_value}"] = value
        else:
            self._reader.escape(value, opened=True)

    def _super(self, node: cst.Call, name: str, env: Env) -> None:
        """``super().__init__(conv, norm)`` in a class that is a ``nn.Sequential``."""
        if name == "__init__" and self._is_chain() and node.args:
            env["self"] = self._members(node.args, env)
        else:
            self._leak_arguments(node, env)

    def _is_chain(self) -> bool:
        if self._owner is None:
            return False
        classes = self._program.classes
        chain = any(_SEQUENTIAL in one.bases for one in classes.lineage(self._owner))
        return chain and classes.method(self._owner, "forward") is None


def _key(node: cst.CSTNode) -> str | None:
    """``x`` or ``self.x``: what an environment holds values for."""
    if type(node) is cst.Name:
        return node.value if node.value != "self" else None
    if type(node) is cst.Attribute and type(node.value) is cst.Name and node.value.value == "self":
        return f"self.{node.attr.value}"
    return None


def _is_super(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and dotted(node.func) == "super"


def _pairs(node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """Return the values of ``[("conv", conv), ("norm", norm)]`` or a dictionary, in order."""
    found: list[cst.BaseExpression] = []
    match node:
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            for element in elements:
                match element:
                    case cst.Element(value=cst.Tuple(elements=[_, cst.Element(value=value)])):
                        found.append(value)
                    case _:
                        return None
        case cst.Dict(elements=entries):
            for entry in entries:
                if not isinstance(entry, cst.DictElement):
                    return None
                found.append(entry.value)
        case _:
            return None
    return found
