"""Choices: the conditions under which something is made, by what their tests say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.narrowing import is_true

if TYPE_CHECKING:
    from torchlint.semantics.values import At
    from torchlint.training.models import Uses


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
        return Condition(self.test, not self.truth, self.always)


def condition_of(uses: Uses, test: cst.BaseExpression, file: int) -> Condition:
    """Return a test as a condition that holds where the test does."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return condition_of(uses, test.expression, file).opposite()
    value = uses.value(test)
    return Condition(uses.module(file).bare(test), truth=True, always=is_true(value))


def conditions_around(uses: Uses, made: At) -> frozenset[Condition]:
    """Return the conditions that a call stands under in its function."""
    module = uses.module(made.file)
    child = uses.evaluation.node(made)
    found: set[Condition] = set()
    for above in module.index.ancestors(child):
        if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            break
        if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
            condition = condition_of(uses, above.test, made.file)
            found.add(condition if child is above.body else condition.opposite())
        child = above
    return frozenset(found)
