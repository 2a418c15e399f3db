"""Branches that few turns take: for a change, a full count, a first turn, an empty batch, a window.

What stands in such a branch costs a step nothing.  A comparison with an option that never changes
is no such thing: it holds in all of the turns, or in none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.conditions import counts_off
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.no_data import lacks_data
from torchlint.analysis.reach import callee
from torchlint.analysis.uses import is_label
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.loops import Role
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_Store: TypeAlias = cst.Assign | cst.AugAssign | cst.AnnAssign

_STEP = re.compile(r"(^|_)(step|iter|iteration|itr|i|it)(_|$)|steps?$", re.IGNORECASE)
_ENDED = re.compile(r"(^|_)(done|terminal|terminated|truncated)$", re.IGNORECASE)
_WINDOWS = frozenset({"cv2.imshow", "cv2.waitKey", "matplotlib.pyplot.show"})
_DEPTH = 2  # functions that hand on what they are given
_TURNS = (cst.For, cst.While, cst.FunctionDef, cst.Module)


def is_rare(program: Program, branch: cst.If) -> bool:
    """Whether few of the turns that come to a branch take it."""
    return (
        notes_change(program, branch)
        or _makes_attribute(program, branch)
        or _fills_global(program, branch)
        or makes_entry(program, branch, branch.body)
        or lacks_data(program, branch, branch.body)
        or _shows(program, branch)
        or _asks_for_record(program, branch.test)
        or _is_left_as_number(program, branch.test)
        or any(
            _is_full(program, branch, one) or _finds_sample(program, branch, one)
            for one in _compared(branch.test)
        )
    )


def _shows(program: Program, branch: cst.If) -> bool:
    """Whether a branch opens a window on the screen, for somebody who looks on; it never trains."""
    index = program.index
    windows = (
        call
        for call in index.below(branch.body, cst.Call)
        if program.qualified(call.func) in _WINDOWS
    )
    return any(
        next(one for one in index.ancestors(call) if isinstance(one, cst.If)) is branch
        for call in windows
    ) and not any(used.attr.value == "backward" for used in index.below(branch, cst.Attribute))


def ends_episode(test: cst.BaseExpression) -> bool:
    """``if done:``, ``if terminated or truncated:``: an episode of a simulator has many steps."""
    match test:
        case cst.Name() | cst.Attribute():
            return _ENDED.search(dotted(test).rpartition(".")[2]) is not None
        case cst.BooleanOperation(left=left, operator=cst.Or(), right=right):
            return ends_episode(left) and ends_episode(right)
        case _:
            return False


def _asks_for_record(program: Program, test: cst.BaseExpression) -> bool:
    """``if record is not None:`` of what is there every n turns, and None in the others."""
    match test:
        case cst.Comparison(
            left=cst.Name() as record,
            comparisons=[cst.ComparisonTarget(operator=cst.IsNot(), comparator=cst.Name("None"))],
        ):
            return _is_seldom_there(program, record, 0)
        case cst.Name() as record:
            return _is_seldom_there(program, record, 0)
        case _:
            return False


def _is_seldom_there(program: Program, record: cst.Name, depth: int) -> bool:
    """``record = {} if step % 50 == 0 else None``, also as what a function gives."""
    made = program.flow.reaching(record)
    nones = [one for one in made if literal(one.value) == "None"]
    if nones and len(nones) < len(made):
        return any(_is_counted(program, one.node) for one in nones)
    match [(one.is_plain, one.value) for one in made]:
        case [(True, cst.IfExp(test=test) as choice)]:
            sides = (choice.body, choice.orelse)
            return counts_off(program, test) and any(literal(side) == "None" for side in sides)
        case [(True, cst.Call() as call)] if depth < _DEPTH:
            found = callee(program, call)
            if found is None:
                return False
            home, function = found
            given = [(home, one.value) for one in home.returns(function)]
        case [(False, cst.Param() as param)] if depth < _DEPTH:
            around = program.function(param)
            if around is None:
                return False
            sites = program.sites_everywhere(around)
            given = [(home, home.calls.passed(around, param, site)) for home, site in sites]
        case _:
            return False
    return bool(given) and all(
        isinstance(one, cst.Name) and _is_seldom_there(home, one, depth + 1) for home, one in given
    )


def _is_counted(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node stands in a branch that counts turns."""
    for above in program.index.ancestors(node):
        if isinstance(above, cst.If):
            return counts_off(program, above.test)
        if isinstance(above, cst.For | cst.While | cst.FunctionDef):
            return False
    return False


def follows_change(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node of a function runs only after a change: ``if task != self.task: ...``."""
    child = node
    for above in program.index.ancestors(node):
        if isinstance(above, cst.FunctionDef):
            return False
        if isinstance(above, cst.If) and child is above.body and notes_change(program, above):
            return True
        child = above
    return False


def notes_change(program: Program, branch: cst.If) -> bool:
    """``if task != self.task: ...; self.task = task``, which makes both the same until a change."""
    for one in _compared(branch.test):
        if isinstance(one.comparisons[0].operator, cst.NotEqual | cst.IsNot):
            left, right = one.left, one.comparisons[0].comparator
            if _notes(program, branch, left, right) or _notes(program, branch, right, left):
                return True
    return False


def _compared(test: cst.BaseExpression) -> Iterator[cst.Comparison]:
    """Yield the comparisons all of which have to hold, each of two sides."""
    match test:
        case cst.Comparison(comparisons=[_]):
            yield test
        case cst.BooleanOperation(operator=cst.And()):
            yield from _compared(test.left)
            yield from _compared(test.right)
        case _:
            pass


def _notes(
    program: Program, branch: cst.If, kept: cst.BaseExpression, seen: cst.BaseExpression
) -> bool:
    """Whether a branch keeps what it has seen, and nothing else changes that in the turn."""
    if not _lasts(program, branch, kept) or _is_of_turn(program, branch, seen):
        return False
    if program.value(seen).kind is Kind.TENSOR:
        return False
    stores = _stores(program, dotted(kept), _turn(program, branch))
    code = program.code(seen)
    return any(_stands_in(program, one, branch.body) for one in stores) and all(
        isinstance(one, cst.Assign)
        and program.index.inside(one, branch.body)
        and program.code(one.value) == code
        for one in stores
    )


def _lasts(program: Program, branch: cst.If, kept: cst.BaseExpression) -> bool:
    """Whether something keeps its value from step to step."""
    turn = _turn(program, branch)
    if isinstance(turn, cst.FunctionDef):
        return isinstance(kept, cst.Attribute) and bool(dotted(kept))
    return bool(dotted(kept)) and _is_step(program, turn)


def _is_of_turn(program: Program, branch: cst.If, node: cst.BaseExpression) -> bool:
    """Whether a value is another one in each step: the number of the turn."""
    name = dotted(node).rpartition(".")[2]
    return _STEP.search(name) is not None or _is_number(program, branch, node)


def _is_number(program: Program, branch: cst.If, node: cst.BaseExpression) -> bool:
    """``i`` of ``for i, x in enumerate(loader)`` and ``for i in range(n)`` around a branch."""
    loop = _turn(program, branch)
    if not isinstance(loop, cst.For) or not isinstance(node, cst.Name):
        return False
    for binding in program.flow.reaching(node):
        match binding.value:
            case cst.Call(func=cst.Name(value="enumerate" | "range" as counts)) as iterated:
                whole = binding.path == () if counts == "range" else binding.path == (0,)
                if iterated is loop.iter and whole:
                    return True
            case _:
                pass
    return False


def _makes_attribute(program: Program, branch: cst.If) -> bool:
    """``if not hasattr(self, "seen"): self.seen = ...`` of what stays: the first turn alone."""
    match branch.test:
        case cst.UnaryOperation(
            operator=cst.Not(),
            expression=cst.Call(
                func=cst.Name("hasattr"),
                args=[cst.Arg(value=owner), cst.Arg(value=cst.SimpleString() as text)],
            ),
        ) if _outlasts(program, branch, owner):
            name = text.raw_value
        case _:
            return False
    made = f"{dotted(owner)}.{name}"
    turn = _turn(program, branch)
    gone = any(dotted(one.target) == made for one in program.index.below(turn, cst.Del))
    return not gone and any(
        _stands_in(program, program.smallest_statement(one), branch.body)
        for one in (
            *_stores(program, made, branch.body),
            *_registered(program, branch.body, dotted(owner), name),
        )
    )


def _fills_global(program: Program, branch: cst.If) -> bool:
    """``if grid is None or grid.size(0) < n: make_grid(n)``, which keeps it for all that follows.

    A ``global`` of the file, which nothing else sets.
    """
    test = branch.test
    while isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
        test = test.left
    match test:
        case cst.Comparison(
            left=cst.Name() as name,
            comparisons=[cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))],
        ):
            scope = program.index.scope(name).owner(name.value)
        case _:
            return False
    if scope is not program.index.root or program.function(branch) is None:
        return False
    runs = [program.calls.target(one) for one in program.index.below(branch.body, cst.Call)]
    bindings = scope.bindings.get(name.value, ())
    inner = [one for one in bindings if program.function(one.node) is not None]
    return bool(inner) and all(
        literal(one.value) != "None"
        and (program.index.inside(one.node, branch.body) or program.function(one.node) in runs)
        for one in inner
    )


def _is_left_as_number(program: Program, test: cst.BaseExpression) -> bool:
    """``if self.momentum is None`` of a class that keeps a number unless it is told otherwise."""
    match test:
        case cst.Comparison(
            left=cst.Attribute(value=cst.Name("self"), attr=cst.Name(value=name)),
            comparisons=[cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))],
        ):
            owner = program.classes.around(test)
        case _:
            return False
    stores = [] if owner is None else owner.stores.get(name, [])
    return (
        bool(stores)
        and f"{name}=None" not in program.text
        and all(
            store.path == ()
            and isinstance(store.value, cst.Name)
            and _has_number(program, store.value)
            for store in stores
        )
    )


def _has_number(program: Program, name: cst.Name) -> bool:
    """Whether a name is a parameter whose default is a number."""
    given = [one.value for one in program.flow.reaching(name)]
    return bool(given) and all(
        isinstance(one, cst.Param) and isinstance(one.default, cst.BaseNumber) for one in given
    )


def makes_entry(program: Program, branch: cst.If, block: cst.BaseSuite) -> bool:
    """``if "loss" not in totals: totals["loss"] = ...`` of what stays: the first turn alone.

    ``block`` is the arm for what is not there yet: of ``if "loss" in totals:`` that is the other.
    """
    match branch.test:
        case cst.Comparison(
            left=key, comparisons=[cst.ComparisonTarget(operator=operator, comparator=kept)]
        ) if isinstance(operator, cst.NotIn if block is branch.body else cst.In):
            pass
        case _:
            return False
    match kept:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("keys")), args=[]):
            kept = inner
        case _:
            pass
    written = (
        one.target
        for line in program.index.below(block, cst.Assign)
        if _stands_in(program, line, block)
        for one in line.targets
    )
    return any(_is_entry(program, one, kept, key) for one in written) and any(
        _stays(program, turn, kept) and _comes_again(program, turn, key)
        for turn in _steps(program, branch)
    )


def _steps(program: Program, branch: cst.If) -> Iterator[cst.CSTNode]:
    """Yield the loop of the step that a branch is part of, that within it, or the function.

    A loop within an evaluation step (over losses, or heads of a model) is one as well, by itself.
    """
    role: Role | None = None
    for above in program.index.ancestors(branch):
        if isinstance(above, cst.FunctionDef):
            yield above
            return
        if isinstance(above, cst.For | cst.While) and program.loops.has_steps(above):
            if role not in (None, program.loops.role(above)):
                return
            role = program.loops.role(above)
            yield above


def _stays(program: Program, turn: cst.CSTNode, kept: cst.BaseExpression) -> bool:
    """Whether a dictionary outlasts a turn, which takes nothing out of it."""
    name, index = dotted(kept), program.index
    root = kept
    while isinstance(root, cst.Attribute):
        root = root.value
    if not name or not isinstance(root, cst.Name) or _stores(program, name, turn):
        return False
    if root.value != "self" and (
        isinstance(turn, cst.FunctionDef)
        or any(index.inside(one.node, turn) for one in program.flow.reaching(root))
    ):
        return False
    deleted = index.below(turn, cst.Del)
    return not any(name in program.code(one) for one in deleted) and not any(
        dotted(func.value) == name and index.inside(call, turn)
        for call, func in program.method_calls("pop", "popitem", "clear")
    )


def _comes_again(program: Program, turn: cst.CSTNode, key: cst.BaseExpression) -> bool:
    """Whether a key is the same in each turn, or those of an inner loop are: ``worker.name``."""
    if any(True for _ in program.index.below(key, cst.Call)):
        return False
    names = (one for one in program.index.below(key, cst.Name) if not is_label(program, one))
    return all(_is_same(program, turn, name) for name in names)


def _is_same(program: Program, turn: cst.CSTNode, name: cst.Name) -> bool:
    """Whether a part of a key is from before the turn, or of what each turn goes through anew."""
    made = program.flow.reaching(name)
    inside = [one for one in made if program.index.inside(one.node, turn)]
    if len(inside) == len(made) and made:
        return all(_is_gone_through(program, turn, one) for one in made)
    return not inside and not isinstance(program.parent(name), cst.Attribute)


def _is_gone_through(program: Program, turn: cst.CSTNode, binding: Binding) -> bool:
    """``for head in heads:``, ``for name, loss in losses.items():`` within a turn."""
    loop = program.index.nearest(binding.node, cst.For)
    if loop is None or loop is turn or not program.index.inside(binding.node, loop.target):
        return False
    match loop.iter:
        case cst.Call(func=cst.Attribute(attr=cst.Name("items" | "keys")), args=[]):
            return binding.path in ((), (0,))
        case _:
            parts = program.index.below(loop.iter, cst.Name)
            return not any(
                program.index.inside(one.node, turn)
                for part in parts
                if not is_label(program, part)
                for one in program.flow.reaching(part)
            )


def _is_entry(
    program: Program, target: cst.BaseExpression, kept: cst.BaseExpression, key: cst.BaseExpression
) -> bool:
    """``totals["loss"]``."""
    match target:
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=entry))]):
            same = literal(entry) == literal(key) is not None or program.same(entry, key)
            return same and dotted(value) == dotted(kept)
        case _:
            return False


def _outlasts(program: Program, branch: cst.If, owner: cst.BaseExpression) -> bool:
    """Whether no turn makes the object anew: ``self``, or what is bound outside the loop."""
    root = owner
    while isinstance(root, cst.Attribute):
        root = root.value
    if not isinstance(root, cst.Name):
        return False
    turn = _turn(program, branch)
    return root.value == "self" or (
        _is_step(program, turn)
        and not any(program.index.inside(b.node, turn) for b in program.flow.reaching(root))
    )


def _registered(program: Program, block: cst.CSTNode, owner: str, name: str) -> Iterator[cst.Call]:
    """Yield ``owner.register_buffer("name", ...)`` in a block."""
    for call, func in program.method_calls("register_buffer", "register_parameter"):
        if dotted(func.value) == owner and program.index.inside(call, block) and call.args:
            text = call.args[0].value
            if isinstance(text, cst.SimpleString) and text.raw_value == name:
                yield call


def _is_full(program: Program, branch: cst.If, test: cst.Comparison) -> bool:
    """``self.seen += len(x)`` in each turn, and ``if self.seen == self.size:`` after it."""
    if not isinstance(test.comparisons[0].operator, cst.Equal):
        return False
    sides = (test.left, test.comparisons[0].comparator)
    return any(_counts(program, branch, side) for side in sides)


def _counts(program: Program, branch: cst.If, node: cst.BaseExpression) -> bool:
    """Whether each turn adds to a count, or takes from it, that only a full one sets back."""
    if not _lasts(program, branch, node):
        return False
    if _is_number(program, branch, node):
        return True
    turn = _turn(program, branch)
    stores = _stores(program, dotted(node), turn)
    return any(
        isinstance(one, cst.AugAssign)
        and isinstance(one.operator, cst.AddAssign | cst.SubtractAssign)
        and _stands_in(program, one, _body(turn))
        for one in stores
    ) and all(
        isinstance(one, cst.AugAssign) or program.index.inside(one, branch.body) for one in stores
    )


def _finds_sample(program: Program, branch: cst.If, test: cst.Comparison) -> bool:
    """``if chosen in names: k = names.index(chosen)``: one sample, and the batch that has it."""
    wanted, among = test.left, test.comparisons[0].comparator
    loop = _turn(program, branch)
    if (
        not isinstance(test.comparisons[0].operator, cst.In)
        or not isinstance(among, cst.Name)
        or not isinstance(loop, cst.For)
        or not _is_step(program, loop)
    ):
        return False
    of_batch = any(one.value is loop.iter for one in program.flow.reaching(among))
    fixed = not any(
        program.index.inside(binding.node, loop)
        for name in program.index.below(wanted, cst.Name)
        for binding in program.flow.reaching(name)
    )
    return (
        of_batch
        and fixed
        and any(
            dotted(func.value) == among.value
            and program.index.inside(call, branch.body)
            and bool(call.args)
            and program.same(call.args[0].value, wanted)
            for call, func in program.method_calls("index")
        )
    )


def _is_step(program: Program, turn: cst.CSTNode) -> bool:
    """Whether a loop trains or evaluates, and is none of those inside a step."""
    return isinstance(turn, cst.For | cst.While) and program.loops.has_steps(turn)


def _turn(program: Program, node: cst.CSTNode) -> cst.CSTNode:
    """Return the innermost loop or function that a node stands in."""
    above = program.index.ancestors(node)
    return next((one for one in above if isinstance(one, _TURNS)), program.module)


def _body(turn: cst.CSTNode) -> cst.CSTNode | None:
    return turn.body if isinstance(turn, cst.For | cst.While | cst.FunctionDef) else None


def _stands_in(program: Program, line: cst.CSTNode, block: cst.CSTNode | None) -> bool:
    """Whether a statement runs each time that a block does."""
    above = program.parent(line)
    if isinstance(above, cst.SimpleStatementLine):
        above = program.parent(above)
    return above is block


def _stores(program: Program, name: str, turn: cst.CSTNode) -> list[_Store]:
    """Return what gives a name or an attribute a value in a turn, by its text."""
    index = program.index
    found: list[_Store] = [
        one
        for one in index.below(turn, cst.Assign)
        if any(dotted(bound) == name for target in one.targets for bound in _bound(target.target))
    ]
    found += [one for one in index.below(turn, cst.AugAssign) if dotted(one.target) == name]
    found += [one for one in index.below(turn, cst.AnnAssign) if dotted(one.target) == name]
    return found


def _bound(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what an assignment gives values: ``a`` and ``b.c`` in ``a, b.c = 1, 2``."""
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _bound(element.value)
    else:
        yield target
