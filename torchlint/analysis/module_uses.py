"""What a file does with layers beside running them: reads biases, loads weights, freezes norms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import dotted
from torchlint.analysis.none_checks import checked
from torchlint.analysis.values import Kind
from torchlint.imports import MANY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_DOWNLOADS = frozenset({"load_url", "load_state_dict_from_url", "from_pretrained"})
_FREEZES = frozenset({"eval", "requires_grad_"})
_NORM = re.compile(r"norm|(^|_)bn", re.IGNORECASE)
_FUSES = re.compile(r"fuse_?(conv|bn|modules|known)|quantize|prepare_qat", re.IGNORECASE)
_HOOKS = frozenset({"register_forward_hook", "register_forward_pre_hook",
                    "register_module_forward_hook", "create_feature_extractor"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class BiasRead:
    """A use of ``.bias`` that would fail on None.

    ``attribute``: the bias of ``x.attribute``; ``kinds``: only of layers whose class has one of
    these in its name.  Both empty: of any layer.
    """

    node: cst.Attribute
    attribute: str
    kinds: frozenset[str]
    made: cst.CSTNode | None

    def concerns(self, layer: cst.Call, kind: str, attribute: str) -> bool:
        """Whether it may be the bias of a layer of this class, held by this attribute."""
        if self.made is not None:
            return self.made is layer
        if self.attribute:
            return self.attribute == attribute
        return not self.kinds or any(one in kind for one in self.kinds)


def bias_reads(program: Program) -> list[BiasRead]:
    """Find uses of biases without a check for None; a module's own ``self.bias`` does not count."""
    found: list[BiasRead] = []
    for node in program.index.of(cst.Attribute):
        if node.attr.value != "bias" or dotted(node) == "self.bias" or program.qualified(node):
            continue
        if isinstance(program.parent(node), (cst.AssignTarget, cst.Del)) or checked(program, node):
            continue
        owner = node.value.attr.value if isinstance(node.value, cst.Attribute) else ""
        value = program.value(node.value) if isinstance(node.value, cst.Name) else None
        made = value.made if value is not None and value.kind is Kind.MODULE else None
        found.append(BiasRead(node, owner, _kinds_around(program, node), made))
    return found


def attribute_of(program: Program, layer: cst.Call) -> str:
    """``conv`` where the layer is built for ``self.conv``, else the empty string."""
    above = program.parent(layer)
    if isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Attribute):
        return above.targets[0].target.attr.value
    return ""


def initialised_elsewhere(program: Program) -> cst.Call | None:
    """Return a call that has another file set the weights of a model of this one, if any."""
    for call in program.index.of(cst.Call):
        name = dotted(call.func)
        if name.endswith(".apply") and len(call.args) == 1:
            if not _is_seen(program, call.args[0].value):
                return call
        elif "init" in name.rpartition(".")[2].lower() and any(
            program.value(arg.value).kind is Kind.MODULE for arg in call.args
        ):
            known = program.qualified(call.func).startswith("torch.")
            if not known and program.calls.target(call) is None and not _is_super(call.func):
                return call
    return None


def _is_super(func: cst.BaseExpression) -> bool:
    return dotted(func).rpartition(".")[2] == "__init__"


def _is_seen(program: Program, function: cst.BaseExpression) -> bool:
    """Whether a function stands in this file, or is torch's own."""
    if program.qualified(function).startswith("torch.") or isinstance(function, cst.Lambda):
        return True
    if isinstance(function, cst.Attribute) and dotted(function.value) == "self":
        owner = program.classes.around(function)
        return owner is not None and program.classes.method(owner, function.attr.value) is not None
    if isinstance(function, cst.Call) and function.args:  # partial(init, ...)
        return _is_seen(program, function.args[0].value) or _is_seen(program, function.func)
    value = program.value(function)
    return value.kind is Kind.FUNCTION and value.made is not None


def pretrained_weights(program: Program) -> cst.BaseExpression | None:
    """Return what loads pretrained weights into a model of this file: a call, or a base class."""
    for owner in program.classes:
        for arg in owner.node.bases:
            base: cst.BaseExpression = arg.value
            if dotted(base).endswith("PreTrainedModel"):
                return base
    for call in program.index.of(cst.Call):
        if _builds_pretrained(program, call):
            return call.func
    loads = [call for call, func in program.method_calls("load_state_dict") if _own(program, func)]
    named = [call for call in loads if _is_pretrained(program, call)]
    if named or not loads:
        return named[0].func if named else None
    for call in program.index.of(cst.Call):
        if dotted(call.func).rpartition(".")[2] in _DOWNLOADS:
            return loads[0].func
    return None


def loads_weights(program: Program) -> bool:
    """Whether the file loads weights into a model."""
    return any(_own(program, func) for _, func in program.method_calls("load_state_dict"))


def loaded_elsewhere(program: Program) -> str:
    """Return the name of a file that loads saved weights into what may be a model of this one."""
    project, path = program.project, program.path
    if project is None or path is None:
        return ""
    near = project.imports.importers(str(path))
    loading = project.imports.having(("load_state_dict(torch.load(",))
    for name in near if len(near) <= MANY else ():
        other = project.program(name) if name in loading else None
        for call, func in () if other is None else other.method_calls("load_state_dict"):
            if other is not None and _loads_file(other, call) and _may_be_of(other, func, program):
                return f"`{name.rpartition('/')[2]}`"
    return ""


def _loads_file(program: Program, call: cst.Call) -> bool:
    """``model.load_state_dict(torch.load(path))``, where strictly the same names are asked for."""
    match call.args:
        case [cst.Arg(value=cst.Call(func=func))]:
            return program.qualified(func) == "torch.load"
        case _:
            return False


def _may_be_of(program: Program, func: cst.Attribute, home: Program) -> bool:
    """Whether a model may be one of a class of another file."""
    kind = program.value(func.value).type
    return _own(program, func) if not kind else kind.startswith(f"{home.path}:")


def freezes_norms(program: Program) -> bool:
    """Whether norms, and not the whole model, are put in evaluation mode or frozen."""
    for call, func in program.method_calls(*_FREEZES):
        if _is_norm(program, func.value) or _about_norms(program, call):
            return True
    for node in program.index.of(cst.Attribute):
        stored = isinstance(program.parent(node), cst.AssignTarget)
        frozen = stored and node.attr.value == "requires_grad"
        if frozen and (_is_norm(program, node.value) or _about_norms(program, node)):
            return True
    return False


def looks_inside(program: Program) -> bool:
    """Whether outputs of layers are seen by hooks, or layers are fused or quantised."""
    for call in program.index.of(cst.Call):
        name = dotted(call.func) or getattr(getattr(call.func, "attr", None), "value", "")
        last = name.rpartition(".")[2]
        if last in _HOOKS or _FUSES.search(last):
            return True
        if program.qualified(call.func).startswith(("torch.ao.quant", "torch.quantization")):
            return True
    return False


def _own(program: Program, func: cst.Attribute) -> bool:
    """Whether weights go into what may be a model of this file, not an optimizer or a library's."""
    value = program.value(func.value)
    if value.kind is Kind.UNKNOWN:
        name = dotted(func.value).lower()
        return not any(word in name for word in ("optim", "sched", "scaler", "opt_"))
    return value.kind in (Kind.MODULE, Kind.INSTANCE) and (
        value.type.startswith((".", "torch.nn.")) or not value.type
    )


def _builds_pretrained(program: Program, call: cst.Call) -> bool:
    """``build(Net, pretrained=pretrained)``: somebody else builds a class of this file."""
    own = any(
        isinstance(arg.value, cst.Name) and program.classes.named(program.qualified(arg.value))
        for arg in call.args
    )
    return own and any(
        (arg.keyword is not None and arg.keyword.value == "pretrained")
        or (isinstance(arg.value, cst.Name) and arg.value.value == "pretrained")
        for arg in call.args
    )


def _is_pretrained(program: Program, call: cst.Call) -> bool:
    """Whether what is loaded is called pretrained, by a name, a condition or the function."""
    function = program.function(call)
    if function is not None and "pretrain" in function.name.value.lower():
        return True
    places: list[cst.CSTNode] = [arg.value for arg in call.args]
    child: cst.CSTNode = call
    for above in program.index.ancestors(call):
        if isinstance(above, cst.If) and child is above.body:
            places.append(above.test)
        child = above
    texts = [program.code(place).lower() for place in places]
    return any("pretrain" in text for text in texts)


def _kinds_around(program: Program, node: cst.CSTNode) -> frozenset[str]:
    """Class names that the nearest condition around a node asks for."""
    child = node
    for above in program.index.ancestors(node):
        if isinstance(above, cst.If) and child is above.body:
            kinds = frozenset(_class_names(program, above.test))
            if kinds:
                return kinds
        child = above
    return frozenset()


def _class_names(program: Program, test: cst.BaseExpression) -> Iterator[str]:
    """Class names in ``isinstance(m, nn.Linear)``, ``"Conv" in name``, ``type(m) == nn.Linear``."""
    index = program.index
    if any(isinstance(n.operator, cst.Not) for n in index.below(test, cst.UnaryOperation)):
        return
    for text in index.below(test, cst.SimpleString):
        value = text.evaluated_value
        if isinstance(value, str) and value[:1].isupper():
            yield value
    for node in (*index.below(test, cst.Attribute), *index.below(test, cst.Name)):
        name = program.qualified(node)
        last = name.rpartition(".")[2].lstrip("_")
        if name.startswith("torch.nn.") and last[:1].isupper():
            yield last.removesuffix("Nd")


def _about_norms(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node runs under a condition that asks for norms."""
    child = node
    for above in program.index.ancestors(node):
        if isinstance(above, cst.If) and child is above.body:
            names = [text.value for text in program.index.below(above.test, cst.SimpleString)]
            if any(_NORM.search(name.strip("\"'")) for name in names):
                return True
            if any("Norm" in name for name in _class_names(program, above.test)):
                return True
        child = above
    return False


def _is_norm(program: Program, node: cst.BaseExpression) -> bool:
    value = program.value(node)
    if value.kind is Kind.MODULE and value.type.startswith("torch.nn."):
        return "Norm" in value.type
    return any(_NORM.search(part) for part in dotted(node).split("."))
