"""Calls of NumPy: what gives an array, and of which tensor's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.arguments import first_of
from torchlint.semantics.array_types import PLACES, SCALARS, dtype_named, own_dtype
from torchlint.semantics.builtin_calls import read_of
from torchlint.semantics.sets import flat
from torchlint.semantics.values import (
    Array,
    Dictionary,
    Nothing,
    Number,
    Object,
    Sequence,
    Tensor,
)

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
# What is a number where all that it is given are numbers.
NUMBERS = SCALARS | frozenset(
    """sqrt log log2 log10 log1p exp expm1 ceil floor round around abs absolute sign power clip
    maximum minimum sin cos tan tanh arctan2 isnan isinf isfinite""".split()
)
PRODUCTS = frozenset("dot inner vdot matmul trace norm det".split())  # of vectors they are numbers
# What gives memory of its own ...
FRESH = frozenset(
    """zeros ones full empty eye identity arange linspace logspace geomspace stack concatenate
    hstack vstack dstack row_stack column_stack array copy zeros_like ones_like full_like empty_like
    tile repeat pad where roll sort argsort cumsum cumprod diff outer tri tril triu meshgrid
    loadtxt genfromtxt fromfile fromiter histogram unique bincount convolve correlate interp insert
    append delete flatnonzero argwhere packbits unpackbits einsum tensordot kron cov vander
    """.split()
)
# ... and what draws so many numbers, where a size is given at this place.
_SIZES = (
    "random random_sample ranf sample standard_normal",
    "choice poisson exponential",
    "randint integers normal uniform beta gamma binomial laplace lognormal",
)
SIZES = {name: place for place, names in enumerate(_SIZES) for name in names.split()}
DRAWN = frozenset("rand randn permutation multivariate_normal dirichlet multinomial".split())
READ_ONLY = frozenset("broadcast_to frombuffer memmap".split())
GENERATOR = "numpy.random.Generator"
_SEVERAL = (Array, Tensor, Sequence, Dictionary)
GENERATORS = frozenset({GENERATOR, "numpy.random.default_rng", "numpy.random.RandomState"})


def call(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """Return what a function of NumPy gives."""
    short = name.rpartition(".")[2]
    read = read_of(run, node, [one for arg in passed for one in flat(arg.value)])
    plain = [arg.value for arg in passed if not arg.keyword]
    axis = len(plain) > 1 or any(arg.keyword == "axis" for arg in passed)
    if name in GENERATORS:
        return run.one(Object(GENERATOR, run.at(node)))
    if short in NUMBERS and plain and all(isinstance(one, Number) for one in plain[0]):
        return run.one(Number(None, read))
    if short in SCALARS and plain and not any(isinstance(one, _SEVERAL) for one in plain[0]):
        return run.one(Number(None, read))
    if short in REDUCES and not axis:
        return run.one(Number(None, read))
    words, stars = {arg.keyword for arg in passed}, any(arg.star for arg in passed)
    is_random = name.startswith("numpy.random.")
    if is_random and not stars and "size" not in words and len(plain) <= SIZES.get(short, 0):
        return run.one(Number())
    if short in ("seed", "set_printoptions", "save", "savez", "savetxt", "isscalar"):
        return run.sets.unknown
    of_each = short in NUMBERS
    is_own = short in (DRAWN | SIZES.keys() if is_random else FRESH) or of_each
    if short == "load":
        is_own = "mmap_mode" not in words and len(plain) == 1
    elif short in ("asarray", "ascontiguousarray") and plain:
        is_own = bool(plain[0]) and all(isinstance(one, Sequence) for one in plain[0])
    made = run.at(node) if is_own and "copy" not in words and not stars else None
    array = Array(_batch(passed), read, _dtype(short, plain, passed), made)
    may_be_number = short in PRODUCTS or (
        of_each and not any(isinstance(one, Array) for value in plain for one in value)
    )
    return run.sets.of([array, Number(None, read)] if may_be_number else [array])


def _dtype(short: str, plain: Several[Value], passed: Several[Passed]) -> str:
    asked = first_of(passed, PLACES.get(short, 99), "dtype")
    if asked and not any(isinstance(one, Nothing) for one in asked):
        return dtype_named(asked)
    return own_dtype(short, plain)


def _batch(passed: Several[Passed]) -> At | None:
    return next(
        (one.batch for arg in passed for one in arg.value if isinstance(one, (Tensor, Array))), None
    )
