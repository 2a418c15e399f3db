"""Whether what classes of models compute may be kept by them, beside what they return."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.calls import last_name

if TYPE_CHECKING:
    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation

_PUTS = frozenset("append appendleft add insert extend update setdefault put".split())
_PLACES = (cst.Attribute, cst.Subscript)


def keeps(evaluation: Evaluation, unit: Unit) -> bool:
    """Whether any method of the class that a function is of stores something, or puts it away."""
    cls = evaluation.class_around(unit)
    for home in evaluation.classes.lineage(cls.at) if cls is not None else ():
        index = home.module.index
        for name, method in home.methods.items():
            if name == "__init__":
                continue
            stores = [one.target for one in index.below(method, cst.AssignTarget)]
            stores += [one.target for one in index.below(method, cst.AugAssign)]
            puts = [call.func for call in index.below(method, cst.Call)]
            if any(isinstance(one, _PLACES) for one in stores) or any(
                last_name(func) in _PUTS for func in puts
            ):
                return True
    return cls is None or evaluation.classes.is_open(cls.at)
