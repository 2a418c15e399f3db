"""Sequences: what comes after what in `nn.Sequential`, and in the lists that fill it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Method, Nothing, Object, Sequence
from torchlint.training.choices import condition_of
from torchlint.training.models import made_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.semantics.values import At
    from torchlint.training.choices import Condition
    from torchlint.training.models import Use, Uses

SEQUENTIAL = "torch.nn.Sequential"
PUTS = frozenset({"append", "insert", "add_module", "add"})
BLOCKS = (cst.IndentedBlock, cst.Module, cst.SimpleStatementSuite)
LOOPS = (cst.For, cst.While)


@dataclass(frozen=True, slots=True)
class Consumer:
    """What gets an output: the layer that ``at`` made, None for anything else.

    ``when`` are the conditions under which it does.
    """

    kind: str
    at: At | None
    when: frozenset[Condition] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Something that is put into a sequence or list; ``statement`` is what puts it there."""

    node: cst.BaseExpression
    is_star: bool
    statement: cst.CSTNode


OTHER = Consumer("", None)


@dataclass(eq=False)
class Sequences(ABC):
    """What comes after what, in all connected files."""

    uses: Uses
    _open: set[object] = field(default_factory=set)

    @abstractmethod
    def consumers(self, made: At) -> list[Consumer]:
        """Return what gets the output of a layer, a sequence or a model."""

    def _first(self, one: Object, when: frozenset[Condition] = frozenset()) -> list[Consumer]:
        """Return what gets the input of a layer: of a sequence, its first one."""
        if one.kind != SEQUENTIAL or one.call is None or one.call in self._open:
            return [Consumer(one.kind, one.call, when)]
        heads, through = self._heads(one.call, frozenset())
        ends = [] if through is None else [OTHER]
        return [Consumer(head.kind, head.at, head.when | when) for head in (*heads, *ends)]

    def _in_container(self, use: Use) -> list[Consumer]:
        """Return what comes after something in what it is put into."""
        module = self.uses.module(use.file)
        node, parent = use.node, use.parent
        match parent:
            case cst.Element() | cst.StarredElement() if isinstance(
                pair := module.parent(parent), cst.Tuple
            ):
                node, parent = pair, module.parent(pair) or pair
        found: list[Consumer] = []
        for container in self._containers_at(node, parent, use.file):
            found += self._after(container, node)
        return found

    def _containers_at(self, node: cst.BaseExpression, parent: cst.CSTNode, file: int) -> list[At]:
        """Return the sequences and lists that an expression, or what it lists, is put into."""
        evaluation, module = self.uses.evaluation, self.uses.module(file)
        outer = module.parent(parent)
        match parent, outer:
            case ((cst.Element() | cst.StarredElement()), cst.List()):
                return [evaluation.at(outer, file)]
            case cst.AugAssign(target=target), _ if target is not node:
                return [one for one in map(made_by, self.uses.value(target)) if one]
            case cst.Arg(), cst.Call(func=func):
                found: list[At] = []
                for one in self.uses.value(func):
                    match one:
                        case Library(name="torch.nn.Sequential"):
                            found.append(evaluation.at(outer, file))
                        case Library(name="collections.OrderedDict"):
                            around = module.parent(outer)
                            if around is not None:
                                found += self._containers_at(outer, around, file)
                        case Method(owner=Object(kind=kind)) if kind != SEQUENTIAL:
                            pass
                        case Method(owner=owner, name=name) if name in PUTS | {"extend"}:
                            found += [made] if (made := made_by(owner)) else []
                return found
        return []

    def _after(self, container: At, node: cst.BaseExpression) -> list[Consumer]:
        """Return what comes after something that is put into a sequence or list."""
        pieces = self._pieces(container)
        place = next((n for n, piece in enumerate(pieces) if piece.node is node), None)
        if place is None:
            return []
        statement = pieces[place].statement
        heads, through = self._line(
            [one for one in pieces[place + 1 :] if one.statement is statement], frozenset()
        )
        if through is None:
            return heads
        more, through = self._following(container, pieces, statement, through)
        heads += more
        return heads if through is None else [*heads, *_under(self._leaving(container), through)]

    def _leaving(self, container: At) -> list[Consumer]:
        """Return what comes after the last of a sequence or list."""
        node = self.uses.evaluation.node(container)
        if isinstance(node, cst.Call):
            return self.consumers(container)
        key = "list", container
        if key in self._open:
            return []
        self._open.add(key)
        found = [one for use in self.uses.of(container) for one in self._in_container(use)]
        self._open.discard(key)
        return found

    def _pieces(self, container: At) -> list[Piece]:
        """Return what is put into a sequence or list, in the order of the text."""
        evaluation, file = self.uses.evaluation, container.file
        module = self.uses.module(file)
        node = evaluation.node(container)
        found: list[Piece] = []
        if isinstance(node, cst.List):
            found += [self._piece(one.value, one, node, file) for one in node.elements]
        elif isinstance(node, cst.Call):
            found += [self._piece(one.value, one, node, file) for one in node.args]
        for use in self.uses.of(container):
            if use.file != file:
                continue
            match use.parent:
                case cst.Attribute(attr=cst.Name(value=word)) if word in PUTS | {"extend"}:
                    call = module.parent(use.parent)
                    if isinstance(call, cst.Call) and call.func is use.parent and call.args:
                        last = call.args[-1].value
                        found.append(Piece(last, word == "extend", module.smallest_statement(call)))
        for grown in module.index.of(cst.AugAssign):
            if container in map(made_by, self.uses.value(grown.target)):
                found.append(Piece(grown.value, is_star=True, statement=grown))
        unique = {id(piece.node): piece for piece in found}
        return sorted(unique.values(), key=lambda piece: module.index.order(piece.node))

    def _piece(
        self, node: cst.BaseExpression, element: cst.CSTNode, around: cst.CSTNode, file: int
    ) -> Piece:
        module = self.uses.module(file)
        is_star = isinstance(element, cst.StarredElement) or getattr(element, "star", "") == "*"
        if isinstance(node, cst.Call):
            name = [getattr(one, "name", "") for one in self.uses.value(node.func)]
            if name == ["collections.OrderedDict"] and node.args:
                node, is_star = node.args[0].value, True
        return Piece(node, is_star, module.smallest_statement(around))

    def _heads(
        self, container: At, when: frozenset[Condition]
    ) -> tuple[list[Consumer], frozenset[Condition] | None]:
        """Return what comes first in a sequence or list.

        The second is the condition under which there is nothing in it, None where there always is.
        """
        if container in self._open:
            return [], None
        self._open.add(container)
        pieces = self._pieces(container)
        node = self.uses.evaluation.node(container)
        statement = self.uses.module(container.file).smallest_statement(node)
        heads, through = self._line([one for one in pieces if one.statement is statement], when)
        if through is not None:
            more, through = self._following(container, pieces, statement, through)
            heads += more
        self._open.discard(container)
        return heads, through

    def _line(
        self, pieces: Iterable[Piece], when: frozenset[Condition]
    ) -> tuple[list[Consumer], frozenset[Condition] | None]:
        """Return what comes first of pieces that one statement puts in."""
        heads: list[Consumer] = []
        for piece in pieces:
            found, through = self._of_piece(piece, when)
            heads += found
            if through is None:
                return heads, None
            when = through
        return heads, when

    def _of_piece(
        self, piece: Piece, when: frozenset[Condition]
    ) -> tuple[list[Consumer], frozenset[Condition] | None]:
        node = piece.node
        if isinstance(node, cst.Tuple) and len(node.elements) == 2:
            node = node.elements[1].value
        value = [one for one in self.uses.value(node) if not isinstance(one, Nothing)]
        heads: list[Consumer] = []
        through: frozenset[Condition] | None = None
        for one in value:
            if not piece.is_star:
                heads += self._first(one, when) if isinstance(one, Object) else [OTHER]
            elif isinstance(one, Sequence) and one.made is not None:
                found, ends = self._heads(one.made, when)
                heads += found
                through = ends if through is None else through
            else:
                heads.append(OTHER)
        return heads or [OTHER], through

    def _following(
        self,
        container: At,
        pieces: list[Piece],
        statement: cst.CSTNode,
        when: frozenset[Condition],
    ) -> tuple[list[Consumer], frozenset[Condition] | None]:
        """Return what comes after a statement that puts something in, in the order of running."""
        module = self.uses.module(container.file)
        home = module.statement(self.uses.evaluation.node(container))
        heads: list[Consumer] = []
        child: cst.CSTNode = statement
        if isinstance(statement, cst.BaseSmallStatement):
            child = module.parent(statement) or statement
        while True:
            block = module.parent(child)
            if not isinstance(block, BLOCKS):
                return heads, when
            body = list(block.body)
            rest = body[next(n for n, one in enumerate(body) if one is child) + 1 :]
            found, through = self._run(rest, pieces, container.file, when)
            heads += found
            if through is None or any(one is home for one in body):
                return heads, through
            when, above = through, module.parent(block)
            while isinstance(above, (cst.If, cst.Else)) and not isinstance(
                module.parent(above), BLOCKS
            ):
                above = module.parent(above)
            if isinstance(above, LOOPS):
                found, _ = self._run(block.body, pieces, container.file, when)
                heads += found
            if above is None or isinstance(above, (cst.FunctionDef, cst.ClassDef)):
                return heads, when
            child = above

    def _run(
        self,
        body: Iterable[cst.CSTNode],
        pieces: list[Piece],
        file: int,
        when: frozenset[Condition],
    ) -> tuple[list[Consumer], frozenset[Condition] | None]:
        """Return what a block puts in first, and when it may put in nothing."""
        module = self.uses.module(file)
        heads: list[Consumer] = []
        for statement in body:
            inside = [one for one in pieces if module.index.inside(one.node, statement)]
            if not inside:
                continue
            through: frozenset[Condition] | None = when
            if isinstance(statement, cst.If):
                found, through = self._branches(statement, inside, file, when)
            elif isinstance(statement, cst.BaseCompoundStatement):
                found, through = self._run(statement.body.body, inside, file, when)
            else:
                found, through = self._line(inside, when)
            heads += found
            if through is None:
                return heads, None
            when = through
        return heads, when

    def _branches(
        self, statement: cst.If, pieces: list[Piece], file: int, when: frozenset[Condition]
    ) -> tuple[list[Consumer], frozenset[Condition] | None]:
        condition = condition_of(self.uses, statement.test, file)
        heads, first = self._run(statement.body.body, pieces, file, when | {condition})
        orelse, second = statement.orelse, when | {condition.opposite()}
        ends: frozenset[Condition] | None = second
        if isinstance(orelse, cst.If):
            found, ends = self._branches(orelse, pieces, file, second)
            heads += found
        elif orelse is not None:
            found, ends = self._run(orelse.body.body, pieces, file, second)
            heads += found
        if first is not None and ends is not None:
            return heads, when
        return heads, ends if first is None else first


def _under(found: Iterable[Consumer], when: frozenset[Condition]) -> Iterator[Consumer]:
    for one in found:
        yield Consumer(one.kind, one.at, one.when | when)
