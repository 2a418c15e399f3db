"""Layers: which layer gets what another one gives, in forward passes and in sequences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.narrowing import is_true
from torchlint.semantics.values import Nothing, Object, Sequence
from torchlint.training.between import conditions
from torchlint.training.effects import unit_around
from torchlint.training.models import made_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.semantics.values import At
    from torchlint.training.models import Use, Uses

SEQUENTIAL = "torch.nn.Sequential"
PUTS = frozenset({"append", "insert", "add_module", "add", "extend"})
SIZES = frozenset("shape size dim ndim ndimension dtype device numel is_cuda stride".split())


@dataclass(frozen=True, slots=True)
class Condition:
    """A test that something depends on, by its code, and how it has to come out."""

    test: str
    truth: bool
    always: bool | None = None  # what the test is in any case, as far as is known

    def __str__(self) -> str:
        """Return it in words."""
        return f"`{self.test}` is {self.truth}"

    def opposite(self) -> Condition:
        """Return the condition under which it is not so."""
        return replace(self, truth=not self.truth)


def conditions_around(uses: Uses, node: cst.CSTNode, file: int) -> frozenset[Condition]:
    """Return the conditions that a node stands under in its function."""
    bare, outer = uses.module(file).bare, unit_around(uses.evaluation, node, file).node
    around = conditions(uses.evaluation, node, outer, file)
    tests = [one.plain for one in around if not one.left]
    return frozenset(
        Condition(bare(test), truth, is_true(uses.value(test))) for test, truth in tests
    )


When = frozenset[Condition]


@dataclass(frozen=True, slots=True)
class Consumer:
    """What gets an output: the layer that ``at`` made, None for anything else.

    ``when`` are the conditions under which it does, and under which it is made.
    """

    kind: str
    at: At | None
    when: When = frozenset()


OTHER = Consumer("", None)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Something that is put into a sequence or list."""

    node: cst.BaseExpression
    is_star: bool


@dataclass(eq=False)
class Layers:
    """What feeds what, in all connected files."""

    uses: Uses
    _open: set[object] = field(default_factory=set)

    def consumers(self, made: At) -> list[Consumer]:
        """Return what gets the output of a layer, a sequence or a model."""
        if made in self._open:
            return []
        self._open.add(made)
        found: list[Consumer] = []
        for use in self.uses.of(made):
            is_run = self.uses.is_run(use)
            found += self._flow(use.parent, use.file) if is_run else self._in_container(use)
        self._open.discard(made)
        return list(dict.fromkeys(found))

    # -- forward passes ----------------------------------------------------------------------

    def _flow(self, node: cst.CSTNode, file: int) -> list[Consumer]:
        """Return what gets the value of an expression."""
        module = self.uses.module(file)
        parent = module.parent(node)
        match parent:
            case cst.Arg(star=""):
                call = module.parent(parent)
                if isinstance(call, cst.Call) and call.args[0] is parent:
                    return self._entered(call.func)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
                return self._read(name, file)
            case cst.Attribute(value=value, attr=cst.Name(value=word)) if value is node:
                return [] if word in SIZES else [OTHER]
            case cst.Return():
                return self._returned(parent, file)
            case cst.Expr():
                return []
        return [OTHER]

    def _read(self, name: cst.Name, file: int) -> list[Consumer]:
        """Return what gets the value that a name is bound to."""
        binding = self.uses.module(file).index.bound(name)
        if binding is None or id(binding) in self._open:
            return []
        self._open.add(id(binding))
        found = [one for read in self.uses.reads(binding) for one in self._flow(read, file)]
        self._open.discard(id(binding))
        return found if self.uses.reads(binding) else [OTHER]  # who keeps it has a use for it

    def _returned(self, node: cst.Return, file: int) -> list[Consumer]:
        """Return what gets what a function returns: that of a model, what gets its output."""
        evaluation = self.uses.evaluation
        unit = unit_around(evaluation, node, file)
        if unit.is_module_method:
            cls = evaluation.class_around(unit)
            runs = [self.consumers(one) for one in self.uses.instances(cls.at)] if cls else []
        else:
            callers = evaluation.callers(unit.at)
            runs = [self._flow(call, caller.at.file) for caller, call in callers]
        return [one for found in runs for one in found] if runs and all(runs) else [OTHER]

    def _entered(self, func: cst.BaseExpression) -> list[Consumer]:
        """Return what a call gives its first argument to."""
        value = [one for one in self.uses.value(func) if not isinstance(one, Nothing)]
        found = [self._first(one) if isinstance(one, Object) else [OTHER] for one in value]
        return [each for one in found for each in one] or [OTHER]

    # -- sequences, and the lists that fill them -----------------------------------------------

    def _first(self, one: Object, when: When = frozenset()) -> list[Consumer]:
        """Return what gets the input of a layer: of a sequence, its first one."""
        if one.call is None:
            return [Consumer(one.kind, None, when)]
        if one.kind == SEQUENTIAL and one.call not in self._open:
            heads, through = self._heads(one.call, when)
            return heads if through is None else [*heads, replace(OTHER, when=through)]
        made = self.uses.evaluation.node(one.call)
        return [
            Consumer(one.kind, one.call, when | conditions_around(self.uses, made, one.call.file))
        ]

    def _in_container(self, use: Use) -> list[Consumer]:
        """Return what comes after something in the sequence or list that it is put into."""
        container = self.uses.container(use)
        pieces = self._pieces(container) if container is not None else []
        index = self.uses.module(use.file).index
        place = next((n for n, one in enumerate(pieces) if index.inside(use.node, one.node)), None)
        if container is None or container.file != use.file or place is None:
            return []
        node, rest = pieces[place].node, pieces[place + 1 :]
        home = self.uses.evaluation.node(container)
        when, found = conditions_around(self.uses, node, use.file), list[Consumer]()
        for loop in index.ancestors(node):
            if isinstance(loop, (cst.For, cst.While)) and not index.inside(home, loop):
                turn = [one for one in pieces if index.inside(one.node, loop)]
                heads, through = self._line([one for one in rest if one in turn], use.file, when)
                found += heads
                if through is None:
                    return found
                found += self._line(turn, use.file, through)[0]  # in the next turn
                rest, when = [one for one in rest if one not in turn], through
        heads, through = self._line(rest, use.file, when)
        found += heads
        if through is not None:
            found += [replace(one, when=one.when | through) for one in self.consumers(container)]
        return found

    def _pieces(self, container: At) -> list[Piece]:
        """Return what is put into a sequence or list, in the order of the text."""
        module = self.uses.module(container.file)
        node = self.uses.evaluation.node(container)
        kinds = [getattr(one, "kind", "") for one in self.uses.evaluation.value(node)]
        match node:
            case cst.List(elements):
                found = [Piece(one.value, isinstance(one, cst.StarredElement)) for one in elements]
            case cst.Call(args=args) if SEQUENTIAL in kinds:
                found = [self._given(one) for one in args]
            case _:
                return []
        for call in self.uses.methods(container):
            if call.file == container.file and call.name in PUTS and call.node.args:
                found.append(Piece(call.node.args[-1].value, call.name == "extend"))
        for grown in module.index.of(cst.AugAssign):
            if container in map(made_by, self.uses.value(grown.target)):
                found.append(Piece(grown.value, is_star=True))
        return sorted(found, key=lambda piece: module.index.order(piece.node))

    def _given(self, arg: cst.Arg) -> Piece:
        """Return what ``nn.Sequential`` is given; of an OrderedDict, the list inside."""
        match arg.value:
            case cst.Call(func=func, args=[cst.Arg(value=inner)]) if (
                self.uses.evaluation.library(func) == "collections.OrderedDict"
            ):
                return Piece(inner, is_star=True)
        return Piece(arg.value, arg.star == "*")

    def _heads(self, container: At, when: When) -> tuple[list[Consumer], When | None]:
        """Return what comes first in a sequence or list, and when there is nothing in it."""
        if container in self._open:
            return [], None
        self._open.add(container)
        found = self._line(self._pieces(container), container.file, when)
        self._open.discard(container)
        return found

    def _line(
        self, pieces: Iterable[Piece], file: int, when: When
    ) -> tuple[list[Consumer], When | None]:
        """Return what comes first of some pieces, and when none of them does, None for never."""
        heads: list[Consumer] = []
        for piece in pieces:
            own = conditions_around(self.uses, piece.node, file)
            if any(one.opposite() in when for one in own):
                continue
            found, through = self._of_piece(piece, when | own)
            heads += found
            if through is None:
                if own <= when:
                    return heads, None
                if len(own - when) == 1:
                    when |= {one.opposite() for one in own - when}
        return heads, when

    def _of_piece(self, piece: Piece, when: When) -> tuple[list[Consumer], When | None]:
        node = piece.node
        if isinstance(node, cst.Tuple) and len(node.elements) == 2:
            node = node.elements[1].value
        heads: list[Consumer] = []
        through: When | None = None
        for one in self.uses.value(node):
            if isinstance(one, Sequence) and one.made is not None and piece.is_star:
                found, ends = self._heads(one.made, when)
                heads += found
                through = ends if through is None else through
            elif isinstance(one, Object) and not piece.is_star:
                heads += self._first(one, when)
            elif not isinstance(one, Nothing):
                heads.append(OTHER)
        return heads or [OTHER], through
