"""Works out what is known of an expression's value, on demand and with a memory.

Forward flow through names (`flow`), through ``self.x`` inside a class, through calls of functions
of the same file and back to their parameters.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis import environments, numpy_api, torch_api
from torchlint.analysis.arguments import literal
from torchlint.analysis.classes import is_placeholder
from torchlint.analysis.entries import Entries, key_of, written_out
from torchlint.analysis.growth import Growth
from torchlint.analysis.handed_up import as_of_base, handed_up
from torchlint.analysis.left_out import is_left_out
from torchlint.analysis.memory import Memory
from torchlint.analysis.narrowing import Narrowing, alternatives
from torchlint.analysis.on_host import back_on_host, stays_on_host
from torchlint.analysis.project import portable
from torchlint.analysis.reach import forward_of
from torchlint.analysis.reached_returns import may_reach
from torchlint.analysis.refilled import Refilled
from torchlint.analysis.removed import old_item
from torchlint.analysis.values import (
    BATCH,
    BOOL,
    NEVER,
    NONE,
    NUMBER,
    OTHER,
    STRING,
    UNKNOWN,
    Device,
    Kind,
    Value,
    join,
    join_known,
    shared_device,
)
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchlint.analysis.classes import Class, Store
    from torchlint.analysis.growth import Gift
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_PLAIN = frozenset(
    {Kind.NUMBER, Kind.BOOL, Kind.STRING, Kind.LIST, Kind.TUPLE, Kind.DICT, Kind.NONE}
)
# What functions are seen to return says more of these than their annotation does.
_SEEN = (Kind.TENSOR, Kind.NDARRAY, Kind.MODULE, Kind.NUMBER, Kind.BOOL, Kind.STRING)
_SCALARS = {"int": NUMBER, "float": NUMBER, "bool": BOOL, "str": STRING}
# Modules of torch that run other modules, or may: what these do with a tensor is not known.
# What a program chooses from a table by a name.
_CHOSEN = frozenset({Kind.CLASS, Kind.MODULE, Kind.LOADER})
_HOLDERS = frozenset({"Module", "Sequential", "ModuleList", "ModuleDict", "DataParallel",
                      "DistributedDataParallel"})  # fmt: skip
_TRANSPARENT = frozenset({"functools.lru_cache", "functools.cache", "functools.wraps",
                          "typing.overload", "typing.no_type_check"})  # fmt: skip
_LEGACY_TENSORS = frozenset(
    {"Tensor", "FloatTensor", "LongTensor", "DoubleTensor", "IntTensor", "BoolTensor",
     "HalfTensor", "ByteTensor"}
)  # fmt: skip
_NORM_ON_DEVICE = Version("1.5")  # its `clip_grad_norm_` leaves the norm on the device
_PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
_DEQUE = "collections.deque"
_LONG = 40  # parts of an expression that is worked through from the inside
_CHAINED = (cst.Attribute, cst.BinaryOperation, cst.BooleanOperation, cst.Call, cst.IfExp,
            cst.Subscript, cst.UnaryOperation)  # fmt: skip
_GIVING_BACK = ("torch.compile", "torch.nn.SyncBatchNorm.convert_sync_batchnorm")
# Losses of compiled libraries that give their sum on the host, wherever the inputs are.
_HOST_LOSSES = frozenset({"warpctc_pytorch.CTCLoss"})
_PASS_THROUGH = ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.rich.tqdm",
                 "rich.progress.track", "tqdm.tqdm_notebook", "tqdm.auto.auto")  # fmt: skip


class Evaluator:
    """Values of the expressions of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        project = program.project
        self._memory = Memory() if project is None else project.memory
        self._prepared: set[int] = set()
        self._staying: dict[int, bool] = {}
        self._growth = Growth(program)
        self._entries = Entries(program)
        self._refilled = Refilled(program)
        self._narrowing = Narrowing(program)

    def of(self, node: cst.CSTNode | None) -> Value:
        """Return what is known of the value of an expression."""
        if node is None:
            return UNKNOWN
        value = self._memory.known(id(node))
        if value is not None:
            return value
        value = self._value(node)
        if self._memory.busy:
            return value
        if self._memory.given_up(id(node)):
            self._prepare(node)
            value = self._value(node)
            self._memory.settle(id(node), value)  # what is still cut short stays so
        return value

    def _prepare(self, node: cst.CSTNode) -> None:
        """Work through a long chain of questions from its start, so that none leads deep."""
        index = self._program.index
        home: cst.CSTNode = self._program.function(node) or index.module
        if id(home) not in self._prepared:
            self._prepared.add(id(home))
            for name in index.below(home, cst.Name):
                bound = index.bound(name)
                if bound is not None:
                    if bound.kind is Bind.ASSIGN and bound.value is not None:
                        self._prepare_parts(bound.value)
                    self.binding(bound)
        self._prepare_parts(node)

    def _prepare_parts(self, node: cst.CSTNode) -> None:
        index = self._program.index
        below = index.nodes[index.order(node) + 1 : index.end(node)]
        for part in reversed(below) if len(below) > _LONG else ():
            if isinstance(part, _CHAINED):
                self._value(part)
        self._value(node)

    def _value(self, node: cst.CSTNode) -> Value:
        known = self._memory.known(id(node))  # of most
        if known is not None:
            return known
        return self._memory.answer(id(node), lambda: self._evaluate(node))

    # -- expressions -------------------------------------------------------------------------

    def _evaluate(self, node: cst.CSTNode) -> Value:
        match node:  # the most frequent first: a case that does not fit costs a while
            case cst.Name():
                return self._name(node)
            case cst.Attribute():
                return self._attribute(node)
            case cst.Call():
                return self._call(node)
            case cst.Integer() | cst.Float() | cst.Imaginary():
                return NUMBER
            case cst.SimpleString() | cst.ConcatenatedString() | cst.FormattedString():
                return STRING
            case cst.Subscript():
                return self._subscript(node)
            case cst.BinaryOperation():
                return self.operation(node, self._value(node.left), self._value(node.right))
            case cst.UnaryOperation():
                return (
                    BOOL if isinstance(node.operator, cst.Not) else self._computed(node.expression)
                )
            case cst.Comparison():
                return self._comparison(node)
            case cst.BooleanOperation():
                return join((self._value(node.left), self._value(node.right)))
            case cst.IfExp():
                return join((self._value(node.body), self._value(node.orelse)))
            case cst.Tuple() | cst.List():
                return self._display(node)
            case cst.Set():
                return Value(Kind.ITERATOR, made=node)
            case cst.Dict():
                return Value(Kind.DICT, made=node)
            case cst.DictComp():
                return Value(Kind.DICT, made=node, element=self._value(node.value))
            case cst.ListComp():
                return Value(Kind.LIST, made=node, element=self._value(node.elt))
            case cst.GeneratorExp() | cst.SetComp():
                return Value(Kind.ITERATOR, made=node, element=self._value(node.elt))
            case cst.NamedExpr():
                return self._value(node.value)
            case cst.Lambda():
                return Value(Kind.FUNCTION, made=node)
            case _:
                return UNKNOWN

    def _computed(self, node: cst.CSTNode) -> Value:
        """Return the value of an operation on one operand: a new object of the same kind."""
        value = self._value(node)
        if value.kind is Kind.NDARRAY:
            return numpy_api.negated(value)
        return NUMBER if value.kind is Kind.BOOL else value

    def _display(self, node: cst.Tuple | cst.List) -> Value:
        kind = Kind.TUPLE if isinstance(node, cst.Tuple) else Kind.LIST
        if any(isinstance(element, cst.StarredElement) for element in node.elements):
            return Value(kind, made=node)
        if len(node.elements) > 64:
            first = self._value(node.elements[0].value)
            plain = all(literal(e.value) is not None for e in node.elements)
            return Value(kind, made=node, element=first if plain else UNKNOWN)
        return Value(kind, made=node, items=tuple(self._value(e.value) for e in node.elements))

    def _comparison(self, node: cst.Comparison) -> Value:
        if any(
            isinstance(item.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot))
            for item in node.comparisons
        ):
            return BOOL
        result = self._value(node.left)
        others = [self._value(item.comparator) for item in node.comparisons]
        kinds = {result.kind, *(other.kind for other in others)}
        for other in others:
            result = self._arithmetic(result, other)
        if result.kind is Kind.NDARRAY:
            return replace(result, dtype="bool")
        # a tensor is never equal to None, or to a text: nothing is compared
        unlike = result.is_tensor and not kinds.isdisjoint((Kind.NONE, Kind.STRING))
        return BOOL if unlike or kinds <= _PLAIN else result

    def operation(self, node: cst.BinaryOperation, left: Value, right: Value) -> Value:
        """Return the value of ``left op right``."""
        if left.kind is Kind.STRING and isinstance(
            node.operator, (cst.Modulo, cst.Add, cst.Multiply)
        ):
            return STRING
        repeats = isinstance(node.operator, cst.Multiply) and right.kind is not Kind.NDARRAY
        if left.kind in (Kind.LIST, Kind.TUPLE) and repeats:
            return Value(left.kind, element=left.each())
        if left.kind is right.kind and left.kind in (Kind.LIST, Kind.TUPLE):
            return Value(left.kind, element=join((left.each(), right.each())))
        if isinstance(node.operator, cst.MatrixMultiply) and Kind.NDARRAY in (
            left.kind,
            right.kind,
        ):
            return numpy_api.product(left, right)
        return self._arithmetic(left, right)

    def _arithmetic(self, left: Value, right: Value) -> Value:
        kinds = {left.kind, right.kind}
        device = shared_device((left.device, right.device))
        if Kind.NEVER in kinds:
            return right if left.kind is Kind.NEVER else left
        if Kind.TENSOR in kinds or Kind.BATCH in kinds:
            return Value(Kind.TENSOR, device=device)
        if Kind.UNKNOWN in kinds:
            return Value(Kind.UNKNOWN, device=device)
        if Kind.NDARRAY in kinds and kinds <= {Kind.NDARRAY, Kind.NUMBER, Kind.BOOL, Kind.NPSCALAR,
                                               Kind.LIST, Kind.TUPLE}:  # fmt: skip
            return numpy_api.combined(left, right, _promoted(left, right))
        if Kind.NPSCALAR in kinds and kinds <= {Kind.NPSCALAR, Kind.NUMBER, Kind.BOOL}:
            return Value(Kind.NPSCALAR)
        if kinds <= {Kind.NUMBER, Kind.BOOL}:
            return NUMBER
        return left if left.kind is right.kind and left.kind is Kind.STRING else UNKNOWN

    # -- names -------------------------------------------------------------------------------

    def _name(self, node: cst.Name) -> Value:
        program = self._program
        if node.value in ("True", "False"):
            return BOOL
        if node.value == "None":
            return NONE
        bound = program.index.bound(node)
        if bound is not None and bound.kind is not Bind.AUGMENT:
            return self.binding(bound)
        bindings = program.flow.reaching(node)
        if not bindings:
            if program.is_builtin(node):
                return Value(Kind.FUNCTION, type=node.value)
            brought = program.qualified(node) if program.index.root.stars else ""
            return (self._imported(brought) if brought else None) or UNKNOWN
        value = join(self.binding(binding) for binding in bindings)
        if value.device is Device.MAYBE and any(back_on_host(program, b) for b in bindings):
            value = value.on(Device.CPU)
        if value.kind is Kind.UNKNOWN or value.kind is Kind.NONE:
            shown = program.usage.shown_by(bindings)
            if shown is not None:
                found = shown.on(value.device) if shown.device is Device.UNKNOWN else shown
                return self._unmoved(found, bindings)
        value = self._narrowing.narrowed(node, value)
        if value.kind is Kind.DICT and value.element is not None and self._is_refilled(node):
            value = replace(value, element=None)  # for whoever is given it as well
        if value.kind is Kind.BATCH and self._is_moved(self._refilled.before(node)):
            # its entries are no longer the loader's
            return Value(Kind.UNKNOWN, device=Device.MAYBE)
        return self._unmoved(value, bindings)

    def _is_moved(self, moves: Iterable[cst.Call]) -> bool:
        return any(self._value(move).device.gpu for move in moves)

    def _unmoved(self, value: Value, bindings: tuple[Binding, ...]) -> Value:
        """Leave a model on the host that its function makes and does not move."""
        if value.kind is not Kind.MODULE or value.device is not Device.UNKNOWN:
            return value
        if len(bindings) != 1:
            return value
        binding = bindings[0]
        stays = self._staying.get(id(binding))
        if stays is None:
            stays = self._staying[id(binding)] = stays_on_host(self._program, binding)
        return value.on(Device.CPU) if stays else value

    def binding(self, binding: Binding) -> Value:
        """Return what a name gets from one of its bindings."""
        return self._memory.answer(id(binding), lambda: self._bound(binding))

    def _bound(self, binding: Binding) -> Value:
        value = binding.value
        match binding.kind:
            case Bind.ASSIGN:
                assert value is not None
                found = _unpacked(self._value(value), binding.path)
                statement = self._program.parent(binding.node)
                if isinstance(statement, cst.AnnAssign) and not found.known:
                    found = self.annotated(statement.annotation.annotation)
                return self._grown(found, lambda: self._growth.of_binding(binding))
            case Bind.AUGMENT:
                assert isinstance(value, cst.AugAssign)
                before = self._program.flow.before(value, binding.name)
                left = join(self.binding(other) for other in before)
                return self._arithmetic(left, self._value(value.value))
            case Bind.FOR:
                assert value is not None
                return _unpacked(self.each(value), binding.path)
            case Bind.WITH:
                assert value is not None
                return _unpacked(self._entered(self._value(value)), binding.path)
            case Bind.REST:
                return Value(Kind.LIST)
            case Bind.PARAMETER:
                assert isinstance(value, cst.Param)
                return self._parameter(value)
            case Bind.DEFINITION:
                return self._definition(value)
            case Bind.IMPORT | Bind.FROM:
                name = self._program.names.root(binding.name, binding.scope)
                return self._imported(name) or Value(Kind.UNKNOWN, type=name)
            case _:
                return UNKNOWN

    def _imported(self, name: str) -> Value | None:
        """Return what a name of another file of the project stands for; None where not known."""
        project = self._program.project
        if project is None or name.startswith(("torch.", "numpy.")):
            return None
        found = project.define(self._program, name)
        if found is None or found.binding.kind is not Bind.ASSIGN:
            return None
        value = found.program.values.binding(found.binding)
        return portable(value, found.program, self._program) if value.known else None

    def _entered(self, context: Value) -> Value:
        """Return what ``with`` gives to its target: the context, of all but the file's classes."""
        if context.kind is not Kind.INSTANCE:
            return context
        classes = self._program.classes
        owner = classes.named(context.type) or classes.get(context.made)
        method = None if owner is None else classes.method(owner, "__enter__")
        return UNKNOWN if method is None else self.returned(method)

    def _grown(self, value: Value, gifts: Callable[[], list[Gift]]) -> Value:
        """Add to a list what is appended to it, wherever that happens."""
        if value.kind is not Kind.LIST and value.type != _DEQUE:
            return value
        given = [self.each(g.value) if g.several else self._value(g.value) for g in gifts()]
        if not given:
            return value
        kind = "" if value.kind is Kind.LIST else value.type
        return Value(value.kind, type=kind, element=join((value.each(), *given)))

    def _definition(self, node: cst.CSTNode | None) -> Value:
        kind = Kind.CLASS if isinstance(node, cst.ClassDef) else Kind.FUNCTION
        return Value(kind, made=node)

    def _parameter(self, param: cst.Param) -> Value:
        program = self._program
        function = program.index.parent(program.index.parent(param) or param)
        if isinstance(function, cst.FunctionDef):
            owner = program.classes.around(function)
            first = function.params.params[0] if function.params.params else None
            if (
                owner is not None
                and param is first
                and program.index.parent(program.index.parent(function) or function) is owner.node
                and not program.is_static(function)
            ):
                return self._instance(owner.node)
        promised = UNKNOWN
        if param.annotation is not None:
            promised = self.annotated(param.annotation.annotation)
            is_scalar = promised in _SCALARS.values()
            if not is_scalar and (promised.known or alternatives(param.annotation.annotation)):
                return promised
        if not isinstance(function, cst.FunctionDef):
            return promised
        given = [self._value(node) for node in program.calls.arguments(function, param)]
        given += self._given_elsewhere(function, param)
        given += self._handed_up(function, param)
        given += [self.each(data) for data in program.engines.given(function, param)]
        default = [] if param.default is None else [self._value(param.default)]
        if promised.known:  # tensors are passed for a "float" all the same
            value = join(given)
            return value if value.known else promised
        if not given:
            if function.name.value == "forward" and program.is_method(function):
                return Value(Kind.UNKNOWN, device=Device.MAYBE)  # modules are called with tensors
            if self._names_host(param.default) and is_left_out(program, function, param):
                return Value(Kind.DEVICE, device=Device.CPU)
            # a default says what the value may be, not what it is
            chosen = default[0] if default and default[0].kind is Kind.DEVICE else UNKNOWN
            return chosen.on(Device.MAYBE) if chosen.device is Device.CPU else chosen
        return join((*given, *default))

    def _names_host(self, default: cst.BaseExpression | None) -> bool:
        """``device="cpu"``, ``device=torch.device("cpu")``."""
        if isinstance(default, cst.SimpleString):
            return literal(default) == "cpu"
        value = self._value(default) if default is not None else UNKNOWN
        return value.kind is Kind.DEVICE and value.device is Device.CPU

    def _given_elsewhere(self, function: cst.FunctionDef, param: cst.Param) -> list[Value]:
        """Return what calls in other files of the project pass for a parameter."""
        project, program = self._program.project, self._program
        if project is None:
            return []
        passed = project.passed(program, function, param)
        return [portable(other.values.of(node), other, program) for other, node in passed]

    def _handed_up(self, function: cst.FunctionDef, param: cst.Param) -> list[Value]:
        """Return what heirs hand to the ``__init__`` of a class: ``super().__init__(net)``."""
        program = self._program
        return [
            self._value(node)
            if other is program
            else portable(other.values.of(node), other, program)
            for other, node in handed_up(program, function, param)
        ]

    def annotated(self, node: cst.BaseExpression) -> Value:
        """Return the value that an annotation promises."""
        choices = alternatives(node)
        if choices is not None:
            return join(
                NONE if literal(choice) == "None" else self.annotated(choice) for choice in choices
            )
        if isinstance(node, cst.Subscript):
            return self._container(node)
        if isinstance(node, cst.Name) and self._program.is_builtin(node) and node.value in _SCALARS:
            return _SCALARS[node.value]
        name = self._program.names.qualified(node)
        if isinstance(node, cst.SimpleString):
            text = node.evaluated_value
            name = {"torch.Tensor": "torch.Tensor", "Tensor": "torch.Tensor",
                    "np.ndarray": "numpy.ndarray"}.get(str(text), "")  # fmt: skip
        return self.instance_of(name, None)

    def _container(self, node: cst.Subscript) -> Value:
        """Evaluate ``list[np.ndarray]``."""
        kind = dotted(node.value).rpartition(".")[2]
        inner = node.slice[0].slice
        if kind not in ("list", "List", "Sequence") or not isinstance(inner, cst.Index):
            return UNKNOWN
        return Value(Kind.LIST, element=self.annotated(inner.value))

    def optional(self, node: cst.BaseExpression) -> bool:
        """Tell whether a name is a parameter that is None where it is not given."""
        if not isinstance(node, cst.Name):
            return False
        params = [b.value for b in self._program.flow.reaching(node) if b.kind is Bind.PARAMETER]
        return any(
            isinstance(p, cst.Param) and p.default is not None and literal(p.default) == "None"
            for p in params
        )

    # -- attributes and subscripts -----------------------------------------------------------

    def _attribute(self, node: cst.Attribute) -> Value:
        name = self._program.names.qualified(node)
        if name.startswith(("torch.", "numpy.")):
            return _constant(name)
        if name and name[0] != "." and (imported := self._imported(name)) is not None:
            return imported
        base = self._value(node.value)
        attr = node.attr.value
        value = self._member(base, attr)
        if not value.known:
            shown = self._program.usage.shown_attribute(node)
            if shown is not None:
                return shown.on(value.device) if shown.device is Device.UNKNOWN else shown
        return value

    def _member(self, base: Value, attr: str) -> Value:
        match base.kind:
            case Kind.NEVER:
                return base
            case Kind.TENSOR | Kind.BATCH:
                if attr == "shape":
                    return Value(Kind.TUPLE, element=NUMBER)
                if attr in ("ndim", "itemsize", "nbytes"):
                    return NUMBER
                if attr in torch_api.TENSOR_FLAGS:
                    return BOOL
                if attr == "device":
                    return Value(Kind.DEVICE, device=base.device)
                if attr == "dtype":
                    return Value(Kind.DTYPE)
                if attr == "name" and base.kind is Kind.TENSOR:
                    return STRING
                return Value(base.kind, device=base.device)
            case Kind.NDARRAY:
                return numpy_api.attribute(base, attr)
            case Kind.MODULE if attr == "forward":
                return base  # `run = model.forward` is called as the model is
            case Kind.MODULE if attr == "module" and not self._kept(base, attr).known:
                return base.wraps or base  # asked of a model that may have been wrapped
            case Kind.MODULE | Kind.INSTANCE:
                kept = self._kept(base, attr)
                placed = kept.kind is Kind.TENSOR and kept.device is Device.UNKNOWN
                return kept.on(base.device) if placed and base.device is Device.CPU else kept
            case Kind.CLASS:
                return UNKNOWN
            case Kind.UNKNOWN if attr == "shape" and base.device.gpu:
                return Value(Kind.TUPLE, element=NUMBER)
            case _:
                return Value(Kind.UNKNOWN, device=base.device)

    def _kept(self, base: Value, attr: str) -> Value:
        """Return an attribute of an instance of this file: the join of what is stored in it."""
        classes = self._program.classes
        owner = classes.named(base.type) or classes.get(base.made)
        if owner is None:
            return self._kept_elsewhere(base, attr)
        return self.kept(owner, attr)

    def _kept_elsewhere(self, base: Value, attr: str) -> Value:
        """Return an attribute of an instance of a class of another file."""
        project = self._program.project
        found = project.class_of(base.type) if project is not None and ":" in base.type else None
        if found is None:
            return UNKNOWN
        other, owner = found
        value = other.values.kept(owner, attr)
        return portable(value, other, self._program)

    def kept(self, owner: Class, attr: str) -> Value:
        """Return what instances of a class of this file keep under a name."""
        return self._memory.answer((id(owner), attr), lambda: self._stored_in(owner, attr))

    def _stored_in(self, owner: Class, attr: str) -> Value:
        stores = self._program.classes.stores(owner, attr)
        first = None
        if stores and all(self._reads(store, attr) for store in stores):
            first = self._registered(owner, attr)  # what it is at first comes from elsewhere
            if first.known:  # a buffer can be set to tensors only: `self.seen += 1` gives one
                stores = [one for one in stores if not isinstance(one.value, cst.AugAssign)]
        values = [
            UNKNOWN if store.value is None else _unpacked(self._stored(store.value), store.path)
            for store in stores
        ]
        if any(self._reads(one, attr) and self._is_wrap(one.value) for one in stores):
            values = [one if one.known else Value(Kind.MODULE) for one in values]  # nothing else is
        if owner.is_module and any(map(self._is_parameter, stores)):
            values = [Value(Kind.TENSOR) if one.kind is Kind.TENSOR else one for one in values]
        if first is not None:
            values.append(first)
        # what a method once sets to None is not None where it is used
        if values:
            return self._grown(join(values), lambda: self._growth.of_attribute(attr))
        method = self._program.classes.method(owner, attr)
        if method is not None and self._program.is_property(method):
            return self.returned(method)
        found = self._registered(owner, attr)
        return found if found.known or method is not None else self._inherited(owner, attr)

    def _inherited(self, owner: Class, attr: str) -> Value:
        """Return what a base of another file keeps under a name: ``class Trainer(BaseTrainer)``."""
        project = self._program.project
        for home, one in () if project is None else project.lineage(self._program, owner):
            if home is not self._program and home.classes.stores(one, attr):
                return portable(home.values.kept(one, attr), home, self._program)
        return UNKNOWN

    def _reads(self, store: Store, attr: str) -> bool:
        """Whether ``self.x`` is made of itself: ``self.x = torch.tensor(self.x)``."""
        if store.value is None:
            return False
        below = self._program.index.below(store.value, cst.Attribute)
        return any(one.attr.value == attr and dotted(one) == f"self.{attr}" for one in below)

    def _is_wrap(self, made: cst.CSTNode | None) -> bool:
        """``DataParallel(self.model)``, of torch."""
        return isinstance(made, cst.Call) and _is_wrapper(self._program.names.qualified(made.func))

    def _is_parameter(self, store: Store) -> bool:
        """Whether a module is given a parameter: it goes where the module goes."""
        made = store.value
        return (
            isinstance(made, cst.Call)
            and not store.path
            and self._program.names.qualified(made.func) in _PARAMETERS
        )

    def _registered(self, owner: Class, attr: str) -> Value:
        """Return a buffer of a module, which goes where the module goes."""
        classes = self._program.classes
        for call, func in self._program.method_calls("register_buffer"):
            named = len(call.args) > 1 and literal(call.args[0].value) == attr
            if named and dotted(func.value) == "self":
                around = classes.around(call)
                if around is not None and around in classes.lineage(owner):
                    value = self._value(call.args[1].value)
                    return Value(Kind.TENSOR) if value.kind is Kind.TENSOR else UNKNOWN
        return UNKNOWN

    def _stored(self, value: cst.CSTNode) -> Value:
        return self._value(value.value) if isinstance(value, cst.AugAssign) else self._value(value)

    def _subscript(self, node: cst.Subscript) -> Value:
        base = self._value(node.value)
        place = _constant_index(node)
        match base.kind:
            case Kind.NDARRAY:
                return numpy_api.item(base, node, self)
            case Kind.DICT:
                return self._entry(base, node)
            case Kind.UNKNOWN if self._entries.are_seen(node.value):
                return self._given(node)
            case Kind.LIST | Kind.TUPLE:
                if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Slice):
                    return Value(base.kind, element=base.each())
                return base.member(place)
            case Kind.STRING:
                return STRING
            case Kind.MODULE:
                return Value(Kind.MODULE) if base.type.startswith("torch.nn.Module") else UNKNOWN
            case Kind.TENSOR | Kind.UNKNOWN if old_item(self._program, node) is not None:
                return NUMBER
            case Kind.BATCH if isinstance(node.value, cst.Name):
                key = key_of(node)
                moved = key and self._is_moved(self._refilled.before(node.value, key))
                return Value(Kind.TENSOR, device=Device.MAYBE) if moved else base
            case _:
                return base.member(place)

    def _entry(self, base: Value, node: cst.Subscript) -> Value:
        key = key_of(node)
        if base.element is not None and not self._is_refilled(node.value):
            return base.element
        if self._entries.are_seen(node.value):
            return self._given(node)
        if key is None and isinstance(node.value, cst.Name):
            return self._one_of(node.value)
        if key is None or not isinstance(base.made, cst.Dict):
            return UNKNOWN
        for element in base.made.elements:
            if isinstance(element, cst.DictElement) and literal(element.key) == key:
                return self._value(element.value)
        return UNKNOWN

    def _one_of(self, table: cst.Name) -> Value:
        """Return what a table has under each of its names: ``DATA[args.data]``.

        These are classes, modules or loaders, whichever it is.
        """
        entries = [self._value(one) for one in written_out(self._program, table, None)]
        alike = len({one.kind for one in entries}) == 1 and entries[0].kind in _CHOSEN
        return join(entries) if alike else UNKNOWN

    def _given(self, node: cst.Subscript) -> Value:
        """Return what an entry of a dictionary that starts empty is given, by its key or by any."""
        given = [self._value(one) for one in self._entries.given(node)]
        return join(given) if given else UNKNOWN

    def _is_refilled(self, kept: cst.BaseExpression) -> bool:
        """Whether a dictionary gets entries where it is kept: ``sums[k] = 0``, ``d.update(e)``."""
        program, code = self._program, self._program.code(kept)
        below = program.index.below
        place = program.function(kept) or program.module
        targets: list[cst.AssignTarget | cst.AugAssign] = [*below(place, cst.AssignTarget)]
        targets += below(place, cst.AugAssign)
        return any(
            isinstance(one.target, cst.Subscript) and program.code(one.target.value) == code
            for one in targets
        ) or any(
            program.code(func.value) == code and program.index.inside(func, place)
            for _, func in program.method_calls("update")
        )

    # -- iteration ---------------------------------------------------------------------------

    def each(self, node: cst.CSTNode) -> Value:
        """Return what a loop over an expression binds in each turn."""
        value = self._value(node)
        if value.kind is Kind.LOADER:
            return BATCH
        if value.kind is Kind.NDARRAY:
            return numpy_api.row(value)
        return value.each() if value.kind is not Kind.MODULE else UNKNOWN

    # -- calls -------------------------------------------------------------------------------

    def _call(self, node: cst.Call) -> Value:
        program = self._program
        name = program.names.qualified(node.func)
        if name.startswith("torch."):
            return self._torch_call(name, node)
        if name.startswith("numpy."):
            return numpy_api.call(name, node, self)
        if name in _XLA_DEVICES:
            return Value(Kind.DEVICE, device=Device.OTHER)
        if name and not name.startswith("."):
            known = self._library_call(name, node)
            if known is not None:
                return known
            known = self._called_elsewhere(name, node)
            if known is not None:
                return known
        if isinstance(node.func, cst.Name):
            if program.is_builtin(node.func):
                return self._builtin(node.func.value, node)
            return self._called(self._value(node.func), node)
        if isinstance(node.func, cst.Attribute):
            return self._method(node, node.func)
        if isinstance(node.func, cst.Subscript):
            known = self._called_of_table(node.func, node)
            if known is not None:
                return known
        return self._called(self._value(node.func), node)

    def _called_of_table(self, entry: cst.Subscript, node: cst.Call) -> Value | None:
        """``NETS[args.net](...)`` of classes and functions that other files define."""
        if not isinstance(entry.value, cst.Name):
            return None
        entries = written_out(self._program, entry.value, key_of(entry))
        names = [self._program.names.qualified(one) for one in entries]
        found = [self._called_elsewhere(name, node) if name else None for name in names]
        known = [value for value in found if value is not None]
        return join(known) if known and len(known) == len(found) else None

    def _called(self, function: Value, node: cst.Call) -> Value:
        match function:
            case Value(kind=Kind.FUNCTION, made=cst.FunctionDef() as made):
                return self._result_of(made, node)
            case Value(kind=Kind.FUNCTION, made=cst.Lambda() as made):
                return self._value(made.body)
            case Value(kind=Kind.FUNCTION) if chosen := self._program.calls.chosen(node):
                return join(self._result_of(made, node) for made in chosen)
            case Value(kind=Kind.CLASS, made=cst.ClassDef() as made):
                return self._object(self._program, made, node)
            case Value(kind=Kind.MODULE):
                return self._forward(function, node)
            case Value(kind=Kind.TENSOR | Kind.BATCH | Kind.NEVER):
                return function
            case _:
                return self.derived(node)

    def _result_of(self, made: cst.FunctionDef, node: cst.Call) -> Value:
        if not all(self._is_transparent(item) for item in made.decorators):
            return self.derived(node)
        value = self._given_back(self._returned_to(made, node), self._program, made, node)
        return self._placed(value, node, partial(self.stays, made))

    def _given_back(
        self, value: Value, home: Program, function: cst.FunctionDef, site: cst.Call
    ) -> Value:
        """Return what a call passes to a function that gives it back, if ``value`` says less.

        ``model = with_hooks(model)``: of all that is passed to the function, here or elsewhere,
        the value is often not known, or a module of no known class.
        """
        if value.known and (value.kind is not Kind.MODULE or value.type):
            return value
        param = home.returned_parameter(function)
        passed = None if param is None else home.calls.passed(function, param, site)
        given = UNKNOWN if passed is None else self._value(passed)
        if not given.known:
            return value
        return given.on(value.device) if value.device.gpu else given

    def _placed(self, result: Value, node: cst.Call, stays: Callable[[], bool]) -> Value:
        """Put a tensor that a function computes on the host where all of its tensors are there.

        Unless it is known to be elsewhere, as the tensors of other calls are, and the function may
        have moved it: ``stays`` tells whether it does not.
        """
        if result.kind is not Kind.TENSOR or result.device is Device.CPU:
            return result
        given = [self._value(arg.value) for arg in node.args]
        places = {value.device for value in given if value.is_tensor}
        if places != {Device.CPU}:
            return result
        batches = {value.device for value in given if value.kind is Kind.BATCH}
        here = result.device is Device.UNKNOWN or (batches <= places and stays())
        return result.on(Device.CPU) if here else result

    def stays(self, function: cst.FunctionDef) -> bool:
        """Whether what a function computes is where the tensors are that it is given."""
        below = self._program.index.below
        return not any(
            arg.keyword is not None and arg.keyword.value == "device"
            for arg in below(function, cst.Arg)
        ) and all(self._keeps_device(call) for call in below(function.body, cst.Call))

    def _keeps_device(self, call: cst.Call) -> bool:
        """Whether a call gives a tensor, if it does, on the device of another one."""
        match call.func:
            case cst.Attribute(value=owner, attr=cst.Name(value=method)):
                name = self._program.names.qualified(call.func)
                if name.startswith("torch."):
                    return not name.startswith("torch.cuda.")
                return method not in _MOVES and self._value(owner).is_tensor
            case cst.Name() as name:
                return self._program.is_builtin(name)
            case _:
                return False

    def _called_elsewhere(self, name: str, node: cst.Call) -> Value | None:
        """Return what a call of a function or class of another file gives; None if not known."""
        project = self._program.project
        found = None if project is None else project.define(self._program, name)
        if found is None:
            return None
        other = found.program
        match found.binding.value:
            case cst.FunctionDef() as function:
                value = portable(other.values.result(function, node), other, self._program)
                value = self._given_back(value, other, function, node)
                value = self._placed(value, node, partial(other.values.stays, function))
            case cst.ClassDef() as made:
                value = self._object(other, made, node)
            case _:
                return None
        return value if value.known else join((value, self.derived(node)))

    def result(self, function: cst.FunctionDef, site: cst.Call | None = None) -> Value:
        """Return what a call of a function of this file gives; the call may be in another file."""
        plain = all(self._is_transparent(item) for item in function.decorators)
        return self._returned_to(function, site) if plain else UNKNOWN

    def _returned_to(self, function: cst.FunctionDef, site: cst.Call | None) -> Value:
        """Return what a function returns, to a call that chooses by the constants it passes."""
        value = self.returned(function)
        returns = self._program.returns(function)
        if value.known or site is None or len(returns) == 1:
            return value
        reached = [one for one in returns if may_reach(self._program, function, site, one)]
        if not 0 < len(reached) < len(returns):
            return value
        return join(NONE if one.value is None else self._value(one.value) for one in reached)

    def made(self, node: cst.ClassDef) -> Value:
        """Return an instance of a class of this file."""
        return self._instance(node)

    def _object(self, home: Program, made: cst.ClassDef, node: cst.Call) -> Value:
        """Return what a call makes of a class of a file; of one derived from a wrapper, that."""
        kind = home.values.wrapper(made)
        if kind:
            return self._layer(kind, node)
        value = home.values.made(made)
        return value if home is self._program else portable(value, home, self._program)

    def wrapper(self, node: cst.ClassDef) -> str:
        """Return the ``DataParallel`` of torch that a class of this file extends, or ""."""
        owner = self._program.classes.get(node)
        lineage = [] if owner is None else self._program.classes.lineage(owner)
        bases = (base for one in lineage for base in one.bases)
        return next((one for one in bases if _is_wrapper(one)), "")

    def _is_transparent(self, item: cst.Decorator) -> bool:
        """Whether a decorator leaves alone what the function returns."""
        node = item.decorator
        name = self._program.names.qualified(node.func if isinstance(node, cst.Call) else node)
        return name.startswith("torch.") or name in _TRANSPARENT

    def derived(self, node: cst.Call) -> Value:
        """Return the result of an unknown function: nothing but the GPU its arguments live on.

        What it was given on the host it may have moved.
        """
        values = [self._value(arg.value) for arg in node.args]
        device = shared_device(v.device for v in values if v.kind is not Kind.DEVICE)
        return Value(Kind.UNKNOWN, device=Device.UNKNOWN if device is Device.CPU else device)

    def returned(self, function: cst.FunctionDef) -> Value:
        """Return what a function of this file returns."""
        if function.asynchronous is not None:
            return UNKNOWN
        program = self._program
        promised = UNKNOWN
        if function.returns is not None:
            promised = self.annotated(function.returns.annotation)
            if promised.known and promised.kind not in _SEEN:
                return promised
        if program.yields(function):
            return Value(Kind.ITERATOR)
        returns = program.returns(function)
        if not returns:
            return self._overridden(function)
        one_of = self._value if len(returns) == 1 else self._one_of_several
        value = self._memory.answer(
            id(function),
            lambda: join(NONE if r.value is None else one_of(r.value) for r in returns),
        )
        return promised if promised in _SCALARS.values() and not value.known else value

    def _one_of_several(self, node: cst.BaseExpression) -> Value:
        """Return one of the values that become one: of a dictionary, what it holds is left."""
        value = self._value(node)
        dictionary = value.kind is Kind.DICT and value.element is None
        return replace(value, element=self.held(value)) if dictionary else value

    def _overridden(self, function: cst.FunctionDef) -> Value:
        """Return what a method gives without ``return``: nothing, or what heirs have it return."""
        program = self._program
        owner = program.classes.around(function) if is_placeholder(function) else None
        if owner is None or owner.methods.get(function.name.value) is not function:
            return NONE
        heirs = program.calls.overrides_in(owner, function.name.value)
        if not heirs:
            return NONE
        return self._memory.answer(
            id(function),
            lambda: join_known(
                [
                    portable(one.program.values.result(one.function), one.program, program)
                    for one in heirs
                ]
            ),
        )

    def _instance(self, made: cst.ClassDef) -> Value:
        found = self._program.classes.get(made)
        name = f".{made.name.value}"
        if found is None:
            return Value(Kind.INSTANCE, type=name, made=made)
        kind = (
            Kind.MODULE if found.is_module else Kind.DATASET if found.is_dataset else Kind.INSTANCE
        )
        return Value(kind, type=name, made=made)

    def _forward(self, module: Value, node: cst.Call) -> Value:
        """Return what calling a module gives."""
        if module.wraps is not None:
            return self._forward(module.wraps.on(module.device), node)
        if module.type in _HOST_LOSSES:
            return Value(Kind.TENSOR, device=Device.CPU)
        given = {self._value(arg.value).device for arg in node.args}
        device = shared_device((*given, module.device))
        computes_there = given == {Device.CPU} and _is_layer(module)
        if device is Device.CPU and module.device is not Device.CPU and not computes_there:
            device = Device.UNKNOWN if module.device is Device.UNKNOWN else module.device
        tensor = Value(Kind.TENSOR, device=device)
        if module.type in torch_api.RECURRENT or module.type == "torch.nn.MultiheadAttention":
            return Value(Kind.TUPLE, items=(tensor, tensor))
        found = forward_of(self._program, module)
        return tensor if found is None else _placed(self._result_at(*found, node), device)

    def _method_of(self, base: Value, method: str) -> tuple[Program, cst.FunctionDef] | None:
        """Return a method of the class of an object, with its file."""
        classes, project = self._program.classes, self._program.project
        owner = classes.named(base.type) or classes.get(base.made)
        if owner is not None:
            own = classes.method(owner, method)
            return None if own is None else (self._program, own)
        found = project.method(base.type, method) if project and ":" in base.type else None
        return None if found is None else (found.program, found.function)

    def _result_at(self, home: Program, function: cst.FunctionDef, site: cst.Call) -> Value:
        """Return what a function of this file or another one gives to a call."""
        if home is self._program:
            return self._returned_to(function, site)
        return portable(home.values.result(function, site), home, self._program)

    def _method(self, node: cst.Call, func: cst.Attribute) -> Value:
        base = self._value(func.value)
        method = func.attr.value
        match base.kind:
            case Kind.NEVER:
                return base
            case Kind.TENSOR | Kind.BATCH:
                return self._tensor_method(base, method, node)
            case Kind.NDARRAY | Kind.NPSCALAR:
                return numpy_api.method(base, method, node, self)
            case Kind.MODULE:
                return self._module_method(base, method, node)
            case Kind.INSTANCE if base.type == numpy_api.GENERATOR:
                return numpy_api.draw(method, node, self)
            case Kind.INSTANCE if base.type in environments.ANSWERING:
                return environments.answer(base, method, self._places(node))
            case Kind.INSTANCE | Kind.DATASET:
                return self._own_method(base, method, node)
            case Kind.DICT:
                return self._dict_method(base, method)
            case Kind.ITERATOR if method in ("next", "__next__", "pop", "popleft"):
                return base.each()
            case Kind.STRING:
                return (
                    Value(Kind.LIST, element=STRING)
                    if method in ("split", "splitlines")
                    else STRING
                )
            case Kind.LIST | Kind.TUPLE:
                return base.each() if method == "pop" else NONE if method == "append" else NUMBER
            case Kind.OPTIMIZER | Kind.SCHEDULER:
                return OTHER
            case Kind.SCALER:
                return self.derived(node)
            case _:
                return self._unknown_method(base, method, node)

    def _places(self, node: cst.Call) -> int:
        """Return how many targets what a call gives is unpacked into at once; 0 where it is not."""
        match self._program.parent(node):
            case cst.Assign(value=value, targets=[cst.AssignTarget(target=cst.Tuple() as names)]):
                plain = all(isinstance(one, cst.Element) for one in names.elements)
                return len(names.elements) if value is node and plain else 0
            case _:
                return 0

    def _tensor_method(self, base: Value, method: str, node: cst.Call) -> Value:
        tensor = Value(Kind.TENSOR, device=base.device)
        if method in torch_api.TENSOR_NUMBER:
            return NUMBER
        if method in torch_api.TENSOR_BOOL:
            return BOOL
        if method in torch_api.TENSOR_NONE:
            return NONE
        if base.kind is Kind.BATCH and method in ("items", "values", "get", "pop"):
            return _batch_method(base, method)
        if method.rstrip("_") not in torch_api.TENSOR_METHODS:
            return UNKNOWN  # of an object that is moved as a tensor is
        match method:
            case "cpu":
                return tensor.on(Device.CPU)
            case "cuda":
                return tensor.on(Device.CUDA)
            case "to":
                return tensor.on(self.moved_to(node, base.device))
            case "numpy":
                return Value(Kind.NDARRAY)
            case "tolist":
                return Value(Kind.LIST, element=UNKNOWN)
            case "size":
                return NUMBER if node.args else Value(Kind.TUPLE, element=NUMBER)
            case "stride":
                return NUMBER if node.args else Value(Kind.TUPLE, element=NUMBER)
            case "type":
                return tensor.on(self._typed(node, base.device)) if node.args else STRING
            case "type_as" if node.args:
                return tensor.on(self._beside(node, base.device))
        return _shaped(method, len(node.args), tensor)

    def _typed(self, node: cst.Call, before: Device) -> Device:
        """Where ``.type(torch.cuda.FloatTensor)`` puts a tensor."""
        after = self._program.devices.of_tensor_type(node.args[0].value)
        return after if after.gpu else before

    def _beside(self, node: cst.Call, before: Device) -> Device:
        """Where ``.type_as(other)`` puts a tensor: to the other one, wherever that is."""
        after = self._value(node.args[0].value).device
        return after if after is not Device.UNKNOWN or before is Device.CPU else before

    def moved_to(self, node: cst.Call, before: Device) -> Device:
        """Where ``.to(...)`` with these arguments puts a tensor."""
        for arg in node.args:
            word = None if arg.keyword is None else arg.keyword.value
            if word not in (None, "device"):
                continue
            device = self.device(arg.value)
            if device is not None:
                return device
            if word == "device":
                return Device.UNKNOWN
        return before

    def device(self, node: cst.BaseExpression) -> Device | None:
        """Return the device that an argument of ``.to()`` names; None if it names none."""
        text = literal(node)
        if isinstance(node, (cst.SimpleString, cst.FormattedString)):
            return _device_named(text if text is not None else _start_of(node))
        if isinstance(node, cst.Integer):
            return Device.CUDA
        value = self._value(node)
        if value.kind is Kind.DEVICE:
            return Device.MAYBE if value.device is Device.UNKNOWN else value.device
        if value.kind is Kind.STRING:
            found = self._program.devices.of_string(node)
            return Device.MAYBE if found is Device.UNKNOWN and _like_device(node) else found
        if value.kind is Kind.DTYPE or value.kind is Kind.TENSOR:
            return None if value.kind is Kind.DTYPE else value.device
        return Device.MAYBE if _like_device(node) else None

    def _module_method(self, base: Value, method: str, node: cst.Call) -> Value:
        found = self._method_of(base, method) if method != "forward" else None
        as_of_torch = method in torch_api.MODULE_SELF and found is not None and as_of_base(*found)
        if found is not None and not as_of_torch:
            return self._result_at(*found, node)
        if method in torch_api.MODULE_SELF:
            if method == "to":
                return base.on(self.moved_to(node, base.device))
            if method in ("cuda", "cpu"):
                return base.on(Device.CUDA if method == "cuda" else Device.CPU)
            return base
        if method in ("parameters", "buffers"):
            return Value(Kind.ITERATOR, element=Value(Kind.TENSOR, device=base.device))
        if method in ("named_parameters", "named_buffers"):
            pair = Value(Kind.TUPLE, items=(STRING, Value(Kind.TENSOR, device=base.device)))
            return Value(Kind.ITERATOR, element=pair)
        if method in ("modules", "children"):
            return Value(Kind.ITERATOR, element=Value(Kind.MODULE))
        if method in ("named_modules", "named_children"):
            pair = Value(Kind.TUPLE, items=(STRING, Value(Kind.MODULE)))
            return Value(Kind.ITERATOR, element=pair)
        if method == "state_dict":
            return Value(Kind.DICT)
        if method in ("zero_grad", "load_state_dict", "register_buffer", "add_module"):
            return OTHER
        if method == "forward":
            return self._forward(base, node)
        kept = self._kept(base, method)
        if kept.kind is Kind.MODULE and kept.device is Device.CPU:
            return self._forward(kept, node)  # a part that was put on the host
        if kept.kind is Kind.FUNCTION or _is_layer(kept) or _is_of_project(kept):
            result = self._called(kept, node)
            # what a forward pass is given is only taken to be on the GPU: its call knows better
            assumed = result.kind is Kind.TENSOR and result.device is Device.MAYBE
            return result.on(Device.UNKNOWN) if assumed else result
        return self.derived(node)

    def _own_method(self, base: Value, method: str, node: cst.Call) -> Value:
        found = self._method_of(base, method)
        if found is not None:
            return self._result_at(*found, node)
        kept = self._kept(base, method)
        return self._called(kept, node) if kept.known else self.derived(node)

    def held(self, kept: Value) -> Value | None:
        """Return what any value of a dictionary is; None where nothing is known of it.

        Of one that holds tensors of the GPU beside others, each is what its own key says.
        """
        made = kept.made
        given = self._entries.held(made) if isinstance(made, cst.Dict) else None
        if given is None:
            return kept.element
        values = [self._value(one) for one in given]
        places = {one.device.gpu for one in values if one.kind in (Kind.TENSOR, Kind.BATCH)}
        return join(values) if len(places) < 2 else UNKNOWN

    def _dict_method(self, base: Value, method: str) -> Value:
        values = self.held(base) or UNKNOWN
        if method == "items":
            return Value(Kind.ITERATOR, element=Value(Kind.TUPLE, items=(UNKNOWN, values)))
        if method == "values":
            return Value(Kind.ITERATOR, element=values)
        if method in ("get", "pop"):  # or the default, which is no tensor elsewhere
            return Value(Kind.UNKNOWN, device=values.device)
        return UNKNOWN

    def _unknown_method(self, base: Value, method: str, node: cst.Call) -> Value:
        """Methods that only tensors have say what they give, whatever they are called on."""
        match method:
            case "item":
                return NUMBER
            case "numpy":
                return Value(Kind.NDARRAY, rank=numpy_api.MAYBE_SCALAR)
            case "backward" | "append" | "extend" | "zero_grad":
                return NONE
            case "cuda":
                return Value(Kind.UNKNOWN, device=Device.CUDA)
            case "cpu":
                return Value(Kind.UNKNOWN, device=Device.CPU)
            case "detach":
                return Value(Kind.TENSOR, device=base.device)
            case "to":
                return Value(Kind.UNKNOWN, device=self.moved_to(node, base.device))
            case "size" if len(node.args) == 1:
                return NUMBER
            case "numel" | "dim":
                return NUMBER
            case "format" | "join" | "strip" | "lower" | "upper":
                return STRING
            case "tolist":
                return Value(Kind.LIST, element=UNKNOWN)
        device = shared_device((base.device, self.derived(node).device))
        return Value(Kind.UNKNOWN, device=device)

    def _builtin(self, name: str, node: cst.Call) -> Value:
        args = [arg.value for arg in node.args]
        first = args[0] if args else None
        match name:
            case "len" | "int" | "float" | "ord" | "hash" | "id":
                return NUMBER
            case "bool" | "isinstance" | "hasattr" | "callable" | "any" | "all" | "issubclass":
                return BOOL
            case "str" | "repr" | "format" | "chr" | "input":
                return STRING
            case "range":
                return Value(Kind.ITERATOR, element=NUMBER)
            case "enumerate" if first is not None:
                pair = Value(Kind.TUPLE, items=(NUMBER, self.each(first)))
                return Value(Kind.ITERATOR, element=pair)
            case "zip" if len(args) == 1 and node.args[0].star:
                return self._transposed(self.each(args[0]))
            case "zip":
                parts = tuple(self.each(arg) for arg in args)
                return Value(Kind.ITERATOR, element=Value(Kind.TUPLE, items=parts))
            case "iter" | "reversed" | "filter" if first is not None:
                return Value(Kind.ITERATOR, element=self.each(args[-1]))
            case "next" if first is not None:
                return self.each(first)
            case "list" | "sorted" | "tuple":
                kind = Kind.TUPLE if name == "tuple" else Kind.LIST
                if first is None:
                    return Value(kind, made=node, items=())
                return Value(kind, element=self.each(first))
            case "sum" if first is not None:
                return self._summed(self.each(first))
            case "abs" | "round" if first is not None:
                return self._computed(first)
            case "max" | "min" if args:
                return self.each(args[0]) if len(args) == 1 else join(self._value(a) for a in args)
            case "dict":
                return Value(Kind.DICT, made=node)
            case "map" if isinstance(first, cst.Lambda):
                return Value(Kind.ITERATOR, element=self._value(first.body))
            case "set" | "frozenset" | "map" | "open" | "type" | "object" | "bytes":
                return OTHER
            case "print":
                return NONE
            case _:
                return UNKNOWN

    def _transposed(self, row: Value) -> Value:
        """Return the columns that ``zip(*rows)`` gives."""
        if row.kind is not Kind.TUPLE or row.items is None:
            return Value(Kind.ITERATOR, element=Value(Kind.TUPLE, element=row.each()))
        columns = tuple(Value(Kind.TUPLE, element=item) for item in row.items)
        return Value(Kind.ITERATOR, items=columns)

    def _summed(self, element: Value) -> Value:
        if element.kind in (Kind.NUMBER, Kind.BOOL):
            return NUMBER
        if element.kind in (Kind.TENSOR, Kind.BATCH):
            return Value(Kind.TENSOR, device=element.device)
        return Value(Kind.UNKNOWN, device=element.device)

    # -- torch and libraries -----------------------------------------------------------------

    def _torch_call(self, name: str, node: cst.Call) -> Value:
        instance = self.instance_of(name, node)
        if instance.known:
            return instance
        last = name.rpartition(".")[2]
        space = name[: -len(last) - 1]
        if name == "torch.device":
            return Value(Kind.DEVICE, made=node, device=self._device_call(node))
        if name in _GIVING_BACK and node.args:
            return self._value(node.args[0].value)
        if last in _LEGACY_TENSORS:
            return Value(Kind.TENSOR, device=Device.CUDA if "cuda" in name else Device.CPU)
        if name.startswith(("torch.cuda.", "torch.backends.", "torch.mps.", "torch.xpu.")):
            if last.startswith(("is_", "can_")):
                return BOOL
            return NUMBER if last.startswith(("device_count", "memory", "max_memory")) else OTHER
        if name.startswith("torch.accelerator."):
            if last == "current_accelerator":
                return Value(Kind.DEVICE, device=Device.MAYBE)
            return BOOL if last.startswith("is_") else OTHER
        if space in ("torch.nn.init", "torch.nn.functional", "torch.linalg", "torch.fft",
                     "torch.special", "torch.autograd"):  # fmt: skip
            if last == "grad":
                return Value(
                    Kind.TUPLE, element=Value(Kind.TENSOR, device=self.derived(node).device)
                )
            pair = last.endswith("_with_indices") or last == "multi_head_attention_forward"
            return _shaped(last, len(node.args) - 1, self._result(node)) if not pair else UNKNOWN
        if name in torch_api.NORM_CLIPS:
            return self._result(node) if self._program.may_be(_NORM_ON_DEVICE) else NUMBER
        if space == "torch.nn.utils.rnn" and last in ("pad_sequence", "pad_packed_sequence"):
            tensor = self._result(node)
            return tensor if last == "pad_sequence" else Value(Kind.TUPLE, items=(tensor, tensor))
        if space in ("torch.distributed", "torch.utils.data", "torch.nn.utils"):
            return self._data_call(last, node) if space == "torch.utils.data" else UNKNOWN
        if space == "torch" and last.endswith("_enabled"):
            return BOOL
        if space == "torch" and last not in torch_api.NO_TENSOR and last[:1].islower():
            others = 0 if self._compares(last, node) else len(node.args) - 1
            return _shaped(last, others, self._result(node))
        if space == "torch" and last == "numel":
            return NUMBER
        if space == "torch" and last in ("is_tensor", "equal", "allclose", "is_floating_point"):
            return BOOL
        return UNKNOWN

    def _compares(self, last: str, node: cst.Call) -> bool:
        """``torch.min(a, b)`` of two tensors is one, and no pair as ``torch.min(a, 0)`` is."""
        match node.args:
            case [_, cst.Arg(value=second, keyword=None | cst.Name("other"), star="")]:
                return last in ("max", "min") and self._value(second).kind is Kind.TENSOR
            case _:
                return False

    def _data_call(self, last: str, node: cst.Call) -> Value:
        if last == "random_split":
            return Value(
                Kind.LIST, element=Value(Kind.DATASET, type="torch.utils.data.Subset", made=node)
            )
        if last in ("default_collate", "default_convert"):
            return BATCH
        return UNKNOWN

    def _result(self, node: cst.Call) -> Value:
        """Return a tensor of a torch function: on ``device=``, else where its operands live."""
        for arg in node.args:
            if arg.keyword is not None and arg.keyword.value == "device":
                return Value(Kind.TENSOR, device=self.device(arg.value) or Device.UNKNOWN)
        given: list[Value] = []
        for arg in node.args:
            value = self._value(arg.value)
            given += [value, *(value.items or ())]
            if value.element is not None:
                given.append(value.element)
        device = shared_device(value.device for value in given)
        if device is Device.UNKNOWN:
            if _is_factory(node):
                device = Device.CPU
            elif any(value.kind is Kind.NEVER for value in given):
                return NEVER  # of what a circle of questions has not yet found
        return Value(Kind.TENSOR, device=device)

    def _device_call(self, node: cst.Call) -> Device:
        if not node.args:
            return Device.UNKNOWN
        return self.device(node.args[0].value) or self._program.devices.of_string(
            node.args[0].value
        )

    def instance_of(self, name: str, made: cst.Call | None) -> Value:
        """Return an instance of a known class, by the class's qualified name."""
        last = name.rpartition(".")[2]
        if name in ("torch.Tensor", "torch.nn.Parameter", "torch.autograd.Variable"):
            return self._wrapped(made)
        if name == "numpy.ndarray":
            return Value(Kind.NDARRAY)
        if name in ("torch.utils.data.DataLoader", "torch_geometric.loader.DataLoader"):
            return Value(Kind.LOADER, type=name, made=made)
        if name in torch_api.DATASET_BASES or name.startswith("torchvision.datasets."):
            return Value(Kind.DATASET, type=name, made=made) if last[:1].isupper() else UNKNOWN
        if name in torch_api.OPTIMIZERS or name == "torch.optim.Optimizer":
            return Value(Kind.OPTIMIZER, type=name, made=made)
        if name.startswith("torch.optim.lr_scheduler."):
            return Value(Kind.SCHEDULER, type=name, made=made)
        if name in torch_api.GRAD_SCALERS:
            return Value(Kind.SCALER, type=name, made=made)
        if name.startswith("torch.nn.") and last[:1].isupper() and "utils" not in name:
            return self._layer(name, made)
        if name == "torch.device":
            return Value(Kind.DEVICE, made=made) if made is None else UNKNOWN
        if name.startswith(".") and made is None:
            found = self._program.classes.named(name)
            return UNKNOWN if found is None else self._instance(found.node)
        return UNKNOWN

    def _wrapped(self, made: cst.Call | None) -> Value:
        """``Variable(x)``, ``Parameter(x)`` and ``Tensor(x)``: a tensor where ``x`` lives."""
        if made is None or not made.args:
            return Value(Kind.TENSOR)
        inner = self._value(made.args[0].value).device
        legacy = self._program.names.qualified(made.func) == "torch.Tensor"
        return Value(Kind.TENSOR, device=Device.CPU if legacy else inner)

    def _layer(self, name: str, made: cst.Call | None) -> Value:
        if made is None or not made.args or not _is_wrapper(name):
            return Value(Kind.MODULE, type=name, made=made)
        inner = self._value(made.args[0].value)
        device = Device.CUDA if inner.device is Device.UNKNOWN else inner.device
        held = inner if inner.kind is Kind.MODULE else None
        return Value(Kind.MODULE, type=name, made=made, element=held, device=device)

    def _drawn(self, function: str, node: cst.Call) -> Value:
        """Return what a function of ``random`` gives: a number, or what it picks of several."""
        if function not in ("choice", "choices", "sample"):
            return NUMBER
        given = node.args[0].value if node.args and not node.args[0].star else None
        one = UNKNOWN if given is None else self.each(given)
        return one if function == "choice" else Value(Kind.LIST, element=one)

    def _library_call(self, name: str, node: cst.Call) -> Value | None:
        """Return calls of libraries around torch; None where nothing is known."""
        last = name.rpartition(".")[2]
        if name in _PASS_THROUGH and node.args and _is_iterable(node.args[0]):
            return self._value(node.args[0].value)
        if name.endswith((".tqdm", ".trange")) and name.startswith("tqdm"):
            return Value(Kind.ITERATOR, element=NUMBER) if last == "trange" else UNKNOWN
        if name.startswith("torchvision.models.") and last[:1].islower():
            return Value(Kind.MODULE, type=name, made=node)
        if name.startswith("torchvision.datasets."):
            return Value(Kind.DATASET, type=name, made=node)
        if name.startswith("torchvision.transforms."):
            return Value(Kind.OTHER, type=name, made=node)
        if name in ("timm.create_model", "timm.models.create_model", *_HOST_LOSSES):
            return Value(Kind.MODULE, type=name, made=node)
        if name.startswith("transformers.") and last == "from_pretrained" and "Model" in name:
            return Value(Kind.MODULE, type=name, made=node)
        if name.startswith(("math.", "random.", "time.")):
            return self._drawn(last, node) if name.startswith("random.") else NUMBER
        if name == _DEQUE:
            if not node.args or node.args[0].keyword is not None:  # `maxlen`
                return Value(Kind.ITERATOR, type=name, items=())
            return Value(Kind.ITERATOR, type=name, element=self.each(node.args[0].value))
        if name.startswith("copy.") and node.args:
            return self._value(node.args[0].value)
        if name == "apex.amp.initialize":  # which gives back the model and the optimizer
            given = [self._value(arg.value) for arg in node.args if arg.keyword is None]
            return Value(Kind.TUPLE, items=tuple(given[:2])) if len(given) > 1 else None
        if name == "apex.amp.master_params":
            return Value(Kind.ITERATOR, element=Value(Kind.TENSOR, device=Device.MAYBE))
        if name.endswith("GradScaler"):
            return Value(Kind.SCALER, type=name, made=node)
        return environments.made(name, node, self)


# -- helpers without state --------------------------------------------------------------------


def _unpacked(value: Value, path: tuple[int, ...]) -> Value:
    for step in path:
        value = value.member(step) if value.kind is not Kind.LOADER else BATCH
    return value


def _is_iterable(arg: cst.Arg) -> bool:
    """Whether an argument of a progress bar is what it goes through: not ``total=9``."""
    return arg.keyword is None or arg.keyword.value in ("iterable", "sequence")


def _batch_method(batch: Value, method: str) -> Value:
    """Return what the methods of a dictionary give where the batch is one."""
    match method:
        case "items":
            return Value(Kind.ITERATOR, element=Value(Kind.TUPLE, items=(STRING, batch)))
        case "values":
            return Value(Kind.ITERATOR, element=batch)
        case _:
            return batch


def _is_layer(module: Value) -> bool:
    """Whether a module is a layer of torch: it moves nothing, and runs where its input lives."""
    last = module.type.rpartition(".")[2]
    return module.type.startswith("torch.nn.") and last not in _HOLDERS


def _is_wrapper(name: str) -> bool:
    return name.startswith("torch.") and name.endswith("DataParallel")


def _is_of_project(module: Value) -> bool:
    """Whether a module is of a class that this file, or another one of the project, defines."""
    return module.kind is Kind.MODULE and (module.type.startswith(".") or ":" in module.type)


def _placed(value: Value, device: Device) -> Value:
    """Return what a forward pass gives, on the device it ran on."""
    if value.kind is Kind.TENSOR:
        return value if value.device is not Device.UNKNOWN else value.on(device)
    if value.items is not None and value.kind is Kind.TUPLE:
        return Value(Kind.TUPLE, items=tuple(_placed(item, device) for item in value.items))
    if value.kind is Kind.UNKNOWN:
        return Value(Kind.TENSOR, device=device)
    if value.kind is not Kind.DICT:
        return value
    if value.element is not None and value.element.is_tensor:
        return replace(value, element=_placed(value.element, device))
    if value.element in (None, UNKNOWN) and not isinstance(value.made, cst.Dict):
        return replace(value, element=Value(Kind.UNKNOWN, device=device))
    return value


def _shaped(method: str, args: int, tensor: Value) -> Value:
    """One tensor, a pair, or several, by what the function gives with that many arguments."""
    if method in torch_api.ALWAYS_PAIR or (method in torch_api.PAIR_WITH_DIM and args > 0):
        return Value(Kind.TUPLE, items=(tensor, tensor))
    if method in torch_api.SEVERAL:
        return Value(Kind.TUPLE, element=tensor)
    return tensor


def _promoted(left: Value, right: Value) -> str:
    if left.dtype == right.dtype:
        return left.dtype if left.dtype.startswith("float") else ""  # int64 / int64 is float64
    if Kind.NUMBER in (left.kind, right.kind):
        array = left if left.kind is Kind.NDARRAY else right
        return array.dtype if array.dtype.startswith("float") else ""
    return ""


def _constant(name: str) -> Value:
    last = name.rpartition(".")[2]
    if name.startswith("torch.") and last in _DTYPES:
        return Value(Kind.DTYPE, type=name)
    if name in ("numpy.pi", "numpy.e", "numpy.inf", "numpy.nan", "torch.pi", "torch.inf"):
        return NUMBER
    return Value(Kind.UNKNOWN, type=name)


_DTYPES = frozenset(
    {"float16", "float32", "float64", "bfloat16", "half", "float", "double", "int8", "int16",
     "int32", "int64", "uint8", "short", "int", "long", "bool", "complex64", "complex128"}
)  # fmt: skip


def _constant_index(node: cst.Subscript) -> int | None:
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return None
    match node.slice[0].slice.value:
        case cst.Integer(value=text) if text.isdigit():
            return int(text)
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer(value=text)):
            return -int(text) if text.isdigit() else None
        case _:
            return None


def _is_factory(node: cst.Call) -> bool:
    """Whether a torch function makes a tensor out of no tensor: then it is on the host."""
    name = dotted(node.func).rpartition(".")[2]
    if name == "normal":  # of given means: where those are
        words = {arg.keyword.value for arg in node.args if arg.keyword is not None}
        return "size" in words or len(node.args) - len(words) > 2
    return name in _FACTORIES


_FACTORIES = frozenset(
    {"tensor", "as_tensor", "from_numpy", "zeros", "ones", "full", "empty", "eye", "arange",
     "linspace", "logspace", "rand", "randn", "randint", "randperm", "tril_indices",
     "triu_indices", "from_file", "frombuffer"}
)  # fmt: skip


_MOVES = frozenset({"to", "cuda", "type", "type_as", "forward"})
_XLA_DEVICES = frozenset({"torch_xla.device", "torch_xla.core.xla_model.xla_device"})


def _device_named(text: str) -> Device:
    if text.startswith("cuda") or text.isdigit():
        return Device.CUDA
    if text == "cpu":
        return Device.CPU
    if text.startswith(("mps", "xla", "meta", "xpu", "hpu", "npu", "mlu")):
        return Device.OTHER
    return Device.UNKNOWN


def _start_of(node: cst.BaseExpression) -> str:
    """Return the literal start of an f-string."""
    if isinstance(node, cst.FormattedString) and node.parts:
        part = node.parts[0]
        return part.value if isinstance(part, cst.FormattedStringText) else ""
    return ""


def _like_device(node: cst.CSTNode) -> bool:
    """Whether an expression is named like a device: ``device``, ``args.device``, ``self.gpu``."""
    text = dotted(node).rpartition(".")[2].lower()
    return any(word in text for word in ("device", "gpu", "cuda", "rank")) or text == "dev"
