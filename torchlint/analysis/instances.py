"""Which calls of a method there are, where all the instances of its class are seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import Binding, ScopeKind
from torchlint.analysis.uses import is_label, uses_of
from torchlint.imports import MANY
from torchlint.naming import is_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

    Place: TypeAlias = tuple[Program, cst.CSTNode]
    Calls: TypeAlias = list[tuple[Program, cst.Call]]

# Methods that return the module itself.
_SAME = frozenset({
    "cuda", "cpu", "to", "train", "eval", "half", "float", "double", "bfloat16", "type", "apply",
    "requires_grad_", "share_memory", "to_empty", "xpu",
})  # fmt: skip
# Those that a module calls of the modules in it.
_OF_TORCH = _SAME | {
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
_PLAIN = ("torch.nn.Module", "object")
_RUNS = frozenset({"__call__", "_call_impl", "__class__", "__getattribute__"})
# What finds the modules that are kept in a module.
_CHILDREN = ("children()", "._modules", ".modules())", "get_submodule(", "submodule(")
_GETATTR = re.compile(r"\bgetattr\(\s*self\b[^,()]*,\s*[^\"'\s]")


class _UnseenError(Exception):
    """An instance may be used where nothing of it is seen."""


def calls_of(program: Program, function: cst.FunctionDef) -> Calls | None:
    """Return all the calls of a method; None where there may be others.

    Of a class of a project that is not for others to use, each of whose instances is kept in one
    attribute or variable, and used there alone.
    """
    owner = program.classes.around(function)
    name = function.name.value
    if owner is None or owner.methods.get(name) is not function or not _is_plain(owner, function):
        return None
    if name in _OF_TORCH or name.startswith("_") or not program.unreached.is_named_only(owner.node):
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
    return bare and all(base in _PLAIN for base in owner.bases)


class _Search:
    """Follows the instances of a class to the calls of one of its methods."""

    def __init__(self, name: str) -> None:
        self._name = name

    def calls(self, program: Program, owner: Class) -> Iterator[tuple[Program, cst.Call]]:
        made = list(self._made(program, owner))
        if not made:
            raise _UnseenError  # by whom, then?
        yield from self._of_self(program, owner)
        attributes: set[str] = set()
        for home, call in made:
            instance = self._same(home, call)
            match home.parent(instance):
                case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value) if (
                    value is instance
                ):
                    pass
                case _:
                    raise _UnseenError
            match target:
                case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)) if (
                    _is_kept(home, target)
                ):
                    attributes.add(name)
                case cst.Name():
                    yield from self._of_variable(home, target)
                case _:
                    raise _UnseenError
        for name in sorted(attributes):
            yield from self._of_attribute(program, name)

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

    def _of_variable(self, home: Program, target: cst.Name) -> Iterator[tuple[Program, cst.Call]]:
        binding = home.index.bound(target)
        if not isinstance(binding, Binding) or binding.scope.kind is not ScopeKind.FUNCTION:
            raise _UnseenError
        for use in uses_of(home, binding):
            yield from self._used(home, use)

    def _of_attribute(self, program: Program, name: str) -> Iterator[tuple[Program, cst.Call]]:
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
                    yield from self._used(home, above)

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
            case cst.Arg() if _is_asked(home, above):
                pass
            case _:
                raise _UnseenError

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


def _is_kept(home: Program, target: cst.Attribute) -> bool:
    """Whether only the project knows of an attribute: no library calls what is in it.

    ``nn.Sequential`` calls all that is kept in it.
    """
    keeper = home.classes.around(target)
    bases = {base for one in home.classes.lineage(keeper) for base in one.bases} if keeper else {""}
    return all(base in _PLAIN or home.classes.named(base) is not None for base in bases)


def _is_asked(home: Program, arg: cst.Arg) -> bool:
    """Whether what is passed is not kept: ``super(Net, self)``, ``isinstance(x, Net)``."""
    call = home.parent(arg)
    func = call.func if isinstance(call, cst.Call) else None
    return (
        isinstance(func, cst.Name)
        and func.value in ("super", "isinstance", "id")
        and home.is_builtin(func)
    )
