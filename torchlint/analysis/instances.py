"""Which calls of a method there are, where all the instances of its class are seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.uses import is_label, uses_of
from torchlint.imports import MANY
from torchlint.naming import is_quoted
from torchlint.syntax.scopes import ScopeKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

    Place: TypeAlias = tuple[Program, cst.CSTNode]
    Calls: TypeAlias = list[tuple[Program, cst.Call]]

# Methods that return the module itself.
_SAME = frozenset({
    "cuda", "cpu", "to", "train", "eval", "half", "float", "double", "bfloat16", "type", "apply",
    "requires_grad_", "share_memory", "to_empty", "xpu",
})  # fmt: skip
# Those that a module calls of the modules in it.
OF_TORCH = _SAME | {
    "state_dict",
    "load_state_dict",
    "extra_repr",
    "children",
    "modules",
    "parameters",
    "buffers",
    "named_children",
    "named_modules",
    "named_parameters",
    "named_buffers",
    "zero_grad",
}
PLAIN = ("torch.nn.Module", "object")
_RUNS = frozenset({"__call__", "_call_impl", "__class__", "__getattribute__"})
_LISTS = frozenset({"torch.nn.ModuleList", "list", "tuple", "reversed"})
# Methods of a list that give nothing of what is in it.
_FILLS = frozenset({"append", "extend", "insert", "clear", "reverse"})
# What finds the modules that are kept in a module.
_CHILDREN = ("children()", "._modules", ".modules())", "get_submodule(", "submodule(")
_GETATTR = re.compile(r"\bgetattr\(\s*self\b[^,()]*,\s*[^\"'\s]")


class _UnseenError(Exception):
    """An instance may be used where nothing of it is seen."""


def calls_of(program: Program, function: cst.FunctionDef) -> Calls | None:
    """Return all the calls of a method; None where there may be others.

    Of a class of a project that is not for others to use, each of whose instances is kept in one
    attribute or variable, or in a list there, and used there alone.
    """
    owner = program.classes.around(function)
    name = function.name.value
    if owner is None or owner.methods.get(name) is not function or not _is_plain(owner, function):
        return None
    if name in OF_TORCH or name.startswith("_") or not program.unreached.is_named_only(owner.node):
        return None
    assert program.project is not None
    if program.project.imports.having(_CHILDREN):
        return None
    try:
        return list(_Search(name).calls(program, owner))
    except _UnseenError:
        return None


def _is_plain(owner: Class, function: cst.FunctionDef) -> bool:
    bare = not (owner.node.decorators or owner.node.keywords or function.decorators)
    return bare and all(base in PLAIN for base in owner.bases)


class _Search:
    """Follows the instances of a class to the calls of one of its methods."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._attributes: dict[str, bool] = {}  # yet to be followed; whether they are lists
        self._seen: dict[str, bool] = {}
        self._variables: set[int] = set()

    def calls(self, program: Program, owner: Class) -> Iterator[tuple[Program, cst.Call]]:
        made = list(self._made(program, owner))
        if not made:
            raise _UnseenError  # by whom, then?
        yield from self._of_self(program, owner)
        for home, call in made:
            yield from self._kept(home, self._same(home, call), in_list=False)
        while self._attributes:
            name, in_list = self._attributes.popitem()
            yield from self._of_attribute(program, name, in_list=in_list)

    def _kept(
        self, home: Program, node: cst.CSTNode, *, in_list: bool
    ) -> Iterator[tuple[Program, cst.Call]]:
        """Yield the calls of what is kept: an instance, or a list that has it."""
        match home.parent(node):
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value) if (
                value is node
            ):
                yield from self._put_in(home, target, in_list=in_list)
            case cst.Element() as element:
                yield from self._kept(home, _parent(home, element), in_list=_once(in_list))
            case cst.ListComp(elt=elt) | cst.GeneratorExp(elt=elt) as several if elt is node:
                yield from self._kept(home, several, in_list=_once(in_list))
            case cst.Arg(star="") as arg:
                call = _parent(home, arg)
                assert isinstance(call, cst.Call)
                if in_list and _is_list(home, call):
                    yield from self._kept(home, call, in_list=True)
                else:
                    yield from self._put_in(home, _filled(call, in_list), in_list=True)
            case _:
                raise _UnseenError

    def _put_in(
        self, home: Program, target: cst.BaseExpression, *, in_list: bool
    ) -> Iterator[tuple[Program, cst.Call]]:
        match target:
            case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)) if _is_kept(
                home, target
            ):
                if name not in self._seen:
                    self._seen[name] = self._attributes[name] = in_list
                elif self._seen[name] is not in_list:
                    raise _UnseenError
            case cst.Name():
                yield from self._of_variable(home, target, in_list=in_list)
            case _:
                raise _UnseenError

    def _made(self, program: Program, owner: Class) -> Iterator[Place]:
        """Yield the calls that make instances."""
        elsewhere = program.unreached.mentions(owner.name)
        if elsewhere is None:
            raise _UnseenError
        own = program.unreached.own_uses(owner.name)
        for home, use in [*((program, one) for one in own), *elsewhere]:
            match home.parent(use):
                case cst.Call(func=func) as call if func is use:
                    yield home, call
                case cst.Arg() as arg if _is_asked(home, arg):
                    pass
                case _:
                    raise _UnseenError

    def _of_self(self, program: Program, owner: Class) -> Iterator[tuple[Program, cst.Call]]:
        """Yield the calls by methods of the class; it hands itself to nobody."""
        for name in program.index.below(owner.node, cst.Name):
            if name.value == "cls":
                raise _UnseenError
            if name.value == "self" and not isinstance(program.parent(name), cst.Param):
                yield from self._used(program, name)
        for method in owner.methods.values():
            first = next(iter(method.params.params), None)
            if not program.is_static(method) and (first is None or first.name.value != "self"):
                raise _UnseenError

    def _of_variable(
        self, home: Program, target: cst.Name, *, in_list: bool
    ) -> Iterator[tuple[Program, cst.Call]]:
        binding = home.index.bound(target)
        if binding is None:  # of a list that is filled
            match home.flow.reaching(target):
                case (binding,) if _is_new_list(home, binding):
                    pass
                case _:
                    raise _UnseenError
        if id(binding) in self._variables:
            return
        self._variables.add(id(binding))
        if binding.scope.kind not in (ScopeKind.FUNCTION, ScopeKind.COMPREHENSION):
            raise _UnseenError
        for use in uses_of(home, binding):
            yield from self._used_as(home, use, in_list=in_list)

    def _of_attribute(
        self, program: Program, name: str, *, in_list: bool
    ) -> Iterator[tuple[Program, cst.Call]]:
        """Yield the calls of whatever is kept in attributes of a name."""
        assert program.project is not None
        imports = program.project.imports
        files = imports.having((name,))
        if len(files) > MANY or name in imports.words_of_others:
            raise _UnseenError
        for file in sorted(files):
            text = imports.text(file)
            if re.search(rf"\b{name}\b", text) is None:
                continue
            if re.search(rf"#[^\n]*\.{name}\b", text) is not None:
                raise _UnseenError  # who runs it by uncommenting it
            home = program.project.program(file)
            if home is None or is_quoted(name, text) or _GETATTR.search(text):
                raise _UnseenError
            for node in home.index.named.get(name, ()):
                above = home.parent(node)
                if is_label(home, node) and isinstance(above, cst.Attribute):
                    yield from self._used_as(home, above, in_list=in_list)

    def _used_as(
        self, home: Program, node: cst.BaseExpression, *, in_list: bool
    ) -> Iterator[tuple[Program, cst.Call]]:
        yield from self._used_list(home, node) if in_list else self._used(home, node)

    def _used_list(
        self, home: Program, node: cst.BaseExpression
    ) -> Iterator[tuple[Program, cst.Call]]:
        """Yield the calls of the method by one use of a list of instances."""
        match home.parent(node):
            case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
                if name not in _FILLS and name not in OF_TORCH:
                    raise _UnseenError
            case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=part)]) as entry if (
                value is node
            ):
                in_list = isinstance(part, cst.Slice)
                yield from self._used_as(home, entry, in_list=in_list)
            case cst.For(target=target, iter=source) | cst.CompFor(target=target, iter=source) if (
                source is node
            ):
                yield from self._turned(home, target)
            case cst.Arg(star="", keyword=None) as arg:
                yield from self._passed_list(home, arg)
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value) if (
                value is node
            ):
                yield from self._put_in(home, target, in_list=True)
            case cst.Comparison() | cst.AssignTarget() | cst.Expr() | cst.Del():
                pass
            case _:
                raise _UnseenError

    def _turned(
        self, home: Program, target: cst.BaseExpression
    ) -> Iterator[tuple[Program, cst.Call]]:
        """Yield the calls of the method in turns over a list of instances."""
        if not isinstance(target, cst.Name):
            raise _UnseenError
        yield from self._of_variable(home, target, in_list=False)

    def _passed_list(self, home: Program, arg: cst.Arg) -> Iterator[tuple[Program, cst.Call]]:
        """Yield the calls by what a function makes of a list: ``enumerate(self.layers)``."""
        call = _parent(home, arg)
        assert isinstance(call, cst.Call)
        if _is_list(home, call):
            yield from self._used_list(home, call)
            return
        func, above = call.func, home.parent(call)
        if not isinstance(func, cst.Name) or not home.is_builtin(func):
            raise _UnseenError
        if func.value == "len":
            return
        place = call.args.index(arg) + (func.value == "enumerate")
        match above:
            case (
                cst.For(target=cst.Tuple(elements=targets), iter=source)
                | cst.CompFor(target=cst.Tuple(elements=targets), iter=source)
            ) if source is call and func.value in ("enumerate", "zip") and place < len(targets):
                yield from self._turned(home, targets[place].value)
            case _:
                raise _UnseenError

    def _used(
        self, home: Program, instance: cst.BaseExpression
    ) -> Iterator[tuple[Program, cst.Call]]:
        """Yield the call of the method by one use of an instance; it leads nowhere else."""
        node = self._same(home, instance)
        above = home.parent(node)
        match above:
            case cst.Call(func=func) if func is node:
                if self._name == "forward":
                    yield home, above
            case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
                call = home.parent(above)
                if name in _RUNS:
                    raise _UnseenError
                if name == self._name:
                    if not isinstance(call, cst.Call) or call.func is not above:
                        raise _UnseenError
                    yield home, call
            case cst.Comparison() | cst.AssignTarget() | cst.Expr() | cst.Del():
                pass
            case cst.Arg() if _is_asked(home, above) or self._gives_other(home, above):
                pass
            case _:
                raise _UnseenError

    def _gives_other(self, home: Program, arg: cst.Arg) -> bool:
        """Whether something else of an instance is looked up: ``hasattr(layer, "weight")``."""
        match home.parent(arg):
            case cst.Call(
                func=cst.Name("getattr" | "hasattr" | "setattr") as func,
                args=[first, cst.Arg(value=cst.SimpleString() as name), *_],
            ):
                word = name.evaluated_value
                found = first is arg and word != self._name and word not in _RUNS
                return found and home.is_builtin(func)
            case _:
                return False

    @staticmethod
    def _same(home: Program, instance: cst.CSTNode) -> cst.CSTNode:
        """Return the outermost of ``net.cuda().eval()``: the same instance."""
        while True:
            match home.parent(instance):
                case cst.Attribute(value=value, attr=cst.Name(value=name)) as above if (
                    value is instance and name in _SAME
                ):
                    call = home.parent(above)
                    if not isinstance(call, cst.Call) or call.func is not above:
                        return instance
                    instance = call
                case _:
                    return instance


def _parent(home: Program, node: cst.CSTNode) -> cst.CSTNode:
    """Return what a part of an expression stands in."""
    above = home.parent(node)
    assert above is not None
    return above


def _once(in_list: bool) -> bool:
    """Return that what is in a list is so; of lists in lists nothing is followed."""
    if in_list:
        raise _UnseenError
    return True


def _is_new_list(home: Program, binding: Binding) -> bool:
    """Whether a name stands for a list that nothing else has: ``layers = []``."""
    match binding.value:
        case cst.List() | cst.ListComp():
            return binding.is_plain
        case cst.Call(func=func):
            return binding.is_plain and home.qualified(func) == "torch.nn.ModuleList"
        case _:
            return False


def _is_list(home: Program, call: cst.Call) -> bool:
    """Whether a call makes a list of another one: ``nn.ModuleList(layers)``, ``reversed(them)``."""
    func = call.func
    if len(call.args) != 1:
        return False
    if isinstance(func, cst.Name) and func.value in _LISTS:
        return home.is_builtin(func)
    return home.qualified(func) in _LISTS


def _filled(call: cst.Call, in_list: bool) -> cst.BaseExpression:
    """Return the list that a call puts an instance in, or another list of them."""
    match call:
        case cst.Call(func=cst.Attribute(value=filled, attr=cst.Name("append")), args=[_]):
            wanted = False
        case cst.Call(func=cst.Attribute(value=filled, attr=cst.Name("extend")), args=[_]):
            wanted = True
        case _:
            raise _UnseenError
    if in_list is not wanted:
        raise _UnseenError
    return filled


def _is_kept(home: Program, target: cst.Attribute) -> bool:
    """Whether only the project knows of an attribute: no library calls what is in it.

    ``nn.Sequential`` calls all that is kept in it.
    """
    keeper = home.classes.around(target)
    bases = {base for one in home.classes.lineage(keeper) for base in one.bases} if keeper else {""}
    return all(base in PLAIN or home.classes.named(base) is not None for base in bases)


def _is_asked(home: Program, arg: cst.Arg) -> bool:
    """Whether what is passed is not kept: ``super(Net, self)``, ``isinstance(x, Net)``."""
    call = home.parent(arg)
    func = call.func if isinstance(call, cst.Call) else None
    return (
        isinstance(func, cst.Name)
        and func.value in ("super", "isinstance", "id")
        and home.is_builtin(func)
    )
