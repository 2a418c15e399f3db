"""Which parts of the samples of a dataset are float32 already: what ``ToTensor()`` has made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.construction import passed
from torchlint.analysis.dictionaries import literal
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.loaders import Path
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_DEPTH = 8  # names, functions and transforms that a sample goes through
# What follows in a `Compose`, and makes something else of the tensor.
_MAKE_OTHERS = ("ToPILImage", "PILToTensor", "ConvertImageDtype", "ToDtype", "Lambda")
_MODULES = ("torchvision.transforms.", "torchvision.transforms.v2.")


def is_float(dataset: Dataset, part: Path) -> bool:
    """Whether a part of each sample (() is all of it) is seen to be float32."""
    taken = dataset.method("__getitem__")
    if taken is None or len(part) > 1:
        return False
    program, function = taken
    search = _Search(dataset)
    given = [item.value for item in program.returns(function)]
    return bool(given) and all(search.part(program, one, part) for one in given)


@dataclass(frozen=True, slots=True)
class _Search:
    """Follows what a sample is made of, back to ``ToTensor()``."""

    dataset: Dataset

    def part(self, program: Program, node: cst.CSTNode | None, part: Path) -> bool:
        """Whether a part of an expression is float32."""
        match node, part:
            case _, ():
                return self.tensor(program, node, 0)
            case cst.Tuple() | cst.List(), (int(place),) if place < len(node.elements):
                plain = not any(isinstance(e, cst.StarredElement) for e in node.elements)
                return plain and self.tensor(program, node.elements[place].value, 0)
            case cst.Dict(), (str(key),):
                held = [
                    item.value
                    for item in node.elements
                    if isinstance(item, cst.DictElement) and literal(item.key) == key
                ]
                return len(held) == 1 and self.tensor(program, held[0], 0)
            case cst.Name(), _:
                match program.flow.reaching(node):
                    case (binding,) if _is_plain(binding):
                        return not isinstance(binding.value, cst.Name) and self.part(
                            program, binding.value, part
                        )
        return False

    def tensor(self, program: Program, node: cst.CSTNode | None, depth: int) -> bool:
        """Whether an expression is what ``ToTensor()`` has made, on every way."""
        if depth > _DEPTH:
            return False
        match node:
            case cst.Name():
                made = program.flow.reaching(node)
                return bool(made) and all(
                    self.tensor(program, _assigned(one), depth + 1) for one in made
                )
            case cst.IfExp():
                return all(self.tensor(program, one, depth + 1) for one in (node.body, node.orelse))
            case cst.Call():
                kind = _transform(program, node.func)
                if kind:
                    return kind == "functional.to_tensor"
                return self.transform(program, node.func, depth + 1)
            case _:
                return False

    def transform(self, program: Program, node: cst.CSTNode | None, depth: int) -> bool:
        """Whether a transform ends with what makes floats."""
        if depth > _DEPTH:
            return False
        match node:
            case cst.Call():
                return self._made(program, node, depth)
            case cst.Name():
                made = program.flow.reaching(node)
                return bool(made) and all(self._bound(program, one, depth) for one in made)
            case cst.Attribute(value=cst.Name(value="self")):
                return self._kept(node.attr.value, depth)
            case _:
                return False

    def _made(self, program: Program, call: cst.Call, depth: int) -> bool:
        match _transform(program, call.func), call.args:
            case "ToTensor", _:
                return True
            case "Compose", [cst.Arg(value=cst.List(elements=steps)), *_]:
                return self._ends(program, [step.value for step in steps], depth)
            case "", _:
                home, function = program, program.calls.target(call)
                if function is None and (other := program.calls.elsewhere(call)) is not None:
                    home, function = other.program, other.function
                if function is None or function.name.value == "__init__":
                    return False
                results = [item.value for item in home.returns(function)]
                return bool(results) and all(
                    self.transform(home, one, depth + 1) for one in results
                )
            case _:
                return False

    def _ends(self, program: Program, steps: list[cst.BaseExpression], depth: int) -> bool:
        """Whether nothing that follows ``ToTensor()`` makes something else of the tensor."""
        for step in reversed(steps):
            if self.transform(program, step, depth + 1):
                return True
            kind = _transform(program, step.func) if isinstance(step, cst.Call) else ""
            if not kind or kind in _MAKE_OTHERS or kind == "Compose":
                return False
        return False

    def _bound(self, program: Program, binding: Binding, depth: int) -> bool:
        param = binding.value
        if binding.kind is not Bind.PARAMETER or not isinstance(param, cst.Param):
            return _is_plain(binding) and self.transform(program, binding.value, depth + 1)
        function = program.function(param)
        given = None if function is None else passed(self.dataset, function, param)
        return given is not None and self.transform(*given, depth + 1)

    def _kept(self, name: str, depth: int) -> bool:
        """Whether all that the dataset keeps under a name ends so."""
        stores = [
            (home, store)
            for home, one in self.dataset.lineage()
            for store in one.stores.get(name, ())
        ]
        return bool(stores) and all(
            not store.path and self.transform(home, store.value, depth + 1)
            for home, store in stores
        )


def _is_plain(binding: Binding) -> bool:
    return binding.is_plain


def _assigned(binding: Binding) -> cst.CSTNode | None:
    return binding.value if _is_plain(binding) else None


def _transform(program: Program, node: cst.BaseExpression) -> str:
    """Return what a transform of torchvision is called there; "" of anything else."""
    name = program.qualified(node) or dotted(node)
    return next(
        (name.removeprefix(module) for module in reversed(_MODULES) if name.startswith(module)), ""
    )
