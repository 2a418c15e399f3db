"""What a file does with the optimizers that it makes: loads them, scales their steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.derivation import sources
from torchlint.analysis.handed_moves import moves_argument, to_host
from torchlint.analysis.importing import is_imported, texts_of_importers
from torchlint.analysis.left_out import files_with
from torchlint.analysis.origins import origins
from torchlint.analysis.reach import callee
from torchlint.analysis.uses import uses_of
from torchlint.analysis.values import Device, Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_CUDA = Device.CUDA
_MOVED = re.compile(r"\)\.(?:to|cuda)\(")
_MAY_BE_MODELS = (Kind.MODULE, Kind.UNKNOWN)
_DEPTH = 2  # calls that an optimizer is handed through
_STEPS_NOTHING = frozenset({"load_state_dict", "state_dict", "param_groups", "zero_grad"})


def is_made_by(program: Program, node: cst.BaseExpression, made: cst.Call) -> bool:
    """Whether an expression is the optimizer that a call makes, in a branch for one."""
    value = program.value(node)
    if value.kind is not Kind.OPTIMIZER or value.made is made:
        return value.kind is Kind.OPTIMIZER
    return value.made is None and any(one is made for one in origins(program, node))


def loads(program: Program, made: cst.Call) -> list[cst.Call]:
    """Return the calls of ``load_state_dict`` on the optimizer that a call makes."""
    return [
        call
        for call, func in program.method_calls("load_state_dict")
        if call.args and is_made_by(program, func.value, made)
    ]


def saves(program: Program) -> bool:
    """Whether the file takes the ``state_dict()`` of an optimizer: its checkpoints are its own."""
    return any(
        program.value(func.value).kind is Kind.OPTIMIZER
        or "opt" in dotted(func.value).rpartition(".")[2].lower()
        for _, func in program.method_calls("state_dict")
    )


def is_never_stepped(program: Program, made: cst.Call) -> bool:
    """Whether an optimizer has a name of its own, by which it only loads or tells its state.

    A scheduler may have it: that changes its learning rate, and no parameter.
    """
    match program.parent(made):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)]):
            binding = program.index.bound(target)
        case _:
            return False
    if binding is None or is_imported(program, binding):
        return False
    uses = list(uses_of(program, binding))
    return bool(uses) and all(_steps_nothing(program, use) for use in uses)


def _steps_nothing(program: Program, use: cst.Name, depth: int = 0) -> bool:
    match program.parent(use):
        case cst.Attribute(value=inner, attr=cst.Name(value=asked)):
            return inner is use and asked in _STEPS_NOTHING
        case cst.Arg(value=given, star="") as arg if given is use:
            call = program.parent(arg)
            return isinstance(call, cst.Call) and (
                program.value(call).kind is Kind.SCHEDULER
                or (depth < _DEPTH and _only_loads(program, call, use, depth))
            )
        case _:
            return False


def _only_loads(program: Program, call: cst.Call, given: cst.Name, depth: int) -> bool:
    """Whether a call of a function of the project only loads a state: ``resume(model, optimizer)``.

    It may give the optimizer back, where the call takes another of the results.
    """
    found = callee(program, call)
    if found is None:
        return False
    home, function = found
    own = home.index.opened(function).bindings
    uses = [
        use
        for param in function.params.params
        if home.calls.passed(function, param, call) is given
        for binding in own.get(param.name.value, ())
        for use in uses_of(home, binding)
    ]
    return bool(uses) and all(
        _is_left_there(program, call, home, use) or _steps_nothing(home, use, depth + 1)
        for use in uses
    )


def _is_left_there(program: Program, call: cst.Call, home: Program, use: cst.Name) -> bool:
    """``return model, optimizer``, of which ``resume(model, optimizer)[0]`` takes another."""
    element = home.parent(use)
    results = None if element is None else home.parent(element)
    if not isinstance(results, cst.Tuple) or not isinstance(home.parent(results), cst.Return):
        return False
    place = next((i for i, one in enumerate(results.elements) if one is element), None)
    match program.parent(call):
        case cst.Expr():
            return True
        case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(cst.Integer(value=taken)))]):
            return taken != str(place)
        case _:
            return False


def scaled_steps(program: Program, made: cst.Call) -> Iterator[tuple[cst.Call, bool]]:
    """Find the calls ``scaler.step(optimizer)``, each with whether its scaler is surely enabled."""
    for call, func in program.method_calls("step"):
        if len(call.args) != 1 or not is_made_by(program, call.args[0].value, made):
            continue
        scaler = program.value(func.value)
        if scaler.kind is Kind.SCALER:
            enabled = _enabled(scaler.made)
            if enabled != "False":
                yield call, enabled == "True"


def _enabled(scaler: cst.CSTNode | None) -> str | None:
    """Return what the call that makes a gradient scaler passes for ``enabled``; None: unknown."""
    if not isinstance(scaler, cst.Call) or any(arg.star for arg in scaler.args):
        return None
    given = [arg.value for arg in scaler.args if arg.keyword and arg.keyword.value == "enabled"]
    return literal(given[0]) if given else "True"


def moved_later(program: Program, made: cst.Call) -> bool:
    """Whether the model whose parameters an optimizer gets is put on a device only afterwards.

    It may be moved as a part of another module, whose name is another.
    """
    if not made.args:
        return False
    if program.frameworks and any(program.method_calls("prepare", "setup")):
        return True  # a framework moves what it prepares
    ways = (_is_in_constructor, _creator_moves, _is_for_constructors)
    if any(holds(program, made) for holds in ways):
        return True
    nodes = list(_models_of(program, made.args[0].value))
    models = {dotted(node) for node in nodes} - {""}
    moves = _Moves(program, made)
    if moves.reaches(models) or moves.inside(moves.left(nodes)):
        return True
    if moves.in_methods(models - moves.before):
        return True
    return (bool(models - moves.before) and moves.containers) or _caller_moves(program, made, nodes)


def model_at_hand(program: Program, made: cst.Call) -> str:
    """Return the name of a model that is elsewhere moved to a GPU, if at all, or "".

    ``self`` in a method of a module, ``model`` in ``def configure(model, options)``, ``self.net``,
    which an object keeps, and what nothing in the file moves: ``model = create_model(name)``.
    """
    function = program.function(made)
    if not made.args:
        return ""
    match made.args[0].value:
        case cst.Call(func=cst.Attribute(value=cst.Name() as model, attr=cst.Name("parameters"))):
            if _is_left_alone(program, model):
                return model.value
        case _:
            pass
    nodes = list(_models_of(program, made.args[0].value))
    names = {dotted(node) for node in nodes} - {""}
    owner = program.classes.around(made)
    if "self" in names and owner is not None and owner.is_module:
        return "self"
    if len(names) != 1 or any(_has_own_parameters(program, node) for node in nodes):
        return ""
    name = names.pop()
    params = set() if function is None else {one.name.value for one in function.params.params}
    kept = owner is not None and name.startswith("self.") and "()" not in name
    return name if kept or name in params - {"self"} else ""


def _is_left_alone(program: Program, model: cst.Name) -> bool:
    """Whether a call gives a model, and nothing in the file moves it."""
    moved = (func.value for _, func in program.method_calls("to", "cuda"))
    made = program.flow.reaching(model)
    return (
        bool(made)
        and all(one.is_plain and isinstance(one.value, cst.Call) for one in made)
        and not program.value(model).device.gpu
        and not any(dotted(one) == model.value for one in moved)
        and not _has_own_parameters(program, model)
    )


def surely_on_gpu(program: Program, made: cst.Call) -> bool:
    """Whether all models whose parameters an optimizer gets are seen to be moved to a GPU."""
    nodes = list(_models_of(program, made.args[0].value)) if made.args else []
    return bool(nodes) and all(_is_on_gpu(program, node) for node in nodes)


def _is_on_gpu(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a model was made on a GPU, or is moved there whatever the options are."""
    if program.value(node).device is Device.CUDA:
        return True
    name = dotted(node)
    return bool(name) and any(
        dotted(func.value) == name
        and (func.attr.value == "cuda" or program.values.moved_to(call, Device.UNKNOWN) is _CUDA)
        and not any(isinstance(above, cst.If) for above in program.index.ancestors(call))
        for call, func in program.method_calls("to", "cuda")
    )


class _Moves:
    """What is put on a device in the function that makes an optimizer, before it and after it."""

    def __init__(self, program: Program, made: cst.Call) -> None:
        self._program, self._made = program, made
        self._function = program.function(made)
        index = program.index
        moves = [
            (index.order(call), func.value)
            for call, func in program.method_calls("to", "cuda")
            if program.function(call) is self._function and not to_host(program, call)
        ]
        place = index.order(made)
        self.before = {dotted(node) for where, node in moves if where < place} - {""}
        later = [node for where, node in moves if where > place]
        self.after = {dotted(node) for node in later} - {""}
        self.containers = any(_holds_models(program, node) for node in later)

    def reaches(self, models: set[str]) -> bool:
        """Whether a model is moved later, alone or as a part of another that was not before."""
        wholes = self.after - self.before
        return bool(models & self.after) or any(
            model.startswith(f"{whole}.") for model in models - self.before for whole in wholes
        )

    def left(self, nodes: list[cst.BaseExpression]) -> set[str]:
        """Return the names of the models that nothing has moved yet, alone or in another."""
        places = [node for node in nodes if not self._program.value(node).device.gpu]
        return {
            name
            for node in places
            if (name := dotted(node))
            and not any(_is_whole(one, {name}) for one in self.before)
            and not self._holds_moved(node)
        }

    def _holds_moved(self, node: cst.BaseExpression) -> bool:
        """``actor = Actor(net)``, after ``net.cuda()``, of ``actor.net.head``."""
        root = node
        while isinstance(root, cst.Attribute):
            root = root.value
        made = self._program.flow.reaching(root) if isinstance(root, cst.Name) else ()
        return any(
            dotted(arg.value) in self.before
            for one in made
            if isinstance(one.value, cst.Call) and one.is_plain
            for arg in one.value.args
        )

    def inside(self, models: set[str]) -> bool:
        """Whether a function that is given a model later puts it on a device."""
        return bool(models) and self._in_functions(models)

    def in_methods(self, models: set[str]) -> bool:
        """Whether another method of the class does, of what the constructor keeps in ``self``."""
        owner = self._program.classes.around(self._made)
        if owner is None or self._function is not owner.methods.get("__init__"):
            return False
        kept = {model for model in models if model.startswith("self.")}
        if any(
            dotted(func.value) in kept and self._program.classes.around(call) is owner
            for call, func in self._program.method_calls("to", "cuda")
        ):
            return True
        return bool(kept) and any(
            dotted(arg.value) in kept and self._is_moving(call)
            for method in owner.methods.values()
            for call in self._program.index.below(method.body, cst.Call)
            for arg in call.args
        )

    def _is_moving(self, call: cst.Call) -> bool:
        """``move(self.model)`` of ``move = lambda model: model.cuda()``."""
        made = self._program.flow.reaching(call.func) if isinstance(call.func, cst.Name) else ()
        bodies = (one.value.body for one in made if isinstance(one.value, cst.Lambda))
        return any(
            isinstance(body, cst.Call)
            and isinstance(body.func, cst.Attribute)
            and body.func.attr.value in ("to", "cuda")
            for body in bodies
        )

    def _in_functions(self, models: set[str]) -> bool:
        program = self._program
        place = program.index.order(self._made)
        for call in program.index.of(cst.Call):
            given = [arg.value for arg in call.args if _is_whole(dotted(arg.value), models)]
            if (
                given
                and (program.index.order(call) > place or program.index.inside(self._made, call))
                and program.function(call) is self._function
                and any(moves_argument(program, call, one) for one in given)
            ):
                return True
        return False


def _is_whole(name: str, models: set[str]) -> bool:
    """Whether a name is that of a model, or of what holds one: ``actor`` of ``actor.net.head``."""
    return bool(name) and any(f"{model}.".startswith(f"{name}.") for model in models)


def _caller_moves(program: Program, made: cst.Call, models: list[cst.BaseExpression]) -> bool:
    """Whether a function that is given the model to make its optimizer is called before the move.

    ``optimizer = configure(model)``, then ``model.to(device)``.
    """
    function = program.function(made)
    if function is None:
        return False
    names = {node.value for node in models if isinstance(node, cst.Name)}
    params = [param for param in function.params.params if param.name.value in names]
    for home, call in program.sites_everywhere(function) if params else ():
        given = (program.calls.passed(function, param, call) for param in params)
        passed = {dotted(node) for node in given if node is not None} - {""}
        if passed & _Moves(home, call).after:
            return True
    return False


def partly_frozen(program: Program, made: cst.Call) -> bool:
    """Whether parameters of a model are frozen before its optimizer is made: few may be left."""
    if "requires_grad" not in program.text or not made.args:
        return False
    index, function = program.index, program.function(made)
    models = {dotted(node) for node in _models_of(program, made.args[0].value)} - {""}
    frozen: list[tuple[cst.CSTNode, cst.BaseExpression]] = [
        (call, func.value)
        for call, func in program.method_calls("requires_grad_")
        if call.args and literal(call.args[0].value) == "False"
    ]
    frozen += [
        (assign, target.target.value)
        for assign in index.of(cst.Assign)
        if literal(assign.value) == "False"
        for target in assign.targets
        if isinstance(target.target, cst.Attribute) and target.target.attr.value == "requires_grad"
    ]
    return any(
        program.function(place) is function
        and index.order(place) < index.order(made)
        and (dotted(node) in models or _is_parameter_of(program, node, models))
        for place, node in frozen
    )


def _is_parameter_of(program: Program, node: cst.BaseExpression, models: set[str]) -> bool:
    """Whether a name stands for one parameter after the other of some models."""
    if not isinstance(node, cst.Name):
        return False
    return any(
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value.endswith("parameters")
        and dotted(call.func.value) in models
        for binding in program.flow.reaching(node)
        if isinstance(binding.value, cst.BaseExpression)
        for call in program.index.below(binding.value, cst.Call)
    )


def _models_of(program: Program, given: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the models whose parameters an optimizer is given: by name, or by a helper function.

    ``decayed, others = split(model)`` are parameters of ``model``, and so is what a loop over
    ``model.named_parameters()`` appends to a list, and what an object keeps of them.
    """
    found = sources(program, [given, *_kept_in(program, given)])
    for one in found.expressions.values():
        for call in program.index.below(one, cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("parameters"):
                yield call.func.value
    for name in program.index.below(given, cst.Name):
        for binding in program.flow.reaching(name):
            match binding.value:
                case cst.Call(func=cst.Name(), args=args) if binding.kind is Bind.ASSIGN:
                    kinds = ((arg.value, program.value(arg.value).kind) for arg in args)
                    yield from (node for node, kind in kinds if kind in _MAY_BE_MODELS)
                case _:
                    pass


def _kept_in(program: Program, given: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield what the same function has put before into the attributes that an expression names.

    ``self.params = list(self.net.parameters())``, or ``+=`` the parameters of another model.
    """
    index, function = program.index, program.function(given)
    names = {dotted(node) for node in index.below(given, cst.Attribute)} - {""}
    puts: list[cst.Assign | cst.AugAssign] = [*index.of(cst.Assign), *index.of(cst.AugAssign)]
    for node in puts if names else ():
        targets = [node.target] if isinstance(node, cst.AugAssign) else _targets(node)
        if (
            any(isinstance(one, cst.Attribute) and dotted(one) in names for one in targets)
            and index.order(node) < index.order(given)
            and program.function(node) is function
        ):
            yield node.value


def _targets(node: cst.Assign) -> list[cst.BaseAssignTargetExpression]:
    return [one.target for one in node.targets]


def _is_in_constructor(program: Program, made: cst.Call) -> bool:
    """Whether a module makes the optimizer of its own parameters before anybody can move it."""
    owner, function = program.classes.around(made), program.function(made)
    if owner is None or not owner.is_module or function is not owner.methods.get("__init__"):
        return False
    calls = program.index.below(made.args[0].value, cst.Call)
    of_self = any(dotted(call.func) == "self.parameters" for call in calls)
    return of_self and not any(
        dotted(func.value) == "self" and program.function(call) is function
        for call, func in program.method_calls("to", "cuda")
    )


def _is_for_constructors(program: Program, made: cst.Call) -> bool:
    """Whether a method of a module makes the optimizer, which only constructors of modules call.

    ``self.optimizer = self.net.get_optimizer()``: who makes such a module moves it afterwards.  By
    the name of the method alone.
    """
    owner, function = program.classes.around(made), program.function(made)
    if owner is None or function is None or not owner.is_module:
        return False
    name = function.name.value
    if name.startswith("__"):
        return False
    calls = [(home, call) for home in files_with(program, name) for call in home.calls.named(name)]
    return bool(calls) and all(_moves_nothing(home, call) for home, call in calls)


def _moves_nothing(home: Program, call: cst.Call) -> bool:
    """Whether a call is in the constructor of a module, which puts nothing on a device."""
    owner, function = home.classes.around(call), home.function(call)
    if owner is None or not owner.is_module or function is not owner.methods.get("__init__"):
        return False
    return not any(home.function(move) is function for move, _ in home.method_calls("to", "cuda"))


def _creator_moves(program: Program, made: cst.Call) -> bool:
    """Whether a module that makes an optimizer of its parts is moved by a file that makes it.

    ``Learner(options).to(device)``, or ``learner = Learner(options)`` and then ``learner.cuda()``.
    """
    owner = program.classes.around(made)
    if owner is None or not _moves_nothing(program, made):
        return False
    texts = [program.text, *texts_of_importers(program)]
    made_at = re.compile(rf"(?:([\w.]+) *= *)?\b{owner.name}(\(.*)")
    return any(
        _MOVED.search(rest)
        or (name and re.search(rf"\b{re.escape(name)}\.(?:to|cuda)\(", text) is not None)
        for text in texts
        for name, rest in made_at.findall(text)
    )


def _has_own_parameters(program: Program, node: cst.BaseExpression) -> bool:
    """Whether the class of a model has a ``parameters`` of its own, which may give a list."""
    kind = program.value(node).type
    owner = program.classes.named(kind)
    if owner is not None and program.classes.method(owner, "parameters") is not None:
        return True
    return program.project is not None and program.project.method(kind, "parameters") is not None


def _holds_models(program: Program, node: cst.BaseExpression) -> bool:
    """Whether an expression is a container of modules, by torch's name for it."""
    return program.value(node).type in ("torch.nn.ModuleList", "torch.nn.ModuleDict")


def sparse_gradients(program: Program) -> bool:
    """Whether a layer of the file asks for sparse gradients, or may."""
    return "sparse" in program.text and any(
        arg.keyword is not None and arg.keyword.value == "sparse" and literal(arg.value) != "False"
        for call in program.index.of(cst.Call)
        for arg in call.args
    )
