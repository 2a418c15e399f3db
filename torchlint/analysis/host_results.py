"""What is read because the same turn needs it on the host: files, images, answers to a user.

Such a copy cannot be put off until after the loop.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.collected import bound_by, is_collected, mentions, turn_of, whole
from torchlint.analysis.host_numbers import PLAIN, on_gpu
from torchlint.analysis.loops import Role
from torchlint.analysis.picked import picks
from torchlint.analysis.scaling import exclusive
from torchlint.analysis.sinks import is_sink
from torchlint.analysis.uploaded import was_uploaded
from torchlint.analysis.values import Device, Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync
    from torchlint.analysis.values import Value
    from torchlint.syntax.scopes import Binding

_WRITES = re.compile(
    r"save|write|imsave|dump|export|imshow|add_(video|images?|figure)", re.IGNORECASE
)
# What makes an array in a file: of h5py, PyTables, Zarr and NumPy.
_IN_FILES = frozenset({
    "create_dataset", "require_dataset", "create_array", "create_carray", "create_earray",
    "memmap", "open_memmap",
})  # fmt: skip
_SHOWS = re.compile(r"imshow|add_(video|images?|figure)")
_SPARES = re.compile(r"#.*\b(memory|OOM)\b", re.IGNORECASE)
_DRAWS = re.compile(r"visuali[sz]|(^|_)(vis|viz|draw|plot)(_|$)", re.IGNORECASE)
_DRAWN = re.compile(r"visuali[sz]|grad_?cam", re.IGNORECASE)  # a network may be called DRAW
_CHAINS = re.compile(r"generat|sampl|_loop$|beam|translat", re.IGNORECASE)
# What is said of decoding alone.
_DECODING = frozenset({"num_beams", "max_new_tokens", "do_sample", "num_return_sequences"})
_MODEL = re.compile(r"(^|_)(model|net|network|forward|decoder|generator)(_|$)", re.IGNORECASE)
_GATHERS = re.compile(r"torch\.distributed\.(\w*gather|broadcast|i?recv|all_to_all)")
_ENDS = (cst.Break, cst.Return)
_IMAGES = ("cv2.", "PIL.", "skimage.", "imageio.")
_ARRAYS = (*_IMAGES, "scipy.", "sklearn.")
_SUPPRESSES = re.compile(r"(^|_)nms|non_max", re.IGNORECASE)


# -- what an evaluation does with its results turn by turn ----------------------------------------


def needed_now(program: Program, sync: Sync) -> bool:
    """Whether an evaluation needs a copy in the very turn, or makes it to spare the GPU's memory.

    It writes or shows its results turn by turn, or answers a user.  What a forward pass computes
    with on the host, or draws, it needs there, and what non-maximum suppression leaves has been
    waited for.  So does a model on the host its gradients, which processes share.
    """
    if _is_gradient(program, sync.node):
        return True
    if sync.context.role is not Role.EVAL:
        return sync.context.role is Role.FORWARD and (
            _leaves_torch(program, sync) or _draws(program, sync)
        )
    if is_due(program, sync):
        return True
    if _spares_memory(program, sync) or _draws(program, sync) or _fills_file(program, sync.node):
        return True
    if _is_left(program, sync):
        return True
    for place in (sync.context.loop, program.function(sync.node)):
        for call in () if place is None else program.index.below(place, cst.Call):
            name = dotted(call.func).rpartition(".")[2]
            if name == "input" and place is sync.context.loop:
                return True
            if _WRITES.search(name) and not program.context(call).guarded:
                return place is sync.context.loop or _SHOWS.search(name) is not None
    return False


def _fills_file(program: Program, node: cst.CSTNode) -> bool:
    """``features[i : i + n] = out.cpu().numpy()`` of ``features = file.create_dataset(...)``."""
    match program.smallest_statement(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(value=cst.Name() as name))]):
            made = (one.value for one in program.flow.reaching(name))
            return any(
                isinstance(one, cst.Call) and dotted(one.func).rpartition(".")[2] in _IN_FILES
                for one in made
            )
        case _:
            return False


def _is_gradient(program: Program, node: cst.CSTNode) -> bool:
    """``shared.grad = param.grad.cpu()``: a gradient is where its parameter is."""
    match program.parent(node):
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Attribute(attr=cst.Name("grad" | "_grad")))]
        ):
            return True
        case _:
            return False


def _leaves_torch(program: Program, sync: Sync) -> bool:
    """``x.tolist()`` and ``x.detach().cpu().numpy()``: for arrays or plain Python."""
    outer: cst.CSTNode = sync.node
    for above in program.index.ancestors(sync.node):
        if not isinstance(above, cst.Call | cst.Attribute):
            break
        outer = above
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value in ("numpy", "tolist")
        for call in program.index.below(outer, cst.Call)
        if program.index.inside(sync.node, call)
    )


def is_due(program: Program, sync: Sync) -> bool:
    """Whether an evaluation does more with what it reads than collect it for after the loop."""
    if sync.context.role is not Role.EVAL:
        return False
    if not is_collected(program, sync.node) or (sync.copies and picks(program, sync.node)):
        return True
    return not sync.copies and _is_total_printed(program, sync.node)


def _is_total_printed(program: Program, node: cst.CSTNode) -> bool:
    """``total += x.item(); print(total / n)``: whether a total is printed in each turn."""
    match program.smallest_statement(node):
        case cst.AugAssign(target=target) | cst.Assign(targets=[cst.AssignTarget(target=target)]):
            name, place = dotted(target), turn_of(program, node)
        case _:
            return False
    return bool(name) and any(
        not program.context(call).guarded and mentions(program, call, name)
        for call in program.index.below(place, cst.Call)
        if is_sink(program, call) or _is_progress(program, call)
    )


def _is_progress(program: Program, call: cst.Call) -> bool:
    """``progress_bar(step, steps, text)``: a function of the project that writes it out."""
    target, other = program.calls.target(call), program.calls.elsewhere(call)
    if target is None and other is None:
        return False
    home, function = (program, target) if other is None else (other.program, other.function)
    return function is not None and any(
        home.qualified(one.func) == "sys.stdout.write" and home.function(one) is function
        for one in home.index.below(function, cst.Call)
    )


def is_for_drawing(program: Program, node: cst.CSTNode) -> bool:
    """Whether a function, its file or the folder of that is named after drawing."""
    path = program.path
    if path is not None and (_DRAWN.search(path.stem) or _DRAWN.search(path.parent.name)):
        return True
    return any(
        (_DRAWS if type(one) is cst.FunctionDef else _DRAWN).search(one.name.value)
        for one in program.index.ancestors(node)
        if isinstance(one, cst.FunctionDef | cst.ClassDef)
    )


def handed_on(program: Program, sync: Sync) -> bool:
    """Whether an evaluation needs what it reads at once, or has run a whole chain for it.

    A generator yields it, the next input is made of it, or the loop ends by it.
    """
    if sync.context.role is not Role.EVAL:
        return False
    return _decides_end(program, sync) or _is_token(program, sync) or _ends_chain(program, sync)


def _grown(program: Program, names: set[str], loop: cst.CSTNode) -> set[str]:
    """Return names, and those of a loop that hold anything made of them."""
    index, size = program.index, 0
    while size < len(names):
        size = len(names)
        for assign in index.below(loop, cst.Assign):
            if _mentions(program, assign.value, names):
                names.update(n for one in assign.targets for n in bound_by(one.target))
        for inner in index.below(loop, cst.For):
            if inner is not loop and _mentions(program, inner.iter, names):
                names.update(bound_by(inner.target))
        for call in index.below(loop, cst.Call):
            match call.func:
                case cst.Attribute(value=cst.Name(value=kept), attr=cst.Name("append" | "extend")):
                    if any(_mentions(program, arg.value, names) for arg in call.args):
                        names.add(kept)
                case _:
                    pass
    return names


def _mentions(program: Program, node: cst.CSTNode, names: set[str]) -> bool:
    return any(name.value in names for name in program.index.below(node, cst.Name))


def _decides_end(program: Program, sync: Sync) -> bool:
    """Whether a loop or its function ends by what is read: ``if token.item() == end: break``."""
    index = program.index
    for use in (sync.node, *_uses(program, sync)):
        for above in index.ancestors(use):
            if isinstance(above, cst.If | cst.While) and index.inside(use, above.test):
                return isinstance(above, cst.While) or _ends(above)
            if isinstance(above, cst.BaseStatement):
                break
    return False


def _is_token(program: Program, sync: Sync) -> bool:
    """Whether a loop of the function makes what is read of what the turn before made of it."""
    function, name = program.function(sync.node), dotted(whole(sync.tensor))
    if function is None or not name or name.partition(".")[0] in program.index.root.bindings:
        return False
    below = program.index.below
    loops = (*below(function, cst.For), *below(function, cst.While))
    return any(_follows_itself(program, loop, name) for loop in loops)


def _follows_itself(program: Program, loop: cst.CSTNode, name: str) -> bool:
    """Whether each turn gives a model what the last one has put under a name, for the next."""
    index, made = program.index, _grown(program, {name}, loop)
    given = (
        bound
        for assign in index.below(loop, cst.Assign)
        for target in assign.targets
        for bound in bound_by(target.target)
        if any(
            _mentions(program, arg, made)
            for call in index.below(assign.value, cst.Call)
            if _runs_model(program, call)
            for arg in call.args
        )
    )
    return name in _grown(program, set(given), loop)


def _runs_model(program: Program, call: cst.Call) -> bool:
    if program.value(call.func).kind is Kind.MODULE:
        return True
    name = dotted(call.func).rpartition(".")[2]
    return _MODEL.search(name) is not None


def _ends_chain(program: Program, sync: Sync) -> bool:
    """Whether each turn of the loop, or of one around it, runs a whole chain of a model."""
    loop = sync.context.loop
    while isinstance(loop, cst.For | cst.While):
        if _chains(program, loop):
            return runs_chain(program, loop)
        loop = loop_around(program, loop)
    return False


def runs_chain(program: Program, loop: cst.CSTNode | None) -> bool:
    """Whether each turn of a loop runs a model many times in one call: ``model.generate(x)``.

    That may be one of two ways to get the same, of which the other calls the model.  Where a turn
    does both, only a call that says how to decode is known to be so much more.
    """
    if not isinstance(loop, cst.For | cst.While):
        return False
    chains = [call for call in _chains(program, loop) if not program.context(call).guarded]
    if any(_decodes(call) for call in chains):
        return True
    return bool(chains) and not any(
        _runs_model(program, call) and not any(exclusive(program, call, one) for one in chains)
        for call in program.index.below(loop.body, cst.Call)
    )


def _chains(program: Program, loop: cst.For | cst.While) -> list[cst.Call]:
    return [call for call in program.index.below(loop.body, cst.Call) if is_chain(program, call)]


def is_chain(program: Program, call: cst.Call) -> bool:
    """``model.generate(x)``, ``sample_loop(model, shape)``, ``t5.generate(x, num_beams=4)``."""
    if not _CHAINS.search(dotted(call.func).rpartition(".")[2]):
        return False
    if _decodes(call):
        return True
    func = call.func
    given = [arg.value for arg in call.args]
    given += [func.value] if isinstance(func, cst.Attribute) else []
    return any(
        program.value(one).kind is Kind.MODULE or _MODEL.search(dotted(one).rpartition(".")[2])
        for one in given
    )


def _decodes(call: cst.Call) -> bool:
    """``generate(ids, max_new_tokens=64)``: one token after the other."""
    return any(arg.keyword is not None and arg.keyword.value in _DECODING for arg in call.args)


def _ends(branch: cst.If) -> bool:
    return isinstance(_last(branch), _ENDS)


def _last(branch: cst.If) -> cst.CSTNode | None:
    """Return the last statement of a branch."""
    last = branch.body.body[-1] if branch.body.body else None
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last


def gathers(program: Program, sync: Sync) -> bool:
    """Whether a function gathers from all processes what it may have to pad to one size."""
    function = program.function(sync.node)
    return function is not None and any(
        _GATHERS.match(program.qualified(call.func))
        for call in program.index.below(function.body, cst.Call)
    )


# -- what training decides by its results in the very turn ----------------------------------------


def decides_step(program: Program, sync: Sync) -> bool:
    """Whether the turn takes its step, or goes without, by what is read.

    ``if torch.isfinite(loss).item(): optimizer.step()``, ``if loss.item() > 9: continue``; or
    whether there is one more: ``while error > 0.1: ...; error = loss.item()``.  What the step has
    copied to the GPU itself tells as much before it is copied.
    """
    return not was_uploaded(program, sync.tensor) and any(
        picks_step(program, use) or _picks_turn(program, use, sync.node)
        for use in (sync.node, *_uses(program, sync))
    )


def _picks_turn(program: Program, use: cst.CSTNode, read: cst.CSTNode) -> bool:
    """Whether a loop asks in each turn for what is read in it."""
    return any(
        isinstance(above, cst.While)
        and program.index.inside(use, above.test)
        and program.index.inside(read, above)
        for above in program.index.ancestors(use)
    )


def picks_step(program: Program, node: cst.CSTNode) -> bool:
    """Whether a branch on a node, or what comes after it, is where the step is taken."""
    return any(program.loops.updates(place, start) for place, start in _picked(program, node))


def _picked(program: Program, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, int]]:
    """Yield what a branch on a node decides over: its arms, and what it skips, from where on."""
    branch = next(a for a in program.index.ancestors(node) if isinstance(a, cst.BaseStatement))
    if not isinstance(branch, cst.If):
        return
    yield branch.body, 0
    if branch.orelse is not None:
        yield branch.orelse, 0
    loop = loop_around(program, branch)
    skipped: cst.CSTNode | None = None
    match _last(branch):
        case cst.Continue():
            skipped = loop
        case cst.Return() if loop is None:
            skipped = program.function(branch)
        case _:
            pass
    if skipped is not None:
        yield skipped, program.index.end(branch)


def feeds_arrays(program: Program, sync: Sync) -> bool:
    """Whether a copy, by itself or by its name, is for a library that only knows arrays."""
    return any(
        isinstance(above, cst.Call) and program.qualified(above.func).startswith(_ARRAYS)
        for use in (sync.node, *_uses(program, sync))
        for above in _within_statement(program, use)
    )


def _draws(program: Program, sync: Sync) -> bool:
    """Whether a library for images gets to work in the same turn, on a copy or after it."""
    place: cst.CSTNode | None = loop_around(program, sync.node)
    if place is None or not _has_own_loop(program, sync, program.function(sync.node)):
        place = program.function(sync.node) or place
    return place is not None and _draws_after(program, program.statement(sync.node), place)


def _is_left(program: Program, sync: Sync) -> bool:
    """Whether the boxes of each image have just been picked, which waits for the GPU by itself."""
    place = loop_around(program, sync.node) or program.function(sync.node)
    start = program.index.order(sync.node)
    return place is not None and any(
        program.index.order(call) < start
        and _SUPPRESSES.search(dotted(call.func).rpartition(".")[2])
        for call in program.index.below(place, cst.Call)
    )


def _draws_after(program: Program, node: cst.CSTNode, place: cst.CSTNode) -> bool:
    start = program.index.order(node)
    later = (c for c in program.index.below(place, cst.Call) if program.index.order(c) > start)
    return any(_is_drawn(program, call) and not program.context(call).guarded for call in later)


def _is_drawn(program: Program, call: cst.Call) -> bool:
    """Whether a library for images is called, or a function of the file that calls one."""
    if program.qualified(call.func).startswith(_IMAGES):
        return True
    if _DRAWS.match(dotted(call.func).rpartition(".")[2]):
        return True
    target = program.calls.target(call)
    return target is not None and any(
        program.qualified(inner.func).startswith(_IMAGES)
        for inner in program.index.below(target.body, cst.Call)
    )


def _uses(program: Program, sync: Sync) -> Iterator[cst.Name]:
    """Yield where the name is used that a copy is given."""
    statement = program.smallest_statement(sync.node)
    if not isinstance(statement, cst.Assign):
        return
    for target in statement.targets:
        name = target.target
        for use in program.index.named.get(name.value, ()) if isinstance(name, cst.Name) else ():
            if use is not name and any(one.node is name for one in program.flow.reaching(use)):
                yield use


def _within_statement(program: Program, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for above in program.index.ancestors(node):
        if isinstance(above, cst.BaseStatement):
            return
        yield above


def loop_around(program: Program, node: cst.CSTNode) -> cst.For | cst.While | None:
    """Return the innermost loop of the function around a node."""
    for above in program.index.ancestors(node):
        if isinstance(above, cst.For | cst.While):
            return above
        if isinstance(above, cst.FunctionDef):
            return None
    return None


def writes(program: Program, loop: cst.For | cst.While) -> bool:
    """Whether a loop writes something in each of its turns."""
    return any(
        _WRITES.search(dotted(call.func).rpartition(".")[2]) and not program.context(call).guarded
        for call in program.index.below(loop, cst.Call)
    )


def _frees(program: Program, loop: cst.CSTNode) -> bool:
    """Whether a loop gives back the memory of the GPU in each of its turns."""
    return any(
        program.index.inside(call, loop) and not program.context(call).guarded
        for call in program.calls_of("torch.cuda.empty_cache")
    )


def _spares_memory(program: Program, sync: Sync) -> bool:
    """Whether the loop frees memory, or a comment above the copy or the line before it says so."""
    loops = (loop_around(program, sync.node), sync.context.loop)
    if any(loop is not None and _frees(program, loop) for loop in loops):
        return True
    line = program.statement(sync.node)
    block = program.parent(line)
    if not isinstance(block, cst.IndentedBlock) or not _SPARES.search(program.text):
        return False
    place = next(i for i, one in enumerate(block.body) if one is line)
    return any(
        above.comment is not None and _SPARES.search(above.comment.value) is not None
        for one in block.body[max(0, place - 1) : place + 1]
        if isinstance(one, cst.SimpleStatementLine)
        for above in program.concrete.of(one).leading_lines
    )


# -- what the calls of a helper give it -----------------------------------------------------------


def _has_own_loop(program: Program, sync: Sync, function: cst.FunctionDef | None) -> bool:
    """Whether a loop inside the function is what makes the read run in every step."""
    loop = sync.context.loop
    return isinstance(loop, cst.For | cst.While) and any(
        above is function for above in program.index.ancestors(loop)
    )


def _gives(home: Program, site: cst.Call, given: cst.BaseExpression | None, sync: Sync) -> bool:
    context = home.context(site)
    if context.guarded or context.role not in (Role.TRAIN, Role.EVAL, Role.FORWARD):
        return False
    if given is None:
        return True
    if context.role is not Role.EVAL:
        return not _is_on_host(home.value(given))
    loop = loop_around(home, site)
    return _is_on_gpu(home, given) and not (sync.copies and loop is not None and writes(home, loop))


def _is_on_host(value: Value) -> bool:
    if value.items:
        return all(_is_on_host(item) for item in value.items)
    plain = value.kind in (*PLAIN, Kind.NDARRAY)
    return plain or (value.kind in (Kind.TENSOR, Kind.BATCH) and value.device is Device.CPU)


def _is_on_gpu(program: Program, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.List | cst.Tuple):
        return any(_is_on_gpu(program, element.value) for element in node.elements)
    return on_gpu(program, node)


def _sources(program: Program, node: cst.BaseExpression) -> list[cst.Param] | None:
    """Return the parameters that an expression is made of; None if of anything else."""
    found: dict[int, cst.Param] = {}
    seen: set[int] = set()
    todo: list[cst.CSTNode | None] = [node]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        match one:
            case cst.Name():
                bindings = program.flow.reaching(one)
                if not bindings:
                    return None
                todo += [_bound(binding) for binding in bindings]
            case cst.Param() if not _is_self(program, one):
                found[id(one)] = one
            case cst.Call(func=cst.Attribute(value=inner) as func):
                todo.append(None if program.qualified(func) else inner)
            case cst.Attribute() | cst.Subscript():
                todo.append(one.value)
            case cst.List() | cst.Tuple():
                todo += [element.value for element in one.elements]
            case _:
                return None
    return list(found.values())


def _bound(binding: Binding) -> cst.CSTNode | None:
    taken = binding.kind in (Bind.ASSIGN, Bind.FOR, Bind.PARAMETER)
    return binding.value if taken else None


def _is_self(program: Program, param: cst.Param) -> bool:
    function = program.function(param)
    first = function.params.params[:1] if function is not None else ()
    return function is not None and program.is_method(function) and param in first
