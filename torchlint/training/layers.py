"""Layers: which layer gets what another one gives, in forward passes and in sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Nothing, Object
from torchlint.training.effects import unit_around
from torchlint.training.sequences import OTHER, Consumer, Sequences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.values import At
    from torchlint.training.models import Use

RUNS = ("torch.utils.checkpoint.checkpoint", "torch.func.functional_call")
SIZES = frozenset("shape size dim ndim ndimension dtype device numel is_cuda stride".split())


class Layers(Sequences):
    """What feeds what, in all connected files."""

    def consumers(self, made: At) -> list[Consumer]:
        """Return what gets the output of a layer, a sequence or a model."""
        if made in self._open:
            return []
        self._open.add(made)
        found: list[Consumer] = []
        for use in self.uses.of(made):
            if self.uses.is_run(use):
                assert isinstance(use.parent, cst.Call)
                found += self._flow(use.parent, use.file)
            elif self._is_called_back(use):
                found += self._flow(self._call(use), use.file)
            else:
                found += self._in_container(use)
        self._open.discard(made)
        return list(dict.fromkeys(found))

    def _call(self, use: Use) -> cst.Call:
        call = self.uses.module(use.file).parent(use.parent)
        assert isinstance(call, cst.Call)
        return call

    def _is_called_back(self, use: Use) -> bool:
        """``checkpoint(self.layer, x)``."""
        if not isinstance(use.parent, cst.Arg):
            return False
        call = self.uses.module(use.file).parent(use.parent)
        if not isinstance(call, cst.Call) or call.args[0] is not use.parent:
            return False
        functions = self.uses.value(call.func)
        return any(isinstance(one, Library) and one.name in RUNS for one in functions)

    # -- forward passes ----------------------------------------------------------------------

    def _flow(self, node: cst.BaseExpression, file: int) -> list[Consumer]:
        """Return what gets the value of an expression."""
        module = self.uses.module(file)
        parent = module.parent(node)
        match parent:
            case cst.Arg(star=""):
                call = module.parent(parent)
                if isinstance(call, cst.Call) and call.args[0] is parent:
                    return list(self._entered(call.func))
                return [OTHER]
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
                return self._read(name, file)
            case cst.AnnAssign(target=cst.Name() as name):
                return self._read(name, file)
            case cst.NamedExpr(target=cst.Name() as name):
                own = self._flow(parent, file)
                binding = module.index.bound(name)
                is_read = binding is not None and self.uses.reads(binding)
                return [*self._read(name, file), *own] if is_read else own
            case cst.Attribute(value=value, attr=cst.Name(value=word)) if value is node:
                return [] if word in SIZES else [OTHER]
            case cst.IfExp(test=test):
                return [OTHER] if test is node else self._flow(parent, file)
            case cst.Return() | cst.Lambda():
                return self._returned(parent, file)
            case cst.Expr():
                return []
        return [OTHER]

    def _read(self, name: cst.Name, file: int) -> list[Consumer]:
        index = self.uses.module(file).index
        binding = index.bound(name)
        if binding is None or id(binding) in self._open:
            return []
        owner = binding.scope
        reads = self.uses.reads(binding)
        if not reads:
            return [OTHER]  # who keeps it has a use for it
        inner = [one for one in index.named[name.value] if index.scope(one) is not owner]
        if any(index.scope(one).owner(name.value) is owner for one in inner):
            return [OTHER]  # a function inside reads it
        self._open.add(id(binding))
        found = [one for read in reads for one in self._flow(read, file)]
        self._open.discard(id(binding))
        return found

    def _returned(self, node: cst.CSTNode, file: int) -> list[Consumer]:
        """Return what gets what a function returns: that of a model, what gets its output."""
        evaluation = self.uses.evaluation
        unit = unit_around(evaluation, node.body if isinstance(node, cst.Lambda) else node, file)
        callers = [(call, caller.at.file) for caller, call in evaluation.callers(unit.at)]
        if isinstance(node, cst.Return) and unit.is_module_method:
            cls = evaluation.class_around(unit)
            made = self.uses.instances(cls.at) if cls else []
            runs = [self.consumers(one) for one in made]
            if not made or not all(runs):
                return [OTHER]
            return [one for found in runs for one in found]
        found = [one for call, home in callers for one in self._flow(call, home)]
        return found if callers else [OTHER]

    def _entered(self, func: cst.BaseExpression) -> Iterator[Consumer]:
        """Yield what a call gives its first argument to."""
        value = [one for one in self.uses.value(func) if not isinstance(one, Nothing)]
        for one in value:
            if isinstance(one, Object):
                yield from self._first(one)
            else:
                yield OTHER
        if not value:
            yield OTHER
