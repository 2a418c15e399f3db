"""What NumPy's functions and methods give: an array, a scalar, or not known.

``torch.from_numpy`` raises on a scalar, so an array has to be proved: ``np.mean(a)`` is a scalar,
``np.mean(a, axis=0)`` is an array only where ``a`` has more than one dimension (not known).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.values import BOOL, NUMBER, OTHER, UNKNOWN, Kind, Value

if TYPE_CHECKING:
    from torchlint.analysis.evaluate import Evaluator

# Always a new array that nothing else refers to.
_FRESH = frozenset(
    """zeros ones full empty arange linspace logspace geomspace eye identity zeros_like ones_like
    full_like empty_like stack vstack hstack dstack column_stack concatenate tile repeat copy
    meshgrid_ outer kron cross diff cumsum cumprod sort argsort tri tril triu where_ array_split_
    pad roll_ genfromtxt loadtxt fromfile frombuffer_ bincount histogram_ one_hot interp_ packbits
    insert append delete resize indices convolve correlate fromiter fromfunction vander hanning
    hamming blackman kaiser bartlett cov corrcoef unwrap""".split()
)
# A new array if an argument is one (elementwise), else a scalar.
_ELEMENTWISE = frozenset(
    """abs absolute sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan
    arctan2 sinh cosh tanh clip maximum minimum add subtract multiply divide true_divide power
    floor ceil round around rint sign square logical_and logical_or logical_not logical_xor
    bitwise_and bitwise_or isnan isinf isfinite mod fmod remainder floor_divide nan_to_num
    negative reciprocal cbrt hypot deg2rad rad2deg degrees radians sinc heaviside greater less
    equal not_equal greater_equal less_equal float32_ fabs sigmoid_""".split()
)
# A scalar without an axis.
_REDUCTIONS = frozenset(
    """sum mean std var max min amax amin prod median average argmax argmin any all nansum nanmean
    nanstd nanmax nanmin percentile quantile ptp count_nonzero trace norm nanmedian""".split()
)
# Views of (or the very) array given.
_VIEWS = frozenset(
    """reshape transpose swapaxes moveaxis ravel squeeze expand_dims atleast_2d atleast_3d
    asarray ascontiguousarray flip fliplr flipud rot90 broadcast_to split array_split asanyarray
    rollaxis atleast_1d""".split()
)
_SCALAR_TYPES = frozenset(
    """float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool_ longlong
    double single half intp""".split()
)
# Random: an array only with a size.
_RANDOM_SIZES = {
    "rand": 0, "randn": 0, "random": 0, "random_sample": 0, "ranf": 0, "sample": 0,
    "standard_normal": 0, "randint": 2, "integers": 2, "random_integers": 2, "normal": 2,
    "uniform": 2, "choice": 1, "beta": 2, "gamma": 2, "binomial": 2, "poisson": 1,
    "exponential": 1, "laplace": 2, "lognormal": 2, "gumbel": 2,
}  # fmt: skip
_FLOAT_RANDOM = frozenset(
    "rand randn random random_sample ranf sample standard_normal normal uniform beta gamma".split()
)

_METHOD_FRESH = frozenset("copy flatten repeat cumsum cumprod argsort round clip take".split())
_METHOD_VIEW = frozenset("reshape transpose ravel squeeze swapaxes view diagonal".split())


def attribute(base: Value, attr: str) -> Value:
    """An attribute of an array."""
    if attr in ("T", "real", "imag", "flat"):
        return Value(Kind.NDARRAY, dtype=base.dtype)
    if attr in ("ndim", "size", "itemsize", "nbytes"):
        return NUMBER
    if attr == "shape":
        return Value(Kind.TUPLE, element=NUMBER)
    return Value(Kind.DTYPE) if attr == "dtype" else UNKNOWN


def item(base: Value, node: cst.Subscript) -> Value:
    """``array[...]``: an array where a slice or a new axis keeps one, else not known."""
    parts = [element.slice for element in node.slice]
    for part in parts:
        if isinstance(part, cst.Slice):
            return Value(Kind.NDARRAY, dtype=base.dtype)
        if isinstance(part, cst.Index) and isinstance(part.value, (cst.List, cst.Comparison)):
            return Value(Kind.NDARRAY, dtype=base.dtype, fresh=True)
    return UNKNOWN


def call(name: str, node: cst.Call, evaluator: Evaluator) -> Value:
    """The value of a call of ``numpy.<...>``."""
    space, _, last = name.rpartition(".")
    if space == "numpy.random":
        return _random(last, node)
    if space not in ("numpy", "numpy.linalg", "numpy.ma"):
        return UNKNOWN
    if last == "array":
        return _array(node, evaluator)
    if last in _FRESH:
        return Value(Kind.NDARRAY, dtype=_dtype(node, _default_dtype(last)), fresh=True)
    if last in _SCALAR_TYPES:
        return _cast(node, evaluator, last)
    if last in _ELEMENTWISE:
        return _elementwise(node, evaluator)
    if last in _REDUCTIONS:
        return _reduced(node, _keyword(node, "axis"), _keyword(node, "keepdims"), positional=1)
    if last in _VIEWS:
        return _view(last, node, evaluator)
    if last == "load":
        return _loaded(node)
    if last == "where":
        return Value(Kind.NDARRAY, fresh=True) if len(node.args) == 3 else UNKNOWN
    if last in ("dot", "matmul", "einsum", "tensordot", "inner", "unique", "interp"):
        return UNKNOWN
    if last in ("RandomState", "default_rng", "errstate", "seterr", "savez", "save"):
        return OTHER
    if last == "isscalar":
        return BOOL
    return UNKNOWN


def _array(node: cst.Call, evaluator: Evaluator) -> Value:
    """``np.array(x)`` copies: the result is fresh, and 0-d for a number but still an array."""
    copies = _keyword(node, "copy")
    fresh = copies is None or literal(copies) == "True"
    dtype = _dtype(node, "")
    if not dtype and node.args:
        dtype = _dtype_of(evaluator.of(node.args[0].value))
    return Value(Kind.NDARRAY, dtype=dtype, fresh=fresh)


def _dtype_of(value: Value) -> str:
    if value.kind is Kind.NDARRAY:
        return value.dtype
    return ""


def _cast(node: cst.Call, evaluator: Evaluator, dtype: str) -> Value:
    """``np.float32(x)``: an array of an array, a scalar of a number."""
    if not node.args:
        return Value(Kind.NPSCALAR)
    inner = evaluator.of(node.args[0].value)
    if inner.kind in (Kind.NDARRAY, Kind.LIST):
        return Value(Kind.NDARRAY, dtype=dtype, fresh=True)
    if inner.kind in (Kind.NUMBER, Kind.BOOL, Kind.NPSCALAR):
        return Value(Kind.NPSCALAR)
    return UNKNOWN


def _elementwise(node: cst.Call, evaluator: Evaluator) -> Value:
    if _keyword(node, "out") is not None:
        return UNKNOWN
    values = [evaluator.of(arg.value) for arg in node.args if arg.keyword is None]
    if any(value.kind is Kind.NDARRAY for value in values):
        return Value(Kind.NDARRAY, fresh=True)
    if values and all(v.kind in (Kind.NUMBER, Kind.BOOL, Kind.NPSCALAR) for v in values):
        return Value(Kind.NPSCALAR)
    return UNKNOWN


def _reduced(
    node: cst.Call,
    axis: cst.BaseExpression | None,
    keepdims: cst.BaseExpression | None,
    positional: int,
) -> Value:
    """A reduction: a scalar without an axis, an array with ``keepdims=True``, else not known."""
    if keepdims is not None and literal(keepdims) == "True":
        return Value(Kind.NDARRAY, fresh=True)
    plain = [arg for arg in node.args if arg.keyword is None and not arg.star]
    if axis is None and len(plain) <= positional and not any(arg.star for arg in node.args):
        return Value(Kind.NPSCALAR)
    return UNKNOWN


def _view(last: str, node: cst.Call, evaluator: Evaluator) -> Value:
    if last in ("split", "array_split"):
        return Value(Kind.LIST, element=Value(Kind.NDARRAY))
    dtype = _dtype(node, "")
    if node.args:
        inner = evaluator.of(node.args[0].value)
        if inner.kind is Kind.LIST and last.startswith("as"):
            return Value(Kind.NDARRAY, dtype=dtype, fresh=True)
        if inner.kind is Kind.NDARRAY:
            fresh = inner.fresh and last != "broadcast_to"
            return Value(Kind.NDARRAY, dtype=dtype or inner.dtype, fresh=fresh)
    return Value(Kind.NDARRAY, dtype=dtype)


def _loaded(node: cst.Call) -> Value:
    """``np.load``: an array of a ``.npy``, an archive of a ``.npz``, memory-mapped on request."""
    if _keyword(node, "mmap_mode") is not None or len(node.args) > 1 and not node.args[1].keyword:
        return Value(Kind.NDARRAY)
    text = literal(node.args[0].value) if node.args else None
    if text is not None and text.endswith(".npz"):
        return UNKNOWN
    return (
        Value(Kind.NDARRAY, fresh=True) if text is not None and text.endswith(".npy") else UNKNOWN
    )


def _random(last: str, node: cst.Call) -> Value:
    if last in ("RandomState", "default_rng", "Generator"):
        return Value(Kind.INSTANCE, type="numpy.random.Generator", made=node)
    if last in ("seed", "shuffle", "set_state", "get_state"):
        return OTHER
    if last == "permutation":
        return Value(Kind.NDARRAY, dtype="", fresh=True)
    return draw(last, node)


def draw(last: str, node: cst.Call) -> Value:
    """A draw of ``np.random`` or of a generator: an array only where a size is given."""
    if last not in _RANDOM_SIZES:
        return UNKNOWN
    dtype = "float64" if last in _FLOAT_RANDOM and _keyword(node, "dtype") is None else ""
    size = _keyword(node, "size")
    plain = [arg for arg in node.args if arg.keyword is None]
    if any(arg.star for arg in node.args):
        return UNKNOWN
    if size is None and len(plain) > _RANDOM_SIZES[last]:
        size = plain[_RANDOM_SIZES[last]].value
    if size is not None and literal(size) != "None":
        return Value(Kind.NDARRAY, dtype=dtype, fresh=True)
    return Value(Kind.NPSCALAR) if size is None and last != "choice" else UNKNOWN


def method(base: Value, name: str, node: cst.Call, evaluator: Evaluator) -> Value:
    """A method of an array or NumPy scalar."""
    if name == "item":
        return NUMBER
    if name == "tolist":
        return Value(Kind.LIST, element=UNKNOWN) if base.kind is Kind.NDARRAY else NUMBER
    if base.kind is Kind.NPSCALAR:
        return Value(Kind.NPSCALAR) if name == "astype" else UNKNOWN
    if name == "astype":
        copies = _keyword(node, "copy")
        dtype = _dtype_named(node.args[0].value) if node.args else ""
        return Value(Kind.NDARRAY, dtype=dtype, fresh=copies is None)
    if name in _METHOD_FRESH:
        return Value(
            Kind.NDARRAY, dtype=base.dtype if name in ("copy", "flatten") else "", fresh=True
        )
    if name in _METHOD_VIEW:
        return Value(Kind.NDARRAY, dtype=base.dtype, fresh=base.fresh)
    if name in _REDUCTIONS:
        return _reduced(node, _keyword(node, "axis"), _keyword(node, "keepdims"), positional=0)
    if name in ("sort", "fill", "put", "setflags", "partition"):
        return OTHER
    del evaluator
    return UNKNOWN


def _keyword(node: cst.Call, name: str) -> cst.BaseExpression | None:
    for arg in node.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    return None


def _dtype(node: cst.Call, default: str) -> str:
    given = _keyword(node, "dtype")
    return default if given is None else _dtype_named(given)


def _default_dtype(function: str) -> str:
    return (
        "float64" if function in ("zeros", "ones", "empty", "linspace", "eye", "identity") else ""
    )


def _dtype_named(node: cst.BaseExpression) -> str:
    """The dtype an expression names: ``np.float32``, ``"float32"``, ``float``."""
    text = literal(node)
    if isinstance(node, cst.SimpleString) and text is not None:
        return text
    name = node.attr.value if isinstance(node, cst.Attribute) else getattr(node, "value", "")
    return {"float": "float64", "int": "int64", "bool": "bool"}.get(str(name), str(name))
