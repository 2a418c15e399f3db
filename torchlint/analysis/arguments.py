"""Arguments of calls by parameter, with keyword dictionaries followed.

``DataLoader(ds, **kwargs)`` is answered by looking at every way ``kwargs`` was built; what
cannot be followed is `Given.UNSURE`, on which a rule stays silent.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import Bind, dotted
from torchlint.analysis.torch_api import SIGNATURES

if TYPE_CHECKING:
    from torchlint.analysis.index import Index
    from torchlint.analysis.flow import Flow
    from torchlint.analysis.names import Names


class Given(enum.Enum):
    """Whether a call passes a parameter."""

    NO = enum.auto()
    YES = enum.auto()
    UNSURE = enum.auto()  # through something that could not be followed, or on some paths only


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """One parameter of a call: passed or not, by which node, and with what value.

    ``arg`` is the argument of the call itself (None where a dictionary carries it).
    ``values`` holds the expressions the parameter may get; empty where it is not passed.
    """

    given: Given
    arg: cst.Arg | None = None
    values: tuple[cst.BaseExpression, ...] = ()

    @property
    def absent(self) -> bool:
        """Certainly not passed."""
        return self.given is Given.NO

    def literal(self) -> str | None:
        """The text of the one literal that is passed: ``True``, ``0``, ``"cuda"`` or None."""
        if self.given is Given.YES and len(self.values) == 1:
            return literal(self.values[0])
        return None


_ABSENT = Argument(Given.NO)
_UNSURE = Argument(Given.UNSURE)


def literal(node: cst.BaseExpression) -> str | None:
    """Text of a number, a constant name or a plain string (its content), else None."""
    match node:
        case cst.Integer() | cst.Float():
            return node.value
        case cst.Name(value="True" | "False" | "None"):
            return node.value
        case cst.SimpleString():
            value = node.evaluated_value
            return value if isinstance(value, str) else None
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Keys:
    """What a dictionary used as ``**kwargs`` holds."""

    certain: dict[str, tuple[cst.BaseExpression, ...]]
    possible: dict[str, tuple[cst.BaseExpression, ...]]
    complete: bool  # False: it may hold other keys as well

    def look_up(self, name: str) -> Argument:
        """The parameter as this dictionary passes it."""
        if name in self.certain:
            values = self.certain[name] + self.possible.get(name, ())
            return Argument(Given.YES, None, values)
        if name in self.possible:
            return Argument(Given.UNSURE, None, self.possible[name])
        return _ABSENT if self.complete else _UNSURE


_ANYTHING = Keys({}, {}, complete=False)


class Arguments:
    """Parameters of the calls of one module."""

    def __init__(self, index: Index, names: Names, flow: Flow) -> None:
        """Nothing is computed before it is asked for."""
        self._index = index
        self._names = names
        self._flow = flow

    def of(self, call: cst.Call, name: str, function: str | None = None) -> Argument:
        """The argument of a call for a parameter of a function in `SIGNATURES`.

        Args:
            call: the call.
            name: the parameter.
            function: qualified name of what is called; found by name where not given.

        """
        function = self._names.qualified(call.func) if function is None else function
        signature = SIGNATURES.get(function, ())
        positional = signature[: signature.index("*")] if "*" in signature else signature
        place = 0
        unpacked: Argument | None = None
        for arg in call.args:
            if arg.star == "**":
                found = self.keys(arg.value, arg).look_up(name)
                if found.given is Given.YES:
                    return found
                if found.given is Given.UNSURE:
                    unpacked = found if found.values else _UNSURE
            elif arg.star == "*":
                if name in positional[place:]:
                    unpacked = _UNSURE
                place = len(positional)
            elif arg.keyword is not None:
                if arg.keyword.value == name:
                    return Argument(Given.YES, arg, (arg.value,))
            else:
                if place < len(positional) and positional[place] == name:
                    return Argument(Given.YES, arg, (arg.value,))
                place += 1
        return unpacked or _ABSENT

    def keys(self, node: cst.BaseExpression, use: cst.CSTNode, depth: int = 0) -> Keys:
        """What a dictionary expression holds where it is used."""
        if depth > 8:
            return _ANYTHING
        match node:
            case cst.Dict():
                return self._display(node, depth)
            case cst.Call(func=cst.Name(value="dict")):
                return self._dict_call(node, depth)
            case cst.Name():
                return self._variable(node, use, depth)
            case cst.BinaryOperation(operator=cst.BitOr()):
                return _merge(
                    self.keys(node.left, use, depth + 1), self.keys(node.right, use, depth + 1)
                )
            case cst.IfExp():
                return _either(
                    [self.keys(node.body, use, depth + 1), self.keys(node.orelse, use, depth + 1)]
                )
            case _:
                return _ANYTHING

    def _display(self, node: cst.Dict, depth: int) -> Keys:
        result = Keys({}, {}, complete=True)
        for element in node.elements:
            if isinstance(element, cst.StarredDictElement):
                inner = self.keys(element.value, element, depth + 1)
            elif isinstance(element, cst.DictElement):
                key = literal(element.key)
                inner = (
                    Keys({key: (element.value,)}, {}, complete=True)
                    if isinstance(element.key, cst.SimpleString) and key is not None
                    else _ANYTHING
                )
            else:
                inner = _ANYTHING
            result = _merge(result, inner)
        return result

    def _dict_call(self, call: cst.Call, depth: int) -> Keys:
        result = Keys({}, {}, complete=True)
        for arg in call.args:
            if arg.keyword is not None:
                inner = Keys({arg.keyword.value: (arg.value,)}, {}, complete=True)
            elif arg.star == "*":
                inner = _ANYTHING
            else:
                inner = self.keys(arg.value, arg, depth + 1)
            result = _merge(result, inner)
        return result

    def _variable(self, node: cst.Name, use: cst.CSTNode, depth: int) -> Keys:
        bindings = self._flow.reaching(node)
        if not bindings:
            return _ANYTHING
        options: list[Keys] = []
        for binding in bindings:
            if binding.kind is not Bind.ASSIGN or binding.path or binding.value is None:
                return _ANYTHING
            assert isinstance(binding.value, cst.BaseExpression)
            options.append(self.keys(binding.value, binding.node, depth + 1))
        result = _either(options)
        return self._with_changes(result, node, use, depth)

    def _with_changes(self, keys: Keys, node: cst.Name, use: cst.CSTNode, depth: int) -> Keys:
        """Add what ``.update()``, ``[...] =`` and the like do to the dictionary before its use."""
        index = self._index
        scope = index.scope(node)
        owner = scope.owner(node.value)
        here = index.order(node)
        del use
        for name in index.of(cst.Name):
            if (
                name.value != node.value
                or name is node
                or index.scope(name).owner(name.value) is not owner
            ):
                continue
            change = self._change(name, depth)
            if change is None:
                continue
            in_order = index.order(name) < here and index.scope(name).function() is scope.function()
            if in_order and self._always_before(name, node):
                keys = _merge(keys, change)
            elif in_order or index.scope(name).function() is not scope.function():
                keys = _either([keys, _merge(keys, change)])
        return keys

    def _always_before(self, change: cst.CSTNode, use: cst.CSTNode) -> bool:
        """Whether a change is made on every way to the use: no branch of its own around it."""
        for above in self._index.ancestors(change):
            if isinstance(above, (cst.If, cst.For, cst.While, cst.Try, cst.Match)):
                return self._index.inside(use, above)
        return True

    def _change(self, name: cst.Name, depth: int) -> Keys | None:
        """What a use of a dictionary's name does to its keys; None for a mere reading."""
        above = self._index.parent(name)
        match above:
            case cst.Attribute(value=value, attr=cst.Name(value=method)) if value is name:
                call = self._index.parent(above)
                if not (isinstance(call, cst.Call) and call.func is above):
                    return None
                if method == "update":
                    return self._dict_call(call, depth + 1)
                if method == "setdefault":
                    key = literal(call.args[0].value) if call.args else None
                    return _ANYTHING if key is None else Keys({}, {key: ()}, complete=True)
                return _ANYTHING if method in ("pop", "popitem", "clear", "__setitem__") else None
            case cst.Subscript(value=value) if value is name:
                return self._item_store(above)
            case cst.Del():
                return _ANYTHING
            case cst.AugAssign(target=target) if target is name:
                return self.keys(above.value, above, depth + 1)
            case _:
                return None

    def _item_store(self, node: cst.Subscript) -> Keys | None:
        target = self._index.parent(node)
        if isinstance(target, cst.Del):
            return _ANYTHING
        if not isinstance(target, cst.AssignTarget):
            return None
        statement = self._index.parent(target)
        assert isinstance(statement, cst.Assign)
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            key = literal(node.slice[0].slice.value)
            if key is not None:
                return Keys({key: (statement.value,)}, {}, complete=True)
        return _ANYTHING


def _merge(first: Keys, second: Keys) -> Keys:
    """The dictionary after a second one was written over the first."""
    possible = {**first.possible}
    for key, values in second.possible.items():
        possible[key] = possible.get(key, ()) + values
    for key in second.certain:
        possible.pop(key, None)
    return Keys({**first.certain, **second.certain}, possible, first.complete and second.complete)


def _either(options: list[Keys]) -> Keys:
    """The dictionary that is one of several."""
    every = {key for option in options for key in (*option.certain, *option.possible)}
    certain: dict[str, tuple[cst.BaseExpression, ...]] = {}
    possible: dict[str, tuple[cst.BaseExpression, ...]] = {}
    for key in every:
        values: tuple[cst.BaseExpression, ...] = ()
        for option in options:
            values += option.certain.get(key, ()) + option.possible.get(key, ())
        values = tuple(dict.fromkeys(values))
        if all(key in option.certain for option in options):
            certain[key] = values
        else:
            possible[key] = values
    return Keys(certain, possible, all(option.complete for option in options))


__all__ = ["Argument", "Arguments", "Given", "Keys", "dotted", "literal"]
