"""Reads of the GPU that find nothing left to wait for: another wait came right before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.collected import bound_by, whole
from torchlint.analysis.conditions import past_device_checks
from torchlint.analysis.host_numbers import on_gpu
from torchlint.analysis.host_results import (
    decides_step,
    feeds_arrays,
    handed_on,
    is_due,
    loop_around,
    needed_now,
    picks_step,
)
from torchlint.analysis.loops import Role
from torchlint.analysis.origins import origins
from torchlint.analysis.queued import OPERATIONS, asks_gpu, queues, target_of
from torchlint.analysis.reached_returns import Way
from torchlint.analysis.syncs import Read, items
from torchlint.analysis.uploads import is_upload
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync
    from torchlint.syntax.scopes import Scope

_DECIDES = (
    cst.If, cst.While, cst.IfExp, cst.Assert, cst.UnaryOperation, cst.BooleanOperation
)  # fmt: skip
_ARITHMETIC = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.AugAssign)
_FEW = 6  # operations that are over before a read could wait for them
_SLIGHT = frozenset(
    {"abs", "argmax", "clamp", "clone", "eq", "exp", "float", "gather", "ge", "gt", "le", "log",
     "log_softmax", "lt", "max", "mean", "min", "ne", "sigmoid", "softmax", "sqrt", "sum",
     "l1_loss", "mse_loss", "smooth_l1_loss", "binary_cross_entropy"}
)  # fmt: skip
_DEPTH = 3  # functions that call the one that reads
_TURNS = (cst.For, cst.While, cst.CompFor)
_NAMES = (cst.Name, cst.Attribute)
_FINITE = ("torch.isnan", "torch.isinf", "torch.isfinite")
_DYNAMIC = ("O1", "O2")  # levels of apex that look for a scale by themselves
# What stands in functions that wait.
_READS = frozenset({"item", "cpu", "tolist", "to", "float", "int", "synchronize"})


def waited(
    program: Program, sync: Sync, together: Sequence[Sync] = ()
) -> cst.BaseExpression | None:
    """Return the wait of the same step after which nothing was queued when a tensor is read.

    Of several reads one after the other the first one waits for the work of the GPU, or the last
    one that will not go.  Reads that are looked at together are no wait before one another.
    """
    own = _own_wait(program, sync)
    if own is not None:
        return own
    last = _last_wait(program, sync.node, together)
    if last is None or _queues_between(program, last, sync.node):
        return _waiting_update(program, sync)
    earlier = next((s for s in program.syncs if s.node is last), None)
    if earlier is None or _is_needed(program, earlier):
        return last
    return waited(program, earlier) or last


def _own_wait(program: Program, sync: Sync) -> cst.BaseExpression | None:
    """``mask.nonzero()`` in ``mask.nonzero()[:, 0].tolist()``: what waits in the read itself.

    A number that is drawn in each turn could be drawn for all turns at once.
    """
    node = sync.node
    for wait in program.implied_waits:
        within = wait is not node and program.index.inside(wait, node)
        if isinstance(wait, cst.Call) and program.qualified(wait.func) == "torch.multinomial":
            continue
        if within and not _queues_between(program, wait, node):
            return wait
    return None


def _last_wait(
    program: Program, node: cst.CSTNode, together: Sequence[Sync] = ()
) -> cst.BaseExpression | None:
    """Return the last of the waits that always come before a read or a call, in its function."""
    alike = {id(one.node) for one in together}
    before = (wait for wait in _before(program, node) if id(wait) not in alike)
    return max(before, key=program.index.order, default=None)


def calls_that_wait(program: Program) -> list[cst.Call]:
    """Return the calls that wait for what they are given before they queue more.

    Only those in functions that read something as well.
    """
    reading = {id(program.function(sync.node)) for sync in program.syncs}
    return [
        call
        for call in program.index.of(cst.Call)
        if id(program.function(call)) in reading and _waits_first(program, call)
    ]


def _waits_first(program: Program, call: cst.Call) -> bool:
    given = any(on_gpu(program, arg.value) for arg in call.args)
    target = target_of(program, call) if given else None
    return target is not None and _first_wait(*target) is not None


def _timed(program: Program, sync: Sync) -> cst.Call | None:
    """``timed(step)``, where a function that ends with a read is called, and then waited for."""
    function = program.function(sync.node)
    if function is None or not isinstance(program.smallest_statement(sync.node), cst.Return):
        return None
    for name in program.index.named.get(function.name.value, ()):
        arg = program.parent(name)
        call = program.parent(arg) if isinstance(arg, cst.Arg) else None
        target = target_of(program, call) if isinstance(call, cst.Call) else None
        if target is not None and isinstance(call, cst.Call) and _waits_for_given(*target):
            return call
    return None


def _waits_for_given(home: Program, function: cst.FunctionDef) -> bool:
    """Whether a function calls one that it is given, and waits for the GPU afterwards."""
    given = {param.name.value for param in function.params.params}
    waits = [one for one in home.waits if home.function(one) is function]
    return any(
        home.index.order(call) < home.index.order(wait)
        for wait in waits
        for call in home.index.below(function.body, cst.Call)
        if isinstance(call.func, cst.Name) and call.func.value in given
    )


def _certain(program: Program) -> list[cst.BaseExpression]:
    """Return the waits that are no reads."""
    return [*program.waits, *program.index_copies]


def _has_to_stay(program: Program, sync: Sync) -> bool:
    """Whether the step needs what it reads at once."""
    needed = needed_now(program, sync) if sync.copies else is_due(program, sync)
    return needed or decides_step(program, sync)


def _first_wait(home: Program, function: cst.FunctionDef) -> cst.BaseExpression | None:
    """Return the wait that a function begins with each time that it runs.

    A read is one where the function needs it: for a library of arrays, or to decide by.
    """
    index, body = home.index, function.body
    if not _may_read(home, body):
        return None  # the usual case, and cheap to see
    waits: list[cst.BaseExpression] = [w for w in home.waits if home.function(w) is function]
    reads = (sync for sync in home.syncs if home.function(sync.node) is function)
    waits += [
        sync.node
        for sync in reads
        if _has_to_stay(home, sync) or (sync.copies and feeds_arrays(home, sync))
    ]
    for wait in waits:
        late = _queues_in(home, body, index.order(body), index.end(wait), wait)
        if not late and _always_runs(home, wait, function):
            return wait
    return None


def _may_read(home: Program, body: cst.CSTNode) -> bool:
    """Whether a name stands in a body that reads have."""
    old = ".data[0]" in home.text
    return any(
        name.value in _READS or (old and name.value == "data")
        for name in home.index.below(body, cst.Name)
    )


def _stays(program: Program, wait: cst.BaseExpression, sync: Sync) -> bool:
    """Whether a wait before a read is one that will not go."""
    if any(one is wait for one in _certain(program)):
        return not any(one is wait for one in (*program.needless_waits, *program.timed_waits))
    if any(one is wait for one in program.implied_waits):
        if sync.context.role is not Role.EVAL and _is_only_summed(program, wait):
            return False
        decides = isinstance(program.parent(wait), _DECIDES) and not (
            picks_step(program, wait) or keeps_out_nan(program, wait)
        )
        return sync.context.role is Role.EVAL or not decides
    other = next((one for one in program.syncs if one.node is wait), None)
    return other is not None and _is_needed(program, other)


def _is_only_summed(program: Program, wait: cst.BaseExpression) -> bool:
    """``right.masked_select(mask).sum()``: `(right & mask).sum()` need not know how many."""
    match wait:
        case cst.Call(func=cst.Attribute(attr=cst.Name("masked_select"))):
            used = program.parent(wait)
            return isinstance(used, cst.Attribute) and used.attr.value == "sum"
        case _:
            return False


def keeps_out_nan(program: Program, wait: cst.BaseExpression) -> bool:
    """``if not torch.isnan(term): loss = loss + term``: masked by `where`, NaN has gradients."""
    asks = [wait, *program.index.below(wait, cst.Call)]
    if not any(isinstance(c, cst.Call) and program.qualified(c.func) in _FINITE for c in asks):
        return False
    branch = next(a for a in program.index.ancestors(wait) if isinstance(a, cst.BaseStatement))
    below = program.index.below
    values = [line.value for line in below(branch, cst.Assign)]
    values += [line.value for line in below(branch, cst.AugAssign)]
    return isinstance(branch, cst.If) and any(on_gpu(program, value) for value in values)


def _begins_after_wait(program: Program, node: cst.CSTNode, sync: Sync, depth: int = 0) -> bool:
    """Whether a function has queued nothing when it gets to a read, or to the call that reads.

    And whoever calls it has just waited for something that stays.
    """
    function, index = program.function(node), program.index
    if function is None or depth == _DEPTH or loop_around(program, node) is not None:
        return False
    start = index.order(function.body)
    if _queues_in(program, function.body, start, index.end(node), node):
        return False
    sites = program.sites_everywhere(function)
    return bool(sites) and all(_follows_wait(home, site, sync, depth) for home, site in sites)


def _follows_wait(home: Program, call: cst.Call, sync: Sync, depth: int) -> bool:
    """Whether a wait that stays comes right before a call."""
    last = _last_wait(home, call)
    if last is None:
        return _begins_after_wait(home, call, sync, depth + 1)
    return _stays(home, last, sync) and not _queues_between(home, last, call)


def _is_needed(program: Program, sync: Sync) -> bool:
    """Whether a read that comes first is one that will not go."""
    return needed_now(program, sync) or handed_on(program, sync) or decides_step(program, sync)


def asked_before(program: Program, sync: Sync) -> str:
    """Return the condition on values of the GPU under which a function is called that reads.

    That has waited, and the read comes only where it holds; "" where there is no such condition.
    """
    function = program.function(sync.node)
    sites = [] if function is None else program.sites_everywhere(function)
    asked = {_asked(home, site) for home, site in sites}
    return asked.pop() if len(asked) == 1 else ""


def _asked(home: Program, site: cst.Call) -> str:
    """Return the nearest condition on values of the GPU around a call, in its function."""
    child: cst.CSTNode = site
    for above in home.index.ancestors(site):
        match above:
            case cst.FunctionDef():
                return ""
            case cst.If(test=test) if child is above.body:
                if asks_gpu(home, test) or any(home.index.inside(s.node, test) for s in home.syncs):
                    return home.brief(test)
            case _:
                pass
        child = above
    return ""


def costs(
    program: Program,
    sync: Sync,
    before: cst.BaseExpression | None,
    after: cst.BaseExpression | None = None,
) -> str:
    """Say what a read costs, given the waits around it, as a phrase for messages."""
    asked = asked_before(program, sync)
    often = f"in {sync.step}s where `{asked}`" if asked else f"in every {sync.step}"
    if before is None and after is not None:
        last = program.brief(after)
        return f"waits for the GPU {often}, but so does `{last}` after it: they have to go together"
    if before is None:
        return f"waits for the GPU {often}"
    first = program.brief(before)
    if reads_again(program, before, sync):
        return f"copies anew {often} what `{first}` has already read"
    return (
        f"waits for its own copy alone {often}, as `{first}` has just waited for the GPU: they "
        "have to go together"
    )


def reads_again(program: Program, before: cst.BaseExpression, sync: Sync) -> bool:
    """Whether the wait before a read has read the very value, which nothing has changed since."""
    if program.code(before) != program.code(sync.node) and not _is_same(program, before, sync):
        return False
    index, below = program.index, program.index.below
    first, again = _scopes(program, before), _scopes(program, sync.node)
    if any(first.get(name, scope) is not scope for name, scope in again.items()):
        return False  # `[v.item() for v in first]`, `[v.item() for v in second]`
    names = {dotted(one) for kind in _NAMES for one in below(sync.node, kind)}
    last = index.end(_repeated(program, before, sync.node))
    return not any(
        index.end(before) <= index.order(place) < last
        for name, place in _changes(program, program.function(sync.node) or program.module)
        if name.removesuffix(".data") in names
    )


def _scopes(program: Program, node: cst.CSTNode) -> dict[str, Scope | None]:
    """Return what the names in an expression are bound in."""
    index = program.index
    names = index.below(node, cst.Name)
    return {name.value: index.scope(name).owner(name.value) for name in names}


def _is_same(program: Program, before: cst.BaseExpression, sync: Sync) -> bool:
    """Whether two reads spell it differently: ``loss.item()``, ``float(loss.data)``."""
    first = next((one for one in program.syncs if one.node is before), None)
    return (
        first is not None
        and first.read is Read.SCALAR is sync.read
        and not any(_is_rounded(one.node) for one in (first, sync))
        and program.code(_undetached(first.tensor)) == program.code(_undetached(sync.tensor))
    )


def _is_rounded(node: cst.BaseExpression) -> bool:
    """``int(x)``, ``bool(x)``: not the number itself."""
    return isinstance(node, cst.Call) and dotted(node.func) in ("int", "bool")


def _undetached(node: cst.BaseExpression) -> cst.BaseExpression:
    match node:
        case cst.Attribute(value=inner, attr=cst.Name("data")):
            return _undetached(inner)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("detach")), args=[]):
            return _undetached(inner)
        case _:
            return node


def decides(program: Program, node: cst.CSTNode) -> bool:
    """Whether a read is a part of a condition: ``if not np.isfinite(loss.item()):``."""
    for above in program.index.ancestors(node):
        match above:
            case (
                cst.If(test=test)
                | cst.While(test=test)
                | cst.IfExp(test=test)
                | cst.Assert(test=test)
            ):
                return test is node or program.index.inside(node, test)
            case cst.BaseStatement() | cst.BaseSmallStatement():
                return False
            case _:
                pass
    return False


def _repeated(program: Program, first: cst.CSTNode, node: cst.CSTNode) -> cst.CSTNode:
    """Return the outermost loop around a node that does not hold an earlier one, or the node."""
    found = node
    for above in program.index.ancestors(node):
        if program.index.inside(first, above):
            break
        if isinstance(above, cst.For | cst.While):
            found = above
    return found


def _changes(program: Program, place: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield what a function assigns to or changes in place (``x += y``, ``x.add_(y)``), and where.

    Attributes with their dots, of entries the whole.
    """
    below = program.index.below
    for bound in below(place, cst.AssignTarget):
        yield from ((name, bound) for name in bound_by(bound.target))
    for loop in below(place, cst.For):
        yield from ((name, loop) for name in bound_by(loop.target))
    for added in below(place, cst.AugAssign):
        yield dotted(whole(added.target)), added
    for annotated in below(place, cst.AnnAssign):
        yield dotted(whole(annotated.target)), annotated
    for call in below(place, cst.Call):
        match call.func:
            case cst.Attribute(value=changed, attr=cst.Name(method)) if method.endswith("_"):
                yield dotted(whole(changed)), call
            case _:
                pass


def _before(program: Program, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the waits that always come before a read or a call, in its function."""
    index = program.index
    function, place = program.function(node), index.order(node)
    waits: list[cst.BaseExpression] = [s.node for s in program.syncs if not s.context.guarded]
    certain = [*_certain(program), *program.implied_waits, *_unknown_reads(program, function)]
    waits += [
        one for one in certain if not program.context(past_device_checks(program, one)).guarded
    ]
    waits += _waiting_calls(program, node)
    for wait in waits:
        ahead = index.order(wait) < place and not index.inside(node, wait)
        if ahead and program.function(wait) is function:
            around = past_device_checks(program, wait)  # where there is a GPU is enough
            if _always_first(program, wait if index.inside(node, around) else around, node):
                yield wait


def _unknown_reads(
    program: Program, function: cst.FunctionDef | None
) -> Iterator[cst.BaseExpression]:
    """Yield ``values.mean().item()`` of what nobody knows: of a tensor it is one more wait."""
    for read, of in items(program):
        if program.function(read) is function and program.value(of).kind is Kind.UNKNOWN:
            yield read


def _waiting_calls(program: Program, node: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield the calls of the function around a read that wait for the GPU in what they run."""
    function, index = program.function(node), program.index
    place = function or program.module
    for call in index.below(place, cst.Call):
        if index.order(call) < index.order(node) and program.function(call) is function:
            target = target_of(program, call)
            if target is None or program.context(call).guarded:
                continue
            if _ends_waiting(*target, call):
                yield call


def _ends_waiting(home: Program, function: cst.FunctionDef, site: cst.Call) -> bool:
    """Whether a function waits for the GPU each time that it runs, and queues nothing after it.

    By the way that a call takes: ``accuracy(y, x)`` may read what ``reduction="none"`` does not.
    """
    if not _may_read(home, function.body):
        return False  # the usual case, and cheap to see
    waits: list[cst.CSTNode] = [sync.node for sync in home.syncs if sync.read is not Read.SHOWN]
    waits += home.waits
    way = Way(home, function, site)
    return any(
        _always_runs(home, wait, function, way=way) and not _queues_after(home, wait, function)
        for wait in waits
        if home.function(wait) is function
    )


def _drains(program: Program, node: cst.CSTNode) -> bool:
    """Whether a call waits at its end for all that it has queued itself.

    It runs a function that does, or copies what was just made on the host.
    """
    if isinstance(node, cst.Call) and is_upload(program, node):
        return True
    target = target_of(program, node) if isinstance(node, cst.Call) else None
    if target is None:
        return False
    home, function = target
    index = home.index
    if not _may_read(home, function.body):
        return False
    return any(
        _always_runs(home, sync.node, function, leaving=False)
        and not _queues_after(home, sync.node, function)
        and not any(
            index.order(each) < index.order(one) and queues(home, each)
            for one in _leaving(home, function)
            if index.order(one) < index.order(sync.node)
            for kind in (cst.Call, *OPERATIONS)
            for each in index.below(function.body, kind)
        )
        for sync in home.syncs
        if home.function(sync.node) is function and sync.read is not Read.SHOWN
    )


def _always_runs(
    home: Program,
    wait: cst.CSTNode,
    function: cst.FunctionDef,
    *,
    leaving: bool = True,
    way: Way | None = None,
) -> bool:
    """Whether a wait runs in each call of a function; where there is a GPU is enough.

    Without ``leaving``, in each call that gets that far, of which loops have a turn.  With a
    ``way``, in each call that takes it.
    """
    way = Way(home, function) if way is None else way
    child = wait
    for above in home.index.ancestors(wait):
        match above:
            case cst.FunctionDef():
                break
            case cst.If(test=test) if "cuda" in home.code(test) and child is above.body:
                pass
            case cst.For() if not leaving:
                pass
            case cst.If(test=test) if child is not test and (truth := way.truth(test)) is not None:
                if truth is not (child is above.body):
                    return False
            case (
                cst.If() | cst.IfExp() | cst.BooleanOperation() | cst.For() | cst.While()
                | cst.Try() | cst.TryStar() | cst.Match() | cst.Lambda()
            ):  # fmt: skip
                return False
            case _:
                pass
        child = above
    return not leaving or not any(
        home.index.order(one) < home.index.order(wait) and way.comes_to(one)
        for one in _leaving(home, function)
    )


def _leaving(home: Program, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """Yield what leaves a function in its midst."""
    last = function.body.body[-1]
    for one in home.returns(function):
        if not home.index.inside(one, last):
            yield one


def _queues_after(home: Program, wait: cst.CSTNode, function: cst.FunctionDef) -> bool:
    """Whether a function queues anything after a wait, or by what takes its result."""
    index = home.index
    around = {id(above) for above in index.ancestors(wait)}
    return any(
        queues(home, node)
        for kind in (cst.Call, *OPERATIONS)
        for node in index.below(function.body, kind)
        if index.order(node) >= index.end(wait) or id(node) in around
    )


def _waiting_update(program: Program, sync: Sync) -> cst.BaseExpression | None:
    """Return what apex updated the parameters with before a read, for which it waits itself.

    LARC reads the norms of every parameter; the scaler of its amp reads whether a gradient is
    finite, where the block of `scale_loss` ends.
    """
    index, node = program.index, sync.node
    if "apex" not in program.text:
        return None
    found = [*_steps_of_larc(program), *_scaled_losses(program)]
    waits = [
        wait
        for wait in found
        if program.function(wait) is program.function(node)
        and index.order(wait) < index.order(node)
        and not program.context(wait).guarded
        and _always_first(program, wait, node)
    ]
    last = max(waits, key=index.order, default=None)
    if last is None:
        return None
    block = program.statement(last)
    return None if _computes_between(program, index.end(block), node) else last


def _steps_of_larc(program: Program) -> Iterator[cst.Call]:
    """Yield ``optimizer.step()`` of an optimizer that may be apex's LARC."""
    for call, func in program.method_calls("step"):
        made = (one for one in origins(program, func.value) if isinstance(one, cst.Call))
        if any(program.qualified(one.func).endswith(".LARC") for one in made):
            yield call


def _scaled_losses(program: Program) -> Iterator[cst.Call]:
    """Yield ``scale_loss(...)`` of ``with amp.scale_loss(loss, optimizer) as scaled: ...``."""
    calls = program.method_calls("scale_loss") if _scale_changes(program) else ()
    for call, _ in calls:
        # apex looks at the gradients later where that is delayed, as in all but every n-th step
        delayed = program.argument(call, "delay_unscale", "apex.amp.scale_loss")
        is_asked = delayed.absent or delayed.literal() == "False"
        if is_asked and isinstance(program.parent(call), cst.WithItem):
            yield call


def _scale_changes(program: Program) -> bool:
    """Whether the file has apex look at each gradient to set its scale; a fixed one asks nothing.

    ``amp.initialize(model, optimizer, opt_level="O1")``, or with ``loss_scale="dynamic"``.
    """
    calls = list(program.calls_of("apex.amp.initialize"))
    return bool(calls) and all(_is_dynamic(program, call) for call in calls)


def _is_dynamic(program: Program, call: cst.Call) -> bool:
    names = ("loss_scale", "opt_level", "enabled")
    scale, level, enabled = (program.argument(call, name) for name in names)
    if not enabled.absent and enabled.literal() != "True":
        return False
    if not scale.absent:
        return (scale.literal() or "").strip("'\"") == "dynamic"
    return level.absent or (level.literal() or "").strip("'\"") in _DYNAMIC


def _computes_between(program: Program, start: int, node: cst.CSTNode) -> bool:
    """Whether a model runs, forward or backward, between a place and a read."""
    index = program.index
    return any(
        start <= index.order(call) < index.order(node)
        and (
            program.value(call.func).kind is Kind.MODULE
            or (isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward")
        )
        for call in index.of(cst.Call)
    )


def _always_first(program: Program, first: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a node is evaluated each time before another, later one of the function is."""
    child = first
    for above in program.index.ancestors(first):
        around = program.index.inside(node, above)
        match above:
            case cst.If(body=body) if (
                child is above.orelse and not around and _is_first(program, body, child)
            ):
                pass
            case cst.If(test=needed) | cst.IfExp(test=needed) | cst.While(test=needed):
                if child is not needed:
                    return around and program.index.inside(node, child)
            case cst.For(iter=needed) | cst.BooleanOperation(left=needed):
                if child is not needed:
                    return around and program.index.inside(node, child)
            case cst.Try(body=needed) | cst.TryStar(body=needed):
                if child is not needed or (around and not program.index.inside(node, needed)):
                    return False
            case (
                cst.Lambda() | cst.FunctionDef() | cst.ClassDef() | cst.ExceptHandler()
                | cst.ExceptStarHandler() | cst.MatchCase()
            ):  # fmt: skip
                return False
            case _:
                pass
        if around:
            return True
        child = above
    return False


def _is_first(program: Program, body: cst.BaseSuite, orelse: cst.CSTNode) -> bool:
    """Whether a branch is for the first turn alone, and what stands in ``else`` for all others."""
    return (
        isinstance(orelse, cst.Else)
        and program.context(body.body[0]).guarded
        and not program.context(orelse.body.body[0]).guarded
    )


def _queues_between(program: Program, wait: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether anything may be queued for the GPU after a wait and before, or by, a read."""
    index = program.index
    around = next(above for above in index.ancestors(wait) if index.inside(node, above))
    first, last = index.end(wait), index.end(node)
    for above in index.ancestors(node):
        if above is around:
            break
        once = isinstance(above, cst.For) and index.inside(node, above.iter)
        if isinstance(above, cst.For | cst.While) and not once:
            last = index.end(above)  # in its second turn all of the loop comes before the read
    after = [above for above in index.ancestors(wait) if index.inside(above, around)]
    after = [above for above in after if above is not around and not index.inside(node, above)]
    queued = [above for above in after if queues(program, above)]
    if not all(_is_slight(program, above, around) for above in queued):
        return True
    return _queues_in(program, around, first, last, node, slight=len(queued))


def _queues_in(
    program: Program,
    around: cst.CSTNode,
    first: int,
    last: int,
    node: cst.CSTNode,
    *,
    slight: int = 0,
) -> bool:
    """Whether anything below a node may be queued from one place to another, for a wait there.

    ``slight``: how many operations that take no time were queued there before.
    """
    index = program.index
    holders = {id(node), *(id(above) for above in index.ancestors(node))}
    for kind in (cst.Call, *OPERATIONS):
        for found in index.below(around, kind):
            if first <= index.order(found) < last and id(found) not in holders:
                now = index.inside(found, node) or not program.context(found).guarded
                if now and queues(program, found) and not _drains(program, found):
                    slight += 1
                    if slight > _FEW or not _is_slight(program, found, around):
                        return True
    return False


def _is_slight(program: Program, node: cst.CSTNode, around: cst.CSTNode) -> bool:
    """Whether an operation, run once, is over in no time: arithmetic, or a sum of it."""
    for above in program.index.ancestors(node):
        if above is around:
            break
        if isinstance(above, _TURNS):
            return False
    match node:
        case cst.BinaryOperation(operator=cst.MatrixMultiply()):
            return False
        case cst.Call(func=cst.Attribute(attr=cst.Name(name))) if name in _SLIGHT:
            known = program.qualified(node.func)
            return not known or known.startswith("torch.")
        case _:
            return isinstance(node, _ARITHMETIC)
