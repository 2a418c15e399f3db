"""What a NumPy expression gives: an array, a scalar, or not known; and who owns its memory.

``torch.from_numpy`` raises on a scalar, and NumPy turns arrays without dimensions into scalars on
the way (``np.array(3) + 1``), so an array's `Value.rank` says how many dimensions it has at
least: 0 for an array that may have none, `MAYBE_SCALAR` for what may be a scalar by now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import numpy_tables as tables
from torchlint.analysis.arguments import literal
from torchlint.analysis.values import BOOL, NONE, NUMBER, OTHER, UNKNOWN, Kind, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.analysis.evaluate import Evaluator

MAYBE_SCALAR = -1
GENERATOR = "numpy.random.Generator"
LOADED = "numpy.load"  # an array or an archive: a name as index tells

_NUMBERS = (Kind.NUMBER, Kind.BOOL)
_SCALARS = (*_NUMBERS, Kind.NPSCALAR)
_SEQUENCES = (Kind.LIST, Kind.TUPLE)


def array(rank: int, dtype: str = "", *, fresh: bool = False) -> Value:
    """Return an array of so many dimensions at least."""
    return Value(Kind.NDARRAY, rank=rank, dtype=dtype, fresh=fresh)


def rank_of(value: Value) -> int:
    """Return the fewest dimensions of the array that NumPy would make of a value."""
    if value.kind is Kind.NDARRAY:
        return value.rank
    if value.kind in _SEQUENCES:
        each = value.each()
        return 1 + max(0, rank_of(each)) if each.kind is not Kind.NEVER else 1
    return MAYBE_SCALAR if value.kind in _SCALARS else 0


# -- attributes, items, operators -----------------------------------------------------------------


def attribute(base: Value, attr: str) -> Value:
    """Return an attribute of an array."""
    match attr:
        case "T" | "mT" | "real":
            return array(base.rank, base.dtype)
        case "ndim" | "size" | "itemsize" | "nbytes":
            return NUMBER
        case "shape" | "strides":
            return Value(Kind.TUPLE, element=NUMBER)
        case "dtype":
            return Value(Kind.DTYPE)
        case _:
            return UNKNOWN


def item(base: Value, node: cst.Subscript, evaluator: Evaluator) -> Value:
    """Evaluate ``array[...]``: a view, a copy (by list, mask or array of indices), or a scalar."""
    kept, taken = 0, 0
    for element in node.slice:
        part = element.slice
        if not isinstance(part, cst.Index):
            kept, taken = kept + 1, taken + 1
            continue
        index = part.value
        value = evaluator.of(index)
        if _picks(value):
            return array(1, base.dtype, fresh=True)
        if isinstance(index, cst.Ellipsis):
            taken = 99
        elif value.kind is Kind.NONE or _is_newaxis(evaluator, index):
            kept += 1
        elif value.kind is Kind.NUMBER:
            taken += 1
        elif value.kind is Kind.STRING:
            return array(0, fresh=base.fresh) if base.type == LOADED else UNKNOWN
        else:
            return array(kept, base.dtype) if kept else UNKNOWN
    if kept or taken == 99:
        return array(max(kept, kept + base.rank - taken), base.dtype)
    return array(base.rank - taken, base.dtype) if base.rank > taken else UNKNOWN


def row(base: Value) -> Value:
    """Return what a loop over an array binds: a view, or a scalar."""
    return array(base.rank - 1, base.dtype) if base.rank > 1 else UNKNOWN


def _picks(index: Value) -> bool:
    """Tell whether indexing with this value copies."""
    if index.kind is Kind.NDARRAY:
        return index.rank > 0 or index.dtype == "bool"  # one truth value adds a dimension
    return index.kind is Kind.LIST


def _is_newaxis(evaluator: Evaluator, index: cst.BaseExpression) -> bool:
    return evaluator.of(index).type == "numpy.newaxis"


def combined(left: Value, right: Value, dtype: str) -> Value:
    """Return the result of an elementwise operator on two values, one of them an array."""
    rank = max(rank_of(left), rank_of(right))
    return array(rank if rank > 0 else MAYBE_SCALAR, dtype, fresh=True)


def product(left: Value, right: Value) -> Value:
    """Evaluate ``a @ b``: of two vectors a scalar."""
    ranks = (rank_of(left), rank_of(right))
    if Kind.NDARRAY not in (left.kind, right.kind) or max(ranks) < 2:
        return UNKNOWN
    return array(max(ranks) if min(ranks) > 1 else 1, fresh=True)


def negated(value: Value) -> Value:
    """Evaluate a sign or ``~`` before an array."""
    rank = value.rank if value.rank > 0 else MAYBE_SCALAR
    return array(rank, value.dtype, fresh=True)


# -- functions ------------------------------------------------------------------------------------


def call(name: str, node: cst.Call, evaluator: Evaluator) -> Value:
    """Return the value of a call of ``numpy.<...>``."""
    space, _, last = name.rpartition(".")
    match space:
        case "numpy":
            return _function(last, node, evaluator)
        case "numpy.random":
            return _random(last, node, evaluator)
        case "numpy.linalg" if last in tables.LINALG:
            return array(tables.LINALG[last], fresh=True)
        case "numpy.linalg" if last == "norm":
            return _reduced(last, node, evaluator)
        case "numpy.fft" if last in tables.FFT:
            return array(tables.FFT[last], fresh=True)
        case _:
            return UNKNOWN


def _function(last: str, node: cst.Call, evaluator: Evaluator) -> Value:
    if _keyword(node, "out") is not None:
        return UNKNOWN
    if last == "where" and len(node.args) != 3:
        return Value(Kind.TUPLE, element=array(1, fresh=True)) if len(node.args) == 1 else UNKNOWN
    if last == "array":
        return _array(node, evaluator)
    if last in tables.FRESH:
        default = "float64" if last in tables.FLOAT64 else ""
        if last in tables.JOINS:
            inner = _first(node, evaluator)
            default = _common(inner.items or [inner.each()])
        return array(_made_rank(last, node, evaluator), _dtype(node, default), fresh=True)
    if last in tables.FILLED:
        return _filled(last, node, evaluator)
    if last in tables.LIKE:
        first = _first(node, evaluator)
        return array(max(0, rank_of(first)), _dtype(node, first.dtype), fresh=True)
    if last in tables.SCALAR_TYPES:
        return _cast(node, evaluator, tables.SCALAR_TYPES[last])
    if last in tables.ELEMENTWISE:
        return _elementwise(last, node, evaluator)
    if last in tables.REDUCTIONS:
        return _reduced(last, node, evaluator)
    if last in tables.VIEWS:
        return _view(last, node, evaluator)
    return _special(last, node, evaluator)


def _special(last: str, node: cst.Call, evaluator: Evaluator) -> Value:
    match last:
        case "load":
            return _loaded(node)
        case "dot" | "matmul" if len(node.args) == 2:
            return product(*_operands(node, evaluator)[:2])
        case "einsum":
            return _einsum(node)
        case "tile":
            counts = evaluator.of(node.args[1].value) if len(node.args) == 2 else UNKNOWN
            ranks = (_shape_rank(counts), rank_of(_first(node, evaluator)))
            return array(max(0, *ranks), fresh=True)
        case "pad":
            return array(max(0, rank_of(_first(node, evaluator))), fresh=True)
        case "unique":
            extra = [arg for arg in node.args if arg.keyword and "return_" in arg.keyword.value]
            found = array(1, fresh=True)
            return Value(Kind.TUPLE, element=found) if extra else found
        case "nonzero" | "histogram":
            return Value(Kind.TUPLE, element=array(1, fresh=True))
        case "meshgrid":
            return Value(Kind.LIST, element=array(1, fresh=_keyword(node, "copy") is None))
        case "frombuffer" | "memmap":
            return array(0)
        case "isscalar" | "allclose" | "array_equal" | "iterable" | "ndim" | "size":
            return NUMBER if last in ("ndim", "size") else BOOL
        case "save" | "savez" | "savetxt" | "seterr" | "errstate" | "set_printoptions" | "dtype":
            return OTHER
        case _ if last in tables.SPLITS:
            return Value(Kind.LIST, element=array(1))
        case _:
            return UNKNOWN


def _array(node: cst.Call, evaluator: Evaluator) -> Value:
    """Evaluate ``np.array(x)``, which copies: the result is fresh, and an array even for a number.

    Nothing is said of a lone number (there is nothing to copy), nor of what gives objects or
    strings, of which torch makes no tensor.
    """
    if not node.args or node.args[0].star:
        return UNKNOWN
    value = _first(node, evaluator)
    if value.kind in (*_SCALARS, Kind.NONE, Kind.STRING, Kind.DICT, Kind.ITERATOR, Kind.MODULE):
        return UNKNOWN
    given = _argument(node, 1, "dtype")
    dtype = "" if given is None else dtype_named(given)
    if dtype in ("object", "str"):
        return UNKNOWN
    copies = _keyword(node, "copy")
    fresh = copies is None or literal(copies) == "True" or value.kind in _SEQUENCES
    rank = max(0, rank_of(value), _nesting(node.args[0].value))
    found = dtype if given is not None else _dtype_inside(node.args[0].value, value)
    return array(rank, found, fresh=fresh)


def _nesting(node: cst.BaseExpression) -> int:
    """Count how deep lists are nested at the start of a display."""
    depth = 0
    while isinstance(node, (cst.List, cst.Tuple)):
        depth += 1
        if not node.elements:
            break
        node = node.elements[0].value
    return depth


def _dtype_inside(node: cst.BaseExpression, value: Value) -> str:
    """Return the dtype NumPy infers from an array, a list of such, or a display of numbers."""
    if value.kind is Kind.NDARRAY:
        return value.dtype
    if value.kind in _SEQUENCES and value.each().kind is Kind.NDARRAY:
        return value.each().dtype
    leaves = list(_leaves(node))
    if leaves and all(isinstance(leaf, cst.Integer) for leaf in leaves):
        return "int64"
    plain = all(isinstance(leaf, (cst.Integer, cst.Float)) for leaf in leaves)
    return "float64" if leaves and plain else ""


def _leaves(node: cst.BaseExpression) -> Sequence[cst.BaseExpression]:
    found: list[cst.BaseExpression] = []
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, (cst.List, cst.Tuple)):
            todo += [element.value for element in part.elements]
        elif isinstance(part, cst.UnaryOperation) and isinstance(part.operator, cst.Minus):
            todo.append(part.expression)
        else:
            found.append(part)
    return found


def _filled(last: str, node: cst.Call, evaluator: Evaluator) -> Value:
    shape = _argument(node, 0, "shape")
    rank = 0 if shape is None else _shape_rank(evaluator.of(shape))
    place = 2 if last == "full" else 1
    default = "float64" if last in tables.FLOAT64 else ""
    fill = _argument(node, 1, "fill_value")
    if last == "full" and fill is not None:
        default = _dtype_inside(fill, evaluator.of(fill))
    given = _argument(node, place, "dtype")
    return array(rank, default if given is None else dtype_named(given), fresh=True)


def _shape_rank(shape: Value) -> int:
    """Return the dimensions of an array with this shape, as far as it shows."""
    if shape.kind is Kind.NUMBER:
        return 1
    if isinstance(shape.made, (cst.Tuple, cst.List)) and shape.items is None:
        return sum(isinstance(element, cst.Element) for element in shape.made.elements)
    return len(shape.items) if shape.kind in _SEQUENCES and shape.items is not None else 0


def _made_rank(last: str, node: cst.Call, evaluator: Evaluator) -> int:
    rank = tables.FRESH[last]
    if last == "where":
        return max(rank, *(rank_of(value) for value in _operands(node, evaluator)))
    if last in ("stack", "concatenate") and node.args:
        inner = _first(node, evaluator).each()
        kept = max(0, rank_of(inner)) if inner.kind is Kind.NDARRAY else 0
        return max(rank, kept + (last == "stack"))
    return rank


def _cast(node: cst.Call, evaluator: Evaluator, dtype: str) -> Value:
    """Evaluate ``np.float32(x)``: an array of an array, a scalar of a number."""
    if not node.args:
        return Value(Kind.NPSCALAR)
    inner = _first(node, evaluator)
    if inner.kind is Kind.NDARRAY or inner.kind in _SEQUENCES:
        rank = rank_of(inner)
        fresh = inner.fresh or inner.kind is not Kind.NDARRAY  # an array of that dtype comes back
        return array(rank if rank > 0 else MAYBE_SCALAR, dtype, fresh=fresh)
    return Value(Kind.NPSCALAR, dtype=dtype) if inner.kind in _SCALARS else UNKNOWN


def _common(values: Sequence[Value]) -> str:
    """Return the floating dtype that all values share, or ""."""
    dtypes = {value.dtype for value in values}
    return dtypes.pop() if len(dtypes) == 1 and min(dtypes).startswith("float") else ""


def _elementwise(last: str, node: cst.Call, evaluator: Evaluator) -> Value:
    values = _operands(node, evaluator)
    inputs = 3 if last == "clip" else 2 if last in tables.BINARY else 1
    if len(values) > inputs or _keyword(node, "copy") is not None:
        return UNKNOWN  # written into an array that was given
    if any(value.kind is Kind.NDARRAY or value.kind in _SEQUENCES for value in values):
        rank = max(rank_of(value) for value in values)
        dtype = _common(values) if last in tables.KEEPS_DTYPE else ""
        return array(rank if rank > 0 else MAYBE_SCALAR, dtype, fresh=True)
    if values and all(value.kind in _SCALARS for value in values):
        return Value(Kind.NPSCALAR)
    return UNKNOWN


def _reduced(last: str, node: cst.Call, evaluator: Evaluator, base: Value | None = None) -> Value:
    """Evaluate a reduction: a scalar without an axis, an array where dimensions are left."""
    if any(arg.star for arg in node.args) or _keyword(node, "out") is not None:
        return UNKNOWN
    place = tables.REDUCTIONS[last] - (base is not None)
    axis = _argument(node, place, "axis")
    if place > 1 - (base is not None) and last != "norm":  # one percentile, or several
        wanted = evaluator.of(node.args[1].value) if len(node.args) > 1 else UNKNOWN
        if wanted.kind not in _SCALARS:
            return UNKNOWN
    rank = rank_of(_first(node, evaluator) if base is None else base)
    keeps = _keyword(node, "keepdims")
    if keeps is not None:
        kept = array(rank if rank > 0 else MAYBE_SCALAR, fresh=True)
        return kept if literal(keeps) == "True" else UNKNOWN
    if axis is None or literal(axis) == "None":
        return Value(Kind.NPSCALAR)
    value = evaluator.of(axis)
    gone = 1 if value.kind is Kind.NUMBER else len(value.items or ()) or 99
    return array(rank - gone, fresh=True) if rank > gone else UNKNOWN


def _view(last: str, node: cst.Call, evaluator: Evaluator) -> Value:
    if not node.args or node.args[0].star:
        return UNKNOWN
    inner = _first(node, evaluator)
    if inner.kind in (Kind.STRING, Kind.DICT, Kind.NONE):
        return UNKNOWN
    rank = _viewed_rank(last, max(0, rank_of(inner)), node, evaluator)
    dtype = _dtype(node, inner.dtype)
    copied = inner.kind in _SEQUENCES
    fresh = (copied or inner.fresh) and last not in tables.UNSHARABLE
    return array(rank, dtype, fresh=fresh)


def _viewed_rank(last: str, rank: int, node: cst.Call, evaluator: Evaluator) -> int:
    match last:
        case "reshape":
            shape = _argument(node, 1, "shape") or _argument(node, 1, "newshape")
            return 0 if shape is None else _shape_rank(evaluator.of(shape))
        case "ravel" | "atleast_1d" | "ascontiguousarray" | "asfortranarray":
            return max(1, rank) if last != "ravel" else 1
        case "atleast_2d" | "flipud" | "fliplr" | "rot90":
            return max(2, rank)
        case "atleast_3d":
            return max(3, rank)
        case "expand_dims":
            return rank + 1
        case "squeeze" | "broadcast_to":
            return 0
        case "diag" | "diagonal":
            return 1
        case _:
            return rank


def _einsum(node: cst.Call) -> Value:
    """Evaluate a sum of products that keeps dimensions; of one operand it may be a view."""
    text = literal(node.args[0].value) if node.args else None
    inputs, arrow, output = (text or "").replace(" ", "").partition("->")
    if not arrow or not output.isalpha() or "," not in inputs:
        return UNKNOWN
    return array(len(output), fresh=True)


def _loaded(node: cst.Call) -> Value:
    """Evaluate ``np.load``: an array or an archive, memory-mapped on request.

    Of an archive torch makes no tensor, so what is given to it is an array.
    """
    if _argument(node, 2, "allow_pickle") is not None or any(arg.star for arg in node.args):
        return UNKNOWN
    mapped = _argument(node, 1, "mmap_mode") is not None
    return Value(Kind.NDARRAY, type=LOADED, made=node, fresh=not mapped)


# -- random draws ---------------------------------------------------------------------------------


def _random(last: str, node: cst.Call, evaluator: Evaluator) -> Value:
    if last in ("RandomState", "default_rng", "Generator"):
        return Value(Kind.INSTANCE, type=GENERATOR, made=node)
    if last in ("seed", "shuffle", "set_state", "get_state"):
        return OTHER
    return draw(last, node, evaluator)


def draw(last: str, node: cst.Call, evaluator: Evaluator) -> Value:
    """Evaluate a draw of ``np.random`` or of a generator: an array only where a size is given."""
    if last in tables.RANDOM_ARRAYS:
        return array(tables.RANDOM_ARRAYS[last], fresh=True)
    dtype = ""
    if last in tables.RANDOM_FLOAT64 and _keyword(node, "dtype") is None:
        dtype = "float64"
    if last in tables.RANDOM_DIMS:
        sure = len([arg for arg in node.args if not arg.star])
        scalar = Value(Kind.NPSCALAR, dtype=dtype)
        return array(sure or MAYBE_SCALAR, dtype, fresh=True) if node.args else scalar
    if last not in tables.RANDOM_SIZES:
        return UNKNOWN
    if any(arg.star for arg in node.args):
        return UNKNOWN
    size = _argument(node, tables.RANDOM_SIZES[last], "size")
    if size is None or literal(size) == "None":
        picked = size is None and last == "choice"  # a member of what was given: a row, perhaps
        return UNKNOWN if picked else Value(Kind.NPSCALAR, dtype=dtype)
    value = evaluator.of(size)
    if value.kind in _SEQUENCES:
        return array(_shape_rank(value), dtype, fresh=True)
    return array(MAYBE_SCALAR if _may_be_none(value, evaluator, size) else 1, dtype, fresh=True)


def _may_be_none(value: Value, evaluator: Evaluator, size: cst.BaseExpression) -> bool:
    """Tell whether a size is handed through from a parameter that need not be given."""
    return value.kind is not Kind.NUMBER and evaluator.optional(size)


# -- methods --------------------------------------------------------------------------------------


def method(base: Value, name: str, node: cst.Call, evaluator: Evaluator) -> Value:
    """Evaluate a method of an array or NumPy scalar."""
    if name == "item":
        return UNKNOWN if base.type == LOADED else NUMBER
    if base.kind is Kind.NPSCALAR:
        return _scalar_method(base, name, node)
    if _keyword(node, "out") is not None:
        return UNKNOWN
    match name:
        case "tolist":
            return Value(Kind.LIST, element=UNKNOWN) if base.rank > 0 else UNKNOWN
        case "astype":
            return _astype(base, node)
        case "copy":
            return array(base.rank, base.dtype, fresh=True)
        case "take":
            index = evaluator.of(node.args[0].value) if node.args else UNKNOWN
            return array(1, base.dtype, fresh=True) if _picks(index) else UNKNOWN
        case "dot" if len(node.args) == 1:
            return product(base, _first(node, evaluator))
    if name in tables.METHOD_FRESH:
        dtype = base.dtype if name in ("flatten", "repeat") else ""
        return array(tables.METHOD_FRESH[name], dtype, fresh=True)
    if name in tables.METHOD_ELEMENTWISE:
        return negated(base)
    if name in tables.METHOD_VIEWS:
        return _view_method(base, name, node, evaluator)
    if name in tables.REDUCTIONS:
        return _reduced(name, node, evaluator, base)
    return NONE if name in tables.METHOD_NONE else UNKNOWN


def _scalar_method(base: Value, name: str, node: cst.Call) -> Value:
    if name == "astype" and node.args:
        return Value(Kind.NPSCALAR, dtype=dtype_named(node.args[0].value))
    if name == "tolist":
        return NUMBER
    return base if name in ("copy", "round", "clip", "sum", "mean", "max", "min") else UNKNOWN


def _astype(base: Value, node: cst.Call) -> Value:
    given = _argument(node, 0, "dtype")
    dtype = "" if given is None else dtype_named(given)
    rank = base.rank
    return array(rank, dtype, fresh=base.fresh or _keyword(node, "copy") is None)


def _view_method(base: Value, name: str, node: cst.Call, evaluator: Evaluator) -> Value:
    plain = [arg for arg in node.args if arg.keyword is None]
    match name:
        case "reshape" if len(plain) == 1:
            rank = _shape_rank(evaluator.of(plain[0].value))
        case "reshape":
            rank = sum(not arg.star for arg in plain)
        case "ravel" | "diagonal":
            rank = 1
        case "squeeze":
            rank = min(base.rank, 0)
        case _:
            rank = base.rank
    dtype = "" if name == "view" else base.dtype
    return replace(array(rank, dtype), fresh=base.fresh and name != "diagonal")


# -- arguments ------------------------------------------------------------------------------------


def _first(node: cst.Call, evaluator: Evaluator) -> Value:
    return evaluator.of(node.args[0].value) if node.args and not node.args[0].star else UNKNOWN


def _operands(node: cst.Call, evaluator: Evaluator) -> list[Value]:
    return [evaluator.of(arg.value) for arg in node.args if arg.keyword is None and not arg.star]


def _keyword(node: cst.Call, name: str) -> cst.BaseExpression | None:
    for arg in node.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    return None


def _argument(node: cst.Call, place: int, name: str) -> cst.BaseExpression | None:
    """Return the argument at a place, or by keyword."""
    plain = [arg for arg in node.args if arg.keyword is None and arg.star != "**"]
    if place < len(plain) and not any(arg.star for arg in plain[: place + 1]):
        return plain[place].value
    return _keyword(node, name)


def _dtype(node: cst.Call, default: str) -> str:
    given = _keyword(node, "dtype")
    return default if given is None else dtype_named(given)


def dtype_named(node: cst.BaseExpression) -> str:
    """Return the NumPy dtype that an expression names: ``np.float32``, ``"float32"``, ``float``.

    Torch's names are read as well; "" where the expression names none.
    """
    text = literal(node) if isinstance(node, cst.SimpleString) else None
    if text is None and isinstance(node, cst.Attribute | cst.Name):
        text = node.attr.value if isinstance(node, cst.Attribute) else node.value
    return _DTYPES.get(text or "", "")


_DTYPES: dict[str, str] = {
    **{name: name for name in (*tables.SCALAR_TYPES.values(), "bfloat16", "object", "str")},
    **{name: real for name, real in tables.SCALAR_TYPES.items() if name != "longlong"},
    "float": "float64", "int": "int64", "long": "int64", "short": "int16", "O": "object",
    "f4": "float32", "f8": "float64", "i4": "int32", "i8": "int64", "u1": "uint8", "b1": "bool",
    "f": "float32", "d": "float64", "cfloat": "complex64", "cdouble": "complex128", "object_":
    "object",
}  # fmt: skip
