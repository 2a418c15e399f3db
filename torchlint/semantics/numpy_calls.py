"""Calls of NumPy: what gives an array, and of which tensor's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.values import Array, Number, Sequence, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    import libcst as cst

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import At, Value

REDUCES = frozenset(
    """sum mean std var median max min amax amin prod average argmax argmin any all
    nansum nanmean nanstd nanmax nanmin ptp count_nonzero percentile quantile""".split()
)
NUMBERS = frozenset("float32 float64 int32 int64 sqrt log exp ceil floor".split())


def call(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """Return what a function of NumPy gives."""
    short = name.rpartition(".")[2]
    read = _read(run, node, passed)
    plain = [arg.value for arg in passed if not arg.keyword]
    axis = len(plain) > 1 or any(arg.keyword == "axis" for arg in passed)
    if short in NUMBERS and plain and all(isinstance(one, Number) for one in plain[0]):
        return run.one(Number(None, read))
    if short in REDUCES and not axis:
        return run.one(Number(None, read))
    if name.startswith("numpy.random.") and not passed:
        return run.one(Number())
    if short in ("seed", "set_printoptions", "save", "savez", "savetxt", "isscalar"):
        return run.sets.unknown
    return run.one(Array(_batch(passed), read))


def _read(run: Run, node: cst.Call, passed: Several[Passed]) -> At | None:
    """``np.array(tensor)`` reads it; of numbers that were read, it is that read."""
    for arg in passed:
        for one in _flat(arg.value):
            if isinstance(one, Tensor):
                return run.at(node)
            if isinstance(one, (Number, Array)) and one.read is not None:
                return one.read
    return None


def _batch(passed: Several[Passed]) -> At | None:
    return next(
        (one.batch for arg in passed for one in arg.value if isinstance(one, (Tensor, Array))), None
    )


def _flat(value: Value) -> list[object]:
    found: list[object] = list(value)
    for one in value:
        if isinstance(one, Sequence):
            for inner in (*(one.elements or ()), one.element):
                found += inner
    return found
