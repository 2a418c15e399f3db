"""What NumPy's functions and methods return; `tests/analysis/test_numpy_api.py` asks NumPy itself.

A name stands in one table only.  What stands in none is not known.
"""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def _each(text: str, rank: int) -> dict[str, int]:
    return dict.fromkeys(text.split(), rank)


# A new array that nothing else refers to -> the fewest dimensions it has, whatever is passed.
FRESH: dict[str, int] = {
    **_each("resize genfromtxt loadtxt cov where", 0),
    **_each("arange linspace logspace geomspace hstack stack concatenate cumsum cumprod nancumsum "
            "nancumprod argsort fromfile bincount packbits unpackbits insert append delete indices "
            "convolve correlate fromiter hanning hamming blackman kaiser bartlett flatnonzero diff "
            "ediff1d repeat lexsort argpartition partition union1d intersect1d setdiff1d setxor1d "
            "fromstring", 1),
    **_each("eye identity tri vander vstack row_stack column_stack outer argwhere", 2),
    **_each("dstack", 3),
}  # fmt: skip
# A new array of the shape that the first argument gives.
FILLED = names("zeros ones empty full")
# A new array with as many dimensions as the first argument has.
LIKE = names("""zeros_like ones_like full_like empty_like copy sort tril triu roll""")
# A new array if an argument is one with a dimension, else a scalar.
ELEMENTWISE = names(
    """abs absolute sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan
    arctan2 sinh cosh tanh clip maximum minimum fmax fmin add subtract multiply divide true_divide
    power float_power floor ceil round around rint trunc sign square logical_and logical_or
    logical_not logical_xor bitwise_and bitwise_or bitwise_xor isnan isinf isfinite mod fmod
    remainder floor_divide nan_to_num negative positive reciprocal cbrt hypot deg2rad rad2deg
    degrees radians sinc heaviside greater less equal not_equal greater_equal less_equal fabs
    logaddexp isclose unwrap angle"""
)
# ... of two arguments; what follows the arguments of an elementwise function is its output.
BINARY = names(
    """arctan2 maximum minimum fmax fmin add subtract multiply divide true_divide power float_power
    mod fmod remainder floor_divide hypot heaviside greater less equal not_equal greater_equal
    less_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor logaddexp
    isclose round around"""
)
# ... of the floating dtype that its arguments share.
KEEPS_DTYPE = names(
    """abs absolute sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan
    arctan2 sinh cosh tanh clip maximum minimum add subtract multiply divide true_divide floor ceil
    rint trunc square negative reciprocal"""
)
# Functions that put arrays together, of one dtype as well.
JOINS = names("stack concatenate hstack vstack dstack column_stack")
# A scalar without an axis -> the place of the axis among the positional arguments.
REDUCTIONS: dict[str, int] = {
    **_each("sum mean std var max min amax amin prod median average argmax argmin any all nansum "
            "nanmean nanstd nanvar nanmax nanmin nanprod nanmedian nanargmax nanargmin ptp "
            "count_nonzero", 1),
    **_each("percentile quantile nanpercentile nanquantile norm", 2),
}  # fmt: skip
# Functions that may give back memory of their first argument (see `_viewed_rank`).
VIEWS = names(
    """reshape transpose swapaxes moveaxis rollaxis ravel squeeze expand_dims atleast_1d atleast_2d
    atleast_3d asarray asanyarray ascontiguousarray asfortranarray require flip fliplr flipud rot90
    broadcast_to diagonal diag permute_dims matrix_transpose"""
)
# ... and those whose result torch cannot share: read-only, or with negative strides.
UNSHARABLE = names(
    "broadcast_to broadcast_arrays diagonal diag flip fliplr flipud rot90 frombuffer memmap"
)
SPLITS = names("split array_split hsplit vsplit dsplit")
# Linear algebra and transforms: a new array -> its fewest dimensions.
LINALG: dict[str, int] = {
    **_each("inv pinv cholesky matrix_power", 2),
    **_each("solve multi_dot", 1),
    **_each("eigvals eigvalsh", 1),
}
FFT: dict[str, int] = _each(
    "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftfreq "
    "rfftfreq", 1
)  # fmt: skip
SCALAR_TYPES: dict[str, str] = {
    **{name: name for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64",
                               "uint8", "uint16", "uint32", "uint64", "complex64", "complex128")},
    "bool_": "bool", "double": "float64", "single": "float32", "half": "float16",
    "longlong": "int64", "intp": "int64",
}  # fmt: skip
# Random draws: an array only with a size -> the place of the size.
RANDOM_SIZES: dict[str, int] = {
    **_each("random random_sample ranf sample standard_normal standard_cauchy", 0),
    **_each("choice poisson exponential chisquare geometric pareto power rayleigh weibull "
            "standard_gamma standard_t", 1),
    **_each("randint integers random_integers normal uniform beta gamma binomial laplace lognormal "
            "gumbel logistic vonmises wald", 2),
    **_each("triangular hypergeometric", 3),
}  # fmt: skip
# ... by dimensions instead of a size, and those that always give an array.
RANDOM_DIMS = frozenset({"rand", "randn"})
RANDOM_ARRAYS: dict[str, int] = {"permutation": 1, "multivariate_normal": 1, "dirichlet": 1,
                                 "multinomial": 1}  # fmt: skip
RANDOM_FLOAT64 = names(
    """rand randn random random_sample ranf sample standard_normal normal uniform beta gamma
    exponential laplace lognormal gumbel"""
)
FLOAT64 = names("zeros ones empty linspace logspace geomspace eye identity")

# Methods of an array.
METHOD_FRESH: dict[str, int] = _each("flatten repeat cumsum cumprod argsort", 1)
METHOD_LIKE = names("copy astype")  # a new array with the dimensions of the old
METHOD_ELEMENTWISE = names("round clip")
METHOD_VIEWS = names("reshape transpose ravel squeeze swapaxes view diagonal conj conjugate")
METHOD_MUTATES = names("sort fill put partition setflags itemset resize setfield byteswap")
METHOD_NONE = METHOD_MUTATES - {"byteswap"}
