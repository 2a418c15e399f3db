"""Code that nothing reaches: nobody pays for what it costs.

That is what follows a ``return`` or ``sys.exit()``, what stands below ``if False:``, below a
condition with which no call of its function is made, or below one that an assertion before it
rules out, a function or class of the module that only others of the kind name, or calls that it
does not take, and the ``forward`` of a module that is only used otherwise, in a project that is
started and not installed.  And a file that is put aside.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.debugging import is_demo
from torchlint.analysis.instances import OF_TORCH, PLAIN, calls_of
from torchlint.analysis.outcomes import outcome
from torchlint.analysis.signatures import never_binds
from torchlint.analysis.unasked import calls_seen
from torchlint.analysis.uses import is_label
from torchlint.lookups import imports_by_name, is_found
from torchlint.naming import (
    is_closed,
    is_composed,
    is_mixed_in,
    is_quoted,
    means_one_file,
    namers,
    spellers,
    without_exports,
)
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from torchlint.analysis.program import Program

    Definition: TypeAlias = cst.FunctionDef | cst.ClassDef

_LEAVES = (cst.Return, cst.Raise, cst.Continue, cst.Break)
_MAY_LEAVE = frozenset(
    {*_LEAVES, cst.SimpleStatementLine, cst.IndentedBlock, cst.SimpleStatementSuite, cst.Expr,
     cst.If}
)  # fmt: skip
_PASSING = frozenset(
    {cst.If, cst.IfExp, cst.While, cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite,
     cst.SimpleStatementLine}
)  # fmt: skip
_EXITS = frozenset({"sys.exit", "os._exit", "os.abort"})
# What is started by its name: by Python, a test runner, or a launcher.
_STARTED = re.compile(r"__\w+__|pytest_\w+|main|_mp_fn")
_TEST = re.compile(r"[tT]est")
# ``# self.net = ...``, the line of a part of an object that a comment leaves out.
_LEFT_OUT = re.compile(r"[ \t]*#[ \t]*(self\.\w+)[ \t]*=(?!=)")
# A key of a dictionary whose entry is a text or another dictionary, or what looks one up.
_KEYS = re.compile(r"(?<=[\w\])])\[[\"']\w+[\"']\]|[\"']\w+[\"']\s*:\s*(?=[\"'{])")
# What is only shown: ``tqdm(loader, desc="evaluate")``.
_SHOWN = re.compile(r"\bdesc\s*=\s*[fr]?(\"[^\"\n]*\"|'[^'\n]*')")
_MOST = 20  # functions and classes that name one another


class Unreached:
    """The places of one file that nothing reaches."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._raising = program.raising
        self._unnamed: dict[int, bool] = {}
        self._written: dict[str, bool] = {}
        self._named_by: dict[int, list[tuple[Program, Definition]] | None] = {}
        self._outcomes: dict[int, bool | None] = {}
        self._uncalled: dict[int, bool] = {}
        self._calls: dict[int, list[tuple[Program, cst.Call]]] = {}
        self._of_methods: dict[int, list[tuple[Program, cst.Call]] | None] = {}

    def at(self, node: cst.CSTNode) -> bool:
        """Whether a node is never run, whatever is started."""
        child, outermost = node, None
        for above in self._program.index.ancestors(node):
            if self._passes_by(above, child):
                return True
            if isinstance(above, cst.FunctionDef | cst.ClassDef):
                outermost = above
                if self._is_never_called(above):
                    return True
            child = above
        return outermost is not None and self._is_unnamed(outermost)

    def is_passed_by(self, node: cst.CSTNode) -> bool:
        """Whether a node is passed by, or left before, in whatever it stands in."""
        child, raises = node, bool(self._raising.statements)
        for above in self._program.index.ancestors(node):
            if self._passes_by(above, child):
                return True
            if raises and isinstance(above, cst.FunctionDef) and self._is_of_nothing(above):
                return True
            child = above
        return False

    # -- places within a function ---------------------------------------------------------------

    def _passes_by(self, above: cst.CSTNode, child: cst.CSTNode) -> bool:
        """Whether what surrounds a part of it never comes to that part."""
        headers = self._raising.headers
        if headers and id(above) in headers and child in _later(above):
            return True
        if type(above) not in _PASSING:  # most nodes: that many cases cost a while
            return False
        match above:
            case cst.If() | cst.IfExp() | cst.While() if child is above.body:
                return self._outcome(above.test) is False or self._is_asserted(above.test)
            case cst.If() | cst.IfExp() if child is above.orelse:
                return self._outcome(above.test) is True
            case cst.Module() | cst.BaseSuite() | cst.SimpleStatementLine():
                return self._is_left_before(above, child)
            case _:
                return False

    def _is_left_before(
        self, block: cst.Module | cst.BaseSuite | cst.SimpleStatementLine, child: cst.CSTNode
    ) -> bool:
        for statement in block.body:
            if statement is child:
                return False
            if self._leaves(statement):
                return True
        return False

    def _is_asserted(self, test: cst.BaseExpression) -> bool:
        """Whether an ``assert`` at the head of the function says that a parameter is not so."""
        function, flow = self._program.function(test), self._program.flow
        if function is None or not isinstance(test, cst.Name):
            return False
        head = takewhile(lambda one: isinstance(one, cst.SimpleStatementLine), function.body.body)
        return any(
            denied.value == test.value and {*flow.reaching(denied)} == {*flow.reaching(test)}
            for denied in _denied(head)
        )

    def _leaves(self, node: cst.CSTNode) -> bool:
        """Whether what follows a statement, or a block, is never run after it."""
        if id(node) in self._raising.statements:
            return True
        if type(node) not in _MAY_LEAVE:  # most nodes: that many cases cost a while
            return False
        match node:
            case cst.SimpleStatementLine() | cst.IndentedBlock() | cst.SimpleStatementSuite():
                return any(map(self._leaves, node.body))
            case cst.Expr():
                return isinstance(node.value, cst.Call) and self.is_exit(node.value.func)
            case cst.If():
                return self._all_leave(node)
            case _:
                return True

    def is_exit(self, func: cst.BaseExpression) -> bool:
        """Whether a call of a function ends the script."""
        if isinstance(func, cst.Name) and func.value in ("exit", "quit"):
            return self._program.is_builtin(func)
        return self._program.qualified(func) in _EXITS

    def _all_leave(self, statement: cst.If) -> bool:
        """Whether whichever branch is run leaves."""
        parts = list(_parts(statement))
        leaving = [self._leaves(part.body) for part in parts]
        if not any(leaving):
            return False
        for part, leaves in zip(parts, leaving, strict=True):
            if isinstance(part, cst.Else):
                return leaves
            if id(part) in self._raising.headers:
                return True
            holds = self._outcome(part.test)
            if holds or not (leaves or holds is False):
                return leaves
        return False

    def _outcome(self, test: cst.BaseExpression) -> bool | None:
        key = id(test)
        if key not in self._outcomes:
            self._outcomes[key] = outcome(self._program, test, _all_calls)
        return self._outcomes[key]

    def _is_never_called(self, node: Definition) -> bool:
        """Whether a node is a method of what is never made.

        Or the ``forward`` of a module whose instances are all used otherwise.
        """
        if not isinstance(node, cst.FunctionDef):
            return False
        if self._raising.statements and self._is_of_nothing(node):
            return True
        if node.name.value == "forward":
            return self._method_calls(node) == []
        return self._is_uncalled(node)

    def _is_uncalled_method(self, node: cst.FunctionDef) -> bool:
        """Whether a method is named nowhere but where it is written, and no library calls it.

        Libraries call methods by plain words, ``write``, or those of what extends their classes.
        """
        name, project = node.name.value, self._program.project
        owner = self._program.classes.around(node)
        if owner is None or owner.methods.get(name) is not node or self._is_given(node):
            return False
        if "_" not in name.strip("_") or name in OF_TORCH or project is None or not self.is_closed:
            return False
        lineage = (
            (home, each)
            for home, one in project.lineage(self._program, owner)
            for each in home.classes.lineage(one)
        )
        return (
            all(
                base in PLAIN
                or home.classes.named(base) is not None
                or project.defined_class(home, base) is not None
                for home, each in lineage
                for base in each.bases
            )
            and not is_mixed_in(owner.name, project.imports)
            and not is_composed(name, project.imports)
            and self._is_called_by_uncalled(name)
        )

    def _is_called_by_uncalled(self, name: str) -> bool:
        """Whether nothing calls a method, or only methods that nothing calls: ``self.draw()``."""
        program = self._program
        assert program.project is not None
        found = [*spellers(name, program.project.imports)]
        if not found:
            return True
        calls = [
            call
            for call, func in program.method_calls(name)
            if isinstance(func.value, cst.Name) and func.value.value == "self"
        ]
        if found != [(str(program.path), len(calls))]:
            return False
        around = [program.function(call) for call in calls]
        return all(one is not None and self._is_uncalled(one) for one in around)

    def _is_uncalled(self, node: cst.FunctionDef) -> bool:
        key = id(node)
        if key not in self._uncalled:
            self._uncalled[key] = False  # methods that call one another
            self._uncalled[key] = self._is_uncalled_method(node)
        return self._uncalled[key]

    def _is_of_nothing(self, function: cst.FunctionDef) -> bool:
        """Whether a function is a method of a class of which no instance is ever made."""
        owner, name = self._program.classes.around(function), function.name.value
        return (
            owner is not None
            and owner.methods.get(name) is function
            and not self._is_given(function)
            and name not in ("__init__", "__new__", "__init_subclass__", "__class_getitem__")
            and self._raising.never_made(owner)
        )

    def _method_calls(self, function: cst.FunctionDef) -> list[tuple[Program, cst.Call]] | None:
        key = id(function)
        if key not in self._of_methods:
            self._of_methods[key] = calls_of(self._program, function)
        return self._of_methods[key]

    def calls(self, function: cst.FunctionDef) -> list[tuple[Program, cst.Call]]:
        """Return all the calls of a function or method; none where there may be others."""
        if self._program.is_method(function):
            return self._method_calls(function) or []
        key = id(function)
        if key not in self._calls:
            known = calls_seen(self._program, function) if self._is_of_module(function) else []
            self._calls[key] = known if known and self._are_all(function, known) else []
        return self._calls[key]

    def _are_all(self, function: cst.FunctionDef, calls: list[tuple[Program, cst.Call]]) -> bool:
        """Whether nothing but some calls uses a function."""
        name = function.name.value
        if not self._is_written(name) or self._is_quoted(name):
            return False
        project, path = self._program.project, self._program.path
        assert project is not None
        homes = [self._program, *map(project.program, namers(str(path), name, project.imports))]
        known = {id(call.func) for _, call in calls}
        unsure = imports_by_name(project.imports)
        return all(
            home is not None
            and all(
                id(use) in known or self._is_of_another(home, use, name)
                for use in _uses(home, name, own=home is self._program, unsure=unsure)
            )
            for home in homes
        )

    def _is_of_another(self, home: Program, use: cst.CSTNode, name: str) -> bool:
        """Whether a name is imported from elsewhere, or for something else of this file.

        ``from net import sample_one as sample`` means no ``sample`` of ``net``.
        """
        project, path, full = self._program.project, home.path, home.qualified(use)
        if project is None or path is None or not full:
            return False
        if isinstance(use, cst.Attribute) and not project.imports.may_have(full):
            return True  # `torch.squeeze`
        if home is self._program:
            return False
        if not means_one_file(str(path), full, project.imports):
            return False
        found = project.define(home, full)
        if found is None:
            return False
        made = found.binding.value
        named = isinstance(made, cst.FunctionDef | cst.ClassDef) and made.name.value != name
        return found.program is not self._program or named

    # -- functions and classes ------------------------------------------------------------------

    def _is_unnamed(self, node: Definition) -> bool:
        """Whether only what is unnamed as well names a function or class of the module."""
        key = id(node)
        if key not in self._unnamed:
            self._unnamed[key] = self._find_unnamed(node)
        return self._unnamed[key]

    def _find_unnamed(self, node: Definition) -> bool:
        found, seen = [(self._program, node)], {id(node)}
        for program, one in found:
            namers = program.unreached.named_by(one)
            if namers is None or len(found) > _MOST:
                return False
            for home, namer in namers:
                if _TEST.match(namer.name.value):
                    return False
                if id(namer) not in seen:
                    seen.add(id(namer))
                    found.append((home, namer))
        return True

    def named_by(self, node: Definition) -> list[tuple[Program, Definition]] | None:
        """Return the functions and classes in which one of the module is named.

        None where it may be named otherwise.
        """
        key = id(node)
        if key not in self._named_by:
            self._named_by[key] = self._find_namers(node)
        return self._named_by[key]

    def _find_namers(self, node: Definition) -> list[tuple[Program, Definition]] | None:
        name, program = node.name.value, self._program
        if self._is_given(node) or not self._is_of_module(node) or _STARTED.fullmatch(name):
            return None
        own = (use for use in self.own_uses(name) if not program.index.inside(use, node))
        here = self._namers_of(node, ((program, use) for use in own))
        if (
            here is None
            or self._is_quoted(name)
            or self._is_in_comment(name)
            or not self._is_written(name)
        ):
            return None
        mentions = self.mentions(name)
        elsewhere = None if mentions is None else self._namers_of(node, mentions)
        return None if elsewhere is None else here + elsewhere

    def _namers_of(
        self, node: Definition, uses: Iterable[tuple[Program, cst.CSTNode]]
    ) -> list[tuple[Program, Definition]] | None:
        """Return what some uses of a name are looked up in; None where one is otherwise."""
        found: list[tuple[Program, Definition]] = []
        for home, use in uses:
            if self._raises(home, use, node) or is_demo(home, use):
                continue
            if home.unreached.is_passed_by(use):
                continue
            if (within := _run_in(home, use)) is None:
                return None
            found.append((home, within))
        return found

    def _raises(self, home: Program, use: cst.CSTNode, node: Definition) -> bool:
        """Whether a name is only called there, in a way that what it stands for does not take."""
        call = home.parent(use)
        if not isinstance(call, cst.Call) or call.func is not use:
            return False
        if not never_binds(self._program, node, call):
            return False
        if home is self._program:
            bound = home.flow.reaching(use) if isinstance(use, cst.Name) else ()
        else:
            assert home.project is not None
            found = home.project.define(home, home.qualified(use))
            bound = () if found is None else (found.binding,)
        return [one.value for one in bound] == [node]

    def _is_given(self, node: Definition) -> bool:
        """Whether a decorator gets a function or class and may keep it: all but ``no_grad()``."""
        return not all(self._program.loops.is_no_grad(item.decorator) for item in node.decorators)

    def is_named_only(self, node: cst.ClassDef) -> bool:
        """Whether a class of the module is found by writing its name in code, and not otherwise."""
        name = node.name.value
        return (
            self._is_of_module(node)
            and self._is_written(name)
            and not is_told_of(self._program, name)
        )

    def own_uses(self, name: str) -> list[cst.CSTNode]:
        """Return where the file itself uses what its module has under a name."""
        return list(_uses(self._program, name, own=True))

    def mentions(self, name: str) -> list[tuple[Program, cst.CSTNode]] | None:
        """Return where other files may mean what the module has under a name; None where unsure."""
        project, path = self._program.project, self._program.path
        assert project is not None
        found: list[tuple[Program, cst.CSTNode]] = []
        for file in namers(str(path), name, project.imports):
            home = project.program(file)
            if home is None or is_told_of(home, name):
                return None
            uses = _uses(home, name, own=False, unsure=True)
            found += [(home, use) for use in uses if not self._is_of_another(home, use, name)]
        return found

    def _is_of_module(self, node: Definition) -> bool:
        return self._program.index.scope(node).parent is None

    def _is_quoted(self, name: str) -> bool:
        """Whether the file has a name in quotes, but for entries of data: ``URLS["resnet50"]``."""
        return is_quoted(name, self._text)

    @cached_property
    def _text(self) -> str:
        """The text of the file, without what only exports names, looks data up or is shown."""
        return _SHOWN.sub("", _KEYS.sub("", without_exports(self._program.text)))

    def _is_in_comment(self, name: str) -> bool:
        """``# apply(x)``, which a person runs by uncommenting it."""
        return _is_commented(self._program.text, rf"(?<![\w.]){_in_words(name)}")

    def _is_written(self, name: str) -> bool:
        """Whether only the scripts of a project use what the module has under a name, by it."""
        project = self._program.project
        if name not in self._written:
            self._written[name] = (
                self.is_closed
                and project is not None
                and not is_found(str(self._program.path), name, project.imports)
            )
        return self._written[name]

    @cached_property
    def is_closed(self) -> bool:
        """Whether only the scripts of a project use the module."""
        project, path = self._program.project, self._program.path
        return project is not None and path is not None and is_closed(str(path), project.imports)


def _denied(lines: Iterable[cst.CSTNode]) -> Iterator[cst.Name]:
    """Yield the names of which some lines assert that they are false: ``assert not x``."""
    for line in lines:
        match line:
            case cst.SimpleStatementLine(body=[cst.Assert(test=cst.UnaryOperation() as test)]):
                if isinstance(test.operator, cst.Not) and isinstance(test.expression, cst.Name):
                    yield test.expression
            case _:
                pass


def _all_calls(program: Program, function: cst.FunctionDef) -> list[tuple[Program, cst.Call]]:
    return program.unreached.calls(function)


def _later(node: cst.CSTNode) -> list[cst.CSTNode | None]:
    """Return the blocks of a statement, which are run after its first line."""
    return [getattr(node, "body", None), getattr(node, "orelse", None)]


def _parts(statement: cst.If) -> Iterator[cst.If | cst.Else]:
    """Yield an ``if`` with its ``elif``s and its ``else``."""
    part: cst.If | cst.Else | None = statement
    while part is not None:
        yield part
        part = part.orelse if isinstance(part, cst.If) else None


def _uses(program: Program, name: str, *, own: bool, unsure: bool = False) -> Iterator[cst.CSTNode]:
    """Yield what may use a function of a name: of the file's own module, or of one it imports.

    With ``unsure``, an attribute of what may be a module as well.
    """
    for node in program.index.named.get(name, ()):
        above = program.parent(node)
        if is_label(program, node):
            if own or not isinstance(above, cst.Attribute):
                continue
            if program.qualified(above) or (unsure and not program.value(above.value).known):
                yield above
        elif isinstance(above, cst.ImportAlias):
            if own or above.asname is not None:
                yield node
        elif isinstance(above, cst.AsName) or (
            isinstance(above, cst.FunctionDef | cst.ClassDef) and above.name is node
        ):
            pass
        elif own or not _is_of_file(program, node):
            yield node


def is_told_of(program: Program, name: str) -> bool:
    """Whether a file may mean what a module has under a name, elsewhere than in its code.

    That is in a comment, as who chooses a model by uncommenting a line uses them all, and in a text
    with its module.  Where modules are imported by their names, it is in any text.
    """
    text = without_exports(program.text)
    project = program.project
    if project is None or imports_by_name(project.imports):
        spelled = re.findall(rf"\b{name}\b", text)
        return len(spelled) > len(program.index.named.get(name, ()))
    return _is_commented(text, _in_words(name)) or re.search(rf"[.:]{name}[\"']", text) is not None


def _is_commented(text: str, pattern: str) -> bool:
    """Whether a comment speaks of something, other than to leave a part of an object out.

    ``# self.net = Net()`` is a choice only where another line sets ``self.net``.
    """
    for found in re.finditer(rf"#.*{pattern}", text):
        part = _LEFT_OUT.match(text, text.rfind("\n", 0, found.start()) + 1)
        if part is None or re.search(rf"^[ \t]*{part[1]}[ \t]*=", text, re.MULTILINE) is not None:
            return True
    return False


def _in_words(name: str) -> str:
    """Return a pattern of a name in a comment, where one in small letters may be a plain word.

    So may one with a capital letter at its beginning alone: ``# Transition layer``.
    """
    plain = name[1:] == name[1:].lower() and "_" not in name
    return (
        rf"\b{name}\b"
        if name != name.lower() and not plain
        else rf"(?:import\b.*\b{name}\b|\b{name} ?[(,)])"
    )


def _run_in(program: Program, use: cst.CSTNode) -> Definition | None:
    """Return the function or class without which a name is not looked up.

    None where it is looked up as the module is imported: as a default, or by a decorator.
    """
    outermost: Definition | None = None
    later, child = False, use
    for above in program.index.ancestors(use):
        match above:
            case cst.FunctionDef():
                outermost, later = above, later or child is above.body
            case cst.ClassDef():
                is_base = isinstance(child, cst.Arg) and child.value is use
                outermost, later = above, later or (is_base and child in above.bases)
        child = above
    return outermost if later else None


def _is_of_file(program: Program, name: cst.Name) -> bool:
    """Whether a name stands for something that the file itself makes."""
    bindings = program.flow.reaching(name)
    return bool(bindings) and not any(one.kind in (Bind.FROM, Bind.IMPORT) for one in bindings)
