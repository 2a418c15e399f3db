"""Which layer feeds which: in ``nn.Sequential``, in lists of layers, and in ``forward``.

The functions of a file are run in the abstract: names and ``self.x`` hold layers, lists of
layers, or outputs of layers.  Each use of an output is recorded with the layer that built
it; a use that is not understood is recorded as one by something unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.analysis.layer_reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.analysis.chosen_layers import Choice
    from torchlint.analysis.program import Program


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """All that the output of a layer goes into, directly, are these layers.

    ``producer`` and ``consumers`` are the calls that construct the layers.  ``choice``: the
    parameter of their function that decides whether it is so.
    """

    producer: cst.Call
    consumers: tuple[cst.Call, ...]
    choice: Choice | None = None


def links(program: Program) -> Iterator[Link]:
    """Find all links of a file, in the order of their producers: one for each producer."""
    yield from _links(program, None)


def _links(program: Program, choice: Choice | None) -> Iterator[Link]:
    follow = Reader(program, None if choice is None else choice.branches).read()
    order = program.index.order
    for producer in sorted(follow, key=order):
        consumers = [item for item in follow[producer] if item is not None]
        if consumers and len(consumers) == len(follow[producer]):
            yield Link(producer, tuple(sorted(consumers, key=order)), choice)
