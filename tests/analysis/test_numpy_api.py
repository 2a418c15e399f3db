"""What the analysis says of NumPy expressions, held against what NumPy gives."""

from __future__ import annotations

import warnings

import libcst as cst
import numpy as np
import pytest

from torchlint.analysis import numpy_tables as tables
from torchlint.analysis.numpy_api import MAYBE_SCALAR, dtype_named
from torchlint.analysis.program import Program
from torchlint.analysis.values import Kind, Value

SETUP = """
import numpy as np
from numpy import float32 as f32
rng = np.random.default_rng(0)
state = np.random.RandomState(0)
a = np.arange(6.0).reshape(2, 3)
b = np.array([1, 2, 3])
c = np.ones((), dtype=np.float32)
one = np.zeros((1, 1))
square = np.eye(3)
mask = a > 2
n = len("abc")
shape = (2, 3)
xs = [1.0, 2.0]
scalar = np.float64(3)
"""
ARRAYS = ("a", "b", "one", "square", "mask")
# the same arrays, but somebody else holds them: what is fresh then is a copy
HELD = f"""{SETUP}
held = load()
a: np.ndarray = np.asarray(held)
b: np.ndarray = np.asarray(held)
one = np.asarray(held)
square = np.asarray(held)
mask = np.asarray(held)
"""


def value(expression: str, setup: str = SETUP) -> Value:
    program = Program(f"{setup}\nresult = {expression}\n")
    last = program.module.body[-1]
    assert isinstance(last, cst.SimpleStatementLine)
    assign = last.body[0]
    assert isinstance(assign, cst.Assign)
    return program.value(assign.value)


def real(expression: str) -> tuple[object, dict[str, object]]:
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(SETUP, names)  # noqa: S102  # expressions of this file
        return eval(expression, names), names  # noqa: S307  # expressions of this file


def agrees(expression: str, said: Value) -> None:
    """What is said must be true; saying little is no error here."""
    result, names = real(expression)
    match said.kind:
        case Kind.NDARRAY if said.rank == MAYBE_SCALAR:
            assert isinstance(result, (np.ndarray, np.generic, float))
        case Kind.NDARRAY:
            assert isinstance(result, np.ndarray)
            assert result.ndim >= said.rank
        case Kind.NPSCALAR:
            assert isinstance(result, (np.generic, float, int))
        case Kind.LIST | Kind.TUPLE if said.element is not None:
            assert isinstance(result, (list, tuple))
            each = said.element
            if each.kind is Kind.NDARRAY:
                assert all(isinstance(part, np.ndarray) for part in result)
                assert all(part.ndim >= each.rank for part in result)
        case _:
            assert not isinstance(result, np.ndarray) or said.kind is Kind.UNKNOWN
    if said.dtype and isinstance(result, (np.ndarray, np.generic)):
        assert result.dtype == said.dtype
    if isinstance(result, np.ndarray) and value(expression, HELD).fresh:
        assert result.flags.writeable
        assert not [name for name in ARRAYS if np.shares_memory(result, names[name])]


def _each(text: str, arguments: str) -> dict[str, str]:
    return dict.fromkeys(text.split(), arguments)


# Arguments that each function of the tables takes.
CALLS: dict[str, str] = {
    **_each("resize full", "(2, 3), 2"), "genfromtxt": "['1']",
    "loadtxt": "['1']", "cov": "b", "where": "b > 1, 1, 0", "linspace": "0, 1, 3",
    "logspace": "0, 1, 3", "geomspace": "1, 2, 3", "hstack": "[1, 2]", "stack": "[1, 2]",
    "concatenate": "[b, b]", "fromfile": "'/dev/null'", "packbits": "[1, 0]",
    "unpackbits": "np.array([3], np.uint8)", "insert": "b, 0, 1", "append": "1, 2",
    "delete": "b, 0", "indices": "(2, 3)", "convolve": "b, b", "correlate": "b, b",
    "fromiter": "iter([1]), float", "repeat": "3, 2", "lexsort": "[b, b]",
    "argpartition": "b, 1", "partition": "b, 1", "vander": "b", "vstack": "[1, 2]",
    "row_stack": "[1, 2]", "column_stack": "[b, b]", "outer": "1, 2", "dstack": "[1, 2]",
    "fromstring": "'1 2', sep=' '", "roll": "b, 1", "full_like": "a, 1", "arange": "3",
    **_each("hanning hamming blackman bartlett eye identity tri", "3"),
    "kaiser": "3, 1.0", "bincount": "b", "zeros": "shape", "ones": "3", "empty": "(2,)",
    **_each("union1d intersect1d setdiff1d setxor1d", "b, b"),
    "percentile": "a, 50", "quantile": "a, 0.5", "nanpercentile": "a, 50",
    "nanquantile": "a, 0.5", "moveaxis": "a, 0, 1", "swapaxes": "a, 0, 1", "rollaxis": "a, 1",
    "reshape": "a, -1", "expand_dims": "a, 0", "broadcast_to": "a, (2, 2, 3)",
    "matrix_power": "square, 2", "solve": "square, b", "multi_dot": "[square, square]",
    "random": "3", "random_sample": "3", "ranf": "3", "sample": "3",
    "multivariate_normal": "[0, 0], [[1, 0], [0, 1]]", "dirichlet": "[1, 2]",
    "multinomial": "3, [0.5, 0.5]", "permutation": "3", "fftfreq": "3", "rfftfreq": "3",
    **_each("fft ifft rfft irfft hfft ihfft", "b"),
}  # fmt: skip
BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor"})


def elementwise(name: str) -> list[str]:
    if name == "clip":
        return [f"np.clip({x}, 0, 1)" for x in ("a", "c", "scalar", "2.0")]
    if name in BITWISE:
        return [f"np.{name}(b, b)", f"np.{name}(3, 1)"]
    if name == "unwrap":
        return ["np.unwrap(b)"]
    second = "" if name not in tables.BINARY else ", 1" if "round" in name else ", 2.0"
    pool = ("square / 9", "c / 9", "scalar / 9", "0.5")
    return [f"np.{name}({x}{second})" for x in pool]


def spelled() -> list[str]:
    """Every name of the tables that the installed NumPy has, in a call."""
    found = [
        f"np.{name}({CALLS.get(name, 'a')})"
        for table in (tables.FRESH, tables.FILLED, tables.LIKE, tables.REDUCTIONS, tables.VIEWS)
        for name in table
        if hasattr(np, name)
    ]
    for name in tables.ELEMENTWISE:
        found += elementwise(name)
    found += [f"np.linalg.{name}({CALLS.get(name, 'square')})" for name in tables.LINALG]
    found += [f"np.fft.{name}({CALLS.get(name, 'a')})" for name in tables.FFT]
    found += [f"np.{name}({x})" for name in tables.SCALAR_TYPES for x in ("3", "b", "xs", "c")]
    found += [f"np.random.{name}({CALLS[name]})" for name in tables.RANDOM_ARRAYS]
    found += [f"np.{name}({x}, axis=0)" for name in tables.REDUCTIONS for x in ("a", "b")
              if CALLS.get(name) is None and hasattr(np, name)]  # fmt: skip
    found += [f"np.{name}({x}, keepdims=True)" for name in ("sum", "mean", "max")
              for x in ("a", "c", "xs", "3.0")]  # fmt: skip
    return sorted(found)


OTHERS = """
np.array([1, 2])|np.array([1.0, -2])|np.array([[1], [2]])|np.array(xs)|np.array(c)|np.array(scalar)
np.array(a, dtype=np.float32)|np.array(a, dtype="f4")|np.array([a, a])|np.array(3)|np.array([])
np.array(xs, copy=True)|np.array([1, 2], np.float32)|np.zeros(())|np.zeros(n)|np.zeros(shape, f32)
np.zeros((2, 3), dtype=int)|np.full(3, 1.0)|np.full((2, 2), 0, dtype=bool)|np.ones(shape=(2, 3))
a.T|b.T|a[0]|a[:1]|b[0]|b[None]|b[np.newaxis, :]|a[..., 0]|b[..., 0]|a[:, 0]|a[mask]|a[[0, 1]]
a[b - 2]|a[n - 2]|a[n - 2, n - 2]|a[0, :]|c[None]|square[0][0]|a[a > 2]|b[b - 1]|a[0][[0, 1]]
b[c > 9]|c[c > 0]
a + 1|c + 1|a * b|a / 2|b / 2|-a|-c|a > 1|c > 1|1 - a|a @ b|b @ b|a @ a.T|a.dot(b)|b.dot(b)|~mask
scalar + 1|scalar * a|[1, 2, 3] * b|a == b|abs(a)|abs(c)|a + [1.0, 2.0, 3.0]|a ** 2|b * 2|c * b
a.mean()|a.mean(0)|b.mean(0)|a.mean(axis=0)|a.sum(axis=1, keepdims=True)|c.sum()|a.max(axis=(0, 1))
a.min(axis=-1)|a.sum(axis=None)|a.argmax(1)|a.std()|a.all()|np.percentile(a, [1, 2])|np.sum(a, 0)
np.sum(3)|np.mean(xs)|np.median(a, axis=0)|np.percentile(a, 50, axis=0)|np.sum(c, keepdims=True)
np.linalg.norm(a)|np.linalg.norm(a, axis=1)|np.linalg.norm(a, 2, 1)|np.linalg.norm(b, 2)
a.astype(np.float32)|c.astype("int64")|a.astype(int)|a.astype(np.float64, copy=False)|a.copy()
a.flatten()|c.flatten()|a.reshape(-1)|a.reshape(3, 2)|a.reshape(shape)|one.squeeze()|a.ravel()
a.squeeze()|a.view()|a.transpose(1, 0)|a.swapaxes(0, 1)|square.diagonal()|a.take([0, 1])|b.take(0)
a.round()|c.round()|a.clip(0, 1)|c.clip(0, 1)|a.cumsum()|c.cumsum()|a.repeat(2)|a.argsort()|a.item
b.tolist()|c.tolist()|c.item()|scalar.astype(int)|scalar.item()|scalar.tolist()|scalar.copy()
a.sort()|a.fill(0)|a.shape|a.ndim|a.dtype|a.real|a.flat|a.nbytes|a.strides|a.sum(out=np.zeros(()))
np.where(mask)|np.where(True, 1, 2)|np.where(mask, a, 0)|np.nonzero(b)|np.histogram(b)|np.unique(b)
np.unique(b, return_counts=True)|np.meshgrid(b, b)|np.meshgrid(b, b, copy=False)|np.split(b, 3)
np.array_split(b, 2)|np.dot(a, b)|np.dot(b, b)|np.matmul(a, b)|np.matmul(square, square)
np.tile(3, 2)
np.tile(3, ())|np.tile(a, (2, 1))|np.pad(a, 1)|np.einsum("ij,kj->ik", a, a)|np.einsum("i,i->", b, b)
np.einsum("ii->i", square)|np.isscalar(3)|np.allclose(a, a)|np.ndim(a)|np.interp(2, b, b)
np.concatenate([a, a])|np.stack([a, a])|np.stack([b])
np.stack(xs)|np.hstack((a, a.astype(f32)))|np.cos(a)|np.sin(a.astype(f32))|np.hstack((a, a))
np.sqrt(xs)
np.frombuffer(b"12345678")|np.broadcast_to(b, (2, 3))|np.diag(b)|np.diag(a)|np.flip(a)
np.squeeze(one)
np.asarray(xs)|np.asarray(a)|np.asarray(3)|np.asarray([1, 2], dtype=np.float32)|np.require(a)
np.random.rand()|np.random.rand(3)|np.random.rand(2, 3)|np.random.rand(*shape)|np.random.randn(n)
np.random.randint(5)|np.random.randint(5, size=3)|np.random.randint(0, 5, (2, 3))|rng.random()
rng.random(3)|rng.normal(size=shape)|rng.integers(3, size=2)|state.rand(2)|state.normal(0, 1, n)
np.random.normal(size=())|np.random.normal(0, 1)|np.random.normal(size=None)|np.random.choice(3, 2)
np.random.choice(3, size=())|np.random.choice(3)|np.random.uniform(0, 1, n)|np.random.choice(3, n)
np.random.uniform(size=n)|np.random.standard_normal((2, 2))|np.random.triangular(0, 1, 2, 3)
np.random.poisson(1.0, 3)|rng.permutation(3)|rng.random(3, dtype=np.float32)|np.random.seed(0)
np.reshape(a, (3, 2))|np.atleast_2d(b)|np.atleast_3d(b)|np.expand_dims(c, 0)|np.load|np.float32(c)
np.sum(a, out=np.zeros(()))|np.random.rand(3).sum()|np.random.rand(3)[1:]|np.zeros((2, 3))[0]
np.concatenate((b, b)).reshape(2, 3)
np.full(3, 1)|np.full(3, 2.5)|np.full(3, -1.0)|np.hstack([a, a])
np.zeros(3)[0]|np.cov(b)|np.errstate()|np.zeros((n, n))[:n]
np.sqrt(a, a)|np.abs(b, b)|np.maximum(a, a, a)|np.nan_to_num(a, copy=False)|a.conj()
np.clip(a, 0, 1, a)
np.load("/dev/null", allow_pickle=True) if False else 1|[row for row in a][0]|[x for x in b][0]
"""


@pytest.mark.parametrize("expression", spelled())
def test_tables_say_what_numpy_does(expression: str) -> None:
    agrees(expression, value(expression))


@pytest.mark.parametrize("expression", [e for e in OTHERS.replace("\n", "|").split("|") if e])
def test_expressions(expression: str) -> None:
    agrees(expression, value(expression))


def test_no_name_stands_in_two_tables() -> None:
    functions = [
        *tables.FRESH, *tables.FILLED, *tables.LIKE, *tables.ELEMENTWISE, *tables.REDUCTIONS,
        *tables.VIEWS, *tables.SCALAR_TYPES, *tables.SPLITS,
    ]  # fmt: skip
    assert len(functions) == len(set(functions))


@pytest.mark.parametrize(
    ("expression", "kind", "rank", "fresh"),
    [
        pytest.param("np.stack(things)", Kind.NDARRAY, 1, True, id="stack of anything"),
        pytest.param("np.array(things)", Kind.NDARRAY, 0, True, id="array of anything"),
        pytest.param("np.array(things) / 255", Kind.NDARRAY, MAYBE_SCALAR, True, id="scaled"),
        pytest.param("np.array(things, copy=False)", Kind.NDARRAY, 0, False, id="array shares"),
        pytest.param("np.asarray(things)", Kind.NDARRAY, 0, False, id="asarray may share"),
        pytest.param(
            "np.random.normal(size=optional)", Kind.NDARRAY, -1, True, id="size from a parameter"
        ),
        pytest.param("np.random.rand(*things)", Kind.NDARRAY, -1, True, id="dimensions unknown"),
        pytest.param("np.random.normal(size=things)", Kind.NDARRAY, 1, True, id="size unknown"),
        pytest.param("np.zeros((3, *things))", Kind.NDARRAY, 1, True, id="dimensions starred"),
        pytest.param("np.load(things)", Kind.NDARRAY, 0, True, id="file"),
        pytest.param("np.load(things)['x']", Kind.NDARRAY, 0, True, id="member of an archive"),
        pytest.param("np.load(things, mmap_mode='r')", Kind.NDARRAY, 0, False, id="mapped"),
        pytest.param("a[things]", Kind.UNKNOWN, 0, False, id="index unknown"),
        pytest.param("a[:, things]", Kind.NDARRAY, 1, False, id="index unknown beside a slice"),
        pytest.param("np.mean(things, axis=0)", Kind.UNKNOWN, 0, False, id="axis of unknown"),
        pytest.param("np.sqrt(things)", Kind.UNKNOWN, 0, False, id="ufunc of unknown"),
        pytest.param("np.dot(things, a)", Kind.NDARRAY, 1, True, id="product with a matrix"),
        pytest.param("np.load(things).item()", Kind.UNKNOWN, 0, False, id="object in a file"),
        pytest.param("np.array(things, dtype=object)", Kind.UNKNOWN, 0, False, id="objects"),
        pytest.param("np.array('text')", Kind.UNKNOWN, 0, False, id="string"),
        pytest.param("np.array(*things)", Kind.UNKNOWN, 0, False, id="starred"),
        pytest.param("np.random.normal(*things)", Kind.UNKNOWN, 0, False, id="starred draw"),
        pytest.param("np.ma.array(things)", Kind.UNKNOWN, 0, False, id="masked array"),
        pytest.param("things.numpy()", Kind.NDARRAY, -1, False, id="numpy() of unknown"),
        pytest.param("np.sum(*things)", Kind.UNKNOWN, 0, False, id="starred reduction"),
        pytest.param("np.asarray(*things)", Kind.UNKNOWN, 0, False, id="starred view"),
        pytest.param("np.asarray('text')", Kind.UNKNOWN, 0, False, id="view of a string"),
        pytest.param("np.float32(things)", Kind.UNKNOWN, 0, False, id="cast of unknown"),
        pytest.param("np.float32()", Kind.NPSCALAR, 0, False, id="cast of nothing"),
    ],
)
def test_unknown_arguments(expression: str, kind: Kind, rank: int, fresh: bool) -> None:
    program = Program(f"{SETUP}\ndef f(things, optional=None):\n    return {expression}\n")
    found = program.value(program.index.of(cst.Return)[0].value)
    assert (found.kind, found.rank, found.fresh) == (kind, rank, fresh)


@pytest.mark.parametrize(
    ("code", "name"),
    [("np.float32", "float32"), ("'f4'", "float32"), ("float", "float64"), ("bool", "bool"),
     ("dtype", ""), ("np.int_", ""), ("'float64'", "float64"), ("f(x)", "")],
)  # fmt: skip
def test_dtype_named(code: str, name: str) -> None:
    assert dtype_named(cst.parse_expression(code)) == name
