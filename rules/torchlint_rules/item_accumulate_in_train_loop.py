"""A running total reads the loss from the GPU in every training step.

## Why
`.item()` (and `float(loss)`) waits until the GPU has finished everything that was queued. Doing it
in every step keeps the CPU from running ahead, so the GPU idles between steps while the next
kernels are prepared. A sum that is read after the loop can stay on the device until then.
`loss.data[0]`, the spelling of `loss.item()` up to torch 0.4, is the same read.

## Bad
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(8, 4) for _ in range(3)]

    total = 0.0
    for batch in batches:
        loss = model(batch.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total)

## Good
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(8, 4) for _ in range(3)]

    total = 0.0
    for batch in batches:
        loss = model(batch.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.detach().double()
    total = float(total)
    print(total)

## Leaves alone
- reads under a periodic condition (`if step % 100 == 0`; `if rank == 0` is none: it holds in each
  step of the process that the others wait for), or asked for by an option, but not by one that says
  how to train (`if args.distributed:`, or `if args.clip > 0:` around what clips by it);
- totals after the loop, and totals of Python numbers;
- scripts that run on the CPU only: reading is free there;
- totals that are read in every step, also as `totals["loss"]` or on one rank: `log-every-step`
  reports those.
- reads right beside a wait that has to stay, such as `torch.cuda.synchronize()` around what is
  timed, or what an evaluation prints.

Totals of an evaluation loop are reported as information, and so are reads that come right after
another wait of the same step: they wait for their own copy alone, but would wait for the GPU in
its place. So is a read beside a `torch.cuda.synchronize()` that could go, or right before any,
before a tensor on the GPU is indexed with what is on the host, or before a function that begins
with a copy for a library of arrays: both have to go. So are those in a class or function that
nothing uses.

A total of what a condition of the same step has read already (`if not isfinite(loss.item()):`) is
told of without a fix: that number can be given a name.

A local total that nothing reads is reported as well: its line can go.

## Fix safety
Safe in the exact form: the total starts as a Python number, is only added to, and is read only
after the loop or at the head of a periodic block. It is then kept as a float64 tensor on the
device, which adds up to the same bits as Python's own float. Unsafe where the device may be MPS,
which has no float64 (the file names MPS, or gets its device from a caller or another file; of a
command-line option the default is taken at its word): there the total is kept in float32 and the
logged mean may differ in its last digits. There is no fix where the value is not proved to be a
tensor, nor for `loss.data[0]`, as a torch that runs it may not run what replaces it. A sum that
nothing reads is deleted, which is safe where the line does nothing else.

## Evidence
A CPU has nothing to show: on a CPU the loss is there already, and reading it is free.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
- PyTorch FAQ, "My model reports cuda runtime error(2): out of memory"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.loops import Role
from torchlint.analysis.ranks import picks_process
from torchlint.analysis.syncs import Read
from torchlint.analysis.unused import is_unused
from torchlint.analysis.uses import is_label
from torchlint.analysis.values import Kind
from torchlint.analysis.waits import (
    costs,
    decides,
    is_futile,
    reads_again,
    waited,
    waits_anyway,
)
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import DeleteStatement, InsertAfter, InsertBefore, Replace
from torchlint.rule import Finding, Severity
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync
    from torchlint.edits.rewrites import Rewrite
    from torchlint.syntax.scopes import Binding


AGAIN = "give the first number a name, and use it here as well"


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """``target += term`` with one read of a tensor in the term."""

    target: cst.BaseExpression
    sync: Sync


def item_accumulate_in_train_loop(program: Program) -> Iterator[Finding]:
    """Report running totals that read a GPU tensor in every step."""
    for sync in program.syncs:
        total = running_total(program, sync)
        if total is None:
            continue
        before = waited(program, sync)
        after = waits_anyway(program, sync) if before is None else None
        if is_futile(program, sync, before, after):
            continue
        once = sync.context.role is not Role.TRAIN or accumulates(program, sync.context.loop)
        once = once or is_unused(program, sync.node)
        severity = Severity.INFO if once or before is not None or after is not None else None
        name, read = program.code(total.target), program.brief(sync.node)
        unread = is_unread(program, total.target)
        graph = sync.context.role is Role.TRAIN and not _counts(program, sync)
        detached = ", detached," if graph else ""  # for those who add it up by hand
        seldom = _is_kept(total) or _is_read_in_loop(program, total)
        where = "only where it is reported" if seldom else "once after the loop"
        what = f"add up `{name}` on the device{detached} and read it {where}"
        again = before is not None and is_checked(program, sync)
        if again:
            what = AGAIN
        if unread:
            what = f"nothing reads `{name}`, so that the line can go"
        yield Finding(
            sync.node,
            f"`{read}` {costs(program, sync, before, after)}; {what}",
            delete(program, total) if unread else None if again else fix(program, total),
            severity,
            help=spelling(program, sync),
        )


def is_checked(program: Program, sync: Sync) -> bool:
    """Whether a condition has read the number before, in the same step: ``if not isfinite(...):``.

    That read is there to stay.
    """
    before = program.index.order(sync.node)
    return any(
        one.context.loop is sync.context.loop
        and not one.context.guarded
        and program.index.order(one.node) < before
        and decides(program, one.node)
        and reads_again(program, one.node, sync)
        for one in program.syncs
    )


def spelling(program: Program, sync: Sync) -> str:
    """Say how torch spells a read today; "" where it is spelled so."""
    return f"current torch spells it `{program.brief(sync.tensor)}.item()`" if sync.old else ""


def accumulates(program: Program, loop: cst.CSTNode | None) -> bool:
    """Whether the step stands around a loop, which adds up gradients: its totals are per step."""
    for above in () if loop is None else program.index.ancestors(loop):
        if isinstance(above, cst.For | cst.While):
            return program.loops.steps(above)
        if isinstance(above, cst.FunctionDef):
            return False
    return False


def running_total(program: Program, sync: Sync) -> Total | None:
    """The total that a read feeds, where this rule is the one to report it."""
    context = sync.context
    if (
        sync.read is not Read.SCALAR
        or context.guarded
        or context.role not in (Role.TRAIN, Role.EVAL)
    ):
        return None
    statement = program.statement(sync.node)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    target = grown(program, statement.body[0])
    if isinstance(target, cst.Attribute):
        return None  # kept beyond the loop, by whoever else reads it
    if target is None or not _is_term(program, sync.node, statement.body[0]):
        return None
    if isinstance(target, cst.Name) and _read_every_step(program, target, sync):
        return None
    if isinstance(target, cst.Subscript) and _entry_read_every_step(program, target, sync):
        return None
    return Total(target, sync)


def grown(program: Program, small: cst.CSTNode) -> cst.BaseExpression | None:
    """``x`` in ``x += ...`` and ``x = x + ...``."""
    match small:
        case cst.AugAssign(target=target, operator=cst.AddAssign()):
            return target
        case cst.Assign(
            targets=[cst.AssignTarget(target=target)],
            value=cst.BinaryOperation(left=left, operator=cst.Add()),
        ) if program.code(left) == program.code(target):
            return target
        case _:
            return None


def _is_term(program: Program, node: cst.CSTNode, small: cst.CSTNode) -> bool:
    """Whether a read is added as it is, or scaled: not an argument of some other call."""
    for above in program.index.ancestors(node):
        if above is small:
            return True
        if not isinstance(above, cst.BinaryOperation):
            return False
    return False


# -- reads of the total ---------------------------------------------------------------------------


def _reads(program: Program, target: cst.Name) -> list[cst.Name]:
    """Every mention of the total that is no assignment to it."""
    owner = program.index.scope(target).owner(target.value)
    return [
        name
        for name in program.index.named.get(target.value, ())
        if program.index.scope(name).owner(name.value) is owner
        and not _is_written(program, name)
        and not is_label(program, name)
    ]


def _is_written(program: Program, name: cst.Name) -> bool:
    above = program.parent(name)
    match above:
        case cst.AssignTarget() | cst.NameItem():
            return True
        case cst.AugAssign(target=target):
            return target is name
        case cst.BinaryOperation(left=left) if left is name:
            small = program.parent(above)  # x = x + ...
            return isinstance(small, cst.Assign) and grown(program, small) is not None
        case _:
            return False


def _read_every_step(program: Program, target: cst.Name, sync: Sync) -> bool:
    loop = sync.context.loop
    if loop is None:
        return False
    return any(
        program.index.inside(name, loop) and _is_of_each_step(program, name, loop)
        for name in _reads(program, target)
    )


def _is_of_each_step(program: Program, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
    return program.context(node).loop is loop and not _is_seldom(program, node, loop)


def _is_seldom(program: Program, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Whether a node runs now and then in each process; on one rank, but every step, is often."""
    if not program.context(node).guarded:
        return False
    child, often = node, node
    for above in program.index.ancestors(node):
        if above is loop:
            break
        if isinstance(above, cst.If) and child is above.body:
            if _asks_rank(program, above.test):
                often = above
            elif program.loops.is_guard(above.test):
                return True
        child = above
    return program.context(often).guarded


def _asks_rank(program: Program, test: cst.BaseExpression) -> bool:
    """Whether a condition asks for the process, and nothing else."""
    if isinstance(test, cst.BooleanOperation):
        return all(_asks_rank(program, side) for side in (test.left, test.right))
    return picks_process(program, test)


def _is_kept(total: Total) -> bool:
    """``self.stats["words"] += ...``: the object has it, and its other methods may read it."""
    target = total.target
    return isinstance(target, cst.Subscript) and isinstance(target.value, cst.Attribute)


def _is_read_in_loop(program: Program, total: Total) -> bool:
    """Whether a total is read every few steps, and started anew, and never after the loop."""
    loop = total.sync.context.loop
    if loop is None or not isinstance(total.target, cst.Name):
        return False
    reads = _reads(program, total.target)
    return bool(reads) and all(program.index.inside(name, loop) for name in reads)


def _entry_read_every_step(program: Program, target: cst.Subscript, sync: Sync) -> bool:
    """Whether each step reads a total that is kept as ``totals["loss"]``, or all of ``totals``."""
    code, loop = program.code(target), sync.context.loop
    if loop is None:
        return False
    if isinstance(target.value, cst.Name) and any(
        _is_of_each_step(program, name, loop) and not _is_of_entry(program, name)
        for name in _reads(program, target.value)
    ):
        return True
    return any(
        node is not target
        and program.code(node) == code
        and not isinstance(program.parent(node), cst.AssignTarget | cst.AugAssign)
        and not program.index.inside(node, program.statement(target))
        and _is_of_each_step(program, node, loop)
        for node in program.index.below(loop, cst.Subscript)
    )


def _is_of_entry(program: Program, name: cst.Name) -> bool:
    """``totals`` in ``totals["loss"]``."""
    above = program.parent(name)
    return isinstance(above, cst.Subscript) and above.value is name


def is_unread(program: Program, target: cst.BaseExpression) -> bool:
    """Whether nothing ever looks at a total: a local name that is only added to."""
    if not isinstance(target, cst.Name) or "locals()" in program.text or "vars()" in program.text:
        return False
    owner = program.index.scope(target).owner(target.value)
    local = owner is not None and isinstance(owner.node, cst.FunctionDef)
    return local and not _reads(program, target)


# -- the fix -------------------------------------------------------------------------------------


def fix(program: Program, total: Total) -> Fix | None:
    """Keep the total on the device; read it after the loop and where a periodic block begins."""
    target, sync = total.target, total.sync
    loop = sync.context.loop
    if not sync.sure or sync.old or program.frameworks or not isinstance(target, cst.Name):
        return None
    if not isinstance(loop, (cst.For, cst.While)) or program.statement(loop) is not loop:
        return None
    heads = _periodic_heads(program, target, loop)
    if heads is None or not _starts_as_number(program, target, loop):
        return None
    term = sync.node
    counts = _counts(program, sync) and _starts_whole(program, target)
    if not counts and not _stays_float(program, total):
        return None
    exact = counts or not program.devices.maybe_mps
    if not counts and not _scaled_exactly(program, term):
        return None
    code = program.code(_plain(sync.tensor))
    tensor = code if _is_primary(program, sync.tensor) else f"({code})"
    new = tensor if counts else f"{tensor}.detach().{'double' if exact else 'float'}()"
    convert = f"{target.value} = {'int' if counts else 'float'}({target.value})"
    rewrites: list[Rewrite] = [Replace(term, new)]
    rewrites += [InsertBefore(head, convert) for head in heads]
    if _read_later(program, target, loop):
        rewrites.append(InsertAfter(_last_conversion(program, loop), convert))
    return Fix(
        f"Add up `{target.value}` on the device",
        Safety.SAFE if exact else Safety.UNSAFE,
        tuple(rewrites),
        "" if exact else "the total is rounded to float32: MPS has no float64",
    )


def delete(program: Program, total: Total) -> Fix | None:
    """Delete a sum that nothing reads, where the line does nothing else."""
    line = program.statement(total.sync.node)
    if program.frameworks or total.sync.old or not total.sync.sure:
        return None
    if not isinstance(line, cst.SimpleStatementLine):
        return None
    if not all(_only_reads(call) for call in program.index.below(line, cst.Call)):
        return None
    return Fix(
        f"Delete the sum `{program.code(total.target)}`", Safety.SAFE, (DeleteStatement(line),)
    )


def _only_reads(call: cst.Call) -> bool:
    match call.func:
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in ("item", "detach", "cpu", "size", "mean", "sum", "eq")
        case cst.Name(value=name):
            return name in ("float", "int", "len")
        case _:
            return False


def _read_later(program: Program, target: cst.Name, loop: cst.For | cst.While) -> bool:
    """Whether the total is read, or added to, once the loop has ended."""
    if any(not program.index.inside(name, loop) for name in _reads(program, target)):
        return True
    owner = program.index.scope(target).owner(target.value)
    assert owner is not None
    block = program.parent(loop)
    return not any(
        _is_number(binding) and program.parent(program.statement(binding.node)) is block
        for binding in owner.bindings[target.value]
    ) or any(
        binding.kind is Bind.AUGMENT and not program.index.inside(binding.node, loop)
        for binding in owner.bindings[target.value]
    )


def _last_conversion(program: Program, loop: cst.For | cst.While) -> cst.BaseStatement:
    """The loop, or the last of the lines after it that read other totals: they stay in order."""
    last: cst.BaseStatement = loop
    block = program.parent(loop)
    statements = block.body if isinstance(block, (cst.IndentedBlock, cst.Module)) else ()
    for statement in statements[statements.index(loop) + 1 :] if loop in statements else ():
        match statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name(value=name))],
                        value=cst.Call(
                            func=cst.Name(value="float" | "int"),
                            args=[cst.Arg(value=cst.Name(value=read))],
                        ),
                    )
                ]
            ) if name == read:
                last = statement
            case _:
                break
    return last


def _is_primary(program: Program, node: cst.BaseExpression) -> bool:
    primary = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
    return isinstance(node, primary) or program.is_in_parentheses(node)


def _plain(node: cst.BaseExpression) -> cst.BaseExpression:
    """``loss.detach()``, ``loss.data`` and ``loss.cpu()`` without what the fix says anyway."""
    while True:
        match node:
            case cst.Call(
                func=cst.Attribute(value=inner, attr=cst.Name("detach" | "cpu")), args=[]
            ):
                node = inner
            case cst.Attribute(value=inner, attr=cst.Name("data")):
                node = inner
            case _:
                return node


def _periodic_heads(
    program: Program, target: cst.Name, loop: cst.For | cst.While
) -> list[cst.BaseStatement | cst.BaseSmallStatement] | None:
    """First statements of the periodic blocks of the loop that read the total; None: no fix."""
    heads: list[cst.BaseStatement | cst.BaseSmallStatement] = []
    owner = program.index.scope(target).owner(target.value)
    for name in _reads(program, target):
        if program.index.scope(name).function() is not owner:
            return None  # read by a nested function, at a time not known
        if _read_after_an_exception(program, name, loop):
            return None
        if not program.index.inside(name, loop):
            continue
        block = _guarded_block(program, name, loop)
        if block is None or not isinstance(block.body, cst.IndentedBlock):
            return None
        head = block.body.body[0]
        if head not in heads:
            heads.append(head)
    return heads


def _read_after_an_exception(program: Program, name: cst.Name, loop: cst.For | cst.While) -> bool:
    """Whether a read is reached when an exception ends the loop: nothing converts it then."""
    return any(
        isinstance(above, (cst.Try, cst.TryStar))
        and program.index.inside(loop, above.body)
        and not program.index.inside(name, above.body)
        for above in program.index.ancestors(loop)
    )


def _guarded_block(program: Program, name: cst.Name, loop: cst.For | cst.While) -> cst.If | None:
    """The outermost ``if`` of the loop's own body that holds a read in its branch."""
    found = None
    child: cst.CSTNode = name
    for above in program.index.ancestors(name):
        if above is loop:
            break
        if isinstance(above, (cst.For, cst.While, cst.FunctionDef, cst.Lambda)):
            found = None
        elif isinstance(above, cst.If):
            found = above if child is above.body else None
        child = above
    return found


def _starts_as_number(program: Program, target: cst.Name, loop: cst.CSTNode) -> bool:
    """Whether all that is ever bound to the total is a number, or a sum that this rule rewrites."""
    owner = program.index.scope(target).owner(target.value)
    if owner is None or owner is not program.index.scope(target).function():
        return False
    seen_start = False
    for binding in owner.bindings[target.value]:
        if program.index.scope(binding.node).function() is not owner:
            return False
        if _is_number(binding):
            seen_start = True
        elif program.index.inside(binding.node, loop):
            if not _is_this_sum(program, binding, target, loop):
                return False
        elif not _is_conversion(program, binding):
            return False
    return seen_start


def _is_number(binding: Binding) -> bool:
    return _start(binding) is not None


def _start(binding: Binding) -> cst.Integer | cst.Float | None:
    """The number a total starts as, where it is written out: ``total, hits = 0.0, 0``."""
    value: cst.CSTNode | None = binding.value if binding.kind is Bind.ASSIGN else None
    for place in binding.path:
        if not isinstance(value, cst.Tuple) or place >= len(value.elements):
            return None
        value = value.elements[place].value
    return value if isinstance(value, (cst.Integer, cst.Float)) else None


def _is_conversion(program: Program, binding: Binding) -> bool:
    """``total /= n`` and the like outside the loop: the total is a number there."""
    value = binding.value
    if binding.kind is Bind.AUGMENT and isinstance(value, cst.AugAssign):
        value = value.value
    return not binding.path and program.value(value).kind is Kind.NUMBER


def _is_this_sum(program: Program, binding: Binding, target: cst.Name, loop: cst.CSTNode) -> bool:
    """Whether a binding in the loop is the very sum that is rewritten."""
    statement = program.statement(binding.node)
    return program.index.inside(target, statement) and program.index.inside(statement, loop)


def _counts(program: Program, sync: Sync) -> bool:
    """Whether the tensor is a count: a truth value, or an unscaled sum of them."""
    if not isinstance(program.parent(sync.node), (cst.AugAssign, cst.BinaryOperation)):
        return False
    above = program.parent(sync.node)
    if isinstance(above, cst.BinaryOperation) and not isinstance(above.operator, cst.Add):
        return False
    match _plain(sync.tensor):
        case cst.Comparison() if sync.reads_whole:
            return True
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("sum")), args=[]):
            return _is_truth(inner)
        case cst.Call(
            func=cst.Attribute(value=cst.Name("torch"), attr=cst.Name("sum")), args=[arg]
        ):
            return _is_truth(arg.value)
        case _:
            return False


def _is_truth(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Comparison():
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name("eq" | "ne" | "gt" | "lt" | "ge" | "le"))):
            return True
        case _:
            return False


def _starts_whole(program: Program, target: cst.Name) -> bool:
    owner = program.index.scope(target).owner(target.value)
    assert owner is not None
    starts = [_start(b) for b in owner.bindings[target.value] if _is_number(b)]
    return all(isinstance(value, cst.Integer) for value in starts)


def _stays_float(program: Program, total: Total) -> bool:
    """Whether the total is a float in the end: it starts as one, or the tensor is proved to be.

    ``int(t)`` cuts off the fraction, and a whole number may be used as one later.
    """
    if total.sync.reads_whole:
        return False
    assert isinstance(total.target, cst.Name)
    owner = program.index.scope(total.target).owner(total.target.value)
    assert owner is not None
    starts = [_start(b) for b in owner.bindings[total.target.value] if _is_number(b)]
    return all(isinstance(v, cst.Float) for v in starts) or program.is_floating(total.sync.tensor)


def _scaled_exactly(program: Program, term: cst.CSTNode) -> bool:
    """Whether the term is the read itself, or the read times a Python number.

    A division may be made by a reciprocal on the device, which rounds otherwise.
    """
    for above in program.index.ancestors(term):
        if not isinstance(above, cst.BinaryOperation):
            return True
        if isinstance(above.operator, cst.Add):
            other = above.right if program.index.inside(term, above.left) else above.left
            small = program.parent(above)
            if not (isinstance(small, cst.Assign) and isinstance(other, cst.Name)):
                return False
            continue
        if not isinstance(above.operator, cst.Multiply):
            return False
        other = above.right if program.index.inside(term, above.left) else above.left
        if program.value(other).kind is not Kind.NUMBER and literal(other) is None:
            return False
    return True
