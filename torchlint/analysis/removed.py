"""What a file uses that torch no longer has: the versions on which it cannot run any more."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.mentions import words
from torchlint.analysis.reach import forward_of
from torchlint.analysis.values import Kind
from torchlint.imports import MANY
from torchlint.syntax.chains import dotted
from torchlint.syntax.parsing import OldKeyword
from torchlint.syntax.scopes import Bind, Binding
from torchlint.target import stated_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from torchlint.analysis.program import Program
    from torchlint.analysis.project import Project

_OLD_ALGEBRA = ("symeig", "eig", "lstsq", "solve", "matrix_rank")  # they raise from 2.0 on at least
# Names by the first torch version without them; of torchtext and torchvision, by the version of
# torch that the first release without them is made for.  The sources are torch's release notes
# (linear algebra: 1.2 and 1.3) and the issues about what no longer ran on torch 1.0 (`load_lua`,
# `torch.legacy`), 1.2 (`_DataLoaderIter`), 1.8 (`rfft`) and 1.13 (`.next()`, pytorch issue 87955),
# and with torchvision 0.11 (`models.utils`) and 0.15 (`model_urls`).
# `torch.utils.serialization` itself is back since 2.6.
_REMOVED = {
    "torch.utils.ffi": Version("1.0"),
    "torch.utils.serialization.load_lua": Version("1.0"),
    "torch.legacy": Version("1.0"),
    "torch.utils.data.dataloader._DataLoaderIter": Version("1.2"),
    **{f"torch.{name}": Version("1.2") for name in ("gesv", "potrf", "trtrs")},
    "torch.gels": Version("1.3"),
    **{f"torch.{name}": Version("1.8") for name in ("rfft", "irfft", "ifft")},
    "torchvision.models.utils": Version("1.10"),
    **{
        f"torchvision.models.{name}.model_urls": Version("2.0")
        for name in ("alexnet", "densenet", "inception", "mobilenet", "resnet", "squeezenet", "vgg")
    },
    **{
        f"torchtext.data.{name}": Version("1.8")
        for name in ("Field", "RawField", "LabelField", "NestedField", "ReversibleField", "Example",
                     "TabularDataset", "Iterator", "BucketIterator", "BPTTIterator", "Batch")
    },
    "torchtext.legacy": Version("1.11"),
    "torchvision.transforms.Scale": Version("1.11"),
    "torchvision.transforms.RandomSizedCrop": Version("1.11"),
    "torch._six": Version("2.0"),
    **{f"torch.{name}": Version("2.0") for name in _OLD_ALGEBRA},
}  # fmt: skip
_STFT = Version("2.0")  # wants `return_complex` from here on, for real numbers (PR 86724)
_BEFORE_COMPLEX = 9  # parameters of it
_FFT = Version("1.8")  # `torch.fft` is a module from here on, and not to be called
_NEXT = Version("1.13")  # the iterators of loaders have no method `next` from here on
# Called by what needs them only, which other parts of a project may do without.
_CALLED = frozenset(
    f"torch.{name}"
    for name in (*_OLD_ALGEBRA, "gesv", "potrf", "trtrs", "gels", "rfft", "irfft", "ifft", "fft",
                 "stft")
)  # fmt: skip
_COUNTED = Version("0.4")  # `multinomial` has to be told how many from here on
_STATIC = Version("1.5")  # an autograd function has to be static from here on
INDEXED = Version("1.0")  # indexing a tensor without dimensions raises from here on
_VOLATILE = Version("0.4")  # `volatile=True` does nothing from here on: no_grad() does
# Written for torch 0.4 or later, which the file beside it need not be.
_NEWER = re.compile(
    r"\.item\(\)|no_grad|inference_mode|torch\.device|autocast|cuda\.amp|\.to\((?:self\.)?device"
)
_ENDED = (".data[0]", "utils.ffi")  # in files that end with torch 0.4
_TWO = 2  # training scripts that end there, of the few of a project that says nothing
_KEPT = Version("1.7")  # what is computed of a transposed tensor is transposed as well from here on
_ASYNC = re.compile(r"[(,]\s*async\s*=\s*(True|False)\b")  # `async` is a keyword since Python 3.7
_PYTHON_36 = Version("1.11")  # has no build for Python 3.6
_RANGE = Version("1.13")  # that of torchvision 0.14, whose images take `value_range` only
_IMAGES = ("torchvision.utils.make_grid", "torchvision.utils.save_image")
# Texts hold evidence that have one of these words, with what belongs to it.  Words are found much
# faster than any of many patterns.
_TRACES: dict[str, re.Pattern[str] | None] = {
    **dict.fromkeys((
        ".data[0]", "torchtext", "utils.ffi", "torch.symeig(", "torch.eig(", "torch.lstsq(",
        "torch.solve(", "load_lua", "torch.legacy", "_DataLoaderIter", "torch.gesv(",
        "torch.potrf(", "torch.trtrs(", "torch.gels(", "torch.rfft(", "torch.irfft(",
        "torch.ifft(", "torch.fft(", "torch.stft(", "torch.matrix_rank(",
        "torchvision.models.utils", ".next()", ".multinomial()",
    )),
    **{word: re.compile(words(word)) for word in ("Scale", "RandomSizedCrop")},
    **dict.fromkeys(("make_grid(", "save_image("), re.compile(r"[(,]\s*range\s*=")),
    "Function)": re.compile(r"\bclass\s+\w+\([\w.]*\bFunction\)"),
    "_six": re.compile(r"_six\b"),
    "async": re.compile(r"[(,]\s*async\s*="),
    "model_urls": re.compile(words("model_urls", then="")),
    ".data\n": re.compile(r"\+=[^\n#]*\.data\n"),
    "torch.__version__": re.compile(r"\n(?:assert|if)\b[^\n]*torch\.__version__"),
}  # fmt: skip
_VERSION = re.compile(r"""(?:int\()?torch\.__version__(?:(?:\.split\(["']\.["']\))?\[0\])?\)?""")
_NUMBER = re.compile(r"""["']?(\d+(?:\.\d+)*)\.?["']?""")
_MANY = re.compile(r"\(\s*1\s*,\s*\d+\s*,?\s*\)\s*\)")  # accuracy(output, target, topk=(1, 5))
_ALIKE = frozenset(
    {"exp", "log", "sqrt", "abs", "neg", "clone", "detach", "cpu", "cuda", "float", "double"}
)
_REDUCED = frozenset({"mean", "sum", "norm", "std", "var"})
# Losses whose first arguments are `weight`, `size_average`, `ignore_index`.
_IN_ORDER = frozenset({f"torch.nn.{name}" for name in ("CrossEntropyLoss", "NLLLoss", "NLLLoss2d")})
_LOSSES = frozenset(f"torch.nn.functional.{name}" for name in ("cross_entropy", "nll_loss"))
_DEPTH = 6
_STEPS = 6  # names and comparisons on the way from `correct` to `pred.t()`
_Stated = tuple[tuple[Version, str, bool], ...]
_ASKS = re.compile(r"version|hasattr|torch|legacy|compat|old|new", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Limit:
    """The first torch version that a file cannot run on, and the name or code that is gone."""

    version: Version
    code: str


def limit(program: Program) -> Limit | None:
    """Return where the versions end that a file, or one at most two imports away, runs on.

    What the project declares is believed before that.
    """
    found = min(_of_files(program), key=lambda one: one.version, default=None)
    if found is None or found.version > INDEXED:
        found = _of_siblings(program) or found
    if found is None or (program.target is not None and found.version <= program.target):
        return None
    return Limit(_VOLATILE, "volatile=True") if _is_volatile(program, found) else found


def _is_volatile(program: Program, found: Limit) -> bool:
    """Whether what torch 1.0 cannot run is written for 0.3: gradients are turned off as there."""
    dated = found.version <= INDEXED or found.code.startswith("async")
    if not dated or _NEWER.search(program.text) or _is_for_04(program, found):
        return False
    project = program.project
    return "volatile=True" in program.text or (
        project is not None and bool(project.imports.having(("volatile=True",)))
    )


def _is_for_04(program: Program, found: Limit) -> bool:
    """Whether what is gone was in use up to 0.4, and the file or one near it needs that version.

    ``loss.data[0]`` is no such thing: it was left over from 0.3 by then.
    """
    if found.code not in _REMOVED:
        return False
    project, path = program.project, program.path
    if _NEWER.search(program.text) or project is None or path is None:
        return _NEWER.search(program.text) is not None
    imports = project.imports
    return any(_NEWER.search(imports.text(name)) for name in imports.related(str(path)))


def _of_siblings(program: Program) -> Limit | None:
    """Return what ends at torch 0.4 in the project of a file, as far as that speaks for the file.

    Where a README names such a torch, one file is enough; else most scripts that train have to end.
    """
    project, path = program.project, program.path
    if project is None or path is None or not (likely := project.imports.having(_ENDED)):
        return None
    if len(likely) > MANY or _NEWER.search(program.text):
        return None
    for folder, stated in _nearest(project, path):
        if all(version < INDEXED and not floor for version, _, floor in stated):
            below = f"{folder}{os.sep}"
            return next(_ended(project, (one for one in likely if one.startswith(below))), None)
        return None
    training = project.imports.having((".backward()",))
    most = max(_TWO, len(training) // 2 + 1)
    ended = [*_ended(project, likely & training)] if len(likely & training) >= most else []
    return ended[0] if len(ended) >= most else None


def named(program: Program) -> Version | None:
    """Return the lowest torch version that the nearest README with some names."""
    if program.project is None or program.path is None:
        return None
    for _, stated in _nearest(program.project, program.path):
        return min(version for version, _, _ in stated)
    return None


def _nearest(project: Project, path: Path) -> Iterator[tuple[Path, _Stated]]:
    """Yield the folders around a file whose README names versions of torch, and these."""
    root = project.imports.root
    folders = (path.parent, *path.parent.parents)
    for folder in folders[: folders.index(root) + 1] if root in folders else ():
        if stated := _stated(folder):
            yield folder, stated


@functools.lru_cache(256)
def _stated(folder: Path) -> _Stated:
    return tuple(stated_in(folder))


def _ended(project: Project, files: Iterable[str]) -> Iterator[Limit]:
    """Yield what ends at torch 0.4 of each file that does."""
    for file in sorted(files):
        other = project.program(file)
        some = () if other is None else other.removed
        yield from [one for one in some if one.version <= INDEXED][:1]


def _of_files(program: Program) -> Iterator[Limit]:
    yield from program.removed
    project, path = program.project, program.path
    if project is None or path is None:
        return
    imports = project.imports
    targets = imports.targets(str(path))  # they run with the file, however many import them
    for name in sorted(targets.union(imports.related(str(path)))):
        text = imports.text(name)
        if not _has_traces(text):
            continue
        if (other := project.program(name)) is not None:
            near = name in targets
            yield from (one for one in other.removed if near or not _is_called(one))
        elif "async" in text and (written := _ASYNC.search(text)):  # Python 2 as well
            yield Limit(_PYTHON_36, written[0][1:].strip())


def _is_called(found: Limit) -> bool:
    return found.code in _CALLED or found.code.endswith(".next()")


@functools.lru_cache(1024)  # asked for each file near by
def _has_traces(text: str) -> bool:
    if ("(1," in text or "( 1" in text) and _MANY.search(text):
        return True
    return any(word in text and (of is None or of.search(text)) for word, of in _TRACES.items())


def own(program: Program) -> Iterator[Limit]:
    """Yield what a file itself uses, unless it asks first whether it is there."""
    if not _has_traces(program.text):
        return
    for keyword in program.index.of(OldKeyword):
        arg = program.parent(keyword)
        assert isinstance(arg, cst.Arg)
        yield Limit(_PYTHON_36, f"async={program.brief(arg.value)}")
    for kind in (cst.Attribute, cst.Name):
        for node in program.index.of(kind):
            name = _gone(program.qualified(node))
            if name and not _is_asked_for(program, node):
                yield Limit(_REMOVED[name], name)
    for statement in program.index.of(cst.ImportFrom):
        yield from _imported(program, statement)
    for test, holds in _refusals(program):
        if (version := _end(program, test, holds=holds)) is not None:
            yield Limit(version, program.code(test))
    for node in program.index.of(cst.Subscript):
        if _reads_first(program, node) and not _is_asked_for(program, node):
            yield Limit(INDEXED, program.code(node))
    for call in program.calls_of(*_IMAGES):
        if not _is_asked_for(program, call):
            given = [arg for arg in call.args if arg.keyword and arg.keyword.value == "range"]
            yield from (Limit(_RANGE, f"range={program.brief(arg.value)}") for arg in given)
    for call in program.calls_of("torch.fft"):
        if not _is_asked_for(program, call):
            yield Limit(_FFT, "torch.fft")
    for call in program.calls_of("torch.stft"):
        if not _says_complex(program, call) and not _is_asked_for(program, call):
            yield Limit(_STFT, "torch.stft")
    for call, func in program.method_calls("next"):
        if _is_of_loader(program, func.value) and not _is_tried(program, call):
            yield Limit(_NEXT, program.code(call))
    for call, _ in program.method_calls("multinomial"):
        if not call.args and not _defines(program, "multinomial"):
            yield Limit(_COUNTED, program.code(call))
    for owner in program.classes:
        forward = owner.methods.get("forward")
        if forward is not None and _is_legacy(owner.bases, forward):
            yield Limit(_STATIC, f"{owner.name}.forward")
    for call in program.index.of(cst.Call):
        if _asks_for_many(call) and not _is_asked_for(program, call):
            yield from _flattened(program, call)


def _is_legacy(bases: Iterable[str], forward: cst.FunctionDef) -> bool:
    """``class Sign(Function): def forward(self, x)``: a function of autograd that keeps state."""
    return "torch.autograd.Function" in bases and not forward.decorators


def _says_complex(program: Program, call: cst.Call) -> bool:
    """Whether `torch.stft` is given ``return_complex``, or may be, or complex numbers."""
    said = any(arg.star or "complex" in program.code(arg) for arg in call.args)
    return said or len(call.args) > _BEFORE_COMPLEX


def _is_of_loader(program: Program, node: cst.BaseExpression) -> bool:
    """Whether an expression is ``iter(loader)`` of a loader of torch, or a name for it."""
    match node:
        case cst.Name():
            made = program.flow.reaching(node)
            return bool(made) and all(
                one.is_plain
                and isinstance(one.value, cst.Call)
                and _is_of_loader(program, one.value)
                for one in made
            )
        case cst.Call(func=cst.Name(value="iter"), args=[cst.Arg(value=loader)]):
            named = dotted(loader).lower().endswith("loader")
            is_loader = program.value(loader).kind is Kind.LOADER
            return is_loader or (named and not _may_be_anothers(program))
        case _:
            return False


def _may_be_anothers(program: Program) -> bool:
    """Whether what is called a loader may be one whose iterators do have a method ``next``."""
    return _defines(program, "next") or _has(program, "nvidia.dali")


def _defines(program: Program, method: str) -> bool:
    """Whether a project has a method of a name itself."""
    return _has(program, f"def {method}(")


def _has(program: Program, text: str) -> bool:
    project = program.project
    return text in program.text or (project is not None and bool(project.imports.having((text,))))


def _is_tried(program: Program, call: cst.Call) -> bool:
    """Whether a call of ``next`` may fail, and something else is done then."""
    for above in program.index.ancestors(call):
        match above:
            case cst.Try(body=body, handlers=handlers):
                again = all(".next()" in program.code(one) for one in handlers)
                if not (handlers and again and program.index.inside(call, body)):
                    return True
            case _:
                pass
    return _is_asked(program, call)


def _refusals(program: Program) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Yield what has to hold, or must not, wherever a file is run or imported."""
    for statement in program.module.body:
        match statement:
            case cst.SimpleStatementLine(body=[cst.Assert(test=test)]):
                yield test, True
            case cst.If(
                test=test,
                body=cst.IndentedBlock(body=[*_, cst.SimpleStatementLine(body=[*_, cst.Raise()])]),
            ):
                yield test, False
            case _:
                pass


def _end(program: Program, test: cst.BaseExpression, *, holds: bool) -> Version | None:
    """Return where the versions of torch end for which a condition holds, or does not."""
    match test:
        case cst.Comparison(left, [cst.ComparisonTarget(operator, right)]):
            pass
        case cst.Call(func=cst.Attribute(left, cst.Name("startswith")), args=[cst.Arg(right)]):
            operator = cst.Equal()
        case _:
            return None
    number = _NUMBER.fullmatch(program.code(right))
    if number is None or not _VERSION.fullmatch(program.code(left)):
        return None
    below, only = (cst.LessThan, cst.Equal) if holds else (cst.GreaterThanEqual, cst.NotEqual)
    if isinstance(operator, below):
        return Version(number[1])
    return Version(str(Version(number[1]).major + 1)) if isinstance(operator, only) else None


def _asks_for_many(call: cst.Call) -> bool:
    """``accuracy(output, target, topk=(1, 5))``: a call given numbers of which one is above 1."""
    match call.args[-1:]:
        case [cst.Arg(value=cst.Tuple(elements=[_, *_] as items))]:
            numbers = [item.value for item in items if isinstance(item.value, cst.Integer)]
            return len(numbers) == len(items) and any(number.value > "1" for number in numbers)
        case _:
            return False


def _flattened(program: Program, call: cst.Call) -> Iterator[Limit]:
    """``correct[:k].view(-1)`` in what a call runs, where ``correct`` comes of ``pred.t()``.

    Its rows are the columns of what was transposed, and more than one of them are no view.
    """
    home, function = program, program.calls.target(call)
    if function is None:
        elsewhere = program.calls.elsewhere(call)
        if elsewhere is None:
            return
        home, function = elsewhere.program, elsewhere.function
    for view, func in home.method_calls("view"):
        if (
            home.function(view) is function
            and _is_all(view)
            and (rows := _cut(func.value)) is not None
            and _is_transposed(home, rows)
            and not _is_asked_for(home, view)
        ):
            yield Limit(_KEPT, home.code(view))


def _is_all(call: cst.Call) -> bool:
    """``.view(-1)``."""
    match call.args:
        case [cst.Arg(value=cst.UnaryOperation(cst.Minus(), cst.Integer(value="1")))]:
            return True
        case _:
            return False


def _cut(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return ``correct`` of ``correct[:k]``."""
    match node:
        case cst.Subscript(
            value=whole,
            slice=[cst.SubscriptElement(slice=cst.Slice(lower=None, upper=cst.Name(), step=None))],
        ):
            return whole
        case _:
            return None


def _is_transposed(program: Program, node: cst.BaseExpression) -> bool:
    """``pred.t()``, or a comparison of it with what has its shape."""
    for _ in range(_STEPS):
        match node:
            case cst.Name():
                made = list(program.flow.reaching(node))
                if len(made) != 1 or made[0].path:
                    return False
                if not isinstance(made[0].value, cst.BaseExpression):
                    return False
                node = made[0].value
            case cst.Call(func=cst.Attribute(value=left, attr=cst.Name(value="eq")), args=[_]):
                node = left
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(cst.Equal())]):
                node = left
            case cst.Call(func=cst.Attribute(attr=cst.Name(value="t")), args=[]):
                return True
            case _:
                return False
    return False


def _imported(program: Program, statement: cst.ImportFrom) -> Iterator[Limit]:
    """``from torch._six import inf``, used or not."""
    if statement.relative or statement.module is None or _is_asked_for(program, statement):
        return
    module = dotted(statement.module)
    names = statement.names if not isinstance(statement.names, cst.ImportStar) else ()
    for name in (module, *(f"{module}.{dotted(alias.name)}" for alias in names)):
        if gone := _gone(name):
            yield Limit(_REMOVED[gone], gone)


def _gone(name: str) -> str:
    """Return what torch no longer has of a name: `torchtext.legacy` of `torchtext.legacy.data`."""
    while name and name not in _REMOVED:
        name = name.rpartition(".")[0]
    return name


def _reads_first(program: Program, node: cst.Subscript) -> bool:
    """``loss.data[0]`` of what has no dimensions, and ``total[0]`` of a sum of such numbers."""
    if old_item(program, node) is not None:
        return True
    match node:
        case cst.Subscript(value=cst.Name() as name, slice=[cst.SubscriptElement(slice=place)]):
            return ".data\n" in program.text and _is_zero(place) and _is_total(program, name)
        case _:
            return False


def old_item(program: Program, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the tensor that ``loss.data[0]`` reads: ``loss.item()`` as it was up to torch 0.4.

    Only of what has no dimensions: of any other it is a part, which nothing waits for.
    """
    match node:
        case cst.Subscript(
            value=cst.Attribute(value=tensor, attr=cst.Name(value="data")),
            slice=[cst.SubscriptElement(slice=place)],
        ) if _is_zero(place) and _is_number(program, tensor, 0):
            return tensor
        case _:
            return None


def _is_zero(place: cst.BaseSlice) -> bool:
    match place:
        case cst.Index(value=cst.Integer(value="0")):
            return True
        case _:
            return False


def _is_total(program: Program, name: cst.Name) -> bool:
    """``total``, which is 0 to begin with, and to which ``loss.data`` is added."""
    owner = program.index.scope(name).owner(name.value)
    sums = []
    for binding in () if owner is None else owner.bindings[name.value]:
        match binding:
            case Binding(kind=Bind.AUGMENT, value=cst.AugAssign() as sums_up):
                sums.append(sums_up)
            case Binding(is_plain=True, value=cst.Integer() | cst.Float()):
                pass
            case _:
                return False
    return bool(sums) and all(
        isinstance(one.operator, cst.AddAssign) and _is_data(program, one.value) for one in sums
    )


def _is_data(program: Program, node: cst.BaseExpression) -> bool:
    """``loss.data`` or ``len(x) * loss.data`` of what has no dimensions."""
    match node:
        case cst.BinaryOperation(
            left=cst.Call(func=cst.Name(value="len")), operator=cst.Multiply(), right=right
        ):
            return _is_data(program, right)
        case cst.Attribute(value=value, attr=cst.Name(value="data")):
            return _is_number(program, value, 0)
        case _:
            return False


def _is_number(program: Program, node: cst.BaseExpression, depth: int) -> bool:
    """Whether a tensor is known to have no dimensions: a loss, a mean, what is computed of them."""
    if depth > _DEPTH:
        return False
    match node:
        case cst.Name():
            return (
                _starts_backward(program, node)
                or _is_part(program, node)
                or _is_made_so(program, node, depth)
            )
        case cst.Attribute(value=cst.Name(value="self")):
            return _starts_backward_in_class(program, node)
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _is_number(program, inner, depth + 1)
        case cst.BinaryOperation(left=left, right=right):
            sides = (left, right)
            return all(
                isinstance(side, cst.Integer | cst.Float) or _is_number(program, side, depth + 1)
                for side in sides
            )
        case cst.Call(func=func, args=args):
            name = program.qualified(func)
            if name in _LOSSES:
                return _is_of_all(args, 2)
            kind, _, last = name.rpartition(".")
            if kind == "torch" and len(args) == 1:
                inside = last in _ALIKE and _is_number(program, args[0].value, depth + 1)
                return inside or last in _REDUCED
            if isinstance(func, cst.Attribute) and not name and not args:
                last = func.attr.value
                inside = last in _ALIKE and _is_number(program, func.value, depth + 1)
                return inside or last in _REDUCED
            return _is_loss(program, func, depth)
        case _:
            return False


def _is_loss(program: Program, func: cst.BaseExpression, depth: int) -> bool:
    """Whether a loss of torch, or a module that returns one, gives the mean, or the sum, of all."""
    value = program.value(func)
    if value.kind is not Kind.MODULE:
        return False
    match value.made:
        case cst.Call(args=args) if value.type.startswith("torch.nn."):
            named = value.type.endswith(("Loss", ".NLLLoss2d"))
            return named and _is_of_all(args, 3 if value.type in _IN_ORDER else 0)
        case _:
            found = forward_of(program, value)
            return found is not None and _returns_numbers(*found, depth)


def _is_of_all(args: Sequence[cst.Arg], most: int) -> bool:
    """Whether a loss is given nothing that makes it keep a number for each sample."""
    words = [arg.keyword.value if arg.keyword else arg.star for arg in args]
    return {*words} - {""} <= {"weight", "ignore_index", "size_average"} and words.count("") <= most


def _returns_numbers(program: Program, function: cst.FunctionDef, depth: int) -> bool:
    results = [result.value for result in program.returns(function)]
    return bool(results) and all(
        result is not None and _is_number(program, result, depth + 1) for result in results
    )


def _is_made_so(program: Program, name: cst.Name, depth: int) -> bool:
    made = program.flow.reaching(name)
    return bool(made) and all(
        one.is_plain
        and isinstance(one.value, cst.BaseExpression)
        and _is_number(program, one.value, depth + 1)
        for one in made
    )


def _starts_backward(program: Program, name: cst.Name) -> bool:
    """``loss.backward()`` in the same function: it takes no other."""
    function = program.function(name)
    return any(
        not call.args
        and isinstance(func.value, cst.Name)
        and func.value.value == name.value
        and program.function(call) is function
        for call, func in program.method_calls("backward")
    )


def _starts_backward_in_class(program: Program, node: cst.Attribute) -> bool:
    """``self.loss.backward()`` in a method of the same class: another may read the loss."""
    owner = program.classes.around(node)
    return owner is not None and any(
        not call.args
        and dotted(func.value) == dotted(node)
        and program.classes.around(call) is owner
        for call, func in program.method_calls("backward")
    )


def _is_part(program: Program, name: cst.Name) -> bool:
    """``loss = name + 0.4 * other``, which starts a backward pass in the same function.

    A parameter or variable that was made with one element has that many in the sum as well.
    """
    made = program.flow.reaching(name)
    function = program.function(name)
    return all(
        one.kind is Bind.ASSIGN and _is_computed(program, one.value) for one in made
    ) and any(
        one.is_plain and name.value in _addends(one.value)
        for call, func in program.method_calls("backward")
        if not call.args and isinstance(func.value, cst.Name) and program.function(call) is function
        for one in program.flow.reaching(func.value)
    )


def _is_computed(program: Program, node: object) -> bool:
    if not isinstance(node, cst.Call):
        return False
    name = program.qualified(node.func)
    return not name.startswith("torch.") or name.startswith("torch.nn.functional.")


def _addends(node: object) -> Iterator[str]:
    """Yield the names of a sum, also those that a number is multiplied by."""
    match node:
        case cst.Name(value=name):
            yield name
        case cst.BinaryOperation(left, cst.Add() | cst.Subtract(), right):
            yield from _addends(left)
            yield from _addends(right)
        case cst.BinaryOperation(cst.Float() | cst.Integer(), cst.Multiply(), one) | (
            cst.BinaryOperation(one, cst.Multiply() | cst.Divide(), cst.Float() | cst.Integer())
        ):
            yield from _addends(one)
        case _:
            pass


def _is_asked_for(program: Program, node: cst.CSTNode) -> bool:
    """Whether code runs only where it works: in ``try``, or after a look at the version."""
    tries = (cst.Try, cst.TryStar, cst.ExceptHandler)
    return _is_asked(program, node) or any(
        isinstance(above, tries) for above in program.index.ancestors(node)
    )


def _is_asked(program: Program, node: cst.CSTNode) -> bool:
    """Whether code runs only after a look at the version."""
    return any(
        isinstance(above, cst.If | cst.IfExp) and _ASKS.search(program.code(above.test)) is not None
        for above in program.index.ancestors(node)
    )
