"""What a file does with layers beside running them: reads biases, loads weights, freezes norms."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.importing import importers, texts_of_importers
from torchlint.analysis.mentions import words
from torchlint.analysis.none_checks import checked
from torchlint.analysis.optimizers import never_steps
from torchlint.analysis.origins import origins
from torchlint.analysis.scripts import is_script
from torchlint.analysis.values import Kind
from torchlint.imports import MANY
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.imports import Imports

# Loads weights: with what it is called on, where that is a name.
_LOADS = re.compile(
    r"\.(load_state_dict)\(|"
    + words("load_checkpoint", "load_from_checkpoint", "from_pretrained",
            "load_state_dict_from_url", then=r"\(")
)  # fmt: skip
_RECEIVER = re.compile(r"([\w.]+)(?:\[[^\]\n]*\])*$")
_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)
_LOADING = ("load_state_dict", "load_from_checkpoint", "load_checkpoint", "from_pretrained")
_NO_MODEL = re.compile(r"optim|sched|scaler|(^|_)opts?(_|$)|sampler", re.IGNORECASE)
_PRETRAINED = re.compile(r"pre_?trained", re.IGNORECASE)
_LEARNS = re.compile(r"backward|train(?<=\btrain)\w*\(|trainer|\.fit\(")  # in small letters
_TRAINS_ELSEWHERE = frozenset({"backward", "fit"})  # in a notebook, or the README
_FREEZES = frozenset({"eval", "requires_grad_"})
_BIAS_KEY = re.compile(r"""[fF]?(?:"[^"]*\.bias"|'[^']*\.bias')""")
_FETCHES = frozenset({"load_url", "load_state_dict_from_url"})
_FROM_WEB = re.compile(
    words(*sorted(_FETCHES), "load_file_from_url", "download_url_to_file", "hf_hub_download",
          then=r"\(")
)  # fmt: skip
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


def bias_by_key(program: Program) -> cst.Subscript | None:
    """Return ``weights[f"conv{i}.0.bias"]``, which asks for a parameter by its name."""
    for node in program.index.of(cst.Subscript) if ".bias" in program.text else ():
        match node.slice:
            case [cst.SubscriptElement(slice=cst.Index(value=key))] if _BIAS_KEY.fullmatch(
                program.code(key)
            ) and not isinstance(program.parent(node), cst.AssignTarget | cst.Del):
                return node
            case _:
                pass
    return None


def weights_by_bias(program: Program) -> cst.Comparison | None:
    """Return ``m.bias is None`` where it decides between two ways to draw the weights."""
    for branch in program.index.of(cst.If):
        match branch:
            case cst.If(
                test=cst.Comparison(
                    left=cst.Attribute(attr=cst.Name("bias")),
                    comparisons=[
                        cst.ComparisonTarget(
                            operator=cst.Is() | cst.IsNot(), comparator=cst.Name("None")
                        )
                    ],
                ) as test,
                orelse=cst.Else() as other,
            ) if all(_draws_weights(program, arm) for arm in (branch.body, other.body)):
                return test
            case _:
                pass
    return None


def _draws_weights(program: Program, block: cst.BaseSuite) -> bool:
    """``nn.init.normal_(m.weight)``, ``m.weight.data.normal_(0, 0.01)``."""
    return any(node.attr.value == "weight" for node in program.index.below(block, cst.Attribute))


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


def loading_file(program: Program) -> str | None:
    """Return the name of a file of the project that loads weights into a model: "" for this one.

    None where no file does.  The texts alone are looked at, so a model may be another one.
    """
    if _PRETRAINED.search(program.text) or _loads_weights(program.text):
        return ""
    project, path = program.project, program.path
    if project is None or path is None:
        return None
    found = next(_loaders(project.imports), None)
    return None if found is None else Path(found).name


def _loaders(imports: Imports) -> Iterator[str]:
    for name in sorted(imports.having(_LOADING)):
        if _loads_weights(imports.text(name)):
            yield name


@functools.lru_cache(1024)  # asked of each file of a project for each file with such a layer
def _loads_weights(text: str) -> bool:
    return any(
        match[1] is None or _may_be_model(text, match.start()) for match in _LOADS.finditer(text)
    )


def _may_be_model(text: str, end: int) -> bool:
    """Whether what ends here in a text may name a model."""
    found = _RECEIVER.search(text[text.rfind("\n", 0, end) + 1 : end])
    return found is None or not _NO_MODEL.search(found[1].rpartition(".")[2])


def is_evaluated_only(program: Program, layer: cst.Call) -> bool:
    """Whether a layer is made in a script that loads weights, to evaluate what it has built.

    Those were trained elsewhere, with this bias: a norm then subtracts a mean that it has stored,
    which the bias is part of.  An optimizer may be left over from the script that trains.  What a
    file that trains imports from the script, it may train.
    """
    text = program.text
    if not (is_script(program) and _loads_weights(text)) or _LEARNS.search(program.lowered):
        return False  # it does more than to make an optimizer
    if not never_steps(program) and (_trains(text) or not any(program.method_calls("eval"))):
        return False
    above = (a for a in program.index.ancestors(layer) if isinstance(a, _DEFINITIONS))
    owner = next(reversed([*above]), None)
    word = r"\w+" if owner is None else rf"(?:{owner.name.value}\b|\*)"
    takes = re.compile(rf"import(?<=\bimport)\s*(?:\([^)]*|[^\n(]*)(?<!\w){word}|\.{word}")
    texts = texts_of_importers(program)
    return not any(_trains(one) and takes.search(one) for one in texts)


def is_trained_nowhere(program: Program) -> bool:
    """Whether nothing in the project trains, and weights are loaded into what a file defines.

    By a script, or from the web by a library: they come from elsewhere, and have the biases; see
    `is_evaluated_only`.
    """
    project, path = program.project, program.path
    if project is None or path is None:
        return False
    imports = project.imports
    if imports.where(_trains) or not imports.words_of_others.isdisjoint(_TRAINS_ELSEWHERE):
        return False
    return any(_evaluates(imports.text(one)) for one in imports.above([str(path)]))


def _trains(text: str) -> bool:
    text = text.lower()
    return "optim" in text or _LEARNS.search(text) is not None


def _evaluates(text: str) -> bool:
    known = "__main__" in text or _FROM_WEB.search(text) is not None
    return known and ".eval()" in text and _loads_weights(text)


def is_published(program: Program, layer: cst.Call) -> bool:
    """Whether the file loads weights from the web into the class of a layer: they have its bias.

    Or into one that is made of it: ``ResNet(Bottleneck, [3, 4, 6, 3])``.  A layer that a function
    makes may be part of any class.
    """
    owner = program.classes.around(layer)
    return any(
        _is_from_web(program, call)
        and (
            owner is None
            or _is_made_of(program, program.classes.named(program.value(func.value).type), owner)
        )
        for call, func in program.method_calls("load_state_dict")
    )


def _is_made_of(program: Program, whole: Class | None, part: Class) -> bool:
    """Whether a class of a file has another one as a part, or is given it to make parts of."""
    if whole is None:
        return False
    known = {one.name: one for one in program.classes}
    made, seen = [whole], {whole.name}
    for one in made:
        places: list[cst.CSTNode] = [one.node]
        places += program.calls.by_name(one.name) if one is whole else []
        names = {name.value for place in places for name in program.index.below(place, cst.Name)}
        made += [known[name] for name in sorted(names - seen) if name in known]
        seen |= names
    return part.name in seen


def _is_from_web(program: Program, call: cst.Call) -> bool:
    """Whether all entries of a checkpoint from the web have to fit."""
    if len(call.args) != 1:
        return False
    made = origins(program, call.args[0].value)
    return any(
        isinstance(one, cst.Call) and dotted(one.func).rpartition(".")[2] in _FETCHES
        for one in made
    )


def freezes_norms(program: Program) -> bool:
    """Whether norms, and not the whole model, are put in evaluation mode or frozen.

    In the file, or in one that imports it.
    """
    if _freezes_norms(program):
        return True
    if (project := program.project) is None:
        return False
    users = [one for one in importers(program) if _may_freeze(project.imports, one)]
    others = map(project.program, users if len(users) <= MANY else ())
    return any(other is not None and _freezes_norms(other) for other in others)


def _may_freeze(imports: Imports, path: str) -> bool:
    text = imports.text(path)
    return any(word in text for word in _FREEZES) and _NORM.search(text) is not None


def _freezes_norms(program: Program) -> bool:
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
