"""What an expression says about layers: a module, a list of them, or the output of some.

A list of layers is kept as the sets of those that may come first, last, and next to each other
(as a regular expression is, when it is turned into an automaton): that is exact enough for
conditional appends and loops, and small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import libcst as cst

Item: TypeAlias = cst.Call | None  # the call that constructs a layer; None: something unknown
Items: TypeAlias = frozenset[Item]

NOTHING: Items = frozenset()
SOMETHING: Items = frozenset({None})


@dataclass(frozen=True, slots=True)
class Layers:
    """A module, or a list of modules.

    ``first``, ``last`` and ``edges`` are the layers that may stand first, last and next to each
    other when all run in order; ``heads`` and ``tails`` the first and last layers of any one
    member.  ``empty``: there may be no layer at all.  ``listed``: a list, which is no module
    itself; ``chain``: a module with members, such as ``nn.Sequential``.
    """

    first: Items
    last: Items
    edges: frozenset[tuple[Item, Item]] = frozenset()
    heads: Items = NOTHING
    tails: Items = NOTHING
    empty: bool = False
    listed: bool = False
    chain: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """What one of these layers gives, untouched."""

    producers: Items


Value: TypeAlias = Layers | Output | None

NO_LAYERS = Layers(NOTHING, NOTHING, empty=True, listed=True)
ANY_LAYERS = Layers(SOMETHING, SOMETHING, frozenset({(None, None)}), SOMETHING, SOMETHING,
                    empty=True, listed=True)  # fmt: skip
ANY_LAYER = Layers(SOMETHING, SOMETHING)


def layer(call: cst.Call) -> Layers:
    """Return the layer that a call constructs."""
    one: Items = frozenset({call})
    return Layers(one, one)


def as_list(module: Layers) -> Layers:
    """Return the list that holds just this module."""
    return Layers(
        module.first, module.last, frozenset(), module.first, module.last, module.empty, listed=True
    )


def concatenate(one: Layers, other: Layers) -> Layers:
    """Return one list of layers behind another."""
    return replace(
        one,
        first=one.first | (other.first if one.empty else NOTHING),
        last=other.last | (one.last if other.empty else NOTHING),
        edges=one.edges | other.edges | frozenset(product(one.last, other.first)),
        heads=one.heads | other.heads,
        tails=one.tails | other.tails,
        empty=one.empty and other.empty,
    )


def repeat(layers: Layers) -> Layers:
    """Return a list that holds the same layers any number of times."""
    twice = concatenate(layers, layers)
    return replace(twice, empty=True)


def either(one: Layers, other: Layers) -> Layers:
    """Return what is one of two lists, or one of two modules."""
    return Layers(
        one.first | other.first,
        one.last | other.last,
        one.edges | other.edges,
        one.heads | other.heads,
        one.tails | other.tails,
        one.empty or other.empty,
        one.listed,
        one.chain or other.chain,
    )


def member(layers: Layers) -> Layers:
    """Return any one member of a list."""
    return Layers(layers.heads, layers.tails)


def shuffled(layers: Layers) -> Layers:
    """Return some members of a list: what stands next to what is no longer known."""
    edges: frozenset[tuple[Item, Item]] = frozenset(product(layers.tails, SOMETHING))
    return replace(layers, first=SOMETHING, last=SOMETHING, edges=edges, empty=True)
