"""Code that looks for faults: it runs in tests, or only when somebody asks for it."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.reach import callee
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.test_code import is_left_to_runner, is_test

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchlint.analysis.program import Program

_FAULTS = re.compile(
    r"debug|anomal|diagnos|troubleshoot|sanity|gradcheck|(^|_)(nans?|checks?|verify|trace)(_|$)",
    re.IGNORECASE,
)
# What trains, evaluates, or runs a program; gradients without a step are only looked at.
_DOES = re.compile(r"^(?:step|fit|run|main|parse\w*|launch|spawn|exec|evaluate)$|train_|_train")
_ASKS = re.compile(
    r"anomal|diagnos|detect|sanity|verify|strict|(^|_)(nans?|infs?|checks?)(_|$)", re.IGNORECASE
)


def in_test(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node stands in a test: by its file, its class, or a function left to a runner."""
    if program.is_test:
        return True
    for above in program.index.ancestors(node):
        if isinstance(above, cst.FunctionDef) and _is_for_runner(program, above):
            return True
        if isinstance(above, cst.ClassDef) and any(
            dotted(base.value).endswith("TestCase") for base in above.bases
        ):
            return True
    return is_demo(program, node)


def is_demo(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node stands where a module that others import shows what is in it, started alone.

    ``if __name__ == "__main__": print(Net()(torch.rand(2, 3)))``: it makes and calls models, as
    often as it says, and calls no functions of the project that do more than make one.
    """
    project = program.project
    block = _main_block(program, node) if "__main__" in program.text else None
    if block is None or project is None or not project.imports.importers(str(program.path)):
        return False
    index = program.index
    loops = index.below(block, cst.For)
    if any(True for _ in index.below(block, cst.While)) or not all(map(_is_counted, loops)):
        return False
    return all(_only_shows(program, call) for call in index.below(block, cst.Call))


def _is_counted(loop: cst.For) -> bool:
    """``for _ in range(3):``, as often as the file says."""
    match loop.iter:
        case cst.Call(func=cst.Name("range"), args=args):
            return all(isinstance(arg.value, cst.Integer) for arg in args)
        case _:
            return False


def _main_block(program: Program, node: cst.CSTNode) -> cst.If | None:
    """Return the ``if __name__ == "__main__":`` that a node stands in, and in no function."""
    for above in program.index.ancestors(node):
        match above:
            case cst.FunctionDef() | cst.ClassDef():
                return None
            case cst.If() if "__main__" in program.code(above.test):
                return above
            case _:
                pass
    return None


def _only_shows(program: Program, call: cst.Call) -> bool:
    """Whether a call makes a model or a tensor, asks it for something, or prints it."""
    named = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    if isinstance(named, cst.Name) and _DOES.search(named.value) is not None:
        return False
    found = callee(program, call)
    made = found is None or found[1].name.value in ("__init__", "forward")
    return made or program.value(call).kind is Kind.MODULE


def _is_for_runner(program: Program, function: cst.FunctionDef) -> bool:
    """``def test_shapes():``, which takes nothing, or which no script of the project calls."""
    name = function.name.value
    if not name.startswith("test_") or not _is_collected(program, function):
        return False
    params = function.params.params
    takes = any(param.default is None and param.name.value != "self" for param in params)
    left = is_left_to_runner(name, program.text) and not _is_called_elsewhere(program, function)
    return left or not takes


def _is_collected(program: Program, function: cst.FunctionDef) -> bool:
    """Whether a runner would find a function: of methods it takes those of classes for tests."""
    owner = program.classes.around(function)
    if owner is None or owner.methods.get(function.name.value) is not function:
        return True
    lineage = program.classes.lineage(owner)
    names = (name for one in lineage for name in (one.name, *one.bases))
    return any("test" in name.lower() for name in names)


def _is_called_elsewhere(program: Program, function: cst.FunctionDef) -> bool:
    """Whether a file of the project that is no test calls a function."""
    project = program.project
    return project is not None and any(
        not is_test(other.path, other.text, project.imports.root)
        for other, _ in project.callers(program, function)
    )


def on_request(program: Program, node: cst.CSTNode) -> bool:
    """Whether code runs only in a test, under a condition that asks for it, or to find a fault."""
    if in_test(program, node) or _looks_for_faults(program, node):
        return True
    return _conditional(program, node) or program.context(node).guarded


def _looks_for_faults(program: Program, node: cst.CSTNode) -> bool:
    """Whether the file, or a function or class around a node, is named after it."""
    names = [
        above.name.value
        for above in program.index.ancestors(node)
        if isinstance(above, cst.FunctionDef | cst.ClassDef)
    ]
    stem = "" if program.path is None else program.path.stem
    return any(_FAULTS.search(name) for name in (stem, *names))


def _conditional(program: Program, node: cst.CSTNode) -> bool:
    """Whether a condition or a handler around a node, or a return before it, makes it rare."""
    child = node
    for above in program.index.ancestors(node):
        match above:
            case cst.If() | cst.IfExp() if child is not above.test and _asks(program, above.test):
                return True
            case cst.ExceptHandler() | cst.ExceptStarHandler():
                return True
            case cst.IndentedBlock() if _left_before(program, above, child):
                return True
            case cst.FunctionDef():
                return False
            case _:
                child = above
    return False


def _left_before(program: Program, block: cst.IndentedBlock, child: cst.CSTNode) -> bool:
    """``if not args.debug: return`` earlier in a block."""
    earlier = takewhile(lambda statement: statement is not child, block.body)
    return any(
        isinstance(statement, cst.If)
        and statement.orelse is None
        and isinstance(_last(statement.body), cst.Return | cst.Raise)
        and _asks(program, statement.test)
        for statement in earlier
    )


def _last(body: cst.BaseSuite) -> cst.CSTNode:
    last = body.body[-1]
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last


def _asks(program: Program, test: cst.BaseExpression) -> bool:
    """Whether a condition is an option, an environment variable, or holds now and then."""
    index = program.index
    if program.loops.is_guard(test) or any(
        _ASKS.search(name.value) for name in index.below(test, cst.Name)
    ):
        return True
    return any(
        "environ" in dotted(node) or "getenv" in dotted(node)
        for node in (*index.below(test, cst.Attribute), *index.below(test, cst.Name))
    )


# -- the backward passes of a file ----------------------------------------------------------------

_CATCHES = frozenset({"Exception", "BaseException", "RuntimeError"})


def parts_run(
    program: Program,
    block: cst.CSTNode,
    passes_over: Callable[[cst.CSTNode], bool] = lambda _: False,
) -> Iterator[tuple[Program, cst.CSTNode]]:
    """Yield a statement, and the functions of other files that it calls, each with its file.

    Calls may be passed over.
    """
    yield program, block
    for call in program.index.below(block, cst.Call):
        target = None if passes_over(call) else program.calls.elsewhere(call)
        if target is not None:
            yield target.program, target.function


def is_caught(program: Program, node: cst.CSTNode) -> bool:
    """Whether an error of a node is caught in the function that it stands in."""
    child = node
    for above in program.index.ancestors(node):
        if isinstance(above, cst.FunctionDef):
            return False
        if (
            isinstance(above, cst.Try)
            and child is above.body
            and any(_catches(program, handler) for handler in above.handlers)
        ):
            return True
        child = above
    return False


def _catches(program: Program, handler: cst.ExceptHandler) -> bool:
    """Whether a handler is for the errors that torch raises."""
    if handler.type is None:
        return True
    return any(name.value in _CATCHES for name in program.index.below(handler.type, cst.Name))


def ways_to(program: Program, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and the calls that lead to it, within the file."""
    todo, seen = [node], {id(node)}
    while todo:
        here = todo.pop()
        yield here
        function = program.function(here)
        sites = [] if function is None else program.calls.sites(function)
        todo += [site for site in sites if id(site) not in seen]
        seen.update(id(site) for site in sites)
