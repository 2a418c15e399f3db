"""What a dictionary holds where it is unpacked into a call: ``DataLoader(dataset, **options)``.

A dictionary is followed through displays, ``dict()``, ``|``, ``.update()``, item stores, other
names for it, functions of this file that build it or change it, ``self.options`` and
``config["loader"]``.  What cannot be followed may hold any key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

Values: TypeAlias = tuple[cst.BaseExpression, ...]

_DEPTH = 8  # dictionaries made of dictionaries, and functions called, deeper than this
_FUEL = 500  # expressions that one question may look at
_COPIES = ("copy.copy", "copy.deepcopy")
# Functions outside of the file that are given a dictionary to show or keep, not to change.
_READERS = ("print", "log", "info", "debug", "warning", "pprint", "dumps", "dump", "save", "init",
            "format", "append", "items", "keys", "values")  # fmt: skip
_LITERALS = frozenset({cst.Integer, cst.Float, cst.Name, cst.SimpleString})


def literal(node: cst.CSTNode | None) -> str | None:
    """Text of a number, a constant name or a plain string (its content), else None."""
    if type(node) not in _LITERALS:  # most nodes: that many cases cost a while
        return None
    match node:
        case cst.Integer() | cst.Float():
            return node.value
        case cst.Name(value="True" | "False" | "None"):
            return node.value
        case cst.SimpleString():
            return _content(node.value)
        case _:
            return None


@lru_cache(4096)
def _content(code: str) -> str | None:
    """Return what a plain string holds, by how it is written."""
    value = cst.SimpleString(code).evaluated_value
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a dictionary, each with the expressions that may be its value.

    ``certain`` keys are there on every path, ``possible`` ones on some.  A dictionary that is not
    ``complete`` may hold other keys as well.
    """

    certain: dict[str, Values]
    possible: dict[str, Values]
    complete: bool = True

    def written_over(self, other: Keys) -> Keys:
        """Return this dictionary after ``update(other)``."""
        possible = {**self.possible}
        for key, values in other.possible.items():
            possible[key] = possible.get(key, ()) + values
        for key in other.certain:
            possible.pop(key, None)
        return Keys({**self.certain, **other.certain}, possible, self.complete and other.complete)

    def without(self, key: str) -> Keys:
        """Return this dictionary after ``del`` of a key."""
        certain = {name: values for name, values in self.certain.items() if name != key}
        possible = {name: values for name, values in self.possible.items() if name != key}
        return Keys(certain, possible, self.complete)


Change: TypeAlias = Callable[[Keys], Keys]

ANYTHING = Keys({}, {}, complete=False)
NOTHING = Keys({}, {})


def either(options: Iterable[Keys]) -> Keys:
    """Return the dictionary that is one of several."""
    options = list(options)
    certain: dict[str, Values] = {}
    possible: dict[str, Values] = {}
    for key in dict.fromkeys(key for o in options for key in (*o.certain, *o.possible)):
        values: Values = ()
        for option in options:
            values += option.certain.get(key, ()) + option.possible.get(key, ())
        values = tuple(dict.fromkeys(values))
        if all(key in option.certain for option in options):
            certain[key] = values
        else:
            possible[key] = values
    return Keys(certain, possible, all(option.complete for option in options))


def _weakened(keys: Keys) -> Keys:
    return either((keys, ANYTHING))


def _constants(options: list[Keys]) -> Keys:
    """Return what each of several dictionaries may hold whose values are all literals.

    They stand in other files, where any other expression means something else.
    """
    found = either(options)
    values = {**found.possible, **found.certain}
    plain = {
        key: values[key]
        for key in values
        if all(key in one.certain or key in one.possible for one in options)
        and all(literal(value) is not None for value in values[key])
    }
    return Keys({}, plain, complete=False)


def _of_item(key: str | None, *values: cst.BaseExpression) -> Keys:
    return ANYTHING if key is None else Keys({key: values}, {})


class Dictionaries:
    """The dictionaries of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self.fuel = _FUEL

    def keys(self, node: cst.CSTNode | None, depth: int = 0) -> Keys:
        """Say what a dictionary holds, where the expression stands."""
        if depth == 0:
            self.fuel = _FUEL
        self.fuel -= 1
        if depth > _DEPTH or self.fuel < 0:
            return ANYTHING
        match node:
            case cst.Dict():
                return self._display(node, depth)
            case cst.Call():
                return self._call(node, depth)
            case cst.Name():
                return self._name(node, depth)
            case cst.Attribute():
                return self._attribute(node, depth)
            case cst.Subscript():
                return self._entry(node, depth)
            case cst.BinaryOperation(operator=cst.BitOr()):
                left = self.keys(node.left, depth + 1)
                return left.written_over(self.keys(node.right, depth + 1))
            case cst.IfExp(test=test) if _is_identity(test):
                return self.keys(node.orelse, depth + 1)
            case cst.IfExp():
                return either((self.keys(node.body, depth + 1), self.keys(node.orelse, depth + 1)))
            case cst.BooleanOperation(operator=cst.Or()):
                return either((self.keys(node.left, depth + 1), self.keys(node.right, depth + 1)))
            case cst.NamedExpr():
                return self.keys(node.value, depth + 1)
            case _:
                return ANYTHING

    # -- expressions -------------------------------------------------------------------------

    def _display(self, node: cst.Dict, depth: int) -> Keys:
        result = NOTHING
        for element in node.elements:
            if isinstance(element, cst.DictElement):
                text = literal(element.key) if isinstance(element.key, cst.SimpleString) else None
                result = result.written_over(_of_item(text, element.value))
            else:
                result = result.written_over(self.keys(element.value, depth + 1))
        return result

    def _call(self, node: cst.Call, depth: int) -> Keys:
        program = self._program
        func = node.func
        if isinstance(func, cst.Name) and func.value == "dict" and program.is_builtin(func):
            return self._arguments(node, depth)
        if isinstance(func, cst.Attribute) and func.attr.value == "copy" and not node.args:
            return self.keys(func.value, depth + 1)
        if program.qualified(func) in _COPIES and node.args:
            return self.keys(node.args[0].value, depth + 1)
        target = program.calls.target(node)
        if target is None or target.name.value == "__init__" or target.asynchronous is not None:
            return ANYTHING
        returns = program.returns(target)
        if not returns or program.yields(target):
            return ANYTHING
        return either(self.keys(item.value, depth + 1) for item in returns)

    def _arguments(self, call: cst.Call, depth: int) -> Keys:
        """Return what ``dict(...)`` and ``.update(...)`` are given."""
        result = NOTHING
        for arg in call.args:
            if arg.keyword is not None:
                inner = _of_item(arg.keyword.value, arg.value)
            else:
                inner = ANYTHING if arg.star == "*" else self.keys(arg.value, depth + 1)
            result = result.written_over(inner)
        return result

    def _name(self, node: cst.Name, depth: int) -> Keys:
        bindings = self._program.flow.reaching(node)
        if not bindings:
            return ANYTHING
        return either(
            self._changed(self._bound(binding, depth), self._uses(binding, depth), node, depth)
            for binding in bindings
        )

    def _bound(self, binding: Binding, depth: int) -> Keys:
        value = binding.value
        match binding.kind:
            case Bind.ASSIGN if not binding.path:
                return self.keys(value, depth + 1)
            case Bind.AUGMENT if isinstance(value, cst.AugAssign):
                held = self.keys(value.target, depth + 1)
                return held.written_over(self.keys(value.value, depth + 1))
            case Bind.PARAMETER if isinstance(value, cst.Param):
                return self._parameter(value, depth)
            case _:
                return ANYTHING

    def _parameter(self, param: cst.Param, depth: int) -> Keys:
        """Return what the calls in this file pass, if it is a program and not a library.

        Of a library, what the calls in other files of the project pass is possible.
        """
        program = self._program
        function = program.parent(program.parent(param) or param)
        if not isinstance(function, cst.FunctionDef):
            return ANYTHING
        sites = program.calls.sites(function)
        if not sites or not self._is_program:
            return self._passed_elsewhere(function, param, depth)
        return either(self._passed_by(self, site, function, param, depth) for site in sites)

    def _passed_by(
        self,
        home: Dictionaries,
        site: cst.Call,
        function: cst.FunctionDef,
        param: cst.Param,
        depth: int,
    ) -> Keys:
        """Return what a call of a function of this file passes, which may stand in another file."""
        if param is function.params.star_kwarg:
            return home.keywords(site, function, depth)
        given = self._program.calls.passed(function, param, site)
        if given is None:
            return self.keys(param.default, depth + 1)
        return home.keys(given, depth + 1)

    def _passed_elsewhere(self, function: cst.FunctionDef, param: cst.Param, depth: int) -> Keys:
        """Return the constants that the calls in other files pass: there may be more calls."""
        project = self._program.project
        options: list[Keys] = []
        for other, site in [] if project is None else project.callers(self._program, function):
            home = other.arguments.dictionaries
            home.fuel = self.fuel
            options.append(self._passed_by(home, site, function, param, depth))
            self.fuel = min(self.fuel, home.fuel)
        return _constants(options)

    def keywords(self, site: cst.Call, function: cst.FunctionDef, depth: int) -> Keys:
        """Return the keywords of a call here that a function has no parameter for."""
        named = (*function.params.params, *function.params.kwonly_params)
        taken = {param.name.value for param in named}
        found = NOTHING
        for arg in site.args:
            if arg.star == "**":
                found = found.written_over(self.keys(arg.value, depth + 1))
            elif arg.keyword is not None:
                found = found.written_over(_of_item(arg.keyword.value, arg.value))
        for name in taken:
            found = found.without(name)
        return found

    @cached_property
    def _is_program(self) -> bool:
        """Whether the file runs something by itself, so that its own calls are all there are."""
        index = self._program.index
        if any(name.value == "__name__" for name in index.of(cst.Name)):
            return True
        return any(
            isinstance(self._program.parent(call), cst.Expr)
            and self._program.function(call) is None
            and self._program.calls.target(call) is not None
            for call in index.of(cst.Call)
        )

    def _attribute(self, node: cst.Attribute, depth: int) -> Keys:
        program = self._program
        owner = program.classes.around(node)
        if owner is None or not dotted(node).startswith("self."):
            return ANYTHING
        name = node.attr.value
        options: list[Keys] = []
        for store in program.classes.stores(owner, name):
            plain = not store.path and not isinstance(store.value, cst.AugAssign)
            options.append(self.keys(store.value, depth + 1) if plain else ANYTHING)
        for current in program.classes.lineage(owner):
            own = program.index.opened(current.node).bindings.get(name, ())
            options += [self._bound(binding, depth) for binding in own]
        if not options:
            return ANYTHING
        uses = (
            (other, change)
            for other in self._program.index.of(cst.Attribute)
            if other.attr.value == name
            and self._may_be_of(other, owner)
            and (change := self._change(other, depth)) is not None
        )
        return self._changed(either(options), uses, node, depth)

    def _may_be_of(self, node: cst.Attribute, owner: Class) -> bool:
        """Whether ``x.name`` can be an attribute of this class: ``self`` of another is not."""
        if not (isinstance(node.value, cst.Name) and node.value.value == "self"):
            return True
        classes = self._program.classes
        other = classes.around(node)
        return other is None or other in classes.lineage(owner) or owner in classes.lineage(other)

    def _entry(self, node: cst.Subscript, depth: int) -> Keys:
        """``config["loader"]``: a dictionary inside of a dictionary."""
        key = _key(node)
        held = self.keys(node.value, depth + 1)
        if key is None or key not in held.certain or not held.certain[key]:
            return ANYTHING
        inner = either(self.keys(value, depth + 1) for value in held.certain[key])
        if not isinstance(node.value, cst.Name | cst.Attribute):
            return inner
        uses = (
            (other, change if _key(other) == key else _weakened)
            for other in self._program.index.of(cst.Subscript)
            if dotted(other.value) == dotted(node.value)
            and (change := self._change(other, depth)) is not None
        )
        return self._changed(inner, uses, node, depth)

    # -- changes -----------------------------------------------------------------------------

    @cached_property
    def _names(self) -> dict[str, list[cst.Name]]:
        found: dict[str, list[cst.Name]] = {}
        for name in self._program.index.of(cst.Name):
            found.setdefault(name.value, []).append(name)
        return found

    def _uses(self, binding: Binding, depth: int) -> Iterator[tuple[cst.CSTNode, Change]]:
        """Yield the places that change the dictionary of a binding, by any of its names."""
        if depth > _DEPTH:
            return
        program = self._program
        for name in self._names.get(binding.name, ()):
            if program.index.scope(name).owner(binding.name) is not binding.scope:
                continue
            if name is binding.node or binding not in program.flow.reaching(name):
                continue
            change = self._change(name, depth)
            if change is not None:
                yield name, change
            for alias in self._aliases(name):
                yield from self._uses(alias, depth + 1)

    def _aliases(self, name: cst.Name) -> Iterator[Binding]:
        """``options = defaults``: bindings of other names to the same dictionary."""
        statement = self._program.parent(name)
        if not isinstance(statement, cst.Assign | cst.AnnAssign) or statement.value is not name:
            return
        scope = self._program.index.scope(name).function()
        for bindings in scope.bindings.values():
            yield from (b for b in bindings if b.value is name and not b.path)

    def _changed(
        self,
        keys: Keys,
        uses: Iterable[tuple[cst.CSTNode, Change]],
        node: cst.CSTNode,
        depth: int,
    ) -> Keys:
        """Return the dictionary after the changes that are made before it is used at ``node``."""
        if depth > _DEPTH:
            return ANYTHING
        order = self._program.index.order
        for place, change in sorted(uses, key=lambda use: order(use[0])):
            if place is node:
                continue
            certain = self._always_before(place, node)
            if certain:
                keys = change(keys)
            elif certain is None:
                keys = either((keys, change(keys)))
        return keys

    def _always_before(self, change: cst.CSTNode, use: cst.CSTNode) -> bool | None:
        """Whether a change is made before the use: always (True), never (False), perhaps."""
        index = self._program.index
        same = self._program.function(change) is self._program.function(use)
        if same and index.order(change) > index.order(use):
            loops = (n for n in index.ancestors(use) if isinstance(n, cst.For | cst.While))
            return None if any(index.inside(change, loop) for loop in loops) else False
        if not same and self._program.function(change) is not None:
            return None
        for above in index.ancestors(change):
            if isinstance(above, cst.If | cst.For | cst.While | cst.Try | cst.Match | cst.IfExp):
                if not (same and index.inside(use, above)):
                    return None
                if isinstance(above, cst.If) and not self._same_branch(above, change, use):
                    return False
        return True

    def _same_branch(self, node: cst.If, change: cst.CSTNode, use: cst.CSTNode) -> bool:
        inside = self._program.index.inside
        return inside(use, node.body) is inside(change, node.body)

    def _change(self, node: cst.BaseExpression, depth: int) -> Change | None:
        """Return what a use of a dictionary does to its keys; None where it only reads."""
        above = self._program.parent(node)
        match above:
            case cst.Attribute(value=value, attr=cst.Name(value=method)) if value is node:
                call = self._program.parent(above)
                if isinstance(call, cst.Call) and call.func is above:
                    return self._method(method, call, depth)
                return None
            case cst.Subscript(value=value) if value is node:
                return self._item(above)
            case cst.AugAssign(target=target) if target is node:
                added = self.keys(above.value, depth + 1)
                return lambda keys: keys.written_over(added)
            case cst.Arg(star=""):
                call = self._program.parent(above)
                return self._passed(call, above, depth) if isinstance(call, cst.Call) else None
            case _:
                return None

    def _method(self, method: str, call: cst.Call, depth: int) -> Change | None:
        first = call.args[0].value if call.args else None
        key = literal(first) if isinstance(first, cst.SimpleString) else None
        match method:
            case "update":
                added = self._arguments(call, depth + 1)
                return lambda keys: keys.written_over(added)
            case "setdefault" if key is not None:
                default = tuple(arg.value for arg in call.args[1:2])
                return lambda keys: keys.written_over(
                    Keys(
                        {key: keys.certain.get(key, default + keys.possible.get(key, ()))},
                        {},
                    )
                )
            case "pop" if key is not None:
                return lambda keys: keys.without(key)
            case "clear":
                return lambda _: NOTHING
            case "pop" | "popitem" | "setdefault" | "__setitem__" | "__delitem__":
                return _weakened
            case _:
                return None

    def _item(self, node: cst.Subscript) -> Change | None:
        """``options[key] = value`` and ``del options[key]``."""
        key = _key(node)
        above = self._program.parent(node)
        match above:
            case cst.Del():
                return _weakened if key is None else lambda keys: keys.without(key)
            case cst.AssignTarget():
                statement = self._program.parent(above)
                assert isinstance(statement, cst.Assign)
                stored = _of_item(key, statement.value)
                return lambda keys: keys.written_over(stored)
            case cst.AugAssign(target=target) | cst.AnnAssign(target=target) if target is node:
                return lambda keys: keys.written_over(_of_item(key))
            case cst.Element():
                return lambda keys: keys.written_over(_of_item(key))
            case _:
                return None

    def _passed(self, call: cst.Call, arg: cst.Arg, depth: int) -> Change | None:
        """Return what a function does to a dictionary that it is given."""
        program = self._program
        target = program.calls.target(call)
        if target is None:
            func = call.func
            if isinstance(func, cst.Name) and program.is_builtin(func):
                return None
            last = dotted(func).rpartition(".")[2]
            return None if last in _READERS or last[:1].isupper() else _weakened
        params = (*target.params.params, *target.params.kwonly_params)
        taking = [p for p in params if program.calls.passed(target, p, call) is arg.value]
        if not taking:
            return _weakened
        own = program.index.opened(target).bindings.get(taking[0].name.value, ())
        changes = [
            (self._is_unconditional(place, target), change)
            for binding in own
            if binding.value is taking[0]
            for place, change in self._uses(binding, depth + 1)
        ]
        return (lambda keys: _after(keys, changes)) if changes else None

    def _is_unconditional(self, place: cst.CSTNode, function: cst.FunctionDef) -> bool:
        for above in self._program.index.ancestors(place):
            if above is function:
                return True
            if isinstance(above, cst.If | cst.For | cst.While | cst.Try | cst.Match | cst.IfExp):
                return False
        return False


def _is_identity(test: cst.BaseExpression) -> bool:
    """``device.type is "cuda"``: never so, as torch makes each of these strings anew."""
    match test:
        case cst.Comparison(
            left=cst.Attribute(value=device, attr=cst.Name("type")),
            comparisons=[cst.ComparisonTarget(cst.Is(), cst.SimpleString())],
        ):
            return "device" in dotted(device)
        case _:
            return False


def _after(keys: Keys, changes: list[tuple[bool, Change]]) -> Keys:
    for certain, change in changes:
        keys = change(keys) if certain else either((keys, change(keys)))
    return keys


def _key(node: cst.Subscript) -> str | None:
    """Return the literal string between the brackets."""
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return None
    value = node.slice[0].slice.value
    return literal(value) if isinstance(value, cst.SimpleString) else None
