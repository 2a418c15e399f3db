"""Shows what is known of the arguments of `reveal(...)` in small programs."""

from __future__ import annotations

import textwrap

import libcst as cst

from torchlint.semantics.evaluation import Evaluation
from torchlint.semantics.files import Files
from torchlint.semantics.values import (
    Alternative,
    Array,
    Class,
    Device,
    Dictionary,
    File,
    Function,
    Guess,
    Instance,
    Iterator,
    Library,
    Loaded,
    Method,
    Nothing,
    Number,
    Object,
    Parameters,
    Place,
    Sequence,
    Tensor,
    Text,
    Truth,
    Unknown,
    Value,
)
from torchlint.syntax.module import Module

SUGGESTED = {"model": "model", "optimizer": "optimizer", "loader": "loader", "device": "device"}


def evaluated(files: str | dict[str, str]) -> Evaluation:
    """Evaluate a program of one file or several."""
    texts = {"main.py": files} if isinstance(files, str) else files
    modules = {path: Module(textwrap.dedent(text)) for path, text in texts.items()}
    evaluation = Evaluation(Files(modules), lambda name: SUGGESTED.get(name, ""))
    evaluation.evaluate()
    return evaluation


def revealed(files: str | dict[str, str]) -> list[str]:
    """Return what is known of each argument of `reveal`, in the order of files and lines."""
    evaluation = evaluated(files)
    found = []
    for module in evaluation.files.modules:
        for call in module.index.of(cst.Call):
            if isinstance(call.func, cst.Name) and call.func.value == "reveal":
                value = evaluation.values.get(id(call.args[0].value), ())
                found.append(shown(evaluation, value))
    return found


def shown(evaluation: Evaluation, value: Value) -> str:
    """Return a value in words."""
    return " | ".join(_shown(evaluation, one) for one in value) or "never"


def _shown(evaluation: Evaluation, one: Alternative) -> str:
    match one:
        case Unknown():
            return "?"
        case Nothing():
            return "None"
        case Library(name=name):
            return name
        case File(file=file):
            return evaluation.files.paths[file]
        case Function(at=at):
            node = evaluation.node(at)
            return f"def {node.name.value}" if isinstance(node, cst.FunctionDef) else "lambda"
        case Class(at=at):
            return f"class {_name(evaluation, at)}"
        case Instance(cls=cls):
            return _name(evaluation, cls)
        case Object(kind=kind):
            return f"{kind}()"
        case Method(owner=owner, name=name):
            return f"{_shown(evaluation, owner)}.{name}"
        case Tensor():
            return _tensor(one)
        case Array(made=made):
            return "array made" if made else "array"
        case Number(value=value) | Truth(value=value) | Text(value=value):
            kind = {Number: "number", Truth: "bool", Text: "str"}[type(one)]
            return kind if value is None else repr(value)
        case Place(device=device):
            return f"device {device.name.lower()}"
        case Parameters():
            return "parameters"
        case Iterator(element=element):
            return f"iterator of ({shown(evaluation, element)})"
        case Sequence(kind=kind, elements=elements, element=element):
            if elements is None:
                return f"{kind} of ({shown(evaluation, element)})"
            return f"{kind}({', '.join(shown(evaluation, each) for each in elements)})"
        case Dictionary(entries=entries, element=element):
            known = [f"{key}: {shown(evaluation, value)}" for key, value in entries]
            more = [shown(evaluation, element)] if element else []
            return f"dict({', '.join([*known, *more])})"
        case Guess(what=what):
            return f"{what}?"


def _name(evaluation: Evaluation, at: tuple[int, int]) -> str:
    node = evaluation.node(at)
    assert isinstance(node, cst.ClassDef)
    return node.name.value


def _tensor(one: Tensor) -> str:
    words = ["tensor" if one.sure else "tensor?"]
    if one.device is not Device.UNKNOWN:
        words.append(one.device.name.lower())
    words += ["batch"] if one.batch else []
    words += ["as loaded"] if one.loaded is Loaded.YES else []
    words += ["made"] if one.made else []
    words += ["graph"] if one.graph else []
    words += [one.dtype] if one.dtype in ("bool", "int") else []
    return " ".join(words)
