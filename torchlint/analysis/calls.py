"""Who calls whom inside the file."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.classes import is_placeholder
from torchlint.analysis.entries import key_of, written_out
from torchlint.analysis.targets import Target
from torchlint.analysis.values import Kind
from torchlint.syntax.scopes import Bind, ScopeKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.analysis.project import Project
    from torchlint.syntax.scopes import Binding

_DEPTH = 4  # names that stand for names
_OBJECTS = (Kind.UNKNOWN, Kind.MODULE, Kind.INSTANCE)


class Calls:
    """The call graph of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._elsewhere: dict[int, Target | None] = {}
        self._sites: dict[str, dict[int, list[cst.Call]]] = {}
        self._overrides: dict[tuple[int, str], tuple[Target, ...]] = {}
        self._given_back: dict[int, tuple[cst.FunctionDef, ...]] = {}
        self._several: dict[int, tuple[Target, ...]] = {}
        self._given_to: dict[int, list[cst.FunctionDef]] = {}

    def sites(self, function: cst.FunctionDef) -> list[cst.Call]:
        """Return calls of a function of this file."""
        name = function.name.value
        if name not in self._sites:
            self._sites[name] = self._sites_of(name)
        return self._sites[name].get(id(function), [])

    def _sites_of(self, name: str) -> dict[int, list[cst.Call]]:
        """Return the calls of the functions of a name: calls of other names run none of them."""
        calls = [*self.named(name), *self._by_alias(name), *self._by_entry.get(name, ())]
        if name == "__init__":
            calls += self._constructions
        if name == "__call__":
            calls += self._of_objects
        sites: dict[int, list[cst.Call]] = {}
        for call in sorted(calls, key=self._program.index.order):
            for target in self.targets(call):
                sites.setdefault(id(target), []).append(call)
        return sites

    def targets(self, call: cst.Call) -> tuple[cst.FunctionDef, ...]:
        """Return the functions of this file of which a call runs one: ``step = f if a else g``."""
        target = self.target(call)
        if target is not None:
            heirs = (one for one in self.overrides(call) if one.program is self._program)
            return (target, *(one.function for one in heirs))
        several = (one for one in self.of_several(call) if one.program is self._program)
        return self.chosen(call) or tuple(one.function for one in several)

    def chosen(self, call: cst.Call) -> tuple[cst.FunctionDef, ...]:
        """Return the functions of which a call by a name runs one; none where it may be another.

        ``build = get_builder(args.dataset)``, ``build()``.
        """
        by_name = type(call.func) is cst.Name or type(call.func) is cst.Subscript
        return tuple(self._functions(call.func)) if by_name else ()

    def target(self, call: cst.Call) -> cst.FunctionDef | None:
        """Return the function of this file that a call runs, by name or as a method."""
        func = call.func  # asked of every call: a pattern of a class that does not fit is slow
        if type(func) is cst.Name:
            return self._by_name(func) or self._of_object(func)
        if type(func) is not cst.Attribute:
            return None
        return self._by_attribute(call, func) or self._of_object(func)

    def _by_attribute(self, call: cst.Call, func: cst.Attribute) -> cst.FunctionDef | None:
        name = func.attr.value
        if type(func.value) is cst.Name and func.value.value == "self":
            owner = self._program.classes.around(call)
            return None if owner is None else self._program.classes.method(owner, name)
        return self._by_receiver(func, name) if name in self._method_names else None

    def _of_object(self, func: cst.BaseExpression) -> cst.FunctionDef | None:
        """Return ``__call__`` of the object that is called: ``compute = Compute(optimizer)``."""
        if "__call__" not in self._method_names:
            return None
        value, classes = self._program.values.of(func), self._program.classes
        owner = classes.named(value.type) if value.kind is Kind.INSTANCE else None
        return None if owner is None else classes.method(owner, "__call__")

    @cached_property
    def _of_objects(self) -> list[cst.Call]:
        """The calls of objects whose class, in this file, says what that does."""
        calls = self._program.index.of(cst.Call)
        return [call for call in calls if self._of_object(call.func) is not None]

    @cached_property
    def _method_names(self) -> set[str]:
        return {name for owner in self._program.classes for name in owner.methods}

    def _by_name(self, name: cst.Name) -> cst.FunctionDef | None:
        bindings = self._program.flow.reaching(name)
        if len(bindings) != 1:
            return None
        binding = bindings[0]
        if binding.kind is Bind.DEFINITION and isinstance(binding.value, cst.FunctionDef):
            return binding.value
        if isinstance(binding.value, cst.ClassDef):
            return self._constructor(binding.value)
        return None

    def _functions(self, node: cst.CSTNode | None, depth: int = 0) -> list[cst.FunctionDef]:
        """Return the functions of which an expression is one; empty where it may be another."""
        match node:
            case cst.Name() if depth < _DEPTH:
                found = [
                    self._bound(binding, depth) for binding in self._program.flow.reaching(node)
                ]
            case cst.IfExp() if depth < _DEPTH:
                found = [self._functions(one, depth + 1) for one in (node.body, node.orelse)]
            case cst.Call() if depth < _DEPTH and not _makes_no_training(node):
                made = self.target(node)
                return [] if made is None else list(self.given_back(made))
            case cst.Attribute():  # a method, by another name
                method = self._method_of(node)
                return [] if method is None else [method]
            case cst.Subscript(value=cst.Name() as table) if depth < _DEPTH:
                entries = written_out(self._program, table, key_of(node))
                found = [self._functions(one, depth + 1) for one in entries]
            case _:
                return []
        return list(dict.fromkeys(chain(*found))) if all(found) else []

    def _bound(self, binding: Binding, depth: int) -> list[cst.FunctionDef]:
        if isinstance(binding.value, cst.FunctionDef) and binding.kind is Bind.DEFINITION:
            return [binding.value]
        if binding.kind is Bind.PARAMETER and isinstance(binding.value, cst.Param):
            return self._passed_functions(binding.value, depth)
        plain = binding.is_plain
        return self._functions(binding.value, depth + 1) if plain else []

    def _passed_functions(self, param: cst.Param, depth: int) -> list[cst.FunctionDef]:
        """Return the functions that calls pass for a parameter, if all stand in this file."""
        key = id(param)
        if key not in self._given_to:
            self._given_to[key] = []  # the question leads back to itself
            found = [self._functions(one, depth + 1) for one in self._given(param)]
            self._given_to[key] = list(chain(*found)) if found and all(found) else []
        return self._given_to[key]

    def _given(self, param: cst.Param) -> list[cst.BaseExpression]:
        """Return what calls by name pass for a parameter; empty where other files call as well.

        Calls by the name of a parameter are not asked for: those are what is looked for.
        """
        program = self._program
        function = program.function(param)
        if function is None or program.is_method(function):
            return []
        if program.project is not None and program.project.callers(program, function):
            return []
        name = function.name.value
        calls = [*self.by_name(name), *self._by(self._aliases.get(name, ()))]
        return self._passed_by([c for c in calls if function in self.targets(c)], function, param)

    def _method_of(self, node: cst.Attribute) -> cst.FunctionDef | None:
        """Return the method that ``trainer.step`` is, where it is not called."""
        name = node.attr.value
        if name not in self._method_names:
            return None
        if type(node.value) is cst.Name and node.value.value == "self":
            owner = self._program.classes.around(node)
            return None if owner is None else self._program.classes.method(owner, name)
        return self._by_receiver(node, name)

    def given_back(self, function: cst.FunctionDef) -> tuple[cst.FunctionDef, ...]:
        """Return the functions of which a function returns one: ``return step``.

        Of those that stand outside of it none, where it may return something else as well.
        """
        key = id(function)
        if key not in self._given_back:
            self._given_back[key] = ()  # the question leads back to itself
            program = self._program
            found = [self._functions(one.value) for one in program.returns(function)]
            own = (one for one in chain(*found) if all(found) or program.function(one) is function)
            self._given_back[key] = tuple(dict.fromkeys(own))
        return self._given_back[key]

    # -- what heirs have in the place of a method -----------------------------------------------

    def overrides(self, call: cst.Call) -> tuple[Target, ...]:
        """Return what heirs, in any file, have in the place of a ``self.method()`` of a class."""
        func = call.func
        if type(func) is not cst.Attribute or type(func.value) is not cst.Name:
            return ()
        owner = self._program.classes.around(call) if func.value.value == "self" else None
        return () if owner is None else self.overrides_in(owner, func.attr.value)

    def overrides_in(self, owner: Class, name: str) -> tuple[Target, ...]:
        """Return what heirs of a class, in any file, have in the place of one of its methods."""
        key = (id(owner), name)
        if key not in self._overrides:
            method = self._program.classes.method(owner, name)
            self._overrides[key] = tuple(self._find_overrides(owner, name)) if method else ()
        return self._overrides[key]

    def _find_overrides(self, owner: Class, name: str) -> Iterator[Target]:
        program, project = self._program, self._program.project
        heirs = [(program, heir) for heir in program.classes.heirs(owner)]
        heirs += [] if project is None else project.heirs(program, owner, name)
        for home, heir in heirs:
            method = heir.methods.get(name)
            if method is not None and not is_placeholder(method):
                yield Target(home, method)

    def _by_alias(self, name: str) -> list[cst.Call]:
        """Return the calls of other plain names that a function of a name is given."""
        return self._by((*self._aliases.get(name, ()), *self._parameters_for.get(name, ())))

    def _by(self, aliases: Sequence[str]) -> list[cst.Call]:
        return [call for alias in dict.fromkeys(aliases) for call in self.by_name(alias)]

    @cached_property
    def _aliases(self) -> dict[str, list[str]]:
        """The names that stand for a function of this file, by its own name."""
        found: dict[str, list[str]] = {}
        for statement in self._program.index.of(cst.Assign):
            names = [one.target.value for one in statement.targets if type(one.target) is cst.Name]
            if not any(name in self._calls_by_name for name in names):
                continue
            for function in self._functions(statement.value):
                own = function.name.value
                found.setdefault(own, []).extend(name for name in names if name != own)
        return found

    @cached_property
    def _by_entry(self) -> dict[str, list[cst.Call]]:
        """The calls of entries of dictionaries, by the names of the functions that these may be."""
        found: dict[str, list[cst.Call]] = {}
        for call in self._program.index.of(cst.Call):
            if type(call.func) is cst.Subscript:
                for function in self._functions(call.func):
                    found.setdefault(function.name.value, []).append(call)
        return found

    @cached_property
    def _parameters_for(self) -> dict[str, list[str]]:
        """The parameters that functions of this file are passed for, by the functions' names."""
        found: dict[str, list[str]] = {}
        for param in self._called_parameters():
            for function in self._passed_functions(param, 0):
                if function.name.value != param.name.value:
                    found.setdefault(function.name.value, []).append(param.name.value)
        return found

    def _called_parameters(self) -> Iterator[cst.Param]:
        """Yield the parameters of functions of this file that these call."""
        for function in self._program.index.of(cst.FunctionDef):
            if self._program.is_method(function):
                continue
            for param in (*function.params.params, *function.params.kwonly_params):
                calls = self._calls_by_name.get(param.name.value, ())
                if any(self._program.function(call) is function for call in calls):
                    yield param

    def _constructor(self, node: cst.ClassDef) -> cst.FunctionDef | None:
        owner = self._program.classes.get(node)
        return None if owner is None else self._program.classes.method(owner, "__init__")

    def _by_receiver(self, func: cst.Attribute, name: str) -> cst.FunctionDef | None:
        classes = self._program.classes
        value = self._program.values.of(func.value)
        if value.kind not in (Kind.INSTANCE, Kind.MODULE, Kind.DATASET):
            return None
        owner = classes.named(value.type)
        return None if owner is None else classes.method(owner, name)

    # -- calls that leave the file ------------------------------------------------------------

    def elsewhere(self, call: cst.Call) -> Target | None:
        """Return the function of another file of the project that a call runs."""
        if self._program.project is None:
            return None
        key = id(call)
        if key not in self._elsewhere:
            self._elsewhere[key] = None  # the question leads back to itself
            self._elsewhere[key] = self._find_elsewhere(call)
        return self._elsewhere[key]

    def _find_elsewhere(self, call: cst.Call) -> Target | None:
        project, func = self._program.project, call.func
        assert project is not None
        name = self._program.names.qualified(func)
        if name:
            outside = name[0] != "." and not name.startswith(("torch.", "numpy."))
            return project.function(self._program, name) if outside else None
        if isinstance(func, cst.Attribute):
            receiver = self._program.values.of(func.value).type
            if ":" in receiver:
                method = project.method(receiver, func.attr.value)
            else:
                method = self._inherited(project, func, receiver)
            if method is not None:
                return method
        return self._of_object_elsewhere(func)

    def _inherited(self, project: Project, func: cst.Attribute, receiver: str) -> Target | None:
        """Return the method that a class of this file has from a base in another file."""
        classes, name = self._program.classes, func.attr.value
        of_self = type(func.value) is cst.Name and func.value.value == "self"
        owner = classes.around(func) if of_self else classes.named(receiver)
        if owner is None or classes.method(owner, name) is not None:
            return None
        return project.inherited(self._program, owner, name)

    def _of_object_elsewhere(self, func: cst.BaseExpression) -> Target | None:
        """Return ``__call__`` of an object of a class of another file."""
        project = self._program.project
        if project is None or not project.imports.having(("def __call__",)):
            return None
        value = self._program.values.of(func)
        known = value.kind is Kind.INSTANCE and ":" in value.type
        return project.method(value.type, "__call__") if known else None

    @cached_property
    def of_far_objects(self) -> dict[int, list[cst.Call]]:
        """The calls of objects of classes of other files, by the identity of the ``__call__``."""
        found: dict[int, list[cst.Call]] = {}
        for call in self._program.index.of(cst.Call):
            if not _may_be_object(call.func) or self._program.names.qualified(call.func):
                continue
            target = self._of_object_elsewhere(call.func)
            if target is not None:
                found.setdefault(id(target.function), []).append(call)
        return found

    def far(self, call: cst.Call) -> list[Target]:
        """Return the functions of other files of which a call runs one.

        Besides one that it names: what heirs have in the place of a method of their base,
        what a function of another file made, ``step = steps.make(model)``, and the methods of the
        classes of which a name stands for one or another.
        """
        if self._program.project is None:
            return []
        plain = self.elsewhere(call)
        found = [] if plain is None else [plain]
        others = (*self.overrides(call), *self.of_several(call))
        found += [one for one in others if one.program is not self._program]
        if plain is None and type(call.func) is cst.Name:
            for binding in self._program.flow.reaching(call.func):
                found += self._made_elsewhere(binding)
            found += self.passed_elsewhere(call)
        return found

    def passed_elsewhere(self, call: cst.Call) -> list[Target]:
        """Return the functions of other files that are passed for the parameter that a call runs.

        ``def evaluate(to_gpu, batches)``; none where one of those that it may run is not known.
        """
        if type(call.func) is not cst.Name:
            return []
        bindings = self._program.flow.reaching(call.func)
        params = [one.value for one in bindings if one.kind is Bind.PARAMETER]
        if len(bindings) != 1 or not params or not isinstance(params[0], cst.Param):
            return []
        return self._passed_far(params[0])

    def _passed_far(self, param: cst.Param) -> list[Target]:
        project = self._program.project
        if project is None:
            return []
        names = [self._program.names.qualified(one) for one in self._given(param)]
        outside = all(name and not name.startswith((".", "torch.", "numpy.")) for name in names)
        found = [project.function(self._program, name) for name in names] if outside else []
        return [one for one in found if one is not None] if all(found) else []

    def _made_elsewhere(self, binding: Binding) -> list[Target]:
        made = binding.value
        if not binding.is_plain or not isinstance(made, cst.Call):
            return []
        maker = None if _makes_no_training(made) else self.elsewhere(made)
        if maker is None:
            return []
        home = maker.program
        return [Target(home, one) for one in home.calls.given_back(maker.function)]

    def of_several(self, call: cst.Call) -> tuple[Target, ...]:
        """Return the methods of which a call runs one, where a name is of one class or another.

        ``agent = Careful() if args.careful else Bold()``, also of ``self.agent``; none where a
        class is not of the project.
        """
        func = call.func
        if type(func) is not cst.Attribute or type(func.value) not in (cst.Name, cst.Attribute):
            return ()
        key = id(call)
        if key not in self._several:
            self._several[key] = ()  # the question leads back to itself
            self._several[key] = self._find_several(func.value, func.attr.value)
        return self._several[key]

    def _find_several(self, receiver: cst.BaseExpression, method: str) -> tuple[Target, ...]:
        named = self._types(receiver, set()) if isinstance(receiver, cst.Name) else ()
        types = dict.fromkeys((*named, *self._kept(receiver)))
        if len(types) < 2 and self._program.values.of(receiver).type:
            return ()
        found = [self._method(one, method) for one in types]
        return tuple(one for one in found if one is not None) if all(found) else ()

    def _types(self, name: cst.Name, seen: set[Binding]) -> Iterator[str]:
        """Yield the types of what a name stands for, "" for what is not known.

        What an unknown function makes of the name's own value, ``model = wrap(model)``, can do what
        is asked of it as that could: else the call would fail.
        """
        for binding in self._program.flow.reaching(name):
            if binding in seen:
                continue
            seen.add(binding)
            known = self._program.values.binding(binding).type
            before = [] if known else self._before(binding)
            if not before:
                yield known
            for one in before:
                if isinstance(one, cst.Name):
                    yield from self._types(one, seen)
                else:
                    yield self._program.values.of(one).type

    def _kept(self, attribute: cst.BaseExpression) -> Iterator[str]:
        """Yield the types of what ``self.name`` stands for, as `_types` does."""
        match attribute:
            case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)):
                owner = self._program.classes.around(attribute)
            case _:
                return
        stores = () if owner is None else self._program.classes.stores(owner, name)
        for store in stores:
            known = isinstance(store.value, cst.BaseExpression) and not store.path
            yield self._program.values.of(store.value).type if known else ""

    def _before(self, binding: Binding) -> list[cst.BaseExpression]:
        """Return the expressions of which a name stands for one, or for what is made of one."""
        match binding.kind, binding.value:
            case Bind.PARAMETER, cst.Param() as param if param.default is None:
                return self._passed_here(param)
            case Bind.ASSIGN, cst.IfExp() as choice if not binding.path:
                return [choice.body, choice.orelse]
            case Bind.ASSIGN, cst.Call() as call:
                kind = self._program.values.binding(binding).kind
                given = [arg.value for arg in call.args if kind in _OBJECTS]
                return [one for one in given if _is_named(one, binding.name)]
            case _:
                return []

    def _passed_here(self, param: cst.Param) -> list[cst.BaseExpression]:
        """Return what a parameter is passed; empty where other files pass something as well."""
        program = self._program
        function = program.function(param)
        if function is None or (program.project and program.project.callers(program, function)):
            return []
        return self.arguments(function, param)

    def _method(self, kind: str, name: str) -> Target | None:
        """Return a method of a class of the project, by the type of its instances."""
        classes, project = self._program.classes, self._program.project
        owner = classes.named(kind)
        if owner is None:
            return project.method(kind, name) if project is not None and ":" in kind else None
        method = classes.method(owner, name)
        return None if method is None else Target(self._program, method)

    def of_result(self, call: cst.Call) -> list[cst.Call]:
        """Return the calls of the names that the result of a call is given."""
        statement = self._program.parent(call)
        targets = statement.targets if isinstance(statement, cst.Assign) else ()
        names = [one.target.value for one in targets if isinstance(one.target, cst.Name)]
        return [found for name in names for found in self.by_name(name)]

    def named(self, name: str) -> list[cst.Call]:
        """Return the calls of whatever has this as its last name."""
        methods = [call for call, _ in self._program.method_calls(name)]
        return sorted([*self.by_name(name), *methods], key=self._program.index.order)

    def by_name(self, name: str) -> list[cst.Call]:
        """Return the calls of a plain name."""
        return self._calls_by_name.get(name, [])

    def arguments(self, function: cst.FunctionDef, param: cst.Param) -> list[cst.BaseExpression]:
        """Return what the calls of a function in this file pass for a parameter.

        Empty where one of them hides it behind a star.
        """
        return self._passed_by(self._named_sites(function), function, param)

    def _passed_by(
        self, sites: list[cst.Call], function: cst.FunctionDef, param: cst.Param
    ) -> list[cst.BaseExpression]:
        found: list[cst.BaseExpression] = []
        for site in sites:
            node = self.passed(function, param, site)
            if node is not None:
                found.append(node)
            elif any(arg.star for arg in site.args):
                return []
        return found

    def passed(
        self, function: cst.FunctionDef, param: cst.Param, site: cst.Call
    ) -> cst.BaseExpression | None:
        """Return what one call passes for a parameter; None where it cannot be told."""
        plain = [*function.params.posonly_params, *function.params.params]
        place = plain.index(param) if param in plain else None
        if place is not None and self._program.is_method(function):
            place -= 1
        return self._passed(site, param.name.value, place)

    def _named_sites(self, function: cst.FunctionDef) -> list[cst.Call]:
        """Find calls by name only: values are not asked, since they ask this."""
        name = function.name.value
        program = self._program
        owner = program.classes.around(function)
        if owner is None or program.index.scope(function).kind is not ScopeKind.CLASS:
            calls = [*self.by_name(name), *self._by_alias(name)]
            return [call for call in calls if function in self.targets(call)]
        if name == "__init__":
            return [c for c in self._constructions if self.target(c) is function]
        return [
            call
            for call, func in self._program.method_calls(name)
            if type(func.value) is cst.Name
            and (
                self._may_run(call, owner)
                if func.value.value == "self"
                else self._is_instance(func.value, owner)
            )
        ]

    def _is_instance(self, name: cst.Name, owner: Class) -> bool:
        """Whether a name is only given instances of a class as they are made: ``net = Net()``."""
        bindings = self._program.flow.reaching(name)
        return bool(bindings) and all(
            any(one is owner for one in self._lineage_made(binding)) for binding in bindings
        )

    def _lineage_made(self, binding: Binding) -> list[Class]:
        """Return the class that a binding makes an instance of, and its bases."""
        value: cst.CSTNode | None = binding.value
        for place in binding.path:
            if not isinstance(value, cst.Tuple) or not 0 <= place < len(value.elements):
                return []
            value = value.elements[place].value
        if binding.kind is not Bind.ASSIGN or not isinstance(value, cst.Call):
            return []
        classes, program = self._program.classes, self._program
        made = classes.named(program.names.qualified(value.func))
        return [] if made is None else classes.lineage(made)

    def _may_run(self, call: cst.Call, owner: Class) -> bool:
        """Whether ``self.method()`` may run a method of a class: of its own, a base or an heir."""
        classes = self._program.classes
        caller = classes.around(call)
        return caller is not None and (
            owner in classes.lineage(caller) or caller in classes.lineage(owner)
        )

    @cached_property
    def _calls_by_name(self) -> dict[str, list[cst.Call]]:
        found: dict[str, list[cst.Call]] = {}
        for call in self._program.index.of(cst.Call):
            if type(call.func) is cst.Name:
                found.setdefault(call.func.value, []).append(call)
        return found

    @cached_property
    def _constructions(self) -> list[cst.Call]:
        names = {owner.name for owner in self._program.classes}
        return [call for name in names for call in self.by_name(name)]

    def _passed(self, call: cst.Call, name: str, place: int | None) -> cst.BaseExpression | None:
        position = 0
        for arg in call.args:
            if arg.star:
                return None
            if arg.keyword is not None:
                if arg.keyword.value == name:
                    return arg.value
            else:
                if position == place:
                    return arg.value
                position += 1
        return None


def _may_be_object(func: cst.BaseExpression) -> bool:
    """``transform(x)``, ``self.transform(x)``: other attributes are methods, nearly all of them."""
    match func:
        case cst.Name() | cst.Attribute(value=cst.Name(value="self")):
            return True
        case _:
            return False


def _is_named(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _makes_no_training(call: cst.Call) -> bool:
    """``make_step(model, train=False)``: what is made takes no steps, whatever it could do."""
    return any(
        arg.keyword is not None
        and "train" in arg.keyword.value
        and isinstance(arg.value, cst.Name)
        and arg.value.value == "False"
        for arg in call.args
    )
